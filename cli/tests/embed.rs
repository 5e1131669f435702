//! `embed`: a vector for each text.
#![allow(clippy::disallowed_methods, reason = "the files are the test's own")]

mod support;

use std::fs;
use std::path::Path;

use serde_json::{Value as Json, json};
use support::{printed, refused, root, run};

const BERT: &str = "tests/fixtures/hf/bert-f32";
const SAMPLE: &str = "assets/sample/hf";
const IDS: &str = "1,5,9,2";

fn report(words: &[&str]) -> Json {
    let words = [&["embed"], words, &["--json"]].concat();
    serde_json::from_str(&printed(&words)).expect("JSON")
}

fn numbers(json: &Json) -> Vec<f64> {
    json.as_array().expect("a list").iter().map(|value| value.as_f64().expect("f64")).collect()
}

/// The hidden states that `logits` prints.
fn hidden(model: &str) -> Vec<Vec<f64>> {
    let text = printed(&["logits", model, "--ids", IDS, "--json"]);
    let json: Json = serde_json::from_str(&text).expect("JSON");
    json["values"].as_array().expect("rows").iter().map(numbers).collect()
}

fn near(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-5, "{found} instead of {expected}");
    }
}

/// A copy of the model, with the files of sentence-transformers.
fn stating(folder: &Path, pooling: &Json) -> String {
    for file in ["config.json", "model.safetensors"] {
        fs::copy(root().join(BERT).join(file), folder.join(file)).expect("a copy");
    }
    let kind = "sentence_transformers.models.Pooling";
    let modules = json!([{ "idx": 1, "name": "1", "path": "1_Pooling", "type": kind }]);
    fs::write(folder.join("modules.json"), modules.to_string()).expect("a file");
    fs::create_dir_all(folder.join("1_Pooling")).expect("a folder");
    fs::write(folder.join("1_Pooling/config.json"), pooling.to_string()).expect("a file");
    folder.display().to_string()
}

#[test]
fn vectors_are_pooled_hidden_states() {
    let rows = hidden(BERT);
    let mean: Vec<f64> =
        (0..64).map(|i| rows.iter().map(|row| row[i]).sum::<f64>() / rows.len() as f64).collect();
    for (pooling, expected) in [("mean", &mean), ("first", &rows[0]), ("last", &rows[3])] {
        let report = report(&[BERT, "--ids", IDS, "--pooling", pooling, "--no-normalize"]);
        assert_eq!((&report["pooling"], &report["normalized"]), (&pooling.into(), &false.into()));
        assert_eq!(report["embeddings"][0]["tokens"], 4);
        near(&numbers(&report["embeddings"][0]["embedding"]), expected);
    }
    let length = mean.iter().map(|value| value * value).sum::<f64>().sqrt();
    let unit: Vec<f64> = mean.iter().map(|value| value / length).collect();
    near(&numbers(&report(&[BERT, "--ids", IDS])["embeddings"][0]["embedding"]), &unit);
}

#[test]
fn the_model_states_its_pooling_in_every_container() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let poolings = [
        (json!({ "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false }), "first"),
        (json!({ "pooling_mode": "lasttoken" }), "last"),
        (json!({ "pooling_mode_mean_tokens": true }), "mean"),
    ];
    for (number, (stated, pooling)) in poolings.iter().enumerate() {
        let model = folder.path().join(number.to_string());
        fs::create_dir(&model).expect("a folder");
        let model = stating(&model, stated);
        let gguf = folder.path().join(format!("{number}.gguf")).display().to_string();
        let converted = run(&["convert", &model, &gguf, "--allow-incomplete"]);
        assert_eq!(converted.status, Some(0), "{}", converted.err);
        let [from_hf, from_gguf] = [&model, &gguf].map(|path| report(&[path, "--ids", IDS]));
        assert_eq!(
            (&from_hf["pooling"], &from_gguf["pooling"]),
            (&json!(pooling), &json!(pooling))
        );
        let vector = |report: &Json| numbers(&report["embeddings"][0]["embedding"]);
        near(&vector(&from_gguf), &vector(&from_hf));
    }
}

#[test]
fn models_that_continue_texts_take_the_last_token() {
    let report = report(&[SAMPLE, "--text", "Once upon a time", "--text", "Once upon a time"]);
    assert_eq!(report["pooling"], "last");
    let texts = report["embeddings"].as_array().expect("a list");
    assert_eq!((texts.len(), &texts[0]["text"]), (2, &"Once upon a time".into()));
    assert_eq!(texts[0], texts[1]);
    let shown = printed(&["embed", SAMPLE, "--text", "Once upon", "--text", "Once upon"]);
    assert!(shown.starts_with("embeddings: 2 x 256, pooling: last\n"), "{shown}");
    assert!(shown.contains("SIMILARITY") && shown.matches("1.0000").count() == 2, "{shown}");
}

#[test]
fn layers_behind_the_pooling_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = stating(folder.path(), &json!({ "pooling_mode": "mean" }));
    let dense = json!([{ "path": "2_Dense", "type": "sentence_transformers.models.Dense" }]);
    fs::write(folder.path().join("modules.json"), dense.to_string()).expect("a file");
    for words in [&[][..], &["--pooling", "mean"]] {
        let refusal = refused(&[&["embed", &model, "--ids", IDS], words].concat());
        assert!(refusal.starts_with("4\n") && refusal.contains("dense layers"), "{refusal}");
    }
    let nothing = refused(&["embed", BERT]);
    assert!(nothing.starts_with("2\n") && nothing.contains("--text"), "{nothing}");
}
