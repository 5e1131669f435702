//! Vision models as GGUF files of their own (mmproj): names, values, dtypes and keys, and what is
//! refused. `xtask/oracles/identical.py` compares such files with those of llama.cpp's converter,
//! byte by byte, and `xtask/oracles/images.py` loads them with llama.cpp.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value as Json, json};
use tempfile::TempDir;
use weighbridge::adapter::Adapter;
use weighbridge::arch::Dialect;
use weighbridge::container::{GGUF, MLX, SAFETENSORS};
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::{DType, Model, Result, WriteOptions};

use crate::support::{Safetensors, f32s, folder, put, told, without_path};

const PROCESSOR: &str = r#"{"image_mean": [0.5, 0.25, 0.125], "image_std": [1.0, 0.5, 0.75]}"#;

/// Tensors in F32 whose values count up from 0: in the order of the names.
fn counted(tensors: &[(&str, &[u64])]) -> Vec<u8> {
    let mut file = Safetensors::new().metadata("format", "pt");
    for (name, shape) in tensors {
        let values: Vec<f32> = (0..shape.iter().product::<u64>()).map(|n| n as f32).collect();
        file = file.tensor(name, "F32", shape, f32s(&values));
    }
    file.build()
}

/// The tensors of a language model of one layer of width 8.
const LANGUAGE: &[(&str, &[u64])] = &[
    ("model.embed_tokens.weight", &[4, 8]),
    ("model.norm.weight", &[8]),
    ("model.layers.0.input_layernorm.weight", &[8]),
    ("model.layers.0.self_attn.q_proj.weight", &[8, 8]),
    ("model.layers.0.self_attn.k_proj.weight", &[8, 8]),
    ("model.layers.0.self_attn.v_proj.weight", &[8, 8]),
    ("model.layers.0.self_attn.o_proj.weight", &[8, 8]),
    ("model.layers.0.post_attention_layernorm.weight", &[8]),
    ("model.layers.0.mlp.gate_proj.weight", &[8, 8]),
    ("model.layers.0.mlp.up_proj.weight", &[8, 8]),
    ("model.layers.0.mlp.down_proj.weight", &[8, 8]),
];

fn language(model_type: &str) -> Json {
    json!({
        "model_type": model_type, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 2, "intermediate_size": 8, "vocab_size": 4, "head_dim": 4,
        "max_position_embeddings": 32, "rms_norm_eps": 1e-6, "tie_word_embeddings": true,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 0]}
    })
}

/// A model with images: its config, and the tensors of its vision model.
fn model(config: &Json, vision: &[(&str, &[u64])]) -> TempDir {
    let tensors = [LANGUAGE, vision].concat();
    let folder = folder(&[("model.safetensors", counted(&tensors))]);
    put(folder.path(), "config.json", config.to_string());
    put(folder.path(), "preprocessor_config.json", PROCESSOR);
    folder
}

fn projector(source: &Path, options: ConvertOptions) -> Result<(TempDir, Model, Vec<String>)> {
    let target = tempfile::tempdir().expect("a temporary folder");
    let path = target.path().join("mmproj.gguf");
    let source = Model::open(source)?;
    let plan = ops::convert(&source, &options.projector(true))?;
    assert_eq!(crate::write::account::lacking(&source, &plan, "mmproj"), [""; 0]);
    let notes = plan.notes.clone();
    plan.run(&path, &WriteOptions::new())?;
    let model = Model::open(&path)?;
    Ok((target, model, notes))
}

/// The tensors of a file: names, dtypes, shapes and the first values; then its keys.
fn contents(model: &Model) -> String {
    let mut out = String::new();
    for tensor in model.stored_tensors() {
        let values = tensor.dequantize().expect("values");
        let first: Vec<f32> = values.iter().copied().take(8).collect();
        writeln!(out, "{} {} {:?} {first:?}", tensor.name(), tensor.dtype_label(), tensor.shape())
            .expect("a text");
    }
    // The name is that of the temporary folder.
    for (key, value) in model.metadata().iter().filter(|(key, _)| *key != "general.name") {
        writeln!(out, "{key} = {value:?}").expect("a text");
    }
    out
}

fn refused(source: &TempDir, options: ConvertOptions) -> String {
    match projector(source.path(), options) {
        Ok((_, model, _)) => format!("written, with {} tensors", model.len()),
        Err(error) => without_path(&told(&error), source.path()),
    }
}

/// An adapter that changes the vision model changes the file of the vision model.
#[test]
fn adapters_of_vision_models_are_merged() {
    let mut config = json!({"model_type": "gemma3", "text_config": language("gemma3_text")});
    config["vision_config"] = json!({
        "model_type": "siglip_vision_model", "hidden_size": 4, "intermediate_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 1, "image_size": 8, "patch_size": 2
    });
    let name = "vision_tower.vision_model.encoder.layers.0.self_attn.q_proj";
    let weight = format!("{name}.weight");
    let source = model(&config, &[(&weight, &[4, 4])]);
    let half = |end: &str| format!("base_model.model.{name}.{end}.weight");
    let pair = Safetensors::new()
        .tensor(&half("lora_A"), "F32", &[1, 4], f32s(&[1.0, 0.0, 0.0, 0.0]))
        .tensor(&half("lora_B"), "F32", &[4, 1], f32s(&[100.0, 0.0, 0.0, 0.0]));
    let stated =
        json!({"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": ["q_proj"]});
    let adapter = folder(&[("adapter_model.safetensors", pair.build())]);
    put(adapter.path(), "adapter_config.json", stated.to_string());
    let adapter = Adapter::open(adapter.path()).expect("an adapter");
    let options = ConvertOptions::new(&GGUF).adapter(adapter, 1.0);
    let (_folder, written, _) = projector(source.path(), options).expect("a projector");
    let values = written.stored_tensor("v.blk.0.attn_q.weight").unwrap().dequantize().unwrap();
    assert_eq!(values[..5], [100.0, 1.0, 2.0, 3.0, 4.0]);
}

/// The matrices of q, k and v may be stored as one, which GGUF has apart.
#[test]
fn adapters_of_fused_matrices_of_vision_models_are_merged() {
    let (config, vision) = qwen2_vl();
    let source = model(&config, &vision);
    let name = "base_model.model.visual.blocks.0.attn.qkv";
    let pair = Safetensors::new()
        .tensor(&format!("{name}.lora_A.weight"), "F32", &[1, 4], f32s(&[1.0, 0.0, 0.0, 0.0]))
        .tensor(
            &format!("{name}.lora_B.weight"),
            "F32",
            &[12, 1],
            f32s(&[0.0, 0.0, 0.0, 0.0, 100.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 200.0]),
        );
    let stated = json!({"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": ["qkv"]});
    let adapter = folder(&[("adapter_model.safetensors", pair.build())]);
    put(adapter.path(), "adapter_config.json", stated.to_string());
    let adapter = Adapter::open(adapter.path()).expect("an adapter");
    let options = ConvertOptions::new(&GGUF).adapter(adapter, 1.0);
    let (_folder, written, _) = projector(source.path(), options).expect("a projector");
    let values = |part: &str| {
        let name = format!("v.blk.0.attn_{part}.weight");
        written.stored_tensor(&name).unwrap().dequantize().unwrap().to_vec()
    };
    assert_eq!(values("q")[..4], [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(values("k")[..5], [116.0, 17.0, 18.0, 19.0, 20.0]);
    assert_eq!(values("v")[12..], [244.0, 45.0, 46.0, 47.0]);
}

/// mlx-vlm renames the tensors of vision models, and stores convolutions with their channels last.
#[test]
fn vision_models_of_mlx_vlm_are_called_so() {
    let (mut config, mut vision) = qwen2_vl();
    config["quantization"] = json!({"group_size": 64, "bits": 4});
    vision.push(("visual.layers.0.norm.weight", &[4]));
    let source = model(&config, &vision);
    let told = told(&projector(source.path(), ConvertOptions::new(&GGUF)).unwrap_err());
    assert!(told.contains("may be mlx-vlm's: convert the directory"), "{told}");
    let plan = ops::convert(&Model::open(source.path()).unwrap(), &ConvertOptions::new(&GGUF));
    let notes = plan.expect("a plan").notes.join("; ");
    assert!(notes.contains("may be mlx-vlm's"), "{notes}");
}

/// Programs that wrap a model put a text before the names of its towers too.
#[test]
fn names_of_wrapped_towers() {
    let (config, vision) = qwen2_vl();
    let plain = model(&config, &vision);
    let expected = contents(&projector(plain.path(), ConvertOptions::new(&GGUF)).expect("it").1);
    for wrapper in ["_orig_mod.", "base_model.model."] {
        let tensors = [LANGUAGE, &vision].concat();
        let renamed: Vec<(String, &[u64])> =
            tensors.iter().map(|(name, shape)| (format!("{wrapper}{name}"), *shape)).collect();
        let renamed: Vec<(&str, &[u64])> =
            renamed.iter().map(|(name, shape)| (name.as_str(), *shape)).collect();
        let wrapped = model(&config, &vision);
        put(wrapped.path(), "model.safetensors", counted(&renamed));
        let found = projector(wrapped.path(), ConvertOptions::new(&GGUF));
        let (_folder, found, _) = found.unwrap_or_else(|error| panic!("{wrapper}: {error}"));
        assert_eq!(contents(&found), expected, "{wrapper}");
        let names = |files: &TempDir, dialect| {
            let whole = Model::open(files.path()).expect("a model");
            let tensors = whole.tensors_in(dialect).expect("names").tensors;
            tensors.iter().map(|tensor| tensor.name().to_owned()).collect::<Vec<_>>()
        };
        for dialect in [Dialect::HuggingFace, Dialect::Mlx] {
            assert_eq!(names(&wrapped, dialect), names(&plain, dialect), "{wrapper}");
        }
    }
}

fn qwen2_vl() -> (Json, Vec<(&'static str, &'static [u64])>) {
    let mut config = language("qwen2_vl");
    config["vision_config"] =
        json!({"depth": 1, "embed_dim": 4, "hidden_size": 8, "num_heads": 1, "patch_size": 2});
    let vision: Vec<(&str, &[u64])> = vec![
        ("visual.patch_embed.proj.weight", &[4, 3, 2, 2, 2]),
        ("visual.blocks.0.norm1.weight", &[4]),
        ("visual.blocks.0.norm1.bias", &[4]),
        ("visual.blocks.0.attn.qkv.weight", &[12, 4]),
        ("visual.blocks.0.attn.qkv.bias", &[12]),
        ("visual.blocks.0.attn.proj.weight", &[4, 4]),
        ("visual.blocks.0.mlp.fc1.weight", &[16, 4]),
        ("visual.blocks.0.mlp.fc2.weight", &[4, 16]),
        ("visual.merger.ln_q.weight", &[4]),
        ("visual.merger.mlp.0.weight", &[16, 16]),
        ("visual.merger.mlp.2.weight", &[8, 16]),
    ];
    (config, vision)
}

#[test]
fn qwen2_vl_splits_queries_keys_and_frames() {
    let (mut config, vision) = qwen2_vl();
    config["_name_or_path"] = "Qwen/qwen2-vl".into();
    let source = model(&config, &vision);
    let options = ConvertOptions::new(&GGUF).dtype(DType::F16);
    let (_folder, written, _) = projector(source.path(), options).expect("a projector");
    assert_eq!(written.metadata().str("general.name"), Some("Qwen2 Vl"));
    insta::assert_snapshot!(contents(&written), @r#"
    v.patch_embd.weight F16 [4, 3, 2, 2] [0.0, 1.0, 2.0, 3.0, 8.0, 9.0, 10.0, 11.0]
    v.patch_embd.weight.1 F16 [4, 3, 2, 2] [4.0, 5.0, 6.0, 7.0, 12.0, 13.0, 14.0, 15.0]
    v.blk.0.ln1.weight F32 [4] [0.0, 1.0, 2.0, 3.0]
    v.blk.0.ln1.bias F32 [4] [0.0, 1.0, 2.0, 3.0]
    v.blk.0.attn_q.weight F16 [4, 4] [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    v.blk.0.attn_k.weight F16 [4, 4] [16.0, 17.0, 18.0, 19.0, 20.0, 21.0, 22.0, 23.0]
    v.blk.0.attn_v.weight F16 [4, 4] [32.0, 33.0, 34.0, 35.0, 36.0, 37.0, 38.0, 39.0]
    v.blk.0.attn_q.bias F32 [4] [0.0, 1.0, 2.0, 3.0]
    v.blk.0.attn_k.bias F32 [4] [4.0, 5.0, 6.0, 7.0]
    v.blk.0.attn_v.bias F32 [4] [8.0, 9.0, 10.0, 11.0]
    v.blk.0.attn_out.weight F16 [4, 4] [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    v.blk.0.ffn_up.weight F16 [16, 4] [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    v.blk.0.ffn_down.weight F16 [4, 16] [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    v.post_ln.weight F32 [4] [0.0, 1.0, 2.0, 3.0]
    mm.0.weight F16 [16, 16] [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    mm.2.weight F16 [8, 16] [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    general.architecture = String("clip")
    general.type = String("mmproj")
    general.size_label = String("0.7K")
    general.file_type = U32(1)
    clip.has_vision_encoder = Bool(true)
    clip.vision.projection_dim = U32(8)
    clip.vision.image_size = U32(560)
    clip.vision.patch_size = U32(2)
    clip.vision.embedding_length = U32(4)
    clip.vision.feed_forward_length = U32(8)
    clip.vision.block_count = U32(1)
    clip.vision.attention.head_count = U32(1)
    clip.vision.image_mean = Array([f32; 3])
    clip.vision.image_std = Array([f32; 3])
    clip.projector_type = String("qwen2vl_merger")
    clip.vision.attention.layer_norm_epsilon = F32(1e-6)
    general.quantization_version = U32(2)
    "#);
}

#[test]
fn gemma3_adds_one_to_the_norm_of_the_projector() {
    let mut config = json!({"model_type": "gemma3", "text_config": language("gemma3_text")});
    config["vision_config"] = json!({
        "model_type": "siglip_vision_model", "hidden_size": 4, "intermediate_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 1, "image_size": 8, "patch_size": 2
    });
    let vision: &[(&str, &[u64])] = &[
        ("vision_tower.vision_model.embeddings.patch_embedding.weight", &[4, 3, 2, 2]),
        ("vision_tower.vision_model.embeddings.position_embedding.weight", &[16, 4]),
        ("vision_tower.vision_model.encoder.layers.0.self_attn.q_proj.weight", &[4, 4]),
        ("vision_tower.vision_model.head.probe", &[1, 1, 4]),
        ("multi_modal_projector.mm_input_projection_weight", &[4, 8]),
        ("multi_modal_projector.mm_soft_emb_norm.weight", &[4]),
    ];
    let source = model(&config, vision);
    let (_folder, written, notes) =
        projector(source.path(), ConvertOptions::new(&GGUF)).expect("a projector");
    insta::assert_snapshot!(contents(&written), @r#"
    v.patch_embd.weight F32 [4, 3, 2, 2] [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    v.position_embd.weight F32 [16, 4] [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    v.blk.0.attn_q.weight F32 [4, 4] [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    mm.input_projection.weight F16 [4, 8] [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    mm.soft_emb_norm.weight F32 [4] [1.0, 2.0, 3.0, 4.0]
    general.architecture = String("clip")
    general.type = String("mmproj")
    general.size_label = String("0.16K")
    general.file_type = U32(0)
    clip.has_vision_encoder = Bool(true)
    clip.vision.projection_dim = U32(8)
    clip.vision.image_size = U32(8)
    clip.vision.patch_size = U32(2)
    clip.vision.embedding_length = U32(4)
    clip.vision.feed_forward_length = U32(8)
    clip.vision.block_count = U32(1)
    clip.vision.attention.head_count = U32(1)
    clip.vision.image_mean = Array([f32; 3])
    clip.vision.image_std = Array([f32; 3])
    clip.projector_type = String("gemma3")
    clip.vision.attention.layer_norm_epsilon = F32(1e-6)
    clip.use_gelu = Bool(true)
    general.quantization_version = U32(2)
    "#);
    insta::assert_snapshot!(notes.join("\n"), @"left out: vision_tower.vision_model.head.probe: llama.cpp has no use for it");
}

#[test]
fn pixtral_permutes_heads_and_takes_a_row_of_the_embedding() {
    let mut config = json!({"model_type": "mistral3", "spatial_merge_size": 2, "text_config": language("mistral")});
    config["vision_config"] = json!({
        "model_type": "pixtral", "hidden_size": 4, "intermediate_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 1, "image_size": 8, "patch_size": 2, "hidden_act": "silu"
    });
    let vision: &[(&str, &[u64])] = &[
        ("vision_tower.patch_conv.weight", &[4, 3, 2, 2]),
        ("vision_tower.ln_pre.weight", &[4]),
        ("vision_tower.transformer.layers.0.attention.q_proj.weight", &[4, 4]),
        ("vision_tower.transformer.layers.0.attention.v_proj.weight", &[4, 4]),
        ("multi_modal_projector.norm.weight", &[4]),
        ("multi_modal_projector.patch_merger.merging_layer.weight", &[4, 16]),
        ("multi_modal_projector.linear_1.weight", &[8, 4]),
    ];
    let source = model(&config, vision);
    let options = || ConvertOptions::new(&GGUF).dtype(DType::BF16);
    insta::assert_snapshot!(refused(&source, options()), @"Unsupported: .: an mmproj file requires the token [IMG_BREAK], which no tokenizer file has");
    let known = json!({"added_tokens_decoder": {"2": {"content": "[IMG_BREAK]"}}});
    put(source.path(), "tokenizer_config.json", known.to_string());
    let (_folder, written, _) = projector(source.path(), options()).expect("a projector");
    insta::assert_snapshot!(contents(&written), @r#"
    v.token_embd.img_break F32 [8] [16.0, 17.0, 18.0, 19.0, 20.0, 21.0, 22.0, 23.0]
    v.patch_embd.weight F32 [4, 3, 2, 2] [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    v.pre_ln.weight F32 [4] [0.0, 1.0, 2.0, 3.0]
    v.blk.0.attn_q.weight BF16 [4, 4] [0.0, 1.0, 2.0, 3.0, 8.0, 9.0, 10.0, 11.0]
    v.blk.0.attn_v.weight BF16 [4, 4] [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    mm.input_norm.weight F32 [4] [0.0, 1.0, 2.0, 3.0]
    mm.patch_merger.weight F32 [4, 16] [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    mm.1.weight BF16 [8, 4] [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    general.architecture = String("clip")
    general.type = String("mmproj")
    general.size_label = String("0.19K")
    general.file_type = U32(32)
    clip.has_vision_encoder = Bool(true)
    clip.vision.projection_dim = U32(8)
    clip.vision.image_size = U32(8)
    clip.vision.patch_size = U32(2)
    clip.vision.embedding_length = U32(4)
    clip.vision.feed_forward_length = U32(8)
    clip.vision.block_count = U32(1)
    clip.vision.attention.head_count = U32(1)
    clip.vision.image_mean = Array([f32; 3])
    clip.vision.image_std = Array([f32; 3])
    clip.projector_type = String("pixtral")
    clip.vision.attention.layer_norm_epsilon = F32(1e-5)
    clip.use_silu = Bool(true)
    clip.vision.spatial_merge_size = U32(2)
    general.quantization_version = U32(2)
    "#);
}

#[test]
fn qwen3_vl_numbers_its_mergers_by_layers() {
    let mut config = json!({"model_type": "qwen3_vl", "text_config": language("qwen3_vl_text")});
    config["vision_config"] = json!({
        "depth": 2, "hidden_size": 4, "intermediate_size": 8, "num_heads": 1, "patch_size": 2,
        "num_position_embeddings": 16, "spatial_merge_size": 2, "deepstack_visual_indexes": [1]
    });
    let vision: &[(&str, &[u64])] = &[
        ("model.visual.patch_embed.proj.weight", &[4, 3, 2, 2, 2]),
        ("model.visual.patch_embed.proj.bias", &[4]),
        ("model.visual.pos_embed.weight", &[16, 4]),
        ("model.visual.blocks.0.attn.qkv.weight", &[12, 4]),
        ("model.visual.blocks.1.attn.qkv.weight", &[12, 4]),
        ("model.visual.merger.linear_fc2.weight", &[8, 16]),
        ("model.visual.deepstack_merger_list.0.linear_fc1.weight", &[16, 16]),
    ];
    let source = model(&config, vision);
    let (_folder, written, _) =
        projector(source.path(), ConvertOptions::new(&GGUF)).expect("a projector");
    insta::assert_snapshot!(contents(&written), @r#"
    v.patch_embd.weight F32 [4, 3, 2, 2] [0.0, 1.0, 2.0, 3.0, 8.0, 9.0, 10.0, 11.0]
    v.patch_embd.weight.1 F32 [4, 3, 2, 2] [4.0, 5.0, 6.0, 7.0, 12.0, 13.0, 14.0, 15.0]
    v.patch_embd.bias F32 [4] [0.0, 1.0, 2.0, 3.0]
    v.position_embd.weight F32 [16, 4] [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    v.blk.0.attn_qkv.weight F32 [12, 4] [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    v.blk.1.attn_qkv.weight F32 [12, 4] [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    mm.2.weight F32 [8, 16] [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    v.deepstack.1.fc1.weight F32 [16, 16] [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    general.architecture = String("clip")
    general.type = String("mmproj")
    general.size_label = String("0.6K")
    general.file_type = U32(0)
    clip.has_vision_encoder = Bool(true)
    clip.vision.projection_dim = U32(8)
    clip.vision.image_size = U32(8)
    clip.vision.patch_size = U32(2)
    clip.vision.embedding_length = U32(4)
    clip.vision.feed_forward_length = U32(8)
    clip.vision.block_count = U32(2)
    clip.vision.attention.head_count = U32(1)
    clip.vision.image_mean = Array([f32; 3])
    clip.vision.image_std = Array([f32; 3])
    clip.projector_type = String("qwen3vl_merger")
    clip.use_gelu = Bool(true)
    clip.vision.spatial_merge_size = U32(2)
    clip.vision.attention.layer_norm_epsilon = F32(1e-6)
    clip.vision.is_deepstack_layers = Array([bool; 2])
    general.quantization_version = U32(2)
    "#);
    // An MLX directory has the names of mlx-vlm's class.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mlx = folder.path().join("mlx");
    let plan = ops::convert(&Model::open(source.path()).unwrap(), &ConvertOptions::new(&MLX));
    plan.unwrap().run(&mlx, &WriteOptions::new().allow_incomplete(true)).expect("a directory");
    let (_folder, same, _) = projector(&mlx, ConvertOptions::new(&GGUF)).expect("a projector");
    let lines = |model: &Model| {
        let mut lines: Vec<_> = contents(model).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(lines(&same), lines(&written));
}

/// A vision model without its language model is no model without a vision model, and completes no text.
#[test]
fn a_tower_alone_is_named() {
    for class in ["SiglipVisionModel", "CLIPVisionModel"] {
        let config = json!({"architectures": [class], "model_type": "siglip_vision_model", "hidden_size": 8});
        let file = counted(&[("embeddings.position_embedding.weight", &[4, 8])]);
        let folder = folder(&[
            ("config.json", config.to_string().into_bytes()),
            ("model.safetensors", file),
        ]);
        let model = Model::open(folder.path()).expect("a model");
        let error = refused(&folder, ConvertOptions::new(&GGUF));
        assert!(error.contains(&format!("a vision or audio model alone ({class})")), "{error}");
        assert!(ops::summarize(&model).capabilities.is_empty());
    }
}

#[test]
fn what_cannot_be_written_is_refused_with_the_word_mmproj() {
    let (config, vision) = qwen2_vl();
    let gguf = || ConvertOptions::new(&GGUF);
    let mut told = String::new();
    let mut tell = |what: &str, text: String| writeln!(told, "{what}: {text}\n").expect("a text");
    let whole = model(&config, &vision);
    tell("another container", refused(&whole, ConvertOptions::new(&SAFETENSORS)));
    tell("another dtype", refused(&whole, gguf().dtype(DType::Q4_K)));
    tell("a loss", refused(&whole, gguf().dtype(DType::F16).lossless(true)));
    tell("no vision model", refused(&model(&language("qwen2"), &[]), gguf()));
    let mut other = config.clone();
    other["vision_config"] = json!({"model_type": "clip_vision_model"});
    other["model_type"] = "llava".into();
    other["text_config"] = language("llama");
    tell("an unknown kind", refused(&model(&other, &vision), gguf()));
    let mut more = config.clone();
    more["vision_config"]["depth"] = 2.into();
    tell("a layer too few", refused(&model(&more, &vision), gguf()));
    let mut less = config.clone();
    less["vision_config"].as_object_mut().expect("an object").remove("num_heads");
    tell("a number too few", refused(&model(&less, &vision), gguf()));
    let unknown = [&vision[..], &[("visual.unheard_of.weight", &[4])]].concat();
    tell("an unknown tensor", refused(&model(&config, &unknown), gguf()));
    let mut last: Vec<(&str, &[u64])> = vision.clone();
    last[0].1 = &[4, 2, 2, 2, 3];
    tell("channels last", refused(&model(&config, &last), gguf()));
    last[0].1 = &[4, 3, 3, 2, 2];
    tell("three frames", refused(&model(&config, &last), gguf()));
    std::fs::remove_file(whole.path().join("preprocessor_config.json")).expect("removed");
    tell("no preprocessor", refused(&whole, gguf()));
    insta::assert_snapshot!(told, @r#"
    another container: Unsupported: .: an mmproj file is a GGUF file without quantization rules

    another dtype: Unsupported: .: Q4_K, but matrices of an mmproj file are written as F32, F16, BF16, Q8_0

    a loss: Unsupported: .: tensor "v.patch_embd.weight": F16 does not hold every value of F32, but the result must be lossless

    no vision model: Unsupported: .: the model has no vision model, so that there is no mmproj file to write

    an unknown kind: Unsupported: .: no mmproj file can be written for a vision model "clip_vision_model" of a model "llava"
    help: llama.cpp's convert_hf_to_gguf.py --mmproj may be able to write the file

    a layer too few: Malformed: .: key "config.json vision_config": 2 layers, but the vision model has 1

    a number too few: Unsupported: .: an mmproj file requires vision_config.num_heads, which config.json lacks

    an unknown tensor: Unsupported: .: tensor "visual.unheard_of.weight": not a known tensor of this vision model (mmproj)
    help: llama.cpp's convert_hf_to_gguf.py --mmproj may be able to write the file

    channels last: Mismatch: .: tensor "visual.patch_embed.proj.weight": shape [4, 2, 2, 2, 3], but [outputs, 3, ..] is needed

    three frames: Mismatch: .: tensor "v.patch_embd.weight": shape [4, 3, 3, 2, 2], but [outputs, channels, 2, height, width] is needed

    no preprocessor: Unsupported: .: an mmproj file requires image_mean, which preprocessor_config.json lacks
    "#);
}

#[test]
fn a_language_model_alone_names_the_second_file() {
    let (config, vision) = qwen2_vl();
    let source = model(&config, &vision);
    let plan = Model::open(source.path())
        .and_then(|model| ops::convert(&model, &ConvertOptions::new(&GGUF)))
        .expect("a plan");
    insta::assert_snapshot!(plan.notes.join("\n"), @"
    left out: visual.patch_embed.proj.weight and 10 more: part of the vision model, not of the language model
    llama.cpp reads the vision or audio model from a file of its own (mmproj): converting with mmproj writes that file
    no tokenizer file next to the weights: llama.cpp does not load the file
    ");
}

#[test]
fn documents_of_images_stay_with_the_model() {
    let (config, vision) = qwen2_vl();
    let source = model(&config, &vision);
    let target = tempfile::tempdir().expect("a temporary folder");
    let path = target.path().join("copy");
    let model = Model::open(source.path()).expect("a model");
    let plan = ops::convert(&model, &ConvertOptions::new(&SAFETENSORS)).expect("a plan");
    plan.run(&path, &WriteOptions::new()).expect("written");
    let copied = std::fs::read_to_string(path.join("preprocessor_config.json")).expect("a file");
    assert_eq!(copied, PROCESSOR);
}

/// Gemma 4 has an audio model beside the vision model, and limits of values around its matrices.
#[test]
fn gemma4_has_channels_behind_pixels_and_an_audio_model() {
    let mut text = language("gemma4_text");
    text["layer_types"] = json!(["full_attention"]);
    let mut config = json!({"model_type": "gemma4", "text_config": text});
    config["vision_config"] = json!({
        "model_type": "gemma4_vision", "hidden_size": 4, "intermediate_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 1, "patch_size": 2
    });
    config["audio_config"] = json!({
        "model_type": "gemma4_audio", "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1
    });
    let vision: &[(&str, &[u64])] = &[
        ("model.vision_tower.patch_embedder.input_proj.weight", &[4, 12]),
        ("model.vision_tower.patch_embedder.position_embedding_table", &[2, 4, 4]),
        ("model.vision_tower.encoder.layers.0.pre_feedforward_layernorm.weight", &[4]),
        ("model.vision_tower.encoder.layers.0.self_attn.q_proj.linear.weight", &[4, 4]),
        ("model.vision_tower.encoder.layers.0.self_attn.q_proj.input_max", &[]),
        ("model.embed_vision.embedding_projection.weight", &[8, 4]),
        ("model.audio_tower.layers.0.self_attn.per_dim_scale", &[4]),
        ("model.audio_tower.layers.0.lconv1d.depthwise_conv1d.weight", &[4, 1, 5]),
        ("model.audio_tower.layers.0.feed_forward2.ffw_layer_1.linear.weight", &[16, 4]),
        ("model.audio_tower.subsample_conv_projection.layer1.conv.weight", &[2, 1, 3, 3]),
        ("model.embed_audio.embedding_projection.weight", &[8, 4]),
    ];
    let source = model(&config, vision);
    let options = ConvertOptions::new(&GGUF).dtype(DType::F16);
    let (_folder, written, _) = projector(source.path(), options).expect("a projector");
    insta::assert_snapshot!(contents(&written));
    // The shape of a row is that of a square of pixels.
    let odd = [&vision[1..], &[("model.vision_tower.patch_embedder.input_proj.weight", &[4, 9])]];
    insta::assert_snapshot!(refused(&model(&config, &odd.concat()), ConvertOptions::new(&GGUF)));
}

#[test]
fn llama4_has_a_second_norm_and_a_projector_of_three_layers() {
    let mut config = json!({"model_type": "llama4", "text_config": language("llama4_text")});
    config["vision_config"] = json!({
        "model_type": "llama4_vision_model", "hidden_size": 4, "intermediate_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 1, "image_size": 4, "patch_size": 2, "norm_eps": 1e-5, "hidden_act": "gelu",
        "pixel_shuffle_ratio": 0.5
    });
    let vision: &[(&str, &[u64])] = &[
        ("vision_model.class_embedding", &[4]),
        ("vision_model.positional_embedding_vlm", &[5, 4]),
        ("vision_model.patch_embedding.linear.weight", &[4, 12]),
        ("vision_model.model.layers.0.post_attention_layernorm.bias", &[4]),
        ("vision_model.vision_adapter.mlp.fc1.weight", &[4, 4]),
        ("vision_model.vision_adapter.mlp.fc2.weight", &[4, 4]),
        ("multi_modal_projector.linear_1.weight", &[8, 4]),
    ];
    let source = model(&config, vision);
    let options = ConvertOptions::new(&GGUF).dtype(DType::F16);
    let (_folder, written, _) = projector(source.path(), options).expect("a projector");
    insta::assert_snapshot!(contents(&written));
    config["vision_config"]["pixel_shuffle_ratio"] = json!(2.0);
    insta::assert_snapshot!(refused(&model(&config, vision), ConvertOptions::new(&GGUF)));
}

#[test]
fn internvl_under_both_of_its_names() {
    let vision_config = json!({
        "hidden_size": 4, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1,
        "image_size": 4, "patch_size": 2, "layer_norm_eps": 1e-6, "hidden_act": "gelu"
    });
    let published: &[(&str, &[u64])] = &[
        ("vision_model.embeddings.class_embedding", &[1, 1, 4]),
        ("vision_model.embeddings.position_embedding", &[1, 5, 4]),
        ("vision_model.encoder.layers.0.attn.qkv.bias", &[12]),
        ("vision_model.encoder.layers.0.ls1", &[4]),
        ("mlp1.3.weight", &[8, 8]),
    ];
    let mut config = json!({
        "model_type": "internvl_chat", "downsample_ratio": 0.5, "min_dynamic_patch": 1, "max_dynamic_patch": 12,
        "llm_config": language("qwen2"), "vision_config": vision_config
    });
    let options = || ConvertOptions::new(&GGUF).dtype(DType::F16);
    let source = model(&config, published);
    let (_folder, written, _) = projector(source.path(), options()).expect("a projector");
    insta::assert_snapshot!(contents(&written));
    let of_transformers: &[(&str, &[u64])] = &[
        ("model.vision_tower.embeddings.cls_token", &[1, 1, 4]),
        ("model.vision_tower.encoder.layer.0.lambda_2", &[4]),
        ("model.vision_tower.encoder.layer.0.attention.projection_layer.weight", &[4, 4]),
        ("model.multi_modal_projector.layer_norm.weight", &[16]),
    ];
    config["model_type"] = json!("internvl");
    config["text_config"] = config["llm_config"].take();
    config["vision_config"]["image_size"] = json!([4, 4]);
    config["vision_config"]["patch_size"] = json!([2, 2]);
    let source = model(&config, of_transformers);
    let (_folder, written, _) = projector(source.path(), options()).expect("a projector");
    insta::assert_snapshot!(contents(&written));
}

#[test]
fn glm4v_merges_patches_by_a_convolution() {
    let mut config = json!({"model_type": "glm4v", "text_config": language("glm4v_text")});
    config["vision_config"] = json!({
        "model_type": "glm4v_vision", "hidden_size": 4, "intermediate_size": 8, "depth": 1, "num_heads": 1,
        "image_size": 8, "patch_size": 2, "hidden_act": "silu", "rms_norm_eps": 1e-5
    });
    let vision: &[(&str, &[u64])] = &[
        ("model.visual.patch_embed.proj.weight", &[4, 3, 2, 2, 2]),
        ("model.visual.post_conv_layernorm.weight", &[4]),
        ("model.visual.blocks.0.attn.qkv.weight", &[12, 4]),
        ("model.visual.blocks.0.attn.q_norm.weight", &[4]),
        ("model.visual.downsample.weight", &[8, 4, 2, 2]),
        ("model.visual.merger.post_projection_norm.bias", &[8]),
        ("model.visual.merger.proj.weight", &[8, 8]),
    ];
    let options = ConvertOptions::new(&GGUF).dtype(DType::F16);
    let source = model(&config, vision);
    let (_folder, written, _) = projector(source.path(), options).expect("a projector");
    insta::assert_snapshot!(contents(&written));
}

#[test]
fn lfm2_vl_counts_the_layers_up_to_the_one_that_is_used() {
    let mut config =
        json!({"model_type": "lfm2_vl", "downsample_factor": 2, "text_config": language("lfm2")});
    config["text_config"]["layer_types"] = json!(["full_attention"]);
    config["vision_config"] = json!({
        "model_type": "siglip2_vision_model", "hidden_size": 4, "intermediate_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 1, "patch_size": 2, "layer_norm_eps": 1e-6
    });
    let vision: &[(&str, &[u64])] = &[
        ("model.vision_tower.vision_model.embeddings.patch_embedding.weight", &[4, 12]),
        ("model.vision_tower.vision_model.encoder.layers.0.mlp.fc1.bias", &[8]),
        ("model.vision_tower.post_layernorm.weight", &[4]),
        ("model.multi_modal_projector.layer_norm.weight", &[16]),
        ("model.multi_modal_projector.linear_1.weight", &[8, 16]),
    ];
    let options = ConvertOptions::new(&GGUF).dtype(DType::F16);
    let source = model(&config, vision);
    let (_folder, written, _) = projector(source.path(), options).expect("a projector");
    insta::assert_snapshot!(contents(&written));
    // Older files of the model have this name.
    config["model_type"] = json!("lfm2-vl");
    let options = ConvertOptions::new(&GGUF).dtype(DType::F16);
    let source = model(&config, vision);
    let (_folder, older, _) = projector(source.path(), options).expect("a projector");
    assert_eq!(contents(&older), contents(&written));
    // The layers that are not used are in the file, and are not counted.
    let second = "model.vision_tower.vision_model.encoder.layers.1.mlp.fc1.bias";
    let both = [vision, &[(second, &[8])]].concat();
    config["vision_config"]["num_hidden_layers"] = json!(2);
    let mut found = |layer: i32| {
        config["vision_feature_layer"] = json!(layer);
        key_or_fault(&model(&config, &both), "clip.vision.block_count")
    };
    assert_eq!([-1, -2].map(&mut found), ["U32(2)", "U32(1)"]);
    for layer in [0, 1, -3] {
        let said = found(layer);
        assert!(said.contains("vision_feature_layer") && said.contains("-2 to -1"), "{said}");
    }
}

#[test]
fn minicpmv_merges_patches_behind_a_layer() {
    let mut config = json!({"model_type": "minicpmv4_6", "insert_layer_id": 3, "text_config": language("qwen2")});
    config["vision_config"] = json!({
        "model_type": "minicpmv4_6_vision", "hidden_size": 4, "intermediate_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 1, "image_size": 8, "patch_size": 2
    });
    let vision: &[(&str, &[u64])] = &[
        ("model.vision_tower.embeddings.patch_embedding.weight", &[4, 3, 2, 2]),
        ("model.vision_tower.encoder.layers.0.mlp.fc1.bias", &[8]),
        ("model.vision_tower.vit_merger.linear_1.weight", &[8, 16]),
        ("model.merger.mlp.0.pre_norm.weight", &[16]),
    ];
    let source = model(&config, vision);
    let (_folder, written, _) =
        projector(source.path(), ConvertOptions::new(&GGUF)).expect("a projector");
    insta::assert_snapshot!(contents(&written));
    put(source.path(), "processor_config.json", r#"{"downsample_mode": "4x"}"#);
    insta::assert_snapshot!(refused(&source, ConvertOptions::new(&GGUF)));
}

/// Each version of MiniCPM-V has another text model under the same name, and scripts write its vision model.
#[test]
fn the_text_of_minicpmv_is_that_of_its_version() {
    for (version, architecture) in [(json!("4.5"), "qwen3"), (json!(2.6), "qwen2")] {
        let mut config = language("minicpmv");
        config["architectures"] = json!(["MiniCPMV"]);
        config["version"] = version;
        config["vision_config"] = json!({"model_type": "siglip_vision_model", "hidden_size": 4});
        let norms =
            ["q", "k"].map(|part| format!("llm.model.layers.0.self_attn.{part}_norm.weight"));
        let text = LANGUAGE.iter().map(|(name, shape)| (format!("llm.{name}"), *shape));
        let norms = norms.into_iter().map(|name| (name, &[4][..]));
        let norms = norms.filter(|_| architecture == "qwen3");
        let tower = ["vpm.post_layernorm.weight", "resampler.query"];
        let tower = tower.map(|name| (name.to_owned(), &[4][..]));
        let tensors: Vec<_> = text.chain(norms).chain(tower).collect();
        let tensors: Vec<(&str, &[u64])> =
            tensors.iter().map(|(name, shape)| (&**name, *shape)).collect();
        let source = folder(&[("model.safetensors", counted(&tensors))]);
        put(source.path(), "config.json", config.to_string());
        let source = Model::open(source.path()).expect("a model");
        let plan = ops::convert(&source, &ConvertOptions::new(&GGUF)).expect("a plan");
        let target = tempfile::tempdir().expect("a temporary folder");
        let path = target.path().join("model.gguf");
        plan.run(&path, &WriteOptions::new()).expect("a file");
        let made = Model::open(&path).expect("a model");
        assert_eq!(made.metadata().str("general.architecture"), Some(architecture));
        assert_eq!(made.len(), tensors.len() - 2);
        let notes = plan.notes.join("\n");
        assert!(notes.contains("tools/mtmd/legacy-models/minicpmv-surgery.py"), "{notes}");
    }
}

#[test]
fn audio_models_like_whisper() {
    let vision: &[(&str, &[u64])] = &[
        ("audio_tower.conv1.weight", &[4, 8, 3]),
        ("audio_tower.conv1.bias", &[4]),
        ("audio_tower.embed_positions.weight", &[6, 4]),
        ("audio_tower.layers.0.final_layer_norm.bias", &[4]),
        ("audio_tower.layers.0.self_attn.k_proj.weight", &[4, 4]),
        ("multi_modal_projector.linear_1.weight", &[8, 8]),
    ];
    let mut config = json!({"model_type": "voxtral", "text_config": language("llama")});
    config["audio_config"] = json!({
        "model_type": "voxtral_encoder", "hidden_size": 4, "intermediate_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 1, "num_mel_bins": 8
    });
    let options = || ConvertOptions::new(&GGUF).dtype(DType::BF16);
    let source = model(&config, vision);
    let (_folder, written, _) = projector(source.path(), options()).expect("a projector");
    insta::assert_snapshot!(contents(&written));
    config["audio_config"]["num_mel_bins"].take();
    insta::assert_snapshot!(refused(&model(&config, vision), options()));
    // The names of Whisper's own config.
    config["model_type"] = json!("qwen2_audio");
    config["audio_config"] = json!({
        "model_type": "qwen2_audio_encoder", "d_model": 4, "encoder_ffn_dim": 8, "encoder_layers": 1,
        "encoder_attention_heads": 1, "num_mel_bins": 8
    });
    let plain = [&vision[..5], &[("multi_modal_projector.linear.weight", &[8, 4])]].concat();
    assert_eq!(key_or_fault(&model(&config, &plain), "clip.projector_type"), "String(\"qwen2a\")");
    config["model_type"] = json!("vibevoice");
    insta::assert_snapshot!(refused(&model(&config, vision), options()));
}

/// One key of the file that a model gives, or the refusal.
fn key_or_fault(source: &TempDir, key: &str) -> String {
    match projector(source.path(), ConvertOptions::new(&GGUF)) {
        Ok((_folder, written, _)) => {
            written.metadata().get(key).map_or("none".to_owned(), |value| format!("{value:?}"))
        }
        Err(error) => without_path(&told(&error), source.path()),
    }
}

#[test]
fn gemma3_states_how_many_patches_a_token_stands_for() {
    let mut config = json!({"model_type": "gemma3", "text_config": language("gemma3_text")});
    config["vision_config"] = json!({
        "hidden_size": 4, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1,
        "image_size": 16, "patch_size": 2
    });
    let vision: &[(&str, &[u64])] =
        &[("vision_tower.vision_model.encoder.layers.0.self_attn.q_proj.weight", &[4, 4])];
    // Eight patches in each direction; llama.cpp takes four of them for a token.
    for (tokens, factor) in [(16, "U32(2)"), (4, "none"), (1, "U32(8)"), (100, "none")] {
        let source = model(&config, vision);
        let text = json!({"image_seq_length": tokens}).to_string();
        put(source.path(), "processor_config.json", text);
        let found = key_or_fault(&source, "clip.vision.projector.scale_factor");
        assert_eq!(found, factor, "{tokens}");
    }
}

#[test]
fn qwen2_5_vl_has_full_attention_in_every_nth_layer() {
    let (mut config, vision) = qwen2_vl();
    config["model_type"] = "qwen2_5_vl".into();
    for (layers, found) in [
        (json!([3, 7, 11]), "U32(4)"),
        (json!([5]), "U32(6)"),
        (
            json!([3, 7, 12]),
            "Malformed: .: key \"config.json vision_config.fullatt_block_indexes\": [3,7,12], but every n-th layer is needed",
        ),
        (
            json!([]),
            "Malformed: .: key \"config.json vision_config.fullatt_block_indexes\": [], but every n-th layer is needed",
        ),
    ] {
        config["vision_config"]["fullatt_block_indexes"] = layers.clone();
        let source = model(&config, &vision);
        assert_eq!(key_or_fault(&source, "clip.vision.n_wa_pattern"), found, "{layers}");
    }
}

#[test]
fn qwen3_vl_merges_after_layers_that_there_are() {
    let mut config = json!({"model_type": "qwen3_vl", "text_config": language("qwen3_vl_text")});
    config["vision_config"] = json!({
        "depth": 2, "hidden_size": 4, "intermediate_size": 8, "num_heads": 1, "patch_size": 2,
        "num_position_embeddings": 16, "deepstack_visual_indexes": [1, 2]
    });
    let vision: &[(&str, &[u64])] = &[
        ("model.visual.blocks.0.attn.qkv.weight", &[12, 4]),
        ("model.visual.blocks.1.attn.qkv.weight", &[12, 4]),
    ];
    assert_eq!(
        key_or_fault(&model(&config, vision), "clip.vision.is_deepstack_layers"),
        "Malformed: .: key \"config.json vision_config.deepstack_visual_indexes\": 2, but a layer below 2 is needed"
    );
}

#[test]
fn smolvlm_omits_the_sizes_of_its_class() {
    let vision: &[(&str, &[u64])] =
        &[("model.vision_model.encoder.layers.0.self_attn.q_proj.weight", &[4, 4])];
    let of = |vision_type: &str, key: &str| {
        let mut config = json!({"model_type": "smolvlm", "text_config": language("llama")});
        config["vision_config"] = json!({
            "model_type": vision_type, "image_size": 8, "patch_size": 2, "num_hidden_layers": 1
        });
        key_or_fault(&model(&config, vision), &format!("clip.vision.{key}"))
    };
    let sizes = ["embedding_length", "feed_forward_length", "attention.head_count"];
    let found = sizes.map(|key| of("smolvlm_vision", key));
    assert_eq!(found, ["U32(1152)", "U32(3072)", "U32(16)"]);
    assert_eq!(
        of("idefics3_vision", "embedding_length"),
        "Unsupported: .: an mmproj file requires vision_config.hidden_size, which config.json lacks"
    );
}

#[test]
fn rows_that_are_no_three_parts_are_refused() {
    let (config, mut vision) = qwen2_vl();
    let packed = vision.iter_mut().find(|(name, _)| name.ends_with("attn.qkv.weight"));
    packed.expect("the packed matrix").1 = &[13, 4];
    insta::assert_snapshot!(refused(&model(&config, &vision), ConvertOptions::new(&GGUF)), @r#"Mismatch: .: tensor "v.blk.0.attn_q.weight": shape [13, 4], but its rows are those of q, k and v"#);
}

/// `ln(1 + e^x)` of every number: of large ones, which e^x exceeds, it is the number itself.
#[test]
fn scales_of_gemma4_are_those_that_torch_computes() {
    let mut config = json!({"model_type": "gemma4", "text_config": language("gemma4_text")});
    config["text_config"]["layer_types"] = json!(["full_attention"]);
    config["vision_config"] = json!({
        "model_type": "gemma4_vision", "hidden_size": 4, "intermediate_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 1, "patch_size": 2
    });
    config["audio_config"] = json!({
        "model_type": "gemma4_audio", "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1
    });
    let source = model(&config, &[]);
    let values = [-3.0, 0.0, 19.5, 1000.0];
    let name = "model.audio_tower.layers.0.self_attn.per_dim_scale";
    let shapes: Vec<(&str, &[u64])> = vec![
        ("model.vision_tower.patch_embedder.input_proj.weight", &[4, 12]),
        ("model.vision_tower.encoder.layers.0.pre_feedforward_layernorm.weight", &[4]),
        ("model.embed_vision.embedding_projection.weight", &[8, 4]),
        ("model.audio_tower.layers.0.feed_forward2.ffw_layer_1.linear.weight", &[16, 4]),
        ("model.embed_audio.embedding_projection.weight", &[8, 4]),
    ];
    let mut file = Safetensors::new().tensor(name, "F32", &[4], f32s(&values));
    for (name, shape) in [LANGUAGE, &shapes].concat() {
        let count = shape.iter().product::<u64>() as usize;
        file = file.tensor(name, "F32", shape, f32s(&vec![0.5; count]));
    }
    put(source.path(), "model.safetensors", file.build());
    let (_folder, written, _) =
        projector(source.path(), ConvertOptions::new(&GGUF)).expect("a projector");
    let scale = written.stored_tensor("a.blk.0.per_dim_scale.weight").expect("a scale");
    let found = scale.dequantize().expect("values");
    let expected = [0.048_587_352, std::f32::consts::LN_2, 19.5, 1000.0];
    assert!(
        found.iter().zip(expected).all(|(a, b): (&f32, f32)| (a - b).abs() <= b * 1e-6),
        "{found:?}"
    );
}

#[test]
fn a_tensor_without_rows_has_no_part_of_queries() {
    let (config, mut vision) = qwen2_vl();
    let empty = ("visual.blocks.0.attn.qkv.weight", &[0u64, 4][..]);
    *vision.iter_mut().find(|(name, _)| *name == empty.0).expect("q, k and v") = empty;
    let text = refused(&model(&config, &vision), ConvertOptions::new(&GGUF));
    assert!(text.ends_with("shape [0, 4], of which [0, 4] cannot be selected"), "{text}");
}
