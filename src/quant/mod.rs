//! Numbers: how the bytes of a dtype become `f32` values. Knows blocks of bytes, not files.

mod float;
mod ggml;
mod integer;
mod mlx;

pub(crate) use float::{BF16, F16, F32, F64};
pub(crate) use ggml::{MXFP4, Q4_0, Q8_0};
pub(crate) use integer::{BOOL, I8, I16, I32, I64, U8, U16, U32, U64};
pub(crate) use mlx::{
    AFFINE1, AFFINE2, AFFINE3, AFFINE4, AFFINE5, AFFINE6, AFFINE8, FP4, FP8, Float, GroupDecode,
    Groups,
};

/// The routines of one dtype.
#[derive(Debug)]
pub struct Codec(pub(crate) Decode);

/// How values are decoded.
#[derive(Debug)]
pub(crate) enum Decode {
    /// From whole blocks of little-endian bytes: as many values as there is room for.
    Blocks(fn(&[u8], &mut [f32])),
    /// From whole groups with their scales and biases.
    Groups(GroupDecode),
}

impl Codec {
    const fn new(decode: fn(&[u8], &mut [f32])) -> Self {
        Self(Decode::Blocks(decode))
    }

    const fn groups(decode: GroupDecode) -> Self {
        Self(Decode::Groups(decode))
    }
}

/// Applies `value` to each element of `N` bytes.
#[inline(always)]
fn each<const N: usize>(bytes: &[u8], out: &mut [f32], value: impl Fn([u8; N]) -> f32) {
    for (out, &bytes) in out.iter_mut().zip(bytes.as_chunks::<N>().0) {
        *out = value(bytes);
    }
}

/// Applies `block` to each block of `BYTES` bytes and `LEN` values.
#[inline(always)]
fn blocks<const BYTES: usize, const LEN: usize>(
    bytes: &[u8],
    out: &mut [f32],
    block: impl Fn(&[u8; BYTES], &mut [f32; LEN]),
) {
    let (out, _) = out.as_chunks_mut::<LEN>();
    for (out, bytes) in out.iter_mut().zip(bytes.as_chunks::<BYTES>().0) {
        block(bytes, out);
    }
}
