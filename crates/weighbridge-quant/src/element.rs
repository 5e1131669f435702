//! The number types that values are decoded to, and what is lost by rounding.
//!
//! This file and `kernel` import each other on purpose: an element selects its own kernels from a
//! codec's, and kernels are generic over elements.

use half::{bf16, f16};

use super::kernel::{GroupEncoding, Kernels, ValueDecoding};
use super::simd::Simd;
use super::{GroupQuantizer, Runs};

/// A number type that values can be decoded to: `f32`, [`struct@f16`] or [`bf16`].
pub trait Element: bytemuck::Pod + PartialEq + Send + Sync + sealed::Sealed {}

impl Element for f32 {}
impl Element for f16 {}
impl Element for bf16 {}

pub(crate) mod sealed {
    use super::{Bounds, GroupEncoding, GroupQuantizer, Kernels, Runs, Simd, ValueDecoding};

    /// The operations that the library needs of an element.
    pub trait Sealed: Sized + 'static {
        /// The magnitudes that do not survive rounding; `None` if all do.
        #[doc(hidden)]
        const BOUNDS: Option<Bounds>;

        /// Whether NaN takes steps of its own to write.
        #[doc(hidden)]
        const TELLS_NAN: bool;

        #[doc(hidden)]
        #[allow(private_interfaces, reason = "nobody outside can name the trait")]
        fn decoders(runs: &Runs) -> Option<&Kernels<ValueDecoding<Self>>>;

        #[doc(hidden)]
        #[allow(private_interfaces, reason = "nobody outside can name the trait")]
        fn encoders(quantizer: &GroupQuantizer) -> &Kernels<GroupEncoding<Self>>;

        /// Rounds to nearest, ties to even.
        #[doc(hidden)]
        fn round(value: f32) -> Self;

        /// Writes values. None of them may be NaN or subnormal unless `nan` says so.
        #[doc(hidden)]
        #[allow(private_bounds, private_interfaces, reason = "nobody outside can name the trait")]
        fn put<S: Simd, const PAST: bool>(
            simd: S,
            floats: S::Floats,
            out: &mut [Self; 16],
            nan: bool,
        );

        /// Like [`put`](Self::put), for twice as many values.
        #[doc(hidden)]
        #[inline(always)]
        #[allow(private_bounds, private_interfaces, reason = "nobody outside can name the trait")]
        fn pair<S: Simd, const PAST: bool>(
            simd: S,
            floats: [S::Floats; 2],
            out: &mut [[Self; 16]; 2],
            nan: bool,
        ) {
            for (floats, out) in floats.iter().zip(out) {
                Self::put::<S, PAST>(simd, *floats, out, nan);
            }
        }

        #[doc(hidden)]
        #[allow(private_bounds, private_interfaces, reason = "nobody outside can name the trait")]
        fn load<S: Simd>(simd: S, from: &[Self; 16]) -> S::Floats;

        /// Rounds like [`round`](Self::round), except that NaN may become anything.
        #[doc(hidden)]
        #[allow(private_bounds, private_interfaces, reason = "nobody outside can name the trait")]
        fn rounded<S: Simd>(simd: S, floats: S::Floats) -> S::Floats;
    }
}

/// The magnitudes that a narrower format cannot represent, as bits of an `f32`.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The smallest magnitude that rounds to infinity.
    over: u32,
    /// The largest magnitude that rounds to 0.
    under: u32,
}

impl Bounds {
    pub(super) const fn over(self) -> u32 {
        self.over
    }

    pub(super) const fn under(self) -> u32 {
        self.under
    }
}

macro_rules! sealed {
    (
        $element:ty, |$runs:ident| $decoders:expr, $encoders:ident, $load:ident, $bounds:expr, $round:expr,
        nan $tells_nan:literal, |$to:ident, $values:ident, $out:ident, $nan:ident| $put:expr,
        |$simd:ident, $floats:ident| $rounded:expr
        $(, pair |$two:ident, $pair:ident, $room:ident, $no_number:ident| $store:expr)?
    ) => {
        impl sealed::Sealed for $element {
            const BOUNDS: Option<Bounds> = $bounds;

            const TELLS_NAN: bool = $tells_nan;

            #[allow(private_interfaces, reason = "nobody outside can name the trait")]
            fn decoders($runs: &Runs) -> Option<&Kernels<ValueDecoding<Self>>> {
                $decoders
            }

            #[allow(private_interfaces, reason = "nobody outside can name the trait")]
            fn encoders(quantizer: &GroupQuantizer) -> &Kernels<GroupEncoding<Self>> {
                &quantizer.$encoders
            }

            #[inline(always)]
            fn round(value: f32) -> Self {
                $round(value)
            }

            #[inline(always)]
            #[allow(
                private_bounds,
                private_interfaces,
                reason = "nobody outside can name the trait"
            )]
            fn put<S: Simd, const PAST: bool>(
                $to: S,
                $values: S::Floats,
                $out: &mut [Self; 16],
                $nan: bool,
            ) {
                $put;
            }

            $(
                #[inline(always)]
                #[allow(
                    private_bounds,
                    private_interfaces,
                    reason = "nobody outside can name the trait"
                )]
                fn pair<S: Simd, const PAST: bool>(
                    $two: S,
                    $pair: [S::Floats; 2],
                    $room: &mut [[Self; 16]; 2],
                    $no_number: bool,
                ) {
                    $store;
                }
            )?

            #[inline(always)]
            #[allow(
                private_bounds,
                private_interfaces,
                reason = "nobody outside can name the trait"
            )]
            fn load<S: Simd>(simd: S, from: &[Self; 16]) -> S::Floats {
                simd.$load(from)
            }

            #[inline(always)]
            #[allow(
                private_bounds,
                private_interfaces,
                unused_variables,
                reason = "nobody outside can name the trait; an `f32` needs no rounding"
            )]
            fn rounded<S: Simd>($simd: S, $floats: S::Floats) -> S::Floats {
                $rounded
            }
        }
    };
}

/// At least half a step beyond 65504; at most half of the smallest subnormal, where the tie rounds
/// to even.
const F16: Bounds = Bounds { over: 0x477f_f000, under: 0x3300_0000 };
const BF16: Bounds = Bounds { over: 0x7f7f_8000, under: 0x8000 };

sealed!(
    f32, |runs| Some(&runs.to_f32), from_f32, load, None, std::convert::identity,
    nan false, |simd, a, out, _nan| simd.put_f32::<PAST>(a, out),
    |simd, a| a
);
sealed!(
    f16, |runs| runs.to_f16.as_ref(), from_f16, load_f16, Some(F16), f16::from_f32,
    nan false, |simd, a, out, _nan| simd.put_f16::<PAST>(a, out),
    |simd, a| simd.as_f16(a)
);
sealed!(
    bf16, |runs| runs.to_bf16.as_ref(), from_bf16, load_bf16, Some(BF16), bf16::from_f32,
    nan true, |simd, a, out, nan| simd.put_bf16::<PAST>(a, out, nan),
    |simd, a| simd.as_bf16(a),
    pair |simd, a, out, nan| simd.pair_bf16::<PAST>(a, out, nan)
);

/// The values that rounding to a narrower format turned into infinity or 0.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Narrowing {
    /// The number of finite values that became infinite.
    pub overflows: u64,
    /// The number of nonzero values that became 0.
    pub flushes: u64,
}

impl Narrowing {
    /// Whether no value became infinite or 0.
    pub const fn is_lossless(self) -> bool {
        self.overflows == 0 && self.flushes == 0
    }

    pub(super) fn count(&mut self, overflows: usize, flushes: usize) {
        self.overflows += overflows as u64;
        self.flushes += flushes as u64;
    }

    /// Counts the values that do not survive rounding.
    pub(super) fn look(&mut self, values: &[f32], bounds: Bounds) {
        let infinite = f32::INFINITY.to_bits();
        let magnitudes = || values.iter().map(|value| value.abs().to_bits());
        let over = magnitudes().filter(|bits| (bounds.over..infinite).contains(bits)).count();
        let under = magnitudes().filter(|bits| (1..=bounds.under).contains(bits)).count();
        self.count(over, under);
    }
}

impl std::ops::AddAssign for Narrowing {
    fn add_assign(&mut self, other: Self) {
        self.overflows += other.overflows;
        self.flushes += other.flushes;
    }
}

#[cfg(test)]
mod tests {
    use super::sealed::Sealed;
    use super::*;

    #[test]
    fn limits_are_where_rounding_crosses_them() {
        fn check<T: Element>(finite: impl Fn(T) -> bool, zero: impl Fn(T) -> bool) {
            let bounds = T::BOUNDS.unwrap();
            assert!(!finite(T::round(f32::from_bits(bounds.over))));
            assert!(finite(T::round(f32::from_bits(bounds.over - 1))));
            assert!(zero(T::round(f32::from_bits(bounds.under))));
            assert!(!zero(T::round(f32::from_bits(bounds.under + 1))));
        }
        check(f16::is_finite, |x: f16| x == f16::ZERO);
        check(bf16::is_finite, |x: bf16| x == bf16::ZERO);
    }

    #[test]
    fn what_is_lost_is_counted() {
        let mut lost = Narrowing::default();
        let tiny = f32::from_bits(0x3300_0000);
        let values =
            [0.0, -0.0, 65519.9, 65520.0, -7e4, f32::INFINITY, f32::NAN, tiny, -1e-10, 1e-7];
        lost.look(&values, f16::BOUNDS.unwrap());
        assert_eq!(lost, Narrowing { overflows: 2, flushes: 2 });
        assert!(!lost.is_lossless());
    }
}
