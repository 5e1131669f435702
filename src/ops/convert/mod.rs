//! The `convert` verb, and the planning half of `create`: converts a model to another container.

mod directory;
mod mlx;
mod tensors;

use std::path::Path;

use super::dialect::keeps_towers;
use super::gguf::{Finish, GgufDraft};
use super::judge::{check_projector, judged, not_loaded};
use super::rewrite::stem;
use super::verify::towers;
use super::{account, check_no_adapter, mmproj, ranks, zero_biases};
use crate::adapter::{Adapter, ScaledAdapter};
use crate::arch::Dialect;
use crate::container::writer::{BlobStore, Placement, Writer};
use crate::container::{Container, Shards};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::load::Fusion;
use crate::model::{Mesh, Model};
use crate::ollama::{self, NewLayers, QuantType};
use crate::recipe::mlx_lm;
use crate::setters::setters;
use crate::store::Encoding;
use crate::write::{Builder, OutTensor, Precision, Producer, WritePlan};

/// Options of a conversion.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConvertOptions {
    container: &'static Container,
    precision: Precision,
    shard_bytes: Option<u64>,
    shard_stem: Option<String>,
    one_file: bool,
    quantization: Option<QuantizationRules>,
    /// Adapters to be merged, each with a factor.
    adapters: Vec<ScaledAdapter>,
    /// Whether merged matrices of an MLX directory are quantized as they were.
    requantize_merged: bool,
    /// Whether the vision model is written instead of the language model.
    projector: bool,
    finish: Finish,
    /// The ranks whose shares are written.
    mesh: Option<Mesh>,
    fusions: Vec<&'static Fusion>,
}

/// The program whose rules decide how each tensor is quantized.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum QuantizationRules {
    /// mlx-lm's rules, for an MLX directory.
    MlxLm(mlx_lm::MlxOptions),
    /// Ollama's rules, for a model in its store.
    Ollama(QuantType),
}

impl ConvertOptions {
    /// Converts to a container. Each tensor is copied unchanged if the container can hold it, else
    /// repacked with the same values if possible, else requantized to 8 bits.
    pub fn new(container: &'static Container) -> Self {
        let precision = Precision::default();
        let finish = Finish { extra: true, lossless: false, unloadable: false, pruned: None };
        Self {
            container,
            precision,
            shard_bytes: None,
            shard_stem: None,
            one_file: false,
            quantization: None,
            adapters: Vec::new(),
            requantize_merged: false,
            projector: false,
            finish,
            mesh: None,
            fusions: Vec::new(),
        }
    }

    /// Plans a GGUF file even if llama.cpp could not load it, and an MLX directory even if mlx-lm has
    /// no class for it: for other readers.
    #[must_use]
    pub fn allow_unloadable(mut self, allow: bool) -> Self {
        self.finish.unloadable = allow;
        self
    }

    /// Decodes quantized tensors to the dtype in which mlx-lm has their values: for MLX that of their scales; to BF16 for
    /// MXFP4, and for FP8 if `config.json` states it; else to F16. Others stay as they are.
    #[must_use]
    pub fn dequantize(mut self, dequantize: bool) -> Self {
        self.precision.decodes = dequantize;
        self
    }

    setters! {
        /// Writes the vision model of a model with images instead of its language model: a GGUF file
        /// that llama.cpp reads beside that of the language model (mmproj).
        projector: bool;
        /// Sets the most bytes of tensors in one file. A GGUF model becomes shards beside each other.
        shard_bytes: u64;
        /// Writes one safetensors file without `config.json` and tokenizer, instead of a directory.
        one_file: bool;
        /// Quantizes the merged matrices of an MLX directory again, each with the bits and the groups that it has, as
        /// `mlx_lm.fuse` does. Without this, or in another container, they become plain.
        requantize_merged: bool;
    }

    /// Whether a GGUF file keeps what `config.json` says and GGUF has no key for, under keys of this
    /// library's own. Without them, the file has only the keys that llama.cpp's converter writes.
    #[must_use]
    pub fn extra_keys(mut self, extra: bool) -> Self {
        self.finish.extra = extra;
        self
    }

    /// Writes all matrices in a dtype. A plain float is the dtype of vectors too, but in GGUF, and but for
    /// vectors in F32 of a checkpoint that is narrower.
    #[must_use]
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.precision.dtype = Some(dtype);
        self
    }

    /// Makes any loss of values an error.
    #[must_use]
    pub fn lossless(mut self, lossless: bool) -> Self {
        self.precision.lossless = lossless;
        self.finish.lossless = lossless;
        self
    }

    /// Names the shards of a GGUF model after the path that is written, instead of `model`.
    #[must_use]
    pub fn shard_names(mut self, path: &Path) -> Self {
        self.shard_stem = stem(path).ok();
        self
    }

    /// Writes the share of each rank to files of its own, named `model-rank-{rank}-part-{part}.safetensors`
    /// as by vLLM's `sharded_state`, in one directory. The documents beside them are those of the whole
    /// model.
    ///
    /// Each rank has the tensors of [`tensors_of_rank`](super::tensors_of_rank). Quantized tensors are
    /// dequantized.
    #[must_use]
    pub fn shares(mut self, mesh: Mesh) -> Self {
        self.mesh = Some(mesh);
        self
    }

    /// Joins tensors of a rank: q, k and v to `qkv_proj`, gate and up to `gate_up_proj`. These are vLLM's
    /// names. Experts stay separate.
    #[must_use]
    pub fn fuse(mut self, fusions: &[&'static Fusion]) -> Self {
        self.fusions = fusions.to_vec();
        self
    }

    /// Merges a LoRA adapter, with its changes multiplied by `factor`. Several adapters are added
    /// up in the order given.
    ///
    /// Merged matrices are computed in `f32` and rounded once: to their own dtype if it is plain, to
    /// F16 if they are quantized, or to the dtype that the conversion requests. All other tensors
    /// are converted as without an adapter.
    #[must_use]
    pub fn adapter(mut self, adapter: Adapter, factor: f64) -> Self {
        self.adapters.push(ScaledAdapter { adapter, factor });
        self
    }

    /// Quantizes by the rules of another program.
    #[must_use]
    pub fn quantize(mut self, quantization: QuantizationRules) -> Self {
        self.quantization = Some(quantization);
        self
    }
}

/// Plans the conversion of a model to another container, or to other dtypes. Nothing is written
/// until the plan is [run](WritePlan::run).
///
/// In Ollama's store, a model becomes one blob for each tensor, like a model made with `ollama
/// create --experimental`. A GGUF model that keeps its dtypes becomes one blob, a copy of its file.
///
/// # Errors
///
/// `Unsupported` for a container that cannot be written or cannot express the model: an unknown
/// architecture or tensor, a tokenizer that cannot be translated, or a loss of values in a lossless
/// conversion.
pub fn convert(model: &Model, options: &ConvertOptions) -> Result<WritePlan> {
    with_layers(model, options, &NewLayers::default())
}

/// Like [`convert`], with what is added to a model in a store.
pub(super) fn with_layers(
    model: &Model,
    options: &ConvertOptions,
    layers: &NewLayers,
) -> Result<WritePlan> {
    let writer = options.container.writer()?;
    let here = |error: Error| error.in_file(model.store().path());
    let others = options.quantization.is_some() || options.one_file || options.projector;
    ranks::check(writer, options.mesh, &options.fusions, others).map_err(here)?;
    if options.projector {
        return projector(model, writer, options).map_err(here);
    }
    planned(model, writer, options, layers).map_err(here)
}

/// Plans a file with the vision model alone.
fn projector(model: &Model, writer: &Writer, options: &ConvertOptions) -> Result<WritePlan> {
    if writer.dialect != Dialect::Gguf || options.quantization.is_some() {
        let fault = "an mmproj file is a GGUF file without quantization rules";
        return Err(Error::unsupported(fault));
    }
    if let Some(attached) = mmproj::attached(model).filter(|_| options.adapters.is_empty()) {
        return mmproj::copied(attached, options.precision);
    }
    let model = &Adapter::merged(model, &options.adapters)?;
    let mut builder = mmproj::projector(model, options.precision)?;
    model.merged().iter().for_each(|note| builder.note(note.clone()));
    towers::projector_flags(model).into_iter().for_each(|note| builder.note(note));
    account::add_adapters(&options.adapters, builder.account());
    check_projector(&builder, model)?;
    builder.plan()
}

/// Plans the language model.
fn planned(
    model: &Model,
    writer: &'static Writer,
    options: &ConvertOptions,
    layers: &NewLayers,
) -> Result<WritePlan> {
    let store = match writer.placement {
        Placement::Store(store) => Some(store),
        Placement::Files | Placement::Directory => None,
    };
    let fits = match options.quantization {
        None => true,
        Some(QuantizationRules::MlxLm(_)) => writer.dialect == Dialect::Mlx,
        Some(QuantizationRules::Ollama(_)) => store.is_some(),
    };
    if !fits {
        let fault = format!("{} does not support this quantization", writer.name);
        return Err(Error::unsupported(fault).advise("quantize to a GGUF type instead"));
    }
    let gguf_store = store.filter(|_| model.encoding() == Encoding::Gguf);
    let keeps_dtypes = options.quantization.is_none() && options.precision.is_as_stored();
    // A model in a store keeps its adapters apart.
    let attached = if store.is_some() { model.clone() } else { Adapter::with_attached(model)? };
    let model = &Adapter::merged(&attached, &options.adapters)?;
    if !model.merged().is_empty() {
        check_merged(gguf_store, options)?;
    }
    if gguf_store.is_some() && keeps_dtypes && model.merged().is_empty() {
        let mut plan = ollama::gguf_blob(model, layers)?;
        plan.account = account::of_copy(model);
        plan.notes.extend(not_loaded(model)?);
        return Ok(plan.for_whole_model(model.resolution()?));
    }
    check_no_adapter(model)?;
    let model = &zero_biases::without(model, writer.dialect)?;
    let layers = store.map(|_| layers);
    let conversion = Conversion { model, writer, options, layers };
    let mut builder = match writer.dialect {
        Dialect::Gguf => {
            let draft = GgufDraft::of(model, options.precision)?;
            let mut builder = draft.finish(model, options.finish.clone())?;
            if let (Some(bytes), Placement::Files) = (options.shard_bytes, writer.placement) {
                let stem = options.shard_stem.as_deref().unwrap_or("model");
                builder.shards(Shards::Bytes(bytes), stem);
            }
            builder
        }
        _ if options.one_file => conversion.one_file()?,
        _ => conversion.directory()?,
    };
    if options.requantize_merged {
        not_requantized(&builder).into_iter().for_each(|note| builder.note(note));
    }
    if writer.dialect != Dialect::Gguf && store.is_none() && mmproj::attached(model).is_some() {
        builder.note(mmproj::ATTACHED);
    }
    if keeps_towers(model, writer.dialect) && model.resolution()?.has_towers() {
        builder.note(mmproj::KEPT);
    }
    let mut plan = judged(builder, model, options.finish.unloadable)?;
    account::add_adapters(&options.adapters, &mut plan.account);
    Ok(plan)
}

/// A note on merged matrices that were quantized before, and are not as they were.
fn not_requantized(builder: &Builder) -> Option<String> {
    let before = |tensor: &OutTensor| match &tensor.output.producer {
        Producer::Encoded { view, .. } if view.is_adapted() => {
            let dtype = view.dtype().ok().filter(|dtype| dtype.is_quantized())?;
            Some((tensor.name.clone(), dtype))
        }
        _ => None,
    };
    let mut plain = builder.tensors().iter().filter_map(before);
    let (first, dtype) = plain.next()?;
    let more = match plain.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "not quantized again after the merge: {first}{more} ({dtype}): only the groups of an MLX directory are, in an MLX \
         directory"
    ))
}

/// Checks that a model with merged adapters can be written. `gguf_store` is the store that a GGUF model is
/// written to.
fn check_merged(gguf_store: Option<&BlobStore>, options: &ConvertOptions) -> Result<()> {
    if options.precision.lossless {
        let fault = "merging an adapter changes values, but the result must be lossless";
        return Err(Error::unsupported(fault));
    }
    if let Some(store) = gguf_store {
        let fault = format!("an adapter cannot be merged into a GGUF model in {}", store.name);
        return Err(Error::unsupported(fault)
            .advise("merge it into a GGUF file, and create the model from that"));
    }
    Ok(())
}

/// A conversion to safetensors files that is being planned.
#[derive(Clone, Copy)]
struct Conversion<'c> {
    model: &'c Model,
    writer: &'static Writer,
    options: &'c ConvertOptions,
    /// The layers that are added to a model in a store; `None` for files and directories.
    layers: Option<&'c NewLayers>,
}

impl Conversion<'_> {
    /// Whether some tensors change, so that the description of a scheme would be wrong for them.
    fn changes_some(&self) -> bool {
        !(self.model.merged().is_empty() && self.options.fusions.is_empty())
    }
}
