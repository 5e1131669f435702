//! Converts `bf16`, the brain floating-point format, with NEON.

use std::arch::aarch64::*;
use std::arch::asm;

use super::registers::Floats;

/// Converts the upper halves of floats.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn floats_of_bf16([a, b]: [uint16x8_t; 2]) -> Floats {
    let zero = vdupq_n_u16(0);
    [vzip1q_u16(zero, a), vzip2q_u16(zero, a), vzip1q_u16(zero, b), vzip2q_u16(zero, b)]
        .map(|bits| vreinterpretq_f32_u16(bits))
}

/// Adds to the bits of floats what makes their upper halves the rounded ones once 0x7fff is added:
/// 1 if the last bit of the upper half is set. Ties become even. Not for NaN, whose low bits may
/// round it to infinity.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn nearly_rounded(a: float32x4_t) -> uint32x4_t {
    let bits = vreinterpretq_u32_f32(a);
    vaddq_u32(bits, vandq_u32(vshrq_n_u32::<16>(bits), vdupq_n_u32(1)))
}

/// Rounds to `bf16`, with the instructions for it; the compiler has no stable intrinsics for them.
#[inline]
#[target_feature(enable = "neon,bf16")]
pub(super) fn bf16_of_floats([a, b, c, d]: Floats) -> [uint16x8_t; 2] {
    [[a, b], [c, d]].map(|[a, b]| {
        let mut halves: uint16x8_t;
        // SAFETY: computes with registers.
        unsafe {
            asm!(
                "bfcvtn {halves:v}.4h, {a:v}.4s",
                a = in(vreg) a,
                halves = lateout(vreg) halves,
                options(pure, nomem, nostack, preserves_flags)
            );
            asm!(
                "bfcvtn2 {halves:v}.8h, {b:v}.4s",
                b = in(vreg) b,
                halves = inlateout(vreg) halves,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        halves
    })
}
