//! The `config.json` of a written directory agrees with its tensors, whatever the source's config says.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "the numbers are the test's own"
)]

use std::collections::BTreeMap;
use std::path::Path;

use tempfile::TempDir;
use weighbridge::container::{Container, GGUF, MLX, SAFETENSORS};
use weighbridge::json::{Json, Map, json};
use weighbridge::ops::{self, ConvertOptions, QuantizationRules};
use weighbridge::recipe::mlx_lm::MlxOptions;
use weighbridge::{DType, Model, WriteOptions};

use crate::support::{Safetensors, f32s, folder};

const WIDTH: u64 = 64;
const WORDS: u64 = 8;

/// Shapes by name, and the number that the values begin with: tensors with the same number are equal.
type Tensors = BTreeMap<String, (Vec<u64>, u64)>;

/// A Llama with one layer.
fn llama(head: bool) -> Tensors {
    let mut tensors = Tensors::new();
    let mut put = |name: &str, shape: &[u64]| {
        let number = tensors.len() as u64;
        tensors.insert(name.to_owned(), (shape.to_vec(), number));
    };
    put("model.embed_tokens.weight", &[WORDS, WIDTH]);
    put("model.norm.weight", &[WIDTH]);
    for name in ["input_layernorm", "post_attention_layernorm"] {
        put(&format!("model.layers.0.{name}.weight"), &[WIDTH]);
    }
    for name in ["q", "k", "v", "o"] {
        put(&format!("model.layers.0.self_attn.{name}_proj.weight"), &[WIDTH, WIDTH]);
    }
    for name in ["gate", "up", "down"] {
        put(&format!("model.layers.0.mlp.{name}_proj.weight"), &[WIDTH, WIDTH]);
    }
    if head {
        put("lm_head.weight", &[WORDS, WIDTH]);
    }
    tensors
}

fn config(more: &Json) -> Json {
    let mut config = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": WIDTH,
        "intermediate_size": WIDTH, "num_attention_heads": 2, "num_key_value_heads": 2,
        "num_hidden_layers": 1, "vocab_size": WORDS, "rms_norm_eps": 1e-5,
        "max_position_embeddings": 64, "hidden_act": "silu", "rope_theta": 1e4,
    });
    let config_keys = config.as_object_mut().expect("an object");
    for (key, value) in more.as_object().expect("an object") {
        config_keys.insert(key.clone(), value.clone());
    }
    config
}

fn write(tensors: &Tensors, config: &Json, dtype: &str) -> TempDir {
    let mut file = Safetensors::new();
    for (name, (shape, number)) in tensors {
        let count: u64 = shape.iter().product();
        let values: Vec<f32> =
            (0..count).map(|n| ((n * 7 + number * 13) % 97) as f32 - 48.0).collect();
        let bytes = match dtype {
            "F64" => values.iter().flat_map(|value| f64::from(*value).to_le_bytes()).collect(),
            _ => f32s(&values),
        };
        file = file.tensor(name, dtype, shape, bytes);
    }
    let text = config.to_string().into_bytes();
    folder(&[("config.json", text), ("model.safetensors", file.build())])
}

/// The output: the config, the names of the tensors, and the plan's notes.
struct Written {
    folder: TempDir,
    config: Map<String, Json>,
    names: Vec<String>,
    notes: Vec<String>,
}

impl Written {
    fn has(&self, name: &str) -> bool {
        self.names.iter().any(|found| found == name)
    }
}

fn converted(source: &Path, options: &ConvertOptions) -> weighbridge::Result<Written> {
    let model = Model::open(source)?;
    let plan = ops::convert(&model, options)?;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("out");
    plan.run(&out, &WriteOptions::new())?;
    let written = Model::open(&out)?;
    let config = written.document("config.json").and_then(Json::as_object).cloned();
    let names = written.stored_tensors().map(|tensor| tensor.name().to_owned()).collect();
    Ok(Written { folder, config: config.unwrap_or_default(), names, notes: plan.notes })
}

fn both(tensors: &Tensors, more: &Json) -> [Written; 2] {
    let source = write(tensors, &config(more), "F32");
    [&MLX, &SAFETENSORS].map(|to: &'static Container| {
        converted(source.path(), &ConvertOptions::new(to)).expect("a directory")
    })
}

const TIED: &str = "tie_word_embeddings";

#[test]
fn an_output_matrix_that_differs_is_not_tied() {
    for written in both(&llama(true), &json!({ TIED: true })) {
        assert!(written.has("lm_head.weight"));
        assert_eq!(written.config[TIED], json!(false));
        let note =
            "tie_word_embeddings is false, not true: lm_head.weight differs from the embedding";
        assert!(written.notes.iter().any(|found| found.ends_with(note)), "{:?}", written.notes);
    }
}

#[test]
fn an_output_matrix_that_equals_the_embedding_is_left_out() {
    let mut tensors = llama(true);
    tensors.get_mut("lm_head.weight").expect("a head").1 = tensors["model.embed_tokens.weight"].1;
    for written in both(&tensors, &json!({ TIED: true })) {
        assert!(!written.has("lm_head.weight"));
        assert_eq!(written.config[TIED], json!(true));
        assert!(written.notes.iter().any(|note| note.contains("left out: lm_head.weight")));
    }
    // A model that does not tie them keeps both.
    for written in both(&tensors, &json!({ TIED: false })) {
        assert!(written.has("lm_head.weight"));
        assert_eq!(written.config[TIED], json!(false));
    }
}

#[test]
fn a_model_without_an_output_matrix_is_tied() {
    for written in both(&llama(false), &json!({ TIED: false })) {
        assert_eq!(written.config[TIED], json!(true));
    }
    // The class does not tie them by default.
    for written in both(&llama(false), &json!({})) {
        assert_eq!(written.config[TIED], json!(true));
    }
}

/// mlx-lm's class of Gemma always computes logits with the embedding.
#[test]
fn a_class_without_an_output_matrix_gets_none() {
    let class =
        json!({ "architectures": ["GemmaForCausalLM"], "model_type": "gemma", "head_dim": 32 });
    let source = write(&llama(true), &config(&class), "F32");
    let options = ConvertOptions::new(&MLX);
    let error = converted(source.path(), &options).err().expect("a refusal");
    assert_eq!(error.kind(), weighbridge::ErrorKind::Unsupported);
    assert_eq!(error.tensor(), Some("lm_head.weight"));
    let other = converted(source.path(), &ConvertOptions::new(&SAFETENSORS)).expect("a directory");
    assert_eq!(other.config[TIED], json!(false));
    let mut tensors = llama(true);
    tensors.get_mut("lm_head.weight").expect("a head").1 = tensors["model.embed_tokens.weight"].1;
    let source = write(&tensors, &config(&class), "F32");
    assert!(!converted(source.path(), &options).expect("a directory").has("lm_head.weight"));
}

/// The same through a GGUF file, which keeps what config.json says.
#[test]
fn a_gguf_file_keeps_no_wrong_tie() {
    let source = write(&llama(true), &config(&json!({ TIED: true })), "F32");
    let file = converted(source.path(), &ConvertOptions::new(&GGUF)).expect("a file");
    for to in [&MLX, &SAFETENSORS] {
        let back = converted(&file.folder.path().join("out"), &ConvertOptions::new(to))
            .expect("a directory");
        assert!(back.has("lm_head.weight"));
        assert_eq!(back.config[TIED], json!(false), "{}", to.name);
    }
}

#[test]
fn quantized_directories_agree_too() {
    let options =
        || ConvertOptions::new(&MLX).quantize(QuantizationRules::MlxLm(MlxOptions::default()));
    let source =
        write(&llama(true), &config(&json!({ TIED: true, "attention_bias": true })), "F32");
    let written = converted(source.path(), &options()).expect("a directory");
    assert_eq!(
        (&written.config[TIED], &written.config["attention_bias"]),
        (&json!(false), &json!(false))
    );
    assert!(written.config.contains_key("quantization"));
}

#[test]
fn flags_say_which_biases_there_are() {
    let with = |names: &[&str]| {
        let mut tensors = llama(true);
        for name in names {
            tensors.insert(format!("model.layers.0.{name}.bias"), (vec![WIDTH], 3));
        }
        tensors
    };
    let attention = ["q", "k", "v", "o"].map(|name| format!("self_attn.{name}_proj"));
    let attention: Vec<&str> = attention.iter().map(String::as_str).collect();
    for stated in [json!({ "attention_bias": false }), json!({})] {
        for written in both(&with(&attention), &stated) {
            assert_eq!(written.config["attention_bias"], json!(true), "{stated}");
        }
    }
    let network = ["mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"];
    for written in both(&with(&network), &json!({ "attention_bias": true, "mlp_bias": false })) {
        assert_eq!(written.config["attention_bias"], json!(false));
        assert_eq!(written.config["mlp_bias"], json!(true));
    }
}

/// mlx-lm's class of Qwen 3 has no biases, whatever the config says.
#[test]
fn biases_that_a_class_does_not_have_are_refused() {
    let class =
        json!({ "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "head_dim": 32 });
    let mut tensors = llama(true);
    for name in ["q", "k"] {
        tensors.insert(format!("model.layers.0.self_attn.{name}_norm.weight"), (vec![32], 1));
    }
    for name in ["q", "k", "v", "o"] {
        tensors.insert(format!("model.layers.0.self_attn.{name}_proj.bias"), (vec![WIDTH], 3));
    }
    for stated in [json!({}), json!({ "attention_bias": true })] {
        let mut config = config(&class);
        config
            .as_object_mut()
            .expect("an object")
            .extend(stated.as_object().cloned().into_iter().flatten());
        let source = write(&tensors, &config, "F32");
        let error = converted(source.path(), &ConvertOptions::new(&MLX)).err().expect("a refusal");
        assert_eq!(error.kind(), weighbridge::ErrorKind::Unsupported);
        assert!(error.tensor().is_some_and(|name| name.ends_with(".bias")), "{error}");
        let other = converted(source.path(), &ConvertOptions::new(&SAFETENSORS));
        assert_eq!(other.expect("a directory").config["attention_bias"], json!(true));
    }
}

#[test]
fn the_vocabulary_is_that_of_the_embedding() {
    let mut tensors = llama(false);
    tensors.get_mut("model.embed_tokens.weight").expect("an embedding").0[0] = WORDS + 3;
    for written in both(&tensors, &json!({ TIED: true })) {
        assert_eq!(written.config["vocab_size"], json!(WORDS + 3));
    }
}

#[test]
fn layers_beyond_their_number_are_left_out() {
    let mut tensors = llama(true);
    for (name, tensor) in tensors.clone() {
        if name.contains("layers.0.") {
            tensors.insert(name.replace("layers.0.", "layers.1."), tensor);
        }
    }
    for written in both(&tensors, &json!({})) {
        assert!(
            !written.names.iter().any(|name| name.contains("layers.1.")),
            "{:?}",
            written.names
        );
        assert!(written.notes.iter().any(|note| note.contains("left out: model.layers.1.")));
    }
}

#[test]
fn mlx_has_no_doubles() {
    let source = write(&llama(true), &config(&json!({})), "F64");
    let written = converted(source.path(), &ConvertOptions::new(&MLX)).expect("a directory");
    let model = Model::open(written.folder.path().join("out")).expect("a model");
    assert!(model.stored_tensors().all(|tensor| tensor.dtype().expect("a dtype") == DType::F32));
    assert!(written.notes.iter().any(|note| note.contains("cast from F64")), "{:?}", written.notes);
}

/// A sound directory is copied byte for byte.
#[test]
fn a_config_that_agrees_stays_as_it_is() {
    let source = write(&llama(true), &config(&json!({})), "F32");
    let written =
        converted(source.path(), &ConvertOptions::new(&SAFETENSORS)).expect("a directory");
    let read = |folder: &Path| std::fs::read(folder.join("config.json")).expect("a file");
    assert_eq!(read(source.path()), read(&written.folder.path().join("out")));
}

#[test]
fn a_vocabulary_that_no_key_states_is_that_of_the_embedding() {
    let mut unstated = config(&json!({ TIED: true }));
    unstated.as_object_mut().expect("an object").remove("vocab_size");
    let source = write(&llama(false), &unstated, "F32");
    let model = Model::open(source.path()).expect("a model");
    let report = ops::verify(&model, &ops::VerifyOptions::new()).expect("a report");
    let notes = report.notes.concat();
    assert!(
        notes.contains("config.json has no vocab_size, and the embedding has 8 rows"),
        "{notes}"
    );
    for to in [&MLX, &SAFETENSORS] {
        let written = converted(source.path(), &ConvertOptions::new(to)).expect("a directory");
        assert_eq!(written.config["vocab_size"], json!(WORDS));
    }
}

/// mlx-lm's class of the family has a router without a quantized form.
#[test]
fn a_router_that_mlx_lm_has_in_plain_form_is_decoded() {
    let name = "model.layers.0.mlp.gate";
    let quantized = json!({"group_size": 32, "bits": 8});
    let config = json!({
        "model_type": "glm4_moe_lite", "hidden_size": 32, "num_attention_heads": 1,
        "num_hidden_layers": 1, "quantization": quantized,
    });
    let file = Safetensors::new()
        .tensor(&format!("{name}.weight"), "U32", &[2, 8], vec![1; 64])
        .tensor(&format!("{name}.scales"), "F32", &[2, 1], f32s(&[1.0, 2.0]))
        .tensor(&format!("{name}.biases"), "F32", &[2, 1], f32s(&[0.0; 2]));
    let text = config.to_string().into_bytes();
    let source = folder(&[("config.json", text), ("model.safetensors", file.build())]);
    let plan =
        ops::convert(&Model::open(source.path()).expect("a model"), &ConvertOptions::new(&MLX));
    let plan = plan.expect("a plan");
    assert!(plan.notes.iter().any(|note| note.contains("no quantized form")));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("out");
    plan.run(&out, &WriteOptions::new().allow_incomplete(true)).expect("a directory");
    let written = Model::open(&out).expect("a directory");
    let config = written.document("config.json").expect("a config");
    assert_eq!(config.get("quantization"), None);
    let gate = written.stored_tensor(&format!("{name}.weight")).expect("the router");
    assert_eq!(*gate.dequantize().expect("values"), [[1.0_f32; 32], [2.0; 32]].concat());
}

/// A model of one matrix.
fn matrix(own: &Json, name: &str) -> TempDir {
    let mut config = json!({
        "hidden_size": 32, "num_attention_heads": 1, "num_hidden_layers": 1, "intermediate_size": 32, "vocab_size": 8,
    });
    let keys = own.as_object().expect("an object").clone();
    config.as_object_mut().expect("an object").extend(keys);
    let file = Safetensors::new().tensor(name, "F32", &[32, 32], f32s(&[1.0; 1024]));
    let text = config.to_string().into_bytes();
    folder(&[("config.json", text), ("model.safetensors", file.build())])
}

/// The notes of converting a model of one matrix to MLX.
fn mlx_notes(own: &Json, name: &str) -> Vec<String> {
    let source = matrix(own, name);
    let model = Model::open(source.path()).expect("a model");
    ops::convert(&model, &ConvertOptions::new(&MLX)).expect("a plan").notes
}

/// The conditions of `engines/mlx-lm/conditions.txt`: on values that the class computes otherwise, and on those with
/// which it does not load the model.
#[test]
fn values_that_mlx_lm_does_not_compute_are_noted() {
    let noted =
        |own: Json, name, said: &str| mlx_notes(&own, name).iter().any(|note| note.contains(said));
    let query = "model.layers.0.self_attn.q_proj.weight";
    let said = "will compute this model differently: its class of mistral lets every layer attend to all positions";
    assert!(noted(json!({"model_type": "mistral", "sliding_window": 4}), query, said));
    assert!(!noted(json!({"model_type": "mistral", "sliding_window": null}), query, said));
    assert!(!noted(json!({"model_type": "llama", "sliding_window": 4}), query, said));
    // mlx-lm divides the weights of Jamba's chosen experts by their sum; transformers does not.
    let expert = "model.layers.0.feed_forward.experts.0.gate_proj.weight";
    let said = "divides the weights of the chosen experts";
    let jamba = |experts: u32| json!({"model_type": "jamba", "num_experts": experts, "attn_layer_offset": 0});
    assert!(noted(jamba(2), expert, said));
    assert!(!noted(jamba(1), "model.layers.0.feed_forward.gate_proj.weight", said));
    // The weights of all experts add up to 1 already.
    let expert_of_qwen = "model.layers.0.mlp.experts.0.gate_proj.weight";
    let qwen = |used: u32| json!({"model_type": "qwen2_moe", "num_experts": 2, "num_experts_per_tok": used, "norm_topk_prob": true});
    assert!(noted(qwen(1), expert_of_qwen, "does not read norm_topk_prob (true)"));
    assert!(!noted(qwen(2), expert_of_qwen, "norm_topk_prob"));
    // Numbers of rotary embeddings have several places.
    let yarn = json!({"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "mscale": 0.7});
    let of_kinds = json!({"model_type": "mellum", "rope_parameters": {"full_attention": yarn, "sliding_attention": yarn}});
    let said = "has a default for one of mscale and mscale_all_dim";
    assert!(noted(of_kinds, query, said));
    assert!(noted(json!({"model_type": "llama", "rope_scaling": yarn}), query, said));
    assert!(!noted(json!({"model_type": "llama"}), query, said));
    let narrow = json!({"model_type": "llama", "head_dim": 5, "num_attention_heads": 1});
    assert!(noted(narrow, query, "its class of llama rotates pairs, not 5 elements"));
    let said = "will not load this model: its class of qwen2 does not read head_dim (64)";
    assert!(noted(json!({"model_type": "qwen2", "head_dim": 64}), query, said));
    assert!(!noted(json!({"model_type": "qwen2", "head_dim": 32}), query, "head_dim"));
    assert!(!noted(json!({"model_type": "llama", "head_dim": 64}), query, "head_dim"));
    let said = "will not load this model: its class of olmo is for OLMo's older format";
    assert!(noted(json!({"model_type": "olmo"}), query, said));
    let said = "will not load this model: its class of jamba requires a layer with attention";
    assert!(noted(json!({"model_type": "jamba", "num_experts": 2}), expert, said));
    assert!(!noted(jamba(2), expert, said));
}

/// Shared experts that the config, or the default of its class, promises; the bias that mlx-lm's class drops; and the last
/// layer with experts, which GGUF does not state.
#[test]
fn experts_of_ernie() {
    let mut tensors = llama(true);
    for name in ["gate", "up", "down"] {
        let (shape, number) =
            tensors.remove(&format!("model.layers.0.mlp.{name}_proj.weight")).expect("a matrix");
        for expert in 0..2 {
            let name = format!("model.layers.0.mlp.experts.{expert}.{name}_proj.weight");
            tensors.insert(name, (shape.clone(), number + 20 * expert));
        }
    }
    tensors.insert("model.layers.0.mlp.gate.weight".to_owned(), (vec![2, WIDTH], 90));
    let bias = "model.layers.0.mlp.moe_statics.e_score_correction_bias";
    tensors.insert(bias.to_owned(), (vec![1, 2], 91));
    let own = |shared: &Json| {
        let mut own = config(&json!({
            "model_type": "ernie4_5_moe", "architectures": ["Ernie4_5_MoeForCausalLM"],
            "moe_num_experts": 2, "moe_k": 1, "moe_intermediate_size": WIDTH,
            "moe_layer_start_index": 0, "moe_layer_end_index": 0, "moe_layer_interval": 1,
        }));
        if !shared.is_null() {
            own.as_object_mut()
                .expect("an object")
                .insert("moe_num_shared_experts".to_owned(), shared.clone());
        }
        own
    };
    let planned = |shared: Json, to| {
        let source = write(&tensors, &own(&shared), "F32");
        let model = Model::open(source.path()).expect("a model");
        let plan = ops::convert(&model, &ConvertOptions::new(to)).expect("a plan");
        (plan.missing.join(" "), plan.notes.join("; "))
    };
    let drops =
        "its class of ernie4_5_moe ignores the biases of scores by which experts are chosen";
    let (missing, notes) = planned(json!(0), &MLX);
    assert!(missing.is_empty() && notes.contains(drops), "{missing}: {notes}");
    let (missing, notes) = planned(json!(0), &GGUF);
    assert!(missing.is_empty() && !notes.contains("compute this model differently"), "{notes}");
    // transformers' class has two by default.
    for shared in [json!(2), Json::Null] {
        for to in [&MLX, &GGUF, &SAFETENSORS] {
            let (missing, _) = planned(shared.clone(), to);
            let parts = ["up", "down", "gate"];
            let all = parts.map(|part| format!("layers.0.ffn.shared_expert.{part}.weight"));
            assert_eq!(missing, all.join(" "));
        }
    }
}

/// Classes that only a publisher's code has: what its config leaves out has another default in mlx-lm's class.
#[test]
fn defaults_of_publishers_are_stated_for_mlx_lm() {
    let own = json!({
        "model_type": "minicpm", "architectures": ["MiniCPMForCausalLM"], "scale_emb": 12, "dim_model_base": 64, "scale_depth": 1.4,
    });
    let mut own = config(&own);
    own.as_object_mut().expect("an object").remove("rope_theta");
    let source = write(&llama(true), &own, "F32");
    let written = converted(source.path(), &ConvertOptions::new(&MLX)).expect("a directory");
    assert_eq!(written.config["rope_theta"].as_f64(), Some(1e4), "mlx-lm takes a million");
}

/// Transformers' class has numbers of its own where a file of its older form states a base alone; mlx-lm's reads the base.
#[test]
fn numbers_that_the_class_does_not_read_are_left_out_for_mlx_lm() {
    let own = json!({"model_type": "ministral3", "architectures": ["Ministral3ForCausalLM"]});
    let [mlx, _] = both(&llama(true), &own);
    let rope = mlx.config["rope_parameters"].as_object().expect("the class's numbers");
    assert_eq!(rope["rope_type"], json!("yarn"));
    assert_eq!(mlx.config["rope_theta"], rope["rope_theta"]);
    assert_ne!(rope["rope_theta"], json!(1e4));
    // This class takes the base, and its own numbers beside it.
    let own = json!({"model_type": "gpt_oss", "rope_theta": 100.0});
    let source = matrix(&own, "model.layers.0.self_attn.q_proj.weight");
    let model = Model::open(source.path()).expect("a model");
    let plan = ops::convert(&model, &ConvertOptions::new(&MLX)).expect("a plan");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("out");
    plan.run(&out, &WriteOptions::new().allow_incomplete(true)).expect("a directory");
    let written = Model::open(&out).expect("a model");
    let config = written.document("config.json").expect("a config");
    assert_eq!(config["rope_scaling"]["rope_type"], json!("yarn"));
    assert_eq!([&config["rope_theta"], &config["rope_scaling"]["rope_theta"]], [&json!(100.0); 2]);
}

#[test]
fn a_bias_that_mlx_lm_requires_is_missing() {
    let mut tensors = llama(true);
    for name in ["q", "k", "v"] {
        tensors.insert(format!("model.layers.0.self_attn.{name}_proj.bias"), (vec![WIDTH], 90));
    }
    let source = write(&tensors, &config(&json!({"attention_bias": true})), "F32");
    let refused = converted(source.path(), &ConvertOptions::new(&MLX)).err().expect("a fault");
    assert!(refused.to_string().contains("the output of attention has none"), "{refused}");
    converted(source.path(), &ConvertOptions::new(&SAFETENSORS)).expect("transformers adds zeros");
}
