//! The changes of a tensor's values when it is produced.

use std::ops::AddAssign;

use crate::dtype::DType;
use crate::quant::{Decoder, Narrowing, Packed, Rounding, Stores};

/// The loss of values that were rounded or requantized.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Loss {
    /// Values that became infinite or 0.
    pub narrowing: Narrowing,
    /// The sum of the squared differences and the sum of the squared values, for a requantized
    /// tensor.
    squares: (f64, f64),
}

impl Loss {
    /// Whether nothing was lost.
    pub fn is_nothing(&self) -> bool {
        self.narrowing.is_lossless() && self.squares.0 == 0.0
    }

    /// The relative error of a requantized tensor: the root mean square of the differences divided
    /// by that of the values. `None` for other tensors.
    pub fn relative_rms(&self) -> Option<f64> {
        let (differences, values) = self.squares;
        (differences > 0.0 && values > 0.0).then(|| (differences / values).sqrt())
    }

    /// Measures the loss of values that have been packed.
    pub(super) fn measured(values: &[f32], dtype: DType, packed: &Packed<'_>) -> Self {
        let mut loss = Self::default();
        let Some(Decoder::Runs(runs)) = dtype.descriptor().codec.map(|codec| &codec.0) else {
            return loss;
        };
        let mut now = vec![0.0; values.len()];
        runs.decode::<f32>(packed, &mut now, Rounding::F32, Stores::Cached);
        for (was, is) in values.iter().zip(&now) {
            let difference = f64::from(*was) - f64::from(*is);
            loss.squares.0 += difference * difference;
            loss.squares.1 += f64::from(*was) * f64::from(*was);
        }
        loss
    }
}

impl From<Narrowing> for Loss {
    fn from(narrowing: Narrowing) -> Self {
        Self { narrowing, ..Self::default() }
    }
}

impl AddAssign for Loss {
    fn add_assign(&mut self, other: Self) {
        self.narrowing += other.narrowing;
        self.squares.0 += other.squares.0;
        self.squares.1 += other.squares.1;
    }
}
