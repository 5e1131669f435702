//! Model families: the mapping of stored names to canonical names, the transforms, and the model
//! config. A family is an [`Architecture`].

mod auxiliary;
mod conditional;
pub(crate) mod config;
mod cut;
mod dialect_names;
mod experts;
pub(crate) mod family;
mod generation;
pub(crate) mod graph;
pub(crate) mod habits;
mod linear;
mod missing;
mod resolution;
pub(crate) mod rotary;
mod rule;
mod runs;
pub(crate) mod size;
pub(crate) mod source;
mod structure;
pub(crate) mod tensor;
pub(crate) mod tower;
pub(crate) mod transform;
pub(crate) mod variant;
mod wrapper;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;

pub use crate::dialect::Dialect;
use crate::error::{Error, Result};
use crate::json::Json;
use crate::store::{Encoding, Store};
pub(crate) use auxiliary::NEXT_TOKENS;
pub(crate) use conditional::ConditionalName;
pub use config::{
    AttentionConfig, ConfigField, ConfigValue, EncoderConfig, ExpertConfig, Field, Gating,
    LayerKind, LayerLayout, ModelConfig, NormKind, RopeConfig, RopeScaling, RopeScalingKind,
    ScaleConfig, SsmConfig,
};
use config::{ConfigReader, Defaults};
pub(crate) use cut::{Cut, Stage, TensorCut, pipeline_layers};
pub(crate) use dialect_names::{DialectTensor, Rename, dialect_tensors};
use experts::{Experts, add_experts};
pub use family::{FamilyFile, architectures};
pub use generation::GenerationConfig;
use habits::MlxModules;
pub use linear::Linear;
use missing::{LayerNames, missing, stack};
pub use rule::{NameRule, StoredForm};
pub use runs::{Half, Projection};
pub(crate) use runs::{RowLoops, RowSelection, RowSpan};
use source::SourceModel;
pub use transform::{Axes, Change, RowOrder, Transform};
use variant::Variant;

/// A family of models whose tensors have the same names and meanings.
#[derive(Debug)]
#[non_exhaustive]
pub struct Architecture {
    /// The name, as `weighbridge list architectures` shows it.
    pub name: &'static str,
    /// The models it covers.
    pub summary: &'static str,
    /// Values of `general.architecture` in GGUF.
    pub gguf: &'static [&'static str],
    /// Values of `model_type` in `config.json`.
    pub hf: &'static [&'static str],
    /// Another row for some models with the same `model_type`.
    pub(crate) instead: Option<Instead>,
    /// The order of rows that rotary embeddings expect in a Hugging Face checkpoint.
    pub rope: RopeLayout,
    /// Tables of names; the first table that has a name takes precedence.
    pub rules: &'static [&'static [NameRule]],
    /// Tensors that MLX stores in another form than Hugging Face under the same name.
    pub mlx: &'static [NameRule],
    /// Names in the publisher's own checkpoints, where they differ from both.
    pub publisher: &'static [NameRule],
    /// Prefixes of stored names in Hugging Face and MLX files, and the prefix used in the tables.
    /// They are tried in order, after the name itself.
    pub prefixes: &'static [(&'static str, &'static str)],
    /// Canonical names that it has rules for, that other families require, and that a complete model
    /// of this one may lack.
    pub optional: &'static [&'static str],
    /// Names that a class of a dialect uses instead of those in the tables.
    pub(crate) renames: &'static [Rename],
    /// Canonical names that depend on the other tensors of the model.
    pub(crate) conditional_names: &'static [ConditionalName],
    /// Stored names for writing such tensors, where [`rules`](Self::rules) has the same stored name for
    /// the usual canonical one. They take precedence over `rules`, and are not used for reading.
    pub(crate) conditional_rules: &'static [NameRule],
    /// Patterns of stored names that no model code asks for, in addition to [`auxiliary`], and what
    /// such a tensor is.
    pub(crate) auxiliary: &'static [(&'static str, &'static str)],
    /// The number of rows of the position embedding before that of the first position, which GGUF
    /// drops.
    pub(crate) rows_before_positions: Option<fn(&SourceModel<'_>) -> Result<u64>>,
    /// The values of `general.architecture`, and what is known of each.
    pub(crate) variants: &'static [Variant],
    /// Small tensors of each layer that GGUF states as keys.
    pub(crate) keyed: &'static [KeyedTensor],
    /// Values of `model_type` whose classes in transformers store all experts of a layer in one
    /// tensor, where others of the family store a tensor for each.
    pub(crate) joined_experts: &'static [&'static str],
    /// Values of `model_type` that mlx-lm has no class for, and a program with one whose tensors and
    /// keys are those of Hugging Face's directories.
    pub(crate) mlx_readers: &'static [(&'static str, &'static str)],
    /// mlx-lm's choices for some modules.
    pub(crate) mlx_modules: &'static [MlxModules],
    /// Whether mlx-lm's class expects the names of vision and audio models as Hugging Face's files
    /// have them, with `model.` at the start.
    pub(crate) mlx_keeps_tower_names: bool,
    /// Whether transformers' class of the model with images holds the language model with its output
    /// matrix, as `language_model.model` and `language_model.lm_head`.
    pub(crate) outer_head: bool,
    /// Substrings of the names of tensors that mlx-lm does not cast to the model's dtype
    /// (`cast_predicate` of its classes).
    pub(crate) mlx_uncast: &'static [&'static str],
    /// Whether its models are encoders, which generate no text: each token sees those behind it.
    pub(crate) encodes: bool,
    /// Whether the number of layers in the files is that of an encoder before the decoder, which has as
    /// many layers unless another key states their number.
    pub(crate) counts_encoder_layers: bool,
    /// Whether the residual stream of published models exceeds the range of `F16`.
    pub(crate) exceeds_f16: bool,
    /// What a decoder computes beyond what the config and the tensors say, for programs that run models;
    /// `None` if no line says that it can be run.
    pub decoder: Option<&'static [PlanLine]>,
}

impl Architecture {
    /// An architecture without any facts, to build others from.
    pub(crate) const EMPTY: Self = Self {
        name: "",
        summary: "",
        gguf: &[],
        hf: &[],
        instead: None,
        rope: RopeLayout::None,
        rules: &[],
        mlx: &[],
        publisher: &[],
        prefixes: &[],
        optional: &[],
        renames: &[],
        conditional_names: &[],
        conditional_rules: &[],
        auxiliary: &[],
        rows_before_positions: None,
        variants: &[],
        keyed: &[],
        joined_experts: &[],
        mlx_readers: &[],
        mlx_modules: &[],
        mlx_keeps_tower_names: false,
        outer_head: false,
        mlx_uncast: &[],
        encodes: false,
        counts_encoder_layers: false,
        exceeds_f16: false,
        decoder: None,
    };
}

/// A line of a family's plan for decoders: the name of a block, and its values.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct PlanLine {
    /// The block.
    pub block: &'static str,
    /// Its values.
    pub values: &'static [&'static str],
}

/// The row of models whose `config.json` states the `model_type` of another row.
#[derive(Debug)]
pub(crate) struct Instead {
    /// The condition on `config.json`.
    pub(crate) when: fn(&Json) -> bool,
    /// The name of the other row.
    pub(crate) architecture: &'static str,
}

/// A tensor of one value in each layer, which GGUF states as a key with a value for each layer.
#[derive(Debug)]
pub(crate) struct KeyedTensor {
    /// The canonical name.
    pub(crate) canonical: &'static str,
    /// The key, which does not follow the architecture's name.
    pub(crate) key: &'static str,
    /// The tensor's shape in Hugging Face's files and mlx-lm's.
    pub(crate) shape: &'static [u64],
}

impl KeyedTensor {
    /// Whether this is the canonical name of such a tensor.
    pub(crate) fn is(&self, canonical: &str) -> bool {
        rule::pattern(canonical).layers == self.canonical
    }
}

/// The order of the rows of q and k within a head, which determines how rotary embeddings apply.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum RopeLayout {
    /// Row i pairs with row i + half ("NEOX", `rotate_half`).
    HalfSplit,
    /// Row 2i pairs with row 2i + 1 ("NORM").
    Interleaved,
    /// The model has no rotary embeddings.
    None,
}

impl RopeLayout {
    /// The name, as reports show it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HalfSplit => "half_split",
            Self::Interleaved => "interleaved",
            Self::None => "none",
        }
    }
}

/// A canonical tensor and the stored tensors that hold it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Mapping {
    /// The name that engines ask for.
    pub canonical: String,
    /// The names in the file: one name, or one for each expert in order.
    pub stored: Vec<String>,
    /// Whether each expert has a stored tensor of its own. Together they form one canonical tensor
    /// with an additional axis.
    pub stacked: bool,
    /// How each stored tensor differs from the canonical one, or from its expert's part of it.
    pub transform: Transform,
}

/// A stored tensor that no model code asks for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Auxiliary {
    /// The name in the file.
    pub stored: String,
    /// A description of the tensor.
    pub reason: &'static str,
}

/// How a model's stored names map to canonical names. Every tensor is accounted for: those without
/// a canonical name are in [`unknown`](Self::unknown), missing ones in [`missing`](Self::missing).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Resolution {
    /// The architecture, or `None` if it is unknown.
    pub architecture: Option<&'static Architecture>,
    /// The dialect of the model's tensor names.
    pub dialect: Dialect,
    /// Why this architecture was chosen, or why none was.
    pub reason: String,
    /// What a program that wraps a model, or modules of it, put into stored names; empty if there is
    /// nothing. The tables have the names without it.
    pub wrapper: String,
    /// The number of stored names that have such a piece.
    pub wrapped: usize,
    /// Tensors with canonical names, in the order of the files.
    pub mapped: Vec<Mapping>,
    /// Known tensors that are not weights of the language model: made by a converter, computed from
    /// the config, or part of another model in the same files.
    pub auxiliary: Vec<Auxiliary>,
    /// Stored names without a canonical name, in the order of the files.
    pub unknown: Vec<String>,
    /// Canonical names of tensors that the architecture requires and the model lacks. Ranges of
    /// whole layers form one entry, `layers.4..8`; so does a tensor that several layers lack,
    /// `layers.[0-3,7].ffn.up.weight`.
    pub missing: Vec<String>,
}

/// A model's name for its architecture, and where the name was found.
#[derive(Debug)]
pub(crate) struct ArchitectureName {
    pub(crate) name: String,
    pub(crate) source: String,
}

/// The model's name for its architecture, if its files have one.
///
/// # Errors
///
/// `Malformed` if the value is not a string.
pub(crate) fn architecture_name(store: &Store) -> Result<Option<ArchitectureName>> {
    let key = "general.architecture";
    if let Some(value) = store.metadata().get(key) {
        let name = value.to_text().and_then(|text| text.to_str()).ok_or_else(|| {
            let name = value.value_type().name();
            Error::malformed(format!(
                "a {name}, but a string with the architecture's name is needed"
            ))
            .in_file(store.path())
            .in_key(key)
        })?;
        return Ok(Some(ArchitectureName { name: name.to_owned(), source: key.to_owned() }));
    }
    if let Some(config) = store.document("config.json") {
        // The config of the language model is more specific than that of a model that contains it.
        for (at, config) in config::nested_configs(config) {
            if let Some(name) = config.get("model_type").and_then(|name| name.as_str()) {
                let dot = if at.is_empty() { "" } else { "." };
                let source = format!("config.json {at}{dot}model_type");
                return Ok(Some(ArchitectureName { name: name.to_owned(), source }));
            }
        }
    }
    let publishers = architectures().into_iter().find(|row| is_publishers(store, row));
    if let Some(row) = publishers.filter(|_| store.document("params.json").is_some()) {
        let source = "params.json, and tensors with Mistral's own names".to_owned();
        return Ok(Some(ArchitectureName { name: row.name.to_owned(), source }));
    }
    Ok(None)
}

/// A reader of config values, and the architecture's name.
///
/// # Errors
///
/// `Malformed` if the model does not state its architecture.
pub(crate) fn config_reader(store: &Store) -> Result<(ConfigReader<'_>, Field<String>)> {
    ConfigReader::new(store, defaults(store)?)
}

/// The defaults of a model's architecture.
fn defaults(store: &Store) -> Result<Defaults> {
    Ok(architecture_name(store)?.map(|named| family::defaults(&named.name)).unwrap_or_default())
}

/// The config of a model, see [`Model::config`](crate::Model::config).
///
/// # Errors
///
/// `Unsupported` if the model does not state its architecture, or is not a language model;
/// `Malformed` if it lacks a required number, or has an invalid one: zero heads, or a width that is
/// not an integer.
pub(crate) fn model_config(store: &Store, resolution: &Resolution) -> Result<ModelConfig> {
    ModelConfig::of(store, resolution, defaults(store)?)
}

/// Detects the architecture and maps every stored tensor to its canonical name, if it has one.
///
/// # Errors
///
/// `Malformed` if the architecture's name is not a string, or two tensors have the same canonical
/// name.
pub(crate) fn resolve(store: &Store) -> Result<Resolution> {
    let named = architecture_name(store)?;
    let found = named.as_ref().and_then(|named| named.architecture(store));
    let reason = match &named {
        Some(named) => named.reason(found.is_some()),
        None => "no file states the architecture".to_owned(),
    };
    let dialect = detected_dialect(store, found);
    let mut resolution = Resolution::empty(found, dialect, reason);
    let Some(architecture) = found else {
        let defaults = named.map(|named| family::defaults(&named.name)).unwrap_or_default();
        return Ok(structure::resolve(store, resolution, defaults));
    };
    let names = names_of(architecture, dialect);
    let within = within(store, &resolution, architecture, &names);
    let required = architecture.required();
    let bits = bits_of(&required);
    // Which of the required names each layer has, one bit each. The layers are those with stored
    // tensors, not those that the config states.
    let mut layers = LayerNames::new();
    // The table row of each mapping.
    let mut ranks: Vec<u32> = Vec::new();
    // Tensors of experts, by the row's canonical name and the layer.
    let mut experts: HashMap<(&str, Option<u32>), Experts, RandomState> = HashMap::default();
    for tensor in store.tensors() {
        let stored = tensor.name().spelling();
        let found = find(&stored, architecture, dialect, &names);
        let bare = match found {
            None if !is_gguf(store) => resolution.unwrap(&stored),
            _ => Cow::Borrowed(&*stored),
        };
        let found = found.or_else(|| find(&bare, architecture, dialect, &names));
        let inner = || find(bare.strip_prefix(&*within)?, architecture, dialect, &names);
        let Some(found) = found.or_else(inner) else {
            let reason = auxiliary::reason(&bare, architecture.auxiliary);
            let stored = stored.clone().into_owned();
            match reason {
                Some(reason) => resolution.auxiliary.push(Auxiliary { stored, reason }),
                None => resolution.unknown.push(stored),
            }
            continue;
        };
        for &DialectRow { rank, canonical, transform } in found.rows {
            if let Some(layer) = found.layer.zip(stack(canonical)) {
                *layers.entry(layer).or_default() |= bits.get(canonical).copied().unwrap_or(0);
            }
            let name = || rule::expand(canonical, found.layer);
            let Some(expert) = found.expert else {
                let (canonical, stored) = (name(), vec![stored.clone().into_owned()]);
                resolution.mapped.push(Mapping { canonical, stored, stacked: false, transform });
                ranks.push(rank);
                continue;
            };
            let experts = experts.entry((canonical, found.layer)).or_insert_with(|| {
                let (canonical, place) = (name(), resolution.mapped.len());
                let stored = Vec::new();
                resolution.mapped.push(Mapping { canonical, stored, stacked: true, transform });
                ranks.push(rank);
                Experts { place, stored: Vec::new() }
            });
            experts.stored.push((expert, stored.clone().into_owned()));
        }
    }
    let experts = experts.into_values();
    add_experts(experts, &mut resolution).map_err(|error| error.in_file(store.path()))?;
    keep_once(&mut resolution, &ranks).map_err(|error| error.in_file(store.path()))?;
    architecture.conditional_names.iter().for_each(|row| row.apply(&mut resolution.mapped));
    let promised = named.and_then(|named| {
        let defaults = family::defaults(&named.name);
        config::promised_layers(store, architecture, defaults)
    });
    let promised = promised.unwrap_or_default();
    // Arrays of a scheme that is not supported may stand for any tensor.
    if store.check_known().is_ok() {
        resolution.missing = missing(&required, &resolution.mapped, &layers, promised);
    }
    Ok(resolution)
}

/// The prefix that the layers of the language model have within another model, if no name of a layer is
/// one of the family's.
fn within(
    store: &Store,
    resolution: &Resolution,
    architecture: &Architecture,
    names: &DialectRows,
) -> String {
    let dialect = resolution.dialect;
    if dialect == Dialect::Gguf {
        return String::new();
    }
    let is_of_layers = |name: &str| {
        find(name, architecture, dialect, names).is_some_and(|found| found.layer.is_some())
    };
    let is_auxiliary = |name: &str| auxiliary::reason(name, architecture.auxiliary).is_some();
    let bare = || {
        store.tensors().map(|tensor| wrapper::unwrapped(&tensor.name().spelling()).0.into_owned())
    };
    if bare().any(|name| is_of_layers(&name) && !is_auxiliary(&name)) {
        return String::new();
    }
    let bare: Vec<String> = bare().filter(|name| !is_auxiliary(name)).collect();
    wrapper::inner(&bare, &resolution.reason, is_of_layers)
}

/// Whether the files use GGUF's names. whisper.cpp's own files use the same names as its GGUF files.
fn is_gguf(store: &Store) -> bool {
    matches!(store.encoding(), Encoding::Gguf | Encoding::Ggml)
}

impl ArchitectureName {
    /// Why the model has the architecture, or none.
    fn reason(&self, is_known: bool) -> String {
        let Self { name, source } = self;
        let unknown = if is_known { "" } else { ", which is not a known architecture" };
        format!("{source} is \"{name}\"{unknown}")
    }

    /// The architecture of this name.
    fn architecture(&self, store: &Store) -> Option<&'static Architecture> {
        let row = family::architecture(&self.name, is_gguf(store))?;
        let config = store.document("config.json");
        let instead =
            row.instead.as_ref().zip(config).filter(|(other, config)| (other.when)(config));
        match instead {
            Some((other, _)) => family::architecture(other.architecture, true),
            None => Some(row),
        }
    }
}

/// The dialect of the stored names.
fn detected_dialect(store: &Store, architecture: Option<&Architecture>) -> Dialect {
    match architecture {
        _ if is_gguf(store) => Dialect::Gguf,
        Some(row) if has_names_of_mlx(store, row) => Dialect::Mlx,
        Some(row) if is_publishers(store, row) => Dialect::Publisher,
        _ if is_mlx(store) => Dialect::Mlx,
        _ => Dialect::HuggingFace,
    }
}

/// Keeps one mapping of each canonical tensor.
fn keep_once(resolution: &mut Resolution, ranks: &[u32]) -> Result<()> {
    let names = resolution.mapped.iter().map(|mapping| mapping.canonical.as_str());
    let distinct = names.collect::<HashSet<&str, RandomState>>().len();
    if distinct == resolution.mapped.len() {
        return Ok(());
    }
    keep_first_rows(resolution, ranks);
    check_once(resolution)
}

/// Checks that each canonical tensor is stored once.
fn check_once(resolution: &Resolution) -> Result<()> {
    let mut sorted: Vec<&Mapping> = resolution.mapped.iter().collect();
    sorted.sort_by(|a, b| a.canonical.cmp(&b.canonical));
    let twice = sorted.windows(2).find(|pair| matches!(pair, [a, b] if a.canonical == b.canonical));
    let Some([first, second]) = twice else { return Ok(()) };
    let name = |mapping: &Mapping| mapping.stored.first().cloned().unwrap_or_default();
    let fault = format!("it and \"{}\" are both \"{}\"", name(first), first.canonical);
    Err(Error::malformed(fault).in_tensor(name(second)))
}

/// Of a tensor that is stored in several forms, keeps the form that is first in the tables:
/// ik_llama.cpp stores `attn_kv_b` beside the two tensors that it is split into.
fn keep_first_rows(resolution: &mut Resolution, ranks: &[u32]) {
    let mut first: HashMap<&str, u32, RandomState> = HashMap::default();
    for (mapping, &rank) in resolution.mapped.iter().zip(ranks) {
        let first = first.entry(&mapping.canonical).or_insert(rank);
        *first = rank.min(*first);
    }
    let is_first = |(mapping, rank): (&Mapping, &u32)| first.get(&*mapping.canonical) == Some(rank);
    let keep: Vec<bool> = resolution.mapped.iter().zip(ranks).map(is_first).collect();
    if keep.iter().all(|keep| *keep) {
        return;
    }
    let (mut kept, mut others) = (Vec::new(), Vec::new());
    for (mapping, keep) in std::mem::take(&mut resolution.mapped).into_iter().zip(keep) {
        if keep { kept.push(mapping) } else { others.extend(mapping.stored) }
    }
    let serves: HashSet<&String> = kept.iter().flat_map(|mapping| &mapping.stored).collect();
    others.retain(|stored| !serves.contains(stored));
    others.sort();
    others.dedup();
    let reason = "a copy of tensors that are stored in another form";
    let others = others.into_iter().map(|stored| Auxiliary { stored, reason });
    resolution.auxiliary.extend(others);
    resolution.mapped = kept;
}

/// Whether the files are the publisher's own: they contain the publisher's name of the embedding.
fn is_publishers(store: &Store, architecture: &Architecture) -> bool {
    let first = architecture.publisher.first();
    first.is_some_and(|rule| store.find(rule.hf.name).is_some())
}

/// Whether a stored name is used by MLX only.
fn has_names_of_mlx(store: &Store, architecture: &Architecture) -> bool {
    let known = |name: &str| {
        let mut rules = architecture.rules.iter().copied().flatten();
        rules.any(|rule| rule.hf.name == name)
    };
    let others = |name: &str| {
        let instead = |(prefix, instead): &(&str, &str)| {
            name.strip_prefix(prefix).is_some_and(|rest| known(&format!("{instead}{rest}")))
        };
        known(name) || architecture.prefixes.iter().any(instead)
    };
    let names = architecture.mlx.iter().map(|rule| rule.hf.name);
    let stored = |name: &str| store.tensor(&rule::expand(name, Some(0))).is_ok();
    names.filter(|name| stored(name)).any(|name| !others(name))
}

/// Whether mlx-lm wrote the files: they are quantized in its format, or their metadata state it.
/// The `format` entry is written by `mlx_lm.utils.save_model`.
fn is_mlx(store: &Store) -> bool {
    let format = store.metadata().get("format").and_then(|value| value.to_text());
    store.container() == "mlx" || format.is_some_and(|format| format.as_bytes() == b"mlx")
}

/// A row of the tables, as one dialect reads it.
#[derive(Clone, Copy, Debug)]
struct DialectRow {
    /// Index among all rows; see also [`SERVES_SEVERAL`].
    rank: u32,
    canonical: &'static str,
    transform: Transform,
}

/// Marks the rank of a stored tensor that serves several canonical ones as a whole.
const SERVES_SEVERAL: u32 = 1 << 31;

/// Rows by stored pattern. A stored tensor may hold several canonical ones.
type DialectRows = HashMap<&'static str, Vec<DialectRow>, RandomState>;

fn names_of(architecture: &'static Architecture, dialect: Dialect) -> DialectRows {
    let mut names = DialectRows::default();
    let (publisher, mlx) = (&[architecture.publisher][..], &[architecture.mlx][..]);
    let tables = match dialect {
        Dialect::Publisher => [publisher, &[]],
        Dialect::Mlx => [mlx, architecture.rules],
        Dialect::Gguf | Dialect::HuggingFace => [&[], architecture.rules],
    };
    let mut ranks = 0..;
    for table in tables.into_iter().flatten() {
        let stored = |rule: &NameRule| if dialect == Dialect::Gguf { rule.gguf } else { rule.hf };
        // Rows of one table may share a stored tensor; rows of later tables may not.
        let mut these = DialectRows::default();
        for (rule, rank) in table.iter().zip(&mut ranks) {
            let StoredForm { name, transform } = stored(rule);
            if !name.is_empty() && !names.contains_key(name) {
                let row = DialectRow { rank, canonical: rule.canonical, transform };
                these.entry(name).or_default().push(row);
            }
        }
        // A tensor that serves several canonical ones as a whole serves those that have none of
        // their own: a norm that a layer uses twice.
        for rows in these.values_mut().filter(|rows| rows.len() > 1) {
            let whole = rows.iter_mut().filter(|row| row.transform.rows == RowOrder::All);
            whole.for_each(|row| row.rank |= SERVES_SEVERAL);
        }
        names.extend(these);
    }
    names
}

/// The bit of each required name of a layer, for each of its alternatives.
fn bits_of(required: &[Vec<&'static str>]) -> HashMap<&'static str, u64, RandomState> {
    let required = (0..64u32).zip(required);
    required.flat_map(|(bit, names)| names.iter().map(move |&name| (name, 1 << bit))).collect()
}

/// The result of looking up a stored name.
struct NameMatch<'n> {
    rows: &'n [DialectRow],
    layer: Option<u32>,
    expert: Option<u32>,
}

fn find<'n>(
    stored: &str,
    architecture: &Architecture,
    dialect: Dialect,
    names: &'n DialectRows,
) -> Option<NameMatch<'n>> {
    let look = |name: &str| {
        let rule::Pattern { layers, layer, experts } = rule::pattern(name);
        if let Some(rows) = names.get(layers.as_str()) {
            return Some(NameMatch { rows, layer, expert: None });
        }
        let Some((pattern, expert)) = experts else {
            // Outside of layers, a single number may be that of one of several tensors.
            let rows = names.get(layers.replace("{n}", "{e}").as_str())?;
            return Some(NameMatch { rows, layer: None, expert: layer });
        };
        let rows = names.get(pattern.as_str())?;
        Some(NameMatch { rows, layer, expert: Some(expert) })
    };
    look(stored).or_else(|| {
        let prefixes = if dialect == Dialect::Gguf { &[] } else { architecture.prefixes };
        prefixes.iter().find_map(|(prefix, instead)| {
            let rest = stored.strip_prefix(prefix)?;
            look(&format!("{instead}{rest}"))
        })
    })
}

/// A canonical tensor under a stored name.
pub(crate) struct CanonicalMatch {
    pub(crate) canonical: String,
    /// The number of the expert, if each expert has a stored tensor of its own.
    pub(crate) expert: Option<u32>,
    pub(crate) transform: Transform,
}

/// The canonical tensors that a dialect stores under a name, whether or not a model has it.
pub(crate) fn canonical_of(
    architecture: &'static Architecture,
    dialect: Dialect,
    stored: &str,
) -> Vec<CanonicalMatch> {
    let names = names_of(architecture, dialect);
    let Some(found) = find(stored, architecture, dialect, &names) else { return Vec::new() };
    let each = |row: &DialectRow| CanonicalMatch {
        canonical: rule::expand(row.canonical, found.layer),
        expert: found.expert,
        transform: row.transform,
    };
    found.rows.iter().map(each).collect()
}

/// The canonical tensors that a dialect stores under these names: pairs of a canonical and a stored name.
pub(crate) fn canonical_names<'a>(
    architecture: &'static Architecture,
    dialect: Dialect,
    stored: impl Iterator<Item = &'a str>,
) -> Vec<(String, String)> {
    let names = names_of(architecture, dialect);
    let mut pairs = Vec::new();
    for stored in stored {
        let Some(found) = find(stored, architecture, dialect, &names) else { continue };
        let canonical = |row: &DialectRow| rule::expand(row.canonical, found.layer);
        pairs.extend(found.rows.iter().map(|row| (canonical(row), stored.to_owned())));
    }
    pairs
}
