//! Codecs: how the values of a dtype are decoded.

use std::marker::PhantomData;

use super::arrays::RowsDecode;
use super::body::{Decode, Multiply, Out, Product, Put, total};
use super::element::Element;
use super::inputs::Inputs;
use super::kernel::Kernels;
use super::narrowing::Narrowing;
use super::packed::{Packed, PackedRows};
use super::runs::{InputProducts, Runs};
use super::simd::Simd;

/// Decodes the values of one dtype.
#[derive(Debug)]
pub struct Codec(pub Decoder);

/// The decoding method of a dtype.
#[derive(Debug)]
pub enum Decoder {
    /// Decodes a run of blocks or groups, starting anywhere in a tensor.
    Runs(Runs),
    /// Decodes by rows, with all parts of the tensor: codes are packed across rows, or each row has
    /// to find its own scales.
    Rows(RowsDecode),
}

/// When decoded values are rounded.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Rounding {
    /// Each product and sum is rounded to `f32`; a narrower output is rounded once more.
    #[default]
    F32,
    /// As in the library that made the format. MLX computes in the dtype of the scales, so each
    /// product and sum is rounded to that, or to `bf16` if scales are small floats. The same holds
    /// for the dtypes that share its format, `HF_MXFP4` and `HF_NVFP4`. For other dtypes this
    /// equals [`F32`](Self::F32).
    Native,
}

/// How decoded values are stored.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Stores {
    /// Through the processor's cache: for values that are read soon.
    #[default]
    Cached,
    /// Past the cache, with streaming stores where the processor has them: for outputs larger than the cache.
    Streaming,
}

/// Whether there are kernels besides those that decode to `f32`. In a browser they would be a sixth of the
/// library, for values that nothing there asks for.
const FURTHER: bool = !cfg!(target_family = "wasm");

/// The kernels that multiply packed rows.
const fn products<D: Multiply>() -> Option<Kernels<InputProducts>> {
    if FURTHER { Some(Kernels::of::<D>()) } else { None }
}

impl Runs {
    pub(crate) const fn of<D: Decode>() -> Self {
        if !FURTHER {
            return Self::seldom::<D>();
        }
        let (to_f16, to_bf16) = (Kernels::of::<D>(), Kernels::to_bf16::<D>());
        Self { to_f16: Some(to_f16), to_bf16: Some(to_bf16), ..Self::seldom::<D>() }
    }

    /// With a kernel for `f32` alone, from which other values are rounded: slower, but compiled in a
    /// fourth of the time.
    pub(crate) const fn seldom<D: Decode>() -> Self {
        let to_f32 = Kernels::of::<D>();
        Self { to_f32, to_f16: None, to_bf16: None, products: None, native: None, lost: None }
    }

    /// Fills `out` with the products of rows with one row of inputs, whose length is a multiple of
    /// 16 and of a block. Sums are `f32`, and their order is the same on every processor. For K-quants,
    /// inputs are rounded to 21 bits of the largest of each 256. `false` if there is no kernel.
    pub fn multiply(&self, rows: PackedRows<'_>, inputs: &Inputs<'_>, out: &mut [f32]) -> bool {
        let Some(products) = &self.products else { return false };
        products.run((rows, inputs, out));
        true
    }

    /// Fills `out` with values, and counts those that did not survive rounding to `T`.
    pub fn decode<T: Element>(
        &self,
        packed: &Packed<'_>,
        out: &mut [T],
        rounding: Rounding,
        stores: Stores,
    ) -> Narrowing {
        if let (Rounding::Native, Some(native)) = (rounding, self.native) {
            let mut exact = vec![0.0; out.len()];
            native(packed, &mut exact);
            return narrow(&exact, out);
        }
        let mut lost = self.lost.map_or_else(Narrowing::default, |lost| lost(packed));
        let Some(kernels) = T::decoders(self) else {
            let mut exact = vec![0.0; out.len()];
            self.to_f32.run((packed, &mut exact, false));
            lost += narrow(&exact, out);
            return lost;
        };
        let doubtful = kernels.run((packed, out, stores == Stores::Streaming));
        if let (true, Some(bounds)) = (doubtful, T::BOUNDS) {
            let mut exact = vec![0.0; out.len()];
            self.to_f32.run((packed, &mut exact, false));
            lost.look(&exact, bounds);
        }
        lost
    }
}

/// Rounds values, and counts those that did not survive it.
pub fn narrow<T: Element>(exact: &[f32], out: &mut [T]) -> Narrowing {
    for (out, exact) in out.iter_mut().zip(exact) {
        *out = T::round(*exact);
    }
    let mut lost = Narrowing::default();
    if let Some(bounds) = T::BOUNDS {
        lost.look(exact, bounds);
    }
    lost
}

impl Codec {
    pub(crate) const fn blocks<B: Block<BYTES>, const BYTES: usize, const UNITS: usize>() -> Self {
        let products = products::<BlockDecoder<B, BYTES, UNITS>>();
        Self(Decoder::Runs(Runs { products, ..Runs::of::<BlockDecoder<B, BYTES, UNITS>>() }))
    }

    /// The same with products of codes as integers.
    pub(crate) const fn by<C: Codes<BYTES>, const BYTES: usize>(self) -> Self {
        match self.0 {
            Decoder::Runs(runs) => {
                let products = products::<CodeProducts<C, BYTES>>();
                Self(Decoder::Runs(Runs { products, ..runs }))
            }
            decoder @ Decoder::Rows(_) => Self(decoder),
        }
    }

    pub(crate) const fn plain<P: Plain<WIDE>, const WIDE: usize>() -> Self {
        let products = products::<Elements<P, WIDE>>();
        Self(Decoder::Runs(Runs { products, ..Runs::of::<Elements<P, WIDE>>() }))
    }

    /// Elements that weights seldom have.
    pub(crate) const fn seldom<P: Plain<WIDE>, const WIDE: usize>() -> Self {
        Self(Decoder::Runs(Runs::seldom::<Elements<P, WIDE>>()))
    }

    pub(crate) const fn groups<D: Decode>(native: fn(&Packed<'_>, &mut [f32])) -> Self {
        Self(Decoder::Runs(Runs { native: Some(native), ..Runs::of::<D>() }))
    }
}

/// Decodes one block of `BYTES` bytes.
pub(crate) trait Block<const BYTES: usize> {
    /// Whether values may lie between 0 and 2^-24, so that rounding could turn them into 0, and be
    /// infinite or NaN, whatever the body says with [`Put::half`] and its like. They cannot lie there if
    /// they are computed only from `f16` numbers and integers: every `f16` number is a multiple of
    /// 2^-24, and so are products, sums and differences, however they round. Nor can they if none but 0
    /// is smaller than the scale.
    const FINE: bool;

    fn block<S: Simd>(simd: S, bytes: &[u8; BYTES], head: &[u8], out: &mut (impl Put<S> + ?Sized));
}

/// Decodes one block: by a copy of the body for this consumer, or by one that all consumers share.
#[inline(always)]
fn block<B: Block<BYTES>, S: Simd, const BYTES: usize>(
    simd: S,
    bytes: &[u8; BYTES],
    head: &[u8],
    out: &mut impl Put<S>,
) {
    #[inline(never)]
    fn shared<B: Block<BYTES>, S: Simd, const BYTES: usize>(
        simd: S,
        bytes: &[u8; BYTES],
        head: &[u8],
        out: &mut dyn Put<S>,
    ) {
        B::block(simd, bytes, head, out);
    }
    if S::IS_FALLBACK {
        shared::<B, S, BYTES>(simd, bytes, head, out);
    } else {
        B::block(simd, bytes, head, out);
    }
}

/// Decodes blocks of `BYTES` bytes and `UNITS` times 16 values.
struct BlockDecoder<B, const BYTES: usize, const UNITS: usize>(PhantomData<B>);

impl<B: Block<BYTES>, const BYTES: usize, const UNITS: usize> Decode
    for BlockDecoder<B, BYTES, UNITS>
{
    #[inline(always)]
    fn decode<S: Simd, T: Element>(packed: &Packed<'_>, out: Out<'_, S, T>) {
        let simd = out.simd;
        let (blocks, _) = packed.weight.as_chunks::<BYTES>();
        let (runs, mut units, rest) = out.runs::<UNITS>();
        for (bytes, run) in blocks.iter().zip(runs) {
            (units.close, units.out) = (B::FINE, run);
            units.fetch_behind(bytes);
            block::<B, S, BYTES>(simd, bytes, packed.scale, &mut units);
        }
        rest.saw(&units);
    }
}

impl<B: Block<BYTES>, const BYTES: usize, const UNITS: usize> Multiply
    for BlockDecoder<B, BYTES, UNITS>
{
    #[inline(always)]
    fn multiply<S: Simd>(simd: S, rows: PackedRows<'_>, inputs: &Inputs<'_>, out: &mut [f32]) {
        let (blocks, _) = rows.bytes.as_chunks::<BYTES>();
        let (inputs, _) = inputs.lines().as_chunks::<UNITS>();
        for (blocks, out) in rows.of(blocks, inputs.len()).zip(out) {
            let mut product = Product::new(simd);
            for (bytes, inputs) in blocks.iter().zip(inputs) {
                simd.fetch_behind(bytes);
                product.inputs = inputs;
                block::<B, S, BYTES>(simd, bytes, &[], &mut product);
            }
            *out = product.total();
        }
    }
}

/// 256 codes less than 128, whose values are a code times a scale plus a minimum.
pub(crate) trait Codes<const BYTES: usize> {
    /// The number of codes that share a scale and a minimum: 16, or 32.
    const SHARED: u32;

    /// The scales, and the minima, given what converts half precision. Where 32 codes share them, the first eight scales count, and the
    /// last eight minima.
    fn factors<S: Simd>(
        simd: S,
        bytes: &[u8; BYTES],
        half: impl FnMut([u8; 2]) -> f32,
    ) -> [S::Floats; 2];

    /// The codes in order, each 64 together.
    fn codes<S: Simd>(simd: S, bytes: &[u8; BYTES]) -> [[S::Bytes; 2]; 4];
}

/// Multiplies codes as integers: fewer steps than with their values.
struct CodeProducts<C, const BYTES: usize>(PhantomData<C>);

impl<C: Codes<BYTES>, const BYTES: usize> CodeProducts<C, BYTES> {
    /// The scale of each four codes of a part.
    #[expect(clippy::cast_possible_truncation, reason = "at most 64")]
    const SCALES: [[u32; 16]; 4] = {
        let mut scales = [[0; 16]; 4];
        let mut four = 0;
        while four < 64 {
            scales[four / 16][four % 16] = 4 * four as u32 / C::SHARED;
            four += 1;
        }
        scales
    };
}

impl<C: Codes<BYTES>, const BYTES: usize> Multiply for CodeProducts<C, BYTES> {
    #[inline(always)]
    fn multiply<S: Simd>(simd: S, rows: PackedRows<'_>, inputs: &Inputs<'_>, out: &mut [f32]) {
        let (blocks, _) = rows.bytes.as_chunks::<BYTES>();
        let inputs = inputs.blocks();
        for (blocks, out) in rows.of(blocks, inputs.len()).zip(out) {
            let mut sum = simd.splat(0.0);
            for (bytes, inputs) in blocks.iter().zip(inputs) {
                simd.fetch_behind(bytes);
                let half = |bytes| simd.f16(u16::from_le_bytes(bytes));
                let [scales, minima] = C::factors(simd, bytes, half);
                let inputs_of_minima = simd.load(&inputs.sums[usize::from(C::SHARED == 32)]);
                let mut sums = [simd.mul(minima, inputs_of_minima), simd.splat(0.0)];
                for (part, codes) in C::codes(simd, bytes).into_iter().enumerate() {
                    let dots = simd.numbers(simd.dots(codes, &inputs.digits[part]));
                    let scales = simd.entries(scales, simd.load_words(&Self::SCALES[part]));
                    sums[part % 2] = simd.fused(dots, scales, sums[part % 2]);
                }
                sum = simd.fused(simd.add(sums[0], sums[1]), simd.splat(inputs.scale), sum);
            }
            *out = total(simd, sum);
        }
    }
}

/// Declares codecs of block dtypes: the bytes and the elements of a block, COARSE or FINE values
/// (see [`Block::FINE`]), the type by whose [`Codes`] products are computed if not by values, and the
/// body.
macro_rules! blocks {
    ($(
        $(#[$doc:meta])*
        $name:ident: $bytes:literal => $elements:literal $grain:ident $(by $codes:ident)?, |$simd:ident, $block:pat_param, $out:ident $(, $head:ident)?| $body:block
    )*) => {$(
        $(#[$doc])*
        pub(crate) static $name: $crate::Codec = {
            struct Body;
            impl $crate::Block<$bytes> for Body {
                const FINE: bool = $crate::$grain;

                #[inline(always)]
                #[allow(unused_variables, reason = "few dtypes start rows with a number")]
                fn block<S: $crate::simd::Simd>(
                    $simd: S,
                    $block: &[u8; $bytes],
                    head: &[u8],
                    $out: &mut (impl $crate::body::Put<S> + ?Sized),
                ) {
                    $(let $head = head;)?
                    $body
                }
            }
            $crate::Codec::blocks::<Body, $bytes, { $elements / 16 }>()$(.by::<$codes, $bytes>())?
        };
    )*};
}
pub(crate) use blocks;

/// Values without fine steps, for `blocks!` and `plain!`: see [`Block::FINE`].
pub(crate) const COARSE: bool = false;
pub(crate) const FINE: bool = true;

/// Converts 16 elements of `WIDE` bytes in total.
pub(crate) trait Plain<const WIDE: usize> {
    /// Whether values may not survive rounding to `f16` or `bf16`.
    const FINE: bool;

    fn sixteen<S: Simd>(simd: S, bytes: &[u8; WIDE]) -> S::Floats;
}

/// Decodes consecutive elements, 16 of which fill `WIDE` bytes.
pub(crate) struct Elements<P, const WIDE: usize>(PhantomData<P>);

impl<P: Plain<WIDE>, const WIDE: usize> Decode for Elements<P, WIDE> {
    #[inline(always)]
    fn decode<S: Simd, T: Element>(packed: &Packed<'_>, out: Out<'_, S, T>) {
        let simd = out.simd;
        let (sixteens, last) = packed.weight.as_chunks::<WIDE>();
        let (runs, mut units, rest) = out.runs::<2>();
        let (pairs, odd) = sixteens.split_at(sixteens.len().min(2 * runs.len()));
        (units.close, units.nan) = (P::FINE, true);
        for (pair, run) in pairs.as_chunks::<2>().0.iter().zip(runs) {
            units.out = run;
            units.fetch_behind(pair.as_flattened());
            units.pair(0, [P::sixteen(simd, &pair[0]), P::sixteen(simd, &pair[1])]);
        }
        // At most one.
        let (runs, mut units, rest) = rest.saw(&units).runs::<1>();
        for (bytes, run) in odd.iter().zip(runs) {
            units.out = run;
            units.put(0, P::sixteen(simd, bytes));
        }
        let rest = rest.saw(&units);
        if rest.len() > 0 {
            let mut bytes = [0; WIDE];
            let len = last.len().min(WIDE);
            bytes[..len].copy_from_slice(&last[..len]);
            rest.rest(P::sixteen(simd, &bytes));
        }
    }
}

impl<P: Plain<WIDE>, const WIDE: usize> Multiply for Elements<P, WIDE> {
    #[inline(always)]
    fn multiply<S: Simd>(simd: S, rows: PackedRows<'_>, inputs: &Inputs<'_>, out: &mut [f32]) {
        let (sixteens, _) = rows.bytes.as_chunks::<WIDE>();
        let inputs = inputs.lines();
        for (row, out) in rows.of(sixteens, inputs.len()).zip(out) {
            let mut product = Product::new(simd);
            // As many at a time as there are sums.
            for (row, inputs) in row.chunks(4).zip(inputs.chunks(4)) {
                product.inputs = inputs;
                for (number, bytes) in row.iter().enumerate() {
                    simd.fetch_behind(bytes);
                    product.put(number, P::sixteen(simd, bytes));
                }
            }
            *out = product.total();
        }
    }
}

/// Declares codecs of plain dtypes: the constructor, the bytes of 16 elements, COARSE or FINE values
/// (see [`Plain::FINE`]), and their conversion to floats.
macro_rules! plain {
    ($codec:ident: $($(#[$doc:meta])* $name:ident: $wide:literal $grain:ident, |$simd:ident, $bytes:ident| $body:expr;)*) => {$(
        $(#[$doc])*
        pub(crate) static $name: $crate::Codec = {
            struct Body;
            impl $crate::Plain<$wide> for Body {
                const FINE: bool = $crate::$grain;

                #[inline(always)]
                fn sixteen<S: $crate::simd::Simd>(
                    $simd: S,
                    $bytes: &[u8; $wide],
                ) -> S::Floats {
                    $body
                }
            }
            $crate::Codec::$codec::<Body, $wide>()
        };
    )*};
}
pub(crate) use plain;
