//! Files that are whole and mean something wrong: a config that contradicts the tensors, the
//! tokenizer or itself.
#![allow(clippy::disallowed_methods, reason = "the files and their sizes are the test's own")]

use crate::support;
use std::path::Path;

use crate::support::{Safetensors, copy_of, fixture, folder, put, without_path};
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use weighbridge::container::{GGUF as GGUF_FILE, MLX as MLX_DIRECTORY, SAFETENSORS};
use weighbridge::metadata::{KeyValues, Value};
use weighbridge::ops::ConvertOptions;
use weighbridge::{Model, OpenOptions, Strictness, WriteOptions, ops};

const HF: &str = "assets/sample/hf";
const MLX: &str = "assets/sample/mlx-4bit";
const GGUF: &str = "assets/sample/sample-Q8_0.gguf";

/// The faults that are found by default, and those that the strict rules add.
fn found(path: &Path) -> String {
    let store = Model::open(path).expect("a model");
    let of = |strictness| ops::check_consistency(&store, strictness).expect("checked");
    let (default, strict) = (of(Strictness::Default), of(Strictness::Strict));
    let faults = default.faults.iter().map(|fault| format!("fault: {fault}"));
    let notes = default.notes.iter().map(|note| format!("note: {note}"));
    let more = strict.faults.iter().filter(|fault| !default.faults.contains(fault));
    let more = more.map(|fault| format!("strict: {fault}"));
    let all: Vec<String> = faults.chain(notes).chain(more).collect();
    without_path(&all.join("\n"), path)
}

/// The sample as GGUF with other metadata.
fn gguf(edit: impl FnOnce(&mut KeyValues)) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    std::fs::copy(GGUF, &path).expect("a copy");
    let edit = |keys: &mut KeyValues| {
        edit(keys);
        Ok(())
    };
    ops::edit_metadata(&path, edit, &WriteOptions::new()).expect("edited");
    found(&path)
}

fn edit_json(folder: &TempDir, name: &str, edit: impl FnOnce(&mut Json)) {
    let path = folder.path().join(name);
    let text = std::fs::read_to_string(path).expect("a document");
    let mut json: Json = serde_json::from_str(&text).expect("JSON");
    edit(&mut json);
    put(folder.path(), name, json.to_string());
}

/// The sample as a directory with another config.
fn config(edit: impl FnOnce(&mut Json)) -> String {
    let folder = copy_of(HF);
    edit_json(&folder, "config.json", edit);
    found(folder.path())
}

#[test]
fn sound_models_have_no_faults() {
    for path in [HF, MLX, GGUF] {
        assert_eq!(found(Path::new(path)), "", "{path}");
    }
    let Some(models) = fixture("logits") else { return };
    let mut checked = 0;
    for entry in std::fs::read_dir(models).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.join("config.json").exists() {
            assert_eq!(found(&path), "", "{}", path.display());
            checked += 1;
        }
    }
    assert!(checked > 40, "{checked}");
}

/// A number that other shapes follow from. The first fault is shown, and how many there are.
#[test]
fn numbers_that_contradict_the_tensors() {
    let first = |text: String| {
        let count = text.lines().count();
        format!("{} ({count})", text.lines().next().unwrap_or("nothing"))
    };
    let of_gguf = |key: &str, value: u32| first(gguf(|keys| keys.set(key, Value::U32(value))));
    let of_config = |key: &str, value: u32| first(config(|config| config[key] = json!(value)));
    let said = [
        of_gguf("llama.embedding_length", 100),
        of_gguf("llama.attention.head_count", 3),
        of_gguf("llama.attention.head_count_kv", 4),
        of_gguf("llama.feed_forward_length", 500),
        of_gguf("llama.block_count", 3),
        of_gguf("llama.vocab_size", 511),
        of_gguf("llama.attention.key_length", 32),
        of_gguf("llama.attention.value_length", 32),
        of_gguf("llama.rope.dimension_count", 100),
        of_config("hidden_size", 100),
        of_config("num_attention_heads", 3),
        of_config("num_attention_heads", 8),
        of_config("num_key_value_heads", 1),
        of_config("intermediate_size", 256),
        of_config("num_hidden_layers", 4),
        of_config("vocab_size", 1000),
        of_config("head_dim", 100),
    ];
    insta::assert_snapshot!(said.join("\n"), @"
    fault: output_norm.weight: the shape is [256], but dim (llama.embedding_length) is 100 (20)
    fault: layers.0.attention.output.weight: the shape is [256, 256], but n_heads * value_head_dim (llama.attention.value_length) is 192 (5)
    fault: layers.0.attention.k.weight: the shape is [128, 256], but n_kv_heads (llama.attention.head_count_kv) * head_dim (llama.attention.key_length: 64) is 256 (4)
    fault: layers.0.ffn.down.weight: the shape is [256, 512], but ffn_dim (llama.feed_forward_length) is 500 (6)
    fault: the model lacks layers.2..3, which its architecture requires (1)
    fault: llama.vocab_size is 511, but the embedding has 512 rows (1)
    fault: layers.0.attention.k.weight: the shape is [128, 256], but n_kv_heads (llama.attention.head_count_kv) * head_dim (llama.attention.key_length: 32) is 64 (3)
    fault: layers.0.attention.output.weight: the shape is [256, 256], but n_heads * value_head_dim (llama.attention.value_length) is 128 (4)
    fault: rope_dimension_count (llama.rope.dimension_count) is 100, but a head has 64 elements (llama.attention.key_length) (1)
    fault: token_embedding.weight: the shape is [512, 256], but dim (config.json hidden_size) is 100 (20)
    fault: layers.0.attention.output.weight: the shape is [256, 256], but n_heads * value_head_dim (same as head_dim) is 192 (5)
    fault: layers.0.attention.output.weight: the shape is [256, 256], but n_heads * value_head_dim (same as head_dim) is 512 (4)
    fault: layers.0.attention.k.weight: the shape is [128, 256], but n_kv_heads (config.json num_key_value_heads) * head_dim (config.json head_dim: 64) is 64 (4)
    fault: layers.0.ffn.down.weight: the shape is [256, 512], but ffn_dim (config.json intermediate_size) is 256 (6)
    fault: the model lacks layers.2..4, which its architecture requires (1)
    fault: config.json vocab_size is 1000, but the embedding has 512 rows (1)
    fault: head_dim (config.json head_dim) is 100, but the matrices of attention have heads of 64 elements in every layer: head_dim: 64 in config.json would fit (1)
    ");
}

#[test]
fn what_llama_cpp_needs_to_know() {
    let without = |key: &'static str| gguf(|keys| assert!(keys.remove(key)));
    insta::assert_snapshot!(without("general.architecture"), @"
    note: no general.architecture: llama.cpp does not load the file
    strict: no general.architecture: llama.cpp does not load the file
    ");
    insta::assert_snapshot!(without("tokenizer.ggml.model"), @"
    note: no tokenizer.ggml.model: llama.cpp does not load the file
    strict: no tokenizer.ggml.model: llama.cpp does not load the file
    ");
    insta::assert_snapshot!(without("llama.context_length"), @"
    note: no llama.context_length: llama.cpp does not load the file
    strict: no llama.context_length: llama.cpp does not load the file
    ");
    insta::assert_snapshot!(without("llama.attention.layer_norm_rms_epsilon"), @"
    note: no llama.attention.layer_norm_rms_epsilon: llama.cpp does not load the file
    strict: no llama.attention.layer_norm_rms_epsilon: llama.cpp does not load the file
    ");
    insta::assert_snapshot!(without("llama.embedding_length"), @"fault: .: neither llama.embedding_length nor hidden_size in config.json");
}

/// A GGUF file that is copied, to a file or to Ollama's store, gets the notes of `verify`.
#[test]
fn copies_say_that_llama_cpp_does_not_load_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    type Edit = fn(&mut KeyValues);
    let edits: [(Edit, &str); 4] = [
        (|keys| keys.set_text("general.architecture", "flux"), "which llama.cpp does not know"),
        (|keys| assert!(keys.remove("tokenizer.ggml.model")), "no tokenizer.ggml.model"),
        (|keys| assert!(keys.remove("llama.context_length")), "no llama.context_length"),
        (|_| {}, ""),
    ];
    for (edit, part) in edits {
        std::fs::copy(GGUF, &path).expect("a copy");
        let edit = |keys: &mut KeyValues| {
            edit(keys);
            Ok(())
        };
        ops::edit_metadata(&path, edit, &WriteOptions::new()).expect("edited");
        let model = Model::open(&path).expect("a model");
        for container in [&weighbridge::container::GGUF, &weighbridge::container::OLLAMA] {
            let plan = ops::convert(&model, &ops::ConvertOptions::new(container)).expect("a plan");
            let noted = plan.notes.iter().filter(|note| note.contains("llama.cpp")).count();
            let expected = usize::from(!part.is_empty());
            assert_eq!(noted, expected, "{part}: {:?}", plan.notes);
            assert!(plan.notes.concat().contains(part), "{part}: {:?}", plan.notes);
        }
    }
}

#[test]
fn vocabularies_and_special_tokens() {
    let id = |key: &str, id: u32| gguf(|keys| keys.set(key, Value::U32(id)));
    insta::assert_snapshot!(id("tokenizer.ggml.bos_token_id", 512), @"fault: tokenizer.ggml.bos_token_id is 512, but the vocabulary has 512 tokens");
    insta::assert_snapshot!(id("tokenizer.ggml.eot_token_id", 70_000), @"fault: tokenizer.ggml.eot_token_id is 70000, but the vocabulary has 512 tokens");
    insta::assert_snapshot!(id("tokenizer.ggml.padding_token_id", u32::MAX), @"");
    insta::assert_snapshot!(config(|config| config["eos_token_id"] = json!([1, 512])), @"fault: config.json eos_token_id is 512, but the vocabulary has 512 tokens");
    insta::assert_snapshot!(config(|config| config["pad_token_id"] = json!(-1)), @"");
    let folder = copy_of(HF);
    put(folder.path(), "generation_config.json", r#"{"eos_token_id": 999}"#);
    insta::assert_snapshot!(found(folder.path()), @"fault: generation_config.json eos_token_id is 999, but the vocabulary has 512 tokens");
    let shorter = gguf(|keys| {
        let texts: Vec<String> = (0..511).map(|n| format!("t{n}")).collect();
        keys.set_array("tokenizer.ggml.tokens", texts.iter().map(String::as_str));
    });
    insta::assert_snapshot!(shorter, @r#"
    fault: .: key "tokenizer.ggml.token_type": 512 elements, but there are 511 tokens
    note: token_embd.weight is [512, 256], but llama.cpp requires [511, 256] of llama
    strict: token_embd.weight is [512, 256], but llama.cpp requires [511, 256] of llama
    "#);
    // More rows than tokens are usual outside GGUF; fewer are not.
    let longer = copy_of(HF);
    edit_json(&longer, "tokenizer.json", |tokenizer| {
        tokenizer["model"]["vocab"]["a token more"] = json!(600);
    });
    insta::assert_snapshot!(found(longer.path()), @"fault: 513 tokens (tokenizer.json), but the embedding has 512 rows");
}

#[test]
fn tokenizers_that_are_not_there() {
    let folder = copy_of(MLX);
    std::fs::remove_file(folder.path().join("tokenizer.json")).expect("removed");
    insta::assert_snapshot!(found(folder.path()), @"
    note: no tokenizer: mlx-lm does not load the model
    strict: no tokenizer: mlx-lm does not load the model
    ");
    // A conversion states it too, once, whatever the container.
    let source = copy_of(HF);
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        std::fs::remove_file(source.path().join(name)).expect("removed");
    }
    let source = Model::open(source.path()).expect("a model");
    for (target, note) in [
        (
            &MLX_DIRECTORY,
            "the written model has a fault of its source: no tokenizer: mlx-lm does not load the model",
        ),
        (&GGUF_FILE, "no tokenizer file next to the weights: llama.cpp does not load the file"),
    ] {
        let plan = ops::convert(&source, &ConvertOptions::new(target)).expect("a plan");
        let notes = plan.notes.iter().filter(|text| text.contains("no tokenizer"));
        assert_eq!(notes.collect::<Vec<_>>(), [note]);
    }
}

#[cfg(feature = "chat-template")]
#[test]
fn templates_that_are_no_jinja() {
    let template = |text: &str| gguf(|keys| keys.set_text("tokenizer.chat_template", text));
    insta::assert_snapshot!(template("{% for m in messages %}{{ m.content }}"), @"fault: the chat template (tokenizer.chat_template) is not valid Jinja: unexpected end of input, expected end of block in line 1");
    insta::assert_snapshot!(template("{{ messages[0 }}"), @"fault: the chat template (tokenizer.chat_template) is not valid Jinja: unexpected `}`, expected `]` in line 1");
    insta::assert_snapshot!(template("{% if %}x{% endif %}"), @"fault: the chat template (tokenizer.chat_template) is not valid Jinja: unexpected end of block in line 1");
    let sound = [
        "",
        "{%- for m in messages -%}{{- '<|' + m['role'] + '|>' + m.content | trim -}}{%- endfor -%}",
        "{% for m in messages %}{% generation %}{{ m.content }}{%- endgeneration -%}{% endfor %}",
        "{% macro f(x, y=1) %}{{ x }}{% endmacro %}{{ f(1) }}{% for x in y %}{% break %}{% endfor %}",
        "{% set ns = namespace(n=0) %}{% set ns.n = ns.n + 1 %}{{ messages[1:] }}{{ x if y else z }}",
        "{{ raise_exception('no') }}{{ strftime_now('%d') }}{{ x is defined and x is not none }}",
    ];
    for text in sound {
        assert_eq!(template(text), "", "{text}");
    }
    let folder = copy_of(HF);
    put(folder.path(), "chat_template.jinja", "{% endfor %}");
    insta::assert_snapshot!(found(folder.path()), @"fault: the chat template (chat_template.jinja) is not valid Jinja: unknown statement endfor in line 1");
}

/// `xtask/oracles/strict.py` asks transformers and mlx-lm about these and others.
#[test]
fn what_the_classes_of_transformers_and_mlx_lm_refuse() {
    let strict = |edit: &dyn Fn(&mut Json)| {
        let said = config(edit);
        let strict = said.lines().filter_map(|line| line.strip_prefix("strict: "));
        strict.map(str::to_owned).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(strict(&|json| json["hidden_act"] = "no such".into()), @r#"hidden_act is "no such", which transformers does not know"#);
    insta::assert_snapshot!(strict(&|json| json["rope_scaling"] = json!({"rope_type": "none"})), @r#"the type of rope_scaling is "none", which transformers does not know"#);
    insta::assert_snapshot!(strict(&|json| json["rope_scaling"] = json!({"type": "linear"})), @r#"rope_scaling of type "linear" has no factor, which transformers requires"#);
    insta::assert_snapshot!(strict(&|json| json["attention_bias"] = true.into()), @"attention_bias is true, but no layer has attention.q.bias");
    insta::assert_snapshot!(strict(&|json| json["num_hidden_layers"] = 1.into()), @"layers.1.attention_norm.weight exists, but n_layers (config.json num_hidden_layers) is 1: mlx-lm does not load the model, transformers ignores the tensor");
}

#[test]
fn an_output_matrix_that_is_promised() {
    // A class around that of a text model promises it too.
    for class in ["LlamaForCausalLM", "LlavaForConditionalGeneration"] {
        let said = config(|config| {
            config["tie_word_embeddings"] = json!(false);
            config["architectures"] = json!([class]);
        });
        insta::allow_duplicates! {
            insta::assert_snapshot!(said, @"fault: the model lacks output.weight, although tie_word_embeddings in config.json is false");
        }
    }
}

/// Bits and group sizes that the arrays do not have. Where their shapes fit one reading alone, that is
/// taken, and it is said that mlx-lm takes the config's.
#[test]
fn quantization_beside_the_arrays() {
    let file = Safetensors::new()
        .tensor("m.weight", "U32", &[8, 10], [0; 320])
        .tensor("m.scales", "F16", &[8, 1], [0; 16])
        .tensor("m.biases", "F16", &[8, 1], [0; 16]);
    let with = |quantization: Json| {
        let folder = folder(&[("model.safetensors", file.build())]);
        put(folder.path(), "config.json", json!({"quantization": quantization}).to_string());
        let strict = OpenOptions::new().strictness(Strictness::Strict).open(folder.path());
        let strict = strict.err().map_or("fine".to_owned(), |error| error.to_string());
        let default = Model::open(folder.path()).expect("one way to read it");
        without_path(&format!("{}\nstrict: {strict}", support::notes(&default)), folder.path())
    };
    insta::assert_snapshot!(with(json!({"bits": 5, "group_size": 64})), @"

    strict: fine
    ");
    insta::assert_snapshot!(with(json!({"bits": 4, "group_size": 64})), @r#"
    tensor "m.weight": its shapes fit MLX_AFFINE5 in groups of 64, but config.json says affine with 4 bits in groups of 64 for all: mlx-lm does not load it
    strict: ./model.safetensors: tensor "m.weight": its shapes fit MLX_AFFINE5 in groups of 64, but config.json says affine with 4 bits in groups of 64 for all: mlx-lm does not load it
    "#);
    insta::assert_snapshot!(with(json!({"bits": 4, "group_size": 64, "m": {"bits": 5, "group_size": 64}})), @"

    strict: fine
    ");
    for bits in [8, 2] {
        let folder = copy_of(MLX);
        edit_json(&folder, "config.json", |config| {
            config["quantization"] = json!({"bits": bits, "group_size": 64});
        });
        let error = Model::open(folder.path()).expect_err("two ways to read it");
        assert!(error.to_string().contains("its shapes fit"), "{error}");
    }
}

/// Names and keys of a file are shown as one line that a terminal can be trusted with.
#[test]
fn hostile_names_are_escaped() {
    let shown = gguf(|keys| {
        keys.set_text("general.architecture", "a\u{1b}[2Jb\nc");
        keys.set("tokenizer.ggml.x\u{7}y_token_id", Value::U32(9999));
    });
    assert!(!shown.replace('\n', "").contains(|c: char| c.is_control()), "{shown:?}");
    let file = Safetensors::new().tensor("evil\u{1b}[2J", "F32", &[1], [0; 4]);
    let folder = folder(&[("model.safetensors", file.build())]);
    put(folder.path(), "config.json", r#"{"model_type": "llama", "num_hidden_layers": 1}"#);
    let model = Model::open(folder.path()).expect("a model");
    let options = ops::ConvertOptions::new(&SAFETENSORS);
    let plan = ops::convert(&model, &options).expect("a plan");
    let notes = plan.notes.join("|");
    assert!(notes.contains("unknown to llama: evil"), "{notes:?}");
    assert!(!notes.contains(|c: char| c.is_control()), "{notes:?}");
}

/// A file of tensors that are not those of the architecture that it names.
#[test]
fn no_tensor_of_the_architecture() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let file = support::Gguf::new().key("general.architecture", support::Kv::text("llama")).tensor(
        "x",
        weighbridge::DType::F32,
        &[1],
        support::f32s(&[1.0]),
    );
    std::fs::write(&path, file.build()).expect("a file");
    let all = found(&path);
    let fault = "x: not a known tensor of llama, and neither are 0 more of 1";
    assert!(all.contains(fault), "{all}");
    assert!(!gguf(|_| ()).contains("not a known tensor"));
}

/// A pruned model keeps the width of its heads, which its config must then state.
#[test]
fn heads_of_another_width_than_the_config_says() {
    let (wide, narrow) = (config(|config| config["head_dim"] = json!(32)), config(|_| ()));
    assert!(!narrow.contains("fault"), "{narrow}");
    let model = Model::open(HF).expect("a model");
    let width = model.config().expect("a config").head_dim.value;
    assert_ne!(width, 32);
    let fit = format!(
        "have heads of {width} elements in every layer: head_dim: {width} in config.json would fit"
    );
    assert_eq!(wide.matches("fault:").count(), 1, "{wide}");
    assert!(wide.contains("fault: head_dim (config.json head_dim) is 32, but"), "{wide}");
    assert!(wide.contains(&fit), "{wide}");
    // No width fits a model whose key heads have another one.
    let uneven = config(|config| {
        config["head_dim"] = json!(32);
        config["num_key_value_heads"] = json!(1);
    });
    assert!(!uneven.contains("would fit"), "{uneven}");
    assert!(uneven.contains("layers.0.attention.k.weight: the shape is"), "{uneven}");
}

/// Files with the layers that predict further tokens, as NVIDIA publishes them for Nemotron-H, are no model.
#[test]
fn layers_for_further_tokens_alone() {
    let folder = copy_of(HF);
    let file = Safetensors::new().tensor("mtp.layers.0.norm.weight", "BF16", &[256], vec![0; 512]);
    std::fs::write(folder.path().join("model.safetensors"), file.build()).expect("a file");
    let part = "the files hold the layers that predict further tokens alone (multi-token prediction, nextn), which are a \
                part of a model";
    let model = Model::open(folder.path()).expect("a model");
    let faults = |model: &Model| {
        let found = ops::check_consistency(model, weighbridge::Strictness::Default);
        found.expect("checked").faults
    };
    assert_eq!(faults(&model), [part]);
    for container in [&weighbridge::container::GGUF, &weighbridge::container::MLX] {
        let error = ops::convert(&model, &ops::ConvertOptions::new(container)).expect_err("a part");
        assert!(error.to_string().ends_with(part), "{}: {error}", container.name);
        assert!(error.advice().is_some_and(|advice| advice.contains("the whole model")));
    }
    assert!(model.config().expect_err("a part").to_string().ends_with(part));
    // The file is copied as it is.
    let plan = ops::convert(&model, &ops::ConvertOptions::new(&SAFETENSORS)).expect("a plan");
    assert_eq!(plan.tensors.len(), 1);
    // A tower is another part.
    let name = "model.vision_tower.norm.weight";
    let file = Safetensors::new().tensor(name, "BF16", &[256], vec![0; 512]);
    std::fs::write(folder.path().join("model.safetensors"), file.build()).expect("a file");
    let model = Model::open(folder.path()).expect("a model");
    let part = format!(
        "the files hold no tensor of the language model: {name} is part of the vision model, not of the language model"
    );
    assert_eq!(faults(&model), [&*part]);
    for container in [&weighbridge::container::GGUF, &weighbridge::container::MLX] {
        let error = ops::convert(&model, &ops::ConvertOptions::new(container)).expect_err("a part");
        assert!(error.to_string().ends_with(&part), "{}: {error}", container.name);
    }
    // A directory without tensors is no model either.
    std::fs::write(folder.path().join("model.safetensors"), Safetensors::new().build())
        .expect("it");
    let model = Model::open(folder.path()).expect("a model");
    assert_eq!(faults(&model), ["the model has no tensor"]);
}

/// Tensors that the class would not build, or has no place for.
#[test]
fn tensors_beside_those_of_the_class() {
    let found_with = |names: &[&str], edit: fn(&mut Json)| {
        let folder = copy_of(HF);
        edit_json(&folder, "config.json", edit);
        let file = names
            .iter()
            .fold(Safetensors::new(), |file, name| file.tensor(name, "BF16", &[256], vec![0; 512]));
        support::second_shard(folder.path(), &file);
        found(folder.path())
    };
    let bias = "model.layers.0.self_attn.q_proj.bias";
    let unstated = found_with(&[bias], |config| {
        config.as_object_mut().expect("an object").remove("attention_bias");
    });
    let fault = "attention_bias is false, by default, but the model has layers.0.attention.q.bias";
    assert!(unstated.contains(fault), "{unstated}");
    let stated = found_with(&[bias], |config| config["attention_bias"] = false.into());
    assert!(stated.contains("attention_bias is false, but the model has"), "{stated}");
    let one = found_with(&["model.extra"], |_| ());
    assert!(one.contains("model.extra is not a known tensor: mlx-lm does not load"), "{one}");
    let own = found_with(&["model.extra"], |config| config["architectures"] = json!(["Own"]));
    assert!(own.contains("does not load the model, transformers ignores the tensor"), "{own}");
    let unknown = found_with(&["model.extra"], |config| config["model_type"] = "xverse".into());
    assert!(unknown.contains("mlx-lm does not load the model"), "{unknown}");
    assert!(!unknown.contains("transformers ignores"), "{unknown}");
    let head = |config: &mut Json| config["architectures"] = json!(["LlamaForTokenClassification"]);
    let head = found_with(&["model.extra"], head);
    assert!(head.contains("a head that only transformers computes"), "{head}");
    let two = found_with(&["model.extra", "model.other"], |_| ());
    assert!(two.contains("model.extra is not a known tensor and 1 more: mlx-lm"), "{two}");
}

/// Vision models have no list of required tensors; a layer that lacks what all others have shows a loss.
#[test]
fn gaps_in_vision_models_are_noted() {
    let of_layers = |lost: &str| {
        let names = ["layer_norm1.bias", "layer_norm1.weight", "mlp.fc1.weight", "mlp.fc2.weight"];
        let names = (0..5).flat_map(|n| {
            names.map(|name| format!("visual.vision_model.encoder.layers.{n}.{name}"))
        });
        let kept = names.filter(|name| name != lost);
        let file =
            kept.fold(Safetensors::new(), |file, name| file.tensor(&name, "F32", &[1], vec![0; 4]));
        let config = br#"{"model_type": "paddleocr_vl"}"#.to_vec();
        let files = folder(&[("config.json", config), ("model.safetensors", file.build())]);
        let model = Model::open(files.path()).expect("a model");
        ops::check_consistency(&model, Strictness::Default).expect("a check").notes.join("; ")
    };
    let lost = "visual.vision_model.encoder.layers.2.mlp.fc1.weight";
    assert!(!of_layers("").contains("is missing"));
    assert!(of_layers(lost).contains(&format!("{lost} is missing: the other 4 layers")));
}

/// `config.json` states how many layers a vision or audio model has: the last ones may be in a file that was lost.
#[test]
fn last_layers_of_vision_and_audio_models_are_missed() {
    let found = |config: &serde_json::Value, before: &str, names: &[&str], layers: u32| {
        let names =
            (0..layers).flat_map(|n| names.iter().map(move |name| format!("{before}.{n}.{name}")));
        let file = names
            .fold(Safetensors::new(), |file, name| file.tensor(&name, "F32", &[1], vec![0; 4]));
        let files = folder(&[
            ("config.json", config.to_string().into_bytes()),
            ("model.safetensors", file.build()),
        ]);
        let model = Model::open(files.path()).expect("a model");
        let found = ops::check_consistency(&model, Strictness::Default).expect("a check");
        let of = |list: Vec<String>| {
            list.into_iter().filter(|text| text.contains("layers (")).collect::<Vec<_>>().join("; ")
        };
        [of(found.faults), of(found.notes)]
    };
    let qwen = json!({"model_type": "qwen2_5_vl", "vision_config": {"depth": 4}});
    let names = ["norm1.weight", "norm2.weight", "attn.qkv.weight", "attn.proj.weight"];
    for before in ["visual.blocks", "model.visual.blocks"] {
        let [faults, notes] = found(&qwen, before, &names, 2);
        let expected = format!(
            "{before}.[2-3].*: 4 tensors of each layer are missing, for config.json says 4 layers (vision_config.depth)"
        );
        assert_eq!([faults, notes], [expected, String::new()]);
        assert_eq!(found(&qwen, before, &names, 4), ["", ""]);
    }
    let audio = json!({"model_type": "qwen2_audio", "audio_config": {"encoder_layers": 3}});
    let [faults, _] = found(&audio, "audio_tower.layers", &["fc1.weight", "fc2.weight"], 2);
    assert!(faults.starts_with("audio_tower.layers.2.*: 2 tensors"), "{faults}");
    // Layers beside those of the tower have a number of their own, although they have more tensors.
    let stacks = json!({"model_type": "mllama", "vision_config": {"num_hidden_layers": 6, "num_global_layers": 3},
        "qformer_config": {"num_hidden_layers": 3}, "perceiver_config": {"resampler_depth": 3}});
    for before in [
        "vision_model.global_transformer.layers",
        "qformer.encoder.layer",
        "model.connector.perceiver_resampler.layers",
    ] {
        assert_eq!(found(&stacks, before, &names, 3), ["", ""], "{before}");
        let [faults, notes] = found(&stacks, before, &names, 2);
        assert!(
            faults.is_empty() && notes.starts_with(&format!("{before}.2.*: 4 tensors")),
            "{before}: {notes}"
        );
    }
    // Of other classes it is not known whether they have all layers.
    let other = json!({"model_type": "kimi_vl", "vision_config": {"num_hidden_layers": 27}});
    let [faults, notes] = found(&other, "vision_tower.encoder.blocks", &names, 26);
    assert_eq!(faults, "");
    assert!(notes.starts_with("vision_tower.encoder.blocks.26.*: 4 tensors"), "{notes}");
}

/// An adapter in GGUF has the architecture of its model and none of its tensors: its own rules apply.
#[test]
fn adapters_in_gguf() {
    let path = fixture("lora/llama/adapter.gguf").expect("the repository has it");
    let kind = "note: 14 pairs of matrices are complete; whether they fit the base model is checked when both are merged";
    assert_eq!(found(&path), kind);
    let folder = tempfile::tempdir().expect("a folder");
    let changed = folder.path().join("changed.gguf");
    let mut bytes = std::fs::read(&path).expect("the adapter");
    let name = b"blk.0.attn_q.weight.lora_b";
    let at = bytes.windows(name.len()).position(|window| window == name).expect("the name");
    bytes[at + name.len() - 1] = b'x';
    std::fs::write(&changed, bytes).expect("a file");
    assert_eq!(
        found(&changed),
        "fault: tensor \"blk.0.attn_q.weight.lora_a\": the adapter lacks matrix B of blk.0.attn_q.weight"
    );
}

/// Weights under a name that neither transformers nor mlx-lm looks for.
#[test]
fn weights_that_no_index_lists_have_the_usual_name() {
    let copy = copy_of(HF);
    let [usual, other] =
        ["model.safetensors", "weights-4bit.safetensors"].map(|name| copy.path().join(name));
    assert_eq!(found(copy.path()), "");
    std::fs::rename(usual, &other).expect("renamed");
    insta::assert_snapshot!(found(copy.path()), @r"
    note: weights-4bit.safetensors is not opened by transformers, which looks for model.safetensors or the files of model.safetensors.index.json, nor by mlx-lm, which looks for model*.safetensors
    strict: weights-4bit.safetensors is not opened by transformers, which looks for model.safetensors or the files of model.safetensors.index.json, nor by mlx-lm, which looks for model*.safetensors
    ");
    // mlx-lm opens shards without an index.
    let shard = copy.path().join("model-00001-of-00001.safetensors");
    std::fs::rename(other, shard).expect("renamed");
    let found = found(copy.path());
    assert!(found.contains("not opened by transformers") && !found.contains("mlx-lm"), "{found}");
}
