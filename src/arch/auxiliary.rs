//! Known tensors that no model code asks for: patterns for every architecture, and for one.

use crate::json::Json;

const VISION: &str = "part of the vision model, not of the language model";
const AUDIO: &str = "part of the audio model, not of the language model";
pub(super) const PROJECTOR: &str =
    "part of the projector between the vision or audio model and the language model";

/// The reason of tensors of a layer that predicts further tokens.
pub(crate) const NEXT_TOKENS: &str =
    "part of the multi-token prediction layer (nextn), which the model can run without";

const FREQUENCIES: &str = "rotary frequencies, which are derived from the config";
const POSITIONS: &str = "position numbers, counted from 0";

const DERIVED_FACTORS: &str = "rotary factors that llama.cpp's converter derives from the config";
const STATED_FACTORS: &str = "rotary factors that llama.cpp's converter takes from the config";

/// Reasons of tensors that hold divisors of rotary frequencies.
pub(super) const ROTARY: [&str; 2] = [DERIVED_FACTORS, STATED_FACTORS];

/// Reasons of tensors that classes compute, whether they are stored or not.
pub(super) const COMPUTED: [&str; 2] = [FREQUENCIES, POSITIONS];

/// The reason of unknown tensors without elements.
pub(super) const EMPTY: &str = "empty, a tensor without elements";

/// The reason of scales next to weights that are stored as numbers.
const UNAPPLIED: &str = "of a quantization that is not applied to the stored weights";

/// The reason of a tensor of compressed-tensors next to weights that it stores as numbers, if it is one.
pub(super) fn of_dense(stored: &str, config: Option<&Json>) -> Option<&'static str> {
    const ENDS: [&str; 4] =
        [".weight_scale", ".weight_zero_point", ".weight_g_idx", ".input_scale"];
    let stated = ["/quantization_config/format", "/compression_config/format"];
    let is_part = ENDS.iter().any(|end| stored.ends_with(end));
    let is_dense = || {
        let mut stated = stated.iter().filter_map(|pointer| config?.pointer(pointer)?.as_str());
        stated.any(|format| format == "dense")
    };
    (is_part && is_dense()).then_some(UNAPPLIED)
}

/// The reason of tensors that the caller leaves out.
pub(crate) const LEFT_OUT: &str = "as requested";

/// The reason of biases that change nothing, and that the reader of what is written has no place for.
pub(crate) const ZERO_BIAS: &str = "a bias of zeros, which the model's class does not have";

/// The reason of a projector in a model whose config names no vision or audio model.
pub(super) const OTHER_PROJECTOR: &str =
    "part of a projection behind the language model, which has no name here";

/// Whether the config of a model names a vision or audio model.
pub(super) fn has_other_models(config: &Json) -> bool {
    let mut keys =
        config.as_object().into_iter().flat_map(|config| config.iter()).map(|(key, _)| key);
    keys.any(|key| names_other_model(key))
}

/// Whether a key of a config is about a vision or audio model.
pub(super) fn names_other_model(key: &str) -> bool {
    const WORDS: [&str; 6] = ["vision", "audio", "image", "visual", "speech", "mm_"];
    WORDS.iter().any(|word| key.contains(word))
}

/// Reasons of tensors that belong to a vision or audio model in the same files.
pub(super) const TOWERS: [&str; 3] = [VISION, AUDIO, PROJECTOR];

/// Modules of vision and audio models in transformers' classes, wherever they are in a model.
static TOWER_MODULES: &[(&str, &[&str])] = &[
    (
        VISION,
        &[
            "visual",
            "vision_tower",
            "vision_model",
            "vision_encoder",
            "vision_backbone",
            "vision_embed_tokens",
            "vision_embedder",
            "visual_embeddings_table",
            "high_res_vision_model",
            "image_tower",
            "video_tower",
            "image_encoder",
            "high_res_vision_neck",
            "vpm",
            "vqmodel",
            "generation_embeddings",
            "generation_aligner",
            "generation_head",
            "high_res_vision_alpha",
        ],
    ),
    (
        AUDIO,
        &[
            "audio",
            "audio_tower",
            "audio_model",
            "audio_encoder",
            "speech_encoder",
            "acoustic_tokenizer_encoder",
            "semantic_tokenizer_encoder",
        ],
    ),
    (
        PROJECTOR,
        &[
            "multi_modal_projector",
            "mm_projector",
            "projector",
            "connector",
            "aligner",
            "merger",
            "vision_adapter",
            "vision_projection",
            "visual_projection",
            "high_res_vision_proj",
            "image_to_text_projection",
            "language_projection",
            "qformer",
            "resampler",
            "query_tokens",
            "mlp1",
            "mlp_AR",
            "image_newline",
            "embed_vision",
            "embed_audio",
        ],
    ),
];

/// The name of a tensor of a tower that is stored as if the tower were a part of the language model, without that
/// part of the name.
pub(super) fn outside_language_model(stored: &str) -> Option<String> {
    const HOLDER: &str = "language_model.";
    let (before, rest) = stored.split_once(HOLDER)?;
    let module = rest.split('.').next()?;
    let is_tower = TOWER_MODULES.iter().any(|(_, names)| names.contains(&module));
    let is_whole = before.is_empty() || before.ends_with('.');
    (is_tower && is_whole).then(|| format!("{before}{rest}"))
}

/// The tower that a stored tensor belongs to: a module before its layers has the name of one.
pub(crate) fn tower(stored: &str) -> Option<&'static str> {
    let mut modules = stored.split('.').take_while(|module| module.parse::<u32>().is_err());
    modules.find_map(|module| {
        let row = TOWER_MODULES.iter().find(|(_, names)| names.contains(&module));
        row.map(|(reason, _)| *reason)
    })
}

/// Whether a stored tensor belongs to a vision or audio model itself, not to its projector.
pub(super) fn is_encoder(stored: &str) -> bool {
    tower(stored).is_some_and(|reason| reason != PROJECTOR)
}

const ACTIVATIONS: &str = "a scale for activations, not for weights";
const MARK: &str = "a mark of ComfyUI that weights have a scale";
const CACHE: &str = "a scale for the cache of keys and values, not for weights";
const KEYS: &str = "a scale for the key cache, not for weights";
const VALUES: &str = "a scale for the value cache, not for weights";

/// Reasons of tensors that belong to a quantization scheme, and mean nothing beside decoded weights.
pub(super) const OF_SCHEME: [&str; 5] = [ACTIVATIONS, MARK, CACHE, KEYS, VALUES];

/// Patterns of stored names, where `*` matches any text, and what such a tensor is.
#[rustfmt::skip]
static AUXILIARY: &[(&str, &str)] = &[
    ("rope_freqs.weight",            DERIVED_FACTORS),
    ("*rope_factors_long.weight",    STATED_FACTORS),
    ("*rope_factors_short.weight",   STATED_FACTORS),
    ("*.rotary_emb.inv_freq",        FREQUENCIES),
    ("mtp.*",                        NEXT_TOKENS),
    ("model.mtp*",                   NEXT_TOKENS),
    ("*embeddings.position_ids",     POSITIONS),
    ("*.attn_rot_embd.weight",       FREQUENCIES),
    ("rope.freqs",                   FREQUENCIES),
    ("v.*",                          VISION),
    ("a.*",                          AUDIO),
    ("mm.*",                         PROJECTOR),
    ("*.input_scale",                ACTIVATIONS),
    ("*.activation_scale",           ACTIVATIONS),
    ("*.qscale_act",                 ACTIVATIONS),
    ("*scaled_fp8",                  MARK),
    ("*.kv_scale",                   CACHE),
    ("*.k_scale",                    KEYS),
    ("*.v_scale",                    VALUES),
];

/// The purpose of a tensor with this stored name, if a pattern matches the name: one of all models,
/// or of `others`.
pub(super) fn reason(
    stored: &str,
    others: &[(&'static str, &'static str)],
) -> Option<&'static str> {
    let mut rows = AUXILIARY.iter().chain(others);
    let found = rows.find(|(pattern, _)| matches(pattern, stored)).map(|(_, reason)| *reason);
    found.or_else(|| tower(stored))
}

fn matches(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (_, Some(start)) => name.starts_with(start),
        _ => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::{AUDIO, VISION, reason, tower};

    #[test]
    fn towers_are_recognized_wherever_they_are() {
        for name in ["transformer.audio.conv1.weight", "model.audio_tower.conv1.weight"] {
            assert_eq!(tower(name), Some(AUDIO), "{name}");
        }
        assert_eq!(tower("model.vision_embedder.patch_dense.bias"), Some(VISION));
    }

    #[test]
    fn scales_of_the_cache_are_no_weights() {
        for name in ["k_scale", "v_scale", "kv_scale"] {
            let found = reason(&format!("model.layers.0.self_attn.{name}"), &[]);
            assert!(found.is_some_and(|reason| reason.contains("cache")), "{name}: {found:?}");
        }
    }
}
