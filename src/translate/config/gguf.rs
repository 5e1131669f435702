//! The config as GGUF keys: applies the table of config fields in reverse, by the family's rules.

use crate::arch::config::key;
use crate::arch::family;
use crate::arch::rotary::llama3_factors;
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::variant::{KeyRule, KeyType, Variant};
use crate::arch::{Resolution, RopeScalingKind, SourceKind, config_reader, source_model};
use crate::engines::mlx_lm;
use crate::error::{Error, Result};
use crate::json::Json;
use crate::metadata::KeyValues;
use crate::store::Store;

/// The variant that represents a model of another container in GGUF.
///
/// # Errors
///
/// `Unsupported` if no variant matches; `Malformed` if the model does not state its architecture.
pub(crate) fn gguf_variant(store: &Store) -> Result<&'static Variant> {
    let named = config_reader(store)?.architecture;
    let model_type = named.value.as_str();
    let config = store.document("config.json");
    let class = config.and_then(|config| config.get("architectures")?.as_array()?.first());
    let class = class.and_then(Json::as_str);
    let rows = || {
        let is_of =
            |variant: &&Variant| !variant.gguf.is_empty() && variant.hf.contains(&model_type);
        family::variants().filter(is_of)
    };
    let is_own = |variant: &&Variant| {
        let fits = !variant.when.is_empty() && config.is_some_and(|config| variant.fits(config));
        fits || (variant.class.is_some() && variant.class == class)
    };
    let is_usual = |variant: &&Variant| variant.class.is_none() && variant.when.is_empty();
    rows().find(is_own).or_else(|| rows().find(is_usual)).ok_or_else(|| {
        let mut known = family::variants().filter(|variant| variant.hf.contains(&model_type));
        let fault = match known.find_map(|variant| variant.refused) {
            Some(reason) => format!("\"{model_type}\" has no GGUF: {reason}"),
            None => format!("no GGUF architecture is known for the model_type \"{model_type}\""),
        };
        let kept = match mlx_lm::class(model_type).is_some() {
            true => "safetensors and MLX keep",
            false => "safetensors keeps",
        };
        let advice = format!("{kept} its names; a file of families may describe its GGUF");
        Error::unsupported(fault).in_file(store.path()).advise(advice)
    })
}

/// Appends the GGUF keys of a model's config.
///
/// # Errors
///
/// `Unsupported` if there are no rules for the family, or a required number is missing; `Malformed`
/// as for [`Model::config`](crate::Model::config).
pub(crate) fn gguf_keys(store: &Store, resolution: &Resolution, out: &mut KeyValues) -> Result<()> {
    let model = source_model(store, resolution)?;
    let variant = gguf_variant(store)?;
    let mut keys = KeyWriter::new(variant.gguf, out);
    for rule in variant.keys.iter().copied().flatten() {
        let (name, value) = match rule {
            KeyRule::Row(name) => (*name, model.row(name)?),
            KeyRule::As(name, under) => {
                if let Some(value) = model.row(name)? {
                    keys.set(under, &value);
                }
                continue;
            }
            KeyRule::Or(name, usual) => (*name, model.row(name)?.or(Some((*usual).into()))),
            KeyRule::Derived(name) => (*name, model.derived(name)),
            KeyRule::Fixed(key, value) => {
                keys.set(key, &(*value).into());
                continue;
            }
            KeyRule::Rotated(usual) => {
                let rope = &model.config.rope;
                let part = rope.partial_factor.as_ref().map_or(*usual, |part| part.value);
                // The fraction is at most 1, so the product fits.
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "see above"
                )]
                let rotated = (f64::from(model.config.head_dim.value) * f64::from(part)) as u32;
                let count = rope.dimension_count.as_ref();
                let stated = count.filter(|count| count.source.kind() != SourceKind::Rule);
                keys.count("rope.dimension_count", stated.map_or(rotated, |count| count.value));
                continue;
            }
            KeyRule::FileType => {
                keys.file_type();
                continue;
            }
            KeyRule::Only(key, values) => {
                only(&model, key, values)?;
                continue;
            }
            KeyRule::Stated(kind, key, path) => {
                stated(&model, *kind, key, path, &mut keys)?;
                continue;
            }
            KeyRule::By(rule) => {
                rule(&model, &mut keys)?;
                continue;
            }
        };
        if let (Some(value), Some(under)) = (value, key(name).and_then(|key| key.gguf.first())) {
            keys.set(under, &value);
        }
    }
    // The loader reads these for every architecture, and takes the opposite of the first if it is not there.
    if model.derived("causal") == Some(Json::Bool(false)) {
        keys.set("attention.causal", &Json::Bool(false));
    }
    if let Some(pooling) = model.derived("pooling_type") {
        keys.set("pooling_type", &pooling);
    }
    for tensor in resolution.architecture.map_or(&[][..], |row| row.keyed) {
        let values = model.keyed(tensor)?;
        if !values.is_empty() {
            out.set_array(tensor.key, values);
        }
    }
    Ok(())
}

/// Writes a value of `config.json`, if it is stated.
fn stated(
    model: &SourceModel<'_>,
    kind: KeyType,
    key: &str,
    path: &str,
    keys: &mut KeyWriter<'_>,
) -> Result<()> {
    let value = match kind {
        KeyType::Count => model.count(path)?.map(Json::from),
        KeyType::Flag => model.config_value(path).and_then(Json::as_bool).map(Json::from),
        KeyType::Real => {
            model.real(path)?.into_iter().for_each(|real| keys.real(key, real));
            None
        }
    };
    value.into_iter().for_each(|value| keys.set(key, &value));
    Ok(())
}

/// Refuses a value of `config.json` that is none of these.
fn only(model: &SourceModel<'_>, key: &str, values: &[&str]) -> Result<()> {
    let Some(stated) = model.config_value(key) else { return Ok(()) };
    let spelled = stated.to_string();
    match values.contains(&spelled.trim_matches('"')) {
        true => Ok(()),
        false => Err(model.inexpressible_in_gguf(&format!("the {key} {spelled}"))),
    }
}

/// Tensors that exist in GGUF only: divisors of rotary frequencies, derived from the config.
///
/// # Errors
///
/// Same as [`gguf_keys`].
pub(crate) fn gguf_tensors(
    store: &Store,
    resolution: &Resolution,
) -> Result<Vec<(&'static str, Vec<f32>)>> {
    let model = source_model(store, resolution)?;
    let variant = gguf_variant(store)?;
    let scaling = &model.config.rope_scaling;
    let kind = scaling.kind.as_ref().map(|kind| &kind.value);
    let lists = [("long_factor", &scaling.long_factors), ("short_factor", &scaling.short_factors)];
    let lacking = lists.iter().filter(|(_, list)| list.is_none()).map(|(key, _)| *key);
    let lacking: Vec<&str> = lacking.collect();
    if let Some(stated) = &scaling.kind
        && stated.value == RopeScalingKind::LongRope
        && !lacking.is_empty()
    {
        let fault = format!(
            "longrope, which needs the lists of factors long_factor and short_factor, but there is no {}",
            lacking.join(" and no ")
        );
        return Err(model.invalid(&stated.source, fault));
    }
    let rotates =
        |rule: &KeyRule| matches!(rule, KeyRule::Rotated(_) | KeyRule::Row("rope_dimension_count"));
    let mut tensors = Vec::new();
    if let (Some(long), Some(short)) = (&scaling.long_factors, &scaling.short_factors) {
        if long.value.len() != short.value.len() {
            let fault = format!(
                "{} elements, but short_factor has {}",
                long.value.len(),
                short.value.len()
            );
            return Err(model.invalid(&long.source, fault));
        }
        tensors.push(("rope_factors_long.weight", long.value.clone()));
        tensors.push(("rope_factors_short.weight", short.value.clone()));
    } else if kind == Some(&RopeScalingKind::Llama3)
        && (variant.llama3_factors || variant.keys.iter().copied().flatten().any(rotates))
    {
        // The converter's default, whatever the length of the model.
        let trained = scaling.original_max_seq_len.as_ref().map_or(8192, |length| length.value);
        let factors = llama3_factors(&model.config, scaling.llama3(), trained);
        tensors.push(("rope_freqs.weight", factors));
    } else if let Some(rope_freqs) = variant.rope_freqs {
        tensors.push(("rope_freqs.weight", rope_freqs(&model)?));
    }
    Ok(tensors)
}
