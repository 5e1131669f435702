//! The kind of a word of the command line, by its form or by what exists: a number, a type, a model.

use std::ffi::OsString;
use std::path::{Component, Path};

use weighbridge::adapter::Adapter;
use weighbridge::container::{CONTAINERS, OLLAMA, ollama};
use weighbridge::{Model, OpenOptions};

use super::TargetType;
use super::program::word_at;
use super::values::size;

/// Whether the words at these places are shards of one model, and there are several.
pub(super) fn is_set(words: &[OsString], shards: &[usize]) -> bool {
    let stem = |place: &usize| {
        let (start, _) = word_at(words, *place).rsplit_once("-of-")?;
        Some(start.rsplit_once('-')?.0.to_owned())
    };
    let mut stems = shards.iter().map(stem);
    let first = stems.next().flatten();
    let is_whole = shards.windows(2).all(|pair| matches!(pair, [a, b] if a + 1 == *b));
    shards.len() > 1 && is_whole && first.is_some() && stems.all(|stem| stem == first)
}

/// The stems and the names of the shards that a path is: its own, or those in a folder.
fn shards(path: &Path) -> Vec<(String, String)> {
    let within = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<_> = within.map(|entry| entry.file_name()).collect();
    if !path.is_dir() {
        names.extend(path.file_name().map(ToOwned::to_owned));
    }
    let named = |name: OsString| {
        let name = name.into_string().ok()?;
        let (start, rest) = name.rsplit_once("-of-")?;
        let (count, ending) = rest.split_once('.')?;
        let is_shard = is_number(count) && ["gguf", "safetensors"].contains(&ending);
        let stem = start.rsplit_once('-').filter(|(_, number)| is_number(number))?.0;
        is_shard.then(|| (format!("{stem} of {rest}"), name.clone()))
    };
    names.into_iter().filter_map(named).collect()
}

/// Whether two words are different shards of one model in different folders.
pub(super) fn are_apart(first: &str, second: &str) -> bool {
    let (one, other) = (shards(Path::new(first)), shards(Path::new(second)));
    let stem = one.first().map(|(stem, _)| stem);
    let all = || one.iter().chain(&other);
    stem.is_some()
        && !other.is_empty()
        && all().all(|(own, _)| Some(own) == stem)
        && one.iter().all(|name| !other.contains(name))
        && folder(first) != folder(second)
}

/// The folder that a word is, or that its file is in.
fn folder(word: &str) -> &Path {
    let path = Path::new(word);
    if path.is_dir() { path } else { path.parent().unwrap_or(path) }
}

/// Whether an option of this list, with or without its value, is among the words.
pub(super) fn has(words: &[OsString], options: &[&str]) -> bool {
    let name = |word: &OsString| Some(word.to_str()?.split('=').next()?.to_owned());
    words.iter().filter_map(name).any(|word| options.contains(&word.as_str()))
}

/// Whether a word is a type by its name; the number of threads would be one by its number.
pub(super) fn is_type_name(word: &str) -> bool {
    is_type(word) && !is_number(word)
}

pub(super) fn is_unit(word: &str) -> bool {
    !word.is_empty() && size(&format!("1{word}")).is_ok() && !Path::new(word).exists()
}

pub(super) fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit()) && !word.is_empty()
}

pub(super) fn is_type(word: &str) -> bool {
    matches!(TargetType::find(word), Some(Ok(_))) && !Path::new(word).exists()
}

/// Whether a word is the name of a container, and no file.
pub(super) fn is_container(word: &str) -> bool {
    CONTAINERS.iter().any(|container| container.name == word) && !Path::new(word).exists()
}

/// Whether a word is the name of a file of a repository, or a glob, and not that of a repository.
pub(super) fn is_file_name(word: &str) -> bool {
    let ending = word.rsplit_once('.').map_or("", |(_, ending)| ending);
    let is_ending = ending.len() > 1 && ending.bytes().all(|byte| byte.is_ascii_lowercase());
    (is_ending || word.contains('*')) && !word.contains("://")
}

/// Whether a word behind the name of a repository is one of its files or folders, or a glob, and no second name.
pub(super) fn is_of_repository(word: &str) -> bool {
    let is_plain = !word.contains(['/', ':']) || word.ends_with('/');
    (is_file_name(word) || is_plain) && !word.is_empty() && !is_place(word)
}

/// Whether a word is the path of a folder by its start, or by what exists.
pub(super) fn is_place(word: &str) -> bool {
    let first = Path::new(word).components().next();
    let is_start = !matches!(first, Some(Component::Normal(_)) | None);
    is_start || word.starts_with('~') || Path::new(word).is_dir()
}

/// Whether a word is an address, or begins with the hub's.
pub(super) fn is_address(word: &str) -> bool {
    word.contains("://") || ["hf.co/", "huggingface.co/"].iter().any(|hub| word.starts_with(hub))
}

/// Whether a word may name a repository of the hub.
pub(super) fn is_repository(word: &str) -> bool {
    let name = word.strip_prefix("hf://").unwrap_or(word);
    name.contains('/') && !name.contains("://") && !name.ends_with('/') && !is_place(word)
}

/// Whether a word is a path, or a model of Ollama's store.
pub(super) fn is_known(word: &str) -> bool {
    Path::new(word).exists() || in_store(word)
}

/// Whether a word is the path of an adapter, perhaps with a factor behind it: `lora:0.5`.
pub(super) fn is_adapter(word: &str) -> bool {
    let scaled = word.rsplit_once(':').filter(|(_, scale)| scale.parse::<f32>().is_ok());
    let path = scaled.map_or(word, |(path, _)| path);
    // One that cannot be read is an adapter too: the command says why.
    let has = |name: &str| Path::new(path).join(name).is_file();
    let is_folder = || has("adapter_config.json") && !has("config.json");
    let is_kind = |model: Model| model.metadata().str("general.type") == Some("adapter");
    let is_cut = || OpenOptions::new().partial(true).open(path).is_ok_and(is_kind);
    !path.is_empty()
        && Path::new(path).exists()
        && (is_folder() || Adapter::open(path).is_ok() || is_cut())
}

pub(super) fn is_model(path: &str) -> bool {
    Path::new(path).exists() && Model::open(path).is_ok()
}

/// Whether a model has a tensor of this name.
pub(super) fn has_tensor(path: &str, name: &str) -> bool {
    Model::open(path)
        .is_ok_and(|model| model.tensor(name).is_ok() || model.stored_tensor(name).is_ok())
}

/// Whether a word is the name of a model in Ollama's store.
pub(crate) fn in_store(name: &str) -> bool {
    ollama::place(name, None).is_ok_and(|manifest| manifest.is_file())
}

/// Whether a word is the path of a file or a directory that is no model of Ollama's store.
pub(super) fn is_file_model(path: &str) -> bool {
    let opened = OpenOptions::new().open(path);
    Path::new(path).exists() && opened.map_or(true, |model| model.container() != OLLAMA.name)
}

/// Whether a word is the path of a file whose name says that it is text.
pub(super) fn is_text_file(word: &str) -> bool {
    let path = Path::new(word);
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    ["md", "raw", "text", "txt"].contains(&ending) && path.is_file()
}

/// The value of an option, or of one of its other spellings.
pub(super) fn value_of<'w>(words: &'w [OsString], options: &[&str]) -> Option<&'w str> {
    words.iter().enumerate().find_map(|(place, word)| match word.to_str()?.split_once('=') {
        Some((option, value)) => options.contains(&option).then_some(value),
        None => options.contains(&word.to_str()?).then(|| word_at(words, place + 1)),
    })
}
