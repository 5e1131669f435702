//! Vision and audio models whose form in GGUF is known: names and keys as llama.cpp's converter writes them
//! with `--mmproj`.

use crate::arch::source::KeyWriter;
use crate::arch::tower::{Sizes, Tower, TowerConfig, usual_sizes};
use crate::error::Result;
use crate::json::Json;

/// All of them.
pub(super) static TOWERS: &[Tower] = &[
    Tower {
        models: &["gemma3"],
        vision: &[],
        prefixes: &[("model.", ""), ("vision_tower.vision_model.", "vision_tower.")],
        pieces: &[],
        rules: "gemma3",
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
        rules: "pixtral",
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
        rules: "qwen2_vl",
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
        rules: "qwen3_vl",
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
        rules: "idefics3",
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
        rules: "gemma4",
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
        rules: "llama4",
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
        rules: "internvl",
        tokens: &[],
        wide: &[],
        half: &[],
        sizes: internvl_sizes,
        keys: internvl,
    },
    Tower {
        models: &["glm4v", "glm4v_moe", "glm_ocr"],
        vision: &[],
        prefixes: &[("model.", "")],
        pieces: &[],
        rules: "glm4v",
        tokens: &[],
        wide: &[],
        half: &[],
        sizes: usual_sizes,
        keys: glm4v,
    },
    Tower {
        models: &["lfm2_vl", "lfm2-vl"],
        vision: &[],
        prefixes: &[("model.", ""), ("vision_tower.vision_model.", "vision_tower.")],
        pieces: &[],
        rules: "lfm2_vl",
        tokens: &[],
        wide: &[],
        half: &[],
        sizes: lfm2_vl_sizes,
        keys: lfm2_vl,
    },
    Tower {
        models: &["lighton_ocr"],
        vision: &[],
        prefixes: &[
            ("model.", ""),
            ("vision_encoder.", "vision_tower."),
            ("vision_projection.", "multi_modal_projector."),
        ],
        pieces: &[],
        rules: "pixtral",
        tokens: &[],
        wide: &[],
        half: &[],
        sizes: usual_sizes,
        keys: pixtral,
    },
    Tower {
        models: &["minicpmv4_6"],
        vision: &[],
        prefixes: &[("model.", ""), ("vision_tower.vision_model.", "vision_tower.")],
        pieces: &[],
        rules: "minicpmv4_6",
        tokens: &[],
        wide: &[],
        half: &[],
        sizes: minicpmv4_6_sizes,
        keys: minicpmv4_6,
    },
    Tower {
        models: &["qwen2_audio", "voxtral"],
        vision: &[],
        prefixes: &[("model.", "")],
        pieces: &[],
        rules: "whisper",
        tokens: &[],
        wide: &[],
        half: &["conv1.weight", "conv2.weight"],
        sizes: whisper_sizes,
        keys: whisper,
    },
    Tower {
        models: &["audioflamingo3"],
        vision: &[],
        prefixes: &[("model.", "")],
        pieces: &[],
        rules: "whisper",
        tokens: &[],
        wide: &["conv1.weight", "conv2.weight"],
        half: &[],
        sizes: whisper_sizes,
        keys: whisper,
    },
];

fn epsilon(config: &TowerConfig<'_>, keys: &mut KeyWriter<'_>, usual: f32) -> Result<()> {
    let name = "layer_norm_eps";
    let value =
        config.real(config.value(name), "config.json vision_config.layer_norm_eps", usual)?;
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
    let is_light_on = config.model_type() == "lighton_ocr";
    keys.set("projector_type", &if is_light_on { "lightonocr" } else { "pixtral" }.into());
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
    let first = config.value("embed_dim").is_some();
    let (width, ffn) =
        if first { ("embed_dim", "hidden_size") } else { ("hidden_size", "intermediate_size") };
    let image =
        config.optional(config.value("image_size"), "config.json vision_config.image_size")?;
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
        config.optional(config.value("image_size"), "config.json vision_config.image_size")?;
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

const DEEPSTACK: &str = "deepstack_visual_indexes";

fn qwen3_vl(config: &TowerConfig<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    keys.set("projector_type", &"qwen3vl_merger".into());
    keys.set("use_gelu", &true.into());
    let name = "spatial_merge_size";
    let merged =
        config.optional(config.value(name), "config.json vision_config.spatial_merge_size")?;
    if let Some(size) = merged {
        keys.count("vision.spatial_merge_size", size);
    }
    let eps = config.language("rms_norm_eps");
    let eps = config.real(eps, "config.json text_config.rms_norm_eps", 1e-6)?;
    keys.real("vision.attention.layer_norm_epsilon", eps);
    let layers = config.count(&["depth"])?;
    let deep = match config.value(DEEPSTACK) {
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
    let or = |key: &str, usual| match config.value(key) {
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
        config.real(config.value("norm_eps"), "config.json vision_config.norm_eps", 1e-5)?;
    keys.real("vision.attention.layer_norm_epsilon", value);
    let ratio = config.value("pixel_shuffle_ratio");
    let factor = reciprocal(config, ratio, "vision_config.pixel_shuffle_ratio")?;
    keys.count("vision.projector.scale_factor", factor);
    config.activation(keys)
}

fn internvl_sizes(config: &TowerConfig<'_>) -> Result<Sizes> {
    let count = |names: &[&str]| config.count(names);
    // Transformers writes height and width.
    let side = |name: &str| match config.value(name).and_then(Json::as_array) {
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

fn glm4v(config: &TowerConfig<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    keys.set("projector_type", &"glm4v".into());
    config.activation(keys)?;
    let name = "config.json vision_config.rms_norm_eps";
    let epsilon = config.real(config.value("rms_norm_eps"), name, 1e-5)?;
    keys.real("vision.attention.layer_norm_epsilon", epsilon);
    Ok(())
}

/// The size of an image varies. llama.cpp's converter writes this number, and llama.cpp requires one.
fn lfm2_vl_sizes(config: &TowerConfig<'_>) -> Result<Sizes> {
    let count = |name: &str| config.count(&[name]);
    Ok(Sizes {
        image: 256,
        patch: count("patch_size")?,
        width: count("hidden_size")?,
        ffn: count("intermediate_size")?,
        layers: count("num_hidden_layers")?,
        heads: count("num_attention_heads")?,
    })
}

fn lfm2_vl(config: &TowerConfig<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    // The layer whose output counts, from the last one, which is -1. The file has those behind it too.
    let layers = config.count(&["num_hidden_layers"])?;
    if let Some(layer) = config.outer("vision_feature_layer") {
        let used = layer.as_i64().filter(|layer| *layer < 0);
        let used = used.and_then(|layer| i64::from(layers).checked_add(layer)?.checked_add(1));
        let used = used.and_then(|used| u32::try_from(used).ok()).filter(|used| *used > 0);
        let needed = format!("a number from -{layers} to -1");
        let key = "config.json vision_feature_layer";
        let used = used.ok_or_else(|| config.invalid(layer, key, &needed))?;
        keys.count("vision.block_count", used);
    }
    keys.set("projector_type", &"lfm2".into());
    epsilon(config, keys, 1e-6)?;
    let name = "downsample_factor";
    let factor = config.optional(config.outer(name), "config.json downsample_factor")?;
    keys.count("vision.projector.scale_factor", factor.unwrap_or(2));
    keys.set("use_gelu", &true.into());
    Ok(())
}

/// The size of an image is that of the slices that the processor makes.
fn minicpmv4_6_sizes(config: &TowerConfig<'_>) -> Result<Sizes> {
    let name = "preprocessor_config.json scale_resolution";
    let slice = config.optional(config.preprocessor("scale_resolution"), name)?;
    let sizes = usual_sizes(config)?;
    Ok(Sizes { image: slice.unwrap_or(sizes.image), ..sizes })
}

fn minicpmv4_6(config: &TowerConfig<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if let Some(mode) = config.preprocessor("downsample_mode").filter(|mode| *mode != "16x") {
        let key = "preprocessor_config.json downsample_mode";
        return Err(config.invalid(mode, key, "16x"));
    }
    keys.set("projector_type", &"minicpmv4_6".into());
    keys.count("vision.projector.scale_factor", 4);
    // The layer behind which patches are merged.
    let name = "insert_layer_id";
    let layer = config.outer(name).or_else(|| config.value(name));
    let layer = config.optional(layer, "config.json insert_layer_id")?.unwrap_or(6);
    keys.set("vision.wa_layer_indexes", &Json::from(vec![layer]));
    keys.set("use_gelu", &true.into());
    epsilon(config, keys, 1e-6)
}

/// Encoders of audio as Whisper's.
fn whisper_sizes(config: &TowerConfig<'_>) -> Result<Sizes> {
    Ok(Sizes {
        image: 0,
        patch: 0,
        width: config.count(&["hidden_size", "d_model"])?,
        ffn: config.count(&["intermediate_size", "encoder_ffn_dim"])?,
        layers: config.count(&["num_hidden_layers", "encoder_layers"])?,
        heads: config.count(&["num_attention_heads", "encoder_attention_heads"])?,
    })
}

fn whisper(config: &TowerConfig<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let kind = match config.model_type() {
        "qwen2_audio" => "qwen2a",
        "voxtral" => "voxtral",
        _ => "musicflamingo",
    };
    keys.set("projector_type", &kind.into());
    keys.count("audio.num_mel_bins", config.count(&["num_mel_bins"])?);
    let name = "config.json audio_config.layer_norm_eps";
    let epsilon = config.real(config.value("layer_norm_eps"), name, 1e-5)?;
    keys.real("audio.attention.layer_norm_epsilon", epsilon);
    if kind == "voxtral" {
        keys.count("audio.projector.stack_factor", 4);
    }
    Ok(())
}
