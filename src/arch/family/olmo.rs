//! OLMo 2 and 3, and OLMoE.

use super::decoder::{BARE, DECODER, MIXTURE, PREFIXES, QK_NORM, REQUIRED, json, keys};
use crate::arch::habits::TokenizerHabits;
use crate::arch::rule::{NameRule, rule};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::transform::SAME;
use crate::arch::variant::{Class, ConfigRule as C, Constant, KeyRule as K, Variant};
use crate::arch::{Architecture, LayerKind, RopeLayout};
use crate::error::Result;

use Constant::{Flag, Real};

/// OLMo 2 and 3: norms after attention and feed-forward network only.
pub(super) static OLMO2: Architecture = Architecture {
    name: "olmo2",
    summary: "OLMo 2 and 3",
    gguf: &["olmo2"],
    hf: &["olmo2", "olmo3"],
    rope: RopeLayout::HalfSplit,
    rules: &[POST_NORMS, QK_NORM, DECODER],
    prefixes: PREFIXES,
    required: BARE,
    variants: OLMO2S,
    ..Architecture::EMPTY
};

/// OLMoE.
pub(super) static OLMOE: Architecture = Architecture {
    name: "olmoe",
    summary: "OLMoE",
    gguf: &["olmoe"],
    hf: &["olmoe"],
    rope: RopeLayout::HalfSplit,
    rules: &[QK_NORM, MIXTURE, DECODER],
    prefixes: PREFIXES,
    required: REQUIRED,
    variants: OLMOES,
    ..Architecture::EMPTY
};

#[rustfmt::skip]
static POST_NORMS: &[NameRule] = &[
    rule("layers.{n}.post_attention_norm.weight", "blk.{n}.post_attention_norm.weight", "model.layers.{n}.post_attention_layernorm.weight",   SAME),
    rule("layers.{n}.post_ffn_norm.weight",       "blk.{n}.post_ffw_norm.weight",       "model.layers.{n}.post_feedforward_layernorm.weight", SAME),
];

#[rustfmt::skip]
static OLMO2S: &[Variant] = &[
    Variant {
        gguf: "olmo2",
        hf: &["olmo2", "olmo3"],
        keys: &[keys::BASE, keys::HEADS, &[K::By(olmo_windows)]],
        classes: &[
            Class { model_type: "olmo3", class: "Olmo3ForCausalLM", when: Some(has_windows),
                rules: &[json::BODY, json::DENSE, json::UNEVEN, json::GROUPED, json::RMS, json::SILU, &[C::Field("sliding_window", "sliding_window"), C::By(json::layer_types)]], ..Class::EMPTY },
            Class { model_type: "olmo2", class: "Olmo2ForCausalLM",
                rules: &[json::BODY, json::DENSE, json::UNEVEN, json::GROUPED, json::RMS, json::SILU], ..Class::EMPTY },
        ],
        ..Variant::EMPTY
    },
];

#[rustfmt::skip]
static OLMOES: &[Variant] = &[
    Variant {
        gguf: "olmoe",
        hf: &["olmoe"],
        keys: &[keys::BASE, keys::HEADS, &[K::Fixed("attention.layer_norm_rms_epsilon", Real(1e-5))]],
        classes: &[
            Class { model_type: "olmoe", class: "OlmoeForCausalLM",
                rules: &[json::BODY, json::DENSE, json::UNEVEN, json::GROUPED, json::RMS, json::SILU, &[C::Field("n_experts", "num_experts"), C::Needed("n_experts_used", "num_experts_per_tok"), C::Fixed("norm_topk_prob", Flag(false))]], ..Class::EMPTY },
        ],
        tokenizer: TokenizerHabits { pre: &["olmo"], ..TokenizerHabits::NONE },
        ..Variant::EMPTY
    },
];

/// OLMo 3 has sliding windows except in each fourth layer; OLMo 2 has none.
fn olmo_windows(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let Some(window) = model.row("sliding_window")? else { return Ok(()) };
    keys.set("attention.sliding_window", &window);
    let listed = model.layers_of(&LayerKind::Sliding)?;
    let each =
        listed.unwrap_or_else(|| (0..model.config.n_layers.value).map(|n| n % 4 != 3).collect());
    keys.flags("attention.sliding_window_pattern", &each);
    Ok(())
}

fn has_windows(model: &SourceModel<'_>) -> bool {
    model.config.attention.sliding_window.is_some()
}
