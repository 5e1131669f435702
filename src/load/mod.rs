//! The provider: loads the tensors of a model to a device by canonical name, and caches them.
//!
//! ```text
//!  name ──resolution──▶ Tensor ──layout──▶ LoadJob ──pieces, in file order──▶ D::Buffer ──▶ cache
//!  (or several, to fuse)       (parts)         (copied, or decoded to a dtype)
//! ```
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

mod cache;
mod dispatch;
mod fill;
mod fuse;
mod loaded;
mod plan;
mod policy;

use std::path::Path;
use std::sync::Arc;

use crate::device::{Cpu, Device};
use crate::dtype::DType;
use crate::error::Result;
use crate::model::{Axis, Convention, Model, Sharding, Tensor};
use cache::Cache;
use policy::Choices;

pub use crate::device::LoadedPart;
pub use dispatch::{Dispatch, DispatchCost, DispatchTable};
pub use fuse::{FUSIONS, Fusion};
pub use loaded::{LoadedTensor, Member};
pub use plan::LoadOptions;
pub use policy::{PartToLoad, Policy};

/// The tensors of a [`Model`] on a device, loaded by canonical name, cached and fused.
///
/// A tensor such as `layers.3.attention.q.weight` has the same rows and values whichever container
/// stores it: see [`Tensor`]. Loading a tensor twice returns the same buffer. Tensors without a
/// canonical name, such as all those of an unknown architecture, are loaded by their stored names.
#[derive(Debug)]
pub struct WeightProvider<D: Device = Cpu> {
    model: Model,
    convention: Convention,
    sharding: Sharding,
    choices: Choices,
    is_tight: bool,
    device: D,
    cache: Cache<D>,
}

impl WeightProvider {
    /// Opens a model, whose tensors will be loaded into host memory.
    ///
    /// # Errors
    ///
    /// Same as [`Model::open`] and [`Model::resolution`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::new(Model::open(path)?, Cpu)
    }
}

impl<D: Device> WeightProvider<D> {
    /// Creates a provider that loads the tensors of an opened model onto `device`.
    ///
    /// # Errors
    ///
    /// Same as [`Model::resolution`].
    pub fn new(model: Model, device: D) -> Result<Self> {
        model.resolution()?;
        Ok(Self {
            model,
            convention: Convention::default(),
            sharding: Sharding::new(),
            choices: Choices::default(),
            is_tight: false,
            device,
            cache: Cache::default(),
        })
    }

    /// Sets the convention for row order and values; by default [`Convention::HuggingFace`].
    #[must_use]
    pub fn convention(mut self, convention: Convention) -> Self {
        self.unload_all();
        self.convention = convention;
        self
    }

    /// Serves one rank's part of each tensor, for engines that run a model on several devices or
    /// machines. Tensors are divided before they are fused, and only the bytes of the part are read.
    ///
    /// ```
    /// use weighbridge::WeightProvider;
    /// use weighbridge::model::Sharding;
    ///
    /// # fn main() -> weighbridge::Result<()> {
    /// let rank = WeightProvider::open("assets/sample/sample-Q8_0.gguf")?
    ///     .sharding(Sharding::new().tensor(1, 2))?;
    /// let whole = rank.model().tensor("layers.0.ffn.gate.weight")?;
    /// let loaded = rank.load("layers.0.ffn.gate.weight")?;
    /// assert_eq!(2 * loaded.shape[0], whole.shape()[0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`Model::names_of_rank`].
    pub fn sharding(mut self, sharding: Sharding) -> Result<Self> {
        self.model.names_of_rank(&sharding)?;
        self.unload_all();
        self.sharding = sharding;
        Ok(self)
    }

    /// Sets the dtype that loaded tensors are stored in; by default they stay packed as stored.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.unload_all();
        (self.choices.policy, self.choices.of) = (policy, None);
        self
    }

    /// Chooses a policy for each tensor, and for each part beside its codes.
    ///
    /// ```
    /// use weighbridge::{DType, Part, Policy, WeightProvider};
    ///
    /// # fn main() -> weighbridge::Result<()> {
    /// // Norms as F32; the scales of packed tensors as F16.
    /// let model = WeightProvider::open("assets/sample/mlx-4bit")?.policy_of(|part| {
    ///     match part.part {
    ///         Part::Weight if part.tensor.contains("norm") => Policy::F32,
    ///         Part::Weight => Policy::Keep,
    ///         _ => Policy::F16,
    ///     }
    /// });
    /// let q = model.load("layers.0.attention.q.weight")?;
    /// assert_eq!(q.part(Part::Scale).map(|part| part.dtype), Some(DType::F16));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn policy_of(
        mut self,
        policy: impl Fn(PartToLoad<'_>) -> Policy + Send + Sync + 'static,
    ) -> Self {
        self.unload_all();
        self.choices.of = Some(Arc::new(policy));
        self
    }

    /// Sets the dtypes that tensors are decoded to if the device does not compute with them as they are
    /// stored: the first of these that it supports. A floating-point part beside the codes, such as the
    /// scales, is converted instead, and the codes stay packed. By default the device
    /// [chooses](Device::instead); if it does not, such tensors are an error.
    #[must_use]
    pub fn fallback(mut self, dtypes: &[DType]) -> Self {
        self.unload_all();
        let is_float = |dtype: &DType| matches!(dtype, DType::F32 | DType::F16 | DType::BF16);
        self.choices.fallback = dtypes.iter().copied().filter(is_float).collect();
        self
    }

    /// Places each part directly after the one before, whatever the device's alignment: the scales
    /// start where the codes end.
    #[must_use]
    pub fn tightly_packed(mut self) -> Self {
        self.unload_all();
        self.is_tight = true;
        self
    }

    /// Limits the bytes that the cache holds. Before a tensor is loaded, those that were not
    /// requested for the longest time are dropped until it fits. A tensor that a caller still holds
    /// is found nevertheless, and is not loaded again; its memory is freed with the last handle.
    #[must_use]
    pub fn budget(self, bytes: u64) -> Self {
        self.cache.set_budget(bytes);
        self
    }

    /// The name of the provider's policy.
    pub(crate) fn policy_name(&self) -> &'static str {
        self.choices.policy.name()
    }

    /// The rank whose parts are loaded; see [`sharding`](Self::sharding).
    pub fn rank(&self) -> Sharding {
        self.sharding
    }

    /// The model whose tensors are loaded.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The device that holds loaded tensors.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The names of the tensors that [`load`](Self::load) accepts: those of which the provider's
    /// [rank](Self::sharding) has a part.
    ///
    /// # Errors
    ///
    /// Same as [`Model::names_of_rank`].
    pub fn names(&self) -> Result<Vec<&str>> {
        self.model.names_of_rank(&self.sharding)
    }

    /// The tensor with this canonical name, or the part of the provider's [rank](Self::sharding), with
    /// the rows and values of its [convention](Self::convention): see [`Model::tensor`].
    ///
    /// # Errors
    ///
    /// Same as [`Model::tensor_of_rank`].
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        self.model.tensor_of_rank(name, &self.sharding, self.convention)
    }

    /// Fuses several tensors without loading them: see [`Tensor::fuse`].
    ///
    /// # Errors
    ///
    /// Same as [`tensor`](Self::tensor) and [`Tensor::fuse`].
    pub fn fused(&self, names: &[&str]) -> Result<Tensor> {
        Tensor::fuse(names.iter().map(|name| self.tensor(name)).collect::<Result<_>>()?)
    }

    /// Loads the tensor with this canonical name into device memory, under the provider's
    /// [policy](Self::policy). It is read once and cached until it is [unloaded](Self::unload) or
    /// the budget is exceeded.
    ///
    /// # Errors
    ///
    /// `NotFound` if the model has no such tensor; `Unsupported` for an unknown dtype, or one that
    /// the device does not support; `Io` if the file cannot be read; `OutOfMemory` or `Device` if the
    /// device has no memory left or fails.
    pub fn load(&self, name: &str) -> Result<Arc<LoadedTensor<D>>> {
        self.cache.get_or_load(name, || self.load_fused(vec![self.tensor(name)?]))
    }

    /// Loads several tensors into one buffer: all weights, then all scales, then all biases, read
    /// directly into place. The members are not held a second time one by one. The result is cached
    /// under their names joined by `+`.
    ///
    /// ```
    /// # fn main() -> weighbridge::Result<()> {
    /// let model = weighbridge::WeightProvider::open("assets/sample/sample-Q8_0.gguf")?;
    /// let names = ["q", "k", "v"].map(|part| format!("layers.0.attention.{part}.weight"));
    /// let qkv = model.fuse(&names.each_ref().map(String::as_str))?;
    /// assert_eq!(qkv.members.len(), 3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `Mismatch`, naming tensors and dtypes, if they cannot be joined; otherwise same as
    /// [`load`](Self::load).
    pub fn fuse(&self, names: &[&str]) -> Result<Arc<LoadedTensor<D>>> {
        self.cache.get_or_load(&names.join("+"), || {
            let views = names.iter().map(|name| self.tensor(name)).collect::<Result<Vec<_>>>()?;
            self.load_fused(views)
        })
    }

    /// Like [`fuse`](Self::fuse), but loads tensors that cannot be joined, such as q and v of
    /// different dtypes, into as few buffers as possible.
    ///
    /// # Errors
    ///
    /// Same as [`load`](Self::load).
    pub fn fuse_or_split(&self, names: &[&str]) -> Result<Vec<Arc<LoadedTensor<D>>>> {
        let groups = self.joinable(names)?;
        groups.iter().map(|names| self.fuse(names)).collect()
    }

    /// Loads part `rank` of `of` equal parts of a tensor into device memory: see [`Tensor::shard`].
    ///
    /// # Errors
    ///
    /// Same as [`Tensor::shard`] and [`load`](Self::load).
    pub fn shard(
        &self,
        name: &str,
        axis: Axis,
        rank: u64,
        of: u64,
    ) -> Result<Arc<LoadedTensor<D>>> {
        let what = if axis == Axis::Rows { "rows" } else { "columns" };
        self.cache.get_or_load(&format!("{name}[{what} {rank}/{of}]"), || {
            self.load_fused(vec![self.tensor(name)?.shard(axis, rank, of)?])
        })
    }

    /// Drops a tensor from the cache and returns whether it was there. Its memory is freed once no
    /// caller holds it.
    pub fn unload(&self, name: &str) -> bool {
        self.cache.remove(name)
    }

    /// Drops all tensors from the cache.
    pub fn unload_all(&self) {
        self.cache.clear();
    }

    /// Bytes of the tensors in the cache.
    pub fn cached_bytes(&self) -> u64 {
        self.cache.bytes()
    }
}
