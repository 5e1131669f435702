//! Functions that change this machine: editing metadata in place, listing models, downloading them.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use weighbridge::inventory::{InventoryOptions, InventoryStage, inventory};
use weighbridge::ops::{self, EditOutcome, MergeRecipe, MetadataEdit, PullOptions, plan_pull};
use weighbridge::remote::Network;
use weighbridge::{OpenOptions, WriteOptions};
use wildmatch::WildMatch;

use crate::fault::OrRaise;
use crate::model::Model;
use crate::setting::Setting;
use crate::verbs::json;
use crate::watch::watched;

/// Sets and removes metadata of a GGUF file. Returns how: `in_place`, `rewritten` or `new_blob`.
#[pyfunction]
pub(crate) fn edit_metadata(
    py: Python<'_>,
    path: PathBuf,
    values: Vec<(String, String, Bound<'_, PyAny>)>,
    removed: Vec<String>,
) -> PyResult<&'static str> {
    let setting = |(key, kind, value): &(String, String, Bound<'_, PyAny>)| {
        Ok((key.clone(), Setting::of(kind, value)?))
    };
    let values = values.iter().map(setting).collect::<PyResult<Vec<(String, Setting)>>>()?;
    watched(py, None, |watch| {
        let model = OpenOptions::new().open(path)?;
        let plan = MetadataEdit::plan(&model, |keys| {
            removed.iter().for_each(|key| {
                keys.remove(key);
            });
            values.iter().for_each(|(key, setting)| setting.put(key, keys));
            Ok(())
        })?;
        let report = |progress| watch.report(progress);
        Ok(match plan.run(&WriteOptions::new().progress(&report))? {
            EditOutcome::InPlace => "in_place",
            EditOutcome::NewBlob => "new_blob",
            _ => "rewritten",
        })
    })
}

/// The model that a recipe in mergekit's form describes. `given` are opened models by name.
#[pyfunction]
pub(crate) fn merge_models(
    py: Python<'_>,
    recipe: &str,
    given: Vec<(String, Py<Model>)>,
) -> PyResult<Model> {
    let given: Vec<(String, weighbridge::Model)> =
        given.into_iter().map(|(name, model)| (name, model.get().model.clone())).collect();
    let open = |name: &str| match given.iter().find(|(other, _)| other == name) {
        Some((_, model)) => Ok(model.clone()),
        None => OpenOptions::new().open(name),
    };
    let model = py.detach(|| ops::merge_models(&MergeRecipe::parse(recipe, &open)?)).or_raise()?;
    Ok(Model { model, maps: None })
}

/// The models on this machine, as JSON.
#[pyfunction]
pub(crate) fn models(py: Python<'_>, roots: Vec<PathBuf>, pattern: &str) -> PyResult<String> {
    let pattern = WildMatch::new(pattern);
    watched(py, None, |watch| {
        let names = |name: &str| pattern.matches(name);
        let report = |_: InventoryStage, progress| watch.report(progress);
        let options = InventoryOptions::new().roots(roots).names(&names).progress(&report);
        json(&inventory(&options)?)
    })
}

/// Downloads a model, and returns the path to open.
#[pyfunction]
#[pyo3(signature = (name, folder, include, exclude, progress))]
pub(crate) fn pull(
    py: Python<'_>,
    name: &str,
    folder: Option<PathBuf>,
    include: Vec<String>,
    exclude: Vec<String>,
    progress: Option<Py<PyAny>>,
) -> PyResult<PathBuf> {
    let globs = |globs: Vec<String>| -> Vec<WildMatch> {
        globs.iter().map(|glob| WildMatch::new(glob)).collect()
    };
    let (include, exclude) = (globs(include), globs(exclude));
    let any = |globs: &[WildMatch], name: &str| globs.iter().any(|glob| glob.matches(name));
    let mut options = PullOptions::new(Network::from_env());
    options.folder = folder;
    if !(include.is_empty() && exclude.is_empty()) {
        options.choose = Some(Arc::new(move |name| match any(&exclude, name) {
            true => Some(false),
            false if include.is_empty() => None,
            false => Some(any(&include, name)),
        }));
    }
    watched(py, progress, |watch| {
        let plan = plan_pull(name, &options)?;
        plan.run(Some(&|progress| watch.report(progress)))?;
        Ok(plan.path)
    })
}
