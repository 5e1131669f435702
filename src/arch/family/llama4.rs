//! Llama 4, the language model: experts in all layers or in every second one, norms without factors on
//! q and k, and attention within chunks, but for every fourth layer, which has no rotary embeddings.
//! The rows of q and k are in pairs in all containers.

use serde_json::{Map, Value as Json};

use super::decoder::{DECODER, PREFIXES, REQUIRED, json, keys};
use crate::arch::config::{Defaults, GgufDefaults};
use crate::arch::rule::{NameRule, gguf, hf, rule};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::transform::{RowOrder, SAME, transposed};
use crate::arch::variant::{Class, ConfigRule as C, Constant, KeyRule as K, Variant};
use crate::arch::{Architecture, Dialect, LayerKind, Rename, RopeLayout};
use crate::error::Result;

use Constant::{Count, Flag, Real};

/// The architecture's row.
pub(super) static LLAMA4: Architecture = Architecture {
    name: "llama4",
    summary: "Llama 4",
    gguf: &["llama4"],
    hf: &["llama4", "llama4_text"],
    rope: RopeLayout::Interleaved,
    rules: &[NETWORK, DECODER],
    mlx: MLX,
    prefixes: PREFIXES,
    required: REQUIRED,
    renames: &[
        in_mlx("model.", "language_model.model."),
        in_mlx("lm_head.", "language_model.lm_head."),
    ],
    variants: VARIANTS,
    outer_head: true,
    ..Architecture::EMPTY
};

/// mlx-lm has a class for the language model within one with images only.
const fn in_mlx(prefix: &'static str, replacement: &'static str) -> Rename {
    Rename { dialect: Dialect::Mlx, prefix, replacement, ..Rename::EMPTY }
}

/// Experts are `[inputs, outputs]` in Hugging Face's files.
#[rustfmt::skip]
static NETWORK: &[NameRule] = &[
    rule("layers.{n}.ffn.gate.weight",               "blk.{n}.ffn_gate.weight",       "model.layers.{n}.feed_forward.gate_proj.weight",               SAME),
    rule("layers.{n}.ffn.up.weight",                 "blk.{n}.ffn_up.weight",         "model.layers.{n}.feed_forward.up_proj.weight",                 SAME),
    rule("layers.{n}.ffn.down.weight",               "blk.{n}.ffn_down.weight",       "model.layers.{n}.feed_forward.down_proj.weight",               SAME),
    rule("layers.{n}.ffn.router.weight",             "blk.{n}.ffn_gate_inp.weight",   "model.layers.{n}.feed_forward.router.weight",                  SAME),
    rule("layers.{n}.ffn.shared_expert.gate.weight", "blk.{n}.ffn_gate_shexp.weight", "model.layers.{n}.feed_forward.shared_expert.gate_proj.weight", SAME),
    rule("layers.{n}.ffn.shared_expert.up.weight",   "blk.{n}.ffn_up_shexp.weight",   "model.layers.{n}.feed_forward.shared_expert.up_proj.weight",   SAME),
    rule("layers.{n}.ffn.shared_expert.down.weight", "blk.{n}.ffn_down_shexp.weight", "model.layers.{n}.feed_forward.shared_expert.down_proj.weight", SAME),
    hf("layers.{n}.ffn.experts.gate.weight",  "model.layers.{n}.feed_forward.experts.gate_up_proj", transposed(RowOrder::Half(0))),
    hf("layers.{n}.ffn.experts.up.weight",    "model.layers.{n}.feed_forward.experts.gate_up_proj", transposed(RowOrder::Half(1))),
    hf("layers.{n}.ffn.experts.down.weight",  "model.layers.{n}.feed_forward.experts.down_proj",    transposed(RowOrder::All)),
    gguf("layers.{n}.ffn.experts.gate.weight", "blk.{n}.ffn_gate_exps.weight", SAME),
    gguf("layers.{n}.ffn.experts.up.weight",   "blk.{n}.ffn_up_exps.weight",   SAME),
    gguf("layers.{n}.ffn.experts.down.weight", "blk.{n}.ffn_down_exps.weight", SAME),
];

/// mlx-lm stores gate and up separately, as `[outputs, inputs]`.
#[rustfmt::skip]
static MLX: &[NameRule] = &[
    hf("layers.{n}.ffn.experts.gate.weight", "model.layers.{n}.feed_forward.experts.gate_proj.weight", SAME),
    hf("layers.{n}.ffn.experts.up.weight",   "model.layers.{n}.feed_forward.experts.up_proj.weight",   SAME),
    hf("layers.{n}.ffn.experts.down.weight", "model.layers.{n}.feed_forward.experts.down_proj.weight", SAME),
];

#[rustfmt::skip]
static VARIANTS: &[Variant] = &[
    Variant {
        gguf: "llama4",
        hf: &["llama4", "llama4_text"],
        keys: &[keys::BASE, keys::HEADS, &[K::Derived("vocab_size"), K::Rotated(1.0), K::Row("expert_layer_step"), K::Derived("expert_ffn_dim"), K::By(no_chunks)]],
        classes: &[
            Class { model_type: "llama4_text", class: "Llama4ForCausalLM", within: Some("llama4"),
                rules: &[json::BODY, json::HEADS, json::GROUPED, json::RMS, json::SILU, &[C::Field("ffn_dim", "intermediate_size_mlp"), C::Needed("expert_ffn_dim", "intermediate_size"),
                    C::Field("n_experts", "num_local_experts"), C::Needed("n_experts_used", "num_experts_per_tok"), C::Field("expert_layer_step", "interleave_moe_layer_step"),
                    C::Field("chunk_size", "attention_chunk_size"), C::By(json::layer_types), C::By(layers), C::By(qk_norm),
                    // llama.cpp's own numbers, which no GGUF file states.
                    C::Fixed("attn_temperature_tuning", Flag(true)), C::Fixed("floor_scale", Count(8192)), C::Fixed("attn_scale", Real(0.1))]], ..Class::EMPTY },
        ],
        defaults: Defaults { of_gguf: GgufDefaults { chunk_size: Some(8192), ..Defaults::activation("silu").of_gguf }, ..Defaults::NONE },
        ..Variant::EMPTY
    },
];

/// llama.cpp takes a window of 0 to mean that all layers attend to all positions.
fn no_chunks(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if let Some(all) = model.layers_of(&LayerKind::Full)?
        && all.iter().all(|full| *full)
    {
        keys.count("attention.sliding_window", 0);
    }
    Ok(())
}

/// The layers with experts.
fn layers(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let routed = |layer: &u32| model.has(&format!("layers.{layer}.ffn.router.weight"));
    let routed: Vec<u32> = (0..model.own_layers()).filter(routed).collect();
    out.insert("moe_layers".to_owned(), routed.into());
    Ok(())
}

/// llama.cpp tells the model without norms of q and k by its number of experts.
fn qk_norm(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    out.insert("use_qk_norm".to_owned(), (model.config.n_experts.value != 128).into());
    Ok(())
}
