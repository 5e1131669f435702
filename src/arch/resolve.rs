//! Detects the architecture of a model, and maps its stored names to canonical ones.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;

use super::architecture::{Architecture, Prefix, RopeLayout};
use super::auxiliary;
use super::config::{
    self, ConfigReader, ConfigValue, Field, FieldSource, KeptDocument, ModelConfig,
};
use super::experts::{Experts, add_experts};
use super::family::{self, architectures};
use super::kept::{self, Kept};
use super::mapping::{Mapping, settle_square_matrices};
use super::missing::{LayerNames, missing, stack};
use super::resolution::{Auxiliary, Resolution};
use super::rule::{self, NameRule, StoredForm};
use super::source::SourceModel;
use super::text_class::text_class;
use super::transform::{RowOrder, Transform};
use super::wrapper::OwnPieces;
use super::{config_json, other_models, structure, tied, undecoded, wrapper};
use crate::dialect::Dialect;
use crate::error::{Error, Result};
use crate::json::Json;
use crate::store::tensor::StoredTensor;
use crate::store::{Encoding, Part, Store};

/// The model's name for its architecture, if its files have one.
///
/// # Errors
///
/// `Malformed` if the value is not a string.
pub(crate) fn architecture_name(store: &Store) -> Result<Option<Field<String>>> {
    let named = |name: &str, source: FieldSource| Field { value: name.to_owned(), source };
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
        return Ok(Some(named(name, FieldSource::key(key))));
    }
    if let Some(config) = store.document("config.json") {
        // The config of the language model is more specific than that of a model that contains it.
        for (at, config) in config::nested_configs(config) {
            if let Some(name) = config.get("model_type").and_then(|name| name.as_str()) {
                let dot = if at.is_empty() { "" } else { "." };
                let path = format!("{at}{dot}model_type");
                let name =
                    config_json::class_in_llava(config).map_or(name, |class| class.model_type);
                return Ok(Some(named(name, FieldSource::document("config.json", &path))));
            }
        }
    }
    let class = store.document("config.json").and_then(config::class_name);
    if let Some(class) = class.and_then(config_json::class) {
        let source = FieldSource::document("config.json", "architectures");
        return Ok(Some(named(class.model_type, source)));
    }
    let publishers = architectures().into_iter().find(|row| is_publishers(store, row));
    let Some((row, params)) = publishers.zip(store.document("params.json")) else {
        return Ok(None);
    };
    let class = family::class_in_params(params).map_err(|error| error.in_file(store.path()))?;
    Ok(Some(match class {
        Some((class, key)) => named(class, FieldSource::document("params.json", key)),
        None => named(row.name, "params.json, and tensors with Mistral's own names".into()),
    }))
}

/// A reader of the config values that a model's files state.
///
/// # Errors
///
/// `Unsupported` if the model does not state its architecture; `Malformed` if the value is not a string.
pub(crate) fn config_reader(store: &Store) -> Result<ConfigReader<'_>> {
    if let Some(draft) = other_models::draft(store) {
        let advice =
            "llama.cpp's convert_hf_to_gguf.py writes EAGLE-3's, with the model that it is for";
        return Err(Error::unsupported(draft).advise(advice).in_file(store.path()));
    }
    let named = architecture_name(store)?.ok_or_else(|| {
        let error = match other_models::found(store, None) {
            Some(other) => other_models::refused(other),
            None if store.document("params.json").is_some() => Error::unsupported(
                "no config.json, and the tensors do not have the names with which params.json is read, those of \
                 Mistral's and Meta's transformers",
            )
            .advise("a model with other tensors, such as Mamba's, can be read in the form that has config.json"),
            None => match unstated(store) {
                Some(unstated) => Error::unsupported(unstated).advise(
                    "add the model_type that configs of such models state; `inspect` lists the tensors",
                ),
                None => Error::unsupported(
                    "no config: neither general.architecture nor a config.json with model_type",
                )
                .advise("give the directory that holds config.json; `inspect` lists the tensors"),
            },
        };
        error.in_file(store.path())
    })?;
    if let Some(fault) = other_pairs(store, &named.value) {
        return Err(Error::unsupported(fault).in_file(store.path()).in_key("rope_traditional"));
    }
    let defaults = family::defaults(&named.value);
    Ok(ConfigReader::new(store, named, defaults))
}

/// Why rows of q and k pair otherwise than their names say. The scripts before mlx-lm and its classes read a key for it;
/// transformers has none.
fn other_pairs(store: &Store, architecture: &str) -> Option<&'static str> {
    let is_neighbors = store.document("config.json")?.get("rope_traditional")?.as_bool()?;
    let row = family::architecture(architecture, false)?;
    match (detected_dialect(store, Some(row)), is_neighbors) {
        (Dialect::Publisher, false) => Some(
            "false: rows of q and k pair as halves, but models with these names pair neighbors, and these are read so",
        ),
        (Dialect::Mlx, true) if row.rope == RopeLayout::HalfSplit => Some(
            "true: rows of q and k pair as neighbors, but in models of this kind halves pair, and these are read so",
        ),
        _ => None,
    }
}

/// A model to be translated.
///
/// # Errors
///
/// See [`Model::config`](crate::Model::config).
pub(crate) fn source_model<'a>(
    store: &'a Store,
    resolution: &'a Resolution,
) -> Result<SourceModel<'a>> {
    let keys = source_of_keys(store, resolution)?;
    let Some(kept) = kept::document(&keys, resolution)? else { return Ok(keys) };
    let class = kept.document.get("model_type").and_then(Json::as_str).unwrap_or_default();
    let defaults = family::defaults(class);
    let reader = ConfigReader::of_kept(store, keys.config.architecture.clone(), defaults, kept);
    let config = config::derived(&reader, resolution)?;
    Ok(source(reader, config, resolution))
}

fn source<'a>(
    reader: ConfigReader<'a>,
    config: ModelConfig,
    resolution: &'a Resolution,
) -> SourceModel<'a> {
    let row = resolution.architecture;
    let turns_neighbors = row.is_some_and(|row| row.rope == RopeLayout::Interleaved);
    SourceModel::new(reader, config, &resolution.mapped, turns_neighbors)
}

/// A model to be translated, by the keys that every program reads: without those that a GGUF file keeps of
/// `config.json`.
///
/// # Errors
///
/// See [`Model::config`](crate::Model::config).
pub(crate) fn source_of_keys<'a>(
    store: &'a Store,
    resolution: &'a Resolution,
) -> Result<SourceModel<'a>> {
    let reader = config_reader(store)?;
    resolution.check_config().map_err(|error| error.in_file(store.path()))?;
    let config = config::derived(&reader, resolution)?;
    Ok(source(reader, config, resolution))
}

/// The part of `config.json` that a GGUF file keeps, with the document and the differences in llama.cpp's computation.
/// `None` for another file.
///
/// # Errors
///
/// See [`Model::config`](crate::Model::config).
pub(crate) fn kept_config(store: &Store, resolution: &Resolution) -> Result<Option<Kept>> {
    if store.encoding() != Encoding::Gguf {
        return Ok(None);
    }
    let found = source_of_keys(store, resolution).and_then(|keys| kept::of_file(&keys));
    match found {
        // A file that keeps nothing may have no config at all.
        Err(_) if !kept::is_kept(store) => Ok(None),
        found => found.map(Some),
    }
}

/// See [`Model::computed_config`](crate::Model::computed_config).
pub(crate) fn computed_config<'m>(
    store: &'m Store,
    kept: Option<&'m KeptDocument>,
) -> Vec<(String, ConfigValue<'m>)> {
    config::computed(store, kept, unused_config(store, kept))
}

/// See [`Model::stated_config`](crate::Model::stated_config).
pub(crate) fn stated_config<'m>(
    store: &'m Store,
    kept: Option<&'m KeptDocument>,
    key: &str,
) -> Option<ConfigValue<'m>> {
    let named = architecture_name(store).ok().flatten();
    let named = named.as_ref().map(|named| named.value.as_str());
    let of_class = || named.into_iter().flat_map(|named| family::keys_in_gguf(named, key));
    config::stated(store, named, kept, key)
        .or_else(|| of_class().find_map(|key| config::stated(store, named, kept, key)))
}

/// See [`Model::unused_config`](crate::Model::unused_config).
pub(crate) fn unused_config<'m>(
    store: &'m Store,
    kept: Option<&'m KeptDocument>,
) -> Vec<(String, ConfigValue<'m>)> {
    let named = architecture_name(store).ok().flatten();
    let named = named.as_ref().map(|named| named.value.as_str());
    config::unused(store, named, named.map(family::own_keys).unwrap_or_default(), kept)
}

/// The config of a model, see [`Model::config`](crate::Model::config), and the `config.json` that a
/// GGUF file keeps.
///
/// # Errors
///
/// `Unsupported` if the model does not state its architecture, or is not a language model;
/// `Malformed` if it lacks a required number, or has an invalid one: zero heads, or a width that is
/// not an integer.
pub(crate) fn model_config(
    store: &Store,
    resolution: &Resolution,
) -> Result<(ModelConfig, Option<KeptDocument>)> {
    Ok(source_model(store, resolution)?.into_config())
}

/// Detects the architecture and maps every stored tensor to its canonical name, if it has one.
///
/// # Errors
///
/// `Malformed` if the architecture's name is not a string, or two tensors have the same canonical
/// name.
pub(super) fn resolve(store: &Store) -> Result<Resolution> {
    let named = architecture_name(store)?.filter(|_| other_models::draft(store).is_none());
    let found = named.as_ref().and_then(|named| architecture(&named.value, store));
    let reason = reason(store, named.as_ref(), found.is_some());
    let dialect = detected_dialect(store, found);
    let mut resolution = Resolution::empty(found, dialect, reason);
    let reader = named.map(|named| {
        let defaults = family::defaults(&named.value);
        ConfigReader::new(store, named, defaults)
    });
    let Some(architecture) = found else {
        return Ok(structure::resolve(store, resolution, reader.as_ref()));
    };
    let document = store.document("config.json").filter(|_| dialect == Dialect::HuggingFace);
    resolution.text_class = document.and_then(|it| text_class(it, architecture)).map(str::to_owned);
    let names = names_of(architecture, dialect);
    let within = prefixes(store, &mut resolution, architecture, &names);
    let is_text = resolution.text_class.is_some();
    let promised = reader.as_ref().and_then(|reader| config::promised_layers(reader, architecture));
    let n_layers = promised.map(|promised| promised.own);
    let tables =
        Tables { architecture, dialect, names: &names, within: &within, is_text, n_layers };
    let mut ended = Vec::new();
    let required = architecture.required();
    let bits = bits_of(&required);
    // The required names that each layer with stored tensors has, one bit each.
    let mut layers = LayerNames::new();
    // The table row of each mapping.
    let mut ranks: Vec<u32> = Vec::new();
    // Tensors of experts, by the row's canonical name and the layer.
    let mut experts: HashMap<(&str, Option<u32>), Experts, RandomState> = HashMap::default();
    for tensor in store.tensors() {
        let stored = tensor.name().spelling();
        let (found, bare) = tables.look_up(store, &stored, (&mut resolution, &mut ended));
        let Some(found) = found else {
            let reason = tables.reason(store, &tensor, &bare);
            let stored = stored.clone().into_owned();
            match reason {
                Some(reason) => resolution.auxiliary.push(Auxiliary { stored, reason }),
                None => resolution.unknown.push(stored),
            }
            continue;
        };
        resolution.renamed.extend(found.instead.map(|name| (stored.clone().into_owned(), name)));
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
    settle_names(store, &mut resolution, (&names, &within));
    resolution.rename(ended);
    add_aliases((store, reader.as_ref()), &mut resolution, (&names, &required), &mut ranks);
    let experts = experts.into_values();
    add_experts(experts, &mut resolution).map_err(|error| error.in_file(store.path()))?;
    keep_once(&mut resolution, &ranks).map_err(|error| error.in_file(store.path()))?;
    architecture.conditional_names.iter().for_each(|row| row.apply(&mut resolution.mapped));
    settle_square_matrices(&mut resolution.mapped, store);
    // Arrays of a scheme that is not supported may stand for any tensor.
    if store.check_known().is_ok() {
        let stated = (&layers, promised.unwrap_or_default());
        resolution.missing = missing(architecture, &required, &resolution.mapped, stated);
    }
    Ok(resolution)
}

/// The tables of a model's names, and what its names have before those of the tables.
#[derive(Clone, Copy)]
struct Tables<'n> {
    architecture: &'static Architecture,
    dialect: Dialect,
    names: &'n DialectRows,
    within: &'n str,
    is_text: bool,
    /// The number of layers of the language model, if the config states it.
    n_layers: Option<u32>,
}

impl<'n> Tables<'n> {
    /// Looks up a stored name, and returns it without the pieces of wrappers, which are noted in the resolution. A name with
    /// another ending than that of the tables is added to `ended`, with that one.
    fn look_up<'s>(
        &self,
        store: &Store,
        stored: &'s str,
        (resolution, ended): (&mut Resolution, &mut Vec<(String, String)>),
    ) -> (Option<NameMatch<'n>>, Cow<'s, str>) {
        let found = find(stored, self.architecture, self.dialect, self.names);
        let bare = match found {
            None if !is_gguf(store) => resolution.unwrap(stored),
            _ => Cow::Borrowed(stored),
        };
        if let Some(found) = found.or_else(|| self.find(&bare)) {
            return (Some(found), bare);
        }
        let other = other_ending(store, &bare);
        let found = other.and_then(|name| Some((self.find(&name)?, name)));
        let found = found.map(|(found, name)| {
            ended.push((stored.to_owned(), name));
            found
        });
        (found, bare)
    }

    /// The reason why a tensor without a canonical name is none that the model needs, if it is known.
    fn reason(&self, store: &Store, tensor: &StoredTensor<'_>, bare: &str) -> Option<&'static str> {
        let is_empty = tensor.shape().contains(&0);
        let config = store.document("config.json");
        auxiliary::reason(bare, self.architecture.auxiliary)
            .or(is_empty.then_some(auxiliary::EMPTY))
            .or_else(|| auxiliary::of_dense(&tensor.name().spelling(), config))
            .or_else(|| self.is_zero_bias(store, tensor, bare).then_some(auxiliary::ZERO_BIAS))
    }

    /// Whether a tensor is the bias of a known matrix, and changes nothing.
    fn is_zero_bias(&self, store: &Store, tensor: &StoredTensor<'_>, bare: &str) -> bool {
        let stored = tensor.name().spelling();
        let beside = |name: &str| Some(format!("{}.weight", name.strip_suffix(".bias")?));
        let has_matrix = beside(&stored).is_some_and(|name| store.find(&name).is_some())
            && beside(bare).is_some_and(|name| self.find(&name).is_some());
        let is_zero = || tensor.bytes(Part::Weight).is_ok_and(|b| b.iter().all(|byte| *byte == 0));
        has_matrix && tensor.shape().len() == 1 && is_zero()
    }

    fn find(&self, bare: &str) -> Option<NameMatch<'n>> {
        let &Self { architecture, dialect, names, within, is_text, n_layers } = self;
        let numbered = || {
            let name =
                architecture.numbered(bare, n_layers.filter(|_| dialect != Dialect::Gguf)?)?;
            find(&name, architecture, dialect, names)
        };
        find(bare, architecture, dialect, names).or_else(numbered).or_else(|| {
            let name = bare.strip_prefix(within).filter(|_| !within.is_empty())?;
            let found = find(name, architecture, dialect, names)?;
            let instead = found.instead.or_else(|| is_text.then(|| name.to_owned()));
            Some(NameMatch { instead, ..found })
        })
    }
}

/// The name of a tensor whose stored name lacks its ending, or has it twice. `None` if the model has a tensor of that name.
fn other_ending(store: &Store, bare: &str) -> Option<String> {
    const ENDINGS: [&str; 2] = [".weight", ".bias"];
    let twice = ENDINGS.iter().find_map(|end| {
        let once = bare.strip_suffix(end)?;
        Some(once.strip_suffix(end).map(|_| once.to_owned()))
    });
    let name = twice.unwrap_or_else(|| Some(format!("{bare}.weight")))?;
    (!is_gguf(store) && store.find(&name).is_none()).then_some(name)
}

/// Adds the arrays of a scheme that is not decoded, by the names that their modules' weights would have.
fn add_undecoded(store: &Store, resolution: &mut Resolution, names: &DialectRows, within: &str) {
    let (Some(architecture), Err(_)) = (resolution.architecture, store.check_known()) else {
        return;
    };
    let look = |name: &str| {
        let found = find(name, architecture, resolution.dialect, names)?;
        Some(rule::expand(found.rows.first()?.canonical, found.layer))
    };
    let canonical = |name: &str| look(name).or_else(|| look(name.strip_prefix(within)?));
    resolution.undecoded = undecoded::find(store, resolution, canonical);
}

/// Maps required tensors that are stored under another name: safetensors' `save_model` writes a tensor of several
/// modules once, and its other names to `__metadata__`; a tied model may store its output matrix alone.
fn add_aliases(
    (store, reader): (&Store, Option<&ConfigReader<'_>>),
    resolution: &mut Resolution,
    (names, required): (&DialectRows, &[Vec<&'static str>]),
    ranks: &mut Vec<u32>,
) {
    let Some(architecture) = resolution.architecture else { return };
    if store.encoding() != Encoding::Safetensors {
        return;
    }
    for (alias, value) in store.metadata().iter() {
        let Some(stored) = value.to_text().and_then(|text| store.find(text.to_str()?)) else {
            continue;
        };
        let found = find(&alias.spelling(), architecture, resolution.dialect, names);
        for &DialectRow { rank, canonical, transform } in found.map_or(&[][..], |found| found.rows)
        {
            let is_mapped = resolution.mapped.iter().any(|known| known.canonical == canonical);
            if is_mapped || !required.iter().flatten().any(|name| *name == canonical) {
                continue;
            }
            let name = stored.name().spelling().into_owned();
            resolution.aliases.push((alias.spelling().into_owned(), name.clone()));
            let (canonical, stored, stacked) = (canonical.to_owned(), vec![name], false);
            resolution.mapped.push(Mapping { canonical, stored, stacked, transform });
            ranks.push(rank);
        }
    }
    tied::tie_embedding(store, resolution, reader);
}

/// Leaves names as they are where the language model is part of another one, but for those of towers that are
/// stored as if they were parts of the language model.
fn settle_names(store: &Store, resolution: &mut Resolution, (names, within): (&DialectRows, &str)) {
    add_undecoded(store, resolution, names, within);
    let config = store.document("config.json");
    let is_projector = |tensor: &Auxiliary| tensor.reason == auxiliary::PROJECTOR;
    let is_other = config.is_some_and(|config| !auxiliary::has_other_models(config));
    let mut towers = resolution.auxiliary.iter().filter(|tensor| tensor.is_of_a_tower());
    if is_other && towers.all(is_projector) {
        let projectors = resolution.auxiliary.iter_mut().filter(|tensor| is_projector(tensor));
        projectors.for_each(|tensor| tensor.reason = auxiliary::OTHER_PROJECTOR);
    }
    let is_text = resolution.text_class.is_some();
    let is_whole = resolution.dialect == Dialect::HuggingFace
        && config.is_some_and(|config| config::nested_configs(config).len() == 1)
        && (is_text || !resolution.has_towers() && resolution.unknown.is_empty());
    let rows = resolution.architecture.map_or(&[][..], |row| row.prefixes);
    let named = architecture_name(store).ok().flatten().map_or_else(String::new, |name| name.value);
    let is_loaded = |stored: &str| {
        let mut prefixes = rows.iter().filter(|prefix| stored.starts_with(prefix.stored));
        prefixes.any(|prefix| prefix.loaded_by.contains(&&*named))
    };
    resolution.renamed.retain(|(stored, _)| is_whole && !is_loaded(stored));
    if resolution.dialect == Dialect::HuggingFace && !is_text {
        let towers = resolution.auxiliary.iter().filter(|tensor| tensor.is_of_a_tower());
        let outside = towers.filter_map(|tensor| {
            let name = auxiliary::outside_language_model(&tensor.stored)?;
            Some((tensor.stored.clone(), name))
        });
        let outside: Vec<(String, String)> = outside.collect();
        resolution.renamed.extend(outside);
    }
}

/// Finds the pieces of names that only this model has. Returns the prefix that the layers of the language model have
/// within another model, if no name of a layer is one of the family's.
fn prefixes(
    store: &Store,
    resolution: &mut Resolution,
    architecture: &Architecture,
    names: &DialectRows,
) -> String {
    let (dialect, none) = (resolution.dialect, OwnPieces::default());
    if dialect == Dialect::Gguf {
        return String::new();
    }
    let is_of_layers = |name: &str| {
        find(name, architecture, dialect, names).is_some_and(|found| found.layer.is_some())
    };
    let is_auxiliary = |name: &str| auxiliary::reason(name, architecture.auxiliary).is_some();
    let bare = || {
        store
            .tensors()
            .map(|tensor| wrapper::without_pieces(&tensor.name().spelling()).into_owned())
    };
    if bare().any(|name| is_of_layers(&name) && !is_auxiliary(&name)) {
        return String::new();
    }
    let own = OwnPieces::of(&bare().collect::<Vec<_>>(), &resolution.reason, is_of_layers);
    if own != none {
        resolution.own_pieces = own;
        return String::new();
    }
    let bare: Vec<String> = bare().filter(|name| !is_auxiliary(name)).collect();
    let within = wrapper::inner(&bare, &resolution.reason, is_of_layers);
    resolution.is_within = !within.is_empty();
    within
}

/// Whether the files use GGUF's names. whisper.cpp's own files use the same names as its GGUF files.
fn is_gguf(store: &Store) -> bool {
    matches!(store.encoding(), Encoding::Gguf | Encoding::Ggml)
}

/// The reason why the model has the architecture, or none.
fn reason(store: &Store, named: Option<&Field<String>>, is_known: bool) -> String {
    let said = named.map(|Field { value, source }| format!("{source} is \"{value}\""));
    let other = || other_models::found(store, named.map(|named| named.value.as_str()));
    match (said, if is_known { None } else { other() }) {
        (Some(said), Some(other)) => format!("{said}: {other}"),
        (Some(said), None) if is_known => said,
        (Some(said), None) => format!("{said}, which is not a known architecture"),
        (None, other) => {
            let class = other_models::class(store).filter(|_| other.is_some());
            let class = class.map_or_else(String::new, |class| format!("{class} of diffusers: "));
            let other = other_models::draft(store).or(other);
            let said = other.map(str::to_owned).or_else(|| unstated(store));
            let nothing = match store.encoding() {
                Encoding::Gguf => "the file has no general.architecture",
                _ => "no file states the architecture",
            };
            class + said.as_deref().unwrap_or(nothing)
        }
    }
}

/// What a `config.json` has that states no architecture.
fn unstated(store: &Store) -> Option<String> {
    let config = store.document("config.json")?;
    let class = config::class_name(config).map_or_else(
        || "no class in architectures".to_owned(),
        |class| format!("the class \"{class}\" is not a known one"),
    );
    Some(format!("config.json states no model_type, and {class}"))
}

/// The architecture of this name. A GGUF file that keeps a whole document is of that document's, if it is written under this
/// name.
fn architecture(name: &str, store: &Store) -> Option<&'static Architecture> {
    if is_gguf(store)
        && let Some(own) = Kept::whole_model_type(store.metadata())
        && let Some(row) = family::architecture(&own, false)
        && row.variants.iter().any(|variant| variant.gguf == name)
    {
        return Some(row);
    }
    let row = family::architecture(name, is_gguf(store))?;
    let config = store.document("config.json");
    let instead = config.and_then(|config| row.instead.iter().find(|other| (other.when)(config)));
    match instead {
        Some(other) => family::architecture(other.architecture, true),
        None => Some(row),
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

/// Keeps one form of a tensor that is stored in several, the first in the tables: ik_llama.cpp
/// stores `attn_kv_b` next to the two tensors that it is split into.
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
    let reason = "stored in another form too, which is used";
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
        let instead = |prefix: &Prefix| prefix.applied(name).is_some_and(|name| known(&name));
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
    /// The name that transformers' class has instead.
    instead: Option<String>,
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
            return Some(NameMatch { rows, layer, expert: None, instead: None });
        }
        let Some((pattern, expert)) = experts else {
            // Outside of layers, a single number may be that of one of several tensors.
            let rows = names.get(layers.replace("{n}", "{e}").as_str())?;
            return Some(NameMatch { rows, layer: None, expert: layer, instead: None });
        };
        let rows = names.get(pattern.as_str())?;
        Some(NameMatch { rows, layer, expert: Some(expert), instead: None })
    };
    look(stored).or_else(|| {
        let prefixes = if dialect == Dialect::Gguf { &[] } else { architecture.prefixes };
        prefixes.iter().find_map(|prefix| {
            let name = prefix.applied(stored)?;
            let found = look(&name)?;
            Some(NameMatch { instead: prefix.is_foreign.then_some(name), ..found })
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
