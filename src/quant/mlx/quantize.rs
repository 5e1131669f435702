//! Quantizing to the dtypes of MLX, bit for bit as `mx.quantize` of its CPU backend does in 0.32.4
//! (`mlx/backend/cpu/quantized.cpp` and `mlx/ops.cpp`); its GPU backends round ties in another way.
//!
//! Some groups at a time: first what each of them spans is looked for, then all of their scales are
//! computed, then codes are chosen while the values are still in the cache.

use std::marker::PhantomData;

use half::{bf16, f16};

use super::super::element::Element;
use super::super::kernel::{GroupEncode, GroupEncoding, Kernels};
use super::super::simd::Simd;
use super::affine::Affine;
use super::floating::{E2m1, E4m3, Nv};
use crate::error::{Error, Result};

/// Quantizes to one dtype of MLX: [`DType::group_quantizer`](crate::DType::group_quantizer) gives
/// it.
///
/// The bytes are those that MLX 0.32.4 writes on a CPU. Values that are not finite spoil their
/// group as they do there, but what becomes of them is not promised to be the same to the bit.
///
/// ```
/// use weighbridge::{DType, GroupParts, Grouping};
///
/// # fn main() -> weighbridge::Result<()> {
/// let quantizer = DType::MLX_AFFINE4.group_quantizer().unwrap();
/// let values: Vec<f32> = (0u8..64).map(f32::from).collect();
/// let grouping = Grouping { size: 64, amax: None };
/// let sizes = quantizer.sizes::<f32>(values.len(), grouping)?;
/// let [mut weight, mut scale, mut bias] = sizes.map(|size| vec![0; size]);
/// let out = GroupParts { weight: &mut weight, scale: &mut scale, bias: &mut bias };
/// quantizer.quantize(&values, grouping, out)?;
/// assert_eq!(weight[31], 0x00);
/// assert_eq!((scale, bias), ((-4.2f32).to_le_bytes().to_vec(), 63f32.to_le_bytes().to_vec()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct GroupQuantizer {
    pub(in super::super) from_f32: Kernels<GroupEncoding<f32>>,
    pub(in super::super) from_f16: Kernels<GroupEncoding<f16>>,
    pub(in super::super) from_bf16: Kernels<GroupEncoding<bf16>>,
    bits: usize,
    sizes: &'static [usize],
    /// Whether scales and biases are of the values' own dtype; else scales are bytes, without
    /// biases.
    affine: bool,
    /// Whether there may be a largest magnitude of the whole tensor.
    global: bool,
}

pub(crate) static TO_AFFINE1: GroupQuantizer = GroupQuantizer::affine::<Affine<1>>();
pub(crate) static TO_AFFINE2: GroupQuantizer = GroupQuantizer::affine::<Affine<2>>();
pub(crate) static TO_AFFINE3: GroupQuantizer = GroupQuantizer::affine::<Affine<3>>();
pub(crate) static TO_AFFINE4: GroupQuantizer = GroupQuantizer::affine::<Affine<4>>();
pub(crate) static TO_AFFINE5: GroupQuantizer = GroupQuantizer::affine::<Affine<5>>();
pub(crate) static TO_AFFINE6: GroupQuantizer = GroupQuantizer::affine::<Affine<6>>();
pub(crate) static TO_AFFINE8: GroupQuantizer = GroupQuantizer::affine::<Affine<8>>();
pub(crate) static TO_MXFP4: GroupQuantizer = GroupQuantizer::of::<E2m1>(&[32]);
pub(crate) static TO_MXFP8: GroupQuantizer = GroupQuantizer::of::<E4m3>(&[32]);
pub(crate) static TO_NVFP4: GroupQuantizer =
    GroupQuantizer { global: true, ..GroupQuantizer::of::<Nv>(&[16]) };

/// How values are grouped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grouping {
    /// Elements that share a scale: 32, 64 or 128; 16 for `MLX_NVFP4`, 32 for the other floats.
    pub size: usize,
    /// The largest magnitude of the whole tensor, for `MLX_NVFP4` with a global scale. MLX stores
    /// the number itself beside the other parts.
    pub amax: Option<f32>,
}

/// Room for the parts of whole groups, or of nothing where a dtype has no such part.
#[derive(Debug)]
pub struct GroupParts<'a> {
    /// The codes of all elements, one stream of bits.
    pub weight: &'a mut [u8],
    /// A scale for each group: a `T`, least significant byte first, or a byte.
    pub scale: &'a mut [u8],
    /// A bias for each group, stored as its scale.
    pub bias: &'a mut [u8],
}

impl GroupQuantizer {
    const fn affine<M: Mode>() -> Self {
        Self { affine: true, ..Self::of::<M>(&[32, 64, 128]) }
    }

    const fn of<M: Mode>(sizes: &'static [usize]) -> Self {
        Self {
            from_f32: Kernels::of::<Tiles<M>>(),
            from_f16: Kernels::of::<Tiles<M>>(),
            from_bf16: Kernels::of::<Tiles<M>>(),
            bits: M::BITS,
            sizes,
            affine: false,
            global: false,
        }
    }

    /// Bytes of the weight, the scale and the bias of some values of a type.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the dtype has no such grouping, or the values do not fill their groups.
    pub fn sizes<T: Element>(&self, values: usize, grouping: Grouping) -> Result<[usize; 3]> {
        let Grouping { size, amax } = grouping;
        let fault = if !self.sizes.contains(&size) {
            format!("groups of {size}, but the dtype has groups of {:?}", self.sizes)
        } else if !values.is_multiple_of(size) {
            format!("{values} values are no whole number of groups of {size}")
        } else if amax.is_some() && !self.global {
            "a largest magnitude for a dtype that has no global scale".to_owned()
        } else if let Some(amax) = amax.filter(|amax| !(0.0..f32::INFINITY).contains(amax)) {
            format!("a largest magnitude of {amax}")
        } else {
            let groups = values / size;
            // A group's codes are whole bytes: no larger than values are.
            let weight = groups * (size * self.bits / 8);
            let part = groups * size_of::<T>();
            return Ok(if self.affine { [weight, part, part] } else { [weight, groups, 0] });
        };
        Err(Error::mismatch(fault))
    }

    /// Quantizes the values of whole groups, and so of whole rows.
    ///
    /// # Errors
    ///
    /// Same as [`sizes`](Self::sizes), and `Mismatch` if `out` has not those sizes.
    pub fn quantize<T: Element>(
        &self,
        values: &[T],
        grouping: Grouping,
        out: GroupParts<'_>,
    ) -> Result<()> {
        let needed = self.sizes::<T>(values.len(), grouping)?;
        let room = [out.weight.len(), out.scale.len(), out.bias.len()];
        if room != needed {
            let fault = format!("room for {room:?} bytes, but the parts have {needed:?}");
            return Err(Error::mismatch(fault));
        }
        T::encoders(self).run((values, grouping, out));
        Ok(())
    }
}

/// Groups whose scales are computed together.
pub(super) const TILE: usize = 16;

/// Tiles that are looked through before any scale is computed: each step of that waits for the one
/// before, so the scales of several tiles take hardly longer than those of one.
const TILES: usize = 4;

/// A number for each group of a tile.
pub(super) type Each = [f32; TILE];

/// How the groups of a dtype are quantized.
pub(super) trait Mode {
    const BITS: usize;

    /// The size of groups, where there is but one.
    const SIZE: Option<usize>;

    /// What is known of the groups of a tile once their scales are.
    type Scaling: Default;

    /// The ends of a group's range.
    fn ends<S: Simd, T: Element>(simd: S, group: &[[T; 16]]) -> [f32; 2];

    /// Computes scales and biases from the ends of groups, and writes as many as there is room for.
    fn scale<S: Simd, T: Element>(
        simd: S,
        ends: &[Each; 2],
        grouping: Grouping,
        scale: &mut [u8],
        bias: &mut [u8],
    ) -> Self::Scaling;

    /// The codes of twice 16 values, and of which groups they are.
    fn codes<S: Simd, T: Element>(
        simd: S,
        scaling: &Self::Scaling,
        values: [S::Floats; 2],
        groups: [usize; 2],
    ) -> S::Bytes;

    /// Packs 32 codes; see [`Simd::stream`].
    fn stream<S: Simd>(simd: S, codes: S::Bytes, out: &mut [u8; 32]);
}

/// 32 values: a group or a part of one, or two groups.
type Pair<T> = [[T; 16]; 2];

/// Quantizes some tiles of groups after the other.
struct Tiles<M>(PhantomData<M>);

impl<M: Mode> GroupEncode for Tiles<M> {
    #[inline(always)]
    fn encode<S: Simd, T: Element>(simd: S, values: &[T], grouping: Grouping, out: GroupParts<'_>) {
        let size = M::SIZE.unwrap_or(grouping.size).max(16);
        let groups = values.len() / size;
        let [mut scales, mut biases] = [out.scale, out.bias].map(|rest| {
            let bytes = rest.len().checked_div(groups).unwrap_or(0);
            Part { rest, bytes }
        });
        let mut stream = Stream { bytes: out.weight, at: 0 };
        // Groups of 16 may be odd in number; there is no room for the codes of the zeros.
        let (pairs, last) = values.as_chunks::<16>().0.as_chunks::<2>();
        let last = last.first().map(|unit| [*unit, [T::round(0.0); 16]]);
        let last = last.as_slice();
        let pairs_per_tile = TILE * size / 32;
        for tiles in pairs.chunks(TILES * pairs_per_tile).chain(last.chunks(1)) {
            let mut ends = [[[0.0; TILE]; 2]; TILES];
            for (tile, ends) in tiles.chunks(pairs_per_tile).zip(&mut ends) {
                Self::look(simd, tile, size, ends);
            }
            let mut scalings: [M::Scaling; TILES] = Default::default();
            // Of all tiles, even those without groups: no step waits for a count.
            let groups = tiles.len() * 32 / size;
            for ((scaling, ends), number) in scalings.iter_mut().zip(&ends).zip(0..TILES) {
                let groups = groups.saturating_sub(TILE * number).min(TILE);
                let (scale, bias) = (scales.next(groups), biases.next(groups));
                *scaling = M::scale::<S, T>(simd, ends, grouping, scale, bias);
            }
            for (tile, scaling) in tiles.chunks(pairs_per_tile).zip(&scalings) {
                Self::put(simd, tile, size, scaling, &mut stream);
            }
        }
    }
}

impl<M: Mode> Tiles<M> {
    /// Looks for the ends of all groups of a tile.
    #[inline(always)]
    fn look<S: Simd, T: Element>(simd: S, tile: &[Pair<T>], size: usize, ends: &mut [Each; 2]) {
        if M::SIZE == Some(16) {
            for (group, number) in tile.as_flattened().iter().zip(0..TILE) {
                [ends[0][number], ends[1][number]] = M::ends(simd, &[*group]);
            }
            return;
        }
        for (group, number) in tile.chunks_exact((size / 32).max(1)).zip(0..TILE) {
            [ends[0][number], ends[1][number]] = M::ends(simd, group.as_flattened());
        }
    }

    /// Puts the codes of all groups of a tile.
    #[inline(always)]
    fn put<S: Simd, T: Element>(
        simd: S,
        tile: &[Pair<T>],
        size: usize,
        scaling: &M::Scaling,
        stream: &mut Stream<'_>,
    ) {
        if M::SIZE == Some(16) {
            for ([a, b], number) in tile.iter().zip(0..TILE / 2) {
                let values = [T::load(simd, a), T::load(simd, b)];
                let groups = [2 * number, 2 * number + 1];
                stream.put::<S, M>(simd, M::codes::<S, T>(simd, scaling, values, groups));
            }
            return;
        }
        for (group, number) in tile.chunks_exact((size / 32).max(1)).zip(0..TILE) {
            for [a, b] in group {
                let values = [T::load(simd, a), T::load(simd, b)];
                stream.put::<S, M>(simd, M::codes::<S, T>(simd, scaling, values, [number; 2]));
            }
        }
    }
}

/// Where scales or biases go.
struct Part<'a> {
    rest: &'a mut [u8],
    /// Bytes of each.
    bytes: usize,
}

impl<'a> Part<'a> {
    /// Room for those of the next groups, or of as many as there are.
    fn next(&mut self, groups: usize) -> &'a mut [u8] {
        let len = (groups * self.bytes).min(self.rest.len());
        self.rest.split_off_mut(..len).unwrap_or_default()
    }
}

/// Where codes go.
struct Stream<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl Stream<'_> {
    /// Puts 32 codes, or as many as there is room for.
    #[inline(always)]
    fn put<S: Simd, M: Mode>(&mut self, simd: S, codes: S::Bytes) {
        let rest = self.bytes.get_mut(self.at..).unwrap_or_default();
        self.at += 4 * M::BITS;
        // What is written beyond the codes is where the next ones go.
        if let Some(room) = rest.first_chunk_mut() {
            M::stream(simd, codes, room);
        } else {
            let mut room = [0; 32];
            M::stream(simd, codes, &mut room);
            let len = rest.len().min(4 * M::BITS);
            rest[..len].copy_from_slice(&room[..len]);
        }
    }
}

/// Writes numbers as `T`, as many as there is room for.
#[inline(always)]
pub(super) fn store<S: Simd, T: Element>(simd: S, numbers: &Each, out: &mut [u8]) {
    let mut rounded = [T::round(0.0); TILE];
    T::put::<S, false>(simd, simd.load(numbers), &mut rounded);
    for (out, number) in out.chunks_exact_mut(size_of::<T>()).zip(&rounded) {
        out.copy_from_slice(bytemuck::bytes_of(number));
        if cfg!(target_endian = "big") {
            out.reverse();
        }
    }
}
