//! E2M1 codes with E8M0 or E4M3 scales. Codes and scales keep their bytes. The values in both
//! packings are compared: they differ for a few scales, and in the order in which the global scale
//! is applied.

use std::array::from_fn;
use std::marker::PhantomData;

use super::{NotExact, RepackInput, RepackKernel, Repacker, block, room};
use crate::float::{E2M1, E4M3, e8m0};
use crate::ggml::{DOUBLED, HALF_UE4M3, half_e8m0};
use crate::kernel::{KernelBody, Kernels};
use crate::simd::Simd;
use crate::{Global, GroupParts, Packed};

pub(crate) static BLOCKS_TO_MX: Repacker = between::<MxBlocks, MxGroups, 1>();
pub(crate) static MX_TO_BLOCKS: Repacker = between::<MxGroups, MxBlocks, 1>();
pub(crate) static MX_TO_MX: Repacker = between::<MxGroups, MxGroups, 1>();
pub(crate) static BLOCKS_TO_NV: Repacker = between::<NvBlocks, NvGroups, 2>();
pub(crate) static NV_TO_BLOCKS: Repacker = between::<NvGroups, NvBlocks, 2>();
pub(crate) static NV_TO_NV: Repacker = between::<NvGroups, NvGroups, 2>();

const fn between<F: Small<SCALES>, T: Small<SCALES>, const SCALES: usize>() -> Repacker {
    Repacker(Kernels::of::<SmallFloatRepack<F, T, SCALES>>())
}

/// A packing of 32 codes with `SCALES` scales.
trait Small<const SCALES: usize> {
    /// The value of a code, rounded in the same order as in its codec.
    fn value(code: usize, scale: u8, global: Global) -> f32;

    /// Reads run `number`; `None` after the last. If the last run is only a half, zeros follow.
    fn take<S: Simd>(simd: S, from: &Packed<'_>, number: usize)
    -> Option<(S::Bytes, [u8; SCALES])>;

    /// Writes run `number`, as far as it fits.
    fn put<S: Simd>(
        simd: S,
        codes: S::Bytes,
        scales: [u8; SCALES],
        number: usize,
        to: &mut GroupParts<'_>,
    );
}

/// Repacks 32 codes at a time.
struct SmallFloatRepack<F, T, const SCALES: usize>(PhantomData<(F, T)>);

impl<F: Small<SCALES>, T: Small<SCALES>, const SCALES: usize> KernelBody<RepackKernel>
    for SmallFloatRepack<F, T, SCALES>
{
    #[inline(always)]
    fn run<S: Simd>(simd: S, mut given: RepackInput<'_>) -> Option<NotExact> {
        let (from, to) = (given.from.global, given.global);
        // For each scale seen so far, a bit for each code with the same value in both packings.
        let mut same: [Option<u16>; 256] = [None; 256];
        for number in 0..given.elements.div_ceil(32) {
            let (codes, scales) = F::take(simd, &given.from, number)?;
            for (part, scale) in scales.into_iter().enumerate() {
                let same = *same[usize::from(scale)].get_or_insert_with(|| {
                    let equal = |code: &usize| {
                        let (a, b) = (F::value(*code, scale, from), T::value(*code, scale, to));
                        a == b || a.is_nan() && b.is_nan()
                    };
                    (0..16).filter(equal).fold(0, |all, code| all | 1 << code)
                });
                if same != u16::MAX && !all_in(simd, same, codes, part * 16, 32 / SCALES) {
                    let fault = "a scale that has another value in the target packing";
                    let value = F::value(2, scale, from);
                    return Some(NotExact { fault, value, element: 32 * number + 16 * part });
                }
            }
            T::put(simd, codes, scales, number, &mut given.to);
        }
        None
    }
}

/// Whether `count` codes, from position `at`, have their bits in `set`.
#[cold]
#[inline(never)]
fn all_in<S: Simd>(simd: S, set: u16, codes: S::Bytes, at: usize, count: usize) -> bool {
    let mut bytes = [0; 32];
    simd.stream::<8>(codes, &mut bytes);
    bytes.iter().skip(at).take(count).all(|code| set >> (code & 15) & 1 == 1)
}

/// ggml's blocks of one E8M0 scale and 16 bytes of nibbles.
struct MxBlocks;

impl Small<1> for MxBlocks {
    #[inline(always)]
    fn value(code: usize, scale: u8, global: Global) -> f32 {
        of_block(code, half_e8m0(scale), global)
    }

    #[inline(always)]
    fn take<S: Simd>(simd: S, from: &Packed<'_>, number: usize) -> Option<(S::Bytes, [u8; 1])> {
        let [scale, codes @ ..] = block::<17>(from.weight, number)?;
        Some((simd.nibbles(codes), [*scale]))
    }

    #[inline(always)]
    fn put<S: Simd>(
        simd: S,
        codes: S::Bytes,
        [scale]: [u8; 1],
        number: usize,
        to: &mut GroupParts<'_>,
    ) {
        if let Some([e, room @ ..]) = room::<17>(to.weight, number) {
            *e = scale;
            simd.put_nibbles(codes, room);
        }
    }
}

/// ggml's blocks of four E4M3 scales and 32 bytes of nibbles: two runs.
struct NvBlocks;

impl Small<2> for NvBlocks {
    #[inline(always)]
    fn value(code: usize, scale: u8, global: Global) -> f32 {
        of_block(code, HALF_UE4M3[usize::from(scale)], global)
    }

    #[inline(always)]
    fn take<S: Simd>(simd: S, from: &Packed<'_>, number: usize) -> Option<(S::Bytes, [u8; 2])> {
        let (bytes, half) = (block::<36>(from.weight, number / 2)?, number % 2);
        let low = 0x0f0f_0f0f_0f0f_0f0f;
        let [a, b] = [4, 12].map(|at| bytes[at + 16 * half..].first_chunk());
        let [a, b] = [u64::from_le_bytes(*a?), u64::from_le_bytes(*b?)];
        let codes = simd.words([a & low, a >> 4 & low, b & low, b >> 4 & low]);
        Some((codes, [bytes[2 * half], bytes[2 * half + 1]]))
    }

    #[inline(always)]
    fn put<S: Simd>(
        simd: S,
        codes: S::Bytes,
        scales: [u8; 2],
        number: usize,
        to: &mut GroupParts<'_>,
    ) {
        let half = number % 2;
        let Some(room) = room::<36>(to.weight, number / 2) else { return };
        room[2 * half..2 * half + 2].copy_from_slice(&scales);
        let mut bytes = [0; 32];
        simd.stream::<8>(codes, &mut bytes);
        let (sixteens, _) = bytes.as_chunks::<16>();
        let room = room[4 + 16 * half..].as_chunks_mut::<8>().0;
        for (room, codes) in room.iter_mut().zip(sixteens) {
            *room = from_fn(|i| codes[i] | codes[i + 8] << 4);
        }
    }
}

/// Groups of MLX and of checkpoints, which pack codes in the same way: neighbours share a byte.
struct MxGroups;

impl Small<1> for MxGroups {
    #[inline(always)]
    fn value(code: usize, scale: u8, global: Global) -> f32 {
        E2M1[code] * global.applied(e8m0(scale))
    }

    #[inline(always)]
    fn take<S: Simd>(simd: S, from: &Packed<'_>, number: usize) -> Option<(S::Bytes, [u8; 1])> {
        take_group(simd, from, number)
    }

    #[inline(always)]
    fn put<S: Simd>(
        simd: S,
        codes: S::Bytes,
        scales: [u8; 1],
        number: usize,
        to: &mut GroupParts<'_>,
    ) {
        put_group(simd, codes, scales, number, to);
    }
}

/// Like [`MxGroups`], with E4M3 scales.
struct NvGroups;

impl Small<2> for NvGroups {
    #[inline(always)]
    fn value(code: usize, scale: u8, global: Global) -> f32 {
        E2M1[code] * global.applied(E4M3[usize::from(scale)])
    }

    #[inline(always)]
    fn take<S: Simd>(simd: S, from: &Packed<'_>, number: usize) -> Option<(S::Bytes, [u8; 2])> {
        take_group(simd, from, number)
    }

    #[inline(always)]
    fn put<S: Simd>(
        simd: S,
        codes: S::Bytes,
        scales: [u8; 2],
        number: usize,
        to: &mut GroupParts<'_>,
    ) {
        put_group(simd, codes, scales, number, to);
    }
}

/// The value of a code in a block, which is rounded before the global scale is applied.
#[inline(always)]
fn of_block(code: usize, half_scale: f32, global: Global) -> f32 {
    global.applied(f32::from(DOUBLED[code]) * half_scale)
}

#[inline(always)]
fn take_group<S: Simd, const SCALES: usize>(
    simd: S,
    from: &Packed<'_>,
    number: usize,
) -> Option<(S::Bytes, [u8; SCALES])> {
    let codes = simd.nibble_pairs(&padded(from.weight.get(16 * number..)?));
    Some((codes, padded(from.scale.get(SCALES * number..)?)))
}

#[inline(always)]
fn put_group<S: Simd, const SCALES: usize>(
    simd: S,
    codes: S::Bytes,
    scales: [u8; SCALES],
    number: usize,
    to: &mut GroupParts<'_>,
) {
    let mut bytes = [0; 32];
    simd.stream::<4>(codes, &mut bytes);
    fill(to.weight.get_mut(16 * number..), &bytes[..16]);
    fill(to.scale.get_mut(SCALES * number..), &scales);
}

/// The first `N` bytes, filled up with zeros.
#[inline(always)]
fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or_else(|| {
        let mut padded = [0; N];
        padded.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        padded
    })
}

/// Copies as many bytes as fit.
#[inline(always)]
fn fill(room: Option<&mut [u8]>, bytes: &[u8]) {
    let room = room.unwrap_or_default();
    let len = room.len().min(bytes.len());
    room[..len].copy_from_slice(&bytes[..len]);
}
