//! Tensors that stop no conversion: those that no rule knows, pieces of wrappers in names, projectors next to a
//! language model. And files that are quantized or read as their programs do.

use std::path::Path;

use serde_json::json;
use weighbridge::container::{GGUF, MLX, SAFETENSORS};
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::recipe::FileType;
use weighbridge::recipe::llama_cpp::LlamaOptions;
use weighbridge::{AdvisedOption, DType, ErrorKind, Model, Part, Strictness, WriteOptions};

use crate::support::{Gguf, Kv, Safetensors, WhisperGgml, f32s, fixture, folder, put};

/// The fixture under other names, with more tensors.
fn renamed(rename: impl Fn(&str) -> String, more: &[&str]) -> tempfile::TempDir {
    let base = fixture("lora/llama/base").expect("the repository has it");
    let model = Model::open(&base).expect("a model");
    let mut file = Safetensors::new();
    for tensor in model.stored_tensors() {
        let bytes = tensor.bytes(Part::Weight).expect("bytes").into_owned();
        file = file.tensor(&rename(tensor.name()), "BF16", tensor.shape(), bytes);
    }
    let file = more.iter().fold(file, |file, name| file.tensor(name, "F32", &[2], f32s(&[1.0; 2])));
    let config = std::fs::read(base.join("config.json")).expect("a config");
    folder(&[("config.json", config), ("model.safetensors", file.build())])
}

fn written(model: &Model, options: &ConvertOptions, path: &Path) -> (Model, String) {
    let plan = ops::convert(model, options).unwrap_or_else(|error| panic!("{error}"));
    plan.run(path, &WriteOptions::new()).unwrap_or_else(|error| panic!("{error}"));
    (Model::open(path).expect("a model"), plan.notes.join("\n"))
}

#[test]
fn an_unknown_tensor_can_be_left_out() {
    let files = renamed(str::to_owned, &["v_head.summary.weight", "v_head.summary.bias"]);
    let model = Model::open(files.path()).expect("a model");
    for container in [&GGUF, &MLX] {
        let error = ops::convert(&model, &ConvertOptions::new(container)).expect_err("unknown");
        assert_eq!(
            (error.kind(), error.option()),
            (ErrorKind::Unsupported, Some(AdvisedOption::LeaveOut))
        );
        assert_eq!(error.tensor(), Some("v_head.summary.weight"));
        let advice = error.advice_in(|_| "--leave-out").expect("advice");
        assert_eq!(
            advice,
            "if the model works without them, leave them out: --leave-out 'v_head.*'"
        );
    }
    let less = model.leave_out(|name| name.starts_with("v_head.")).expect("two tensors");
    let out = tempfile::tempdir().expect("a folder");
    for (number, container) in [&GGUF, &MLX, &SAFETENSORS].into_iter().enumerate() {
        let path = out.path().join(number.to_string());
        let (copy, notes) = written(&less, &ConvertOptions::new(container), &path);
        assert_eq!(copy.len(), model.len() - 2);
        let told = "left out: v_head.summary.weight and 1 more: as requested";
        assert!(notes.contains(told), "{notes}");
    }
    let path = out.path().join("q.gguf");
    let options = LlamaOptions::new(FileType::Q8_0);
    let plan = ops::quantize(&less, &options, None, &path).expect("a plan");
    assert!(plan.tensors.iter().all(|tensor| !tensor.name.contains("v_head")));
    // What the model needs stays, and a name that is not there is a mistake.
    let error = model.leave_out(|name| name == "lm_head.weight").expect_err("needed");
    assert_eq!((error.kind(), error.tensor()), (ErrorKind::Mismatch, Some("lm_head.weight")));
    let error = model.leave_out(|_| false).expect_err("nothing");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(error.advice(), Some("these can be left out: v_head.*"));
}

#[test]
fn a_tower_can_be_left_out() {
    let tower = "vision_tower.patch.weight";
    let files = renamed(str::to_owned, &["mm_projector.proj.0.weight", tower]);
    let model = Model::open(files.path()).expect("a model");
    let out = tempfile::tempdir().expect("a folder");
    let options = ConvertOptions::new(&SAFETENSORS);
    let (whole, _) = written(&model, &options, &out.path().join("whole"));
    assert!(whole.stored_tensor(tower).is_ok());
    let globs = model.resolution().expect("names").tower_globs();
    assert_eq!(globs, ["mm_projector.*", "vision_tower.*"]);
    let less = model.leave_out(|name| name.starts_with("vision_tower.")).expect("a tensor");
    let (copy, notes) = written(&less, &options, &out.path().join("less"));
    assert_eq!((copy.len(), copy.stored_tensor(tower).is_err()), (model.len() - 1, true));
    assert!(notes.contains(&format!("left out: {tower}: as requested")), "{notes}");
}

#[test]
fn wrappers_of_some_modules_are_read_through() {
    let compiled = |name: &str| name.replace("model.layers.1.", "model.layers.1._orig_mod.");
    let trained =
        |name: &str| name.replace("layers.1.mlp.up_proj.", "layers.1.mlp.up_proj.base_layer.");
    let wrapped = |name: &str| match name.contains("layers") {
        true => format!("base_model.model.{name}"),
        false => name.to_owned(),
    };
    let out = tempfile::tempdir().expect("a folder");
    for (number, files, piece) in [
        (0, renamed(compiled, &[]), "9 of 21 tensor names have \"_orig_mod.\""),
        (2, renamed(trained, &[]), "1 of 21 tensor names have \"base_layer.\""),
        (1, renamed(wrapped, &[]), "18 of 21 tensor names have \"base_model.model.\""),
    ] {
        let model = Model::open(files.path()).expect("a model");
        assert!(model.resolution().expect("names").unknown.is_empty());
        for container in [&GGUF, &SAFETENSORS] {
            let path = out.path().join(format!("{number}-{}", container.name));
            let (copy, notes) = written(&model, &ConvertOptions::new(container), &path);
            assert!(notes.contains(piece), "{notes}");
            assert!(copy.has("layers.1.ffn.down.weight"));
            assert!(copy.stored_tensors().all(|tensor| !tensor.name().contains("_orig_mod")));
        }
    }
}

/// transformers' class has the layers in one module.
#[test]
fn layers_in_two_modules_are_a_fault() {
    let moved = |name: &str| name.replace("model.layers.1.", "model.language_model.layers.1.");
    let whole = |name: &str| name.replace("model.layers.", "model.language_model.layers.");
    let fault =
        "model.layers.0.input_layernorm.weight and 8 more are not below model.language_model.";
    for (files, found) in [(renamed(moved, &[]), true), (renamed(whole, &[]), false)] {
        let model = Model::open(files.path()).expect("a model");
        let check = ops::check_consistency(&model, Strictness::Default).expect("a check");
        assert_eq!(check.notes.iter().any(|note| note.contains(fault)), found, "{check:?}");
    }
}

/// Vision models whose form in GGUF is not known are left out, and named.
#[test]
fn projectors_and_nested_models_are_named() {
    let files =
        renamed(str::to_owned, &["mm_projector.proj.0.weight", "vision_tower.patch.weight"]);
    let model = Model::open(files.path()).expect("a model");
    let out = tempfile::tempdir().expect("a folder");
    let (_, notes) = written(&model, &ConvertOptions::new(&GGUF), &out.path().join("a.gguf"));
    assert!(notes.contains("mm_projector"), "{notes}");
    let config = json!({"model_type": "qwen2_5_omni", "thinker_config": {"vision_config": {}}});
    put(files.path(), "config.json", config.to_string());
    let model = Model::open(files.path()).expect("a model");
    let options = ConvertOptions::new(&GGUF).projector(true);
    let error = ops::convert(&model, &options).expect_err("not supported");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("part of thinker_config"), "{error}");
}

/// ComfyUI has the vision model of a text encoder in the same GGUF file, under the names of its checkpoint.
#[test]
fn a_vision_model_in_a_gguf_file_keeps_its_names() {
    let name = "visual.blocks.0.attn.proj.weight";
    let number = |key: &str, value| (format!("llama.{key}"), Kv::U32(value));
    let keys = [
        number("block_count", 1),
        number("context_length", 8),
        number("embedding_length", 4),
        number("feed_forward_length", 4),
        number("attention.head_count", 1),
    ];
    let file = Gguf::new()
        .key("general.architecture", Kv::text("llama"))
        .key("llama.attention.layer_norm_rms_epsilon", Kv::F32(1e-5));
    let file = keys.into_iter().fold(file, |file, (key, value)| file.key(&key, value));
    let file = file.tensor("token_embd.weight", DType::F32, &[2, 4], f32s(&[0.5; 8])).tensor(
        name,
        DType::F32,
        &[2, 2],
        f32s(&[1.0, 2.0, 3.0, 4.0]),
    );
    let files = folder(&[("m.gguf", file.build())]);
    let model = Model::open(files.path().join("m.gguf")).expect("a model");
    let to = |container| ops::convert(&model, &ConvertOptions::new(container)).expect("a plan");
    let plan = to(&SAFETENSORS);
    let kept = plan.tensors.iter().find(|tensor| tensor.name == name).expect("the tensor");
    assert_eq!((&*kept.shape, kept.dtype), (&[2, 2][..], DType::F32));
    assert!(plan.notes.iter().any(|note| note.contains("keep the names that the file has")));
    // mlx-lm refuses tensors that its class does not have.
    assert!(to(&MLX).tensors.iter().all(|tensor| tensor.name != name));
    let error = ops::convert(&model, &ConvertOptions::new(&GGUF).projector(true)).unwrap_err();
    let fault = format!("the file has 1 tensors of a vision or audio model, such as {name}");
    assert!(error.to_string().contains(&fault), "{error}");
}

/// llama.cpp reads no numbers of a projector, and counts no layers in it.
#[test]
fn a_projector_is_quantized_as_llama_quantize_does() {
    let keys = Gguf::new()
        .key("general.architecture", Kv::text("clip"))
        .key("general.type", Kv::text("mmproj"));
    let mut file = keys;
    for (name, shape) in [
        ("v.patch_embd.weight", &[32u64, 3, 14, 14][..]),
        ("v.position_embd.weight", &[16, 32]),
        ("v.blk.0.attn_q.weight", &[32, 32]),
        ("v.blk.0.ln1.weight", &[32]),
        ("mm.0.weight", &[32, 64]),
    ] {
        let count = shape.iter().product::<u64>() as usize;
        file = file.tensor(name, DType::F32, shape, f32s(&vec![0.5; count]));
    }
    let files = folder(&[("mmproj.gguf", file.build())]);
    let model = Model::open(files.path().join("mmproj.gguf")).expect("a projector");
    let options = LlamaOptions::new(FileType::Q8_0);
    let path = files.path().join("quantized.gguf");
    let plan = ops::quantize(&model, &options, None, &path).expect("a plan");
    plan.run(&path, &WriteOptions::new()).expect("written");
    let quantized = Model::open(&path).expect("a projector");
    let types: Vec<(String, DType)> = quantized
        .stored_tensors()
        .map(|tensor| (tensor.name().to_owned(), tensor.dtype().expect("a dtype")))
        .collect();
    for (name, dtype) in types {
        let matrix = ["v.blk.0.attn_q.weight", "mm.0.weight"].contains(&&*name);
        assert_eq!(dtype, if matrix { DType::Q8_0 } else { DType::F32 }, "{name}");
    }
}

/// The header of a file of whisper.cpp is its config.
#[test]
fn the_header_of_whisper_cpp_is_a_config() {
    let file = WhisperGgml::whisper(1, 1, &[b"a"]);
    let model = crate::support::open_as(file.build(), weighbridge::Strictness::Default);
    let model = model.expect("a model");
    let config = model.config().expect("a config");
    assert_eq!((config.dim.value, config.n_layers.value), (32, 1));
    assert_eq!(config.encoder.n_audio_ctx.as_ref().map(|field| field.value), Some(8));
    assert_eq!(config.dim.source.as_str(), "whisper.n_text_state");
}

/// whisper.cpp tells English models by the number of tokens alone.
#[test]
fn a_vocabulary_that_whisper_cpp_takes_for_english() {
    for (count, is_taken) in [(51_864u32, false), (51_865, false), (50_368, true)] {
        let mut file = WhisperGgml::whisper(1, 1, &[b"a"]);
        file.header[4..8].copy_from_slice(&count.to_le_bytes());
        let model = crate::support::open_as(file.build(), weighbridge::Strictness::Default);
        let found =
            ops::check_consistency(&model.expect("a model"), weighbridge::Strictness::Strict);
        let faults = found.expect("checked").faults.join("; ");
        let said =
            format!("whisper.n_vocab is {count}: whisper.cpp takes the special tokens of English");
        assert_eq!(faults.contains(&said), is_taken, "{count}: {faults}");
    }
}

/// whisper.cpp loads as many embeddings as the header states.
#[test]
fn embeddings_that_whisper_cpp_does_not_load() {
    for (rows, is_loaded) in [(5u32, true), (4, false)] {
        let name = "decoder.token_embedding.weight";
        let bytes = vec![0u8; 4 * 32 * usize::try_from(rows).expect("a size")];
        let file =
            WhisperGgml::whisper(1, 1, &[b"a"]).tensor(name, DType::F32, &[rows.into(), 32], bytes);
        let model =
            crate::support::open_as(file.filled(49).build(), weighbridge::Strictness::Default);
        let model = model.expect("a model");
        let found = ops::check_consistency(&model, weighbridge::Strictness::Default);
        let faults = found.expect("checked").faults.join("; ");
        let said = format!("whisper.n_vocab is 5, but the embedding has {rows} rows");
        assert_eq!(!faults.contains(&said), is_loaded, "{faults}");
    }
}

/// Without them, transformers does not know how to begin.
#[test]
fn whisper_cpp_s_special_tokens_in_config_json() {
    for (count, end) in [(51_864u32, 50_256), (51_866, 50_257)] {
        let mut file = WhisperGgml::whisper(1, 1, &[b"a"]);
        file.header[4..8].copy_from_slice(&count.to_le_bytes());
        let model = crate::support::open_as(file.build(), weighbridge::Strictness::Default);
        let documents = weighbridge::translate::hf_documents(&model.expect("a model"));
        let documents = documents.expect("documents");
        let config = documents.config.keys().expect("keys").into_owned();
        assert_eq!(config.get("eos_token_id"), Some(&weighbridge::json::Json::from(end)));
        assert_eq!(
            config.get("decoder_start_token_id"),
            Some(&weighbridge::json::Json::from(end + 1))
        );
        assert!(documents.others.iter().all(|(name, _)| *name != "generation_config.json"));
    }
}

#[test]
fn longrope_needs_its_lists() {
    let files = renamed(str::to_owned, &[]);
    let text = std::fs::read_to_string(files.path().join("config.json")).expect("a config");
    let mut config: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    config["rope_scaling"] = json!({"rope_type": "longrope", "short_factor": [1.0, 1.0, 1.0, 1.0]});
    config.as_object_mut().expect("an object").remove("rope_parameters");
    put(files.path(), "config.json", config.to_string());
    let model = Model::open(files.path()).expect("a model");
    let error = ops::convert(&model, &ConvertOptions::new(&GGUF)).expect_err("a list is missing");
    assert!(error.to_string().contains("there is no long_factor"), "{error}");
    // One divisor for each frequency.
    let rotated = model.config().expect("a config").rope.dimension_count.as_ref();
    let half = usize::try_from(rotated.expect("a number").value / 2).expect("a number");
    for (count, is_right) in [(half, true), (half + 1, false)] {
        config["rope_scaling"]["short_factor"] = json!(vec![1.0; half]);
        config["rope_scaling"]["long_factor"] = json!(vec![2.0; count]);
        put(files.path(), "config.json", config.to_string());
        let model = Model::open(files.path()).expect("a model");
        let found = ops::check_consistency(&model, weighbridge::Strictness::Default);
        let faults = found.expect("checked").faults.join("; ");
        let said = format!("long_factor has {count} numbers, but {half} are needed");
        assert_eq!(!faults.contains(&said), is_right, "{faults}");
    }
}
