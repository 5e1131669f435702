//! The models that are shown.

use std::sync::Arc;

use weighbridge::ops::TensorPairs;
use weighbridge::{Model, Result, Tensor};

use crate::Parameters;
use crate::fault::not_found;
use crate::jobs::Jobs;
use crate::pairs::{PairCache, pair};

/// The models that are shown.
#[derive(Debug)]
pub struct Viewer {
    pub(crate) models: Vec<Model>,
    pairs: PairCache,
    pub(crate) jobs: Jobs,
    pub(crate) measure: Option<fn(&Model) -> Option<MemoryToRun>>,
}

/// The memory that running a model takes.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct MemoryToRun {
    /// Bytes in total.
    pub bytes: u64,
    /// The tokens that the cache has room for.
    pub context: u64,
}

impl Viewer {
    /// A viewer of these models, which questions refer to by their position.
    pub fn new(models: Vec<Model>) -> Self {
        Self { models, pairs: PairCache::default(), jobs: Jobs::default(), measure: None }
    }

    /// Sets the function that measures the memory of running a model. Without it, the page does not show
    /// that.
    #[must_use]
    pub fn measured(mut self, measure: fn(&Model) -> Option<MemoryToRun>) -> Self {
        self.measure = Some(measure);
        self
    }

    pub(crate) fn model(&self, parameters: &Parameters, name: &str) -> Result<(usize, &Model)> {
        let number = parameters.index(name)?;
        let model = self.models.get(number);
        model
            .map(|model| (number, model))
            .ok_or_else(|| not_found(format!("no model {number}: there are {}", self.models.len())))
    }

    pub(crate) fn pairs(&self, parameters: &Parameters) -> Result<Arc<TensorPairs>> {
        self.pairs.of(self.model(parameters, "a")?, self.model(parameters, "b")?)
    }

    /// Applies `with` to one tensor: one of a pair, or a stored tensor by its position.
    pub(crate) fn with_tensor<T>(
        &self,
        parameters: &Parameters,
        with: impl FnOnce(&Tensor) -> Result<T>,
    ) -> Result<T> {
        if parameters.text("pair").is_some() {
            let pairs = self.pairs(parameters)?;
            let pair = pair(&pairs, parameters)?;
            return with(if parameters.text("side") == Some("b") { &pair.b } else { &pair.a });
        }
        let (_, model) = self.model(parameters, "model")?;
        let at = parameters.index("at")?;
        let tensor = model.stored_tensor_at(at);
        with(&tensor.ok_or_else(|| not_found(format!("no tensor {at}")))?)
    }
}
