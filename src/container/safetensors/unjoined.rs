//! Finds arrays that are not numbers by themselves: codes that no scheme joined with their scales, and
//! weights with a factor that is not applied. Their values are refused; their bytes can be copied.

use std::collections::{BTreeMap, HashMap};

use super::comfy::StatedFormats;
use super::stated::{MODEL_SLIM, StatedScheme};
use crate::bytes::Text;
use crate::dtype::{DType, Packing};
use crate::store::{Indexed, ListedArray};

/// Words in the names of arrays from which the values of codes are computed.
#[rustfmt::skip]
const COMPANIONS: &[&str] = &[
    "scale", "scales", "scaler", "qscale", "zero", "zeros", "qzeros", "zp", "absmax", "amax", "scb", "s",
    "codebook", "codebooks", "centroids", "tables", "lut", "suh", "svh", "su", "sv", "meta",
    "idx", "perm", "invperm", "qmap",
];
/// Words in the names of arrays that describe codes.
#[rustfmt::skip]
const DESCRIPTIONS: &[&str] =
    &["shape", "nbits", "axis", "format", "quant", "version", "workspace", "bitsandbytes"];
/// Words in the names of factors for what a module receives or returns.
const ACTIVATIONS: &[&str] = &["input", "output", "act", "activation"];
/// The ends of the names of factors by which a module multiplies its input before the matrix.
const INPUT_FACTORS: &[&str] =
    &["pre_quant_scale", "act_pre_scale", "smooth_scale", "smooth_quant_scale", "smoothing_factor"];
/// Names of factors that belong to no matrix: of caches, attention and logits.
#[rustfmt::skip]
const OTHER_FACTORS: &[&[u8]] = &[
    b"k_scale", b"v_scale", b"q_scale", b"kv_scale", b"prob_scale", b"k_zero_point", b"v_zero_point",
    b"logit_scale", b"layer_scale",
];
/// The ends of the names of integers that models use as such.
const INTEGERS: &[&str] =
    &["_ids", ".mask", "_mask", "position_index", "tid2eid", "batches_tracked", "_map"];

/// The arrays that are not numbers by themselves, with the reason. `faults` says why schemes did not join
/// some of them.
pub(super) fn find(
    indexed: &Indexed,
    stated: Option<&StatedScheme<'_>>,
    faults: &HashMap<u32, String>,
) -> BTreeMap<u32, String> {
    let count = u32::try_from(indexed.len()).unwrap_or(u32::MAX);
    let (mut codes, mut companions) = (Vec::new(), Vec::new());
    for number in (0..count).filter(|number| !indexed.is_grouped(*number)) {
        match indexed.get(number).map(|listed| kind(&listed)) {
            Some(Kind::Codes) => codes.push(number),
            Some(Kind::Companion) => companions.push(number),
            _ => {}
        }
    }
    let modules = Modules::of(indexed, stated, &companions);
    // An array with the name of codes is none of numbers, whatever its dtype.
    codes.extend(faults.keys().copied());
    let codes = codes.into_iter();
    let mut found: BTreeMap<u32, String> = codes
        .filter_map(|number| Some((number, modules.why_codes(number, faults.get(&number))?)))
        .collect();
    for number in companions {
        for (weight, why) in modules.unapplied(number) {
            found.entry(weight).or_insert(why);
        }
    }
    let is_changed = |stated: &&StatedScheme<'_>| {
        stated.get("/transform_config").is_some() || stated.says("/quantization_mode", "online")
    };
    if stated.filter(is_changed).is_some() {
        found.extend((0..count).filter_map(|number| Some((number, modules.transformed(number)?))));
    }
    found
}

/// The kind of an array, by its dtype and name.
enum Kind {
    /// Codes, or a plain matrix of integers or small floats.
    Codes,
    Companion,
    Number,
}

fn kind(listed: &ListedArray<'_>) -> Kind {
    let name = listed.name.as_bytes();
    let ArrayName { module, last, .. } = ArrayName::of(name);
    let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end.as_bytes()));
    if OTHER_FACTORS.contains(&last) {
        return Kind::Number;
    }
    if has_word(last, COMPANIONS) {
        return Kind::Companion;
    }
    let is_integer = ends(INTEGERS) || has_word(last, DESCRIPTIONS);
    let is_scalar = listed.shape.is_empty() || module.is_empty();
    match listed.dtype {
        Ok(dtype) if may_be_code(dtype) && !is_integer && !is_scalar => Kind::Codes,
        _ => Kind::Number,
    }
}

/// Whether a dtype is one of integers or of floats with at most 8 bits.
pub(super) fn may_be_code(dtype: DType) -> bool {
    dtype.descriptor().packing == Packing::Plain
        && (dtype.bits() <= 8 || dtype.is_integer())
        && dtype != DType::BOOL
}

/// Whether one of the words between underscores is in the list.
fn has_word(name: &[u8], words: &[&str]) -> bool {
    let mut parts = name.split(|&byte| byte == b'_');
    parts.any(|part| words.iter().any(|word| part.eq_ignore_ascii_case(word.as_bytes())))
}

/// The parts of an array's name.
#[derive(Clone, Copy)]
struct ArrayName<'n> {
    /// The module that has the array.
    module: &'n [u8],
    /// The name in that module, which may have a dot: `weight_quantizer.scale`, `weight.absmax`.
    inner: &'n [u8],
    /// The name after the last dot.
    last: &'n [u8],
}

impl<'n> ArrayName<'n> {
    fn of(name: &'n [u8]) -> Self {
        let (module, last) = split(name);
        let (outer, quantizer) = split(module);
        let is_deeper = quantizer.starts_with(b"weight") || has_word(quantizer, &["quantizer"]);
        match is_deeper && !outer.is_empty() {
            true => Self { module: outer, inner: split_at(name, outer.len()).1, last },
            false => Self { module, inner: last, last },
        }
    }

    fn has_word(self, words: &[&str]) -> bool {
        self.inner.split(|&byte| byte == b'.').any(|part| has_word(part, words))
    }
}

/// A name before and after its last dot.
fn split(name: &[u8]) -> (&[u8], &[u8]) {
    match name.iter().rposition(|&byte| byte == b'.') {
        Some(dot) => split_at(name, dot),
        None => (&[], name),
    }
}

/// The parts of a name before and after the dot at this place.
fn split_at(name: &[u8], dot: usize) -> (&[u8], &[u8]) {
    (name.get(..dot).unwrap_or_default(), name.get(dot + 1..).unwrap_or_default())
}

/// The companions that no tensor has, by their modules.
struct Modules<'i> {
    indexed: &'i Indexed,
    stated: Option<&'i StatedScheme<'i>>,
    comfy: StatedFormats,
    companions: HashMap<&'i [u8], Vec<u32>>,
}

impl<'i> Modules<'i> {
    fn of(indexed: &'i Indexed, stated: Option<&'i StatedScheme<'i>>, companions: &[u32]) -> Self {
        let mut modules: HashMap<&[u8], Vec<u32>> = HashMap::new();
        for &number in companions {
            let Some(listed) = indexed.get(number) else { continue };
            let module = ArrayName::of(listed.name.as_bytes()).module;
            modules.entry(module).or_default().push(number);
        }
        Self { indexed, stated, comfy: StatedFormats::of(indexed), companions: modules }
    }

    /// The reason why integers or small floats are not numbers by themselves; `None` if they are.
    fn why_codes(&self, number: u32, fault: Option<&String>) -> Option<String> {
        let listed = self.indexed.get(number)?;
        let name = listed.name.as_bytes();
        let ArrayName { module, last, .. } = ArrayName::of(name);
        let companions = self.companions.get(module).into_iter();
        // `experts.gate_up_proj.scale` belongs to an array, not to a module.
        let companions = companions.chain(self.companions.get(name)).flatten().copied();
        let arrays: Vec<u32> = std::iter::once(number).chain(companions).collect();
        let weight = self.indexed.find(&[module, b".weight"].concat());
        let is_beside_weight = last != b"weight"
            && weight.and_then(|weight| self.indexed.dtype(weight)).is_some_and(|d| d.bits() >= 16);
        // Masks are stored for one sequence and one head.
        let is_other = is_beside_weight || matches!(listed.shape, [1, 1, _, _]);
        let is_stated = self.stated.is_some_and(|stated| !is_other && !stated.exempts(module));
        if arrays.len() == 1 && !is_stated && fault.is_none() {
            // Small floats may be a plain cast; a matrix of integers is no weight of a model.
            let is_matrix = last == b"weight" && listed.shape.len() > 1;
            let is_integer = listed.dtype.is_ok_and(DType::is_integer);
            let documents = self.indexed.documents();
            let is_model = documents.iter().any(|found| found.json.get("model_type").is_some());
            let arrays = self.list(&arrays);
            return (is_matrix && is_integer && is_model)
                .then(|| format!("integers ({arrays}) without a scale that says what they mean"));
        }
        let arrays = self.list(&arrays);
        let fault = fault.map_or(String::new(), |fault| format!(": {fault}"));
        Some(match self.stated {
            Some(stated) => {
                let scheme = stated.name();
                format!("codes of {scheme} in a packing that is not supported ({arrays}){fault}")
            }
            None => match self.of_comfy(module).or_else(|| self.of_document()) {
                Some(scheme) => {
                    format!("codes of {scheme}, which is not supported ({arrays}){fault}")
                }
                None => {
                    format!("codes ({arrays}) whose scheme is not stated, as config.json would")
                }
            },
        })
    }

    /// The scheme that a document states for all modules in other words than `quantization_config`.
    fn of_document(&self) -> Option<String> {
        let stated = |document: &str, key: &str| {
            let mut documents = self.indexed.documents().iter();
            documents.find(|found| found.name == document)?.json.get(key)
        };
        if stated("config.json", "quip_params").is_some() {
            return Some("QuIP# (quip_params in config.json)".to_owned());
        }
        let kind = stated(MODEL_SLIM, "model_quant_type")?.as_str();
        let kind = Text::new(kind.unwrap_or("?").as_bytes()).brief();
        Some(format!("ModelSlim's scheme {kind} ({MODEL_SLIM})"))
    }

    /// The format that ComfyUI states for the module.
    fn of_comfy(&self, module: &[u8]) -> Option<String> {
        let format = self.comfy.of_module(self.indexed, module)?;
        Some(format!("ComfyUI's format {}", Text::new(format.as_bytes()).brief()))
    }

    /// The weights that a companion belongs to although it is no part of them, and what that means.
    fn unapplied(&self, number: u32) -> Vec<(u32, String)> {
        let Some(listed) = self.indexed.get(number) else { return Vec::new() };
        let name = ArrayName::of(listed.name.as_bytes());
        let is_awq = self.stated.is_some_and(|stated| stated.says("/quant_method", "awq"));
        if is_awq && name.last == b"scales" && split(name.module).1 == b"act" {
            let why = "scales of AutoAWQ, by which an activation is divided before the next matrix, which is not \
                       supported";
            return vec![(number, why.to_owned())];
        }
        let multiplies_input = INPUT_FACTORS.iter().any(|end| name.last.ends_with(end.as_bytes()));
        if name.has_word(ACTIVATIONS) && !multiplies_input {
            return Vec::new();
        }
        // `gate_up_proj_scale` belongs to `gate_up_proj`; other names belong to the module's weight.
        let ends = name.inner.iter().enumerate().filter(|(_, byte)| **byte == b'_');
        let stems = ends.filter_map(|(end, _)| name.inner.get(..end));
        let stems = std::iter::once(&b"weight"[..]).chain(stems.filter(|stem| !stem.is_empty()));
        let weights =
            stems.filter_map(|stem| self.indexed.find(&[name.module, b".", stem].concat()));
        // Beside a plain weight, a scale may have another meaning.
        let concerned = weights.filter(|&weight| {
            self.indexed.is_head(weight) || multiplies_input && !self.indexed.is_grouped(weight)
        });
        let factor = self.list(&[number]);
        let scheme = self.stated.map_or(String::new(), |stated| format!(" of {}", stated.name()));
        let why = match multiplies_input {
            true => format!(
                "its module multiplies the input by {factor}{scheme}, which is not supported"
            ),
            false => format!("{factor}{scheme} is no known part of it"),
        };
        concerned.map(|weight| (weight, why.clone())).collect()
    }

    /// The reason why a matrix is not the one that its module multiplies its input by; `None` if it
    /// is.
    fn transformed(&self, number: u32) -> Option<String> {
        let listed = self.indexed.get(number)?;
        let ArrayName { module, last, .. } = ArrayName::of(listed.name.as_bytes());
        let is_matrix = listed.shape.len() > 1
            && (self.indexed.is_head(number)
                || !self.indexed.is_grouped(number) && last == b"weight");
        let stated = self.stated.filter(|_| is_matrix)?;
        let scheme = stated.name();
        let words = [&b"embed"[..], b"lm_head", b"norm"];
        let is_other =
            words.iter().any(|word| module.windows(word.len()).any(|part| part == *word));
        if stated.says("/quantization_mode", "online") && !is_other && !stated.exempts(module) {
            return Some(format!(
                "its module rounds it as the model runs ({scheme}), which is not supported"
            ));
        }
        let transform = stated.transform(module)?;
        Some(format!(
            "its module transforms what it receives or returns (transform_config, {transform}) in \
             {scheme}, which is not supported"
        ))
    }

    /// Arrays by the names that they have in their module, with their dtypes.
    fn list(&self, numbers: &[u32]) -> String {
        const SHOWN: usize = 5;
        let listed = |number: &u32| {
            let listed = self.indexed.get(*number)?;
            let name = Text::new(ArrayName::of(listed.name.as_bytes()).inner);
            Some(format!("{name} {}", listed.dtype.map_or("?", DType::name)))
        };
        let mut shown: Vec<String> = numbers.iter().take(SHOWN).filter_map(listed).collect();
        if numbers.len() > SHOWN {
            shown.push("...".to_owned());
        }
        shown.join(", ")
    }
}
