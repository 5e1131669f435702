//! The provider: tensors by canonical name, loaded once, on a device.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::arch::{ModelConfig, Resolution, resolve};
use crate::container::OpenOptions;
use crate::device::{Cpu, Device};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::store::WeightStore;
use crate::tensor::{Part, Tensor};

/// A model whose tensors are asked for by canonical name, `layers.3.attention.q.weight`, whatever
/// file they lie in.
///
/// Loaded tensors are cached: asking twice gives the same buffer. Tensors of an architecture that
/// is not known, and tensors that an architecture does not have, go by their stored names.
#[derive(Debug)]
pub struct WeightProvider<D: Device = Cpu> {
    store: WeightStore,
    resolution: Resolution,
    /// Stored names by canonical name; by themselves where they have none.
    stored: HashMap<String, String>,
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
        let mapped = resolution.mapped.iter().map(|m| (m.canonical.clone(), m.stored.clone()));
        let unknown = resolution.unknown.iter().map(|name| (name.clone(), name.clone()));
        // A canonical name wins over a stored one that happens to be spelled like it.
        let stored = unknown.chain(mapped).collect();
        Ok(Self { store, resolution, stored, device, cache: Mutex::default() })
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

    /// The tensor of that canonical name, with the file's own values.
    ///
    /// # Errors
    ///
    /// `NotFound` if the model has none.
    pub fn tensor(&self, name: &str) -> Result<Tensor<'_>> {
        if let Some(stored) = self.stored.get(name) {
            return self.store.tensor(stored);
        }
        let mut error = Error::not_found(format!("the model has no tensor \"{name}\""));
        let stored = self.resolution.mapped.iter().find(|mapping| mapping.stored == name);
        if let Some(mapping) = stored {
            error = error.advise(format!("its canonical name is \"{}\"", mapping.canonical));
        }
        Err(error.in_file(self.store.path()))
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
        let loaded = Arc::new(self.read(self.tensor(name)?)?);
        Ok(Arc::clone(self.cached().entry(name.to_owned()).or_insert(loaded)))
    }

    fn read(&self, tensor: Tensor<'_>) -> Result<LoadedTensor<D>> {
        let mut parts = Vec::new();
        let mut end = 0u64;
        let too_large =
            || Error::unsupported("parts of more than 2^64 bytes").in_tensor(tensor.name());
        for segment in tensor.segments() {
            let len = segment.range.end - segment.range.start;
            let start =
                end.checked_next_multiple_of(self.device.alignment()).ok_or_else(too_large)?;
            end = start.checked_add(len).ok_or_else(too_large)?;
            parts.push(LoadedPart { part: segment.part, dtype: segment.dtype, range: start..end });
        }
        let dtype = tensor.dtype()?;
        let mut buffer =
            self.device.allocate(end).map_err(|error| error.in_tensor(tensor.name()))?;
        for part in &parts {
            let bytes = tensor.native_bytes(part.part)?;
            self.device.write(&mut buffer, part.range.start, &bytes)?;
        }
        let (shape, group_size) = (tensor.shape().to_vec(), tensor.group_size());
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
