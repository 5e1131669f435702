//! `embed`: a vector for each text.

use std::fs;
use std::path::Path;

use crate::support::{file, printed, refused, root, run};
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

    // The score of a reranker is one number, which has no direction.
    let (weight, bias) = dense(&folder.path().join("2_Dense"), [1, 64], "linear.Identity");
    let score: f64 = weight.iter().enumerate().map(|(i, weight)| weight * mean(i)).sum();
    let found = report(&[&*model, "--ids", IDS, "--pooling", "mean"]);
    near(&numbers(&found["embeddings"][0]["embedding"]), &[score + bias[0]]);
    assert_eq!(found["normalized"], false);

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
        let refusal = refused(&["run", "embed", &model, "--ids", IDS, "--pooling", "mean"]);
        assert!(refusal.starts_with(&format!("{status}\n")) && refusal.contains(said), "{refusal}");
    }
    let nothing = refused(&["run", "embed", BERT]);
    assert!(nothing.starts_with("2\n") && nothing.contains("--text"), "{nothing}");
}

/// Poolings that GGUF has no number for, several at once, and the settings of sentence-transformers.
#[test]
fn poolings_of_sentence_transformers() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let rows = hidden(BERT);
    let column = |i: usize| rows.iter().map(move |row| row[i]);
    let each = |of: &dyn Fn(usize) -> f64| (0..64).map(of).collect::<Vec<f64>>();
    let mean = each(&|i| column(i).sum::<f64>() / 4.0);
    let weighted =
        each(&|i| (1i32..).zip(column(i)).map(|(n, x)| f64::from(n) * x).sum::<f64>() / 10.0);
    for (stated, name, expected) in [
        (json!({ "pooling_mode_weightedmean_tokens": true }), "weighted_mean", weighted),
        (json!({ "pooling_mode": "max" }), "max", each(&|i| column(i).fold(f64::MIN, f64::max))),
        (
            json!({ "pooling_mode_mean_sqrt_len_tokens": true }),
            "mean_sqrt_len",
            each(&|i| column(i).sum::<f64>() / 2.0),
        ),
        (
            json!({ "pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true }),
            "first+mean",
            [rows[0].clone(), mean.clone()].concat(),
        ),
    ] {
        let model = stating(folder.path(), &stated);
        let found = report(&[&model, "--ids", IDS, "--no-normalize"]);
        assert_eq!(found["pooling"], name);
        near(&numbers(&found["embeddings"][0]["embedding"]), &expected);
        let gguf = folder.path().join("m.gguf").display().to_string();
        let told = run(&["convert", &model, &gguf, "--allow-incomplete", "--overwrite"]);
        let said = [told.out, told.err].concat();
        assert!(said.contains("unsupported pooling"), "{said}");
    }
    let model = stating(folder.path(), &json!({ "pooling_mode": "mean" }));
    let settings = json!({ "truncate_dim": 32 });
    let put = |name: &str, json: &Json| fs::write(folder.path().join(name), json.to_string());
    put("config_sentence_transformers.json", &settings).expect("a file");
    let found = report(&[&model, "--ids", IDS, "--no-normalize"]);
    near(&numbers(&found["embeddings"][0]["embedding"]), &mean[..32]);

    // Models that give no vector of a text.
    for (kind, said) in [("SpladePooling", "the module SpladePooling"), ("Dropout", "no Pooling")] {
        put("modules.json", &json!([{ "path": "1_Pooling", "type": kind }])).expect("a file");
        let refusal = refused(&["run", "embed", &model, "--ids", IDS]);
        assert!(refusal.contains(said), "{refusal}");
    }
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

    // A prompt, which is pooled or not.
    let put = |name: &str, json: Json| fs::write(folder.path().join(name), json.to_string());
    let settings = json!({ "prompts": { "query": "the " }, "default_prompt_name": "query" });
    put("config_sentence_transformers.json", settings).expect("a file");
    let found = report(&[&model, "--text", "Mills"]);
    near(
        &numbers(&found["embeddings"][0]["embedding"]),
        &numbers(&expected["embeddings"][0]["embedding"]),
    );
    let notes = found["notes"].to_string();
    assert!(notes.contains("each text begins with") && notes.contains("the "), "{notes}");
    let stated = json!({ "pooling_mode": "cls", "include_prompt": false });
    put("1_Pooling/config.json", stated).expect("a file");
    let found = report(&[&model, "--text", "Mills", "--no-normalize"]);
    let text = printed(&["run", "logits", &model, "--ids", "2,4,5,6,3", "--json"]);
    let rows: Json = serde_json::from_str(&text).expect("JSON");
    near(&numbers(&found["embeddings"][0]["embedding"]), &numbers(&rows["values"][2]));
    fs::remove_file(folder.path().join("config_sentence_transformers.json")).expect("removed");

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

/// As llama-embedding reads a file: each line is a text.
#[test]
fn lines_of_a_file_are_texts() {
    let (_folder, texts) = file("texts.txt", b"a bridge\n\na scale: -1\n");
    let words = ["llama-embedding", "-m", SAMPLE, "-f", &texts, "--embd-output-format", "json"];
    let found = printed(&[&words[..], &["--pooling", "cls"]].concat());
    let texts = ["--text", "a bridge", "--text", "a scale: -1", "--pooling", "first", "--json"];
    assert_eq!(found, printed(&[&["run", "embed", SAMPLE], &texts[..]].concat()));
}
