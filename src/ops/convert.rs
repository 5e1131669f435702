//! A model in another container.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::dialect::{Spoken, speak};
use super::experts::{self, Experts};
use super::gguf::{Draft, Drafted};
use super::packing::{Holds, Made, Wanted, is_mlx, made};
use super::rewrite::{index_json, stored_part};
use crate::arch::Dialect;
use crate::container::safetensors;
use crate::dtype::DType;
use crate::error::Result;
use crate::model::{Model, Tensor};
use crate::recipe::mlx;
use crate::shape;
use crate::store::Encoding;
use crate::store::Part;
use crate::translate::{self, ConfigDocument};
use crate::write::{How, Kind, Making, OutFile, OutTensor, Quantizing, WritePlan};

/// A container that can be written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Format {
    /// A GGUF file.
    Gguf,
    /// A directory as transformers reads it.
    Safetensors,
    /// A directory as mlx-lm reads it.
    Mlx,
    /// A model in Ollama's store, at the [place](crate::container::ollama::place) of its name.
    Ollama,
}

/// What is wanted of a conversion.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ConvertOptions {
    format: Format,
    wanted: Wanted,
    /// Bytes of tensors in a shard, at most.
    shard: u64,
    quantization: Option<mlx::Options>,
}

impl ConvertOptions {
    /// Into that container: each tensor as it is where the container can hold that, in another
    /// packing with the same values where there is one, else requantized to 8 bits.
    pub fn new(format: Format) -> Self {
        let shard = match format {
            // What transformers and mlx-lm cut their files at.
            Format::Mlx => 5 << 30,
            _ => 5_000_000_000,
        };
        Self { format, wanted: Wanted::default(), shard, quantization: None }
    }

    /// The dtype of all matrices.
    #[must_use]
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.wanted.dtype = Some(dtype);
        self
    }

    /// Any tensor that would lose something is an error.
    #[must_use]
    pub fn lossless(mut self, lossless: bool) -> Self {
        self.wanted.lossless = lossless;
        self
    }

    /// Bytes of tensors in a shard of safetensors, at most.
    #[must_use]
    pub fn shard_bytes(mut self, bytes: u64) -> Self {
        self.shard = bytes;
        self
    }

    /// Quantized as mlx-lm does it, for a directory of MLX.
    #[must_use]
    pub fn quantize(mut self, options: mlx::Options) -> Self {
        self.quantization = Some(options);
        self
    }
}

/// A model in another container, or in another dtype.
///
/// # Errors
///
/// `Unsupported` where the container has no way to say what the model says: an architecture or a
/// tensor that is not known, a tokenizer without rules, or a value that would be lost and may not be.
pub fn convert(model: &Model, options: &ConvertOptions) -> Result<WritePlan> {
    match options.format {
        Format::Gguf => gguf(model, options.wanted),
        Format::Safetensors => directory(model, options, Dialect::HuggingFace),
        Format::Mlx => directory(model, options, Dialect::Mlx),
        Format::Ollama => super::create::planned(model, None, options.wanted),
    }
    .and_then(|plan| Ok(plan.of_whole_model(model.resolution()?)))
    .map_err(|error| error.in_file(model.store().path()))
}

fn gguf(model: &Model, wanted: Wanted) -> Result<WritePlan> {
    let Draft { keys, tensors, notes } = Draft::of(model, wanted)?;
    let (mut out, mut fates) = (Vec::new(), Vec::new());
    for Drafted { tensor, how, why } in tensors {
        fates.push(tensor.fate(how, why)?);
        out.push(tensor);
    }
    let file = OutFile::gguf("model.gguf", &keys, out)?;
    Ok(WritePlan::new(Kind::File, vec![file], fates, notes, model.store()))
}

/// A directory of safetensors and documents.
fn directory(model: &Model, options: &ConvertOptions, dialect: Dialect) -> Result<WritePlan> {
    let (store, resolution) = (model.store(), model.resolution()?);
    let Spoken { tensors: mut views, left_out, in_mxfp4 } = speak(model, dialect)?;
    let is_mlx_directory = dialect == Dialect::Mlx;
    let mut notes = super::left_out(&left_out);
    if store.encoding() == Encoding::Gguf {
        let before = translate::rows_before_positions(store, resolution)?;
        let end = "embeddings.position_embeddings.weight";
        for view in views.iter_mut().filter(|view| before > 0 && view.name().ends_with(end)) {
            *view = view.clone().after_copies(before)?;
            let what = "which no position has, are copies of the next one";
            notes.push(format!("{}: its first {before} rows, {what}", view.name()));
        }
    }
    let (experts, why_plain) = Experts::new(&mut views, &in_mxfp4, options.wanted.dtype)?;
    let mut tensors: Vec<(OutTensor, How, Option<String>)> = Vec::new();
    let recipe = match options.quantization {
        Some(quantization) => Some(recipe(model, &views, &quantization)?),
        None => None,
    };
    for (number, view) in views.iter().enumerate() {
        let choice =
            recipe.as_ref().and_then(|recipe| recipe.choices.get(number).copied().flatten());
        let (making, how, why) = match (choice, experts.made(view.name())) {
            (_, Some(made)) => made,
            (Some(choice), _) => quantized(view, choice.dtype, choice.group_size)?,
            (None, _) => {
                plain(view, is_mlx_directory, resolution.dialect == dialect, options.wanted)?
            }
        };
        tensors.push((OutTensor { name: view.name().to_owned(), making }, how, why));
    }
    let fates = tensors.iter().map(|(tensor, how, why)| tensor.fate(*how, why.clone()));
    let fates = fates.collect::<Result<Vec<_>>>()?;
    let quantization = match recipe {
        Some(recipe) => Some(recipe.config),
        None if is_mlx_directory => said(&tensors),
        None => experts.quantization(),
    };
    let format = if is_mlx_directory { "mlx" } else { "pt" };
    let metadata = BTreeMap::from([("format".to_owned(), format.to_owned())]);
    let copies = tensors.iter().all(|(_, how, _)| *how == How::Copied);
    let tensors: Vec<OutTensor> = tensors.into_iter().map(|(tensor, ..)| tensor).collect();
    let mut files = shards(tensors, &metadata, options.shard, is_mlx_directory)?;
    let documents = match is_mlx_directory {
        true => translate::mlx_documents(model)?,
        false => translate::hf_documents(model)?,
    };
    // As long as nothing is made otherwise, what it says of it stays true.
    let config = match copies && quantization.is_none() {
        true => documents.config,
        false => with_dtypes(&documents.config, quantization.as_ref(), &fates)?,
    };
    files.push(OutFile::document("config.json", config.into_bytes()?));
    let others = documents.others.into_iter();
    files.extend(others.map(|(name, bytes)| OutFile::document(name, bytes)));
    notes.extend(why_plain);
    Ok(WritePlan::new(Kind::Directory, files, fates, notes, store))
}

/// A tensor that is not quantized anew.
fn plain(view: &Tensor, mlx: bool, same: bool, wanted: Wanted) -> Result<Made> {
    let quantized = view.dtype().is_ok_and(DType::is_quantized);
    if mlx {
        return made(view, Holds::Groups, wanted);
    }
    match wanted.dtype {
        // What a checkpoint has, transformers reads; groups of MLX in Ollama's store, it does not.
        None if same && view.is_stored() && !view.dtype().is_ok_and(is_mlx) => {
            Ok((Making::Packed(view.clone()), How::Copied, None))
        }
        None if quantized && wanted.lossless => {
            made(view, Holds::Plain, Wanted { dtype: Some(DType::F32), ..wanted })
        }
        None if quantized => made(view, Holds::Plain, Wanted { dtype: Some(DType::F16), ..wanted }),
        _ => made(view, Holds::Plain, wanted),
    }
}

/// A tensor in groups, of the numbers that it is quantized from in mlx-lm and in Ollama.
pub(super) fn quantized(view: &Tensor, dtype: DType, group_size: u32) -> Result<Made> {
    let stored = view.dtype()?;
    let again = stored.is_quantized();
    let quantizing = Quantizing {
        view: view.clone(),
        dtype,
        group_size,
        values: if again { DType::F16 } else { view.values_dtype() },
    };
    let how = if again { How::Requantized } else { How::Quantized };
    Ok((Making::Grouped(quantizing), how, None))
}

/// mlx-lm's choice for each tensor.
fn recipe(model: &Model, views: &[Tensor], options: &mlx::Options) -> Result<mlx::Recipe> {
    let config = model.config()?;
    let model_type = model.store().document("config.json");
    let model_type = model_type.and_then(|config| config.get("model_type")?.as_str());
    let numbers = mlx::MlxModel {
        model_type: model_type.unwrap_or(&config.architecture.value).to_owned(),
        layers: u64::from(config.n_layers.value),
        ..mlx::MlxModel::default()
    };
    let modules = views.iter().map(|view| {
        let path = view.name().strip_suffix(".weight");
        // What is no weight of a module has the shape of none.
        let shape = if path.is_some() { view.shape() } else { &[] };
        mlx::Module { path: path.unwrap_or(view.name()), shape }
    });
    mlx::Recipe::new(&numbers, &modules.collect::<Vec<_>>(), options)
}

/// What `config.json` says of tensors that are in groups: the numbers that most have, and by their
/// paths those that have others.
fn said(tensors: &[(OutTensor, How, Option<String>)]) -> Option<Json> {
    let mut found: Vec<(&str, Json)> = Vec::new();
    for (tensor, ..) in tensors {
        let (Ok(dtype), Some(size)) = (tensor.making.dtype(), tensor.making.group_size()) else {
            continue;
        };
        let row = dtype.descriptor();
        let bits = u64::from(row.block_bytes) * 8 / u64::from(row.block_len).max(1);
        let mode = match dtype {
            DType::MLX_MXFP4 => "mxfp4",
            DType::MLX_MXFP8 => "mxfp8",
            DType::MLX_NVFP4 => "nvfp4",
            _ => "affine",
        };
        let path = tensor.name.strip_suffix(".weight").unwrap_or(&tensor.name);
        found.push((path, json!({ "group_size": size, "bits": bits, "mode": mode })));
    }
    let count = |json: &Json| found.iter().filter(|(_, other)| other == json).count();
    let usual = found.iter().map(|(_, json)| json).max_by_key(|json| count(json))?.clone();
    let mut config = usual.as_object().cloned().unwrap_or_default();
    for (path, json) in found.iter().filter(|(_, json)| *json != usual) {
        config.insert((*path).to_owned(), json.clone());
    }
    Some(Json::Object(config))
}

/// `config.json` with what is said of dtypes as it now is.
pub(super) fn with_dtypes(
    config: &ConfigDocument,
    quantization: Option<&Json>,
    fates: &[crate::write::Fate],
) -> Result<ConfigDocument> {
    let mut config = config.keys()?.into_owned();
    config.remove("quantization");
    config.remove("quantization_config");
    if let Some(quantization) = quantization {
        if quantization.get("quant_method").is_none() {
            // Where mlx-lm looks for it first, which knows no methods.
            config.insert("quantization".to_owned(), quantization.clone());
        }
        config.insert("quantization_config".to_owned(), quantization.clone());
    }
    let weights = |dtype: DType| {
        let of = fates.iter().filter(|fate| fate.dtype == dtype && fate.shape.len() > 1);
        of.map(|fate| shape::elements(&fate.shape).unwrap_or(0)).fold(0u64, u64::saturating_add)
    };
    let plain = [(DType::F32, "float32"), (DType::F16, "float16"), (DType::BF16, "bfloat16")];
    let most = plain.iter().max_by_key(|(dtype, _)| weights(*dtype));
    if let Some((_, name)) = most.filter(|(dtype, _)| weights(*dtype) > 0) {
        let key = if config.contains_key("dtype") { "dtype" } else { "torch_dtype" };
        config.insert(key.to_owned(), Json::from(*name));
    }
    Ok(ConfigDocument::Made(config))
}

/// Files of at most so many bytes of tensors, and an index where there are several; mlx-lm writes
/// one in any case.
fn shards(
    tensors: Vec<OutTensor>,
    metadata: &BTreeMap<String, String>,
    most: u64,
    mlx: bool,
) -> Result<Vec<OutFile>> {
    let bytes = tensors.iter().map(OutTensor::bytes).sum::<Result<u64>>()?;
    let groups = super::rewrite::cut(tensors, super::Shards::Bytes(most))?;
    let count = groups.len();
    let named = |tensor: &OutTensor, part: Part| match &tensor.making {
        _ if mlx => mlx_part(&tensor.name, part),
        Making::Repacked(_) => experts::part_name(&tensor.name, part),
        _ => stored_part(tensor, part),
    };
    let mut index = BTreeMap::new();
    let mut files = Vec::new();
    for (number, group) in groups.into_iter().enumerate() {
        let name = match count {
            1 => "model.safetensors".to_owned(),
            _ => format!("model-{:05}-of-{count:05}.safetensors", number + 1),
        };
        for tensor in &group {
            for part in tensor.making.parts()? {
                index.insert(named(tensor, part.part), name.clone());
            }
        }
        let alignment = safetensors::write::ALIGNMENT;
        files.push(OutFile::safetensors(name, metadata, alignment, group, named)?);
    }
    if count > 1 || mlx {
        let json = index_json(bytes, &index).into_bytes();
        files.push(OutFile::document("model.safetensors.index.json", json));
    }
    Ok(files)
}

/// What mlx-lm calls a part of a tensor.
fn mlx_part(name: &str, part: Part) -> String {
    let base = name.strip_suffix(".weight").unwrap_or(name);
    match part {
        Part::Weight => name.to_owned(),
        Part::Scale => format!("{base}.scales"),
        Part::Bias => format!("{base}.biases"),
        Part::GlobalAmax | Part::GlobalScale => format!("{base}.global_scale"),
        other => format!("{base}.{}", other.name()),
    }
}
