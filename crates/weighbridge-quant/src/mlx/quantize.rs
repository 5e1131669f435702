//! Quantizers for MLX's dtypes, bit for bit those of `mx.quantize` in the CPU backend of MLX 0.32.4
//! (`mlx/backend/cpu/quantized.cpp` and `mlx/ops.cpp`). MLX's GPU backends round ties differently.
//!
//! Several groups are processed at a time: first their ranges are determined, then all of their
//! scales are computed, then codes are chosen while the values are still in the cache.

use std::marker::PhantomData;

use super::super::body::GroupEncode;
use super::super::element::Element;
use super::super::kernel::{GroupKernels, Kernels};
use super::super::packed::{GroupParts, Grouping};
use super::super::simd::Simd;
use crate::error::{Error, Result};

/// Quantizes to one of MLX's dtypes; see [`DType::group_quantizer`](crate::DType::group_quantizer).
///
/// The bytes are those that MLX 0.32.4 writes on a CPU. Values that are not finite spoil their
/// group, as in MLX, but the resulting bytes may differ.
///
/// ```
/// use weighbridge_quant::{GroupParts, Grouping};
/// use weighbridge_quant::DType;
///
/// # fn main() -> weighbridge_quant::Result<()> {
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
    pub(crate) kernels: GroupKernels,
    bits: usize,
    sizes: &'static [usize],
    /// Whether scales and biases have the values' own dtype; otherwise scales are bytes, without
    /// biases.
    affine: bool,
    /// Whether a global scale is supported.
    global: bool,
}

impl GroupQuantizer {
    pub(super) const fn affine<M: EncodeMode>() -> Self {
        Self { affine: true, ..Self::of::<M>(&[32, 64, 128]) }
    }

    /// With support for a global scale.
    pub(super) const fn with_global(self) -> Self {
        Self { global: true, ..self }
    }

    pub(super) const fn of<M: EncodeMode>(sizes: &'static [usize]) -> Self {
        Self {
            kernels: GroupKernels {
                from_f32: Kernels::of::<Tiles<M>>(),
                from_f16: Kernels::of::<Tiles<M>>(),
                from_bf16: Kernels::of::<Tiles<M>>(),
            },
            bits: M::BITS,
            sizes,
            affine: false,
            global: false,
        }
    }

    /// The bytes of the weight, the scale and the bias for a number of values of type `T`.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the dtype does not support the grouping, or the values do not fill whole
    /// groups.
    pub fn sizes<T: Element>(&self, values: usize, grouping: Grouping) -> Result<[usize; 3]> {
        let Grouping { size, amax } = grouping;
        let fault = if !self.sizes.contains(&size) {
            format!("groups of {size}, but the dtype supports groups of {:?}", self.sizes)
        } else if !values.is_multiple_of(size) {
            format!("{values} values do not divide into groups of {size}")
        } else if amax.is_some() && !self.global {
            "a largest magnitude is given, but the dtype has no global scale".to_owned()
        } else if let Some(amax) = amax.filter(|amax| !(0.0..f32::INFINITY).contains(amax)) {
            format!("a largest magnitude of {amax}, but a finite, non-negative number is needed")
        } else {
            let groups = values / size;
            // The codes of a group are whole bytes, no more than the values take.
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
    /// Same as [`sizes`](Self::sizes), and `Mismatch` if the buffers in `out` do not have those
    /// sizes.
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
        T::encoders(&self.kernels).run((values, grouping, out));
        Ok(())
    }
}

/// The number of groups whose scales are computed together.
pub(super) const TILE: usize = 16;

/// The number of tiles that are searched before any scale is computed. The steps of a scale depend
/// on each other, so the scales of several tiles take hardly longer than those of one.
const TILES: usize = 4;

/// A number for each group of a tile.
pub(super) type Each = [f32; TILE];

/// The quantization of a dtype's groups.
pub(super) trait EncodeMode {
    const BITS: usize;

    /// The group size, if there is only one.
    const SIZE: Option<usize>;

    /// The numbers that the codes of a tile need, computed from its scales.
    type Scaling: Default;

    /// The two ends of a group's range; here its largest magnitude alone.
    #[inline(always)]
    fn ends<S: Simd, T: Element>(simd: S, group: &[[T; 16]]) -> [f32; 2] {
        let peak = |peaks, unit| simd.peak(T::load(simd, unit), peaks);
        [simd.highest(group.iter().fold(simd.splat(0.0), peak)), 0.0]
    }

    /// Computes scales and biases from the ends of groups, and writes as many as fit.
    fn scale<S: Simd, T: Element>(
        simd: S,
        ends: &[Each; 2],
        grouping: Grouping,
        scale: &mut [u8],
        bias: &mut [u8],
    ) -> Self::Scaling;

    /// The codes of two times 16 values; `groups` are their groups.
    fn codes<S: Simd, T: Element>(
        simd: S,
        scaling: &Self::Scaling,
        values: [S::Floats; 2],
        groups: [usize; 2],
    ) -> S::Bytes;

    /// Packs 32 codes; see [`Simd::stream`].
    fn stream<S: Simd>(simd: S, codes: S::Bytes, out: &mut [u8; 32]);
}

/// 32 values: a group, a part of one, or two groups.
type ValuePair<T> = [[T; 16]; 2];

/// Quantizes groups, several tiles at a time.
struct Tiles<M>(PhantomData<M>);

impl<M: EncodeMode> GroupEncode for Tiles<M> {
    #[inline(always)]
    fn encode<S: Simd, T: Element>(simd: S, values: &[T], grouping: Grouping, out: GroupParts<'_>) {
        let size = M::SIZE.unwrap_or(grouping.size).max(16);
        let groups = values.len() / size;
        let [mut scales, mut biases] = [out.scale, out.bias].map(|rest| {
            let bytes = rest.len().checked_div(groups).unwrap_or(0);
            PartBuffer { rest, bytes }
        });
        let mut stream = CodeWriter { bytes: out.weight, at: 0 };
        // With groups of 16, the last pair may be half empty; the zeros' codes are not written.
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
            // For all tiles, even those without groups, so that no step depends on a count.
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

impl<M: EncodeMode> Tiles<M> {
    /// Determines the ends of all groups of a tile.
    #[inline(always)]
    fn look<S: Simd, T: Element>(
        simd: S,
        tile: &[ValuePair<T>],
        size: usize,
        ends: &mut [Each; 2],
    ) {
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

    /// Writes the codes of all groups of a tile.
    #[inline(always)]
    fn put<S: Simd, T: Element>(
        simd: S,
        tile: &[ValuePair<T>],
        size: usize,
        scaling: &M::Scaling,
        stream: &mut CodeWriter<'_>,
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

/// The buffer of scales or biases.
struct PartBuffer<'a> {
    rest: &'a mut [u8],
    /// The bytes of each scale or bias.
    bytes: usize,
}

impl<'a> PartBuffer<'a> {
    /// The buffer for the next groups, or for as many as are left.
    fn next(&mut self, groups: usize) -> &'a mut [u8] {
        let len = (groups * self.bytes).min(self.rest.len());
        self.rest.split_off_mut(..len).unwrap_or_default()
    }
}

/// The buffer of codes.
struct CodeWriter<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl CodeWriter<'_> {
    /// Writes 32 codes, or as many as fit.
    #[inline(always)]
    fn put<S: Simd, M: EncodeMode>(&mut self, simd: S, codes: S::Bytes) {
        let rest = self.bytes.get_mut(self.at..).unwrap_or_default();
        self.at += 4 * M::BITS;
        // The next codes overwrite the surplus bytes.
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

/// Writes numbers as `T`, as many as fit.
#[inline(always)]
pub(super) fn store<S: Simd, T: Element>(simd: S, numbers: &Each, out: &mut [u8]) {
    let mut rounded = [T::round(0.0); TILE];
    T::put::<S, false>(simd, simd.load(numbers), &mut rounded, true);
    for (out, number) in out.chunks_exact_mut(size_of::<T>()).zip(&rounded) {
        out.copy_from_slice(number.as_bytes());
        if cfg!(target_endian = "big") {
            out.reverse();
        }
    }
}
