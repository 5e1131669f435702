//! Situations of public bug reports that were read, converted or described wrongly.

use crate::support::{
    Gguf, Kv, Safetensors, copy_of, f32s, fixture, folder, notes, put, sample, told,
};
use serde_json::{Value, json};
use weighbridge::adapter::Adapter;
use weighbridge::arch::Dialect;
use weighbridge::container::{GGUF, MLX, SAFETENSORS, Strictness};
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::recipe::FileType;
use weighbridge::recipe::llama_cpp::LlamaOptions;
use weighbridge::{DType, Model, OpenOptions, WriteOptions};

pub(crate) fn reconfigured(change: impl FnOnce(&mut Value)) -> tempfile::TempDir {
    let files = copy_of(sample("hf"));
    let text = std::fs::read_to_string(files.path().join("config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    change(&mut config);
    put(files.path(), "config.json", config.to_string());
    files
}

/// The sample with other tensors: each becomes those that the function returns.
pub(crate) fn rebuilt(
    change: impl Fn(&str, &[u64], Vec<u8>) -> Vec<(String, &'static str, Vec<u64>, Vec<u8>)>,
) -> tempfile::TempDir {
    let files = copy_of(sample("hf"));
    let model = Model::open(files.path()).unwrap();
    let file = model.stored_tensors().fold(Safetensors::new(), |file, tensor| {
        let bytes = f32s(&tensor.dequantize().unwrap());
        let tensors = change(tensor.name(), tensor.shape(), bytes);
        tensors.into_iter().fold(file, |file, (name, dtype, shape, bytes)| {
            file.tensor(&name, dtype, &shape, bytes)
        })
    });
    put(files.path(), "model.safetensors", file.build());
    files
}

pub(crate) fn converted(
    files: &std::path::Path,
    options: &ConvertOptions,
) -> Result<String, String> {
    let plan = ops::convert(&Model::open(files).unwrap(), options);
    plan.map(|plan| plan.notes.join("; ")).map_err(|error| told(&error))
}

pub(crate) fn faults(model: &Model, strictness: Strictness) -> String {
    ops::check_consistency(model, strictness).unwrap().faults.join("; ")
}

/// The metadata of the GGUF file that a directory becomes.
pub(crate) fn in_gguf(files: &std::path::Path) -> (tempfile::TempDir, Model) {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("m.gguf");
    let plan = ops::convert(&Model::open(files).unwrap(), &ConvertOptions::new(&GGUF)).unwrap();
    plan.run(&path, &weighbridge::WriteOptions::new()).unwrap();
    let model = Model::open(&path).unwrap();
    (folder, model)
}

/// The config of the safetensors directory that another directory becomes.
pub(crate) fn config_in_safetensors(files: &std::path::Path) -> Value {
    let out = tempfile::tempdir().unwrap();
    let plan = ops::convert(&Model::open(files).unwrap(), &ConvertOptions::new(&SAFETENSORS));
    plan.unwrap().run(&out.path().join("m"), &WriteOptions::new()).unwrap();
    serde_json::from_slice(&std::fs::read(out.path().join("m/config.json")).unwrap()).unwrap()
}

/// transformers divides by a linear factor of null, and derives that of YaRN.
#[test]
fn a_scaling_of_rotary_embeddings_without_a_factor() {
    let scaled = |scaling: Value| {
        reconfigured(|config| {
            config.as_object_mut().unwrap().remove("rope_parameters");
            config["rope_scaling"] = scaling;
        })
    };
    let files = scaled(json!({"rope_type": "linear", "factor": null}));
    let said = faults(&Model::open(files.path()).unwrap(), Strictness::Strict);
    assert!(said.contains("of type \"linear\" has no factor"), "{said}");
    let told = converted(files.path(), &ConvertOptions::new(&GGUF)).unwrap();
    assert!(!told.contains("rotary embeddings"), "{told}");

    let yarn = json!({"rope_type": "yarn", "factor": null, "original_max_position_embeddings": 64});
    let (_folder, model) = in_gguf(scaled(yarn).path());
    assert_eq!(model.metadata().f64("llama.rope.scaling.factor"), Some(4.0));

    let untyped = scaled(json!({"type": null, "factor": 2.0}));
    let (_folder, model) = in_gguf(untyped.path());
    assert!(model.metadata().get("llama.rope.scaling.factor").is_none());
}

#[test]
fn a_layer_without_the_bias_of_the_others_is_a_fault() {
    let files = rebuilt(|name, shape, bytes| {
        let mut all = vec![(name.to_owned(), "F32", shape.to_vec(), bytes)];
        if name == "model.layers.0.self_attn.q_proj.weight" {
            let bias = name.replace("weight", "bias");
            all.push((bias, "F32", vec![shape[0]], f32s(&vec![0.5; shape[0] as usize])));
        }
        all
    });
    let said = faults(&Model::open(files.path()).unwrap(), Strictness::Default);
    assert!(said.contains("layers.1.attention.q has no bias"), "{said}");
    let whole = Model::open(sample("hf")).unwrap();
    assert_eq!(faults(&whole, Strictness::Default), "");
}

/// MLX loads them as integers.
#[test]
fn floats_of_8_bits_are_widened_for_mlx() {
    let files = rebuilt(|name, shape, bytes| match shape.len() {
        2 => vec![(name.to_owned(), "F8_E4M3", shape.to_vec(), vec![0x38; bytes.len() / 4])],
        _ => vec![(name.to_owned(), "F32", shape.to_vec(), bytes)],
    });
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("m");
    let plan = ops::convert(&Model::open(files.path()).unwrap(), &ConvertOptions::new(&MLX));
    plan.unwrap().run(&path, &weighbridge::WriteOptions::new()).unwrap();
    let model = Model::open(&path).unwrap();
    let tensor = model.stored_tensor("model.layers.0.self_attn.q_proj.weight").unwrap();
    assert_ne!(tensor.dtype().unwrap(), DType::F8_E4M3);
    assert_eq!(tensor.dequantize().unwrap().first(), Some(&1.0));
}

#[test]
fn an_adapter_beside_a_model_is_not_the_model() {
    let adapter = Safetensors::new()
        .tensor(
            "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight",
            "F32",
            &[1, 256],
            f32s(&[0.1; 256]),
        )
        .tensor(
            "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight",
            "F32",
            &[256, 1],
            f32s(&[0.1; 256]),
        )
        .build();
    let config =
        json!({"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": ["q_proj"]});
    let files = copy_of(sample("hf"));
    let alone = tempfile::TempDir::new().unwrap();
    for place in [files.path(), alone.path()] {
        put(place, "adapter_model.safetensors", adapter.clone());
        put(place, "adapter_config.json", config.to_string());
        let model = Model::open(place).unwrap();
        let is_alone = place != files.path();
        assert_eq!(Adapter::of(&model).unwrap().is_some(), is_alone);
        assert_eq!(notes(&model).contains("beside the model, which is not applied"), !is_alone);
        // It has no config.json that could lack something.
        let said = ops::check_consistency(&model, Strictness::Default).unwrap().notes.join("; ");
        assert!(!said.contains("model_type"), "{said}");
        assert!(Adapter::open(place).is_ok());
    }
    assert!(converted(files.path(), &ConvertOptions::new(&GGUF)).is_ok());
}

#[test]
fn pieces_of_a_file_are_called_so() {
    let file = Gguf::new().key("general.architecture", Kv::text("llama")).build();
    for name in ["m.gguf-split-a", "m.gguf.part1of2", "m.safetensors.part-00"] {
        let files = folder(&[(name, file.clone())]);
        let said = told(&Model::open(files.path().join(name)).unwrap_err());
        assert!(said.contains("one piece of a file"), "{said}");
    }
}

#[test]
fn vectors_of_16_bits_are_no_vectors_of_llama_cpp() {
    let said = |dtype: DType, width: usize| {
        let key = |name: &str| format!("llama.{name}");
        let mut file = Gguf::new()
            .key("general.architecture", Kv::text("llama"))
            .key(key("attention.layer_norm_rms_epsilon"), Kv::F32(1e-5));
        for (name, count) in [
            ("context_length", 8),
            ("embedding_length", 4),
            ("block_count", 1),
            ("feed_forward_length", 4),
            ("attention.head_count", 1),
            ("vocab_size", 4),
        ] {
            file = file.key(key(name), Kv::U32(count));
        }
        for name in ["token_embd", "blk.0.attn_q", "blk.0.attn_k", "blk.0.attn_v"]
            .into_iter()
            .chain(["blk.0.attn_output", "blk.0.ffn_gate", "blk.0.ffn_up", "blk.0.ffn_down"])
        {
            file = file.tensor(format!("{name}.weight"), DType::F32, &[4, 4], f32s(&[0.5; 16]));
        }
        for name in ["output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"] {
            file = file.tensor(format!("{name}.weight"), dtype, &[4], vec![0; 4 * width]);
        }
        let model = OpenOptions::new().open_memory("m.gguf", file.build()).unwrap();
        let found = ops::check_consistency(&model, Strictness::Default).unwrap();
        assert!(found.faults.is_empty(), "{:?}", found.faults);
        found.notes.join("; ")
    };
    assert!(!said(DType::F32, 4).contains("F32 alone"));
    let narrow = said(DType::F16, 2);
    assert!(narrow.contains("2 more vectors: F16, but llama.cpp computes"), "{narrow}");
}

/// GGUF would hold the codes as `Q8_0`, which is not what the checkpoint has.
#[test]
fn a_checkpoint_is_called_quantized_in_its_own_dtype() {
    let files = rebuilt(|name, shape, bytes| {
        let (Some(module), [rows, columns]) = (name.strip_suffix("q_proj.weight"), shape) else {
            return vec![(name.to_owned(), "F32", shape.to_vec(), bytes)];
        };
        let (rows, columns) = (*rows, *columns);
        let groups = columns / 32;
        let array = |end: &str| format!("{module}q_proj.{end}");
        let codes = |rows: u64, columns: u64| vec![0; (rows * columns / 2) as usize];
        vec![
            (array("qweight"), "I32", vec![columns, rows / 8], codes(columns, rows)),
            (array("qzeros"), "I32", vec![groups, rows / 8], codes(groups, rows)),
            (array("scales"), "F16", vec![groups, rows], vec![0; (groups * rows * 2) as usize]),
        ]
    });
    let text = std::fs::read_to_string(files.path().join("config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    config["quantization_config"] =
        json!({"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": true});
    put(files.path(), "config.json", config.to_string());
    let options = LlamaOptions::new(FileType::Q4_0);
    let model = Model::open(files.path()).unwrap();
    let said = told(&ops::quantize(&model, &options, None, files.path()).unwrap_err());
    assert!(said.contains("already quantized as AWQ4"), "{said}");
}

/// The original name of the embedding.
#[test]
fn other_names_of_tensors_are_known() {
    for (model_type, name) in
        [("mamba", "backbone.embedding.weight"), ("nemotron_h", "backbone.embedding.weight")]
    {
        let file = Safetensors::new().tensor(name, "F32", &[2, 2], f32s(&[1.0; 4]));
        let config = json!({"model_type": model_type, "num_hidden_layers": 1}).to_string();
        let files =
            folder(&[("config.json", config.into_bytes()), ("model.safetensors", file.build())]);
        let model = Model::open(files.path()).unwrap();
        assert_eq!(model.resolution().unwrap().mapped.len(), 1, "{model_type}: {name}");
        let written = &model.tensors_in(Dialect::HuggingFace).unwrap().tensors[0];
        assert_eq!(written.name(), "backbone.embeddings.weight");
    }
}

/// The words of Meta's `params.json` in a `config.json`.
#[test]
fn a_config_in_other_words_is_no_loss() {
    let files = reconfigured(|config| {
        *config = json!({
            "model_type": "llama", "dim": 256, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2,
            "head_dim": 64, "hidden_dim": 512, "norm_eps": 1e-5, "vocab_size": 512,
        });
    });
    let options = ConvertOptions::new(&GGUF).allow_unloadable(true);
    let said = converted(files.path(), &options).unwrap();
    assert!(!said.contains("compute this model differently"), "{said}");
    let config = config_in_safetensors(files.path());
    assert_eq!((&config["hidden_size"], &config["num_hidden_layers"]), (&json!(256), &json!(2)));
}

/// GPT-NeoX Japanese has a bias in its last layer alone.
#[test]
fn a_bias_of_the_last_layer_alone_is_no_fault() {
    let files = rebuilt(|name, shape, bytes| {
        let mut all = vec![(name.to_owned(), "F32", shape.to_vec(), bytes)];
        if name == "model.layers.1.self_attn.q_proj.weight" {
            let bias = name.replace("weight", "bias");
            all.push((bias, "F32", vec![shape[0]], f32s(&vec![0.5; shape[0] as usize])));
        }
        all
    });
    assert_eq!(faults(&Model::open(files.path()).unwrap(), Strictness::Default), "");
}

/// Names that transformers' class does not load are read, and written under those that it does.
#[test]
fn names_of_wrappers_are_those_of_the_class_when_written() {
    let plain = Model::open(sample("hf")).unwrap();
    let held = |prefix: &'static str| move |name: &str| format!("{prefix}{name}");
    let within = |prefix: &'static str| {
        move |name: &str| name.replace("model.", "model.PREFIX.").replace("PREFIX", prefix)
    };
    type Renaming = Box<dyn Fn(&str) -> String>;
    let names: [(&str, Renaming); 10] = [
        ("every tensor name has \"model.\"", Box::new(held("model."))),
        ("every tensor name has \"llm.\"", Box::new(held("llm."))),
        ("every tensor name has \"student.\"", Box::new(held("student."))),
        ("every tensor name has \"a.b.\"", Box::new(held("a.b."))),
        (
            "model.embed_tokens.weight in place of language_model.",
            Box::new(held("language_model.")),
        ),
        ("model.embed_tokens.weight in place of model.lang", Box::new(within("language_model"))),
        ("model.embed_tokens.weight in place of model.text", Box::new(within("text_model"))),
        ("have \"layers.\" once more", Box::new(|name| name.replace("layers.", "layers.layers."))),
        (
            "_proj.weight in place of model.layers.0.",
            Box::new(|name| name.replace("_proj.weight", "_proj")),
        ),
        (
            "_proj.weight.weight, and 13 other names",
            Box::new(|name| name.replace("_proj.weight", "_proj.weight.weight")),
        ),
    ];
    for (said, rename) in names {
        let files =
            rebuilt(|name, shape, bytes| vec![(rename(name), "F32", shape.to_vec(), bytes)]);
        let model = Model::open(files.path()).unwrap();
        let resolution = model.resolution().unwrap();
        assert_eq!((resolution.mapped.len(), resolution.unknown.len()), (20, 0), "{said}");
        let names = |model: &Model, dialect| {
            let tensors = model.tensors_in(dialect).unwrap().tensors;
            let names = tensors.iter().map(|tensor| tensor.name().to_owned());
            names.collect::<std::collections::BTreeSet<_>>()
        };
        for dialect in [Dialect::HuggingFace, Dialect::Mlx, Dialect::Gguf] {
            assert_eq!(names(&model, dialect), names(&plain, dialect), "{said}");
        }
        let notes = ops::check_consistency(&model, Strictness::Default).unwrap().notes.join("; ");
        assert!(notes.contains(said), "{said}: {notes}");
        let notes = converted(files.path(), &ConvertOptions::new(&SAFETENSORS)).unwrap();
        assert!(notes.contains(said), "{said}: {notes}");
    }
}

/// transformers' class of gpt-oss has all experts of a layer in one tensor.
#[test]
fn experts_are_joined_for_a_class_that_has_them_joined() {
    let mut file = Safetensors::new();
    for expert in 0..2u8 {
        for (number, (part, shape)) in
            [("gate_proj", [3, 4]), ("up_proj", [3, 4]), ("down_proj", [4, 3])]
                .into_iter()
                .enumerate()
        {
            let name = format!("model.layers.0.mlp.experts.{expert}.{part}.weight");
            let start = f32::from(expert) * 100.0 + number as f32 * 1000.0;
            let values: Vec<f32> = (0..12u8).map(|n| start + f32::from(n)).collect();
            file = file.tensor(&name, "F32", &shape, f32s(&values));
            let values = values.get(..shape[0] as usize).unwrap();
            let name = name.replace("weight", "bias");
            file = file.tensor(&name, "F32", &shape[..1], f32s(values));
        }
    }
    let config = json!({
        "model_type": "gpt_oss", "num_hidden_layers": 1, "hidden_size": 4, "intermediate_size": 3, "head_dim": 4,
        "num_attention_heads": 1, "num_key_value_heads": 1, "vocab_size": 8, "num_local_experts": 2,
        "num_experts_per_tok": 1, "max_position_embeddings": 16,
    });
    let config = config.to_string();
    let files =
        folder(&[("config.json", config.into_bytes()), ("model.safetensors", file.build())]);
    let model = Model::open(files.path()).unwrap();
    let tensors = model.tensors_in(Dialect::HuggingFace).unwrap().tensors;
    let shapes: Vec<_> =
        tensors.iter().map(|tensor| (tensor.name().to_owned(), tensor.shape().to_vec())).collect();
    let shape = |part: &str| {
        let name = format!("model.layers.0.mlp.experts.{part}");
        shapes.iter().find(|(other, _)| *other == name).map(|(_, shape)| shape.as_slice())
    };
    assert_eq!(shapes.len(), 4, "{shapes:?}");
    assert_eq!(shape("gate_up_proj"), Some(&[2, 4, 6][..]));
    assert_eq!(shape("down_proj"), Some(&[2, 3, 4][..]));
    assert_eq!(shape("down_proj_bias"), Some(&[2, 4][..]));
    // Columns of gate and up alternate, and so do their biases.
    let values = |end: &str| {
        let tensor = tensors.iter().find(|tensor| tensor.name().ends_with(end)).unwrap();
        tensor.to_vec::<f32>().unwrap()
    };
    assert_eq!(values("gate_up_proj")[..6], [0.0, 1000.0, 4.0, 1004.0, 8.0, 1008.0]);
    let biases =
        [0.0, 1000.0, 1.0, 1001.0, 2.0, 1002.0, 100.0, 1100.0, 101.0, 1101.0, 102.0, 1102.0];
    assert_eq!(values("gate_up_proj_bias"), biases);
    let notes = ops::check_consistency(&model, Strictness::Default).unwrap().notes.join("; ");
    assert!(notes.contains("and ignores 12 such tensors"), "{notes}");
}

/// Mistral's own files state a window, which only one of transformers' two classes has, and llama.cpp's neither.
#[test]
fn the_window_of_mistral_s_own_files() {
    let files = rebuilt(|name, shape, bytes| {
        let name = name.strip_prefix("model.").unwrap_or(name);
        let name = [
            ("embed_tokens.", "tok_embeddings."),
            ("lm_head.", "output."),
            ("self_attn.", "attention."),
            ("q_proj", "wq"),
            ("k_proj", "wk"),
            ("v_proj", "wv"),
            ("o_proj", "wo"),
            ("mlp.gate_proj", "feed_forward.w1"),
            ("mlp.up_proj", "feed_forward.w3"),
            ("mlp.down_proj", "feed_forward.w2"),
            ("input_layernorm", "attention_norm"),
            ("post_attention_layernorm", "ffn_norm"),
        ]
        .iter()
        .fold(name.to_owned(), |name, (from, to)| name.replace(from, to));
        vec![(name, "F32", shape.to_vec(), bytes)]
    });
    std::fs::remove_file(files.path().join("config.json")).unwrap();
    let config = Model::open(sample("hf")).unwrap();
    let config = config.config().unwrap();
    let params = json!({
        "dim": config.dim.value, "n_layers": config.n_layers.value, "n_heads": config.n_heads.value,
        "n_kv_heads": config.n_kv_heads.value, "head_dim": config.head_dim.value, "hidden_dim": 512,
        "norm_eps": 1e-5, "vocab_size": 512, "sliding_window": 8, "max_position_embeddings": 64,
    });
    put(files.path(), "params.json", params.to_string());
    let said = converted(files.path(), &ConvertOptions::new(&GGUF)).unwrap();
    assert!(said.contains("sliding_window: 8 in params.json, not stated in GGUF"), "{said}");
    let config = config_in_safetensors(files.path());
    assert_eq!((&config["model_type"], &config["sliding_window"]), (&json!("mistral"), &json!(8)));
}

/// The same names are right where the language model is part of another one.
#[test]
fn names_of_a_part_stay() {
    let name = "language_model.model.norm.weight";
    let file = Safetensors::new().tensor(name, "F32", &[2], f32s(&[1.0; 2])).build();
    for (is_part, written) in [(true, name), (false, "model.norm.weight")] {
        let text = json!({"model_type": "llama", "num_hidden_layers": 1});
        let config =
            if is_part { json!({"model_type": "llava", "text_config": text}) } else { text };
        let config = config.to_string().into_bytes();
        let files = folder(&[("config.json", config), ("model.safetensors", file.clone())]);
        let tensors = Model::open(files.path()).unwrap().tensors_in(Dialect::HuggingFace).unwrap();
        assert_eq!(tensors.tensors[0].name(), written);
    }
}

/// A decoded model with the config of its quantized form.
#[test]
fn a_quantization_that_no_tensor_has_is_left_out() {
    for (stated, named) in [
        (json!({"group_size": 64, "bits": 4}), "an unnamed scheme"),
        (json!({"quant_method": "bitsandbytes", "load_in_4bit": true}), "bitsandbytes"),
    ] {
        let files = reconfigured(|config| config["quantization_config"] = stated.clone());
        let model = Model::open(files.path()).unwrap();
        assert!(notes(&model).contains("but no tensor is quantized"), "{}", notes(&model));
        let out = tempfile::tempdir().unwrap();
        let plan = ops::convert(&model, &ConvertOptions::new(&SAFETENSORS)).unwrap();
        let said = plan.notes.join("; ");
        assert!(said.contains("the quantization is left out") && said.contains(named), "{said}");
        plan.run(&out.path().join("m"), &weighbridge::WriteOptions::new()).unwrap();
        let written = Model::open(out.path().join("m")).unwrap();
        assert_eq!(written.document("config.json").unwrap().get("quantization_config"), None);
    }
    // Weights that are quantized as they run keep it.
    let online = json!({"quant_method": "bitnet", "quantization_mode": "online"});
    let files = reconfigured(|config| config["quantization_config"] = online);
    assert!(!notes(&Model::open(files.path()).unwrap()).contains("no tensor is quantized"));
}

#[test]
fn a_tokenizer_without_its_rules_of_splitting_is_noted() {
    let file = |pre: Option<&str>| {
        let file = Gguf::new()
            .key("general.architecture", Kv::text("llama"))
            .key("tokenizer.ggml.model", Kv::text("gpt2"))
            .key("tokenizer.ggml.merges", Kv::texts(&["a b"]));
        let file =
            pre.into_iter().fold(file, |file, pre| file.key("tokenizer.ggml.pre", Kv::text(pre)));
        notes(&OpenOptions::new().open_memory("m.gguf", file.build()).unwrap())
    };
    assert!(file(None).contains("no tokenizer.ggml.pre"), "{}", file(None));
    assert!(!file(Some("llama-bpe")).contains("tokenizer.ggml.pre"));
}

#[cfg(unix)]
#[test]
fn a_link_to_a_missing_blob_is_called_so() {
    let files = copy_of(sample("hf"));
    let path = files.path().join("model.safetensors");
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("../../blobs/gone", &path).unwrap();
    let error = Model::open(files.path()).unwrap_err();
    assert!(
        error.to_string().contains("a link to ../../blobs/gone, which does not exist"),
        "{error}"
    );
    assert!(error.advice().is_some_and(|advice| advice.contains("pull the model again")));
}

/// mlx-lm has one list of factors for prompts of any length.
#[test]
fn factors_for_long_prompts_are_noted_for_mlx_lm() {
    let ones = vec![1.0; 32];
    let rope = json!({"type": "longrope", "rope_type": "longrope", "rope_theta": 10000.0,
        "short_factor": ones, "long_factor": vec![2.0; 32], "original_max_position_embeddings": 64});
    let files = reconfigured(|config| {
        config["rope_scaling"] = rope.clone();
        config["rope_parameters"] = rope;
        config["original_max_position_embeddings"] = json!(64);
    });
    let said = converted(files.path(), &ConvertOptions::new(&MLX)).unwrap();
    assert!(said.contains("applies the factors for long prompts to short ones too"), "{said}");
    let said = converted(&sample("hf"), &ConvertOptions::new(&MLX)).unwrap();
    assert!(!said.contains("long prompts"), "{said}");
}

/// Whisper's GGUF files have no keys of llama.cpp's, which its rules for dtypes need.
#[test]
fn whisper_in_gguf_is_not_quantized_for_a_true_reason() {
    let options = LlamaOptions::new(FileType::from_name("Q5_0").unwrap());
    for name in ["whisper", "own"] {
        let file = Gguf::new().key("general.architecture", Kv::text(name));
        let files = folder(&[("m.gguf", file.build())]);
        let model = Model::open(files.path().join("m.gguf")).unwrap();
        let error = ops::quantize(&model, &options, None, files.path()).unwrap_err();
        let fault = format!("llama.cpp runs no models of the architecture {name}");
        assert!(told(&error).contains(&fault), "{error}");
    }
}

/// Kernels of convolutions have rows of three values, which are no blocks.
#[test]
fn whisper_in_blocks_keeps_its_kernels() {
    let Some(path) = fixture("hf/whisper-f32") else { return };
    let options = ConvertOptions::new(&GGUF).dtype(DType::Q8_0);
    let plan = ops::convert(&Model::open(path).unwrap(), &options).unwrap();
    let dtype = |name: &str| {
        let mut tensors = plan.tensors.iter();
        tensors.find(|tensor| tensor.name == name).unwrap_or_else(|| panic!("{name}")).dtype
    };
    assert_eq!(dtype("encoder.conv1.weight"), DType::F32);
    assert_eq!(dtype("encoder.blocks.0.mlp.0.weight"), DType::Q8_0);
}

/// Mamba-Codestral as Mistral published it.
#[test]
fn a_params_json_of_another_kind_of_model_is_named() {
    let params = json!({"dim": 8, "n_layers": 1, "vocab_size": 4, "model_type": "mamba"});
    let file =
        Safetensors::new().tensor("backbone.embedding.weight", "F32", &[4, 8], f32s(&[1.0; 32]));
    let files = folder(&[("consolidated.safetensors", file.build())]);
    put(files.path(), "params.json", params.to_string());
    for container in [&GGUF, &MLX, &SAFETENSORS] {
        let said = converted(files.path(), &ConvertOptions::new(container)).unwrap_err();
        assert!(said.contains("the names with which params.json is read"), "{said}");
    }
}

/// ChatGLM and GLM 4 in the names of the classes that their repositories contain.
#[test]
fn published_names_of_chatglm() {
    let config = json!({
        "model_type": "chatglm", "architectures": ["ChatGLMModel"], "add_bias_linear": false, "add_qkv_bias": true,
        "ffn_hidden_size": 48, "hidden_size": 32, "kv_channels": 8, "layernorm_epsilon": 1.5625e-7,
        "multi_query_attention": true, "multi_query_group_num": 2, "num_attention_heads": 4, "num_layers": 1,
        "padded_vocab_size": 40, "rmsnorm": true, "rope_ratio": 500, "seq_length": 256, "tie_word_embeddings": false,
        "post_layer_norm": true, "apply_residual_connection_post_layernorm": false, "original_rope": true,
    });
    let layer = "transformer.encoder.layers.0";
    let mut file = Safetensors::new();
    for (start, (name, shape)) in [
        ("transformer.embedding.word_embeddings.weight".to_owned(), vec![40u64, 32]),
        ("transformer.encoder.final_layernorm.weight".to_owned(), vec![32]),
        ("transformer.output_layer.weight".to_owned(), vec![40, 32]),
        ("transformer.rotary_pos_emb.inv_freq".to_owned(), vec![2]),
        (format!("{layer}.input_layernorm.weight"), vec![32]),
        (format!("{layer}.post_attention_layernorm.weight"), vec![32]),
        (format!("{layer}.self_attention.query_key_value.weight"), vec![64, 32]),
        (format!("{layer}.self_attention.query_key_value.bias"), vec![64]),
        (format!("{layer}.self_attention.dense.weight"), vec![32, 32]),
        (format!("{layer}.mlp.dense_h_to_4h.weight"), vec![96, 32]),
        (format!("{layer}.mlp.dense_4h_to_h.weight"), vec![32, 48]),
    ]
    .into_iter()
    .enumerate()
    {
        let count = shape.iter().product::<u64>() as usize;
        let values: Vec<f32> = (0..count).map(|n| (n + start) as f32).collect();
        file = file.tensor(&name, "F32", &shape, f32s(&values));
    }
    let files = folder(&[
        ("config.json", config.to_string().into_bytes()),
        ("model.safetensors", file.build()),
    ]);
    let model = Model::open(files.path()).expect("a model");
    assert!(model.resolution().expect("names").unknown.is_empty());
    let values = |model: &Model, name: &str| -> Vec<f32> {
        model.tensor(name).unwrap_or_else(|error| panic!("{error}")).to_vec().expect("values")
    };
    let fused = |name: &str| {
        let tensor = model.stored_tensor(&format!("{layer}.{name}")).expect("a tensor");
        tensor.to_vec::<f32>().expect("values")
    };
    let (matrix, bias) = (
        fused("self_attention.query_key_value.weight"),
        fused("self_attention.query_key_value.bias"),
    );
    let notes = ops::convert(&model, &ConvertOptions::new(&MLX)).expect("a plan").notes.concat();
    assert!(notes.contains("its class of glm does not read rope.partial_rotary_factor"), "{notes}");
    for to in [&GGUF, &SAFETENSORS] {
        let out = tempfile::tempdir().expect("a folder");
        let path = out.path().join(if *to == GGUF { "m.gguf" } else { "m" });
        let plan = ops::convert(&model, &ConvertOptions::new(to))
            .unwrap_or_else(|error| panic!("{error}"));
        plan.run(&path, &WriteOptions::new()).expect("written");
        let back = Model::open(&path).expect("a model");
        let config = back.config().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((config.rope_theta.value, config.n_kv_heads.value), (5e6, 2));
        assert_eq!(config.rope.dimension_count.as_ref().map(|field| field.value), Some(4));
        let parts = [("q", 0..32), ("k", 32..48), ("v", 48..64)];
        for (part, rows) in parts {
            let own = values(&back, &format!("layers.0.attention.{part}.bias"));
            assert_eq!(own, bias[rows.clone()], "{part}");
            let own = values(&back, &format!("layers.0.attention.{part}.weight"));
            assert_eq!(own, matrix[rows.start * 32..rows.end * 32], "{part}");
        }
        let (gate, up) =
            (values(&back, "layers.0.ffn.gate.weight"), values(&back, "layers.0.ffn.up.weight"));
        assert_eq!([gate, up].concat(), fused("mlp.dense_h_to_4h.weight"));
        if *to == SAFETENSORS {
            assert!(back.stored_tensor("model.layers.0.self_attn.q_proj.weight").is_ok());
            let document = back.document("config.json").expect("a config");
            assert_eq!(document.get("model_type").and_then(|name| name.as_str()), Some("glm"));
        }
    }
}

/// transformers' decoders attend to later positions if the config says so, and llama.cpp does by one key.
#[test]
fn a_decoder_that_is_not_causal() {
    let files = reconfigured(|config| config["is_causal"] = json!(false));
    let (_folder, model) = in_gguf(files.path());
    let key = model.metadata().get("llama.attention.causal");
    assert_eq!(key, Some(weighbridge::metadata::Value::Bool(false)));
    let (_folder, model) = in_gguf(sample("hf").as_ref());
    assert_eq!(model.metadata().get("llama.attention.causal"), None);
}

/// The length that YaRN starts from is that of the model, if there is no other; mlx-lm takes 4096.
#[test]
fn a_yarn_without_the_length_of_its_training() {
    let scaled = |length: Option<u32>| {
        reconfigured(|config| {
            config.as_object_mut().unwrap().remove("rope_parameters");
            config["rope_scaling"] = json!({"rope_type": "yarn", "factor": 2.0});
            if let Some(length) = length {
                config["rope_scaling"]["original_max_position_embeddings"] = json!(length);
            }
        })
    };
    let (_folder, model) = in_gguf(scaled(None).path());
    let key = |key: &str| model.metadata().get(key).and_then(|value| value.to_u64());
    let length = key("llama.context_length");
    assert!(length.is_some() && key("llama.rope.scaling.original_context_length") == length);
    let noted = |length| converted(scaled(length).path(), &ConvertOptions::new(&MLX)).unwrap();
    assert!(noted(None).contains("takes 4096"), "{}", noted(None));
    assert!(!noted(Some(128)).contains("takes 4096"), "{}", noted(Some(128)));
}

/// The heads of EAGLE have the config of the model that they are for.
#[test]
fn draft_models_are_called_so() {
    let draft =
        |first: &str, config: Value| {
            let file = Safetensors::new()
                .tensor("fc.weight", "F32", &[4, 8], f32s(&[0.5; 32]))
                .tensor(&format!("{first}mlp.up_proj.weight"), "F32", &[8, 4], f32s(&[0.5; 32]));
            folder(&[
                ("model.safetensors", file.build()),
                ("config.json", config.to_string().into_bytes()),
            ])
        };
    let text = std::fs::read_to_string(sample("hf").join("config.json")).unwrap();
    let llama: Value = serde_json::from_str(&text).unwrap();
    for (first, config) in
        [("layers.0.", llama), ("midlayer.", json!({"speculators_model_type": "eagle3"}))]
    {
        let files = draft(first, config);
        let model = Model::open(files.path()).unwrap();
        assert_eq!(faults(&model, Strictness::Default), "");
        let said = converted(files.path(), &ConvertOptions::new(&GGUF)).unwrap_err();
        assert!(said.contains("the draft model of EAGLE"), "{said}");
        converted(files.path(), &ConvertOptions::new(&SAFETENSORS)).unwrap();
        let said = converted(files.path(), &ConvertOptions::new(&MLX)).unwrap();
        assert!(said.contains("the draft model of EAGLE"), "{said}");
    }
}

/// LLaVA as its authors publish it has the config of the text model, without a `text_config`.
#[test]
fn mlx_lm_requires_a_text_config_of_some_classes() {
    let files = reconfigured(|config| config["model_type"] = "llava".into());
    let mlx = ConvertOptions::new(&MLX);
    let said = converted(files.path(), &mlx).unwrap_err();
    assert!(said.contains("mlx-lm's class of llava requires text_config"), "{said}");
    assert!(converted(files.path(), &mlx.allow_unloadable(true)).is_ok());
}

/// The class has eight rows for images after those of the vocabulary, which the output matrix lacks.
#[test]
fn llama_3_2_with_images_has_more_embeddings() {
    let files = rebuilt(|name, shape, bytes| {
        let name = format!("language_model.{name}");
        match name.ends_with("embed_tokens.weight") {
            true => {
                let more = [bytes.clone(), bytes[..8 * shape[1] as usize * 4].to_vec()].concat();
                let head =
                    ("language_model.lm_head.weight".to_owned(), "F32", shape.to_vec(), bytes);
                vec![(name, "F32", vec![shape[0] + 8, shape[1]], more), head]
            }
            false => vec![(name, "F32", shape.to_vec(), bytes)],
        }
    });
    let text = std::fs::read_to_string(files.path().join("config.json")).unwrap();
    let mut inner: Value = serde_json::from_str(&text).unwrap();
    inner["model_type"] = "mllama_text_model".into();
    inner["tie_word_embeddings"] = false.into();
    let tokens = inner["vocab_size"].clone();
    let config = json!({"model_type": "mllama", "text_config": inner, "vision_config": {}});
    put(files.path(), "config.json", config.to_string());
    let model = Model::open(files.path()).unwrap();
    assert_eq!(faults(&model, Strictness::Default), "");
    assert_eq!(model.config().unwrap().vocab_size.as_ref().unwrap().value, tokens);
    assert_eq!(config_in_safetensors(files.path())["text_config"]["vocab_size"], tokens);
}

/// LLM2Vec and NVIDIA make embedders of decoders; only their class says that they have no mask.
#[test]
fn classes_without_a_mask_are_not_causal() {
    for (class, model_type, causal) in [
        ("LlamaForCausalLM", "llama", None),
        ("LlamaBiModel", "llama", Some(false)),
        ("LlamaEncoderModel", "llama", Some(false)),
        ("LlamaBidirectionalModel", "llama_bidirec", Some(false)),
        ("Ministral3BidirectionalModel", "ministral3_bidirec", Some(false)),
    ] {
        let files = reconfigured(|config| {
            config["architectures"] = json!([class]);
            config["model_type"] = model_type.into();
            if class.starts_with("Ministral3") {
                config["rope_parameters"] = json!({
                    "rope_type": "yarn", "rope_theta": 1e4, "factor": 16.0, "beta_fast": 32.0, "beta_slow": 1.0,
                    "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 64,
                    "llama_4_scaling_beta": 0.1,
                });
            }
        });
        let (_folder, model) = in_gguf(files.path());
        let name = model.metadata().str("general.architecture").unwrap();
        assert_eq!(name == "llama-embed", model_type == "llama_bidirec", "{name}");
        let mlx = ConvertOptions::new(&MLX).allow_unloadable(true);
        let noted = converted(files.path(), &mlx).unwrap();
        let differs = causal.is_some() && model_type == "llama";
        assert_eq!(noted.contains("has causal attention"), differs, "{noted}");
        let found = model.metadata().get(&format!("{name}.attention.causal"));
        assert_eq!(found.and_then(|value| value.to_bool()), causal, "{class}");
    }
}

#[test]
fn adapters_of_diffusion_models_are_called_so() {
    for name in [
        "lora_unet_down_blocks_0_attentions_0_to_q.lora_down.weight",
        "transformer.transformer_blocks.0.attn.to_q.lora_A.weight",
        "unet.down_blocks.0.attentions.0.attn1.processor.to_q_lora.down.weight",
    ] {
        let file = Safetensors::new().tensor(name, "F32", &[4, 8], f32s(&[0.0; 32]));
        let files = folder(&[("lora.safetensors", file.build())]);
        let said = converted(&files.path().join("lora.safetensors"), &ConvertOptions::new(&GGUF));
        let said = said.unwrap_err();
        assert!(said.contains("a LoRA adapter of a diffusion model"), "{said}");
        let opened = weighbridge::adapter::Adapter::open(files.path().join("lora.safetensors"));
        let said = opened.unwrap_err().to_string();
        assert!(said.contains("a LoRA adapter of a diffusion model"), "{said}");
    }
}
