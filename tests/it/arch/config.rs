//! Configs: the same numbers from every container, the odd corners of families, and faults.

use std::path::{Path, PathBuf};

use crate::support::{Gguf, Kv, Safetensors, f32s, folder, outside, told, without_path};
use insta::assert_snapshot;
use weighbridge::arch::LayerKind;
use weighbridge::json::{Json, json};
use weighbridge::{DType, Model, ModelConfig, OpenOptions};

fn of(store: &Model) -> weighbridge::Result<ModelConfig> {
    store.config().cloned()
}

/// The config of a model that has this `config.json`, and one tensor of no meaning.
fn directory(config: &Json) -> (tempfile::TempDir, Model) {
    let weights = Safetensors::new().tensor("t", "F32", &[1], f32s(&[1.0])).build();
    let folder =
        folder(&[("config.json", config.to_string().into_bytes()), ("model.safetensors", weights)]);
    let store = Model::open(folder.path()).expect("a model");
    (folder, store)
}

fn from_json(config: &Json) -> ModelConfig {
    of(&directory(config).1).expect("a config")
}

fn gguf(architecture: &str, keys: &[(&str, Kv)]) -> Model {
    let file = Gguf::new().key("general.architecture", Kv::text(architecture));
    let file = keys
        .iter()
        .fold(file, |file, (key, value)| file.key(format!("{architecture}.{key}"), value.clone()));
    let file = file.tensor("t", DType::F32, &[1], f32s(&[1.0]));
    OpenOptions::new().open_memory("file", file.build()).expect("a model")
}

fn from_gguf(architecture: &str, keys: &[(&str, Kv)]) -> ModelConfig {
    of(&gguf(architecture, &[SMALL, keys].concat())).expect("a config")
}

/// The keys that every model needs.
const SMALL: &[(&str, Kv)] = &[
    ("embedding_length", Kv::U32(64)),
    ("block_count", Kv::U32(4)),
    ("attention.head_count", Kv::U32(4)),
];

fn small(more: Json) -> Json {
    let mut config = json!({
        "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
    });
    let (Some(all), Json::Object(more)) = (config.as_object_mut(), more) else { unreachable!() };
    all.extend(more);
    config
}

/// Fields of some groups, a line each.
fn said(config: &ModelConfig, groups: &[&str]) -> String {
    let fields = config.fields().into_iter().filter(|field| groups.contains(&field.group));
    let lines = fields.map(|f| format!("{} = {} ({})", f.name, f.value, f.source));
    lines.collect::<Vec<_>>().join("\n")
}

/// One field as JSON, or null.
fn value(config: &ModelConfig, name: &str) -> Json {
    let found = config.fields().into_iter().find(|field| field.name == name);
    found.map_or(Json::Null, |field| field.value)
}

fn read(path: &Path) -> Json {
    let text = std::fs::read_to_string(path).expect("a file");
    Json::parse(text.as_bytes()).expect("JSON")
}

/// A config of each of the architectures whose names are known, as transformers 5 writes them.
#[test]
fn every_known_architecture() {
    let names = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/names");
    let files =
        std::fs::read_dir(names).expect("a folder").map(|file| file.expect("a file").path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|ending| ending == "json")).collect();
    files.sort();
    let mut lines = Vec::new();
    for file in files {
        let config = from_json(&read(&file)["config"]);
        let parts =
            ["head_dim", "kv_dim", "ffn_dim", "norm_kind", "rope_theta", "n_experts", "layers"];
        let parts = parts.map(|name| match value(&config, name) {
            Json::String(text) => text,
            other => other.to_string(),
        });
        lines.push(format!("{}: {}", config.architecture.value, parts.join(" ")));
    }
    assert_snapshot!(lines.join("\n"), @r#"
    bert: 16 64 96 layer 10000.0 0 null
    deepseek_v2: 24 96 96 rms 10000.0 4 null
    deepseek_v3: 24 96 96 rms 10000.0 4 null
    gemma: 32 64 96 rms 10000.0 0 null
    gemma2: 32 64 96 rms 10000.0 0 {"period":2,"last":"full_attention","others":"sliding_attention"}
    gemma3_text: 32 64 96 rms 1000000.0 0 {"period":6,"last":"full_attention","others":"sliding_attention"}
    gemma3_text: 32 64 96 rms 1000000.0 0 {"period":6,"last":"full_attention","others":"sliding_attention"}
    gemma4_text: 32 64 96 rms 1000000.0 4 {"period":2,"last":"full_attention","others":"sliding_attention"}
    glm4: 16 32 96 rms 10000.0 0 null
    gpt2: 16 64 256 layer 10000.0 0 null
    gpt_oss: 16 32 64 rms 150000.0 4 {"period":2,"last":"full_attention","others":"sliding_attention"}
    granite: 16 32 96 rms 10000.0 0 null
    llama: 16 32 96 rms 500000.0 0 null
    mistral: 24 48 96 rms 10000.0 0 sliding_attention
    mixtral: 16 32 96 rms 1000000.0 4 null
    phi3: 16 32 96 rms 10000.0 0 null
    qwen2: 16 32 96 rms 10000.0 0 null
    qwen2_moe: 16 32 96 rms 10000.0 4 null
    qwen3: 32 64 96 rms 10000.0 0 null
    qwen3_moe: 32 64 96 rms 10000.0 4 null
    qwen3_next: 16 32 96 rms 10000.0 2 {"period":4,"last":"full_attention","others":"linear_attention"}
    smollm3: 16 32 96 rms 2000000.0 0 null
    whisper: 16 64 96 layer 10000.0 0 null
    "#);
}

#[test]
fn llama_3_is_stretched() {
    let scaling = json!({
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    });
    let old = from_json(&small(json!({"rope_theta": 500000.0, "rope_scaling": scaling})));
    assert_snapshot!(said(&old, &["rope"]), @r#"
    rope_dimension_count = 16 (head_dim)
    rope_scaling_kind = "llama3" (config.json rope_scaling.rope_type)
    rope_scaling_factor = 8.0 (config.json rope_scaling.factor)
    rope_scaling_original_max_seq_len = 8192 (config.json rope_scaling.original_max_position_embeddings)
    rope_scaling_low_freq_factor = 1.0 (config.json rope_scaling.low_freq_factor)
    rope_scaling_high_freq_factor = 4.0 (config.json rope_scaling.high_freq_factor)
    "#);
    let mut parameters = scaling;
    parameters["rope_theta"] = json!(500000.0);
    let new = from_json(&small(json!({"rope_parameters": parameters})));
    assert_eq!(new.rope_theta.value, 500_000.0);
    let values = |config: &ModelConfig| -> Vec<Json> {
        config.fields().into_iter().map(|field| field.value).collect()
    };
    assert_eq!(values(&old), values(&new));

    // The converter to GGUF makes a tensor of it.
    let file = Gguf::new()
        .key("general.architecture", Kv::text("llama"))
        .key("llama.embedding_length", Kv::U32(64))
        .key("llama.block_count", Kv::U32(4))
        .key("llama.attention.head_count", Kv::U32(4))
        .tensor("rope_freqs.weight", DType::F32, &[1], f32s(&[1.0]));
    let store = OpenOptions::new().open_memory("file", file.build()).expect("a model");
    assert_snapshot!(said(&of(&store).expect("a config"), &["rope"]), @r#"rope_scaling_kind = "tensor" (rope_freqs.weight is stored)"#);

    // Llama 4's are equal.
    let scaling = json!({"rope_type": "llama3", "low_freq_factor": 4.0, "high_freq_factor": 3.0});
    assert_snapshot!(refused(&small(json!({"rope_scaling": scaling}))), @r#"Malformed: .: key "config.json rope_scaling.high_freq_factor": 3, but at least low_freq_factor, 4, is needed"#);
}

#[test]
fn gemma_3_alternates() {
    let config = small(json!({
        "model_type": "gemma3_text", "sliding_window": 512, "head_dim": 32,
        "query_pre_attn_scalar": 256, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
        "sliding_window_pattern": 6, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    }));
    let old = from_json(&config);
    assert_snapshot!(said(&old, &["attention", "rope", "scales"]), @r#"
    sliding_window = 512 (config.json sliding_window)
    sliding_window_pattern = 6 (config.json sliding_window_pattern)
    value_head_dim = 32 (same as head_dim)
    attention_scale = 0.0625 (1 / sqrt(query_pre_attn_scalar))
    query_pre_attn_scalar = 256.0 (config.json query_pre_attn_scalar)
    rope_local_theta = 10000.0 (config.json rope_local_base_freq)
    rope_dimension_count = 32 (head_dim)
    rope_scaling_kind = "linear" (config.json rope_scaling.rope_type)
    rope_scaling_factor = 8.0 (config.json rope_scaling.factor)
    embedding_scale = 8.0 (sqrt(dim))
    "#);
    let windows: Vec<bool> =
        (0..12).map(|layer| old.layer_kind(layer) == Some(&LayerKind::Sliding)).collect();
    let six = [true, true, true, true, true, false];
    assert_eq!(windows, [six, six].concat());

    // As transformers 5 writes it: a list, and no period.
    let mut kinds = vec!["sliding_attention"; 12];
    (kinds[5], kinds[11]) = ("full_attention", "full_attention");
    let mut config = config;
    config["sliding_window_pattern"] = Json::Null;
    config["layer_types"] = json!(kinds);
    assert_eq!(value(&from_json(&config), "sliding_window_pattern"), 6);

    // llama.cpp's converter writes neither the period nor the local base.
    let converted = from_gguf(
        "gemma3",
        &[("attention.sliding_window", Kv::U32(512)), ("rope.freq_base", Kv::F32(1e6))],
    );
    assert_snapshot!(said(&converted, &["attention", "rope", "scales"]), @r#"
    sliding_window = 512 (gemma3.attention.sliding_window)
    sliding_window_pattern = 6 (default of gemma3)
    value_head_dim = 16 (same as head_dim)
    rope_local_theta = 10000.0 (default of gemma3)
    rope_dimension_count = 16 (head_dim)
    rope_scaling_kind = "none" (default)
    embedding_scale = 8.0 (sqrt(dim))
    "#);
}

#[test]
fn gemma_4_has_heads_of_two_widths() {
    let config = from_json(&small(json!({
        "model_type": "gemma4_text", "head_dim": 16, "global_head_dim": 32, "sliding_window": 128,
        "hidden_size_per_layer_input": 16, "num_kv_shared_layers": 2,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
        "rope_parameters": {
            "full_attention": {
                "partial_rotary_factor": 0.25, "rope_theta": 1000000.0, "rope_type": "proportional",
            },
            "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
        },
    })));
    assert_snapshot!(said(&config, &["model", "attention", "rope", "scales"]), @r#"
    architecture = "gemma4_text" (config.json model_type)
    family = "gemma4" (config.json model_type is "gemma4_text")
    dim = 64 (config.json hidden_size)
    n_layers = 4 (config.json num_hidden_layers)
    n_heads = 4 (config.json num_attention_heads)
    n_kv_heads = 4 (default of gemma4_text for num_key_value_heads)
    head_dim = 32 (config.json global_head_dim)
    q_dim = 128 (n_heads * head_dim)
    kv_dim = 128 (n_kv_heads * head_dim)
    max_seq_len = 131072 (default of gemma4_text for max_position_embeddings)
    norm_kind = "rms" (default of gemma4_text for rms_norm_eps)
    norm_eps = 1e-6 (default of gemma4_text for rms_norm_eps)
    activation = "gelu_pytorch_tanh" (default of gemma4_text for hidden_activation)
    rope_theta = 1000000.0 (config.json rope_parameters.full_attention.rope_theta)
    n_experts = 0 (default)
    layers = {"period":2,"last":"full_attention","others":"sliding_attention"} (config.json layer_types)
    sliding_window = 128 (config.json sliding_window)
    sliding_window_pattern = 2 (config.json layer_types)
    local_head_dim = 16 (config.json head_dim)
    value_head_dim = 32 (same as head_dim)
    n_kv_shared_layers = 2 (config.json num_kv_shared_layers)
    rope_local_theta = 10000.0 (config.json rope_parameters.sliding_attention.rope_theta)
    rope_partial_factor = 0.25 (config.json rope_parameters.full_attention.partial_rotary_factor)
    rope_dimension_count = 8 (head_dim * rope_partial_factor)
    rope_scaling_kind = "proportional" (config.json rope_parameters.full_attention.rope_type)
    embedding_scale = 8.0 (sqrt(dim))
    per_layer_dim = 16 (config.json hidden_size_per_layer_input)
    "#);
    let converted = from_gguf(
        "gemma4",
        &[
            ("attention.key_length", Kv::U32(32)),
            ("attention.key_length_swa", Kv::U32(16)),
            ("attention.sliding_window", Kv::U32(128)),
            ("attention.sliding_window_pattern", bools(&[true, false, true, false])),
            ("attention.shared_kv_layers", Kv::U32(2)),
            ("attention.head_count_kv", Kv::Array(5, [2, 1, 2, 1].map(Kv::I32).to_vec())),
            ("embedding_length_per_layer_input", Kv::U32(16)),
            ("rope.freq_base", Kv::F32(1e6)),
            ("rope.freq_base_swa", Kv::F32(1e4)),
        ],
    );
    assert_snapshot!(said(&converted, &["model", "attention", "rope", "scales"]), @r#"
    architecture = "gemma4" (general.architecture)
    family = "gemma4" (general.architecture is "gemma4")
    dim = 64 (gemma4.embedding_length)
    n_layers = 4 (gemma4.block_count)
    n_heads = 4 (gemma4.attention.head_count)
    n_kv_heads = 2 (gemma4.attention.head_count_kv (the largest of all layers))
    head_dim = 32 (gemma4.attention.key_length)
    q_dim = 128 (n_heads * head_dim)
    kv_dim = 64 (n_kv_heads * head_dim)
    activation = "gelu_pytorch_tanh" (default of gemma4)
    rope_theta = 1000000.0 (gemma4.rope.freq_base)
    n_experts = 0 (default)
    layers = {"period":2,"last":"full_attention","others":"sliding_attention"} (gemma4.attention.sliding_window_pattern)
    sliding_window = 128 (gemma4.attention.sliding_window)
    sliding_window_pattern = 2 (gemma4.attention.sliding_window_pattern)
    n_kv_heads_per_layer = [2,1,2,1] (gemma4.attention.head_count_kv)
    local_head_dim = 16 (gemma4.attention.key_length_swa)
    value_head_dim = 32 (same as head_dim)
    n_kv_shared_layers = 2 (gemma4.attention.shared_kv_layers)
    rope_local_theta = 10000.0 (gemma4.rope.freq_base_swa)
    rope_dimension_count = 32 (head_dim)
    rope_scaling_kind = "none" (default)
    embedding_scale = 8.0 (sqrt(dim))
    per_layer_dim = 16 (gemma4.embedding_length_per_layer_input)
    "#);
}

fn bools(flags: &[bool]) -> Kv {
    Kv::Array(7, flags.iter().copied().map(Kv::Bool).collect())
}

/// A config inside of another states what differs from its class alone, as that of LLaVA 1.5 does.
#[test]
fn a_text_model_inside_of_another_has_the_sizes_of_its_class() {
    let text = json!({"model_type": "llama", "max_position_embeddings": 4096});
    let config = from_json(&json!({"model_type": "llava", "text_config": text}));
    let found = ["dim", "n_layers", "n_heads", "n_kv_heads", "head_dim", "ffn_dim"];
    assert_eq!(
        found.map(|name| value(&config, name)),
        [4096, 32, 32, 32, 128, 11008].map(Json::from)
    );
    // What states the sizes is damaged without them.
    assert!(of(&directory(&json!({"model_type": "llama"})).1).is_err());
}

/// Code that comes with a model is found by its class alone.
#[test]
fn a_config_without_a_model_type_is_of_its_class() {
    let sizes = json!({"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 32,
        "intermediate_size": 128, "rms_norm_eps": 1e-6});
    let with = |class: &str| {
        let mut config = sizes.clone();
        config["architectures"] = json!([class]);
        of(&directory(&config).1)
    };
    let config = with("MistralForCausalLM").expect("a known class");
    assert_eq!(value(&config, "architecture"), "mistral");
    let said = with("CogVLMForCausalLM").expect_err("an unknown class").to_string();
    let fault =
        "config.json states no model_type, and the class \"CogVLMForCausalLM\" is not a known one";
    assert!(said.contains(fault), "{said}");
    let said = of(&directory(&sizes).1).expect_err("no class").to_string();
    assert!(said.contains("no model_type, and no class in architectures"), "{said}");
}

/// Gemma 3 in Ollama's library states no numbers of rotary embeddings.
#[test]
fn gemma3_has_its_bases_without_keys() {
    let config = from_gguf("gemma3", &[("attention.sliding_window", Kv::U32(8))]);
    let found = ["rope_theta", "rope_local_theta"].map(|name| value(&config, name));
    assert_eq!(found, [1e6, 1e4].map(Json::from));
}

/// Transformers 5.24 takes `rope_scaling`, as cards of models advise, in place of the `rope_parameters` that it saves.
#[test]
fn the_older_object_replaces_the_newer_one() {
    let small = json!({
        "model_type": "qwen3", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 96, "vocab_size": 32,
        "max_position_embeddings": 4096, "rope_theta": 1000000.0,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0},
    });
    let read = |config: &Json| {
        let config = from_json(config);
        (config.rope_theta.value, said(&config, &["rope"]).contains("yarn"))
    };
    assert_eq!(read(&small).0, 5000.0);
    let mut both = small.clone();
    both["rope_scaling"] = json!({"rope_type": "yarn", "factor": 4.0});
    assert_eq!(read(&both), (1_000_000.0, true));
    both["rope_scaling"] = json!({});
    assert_eq!(read(&both).0, 5000.0);
}

/// Transformers 5.24 looks for `truncate` in `rope_parameters` itself.
#[test]
fn yarn_is_rounded_whatever_the_parameters_of_a_kind_of_layer_say() {
    let yarn = json!({"factor": 8.0, "rope_theta": 1e6, "original_max_position_embeddings": 32,
        "rope_type": "yarn", "truncate": false});
    let own = json!({"model_type": "lfm3", "head_dim": 16, "rope_parameters": {
        "full_attention": yarn, "sliding_attention": {"rope_type": "default", "rope_theta": 1e6}}});
    let mut config = small(own);
    assert_eq!(value(&from_json(&config), "rope_scaling_truncate"), Json::Null);
    config["rope_parameters"]["truncate"] = false.into();
    assert_eq!(value(&from_json(&config), "rope_scaling_truncate"), false);
}

/// Ettin's published files state a period that begins with the layer without a window.
#[test]
fn ettin_has_the_period_that_its_files_state() {
    let own = json!({"model_type": "modernbert-decoder", "local_attention": 8, "global_attn_every_n_layers": 5});
    let config = from_json(&small(own));
    let windows: Vec<bool> =
        (0..4).map(|layer| config.layer_kind(layer) == Some(&LayerKind::Sliding)).collect();
    assert_eq!(windows, [false, true, true, true]);
}

/// Transformers reads `sliding_window_size` of the published files as SGLang does: without the current position.
#[test]
fn mimo_v2_flash_attends_to_the_stated_positions_and_the_current_one() {
    let own = json!({"model_type": "mimo_v2_flash", "head_dim": 16, "v_head_dim": 16, "num_key_value_heads": 2,
        "sliding_window": 8, "sliding_window_size": 8});
    let mut config = small(own);
    assert_eq!(value(&from_json(&config), "sliding_window"), 9);
    config["sliding_window_size"] = Json::Null;
    assert_eq!(value(&from_json(&config), "sliding_window"), 8);
}

/// EXAONE's published files have names of their own, which transformers' class accepts for its fields.
#[test]
fn another_name_of_a_field_comes_before_the_default() {
    let config = from_json(&small(json!({"model_type": "exaone", "layer_norm_epsilon": 2e-5})));
    assert_eq!(value(&config, "norm_eps"), 2e-5);
}

#[test]
fn gpt_oss_is_stretched_by_yarn() {
    let config = from_json(&small(json!({
        "model_type": "gpt_oss", "head_dim": 16, "sliding_window": 128, "num_local_experts": 4,
        "num_experts_per_tok": 2, "intermediate_size": 64,
        "layer_types":
            ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
        "rope_parameters": {
            "beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "rope_theta": 150000.0,
            "original_max_position_embeddings": 4096, "rope_type": "yarn", "truncate": false,
        },
    })));
    assert_snapshot!(said(&config, &["attention", "rope", "experts"]), @r#"
    sliding_window = 128 (config.json sliding_window)
    sliding_window_pattern = 2 (config.json layer_types)
    value_head_dim = 16 (same as head_dim)
    rope_dimension_count = 16 (head_dim)
    rope_scaling_kind = "yarn" (config.json rope_parameters.rope_type)
    rope_scaling_factor = 32.0 (config.json rope_parameters.factor)
    rope_scaling_original_max_seq_len = 4096 (config.json rope_parameters.original_max_position_embeddings)
    rope_scaling_beta_fast = 32.0 (config.json rope_parameters.beta_fast)
    rope_scaling_beta_slow = 1.0 (config.json rope_parameters.beta_slow)
    rope_scaling_truncate = false (config.json rope_parameters.truncate)
    n_experts_used = 2 (config.json num_experts_per_tok)
    expert_ffn_dim = 64 (same as ffn_dim)
    "#);
    let converted = from_gguf(
        "gpt-oss",
        &[
            ("attention.sliding_window", Kv::U32(128)),
            ("expert_count", Kv::U32(4)),
            ("expert_used_count", Kv::U32(2)),
            ("expert_feed_forward_length", Kv::U32(64)),
            ("expert_gating_func", Kv::U32(3)),
            ("rope.freq_base", Kv::F32(150_000.0)),
            ("rope.scaling.type", Kv::text("yarn")),
            ("rope.scaling.factor", Kv::F32(32.0)),
            ("rope.scaling.original_context_length", Kv::U32(4096)),
        ],
    );
    assert_snapshot!(said(&converted, &["attention", "rope", "experts"]), @r#"
    sliding_window = 128 (gpt-oss.attention.sliding_window)
    sliding_window_pattern = 2 (default of gpt-oss)
    value_head_dim = 16 (same as head_dim)
    rope_dimension_count = 16 (head_dim)
    rope_scaling_kind = "yarn" (gpt-oss.rope.scaling.type)
    rope_scaling_factor = 32.0 (gpt-oss.rope.scaling.factor)
    rope_scaling_original_max_seq_len = 4096 (gpt-oss.rope.scaling.original_context_length)
    n_experts_used = 2 (gpt-oss.expert_used_count)
    expert_ffn_dim = 64 (gpt-oss.expert_feed_forward_length)
    expert_gating = "softmax_of_chosen" (gpt-oss.expert_gating_func)
    "#);
}

#[test]
fn deepseek_attends_by_a_latent() {
    let config = from_json(&small(json!({
        "model_type": "deepseek_v3", "num_key_value_heads": 4, "head_dim": 8, "q_lora_rank": 48,
        "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 12,
        "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1, "n_group": 1,
        "topk_group": 1, "moe_intermediate_size": 32, "first_k_dense_replace": 1,
        "routed_scaling_factor": 2.5, "norm_topk_prob": true, "scoring_func": "sigmoid",
        "num_nextn_predict_layers": 1, "intermediate_size": 96,
    })));
    assert_snapshot!(said(&config, &["model", "attention", "rope", "experts"]), @r#"
    architecture = "deepseek_v3" (config.json model_type)
    family = "deepseek2" (config.json model_type is "deepseek_v3")
    dim = 64 (config.json hidden_size)
    n_layers = 4 (config.json num_hidden_layers)
    n_heads = 4 (config.json num_attention_heads)
    n_kv_heads = 4 (config.json num_key_value_heads)
    head_dim = 24 (qk_nope_head_dim + rope_dimension_count)
    q_dim = 96 (n_heads * head_dim)
    kv_dim = 96 (n_kv_heads * head_dim)
    ffn_dim = 96 (config.json intermediate_size)
    max_seq_len = 4096 (default of deepseek_v3 for max_position_embeddings)
    norm_kind = "rms" (default of deepseek_v3 for rms_norm_eps)
    norm_eps = 1e-6 (default of deepseek_v3 for rms_norm_eps)
    activation = "silu" (default of deepseek_v3 for hidden_act)
    rope_theta = 10000.0 (default of deepseek_v3 for rope_theta)
    n_experts = 4 (config.json n_routed_experts)
    value_head_dim = 12 (config.json v_head_dim)
    q_lora_rank = 48 (config.json q_lora_rank)
    kv_lora_rank = 32 (config.json kv_lora_rank)
    qk_nope_head_dim = 16 (config.json qk_nope_head_dim)
    rope_dimension_count = 8 (config.json qk_rope_head_dim)
    rope_scaling_kind = "none" (default)
    n_experts_used = 2 (config.json num_experts_per_tok)
    n_expert_groups = 1 (config.json n_group)
    n_expert_groups_used = 1 (config.json topk_group)
    n_shared_experts = 1 (config.json n_shared_experts)
    expert_ffn_dim = 32 (config.json moe_intermediate_size)
    expert_weights_scale = 2.5 (config.json routed_scaling_factor)
    expert_weights_norm = true (config.json norm_topk_prob)
    expert_gating = "sigmoid" (config.json scoring_func)
    n_leading_dense_layers = 1 (config.json first_k_dense_replace)
    n_next_token_layers = 1 (config.json num_nextn_predict_layers)
    "#);
    let converted = from_gguf(
        "deepseek2",
        &[
            ("attention.head_count_kv", Kv::U32(1)),
            ("attention.key_length", Kv::U32(40)),
            ("attention.value_length", Kv::U32(32)),
            ("attention.key_length_mla", Kv::U32(24)),
            ("attention.value_length_mla", Kv::U32(12)),
            ("attention.q_lora_rank", Kv::U32(48)),
            ("attention.kv_lora_rank", Kv::U32(32)),
            ("rope.dimension_count", Kv::U32(8)),
            ("expert_count", Kv::U32(4)),
            ("expert_gating_func", Kv::U32(2)),
        ],
    );
    for name in ["n_kv_heads", "head_dim", "value_head_dim", "qk_nope_head_dim", "expert_gating"] {
        assert_eq!(value(&config, name), value(&converted, name), "{name}");
    }
}

#[test]
fn phi_3_has_factors_for_short_and_long_contexts() {
    let config = from_json(&small(json!({
        "model_type": "phi3", "original_max_position_embeddings": 4096, "sliding_window": 2047,
        "max_position_embeddings": 131072,
        "rope_scaling": {"type": "su", "short_factor": [1.0, 1.25], "long_factor": [1.5, 64]},
    })));
    assert_snapshot!(said(&config, &["attention", "rope"]), @r#"
    sliding_window = 2047 (config.json sliding_window)
    value_head_dim = 16 (same as head_dim)
    rope_partial_factor = 1.0 (default of phi3 for partial_rotary_factor)
    rope_dimension_count = 16 (head_dim * rope_partial_factor)
    rope_scaling_kind = "longrope" (config.json rope_scaling.type)
    rope_scaling_original_max_seq_len = 4096 (config.json original_max_position_embeddings)
    rope_scaling_short_factors = [1.0,1.25] (config.json rope_scaling.short_factor)
    rope_scaling_long_factors = [1.5,64.0] (config.json rope_scaling.long_factor)
    "#);
    // Its class takes both older names for the newer one.
    let older = from_json(&small(json!({
        "model_type": "phi3", "original_max_position_embeddings": 4096, "max_position_embeddings": 131072,
        "rope_scaling": {"type": "yarn", "short_factor": [1.0, 1.25], "long_factor": [1.5, 64]},
    })));
    assert_eq!(older.rope_scaling.kind.expect("a kind").value.name(), "longrope");
}

#[test]
fn granite_and_cohere_scale() {
    let config = from_json(&small(json!({
        "model_type": "granite", "attention_multiplier": 0.015625, "embedding_multiplier": 12.0,
        "residual_multiplier": 0.22, "logits_scaling": 16.0,
    })));
    assert_snapshot!(said(&config, &["attention", "scales"]), @"
    value_head_dim = 16 (same as head_dim)
    attention_scale = 0.015625 (config.json attention_multiplier)
    embedding_scale = 12.0 (config.json embedding_multiplier)
    residual_scale = 0.22 (config.json residual_multiplier)
    logit_scale = 16.0 (config.json logits_scaling)
    ");
    let converted = from_gguf(
        "granite",
        &[
            ("attention.scale", Kv::F32(0.015625)),
            ("embedding_scale", Kv::F32(12.0)),
            ("residual_scale", Kv::F32(0.22)),
            ("logit_scale", Kv::F32(16.0)),
        ],
    );
    for name in ["attention_scale", "embedding_scale", "residual_scale", "logit_scale"] {
        assert_eq!(value(&config, name), value(&converted, name), "{name}");
    }
    let cohere = from_json(&small(json!({
        "model_type": "cohere2", "logit_scale": 0.25, "sliding_window": 4096,
        "layer_norm_eps": 1e-5,
    })));
    assert_eq!(value(&cohere, "logit_scale"), 0.25);
    assert_eq!(value(&cohere, "sliding_window_pattern"), 4);
    assert_eq!(value(&cohere, "norm_kind"), "layer");
}

#[test]
fn qwen_3_next_is_mostly_linear() {
    let config = from_json(&small(json!({
        "model_type": "qwen3_next", "head_dim": 16, "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
        "linear_value_head_dim": 16, "shared_expert_intermediate_size": 32, "num_experts": 2,
        "rope_parameters":
            {"partial_rotary_factor": 0.25, "rope_theta": 10000.0, "rope_type": "default"},
        "layer_types":
            ["linear_attention", "linear_attention", "linear_attention", "full_attention"],
    })));
    assert_snapshot!(said(&config, &["rope", "experts", "ssm"]), @r#"
    rope_partial_factor = 0.25 (config.json rope_parameters.partial_rotary_factor)
    rope_dimension_count = 4 (head_dim * rope_partial_factor)
    rope_scaling_kind = "none" (config.json rope_parameters.rope_type)
    n_experts_used = 10 (default of qwen3_next for num_experts_per_tok)
    expert_ffn_dim = 512 (default of qwen3_next for moe_intermediate_size)
    shared_expert_ffn_dim = 32 (config.json shared_expert_intermediate_size)
    expert_weights_norm = true (default of qwen3_next for norm_topk_prob)
    expert_layer_step = 1 (default of qwen3_next for decoder_sparse_step)
    dense_layers = [] (default of qwen3_next for mlp_only_layers)
    ssm_conv_kernel = 4 (config.json linear_conv_kernel_dim)
    ssm_inner_size = 64 (ssm_time_step_rank * ssm_value_head_dim)
    ssm_state_size = 16 (config.json linear_key_head_dim)
    ssm_time_step_rank = 4 (config.json linear_num_value_heads)
    ssm_group_count = 2 (config.json linear_num_key_heads)
    ssm_value_head_dim = 16 (config.json linear_value_head_dim)
    "#);
    let converted = from_gguf(
        "qwen3next",
        &[
            ("ssm.conv_kernel", Kv::U32(4)),
            ("ssm.state_size", Kv::U32(16)),
            ("ssm.group_count", Kv::U32(2)),
            ("ssm.time_step_rank", Kv::U32(4)),
            ("ssm.inner_size", Kv::U32(64)),
            ("full_attention_interval", Kv::U32(4)),
        ],
    );
    for name in ["layers", "ssm_inner_size", "ssm_state_size", "ssm_time_step_rank"] {
        assert_eq!(value(&config, name), value(&converted, name), "{name}");
    }
}

#[test]
fn qwen_2_has_a_window_that_is_not_used() {
    let config = |used: bool| {
        from_json(&small(json!({
            "model_type": "qwen2", "sliding_window": 32768, "use_sliding_window": used,
            "max_window_layers": 2,
        })))
    };
    let unused = config(false);
    assert_eq!((unused.attention.sliding_window, unused.layers), (None, None));
    let used = config(true);
    assert_eq!(used.layer_kind(1), Some(&LayerKind::Full));
    assert_eq!(used.layer_kind(2), Some(&LayerKind::Sliding));
    assert_eq!(value(&used, "sliding_window"), 32768);
}

#[test]
fn whisper_in_three_dialects() {
    let hugging_face = from_json(&json!({
        "model_type": "whisper", "d_model": 32, "encoder_layers": 3, "decoder_layers": 2,
        "num_hidden_layers": 3, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
        "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "max_source_positions": 30,
        "max_target_positions": 20, "num_mel_bins": 80, "vocab_size": 200,
        "activation_function": "gelu",
    }));
    assert_snapshot!(said(&hugging_face, &["model", "encoder"]), @r#"
    architecture = "whisper" (config.json model_type)
    family = "whisper" (config.json model_type is "whisper")
    dim = 32 (config.json d_model)
    n_layers = 2 (config.json decoder_layers)
    n_heads = 4 (config.json decoder_attention_heads)
    n_kv_heads = 4 (as many as n_heads)
    head_dim = 8 (dim / n_heads)
    q_dim = 32 (n_heads * head_dim)
    kv_dim = 32 (n_kv_heads * head_dim)
    ffn_dim = 128 (config.json decoder_ffn_dim)
    vocab_size = 200 (config.json vocab_size)
    max_seq_len = 20 (config.json max_target_positions)
    norm_kind = "layer" (PyTorch's default)
    norm_eps = 0.00001 (PyTorch's default)
    activation = "gelu" (config.json activation_function)
    rope_theta = 10000.0 (default)
    n_experts = 0 (default)
    enc_n_layers = 3 (config.json encoder_layers)
    enc_n_heads = 4 (config.json encoder_attention_heads)
    enc_dim = 32 (same as dim)
    enc_ffn_dim = 128 (config.json encoder_ffn_dim)
    n_audio_ctx = 30 (config.json max_source_positions)
    n_mels = 80 (config.json num_mel_bins)
    "#);
    let openai = from_json(&json!({
        "model_type": "whisper", "n_mels": 80, "n_audio_ctx": 30, "n_audio_state": 32,
        "n_audio_head": 4, "n_audio_layer": 3, "n_vocab": 200, "n_text_ctx": 20,
        "n_text_state": 32, "n_text_head": 4, "n_text_layer": 2,
    }));
    assert_snapshot!(said(&openai, &["model", "encoder"]), @r#"
    architecture = "whisper" (config.json model_type)
    family = "whisper" (config.json model_type is "whisper")
    dim = 32 (config.json n_text_state)
    n_layers = 2 (config.json n_text_layer)
    n_heads = 4 (config.json n_text_head)
    n_kv_heads = 4 (as many as n_heads)
    head_dim = 8 (dim / n_heads)
    q_dim = 32 (n_heads * head_dim)
    kv_dim = 32 (n_kv_heads * head_dim)
    ffn_dim = 128 (4 * dim)
    vocab_size = 200 (config.json n_vocab)
    max_seq_len = 20 (config.json n_text_ctx)
    norm_kind = "layer" (PyTorch's default)
    norm_eps = 0.00001 (PyTorch's default)
    activation = "gelu" (default of whisper for activation_function)
    rope_theta = 10000.0 (default)
    n_experts = 0 (default)
    enc_n_layers = 3 (config.json n_audio_layer)
    enc_n_heads = 4 (config.json n_audio_head)
    enc_dim = 32 (config.json n_audio_state)
    enc_ffn_dim = 128 (4 * enc_dim)
    n_audio_ctx = 30 (config.json n_audio_ctx)
    n_mels = 80 (config.json n_mels)
    "#);
    let converted = of(&gguf(
        "whisper",
        &[
            ("encoder.block_count", Kv::U32(3)),
            ("encoder.embedding_length", Kv::U32(32)),
            ("encoder.attention.head_count", Kv::U32(4)),
            ("encoder.feed_forward_length", Kv::U32(128)),
            ("encoder.context_length", Kv::U32(30)),
            ("encoder.mels_count", Kv::U32(80)),
            ("decoder.block_count", Kv::U32(2)),
            ("decoder.embedding_length", Kv::U32(32)),
            ("decoder.attention.head_count", Kv::U32(4)),
            ("decoder.feed_forward_length", Kv::U32(128)),
            ("decoder.context_length", Kv::U32(20)),
            ("vocab_size", Kv::U32(200)),
        ],
    ));
    let converted = converted.expect("a config");
    for field in hugging_face.fields() {
        assert_eq!(field.value, value(&openai, field.name), "{}", field.name);
        assert_eq!(field.value, value(&converted, field.name), "{}", field.name);
    }
}

#[test]
fn older_names() {
    let config = from_json(&json!({
        "model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_inner": null,
        "n_positions": 128, "layer_norm_epsilon": 1e-5, "vocab_size": 256,
    }));
    assert_snapshot!(said(&config, &["model"]), @r#"
    architecture = "gpt2" (config.json model_type)
    family = "gpt2" (config.json model_type is "gpt2")
    dim = 64 (config.json n_embd)
    n_layers = 2 (config.json n_layer)
    n_heads = 4 (config.json n_head)
    n_kv_heads = 4 (as many as n_heads)
    head_dim = 16 (dim / n_heads)
    q_dim = 64 (n_heads * head_dim)
    kv_dim = 64 (n_kv_heads * head_dim)
    ffn_dim = 256 (4 * dim)
    vocab_size = 256 (config.json vocab_size)
    max_seq_len = 128 (config.json n_positions)
    norm_kind = "layer" (config.json layer_norm_epsilon)
    norm_eps = 0.00001 (config.json layer_norm_epsilon)
    activation = "gelu_new" (default of gpt2 for activation_function)
    rope_theta = 10000.0 (default)
    n_experts = 0 (default)
    "#);
    let falcon = |more: Json| {
        let several = json!({"model_type": "falcon", "num_kv_heads": 2, "multi_query": false});
        let config = from_json(&small(several));
        assert_eq!((config.n_kv_heads.value, config.ffn_dim.map(|f| f.value)), (2, Some(256)));
        // The default of `multi_query` is true.
        let mut all = json!({"model_type": "falcon", "num_kv_heads": 2});
        all.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
        from_json(&small(all)).n_kv_heads.value
    };
    assert_eq!(falcon(json!({})), 1);
    assert_eq!(falcon(json!({"new_decoder_architecture": true})), 2);
}

/// GGUF needs a length of contexts, which few files of Mistral's form state.
#[test]
fn params_without_a_length_have_that_of_vllm() {
    let params = json!({
        "dim": 8, "n_layers": 1, "head_dim": 4, "hidden_dim": 8, "n_heads": 2, "n_kv_heads": 1,
        "norm_eps": 1e-5, "vocab_size": 4,
    });
    for (stated, length) in [(None, 128_000), (Some(4096), 4096)] {
        let mut params = params.clone();
        if let (Some(length), Json::Object(all)) = (stated, &mut params) {
            all.insert("max_seq_len".to_owned(), json!(length));
        }
        let weights =
            Safetensors::new().tensor("tok_embeddings.weight", "F32", &[4, 8], vec![0; 128]);
        let folder = folder(&[
            ("params.json", params.to_string().into_bytes()),
            ("consolidated.safetensors", weights.build()),
        ]);
        let model = Model::open(folder.path()).expect("a model");
        let keys = weighbridge::translate::gguf_metadata(&model).expect("keys");
        let found = keys.get("llama.context_length").and_then(|value| value.to_i128());
        assert_eq!(found, Some(length));
    }
}

/// Its converter kept Meta's config: the tokenizer decides the vocabulary, the tensors the width of networks.
#[test]
fn files_of_mlx_examples_have_what_their_tensors_say() {
    let with = |more: Json| {
        let mut config = json!({"model_type": "llama", "dim": 8, "n_layers": 1, "n_heads": 2, "norm_eps": 1e-5,
            "multiple_of": 256, "vocab_size": -1});
        config.as_object_mut().expect("keys").extend(more.as_object().expect("more").clone());
        let weights = Safetensors::new()
            .tensor("tok_embeddings.weight", "F32", &[4, 8], vec![0; 128])
            .tensor("layers.0.feed_forward.w1.weight", "F32", &[6, 8], vec![0; 192]);
        let folder = folder(&[
            ("config.json", config.to_string().into_bytes()),
            ("model.safetensors", weights.build()),
        ]);
        let model = Model::open(folder.path()).expect("a model");
        let keys = weighbridge::translate::gguf_metadata(&model);
        let length = keys.ok().and_then(|keys| keys.get("llama.feed_forward_length")?.to_i128());
        of(&model).map(|config| (config, length))
    };
    let (config, length) = with(json!({})).expect("a config");
    assert_eq!(length, Some(6));
    assert_eq!(
        [config.vocab_size.map(|f| f.value), config.ffn_dim.map(|f| f.value)],
        [Some(4), Some(6)]
    );
    with(json!({"rope_traditional": true})).expect("what the names say");
    let said = with(json!({"rope_traditional": false})).expect_err("other rows").to_string();
    assert!(said.contains("rope_traditional") && said.contains("pair as halves"), "{said}");
}

/// Ministral 3 and Devstral 2 by Mistral's own words, and the same in transformers' and in llama.cpp's.
#[test]
fn ministral_by_mistrals_own_params() {
    let model = |more: Json| {
        let mut params = json!({"dim": 8, "n_layers": 1, "head_dim": 4, "hidden_dim": 8, "n_heads": 2,
            "n_kv_heads": 1, "norm_eps": 1e-5, "vocab_size": 4, "max_seq_len": 64, "rope_theta": 1e6,
            "yarn": {"apply_scale": false, "factor": 8, "original_max_position_embeddings": 8,
                "beta": 32, "alpha": 1}});
        params.as_object_mut().expect("keys").extend(more.as_object().expect("more").clone());
        let weights =
            Safetensors::new().tensor("tok_embeddings.weight", "F32", &[4, 8], vec![0; 128]);
        let folder = folder(&[
            ("params.json", params.to_string().into_bytes()),
            ("consolidated.safetensors", weights.build()),
        ]);
        Model::open(folder.path()).expect("a model")
    };
    let grows = |length: u32| json!({"llama_4_scaling": {"beta": 0.1, "original_max_position_embeddings": length}});
    for (more, beta) in [(grows(8), 0.1), (json!({"llama_4_scaling": null}), 0.0)] {
        let model = model(more);
        let keys = weighbridge::translate::gguf_metadata(&model).expect("keys");
        let key = |name: &str| keys.get(&format!("mistral3.{name}")).and_then(|key| key.to_f64());
        let found = [
            key("attention.temperature_scale"),
            key("rope.scaling.yarn_log_multiplier"),
            key("rope.scaling.factor"),
        ];
        assert_eq!(found, [Some(f64::from(beta)), Some(1.0), Some(8.0)]);
        let config = weighbridge::translate::hf_documents(&model).expect("documents").config;
        let config = Json::Object(config.keys().expect("keys").into_owned());
        let rope = &config["rope_parameters"];
        assert_eq!(config["model_type"], "ministral3");
        assert_eq!((&rope["mscale"], &rope["mscale_all_dim"]), (&json!(1.0), &json!(1.0)));
        assert_eq!(rope["llama_4_scaling_beta"].as_f64().map(|beta| beta as f32), Some(beta));
    }
    let said = of(&model(grows(16))).expect_err("another length").to_string();
    assert!(said.contains("llama_4_scaling") && said.contains("16, but"), "{said}");
    let unknown =
        model(json!({"use_scaled_rope": true, "causal": true, "model_type": "transformer"}));
    let found: Vec<String> = unknown.computed_config().into_iter().map(|(key, _)| key).collect();
    assert_eq!(found, ["params.json use_scaled_rope"]);
    let unknown = model(json!({"causal": false}));
    let found: Vec<String> = unknown.computed_config().into_iter().map(|(key, _)| key).collect();
    assert_eq!(found, ["params.json causal"]);
}

#[test]
fn mistrals_own_params() {
    let params = json!({
        "dim": 64, "n_layers": 2, "head_dim": 16, "hidden_dim": 96, "n_heads": 4, "n_kv_heads": 2,
        "norm_eps": 1e-5, "vocab_size": 32, "rope_theta": 1000000.0, "max_seq_len": 4096,
        "moe": {"num_experts": 8, "num_experts_per_tok": 2, "something": 1},
        "yarn": {"factor": 16, "original_max_position_embeddings": 8192, "alpha": 1, "beta": 32},
        "tokens_per_second": 12.5,
    });
    let weights =
        Safetensors::new().tensor("tok_embeddings.weight", "F32", &[4, 1], f32s(&[1.0; 4])).build();
    let folder = folder(&[
        ("params.json", params.to_string().into_bytes()),
        ("consolidated.safetensors", weights),
    ]);
    let store = Model::open(folder.path()).expect("a model");
    let config = of(&store).expect("a config");
    assert_snapshot!(said(&config, &["model", "rope", "experts"]), @r#"
    architecture = "llama" (params.json, and tensors with Mistral's own names)
    family = "llama" (params.json, and tensors with Mistral's own names is "llama")
    dim = 64 (params.json dim)
    n_layers = 2 (params.json n_layers)
    n_heads = 4 (params.json n_heads)
    n_kv_heads = 2 (params.json n_kv_heads)
    head_dim = 16 (params.json head_dim)
    q_dim = 64 (n_heads * head_dim)
    kv_dim = 32 (n_kv_heads * head_dim)
    ffn_dim = 96 (params.json hidden_dim)
    vocab_size = 4 (rows of tok_embeddings.weight)
    max_seq_len = 4096 (params.json max_seq_len)
    norm_kind = "rms" (params.json norm_eps)
    norm_eps = 0.00001 (params.json norm_eps)
    activation = "silu" (default of llama)
    rope_theta = 1000000.0 (params.json rope_theta)
    tie_embeddings = true (no output matrix is stored)
    n_experts = 8 (params.json moe.num_experts)
    rope_dimension_count = 16 (head_dim)
    rope_scaling_kind = "yarn" (params.json yarn.factor)
    rope_scaling_factor = 16.0 (params.json yarn.factor)
    rope_scaling_original_max_seq_len = 8192 (params.json yarn.original_max_position_embeddings)
    rope_scaling_beta_fast = 32.0 (params.json yarn.beta)
    rope_scaling_beta_slow = 1.0 (params.json yarn.alpha)
    n_experts_used = 2 (params.json moe.num_experts_per_tok)
    expert_ffn_dim = 96 (same as ffn_dim)
    "#);
    assert_eq!(other(&store), "params.json moe.something: 1\nparams.json tokens_per_second: 12.5");
}

/// Keys that no field is made of, sorted, a line each.
fn other(store: &Model) -> String {
    let other = store.unused_config().into_iter();
    let mut lines: Vec<String> = other.map(|(key, value)| format!("{key}: {value}")).collect();
    lines.sort();
    lines.join("\n")
}

#[test]
fn other_keys_are_kept() {
    let (_folder, store) = directory(&json!({
        "model_type": "gemma3", "architectures": ["A"], "boi_token_index": 5,
        "quantization": {"bits": 4, "group_size": 64},
        "vision_config": {"hidden_size": 32},
        "text_config": {
            "model_type": "gemma3_text", "hidden_size": 64, "num_hidden_layers": 2,
            "num_attention_heads": 4, "initializer_range": 0.02,
            "rope_parameters": {
                "full_attention": {"rope_theta": 1e6, "odd": {"a": 1}},
                "sliding_attention": {"rope_theta": 1e4},
            },
        },
    }));
    assert_eq!(
        of(&store).expect("a config").dim.source.as_str(),
        "config.json text_config.hidden_size"
    );
    assert_snapshot!(other(&store), @"
    config.json architectures: [1 elements]
    config.json boi_token_index: 5
    config.json text_config.initializer_range: 0.02
    config.json text_config.rope_parameters.full_attention.odd: {1 keys}
    config.json vision_config: {1 keys}
    ");
    let keys = [SMALL, &[("unheard_of.length", Kv::U32(7)), ("names", Kv::texts(&["a"]))]].concat();
    assert_snapshot!(other(&gguf("llama", &keys)), @"
    llama.names: [1 elements]
    llama.unheard_of.length: 7
    ");
}

/// Music Flamingo states a width of heads that is that of the audio model.
#[test]
fn widths_around_a_text_model_are_those_of_another_part() {
    let (_folder, store) = directory(&json!({
        "model_type": "musicflamingo", "head_dim": 256, "max_position_embeddings": 1200, "tie_word_embeddings": true,
        "text_config": {
            "model_type": "qwen2", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
            "max_position_embeddings": 32, "vocab_size": 10,
        },
    }));
    let config = of(&store).expect("a config");
    assert_eq!(
        (config.head_dim.value, config.max_seq_len.map(|length| length.value)),
        (16, Some(32))
    );
}

fn refused(config: &Json) -> String {
    let (folder, store) = directory(config);
    without_path(&told(&of(&store).expect_err("a fault")), folder.path())
}

#[test]
fn faults_of_json() {
    let fault = |more: Json| refused(&small(more));
    assert_snapshot!(fault(json!({"num_attention_heads": 0})), @r#"Malformed: .: key "config.json num_attention_heads": 0, but a value above 0 is needed"#);
    assert_snapshot!(fault(json!({"num_hidden_layers": 0})), @r#"Malformed: .: key "config.json num_hidden_layers": 0, but a value above 0 is needed"#);
    assert_snapshot!(fault(json!({"num_hidden_layers": -3})), @r#"Malformed: .: key "config.json num_hidden_layers": -3, but an integer from 0 to 4294967295 is needed"#);
    assert_snapshot!(fault(json!({"num_hidden_layers": 1_000_000_000_000_u64})), @r#"Malformed: .: key "config.json num_hidden_layers": 1000000000000, but an integer from 0 to 4294967295 is needed"#);
    assert_snapshot!(fault(json!({"hidden_size": 64.0})), @r#"Malformed: .: key "config.json hidden_size": 64.0, but an integer is needed"#);
    assert_snapshot!(fault(json!({"hidden_size": "64"})), @r#"Malformed: .: key "config.json hidden_size": "64", but an integer is needed"#);
    assert_snapshot!(fault(json!({"hidden_size": null})), @"Malformed: .: neither llama.embedding_length nor hidden_size in config.json");
    assert_snapshot!(fault(json!({"head_dim": 0})), @r#"Malformed: .: key "config.json head_dim": 0, but a value above 0 is needed"#);
    assert_snapshot!(fault(json!({"num_attention_heads": 65})), @r#"Malformed: .: key "config.json num_attention_heads": 65 heads, but at most the width, 64, is allowed"#);
    assert_snapshot!(fault(json!({"num_attention_heads": 65536, "head_dim": 65536})), @r#"Malformed: .: key "config.json num_attention_heads": 65536 heads of width 65536, but the product must fit in 32 bits"#);
    assert_snapshot!(fault(json!({"rope_theta": 0})), @r#"Malformed: .: key "config.json rope_theta": 0, but a value above 0 is needed"#);
    assert_snapshot!(fault(json!({"rms_norm_eps": -1e-5})), @r#"Malformed: .: key "config.json rms_norm_eps": -1e-5, but a finite, non-negative f32 is needed"#);
    assert_snapshot!(fault(json!({"rms_norm_eps": 1e-60})), @r#"Malformed: .: key "config.json rms_norm_eps": 1e-60, but a finite, non-negative f32 is needed"#);
    assert_snapshot!(fault(json!({"rope_theta": {"__float__": "Infinity"}})), @r#"Malformed: .: key "config.json rope_theta": inf, but a finite, non-negative f32 is needed"#);
    assert_snapshot!(fault(json!({"rope_theta": 1e4, "partial_rotary_factor": 0.001})), @r#"Malformed: .: key "config.json partial_rotary_factor": no element of a head of width 16 is rotated"#);
    assert_snapshot!(fault(json!({"partial_rotary_factor": 1.5})), @r#"Malformed: .: key "config.json partial_rotary_factor": 1.5, but a fraction of at most 1 is needed"#);
    assert_snapshot!(fault(json!({"layer_types": ["full_attention", 1]})), @r#"Malformed: .: key "config.json layer_types": 1, but a string is needed"#);
    assert_snapshot!(fault(json!({"sliding_window_pattern": "LLXG"})), @r#"Malformed: .: key "config.json sliding_window_pattern": the letter 'X', but only L and G are allowed"#);
    assert_snapshot!(fault(json!({"tie_word_embeddings": "yes", "use_sliding_window": 2})), @r#"Malformed: .: key "config.json tie_word_embeddings": "yes", but true or false is needed"#);
    assert_snapshot!(fault(json!({"num_key_value_heads": [0, 0]})), @r#"Malformed: .: key "config.json num_key_value_heads": 0, but a value above 0 is needed"#);
    let long = vec!["full_attention"; 70_000];
    assert_snapshot!(fault(json!({"layer_types": long})), @r#"Malformed: .: key "config.json layer_types": 70000 elements, but a list has at most 65536"#);
}

#[test]
fn faults_of_gguf() {
    let fault = |key: &str, value: Kv| {
        let keys = [SMALL, &[(key, value)]].concat();
        told(&of(&gguf("llama", &keys)).expect_err(key))
    };
    assert_snapshot!(fault("attention.key_length", Kv::U32(0)), @r#"Malformed: file: key "llama.attention.key_length": 0, but a value above 0 is needed"#);
    assert_snapshot!(fault("attention.key_length", Kv::F32(64.0)), @r#"Malformed: file: key "llama.attention.key_length": 64, but an integer is needed"#);
    assert_snapshot!(fault("feed_forward_length", Kv::I64(-1)), @r#"Malformed: file: key "llama.feed_forward_length": -1, but an integer from 0 to 4294967295 is needed"#);
    assert_snapshot!(fault("attention.head_count_kv", Kv::Array(5, vec![Kv::I32(2), Kv::I32(-2)])), @r#"Malformed: file: key "llama.attention.head_count_kv": -2, but an integer from 0 to 4294967295 is needed"#);
    assert_snapshot!(fault("attention.head_count_kv", Kv::Array(4, vec![])), @r#"Malformed: file: key "llama.attention.head_count_kv": 0, but a value above 0 is needed"#);
    assert_snapshot!(fault("attention.sliding_window", Kv::text("x")), @r#"Malformed: file: key "llama.attention.sliding_window": "x", but an integer is needed"#);
    assert_snapshot!(fault("attention.sliding_window_pattern", Kv::Array(7, vec![Kv::Bool(true); 70_000])), @r#"Malformed: file: key "llama.attention.sliding_window_pattern": 70000 elements, but a list has at most 65536"#);
    assert_snapshot!(fault("rope.scaling.factor", Kv::F32(f32::NAN)), @r#"Malformed: file: key "llama.rope.scaling.factor": NaN, but a finite, non-negative f32 is needed"#);
    // Lists are made as long as there are layers.
    let store = gguf(
        "llama",
        &[
            ("embedding_length", Kv::U32(64)),
            ("block_count", Kv::U32(u32::MAX)),
            ("attention.head_count", Kv::U32(4)),
        ],
    );
    let error = of(&store).expect_err("too many layers");
    assert_snapshot!(error, @r#"file: key "llama.block_count": 4294967295 layers, but at most 65536 are allowed"#);
}

/// A line for each dtype, and what is said of all.
fn stored(path: &Path) -> String {
    let summary = Model::open(path).expect("a model").quantization();
    let mut lines: Vec<String> = summary
        .dtypes
        .iter()
        .map(|line| {
            let bits = line.bits_per_weight().unwrap_or(0.0);
            let group = line.group_size.map(|size| format!(" by {size}")).unwrap_or_default();
            format!("{}{group}: {} tensors, {:.3} bits", line.label, line.tensors, bits)
        })
        .collect();
    let (bits, group) = (summary.quant_bits(), summary.quant_group_size());
    let mixed = if summary.is_mixed() { ", mixed" } else { "" };
    let all = summary.bits_per_weight().unwrap_or(0.0);
    lines.push(format!("{bits:?} bits in groups of {group:?}{mixed}, {all:.3} bits a weight"));
    lines.join("\n")
}

#[test]
fn what_weights_are_stored_as() {
    let Some(shared) = outside("") else { return };
    let stored = |model: &str| stored(&shared.join(model));
    assert_snapshot!(stored("gguf/quant/llama-Q4_K_M.gguf"), @"
    Q4_K: 5 tensors, 4.500 bits
    Q6_K: 3 tensors, 6.562 bits
    F32: 3 tensors, 32.000 bits
    Some(4) bits in groups of None, mixed, 5.333 bits a weight
    ");
    assert_snapshot!(stored("gguf/model/llama-f16.gguf"), @"
    F16: 8 tensors, 16.000 bits
    F32: 3 tensors, 32.000 bits
    None bits in groups of None, 16.027 bits a weight
    ");
    assert_snapshot!(stored("mlx/qwen3-mixed-modes"), @"
    BF16: 20 tensors, 16.000 bits
    MLX_MXFP4 by 32: 7 tensors, 4.250 bits
    MLX_AFFINE2 by 64: 7 tensors, 2.500 bits
    MLX_AFFINE6 by 32: 1 tensors, 7.000 bits
    Some(4) bits in groups of Some(32), mixed, 7.550 bits a weight
    ");
    assert_snapshot!(stored("mlx/llama-mixed_3_6"), @"
    MLX_AFFINE3 by 64: 13 tensors, 3.500 bits
    MLX_AFFINE6 by 64: 3 tensors, 6.500 bits
    F16: 5 tensors, 16.000 bits
    Some(3) bits in groups of Some(64), mixed, 4.174 bits a weight
    ");
    assert_snapshot!(stored("hfq/gptq-4bit-g128"), @"
    GPTQ4: 3 tensors, 4.302 bits
    F16: 2 tensors, 16.000 bits
    BF16: 2 tensors, 16.000 bits
    Some(4) bits in groups of None, 5.031 bits a weight
    ");
    assert_snapshot!(stored("hf/deepseek-fp8-block128"), @"
    SCALED_F8_E4M3: 2 tensors, 8.003 bits
    BF16: 1 tensors, 16.000 bits
    Some(8) bits in groups of None, 8.019 bits a weight
    ");
}
