//! Values that rounding to a narrower format loses.

/// The magnitudes that a narrower format cannot represent, as bits of an `f32`.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The smallest magnitude that rounds to infinity.
    pub(crate) over: u32,
    /// The largest magnitude that rounds to 0.
    pub(crate) under: u32,
}

impl Bounds {
    /// At least half a step beyond 65504; at most half of the smallest subnormal, where the tie rounds
    /// to even.
    pub(crate) const F16: Self = Self { over: 0x477f_f000, under: 0x3300_0000 };
    pub(crate) const BF16: Self = Self { over: 0x7f7f_8000, under: 0x8000 };
}

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
    use super::*;

    #[test]
    fn what_is_lost_is_counted() {
        let mut lost = Narrowing::default();
        let tiny = f32::from_bits(0x3300_0000);
        let values =
            [0.0, -0.0, 65519.9, 65520.0, -7e4, f32::INFINITY, f32::NAN, tiny, -1e-10, 1e-7];
        lost.look(&values, Bounds::F16);
        assert_eq!(lost, Narrowing { overflows: 2, flushes: 2 });
        assert!(!lost.is_lossless());
    }
}
