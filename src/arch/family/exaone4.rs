//! EXAONE 4: norms after attention and feed-forward network only. In the larger models most layers
//! attend to a window, and the others have no rotary embeddings.

use serde_json::{Map, Value as Json};

use super::decoder::{BARE, DECODER, PREFIXES, QK_NORM, json, keys};
use crate::arch::config::Defaults;
use crate::arch::rule::{NameRule, rule};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::transform::SAME;
use crate::arch::variant::{Class, ConfigRule as C, KeyRule as K, Variant};
use crate::arch::{Architecture, LayerKind, RopeLayout};
use crate::error::Result;

/// The architecture's row.
pub(super) static EXAONE4: Architecture = Architecture {
    name: "exaone4",
    summary: "EXAONE 4",
    gguf: &["exaone4"],
    hf: &["exaone4"],
    rope: RopeLayout::HalfSplit,
    rules: &[POST_NORMS, QK_NORM, DECODER],
    prefixes: PREFIXES,
    required: BARE,
    variants: VARIANTS,
    ..Architecture::EMPTY
};

#[rustfmt::skip]
static POST_NORMS: &[NameRule] = &[
    rule("layers.{n}.post_attention_norm.weight", "blk.{n}.post_attention_norm.weight", "model.layers.{n}.post_attention_layernorm.weight",   SAME),
    rule("layers.{n}.post_ffn_norm.weight",       "blk.{n}.post_ffw_norm.weight",       "model.layers.{n}.post_feedforward_layernorm.weight", SAME),
];

#[rustfmt::skip]
static VARIANTS: &[Variant] = &[
    Variant {
        gguf: "exaone4",
        hf: &["exaone4"],
        keys: &[keys::BASE, keys::HEADS, &[K::Derived("vocab_size"), K::By(windows)]],
        llama3_factors: true,
        classes: &[
            Class { model_type: "exaone4", class: "Exaone4ForCausalLM",
                rules: &[json::BODY, json::DENSE, json::UNEVEN, json::GROUPED, json::RMS, json::SILU, &[C::Field("sliding_window", "sliding_window"), C::Field("sliding_window_pattern", "sliding_window_pattern"), C::By(json::layer_types)]], ..Class::EMPTY },
        ],
        mlx_config: Some(letters),
        defaults: Defaults { window_period: Some(4), ..Defaults::activation("silu") },
        ..Variant::EMPTY
    },
];

/// mlx-lm's class reads a letter for each layer: L if it attends to a window, G if to all positions.
fn letters(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let key = "sliding_window_pattern";
    if out.get(key).is_some_and(Json::is_string) {
        return Ok(());
    }
    let letter = |kind: &&LayerKind| if **kind == LayerKind::Sliding { 'L' } else { 'G' };
    let windows = model.config.attention.sliding_window.is_some();
    let each = model.kinds().filter(|_| windows);
    let letters = each.map(|kinds| kinds.iter().map(letter).collect::<String>());
    out.insert(key.to_owned(), letters.map_or(Json::Null, Json::String));
    Ok(())
}

/// Which layers attend to a window, as a list.
fn windows(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let Some(window) = model.row("sliding_window")? else { return Ok(()) };
    keys.set("attention.sliding_window", &window);
    if let Some(kinds) = model.kinds() {
        let slides: Vec<bool> = kinds.iter().map(|kind| **kind == LayerKind::Sliding).collect();
        keys.flags("attention.sliding_window_pattern", &slides);
    }
    Ok(())
}
