//! Opens adapters.

use std::path::Path;

use super::{Adapter, gguf, mlx, peft};
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
        let model = Model::open(path)?;
        Self::of(&model)?.ok_or_else(|| {
            let fault = "not a LoRA adapter: neither adapter_config.json beside safetensors files \
                         nor general.type = adapter in a GGUF file";
            Error::unsupported(fault).in_file(model.path())
        })
    }

    /// The adapter that was opened as a model, or `None` if the model is no adapter.
    ///
    /// # Errors
    ///
    /// `Malformed` if the files contradict each other.
    pub fn of(model: &Model) -> Result<Option<Self>> {
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
