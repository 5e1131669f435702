//! `embed`: a vector for each text.

use std::fs;
use std::path::Path;

use crate::support::{printed, refused, root, run};
use serde_json::{Value as Json, json};

const BERT: &str = "tests/fixtures/hf/bert-f32";
const SAMPLE: &str = "assets/sample/hf";
const IDS: &str = "1,5,9,2";

fn report(words: &[&str]) -> Json {
    let words = [&["run", "embed"], words, &["--json"]].concat();
    serde_json::from_str(&printed(&words)).expect("JSON")
}

fn numbers(json: &Json) -> Vec<f64> {
    json.as_array().expect("a list").iter().map(|value| value.as_f64().expect("f64")).collect()
}

/// The hidden states that `logits` prints.
fn hidden(model: &str) -> Vec<Vec<f64>> {
    let text = printed(&["run", "logits", model, "--ids", IDS, "--json"]);
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
    let shown = printed(&["run", "embed", SAMPLE, "--text", "Once upon", "--text", "Once upon"]);
    assert!(shown.starts_with("embeddings: 2 x 256, pooling: last\n"), "{shown}");
    assert!(shown.contains("SIMILARITY") && shown.matches("1.0000").count() == 2, "{shown}");
}

/// Writes a module of sentence-transformers: a matrix and a bias, and what is computed of the products.
fn dense(folder: &Path, [outputs, inputs]: [usize; 2], activation: &str) -> (Vec<f64>, Vec<f64>) {
    let value = |n: usize| ((n * 37 % 101) as f32 - 50.0) / 200.0;
    let weight: Vec<f32> = (0..outputs * inputs).map(value).collect();
    let bias: Vec<f32> = (0..outputs).map(|n| value(n + 7)).collect();
    let split = 4 * weight.len();
    let header = json!({
        "linear.weight": { "dtype": "F32", "shape": [outputs, inputs], "data_offsets": [0, split] },
        "linear.bias":
            { "dtype": "F32", "shape": [outputs], "data_offsets": [split, split + 4 * outputs] },
    });
    let header = header.to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(weight.iter().chain(&bias).flat_map(|value| value.to_le_bytes()));
    fs::create_dir_all(folder).expect("a folder");
    fs::write(folder.join("model.safetensors"), bytes).expect("a file");
    let config = json!({ "in_features": inputs, "out_features": outputs, "bias": true,
        "activation_function": format!("torch.nn.modules.{activation}") });
    fs::write(folder.join("config.json"), config.to_string()).expect("a file");
    let wide = |values: Vec<f32>| values.into_iter().map(f64::from).collect();
    (wide(weight), wide(bias))
}

#[test]
fn dense_layers_behind_the_pooling_are_computed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = stating(folder.path(), &json!({ "pooling_mode": "mean" }));
    let list = |path: &str| {
        let module = json!({ "path": path, "type": "sentence_transformers.models.Dense" });
        fs::write(folder.path().join("modules.json"), json!([module]).to_string()).expect("a file");
    };
    list("2_Dense");
    let (weight, bias) = dense(&folder.path().join("2_Dense"), [24, 64], "activation.Tanh");
    let rows = hidden(BERT);
    let mean = |i: usize| rows.iter().map(|row| row[i]).sum::<f64>() / rows.len() as f64;
    let expected = weight.chunks(64).zip(&bias).map(|(row, bias)| {
        let product: f64 = row.iter().enumerate().map(|(i, weight)| weight * mean(i)).sum();
        (product + bias).tanh()
    });
    let words = [&model, "--ids", IDS, "--pooling", "mean", "--no-normalize"];
    let found = report(&words.map(|word: &str| word));
    near(&numbers(&found["embeddings"][0]["embedding"]), &expected.collect::<Vec<_>>());

    // Layers that do not fit, or compute something else, and folders elsewhere.
    for (size, activation, path, status, said) in [
        (
            [24, 64],
            "activation.Mish",
            "2_Dense",
            "4",
            "activation torch.nn.modules.activation.Mish",
        ),
        ([24, 32], "linear.Identity", "2_Dense", "3", "takes 32 values, but gets 64"),
        ([24, 64], "linear.Identity", "../2_Dense", "3", "which is not next to it"),
        ([24, 64], "linear.Identity", "3_Dense", "5", "3_Dense"),
    ] {
        dense(&folder.path().join("2_Dense"), size, activation);
        list(path);
        let refusal = refused(&["run", "embed", &model, "--ids", IDS]);
        assert!(refusal.starts_with(&format!("{status}\n")) && refusal.contains(said), "{refusal}");
    }
    let nothing = refused(&["run", "embed", BERT]);
    assert!(nothing.starts_with("2\n") && nothing.contains("--text"), "{nothing}");
}

/// A BERT directory whose tokenizer is `vocab.txt` alone, and what becomes of it as GGUF.
#[test]
fn words_in_lines_are_a_tokenizer() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = stating(folder.path(), &json!({ "pooling_mode_mean_tokens": true }));
    let words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\nmill\n##s\n";
    fs::write(folder.path().join("vocab.txt"), words).expect("a file");
    let gguf = folder.path().join("words.gguf").display().to_string();
    assert_eq!(run(&["convert", &model, &gguf]).status, Some(0));
    let expected = report(&[&model, "--ids", "2,4,5,6,3"]);
    for path in [&model, &gguf] {
        let found = report(&[path, "--text", "The Mills"]);
        assert_eq!(found["embeddings"][0]["tokens"], 5, "{path}");
        let vector = |report: &Json| numbers(&report["embeddings"][0]["embedding"]);
        near(&vector(&found), &vector(&expected));
    }

    // The model has 64 positions.
    let long = "mill ".repeat(100);
    let refusal = refused(&["run", "embed", &model, "--text", &long]);
    assert!(refusal.contains("102 tokens, but the model has positions for 64"), "{refusal}");
    let settings = json!({ "max_seq_length": 4, "do_lower_case": false });
    fs::write(folder.path().join("sentence_bert_config.json"), settings.to_string())
        .expect("a file");
    let cut = report(&[&model, "--text", &long]);
    assert_eq!(cut["embeddings"][0]["tokens"], 4);
    assert!(cut["notes"].to_string().contains("102 tokens is cut to 4"), "{cut}");
    let same = report(&[&model, "--ids", "2,5,5,3"]);
    assert_eq!(cut["embeddings"][0]["embedding"], same["embeddings"][0]["embedding"]);
}
