//! Opens adapters.

use std::path::{Path, PathBuf};

use super::{Adapter, ScaledAdapter, gguf, mlx, peft};
use crate::arch::other_models;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::store::Encoding;

impl Adapter {
    /// Opens an adapter: a directory of PEFT or mlx-lm, its file of weights, or a LoRA GGUF.
    ///
    /// # Errors
    ///
    /// Same as [`Model::open`]; `Unsupported` if the files are not those of a LoRA adapter;
    /// `Malformed` if they contradict each other.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let mut path = path.as_ref();
        // Only its directory has the config of an archive of mlx-lm.
        if path.file_name().is_some_and(|name| name == "adapters.npz") && path.is_file() {
            path = path
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty())
                .unwrap_or(Path::new("."));
        }
        // The directory may also hold a whole model.
        let is_shared = path.join("config.json").is_file();
        let files =
            ["adapter_model.safetensors", "adapters.safetensors"].map(|name| path.join(name));
        let file = files.iter().find(|file| is_shared && file.is_file());
        let model = Model::open(file.map_or(path, PathBuf::as_path))?;
        Self::of(&model)?.ok_or_else(|| {
            let fault = "not a LoRA adapter: neither adapter_config.json beside safetensors files \
                         nor general.type = adapter in a GGUF file";
            let other = other_models::found(model.store(), None);
            Error::unsupported(other.unwrap_or(fault)).in_file(model.path())
        })
    }

    /// The model with the adapters merged that its container attaches to it, as Ollama applies them when it
    /// runs the model.
    ///
    /// # Errors
    ///
    /// Same as [`open`](Self::open) and [`merged`](Self::merged).
    pub fn with_attached(model: &Model) -> Result<Model> {
        let attached = model.attachments().iter().filter(|layer| layer.kind == "adapter");
        let adapters = attached.map(|layer| Ok(ScaledAdapter::from(Self::open(&layer.path)?)));
        let adapters = adapters.collect::<Result<Vec<_>>>()?;
        if adapters.is_empty() || model.has_attached() {
            return Ok(model.clone());
        }
        Ok(Self::merged(model, &adapters)?.attached())
    }

    /// The adapter that was opened as a model, or `None` if the model is no adapter.
    ///
    /// # Errors
    ///
    /// `Malformed` if the files contradict each other.
    pub fn of(model: &Model) -> Result<Option<Self>> {
        let store = model.store();
        let is_part = |file: &Path| {
            let name = file.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with("adapter"))
        };
        // An adapter beside a whole model is not what was opened.
        if store.document("config.json").is_some()
            && store.is_directory()
            && !store.files().any(is_part)
        {
            return Ok(None);
        }
        let found = match model.encoding() {
            Encoding::Gguf => gguf::read(model),
            Encoding::Safetensors => match mlx::read(model) {
                Ok(None) => peft::read(model),
                found => found,
            },
            _ => Ok(None),
        };
        found.map_err(|error| error.in_file(model.path()))
    }
}
