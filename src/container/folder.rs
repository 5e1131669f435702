//! Recognizes directories that hold no model, or a model in an unsupported format, and says what to
//! do with each.

use std::path::{Path, PathBuf};

use super::foreign::{
    IMATRIX, ONNX, PICKLE, WEIGHTS, advised, ctranslate2_folder, head_in_folder, is_partial,
};
use super::{Probe, whisper_ggml};
use crate::bytes::{Source, Text};
use crate::error::{Error, ErrorKind};
use crate::place::hub::has_files;

/// A kind of directory, recognized by the endings of its files' names.
struct Folder {
    endings: &'static [&'static str],
    kind: ErrorKind,
    what: &'static str,
    advice: &'static str,
}

pub(super) const OTHER: &str = "fetch the model's .safetensors or GGUF files";

pub(super) const UQFF: &str = "a model in mistral.rs's format UQFF";

/// Files of a tokenizer.
pub(super) const TOKENIZERS: &[&str] = &[
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer.model.v7",
    "tokenizer.model.v3",
    "tekken.json",
    "sentencepiece.bpe.model",
    "spiece.model",
    ".tiktoken",
    "vocab.json",
    "vocab.txt",
    "tokenizer_config.json",
];

/// In the order of detection: a pickle may also end in `.bin`.
#[rustfmt::skip]
static FOLDERS: &[Folder] = &[
    Folder { endings: &["model_index.json"], kind: ErrorKind::Unsupported, what: "a pipeline of diffusers, which makes images, video or sound", advice: "language models can be read; of this pipeline, give the folder of a single model to list its tensors" },
    Folder { endings: &[".onnx", ".onnx_data"], kind: ErrorKind::Unsupported, what: "only ONNX models", advice: ONNX },
    Folder { endings: &["openvino_model.xml", "openvino_language_model.xml"], kind: ErrorKind::Unsupported, what: "only an OpenVINO model", advice: OTHER },
    Folder { endings: &["saved_model.pb", ".h5", ".keras", ".tflite", ".ckpt.index"], kind: ErrorKind::Unsupported, what: "only TensorFlow weights", advice: OTHER },
    Folder { endings: &[".uqff"], kind: ErrorKind::Unsupported, what: UQFF, advice: OTHER },
    Folder { endings: &[".msgpack"], kind: ErrorKind::Unsupported, what: "only Flax weights", advice: OTHER },
    Folder { endings: &[".mlmodel", "Manifest.json"], kind: ErrorKind::Unsupported, what: "only a Core ML model", advice: OTHER },
    Folder { endings: &["adapters.npz"], kind: ErrorKind::Unsupported, what: "only an adapter of an older mlx-lm, without the scale of its changes", advice: "train or save it with mlx-lm of 2024 or later, which writes adapters.safetensors and adapter_config.json" },
    Folder { endings: &["imatrix.dat", ".imatrix"], kind: ErrorKind::Unsupported, what: "only an importance matrix", advice: IMATRIX },
    Folder { endings: &[".bin", ".pt", ".pth", ".ckpt", ".distcp"], kind: ErrorKind::Unsupported, what: "only PyTorch pickles", advice: PICKLE },
    Folder { endings: TOKENIZERS, kind: ErrorKind::UnknownContainer, what: "a tokenizer without weights", advice: "fetch the weights too: the .safetensors or GGUF files of the model" },
    Folder { endings: &["adapter_config.json"], kind: ErrorKind::UnknownContainer, what: "the config of an adapter without its weights", advice: "fetch adapter_model.safetensors too" },
    Folder { endings: &["config.json", "params.json"], kind: ErrorKind::UnknownContainer, what: "a config without weights", advice: "fetch the weights too: the .safetensors or GGUF files of the model" },
];

/// The error for a directory without a supported container.
pub(super) fn error(probe: &Probe<'_>) -> Error {
    let names = probe.directory.unwrap_or_default();
    if names.is_empty() {
        return Error::new(ErrorKind::UnknownContainer, "the directory is empty");
    }
    if let Some(error) = hub_cache(probe.path, names) {
        return error;
    }
    if let Some(partial) = names.iter().find(|name| is_partial(name)) {
        return Error::malformed(format!(
            "the directory contains only an unfinished download: {partial}"
        ))
        .advise("wait for the download to finish, or restart it");
    }
    let weights = names.iter().filter(|name| WEIGHTS.iter().any(|ending| name.ends_with(ending)));
    let mut links = weights.map(|name| probe.options.files.check_link(&probe.path.join(name)));
    if let Some(error) = links.find_map(Result::err) {
        return error;
    }
    let is_of_whisper = |name: &&String| {
        name.ends_with(".bin")
            && head_in_folder(probe, name).is_some_and(|head| whisper_ggml::is_head(&head))
    };
    if let Some(name) = names.iter().find(is_of_whisper) {
        return Error::mismatch(
            "the weights in the directory are files of whisper.cpp, which are opened one by one",
        )
        .advise(format!("give the path of one of them, such as {name}"));
    }
    if let Some(error) = ctranslate2_folder(probe, names) {
        return error;
    }
    let inner = models_inside(probe.path, names);
    for Folder { endings, kind, what, advice } in FOLDERS {
        let fits = |name: &&String| endings.iter().any(|ending| name.ends_with(ending));
        if let Some(name) = names.iter().find(fits) {
            // A pipeline of several models has configs of its own beside their folders.
            if *kind == ErrorKind::UnknownContainer && !inner.is_empty() {
                break;
            }
            let mut pickles = names.iter().filter(fits).take(MOST).filter(|_| *advice == PICKLE);
            if let Some(error) = pickles.find_map(|name| damaged(probe, name)) {
                return error;
            }
            let missing = missing_pickles(probe, names);
            let fault = format!("the directory contains {what}, such as {name}{missing}");
            return advised(Error::new(*kind, fault), advice);
        }
    }
    let error = Error::new(
        ErrorKind::UnknownContainer,
        "no weights here: neither .gguf nor .safetensors files",
    );
    match inner.is_empty() {
        _ if names.iter().any(|name| name == "modules.json") && !inner.is_empty() => {
            error.advise(format!(
                "move the files of the Transformer's folder next to modules.json, and state its path there as an empty \
                 text; or give the folder, without the other modules: {}",
                inner.join(", ")
            ))
        }
        true => error.advise("give the directory that holds the model, or one of its files"),
        false => error.advise(format!("give one of its folders: {}", inner.join(", "))),
    }
}

/// The most folders that are looked into and named.
const MOST: usize = 64;

/// The error of a file that is no whole file of its format: cut short, or a server's answer. Only files of this machine
/// are read.
fn damaged(probe: &Probe<'_>, name: &str) -> Option<Error> {
    let path = Some(probe.path.join(name)).filter(|path| path.is_file())?;
    let source = Source::open(&path, probe.options.access).ok()?;
    let error = super::foreign::check(&source, probe.options).err()?;
    (error.kind() != ErrorKind::Unsupported).then(|| error.in_file(&path))
}

/// The list of MD5 sums next to Meta's weights.
const CHECKLIST: &str = "checklist.chk";

/// The files of Meta's weights (`consolidated.02.pth`) that are missing, for a message: those between others, and those
/// that the list next to them has.
fn missing_pickles(probe: &Probe<'_>, names: &[String]) -> String {
    let number =
        |name: &str| name.strip_prefix("consolidated.")?.strip_suffix(".pth")?.parse::<u16>().ok();
    let last = names.iter().filter_map(|name| number(name)).max();
    let between = (0..last.unwrap_or(0)).map(|number| format!("consolidated.{number:02}.pth"));
    let path = probe.path.join(CHECKLIST);
    let small = std::fs::metadata(&path).is_ok_and(|file| file.len() < 1 << 16);
    let source = small.then(|| Source::open(&path, probe.options.access).ok()).flatten();
    let list = source.and_then(|source| {
        let mut bytes = crate::bytes::try_zeroed(usize::try_from(source.len()).ok()?).ok()?;
        source.read_at(0, &mut bytes).ok()?;
        String::from_utf8(bytes).ok()
    });
    let listed = list.iter().flat_map(|text| text.lines());
    let listed = listed.filter_map(|line| line.split_whitespace().nth(1).map(str::to_owned));
    let listed = listed.filter(|name| number(name).is_some());
    let mut missing: Vec<String> = between.chain(listed).collect();
    missing.retain(|name| !names.contains(name));
    missing.sort_unstable();
    missing.dedup();
    match missing.as_slice() {
        [] => String::new(),
        [one] => format!("; {one} is missing"),
        several => format!("; {} are missing", several.join(", ")),
    }
}

/// The folders of a directory that hold weights.
fn models_inside(path: &Path, names: &[String]) -> Vec<String> {
    let is_weights = |entry: std::io::Result<std::fs::DirEntry>| {
        let name = entry.map(|entry| entry.file_name()).unwrap_or_default();
        Path::new(&name)
            .extension()
            .is_some_and(|ending| ending == "safetensors" || ending == "gguf")
    };
    let holds = |name: &&String| {
        std::fs::read_dir(path.join(name)).is_ok_and(|mut entries| entries.any(is_weights))
    };
    let found = names.iter().take(MOST).filter(holds).take(8);
    found.map(|name| shown(&path.join(name))).collect()
}

fn shown(path: &Path) -> String {
    Text::from_path(path).brief()
}

/// The error for a folder of the Hugging Face cache above a snapshot: `hub`, which holds
/// `models--ORG--NAME`, which holds `blobs`, `refs` and `snapshots/COMMIT`.
fn hub_cache(path: &Path, names: &[String]) -> Option<Error> {
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    let absolute = std::path::absolute(path).ok()?;
    let named = |folder: Option<&Path>| {
        let name = folder?.file_name()?.to_str()?;
        ["models--", "datasets--", "spaces--"]
            .iter()
            .any(|start| name.starts_with(start))
            .then_some(())
    };
    let (what, repository) = if has("snapshots") && (has("blobs") || has("refs")) {
        ("a model's folder", path.to_path_buf())
    } else if named(absolute.parent()).is_some() {
        match absolute.file_name()?.to_str()? {
            "snapshots" => ("the snapshots", above(path)),
            "blobs" => ("the blobs", above(path)),
            "refs" => ("the references", above(path)),
            _ => return None,
        }
    } else if let Some(name) = names.iter().find(|name| name.starts_with("models--")) {
        let fault = "the Hugging Face cache, which holds several models";
        let error = Error::new(ErrorKind::UnknownContainer, fault);
        let models = names.iter().filter(|name| name.starts_with("models--")).take(MOST);
        let mut whole = models.filter_map(|name| snapshots(&path.join(name)).into_iter().next());
        let one = whole.next().unwrap_or_else(|| path.join(name));
        let advice = format!("give a snapshot of one of them, such as {}", shown(&one));
        return Some(error.advise(advice));
    } else {
        return None;
    };
    let fault = format!("{what} in the Hugging Face cache, not a model directory");
    let error = Error::new(ErrorKind::UnknownContainer, fault);
    Some(match snapshots(&repository).as_slice() {
        [] => error.advise("it has no snapshot yet: the download did not finish; restart it"),
        [one] => error.advise(format!("give its snapshot: {}", shown(one))),
        [one, ..] => error.advise(format!("give one of its snapshots, such as {}", shown(one))),
    })
}

/// The folder that holds a folder.
fn above(path: &Path) -> PathBuf {
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) if path.file_name().is_some() => parent.to_path_buf(),
        _ => path.join(".."),
    }
}

/// The snapshots of a model in the cache that have files; the one that `refs/main` names comes first.
fn snapshots(repository: &Path) -> Vec<PathBuf> {
    let folder = repository.join("snapshots");
    let entries = std::fs::read_dir(&folder).into_iter().flatten().take(MOST).flatten();
    let mut found: Vec<_> =
        entries.map(|entry| entry.path()).filter(|path| has_files(path)).collect();
    let refers = |name: &std::ffi::OsStr| {
        let main = repository.join("refs").join("main");
        let source = crate::bytes::Source::open(&main, crate::bytes::Access::Read).ok()?;
        let commit = source.bytes(0..source.len().min(64)).ok()?;
        Some(commit.trim_ascii() == name.as_encoded_bytes())
    };
    found.sort_by_key(|path| {
        let main = path.file_name().and_then(refers).unwrap_or(false);
        (!main, path.clone())
    });
    found
}
