//! The choice that mlx-lm makes, module by module: `mlx_lm.convert -q` of mlx-lm 0.32.2, and held
//! to what its own predicates say.
//!
//! A module is what has a `weight`: `model.layers.0.mlp.up_proj`. Names are those of mlx-lm's
//! models, where the experts of a layer are one module (`mlp.switch_mlp.up_proj`).

use serde_json::{Map, Value as Json, json};

use super::more_bits;
use crate::arch::family;
use crate::arch::habits::MlxChoice;
use crate::dtype::DType;
use crate::error::{Error, Result};

/// How groups are quantized, as `--q-mode` names it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names say it")]
pub enum Mode {
    #[default]
    Affine,
    Mxfp4,
    Nvfp4,
    Mxfp8,
}

/// What is known of one mode.
#[derive(Debug)]
#[non_exhaustive]
pub struct ModeDescriptor {
    /// The mode of this row.
    pub mode: Mode,
    /// Its name.
    pub name: &'static str,
    /// Elements of a group, where nobody says.
    pub group_size: u32,
    /// Bits of an element, where nobody says.
    pub bits: u32,
    /// Which bits there are, and their dtypes.
    dtypes: &'static [(u32, DType)],
    /// How long groups may be.
    group_sizes: &'static [u32],
}

/// Every mode: defaults from `quantize_model` of mlx_lm/utils.py.
#[rustfmt::skip]
pub static MODES: &[ModeDescriptor] = &[
    ModeDescriptor { mode: Mode::Affine, name: "affine", group_size: 64, bits: 4, group_sizes: &[32, 64, 128], dtypes: &[
        (1, DType::MLX_AFFINE1), (2, DType::MLX_AFFINE2), (3, DType::MLX_AFFINE3), (4, DType::MLX_AFFINE4),
        (5, DType::MLX_AFFINE5), (6, DType::MLX_AFFINE6), (8, DType::MLX_AFFINE8),
    ] },
    ModeDescriptor { mode: Mode::Mxfp4, name: "mxfp4", group_size: 32, bits: 4, group_sizes: &[32], dtypes: &[(4, DType::MLX_MXFP4)] },
    ModeDescriptor { mode: Mode::Nvfp4, name: "nvfp4", group_size: 16, bits: 4, group_sizes: &[16], dtypes: &[(4, DType::MLX_NVFP4)] },
    ModeDescriptor { mode: Mode::Mxfp8, name: "mxfp8", group_size: 32, bits: 8, group_sizes: &[32], dtypes: &[(8, DType::MLX_MXFP8)] },
];

impl Mode {
    /// The row of the table.
    pub fn descriptor(self) -> &'static ModeDescriptor {
        #[expect(clippy::indexing_slicing, reason = "one row for each variant, in order")]
        &MODES[self as usize]
    }

    /// The mode of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        MODES.iter().find(|row| row.name == name).map(|row| row.mode)
    }
}

/// Fewer bits for most modules, more for those that matter: `--quant-predicate`.
#[derive(Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Mix {
    /// Its name.
    pub name: &'static str,
    /// Bits of most modules.
    pub low: u32,
    /// Bits of the rest.
    pub high: u32,
}

/// Every mix, from `mixed_quant_predicate_builder` of mlx_lm/convert.py.
pub static MIXES: &[Mix] = &[
    Mix { name: "mixed_2_6", low: 2, high: 6 },
    Mix { name: "mixed_3_4", low: 3, high: 4 },
    Mix { name: "mixed_3_6", low: 3, high: 6 },
    Mix { name: "mixed_4_6", low: 4, high: 6 },
];

impl Mix {
    /// The mix of a name.
    pub fn from_name(name: &str) -> Option<&'static Self> {
        MIXES.iter().find(|mix| mix.name == name)
    }
}

/// A codec's choice for one module.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Quantization {
    /// How.
    pub mode: Mode,
    /// Elements of a group.
    pub group_size: u32,
    /// Bits of an element.
    pub bits: u32,
    /// The dtype that mode and bits make.
    pub dtype: DType,
}

impl Quantization {
    /// Fills in what is not said.
    ///
    /// # Errors
    ///
    /// `Mismatch` for bits or groups that MLX does not have.
    pub fn new(mode: Mode, group_size: Option<u32>, bits: Option<u32>) -> Result<Self> {
        let row = mode.descriptor();
        let (group_size, bits) = (group_size.unwrap_or(row.group_size), bits.unwrap_or(row.bits));
        if !row.group_sizes.contains(&group_size) {
            let (name, allowed) = (row.name, list(row.group_sizes.iter().copied()));
            let fault = format!("{name} has groups of {allowed}, and not of {group_size}");
            return Err(Error::mismatch(fault));
        }
        let found = row.dtypes.iter().find(|(of, _)| *of == bits);
        let dtype = found.map(|(_, dtype)| *dtype).ok_or_else(|| {
            let (name, allowed) = (row.name, list(row.dtypes.iter().map(|(bits, _)| *bits)));
            Error::mismatch(format!("{name} has elements of {allowed} bits, and not of {bits}"))
        })?;
        Ok(Self { mode, group_size, bits, dtype })
    }

    /// As it stands in `config.json`.
    fn json(&self) -> Map<String, Json> {
        let mut map = Map::new();
        map.insert("group_size".to_owned(), json!(self.group_size));
        map.insert("bits".to_owned(), json!(self.bits));
        map.insert("mode".to_owned(), json!(self.mode.descriptor().name));
        map
    }
}

fn list(numbers: impl Iterator<Item = u32>) -> String {
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    numbers.join(", ")
}

/// What the choice asks of a model beside its modules.
#[derive(Clone, Debug, Default)]
pub struct MlxModel {
    /// `model_type`, as `config.json` has it.
    pub model_type: String,
    /// Layers of the decoder.
    pub layers: u64,
    /// `layer_group_size`: the last of so many layers has full attention. Only bailing_moe_v3's
    /// choice goes by it.
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

/// What is to be made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// `--q-mode`.
    pub mode: Mode,
    /// `--q-group-size`.
    pub group_size: Option<u32>,
    /// `--q-bits`.
    pub bits: Option<u32>,
    /// `--quant-predicate`; instead of the model's own.
    pub mix: Option<&'static Mix>,
}

/// What becomes of a model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recipe {
    /// For each module its quantization; none where it stays as it is.
    pub choices: Vec<Option<Quantization>>,
    /// What `config.json` says under `quantization`, and once more under `quantization_config`.
    pub config: Json,
}

impl Recipe {
    /// Chooses for every module of a model.
    ///
    /// # Errors
    ///
    /// `Mismatch` for bits or groups that MLX does not have, for a mix in another mode than affine or
    /// for a model without `down_proj`, and where a module has more bits than the rest in groups that
    /// its rows are no whole number of.
    pub fn new(model: &MlxModel, modules: &[Module<'_>], options: &Options) -> Result<Self> {
        let usual = Quantization::new(options.mode, options.group_size, options.bits)?;
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
                    let named = Quantization::new(Mode::Affine, group_size, Some(bits))?;
                    config.insert(module.path.to_owned(), Json::Object(named.json()));
                    Some(named)
                }
                _ => match own_choice(model, module.path) {
                    MlxChoice::Usual => Some(usual),
                    MlxChoice::Kept | MlxChoice::Bare => None,
                    MlxChoice::EightBits => {
                        let named = Quantization::new(Mode::Affine, Some(64), Some(8))?;
                        let mut json = named.json();
                        // Upstream leaves it out, and reads affine where it is not there.
                        json.remove("mode");
                        config.insert(module.path.to_owned(), Json::Object(json));
                        Some(named)
                    }
                },
            };
            if let Some(Quantization { group_size, .. }) = choice
                && !divides(group_size, module.shape)
            {
                let columns = module.shape.last().copied().unwrap_or(0);
                let fault =
                    format!("rows of {columns} elements are no whole groups of {group_size}");
                return Err(Error::mismatch(fault).in_tensor(module.path));
            }
            choices.push(choice);
        }
        Ok(Self { choices, config: Json::Object(config) })
    }
}

fn divides(group_size: u32, shape: &[u64]) -> bool {
    shape.last().is_some_and(|columns| columns.is_multiple_of(group_size.into()))
}

/// Whether a module has a `to_quantized`, which linear layers and embeddings have, and rows of whole
/// groups. mlx-lm knows by its classes; here the names tell.
fn can_be_quantized(model: &MlxModel, module: &Module<'_>, group_size: u32) -> bool {
    let Module { path, shape } = *module;
    let own = path.rsplit('.').next().unwrap_or(path);
    let bare = rows(model, path).any(|choice| choice == MlxChoice::Bare);
    (2..=3).contains(&shape.len())
        && divides(group_size, shape)
        && !["norm", "conv"].iter().any(|piece| own.contains(piece))
        && !OUTSIDE.iter().any(|piece| path.contains(piece))
        && !bare
}

/// Pieces of the names of other towers. mlx-lm drops them, and mlx-vlm leaves them as they are.
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

/// What the tables of the families say of a module, in their order.
fn rows(model: &MlxModel, path: &str) -> impl Iterator<Item = MlxChoice> {
    let rows = family::mlx_modules(&model.model_type);
    rows.filter(move |row| row.path.matches(path)).map(|row| row.choice)
}

/// The choice of the model's own predicate.
fn own_choice(model: &MlxModel, path: &str) -> MlxChoice {
    let model_type = &*model.model_type;
    match model_type {
        // Only experts are quantized, and not those of the first and the last layer.
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

/// Where the number of the layer stands in a path: as in the first module that has one to tell.
fn mixing(mix: &Mix, modules: &[Module<'_>], mode: Mode) -> Result<usize> {
    if mode != Mode::Affine {
        let (mix, mode) = (mix.name, mode.descriptor().name);
        return Err(Error::mismatch(format!("{mix} is a mix of affine groups, and not of {mode}")));
    }
    let down =
        modules.iter().find(|module| module.path.contains("down_proj")).ok_or_else(|| {
            let fault = format!("{} goes by down_proj, and no module is called so", mix.name);
            Error::mismatch(fault).advise("quantize without a mix")
        })?;
    let digits = |piece: &str| !piece.is_empty() && piece.bytes().all(|b| b.is_ascii_digit());
    let place = down.path.split('.').position(digits);
    Ok(place.unwrap_or_else(|| down.path.split('.').count().saturating_sub(1)))
}

impl Mix {
    /// Whether a module is one of those that matter.
    fn is_high(&self, path: &str, place: usize, layers: u64) -> bool {
        let layer = path.split('.').nth(place).and_then(|layer| layer.parse().ok()).unwrap_or(0);
        let any = |pieces: &[&str]| pieces.iter().any(|piece| path.contains(piece));
        any(&["lm_head"])
            || (more_bits(layer, layers) && any(&["v_proj", "v_a_proj", "v_b_proj", "down_proj"]))
    }
}
