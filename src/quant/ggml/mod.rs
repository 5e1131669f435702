//! Block dtypes of ggml. Each multiplication and addition rounds to `f32` on its own, as in ggml's
//! default build, which has no fused multiply-add.

mod fp4;
mod legacy;

pub(crate) use fp4::MXFP4;
pub(crate) use legacy::{Q4_0, Q8_0};

/// A block's scale: two bytes of IEEE half precision.
#[inline(always)]
fn scale(low: u8, high: u8) -> f32 {
    half::f16::from_le_bytes([low, high]).to_f32()
}
