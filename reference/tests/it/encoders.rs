//! Encoders whose classes no package has: the hidden states that llama.cpp computes (`xtask/oracles/encoders.py`).

use std::path::Path;

use serde_json::Value;
use weighbridge::ops::{ConvertOptions, convert};
use weighbridge::{Model, WriteOptions, container};
use weighbridge_reference::{Reference, Rows};

/// The largest difference, in standard deviations. llama.cpp rounds the values of GELU to F16.
const TOLERANCE: f32 = 4e-3;

const NAMES: [&str; 3] = ["jina-bert-v2", "jina-bert-v2-code", "nomic-bert-moe"];

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/encoders")
}

#[expect(clippy::cast_possible_truncation, reason = "hidden states are f32")]
fn expected(name: &str) -> (Vec<u32>, Rows) {
    let text = std::fs::read_to_string(folder().join(format!("{name}.json"))).expect("a file");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let number = |value: &Value| value.as_f64().expect("a number") as f32;
    let tokens = list(&json["tokens"]).iter().map(|token| number(token) as u32).collect();
    let rows = list(&json["hidden"]);
    let width = list(&rows[0]).len();
    let values = rows.iter().flat_map(list).map(|value| number(&value)).collect();
    (tokens, Rows::new(values, width))
}

fn check(name: &str, model: &Model) {
    let (tokens, expected) = expected(name);
    let reference = Reference::new(model).unwrap_or_else(|error| panic!("{name}: {error}"));
    let found = reference.encode(&tokens, None).expect("hidden states").hidden;
    assert_eq!((found.len(), found.width()), (expected.len(), expected.width()), "{name}");
    let square = expected.values().iter().map(|value| value * value).sum::<f32>();
    let deviation = (square / expected.values().len() as f32).sqrt();
    let pairs = found.values().iter().zip(expected.values());
    let most = pairs.map(|(a, b)| (a - b).abs()).fold(0f32, f32::max) / deviation;
    assert!(most <= TOLERANCE, "{name}: {most:.2e}");
}

#[test]
fn hidden_states_are_those_of_llama_cpp() {
    for name in NAMES {
        check(name, &Model::open(folder().join(format!("{name}.gguf"))).expect("a file"));
    }
}

#[test]
fn a_directory_gives_the_same() {
    for name in NAMES {
        let model = Model::open(folder().join(format!("{name}.gguf"))).expect("a file");
        let place = tempfile::tempdir().expect("a folder");
        let path = place.path().join("model");
        let plan = convert(&model, &ConvertOptions::new(&container::SAFETENSORS)).expect("a plan");
        plan.run(&path, &WriteOptions::new()).expect("it is written");
        check(name, &Model::open(&path).expect("a directory"));
    }
}
