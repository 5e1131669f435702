//! Removes layers from what a model's metadata and `config.json` say about its layers.

use std::collections::BTreeSet;

use crate::arch::ModelConfig;
use crate::arch::config::key;
use crate::arch::kept::{CONFIG, DERIVED, layer_meanings};
use crate::error::{Error, Result};
use crate::json::{Json, Map};
use crate::metadata::{KeyValues, Value};

/// The layers that are removed from a model. The others are numbered anew.
#[derive(Clone, Debug)]
pub(crate) struct PrunedLayers {
    /// The number of layers, with those that predict further tokens.
    layers: u64,
    /// The number of layers at the end that predict further tokens.
    next: u64,
    removed: BTreeSet<u64>,
}

/// Keys of GGUF, behind the architecture's name, whose arrays do not have an element for each layer.
const NOT_OF_LAYERS: &[&str] = &["rope.dimension_sections", "classifier.output_labels"];

/// Keys that count the first layers of a kind, in GGUF and in `config.json`.
const FIRST: &[&str] = &[
    "leading_dense_block_count",
    "decoder_block_count",
    "first_k_dense_replace",
    "moe_layer_start_index",
    "num_dense_layers",
    "max_window_layers",
    "num_decoder_layers",
];

/// Keys that count the layers at the end that predict further tokens.
const NEXT: &[&str] = &["nextn_predict_layers", "num_nextn_predict_layers"];

/// Keys with a period: the last layer of each period differs from the others.
const PERIODS: &[&str] = &[
    "attention.sliding_window_pattern",
    "full_attention_interval",
    "interleave_moe_layer_step",
    "moe_every_n_layers",
];

/// Keys that no number is right for once layers are removed: layers that use keys and values of others,
/// and the width of tensors with a part for each layer.
const FIXED: &[&str] = &["attention.shared_kv_layers", "embedding_length_per_layer_input"];

/// Keys that count first layers of which none may be removed: those with inputs from a vision model.
const KEPT: &[&str] = &["n_deepstack_layers"];

/// Keys of `config.json` that list layers by number.
const NUMBERS: &[&str] = &[
    "attn_layer_indices",
    "cross_attention_layers",
    "full_attention_idxs",
    "full_attention_layers",
    "full_attn_idxs",
    "global_attention_layers",
    "mlp_only_layers",
];

/// Ends of such keys.
const NUMBERS_END: &[&str] = &["_idxs", "_indices", "_layers"];

impl PrunedLayers {
    /// The layers that are removed from a model, if there are any. `next` of its layers predict further
    /// tokens.
    ///
    /// # Errors
    ///
    /// `Mismatch` for a layer that the model does not have, or if no layer would be left.
    pub(crate) fn of(removed: &BTreeSet<u64>, layers: u64, next: u64) -> Result<Option<Self>> {
        if let Some(beyond) = removed.range(layers..).next() {
            let last = layers.saturating_sub(1);
            let fault = format!("layer {beyond} cannot be removed: the last one is layer {last}");
            return Err(Error::mismatch(fault).advise("layers are counted from 0"));
        }
        if !removed.is_empty() && removed.len() as u64 == layers {
            return Err(Error::mismatch("every layer would be removed"));
        }
        let pruned = Self { layers, next: next.min(layers), removed: removed.clone() };
        Ok((!removed.is_empty()).then_some(pruned))
    }

    fn keeps(&self, layer: u64) -> bool {
        !self.removed.contains(&layer)
    }

    /// The number of layers before this one that are kept: its new number.
    fn before(&self, layer: u64) -> u64 {
        let end = layer.min(self.layers);
        layer.saturating_sub(self.removed.range(..end).count() as u64)
    }

    /// The layers without those that predict further tokens.
    fn own(&self) -> u64 {
        self.layers.saturating_sub(self.next)
    }

    /// Whether a list has an element for each layer.
    fn is_list(&self, len: u64) -> bool {
        len > 0 && (len == self.layers || len == self.own())
    }

    /// Removes the layers from GGUF keys. The number of layers is set by the caller.
    ///
    /// # Errors
    ///
    /// `Unsupported` if a key cannot state what is left.
    pub(crate) fn edit_keys(&self, keys: &mut KeyValues, architecture: &str) -> Result<()> {
        let names: Vec<String> =
            keys.iter().filter_map(|(key, _)| key.to_str().map(str::to_owned)).collect();
        for name in names {
            if [CONFIG, DERIVED].contains(&name.as_str()) {
                self.edit_kept(keys, &name)?;
                continue;
            }
            let of_architecture = name.strip_prefix(architecture).and_then(|n| n.strip_prefix('.'));
            // Arrays of the activation xIELU have an element for each layer.
            let Some(key) = of_architecture.or_else(|| name.strip_prefix("xielu.")) else {
                continue;
            };
            match keys.get(&name) {
                Some(Value::Array(array))
                    if !NOT_OF_LAYERS.contains(&key) && self.is_list(array.len()) =>
                {
                    keys.retain_elements(&name, |layer| self.keeps(layer));
                }
                Some(value) => {
                    let Some(number) = value.to_u64() else { continue };
                    self.check_number(key, &name, number)?;
                    if let Some(number) = self.number(key, number) {
                        let number = u32::try_from(number).unwrap_or(u32::MAX);
                        keys.set(&name, Value::U32(number));
                    }
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Removes the layers from a document that is kept in a GGUF key.
    fn edit_kept(&self, keys: &mut KeyValues, name: &str) -> Result<()> {
        let text = keys.get(name).and_then(|value| value.to_text()?.to_str().map(str::to_owned));
        let Some(text) = text else { return Ok(()) };
        let mut document = Map::parse(text.as_bytes()).map_err(|error| error.in_key(name))?;
        self.edit_config(&mut document);
        keys.set_text(name, document.to_string());
        Ok(())
    }

    /// A count that changes with the layers.
    fn number(&self, key: &str, number: u64) -> Option<u64> {
        if FIRST.contains(&key) && number <= self.layers {
            return Some(self.before(number));
        }
        let kept = || (self.own()..self.layers).filter(|layer| self.keeps(*layer)).count() as u64;
        NEXT.contains(&key).then(kept)
    }

    /// Refuses periods that the remaining layers do not have.
    fn check_number(&self, key: &str, name: &str, number: u64) -> Result<()> {
        let last = |layer: u64| layer.checked_rem(number) == Some(number.saturating_sub(1));
        let periodic = (0..self.own())
            .filter(|layer| self.keeps(*layer))
            .all(|layer| last(layer) == last(self.before(layer)));
        let fits = match () {
            () if PERIODS.contains(&key) => number <= 1 || periodic,
            () if FIXED.contains(&key) => number == 0,
            () if KEPT.contains(&key) => self.before(number) == number,
            () => true,
        };
        if fits {
            return Ok(());
        }
        let fault = format!("{number}, which does not hold once layers are removed");
        Err(Error::unsupported(fault)
            .in_key(name)
            .advise("remove other layers, such as whole periods"))
    }

    /// Removes the layers from the keys of a `config.json`, or of the text model's part of it. Periods
    /// stay as they are; see [`check_meaning`](Self::check_meaning).
    pub(crate) fn edit_config(&self, config: &mut Map<String, Json>) {
        let counts = key("n_layers").map_or(&[][..], |row| row.json);
        for (key, value) in config.iter_mut() {
            let key = key.as_str();
            match value {
                Json::Array(list) => self.edit_list(key, list),
                Json::Number(number) => {
                    let Some(number) = number.as_u64() else { continue };
                    let all = counts.contains(&key) && self.is_list(number);
                    let new =
                        if all { Some(self.before(number)) } else { self.number(key, number) };
                    new.into_iter().for_each(|new| *value = new.into());
                }
                // A letter for each layer.
                Json::String(text)
                    if key == "hybrid_override_pattern"
                        && self.is_list(text.chars().count() as u64) =>
                {
                    let letters = (0..).zip(text.chars());
                    *text = letters.filter(|(n, _)| self.keeps(*n)).map(|(_, c)| c).collect();
                }
                _ => {}
            }
        }
    }

    fn edit_list(&self, key: &str, list: &mut Vec<Json>) {
        let numbers: Option<Vec<u64>> = list.iter().map(Json::as_u64).collect();
        let is_list = self.is_list(list.len() as u64);
        let ends = NUMBERS_END.iter().any(|end| key.ends_with(end)) && !is_list;
        if let Some(numbers) = numbers.filter(|_| ends || NUMBERS.contains(&key)) {
            let kept = numbers.into_iter().filter(|layer| self.keeps(*layer));
            *list = kept.map(|layer| self.before(layer).into()).collect();
            return;
        }
        let of_layers =
            !["token", "architectures", "section"].iter().any(|word| key.contains(word));
        if is_list && of_layers {
            let mut layers = 0..;
            list.retain(|_| layers.next().is_none_or(|layer| self.keeps(layer)));
        }
    }

    /// Checks that the remaining layers are of the kinds that they were, in two `config.json` of a model:
    /// with all layers, and without the removed ones. A document may say of a layer's number whether it
    /// has a window, experts or rotary embeddings.
    ///
    /// # Errors
    ///
    /// `Unsupported` if a layer would change.
    pub(super) fn check_meaning(
        &self,
        before: &Map<String, Json>,
        after: &Map<String, Json>,
    ) -> Result<()> {
        let number = |layers: u64| u32::try_from(layers).unwrap_or(u32::MAX);
        let then = layer_meanings(before, number(self.own()));
        let now = layer_meanings(after, number(self.before(self.own())));
        for (name, list) in then {
            let Json::Array(list) = list else { continue };
            if list.len() as u64 != self.own() {
                continue;
            }
            let mut left = list;
            let mut layers = 0..;
            left.retain(|_| layers.next().is_none_or(|layer| self.keeps(layer)));
            let fits = match now.get(&name) {
                Some(Json::Array(now)) => *now == left,
                // All layers are alike.
                _ => left.iter().all(|value| Some(value) == left.first()),
            };
            if !fits {
                return Err(self.changed(&name));
            }
        }
        Ok(())
    }

    /// Like [`check_meaning`](Self::check_meaning), for the kinds of attention.
    ///
    /// # Errors
    ///
    /// `Unsupported` if a layer would change.
    pub(super) fn check_kinds(&self, before: &ModelConfig, after: &ModelConfig) -> Result<()> {
        let number = |layer: u64| u32::try_from(layer).unwrap_or(u32::MAX);
        let mut kept = (0..self.own()).filter(|layer| self.keeps(*layer));
        let same = |layer: u64| {
            before.layer_kind(number(layer)) == after.layer_kind(number(self.before(layer)))
        };
        let source = before.layers.as_ref().map_or("attention", |layers| &layers.source);
        match kept.all(same) {
            true => Ok(()),
            false => Err(self.changed(source)),
        }
    }

    fn changed(&self, what: &str) -> Error {
        let numbers: Vec<String> = self.removed.iter().map(u64::to_string).collect();
        let fault = format!(
            "without layers {}, the kinds of other layers would change: {what}",
            numbers.join(", ")
        );
        Error::unsupported(fault).advise("remove other layers, such as whole periods")
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    fn pruned(removed: &[u64], layers: u64, next: u64) -> PrunedLayers {
        PrunedLayers::of(&removed.iter().copied().collect(), layers, next).unwrap().unwrap()
    }

    #[test]
    fn layers_that_do_not_exist_cannot_be_removed() {
        let of = |removed: &[u64]| PrunedLayers::of(&removed.iter().copied().collect(), 2, 0);
        assert!(of(&[]).unwrap().is_none() && of(&[1]).unwrap().is_some());
        assert!(of(&[2]).is_err() && of(&[0, 1]).is_err());
    }

    #[test]
    fn keys_lose_the_elements_and_counts_of_removed_layers() {
        let mut keys = KeyValues::new();
        keys.set_array("x.attention.head_count_kv", [1u32, 2, 3, 4]);
        keys.set_array("x.rope.dimension_sections", [1u32, 2, 3, 4]);
        keys.set_array("tokenizer.ggml.scores", [1f32, 2.0, 3.0, 4.0]);
        keys.set("x.leading_dense_block_count", Value::U32(2));
        keys.set("x.nextn_predict_layers", Value::U32(1));
        keys.set("x.interleave_moe_layer_step", Value::U32(1));
        keys.set_text(CONFIG, r#"{"num_hidden_layers":3,"layer_types":["a","b","c"]}"#);
        pruned(&[1, 3], 4, 1).edit_keys(&mut keys, "x").unwrap();
        let list = |key: &str| -> Vec<f64> {
            let array = keys.get(key).unwrap().to_array().unwrap();
            array.values().filter_map(|value| value.to_f64()).collect()
        };
        assert_eq!(list("x.attention.head_count_kv"), [1.0, 3.0]);
        assert_eq!(list("x.rope.dimension_sections").len(), 4);
        assert_eq!(list("tokenizer.ggml.scores").len(), 4);
        assert_eq!(keys.get("x.leading_dense_block_count"), Some(Value::U32(1)));
        assert_eq!(keys.get("x.nextn_predict_layers"), Some(Value::U32(0)));
        let kept = keys.get(CONFIG).and_then(|value| Some(value.to_text()?.to_string()));
        assert_eq!(kept.unwrap(), r#"{"num_hidden_layers":2,"layer_types":["a","c"]}"#);
    }

    #[test]
    fn periods_hold_or_are_refused() {
        let with = |removed: &[u64], key: &str, number| {
            let mut keys = KeyValues::new();
            keys.set(&format!("x.{key}"), Value::U32(number));
            pruned(removed, 8, 0).edit_keys(&mut keys, "x")
        };
        assert!(with(&[0, 1, 2, 3], "full_attention_interval", 4).is_ok());
        let error = with(&[0], "full_attention_interval", 4).unwrap_err();
        assert_eq!(error.key(), Some("x.full_attention_interval"));
        assert!(with(&[7], "full_attention_interval", 4).is_ok());
        assert!(with(&[7], "attention.shared_kv_layers", 2).is_err());
        assert!(with(&[7], "attention.shared_kv_layers", 0).is_ok());
        assert!(with(&[2], "n_deepstack_layers", 2).is_ok());
        assert!(with(&[1], "n_deepstack_layers", 2).is_err());
    }

    #[test]
    fn config_loses_elements_and_lists_of_numbers_are_renumbered() {
        let mut config = json!({
            "num_hidden_layers": 5, "first_k_dense_replace": 1, "num_key_value_heads": [1, 2, 3, 4, 5],
            "full_attn_idxs": [0, 2, 4], "mlp_only_layers": [], "eos_token_id": [1, 2, 3, 4, 5],
            "no_rope_layers": [1, 1, 1, 0, 1], "hidden_size": 5, "hybrid_override_pattern": "M-M*M",
        });
        pruned(&[0, 3], 5, 0).edit_config(config.as_object_mut().unwrap());
        let expected = json!({
            "num_hidden_layers": 3, "first_k_dense_replace": 0, "num_key_value_heads": [2, 3, 5],
            "full_attn_idxs": [1, 2], "mlp_only_layers": [], "eos_token_id": [1, 2, 3, 4, 5],
            "no_rope_layers": [1, 1, 1], "hidden_size": 5, "hybrid_override_pattern": "-MM",
        });
        assert_eq!(config, expected);
    }
}
