//! The provider: tensors by canonical name, loaded once, on a device.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::arch::{ModelConfig, Resolution, resolve};
use crate::container::OpenOptions;
use crate::device::{Cpu, Device};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::store::WeightStore;
use crate::tensor::Part;
use crate::view::{Convention, View};

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
    mapped: HashMap<String, usize>,
    /// The model's numbers, where they are sound.
    config: OnceLock<Option<ModelConfig>>,
    convention: Convention,
    device: D,
    cache: Mutex<HashMap<String, Arc<LoadedTensor<D>>>>,
}

/// One part of a loaded tensor.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoadedPart {
    /// What it is.
    pub part: Part,
    /// The dtype of its own elements.
    pub dtype: DType,
    /// Its bytes in the buffer, little-endian, starting at a multiple of the device's alignment.
    pub range: Range<u64>,
}

/// A tensor on a device: all its parts in one buffer, packed as they were stored.
#[derive(Debug)]
#[non_exhaustive]
pub struct LoadedTensor<D: Device> {
    /// How the elements are packed.
    pub dtype: DType,
    /// Dimensions, outermost first.
    pub shape: Vec<u64>,
    /// Elements that share a scale, for dtypes that leave the number to the tensor (MLX).
    pub group_size: Option<u32>,
    /// Where each part lies in the buffer, the weight first.
    pub parts: Vec<LoadedPart>,
    /// The bytes.
    pub buffer: D::Buffer,
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

impl<D: Device> WeightProvider<D> {
    /// Serves the tensors of an opened store from `device`.
    ///
    /// # Errors
    ///
    /// As [`resolve`].
    pub fn new(store: WeightStore, device: D) -> Result<Self> {
        let resolution = resolve(&store)?;
        let mapped = (0..).zip(&resolution.mapped);
        let mapped = mapped.map(|(place, mapping)| (mapping.canonical.clone(), place)).collect();
        Ok(Self {
            store,
            resolution,
            mapped,
            config: OnceLock::new(),
            convention: Convention::default(),
            device,
            cache: Mutex::default(),
        })
    }

    /// Serves tensors in that order and with those values. Ones that are loaded already stay as
    /// they are.
    #[must_use]
    pub fn convention(mut self, convention: Convention) -> Self {
        self.convention = convention;
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

    /// The tensor of that canonical name.
    ///
    /// # Errors
    ///
    /// `NotFound` if the model has none; `Mismatch` or `Malformed` if the stored tensor is not
    /// what its name and the model's config say.
    pub fn tensor(&self, name: &str) -> Result<View<'_>> {
        let Some(mapping) = self.mapped.get(name).and_then(|&at| self.resolution.mapped.get(at))
        else {
            return self.stored_tensor(name);
        };
        let config = match mapping.transform.needs_config() {
            true => self.config.get_or_init(|| self.config().ok()).as_ref(),
            false => None,
        };
        View::mapped(&self.store, mapping, config, self.convention).map_err(|error| {
            // What is wrong with the config is what is wrong with the tensor.
            match (mapping.transform.needs_config(), config, self.config()) {
                (true, None, Err(fault)) => fault,
                _ => error,
            }
        })
    }

    /// A tensor that has no canonical name.
    fn stored_tensor(&self, name: &str) -> Result<View<'_>> {
        let named = |mapping: &&crate::arch::Mapping| mapping.stored.iter().any(|n| n == name);
        let canonical: Vec<&str> =
            self.resolution.mapped.iter().filter(named).map(|m| m.canonical.as_str()).collect();
        let advice = match canonical.as_slice() {
            [] => return self.store.tensor(name).map(View::stored),
            [one] => format!("its canonical name is \"{one}\""),
            several => format!("it holds \"{}\"", several.join("\", \"")),
        };
        let fault = format!("the model has no tensor \"{name}\"");
        Err(Error::not_found(fault).advise(advice).in_file(self.store.path()))
    }

    /// The tensor of that canonical name in memory of the device, packed as it is stored. It is
    /// read once, and kept until it is [dropped](Self::unload).
    ///
    /// # Errors
    ///
    /// `NotFound` if the model has none; `Unsupported` for a dtype that is not known; `Io` if the
    /// file cannot be read or memory is short.
    pub fn load(&self, name: &str) -> Result<Arc<LoadedTensor<D>>> {
        if let Some(loaded) = self.cached().get(name) {
            return Ok(Arc::clone(loaded));
        }
        // Read without the lock, so that others can load meanwhile; the first to finish wins.
        let loaded = Arc::new(self.read(&self.tensor(name)?)?);
        Ok(Arc::clone(self.cached().entry(name.to_owned()).or_insert(loaded)))
    }

    fn read(&self, view: &View<'_>) -> Result<LoadedTensor<D>> {
        let mut parts = Vec::new();
        let mut end = 0u64;
        let too_large =
            || Error::unsupported("parts of more than 2^64 bytes").in_tensor(view.name());
        let packed = view.packed()?;
        for part in &packed {
            let start =
                end.checked_next_multiple_of(self.device.alignment()).ok_or_else(too_large)?;
            end = start.checked_add(part.bytes).ok_or_else(too_large)?;
            parts.push(LoadedPart { part: part.part, dtype: part.dtype, range: start..end });
        }
        let dtype = view.stored_dtype()?;
        let mut buffer = self.device.allocate(end).map_err(|error| error.in_tensor(view.name()))?;
        for (part, loaded) in packed.iter().zip(&parts) {
            for copy in view.copies(part) {
                let bytes = copy.tensor.native_bytes(copy.part)?;
                let mut to = loaded.range.start + copy.to;
                for turn in 0..copy.count {
                    let from =
                        usize::try_from(copy.from + turn * copy.stride).unwrap_or(usize::MAX);
                    let len = usize::try_from(copy.len).unwrap_or(usize::MAX);
                    let bytes = bytes.get(from..from.saturating_add(len)).unwrap_or_default();
                    self.device.write(&mut buffer, to, bytes)?;
                    to += copy.apart;
                }
            }
        }
        let (shape, group_size) = (view.shape().to_vec(), view.group_size());
        Ok(LoadedTensor { dtype, shape, group_size, parts, buffer })
    }

    /// Drops a tensor from the cache. Its memory is freed once nobody holds it any more.
    /// Says whether it was there.
    pub fn unload(&self, name: &str) -> bool {
        self.cached().remove(name).is_some()
    }

    /// Drops all tensors from the cache.
    pub fn unload_all(&self) {
        self.cached().clear();
    }

    fn cached(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<LoadedTensor<D>>>> {
        // A thread that panicked while holding the lock left the map whole.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
