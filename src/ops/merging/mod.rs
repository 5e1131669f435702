//! The `merge` verb: one model from several of the same shape, tensor by tensor.
//!
//! The merged model is opened as if its files existed: its tensors are computed when they are read, one at a
//! time, so that any verb can work with it, such as `convert` and `quantize`.

mod arithmetic;
mod files;
mod keep;
mod lacking;
mod layers;
mod methods;
mod modules;
mod plan;
mod recipe;
mod rows;
mod setting;
mod settled;
mod tokens;
mod vocabulary;
mod yaml;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use crate::arch::Dialect;
use crate::arch::size::Size;
use crate::bytes::Text;
use crate::container::OpenOptions;
use crate::container::safetensors::write::state_dtype;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::json::{Json, Map, json};
use crate::model::{Model, OUTPUT, Tensor};
use crate::shape::elements;
use crate::tokenizer::Tokenizer;
use crate::translate;

use arithmetic::{Input, Merge};
use files::{MergedFile, MergedFiles, MergedTensor};
use lacking::Lacking;
use layers::{Layers, in_layer, place_of};
pub use methods::MergeMethod;
use modules::MergedModules;
use plan::Vocabulary;
pub use recipe::{MergeRecipe, MergeSlice, MergeSource, SliceSource};
use rows::TokenRows;
pub use setting::{Setting, Settings};
use tokens::{Files, set_count};
pub use vocabulary::{MergedVocabulary, TokenName, TokenRow, TokenRule, VocabularySource};

/// Opens the model that a recipe describes. Its container is safetensors, its names are those of Hugging
/// Face, and its documents are those of the base model, or else of the first one. Nothing is computed until a
/// tensor is read; then its sources are decoded to `f32`, merged, and rounded once.
///
/// ```
/// use weighbridge::ops::{MergeMethod, MergeRecipe, merge_models};
/// use weighbridge::Model;
///
/// # fn main() -> weighbridge::Result<()> {
/// let mut recipe = MergeRecipe::new(MergeMethod::Linear);
/// let model = Model::open("assets/sample/hf")?;
/// recipe.add(model.clone(), 0.75);
/// recipe.add(Model::open("assets/sample/sample-Q8_0.gguf")?, 0.25);
/// let merged = merge_models(&recipe)?;
/// let norm = merged.tensor("output_norm.weight")?.dequantize()?;
/// assert_eq!(norm[..], model.tensor("output_norm.weight")?.dequantize()?[..]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// `Mismatch` for a recipe that is not complete, or models whose tensors differ in name or shape;
/// `Unsupported` for a model whose names or documents cannot be translated.
pub fn merge_models(recipe: &MergeRecipe) -> Result<Model> {
    recipe.check()?;
    let main = recipe.base.unwrap_or(0);
    let (models, mut notes) = untied(recipe)?;
    notes.extend(recipe.unweighted());
    let sources = models.iter().map(SourceTensors::of).collect::<Result<Vec<_>>>()?;
    let sources = aligned(sources, main, &mut notes);
    check_architectures(recipe, &sources, main)?;
    if recipe.slices.is_empty() {
        check_names(&sources, main)?;
    }
    let vocabulary = recipe.vocabulary.as_ref();
    let vocabulary = vocabulary.map(|rule| Vocabulary::plan(rule, recipe, main)).transpose()?;
    let layers = Layers::of(sources.iter().flat_map(SourceTensors::with_roles));
    let vocabulary_rows = vocabulary.as_ref();
    let plan = Plan { recipe, sources: &sources, main, vocabulary: vocabulary_rows, layers };
    notes.extend(plan.taken_whole());
    let planned = plan.tensors()?;
    let mut documents = documents(recipe, main, vocabulary.as_ref())?;
    let MergedModules { files, mut weights, notes: of_modules } =
        MergedModules::of(recipe, main, |models| of_module(recipe, main, models))?;
    let is_new = |(name, _): &(String, Vec<u8>)| documents.iter().all(|(other, _)| other != name);
    let files: Vec<_> = files.into_iter().filter(is_new).collect();
    documents.extend(files);
    notes.extend(of_modules);
    weights.push(("model.safetensors".to_owned(), Arc::new(MergedFile::new(planned)?)));
    let folder = PathBuf::from("merged");
    let files = MergedFiles { folder: folder.clone(), documents, weights };
    let model = OpenOptions::new().files(files).open(folder)?;
    match (vocabulary, &model.config()?.vocab_size) {
        (Some(wanted), Some(found)) if u64::from(found.value) != wanted.count => {
            let fault =
                format!("the config states {} tokens, but there are {}", found.value, wanted.count);
            Err(Error::unsupported(fault).in_key(&found.source))
        }
        _ => {
            notes.extend(other_tokens(recipe, main));
            notes.extend(other_configs(recipe, main));
            Ok(model.with_notes(notes))
        }
    }
}

/// The models of a recipe. If one of them has an output matrix, the embedding of another one that uses it as
/// output matrix is its output matrix too, as a note says.
fn untied(recipe: &MergeRecipe) -> Result<(Vec<Model>, Vec<String>)> {
    let (mut models, mut notes) = (Vec::new(), Vec::new());
    let stored = recipe.sources.iter().any(|source| source.model.has(OUTPUT));
    for MergeSource { model, .. } in &recipe.sources {
        let untied = if stored { model.untied()? } else { None };
        if untied.is_some() {
            let path = model.path().display();
            notes.push(format!(
                "{path} uses its embedding as output matrix, which is merged with that of another model"
            ));
        }
        models.push(untied.unwrap_or_else(|| model.clone()));
    }
    Ok((models, notes))
}

/// The tensors of all models under the names of the model `main`: classes with a head and without have other
/// prefixes. Without the tensors that only some models have and none needs, as notes say.
fn aligned(
    mut sources: Vec<SourceTensors>,
    main: usize,
    notes: &mut Vec<String>,
) -> Vec<SourceTensors> {
    let Some(listed) = sources.get(main) else { return sources };
    let names = ListedNames::of(listed);
    for source in &mut sources {
        let renamed: HashMap<String, String> = source
            .tensors
            .iter()
            .filter_map(|tensor| Some((tensor.name().to_owned(), names.name_of(source, tensor)?)))
            .collect();
        let name = |name: String| renamed.get(&name).cloned().unwrap_or(name);
        source.of_tokens = std::mem::take(&mut source.of_tokens).into_iter().map(name).collect();
        let roles = std::mem::take(&mut source.roles).into_iter();
        source.roles = roles.map(|(own, roles)| (name(own), roles)).collect();
        let tensors = std::mem::take(&mut source.tensors).into_iter();
        let tensors = tensors.map(|tensor| match renamed.get(tensor.name()) {
            Some(name) => tensor.named(name),
            None => tensor,
        });
        source.tensors = tensors.collect();
    }
    let known = |name: &str| sources.iter().all(|source| source.find(name).is_some());
    let lone = |source: &SourceTensors| {
        let names = source.unneeded.iter().filter(|name| !known(name)).cloned();
        names.collect::<BTreeSet<String>>()
    };
    let lone: BTreeSet<String> = sources.iter().flat_map(lone).collect();
    if let Some(first) = lone.first() {
        let others = lone.len() - 1;
        let more = if others > 0 { format!(" and {others} more") } else { String::new() };
        notes.push(format!(
            "left out: {first}{more}: not every model has it, and none needs it, since it is computed from the config"
        ));
    }
    for source in &mut sources {
        source.tensors.retain(|tensor| !lone.contains(tensor.name()));
    }
    sources
}

/// The names of the model whose tensors are listed.
struct ListedNames {
    architecture: Option<&'static str>,
    names: HashSet<String>,
    by_role: HashMap<Vec<String>, String>,
    /// The names of tensors of other parts, such as a vision model.
    others: HashSet<String>,
    /// The same by each of their ends.
    by_end: HashMap<String, Vec<String>>,
}

impl ListedNames {
    fn of(listed: &SourceTensors) -> Self {
        let names = listed.tensors.iter().map(|tensor| tensor.name().to_owned()).collect();
        let by_role =
            listed.roles.iter().map(|(name, role)| (role.clone(), name.clone())).collect();
        let mut by_end: HashMap<String, Vec<String>> = HashMap::new();
        let others = listed.tensors.iter().map(Tensor::name);
        let others = others.filter(|name| !listed.roles.contains_key(*name)).map(str::to_owned);
        let others: HashSet<String> = others.collect();
        for name in &others {
            for end in ends(name) {
                by_end.entry(end.to_owned()).or_default().push(name.clone());
            }
        }
        Self { architecture: listed.architecture, names, by_role, others, by_end }
    }

    /// The listed name of a tensor of another model that has another one.
    fn name_of(&self, source: &SourceTensors, tensor: &Tensor) -> Option<String> {
        let own = tensor.name();
        if self.names.contains(own) {
            return None;
        }
        let is_end = |name: &str, end: &str| ends(name).skip(1).any(|other| other == end);
        let other = match source.roles.get(own) {
            // The same architecture may have another form of names.
            Some(role) => self.by_role.get(role).filter(|other| {
                source.architecture.is_some() && source.architecture == self.architecture
                    || is_end(own, other)
                    || is_end(other, own)
            }),
            None => {
                let longer = self.by_end.get(own).and_then(|names| match &names[..] {
                    [only] => Some(only),
                    _ => None,
                });
                longer.or_else(|| ends(own).find_map(|end| self.others.get(end)))
            }
        };
        other.filter(|other| source.find(other).is_none()).cloned()
    }
}

/// A name, and what follows each of its dots.
fn ends(name: &str) -> impl Iterator<Item = &str> {
    let dots = name.match_indices('.').filter_map(|(dot, _)| name.get(dot.saturating_add(1)..));
    std::iter::once(name).chain(dots)
}

/// Whether a part of a name is a number.
fn is_number(part: &str) -> bool {
    part.parse::<u32>().is_ok()
}

/// Checks that layers of another architecture have the tensors that those of the model `main` have.
fn check_architectures(recipe: &MergeRecipe, sources: &[SourceTensors], main: usize) -> Result<()> {
    let name = |number: usize| -> Result<Option<&'static str>> {
        let Some(source) = recipe.sources.get(number) else { return Ok(None) };
        Ok(source.model.resolution()?.architecture.map(|row| row.name))
    };
    // Canonical names without the number of the layer.
    let kinds = |source: &SourceTensors| -> BTreeSet<String> {
        let roles = source.tensors.iter().filter_map(|tensor| source.roles.get(tensor.name()));
        let kind = |role: &String| {
            let (_, kind) = role.strip_prefix("layers.")?.split_once('.')?;
            Some(kind.to_owned())
        };
        roles.flatten().filter_map(kind).collect()
    };
    let (Some(first), Some(theirs)) = (sources.get(main), name(main)?) else { return Ok(()) };
    let first = kinds(first);
    for (number, source) in sources.iter().enumerate() {
        let Some(own) = name(number)?.filter(|own| *own != theirs) else { continue };
        if let Some(kind) = kinds(source).symmetric_difference(&first).next() {
            let fault = format!(
                "architecture {own}, but that of another model is {theirs}: only one of them has {kind} in its layers, so they cannot be merged"
            );
            return Err(Error::mismatch(fault).in_file(&source.path));
        }
    }
    Ok(())
}

/// Checks that the model whose tensors are listed has all those of the others.
fn check_names(sources: &[SourceTensors], main: usize) -> Result<()> {
    let Some(listed) = sources.get(main) else { return Ok(()) };
    let names: HashSet<&str> = listed.tensors.iter().map(Tensor::name).collect();
    for source in sources {
        let of_source = source.tensors.iter().map(Tensor::name);
        let lacking: Vec<&str> = of_source.filter(|name| !names.contains(name)).collect();
        if !lacking.is_empty() {
            return Err(listed.lacks(source, &lacking));
        }
    }
    Ok(())
}

/// A note for each model whose config computes otherwise than that of the model `main`, which is kept.
fn other_configs(recipe: &MergeRecipe, main: usize) -> Vec<String> {
    /// Facts about the files, not about what is computed.
    const OTHERWISE: [&str; 5] =
        ["architecture", "family", "max_seq_len", "tie_embeddings", "vocab_size"];
    let Some(first) = recipe.sources.get(main).filter(|_| recipe.slices.is_empty()) else {
        return Vec::new();
    };
    let fields = |source: &MergeSource| -> BTreeMap<&'static str, String> {
        let fields = source.model.config().map(|config| config.fields()).unwrap_or_default();
        let computing = fields.into_iter().filter(|field| !OTHERWISE.contains(&field.name));
        computing.map(|field| (field.name, field.value.to_string())).collect()
    };
    let theirs = fields(first);
    let note = |source: &MergeSource| {
        let own = fields(source);
        let names: BTreeSet<&str> = own.keys().chain(theirs.keys()).copied().collect();
        let value = |of: &BTreeMap<&str, String>, name| {
            of.get(name).map_or_else(|| "absent".to_owned(), Clone::clone)
        };
        // The two forms of a config need not state the same values.
        let is_same_form = source.model.encoding() == first.model.encoding();
        let differs = |name: &&str| match (own.get(name), theirs.get(name)) {
            (Some(own), Some(theirs)) => own != theirs,
            _ => is_same_form && own.get(name) != theirs.get(name),
        };
        let shown = names.into_iter().filter(differs).take(8);
        let shown =
            shown.map(|name| format!("{name} {}, not {}", value(&own, name), value(&theirs, name)));
        let shown = shown.collect::<Vec<_>>().join("; ");
        (!shown.is_empty()).then(|| {
            let [own, kept] =
                [source, first].map(|source| source.model.path().display().to_string());
            format!("the config of {own} has {shown}: that of {kept} is kept")
        })
    };
    recipe.sources.iter().filter_map(note).collect()
}

/// A note for each model whose tokens are not those of the model `main`, if no vocabulary is planned.
fn other_tokens(recipe: &MergeRecipe, main: usize) -> Vec<String> {
    if recipe.vocabulary.is_some() {
        return Vec::new();
    }
    fn tokenizer(source: &MergeSource) -> Option<Tokenizer<'_>> {
        source.model.tokenizer().ok().flatten()
    }
    let first = recipe.sources.get(main);
    let Some((first, theirs)) = first.and_then(|first| Some((first, tokenizer(first)?))) else {
        return Vec::new();
    };
    let theirs: HashMap<u32, _> = theirs.tokens().map(|token| (token.id, token.text)).collect();
    let note = |source: &MergeSource| {
        let own = tokenizer(source)?;
        let token = own.tokens().find(|token| theirs.get(&token.id) != Some(&token.text))?;
        Some(format!(
            "the tokens of {} are not those of {}: number {} is {}; rows are merged by number, without tokenizer_source",
            source.model.path().display(),
            first.model.path().display(),
            token.id,
            Text::new(&token.text),
        ))
    };
    recipe.sources.iter().filter_map(note).collect()
}

/// The tensors of a source, under Hugging Face's names.
struct SourceTensors {
    tensors: Vec<Tensor>,
    path: PathBuf,
    architecture: Option<&'static str>,
    /// The names of tensors with a row for each token.
    of_tokens: HashSet<String>,
    /// The canonical tensors that tensors hold, by their names.
    roles: HashMap<String, Vec<String>>,
    /// Tensors that are no weights, such as rotary frequencies.
    unneeded: Vec<String>,
    /// Whether tensors are missing that the architecture requires.
    is_incomplete: bool,
}

impl SourceTensors {
    fn of(model: &Model) -> Result<Self> {
        let tensors = model.tensors_in(Dialect::HuggingFace)?.tensors;
        let resolution = model.resolution()?;
        let counts_tokens = |name: &str| {
            let rows = resolution.canonical_tensor(name).and_then(|tensor| tensor.rows());
            matches!(rows, Some(Size::Vocab | Size::Embeddings | Size::OtherVocab))
        };
        let mapped = resolution.mapped.iter();
        let mapped = mapped.filter(|mapping| counts_tokens(&mapping.canonical));
        let stored: HashSet<&str> =
            mapped.flat_map(|mapping| &mapping.stored).map(String::as_str).collect();
        let of_tokens =
            |tensor: &&Tensor| tensor.stored_names().any(|name| stored.contains(&*name.spelling()));
        let of_tokens = tensors.iter().filter(of_tokens).map(|tensor| tensor.name().to_owned());
        let of_tokens = of_tokens.collect();
        let mut held: HashMap<&str, Vec<String>> = HashMap::new();
        for mapping in &resolution.mapped {
            for (place, stored) in mapping.stored.iter().enumerate() {
                held.entry(stored).or_default().push(format!("{} {place}", mapping.canonical));
            }
        }
        let role = |tensor: &Tensor| {
            let stored = tensor.stored_names();
            let held = stored.filter_map(|name| held.get(&*name.spelling())).flatten().cloned();
            (tensor.name().to_owned(), held.collect::<Vec<String>>())
        };
        let roles = tensors.iter().map(role).filter(|(_, role)| !role.is_empty()).collect();
        let unneeded = resolution.auxiliary.iter().filter(|tensor| tensor.is_computed());
        let unneeded = unneeded.map(|tensor| resolution.bare(&tensor.stored).into_owned());
        let unneeded = unneeded.collect();
        let architecture = resolution.architecture.map(|row| row.name);
        let path = model.path().to_path_buf();
        let is_incomplete = !resolution.missing.is_empty();
        Ok(Self { of_tokens, path, architecture, tensors, roles, unneeded, is_incomplete })
    }

    /// The names of the tensors, with the canonical tensors that each holds.
    fn with_roles(&self) -> impl Iterator<Item = (&str, &[String])> {
        let roles = |name: &str| self.roles.get(name).map_or(&[][..], Vec::as_slice);
        self.tensors.iter().map(Tensor::name).map(move |name| (name, roles(name)))
    }

    fn find(&self, name: &str) -> Option<&Tensor> {
        self.tensors.iter().find(|tensor| tensor.name() == name)
    }

    /// The fault that it lacks tensors of another model.
    fn lacks(&self, other: &Self, names: &[&str]) -> Error {
        let is_extra = |name: &&str| !other.roles.contains_key(*name);
        let extra: Vec<&str> = names.iter().copied().filter(is_extra).collect();
        let (without, with, extra) = (self.path.as_path(), other.path.as_path(), &extra[..]);
        Lacking { without, is_incomplete: self.is_incomplete, with, names, extra }.error()
    }
}

struct Plan<'r> {
    recipe: &'r MergeRecipe,
    sources: &'r [SourceTensors],
    /// The number of the source whose tensors are listed.
    main: usize,
    vocabulary: Option<&'r Vocabulary>,
    layers: Layers,
}

impl Plan<'_> {
    fn tensors(&self) -> Result<Vec<MergedTensor>> {
        let mut planned = Vec::new();
        let (count, is_sliced) =
            (self.recipe.layer_count(self.main)?, !self.recipe.slices.is_empty());
        for tensor in self.listed() {
            let name = tensor.name();
            match self.layers.layer_of(name) {
                _ if !is_sliced => {
                    let inputs = (0..self.sources.len()).map(|source| (source, name.to_owned()));
                    let t = self.layers.place_of(name, count);
                    planned.push(self.merged(name, inputs.collect(), t, None)?);
                }
                // Layers for further tokens have the numbers after those of the others.
                Some((layer, place)) if layer >= count => {
                    let after = layer.saturating_sub(count).saturating_add(self.sliced());
                    planned.push(self.whole(&in_layer(name, &place, after), name)?);
                }
                Some(_) => {}
                None if self.is_whole(tensor) => planned.push(self.whole(name, name)?),
                None => planned.push(self.outside(name)?),
            }
        }
        self.slices(&mut planned)?;
        Ok(planned)
    }

    /// The tensors of the model `main`.
    fn listed(&self) -> &[Tensor] {
        self.sources.get(self.main).map_or(&[], |source| &source.tensors)
    }

    /// The number of layers that slices list.
    fn sliced(&self) -> u32 {
        let firsts = self.recipe.slices.iter().filter_map(|slice| slice.sources.first());
        firsts.map(|source| source.layers.end.saturating_sub(source.layers.start)).sum()
    }

    /// Whether slices do not concern a tensor: it is none of the language model, whose layers they list.
    fn is_whole(&self, tensor: &Tensor) -> bool {
        let roles = self.sources.get(self.main).and_then(|source| source.roles.get(tensor.name()));
        roles.is_none_or(|roles| roles.iter().any(|role| role.split('.').any(is_number)))
    }

    /// A note on the tensors that slices do not concern.
    fn taken_whole(&self) -> Option<String> {
        let is_one = self.recipe.slices.is_empty() || self.sources.len() < 2;
        let source = self.sources.get(self.main).filter(|_| !is_one)?;
        let other = |tensor: &&Tensor| {
            self.layers.layer_of(tensor.name()).is_none() && self.is_whole(tensor)
        };
        let mut others = self.listed().iter().filter(other);
        let (first, more) = (others.next()?.name(), others.count());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let path = source.path.display();
        Some(format!(
            "{first}{more}: those of {path}, for slices list layers of the language model alone"
        ))
    }

    /// A tensor of the model `main` that is not merged.
    fn whole(&self, name: &str, own: &str) -> Result<MergedTensor> {
        let mut shape = None;
        let (tensor, rows) = self.tensor(self.main, own, &mut shape)?;
        let dtype = self.dtype_of(&tensor);
        let shape = shape.unwrap_or_default();
        let merge = Merge {
            method: MergeMethod::Passthrough,
            base: None,
            inputs: vec![Input::new(tensor, rows)],
            normalize: false,
            rescale: false,
            lambda: 1.0,
            t: 0.0,
            elements: elements(&shape).unwrap_or(0),
        };
        Ok(MergedTensor::new(name.to_owned(), dtype, shape, merge))
    }

    /// The dtype of the result of a tensor.
    fn dtype_of(&self, tensor: &Tensor) -> DType {
        self.recipe.dtype.unwrap_or_else(|| match tensor.values_dtype() {
            own @ (DType::F32 | DType::F16 | DType::BF16) => own,
            _ => DType::F16,
        })
    }

    /// Adds the tensors of the layers that slices list.
    fn slices(&self, planned: &mut Vec<MergedTensor>) -> Result<()> {
        let mut out = 0u32;
        for slice in &self.recipe.slices {
            let Some(first) = slice.sources.first() else { continue };
            let count = first.layers.end.saturating_sub(first.layers.start);
            for step in 0..count {
                let t = place_of(step, count);
                let own = first.layers.start.saturating_add(step);
                let listed =
                    self.sources.get(first.model).map_or(&[][..], |source| &source.tensors);
                for tensor in listed {
                    let (stored, layer) = (tensor.name(), self.layers.layer_of(tensor.name()));
                    let Some((_, place)) = layer.filter(|(layer, _)| *layer == own) else {
                        continue;
                    };
                    let from = |source: &SliceSource| {
                        let layer = source.layers.start.saturating_add(step);
                        (source.model, in_layer(stored, &place, layer))
                    };
                    let inputs = slice.sources.iter().map(from).collect();
                    let name = in_layer(stored, &place, out);
                    planned.push(self.merged(&name, inputs, t, Some(slice))?);
                }
                out = out.saturating_add(1);
            }
        }
        Ok(())
    }

    /// A tensor of the language model that belongs to no layer, where slices list layers.
    fn outside(&self, name: &str) -> Result<MergedTensor> {
        let slices = &self.recipe.slices;
        // The embedding is that of the first layers, and what follows them that of the last ones.
        let slice = if name.contains("embed") { slices.first() } else { slices.last() };
        let all = slice.into_iter().flat_map(|slice| &slice.sources);
        let inputs = all.map(|source| (source.model, name.to_owned())).collect();
        self.merged(name, inputs, 0.0, slice)
    }

    /// Chooses how a tensor is merged. `sources` has the models and the tensor's name in each.
    fn merged(
        &self,
        name: &str,
        mut sources: Vec<(usize, String)>,
        t: f64,
        slice: Option<&MergeSlice>,
    ) -> Result<MergedTensor> {
        let (recipe, method) = (self.recipe, self.recipe.method);
        // Slices may leave the base out.
        if method.needs_base() && !sources.iter().any(|(source, _)| recipe.base == Some(*source)) {
            let own = sources.first().map_or_else(|| name.to_owned(), |(_, own)| own.clone());
            sources.extend(recipe.base.map(|base| (base, own)));
        }
        let (mut base, mut inputs, mut shape) = (None, Vec::new(), None);
        for (place, (number, own)) in sources.iter().enumerate() {
            let (tensor, rows) = self.tensor(*number, own, &mut shape)?;
            // Rules for a model are about its own names.
            let setting = |key: &str| {
                let model = slice.and_then(|slice| slice.sources.get(place)).map(|s| &s.settings);
                let model = model.or(recipe.sources.get(*number).map(|source| &source.settings));
                let found = model.and_then(|settings| settings.value(key, own, t));
                let found = found.or_else(|| slice?.settings.value(key, own, t));
                found.or_else(|| recipe.settings.value(key, own, t)).unwrap_or(1.0)
            };
            let mut input = Input::new(tensor, rows);
            input.weight = setting("weight");
            input.density = setting("density");
            input.scale = setting("scale");
            match method.needs_base() && recipe.base == Some(*number) {
                true => base = Some(input),
                false => inputs.push(input),
            }
        }
        let whole = |key: &str, default: f64| {
            let found = slice.and_then(|slice| slice.settings.value(key, name, t));
            found.or_else(|| recipe.settings.value(key, name, t)).unwrap_or(default)
        };
        let shape = shape.unwrap_or_default();
        let merge = Merge {
            method,
            base,
            inputs,
            normalize: whole("normalize", method.normalizes()) != 0.0,
            rescale: whole("rescale", method.rescales()) != 0.0,
            lambda: whole("lambda", 1.0),
            t: whole("t", 0.5),
            elements: elements(&shape).unwrap_or(0),
        };
        merge.check().map_err(|error| error.in_tensor(name))?;
        let first = merge.base.as_ref().or(merge.inputs.first()).map(Input::tensor);
        let first = first.ok_or_else(|| Error::mismatch("no tensors to merge").in_tensor(name))?;
        let dtype = self.dtype_of(first);
        Ok(MergedTensor::new(name.to_owned(), dtype, shape, merge))
    }

    /// The tensor of a source, whose shape must be that of the first one, and its rows if the vocabulary
    /// is another one.
    fn tensor(
        &self,
        number: usize,
        name: &str,
        shape: &mut Option<Vec<u64>>,
    ) -> Result<(Tensor, Option<TokenRows>)> {
        let source = self.sources.get(number);
        let source = source.ok_or_else(|| Error::mismatch("no such model in the recipe"))?;
        let here = |error: Error| error.in_tensor(name).in_file(&source.path);
        let tensor = source.find(name).ok_or_else(|| self.lacking(source, name))?.clone();
        let of_tokens = source.of_tokens.contains(name);
        let mut found = tensor.shape().to_vec();
        let mut rows = None;
        if let (true, Some(vocabulary)) = (of_tokens, self.vocabulary) {
            let tensors = self.sources.iter().map(|source| source.find(name).cloned()).collect();
            rows = Some(vocabulary.rows(number, &tensor, tensors).map_err(here)?);
            found.iter_mut().take(1).for_each(|length| *length = vocabulary.count);
        }
        let expected = shape.get_or_insert_with(|| found.clone());
        if found != *expected {
            let fault =
                format!("the shape is {found:?}, but that of the first model is {expected:?}");
            let fault = here(Error::mismatch(fault));
            let advice =
                "set tokenizer_source to union or base, so that the same tokens are merged";
            let is_longer = of_tokens && found.first() != expected.first();
            return Err(if is_longer { fault.advise(advice) } else { fault });
        }
        Ok((tensor, rows))
    }

    /// The fault of a model that lacks this tensor, and maybe those of other layers.
    fn lacking(&self, source: &SourceTensors, name: &str) -> Error {
        let kind = lacking::pattern(name);
        let is_alike =
            |other: &&str| lacking::pattern(other) == kind && source.find(other).is_none();
        let listed = self.listed().iter().map(Tensor::name).filter(|other| *other != name);
        let names: Vec<&str> = std::iter::once(name).chain(listed.filter(is_alike)).collect();
        let other = self.sources.get(self.main).unwrap_or(source);
        source.lacks(other, &names)
    }
}

/// The weights of a module of each model, merged.
fn of_module(recipe: &MergeRecipe, main: usize, models: &[Model]) -> Result<MergedFile> {
    let own = recipe.sources.iter().zip(models).map(|(source, model)| MergeSource {
        model: model.clone(),
        settings: source.settings.clone(),
    });
    let own = MergeRecipe {
        method: recipe.method,
        sources: own.collect(),
        base: recipe.base,
        settings: recipe.settings.clone(),
        slices: Vec::new(),
        vocabulary: None,
        dtype: recipe.dtype,
    };
    let sources = models.iter().map(SourceTensors::of).collect::<Result<Vec<_>>>()?;
    let layers = Layers::of(sources.iter().flat_map(SourceTensors::with_roles));
    let plan = Plan { recipe: &own, sources: &sources, main, vocabulary: None, layers };
    // They follow the last layer.
    let tensor = |name: &str| {
        let inputs = (0..sources.len()).map(|source| (source, name.to_owned()));
        plan.merged(name, inputs.collect(), 1.0, None)
    };
    let names = plan.listed().iter().map(|listed| tensor(listed.name()));
    MergedFile::new(names.collect::<Result<Vec<_>>>()?)
}

/// The documents of the merged model: those of the model `main`, changed as the recipe says.
fn documents(recipe: &MergeRecipe, main: usize, vocabulary: Option<&Vocabulary>) -> Result<Files> {
    let model = recipe.model(main)?;
    let documents = translate::hf_documents(model)?;
    let mut keys = documents.config.keys()?.into_owned();
    // The merged tensors are plain.
    keys.remove("quantization_config");
    keys.remove("quantization");
    if let Some(dtype) = recipe.dtype {
        state_dtype(&mut keys, dtype);
    }
    if !recipe.slices.is_empty() {
        set_layers(&mut keys, recipe.layer_count(main)?, &recipe.layers(model)?);
    }
    let others = documents.others.into_iter().map(|(name, bytes)| (name.to_owned(), bytes));
    let mut others: Files = others.collect();
    if let Some(vocabulary) = vocabulary {
        let of = recipe.model(vocabulary.of)?;
        vocabulary.edit.documents(of, vocabulary.of != main, &mut keys, &mut others)?;
        set_count(&mut keys, vocabulary.count);
    }
    let mut files = vec![("config.json".to_owned(), format!("{keys:#}").into_bytes())];
    files.extend(others);
    Ok(files)
}

/// Changes the number of layers in a config, and lists that have a value for each layer.
fn set_layers(keys: &mut Map<String, Json>, before: u32, layers: &[u32]) {
    let old: Vec<(String, Json)> =
        keys.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    for (key, value) in old {
        let is_count = matches!(&*key, "num_hidden_layers" | "n_layer" | "n_layers" | "num_layers");
        let changed = match value {
            Json::Object(mut inner) if key == "text_config" => {
                set_layers(&mut inner, before, layers);
                Json::Object(inner)
            }
            Json::Array(values) if values.len() as u64 == u64::from(before) => {
                let of = |layer: &u32| values.get(usize::try_from(*layer).ok()?).cloned();
                Json::Array(layers.iter().filter_map(of).collect())
            }
            _ if is_count => json!(layers.len()),
            _ => continue,
        };
        keys.insert(key, changed);
    }
}
