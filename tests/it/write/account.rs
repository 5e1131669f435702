//! Everything that a conversion reads has exactly one outcome, in every container.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use weighbridge::adapter::Adapter;
use weighbridge::container::{Container, GGUF, MLX, OLLAMA, SAFETENSORS, ollama};
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::recipe::FileType;
use weighbridge::recipe::llama_cpp::LlamaOptions;
use weighbridge::write::{Account, ItemKind, Outcome};
use weighbridge::{Error, ErrorKind, Model, WriteOptions, WritePlan};

use crate::models::{models, open};
use crate::support::{put, root, sample};

const TARGETS: [&Container; 4] = [&GGUF, &SAFETENSORS, &MLX, &OLLAMA];

const ALL: &[&str] = &["gguf", "safetensors", "mlx", "ollama", "Q8_0"];

/// Fixtures that are no models, and why. `*` stands for any text.
const NO_MODELS: &[(&str, &str)] = &[
    ("SHA256SUMS", "digests of the fixtures"),
    ("gguf/misc/imatrix.dat", "an importance matrix"),
    ("hostile/*", "made to be refused"),
    ("real/LICENSE.silero-vad", "a license"),
    ("real/mnist.pt", "Python objects"),
];

/// Models of which these plans are refused, and why: all others are planned.
const REFUSED: &[(&str, &[&str], &str)] = &[
    ("golden/*", ALL, "blocks of a dtype, without a config"),
    ("gguf/misc/align64.gguf", &["safetensors", "mlx"], "it states no heads"),
    ("gguf/misc/alltypes.gguf", &["safetensors", "mlx", "ollama"], "no architecture has its name"),
    ("gguf/misc/be-qwen2-*.gguf", &["ollama"], "Ollama reads no big-endian files"),
    ("gguf/misc/imatrix.gguf", &["safetensors", "mlx", "Q8_0"], "an importance matrix"),
    ("gguf/misc/kvtypes.gguf", &["safetensors", "mlx", "Q8_0"], "no architecture has its name"),
    ("gguf/misc/llama-gguf-example.gguf", &["safetensors", "mlx", "Q8_0"], "no architecture"),
    ("gguf/model/whisper-*.gguf", &["Q8_0"], "whisper.cpp quantizes such models"),
    ("gguf/quant/llama-Q2_0.gguf", &["ollama"], "Ollama does not read the dtype"),
    ("gguf/quant/llama-TQ*_0.gguf", &["ollama"], "Ollama does not read the dtype"),
    ("hf/deepseek-fp8-block128", &["gguf", "mlx", "Q8_0"], "its config states no heads"),
    ("hf/whisper-f32", &["Q8_0"], "whisper.cpp quantizes such models"),
    ("hostile/*", ALL, "made to be refused"),
    ("logits/whisper", &["Q8_0"], "whisper.cpp quantizes such models"),
    ("lora/*/adapter", ALL, "adapters are planned below, with their models"),
    // Ollama's store keeps a copy.
    ("lora/*/adapter.gguf", &["gguf", "safetensors", "mlx", "Q8_0"], "see above"),
    ("lora/*/merged.safetensors", ALL, "weights without a config"),
    ("ollama/store/*/moe/*", &["gguf", "Q8_0"], "more tokens than rows"),
    ("ollama/store/*/nvmo/latest", &["gguf", "Q8_0"], "more tokens than rows"),
    ("real/*.safetensors", ALL, "weights without a config"),
    ("real/for-tests-silero-*.bin", ALL, "another model in whisper.cpp's format"),
];

/// Whether a path fits a pattern with `*` for any text.
fn fits(path: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = path.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let last = pattern.contains('*').then(|| parts.next_back()).flatten();
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    last.map_or(rest.is_empty(), |last| rest.ends_with(last))
}

/// Endings of files that are next to models and describe them.
const NO_WEIGHTS: [&str; 5] = ["json", "keep", "md", "npy", "py"];

/// What may be a model below a folder: directories with a config, an index or an adapter, and files that are in no such
/// directory.
fn candidates(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).expect("a folder of fixtures");
    let paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    let describes = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with("config.json") || name.ends_with(".index.json")
    };
    let is_model = paths.iter().any(describes);
    found.extend(is_model.then(|| folder.to_path_buf()));
    for path in paths {
        let ending = path.extension().unwrap_or_default().to_string_lossy().into_owned();
        // Blobs are opened by their manifests, or by the links of snapshots.
        if path.is_dir() && !["blobs", "refs"].iter().any(|name| path.ends_with(name)) {
            candidates(&path, found);
        } else if path.is_file() && !is_model && !NO_WEIGHTS.contains(&ending.as_str()) {
            found.push(path);
        }
    }
}

/// The larger set of fixtures outside of the repository.
fn larger() -> Option<PathBuf> {
    std::env::var_os("WEIGHBRIDGE_FIXTURES").map(PathBuf::from)
}

/// The models of the repository and of the larger set, by their paths there.
fn fixtures() -> BTreeMap<String, PathBuf> {
    let roots = [larger(), Some(root().join("tests/fixtures")), Some(root().join("assets"))];
    let mut all = BTreeMap::new();
    for root in roots.into_iter().flatten() {
        let mut found = Vec::new();
        candidates(&root, &mut found);
        let name = |path: &Path| path.strip_prefix(&root).expect("a root").display().to_string();
        all.extend(found.into_iter().map(|path| (name(&path), path)));
    }
    all
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
    if model.container() == OLLAMA.name {
        items.extend(layers(model.path()).into_iter().map(|name| (ItemKind::File, name)));
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

/// The layers of a manifest of Ollama's apart from the weights: by their names, or else by their kinds.
fn layers(manifest: &Path) -> Vec<String> {
    let manifest = std::fs::read(manifest).expect("a manifest");
    let manifest: Json = serde_json::from_slice(&manifest).expect("JSON");
    let mut names: Vec<String> =
        manifest["config"].is_object().then(|| "config".to_owned()).into_iter().collect();
    for layer in manifest["layers"].as_array().into_iter().flatten() {
        let kind = layer["mediaType"].as_str().expect("a type").rsplit('.').next();
        let kind = kind.filter(|kind| !["model", "tensor"].contains(kind));
        names.extend(kind.map(|kind| layer["name"].as_str().unwrap_or(kind).to_owned()));
    }
    names
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

/// What plans of a model leave without an outcome, and which targets are refused.
#[derive(Default)]
struct Found {
    lacking: Vec<String>,
    refused: Vec<(&'static str, Error)>,
    plans: usize,
}

fn planned(model: &Model, what: &str) -> Found {
    let mut found = Found::default();
    let mut look = |target: &'static str, plan: weighbridge::Result<WritePlan>| match plan {
        Ok(plan) => {
            found.plans += 1;
            found.lacking.extend(lacking(model, &plan, &format!("{what} to {target}")));
        }
        Err(error) => found.refused.push((target, error)),
    };
    for target in TARGETS {
        let options = ConvertOptions::new(target).allow_unloadable(true);
        look(target.name, ops::convert(model, &options));
    }
    let mut options = LlamaOptions::new(FileType::Q8_0);
    (options.allow_unloadable, options.allow_requantize) = (true, true);
    look("Q8_0", ops::quantize(model, &options, None, Path::new("out.gguf")));
    found
}

/// Every fixture is a model of which every plan accounts for all that is read, or is listed above.
#[test]
fn fixtures_are_accounted_for() {
    let (mut faults, mut plans) = (Vec::new(), 0);
    let (mut no_models, mut refused) = (BTreeSet::new(), BTreeSet::new());
    for (name, path) in fixtures() {
        let model = match Model::open(&path) {
            Ok(model) => model,
            Err(error) => {
                match NO_MODELS.iter().find(|(pattern, _)| fits(&name, pattern)) {
                    Some((pattern, _)) => _ = no_models.insert(*pattern),
                    None => faults.push(format!("{name} does not open: {error}")),
                }
                continue;
            }
        };
        let found = planned(&model, &name);
        faults.extend(found.lacking);
        plans += found.plans;
        for (target, error) in found.refused {
            let row = REFUSED
                .iter()
                .find(|(pattern, targets, _)| targets.contains(&target) && fits(&name, pattern));
            match row {
                Some((pattern, ..)) => _ = refused.insert((*pattern, target)),
                None => faults.push(format!("{name} to {target}: {error}")),
            }
        }
    }
    // The larger set has a model for each line of the lists.
    if larger().is_some() {
        let lines = NO_MODELS.iter().filter(|(pattern, _)| !no_models.contains(pattern));
        faults.extend(lines.map(|(pattern, _)| format!("{pattern} opens")));
        for (pattern, targets, _) in REFUSED {
            let planned = targets.iter().filter(|target| !refused.contains(&(*pattern, target)));
            faults.extend(planned.map(|target| format!("{pattern} to {target} is planned")));
        }
        assert!(plans > 800, "{plans} plans");
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    assert!(plans > 250, "{plans} plans");
}

#[test]
fn families_are_accounted_for() {
    let (mut lacking, mut plans) = (Vec::new(), 0);
    for named in models() {
        for (form, tensors) in &named.forms {
            let opened = open(&named, *form, tensors);
            let found = planned(&opened.model, &named.name);
            for (target, error) in found.refused {
                let kinds = [ErrorKind::Unsupported, ErrorKind::Mismatch, ErrorKind::Malformed];
                assert!(kinds.contains(&error.kind()), "{} to {target}: {error}", named.name);
            }
            lacking.extend(found.lacking);
            plans += found.plans;
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
    found.plan.run(&path, &WriteOptions::new()).expect("files");

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

/// Those that other programs saved, merged into their models.
#[test]
fn merged_adapters_are_accounted_for() {
    let mut merged = 0;
    for (name, path) in fixtures() {
        let is_adapter = fits(&name, "lora/*/adapter") || fits(&name, "lora/*/adapter.gguf");
        let Some(base) = path.parent().map(|folder| folder.join("base")).filter(|_| is_adapter)
        else {
            continue;
        };
        let base = Model::open(base).expect("a model");
        for target in [&GGUF, &SAFETENSORS, &MLX] {
            let adapter = Adapter::open(&path).expect("an adapter");
            let options = ConvertOptions::new(target).allow_unloadable(true).adapter(adapter, 1.0);
            let plan =
                ops::convert(&base, &options).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(lacking(&base, &plan, &name), [""; 0]);
            merged += 1;
        }
    }
    assert!(merged >= 18, "{merged} plans");
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

    // Documents are the same files in Ollama's store.
    let store = tempfile::tempdir().expect("a folder");
    let place = ollama::place("m", Some(store.path())).expect("a name");
    let plan = ops::convert(&model, &ConvertOptions::new(&OLLAMA)).expect("a plan");
    plan.run(&place, &WriteOptions::new()).expect("written");
    let model = Model::open(&place).expect("a model");
    let plan = ops::convert(&model, &ConvertOptions::new(&GGUF)).expect("a plan");
    let found = outcomes(&plan.account);
    let of = |name| found[&("File".to_owned(), name)];
    assert_eq!(of("tokenizer.json"), (Outcome::Derived, "the keys of the GGUF file"));
    assert_eq!(of("config.json"), (Outcome::Derived, "see its keys"));
    assert_eq!(of("config"), (Outcome::LeftOut, "a config of Ollama's store"));
}
