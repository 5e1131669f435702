//! Directories for mlx-vlm: names and keys that its classes have otherwise than those of mlx-lm and of transformers.

use std::path::{Path, PathBuf};

use crate::support::{Safetensors, f32s, folder};
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use weighbridge::container::{Container, MLX, SAFETENSORS};
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::{Model, WriteOptions};

/// A directory that is written: the names of its tensors, its config and the notes of the plan.
struct Written {
    names: Vec<String>,
    config: Json,
    notes: Vec<String>,
    path: PathBuf,
    _folder: TempDir,
}

impl Written {
    fn of(source: &Path, container: &'static Container) -> Self {
        let model = Model::open(source).unwrap_or_else(|error| panic!("{error}"));
        let plan = ops::convert(&model, &ConvertOptions::new(container));
        let plan = plan.unwrap_or_else(|error| panic!("{error}"));
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("model");
        plan.run(&path, &WriteOptions::new().allow_incomplete(true)).expect("a directory");
        let bytes = std::fs::read(path.join("config.json")).expect("a config");
        let config = serde_json::from_slice(&bytes).expect("JSON");
        let mut names: Vec<String> = plan.tensors.iter().map(|it| it.name.clone()).collect();
        names.sort();
        Self { names, config, notes: plan.notes, path, _folder: folder }
    }
}

/// A model of two tensors of its language model, and others.
fn model(config: &Json, prefix: &str, others: &[&str]) -> TempDir {
    let mut file = Safetensors::new();
    for (name, shape) in [("embed_tokens.weight", &[32, 16][..]), ("norm.weight", &[16])] {
        let count = usize::try_from(shape.iter().product::<u64>()).expect("a size");
        file = file.tensor(&format!("{prefix}{name}"), "F32", shape, f32s(&vec![1.0; count]));
    }
    for name in others {
        file = file.tensor(name, "F32", &[4], f32s(&[1.0; 4]));
    }
    folder(&[("config.json", config.to_string().into_bytes()), ("model.safetensors", file.build())])
}

fn config(class: &str, model_type: &str, text_type: &str, vision_type: &str) -> Json {
    json!({
        "architectures": [class], "model_type": model_type, "tie_word_embeddings": true,
        "text_config": {
            "model_type": text_type, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "vocab_size": 32,
            "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "max_position_embeddings": 64,
            "rms_norm_eps": 1e-6, "tie_word_embeddings": true,
            "rope_parameters": {"rope_type": "default", "rope_theta": 5e5, "mrope_section": [2, 1, 1]},
        },
        "vision_config": {"model_type": vision_type, "hidden_size": 4},
    })
}

/// The classes of Idefics have no `model.` in the names of the language model, and an output matrix.
#[test]
fn language_models_without_a_module() {
    let config = config("Idefics3ForConditionalGeneration", "idefics3", "llama", "idefics3_vision");
    let files = model(&config, "model.text_model.", &["model.vision_model.post_layernorm.weight"]);
    let mlx = Written::of(files.path(), &MLX);
    assert_eq!(
        mlx.names,
        [
            "language_model.embed_tokens.weight",
            "language_model.lm_head.weight",
            "language_model.norm.weight",
            "vision_model.post_layernorm.weight",
        ]
    );
    assert_eq!(mlx.config["text_config"]["tie_word_embeddings"], false);
    let back = Written::of(&mlx.path, &SAFETENSORS);
    assert!(!back.names.iter().any(|name| name.contains("lm_head")), "{:?}", back.names);
    assert!(back.names.contains(&"model.text_model.norm.weight".to_owned()), "{:?}", back.names);
}

/// The class of Qwen3-VL has the names that mlx-vlm's converter writes, and the `model_type` of transformers 4.
#[test]
fn vision_models_under_another_name() {
    let config =
        config("Qwen3VLForConditionalGeneration", "qwen3_vl", "qwen3_vl_text", "qwen3_vl_vision");
    let files = model(&config, "model.language_model.", &["model.visual.merger.norm.weight"]);
    let mlx = Written::of(files.path(), &MLX);
    assert!(mlx.names.contains(&"vision_tower.merger.norm.weight".to_owned()), "{:?}", mlx.names);
    assert_eq!(mlx.config["vision_config"]["model_type"], "qwen3_vl");
    let back = Written::of(&mlx.path, &SAFETENSORS);
    assert!(back.names.contains(&"visual.merger.norm.weight".to_owned()), "{:?}", back.names);
}

/// Transformers 5 saves the vision model of LLaVA without a module that published files and mlx-vlm have.
#[test]
fn vision_models_within_a_module() {
    let llava = |vision: &str| config("LlavaForConditionalGeneration", "llava", "llama", vision);
    for tower in
        ["vision_tower.pre_layrnorm.weight", "vision_tower.vision_model.pre_layrnorm.weight"]
    {
        let files = model(&llava("clip_vision_model"), "language_model.model.", &[tower]);
        let mlx = Written::of(files.path(), &MLX);
        let names = &mlx.names;
        assert!(
            names.contains(&"vision_tower.vision_model.pre_layrnorm.weight".to_owned()),
            "{names:?}"
        );
    }
    // The class has no vision model of Pixtral's, whose names come back as they were.
    let tower = "vision_tower.transformer.layers.0.attention_norm.weight";
    let files = model(&llava("pixtral"), "language_model.model.", &[tower]);
    let mlx = Written::of(files.path(), &MLX);
    assert!(mlx.names.contains(&tower.to_owned()), "{:?}", mlx.names);
}

/// The class of Qwen2-VL reads the keys of the language model at the top, where transformers 4 saved them. The vision
/// model is kept in both forms.
#[test]
fn keys_of_the_language_model_at_the_top() {
    let nested = config("Qwen2VLForConditionalGeneration", "qwen2_vl", "qwen2_vl_text", "qwen2_vl");
    let mut flat = nested["text_config"].clone();
    for key in ["architectures", "model_type", "vision_config"] {
        flat[key] = nested[key].clone();
    }
    flat["rope_theta"] = json!(5e5);
    flat["rope_scaling"] = json!({"type": "mrope", "mrope_section": [2, 1, 1]});
    flat.as_object_mut().expect("an object").remove("rope_parameters");
    for (config, kind) in [(&nested, "default"), (&flat, "mrope")] {
        let files = model(config, "model.", &["visual.merger.ln_q.weight"]);
        let mlx = Written::of(files.path(), &MLX);
        let names = [
            "language_model.model.embed_tokens.weight",
            "language_model.model.norm.weight",
            "visual.merger.ln_q.weight",
        ];
        assert_eq!(mlx.names, names);
        let written = &mlx.config;
        assert_eq!((&written["text_config"], &written["hidden_size"]), (&Json::Null, &json!(16)));
        assert_eq!(
            (&written["model_type"], &written["rope_theta"]),
            (&json!("qwen2_vl"), &json!(5e5))
        );
        assert_eq!(written["rope_scaling"]["type"], kind);
        assert_eq!(written["rope_scaling"]["mrope_section"], json!([2, 1, 1]));
        let back = Written::of(&mlx.path, &SAFETENSORS);
        let names = ["model.embed_tokens.weight", "model.norm.weight", "visual.merger.ln_q.weight"];
        assert_eq!(back.names, names);
        assert!(!mlx.notes.iter().any(|note| note.contains("left out")), "{:?}", mlx.notes);
    }
    // Without the vision model, mlx-lm reads either.
    let mlx = Written::of(model(&nested, "model.", &[]).path(), &MLX);
    assert!(mlx.config["text_config"].is_object());
}

/// The class of GLM-OCR refuses keys that it does not know, such as the older ones that mlx-lm's classes read.
#[test]
fn keys_that_a_class_refuses() {
    let mut config =
        config("GlmOcrForConditionalGeneration", "glm_ocr", "glm_ocr_text", "glm_ocr_vision");
    config["vision_config"]["rope_parameters"] = json!({"rope_type": "axial", "rope_theta": 1e4});
    let files = model(&config, "model.language_model.", &["model.visual.post_layernorm.weight"]);
    let mlx = Written::of(files.path(), &MLX);
    assert_eq!(mlx.config["text_config"].get("rope_theta"), None);
    assert_eq!(mlx.config["text_config"]["rope_parameters"]["rope_theta"], 5e5);
    assert_eq!(
        mlx.config["vision_config"],
        json!({"model_type": "glm_ocr_vision", "hidden_size": 4})
    );
}

/// A class of mlx-vlm may have another vision or language model, and other models have no class in it.
#[test]
fn models_that_mlx_vlm_does_not_load() {
    let told = |class: &str, [model_type, text, vision]: [&str; 3]| {
        let mut config = config(class, model_type, text, vision);
        config["text_config"]["rope_parameters"] =
            json!({"rope_type": "default", "rope_theta": 1e4});
        let files = whole_model(&config);
        Written::of(files.path(), &MLX).notes.join("; ")
    };
    let (llava, internvl) = ("LlavaForConditionalGeneration", "InternVLForConditionalGeneration");
    let vip = "VipLlavaForConditionalGeneration";
    for (class, types, expected) in [
        (
            llava,
            ["llava", "llama", "pixtral"],
            "mlx-lm loads the language model; mlx-vlm, which runs the vision model, does not load the directory: its class \
             requires model_type of vision_config to be clip_vision_model or siglip_vision_model, not pixtral",
        ),
        (
            internvl,
            ["internvl", "llama", "internvl_vision"],
            "mlx-lm has no class for internvl, and mlx-vlm's requires model_type of text_config to be qwen3, not llama: the \
             directory is for other readers",
        ),
        (
            vip,
            ["vipllava", "llama", "clip_vision_model"],
            "neither mlx-lm nor mlx-vlm has a class for vipllava: the directory is for other readers",
        ),
        (
            "AyaVisionForConditionalGeneration",
            ["aya_vision", "llama", "siglip_vision_model"],
            "mlx-lm has no class for aya_vision: the directory is for mlx-vlm",
        ),
    ] {
        let notes = told(class, types);
        assert!(notes.contains(expected), "{notes}");
    }
    let notes = told(llava, ["llava", "llama", "clip_vision_model"]);
    assert!(!notes.contains("mlx-vlm") && !notes.contains("will not load"), "{notes}");
}

/// mlx-lm's class of LLaVA has the layers of Llama, whatever language model config.json names.
#[test]
fn language_models_that_mlx_lm_does_not_load() {
    let config = config("LlavaForConditionalGeneration", "llava", "qwen2", "siglip_vision_model");
    let files = model(&config, "language_model.model.", &["vision_tower.post_layernorm.weight"]);
    let notes = Written::of(files.path(), &MLX).notes.join("; ");
    let expected =
        "mlx-lm will not load this model: its class of llava has a Llama, without biases";
    assert!(notes.contains(expected), "{notes}");
}

/// A model with a layer of Llama and a tensor of a vision model.
fn whole_model(config: &Json) -> TempDir {
    let mut file = Safetensors::new();
    let mut put = |name: &str, shape: &[u64]| {
        let count = usize::try_from(shape.iter().product::<u64>()).expect("a size");
        file = std::mem::take(&mut file).tensor(name, "F32", shape, f32s(&vec![1.0; count]));
    };
    put("language_model.model.embed_tokens.weight", &[32, 16]);
    put("language_model.model.norm.weight", &[16]);
    put("vision_tower.post_layernorm.weight", &[4]);
    for (name, shape) in [
        ("input_layernorm", &[16][..]),
        ("post_attention_layernorm", &[16]),
        ("self_attn.q_proj", &[16, 16]),
        ("self_attn.k_proj", &[8, 16]),
        ("self_attn.v_proj", &[8, 16]),
        ("self_attn.o_proj", &[16, 16]),
        ("mlp.gate_proj", &[32, 16]),
        ("mlp.up_proj", &[32, 16]),
        ("mlp.down_proj", &[16, 32]),
    ] {
        put(&format!("language_model.model.layers.0.{name}.weight"), shape);
    }
    folder(&[("config.json", config.to_string().into_bytes()), ("model.safetensors", file.build())])
}

/// The class of PaddleOCR-VL renames the tensors of published files, and joins some: it has no other names.
#[test]
fn models_that_keep_their_names() {
    let config = config(
        "PaddleOCRVLForConditionalGeneration",
        "paddleocr_vl",
        "paddleocr_vl_text",
        "paddleocr_vl_vision",
    );
    let files = model(
        &config,
        "model.",
        &["visual.vision_model.post_layernorm.weight", "mlp_AR.pre_norm.weight"],
    );
    let mlx = Written::of(files.path(), &MLX);
    assert_eq!(
        mlx.names,
        [
            "lm_head.weight",
            "mlp_AR.pre_norm.weight",
            "model.embed_tokens.weight",
            "model.norm.weight",
            "visual.vision_model.post_layernorm.weight",
        ]
    );
    assert_eq!(mlx.config["vision_config"]["model_type"], "paddleocr_vl");
    assert_eq!(mlx.config["text_config"], Json::Null);
}
