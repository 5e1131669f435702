//! What a model has beside its tensors, from one container's words to another's.

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use support::put;
use weighbridge::arch::resolve;
use weighbridge::metadata::{KeyValues, Value};
use weighbridge::translate::{gguf_metadata, hf_documents};
use weighbridge::{ModelConfig, WeightStore};

fn shared(path: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    if root.is_dir() {
        return Some(root.join(path));
    }
    let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(!ci, "{} is not here, and CI must not do without", root.display());
    println!("skipped: {} is not here", root.display());
    None
}

/// Keys with their values, types included, arrays by their elements.
fn listed(keys: &KeyValues) -> BTreeMap<String, String> {
    let value = |value: Value<'_>| match value.to_array() {
        Some(array) => {
            let elements: Vec<_> = array.values().collect();
            format!("{:?} {elements:?}", array.element_type())
        }
        None => format!("{value:?}"),
    };
    keys.iter().map(|(key, found)| (key.spelling().into_owned(), value(found))).collect()
}

fn of_file(path: &Path) -> BTreeMap<String, String> {
    let store = WeightStore::open(path).expect("a GGUF file");
    listed(&gguf_metadata(&store, &resolve(&store).expect("a model")).expect("metadata"))
}

/// Keys that the directories of the fixtures cannot give, and why.
const NOT_HERE: &[(&str, &str)] = &[
    ("tokenizer.", "the directories have no tokenizer; the converter was given one beside them"),
    ("general.file_type", "the dtypes of what is written say it, and the writer knows them"),
    ("general.name", "of the folder, which had another name when it was converted"),
];

fn without(mut keys: BTreeMap<String, String>) -> BTreeMap<String, String> {
    keys.retain(|key, _| NOT_HERE.iter().all(|(start, _)| !key.starts_with(start)));
    keys
}

#[test]
fn keys_are_those_of_the_converter() {
    for (directory, file) in [
        ("hf/llama-f16", "llama-f16"),
        ("hf/qwen2-f16", "qwen2-f16"),
        ("hf/mixtral-bf16", "mixtral-bf16"),
        ("hf/bert-f32", "bert-f32"),
        ("mlx/mixtral-mxfp4", "mixtral-bf16"),
        ("mlx/qwen2-q5g32-f16", "qwen2-f16"),
    ] {
        let Some(root) = shared("fixtures") else { return };
        let store = WeightStore::open(root.join(directory)).expect(directory);
        let keys = gguf_metadata(&store, &resolve(&store).expect(directory)).expect(directory);
        let expected = of_file(&root.join(format!("gguf/model/{file}.gguf")));
        assert_eq!(without(listed(&keys)), without(expected), "{directory}");
    }
}

/// What the documents of a GGUF file are, by name.
fn documents(path: &Path) -> BTreeMap<&'static str, Vec<u8>> {
    let store = WeightStore::open(path).expect("a GGUF file");
    let resolution = resolve(&store).expect("a model");
    hf_documents(&store, &resolution).expect("documents").into_iter().collect()
}

/// Fields that a directory made from GGUF has otherwise, and why.
const OTHERWISE: &[(&str, &str)] = &[
    ("architecture", "GGUF's llama is transformers' mixtral, where there are experts"),
    ("causal", "what BERT's class is, its config.json does not say"),
    ("type_vocab_size", "in GGUF a key of the tokenizer's, which no field is made of"),
];

fn fields(store: &WeightStore) -> BTreeMap<String, Json> {
    let config = ModelConfig::of(store, &resolve(store).expect("a model")).expect("a config");
    let fields = config.fields().into_iter().map(|field| (field.name.to_owned(), field.value));
    fields.filter(|(name, _)| OTHERWISE.iter().all(|(other, _)| name != other)).collect()
}

#[test]
fn documents_from_gguf_say_what_the_file_says() {
    for (file, directory) in [
        ("llama-f16", "hf/llama-f16"),
        ("qwen2-f16", "hf/qwen2-f16"),
        ("mixtral-bf16", "hf/mixtral-bf16"),
        ("bert-f32", "hf/bert-f32"),
    ] {
        let Some(root) = shared("fixtures") else { return };
        let gguf = root.join(format!("gguf/model/{file}.gguf"));
        let original = root.join(directory);
        let made = documents(&gguf);
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (name, bytes) in &made {
            put(folder.path(), name, bytes);
        }
        let weights = "model.safetensors";
        std::fs::copy(original.join(weights), folder.path().join(weights)).expect("weights");
        let store = WeightStore::open(folder.path()).expect("a directory");
        let of_gguf = WeightStore::open(&gguf).expect("a GGUF file");
        assert_eq!(fields(&store), fields(&of_gguf), "{file}");

        // What the original says, wherever both say it.
        let json = |path: PathBuf| -> Json {
            serde_json::from_slice(&std::fs::read(path).expect("a document")).expect("JSON")
        };
        let (original, made) =
            (json(original.join("config.json")), json(folder.path().join("config.json")));
        for (key, value) in made.as_object().expect("an object") {
            let there = original.get(key).filter(|value| !value.is_null());
            // The toy directories were made without a tokenizer, the GGUF files with one.
            if !key.ends_with("_token_id")
                && let Some(there) = there
            {
                assert_eq!(value, there, "{file}: {key}");
            }
        }

        // And back: the keys are those that the file had.
        let back = gguf_metadata(&store, &resolve(&store).expect("a model")).expect("metadata");
        let (back, own) = (listed(&back), of_gguf_keys(&gguf));
        for (key, value) in &own {
            let excused = NOT_BACK.iter().any(|(name, _)| key.starts_with(name));
            assert!(excused || back.get(key) == Some(value), "{file}: {key}: {:?}", back.get(key));
        }
    }
}

/// Keys that a file made from a directory made from a file has otherwise, and why.
const NOT_BACK: &[(&str, &str)] = &[
    ("general.file_type", "the writer's to say"),
    ("general.name", "of the folder"),
    ("general.size_label", "BERT's pooler is in the directory and not in GGUF"),
    ("tokenizer.ggml.scores", "counted anew from the merges, in the same order"),
];

fn of_gguf_keys(path: &Path) -> BTreeMap<String, String> {
    listed(&KeyValues::of(WeightStore::open(path).expect("a GGUF file").metadata()))
}
