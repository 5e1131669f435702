//! Plain dtypes: floats, integers and booleans. Integers beyond 2^24 round to the nearest `f32`, ties to even.

use super::codec::{Codec, Decoder, Elements, Plain, plain};
use super::float::{E2M3, E3M2, E4M3FNUZ, E5M2FNUZ, e8m0};
use super::narrowing::Narrowing;
use super::packed::Packed;
use super::runs::Runs;
use super::simd::Simd;

/// Converts 16 elements of `N` bytes each to floats.
#[inline(always)]
fn each<S: Simd, const N: usize, const WIDE: usize>(
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

/// Decodes 16 elements of 6 bits from a bit stream, lowest bits first.
#[inline(always)]
fn sixes<S: Simd>(simd: S, bytes: &[u8; 12], table: &[f32; 64]) -> S::Floats {
    let mut stream = [0; 16];
    stream[..12].copy_from_slice(bytes);
    let stream = u128::from_le_bytes(stream);
    simd.load(&std::array::from_fn(|i| table[(stream >> (6 * i)) as usize & 63]))
}

plain! {
    plain:
    F32: 64 FINE, |simd, bytes| simd.f32s(bytes);
    F16: 32 COARSE, |simd, bytes| simd.f16s(bytes);
    BF16: 32 FINE, |simd, bytes| simd.bf16s(bytes);
    F8_E4M3: 16 COARSE, |simd, bytes| simd.e4m3(simd.halves(bytes, bytes))[0];
    /// The upper bytes of `f16` numbers.
    F8_E5M2: 16 COARSE, |simd, bytes| {
        simd.f16s(&std::array::from_fn(|i| if i % 2 == 0 { 0 } else { bytes[i / 2] }))
    };
    F8_E4M3FNUZ: 16 COARSE, |simd, bytes| each(simd, bytes, |[b]| E4M3FNUZ[usize::from(b)]);
    F8_E5M2FNUZ: 16 COARSE, |simd, bytes| each(simd, bytes, |[b]| E5M2FNUZ[usize::from(b)]);
    F6_E2M3: 12 COARSE, |simd, bytes| sixes(simd, bytes, &E2M3);
    F6_E3M2: 12 COARSE, |simd, bytes| sixes(simd, bytes, &E3M2);
    /// The low nibble holds the first of two elements.
    F4: 8 COARSE, |simd, bytes| {
        let mut pairs = [0; 16];
        pairs[..8].copy_from_slice(bytes);
        simd.e2m1(simd.nibble_pairs(&pairs))[0]
    };
}

plain! {
    seldom:
    F8_E8M0: 16 FINE, |simd, bytes| each(simd, bytes, |[b]| match b {
        // The specification of the format has NaN here; MLX has infinity, see `e8m0`.
        255 => f32::NAN,
        b => e8m0(b),
    });
}

/// IEEE double precision; rounds to nearest, ties to even.
pub(crate) static F64: Codec = {
    struct Body;
    impl Plain<128> for Body {
        const FINE: bool = true;

        #[inline(always)]
        fn sixteen<S: Simd>(simd: S, bytes: &[u8; 128]) -> S::Floats {
            each(simd, bytes, |b| to_f32(f64::from_le_bytes(b)))
        }
    }
    let runs = Runs::seldom::<Elements<Body, 128>>();
    Codec(Decoder::Runs(Runs { lost: Some(lost), ..runs }))
};

#[expect(clippy::cast_possible_truncation, reason = "rounds to the nearest, ties to even")]
fn to_f32(value: f64) -> f32 {
    value as f32
}

/// Counts the doubles that overflow or flush to 0 in `f32`.
fn lost(packed: &Packed<'_>) -> Narrowing {
    let values = || packed.weight.as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes));
    let over = values().filter(|value| value.is_finite() && to_f32(*value).is_infinite()).count();
    let under = values().filter(|value| *value != 0.0 && to_f32(*value) == 0.0).count();
    let mut lost = Narrowing::default();
    lost.count(over, under);
    lost
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
