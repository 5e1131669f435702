//! The sample model tells its tales, whatever file it comes in.

use std::path::Path;

use serde_json::Value;
use weighbridge::Model;
use weighbridge_reference::{Reference, likeliest};

/// Greedy continuations that transformers 5.23.0 computes in `f32` of the BF16 weights, as token
/// numbers behind each prompt, up to the end of the text.
const TALES: &str = include_str!("sample.json");

const END: u32 = 1;

fn tales() -> Vec<(Vec<u32>, Vec<u32>)> {
    let json: Value = serde_json::from_str(TALES).expect("JSON");
    let ids = |value: &Value| -> Vec<u32> {
        let ids = value.as_array().expect("a list").iter();
        ids.map(|id| u32::try_from(id.as_u64().expect("a number")).expect("a token")).collect()
    };
    let cases = json["cases"].as_array().expect("cases").iter();
    cases.map(|case| (ids(&case["prompt_ids"]), ids(&case["greedy_ids"]))).collect()
}

fn tells(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/sample").join(name);
    let model = Model::open(path).expect("the sample");
    let reference = Reference::new(&model).expect("a Llama");
    for (prompt, expected) in tales() {
        let mut session = reference.session();
        let mut ids = prompt.clone();
        let mut logits = session.next(&prompt).expect("logits");
        while ids.len() < expected.len() {
            let token = likeliest(&logits).expect("a token");
            ids.push(token);
            if token == END {
                break;
            }
            logits = session.next(&[token]).expect("logits");
        }
        assert_eq!(ids, expected, "{name}");
    }
}

#[test]
fn the_directory_tells_what_transformers_tells() {
    tells("hf");
}

#[test]
fn eight_bits_tell_the_same() {
    tells("sample-Q8_0.gguf");
}

/// Token by token, and all at once: the cache holds what attention needs.
#[test]
fn a_prompt_gives_the_same_in_pieces() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/sample/mlx-4bit");
    let model = Model::open(path).expect("the sample");
    let reference = Reference::new(&model).expect("a Llama");
    let (prompt, _) = tales().swap_remove(0);
    let whole = reference.session().logits(&prompt).expect("logits");
    let mut session = reference.session();
    for (token, expected) in prompt.iter().zip(whole.rows()) {
        let found = session.next(&[*token]).expect("logits");
        let off = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
        assert!(off < 1e-4, "{off}");
    }
    assert_eq!(session.len(), prompt.len());
}
