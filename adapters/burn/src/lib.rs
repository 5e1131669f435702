//! Weights for burn's modules, from any container that Weighbridge opens.
//!
//! [`load`] gives a module the tensors of a model: under canonical names, or under those of the Hugging Face
//! checkpoint. [`ToBurn`] changes PyTorch's layout to burn's: it transposes the matrices of `Linear`, and renames
//! the parameters of norms. A tensor is read, and decoded to `f32`, when it is applied to the module.
//!
//! ```text
//! let model = weighbridge::Model::open("model-Q4_K_M.gguf")?;
//! let tensors = model.names()?.map(|name| model.tensor(name)).collect::<Result<Vec<_>, _>>()?;
//! let applied = weighbridge_burn::load(&mut feed_forward, tensors, "layers.0.ffn.")?;
//! assert!(applied.missing.is_empty());
//! ```

use std::rc::Rc;

use burn_core::module::ParamId;
use burn_store::{
    ApplyResult, ModuleAdapter, ModuleSnapshot, PyTorchToBurnAdapter, TensorSnapshot,
    TensorSnapshotError,
};
use burn_tensor::backend::Backend;
use burn_tensor::{DType, TensorData};
use weighbridge::{Result, Tensor};

/// Loads the tensors whose names begin with `prefix` into a module, which names them without it. What the module
/// lacks, and what could not be read, is in the result.
///
/// # Errors
///
/// `Unsupported` if a tensor exceeds the memory.
pub fn load<B: Backend>(
    module: &mut impl ModuleSnapshot<B>,
    tensors: Vec<Tensor>,
    prefix: &str,
) -> Result<ApplyResult> {
    let snapshots = tensors.into_iter().filter_map(|tensor| {
        let name = tensor.name().strip_prefix(prefix)?;
        let path = name.split('.').map(str::to_owned).collect();
        Some(snapshot(tensor, path))
    });
    let snapshots = snapshots.collect::<Result<_>>()?;
    Ok(module.apply(snapshots, None, Some(Box::new(ToBurn)), false))
}

/// A snapshot that reads the tensor when it is asked for data.
fn snapshot(tensor: Tensor, path: Vec<String>) -> Result<TensorSnapshot> {
    let dims = tensor.dims()?;
    let shape = dims.clone();
    let read = move || match tensor.to_vec::<f32>() {
        Ok(values) => Ok(TensorData::new(values, dims.clone())),
        Err(error) => Err(TensorSnapshotError::DataError(error.to_string())),
    };
    let (read, id) = (Rc::new(read), ParamId::new());
    Ok(TensorSnapshot::from_closure(read, DType::F32, shape, path, Vec::new(), id))
}

/// Burn's own adapter, and the norms of language models, which it does not know.
#[derive(Clone, Debug)]
pub struct ToBurn;

impl ModuleAdapter for ToBurn {
    fn adapt(&self, snapshot: &TensorSnapshot) -> TensorSnapshot {
        PyTorchToBurnAdapter.adapt(snapshot)
    }

    fn get_alternative_param_name(&self, name: &str, module: &str) -> Option<String> {
        match (module, name) {
            ("Struct:RmsNorm", "gamma") => Some("weight".to_owned()),
            _ => PyTorchToBurnAdapter.get_alternative_param_name(name, module),
        }
    }

    fn clone_box(&self) -> Box<dyn ModuleAdapter> {
        Box::new(self.clone())
    }
}
