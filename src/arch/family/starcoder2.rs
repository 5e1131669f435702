//! StarCoder 2: biases everywhere, and a feed-forward network without a gate.

use serde_json::{Map, Value as Json};

use super::decoder::{DECODER, NORM_BIASES, PREFIXES, UNGATED_REQUIRED, json, keys};
use crate::arch::habits::TokenizerHabits;
use crate::arch::rule::{NameRule, rule};
use crate::arch::source::SourceModel;
use crate::arch::transform::SAME;
use crate::arch::variant::{Class, ConfigRule as C, Constant, Variant};
use crate::arch::{Architecture, RopeLayout};
use crate::error::Result;

use Constant::{Flag, Word};

/// The architecture's row.
pub(super) static STARCODER2: Architecture = Architecture {
    name: "starcoder2",
    summary: "StarCoder 2",
    gguf: &["starcoder2"],
    hf: &["starcoder2"],
    rope: RopeLayout::HalfSplit,
    rules: &[NETWORK, NORM_BIASES, DECODER],
    prefixes: PREFIXES,
    required: UNGATED_REQUIRED,
    variants: VARIANTS,
    ..Architecture::EMPTY
};

#[rustfmt::skip]
static NETWORK: &[NameRule] = &[
    rule("layers.{n}.ffn.up.weight",   "blk.{n}.ffn_up.weight",   "model.layers.{n}.mlp.c_fc.weight",               SAME),
    rule("layers.{n}.ffn.up.bias",     "blk.{n}.ffn_up.bias",     "model.layers.{n}.mlp.c_fc.bias",                 SAME),
    rule("layers.{n}.ffn.down.weight", "blk.{n}.ffn_down.weight", "model.layers.{n}.mlp.c_proj.weight",             SAME),
    rule("layers.{n}.ffn.down.bias",   "blk.{n}.ffn_down.bias",   "model.layers.{n}.mlp.c_proj.bias",               SAME),
];

#[rustfmt::skip]
static VARIANTS: &[Variant] = &[
    Variant {
        gguf: "starcoder2",
        hf: &["starcoder2"],
        keys: &[keys::BASE, keys::HEADS],
        classes: &[
            Class { model_type: "starcoder2", class: "Starcoder2ForCausalLM",
                rules: &[json::BODY, json::DENSE, json::UNEVEN, json::GROUPED, &[C::Field("norm_eps", "norm_epsilon"), C::Fixed("hidden_act", Word("gelu_pytorch_tanh")), C::Fixed("use_bias", Flag(true)), C::By(narrow_window)]], ..Class::EMPTY },
        ],
        tokenizer: TokenizerHabits { pre: &["starcoder"], default_pre: Some("starcoder"), ..TokenizerHabits::NONE },
        ..Variant::EMPTY
    },
];

fn narrow_window(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    if let Some(window) = model.derived("sliding_window") {
        out.insert("sliding_window".to_owned(), window);
    }
    Ok(())
}
