//! Keys of `config.json` that decoders share, under transformers' names, and one of encoders.

use super::super::step::{Step, Steps};
use crate::arch::RopeScalingKind;
use crate::arch::config::{Field, Reported};
use crate::arch::rotary::llama3_factors;
use crate::arch::source::SourceModel;
use crate::engines::transformers;
use crate::error::{Error, Result};
use crate::json::{Json, Map, json};
use crate::rounding::f32_of;

/// The functions that the families' files name.
pub(crate) const STEPS: Steps = &[
    ("biased", Step::Config(biased)),
    ("heads_of_layers", Step::Config(heads_of_layers)),
    ("layer_types", Step::Config(layer_types)),
    ("layers", Step::Config(layers)),
    ("longrope", Step::Config(longrope)),
    ("network_kinds", Step::Config(network_kinds)),
    ("rope", Step::Config(rope)),
    ("rope_of_kinds", Step::Config(rope_of_kinds)),
    ("rope_parameters", Step::Config(rope_parameters)),
    ("rotary_part", Step::Config(rotary_part)),
    ("segments", Step::Config(segments)),
    ("uneven_heads", Step::Config(uneven_heads)),
];

/// Number of layers, without the layers that predict further tokens.
fn layers(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    out.insert("num_hidden_layers".to_owned(), model.own_layers().into());
    Ok(())
}

/// Whether attention has biases.
pub(crate) fn biased(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let biased = model.has_in_layers("attention.q.bias");
    out.insert("attention_bias".to_owned(), biased.into());
    Ok(())
}

/// The width of a head is omitted where the class derives the same width from other numbers.
fn uneven_heads(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let config = &model.config;
    if config.dim.value.checked_div(config.n_heads.value) != Some(config.head_dim.value) {
        out.insert("head_dim".to_owned(), config.head_dim.value.into());
    }
    Ok(())
}

/// Scaling of rotary embeddings, if there is any. LongRoPE has a form of its own.
fn stretched(model: &SourceModel<'_>) -> Result<Option<Map<String, Json>>> {
    let Some(kind) = model.config.rope_scaling.kind.as_ref().map(|kind| &kind.value) else {
        return Ok(None);
    };
    let mut rope = Map::new();
    rope.insert("rope_type".to_owned(), kind.reported());
    let mut put = |key: &str, value: Option<Json>| {
        if let Some(value) = value {
            rope.insert(key.to_owned(), value);
        }
    };
    match kind {
        RopeScalingKind::None | RopeScalingKind::LongRope => return Ok(None),
        RopeScalingKind::Linear | RopeScalingKind::Yarn => {
            for (field, key) in [
                ("rope_scaling_factor", "factor"),
                ("rope_scaling_original_max_seq_len", "original_max_position_embeddings"),
                ("rope_scaling_attention_factor", "attention_factor"),
                ("rope_scaling_beta_fast", "beta_fast"),
                ("rope_scaling_beta_slow", "beta_slow"),
                ("rope_scaling_ext_factor", "extrapolation_factor"),
            ] {
                put(key, model.derived(field));
            }
        }
        RopeScalingKind::Tensor => {
            let stored = model.values("rope_freqs.weight")?;
            let (factor, low, high, trained) = llama3_of(model, &stored).ok_or_else(|| {
                model.inexpressible("rope_freqs.weight with divisors other than Llama 3's")
            })?;
            put("rope_type", Some("llama3".into()));
            put("factor", Some(factor.reported()));
            put("low_freq_factor", Some(low.reported()));
            put("high_freq_factor", Some(high.reported()));
            put("original_max_position_embeddings", Some(trained.into()));
        }
        other => return Err(model.inexpressible(&format!("rope scaling \"{}\"", other.name()))),
    }
    Ok(Some(rope))
}

/// Rotary embeddings under the older names. That there is no scaling is stated to a class that would
/// otherwise scale.
pub(crate) fn rope(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    out.insert("rope_theta".to_owned(), model.config.rope_theta.value.reported());
    let of_class =
        out.get("model_type").and_then(|class| transformers::rope_of_class(class.as_str()?));
    let usual = of_class.as_ref().and_then(|rope| rope.get("rope_type")?.as_str());
    let scales = usual.is_some_and(|usual| usual != "default");
    let none = || Map::from_iter([("rope_type".to_owned(), "default".into())]);
    if let Some(rope) = stretched(model)?.or_else(|| scales.then(none)) {
        out.insert("rope_scaling".to_owned(), Json::Object(rope));
    }
    Ok(())
}

/// Rotary embeddings in the newer form, in one object, for classes that require it.
pub(crate) fn rope_parameters(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let usual = || Map::from_iter([("rope_type".to_owned(), "default".into())]);
    let mut rope = stretched(model)?.unwrap_or_else(usual);
    rope.insert("rope_theta".to_owned(), model.config.rope_theta.value.reported());
    out.insert("rope_parameters".to_owned(), Json::Object(rope));
    Ok(())
}

/// Pairs rotated by time, height and width, which are three of GGUF's four numbers, and whether the
/// pairs are interleaved.
pub(crate) fn sections(model: &SourceModel<'_>, interleaved: bool) -> Vec<(String, Json)> {
    let Some(sections) = &model.config.rope.sections else { return Vec::new() };
    let mut stated = sections.value.clone();
    stated.truncate(3);
    let interleaved = interleaved.then(|| ("mrope_interleaved".to_owned(), true.into()));
    [("mrope_section".to_owned(), stated.reported())].into_iter().chain(interleaved).collect()
}

/// Recovers the numbers from which Llama 3's divisors were computed. The factor is the divisor of
/// the longest wave; the other numbers are those of the published models, if they yield the same
/// divisors.
fn llama3_of(model: &SourceModel<'_>, stored: &[f32]) -> Option<(f32, f32, f32, u32)> {
    let factor = stored.last().copied().filter(|factor| *factor >= 1.0)?;
    let close = |derived: &[f32]| {
        derived.len() == stored.len()
            && derived.iter().zip(stored).all(|(a, b)| (a - b).abs() <= 1e-4 * b.abs())
    };
    let tried = [8192, 4096, 2048, 16_384, 32_768];
    tried
        .into_iter()
        .find(|trained| close(&llama3_factors(&model.config, [factor, 1.0, 4.0], *trained)))
        .map(|trained| (factor, 1.0, 4.0, trained))
}

/// The divisors are tensors in GGUF and lists in `config.json`.
pub(crate) fn longrope(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    if let Some(trained) = &model.config.rope_scaling.original_max_seq_len {
        out.insert("original_max_position_embeddings".to_owned(), trained.value.into());
    }
    if model
        .config
        .rope_scaling
        .kind
        .as_ref()
        .is_none_or(|kind| kind.value != RopeScalingKind::LongRope)
    {
        return Ok(());
    }
    let list = |name: &str| Ok::<_, Error>(model.values(name)?.reported());
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

/// The fraction of a head that is rotated. It is always stated, since the classes' defaults differ.
pub(crate) fn rotary_part(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let (whole, rotated) = (model.config.head_dim.value, &model.config.rope.dimension_count);
    let rotated = rotated.as_ref().map_or(whole, |rotated| rotated.value);
    let part = f32_of(f64::from(rotated) / f64::from(whole));
    out.insert("partial_rotary_factor".to_owned(), part.reported());
    Ok(())
}

/// Kinds of layers, if the layers differ.
pub(crate) fn layer_types(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    if let Some(kinds) = model.kinds() {
        out.insert("layer_types".to_owned(), kinds.into_iter().map(Reported::reported).collect());
    }
    Ok(())
}

/// Number of segments, which GGUF keeps as the number of token types.
pub(crate) fn segments(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let stored = || model.rows("token_type_embedding.weight");
    let stated = model.metadata().u64("tokenizer.ggml.token_type_count");
    out.extend(stated.or_else(stored).map(|kinds| ("type_vocab_size".to_owned(), kinds.into())));
    Ok(())
}

/// Query heads of each layer, if the layers differ.
fn heads_of_layers(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    if let Some(each) = &model.config.attention.n_heads_per_layer {
        out.insert("num_attention_heads_per_layer".to_owned(), each.value.reported());
    }
    Ok(())
}

/// The kind of each layer's network: with experts or without.
pub(crate) fn network_kinds(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let routes = |layer| model.has(&format!("layers.{layer}.ffn.router.weight"));
    let kind = |layer| if routes(layer) { "sparse" } else { "dense" };
    out.insert("mlp_layer_types".to_owned(), (0..model.own_layers()).map(kind).collect());
    Ok(())
}

/// Rotary embeddings of layers without and with a window. Only the first are scaled.
fn rope_of_kinds(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let (rope, theta) = (&model.config.rope, model.config.rope_theta.value);
    let usual = || Map::from_iter([("rope_type".to_owned(), "default".into())]);
    let local = rope.local_theta.as_ref().map_or(theta, |theta| theta.value);
    let of = |mut numbers: Map<String, Json>, theta: f32, rotated: Option<u32>| {
        numbers.insert("rope_theta".to_owned(), theta.reported());
        if let Some(rotated) = rotated {
            let part = f32_of(f64::from(rotated) / f64::from(model.config.head_dim.value));
            numbers.insert("partial_rotary_factor".to_owned(), part.reported());
        }
        numbers
    };
    let rotated = |count: &Option<Field<u32>>| count.as_ref().map(|count| count.value);
    let full = of(stretched(model)?.unwrap_or_else(usual), theta, rotated(&rope.dimension_count));
    let local = of(usual(), local, rotated(&rope.local_dimension_count));
    let both = json!({ "full_attention": full, "sliding_attention": local });
    out.insert("rope_parameters".to_owned(), both);
    Ok(())
}
