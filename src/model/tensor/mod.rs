//! A tensor of a model: rows of stored tensors, in the row order and with the values of a
//! [`Convention`].
//!
//! ```text
//!  stored tensor, stored tensor, … ──runs of rows──▶ Tensor ──▶ packed bytes, if possible
//!                     (expert by expert, head by head)     └──▶ values, always
//! ```
//!
//! A stored tensor, a fused tensor, experts that are stored one by one, q of a fused qkv and a shard
//! of any of these all have this form: a list of runs of rows.

mod arithmetic;
mod arrange;
mod low_rank;
mod packed;
mod reader;
mod slice;
mod stored;
mod values;
mod work;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::arch::{Axes, Mapping, ModelConfig, RowLoops, RowOrder, RowSpan, Transform};
use crate::dtype::{DType, Packing};
use crate::error::{Error, Result};
use crate::quant::{BlockScales, Global};
use crate::shape;
use crate::store::tensor::{self, StoredTensor};
use crate::store::{Part, Store};

use arithmetic::Arithmetic;
pub(crate) use low_rank::{Adaptation, ProductUse};
pub use packed::Derivation;
pub(crate) use packed::PackedPart;
pub use reader::RowReader;
pub use slice::Axis;
pub(crate) use work::{BufferPiece, PIECE, PieceOrigin, plan_packed, plan_values};

/// The row order and the values that canonical tensors have.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Convention {
    /// The order and values of a Hugging Face checkpoint, whatever the file stores.
    #[default]
    HuggingFace,
    /// The order and values of the file: rows of q and k stay permuted, norms keep the 1 that a
    /// converter added, and matrices stay transposed. Tensors that are stored fused are still
    /// split, and experts are still stacked.
    Stored,
}

/// A tensor of a model, under its canonical or its stored name.
#[derive(Clone, Debug)]
pub struct Tensor {
    name: String,
    shape: Vec<u64>,
    /// Elements of a stored row; 1 if single elements of a vector are selected.
    columns: u64,
    /// The stored columns that are the tensor's columns, in order.
    order: RowLoops,
    /// The range within `order` that is selected.
    taken: Range<u64>,
    sources: Vec<RowSource>,
    runs: Vec<RowRun>,
    /// Changes that are added to the stored values.
    changes: Option<Arc<dyn Changes>>,
    /// Whether it is a rank's part: other ranks read the bytes between those of its rows.
    is_share: bool,
}

/// Changes of a model's values, which an adapter makes.
trait Changes: fmt::Debug + Send + Sync {
    /// Whether a stored tensor is changed.
    fn changes(&self, stored: &str) -> bool;

    /// Adds the changes to some elements of a stored tensor.
    fn apply(
        &self,
        tensor: &StoredTensor<'_>,
        elements: &Range<u64>,
        out: &mut [f32],
    ) -> Result<()>;
}

/// A stored tensor that contributes rows. It keeps its store open.
#[derive(Clone, Debug)]
struct RowSource {
    store: Arc<Store>,
    /// The number of the tensor in the store.
    number: u32,
    /// Set if stored rows are the tensor's columns.
    transposed: Option<Transposed>,
    change: Arithmetic,
}

/// Stored rows that are the columns of a tensor: in this order, one matrix after another.
#[derive(Clone, Debug)]
struct Transposed {
    rows: Vec<RowRun>,
    /// The stored tensors that have the rows. The first is that of the transposed source.
    sources: Vec<RowSource>,
}

impl RowSource {
    /// All rows of a stored tensor. `store` must be the tensor's own store.
    fn new(store: &Arc<Store>, tensor: StoredTensor<'_>) -> Self {
        let source = Self {
            store: Arc::clone(store),
            number: tensor.number(),
            transposed: None,
            change: Arithmetic::None,
        };
        debug_assert!(source.tensor().is(&tensor), "a tensor of this store");
        source
    }

    fn tensor(&self) -> StoredTensor<'_> {
        StoredTensor::new(&self.store, self.number)
    }

    /// The sources that are stored tensors: this one, or those of a transposed source.
    fn stored(&self) -> &[Self] {
        match &self.transposed {
            Some(transposed) => &transposed.sources,
            None => std::slice::from_ref(self),
        }
    }

    /// All stored tensors that contribute to this source.
    fn tensors(&self) -> impl Iterator<Item = StoredTensor<'_>> {
        self.stored().iter().map(Self::tensor)
    }

    /// Whether another source applies the same steps to the same number of tensors.
    fn is_made_like(&self, other: &Self) -> bool {
        let same = match (&self.transposed, &other.transposed) {
            (Some(transposed), Some(other)) => transposed.rows == other.rows,
            (transposed, other) => transposed.is_none() && other.is_none(),
        };
        same && self.change == other.change && self.stored().len() == other.stored().len()
    }
}

/// Rows of one source, or alternating rows of several: the first row of each, then the second of
/// each.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct RowRun {
    source: u32,
    /// The number of sources that alternate.
    turns: u32,
    run: RowLoops,
}

impl RowRun {
    const fn of(source: u32, run: RowLoops) -> Self {
        Self { source, turns: 1, run }
    }

    /// The number of rows, over all alternating sources.
    fn len(&self) -> u64 {
        self.run.len().saturating_mul(u64::from(self.turns))
    }

    /// The spans of stored rows, each with its source, for the rows `within` this run.
    fn spans(&self, within: Range<u64>) -> impl Iterator<Item = (u32, RowSpan)> + use<> {
        let Self { source, turns, run } = *self;
        let alone = (turns == 1).then(|| run.spans(within.clone()));
        let in_turn = (turns != 1).then(|| within.start..within.end.min(self.len()));
        let of_turn = move |row: u64| {
            let (row, turn) = (row / u64::from(turns), row % u64::from(turns));
            let source = source.saturating_add(u32::try_from(turn).unwrap_or(u32::MAX));
            run.spans(row..row.saturating_add(1)).next().map(|span| (source, span))
        };
        let alone = alone.into_iter().flatten().map(move |span| (source, span));
        alone.chain(in_turn.into_iter().flatten().filter_map(of_turn))
    }
}

/// The largest number of runs of a tensor. It bounds the memory that a file can demand.
const RUNS: usize = 1 << 20;

/// The least bytes of a rank's tensor that is planned together with others: what is read between them is
/// then less than 1 % of it.
const LONG: u64 = 8 << 20;

/// Says that all bytes of these tensors will be read next. It does nothing for files of this machine.
pub(crate) fn prefetch<'t>(tensors: impl IntoIterator<Item = &'t Tensor>) {
    // A part of a stored tensor is read as it is needed.
    let whole = |tensor: &&Tensor| {
        let stored = tensor.stored_tensors().map(|stored| stored.elements());
        tensor.elements() >= stored.fold(0, u64::saturating_add)
    };
    // Short ranges are joined with what lies between them, which may be the share of another rank.
    let alone = |tensor: &&Tensor| !tensor.is_share || tensor.stored_bytes() >= LONG;
    let planned = tensors.into_iter().filter(whole).filter(alone);
    tensor::prefetch(planned.flat_map(Tensor::stored_tensors));
}

impl Tensor {
    /// A complete stored tensor of a store.
    pub(crate) fn stored(store: &Arc<Store>, tensor: StoredTensor<'_>) -> Self {
        Self::all_of(RowSource::new(store, tensor), tensor.name().spelling().into_owned())
    }

    fn all_of(source: RowSource, name: String) -> Self {
        let tensor = source.tensor();
        let columns = shape::columns(tensor.shape());
        let rows = tensor.elements().checked_div(columns).unwrap_or(0);
        let shape = tensor.shape().to_vec();
        Self {
            name,
            shape,
            columns,
            order: RowLoops::of(0, columns),
            taken: 0..columns,
            sources: vec![source],
            runs: vec![RowRun::of(0, RowLoops::of(0, rows))],
            changes: None,
            is_share: false,
        }
    }

    /// An array of the caller's own: little-endian numbers or blocks of `dtype`, row after row, in
    /// memory or wherever `bytes` reads them. `shape` has the outermost dimension first.
    ///
    /// ```
    /// use weighbridge::{DType, Tensor};
    ///
    /// # fn main() -> weighbridge::Result<()> {
    /// let tensor = Tensor::new("bias", DType::F16, &[2], vec![0x00, 0x3c, 0x00, 0xc0])?;
    /// assert_eq!(tensor.dequantize()?[..], [1.0, -2.0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `Mismatch` if there are not as many bytes as an array of that dtype and shape has.
    pub fn new(
        name: &str,
        dtype: DType,
        shape: &[u64],
        bytes: impl Into<crate::bytes::Source>,
    ) -> Result<Self> {
        let store = Arc::new(crate::store::single(name, dtype, shape, bytes.into())?);
        Ok(Self::stored(&store, store.tensor(name)?))
    }

    /// The canonical tensor of a mapping. `config` is the model's config, if it is valid.
    pub(crate) fn mapped(
        store: &Arc<Store>,
        mapping: &Mapping,
        config: Option<&ModelConfig>,
        convention: Convention,
    ) -> Result<Self> {
        let transform = match convention {
            Convention::HuggingFace => mapping.transform,
            Convention::Stored => mapping.transform.as_stored(),
        };
        let each = |stored: &String| {
            let source = RowSource::new(store, store.tensor(stored)?);
            Self::transformed(source, transform, config)
                .map_err(|error| error.of_model().in_file(store.path()).in_tensor(stored))
        };
        let mut tensors = mapping.stored.iter().map(each);
        let mut tensor =
            tensors.next().unwrap_or_else(|| Err(Error::not_found("no stored tensor")))?;
        if mapping.stacked {
            // Experts become a new first axis.
            let shape = tensor.shape.clone();
            for (number, other) in (1..).zip(tensors) {
                let other = other?;
                if other.shape != shape
                    || (other.columns, other.order) != (tensor.columns, tensor.order)
                {
                    let fault = format!(
                        "expert {number} of {} has shape {:?}, but the first has {shape:?}",
                        mapping.canonical, other.shape
                    );
                    return Err(Error::malformed(fault).in_file(store.path()));
                }
                tensor.append(other)?;
            }
            tensor.shape.insert(0, mapping.stored.len() as u64);
        }
        tensor.name.clone_from(&mapping.canonical);
        Ok(tensor)
    }

    fn transformed(
        source: RowSource,
        transform: Transform,
        config: Option<&ModelConfig>,
    ) -> Result<Self> {
        if transform.is_same() {
            // The caller sets the canonical name.
            return Ok(Self::all_of(source, String::new()));
        }
        let name = source.tensor().name().spelling().into_owned();
        let mut tensor = Self::all_of(source.clone(), name);
        let stored_tensor = source.tensor();
        let Transform { axes, rows, columns, values } = transform;
        let plain = || Ok(stored_tensor.dtype()?.descriptor().packing == Packing::Plain);
        let axes = axes.resolved(stored_tensor.shape(), plain, config)?;
        if let Some(source) = tensor.sources.first_mut() {
            source.change = Arithmetic::from_stored(values);
        }
        let stored = stored_tensor.shape();
        let misfit = |what: &str| Error::mismatch(format!("the shape is {stored:?}, but {what}"));
        match (axes, tensor.shape.as_mut_slice()) {
            (Axes::Same | Axes::TransposedIfPlain | Axes::WidthLast | Axes::WidthFirst, _) => {}
            (Axes::Vectors | Axes::Folded, _) => {
                let elements = stored_tensor.elements();
                tensor.runs = vec![RowRun::of(0, RowLoops::of(0, elements))];
                (tensor.columns, tensor.order, tensor.taken) = (1, RowLoops::of(0, 1), 0..1);
                if axes == Axes::Folded {
                    tensor.shape = vec![elements];
                }
            }
            (Axes::Transposed, [.., _, _]) => tensor = tensor.transpose()?,
            (Axes::Transposed, _) => return Err(misfit("a matrix is required")),
            (Axes::Joined | Axes::JoinedTransposed, &mut [rows, columns]) => {
                let experts = config.map_or(0, |config| u64::from(config.n_experts.value));
                let each = rows.checked_div(experts).filter(|_| rows.is_multiple_of(experts));
                let each = each.ok_or_else(|| {
                    misfit(&format!("its rows are no multiple of the {experts} experts"))
                })?;
                tensor.shape = vec![experts, each, columns];
                if axes == Axes::JoinedTransposed {
                    tensor = tensor.transpose()?;
                }
            }
            (Axes::Joined | Axes::JoinedTransposed, _) => {
                return Err(misfit("a matrix is required"));
            }
            // The axis is restored below, after rows are selected.
            (Axes::Squeezed, [_, 1, _]) => drop(tensor.shape.remove(1)),
            (Axes::Squeezed, [_, _]) => {}
            (Axes::Squeezed, _) => return Err(misfit("a matrix is required")),
            (Axes::Trailing, [.., _, 1]) => drop(tensor.shape.pop()),
            (Axes::Trailing, [_]) => {}
            (Axes::Trailing, _) => return Err(misfit("a last axis of length 1 is required")),
        }
        if columns != RowOrder::All {
            let chosen = columns.choose(1, tensor.columns, config)?;
            let ([run], Some(last)) = (chosen.runs.as_slice(), tensor.shape.last_mut()) else {
                return Err(misfit("contiguous columns are required"));
            };
            (tensor.order, tensor.taken, *last) = (*run, 0..run.len(), run.len());
        }
        if rows != RowOrder::All {
            if tensor.shape.is_empty() {
                return Err(misfit("rows are required"));
            }
            tensor = tensor.by_rows();
            let (arrays, count) = tensor.arrays();
            let chosen = rows.choose(arrays, count, config)?;
            tensor.runs = chosen.runs.into_iter().map(|run| RowRun::of(0, run)).collect();
            let axis = tensor.row_axis();
            tensor.shape.splice(axis..axis + 1, chosen.rows);
        }
        if axes == Axes::Squeezed {
            tensor.shape.insert(1, 1);
        }
        Ok(tensor)
    }

    /// Appends the rows of `other`.
    fn append(&mut self, other: Self) -> Result<()> {
        let first = u32::try_from(self.sources.len()).unwrap_or(u32::MAX);
        self.sources.extend(other.sources);
        let moved = |run: RowRun| RowRun { source: run.source.saturating_add(first), ..run };
        self.runs.extend(other.runs.into_iter().map(moved));
        self.check_runs()
    }

    fn check_runs(&self) -> Result<()> {
        if self.runs.len() <= RUNS {
            return Ok(());
        }
        let fault = format!("{} runs of rows, but at most {RUNS} are supported", self.runs.len());
        Err(Error::unsupported(fault).in_tensor(&self.name))
    }

    /// The name under which the tensor was requested. A fused tensor has the names of its members,
    /// joined by `+`. A stored name that is not UTF-8 is in its [spelling](crate::bytes::Text::spelling).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The dimensions, outermost first.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The dimensions as the lengths of arrays in memory, outermost first.
    ///
    /// # Errors
    ///
    /// `Unsupported` if this machine cannot address an array of this length.
    pub fn dims(&self) -> Result<Vec<usize>> {
        let dim = |dim: &u64| {
            let too_long = |_| {
                let fault =
                    format!("{dim} values in a row exceed the memory that can be addressed");
                Error::unsupported(fault).in_tensor(self.name())
            };
            usize::try_from(*dim).map_err(too_long)
        };
        self.shape.iter().map(dim).collect()
    }

    /// The number of values.
    pub fn elements(&self) -> u64 {
        shape::elements(&self.shape).unwrap_or(0)
    }

    /// The stored tensors that contribute rows, in the order of their first rows.
    pub fn sources(&self) -> impl Iterator<Item = Self> {
        self.stored_sources().map(|source| Self::stored(&source.store, source.tensor()))
    }

    /// Like [`sources`](Self::sources), but borrowed.
    pub(crate) fn stored_tensors(&self) -> impl Iterator<Item = StoredTensor<'_>> {
        self.stored_sources().map(RowSource::tensor)
    }

    /// The stores of its stored tensors, one for each.
    pub(crate) fn stores(&self) -> impl Iterator<Item = &Arc<Store>> {
        self.stored_sources().map(|source| &source.store)
    }

    fn stored_sources(&self) -> impl Iterator<Item = &RowSource> {
        self.sources.iter().flat_map(RowSource::stored)
    }

    /// The global scales: one for the whole tensor, or one for each of its outermost arrays.
    pub(crate) fn globals(&self) -> Result<Vec<Global>> {
        let each = self.sources.iter().map(|source| source.tensor().globals());
        let each = each.collect::<Result<Vec<Vec<Global>>>>()?;
        match each.as_slice() {
            [one] if one.len() < 2 || self.is_stored() => return Ok(one.clone()),
            all if all.iter().all(Vec::is_empty) || self.rows() == 0 => return Ok(Vec::new()),
            _ => {}
        }
        let arrays = if self.shape.len() > 2 { self.shape.first().copied() } else { None };
        let arrays = arrays.unwrap_or(1).max(1);
        let rows = self.rows() / arrays;
        let of_array = |array: u64| {
            let spans = self.spans(array * rows..(array + 1) * rows);
            let mut numbers = spans.flat_map(|(source, span)| {
                let stored = self.sources.get(source as usize).map_or(0, |s| s.tensor().elements());
                let numbers = each.get(source as usize).map_or(&[][..], Vec::as_slice);
                // The number of stored rows that share a global scale.
                let rows = stored.checked_div(self.columns.saturating_mul(numbers.len() as u64));
                let last = span.start + span.step * span.count.saturating_sub(1);
                [span.start, last].map(|row| {
                    let number = usize::try_from(row.checked_div(rows?)?).ok()?;
                    numbers.get(number).copied()
                })
            });
            let first = numbers.next().flatten();
            let one = first.filter(|first| numbers.all(|number| number == Some(*first)));
            one.ok_or_else(|| {
                let fault =
                    "the parts have different global scales, but the tensor needs a single one";
                self.located(Error::unsupported(fault))
            })
        };
        (0..arrays).map(of_array).collect()
    }

    /// The number of elements that share a scale, for dtypes whose group size differs between
    /// tensors (MLX).
    pub fn group_size(&self) -> Option<u32> {
        self.sources.first().and_then(|source| source.tensor().group_size())
    }

    /// Checks that the groups exist that the columns of its stored tensors name.
    pub(crate) fn check_groups(&self) -> Result<()> {
        self.stored_tensors().try_for_each(|tensor| tensor.check_groups())
    }

    /// The scales that bitsandbytes' description of a tensor states; `None` for other schemes.
    pub(crate) fn block_scales(&self) -> Result<Option<BlockScales>> {
        self.sources.first().map_or(Ok(None), |source| source.tensor().block_scales())
    }

    /// The distinct dtype names of its stored tensors: `Q4_K`, `Q4_K+Q6_K`; `ggml:43` for an
    /// unknown type code.
    pub fn dtype_label(&self) -> String {
        let mut labels: Vec<Cow<'static, str>> = Vec::new();
        for tensor in self.stored_tensors() {
            let label = tensor.dtype_label();
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
        labels.join("+")
    }

    /// Whether this is one complete, unchanged stored tensor.
    pub fn is_stored(&self) -> bool {
        self.is_in_stored_order() && !self.is_adapted()
    }

    /// Whether the rows are those of one complete stored tensor, to whose values an adapter may be added.
    fn is_in_stored_order(&self) -> bool {
        let ([source], [run]) = (self.sources.as_slice(), self.runs.as_slice()) else {
            return false;
        };
        let rows = source.tensor().elements().checked_div(self.columns).unwrap_or(0);
        source.transposed.is_none()
            && source.change == Arithmetic::None
            && run.run.is_whole(rows)
            && self.whole_rows()
    }

    /// The rows of the only stored tensor that these are, if they are unchanged and consecutive.
    pub(crate) fn consecutive_rows(&self) -> Option<Range<u64>> {
        let ([source], [run]) = (self.sources.as_slice(), self.runs.as_slice()) else {
            return None;
        };
        let is_unchanged = source.transposed.is_none()
            && source.change == Arithmetic::None
            && !self.is_adapted()
            && self.whole_rows();
        let mut spans = run.run.spans(0..run.run.len());
        let span = spans.next().filter(|span| span.step == 1 || span.count == 1)?;
        (is_unchanged && spans.next().is_none()).then(|| span.start..span.start + span.count)
    }

    /// Whether rows of several stored tensors alternate.
    pub(crate) fn is_interleaved(&self) -> bool {
        self.runs.iter().any(|run| run.turns > 1)
    }

    /// Whether each row is a complete stored row with its columns in order.
    fn whole_rows(&self) -> bool {
        self.order.is_whole(self.columns) && self.taken == (0..self.columns)
    }

    /// The number of rows of each matrix; for a vector, its elements.
    pub(crate) fn matrix_rows(&self) -> u64 {
        self.arrays().1
    }

    /// The number of gathered rows, and the elements of each.
    pub(crate) fn gathered_shape(&self) -> (u64, u64) {
        (self.rows(), self.width())
    }

    /// The number of gathered rows to decode together for efficiency, if any: the rows of a
    /// transposed matrix.
    pub(crate) fn rows_at_once(&self) -> Option<u64> {
        let transposed = self.sources.iter().any(|source| source.transposed.is_some());
        transposed.then(|| self.arrays().1.max(1))
    }

    /// The file, and the byte offset in it, at which a gathered row's weight begins.
    pub(crate) fn file_position(&self, row: u64) -> (u32, u64) {
        let first = self.spans(row..row.saturating_add(1)).next();
        let place = first.and_then(|(source, span)| {
            let tensor = self.sources.get(source as usize)?.tensor();
            let (file, start) = tensor.place(Part::Weight)?;
            let bytes = tensor.stored_bytes().checked_div(self.rows().max(1))?;
            Some((file, start.saturating_add(bytes.saturating_mul(span.start))))
        });
        place.unwrap_or_default()
    }

    /// The number of gathered rows.
    fn rows(&self) -> u64 {
        self.runs.iter().map(RowRun::len).fold(0, u64::saturating_add)
    }

    /// The elements of a gathered row.
    fn width(&self) -> u64 {
        self.taken.end - self.taken.start
    }

    /// The spans of stored rows, each with its source, that make up the given rows.
    fn spans(&self, rows: Range<u64>) -> impl Iterator<Item = (u32, RowSpan)> {
        spans(&self.runs, rows)
    }

    /// The axis along which rows are counted. It is the last axis if each element is a row.
    pub(crate) fn row_axis(&self) -> usize {
        let each = self.width() == 1 && self.shape.last() != Some(&1);
        self.shape.len().saturating_sub(if each { 1 } else { 2 })
    }

    /// The number of matrices or vectors, and the rows of each.
    fn arrays(&self) -> (u64, u64) {
        shape::arrays(&self.shape, self.row_axis())
    }

    /// Turns each element of a vector into a row. The elements of several stored rows, and of a
    /// stored column, stay as they are.
    fn by_rows(mut self) -> Self {
        let columns = self.columns;
        if self.shape.len() == 1
            && columns > 1
            && self.whole_rows()
            && let [run @ RowRun { turns: 1, .. }] = self.runs.as_mut_slice()
            && run.run.len() == 1
            && self.sources.get(run.source as usize).is_some_and(|s| s.transposed.is_none())
        {
            run.run = RowLoops::of(run.run.start.saturating_mul(columns), columns);
            (self.columns, self.order, self.taken) = (1, RowLoops::of(0, 1), 0..1);
        }
        self
    }

    /// Whether every stored tensor has one of these packings, and nothing before the first element
    /// of a row.
    fn is_packed_as(&self, allowed: &[Packing]) -> bool {
        self.stored_tensors().all(|tensor| {
            tensor.dtype().is_ok_and(|dtype| {
                let row = dtype.descriptor();
                row.row_head == 0 && allowed.contains(&row.packing)
            })
        })
    }

    /// Whether elements or blocks of a row can be read without the others.
    fn has_byte_aligned_elements(&self) -> bool {
        self.is_packed_as(&[Packing::Plain, Packing::Block])
    }

    /// Turns each element into a row where possible, so that a long row whose elements or blocks
    /// are byte-aligned can be read in parts.
    pub(crate) fn by_elements(mut self) -> Self {
        if self.is_stored() && self.has_byte_aligned_elements() {
            let run = RowLoops::of(0, self.elements());
            self.runs = vec![RowRun::of(0, run)];
            (self.columns, self.order, self.taken) = (1, RowLoops::of(0, 1), 0..1);
        } else if self.is_packed_as(&[Packing::Plain]) {
            self = self.by_rows();
        }
        self
    }

    /// Adds the tensor's name and the model's path to an error.
    fn located(&self, error: Error) -> Error {
        let error = error.in_tensor(&self.name);
        match self.sources.first() {
            Some(source) => error.in_file(source.tensor().model()),
            None => error,
        }
    }

    /// Concatenates the rows of several tensors, such as q, k and v, or gate and up. Tensors with
    /// outer arrays (experts) are concatenated within each array.
    ///
    /// # Errors
    ///
    /// `Mismatch`, naming the tensors, if their shapes differ in more than the number of rows.
    pub fn fuse(tensors: Vec<Self>) -> Result<Self> {
        let mut tensors = tensors.into_iter().map(Self::by_rows);
        let mut fused = tensors.next().ok_or_else(|| Error::mismatch("no tensors to fuse"))?;
        let (arrays, first) = fused.arrays();
        let mut all = vec![first];
        let outer = |shape: &[u64]| match shape {
            [outer @ .., _, columns] => (outer.to_vec(), Some(*columns)),
            _ => (Vec::new(), None),
        };
        for other in tensors {
            let form = |tensor: &Self| {
                (
                    outer(&tensor.shape),
                    tensor.shape.len(),
                    tensor.columns,
                    tensor.order,
                    tensor.taken.clone(),
                )
            };
            let same = form(&other) == form(&fused);
            if !same || fused.shape.is_empty() {
                return Err(Error::mismatch(format!(
                    "shape {:?} cannot be concatenated with {}, which has shape {:?}",
                    other.shape, fused.name, fused.shape
                ))
                .in_tensor(&other.name));
            }
            let (_, rows) = other.arrays();
            all.push(rows);
            fused.name = format!("{}+{}", fused.name, other.name);
            fused.append(other)?;
        }
        if arrays != 1 {
            // The tensors now follow each other; take each array's rows from every tensor.
            let mut runs = Vec::new();
            for array in 0..arrays {
                let mut before = 0u64;
                for &rows in &all {
                    let start = before + array * rows;
                    let spans = fused.spans(start..start + rows);
                    runs.extend(spans.map(|(source, span)| RowRun::of(source, span.into())));
                    before += arrays * rows;
                }
                if runs.len() > RUNS {
                    break;
                }
            }
            fused.runs = runs;
            fused.check_runs()?;
        }
        let axis = fused.row_axis();
        if let Some(rows) = fused.shape.get_mut(axis) {
            *rows = all.iter().fold(0, |sum, rows| sum.saturating_add(*rows));
        }
        Ok(fused)
    }

    /// The dtype, if all its stored tensors have the same one.
    ///
    /// # Errors
    ///
    /// `Mismatch`, naming the tensors and dtypes, if they differ; `Unsupported` for an unknown type
    /// code.
    pub fn dtype(&self) -> Result<DType> {
        let mut found: Option<(DType, Option<u32>, StoredTensor<'_>)> = None;
        for tensor in self.stored_tensors() {
            let (dtype, group) = (tensor.dtype()?, tensor.group_size());
            match found {
                Some((first, first_group, other)) if (first, first_group) != (dtype, group) => {
                    let grouped = |dtype: DType, group: Option<u32>| match group {
                        Some(group) => format!("{dtype} in groups of {group}"),
                        None => dtype.to_string(),
                    };
                    let fault = format!(
                        "{} is {}, but {} is {}: they cannot be fused into one tensor",
                        other.name(),
                        grouped(first, first_group),
                        tensor.name(),
                        grouped(dtype, group)
                    );
                    return Err(Error::mismatch(fault)
                        .in_tensor(&self.name)
                        .advise("convert them to one dtype, or load them separately"));
                }
                Some(_) => {}
                None => found = Some((dtype, group, tensor)),
            }
        }
        let (dtype, ..) = found.ok_or_else(|| Error::not_found("no stored tensor"))?;
        Ok(dtype)
    }
}

/// The spans of stored rows, each with its source, for `rows` counted over all runs.
fn spans(runs: &[RowRun], rows: Range<u64>) -> impl Iterator<Item = (u32, RowSpan)> {
    let mut first = 0u64;
    let within = runs.iter().filter_map(move |run| {
        let (start, end) = (first, first.saturating_add(run.len()));
        first = end;
        let (from, to) = (rows.start.max(start), rows.end.min(end));
        (from < to).then(|| run.spans(from - start..to - start))
    });
    within.flatten()
}

impl From<RowSpan> for RowLoops {
    fn from(span: RowSpan) -> Self {
        Self { start: span.start, loops: [(1, 0), (1, 0), (span.count, span.step)] }
    }
}
