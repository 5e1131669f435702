//! Checks of config values. Each row of the key table names the check for its value.
//!
//! A check returns `None` for a value that means "not set" or "disabled".

use std::borrow::Cow;

use super::field::ConfigValue;
use super::values::{Gating, LayerKind, LayerPattern, NormKind, PerLayer, RopeScalingKind};
use crate::json::Json;
use crate::metadata::Value;
use crate::rounding::f32_of;

/// The largest length of a list: more than the layers of any model and the pairs of any head.
const LONGEST: u64 = 1 << 16;

pub(crate) type Checked<T> = Result<Option<T>, Cow<'static, str>>;
pub(crate) type Check<T> = fn(ConfigValue<'_>) -> Checked<T>;

fn integer(found: ConfigValue<'_>) -> Option<i128> {
    match found {
        ConfigValue::Metadata(value) => value.to_i128(),
        ConfigValue::Json(json) => {
            json.as_u64().map(i128::from).or_else(|| json.as_i64().map(i128::from))
        }
    }
}

fn natural(found: ConfigValue<'_>) -> Result<u32, Cow<'static, str>> {
    let number = integer(found).ok_or_else(|| format!("{found}, but an integer is needed"))?;
    u32::try_from(number)
        .map_err(|_| format!("{number}, but an integer from 0 to 4294967295 is needed").into())
}

fn number(found: ConfigValue<'_>) -> Result<f32, Cow<'static, str>> {
    let number = match found {
        ConfigValue::Metadata(value) => value.to_f64(),
        ConfigValue::Json(json) => float(json),
    };
    let number = number.ok_or_else(|| format!("{found}, but a number is needed"))?;
    let narrow = f32_of(number);
    // A value below the range of f32 would become zero, which is not allowed.
    let lost = narrow == 0.0 && number != 0.0;
    if !narrow.is_finite() || narrow < 0.0 || lost {
        return Err(format!("{number:?}, but a finite, non-negative f32 is needed").into());
    }
    Ok(narrow)
}

/// A JSON number, or the form for one that JSON cannot express: `{"__float__": "Infinity"}`.
fn float(json: &Json) -> Option<f64> {
    json.as_f64().or_else(|| match json.get("__float__")?.as_str()? {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    })
}

/// Checks each element of a list of any length. `None` if the value is not a list.
fn list<T>(found: ConfigValue<'_>, check: Check<T>) -> Option<Checked<Vec<T>>> {
    let gather = |len: u64, values: &mut dyn Iterator<Item = ConfigValue<'_>>| {
        if len > LONGEST {
            return Err(format!("{len} elements, but a list has at most {LONGEST}").into());
        }
        let mut all = Vec::new();
        for value in values {
            all.extend(check(value)?);
        }
        Ok(Some(all))
    };
    match found {
        ConfigValue::Metadata(Value::Array(array)) => {
            Some(gather(array.len(), &mut array.values().map(ConfigValue::Metadata)))
        }
        ConfigValue::Json(Json::Array(array)) => {
            Some(gather(array.len() as u64, &mut array.iter().map(ConfigValue::Json)))
        }
        _ => None,
    }
}

fn needed_list<T>(found: ConfigValue<'_>, check: Check<T>) -> Checked<Vec<T>> {
    list(found, check).unwrap_or_else(|| Err(format!("{found}, but a list is needed").into()))
}

/// A length, which must not be zero.
pub(crate) fn size(found: ConfigValue<'_>) -> Checked<u32> {
    match natural(found)? {
        0 => Err("0, but a value above 0 is needed".into()),
        number => Ok(Some(number)),
    }
}

/// A length; 0 means that there is none.
pub(crate) fn room(found: ConfigValue<'_>) -> Checked<u32> {
    Ok(Some(natural(found)?).filter(|&number| number > 0))
}

/// A number of tokens, or -1 where the tokenizer decides, as in Meta's files.
pub(crate) fn tokens(found: ConfigValue<'_>) -> Checked<u32> {
    match integer(found) {
        Some(-1) => Ok(None),
        _ => room(found),
    }
}

/// A length, or "auto" for one that is derived.
pub(crate) fn automatic(found: ConfigValue<'_>) -> Checked<u32> {
    match word(found) {
        Ok(Some(word)) if word == "auto" => Ok(None),
        _ => room(found),
    }
}

pub(crate) fn count(found: ConfigValue<'_>) -> Checked<u32> {
    natural(found).map(Some)
}

/// A number of layers. It is limited because lists of that length are allocated.
pub(crate) fn layers(found: ConfigValue<'_>) -> Checked<u32> {
    match natural(found)? {
        0 => Err("0, but a value above 0 is needed".into()),
        number if u64::from(number) > LONGEST => {
            Err(format!("{number} layers, but at most {LONGEST} are allowed").into())
        }
        number => Ok(Some(number)),
    }
}

pub(crate) fn counts(found: ConfigValue<'_>) -> Checked<Vec<u32>> {
    needed_list(found, count)
}

/// Query heads for each key head of each layer, of objects that describe its parts; 0 without attention.
pub(crate) fn groups(found: ConfigValue<'_>) -> Checked<Vec<u32>> {
    let ConfigValue::Json(Json::Array(blocks)) = found else { return Ok(None) };
    // A key with this name may mean something else in another family.
    if blocks.iter().any(|block| block.get("attention").is_none()) {
        return Ok(None);
    }
    needed_list(found, |found| {
        let ConfigValue::Json(json) = found else { return Ok(None) };
        let group = json.get("attention").and_then(|part| part.get("n_heads_in_group"));
        match group.filter(|group| !group.is_null()) {
            Some(group) => size(ConfigValue::Json(group)),
            None => Ok(Some(0)),
        }
    })
}

/// One length for all layers, or one for each layer.
pub(crate) fn lengths(found: ConfigValue<'_>) -> Checked<PerLayer> {
    let lengths = match list(found, count) {
        Some(each) => each?.map(PerLayer::Each),
        None => Some(PerLayer::Same(natural(found)?)),
    };
    Ok(lengths.filter(|lengths| lengths.largest() > 0))
}

/// One number of heads for all layers, or one for each. Single layers may have 0 heads, and all layers
/// of a model without attention.
pub(crate) fn heads(found: ConfigValue<'_>) -> Checked<PerLayer> {
    Ok(Some(lengths(found)?.unwrap_or(PerLayer::Same(0))))
}

/// A count; the largest one where each layer has its own.
pub(crate) fn largest(found: ConfigValue<'_>) -> Checked<u32> {
    match list(found, count) {
        Some(each) => Ok(each?.and_then(|each| each.into_iter().max())),
        None => count(found),
    }
}

/// A length, or the largest one where each layer has its own; 0 means that there is none.
pub(crate) fn widest(found: ConfigValue<'_>) -> Checked<u32> {
    Ok(largest(found)?.filter(|&number| number > 0))
}

/// A number of first layers without experts, or a kind for each layer. `None` if other layers have none
/// either.
pub(crate) fn leading(found: ConfigValue<'_>) -> Checked<u32> {
    let Some(kinds) = list(found, word) else { return count(found) };
    let kinds = kinds?.unwrap_or_default();
    let first = kinds.iter().take_while(|kind| *kind == "dense").count();
    let later = kinds.iter().skip(first);
    Ok(u32::try_from(first).ok().filter(|_| later.clone().all(|kind| kind != "dense")))
}

pub(crate) fn real(found: ConfigValue<'_>) -> Checked<f32> {
    number(found).map(Some)
}

pub(crate) fn positive(found: ConfigValue<'_>) -> Checked<f32> {
    match number(found)? {
        0.0 => Err("0, but a value above 0 is needed".into()),
        number => Ok(Some(number)),
    }
}

/// A base of rotary embeddings, or the largest of a list with one for each layer.
pub(crate) fn base(found: ConfigValue<'_>) -> Checked<f32> {
    match list(found, positive) {
        Some(each) => Ok(each?.and_then(|each| each.into_iter().max_by(f32::total_cmp))),
        None => positive(found),
    }
}

pub(crate) fn positives(found: ConfigValue<'_>) -> Checked<Vec<f32>> {
    needed_list(found, positive)
}

/// An upper bound; 0 means that there is none.
pub(crate) fn cap(found: ConfigValue<'_>) -> Checked<f32> {
    Ok(Some(number(found)?).filter(|&bound| bound > 0.0))
}

pub(crate) fn fraction(found: ConfigValue<'_>) -> Checked<f32> {
    match positive(found)? {
        Some(part) if part > 1.0 => {
            Err(format!("{part}, but a fraction of at most 1 is needed").into())
        }
        part => Ok(part),
    }
}

/// True or false. 1 and 0 are accepted too: lists in GGUF and JSON use them.
pub(crate) fn flag(found: ConfigValue<'_>) -> Checked<bool> {
    let flag = match found {
        ConfigValue::Metadata(value) => value.to_bool(),
        ConfigValue::Json(json) => json.as_bool(),
    };
    match (flag, integer(found)) {
        (Some(flag), _) => Ok(Some(flag)),
        (None, Some(number @ (0 | 1))) => Ok(Some(number == 1)),
        _ => Err(format!("{found}, but true or false is needed").into()),
    }
}

pub(crate) fn flags(found: ConfigValue<'_>) -> Checked<Vec<bool>> {
    // An empty list means that all layers are of the same kind.
    Ok(needed_list(found, flag)?.filter(|flags| !flags.is_empty()))
}

pub(crate) fn word(found: ConfigValue<'_>) -> Checked<String> {
    let word = match found {
        ConfigValue::Metadata(value) => value.to_text().and_then(|text| text.to_str()),
        ConfigValue::Json(json) => json.as_str(),
    };
    word.map(|word| Some(word.to_owned()))
        .ok_or_else(|| format!("{found}, but a string is needed").into())
}

pub(crate) fn scaling(found: ConfigValue<'_>) -> Checked<RopeScalingKind> {
    Ok(word(found)?.map(|name| RopeScalingKind::named(&name)))
}

pub(crate) fn gating(found: ConfigValue<'_>) -> Checked<Gating> {
    match integer(found) {
        // GGUF's number for "no gating function".
        Some(0) => Ok(None),
        Some(number) => Ok(Some(Gating::named(&number.to_string()))),
        None => Ok(word(found)?.map(|name| Gating::named(&name))),
    }
}

pub(crate) fn norm(found: ConfigValue<'_>) -> Checked<NormKind> {
    let name = word(found)?.unwrap_or_default();
    let named = [NormKind::Rms, NormKind::Layer].into_iter().find(|kind| kind.name() == name);
    named.map(Some).ok_or_else(|| format!("{found}, but \"rms\" or \"layer\" is needed").into())
}

pub(crate) fn kind(found: ConfigValue<'_>) -> Checked<LayerKind> {
    Ok(word(found)?.map(|name| LayerKind::named(&name)))
}

/// A list of words, or Nemotron H's string of a letter for each layer.
pub(crate) fn kinds(found: ConfigValue<'_>) -> Checked<Vec<LayerKind>> {
    if let Ok(Some(letters)) = word(found) {
        return lettered(&letters).map(Some);
    }
    Ok(needed_list(found, kind)?.filter(|kinds| !kinds.is_empty()))
}

fn lettered(letters: &str) -> Result<Vec<LayerKind>, Cow<'static, str>> {
    if letters.len() as u64 > LONGEST || letters.is_empty() {
        return Err(format!("{} letters, but 1 to {LONGEST} are allowed", letters.len()).into());
    }
    let kind = |letter: char| match letter {
        'M' => Ok(LayerKind::Linear),
        '*' => Ok(LayerKind::Full),
        'E' => Ok(LayerKind::named("moe")),
        '-' => Ok(LayerKind::named("mlp")),
        other => {
            let other = other.escape_default();
            Err(format!("the letter '{other}', but only M, *, E and - are allowed").into())
        }
    };
    letters.chars().map(kind).collect()
}

/// A period, a list of flags, or EXAONE's string of `L` (local) and `G` (global) layers.
pub(crate) fn pattern(found: ConfigValue<'_>) -> Checked<LayerPattern> {
    if let Some(each) = list(found, flag) {
        return Ok(each?.filter(|each| !each.is_empty()).map(LayerPattern::Each));
    }
    let Ok(Some(letters)) = word(found) else {
        return Ok(Some(LayerPattern::Period(natural(found)?)));
    };
    let local = |letter: char| match letter {
        'L' => Ok(true),
        'G' => Ok(false),
        other => {
            Err(format!("the letter '{}', but only L and G are allowed", other.escape_default()))
        }
    };
    if letters.len() as u64 > LONGEST || letters.is_empty() {
        return Err(format!("{} letters, but 1 to {LONGEST} are allowed", letters.len()).into());
    }
    Ok(Some(LayerPattern::Each(letters.chars().map(local).collect::<Result<_, _>>()?)))
}
