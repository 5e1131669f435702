//! DeepSeek 2 and 3, and Kimi K2: multi-head latent attention, shared and routed experts.

use serde_json::{Map, Value as Json, json};

use super::decoder::{DECODER, MIXTURE, NEXTN, PREFIXES, SHARED_EXPERTS, json, keys};
use crate::arch::config::{Defaults, Reported};
use crate::arch::habits::{MlxChoice, MlxModules, MlxPath};
use crate::arch::rule::{NameRule, both, rule};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::transform::{RowOrder, SAME, rows, transposed};
use crate::arch::variant::{Class, ConfigRule as C, Constant, KeyRule as K, Variant};
use crate::arch::{Architecture, Gating, RopeLayout};
use crate::error::Result;

use Constant::{Count, Real, Word};

/// The architecture's row.
pub(super) static DEEPSEEK2: Architecture = Architecture {
    name: "deepseek2",
    summary: "DeepSeek 2, 3 and 3.2, Kimi K2",
    gguf: &["deepseek2", "deepseek32"],
    hf: &["deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2"],
    rope: RopeLayout::Interleaved,
    rules: &[LATENT, NEXTN, SHARED_EXPERTS, MIXTURE, DECODER],
    prefixes: PREFIXES,
    required: REQUIRED,
    variants: VARIANTS,
    mlx_uncast: &["e_score_correction_bias"],
    mlx_modules: &[MlxModules {
        models: &["deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2"],
        path: MlxPath::EndsWith("mlp.gate"),
        choice: MlxChoice::Bare,
    }],
    ..Architecture::EMPTY
};

/// Tensors of every layer. The first layers have no experts, and small models no low-rank q.
static REQUIRED: &[&str] = &[
    "token_embedding.weight",
    "output_norm.weight",
    "layers.{n}.attention_norm.weight",
    "layers.{n}.attention.kv_a.weight",
    "layers.{n}.attention.kv_a_norm.weight",
    "layers.{n}.attention.k_b.weight",
    "layers.{n}.attention.v_b.weight",
    "layers.{n}.attention.output.weight",
    "layers.{n}.ffn_norm.weight",
];

/// `k_b` and `v_b` expand keys and values from the latent space, one matrix per head. Hugging Face,
/// and llama.cpp's files before April 2025, stack both of a head in one matrix; llama.cpp now, and
/// mlx-lm since February 2026, store them separately, and `k_b` transposed.
#[rustfmt::skip]
static LATENT: &[NameRule] = &[
    rule("layers.{n}.attention.q_a.weight",             "blk.{n}.attn_q_a.weight",         "model.layers.{n}.self_attn.q_a_proj.weight",             SAME),
    rule("layers.{n}.attention.q_a.bias",               "blk.{n}.attn_q_a.bias",           "model.layers.{n}.self_attn.q_a_proj.bias",               SAME),
    rule("layers.{n}.attention.q_a_norm.weight",        "blk.{n}.attn_q_a_norm.weight",    "model.layers.{n}.self_attn.q_a_layernorm.weight",        SAME),
    rule("layers.{n}.attention.q_b.weight",             "blk.{n}.attn_q_b.weight",         "model.layers.{n}.self_attn.q_b_proj.weight",             SAME),
    rule("layers.{n}.attention.kv_a.weight",            "blk.{n}.attn_kv_a_mqa.weight",    "model.layers.{n}.self_attn.kv_a_proj_with_mqa.weight",   SAME),
    rule("layers.{n}.attention.kv_a.bias",              "blk.{n}.attn_kv_a_mqa.bias",      "model.layers.{n}.self_attn.kv_a_proj_with_mqa.bias",     SAME),
    rule("layers.{n}.attention.kv_a_norm.weight",       "blk.{n}.attn_kv_a_norm.weight",   "model.layers.{n}.self_attn.kv_a_layernorm.weight",       SAME),
    both("layers.{n}.attention.k_b.weight", "blk.{n}.attn_kv_b.weight", "model.layers.{n}.self_attn.kv_b_proj.weight", rows(RowOrder::Unfolding(0))),
    both("layers.{n}.attention.v_b.weight", "blk.{n}.attn_kv_b.weight", "model.layers.{n}.self_attn.kv_b_proj.weight", rows(RowOrder::Unfolding(1))),
    both("layers.{n}.attention.k_b.weight", "blk.{n}.attn_k_b.weight",  "model.layers.{n}.self_attn.embed_q.weight",   transposed(RowOrder::All)),
    rule("layers.{n}.attention.v_b.weight",             "blk.{n}.attn_v_b.weight",         "model.layers.{n}.self_attn.unembed_out.weight",          SAME),
    // The indexer of DeepSeek 3.2 selects the positions that are attended to.
    rule("layers.{n}.attention.indexer.q_b.weight",     "blk.{n}.indexer.attn_q_b.weight", "model.layers.{n}.self_attn.indexer.wq_b.weight",         SAME),
    rule("layers.{n}.attention.indexer.k.weight",       "blk.{n}.indexer.attn_k.weight",   "model.layers.{n}.self_attn.indexer.wk.weight",           SAME),
    rule("layers.{n}.attention.indexer.k_norm.weight",  "blk.{n}.indexer.k_norm.weight",   "model.layers.{n}.self_attn.indexer.k_norm.weight",       SAME),
    rule("layers.{n}.attention.indexer.k_norm.bias",    "blk.{n}.indexer.k_norm.bias",     "model.layers.{n}.self_attn.indexer.k_norm.bias",         SAME),
    rule("layers.{n}.attention.indexer.weights.weight", "blk.{n}.indexer.proj.weight",     "model.layers.{n}.self_attn.indexer.weights_proj.weight", SAME),
];

#[rustfmt::skip]
static VARIANTS: &[Variant] = &[
    Variant {
        gguf: "deepseek2",
        hf: &["deepseek_v2", "deepseek_v3", "kimi_k2"],
        keys: &[keys::BASE, &[K::By(widths_of_heads), K::FileType], KEYS],
        classes: &[
            Class { model_type: "deepseek_v3", class: "DeepseekV3ForCausalLM", when: Some(gated_by_sigmoid),
                rules: &[json::BODY, json::DENSE, json::GROUPED, json::RMS, json::SILU, CONFIG, &[C::Fixed("scoring_func", Word("sigmoid")), C::Fixed("topk_method", Word("noaux_tc"))]], ..Class::EMPTY },
            Class { model_type: "deepseek_v2", class: "DeepseekV2ForCausalLM",
                rules: &[json::BODY, json::DENSE, json::GROUPED, json::RMS, json::SILU, CONFIG, &[C::Fixed("scoring_func", Word("softmax")), C::By(choice)]], ..Class::EMPTY },
        ],
        mlx_config: Some(neutral_yarn),
        defaults: Defaults::activation("silu"),
        ..Variant::EMPTY
    },
    Variant {
        gguf: "deepseek32",
        hf: &["deepseek_v32"],
        keys: &[keys::BASE, &[K::By(widths_of_heads), K::FileType], KEYS, &[K::By(indexer)]],
        classes: &[
            Class { model_type: "deepseek_v32", class: "DeepseekV32ForCausalLM",
                rules: &[json::BODY, json::DENSE, json::GROUPED, json::RMS, json::SILU, CONFIG, &[C::Fixed("scoring_func", Word("sigmoid")), C::Fixed("topk_method", Word("noaux_tc")),
                    C::Stated("attention.indexer.head_count", "index_n_heads"), C::Stated("attention.indexer.key_length", "index_head_dim"), C::Stated("attention.indexer.top_k", "index_topk")]], ..Class::EMPTY },
        ],
        ..Variant::EMPTY
    },
];

#[rustfmt::skip]
const KEYS: &[K] = &[
    K::Or("rms_eps", Real(1e-6)), K::By(dense_layers), K::Derived("vocab_size"), K::Row("q_lora_rank"),
    K::By(latent), K::Derived("expert_ffn_dim"), K::Row("n_experts"), K::Or("n_shared_experts", Count(0)),
    K::Row("expert_weights_scale"), K::By(weights_norm), K::Row("rope_dimension_count"), K::By(log_multiplier),
];

#[rustfmt::skip]
const CONFIG: &[C] = &[
    C::By(latent_widths),
    C::By(deepseek_yarn),
    C::Field("n_next_token_layers", "num_nextn_predict_layers"),
];

/// Number of dense layers before the first layer with experts, which transformers' classes have a
/// default for.
fn dense_layers(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let dense = model.config.experts.n_leading_dense_layers.as_ref().map_or(0, |n| n.value);
    keys.count("leading_dense_block_count", dense);
    // llama.cpp's loader requires a width of experts even then.
    if let Some(width) = model.config.ffn_dim.as_ref().filter(|_| model.config.n_experts.value == 0)
    {
        keys.count("expert_feed_forward_length", width.value);
    }
    // llama.cpp's loader requires the rank, unless the model has the size of a published one without.
    let layers = model.config.n_layers.value;
    let rows = model.config.vocab_size.as_ref().map(|rows| rows.value);
    let published = matches!((layers, rows), (26 | 27, _) | (48, Some(128_256)));
    if model.config.attention.q_lora_rank.is_none() && !published {
        keys.count("attention.q_lora_rank", 0);
    }
    Ok(())
}

fn weights_norm(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if model.config.experts.expert_weights_norm.as_ref().is_some_and(|norm| norm.value) {
        keys.set("expert_weights_norm", &true.into());
    }
    Ok(())
}

/// A number that latent attention requires.
fn need(model: &SourceModel<'_>, name: &str) -> Result<u32> {
    let value = model.derived(name).and_then(|value| value.as_u64());
    let value = value.and_then(|value| u32::try_from(value).ok());
    value.ok_or_else(|| model.missing_in_config(name))
}

/// The place of the width of a head. The converter reads it from the config through transformers'
/// class, which always states one, and replaces the value. Kimi K2 has no class there.
fn widths_of_heads(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if model.architecture() == "kimi_k2" {
        return Ok(());
    }
    shared_head(model, keys)
}

/// The head of keys and values that all queries share.
fn shared_head(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let (rank, rotated) = (need(model, "kv_lora_rank")?, need(model, "rope_dimension_count")?);
    keys.count("attention.key_length", rank.saturating_add(rotated));
    keys.count("attention.value_length", rank);
    Ok(())
}

/// Latent attention in GGUF: one key head that all queries share.
fn latent(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    keys.count("attention.head_count_kv", 1);
    keys.count("attention.kv_lora_rank", need(model, "kv_lora_rank")?);
    shared_head(model, keys)?;
    keys.count("attention.key_length_mla", model.config.head_dim.value);
    keys.count("attention.value_length_mla", need(model, "value_head_dim")?);
    Ok(())
}

fn log_multiplier(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if let Some(all) = &model.config.rope_scaling.mscale_all_dim {
        // The tenth of the number in `config.json`, rounded once.
        let all = all.value.reported().as_f64().unwrap_or_default();
        #[expect(clippy::cast_possible_truncation, reason = "GGUF has an f32")]
        keys.real("rope.scaling.yarn_log_multiplier", (0.1 * all) as f32);
    }
    Ok(())
}

/// The indexer of DeepSeek 3.2.
fn indexer(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let rows = [
        ("index_n_heads", "attention.indexer.head_count"),
        ("index_head_dim", "attention.indexer.key_length"),
        ("index_topk", "attention.indexer.top_k"),
    ];
    for (path, key) in rows {
        keys.count(key, model.count(path)?.ok_or_else(|| model.missing_in_config(path))?);
    }
    Ok(())
}

/// mlx-lm's class of DeepSeek 2 requires YaRN; with a factor of 1 it changes nothing.
fn neutral_yarn(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let second = out.get("model_type").and_then(Json::as_str) == Some("deepseek_v2");
    if second && out.get("rope_scaling").is_none_or(Json::is_null) {
        let yarn = json!({
            "type": "yarn",
            "rope_type": "yarn",
            "factor": 1.0,
            "original_max_position_embeddings": model.derived("max_seq_len"),
            "rope_theta": model.config.rope_theta.value.reported(),
        });
        out.insert("rope_scaling".to_owned(), yarn);
    }
    Ok(())
}

fn gated_by_sigmoid(model: &SourceModel<'_>) -> bool {
    let gating = model.config.experts.expert_gating.as_ref();
    gating.is_some_and(|gating| gating.value == Gating::Sigmoid)
}

/// How DeepSeek 2 chooses experts: among all of them, or among those of the best groups.
fn choice(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let groups = model.config.experts.n_expert_groups.as_ref().map_or(1, |groups| groups.value);
    let method = if groups > 1 { "group_limited_greedy" } else { "greedy" };
    out.insert("topk_method".to_owned(), method.into());
    Ok(())
}

/// DeepSeek's latent attention and experts.
fn latent_widths(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    for (field, key) in [
        ("q_lora_rank", "q_lora_rank"),
        ("kv_lora_rank", "kv_lora_rank"),
        ("qk_nope_head_dim", "qk_nope_head_dim"),
        ("rope_dimension_count", "qk_rope_head_dim"),
        ("value_head_dim", "v_head_dim"),
        ("n_experts", "n_routed_experts"),
        ("n_experts_used", "num_experts_per_tok"),
        ("n_shared_experts", "n_shared_experts"),
        ("expert_ffn_dim", "moe_intermediate_size"),
        ("n_leading_dense_layers", "first_k_dense_replace"),
        ("n_expert_groups", "n_group"),
        ("n_expert_groups_used", "topk_group"),
        ("expert_weights_scale", "routed_scaling_factor"),
    ] {
        let value = model.derived(field);
        match (value, key) {
            (Some(value), _) => out.insert(key.to_owned(), value),
            // DeepSeek 2 Lite has no `q_lora_rank`, and its config states `null`.
            (None, "q_lora_rank") => out.insert(key.to_owned(), Json::Null),
            (None, "n_group" | "topk_group" | "routed_scaling_factor") => None,
            (None, _) => return Err(model.missing_in_model(key)),
        };
    }
    let norm = model.config.experts.expert_weights_norm.as_ref().is_some_and(|norm| norm.value);
    out.insert("norm_topk_prob".to_owned(), norm.into());
    out.insert("moe_layer_freq".to_owned(), 1.into());
    out.insert("attention_bias".to_owned(), model.has_in_layers("attention.kv_a.bias").into());
    Ok(())
}

/// DeepSeek's YaRN: the converter stores `mscale_all_dim` divided by ten.
fn deepseek_yarn(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let Some(multiplier) = &model.config.rope_scaling.log_multiplier else { return Ok(()) };
    if let Some(Json::Object(rope)) = out.get_mut("rope_scaling") {
        // Ten times the digits of the `f32`, rounded once: 0.0707 is that of 0.707.
        let tenth = multiplier.value.reported().as_f64().unwrap_or_default();
        #[expect(clippy::cast_possible_truncation, reason = "the number that was written")]
        let all = ((10.0 * tenth) as f32).reported();
        rope.insert("mscale".to_owned(), all.clone());
        rope.insert("mscale_all_dim".to_owned(), all);
    }
    Ok(())
}
