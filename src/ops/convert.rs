//! The `convert` and `create` verbs: convert a model to another container.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value as Json;

use super::agreement::PlannedDirectory;
use super::dialect::{TranslatedTensors, adapted_tensors_in, tensors_in};
use super::experts::{self, stacked};
use super::gguf::{Finish, GgufDraft};
use super::mlx_class;
use super::mmproj;
use super::modules;
use super::ranks;
use crate::adapter::{self, Adapter};
use crate::arch::{Dialect, Resolution};
use crate::container::ollama::write::{CHAT_TEMPLATE, DRAFT_DOCUMENTS, DRAFT_PREFIX, FILE_TYPE};
use crate::container::writer::{DocumentContent, DraftEntry, NewDocument, Writer};
use crate::container::{Container, OLLAMA, Shards};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::load::Fusion;
use crate::model::{Adaptation, Mesh, Model, Sharding, Tensor};
use crate::ollama::{self, NewLayers, OllamaModel, QuantType};
use crate::recipe::mlx_lm;
use crate::repack::{REPACKS, Repack};
use crate::store::tensor::Segment;
use crate::store::{Encoding, Part};
use crate::translate::{self, ConfigDocument, Documents};
use crate::write::{
    Builder, Method, OutTensor, Output, Precision, Producer, TensorRepack, WritePlan, choose,
    encoded, grouped, grouped_from,
};

/// Options of a conversion.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConvertOptions {
    container: &'static Container,
    precision: Precision,
    shard_bytes: Option<u64>,
    one_file: bool,
    quantization: Option<QuantizationRules>,
    /// Adapters to be merged, each with a factor.
    adapters: Vec<(Adapter, f64)>,
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
            one_file: false,
            quantization: None,
            adapters: Vec::new(),
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

    /// Writes the vision model of a model with images instead of its language model: a GGUF file
    /// that llama.cpp reads beside that of the language model (mmproj).
    #[must_use]
    pub fn projector(mut self, projector: bool) -> Self {
        self.projector = projector;
        self
    }

    /// Whether a GGUF file keeps what `config.json` says and GGUF has no key for, under keys of this
    /// library's own. Without them, the file has only the keys that llama.cpp's converter writes.
    #[must_use]
    pub fn extra_keys(mut self, extra: bool) -> Self {
        self.finish.extra = extra;
        self
    }

    /// Writes all matrices in a dtype.
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

    /// Sets the most bytes of tensors in one safetensors file.
    #[must_use]
    pub fn shard_bytes(mut self, bytes: u64) -> Self {
        self.shard_bytes = Some(bytes);
        self
    }

    /// Writes one safetensors file without `config.json` and tokenizer, instead of a directory.
    #[must_use]
    pub fn one_file(mut self, one: bool) -> Self {
        self.one_file = one;
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
        self.adapters.push((adapter, factor));
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

/// Like [`convert`], with what is added to a model in Ollama's store.
pub(super) fn with_layers(
    model: &Model,
    options: &ConvertOptions,
    layers: &NewLayers,
) -> Result<WritePlan> {
    let others = options.quantization.is_some() || options.one_file || options.projector;
    let shares = ranks::check(options.container.writer()?, options.mesh, &options.fusions, others);
    shares.map_err(|error| error.in_file(model.store().path()))?;
    if options.projector {
        let plan = projector(model, options);
        return plan.map_err(|error| error.in_file(model.store().path()));
    }
    let plan = planned(model, options, layers);
    let plan = plan.map_err(|error| error.in_file(model.store().path()))?;
    Ok(plan.for_whole_model(model.resolution()?))
}

/// Plans a file with the vision model alone.
fn projector(model: &Model, options: &ConvertOptions) -> Result<WritePlan> {
    let others = options.quantization.is_some() || !options.adapters.is_empty();
    if options.container.writer()?.dialect != Dialect::Gguf || others {
        let fault = "an mmproj file is a GGUF file without adapters and without quantization rules";
        return Err(Error::unsupported(fault));
    }
    mmproj::projector(model, options.precision)?.plan()
}

fn planned(model: &Model, options: &ConvertOptions, layers: &NewLayers) -> Result<WritePlan> {
    let writer = options.container.writer()?;
    let fits = match options.quantization {
        None => true,
        Some(QuantizationRules::MlxLm(_)) => writer.dialect == Dialect::Mlx,
        Some(QuantizationRules::Ollama(_)) => writer.keeps_attachments,
    };
    if !fits {
        let fault = format!("{} does not support this quantization", writer.name);
        return Err(Error::unsupported(fault).advise("quantize to a GGUF type instead"));
    }
    let keeps_dtypes = options.quantization.is_none() && options.precision.dtype.is_none();
    let copies_file =
        writer.keeps_attachments && keeps_dtypes && model.encoding() == Encoding::Gguf;
    if copies_file && options.adapters.is_empty() {
        return ollama::gguf_blob(model, layers);
    }
    let adaptation = merged_changes(model, writer, options)?;
    let mut builder = match writer.dialect {
        Dialect::Gguf => {
            let draft = GgufDraft::of(model, adaptation.as_ref(), options.precision)?;
            draft.finish(model, options.finish.clone())?
        }
        _ if options.one_file => one_file(model, writer, options, layers, adaptation.as_ref())?,
        _ => directory(model, writer, options, layers, adaptation.as_ref())?,
    };
    for (adapter, factor) in &options.adapters {
        let factor = if *factor == 1.0 { String::new() } else { format!(", times {factor}") };
        let path = crate::bytes::Text::from_path(adapter.path());
        builder.note(format!("merged LoRA adapter {path}: {}{factor}", adapter.summary()));
    }
    builder.plan()
}

/// The changes of the adapters that are merged into the model; `None` without adapters.
fn merged_changes(
    model: &Model,
    writer: &Writer,
    options: &ConvertOptions,
) -> Result<Option<Arc<Adaptation>>> {
    if options.adapters.is_empty() {
        return Ok(None);
    }
    if options.precision.lossless {
        let fault = "merging an adapter changes values, but the result must be lossless";
        return Err(Error::unsupported(fault));
    }
    if writer.keeps_attachments && model.encoding() == Encoding::Gguf {
        let fault = "an adapter cannot be merged into a GGUF model in Ollama's store";
        return Err(Error::unsupported(fault)
            .advise("merge it into a GGUF file, and create the model from that"));
    }
    adapter::adaptation(model, &options.adapters).map(Arc::new).map(Some)
}

/// Whether some tensors change, so that the description of a scheme would be wrong for them.
fn changes_some(options: &ConvertOptions) -> bool {
    !(options.adapters.is_empty() && options.fusions.is_empty())
}

/// Builds a model of safetensors files and documents.
fn directory(
    model: &Model,
    writer: &'static Writer,
    options: &ConvertOptions,
    layers: &NewLayers,
    adaptation: Option<&Arc<Adaptation>>,
) -> Result<Builder> {
    let store = model.store();
    let mut builder = Builder::with_writer(writer);
    builder.reads(store);
    let same = writer.keeps_schemes && model.resolution()?.dialect == writer.dialect;
    if !same || changes_some(options) {
        store.check_known()?;
    }
    let shardings = options.mesh.map_or_else(
        || vec![(None, Sharding::new())],
        |mesh| (0..).map(Some).zip(mesh.shardings()).collect(),
    );
    let shares = shardings.into_iter().map(|(rank, sharding)| {
        let share = share(model, writer, options, adaptation, &sharding, &mut builder)?;
        Ok(Share { rank, ..share })
    });
    let mut shares = shares.collect::<Result<Vec<Share>>>()?;
    let (config, others) = documents(model, writer, &mut builder)?;
    if writer.dialect == Dialect::Mlx && !writer.keeps_attachments {
        let note = mlx_class::check(model, config.as_ref(), options.finish.unloadable)?;
        note.into_iter().for_each(|note| builder.note(note));
    }
    let config = agreed(model, writer, options, &mut shares, config, &mut builder)?;
    let mut why_plain = Vec::new();
    for share in shares {
        why_plain.extend(push_share(model, writer, options, share, config.as_ref(), &mut builder)?);
    }
    let is_true = |config_is_true: fn(&Output) -> bool| {
        builder.tensors().iter().all(|tensor| config_is_true(&tensor.output))
    };
    // If no packing changes, what config.json says about quantization stays true.
    let keeps_config = match writer.dialect {
        _ if writer.keeps_attachments => {
            is_true(|output| matches!(output.method, Method::Copied | Method::Quantized))
        }
        Dialect::Mlx => is_true(|output| {
            output.method == Method::Copied && output.producer.group_size().is_none()
        }),
        _ => is_true(|output| output.method == Method::Copied),
    };
    let mut documents = Vec::new();
    if let Some(config) = config {
        let content = match (keeps_config, config) {
            (true, ConfigDocument::Stored(bytes)) => DocumentContent::Bytes(bytes),
            (true, ConfigDocument::Made(config)) => DocumentContent::Json(config),
            (false, config) => DocumentContent::Config(config.into_keys()?),
        };
        documents.push(NewDocument { content, ..NewDocument::new("config.json", Vec::new()) });
    }
    documents.extend(others.into_iter().map(|(name, bytes)| NewDocument::new(name, bytes)));
    documents.extend(modules::files(model, writer, &mut builder)?);
    if keeps_config && writer.keeps_schemes {
        let stated = translate::quantization_documents(store)?.into_iter();
        documents.extend(stated.map(|(name, bytes)| NewDocument::new(name, bytes)));
    }
    if writer.keeps_attachments {
        // Ollama lists documents by name.
        documents.sort_by(|a, b| a.name.cmp(&b.name));
    }
    documents.into_iter().for_each(|document| builder.push_document(document));
    if writer.keeps_attachments {
        add_layers(model, options, layers, &mut builder)?;
    } else if store.attachments().iter().any(|attachment| attachment.kind == "tensor") {
        builder.note("left out: the draft model that Ollama runs ahead of this one");
    }
    if let (Some(bytes), Some(_)) = (options.shard_bytes, writer.shard_bytes) {
        builder.shards(Shards::Bytes(bytes), "model");
    }
    why_plain.into_iter().for_each(|note| builder.note(note));
    Ok(builder)
}

/// The config, in agreement with the tensors that will be written. Files that get none of their own keep all
/// tensors, and so do Ollama's copies.
fn agreed(
    model: &Model,
    writer: &Writer,
    options: &ConvertOptions,
    shares: &mut [Share],
    config: Option<ConfigDocument>,
    builder: &mut Builder,
) -> Result<Option<ConfigDocument>> {
    let same = model.resolution()?.dialect == writer.dialect;
    let Some(config) = config else { return Ok(None) };
    if same && (options.one_file || writer.keeps_attachments) {
        return Ok(Some(config));
    }
    let directory = PlannedDirectory {
        model,
        dialect: writer.dialect,
        is_whole: options.mesh.is_none(),
        unloadable: options.finish.unloadable,
    };
    let mut keys = config.keys()?.into_owned();
    for share in shares {
        let notes = directory.agree(&mut share.tensors, &mut keys)?;
        notes.into_iter().for_each(|note| builder.note(note));
    }
    let is_same = *config.keys()? == keys;
    Ok(Some(if is_same { config } else { ConfigDocument::Made(keys) }))
}

/// The tensors of one rank, or of the whole model.
#[derive(Default)]
struct Share {
    rank: Option<u64>,
    /// The tensors, with their expert groups.
    tensors: Vec<(Option<String>, Tensor)>,
    in_mxfp4: HashMap<String, TensorRepack>,
    /// Why experts that were in MXFP4 are not written so.
    why_plain: Option<String>,
}

/// The tensors that a rank's files will have, in the writer's dialect.
fn share(
    model: &Model,
    writer: &Writer,
    options: &ConvertOptions,
    adaptation: Option<&Arc<Adaptation>>,
    sharding: &Sharding,
    builder: &mut Builder,
) -> Result<Share> {
    let (store, resolution) = (model.store(), model.resolution()?);
    let TranslatedTensors { mut tensors, mut left_out, in_mxfp4 } =
        adapted_tensors_in(model, writer.dialect, adaptation, sharding)?;
    left_out.retain(|(name, _)| !translate::modules::has_folder(store, resolution, name));
    super::left_out(&left_out).into_iter().for_each(|note| builder.note(note));
    if store.encoding() == Encoding::Gguf {
        let before = translate::rows_before_positions(store, resolution)?;
        let end = "embeddings.position_embeddings.weight";
        for view in tensors.iter_mut().filter(|view| before > 0 && view.name().ends_with(end)) {
            *view = view.clone().after_copies(before)?;
            let what = "before position 0, are copies of the next row";
            builder.note(format!("{}: its first {before} rows, {what}", view.name()));
        }
    }
    let (in_mxfp4, why_plain) = match (writer.repacks_to)(DType::HF_MXFP4) {
        true => experts::in_mxfp4(&mut tensors, &in_mxfp4, options.precision.dtype.is_some())?,
        false => Default::default(),
    };
    let tensors = stacked(ranks::joined(tensors, &options.fusions)?, writer)?;
    Ok(Share { rank: None, tensors, in_mxfp4, why_plain })
}

/// Adds the tensors of a rank, or of the whole model. Gives a note.
fn push_share(
    model: &Model,
    writer: &'static Writer,
    options: &ConvertOptions,
    share: Share,
    config: Option<&ConfigDocument>,
    builder: &mut Builder,
) -> Result<Option<String>> {
    let resolution = model.resolution()?;
    let Share { rank, tensors, mut in_mxfp4, why_plain } = share;
    let mut choices = recipe_choices(model, &tensors, config, options, builder)?.into_iter();
    // A scheme whose tensors are divided is written decoded, and so are those that every rank has.
    let same = resolution.dialect == writer.dialect && rank.is_none();
    let whole = !changes_some(options);
    let floats = match writer.dialect {
        Dialect::Mlx => mlx_floats(model, resolution, options.precision, &tensors),
        _ => None,
    };
    let uncast = resolution.architecture.map_or(&[][..], |row| row.mlx_uncast);
    let fp8 = fp8_recipe(writer, config, options, builder)?;
    for (experts, tensor) in tensors {
        let cast = !uncast.iter().any(|piece| tensor.name().contains(piece));
        let precision = Precision { floats: floats.filter(|_| cast), ..options.precision };
        let fp8 = fp8.as_ref().filter(|_| has_fp8_blocks(&tensor));
        let output = match (choices.next().flatten(), in_mxfp4.remove(tensor.name())) {
            (_, Some(repacking)) => Output::new(Producer::Repacked(repacking), Method::Repacked),
            (Some((dtype, group_size)), None) => grouped(&tensor, dtype, group_size, floats)?,
            (None, None) => match fp8 {
                Some(recipe) => decoded_fp8(&tensor, recipe, precision)?,
                None => copy_or_choose(&tensor, writer, (same, whole), precision)?,
            },
        };
        builder.push(OutTensor { experts, rank, ..OutTensor::new(tensor.name(), output) });
    }
    Ok(why_plain)
}

/// Builds a single safetensors file. The documents of a directory are left out, which is noted.
fn one_file(
    model: &Model,
    writer: &'static Writer,
    options: &ConvertOptions,
    layers: &NewLayers,
    adaptation: Option<&Arc<Adaptation>>,
) -> Result<Builder> {
    if writer.dialect != Dialect::HuggingFace || writer.keeps_attachments {
        let fault =
            format!("{} needs a directory: its config.json describes the tensors", writer.name);
        return Err(Error::unsupported(fault).advise("give the path of a directory"));
    }
    let mut builder = directory(model, writer, options, layers, adaptation)?;
    let names = builder.documents().iter().map(|document| document.name.as_str());
    let names = names.collect::<Vec<_>>().join(", ");
    builder.one_file();
    if !names.is_empty() {
        builder
            .note(format!("a single file has no room for {names}: give a directory to write them"));
    }
    Ok(builder)
}

/// Adds the layers of a stored model besides its weights, and the new ones.
fn add_layers(
    model: &Model,
    options: &ConvertOptions,
    layers: &NewLayers,
    builder: &mut Builder,
) -> Result<()> {
    let store = model.store();
    if let Some(file) = layers.files.first() {
        let fault = "Ollama runs adapters and projectors with GGUF models only";
        return Err(Error::unsupported(fault)
            .in_file(file.path())
            .advise("convert the model to GGUF first, without --quantize"));
    }
    let mut settings = layers.settings.clone();
    settings.base =
        ollama::base_config(store)?.filter(|_| model.encoding() == Encoding::Safetensors);
    let new_draft = layers.draft.is_some();
    let kept = |kind: &str, name: &str| match kind {
        "tensor" => !new_draft,
        "json" => !new_draft && name.starts_with(DRAFT_DOCUMENTS),
        "draft" | "config" => false,
        _ => true,
    };
    let mut documents = Vec::new();
    if let Some(draft) = &layers.draft {
        settings.draft = Some(push_draft(draft, options, layers.draft_quantization, builder)?);
        for (name, bytes) in ollama::draft_documents(draft)? {
            documents.push(NewDocument::new(format!("{}{name}", DRAFT_DOCUMENTS), bytes));
        }
    }
    documents.extend(ollama::stored_layers(store, kept)?);
    // Ollama lists the tensors of a draft model before its documents.
    documents.sort_by_key(|document| document.role != "tensor");
    layers.edit(documents, &[])?.into_iter().for_each(|document| builder.push_document(document));
    builder.settings(settings);
    Ok(())
}

/// Adds the tensors of a draft model, and returns its entry in the config.
fn push_draft(
    draft: &Model,
    options: &ConvertOptions,
    quantization: Option<QuantType>,
    builder: &mut Builder,
) -> Result<DraftEntry> {
    let here = |error: Error| error.in_file(draft.path());
    let config =
        draft.document("config.json").filter(|_| draft.encoding() == Encoding::Safetensors);
    let config = config.ok_or_else(|| {
        let fault = "the draft of a model of tensor blobs is a directory with config.json";
        here(Error::unsupported(fault))
    })?;
    let numbers = OllamaModel { draft: true, ..OllamaModel::of(config) };
    if numbers.architecture.is_empty() {
        let fault = "the config.json of the draft model names no architecture";
        return Err(here(Error::malformed(fault)));
    }
    let writer = OLLAMA.writer()?;
    let translated = tensors_in(draft, writer.dialect).map_err(here)?;
    builder.reads(draft.store());
    for (experts, tensor) in stacked(translated.tensors, writer).map_err(here)? {
        let chosen = quantization.and_then(|to| numbers.choose(tensor.name(), tensor.shape(), to));
        let output = match chosen.map(QuantType::descriptor) {
            Some(row) => grouped(&tensor, row.dtype, row.group_size, None),
            None => copy_or_choose(&tensor, writer, (true, true), options.precision),
        };
        let named = |name: &str| format!("{}{name}", DRAFT_PREFIX);
        let experts = experts.as_deref().map(named);
        let tensor = OutTensor::new(named(tensor.name()), output.map_err(here)?);
        builder.push(OutTensor { experts, ..tensor });
    }
    Ok(DraftEntry {
        format: "safetensors".to_owned(),
        architecture: numbers.architecture,
        tensor_prefix: DRAFT_PREFIX.to_owned(),
        config: format!("{}config.json", DRAFT_DOCUMENTS),
    })
}

/// Names and contents of files.
type NamedFiles = Vec<(String, Vec<u8>)>;

/// Returns `config.json` and the other documents beside the weights.
fn documents(
    model: &Model,
    writer: &Writer,
    builder: &mut Builder,
) -> Result<(Option<ConfigDocument>, NamedFiles)> {
    let store = model.store();
    let own = store.document("config.json").is_some() && store.encoding() == Encoding::Safetensors;
    let (config, mut others) = match writer.dialect {
        _ if writer.keeps_attachments && own => {
            let (config, others): (Vec<_>, Vec<_>) =
                store.read_companions()?.into_iter().partition(|(name, _)| name == "config.json");
            (config.into_iter().next().map(|(_, bytes)| ConfigDocument::Stored(bytes)), others)
        }
        dialect => {
            let Documents { config, others } = match dialect {
                Dialect::Mlx => translate::mlx_documents(model)?,
                _ => translate::hf_documents(model)?,
            };
            let named = |(name, bytes): (&str, _)| (name.to_owned(), bytes);
            (Some(config), others.into_iter().map(named).collect::<Vec<_>>())
        }
    };
    if writer.keeps_attachments {
        let is_json = |name: &str| name.ends_with(".json") && !name.contains('/');
        if let Some((name, text)) = others.iter().find(|(name, _)| name == CHAT_TEMPLATE) {
            builder.metadata().set_text(name, text);
        }
        let left = others.iter().filter(|(name, _)| !is_json(name));
        let reason = |name: &str| match name.contains('/') {
            true => modules::NO_FOLDERS.to_owned(),
            false => "Ollama accepts only JSON documents".to_owned(),
        };
        let mut left: Vec<_> = left.map(|(name, _)| (name.clone(), reason(name))).collect();
        left.sort();
        super::left_out(&left).into_iter().for_each(|note| builder.note(note));
        others.retain(|(name, _)| is_json(name));
    }
    Ok((config, others))
}

/// The dtype and group size that another program's rules choose for each tensor; `None` for a
/// tensor that is not quantized.
fn recipe_choices(
    model: &Model,
    tensors: &[(Option<String>, Tensor)],
    config: Option<&ConfigDocument>,
    options: &ConvertOptions,
    builder: &mut Builder,
) -> Result<Vec<Option<(DType, u32)>>> {
    match &options.quantization {
        None => Ok(Vec::new()),
        Some(QuantizationRules::MlxLm(options)) => {
            let keys = config.map(ConfigDocument::keys).transpose()?.unwrap_or_default();
            let model_type = keys.get("model_type").and_then(Json::as_str);
            let recipe = mlx_recipe(model, model_type, tensors, options)?;
            builder.quantization(recipe.config);
            let chosen = recipe.choices.into_iter();
            Ok(chosen.map(|choice| choice.map(|c| (c.dtype, c.group_size))).collect())
        }
        Some(QuantizationRules::Ollama(quantization)) => {
            let keys = config.map(ConfigDocument::keys).transpose()?.unwrap_or_default();
            let numbers = OllamaModel::of(&Json::Object(keys.into_owned()));
            let key = FILE_TYPE;
            builder.metadata().set_text(key, quantization.descriptor().name);
            let choice = |(_, tensor): &(Option<String>, Tensor)| {
                let chosen = numbers.choose(tensor.name(), tensor.shape(), *quantization)?;
                let row = chosen.descriptor();
                let has = tensor.dtype().is_ok_and(|dtype| dtype == row.dtype)
                    && tensor.group_size() == Some(row.group_size)
                    && tensor.packed().is_ok();
                (!has).then_some((row.dtype, row.group_size))
            };
            Ok(tensors.iter().map(choice).collect())
        }
    }
}

/// Ollama's rules for a checkpoint in F8_E4M3 with blocks of 128 x 128, if they apply: if the model
/// goes to its store, and the caller set no dtype and accepts a loss.
fn fp8_recipe(
    writer: &Writer,
    config: Option<&ConfigDocument>,
    options: &ConvertOptions,
    builder: &mut Builder,
) -> Result<Option<OllamaModel>> {
    let free = options.quantization.is_none()
        && options.precision.dtype.is_none()
        && !options.precision.lossless;
    let Some(config) = config.filter(|_| writer.keeps_attachments && free) else {
        return Ok(None);
    };
    let keys = Json::Object(config.keys()?.into_owned());
    if !OllamaModel::has_fp8_blocks(&keys) {
        return Ok(None);
    }
    builder.metadata().set_text(FILE_TYPE, QuantType::Mxfp8.descriptor().name);
    Ok(Some(OllamaModel::of(&keys)))
}

/// Whether a tensor is in F8_E4M3 with a scale for each block of 128 x 128.
fn has_fp8_blocks(tensor: &Tensor) -> bool {
    let mut stored = tensor.stored_tensors();
    stored.all(|stored| {
        let blocks = |size: &u64| size.div_ceil(128);
        let shape = stored.shape();
        let Some((outer, [rows, columns])) = shape.split_last_chunk::<2>() else { return false };
        let scales = [outer, &[blocks(rows), blocks(columns)]].concat();
        let has = |part: Segment<'_>| part.part == Part::Scale && part.shape == scales;
        stored.dtype().is_ok_and(|dtype| dtype == DType::SCALED_F8_E4M3)
            && stored.segments().any(has)
    })
}

/// Decodes 8-bit floats to BF16, and quantizes them to mxfp8 if Ollama's rules do.
fn decoded_fp8(tensor: &Tensor, recipe: &OllamaModel, precision: Precision) -> Result<Output> {
    let chosen = recipe.choose(tensor.name(), tensor.shape(), QuantType::Mxfp8);
    let why = "Ollama decodes 8-bit floats with blocks of 128 x 128".to_owned();
    match chosen.map(QuantType::descriptor) {
        Some(row) => {
            let output = grouped_from(tensor, DType::BF16, row.dtype, row.group_size)?;
            Ok(output.with_reason(Some(why)))
        }
        None => encoded(tensor, DType::BF16, Some(why), precision),
    }
}

/// mlx-lm's choice for each tensor. `model_type` is that of the config.json to be written.
fn mlx_recipe(
    model: &Model,
    model_type: Option<&str>,
    tensors: &[(Option<String>, Tensor)],
    options: &mlx_lm::MlxOptions,
) -> Result<mlx_lm::MlxRecipe> {
    let config = model.config()?;
    let numbers = mlx_lm::MlxModel {
        model_type: model_type.unwrap_or(&config.architecture.value).to_owned(),
        layers: u64::from(config.n_layers.value),
        ..mlx_lm::MlxModel::default()
    };
    let modules = tensors.iter().map(|(_, tensor)| {
        let path = tensor.name().strip_suffix(".weight");
        // A tensor that is not a module's weight is never quantized; an empty shape says so.
        let shape = if path.is_some() { tensor.shape() } else { &[] };
        mlx_lm::Module { path: path.unwrap_or(tensor.name()), shape }
    });
    mlx_lm::MlxRecipe::new(&numbers, &modules.collect::<Vec<_>>(), options)
}

/// The dtype of all floats in an MLX directory, as mlx-lm would have written it: it casts every
/// parameter to one dtype, so that the model computes in that dtype. `None` if each tensor keeps its
/// own.
///
/// Norms of GGUF files are in F32 whatever the model's dtype was. The matrices tell it: the plain
/// ones have it, and the scales of quantized ones are in F16 or, for K-quants, products that need
/// F32. The latter are rounded to BF16, which has the range of F32. Matrices that MLX has no packing
/// for are quantized again, and fit either dtype.
fn mlx_floats(
    model: &Model,
    resolution: &Resolution,
    precision: Precision,
    tensors: &[(Option<String>, Tensor)],
) -> Option<DType> {
    const FLOATS: [DType; 3] = [DType::BF16, DType::F16, DType::F32];
    if let Some(dtype) = precision.dtype.filter(|dtype| FLOATS.contains(dtype)) {
        return Some(dtype);
    }
    if precision.lossless || !matches!(model.encoding(), Encoding::Gguf | Encoding::Ggml) {
        return None;
    }
    let matrices = || tensors.iter().map(|(_, t)| t).filter(|t| t.shape().len() > 1);
    let elements = |dtype: DType| {
        let of = matrices().filter(|tensor| tensor.dtype().is_ok_and(|own| own == dtype));
        of.map(Tensor::elements).fold(0, u64::saturating_add)
    };
    let is_quantized = |tensor: &Tensor| tensor.dtype().is_ok_and(DType::is_quantized);
    let quantized = matrices().any(is_quantized);
    let plain = FLOATS.into_iter().filter(|dtype| !quantized || *dtype != DType::F32);
    let most = plain.max_by_key(|dtype| elements(*dtype)).filter(|dtype| elements(*dtype) > 0);
    if most.is_some() || !quantized {
        return most;
    }
    let wide = resolution.architecture.is_some_and(|row| row.exceeds_f16);
    let exact_in_f16 = |tensor: &Tensor| {
        let to_mlx = |row: &&Repack| row.to.group_quantizer().is_some();
        let rows = REPACKS.iter().filter(|row| tensor.dtype().is_ok_and(|own| own == row.from));
        let mut rows = rows.filter(to_mlx).peekable();
        rows.peek().is_none()
            || rows.any(|row| !row.scales.contains(&DType::F32) || row.scales.contains(&DType::F16))
    };
    let all = matrices().filter(|tensor| is_quantized(tensor)).all(exact_in_f16);
    Some(if all && !wide { DType::F16 } else { DType::BF16 })
}

/// Chooses how to write a tensor that no rule quantizes. `same` says whether the names of source
/// and output are of the same dialect.
fn copy_or_choose(
    tensor: &Tensor,
    writer: &Writer,
    (same, whole): (bool, bool),
    mut precision: Precision,
) -> Result<Output> {
    if writer.keeps_schemes && precision.dtype.is_none() {
        // Transformers reads a checkpoint's own quantization scheme, but not MLX's groups from
        // Ollama's store.
        let mlx = tensor.dtype().is_ok_and(|dtype| dtype.group_quantizer().is_some());
        let quantized = tensor.dtype().is_ok_and(DType::is_quantized);
        if same && tensor.is_stored() && !mlx && (whole || !quantized) {
            return Ok(Output::new(Producer::Packed(tensor.clone()), Method::Copied));
        }
        if quantized {
            precision.dtype = Some(if precision.lossless { DType::F32 } else { DType::F16 });
        }
    }
    choose(tensor, writer, precision)
}
