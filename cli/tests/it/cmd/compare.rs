//! `compare`: what a conversion costs, over one text.

use crate::support;
use crate::support::{printed, refused, run};
use serde_json::Value as Json;

const HF: &str = "assets/sample/hf";
const Q8_0: &str = "assets/sample/sample-Q8_0.gguf";
const MLX: &str = "assets/sample/mlx-4bit";

fn compared(words: &[&str]) -> Json {
    let words = [&["quality"], words, &["--json"]].concat();
    serde_json::from_str(&printed(&words)).expect("JSON")
}

#[test]
fn coarser_quantizations_diverge_more() {
    let report = compared(&[HF, Q8_0, MLX, "--tokens", "512"]);
    assert_eq!((&report["schema"], &report["text"]), (&1.into(), &"the built-in text".into()));
    // The sample was made for 256 tokens; positions in the second half of each window count.
    assert_eq!((&report["tokens"], &report["context"]), (&512.into(), &256.into()));
    assert_eq!(report["positions"], 2 * 127);
    let models = report["models"].as_array().expect("models");
    let number = |model: usize, key: &str| models[model]["divergence"][key].as_f64().expect(key);
    assert!(models[0].get("divergence").is_none());
    assert!(number(1, "mean") > 0.0 && number(2, "mean") > 10.0 * number(1, "mean"), "{report}");
    assert!(number(1, "same_top_1") > number(2, "same_top_1"), "{report}");
    for model in [1, 2] {
        let ranks = ["median", "p90", "p99", "p99_9", "max"].map(|key| number(model, key));
        assert!(ranks.is_sorted(), "{ranks:?}");
        assert_eq!(models[model]["divergence"]["worst"][0]["divergence"], ranks[4]);
    }
    let sizes = [0, 1, 2].map(|model| models[model]["bytes"].as_u64().expect("bytes"));
    assert!(sizes.is_sorted_by(|a, b| a > b), "{sizes:?}");
}

#[test]
fn a_model_does_not_diverge_from_itself() {
    let report = compared(&[Q8_0, Q8_0, "--ids", "0,422,419,260,423,13,222,486"]);
    let divergence = &report["models"][1]["divergence"];
    assert_eq!((&divergence["max"], &divergence["same_top_5"]), (&0.0.into(), &1.0.into()));
    assert_eq!(report["models"][0]["perplexity"], report["models"][1]["perplexity"]);
    let fine = ["quality", Q8_0, Q8_0, "--tokens", "64", "--max-kl", "0"];
    assert!(printed(&fine).contains("same likeliest token"));
}

/// Computed from the logits that `logits` writes, by the definitions.
#[test]
fn figures_are_those_of_the_logits() {
    let ids = "0,422,419,260,423,13,222,486,421,260,300,301";
    let report = compared(&[HF, MLX, "--ids", ids]);
    let rows = |form: &str| -> Vec<Vec<f64>> {
        let json = printed(&["run", "logits", form, "--ids", ids, "--json"]);
        let json: Json = serde_json::from_str(&json).expect("JSON");
        let row = |row: &Json| {
            let logits: Vec<f64> =
                row.as_array().expect("a row").iter().map(|x| x.as_f64().expect("x")).collect();
            let sum: f64 = logits.iter().map(|x| x.exp()).sum();
            logits.iter().map(|x| x - sum.ln()).collect()
        };
        json["values"].as_array().expect("rows").iter().map(row).collect()
    };
    let (a, b) = (rows(HF), rows(MLX));
    let ids: Vec<usize> = ids.split(',').map(|id| id.parse().expect("an id")).collect();
    let places = ids.len() / 2..ids.len() - 1;
    let count = places.len() as f64;
    let (mut surprise, mut divergence, mut squares) = (0.0, 0.0, 0.0);
    for place in places {
        let next = ids[place + 1];
        surprise -= b[place][next];
        squares += (b[place][next].exp() - a[place][next].exp()).powi(2);
        divergence += a[place].iter().zip(&b[place]).map(|(a, b)| a.exp() * (a - b)).sum::<f64>();
    }
    let near = |key: &Json, expected: f64| {
        let found = key.as_f64().expect("a number");
        assert!((found - expected).abs() < 1e-4 * expected, "{found} for {expected}");
    };
    let model = &report["models"][1];
    near(&model["perplexity"], (surprise / count).exp());
    near(&model["divergence"]["mean"], divergence / count);
    near(&model["divergence"]["rms_probability_difference"], (squares / count).sqrt());
}

#[test]
fn a_bound_gives_status_1_and_other_vocabularies_are_refused() {
    let beyond = run(&["quality", HF, MLX, "--tokens", "64", "--max-kl", "0.0001"]);
    assert_eq!((beyond.status, beyond.err.as_str()), (Some(1), ""));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let other = folder.path().join("other");
    std::fs::create_dir(&other).expect("a folder");
    for entry in std::fs::read_dir(support::root().join(HF)).expect("the sample") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), other.join(entry.file_name())).expect("a copy");
    }
    let tokenizer = other.join("tokenizer.json");
    let text = std::fs::read_to_string(&tokenizer).expect("the tokenizer");
    std::fs::write(&tokenizer, text.replacen("\"Ġtime\"", "\"Ġtide\"", 1)).expect("written");
    let fault = refused(&["quality", HF, other.to_str().expect("a path")]);
    assert!(
        fault.starts_with("2\n") && fault.contains("is \"Ġtide\", but \"Ġtime\" in"),
        "{fault}"
    );
    // An embedding with more rows than the tokenizer has tokens: GGUF has fillers for them.
    let mut shorter: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    shorter["model"]["vocab"].as_object_mut().expect("tokens").remove("Ġfour");
    shorter["model"]["merges"].as_array_mut().expect("merges").pop();
    std::fs::write(&tokenizer, shorter.to_string()).expect("written");
    let other = other.to_str().expect("a path");
    let gguf = folder.path().join("other.gguf");
    let gguf = gguf.to_str().expect("a path");
    printed(&["convert", other, gguf]);
    printed(&["quality", other, gguf, "--tokens", "64"]);
    let short = refused(&["quality", HF, HF, "--ids", "1,2"]);
    assert!(short.starts_with("2\n") && short.contains("has 2 tokens, too few"), "{short}");
    let one = printed(&["quality", HF, "--tokens", "64"]);
    assert!(one.contains("PERPLEXITY") && !one.contains("KL"), "{one}");
}

#[test]
fn quantize_compares_its_result_with_the_source() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let words = ["quantize", HF, &path("x.gguf"), "Q4_K_M", "--compare"];
    let both = run(&words).out;
    assert!(both.contains("written in") && both.contains("same likeliest token"), "{both}");
    // Ids of a model without a tokenizer cannot come from a text: nothing is written.
    std::fs::create_dir(path("bare")).expect("a folder");
    for name in ["config.json", "model.safetensors"] {
        let from = support::root().join(HF).join(name);
        std::fs::copy(from, folder.path().join("bare").join(name)).expect("a copy");
    }
    let words = ["quantize", &path("bare"), &path("y.gguf"), "Q8_0", "--compare"];
    let words = [&words[..], &["--allow-incomplete"]].concat();
    let error = refused(&words);
    assert!(error.contains("tokenizer"), "{error}");
    assert!(!folder.path().join("y.gguf").exists());
}

/// Equal predictions have no divergences to show.
#[test]
fn the_worst_are_shown_if_there_are_any() {
    let said = |other| printed(&["quality", Q8_0, other, "--tokens", "16"]);
    assert!(said(MLX).contains("\nlargest divergences"), "{}", said(MLX));
    assert!(!said(Q8_0).contains("largest divergences"), "{}", said(Q8_0));
}
