//! The form of each number and flag of a config in GGUF, and in the `config.json` that the GGUF
//! keys alone give: the lines that a model has with it and without it.
#![allow(clippy::cast_possible_truncation, reason = "the numbers are the test's own")]

use std::collections::BTreeSet;

use crate::support::{Gguf, Kv, Safetensors, f32s, folder};
use insta::assert_snapshot;
use serde_json::{Map, Value as Json, json};
use weighbridge::metadata::{KeyValues, Value, ValueType};
use weighbridge::translate::{Documents, gguf_metadata, gguf_tensors, hf_documents};
use weighbridge::{DType, Model, OpenOptions};

fn kv(value: Value<'_>) -> Kv {
    match value {
        Value::U32(number) => Kv::U32(number),
        Value::I32(number) => Kv::I32(number),
        Value::F32(number) => Kv::F32(number),
        Value::Bool(flag) => Kv::Bool(flag),
        Value::String(text) => Kv::text(text.to_str().expect("text")),
        other => {
            let array = other.to_array().unwrap_or_else(|| panic!("{other:?}"));
            let code = match array.element_type() {
                ValueType::U32 => 4,
                ValueType::I32 => 5,
                ValueType::F32 => 6,
                ValueType::Bool => 7,
                ValueType::String => 8,
                other => panic!("{other:?}"),
            };
            Kv::Array(code, array.values().map(kv).collect())
        }
    }
}

fn shown(value: Value<'_>) -> String {
    match value.to_array() {
        Some(array) => {
            format!("[{}]", array.values().map(shown).collect::<Vec<_>>().join(", "))
        }
        None => match value {
            Value::String(text) => text.to_string(),
            Value::Bool(flag) => flag.to_string(),
            Value::F32(number) => format!("{number:?}"),
            other => other.to_i128().map_or(format!("{other:?}"), |number| number.to_string()),
        },
    }
}

/// The lines of a model of this config: its GGUF keys and tensors, and the config that they give.
fn lines(config: &Json, others: &[(&str, Json)]) -> BTreeSet<String> {
    let weights = Safetensors::new().tensor("t", "F32", &[1], f32s(&[1.0])).build();
    let mut files =
        vec![("model.safetensors", weights), ("config.json", config.to_string().into())];
    files.extend(others.iter().map(|(name, json)| (*name, json.to_string().into_bytes())));
    let folder = folder(&files);
    let model = Model::open(folder.path()).expect("a directory");
    let plain = |error: weighbridge::Error| {
        let text = error.to_string().replace(&folder.path().display().to_string(), ".");
        BTreeSet::from([format!("error: {text}")])
    };
    let keys = match gguf_metadata(&model) {
        Ok(keys) => keys,
        Err(error) => return plain(error),
    };
    let tensors = match gguf_tensors(&model) {
        Ok(tensors) => tensors,
        Err(error) => return plain(error),
    };
    let of_key = |(key, value): (weighbridge::bytes::Text<'_>, Value<'_>)| {
        let key = key.to_string();
        let key = key.split_once('.').map_or(key.as_str(), |(_, key)| key);
        format!("gguf {key} = {}", shown(value))
    };
    let mut lines: BTreeSet<String> = keys.iter().map(of_key).collect();
    // Of the folder, which is another one each time.
    lines.retain(|line| !line.starts_with("gguf name"));
    for (name, values) in &tensors {
        let shown: Vec<String> = values.iter().map(|value| format!("{value:.3}")).collect();
        lines.insert(format!("gguf {name} = [{}]", shown.join(", ")));
    }
    match back(&keys, &tensors) {
        Ok(config) => {
            lines.extend(config.iter().map(|(key, value)| format!("json {key} = {value}")));
        }
        Err(error) => drop(lines.insert(format!("json error: {error}"))),
    }
    lines
}

/// The `config.json` that GGUF keys and tensors give.
pub(crate) fn back(
    keys: &KeyValues,
    tensors: &[(&'static str, Vec<f32>)],
) -> weighbridge::Result<Map<String, Json>> {
    let file =
        keys.iter().fold(Gguf::new(), |file, (key, value)| file.key(key.as_bytes(), kv(value)));
    let file = tensors.iter().fold(file, |file, (name, values)| {
        file.tensor(*name, DType::F32, &[values.len() as u64], f32s(values))
    });
    let file = file.tensor("t", DType::F32, &[1], f32s(&[1.0]));
    let model = OpenOptions::new().open_memory("file", file.build()).expect("a model");
    let documents = hf_documents(&model).map(Documents::into_files)?;
    let config: Json = serde_json::from_slice(&documents[0].1).expect("JSON");
    Ok(config.as_object().cloned().unwrap_or_default())
}

fn config(model_type: &str, more: &Json) -> Json {
    let mut config = json!({
        "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 128,
        "max_position_embeddings": 512, "vocab_size": 32, "rms_norm_eps": 1e-6,
        "layer_norm_eps": 1e-5, "layer_norm_epsilon": 1e-5, "norm_epsilon": 1e-5, "norm_eps": 1e-5,
        "rope_theta": 10000.0, "hidden_act": "silu",
    });
    config["model_type"] = model_type.into();
    for (key, value) in more.as_object().into_iter().flatten() {
        config[key] = value.clone();
    }
    config
}

/// A `model_type`, what its models have, and what is added to that, one at a time.
fn table() -> Vec<(&'static str, Json, Vec<Json>)> {
    let yarn = json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128});
    let with = |rope: &Json, more: Json| {
        let mut rope = rope.clone();
        let all = rope.as_object_mut().expect("an object");
        all.extend(more.as_object().cloned().unwrap_or_default());
        json!({"rope_scaling": rope})
    };
    let latent = json!({
        "kv_lora_rank": 8, "q_lora_rank": 12, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
        "v_head_dim": 8, "head_dim": null,
    });
    let experts = json!({
        "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48,
    });
    vec![
        (
            "llama",
            json!({}),
            vec![
                json!({"rope_theta": 500000.0}),
                json!({"head_dim": null}),
                json!({"head_dim": 32}),
                json!({"num_key_value_heads": null}),
                json!({"tie_word_embeddings": true}),
                json!({"rope_scaling": {"rope_type": "linear", "factor": 2.0}}),
                json!({"rope_scaling": {"type": "linear", "factor": 2.0}}),
                json!({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}),
                json!({"rope_scaling": {"rope_type": "default"}}),
                json!({"rope_scaling": yarn}),
                with(&yarn, json!({"attention_factor": 1.5, "beta_fast": 16.0, "beta_slow": 2.0})),
                json!({"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                "high_freq_factor": 4.0, "original_max_position_embeddings": 64}}),
                json!({"rope_scaling": {"rope_type": "llama3"}}),
                json!({"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0,
                "high_freq_factor": 4.0}}),
                json!({"rope_scaling": {"rope_type": "mystery", "factor": 2.0}}),
                json!({"rope_scaling": {"rope_type": "longrope", "long_factor": [1.0, 2.0], "short_factor": [1.0]}}),
            ],
        ),
        (
            "mistral",
            json!({}),
            vec![json!({"sliding_window": 64}), json!({"sliding_window": null})],
        ),
        (
            "mixtral",
            json!({"num_local_experts": 4, "num_experts_per_tok": 2}),
            vec![json!({"num_experts_per_tok": 3})],
        ),
        (
            "ministral3",
            json!({"rope_parameters": {"rope_type": "yarn", "factor": 16.0,
            "original_max_position_embeddings": 64, "rope_theta": 1e6}}),
            vec![
                json!({"rope_parameters": {"rope_type": "yarn", "factor": 16.0, "rope_theta": 1e6,
                "original_max_position_embeddings": 64, "mscale": 1.0, "mscale_all_dim": 1.0,
                "llama_4_scaling_beta": 0.1}}),
            ],
        ),
        ("olmo", json!({}), vec![json!({"clip_qkv": 8.0})]),
        (
            "granite",
            json!({"embedding_multiplier": 12.0, "residual_multiplier": 0.22,
            "attention_multiplier": 0.015625, "logits_scaling": 8.0}),
            vec![json!({"logits_scaling": 4.0}), json!({"embedding_multiplier": 6.0})],
        ),
        (
            "granitemoe",
            json!({"num_local_experts": 4, "num_experts_per_tok": 2,
            "embedding_multiplier": 12.0, "residual_multiplier": 0.22,
            "attention_multiplier": 0.015625, "logits_scaling": 8.0}),
            vec![json!({"shared_intermediate_size": 96}), json!({"shared_intermediate_size": 0})],
        ),
        (
            "minicpm",
            json!({"scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 32}),
            vec![json!({"scale_depth": 2.8}), json!({"dim_model_base": 16})],
        ),
        (
            "qwen2",
            json!({}),
            vec![
                json!({"use_sliding_window": true, "sliding_window": 64, "max_window_layers": 2}),
                json!({"use_sliding_window": false, "sliding_window": 64, "max_window_layers": 2}),
            ],
        ),
        (
            "qwen2_moe",
            experts.clone(),
            vec![json!({"shared_expert_intermediate_size": 80}), json!({"norm_topk_prob": true})],
        ),
        ("qwen3_moe", experts.clone(), vec![json!({"norm_topk_prob": true})]),
        (
            "qwen3_vl_text",
            json!({}),
            vec![
                json!({"rope_scaling": {"rope_type": "default", "mrope_section": [4, 2, 2], "mrope_interleaved": true}}),
            ],
        ),
        (
            "gemma2",
            json!({"query_pre_attn_scalar": 16, "sliding_window": 64}),
            vec![
                json!({"query_pre_attn_scalar": 32}),
                json!({"attn_logit_softcapping": 50.0}),
                json!({"final_logit_softcapping": 30.0}),
            ],
        ),
        (
            "gemma3_text",
            json!({"sliding_window": 64, "query_pre_attn_scalar": 16}),
            vec![
                json!({"sliding_window_pattern": 2}),
                json!({"rope_local_base_freq": 5000.0}),
                json!({"rope_scaling": {"rope_type": "linear", "factor": 8.0}}),
                json!({"use_bidirectional_attention": true}),
            ],
        ),
        (
            "cohere",
            json!({"logit_scale": 0.25}),
            vec![json!({"model_max_length": 4096}), json!({"use_qk_norm": true})],
        ),
        (
            "cohere2",
            json!({"logit_scale": 0.25, "sliding_window": 64}),
            vec![json!({"sliding_window_pattern": 2})],
        ),
        (
            "deepseek_v2",
            {
                let mut all = latent.clone();
                all.as_object_mut().expect("an object").extend(
                    json!({"n_routed_experts": 4,
                "num_experts_per_tok": 2, "moe_intermediate_size": 48, "n_shared_experts": 1,
                "first_k_dense_replace": 1, "routed_scaling_factor": 1.0, "n_group": 1,
                "topk_group": 1})
                    .as_object()
                    .cloned()
                    .unwrap_or_default(),
                );
                all
            },
            vec![
                json!({"q_lora_rank": null}),
                json!({"q_lora_rank": null, "num_hidden_layers": 27}),
                json!({"norm_topk_prob": true}),
                json!({"first_k_dense_replace": 0}),
                json!({"n_routed_experts": null}),
                json!({"n_group": 2}),
                json!({"scoring_func": "sigmoid"}),
                with(&yarn, json!({"mscale": 0.707, "mscale_all_dim": 0.707})),
            ],
        ),
        ("minicpm3", latent, vec![json!({"v_head_dim": 16})]),
        (
            "ernie4_5_moe",
            json!({"moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 48,
            "moe_layer_start_index": 1, "moe_layer_interval": 1}),
            vec![
                json!({"moe_num_shared_experts": 2}),
                json!({"moe_num_shared_experts": 0}),
                json!({"moe_layer_interval": 2}),
            ],
        ),
        (
            "exaone4",
            json!({"sliding_window": 64}),
            vec![
                json!({"sliding_window": null}),
                json!({"sliding_window_pattern": "LG"}),
                json!({"layer_types": ["full_attention", "sliding_attention", "full_attention", "sliding_attention"]}),
            ],
        ),
        (
            "falcon",
            json!({"ffn_hidden_size": 256}),
            vec![
                json!({"alibi": true}),
                json!({"multi_query": true}),
                json!({"new_decoder_architecture": true, "num_kv_heads": 2}),
            ],
        ),
        (
            "gpt2",
            json!({"n_embd": 64, "n_layer": 4, "n_head": 4, "n_positions": 512}),
            vec![json!({"n_inner": 128}), json!({"n_inner": 256})],
        ),
        (
            "phi3",
            json!({}),
            vec![
                json!({"partial_rotary_factor": 0.5}),
                json!({"sliding_window": 64}),
                json!({"original_max_position_embeddings": 128}),
                json!({"original_max_position_embeddings": 128, "rope_scaling": {"type": "longrope",
                "long_factor": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
                "short_factor": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]}}),
                json!({"original_max_position_embeddings": 512, "rope_scaling": {"type": "su",
                "long_factor": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
                "short_factor": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]}}),
                json!({"original_max_position_embeddings": 128, "rope_scaling": {"type": "yarn",
                "long_factor": [1.0], "short_factor": [1.0]}}),
            ],
        ),
        (
            "phi",
            json!({"partial_rotary_factor": 0.5}),
            vec![json!({"partial_rotary_factor": 0.25})],
        ),
        (
            "nemotron",
            json!({"partial_rotary_factor": 0.5, "hidden_act": "relu2"}),
            vec![json!({"rope_scaling": {"rope_type": "linear", "factor": 2.0}})],
        ),
        ("starcoder2", json!({}), vec![json!({"sliding_window": 64}), json!({"use_bias": false})]),
        (
            "stablelm",
            json!({"partial_rotary_factor": 0.25}),
            vec![json!({"use_parallel_residual": true}), json!({"use_qkv_bias": true})],
        ),
        (
            "modernbert",
            json!({"local_attention": 64, "global_rope_theta": 160000.0,
            "local_rope_theta": 10000.0, "hidden_activation": "gelu"}),
            vec![
                json!({"global_attn_every_n_layers": 2}),
                json!({"classifier_pooling": "mean"}),
                json!({"classifier_pooling": "cls"}),
                json!({"hidden_activation": "relu"}),
                json!({"layer_types": ["full_attention", "full_attention", "sliding_attention", "sliding_attention"]}),
            ],
        ),
        (
            "nomic_bert",
            json!({"n_embd": 64, "n_layer": 4, "n_head": 4, "n_inner": 128,
            "n_positions": 8192, "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0,
            "activation_function": "swiglu", "max_trained_positions": 2048}),
            vec![json!({"max_trained_positions": 4096}), json!({"n_positions": 512})],
        ),
        (
            "bert",
            json!({"hidden_act": "gelu", "type_vocab_size": 2}),
            vec![
                json!({"type_vocab_size": 1}),
                json!({"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}),
                json!({"id2label": {"0": "no", "1": "yes"}}),
                json!({"id2label": {"1": "b", "0": "a", "2": "c"}}),
                json!({"id2label": {}}),
                json!({"id2label": {"x": "a"}}),
            ],
        ),
        (
            "roberta",
            json!({"hidden_act": "gelu", "type_vocab_size": 1}),
            vec![json!({"pad_token_id": 1})],
        ),
    ]
}

#[test]
fn every_number_and_flag_has_its_key() {
    let mut told = Vec::new();
    for (model_type, usual, changes) in table() {
        let base = config(model_type, &usual);
        let before = lines(&base, &[]);
        if changes.is_empty() || before.iter().any(|line| line.starts_with("error")) {
            told.push(format!("{model_type}: {before:?}"));
        }
        for change in changes {
            let mut all = usual.clone();
            let object = all.as_object_mut().expect("an object");
            object.extend(change.as_object().cloned().unwrap_or_default());
            let after = lines(&config(model_type, &all), &[]);
            told.push(format!("{model_type} {change}"));
            let refused = |line: &&String| line.contains("error: ");
            if let Some(refused) = after.iter().find(refused) {
                told.push(format!("  {refused}"));
            } else {
                told.extend(before.difference(&after).map(|line| format!("  - {line}")));
                told.extend(after.difference(&before).map(|line| format!("  + {line}")));
            }
        }
    }
    assert_snapshot!(told.join("\n"));
}

/// sentence-transformers state the pooling in a folder beside the model.
#[test]
fn pooling() {
    let base = config("bert", &json!({"hidden_act": "gelu", "type_vocab_size": 2}));
    let modules = |path: &str| {
        let types =
            ["sentence_transformers.models.Transformer", "sentence_transformers.models.Pooling"];
        let module = |kind: &str, path: &str| json!({"type": kind, "path": path});
        ("modules.json", json!([module(types[0], ""), module(types[1], path)]))
    };
    let pooled = |others: &[(&str, Json)]| {
        let before = lines(&base, &[]);
        lines(&base, others).difference(&before).cloned().collect::<Vec<_>>().join(", ")
    };
    let mode =
        |name: &str| ("1_Pooling/config.json", json!({(format!("pooling_mode_{name}")): true}));
    let named = |name: &str| ("1_Pooling/config.json", json!({"pooling_mode": name}));
    assert_snapshot!([
        pooled(&[modules("1_Pooling"), mode("mean_tokens")]),
        pooled(&[modules("1_Pooling/"), mode("cls_token")]),
        pooled(&[modules("1_Pooling"), mode("lasttoken")]),
        pooled(&[modules("1_Pooling"), named("cls")]),
        pooled(&[modules("1_Pooling"), mode("max_tokens")]),
        pooled(&[modules("2_Pooling"), mode("mean_tokens")]),
        pooled(&[modules("1_Pooling")]),
        pooled(&[mode("mean_tokens")]),
        pooled(&[("modules.json", json!([])), mode("mean_tokens")]),
    ].join("\n"), @r#"
    gguf pooling_type = 1
    gguf pooling_type = 2
    gguf pooling_type = 3
    gguf pooling_type = 2
    error: .: key "1_Pooling/config.json": unsupported pooling: pooling_mode_max_tokens; one of mean, cls and lasttoken is supported
    error: .: key "2_Pooling/config.json": modules.json names this file of the pooling, which is missing
    error: .: key "1_Pooling/config.json": modules.json names this file of the pooling, which is missing
    "#);
}
