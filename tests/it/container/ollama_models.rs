//! Models in Ollama's store: what a copy keeps, and what is not read or not made.

use std::path::PathBuf;

use serde_json::{Value as Json, json};
use weighbridge::container::ollama;
use weighbridge::ollama::Modelfile;
use weighbridge::ops::{self, CreateOptions};
use weighbridge::{DType, ErrorKind, Limits, Model, OpenOptions, WriteOptions};

use crate::ollama_store::Store;
use crate::support::{Gguf, Kv, Safetensors, f32s, fixture, folder, put};

fn gguf() -> Vec<u8> {
    let file = Gguf::new().key("general.architecture", Kv::text("llama"));
    file.tensor("token_embd.weight", DType::F32, &[1, 1], f32s(&[3.0])).build()
}

/// A store with a GGUF model, whose manifest has this config and these other layers.
fn stored(config: &str, others: &[(&str, &[u8])]) -> (Store, PathBuf) {
    let store = Store::new();
    let mut layers = vec![store.layer("model", "", &gguf())];
    layers.extend(others.iter().map(|(kind, bytes)| store.layer(kind, "", bytes)));
    let text = crate::ollama_store::manifest(&layers);
    let mut json: Json = serde_json::from_str(&text).expect("JSON");
    json["config"] = json!({
        "mediaType": "application/vnd.docker.container.image.v1+json",
        "digest": format!("sha256:{}", store.blob(config.as_bytes())), "size": config.len(),
    });
    let name = "manifests/registry.ollama.ai/library/m/latest";
    put(store.path(), name, json.to_string());
    let place = store.path().join(name);
    (store, place)
}

/// The text of the config of the model that `create` makes, and the kinds of its layers.
fn copied(model: &Model, options: CreateOptions) -> (String, Vec<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let place = ollama::place("copy", Some(folder.path())).expect("a place");
    let plan = ops::create(model, options).unwrap_or_else(|error| panic!("{error}"));
    plan.run(&place, &WriteOptions::new().allow_incomplete(true)).expect("a model");
    let json: Json =
        serde_json::from_slice(&std::fs::read(&place).expect("a manifest")).expect("JSON");
    let digest = json["config"]["digest"].as_str().expect("a digest").replace(':', "-");
    let config = std::fs::read(folder.path().join("blobs").join(digest)).expect("a config");
    let kinds = json["layers"].as_array().expect("layers").iter().map(|layer| {
        layer["mediaType"].as_str().expect("a kind").rsplit('.').next().expect("a word").to_owned()
    });
    (String::from_utf8(config).expect("UTF-8"), kinds.collect())
}

/// To which nothing is added keeps its config to the byte, with what only other programs know.
#[test]
fn a_copy_keeps_the_config() {
    let config = r#"{"model_format":"gguf", "model_family":"mine", "a_key_of_tomorrow":[1, 2]}"#;
    let (_store, place) = stored(config, &[("template", b"{{ .Prompt }}")]);
    let model = Model::open(&place).unwrap_or_else(|error| panic!("{error}"));
    let (same, kinds) = copied(&model, CreateOptions::new());
    assert_eq!(same, config);
    assert_eq!(kinds, ["model", "template"]);
    let (other, kinds) = copied(&model, CreateOptions::new().system("Be Mario."));
    assert_ne!(other, config);
    assert_eq!(kinds, ["model", "template", "system"]);
    let other: Json = serde_json::from_str(&other).expect("JSON");
    assert_eq!(other["model_format"], "gguf");
}

#[test]
fn a_draft_needs_an_architecture() {
    let directory = |config: &str| {
        let values = f32s(&[1.0; 64]);
        let file = Safetensors::new().tensor("lm_head.weight", "F32", &[8, 8], values).build();
        folder(&[("config.json", config.as_bytes()), ("model.safetensors", &file)])
    };
    let main = directory(r#"{"architectures":["LlamaForCausalLM"]}"#);
    let main = Model::open(main.path()).expect("a model");
    let drafted = |config: &str| {
        let draft = directory(config);
        let options = CreateOptions::new().draft(draft.path()).expect("a draft");
        ops::create(&main, options).map(|plan| plan.tensors.len())
    };
    assert_eq!(drafted(r#"{"architectures":["Gemma4Assistant"]}"#).expect("a plan"), 2);
    for config in ["{}", r#"{"architectures":[]}"#, r#"{"architectures":[""]}"#] {
        let error = drafted(config).expect_err("no name");
        assert_eq!(error.kind(), ErrorKind::Malformed, "{config}: {error}");
        let fault = "the config.json of the draft model names no architecture";
        assert!(error.to_string().ends_with(fault), "{error}");
    }
}

/// A Modelfile may name each file of a split model: they are one.
#[test]
fn every_shard_may_be_named() {
    let Some(folder) = fixture("gguf/split") else { return };
    let shard = |number| format!("mixtral-split-{number:05}-of-00003.gguf");
    let modelfile = |names: &[String]| {
        let text: String = names.iter().map(|name| format!("FROM {name}\n")).collect();
        let file = Modelfile::parse(text.as_bytes()).expect("a Modelfile");
        CreateOptions::new().modelfile(&file, &folder, None).map(|(model, _)| model)
    };
    let one = modelfile(&[shard(1)]).expect("a model");
    let all = modelfile(&[shard(1), shard(2), shard(3)]).expect("the same model");
    assert_eq!((all.files().count(), all.len()), (one.files().count(), one.len()));
    let another = fixture("gguf/model/llama-f16.gguf").expect("a model");
    let error = modelfile(&[shard(1), another.display().to_string()]).expect_err("two models");
    assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
    assert!(error.to_string().contains("FROM names two models; the first is"), "{error}");
}

/// Texts of a stored model are read whole, up to the limit for documents.
#[test]
fn texts_beyond_the_limit_are_refused() {
    let license = "do as you like, but not at length. ".repeat(40);
    let (_store, place) = stored("{}", &[("license", license.as_bytes())]);
    let shown = |most: usize| {
        let mut limits = Limits::default();
        limits.document_bytes = most as u64;
        let model = OpenOptions::new().limits(limits).open(&place).expect("a model");
        ops::show(&model).map(|report| report.license)
    };
    assert_eq!(shown(license.len()).expect("a report").trim_end(), license.trim_end());
    let error = shown(license.len() - 1).expect_err("too long");
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert!(error.to_string().contains("1400 bytes of text"), "{error}");
}

/// Parameters that another program wrote stay as they are, if nothing is added.
#[test]
fn a_copy_keeps_the_parameters() {
    let store = Store::new();
    let config = br#"{"architectures":["LlamaForCausalLM"]}"#;
    let tensor = Safetensors::new().tensor("lm_head.weight", "F32", &[8, 8], f32s(&[1.0; 64]));
    let params = br#"{ "temperature" : 0.50, "a_parameter_of_tomorrow": 1 }"#;
    let layers = [
        store.tensor("lm_head.weight", &tensor),
        store.layer("json", "config.json", config),
        store.layer("params", "", params),
    ];
    let model = Model::open(store.manifest("m/latest", &layers)).expect("a model");
    let parameters = |options| {
        let plan = ops::create(&model, options).unwrap_or_else(|error| panic!("{error}"));
        let folder = tempfile::tempdir().expect("a folder");
        let place = ollama::place("copy", Some(folder.path())).expect("a place");
        plan.run(&place, &WriteOptions::new().allow_incomplete(true)).expect("a model");
        let json: Json =
            serde_json::from_slice(&std::fs::read(&place).expect("a manifest")).expect("JSON");
        let layers = json["layers"].as_array().expect("layers");
        let kind = |layer: &&Json| {
            layer["mediaType"].as_str().is_some_and(|kind| kind.ends_with(".params"))
        };
        let digest = layers.iter().find(kind).expect("parameters")["digest"].as_str();
        let blob = digest.expect("a digest").replace(':', "-");
        std::fs::read(folder.path().join("blobs").join(blob)).expect("a blob")
    };
    assert_eq!(parameters(CreateOptions::new()), params);
    let options = CreateOptions::new().parameter("temperature", "1").expect("a parameter");
    let changed: Json = serde_json::from_slice(&parameters(options)).expect("JSON");
    assert_eq!(changed["temperature"], 1);
}
