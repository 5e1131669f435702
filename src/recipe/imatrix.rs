//! Importance matrices: how much each column of a weight matters, as measured by llama-imatrix.
//!
//! Two formats are supported (common/imatrix-loader.cpp and tools/quantize/quantize.cpp of
//! llama.cpp, as of ggml 0.25.3). In GGUF, `<weight>.in_sum2` holds a sum of squares for each
//! column of each matrix, and `<weight>.counts` the number of tokens that each matrix was measured
//! with. The older format, usually named `.dat`, has no magic number. It holds the number of
//! entries; for each entry a name, a number of calls, and the means multiplied by that number; then
//! optionally a number of chunks and the name of the text.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::bytes::{Source, Text, try_vec};
use crate::container::{self, OpenOptions};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::rounding::f32_of;
use crate::store::tensor::StoredTensor;
use crate::store::{Store, check_count};

/// The importance of the columns of a model's weights: for each column, the mean square of the
/// activations that it is multiplied with.
#[derive(Debug)]
pub struct ImportanceMatrix {
    path: PathBuf,
    /// Keyed by the stored names of weights in GGUF.
    entries: BTreeMap<String, Vec<f32>>,
    /// The weights with matrices that no token reached, and the number of columns of those.
    unreached: BTreeMap<String, u64>,
    /// The weights that [`retain`](Self::retain) removed.
    left_out: BTreeSet<String>,
    datasets: Vec<String>,
    chunks: u32,
}

/// The weights of columns that a quantizer uses.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ColumnWeights<'a> {
    /// A weight for each column of each matrix, one matrix after another.
    pub values: Cow<'a, [f32]>,
    /// The number of columns without usable importance, which weigh as much as the average column of
    /// their matrix, or 1 if no column is usable.
    pub replaced: u64,
}

/// The fewest values that share a scale. If all of their weights were 0, a quantizer could not tell a
/// good scale from a bad one, and would write zeros.
const GROUP: usize = 16;

/// Smaller weights count as 0: the square of a weighted sum vanishes in `f32`.
const LEAST: f32 = 1e-18;

const SUMS: &str = ".in_sum2";
const COUNTS: &str = ".counts";

/// Keys that llama-quantize requires.
const KEYS: &[&str] = &["imatrix.datasets", "imatrix.chunk_count", "imatrix.chunk_size"];

/// Weights whose importance may have a different length; it is then ignored. Embeddings are looked
/// up, not multiplied with.
const EMBEDDINGS: &[&str] = &["token_embd.weight", "per_layer_token_embd.weight"];

impl ImportanceMatrix {
    /// Reads an importance matrix in either format.
    ///
    /// # Errors
    ///
    /// `Malformed` if llama-quantize would refuse the file too, or if the file is shorter or longer
    /// than its counts say; `NotFound` and `Io`; `LimitExceeded`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &OpenOptions::new())
    }

    /// Like [`open`](Self::open), with the caller's options.
    ///
    /// # Errors
    ///
    /// Same as [`open`](Self::open).
    pub fn open_with(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        let path = path.as_ref();
        let source = Source::open(path, options.access)?;
        let read = match source.bytes(0..source.len().min(4))?.as_ref() {
            b"GGUF" => container::open(path, options).and_then(|store| Self::from_store(&store)),
            _ => Self::from_dat(&source, &options.limits),
        };
        read.map_err(|error| error.in_file(path))
    }

    /// Reads an importance matrix from memory. Messages use `name` as the path.
    ///
    /// # Errors
    ///
    /// Same as [`open`](Self::open).
    pub fn open_memory(name: &str, bytes: Vec<u8>, options: &OpenOptions) -> Result<Self> {
        let read = match bytes.starts_with(b"GGUF") {
            true => {
                let store = container::open_source(Source::memory(name, bytes), options)?;
                Self::from_store(&store)
            }
            false => Self::from_dat(&Source::memory(name, bytes), &options.limits),
        };
        read.map_err(|error| error.in_file(Path::new(name)))
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names of the weights with known importance.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// The number of weights with known importance.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no weight has a known importance.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether a weight, or its stack of experts, has a known importance.
    pub(crate) fn has(&self, name: &str) -> bool {
        is_one_of(name, |name| self.entries.contains_key(name))
    }

    /// Whether the importance of a weight, or of its stack of experts, was removed.
    pub(crate) fn is_left_out(&self, name: &str) -> bool {
        is_one_of(name, |name| self.left_out.contains(name))
    }

    /// The texts on which it was measured.
    pub fn datasets(&self) -> &[String] {
        &self.datasets
    }

    /// The number of chunks of text it was measured on; 0 if the file does not state it.
    pub fn chunks(&self) -> u32 {
        self.chunks
    }

    /// Removes all weights for which `keep` returns false: `--include-weights` and
    /// `--exclude-weights`.
    pub fn retain(&mut self, mut keep: impl FnMut(&str) -> bool) {
        let left_out = &mut self.left_out;
        self.entries.retain(|name, _| {
            let kept = keep(name);
            if !kept {
                left_out.insert(name.clone());
            }
            kept
        });
    }

    /// The importance of each column of each of a weight's matrices, one matrix after another;
    /// `None` if it is unknown.
    ///
    /// # Errors
    ///
    /// `Mismatch` if it was measured on a model with other shapes.
    pub fn get(&self, name: &str, columns: u64, matrices: u64) -> Result<Option<&[f32]>> {
        let found = self.entries.get(name).map(Vec::as_slice);
        let Some(found) = found.or_else(|| self.of_expert(name, columns)) else { return Ok(None) };
        if columns.checked_mul(matrices) == Some(found.len() as u64) {
            return Ok(Some(found));
        }
        if EMBEDDINGS.contains(&name) {
            return Ok(None);
        }
        let fault = format!(
            "importance of {} columns, but the weight has {matrices} x {columns}",
            found.len()
        );
        Err(Error::mismatch(fault).in_file(&self.path).in_tensor(name).advise(
            "the importance matrix was made for another model, or for experts in separate tensors",
        ))
    }

    /// The importance of an expert that is a weight of its own, as models of 2023 have them, measured
    /// on a model whose experts are stacked.
    fn of_expert(&self, name: &str, columns: u64) -> Option<&[f32]> {
        let (stem, expert) = expert_of(name)?;
        let stacked = self.entries.get(&format!("{stem}{STACKED}"))?;
        let columns = usize::try_from(columns).ok().filter(|columns| *columns > 0)?;
        stacked.chunks_exact(columns).nth(expert)
    }

    /// Stacks the importance of experts that were measured one by one.
    fn stack_experts(&mut self) {
        let mut stacks: BTreeMap<String, BTreeMap<usize, &[f32]>> = BTreeMap::new();
        for (name, values) in &self.entries {
            let Some((stem, expert)) = expert_of(name) else { continue };
            stacks.entry(format!("{stem}{STACKED}")).or_default().insert(expert, values);
        }
        stacks.retain(|name, experts| {
            !self.entries.contains_key(name) && experts.keys().copied().eq(0..experts.len())
        });
        let joined = |(name, experts): (String, BTreeMap<usize, &[f32]>)| {
            (name, experts.into_values().flatten().copied().collect())
        };
        let stacks: Vec<(String, Vec<f32>)> = stacks.into_iter().map(joined).collect();
        self.entries.extend(stacks);
    }

    /// The importance of a weight as its quantizer uses it: without numbers that would spoil blocks.
    /// Importance that is negative, infinite or NaN is replaced, and so are zeros in all columns of a
    /// group of 16, the fewest values that share a scale. llama-quantize writes zeros, or worse, there.
    ///
    /// # Errors
    ///
    /// Same as [`get`](Self::get).
    pub fn weights(
        &self,
        name: &str,
        columns: u64,
        matrices: u64,
    ) -> Result<Option<ColumnWeights<'_>>> {
        let Some(stated) = self.get(name, columns, matrices)? else { return Ok(None) };
        let columns = usize::try_from(columns).unwrap_or(usize::MAX).max(1);
        let unreached = self.unreached.get(name).copied().unwrap_or(0);
        let mut weights = ColumnWeights { values: stated.into(), replaced: unreached };
        for (number, matrix) in stated.chunks(columns).enumerate() {
            let Some(whole) = usable(matrix) else { continue };
            let replaced = whole.iter().zip(matrix).filter(|(a, b)| a.to_bits() != b.to_bits());
            weights.replaced = weights.replaced.saturating_add(replaced.count() as u64);
            let start = number.saturating_mul(columns);
            let place = weights.values.to_mut().get_mut(start..start.saturating_add(whole.len()));
            if let Some(place) = place {
                place.copy_from_slice(&whole);
            }
        }
        Ok(Some(weights))
    }

    fn from_store(store: &Store) -> Result<Self> {
        let metadata = store.metadata();
        if let Some(kind) = metadata.str("general.type").filter(|kind| *kind != "imatrix") {
            let kind = Text::new(kind.as_bytes()).brief();
            let fault = format!("this is a GGUF file of type \"{kind}\", not an importance matrix");
            return Err(Error::malformed(fault));
        }
        if let Some(key) = KEYS.iter().find(|key| metadata.get(key).is_none()) {
            let fault = "the key is missing, but an importance matrix requires it";
            return Err(Error::malformed(fault).in_key(key));
        }
        let mut this = Self {
            path: store.path().to_path_buf(),
            entries: BTreeMap::new(),
            unreached: BTreeMap::new(),
            left_out: BTreeSet::new(),
            datasets: Vec::new(),
            chunks: metadata
                .u64("imatrix.chunk_count")
                .and_then(|count| u32::try_from(count).ok())
                .unwrap_or(0),
        };
        let datasets = metadata.array("imatrix.datasets");
        let datasets = datasets.as_ref().and_then(|array| array.texts()).into_iter().flatten();
        this.datasets.extend(datasets.map(|text| text.spelling().into_owned()));
        let mut halves: BTreeMap<&str, (Option<StoredTensor<'_>>, Option<StoredTensor<'_>>)> =
            BTreeMap::new();
        for tensor in store.tensors() {
            // Other suffixes are ignored, for compatibility with future files.
            let Some(name) = tensor.name().to_str() else { continue };
            if let Some(weight) = name.strip_suffix(SUMS) {
                halves.entry(weight).or_default().0 = Some(tensor);
            } else if let Some(weight) = name.strip_suffix(COUNTS) {
                halves.entry(weight).or_default().1 = Some(tensor);
            }
        }
        for (weight, halves) in halves {
            let (sums, counts) = match halves {
                (Some(sums), Some(counts)) => (sums, counts),
                (sums, _) => {
                    let (has, lacks) = if sums.is_some() { (SUMS, COUNTS) } else { (COUNTS, SUMS) };
                    let fault = format!("there is \"{weight}{has}\", but no \"{weight}{lacks}\"");
                    return Err(Error::malformed(fault).in_tensor(format!("{weight}{has}")));
                }
            };
            let (mut sums, counts) = (floats(&sums)?, floats(&counts)?);
            let columns = sums.len().checked_div(counts.len()).filter(|columns| *columns > 0);
            let columns = columns.filter(|_| sums.len().is_multiple_of(counts.len()));
            let columns = columns.ok_or_else(|| {
                let fault = format!("{} sums for {} counts", sums.len(), counts.len());
                Error::malformed(fault).in_tensor(format!("{weight}{SUMS}"))
            })?;
            for (sums, count) in sums.chunks_exact_mut(columns).zip(counts) {
                // Rounds like `lround`. The columns of an expert that no token reached get equal
                // importance.
                let count = count.round();
                for sum in sums {
                    *sum = if count > 0.0 { *sum / count } else { 1.0 };
                }
                if count > 0.0 {
                    continue;
                }
                let unreached = this.unreached.entry(weight.to_owned()).or_default();
                *unreached = unreached.saturating_add(columns as u64);
            }
            this.entries.insert(weight.to_owned(), sums);
        }
        match this.is_empty() {
            true => Err(Error::malformed("the importance matrix has no entries")),
            false => Ok(this),
        }
    }

    fn from_dat(source: &Source, limits: &Limits) -> Result<Self> {
        let start = source.bytes(0..source.len().min(64))?;
        let is_text =
            |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace() || !byte.is_ascii();
        if !start.is_empty() && start.iter().all(is_text) {
            let advice = "llama-imatrix measures one over a text: `llama-imatrix -m MODEL -f TEXT -o FILE.gguf`";
            return Err(Error::malformed("a text, not an importance matrix").advise(advice));
        }
        let mut file = Dat { source, at: 0, limits };
        // The smallest entry: an empty name, its length, two numbers, a value.
        let count = file.count(1, source.len() / 16, "the number of entries")?;
        check_count(count, limits)?;
        let mut this = Self {
            path: source.path().to_path_buf(),
            entries: BTreeMap::new(),
            unreached: BTreeMap::new(),
            left_out: BTreeSet::new(),
            datasets: Vec::new(),
            chunks: 0,
        };
        for _ in 0..count {
            let at = file.at;
            let name = file.string("a name")?;
            let calls = file.i32("the number of calls")?;
            let most = file.left() / 4;
            let len = file.count(1, most.saturating_sub(1), "the number of values")?;
            let bytes = file.take(len.saturating_mul(4), "values")?;
            let mut values = try_vec(bytes.len() / 4)?;
            let (words, _) = bytes.as_chunks::<4>();
            // Rounds to f32 like upstream.
            #[expect(clippy::cast_precision_loss, reason = "f32 is what upstream divides by")]
            let calls = if calls > 0 { calls as f32 } else { 1.0 };
            values.extend(words.iter().map(|word| f32::from_le_bytes(*word) / calls));
            if this.entries.contains_key(&name) {
                let name = Text::new(name.as_bytes()).brief();
                return Err(Error::malformed(format!("two entries for \"{name}\"")).at(at));
            }
            this.entries.insert(name, values);
        }
        if file.left() > 0 {
            let at = file.at;
            let chunks = file.i32("the number of chunks")?;
            this.chunks = u32::try_from(chunks).map_err(|_| {
                Error::malformed(format!(
                    "the number of chunks is {chunks}, but it must not be negative"
                ))
                .at(at)
            })?;
        }
        if file.left() > 0 {
            this.datasets.extend(Some(file.string("the name of the text")?));
        }
        this.stack_experts();
        match file.left() {
            0 => Ok(this),
            left => {
                let fault = format!("{left} bytes are left over after the last entry");
                Err(Error::malformed(fault).at(file.at).advise(NO_MAGIC))
            }
        }
    }
}

/// The end of the names of stacked experts.
const STACKED: &str = "_exps.weight";

/// The beginning of the name of an expert's weight, and the number of the expert: those of
/// `blk.0.ffn_up.3.weight` are `blk.0.ffn_up` and 3.
fn expert_of(name: &str) -> Option<(&str, usize)> {
    let (stem, number) = name.strip_suffix(".weight")?.rsplit_once('.')?;
    let is_expert = ["ffn_gate", "ffn_up", "ffn_down"].iter().any(|part| stem.ends_with(part));
    is_expert.then(|| Some((stem, number.parse().ok()?)))?
}

/// Whether a weight, or its stack of experts, is one of some names.
fn is_one_of(name: &str, is_it: impl Fn(&str) -> bool) -> bool {
    let stacked = || expert_of(name).map(|(stem, _)| format!("{stem}{STACKED}"));
    is_it(name) || stacked().is_some_and(|stacked| is_it(&stacked))
}

/// The weights of a matrix's columns, if its importance cannot be used as it is.
fn usable(matrix: &[f32]) -> Option<Vec<f32>> {
    let is_number = |value: f32| value.is_finite() && value >= 0.0;
    let weighs = |value: f32| is_number(value) && value >= LEAST;
    let dead = |group: &[f32]| !group.iter().any(|value| weighs(*value));
    if matrix.iter().all(|value| is_number(*value)) && !matrix.chunks(GROUP).any(dead) {
        return None;
    }
    let (mut sum, mut count) = (0.0, 0.0);
    for value in matrix.iter().filter(|value| weighs(**value)) {
        (sum, count) = (sum + f64::from(*value), count + 1.0);
    }
    let average = if count > 0.0 { f32_of(sum / count) } else { 1.0 };
    let mut weights = matrix.to_vec();
    for group in weights.chunks_mut(GROUP) {
        let dead = dead(group);
        let replaced = group.iter_mut().filter(|value| dead || !is_number(**value));
        replaced.for_each(|value| *value = average);
    }
    Some(weights)
}

/// Advice for a damaged file of the older format.
const NO_MAGIC: &str = "the older format has no magic number: check that the file is an \
    importance matrix";

/// All values of a tensor, which must be `F32`.
fn floats(tensor: &StoredTensor<'_>) -> Result<Vec<f32>> {
    let dtype = tensor.dtype()?;
    if dtype != DType::F32 {
        let fault = format!("the dtype is {dtype}, but an importance matrix requires F32");
        return Err(Error::malformed(fault).in_tensor(tensor.name()));
    }
    Ok(tensor.dequantize()?.to_vec())
}

/// A position in a file of the older format.
struct Dat<'a> {
    source: &'a Source,
    at: u64,
    limits: &'a Limits,
}

impl Dat<'_> {
    fn left(&self) -> u64 {
        self.source.len().saturating_sub(self.at)
    }

    fn take(&mut self, len: u64, what: &str) -> Result<Cow<'_, [u8]>> {
        let (at, left) = (self.at, self.left());
        if len > left {
            let fault = format!("{what} needs {len} bytes, but only {left} are left in the file");
            return Err(Error::malformed(fault).at(at).advise(NO_MAGIC));
        }
        self.at = at.saturating_add(len);
        self.source.bytes(at..self.at)
    }

    fn i32(&mut self, what: &str) -> Result<i32> {
        let bytes = self.take(4, what)?;
        let bytes = bytes.first_chunk().copied().unwrap_or_default();
        Ok(i32::from_le_bytes(bytes))
    }

    /// Reads a number, which must lie within these bounds.
    fn count(&mut self, least: u64, most: u64, what: &str) -> Result<u64> {
        let at = self.at;
        let found = self.i32(what)?;
        let count = u64::try_from(found).ok().filter(|count| (least..=most).contains(count));
        count.ok_or_else(|| {
            let fault = format!("{what} is {found}, but the file has room for {least} to {most}");
            Error::malformed(fault).at(at).advise(NO_MAGIC)
        })
    }

    fn string(&mut self, what: &str) -> Result<String> {
        let at = self.at;
        let len = self.count(0, self.left().saturating_sub(4), &format!("the length of {what}"))?;
        let limit = self.limits.string_bytes;
        if len > limit {
            return Err(Error::limit("bytes in one string", len, limit, "string_bytes").at(at));
        }
        let bytes = self.take(len, what)?.into_owned();
        String::from_utf8(bytes)
            .map_err(|_| Error::malformed(format!("{what} is not UTF-8")).at(at).advise(NO_MAGIC))
    }
}
