//! The modules of sentence-transformers after a merged model: their files are those of the model `main`, and their
//! weights are merged as its own are.

use std::sync::Arc;

use super::files::MergedFile;
use super::recipe::MergeRecipe;
use super::tokens::Files;
use crate::bytes::Access;
use crate::error::Result;
use crate::model::Model;
use crate::ops::modules;
use crate::store::folder::{Companion, Module, companion};

/// Where a module's weights are merged from: a name that ends so.
const WEIGHTS: &str = ".safetensors";

/// The files of the modules, their weights by name, and notes on those that are not merged.
#[derive(Default)]
pub(super) struct MergedModules {
    pub(super) files: Files,
    pub(super) weights: Vec<(String, Arc<MergedFile>)>,
    pub(super) notes: Vec<String>,
}

impl MergedModules {
    /// The modules of the model `main`. `merged` merges one of each model.
    ///
    /// # Errors
    ///
    /// `Mismatch` for weights of other shapes; `Io` if a file cannot be read.
    pub(super) fn of(
        recipe: &MergeRecipe,
        main: usize,
        merged: impl Fn(&[Model]) -> Result<MergedFile>,
    ) -> Result<Self> {
        let mut out = Self::default();
        let store = recipe.model(main)?.store();
        for (name, bytes) in store.read_companions()? {
            if companion(&name) == Some(Companion::Copied) && !name.ends_with(".py") {
                out.files.push((name, bytes));
            }
        }
        for module in store.modules()?.iter().filter(|module| !module.folder.is_empty()) {
            for (name, path) in store.files_in(&module.folder)? {
                let sources = name.ends_with(WEIGHTS).then(|| opened(recipe, module)).flatten();
                if let Some(sources) = sources {
                    let file = merged(&sources)?;
                    out.weights.push((name, Arc::new(file)));
                    continue;
                }
                let source = store.place().open(&path, Access::Read)?;
                out.files.push((name.clone(), source.bytes(0..source.len())?.into_owned()));
                let is_weights = name.ends_with(WEIGHTS) || name.ends_with(".bin");
                if is_weights && recipe.sources.len() > 1 {
                    let path = path.display();
                    out.notes.push(format!("{name}: that of {path}, since it cannot be merged"));
                }
            }
        }
        Ok(out)
    }
}

/// A module of each model; `None` if one has none to be merged, or if slices list layers.
fn opened(recipe: &MergeRecipe, module: &Module) -> Option<Vec<Model>> {
    let each = recipe.sources.iter().map(|source| {
        let listed = source.model.store().modules().ok()?;
        let own = listed.iter().find(|own| own.folder == module.folder && own.kind == module.kind);
        modules::open(&source.model, own?).ok()
    });
    recipe.slices.is_empty().then(|| each.collect())?
}
