//! Tokenizers of directories as GGUF keys, and of GGUF files as `tokenizer.json`: what depends on the
//! family or on a single step of a file.

use std::collections::BTreeMap;

use crate::support::{Gguf, Kv, Safetensors, f32s, folder, put, told, without_path};
use crate::tokenizer::files::{field, piece};
use tempfile::TempDir;
use weighbridge::json::{Json, json};
use weighbridge::metadata::{KeyValues, Value};
use weighbridge::translate::{gguf_metadata, gguf_metadata_and_notes, tokenizer_json};
use weighbridge::{DType, Limits, Model, OpenOptions, Strictness, ops};

/// A model of this `model_type` with a vocabulary of `rows` rows, and these files beside it.
fn beside<B: AsRef<[u8]>>(model_type: &str, rows: u32, files: &[(&str, B)]) -> TempDir {
    let weights = Safetensors::new().tensor("t", "F32", &[1], f32s(&[1.0])).build();
    let config = json!({
        "model_type": model_type, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 128, "vocab_size": rows,
        "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
        "hidden_act": "silu", "num_kv_shared_layers": 0, "sliding_window": 64,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
    });
    let folder = folder(&[("model.safetensors", weights)]);
    put(folder.path(), "config.json", config.to_string());
    files.iter().for_each(|(name, bytes)| put(folder.path(), name, bytes));
    folder
}

fn keys(folder: &TempDir) -> KeyValues {
    let model = Model::open(folder.path()).expect("a directory");
    gguf_metadata(&model).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(folder: &TempDir, limits: Limits) -> String {
    let model = OpenOptions::new().limits(limits).open(folder.path()).expect("a directory");
    let error = gguf_metadata(&model).expect_err("a refusal");
    without_path(&told(&error), folder.path())
}

/// The keys after `tokenizer.ggml.`, as text; lists are their elements.
fn tokenizer(keys: &KeyValues) -> BTreeMap<String, String> {
    let text = |value: Value<'_>| match value {
        Value::String(text) => text.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::F32(number) => number.to_string(),
        other => other.to_i128().map_or(format!("{other:?}"), |number| number.to_string()),
    };
    let shown = |value: Value<'_>| match value.to_array() {
        Some(list) => list.values().map(text).collect::<Vec<_>>().join(" "),
        None => text(value),
    };
    let own = keys.iter().filter_map(|(key, value)| {
        Some((key.to_string().strip_prefix("tokenizer.ggml.")?.to_owned(), shown(value)))
    });
    own.collect()
}

/// A SentencePiece model whose trainer states this method.
fn pieces(method: u8) -> Vec<u8> {
    [
        piece("<unk>", 0.0, Some(2)),
        piece("<s>", 0.0, Some(3)),
        piece("</s>", 0.0, Some(3)),
        field(2, &[3 << 3, method]),
        piece("<0x0A>", 0.0, Some(6)),
        piece("\u{2581}the", -3.5, None),
    ]
    .concat()
}

#[test]
fn pieces_are_taken_from_the_file_of_sentencepiece() {
    // Llama 2's directory has both files; the converter reads the first.
    let other = json!({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}});
    let (spoken, other) = (pieces(2), other.to_string().into_bytes());
    let added = br#"{"<extra>": 5}"#.to_vec();
    let files = [("tokenizer.model", spoken.clone()), ("tokenizer.json", other)];
    let both = tokenizer(&keys(&beside("llama", 6, &files)));
    let alone = [("tokenizer.model", spoken), ("added_tokens.json", added)];
    let alone = tokenizer(&keys(&beside("llama", 6, &alone)));
    assert_eq!(both["model"], "llama");
    assert_eq!(both["tokens"], "<unk> <s> </s> <0x0A> \u{2581}the [PAD5]");
    assert_eq!(both["scores"], "0 0 0 0 -3.5 -10000");
    assert_eq!(both["token_type"], "2 3 3 6 1 5");
    assert_eq!(alone["tokens"], "<unk> <s> </s> <0x0A> \u{2581}the <extra>");
    assert_eq!(alone["token_type"], "2 3 3 6 1 4");
}

#[test]
fn tokens_without_a_row_are_noted() {
    let files = [
        ("tokenizer.model", pieces(2)),
        ("added_tokens.json", br#"{"<pad>": 5, "<more>": 6}"#.to_vec()),
    ];
    let model = beside("llama", 5, &files);
    let model = Model::open(model.path()).expect("a directory");
    let (_, notes) = gguf_metadata_and_notes(&model).expect("keys");
    let told = "left out: token 5, \"<pad>\" and 1 more, since the embedding has 5 rows";
    assert!(notes.iter().any(|note| note.text.contains(told)), "{notes:?}");
}

/// Configs of 2023 state the numbers of other tokens, which transformers does not read where a text is named.
#[test]
fn a_named_token_has_the_number_of_its_text() {
    let named = json!({"bos_token": "<s>", "eos_token": "</s>"}).to_string().into_bytes();
    let files = [("tokenizer.model", pieces(2)), ("tokenizer_config.json", named)];
    let folder = beside("llama", 5, &files);
    let path = folder.path().join("config.json");
    let mut config = Json::parse(&std::fs::read(&path).expect("a config")).expect("JSON");
    if let Json::Object(config) = &mut config {
        config.insert("bos_token_id".to_owned(), json!(0));
        config.insert("eos_token_id".to_owned(), json!(1));
    }
    std::fs::write(&path, config.to_string()).expect("written");
    let own = tokenizer(&keys(&folder));
    assert_eq!([&own["bos_token_id"], &own["eos_token_id"]], ["1", "2"]);
}

/// Mistral publishes its tokenizers under names with versions, next to weights with its own names.
#[test]
fn pieces_of_mistral_have_names_with_versions() {
    let other = json!({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}});
    let other = other.to_string().into_bytes();
    let one = |name: &'static str| (name, pieces(2));
    for (files, model) in [
        (vec![one("tokenizer.model.v3")], "llama"),
        (vec![("tokenizer.model.v3", b"?".to_vec()), one("tokenizer.model.v7")], "llama"),
        // Mistral's programs read tekken.json then.
        (vec![one("tokenizer.model.v7m1"), ("tekken.json", tekken("null", 5))], "gpt2"),
        // transformers and llama.cpp's converter read tokenizer.json.
        (vec![one("tokenizer.model.v3"), ("tokenizer.json", other)], "gpt2"),
    ] {
        let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
        assert_eq!(tokenizer(&keys(&beside("mistral", 6, &files)))["model"], model, "{names:?}");
    }
}

/// A `tekken.json` of three control tokens, `a`, `b`, `ab` and `abb`, of which `size` tokens are used in all.
fn tekken(special: &str, size: usize) -> Vec<u8> {
    let tokens = ["YQ==", "Yg==", "YWI=", "YWJi"].iter().enumerate();
    let token = |(rank, bytes)| {
        format!(r#"{{"rank": {rank}, "token_bytes": "{bytes}", "token_str": null}}"#)
    };
    let tokens: Vec<String> = tokens.map(token).collect();
    format!(
        r#"{{"config": {{"pattern": "\\s+", "num_vocab_tokens": 4, "default_vocab_size": {size},
        "default_num_special_tokens": 3, "version": "v3"}}, "vocab": [{}], "special_tokens": {special}}}"#,
        tokens.join(",")
    )
    .into_bytes()
}

/// The tokens of Mistral's own form, their merges and the purposes of its control tokens.
#[test]
fn tekken_has_tokens_by_rank() {
    let named = r#"[{"rank": 0, "token_str": "<unk>", "is_control": true}, {"rank": 1, "token_str": "</s>"}]"#;
    for (special, controls, bos, eos) in [
        ("null", ["<unk>", "<s>", "</s>"], Some(1), Some(2)),
        (named, ["<unk>", "</s>", "<SPECIAL_2>"], None, Some(1)),
    ] {
        let folder = beside("mistral", 6, &[("tekken.json", tekken(special, 6))]);
        let model = Model::open(folder.path()).expect("a directory");
        let tokenizer = model.tokenizer().expect("no fault").expect("a tokenizer");
        let texts: Vec<String> = tokenizer
            .tokens()
            .map(|token| String::from_utf8_lossy(&token.text).into_owned())
            .collect();
        assert_eq!(texts, [&controls[..], &["a", "b", "ab"]].concat());
        assert_eq!(tokenizer.merges().count(), 1, "abb is not used");
        let number = |name: &str| tokenizer.special(name);
        assert_eq!([number("bos"), number("eos"), number("unk")], [bos, eos, Some(0)]);
        let json = weighbridge::translate::tokenizer_json(&model).expect("no fault").expect("one");
        assert_eq!(json["model"]["vocab"]["ab"].as_u64(), Some(5));
        assert_eq!(json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"], "\\s+");
    }
}

#[test]
fn tekken_with_faults_is_refused() {
    let text = String::from_utf8(tekken("null", 6)).expect("text");
    for (from, to, fault) in [
        (
            "\"rank\": 1",
            "\"rank\": 2",
            "token 2 of 1 bytes, but token 1 of at most 1024 is required here",
        ),
        ("Yg==", "?", "token_bytes is not base64"),
        ("\"token_bytes\": \"Yg==\"", "\"x\": 0", "this token has no rank or no token_bytes"),
        ("size\": 6", "size\": 9", "9 tokens of which 3 are special, but vocab has 4"),
        ("size\": 6", "size\": 2", "2 tokens of which 3 are special"),
        ("default_num_special_tokens", "x", "default_num_special_tokens\": a number is required"),
        ("null}", "[{\"rank\": 1, \"token_str\": \"x\"}]}", "this special token is not number 0"),
    ] {
        let changed = match from {
            "null}" => format!("{}{to}", text.strip_suffix(from).expect("the end")),
            _ => text.replace(from, to),
        };
        let folder = beside("mistral", 6, &[("tekken.json", changed)]);
        let model = Model::open(folder.path()).expect("a directory");
        let error = model.tokenizer().expect_err("a fault").to_string();
        assert!(error.contains(fault) && error.contains("tekken.json"), "{error}");
    }
}

/// Files of tiktoken: the special tokens follow the others, as the models' own code numbers them.
#[test]
fn tiktoken_has_tokens_by_rank() {
    let ranks = || b"YQ== 0\nYg== 1\nYWI= 2\n".to_vec();
    let listed = json!({"bos_token": "[BOS]", "added_tokens_decoder": {
        "3": {"content": "[BOS]", "special": true}, "5": {"content": "<think>", "special": false}
    }});
    let listed = ("tokenizer_config.json", listed.to_string().into_bytes());
    for (name, more, special, count, bos, pre) in [
        (
            "tiktoken.model",
            Some(listed),
            ["[BOS]", "<|reserved_token_4|>", "<think>"],
            259,
            3,
            "kimi-k2",
        ),
        ("qwen.tiktoken", None, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], 211, 3, "qwen2"),
    ] {
        let files: Vec<_> = [(name, ranks())].into_iter().chain(more).collect();
        let folder = beside("llama", count, &files);
        let model = Model::open(folder.path()).expect("a directory");
        let tokenizer = model.tokenizer().expect("no fault").expect("a tokenizer");
        let mut texts: Vec<(u32, String)> = tokenizer
            .tokens()
            .map(|token| (token.id, String::from_utf8_lossy(&token.text).into_owned()))
            .collect();
        texts.sort();
        let texts: Vec<&str> = texts.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts[..6], [&["a", "b", "ab"], &special[..]].concat());
        assert_eq!(u32::try_from(texts.len()), Ok(count), "{name}");
        assert_eq!(tokenizer.merges().count(), 1);
        let written = self::tokenizer(&keys(&folder));
        assert_eq!(written["pre"], pre);
        assert_eq!(written["bos_token_id"], bos.to_string());
        let json = tokenizer_json(&model).expect("no fault").expect("one");
        assert_eq!(json["added_tokens"][2]["special"].as_bool(), Some(name == "qwen.tiktoken"));
    }
}

/// Kimi's code reserves numbers beyond the embedding of a smaller model.
#[test]
fn reserved_tokens_have_rows() {
    let ranks = b"YQ== 0\nYg== 1\nYWI= 2\n".to_vec();
    let folder = beside("llama", 5, &[("tiktoken.model", ranks)]);
    let model = Model::open(folder.path()).expect("a directory");
    let tokenizer = model.tokenizer().expect("no fault").expect("a tokenizer");
    assert_eq!(tokenizer.tokens().map(|token| token.id).max(), Some(4));
    assert_eq!(self::tokenizer(&keys(&folder))["pre"], "kimi-k2");
}

#[test]
fn tiktoken_with_faults_is_refused() {
    for text in ["YQ== 0\nYg== 2", "YQ==\n", "? 0", "YQ== 0 1"] {
        let folder = beside("llama", 6, &[("tiktoken.model", text.as_bytes().to_vec())]);
        let model = Model::open(folder.path()).expect("a directory");
        let error = model.tokenizer().expect_err("a fault").to_string();
        assert!(error.contains("tiktoken.model") && error.contains("are required"), "{error}");
    }
}

#[test]
fn pieces_of_words_and_characters_are_refused() {
    for (method, kind) in [(3, "words"), (4, "characters")] {
        let folder = beside("llama", 5, &[("tokenizer.model", pieces(method))]);
        let said = refused(&folder, Limits::default());
        let expected =
            format!("Unsupported: ./tokenizer.model: unsupported kind of tokenizer: {kind}");
        assert_eq!(said, expected);
    }
}

#[test]
fn vocabularies_longer_than_the_limit_are_refused() {
    let folder = beside("llama", 1001, &[("tokenizer.model", pieces(2))]);
    let mut limits = Limits::default();
    limits.vocabulary_items = 1000;
    let said = refused(&folder, limits);
    assert!(said.starts_with("LimitExceeded: .: 1001 tokens"), "{said}");
    assert!(said.contains("vocabulary_items"), "{said}");
}

/// A `tokenizer.json` of merges with tokens for bytes.
fn merges_with_bytes() -> Json {
    json!({
        "added_tokens": [
            {"id": 0, "content": "<pad>", "special": true},
            {"id": 1, "content": "<bos>", "special": true},
            {"id": 2, "content": "<|tool_call>", "special": true},
            {"id": 3, "content": "<|turn>", "special": true},
        ],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"},
        "pre_tokenizer": null, "post_processor": null,
        "model": {
            "type": "BPE", "byte_fallback": true, "unk_token": "<unk>",
            "vocab": {"<pad>": 0, "<bos>": 1, "<|tool_call>": 2, "<|turn>": 3, "<unk>": 4,
                "<0x0A>": 5, "a": 6, "b": 7, "ab": 8},
            "merges": [["a", "b"]],
        },
    })
}

#[test]
fn merges_of_gemma_4_are_stored_as_merges() {
    let files = [("tokenizer.json", merges_with_bytes().to_string())];
    let own = tokenizer(&keys(&beside("gemma4_text", 9, &files)));
    assert_eq!((own["model"].as_str(), own["merges"].as_str()), ("gemma4", "a b"));
    assert_eq!(own["scores"], ["-1000"; 9].join(" "));
    // Control tokens that a chat parser reads are visible; the unknown token is a usual one.
    assert_eq!(own["token_type"], "3 3 4 3 1 6 1 1 1");
    assert_eq!(
        (own["add_bos_token"].as_str(), own["add_space_prefix"].as_str()),
        ("true", "false")
    );

    // Other families store such a tokenizer as SentencePiece's, with a score for each merge.
    let other = tokenizer(&keys(&beside("llama", 9, &files)));
    assert_eq!((other["model"].as_str(), other.get("merges")), ("llama", None));
    assert_eq!(other["scores"], "-1000 -1000 -1000 -1000 -1000 -1000 -1000 -1000 -0");
    assert_eq!(other["token_type"], "3 3 3 3 2 6 1 1 1");
    assert_eq!(other["add_bos_token"], "false");
}

/// The words of GPT-2 are what the step that maps bytes to letters splits by itself.
#[test]
fn the_words_of_gpt_2_are_one_step() {
    let made = |pre: &str| {
        let file = Gguf::new()
            .key("tokenizer.ggml.model", Kv::text("gpt2"))
            .key("tokenizer.ggml.pre", Kv::text(pre))
            .key("tokenizer.ggml.tokens", Kv::texts(&["a", "b"]))
            .tensor("t", DType::F32, &[1], f32s(&[1.0]));
        let model = OpenOptions::new().open_memory("file", file.build()).expect("a model");
        let made = tokenizer_json(&model).expect("JSON").expect("a tokenizer");
        made["pre_tokenizer"].clone()
    };
    let words = made("gpt-2");
    assert_eq!((&words["type"], &words["use_regex"]), (&json!("ByteLevel"), &json!(true)));
    assert_eq!(made("llama-bpe")["type"], "Sequence");
}

/// A GGUF file with the keys of a tokenizer.
fn with_keys(architecture: &str, keys: &KeyValues) -> Model {
    let kv = |value: Value<'_>| match value {
        Value::String(text) => Kv::text(text.to_str().expect("text")),
        Value::Bool(flag) => Kv::Bool(flag),
        other => Kv::U32(u32::try_from(other.to_u64().expect("a number")).expect("a small one")),
    };
    let kv = |value: Value<'_>| match value.to_array() {
        Some(list) => {
            let floats = list.floats().is_some() && list.integers().is_none();
            let numbers = list.integers().map(|list| list.collect::<Vec<i128>>());
            match (numbers, floats) {
                (Some(numbers), _) => {
                    let number = |n: i128| Kv::I32(i32::try_from(n).expect("a small number"));
                    Kv::Array(5, numbers.into_iter().map(number).collect())
                }
                (None, true) => {
                    let reals = list.floats().expect("reals");
                    Kv::Array(6, reals.map(|real| Kv::F32(real as f32)).collect())
                }
                (None, false) => Kv::Array(8, list.values().map(kv).collect()),
            }
        }
        None => kv(value),
    };
    let is_own =
        |key: &str| key.starts_with("tokenizer.") || key.starts_with("weighbridge.tokenizer.");
    let own = keys.iter().filter(|(key, _)| is_own(&key.to_string()));
    let file = own.fold(
        Gguf::new().key("general.architecture", Kv::text(architecture)),
        |file, (key, value)| file.key(key.as_bytes(), kv(value)),
    );
    let file = file.tensor("t", DType::F32, &[1], f32s(&[1.0]));
    OpenOptions::new().open_memory("file", file.build()).expect("a model")
}

#[test]
fn merges_of_gemma_4_come_back() {
    let keys =
        keys(&beside("gemma4_text", 9, &[("tokenizer.json", merges_with_bytes().to_string())]));
    let model = with_keys("gemma4", &keys);
    let found = tokenizer_json(&model).expect("a tokenizer").expect("one");
    assert_eq!(found["model"]["type"], "BPE");
    assert_eq!(found["model"]["merges"], json!([["a", "b"]]));
    assert_eq!(found["model"]["byte_fallback"], true);
    assert_eq!(found["model"]["vocab"]["<0x0A>"], 5);
    assert_eq!(found["normalizer"]["content"], "\u{2581}");
    // It is visible in GGUF.
    assert_eq!(
        (&found["added_tokens"][2]["id"], &found["added_tokens"][2]["special"]),
        (&json!(2), &json!(true))
    );

    // A kind that no family has is refused.
    let file = Gguf::new()
        .key("tokenizer.ggml.model", Kv::text("rwkv"))
        .key("tokenizer.ggml.tokens", Kv::texts(&["a"]))
        .tensor("t", DType::F32, &[1], f32s(&[1.0]));
    let model = OpenOptions::new().open_memory("file", file.build()).expect("a model");
    let error = tokenizer_json(&model).expect_err("a refusal");
    assert!(error.to_string().contains("unsupported kind of tokenizer: rwkv"), "{error}");
}

/// llama.cpp's converter makes control tokens of all whose text looks like one, and types state no spaces.
#[test]
fn fields_of_added_tokens_come_back() {
    let token = |id: u32, content: &str, is_special: bool, strips: [bool; 3]| {
        let [lstrip, rstrip, single_word] = strips;
        json!({"id": id, "content": content, "single_word": single_word, "lstrip": lstrip, "rstrip": rstrip,
            "normalized": false, "special": is_special})
    };
    let added = json!([
        token(2, "<|fim_prefix|>", false, [false; 3]),
        token(3, "<tool_call>", false, [false; 3]),
        token(4, "<|end|>", true, [false, true, false]),
        token(5, "<mask>", true, [true, false, true]),
    ]);
    let file = json!({
        "added_tokens": added, "normalizer": null, "post_processor": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []},
    });
    let keys = keys(&beside("qwen2", 6, &[("tokenizer.json", file.to_string())]));
    assert_eq!(tokenizer(&keys)["token_type"], "1 1 3 4 3 3");
    let found = tokenizer_json(&with_keys("qwen2", &keys)).expect("a tokenizer").expect("one");
    for (found, stated) in found["added_tokens"]
        .as_array()
        .expect("a list")
        .iter()
        .zip(added.as_array().expect("a list"))
    {
        for (field, value) in stated.as_object().expect("an object").iter() {
            // No normalizer changes texts here.
            assert!(
                found[field.as_str()] == *value || field == "normalized",
                "{field}: {found}, but {stated}"
            );
        }
    }
    let own: Vec<String> = keys
        .iter()
        .map(|(key, _)| key.to_string())
        .filter(|key| key.starts_with("weighbridge.tok"))
        .collect();
    let expected = ["not_special", "lstrip", "rstrip", "single_word"]
        .map(|name| format!("weighbridge.tokenizer.{name}"));
    assert_eq!(own, expected);
}

#[test]
fn families_name_further_special_tokens() {
    let tokenizer_with = |eot: &str| {
        let mut json = merges_with_bytes();
        json["added_tokens"].as_array_mut().expect("tokens")[3]["content"] = eot.into();
        json["model"]["vocab"][eot] = 3.into();
        json["model"]["vocab"].as_object_mut().expect("tokens").remove("<|turn>");
        let files = [("tokenizer.json", json.to_string())];
        tokenizer(&keys(&beside("gemma", 9, &files)))
    };
    assert_eq!(tokenizer_with("<end_of_turn>")["eot_token_id"], "3");
    assert_eq!(tokenizer_with("<|turn>").get("eot_token_id"), None);
}

/// The last step of Llama 3's tokenizer is two steps, of which the second adds a token.
#[test]
fn later_steps_add_the_tokens_around_a_text() {
    let adds = |steps: Json| {
        let json = json!({
            "added_tokens": [{"id": 2, "content": "<|begin_of_text|>", "special": true}],
            "pre_tokenizer": {"type": "ByteLevel"},
            "post_processor": {"type": "Sequence", "processors": steps},
            "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []},
        });
        let files = [("tokenizer.json", json.to_string())];
        let found = tokenizer(&keys(&beside("llama", 3, &files)));
        [found.get("add_bos_token").cloned(), found.get("bos_token_id").cloned()]
    };
    let bytes = json!({"type": "ByteLevel", "trim_offsets": true});
    let template = json!({
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<|begin_of_text|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [],
    });
    let [yes, no] = ["true", "false"].map(|flag| Some(flag.to_owned()));
    assert_eq!(adds(json!([bytes, template])), [yes.clone(), Some("2".to_owned())]);
    // Byte-level steps say nothing of what is added before them.
    assert_eq!(adds(json!([template, bytes])), [yes, Some("2".to_owned())]);
    assert_eq!(adds(json!([bytes])), [no, None]);
}

/// `vocab.txt` alone: BERT's names of special tokens, and the settings that llama.cpp would guess.
#[test]
fn words_in_lines_have_all_keys() {
    let words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n##s\n";
    let settings = r#"{"do_lower_case": false, "strip_accents": true}"#;
    let files = [("vocab.txt", words), ("tokenizer_config.json", settings)];
    let own = tokenizer(&keys(&beside("bert", 7, &files)));
    assert_eq!(own["model"], "bert");
    assert_eq!(own["tokens"], "[PAD] [UNK] [CLS] [SEP] [MASK] \u{2581}the s");
    assert_eq!(own["token_type"], "3 3 3 3 3 1 1");
    let ids = ["bos", "eos", "unknown", "seperator", "padding", "mask"];
    let ids = ids.map(|name| own[&format!("{name}_token_id")].clone());
    assert_eq!(ids, ["2", "3", "1", "3", "0", "4"]);
    let flags =
        ["add_bos_token", "add_eos_token", "normalizer.lowercase", "normalizer.strip_accents"];
    assert_eq!(flags.map(|name| own[name].clone()), ["true", "true", "false", "true"]);
    let folder = beside("bert", 7, &files);
    let model = Model::open(folder.path()).expect("a directory");
    let made = tokenizer_json(&model).expect("JSON").expect("a tokenizer");
    assert_eq!(made["model"]["vocab"]["##s"], 6);
    assert_eq!(made["normalizer"]["lowercase"], false);
    assert_eq!(made["post_processor"]["single"][0]["SpecialToken"]["id"], "[CLS]");
}

/// llama.cpp ends the texts of Unigram tokenizers unless a key says otherwise.
#[test]
fn texts_of_unigram_tokenizers_end_as_their_class_says() {
    for (class, ends) in [("LlamaTokenizer", Some("false")), ("T5Tokenizer", None)] {
        let config = json!({"tokenizer_class": class, "eos_token": "</s>"}).to_string();
        let files =
            [("tokenizer.model", pieces(1)), ("tokenizer_config.json", config.into_bytes())];
        let own = tokenizer(&keys(&beside("qwen3", 5, &files)));
        assert_eq!(own["model"], "t5");
        assert_eq!(own.get("add_eos_token").map(String::as_str), ends, "{class}");
    }
}

/// llama.cpp puts the first token and the separator around every text of WordPiece, and finds added tokens in the text itself.
#[test]
fn words_are_enclosed_as_llama_cpp_encloses_them() {
    let step = |single: Json| json!({"type": "TemplateProcessing", "single": single, "pair": [], "special_tokens": {}});
    let special = |id: &str| json!({"SpecialToken": {"id": id, "type_id": 0}});
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let of = |last: Json, normalizer: Json| {
        let made = json!({
            "model": {"type": "WordPiece", "unk_token": "u", "max_input_chars_per_word": 100, "vocab": {"u": 0, "<s>": 1, "</s>": 2, "the": 3}},
            "normalizer": normalizer, "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": last,
            "added_tokens": [
                {"id": 1, "content": "<s>", "special": true}, {"id": 2, "content": "</s>", "special": true},
                {"id": 4, "content": "foo", "special": false, "lstrip": true},
            ],
        });
        let folder = beside("bert", 5, &[("tokenizer.json", made.to_string())]);
        let model = Model::open(folder.path()).expect("a directory");
        let (found, notes) = gguf_metadata_and_notes(&model).expect("keys");
        let notes: Vec<&str> = notes.iter().map(|note| note.text.as_str()).collect();
        (tokenizer(&found), notes.join("; "))
    };
    let plain = json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true});
    let (own, notes) = of(step(json!([special("<s>"), text, special("</s>")])), plain.clone());
    assert_eq!([&own["bos_token_id"], &own["seperator_token_id"]], ["1", "2"]);
    assert_eq!(own["tokens"], "u <s> </s> \u{2581}the foo");
    assert!(notes.contains("lstrip of added tokens (foo)"), "{notes}");
    assert!(!notes.contains("puts two tokens") && !notes.contains("BertNormalizer"), "{notes}");
    let (_, notes) = of(
        step(json!([special("<s>"), text])),
        json!({"type": "BertNormalizer", "clean_text": false}),
    );
    assert!(
        notes.contains("puts two tokens") && notes.contains("normalizer BertNormalizer"),
        "{notes}"
    );
}

/// Parts of a `tokenizer.json` that llama.cpp's tokenizers do not have are named.
#[test]
fn parts_that_llama_cpp_lacks_are_named() {
    let block = "\u{2581}";
    let metaspace = |scheme: &str| json!({"type": "Metaspace", "replacement": block, "prepend_scheme": scheme, "split": true});
    let bytes =
        |prefix: bool| json!({"type": "ByteLevel", "add_prefix_space": prefix, "use_regex": true});
    let unigram = json!({"type": "Unigram", "unk_id": 0, "vocab": [["u", 0.0], ["a", -1.0]]});
    let merges = json!({"type": "BPE", "vocab": {"u": 0, "a": 1}, "merges": []});
    let collapse = json!({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": block});
    let strip = json!({"type": "Strip", "strip_left": true, "strip_right": true});
    let qwen2 = json!({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "behavior": "Isolated", "invert": false, "pattern": {"Regex": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"}},
        {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
    ]});
    for (model, normalizer, splitter, named) in [
        (&unigram, Json::Null, metaspace("always"), Some("Metaspace that puts no second space")),
        (&unigram, Json::Null, metaspace("never"), None),
        (&unigram, collapse, metaspace("always"), None),
        (&unigram, Json::Null, metaspace("first"), Some("prepend_scheme first")),
        (
            &unigram,
            Json::Null,
            json!({"type": "Digits", "individual_digits": true}),
            Some("pre-tokenizer Digits"),
        ),
        (
            &unigram,
            Json::Null,
            json!({"type": "WhitespaceSplit"}),
            Some("pre-tokenizer WhitespaceSplit"),
        ),
        (&unigram, strip, metaspace("always"), Some("normalizer Strip")),
        (&merges, Json::Null, bytes(false), None),
        (&merges, Json::Null, bytes(true), Some("add_prefix_space of ByteLevel")),
        (&merges, json!({"type": "Lowercase"}), bytes(false), Some("normalizer Lowercase")),
        (&merges, json!({"type": "NFC"}), qwen2.clone(), Some("normalizer NFC")),
        (&merges, Json::Null, qwen2, None),
    ] {
        let made = json!({"model": model, "normalizer": normalizer, "pre_tokenizer": splitter, "added_tokens": []});
        let folder = beside("llama", 2, &[("tokenizer.json", made.to_string())]);
        let model = Model::open(folder.path()).expect("a directory");
        let (_, notes) = gguf_metadata_and_notes(&model).expect("keys");
        let said = |part: &str| notes.iter().any(|note| note.text.contains(part));
        match named {
            Some(named) => assert!(said(named), "{named}: {notes:?}"),
            None => assert!(!said("does not have these parts"), "{notes:?}"),
        }
    }
}

/// llama.cpp puts a space after special tokens too.
#[test]
fn a_space_before_the_first_word_alone_is_told() {
    for (scheme, is_told) in [("first", true), ("always", false)] {
        let mut made = merges_with_bytes();
        made["normalizer"] = Json::Null;
        made["pre_tokenizer"] = json!({"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": scheme, "split": false});
        let folder = beside("llama", 9, &[("tokenizer.json", made.to_string())]);
        let model = Model::open(folder.path()).expect("a directory");
        let (_, notes) = gguf_metadata_and_notes(&model).expect("keys");
        let said = notes.iter().any(|note| note.text.contains("prepend_scheme first"));
        assert_eq!(said, is_told, "{notes:?}");
    }
}

/// llama.cpp merges any two tokens that make a token, and these merges lack the second pair of one token.
#[test]
fn merges_that_are_not_listed_are_told() {
    let mut made = merges_with_bytes();
    let model = &mut made["model"];
    model["vocab"] =
        json!({"<unk>": 4, "<0x0A>": 5, "a": 6, "b": 7, "ab": 8, "c": 9, "bc": 10, "abc": 11});
    for (merges, said) in [
        (json!([["a", "b"], ["b", "c"], ["ab", "c"]]), true),
        (json!([["a", "b"], ["b", "c"], ["ab", "c"], ["a", "bc"]]), false),
    ] {
        made["model"]["merges"] = merges;
        let folder = beside("llama", 12, &[("tokenizer.json", made.to_string())]);
        let model = Model::open(folder.path()).expect("a directory");
        let (_, notes) = gguf_metadata_and_notes(&model).expect("keys");
        let lacks = notes.iter().any(|note| note.text.contains("merges lack some, of 1 tokens"));
        assert_eq!(lacks, said, "{notes:?}");
    }
}

/// The flags of a GGUF file give the tokens that transformers adds: those of the steps of `tokenizer.json`, whatever
/// `tokenizer_config.json` says (checked with transformers 5.24).
#[test]
fn flags_follow_the_steps_of_tokenizer_json() {
    let flags = [
        (Some(true), Some(false)),
        (Some(false), Some(false)),
        (Some(true), Some(true)),
        (None, None),
        (Some(false), Some(true)),
    ];
    let bos = json!({
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<bos>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [],
    });
    for (step, begins) in [(bos, true), (Json::Null, false)] {
        for (says_bos, says_eos) in flags {
            let mut json = merges_with_bytes();
            json["post_processor"] = step.clone();
            let config = json!({
                "bos_token": "<bos>", "eos_token": "<|turn>", "add_bos_token": says_bos, "add_eos_token": says_eos,
            });
            let files = [
                ("tokenizer.json", json.to_string()),
                ("tokenizer_config.json", config.to_string()),
            ];
            let made = beside("llama", 9, &files);
            let model = Model::open(made.path()).expect("a directory");
            let own = tokenizer(&keys(&made));
            // llama.cpp begins the texts of such tokenizers unless the key says otherwise, and does not end them.
            let flag = |key: &str, usual: bool| own.get(key).map_or(usual, |flag| flag == "true");
            let found = [flag("add_bos_token", true), flag("add_eos_token", false)];
            assert_eq!(found, [begins, false], "{says_bos:?} {says_eos:?}");
            // A flag that says otherwise is named: llama.cpp's converter writes it.
            let (_, notes) = gguf_metadata_and_notes(&model).expect("keys");
            let notes = notes.iter().map(|note| note.text.as_str()).collect::<Vec<_>>().join("; ");
            let checked = ops::check_consistency(&model, Strictness::Default).expect("a report");
            let checked = checked.notes.join("; ");
            for (key, says, adds) in
                [("add_bos_token", says_bos, begins), ("add_eos_token", says_eos, false)]
            {
                let is_named = says.is_some_and(|says| says != adds);
                let said = format!("{key} in tokenizer_config.json is {}", !adds);
                assert_eq!(notes.contains(&said), is_named, "{notes}");
                assert_eq!(checked.contains(&said), is_named, "{checked}");
            }
        }
    }
}

/// llama.cpp takes token 2 for the unknown token of a Unigram tokenizer, and does not spell characters in bytes.
#[test]
fn unknown_characters_of_unigram_tokenizers() {
    let json = json!({
        "added_tokens": [
            {"id": 0, "content": "<s>", "special": true},
            {"id": 2, "content": "</s>", "special": true},
            {"id": 4, "content": "foo", "special": false, "single_word": true},
        ],
        "model": {
            "type": "Unigram", "unk_id": 3, "byte_fallback": true,
            "vocab": [["<s>", 0.0], ["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0], ["foo", 0.0], ["<0x0A>", -9.0]],
        },
    });
    let folder = beside("qwen3", 6, &[("tokenizer.json", json.to_string())]);
    let model = Model::open(folder.path()).expect("a directory");
    let (found, notes) = gguf_metadata_and_notes(&model).expect("keys");
    let unknown = found.get("tokenizer.ggml.unknown_token_id").and_then(|id| id.to_u64());
    assert_eq!(unknown, Some(3));
    let notes: Vec<&str> = notes.iter().map(|note| note.text.as_str()).collect();
    let notes = notes.join("; ");
    for part in ["no byte fallback for Unigram tokenizers", "single_word of added tokens (foo)"] {
        assert!(notes.contains(part), "{notes}");
    }
}

/// Tokens that `tokenizers` looks for in the text with blocks, and llama.cpp in the text as it is written.
#[test]
fn added_tokens_that_are_normalized() {
    let json = json!({
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        ]},
        "added_tokens": [
            {"id": 0, "content": "<unk>", "special": true, "normalized": false},
            {"id": 2, "content": "</s>", "special": true, "normalized": true},
            {"id": 3, "content": "<tool>", "special": false, "normalized": true},
            {"id": 4, "content": "<end>", "special": true, "normalized": false},
        ],
        "model": {
            "type": "BPE", "unk_token": "<unk>", "byte_fallback": true, "merges": ["▁ a"],
            "vocab": {"<unk>": 0, "<s>": 1, "</s>": 2, "▁": 5, "a": 6, "▁a": 7},
        },
    });
    let folder = beside("llama", 8, &[("tokenizer.json", json.to_string())]);
    let model = Model::open(folder.path()).expect("a directory");
    let (_, notes) = gguf_metadata_and_notes(&model).expect("keys");
    let notes: Vec<&str> = notes.iter().map(|note| note.text.as_str()).collect();
    let notes = notes.join("; ");
    assert!(notes.contains("normalized of added tokens (<tool>)"), "{notes}");
}

/// Older directories name special tokens in `special_tokens_map.json` alone. Texts end at a token that it names, too.
#[test]
fn special_tokens_of_older_directories() {
    let files = |text: &str| {
        [
            ("tokenizer.model", pieces(2)),
            (
                "tokenizer_config.json",
                json!({"tokenizer_class": "LlamaTokenizer"}).to_string().into_bytes(),
            ),
            ("added_tokens.json", json!({text: 6}).to_string().into_bytes()),
            ("special_tokens_map.json", json!({"eos_token": text}).to_string().into_bytes()),
        ]
    };
    for (text, eot) in [("<stop>", Some("6")), ("<|im_end|>", None)] {
        let folder = beside("llama", 7, &files(text));
        let path = folder.path().join("config.json");
        let mut config: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        config["eos_token_id"] = 2.into();
        put(folder.path(), "config.json", config.to_string());
        let own = tokenizer(&keys(&folder));
        assert_eq!(own["eos_token_id"], "2");
        assert_eq!(own.get("eot_token_id").map(String::as_str), eot, "{text}");
    }
}

/// transformers adds the special tokens that `tokenizer_config.json` names, in this order (checked with transformers
/// 5.24).
#[test]
fn special_tokens_that_are_named_alone() {
    let config = json!({
        "pad_token": "<pad>", "additional_special_tokens": ["ab"], "extra_special_tokens": {"image_token": "<img>"},
    });
    let json = merges_with_bytes();
    let files =
        [("tokenizer.json", json.to_string()), ("tokenizer_config.json", config.to_string())];
    let folder = beside("llama", 300, &files);
    let keys = keys(&folder);
    let texts: Vec<String> = tokenizer(&keys)["tokens"].split(' ').map(str::to_owned).collect();
    let kinds: Vec<String> = tokenizer(&keys)["token_type"].split(' ').map(str::to_owned).collect();
    let kind = |text: &str| texts.iter().position(|other| other == text).map(|id| &*kinds[id]);
    assert_eq!([kind("<pad>"), kind("<img>")], [Some("3"), Some("3")], "{texts:?}");
    let model = Model::open(folder.path()).expect("a directory");
    let tables =
        weighbridge::translate::tokenizer_tables(&model).expect("tables").expect("a tokenizer");
    let added = tables.settings["added_tokens"].as_array().expect("a list");
    let named = |text: &str| added.iter().find(|token| token["content"] == text).is_some();
    assert!(named("<pad>") && named("<img>") && named("ab"));
}

/// Without a `tokenizer.json`, the class and `legacy` say where a space is put (checked with transformers 5.24).
#[test]
fn spaces_before_texts_and_after_special_tokens() {
    for (config, scheme) in [
        (json!({"tokenizer_class": "LlamaTokenizer", "legacy": false}), Some("first")),
        (json!({"tokenizer_class": "LlamaTokenizerFast", "legacy": true}), Some("always")),
        (json!({"tokenizer_class": "LlamaTokenizer"}), Some("first")),
        (json!({"legacy": false}), Some("first")),
        (json!({"legacy": true}), None),
        (json!({}), None),
    ] {
        let text = config.to_string().into_bytes();
        let folder =
            beside("llama", 5, &[("tokenizer.model", pieces(2)), ("tokenizer_config.json", text)]);
        let model = Model::open(folder.path()).expect("a directory");
        let tables =
            weighbridge::translate::tokenizer_tables(&model).expect("tables").expect("a tokenizer");
        let (before, steps) = (&tables.settings["normalizer"], &tables.settings["pre_tokenizer"]);
        assert_eq!(steps["prepend_scheme"].as_str(), scheme, "{config}");
        assert_eq!(before.is_null(), scheme.is_some(), "{config}");
    }
}

/// `vocab.json` and `merges.txt` do not state how text is split: the class does (checked with transformers 5.24).
#[test]
fn classes_split_text_in_their_own_way() {
    for (class, model_type, pre) in [
        (Some("GPT2Tokenizer"), "phi", "gpt-2"),
        (Some("CodeGenTokenizerFast"), "llama", "gpt-2"),
        (Some("Qwen2Tokenizer"), "llama", "qwen2"),
        (Some("RobertaTokenizer"), "bert", "roberta-bpe"),
        (None, "qwen3", "qwen2"),
        (None, "llama", "default"),
    ] {
        let mut config = class.map_or(json!({}), |class| json!({"tokenizer_class": class}));
        config["bos_token"] = "a".into();
        config["eos_token"] = "b".into();
        let files = [
            ("vocab.json", json!({"a": 0, "b": 1, "ab": 2}).to_string()),
            ("merges.txt", "#version: 0.2\na b\n".to_owned()),
            ("tokenizer_config.json", config.to_string()),
        ];
        let folder = beside(model_type, 3, &files);
        assert_eq!(tokenizer(&keys(&folder))["pre"], pre, "{class:?} of {model_type}");
        let model = Model::open(folder.path()).expect("a directory");
        let tables =
            weighbridge::translate::tokenizer_tables(&model).expect("tables").expect("a tokenizer");
        let steps = &tables.settings["pre_tokenizer"];
        assert_eq!(
            steps["type"] == "ByteLevel",
            ["gpt-2", "roberta-bpe"].contains(&pre),
            "{steps}"
        );
        // RoBERTa's class puts a token before and one after each text.
        let surrounds = class == Some("RobertaTokenizer");
        assert_eq!(tokenizer(&keys(&folder)).contains_key("add_bos_token"), surrounds);
        assert_eq!(!tables.settings["post_processor"].to_string().contains("\"b\""), !surrounds);
    }
}
