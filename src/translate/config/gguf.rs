//! The config as GGUF's keys: the table of the config run backwards, by the rules of the family.
//!
//! Types are those that llama.cpp's strict readers ask for: integers are `u32`, floats `f32`, flags
//! `bool`, and integers in arrays `i32`, which is what `gguf-py` makes of Python's lists.

use std::path::Path;

use serde_json::Value as Json;

use super::families::{FAMILIES, Family};
use crate::arch::config::{Reader, Reported, TEXT_CONFIGS, key};
use crate::arch::{Field, LayerKind, ModelConfig, Resolution, RopeScalingKind};
use crate::error::{Error, Result};
use crate::metadata::{KeyValues, Metadata, Value};
use crate::store::Store;

/// One thing that a family has in GGUF.
#[derive(Debug)]
pub(super) enum Rule {
    /// A row of the table, where the model's files have it.
    Row(&'static str),
    /// A row under another name than its first.
    As(&'static str, &'static str),
    /// A row, or this where the files lack it.
    Or(&'static str, Constant),
    /// A row as [`ModelConfig`] has settled it, from other numbers where the files lack it.
    Settled(&'static str),
    /// The same for every model, under this key.
    Fixed(&'static str, Constant),
    /// How many elements of a head are rotated; this part of them where the files do not say.
    Rotated(f32),
    /// What follows from more than one number, or from one that the table has no row for.
    By(fn(&Known<'_>, &mut Keys<'_>) -> Result<()>),
}

/// A value that a rule has of itself.
#[derive(Clone, Copy, Debug)]
pub(super) enum Constant {
    Count(u32),
    Real(f32),
    Flag(bool),
    Word(&'static str),
}

impl From<Constant> for Json {
    fn from(constant: Constant) -> Self {
        match constant {
            Constant::Count(count) => count.reported(),
            Constant::Real(real) => real.reported(),
            Constant::Flag(flag) => flag.into(),
            Constant::Word(word) => word.into(),
        }
    }
}

/// What is known of a model.
pub(super) struct Known<'a> {
    reader: Reader<'a>,
    pub(super) config: ModelConfig,
    resolution: &'a Resolution,
}

impl<'a> Known<'a> {
    pub(super) fn of(store: &'a Store, resolution: &'a Resolution) -> Result<Self> {
        let (reader, _) = Reader::new(store)?;
        Ok(Self { reader, config: ModelConfig::of(store, resolution)?, resolution })
    }

    pub(super) fn path(&self) -> &Path {
        self.reader.store.path()
    }

    pub(super) fn metadata(&self) -> &Metadata {
        self.reader.store.metadata()
    }

    /// Whether the model has a tensor of that canonical name.
    pub(super) fn has(&self, canonical: &str) -> bool {
        self.resolution.mapped.iter().any(|mapping| mapping.canonical == canonical)
    }

    /// The values of a stored tensor that is made of the config.
    pub(super) fn values(&self, stored: &str) -> Result<Vec<f32>> {
        Ok(self.reader.store.tensor(stored)?.dequantize()?.to_vec())
    }

    /// The shape of the stored tensor that holds that canonical one.
    pub(super) fn shape(&self, canonical: &str) -> Option<&'a [u64]> {
        let mut mapped = self.resolution.mapped.iter();
        let mapping = mapped.find(|mapping| mapping.canonical == canonical)?;
        Some(self.reader.store.find(mapping.stored.first()?)?.shape())
    }

    /// A row of the table as the files have it.
    fn row(&self, name: &str) -> Result<Option<Json>> {
        let Some(key) = key(name) else { return Ok(None) };
        Ok(self.reader.field(key, key.value)?.map(|field: Field<Json>| field.value))
    }

    /// A field as the config has settled it.
    pub(super) fn settled(&self, name: &str) -> Option<Json> {
        let fields = self.config.fields();
        fields.into_iter().find(|field| field.name == name).map(|field| field.value)
    }

    /// What `config.json` says at a path that the table has no row for.
    pub(super) fn said(&self, path: &str) -> Option<&'a Json> {
        let root = self.reader.store.document("config.json")?;
        let inner = TEXT_CONFIGS.iter().filter_map(|name| root.get(name));
        inner.chain([root]).find_map(|config| {
            let found = path.split('.').try_fold(config, |json, name| json.get(name));
            found.filter(|json| !json.is_null())
        })
    }

    pub(super) fn count(&self, path: &str) -> Result<Option<u32>> {
        let Some(json) = self.said(path) else { return Ok(None) };
        let count = json.as_u64().and_then(|count| u32::try_from(count).ok());
        count.map(Some).ok_or_else(|| self.wrong(path, json, "a count"))
    }

    fn real(&self, path: &str) -> Result<Option<f32>> {
        let Some(json) = self.said(path) else { return Ok(None) };
        #[expect(clippy::cast_possible_truncation, reason = "engines use it as f32")]
        let real = json.as_f64().map(|real| real as f32).filter(|real| real.is_finite());
        real.map(Some).ok_or_else(|| self.wrong(path, json, "a number"))
    }

    fn reals(&self, path: &str) -> Result<Vec<f64>> {
        let Some(json) = self.said(path) else { return Ok(Vec::new()) };
        let reals = json.as_array().and_then(|list| list.iter().map(Json::as_f64).collect());
        reals.ok_or_else(|| self.wrong(path, json, "a list of numbers"))
    }

    /// Which layers are of that kind, where `config.json` lists their kinds.
    fn layers_of(&self, kind: &LayerKind) -> Result<Option<Vec<bool>>> {
        let Some(Json::Array(kinds)) = self.row("layer_types")? else { return Ok(None) };
        if kinds.len() as u64 != u64::from(self.config.n_layers.value) {
            let fault =
                format!("{} layers, but there are {}", kinds.len(), self.config.n_layers.value);
            return Err(self.reader.wrong("config.json layer_types", fault));
        }
        Ok(Some(kinds.iter().map(|name| name.as_str() == Some(kind.name())).collect()))
    }

    /// Layers behind the others that predict further tokens, those whose tensors have a name.
    fn next_layers(&self) -> u32 {
        let layers = self.config.n_layers.value;
        let found = self.resolution.mapped.iter().filter_map(|mapping| {
            let (layer, rest) = mapping.canonical.strip_prefix("layers.")?.split_once('.')?;
            let layer = layer.parse::<u32>().ok()?;
            (rest.starts_with("nextn.") && layer >= layers).then_some(layer)
        });
        found.max().map_or(0, |last| last.saturating_sub(layers).saturating_add(1))
    }

    fn wrong(&self, path: &str, found: &Json, needed: &str) -> Error {
        let found = crate::bytes::Text::new(found.to_string().as_bytes()).brief();
        self.reader
            .wrong(&format!("config.json {path}"), format!("{found}, but {needed} is needed"))
    }

    /// A number without which GGUF has no form of the model.
    fn lacks(&self, path: &str) -> Error {
        let fault = format!(
            "{} in GGUF needs {path}, which config.json lacks",
            self.config.architecture.value
        );
        Error::unsupported(fault).in_file(self.reader.store.path())
    }
}

/// Where keys go: each behind the architecture's name.
pub(super) struct Keys<'k> {
    prefix: &'static str,
    out: &'k mut KeyValues,
}

impl Keys<'_> {
    fn set(&mut self, key: &str, value: &Json) {
        let key = format!("{}.{key}", self.prefix);
        #[expect(clippy::cast_possible_truncation, reason = "engines use it as f32")]
        let real = |json: &Json| json.as_f64().map(|real| real as f32);
        let count = |json: &Json| json.as_u64().and_then(|count| u32::try_from(count).ok());
        match value {
            Json::Bool(flag) => self.out.set(&key, Value::Bool(*flag)),
            Json::String(text) => self.out.set_text(&key, text),
            Json::Number(_) => match (count(value), real(value)) {
                (Some(count), _) => self.out.set(&key, Value::U32(count)),
                (_, Some(real)) => self.out.set(&key, Value::F32(real)),
                _ => {}
            },
            // As in `gguf-py`: the first element says what they all are, and without one there is
            // no key.
            Json::Array(list) => match list.first() {
                Some(Json::Bool(_)) => {
                    self.out.set_array(&key, list.iter().filter_map(Json::as_bool));
                }
                Some(first) if first.is_u64() => {
                    self.counts(&key, list.iter().filter_map(count));
                }
                Some(_) => self.out.set_array(&key, list.iter().filter_map(real)),
                None => {}
            },
            Json::Null | Json::Object(_) => {}
        }
    }

    fn counts(&mut self, key: &str, counts: impl Iterator<Item = u32>) {
        self.out.set_array(key, counts.map(u32::cast_signed));
    }

    fn real(&mut self, key: &str, value: f32) {
        self.out.set(&format!("{}.{key}", self.prefix), Value::F32(value));
    }

    pub(super) fn count(&mut self, key: &str, value: u32) {
        self.out.set(&format!("{}.{key}", self.prefix), Value::U32(value));
    }

    pub(super) fn texts<'t>(&mut self, key: &str, texts: impl Iterator<Item = &'t str>) {
        self.out.set_array(&format!("{}.{key}", self.prefix), texts);
    }

    fn flags(&mut self, key: &str, flags: &[bool]) {
        self.out.set_array(&format!("{}.{key}", self.prefix), flags.iter().copied());
    }
}

/// The family that a model of another container becomes in GGUF.
fn family(store: &Store, model_type: &str) -> Result<&'static Family> {
    let class =
        store.document("config.json").and_then(|config| config.get("architectures")?.get(0));
    let class = class.and_then(Json::as_str);
    let mut rows = FAMILIES.iter().filter(|row| row.hf.contains(&model_type));
    let own = rows.clone().find(|row| row.class.is_some() && row.class == class);
    own.or_else(|| rows.find(|row| row.class.is_none())).ok_or_else(|| {
        let fault = format!("no rules say what \"{model_type}\" is called in GGUF");
        Error::unsupported(fault).in_file(store.path())
    })
}

/// The value of `general.architecture` that a model has in GGUF.
///
/// # Errors
///
/// `Unsupported` if no rules say so; `Malformed` if the model does not say what it is.
pub(crate) fn gguf_architecture(store: &Store) -> Result<&'static str> {
    let (_, named) = Reader::new(store)?;
    Ok(family(store, &named.value)?.gguf)
}

/// Appends the keys that a model's config has in GGUF.
///
/// # Errors
///
/// `Unsupported` if no rules say what they are, or a number that they need is missing; `Malformed`
/// as [`ModelConfig::of`] has it.
pub(crate) fn gguf_keys(store: &Store, resolution: &Resolution, out: &mut KeyValues) -> Result<()> {
    let known = Known::of(store, resolution)?;
    let family = family(store, &known.config.architecture.value)?;
    let mut keys = Keys { prefix: family.gguf, out };
    for rule in family.rules.iter().copied().flatten() {
        let (name, value) = match rule {
            Rule::Row(name) => (*name, known.row(name)?),
            Rule::As(name, under) => {
                if let Some(value) = known.row(name)? {
                    keys.set(under, &value);
                }
                continue;
            }
            Rule::Or(name, usual) => (*name, known.row(name)?.or(Some((*usual).into()))),
            Rule::Settled(name) => (*name, known.settled(name)),
            Rule::Fixed(key, value) => {
                keys.set(key, &(*value).into());
                continue;
            }
            Rule::Rotated(usual) => {
                let part =
                    known.config.rope.partial_factor.as_ref().map_or(*usual, |part| part.value);
                // A part is at most the whole, so this fits.
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "see above"
                )]
                let rotated = (f64::from(known.config.head_dim.value) * f64::from(part)) as u32;
                keys.count("rope.dimension_count", rotated);
                continue;
            }
            Rule::By(rule) => {
                rule(&known, &mut keys)?;
                continue;
            }
        };
        if let (Some(value), Some(under)) = (value, key(name).and_then(|key| key.gguf.first())) {
            keys.set(under, &value);
        }
    }
    Ok(())
}

/// Tensors that GGUF has and no other container: factors of rotary frequencies, made of the config.
///
/// # Errors
///
/// As [`gguf_keys`] has them.
pub(crate) fn gguf_tensors(
    store: &Store,
    resolution: &Resolution,
) -> Result<Vec<(&'static str, Vec<f32>)>> {
    let known = Known::of(store, resolution)?;
    let family = family(store, &known.config.architecture.value)?;
    let scaling = &known.config.rope_scaling;
    let kind = scaling.kind.as_ref().map(|kind| &kind.value);
    let rotates =
        |rule: &Rule| matches!(rule, Rule::Rotated(_) | Rule::Row("rope_dimension_count"));
    let mut tensors = Vec::new();
    if let (Some(long), Some(short)) = (&scaling.long_factors, &scaling.short_factors) {
        if long.value.len() != short.value.len() {
            let fault =
                format!("{} factors, but short_factor has {}", long.value.len(), short.value.len());
            return Err(known.reader.wrong(&long.source, fault));
        }
        tensors.push(("rope_factors_long.weight", long.value.clone()));
        tensors.push(("rope_factors_short.weight", short.value.clone()));
    } else if kind == Some(&RopeScalingKind::Llama3)
        && family.rules.iter().copied().flatten().any(rotates)
    {
        // What transformers and the converter take where the config is silent.
        let or = |field: &Option<Field<f32>>, usual| field.as_ref().map_or(usual, |f| f.value);
        let (low, high) = (or(&scaling.low_freq_factor, 1.0), or(&scaling.high_freq_factor, 4.0));
        let trained = scaling.original_max_seq_len.as_ref().map_or(8192, |length| length.value);
        let made = llama3_factors(&known, [or(&scaling.factor, 8.0), low, high], trained);
        tensors.push(("rope_freqs.weight", made));
    } else if family.gguf == "gemma4" {
        let full = of_full_layers(&known, "global_head_dim", "head_dim")?;
        let full = full.ok_or_else(|| known.lacks("global_head_dim"))?;
        tensors.push(("rope_freqs.weight", unrotated_factors(&known, full)));
    }
    Ok(tensors)
}

/// Llama 3's divisor for each frequency: 1 for short waves, the factor for long ones, between them
/// a ramp.
pub(super) fn llama3_factors(known: &Known<'_>, numbers: [f32; 3], trained: u32) -> Vec<f32> {
    let ([factor, low, high], trained) = (numbers.map(f64::from), f64::from(trained));
    let (dim, base) = (known.config.head_dim.value, known.config.rope_theta.value);
    let each = (0..dim).step_by(2).map(|pair| {
        // The converter has the frequencies in f32, and so far from a tie that f64 gives the same.
        let wavelength =
            std::f64::consts::TAU * f64::from(base).powf(f64::from(pair) / f64::from(dim));
        let divisor = if wavelength < trained / high {
            1.0
        } else if wavelength > trained / low {
            factor
        } else {
            let smooth = (trained / wavelength - low) / (high - low);
            1.0 / ((1.0 - smooth) / factor + smooth)
        };
        #[expect(clippy::cast_possible_truncation, reason = "stored as f32")]
        let divisor = divisor as f32;
        divisor
    });
    each.collect()
}

/// Gemma 4 rotates the first part of a head's pairs; a divisor that leaves no turn stands for the
/// others.
fn unrotated_factors(known: &Known<'_>, width: u32) -> Vec<f32> {
    let pairs = width / 2;
    let part = known.config.rope.partial_factor.as_ref().map_or(1.0, |part| part.value);
    // A part is at most the whole, so this fits.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "see above")]
    let rotated = (f64::from(width) * f64::from(part) / 2.0) as u32;
    (0..pairs).map(|pair| if pair < rotated { 1.0 } else { 1e30 }).collect()
}

pub(super) fn block_count(known: &Known<'_>, keys: &mut Keys<'_>) -> Result<()> {
    let next = known.next_layers();
    keys.count("block_count", known.config.n_layers.value.saturating_add(next));
    if next > 0 {
        keys.count("nextn_predict_layers", next);
    }
    Ok(())
}

pub(super) fn rope_scaling(known: &Known<'_>, keys: &mut Keys<'_>) -> Result<()> {
    let scaling = &known.config.rope_scaling;
    let (Some(kind), factor) = (&scaling.kind, &scaling.factor) else { return Ok(()) };
    match (&kind.value, factor) {
        (RopeScalingKind::Linear | RopeScalingKind::Yarn, Some(factor)) => {
            keys.set("rope.scaling.type", &kind.value.reported());
            keys.real("rope.scaling.factor", factor.value);
        }
        (RopeScalingKind::LongRope, _) => keys.set("rope.scaling.type", &kind.value.reported()),
        _ => {}
    }
    if kind.value != RopeScalingKind::Yarn || factor.is_none() {
        return Ok(());
    }
    let trained = scaling.original_max_seq_len.as_ref();
    let trained = trained.ok_or_else(|| known.lacks("original_max_position_embeddings"))?;
    keys.count("rope.scaling.original_context_length", trained.value);
    let numbers = [
        ("yarn_ext_factor", &scaling.ext_factor),
        ("yarn_attn_factor", &scaling.attention_factor),
        ("yarn_beta_fast", &scaling.beta_fast),
        ("yarn_beta_slow", &scaling.beta_slow),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            keys.real(&format!("rope.scaling.{name}"), number.value);
        }
    }
    Ok(())
}

/// Sections are four in GGUF. Qwen 3.5 has its usual ones where the config is silent.
pub(super) fn sections(known: &Known<'_>, keys: &mut Keys<'_>) -> Result<()> {
    let usual = keys.prefix.starts_with("qwen35").then(|| vec![11, 11, 10]);
    let found = known.config.rope.sections.as_ref().map(|sections| sections.value.clone());
    if let Some(mut sections) = found.or(usual) {
        sections.resize(4, 0);
        keys.set("rope.dimension_sections", &sections.reported());
    }
    Ok(())
}

/// GGUF numbers what the table names.
pub(super) fn gating(known: &Known<'_>, keys: &mut Keys<'_>) -> Result<()> {
    let Some(gating) = &known.config.experts.expert_gating else { return Ok(()) };
    let number = gating.value.number().ok_or_else(|| {
        let fault = format!("\"{}\" has no number in GGUF", gating.value.name());
        Error::unsupported(fault).in_file(known.reader.store.path()).in_key(&gating.source)
    })?;
    keys.count("expert_gating_func", number);
    Ok(())
}

/// The converter writes the width of a head where the config does, not where it follows.
pub(super) fn widths_of_heads(known: &Known<'_>, keys: &mut Keys<'_>) -> Result<()> {
    if let Some(width) = known.row("head_dim")? {
        keys.set("attention.key_length", &width);
        keys.set("attention.value_length", &width);
    }
    Ok(())
}

/// The converter leaves the width of a head of Granite and Phi 3 out, which is what follows in all
/// their models.
pub(super) fn uneven_heads(known: &Known<'_>, keys: &mut Keys<'_>) -> Result<()> {
    let config = &known.config;
    match config.dim.value.checked_div(config.n_heads.value) == Some(config.head_dim.value) {
        true => Ok(()),
        false => all_widths_of_heads(known, keys),
    }
}

/// Gemma's width of a head is never what follows from the others.
pub(super) fn all_widths_of_heads(known: &Known<'_>, keys: &mut Keys<'_>) -> Result<()> {
    keys.count("attention.key_length", known.config.head_dim.value);
    keys.count("attention.value_length", known.config.head_dim.value);
    Ok(())
}

/// Which hidden states of an embedding model become its answer, by what sentence-transformers has
/// beside the model.
pub(super) fn pooling(known: &Known<'_>, keys: &mut Keys<'_>) -> Result<()> {
    let store = known.reader.store;
    let Some(modules) = store.read_document("modules.json")? else { return Ok(()) };
    let ends = |module: &&Json| {
        module.get("type").and_then(Json::as_str).is_some_and(|name| name.ends_with("Pooling"))
    };
    let module = modules.as_array().and_then(|list| list.iter().find(ends));
    let Some(path) = module.and_then(|module| module.get("path")?.as_str()) else { return Ok(()) };
    let file = "1_Pooling/config.json";
    let found =
        if path.trim_end_matches('/') == "1_Pooling" { store.read_document(file)? } else { None };
    let Some(config) = found else {
        let fault = "the pooling that modules.json names does not lie in 1_Pooling";
        return Err(Error::unsupported(fault).in_file(store.path()));
    };
    let is = |name: &str| {
        config.get(format!("pooling_mode_{name}")).and_then(Json::as_bool) == Some(true)
    };
    let named = config.get("pooling_mode").and_then(Json::as_str).unwrap_or_default();
    let modes =
        [("mean_tokens", "mean", 1), ("cls_token", "cls", 2), ("lasttoken", "lasttoken", 3)];
    let mode = modes.iter().find(|(flag, ..)| is(flag));
    let mode = mode.or_else(|| modes.iter().find(|(_, name, _)| *name == named));
    let Some((.., number)) = mode else {
        let fault = "a pooling that is none of mean, cls and lasttoken";
        return Err(Error::unsupported(fault).in_file(store.path()).in_key(file));
    };
    keys.count("pooling_type", *number);
    Ok(())
}

/// Ministral 3 scales by the logarithm of the position.
pub(super) fn temperature(known: &Known<'_>, keys: &mut Keys<'_>) -> Result<()> {
    let all = known.config.rope_scaling.mscale_all_dim.as_ref();
    let all = all.ok_or_else(|| known.lacks("rope_parameters.mscale_all_dim"))?;
    keys.real("rope.scaling.yarn_log_multiplier", all.value);
    let path = "rope_parameters.llama_4_scaling_beta";
    keys.real("attention.temperature_scale", known.real(path)?.ok_or_else(|| known.lacks(path))?);
    Ok(())
}

pub(super) fn minicpm_scales(known: &Known<'_>, keys: &mut Keys<'_>) -> Result<()> {
    let need = |path| known.real(path)?.ok_or_else(|| known.lacks(path));
    keys.real("embedding_scale", need("scale_emb")?);
    let layers = f64::from(known.config.n_layers.value).sqrt();
    #[expect(clippy::cast_possible_truncation, reason = "engines use it as f32")]
    let residual = (f64::from(need("scale_depth")?) / layers) as f32;
    keys.real("residual_scale", residual);
    #[expect(clippy::cast_possible_truncation, reason = "engines use it as f32")]
    let logits = (f64::from(known.config.dim.value) / f64::from(need("dim_model_base")?)) as f32;
    keys.real("logit_scale", logits);
    Ok(())
}

pub(super) fn loops(known: &Known<'_>, keys: &mut Keys<'_>) -> Result<()> {
    keys.count("num_loops", known.count("num_loops")?.unwrap_or(1).max(1));
    let skip = known.said("skip_loop_final_norm").and_then(Json::as_bool).unwrap_or(false);
    keys.set("skip_loop_final_norm", &skip.into());
    Ok(())
}

pub(super) fn clipped(known: &Known<'_>, keys: &mut Keys<'_>) -> Result<()> {
    if let Some(bound) = known.real("clip_qkv")? {
        keys.real("attention.clamp_kqv", bound);
    }
    Ok(())
}

pub(super) fn shared_width(known: &Known<'_>, keys: &mut Keys<'_>) -> Result<()> {
    if let Some(width) = known.count("shared_intermediate_size")?.filter(|&width| width > 0) {
        keys.count("expert_shared_feed_forward_length", width);
    }
    Ok(())
}

/// Cohere's configs keep the length of training, and the true one under the tokenizer's name.
pub(super) fn true_context(known: &Known<'_>, keys: &mut Keys<'_>) -> Result<()> {
    if let Some(length) = known.count("model_max_length")? {
        keys.count("context_length", length);
    }
    Ok(())
}

pub(super) fn deepstack(known: &Known<'_>, keys: &mut Keys<'_>) -> Result<()> {
    let layers = known.said("vision_config.deepstack_visual_indexes").and_then(Json::as_array);
    let layers = layers.map_or(0, |layers| u32::try_from(layers.len()).unwrap_or(u32::MAX));
    keys.count("n_deepstack_layers", layers);
    Ok(())
}

/// Linear layers, by number. The layers that predict further tokens attend.
pub(super) fn recurrent(known: &Known<'_>, keys: &mut Keys<'_>) -> Result<()> {
    if let Some(mut layers) = known.layers_of(&LayerKind::Linear)? {
        layers.extend((0..known.next_layers()).map(|_| false));
        keys.flags("attention.recurrent_layers", &layers);
    }
    Ok(())
}

/// OLMo 3 has windows but in each fourth layer, OLMo 2 none.
pub(super) fn olmo_windows(known: &Known<'_>, keys: &mut Keys<'_>) -> Result<()> {
    let Some(window) = known.row("sliding_window")? else { return Ok(()) };
    keys.set("attention.sliding_window", &window);
    let listed = known.layers_of(&LayerKind::Sliding)?;
    let each =
        listed.unwrap_or_else(|| (0..known.config.n_layers.value).map(|n| n % 4 != 3).collect());
    keys.flags("attention.sliding_window_pattern", &each);
    Ok(())
}

/// Phi 3's long context: what the divisors, which are tensors, need beside them.
pub(super) fn longrope(known: &Known<'_>, keys: &mut Keys<'_>) -> Result<()> {
    let scaling = &known.config.rope_scaling;
    let (Some(longest), trained) = (&known.config.max_seq_len, &scaling.original_max_seq_len)
    else {
        return Err(known.lacks("max_position_embeddings"));
    };
    let trained = trained.as_ref().map_or(longest.value, |trained| trained.value);
    keys.count("rope.scaling.original_context_length", trained);
    if scaling.long_factors.is_none() {
        return Ok(());
    }
    let (scale, trained) = (f64::from(longest.value) / f64::from(trained), f64::from(trained));
    let factor = match scaling.kind.as_ref().map(|kind| &kind.value) {
        _ if scale <= 1.0 => 1.0,
        Some(RopeScalingKind::LongRope) => (1.0 + scale.ln() / trained.ln()).sqrt(),
        Some(RopeScalingKind::Yarn) => 0.1 * scale.ln() + 1.0,
        _ => return Err(known.lacks("a method for its long_factor")),
    };
    #[expect(clippy::cast_possible_truncation, reason = "engines use it as f32")]
    keys.real("rope.scaling.attn_factor", factor as f32);
    Ok(())
}

/// DeepSeek's layers before the first with experts: all, where there are none.
pub(super) fn dense_layers(known: &Known<'_>, keys: &mut Keys<'_>) -> Result<()> {
    let all = if known.config.n_experts.value > 0 { 0 } else { known.config.n_layers.value };
    let dense = known.config.experts.n_leading_dense_layers.as_ref().map_or(all, |n| n.value);
    keys.count("leading_dense_block_count", dense);
    // llama.cpp's loader wants a width of experts even so.
    if let Some(width) = known.config.ffn_dim.as_ref().filter(|_| known.config.n_experts.value == 0)
    {
        keys.count("expert_feed_forward_length", width.value);
    }
    if known.config.experts.expert_weights_norm.as_ref().is_some_and(|norm| norm.value) {
        keys.set("expert_weights_norm", &true.into());
    }
    Ok(())
}

/// Latent attention as llama.cpp sees it: one head of keys that all queries share.
pub(super) fn latent(known: &Known<'_>, keys: &mut Keys<'_>) -> Result<()> {
    let need = |name: &str| {
        let value = known.settled(name).and_then(|value| value.as_u64());
        value.and_then(|value| u32::try_from(value).ok()).ok_or_else(|| known.lacks(name))
    };
    let (rank, rotated) = (need("kv_lora_rank")?, need("rope_dimension_count")?);
    keys.count("attention.head_count_kv", 1);
    keys.count("attention.kv_lora_rank", rank);
    keys.count("attention.key_length", rank.saturating_add(rotated));
    keys.count("attention.value_length", rank);
    keys.count("attention.key_length_mla", known.config.head_dim.value);
    keys.count("attention.value_length_mla", need("value_head_dim")?);
    if let Some(all) = &known.config.rope_scaling.mscale_all_dim {
        keys.real("rope.scaling.yarn_log_multiplier", 0.1 * all.value);
    }
    Ok(())
}

/// DeepSeek 3.2's choice of what to attend to.
pub(super) fn indexer(known: &Known<'_>, keys: &mut Keys<'_>) -> Result<()> {
    let rows = [
        ("index_n_heads", "attention.indexer.head_count"),
        ("index_head_dim", "attention.indexer.key_length"),
        ("index_topk", "attention.indexer.top_k"),
    ];
    for (path, key) in rows {
        keys.count(key, known.count(path)?.ok_or_else(|| known.lacks(path))?);
    }
    Ok(())
}

/// Gemma 3n: several residual streams, and activations of which only the largest stay.
pub(super) fn altup(known: &Known<'_>, keys: &mut Keys<'_>) -> Result<()> {
    let rows = [
        ("altup_active_idx", "altup.active_idx"),
        ("altup_num_inputs", "altup.num_inputs"),
        ("hidden_size_per_layer_input", "embedding_length_per_layer_input"),
        ("num_kv_shared_layers", "attention.shared_kv_layers"),
    ];
    for (path, key) in rows {
        keys.count(key, known.count(path)?.ok_or_else(|| known.lacks(path))?);
    }
    let sparse = known.reals("activation_sparsity_pattern")?;
    keys.out.set_array(
        &format!("{}.activation_sparsity_scale", keys.prefix),
        sparse.into_iter().map(deviations),
    );
    let sliding = known.layers_of(&LayerKind::Sliding)?;
    let sliding = sliding.ok_or_else(|| known.lacks("layer_types"))?;
    keys.flags("attention.sliding_window_pattern", &sliding);
    Ok(())
}

/// The part of a normal distribution that lies below so many standard deviations above the mean.
pub(super) fn below(x: f64) -> f64 {
    if x.is_infinite() {
        return f64::from(u8::from(x > 0.0));
    }
    let density = (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
    // The distribution's own series: x + x^3/3 + x^5/(3*5) + ..., times the density.
    let (mut term, mut sum) = (x, x);
    for odd in (3..400).step_by(2) {
        term *= x * x / f64::from(odd);
        sum += term;
    }
    0.5 + density * sum
}

/// How many standard deviations above the mean this part of a normal distribution lies below.
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
    #[expect(clippy::cast_possible_truncation, reason = "engines use it as f32")]
    let found = high as f32;
    found
}

/// A number of Gemma 4's layers without a window: under a name of its own, or in newer configs under
/// that of the first such layer.
fn of_full_layers(known: &Known<'_>, own: &str, name: &str) -> Result<Option<u32>> {
    if let Some(number) = known.count(own)? {
        return Ok(Some(number));
    }
    let sliding = known.layers_of(&LayerKind::Sliding)?.unwrap_or_default();
    let Some(first) = sliding.iter().position(|sliding| !sliding) else { return Ok(None) };
    let padded = known.count(&format!("per_layer_config.{first:02}.{name}"))?;
    Ok(padded.or(known.count(&format!("per_layer_config.{first}.{name}"))?))
}

/// Gemma 4's layers with a window differ from the others in the widths and numbers of their heads.
pub(super) fn gemma4_layers(known: &Known<'_>, keys: &mut Keys<'_>) -> Result<()> {
    let config = &known.config;
    let shared = known.count("num_kv_shared_layers")?;
    let shared = shared.ok_or_else(|| known.lacks("num_kv_shared_layers"))?;
    keys.count("attention.shared_kv_layers", shared);
    let per_layer = known.count("hidden_size_per_layer_input")?.unwrap_or(0);
    keys.count("embedding_length_per_layer_input", per_layer);
    let sliding = known.layers_of(&LayerKind::Sliding)?;
    let sliding = sliding.ok_or_else(|| known.lacks("layer_types"))?;
    keys.flags("attention.sliding_window_pattern", &sliding);
    let full = of_full_layers(known, "global_head_dim", "head_dim")?;
    let full = full.ok_or_else(|| known.lacks("global_head_dim"))?;
    let narrow = known.count("head_dim")?.ok_or_else(|| known.lacks("head_dim"))?;
    for (ending, width) in [("", full), ("_swa", narrow)] {
        keys.count(&format!("attention.key_length{ending}"), width);
        keys.count(&format!("attention.value_length{ending}"), width);
    }
    let experts = known.count("expert_intermediate_size")?;
    if let Some(width) = experts.or(known.count("moe_intermediate_size")?) {
        keys.count("expert_feed_forward_length", width);
    }
    let layers = config.n_layers.value;
    let width = config.ffn_dim.as_ref().map_or(0, |width| width.value);
    if known.said("use_double_wide_mlp").and_then(Json::as_bool) == Some(true) {
        let own = layers.saturating_sub(shared);
        let each = (0..layers).map(|n| if n < own { width } else { width.saturating_mul(2) });
        keys.set("feed_forward_length", &each.collect::<Vec<u32>>().reported());
    }
    let of_full = of_full_layers(known, "num_global_key_value_heads", "num_key_value_heads")?;
    let heads = (of_full, known.count("num_key_value_heads")?);
    if let (Some(of_full), Some(of_sliding)) = heads {
        let each = sliding.iter().map(|&sliding| if sliding { of_sliding } else { of_full });
        keys.set("attention.head_count_kv", &each.collect::<Vec<u32>>().reported());
    }
    keys.count("rope.dimension_count", full);
    let part = known.real("rope_parameters.partial_rotary_factor")?.unwrap_or(1.0);
    // A part is at most the whole, so this fits.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "see above")]
    let rotated = (f64::from(narrow) * f64::from(part)) as u32;
    keys.count("rope.dimension_count_swa", rotated.min(narrow));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::ARCHITECTURES;

    #[test]
    fn parts_of_a_normal_distribution_lie_below_these() {
        assert!(deviations(0.5).abs() < 1e-6);
        // What real Gemma 3n files have: torch's value for 0.95.
        assert_eq!(deviations(0.95), 1.644_853_6);
        assert_eq!(deviations(0.0), f32::NEG_INFINITY);
    }

    #[test]
    fn every_rule_names_a_row() {
        for family in FAMILIES {
            for rule in family.rules.iter().copied().flatten() {
                let (Rule::Row(name) | Rule::As(name, _) | Rule::Or(name, _) | Rule::Settled(name)) =
                    rule
                else {
                    continue;
                };
                let key = key(name).unwrap_or_else(|| panic!("{}: no row {name}", family.gguf));
                assert!(!key.gguf.is_empty(), "{}: {name} has no key in GGUF", family.gguf);
            }
        }
    }

    /// Names of architectures that no rules lead to, each with the reason.
    const WITHOUT: &[(&str, &str)] =
        &[("ministral", "llama.cpp's converter has no class for Ministral of 2024")];

    #[test]
    fn every_architecture_has_a_family() {
        for row in ARCHITECTURES {
            for name in row.hf {
                let found = FAMILIES.iter().any(|family| family.hf.contains(name));
                let without = WITHOUT.iter().any(|(other, _)| other == name);
                assert_ne!(found, without, "{}: {name}", row.name);
            }
            for name in row.gguf {
                assert!(FAMILIES.iter().any(|family| family.gguf == *name), "{}: {name}", row.name);
            }
        }
        for family in FAMILIES {
            let row = ARCHITECTURES.iter().find(|row| row.gguf.contains(&family.gguf));
            let row = row.unwrap_or_else(|| panic!("{} is no architecture", family.gguf));
            for name in family.hf {
                assert!(row.hf.contains(name), "{name} is not of {}", family.gguf);
            }
        }
    }
}
