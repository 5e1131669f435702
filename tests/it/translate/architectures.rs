//! Models of architectures that llama.cpp names or describes in another way than their classes.

use crate::models::{Form, of_classes, open};
use crate::public_reports::{config_in_safetensors, faults, in_gguf};
use crate::support::{Safetensors, f32s, folder};
use serde_json::{Value, json};
use weighbridge::container::{GGUF, MLX, SAFETENSORS, Strictness};
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::{Model, WriteOptions};

/// The width that Qwen 1 states counts the gates and what they let through.
#[test]
fn qwen_1_states_twice_the_width_of_its_network() {
    let config = json!({
        "architectures": ["QWenLMHeadModel"], "model_type": "qwen", "hidden_size": 32, "intermediate_size": 128,
        "kv_channels": 16, "layer_norm_epsilon": 1e-6, "max_position_embeddings": 64, "no_bias": true,
        "num_attention_heads": 2, "num_hidden_layers": 1, "rotary_emb_base": 10000, "rotary_pct": 1.0,
        "seq_length": 64, "tie_word_embeddings": false, "vocab_size": 32,
    });
    let layer = |name: &str| format!("transformer.h.0.{name}");
    let tensors: [(String, &[u64]); 11] = [
        ("transformer.wte.weight".to_owned(), &[32, 32]),
        ("transformer.ln_f.weight".to_owned(), &[32]),
        ("lm_head.weight".to_owned(), &[32, 32]),
        (layer("ln_1.weight"), &[32]),
        (layer("ln_2.weight"), &[32]),
        (layer("attn.c_attn.weight"), &[96, 32]),
        (layer("attn.c_attn.bias"), &[96]),
        (layer("attn.c_proj.weight"), &[32, 32]),
        (layer("mlp.w1.weight"), &[64, 32]),
        (layer("mlp.w2.weight"), &[64, 32]),
        (layer("mlp.c_proj.weight"), &[32, 64]),
    ];
    let tensors = tensors.each_ref().map(|(name, shape)| (name.as_str(), *shape));
    let files = with_shapes(&config, &tensors);
    let own = Model::open(files.path()).unwrap();
    assert_eq!(faults(&own, Strictness::Default), "");
    let (_folder, model) = in_gguf(files.path());
    assert_eq!(model.metadata().u64("qwen.feed_forward_length"), Some(128));
    assert_eq!(model.config().unwrap().ffn_dim.as_ref().unwrap().value, 64);
    assert_eq!(config_in_safetensors(model.path())["intermediate_size"], 128);
}

/// The widths of OpenELM's networks are factors in `config.json` and lists in GGUF.
#[test]
fn openelm_lists_the_heads_and_the_width_of_each_layer() {
    let config = json!({
        "architectures": ["OpenELMForCausalLM"], "model_type": "openelm", "activation_fn_name": "swish",
        "ffn_dim_divisor": 32, "ffn_multipliers": [1.0, 2.0], "ffn_with_glu": true, "head_dim": 16,
        "max_context_length": 64, "model_dim": 32, "normalize_qk_projections": true, "num_kv_heads": [1, 2],
        "num_query_heads": [2, 4], "num_transformer_layers": 2, "rope_freq_constant": 10000,
        "share_input_output_layers": true, "vocab_size": 32,
    });
    let mut tensors: Vec<(String, Vec<u64>)> = vec![
        ("transformer.token_embeddings.weight".to_owned(), vec![32, 32]),
        ("transformer.norm.weight".to_owned(), vec![32]),
    ];
    for (number, heads) in [(0, 1), (1, 2)] {
        for (name, shape) in [
            ("attn_norm", vec![32]),
            ("ffn_norm", vec![32]),
            ("attn.qkv_proj", vec![64 * heads, 32]),
            ("attn.q_norm", vec![16]),
            ("attn.k_norm", vec![16]),
            ("attn.out_proj", vec![32, 32 * heads]),
            ("ffn.proj_1", vec![64 * heads, 32]),
            ("ffn.proj_2", vec![32, 32 * heads]),
        ] {
            tensors.push((format!("transformer.layers.{number}.{name}.weight"), shape));
        }
    }
    let (_folder, model) = loadable_in_gguf(&config, &tensors);
    assert_eq!(listed(&model, "openelm.feed_forward_length"), [32, 64]);
    assert_eq!(listed(&model, "openelm.attention.head_count"), [2, 4]);
    assert_eq!(listed(&model, "openelm.attention.head_count_kv"), [1, 2]);
    let back = config_in_safetensors(model.path());
    assert_eq!(back["ffn_multipliers"], config["ffn_multipliers"]);
}

/// Layers of a searched Nemotron that lack attention or the network have none of their sizes in GGUF's lists.
#[test]
fn searched_layers_are_loadable_in_gguf() {
    let part = |size: &str, value: Value| json!({size: value, "no_op": value.is_null(), "replace_with_linear": false});
    let block = |group: Value, factor: Value| json!({"attention": part("n_heads_in_group", group), "ffn": part("ffn_mult", factor)});
    let config = json!({
        "architectures": ["DeciLMForCausalLM"], "model_type": "nemotron-nas", "hidden_act": "silu", "hidden_size": 32,
        "block_configs": [block(2.into(), 12.0.into()), block(Value::Null, 24.0.into()), block(4.into(), Value::Null)],
        "intermediate_size": null, "max_position_embeddings": 64, "num_attention_heads": 4, "num_hidden_layers": 3,
        "num_key_value_heads": null, "rms_norm_eps": 1e-5, "rope_theta": 500_000.0, "tie_word_embeddings": false,
        "vocab_size": 32,
    });
    let mut tensors: Vec<(String, Vec<u64>)> = vec![
        ("model.embed_tokens.weight".to_owned(), vec![32, 32]),
        ("model.norm.weight".to_owned(), vec![32]),
        ("lm_head.weight".to_owned(), vec![32, 32]),
    ];
    for (number, keys, width) in [(0, 16, 256), (1, 0, 512), (2, 8, 0)] {
        let mut add = |name: &str, shape: Vec<u64>| {
            tensors.push((format!("model.layers.{number}.{name}.weight"), shape));
        };
        if keys > 0 {
            add("input_layernorm", vec![32]);
            add("self_attn.q_proj", vec![32, 32]);
            add("self_attn.k_proj", vec![keys, 32]);
            add("self_attn.v_proj", vec![keys, 32]);
            add("self_attn.o_proj", vec![32, 32]);
        }
        if width > 0 {
            add("post_attention_layernorm", vec![32]);
            add("mlp.gate_proj", vec![width, 32]);
            add("mlp.up_proj", vec![width, 32]);
            add("mlp.down_proj", vec![32, width]);
        }
    }
    let (_folder, model) = loadable_in_gguf(&config, &tensors);
    assert_eq!(listed(&model, "deci.feed_forward_length"), [256, 512, 0]);
    assert_eq!(listed(&model, "deci.attention.head_count"), [4, 0, 4]);
    assert_eq!(listed(&model, "deci.attention.head_count_kv"), [2, 0, 1]);
    assert_eq!(config_in_safetensors(model.path())["block_configs"], config["block_configs"]);
    // A file of llama.cpp's converter has no keys of this library.
    let plain = tempfile::tempdir().unwrap();
    let path = plain.path().join("m.gguf");
    let options = ConvertOptions::new(&GGUF).extra_keys(false);
    ops::convert(&model, &options).unwrap().run(&path, &WriteOptions::new()).unwrap();
    let keys = Model::open(&path).unwrap();
    assert!(keys.metadata().iter().all(|(key, _)| !key.to_string().starts_with("weighbridge.")));
    let back = config_in_safetensors(&path);
    assert_eq!(back["block_configs"], config["block_configs"]);
    assert_eq!(back["num_attention_heads"], 4);
    ops::convert(&keys, &ConvertOptions::new(&MLX)).unwrap();

    // DeciLM lists the key heads alone.
    let config = json!({
        "architectures": ["DeciLMForCausalLM"], "model_type": "deci", "hidden_act": "silu", "hidden_size": 32,
        "num_key_value_heads_per_layer": [2, 1], "intermediate_size": 256, "max_position_embeddings": 64,
        "num_attention_heads": 4, "num_hidden_layers": 2, "rms_norm_eps": 1e-5, "rope_theta": 10_000.0,
        "tie_word_embeddings": false, "vocab_size": 32,
    });
    let mut tensors = tensors[..3].to_vec();
    for (number, keys) in [(0, 16), (1, 8)] {
        for (name, shape) in [
            ("input_layernorm", vec![32]),
            ("self_attn.q_proj", vec![32, 32]),
            ("self_attn.k_proj", vec![keys, 32]),
            ("self_attn.v_proj", vec![keys, 32]),
            ("self_attn.o_proj", vec![32, 32]),
            ("post_attention_layernorm", vec![32]),
            ("mlp.gate_proj", vec![256, 32]),
            ("mlp.up_proj", vec![256, 32]),
            ("mlp.down_proj", vec![32, 256]),
        ] {
            tensors.push((format!("model.layers.{number}.{name}.weight"), shape));
        }
    }
    let (_folder, model) = loadable_in_gguf(&config, &tensors);
    assert_eq!(listed(&model, "deci.attention.head_count_kv"), [2, 1]);
    let back = config_in_safetensors(model.path());
    assert_eq!(
        [&back["model_type"], &back["num_key_value_heads_per_layer"]],
        [&config["model_type"], &config["num_key_value_heads_per_layer"]]
    );
    assert_eq!(back["intermediate_size"], config["intermediate_size"]);
}

/// llama.cpp turns halves of heads by sections, and the text of GLM 4.1V turns neighbors: without sections it is a GLM 4.
#[test]
fn the_text_of_glm_4v_has_no_sections() {
    let text = json!({
        "model_type": "glm4v_text", "hidden_act": "silu", "hidden_size": 32, "intermediate_size": 64,
        "max_position_embeddings": 64, "num_attention_heads": 2, "num_hidden_layers": 1, "num_key_value_heads": 1,
        "rms_norm_eps": 1e-5, "vocab_size": 32, "rope_parameters": {
            "rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5, "mrope_section": [2, 1, 1],
        },
    });
    let config = json!({"architectures": ["Glm4vForConditionalGeneration"], "model_type": "glm4v",
        "text_config": text, "tie_word_embeddings": false});
    let mut tensors: Vec<(String, Vec<u64>)> = vec![
        ("model.language_model.embed_tokens.weight".to_owned(), vec![32, 32]),
        ("model.language_model.norm.weight".to_owned(), vec![32]),
        ("lm_head.weight".to_owned(), vec![32, 32]),
    ];
    for (name, shape) in [
        ("input_layernorm", vec![32]),
        ("post_self_attn_layernorm", vec![32]),
        ("post_attention_layernorm", vec![32]),
        ("post_mlp_layernorm", vec![32]),
        ("self_attn.q_proj", vec![32, 32]),
        ("self_attn.k_proj", vec![16, 32]),
        ("self_attn.v_proj", vec![16, 32]),
        ("self_attn.o_proj", vec![32, 32]),
        ("mlp.gate_up_proj", vec![128, 32]),
        ("mlp.down_proj", vec![32, 64]),
    ] {
        tensors.push((format!("model.language_model.layers.0.{name}.weight"), shape));
    }
    let (_folder, model) = loadable_in_gguf(&config, &tensors);
    assert_eq!(model.metadata().str("general.architecture"), Some("glm4"));
    assert_eq!(model.metadata().u64("glm4.rope.dimension_count"), Some(8));
    assert!(model.metadata().get("glm4.rope.dimension_sections").is_none());
    let named: Vec<(&str, &[u64])> =
        tensors.iter().map(|(name, shape)| (name.as_str(), shape.as_slice())).collect();
    let files = with_shapes(&config, &named);
    let plan = ops::convert(&Model::open(files.path()).unwrap(), &ConvertOptions::new(&GGUF));
    let notes = plan.unwrap().notes.join("; ");
    assert!(notes.contains("positions of images have three axes"), "{notes}");
}

/// mlx-vlm reads the width of LFM2's blocks in the config of the text, where transformers 5 states none.
#[test]
fn keys_for_mlx_are_those_of_the_text() {
    let text = json!({
        "model_type": "lfm2", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "vocab_size": 32,
        "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 64, "norm_eps": 1e-5,
        "layer_types": ["full_attention"], "conv_L_cache": 3,
    });
    let config = json!({"architectures": ["Lfm2VlForConditionalGeneration"], "model_type": "lfm2_vl", "text_config": text});
    let files = with_shapes(
        &config,
        &[
            ("model.language_model.embed_tokens.weight", &[32, 32]),
            ("model.language_model.embedding_norm.weight", &[32]),
        ],
    );
    let plan = ops::convert(&Model::open(files.path()).unwrap(), &ConvertOptions::new(&MLX));
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("model");
    plan.unwrap().run(&target, &WriteOptions::new().allow_incomplete(true)).unwrap();
    let written = std::fs::read(target.join("config.json")).unwrap();
    let written: Value = serde_json::from_slice(&written).unwrap();
    assert_eq!(
        (&written["block_dim"], &written["text_config"]["block_dim"]),
        (&Value::Null, &json!(32))
    );
}

/// mlx-vlm's class of Gemma 3 fills its output matrix from the embedding, but not from a quantized one.
#[test]
fn gemma_3_with_a_vision_tower_has_an_output_matrix_for_mlx_vlm() {
    let text = json!({
        "model_type": "gemma3_text", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "vocab_size": 32,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 64,
    });
    let vision =
        json!({"model_type": "siglip_vision_model", "hidden_size": 4, "num_hidden_layers": 1});
    let config = json!({"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3",
        "text_config": text, "vision_config": vision});
    let language: [(&str, &[u64]); 2] = [
        ("model.language_model.embed_tokens.weight", &[32, 32]),
        ("model.language_model.norm.weight", &[32]),
    ];
    let tower: (&str, &[u64]) = ("model.vision_tower.vision_model.post_layernorm.weight", &[4]);
    let heads = |tensors: &[(&str, &[u64])]| {
        let files = with_shapes(&config, tensors);
        let plan =
            ops::convert(&Model::open(files.path()).unwrap(), &ConvertOptions::new(&MLX)).unwrap();
        let told = plan.notes.iter().filter(|note| note.contains("which mlx-vlm's class requires"));
        let named =
            plan.tensors.iter().filter(|tensor| tensor.name == "language_model.lm_head.weight");
        (named.count(), told.count())
    };
    assert_eq!(heads(&language), (0, 0));
    assert_eq!(heads(&[language.as_slice(), &[tower]].concat()), (1, 2));
}

/// The text of GLM 4.5V is a GLM 4.5 for llama.cpp, with scores by sigmoids and half of each head turned.
#[test]
fn the_text_of_glm_4_5v_is_a_glm_4_5() {
    let text = json!({
        "model_type": "glm4v_moe_text", "hidden_act": "silu", "hidden_size": 32, "intermediate_size": 64, "head_dim": 16,
        "max_position_embeddings": 64, "num_attention_heads": 2, "num_hidden_layers": 2, "num_key_value_heads": 1,
        "rms_norm_eps": 1e-5, "vocab_size": 32, "n_routed_experts": 2, "num_experts_per_tok": 1, "n_shared_experts": 1,
        "moe_intermediate_size": 32, "first_k_dense_replace": 1, "attention_bias": false,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]},
    });
    let config = json!({"architectures": ["Glm4vMoeForConditionalGeneration"], "model_type": "glm4v_moe",
        "text_config": text, "tie_word_embeddings": false});
    let mut tensors: Vec<(String, Vec<u64>)> = vec![
        ("model.language_model.embed_tokens.weight".to_owned(), vec![32, 32]),
        ("model.language_model.norm.weight".to_owned(), vec![32]),
        ("lm_head.weight".to_owned(), vec![32, 32]),
    ];
    let network = |at: &str| {
        [("gate", [32u64, 32]), ("up", [32, 32]), ("down", [32, 32])]
            .map(|(part, shape)| (format!("{at}.{part}_proj.weight"), shape.to_vec()))
    };
    for layer in 0..2 {
        let at = format!("model.language_model.layers.{layer}");
        for (name, shape) in [
            ("input_layernorm", vec![32]),
            ("post_attention_layernorm", vec![32]),
            ("self_attn.q_proj", vec![32, 32]),
            ("self_attn.k_proj", vec![16, 32]),
            ("self_attn.v_proj", vec![16, 32]),
            ("self_attn.o_proj", vec![32, 32]),
        ] {
            tensors.push((format!("{at}.{name}.weight"), shape));
        }
        if layer == 0 {
            tensors.push((format!("{at}.mlp.gate_proj.weight"), vec![64, 32]));
            tensors.push((format!("{at}.mlp.up_proj.weight"), vec![64, 32]));
            tensors.push((format!("{at}.mlp.down_proj.weight"), vec![32, 64]));
        } else {
            tensors.push((format!("{at}.mlp.gate.weight"), vec![2, 32]));
            tensors.push((format!("{at}.mlp.gate.e_score_correction_bias"), vec![2]));
            tensors.extend(network(&format!("{at}.mlp.shared_experts")));
            tensors.extend(network(&format!("{at}.mlp.experts.0")));
            tensors.extend(network(&format!("{at}.mlp.experts.1")));
        }
    }
    let (_folder, model) = loadable_in_gguf(&config, &tensors);
    let keys = model.metadata();
    assert_eq!(keys.str("general.architecture"), Some("glm4moe"));
    assert_eq!(keys.u64("glm4moe.rope.dimension_count"), Some(8));
    assert_eq!(keys.u64("glm4moe.expert_gating_func"), Some(2));
}

/// LLaVA's own code puts the keys of the language model and of images into one config.
#[test]
fn a_config_of_llava_is_that_of_its_language_model() {
    let config = json!({
        "architectures": ["LlavaLlamaForCausalLM"], "model_type": "llava", "mm_hidden_size": 32, "hidden_act": "silu",
        "hidden_size": 32, "intermediate_size": 64, "max_position_embeddings": 64, "num_attention_heads": 2,
        "num_hidden_layers": 1, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "vocab_size": 32,
        "tie_word_embeddings": false,
    });
    let mut tensors: Vec<(String, Vec<u64>)> = vec![
        ("model.embed_tokens.weight".to_owned(), vec![32, 32]),
        ("model.norm.weight".to_owned(), vec![32]),
        ("lm_head.weight".to_owned(), vec![32, 32]),
        ("model.mm_projector.0.weight".to_owned(), vec![32, 32]),
        ("model.image_newline".to_owned(), vec![32]),
    ];
    for (name, shape) in [
        ("input_layernorm", vec![32]),
        ("post_attention_layernorm", vec![32]),
        ("self_attn.q_proj", vec![32, 32]),
        ("self_attn.k_proj", vec![32, 32]),
        ("self_attn.v_proj", vec![32, 32]),
        ("self_attn.o_proj", vec![32, 32]),
        ("mlp.gate_proj", vec![64, 32]),
        ("mlp.up_proj", vec![64, 32]),
        ("mlp.down_proj", vec![32, 64]),
    ] {
        tensors.push((format!("model.layers.0.{name}.weight"), shape));
    }
    let (_folder, model) = loadable_in_gguf(&config, &tensors);
    assert_eq!(model.metadata().str("general.architecture"), Some("llama"));
    assert_eq!(config_in_safetensors(model.path())["model_type"], "llama");
}

/// The GGUF file of a model with these tensors, which llama.cpp lacks nothing of but the tokenizer.
fn loadable_in_gguf(config: &Value, tensors: &[(String, Vec<u64>)]) -> (tempfile::TempDir, Model) {
    let named: Vec<(&str, &[u64])> =
        tensors.iter().map(|(name, shape)| (name.as_str(), shape.as_slice())).collect();
    let files = with_shapes(config, &named);
    assert_eq!(faults(&Model::open(files.path()).unwrap(), Strictness::Default), "");
    let (folder, model) = in_gguf(files.path());
    let expected = "no tokenizer.ggml.model: llama.cpp does not load the file";
    assert_eq!(faults(&model, Strictness::Strict), expected);
    (folder, model)
}

fn listed(model: &Model, key: &str) -> Vec<i128> {
    let list = model.metadata().array(key).and_then(|list| list.integers());
    list.expect("a list of integers").collect()
}

/// The config of a DistilBERT of a class, and its tensors.
fn distilbert(class: &str) -> (Value, Vec<(String, Vec<u64>)>) {
    let config = json!({
        "architectures": [class], "model_type": "distilbert", "activation": "gelu", "dim": 32,
        "hidden_dim": 64, "max_position_embeddings": 16, "n_heads": 2, "n_layers": 1, "vocab_size": 32,
    });
    let layer = |name: &str| format!("transformer.layer.0.{name}");
    let mut tensors = vec![
        ("embeddings.word_embeddings.weight".to_owned(), vec![32, 32]),
        ("embeddings.position_embeddings.weight".to_owned(), vec![16, 32]),
        ("embeddings.LayerNorm.weight".to_owned(), vec![32]),
        ("embeddings.LayerNorm.bias".to_owned(), vec![32]),
        (layer("ffn.lin1.weight"), vec![64, 32]),
        (layer("ffn.lin1.bias"), vec![64]),
        (layer("ffn.lin2.weight"), vec![32, 64]),
        (layer("ffn.lin2.bias"), vec![32]),
    ];
    for name in ["attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin"] {
        tensors.push((layer(&format!("{name}.weight")), vec![32, 32]));
        tensors.push((layer(&format!("{name}.bias")), vec![32]));
    }
    for name in ["sa_layer_norm", "output_layer_norm"] {
        tensors.push((layer(&format!("{name}.weight")), vec![32]));
        tensors.push((layer(&format!("{name}.bias")), vec![32]));
    }
    (config, tensors)
}

/// llama.cpp runs DistilBERT as a BERT without segments, and such a BERT is a DistilBERT.
#[test]
fn distilbert_is_a_bert_without_segments() {
    let (config, tensors) = distilbert("DistilBertModel");
    let (_folder, model) = loadable_in_gguf(&config, &tensors);
    let epsilon = model.metadata().f64("bert.attention.layer_norm_epsilon");
    assert_eq!(epsilon.map(|epsilon| epsilon as f32), Some(1e-12));
    let (_back, back) = in_safetensors(&model);
    for (name, shape) in tensors {
        assert_eq!(back.stored_tensor(&name).unwrap().shape(), shape, "{name}");
    }
    assert_eq!(config_in_safetensors(model.path())["model_type"], "distilbert");
}

/// Embeddings are made without the head for masked words: a class for them does not have it.
#[test]
fn a_head_that_the_class_does_not_have_is_no_loss() {
    for (class, is_lost) in [("DistilBertModel", false), ("DistilBertForMaskedLM", true)] {
        let (config, tensors) = distilbert(class);
        let base = tensors.into_iter().map(|(name, shape)| (format!("distilbert.{name}"), shape));
        let mut tensors: Vec<(String, Vec<u64>)> = base.collect();
        for (name, shape) in [("vocab_transform", vec![32, 32]), ("vocab_layer_norm", vec![32])] {
            tensors.push((format!("{name}.weight"), shape));
            tensors.push((format!("{name}.bias"), vec![32]));
        }
        tensors.push(("vocab_projector.bias".to_owned(), vec![32]));
        let named: Vec<(&str, &[u64])> =
            tensors.iter().map(|(name, shape)| (name.as_str(), shape.as_slice())).collect();
        let files = with_shapes(&config, &named);
        let model = Model::open(files.path()).unwrap();
        let notes = ops::convert(&model, &ConvertOptions::new(&GGUF)).unwrap().notes;
        let lost =
            notes.iter().any(|note| note.contains("llama.cpp will compute this model differently"));
        assert_eq!(lost, is_lost, "{notes:?}");
        assert!(
            notes
                .iter()
                .any(|note| note.contains("vocab_transform") || note.contains("masked_words")),
            "{notes:?}"
        );
    }
}

fn in_safetensors(model: &Model) -> (tempfile::TempDir, Model) {
    let out = tempfile::tempdir().unwrap();
    let plan = ops::convert(model, &ConvertOptions::new(&SAFETENSORS)).unwrap();
    plan.run(&out.path().join("m"), &WriteOptions::new()).unwrap();
    let back = Model::open(out.path().join("m")).unwrap();
    (out, back)
}

/// llama.cpp runs Bamba as Granite 4, whose class in transformers has no rotary embeddings of half of a head. From the GGUF file
/// of another program, whose heads are rotated as a whole, it is a Granite 4, with the usual factor of scores.
#[test]
fn bamba_has_its_own_names_after_gguf() {
    let mut drawn = of_classes().into_iter().filter(|model| model.name == "bamba");
    let list = drawn.next().expect("a case");
    let opened = open(&list, Form::HuggingFace, &list.forms[0].1);
    let (_folder, gguf) = in_gguf(opened.model.path());
    let (_back, back) = in_safetensors(&gguf);
    let names = |model: &Model| {
        let mut names: Vec<String> =
            model.stored_tensors().map(|tensor| tensor.name().to_string()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&back), names(&opened.model));
    let mut whole = list.clone();
    whole.config["rope_parameters"] =
        json!({"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 1.0});
    let opened = open(&whole, Form::HuggingFace, &whole.forms[0].1);
    let (_folder, gguf) = in_gguf(opened.model.path());
    let config = config_in_safetensors(gguf.path());
    let width = opened.model.config().unwrap().head_dim.value;
    let factor = config["attention_multiplier"].as_f64().expect("a number");
    assert_eq!(factor as f32, (width as f32).sqrt().recip());
    assert_eq!(config["layer_types"], json!(["mamba", "attention"]));
}

/// The matrices of the published Jina Embeddings 3 have adapters for tasks, and its config is one of XLM-RoBERTa.
#[test]
fn jina_embeddings_3_as_published() {
    let config = json!({
        "architectures": ["XLMRobertaModel"], "model_type": "xlm-roberta", "hidden_act": "gelu", "hidden_size": 32,
        "intermediate_size": 64, "layer_norm_eps": 1e-5, "max_position_embeddings": 16, "num_attention_heads": 2,
        "num_hidden_layers": 1, "pad_token_id": 1, "position_embedding_type": "rotary", "rotary_emb_base": 20000.0,
        "type_vocab_size": 1, "vocab_size": 32,
    });
    let mut tensors: Vec<(String, Vec<u64>)> = Vec::new();
    for (name, rows, columns) in [
        ("embeddings.word_embeddings", 32, 32),
        ("embeddings.token_type_embeddings", 1, 32),
        ("encoder.layers.0.mixer.Wqkv", 96, 32),
        ("encoder.layers.0.mixer.out_proj", 32, 32),
        ("encoder.layers.0.mlp.fc1", 64, 32),
        ("encoder.layers.0.mlp.fc2", 32, 64),
    ] {
        let part = |part: &str| format!("roberta.{name}.parametrizations.weight.{part}");
        tensors.push((part("original"), vec![rows, columns]));
        tensors.push((part("0.lora_A"), vec![5, 4, columns]));
        tensors.push((part("0.lora_B"), vec![5, rows, 4]));
        if name.starts_with("encoder") {
            tensors.push((format!("roberta.{name}.bias"), vec![rows]));
        }
    }
    for name in ["emb_ln", "encoder.layers.0.norm1", "encoder.layers.0.norm2"] {
        tensors.push((format!("roberta.{name}.weight"), vec![32]));
        tensors.push((format!("roberta.{name}.bias"), vec![32]));
    }
    let (_folder, model) = loadable_in_gguf(&config, &tensors);
    assert_eq!(model.metadata().str("general.architecture"), Some("jina-bert-v3"));
    assert_eq!(model.metadata().f64("jina-bert-v3.rope.freq_base"), Some(20000.0));
}

/// The text of PaddleOCR VL as published: its keys are next to `vision_config`.
#[test]
fn paddleocr_vl_as_published() {
    let config = json!({
        "architectures": ["PaddleOCRVLForConditionalGeneration"], "model_type": "paddleocr_vl", "head_dim": 8,
        "hidden_act": "silu", "hidden_size": 32, "intermediate_size": 64, "max_position_embeddings": 64,
        "num_attention_heads": 4, "num_hidden_layers": 1, "num_key_value_heads": 2, "rms_norm_eps": 1e-5,
        "rope_theta": 500000, "rope_scaling": {"mrope_section": [1, 1, 2], "rope_type": "default", "type": "default"},
        "tie_word_embeddings": false, "use_bias": false, "vocab_size": 32, "vision_config": {"hidden_size": 16},
    });
    let layer = |name: &str| format!("model.layers.0.{name}.weight");
    let mut tensors: Vec<(String, Vec<u64>)> = vec![
        ("lm_head.weight".to_owned(), vec![32, 32]),
        ("mlp_AR.linear_1.weight".to_owned(), vec![16, 16]),
        ("model.embed_tokens.weight".to_owned(), vec![32, 32]),
        ("model.norm.weight".to_owned(), vec![32]),
        ("visual.vision_model.post_layernorm.weight".to_owned(), vec![16]),
    ];
    for (name, shape) in [
        ("input_layernorm", vec![32]),
        ("post_attention_layernorm", vec![32]),
        ("mlp.down_proj", vec![32, 64]),
        ("mlp.gate_proj", vec![64, 32]),
        ("mlp.up_proj", vec![64, 32]),
        ("self_attn.k_proj", vec![16, 32]),
        ("self_attn.o_proj", vec![32, 32]),
        ("self_attn.q_proj", vec![32, 32]),
        ("self_attn.v_proj", vec![16, 32]),
    ] {
        tensors.push((layer(name), shape));
    }
    let (_folder, model) = loadable_in_gguf(&config, &tensors);
    assert_eq!(model.metadata().str("general.architecture"), Some("paddleocr"));
    assert_eq!(listed(&model, "paddleocr.rope.dimension_sections"), [1, 1, 2, 0]);
}

/// A model in F32 with this config, whose tensors have these shapes.
fn with_shapes(config: &Value, tensors: &[(&str, &[u64])]) -> tempfile::TempDir {
    let file = tensors.iter().fold(Safetensors::new(), |file, (name, shape)| {
        let count = shape.iter().product::<u64>() as usize;
        file.tensor(name, "F32", shape, f32s(&vec![1.0; count]))
    });
    folder(&[("config.json", config.to_string().into_bytes()), ("model.safetensors", file.build())])
}
