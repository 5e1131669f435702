//! Names by structure: the canonical names of a model that no family describes.
//!
//! A module is recognized by its name, as `families/structure.spellings` lists it, and by the shapes of
//! its tensors, which must be those that the config determines. A tensor with two possible meanings
//! keeps its stored name.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use foldhash::fast::RandomState;

use super::config::{self, ConfigReader};
use super::family::spellings::{Convention, Member, ShapeCondition, SpelledModules, spellings};
use super::size::Size;
use super::tensor::CanonicalTensor;
use super::transform::SAME;
use super::{Auxiliary, Axes, Mapping, ModelConfig, Resolution, RowOrder, Transform};
use super::{auxiliary, rule};
use crate::store::Store;

/// Names the tensors of a model without a family. `reader` reads its config.
pub(super) fn resolve(
    store: &Store,
    mut resolution: Resolution,
    reader: Option<&ConfigReader<'_>>,
) -> Resolution {
    let mut stored = Vec::new();
    for tensor in store.tensors() {
        let name = tensor.name().spelling().into_owned();
        let bare = resolution.unwrap(&name).into_owned();
        match auxiliary::reason(&bare, &[]) {
            Some(reason) => resolution.auxiliary.push(Auxiliary { stored: name, reason }),
            None => stored.push(NamedTensor { bare, name, shape: tensor.shape().to_vec() }),
        }
    }
    // Without a config, or with arrays of a scheme that is not supported, no shape can be confirmed.
    let known = reader.filter(|_| store.check_known().is_ok());
    let config =
        known.map(|reader| config::derived(reader, &resolution)).transpose().ok().flatten();
    let found = config.map(|config| Model::of(&stored, &config).mappings()).unwrap_or_default();
    let named: BTreeSet<&String> = found.iter().flat_map(|mapping| &mapping.stored).collect();
    let unknown = stored.iter().map(|tensor| &tensor.name).filter(|name| !named.contains(name));
    resolution.unknown = unknown.cloned().collect();
    resolution.mapped = found;
    resolution
}

/// A stored tensor. `bare` is its name without the prefix of programs that wrap a model.
struct NamedTensor {
    name: String,
    bare: String,
    shape: Vec<u64>,
}

/// The tensors of one name: one, or one for each expert, by index.
type Numbered = Vec<(Option<u32>, usize)>;

/// The tensors of a layer by their names within it, with `{e}` for the number of an expert.
type Layer = BTreeMap<String, Numbered>;

/// A model without a family.
struct Model<'m> {
    tensors: &'m [NamedTensor],
    config: &'m ModelConfig,
    /// The layers by the start of their names: `model.layers.`.
    stacks: BTreeMap<String, BTreeMap<u32, Layer>>,
    /// The tensors outside of layers.
    others: Vec<usize>,
}

/// A canonical tensor that stored ones may hold.
struct Claim {
    canonical: String,
    stored: Vec<usize>,
    stacked: bool,
    transform: Transform,
}

/// The claims of one convention, which hold together or not at all.
struct Reading {
    claims: Vec<Claim>,
    /// Claims on biases, each of which holds by itself.
    biases: Vec<Claim>,
    /// The path whose further tensors make the reading doubtful.
    closed: Option<&'static str>,
}

/// The fit of a reading to the shapes: with matrices as `[outputs, inputs]`, as `[inputs,
/// outputs]`.
#[derive(Clone, Copy, Eq, PartialEq)]
struct Fit {
    straight: bool,
    transposed: bool,
}

impl<'m> Model<'m> {
    fn of(tensors: &'m [NamedTensor], config: &'m ModelConfig) -> Self {
        let mut model = Self { tensors, config, stacks: BTreeMap::new(), others: Vec::new() };
        for (index, tensor) in tensors.iter().enumerate() {
            let rule::Pattern { layers, layer, experts } = rule::pattern(&tensor.bare);
            let (name, expert) = experts.map_or((layers, None), |(name, e)| (name, Some(e)));
            match layer.zip(name.split_once("{n}.")) {
                Some((layer, (stack, rest))) if layer < config.n_layers.value => {
                    let stack = model.stacks.entry(stack.to_owned()).or_default();
                    let layer = stack.entry(layer).or_default();
                    layer.entry(rest.to_owned()).or_default().push((expert, index));
                }
                Some(_) => {}
                None => model.others.push(index),
            }
        }
        model
    }

    /// The mappings, in the order of the files. There are none unless the layers of the language model
    /// are certain.
    fn mappings(&self) -> Vec<Mapping> {
        let named = |stack| self.named(stack);
        let in_layers = |claims: &Vec<Claim>| claims.iter().any(is_of_layers);
        let mut stacks: Vec<Vec<Claim>> = self.stacks.keys().map(named).collect();
        stacks.retain(in_layers);
        let [claims] = stacks.as_mut_slice() else { return Vec::new() };
        claims.sort_by_key(|claim| claim.stored.first().copied());
        let name = |index: &usize| self.tensors.get(*index).map(|tensor| tensor.name.clone());
        let mapping = |claim: &Claim| Mapping {
            canonical: claim.canonical.clone(),
            stored: claim.stored.iter().filter_map(name).collect(),
            stacked: claim.stacked,
            transform: claim.transform,
        };
        claims.iter().map(mapping).collect()
    }

    /// The confirmed claims of a model whose layers are those of one stack.
    fn named(&self, stack: &String) -> Vec<Claim> {
        let outside = self.outside(stack);
        let mut readings = self.readings(None, None, &outside);
        let is_end = |claim: &Claim| claim.canonical == "output_norm.weight";
        self.confirm(&mut readings, &outside);
        let has_norm = readings.iter().flat_map(|reading| &reading.claims).any(is_end);
        for (number, layer) in self.stacks.get(stack).into_iter().flatten() {
            let mut found = self.readings(Some(*number), Some(has_norm), layer);
            self.confirm(&mut found, layer);
            readings.extend(found);
        }
        self.oriented(readings)
    }

    /// The tensors outside of layers, by their names below the folder that they share with the layers.
    fn outside(&self, stack: &str) -> Layer {
        let mut outside = Layer::new();
        for &index in &self.others {
            let Some(tensor) = self.tensors.get(index) else { continue };
            let (mut rest, mut path) = (tensor.bare.as_str(), stack);
            while let (Some((a, after)), Some((b, below))) =
                (rest.split_once('.'), path.split_once('.'))
                && a == b
            {
                (rest, path) = (after, below);
            }
            outside.entry(rest.to_owned()).or_default().push((None, index));
        }
        outside
    }

    /// All readings of a layer's modules, or of those outside of layers.
    fn readings(&self, number: Option<u32>, has_norm: Option<bool>, layer: &Layer) -> Vec<Reading> {
        let folders: BTreeSet<&str> = layer.keys().map(|name| folder(name)).collect();
        let mut readings = Vec::new();
        for modules in spellings() {
            let applies = modules.prefix.is_some() == number.is_some();
            if !applies || (modules.is_normed && has_norm == Some(false)) {
                continue;
            }
            let paths = if number.is_none() { &[""][..] } else { modules.paths };
            for path in paths.iter().filter(|path| number.is_none() || folders.contains(*path)) {
                let mut decided = BTreeSet::new();
                for convention in modules.conventions {
                    let is_free = |member: &Member| !decided.contains(member.role);
                    let reading = self.reading(modules, convention, (number, path), layer);
                    if let Some(reading) =
                        reading.filter(|_| convention.members.iter().all(is_free))
                    {
                        decided.extend(convention.members.iter().map(|member| member.role));
                        readings.push(reading);
                    }
                }
            }
        }
        readings
    }

    /// The reading of one convention, if its modules are all there and its conditions hold.
    fn reading(
        &self,
        modules: &SpelledModules,
        convention: &Convention,
        (number, path): (Option<u32>, &'static str),
        layer: &Layer,
    ) -> Option<Reading> {
        let start = number.zip(modules.prefix);
        let start = start.map_or_else(String::new, |(n, prefix)| format!("layers.{n}.{prefix}"));
        let (mut claims, mut biases) = (Vec::new(), Vec::new());
        for Member { role, spellings, transform } in &convention.members {
            let whole = |name: &&str| [*name, ".weight"].concat();
            let below = |name: &str| {
                if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
            };
            let mut present = spellings.iter().map(|name| below(name)).filter_map(|module| {
                let stored = layer.get(&whole(&module.as_str())).or_else(|| layer.get(&module))?;
                Some((module, stored))
            });
            // Two modules for one role have two possible meanings.
            let (Some((module, stored)), None) = (present.next(), present.next()) else {
                return None;
            };
            let exact = format!("{start}{role}");
            let is_exact = CanonicalTensor::of(&exact, &[]).is_some();
            let canonical = if is_exact { exact.clone() } else { format!("{exact}.weight") };
            let bias = layer.get(&format!("{module}.bias")).filter(|_| !is_exact);
            claims.push(Claim::of(canonical, stored, *transform)?);
            biases
                .extend(bias.and_then(|bias| Claim::of(format!("{exact}.bias"), bias, *transform)));
        }
        let closed = modules.is_closed.then_some(path);
        let reading = Reading { claims, biases, closed };
        let holds = |condition: &ShapeCondition| self.holds(*condition, &reading, layer);
        convention.conditions.iter().all(holds).then_some(reading)
    }

    fn holds(&self, condition: ShapeCondition, reading: &Reading, layer: &Layer) -> bool {
        let (heads, key_heads) = (self.config.n_heads.value, self.config.n_kv_heads.value);
        match condition {
            ShapeCondition::OneKeyHead => key_heads == 1,
            ShapeCondition::FewerKeyHeads => key_heads < heads,
            ShapeCondition::AsManyKeyHeads => key_heads == heads,
            ShapeCondition::Transposed => {
                self.fit(reading) == Fit { straight: false, transposed: true }
            }
            ShapeCondition::With(module) => layer.contains_key(&format!("{module}.weight")),
        }
    }

    /// Drops the readings that shapes or other tensors contradict.
    fn confirm(&self, readings: &mut Vec<Reading>, layer: &Layer) {
        let claims = readings.iter().flat_map(|reading| &reading.claims);
        let claimed: BTreeSet<usize> = claims.flat_map(|claim| &claim.stored).copied().collect();
        let axes = |index: usize| self.tensors.get(index).map_or(0, |tensor| tensor.shape.len());
        let is_open = |reading: &Reading| {
            let of_claims = reading.claims.iter().filter_map(|claim| claim.stored.first());
            let most = of_claims.map(|index| axes(*index)).max();
            let beside = layer.iter().filter(|(name, _)| Some(folder(name)) == reading.closed);
            let mut others = beside
                .filter(|(name, _)| !name.ends_with(".bias"))
                .flat_map(|(_, stored)| stored)
                .filter(|(_, index)| !claimed.contains(index));
            others.any(|(_, index)| Some(axes(*index)) == most)
        };
        readings.retain(|reading| {
            let Fit { straight, transposed } = self.fit(reading);
            !is_open(reading) && (straight || transposed)
        });
    }

    /// The claims of all readings, with transposed matrices where the shapes say so. Square matrices are
    /// stored as the others.
    fn oriented(&self, readings: Vec<Reading>) -> Vec<Claim> {
        let fits: Vec<Fit> = readings.iter().map(|reading| self.fit(reading)).collect();
        let of_layers = |reading: &Reading| self.has_matrix(reading) && reading.is_of_layers();
        let matrices = || readings.iter().zip(&fits).filter(|(reading, _)| of_layers(reading));
        let straight = matrices().any(|(_, fit)| !fit.transposed);
        let transposed = matrices().any(|(_, fit)| !fit.straight);
        let mut claims = Vec::new();
        for (reading, fit) in readings.into_iter().zip(fits) {
            let swap = match fit {
                Fit { straight: true, transposed: true } if straight == transposed => continue,
                Fit { straight: true, transposed: true } => transposed,
                Fit { transposed, .. } => transposed,
            };
            let fits = |claim: &Claim| self.fits(claim, false, &mut Vec::new());
            claims.extend(reading.biases.into_iter().filter(fits));
            claims.extend(reading.claims.into_iter().map(|mut claim| {
                if swap && self.is_matrix(&claim) {
                    claim.transform.axes = Axes::Transposed;
                }
                claim
            }));
        }
        keep_single(claims)
    }

    fn has_matrix(&self, reading: &Reading) -> bool {
        reading.claims.iter().any(|claim| self.is_matrix(claim))
    }

    fn is_matrix(&self, claim: &Claim) -> bool {
        let first = claim.stored.first().and_then(|index| self.tensors.get(*index));
        first.is_some_and(|tensor| tensor.shape.len() == 2)
    }

    fn fit(&self, reading: &Reading) -> Fit {
        let fits = |transposed: bool| {
            // A width that the config does not state must be the same in all of them.
            let mut widths = Vec::new();
            let mut claims = reading.claims.iter();
            claims.all(|claim| self.fits(claim, transposed, &mut widths))
        };
        let may_swap = reading.is_of_layers() && self.has_matrix(reading);
        Fit { straight: fits(false), transposed: may_swap && fits(true) }
    }

    /// Whether the stored tensors have the shape of the canonical one.
    fn fits(&self, claim: &Claim, transposed: bool, widths: &mut Vec<(Size, u64)>) -> bool {
        let shape = |index: &usize| self.tensors.get(*index).map(|tensor| tensor.shape.clone());
        let mut shapes = claim.stored.iter().map(shape);
        let Some(Some(mut shape)) = shapes.next() else { return false };
        if !shapes.all(|other| other.as_ref() == Some(&shape)) {
            return false;
        }
        if transposed && self.is_matrix(claim) {
            shape.reverse();
        }
        if claim.transform.rows != RowOrder::All {
            let axis = shape.len().saturating_sub(2);
            let (arrays, rows) = (shape.iter().take(axis).product(), shape.get(axis).copied());
            let chosen =
                rows.map(|rows| claim.transform.rows.choose(arrays, rows, Some(self.config)));
            let Some(Ok(chosen)) = chosen else { return false };
            shape.splice(axis..=axis, chosen.rows);
        }
        if claim.stacked {
            shape.insert(0, claim.stored.len() as u64);
        }
        let Some(tensor) = CanonicalTensor::of(&claim.canonical, &[]) else { return false };
        tensor.shapes(Some(self.config)).any(|sizes| {
            let mut bound = widths.clone();
            let fits = self.is_shaped(&shape, sizes, tensor.layer.unwrap_or(0), &mut bound);
            if fits {
                *widths = bound;
            }
            fits
        })
    }

    fn is_shaped(
        &self,
        shape: &[u64],
        sizes: &[Size],
        layer: u32,
        widths: &mut Vec<(Size, u64)>,
    ) -> bool {
        // Axes of length 1 do not count.
        let mut lengths = shape.iter().copied().filter(|length| *length != 1);
        let mut sizes = sizes.iter().copied().map(|size| (size, size.of(self.config, layer)));
        let fits = sizes.by_ref().filter(|(_, stated)| *stated != Some(1)).all(|(size, stated)| {
            let Some(length) = lengths.next() else { return false };
            match (size, stated) {
                // The order of queries and their gates would be a guess.
                (Size::GatedQueries, _) => false,
                (Size::Vocab | Size::Embeddings, stated) => {
                    stated.is_none_or(|tokens| length >= tokens)
                }
                (_, Some(stated)) => length == stated,
                (Size::Any, None) => true,
                (Size::Ffn | Size::ExpertFfn | Size::SharedFfn, None) => {
                    let bound = widths.iter().find(|(other, _)| *other == size).map(|(_, l)| *l);
                    widths.push((size, length));
                    bound.is_none_or(|bound| bound == length)
                }
                (_, None) => false,
            }
        });
        fits && lengths.next().is_none()
    }
}

impl Reading {
    fn is_of_layers(&self) -> bool {
        self.claims.iter().all(is_of_layers)
    }
}

impl Claim {
    /// A claim on these tensors: one, or the experts from 0 on.
    fn of(canonical: String, stored: &Numbered, transform: Transform) -> Option<Self> {
        let mut numbered = stored.clone();
        numbered.sort_unstable();
        let stacked = numbered.iter().any(|(expert, _)| expert.is_some());
        let in_order = (0..).zip(&numbered).all(|(n, (expert, _))| *expert == Some(n));
        let is_one = numbered.len() == 1 && !stacked;
        let stored = numbered.into_iter().map(|(_, index)| index).collect();
        (is_one || in_order).then_some(Self { canonical, stored, stacked, transform })
    }
}

fn is_of_layers(claim: &Claim) -> bool {
    claim.canonical.starts_with("layers.")
}

/// The path of the folder of modules that a tensor within a layer belongs to.
fn folder(name: &str) -> &str {
    let module = name.strip_suffix(".weight").or(name.strip_suffix(".bias")).unwrap_or(name);
    module.rsplit_once('.').map_or("", |(folder, _)| folder)
}

/// Drops claims on one canonical tensor, and claims of several conventions on one stored tensor as a
/// whole: each has two possible meanings.
fn keep_single(mut claims: Vec<Claim>) -> Vec<Claim> {
    let mut names: HashMap<String, u32, RandomState> = HashMap::default();
    let mut whole: HashMap<usize, u32, RandomState> = HashMap::default();
    for claim in &claims {
        *names.entry(claim.canonical.clone()).or_default() += 1;
        let is_whole = claim.transform.rows == SAME.rows;
        for index in claim.stored.iter().filter(|_| is_whole) {
            *whole.entry(*index).or_default() += 1;
        }
    }
    claims.retain(|claim| {
        let shared = |index: &usize| whole.get(index).is_some_and(|claims| *claims > 1);
        names.get(&claim.canonical) == Some(&1) && !claim.stored.iter().any(shared)
    });
    claims
}
