//! Derives the config: numbers that follow from other numbers, from stored tensors, or from a rule
//! of the family.

use super::classes;
use super::field::Field;
use super::keys::{
    AttentionConfig, Core, EncoderConfig, ExpertConfig, RopeConfig, RopeScaling, ScaleConfig,
    SsmConfig, key,
};
use super::layout::{self, Layouts, holds};
use super::model::ModelConfig;
use super::origin::{FieldSource, SourceKind};
use super::pooling;
use super::read::ConfigReader;
use super::scaling;
use super::values::{LayerKind, LayerLayout, NormKind, PerLayer, RopeScalingKind};
use crate::arch::{Mapping, Resolution};
use crate::dialect::Dialect;
use crate::error::{Error, Result};
use crate::rounding::f32_of;
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
            let of = source.clone().remarked(" (the largest of all layers)");
            (Some(Field { value: largest, source: of }), Some(Field { value: each, source }))
        }
    }
}

/// Derives the config of a model from GGUF metadata, or from the `config.json` or `params.json` next to
/// the weights.
///
/// # Errors
///
/// `Unsupported` if the model is not a language model; `Malformed` if it lacks a required number, or has
/// an invalid one: zero heads, or a width that is not an integer.
pub(crate) fn derived(reader: &ConfigReader<'_>, resolution: &Resolution) -> Result<ModelConfig> {
    let store = reader.store;
    let mut draft = ConfigDraft::read(reader, resolution)?;
    let dim = draft.needed("dim", |core| core.dim.take())?;
    let n_layers = draft.layers()?;
    let (n_heads, n_kv_heads) = draft.heads()?;
    draft.pooling(store);
    let causal = &mut draft.attention.causal;
    *causal = causal.take().or_else(|| classes::bidirectional(store, resolution));
    let head_dim = draft.head_width(&dim, &n_heads)?;
    let (ffn_dim, ffn_dim_per_layer) = draft.network(&dim);
    let ffn_dim = ffn_dim.or_else(|| stored_width(store, resolution));
    draft.encoder(&dim, &n_heads, ffn_dim.as_ref());
    let (norm_kind, norm_eps) = draft.norm();
    let layers = draft.layout(n_layers.value);
    let (n_heads, n_kv_heads) =
        draft.heads_in_windows([n_heads, n_kv_heads], layers.as_ref(), n_layers.value);
    draft.rotary(&head_dim)?;
    draft.scales(&dim, &n_heads, n_layers.value);
    let n_experts = draft.experts(ffn_dim.as_ref());
    draft.state_space(&dim, &n_heads, ffn_dim.as_ref())?;
    let embedding = stored(store, resolution, "token_embedding.weight", EMBEDDINGS);
    let output = stored(store, resolution, "output.weight", OUTPUTS);
    let row = resolution.architecture.map(|row| row.name.to_owned());
    let core = draft.core;
    let more = draft.scales.more_embeddings.as_ref().map_or(0, |more| more.value);
    Ok(ModelConfig {
        q_dim: product(reader, &n_heads, &head_dim, "n_heads * head_dim")?,
        kv_dim: product(reader, &n_kv_heads, &head_dim, "n_kv_heads * head_dim")?,
        max_seq_len: core.max_seq_len,
        activation: core.activation,
        rope_theta: core.rope_theta.unwrap_or(Field::derived(10_000.0, FieldSource::usual())),
        family: row.map(|row| Field::derived(row, resolution.reason.clone())),
        architecture: reader.architecture.clone(),
        dim,
        n_layers,
        n_heads,
        n_kv_heads,
        head_dim,
        ffn_dim,
        ffn_dim_per_layer,
        vocab_size: vocab_size(reader, embedding, more, core.vocab_size)?,
        norm_kind,
        norm_eps,
        tie_embeddings: tied(resolution, embedding, output, core.tie_embeddings),
        n_experts,
        layers,
        attention: draft.attention,
        rope: draft.rope,
        rope_scaling: draft.rope_scaling,
        experts: draft.experts,
        scales: draft.scales,
        ssm: draft.ssm,
        encoder: draft.encoder,
    })
}

/// The numbers that a model's files state, to which each step adds those that follow from them.
struct ConfigDraft<'d> {
    reader: &'d ConfigReader<'d>,
    resolution: &'d Resolution,
    core: Core,
    attention: AttentionConfig,
    rope: RopeConfig,
    rope_scaling: RopeScaling,
    experts: ExpertConfig,
    scales: ScaleConfig,
    encoder: EncoderConfig,
    ssm: SsmConfig,
}

impl<'d> ConfigDraft<'d> {
    fn read(reader: &'d ConfigReader<'d>, resolution: &'d Resolution) -> Result<Self> {
        Ok(Self {
            reader,
            resolution,
            core: Core::read(reader)?,
            attention: AttentionConfig::read(reader)?,
            rope: RopeConfig::read(reader)?,
            rope_scaling: RopeScaling::read(reader)?,
            experts: ExpertConfig::read(reader)?,
            scales: ScaleConfig::read(reader)?,
            encoder: EncoderConfig::read(reader)?,
            ssm: SsmConfig::read(reader)?,
        })
    }

    fn needed<T>(
        &mut self,
        name: &str,
        take: impl FnOnce(&mut Core) -> Option<Field<T>>,
    ) -> Result<Field<T>> {
        needed(self.reader, self.resolution, name, take(&mut self.core))
    }

    /// Whether the stated number of layers is that of an encoder before the decoder.
    fn counts_encoder_layers(&self) -> bool {
        self.resolution.architecture.is_some_and(|row| row.counts_encoder_layers)
    }

    /// The number of layers, those of the encoder, and which layers have rotary embeddings.
    fn layers(&mut self) -> Result<Field<u32>> {
        let listed = self.core.layer_types.as_ref().and_then(|kinds| {
            let count = u32::try_from(kinds.value.len()).ok()?;
            Some(Field::derived(count, format!("length of {}", kinds.source)))
        });
        let mut n_layers = self.needed("n_layers", |core| {
            core.layer_groups.take().or(core.n_layers.take()).or(listed)
        })?;
        if self.counts_encoder_layers() {
            let as_many = || Field::derived(n_layers.value, "as many as enc_n_layers");
            let decoder = self.core.decoder_layers.take().unwrap_or_else(as_many);
            self.encoder.enc_n_layers = Some(std::mem::replace(&mut n_layers, decoder));
        }
        check_layers(self.reader, self.resolution, &n_layers)?;
        if holds(&self.core.optional_rope) && self.rope.layers.is_none() {
            self.rope.layers = without_rope(self.reader, &self.core, n_layers.value);
        }
        Ok(n_layers)
    }

    /// The numbers of query heads and of key heads.
    fn heads(&mut self) -> Result<(Field<u32>, Field<u32>)> {
        let (n_heads, each) = split(self.core.n_heads.take());
        // RWKV's files state no heads.
        let mut names = self.resolution.mapped.iter().map(|mapping| &mapping.canonical);
        let attention_free = holds(&self.core.attention_free)
            || n_heads.is_none() && names.any(|name| name.contains(".time_mix."));
        let n_heads = match attention_free {
            true => Some(Field::derived(1, "no layer has attention")),
            false => n_heads,
        };
        let n_heads = self.needed("n_heads", |_| n_heads)?;
        self.attention.n_heads_per_layer = each;
        let (n_kv_heads, each) = match attention_free {
            true => (n_heads.clone(), None),
            false => kv_heads(&self.core, &n_heads),
        };
        // Layers without attention state 0 key heads. If all are such layers, nothing follows from it.
        let mut names = self.resolution.mapped.iter().map(|mapping| &mapping.canonical);
        let attends = names.any(|name| name.ends_with(".attention.q.weight"));
        let n_kv_heads = match self.core.without_attention {
            Some(_) if n_kv_heads.value == 0 && !attends => n_heads.clone(),
            _ => n_kv_heads,
        };
        self.attention.n_kv_heads_per_layer = each;
        for heads in [&n_heads, &n_kv_heads] {
            if heads.value == 0 {
                let fault = "0, but a value above 0 is needed";
                return Err(self.reader.invalid(&heads.source, fault));
            }
        }
        Ok((n_heads, n_kv_heads))
    }

    /// The numbers of query heads and of key heads, for families with other ones in layers with a window. GGUF lists them.
    fn heads_in_windows(
        &mut self,
        [heads, kv_heads]: [Field<u32>; 2],
        layers: Option<&Field<LayerLayout>>,
        n_layers: u32,
    ) -> (Field<u32>, Field<u32>) {
        let (core, attention) = (&mut self.core, &mut self.attention);
        let more = core.key_heads_in_windows.take().map(|times| {
            let source = kv_heads.source.clone();
            let source = source.remarked(format_args!(", {} times in windows", times.value));
            Field { value: kv_heads.value.saturating_mul(times.value), source }
        });
        let next = self.experts.n_next_token_layers.as_ref().map_or(0, |more| more.value);
        let all = 0..n_layers.saturating_add(next);
        let each = |stated: &Field<u32>, local: Option<Field<u32>>, list: &mut Option<_>| {
            let local = local.filter(|local| local.value != stated.value && list.is_none())?;
            let kinds = all.clone().map_while(|layer| layers?.value.kind(layer));
            let each = kinds.map(|kind| match kind {
                LayerKind::Sliding => local.value,
                _ => stated.value,
            });
            let each: Vec<u32> = each.collect();
            let value = *each.iter().max()?;
            *list = Some(Field::derived(each, local.source.clone()));
            Some(Field { value, source: local.source })
        };
        let (local, local_kv) = (core.n_local_heads.take(), core.n_local_kv_heads.take().or(more));
        let own = each(&heads, local, &mut attention.n_heads_per_layer);
        let own_kv = each(&kv_heads, local_kv, &mut attention.n_kv_heads_per_layer);
        (own.unwrap_or(heads), own_kv.unwrap_or(kv_heads))
    }

    /// The pooling of outputs, as documents next to the weights state it.
    fn pooling(&mut self, store: &Store) {
        if self.attention.pooling_type.is_none() {
            // What cannot be read is an error for those who convert the model, not for those who open
            // it.
            let stated = pooling::stated(store).ok().flatten();
            self.attention.pooling_type = stated;
        }
    }

    /// The width of a head, and that of a value head.
    fn head_width(&mut self, dim: &Field<u32>, n_heads: &Field<u32>) -> Result<Field<u32>> {
        let (core, attention) = (&mut self.core, &mut self.attention);
        let head_dim = head_dim(self.reader, core, attention, &self.rope, [dim, n_heads])?;
        if attention.value_head_dim.is_none() {
            let usual = holds(&core.usual_value_width);
            let derived = dim.value.checked_div(n_heads.value).filter(|_| usual);
            attention.value_head_dim = Some(match derived {
                Some(width) => Field::derived(width, "dim / n_heads"),
                None => Field::derived(head_dim.value, "same as head_dim"),
            });
        }
        Ok(head_dim)
    }

    /// Four times a width, for families whose networks are that wide.
    fn four_times(&self, width: &Field<u32>, source: &'static str) -> Option<Field<u32>> {
        let wide = holds(&self.core.ffn_four_times).then(|| width.value.checked_mul(4)).flatten();
        wide.map(|value| Field::derived(value, source))
    }

    /// The width of the feed-forward network, and that of each layer if they differ.
    fn network(&mut self, dim: &Field<u32>) -> (Option<Field<u32>>, Option<Field<Vec<u32>>>) {
        let (ffn_dim, ffn_dim_per_layer) = split(self.core.ffn_dim.take());
        let ffn_dim = ffn_dim.or_else(|| self.four_times(dim, "4 * dim"));
        (ffn_dim.map(|stated| adjusted(&self.core, stated)), ffn_dim_per_layer)
    }

    /// An encoder is as wide as its decoder; configs of transformers state the width once.
    fn encoder(&mut self, dim: &Field<u32>, n_heads: &Field<u32>, ffn_dim: Option<&Field<u32>>) {
        if self.encoder.enc_n_layers.is_none() {
            return;
        }
        if self.counts_encoder_layers() {
            let same = |field: &Field<u32>, source| Field::derived(field.value, source);
            self.encoder.enc_n_heads = Some(same(n_heads, "same as n_heads"));
            self.encoder.enc_ffn_dim = ffn_dim.map(|width| same(width, "same as ffn_dim"));
        }
        let width = || Field::derived(dim.value, "same as dim");
        let width = self.encoder.enc_dim.get_or_insert_with(width).clone();
        let wide = self.four_times(&width, "4 * enc_dim");
        self.encoder.enc_ffn_dim = self.encoder.enc_ffn_dim.take().or(wide);
    }

    /// The kind of norms and their epsilon.
    fn norm(&mut self) -> (Option<Field<NormKind>>, Option<Field<f32>>) {
        let core = &mut self.core;
        match core.norms.as_ref().map(|norms| norms.value) {
            Some(NormKind::Layer) => core.layer_eps = core.layer_eps.take().or(core.rms_eps.take()),
            Some(NormKind::Rms) => core.rms_eps = core.rms_eps.take().or(core.layer_eps.take()),
            None => {}
        }
        let norm = |eps: Option<Field<f32>>, kind| {
            eps.map(|eps| (Field::derived(kind, eps.source.clone()), eps))
        };
        norm(core.rms_eps.take(), NormKind::Rms)
            .or_else(|| norm(core.layer_eps.take(), NormKind::Layer))
            .unzip()
    }

    /// The kind of each layer.
    fn layout(&mut self, n_layers: u32) -> Option<Field<LayerLayout>> {
        // Qwen's configs state a window that is not used. A list of layers takes precedence, but in a
        // class whose window has no length then.
        let listed = self.core.layer_types.as_ref();
        let lists = listed.is_some_and(|kinds| kinds.value.contains(&LayerKind::Sliding));
        let is_off = self.core.use_window.as_ref().is_some_and(|flag| !flag.value);
        if is_off && (!lists || self.reader.is_window_zero()) {
            self.attention.sliding_window = None;
        }
        layout::count_itself(&mut self.attention, self.resolution.dialect);
        let stated = Layouts {
            core: &self.core,
            window: self.attention.sliding_window.as_ref(),
            chunk_size: self.attention.chunk_size.as_ref(),
            rope: &self.rope,
            reader: self.reader,
            n_layers,
        };
        let layout = stated.choose();
        self.attention.sliding_window_pattern =
            layout.as_ref().and_then(|layout| match &layout.value {
                LayerLayout::Period(period, LayerKind::Sliding) => {
                    Some(Field::derived(period.get(), layout.source.clone()))
                }
                _ => None,
            });
        layout
            .filter(|layout| layout.value != LayerLayout::Same(LayerKind::Full))
            .or_else(|| layout::headless(&self.attention, &self.core))
    }

    /// Rotary embeddings and their scaling.
    fn rotary(&mut self, head_dim: &Field<u32>) -> Result<()> {
        if let (None, Some(ratio)) = (&self.core.rope_theta, &self.core.rope_ratio) {
            let base = Field::derived(10_000.0 * ratio.value, "10000 * rope_ratio");
            self.core.rope_theta = Some(base);
        }
        let (rope, scaling) = (&mut self.rope, &mut self.rope_scaling);
        let scales = scaling.kind.as_ref().is_some_and(|kind| kind.value != RopeScalingKind::None);
        if !scales && self.reader.rotates_whole {
            rope.partial_factor = None;
        }
        finish_rope(self.reader, &self.core, rope, scaling, head_dim)?;
        // Where the part that is rotated is stated for layers with full attention alone, the others
        // rotate whole heads.
        let part = self.rope.partial_factor.as_ref();
        let of_full = part.is_some_and(|part| part.source.is_within("full_attention"));
        let apart = self.rope.local_theta.is_some() && self.attention.local_head_dim.is_none();
        if of_full && apart && self.rope.local_dimension_count.is_none() {
            let whole = Field::derived(head_dim.value, "same as head_dim");
            self.rope.local_dimension_count = Some(whole);
        }
        // The family's base for windows is of no use without one.
        if self.attention.sliding_window.is_none() {
            self.rope.local_theta.take_if(|theta| theta.source.kind() == SourceKind::Family);
        }
        Ok(())
    }

    /// Factors of the embedding and of attention, and the activation.
    fn scales(&mut self, dim: &Field<u32>, n_heads: &Field<u32>, n_layers: u32) {
        if self.scales.embedding_scale.is_none() && holds(&self.core.scaled_embedding) {
            let root = f32_of(f64::from(dim.value).sqrt());
            self.scales.embedding_scale = Some(Field::derived(root, "sqrt(dim)"));
        }
        let attention = &mut self.attention;
        if attention.query_pre_attn_scalar.is_none()
            && let Some(value @ 1..) = dim.value.checked_div(n_heads.value)
            && self.core.scaled_by_dim_layers.as_ref().is_some_and(|of| of.value == n_layers)
        {
            attention.query_pre_attn_scalar = Some(Field::derived(value as f32, "dim / n_heads"));
        }
        if attention.attention_scale.is_none()
            && let Some(scalar) = &attention.query_pre_attn_scalar
        {
            let scale = scalar.value.sqrt().recip();
            attention.attention_scale =
                Some(Field::derived(scale, "1 / sqrt(query_pre_attn_scalar)"));
        }
    }

    /// The number of experts, and their width.
    fn experts(&mut self, ffn_dim: Option<&Field<u32>>) -> Field<u32> {
        let n_experts =
            self.core.n_experts.take().unwrap_or(Field::derived(0, FieldSource::usual()));
        // DeepSeek 2 states groups that it does not use. One group is all experts.
        let several = self.experts.n_expert_groups.as_ref().is_some_and(|groups| groups.value > 1);
        let choice = self.core.choice_of_experts.as_ref();
        if several && choice.is_some_and(|choice| choice.value == "greedy") {
            (self.experts.n_expert_groups, self.experts.n_expert_groups_used) = (None, None);
        }
        if n_experts.value > 0 && self.experts.expert_ffn_dim.is_none() {
            // With another width for dense layers, `intermediate_size` is that of experts.
            let dense = ffn_dim.map(|ffn| &ffn.source);
            let narrow = self.core.narrow_ffn_dim.take();
            let narrow = narrow.filter(|narrow| Some(&narrow.source) != dense);
            let same = || ffn_dim.map(|ffn| Field::derived(ffn.value, "same as ffn_dim"));
            self.experts.expert_ffn_dim = narrow.or_else(same);
        }
        n_experts
    }

    /// The widths of a state space or of linear attention.
    fn state_space(
        &mut self,
        dim: &Field<u32>,
        n_heads: &Field<u32>,
        ffn_dim: Option<&Field<u32>>,
    ) -> Result<()> {
        let ssm = &mut self.ssm;
        // Heads of latent attention and of linear attention are as many, and GGUF states them once.
        if self.reader.store.encoding() == Encoding::Gguf && ssm.value_head_dim.is_some() {
            let same = || Field::derived(n_heads.value, "as many as n_heads");
            ssm.group_count.get_or_insert_with(same);
            ssm.time_step_rank.get_or_insert_with(same);
        }
        if ssm.inner_size.is_none()
            && let (Some(width), Some(heads)) = (&ssm.value_head_dim, &ssm.time_step_rank)
        {
            let source = "ssm_time_step_rank * ssm_value_head_dim";
            ssm.inner_size = Some(product(self.reader, heads, width, source)?);
        }
        if ssm.inner_size.is_none()
            && let (Some(width), Some(heads)) = (&ssm.head_dim, &ssm.time_step_rank)
        {
            let source = "ssm_time_step_rank * ssm_head_dim";
            ssm.inner_size = Some(product(self.reader, heads, width, source)?);
        }
        let Some(expansion) = &self.core.state_expansion else { return Ok(()) };
        // Without a feed-forward network, the width that a config states under its name is that of the mixer, but in Mamba 2,
        // whose class goes by the factor.
        let by_factor = ssm.group_count.is_some() && expansion.source.document_name().is_some();
        let stated = ffn_dim.filter(|_| holds(&self.core.attention_free) && !by_factor);
        if let Some(stated) = stated.filter(|_| self.reader.store.encoding() != Encoding::Gguf) {
            ssm.inner_size.get_or_insert_with(|| stated.clone());
        }
        let product = dim.value.checked_mul(expansion.value).ok_or_else(|| {
            self.reader.invalid(&expansion.source, too_wide(expansion.value, dim.value))
        })?;
        let inner = || Field::derived(product, format!("dim * {}", expansion.source));
        ssm.inner_size.get_or_insert_with(inner);
        // In Mamba 2, what GGUF calls the rank is the number of heads.
        let heads = self.core.state_heads.take().filter(|_| ssm.group_count.is_some());
        ssm.time_step_rank = heads.or(ssm.time_step_rank.take());
        let rank = || Field::derived(dim.value.div_ceil(16), "dim / 16, rounded up");
        ssm.time_step_rank.get_or_insert_with(rank);
        Ok(())
    }
}

/// The width of all heads.
fn product(
    reader: &ConfigReader<'_>,
    heads: &Field<u32>,
    width: &Field<u32>,
    source: &'static str,
) -> Result<Field<u32>> {
    let value = heads
        .value
        .checked_mul(width.value)
        .ok_or_else(|| reader.invalid(&heads.source, too_wide(heads.value, width.value)))?;
    Ok(Field::derived(value, source))
}

/// The width of the network. LFM2's is two thirds of the stated one, times a factor, rounded up to a multiple.
fn adjusted(core: &Core, stated: Field<u32>) -> Field<u32> {
    if !holds(&core.ffn_adjusted) {
        let half = || Field::derived(stated.value / 2, format!("half of {}", stated.source));
        return if holds(&core.ffn_half) { half() } else { stated };
    }
    let factor = core.ffn_multiplier.as_ref().map_or(1.0, |factor| f64::from(factor.value));
    let multiple = core.ffn_multiple.as_ref().map_or(1, |multiple| multiple.value);
    // The class rounds down after each step.
    let narrow = 2.0 * f64::from(stated.value) / 3.0;
    let scaled = (narrow.floor() * factor).floor();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let width = (scaled as u32).checked_next_multiple_of(multiple).unwrap_or(u32::MAX);
    Field { value: width, source: stated.source.remarked(", adjusted") }
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
        // The names of the encoder's counterpart and of lists for layers come first, but most models have
        // neither.
        let usual = |json: &&&str| !json.starts_with("decoder") && !json.ends_with("_per_layer");
        let json = row.and_then(|key| key.json.iter().find(usual));
        let json = json.copied().unwrap_or(name);
        let fault =
            format!("neither {}.{gguf} nor {json} in config.json", reader.architecture.value);
        let kind = reader.store.metadata().str("general.type");
        let error =
            match kind.is_some_and(|kind| kind != "model") || resolution.architecture.is_none() {
                true => Error::unsupported(format!("no config of a language model: {fault}"))
                    .advise("its metadata say what the file is"),
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
    let of_groups = core.key_groups.as_ref().filter(|_| core.n_kv_heads.is_none());
    let of_groups = of_groups.map(|Field { value, source }| {
        let each = value.iter().map(|group| n_heads.value.checked_div(*group).unwrap_or(0));
        Field { value: PerLayer::Each(each.collect()), source: source.clone() }
    });
    match split(of_groups.or_else(|| core.n_kv_heads.clone())) {
        // StarCoder's class writes this number and does not read it.
        (Some(heads), _)
            if core.multi_query.is_some()
                && core.groups_of_heads.is_none()
                && heads.source.ends_with("num_key_value_heads") =>
        {
            as_many("as many as n_heads, since multi_query is false".to_owned())
        }
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
fn without_rope(reader: &ConfigReader<'_>, core: &Core, n_layers: u32) -> Option<Field<Vec<bool>>> {
    let (stated, source) = match (&core.has_rope, &core.positions) {
        (Some(stated), _) => (stated.value, stated.source.clone()),
        (None, Some(kind)) => (["rope", "rotary"].contains(&&*kind.value), kind.source.clone()),
        (None, None) => (reader.reads_gguf_keys(), FieldSource::class("default of the class")),
    };
    (!stated).then(|| Field::derived((0..n_layers).map(|_| false).collect(), source))
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
    if let (None, Some(part), Some(_)) =
        (&rope.local_dimension_count, &rope.local_partial_factor, &rope.local_theta)
    {
        // The fraction is at most 1, so the product fits.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "see above")]
        let rotated = (f64::from(head_dim.value) * f64::from(part.value)) as u32;
        let source = "head_dim * rope_local_partial_factor";
        rope.local_dimension_count = Some(Field::derived(rotated, source));
    }
    scaling::finish(reader, core, rope, scaling)
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
    let mut others = names.iter().filter(|name| !resolution.is_stored_under_alias(name));
    mapped.or_else(|| others.find_map(|name| store.find(name)))
}

/// The number of rows of the embedding, without `more` that are no tokens of the vocabulary. It takes precedence over the
/// config.
fn vocab_size(
    reader: &ConfigReader<'_>,
    embedding: Option<StoredTensor<'_>>,
    more: u32,
    stated: Option<Field<u32>>,
) -> Result<Option<Field<u32>>> {
    let rows = embedding.and_then(|tensor| Some((tensor, *tensor.shape().first()?)));
    if let Some((tensor, rows)) = rows {
        let source = FieldSource::tensors(format!("rows of {}", tensor.name()));
        let value = u32::try_from(rows).map_err(|_| {
            reader.invalid(&source, format!("{rows} rows, but their number must fit in 32 bits"))
        })?;
        return Ok(Some(Field::derived(value.saturating_sub(more), source)));
    }
    Ok(stated.or_else(|| {
        let key = "tokenizer.ggml.tokens";
        let value = u32::try_from(reader.store.metadata().array(key)?.len()).ok()?;
        Some(Field::derived(value, format!("length of {key}")))
    }))
}

/// The width of the network in a publisher's files, whose configs may leave it out.
fn stored_width(store: &Store, resolution: &Resolution) -> Option<Field<u32>> {
    let is_publishers = resolution.dialect == Dialect::Publisher;
    let gate =
        stored(store, resolution, "layers.0.ffn.gate.weight", &[]).filter(|_| is_publishers)?;
    let rows = u32::try_from(*gate.shape().first()?).ok()?;
    Some(Field::derived(rows, FieldSource::tensors(format!("rows of {}", gate.name()))))
}

/// Whether the embedding serves as output matrix.
fn tied(
    resolution: &Resolution,
    embedding: Option<StoredTensor<'_>>,
    output: Option<StoredTensor<'_>>,
    stated: Option<Field<bool>>,
) -> Option<Field<bool>> {
    let output = output.map(|output| output.name().to_string());
    let output = output.or_else(|| resolution.undecoded("output.weight").map(str::to_owned));
    match (embedding, output) {
        (_, Some(output)) => {
            let source = FieldSource::tensors(format!("{output} is stored"));
            Some(Field::derived(false, source))
        }
        (Some(_), None) => {
            Some(Field::derived(true, FieldSource::tensors("no output matrix is stored")))
        }
        (None, None) => stated,
    }
}
