//! Kernels: one generic body for each codec, compiled for each instruction set and each output
//! type. Only this module chooses which of them runs.
#![allow(unsafe_code, reason = "kernels for instructions that were looked for first")]

use std::marker::PhantomData;
use std::sync::OnceLock;

use half::{bf16, f16};

use super::packed::{GroupParts, Grouping, Packed, QuantizerInput};
#[cfg(target_arch = "aarch64")]
use super::simd::Neon;
#[cfg(target_arch = "x86_64")]
use super::simd::{Avx2, Avx512};
use super::simd::{Portable, Simd};

/// The inputs and results of one kind of kernel.
pub(crate) trait KernelSignature {
    type Input<'a>;
    type Output;
}

/// A kernel body, generic over the instruction set that it is compiled for.
pub(super) trait KernelBody<W: KernelSignature> {
    fn run<S: Simd>(simd: S, given: W::Input<'_>) -> W::Output;
}

/// The kernels compiled from one body.
pub(crate) struct Kernels<W: KernelSignature> {
    portable: fn(W::Input<'_>) -> W::Output,
    #[cfg(target_arch = "x86_64")]
    avx2: unsafe fn(W::Input<'_>) -> W::Output,
    #[cfg(target_arch = "x86_64")]
    avx512: unsafe fn(bool, W::Input<'_>) -> W::Output,
    #[cfg(target_arch = "aarch64")]
    neon: unsafe fn(W::Input<'_>) -> W::Output,
    #[cfg(target_arch = "aarch64")]
    neon_bf16: unsafe fn(W::Input<'_>) -> W::Output,
}

impl<W: KernelSignature> std::fmt::Debug for Kernels<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Kernels")
    }
}

fn portable<B: KernelBody<W>, W: KernelSignature>(given: W::Input<'_>) -> W::Output {
    B::run(Portable, given)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c,fma")]
fn avx2<B: KernelBody<W>, W: KernelSignature>(given: W::Input<'_>) -> W::Output {
    // SAFETY: this function is compiled for these features, so its caller must have checked them.
    B::run(unsafe { Avx2::new() }, given)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx2,f16c,fma")]
fn avx512<B: KernelBody<W>, W: KernelSignature>(recent: bool, given: W::Input<'_>) -> W::Output {
    // SAFETY: this function is compiled for these features, so its caller must have checked them,
    // and those of a `recent` processor.
    B::run(unsafe { Avx512::new(recent) }, given)
}

#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
fn neon<B: KernelBody<W>, W: KernelSignature>(given: W::Input<'_>) -> W::Output {
    // SAFETY: this function is compiled for this feature, so its caller must have checked it.
    B::run(unsafe { Neon::new() }, given)
}

#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon,bf16")]
fn neon_bf16<B: KernelBody<W>, W: KernelSignature>(given: W::Input<'_>) -> W::Output {
    // SAFETY: this function is compiled for these features, so its caller must have checked them.
    B::run(unsafe { Neon::with_bf16() }, given)
}

impl<W: KernelSignature> Kernels<W> {
    pub(super) const fn of<B: KernelBody<W>>() -> Self {
        Self {
            portable: portable::<B, W>,
            #[cfg(target_arch = "x86_64")]
            avx2: avx2::<B, W>,
            #[cfg(target_arch = "x86_64")]
            avx512: avx512::<B, W>,
            #[cfg(target_arch = "aarch64")]
            neon: neon::<B, W>,
            // Only kernels that write `bf16` have a use for the instructions.
            #[cfg(target_arch = "aarch64")]
            neon_bf16: neon::<B, W>,
        }
    }

    /// Kernels that write `bf16`.
    pub(super) const fn to_bf16<B: KernelBody<W>>() -> Self {
        Self {
            #[cfg(target_arch = "aarch64")]
            neon_bf16: neon_bf16::<B, W>,
            ..Self::of::<B>()
        }
    }

    /// Runs the kernel of the best instruction set.
    pub(super) fn run(&self, given: W::Input<'_>) -> W::Output {
        self.run_on(Isa::best(), given)
    }

    /// Runs the kernel of one instruction set.
    pub(super) fn run_on(&self, isa: Isa, given: W::Input<'_>) -> W::Output {
        match isa.0 {
            InstructionSet::Portable => (self.portable)(given),
            // SAFETY: an `Isa` exists only if the processor has its instruction set.
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => unsafe { (self.avx2)(given) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => unsafe { (self.avx512)(false, given) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512Recent => unsafe { (self.avx512)(true, given) },
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            InstructionSet::Neon => unsafe { (self.neon)(given) },
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            InstructionSet::NeonBf16 => unsafe { (self.neon_bf16)(given) },
        }
    }
}

/// Decodes to `T`: fills the output, with streaming stores if requested. Returns whether a value
/// may not have survived rounding.
pub(crate) struct ValueDecoding<T>(PhantomData<T>);

impl<T: 'static> KernelSignature for ValueDecoding<T> {
    type Input<'a> = (&'a Packed<'a>, &'a mut [T], bool);
    type Output = bool;
}

/// Quantizes rows to blocks.
pub(crate) struct BlockEncoding;

impl KernelSignature for BlockEncoding {
    type Input<'a> = (&'a QuantizerInput<'a>, &'a mut [u8]);
    type Output = ();
}

/// Quantizes values of type `T` to groups.
pub(crate) struct GroupEncoding<T>(PhantomData<T>);

impl<T: 'static> KernelSignature for GroupEncoding<T> {
    type Input<'a> = (&'a [T], Grouping, GroupParts<'a>);
    type Output = ();
}

/// The kernels of a quantizer of groups, one for each type of values.
#[derive(Debug)]
pub(crate) struct GroupKernels {
    pub(crate) from_f32: Kernels<GroupEncoding<f32>>,
    pub(crate) from_f16: Kernels<GroupEncoding<f16>>,
    pub(crate) from_bf16: Kernels<GroupEncoding<bf16>>,
}

/// An instruction set that has kernels and that this processor supports.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Isa(InstructionSet);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum InstructionSet {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx512Recent,
    #[cfg(target_arch = "aarch64")]
    Neon,
    #[cfg(target_arch = "aarch64")]
    NeonBf16,
}

impl Isa {
    /// All supported instruction sets, the most basic first.
    pub(super) fn available() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let found = {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("f16c")
                && is_x86_feature_detected!("fma");
            let avx512 =
                is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
            [
                Some(InstructionSet::Portable),
                avx2.then_some(InstructionSet::Avx2),
                (avx2 && avx512).then_some(InstructionSet::Avx512),
                (avx2
                    && avx512
                    && is_x86_feature_detected!("avx512bf16")
                    && is_x86_feature_detected!("avx512vnni"))
                .then_some(InstructionSet::Avx512Recent),
            ]
        };
        #[cfg(target_arch = "aarch64")]
        let found = {
            use std::arch::is_aarch64_feature_detected as is_detected;
            // The order of bytes in registers is that of little-endian systems.
            let neon = cfg!(target_endian = "little") && is_detected!("neon");
            [
                Some(InstructionSet::Portable),
                neon.then_some(InstructionSet::Neon),
                (neon && is_detected!("bf16")).then_some(InstructionSet::NeonBf16),
            ]
        };
        #[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
        let found = [Some(InstructionSet::Portable)];
        found.into_iter().flatten().map(Self)
    }

    /// The instruction set whose kernels run.
    fn best() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| Self::available().last().unwrap_or(Self(InstructionSet::Portable)))
    }
}
