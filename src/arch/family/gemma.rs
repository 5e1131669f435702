//! Gemma. Up to Gemma 3, norms multiply by `1 + w`. GGUF stores the sum, mlx-lm stores `w`.

use super::step::{Step, Steps};
use crate::arch::LayerKind;
use crate::arch::config::Reported;
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map, json};
use crate::rounding::f32_of;

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[
    ("altup_config", Step::Config(altup_config)),
    ("altup_keys", Step::Keys(altup_keys)),
    ("gemma4_attention", Step::Config(gemma4_attention)),
    ("gemma4_layers", Step::Keys(gemma4_layers)),
    ("gemma4_mlx", Step::Mlx(gemma4_mlx)),
    ("gemma4_rope", Step::Config(gemma4_rope)),
    ("gemma4_rope_freqs", Step::Frequencies(gemma4_rope_freqs)),
    ("gemma4_widths", Step::Config(gemma4_widths)),
    ("outer_vocabulary", Step::Mlx(outer_vocabulary)),
    ("own_embeddings", Step::Config(own_embeddings)),
    ("scalar", Step::Config(scalar)),
    ("widths", Step::Config(widths)),
];

/// Gemma 3n: several residual streams, and sparse activations that keep the largest values only.
fn altup_keys(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let rows = [
        ("altup_active_idx", "altup.active_idx"),
        ("altup_num_inputs", "altup.num_inputs"),
        ("hidden_size_per_layer_input", "embedding_length_per_layer_input"),
        ("num_kv_shared_layers", "attention.shared_kv_layers"),
    ];
    for (path, key) in rows {
        keys.count(key, model.count(path)?.ok_or_else(|| model.missing_in_config(path))?);
    }
    let sparse = model.reals("activation_sparsity_pattern")?;
    keys.reals("activation_sparsity_scale", sparse.into_iter().map(deviations));
    let sliding = model.layers_of(&LayerKind::Sliding)?;
    let sliding = sliding.ok_or_else(|| model.missing_in_config("layer_types"))?;
    keys.flags("attention.sliding_window_pattern", &sliding);
    Ok(())
}

/// The fraction of a normal distribution that lies below `x` standard deviations above the mean.
fn below(x: f64) -> f64 {
    if x.is_infinite() {
        return f64::from(u8::from(x > 0.0));
    }
    let density = (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
    // The series of the distribution: x + x^3/3 + x^5/(3*5) + ..., times the density.
    let (mut term, mut sum) = (x, x);
    for odd in (3..400).step_by(2) {
        term *= x * x / f64::from(odd);
        sum += term;
    }
    0.5 + density * sum
}

/// The number of standard deviations above the mean below which this fraction of a normal
/// distribution lies.
fn deviations(part: f64) -> f32 {
    if part <= 0.0 {
        return f32::NEG_INFINITY;
    }
    if part >= 1.0 {
        return f32::INFINITY;
    }
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if below(middle) < part { low = middle } else { high = middle }
    }
    f32_of(high)
}

/// A number of Gemma 4's layers without a sliding window: under a key of its own, or in newer
/// configs under that of the first such layer.
fn of_full_layers(model: &SourceModel<'_>, own: &str, name: &str) -> Result<Option<u32>> {
    if let Some(number) = model.count(own)? {
        return Ok(Some(number));
    }
    let sliding = model.layers_of(&LayerKind::Sliding)?.unwrap_or_default();
    let Some(first) = sliding.iter().position(|sliding| !sliding) else { return Ok(None) };
    let padded = model.count(&format!("per_layer_config.{first:02}.{name}"))?;
    let stated = padded.or(model.count(&format!("per_layer_config.{first}.{name}"))?);
    match (stated, name) {
        (None, "head_dim") if model.config_value("per_layer_config").is_some() => model.count(name),
        // The class's default if a config states neither key.
        (None, "head_dim") => Ok(Some(512)),
        (stated, _) => Ok(stated),
    }
}

/// Gemma 4's layers with a sliding window have heads of another width and number.
fn gemma4_layers(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let config = &model.config;
    let shared = model.count("num_kv_shared_layers")?;
    let shared = shared.ok_or_else(|| model.missing_in_config("num_kv_shared_layers"))?;
    keys.count("attention.shared_kv_layers", shared);
    let per_layer = model.count("hidden_size_per_layer_input")?.unwrap_or(0);
    keys.count("embedding_length_per_layer_input", per_layer);
    let sliding = model.layers_of(&LayerKind::Sliding)?;
    let sliding = sliding.ok_or_else(|| model.missing_in_config("layer_types"))?;
    keys.flags("attention.sliding_window_pattern", &sliding);
    let full = of_full_layers(model, "global_head_dim", "head_dim")?;
    let full = full.ok_or_else(|| model.missing_in_config("global_head_dim"))?;
    let narrow = model.count("head_dim")?.ok_or_else(|| model.missing_in_config("head_dim"))?;
    for (ending, width) in [("", full), ("_swa", narrow)] {
        keys.count(&format!("attention.key_length{ending}"), width);
        keys.count(&format!("attention.value_length{ending}"), width);
    }
    // llama.cpp takes 30 for a missing key; 0 stands for none.
    if model.derived("final_logit_softcap").is_none() {
        keys.real("final_logit_softcapping", 0.0);
    }
    let experts = model.count("expert_intermediate_size")?;
    if let Some(width) = experts.or(model.count("moe_intermediate_size")?) {
        keys.count("expert_feed_forward_length", width);
    }
    let layers = config.n_layers.value;
    let width = config.ffn_dim.as_ref().map_or(0, |width| width.value);
    if model.config_value("use_double_wide_mlp").and_then(Json::as_bool) == Some(true) {
        let own = layers.saturating_sub(shared);
        let each = (0..layers).map(|n| if n < own { width } else { width.saturating_mul(2) });
        keys.set("feed_forward_length", &each.collect::<Vec<u32>>().reported());
    }
    let of_full = of_full_layers(model, "num_global_key_value_heads", "num_key_value_heads")?;
    let heads = (of_full, model.count("num_key_value_heads")?);
    if let (Some(of_full), Some(of_sliding)) = heads {
        let each = sliding.iter().map(|&sliding| if sliding { of_sliding } else { of_full });
        keys.set("attention.head_count_kv", &each.collect::<Vec<u32>>().reported());
    }
    keys.count("rope.dimension_count", full);
    let part = model.real("rope_parameters.partial_rotary_factor")?.unwrap_or(1.0);
    // The fraction is at most 1, so the product fits.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "see above")]
    let rotated = (f64::from(narrow) * f64::from(part)) as u32;
    keys.count("rope.dimension_count_swa", rotated.min(narrow));
    Ok(())
}

/// Gemma 4's divisors, for the head width of layers without a sliding window.
fn gemma4_rope_freqs(model: &SourceModel<'_>) -> Result<Vec<f32>> {
    let full = of_full_layers(model, "global_head_dim", "head_dim")?;
    let full = full.ok_or_else(|| model.missing_in_config("global_head_dim"))?;
    Ok(unrotated_factors(model, full))
}

/// Gemma 4 rotates the first fraction of a head's pairs. The other pairs get a divisor so large
/// that they are not rotated.
fn unrotated_factors(model: &SourceModel<'_>, width: u32) -> Vec<f32> {
    let pairs = width / 2;
    let part = model.config.rope.partial_factor.as_ref().map_or(1.0, |part| part.value);
    // The fraction is at most 1, so the product fits.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "see above")]
    let rotated = (f64::from(width) * f64::from(part) / 2.0) as u32;
    (0..pairs).map(|pair| if pair < rotated { 1.0 } else { 1e30 }).collect()
}

/// The number whose square root divides attention scores. GGUF omits it, since it depends on the
/// model's size only.
fn scalar(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let stated = model.derived("query_pre_attn_scalar");
    let usual = model.config.head_dim.value.into();
    out.insert("query_pre_attn_scalar".to_owned(), stated.unwrap_or(usual));
    Ok(())
}

/// Width of the feed-forward network: one for all layers, or one for each layer.
fn widths(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let each = model.config.ffn_dim_per_layer.as_ref().map(|each| each.value.reported());
    let width = each.or_else(|| model.derived("ffn_dim"));
    let width = width.ok_or_else(|| model.missing_in_model("intermediate_size"))?;
    out.insert("intermediate_size".to_owned(), width);
    Ok(())
}

/// Per-layer embeddings and shared key/value layers.
fn own_embeddings(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let count = |field: &str| model.derived(field).unwrap_or_else(|| 0.into());
    out.insert("hidden_size_per_layer_input".to_owned(), count("per_layer_dim"));
    out.insert("num_kv_shared_layers".to_owned(), count("n_kv_shared_layers"));
    let rows = model.rows("per_layer_embedding.weight");
    let rows = rows.map(Json::from).or_else(|| model.derived("vocab_size"));
    out.extend(rows.map(|rows| ("vocab_size_per_layer_input".to_owned(), rows)));
    Ok(())
}

/// Gemma 3n: numbers that no key states are derived from its tensors. The fractions of activations
/// that are dropped are stored as quantiles of a normal distribution.
fn altup_config(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let rank = model.rows("layers.0.laurel.left.weight");
    let rank = rank.ok_or_else(|| model.missing_in_model("layers.0.laurel.left.weight"))?;
    out.insert("laurel_rank".to_owned(), rank.into());
    let scaled = model.has("layers.0.altup.output_scale");
    out.insert("altup_correct_scale".to_owned(), scaled.into());
    let key = format!("{}.activation_sparsity_scale", model.config.architecture.value);
    let places = model.metadata().array(&key).and_then(|places| places.floats());
    let places = places.ok_or_else(|| model.missing_in_model("activation_sparsity_scale"))?;
    let parts = places.map(|place| f32_of(below(place)).reported());
    out.insert("activation_sparsity_pattern".to_owned(), parts.collect());
    Ok(())
}

/// Gemma 4's feed-forward networks, which are twice as wide in layers that share keys and values,
/// and its experts.
fn gemma4_widths(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let config = &model.config;
    let shared = config.attention.n_kv_shared_layers.as_ref().map_or(0, |shared| shared.value);
    let own = usize::try_from(model.own_layers().saturating_sub(shared)).unwrap_or(usize::MAX);
    let each = config.ffn_dim_per_layer.as_ref().map_or(&[][..], |each| &each.value);
    let first = each.first().copied().or(config.ffn_dim.as_ref().map(|width| width.value));
    let first = first.ok_or_else(|| model.missing_in_model("intermediate_size"))?;
    let (narrow, wide) = each.split_at(own.min(each.len()));
    let twice = !wide.is_empty() && wide.iter().all(|width| *width == first.saturating_mul(2));
    let plain = wide.iter().all(|width| *width == first);
    if !(twice || plain) || narrow.iter().any(|width| *width != first) {
        return Err(model.inexpressible("a width of the feed-forward network for each layer"));
    }
    out.insert("intermediate_size".to_owned(), first.into());
    out.insert("use_double_wide_mlp".to_owned(), twice.into());
    let experts = config.n_experts.value > 0;
    out.insert("enable_moe_block".to_owned(), experts.into());
    if experts {
        for (field, key) in [
            ("n_experts", "num_experts"),
            ("n_experts_used", "top_k_experts"),
            ("expert_ffn_dim", "moe_intermediate_size"),
        ] {
            let value = model.derived(field).ok_or_else(|| model.missing_in_model(key))?;
            out.insert(key.to_owned(), value);
        }
    }
    Ok(())
}

/// mlx-lm takes the size of the vocabulary from the outer config of a model with images.
fn outer_vocabulary(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    if out.contains_key("text_config") && !out.contains_key("vocab_size") {
        out.extend(model.derived("vocab_size").map(|size| ("vocab_size".to_owned(), size)));
    }
    Ok(())
}

/// mlx-lm reads Gemma 4's heads in layers without a sliding window under keys of their own.
fn gemma4_mlx(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    outer_vocabulary(model, out)?;
    let width = of_full_layers(model, "global_head_dim", "head_dim")?;
    let heads = of_full_layers(model, "num_global_key_value_heads", "num_key_value_heads")?;
    let text = match out.get_mut("text_config") {
        Some(Json::Object(text)) => text,
        _ => out,
    };
    let found = [("global_head_dim", width), ("num_global_key_value_heads", heads)];
    for (key, value) in found.into_iter().filter_map(|(key, value)| Some((key, value?))) {
        text.entry(key).or_insert_with(|| value.into());
    }
    Ok(())
}

/// Gemma 4's heads; layers with a sliding window have others.
fn gemma4_attention(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let config = &model.config;
    let (wide, narrow) = (config.head_dim.value, &config.attention.local_head_dim);
    let narrow = narrow.as_ref().map_or(wide, |narrow| narrow.value);
    out.insert("head_dim".to_owned(), narrow.into());
    out.insert("global_head_dim".to_owned(), wide.into());
    let kinds = model.kinds().unwrap_or_default();
    let each = config.attention.n_kv_heads_per_layer.as_ref().map_or(&[][..], |each| &each.value);
    let of = |full: bool| {
        let of = kinds.iter().zip(each).filter(|(kind, _)| (***kind == LayerKind::Full) == full);
        let mut heads = of.map(|(_, heads)| *heads);
        let first = heads.next();
        match heads.all(|heads| Some(heads) == first) {
            true => Ok(first),
            false => Err(model.inexpressible("a number of key heads for each layer")),
        }
    };
    let heads = of(false)?.unwrap_or(config.n_kv_heads.value);
    out.insert("num_key_value_heads".to_owned(), heads.into());
    if let Some(heads) = of(true)? {
        out.insert("num_global_key_value_heads".to_owned(), heads.into());
    }
    // Layers without a sliding window may use keys as values.
    let full = (0u32..).zip(&kinds).find(|(_, kind)| ***kind == LayerKind::Full);
    let has =
        |layer: u32, name: &str| model.has(&format!("layers.{layer}.attention.{name}.weight"));
    let same = full.is_some_and(|(layer, _)| has(layer, "k") && !has(layer, "v"));
    out.insert("attention_k_eq_v".to_owned(), same.into());
    Ok(())
}

/// Gemma 4's rotary embeddings. In layers without a sliding window, the divisors tell the rotated
/// fraction.
fn gemma4_rope(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let divisors = model.values("rope_freqs.weight")?;
    let rotated = divisors.iter().take_while(|divisor| **divisor == 1.0).count();
    if divisors.iter().skip(rotated).any(|divisor| *divisor < 1e29) {
        return Err(model.inexpressible("rope_freqs.weight with divisors other than Gemma 4's"));
    }
    let part = f32_of(rotated as f64 / divisors.len().max(1) as f64);
    let local = model.derived("rope_local_theta");
    let local = local.ok_or_else(|| model.missing_in_model("rope.freq_base_swa"))?;
    let full = json!({
        "rope_type": "proportional",
        "rope_theta": model.config.rope_theta.value.reported(),
        "partial_rotary_factor": part.reported(),
    });
    let sliding = json!({"rope_type": "default", "rope_theta": local});
    let both = json!({"full_attention": full, "sliding_attention": sliding});
    out.insert("rope_parameters".to_owned(), both);
    Ok(())
}
