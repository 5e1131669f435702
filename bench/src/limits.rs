//! This machine's limits: how fast it reads and writes given numbers of bytes with almost no
//! computation between, using the widest vectors available.

use std::arch::x86_64::*;

/// The bytes that are read and written alternately: the smallest whole number of blocks that fills
/// 4 KiB of output, in steps of one vector.
const STEP: usize = 4096;

/// Writes `out`, with streaming stores if requested, while reading `input` at an even rate.
pub fn traffic(input: &[u8], out: &mut [u8], past: bool) {
    assert!(out.len().is_multiple_of(STEP) && out.as_ptr().align_offset(64) == 0);
    assert!(input.len() >= 64);
    // SAFETY: the features are detected; ranges are checked above and in `plan`.
    unsafe {
        match (is_x86_feature_detected!("avx512f"), past) {
            (true, true) => traffic512::<true>(input, out),
            (true, false) => traffic512::<false>(input, out),
            (false, true) => traffic256::<true>(input, out),
            (false, false) => traffic256::<false>(input, out),
        }
    }
}

#[target_feature(enable = "avx2")]
unsafe fn traffic256<const PAST: bool>(input: &[u8], out: &mut [u8]) {
    let steps = out.len() / STEP;
    let (mut at, mut to) = (0, out.as_mut_ptr());
    for step in 0..steps {
        // One load for each vector in this step's share of the input.
        let end = (input.len() - 32) * (step + 1) / steps;
        let loads = ((end - at) / 32).max(1);
        let stores = STEP / 32 / loads;
        let mut left = STEP / 32;
        for load in 0..loads {
            // SAFETY: `end` leaves a vector to the end of the input; stores add up to a step.
            unsafe {
                let value = _mm256_loadu_si256(input.as_ptr().add(at + 32 * load).cast());
                let now = if load + 1 == loads { left } else { stores };
                left -= now;
                for number in 0..now {
                    let value = _mm256_add_epi32(value, _mm256_set1_epi32(number as i32));
                    if PAST {
                        _mm256_stream_si256(to.cast(), value);
                    } else {
                        _mm256_storeu_si256(to.cast(), value);
                    }
                    to = to.add(32);
                }
            }
        }
        at = end;
    }
    _mm_sfence();
}

#[target_feature(enable = "avx512f")]
unsafe fn traffic512<const PAST: bool>(input: &[u8], out: &mut [u8]) {
    let steps = out.len() / STEP;
    let (mut at, mut to) = (0, out.as_mut_ptr());
    for step in 0..steps {
        let end = (input.len() - 64) * (step + 1) / steps;
        let loads = ((end - at) / 64).max(1);
        let stores = STEP / 64 / loads;
        let mut left = STEP / 64;
        for load in 0..loads {
            // SAFETY: as above.
            unsafe {
                let value = _mm512_loadu_si512(input.as_ptr().add(at + 64 * load).cast());
                let now = if load + 1 == loads { left } else { stores };
                left -= now;
                for number in 0..now {
                    let value = _mm512_add_epi32(value, _mm512_set1_epi32(number as i32));
                    if PAST {
                        _mm512_stream_si512(to.cast(), value);
                    } else {
                        _mm512_storeu_si512(to.cast(), value);
                    }
                    to = to.add(64);
                }
            }
        }
        at = end;
    }
    _mm_sfence();
}

/// `bf16` to `f32` with cached stores: the limit for data that stays in the cache.
pub fn bf16_to_f32(input: &[u8], out: &mut [f32]) {
    assert!(input.len() == 2 * out.len() && out.len().is_multiple_of(32));
    // SAFETY: the features are detected; lengths are checked.
    unsafe {
        if is_x86_feature_detected!("avx512f") {
            bf16_512(input, out)
        } else {
            bf16_256(input, out)
        }
    }
}

#[target_feature(enable = "avx2")]
unsafe fn bf16_256(input: &[u8], out: &mut [f32]) {
    for (input, out) in input.as_chunks::<32>().0.iter().zip(out.as_chunks_mut::<16>().0) {
        // SAFETY: 32 bytes in, 64 bytes out.
        unsafe {
            for half in 0..2 {
                let value = _mm_loadu_si128(input.as_ptr().add(16 * half).cast());
                let value = _mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(value));
                _mm256_storeu_si256(out.as_mut_ptr().add(8 * half).cast(), value);
            }
        }
    }
}

#[target_feature(enable = "avx512f")]
unsafe fn bf16_512(input: &[u8], out: &mut [f32]) {
    for (input, out) in input.as_chunks::<32>().0.iter().zip(out.as_chunks_mut::<16>().0) {
        // SAFETY: 32 bytes in, 64 bytes out.
        unsafe {
            let value = _mm256_loadu_si256(input.as_ptr().cast());
            let value = _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(value));
            _mm512_storeu_si512(out.as_mut_ptr().cast(), value);
        }
    }
}
