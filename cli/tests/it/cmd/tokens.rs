//! `tokens`: the tokens of a text, and the text of tokens.

use crate::support::{printed, refused};
use serde_json::{Value as Json, json};

/// The same tokenizer in both containers.
const SAMPLES: [&str; 2] = ["assets/sample/hf", "assets/sample/sample-Q8_0.gguf"];

fn report(words: &[&str]) -> Json {
    let words = [&["run", "tokens"], words, &["--json"]].concat();
    serde_json::from_str(&printed(&words)).expect("JSON")
}

#[test]
fn tokens_cover_their_text_in_every_container() {
    let text = "Once upon a time, é 山\n";
    let reports = SAMPLES.map(|model| report(&[model, "--text", text])["texts"].clone());
    assert_eq!(reports[0], reports[1]);
    assert_eq!(reports[0][0]["text"], text);
    let tokens = reports[0][0]["tokens"].as_array().expect("tokens");
    let mut at = 0;
    for token in tokens.iter().filter(|token| token["special"] == false) {
        let range = [&token["start"], &token["end"]].map(|n| n.as_u64().expect("a number"));
        // Tokens of one character each cover the whole character.
        assert!(range[0] <= at && at <= range[1], "{token} after {at}");
        at = range[1];
    }
    assert_eq!(at, text.len() as u64);
}

#[test]
fn numbers_become_text_again() {
    let text = "Once upon a time";
    for model in SAMPLES {
        let found = report(&[model, "--text", text, "--text", "a"]);
        let tokens = found["texts"][0]["tokens"].as_array().expect("tokens");
        let ids = |token: &Json| token["id"].as_u64().filter(|_| token["special"] == false);
        let ids: Vec<String> = tokens.iter().filter_map(ids).map(|id| id.to_string()).collect();
        let ids = ids.join(",");
        assert_eq!(printed(&["run", "tokens", model, "--ids", &ids]).trim(), text);
        assert_eq!(found["texts"][1]["text"], "a");
        let back = report(&[model, "--ids", &ids]);
        assert_eq!(
            back["texts"][0]["tokens"].as_array().map(Vec::len),
            Some(ids.split(',').count())
        );
        assert_eq!(back["texts"][0]["tokens"][0]["start"], json!(null));
    }
    let beyond = refused(&["run", "tokens", SAMPLES[0], "--ids", "1000000"]);
    assert!(beyond.contains("token 1000000 is not in the vocabulary"), "{beyond}");
}

#[test]
fn a_table_has_a_row_for_each_token() {
    let shown = printed(&["run", "tokens", SAMPLES[1], "--text", "Once upon"]);
    let head: Vec<&str> = shown.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(head, ["ID", "BYTES", "TOKEN", "KIND"]);
    assert!(shown.lines().any(|line| line.contains("0..")), "{shown}");
}

#[test]
fn a_text_has_so_many_tokens() {
    let found = report(&[SAMPLES[1], "--text", "Once upon"]);
    let count = found["texts"][0]["tokens"].as_array().map_or(0, Vec::len);
    for words in [
        &["run", "tokens", SAMPLES[1], "--text", "Once upon"][..],
        &["tokenize", "-m", SAMPLES[1], "-p", "Once upon", "--show-count"],
    ] {
        assert_eq!(printed(words).lines().last(), Some(&*format!("{count} tokens")));
    }
}

/// A tokenizer needs no weights beside it.
#[test]
fn a_tokenizer_without_weights_splits_text() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("tokenizer.json");
    std::fs::copy(crate::support::root().join("assets/sample/hf/tokenizer.json"), &file)
        .expect("a copy");
    let whole = report(&[SAMPLES[0], "--text", "Once upon a time"])["texts"].clone();
    for path in [folder.path(), &file] {
        let path = path.to_str().expect("UTF-8");
        assert_eq!(report(&[path, "--text", "Once upon a time"])["texts"], whole, "{path}");
    }
    let said = refused(&["inspect", folder.path().to_str().expect("UTF-8")]);
    assert!(said.contains("a tokenizer without weights"), "{said}");
}

/// Without a text, the tokens that have a purpose, and those that stand for no text.
#[test]
fn special_tokens_have_purposes() {
    let [hf, gguf] = SAMPLES.map(|model| report(&[model])["special"].clone());
    let found = |list: &Json, purpose: &str| {
        let mut tokens = list.as_array().expect("a list").clone();
        tokens.retain(|token| {
            token["purposes"].as_array().expect("a list").contains(&json!(purpose))
        });
        tokens.first().map(|token| [token["id"].clone(), token["token"].clone()])
    };
    for purpose in ["bos", "eos"] {
        assert!(found(&gguf, purpose).is_some(), "{gguf}");
        assert_eq!(found(&hf, purpose), found(&gguf, purpose), "{purpose}");
    }
    let shown = printed(&["run", "tokens", SAMPLES[0]]);
    let head: Vec<&str> = shown.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(head, ["ID", "TOKEN", "PURPOSE"]);
    assert_eq!(shown.lines().count(), hf.as_array().map_or(0, Vec::len) + 1);
}
