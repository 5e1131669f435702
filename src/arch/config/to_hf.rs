//! The config as `config.json`: the fields of [`ModelConfig`](super::ModelConfig) by the names that
//! transformers has for them. They are the older names, which every version reads: `rope_theta` and
//! `rope_scaling`, not `rope_parameters`.

use serde_json::{Map, Value as Json, json};

use super::forms::FORMS;
use super::to_gguf::{Constant, Known, llama3_factors};
use super::values::{LayerKind, Reported, RopeScalingKind};
use crate::arch::Resolution;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::store::WeightStore;

/// One thing that a form has in `config.json`.
#[derive(Debug)]
pub(super) enum Line {
    /// A field of the config under that key.
    Field(&'static str, &'static str),
    /// The same for every model.
    Fixed(&'static str, Constant),
    /// What follows from more than one field, or from the tensors.
    By(fn(&Known<'_>, &mut Map<String, Json>) -> Result<()>),
}

/// The `config.json` of a model.
///
/// # Errors
///
/// `Unsupported` if the family has no form there, or GGUF lacks what the form needs; `Malformed` as
/// [`ModelConfig::of`](super::ModelConfig::of) has it.
pub(crate) fn hf_config(store: &WeightStore, resolution: &Resolution) -> Result<Map<String, Json>> {
    let known = Known::of(store, resolution)?;
    let name = known.config.architecture.value.as_str();
    let form = FORMS.iter().filter(|form| form.gguf == name).find(|form| (form.when)(&known));
    let form = form.ok_or_else(|| {
        let fault = format!("no rules say what the config.json of \"{name}\" is");
        Error::unsupported(fault).in_file(store.path())
    })?;
    let mut out = Map::new();
    out.insert("architectures".to_owned(), json!([form.class]));
    out.insert("model_type".to_owned(), form.model_type.into());
    for line in form.lines.iter().copied().flatten() {
        match line {
            Line::Field(field, key) => {
                let value = match (*field, known.settled(field)) {
                    // Layers that differ have a list of their own.
                    ("ffn_dim", _) if known.config.ffn_dim_per_layer.is_some() => {
                        return Err(
                            known.without("a width of the feed-forward network for each layer")
                        );
                    }
                    ("n_heads", _) if known.config.attention.n_heads_per_layer.is_some() => {
                        return Err(known.without("a number of heads for each layer"));
                    }
                    (_, value) => value,
                };
                if let Some(value) = value {
                    out.insert((*key).to_owned(), value);
                }
            }
            Line::Fixed(key, value) => {
                out.insert((*key).to_owned(), (*value).into());
            }
            Line::By(line) => line(&known, &mut out)?,
        }
    }
    let embedding =
        resolution.mapped.iter().find(|mapping| mapping.canonical == "token_embedding.weight");
    let embedding = embedding.and_then(|mapping| store.find(mapping.stored.first()?));
    let dtype = match embedding.and_then(|tensor| tensor.dtype().ok()) {
        Some(DType::F32) => Some("float32"),
        Some(DType::F16) => Some("float16"),
        Some(DType::BF16) => Some("bfloat16"),
        _ => None,
    };
    if let Some(dtype) = dtype {
        out.insert("torch_dtype".to_owned(), dtype.into());
    }
    Ok(out)
}

impl Known<'_> {
    /// A model that transformers' class cannot hold.
    fn without(&self, what: &str) -> Error {
        let fault = format!(
            "{what}, which config.json has no form for in {}",
            self.config.architecture.value
        );
        Error::unsupported(fault).in_file(self.path())
    }
}

pub(super) fn has_experts(known: &Known<'_>) -> bool {
    known.config.n_experts.value > 0
}

pub(super) fn has_shared_experts(known: &Known<'_>) -> bool {
    known.config.experts.shared_expert_ffn_dim.is_some()
}

pub(super) fn has_windows(known: &Known<'_>) -> bool {
    known.config.attention.sliding_window.is_some()
}

pub(super) fn gated_by_sigmoid(known: &Known<'_>) -> bool {
    let gating = known.config.experts.expert_gating.as_ref();
    gating.is_some_and(|gating| gating.value == super::Gating::Sigmoid)
}

/// RoBERTa is a BERT with GPT-2's tokenizer, whose positions start behind the padding's number.
pub(super) fn is_roberta(known: &Known<'_>) -> bool {
    known.metadata().str("tokenizer.ggml.model").is_some_and(|model| model != "bert")
}

pub(super) fn is_embedding(known: &Known<'_>) -> bool {
    !known.has("classifier.weight")
}

/// Layers that predict further tokens are counted apart.
pub(super) fn layers(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let next = known.config.experts.n_next_token_layers.as_ref().map_or(0, |next| next.value);
    let layers = known.config.n_layers.value.saturating_sub(next);
    out.insert("num_hidden_layers".to_owned(), layers.into());
    Ok(())
}

pub(super) fn biased(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let biased = known.has("layers.0.attention.q.bias");
    out.insert("attention_bias".to_owned(), biased.into());
    if known.config.architecture.value == "llama" {
        out.insert("mlp_bias".to_owned(), known.has("layers.0.ffn.up.bias").into());
    }
    Ok(())
}

/// Cohere has norms of queries and keys in its larger models.
pub(super) fn embedding_biases(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    out.insert("attention_bias".to_owned(), known.has("layers.0.attention.q.bias").into());
    out.insert("use_qk_norm".to_owned(), known.has("layers.0.attention.q_norm.weight").into());
    Ok(())
}

pub(super) fn rope(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    out.insert("rope_theta".to_owned(), known.config.rope_theta.value.reported());
    let scaling = &known.config.rope_scaling;
    let Some(kind) = scaling.kind.as_ref().map(|kind| &kind.value) else { return Ok(()) };
    let mut rope = Map::new();
    rope.insert("rope_type".to_owned(), kind.reported());
    let mut put = |key: &str, value: Option<Json>| {
        if let Some(value) = value {
            rope.insert(key.to_owned(), value);
        }
    };
    match kind {
        RopeScalingKind::None => return Ok(()),
        RopeScalingKind::Linear | RopeScalingKind::Yarn => {
            for (field, key) in [
                ("rope_scaling_factor", "factor"),
                ("rope_scaling_original_max_seq_len", "original_max_position_embeddings"),
                ("rope_scaling_attention_factor", "attention_factor"),
                ("rope_scaling_beta_fast", "beta_fast"),
                ("rope_scaling_beta_slow", "beta_slow"),
                ("rope_scaling_ext_factor", "extrapolation_factor"),
            ] {
                put(key, known.settled(field));
            }
        }
        // Of a form of its own.
        RopeScalingKind::LongRope => return Ok(()),
        RopeScalingKind::Tensor => {
            let stored = known.values("rope_freqs.weight")?;
            let (factor, low, high, trained) = llama3_of(known, &stored).ok_or_else(|| {
                known.without("rope_freqs.weight that is not made as Llama 3's is")
            })?;
            put("rope_type", Some("llama3".into()));
            put("factor", Some(factor.reported()));
            put("low_freq_factor", Some(low.reported()));
            put("high_freq_factor", Some(high.reported()));
            put("original_max_position_embeddings", Some(trained.into()));
        }
        other => return Err(known.without(&format!("rope scaling \"{}\"", other.name()))),
    }
    out.insert("rope_scaling".to_owned(), Json::Object(rope));
    Ok(())
}

/// The numbers that Llama 3's divisors were made of. The factor is the divisor of the longest wave;
/// the others are those of the published models, if they make the same divisors.
fn llama3_of(known: &Known<'_>, stored: &[f32]) -> Option<(f32, f32, f32, u32)> {
    let factor = stored.last().copied().filter(|factor| *factor >= 1.0)?;
    let close = |made: &[f32]| {
        made.len() == stored.len()
            && made.iter().zip(stored).all(|(a, b)| (a - b).abs() <= 1e-4 * b.abs())
    };
    let tried = [8192, 4096, 2048, 16_384, 32_768];
    tried
        .into_iter()
        .find(|trained| close(&llama3_factors(known, [factor, 1.0, 4.0], *trained)))
        .map(|trained| (factor, 1.0, 4.0, trained))
}

/// Divisors that are tensors in GGUF are lists here.
pub(super) fn longrope(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    if let Some(trained) = &known.config.rope_scaling.original_max_seq_len {
        out.insert("original_max_position_embeddings".to_owned(), trained.value.into());
    }
    if known
        .config
        .rope_scaling
        .kind
        .as_ref()
        .is_none_or(|kind| kind.value != RopeScalingKind::LongRope)
    {
        return Ok(());
    }
    let list = |name: &str| Ok::<_, Error>(known.values(name)?.reported());
    out.insert(
        "rope_scaling".to_owned(),
        json!({
            "type": "longrope",
            "long_factor": list("rope_factors_long.weight")?,
            "short_factor": list("rope_factors_short.weight")?,
        }),
    );
    Ok(())
}

/// The part of a head that is rotated.
pub(super) fn rotary_part(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let (whole, rotated) = (known.config.head_dim.value, &known.config.rope.dimension_count);
    if let Some(rotated) = rotated.as_ref().filter(|rotated| rotated.value != whole) {
        #[expect(clippy::cast_possible_truncation, reason = "engines use it as f32")]
        let part = (f64::from(rotated.value) / f64::from(whole)) as f32;
        out.insert("partial_rotary_factor".to_owned(), part.reported());
    }
    Ok(())
}

/// Kinds of layers, where they differ.
pub(super) fn layer_types(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let kinds: Option<Vec<&LayerKind>> =
        (0..known.config.n_layers.value).map(|layer| known.config.layer_kind(layer)).collect();
    if let Some(kinds) = kinds {
        out.insert("layer_types".to_owned(), kinds.into_iter().map(Reported::reported).collect());
    }
    Ok(())
}

/// Gemma divides the scores by the root of a number that GGUF leaves to the model's size.
pub(super) fn scalar(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let said = known.settled("query_pre_attn_scalar");
    let usual = known.config.head_dim.value.into();
    out.insert("query_pre_attn_scalar".to_owned(), said.unwrap_or(usual));
    Ok(())
}

pub(super) fn narrow_window(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    if let Some(window) = known.settled("sliding_window") {
        out.insert("sliding_window".to_owned(), window);
    }
    Ok(())
}

pub(super) fn plain_width(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let (dim, width) = (known.config.dim.value, known.config.ffn_dim.as_ref());
    if let Some(width) = width.filter(|width| width.value != dim.saturating_mul(4)) {
        out.insert("n_inner".to_owned(), width.value.into());
    }
    Ok(())
}

/// Falcon 7B has one head of keys for all queries, the larger ones a new order of blocks.
pub(super) fn falcon_flags(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let heads = known.config.n_kv_heads.value;
    let new = heads > 1;
    out.insert("new_decoder_architecture".to_owned(), new.into());
    out.insert("multi_query".to_owned(), true.into());
    out.insert("num_kv_heads".to_owned(), heads.into());
    for (key, flag) in [("parallel_attn", true), ("bias", false), ("alibi", false)] {
        out.insert(key.to_owned(), flag.into());
    }
    Ok(())
}

/// DeepSeek's latent attention and experts.
pub(super) fn latent_widths(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
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
        let value = known.settled(field);
        match (value, key) {
            (Some(value), _) => out.insert(key.to_owned(), value),
            // What DeepSeek 2 Lite has not, its config says.
            (None, "q_lora_rank") => out.insert(key.to_owned(), Json::Null),
            (None, "n_group" | "topk_group" | "routed_scaling_factor") => None,
            (None, _) => return Err(known.without(&format!("no {key}"))),
        };
    }
    let norm = known.config.experts.expert_weights_norm.as_ref().is_some_and(|norm| norm.value);
    out.insert("norm_topk_prob".to_owned(), norm.into());
    out.insert("moe_layer_freq".to_owned(), 1.into());
    Ok(())
}

/// DeepSeek's YaRN: the converter keeps a tenth of `mscale_all_dim`.
pub(super) fn deepseek_yarn(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let Some(multiplier) = &known.config.rope_scaling.log_multiplier else { return Ok(()) };
    if let Some(Json::Object(rope)) = out.get_mut("rope_scaling") {
        let all = (multiplier.value * 10.0).reported();
        rope.insert("mscale".to_owned(), all.clone());
        rope.insert("mscale_all_dim".to_owned(), all);
    }
    Ok(())
}

/// BERT's kinds of segments, which GGUF counts beside the tokens.
pub(super) fn segments(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    if let Some(kinds) = known.metadata().u64("tokenizer.ggml.token_type_count") {
        out.insert("type_vocab_size".to_owned(), kinds.into());
    }
    Ok(())
}

pub(super) fn whisper_numbers(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    for (field, key) in [
        ("dim", "d_model"),
        ("n_layers", "decoder_layers"),
        ("n_heads", "decoder_attention_heads"),
        ("ffn_dim", "decoder_ffn_dim"),
        ("max_seq_len", "max_target_positions"),
        ("enc_n_layers", "encoder_layers"),
        ("enc_n_layers", "num_hidden_layers"),
        ("enc_n_heads", "encoder_attention_heads"),
        ("enc_ffn_dim", "encoder_ffn_dim"),
        ("n_audio_ctx", "max_source_positions"),
        ("n_mels", "num_mel_bins"),
    ] {
        let value = known.settled(field).ok_or_else(|| known.without(&format!("no {key}")))?;
        out.insert(key.to_owned(), value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::keys::key;
    use super::*;

    /// Fields that no row reads, since they are made of others.
    const MADE: [&str; 4] = ["norm_eps", "sliding_window_pattern", "head_dim", "n_layers"];

    #[test]
    fn every_line_is_read_again_by_its_own_row() {
        for form in FORMS {
            for line in form.lines.iter().copied().flatten() {
                let Line::Field(field, written) = line else { continue };
                if MADE.contains(field) {
                    continue;
                }
                let key =
                    key(field).unwrap_or_else(|| panic!("{}: no row {field}", form.model_type));
                let own = key.json.contains(written)
                    // Widths that the config shares between two fields.
                    || (*field, *written) == ("expert_ffn_dim", "intermediate_size")
                    || (*field, *written) == ("shared_expert_ffn_dim", "shared_intermediate_size");
                assert!(own, "{}: {field} is not read from {written}", form.model_type);
            }
        }
    }
}
