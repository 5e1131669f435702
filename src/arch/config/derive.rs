//! Derives the config: numbers that follow from other numbers, from stored tensors, or from a rule
//! of the family.

use std::borrow::Cow;
use std::num::NonZeroU32;

use super::check;
use super::defaults::Defaults;
use super::keys::{
    AttentionConfig, Core, EncoderConfig, ExpertConfig, RopeConfig, RopeScaling, ScaleConfig,
    SsmConfig, key,
};
use super::read::ConfigReader;
use super::values::{LayerKind, LayerLayout, LayerPattern, NormKind, PerLayer, RopeScalingKind};
use super::{Field, ModelConfig, PromisedLayers, pooling};
use crate::arch::{Architecture, Dialect, Mapping, Resolution};
use crate::error::{Error, Result};
use crate::store::tensor::StoredTensor;
use crate::store::{Encoding, Store};

/// Names of the embedding and the output matrix in models without canonical names.
const EMBEDDINGS: &[&str] = &[
    "token_embd.weight",
    "model.embed_tokens.weight",
    "language_model.model.embed_tokens.weight",
    "model.language_model.embed_tokens.weight",
    "tok_embeddings.weight",
    "model.decoder.embed_tokens.weight",
    "decoder.token_embedding.weight",
    "transformer.wte.weight",
    "wte.weight",
    "bert.embeddings.word_embeddings.weight",
    "embeddings.word_embeddings.weight",
    "transformer.word_embeddings.weight",
];
const OUTPUTS: &[&str] =
    &["output.weight", "lm_head.weight", "language_model.lm_head.weight", "proj_out.weight"];

/// The layers that the config states.
pub(super) fn promised_layers(
    reader: &ConfigReader<'_>,
    architecture: &Architecture,
    defaults: &Defaults,
) -> Option<PromisedLayers> {
    let mut all = reader.field(key("n_layers")?, check::layers).ok()??.value;
    if architecture.counts_encoder_layers {
        let decoder = reader.field(key("decoder_layers")?, check::layers).ok()?;
        all = decoder.map_or(all, |decoder| decoder.value);
    }
    let shared = reader.field(key("n_kv_shared_layers")?, check::count).ok()?;
    let shared = shared.map_or(defaults.shared_kv_layers, |field| field.value);
    // As in transformers: if all layers would share, none does.
    let sharing = all.checked_sub(shared).filter(|&first| first > 0 && shared > 0);
    // GGUF counts the layers that predict further tokens, and config.json does not.
    let next = match reader.store.encoding() {
        Encoding::Gguf => reader.field(key("n_next_token_layers")?, check::count).ok()?,
        _ => None,
    };
    let own = all.saturating_sub(next.map_or(0, |next| next.value));
    Some(PromisedLayers { own, all, sharing })
}

/// Rejects a number of layers far above the number of layers with tensors. A single shard of a
/// model may hold few of its layers, but not one in a thousand.
fn check_layers(
    reader: &ConfigReader<'_>,
    resolution: &Resolution,
    stated: &Field<u32>,
) -> Result<()> {
    let layer = |mapping: &Mapping| {
        let number = mapping.canonical.strip_prefix("layers.")?.split('.').next()?;
        number.parse::<u32>().ok()
    };
    let Some(last) = resolution.mapped.iter().filter_map(layer).max() else { return Ok(()) };
    let stored = last.saturating_add(1);
    if stated.value <= stored.saturating_mul(16).max(1024) {
        return Ok(());
    }
    let fault = format!("{} layers, but only {stored} have tensors", stated.value);
    Err(reader.invalid(&stated.source, fault))
}

/// Splits a number that may differ by layer into the largest value and the list.
fn split(field: Option<Field<PerLayer>>) -> (Option<Field<u32>>, Option<Field<Vec<u32>>>) {
    let Some(Field { value, source }) = field else { return (None, None) };
    let largest = value.largest();
    match value {
        PerLayer::Same(_) => (Some(Field { value: largest, source }), None),
        PerLayer::Each(each) => {
            let of = format!("{source} (the largest of all layers)");
            (Some(Field::derived(largest, of)), Some(Field { value: each, source }))
        }
    }
}

/// Derives the config of a model. `defaults` apply where its files state nothing.
pub(super) fn config(
    store: &Store,
    resolution: &Resolution,
    defaults: &Defaults,
) -> Result<ModelConfig> {
    let (reader, architecture) = ConfigReader::new(store, defaults)?;
    let family = architecture.value.clone();
    let mut core = Core::read(&reader)?;
    let mut attention = AttentionConfig::read(&reader)?;
    let mut rope = RopeConfig::read(&reader)?;
    let mut rope_scaling = RopeScaling::read(&reader)?;
    let mut experts = ExpertConfig::read(&reader)?;
    let mut scales = ScaleConfig::read(&reader)?;
    let mut encoder = EncoderConfig::read(&reader)?;
    let mut ssm = SsmConfig::read(&reader)?;

    let dim = needed(&reader, resolution, "dim", core.dim.take())?;
    let mut n_layers = needed(&reader, resolution, "n_layers", core.n_layers.take())?;
    if resolution.architecture.is_some_and(|row| row.counts_encoder_layers) {
        let as_many = || Field::derived(n_layers.value, "as many as enc_n_layers");
        let decoder = core.decoder_layers.take().unwrap_or_else(as_many);
        encoder.enc_n_layers = Some(std::mem::replace(&mut n_layers, decoder));
    }
    check_layers(&reader, resolution, &n_layers)?;
    if defaults.optional_rope && rope.layers.is_none() {
        rope.layers = without_rope(&core, resolution, n_layers.value);
    }
    let (n_heads, each) = split(core.n_heads.take());
    let n_heads = match defaults.attention_free {
        true => Some(Field::derived(1, "no layer has attention")),
        false => n_heads,
    };
    let n_heads = needed(&reader, resolution, "n_heads", n_heads)?;
    attention.n_heads_per_layer = each;
    let (n_kv_heads, each) = match defaults.attention_free {
        true => (n_heads.clone(), None),
        false => kv_heads(&core, &n_heads),
    };
    attention.n_kv_heads_per_layer = each;
    for heads in [&n_heads, &n_kv_heads] {
        if heads.value == 0 {
            return Err(reader.invalid(&heads.source, "0, but a value above 0 is needed"));
        }
    }
    if attention.pooling_type.is_none() {
        // What cannot be read is an error for those who convert the model, not for those who open it.
        let stated = pooling::stated(store).ok().flatten();
        attention.pooling_type = stated.map(|(number, file)| Field::derived(number, file));
    }
    let head_dim = head_dim(&reader, &mut core, &mut attention, &rope, [&dim, &n_heads])?;
    let product = |heads: &Field<u32>, source: &'static str| {
        let value = heads
            .value
            .checked_mul(head_dim.value)
            .ok_or_else(|| reader.invalid(&heads.source, too_wide(heads.value, head_dim.value)))?;
        Ok::<_, Error>(Field::derived(value, source))
    };
    if attention.value_head_dim.is_none() {
        let usual = defaults.of_gguf.usual_value_width;
        let derived = dim.value.checked_div(n_heads.value).filter(|_| usual);
        attention.value_head_dim = Some(match derived {
            Some(width) => Field::derived(width, "dim / n_heads"),
            None => Field::derived(head_dim.value, "same as head_dim"),
        });
    }

    let (mut ffn_dim, ffn_dim_per_layer) = split(core.ffn_dim.take());
    let four_times = |width: &Field<u32>, source: &'static str| {
        let wide = defaults.of_gguf.ffn_four_times.then(|| width.value.checked_mul(4)).flatten();
        wide.map(|value| Field::derived(value, source))
    };
    ffn_dim = ffn_dim.or_else(|| four_times(&dim, "4 * dim"));
    if core.ffn_adjusted.as_ref().is_some_and(|flag| flag.value) {
        ffn_dim = ffn_dim.map(|stated| adjusted(&core, &stated));
    }

    // An encoder is as wide as its decoder; configs of transformers state the width once.
    if encoder.enc_n_layers.is_some() {
        if resolution.architecture.is_some_and(|row| row.counts_encoder_layers) {
            let same = |field: &Field<u32>, source| Field::derived(field.value, source);
            encoder.enc_n_heads = Some(same(&n_heads, "same as n_heads"));
            encoder.enc_ffn_dim = ffn_dim.as_ref().map(|width| same(width, "same as ffn_dim"));
        }
        let width = || Field::derived(dim.value, "same as dim");
        let width = encoder.enc_dim.get_or_insert_with(width).clone();
        encoder.enc_ffn_dim =
            encoder.enc_ffn_dim.take().or_else(|| four_times(&width, "4 * enc_dim"));
    }

    let norm = |eps: Option<Field<f32>>, kind| {
        eps.map(|eps| (Field::derived(kind, eps.source.clone()), eps))
    };
    match defaults.norms {
        Some(NormKind::Layer) => core.layer_eps = core.layer_eps.take().or(core.rms_eps.take()),
        Some(NormKind::Rms) => core.rms_eps = core.rms_eps.take().or(core.layer_eps.take()),
        None => {}
    }
    let norm = norm(core.rms_eps.take(), NormKind::Rms)
        .or_else(|| norm(core.layer_eps.take(), NormKind::Layer))
        .or_else(|| {
            let eps = defaults.of_gguf.layer_norm_eps;
            let eps = eps.map(|(eps, source)| Field::derived(eps, source));
            norm(eps, NormKind::Layer)
        });
    let (norm_kind, norm_eps) = norm.unzip();

    if attention.chunk_size.is_none() {
        let usual = |size| Field::derived(size, format!("default of {family}"));
        attention.chunk_size = defaults.of_gguf.chunk_size.map(usual);
    }
    let layers = layout(&core, &mut attention, &rope, &family, n_layers.value, defaults);
    let layers = layers.or_else(|| headless(&attention, defaults));
    finish_rope(&reader, &core, &mut rope, &mut rope_scaling, &head_dim)?;
    if rope.local_theta.is_none()
        && attention.sliding_window.is_some()
        && let Some(theta) = defaults.local_rope_theta
    {
        rope.local_theta = Some(Field::derived(theta, format!("default of {family}")));
    }
    if scales.embedding_scale.is_none() && defaults.scaled_embedding {
        let root = f64::from(dim.value).sqrt();
        #[expect(clippy::cast_possible_truncation, reason = "engines use it as f32")]
        let root = root as f32;
        scales.embedding_scale = Some(Field::derived(root, "sqrt(dim)"));
    }
    if attention.query_pre_attn_scalar.is_none()
        && let Some(value @ 1..) = dim.value.checked_div(n_heads.value)
        && defaults.of_gguf.scaled_by_dim_layers == Some(n_layers.value)
    {
        attention.query_pre_attn_scalar = Some(Field::derived(value as f32, "dim / n_heads"));
    }
    if attention.attention_scale.is_none()
        && let Some(scalar) = &attention.query_pre_attn_scalar
    {
        let scale = scalar.value.sqrt().recip();
        attention.attention_scale = Some(Field::derived(scale, "1 / sqrt(query_pre_attn_scalar)"));
    }
    let n_experts = core.n_experts.take().unwrap_or(Field::derived(0, "default"));
    if n_experts.value > 0 && experts.expert_ffn_dim.is_none() {
        // Beside a width of the dense layers, `intermediate_size` is that of experts.
        let dense = ffn_dim.as_ref().map(|ffn| &ffn.source);
        let narrow = core.narrow_ffn_dim.take().filter(|narrow| Some(&narrow.source) != dense);
        let same = || ffn_dim.as_ref().map(|ffn| Field::derived(ffn.value, "same as ffn_dim"));
        experts.expert_ffn_dim = narrow.or_else(same);
    }
    if ssm.inner_size.is_none()
        && let (Some(width), Some(heads)) = (&ssm.value_head_dim, &ssm.time_step_rank)
    {
        let inner = width
            .value
            .checked_mul(heads.value)
            .ok_or_else(|| reader.invalid(&heads.source, too_wide(heads.value, width.value)))?;
        ssm.inner_size = Some(Field::derived(inner, "ssm_time_step_rank * ssm_value_head_dim"));
    }

    if let Some(expansion) = &core.state_expansion {
        let product = dim.value.checked_mul(expansion.value);
        let product = product.ok_or_else(|| {
            reader.invalid(&expansion.source, too_wide(expansion.value, dim.value))
        })?;
        let inner = || Field::derived(product, format!("dim * {}", expansion.source));
        ssm.inner_size.get_or_insert_with(inner);
        // In Mamba 2, what GGUF calls the rank is the number of heads.
        let heads = core.state_heads.take().filter(|_| ssm.group_count.is_some());
        ssm.time_step_rank = heads.or(ssm.time_step_rank.take());
        let rank = || Field::derived(dim.value.div_ceil(16), "dim / 16, rounded up");
        ssm.time_step_rank.get_or_insert_with(rank);
    }

    let usual_activation = defaults.of_gguf.activation;
    let usual_activation = usual_activation
        .map(|name| Field::derived(name.to_owned(), format!("default of {family}")));
    let row = resolution.architecture.map(|row| row.name.to_owned());
    let embedding = stored(store, resolution, "token_embedding.weight", EMBEDDINGS);
    let output = stored(store, resolution, "output.weight", OUTPUTS);
    Ok(ModelConfig {
        q_dim: product(&n_heads, "n_heads * head_dim")?,
        kv_dim: product(&n_kv_heads, "n_kv_heads * head_dim")?,
        max_seq_len: core.max_seq_len,
        activation: core.activation.or(usual_activation),
        rope_theta: core.rope_theta.unwrap_or(Field::derived(10_000.0, "default")),
        architecture,
        family: row.map(|row| Field::derived(row, resolution.reason.clone())),
        dim,
        n_layers,
        n_heads,
        n_kv_heads,
        head_dim,
        ffn_dim,
        ffn_dim_per_layer,
        vocab_size: vocab_size(&reader, embedding, core.vocab_size)?,
        norm_kind,
        norm_eps,
        tie_embeddings: tied(embedding, output, core.tie_embeddings),
        n_experts,
        layers,
        attention,
        rope,
        rope_scaling,
        experts,
        scales,
        ssm,
        encoder,
    })
}

/// LFM2's width of the network: two thirds of the stated one, times a factor, rounded up to a multiple.
fn adjusted(core: &Core, stated: &Field<u32>) -> Field<u32> {
    let factor = core.ffn_multiplier.as_ref().map_or(1.0, |factor| f64::from(factor.value));
    let multiple = core.ffn_multiple.as_ref().map_or(1, |multiple| multiple.value);
    // The class rounds down after each step.
    let narrow = 2.0 * f64::from(stated.value) / 3.0;
    let scaled = (narrow.floor() * factor).floor();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let width = (scaled as u32).checked_next_multiple_of(multiple).unwrap_or(u32::MAX);
    Field::derived(width, format!("{}, adjusted", stated.source))
}

/// The fault of heads whose total width does not fit.
fn too_wide(heads: u32, width: u32) -> String {
    format!("{heads} heads of width {width}, but the product must fit in 32 bits")
}

/// A required number: an error if it is missing. A language model without it is incomplete; a
/// projector, an adapter or a model of an unknown architecture may have no such number.
fn needed<T>(
    reader: &ConfigReader<'_>,
    resolution: &Resolution,
    name: &str,
    field: Option<Field<T>>,
) -> Result<Field<T>> {
    field.ok_or_else(|| {
        let row = key(name);
        let gguf = row.and_then(|key| key.gguf.first()).copied().unwrap_or(name);
        // The names of the encoder's counterpart come first, but most models have no encoder.
        let json = row.and_then(|key| key.json.iter().find(|json| !json.starts_with("decoder")));
        let json = json.copied().unwrap_or(name);
        let fault = format!("neither {}.{gguf} nor {json} in config.json", reader.prefix);
        let kind = reader.store.metadata().str("general.type");
        let error =
            match kind.is_some_and(|kind| kind != "model") || resolution.architecture.is_none() {
                true => Error::unsupported(format!("no config of a language model: {fault}"))
                    .advise("`inspect --metadata` shows what the file says of itself"),
                false => Error::malformed(fault),
            };
        error.in_file(reader.store.path())
    })
}

fn kv_heads(core: &Core, n_heads: &Field<u32>) -> (Field<u32>, Option<Field<Vec<u32>>>) {
    let as_many = |source: String| (Field::derived(n_heads.value, source), None);
    // In GGUF, the latent vector of multi-head latent attention counts as one key head shared by
    // all queries. It is expanded to as many key heads as there are query heads.
    if let Some(latent) = &core.latent_head_dim {
        return as_many(format!("as many as n_heads, since {} is there", latent.source));
    }
    // A flag of Falcon and StarCoder. It overrides the number in Falcon's configs.
    if let Some(flag) = core.multi_query.as_ref().filter(|flag| flag.value)
        && !core.groups_of_heads.as_ref().is_some_and(|flag| flag.value)
    {
        return (Field::derived(1, flag.source.clone()), None);
    }
    match split(core.n_kv_heads.clone()) {
        (Some(heads), each) => (heads, each),
        (None, _) => as_many("as many as n_heads".to_owned()),
    }
}

/// The width of a head, by the first rule that applies.
fn head_dim(
    reader: &ConfigReader<'_>,
    core: &mut Core,
    attention: &mut AttentionConfig,
    rope: &RopeConfig,
    [dim, n_heads]: [&Field<u32>; 2],
) -> Result<Field<u32>> {
    let rotated = rope.dimension_count.as_ref();
    if let Some(latent) = core.latent_head_dim.take() {
        if attention.qk_nope_head_dim.is_none() {
            let rest = rotated.and_then(|rotated| latent.value.checked_sub(rotated.value));
            attention.qk_nope_head_dim =
                rest.map(|value| Field::derived(value, "head_dim - rope_dimension_count"));
        }
        return Ok(latent);
    }
    // Beside these two keys, `head_dim` is the width of the rotated part.
    if let (Some(plain), Some(rotated)) = (&attention.qk_nope_head_dim, rotated) {
        let value = plain.value.checked_add(rotated.value).ok_or_else(|| {
            reader.invalid(
                &plain.source,
                format!("{} + {}, but the sum must fit in 32 bits", plain.value, rotated.value),
            )
        })?;
        return Ok(Field::derived(value, "qk_nope_head_dim + rope_dimension_count"));
    }
    if let Some(stored) = core.head_dim.take() {
        let narrow = core.narrow_head_dim.take();
        attention.local_head_dim = narrow.filter(|narrow| narrow.source != stored.source);
        return Ok(stored);
    }
    let value = dim.value.checked_div(n_heads.value).filter(|&value| value > 0);
    let value = value.ok_or_else(|| {
        reader.invalid(
            &n_heads.source,
            format!("{} heads, but at most the width, {}, is allowed", n_heads.value, dim.value),
        )
    })?;
    Ok(Field::derived(value, "dim / n_heads"))
}

/// That no layer has rotary embeddings, for families whose files state whether there are any. In
/// `config.json`, transformers takes a missing statement for none.
fn without_rope(core: &Core, resolution: &Resolution, n_layers: u32) -> Option<Field<Vec<bool>>> {
    let (stated, source) = match (&core.has_rope, &core.positions) {
        (Some(stated), _) => (stated.value, stated.source.clone()),
        (None, Some(kind)) => (kind.value == "rope", kind.source.clone()),
        (None, None) => (resolution.dialect == Dialect::Gguf, "default of the class".into()),
    };
    (!stated).then(|| Field::derived((0..n_layers).map(|_| false).collect(), source))
}

/// The kind of each layer, where those of one kind have no key heads.
fn headless(attention: &AttentionConfig, defaults: &Defaults) -> Option<Field<LayerLayout>> {
    let kind = LayerKind::named(defaults.without_attention?);
    let Field { value, source } = attention.n_kv_heads_per_layer.as_ref()?;
    let of = |heads: &u32| if *heads == 0 { kind.clone() } else { LayerKind::Full };
    Some(Field::derived(LayerLayout::of(value.iter().map(of).collect()), source.clone()))
}

/// The kind of a layer of a model that attends within chunks.
fn chunked(rotates: &bool) -> LayerKind {
    if *rotates { LayerKind::Chunked } else { LayerKind::Full }
}

/// The kind of each layer. Also determines the sliding window and its period.
fn layout(
    core: &Core,
    attention: &mut AttentionConfig,
    rope: &RopeConfig,
    family: &str,
    n_layers: u32,
    defaults: &Defaults,
) -> Option<Field<LayerLayout>> {
    // Qwen's configs state a window that is not used.
    if core.use_window.as_ref().is_some_and(|flag| !flag.value) {
        attention.sliding_window = None;
    }
    let of_period = |period, kind| match NonZeroU32::new(period) {
        None => LayerLayout::Same(kind),
        Some(period) if defaults.full_first => {
            let is_full = |layer: u32| layer.is_multiple_of(period.get());
            let kind = |layer| if is_full(layer) { LayerKind::Full } else { kind.clone() };
            LayerLayout::of((0..n_layers).map(kind).collect())
        }
        Some(NonZeroU32::MIN) => LayerLayout::Same(LayerKind::Full),
        Some(period) => LayerLayout::Period(period, kind),
    };
    let window = attention.sliding_window.is_some();
    let pattern = core.layer_pattern.as_ref().map(|Field { value, source }| {
        let layout = match value {
            LayerPattern::Period(period) => of_period(*period, LayerKind::Sliding),
            LayerPattern::Each(windows) => {
                let kind = |&window: &bool| match window {
                    true => LayerKind::Sliding,
                    false => LayerKind::Full,
                };
                LayerLayout::of(windows.iter().map(kind).collect())
            }
        };
        Field::derived(layout, source.clone())
    });
    let listed = core.layer_types.as_ref().map(|Field { value, source }| {
        // A pattern that agrees with the list replaces it, since it also covers layers that are not
        // listed.
        let agrees = |pattern: &&Field<LayerLayout>| pattern.value.agrees(value);
        // Transformers 5 calls the layers of all kinds of state spaces `linear_attention`.
        let kind = |kind: &LayerKind| match (kind, defaults.without_attention) {
            (LayerKind::Linear, Some(name)) => LayerKind::named(name),
            (kind, _) => kind.clone(),
        };
        let of_list =
            || Field::derived(LayerLayout::of(value.iter().map(kind).collect()), source.clone());
        pattern.as_ref().filter(agrees).cloned().unwrap_or_else(of_list)
    });
    // Layers with attention between others, by number or by period.
    let between = |attends: &dyn Fn(u32) -> bool, source: &Cow<'static, str>| {
        let other = LayerKind::named(defaults.without_attention?);
        let of = |layer| if attends(layer) { LayerKind::Full } else { other.clone() };
        let kinds = (0..n_layers).map(of).collect();
        Some(Field::derived(LayerLayout::of(kinds), source.clone()))
    };
    let numbered = core
        .attention_layers
        .as_ref()
        .and_then(|Field { value, source }| between(&|layer| value.contains(&layer), source));
    let periodic = core.attention_period.as_ref().and_then(|Field { value: period, source }| {
        let offset = core.attention_offset.as_ref().map_or(0, |offset| offset.value);
        between(&|layer| layer.checked_rem(*period) == Some(offset), source)
    });
    let interval = core.full_interval.as_ref().map(|interval| {
        Field::derived(of_period(interval.value, LayerKind::Linear), interval.source.clone())
    });
    let linear = core.linear_layers.as_ref().map(|Field { value, source }| {
        let kind = |&linear: &bool| if linear { LayerKind::Linear } else { LayerKind::Full };
        let kinds: Vec<LayerKind> = value.iter().map(kind).collect();
        let agrees = |interval: &&Field<LayerLayout>| interval.value.agrees(&kinds);
        interval
            .as_ref()
            .filter(agrees)
            .cloned()
            .unwrap_or_else(|| Field::derived(LayerLayout::of(kinds.clone()), source.clone()))
    });
    let partly = core.window_from.as_ref().filter(|_| core.use_window.is_some()).map(|from| {
        Field::derived(LayerLayout::From(from.value, LayerKind::Sliding), from.source.clone())
    });
    let usual = defaults.window_period.map(|period| {
        Field::derived(of_period(period, LayerKind::Sliding), format!("default of {family}"))
    });
    let all = attention
        .sliding_window
        .as_ref()
        .map(|window| Field::derived(LayerLayout::Same(LayerKind::Sliding), window.source.clone()));
    let chunks = attention.chunk_size.as_ref().map(|size| {
        // Layers without rotary embeddings attend to all positions.
        let layout = match &rope.layers {
            Some(rotated) => LayerLayout::of(rotated.value.iter().map(chunked).collect()),
            None => of_period(
                rope.skip_interval.as_ref().map_or(4, |period| period.value),
                LayerKind::Chunked,
            ),
        };
        Field::derived(layout, size.source.clone())
    });
    // A GGUF file states a window of 0 if no layer attends within chunks.
    let chunks =
        chunks.filter(|_| core.stated_window.as_ref().is_none_or(|window| window.value != 0));
    // Layouts of windows apply only if layers have a window.
    let of_windows = |field: Option<Field<LayerLayout>>| field.filter(|_| window);
    let layout = listed
        .or(numbered)
        .or(periodic)
        .or(linear)
        .or(interval)
        .or_else(|| of_windows(pattern))
        .or_else(|| of_windows(partly))
        .or_else(|| of_windows(usual))
        .or(chunks)
        .or(all);
    attention.sliding_window_pattern = layout.as_ref().and_then(|layout| match &layout.value {
        LayerLayout::Period(period, LayerKind::Sliding) => {
            Some(Field::derived(period.get(), layout.source.clone()))
        }
        _ => None,
    });
    layout.filter(|layout| layout.value != LayerLayout::Same(LayerKind::Full))
}

fn finish_rope(
    reader: &ConfigReader<'_>,
    core: &Core,
    rope: &mut RopeConfig,
    scaling: &mut RopeScaling,
    head_dim: &Field<u32>,
) -> Result<()> {
    if rope.dimension_count.is_none() && core.rope_theta.is_some() {
        let part = rope.partial_factor.as_ref().map_or(1.0, |part| f64::from(part.value));
        // The fraction is at most 1, so the product fits.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "see above")]
        let rotated = (f64::from(head_dim.value) * part) as u32;
        if rotated == 0 {
            let part = rope.partial_factor.as_ref().map_or("", |part| &part.source).to_owned();
            return Err(reader.invalid(
                &part,
                format!("no element of a head of width {} is rotated", head_dim.value),
            ));
        }
        let source = match rope.partial_factor {
            Some(_) => "head_dim * rope_partial_factor",
            None => "head_dim",
        };
        rope.dimension_count = Some(Field::derived(rotated, source));
    }
    if scaling.kind.is_none() {
        let store = reader.store;
        let tensor = |name: &str| store.find(name).map(|tensor| tensor.name().to_string());
        let stored = |name: &str, kind| {
            tensor(name).map(|name| Field::derived(kind, format!("{name} is stored")))
        };
        // Mistral's params.json has an object named after the method.
        let factor = scaling.factor.as_ref().map(|factor| {
            let yarn = factor.source.contains("yarn.");
            let kind = if yarn { RopeScalingKind::Yarn } else { RopeScalingKind::Linear };
            Field::derived(kind, factor.source.clone())
        });
        scaling.kind = stored("rope_factors_long.weight", RopeScalingKind::LongRope)
            .or_else(|| stored("rope_freqs.weight", RopeScalingKind::Tensor))
            .or(factor)
            .or_else(|| {
                let rotates = rope.dimension_count.is_some();
                rotates.then(|| Field::derived(RopeScalingKind::None, "default"))
            });
    }
    // The method divides by the difference of the two, unless there is none: then it has no ramp.
    if let (Some(low), Some(high)) = (&scaling.low_freq_factor, &scaling.high_freq_factor)
        && low.value > high.value
    {
        let fault =
            format!("{}, but at least low_freq_factor, {}, is needed", high.value, low.value);
        return Err(reader.invalid(&high.source, fault));
    }
    Ok(())
}

/// The tensor with a canonical name, or with one of its usual stored names in models without
/// canonical names.
fn stored<'a>(
    store: &'a Store,
    resolution: &Resolution,
    canonical: &str,
    names: &[&str],
) -> Option<StoredTensor<'a>> {
    let mapped = resolution.mapped.iter().find(|mapping| mapping.canonical == canonical);
    let mapped = mapped.and_then(|mapping| store.find(mapping.stored.first()?));
    mapped.or_else(|| names.iter().find_map(|name| store.find(name)))
}

/// The number of rows of the embedding, which takes precedence over the config.
fn vocab_size(
    reader: &ConfigReader<'_>,
    embedding: Option<StoredTensor<'_>>,
    stated: Option<Field<u32>>,
) -> Result<Option<Field<u32>>> {
    let rows = embedding.and_then(|tensor| Some((tensor, *tensor.shape().first()?)));
    if let Some((tensor, rows)) = rows {
        let source = format!("rows of {}", tensor.name());
        let value = u32::try_from(rows).map_err(|_| {
            reader.invalid(&source, format!("{rows} rows, but their number must fit in 32 bits"))
        })?;
        return Ok(Some(Field::derived(value, source)));
    }
    Ok(stated.or_else(|| {
        let key = "tokenizer.ggml.tokens";
        let value = u32::try_from(reader.store.metadata().array(key)?.len()).ok()?;
        Some(Field::derived(value, format!("length of {key}")))
    }))
}

/// Whether the embedding serves as output matrix.
fn tied(
    embedding: Option<StoredTensor<'_>>,
    output: Option<StoredTensor<'_>>,
    stated: Option<Field<bool>>,
) -> Option<Field<bool>> {
    match (embedding, output) {
        (_, Some(output)) => Some(Field::derived(false, format!("{} is stored", output.name()))),
        (Some(_), None) => Some(Field::derived(true, "no output matrix is stored")),
        (None, None) => stated,
    }
}
