//! The documents in which other programs than transformers state GPTQ and AWQ, next to `config.json`.
//!
//! transformers 5.24 reads `quantization_config` of `config.json` alone. vLLM and SGLang read these documents if
//! `config.json` has no such key, GPTQModel reads them first (sources of 2026).

use std::collections::BTreeSet;

use super::stated::{Description, StatedScheme};
use crate::dtype::DType;
use crate::json::{Json, Map};
use crate::store::tensor::StoredTensor;
use crate::store::{Part, Store};

/// The documents.
const DOCUMENTS: [&str; 2] = ["quantize_config.json", "quant_config.json"];

/// Keys of AWQ's document that `quantization_config` has under other names.
const RENAMED: [(&str, &str); 2] = [("w_bit", "bits"), ("q_group_size", "group_size")];

/// The methods of decoded dtypes that transformers reads, by the start of their names.
const METHODS: [(&str, &str); 2] = [("GPTQ", "gptq"), ("AWQ", "awq")];

/// The keys that decide the layout of codes, with the layout of a document that has none.
const LAYOUTS: [(&str, &str); 2] = [("checkpoint_format", "gptq"), ("version", "gemm")];

/// The pointers of keys that change what programs compute from the same arrays.
const DECIDING: [&str; 5] = ["/checkpoint_format", "/version", "/desc_act", "/sym", "/zero_point"];

/// The key as `quantization_config` has it.
fn usual(key: &str) -> &str {
    RENAMED.iter().find(|(own, _)| *own == key).map_or(key, |(_, usual)| usual)
}

/// The description that a copy has in `config.json`, which differs from the one that is read.
#[derive(Debug)]
pub(crate) struct CorrectedScheme {
    /// The pointer to the object in `config.json` that has the description in it, and the key of the description.
    pub(crate) path: (&'static str, &'static str),
    pub(crate) config: Map<String, Json>,
    /// The reasons.
    pub(crate) notes: Vec<String>,
}

/// The description as `config.json` should have it, where it does not: with the scheme that only another document
/// states, with a layout that it does not name, and with the numbers that the codes have.
pub(crate) fn corrected_scheme(store: &Store) -> Option<CorrectedScheme> {
    let stated = StatedScheme::of(store.documents())?;
    store.document("config.json")?;
    let (method, found) = measured(store)?;
    let first = stated.descriptions().first()?;
    let is_beside = DOCUMENTS.contains(&first.document);
    if !is_beside && first.document != "config.json" {
        return None;
    }
    let keys = first.json.as_object()?;
    let (mut config, mut notes) = (Map::new(), Vec::new());
    if is_beside {
        config.insert("quant_method".to_owned(), method.into());
        keys.iter().for_each(|(key, value)| {
            config.insert(usual(key).to_owned(), value.clone());
        });
        let document = first.document;
        notes.push(format!(
            "quantization_config is that of {document}, which transformers does not read"
        ));
    } else {
        config = keys.clone();
        for (document, key, value) in layouts_beside(&stated) {
            config.insert(key.to_owned(), value.clone());
            notes.push(format!(
                "quantization_config has {key} {value} of {document}, which transformers does not read"
            ));
        }
    }
    for (key, value) in found.corrections(&config) {
        notes.push(format!("{key} of the quantization is {value}, which the codes have"));
        config.insert(key, value);
    }
    let path = if is_beside { ("", "quantization_config") } else { first.path };
    (!notes.is_empty()).then_some(CorrectedScheme { path, config, notes })
}

/// The document that alone states the scheme of GPTQ or AWQ tensors, so that transformers would initialize them at random.
pub(crate) fn scheme_beside(store: &Store) -> Option<String> {
    let stated = StatedScheme::of(store.documents())?;
    let document = stated.descriptions().first()?.document;
    (DOCUMENTS.contains(&document) && measured(store).is_some()).then(|| document.to_owned())
}

/// The text of a document with the numbers that the codes have, if it states others.
pub(crate) fn corrected_document(store: &Store, name: &str) -> Option<String> {
    let mut keys = store.document(name)?.as_object().filter(|_| DOCUMENTS.contains(&name))?.clone();
    let corrections = measured(store)?.1.corrections(&keys);
    if corrections.is_empty() {
        return None;
    }
    keys.extend(corrections);
    Some(format!("{:#}", Json::Object(keys)))
}

/// The layouts that only a document next to `config.json` names.
fn layouts_beside<'d>(stated: &StatedScheme<'d>) -> Vec<(&'d str, &'static str, &'d Json)> {
    let Some((first, others)) = stated.descriptions().split_first() else { return Vec::new() };
    let mut found = Vec::new();
    for (key, usual) in LAYOUTS {
        let pointer = format!("/{key}");
        let is_other =
            |value: &Json| value.as_str().is_some_and(|it| !it.eq_ignore_ascii_case(usual));
        let of = |it: &Description<'d>| Some((it.document, key, it.get(&pointer)?));
        let other = others.iter().filter(|it| DOCUMENTS.contains(&it.document)).find_map(of);
        found.extend(other.filter(|(.., value)| first.get(&pointer).is_none() && is_other(value)));
    }
    found
}

/// What programs do not find in `config.json`, or find otherwise than in another document. The numbers that the codes
/// contradict are faults.
pub(crate) fn contradictions(store: &Store) -> (Vec<String>, Vec<String>) {
    let (mut faults, mut notes) = (Vec::new(), Vec::new());
    let Some(stated) = StatedScheme::of(store.documents()) else { return (faults, notes) };
    let Some((_, found)) = measured(store) else { return (faults, notes) };
    let descriptions = stated.descriptions().iter();
    for Description { document, json, .. } in descriptions {
        let keys = json.as_object().into_iter().flat_map(|keys| keys.iter());
        for (key, value) in keys {
            let known = match found.contradicts(usual(key), value) {
                Some(known) => known,
                None => continue,
            };
            faults.push(format!("{document} says {key} {value}, but the codes have {known}"));
        }
    }
    if stated.descriptions().first().is_some_and(|first| first.document == "config.json") {
        notes.extend(layouts_beside(&stated).into_iter().map(|(document, key, value)| {
            format!(
                "{key} {value} is stated in {document} alone, which transformers and vLLM do not read if config.json has a \
                 quantization_config: they take the codes for those of another layout (a copy as safetensors has that key)"
            )
        }));
    }
    notes.extend(
        stated.contradiction(&DECIDING).map(|said| {
            format!("{said}: transformers and vLLM use the former, GPTQModel the latter")
        }),
    );
    (faults, notes)
}

/// The numbers that the arrays of GPTQ and AWQ have, of all tensors.
#[derive(Debug, Default)]
struct Numbers {
    bits: BTreeSet<u64>,
    /// The inputs of a tensor, and its groups. Empty if the documents alone state the size.
    groups: BTreeSet<(u64, u64)>,
}

impl Numbers {
    /// The words for what the codes have, if no tensor has a stated number.
    fn contradicts(&self, key: &str, value: &Json) -> Option<String> {
        let stated = value.as_i64()?;
        let is_size = |(inputs, groups): &(u64, u64)| match u64::try_from(stated) {
            Ok(size @ 1..) => inputs.div_ceil(size) == *groups,
            _ => *groups == 1,
        };
        let (is_true, known) = match key {
            "bits" => (self.bits.iter().any(|bits| i64::try_from(*bits) == Ok(stated)), &self.bits),
            "group_size" => {
                (self.groups.is_empty() || self.groups.iter().any(is_size), &self.sizes())
            }
            _ => return None,
        };
        let known: Vec<String> = known.iter().map(u64::to_string).collect();
        (!is_true && !known.is_empty()).then(|| known.join(" or "))
    }

    /// The sizes of groups.
    fn sizes(&self) -> BTreeSet<u64> {
        self.groups.iter().map(|(inputs, groups)| inputs.div_ceil((*groups).max(1))).collect()
    }

    /// The numbers that are other ones than these keys state, where all tensors have the same.
    fn corrections(&self, keys: &Map<String, Json>) -> Vec<(String, Json)> {
        let whole = self.groups.iter().all(|(_, groups)| *groups == 1);
        let sizes = self.sizes();
        let wrong =
            keys.iter().filter(|(key, value)| self.contradicts(usual(key), value).is_some());
        let wrong = wrong.filter_map(|(key, _)| {
            let value = match (usual(key), sizes.len()) {
                ("bits", _) if self.bits.len() == 1 => Json::from(*self.bits.first()?),
                ("group_size", _) if whole => Json::from(-1),
                ("group_size", 1) => Json::from(*sizes.first()?),
                _ => return None,
            };
            Some((key.clone(), value))
        });
        wrong.collect()
    }
}

/// The method of a model's codes, and their numbers.
fn measured(store: &Store) -> Option<(&'static str, Numbers)> {
    let (mut method, mut found) = (None, Numbers::default());
    for tensor in store.tensors() {
        let Ok(dtype) = tensor.dtype() else { continue };
        let Some((_, of)) = METHODS.iter().find(|(start, _)| dtype.name().starts_with(start))
        else {
            continue;
        };
        method.get_or_insert(*of);
        found.bits.extend(bits(&tensor));
        if dtype != DType::AWQ4_GEMV {
            let scale = tensor.segment(Part::Scale).ok().and_then(|scale| scale.shape.first());
            found.groups.extend(tensor.shape().get(1).copied().zip(scale.copied()));
        }
    }
    Some((method?, found))
}

/// The bits of a code.
fn bits(tensor: &StoredTensor<'_>) -> Option<u64> {
    let codes = tensor.segment(Part::Weight).ok()?;
    let words = crate::shape::elements(codes.shape)?;
    words.checked_mul(u64::from(codes.dtype.bits()))?.checked_div(tensor.elements())
}
