//! Configs of published models, to GGUF's metadata and back: every number that a `config.json` states
//! is in the one that is made again, and its metadata are the same.
//!
//! The numbers are those of the models' own `config.json`, without what says nothing of the model
//! (`initializer_range`, `use_cache`, dropout, a vision tower's), and without what no GGUF file has.

use std::collections::BTreeMap;

use crate::support::{Gguf, Kv, Safetensors, f32s, folder, put};
use serde_json::{Map, Value as Json};
use weighbridge::metadata::{KeyValues, Value};
use weighbridge::translate::{gguf_metadata, gguf_tensors, hf_documents, mlx_documents};
use weighbridge::{DType, Model};

/// A config, and tensors of GGUF that say what no key does.
struct Case {
    config: &'static str,
    tensors: &'static [(&'static str, &'static [u64])],
    /// `model_type` in an MLX directory, where it is another.
    mlx: Option<&'static str>,
}

const fn case(config: &'static str) -> Case {
    Case { config, tensors: &[], mlx: None }
}

const CASES: &[Case] = &[
    // Qwen3-Next-80B-A3B.
    case(
        r#"{"model_type": "qwen3_next", "hidden_size": 2048, "intermediate_size": 5120, "num_hidden_layers": 48,
        "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "hidden_act": "silu", "attention_bias": false,
        "max_position_embeddings": 262144, "rms_norm_eps": 1e-6, "rope_theta": 10000000, "partial_rotary_factor": 0.25,
        "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16,
        "linear_num_value_heads": 32, "linear_value_head_dim": 128, "decoder_sparse_step": 1, "mlp_only_layers": [],
        "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "num_experts": 512,
        "num_experts_per_tok": 10, "norm_topk_prob": true, "vocab_size": 151936}"#,
    ),
    // Qwen3.5-9B and Qwen3.5-35B-A3B, their text.
    Case {
        mlx: Some("qwen3_5"),
        ..case(
            r#"{"model_type": "qwen3_5_text", "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 8,
            "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 256, "hidden_act": "silu", "attention_bias": false,
            "attn_output_gate": true, "max_position_embeddings": 262144, "rms_norm_eps": 1e-6, "full_attention_interval": 4,
            "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention",
                "linear_attention", "linear_attention", "linear_attention", "full_attention"],
            "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16,
            "linear_num_value_heads": 32, "linear_value_head_dim": 128, "vocab_size": 248320,
            "rope_parameters": {"mrope_interleaved": true, "mrope_section": [11, 11, 10], "rope_type": "default",
                "rope_theta": 10000000, "partial_rotary_factor": 0.25}}"#,
        )
    },
    Case {
        mlx: Some("qwen3_5_moe"),
        ..case(
            r#"{"model_type": "qwen3_5_moe_text", "hidden_size": 2048, "num_hidden_layers": 40, "num_attention_heads": 16,
            "num_key_value_heads": 2, "head_dim": 256, "hidden_act": "silu", "attention_bias": false, "attn_output_gate": true,
            "max_position_embeddings": 262144, "rms_norm_eps": 1e-6, "full_attention_interval": 4,
            "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16,
            "linear_num_value_heads": 32, "linear_value_head_dim": 128, "vocab_size": 248320,
            "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "num_experts": 256,
            "num_experts_per_tok": 8, "rope_parameters": {"mrope_interleaved": true, "mrope_section": [11, 11, 10],
                "rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25}}"#,
        )
    },
    // The texts of Qwen2-VL-7B and Qwen3-VL-4B.
    Case {
        mlx: Some("qwen2_vl"),
        ..case(
            r#"{"model_type": "qwen2_vl_text", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
            "num_attention_heads": 28, "num_key_value_heads": 4, "hidden_act": "silu", "max_position_embeddings": 32768,
            "rms_norm_eps": 1e-6, "rope_theta": 1000000, "rope_scaling": {"rope_type": "default", "mrope_section": [16, 24, 24]},
            "vocab_size": 152064}"#,
        )
    },
    Case {
        mlx: Some("qwen3_vl"),
        ..case(
            r#"{"model_type": "qwen3_vl_text", "hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36,
            "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "hidden_act": "silu", "attention_bias": false,
            "max_position_embeddings": 262144, "rms_norm_eps": 1e-6, "rope_theta": 5000000, "vocab_size": 151936,
            "rope_scaling": {"rope_type": "default", "mrope_section": [24, 20, 20], "mrope_interleaved": true}}"#,
        )
    },
    // Gemma 3n E4B, with ten of its layers.
    Case {
        config: r#"{"model_type": "gemma3n_text", "hidden_size": 2048, "num_hidden_layers": 10, "num_attention_heads": 8,
            "intermediate_size": [16384, 16384, 16384, 16384, 16384, 16384, 16384, 16384, 16384, 16384],
            "num_key_value_heads": 2, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh", "max_position_embeddings": 32768,
            "rms_norm_eps": 1e-6, "rope_theta": 1000000, "rope_local_base_freq": 10000, "sliding_window": 512,
            "final_logit_softcapping": 30.0, "vocab_size": 262400, "vocab_size_per_layer_input": 262144,
            "hidden_size_per_layer_input": 256, "num_kv_shared_layers": 5, "laurel_rank": 64, "altup_active_idx": 0,
            "altup_num_inputs": 4, "altup_coef_clip": 120.0, "altup_correct_scale": true,
            "activation_sparsity_pattern": [0.95, 0.95, 0.95, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention",
                "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]}"#,
        tensors: &[
            ("per_layer_token_embd.weight", &[262_144, 1]),
            ("blk.0.laurel_l.weight", &[64, 1]),
            ("blk.0.altup_correct_scale.weight", &[1]),
        ],
        mlx: Some("gemma3n"),
    },
    // Gemma 4 E2B, with ten of its layers, and 26B-A4B, with six.
    Case {
        tensors: &[("per_layer_token_embd.weight", &[262_144, 1])],
        ..case(
            r#"{"model_type": "gemma4_text", "hidden_size": 1536, "num_hidden_layers": 10, "intermediate_size": 6144,
            "num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 256, "global_head_dim": 512,
            "hidden_activation": "gelu_pytorch_tanh", "max_position_embeddings": 131072, "rms_norm_eps": 1e-6,
            "sliding_window": 512, "final_logit_softcapping": 30.0, "vocab_size": 262144, "vocab_size_per_layer_input": 262144,
            "hidden_size_per_layer_input": 256, "num_kv_shared_layers": 5, "use_double_wide_mlp": true,
            "enable_moe_block": false, "attention_k_eq_v": false,
            "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention",
                "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention"],
            "rope_parameters": {
                "full_attention": {"rope_type": "proportional", "rope_theta": 1000000, "partial_rotary_factor": 0.25},
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000}}}"#,
        )
    },
    Case {
        tensors: &[("blk.5.attn_k.weight", &[1, 1])],
        ..case(
            r#"{"model_type": "gemma4_text", "hidden_size": 2816, "num_hidden_layers": 6, "intermediate_size": 2112,
            "num_attention_heads": 16, "num_key_value_heads": 8, "num_global_key_value_heads": 2, "head_dim": 256,
            "global_head_dim": 512, "hidden_activation": "gelu_pytorch_tanh", "max_position_embeddings": 262144,
            "rms_norm_eps": 1e-6, "sliding_window": 1024, "final_logit_softcapping": 30.0, "vocab_size": 262144,
            "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0, "use_double_wide_mlp": false,
            "enable_moe_block": true, "num_experts": 128, "top_k_experts": 8, "moe_intermediate_size": 704, "attention_k_eq_v": true,
            "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention",
                "sliding_attention", "full_attention"],
            "rope_parameters": {
                "full_attention": {"rope_type": "proportional", "rope_theta": 1000000, "partial_rotary_factor": 0.25},
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000}}}"#,
        )
    },
    // DeepSeekMoE 16B and DeepSeek-V3.2.
    case(
        r#"{"model_type": "deepseek", "hidden_size": 2048, "intermediate_size": 10944, "moe_intermediate_size": 1408,
        "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 16, "n_shared_experts": 2,
        "n_routed_experts": 64, "num_experts_per_tok": 6, "moe_layer_freq": 1, "first_k_dense_replace": 1,
        "norm_topk_prob": false, "scoring_func": "softmax", "hidden_act": "silu", "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-6, "rope_theta": 10000, "attention_bias": false, "vocab_size": 102400}"#,
    ),
    case(
        r#"{"model_type": "deepseek_v32", "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048,
        "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128, "n_shared_experts": 1,
        "n_routed_experts": 256, "num_experts_per_tok": 8, "routed_scaling_factor": 2.5, "kv_lora_rank": 512,
        "q_lora_rank": 1536, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "n_group": 8, "topk_group": 4,
        "topk_method": "noaux_tc", "scoring_func": "sigmoid", "norm_topk_prob": true, "first_k_dense_replace": 3,
        "moe_layer_freq": 1, "hidden_act": "silu", "max_position_embeddings": 163840, "rms_norm_eps": 1e-6,
        "rope_theta": 10000, "index_n_heads": 64, "index_head_dim": 128, "index_topk": 2048, "vocab_size": 129280,
        "rope_scaling": {"rope_type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0,
            "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096}}"#,
    ),
    // Ministral-3-8B.
    case(
        r#"{"model_type": "ministral3", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 34,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "hidden_act": "silu",
        "max_position_embeddings": 262144, "rms_norm_eps": 1e-5, "vocab_size": 131072,
        "rope_parameters": {"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 16.0, "beta_fast": 32.0, "beta_slow": 1.0,
            "original_max_position_embeddings": 16384, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}}"#,
    ),
    // InternLM2-7B, Baichuan2-7B, MiniCPM-2B, XVERSE-7B and OLMo-7B.
    case(
        r#"{"model_type": "internlm2", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_act": "silu", "bias": false,
        "max_position_embeddings": 32768, "rms_norm_eps": 1e-5, "rope_theta": 1000000, "vocab_size": 92544}"#,
    ),
    case(
        r#"{"model_type": "baichuan", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
        "num_attention_heads": 32, "hidden_act": "silu", "max_position_embeddings": 4096, "model_max_length": 4096,
        "rms_norm_eps": 1e-6, "vocab_size": 125696}"#,
    ),
    case(
        r#"{"model_type": "minicpm", "hidden_size": 2304, "intermediate_size": 5760, "num_hidden_layers": 40,
        "num_attention_heads": 36, "num_key_value_heads": 36, "hidden_act": "silu", "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-5, "rope_theta": 10000, "scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 256, "vocab_size": 122753}"#,
    ),
    case(
        r#"{"model_type": "xverse", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
        "num_attention_heads": 32, "hidden_act": "silu", "max_position_embeddings": 8192, "rms_norm_eps": 1e-6, "vocab_size": 100278}"#,
    ),
    case(
        r#"{"model_type": "olmo", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 32, "hidden_act": "silu", "max_position_embeddings": 2048,
        "rope_theta": 10000, "clip_qkv": 8.0, "vocab_size": 50304}"#,
    ),
];

fn kv(value: &Value<'_>) -> Kv {
    match value {
        Value::U32(number) => Kv::U32(*number),
        Value::I32(number) => Kv::I32(*number),
        Value::F32(number) => Kv::F32(*number),
        Value::Bool(flag) => Kv::Bool(*flag),
        Value::String(text) => Kv::text(text.to_str().expect("text")),
        Value::Array(array) => {
            Kv::Array(array.element_type().code(), array.values().map(|value| kv(&value)).collect())
        }
        other => panic!("{other:?}"),
    }
}

fn directory(config: &[u8]) -> (tempfile::TempDir, Model) {
    let weights = Safetensors::new().tensor("t", "F32", &[1], f32s(&[1.0])).build();
    let folder = folder(&[("model.safetensors", weights)]);
    put(folder.path(), "config.json", config);
    let store = Model::open(folder.path()).expect("a directory");
    (folder, store)
}

fn metadata(store: &Model) -> KeyValues {
    gguf_metadata(store).unwrap_or_else(|error| panic!("{error}"))
}

/// Keys with their values, but for the name, which is the folder's.
fn listed(keys: &KeyValues) -> BTreeMap<String, String> {
    let value = |value: &Value<'_>| match value.to_array() {
        Some(array) => format!("{:?}", array.values().collect::<Vec<_>>()),
        None => format!("{value:?}"),
    };
    let keys = keys.iter().map(|(key, found)| (key.spelling().into_owned(), value(&found)));
    keys.filter(|(key, _)| key != "general.name").collect()
}

/// The metadata of a model that another lacks. The other may have more, since the derived config
/// states what the published one leaves to the class: which layers are linear.
fn lost(store: &Model, again: &Model) -> Vec<String> {
    let again = listed(&metadata(again));
    let keys = listed(&metadata(store)).into_iter();
    let lost = keys.filter(|(key, value)| again.get(key) != Some(value));
    lost.map(|(key, value)| format!("{key}: {value}, {:?}", again.get(&key))).collect()
}

/// The file that the converter would write, as far as it says what the model is.
fn file(store: &Model, tensors: &[(&str, &[u64])]) -> Model {
    let file = metadata(store)
        .iter()
        .fold(Gguf::new(), |file, (key, value)| file.key(key.spelling().as_bytes(), kv(&value)));
    let made = gguf_tensors(store).expect("tensors");
    let file = made.iter().fold(file, |file, (name, values)| {
        file.tensor(*name, DType::F32, &[values.len() as u64], f32s(values))
    });
    // Rows of the embedding say how many tokens there are.
    let config = store.document("config.json").expect("a config");
    let embedding = [config["vocab_size"].as_u64().expect("tokens"), 1];
    let tensors = tensors.iter().copied().chain([("token_embd.weight", &embedding[..])]);
    let file = tensors.fold(file, |file, (name, shape)| {
        let count = shape.iter().product::<u64>();
        let zeros = vec![0.0; usize::try_from(count).expect("a small tensor")];
        file.tensor(name, DType::F32, shape, f32s(&zeros))
    });
    let options = weighbridge::OpenOptions::new();
    options.open_memory("model.gguf", file.build()).expect("a GGUF file")
}

/// Numbers as f64: 1000000 and 1000000.0 are one.
fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => a.as_f64() == b.as_f64(),
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same(value, other)))
        }
        _ => a == b,
    }
}

/// mlx-lm's config has the same keys and values, and others that only mlx-lm requires.
fn says_all_of(mlx: &Map<String, Json>, hf: &Map<String, Json>, name: &Json) {
    for (key, value) in hf {
        assert_eq!(mlx.get(key), Some(value), "{name}: {key}");
    }
}

#[test]
fn published_configs_come_back_from_gguf() {
    for Case { config, tensors, mlx } in CASES {
        let stated: Map<String, Json> = serde_json::from_str(config).expect("JSON");
        let name = &stated["model_type"];
        let (_folder, store) = directory(config.as_bytes());
        let gguf = file(&store, tensors);
        let documents = hf_documents(&gguf).unwrap_or_else(|e| panic!("{name}: {e}"));
        let config = documents.config.into_bytes();
        let made: Map<String, Json> = serde_json::from_slice(&config).expect("JSON");
        for (key, value) in &stated {
            let found = made.get(key).unwrap_or(&Json::Null);
            // Transformers loads the text models of Qwen-VL as Qwen's.
            let vision = |text: &str| text.strip_suffix("_vl_text").map(str::to_owned);
            let value = match value.as_str().filter(|_| key == "model_type").and_then(vision) {
                Some(plain) => &Json::from(plain),
                None => value,
            };
            assert!(same(value, found), "{name}: {key} is {found}, not {value}");
        }
        let (_folder, again) = directory(&config);
        if name.as_str().is_some_and(|name| name.ends_with("_vl_text")) {
            continue;
        }
        assert_eq!(lost(&store, &again), Vec::<String>::new(), "{name}");

        // mlx-lm has some within others.
        let documents = mlx_documents(&gguf).expect("documents");
        let config = documents.config.into_bytes();
        let within: Map<String, Json> = serde_json::from_slice(&config).expect("JSON");
        match mlx {
            None => says_all_of(&within, &made, name),
            Some(outer) => {
                assert_eq!(within["model_type"], *outer);
                let text = within["text_config"].as_object().expect("an object");
                says_all_of(text, &made, name);
                let (_folder, again) = directory(&config);
                assert_eq!(lost(&store, &again), Vec::<String>::new(), "{name} in MLX");
            }
        }
    }
}

/// Numbers that make another model of it where they are missing: they are asked for by name.
#[test]
fn what_a_file_lacks_is_not_made_up() {
    for (config, lost, told) in [
        (CASES[0].config, "qwen3next.expert_used_count", "requires num_experts_per_tok"),
        (CASES[0].config, "qwen3next.ssm.inner_size", "requires linear_value_head_dim"),
        (
            CASES[9].config,
            "deepseek32.attention.indexer.top_k",
            "deepseek32.attention.indexer.top_k",
        ),
        (CASES[13].config, "minicpm.residual_scale", "requires residual_scale"),
    ] {
        let (_folder, store) = directory(config.as_bytes());
        let keys = metadata(&store);
        assert!(keys.iter().any(|(key, _)| key.spelling() == lost), "{lost}");
        let kept = keys.iter().filter(|(key, _)| key.spelling() != lost);
        let file = kept.fold(Gguf::new(), |file, (key, value)| {
            file.key(key.spelling().as_bytes(), kv(&value))
        });
        let file = file.tensor("t", DType::F32, &[1], f32s(&[1.0])).build();
        let store = weighbridge::OpenOptions::new().open_memory("file", file).expect("a file");
        let error = hf_documents(&store).expect_err(lost);
        assert_eq!(error.kind(), weighbridge::ErrorKind::Unsupported);
        assert!(error.to_string().contains(told), "{error}");
    }
}

/// Widths of heads that do not follow are stated where the class takes them, and refused where not.
#[test]
fn widths_of_heads_are_never_left_to_the_class() {
    let config = |name: &str| {
        format!(
            r#"{{"model_type": "{name}", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 8,
            "max_position_embeddings": 64, "rope_theta": 10000, "n_routed_experts": 4, "num_experts_per_tok": 2,
            "moe_intermediate_size": 8, "first_k_dense_replace": 0, "n_shared_experts": 1}}"#
        )
    };
    for name in ["qwen2", "granite", "olmo", "cohere", "starcoder2", "llama"] {
        let (_folder, store) = directory(config(name).as_bytes());
        let gguf = file(&store, &[]);
        let documents = hf_documents(&gguf).expect(name);
        let config = documents.config.into_bytes();
        let made: Json = serde_json::from_slice(&config).expect("JSON");
        assert_eq!(made["head_dim"], 32, "{name}");
    }
    let (_folder, store) = directory(config("deepseek").as_bytes());
    let gguf = file(&store, &[]);
    let error = hf_documents(&gguf).expect_err("no head_dim");
    assert!(error.to_string().contains("4 heads of width 32 in a model of width 64"), "{error}");
}

/// MiniMax M2 was published with a number of rotated elements, and transformers now saves a fraction of the head.
#[test]
fn the_stated_number_of_rotated_elements_is_that_of_gguf() {
    let config = |more: &str| {
        format!(
            "{{\"model_type\": \"minimax_m2\", \"hidden_size\": 64, \"num_hidden_layers\": 1, \"num_attention_heads\": 4,
            \"num_key_value_heads\": 2, \"head_dim\": 16, \"intermediate_size\": 32, \"num_local_experts\": 4,
            \"num_experts_per_tok\": 2, \"vocab_size\": 64, \"max_position_embeddings\": 64, {more}}}"
        )
    };
    for (more, rotated) in [
        ("\"rotary_dim\": 8", "8"),
        ("\"rope_parameters\": {\"rope_type\": \"default\", \"partial_rotary_factor\": 0.25}", "4"),
        ("\"rope_theta\": 10000.0", "16"),
    ] {
        let (_folder, model) = directory(config(more).as_bytes());
        let keys = listed(&metadata(&model));
        assert_eq!(keys["minimax-m2.rope.dimension_count"], format!("U32({rotated})"), "{more}");
    }
}

/// GGUF counts the layer that predicts a further token among the others; `config.json` does not.
#[test]
fn layers_behind_the_others_are_not_counted() {
    let (_folder, store) = directory(CASES[1].config.as_bytes());
    let file = metadata(&store).iter().fold(Gguf::new(), |file, (key, value)| {
        let key = key.spelling();
        let value = match (&*key, kv(&value)) {
            ("qwen35.block_count", Kv::U32(layers)) => Kv::U32(layers + 1),
            ("qwen35.attention.recurrent_layers", Kv::Array(code, mut layers)) => {
                layers.push(Kv::Bool(false));
                Kv::Array(code, layers)
            }
            (_, value) => value,
        };
        file.key(key.as_bytes(), value)
    });
    let file = file.key("qwen35.nextn_predict_layers", Kv::U32(1));
    let file = file.tensor("t", DType::F32, &[1], f32s(&[1.0])).build();
    let store = weighbridge::OpenOptions::new().open_memory("file", file).expect("a file");
    let documents = hf_documents(&store).expect("documents");
    let config = documents.config.into_bytes();
    let made: Json = serde_json::from_slice(&config).expect("JSON");
    let stated: Json = serde_json::from_str(CASES[1].config).expect("JSON");
    for key in ["num_hidden_layers", "layer_types", "full_attention_interval"] {
        assert_eq!(made[key], stated[key], "{key}");
    }
}
