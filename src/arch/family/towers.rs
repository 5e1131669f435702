//! Vision models whose form in GGUF is known: names and keys as llama.cpp's converter writes them
//! with `--mmproj`.

use serde_json::Value as Json;

use crate::arch::source::KeyWriter;
use crate::arch::tower::{Sizes, Tower, TowerConfig, TowerForm, TowerRule, usual_sizes};
use crate::error::Result;

use TowerForm::{Frame, LeftOut, Numbered, Pairs, PlusOne, Same, Third};

/// All of them.
pub(super) static TOWERS: &[Tower] = &[
    Tower {
        models: &["gemma3"],
        vision: &[],
        prefixes: &[("model.", ""), ("vision_tower.vision_model.", "vision_tower.")],
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
        rules: IDEFICS3,
        tokens: &[],
        wide: &[".embeddings."],
        half: &[],
        sizes: idefics3_sizes,
        keys: idefics3,
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
