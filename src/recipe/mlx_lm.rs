//! The choices of mlx-lm, module by module: `mlx_lm.convert -q` of the version in `engines/mlx-lm`. Tests compare
//! them to the results of its own predicates.
//!
//! A module is anything with a `weight`: `model.layers.0.mlp.up_proj`. Names are those of mlx-lm's
//! models, where the experts of a layer are one module (`mlp.switch_mlp.up_proj`).

use std::collections::BTreeSet;

use super::more_bits;
use crate::arch::family;
use crate::arch::habits::MlxChoice;
use crate::container::group_mode;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::json::{Json, Map, json};

/// A quantization mode, as `--q-mode` names it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names say it")]
pub enum MlxMode {
    #[default]
    Affine,
    Mxfp4,
    Nvfp4,
    Mxfp8,
}

/// The properties of a mode.
#[derive(Debug)]
#[non_exhaustive]
pub struct ModeDescriptor {
    /// The mode of this row.
    pub mode: MlxMode,
    /// Its name.
    pub name: &'static str,
    /// Default group size.
    pub group_size: u32,
    /// Default number of bits of an element.
    pub bits: u32,
}

/// Every mode; defaults are those of `quantize_model` in mlx_lm/utils.py.
#[rustfmt::skip]
pub static MODES: &[ModeDescriptor] = &[
    ModeDescriptor { mode: MlxMode::Affine, name: "affine", group_size: 64, bits: 4 },
    ModeDescriptor { mode: MlxMode::Mxfp4,  name: "mxfp4",  group_size: 32, bits: 4 },
    ModeDescriptor { mode: MlxMode::Nvfp4,  name: "nvfp4",  group_size: 16, bits: 4 },
    ModeDescriptor { mode: MlxMode::Mxfp8,  name: "mxfp8",  group_size: 32, bits: 8 },
];

impl MlxMode {
    /// The row of the table.
    pub fn descriptor(self) -> &'static ModeDescriptor {
        #[expect(clippy::indexing_slicing, reason = "one row for each variant, in order")]
        &MODES[self as usize]
    }

    /// The mode with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        MODES.iter().find(|row| row.name == name).map(|row| row.mode)
    }
}

/// A mix of two numbers of bits: more bits for the modules that matter most (`--quant-predicate`).
#[derive(Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Mix {
    /// Its name.
    pub name: &'static str,
    /// Bits of most modules.
    pub low: u32,
    /// Bits of the modules that matter most.
    pub high: u32,
}

/// Every mix, from `mixed_quant_predicate_builder` in mlx_lm/convert.py.
pub static MIXES: &[Mix] = &[
    Mix { name: "mixed_2_6", low: 2, high: 6 },
    Mix { name: "mixed_3_4", low: 3, high: 4 },
    Mix { name: "mixed_3_6", low: 3, high: 6 },
    Mix { name: "mixed_4_6", low: 4, high: 6 },
];

impl Mix {
    /// The mix with this name.
    pub fn from_name(name: &str) -> Option<&'static Self> {
        MIXES.iter().find(|mix| mix.name == name)
    }
}

/// The quantization of one module.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MlxQuantization {
    /// The mode.
    pub mode: MlxMode,
    /// Group size in elements.
    pub group_size: u32,
    /// Bits of an element.
    pub bits: u32,
    /// The dtype for this mode and number of bits.
    pub dtype: DType,
}

impl MlxQuantization {
    /// Fills in the mode's defaults.
    ///
    /// # Errors
    ///
    /// `Mismatch` for numbers of bits or group sizes that MLX does not support.
    pub fn new(mode: MlxMode, group_size: Option<u32>, bits: Option<u32>) -> Result<Self> {
        let row = mode.descriptor();
        let (group_size, bits) = (group_size.unwrap_or(row.group_size), bits.unwrap_or(row.bits));
        let forms = group_mode(row.name).map_or(&[][..], |mode| mode.forms);
        let sizes: BTreeSet<u64> = forms.iter().flat_map(|(_, sizes, _)| *sizes).copied().collect();
        if !sizes.contains(&group_size.into()) {
            let (name, allowed) = (row.name, list(sizes));
            let fault =
                format!("{name} does not support groups of {group_size}: supported are {allowed}");
            return Err(Error::mismatch(fault));
        }
        let found = forms.iter().find(|(of, ..)| *of == u64::from(bits));
        let dtype = found.map(|(.., dtype)| *dtype).ok_or_else(|| {
            let (name, allowed) = (row.name, list(forms.iter().map(|(bits, ..)| *bits)));
            Error::mismatch(format!(
                "{name} does not support elements of {bits} bits: supported are {allowed}"
            ))
        })?;
        Ok(Self { mode, group_size, bits, dtype })
    }

    /// The form in `config.json`.
    fn json(&self) -> Map<String, Json> {
        let mut map = Map::new();
        map.insert("group_size".to_owned(), json!(self.group_size));
        map.insert("bits".to_owned(), json!(self.bits));
        map.insert("mode".to_owned(), json!(self.mode.descriptor().name));
        map
    }
}

fn list(numbers: impl IntoIterator<Item = u64>) -> String {
    let numbers: Vec<String> = numbers.into_iter().map(|number| number.to_string()).collect();
    numbers.join(", ")
}

/// The properties of a model that choices depend on, in addition to its modules.
#[derive(Clone, Debug, Default)]
pub struct MlxModel {
    /// `model_type` in `config.json`.
    pub model_type: String,
    /// Number of layers of the decoder.
    pub layers: u64,
    /// `layer_group_size`: the last layer of each such group has full attention. Only
    /// bailing_moe_v3 uses it.
    pub layer_group_size: Option<u64>,
}

/// A module and the shape of its weight, outermost dimension first.
#[derive(Clone, Copy, Debug)]
pub struct Module<'a> {
    /// Its path: the name of the weight without `.weight`.
    pub path: &'a str,
    /// The shape of the weight.
    pub shape: &'a [u64],
}

/// Options of `mlx_lm.convert`.
#[derive(Clone, Copy, Debug, Default)]
pub struct MlxOptions {
    /// `--q-mode`.
    pub mode: MlxMode,
    /// `--q-group-size`.
    pub group_size: Option<u32>,
    /// `--q-bits`.
    pub bits: Option<u32>,
    /// `--quant-predicate`; replaces the model's own predicate.
    pub mix: Option<&'static Mix>,
}

/// A plan for quantizing a model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MlxRecipe {
    /// The quantization of each module; `None` if it is not quantized.
    pub choices: Vec<Option<MlxQuantization>>,
    /// The value of `quantization` in `config.json`, which is repeated as `quantization_config`.
    pub config: Json,
}

impl MlxRecipe {
    /// Chooses a quantization for every module of a model.
    ///
    /// # Errors
    ///
    /// `Mismatch` for numbers of bits or group sizes that MLX does not support, for a mix in a mode
    /// other than affine or for a model without `down_proj`, and if a module gets 8 bits in a mode whose
    /// groups affine does not support and that its rows require.
    pub fn new(model: &MlxModel, modules: &[Module<'_>], options: &MlxOptions) -> Result<Self> {
        let usual = MlxQuantization::new(options.mode, options.group_size, options.bits)?;
        let place = options.mix.map(|mix| mixing(mix, modules, options.mode)).transpose()?;
        let mut config = usual.json();
        let mut choices = Vec::new();
        for module in modules {
            if !can_be_quantized(model, module, usual.group_size) {
                choices.push(None);
                continue;
            }
            let choice = match (options.mix, place) {
                (Some(mix), Some(place)) => {
                    let bits = if mix.is_high(module.path, place, model.layers) {
                        mix.high
                    } else {
                        mix.low
                    };
                    let group_size = Some(usual.group_size);
                    let named = MlxQuantization::new(MlxMode::Affine, group_size, Some(bits))?;
                    config.insert(module.path.to_owned(), Json::Object(named.json()));
                    Some(named)
                }
                _ => match own_choice(model, module.path) {
                    MlxChoice::Usual => Some(usual),
                    MlxChoice::Kept | MlxChoice::Bare => None,
                    MlxChoice::EightBits => {
                        // mlx-lm fails for other rows, and loads them in smaller groups.
                        let whole = if divides(64, module.shape) { 64 } else { usual.group_size };
                        let named = MlxQuantization::new(MlxMode::Affine, Some(whole), Some(8))?;
                        let mut json = named.json();
                        // Upstream omits the mode here, and reads a missing mode as affine.
                        json.remove("mode");
                        config.insert(module.path.to_owned(), Json::Object(json));
                        Some(named)
                    }
                },
            };
            choices.push(choice);
        }
        Ok(Self { choices, config: Json::Object(config) })
    }
}

fn divides(group_size: u32, shape: &[u64]) -> bool {
    shape.last().is_some_and(|columns| columns.is_multiple_of(group_size.into()))
}

/// Whether a module can be quantized: it has a `to_quantized` method, as linear layers and
/// embeddings have, and rows of whole groups. mlx-lm tests the class; here the name decides.
fn can_be_quantized(model: &MlxModel, module: &Module<'_>, group_size: u32) -> bool {
    let Module { path, shape } = *module;
    let own = path.rsplit('.').next().unwrap_or(path);
    let bare = is_bare(&model.model_type, path);
    (2..=3).contains(&shape.len())
        && divides(group_size, shape)
        && !["norm", "conv"].iter().any(|piece| own.contains(piece))
        && !OUTSIDE.iter().any(|piece| path.contains(piece))
        && !bare
}

/// Substrings of the names of vision and audio models. mlx-lm drops them, and mlx-vlm does not
/// quantize them.
static OUTSIDE: &[&str] = &[
    "vision_tower",
    "vision_model",
    "vision_embed",
    "visual.",
    "audio_tower",
    "embed_vision",
    "embed_audio",
    "mm_projector",
    "multi_modal_projector",
];

/// The choices of the families' tables for a module, in their order.
fn rows(model: &MlxModel, path: &str) -> impl Iterator<Item = MlxChoice> {
    let rows = family::mlx_modules(&model.model_type);
    rows.filter(move |row| row.path.matches(path)).map(|row| row.choice)
}

/// Whether mlx-lm's class of a `model_type` has no quantized form of a module.
pub(crate) fn is_bare(model_type: &str, path: &str) -> bool {
    let rows = family::mlx_modules(model_type);
    rows.filter(|row| row.path.matches(path)).any(|row| row.choice == MlxChoice::Bare)
}

/// The choice of the model's own predicate.
fn own_choice(model: &MlxModel, path: &str) -> MlxChoice {
    let model_type = &*model.model_type;
    match model_type {
        // Only experts are quantized, except those of the first and the last layer.
        "muse_spark" => {
            let found = path
                .strip_prefix("model.language_model.layers.")
                .and_then(|rest| rest.split_once(".mlp.experts."))
                .filter(|(_, end)| matches!(*end, "gate_proj" | "up_proj" | "down_proj"))
                .and_then(|(layer, _)| layer.parse::<u64>().ok());
            let inner = |layer: u64| layer != 0 && Some(layer) != model.layers.checked_sub(1);
            if found.is_some_and(inner) { MlxChoice::Usual } else { MlxChoice::Kept }
        }
        // Only linear attention is quantized.
        "bailing_moe_v3"
            if path.ends_with("attention.q_proj") || path.ends_with("attention.g_proj") =>
        {
            let layer = path.split('.').nth(2).and_then(|layer| layer.parse::<u64>().ok());
            let group = model.layer_group_size.unwrap_or(4).max(1);
            let linear = layer.is_some_and(|layer| {
                layer % group != group - 1 && layer < model.layers / group * group
            });
            if linear { MlxChoice::Usual } else { MlxChoice::Kept }
        }
        _ => rows(model, path).next().unwrap_or(MlxChoice::Usual),
    }
}

/// The position of the layer number in paths, taken from the first `down_proj`.
fn mixing(mix: &Mix, modules: &[Module<'_>], mode: MlxMode) -> Result<usize> {
    if mode != MlxMode::Affine {
        let (mix, mode) = (mix.name, mode.descriptor().name);
        return Err(Error::mismatch(format!(
            "the mix {mix} requires the mode affine, but the mode is {mode}"
        )));
    }
    let down =
        modules.iter().find(|module| module.path.contains("down_proj")).ok_or_else(|| {
            let fault = format!(
                "the mix {} requires modules named down_proj, but the model has none",
                mix.name
            );
            Error::mismatch(fault).advise("quantize without a mix")
        })?;
    let digits = |piece: &str| !piece.is_empty() && piece.bytes().all(|b| b.is_ascii_digit());
    let place = down.path.split('.').position(digits);
    Ok(place.unwrap_or_else(|| down.path.split('.').count().saturating_sub(1)))
}

impl Mix {
    /// Whether a module gets the higher number of bits.
    fn is_high(&self, path: &str, place: usize, layers: u64) -> bool {
        let layer = path.split('.').nth(place).and_then(|layer| layer.parse().ok()).unwrap_or(0);
        let any = |pieces: &[&str]| pieces.iter().any(|piece| path.contains(piece));
        any(&["lm_head"])
            || (more_bits(layer, layers) && any(&["v_proj", "v_a_proj", "v_b_proj", "down_proj"]))
    }
}
