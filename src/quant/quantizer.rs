//! Quantizing: how numbers become the bytes of a dtype.

use super::kernel::{Encode, Encoding, Kernels};

/// The routines that choose a dtype's codes.
#[derive(Debug)]
pub struct Quantizer {
    kernels: Kernels<Encoding>,
    importance: Importance,
}

/// What a dtype's quantizer does with the importance of columns.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Importance {
    /// It makes no difference.
    Ignored,
    /// Codes are chosen for the least weighted error where it is given.
    Used,
    /// There is no quantizing without it: so few bits are left that guessing what matters would
    /// make them worthless.
    Required,
}

/// Rows of numbers, all of them whole blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<'a> {
    pub(crate) values: &'a [f32],
    /// Elements of a row.
    pub(crate) columns: usize,
    /// One weight for each column.
    pub(crate) importance: Option<&'a [f32]>,
}

impl Quantizer {
    pub(super) const fn of<E: Encode>(importance: Importance) -> Self {
        Self { kernels: Kernels::of::<E>(), importance }
    }

    /// What it does with the importance of columns.
    pub fn importance(&self) -> Importance {
        self.importance
    }

    /// Fills `out` with the bytes of all rows.
    pub(crate) fn run(&self, rows: &Rows<'_>, out: &mut [u8]) {
        self.kernels.run((rows, out));
    }

    #[cfg(test)]
    pub(super) fn run_on(&self, isa: super::kernel::Isa, rows: &Rows<'_>, out: &mut [u8]) {
        self.kernels.run_on(isa, (rows, out));
    }
}
