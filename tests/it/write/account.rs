//! Everything that a conversion reads has exactly one outcome, in every container.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use weighbridge::adapter::Adapter;
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
            let is_inner = ["text_config", "llm_config"].contains(&key.as_str());
            match value.as_object().filter(|_| is_inner) {
                Some(text) => {
                    items.extend(text.keys().map(|k| (ItemKind::ConfigKey, format!("{key}.{k}"))));
                }
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
    lacking(model, &plan, what)
}

/// The items without an outcome. Tensors of merged adapters have their paths before their names.
pub(crate) fn lacking(model: &Model, plan: &WritePlan, what: &str) -> Vec<String> {
    let mut account = outcomes(&plan.account);
    account.retain(|(_, name), _| !name.starts_with('/'));
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

/// Adapters that are derived, written as GGUF and merged.
#[test]
fn adapters_are_accounted_for() {
    let base = Model::open(sample("hf")).expect("a model");
    let folder = crate::support::copy_of(sample("hf"));
    let file = folder.path().join("model.safetensors");
    let mut bytes = std::fs::read(&file).expect("weights");
    let length = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")) as usize;
    let header: Json = serde_json::from_slice(&bytes[8..8 + length]).expect("a header");
    let changed = "model.layers.0.self_attn.q_proj.weight";
    let start = header[changed]["data_offsets"][0].as_u64().expect("an offset") as usize;
    bytes[8 + length + start] ^= 0x7f;
    std::fs::write(&file, bytes).expect("weights");
    let tuned = Model::open(folder.path()).expect("a model");
    let out = tempfile::tempdir().expect("a folder");
    let path = out.path().join("adapter");
    let found = ops::extract_adapter(&base, &tuned, 4).expect("a plan");
    assert_eq!(lacking(&tuned, &found.plan, "extracted"), [""; 0]);
    let tensors = |plan: &WritePlan, outcome: Outcome| {
        let items = plan.account.items.iter().filter(|item| item.kind == ItemKind::Tensor);
        let items = items.filter(|item| item.outcome == outcome);
        items.map(|item| item.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(tensors(&found.plan, Outcome::Derived), [changed]);
    found.plan.run(&path, &weighbridge::WriteOptions::new()).expect("files");

    let adapter = Adapter::open(&path).expect("an adapter");
    let plan = ops::adapter_in_gguf(&adapter, &base, None).expect("a plan");
    let pair = ["A", "B"].map(|part| {
        format!("base_model.model.{}.lora_{part}.weight", changed.trim_end_matches(".weight"))
    });
    assert_eq!(tensors(&plan, Outcome::Written), pair);
    let others = plan.account.items.iter().filter(|item| item.kind != ItemKind::Tensor);
    let others: Vec<_> = others.map(|item| (item.name.as_str(), item.outcome)).collect();
    assert_eq!(others, [("format", Outcome::Derived), ("adapter_config.json", Outcome::Derived)]);

    let options = ConvertOptions::new(&GGUF).adapter(adapter, 1.0);
    let plan = ops::convert(&base, &options).expect("a plan");
    assert_eq!(lacking(&base, &plan, "merged"), [""; 0]);
    let merged = pair.map(|name| format!("{}: {name}", path.display()));
    assert_eq!(tensors(&plan, Outcome::Derived), merged);
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
