//! ERNIE 4.5, dense and with experts. The rows of q and k are in pairs in all containers.

use serde_json::{Map, Value as Json};

use super::decoder::{DECODER, MIXTURE, PREFIXES, REQUIRED, SHARED_EXPERTS, json, keys};
use crate::arch::config::Defaults;
use crate::arch::rule::{NameRule, hf};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::transform::SAME;
use crate::arch::variant::{Class, ConfigRule as C, KeyRule as K, Variant};
use crate::arch::{Architecture, RopeLayout};
use crate::error::Result;

/// The architecture's row.
pub(super) static ERNIE4_5: Architecture = Architecture {
    name: "ernie4_5",
    summary: "ERNIE 4.5, dense and with experts",
    gguf: &["ernie4_5", "ernie4_5-moe"],
    hf: &["ernie4_5", "ernie4_5_moe"],
    rope: RopeLayout::Interleaved,
    rules: &[STATICS, SHARED_EXPERTS, MIXTURE, DECODER],
    prefixes: PREFIXES,
    required: REQUIRED,
    variants: VARIANTS,
    mlx_uncast: &["e_score_correction_bias"],
    ..Architecture::EMPTY
};

#[rustfmt::skip]
static STATICS: &[NameRule] = &[
    hf("layers.{n}.ffn.router.correction_bias", "model.layers.{n}.mlp.moe_statics.e_score_correction_bias", SAME),
];

#[rustfmt::skip]
static VARIANTS: &[Variant] = &[
    Variant {
        gguf: "ernie4_5",
        hf: &["ernie4_5"],
        keys: &[keys::BASE, keys::HEADS],
        classes: &[
            Class { model_type: "ernie4_5", class: "Ernie4_5ForCausalLM",
                rules: &[json::BODY, json::DENSE, json::HEADS, json::GROUPED, json::RMS, json::SILU], ..Class::EMPTY },
        ],
        defaults: Defaults::activation("silu"),
        ..Variant::EMPTY
    },
    Variant {
        gguf: "ernie4_5-moe",
        hf: &["ernie4_5_moe"],
        keys: &[keys::BASE, keys::HEADS, &[K::Row("expert_layer_step"), K::Row("n_leading_dense_layers"), K::Row("expert_ffn_dim"), K::Row("n_shared_experts"), K::By(shared_width)]],
        classes: &[
            Class { model_type: "ernie4_5_moe", class: "Ernie4_5_MoeForCausalLM",
                rules: &[json::BODY, json::DENSE, json::UNEVEN, json::GROUPED, json::RMS, json::SILU, &[C::Field("n_experts", "moe_num_experts"), C::Needed("n_experts_used", "moe_k"),
                    C::Needed("expert_ffn_dim", "moe_intermediate_size"), C::Field("n_shared_experts", "moe_num_shared_experts"),
                    C::Field("n_leading_dense_layers", "moe_layer_start_index"), C::Field("expert_layer_step", "moe_layer_interval"), C::By(last)]], ..Class::EMPTY },
        ],
        defaults: Defaults::activation("silu"),
        ..Variant::EMPTY
    },
];

/// The width of the shared experts together.
fn shared_width(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let experts = &model.config.experts;
    let (Some(width), Some(shared)) = (&experts.expert_ffn_dim, &experts.n_shared_experts) else {
        return Ok(());
    };
    if shared.value > 0 {
        let all = width.value.saturating_mul(shared.value);
        keys.count("expert_shared_feed_forward_length", all);
    }
    Ok(())
}

/// The last layer with experts.
fn last(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let last = model.own_layers().saturating_sub(1);
    out.insert("moe_layer_end_index".to_owned(), last.into());
    Ok(())
}
