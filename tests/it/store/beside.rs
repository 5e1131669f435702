//! The files and tensors of a model other than its weights: the modules of sentence-transformers,
//! chat templates, heads, layers that predict further tokens, and unknown files. They are written
//! too, or a note names them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};
use tempfile::TempDir;
use weighbridge::container::{Container, GGUF, MLX, SAFETENSORS};
use weighbridge::metadata::Value;
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::{DType, Model, Strictness, WriteOptions};

use crate::support::{Gguf, Kv, Safetensors, f32s, folder, put};

const WIDTH: u64 = 32;
const VOCABULARY: u64 = 16;

fn values(name: &str, shape: &[u64]) -> Vec<f32> {
    let count: u64 = shape.iter().product();
    let first = name.bytes().map(u64::from).sum::<u64>();
    (0..count).map(|n| ((first + n * 7) % 101) as f32 / 64.0).collect()
}

/// The tensors of a decoder of one layer: names after `prefix`, with the norms of a family.
fn decoder(prefix: &str, norms: &[&str]) -> Vec<(String, Vec<u64>)> {
    let mut tensors = vec![
        (format!("{prefix}embed_tokens.weight"), vec![VOCABULARY, WIDTH]),
        (format!("{prefix}norm.weight"), vec![WIDTH]),
    ];
    for norm in norms {
        let width = if norm.starts_with("self_attn.") { 16 } else { WIDTH };
        tensors.push((format!("{prefix}layers.0.{norm}.weight"), vec![width]));
    }
    for (name, shape) in [
        ("self_attn.q_proj", [WIDTH, WIDTH]),
        ("self_attn.k_proj", [16, WIDTH]),
        ("self_attn.v_proj", [16, WIDTH]),
        ("self_attn.o_proj", [WIDTH, WIDTH]),
        ("mlp.gate_proj", [64, WIDTH]),
        ("mlp.up_proj", [64, WIDTH]),
        ("mlp.down_proj", [WIDTH, 64]),
    ] {
        tensors.push((format!("{prefix}layers.0.{name}.weight"), shape.to_vec()));
    }
    tensors
}

const NORMS: [&str; 2] = ["input_layernorm", "post_attention_layernorm"];

fn weights(tensors: &[(String, Vec<u64>)]) -> Vec<u8> {
    let file = tensors.iter().fold(Safetensors::new(), |file, (name, shape)| {
        file.tensor(name, "F32", shape, f32s(&values(name, shape)))
    });
    file.build()
}

fn config(model_type: &str, class: &str, more: &Json) -> Vec<u8> {
    let mut config = json!({
        "model_type": model_type, "architectures": [class], "hidden_size": WIDTH, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "intermediate_size": 64,
        "vocab_size": VOCABULARY, "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": true,
    });
    let all = config.as_object_mut().expect("an object");
    all.extend(more.as_object().expect("an object").clone());
    config.to_string().into_bytes()
}

/// A tokenizer whose words are these and fillers.
fn tokenizer(words: &[&str]) -> Vec<u8> {
    let fillers = (words.len()..VOCABULARY as usize).map(|number| format!("t{number}"));
    let words = words.iter().map(|word| (*word).to_owned()).chain(fillers);
    let vocabulary: serde_json::Map<String, Json> =
        words.zip(0u64..).map(|(word, number)| (word, number.into())).collect();
    let level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    json!({
        "version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": level,
        "post_processor": null, "decoder": level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": [], "byte_fallback": false},
    })
    .to_string()
    .into_bytes()
}

fn llama(more: &[(&str, &[u8])]) -> TempDir {
    let made = folder(&[
        ("config.json", config("llama", "LlamaForCausalLM", &json!({}))),
        ("model.safetensors", weights(&decoder("model.", &NORMS))),
        ("tokenizer.json", tokenizer(&[])),
    ]);
    more.iter().for_each(|(name, bytes)| put(made.path(), name, bytes));
    made
}

/// Converts a model; gives the path and the notes.
fn convert(from: &Path, to: &'static Container, into: &Path) -> (PathBuf, String) {
    let model = Model::open(from).unwrap_or_else(|error| panic!("{error}"));
    let plan = ops::convert(&model, &ConvertOptions::new(to));
    let plan = plan.unwrap_or_else(|error| panic!("{error}"));
    let ending = if to.name == "gguf" { ".gguf" } else { "" };
    let path = into.join(format!("{}{ending}", std::fs::read_dir(into).expect("a folder").count()));
    plan.run(&path, &WriteOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    (path, plan.notes.join("\n"))
}

fn text(model: &Model, key: &str) -> Option<String> {
    let found = model.metadata().get(key)?.to_text()?;
    Some(found.spelling().into_owned())
}

fn number(model: &Model, key: &str) -> Option<u64> {
    model.metadata().get(key).as_ref().and_then(Value::to_u64)
}

fn read(folder: &Path, name: &str) -> Option<Vec<u8>> {
    std::fs::read(folder.join(name)).ok()
}

fn module(kind: &str, path: &str) -> Json {
    json!({"path": path, "type": format!("sentence_transformers.models.{kind}")})
}

#[test]
fn a_module_whose_files_are_missing_is_a_fault() {
    let modules = json!([
        module("Transformer", ""),
        module("Pooling", "1_Pooling"),
        module("Normalize", "2_Normalize")
    ]);
    let made = llama(&[("modules.json", modules.to_string().as_bytes())]);
    let said = |made: &TempDir| {
        let model = Model::open(made.path()).expect("a model");
        ops::check_consistency(&model, Strictness::Default).expect("a report").faults.join("; ")
    };
    assert_eq!(said(&made), "modules.json names 1_Pooling/config.json (Pooling), which is missing");
    put(made.path(), "1_Pooling/config.json", br#"{"pooling_mode_mean_tokens": true}"#);
    assert_eq!(said(&made), "");
}

/// A model of Gemma's embedder with two dense layers.
fn embedder(activation: &str) -> TempDir {
    const FOUR: [&str; 6] = [
        "input_layernorm",
        "post_attention_layernorm",
        "pre_feedforward_layernorm",
        "post_feedforward_layernorm",
        "self_attn.q_norm",
        "self_attn.k_norm",
    ];
    let more = json!({
        "hidden_activation": "gelu_pytorch_tanh", "sliding_window": 8, "query_pre_attn_scalar": 16,
        "layer_types": ["sliding_attention"], "rope_local_base_freq": 10000.0,
        "use_bidirectional_attention": true,
    });
    let modules = json!([
        module("Transformer", ""),
        module("Pooling", "1_Pooling"),
        module("Dense", "2_Dense"),
        module("Dense", "3_Dense"),
        module("Normalize", "4_Normalize"),
    ]);
    let made = folder(&[
        ("config.json", config("gemma3_text", "Gemma3TextModel", &more)),
        ("model.safetensors", weights(&decoder("", &FOUR))),
        ("tokenizer.json", tokenizer(&[])),
        ("modules.json", modules.to_string().into_bytes()),
        ("1_Pooling/config.json", br#"{"pooling_mode_mean_tokens": true}"#.to_vec()),
    ]);
    for (name, shape) in [("2_Dense", [48, WIDTH]), ("3_Dense", [WIDTH, 48])] {
        let layer = format!("torch.nn.modules.linear.{activation}");
        let config = json!({
            "in_features": shape[1], "out_features": shape[0], "bias": false, "activation_function": layer,
        });
        put(made.path(), &format!("{name}/config.json"), config.to_string());
        let file = Safetensors::new();
        let file = file.tensor("linear.weight", "F32", &shape, f32s(&values(name, &shape)));
        put(made.path(), &format!("{name}/model.safetensors"), file.build());
    }
    made
}

const MODULES: [&str; 6] = [
    "modules.json",
    "1_Pooling/config.json",
    "2_Dense/config.json",
    "2_Dense/model.safetensors",
    "3_Dense/config.json",
    "3_Dense/model.safetensors",
];

#[test]
fn modules_are_copied_to_directories() {
    let (made, out) = (embedder("Tanh"), tempfile::tempdir().expect("a folder"));
    for to in [&SAFETENSORS, &MLX] {
        let (path, notes) = convert(made.path(), to, out.path());
        for name in MODULES {
            assert_eq!(read(&path, name), read(made.path(), name), "{name}");
        }
        assert!(!notes.contains("not converted"), "{notes}");
        // Such a directory can be replaced, unless one of its folders holds something else.
        let model = Model::open(made.path()).expect("a model");
        let plan = ops::convert(&model, &ConvertOptions::new(to)).expect("a plan");
        let over = WriteOptions::default().overwrite(true);
        plan.run(&path, &over).expect("a new directory");
        put(&path, "2_Dense/photo.raw", b"-");
        assert!(plan.run(&path, &over).is_err());
    }
}

#[test]
fn dense_layers_go_to_gguf_and_back() {
    let (made, out) = (embedder("Identity"), tempfile::tempdir().expect("a folder"));
    let (path, notes) = convert(made.path(), &GGUF, out.path());
    assert!(!notes.contains("dense"), "{notes}");
    let gguf = Model::open(&path).expect("a GGUF file");
    for (name, shape) in [("2_Dense", [48, WIDTH]), ("3_Dense", [WIDTH, 48])] {
        let tensor = gguf.tensor(&format!("dense_{}.weight", &name[..1])).expect("a dense layer");
        assert_eq!(tensor.shape(), shape);
        assert_eq!(tensor.dequantize().expect("values")[..], values(name, &shape)[..]);
    }
    let key = |name: &str| number(&gguf, &format!("gemma-embedding.{name}"));
    assert_eq!(key("pooling_type"), Some(1));
    assert_eq!([key("dense_2_feat_in"), key("dense_2_feat_out")], [Some(WIDTH), Some(48)]);
    assert_eq!([key("dense_3_feat_in"), key("dense_3_feat_out")], [Some(48), Some(WIDTH)]);

    for to in [&SAFETENSORS, &MLX] {
        let (back, notes) = convert(&path, to, out.path());
        assert!(!notes.contains("dense"), "{notes}");
        let modules: Json =
            serde_json::from_slice(&read(&back, "modules.json").expect("modules")).expect("JSON");
        let paths: Vec<&str> =
            modules.as_array().expect("a list").iter().filter_map(|m| m["path"].as_str()).collect();
        assert_eq!(paths, ["", "1_Pooling", "2_Dense", "3_Dense", "4_Normalize"]);
        let dense = Model::open(back.join("2_Dense")).expect("a dense layer");
        let dense = dense.tensor("linear.weight").expect("a matrix").dequantize().expect("values");
        assert_eq!(dense[..], values("2_Dense", &[48, WIDTH])[..]);
        // The directory gives the same GGUF file.
        let (again, _) = convert(&back, &GGUF, out.path());
        let again = Model::open(again).expect("a GGUF file");
        assert_eq!(number(&again, "gemma-embedding.pooling_type"), Some(1));
        assert!(again.has("dense_3.weight"));
    }
}

#[test]
fn dense_layers_that_gguf_has_no_place_for_are_named() {
    let (made, out) = (embedder("Tanh"), tempfile::tempdir().expect("a folder"));
    let (path, notes) = convert(made.path(), &GGUF, out.path());
    assert!(
        notes.contains("the dense layers 2_Dense, 3_Dense: 2_Dense has the activation Tanh"),
        "{notes}"
    );
    assert!(!Model::open(path).expect("a GGUF file").has("dense_2.weight"));

    let modules = json!([
        module("Transformer", ""),
        module("Pooling", "1_Pooling"),
        module("Dense", "2_Dense"),
        module("LayerNorm", "3_LayerNorm"),
    ]);
    let made = llama(&[
        ("modules.json", modules.to_string().as_bytes()),
        ("1_Pooling/config.json", br#"{"pooling_mode_lasttoken": true}"#),
        ("2_Dense/config.json", b"{}"),
    ]);
    let (path, notes) = convert(made.path(), &GGUF, out.path());
    assert!(notes.contains("the module 3_LayerNorm (LayerNorm)"), "{notes}");
    assert!(
        notes.contains("the dense layers 2_Dense: no GGUF tensor is known for them"),
        "{notes}"
    );
    // llama.cpp reads the pooling of every architecture.
    assert!(!notes.contains("the pooling in 1_Pooling/config.json"), "{notes}");
    assert_eq!(number(&Model::open(path).expect("a GGUF file"), "llama.pooling_type"), Some(3));
}

#[test]
fn poolings_go_to_gguf_and_back() {
    let (made, out) = (qwen3("# An embedder\n"), tempfile::tempdir().expect("a folder"));
    let modules = json!([module("Transformer", ""), module("Pooling", "2_Pooling")]);
    put(made.path(), "modules.json", modules.to_string());
    put(made.path(), "2_Pooling/config.json", br#"{"pooling_mode_lasttoken": true}"#);
    let (path, _) = convert(made.path(), &GGUF, out.path());
    assert_eq!(number(&Model::open(&path).expect("a GGUF file"), "qwen3.pooling_type"), Some(3));
    let (back, _) = convert(&path, &SAFETENSORS, out.path());
    let pooling = read(&back, "1_Pooling/config.json").expect("a pooling");
    let pooling: Json = serde_json::from_slice(&pooling).expect("JSON");
    assert_eq!(pooling["pooling_mode_lasttoken"], true);
    assert_eq!(pooling["pooling_mode_mean_tokens"], false);
    assert_eq!(pooling["word_embedding_dimension"], WIDTH);
}

/// The pooler of BERT's class takes no part in the pooling of an embedder, which GGUF states.
#[test]
fn poolers_take_no_part_in_poolings() {
    let Some(hf) = crate::support::fixture("hf/bert-f32") else { return };
    let [made, out] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    for entry in std::fs::read_dir(hf).expect("a folder") {
        let entry = entry.expect("a file");
        let bytes = std::fs::read(entry.path()).expect("a file");
        put(made.path(), &entry.file_name().to_string_lossy(), bytes);
    }
    let said = |notes: &str| notes.contains("compute this model differently");
    let (_, notes) = convert(made.path(), &GGUF, out.path());
    assert!(said(&notes), "{notes}");
    // The folder of the weights may be written as a dot.
    let modules = json!([module("Transformer", "."), module("Pooling", "1_Pooling")]);
    put(made.path(), "modules.json", modules.to_string());
    put(made.path(), "1_Pooling/config.json", br#"{"pooling_mode_mean_tokens": true}"#);
    let (path, notes) = convert(made.path(), &GGUF, out.path());
    assert!(!notes.contains("./"), "{notes}");
    assert_eq!(number(&Model::open(&path).expect("a GGUF file"), "bert.pooling_type"), Some(1));
    assert!(!said(&notes) && notes.contains("pooler"), "{notes}");
    assert!(notes.contains("modules.json has no Normalize"), "{notes}");
}

/// Older embedders have a folder for the weights too. What is read without the others is told.
#[test]
fn an_embedder_in_folders_is_called_so() {
    let made = tempfile::tempdir().expect("a folder");
    let modules = json!([module("Transformer", "0_Transformer"), module("Pooling", "1_Pooling")]);
    put(made.path(), "modules.json", modules.to_string());
    put(made.path(), "1_Pooling/config.json", br#"{"pooling_mode_cls_token": true}"#);
    let inner = qwen3("# An embedder\n");
    for entry in std::fs::read_dir(inner.path()).expect("a folder") {
        let entry = entry.expect("a file");
        let name = format!("0_Transformer/{}", entry.file_name().to_string_lossy());
        put(made.path(), &name, std::fs::read(entry.path()).expect("a file"));
    }
    let error = crate::support::told(&Model::open(made.path()).expect_err("no weights here"));
    assert!(error.contains("next to modules.json"), "{error}");
    let model = Model::open(made.path().join("0_Transformer")).expect("the weights");
    let notes: Vec<String> = model.notes().iter().map(|note| note.text.clone()).collect();
    assert!(notes.concat().contains("not read: 1_Pooling"), "{notes:?}");
}

#[test]
fn named_templates_are_in_every_container() {
    let template = |name: &str| format!("{{# {name} #}}");
    let (default, tools) = (template("default"), template("tools"));
    let made = llama(&[
        ("chat_template.jinja", default.as_bytes()),
        ("additional_chat_templates/tool_use.jinja", tools.as_bytes()),
    ]);
    let out = tempfile::tempdir().expect("a folder");
    for to in [&SAFETENSORS, &MLX] {
        let (path, _) = convert(made.path(), to, out.path());
        let copied = read(&path, "additional_chat_templates/tool_use.jinja");
        assert_eq!(copied.as_deref(), Some(tools.as_bytes()));
    }
    let (path, _) = convert(made.path(), &GGUF, out.path());
    let gguf = Model::open(&path).expect("a GGUF file");
    assert_eq!(text(&gguf, "tokenizer.chat_template"), Some(default));
    assert_eq!(text(&gguf, "tokenizer.chat_template.tool_use"), Some(tools.clone()));
    let (back, _) = convert(&path, &SAFETENSORS, out.path());
    let config = String::from_utf8(read(&back, "tokenizer_config.json").expect("a config"));
    assert!(config.expect("text").contains(&tools));
}

#[test]
fn files_that_are_not_converted_are_listed() {
    let made = llama(&[
        ("README.md", b"# A model"),
        ("LICENSE", b"free"),
        ("onnx/model.onnx", b"-"),
        ("training_args.bin", b"-"),
        ("colbert_linear.pt", b"-"),
        ("experts/gate.json", b"{}"),
        ("sentence_bert_config.json", b"{}"),
        ("modeling_custom.py", b"pass"),
    ]);
    let out = tempfile::tempdir().expect("a folder");
    let (path, notes) = convert(made.path(), &SAFETENSORS, out.path());
    assert!(notes.contains("not converted: colbert_linear.pt, experts/"), "{notes}");
    assert!(!notes.contains("README") && !notes.contains("onnx"), "{notes}");
    assert_eq!(read(&path, "sentence_bert_config.json").as_deref(), Some(&b"{}"[..]));
    assert_eq!(read(&path, "modeling_custom.py").as_deref(), Some(&b"pass"[..]));
    let (_, notes) = convert(made.path(), &GGUF, out.path());
    let list =
        "not converted: colbert_linear.pt, experts/, modeling_custom.py, sentence_bert_config.json";
    assert!(notes.contains(list), "{notes}");
}

/// A decoder of Qwen 3 whose tokenizer has the words of a reranker.
fn qwen3(readme: &str) -> TempDir {
    let norms = [NORMS[0], NORMS[1], "self_attn.q_norm", "self_attn.k_norm"];
    folder(&[
        ("config.json", config("qwen3", "Qwen3ForCausalLM", &json!({}))),
        ("model.safetensors", weights(&decoder("model.", &norms))),
        ("tokenizer.json", tokenizer(&["a", "no", "yes"])),
        ("README.md", readme.as_bytes().to_vec()),
    ])
}

#[test]
fn rerankers_rank_in_gguf() {
    let out = tempfile::tempdir().expect("a folder");
    let made = qwen3("---\nlicense: mit\n---\n# Qwen3-Reranker-4B\n");
    let (path, notes) = convert(made.path(), &GGUF, out.path());
    assert!(notes.contains("calls the model a reranker: cls.output.weight"), "{notes}");
    let gguf = Model::open(&path).expect("a GGUF file");
    assert_eq!(number(&gguf, "qwen3.pooling_type"), Some(4));
    let key = "qwen3.classifier.output_labels";
    let labels = gguf.metadata().array(key).and_then(|list| list.texts()).expect("labels");
    assert_eq!(
        labels.map(|label| label.spelling().into_owned()).collect::<Vec<_>>(),
        ["yes", "no"]
    );
    assert!(
        text(&gguf, "tokenizer.chat_template.rerank").is_some_and(|text| text.contains("{query}"))
    );
    let embedding = values("model.embed_tokens.weight", &[VOCABULARY, WIDTH]);
    let row = |number: usize| &embedding[number * WIDTH as usize..(number + 1) * WIDTH as usize];
    let rows = gguf.tensor("classifier.output.weight").expect("a classifier");
    assert_eq!(rows.dequantize().expect("values")[..], [row(2), row(1)].concat()[..]);
    let found = ops::check_consistency(&gguf, Strictness::Strict).expect("a report");
    assert_eq!(found.faults, Vec::<String>::new());

    let made = qwen3("---\npipeline_tag: text-ranking\n---\n# Another\n");
    let (path, notes) = convert(made.path(), &GGUF, out.path());
    assert!(
        notes.contains("README.md calls the model a reranker: the GGUF file has no classifier"),
        "{notes}"
    );
    assert!(!Model::open(path).expect("a GGUF file").has("classifier.output.weight"));
}

/// sentence-transformers' module states the tokens, and their rows are what it computes.
#[test]
fn modules_that_compare_two_tokens_rank_in_gguf() {
    let out = tempfile::tempdir().expect("a folder");
    let module = json!([
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"},
        {"idx": 1, "name": "1", "path": "1_LogitScore", "type": "sentence_transformers.cross_encoder.modules.logit_score.LogitScore"},
    ]);
    for (readme, numbers, labels, prompts) in [
        ("# Qwen3-Reranker-4B\n", [2, 1], ["yes", "no"], true),
        ("# Another\n", [2, 1], ["yes", "no"], true),
        ("# Another\n", [3, 0], ["t3", "a"], false),
    ] {
        let made = qwen3(readme);
        put(made.path(), "modules.json", module.to_string());
        std::fs::create_dir(made.path().join("1_LogitScore")).expect("a folder");
        let [yes, no] = numbers;
        let stated = json!({"true_token_id": yes, "false_token_id": no}).to_string();
        put(&made.path().join("1_LogitScore"), "config.json", stated);
        let (path, notes) = convert(made.path(), &GGUF, out.path());
        assert!(!notes.contains("LogitScore"), "{notes}");
        let gguf = Model::open(&path).expect("a GGUF file");
        assert_eq!(number(&gguf, "qwen3.pooling_type"), Some(4));
        let list = gguf.metadata().array("qwen3.classifier.output_labels");
        let list = list.and_then(|list| list.texts()).expect("labels");
        assert_eq!(list.map(|label| label.to_string()).collect::<Vec<_>>(), labels);
        assert_eq!(text(&gguf, "tokenizer.chat_template.rerank").is_some(), prompts);
        let embedding = values("model.embed_tokens.weight", &[VOCABULARY, WIDTH]);
        let row =
            |number: usize| &embedding[number * WIDTH as usize..(number + 1) * WIDTH as usize];
        let rows = gguf.tensor("classifier.output.weight").expect("a classifier");
        assert_eq!(rows.dequantize().expect("values")[..], [row(yes), row(no)].concat()[..]);
    }
}

#[test]
fn heads_of_classifiers_are_named() {
    let mut tensors = decoder("model.", &NORMS);
    tensors.push(("score.weight".to_owned(), vec![1, WIDTH]));
    let made = folder(&[
        ("config.json", config("llama", "LlamaForSequenceClassification", &json!({}))),
        ("model.safetensors", weights(&tensors)),
    ]);
    let model = Model::open(made.path()).expect("a model");
    let error =
        ops::convert(&model, &ConvertOptions::new(&GGUF)).expect_err("no place").to_string();
    assert!(error.contains("score.weight"), "{error}");
    assert!(error.contains("LlamaForSequenceClassification, whose head"), "{error}");
}

/// Names that torch.compile and others have put a prefix before.
#[test]
fn prefixes_of_wrappers_are_read_through() {
    let out = tempfile::tempdir().expect("a folder");
    for prefix in ["_orig_mod.", "module.", "base_model.model.", "module._orig_mod."] {
        let tensors = decoder(&format!("{prefix}model."), &NORMS);
        let made = folder(&[
            ("config.json", config("llama", "LlamaForCausalLM", &json!({}))),
            ("model.safetensors", weights(&tensors)),
        ]);
        let model = Model::open(made.path()).expect("a model");
        let strict = ops::check_consistency(&model, Strictness::Strict).expect("a report").faults;
        assert!(strict.iter().any(|fault| fault.contains(prefix)), "{strict:?}");
        let (path, notes) = convert(made.path(), &GGUF, out.path());
        assert!(notes.contains(prefix), "{notes}");
        assert!(Model::open(path).expect("a GGUF file").has("layers.0.ffn.down.weight"));
        let (path, _) = convert(made.path(), &SAFETENSORS, out.path());
        let model = Model::open(path).expect("a directory");
        assert!(model.stored_tensor("model.layers.0.mlp.down_proj.weight").is_ok(), "{prefix}");
    }
}

/// A GGUF file of Qwen 3.5 with an attention layer and one that predicts a further token.
fn qwen35(layers: u32, next: u32, stored: u32) -> Gguf {
    let key = |name: &str| format!("qwen35.{name}");
    let mut file = Gguf::new().key("general.architecture", Kv::text("qwen35"));
    for (name, value) in [
        ("block_count", layers),
        ("nextn_predict_layers", next),
        ("context_length", 64),
        ("embedding_length", 32),
        ("feed_forward_length", 64),
        ("attention.head_count", 2),
        ("attention.head_count_kv", 1),
        ("attention.key_length", 16),
        ("attention.value_length", 16),
        ("ssm.conv_kernel", 4),
        ("ssm.state_size", 8),
        ("ssm.group_count", 2),
        ("ssm.time_step_rank", 4),
        ("ssm.inner_size", 32),
        ("rope.dimension_count", 8),
        ("vocab_size", 16),
        ("full_attention_interval", 2),
    ] {
        file = file.key(key(name), Kv::U32(value));
    }
    file = file.key(key("rope.freq_base"), Kv::F32(1e4));
    file = file.key(key("attention.layer_norm_rms_epsilon"), Kv::F32(1e-6));
    let sections = [2, 1, 1, 0].map(Kv::I32).to_vec();
    file = file.key(key("rope.dimension_sections"), Kv::Array(5, sections));
    let mut add = |name: &str, shape: &[u64]| {
        let tensor = std::mem::replace(&mut file, Gguf::new());
        file = tensor.tensor(name, DType::F32, shape, f32s(&values(name, shape)));
    };
    add("token_embd.weight", &[VOCABULARY, WIDTH]);
    add("output_norm.weight", &[WIDTH]);
    for layer in 0..stored {
        let mut add = |name: &str, shape: &[u64]| add(&format!("blk.{layer}.{name}"), shape);
        for name in ["attn_norm.weight", "post_attention_norm.weight"] {
            add(name, &[WIDTH]);
        }
        add("ffn_gate.weight", &[64, WIDTH]);
        add("ffn_up.weight", &[64, WIDTH]);
        add("ffn_down.weight", &[WIDTH, 64]);
        if layer == 0 {
            add("attn_qkv.weight", &[64, WIDTH]);
            add("attn_gate.weight", &[32, WIDTH]);
            add("ssm_alpha.weight", &[4, WIDTH]);
            add("ssm_beta.weight", &[4, WIDTH]);
            add("ssm_a", &[4]);
            add("ssm_dt.bias", &[4]);
            add("ssm_conv1d.weight", &[64, 4]);
            add("ssm_norm.weight", &[8]);
            add("ssm_out.weight", &[WIDTH, 32]);
            continue;
        }
        add("attn_q.weight", &[64, WIDTH]);
        add("attn_k.weight", &[16, WIDTH]);
        add("attn_v.weight", &[16, WIDTH]);
        add("attn_output.weight", &[WIDTH, 32]);
        add("attn_q_norm.weight", &[16]);
        add("attn_k_norm.weight", &[16]);
        if layer == 2 {
            add("nextn.eh_proj.weight", &[WIDTH, 64]);
            for name in ["enorm", "hnorm", "shared_head_norm"] {
                add(&format!("nextn.{name}.weight"), &[WIDTH]);
            }
        }
    }
    file
}

#[test]
fn layers_that_predict_further_tokens_are_left_out_whole() {
    let out = tempfile::tempdir().expect("a folder");
    // The second file does not state that one of its layers is such a layer.
    for next in [1, 0] {
        let file = out.path().join(format!("{next}.gguf"));
        std::fs::write(&file, qwen35(3, next, 3).build()).expect("a file");
        let (path, notes) = convert(&file, &MLX, out.path());
        assert!(notes.contains("multi-token prediction layer (nextn)"), "{notes}");
        let names = stored_names(&path);
        assert!(!names.iter().any(|name| name.contains(".layers.2.")), "{names:?}");
        assert_eq!(
            Model::open(&path).expect("a model").config().expect("a config").n_layers.value,
            2
        );
        let model = Model::open(&file).expect("a file");
        let error = model.leave_out(|name| name.starts_with("blk.2.")).expect_err("a layer");
        let advice = error.advice_in(|_| "").expect("advice");
        assert!(advice.contains("COPY --prune-layers 2"), "{error}: {advice}");
    }
}

fn stored_names(path: &Path) -> Vec<String> {
    let model = Model::open(path).expect("a model");
    assert!(model.resolution().expect("resolved").missing.is_empty());
    model.stored_tensors().map(|tensor| tensor.name().to_owned()).collect()
}

/// Hugging Face's files store the layer apart from the others (`mtp.*`, Qwen/Qwen3.5-9B), and GGUF after the last one.
#[test]
fn the_layer_for_further_tokens_is_stored_apart() {
    let out = tempfile::tempdir().expect("a folder");
    for next in [1, 0] {
        let file = out.path().join(format!("{next}.gguf"));
        std::fs::write(&file, qwen35(3, next, 3).build()).expect("a file");
        let (path, notes) = convert(&file, &SAFETENSORS, out.path());
        assert!(!notes.contains("nextn"), "{notes}");
        let names = stored_names(&path);
        let apart: Vec<&str> = names.iter().filter_map(|name| name.strip_prefix("mtp.")).collect();
        assert_eq!(apart.len(), 15, "{names:?}");
        let own = ["fc", "norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"];
        assert!(
            own.iter().all(|own| apart.contains(&format!("{own}.weight").as_str())),
            "{apart:?}"
        );
        assert!(!names.iter().any(|name| name.starts_with("model.layers.2.")), "{names:?}");
        let model = Model::open(&path).expect("a directory");
        assert_eq!(model.config().expect("a config").n_layers.value, 2);
        assert!(model.resolution().expect("resolved").auxiliary.is_empty());
        let strict = ops::check_consistency(&model, Strictness::Strict).expect("a report").faults;
        assert!(!strict.iter().any(|fault| fault.contains("nextn")), "{strict:?}");
        // Norms multiply by 1 + w there.
        let (first, again) =
            (Model::open(&file).expect("a file"), convert(&path, &GGUF, out.path()).0);
        let again = Model::open(again).expect("a file");
        for name in first.names().expect("names") {
            let values = |model: &Model| {
                model.tensor(name).and_then(|tensor| tensor.to_vec::<f32>()).expect("a tensor")
            };
            let (first, again) = (values(&first), values(&again));
            // The logarithm of a number that no model has.
            let is_same = |(a, b): (&f32, &f32)| a == b || a.is_nan() && b.is_nan();
            assert!(first.iter().zip(&again).all(is_same), "{name}");
        }
        assert_eq!(number(&again, "qwen35.block_count"), Some(3));
        assert_eq!(number(&again, "qwen35.nextn_predict_layers"), Some(1));
    }
}

#[test]
fn a_promised_layer_for_further_tokens_is_named() {
    let file = qwen35(3, 1, 2).build();
    let model = weighbridge::OpenOptions::new().open_memory("file", file).expect("a file");
    let missing = &model.resolution().expect("resolved").missing;
    assert_eq!(missing, &["layers.2..3 (the layers for multi-token prediction, nextn)"]);
    let file = qwen35(4, 1, 2).build();
    let model = weighbridge::OpenOptions::new().open_memory("file", file).expect("a file");
    let missing = &model.resolution().expect("resolved").missing;
    assert_eq!(missing[0], "layers.2..3");
    assert!(missing[1].starts_with("layers.3..4 (the layers for multi-token"), "{missing:?}");
}

/// Ollama's converter names the bias of the time step otherwise, states key heads for each layer, and
/// writes three sections.
#[test]
fn files_of_ollamas_converter_are_read() {
    let out = tempfile::tempdir().expect("a folder");
    let file = qwen35(2, 0, 2).with(|file| {
        for tensor in &mut file.tensors {
            if tensor.name == b"blk.0.ssm_dt.bias" {
                tensor.name = b"blk.0.ssm_dt".to_vec();
            }
        }
        let heads = Kv::Array(4, vec![Kv::U32(0), Kv::U32(1)]);
        let sections = Kv::Array(5, [2, 1, 1].map(Kv::I32).to_vec());
        for (name, value) in &mut file.keys {
            match name.as_slice() {
                b"qwen35.attention.head_count_kv" => *value = heads.clone(),
                b"qwen35.rope.dimension_sections" => *value = sections.clone(),
                _ => {}
            }
        }
    });
    let path = out.path().join("model.gguf");
    std::fs::write(&path, file.build()).expect("a file");
    let model = Model::open(&path).expect("a file");
    assert!(model.has("layers.0.linear_attention.dt_bias"));
    let found = ops::check_consistency(&model, Strictness::Strict).expect("a report").faults;
    let sections = "rope.dimension_sections has 3 numbers, but llama.cpp requires 4";
    assert!(found.iter().any(|fault| fault == sections), "{found:?}");

    let (back, _) = convert(&path, &SAFETENSORS, out.path());
    let config: BTreeMap<String, Json> =
        serde_json::from_slice(&read(&back, "config.json").expect("a config")).expect("JSON");
    assert_eq!(config["num_key_value_heads"], 1);
    assert!(Model::open(back).expect("a directory").has("layers.0.linear_attention.dt_bias"));
    let (_, notes) = convert(&path, &GGUF, out.path());
    assert!(notes.contains("llama.cpp could not load the file"), "{notes}");
}
