//! Vision models whose form in GGUF is known: names and keys as llama.cpp's converter writes them
//! with `--mmproj`.

use serde_json::Value as Json;

use crate::arch::source::KeyWriter;
use crate::arch::tower::{Sizes, Tower, TowerConfig, TowerForm, TowerRule, usual_sizes};
use crate::error::Result;

use TowerForm::{
    Frame, LeftOut, Numbered, Pairs, Pixels, PlusOne, Same, Softplus, Squeezed, Third,
};

/// All of them.
pub(super) static TOWERS: &[Tower] = &[
    Tower {
        models: &["gemma3"],
        vision: &[],
        prefixes: &[("model.", ""), ("vision_tower.vision_model.", "vision_tower.")],
        pieces: &[],
        rules: GEMMA3,
        tokens: &[],
        wide: &[".embeddings."],
        half: &["input_projection"],
        sizes: usual_sizes,
        keys: gemma3,
    },
    Tower {
        models: &["llava", "mistral3"],
        vision: &["pixtral"],
        prefixes: &[("model.", "")],
        pieces: &[],
        rules: PIXTRAL,
        tokens: &[("[IMG_BREAK]", "v.token_embd.img_break")],
        wide: &[],
        half: &[],
        sizes: usual_sizes,
        keys: pixtral,
    },
    Tower {
        models: &["qwen2_vl", "qwen2_5_vl"],
        vision: &[],
        prefixes: &[("model.", "")],
        pieces: &[],
        rules: QWEN2_VL,
        tokens: &[],
        wide: &[],
        half: &[],
        sizes: qwen2_vl_sizes,
        keys: qwen2_vl,
    },
    Tower {
        models: &["qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"],
        vision: &[],
        prefixes: &[("model.", "")],
        pieces: &[],
        rules: QWEN3_VL,
        tokens: &[],
        wide: &[],
        half: &[],
        sizes: qwen3_vl_sizes,
        keys: qwen3_vl,
    },
    Tower {
        models: &["idefics3", "smolvlm"],
        vision: &[],
        prefixes: &[("model.", "")],
        pieces: &[],
        rules: IDEFICS3,
        tokens: &[],
        wide: &[".embeddings."],
        half: &[],
        sizes: idefics3_sizes,
        keys: idefics3,
    },
    Tower {
        models: &["gemma4"],
        vision: &[],
        prefixes: &[("model.", "")],
        pieces: &[(".linear.", ".")],
        rules: GEMMA4,
        tokens: &[],
        wide: &[".conv", "_conv"],
        half: &[],
        sizes: gemma4_sizes,
        keys: gemma4,
    },
    Tower {
        models: &["llama4"],
        vision: &[],
        prefixes: &[("model.", "")],
        pieces: &[],
        rules: LLAMA4,
        tokens: &[],
        wide: &[],
        half: &[],
        sizes: usual_sizes,
        keys: llama4,
    },
    Tower {
        models: &["internvl", "internvl_chat"],
        vision: &[],
        prefixes: &[("model.", "")],
        pieces: &[],
        rules: INTERNVL,
        tokens: &[],
        wide: &[],
        half: &[],
        sizes: internvl_sizes,
        keys: internvl,
    },
];

const fn t(stored: &'static str, gguf: &'static str, form: TowerForm) -> TowerRule {
    TowerRule { stored, gguf, form }
}

#[rustfmt::skip]
static GEMMA3: &[TowerRule] = &[
    t("vision_tower.embeddings.patch_embedding",                "v.patch_embd",         Same),
    t("vision_tower.embeddings.position_embedding",             "v.position_embd",      Same),
    t("vision_tower.encoder.layers.{n}.layer_norm1",            "v.blk.{n}.ln1",        Same),
    t("vision_tower.encoder.layers.{n}.layer_norm2",            "v.blk.{n}.ln2",        Same),
    t("vision_tower.encoder.layers.{n}.self_attn.q_proj",       "v.blk.{n}.attn_q",     Same),
    t("vision_tower.encoder.layers.{n}.self_attn.k_proj",       "v.blk.{n}.attn_k",     Same),
    t("vision_tower.encoder.layers.{n}.self_attn.v_proj",       "v.blk.{n}.attn_v",     Same),
    t("vision_tower.encoder.layers.{n}.self_attn.out_proj",     "v.blk.{n}.attn_out",   Same),
    t("vision_tower.encoder.layers.{n}.mlp.fc1",                "v.blk.{n}.ffn_up",     Same),
    t("vision_tower.encoder.layers.{n}.mlp.fc2",                "v.blk.{n}.ffn_down",   Same),
    t("vision_tower.post_layernorm",                            "v.post_ln",            Same),
    t("vision_tower.head.*",                                    "",                     LeftOut),
    t("multi_modal_projector.mm_input_projection_weight",       "mm.input_projection.weight", Same),
    t("multi_modal_projector.mm_soft_emb_norm",                 "mm.soft_emb_norm",     PlusOne),
];

#[rustfmt::skip]
static PIXTRAL: &[TowerRule] = &[
    t("vision_tower.patch_conv",                                     "v.patch_embd",       Same),
    t("vision_tower.ln_pre",                                         "v.pre_ln",           Same),
    t("vision_tower.transformer.layers.{n}.attention_norm",          "v.blk.{n}.ln1",      Same),
    t("vision_tower.transformer.layers.{n}.ffn_norm",                "v.blk.{n}.ln2",      Same),
    t("vision_tower.transformer.layers.{n}.attention.q_proj",        "v.blk.{n}.attn_q",   Pairs),
    t("vision_tower.transformer.layers.{n}.attention.k_proj",        "v.blk.{n}.attn_k",   Pairs),
    t("vision_tower.transformer.layers.{n}.attention.v_proj",        "v.blk.{n}.attn_v",   Same),
    t("vision_tower.transformer.layers.{n}.attention.o_proj",        "v.blk.{n}.attn_out", Same),
    t("vision_tower.transformer.layers.{n}.feed_forward.gate_proj",  "v.blk.{n}.ffn_gate", Same),
    t("vision_tower.transformer.layers.{n}.feed_forward.up_proj",    "v.blk.{n}.ffn_up",   Same),
    t("vision_tower.transformer.layers.{n}.feed_forward.down_proj",  "v.blk.{n}.ffn_down", Same),
    t("multi_modal_projector.norm",                                  "mm.input_norm",      Same),
    t("multi_modal_projector.patch_merger.merging_layer",            "mm.patch_merger",    Same),
    t("multi_modal_projector.linear_1",                              "mm.1",               Same),
    t("multi_modal_projector.linear_2",                              "mm.2",               Same),
];

#[rustfmt::skip]
static QWEN2_VL: &[TowerRule] = &[
    t("visual.patch_embed.proj.weight",       "v.patch_embd.weight",   Frame(0)),
    t("visual.patch_embed.proj.weight",       "v.patch_embd.weight.1", Frame(1)),
    t("visual.blocks.{n}.norm1",              "v.blk.{n}.ln1",         Same),
    t("visual.blocks.{n}.norm2",              "v.blk.{n}.ln2",         Same),
    t("visual.blocks.{n}.attn.qkv",           "v.blk.{n}.attn_q",      Third(0)),
    t("visual.blocks.{n}.attn.qkv",           "v.blk.{n}.attn_k",      Third(1)),
    t("visual.blocks.{n}.attn.qkv",           "v.blk.{n}.attn_v",      Third(2)),
    t("visual.blocks.{n}.attn.proj",          "v.blk.{n}.attn_out",    Same),
    t("visual.blocks.{n}.mlp.fc1",            "v.blk.{n}.ffn_up",      Same),
    t("visual.blocks.{n}.mlp.fc2",            "v.blk.{n}.ffn_down",    Same),
    t("visual.blocks.{n}.mlp.gate_proj",      "v.blk.{n}.ffn_gate",    Same),
    t("visual.blocks.{n}.mlp.up_proj",        "v.blk.{n}.ffn_up",      Same),
    t("visual.blocks.{n}.mlp.down_proj",      "v.blk.{n}.ffn_down",    Same),
    t("visual.merger.ln_q",                   "v.post_ln",             Same),
    t("visual.merger.mlp.{n}",                "mm.{n}",                Same),
];

#[rustfmt::skip]
static QWEN3_VL: &[TowerRule] = &[
    t("visual.patch_embed.proj.weight",       "v.patch_embd.weight",   Frame(0)),
    t("visual.patch_embed.proj.weight",       "v.patch_embd.weight.1", Frame(1)),
    t("visual.patch_embed.proj.bias",         "v.patch_embd.bias",     Same),
    t("visual.pos_embed",                     "v.position_embd",       Same),
    t("visual.blocks.{n}.norm1",              "v.blk.{n}.ln1",         Same),
    t("visual.blocks.{n}.norm2",              "v.blk.{n}.ln2",         Same),
    t("visual.blocks.{n}.attn.qkv",           "v.blk.{n}.attn_qkv",    Same),
    t("visual.blocks.{n}.attn.proj",          "v.blk.{n}.attn_out",    Same),
    t("visual.blocks.{n}.mlp.linear_fc1",     "v.blk.{n}.ffn_up",      Same),
    t("visual.blocks.{n}.mlp.linear_fc2",     "v.blk.{n}.ffn_down",    Same),
    t("visual.merger.norm",                   "v.post_ln",             Same),
    t("visual.merger.linear_fc1",             "mm.0",                  Same),
    t("visual.merger.linear_fc2",             "mm.2",                  Same),
    t("visual.deepstack_merger_list.{n}.norm",       "v.deepstack.{n}.norm", Numbered(DEEPSTACK)),
    t("visual.deepstack_merger_list.{n}.linear_fc1", "v.deepstack.{n}.fc1",  Numbered(DEEPSTACK)),
    t("visual.deepstack_merger_list.{n}.linear_fc2", "v.deepstack.{n}.fc2",  Numbered(DEEPSTACK)),
];

const DEEPSTACK: &str = "deepstack_visual_indexes";

#[rustfmt::skip]
static IDEFICS3: &[TowerRule] = &[
    t("vision_model.embeddings.patch_embedding",             "v.patch_embd",       Same),
    t("vision_model.embeddings.position_embedding",          "v.position_embd",    Same),
    t("vision_model.encoder.layers.{n}.layer_norm1",         "v.blk.{n}.ln1",      Same),
    t("vision_model.encoder.layers.{n}.layer_norm2",         "v.blk.{n}.ln2",      Same),
    t("vision_model.encoder.layers.{n}.self_attn.q_proj",    "v.blk.{n}.attn_q",   Same),
    t("vision_model.encoder.layers.{n}.self_attn.k_proj",    "v.blk.{n}.attn_k",   Same),
    t("vision_model.encoder.layers.{n}.self_attn.v_proj",    "v.blk.{n}.attn_v",   Same),
    t("vision_model.encoder.layers.{n}.self_attn.out_proj",  "v.blk.{n}.attn_out", Same),
    t("vision_model.encoder.layers.{n}.mlp.fc1",             "v.blk.{n}.ffn_up",   Same),
    t("vision_model.encoder.layers.{n}.mlp.fc2",             "v.blk.{n}.ffn_down", Same),
    t("vision_model.post_layernorm",                         "v.post_ln",          Same),
    t("connector.modality_projection.proj",                  "mm.model.fc",        Same),
];

#[rustfmt::skip]
static GEMMA4: &[TowerRule] = &[
    t("vision_tower.patch_embedder.input_proj",                     "v.patch_embd",                   Pixels),
    t("vision_tower.patch_embedder.position_embedding_table",       "v.position_embd.weight",         Same),
    t("vision_tower.std_bias",                                      "v.std_bias",                     Same),
    t("vision_tower.std_scale",                                     "v.std_scale",                    Same),
    t("vision_tower.encoder.layers.{n}.input_layernorm",            "v.blk.{n}.ln1",                  Same),
    t("vision_tower.encoder.layers.{n}.post_attention_layernorm",   "v.blk.{n}.attn_post_norm",       Same),
    t("vision_tower.encoder.layers.{n}.pre_feedforward_layernorm",  "v.blk.{n}.ln2",                  Same),
    t("vision_tower.encoder.layers.{n}.post_feedforward_layernorm", "v.blk.{n}.ffn_post_norm",        Same),
    t("vision_tower.encoder.layers.{n}.self_attn.q_proj",           "v.blk.{n}.attn_q",               Same),
    t("vision_tower.encoder.layers.{n}.self_attn.k_proj",           "v.blk.{n}.attn_k",               Same),
    t("vision_tower.encoder.layers.{n}.self_attn.v_proj",           "v.blk.{n}.attn_v",               Same),
    t("vision_tower.encoder.layers.{n}.self_attn.o_proj",           "v.blk.{n}.attn_out",             Same),
    t("vision_tower.encoder.layers.{n}.self_attn.q_norm",           "v.blk.{n}.attn_q_norm",          Same),
    t("vision_tower.encoder.layers.{n}.self_attn.k_norm",           "v.blk.{n}.attn_k_norm",          Same),
    t("vision_tower.encoder.layers.{n}.mlp.gate_proj",              "v.blk.{n}.ffn_gate",             Same),
    t("vision_tower.encoder.layers.{n}.mlp.up_proj",                "v.blk.{n}.ffn_up",               Same),
    t("vision_tower.encoder.layers.{n}.mlp.down_proj",              "v.blk.{n}.ffn_down",             Same),
    t("vision_tower.encoder.layers.{n}.layer_scalar",               "v.blk.{n}.out_scale.weight",     Same),
    t("embed_vision.embedding_projection",                          "mm.input_projection",            Same),
    t("audio_tower.subsample_conv_projection.layer0.conv",          "a.conv1d.0",                     Same),
    t("audio_tower.subsample_conv_projection.layer0.norm",          "a.conv1d.0.norm",                Same),
    t("audio_tower.subsample_conv_projection.layer1.conv",          "a.conv1d.1",                     Same),
    t("audio_tower.subsample_conv_projection.layer1.norm",          "a.conv1d.1.norm",                Same),
    t("audio_tower.subsample_conv_projection.input_proj_linear",    "a.input_projection",             Same),
    t("audio_tower.layers.{n}.feed_forward1.pre_layer_norm",        "a.blk.{n}.ffn_norm",             Same),
    t("audio_tower.layers.{n}.feed_forward1.ffw_layer_1",           "a.blk.{n}.ffn_up",               Same),
    t("audio_tower.layers.{n}.feed_forward1.ffw_layer_2",           "a.blk.{n}.ffn_down",             Same),
    t("audio_tower.layers.{n}.feed_forward1.post_layer_norm",       "a.blk.{n}.ffn_post_norm",        Same),
    t("audio_tower.layers.{n}.feed_forward2.pre_layer_norm",        "a.blk.{n}.ffn_norm_1",           Same),
    t("audio_tower.layers.{n}.feed_forward2.ffw_layer_1",           "a.blk.{n}.ffn_up_1",             Same),
    t("audio_tower.layers.{n}.feed_forward2.ffw_layer_2",           "a.blk.{n}.ffn_down_1",           Same),
    t("audio_tower.layers.{n}.feed_forward2.post_layer_norm",       "a.blk.{n}.ffn_post_norm_1",      Same),
    t("audio_tower.layers.{n}.norm_pre_attn",                       "a.blk.{n}.attn_pre_norm",        Same),
    t("audio_tower.layers.{n}.norm_post_attn",                      "a.blk.{n}.attn_post_norm",       Same),
    t("audio_tower.layers.{n}.norm_out",                            "a.blk.{n}.ln2",                  Same),
    t("audio_tower.layers.{n}.self_attn.q_proj",                    "a.blk.{n}.attn_q",               Same),
    t("audio_tower.layers.{n}.self_attn.k_proj",                    "a.blk.{n}.attn_k",               Same),
    t("audio_tower.layers.{n}.self_attn.v_proj",                    "a.blk.{n}.attn_v",               Same),
    t("audio_tower.layers.{n}.self_attn.post",                      "a.blk.{n}.attn_out",             Same),
    t("audio_tower.layers.{n}.self_attn.relative_k_proj",           "a.blk.{n}.attn_k_rel",           Same),
    t("audio_tower.layers.{n}.self_attn.per_dim_scale",             "a.blk.{n}.per_dim_scale.weight", Softplus),
    t("audio_tower.layers.{n}.lconv1d.pre_layer_norm",              "a.blk.{n}.conv_norm",            Same),
    t("audio_tower.layers.{n}.lconv1d.linear_start",                "a.blk.{n}.conv_pw1",             Same),
    t("audio_tower.layers.{n}.lconv1d.depthwise_conv1d",            "a.blk.{n}.conv_dw",              Squeezed),
    t("audio_tower.layers.{n}.lconv1d.conv_norm",                   "a.blk.{n}.norm_conv",            Same),
    t("audio_tower.layers.{n}.lconv1d.linear_end",                  "a.blk.{n}.conv_pw2",             Same),
    t("audio_tower.output_proj",                                    "a.pre_encode.out",               Same),
    t("embed_audio.embedding_projection",                           "mm.a.input_projection",          Same),
];

/// llama.cpp's converter calls the second norm `attn_post_norm`, which Gemma 4 has behind the attention.
/// llama.cpp reads `ln2`.
#[rustfmt::skip]
static LLAMA4: &[TowerRule] = &[
    t("vision_model.patch_embedding.linear",                    "v.patch_embd",           Same),
    t("vision_model.class_embedding",                           "v.class_embd",           Same),
    t("vision_model.positional_embedding_vlm",                  "v.position_embd.weight", Same),
    t("vision_model.layernorm_pre",                             "v.pre_ln",               Same),
    t("vision_model.layernorm_post",                            "v.post_ln",              Same),
    t("vision_model.model.layers.{n}.input_layernorm",          "v.blk.{n}.ln1",          Same),
    t("vision_model.model.layers.{n}.post_attention_layernorm", "v.blk.{n}.ln2",          Same),
    t("vision_model.model.layers.{n}.self_attn.q_proj",         "v.blk.{n}.attn_q",       Same),
    t("vision_model.model.layers.{n}.self_attn.k_proj",         "v.blk.{n}.attn_k",       Same),
    t("vision_model.model.layers.{n}.self_attn.v_proj",         "v.blk.{n}.attn_v",       Same),
    t("vision_model.model.layers.{n}.self_attn.o_proj",         "v.blk.{n}.attn_out",     Same),
    t("vision_model.model.layers.{n}.mlp.fc1",                  "v.blk.{n}.ffn_up",       Same),
    t("vision_model.model.layers.{n}.mlp.fc2",                  "v.blk.{n}.ffn_down",     Same),
    t("vision_model.vision_adapter.mlp.fc1",                    "mm.model.mlp.1",         Same),
    t("vision_model.vision_adapter.mlp.fc2",                    "mm.model.mlp.2",         Same),
    t("multi_modal_projector.linear_1",                         "mm.model.fc",            Same),
];

/// Under the names of the published models with `mlp1`, and under those of transformers.
#[rustfmt::skip]
static INTERNVL: &[TowerRule] = &[
    t("vision_model.embeddings.class_embedding",                   "v.class_embd",           Same),
    t("vision_model.embeddings.patch_embedding",                   "v.patch_embd",           Same),
    t("vision_model.embeddings.position_embedding",                "v.position_embd.weight", Same),
    t("vision_model.encoder.layers.{n}.norm1",                     "v.blk.{n}.ln1",          Same),
    t("vision_model.encoder.layers.{n}.norm2",                     "v.blk.{n}.ln2",          Same),
    t("vision_model.encoder.layers.{n}.attn.qkv",                  "v.blk.{n}.attn_q",       Third(0)),
    t("vision_model.encoder.layers.{n}.attn.qkv",                  "v.blk.{n}.attn_k",       Third(1)),
    t("vision_model.encoder.layers.{n}.attn.qkv",                  "v.blk.{n}.attn_v",       Third(2)),
    t("vision_model.encoder.layers.{n}.attn.q_norm",               "v.blk.{n}.attn_q_norm",  Same),
    t("vision_model.encoder.layers.{n}.attn.k_norm",               "v.blk.{n}.attn_k_norm",  Same),
    t("vision_model.encoder.layers.{n}.attn.proj",                 "v.blk.{n}.attn_out",     Same),
    t("vision_model.encoder.layers.{n}.ls1",                       "v.blk.{n}.ls1.weight",   Same),
    t("vision_model.encoder.layers.{n}.ls2",                       "v.blk.{n}.ls2.weight",   Same),
    t("vision_model.encoder.layers.{n}.mlp.fc1",                   "v.blk.{n}.ffn_up",       Same),
    t("vision_model.encoder.layers.{n}.mlp.fc2",                   "v.blk.{n}.ffn_down",     Same),
    t("mlp1.{n}",                                                  "mm.model.mlp.{n}",       Same),
    t("vision_tower.embeddings.cls_token",                         "v.class_embd",           Same),
    t("vision_tower.embeddings.patch_embeddings.projection",       "v.patch_embd",           Same),
    t("vision_tower.embeddings.position_embeddings",               "v.position_embd.weight", Same),
    t("vision_tower.encoder.layer.{n}.layernorm_before",           "v.blk.{n}.ln1",          Same),
    t("vision_tower.encoder.layer.{n}.layernorm_after",            "v.blk.{n}.ln2",          Same),
    t("vision_tower.encoder.layer.{n}.attention.q_proj",           "v.blk.{n}.attn_q",       Same),
    t("vision_tower.encoder.layer.{n}.attention.k_proj",           "v.blk.{n}.attn_k",       Same),
    t("vision_tower.encoder.layer.{n}.attention.v_proj",           "v.blk.{n}.attn_v",       Same),
    t("vision_tower.encoder.layer.{n}.attention.q_norm",           "v.blk.{n}.attn_q_norm",  Same),
    t("vision_tower.encoder.layer.{n}.attention.k_norm",           "v.blk.{n}.attn_k_norm",  Same),
    t("vision_tower.encoder.layer.{n}.attention.projection_layer", "v.blk.{n}.attn_out",     Same),
    t("vision_tower.encoder.layer.{n}.lambda_1",                   "v.blk.{n}.ls1.weight",   Same),
    t("vision_tower.encoder.layer.{n}.lambda_2",                   "v.blk.{n}.ls2.weight",   Same),
    t("vision_tower.encoder.layer.{n}.mlp.fc1",                    "v.blk.{n}.ffn_up",       Same),
    t("vision_tower.encoder.layer.{n}.mlp.fc2",                    "v.blk.{n}.ffn_down",     Same),
    t("multi_modal_projector.layer_norm",                          "mm.model.mlp.0",         Same),
    t("multi_modal_projector.linear_1",                            "mm.model.mlp.1",         Same),
    t("multi_modal_projector.linear_2",                            "mm.model.mlp.3",         Same),
];

fn epsilon(config: &TowerConfig<'_>, keys: &mut KeyWriter<'_>, usual: f32) -> Result<()> {
    let name = "layer_norm_eps";
    let value =
        config.real(config.vision(name), "config.json vision_config.layer_norm_eps", usual)?;
    keys.real("vision.attention.layer_norm_epsilon", value);
    Ok(())
}

fn gemma3(config: &TowerConfig<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    keys.set("projector_type", &"gemma3".into());
    epsilon(config, keys, 1e-6)?;
    keys.set("use_gelu", &true.into());
    let Sizes { image, patch, .. } = usual_sizes(config)?;
    let tokens = config.preprocessor("image_seq_length");
    let tokens = config.optional(tokens, "processor_config.json image_seq_length")?.unwrap_or(256);
    let side = image.checked_div(patch).and_then(|side| side.checked_div(tokens.isqrt()));
    // llama.cpp takes 4 for the number of patches that one token stands for, in each direction.
    if let Some(factor) = side.filter(|factor| *factor > 0 && *factor != 4) {
        keys.count("vision.projector.scale_factor", factor);
    }
    Ok(())
}

fn pixtral(config: &TowerConfig<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    keys.set("projector_type", &"pixtral".into());
    epsilon(config, keys, 1e-5)?;
    config.activation(keys)?;
    let name = "spatial_merge_size";
    if let Some(size) = config.optional(config.outer(name), "config.json spatial_merge_size")? {
        keys.count("vision.spatial_merge_size", size);
    }
    Ok(())
}

fn qwen2_vl_sizes(config: &TowerConfig<'_>) -> Result<Sizes> {
    // Qwen2-VL's `hidden_size` is the width of the language model, which the converter writes as
    // that of the feed-forward network. llama.cpp takes the latter from the tensors.
    let first = config.vision("embed_dim").is_some();
    let (width, ffn) =
        if first { ("embed_dim", "hidden_size") } else { ("hidden_size", "intermediate_size") };
    let image =
        config.optional(config.vision("image_size"), "config.json vision_config.image_size")?;
    Ok(Sizes {
        image: image.unwrap_or(560),
        patch: config.count(&["patch_size"])?,
        width: config.count(&[width])?,
        ffn: config.count(&[ffn])?,
        layers: config.count(&["depth"])?,
        heads: config.count(&["num_heads"])?,
    })
}

fn qwen2_vl(config: &TowerConfig<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if config.model_type() == "qwen2_vl" {
        keys.set("projector_type", &"qwen2vl_merger".into());
    } else {
        keys.set("projector_type", &"qwen2.5vl_merger".into());
        keys.set("use_silu", &true.into());
        // Every n-th layer has full attention, the others have windows.
        let name = "fullatt_block_indexes";
        let full = config.counts(name)?;
        let period = full.first().map_or(0, |first| first.saturating_add(1));
        let even = full.windows(2).all(|pair| match pair {
            [a, b] => a.checked_add(period) == Some(*b),
            _ => true,
        });
        if !even || full.is_empty() {
            let found = Json::from(full);
            let key = format!("config.json vision_config.{name}");
            return Err(config.invalid(&found, &key, "every n-th layer"));
        }
        keys.count("vision.n_wa_pattern", period);
    }
    let value = config.real(config.outer("rms_norm_eps"), "config.json rms_norm_eps", 1e-6)?;
    keys.real("vision.attention.layer_norm_epsilon", value);
    Ok(())
}

fn qwen3_vl_sizes(config: &TowerConfig<'_>) -> Result<Sizes> {
    let patch = config.count(&["patch_size"])?;
    let image =
        config.optional(config.vision("image_size"), "config.json vision_config.image_size")?;
    let image = match image {
        Some(image) => image,
        // The positions form a square.
        None => {
            let positions = config.count(&["num_position_embeddings"])?;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "as the converter computes it; the root is below 2^16"
            )]
            let side = (f64::from(positions).sqrt() * f64::from(patch)) as u32;
            side
        }
    };
    Ok(Sizes {
        image,
        patch,
        width: config.count(&["hidden_size"])?,
        ffn: config.count(&["intermediate_size"])?,
        layers: config.count(&["depth"])?,
        heads: config.count(&["num_heads"])?,
    })
}

fn qwen3_vl(config: &TowerConfig<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    keys.set("projector_type", &"qwen3vl_merger".into());
    keys.set("use_gelu", &true.into());
    let name = "spatial_merge_size";
    let merged =
        config.optional(config.vision(name), "config.json vision_config.spatial_merge_size")?;
    if let Some(size) = merged {
        keys.count("vision.spatial_merge_size", size);
    }
    let eps = config.language("rms_norm_eps");
    let eps = config.real(eps, "config.json text_config.rms_norm_eps", 1e-6)?;
    keys.real("vision.attention.layer_norm_epsilon", eps);
    let layers = config.count(&["depth"])?;
    let deep = match config.vision(DEEPSTACK) {
        Some(_) => config.counts(DEEPSTACK)?,
        None => Vec::new(),
    };
    if let Some(layer) = deep.iter().find(|layer| **layer >= layers) {
        let key = format!("config.json vision_config.{DEEPSTACK}");
        return Err(config.invalid(&(*layer).into(), &key, &format!("a layer below {layers}")));
    }
    let flags: Vec<bool> = (0..layers).map(|layer| deep.contains(&layer)).collect();
    if !flags.is_empty() {
        keys.flags("vision.is_deepstack_layers", &flags);
    }
    Ok(())
}

/// Defaults of transformers for SmolVLM 2, whose `config.json` omits these numbers.
fn idefics3_sizes(config: &TowerConfig<'_>) -> Result<Sizes> {
    let or = |key: &str, usual| match config.vision(key) {
        None if config.text("model_type") == Some("smolvlm_vision") => Ok(usual),
        _ => config.count(&[key]),
    };
    Ok(Sizes {
        image: config.count(&["image_size"])?,
        patch: config.count(&["patch_size"])?,
        width: or("hidden_size", 1152)?,
        ffn: or("intermediate_size", 3072)?,
        layers: config.count(&["num_hidden_layers"])?,
        heads: or("num_attention_heads", 16)?,
    })
}

fn idefics3(config: &TowerConfig<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    keys.set("projector_type", &"idefics3".into());
    epsilon(config, keys, 1e-5)?;
    let factor = config.optional(config.outer("scale_factor"), "config.json scale_factor")?;
    keys.count("vision.projector.scale_factor", factor.unwrap_or(2));
    keys.set("use_gelu", &true.into());
    let edge = config.preprocessor("size").and_then(|size| size.get("longest_edge"));
    let edge = config.optional(edge, "preprocessor_config.json size.longest_edge")?;
    let image = config.count(&["image_size"])?;
    keys.count("vision.preproc_image_size", edge.unwrap_or(image));
    Ok(())
}

fn gemma4_sizes(config: &TowerConfig<'_>) -> Result<Sizes> {
    // The size of an image varies. llama.cpp's converter writes this number, and llama.cpp requires one.
    Ok(Sizes {
        image: 224,
        patch: config.count(&["patch_size"])?,
        width: config.count(&["hidden_size"])?,
        ffn: config.count(&["intermediate_size"])?,
        layers: config.count(&["num_hidden_layers"])?,
        heads: config.count(&["num_attention_heads"])?,
    })
}

/// The audio model is in the same file.
fn gemma4(config: &TowerConfig<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let has_audio = config.audio("hidden_size").is_some();
    if has_audio {
        let count = |name: &str| {
            let key = format!("audio_config.{name}");
            let found = config.optional(config.audio(name), &format!("config.json {key}"))?;
            found.ok_or_else(|| config.missing(&key, "config.json"))
        };
        let text = config.language("hidden_size");
        let text = config.optional(text, "config.json text_config.hidden_size")?;
        let width = count("hidden_size")?;
        keys.set("has_audio_encoder", &true.into());
        keys.count("audio.projection_dim", text.unwrap_or_default());
        keys.count("audio.embedding_length", width);
        keys.count("audio.feed_forward_length", width.saturating_mul(4));
        keys.count("audio.block_count", count("num_hidden_layers")?);
        keys.count("audio.attention.head_count", count("num_attention_heads")?);
    }
    keys.set("vision.projector_type", &"gemma4v".into());
    epsilon(config, keys, 1e-6)?;
    if has_audio {
        let bins = config.audio("input_feat_size");
        let bins = config.optional(bins, "config.json audio_config.input_feat_size")?;
        let name = "config.json audio_config.layer_norm_eps";
        let epsilon = config.real(config.audio("layer_norm_eps"), name, 1e-6)?;
        keys.set("audio.projector_type", &"gemma4a".into());
        keys.count("audio.num_mel_bins", bins.unwrap_or(128));
        keys.real("audio.attention.layer_norm_epsilon", epsilon);
    }
    Ok(())
}

/// The reciprocal of a ratio of lengths, rounded down.
fn reciprocal(config: &TowerConfig<'_>, value: Option<&Json>, key: &str) -> Result<u32> {
    let found = value.ok_or_else(|| config.missing(key, "config.json"))?;
    let ratio = found.as_f64().filter(|ratio| *ratio > 0.0 && *ratio <= 1.0);
    let ratio = ratio.ok_or_else(|| config.invalid(found, key, "a number between 0 and 1"))?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at least 1, and converters round it down"
    )]
    let whole = (1.0 / ratio) as u32;
    Ok(whole)
}

fn llama4(config: &TowerConfig<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    keys.set("projector_type", &"llama4".into());
    let value =
        config.real(config.vision("norm_eps"), "config.json vision_config.norm_eps", 1e-5)?;
    keys.real("vision.attention.layer_norm_epsilon", value);
    let ratio = config.vision("pixel_shuffle_ratio");
    let factor = reciprocal(config, ratio, "vision_config.pixel_shuffle_ratio")?;
    keys.count("vision.projector.scale_factor", factor);
    config.activation(keys)
}

fn internvl_sizes(config: &TowerConfig<'_>) -> Result<Sizes> {
    let count = |names: &[&str]| config.count(names);
    // Transformers writes height and width.
    let side = |name: &str| match config.vision(name).and_then(Json::as_array) {
        None => count(&[name]),
        Some(_) => {
            let sides = config.counts(name)?;
            sides.first().copied().ok_or_else(|| config.missing(name, "config.json"))
        }
    };
    Ok(Sizes {
        image: side("image_size")?,
        patch: side("patch_size")?,
        width: count(&["hidden_size"])?,
        ffn: count(&["intermediate_size"])?,
        layers: count(&["num_hidden_layers"])?,
        heads: count(&["num_attention_heads"])?,
    })
}

fn internvl(config: &TowerConfig<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    keys.set("projector_type", &"internvl".into());
    epsilon(config, keys, 1e-6)?;
    config.activation(keys)?;
    let factor = reciprocal(config, config.outer("downsample_ratio"), "downsample_ratio")?;
    keys.count("vision.projector.scale_factor", factor);
    for (name, key) in [
        ("min_dynamic_patch", "vision.preproc_min_tiles"),
        ("max_dynamic_patch", "vision.preproc_max_tiles"),
    ] {
        let tiles = config.optional(config.outer(name), &format!("config.json {name}"))?;
        if let Some(tiles) = tiles.filter(|tiles| *tiles > 0) {
            keys.count(key, tiles);
        }
    }
    Ok(())
}
