//! One body for each codec, compiled for each instruction set and each kind of output; which of
//! them runs is decided here and nowhere else.
#![allow(unsafe_code, reason = "kernels for instructions that were looked for first")]

use std::sync::OnceLock;

use super::element::Element;
use super::mlx::{GroupParts, Grouping};
#[cfg(target_arch = "x86_64")]
use super::simd::{Avx2, Avx512};
use super::simd::{Portable, Simd};
use super::{Packed, Runs};

/// How a dtype's values are computed.
pub(super) trait Decode {
    /// Puts all values that there is room for, from the first of `packed` on.
    fn decode<S: Simd, T: Element, const PAST: bool>(packed: &Packed<'_>, out: Out<'_, S, T, PAST>);
}

/// Where values go, 16 at a time.
pub(super) struct Out<'a, S: Simd, T, const PAST: bool> {
    pub(super) simd: S,
    pub(super) values: &'a mut [T],
    seen: &'a mut S::Seen,
}

impl<'a, S: Simd, T: Element, const PAST: bool> Out<'a, S, T, PAST> {
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// Whole runs of `UNITS` times 16 values, what puts them there, and what follows.
    #[inline(always)]
    pub(super) fn runs<const UNITS: usize>(
        self,
    ) -> (&'a mut [Run<T, UNITS>], Units<'a, S, T, PAST>, Self) {
        let Self { simd, values, seen } = self;
        let (values, rest) = values.split_at_mut(values.len() / (16 * UNITS) * (16 * UNITS));
        let (runs, _) = values.as_chunks_mut::<16>().0.as_chunks_mut::<UNITS>();
        // Kept out of memory while values are written, which it cannot share.
        let units = Units { simd, seen: *seen, close: true, out: &mut [] };
        (runs, units, Self { simd, values: rest, seen })
    }

    /// Remembers what was seen of values that were put.
    #[inline(always)]
    pub(super) fn saw(self, units: &Units<'_, S, T, PAST>) -> Self {
        *self.seen = units.seen;
        self
    }

    /// Puts fewer than 16 values: the first of `floats`.
    #[inline(always)]
    pub(super) fn rest(self, floats: S::Floats) {
        let mut all = [T::round(0.0); 16];
        // Those that there is no room for are not looked at either: they may be anything.
        let mut exact = [0.0; 16];
        self.simd.put_f32::<false>(floats, &mut exact);
        exact.iter_mut().skip(self.values.len()).for_each(|value| *value = 0.0);
        let floats = self.simd.load(&exact);
        T::put::<S, false>(self.simd, floats, &mut all);
        self.simd.look(self.seen, floats);
        let len = self.values.len().min(16);
        self.values[..len].copy_from_slice(&all[..len]);
    }
}

/// Room for a run of values.
type Run<T, const UNITS: usize> = [[T; 16]; UNITS];

/// The values of one block.
pub(super) struct Units<'a, S: Simd, T, const PAST: bool> {
    simd: S,
    seen: S::Seen,
    /// Whether the next values may be so small or so large that they do not survive rounding, and
    /// have to be looked at.
    pub(super) close: bool,
    /// Where the next block's values go.
    pub(super) out: &'a mut [[T; 16]],
}

/// Takes the values of one block.
pub(super) trait Put<S: Simd> {
    /// A factor of half precision. From 8 on, values may become infinite as halves: no codec
    /// multiplies it with more than 4096, or adds more than 64 times another.
    fn half(&mut self, bytes: [u8; 2]) -> f32;

    /// Takes 16 values, the `number`th of their block.
    fn put(&mut self, number: usize, floats: S::Floats);

    /// Takes 32 values, the `number`th of their block.
    #[inline(always)]
    fn pair(&mut self, number: usize, [first, second]: [S::Floats; 2]) {
        self.put(2 * number, first);
        self.put(2 * number + 1, second);
    }
}

impl<S: Simd, T: Element, const PAST: bool> Put<S> for Units<'_, S, T, PAST> {
    #[inline(always)]
    fn half(&mut self, bytes: [u8; 2]) -> f32 {
        const EIGHT: u16 = 0x4800;
        let bits = u16::from_le_bytes(bytes);
        self.close |= bits & 0x7fff >= EIGHT;
        self.simd.f16(bits)
    }

    #[inline(always)]
    fn put(&mut self, number: usize, floats: S::Floats) {
        if T::BOUNDS.is_some() && self.close {
            self.simd.look(&mut self.seen, floats);
        }
        T::put::<S, PAST>(self.simd, floats, &mut self.out[number]);
    }
}

/// Decodes, and says whether some value may not have survived rounding.
type Kernel<T> = fn(&Packed<'_>, &mut [T], bool) -> bool;

/// The same, with instructions that must have been looked for.
#[cfg(target_arch = "x86_64")]
type UnsafeKernel<T> = unsafe fn(&Packed<'_>, &mut [T], bool) -> bool;

/// The kernels of one codec that write `T`.
pub(crate) struct Kernels<T> {
    portable: Kernel<T>,
    #[cfg(target_arch = "x86_64")]
    avx2: UnsafeKernel<T>,
    #[cfg(target_arch = "x86_64")]
    avx512: UnsafeKernel<T>,
}

impl<T> std::fmt::Debug for Kernels<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Kernels")
    }
}

#[inline(always)]
fn decode<D: Decode, S: Simd, T: Element>(
    simd: S,
    packed: &Packed<'_>,
    values: &mut [T],
    past: bool,
) -> bool {
    let mut seen = simd.blank();
    if past {
        D::decode(packed, Out::<S, T, true> { simd, values, seen: &mut seen });
        simd.fence();
    } else {
        D::decode(packed, Out::<S, T, false> { simd, values, seen: &mut seen });
    }
    T::BOUNDS.is_some_and(|bounds| simd.doubtful(seen, bounds.over(), bounds.under()))
}

fn portable<D: Decode, T: Element>(packed: &Packed<'_>, values: &mut [T], _: bool) -> bool {
    decode::<D, _, T>(Portable, packed, values, false)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
fn avx2<D: Decode, T: Element>(packed: &Packed<'_>, values: &mut [T], past: bool) -> bool {
    // SAFETY: this function is compiled for these features, so whoever called it had looked.
    decode::<D, _, T>(unsafe { Avx2::new() }, packed, values, past)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx2,f16c")]
fn avx512<D: Decode, T: Element>(packed: &Packed<'_>, values: &mut [T], past: bool) -> bool {
    // SAFETY: this function is compiled for these features, so whoever called it had looked.
    decode::<D, _, T>(unsafe { Avx512::new() }, packed, values, past)
}

impl<T: Element> Kernels<T> {
    const fn of<D: Decode>() -> Self {
        Self {
            portable: portable::<D, T>,
            #[cfg(target_arch = "x86_64")]
            avx2: avx2::<D, T>,
            #[cfg(target_arch = "x86_64")]
            avx512: avx512::<D, T>,
        }
    }

    /// Decodes as many values as there is room for, past the cache where that is asked for. Says
    /// whether some value may not have survived rounding.
    pub(super) fn run(&self, packed: &Packed<'_>, out: &mut [T], past: bool) -> bool {
        self.run_on(Isa::best(), packed, out, past)
    }

    /// The same with the kernel of one instruction set.
    pub(super) fn run_on(&self, isa: Isa, packed: &Packed<'_>, out: &mut [T], past: bool) -> bool {
        match isa.0 {
            Set::Portable => (self.portable)(packed, out, past),
            // SAFETY: the set was found before an `Isa` was made of it.
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => unsafe { (self.avx2)(packed, out, past) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => unsafe { (self.avx512)(packed, out, past) },
        }
    }
}

impl Runs {
    pub(super) const fn of<D: Decode>() -> Self {
        Self {
            to_f32: Kernels::of::<D>(),
            to_f16: Kernels::of::<D>(),
            to_bf16: Kernels::of::<D>(),
            native: None,
            lost: None,
        }
    }
}

/// How values become codes, scales and biases.
pub(super) trait Quantize {
    fn quantize<S: Simd, T: Element>(
        simd: S,
        values: &[T],
        grouping: Grouping,
        out: GroupParts<'_>,
    );
}

/// Quantizes.
type Quantizing<T> = fn(&[T], Grouping, GroupParts<'_>);

/// The same, with instructions that must have been looked for.
#[cfg(target_arch = "x86_64")]
type UnsafeQuantizing<T> = unsafe fn(&[T], Grouping, GroupParts<'_>);

/// The kernels of one dtype that quantize `T`.
#[derive(Debug)]
pub(super) struct Quantizers<T> {
    portable: Quantizing<T>,
    #[cfg(target_arch = "x86_64")]
    avx2: UnsafeQuantizing<T>,
    #[cfg(target_arch = "x86_64")]
    avx512: UnsafeQuantizing<T>,
}

fn quantize_portable<Q: Quantize, T: Element>(
    values: &[T],
    grouping: Grouping,
    out: GroupParts<'_>,
) {
    Q::quantize(Portable, values, grouping, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
fn quantize_avx2<Q: Quantize, T: Element>(values: &[T], grouping: Grouping, out: GroupParts<'_>) {
    // SAFETY: this function is compiled for these features, so whoever called it had looked.
    Q::quantize(unsafe { Avx2::new() }, values, grouping, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx2,f16c")]
fn quantize_avx512<Q: Quantize, T: Element>(values: &[T], grouping: Grouping, out: GroupParts<'_>) {
    // SAFETY: this function is compiled for these features, so whoever called it had looked.
    Q::quantize(unsafe { Avx512::new() }, values, grouping, out);
}

impl<T: Element> Quantizers<T> {
    pub(super) const fn of<Q: Quantize>() -> Self {
        Self {
            portable: quantize_portable::<Q, T>,
            #[cfg(target_arch = "x86_64")]
            avx2: quantize_avx2::<Q, T>,
            #[cfg(target_arch = "x86_64")]
            avx512: quantize_avx512::<Q, T>,
        }
    }

    pub(super) fn run(&self, values: &[T], grouping: Grouping, out: GroupParts<'_>) {
        self.run_on(Isa::best(), values, grouping, out);
    }

    /// The same with the kernel of one instruction set.
    pub(super) fn run_on(&self, isa: Isa, values: &[T], grouping: Grouping, out: GroupParts<'_>) {
        match isa.0 {
            Set::Portable => (self.portable)(values, grouping, out),
            // SAFETY: the set was found before an `Isa` was made of it.
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => unsafe { (self.avx2)(values, grouping, out) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => unsafe { (self.avx512)(values, grouping, out) },
        }
    }
}

/// An instruction set that there are kernels for, and that this processor has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Isa(Set);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Set {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// Every one that is there, the plainest first.
    pub(super) fn available() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let found = {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c");
            let avx512 =
                is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
            [
                Some(Set::Portable),
                avx2.then_some(Set::Avx2),
                (avx2 && avx512).then_some(Set::Avx512),
            ]
        };
        #[cfg(not(target_arch = "x86_64"))]
        let found = [Some(Set::Portable)];
        found.into_iter().flatten().map(Self)
    }

    /// The one whose kernels run.
    fn best() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| Self::available().last().unwrap_or(Self(Set::Portable)))
    }
}
