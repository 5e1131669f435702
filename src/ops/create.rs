//! A model in Ollama's store.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::convert::{quantized, with_dtypes};
use super::dialect::{Spoken, speak};
use super::packing::{Holds, Made, Wanted, made};
use super::rewrite::{fates, merged, stored};
use crate::arch::Dialect;
use crate::bytes::{Access, Source};
use crate::container::ollama::{Config, NewManifest};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::model::{Model, Tensor};
use crate::recipe::FILE_TYPES;
use crate::recipe::ollama::{OllamaModel, QuantType, TYPES, TypeDescriptor};
use crate::store::{Encoding, Store};
use crate::translate::{self, ConfigDocument};
use crate::write::{Fate, How, Kind, OutFile, OutTensor, WritePlan};

/// A model for Ollama's store, which is written to the [place](crate::container::ollama::place) of
/// its name: a blob for each tensor, as `ollama create --experimental` makes them, each quantized to
/// the type that Ollama would choose for it. A GGUF model that is not to be quantized is one blob,
/// its file as it is.
///
/// # Errors
///
/// `Unsupported` where the architecture or the tokenizer is not known, or experts are missing.
pub fn create(model: &Model, quantization: Option<QuantType>) -> Result<WritePlan> {
    let plan = planned(model, quantization, Wanted::default())?;
    Ok(plan.of_whole_model(model.resolution()?))
}

pub(super) fn planned(
    model: &Model,
    quantization: Option<QuantType>,
    wanted: Wanted,
) -> Result<WritePlan> {
    let whole = quantization.is_none() && wanted.dtype.is_none();
    let plan = match model.store().encoding() {
        Encoding::Gguf if whole => gguf(model),
        _ => tensors(model, quantization, wanted),
    };
    plan.map_err(|error| error.in_file(model.store().path()))
}

/// Blobs in order, with what each is in Ollama's words.
#[derive(Debug, Default)]
struct Layers {
    kinds: Vec<String>,
    files: Vec<OutFile>,
}

impl Layers {
    fn push(&mut self, kind: &str, file: OutFile) {
        self.kinds.push(kind.to_owned());
        self.files.push(file);
    }

    /// What a model of Ollama's has beside its weights and their documents: template, system
    /// prompt, parameters, licenses.
    fn push_attached(&mut self, store: &Store, kept: impl Fn(&str) -> bool) -> Result<()> {
        let attached = store.attachments().iter();
        for attachment in attached.filter(|attachment| kept(&attachment.kind)) {
            let source = Source::open(&attachment.path, Access::Read)?;
            self.push(&attachment.kind, OutFile::copy(attachment.name.clone(), source));
        }
        Ok(())
    }

    fn plan(self, fates: Vec<Fate>, notes: Vec<String>, store: &Store) -> WritePlan {
        WritePlan::new(
            Kind::Blobs(NewManifest::Create(self.kinds)),
            self.files,
            fates,
            notes,
            store,
        )
    }
}

/// A GGUF file as it is; of several shards, one.
fn gguf(model: &Model) -> Result<WritePlan> {
    let store = model.store();
    let mut layers = Layers::default();
    let files: Vec<_> = store.files().collect();
    let file = match files.as_slice() {
        [one] if one.is_file() => OutFile::copy("", Source::open(one, Access::Read)?),
        _ => {
            let mut merged = merged(model, None)?;
            merged.name.clear();
            merged
        }
    };
    layers.push("model", file);
    layers.push_attached(store, |_| true)?;
    if !layers.kinds.iter().any(|kind| kind == "config") {
        let keys = store.metadata();
        let number = keys.get("general.file_type").and_then(|value| value.to_u64());
        let named = FILE_TYPES.iter().find(|row| row.number.map(u64::from) == number);
        let file_type = named.filter(|_| number.is_some()).map_or("unknown", |row| row.name);
        let family = keys.str("general.architecture").unwrap_or_default();
        let weights = store.tensors().map(|tensor| tensor.elements()).fold(0, u64::saturating_add);
        let mut config = Config::of_gguf(family, weights, file_type).to_json();
        config.push('\n');
        layers.push("config", OutFile::document("", config.into_bytes()));
    }
    Ok(layers.plan(fates(&stored(model))?, Vec::new(), store))
}

/// A tensor of a plan.
#[derive(Debug)]
struct Drafted {
    tensor: OutTensor,
    how: How,
    why: Option<String>,
    /// The experts that it is of.
    group: Option<String>,
}

impl Drafted {
    /// What its blob says of it.
    fn said(&self) -> Result<Option<(&'static TypeDescriptor, u32)>> {
        let making = &self.tensor.making;
        let dtype = making.dtype().map_err(|error| error.in_tensor(&self.tensor.name))?;
        let row = TYPES.iter().find(|row| row.dtype == dtype);
        Ok(row.map(|row| (row, making.group_size().unwrap_or(row.group_size))))
    }
}

/// A blob for each tensor.
fn tensors(model: &Model, quantization: Option<QuantType>, wanted: Wanted) -> Result<WritePlan> {
    let store = model.store();
    let Spoken { tensors: views, left_out, .. } = speak(model, Dialect::HuggingFace)?;
    let mut notes = super::left_out(&left_out);
    let (config, mut documents) = match store.document("config.json") {
        Some(_) if store.encoding() == Encoding::Safetensors => {
            let (config, others): (Vec<_>, Vec<_>) =
                store.read_companions()?.into_iter().partition(|(name, _)| name == "config.json");
            (config.into_iter().next().map(|(_, bytes)| ConfigDocument::Stored(bytes)), others)
        }
        _ => {
            let named = |(name, bytes): (&str, _)| (name.to_owned(), bytes);
            let translate::Documents { config, others } = translate::hf_documents(model)?;
            (Some(config), others.into_iter().map(named).collect())
        }
    };
    let Some(mut config) = config else {
        return Err(Error::unsupported("there is no config.json, which Ollama needs"));
    };
    // Ollama takes the documents that are JSON, in the order of their names.
    documents.sort();
    let reads = |name: &str| name.ends_with(".json");
    let others = documents.iter().filter(|(name, _)| !reads(name));
    let others = others.map(|(name, _)| (name.clone(), "Ollama takes only JSON".to_owned()));
    notes.extend(super::left_out(&others.collect::<Vec<_>>()));
    documents.retain(|(name, _)| reads(name));
    let said = Json::Object(config.keys()?.into_owned());
    let numbers = OllamaModel::of(&said);
    let mut drafted = Vec::new();
    for (group, view) in stacked(views)? {
        let choice = quantization.and_then(|q| numbers.choose(view.name(), view.shape(), q));
        let (making, how, why) = decided(&view, choice, wanted)?;
        let tensor = OutTensor { name: view.name().to_owned(), making };
        drafted.push(Drafted { tensor, how, why, group });
    }
    drafted.sort_by(|a, b| (&a.group, &a.tensor.name).cmp(&(&b.group, &b.tensor.name)));
    let file_type = match quantization {
        Some(quantization) => quantization.descriptor().name,
        None => common_type(&drafted)?,
    };
    let fates = drafted.iter().map(|d| d.tensor.fate(d.how, d.why.clone()));
    let fates = fates.collect::<Result<Vec<_>>>()?;
    let mut layers = Layers::default();
    blobs(drafted, &mut layers)?;
    // Ollama leaves it as it is. What it says of packings that are no more would be wrong.
    let true_still = |fate: &Fate| matches!(fate.how, How::Copied | How::Quantized);
    if !fates.iter().all(true_still) {
        config = with_dtypes(&config, None, &fates)?;
    }
    documents.push(("config.json".to_owned(), config.into_bytes()?));
    documents.sort();
    for (name, bytes) in documents {
        layers.push("json", OutFile::document(name, bytes));
    }
    layers.push_attached(store, |kind| !matches!(kind, "json" | "config"))?;
    let config = Config::of_tensors(&said, file_type).to_json();
    layers.push("config", OutFile::document("", config.into_bytes()));
    Ok(layers.plan(fates, notes, store))
}

/// The way of a tensor into a blob.
fn decided(view: &Tensor, choice: Option<QuantType>, wanted: Wanted) -> Result<Made> {
    let Some(row) = choice.map(QuantType::descriptor) else {
        return made(view, Holds::Blobs, wanted);
    };
    let has = view.dtype().is_ok_and(|dtype| dtype == row.dtype)
        && view.group_size() == Some(row.group_size)
        && view.packed().is_ok();
    match has {
        true => made(view, Holds::Blobs, wanted),
        false => quantized(view, row.dtype, row.group_size),
    }
}

/// The type of everything that is quantized; empty where that is nothing, or where there are
/// several.
fn common_type(drafted: &[Drafted]) -> Result<&'static str> {
    let mut found = None;
    for tensor in drafted {
        let Some((row, _)) = tensor.said()? else { continue };
        match found {
            Some(other) if other != row.name => return Ok(""),
            _ => found = Some(row.name),
        }
    }
    Ok(found.unwrap_or_default())
}

/// Tensors in blobs: each in its own, but for experts, of which a layer's lie in one if all are of
/// one type.
fn blobs(drafted: Vec<Drafted>, layers: &mut Layers) -> Result<()> {
    let mut drafted = drafted.into_iter().peekable();
    while let Some(first) = drafted.next() {
        let mut together = vec![first];
        if let Some(group) = together.first().and_then(|first| first.group.clone()) {
            while let Some(next) = drafted.next_if(|next| next.group.as_ref() == Some(&group)) {
                together.push(next);
            }
            let said = |drafted: &Drafted| {
                Ok::<_, Error>(drafted.said()?.map(|(row, size)| (row.name, size)))
            };
            let types = together.iter().map(said).collect::<Result<Vec<_>>>()?;
            if types.windows(2).all(|pair| pair.first() == pair.last()) {
                layers.push("tensor", blob(group, together)?);
                continue;
            }
        }
        for tensor in together {
            layers.push("tensor", blob(tensor.tensor.name.clone(), vec![tensor])?);
        }
    }
    Ok(())
}

/// A blob of tensors of one type.
fn blob(name: String, tensors: Vec<Drafted>) -> Result<OutFile> {
    let mut metadata = BTreeMap::new();
    if let Some(tensor) = tensors.first()
        && let Some((row, size)) = tensor.said()?
    {
        metadata.insert("quant_type".to_owned(), row.name.to_owned());
        metadata.insert("group_size".to_owned(), size.to_string());
    }
    OutFile::blob(name, &metadata, tensors.into_iter().map(|drafted| drafted.tensor).collect())
}

/// What stands before `layers.{n}` where Ollama knows experts by their names (x/create/plan.go).
const BEFORE_LAYERS: &[&str] = &[
    "",
    "model.",
    "backbone.",
    "mtp.",
    "language_model.",
    "language_model.model.",
    "language_model.backbone.",
    "model.language_model.",
    "model.language_model.backbone.",
];

/// What stands between a layer and the number of an expert.
const EXPERTS: &[&str] = &[
    ".mlp.experts.",
    ".mlp.shared_experts.",
    ".mlp.switch_mlp.",
    ".moe.experts.",
    ".mixer.experts.",
    ".mixer.shared_experts.",
];

/// Of `model.layers.0.mlp.experts.7.up_proj.weight`: `model.layers.0.mlp.experts`, 7 and
/// `up_proj.weight`.
fn expert(name: &str) -> Option<(&str, u64, &str)> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let found = |between: &&str| {
        let (layer, rest) = name.split_once(between)?;
        let (start, layer) = layer.split_once("layers.")?;
        let (number, projection) = rest.split_once('.')?;
        let known = BEFORE_LAYERS.contains(&start)
            && is_number(layer)
            && is_number(number)
            && projection.strip_suffix(".weight").is_some_and(|name| !name.is_empty());
        let group = name.get(..name.len() - rest.len() - 1)?;
        known.then(|| Some((group, number.parse().ok()?, projection))).flatten()
    };
    EXPERTS.iter().find_map(found)
}

/// Puts experts together, along a new first axis, under the names of their projections; gives the
/// group that such a tensor belongs to. Those whose packings differ, or that have a number for each
/// tensor, stay apart.
fn stacked(views: Vec<Tensor>) -> Result<Vec<(Option<String>, Tensor)>> {
    let mut all = Vec::new();
    let mut experts: BTreeMap<(String, String), BTreeMap<u64, Tensor>> = BTreeMap::new();
    for view in views {
        match expert(view.name()) {
            Some((group, number, projection)) => {
                let key = (group.to_owned(), projection.to_owned());
                let name = view.name().to_owned();
                if experts.entry(key).or_default().insert(number, view).is_some() {
                    let fault = format!("expert {number} is there twice");
                    return Err(Error::unsupported(fault).in_tensor(&name));
                }
            }
            None => all.push((None, view)),
        }
    }
    for ((group, projection), experts) in experts {
        let name = format!("{group}.{projection}");
        if let Some((missing, _)) = (0u64..).zip(experts.keys()).find(|(n, key)| n != *key) {
            let fault = format!("expert {missing} of {} is missing", experts.len());
            return Err(Error::unsupported(fault).in_tensor(&name));
        }
        let form = |view: &Tensor| {
            let dtype: Option<DType> = view.dtype().ok();
            Ok::<_, Error>((dtype, view.group_size(), view.globals()?.is_empty()))
        };
        let forms = experts.values().map(form).collect::<Result<Vec<_>>>()?;
        let alike = forms.windows(2).all(|pair| pair.first() == pair.last());
        let views: Vec<Tensor> = experts.into_values().collect();
        match alike && forms.iter().all(|(.., plain)| *plain) {
            true => all.push((Some(group), Tensor::stack(views)?.named(&name))),
            false => all.extend(views.into_iter().map(|view| (None, view))),
        }
    }
    Ok(all)
}
