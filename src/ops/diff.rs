//! The `diff` verb: compares the names, shapes and values of two models in any containers.

mod beside;
mod clipping;
mod configs;
mod error;
mod prefix;
mod report;

use std::collections::{HashMap, HashSet};

use super::statistics::{Grid, GridOptions, grid_of_difference};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{EMBEDDING, Model, OUTPUT, Tensor};
use crate::progress::{Callback, Meter, Watch};
use crate::quant::{PAIR_LANES, pair_sums};
use crate::setters::setters;
use crate::store::Encoding;
use crate::threads::Threads;

pub use beside::differing_files;
pub use clipping::{ClippedValue, Clipping};
pub use configs::{ConfigDifference, StatedValue};
pub use error::MeanError;
use prefix::Prefix;
pub use report::{
    DiffReport, DiffedModel, DiffedTensor, DifferentTensor, DifferentValues, UnreadTensor,
    WorstElement,
};

/// The tensors of two models, paired by canonical name. Values are read by
/// [`compare`](Self::compare).
///
/// ```
/// use weighbridge::{Model, ops::{DiffOptions, TensorPairs}};
///
/// # fn main() -> weighbridge::Result<()> {
/// let exact = Model::open("assets/sample/hf")?;
/// let packed = Model::open("assets/sample/sample-Q8_0.gguf")?;
/// let diff = TensorPairs::new(&exact, &packed)?.compare(&DiffOptions::new())?;
/// let norm = diff.tensors.iter().find(|tensor| tensor.pair.name == "output_norm.weight");
/// assert!(norm.is_some_and(|norm| !norm.outcome.is_difference()));
/// assert!(!diff.is_equal());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct TensorPairs {
    a: Model,
    b: Model,
    /// Tensors of both models, in the order of the first.
    pub both: Vec<TensorPair>,
    /// Tensors that the second model lacks.
    pub only_a: Vec<Tensor>,
    /// Tensors that the first model lacks.
    pub only_b: Vec<Tensor>,
    /// Values of the configs that change what the models compute, and differ.
    pub config: Vec<ConfigDifference>,
    /// Notes on how names were matched.
    pub notes: Vec<String>,
}

/// A tensor that two models have in common.
#[derive(Debug)]
#[non_exhaustive]
pub struct TensorPair {
    /// The name in both models, without the prefix that only one of them has.
    pub name: String,
    /// The tensor in the first model.
    pub a: Tensor,
    /// The tensor in the second.
    pub b: Tensor,
    /// Whether this output matrix is the embedding in both models, and stored as a copy in one.
    is_copy: bool,
}

/// Options of [`diff`].
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct DiffOptions<'w> {
    tolerance: f64,
    threads: Threads,
    progress: Watch<'w>,
}

impl<'w> DiffOptions<'w> {
    /// The defaults: a tolerance of 0, and one thread for each processor.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets the tolerance: elements that differ by at most this much count as equal.
        tolerance: f64;
        /// Sets the threads that share the tensors.
        threads: impl Into<Threads>;
        /// Sets a callback that is called after every compared pair. `Break` cancels the comparison.
        progress: Callback<'w>;
    }
}

/// Compares the tensors of two models by canonical name, in any containers: see [`TensorPairs::new`] and
/// [`TensorPairs::compare`].
///
/// # Errors
///
/// Same as [`TensorPairs::new`] and [`TensorPairs::compare`].
pub fn diff(a: &Model, b: &Model, options: &DiffOptions<'_>) -> Result<ModelDiff> {
    TensorPairs::new(a, b)?.compare(options)
}

/// The differences of two models.
#[derive(Debug)]
#[non_exhaustive]
pub struct ModelDiff {
    a: Model,
    b: Model,
    tolerance: f64,
    /// Tensors of both models, in the order of the first.
    pub tensors: Vec<TensorDiff>,
    /// Tensors that the second model lacks.
    pub only_a: Vec<Tensor>,
    /// Tensors that the first model lacks.
    pub only_b: Vec<Tensor>,
    /// Values of the configs that change what the models compute, and differ.
    pub config: Vec<ConfigDifference>,
    /// Notes on how names were matched.
    pub notes: Vec<String>,
}

/// The differences of one tensor.
#[derive(Debug)]
#[non_exhaustive]
pub struct TensorDiff {
    /// The tensor in both models.
    pub pair: TensorPair,
    /// The result of the comparison.
    pub outcome: DiffOutcome,
}

/// The result of comparing two tensors.
#[derive(Debug)]
#[non_exhaustive]
pub enum DiffOutcome {
    /// Both have the same packing and the same bytes, which were not decoded.
    Identical,
    /// Their values were compared.
    Values(ValueDiff),
    /// Their shapes differ, so their values cannot be compared.
    Shapes,
    /// The values of at least one of them cannot be read.
    Unread(Error),
}

impl DiffOutcome {
    /// Whether the tensors differ in shape, or in a value by more than the tolerance.
    pub fn is_difference(&self) -> bool {
        match self {
            Self::Identical | Self::Unread(_) => false,
            Self::Values(values) => values.differing > 0,
            Self::Shapes => true,
        }
    }
}

impl ModelDiff {
    /// Whether no tensor differs, none is missing, and the configs compute the same. Tensors that could not be read
    /// ([`DiffOutcome::Unread`]) are ignored.
    pub fn is_equal(&self) -> bool {
        self.config.is_empty()
            && self.only_a.is_empty()
            && self.only_b.is_empty()
            && !self.tensors.iter().any(|tensor| tensor.outcome.is_difference())
    }
}

impl TensorPairs {
    /// Pairs the tensors of two models by canonical name, and tensors without a canonical name by
    /// stored name. If the architecture of either model is unknown, all tensors are paired by
    /// stored name; if no name is in common, without a prefix that the names of one model have, which a note names. Of [auxiliary](crate::arch::Auxiliary) tensors, those are compared that change results: those of vision
    /// and audio models, projectors and layers that predict further tokens, and the divisors of rotary frequencies that GGUF
    /// stores. Those of a directory follow from its config, and are compared with the config.
    ///
    /// If one model stores its output matrix and the other ties it to the embedding, the output
    /// matrix is compared with that embedding, and a note says so.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the models have no name in common; same as [`Model::tensor`].
    pub fn new(a: &Model, b: &Model) -> Result<Self> {
        let mut notes = Vec::new();
        let canonical = match (names(a)?, names(b)?) {
            (Some(a), Some(b)) => {
                if a != b {
                    notes.push(format!("A is {a}, B is {b}"));
                }
                true
            }
            (None, None) => {
                notes.push(
                    "neither architecture is known: tensors are paired by stored name".to_owned(),
                );
                false
            }
            (known, _) => {
                let one = if known.is_some() { "B" } else { "A" };
                notes.push(format!(
                    "the architecture of {one} is unknown: tensors are paired by stored name"
                ));
                false
            }
        };
        let auxiliary = a.resolution()?.auxiliary.iter().chain(&b.resolution()?.auxiliary);
        let auxiliary = auxiliary.filter(|tensor| canonical || !tensor.is_of_another_part());
        let auxiliary: HashSet<&str> = auxiliary.map(|tensor| tensor.stored.as_str()).collect();
        let [of_a, of_b] = [a, b].map(|model| tensors(model, canonical, &auxiliary));
        let (of_a, of_b) = (of_a?, of_b?);
        let prefix = if canonical { None } else { Prefix::of(&of_a, &of_b) };
        notes.extend(prefix.as_ref().map(Prefix::note));
        let bare = |tensor: &Tensor, is_b: bool| {
            let prefix = prefix.as_ref().filter(|prefix| prefix.of_b == is_b);
            let name = tensor.name();
            prefix.map_or_else(|| name.to_owned(), |prefix| prefix.without(name).into_owned())
        };
        let places = (0..).zip(&of_b).map(|(n, view)| (bare(view, true), n));
        let places: HashMap<String, usize> = places.collect();
        let mut of_b: Vec<Option<Tensor>> = of_b.into_iter().map(Some).collect();
        let are_tied = [a, b].into_iter().all(|model| is_tied(model) || has_copy(model));
        let pair = |name: String, a, b| {
            let is_copy = are_tied && name == OUTPUT;
            TensorPair { name, a, b, is_copy }
        };
        let mut pairs = Self {
            a: a.clone(),
            b: b.clone(),
            both: Vec::new(),
            only_a: Vec::new(),
            only_b: Vec::new(),
            config: configs::differing_values(a, b),
            notes,
        };
        for a in of_a {
            let name = bare(&a, false);
            let same = places.get(&name).and_then(|&n| of_b.get_mut(n)?.take());
            match same.or_else(|| pairs.tied("B", b, &name)) {
                Some(b) => pairs.both.push(pair(name, a, b)),
                None => pairs.only_a.push(a),
            }
        }
        for b in of_b.into_iter().flatten() {
            let name = b.name().to_owned();
            match pairs.tied("A", a, &name) {
                Some(a) => pairs.both.push(pair(name, a, b)),
                None => pairs.only_b.push(b),
            }
        }
        if canonical {
            pairs.add_parts(a, b)?;
        }
        pairs.add_divisors(a, b)?;
        if pairs.both.is_empty() {
            let (path, other) = (a.path(), b.path());
            let fault = format!("no tensor name in common with {}", other.display());
            let advice = format!("A: {}; B: {}", a.resolution()?, b.resolution()?);
            return Err(Error::mismatch(fault).in_file(path).advise(advice));
        }
        Ok(pairs)
    }

    /// Pairs the weights outside of the language models by stored name.
    fn add_parts(&mut self, a: &Model, b: &Model) -> Result<()> {
        let of_b = parts(b)?.into_iter().enumerate();
        let mut of_b: HashMap<String, (usize, Tensor)> =
            of_b.map(|(place, part)| (part.name().to_owned(), (place, part))).collect();
        let (mut only_a, before) = (Vec::new(), self.both.len());
        for a in parts(a)? {
            let name = a.name().to_owned();
            match of_b.remove(&name) {
                Some((_, b)) => self.both.push(TensorPair { name, a, b, is_copy: false }),
                None => only_a.push(a),
            }
        }
        let mut only_b: Vec<(usize, Tensor)> = of_b.into_values().collect();
        only_b.sort_unstable_by_key(|(place, _)| *place);
        let only_b: Vec<Tensor> = only_b.into_iter().map(|(_, part)| part).collect();
        if self.both.len() > before {
            self.only_a.extend(only_a);
            self.only_b.extend(only_b);
            return Ok(());
        }
        for (which, only) in [("A", only_a), ("B", only_b)] {
            if let Some(first) = only.first() {
                let (name, more) = (first.name(), only.len().saturating_sub(1));
                let what = "no part of its language model";
                self.notes.push(format!("not compared: {name} and {more} more of {which}, {what}"));
            }
        }
        Ok(())
    }

    /// Pairs the divisors of rotary frequencies of two GGUF files. A file without them has divisors of 1.
    fn add_divisors(&mut self, a: &Model, b: &Model) -> Result<()> {
        let of = |model: &Model| -> Result<Vec<Tensor>> {
            let auxiliary = model.resolution()?.auxiliary.iter();
            let rotary = auxiliary.filter(|tensor| tensor.is_rotary());
            rotary.map(|tensor| model.stored_tensor(&tensor.stored)).collect()
        };
        if [a, b].iter().any(|model| model.encoding() != Encoding::Gguf) {
            return Ok(());
        }
        let mut of_b = of(b)?;
        for a in of(a)? {
            let name = a.name().to_owned();
            match of_b.iter().position(|b| b.name() == name) {
                Some(at) => {
                    self.both.push(TensorPair { name, a, b: of_b.remove(at), is_copy: false });
                }
                None if configs::are_ones(&a) => {}
                None => self.only_a.push(a),
            }
        }
        self.only_b.extend(of_b.into_iter().filter(|b| !configs::are_ones(b)));
        Ok(())
    }

    /// The embedding of a model that ties its output matrix to it; `None` unless `wanted` is that
    /// matrix.
    fn tied(&mut self, which: &str, model: &Model, wanted: &str) -> Option<Tensor> {
        if wanted != OUTPUT || !is_tied(model) {
            return None;
        }
        let embedding = model.tensor(EMBEDDING).ok()?;
        self.notes.push(format!("{which} ties {OUTPUT} to {EMBEDDING}: compared with that"));
        Some(embedding)
    }

    /// Keeps only the pairs of which `keep` accepts a tensor, and the unpaired tensors that it
    /// accepts. Drops the differences of the configs, which concern the models as a whole.
    pub fn retain(&mut self, keep: impl Fn(&Tensor) -> bool) {
        self.both.retain(|pair| keep(&pair.a) || keep(&pair.b));
        self.only_a.retain(&keep);
        self.only_b.retain(&keep);
        self.config.clear();
    }

    /// Compares the values of each pair, in the order of [`Tensor::for_each_values`] and in
    /// constant memory for each thread. Elements differ if their difference exceeds the tolerance.
    /// NaN equals NaN and differs from every number.
    ///
    /// # Errors
    ///
    /// Same as [`Tensor::for_each_values`], except `Unsupported`, which becomes an
    /// [outcome](DiffOutcome::Unread); `Cancelled` if the progress callback cancels.
    pub fn compare(self, options: &DiffOptions<'_>) -> Result<ModelDiff> {
        let Self { a, b, both, only_a, only_b, config, notes } = self;
        let tolerance = options.tolerance;
        let bytes = |pair: &TensorPair| pair.a.stored_bytes().saturating_add(pair.b.stored_bytes());
        let meter =
            Meter::new(both.iter().map(bytes).fold(0, u64::saturating_add), options.progress);
        let compare = |(): &mut (), pair: TensorPair| {
            let outcome = pair.compare(tolerance)?;
            meter.add(bytes(&pair))?;
            Ok(TensorDiff { pair, outcome })
        };
        let tensors = options.threads.in_order(both.into_iter(), || (), compare)?;
        Ok(ModelDiff { a, b, tolerance, tensors, only_a, only_b, config, notes })
    }
}

/// Whether the output matrix of a model is its embedding.
fn is_tied(model: &Model) -> bool {
    let tied = model.config().ok().and_then(|config| config.tie_embeddings.as_ref());
    tied.is_some_and(|tied| tied.value)
}

/// Whether the stored output matrix of a model has the bytes of its embedding.
fn has_copy(model: &Model) -> bool {
    let (Ok(output), Ok(embedding)) = (model.tensor(OUTPUT), model.tensor(EMBEDDING)) else {
        return false;
    };
    // A matrix that cannot be read is reported when it is compared.
    output.shape() == embedding.shape() && output.is_packed_like(&embedding).unwrap_or(false)
}

/// The source of a model's canonical names: the name of its family, or its structure. `None` without
/// canonical names.
fn names(model: &Model) -> Result<Option<&'static str>> {
    let resolution = model.resolution()?;
    let by_structure = resolution.is_by_structure().then_some("named by structure");
    Ok(resolution.architecture.map(|architecture| architecture.name).or(by_structure))
}

/// The tensors of a model, under the names that are compared.
fn tensors(model: &Model, canonical: bool, auxiliary: &HashSet<&str>) -> Result<Vec<Tensor>> {
    if canonical {
        return model.tensors()?.collect();
    }
    let stored = model.stored_tensors();
    Ok(stored.filter(|tensor| !auxiliary.contains(tensor.name())).collect())
}

/// The weights of a model outside of its language model, under their stored names.
fn parts(model: &Model) -> Result<Vec<Tensor>> {
    let weights = model.resolution()?.auxiliary.iter().filter(|tensor| tensor.is_of_another_part());
    weights.map(|tensor| model.stored_tensor(&tensor.stored)).collect()
}

impl TensorPair {
    /// Compares the values of the two tensors; see [`TensorPairs::compare`].
    ///
    /// # Errors
    ///
    /// Same as [`TensorPairs::compare`].
    pub fn compare(&self, tolerance: f64) -> Result<DiffOutcome> {
        if self.a.shape() != self.b.shape() {
            return Ok(DiffOutcome::Shapes);
        }
        if self.a.is_packed_like(&self.b)? {
            return Ok(DiffOutcome::Identical);
        }
        match self.values(tolerance) {
            Ok(values) => Ok(DiffOutcome::Values(values)),
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(DiffOutcome::Unread(error)),
            Err(error) => Err(error),
        }
    }

    fn values(&self, tolerance: f64) -> Result<ValueDiff> {
        let mut values = ValueDiff::default();
        self.a.for_each_values_with(&self.b, None, |a, b| {
            values.extend(a, b, tolerance);
            Ok(())
        })?;
        Ok(values)
    }

    /// Computes a grid over the differences of the values, B minus A: see [`grid`](super::grid).
    ///
    /// # Errors
    ///
    /// `Mismatch` if the shapes differ; otherwise same as [`grid`](super::grid).
    pub fn grid(&self, options: &GridOptions<'_>) -> Result<Grid> {
        grid_of_difference(&self.a, &self.b, options)
    }
}

/// The difference between the values of one tensor, or of several.
///
/// NaN and infinities are compared and counted, and one of them can be the [worst](Self::worst)
/// element. The means include only elements that are finite in both.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct ValueDiff {
    /// The number of compared elements.
    pub elements: u64,
    /// The number of elements that differ by more than the tolerance.
    pub differing: u64,
    /// The element that differs most, the first if there are several; `None` if all elements are
    /// equal.
    pub worst: Option<ElementDiff>,
    /// The number of elements that are finite in both, and sums over them.
    finite: u64,
    squares_a: f64,
    squares_b: f64,
    products: f64,
    squares: f64,
}

/// One element in two models.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ElementDiff {
    /// Its position in row-major order.
    pub at: u64,
    /// Its value in the first model.
    pub a: f32,
    /// Its value in the second.
    pub b: f32,
}

impl ElementDiff {
    /// Its indices in a tensor with this shape, outermost first.
    pub fn indices(&self, shape: &[u64]) -> Vec<u64> {
        crate::shape::indices(self.at, shape)
    }
}

impl ElementDiff {
    /// The absolute difference; NaN if one of the values is NaN.
    pub fn difference(&self) -> f64 {
        difference(self.a, self.b)
    }
}

/// The absolute difference; 0 for equal values, including equal infinities and NaN with NaN.
fn difference(a: f32, b: f32) -> f64 {
    if a == b || (a.is_nan() && b.is_nan()) { 0.0 } else { (f64::from(a) - f64::from(b)).abs() }
}

/// Whether a difference is worse than another. NaN is worse than every number.
fn is_worse(difference: f64, other: f64) -> bool {
    difference > other || (difference.is_nan() && !other.is_nan())
}

/// The number of elements that are summed at a time.
const BLOCK: usize = 1024;

impl ValueDiff {
    /// The largest difference of any element.
    pub fn max(&self) -> f64 {
        self.worst.map_or(0.0, |worst| worst.difference())
    }

    /// The root mean square of the differences.
    pub fn rms(&self) -> f64 {
        if self.finite == 0 { 0.0 } else { (self.squares / self.finite as f64).sqrt() }
    }

    /// The root mean square of the differences divided by that of the first model's values;
    /// infinite if those are all 0.
    pub fn relative_rms(&self) -> f64 {
        if self.squares == 0.0 { 0.0 } else { (self.squares / self.squares_a).sqrt() }
    }

    /// The cosine similarity of the two tensors; `None` if one of them is all 0.
    pub fn cosine(&self) -> Option<f64> {
        let lengths = self.squares_a.sqrt() * self.squares_b.sqrt();
        (lengths > 0.0).then(|| (self.products / lengths).clamp(-1.0, 1.0))
    }

    /// Adds the result of another tensor. The worst element is then the worst of both tensors.
    pub fn merge(&mut self, other: &Self) {
        let worst = |diff: &Self| diff.worst.map_or(-1.0, |worst| worst.difference());
        if is_worse(worst(other), worst(self)) {
            self.worst = other.worst;
        }
        self.elements = self.elements.saturating_add(other.elements);
        self.differing = self.differing.saturating_add(other.differing);
        self.finite = self.finite.saturating_add(other.finite);
        self.squares_a += other.squares_a;
        self.squares_b += other.squares_b;
        self.products += other.products;
        self.squares += other.squares;
    }

    /// Adds the next elements.
    fn extend(&mut self, a: &[f32], b: &[f32], tolerance: f64) {
        for (a, b) in a.chunks(BLOCK).zip(b.chunks(BLOCK)) {
            let ((lanes_a, rest_a), (lanes_b, rest_b)) = (a.as_chunks(), b.as_chunks());
            if self.extend_finite(lanes_a, lanes_b, tolerance) {
                self.extend_any(rest_a, rest_b, tolerance);
            } else {
                self.extend_any(a, b, tolerance);
            }
        }
    }

    /// Adds elements that are all finite. Otherwise does nothing and returns `false`.
    fn extend_finite(
        &mut self,
        a: &[[f32; PAIR_LANES]],
        b: &[[f32; PAIR_LANES]],
        tolerance: f64,
    ) -> bool {
        let Some(found) = pair_sums(a, b, tolerance) else { return false };
        if is_worse(found.most, self.max()) {
            let mut pairs = (0..).zip(a.as_flattened().iter().zip(b.as_flattened()));
            let worst = pairs.find(|(_, (a, b))| difference(**a, **b) == found.most);
            self.worst = worst.map(|(n, (&a, &b))| ElementDiff { at: self.elements + n, a, b });
        }
        let elements = a.as_flattened().len() as u64;
        self.elements += elements;
        self.finite += elements;
        self.differing += found.differing;
        self.squares_a += found.squares_a;
        self.squares_b += found.squares_b;
        self.products += found.products;
        self.squares += found.squares;
        true
    }

    /// Adds any elements, one by one.
    fn extend_any(&mut self, a: &[f32], b: &[f32], tolerance: f64) {
        for (&a, &b) in a.iter().zip(b) {
            let difference = difference(a, b);
            if is_worse(difference, self.max()) {
                self.worst = Some(ElementDiff { at: self.elements, a, b });
            }
            self.elements += 1;
            self.differing += u64::from(is_worse(difference, tolerance));
            if a.is_finite() && b.is_finite() {
                let (a, b) = (f64::from(a), f64::from(b));
                self.finite += 1;
                self.squares_a += a * a;
                self.squares_b += b * b;
                self.products += a * b;
                self.squares += difference * difference;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::{Half, Mapping, RowOrder, Transform};
    use crate::container::OpenOptions;
    use crate::model::Convention;

    /// The reference: sums element by element.
    fn plainly(a: &[f32], b: &[f32], tolerance: f64) -> (u64, Option<u64>, f64) {
        let (mut differing, mut worst, mut squares, mut finite) = (0, None, 0.0, 0u32);
        let mut most = 0.0f64;
        for (at, (&a, &b)) in (0..).zip(a.iter().zip(b)) {
            let equal = a == b || a.is_nan() && b.is_nan();
            let apart = if equal { 0.0 } else { (f64::from(a) - f64::from(b)).abs() };
            if apart > most || apart.is_nan() && !most.is_nan() {
                (most, worst) = (apart, Some(at));
            }
            differing += u64::from(apart > tolerance || apart.is_nan());
            if a.is_finite() && b.is_finite() {
                squares += apart * apart;
                finite += 1;
            }
        }
        (differing, worst, if finite == 0 { 0.0 } else { (squares / f64::from(finite)).sqrt() })
    }

    #[test]
    fn blocks_find_what_elements_one_by_one_do() {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) as f32 / 65536.0
        };
        for len in [0, 1, 7, 8, 9, 1023, 1024, 1025, 5000] {
            for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 2.0] {
                let a: Vec<f32> = (0..len).map(|_| next()).collect();
                let mut b: Vec<f32> = a.iter().map(|a| a + (next() - 0.5) / 64.0).collect();
                if let Some(last) = b.last_mut() {
                    *last = odd;
                }
                for tolerance in [0.0, 0.004, 10.0] {
                    let mut found = ValueDiff::default();
                    found.extend(&a, &b, tolerance);
                    let (differing, worst, rms) = plainly(&a, &b, tolerance);
                    assert_eq!((found.elements, found.differing), (len, differing));
                    assert_eq!(found.worst.map(|worst| worst.at), worst, "{len}, {odd}");
                    assert!((found.rms() - rms).abs() <= 1e-12 * rms, "{len}, {odd}");
                }
            }
        }
    }

    fn model(tensors: &[(&str, &str, &[u8])]) -> Model {
        let (mut header, mut data) = (Vec::new(), Vec::new());
        for (name, shape, bytes) in tensors {
            let (start, end) = (data.len(), data.len() + bytes.len());
            header.push(format!(
                "\"{name}\":{{\"dtype\":\"U8\",\"shape\":{shape},\"data_offsets\":[{start},{end}]}}"
            ));
            data.extend_from_slice(bytes);
        }
        let header = format!("{{{}}}", header.join(","));
        let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat();
        OpenOptions::new().open_memory("file", file).unwrap()
    }

    /// Experts stored as one tensor, as one tensor each, or with two projections in one tensor,
    /// give the same canonical tensor.
    #[test]
    fn experts_are_the_same_however_they_are_stored() {
        let stacked = model(&[("e", "[2,2,3]", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])]);
        let apart = model(&[
            ("e.0", "[2,3]", &[1, 2, 3, 4, 5, 6]),
            ("e.1", "[2,3]", &[7, 8, 9, 10, 11, 13]),
        ]);
        let fused = model(&[(
            "e",
            "[2,4,3]",
            &[1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0, 7, 8, 9, 10, 11, 12, 0, 0, 0, 0, 0, 0],
        )]);
        let view = |model: &Model, stored: &[&str], rows| {
            let mapping = Mapping {
                canonical: "experts".to_owned(),
                stored: stored.iter().map(|name| (*name).to_owned()).collect(),
                stacked: stored.len() > 1,
                transform: Transform {
                    axes: crate::arch::Axes::Same,
                    rows,
                    columns: RowOrder::All,
                    values: crate::arch::Change::None,
                },
            };
            Tensor::mapped(model.store(), &mapping, None, Convention::HuggingFace).unwrap()
        };
        let compare = |a: Tensor, b: Tensor| {
            TensorPair { name: "experts".to_owned(), a, b, is_copy: false }.compare(0.0).unwrap()
        };
        let stacked = || view(&stacked, &["e"], RowOrder::All);
        let DiffOutcome::Values(values) =
            compare(stacked(), view(&apart, &["e.0", "e.1"], RowOrder::All))
        else {
            panic!("values were to be compared");
        };
        let worst = values.worst.map(|worst| (worst.at, worst.a, worst.b));
        assert_eq!((values.differing, worst), (1, Some((11, 12.0, 13.0))));
        let half = compare(stacked(), view(&fused, &["e"], RowOrder::Half(Half::First)));
        assert!(
            matches!(half, DiffOutcome::Values(values) if values.elements == 12 && values.worst.is_none())
        );
    }
}
