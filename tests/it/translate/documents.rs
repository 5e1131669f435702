//! Documents of a model, translated from one container's words to another's.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::{Gguf, Kv, Safetensors, f32s, fixture, folder, outside, put};
use weighbridge::json::Json;
use weighbridge::metadata::{KeyValues, Value};
use weighbridge::translate::{
    Documents, gguf_metadata, gguf_metadata_and_notes, gguf_tensors, hf_documents,
};
use weighbridge::{DType, Model, OpenOptions};

/// Keys with their values, types included, arrays by their elements.
fn listed(keys: &KeyValues) -> BTreeMap<String, String> {
    let value = |value: Value<'_>| match value.to_array() {
        Some(array) => {
            let elements: Vec<_> = array.values().collect();
            format!("{:?} {elements:?}", array.element_type())
        }
        None => format!("{value:?}"),
    };
    keys.iter().map(|(key, found)| (key.spelling().into_owned(), value(found))).collect()
}

fn of_file(path: &Path) -> BTreeMap<String, String> {
    let store = Model::open(path).expect("a GGUF file");
    listed(&gguf_metadata(&store).expect("metadata"))
}

/// Keys that the directories of the fixtures cannot give, and why.
const NOT_HERE: &[(&str, &str)] = &[
    ("tokenizer.", "the directories have no tokenizer; the converter was given one beside them"),
    ("general.file_type", "the dtypes of what is written say it, and the writer knows them"),
    ("general.name", "of the folder, which had another name when it was converted"),
];

fn without(mut keys: BTreeMap<String, String>) -> BTreeMap<String, String> {
    keys.retain(|key, _| NOT_HERE.iter().all(|(start, _)| !key.starts_with(start)));
    keys
}

#[test]
fn keys_are_those_of_the_converter() {
    for (directory, file) in [
        ("hf/llama-f16", "llama-f16"),
        ("hf/qwen2-f16", "qwen2-f16"),
        ("hf/mixtral-bf16", "mixtral-bf16"),
        ("hf/bert-f32", "bert-f32"),
        ("mlx/mixtral-mxfp4", "mixtral-bf16"),
        ("mlx/qwen2-q5g32-f16", "qwen2-f16"),
    ] {
        let Some(root) = outside("") else { return };
        let store = Model::open(root.join(directory)).expect(directory);
        let keys = gguf_metadata(&store).expect(directory);
        let expected = of_file(&root.join(format!("gguf/model/{file}.gguf")));
        assert_eq!(without(listed(&keys)), without(expected), "{directory}");
    }
}

/// The documents of a GGUF file, by name.
fn documents(path: &Path) -> BTreeMap<&'static str, Vec<u8>> {
    let store = Model::open(path).expect("a GGUF file");
    hf_documents(&store).map(Documents::into_files).expect("documents").into_iter().collect()
}

/// Fields that a directory made from GGUF has otherwise, and why.
const OTHERWISE: &[(&str, &str)] = &[
    ("architecture", "GGUF's llama is transformers' mixtral, where there are experts"),
    ("causal", "what BERT's class is, its config.json does not say"),
    ("type_vocab_size", "in GGUF a key of the tokenizer's, which no field is made of"),
];

fn fields(store: &Model) -> BTreeMap<String, Json> {
    let config = store.config().expect("a config");
    let fields = config.fields().into_iter().map(|field| (field.name.to_owned(), field.value));
    fields.filter(|(name, _)| OTHERWISE.iter().all(|(other, _)| name != other)).collect()
}

#[test]
fn documents_from_gguf_say_what_the_file_says() {
    for (file, directory) in [
        ("llama-f16", "hf/llama-f16"),
        ("qwen2-f16", "hf/qwen2-f16"),
        ("mixtral-bf16", "hf/mixtral-bf16"),
        ("bert-f32", "hf/bert-f32"),
    ] {
        let Some(root) = outside("") else { return };
        let gguf = root.join(format!("gguf/model/{file}.gguf"));
        let original = root.join(directory);
        let made = documents(&gguf);
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (name, bytes) in &made {
            put(folder.path(), name, bytes);
        }
        let weights = "model.safetensors";
        std::fs::copy(original.join(weights), folder.path().join(weights)).expect("weights");
        let store = Model::open(folder.path()).expect("a directory");
        let of_gguf = Model::open(&gguf).expect("a GGUF file");
        assert_eq!(fields(&store), fields(&of_gguf), "{file}");

        // What the original says, wherever both say it.
        let original = Model::open(original).expect("a directory");
        let json = |store: &Model| store.document("config.json").cloned().expect("a config");
        let (original, made) = (json(&original), json(&store));
        for (key, value) in made.as_object().expect("an object") {
            let there = original.get(key).filter(|value| !value.is_null());
            // The toy directories were made without a tokenizer, the GGUF files with one.
            if !key.ends_with("_token_id")
                && let Some(there) = there
            {
                assert_eq!(value, there, "{file}: {key}");
            }
        }

        // And back: the keys are those that the file had.
        let back = gguf_metadata(&store).expect("metadata");
        let (back, own) = (listed(&back), of_gguf_keys(&gguf));
        for (key, value) in &own {
            let excused = NOT_BACK.iter().any(|(name, _)| key.starts_with(name));
            assert!(excused || back.get(key) == Some(value), "{file}: {key}: {:?}", back.get(key));
        }
    }
}

/// Keys that a file made from a directory made from a file has otherwise, and why.
const NOT_BACK: &[(&str, &str)] = &[
    ("general.file_type", "the writer's to say"),
    ("general.name", "of the folder"),
    ("general.size_label", "BERT's pooler is in the directory and not in GGUF"),
    ("tokenizer.ggml.scores", "counted anew from the merges, in the same order"),
];

fn of_gguf_keys(path: &Path) -> BTreeMap<String, String> {
    listed(&KeyValues::of(Model::open(path).expect("a GGUF file").metadata()))
}

/// A directory of some documents, and one tensor of no meaning.
fn directory(documents: &BTreeMap<&'static str, Vec<u8>>) -> (tempfile::TempDir, Model) {
    let weights = Safetensors::new().tensor("t", "F32", &[1], f32s(&[1.0])).build();
    let folder = folder(&[("model.safetensors", weights)]);
    for (name, bytes) in documents {
        put(folder.path(), name, bytes);
    }
    let store = Model::open(folder.path()).expect("a directory");
    (folder, store)
}

fn metadata(store: &Model) -> BTreeMap<String, String> {
    listed(&gguf_metadata(store).expect("metadata"))
}

#[test]
fn real_vocabularies_go_there_and_back() {
    for file in ["ggml-vocab-llama-spm", "ggml-vocab-deepseek-coder"] {
        let Some(root) = fixture("gguf/vocab") else { return };
        let gguf = root.join(format!("{file}.gguf"));
        let documents = documents(&gguf);
        let (_folder, store) = directory(&documents);
        let (back, own) = (metadata(&store), of_gguf_keys(&gguf));
        for (key, value) in own.iter().filter(|(key, _)| key.starts_with("tokenizer.")) {
            // Today's converter takes seven tokens that look special, <|EOT|> and such, for control;
            // the one that wrote this file did not.
            if (file, key.as_str()) == ("ggml-vocab-deepseek-coder", "tokenizer.ggml.token_type") {
                let control = |text: &str| text.matches("I32(3)").count();
                assert_eq!(control(&back[key]), control(value) + 7);
                continue;
            }
            let excused = NOT_BACK.iter().any(|(name, _)| key.starts_with(name));
            assert!(excused || back.get(key) == Some(value), "{file}: {key}");
        }

        // What came from files goes back to files as it is.
        let again = hf_documents(&store).map(Documents::into_files).expect("documents");
        let again: BTreeMap<_, _> = again.into_iter().collect();
        assert_eq!(again, documents, "{file}");

        let json = Json::parse(&documents["tokenizer.json"]).expect("JSON");
        if file.ends_with("spm") {
            assert_eq!(json["model"]["byte_fallback"], true);
            // The first token that merges make: two blocks, of the highest score of all.
            assert_eq!(json["model"]["merges"][0], weighbridge::json::json!(["▁", "t"]));
            assert_eq!(json["model"]["vocab"]["<0x0A>"], 13);
        } else {
            assert_eq!(json["pre_tokenizer"]["pretokenizers"][1]["pattern"]["Regex"], r"\s?\p{L}+");
            assert_eq!(json["pre_tokenizer"]["pretokenizers"][4]["individual_digits"], true);
        }
    }
}

/// A Llama of this much more config.
fn llama(more: Json) -> (tempfile::TempDir, Model) {
    let mut config = weighbridge::json::json!({
        "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
    });
    let (Some(all), Json::Object(more)) = (config.as_object_mut(), more) else { unreachable!() };
    all.extend(more);
    directory(&BTreeMap::from([("config.json", config.to_string().into_bytes())]))
}

#[test]
fn rotary_factors_are_made_and_read_again() {
    let (_folder, store) = llama(weighbridge::json::json!({
        "rope_theta": 500_000.0, "head_dim": 16,
        "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 8192},
    }));
    let made = gguf_tensors(&store).expect("tensors");
    let [(name, factors)] = made.as_slice() else { panic!("{made:?}") };
    // The fifth wave is 4,443 positions long, between 8,192 / 4 and 8,192 / 1.
    assert_eq!(*name, "rope_freqs.weight");
    assert_eq!(factors.as_slice(), [1.0, 1.0, 1.0, 1.0, 2.694_529_8, 8.0, 8.0, 8.0]);

    let keys = gguf_metadata(&store).expect("metadata");
    let file = keys.iter().fold(Gguf::new(), |file, (key, value)| {
        let value = match value {
            Value::U32(number) => Kv::U32(number),
            Value::F32(number) => Kv::F32(number),
            Value::String(text) => Kv::text(text.to_str().expect("text")),
            other => panic!("{other:?}"),
        };
        file.key(key.as_bytes(), value)
    });
    let file = file.tensor(*name, DType::F32, &[8], f32s(factors));
    let store = OpenOptions::new().open_memory("file", file.build()).expect("a model");
    let documents = hf_documents(&store).map(Documents::into_files).expect("documents");
    let config = Json::parse(&documents[0].1).expect("JSON");
    let scaling = &config["rope_scaling"];
    assert_eq!(scaling["rope_type"], "llama3");
    assert_eq!((&scaling["factor"], &scaling["high_freq_factor"]), (&8.0.into(), &4.0.into()));
    assert_eq!(scaling["original_max_position_embeddings"], 8192);
}

#[test]
fn what_has_no_rules_is_refused_by_name() {
    let (_folder, store) = llama(weighbridge::json::json!({"model_type": "unheard-of"}));
    let error = gguf_metadata(&store).expect_err("no rules");
    assert_eq!(error.kind(), weighbridge::ErrorKind::Unsupported);
    assert!(error.to_string().contains("unheard-of"), "{error}");
}

/// The class renames the width of the published files.
#[test]
fn the_width_of_bloom_as_published() {
    let config = weighbridge::json::json!({
        "model_type": "bloom", "n_embed": 64, "n_layer": 2, "num_attention_heads": 4, "vocab_size": 8,
    });
    let files = BTreeMap::from([("config.json", config.to_string().into_bytes())]);
    let (_folder, store) = directory(&files);
    let keys = listed(&gguf_metadata(&store).expect("metadata"));
    assert_eq!(keys["bloom.embedding_length"], "U32(64)");
}

/// Ling's class may norm the columns of the output matrix: a stored matrix is then not that of the logits.
#[test]
fn a_normed_output_matrix_is_refused() {
    let experts = weighbridge::json::json!({
        "model_type": "bailing_moe", "norm_head": true, "num_experts": 2, "num_experts_per_tok": 1,
        "moe_intermediate_size": 8, "num_shared_experts": 1, "first_k_dense_replace": 0,
    });
    let (_folder, store) = llama(experts);
    let error = gguf_metadata(&store).expect_err("a normed matrix");
    assert_eq!(error.kind(), weighbridge::ErrorKind::Unsupported);
    assert!(error.to_string().contains("norm_head"), "{error}");
}

#[test]
fn text_that_is_split_in_an_unknown_way_is_noted() {
    let tokenizer = weighbridge::json::json!({
        "added_tokens": [{"id": 2, "content": "<|end|>", "special": false, "normalized": true}],
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null,
        "model": {"type": "BPE", "vocab": {"a": 0, "b c": 1}, "merges": [["a", "b c"]]},
    });
    let config = weighbridge::json::json!({
        "model_type": "qwen2", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
        "vocab_size": 4,
    });
    let (_folder, store) = directory(&BTreeMap::from([
        ("config.json", config.to_string().into_bytes()),
        ("tokenizer.json", tokenizer.to_string().into_bytes()),
    ]));
    let (keys, notes) = gguf_metadata_and_notes(&store).expect("metadata");
    assert!(notes[0].text.contains("tokenizer.ggml.pre"), "{}", notes[0].text);
    let keys = listed(&keys);
    assert_eq!(keys["tokenizer.ggml.pre"], r#"String("default")"#);
    assert!(keys["tokenizer.ggml.tokens"].contains("[PAD3]"), "{}", keys["tokenizer.ggml.tokens"]);
    assert_eq!(keys["tokenizer.ggml.token_type"], "I32 [I32(1), I32(1), I32(3), I32(5)]");
    assert_eq!(keys["tokenizer.ggml.merges"], r#"String [String("a bĠc")]"#);
}

/// The converter's title of a model: of the name in its config, or of its folder.
#[test]
fn models_are_named_after_their_config() {
    for (path, title) in [
        ("org/my-model-7b-v1.5", "My Model 7b v1.5"),
        ("meta-llama/Llama-3.2-1B", "Llama 3.2 1B"),
        ("alone", "Alone"),
    ] {
        let (_folder, store) = llama(weighbridge::json::json!({"_name_or_path": path}));
        let keys = gguf_metadata(&store).expect("metadata");
        let name = keys.get("general.name").and_then(|name| name.to_text());
        assert_eq!(name.and_then(|name| name.to_str()), Some(title), "{path}");
    }
    let (folder, store) = llama(weighbridge::json::json!({"_name_or_path": "/home/me/models/x"}));
    let keys = gguf_metadata(&store).expect("metadata");
    let name = keys.get("general.name").and_then(|name| name.to_text()).expect("a name");
    let folder = folder.path().file_name().expect("a name").to_str().expect("UTF-8").to_lowercase();
    let letters = |text: &str| text.replace([' ', '-'], "").to_lowercase();
    assert_eq!(letters(name.to_str().expect("UTF-8")), letters(&folder));
}

/// A GGUF file of a small Llama that keeps parts of a `config.json`.
fn keeping(architecture: &str, keys: &[(&str, Kv)]) -> Model {
    let sizes = ["embedding_length", "block_count", "attention.head_count", "context_length"];
    let sizes = sizes.iter().zip([64, 4, 4, 512]);
    let file = Gguf::new().key("general.architecture", Kv::text(architecture));
    let file = sizes
        .fold(file, |file, (key, size)| file.key(format!("{architecture}.{key}"), Kv::U32(size)));
    let file = keys.iter().fold(file, |file, (key, value)| file.key(key, value.clone()));
    let file = file.tensor("t", DType::F32, &[1], f32s(&[1.0]));
    OpenOptions::new().open_memory("file", file.build()).expect("a model")
}

fn config_of(model: &Model) -> weighbridge::Result<Json> {
    let files = hf_documents(model).map(Documents::into_files)?;
    Ok(Json::parse(&files[0].1).expect("JSON"))
}

/// A model without all of its tensors keeps its type and not its class.
#[test]
fn kept_types_have_their_own_classes() {
    let keys = [
        ("llama.feed_forward_length", Kv::U32(128)),
        ("llama.attention.layer_norm_rms_epsilon", Kv::F32(1e-5)),
        ("llama.vocab_size", Kv::U32(32)),
    ];
    let of = |kept: &str, derived: &str| {
        let own = [
            ("weighbridge.config", Kv::text(kept)),
            ("weighbridge.config.derived", Kv::text(derived)),
        ];
        let config = config_of(&keeping("llama", &[&keys[..], &own].concat())).expect("a config");
        (config["model_type"].clone(), config["architectures"].clone())
    };
    let derived = r#"{"model_type": "llama"}"#;
    let class = |name: &str| Json::from(vec![name]);
    assert_eq!(of("{}", "{}"), ("llama".into(), class("LlamaForCausalLM")));
    let kept = r#"{"model_type": "mistral"}"#;
    assert_eq!(of(kept, derived), ("mistral".into(), class("MistralForCausalLM")));
    let named = r#"{"model_type": "mistral", "architectures": ["OtherForCausalLM"]}"#;
    let derived = r#"{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}"#;
    assert_eq!(of(named, derived), ("mistral".into(), class("OtherForCausalLM")));
}

#[test]
fn whole_configs_are_kept_for_models_that_have_no_other() {
    let kept = ("weighbridge.config", Kv::text(r#"{"model_type": "rwkv7", "hidden_size": 64}"#));
    let whole = ("weighbridge.config.whole", Kv::Bool(true));
    let config = config_of(&keeping("rwkv7", &[kept.clone(), whole])).expect("a config");
    assert_eq!(config, weighbridge::json::json!({"model_type": "rwkv7", "hidden_size": 64}));
    let error = config_of(&keeping("rwkv7", &[kept])).expect_err("no rules");
    assert_eq!(error.kind(), weighbridge::ErrorKind::Unsupported);
}
