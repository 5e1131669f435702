//! The provider: tensors by canonical name, loaded once, on a device.
//!
//! ```text
//!  name ──resolution──▶ Tensor ──layout──▶ Job ──pieces, by place in the file──▶ D::Buffer ──▶ cache
//!  (or several, to fuse)       (parts)         (copied, or decoded to a dtype)
//! ```
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

mod cache;
mod fuse;
mod load;
mod loaded;

use std::path::Path;
use std::sync::Arc;

use crate::device::{Cpu, Device};
use crate::error::Result;
use crate::model::{Axis, Convention, Model, Tensor};
use cache::Cache;

pub use fuse::{FUSIONS, Fusion};
pub use load::{LoadOptions, Policy};
pub use loaded::{LoadedPart, LoadedTensor, Member};

/// A model whose tensors are asked for by canonical name, `layers.3.attention.q.weight`, whatever
/// file they lie in, and have the same values whatever that file does to them: see [`Tensor`].
///
/// Loaded tensors are cached: asking twice gives the same buffer. Tensors of an architecture that
/// is not known, and tensors that an architecture does not have, go by their stored names.
#[derive(Debug)]
pub struct WeightProvider<D: Device = Cpu> {
    model: Model,
    convention: Convention,
    policy: Policy,
    device: D,
    cache: Cache<D>,
}

impl WeightProvider {
    /// Opens a model for use from host memory.
    ///
    /// # Errors
    ///
    /// As [`Model::open`] and [`Model::resolution`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::new(Model::open(path)?, Cpu)
    }
}

impl<D: Device> WeightProvider<D> {
    /// Serves the tensors of an opened model from `device`.
    ///
    /// # Errors
    ///
    /// As [`Model::resolution`].
    pub fn new(model: Model, device: D) -> Result<Self> {
        model.resolution()?;
        Ok(Self {
            model,
            convention: Convention::default(),
            policy: Policy::default(),
            device,
            cache: Cache::default(),
        })
    }

    /// Serves tensors in that order and with those values.
    #[must_use]
    pub fn convention(mut self, convention: Convention) -> Self {
        self.unload_all();
        self.convention = convention;
        self
    }

    /// What loaded tensors are kept as: packed as stored, where nothing is said.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.unload_all();
        self.policy = policy;
        self
    }

    /// Bytes that the cache holds at most. Tensors that were not asked for the longest are dropped
    /// from it first; one that somebody still holds is found all the same, and is not loaded again.
    #[must_use]
    pub fn budget(self, bytes: u64) -> Self {
        self.cache.set_budget(bytes);
        self
    }

    /// The name of the provider's policy.
    pub(crate) fn kept_as(&self) -> &'static str {
        self.policy.name()
    }

    /// The model whose tensors are served.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Where loaded tensors live.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The tensor of that canonical name, with the rows and values of the provider's
    /// [convention](Self::convention): see [`Model::tensor`].
    ///
    /// # Errors
    ///
    /// As [`Model::tensor`].
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        self.model.tensor_in(name, self.convention)
    }

    /// The rows of several tensors one after another, as one: see [`Tensor::fuse`].
    ///
    /// # Errors
    ///
    /// As [`tensor`](Self::tensor) and [`Tensor::fuse`].
    pub fn fused(&self, names: &[&str]) -> Result<Tensor> {
        Tensor::fuse(names.iter().map(|name| self.tensor(name)).collect::<Result<_>>()?)
    }

    /// The tensor of that canonical name in memory of the device, under the provider's
    /// [policy](Self::policy). It is read once, and kept until it is [dropped](Self::unload).
    ///
    /// # Errors
    ///
    /// `NotFound` if the model has none; `Unsupported` for a dtype that is not known; `Io` if the
    /// file cannot be read or memory is short.
    pub fn load(&self, name: &str) -> Result<Arc<LoadedTensor<D>>> {
        self.cache.get_or_load(name, || self.load_view(&self.tensor(name)?, self.policy))
    }

    /// Several tensors in one buffer: all weights one after another, then all scales, then all
    /// biases, written there straight from the file. They are not also held one by one. Cached
    /// under their names with `+` between.
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
    /// `Mismatch`, naming tensors and dtypes, if they cannot be joined; otherwise as
    /// [`load`](Self::load).
    pub fn fuse(&self, names: &[&str]) -> Result<Arc<LoadedTensor<D>>> {
        self.cache.get_or_load(&names.join("+"), || {
            let views = names.iter().map(|name| self.tensor(name)).collect::<Result<Vec<_>>>()?;
            self.load_fused(views, self.policy)
        })
    }

    /// As [`fuse`](Self::fuse), but in as few buffers as there must be: tensors that cannot be
    /// joined, as the q and v of a file that mixes dtypes, come in several, each with those that
    /// can.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn fuse_or_split(&self, names: &[&str]) -> Result<Vec<Arc<LoadedTensor<D>>>> {
        let groups = self.joinable(names)?;
        groups.iter().map(|names| self.fuse(names)).collect()
    }

    /// The part of one rank of several, as [`Tensor::shard`] has it, in memory of the device.
    ///
    /// # Errors
    ///
    /// As [`Tensor::shard`] and [`load`](Self::load).
    pub fn shard(
        &self,
        name: &str,
        axis: Axis,
        rank: u64,
        of: u64,
    ) -> Result<Arc<LoadedTensor<D>>> {
        let what = if axis == Axis::Rows { "rows" } else { "columns" };
        self.cache.get_or_load(&format!("{name}[{what} {rank}/{of}]"), || {
            self.load_view(&self.tensor(name)?.shard(axis, rank, of)?, self.policy)
        })
    }

    /// Drops a tensor from the cache. Its memory is freed once nobody holds it any more.
    /// Says whether it was there.
    pub fn unload(&self, name: &str) -> bool {
        self.cache.remove(name)
    }

    /// Drops all tensors from the cache.
    pub fn unload_all(&self) {
        self.cache.clear();
    }

    /// Bytes of the tensors that the cache holds.
    pub fn cached_bytes(&self) -> u64 {
        self.cache.bytes()
    }
}
