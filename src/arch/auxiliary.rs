//! Known tensors that no model code asks for: patterns for every architecture, and for one.

const VISION: &str = "part of the vision model, not of the language model";
const AUDIO: &str = "part of the audio model, not of the language model";
const PROJECTOR: &str =
    "part of the projector between the vision or audio model and the language model";

/// The reason of tensors of a layer that predicts further tokens.
pub(crate) const NEXT_TOKENS: &str =
    "part of the multi-token prediction layer (nextn), which the model can run without";

/// The reason of tensors that the caller leaves out.
pub(super) const LEFT_OUT: &str = "as requested";

/// Reasons of tensors that belong to a vision or audio model in the same files.
pub(super) const TOWERS: [&str; 3] = [VISION, AUDIO, PROJECTOR];

/// Patterns of stored names, where `*` matches any text, and what such a tensor is.
#[rustfmt::skip]
static AUXILIARY: &[(&str, &str)] = &[
    ("rope_freqs.weight",            "rotary factors that llama.cpp's converter derives from the config"),
    ("*rope_factors_long.weight",    "rotary factors that llama.cpp's converter takes from the config"),
    ("*rope_factors_short.weight",   "rotary factors that llama.cpp's converter takes from the config"),
    ("*.rotary_emb.inv_freq",        "rotary frequencies, which are derived from the config"),
    ("mtp.*",                        NEXT_TOKENS),
    ("*embeddings.position_ids",     "position numbers, counted from 0"),
    ("*.attn_rot_embd.weight",       "rotary frequencies, which are derived from the config"),
    ("rope.freqs",                   "rotary frequencies, which are derived from the config"),
    ("vision_tower.*",               VISION),
    ("vision_model.*",               VISION),
    ("visual.*",                     VISION),
    ("model.vision_tower.*",         VISION),
    ("model.visual.*",               VISION),
    ("model.vision_model.*",         VISION),
    ("v.*",                          VISION),
    ("audio_tower.*",                AUDIO),
    ("model.audio_tower.*",          AUDIO),
    ("a.*",                          AUDIO),
    ("multi_modal_projector.*",      PROJECTOR),
    ("model.multi_modal_projector.*", PROJECTOR),
    ("mm_projector.*",               PROJECTOR),
    ("model.mm_projector.*",         PROJECTOR),
    ("model.connector.*",            PROJECTOR),
    ("mlp1.*",                       PROJECTOR),
    ("image_newline",                PROJECTOR),
    ("model.image_newline",          PROJECTOR),
    ("embed_vision.*",               PROJECTOR),
    ("model.embed_vision.*",         PROJECTOR),
    ("embed_audio.*",                PROJECTOR),
    ("model.embed_audio.*",          PROJECTOR),
    ("mm.*",                         PROJECTOR),
    ("*.input_scale",                "a scale for activations, not for weights"),
    ("*.activation_scale",           "a scale for activations, not for weights"),
    ("*.qscale_act",                 "a scale for activations, not for weights"),
    ("*.k_scale",                    "a scale for the key cache, not for weights"),
    ("*.v_scale",                    "a scale for the value cache, not for weights"),
];

/// What a tensor with this stored name is, if a pattern matches the name: one of all models, or of
/// `others`.
pub(super) fn reason(
    stored: &str,
    others: &[(&'static str, &'static str)],
) -> Option<&'static str> {
    let mut rows = AUXILIARY.iter().chain(others);
    rows.find(|(pattern, _)| matches(pattern, stored)).map(|(_, reason)| *reason)
}

fn matches(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (_, Some(start)) => name.starts_with(start),
        _ => name == pattern,
    }
}
