//! Accounts for everything that a plan reads: each stored tensor and part, key and file gets one
//! outcome.

use std::collections::HashMap;
use std::sync::Arc;

use crate::json::Json;

use crate::adapter::ScaledAdapter;
use crate::arch::config::TEXT_CONFIGS;
use crate::arch::kept::{self, Kept};
use crate::container::OLLAMA;
use crate::container::gguf::write::SPLIT_KEYS;
use crate::dialect::Dialect;
use crate::error::Result;
use crate::model::Model;
use crate::store::folder::{Companion, companion, documents};
use crate::store::{Attachment, Encoding};
use crate::translate::card;
use crate::write::{Account, Builder, ItemKind, Method, OutTensor, Outcome, planned_config};

/// Completes the account of what a builder holds of the model `source`.
///
/// # Errors
///
/// `Io` if the folder of the model cannot be listed.
pub(super) fn complete(source: &Model, builder: &mut Builder) -> Result<()> {
    let mut account = std::mem::take(builder.account());
    let reasons = reasons(source, builder)?;
    tensors(source, builder, &reasons, &mut account);
    keys(source, builder, &mut account);
    config_in_directory(source, builder, &mut account)?;
    files(source, builder, &reasons, &mut account)?;
    *builder.account() = account;
    let leaves_draft = |attachment: &Attachment| {
        DRAFT.contains(&attachment.kind.as_str()) && !is_written(attachment, builder)
    };
    if !builder.is_for_store() && source.attachments().iter().any(leaves_draft) {
        builder.note("left out: the draft model that Ollama runs ahead of this one");
    }
    Ok(())
}

/// The kinds of layers of Ollama's store that a draft model consists of: one GGUF file, or tensors.
const DRAFT: [&str; 2] = ["draft", "tensor"];

/// Whether a layer of Ollama's store is written as it is.
fn is_written(Attachment { name, kind, .. }: &Attachment, builder: &Builder) -> bool {
    builder.written_documents().iter().any(|written| written.name == *name && written.role == *kind)
}

/// The account of a plan that copies the files of a GGUF model.
pub(super) fn of_copy(source: &Model) -> Account {
    let mut account = Account::default();
    for tensor in source.stored_tensors() {
        account.add(ItemKind::Tensor, tensor.name(), Outcome::Written, tensor.name());
        for part in tensor.segments().filter(|_| tensor.segments().nth(1).is_some()) {
            account.add(ItemKind::Part, part.name.spelling(), Outcome::Written, tensor.name());
        }
    }
    for (key, _) in source.metadata().iter() {
        account.add(ItemKind::Key, key.spelling(), Outcome::Written, key.spelling());
    }
    for attachment in source.attachments() {
        let name = if attachment.name.is_empty() { &attachment.kind } else { &attachment.name };
        account.add(ItemKind::File, name, Outcome::Written, &attachment.kind);
    }
    account
}

/// Completes the account of a plan that writes a part of a model, or what is derived from it: `rest` gives the
/// outcome of an item that is not written. It is given the tensor of a part, and the name of each other item.
///
/// # Errors
///
/// `Io` if the folder of the model cannot be listed.
pub(super) fn of_part(
    source: &Model,
    builder: &mut Builder,
    rest: impl Fn(ItemKind, &str) -> (Outcome, &'static str),
) -> Result<()> {
    let mut account = std::mem::take(builder.account());
    let left_out = builder.left_out().iter().cloned().collect();
    tensors(source, builder, &left_out, &mut account);
    let mut add = |kind, name: String, of: &str| {
        let (outcome, detail) = rest(kind, of);
        account.add(kind, name, outcome, detail);
    };
    for tensor in source.stored_tensors() {
        add(ItemKind::Tensor, tensor.name().to_owned(), tensor.name());
        for part in tensor.segments().filter(|_| tensor.segments().nth(1).is_some()) {
            add(ItemKind::Part, part.name.spelling().into_owned(), tensor.name());
        }
    }
    for (key, _) in source.metadata().iter() {
        add(ItemKind::Key, key.spelling().into_owned(), &key.spelling());
    }
    for (part, key, _) in config_keys(source) {
        add(ItemKind::ConfigKey, config_key(part, key), &config_key(part, key));
    }
    let attached = source.attachments().iter();
    let attached = attached.map(|file| if file.name.is_empty() { &file.kind } else { &file.name });
    for name in attached.cloned().chain(neighbors(source)?) {
        add(ItemKind::File, name.clone(), &name);
    }
    *builder.account() = account;
    Ok(())
}

/// Adds the tensors of adapters that are merged into a model, after the paths of the adapters.
pub(super) fn add_adapters(adapters: &[ScaledAdapter], account: &mut Account) {
    for ScaledAdapter { adapter, .. } in adapters {
        for tensor in adapter.model().stored_tensors() {
            let name = format!("{}: {}", adapter.path().display(), tensor.name());
            account.add(ItemKind::Tensor, name, Outcome::Derived, "the weights of the model");
        }
    }
}

const CONFIG: &str = "config.json";
const DESCRIBES_WEIGHTS: &str = "describes the stored weights";
pub(super) const GGUF_KEYS: &str = "the keys of the GGUF file";
const NO_DOCUMENTS: &str = "a single file has no documents";
const NO_DOCUMENT: &str = "no document is written that states it";

/// The reasons why stored tensors and files are left out, by name.
fn reasons(source: &Model, builder: &Builder) -> Result<HashMap<String, String>> {
    let mut reasons = HashMap::new();
    for (name, reason) in builder.left_out() {
        let mapped = source.mapping(name)?.map(|mapping| mapping.stored.clone());
        for stored in mapped.unwrap_or_else(|| vec![name.clone()]) {
            reasons.insert(stored, reason.clone());
        }
    }
    Ok(reasons)
}

/// The first of several names, and the number of the others.
fn shortened(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first, others @ ..] => format!("{first} and {} more", others.len()),
    }
}

fn tensors(
    source: &Model,
    builder: &Builder,
    reasons: &HashMap<String, String>,
    account: &mut Account,
) {
    let mut written: HashMap<String, Vec<&OutTensor>> = HashMap::new();
    for tensor in builder.tensors() {
        let Some(view) = tensor.output.producer.view() else { continue };
        if view.stores().any(|store| Arc::ptr_eq(store, source.store())) {
            for stored in view.stored_names() {
                written.entry(stored.spelling().into_owned()).or_default().push(tensor);
            }
        }
    }
    for tensor in source.stored_tensors() {
        let (stored, mut all_copied) = (tensor.name(), false);
        let (outcome, detail) = match (written.get(stored), reasons.get(stored)) {
            (Some(tensors), _) => {
                all_copied = tensors.iter().all(|tensor| tensor.output.method == Method::Copied);
                let mut names: Vec<&str> = tensors.iter().map(|tensor| &*tensor.name).collect();
                names.dedup();
                (Outcome::Written, shortened(&names))
            }
            (None, Some(reason)) => (Outcome::LeftOut, reason.clone()),
            (None, None) => continue,
        };
        account.add(ItemKind::Tensor, stored, outcome, detail.clone());
        if tensor.segments().nth(1).is_none() {
            continue;
        }
        for segment in tensor.segments() {
            let decoded = outcome == Outcome::Written && !all_copied;
            let outcome = if decoded { Outcome::Derived } else { outcome };
            account.add(ItemKind::Part, segment.name.spelling(), outcome, detail.clone());
        }
    }
}

fn keys(source: &Model, builder: &Builder, account: &mut Account) {
    let unused: Vec<String> = source.unused_config().into_iter().map(|(key, _)| key).collect();
    for (key, _) in source.metadata().iter() {
        let name = key.spelling();
        let (outcome, detail) = match builder.has_key(&name) {
            true => (Outcome::Written, name.as_ref()),
            false if SPLIT_KEYS.contains(&&*name) => {
                (Outcome::LeftOut, "describes the shards of the source")
            }
            false if builder.dialect() == Dialect::Gguf => match name.starts_with(kept::PREFIX) {
                true => (Outcome::LeftOut, "a key of this library, which the options leave out"),
                false => (Outcome::LeftOut, DESCRIBES_WEIGHTS),
            },
            false if source.encoding() != Encoding::Gguf => (Outcome::LeftOut, DESCRIBES_WEIGHTS),
            false => key_in_directory(&name, source, builder, &unused),
        };
        account.add(ItemKind::Key, name.as_ref(), outcome, detail);
    }
}

/// The outcome of a GGUF key in a directory.
fn key_in_directory(
    name: &str,
    source: &Model,
    builder: &Builder,
    unused: &[String],
) -> (Outcome, &'static str) {
    let has = |start: &str| builder.written_documents().iter().any(|d| d.name.starts_with(start));
    let architecture = source.metadata().str("general.architecture").unwrap_or_default();
    let is_numbered = name.strip_prefix(architecture).is_some_and(|rest| rest.starts_with('.'));
    let row = source.resolution().ok().and_then(|resolution| resolution.architecture);
    let is_tensor = row.is_some_and(|row| row.keyed.iter().any(|tensor| tensor.key == name));
    let is_of_tokenizer = name.strip_prefix(kept::PREFIX).unwrap_or(name).starts_with("tokenizer.");
    let written = [
        (is_tensor, "", "a tensor of each layer"),
        (is_of_tokenizer, "tokenizer", "the documents of the tokenizer"),
        (name.starts_with("general.sampling."), "generation_config.json", "generation_config.json"),
        (card::states(name), card::NAME, "the model card"),
        (name == "general.architecture" || name.starts_with(kept::PREFIX), CONFIG, CONFIG),
        (is_numbered && !unused.iter().any(|key| key == name), CONFIG, CONFIG),
    ];
    let target = written.iter().find(|(applies, ..)| *applies);
    match target {
        Some((_, document, detail)) if document.is_empty() || has(document) => {
            (Outcome::Derived, detail)
        }
        Some(_) => (Outcome::LeftOut, NO_DOCUMENT),
        None if is_numbered => (Outcome::LeftOut, "config.json has no key for it"),
        None => (Outcome::LeftOut, "describes the file of the source"),
    }
}

/// The keys of a directory's `config.json`, each with the name of the language model's part that has it
/// if there is one. The flag says whether the key describes the language model.
fn config_keys(source: &Model) -> Vec<(Option<&'static str>, &String, bool)> {
    let root = source.document(CONFIG).and_then(Json::as_object);
    let Some(root) = root.filter(|_| source.encoding() != Encoding::Gguf) else {
        return Vec::new();
    };
    let inner = TEXT_CONFIGS.iter().find_map(|name| Some((*name, root.get(name)?.as_object()?)));
    let Some((part, inner)) = inner else {
        return root.keys().map(|key| (None, key, true)).collect();
    };
    let outer = root.keys().filter(|key| *key != part).map(|key| (None, key, false));
    outer.chain(inner.keys().map(|key| (Some(part), key, true))).collect()
}

/// The name of a key in reports.
fn config_key(part: Option<&str>, key: &str) -> String {
    part.map_or_else(|| key.to_owned(), |part| format!("{part}.{key}"))
}

/// Accounts for the keys of a directory's `config.json` in a GGUF file that keeps `kept`, if `extra` keys
/// are written.
pub(super) fn config_in_gguf(source: &Model, kept: &Kept, extra: bool, account: &mut Account) {
    for (part, key, of_language_model) in config_keys(source) {
        let outcome = match kept.has(key) {
            _ if kept::describes_files(key) => (Outcome::LeftOut, DESCRIBES_WEIGHTS),
            true if extra => (Outcome::Written, kept::CONFIG),
            true => (Outcome::LeftOut, "GGUF has no key for it"),
            false if of_language_model || kept.stated.contains_key(key) => {
                (Outcome::Derived, GGUF_KEYS)
            }
            false => (Outcome::LeftOut, "describes the model that the language model is a part of"),
        };
        account.add(ItemKind::ConfigKey, config_key(part, key), outcome.0, outcome.1);
    }
}

/// Accounts for the keys of a directory's `config.json` in another directory.
fn config_in_directory(source: &Model, builder: &Builder, account: &mut Account) -> Result<()> {
    if builder.dialect() == Dialect::Gguf {
        return Ok(());
    }
    let written = planned_config(builder.written_documents(), source.store().limits())?;
    let written = written.as_ref().and_then(Json::as_object);
    for (part, key, _) in config_keys(source) {
        let outcome = match written {
            None => (Outcome::LeftOut, NO_DOCUMENTS),
            Some(_) if kept::describes_files(key) => {
                (Outcome::Derived, "set for the written tensors")
            }
            Some(keys) => {
                let text = TEXT_CONFIGS.iter().filter_map(|name| keys.get(name)?.as_object());
                match text.chain([keys]).any(|keys| keys.contains_key(key)) {
                    true => (Outcome::Written, CONFIG),
                    false => (Outcome::LeftOut, "the written config.json has another form"),
                }
            }
        };
        account.add(ItemKind::ConfigKey, config_key(part, key), outcome.0, outcome.1);
    }
    Ok(())
}

fn files(
    source: &Model,
    builder: &Builder,
    reasons: &HashMap<String, String>,
    account: &mut Account,
) -> Result<()> {
    let store = source.store();
    for attachment in store.attachments() {
        let (name, kind) = (&attachment.name, attachment.kind.as_str());
        let shown = if name.is_empty() { kind } else { name };
        let (outcome, detail) = match is_written(attachment, builder) {
            true => (Outcome::Written, shown.to_owned()),
            false if kind == "adapter" && source.has_attached() => {
                (Outcome::Derived, "merged into the weights".to_owned())
            }
            false if kind == "json" && !name.is_empty() => {
                let (outcome, detail) = document(name, builder, reasons);
                (outcome, detail.to_owned())
            }
            false if store.container() == OLLAMA.name => {
                (Outcome::LeftOut, format!("a {kind} of Ollama's store"))
            }
            false => (Outcome::LeftOut, format!("a {kind} beside the model")),
        };
        account.add(ItemKind::File, shown, outcome, detail);
    }
    for name in neighbors(source)? {
        let (outcome, detail) = document(&name, builder, reasons);
        account.add(ItemKind::File, &*name, outcome, detail);
    }
    Ok(())
}

/// The outcome of a file or folder next to the weights, or of a document of Ollama's store.
fn document<'n>(
    name: &'n str,
    builder: &Builder,
    reasons: &'n HashMap<String, String>,
) -> (Outcome, &'n str) {
    let is_copy = |written: &str| match name.ends_with('/') {
        false => written == name,
        true => written.starts_with(name),
    };
    let written = builder.written_documents().iter().any(|document| is_copy(&document.name));
    let in_gguf = builder.dialect() == Dialect::Gguf;
    let has_documents = !builder.written_documents().is_empty();
    match (companion(name), reasons.get(name)) {
        _ if written => (Outcome::Written, name),
        (_, Some(reason)) => (Outcome::LeftOut, reason.as_str()),
        _ if name == CONFIG && (in_gguf || has_documents) => (Outcome::Derived, "see its keys"),
        _ if !in_gguf && !has_documents => (Outcome::LeftOut, NO_DOCUMENTS),
        (Some(Companion::OfWeights), _) if name.ends_with(".safetensors") => {
            (Outcome::LeftOut, "the weights under other names")
        }
        (Some(Companion::OfWeights), _) => (Outcome::LeftOut, DESCRIBES_WEIGHTS),
        (Some(Companion::Translated), _) if in_gguf => (Outcome::Derived, GGUF_KEYS),
        (Some(Companion::Irrelevant), _) => (Outcome::LeftOut, "changes no result"),
        (Some(_), _) => (Outcome::LeftOut, "the container has no place for it"),
        (None, _) => (Outcome::LeftOut, "not a known file of a model"),
    }
}

/// The files and folders next to the weights of a model. The names of folders end with a slash.
fn neighbors(source: &Model) -> Result<Vec<String>> {
    let store = source.store();
    let Some(folder) = store.folder() else { return Ok(Vec::new()) };
    let opened: Vec<_> = store.files().collect();
    let mut names = store.place().names(folder, usize::MAX)?;
    // The neighbors of a single file need not belong to it.
    names.retain(|name| {
        let belongs = store.is_directory() || documents().any(|document| document == *name);
        belongs && !opened.contains(&&*folder.join(name))
    });
    for name in &mut names {
        if store.place().is_folder(&folder.join(&*name)) {
            name.push('/');
        }
    }
    Ok(names)
}
