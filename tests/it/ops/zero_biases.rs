//! Biases of zeros, as AutoGPTQ stored them for every quantized matrix.

use std::collections::BTreeSet;

use crate::models::{Array, lists::LISTS, open, own};
use crate::public_reports::rebuilt;
use crate::support::{f32s, put};
use serde_json::{Value, json};
use weighbridge::Model;
use weighbridge::arch::Dialect;
use weighbridge::container::{Container, GGUF, MLX, SAFETENSORS};
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::recipe::FileType;
use weighbridge::recipe::llama_cpp::LlamaOptions;

/// The sample as a model of another class, with a bias for each matrix of its layers.
fn biased(model_type: &str, class: &str, value: impl Fn(&str) -> f32) -> tempfile::TempDir {
    let files = rebuilt(|name, shape, bytes| {
        let mut all = vec![(name.to_owned(), "F32", shape.to_vec(), bytes)];
        if let Some(matrix) = name.strip_suffix("_proj.weight") {
            let values = f32s(&vec![value(matrix); shape[0] as usize]);
            all.push((format!("{matrix}_proj.bias"), "F32", vec![shape[0]], values));
        }
        all
    });
    let config = std::fs::read(files.path().join("config.json")).unwrap();
    let mut config: Value = serde_json::from_slice(&config).unwrap();
    config["model_type"] = json!(model_type);
    config["architectures"] = json!([class]);
    put(files.path(), "config.json", config.to_string());
    files
}

/// The names of the biases that a conversion writes, and its notes.
fn biases(model: &Model, container: &'static Container) -> (BTreeSet<String>, String) {
    let plan = ops::convert(model, &ConvertOptions::new(container));
    let plan = plan.unwrap_or_else(|error| panic!("{error}"));
    let names = plan.tensors.iter().map(|tensor| tensor.name.clone());
    (names.filter(|name| name.ends_with(".bias")).collect(), plan.notes.join("; "))
}

/// Qwen 2 has biases of queries, keys and values alone, and so have the graphs of its readers.
#[test]
fn biases_without_a_place_are_left_out_if_they_are_zero() {
    let is_own = |matrix: &str| {
        ["q", "k", "v"].iter().any(|end| matrix.ends_with(&format!("self_attn.{end}")))
    };
    let value = |matrix: &str| if is_own(matrix) { 0.5 } else { 0.0 };
    let files = biased("qwen2", "Qwen2ForCausalLM", value);
    let model = Model::open(files.path()).unwrap();
    for container in [&GGUF, &MLX, &SAFETENSORS] {
        let (names, notes) = biases(&model, container);
        assert_eq!(names.len(), 6, "{}: {names:?}", container.name);
        assert!(
            notes.contains(
                "_proj.bias and 7 more: a bias of zeros, which the model's class does not have"
            ),
            "{notes}"
        );
    }
    let options = LlamaOptions::new(FileType::Q8_0);
    let plan = ops::quantize(&model, &options, None, "q.gguf".as_ref()).unwrap();
    let written = plan.tensors.iter().filter(|tensor| tensor.name.ends_with(".bias"));
    assert_eq!(written.count(), 6);
    // One of another value stays, and is refused.
    let one =
        |matrix: &str| if matrix.ends_with("layers.1.mlp.down") { 0.25 } else { value(matrix) };
    let files = biased("qwen2", "Qwen2ForCausalLM", one);
    let model = Model::open(files.path()).unwrap();
    let error = ops::convert(&model, &ConvertOptions::new(&GGUF)).unwrap_err().to_string();
    assert!(error.contains("has no place for blk.0.ffn_down.bias"), "{error}");
    let (names, _) = biases(&model, &SAFETENSORS);
    assert!(names.contains("model.layers.0.mlp.down_proj.bias") && names.len() == 8, "{names:?}");
    // They can be left out by name too, but those with values cannot.
    let all_zero = biased("qwen2", "Qwen2ForCausalLM", value);
    let model = Model::open(all_zero.path()).unwrap();
    let less = model.leave_out(|name| name.ends_with("down_proj.bias")).unwrap();
    assert!(biases(&less, &GGUF).1.contains("down_proj.bias and 1 more: as requested"));
    assert!(model.leave_out(|name| name.ends_with("q_proj.bias")).is_err());
}

/// The class of Llama has biases if a flag says so, which stays as it is.
#[test]
fn a_flag_stays_false_if_all_biases_are_zero() {
    let files = biased("llama", "LlamaForCausalLM", |_| 0.0);
    let model = Model::open(files.path()).unwrap();
    for container in [&MLX, &SAFETENSORS] {
        let (names, notes) = biases(&model, container);
        assert_eq!(names, BTreeSet::new());
        assert!(!notes.contains("_bias is true"), "{notes}");
    }
    // llama.cpp has a place for them.
    assert_eq!(biases(&model, &GGUF).0.len(), 14);
    let files =
        biased("llama", "LlamaForCausalLM", |matrix| if matrix.ends_with("o") { 0.5 } else { 0.0 });
    let model = Model::open(files.path()).unwrap();
    let names = |dialect| {
        let tensors = model.tensors_in(dialect).unwrap().tensors;
        tensors.iter().filter(|tensor| tensor.name().ends_with(".bias")).count()
    };
    assert_eq!(names(Dialect::HuggingFace), 14);
    let (written, notes) = biases(&model, &SAFETENSORS);
    assert_eq!(written.len(), 8, "those of attention: {written:?}");
    assert!(notes.contains("attention_bias is true"), "{notes}");
    let (_, notes) = biases(&model, &GGUF);
    let said =
        "attention_bias is false, but the model has layers.0.attention.q.bias: llama.cpp uses it";
    assert!(notes.contains(said), "{notes}");
}

/// Mixtral's classes have no biases, and neither a flag for them nor, for those of experts, a name.
#[test]
fn biases_without_a_name_are_left_out_if_they_are_zero() {
    let opened = |value: f32| {
        let list = LISTS.iter().find(|list| list.name == "mixtral of 2023").expect("a list");
        let mut model = own(list);
        let (form, mut tensors) = model.forms.remove(0);
        let is_wanted = |name: &str| name.contains("self_attn") || name.contains(".experts.");
        let matrices: Vec<(String, usize)> = tensors
            .iter()
            .filter(|(name, _)| is_wanted(name))
            .map(|(name, array)| (name.replace(".weight", ".bias"), array.shape[0]))
            .collect();
        for (name, rows) in matrices {
            tensors.insert(name, Array { shape: vec![rows], values: vec![value; rows] });
        }
        open(&model, form, &tensors)
    };
    let zero = opened(0.0);
    for container in [&MLX, &GGUF] {
        let (names, notes) = biases(&zero.model, container);
        assert!(names.is_empty() || container.name == GGUF.name, "{names:?}");
        assert!(names.iter().all(|name| !name.contains("exps")), "{names:?}");
        assert!(
            notes.contains("a bias of zeros, which the model's class does not have"),
            "{notes}"
        );
    }
    let error = ops::convert(&opened(0.5).model, &ConvertOptions::new(&GGUF)).unwrap_err();
    assert!(error.to_string().contains("w1.bias"), "{error}");
}
