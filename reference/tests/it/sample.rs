//! The sample model tells its tales, whatever file it comes in.

use std::path::Path;

use serde_json::Value;
use weighbridge::{Model, WriteOptions, ops};
use weighbridge_reference::{Frequencies, Plan, Reference, TextTokens, likeliest};

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
    tells_by(name, &Reference::new(&model).expect("a Llama"));
}

fn tells_by(name: &str, reference: &Reference) {
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

/// A model that no family describes is run as a Llama on request only.
#[test]
fn a_stranger_tells_the_same_if_it_is_taken_for_a_llama() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/sample/hf");
    let folder = std::env::temp_dir().join(format!("weighbridge-stranger-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let weights = sample.join("model.safetensors");
    std::fs::copy(weights, folder.join("model.safetensors")).expect("a copy");
    let config = std::fs::read_to_string(sample.join("config.json")).expect("a config");
    let config = config.replace("\"llama\"", "\"unheard_of\"");
    std::fs::write(folder.join("config.json"), config).expect("a config");
    let model = Model::open(&folder).expect("the sample");
    assert!(Plan::of(&model).is_err() && Plan::assuming(&model, "unheard_of").is_err());
    let plan = Plan::assuming(&model, "llama").expect("names by structure");
    tells_by("a stranger", &Reference::with_plan(&model, plan).expect("a Llama"));
    let known = Model::open(sample).expect("the sample");
    assert!(Plan::assuming(&known, "gpt2").is_err(), "it is a Llama");
    std::fs::remove_dir_all(folder).expect("no more use");
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

/// llama.cpp multiplies what is rotated by a number of GGUF's metadata, also where positions are not scaled, and YaRN's own
/// factor as well.
#[test]
fn rotated_values_are_multiplied_by_the_key_of_gguf() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/sample/sample-Q8_0.gguf");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    std::fs::copy(sample, &path).expect("a copy");
    let magnitude = |keys: &[(&str, f32)], kind: &str| {
        let edit = |all: &mut weighbridge::metadata::KeyValues| {
            all.set_text("llama.rope.scaling.type", kind);
            keys.iter().for_each(|(key, value)| {
                all.set(
                    &format!("llama.rope.scaling.{key}"),
                    weighbridge::metadata::Value::F32(*value),
                );
            });
            Ok(())
        };
        ops::edit_metadata(&path, edit, &WriteOptions::new()).expect("changed");
        let plan = Plan::of(&Model::open(&path).expect("the sample")).expect("a Llama");
        match plan.ropes.first().map(|rope| &rope.frequencies) {
            Some(Frequencies::Fixed { magnitude, .. }) => *magnitude,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(magnitude(&[], "none").to_bits(), 1f32.to_bits());
    assert_eq!(magnitude(&[("attn_factor", 1.5)], "none").to_bits(), 1.5f32.to_bits());
    let of_yarn = magnitude(&[("factor", 4.0)], "yarn");
    assert!((of_yarn - 1.5 * (1.0 + 0.1 * 4f32.ln())).abs() < 1e-6, "{of_yarn}");
}

/// These texts with their tokens by Hugging Face's tokenizers 0.23, from the sample's
/// `tokenizer.json`.
const TEXTS: &[(&str, &[u32])] = &[
    ("Once upon a time,", &[422, 419, 260, 423, 13]),
    (
        "  two  spaces\n\nlines\t tab ",
        &[222, 377, 222, 261, 81, 66, 68, 409, 200, 200, 77, 304, 409, 199, 258, 66, 67, 222],
    ),
    ("12 tons, 8.5!?", &[18, 19, 281, 13, 222, 25, 15, 22, 2, 32]),
    ("it's we'll don't", &[286, 8, 84, 264, 70, 8, 273, 358, 269, 8, 85]),
    ("<s>Once</s> upon", &[0, 422, 1, 419]),
    (
        "café naïve 日本",
        &[268, 71, 129, 104, 391, 66, 129, 109, 87, 70, 222, 164, 247, 100, 164, 252, 107],
    ),
    ("", &[]),
];

#[test]
fn texts_have_the_same_tokens_from_each_container() {
    for name in ["hf", "sample-Q8_0.gguf", "mlx-4bit"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/sample").join(name);
        let model = Model::open(path).expect("the sample");
        let tokens = TextTokens::new(&model).expect("a tokenizer");
        let tokenizer = model.tokenizer().expect("a tokenizer").expect("tokens");
        let detokenizer = tokenizer.detokenizer().expect("a decoder");
        for (text, expected) in TEXTS {
            let found = tokens.of(text).expect("tokens");
            assert_eq!(found, *expected, "{name}: {text:?}");
            let again = detokenizer.decode(&found);
            assert_eq!(again, text.replace("<s>", "").replace("</s>", ""), "{name}");
        }
    }
}
