//! Numbers of families that no list of names shows: keys to which GGUF and `config.json` give the
//! same meaning in other words. The models are those of the lists of names.

use crate::models::lists::LISTS;
use crate::models::{Form, NamedModel, Opened, listed_models, metadata, models, open, own};
use crate::support::{Gguf, Kv, Safetensors, f32s, folder};
use serde_json::{Value as Json, json};
use weighbridge::arch::{Dialect, Field, LayerKind};
use weighbridge::container::{GGUF, MLX};
use weighbridge::metadata::{KeyValues, Value};
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::translate::{Documents, gguf_metadata, gguf_tensors, hf_documents, mlx_documents};
use weighbridge::{DType, ErrorKind, Model, OpenOptions, Strictness};

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
    let files = hf_documents(&opened.model).map(Documents::into_files).expect("documents");
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
    let left = opened.model.tensors_in(Dialect::Gguf).expect("tensors").left_out;
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
    let made = gguf.tensors_in(Dialect::HuggingFace).expect("tensors").tensors;
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

/// The keys of a model that has this `config.json`, and one tensor of no meaning.
fn keys_of_config(config: &Json) -> weighbridge::Result<KeyValues> {
    let weights = Safetensors::new().tensor("t", "F32", &[1], f32s(&[1.0])).build();
    let files = [("config.json", config.to_string().into_bytes()), ("model.safetensors", weights)];
    let folder = folder(&files);
    gguf_metadata(&Model::open(folder.path()).expect("a directory"))
}

/// The keys that nearly all configs state, and more.
fn stated(model_type: &str, more: &Json) -> Json {
    let mut config = json!({
        "model_type": model_type, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 128, "vocab_size": 32,
        "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu",
    });
    let all = config.as_object_mut().expect("an object");
    all.extend(more.as_object().expect("an object").clone());
    config
}

/// The `config.json` of an MLX directory that is made of a directory with this one.
fn mlx_config(config: &Json) -> Json {
    let weights = Safetensors::new().tensor("t", "F32", &[1], f32s(&[1.0])).build();
    let files = [("config.json", config.to_string().into_bytes()), ("model.safetensors", weights)];
    let folder = folder(&files);
    let model = Model::open(folder.path()).expect("a directory");
    let files = mlx_documents(&model).map(Documents::into_files).expect("documents");
    serde_json::from_slice(&files[0].1).expect("JSON")
}

/// A GGUF file of a list, with other keys.
fn gguf_of_list(model: &NamedModel, keys: &[(&str, Kv)]) -> Model {
    let (_, tensors) =
        model.forms.iter().find(|(form, _)| *form == Form::Gguf).expect("a GGUF form");
    let of_config = metadata(&model.gguf, &model.config).into_iter();
    let own = keys.iter().map(|(key, value)| (format!("{}.{key}", model.gguf), value.clone()));
    let file = of_config.chain(own).fold(Gguf::new(), |file, (key, value)| file.key(key, value));
    let file = tensors.iter().fold(file, |file, (name, tensor)| {
        let dims: Vec<u64> = tensor.shape.iter().map(|dim| *dim as u64).collect();
        file.tensor(name, DType::F32, &dims, f32s(&tensor.values))
    });
    OpenOptions::new().open_memory("file", file.build()).expect("a model")
}

/// Files of other programs keep no config, so their keys alone say what llama.cpp computes in another way.
#[test]
fn files_of_other_programs_are_noted_for_llama_cpp() {
    let notes = |name: &str, key: &str, value: &Json, more: &[(&str, Kv)]| {
        let list = listed_models().into_iter().find(|model| model.name == name);
        let mut model = list.expect("a list of names");
        model.config[key] = value.clone();
        let opened = gguf_of_list(&model, more);
        ops::convert(&opened, &ConvertOptions::new(&GGUF)).expect("a plan").notes.join("; ")
    };
    for (eps, is_told) in [(1e-5, true), (1e-6, false)] {
        let told = notes("deepseek_v3", "rms_norm_eps", &json!(eps), &[]);
        let said = "llama.cpp will compute this model differently: norms in latent attention have";
        assert_eq!(told.contains(said), is_told, "{told}");
    }
    let rotated = |count| {
        let key = ("rope.dimension_count_swa", Kv::U32(count));
        notes("gemma2", "sliding_window", &json!(8), &[key])
    };
    assert!(rotated(2).contains("counts for all layers or for none"), "{}", rotated(2));
    assert!(!rotated(32).contains("llama.cpp will compute"), "{}", rotated(32));
}

fn documents_refused(model: &Model) -> String {
    let error = hf_documents(model).expect_err("a refusal");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    error.to_string()
}

#[test]
fn llama_4_attends_to_chunks_where_heads_are_rotated() {
    let more = json!({
        "num_hidden_layers": 4, "no_rope_layers": [1, 0, 1, 0], "attention_chunk_size": 8192,
    });
    let opened = directory(&listed("llama4", &more));
    let config = opened.model.config().expect("a config");
    let kinds = (0..4).map(|layer| config.layer_kind(layer).map(LayerKind::name));
    let [chunks, all] = [Some("chunked_attention"), Some("full_attention")];
    assert_eq!(kinds.collect::<Vec<_>>(), [chunks, all, chunks, all]);
}

#[test]
fn letters_of_exaone_4_are_not_replaced() {
    let window = json!({"num_hidden_layers": 8, "sliding_window": 64});
    let with = |key: &str, value: Json| {
        let mut config = stated("exaone4", &window);
        config[key] = value;
        config
    };
    // The published config states four letters for 64 layers; mlx-lm repeats them.
    let published = mlx_config(&with("sliding_window_pattern", "LLLG".into()));
    assert_eq!(published["sliding_window_pattern"], "LLLG");
    let kinds: Vec<&str> = (0..8)
        .map(|layer| if layer % 2 == 1 { "full_attention" } else { "sliding_attention" })
        .collect();
    let listed = mlx_config(&with("layer_types", kinds.into()));
    assert_eq!(listed["sliding_window_pattern"], "LGLGLGLG");
    let error = keys_of_config(&with("sliding_window_pattern", "".into())).expect_err("no letters");
    assert!(error.to_string().contains("0 letters, but 1 to 65536 are allowed"), "{error}");
}

#[test]
fn layers_that_predict_further_tokens_are_stated_as_none() {
    let key = "glm4moe.nextn_predict_layers";
    let none = keys_of_config(&stated("glm4_moe", &json!({"num_nextn_predict_layers": 0})));
    assert_eq!(integers(&none.expect("keys"), key), [0]);
    let silent = keys_of_config(&stated("glm4_moe", &json!({}))).expect("keys");
    assert!(silent.get(key).is_none());
}

/// Files are compared with the converter's byte by byte, so the order of their keys counts.
#[test]
fn kimi_states_the_width_of_heads_with_the_other_latent_widths() {
    let latent = json!({
        "kv_lora_rank": 8, "q_lora_rank": 12, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
        "v_head_dim": 8, "head_dim": null, "n_routed_experts": 4, "num_experts_per_tok": 2,
        "moe_intermediate_size": 48, "n_shared_experts": 1, "first_k_dense_replace": 1,
    });
    for (model_type, first) in [
        ("deepseek_v3", "deepseek2.attention.key_length"),
        ("kimi_k2", "deepseek2.attention.kv_lora_rank"),
    ] {
        let keys = keys_of_config(&stated(model_type, &latent)).expect("keys");
        let widths = ["deepseek2.attention.key_length", "deepseek2.attention.kv_lora_rank"];
        let found = keys.iter().find(|(key, _)| widths.iter().any(|width| *key == *width));
        assert_eq!(found.expect("a width").0.to_string(), first, "{model_type}");
        assert_eq!(widths.map(|key| integers(&keys, key)), [[12], [8]], "{model_type}");
    }
}

/// Without experts, their width stands where the converter writes it for llama.cpp's loader.
#[test]
fn deepseek_states_a_width_of_experts_in_any_case() {
    let latent = json!({
        "kv_lora_rank": 8, "q_lora_rank": 12, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
        "v_head_dim": 8, "head_dim": null, "num_experts_per_tok": 2, "n_shared_experts": 1,
        "moe_intermediate_size": 48,
    });
    for (experts, after) in [(json!(4), "expert_shared_count"), (Json::Null, "vocab_size")] {
        let mut config = stated("deepseek_v2", &latent);
        config["n_routed_experts"] = experts.clone();
        let keys = keys_of_config(&config).expect("keys");
        // All of the four layers are dense without experts.
        let dense = if experts.is_null() { 4 } else { 0 };
        assert_eq!(integers(&keys, "deepseek2.leading_dense_block_count"), [dense]);
        assert_eq!(integers(&keys, "deepseek2.expert_feed_forward_length"), [48]);
        let names: Vec<String> = keys.iter().map(|(key, _)| key.to_string()).collect();
        let place = names.iter().position(|key| key == "deepseek2.expert_feed_forward_length");
        assert_eq!(names[place.expect("a place") + 1], format!("deepseek2.{after}"), "{experts}");
    }
}

/// llama.cpp requires sections, and aborts if they are wider than a head.
#[test]
fn qwen3_5_has_sections_for_texts_alone() {
    for (width, sections) in [(256, [11, 11, 10, 0]), (16, [1, 1, 0, 0])] {
        let more = json!({
            "head_dim": width, "partial_rotary_factor": 0.25, "full_attention_interval": 4,
            "linear_conv_kernel_dim": 4, "linear_key_head_dim": 16, "linear_num_key_heads": 2,
            "linear_num_value_heads": 4, "linear_value_head_dim": 16,
        });
        let keys = keys_of_config(&stated("qwen3_5_text", &more)).expect("keys");
        assert_eq!(integers(&keys, "qwen35.rope.dimension_sections"), sections, "{width}");
        let linear = keys.get("qwen35.attention.recurrent_layers").and_then(|list| list.to_array());
        let linear =
            linear.map(|list| list.values().map(|flag| flag.to_bool()).collect::<Vec<_>>());
        assert_eq!(linear.expect("flags"), [true, true, true, false].map(Some));
    }
}

#[test]
fn gemma_4_has_one_width_of_heads_if_its_layers_state_no_other() {
    let usual = json!({
        "hidden_activation": "gelu_pytorch_tanh", "num_kv_shared_layers": 0, "sliding_window": 64,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
        "rope_parameters": {"full_attention": {"rope_type": "proportional", "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}},
    });
    let width = |more: &[(&str, Json)]| {
        let mut config = stated("gemma4_text", &usual);
        more.iter().for_each(|(key, value)| config[*key] = value.clone());
        let keys = keys_of_config(&config).expect("keys");
        integers(&keys, "gemma4.attention.key_length")[0]
    };
    // The class's own number, unless the config states numbers of single layers.
    assert_eq!(width(&[]), 512);
    assert_eq!(width(&[("global_head_dim", 32.into())]), 32);
    let heads = json!({"1": {"num_key_value_heads": 1}});
    assert_eq!(width(&[("per_layer_config", heads)]), 16);
    for layer in ["1", "01"] {
        let widths = json!({layer: {"head_dim": 32}});
        assert_eq!(width(&[("per_layer_config", widths)]), 32, "{layer}");
    }
}

#[test]
fn divisors_that_gemma_4_has_not_are_refused() {
    let list = listed_models().into_iter().find(|model| model.name == "gemma4");
    let mut model = list.expect("a list of names of Gemma 4");
    let place = model.forms.iter().position(|(form, _)| *form == Form::Gguf).expect("a GGUF form");
    let divisors = |model: &mut NamedModel, values: &[f32]| {
        let tensor = model.forms[place].1.get_mut("rope_freqs.weight").expect("the divisors");
        let len = tensor.values.len();
        tensor.values = values.iter().copied().chain(std::iter::repeat(1e30)).take(len).collect();
        len
    };
    let len = divisors(&mut model, &[1.0, 1.0, 1.0, 1.0]);
    let opened = gguf_of_list(&model, &[]);
    let files = hf_documents(&opened).map(Documents::into_files).expect("documents");
    let config: Json = serde_json::from_slice(&files[0].1).expect("JSON");
    let full = &config["rope_parameters"]["full_attention"];
    assert_eq!(full["partial_rotary_factor"], 4.0 / len as f64);
    divisors(&mut model, &[1.0, 1.0, 2.0, 1.0]);
    let said = documents_refused(&gguf_of_list(&model, &[]));
    assert!(said.contains("rope_freqs.weight with divisors other than Gemma 4's"), "{said}");
}

#[test]
fn kinds_of_layers_that_a_config_has_no_numbers_for_are_refused() {
    let heads = |each: &[u32]| {
        ("attention.head_count_kv", Kv::Array(4, each.iter().map(|n| Kv::U32(*n)).collect()))
    };
    let more = json!({"num_hidden_layers": 4, "max_position_embeddings": 64});
    for (name, each, fault) in [
        ("jamba", [0, 1, 1, 0], "layers whose kinds do not repeat"),
        ("jamba", [1, 0, 1, 1], "layers whose kinds do not repeat"),
        ("lfm2", [0, 2, 0, 1], "a number of key heads for each layer"),
    ] {
        let mut model = listed(name, &more);
        let config = model.config.as_object_mut().expect("an object");
        let stated = ["attn_layer_period", "num_key_value_heads", "layer_types"];
        stated.iter().for_each(|key| drop(config.remove(*key)));
        let said = documents_refused(&gguf_of_list(&model, &[heads(&each)]));
        assert!(said.contains(fault), "{name} {each:?}: {said}");
    }
}

#[test]
fn mlx_lm_reads_the_width_of_lfm2_twice() {
    let mixed = json!({
        "layer_types": ["conv", "full_attention", "conv", "conv"], "conv_L_cache": 3, "norm_eps": 1e-5,
    });
    let of = |width: Json| {
        let mut config = stated("lfm2", &mixed);
        config["block_dim"] = width;
        mlx_config(&config)["block_dim"].clone()
    };
    assert_eq!(of(Json::Null), 64);
    assert_eq!(of(32.into()), 32);
}

/// The class reads it at the top alone.
#[test]
fn configs_of_dbrx_in_mlx_hold_the_base_where_mlx_lm_reads_it() {
    let parts = json!({
        "n_heads": 4, "num_key_value_heads": 4, "rope_theta": 500000.0,
        "attn_config": {"kv_n_heads": 1, "rope_theta": 100.0, "clip_qkv": 8.0},
        "ffn_config": {"ffn_hidden_size": 96, "moe_num_experts": 4, "moe_top_k": 2},
    });
    let config = mlx_config(&stated("dbrx", &parts));
    let attention = json!({"kv_n_heads": 1, "rope_theta": 500000.0, "clip_qkv": 8.0});
    assert_eq!(config["attn_config"], attention);
}

#[test]
fn starcoder_2_has_a_window() {
    let model = listed("starcoder2", &json!({"max_position_embeddings": 64}));
    let config = |keys: &[(&str, Kv)]| {
        let opened = gguf_of_list(&model, keys);
        let files = hf_documents(&opened).map(Documents::into_files).expect("documents");
        serde_json::from_slice::<Json>(&files[0].1).expect("JSON")
    };
    let eps = ("attention.layer_norm_epsilon", Kv::F32(1e-5));
    assert!(config(std::slice::from_ref(&eps)).get("sliding_window").is_none_or(Json::is_null));
    let window = ("attention.sliding_window", Kv::U32(4096));
    assert_eq!(config(&[eps, window])["sliding_window"], 4096);
}

#[test]
fn activations_without_numbers_have_no_keys() {
    let mut model = listed("apertus", &json!({}));
    model.forms[0].1.retain(|name, _| !name.contains(".act_fn."));
    let keys = keys(&directory(&model).model);
    assert!(keys.get("xielu.alpha_p").is_none());
    assert_eq!(integers(&keys, "apertus.block_count"), [1]);
}

#[test]
fn experts_with_a_number_too_few_are_refused() {
    let mut model = listed("mixtral of 2023", &json!({}));
    model.forms[0].1.retain(|name, _| !name.contains(".experts.0."));
    let file = model.forms[0].1.iter().fold(Safetensors::new(), |file, (name, tensor)| {
        let dims: Vec<u64> = tensor.shape.iter().map(|dim| *dim as u64).collect();
        file.tensor(name, "F32", &dims, f32s(&tensor.values))
    });
    let config = model.config.to_string().into_bytes();
    let folder = folder(&[("config.json", config), ("model.safetensors", file.build())]);
    let opened = Model::open(folder.path()).expect("a directory");
    let error = opened.resolution().expect_err("an expert is missing");
    assert_eq!(error.kind(), ErrorKind::Malformed);
    let said = error.to_string();
    assert!(said.contains("expert 0 of \"layers.0.ffn.experts."), "{said}");
    assert!(said.ends_with("is missing before this one"), "{said}");
    assert!(said.contains("block_sparse_moe.experts.1."), "{said}");
}

/// OLMo 2 has a norm after its attention, under the name that other families give the norm before the
/// feed-forward network.
#[test]
fn names_of_a_family_are_not_given_to_tensors_of_others() {
    let mut model = listed("olmo2", &json!({}));
    let place = model.forms.iter().position(|(form, _)| *form == Form::Gguf).expect("a GGUF form");
    let tensors = &mut model.forms[place].1;
    let own = tensors.remove("blk.0.post_attention_norm.weight").expect("the norm");
    tensors.insert("blk.0.ffn_norm.weight".to_owned(), own);
    let opened = gguf_of_list(&model, &[]);
    let made = opened.tensors_in(Dialect::HuggingFace).expect("tensors");
    let name = "model.layers.0.post_attention_layernorm.weight";
    assert!(made.tensors.iter().all(|tensor| tensor.name() != name));
    let left: Vec<&str> = made.left_out.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(left, ["layers.0.ffn_norm.weight"]);
}

#[test]
fn models_without_linear_attention_are_not_of_its_classes() {
    let list = listed_models().into_iter().find(|model| model.name == "qwen3_next");
    let mut model = list.expect("a list of names");
    model.config["layer_types"] = vec!["full_attention"; 4].into();
    let said = documents_refused(&gguf_of_list(&model, &[]));
    assert!(said.contains("requires a layer of linear attention, which is missing"), "{said}");
}

/// The `config.json` that the GGUF keys and tensors of a config give.
fn there_and_back(config: &Json) -> Json {
    let weights = Safetensors::new().tensor("t", "F32", &[1], f32s(&[1.0])).build();
    let files = [("config.json", config.to_string().into_bytes()), ("model.safetensors", weights)];
    let folder = folder(&files);
    let model = Model::open(folder.path()).expect("a directory");
    let tensors = gguf_tensors(&model).expect("tensors");
    Json::Object(crate::translate::keys::back(&keys(&model), &tensors).expect("a config"))
}

#[test]
fn gpt_2_states_a_width_that_is_not_four_times_its_own() {
    let config = |width: u32| {
        let sizes = json!({
            "model_type": "gpt2", "n_embd": 64, "n_layer": 4, "n_head": 4, "n_positions": 512,
            "n_inner": width, "vocab_size": 32, "layer_norm_epsilon": 1e-5,
        });
        there_and_back(&sizes)["n_inner"].clone()
    };
    assert_eq!(config(100), 100);
    assert_eq!(config(256), Json::Null);
}

#[test]
fn phi_3_and_its_experts_state_magnitudes_and_lengths() {
    let rope = json!({
        "type": "longrope", "long_factor": [1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0, 8.0],
        "short_factor": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
    });
    let with = |kind: &str, more: Json| {
        let mut config = stated(kind, &more);
        config["rope_scaling"] = rope.clone();
        config
    };
    let factor = |trained: u32| {
        let config = with("phi3", json!({"original_max_position_embeddings": trained}));
        let keys = keys_of_config(&config).expect("keys");
        keys.get("phi3.rope.scaling.attn_factor").and_then(|factor| factor.to_f64()).expect("one")
    };
    // Contexts that are not longer than those of the training are not scaled.
    assert_eq!([factor(512), factor(1024)], [1.0, 1.0]);
    assert!((factor(128) - (1.0 + 4f64.ln() / 128f64.ln()).sqrt()).abs() < 1e-6);

    let experts = json!({
        "original_max_position_embeddings": 128, "num_local_experts": 4, "num_experts_per_tok": 2,
    });
    let config = with("phimoe", experts);
    // GGUF has one for both, which follows from the lengths.
    let back = &there_and_back(&config)["rope_scaling"];
    for key in ["short_mscale", "long_mscale"] {
        let found = back[key].as_f64().expect("a magnitude");
        assert!((found - (1.0 + 4f64.ln() / 128f64.ln()).sqrt()).abs() < 1e-6, "{key}: {found}");
    }

    // mlx-lm reads beside the numbers what they may state among them.
    let mut config = with("phimoe", json!({"num_local_experts": 4, "num_experts_per_tok": 2}));
    config["rope_scaling"]["original_max_position_embeddings"] = 128.into();
    assert_eq!(mlx_config(&config)["original_max_position_embeddings"], 128);
}

#[test]
fn names_of_directories_mean_nothing_in_gguf() {
    let file = |names: &[&str]| {
        let start = Gguf::new().key("general.architecture", Kv::text("llama"));
        let file = names
            .iter()
            .fold(start, |file, name| file.tensor(*name, DType::F32, &[2, 2], f32s(&[1.0; 4])));
        OpenOptions::new().open_memory("file", file.build()).expect("a model")
    };
    let known = file(&["token_embd.weight"]);
    let mapped = &known.resolution().expect("names").mapped;
    assert_eq!(mapped.len(), 1);
    assert_eq!(mapped[0].transform.to_string(), "none");
    // Of a model with images, whose converter did not drop the prefix.
    let unknown = file(&["language_model.token_embd.weight", "model.token_embd.weight"]);
    let found = unknown.resolution().expect("names");
    assert_eq!((found.mapped.len(), found.unknown.len()), (0, 2));
    // A file of which nothing is known lacks nothing.
    assert!(found.missing.is_empty());
    assert!(!known.resolution().expect("names").missing.is_empty());
}

/// Files without metadata are MLX's if they have names that only its classes have.
#[test]
fn names_of_mlx_tell_its_files() {
    let list = listed("whisper of mlx-examples", &json!({}));
    let (_, tensors) = list.forms.iter().find(|(form, _)| *form == Form::Mlx).expect("a form");
    let file = tensors.iter().fold(Safetensors::new(), |file, (name, tensor)| {
        let dims: Vec<u64> = tensor.shape.iter().map(|dim| *dim as u64).collect();
        file.tensor(name, "F32", &dims, f32s(&tensor.values))
    });
    let config = list.config.to_string().into_bytes();
    let folder = folder(&[("config.json", config), ("model.safetensors", file.build())]);
    let model = Model::open(folder.path()).expect("a directory");
    let found = model.resolution().expect("names");
    assert_eq!((found.dialect, found.unknown.as_slice()), (Dialect::Mlx, &[][..]));
}

/// Layers of Qwen 3.5 have attention or linear attention, of which each is whole.
#[test]
fn parts_of_linear_attention_are_missed() {
    let missing = |gone: &str| {
        let mut model = listed("qwen3.5 with experts", &json!({}));
        model.forms[0].1.retain(|name, _| !name.ends_with(gone));
        let opened = directory(&model);
        opened.model.resolution().unwrap().missing.join(", ")
    };
    assert_eq!(missing("nothing"), "");
    for (gone, canonical) in [
        ("linear_attn.out_proj.weight", "linear_attention.output.weight"),
        ("linear_attn.A_log", "linear_attention.a_log"),
        ("linear_attn.conv1d.weight", "linear_attention.conv.weight"),
        ("linear_attn.in_proj_z.weight", "linear_attention.gate.weight"),
        ("self_attn.o_proj.weight", "attention.output.weight"),
    ] {
        let found = missing(gone);
        assert!(found.contains(canonical), "{gone}: {found:?}");
    }
}

/// Tensors of modules that some models, or some layers, lack by design.
const MAY_LACK: &[(&str, &str)] = &[
    ("gemma4", "attention.v.weight"),
    ("t5", "ffn.gate.weight"),
    ("umt5", "ffn.gate.weight"),
    ("bailing_hybrid in GGUF", "attention.k.weight"),
    ("bailing_hybrid in GGUF", "attention.v.weight"),
];

/// A layer has a module as a whole, or not at all.
#[test]
fn parts_of_modules_are_missed() {
    let mut silent = std::collections::BTreeSet::new();
    let parts =
        ["q", "k", "v", "output", "gate", "up", "down", "in", "conv", "a_log", "d", "dt.bias"];
    for model in models() {
        let opened = directory(&model);
        for mapping in &opened.model.resolution().expect("names").mapped {
            let own = mapping.canonical.strip_prefix("layers.").and_then(|own| own.split_once('.'));
            let Some((_, own)) = own.filter(|_| !mapping.stacked) else { continue };
            let part = own.strip_suffix(".weight").unwrap_or(own).split_once('.');
            // Attention may have a gate, and a layer for further tokens an output matrix.
            let is_part = part.is_some_and(|(module, part)| {
                parts.contains(&part)
                    && (module, part) != ("attention", "gate")
                    && module != "nextn"
                    && !MAY_LACK.iter().any(|(name, it)| model.name.starts_with(name) && *it == own)
            });
            if !is_part {
                continue;
            }
            let mut model = model.clone();
            mapping.stored.iter().for_each(|name| drop(model.forms[0].1.remove(name)));
            let opened = directory(&model);
            if opened.model.resolution().is_ok_and(|found| found.missing.is_empty()) {
                silent.insert(format!("{} {own}", model.name));
            }
        }
    }
    assert_eq!(silent.into_iter().collect::<Vec<_>>(), [""; 0]);
}

/// Step 3.5 states the heads of layers with a window apart. mlx-lm drops the layers for further tokens.
#[test]
fn layers_with_windows_have_other_numbers_of_heads() {
    let opened = directory(&listed("step 3.5", &json!({})));
    let config = opened.model.config().expect("a config");
    let each = config.attention.n_heads_per_layer.as_ref().map(|each| each.value.as_slice());
    assert_eq!((config.n_heads.value, each), (6, Some(&[4, 6, 4][..])));
    assert!(config.attention.n_kv_heads_per_layer.is_none());
    let found = ops::check_consistency(&opened.model, Strictness::Default).expect("a check");
    assert_eq!(found.faults, [""; 0]);
    let plan = ops::convert(&opened.model, &ConvertOptions::new(&MLX)).expect("a plan");
    let names: Vec<&str> = plan.tensors.iter().map(|tensor| &*tensor.name).collect();
    assert!(names.contains(&"model.layers.1.mlp.switch_mlp.up_proj.weight"), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("layers.2.")), "{names:?}");
}

/// The class that labels sounds has Whisper's encoder without its decoder.
#[test]
fn a_class_of_the_encoder_alone_lacks_no_decoder() {
    let missing = |class: &str| {
        let mut model = listed("whisper of mlx-examples", &json!({"architectures": [class]}));
        model.forms[0].1.retain(|name, _| name.starts_with("model.encoder."));
        directory(&model).model.resolution().expect("names").missing.join(", ")
    };
    // The model has no head, but the class has one.
    let head = "the head of WhisperForAudioClassification";
    assert_eq!(missing("WhisperForAudioClassification"), head);
    let missing = missing("WhisperForConditionalGeneration");
    assert!(
        missing.contains("token_embedding.weight") && missing.contains("layers.0"),
        "{missing}"
    );
}
