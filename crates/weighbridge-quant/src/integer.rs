//! Integers and booleans. Values beyond 2^24 round to the nearest `f32`, ties to even.

use super::plain;
use super::simd::Simd;

/// Converts 16 elements of `N` bytes each to floats.
#[inline(always)]
pub(super) fn each<S: Simd, const N: usize, const WIDE: usize>(
    simd: S,
    bytes: &[u8; WIDE],
    value: impl Fn([u8; N]) -> f32,
) -> S::Floats {
    let mut floats = [0.0; 16];
    for (float, bytes) in floats.iter_mut().zip(bytes.as_chunks::<N>().0) {
        *float = value(*bytes);
    }
    simd.load(&floats)
}

plain! {
    seldom:
    I8: 16 COARSE, |simd, bytes| simd.signed(simd.halves(bytes, bytes))[0];
    U8: 16 COARSE, |simd, bytes| simd.unsigned(simd.halves(bytes, bytes))[0];
    I16: 32 COARSE, |simd, bytes| each(simd, bytes, |b| f32::from(i16::from_le_bytes(b)));
    U16: 32 FINE, |simd, bytes| each(simd, bytes, |b| f32::from(u16::from_le_bytes(b)));
    I32: 64 FINE, |simd, bytes| each(simd, bytes, |b| i32::from_le_bytes(b) as f32);
    U32: 64 FINE, |simd, bytes| each(simd, bytes, |b| u32::from_le_bytes(b) as f32);
    I64: 128 FINE, |simd, bytes| each(simd, bytes, |b| i64::from_le_bytes(b) as f32);
    U64: 128 FINE, |simd, bytes| each(simd, bytes, |b| u64::from_le_bytes(b) as f32);
    /// One byte each. Files contain other values than 0 and 1; everything but 0 is true.
    BOOL: 16 COARSE, |simd, bytes| each(simd, bytes, |[b]| f32::from(u8::from(b != 0)));
}
