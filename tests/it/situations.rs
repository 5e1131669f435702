//! Further situations of public bug reports: models whose files contradict each other, or state something in one place alone.

use crate::public_reports::{
    config_in_safetensors, converted, faults, in_gguf, rebuilt, reconfigured,
};
use crate::support::{Gguf, Kv, Safetensors, f32s, folder};
use serde_json::{Value, json};
use weighbridge::container::{GGUF, MLX, SAFETENSORS, Strictness};
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::{DType, Model, OpenOptions, WriteOptions};

fn noted(model: &Model) -> String {
    ops::check_consistency(model, Strictness::Default).unwrap().notes.join("; ")
}

/// The keys of this library hold the config; files of other programs lack them.
#[test]
fn a_gguf_file_of_another_program_without_a_mask() {
    let files = reconfigured(|config| config["is_causal"] = json!(false));
    let target = tempfile::tempdir().unwrap();
    let path = target.path().join("m.gguf");
    let options = ConvertOptions::new(&GGUF).extra_keys(false);
    let plan = ops::convert(&Model::open(files.path()).unwrap(), &options).unwrap();
    plan.run(&path, &WriteOptions::new()).unwrap();
    assert_eq!(config_in_safetensors(&path)["is_causal"], false);
    let told = converted(&path, &ConvertOptions::new(&MLX)).unwrap();
    assert!(told.contains("has causal attention (llama.attention.causal says"), "{told}");
    let (_folder, causal) = in_gguf(crate::support::sample("hf").as_ref());
    assert!(config_in_safetensors(causal.path()).get("is_causal").is_none());
}

/// Nemotron-H with a layer of each kind: state spaces, attention and a network.
fn nemotron_h(pattern: &str) -> tempfile::TempDir {
    let config = json!({
        "model_type": "nemotron_h", "architectures": ["NemotronHForCausalLM"], "hidden_size": 8,
        "num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 4,
        "intermediate_size": 16, "mamba_num_heads": 2, "mamba_head_dim": 8, "ssm_state_size": 4,
        "n_groups": 1, "conv_kernel": 4, "expand": 2, "vocab_size": 4, "max_position_embeddings": 32,
        "layer_norm_epsilon": 1e-5, "mlp_hidden_act": "relu2", "tie_word_embeddings": false,
        "num_nextn_predict_layers": 1, "hybrid_override_pattern": pattern,
    });
    let tensors: &[(&str, &[u64])] = &[
        ("backbone.embeddings.weight", &[4, 8]),
        ("backbone.norm_f.weight", &[8]),
        ("lm_head.weight", &[4, 8]),
        ("backbone.layers.0.norm.weight", &[8]),
        ("backbone.layers.0.mixer.A_log", &[2]),
        ("backbone.layers.0.mixer.D", &[2]),
        ("backbone.layers.0.mixer.dt_bias", &[2]),
        ("backbone.layers.0.mixer.conv1d.weight", &[24, 1, 4]),
        ("backbone.layers.0.mixer.conv1d.bias", &[24]),
        ("backbone.layers.0.mixer.in_proj.weight", &[42, 8]),
        ("backbone.layers.0.mixer.norm.weight", &[16]),
        ("backbone.layers.0.mixer.out_proj.weight", &[8, 16]),
        ("backbone.layers.1.norm.weight", &[8]),
        ("backbone.layers.1.mixer.q_proj.weight", &[8, 8]),
        ("backbone.layers.1.mixer.k_proj.weight", &[8, 8]),
        ("backbone.layers.1.mixer.v_proj.weight", &[8, 8]),
        ("backbone.layers.1.mixer.o_proj.weight", &[8, 8]),
        ("backbone.layers.2.norm.weight", &[8]),
        ("backbone.layers.2.mixer.up_proj.weight", &[16, 8]),
        ("backbone.layers.2.mixer.down_proj.weight", &[8, 16]),
    ];
    let file = tensors.iter().fold(Safetensors::new(), |file, (name, shape)| {
        let count = shape.iter().product::<u64>() as usize;
        file.tensor(name, "F32", shape, f32s(&vec![0.5; count]))
    });
    folder(&[("model.safetensors", file.build()), ("config.json", config.to_string().into_bytes())])
}

/// GGUF counts the layers that predict further tokens, and config.json does not.
#[test]
fn layers_for_further_tokens_are_not_among_those_of_config_json() {
    let files = nemotron_h("M*-");
    assert_eq!(faults(&Model::open(files.path()).unwrap(), Strictness::Strict), "");
    let told = converted(files.path(), &ConvertOptions::new(&GGUF)).unwrap();
    assert!(!told.contains("n_next_token_layers"), "{told}");
    let (_folder, model) = in_gguf(files.path());
    let list = model.metadata().get("nemotron_h.attention.head_count_kv").unwrap();
    assert_eq!(list.to_array().unwrap().len(), 3);
}

#[test]
fn lists_of_layers_that_do_not_fit_the_layers() {
    let told = |pattern: &str| {
        let files = nemotron_h(pattern);
        let said = faults(&Model::open(files.path()).unwrap(), Strictness::Default);
        // A conversion says it too.
        let noted = converted(files.path(), &ConvertOptions::new(&MLX).allow_unloadable(true));
        assert!(noted.unwrap().contains(&said), "{said}");
        said
    };
    let longer = told("M*-M");
    assert!(longer.contains("hybrid_override_pattern in config.json has 4 entries"), "{longer}");
    assert!(longer.contains("the model has 3 layers"), "{longer}");
    let other = told("MM-");
    assert!(other.contains("layers.1 is linear_attention"), "{other}");
    assert!(other.contains("but lacks ssm.") && other.contains("which layers.0 has"), "{other}");

    let files = reconfigured(|config| config["layer_types"] = json!(["full_attention"]));
    let said = faults(&Model::open(files.path()).unwrap(), Strictness::Default);
    assert!(said.contains("layer_types in config.json has 1 entries"), "{said}");
}

/// bitsandbytes' arrays state the scheme of their weight.
#[test]
fn a_single_file_of_bitsandbytes() {
    let state = br#"{"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [4, 32]}"#;
    let values: Vec<f32> = (0..16).map(|n| n as f32 / 16.0).collect();
    let file = Safetensors::new()
        .tensor("blocks.0.weight", "U8", &[64, 1], vec![0x21; 64])
        .tensor("blocks.0.weight.absmax", "F32", &[2], f32s(&[16.0, 32.0]))
        .tensor("blocks.0.weight.quant_map", "F32", &[16], f32s(&values))
        .tensor(
            "blocks.0.weight.quant_state.bitsandbytes__nf4",
            "U8",
            &[state.len() as u64],
            state.to_vec(),
        );
    let files = folder(&[("unet.safetensors", file.build())]);
    let model = Model::open(files.path().join("unet.safetensors")).unwrap();
    let tensor = model.stored_tensor("blocks.0.weight").unwrap();
    assert_eq!(tensor.dtype().unwrap(), DType::BNB_NF4);
    assert_eq!(tensor.shape(), [4, 32]);
    assert_eq!(tensor.dequantize().unwrap()[..2], [2.0, 1.0]);
    assert_eq!(tensor.dequantize().unwrap()[64..66], [4.0, 2.0]);
    assert_eq!(faults(&model, Strictness::Default), "");
    // Of a directory, transformers would not read them so.
    std::fs::write(files.path().join("config.json"), r#"{"model_type": "llama"}"#).unwrap();
    let said = noted(&Model::open(files.path()).unwrap());
    assert!(said.contains("bitsandbytes' own arrays alone"), "{said}");
}

/// Text-only trainings keep the config of the whole model.
#[test]
fn a_vision_config_without_a_vision_model() {
    let files = reconfigured(|config| {
        let mut text = config.clone();
        text["model_type"] = "mistral".into();
        *config = json!({
            "model_type": "mistral3", "architectures": ["Mistral3ForConditionalGeneration"],
            "text_config": text, "vision_config": {"model_type": "pixtral", "hidden_size": 8},
        });
    });
    let model = Model::open(files.path()).unwrap();
    let said = noted(&model);
    assert!(said.contains("no tensor of such a model is stored"), "{said}");
    assert_eq!(ops::summarize(&model).capabilities, ["completion"]);
    let told = converted(files.path(), &ConvertOptions::new(&GGUF)).unwrap();
    assert!(told.contains("config.json has vision_config and the class"), "{told}");
}

/// The sample as the language model of LLaVA, with a projector.
fn llava(change: impl FnOnce(&mut Value), has_bias: bool) -> tempfile::TempDir {
    let files = rebuilt(|name, shape, bytes| {
        let mut out = vec![(format!("language_model.{name}"), "F32", shape.to_vec(), bytes)];
        if name == "model.norm.weight" {
            for part in ["linear_1", "linear_2"] {
                let name = format!("multi_modal_projector.{part}");
                out.push((format!("{name}.weight"), "F32", vec![4, 4], f32s(&[0.5; 16])));
                if has_bias {
                    out.push((format!("{name}.bias"), "F32", vec![4], f32s(&[0.5; 4])));
                }
            }
        }
        out
    });
    let path = files.path().join("config.json");
    let mut text: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    text["model_type"] = "mistral".into();
    let mut config = json!({
        "model_type": "llava", "architectures": ["LlavaForConditionalGeneration"],
        "text_config": text, "vision_config": {"model_type": "pixtral", "hidden_size": 4},
    });
    change(&mut config);
    std::fs::write(path, config.to_string()).unwrap();
    files
}

/// A flag of the config decides which parameters the projector of a class has.
#[test]
fn projectors_that_contradict_the_config() {
    let key = "multimodal_projector_bias";
    let said = |stated: Option<bool>, has_bias: bool| {
        let files = llava(
            |config| {
                stated.into_iter().for_each(|stated| config[key] = stated.into());
            },
            has_bias,
        );
        let said = faults(&Model::open(files.path()).unwrap(), Strictness::Default);
        // A conversion says it too.
        let noted = converted(files.path(), &ConvertOptions::new(&SAFETENSORS)).unwrap();
        assert!(noted.contains(&said), "{said}: {noted}");
        said
    };
    for stated in [None, Some(true)] {
        assert_eq!(said(stated, true), "");
    }
    assert_eq!(said(Some(false), false), "");
    let lacking = said(None, false);
    assert!(lacking.contains(&format!("{key} in config.json is true, by default")), "{lacking}");
    assert!(lacking.contains("lacks multi_modal_projector.linear_1.bias"), "{lacking}");
    assert!(said(Some(true), false).contains("which transformers initializes at random"));
    assert!(said(Some(false), true).contains("which transformers ignores"));
}

/// transformers has defaults for sizes that mlx-lm's class requires.
#[test]
fn mlx_lm_gets_the_sizes_that_a_text_config_leaves_out() {
    let files = llava(
        |config| {
            let text = config["text_config"].as_object_mut().unwrap();
            for key in ["num_attention_heads", "vocab_size"] {
                text.remove(key).unwrap();
            }
        },
        true,
    );
    let target = tempfile::tempdir().unwrap();
    let model = Model::open(files.path()).unwrap();
    let plan = ops::convert(&model, &ConvertOptions::new(&MLX)).unwrap();
    plan.run(&target.path().join("m"), &WriteOptions::new()).unwrap();
    let config = std::fs::read_to_string(target.path().join("m/config.json")).unwrap();
    let config: Value = serde_json::from_str(&config).unwrap();
    let read = model.config().unwrap();
    assert_eq!(config["text_config"]["num_attention_heads"], read.n_heads.value);
    assert_eq!(config["text_config"]["vocab_size"], 512);
}

/// A cache that was named by a relative path has links that lead elsewhere.
#[cfg(unix)]
#[test]
fn a_snapshot_whose_links_lead_elsewhere() {
    use std::os::unix::fs::symlink;
    let root = tempfile::tempdir().unwrap();
    let repository = root.path().join("models--acme--Tiny");
    let (blobs, snapshot) = (repository.join("blobs"), repository.join("snapshots/1234abcd"));
    std::fs::create_dir_all(&blobs).unwrap();
    std::fs::create_dir_all(&snapshot).unwrap();
    for (number, entry) in std::fs::read_dir(crate::support::sample("hf")).unwrap().enumerate() {
        let path = entry.unwrap().path();
        let hash = format!("{number:040x}");
        std::fs::copy(&path, blobs.join(&hash)).unwrap();
        let target = format!("cache/models--acme--Tiny/blobs/{hash}");
        symlink(target, snapshot.join(path.file_name().unwrap())).unwrap();
    }
    let model = Model::open(&snapshot).unwrap();
    assert!(!model.is_empty());
    let said = noted(&model);
    assert!(said.contains("config.json is a link to cache/models--acme--Tiny/blobs/"), "{said}");
    assert!(said.contains("which other programs do not find"), "{said}");
    Model::open(snapshot.join("model.safetensors")).unwrap();

    let tokenizer = snapshot.join("tokenizer.json");
    std::fs::remove_file(&tokenizer).unwrap();
    symlink("nowhere/else", &tokenizer).unwrap();
    let model = Model::open(&snapshot).unwrap();
    let broken = "tokenizer.json is a link to nowhere/else, which does not exist: it is not read";
    assert!(noted(&model).contains(broken), "{}", noted(&model));
    let told = converted(&snapshot, &ConvertOptions::new(&GGUF)).unwrap();
    assert!(told.contains(broken), "{told}");
}

/// `tokenizer.huggingface.json` alone states the tokens, of which the embedding may have more rows.
#[test]
fn padded_rows_beside_a_tokenizer_of_hugging_face_in_gguf() {
    let said = |own: bool| {
        let tokenizer = r#"{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}}"#;
        let file = Gguf::new()
            .key("general.architecture", Kv::text("llama"))
            .key("tokenizer.huggingface.json", Kv::text(tokenizer))
            .key("llama.context_length", Kv::U32(64))
            .key("llama.embedding_length", Kv::U32(8))
            .key("llama.block_count", Kv::U32(1))
            .key("llama.feed_forward_length", Kv::U32(16))
            .key("llama.attention.head_count", Kv::U32(2))
            .key("llama.attention.layer_norm_rms_epsilon", Kv::F32(1e-5))
            .tensor("token_embd.weight", DType::F32, &[8, 4], f32s(&[1.0; 32]));
        let file = match own {
            true => file
                .key("tokenizer.ggml.model", Kv::text("gpt2"))
                .key("tokenizer.ggml.tokens", Kv::texts(&["a", "b"])),
            false => file,
        };
        let model = OpenOptions::new().open_memory("m.gguf", file.build()).unwrap();
        faults(&model, Strictness::Default).contains("2 tokens (tokenizer.")
    };
    assert!(said(true) && !said(false));
}

/// mlx-lm writes tokens beyond the embedding that it reads.
#[test]
fn a_token_beyond_the_embedding() {
    let files = reconfigured(|_| ());
    let path = files.path().join("tokenizer.json");
    let mut tokenizer: Value =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    tokenizer["added_tokens"].as_array_mut().unwrap().push(json!({
        "id": 512, "content": "<sep>", "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false, "special": true,
    }));
    std::fs::write(&path, tokenizer.to_string()).unwrap();
    let fault = "513 tokens (tokenizer.json), but the embedding has 512 rows";
    assert_eq!(faults(&Model::open(files.path()).unwrap(), Strictness::Default), fault);
    for container in [&SAFETENSORS, &MLX] {
        let noted = converted(files.path(), &ConvertOptions::new(container)).unwrap();
        assert!(noted.contains(fault), "{noted}");
    }
    let refused = converted(files.path(), &ConvertOptions::new(&GGUF)).unwrap_err();
    assert!(refused.contains("token 512 is \"<sep>\""), "{refused}");
    assert!(refused.contains("remove it from tokenizer.json"), "{refused}");
}

/// The metadata of a file says which framework wrote it.
#[test]
fn names_of_other_frameworks() {
    let config = json!({
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 8, "n_layer": 1, "n_head": 2,
        "vocab_size": 4, "n_positions": 8,
    });
    for (format, framework, names) in [
        ("flax", "Flax", ["transformer.wte.embedding", "transformer.h.0.attn.c_attn.kernel"]),
        ("tf", "TensorFlow", ["model/transformer/wte/weight:0", "model/transformer/h_/_0/bias:0"]),
    ] {
        let file = names.iter().fold(Safetensors::new(), |file, name| {
            file.tensor(name, "F32", &[4, 8], f32s(&[0.5; 32]))
        });
        let file = file
            .tensor("transformer.h.0.ln_1.bias", "F32", &[8], f32s(&[0.5; 8]))
            .tensor("transformer.h.0.ln_2.bias", "F32", &[8], f32s(&[0.5; 8]))
            .tensor("transformer.ln_f.bias", "F32", &[8], f32s(&[0.5; 8]))
            .metadata("format", format);
        let files = folder(&[
            ("model.safetensors", file.build()),
            ("config.json", config.to_string().into_bytes()),
        ]);
        let said = faults(&Model::open(files.path()).unwrap(), Strictness::Default);
        let expected = format!("a name of {framework}, which wrote the file");
        assert!(said.contains(&expected) && !said.contains("lacks"), "{said}");
        let refused = converted(files.path(), &ConvertOptions::new(&GGUF)).unwrap_err();
        assert!(refused.contains(&expected), "{refused}");
        assert!(refused.contains(&format!("from_{format}=True")), "{refused}");
    }
}
