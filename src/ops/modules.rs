//! The files next to the weights of a directory in another container: the modules of
//! sentence-transformers, and notes on what is left out.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::dialect::{joins_experts, split_experts};
use super::rankers;
use super::verify::{layers, tokens_beyond, towers, untied};
use crate::arch::config::pooling;
use crate::bytes::{Access, Text};
use crate::container::OpenOptions;
use crate::container::safetensors::write::{ALIGNMENT, Order, layout};
use crate::container::writer::{DocumentContent, DocumentKinds, NewArray, NewDocument, Writer};
use crate::dialect::Dialect;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::json::{Json, json};
use crate::metadata::{KeyValues, Value};
use crate::model::{Model, Tensor};
use crate::place::choice::is_companion;
use crate::store::Encoding;
use crate::store::folder::{Companion, Module, companion};
use crate::translate::modules::{dense_layers, dense_names, pooling as pooling_of};
use crate::write::Builder;

/// The modules of a directory that GGUF holds.
#[derive(Debug, Default)]
pub(super) struct GgufModules {
    /// The dense layers under GGUF's names.
    pub(super) tensors: Vec<Tensor>,
    /// The modules that GGUF has no place for, so that embeddings differ.
    pub(super) losses: Vec<String>,
    /// What llama.cpp's programs do with the vectors.
    pub(super) note: Option<&'static str>,
}

/// Translates a directory's modules to GGUF. Sets the keys of the dense layers. `ranks` says whether the file has the rows
/// of the words by whose logits the model ranks.
///
/// # Errors
///
/// `Malformed`, `LimitExceeded` and `Io` if a file cannot be read.
pub(super) fn in_gguf(model: &Model, keys: &mut KeyValues, ranks: bool) -> Result<GgufModules> {
    let mut found = GgufModules::default();
    let modules = model.store().modules()?;
    let family = keys.get("general.architecture").and_then(|value| value.to_text());
    let family = family.map_or_else(String::new, |name| name.spelling().into_owned());
    for module in &modules {
        let lost = match module.kind.as_str() {
            "Transformer" | "Normalize" | "Dropout" | "Dense" => continue,
            kind if kind == rankers::MODULE && ranks => continue,
            // A key states it, or its place in GGUF is an error.
            "Pooling" if keys.get(&format!("{family}.pooling_type")).is_some() => continue,
            "Pooling" => match pooling::stated(model.store()) {
                Ok(_) => format!(
                    "the pooling in {}/config.json, which is not in the keys of {family}",
                    module.folder
                ),
                Err(error) => error.to_string(),
            },
            kind => format!("the module {} ({kind})", module.folder),
        };
        found.losses.push(format!("it has no place for {lost}"));
    }
    let has = |kind: &str| modules.iter().any(|module| module.kind == kind);
    if has("Pooling") && !has("Normalize") && !ranks {
        let note =
            "modules.json has no Normalize, but llama.cpp's programs normalize vectors by default";
        found.note = Some(note);
    }
    if !modules.is_empty() {
        let settings = model.read_document("config_sentence_transformers.json")?;
        for key in ["truncate_dim", "default_prompt_name"] {
            let value = settings.as_deref().and_then(|json| json.get(key));
            if let Some(value) = value.filter(|value| !value.is_null()) {
                let lost = format!("{key} in config_sentence_transformers.json ({value})");
                found.losses.push(format!("it has no place for {lost}"));
            }
        }
    }
    let dense: Vec<&Module> = modules.iter().filter(|module| module.kind == "Dense").collect();
    let names = model.resolution()?.architecture.map(|row| dense_names(row).collect::<Vec<_>>());
    let names = names.unwrap_or_default();
    match dense_tensors(model, &dense, &names) {
        Ok(tensors) => {
            for tensor in &tensors {
                let layer = tensor.name().trim_end_matches(".weight");
                for (end, size) in ["out", "in"].into_iter().zip(tensor.shape()) {
                    let size = u32::try_from(*size).unwrap_or(u32::MAX);
                    keys.set(&format!("{family}.{layer}_feat_{end}"), Value::U32(size));
                }
            }
            found.tensors = tensors;
        }
        Err(error) => {
            let folders: Vec<&str> = dense.iter().map(|module| module.folder.as_str()).collect();
            let lost = format!("it has no place for the dense layers {}", folders.join(", "));
            found.losses.push(format!("{lost}: {error}"));
        }
    }
    Ok(found)
}

/// The matrices of dense layers under GGUF's names, which have neither a bias nor an activation.
fn dense_tensors(model: &Model, modules: &[&Module], names: &[&str]) -> Result<Vec<Tensor>> {
    if modules.len() > names.len() {
        let fault = match names.len() {
            0 => "no GGUF tensor is known for them".to_owned(),
            most => format!("{} dense layers, but GGUF has tensors for {most}", modules.len()),
        };
        return Err(Error::unsupported(fault));
    }
    let tensor = |(module, name): (&&Module, &&str)| {
        let dense = open(model, module)?;
        let activation = dense.document("config.json").and_then(activation);
        let has_bias = dense.names()?.any(|name| name == "linear.bias");
        let fault = match activation.as_deref() {
            _ if has_bias => "a bias".to_owned(),
            Some("Identity") => return Ok(dense.tensor("linear.weight")?.named(name)),
            other => format!("the activation {}", other.unwrap_or("Tanh")),
        };
        Err(Error::unsupported(format!("{} has {fault}", module.folder)))
    };
    modules.iter().zip(names).map(tensor).collect()
}

/// The activation of a dense layer: the last part of a name in Python.
fn activation(config: &Json) -> Option<String> {
    let name = config.get("activation_function")?.as_str()?;
    Some(name.rsplit('.').next().unwrap_or(name).to_owned())
}

/// Opens the folder of a module as a model.
pub(super) fn open(model: &Model, module: &Module) -> Result<Model> {
    let store = model.store();
    let folder = store.module_folder(module).ok_or_else(|| {
        let fault = format!("its folder \"{}\" is not directly next to the weights", module.folder);
        Error::unsupported(fault)
    })?;
    let options = OpenOptions { files: store.place().clone(), ..OpenOptions::new() };
    options.limits(store.limits().clone()).open(folder)
}

/// The reason why files in folders are left out of a store.
pub(super) fn no_folders(writer: &Writer) -> String {
    format!("{}'s store has no folders", writer.name)
}

/// A note on a vision or audio model that programs of MLX wrote.
const OF_MLX_VLM: &str = "the vision or audio model keeps the names and the layout of mlx-vlm, which transformers does \
     not read: take it from the original directory";

/// The files of a directory next to the weights that are not documents, and those of GGUF's dense
/// layers. Adds notes on what is left out.
///
/// # Errors
///
/// `Unsupported` if a tensor cannot be decoded; `Io` if a file cannot be read.
pub(super) fn files(
    model: &Model,
    writer: &Writer,
    decodes: bool,
    builder: &mut Builder,
) -> Result<Vec<NewDocument>> {
    let only_json = writer.documents == DocumentKinds::Json;
    let keeps: fn(&str) -> bool = match only_json {
        true => is_companion,
        false => |name: &str| companion(name) == Some(Companion::Copied),
    };
    notes(model, keeps)?.into_iter().for_each(|note| builder.note(note));
    if let Some(renamed) = model.resolution()?.renamed_in_class() {
        builder.note(format!("{renamed}: they are renamed"));
    }
    if writer.dialect == Dialect::HuggingFace {
        model.resolution()?.ignored_by_class().into_iter().for_each(|note| builder.note(note));
    }
    if writer.dialect == Dialect::HuggingFace
        && let Some((first, count)) = split_experts(model.store(), model.resolution()?)?
    {
        let what = match joins_experts(model, Dialect::HuggingFace, decodes)? {
            true => "they are joined",
            false => "they are packed and stay as they are, for other readers",
        };
        builder.note(format!(
            "transformers' class has the experts of a layer in one tensor, in place of {first} and {} more: {what}",
            count.saturating_sub(1)
        ));
    }
    let mut found = match model.encoding() {
        Encoding::Gguf if pooling_of(model.store()).is_some() => dense_documents(model)?,
        _ => copies(model)?,
    };
    let resolution = model.resolution()?;
    let of_mlx = resolution.dialect == Dialect::Mlx && writer.dialect == Dialect::HuggingFace;
    if of_mlx && resolution.has_towers() {
        builder.note(OF_MLX_VLM);
    }
    lost_pooling(model).into_iter().for_each(|note| builder.note(note));
    lost_vocabulary(model).into_iter().for_each(|note| builder.note(note));
    if only_json {
        let left = found.into_iter().filter(|document| document.name.contains('/'));
        let mut left: Vec<_> = left.map(|document| (document.name, no_folders(writer))).collect();
        left.sort();
        builder.leave_out(left);
        found = Vec::new();
    }
    Ok(found)
}

/// A note on the vocabulary of a file of whisper.cpp, which has no merges.
fn lost_vocabulary(model: &Model) -> Option<String> {
    let mut keys = model.metadata().iter().filter(|_| model.encoding() == Encoding::Ggml);
    let (key, value) = keys.find(|(key, _)| key.as_bytes().ends_with(b".vocab"))?;
    let count = value.to_array()?.len();
    Some(format!(
        "left out: the vocabulary ({}, {count} pieces), which has no merges: take the tokenizer's files from the \
         original directory",
        key.spelling()
    ))
}

/// A note on the pooling of a GGUF file that a directory has no words for.
fn lost_pooling(model: &Model) -> Option<String> {
    let family = model.metadata().str("general.architecture")?;
    let stated = model.metadata().u64(&format!("{family}.pooling_type")).filter(|n| *n > 0)?;
    // A classifier is written with its class, or named among the tensors that are left out.
    let known = pooling_of(model.store()).is_some() || model.has("classifier.output.weight");
    (!known).then(|| format!("left out: pooling_type {stated}, which a directory cannot state"))
}

/// The files of the dense layers of a model in GGUF, for a directory of sentence-transformers.
///
/// # Errors
///
/// `Unsupported` if a tensor cannot be decoded; `Io` if it cannot be read.
fn dense_documents(model: &Model) -> Result<Vec<NewDocument>> {
    let mut documents = Vec::new();
    for (name, folder) in dense_layers(model.resolution()?) {
        let tensor = model.tensor(name)?;
        let [outputs, inputs] = tensor.shape() else {
            let fault = format!("the shape {:?}, but a matrix is needed", tensor.shape());
            return Err(Error::mismatch(fault).in_tensor(name));
        };
        let config = json!({
            "in_features": inputs, "out_features": outputs, "bias": false,
            "activation_function": "torch.nn.modules.linear.Identity",
        });
        let config = format!("{config:#}");
        documents.push(NewDocument::new(format!("{folder}/config.json"), config.into_bytes()));
        let weights = one_tensor("linear.weight", &tensor)?;
        documents.push(NewDocument::new(format!("{folder}/model.safetensors"), weights));
    }
    Ok(documents)
}

/// A safetensors file with one tensor, in F32.
fn one_tensor(name: &str, tensor: &Tensor) -> Result<Vec<u8>> {
    let values = tensor.dequantize()?;
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let array = NewArray {
        name: name.to_owned(),
        dtype: DType::F32,
        shape: tensor.shape().to_vec(),
        bytes: data.len() as u64,
    };
    let metadata = BTreeMap::from([("format".to_owned(), "pt".to_owned())]);
    let mut bytes = layout(&metadata, &[array], ALIGNMENT, Order::Crate)?.header;
    bytes.extend(data);
    Ok(bytes)
}

/// Copies of the files next to the weights that belong to the model in a directory, without those
/// that are [documents](crate::translate::Documents).
///
/// # Errors
///
/// `Io` if a file cannot be opened.
pub(super) fn copies(model: &Model) -> Result<Vec<NewDocument>> {
    let store = model.store();
    let copy = |(name, path): (String, PathBuf)| {
        let content = DocumentContent::Copy(Arc::new(store.place().open(&path, Access::Read)?));
        Ok(NewDocument { content, ..NewDocument::new(name, Vec::new()) })
    };
    store.folder_files()?.copied.into_iter().map(copy).collect()
}

/// Notes on what a conversion reads otherwise than it is stored, or leaves out: the names of
/// wrappers, and files next to the weights; and on faults of the config that it keeps. `keeps` says whether a file that the target has no
/// [documents](crate::translate::Documents) for is written too.
///
/// # Errors
///
/// `Io` if the folder cannot be listed.
pub(super) fn notes(model: &Model, keeps: fn(&str) -> bool) -> Result<Vec<String>> {
    const SHOWN: usize = 8;
    let mut notes = Vec::new();
    if let Some(wrapped) = model.resolution()?.wrapper_in(model.len()) {
        notes.push(format!("{wrapped}, the name of a wrapper: it is dropped"));
    }
    notes.extend(model.resolution()?.stored_as_output());
    if let Ok(config) = model.config() {
        notes.extend(untied(model.store(), config));
        notes.extend(layers::faults(model.store(), model.resolution()?, config));
        notes.extend(tokens_beyond(model.store(), config));
    }
    notes.extend(towers::absent(model));
    notes.extend(towers::projector_flags(model));
    notes.extend(model.store().broken_links()?);
    let files = model.store().folder_files()?;
    let mut names = files.unknown;
    names.extend(files.untranslated);
    names.retain(|name| !keeps(name));
    names.sort();
    let more = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let shown = names.iter().map(|name| Text::new(name.as_bytes()).brief());
    let shown = shown.collect::<Vec<_>>().join(", ");
    if !names.is_empty() {
        notes.push(format!("not converted: {shown}{more}"));
    }
    Ok(notes)
}
