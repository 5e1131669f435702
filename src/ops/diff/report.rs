//! The serializable report of a diff.

use super::{ConfigDifference, DiffOutcome, ModelDiff, TensorDiff, ValueDiff};
use crate::bytes::Text;
use crate::error::Error;
use crate::model::{Model, Tensor};

/// The difference between two models, tensor by tensor; see [`ModelDiff::report`].
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct DiffReport<'d> {
    /// The first model.
    pub a: DiffedModel,
    /// The second.
    pub b: DiffedModel,
    /// The largest difference of elements that count as equal.
    pub tolerance: f64,
    /// The number of tensors whose values were compared. They are equal unless `different` lists
    /// them.
    pub compared: usize,
    /// The number of compared tensors with identical packed bytes.
    pub identical: usize,
    /// The error of the second model, the mean relative RMS of all compared matrices weighted by
    /// their elements; `None` if no matrix was compared. See [`ModelDiff::error`].
    pub relative_rms: Option<f64>,
    /// The number of matrices that `relative_rms` is the mean of.
    pub matrices: usize,
    /// Tensors that differ.
    pub different: Vec<DifferentTensor<'d>>,
    /// Names that the second model lacks.
    pub only_a: Vec<&'d str>,
    /// Names that the first model lacks.
    pub only_b: Vec<&'d str>,
    /// Values of the configs that change what the models compute, and differ.
    pub config: &'d [ConfigDifference],
    /// Tensors whose values cannot be read.
    pub unread: Vec<UnreadTensor<'d>>,
    /// Notes on how names were matched.
    pub notes: &'d [String],
}

/// One of two models that were compared.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct DiffedModel {
    /// The path of the model.
    pub path: String,
    /// The name of its container.
    pub container: &'static str,
    /// The name of its architecture, if known.
    pub architecture: Option<&'static str>,
}

/// A tensor that differs.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct DifferentTensor<'d> {
    /// The name under which both models have it.
    pub name: &'d str,
    /// The tensor in the first model.
    pub a: DiffedTensor<'d>,
    /// The tensor in the second.
    pub b: DiffedTensor<'d>,
    /// The difference between the values; absent if the shapes differ.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub values: Option<DifferentValues>,
}

/// A tensor in one of two models.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct DiffedTensor<'d> {
    /// The names of its stored tensors.
    pub stored: Vec<String>,
    /// The names of their dtypes.
    pub dtype: String,
    /// Dimensions, outermost first.
    pub shape: &'d [u64],
}

/// The difference between the values of a tensor: see [`ValueDiff`].
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct DifferentValues {
    /// The number of compared elements.
    pub elements: u64,
    /// The number of elements that differ by more than the tolerance.
    pub differing: u64,
    /// [`ValueDiff::max`].
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::ops::serialize::float"))]
    pub max_difference: f64,
    /// [`ValueDiff::rms`].
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::ops::serialize::float"))]
    pub rms_difference: f64,
    /// [`ValueDiff::relative_rms`].
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::ops::serialize::float"))]
    pub relative_rms: f64,
    /// [`ValueDiff::cosine`].
    pub cosine: Option<f64>,
    /// The element that differs most.
    pub worst: Option<WorstElement>,
}

/// The element that differs most.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct WorstElement {
    /// Its indices, outermost first.
    pub at: Vec<u64>,
    /// Its value in the first model.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::ops::serialize::float"))]
    pub a: f64,
    /// Its value in the second.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::ops::serialize::float"))]
    pub b: f64,
}

/// A tensor whose values cannot be read.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct UnreadTensor<'d> {
    /// The name under which both models have it.
    pub name: &'d str,
    /// The reason.
    #[cfg_attr(
        feature = "serde",
        serde(serialize_with = "crate::ops::serialize::message", rename = "reason")
    )]
    pub error: &'d Error,
}

impl ModelDiff {
    /// Returns a report that serializes.
    pub fn report(&self) -> DiffReport<'_> {
        let differing = self.tensors.iter().filter(|tensor| tensor.outcome.is_difference());
        let unread = self.tensors.iter().filter_map(|tensor| match &tensor.outcome {
            DiffOutcome::Unread(error) => Some(UnreadTensor { name: &tensor.pair.name, error }),
            _ => None,
        });
        let unread: Vec<UnreadTensor<'_>> = unread.collect();
        let error = self.error();
        let identical = |tensor: &&TensorDiff| matches!(tensor.outcome, DiffOutcome::Identical);
        DiffReport {
            a: DiffedModel::new(&self.a),
            b: DiffedModel::new(&self.b),
            tolerance: self.tolerance,
            compared: self.tensors.len() - unread.len(),
            identical: self.tensors.iter().filter(identical).count(),
            relative_rms: error.relative_rms(),
            matrices: error.tensors,
            different: differing.map(DifferentTensor::new).collect(),
            only_a: self.only_a.iter().map(Tensor::name).collect(),
            only_b: self.only_b.iter().map(Tensor::name).collect(),
            config: &self.config,
            unread,
            notes: &self.notes,
        }
    }
}

impl DiffedModel {
    fn new(model: &Model) -> Self {
        let found = model.resolution().ok().and_then(|found| found.architecture);
        Self {
            path: Text::from_path(model.path()).spelling().into_owned(),
            container: model.container(),
            architecture: found.map(|architecture| architecture.name),
        }
    }
}

impl<'d> DifferentTensor<'d> {
    fn new(tensor: &'d TensorDiff) -> Self {
        let side = |tensor: &'d Tensor| DiffedTensor {
            stored: tensor.stored_names().map(|name| name.spelling().into_owned()).collect(),
            dtype: tensor.dtype_label(),
            shape: tensor.shape(),
        };
        let values = match &tensor.outcome {
            DiffOutcome::Values(values) => Some(values.report(tensor.pair.a.shape())),
            _ => None,
        };
        Self { name: &tensor.pair.name, a: side(&tensor.pair.a), b: side(&tensor.pair.b), values }
    }
}

impl ValueDiff {
    /// Returns a report that serializes, of tensors with this shape.
    pub fn report(&self, shape: &[u64]) -> DifferentValues {
        DifferentValues {
            elements: self.elements,
            differing: self.differing,
            max_difference: self.max(),
            rms_difference: self.rms(),
            relative_rms: self.relative_rms(),
            cosine: self.cosine(),
            worst: self.worst.map(|worst| WorstElement {
                at: worst.indices(shape),
                a: worst.a.into(),
                b: worst.b.into(),
            }),
        }
    }
}
