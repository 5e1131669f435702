//! Text from tokens is that of Hugging Face's `tokenizers`, and the same from every container.

use std::path::Path;

use crate::support::{Gguf, Kv, Safetensors, copy_of, f32s, folder, put, sample};
use crate::tokenizer::files::{field, piece};
use tempfile::TempDir;
use weighbridge::container::{GGUF, MLX};
use weighbridge::json::{Json, json};
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::tokenizer::Detokenizer;
use weighbridge::translate::tokenizer_json;
use weighbridge::{DType, ErrorKind, Model, OpenOptions, WriteOptions};

fn detokenizer(model: &Model) -> Detokenizer {
    let tokenizer = model.tokenizer().expect("a sound tokenizer").expect("a tokenizer");
    tokenizer.detokenizer().unwrap_or_else(|error| panic!("{error}"))
}

/// A directory with this tokenizer.
fn directory(tokenizer: &Json) -> (TempDir, Model) {
    let weights = Safetensors::new().tensor("t", "F32", &[1], f32s(&[1.0])).build();
    let folder = folder(&[("model.safetensors", weights)]);
    put(folder.path(), "tokenizer.json", tokenizer.to_string());
    let model = Model::open(folder.path()).expect("a model");
    (folder, model)
}

/// The tokens of one stream, one at a time: the parts that are complete, and the rest.
fn streamed(detokenizer: &Detokenizer, tokens: &[u32]) -> Vec<String> {
    let mut stream = detokenizer.stream();
    let mut parts: Vec<String> = tokens.iter().map(|token| stream.push(*token)).collect();
    parts.push(stream.finish());
    parts
}

/// `xtask/oracles/decoders.py` made the tokenizers, the tokens and the texts.
#[test]
fn texts_are_those_of_tokenizers() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/decoders.json");
    let path = std::env::var_os("WEIGHBRIDGE_DECODERS").map_or(path, Into::into);
    let found = Json::parse(&std::fs::read(path).expect("a file")).expect("JSON");
    let cases = found["cases"].as_array().expect("cases");
    assert!(cases.len() >= 12);
    for case in cases {
        let (_folder, model) = directory(&case["tokenizer"]);
        let detokenizer = detokenizer(&model);
        for pair in case["texts"].as_array().expect("texts") {
            let tokens = pair[0].as_array().expect("tokens").iter();
            let tokens = tokens.map(|token| u32::try_from(token.as_u64()?).ok());
            let tokens: Vec<u32> = tokens.collect::<Option<_>>().expect("tokens");
            let found = detokenizer.decode(&tokens);
            assert_eq!(found, *pair[1].as_str().expect("a text"), "{}: {tokens:?}", case["name"]);
            assert_eq!(found, streamed(&detokenizer, &tokens).concat());
        }
    }
}

/// A tokenizer of Llama 2's kind: blocks for spaces, and bytes for unknown characters.
fn of_blocks(prefix: bool) -> Json {
    let mut words = vec!["<unk>".to_owned(), "<s>".to_owned(), "</s>".to_owned()];
    words.extend((0..=255).map(|byte| format!("<0x{byte:02X}>")));
    let rest = ["▁", "▁▁", "▁the", "horse", "s", "é", "\n", "<turn>", "▁▁▁"];
    words.extend(rest.map(str::to_owned));
    let vocabulary: weighbridge::json::Map<String, Json> =
        (0..).zip(&words).map(|(id, word)| (word.clone(), json!(id))).collect();
    let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
    let normalizer = match prefix {
        true => {
            json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, replace]})
        }
        false => replace,
    };
    let mut steps = vec![
        json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if prefix {
        steps.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    let added = |id: usize, special: bool| {
        json!({
            "id": id, "content": words[id], "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": special,
        })
    };
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [added(0, true), added(1, true), added(2, true), added(266, false), added(267, false)],
        "normalizer": normalizer, "pre_tokenizer": null, "post_processor": null,
        "decoder": {"type": "Sequence", "decoders": steps},
        "model": {
            "type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true,
            "ignore_merges": false, "vocab": vocabulary, "merges": [],
        },
    })
}

/// The number of a byte's token in [`of_blocks`].
fn byte(value: u32) -> u32 {
    value + 3
}

#[test]
fn a_text_is_the_same_from_every_container() {
    let texts: [(&[u32], &str, &str); 5] = [
        (&[1, 261, 262, 2], " thehorse", "thehorse"),
        (&[260, 261, 267, 266, 262], "   the   <turn>horse", "  the   <turn>horse"),
        (&[262, byte(0xf0), byte(0x9f), byte(0x99), byte(0x82), 261], "horse🙂 the", "horse🙂 the"),
        (
            &[262, byte(0x0a), byte(0x9f), 261],
            "horse\u{fffd}\u{fffd} the",
            "horse\u{fffd}\u{fffd} the",
        ),
        (&[259, 265, 0, 264], " \né", "\né"),
    ];
    for prefix in [false, true] {
        let source = copy_of(sample("hf"));
        put(source.path(), "tokenizer.json", of_blocks(prefix).to_string());
        put(source.path(), "special_tokens_map.json", "{}");
        let config = json!({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>"});
        put(source.path(), "tokenizer_config.json", config.to_string());
        let source = Model::open(source.path()).expect("a directory");
        let place = TempDir::new().expect("a folder");
        let mut models = vec![source];
        for (container, name) in [(&GGUF, "model.gguf"), (&MLX, "mlx")] {
            let plan = ops::convert(&models[0], &ConvertOptions::new(container));
            let path = place.path().join(name);
            plan.expect("a plan").run(&path, &WriteOptions::new()).expect("a model");
            models.push(Model::open(&path).expect("a model"));
        }
        for model in &models {
            let detokenizer = detokenizer(model);
            for (tokens, kept, stripped) in texts {
                let text = if prefix { stripped } else { kept };
                assert_eq!(detokenizer.decode(tokens), text, "{}: {tokens:?}", model.container());
            }
            // Within a text, a space stays, and a byte is part of a character.
            assert_eq!(detokenizer.token(261), " the".as_bytes());
            assert_eq!(detokenizer.token(byte(0xf0)), [0xf0]);
            assert_eq!(detokenizer.token(1), b"");
            assert_eq!(detokenizer.token(100_000), b"");
        }
    }
}

/// Text appears as soon as no later token can change it.
#[test]
fn characters_of_several_tokens_appear_whole() {
    let (_folder, model) = directory(&of_blocks(true));
    let blocks = detokenizer(&model);
    let tokens = [261, 262, byte(0xc3), byte(0xa9), 262, byte(0xc3)];
    assert_eq!(streamed(&blocks, &tokens), ["the", "horse", "", "", "éhorse", "", "\u{fffd}"]);
    let sample = Model::open(sample("hf")).expect("the sample");
    let letters = detokenizer(&sample);
    let tokenizer = sample.tokenizer().expect("a tokenizer").expect("tokens");
    let find = |text: &str| {
        let found = tokenizer.tokens().find(|token| *token.text == *text.as_bytes());
        found.expect("a token").id
    };
    // The letters of the two bytes of "é".
    let [first, second] = ["Ã", "©"].map(find);
    assert_eq!(
        streamed(&letters, &[first, second, first, first]),
        ["", "é", "", "\u{fffd}", "\u{fffd}"]
    );
}

/// llama.cpp marks the starts of words in a vocabulary of BERT, and BERT their continuations.
#[test]
fn word_pieces_of_gguf_are_those_of_bert() {
    let words = ["[CLS]", "▁weigh", "bridge", "▁.", "▁the"];
    let file = Gguf::new()
        .tensor("t", DType::F32, &[1], f32s(&[1.0]))
        .key("tokenizer.ggml.model", Kv::text("bert"))
        .key("tokenizer.ggml.tokens", Kv::texts(&words))
        .key("tokenizer.ggml.token_type", Kv::Array(5, [3, 1, 1, 1, 1].map(Kv::I32).to_vec()));
    let model = OpenOptions::new().open_memory("file", file.build()).expect("a model");
    assert_eq!(detokenizer(&model).decode(&[0, 4, 1, 2, 3]), "the weighbridge.");
}

#[test]
fn unknown_steps_are_refused() {
    let with = |decoder: Json| {
        let mut tokenizer = of_blocks(false);
        tokenizer["decoder"] = decoder;
        let (_folder, model) = directory(&tokenizer);
        let tokenizer = model.tokenizer().expect("a sound tokenizer").expect("a tokenizer");
        tokenizer.detokenizer().expect_err("a decoder that is not supported")
    };
    let unknown = with(json!({"type": "Sequence", "decoders": [{"type": "Mirror"}]}));
    assert_eq!(unknown.kind(), ErrorKind::Unsupported);
    assert!(unknown.to_string().contains("a step \"Mirror\""), "{unknown}");
    let pattern = with(json!({"type": "Replace", "pattern": {"Regex": "a+"}, "content": ""}));
    assert_eq!(pattern.kind(), ErrorKind::Unsupported);
    let broken = with(json!({"type": "Strip", "content": " ", "start": -1, "stop": 0}));
    assert_eq!(broken.kind(), ErrorKind::Malformed);
}

/// A model of SentencePiece spells its own symbols with blocks. They are matched in a text before
/// its spaces become blocks, so their text has spaces, as in GGUF. Runs of spaces are merged.
#[test]
fn symbols_of_sentencepiece_have_spaces() {
    let pieces = [
        piece("<unk>", 0.0, Some(2)),
        piece("<s>", 0.0, Some(3)),
        piece("</s>", 0.0, Some(3)),
        piece("a\u{2581}b", -1.0, Some(4)),
        piece("\u{2581}the", -2.0, None),
        piece("\u{2581}\u{2581}", 0.0, Some(4)),
        field(2, &[3 << 3, 2]),
    ];
    let weights = Safetensors::new().tensor("t", "F32", &[1], f32s(&[1.0])).build();
    let folder = folder(&[("model.safetensors", weights), ("tokenizer.model", pieces.concat())]);
    let model = Model::open(folder.path()).expect("a model");
    let made = tokenizer_json(&model).expect("a tokenizer").expect("a tokenizer");
    let added = made["added_tokens"].as_array().expect("tokens");
    let symbol = added.iter().find(|token| token["id"] == 3).expect("the symbol");
    assert_eq!((&symbol["content"], &symbol["special"]), (&json!("a b"), &json!(false)));
    assert!(added.iter().all(|token| token["id"] != 5), "{made}");
    assert_eq!(
        (&made["model"]["vocab"]["a b"], &made["model"]["vocab"]["▁▁"]),
        (&json!(3), &json!(5))
    );
    let detokenizer = detokenizer(&model);
    assert_eq!(detokenizer.decode(&[4, 5, 4]), "the   the");
    assert_eq!(detokenizer.decode(&[4, 3]), "thea b");
}
