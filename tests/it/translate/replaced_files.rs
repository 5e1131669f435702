//! Each value of the documents beside the weights is replaced, one at a time, as in `replaced.rs`:
//! those of tokenizers, of quantized checkpoints and of adapters, and the keys of tokenizers in GGUF.
#![allow(clippy::disallowed_methods, reason = "the files and their sizes are the test's own")]

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::{
    Gguf, Kv, Safetensors, copy_of, f32s, fixture, folder, put, told as error_text, without_path,
};
use crate::translate::replaced::{
    Also, Told, derived_or_refused, label, other_keys, others, places, replace_in, replaced,
    shown_key,
};
use insta::assert_snapshot;
use serde_json::{Value as Json, json};
use weighbridge::adapter::Adapter;
use weighbridge::{DType, OpenOptions};

fn bpe() -> Json {
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [
            {"id": 0, "content": "<s>", "special": true, "lstrip": false, "normalized": false},
            {"id": 6, "content": "<extra>", "special": false, "lstrip": true, "normalized": true},
        ],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
                "behavior": "Isolated", "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false},
        ]},
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}},
        "decoder": {"type": "ByteLevel"},
        "model": {
            "type": "BPE", "unk_token": null, "byte_fallback": false, "ignore_merges": false,
            "vocab": {"<s>": 0, "t": 2, "h": 3, "th": 5, "\u{120}t": 4, "\"": 1},
            "merges": ["t h", ["\u{120}", "t"], ["\u{120} x", "t"]],
        },
    })
}

fn digits() -> Json {
    let mut json = bpe();
    json["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": true},
        {"type": "Punctuation", "behavior": "Contiguous"},
        {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    ]});
    json["model"]["ignore_merges"] = json!(true);
    json
}

fn sentencepiece() -> Json {
    json!({
        "version": "1.0",
        "added_tokens": [
            {"id": 0, "content": "<unk>", "special": true},
            {"id": 1, "content": "<s>", "special": true},
            {"id": 7, "content": "\u{2581}<a b>", "special": false},
            {"id": 99, "content": "<beyond>", "special": false},
        ],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "\u{2581}"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"},
        ]},
        "pre_tokenizer": null,
        "post_processor": {"type": "TemplateProcessing", "single": [
            {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": "<unk>", "type_id": 0}}]},
        "decoder": {"type": "Sequence", "decoders": [{"type": "Fuse"}]},
        "model": {
            "type": "BPE", "unk_token": "<unk>", "byte_fallback": true, "fuse_unk": true,
            "vocab": {"<unk>": 0, "<s>": 1, "<0x0A>": 2, "<0xZZ>": 3, "a": 4, "b": 5, "ab": 6},
            "merges": ["a b", "a b"],
        },
    })
}

fn wordpiece() -> Json {
    json!({
        "added_tokens": [{"id": 0, "content": "[UNK]", "special": true}, {"id": 1, "content": "[CLS]", "special": true},
            {"id": 2, "content": "[SEP]", "special": true}],
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}]},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "##b": 4}},
    })
}

fn unigram() -> Json {
    json!({
        "added_tokens": [{"id": 0, "content": "<s>", "special": true}, {"id": 2, "content": "</s>", "special": true}],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Precompiled", "precompiled_charsmap": "AAAA"},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
            {"type": "Strip", "strip_left": false, "strip_right": true},
        ]},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "WhitespaceSplit"},
            {"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": "always", "add_prefix_space": false},
        ]},
        "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]},
        "model": {"type": "Unigram", "unk_id": 3, "byte_fallback": true,
            "vocab": [["<s>", 0.0], ["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0], ["<0x0A>", -9.0], ["\u{2581}a", -1.5]]},
    })
}

/// Settings of a tokenizer, and what else lies beside it.
fn settings() -> Json {
    json!({
        "add_bos_token": true, "add_eos_token": false, "add_prefix_space": false,
        "clean_up_tokenization_spaces": true,
        "bos_token": "<s>", "eos_token": {"__type": "AddedToken", "content": "</s>", "lstrip": false},
        "unk_token": "<unk>", "pad_token": null, "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "<mask>",
        "added_tokens_decoder": {"5": {"content": "<five>", "special": true}, "x": {"content": "y"}},
        "chat_template": [{"name": "default", "template": "{{ a }}"}, {"name": "tool_use", "template": "{{ b }}"}],
        "model_max_length": 512, "tokenizer_class": "LlamaTokenizerFast",
    })
}

fn config(model_type: &str) -> Json {
    json!({
        "model_type": model_type, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 4, "intermediate_size": 6, "vocab_size": 10,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "layer_norm_eps": 1e-5, "rope_theta": 1e4,
        "type_vocab_size": 2, "hidden_act": "silu", "eos_token_id": [2, 3], "bos_token_id": 1,
    })
}

fn weights() -> Vec<u8> {
    let embedding = f32s(&[0.5; 80]);
    Safetensors::new().tensor("model.embed_tokens.weight", "F32", &[10, 8], embedding).build()
}

/// Replaces values of each document of a folder `model`, which stays as it was.
fn replace_all(told: &mut Told, name: &str, documents: &[(&str, Json)], also: Also) {
    let mut seen = BTreeMap::new();
    let folder = folder(&[("model/model.safetensors", weights())]);
    let place = folder.path().join("model");
    for (file, document) in documents {
        put(&place, file, document.to_string());
    }
    for (file, document) in documents.iter().filter(|(file, _)| *file != "config.json") {
        replace_in(told, &mut seen, (name, &place), (file, document), also);
    }
}

#[test]
fn tokenizers_of_directories() {
    let map = json!({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "additional_special_tokens": ["<extra>"]});
    let generation = json!({
        "do_sample": true, "temperature": 0.7, "top_k": 40, "top_p": 0.9, "min_p": 0.05,
        "repetition_penalty": 1.1, "max_new_tokens": 64, "bos_token_id": 1, "eos_token_id": [2, 3],
        "pad_token_id": 0, "stop_strings": ["x"], "other": {"a": 1},
    });
    let (mut told, mut beside) = (Told::default(), Told::default());
    for (name, model_type, tokenizer) in [
        ("bpe", "qwen2", bpe()),
        ("digits", "llama", digits()),
        ("sentencepiece", "llama", sentencepiece()),
        ("gemma", "gemma3_text", sentencepiece()),
        ("wordpiece", "bert", wordpiece()),
        ("unigram", "xlm-roberta", unigram()),
    ] {
        let alone = [("config.json", config(model_type)), ("tokenizer.json", tokenizer.clone())];
        replace_all(&mut told, name, &alone, Also::Nothing);
        let mut settings = settings();
        if name == "wordpiece" {
            settings["bos_token"] = Json::Null;
            settings["chat_template"] = "{{ c }}".into();
        }
        let all = [
            ("config.json", config(model_type)),
            ("tokenizer.json", tokenizer),
            ("tokenizer_config.json", settings),
            ("special_tokens_map.json", map.clone()),
            ("added_tokens.json", json!({"<five>": 5, "<six>": 6})),
            ("generation_config.json", generation.clone()),
            ("chat_template.json", json!({"chat_template": "{{ d }}"})),
        ];
        // Of `tokenizer.json`, what changes has been seen.
        let mut seen = BTreeMap::new();
        let folder = folder(&[("model/model.safetensors", weights())]);
        let place = folder.path().join("model");
        for (file, document) in &all {
            put(&place, file, document.to_string());
        }
        for (file, document) in &all[2..] {
            let name = format!("{name} with settings");
            replace_in(&mut beside, &mut seen, (&name, &place), (file, document), Also::Nothing);
        }
    }
    assert_snapshot!(told.text());
    assert_snapshot!("settings_of_tokenizers", beside.text());
}

/// The keys of a tokenizer, and those that every model has.
fn keys(architecture: &str, model: &str, more: &[(&str, Kv)]) -> Vec<(String, Kv)> {
    let number = |key: &str, value| (format!("{architecture}.{key}"), Kv::U32(value));
    let mut keys = vec![
        ("general.architecture".to_owned(), Kv::text(architecture)),
        number("embedding_length", 8),
        number("block_count", 1),
        number("context_length", 64),
        number("feed_forward_length", 6),
        number("attention.head_count", 4),
        (format!("{architecture}.attention.layer_norm_rms_epsilon"), Kv::F32(1e-6)),
        (format!("{architecture}.attention.layer_norm_epsilon"), Kv::F32(1e-6)),
    ];
    let texts = ["<unk>", "<s>", "</s>", "<0x0A>", "a", "b", "ab", "\u{2581}a", "[PAD8]", "<user>"];
    let kinds = [2, 3, 3, 6, 1, 1, 1, 1, 5, 4];
    let scores = [0.0, 0.0, 0.0, 0.0, -1.0, -2.0, -3.0, -2.5, -1000.0, -1000.0];
    let own = [
        ("model", Kv::text(model)),
        ("tokens", Kv::texts(&texts)),
        ("token_type", Kv::Array(5, kinds.map(Kv::I32).to_vec())),
        ("scores", Kv::Array(6, scores.map(Kv::F32).to_vec())),
        ("merges", Kv::texts(&["a b", "ab a"])),
        ("bos_token_id", Kv::U32(1)),
        ("eos_token_id", Kv::U32(2)),
        ("unknown_token_id", Kv::U32(0)),
    ];
    let tokenizer = |(key, value): (&str, Kv)| (format!("tokenizer.ggml.{key}"), value);
    keys.extend(own.into_iter().chain(more.iter().cloned()).map(tokenizer));
    keys
}

#[test]
fn tokenizers_of_gguf() {
    let chat = ("tokenizer.chat_template".to_owned(), Kv::text("{{ a }}"));
    let named = [
        ("tokenizer.chat_template.tool_use".to_owned(), Kv::text("{{ b }}")),
        ("tokenizer.chat_templates".to_owned(), Kv::texts(&["tool_use"])),
    ];
    let flag = |key, value| (key, Kv::Bool(value));
    let mut cases = vec![
        keys(
            "llama",
            "llama",
            &[
                flag("add_bos_token", true),
                flag("add_eos_token", true),
                flag("add_space_prefix", false),
                ("padding_token_id", Kv::U32(0)),
                ("eot_token_id", Kv::U32(2)),
                ("seperator_token_id", Kv::U32(2)),
            ],
        ),
        keys("qwen2", "gpt2", &[("pre", Kv::text("qwen2")), flag("add_bos_token", false)]),
        keys("llama", "gpt2", &[("pre", Kv::text("llama-bpe"))]),
        keys("llama", "gpt2", &[("pre", Kv::text("default")), flag("add_sep_token", true)]),
        keys(
            "bert",
            "bert",
            &[
                ("cls_token_id", Kv::U32(1)),
                ("seperator_token_id", Kv::U32(2)),
                ("mask_token_id", Kv::U32(4)),
            ],
        ),
        keys(
            "bert",
            "t5",
            &[
                flag("add_space_prefix", true),
                flag("remove_extra_whitespaces", true),
                flag("add_sep_token", true),
                ("precompiled_charsmap", Kv::Array(1, vec![Kv::I8(0); 4])),
            ],
        ),
        keys("gemma4", "gemma4", &[]),
        keys("llama", "rwkv", &[]),
    ];
    for case in &mut cases[..2] {
        case.push(chat.clone());
        case.extend(named.clone());
    }
    let mut told = Told::default();
    for keys in cases {
        let look = |keys: &[(String, Kv)]| {
            let file =
                keys.iter().fold(Gguf::new(), |file, (key, value)| file.key(key, value.clone()));
            let file = file.tensor("token_embd.weight", DType::F32, &[10, 8], f32s(&[0.5; 80]));
            let model = OpenOptions::new().open_memory("model.gguf", file.build());
            derived_or_refused(model, Path::new("/nowhere"), Also::Documents)
        };
        let before = look(&keys);
        let name = [0, 8].map(|place| shown_key(Some(&keys[place].1))).join(" ");
        for (place, (key, value)) in keys.iter().enumerate() {
            if !key.starts_with("tokenizer.") {
                continue;
            }
            for other in other_keys(value) {
                let shown = shown_key(other.as_ref());
                let mut keys = keys.clone();
                match other {
                    Some(other) => keys[place].1 = other,
                    None => drop(keys.remove(place)),
                }
                told.add((&name, key, &shown), &before, &look(&keys));
            }
        }
    }
    assert_snapshot!(told.text());
}

#[test]
fn configs_of_quantized_checkpoints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut told = Told::default();
    let mut folders: Vec<_> = ["hfq", "mlx"]
        .iter()
        .flat_map(|set| std::fs::read_dir(root.join(set)).expect("fixtures"))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.join("config.json").is_file())
        .collect();
    folders.sort();
    assert!(folders.len() > 30, "{}", folders.len());
    let mut seen = BTreeMap::new();
    for path in folders {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        // A model without a name is named after its folder.
        let weights = std::fs::read_dir(&path)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path());
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = folder.path().join("model");
        for file in weights.filter(|file| file.is_file()) {
            let name = file.file_name().expect("a name").to_string_lossy().into_owned();
            put(&place, &name, std::fs::read(&file).expect("a file"));
        }
        let text = std::fs::read_to_string(path.join("config.json")).expect("a config");
        let config: Json = serde_json::from_str(&text).expect("JSON");
        replace_in(&mut told, &mut seen, (&name, &place), ("config.json", &config), Also::Plans);
    }
    assert_snapshot!(told.text());
}

#[test]
fn configs_of_adapters() {
    let mut told = Told::default();
    for case in ["llama", "llama-rslora", "gpt2"] {
        let path = fixture(&format!("lora/{case}/adapter")).expect("the repository has it");
        let copy = copy_of(&path);
        let file = "adapter_config.json";
        let text = std::fs::read_to_string(path.join(file)).expect("a config");
        let config: Json = serde_json::from_str(&text).expect("JSON");
        let look = |config: &Json| {
            put(copy.path(), file, config.to_string());
            let said = match Adapter::open(copy.path()) {
                Err(error) => format!("error: {}", error_text(&error)),
                Ok(adapter) => {
                    let obstacle = adapter.obstacle().map(error_text);
                    let (ranks, alpha) = (adapter.ranks(), adapter.alpha());
                    format!(
                        "{} {ranks:?} {alpha:?} {} {:?} {} {obstacle:?}",
                        adapter.summary(),
                        adapter.is_rank_stabilized(),
                        adapter.base_model(),
                        adapter.targets().len(),
                    )
                }
            };
            std::collections::BTreeSet::from([without_path(&said, copy.path())])
        };
        let before = look(&config);
        let mut all = Vec::new();
        places(&config, "", &mut all);
        for place in all {
            for other in others(config.pointer(&place).expect("a value")) {
                let after = look(&replaced(&config, &place, other.as_ref()));
                told.add((case, &place, &label(other.as_ref())), &before, &after);
            }
        }
        // Keys that peft has and these adapters have not.
        for more in [
            json!({"rank_pattern": {"q_proj": 2}}),
            json!({"rank_pattern": {"layers.0.self_attn.q_proj": 2}}),
            json!({"rank_pattern": {"^x": 2}}),
            json!({"alpha_pattern": {"v_proj": 3}}),
            json!({"alpha_pattern": {"v": "x"}}),
            json!({"use_dora": true}),
            json!({"bias": "all"}),
            json!({"bias": "lora_only"}),
            json!({"modules_to_save": ["lm_head"]}),
            json!({"use_rslora": true}),
            json!({"fan_in_fan_out": true}),
            json!({"peft_type": "LOHA"}),
            json!({"lora_bias": true}),
            json!({"layers_to_transform": [0]}),
            json!({"trainable_token_indices": [1]}),
            json!({"alora_invocation_tokens": [1]}),
            json!({"target_parameters": ["x"]}),
            json!({"r": 0}),
            json!({"lora_alpha": 1e300}),
            json!({"lora_alpha": null}),
        ] {
            let mut config = config.clone();
            config
                .as_object_mut()
                .expect("an object")
                .extend(more.as_object().expect("an object").clone());
            told.add((case, "", &more.to_string()), &before, &look(&config));
        }
    }
    assert_snapshot!(told.text());
}
