//! What families state in numbers that no list of names shows: keys that GGUF and `config.json` give
//! the same meaning in other words. The models are those of the lists of names.

use crate::models::lists::LISTS;
use crate::models::{Form, NamedModel, Opened, metadata, open, own};
use crate::support::{Gguf, Kv, f32s};
use serde_json::{Value as Json, json};
use weighbridge::arch::{Dialect, Field, LayerKind};
use weighbridge::metadata::{KeyValues, Value};
use weighbridge::ops::tensors_in;
use weighbridge::translate::{Documents, gguf_metadata, gguf_tensors, hf_documents};
use weighbridge::{DType, ErrorKind, Model, OpenOptions};

/// The model of a list, with further keys in its `config.json`.
pub(crate) fn listed(name: &str, more: &Json) -> NamedModel {
    let list = LISTS.iter().find(|list| list.name == name).expect("a list of that name");
    let mut model = own(list);
    let config = model.config.as_object_mut().expect("an object");
    config.extend(more.as_object().expect("an object").clone());
    model
}

/// It as a directory of transformers.
pub(crate) fn directory(model: &NamedModel) -> Opened {
    let (form, tensors) = &model.forms[0];
    open(model, *form, tensors)
}

pub(crate) fn keys(model: &Model) -> KeyValues {
    gguf_metadata(model).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn integers(keys: &KeyValues, key: &str) -> Vec<i128> {
    let value = keys.get(key).unwrap_or_else(|| panic!("no {key}"));
    match value.to_array() {
        Some(list) => list.integers().expect("integers").collect(),
        None => vec![value.to_i128().expect("an integer")],
    }
}

/// The `config.json` that a GGUF file of a list gives.
pub(crate) fn config_of_gguf(model: &NamedModel) -> Json {
    let (form, tensors) = model.forms.iter().find(|(form, _)| *form == Form::Gguf).expect("a form");
    let opened = open(model, *form, tensors);
    let files = hf_documents(&opened.model).and_then(Documents::into_files).expect("documents");
    serde_json::from_slice(&files[0].1).expect("JSON")
}

#[test]
fn layers_without_attention_have_no_key_heads() {
    for (name, architecture, kinds) in [
        ("lfm2", "lfm2moe", ["conv", "full_attention"]),
        ("jamba", "jamba", ["mamba", "full_attention"]),
    ] {
        let model = listed(name, &json!({}));
        let heads = i128::from(model.config["num_key_value_heads"].as_u64().expect("a number"));
        let opened = directory(&model);
        let keys = keys(&opened.model);
        let key = format!("{architecture}.attention.head_count_kv");
        assert_eq!(integers(&keys, &key), [0, heads], "{name}");
        let gguf = model.forms.iter().find(|(form, _)| *form == Form::Gguf).expect("a form");
        for opened in [opened, open(&model, gguf.0, &gguf.1)] {
            let config = opened.model.config().expect("a config");
            let kind = |layer| config.layer_kind(layer).map(LayerKind::name);
            assert_eq!([kind(0), kind(1)], kinds.map(Some), "{name}, {:?}", opened.form);
        }
    }
    let config = config_of_gguf(&listed("lfm2", &json!({"max_position_embeddings": 64})));
    assert_eq!(config["layer_types"], json!(["conv", "full_attention"]));
    assert_eq!(config["num_key_value_heads"], 2);
    let config = config_of_gguf(&listed("jamba", &json!({"max_position_embeddings": 64})));
    let periods = ["attn_layer_period", "attn_layer_offset", "expert_layer_offset", "mamba_expand"];
    assert_eq!(periods.map(|key| config[key].as_u64()), [Some(2), Some(1), Some(1), Some(2)]);
}

#[test]
fn the_width_of_lfm2_is_the_adjusted_one() {
    let numbers = json!({
        "block_auto_adjust_ff_dim": true, "block_ffn_dim_multiplier": 1.5, "block_multiple_of": 8,
        "intermediate_size": 32,
    });
    // Of 24: two thirds are 16, times 1.5 is 24, a multiple of 8. Of 32: 21, then 31, then 32.
    for (stated, width) in [(32, 32), (31, 32), (24, 24)] {
        let mut numbers = numbers.clone();
        numbers["intermediate_size"] = stated.into();
        let opened = directory(&listed("lfm2", &numbers));
        let config = opened.model.config().expect("a config");
        assert_eq!(config.ffn_dim.as_ref().map(|field| field.value), Some(width), "{stated}");
        assert_eq!(integers(&keys(&opened.model), "lfm2moe.feed_forward_length"), [width.into()]);
    }
    // Older configs list the layers with attention.
    let mut model = listed("lfm2", &json!({"full_attn_idxs": [1]}));
    model.config.as_object_mut().expect("an object").remove("layer_types");
    let opened = directory(&model);
    let config = opened.model.config().expect("a config");
    assert_eq!(config.layer_kind(0).map(LayerKind::name), Some("conv"));
}

#[test]
fn numbers_of_an_activation_are_keys_of_gguf_and_tensors_elsewhere() {
    let model = listed("apertus", &json!({}));
    let opened = directory(&model);
    let keys = keys(&opened.model);
    let value = |key: &str| {
        let list = keys.get(key).and_then(|value| value.to_array());
        list.and_then(|list| list.floats()).expect("numbers").collect::<Vec<f64>>()
    };
    let found = value("xielu.alpha_p");
    let stored = model.forms[0].1["model.layers.0.mlp.act_fn.alpha_p"].values[0];
    assert_eq!(found, [f64::from(stored)]);
    assert_eq!(value("xielu.eps").len(), 1);
    let left = tensors_in(&opened.model, Dialect::Gguf).expect("tensors").left_out;
    assert_eq!(left.len(), 4);
    assert!(left.iter().all(|(_, why)| why.starts_with("stated by the key xielu.")), "{left:?}");

    let (_, tensors) = &model.forms[1];
    let list = |value| Kv::Array(6, vec![Kv::F32(value)]);
    let numbers = ["alpha_n", "alpha_p", "beta", "eps"].into_iter().zip([0.25, 0.5, 0.75, -1.0]);
    let numbers = numbers.map(|(name, number)| (format!("xielu.{name}"), list(number)));
    let keys = metadata("apertus", &model.config).into_iter().chain(numbers);
    let file = keys.fold(Gguf::new(), |file, (key, value)| file.key(key, value));
    let file = tensors.iter().fold(file, |file, (name, tensor)| {
        let dims: Vec<u64> = tensor.shape.iter().map(|dim| *dim as u64).collect();
        file.tensor(name, DType::F32, &dims, f32s(&tensor.values))
    });
    let gguf = OpenOptions::new().open_memory("file", file.build()).expect("a model");
    let made = tensors_in(&gguf, Dialect::HuggingFace).expect("tensors").tensors;
    let one = |end: &str| {
        let name = format!("model.layers.0.mlp.act_fn.{end}");
        let tensor = made.iter().find(|tensor| tensor.name() == name).expect("the tensor");
        (tensor.shape().to_vec(), tensor.dequantize().expect("values").to_vec())
    };
    assert_eq!(one("alpha_p"), (vec![1], vec![0.5]));
    assert_eq!(one("eps"), (Vec::new(), vec![-1.0]));
}

#[test]
fn numbers_of_experts_for_each_layer_must_be_alike() {
    let alike = json!({"moe_topk": [1], "moe_intermediate_size": [6], "num_shared_expert": [1]});
    let opened = directory(&listed("hunyuan, with experts", &alike));
    let found = keys(&opened.model);
    assert_eq!(integers(&found, "hunyuan-moe.expert_used_count"), [1]);
    assert_eq!(integers(&found, "hunyuan-moe.expert_feed_forward_length"), [6]);
    let other = listed("hunyuan, with experts", &json!({"moe_topk": [1, 2]}));
    let error = gguf_metadata(&directory(&other).model).expect_err("lists that differ");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("a moe_topk for each layer"), "{error}");
}

#[test]
fn llama_4_has_two_widths_and_chunks() {
    let more = json!({"intermediate_size": 6, "intermediate_size_mlp": 12, "num_hidden_layers": 4});
    let opened = directory(&listed("llama4", &more));
    let config = opened.model.config().expect("a config");
    let width = |field: &Option<Field<u32>>| field.as_ref().map(|f| f.value);
    assert_eq!(
        (width(&config.ffn_dim), width(&config.experts.expert_ffn_dim)),
        (Some(12), Some(6))
    );
    let kind = |layer| config.layer_kind(layer).map(LayerKind::name);
    assert_eq!([kind(2), kind(3)], [Some("chunked_attention"), Some("full_attention")]);
    // The bounds of its published config are equal: there is no ramp between them.
    let rope = json!({
        "rope_type": "llama3", "factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 1.0,
        "original_max_position_embeddings": 8,
    });
    let opened = directory(&listed("llama4", &json!({"rope_scaling": rope})));
    let factors = gguf_tensors(&opened.model).expect("tensors");
    assert_eq!(factors, [("rope_freqs.weight", vec![1.0, 16.0])]);
    let full = json!({"layer_types": ["full_attention"]});
    let found = keys(&directory(&listed("llama4", &full)).model);
    assert_eq!(integers(&found, "llama4.attention.sliding_window"), [0]);
}

#[test]
fn experts_of_qwen3_vl_are_turned_as_the_shape_says() {
    let model = listed("qwen3vlmoe", &json!({}));
    let published = directory(&model);
    let mut turned = model.clone();
    for (name, tensor) in &mut turned.forms[0].1 {
        if name.contains(".experts.") {
            let (rows, columns) = (tensor.shape[1], tensor.shape[2]);
            let at = |place: usize| {
                let (array, row) = (place / (rows * columns), place / rows % columns);
                tensor.values[array * rows * columns + place % rows * columns + row]
            };
            let values = (0..tensor.values.len()).map(at).collect();
            (tensor.values, tensor.shape) = (values, vec![tensor.shape[0], columns, rows]);
        }
    }
    let saved = directory(&turned);
    for name in ["gate", "up", "down"] {
        let name = format!("layers.0.ffn.experts.{name}.weight");
        let of = |opened: &Opened| {
            let tensor = opened.model.tensor(&name).expect("the tensor");
            (tensor.shape().to_vec(), tensor.dequantize().expect("values").to_vec())
        };
        assert_eq!(of(&published), of(&saved), "{name}");
    }
}

#[test]
fn exaone_states_its_epsilon_under_both_names() {
    let found = keys(&directory(&listed("exaone", &json!({}))).model);
    for key in ["attention.layer_norm_epsilon", "attention.layer_norm_rms_epsilon"] {
        assert_eq!(found.get(&format!("exaone.{key}")), Some(Value::F32(1e-5)), "{key}");
    }
}

/// Models whose classes no package has: `config.json` names the repository of the class.
#[test]
fn classes_on_the_hub_are_named() {
    for (name, architecture, repository) in [
        ("jina-bert-v2", "jina-bert-v2", "jinaai/jina-bert-implementation--"),
        ("jina-bert-v2 for code", "jina-bert-v2", "jinaai/jina-bert-v2-qk-post-norm--"),
        ("nomic-bert-moe", "nomic-bert-moe", "nomic-ai/nomic-bert-2048--"),
    ] {
        let model = listed(name, &json!({}));
        let opened = directory(&model);
        let row = opened.model.resolution().expect("resolved").architecture;
        assert_eq!(row.map(|row| row.name), Some(architecture), "{name}");
        let written = keys(&opened.model);
        let value = written.get("general.architecture").and_then(|value| value.to_text());
        assert_eq!(value.and_then(|text| text.to_str()), Some(architecture), "{name}");
        let config = config_of_gguf(&model);
        let class = config["auto_map"]["AutoModel"].as_str().expect("a class");
        assert!(class.starts_with(repository), "{name}: {class}");
    }
    let config = config_of_gguf(&listed("jina-bert-v2", &json!({})));
    assert_eq!(config["position_embedding_type"], "alibi");
    assert_eq!(config["feed_forward_type"], "geglu");
}

#[test]
fn experts_in_every_other_layer() {
    let model = listed("nomic-bert-moe", &json!({}));
    let opened = directory(&model);
    let written = keys(&opened.model);
    for (key, number) in [
        ("context_length", 512),
        ("moe_every_n_layers", 2),
        ("expert_count", 2),
        ("expert_used_count", 1),
    ] {
        assert_eq!(integers(&written, &format!("nomic-bert-moe.{key}")), [number], "{key}");
    }
    let config = config_of_gguf(&model);
    for (key, value) in [
        ("n_layer", json!(2)),
        ("num_experts", json!(2)),
        ("moe_top_k", json!(1)),
        ("n_positions", json!(2048)),
        ("rotary_emb_scale_base", json!(null)),
    ] {
        assert_eq!(config[key], value, "{key}");
    }
    // A config that says another number of experts than there are rows for.
    let opened = directory(&listed("nomic-bert-moe", &json!({"num_experts": 5})));
    let error = opened.model.tensor("layers.1.ffn.experts.up.weight").expect_err("12 rows");
    assert!(error.to_string().contains("its rows are no multiple of the 5 experts"), "{error}");
}
