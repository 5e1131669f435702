//! The error of several tensors in one number.

use super::{DiffOutcome, ModelDiff, TensorPair};

/// The mean of the relative RMS of several tensors, weighted by their elements.
///
/// Each tensor counts by its size alone. A ratio of sums of squares would weigh tensors by the
/// squares of their values, and a few large values would hide every other difference.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct MeanError {
    /// The number of tensors.
    pub tensors: usize,
    /// The number of their elements.
    pub elements: u64,
    /// The sum of their errors, each times its elements.
    sum: f64,
}

impl MeanError {
    /// Adds a tensor with this number of elements and this relative RMS.
    pub fn add(&mut self, elements: u64, relative_rms: f64) {
        self.merge(&Self { tensors: 1, elements, sum: relative_rms * elements as f64 });
    }

    /// Adds the tensors of another mean.
    pub fn merge(&mut self, other: &Self) {
        self.tensors += other.tensors;
        self.elements = self.elements.saturating_add(other.elements);
        self.sum += other.sum;
    }

    /// The mean; `None` if there are no elements.
    pub fn relative_rms(&self) -> Option<f64> {
        (self.elements > 0).then(|| self.sum / self.elements as f64)
    }
}

impl TensorPair {
    /// The relative RMS with which this pair counts in the [error](ModelDiff::error) of a model;
    /// `None` if it does not count.
    ///
    /// Matrices count: tensors of floats with at least two dimensions that are no biases.
    /// Containers store vectors in different dtypes and offsets, and matrices are what is
    /// quantized. An output matrix that is the embedding in both models counts once, as the embedding.
    /// Identical and equal matrices count with an error of 0. A matrix that is all 0 in the first
    /// model and not in the second has no finite ratio, and counts with 1. So does one with a value
    /// that is finite in one of the models alone: it spoils every result.
    pub fn matrix_error(&self, outcome: &DiffOutcome) -> Option<f64> {
        let is_integer = self.a.dtype().is_ok_and(|dtype| dtype.is_integer());
        if self.a.shape().len() < 2 || self.name.ends_with("bias") || is_integer || self.is_copy {
            return None;
        }
        match outcome {
            DiffOutcome::Identical => Some(0.0),
            DiffOutcome::Values(values) => {
                let ratio = values.relative_rms();
                Some(if ratio.is_finite() && values.max().is_finite() { ratio } else { 1.0 })
            }
            DiffOutcome::Shapes | DiffOutcome::Unread(_) => None,
        }
    }
}

impl ModelDiff {
    /// The error of the second model: the mean over all compared matrices, see
    /// [`TensorPair::matrix_error`].
    pub fn error(&self) -> MeanError {
        let mut mean = MeanError::default();
        for tensor in &self.tensors {
            if let Some(error) = tensor.pair.matrix_error(&tensor.outcome) {
                mean.add(tensor.pair.a.elements(), error);
            }
        }
        mean
    }
}
