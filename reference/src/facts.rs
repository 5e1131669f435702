//! Facts from a model's files, for plans.

use std::cell::RefCell;
use std::collections::BTreeSet;

use weighbridge::Model;
use weighbridge::arch::{Architecture, ConfigValue, Field, LayerKind, ModelConfig, RopeLayout};
use weighbridge::json::Json;
use weighbridge::metadata::Value;
use weighbridge::model::Convention;

use crate::error::{Error, Result};
use crate::math::Activation;

/// A number of the config, as a length.
pub(crate) fn size(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The largest width or count of a model that is run.
const LARGEST: u64 = 1 << 20;

/// Fields that size nothing here: they may be larger.
const UNBOUNDED: [&str; 5] = [
    "vocab_size",
    "max_seq_len",
    "rope_scaling_original_max_seq_len",
    "sliding_window",
    "type_vocab_size",
];

/// Refuses numbers that no model has, before memory is sized by them.
fn check_sizes(config: &ModelConfig) -> Result<()> {
    for field in config.fields() {
        let list = field.value.as_array().into_iter().flatten();
        let mut numbers = list.chain([&field.value]).filter_map(|number| number.as_u64());
        let large = numbers.find(|number| *number > LARGEST);
        if let Some(number) = large.filter(|_| !UNBOUNDED.contains(&field.name)) {
            let fault = format!("{} is {number}, but at most {LARGEST} is run", field.name);
            return Err(Error::Unsupported(fault));
        }
    }
    Ok(())
}

/// A model's config, and what else its files say.
#[derive(Debug)]
pub(crate) struct Facts<'m> {
    pub(crate) model: &'m Model,
    pub(crate) config: &'m ModelConfig,
    pub(crate) architecture: &'static Architecture,
    unused: Vec<(String, ConfigValue<'m>)>,
    /// The names of all values that were asked for.
    asked: RefCell<BTreeSet<String>>,
}

impl<'m> Facts<'m> {
    /// The facts of a model. `assumed` is the family of a model that no family describes.
    pub(crate) fn of(model: &'m Model, assumed: Option<&'static Architecture>) -> Result<Self> {
        let resolution = model.resolution()?;
        let architecture = match (resolution.architecture, assumed) {
            (Some(architecture), None) => architecture,
            (None, Some(assumed)) if resolution.is_by_structure() => assumed,
            (Some(own), Some(assumed)) if own.name == assumed.name => own,
            (Some(own), Some(assumed)) => {
                let fault = format!("the model is {}, not {}", own.name, assumed.name);
                return Err(Error::Unsupported(fault));
            }
            (None, _) => {
                let fault = format!("no family describes the model: {}", resolution.reason);
                return Err(Error::Unsupported(fault));
            }
        };
        let config = model.config()?;
        check_sizes(config)?;
        Ok(Self {
            model,
            config,
            architecture,
            unused: model.unused_config(),
            asked: RefCell::default(),
        })
    }

    /// The family, as the file names it.
    pub(crate) fn named(&self) -> &str {
        &self.config.architecture.value
    }

    /// A value that the files state, by the last words of its names.
    fn other(&self, names: &[&str]) -> Option<ConfigValue<'m>> {
        self.asked.borrow_mut().extend(names.iter().map(|&name| name.to_owned()));
        let is = |key: &str, name: &str| {
            let rest = key.strip_suffix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with(['.', ' ']))
        };
        let found = |name: &&str| self.unused.iter().find(|(key, _)| is(key, name));
        let found = names.iter().find_map(found).map(|(_, value)| *value);
        found.or_else(|| names.iter().find_map(|name| self.model.stated_config(name)))
    }

    /// Refuses a config that states what the class computes and nobody asked for.
    pub(crate) fn check_asked(&self) -> Result<()> {
        let asked = self.asked.borrow();
        let mut computed = self.model.computed_config().into_iter();
        let is_asked = |key: &str| {
            let parts = key.split(['.', ' ']);
            parts.clone().any(|part| asked.contains(part))
                || asked.iter().any(|name| key.ends_with(name.as_str()))
        };
        match computed.find(|(key, _)| !is_asked(key)) {
            Some((key, value)) => {
                let fault = format!("{key} is {value}, which is not computed");
                Err(Error::Unsupported(fault))
            }
            None => Ok(()),
        }
    }

    /// Whether the files state such a value, which may be none.
    pub(crate) fn is_stated(&self, name: &str) -> bool {
        self.other(&[name]).is_some()
    }

    /// Whether `config.json` states a list under such a name.
    pub(crate) fn is_list(&self, name: &str) -> bool {
        matches!(self.model.stated_config(name), Some(ConfigValue::Json(json)) if json.is_array())
    }

    /// The values of a list of `config.json`; none without it.
    pub(crate) fn list(&self, name: &str) -> &'m [Json] {
        match self.other(&[name]) {
            Some(ConfigValue::Json(json)) => json.as_array().map_or(&[], Vec::as_slice),
            _ => &[],
        }
    }

    /// Such a value that is a number.
    pub(crate) fn real(&self, names: &[&str]) -> Option<f32> {
        #[expect(clippy::cast_possible_truncation, reason = "models compute in f32")]
        let narrow = |number: f64| number as f32;
        match self.other(names)? {
            ConfigValue::Json(json) => json.as_f64().map(narrow),
            ConfigValue::Metadata(value) => value.to_f64().map(narrow),
            _ => None,
        }
    }

    /// A number within an object of `config.json` that [`ModelConfig`] has no field for.
    pub(crate) fn nested(&self, object: &str, key: &str) -> Option<f32> {
        #[expect(clippy::cast_possible_truncation, reason = "models compute in f32")]
        match self.other(&[object])? {
            ConfigValue::Json(json) => json.get(key)?.as_f64().map(|number| number as f32),
            _ => None,
        }
    }

    /// Such a value that is true or false.
    pub(crate) fn flag(&self, names: &[&str]) -> Option<bool> {
        match self.other(names)? {
            ConfigValue::Json(json) => json.as_bool(),
            ConfigValue::Metadata(value) => value.to_bool(),
            _ => None,
        }
    }

    /// Such a value that is a word.
    pub(crate) fn word(&self, names: &[&str]) -> Option<&'m str> {
        match self.other(names)? {
            ConfigValue::Json(json) => json.as_str(),
            ConfigValue::Metadata(value) => value.to_text()?.to_str(),
            _ => None,
        }
    }

    /// Whether the model's class gives the scores of tokens that follow, whatever its layers see.
    pub(crate) fn is_causal_class(&self) -> bool {
        let Some(ConfigValue::Json(classes)) = self.other(&["architectures"]) else {
            return false;
        };
        let class = classes.as_array().and_then(|classes| classes.first()?.as_str());
        let ends = ["ForCausalLM", "LMHeadModel", "GenerationDecoder"];
        class.is_some_and(|class| ends.iter().any(|end| class.ends_with(end)))
    }

    /// The words of such a value: of a list as they are, or of a text with bars between them, in small letters.
    pub(crate) fn words(&self, name: &str) -> Vec<String> {
        let Some(ConfigValue::Json(json)) = self.other(&[name]) else { return Vec::new() };
        let of_text =
            |text: &str| text.split('|').map(|word| word.trim().to_lowercase()).collect::<Vec<_>>();
        match json.as_array() {
            Some(list) => list.iter().filter_map(|json| json.as_str()).map(str::to_owned).collect(),
            None => json.as_str().map(of_text).unwrap_or_default(),
        }
    }

    /// Such a value as it is spelled.
    pub(crate) fn spelled(&self, name: &str) -> Option<String> {
        let value = self.other(&[name])?.to_string();
        Some(value.trim_matches('"').to_owned()).filter(|value| value != "null")
    }

    /// Such a value that is a list of numbers, or one number for all layers.
    pub(crate) fn reals(&self, names: &[&str]) -> Option<Vec<f64>> {
        match self.other(names)? {
            ConfigValue::Json(json) => match json.as_array() {
                Some(list) => list.iter().map(|json| json.as_f64()).collect(),
                None => json.as_f64().map(|one| vec![one; size(self.config.n_layers.value)]),
            },
            ConfigValue::Metadata(Value::Array(array)) => {
                array.values().map(|value| value.to_f64()).collect()
            }
            _ => None,
        }
    }

    /// The numbers of a key of GGUF that does not begin with the architecture's name; none without it.
    pub(crate) fn listed(&self, key: &str) -> Vec<f64> {
        match self.model.metadata().get(key) {
            Some(Value::Array(array)) => {
                array.values().filter_map(|value| value.to_f64()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Layers that the model runs: those behind them predict further tokens.
    pub(crate) fn layers(&self) -> u32 {
        // GGUF counts them.
        let next = self.config.experts.n_next_token_layers.as_ref();
        let next = next.filter(|next| next.source.ends_with("nextn_predict_layers"));
        let layers = self.config.n_layers.value.saturating_sub(next.map_or(0, |next| next.value));
        let predicts =
            |layer: &u32| self.model.has(&format!("layers.{layer}.nextn.projection.weight"));
        (0..layers).find(predicts).unwrap_or(layers)
    }

    /// Whether a key of GGUF states how scores of experts are computed, which may be another way than that of the class.
    pub(crate) fn states_gating_in_gguf(&self) -> bool {
        let gating = self.config.experts.expert_gating.as_ref();
        gating.is_some_and(|gating| gating.source.ends_with("expert_gating_func"))
    }

    pub(crate) fn rope_layout(&self) -> RopeLayout {
        self.architecture.rope
    }

    /// Elements of a head that are rotated.
    pub(crate) fn rotated(&self) -> usize {
        let count = self.config.rope.dimension_count.as_ref();
        size(count.map_or(self.config.head_dim.value, |count| count.value))
    }

    /// Whether the config states none for the rotary embeddings of layers of a kind.
    fn lacks_rope(&self, windowed: bool) -> bool {
        let kind = if windowed { "sliding_attention" } else { "full_attention" };
        match self.model.stated_config("rope_parameters") {
            Some(ConfigValue::Json(json)) => json.get(kind).is_some_and(|rope| rope.is_null()),
            _ => false,
        }
    }

    /// Whether a layer has rotary embeddings.
    pub(crate) fn rotates(&self, layer: u32, windowed: bool) -> bool {
        let rope = &self.config.rope;
        let skipped = |interval: u32| interval > 0 && (layer + 1).is_multiple_of(interval);
        let listed = rope.layers.as_ref().and_then(|layers| layers.value.get(size(layer)).copied());
        self.rope_layout() != RopeLayout::None
            && !self.lacks_rope(windowed)
            && listed.unwrap_or_else(|| {
                !rope.skip_interval.as_ref().is_some_and(|interval| skipped(interval.value))
            })
    }

    /// The layer whose keys and values a layer uses, where it has none of its own: the last of its
    /// kind that has.
    pub(crate) fn keys_of(&self, layer: u32) -> Option<usize> {
        let shared = self.config.attention.n_kv_shared_layers.as_ref()?.value;
        let own = self.config.n_layers.value.checked_sub(shared).filter(|&own| own > 0)?;
        let kind = |layer: u32| self.config.layer_kind(layer).unwrap_or(&LayerKind::Full);
        if layer < own {
            return None;
        }
        (0..own).rev().find(|&earlier| kind(earlier) == kind(layer)).map(size)
    }

    pub(crate) fn activation(&self) -> Result<Activation> {
        let Some(named) = &self.config.activation else { return Ok(Activation::Silu) };
        Activation::named(&named.value)
            .ok_or_else(|| Error::Unsupported(format!("the activation \"{}\"", named.value)))
    }

    /// The activation of what the convolution of a state-space layer gives.
    pub(crate) fn state_space_activation(&self) -> Result<Activation> {
        let name = self.word(&["mamba_hidden_act", "hidden_mamba_act", "hidden_act"]);
        let name = name.unwrap_or("silu");
        Activation::named(name)
            .ok_or_else(|| Error::Unsupported(format!("the activation \"{name}\"")))
    }

    /// The positions that a layer's convolution sees, if it has one in place of attention.
    pub(crate) fn short_convolution(&self, layer: u32) -> Option<usize> {
        let tensor = self.model.tensor(&format!("layers.{layer}.short_conv.weight")).ok()?;
        let kernel = tensor.elements().checked_div(u64::from(self.config.dim.value))?;
        usize::try_from(kernel).ok()
    }

    /// Whether a layer has a tensor of a kind of attention, such as `attention` or `linear_attention`.
    fn has_in(&self, layer: u32, part: &str) -> bool {
        let start = format!("layers.{layer}.{part}.");
        let resolution = self.model.resolution();
        let mut names = resolution.iter().flat_map(|resolution| &resolution.mapped);
        names.any(|mapping| mapping.canonical.starts_with(&start))
    }

    pub(crate) fn has_attention(&self, layer: u32) -> bool {
        self.has_in(layer, "attention")
    }

    pub(crate) fn has_linear_attention(&self, layer: u32) -> bool {
        self.has_in(layer, "linear_attention")
    }

    pub(crate) fn has_state_space(&self, layer: u32) -> bool {
        self.model.has(&format!("layers.{layer}.ssm.in.weight"))
    }

    /// The one value of a tensor with this canonical name.
    pub(crate) fn single(&self, name: &str) -> Result<f32> {
        let tensor = self.model.tensor(name)?;
        match tensor.dequantize()?.to_vec()[..] {
            [value] => Ok(value),
            _ => {
                let shape = tensor.shape();
                let fault = format!("{name} has the shape {shape:?}, but one value was expected");
                Err(Error::Mismatch(fault))
            }
        }
    }

    /// The number of a layer where the files have a list of them in place of this field.
    pub(crate) fn of_layer(&self, field: &Field<u32>, layer: u32) -> Result<u32> {
        let key = field.source.path();
        if !self.is_list(key) {
            return Ok(field.value);
        }
        let each = self.reals(&[key]).unwrap_or_default();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        let number = each.get(size(layer)).map(|number| *number as u32);
        number.ok_or_else(|| {
            Error::Mismatch(format!("{key} has {} values, but none for layer {layer}", each.len()))
        })
    }

    /// The values of a stored tensor that is made of the config.
    pub(crate) fn stored(&self, name: &str) -> Result<Vec<f32>> {
        Ok(self.model.tensor_in(name, Convention::Stored)?.dequantize()?.to_vec())
    }
}
