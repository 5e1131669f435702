//! Everything that a conversion reads has exactly one outcome, in every container.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use weighbridge::container::{Container, GGUF, MLX, OLLAMA, SAFETENSORS};
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::recipe::FileType;
use weighbridge::recipe::llama_cpp::LlamaOptions;
use weighbridge::write::{Account, ItemKind, Outcome};
use weighbridge::{ErrorKind, Model, WritePlan};

use crate::models::{models, open};
use crate::support::{put, sample};

const TARGETS: [&Container; 4] = [&GGUF, &SAFETENSORS, &MLX, &OLLAMA];

/// The models of the repository: directories and single files.
fn fixtures() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in ["hf", "hfq", "mlx", "gguf/model", "sample"] {
        let folder = root.join("tests/fixtures").join(folder);
        let entries = std::fs::read_dir(folder).expect("a folder of models");
        found.extend(entries.map(|entry| entry.expect("an entry").path()));
    }
    found.extend(["hf", "mlx-4bit", "sample-Q8_0.gguf"].map(sample));
    found.sort();
    found
}

/// The items of a model: tensors, their parts if there are several, keys, keys of its config.
fn items(model: &Model) -> Vec<(ItemKind, String)> {
    let mut items = Vec::new();
    for tensor in model.stored_tensors() {
        items.push((ItemKind::Tensor, tensor.name().to_owned()));
        if tensor.segments().nth(1).is_some() {
            let part = |name: String| (ItemKind::Part, name);
            items.extend(tensor.segments().map(|s| part(s.name.spelling().into_owned())));
        }
    }
    let keys = model.metadata().iter();
    items.extend(keys.map(|(key, _)| (ItemKind::Key, key.spelling().into_owned())));
    if let Some(config) = model.document("config.json").and_then(|json| json.as_object()) {
        for (key, value) in config {
            match value.as_object().filter(|_| key == "text_config") {
                Some(text) => items
                    .extend(text.keys().map(|k| (ItemKind::ConfigKey, format!("text_config.{k}")))),
                None => items.push((ItemKind::ConfigKey, key.clone())),
            }
        }
    }
    if model.path().is_dir() {
        let weights: Vec<PathBuf> = model.files().map(Path::to_path_buf).collect();
        for entry in std::fs::read_dir(model.path()).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            let slash = if path.is_dir() { "/" } else { "" };
            if !weights.contains(&path) {
                items.push((ItemKind::File, format!("{name}{slash}")));
            }
        }
    }
    items
}

fn outcomes(account: &Account) -> BTreeMap<(String, &str), (Outcome, &str)> {
    let mut found = BTreeMap::new();
    for item in &account.items {
        assert!(!item.detail.is_empty(), "{}: no detail", item.name);
        let key = (format!("{:?}", item.kind), item.name.as_str());
        let before = found.insert(key, (item.outcome, item.detail.as_str()));
        assert_eq!(before, None, "{} has two outcomes", item.name);
    }
    found
}

/// Checks a plan, if there is one. Gives the items without an outcome.
fn unaccounted(model: &Model, plan: weighbridge::Result<WritePlan>, what: &str) -> Vec<String> {
    let plan = match plan {
        Ok(plan) => plan,
        // Some models lack what a container requires.
        Err(error) => {
            assert_ne!(error.kind(), ErrorKind::Io, "{what}: {error}");
            return Vec::new();
        }
    };
    let account = outcomes(&plan.account);
    let items = items(model);
    let is_in = |(kind, name): &&(ItemKind, String)| {
        !account.contains_key(&(format!("{kind:?}"), name.as_str()))
    };
    let lacking = items.iter().filter(is_in);
    let lacking: Vec<String> =
        lacking.map(|(kind, name)| format!("{what}: {kind:?} {name}")).collect();
    if lacking.is_empty() {
        assert_eq!(items.len(), account.len(), "{what}: {account:?}");
    }
    lacking
}

fn all_unaccounted(model: &Model, what: &str) -> (Vec<String>, usize) {
    let (mut lacking, mut plans) = (Vec::new(), 0);
    for target in TARGETS {
        let plan = ops::convert(model, &ConvertOptions::new(target).allow_unloadable(true));
        plans += usize::from(plan.is_ok());
        lacking.extend(unaccounted(model, plan, &format!("{what} to {}", target.name)));
    }
    let mut options = LlamaOptions::new(FileType::Q8_0);
    options.allow_unloadable = true;
    let plan = ops::quantize(model, &options, None, Path::new("out.gguf"));
    lacking.extend(unaccounted(model, plan, &format!("{what} to Q8_0")));
    (lacking, plans)
}

#[test]
fn fixtures_are_accounted_for() {
    let (mut lacking, mut plans) = (Vec::new(), 0);
    for path in fixtures() {
        let Ok(model) = Model::open(&path) else { continue };
        let (items, planned) = all_unaccounted(&model, &path.display().to_string());
        lacking.extend(items);
        plans += planned;
    }
    assert!(lacking.is_empty(), "{} items:\n{}", lacking.len(), lacking.join("\n"));
    assert!(plans > 60, "{plans} plans");
}

#[test]
fn families_are_accounted_for() {
    let (mut lacking, mut plans) = (Vec::new(), 0);
    for named in models() {
        for (form, tensors) in &named.forms {
            let opened = open(&named, *form, tensors);
            let (items, planned) = all_unaccounted(&opened.model, &named.name);
            lacking.extend(items);
            plans += planned;
        }
    }
    assert!(lacking.is_empty(), "{} items:\n{}", lacking.len(), lacking.join("\n"));
    assert!(plans > 100, "{plans} plans");
}

#[test]
fn outcomes_say_where_and_why() {
    let folder = crate::support::copy_of(sample("hf"));
    put(folder.path(), "README.md", "a card");
    put(folder.path(), "weights.bak", "an unknown file");
    let model = Model::open(folder.path()).expect("a model");
    let plan = ops::convert(&model, &ConvertOptions::new(&GGUF)).expect("a plan");
    let found = outcomes(&plan.account);
    let of = |kind: &str, name| found[&(kind.to_owned(), name)];
    let q = "model.layers.0.self_attn.q_proj.weight";
    assert_eq!(of("Tensor", q), (Outcome::Written, "blk.0.attn_q.weight"));
    assert_eq!(of("ConfigKey", "hidden_size").0, Outcome::Derived);
    assert_eq!(of("File", "tokenizer.json"), (Outcome::Derived, "the keys of the GGUF file"));
    assert_eq!(of("File", "README.md"), (Outcome::LeftOut, "changes no result"));
    assert_eq!(of("File", "weights.bak"), (Outcome::LeftOut, "not a known file of a model"));
}
