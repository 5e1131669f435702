//! The `quantize` verb: quantizes a model as llama-quantize does.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::check_no_adapter;
use super::gguf::{Finish, GgufDraft};
use super::judge::judged;
use super::rewrite::stem;
use super::zero_biases;
use crate::adapter::Adapter;
use crate::arch::Dialect;
use crate::bytes::Text;
use crate::container::Shards;
use crate::container::gguf::write::SPLIT_KEYS;
use crate::dtype::DType;
use crate::error::{AdvisedOption, Error, Result};
use crate::metadata::Value;
use crate::model::{Model, Tensor};
use crate::quant::Importance;
use crate::recipe::llama_cpp::{
    Hparams, LlamaOptions, LlamaRecipe, Reason, SourceTensor, TensorChoice,
};
use crate::recipe::{FILE_TYPES, FileType, FileTypeDescriptor, ImportanceMatrix};
use crate::shape;
use crate::store::Encoding;
use crate::translate::{self, pruned::PrunedLayers};
use crate::write::{Builder, Method, OutTensor, Output, Precision, Producer, WritePlan};

/// Plans a GGUF model whose tensors have the dtypes that llama-quantize would choose, and the same
/// bytes. The source may be in any container.
///
/// # Errors
///
/// `Unsupported` if the model cannot be translated to GGUF, or its rows do not fit a dtype;
/// `Mismatch` where llama-quantize also refuses: requantization that is not allowed, a dtype of few
/// bits without an importance matrix, or the importance matrix of another model; and if a layer to
/// remove does not exist.
pub fn quantize(
    model: &Model,
    options: &LlamaOptions,
    importance: Option<&ImportanceMatrix>,
    path: &Path,
) -> Result<WritePlan> {
    let here = |error: Error| error.in_file(model.path());
    let model = &Adapter::with_attached(model).map_err(here)?;
    judged(built(model, options, importance, path)?, model, options.allow_unloadable).map_err(here)
}

/// Builds the quantized model, without the adapters that its store attaches.
pub(super) fn built(
    model: &Model,
    options: &LlamaOptions,
    importance: Option<&ImportanceMatrix>,
    path: &Path,
) -> Result<Builder> {
    let store = model.store();
    check(model).map_err(|error| error.in_file(store.path()))?;
    let here = |error: Error| error.in_file(store.path());
    let model = &zero_biases::without(model, Dialect::Gguf)?;
    let precision = Precision { decodes_fp8: true, ..Precision::default() };
    let mut draft = GgufDraft::of(model, precision)?;
    let mut stored = Vec::new();
    for OutTensor { name, output: Output { producer, .. }, .. } in &draft.tensors {
        let dtype = producer.dtype().map_err(here)?;
        stored.push(SourceTensor { name, shape: producer.shape(), dtype });
    }
    let numbers = Hparams::of(&draft.keys, &options.overrides).map_err(here)?;
    check_pruned(options, numbers.layers).map_err(here)?;
    let recipe = LlamaRecipe::new(&numbers, &stored, options).map_err(here)?;
    check_source(&draft, &recipe, options).and_then(|()| recipe.check(options)).map_err(here)?;
    let (mut tensors, mut replaced) = (Vec::new(), Vec::new());
    let unmeasured = importance.and_then(|all| note_of_unmeasured(all, &recipe.choices));
    draft.notes.extend(note_of_unsuited(&recipe.choices));
    for choice in &recipe.choices {
        let Some(OutTensor { output, .. }) = draft.tensors.get(choice.source) else { continue };
        let output = chosen_output(output, choice, importance, &mut replaced)?;
        let shape = without_outer_ones(output.producer.shape());
        tensors.push(OutTensor { shape, ..OutTensor::new(choice.name.clone(), output) });
    }
    let chosen: BTreeSet<usize> = recipe.choices.iter().map(|choice| choice.source).collect();
    let removed = (0..).zip(&draft.tensors).filter(|(number, _)| !chosen.contains(number));
    let removed = removed.filter_map(|(_, tensor)| tensor.output.producer.view().cloned());
    let removed: Vec<Tensor> = removed.collect();
    let pruned = PrunedLayers::of(&options.pruned, numbers.layers, numbers.nextn_layers);
    let pruned = pruned.map_err(here)?;
    let whole = pruned.as_ref().map(|_| draft.planned(model)).transpose().map_err(here)?;
    if let Some(pruned) = &pruned {
        pruned.edit_keys(&mut draft.keys, &numbers.architecture).map_err(here)?;
    }
    for key in recipe.removed {
        draft.keys.remove(key);
    }
    for setting in &recipe.settings {
        draft.keys.remove(&setting.key);
        draft.keys.set(&setting.key, setting.value.value());
    }
    let count = store.files().len();
    let splits = options.keep_split && count > 1;
    let mut shards = None;
    if splits {
        let groups = by_file(tensors, count);
        shards = Some(Shards::Counts(groups.iter().map(Vec::len).collect()));
        tensors = groups.into_iter().flatten().collect();
        // Set the keys again, in llama-quantize's order; the layout fills in their values.
        for key in recipe.removed.iter().filter(|key| SPLIT_KEYS.contains(key)) {
            draft.keys.set(key, Value::U16(0));
        }
    }
    drop(recipe);
    let replaced = importance.and_then(|all| note_of_replaced(all, &replaced));
    draft.notes.extend(replaced.into_iter().chain(unmeasured));
    draft.tensors = tensors;
    if let (Some(pruned), Some(whole)) = (&pruned, whole) {
        let left = draft.planned(model).map_err(here)?;
        translate::check_pruned(&whole, &left, pruned).map_err(here)?;
    }
    let unloadable = options.allow_unloadable;
    let finish = Finish { extra: options.extra_keys, lossless: false, unloadable, pruned };
    let mut builder = draft.finish(model, finish).map_err(here)?;
    removed.iter().for_each(|tensor| builder.omit(tensor, "its layer is removed"));
    if let Some(shards) = shards {
        builder.shards(shards, stem(path)?);
    }
    Ok(builder)
}

/// Checks that a model can be quantized.
fn check(model: &Model) -> Result<()> {
    if model.encoding() == Encoding::Ggml {
        let fault =
            "files of whisper.cpp are read, but not written, and llama.cpp runs no such models";
        let advice = "whisper.cpp's program quantize writes such files";
        return Err(Error::unsupported(fault).advise(advice));
    }
    check_no_adapter(model)
}

/// Checks that no tensor would be quantized again whose dtype GGUF does not have, and which the recipe
/// sees in the dtype that GGUF would hold it in.
fn check_source(draft: &GgufDraft, recipe: &LlamaRecipe<'_>, options: &LlamaOptions) -> Result<()> {
    for choice in recipe.choices.iter().filter(|choice| !choice.is_copy()) {
        let view =
            draft.tensors.get(choice.source).and_then(|tensor| tensor.output.producer.view());
        let Some(Ok(stored)) = view.map(Tensor::dtype) else { continue };
        if choice.from.is_quantized() && stored != choice.from && !options.allow_requantize {
            return Err(LlamaRecipe::already_quantized(stored, choice.to).in_tensor(&choice.name));
        }
    }
    Ok(())
}

/// Checks that the layers to remove exist.
fn check_pruned(options: &LlamaOptions, layers: u64) -> Result<()> {
    let Some(layer) = options.pruned.iter().find(|layer| **layer >= layers) else { return Ok(()) };
    let last = layers.saturating_sub(1);
    Err(Error::mismatch(format!(
        "layer {layer} cannot be removed: the last one is layer {last}, counted from 0"
    )))
}

/// The size of a model in one file type.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FileTypeSize {
    /// The file type.
    pub file_type: FileType,
    /// The bytes of all tensors.
    pub bytes: u64,
    /// The bits per weight of all tensors together.
    pub bits_per_weight: f64,
    /// Whether any tensor gets a dtype that requires an importance matrix.
    pub needs_importance: bool,
}

/// The size that a model would have in each file type, without an importance matrix and with the
/// default options. A file type that the model's shapes do not fit has no entry.
///
/// # Errors
///
/// `Unsupported` if the model cannot be translated to GGUF.
pub fn file_type_sizes(model: &Model) -> Result<Vec<FileTypeSize>> {
    let draft = GgufDraft::of(model, Precision::default())?;
    let here = |error: Error| error.in_file(model.path());
    let mut stored = Vec::new();
    for OutTensor { name, output: Output { producer, .. }, .. } in &draft.tensors {
        let dtype = producer.dtype().map_err(here)?;
        stored.push(SourceTensor { name, shape: producer.shape(), dtype });
    }
    let numbers = Hparams::of(&draft.keys, &[]).map_err(here)?;
    let size = |row: &FileTypeDescriptor| {
        let recipe = LlamaRecipe::new(&numbers, &stored, &LlamaOptions::new(row.file_type)).ok()?;
        let (mut bytes, mut elements, mut needs_importance) = (0u64, 0u64, false);
        for choice in &recipe.choices {
            let shape = stored.get(choice.source)?.shape;
            bytes = bytes.saturating_add(choice.to.tensor_bytes(shape)?);
            elements = elements.saturating_add(shape::elements(shape)?);
            let quantizer = choice.to.descriptor().quantizer.filter(|_| !choice.is_copy());
            needs_importance |= choice.needs_importance
                || quantizer.is_some_and(|found| found.importance() == Importance::Required);
        }
        let bits_per_weight = bytes as f64 * 8.0 / elements as f64;
        Some(FileTypeSize { file_type: row.file_type, bytes, bits_per_weight, needs_importance })
    };
    Ok(FILE_TYPES.iter().filter_map(size).collect())
}

/// The dimensions that llama-quantize writes: ggml counts dimensions up to the last one above 1.
fn without_outer_ones(shape: &[u64]) -> Option<Vec<u64>> {
    let ones = shape.iter().take_while(|size| **size == 1).count();
    let kept = shape.get(ones.min(shape.len().saturating_sub(1))..)?;
    (kept.len() < shape.len()).then(|| kept.to_vec())
}

/// Groups tensors by the file that they are read from. The first group may be empty.
fn by_file(tensors: Vec<OutTensor>, count: usize) -> Vec<Vec<OutTensor>> {
    let mut files: BTreeMap<u32, Vec<OutTensor>> =
        (0..).take(count).map(|file| (file, Vec::new())).collect();
    for tensor in tensors {
        let file = tensor.output.producer.view().map_or(0, |view| view.file_position(0).0);
        files.entry(file).or_default().push(tensor);
    }
    files.into_values().collect()
}

/// The output of a tensor in the dtype that was chosen for it.
fn chosen_output(
    output: &Output,
    choice: &TensorChoice<'_>,
    importance: Option<&ImportanceMatrix>,
    replaced: &mut Vec<(String, u64, usize)>,
) -> Result<Output> {
    let chosen = match output.producer.view().filter(|_| !choice.is_copy()) {
        Some(view) => encoded(view, choice, importance, replaced)?,
        None => output.clone(),
    };
    let reason = output.reason.clone().or_else(|| reason(choice));
    Ok(Output { unsuited: choice.fallback_from, reason, ..chosen })
}

/// Encodes a tensor in another dtype.
fn encoded(
    view: &Tensor,
    choice: &TensorChoice<'_>,
    importance: Option<&ImportanceMatrix>,
    replaced: &mut Vec<(String, u64, usize)>,
) -> Result<Output> {
    let dtype = choice.to;
    let columns = shape::columns(view.shape());
    let matrices = view.elements().checked_div(columns.saturating_mul(view.matrix_rows()));
    let found = match importance {
        Some(all) => all.weights(choice.stored_name, columns, matrices.unwrap_or(1).max(1))?,
        None => None,
    };
    let quantizer = dtype.descriptor().quantizer;
    let quantizer = quantizer.ok_or_else(|| {
        Error::unsupported(format!("no quantizer for {dtype}")).in_tensor(choice.stored_name)
    })?;
    let required = choice.needs_importance || quantizer.importance() == Importance::Required;
    if found.is_none() && required {
        let fault = format!("{dtype} requires an importance matrix");
        let error = Error::mismatch(fault).in_tensor(choice.stored_name);
        return Err(match importance {
            None => error.advise_option("give one with {}", AdvisedOption::Importance),
            Some(matrix) if matrix.is_left_out(choice.stored_name) => {
                error.advise_option("{} leaves out the data of this tensor", AdvisedOption::Weights)
            }
            Some(matrix) => {
                let path = Text::from_path(matrix.path()).brief();
                error.advise(format!("{path} has no data for this tensor"))
            }
        });
    }
    let method = match choice.from.is_quantized() {
        true => Method::Requantized,
        false if dtype == DType::F32 => Method::Exact,
        false if !dtype.is_quantized() => Method::Rounded,
        false => Method::Quantized,
    };
    if let Some(weights) = found.as_ref().filter(|weights| weights.replaced > 0)
        && quantizer.importance() != Importance::Ignored
    {
        let count = (weights.replaced, weights.values.len());
        replaced.push((choice.stored_name.to_owned(), count.0, count.1));
    }
    let importance = found.map(|weights| Arc::from(weights.values));
    let producer = Producer::Encoded { view: view.clone(), dtype, importance };
    Ok(Output::new(producer, method))
}

/// The note on columns that an importance matrix says nothing usable about: for each tensor its name, the
/// number of such columns, and that of all.
fn note_of_replaced(
    matrix: &ImportanceMatrix,
    replaced: &[(String, u64, usize)],
) -> Option<String> {
    const SHOWN: usize = 5;
    replaced.first()?;
    let one = |(name, count, all): &(String, u64, usize)| format!("{count} of {all} in {name}");
    let mut shown = replaced.iter().take(SHOWN).map(one).collect::<Vec<_>>().join(", ");
    if let Some(more @ 1..) = replaced.len().checked_sub(SHOWN) {
        shown.push_str(&format!(", and some in {more} more tensors"));
    }
    let path = Text::from_path(matrix.path()).brief();
    Some(format!(
        "{path}: no importance, or none that can be used, for columns of weights: {shown}; they weigh \
         as much as the average column of their matrix, or 1"
    ))
}

/// The note on weights that an importance matrix does not have. It usually has neither the embedding
/// nor the output matrix.
fn note_of_unmeasured(matrix: &ImportanceMatrix, choices: &[TensorChoice<'_>]) -> Option<String> {
    let uses = |choice: &&TensorChoice<'_>| {
        let quantizer = choice.to.descriptor().quantizer.filter(|_| !choice.is_copy());
        quantizer.is_some_and(|found| found.importance() != Importance::Ignored)
            && !choice.stored_name.contains("token_embd")
            && choice.stored_name != "output.weight"
            && !matrix.has(choice.stored_name)
    };
    let mut names = choices.iter().filter(uses).map(|choice| choice.stored_name);
    // That none is left is told already.
    let first = names.next().filter(|_| !matrix.is_empty())?;
    let more = names.count();
    let path = Text::from_path(matrix.path()).brief();
    let more = if more > 0 { format!(" and {more} more weights") } else { String::new() };
    Some(format!("{path}: no data is used for {first}{more}: quantized without importance"))
}

/// The note on tensors that have another dtype because their rows do not divide into blocks of the chosen one.
fn note_of_unsuited(choices: &[TensorChoice<'_>]) -> Option<String> {
    let mut counts = BTreeMap::<_, usize>::new();
    for choice in choices {
        if let Some(wanted) = choice.fallback_from {
            *counts.entry((wanted.name(), choice.to.name())).or_default() += 1;
        }
    }
    let (unsuited, all) = (counts.values().sum::<usize>(), choices.len());
    let each = counts.iter().map(|((wanted, to), count)| {
        let are = if *count == 1 { "is" } else { "are" };
        format!("{count} {are} {to}, not {wanted}")
    });
    let each: Vec<String> = each.collect();
    let start = format!(
        "the rows of {unsuited} of {all} tensors do not divide into blocks of the dtype chosen for them"
    );
    (unsuited > 0).then(|| format!("{start}: {}", each.join("; ")))
}

/// The reason for a tensor's dtype, unless it is obvious.
fn reason(choice: &TensorChoice<'_>) -> Option<String> {
    if let Some(wanted) = choice.fallback_from {
        return Some(format!("its rows do not divide into blocks of {wanted}"));
    }
    match choice.reason {
        Reason::Kept | Reason::Base => None,
        Reason::Option => Some("chosen by an option".to_owned()),
        Reason::Rule => Some("chosen by the file type's rules".to_owned()),
    }
}
