//! Weights for burn's modules, from any container that Weighbridge opens.
//!
//! [`Source`] is a [`ModuleStore`] that is only read. Its tensors have the names of the Hugging Face
//! checkpoint or canonical names, and the layout of PyTorch. [`ToBurn`] changes it to burn's: it transposes the
//! matrices of `Linear`, and renames the parameters of norms. A tensor is read, and decoded to `f32`, when it is
//! applied to a module.
//!
//! ```text
//! let model = weighbridge::Model::open("model-Q4_K_M.gguf")?;
//! let mut source = weighbridge_burn::Source::canonical(&model)?.within("layers.0.ffn.");
//! let applied = feed_forward.load_from(&mut source)?;
//! assert!(applied.missing.is_empty());
//! ```

use std::collections::BTreeMap;
use std::rc::Rc;

use burn_core::module::ParamId;
use burn_store::{
    ApplyResult, ModuleAdapter, ModuleSnapshot, ModuleStore, PyTorchToBurnAdapter, TensorSnapshot,
    TensorSnapshotError,
};
use burn_tensor::backend::Backend;
use burn_tensor::{DType, TensorData};
use weighbridge::arch::Dialect;
use weighbridge::{Error, ErrorKind, Model, Result, Tensor};

/// The tensors of a model, as snapshots that burn applies to modules.
#[derive(Debug)]
pub struct Source {
    snapshots: BTreeMap<String, TensorSnapshot>,
}

impl Source {
    /// The tensors under the names of the model's Hugging Face checkpoint.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the family is unknown and the model is a GGUF file.
    pub fn hugging_face(model: &Model) -> Result<Self> {
        Self::new(model.tensors_in(Dialect::HuggingFace)?.tensors)
    }

    /// The tensors under their canonical names, which are the same for every family and container.
    ///
    /// # Errors
    ///
    /// Same as [`Model::tensor`].
    pub fn canonical(model: &Model) -> Result<Self> {
        let tensors = model.names()?.map(|name| model.tensor(name));
        Self::new(tensors.collect::<Result<Vec<Tensor>>>()?)
    }

    fn new(tensors: Vec<Tensor>) -> Result<Self> {
        let named = tensors.into_iter().map(|tensor| {
            let name = tensor.name().to_owned();
            Ok((name, snapshot(tensor)?))
        });
        Ok(Self { snapshots: named.collect::<Result<_>>()? })
    }

    /// The tensors whose names begin with `prefix`, without it: those of one module of a model.
    #[must_use]
    pub fn within(self, prefix: &str) -> Self {
        let snapshots = self.snapshots.into_iter().filter_map(|(name, mut snapshot)| {
            let name = name.strip_prefix(prefix)?.to_owned();
            snapshot.path_stack = Some(path(&name));
            Some((name, snapshot))
        });
        Self { snapshots: snapshots.collect() }
    }
}

fn path(name: &str) -> Vec<String> {
    name.split('.').map(str::to_owned).collect()
}

/// A snapshot that reads the tensor when it is asked for data.
fn snapshot(tensor: Tensor) -> Result<TensorSnapshot> {
    let size = |size: &u64| {
        let too_large = || Error::new(ErrorKind::Unsupported, "the tensor exceeds the memory");
        usize::try_from(*size).map_err(|_| too_large().in_tensor(tensor.name()))
    };
    let shape = tensor.shape().iter().map(size).collect::<Result<Vec<usize>>>()?;
    let path = path(tensor.name());
    let sizes = shape.clone();
    let read = move || {
        let values = tensor.to_vec::<f32>();
        let values = values.map_err(|error| TensorSnapshotError::DataError(error.to_string()))?;
        Ok(TensorData::new(values, sizes.clone()))
    };
    Ok(TensorSnapshot::from_closure(
        Rc::new(read),
        DType::F32,
        shape,
        path,
        Vec::new(),
        ParamId::new(),
    ))
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

impl ModuleStore for Source {
    type Error = Error;

    fn collect_from<B: Backend, M: ModuleSnapshot<B>>(&mut self, _: &M) -> Result<()> {
        let advice = "write a model with weighbridge::Builder";
        Err(Error::new(ErrorKind::Unsupported, "the source is only read").advise(advice))
    }

    /// Reads what the module has. What it lacks, and what could not be read, is in the result.
    fn apply_to<B: Backend, M: ModuleSnapshot<B>>(
        &mut self,
        module: &mut M,
    ) -> Result<ApplyResult> {
        let snapshots = self.snapshots.values().cloned().collect();
        Ok(module.apply(snapshots, None, Some(Box::new(ToBurn)), false))
    }

    fn get_snapshot(&mut self, name: &str) -> Result<Option<&TensorSnapshot>> {
        Ok(self.snapshots.get(name))
    }

    fn get_all_snapshots(&mut self) -> Result<&BTreeMap<String, TensorSnapshot>> {
        Ok(&self.snapshots)
    }

    fn keys(&mut self) -> Result<Vec<String>> {
        Ok(self.snapshots.keys().cloned().collect())
    }
}
