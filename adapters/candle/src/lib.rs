//! Weights for candle's models, from any container that Weighbridge opens.
//!
//! [`Weights`] is a [`SimpleBackend`]: candle's models ask it for tensors by the names of the Hugging Face
//! checkpoint. A tensor is read, and decoded if it is quantized, when the model asks for it.
//!
//! ```text
//! let model = weighbridge::Model::open("model-Q4_K_M.gguf")?;
//! let config = weighbridge::translate::hf_documents(&model)?.config;
//! let config: LlamaConfig = serde_json::from_slice(&config.into_bytes())?;
//! let weights = weighbridge_candle::Weights::new(&model)?;
//! let llama = Llama::load(weights.var_builder(DType::F32, Device::Cpu), &config.into_config(false))?;
//! ```

use std::collections::HashMap;

use candle_core::{DType, Device, Error, Result, Shape, Tensor, WithDType};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder};
use half::{bf16, f16};
use weighbridge::Model;
use weighbridge::arch::Dialect;
use weighbridge::quant::Element;

/// The tensors of a model, with the names, shapes and values of its Hugging Face checkpoint.
#[derive(Debug)]
pub struct Weights {
    tensors: HashMap<String, weighbridge::Tensor>,
}

impl Weights {
    /// Finds the tensors of a model. Nothing is read yet.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the family is unknown and the model is a GGUF file.
    pub fn new(model: &Model) -> weighbridge::Result<Self> {
        let translated = model.tensors_in(Dialect::HuggingFace)?;
        let named = |tensor: weighbridge::Tensor| (tensor.name().to_owned(), tensor);
        Ok(Self { tensors: translated.tensors.into_iter().map(named).collect() })
    }

    /// The `VarBuilder` that candle's models are built from.
    pub fn var_builder(self, dtype: DType, device: Device) -> VarBuilder<'static> {
        VarBuilder::from_backend(Box::new(self), dtype, device)
    }
}

impl SimpleBackend for Weights {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        _: Init,
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor> {
        let tensor = self.get_unchecked(name, dtype, device)?;
        if tensor.shape() != &shape {
            let (msg, got) = (format!("the tensor {name}"), tensor.shape().clone());
            return Err(Error::UnexpectedShape { msg, expected: shape, got }.bt());
        }
        Ok(tensor)
    }

    fn get_unchecked(&self, name: &str, dtype: DType, device: &Device) -> Result<Tensor> {
        let absent = || Error::CannotFindTensor { path: name.to_owned() }.bt();
        let tensor = self.tensors.get(name).ok_or_else(absent)?;
        match dtype {
            DType::F16 => decode::<f16>(tensor, device),
            DType::BF16 => decode::<bf16>(tensor, device),
            DType::F32 => decode::<f32>(tensor, device),
            other => decode::<f32>(tensor, device)?.to_dtype(other),
        }
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }
}

fn decode<T: Element + WithDType>(tensor: &weighbridge::Tensor, device: &Device) -> Result<Tensor> {
    let (values, shape) = (tensor.to_vec::<T>(), tensor.dims());
    Tensor::from_vec(values.map_err(Error::wrap)?, shape.map_err(Error::wrap)?, device)
}
