//! The projectors (mmproj) that lie beside a language model in a folder.

use std::path::Path;

use crate::bytes::Text;
use crate::error::Result;
use crate::place::choice;
use crate::store::{Attachment, Store};

/// Opens a file, and gives its length.
pub(super) type Open<'o> = &'o dyn Fn(&Path) -> Result<(u64, Store)>;

pub(super) fn is_gguf(name: &str) -> bool {
    name.to_ascii_lowercase().ends_with(".gguf")
}

/// Whether a file has the name of a vision or audio model, which belongs to a language model.
pub(super) fn is_projector(name: &str) -> bool {
    is_gguf(name) && name.to_ascii_lowercase().contains("mmproj")
}

/// Attaches the projector that lies beside a model and fits it, as Ollama takes it for a model of a folder. Of several,
/// that in F16 is taken, else the first, and notes name the others.
pub(super) fn attach(store: &mut Store, folder: &Path, names: &[String], open: Open<'_>) {
    let is_other = |name: &&String| {
        is_projector(name) && !store.files().any(|file| *file == folder.join(name))
    };
    let mut fitting = Vec::new();
    let (mut attached, mut notes) = (None, Vec::new());
    let shown = |name: &str| Text::new(name.as_bytes()).brief();
    for name in names.iter().filter(is_other) {
        match bytes_of_fitting(store, &folder.join(name), open) {
            Ok(bytes) => fitting.push((name, bytes)),
            Err(fault) => notes.push(format!("{}, which lies beside it, {fault}", shown(name))),
        }
    }
    let found: Vec<&String> = fitting.iter().map(|(name, _)| *name).collect();
    let chosen = choice::projector(&found);
    for (name, bytes) in &fitting {
        let text = match chosen {
            Some(chosen) if chosen == *name => {
                let (kind, path) = ("projector".to_owned(), folder.join(name));
                attached = Some(Attachment { kind, name: String::new(), bytes: *bytes, path });
                "is its projector: name it to read it alone".to_owned()
            }
            _ => format!(
                "is left out, since one projector is taken: `weighbridge create NAME {} --projector {}` takes it",
                Text::from_path(store.path()).brief(),
                Text::from_path(&folder.join(name)).brief(),
            ),
        };
        notes.push(format!("{}, which lies beside it, {text}", shown(name)));
    }
    let path = store.path().to_path_buf();
    notes.into_iter().for_each(|note| store.note(&path, note));
    attached.into_iter().for_each(|attachment| store.attach(attachment));
}

/// The length of a projector that fits a model, or why the file is left out.
fn bytes_of_fitting(
    store: &Store,
    path: &Path,
    open: Open<'_>,
) -> std::result::Result<u64, String> {
    let opened = open(path);
    let (bytes, projector) =
        opened.map_err(|error| format!("is left out, since it cannot be read: {error}"))?;
    if store.is_projector() || !projector.is_projector() {
        return Err("is a model of its own: name it to read it".to_owned());
    }
    match store.embedding_length().and_then(|own| projector.misfit(store.path(), &own)) {
        Some(fault) => Err(format!(
            "is left out: {fault}; `weighbridge create NAME {} --projector FILE` takes another",
            Text::from_path(store.path()).brief()
        )),
        None => Ok(bytes),
    }
}
