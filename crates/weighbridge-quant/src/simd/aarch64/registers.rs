//! The types that registers of NEON hold, and the operations that all conversions need.
#![allow(unsafe_code, reason = "a load; see `load`")]

use std::arch::aarch64::*;

/// 32 bytes.
pub(super) type Bytes = [uint8x16_t; 2];
/// 16 floats.
pub(super) type Floats = [float32x4_t; 4];
/// 16 words, or 16 booleans as words of ones or zeros.
pub(super) type Words = [uint32x4_t; 4];

/// A bit for each byte of 8.
pub(super) const WEIGHTS: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];

#[inline]
#[target_feature(enable = "neon")]
pub(super) fn load(from: &[u8; 16]) -> uint8x16_t {
    // SAFETY: reads 16 bytes, which need not be aligned.
    unsafe { vld1q_u8(from.as_ptr()) }
}

/// The bits of floats without their signs.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn magnitudes(a: float32x4_t) -> uint32x4_t {
    vreinterpretq_u32_f32(vabsq_f32(a))
}
