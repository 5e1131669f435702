//! What a model has beside its tensors, from one container's words to another's.

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use weighbridge::WeightStore;
use weighbridge::arch::resolve;
use weighbridge::metadata::{KeyValues, Value};
use weighbridge::translate::gguf_metadata;

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

fn of_gguf(path: &Path) -> BTreeMap<String, String> {
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
        let expected = of_gguf(&root.join(format!("gguf/model/{file}.gguf")));
        assert_eq!(without(listed(&keys)), without(expected), "{directory}");
    }
}
