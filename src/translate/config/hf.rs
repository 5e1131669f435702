//! The config as `config.json`: the fields of [`ModelConfig`](crate::ModelConfig) by the names that
//! transformers has for them. They are the older names, which every version reads: `rope_theta` and
//! `rope_scaling`, not `rope_parameters`.

use serde_json::{Map, Value as Json, json};

use super::forms::{FORMS, WITHIN};
use super::gguf::{Constant, Known, below, llama3_factors};
use crate::arch::config::Reported;
use crate::arch::{LayerKind, LayerLayout, ModelConfig, Resolution, RopeScalingKind};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::store::Store;

/// One thing that a form has in `config.json`.
#[derive(Debug)]
pub(super) enum Line {
    /// A field of the config under that key.
    Field(&'static str, &'static str),
    /// As `Field`, of what would be wrong where it is left to the class's default.
    Needed(&'static str, &'static str),
    /// One of GGUF's keys that no field is made of, behind the architecture's name, and the key here.
    Stated(&'static str, &'static str),
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
/// [`Model::config`](crate::Model::config) has it.
pub(crate) fn hf_config(store: &Store, resolution: &Resolution) -> Result<Map<String, Json>> {
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
                known.alike_in_all_layers(field)?;
                if let Some(value) = known.settled(field) {
                    out.insert((*key).to_owned(), value);
                }
            }
            Line::Needed(field, key) => {
                let value =
                    known.settled(field).ok_or_else(|| known.without(&format!("no {key}")))?;
                out.insert((*key).to_owned(), value);
            }
            Line::Stated(key, name) => {
                out.insert((*name).to_owned(), known.stated(key)?);
            }
            Line::Fixed(key, value) => {
                out.insert((*key).to_owned(), (*value).into());
            }
            Line::By(line) => line(&known, &mut out)?,
        }
    }
    known.follows_from_the_others(&out)?;
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

/// The config as mlx-lm has it: of some families, within that of a model with images.
pub(crate) fn in_mlx(config: Map<String, Json>) -> Map<String, Json> {
    let name = config.get("model_type").and_then(Json::as_str);
    let outer = WITHIN.iter().find(|(inner, _)| name == Some(*inner));
    let Some((_, outer)) = outer else { return config };
    let mut out = Map::new();
    out.insert("model_type".to_owned(), (*outer).into());
    for key in ["architectures", "bos_token_id", "eos_token_id", "pad_token_id", "torch_dtype"] {
        out.extend(config.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    out.insert("text_config".to_owned(), Json::Object(config));
    out
}

impl Known<'_> {
    /// A model that transformers' class cannot hold.
    pub(super) fn without(&self, what: &str) -> Error {
        let fault = format!(
            "{what}, which config.json has no form for in {}",
            self.config.architecture.value
        );
        Error::unsupported(fault).in_file(self.path())
    }

    /// One of GGUF's own keys, that the form needs.
    fn stated(&self, key: &str) -> Result<Json> {
        let key = format!("{}.{key}", self.config.architecture.value);
        let value = self.metadata().get(&key);
        let json = value.and_then(|value| match (value.to_u64(), value.to_bool()) {
            (Some(count), _) => Some(count.into()),
            (_, Some(flag)) => Some(flag.into()),
            #[expect(clippy::cast_possible_truncation, reason = "engines use it as f32")]
            _ => value.to_f64().map(|real| (real as f32).reported()),
        });
        json.ok_or_else(|| {
            let fault = format!("config.json needs {key}, which the file lacks");
            Error::unsupported(fault).in_file(self.path())
        })
    }

    /// Lists are of some families alone.
    fn alike_in_all_layers(&self, field: &str) -> Result<()> {
        let config = &self.config;
        let (list, what) = match field {
            "ffn_dim" => (&config.ffn_dim_per_layer, "width of the feed-forward network"),
            "n_heads" => (&config.attention.n_heads_per_layer, "number of heads"),
            "n_kv_heads" => (&config.attention.n_kv_heads_per_layer, "number of key heads"),
            _ => return Ok(()),
        };
        let each = list.as_ref().map_or(&[][..], |list| &list.value);
        match each.iter().all(|number| each.first() == Some(number)) {
            true => Ok(()),
            false => Err(self.without(&format!("a {what} for each layer"))),
        }
    }

    /// A width of heads that the form does not state is `hidden_size / num_attention_heads`.
    fn follows_from_the_others(&self, out: &Map<String, Json>) -> Result<()> {
        let states = ["head_dim", "qk_nope_head_dim"].iter().any(|key| out.contains_key(*key));
        let ModelConfig { dim, n_heads, head_dim, .. } = &self.config;
        if states || dim.value.checked_div(n_heads.value) == Some(head_dim.value) {
            return Ok(());
        }
        let (heads, width) = (n_heads.value, head_dim.value);
        Err(self.without(&format!("{heads} heads of {width} for a width of {}", dim.value)))
    }

    /// Layers without those behind them, which predict further tokens.
    fn own_layers(&self) -> u32 {
        let next = self.config.experts.n_next_token_layers.as_ref().map_or(0, |next| next.value);
        self.config.n_layers.value.saturating_sub(next)
    }

    /// Kinds of layers, where they differ.
    fn kinds(&self) -> Option<Vec<&LayerKind>> {
        (0..self.own_layers()).map(|layer| self.config.layer_kind(layer)).collect()
    }

    /// Whether any layer has a tensor of that canonical name.
    fn has_in_layers(&self, rest: &str) -> bool {
        (0..self.own_layers()).any(|layer| self.has(&format!("layers.{layer}.{rest}")))
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
    gating.is_some_and(|gating| gating.value == crate::arch::Gating::Sigmoid)
}

pub(super) fn has_temperature(known: &Known<'_>) -> bool {
    known.stated("attention.temperature_scale").is_ok()
}

/// Layers that predict further tokens are counted apart.
pub(super) fn layers(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    out.insert("num_hidden_layers".to_owned(), known.own_layers().into());
    Ok(())
}

pub(super) fn biased(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let biased = known.has_in_layers("attention.q.bias");
    out.insert("attention_bias".to_owned(), biased.into());
    if ["llama", "llama-embed", "nanbeige"].contains(&known.config.architecture.value.as_str()) {
        out.insert("mlp_bias".to_owned(), known.has("layers.0.ffn.up.bias").into());
    }
    Ok(())
}

pub(super) fn plain_bias(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    out.insert("bias".to_owned(), known.has_in_layers("attention.q.bias").into());
    Ok(())
}

/// Cohere has norms of queries and keys in its larger models.
pub(super) fn embedding_biases(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    out.insert("attention_bias".to_owned(), known.has("layers.0.attention.q.bias").into());
    out.insert("use_qk_norm".to_owned(), known.has("layers.0.attention.q_norm.weight").into());
    Ok(())
}

/// Heads as wide as others have them are not stated: the class makes them of the other numbers.
pub(super) fn uneven_heads(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let config = &known.config;
    if config.dim.value.checked_div(config.n_heads.value) != Some(config.head_dim.value) {
        out.insert("head_dim".to_owned(), config.head_dim.value.into());
    }
    Ok(())
}

/// How rotary embeddings are stretched, where they are, but for LongRoPE, which is of a form of its
/// own.
fn stretched(known: &Known<'_>) -> Result<Option<Map<String, Json>>> {
    let Some(kind) = known.config.rope_scaling.kind.as_ref().map(|kind| &kind.value) else {
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
                put(key, known.settled(field));
            }
        }
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
    Ok(Some(rope))
}

pub(super) fn rope(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    out.insert("rope_theta".to_owned(), known.config.rope_theta.value.reported());
    if let Some(rope) = stretched(known)? {
        out.insert("rope_scaling".to_owned(), Json::Object(rope));
    }
    Ok(())
}

/// The same in the newer form, for classes that came with it: all in one.
pub(super) fn rope_parameters(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let usual = || Map::from_iter([("rope_type".to_owned(), "default".into())]);
    let mut rope = stretched(known)?.unwrap_or_else(usual);
    rope.insert("rope_theta".to_owned(), known.config.rope_theta.value.reported());
    out.insert("rope_parameters".to_owned(), Json::Object(rope));
    Ok(())
}

/// As `rope_parameters`, with the part that is rotated and what it turns with.
pub(super) fn rope_sections(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    rope_parameters(known, out)?;
    if let Some(Json::Object(rope)) = out.get_mut("rope_parameters") {
        rotary_part(known, rope)?;
        rope.extend(of_sections(known));
    }
    Ok(())
}

/// Pairs that turn with time, height and width, three of GGUF's four. Qwen deals them out since
/// Qwen3-VL.
fn of_sections(known: &Known<'_>) -> Vec<(String, Json)> {
    let Some(sections) = &known.config.rope.sections else { return Vec::new() };
    let mut said = sections.value.clone();
    said.truncate(3);
    let dealt = known.config.architecture.value != "qwen2vl";
    let dealt = dealt.then(|| ("mrope_interleaved".to_owned(), true.into()));
    [("mrope_section".to_owned(), said.reported())].into_iter().chain(dealt).collect()
}

pub(super) fn sections(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let said = of_sections(known);
    if said.is_empty() {
        return Err(known.without("no rope.dimension_sections"));
    }
    let rope = out.entry("rope_scaling").or_insert_with(|| json!({"rope_type": "default"}));
    if let Json::Object(rope) = rope {
        rope.extend(said);
    }
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

/// The part of a head that is rotated, which classes have other defaults for.
pub(super) fn rotary_part(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let (whole, rotated) = (known.config.head_dim.value, &known.config.rope.dimension_count);
    let rotated = rotated.as_ref().map_or(whole, |rotated| rotated.value);
    #[expect(clippy::cast_possible_truncation, reason = "engines use it as f32")]
    let part = (f64::from(rotated) / f64::from(whole)) as f32;
    out.insert("partial_rotary_factor".to_owned(), part.reported());
    Ok(())
}

/// Kinds of layers, where they differ.
pub(super) fn layer_types(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    if let Some(kinds) = known.kinds() {
        out.insert("layer_types".to_owned(), kinds.into_iter().map(Reported::reported).collect());
    }
    Ok(())
}

/// Linear attention: its layers, which mlx-lm has by their period, and the width of its values.
pub(super) fn linear_layers(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let kinds: Vec<LayerKind> = known.kinds().into_iter().flatten().cloned().collect();
    if !kinds.contains(&LayerKind::Linear) {
        return Err(known.without("no layer of linear attention"));
    }
    out.insert("layer_types".to_owned(), kinds.iter().map(Reported::reported).collect());
    if let LayerLayout::Period(period, LayerKind::Linear) = LayerLayout::of(kinds) {
        out.insert("full_attention_interval".to_owned(), period.get().into());
    }
    let (inner, heads) = (&known.config.ssm.inner_size, &known.config.ssm.time_step_rank);
    let each = inner.as_ref().zip(heads.as_ref());
    let each = each.and_then(|(inner, heads)| inner.value.checked_div(heads.value));
    let each = each.ok_or_else(|| known.without("no linear_value_head_dim"))?;
    out.insert("linear_value_head_dim".to_owned(), each.into());
    Ok(())
}

/// mlx-lm's class asks for the list.
pub(super) fn no_dense_layers(_: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    out.insert("mlp_only_layers".to_owned(), json!([]));
    Ok(())
}

/// The class of Mistral has a window where the config is silent.
pub(super) fn no_window(_: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    out.insert("sliding_window".to_owned(), Json::Null);
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

/// Mistral's YaRN, and the temperature of Ministral 3. GGUF has one factor of the magnitude for
/// both that the config has, which are the same in the published models.
pub(super) fn mistral_yarn(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let rope = ["rope_parameters", "rope_scaling"].into_iter().find(|key| out.contains_key(*key));
    let Some(Json::Object(rope)) = rope.and_then(|key| out.get_mut(key)) else { return Ok(()) };
    if let Some(multiplier) = &known.config.rope_scaling.log_multiplier {
        rope.insert("mscale".to_owned(), multiplier.value.reported());
        rope.insert("mscale_all_dim".to_owned(), multiplier.value.reported());
    }
    if let Ok(beta) = known.stated("attention.temperature_scale") {
        rope.insert("llama_4_scaling_beta".to_owned(), beta);
    }
    Ok(())
}

/// gpt-oss has whole numbers at neither end of what YaRN blends: in no GGUF file, and the same in all
/// models of the family.
pub(super) fn untruncated(_: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    if let Some(Json::Object(rope)) = out.get_mut("rope_scaling") {
        rope.insert("truncate".to_owned(), false.into());
    }
    Ok(())
}

/// MiniCPM's factors, whose products the converter writes.
pub(super) fn minicpm_scales(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let ModelConfig { dim, n_layers, scales, .. } = &known.config;
    let need = |field: &Option<crate::arch::Field<f32>>, key: &str| {
        let value = field.as_ref().map(|field| f64::from(field.value));
        value.ok_or_else(|| known.without(&format!("no {key}")))
    };
    let residual = need(&scales.residual_scale, "residual_scale")?;
    let depth = residual * f64::from(n_layers.value).sqrt();
    let base = f64::from(dim.value) / need(&scales.logit_scale, "logit_scale")?;
    let embedding = need(&scales.embedding_scale, "embedding_scale")?;
    for (key, value) in [("scale_depth", depth), ("scale_emb", embedding)] {
        // Six digits, which is what an f32 keeps of a root and back.
        let value = (value * 1e6).round() / 1e6;
        out.insert(key.to_owned(), value.into());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a width")]
    let base = base.round() as u32;
    out.insert("dim_model_base".to_owned(), base.into());
    Ok(())
}

/// OLMo's bound on queries, keys and values, in some of its models.
pub(super) fn clipped(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    if let Ok(bound) = known.stated("attention.clamp_kqv") {
        out.insert("clip_qkv".to_owned(), bound);
    }
    Ok(())
}

/// A width of the feed-forward network for all layers, or for each.
pub(super) fn widths(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let each = known.config.ffn_dim_per_layer.as_ref().map(|each| each.value.reported());
    let width = each.or_else(|| known.settled("ffn_dim"));
    let width = width.ok_or_else(|| known.without("no intermediate_size"))?;
    out.insert("intermediate_size".to_owned(), width);
    Ok(())
}

/// The embeddings that each layer has of its own, and the keys and values that it has not.
pub(super) fn own_embeddings(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let count = |field: &str| known.settled(field).unwrap_or_else(|| 0.into());
    out.insert("hidden_size_per_layer_input".to_owned(), count("per_layer_dim"));
    out.insert("num_kv_shared_layers".to_owned(), count("n_kv_shared_layers"));
    let rows = known.shape("per_layer_embedding.weight").and_then(|shape| shape.first().copied());
    let rows = rows.map(Json::from).or_else(|| known.settled("vocab_size"));
    out.extend(rows.map(|rows| ("vocab_size_per_layer_input".to_owned(), rows)));
    Ok(())
}

/// Gemma 3n: what no key says, its tensors do, and the parts that its activations drop are written
/// as places of a normal distribution.
pub(super) fn altup(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let rank = known.shape("layers.0.laurel.left.weight").and_then(|shape| shape.first().copied());
    let rank = rank.ok_or_else(|| known.without("no layers.0.laurel.left.weight"))?;
    out.insert("laurel_rank".to_owned(), rank.into());
    let scaled = known.has("layers.0.altup.output_scale");
    out.insert("altup_correct_scale".to_owned(), scaled.into());
    let key = format!("{}.activation_sparsity_scale", known.config.architecture.value);
    let places = known.metadata().array(&key).and_then(|places| places.floats());
    let places = places.ok_or_else(|| known.without("no activation_sparsity_scale"))?;
    #[expect(clippy::cast_possible_truncation, reason = "as many digits as an f32 has")]
    let parts = places.map(|place| (below(place) as f32).reported());
    out.insert("activation_sparsity_pattern".to_owned(), parts.collect());
    Ok(())
}

/// Gemma 4's feed-forward networks: twice as wide in layers that share keys and values, and experts.
pub(super) fn gemma4_widths(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let config = &known.config;
    let shared = config.attention.n_kv_shared_layers.as_ref().map_or(0, |shared| shared.value);
    let own = usize::try_from(known.own_layers().saturating_sub(shared)).unwrap_or(usize::MAX);
    let each = config.ffn_dim_per_layer.as_ref().map_or(&[][..], |each| &each.value);
    let first = each.first().copied().or(config.ffn_dim.as_ref().map(|width| width.value));
    let first = first.ok_or_else(|| known.without("no intermediate_size"))?;
    let (narrow, wide) = each.split_at(own.min(each.len()));
    let twice = !wide.is_empty() && wide.iter().all(|width| *width == first.saturating_mul(2));
    let plain = wide.iter().all(|width| *width == first);
    if !(twice || plain) || narrow.iter().any(|width| *width != first) {
        return Err(known.without("a width of the feed-forward network for each layer"));
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
            let value = known.settled(field).ok_or_else(|| known.without(&format!("no {key}")))?;
            out.insert(key.to_owned(), value);
        }
    }
    Ok(())
}

/// Gemma 4's heads, of which layers with a window have others.
pub(super) fn gemma4_attention(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let config = &known.config;
    let (wide, narrow) = (config.head_dim.value, &config.attention.local_head_dim);
    let narrow = narrow.as_ref().map_or(wide, |narrow| narrow.value);
    out.insert("head_dim".to_owned(), narrow.into());
    out.insert("global_head_dim".to_owned(), wide.into());
    let kinds = known.kinds().unwrap_or_default();
    let each = config.attention.n_kv_heads_per_layer.as_ref().map_or(&[][..], |each| &each.value);
    let of = |full: bool| {
        let of = kinds.iter().zip(each).filter(|(kind, _)| (***kind == LayerKind::Full) == full);
        let mut heads = of.map(|(_, heads)| *heads);
        let first = heads.next();
        match heads.all(|heads| Some(heads) == first) {
            true => Ok(first),
            false => Err(known.without("a number of key heads for each layer")),
        }
    };
    let heads = of(false)?.unwrap_or(config.n_kv_heads.value);
    out.insert("num_key_value_heads".to_owned(), heads.into());
    if let Some(heads) = of(true)? {
        out.insert("num_global_key_value_heads".to_owned(), heads.into());
    }
    // Layers without a window may have keys for values.
    let full = (0u32..).zip(&kinds).find(|(_, kind)| ***kind == LayerKind::Full);
    let has =
        |layer: u32, name: &str| known.has(&format!("layers.{layer}.attention.{name}.weight"));
    let same = full.is_some_and(|(layer, _)| has(layer, "k") && !has(layer, "v"));
    out.insert("attention_k_eq_v".to_owned(), same.into());
    Ok(())
}

/// Gemma 4's rotary embeddings: where there is no window, the part that the divisors leave as it is.
pub(super) fn gemma4_rope(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let divisors = known.values("rope_freqs.weight")?;
    let rotated = divisors.iter().take_while(|divisor| **divisor == 1.0).count();
    if divisors.iter().skip(rotated).any(|divisor| *divisor < 1e29) {
        return Err(known.without("rope_freqs.weight that is not made as Gemma 4's is"));
    }
    #[expect(clippy::cast_possible_truncation, reason = "engines use it as f32")]
    let part = (rotated as f64 / divisors.len().max(1) as f64) as f32;
    let local = known.settled("rope_local_theta");
    let local = local.ok_or_else(|| known.without("no rope.freq_base_swa"))?;
    let full = json!({
        "rope_type": "proportional",
        "rope_theta": known.config.rope_theta.value.reported(),
        "partial_rotary_factor": part.reported(),
    });
    let sliding = json!({"rope_type": "default", "rope_theta": local});
    let both = json!({"full_attention": full, "sliding_attention": sliding});
    out.insert("rope_parameters".to_owned(), both);
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
    use super::*;
    use crate::arch::config::key;

    /// Fields that no row reads, since they are made of others.
    const MADE: [&str; 4] = ["norm_eps", "sliding_window_pattern", "head_dim", "n_layers"];

    #[test]
    fn every_line_is_read_again_by_its_own_row() {
        for form in FORMS {
            for line in form.lines.iter().copied().flatten() {
                let (Line::Field(field, written) | Line::Needed(field, written)) = line else {
                    continue;
                };
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
