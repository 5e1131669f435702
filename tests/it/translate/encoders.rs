//! Encoders from GGUF to transformers' files and back: what GGUF tells by the tokenizer, and what it
//! does not keep.
#![allow(clippy::disallowed_methods, reason = "the files are the test's own")]

use crate::support;
use std::path::Path;

use crate::support::{Gguf, Kv, f32s, folder, put};
use serde_json::Value as Json;
use tempfile::TempDir;
use weighbridge::container::{Container, GGUF, MLX, SAFETENSORS};
use weighbridge::metadata::{Value, ValueType};
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::{DType, Model, OpenOptions, Strictness, WriteOptions};

/// Positions of the toy models; RoBERTa's have two more rows, up to the padding's number.
const POSITIONS: u64 = 12;

fn bert(tokenizer: &str) -> Gguf {
    with_types(tokenizer, 1)
}

/// The same with a number of token types.
fn with_types(tokenizer: &str, types: u32) -> Gguf {
    let mut file = Gguf::new()
        .key("general.architecture", Kv::text("bert"))
        .key("bert.block_count", Kv::U32(1))
        .key("bert.context_length", Kv::U32(12))
        .key("bert.embedding_length", Kv::U32(8))
        .key("bert.feed_forward_length", Kv::U32(16))
        .key("bert.attention.head_count", Kv::U32(2))
        .key("bert.attention.layer_norm_epsilon", Kv::F32(1e-5))
        .key("bert.attention.causal", Kv::Bool(false))
        .key("tokenizer.ggml.model", Kv::text(tokenizer))
        .key("tokenizer.ggml.token_type_count", Kv::U32(types))
        .key("tokenizer.ggml.padding_token_id", Kv::U32(1));
    for (name, shape) in [
        ("token_embd.weight", &[10, 8][..]),
        ("position_embd.weight", &[POSITIONS, 8]),
        ("token_types.weight", &[u64::from(types), 8]),
        ("token_embd_norm.weight", &[8]),
        ("token_embd_norm.bias", &[8]),
        ("blk.0.attn_q.weight", &[8, 8]),
        ("blk.0.attn_q.bias", &[8]),
        ("blk.0.attn_k.weight", &[8, 8]),
        ("blk.0.attn_k.bias", &[8]),
        ("blk.0.attn_v.weight", &[8, 8]),
        ("blk.0.attn_v.bias", &[8]),
        ("blk.0.attn_output.weight", &[8, 8]),
        ("blk.0.attn_output.bias", &[8]),
        ("blk.0.attn_output_norm.weight", &[8]),
        ("blk.0.attn_output_norm.bias", &[8]),
        ("blk.0.ffn_up.weight", &[16, 8]),
        ("blk.0.ffn_up.bias", &[16]),
        ("blk.0.ffn_down.weight", &[8, 16]),
        ("blk.0.ffn_down.bias", &[8]),
        ("blk.0.layer_output_norm.weight", &[8]),
        ("blk.0.layer_output_norm.bias", &[8]),
    ] {
        file = tensor(file, name, shape);
    }
    file
}

fn tensor(file: Gguf, name: &str, shape: &[u64]) -> Gguf {
    let count: u64 = shape.iter().product();
    let first = name.bytes().map(u64::from).sum::<u64>();
    let values: Vec<f32> = (0..count).map(|n| ((first + n * 7) % 101) as f32 / 16.0).collect();
    file.tensor(name, DType::F32, shape, f32s(&values))
}

fn with_classifier(file: Gguf) -> Gguf {
    let layers = [
        ("cls.weight", &[8, 8][..]),
        ("cls.bias", &[8]),
        ("cls.output.weight", &[3, 8]),
        ("cls.output.bias", &[3]),
    ];
    layers.into_iter().fold(file, |file, (name, shape)| tensor(file, name, shape))
}

fn open(path: &Path) -> Model {
    let store = OpenOptions::new().strictness(Strictness::Strict).open(path);
    support::resolved(store.unwrap_or_else(|error| panic!("{error}"))).expect("a model")
}

fn written(folder: &TempDir, from: &str, to: &str, format: &'static Container) -> Vec<String> {
    let model = open(&folder.path().join(from));
    let plan = ops::convert(&model, &ConvertOptions::new(format).lossless(true));
    let plan = plan.unwrap_or_else(|error| panic!("{error}"));
    plan.run(&folder.path().join(to), &WriteOptions::new()).expect("it is written");
    plan.notes.clone()
}

fn config(folder: &TempDir, name: &str) -> Json {
    let bytes = std::fs::read(folder.path().join(name).join("config.json")).expect("a config");
    serde_json::from_slice(&bytes).expect("JSON")
}

/// The tensors of two models, by their own names.
fn assert_same(found: &Path, expected: &Path) {
    let (found, expected) = (open(found), open(expected));
    assert_eq!(found.len(), expected.len());
    for tensor in expected.stored_tensors() {
        let name = tensor.name();
        let found = found.stored_tensor(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(found.shape(), tensor.shape(), "{name}");
        assert!(*found.dequantize().unwrap() == *tensor.dequantize().unwrap(), "{name}");
    }
}

#[test]
fn roberta_counts_positions_behind_the_padding() {
    let folder = folder(&[("a.gguf", bert("gpt2").build()), ("x.gguf", bert("t5").build())]);
    for (from, to, kind, class) in [
        ("a.gguf", "a", "roberta", "RobertaModel"),
        ("x.gguf", "x", "xlm-roberta", "XLMRobertaModel"),
    ] {
        let notes = written(&folder, from, to, &SAFETENSORS);
        assert!(notes.iter().any(|note| note.contains("its first 2 rows")), "{notes:?}");
        let config = config(&folder, to);
        let said = |key: &str| config[key].clone();
        assert_eq!((said("model_type"), said("architectures")), (kind.into(), vec![class].into()));
        assert_eq!(said("max_position_embeddings"), POSITIONS + 2);
        assert_eq!((said("pad_token_id"), said("type_vocab_size")), (1.into(), 1.into()));
        let model = open(&folder.path().join(to));
        let name = "embeddings.position_embeddings.weight";
        let rows = model.stored_tensor(name).expect("the positions");
        assert_eq!(rows.shape(), [POSITIONS + 2, 8]);
        let gguf = open(&folder.path().join(from));
        let expected = gguf.stored_tensor("position_embd.weight").unwrap().dequantize().unwrap();
        assert_eq!(rows.dequantize().unwrap()[16..], expected[..]);
        // And back: the rows that no position has are gone again.
        let back = format!("{to}-back.gguf");
        written(&folder, to, &back, &GGUF);
        assert_same(&folder.path().join(&back), &folder.path().join(from));
        let back = open(&folder.path().join(back));
        assert_eq!(back.metadata().u64("bert.context_length"), Some(POSITIONS));
    }
}

/// If the tokenizer has another padding token than `config.json`, the kept config says how many rows came before the
/// positions.
#[test]
fn kept_configs_count_the_rows_before_the_positions() {
    let file = bert("gpt2").with(|file| {
        let pad = file.keys.iter_mut().find(|(key, _)| key.ends_with(b"padding_token_id"));
        pad.expect("the padding").1 = Kv::U32(5);
    });
    let kept = r#"{"max_position_embeddings": 14, "pad_token_id": 1}"#;
    let derived = r#"{"max_position_embeddings": 18, "pad_token_id": 5}"#;
    let keeping = file
        .clone()
        .key("weighbridge.config", Kv::text(kept))
        .key("weighbridge.config.derived", Kv::text(derived));
    let folder = folder(&[("kept.gguf", keeping.build()), ("bare.gguf", file.build())]);
    for (name, rows, pad) in [("kept", 14u64, 1), ("bare", 18, 5)] {
        let notes = written(&folder, &format!("{name}.gguf"), name, &SAFETENSORS);
        let said = format!("its first {} rows", rows - POSITIONS);
        assert!(notes.iter().any(|note| note.contains(&said)), "{name}: {notes:?}");
        let config = config(&folder, name);
        assert_eq!(config["max_position_embeddings"], rows, "{name}");
        assert_eq!(config["pad_token_id"], pad, "{name}");
        let model = open(&folder.path().join(name));
        let positions = model.stored_tensor("embeddings.position_embeddings.weight");
        assert_eq!(positions.expect("the positions").shape(), [rows, 8], "{name}");
    }
}

/// As `transformers` writes XLM-RoBERTa's, with a charsmap of six bytes.
const UNIGRAM: &str = r#"{
    "version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [
        {"id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
         "normalized": false, "special": true},
        {"id": 1, "content": "<pad>", "single_word": false, "lstrip": false, "rstrip": false,
         "normalized": false, "special": true},
        {"id": 2, "content": "</s>", "single_word": false, "lstrip": false, "rstrip": false,
         "normalized": false, "special": true},
        {"id": 3, "content": "<unk>", "single_word": false, "lstrip": false, "rstrip": false,
         "normalized": false, "special": true}
    ],
    "normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAEC/f7/"},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "WhitespaceSplit"},
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}
    ]},
    "post_processor": {"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                   {"SpecialToken": {"id": "</s>", "type_id": 0}}],
        "pair": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                 {"SpecialToken": {"id": "</s>", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}},
                 {"Sequence": {"id": "B", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]},
                           "</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}}},
    "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
    "model": {"type": "Unigram", "unk_id": 3, "byte_fallback": false, "vocab": [
        ["<s>", 0.0], ["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0], ["▁", -2.5], ["a", -3.25],
        ["▁a", -4.0], ["b", -5.5]
    ]}
}"#;

/// A tokenizer tells the texts of a pair apart, if the model has several types of tokens: without the key, transformers'
/// gives them one type, and a reranker other scores.
#[test]
fn pairs_have_types() {
    let tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "\u{2581}a", "b", "c", "d", "e", "f"];
    for types in [1, 2] {
        let file = with_types("bert", types)
            .key("tokenizer.ggml.tokens", Kv::Array(8, tokens.map(Kv::text).to_vec()))
            .key("tokenizer.ggml.cls_token_id", Kv::U32(2))
            .key("tokenizer.ggml.seperator_token_id", Kv::U32(3))
            .key("tokenizer.ggml.unknown_token_id", Kv::U32(1));
        let folder = folder(&[("x.gguf", file.build())]);
        written(&folder, "x.gguf", "x", &SAFETENSORS);
        let config = std::fs::read(folder.path().join("x/tokenizer_config.json")).expect("a file");
        let config: Json = serde_json::from_slice(&config).expect("JSON");
        let names = &config["model_input_names"];
        match types {
            1 => assert!(names.is_null(), "{names}"),
            _ => assert_eq!(names[1], "token_type_ids"),
        }
    }
}

/// T5's tokenizer in llama.cpp, with tokens for the last rows that no text has.
#[test]
fn the_likeliest_pieces() {
    let folder = folder(&[("x.gguf", bert("t5").build())]);
    written(&folder, "x.gguf", "x", &SAFETENSORS);
    let config = r#"{"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
        "pad_token": "<pad>", "sep_token": "</s>", "cls_token": "<s>"}"#;
    put(&folder.path().join("x"), "tokenizer.json", UNIGRAM);
    put(&folder.path().join("x"), "tokenizer_config.json", config);
    written(&folder, "x", "y.gguf", &GGUF);
    let gguf = open(&folder.path().join("y.gguf"));
    let metadata = gguf.metadata();
    let key = |name: &str| metadata.get(&format!("tokenizer.ggml.{name}"));
    let text = |name: &str| key(name).and_then(|value| value.to_text()?.to_str());
    assert_eq!((text("model"), text("pre")), (Some("t5"), Some("default")));
    for flag in [
        "add_space_prefix",
        "remove_extra_whitespaces",
        "add_bos_token",
        "add_eos_token",
        "add_sep_token",
    ] {
        assert_eq!(key(flag).and_then(|value| value.to_bool()), Some(true), "{flag}");
    }
    let list = |name: &str| match key(name) {
        Some(Value::Array(array)) => array,
        other => panic!("{name}: {other:?}"),
    };
    let charsmap = list("precompiled_charsmap");
    assert_eq!(charsmap.element_type(), ValueType::U8);
    assert!(charsmap.integers().expect("bytes").eq([0, 1, 2, 0xfd, 0xfe, 0xff]));
    assert!(list("token_type").integers().expect("kinds").eq([3, 3, 3, 2, 1, 1, 1, 1, 5, 5]));
    let scores: Vec<f64> = list("scores").floats().expect("scores").collect();
    assert_eq!(scores, [0.0, 0.0, 0.0, 0.0, -2.5, -3.25, -4.0, -5.5, -10_000.0, -10_000.0]);

    written(&folder, "y.gguf", "z", &SAFETENSORS);
    let read = |name: &str| -> Json {
        let bytes = std::fs::read(folder.path().join("z").join(name)).expect("a document");
        serde_json::from_slice(&bytes).expect("JSON")
    };
    assert_eq!(read("tokenizer.json"), serde_json::from_str::<Json>(UNIGRAM).expect("JSON"));
    let config = read("tokenizer_config.json");
    assert_eq!((&config["cls_token"], &config["sep_token"]), (&"<s>".into(), &"</s>".into()));
    assert_eq!(config["model_max_length"], POSITIONS);

    let charsmap = r#"{"type": "Precompiled", "precompiled_charsmap": "AAEC/f7/"}"#;
    let plain = UNIGRAM.replace(charsmap, r#"{"type": "NFKC"}"#);
    put(&folder.path().join("x"), "tokenizer.json", plain);
    let notes = written(&folder, "x", "plain.gguf", &GGUF);
    assert!(notes.iter().any(|note| note.contains("normalizer NFKC")), "{notes:?}");
    let gguf = open(&folder.path().join("plain.gguf"));
    assert!(gguf.metadata().get("tokenizer.ggml.precompiled_charsmap").is_none());

    // What stands for the charsmap and is none.
    for (from, to, fault) in [
        ("AAEC/f7/", "AAEC/f7", "precompiled_charsmap is not valid base64"),
        (r#""unk_id": 3"#, r#""unk_id": 3, "x": "#, "not valid JSON"),
    ] {
        put(&folder.path().join("x"), "tokenizer.json", UNIGRAM.replace(from, to));
        let model = open(&folder.path().join("x"));
        let error = ops::convert(&model, &ConvertOptions::new(&GGUF)).expect_err(fault);
        assert!(error.to_string().contains(fault), "{error}");
    }
}

/// As llama.cpp's converter writes it, but with the tokens around a text, which no file states.
#[test]
fn a_sentencepiece_model_alone() {
    let folder = folder(&[("x.gguf", bert("t5").build())]);
    written(&folder, "x.gguf", "x", &SAFETENSORS);
    // A charsmap, no space before a text, and spaces as they are.
    let normalizer =
        [crate::tokenizer::files::field(2, &[7, 0, 9]), vec![3 << 3, 0, 4 << 3, 0]].concat();
    for (name, bytes, flag, charsmap) in
        [("stated", normalizer, false, Some(vec![7, 0, 9])), ("silent", Vec::new(), true, None)]
    {
        let file = crate::tokenizer::files::fairseq(&bytes);
        put(&folder.path().join("x"), "sentencepiece.bpe.model", file);
        let to = format!("{name}.gguf");
        written(&folder, "x", &to, &GGUF);
        let gguf = open(&folder.path().join(to));
        let key = |name: &str| gguf.metadata().get(&format!("tokenizer.ggml.{name}"));
        let text = |name: &str| key(name).and_then(|value| value.to_text()?.to_str());
        assert_eq!((text("model"), text("pre")), (Some("t5"), Some("default")));
        for (name, flag) in [
            ("add_space_prefix", flag),
            ("remove_extra_whitespaces", flag),
            ("add_bos_token", true),
            ("add_eos_token", true),
            ("add_sep_token", true),
        ] {
            assert_eq!(key(name).and_then(|value| value.to_bool()), Some(flag), "{name}");
        }
        for (name, id) in [("bos", 0), ("eos", 2), ("unknown", 3), ("seperator", 2), ("padding", 1)]
        {
            let key = key(&format!("{name}_token_id"));
            assert_eq!(key.and_then(|value| value.to_i128()), Some(id), "{name}");
        }
        let list = |name: &str| match key(name) {
            Some(Value::Array(array)) => array,
            other => panic!("{name}: {other:?}"),
        };
        let texts: Vec<String> =
            list("tokens").texts().expect("texts").map(|text| text.to_string()).collect();
        assert_eq!(texts[..6], ["<s>", "<pad>", "</s>", "<unk>", ",", "▁the"]);
        assert!(list("token_type").integers().expect("kinds").eq([3, 3, 3, 2, 1, 1, 5, 5, 5, 5]));
        let scores: Vec<f64> = list("scores").floats().expect("scores").take(6).collect();
        assert_eq!(scores, [0.0, 0.0, 0.0, 0.0, -3.5, -4.25]);
        let found = key("precompiled_charsmap")
            .map(|_| list("precompiled_charsmap").integers().expect("bytes").collect::<Vec<_>>());
        assert_eq!(found, charsmap);
    }
}

/// The pooler of BERT's classifier is llama.cpp's first layer of a classifier.
#[test]
fn a_classifier_that_reads_the_pooler() {
    let folder = folder(&[("a.gguf", with_classifier(bert("bert")).build())]);
    let notes = written(&folder, "a.gguf", "a", &SAFETENSORS);
    assert_eq!(notes, [""; 0]);
    let said = config(&folder, "a");
    assert_eq!(said["architectures"][0], "BertForSequenceClassification");
    assert_eq!((&said["model_type"], &said["id2label"]["2"]), (&"bert".into(), &"LABEL_2".into()));
    let model = open(&folder.path().join("a"));
    for (name, canonical) in [
        ("bert.embeddings.word_embeddings.weight", "token_embedding.weight"),
        ("bert.encoder.layer.0.output.dense.weight", "layers.0.ffn.down.weight"),
        ("bert.pooler.dense.weight", "classifier.dense.weight"),
        ("bert.pooler.dense.bias", "classifier.dense.bias"),
        ("classifier.weight", "classifier.output.weight"),
        ("classifier.bias", "classifier.output.bias"),
    ] {
        assert!(model.stored_tensor(name).is_ok(), "{name}");
        assert!(model.tensor(canonical).is_ok(), "{canonical}");
    }
    written(&folder, "a", "back.gguf", &GGUF);
    assert_same(&folder.path().join("back.gguf"), &folder.path().join("a.gguf"));
}

/// llama.cpp takes the number of rows from the labels, so two default labels are written too.
#[test]
fn two_labels_by_default() {
    let layers = [("cls.weight", &[8, 8][..]), ("cls.output.weight", &[2, 8])];
    let file = layers.into_iter().fold(bert("bert"), |f, (name, shape)| tensor(f, name, shape));
    let labels = Kv::texts(&["LABEL_0", "LABEL_1"]);
    let file = file.key("bert.classifier.output_labels", labels).build();
    let folder = folder(&[("a.gguf", file), ("b.gguf", bert("bert").build())]);
    for (from, stated, count) in [
        ("a", true, Some(2)),
        // transformers omits them.
        ("a", false, Some(2)),
        ("b", true, None),
        ("b", false, None),
    ] {
        let _ = std::fs::remove_dir_all(folder.path().join(from));
        let _ = std::fs::remove_file(folder.path().join(format!("{from}-back.gguf")));
        written(&folder, &format!("{from}.gguf"), from, &SAFETENSORS);
        let path = folder.path().join(from).join("config.json");
        let mut said = config(&folder, from);
        said.as_object_mut().expect("an object").remove("id2label");
        if stated {
            said["id2label"] = serde_json::json!({"0": "LABEL_0", "1": "LABEL_1"});
        }
        std::fs::write(path, said.to_string()).expect("a config");
        let back = format!("{from}-back.gguf");
        written(&folder, from, &back, &GGUF);
        let back = open(&folder.path().join(back));
        let labels = back.metadata().array("bert.classifier.output_labels");
        assert_eq!(labels.map(|labels| labels.len()), count, "{from}");
    }
}

#[test]
fn a_classifier_of_two_layers() {
    let labels = Kv::texts(&["no", "perhaps", "yes"]);
    let named = with_classifier(bert("gpt2")).key("bert.classifier.output_labels", labels);
    let folder = folder(&[
        ("named.gguf", named.build()),
        ("plain.gguf", with_classifier(bert("t5")).build()),
    ]);
    for (from, to, class, first) in [
        ("named.gguf", "named", "RobertaForSequenceClassification", "no"),
        ("plain.gguf", "plain", "XLMRobertaForSequenceClassification", "LABEL_0"),
    ] {
        written(&folder, from, to, &SAFETENSORS);
        let config = config(&folder, to);
        assert_eq!(config["architectures"][0], class);
        assert_eq!(
            (&config["id2label"]["0"], &config["label2id"][first]),
            (&first.into(), &0.into())
        );
        assert_eq!(config["id2label"].as_object().map(serde_json::Map::len), Some(3));
        let model = open(&folder.path().join(to));
        for name in [
            "roberta.embeddings.word_embeddings.weight",
            "roberta.encoder.layer.0.output.dense.weight",
            "classifier.dense.weight",
            "classifier.out_proj.weight",
        ] {
            assert!(model.stored_tensor(name).is_ok(), "{name}");
        }
        let back = format!("{to}-back.gguf");
        written(&folder, to, &back, &GGUF);
        assert_same(&folder.path().join(&back), &folder.path().join(from));
        let back = open(&folder.path().join(back));
        let labels = back.metadata().array("bert.classifier.output_labels");
        let labels = labels.and_then(|labels| labels.texts()).expect("names");
        assert_eq!(labels.map(|label| label.to_string()).next().as_deref(), Some(first));
    }
}

/// llama-quantize stores the matrix of a classifier with one label, as rerankers have it, without the axis of length 1.
#[test]
fn a_classifier_of_one_label() {
    for tokenizer in ["bert", "t5"] {
        for shape in [&[1, 8][..], &[8]] {
            let layers = [
                ("cls.weight", &[8, 8][..]),
                ("cls.bias", &[8]),
                ("cls.output.weight", shape),
                ("cls.output.bias", &[1]),
            ];
            let file = layers
                .into_iter()
                .fold(bert(tokenizer), |file, (name, shape)| tensor(file, name, shape));
            let file = file.key("bert.classifier.output_labels", Kv::texts(&["LABEL_0"]));
            let folder = folder(&[("a.gguf", file.build())]);
            written(&folder, "a.gguf", "a", &SAFETENSORS);
            let said = config(&folder, "a");
            assert_eq!(
                said["id2label"],
                serde_json::json!({"0": "LABEL_0"}),
                "{tokenizer} {shape:?}"
            );
            let model = open(&folder.path().join("a"));
            let output = model.tensor("classifier.output.weight").expect("a matrix");
            assert_eq!(output.shape(), [1, 8], "{tokenizer}");
        }
    }
}

/// A value that GGUF does not state is named, and none is made up.
#[test]
fn what_gguf_does_not_keep() {
    let one_layer = |tokenizer| tensor(bert(tokenizer), "cls.output.weight", &[3, 8]);
    let mut told = Vec::new();
    let labels = Kv::texts(&["no", "yes"]);
    let other = with_classifier(bert("gpt2")).key("bert.classifier.output_labels", labels);
    for file in [one_layer("bert"), one_layer("gpt2"), other] {
        let store = OpenOptions::new().open_memory("file", file.build()).expect("a file");
        let model = support::resolved(store).expect("a model");
        let error = ops::convert(&model, &ConvertOptions::new(&SAFETENSORS));
        told.push(error.expect_err("a refusal").to_string());
    }
    insta::assert_snapshot!(told.join("\n"));
}

/// A Llama that looks both ways is told from one that does not.
#[test]
fn a_llama_that_looks_both_ways() {
    let mut file = Gguf::new()
        .key("general.architecture", Kv::text("llama-embed"))
        .key("llama-embed.block_count", Kv::U32(1))
        .key("llama-embed.context_length", Kv::U32(64))
        .key("llama-embed.embedding_length", Kv::U32(8))
        .key("llama-embed.feed_forward_length", Kv::U32(16))
        .key("llama-embed.attention.head_count", Kv::U32(2))
        .key("llama-embed.attention.head_count_kv", Kv::U32(1))
        .key("llama-embed.attention.layer_norm_rms_epsilon", Kv::F32(1e-5))
        .key("llama-embed.rope.freq_base", Kv::F32(500_000.0))
        .key("llama-embed.vocab_size", Kv::U32(10));
    for (name, shape) in [
        ("token_embd.weight", &[10, 8][..]),
        ("output_norm.weight", &[8]),
        ("blk.0.attn_norm.weight", &[8]),
        ("blk.0.attn_q.weight", &[8, 8]),
        ("blk.0.attn_k.weight", &[4, 8]),
        ("blk.0.attn_v.weight", &[4, 8]),
        ("blk.0.attn_output.weight", &[8, 8]),
        ("blk.0.ffn_norm.weight", &[8]),
        ("blk.0.ffn_gate.weight", &[16, 8]),
        ("blk.0.ffn_up.weight", &[16, 8]),
        ("blk.0.ffn_down.weight", &[8, 16]),
    ] {
        file = tensor(file, name, shape);
    }
    let folder = folder(&[("a.gguf", file.build())]);
    written(&folder, "a.gguf", "a", &SAFETENSORS);
    let said = config(&folder, "a");
    assert_eq!((&said["model_type"], &said["is_causal"]), (&"llama".into(), &false.into()));
    assert_eq!(said["architectures"][0], "LlamaBidirectionalModel");
    let store = OpenOptions::new().open(folder.path().join("a")).expect("a model");
    let fields = store.config().expect("a config");
    assert!(fields.fields().iter().any(|field| field.name == "causal" && field.value == false));
    written(&folder, "a", "back.gguf", &GGUF);
    assert_same(&folder.path().join("back.gguf"), &folder.path().join("a.gguf"));
    let back = open(&folder.path().join("back.gguf"));
    assert_eq!(back.metadata().str("general.architecture"), Some("llama-embed"));
}

/// Writes the tensors of a directory to another one, under the names that `name` gives them, with its config as `change` makes it.
fn stored_anew(
    from: &Path,
    change: impl Fn(&mut Json),
    name: impl Fn(&str) -> Option<String>,
) -> TempDir {
    let model = open(from);
    let mut file = support::Safetensors::new().metadata("format", "pt");
    for tensor in model.stored_tensors() {
        let values = f32s(&tensor.dequantize().expect("values"));
        if let Some(name) = name(tensor.name()) {
            file = file.tensor(&name, "F32", tensor.shape(), values);
        }
    }
    let config = std::fs::read(from.join("config.json")).expect("a config");
    let mut config = serde_json::from_slice(&config).expect("JSON");
    change(&mut config);
    folder(&[("model.safetensors", file.build()), ("config.json", config.to_string().into_bytes())])
}

fn missing(path: &Path) -> Vec<String> {
    Model::open(path).expect("a model").resolution().expect("names").missing.clone()
}

/// transformers loads a classifier without its head, or with a half of it, and initializes the rest at random.
#[test]
fn a_head_that_the_class_has_is_required() {
    let made = folder(&[("a.gguf", with_classifier(bert("gpt2")).build())]);
    written(&made, "a.gguf", "a", &SAFETENSORS);
    let whole = made.path().join("a");
    assert_eq!(missing(&whole), [""; 0]);
    let head = [
        "classifier.dense.bias",
        "classifier.dense.weight",
        "classifier.out_proj.bias",
        "classifier.out_proj.weight",
    ];
    for lacking in [&head[..], &head[2..], &head[3..]] {
        let kept = |name: &str| (!lacking.contains(&name)).then(|| name.to_owned());
        let files = stored_anew(&whole, |_| {}, kept);
        let said = |name: &&str| format!("{name} (the head of RobertaForSequenceClassification)");
        assert_eq!(missing(files.path()), lacking.iter().map(said).collect::<Vec<_>>());
        let model = Model::open(files.path()).expect("a model");
        let found = ops::check_consistency(&model, Strictness::Default).expect("a report");
        assert!(found.faults.iter().any(|fault| fault.contains(lacking[0])), "{found:?}");
        for to in [&GGUF, &SAFETENSORS, &MLX] {
            let plan = ops::convert(&model, &ConvertOptions::new(to).allow_unloadable(true));
            let plan = plan.unwrap_or_else(|error| panic!("{error}"));
            let error = plan.check(&WriteOptions::new()).expect_err("it is incomplete").to_string();
            assert!(error.contains(lacking[0]), "{error}");
            plan.check(&WriteOptions::new().allow_incomplete(true)).expect("on request");
        }
    }
    // A bias alone is taken as zeros.
    let kept = |name: &str| (name != head[2]).then(|| name.to_owned());
    let files = stored_anew(&whole, |_| {}, kept);
    assert_eq!(missing(files.path()), [""; 0]);
    let model = Model::open(files.path()).expect("a model");
    let found = ops::check_consistency(&model, Strictness::Default).expect("a report");
    assert!(found.notes.join("; ").contains("classifier.out_proj.bias of Roberta"), "{found:?}");
    // A class of other code, one that predicts words, and one without a head.
    for (class, lacking, noted) in [
        (
            "SeenForSequenceClassification",
            &["the head of SeenForSequenceClassification"][..],
            false,
        ),
        ("RobertaForMaskedLM", &[], true),
        ("RobertaModel", &[], false),
    ] {
        let files = stored_anew(
            &whole,
            |config| config["architectures"] = vec![class].into(),
            |name| (!head.contains(&name)).then(|| name.to_owned()),
        );
        assert_eq!(missing(files.path()), lacking, "{class}");
        let model = Model::open(files.path()).expect("a model");
        let found = ops::check_consistency(&model, Strictness::Default).expect("a report");
        let notes = found.notes.join("; ");
        assert_eq!(notes.contains("no tensor of its head is stored"), noted, "{class}: {notes}");
    }
    // GGUF has no class: there, a half shows itself.
    for lacking in ["cls.output.weight", "cls.weight"] {
        let layers = [
            ("cls.weight", &[8, 8][..]),
            ("cls.bias", &[8]),
            ("cls.output.weight", &[3, 8]),
            ("cls.output.bias", &[3]),
        ];
        let layers = layers.into_iter().filter(|(name, _)| *name != lacking);
        let file = layers.fold(bert("gpt2"), |file, (name, shape)| tensor(file, name, shape));
        put(made.path(), "half.gguf", file.build());
        let name = lacking.replace("cls.w", "cls.dense.w").replace("cls", "classifier");
        assert_eq!(missing(&made.path().join("half.gguf")), [name]);
    }
}

/// transformers ties the embedding to the matrix that predicts words, under whose name alone early safetensors files have it.
#[test]
fn an_embedding_stored_as_the_matrix_that_predicts_words() {
    let folder = folder(&[("a.gguf", bert("gpt2").build())]);
    written(&folder, "a.gguf", "a", &SAFETENSORS);
    let whole = folder.path().join("a");
    let embedding = "embeddings.word_embeddings.weight";
    let stored = |prefix: &'static str, decoder: &'static str| {
        move |name: &str| {
            Some(match name == embedding {
                true => decoder.to_owned(),
                false => format!("{prefix}{name}"),
            })
        }
    };
    for (model_type, class, prefix, decoder) in [
        ("roberta", "RobertaForMaskedLM", "roberta.", "lm_head.decoder.weight"),
        ("bert", "BertForMaskedLM", "bert.", "cls.predictions.decoder.weight"),
        ("bert", "BertForMaskedLM", "", "cls.predictions.decoder.weight"),
    ] {
        let state = |config: &mut Json| {
            config["model_type"] = model_type.into();
            config["architectures"] = vec![class].into();
        };
        let files = stored_anew(&whole, state, stored(prefix, decoder));
        assert_eq!(missing(files.path()), [""; 0], "{class}");
        let model = Model::open(files.path()).expect("a model");
        let expected = open(&whole).stored_tensor(embedding).expect("it").dequantize().unwrap();
        let found = model.tensor("token_embedding.weight").expect("the embedding");
        assert_eq!(found.dequantize().unwrap()[..], expected[..]);
        let notes = ops::check_consistency(&model, Strictness::Default).expect("a report").notes;
        let said = format!("the model lacks {prefix}{embedding}: its config ties it to {decoder}");
        assert!(notes.iter().any(|note| note.contains(&said)), "{notes:?}");
        let plan = ops::convert(&model, &ConvertOptions::new(&SAFETENSORS)).expect("a plan");
        let out = files.path().join("out");
        plan.run(&out, &WriteOptions::new()).expect("written");
        assert!(open(&out).stored_tensor(&format!("{prefix}{embedding}")).is_ok());
        // Without the tie, the embedding is missing.
        let untied = |config: &mut Json| {
            state(config);
            config["tie_word_embeddings"] = false.into();
        };
        let files = stored_anew(&whole, untied, stored(prefix, decoder));
        assert_eq!(missing(files.path()), ["token_embedding.weight"]);
    }
}
