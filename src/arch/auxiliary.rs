//! Tensors that are known, though no model code asks for them: in every architecture, and in one.

use super::Architecture;

const VISION: &str = "of the model that sees, which is not the language model's";
const AUDIO: &str = "of the model that hears, which is not the language model's";
const PROJECTOR: &str = "between the language model and the one that sees or hears";

/// Patterns of stored names, where `*` stands for anything, and what such a tensor is.
#[rustfmt::skip]
static AUXILIARY: &[(&str, &str)] = &[
    ("rope_freqs.weight",            "rotary factors that llama.cpp's converter makes from the config"),
    ("*rope_factors_long.weight",    "rotary factors that llama.cpp's converter takes from the config"),
    ("*rope_factors_short.weight",   "rotary factors that llama.cpp's converter takes from the config"),
    ("*.rotary_emb.inv_freq",        "rotary frequencies, which follow from the config"),
    ("mtp.*",                        "of the layer that predicts a further token, which the model does without"),
    ("*embeddings.position_ids",     "the numbers from 0 on"),
    ("*.attn_rot_embd.weight",       "rotary frequencies, which follow from the config"),
    ("rope.freqs",                   "rotary frequencies, which follow from the config"),
    ("vision_tower.*",               VISION),
    ("vision_model.*",               VISION),
    ("visual.*",                     VISION),
    ("model.vision_tower.*",         VISION),
    ("model.visual.*",               VISION),
    ("v.*",                          VISION),
    ("audio_tower.*",                AUDIO),
    ("model.audio_tower.*",          AUDIO),
    ("a.*",                          AUDIO),
    ("multi_modal_projector.*",      PROJECTOR),
    ("model.multi_modal_projector.*", PROJECTOR),
    ("embed_vision.*",               PROJECTOR),
    ("model.embed_vision.*",         PROJECTOR),
    ("embed_audio.*",                PROJECTOR),
    ("model.embed_audio.*",          PROJECTOR),
    ("mm.*",                         PROJECTOR),
    ("*.input_scale",                "a factor for activations, which no weight needs"),
    ("*.activation_scale",           "a factor for activations, which no weight needs"),
    ("*.qscale_act",                 "a factor for activations, which no weight needs"),
    ("*.k_scale",                    "a factor for cached keys, which no weight needs"),
    ("*.v_scale",                    "a factor for cached values, which no weight needs"),
];

/// What a tensor of that stored name is, if it is one of these.
pub(super) fn reason(stored: &str, architecture: &Architecture) -> Option<&'static str> {
    let mut rows = AUXILIARY.iter().chain(architecture.auxiliary);
    rows.find(|(pattern, _)| matches(pattern, stored)).map(|(_, reason)| *reason)
}

fn matches(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (_, Some(start)) => name.starts_with(start),
        _ => name == pattern,
    }
}
