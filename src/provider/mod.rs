//! The provider: tensors by canonical name, loaded once, on a device.
//!
//! ```text
//!  name ──resolution──▶ View ──layout──▶ Job ──pieces, by place in the file──▶ D::Buffer ──▶ cache
//!  (or several, to fuse)       (parts)         (copied, or decoded to a dtype)
//! ```
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

mod cache;
mod fuse;
mod load;
mod loaded;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::arch::{Mapping, ModelConfig, Resolution, resolve};
use crate::container::OpenOptions;
use crate::device::{Cpu, Device};
use crate::error::{Error, Result};
use crate::index::{self, NameIndex};
use crate::store::WeightStore;
use crate::view::{Axis, Convention, View};
use cache::Cache;

pub use fuse::{FUSIONS, Fusion};
pub use load::{LoadOptions, Policy};
pub use loaded::{LoadedPart, LoadedTensor, Member};

/// A model whose tensors are asked for by canonical name, `layers.3.attention.q.weight`, whatever
/// file they lie in, and have the same values whatever that file does to them: see [`View`].
///
/// Loaded tensors are cached: asking twice gives the same buffer. Tensors of an architecture that
/// is not known, and tensors that an architecture does not have, go by their stored names.
#[derive(Debug)]
pub struct WeightProvider<D: Device = Cpu> {
    store: WeightStore,
    resolution: Resolution,
    /// By canonical name, where in the resolution it stands.
    mapped: NameIndex,
    /// The model's numbers, where they are sound.
    config: OnceLock<Option<ModelConfig>>,
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
    /// As [`WeightStore::open`] and [`resolve`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::new(OpenOptions::new().open(path)?, Cpu)
    }
}

/// The name of the canonical tensor in that place.
fn canonical(resolution: &Resolution, place: u32) -> &[u8] {
    resolution.mapped.get(place as usize).map_or(&[], |mapping| mapping.canonical.as_bytes())
}

impl<D: Device> WeightProvider<D> {
    /// Serves the tensors of an opened store from `device`.
    ///
    /// # Errors
    ///
    /// As [`resolve`].
    pub fn new(store: WeightStore, device: D) -> Result<Self> {
        let resolution = resolve(&store)?;
        let mut mapped = NameIndex::with_room(resolution.mapped.len())?;
        for (place, mapping) in (0..).zip(&resolution.mapped) {
            let name = mapping.canonical.as_bytes();
            mapped.insert(name, index::hash(name), place, |place| canonical(&resolution, place));
        }
        Ok(Self {
            store,
            resolution,
            mapped,
            config: OnceLock::new(),
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

    /// The store below.
    pub fn store(&self) -> &WeightStore {
        &self.store
    }

    /// How stored names were understood.
    pub fn resolution(&self) -> &Resolution {
        &self.resolution
    }

    /// Where loaded tensors live.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The model's numbers.
    ///
    /// # Errors
    ///
    /// As [`ModelConfig::of`].
    pub fn config(&self) -> Result<ModelConfig> {
        ModelConfig::of(&self.store, &self.resolution)
    }

    /// The names that [`load`](Self::load) takes: canonical ones, then stored names that have none.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let mapped = self.resolution.mapped.iter().map(|mapping| mapping.canonical.as_str());
        mapped.chain(self.resolution.unknown.iter().map(String::as_str))
    }

    /// Whether there is a tensor of that canonical name.
    pub fn has(&self, name: &str) -> bool {
        self.mapping(name).is_some()
    }

    /// How a canonical tensor is stored.
    pub(crate) fn mapping(&self, name: &str) -> Option<&Mapping> {
        let place = self.mapped.find(name.as_bytes(), |place| canonical(&self.resolution, place));
        place.and_then(|place| self.resolution.mapped.get(place as usize))
    }

    /// The tensor of that canonical name.
    ///
    /// # Errors
    ///
    /// `NotFound` if the model has none; `Mismatch` or `Malformed` if the stored tensor is not
    /// what its name and the model's config say.
    pub fn tensor(&self, name: &str) -> Result<View<'_>> {
        self.tensor_in(name, self.convention)
    }

    /// The same, in whosever order.
    pub(crate) fn tensor_in(&self, name: &str, convention: Convention) -> Result<View<'_>> {
        let Some(mapping) = self.mapping(name) else { return self.stored_tensor(name) };
        let needs_config = mapping.transform.needs_config();
        let config = match needs_config {
            true => self.config.get_or_init(|| self.config().ok()).as_ref(),
            false => None,
        };
        match View::mapped(&self.store, mapping, config, convention) {
            // What is wrong with the config is what is wrong with the tensor.
            Err(error) if needs_config && config.is_none() => {
                Err(self.config().err().unwrap_or(error))
            }
            view => view,
        }
    }

    /// A tensor that has no canonical name.
    fn stored_tensor(&self, name: &str) -> Result<View<'_>> {
        let holds = |mapping: &&Mapping| mapping.stored.iter().any(|stored| stored == name);
        let canonical: Vec<&str> =
            self.resolution.mapped.iter().filter(holds).map(|m| m.canonical.as_str()).collect();
        let advice = match canonical.as_slice() {
            [] => return self.store.tensor(name).map(View::stored),
            [one] => format!("its canonical name is \"{one}\""),
            several => format!("it holds \"{}\"", several.join("\", \"")),
        };
        let fault = format!("the model has no tensor \"{name}\"");
        Err(Error::not_found(fault).advise(advice).in_file(self.store.path()))
    }

    /// The rows of several tensors one after another, as one: see [`View::fuse`].
    ///
    /// # Errors
    ///
    /// As [`tensor`](Self::tensor) and [`View::fuse`].
    pub fn fused(&self, names: &[&str]) -> Result<View<'_>> {
        View::fuse(names.iter().map(|name| self.tensor(name)).collect::<Result<_>>()?)
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

    /// The part of one rank of several, as [`View::shard`] has it, in memory of the device.
    ///
    /// # Errors
    ///
    /// As [`View::shard`] and [`load`](Self::load).
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
