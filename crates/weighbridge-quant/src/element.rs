//! The number types that values are decoded to.

use half::{bf16, f16};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::kernel::{GroupEncoding, GroupKernels, Kernels, ValueDecoding};
use super::narrowing::Bounds;
use super::runs::Runs;
use super::simd::Simd;

/// A number type that values can be decoded to: `f32`, [`struct@f16`] or [`bf16`].
pub trait Element:
    Copy + FromBytes + Immutable + IntoBytes + KnownLayout + PartialEq + Send + Sync + sealed::Sealed
{
}

impl Element for f32 {}
impl Element for f16 {}
impl Element for bf16 {}

pub(crate) mod sealed {
    use super::{Bounds, GroupEncoding, GroupKernels, Kernels, Runs, Simd, ValueDecoding};

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
        fn encoders(kernels: &GroupKernels) -> &Kernels<GroupEncoding<Self>>;

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
            fn encoders(kernels: &GroupKernels) -> &Kernels<GroupEncoding<Self>> {
                &kernels.$encoders
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

sealed!(
    f32, |runs| Some(&runs.to_f32), from_f32, load, None, std::convert::identity,
    nan false, |simd, a, out, _nan| simd.put_f32::<PAST>(a, out),
    |simd, a| a
);
sealed!(
    f16, |runs| runs.to_f16.as_ref(), from_f16, load_f16, Some(Bounds::F16), f16::from_f32,
    nan false, |simd, a, out, _nan| simd.put_f16::<PAST>(a, out),
    |simd, a| simd.as_f16(a)
);
sealed!(
    bf16, |runs| runs.to_bf16.as_ref(), from_bf16, load_bf16, Some(Bounds::BF16), bf16::from_f32,
    nan true, |simd, a, out, nan| simd.put_bf16::<PAST>(a, out, nan),
    |simd, a| simd.as_bf16(a),
    pair |simd, a, out, nan| simd.pair_bf16::<PAST>(a, out, nan)
);

#[cfg(test)]
mod tests {
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
}
