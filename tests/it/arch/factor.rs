//! Factors of the config, by which programs without such factors multiply the weights.

use serde_json::{Value as Json, json};
use tempfile::TempDir;
use weighbridge::container::{Container, GGUF, MLX, SAFETENSORS};
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::{DType, Model, WriteOptions};

use crate::support::{Safetensors, folder};

/// A model of one layer whose weights are all 1, in BF16.
fn falcon(tied: bool) -> TempDir {
    let config = json!({
        "architectures": ["FalconH1ForCausalLM"], "model_type": "falcon_h1", "vocab_size": 32,
        "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 16, "mamba_d_ssm": 32, "mamba_n_heads": 2, "mamba_d_head": 16,
        "mamba_d_state": 8, "mamba_n_groups": 1, "mamba_d_conv": 4, "mamba_rms_norm": false,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": tied,
        "attention_in_multiplier": 2.0, "attention_out_multiplier": 0.5, "key_multiplier": 0.25,
        "ssm_in_multiplier": 2.0, "ssm_out_multiplier": 0.125, "ssm_multipliers": [1.5, 2.5, 3.5, 4.5, 5.5],
        "mlp_multipliers": [3.0, 5.0], "embedding_multiplier": 8.0, "lm_head_multiplier": 0.375,
    });
    let layer: [(&str, &[u64]); 19] = [
        ("input_layernorm.weight", &[32]),
        ("pre_ff_layernorm.weight", &[32]),
        ("self_attn.q_proj.weight", &[32, 32]),
        ("self_attn.k_proj.weight", &[16, 32]),
        ("self_attn.v_proj.weight", &[16, 32]),
        ("self_attn.o_proj.weight", &[32, 32]),
        ("feed_forward.gate_proj.weight", &[64, 32]),
        ("feed_forward.up_proj.weight", &[64, 32]),
        ("feed_forward.down_proj.weight", &[32, 64]),
        ("mamba.in_proj.weight", &[82, 32]),
        ("mamba.conv1d.weight", &[48, 1, 4]),
        ("mamba.conv1d.bias", &[48]),
        ("mamba.dt_bias", &[2]),
        ("mamba.A_log", &[2]),
        ("mamba.D", &[2]),
        ("mamba.out_proj.weight", &[32, 32]),
        ("model.embed_tokens.weight", &[32, 32]),
        ("model.final_layernorm.weight", &[32]),
        ("lm_head.weight", &[32, 32]),
    ];
    let file = layer.into_iter().fold(Safetensors::new(), |file, (name, shape)| {
        let name = match name {
            "lm_head.weight" if tied => return file,
            name if name.starts_with("model.") || name.starts_with("lm_head.") => name.to_owned(),
            name => format!("model.layers.0.{name}"),
        };
        let count = shape.iter().product::<u64>() as usize;
        file.tensor(&name, "BF16", shape, [0x80, 0x3f].repeat(count))
    });
    folder(&[("config.json", config.to_string().into_bytes()), ("model.safetensors", file.build())])
}

fn converted(model: &Model, to: &'static Container, name: &str) -> (TempDir, Model, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    let plan =
        ops::convert(model, &ConvertOptions::new(to)).unwrap_or_else(|error| panic!("{error}"));
    plan.run(&path, &WriteOptions::new()).expect("written");
    let written = Model::open(&path).expect("a model");
    (folder, written, plan.notes.join("; "))
}

/// The values of a tensor, each once for a run of the same ones.
fn values(model: &Model, canonical: &str) -> Vec<f32> {
    let tensor = model.tensor(canonical).unwrap_or_else(|error| panic!("{error}"));
    let mut values = tensor.to_vec::<f32>().expect("values");
    values.dedup();
    values
}

#[test]
fn weights_are_multiplied_for_programs_without_factors() {
    for tied in [false, true] {
        let files = falcon(tied);
        let own = Model::open(files.path()).expect("a model");
        for (to, name) in [(&GGUF, "m.gguf"), (&MLX, "mlx")] {
            let (_folder, model, notes) = converted(&own, to, name);
            assert!(!notes.contains("multiplier"), "{notes}");
            for (canonical, expected) in [
                ("token_embedding.weight", vec![8.0]),
                ("output.weight", vec![0.375]),
                ("layers.0.attention.q.weight", vec![2.0]),
                ("layers.0.attention.k.weight", vec![0.5]),
                ("layers.0.attention.v.weight", vec![2.0]),
                ("layers.0.attention.output.weight", vec![0.5]),
                ("layers.0.ffn.gate.weight", vec![3.0]),
                ("layers.0.ffn.up.weight", vec![1.0]),
                ("layers.0.ffn.down.weight", vec![5.0]),
                ("layers.0.ssm.in.weight", vec![3.0, 5.0, 7.0, 9.0, 11.0]),
                ("layers.0.ssm.output.weight", vec![0.125]),
            ] {
                assert_eq!(values(&model, canonical), expected, "{name}: {canonical}");
                let dtype = model.tensor(canonical).and_then(|tensor| tensor.dtype());
                assert_eq!(dtype.expect("a dtype"), DType::BF16, "{name}: {canonical}");
            }
            // A second conversion changes nothing more.
            let (_folder, back, _) = converted(&model, &SAFETENSORS, "hf");
            assert_eq!(values(&back, "layers.0.ssm.in.weight"), [3.0, 5.0, 7.0, 9.0, 11.0]);
            let config = back.document("config.json").expect("a config").to_string();
            let config: Json = serde_json::from_str(&config).expect("JSON");
            for key in ["attention_in_multiplier", "key_multiplier", "lm_head_multiplier"] {
                let stated = config.get(key).and_then(Json::as_f64);
                assert_eq!(stated.unwrap_or(1.0), 1.0, "{name}: {key}");
            }
            assert_eq!(config["tie_word_embeddings"], false, "{name}");
        }
        // Between files with factors, nothing changes.
        let (_folder, copy, _) = converted(&own, &SAFETENSORS, "hf");
        assert_eq!(values(&copy, "layers.0.attention.k.weight"), [1.0]);
    }
}
