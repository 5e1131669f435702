//! Models without some of their layers: keys and documents that say something of each layer lose what was
//! removed.
#![allow(clippy::cast_possible_truncation, reason = "the numbers are the test's own")]

use serde_json::{Value as Json, json};
use tempfile::TempDir;
use weighbridge::ops::{self, VerifyOptions};
use weighbridge::recipe::FileType;
use weighbridge::recipe::llama_cpp::LlamaOptions;
use weighbridge::{DType, Error, Model, OpenOptions, WriteOptions};

use crate::support::{Gguf, Kv, f32s};

const WIDTH: u64 = 64;

/// A model of LFM2: the layers without key heads are convolutions.
fn lfm2(heads: &[u32]) -> Vec<u8> {
    let mut file = Gguf::new().key("general.architecture", Kv::text("lfm2"));
    let numbers = [
        ("block_count", heads.len() as u32),
        ("context_length", 64),
        ("embedding_length", 64),
        ("feed_forward_length", 64),
        ("attention.head_count", 2),
        ("vocab_size", 8),
        ("shortconv.l_cache", 3),
    ];
    for (key, number) in numbers {
        file = file.key(format!("lfm2.{key}"), Kv::U32(number));
    }
    file = file
        .key(
            "lfm2.attention.head_count_kv",
            Kv::Array(4, heads.iter().map(|n| Kv::U32(*n)).collect()),
        )
        .key("lfm2.attention.layer_norm_rms_epsilon", Kv::F32(1e-5))
        .key("lfm2.rope.freq_base", Kv::F32(1e6))
        .key("tokenizer.ggml.model", Kv::text("none"));
    let mut names: Vec<(String, Vec<u64>)> =
        vec![("token_embd".into(), vec![8, WIDTH]), ("token_embd_norm".into(), vec![WIDTH])];
    for (layer, count) in heads.iter().enumerate() {
        let mut put =
            |name: &str, shape: &[u64]| names.push((format!("blk.{layer}.{name}"), shape.to_vec()));
        for name in ["attn_norm", "ffn_norm"] {
            put(name, &[WIDTH]);
        }
        for name in ["ffn_gate", "ffn_up", "ffn_down"] {
            put(name, &[WIDTH, WIDTH]);
        }
        if *count > 0 {
            for name in ["attn_q", "attn_k", "attn_v", "attn_output"] {
                put(name, &[WIDTH, WIDTH]);
            }
            put("attn_q_norm", &[32]);
            put("attn_k_norm", &[32]);
        } else {
            put("shortconv.conv", &[WIDTH, 3]);
            put("shortconv.in_proj", &[3 * WIDTH, WIDTH]);
            put("shortconv.out_proj", &[WIDTH, WIDTH]);
        }
    }
    for (name, shape) in names {
        let count: u64 = shape.iter().product();
        let values = vec![0.5; count as usize];
        file = file.tensor(format!("{name}.weight"), DType::F32, &shape, f32s(&values));
    }
    file.build()
}

fn quantized(bytes: Vec<u8>, removed: &[u64]) -> Result<(TempDir, Model), Error> {
    let model = OpenOptions::new().open_memory("m.gguf", bytes)?;
    let mut options = LlamaOptions::new(FileType::Q8_0);
    options.pruned = removed.iter().copied().collect();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("out.gguf");
    ops::quantize(&model, &options, None, &path)?.run(&path, &WriteOptions::new())?;
    let model = Model::open(&path)?;
    Ok((folder, model))
}

#[test]
fn arrays_lose_the_elements_of_removed_layers() {
    let source = lfm2(&[0, 0, 2, 0]);
    for (removed, left) in [(&[1][..], &[0, 2, 0][..]), (&[0, 3], &[0, 2]), (&[3], &[0, 0, 2])] {
        let (folder, model) = quantized(source.clone(), removed).expect("a file");
        let heads = model.metadata().array("lfm2.attention.head_count_kv").expect("an array");
        let heads: Vec<i128> = heads.integers().expect("integers").collect();
        assert_eq!(heads, left.iter().map(|n| i128::from(*n)).collect::<Vec<_>>());
        assert_eq!(model.metadata().u64("lfm2.block_count"), Some(left.len() as u64));
        let path = folder.path().join("out.gguf");
        let written = Model::open(&path).expect("a model");
        let found = ops::verify(&written, &VerifyOptions::new()).expect("a report");
        assert!(found.is_fine(), "{found:?}");
    }
}

/// A directory becomes a file that keeps its config.json: that too is of the remaining layers.
#[test]
fn the_kept_config_is_of_the_remaining_layers() {
    let (folder, _) = quantized(lfm2(&[0, 0, 2, 0]), &[]).expect("a file");
    let convert = |source: &std::path::Path, to| {
        let model = Model::open(source).expect("a model");
        let out = tempfile::tempdir().expect("a temporary folder");
        let options = ops::ConvertOptions::new(to);
        let plan = ops::convert(&model, &options).expect("a plan");
        plan.run(&out.path().join("out"), &WriteOptions::new()).expect("written");
        out
    };
    let hf = convert(&folder.path().join("out.gguf"), &weighbridge::container::SAFETENSORS);
    let path = hf.path().join("out/config.json");
    let text = std::fs::read(&path).expect("a file");
    let mut config: Json = serde_json::from_slice(&text).expect("JSON");
    config["num_key_value_heads"] = json!(2);
    config["custom_list"] = json!(["a", "b", "c", "d"]);
    std::fs::write(&path, config.to_string()).expect("a file");
    let model = Model::open(hf.path().join("out")).expect("a model");
    let mut options = LlamaOptions::new(FileType::F32);
    options.pruned = [1].into();
    let out = tempfile::tempdir().expect("a temporary folder");
    let file = out.path().join("out.gguf");
    let plan = ops::quantize(&model, &options, None, &file).expect("a plan");
    plan.run(&file, &WriteOptions::new()).expect("written");
    let back = convert(&file, &weighbridge::container::SAFETENSORS);
    let text = std::fs::read(back.path().join("out/config.json")).expect("a file");
    let config: Json = serde_json::from_slice(&text).expect("JSON");
    assert_eq!(config["num_hidden_layers"], json!(3));
    assert_eq!(config["custom_list"], json!(["a", "c", "d"]));
}

/// Layers of Gemma 3 attend to a window, but every sixth one.
#[test]
fn layers_that_would_change_their_kind_are_refused() {
    let file = |period: Option<u32>| {
        let mut file = Gguf::new().key("general.architecture", Kv::text("gemma3"));
        let numbers = [
            ("block_count", 12),
            ("context_length", 64),
            ("embedding_length", 64),
            ("feed_forward_length", 64),
            ("attention.head_count", 2),
            ("attention.head_count_kv", 2),
            ("attention.key_length", 32),
            ("attention.value_length", 32),
            ("attention.sliding_window", 16),
        ];
        for (key, number) in numbers {
            file = file.key(format!("gemma3.{key}"), Kv::U32(number));
        }
        if let Some(period) = period {
            file = file.key("gemma3.attention.sliding_window_pattern", Kv::U32(period));
        }
        file = file.key("gemma3.attention.layer_norm_rms_epsilon", Kv::F32(1e-5));
        file = file.tensor("token_embd.weight", DType::F32, &[8, 64], f32s(&[0.5; 512]));
        for layer in 0..12 {
            let name = format!("blk.{layer}.ffn_down.weight");
            file = file.tensor(&name, DType::F32, &[64, 64], f32s(&[0.5; 4096]));
        }
        file.build()
    };
    let plan = |bytes: Vec<u8>, removed: &[u64]| {
        let model = OpenOptions::new().open_memory("m.gguf", bytes).expect("a model");
        let mut options = LlamaOptions::new(FileType::Q8_0);
        options.pruned = removed.iter().copied().collect();
        ops::quantize(&model, &options, None, std::path::Path::new("x")).map(|_| ())
    };
    for period in [Some(6), None] {
        let error = plan(file(period), &[3]).expect_err("a refusal");
        assert_eq!(error.kind(), weighbridge::ErrorKind::Unsupported);
        assert!(
            error.to_string().contains("sliding_window_pattern") || period.is_none(),
            "{error}"
        );
        plan(file(period), &[0, 1, 2, 3, 4, 5]).expect("a whole period");
        plan(file(period), &[11]).expect("the last layer");
    }
}
