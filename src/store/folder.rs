//! The files in a model's folder next to its weights: the table of those that belong to a model, by
//! relative path, and the modules of sentence-transformers.

use std::path::{Path, PathBuf};

use super::{Store, document};
use crate::bytes::{BrokenLink, Text};
use crate::error::Result;
use crate::json::Json;
use crate::place::choice::{TEMPLATES, is_folder_of_model};

/// The purpose of a file next to the weights.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Companion {
    /// Describes the stored weights. A written model gets a new one.
    OfWeights,
    /// Belongs to the model. A directory gets a copy, and GGUF has keys for its content.
    Translated,
    /// Belongs to the model. A directory gets a copy, and GGUF has no place for it.
    Copied,
    /// Changes no result.
    Irrelevant,
}

/// The documents that describe only the quantization of stored weights, next to `config.json`: those of
/// ModelOpt, AutoGPTQ, AutoAWQ's older releases, auto-round, quanto and ModelSlim.
pub(crate) const QUANTIZATION_DOCUMENTS: &[&str] = &[
    "hf_quant_config.json",
    "quantize_config.json",
    "quant_config.json",
    "quantization_config.json",
    "quanto_qmap.json",
    "quant_model_description.json",
];

/// The files by relative path, in lower case. `*` stands for any text without a slash, and a path
/// that ends in a slash is a folder. The first match counts.
#[rustfmt::skip]
const COMPANIONS: &[(Companion, &[&str])] = &[
    (Companion::OfWeights, QUANTIZATION_DOCUMENTS),
    (Companion::OfWeights, &[
        "config.json", "params.json", "*.index.json", "*.safetensors", "*.gguf", "*.npz", "pytorch_model*.bin", "model*.bin", "consolidated*", "flax_model*.msgpack", "tf_model*.h5",
        "rust_model.ot", "*.onnx", "*.onnx_data", "openvino_*", "model*.pt", "*.ckpt",
    ]),
    (Companion::Translated, &[
        "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
        "chat_template.jinja", "chat_template.json", "tokenizer.model", "tokenizer.model.v*", "tekken.json", "tiktoken.model", "qwen.tiktoken", "sentencepiece.bpe.model", "spiece.model", "vocab.json",
        "merges.txt", "vocab.txt", "preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json", "modules.json",
        "additional_chat_templates/*.jinja",
    ]),
    (Companion::Copied, &[
        "config_sentence_transformers.json", "sentence_*_config.json", "*.tiktoken", "normalizer.json",
        "*.py",
    ]),
    (Companion::Irrelevant, &[
        ".*", "readme*", "license*", "licence*", "notice*", "use_policy*", "citation*", "*.md", "*.pdf", "*.png", "*.jpg", "*.jpeg", "*.gif",
        "*.svg", "*.webp", "*.log", "*_results.json", "trainer_state.json", "trainer_log.jsonl", "training_args.*", "optimizer*",
        "scheduler*", "scaler*", "rng_state*", "latest", "requirements*.txt", "configuration.json", "recipe.yaml", "mergekit_config.y*ml",
        "imatrix*", "*.imatrix",
        "onnx/", "openvino/", "original/", "coreml/", "gguf/", "metal/", "runs/", "logs/", "eval/", "assets/", "images/", "imgs/", "figures/",
        "figs/", "media/", "checkpoint-*/", "global_step*/",
    ]),
];

/// The role of a file with this relative path, if the table has it.
pub(crate) fn companion(path: &str) -> Option<Companion> {
    let path = path.to_ascii_lowercase();
    let fits = |patterns: &[&str]| patterns.iter().any(|pattern| matches(pattern, &path));
    COMPANIONS.iter().find(|(_, patterns)| fits(patterns)).map(|(role, _)| *role)
}

fn matches(pattern: &str, path: &str) -> bool {
    let Some((start, end)) = pattern.split_once('*') else { return pattern == path };
    let rest = path.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
    rest.is_some_and(|any| !any.contains('/'))
}

/// The names in the model's folder that belong to a model under exactly this name, in the order of
/// the table.
pub(crate) fn documents() -> impl Iterator<Item = &'static str> {
    let belongs = |role: Companion| matches!(role, Companion::Translated | Companion::Copied);
    let names =
        COMPANIONS.iter().filter(move |(role, _)| belongs(*role)).flat_map(|(_, names)| *names);
    names.copied().filter(|name| !name.contains(['*', '/']))
}

/// Whether a directory that holds one model and nothing else may have a file with this relative path,
/// besides its weights and their index: a document that a conversion writes. Code is not among them,
/// since anybody may have written it.
pub(crate) fn is_document(path: &str) -> bool {
    /// The files of a module.
    const MODULE: [&str; 3] = ["config.json", "model.safetensors", "pytorch_model.bin"];
    let belongs = |role| match role {
        Companion::Translated | Companion::Copied => !path.ends_with(".py"),
        Companion::OfWeights => path.ends_with("config.json"),
        Companion::Irrelevant => false,
    };
    match path.rsplit_once('/') {
        Some((folder, name)) if folder != TEMPLATES => {
            is_folder_of_model(folder) && MODULE.contains(&name)
        }
        _ => companion(path).is_some_and(belongs),
    }
}

/// A module of sentence-transformers: a step from a text to its embedding.
#[derive(Clone, Debug)]
pub(crate) struct Module {
    /// The last part of its class: `Transformer`, `Pooling`, `Dense`, `Normalize`.
    pub(crate) kind: String,
    /// Its folder next to the weights; empty for that of the weights themselves.
    pub(crate) folder: String,
}

/// The files of a model's folder other than its weights.
#[derive(Debug, Default)]
pub(crate) struct FolderFiles {
    /// Files that a written directory gets copies of, by relative path, without [`documents`].
    pub(crate) copied: Vec<(String, PathBuf)>,
    /// Files that GGUF has no place for.
    pub(crate) untranslated: Vec<String>,
    /// Files and folders that the table does not have. Empty for a model opened as a single file,
    /// whose neighbors need not belong to it.
    pub(crate) unknown: Vec<String>,
}

impl Store {
    /// The modules that `modules.json` lists. Empty for a model that is not one of
    /// sentence-transformers.
    ///
    /// # Errors
    ///
    /// `Malformed`, `LimitExceeded` and `Io` if the file cannot be read.
    pub(crate) fn modules(&self) -> Result<Vec<Module>> {
        let json = self.read_document("modules.json")?;
        let module = |json: &Json| {
            let text = |key: &str| json.get(key).and_then(Json::as_str).unwrap_or_default();
            let kind = text("type").rsplit('.').next().unwrap_or_default().to_owned();
            // The folder of the weights may be written as a dot.
            let folder = text("path").trim_start_matches("./").trim_end_matches('/');
            Module {
                kind,
                folder: folder
                    .strip_prefix('.')
                    .filter(|rest| rest.is_empty())
                    .unwrap_or(folder)
                    .to_owned(),
            }
        };
        let list = json.as_deref().and_then(Json::as_array);
        Ok(list.into_iter().flatten().map(module).collect())
    }

    /// The folder of a module, unless it is elsewhere than directly next to the weights.
    pub(crate) fn module_folder(&self, module: &Module) -> Option<PathBuf> {
        let folder = self.folder.as_ref().filter(|_| is_plain(&module.folder))?;
        Some(folder.join(&module.folder))
    }

    /// Reads the `config.json` of a module. `None` if there is none.
    ///
    /// # Errors
    ///
    /// `Malformed` if it is not valid JSON; `LimitExceeded`; `Io` if it cannot be read.
    pub(crate) fn module_config(&self, module: &Module) -> Result<Option<Json>> {
        let path = self.module_folder(module).map(|folder| folder.join("config.json"));
        let Some(path) = path.filter(|path| self.place.is_file(path)) else { return Ok(None) };
        document::read(&self.place, &path, "config.json", &self.limits).map(|read| Some(read.json))
    }

    /// The files in a folder next to the weights, by relative path. Empty if there is no such folder.
    ///
    /// # Errors
    ///
    /// `Io` if the folder cannot be listed.
    pub(crate) fn files_in(&self, name: &str) -> Result<Vec<(String, PathBuf)>> {
        let folder = self.folder.as_ref().map(|folder| folder.join(name));
        let Some(folder) = folder.filter(|_| is_plain(name)) else { return Ok(Vec::new()) };
        if !self.place.is_folder(&folder) {
            return Ok(Vec::new());
        }
        let mut files: Vec<(String, PathBuf)> = self
            .place
            .names(&folder, usize::MAX)?
            .into_iter()
            .map(|file| (format!("{name}/{file}"), folder.join(file)))
            .collect();
        files.retain(|(name, path)| name.split('/').all(is_plain) && self.place.is_file(path));
        Ok(files)
    }

    /// Sorts the files next to the weights by what becomes of them.
    ///
    /// # Errors
    ///
    /// Same as [`modules`](Self::modules); `Io` if a folder cannot be listed.
    pub(crate) fn folder_files(&self) -> Result<FolderFiles> {
        let mut files = FolderFiles::default();
        let Some(folder) = &self.folder else { return Ok(files) };
        let mut folders: Vec<String> = self.modules()?.into_iter().map(|m| m.folder).collect();
        folders.retain(|name| !name.is_empty());
        for name in &folders {
            match is_plain(name) {
                true => files.copied.extend(self.files_in(name)?),
                false => files.unknown.push(format!("{name}/")),
            }
        }
        for (name, path) in self.files_in(TEMPLATES)? {
            match companion(&name) {
                Some(_) => files.copied.push((name, path)),
                None => files.unknown.push(name),
            }
        }
        files.copied.sort();
        files.copied.dedup();
        if !self.is_directory() {
            // The neighbors of a single file need not belong to it.
            files.unknown.clear();
            return Ok(files);
        }
        folders.push(TEMPLATES.to_owned());
        let opened: Vec<&Path> = self.files().collect();
        for name in self.place.names(folder, usize::MAX)? {
            let path = folder.join(&name);
            if folders.contains(&name) || opened.contains(&&*path) {
                continue;
            }
            let is_folder = self.place.is_folder(&path);
            // The index of shards may name those of a folder.
            let is_opened = |file: String| opened.contains(&&*path.join(file));
            if is_folder
                && opened.iter().any(|file| file.starts_with(&path))
                && self.place.names(&path, usize::MAX)?.into_iter().all(is_opened)
            {
                continue;
            }
            let slash = if is_folder { "/" } else { "" };
            let shown = format!("{name}{slash}");
            match companion(&shown) {
                Some(Companion::OfWeights | Companion::Irrelevant | Companion::Translated) => {}
                Some(Companion::Copied) if is_plain(&name) => {
                    files.untranslated.push(shown);
                    if documents().all(|document| document != name) {
                        files.copied.push((name, path));
                    }
                }
                _ => files.unknown.push(shown),
            }
        }
        Ok(files)
    }
}

impl Store {
    /// Links next to the weights of a directory whose targets do not exist, one sentence each.
    ///
    /// # Errors
    ///
    /// `Io` if the folder cannot be listed.
    pub(crate) fn broken_links(&self) -> Result<Vec<String>> {
        let Some(folder) = self.folder.as_ref().filter(|_| self.is_directory()) else {
            return Ok(Vec::new());
        };
        let sentence = |name: String| {
            let BrokenLink { target, blob } = self.place.broken_link(&folder.join(&name))?;
            let name = Text::new(name.as_bytes()).brief();
            let target = Text::from_path(&target);
            Some(match blob {
                Some(blob) => format!(
                    "{name} is a link to {target}, which does not exist: {} is read, which other programs do not find",
                    Text::from_path(&blob)
                ),
                None => {
                    format!("{name} is a link to {target}, which does not exist: it is not read")
                }
            })
        };
        Ok(self.place.names(folder, usize::MAX)?.into_iter().filter_map(sentence).collect())
    }
}

/// Whether a name is valid as that of a file in any directory.
fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | ' ' | '+');
    !name.is_empty() && !name.starts_with('.') && name.len() <= 255 && name.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_roles() {
        for (path, role) in [
            ("config.json", Some(Companion::OfWeights)),
            ("model-00001-of-00002.safetensors", Some(Companion::OfWeights)),
            ("tokenizer.json", Some(Companion::Translated)),
            ("additional_chat_templates/tool_use.jinja", Some(Companion::Translated)),
            ("sentence_bert_config.json", Some(Companion::Copied)),
            ("README.md", Some(Companion::Irrelevant)),
            ("onnx/", Some(Companion::Irrelevant)),
            ("checkpoint-200/", Some(Companion::Irrelevant)),
            ("colbert_linear.pt", None),
            ("1_Pooling/", None),
            ("a/config.json", None),
        ] {
            assert_eq!(companion(path), role, "{path}");
        }
    }

    #[test]
    fn code_and_cards_are_no_documents() {
        for path in
            ["config.json", "hf_quant_config.json", "tokenizer.json", "1_Pooling/config.json"]
        {
            assert!(is_document(path), "{path}");
        }
        for path in [
            "README.md",
            "a.gguf",
            "adapter.safetensors",
            "train.py",
            "notes.txt",
            "1_Pooling/a.json",
            "x/config.json",
        ] {
            assert!(!is_document(path), "{path}");
        }
        assert!(is_document("additional_chat_templates/tool_use.jinja"));
        assert!(!is_document("additional_chat_templates/notes.txt"));
    }

    #[test]
    fn documents_have_no_patterns() {
        assert!(documents().any(|name| name == "chat_template.jinja"));
        assert!(documents().all(|name| !name.contains(['*', '/'])));
    }
}
