//! Quantizing a model, as llama-quantize does it or as mlx-lm does.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::gguf::{Draft, Drafted};
use super::packing::Wanted;
use super::rewrite::gguf_shards;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::imatrix::ImportanceMatrix;
use crate::model::{Model, Tensor};
use crate::quant::Importance;
use crate::recipe::llama::{Choice, Hparams, Options, Reason, Recipe, Stored};
use crate::shape;
use crate::write::{How, Kind, Making, OutFile, OutTensor, WritePlan};

/// A GGUF model with each tensor in the dtype that llama-quantize would give it, to the byte, from a
/// model of any container.
///
/// # Errors
///
/// `Unsupported` where the model cannot be one of GGUF, or rows do not fit a dtype; `Mismatch` where
/// llama-quantize would refuse too: requantizing without being allowed to, few bits without an
/// importance matrix, or with that of another model.
pub fn quantize(
    model: &Model,
    options: &Options,
    importance: Option<&ImportanceMatrix>,
    path: &Path,
) -> Result<WritePlan> {
    let store = model.store();
    let Draft { mut keys, tensors, notes } = Draft::of(model, Wanted::default())?;
    let mut stored = Vec::new();
    for Drafted { tensor, .. } in &tensors {
        let dtype = tensor.making.dtype().map_err(|error| error.in_file(store.path()))?;
        stored.push(Stored { name: &tensor.name, shape: tensor.making.shape(), dtype });
    }
    let here = |error: Error| error.in_file(store.path());
    let numbers = Hparams::of(&keys, &options.overrides).map_err(here)?;
    let recipe = Recipe::new(&numbers, &stored, options).map_err(here)?;
    recipe.check(options).map_err(here)?;
    let mut out = Vec::new();
    for choice in &recipe.choices {
        let Some(Drafted { tensor, how, why }) = tensors.get(choice.source) else { continue };
        let (making, how) = match (&tensor.making, choice.is_copy()) {
            (making, true) => (making.clone(), *how),
            (making, false) => match making.view() {
                Some(view) => encoded(view, choice, importance)?,
                None => (making.clone(), *how),
            },
        };
        let why = why.clone().or_else(|| reason(choice));
        out.push((OutTensor { name: choice.name.clone().into_owned(), making }, how, why));
    }
    for key in recipe.removed {
        keys.remove(key);
    }
    for setting in &recipe.settings {
        keys.remove(&setting.key);
        keys.set(&setting.key, setting.value.value());
    }
    let fates = out.iter().map(|(tensor, how, why)| tensor.fate(*how, why.clone()));
    let fates = fates.collect::<Result<Vec<_>>>()?;
    let tensors: Vec<OutTensor> = out.into_iter().map(|(tensor, ..)| tensor).collect();
    let (kind, files) = match options.keep_split && store.files().len() > 1 {
        true => {
            let groups = by_file(tensors, store.files().len());
            // Taken away and set again, in llama-quantize's order.
            (Kind::Shards, gguf_shards(keys, groups, path, recipe.removed).map_err(here)?)
        }
        false => (Kind::File, vec![OutFile::gguf("model.gguf", &keys, tensors).map_err(here)?]),
    };
    let plan = WritePlan::new(kind, files, fates, notes, store);
    Ok(plan.of_whole_model(model.resolution()?))
}

/// Tensors in groups, by the files that they are read from: the first may have none.
fn by_file(tensors: Vec<OutTensor>, count: usize) -> Vec<Vec<OutTensor>> {
    let mut files: BTreeMap<u32, Vec<OutTensor>> =
        (0..).take(count).map(|file| (file, Vec::new())).collect();
    for tensor in tensors {
        let file = tensor.making.view().map_or(0, |view| view.place_of(0).0);
        files.entry(file).or_default().push(tensor);
    }
    files.into_values().collect()
}

/// A tensor in another dtype.
fn encoded(
    view: &Tensor,
    choice: &Choice<'_>,
    importance: Option<&ImportanceMatrix>,
) -> Result<(Making, How)> {
    let dtype = choice.to;
    let columns = shape::columns(view.shape());
    let matrices = view.elements().checked_div(columns.saturating_mul(view.matrix_rows()));
    let found = match importance {
        Some(all) => all.get(choice.stored_name, columns, matrices.unwrap_or(1).max(1))?,
        None => None,
    };
    let quantizer = dtype.descriptor().quantizer;
    let quantizer = quantizer.ok_or_else(|| {
        Error::unsupported(format!("nothing quantizes to {dtype}")).in_tensor(choice.stored_name)
    })?;
    let required = choice.needs_importance || quantizer.importance() == Importance::Required;
    if found.is_none() && required {
        let fault = format!("{dtype} needs the importance of its columns, and nothing says it");
        let advice = match importance.map(ImportanceMatrix::path) {
            None => "give it an importance matrix (--imatrix)".to_owned(),
            Some(path) => format!("{} lacks this tensor", path.display()),
        };
        return Err(Error::mismatch(fault).in_tensor(choice.stored_name).advise(advice));
    }
    let how = match choice.from.is_quantized() {
        true => How::Requantized,
        false if dtype == DType::F32 => How::Exact,
        false if !dtype.is_quantized() => How::Rounded,
        false => How::Quantized,
    };
    let importance = found.map(Arc::from);
    Ok((Making::Encoded { view: view.clone(), dtype, importance }, how))
}

/// Why a tensor gets its dtype, where that is no matter of course.
fn reason(choice: &Choice<'_>) -> Option<String> {
    if let Some(wanted) = choice.fallback_from {
        return Some(format!("its rows are no whole blocks of {wanted}"));
    }
    match choice.reason {
        Reason::Kept | Reason::Base => None,
        Reason::Option => Some("asked for".to_owned()),
        Reason::Rule => Some("the file type's rule".to_owned()),
    }
}
