//! Changes of a model's values, which LoRA adapters consist of.
//!
//! A change is the product of two thin matrices in canonical order, after which each row may be scaled
//! to a norm (DoRA), or it is a row in place of another one. It is kept by stored row and stored column,
//! so that it is made before stored rows are put in any order.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::{Arithmetic, Changes, Tensor, Transposed, spans};
use crate::arch::{Axes, Change, ModelConfig, RowLoops, RowOrder, RowSpan, Transform};
use crate::bytes::{AlignedBuffer, try_vec};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::quant::{ProductRow, add_product, bf16, f16};
use crate::rounding::f32_of;
use crate::shape;
use crate::store::tensor::{DecodeOptions, StoredTensor};

/// The most bytes of factors that are kept, besides those used last.
const KEPT: usize = 64 << 20;

/// The changes of a model's stored tensors.
#[derive(Debug, Default)]
pub(crate) struct Adaptation {
    products: Vec<Arc<Product>>,
    /// The changes of each stored tensor, by its name, in their order.
    by_tensor: HashMap<String, Vec<PlacedChange>>,
    /// The factors used last, the latest at the end.
    kept: Mutex<Vec<(FactorsOf, Arc<Factors>)>>,
}

/// A product that is added to rows of a canonical tensor.
#[derive(Debug)]
struct Product {
    /// `[rows, rank]`
    left: Tensor,
    /// `[rank, columns]`
    right: Tensor,
    scale: f32,
    /// Whether it is rounded to the dtype of the stored tensor before it is added.
    rounded: bool,
}

/// The use of a product of matrices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProductUse {
    pub(crate) scale: f32,
    /// Whether it is rounded to the dtype of the stored tensor before it is added, if that is F16 or
    /// BF16.
    pub(crate) rounded: bool,
}

/// A change of a stored tensor.
#[derive(Clone, Debug)]
enum PlacedChange {
    Product(PlacedProduct),
    Rows(Arc<ReplacedRows>),
}

/// A product, and its place in a stored tensor.
#[derive(Clone, Debug)]
struct PlacedProduct {
    product: usize,
    /// The number of each stored row among the rows of the product; if `swapped`, among its
    /// columns.
    rows: PlaceMap,
    /// The same for stored columns.
    columns: PlaceMap,
    swapped: bool,
    /// The norms that rows are scaled to after the product is added.
    norms: Option<Arc<Norms>>,
}

/// Norms that the rows of a canonical tensor are scaled to.
#[derive(Debug)]
struct Norms {
    /// The tensor before its rows are scaled.
    before: Tensor,
    /// The norm of each row.
    magnitudes: Tensor,
    /// The factor of each row, computed when it is needed.
    factors: OnceLock<Result<Vec<f32>>>,
}

/// Rows that take the place of stored ones.
#[derive(Debug)]
struct ReplacedRows {
    /// For each stored row, the number of the one that takes its place.
    rows: BTreeMap<u64, usize>,
    values: AlignedBuffer<f32>,
}

/// Maps stored numbers to numbers in a product.
#[derive(Clone, Debug)]
enum PlaceMap {
    /// These numbers, in order.
    Span(RowSpan),
    /// One number for each stored number; `u32::MAX` for none.
    Table(Vec<u32>),
}

/// The number of a product, and the stored tensor that it is placed in.
type FactorsOf = (usize, String);

/// The factors of a product, as decoding needs them.
#[derive(Debug)]
struct Factors {
    rank: usize,
    /// `rank` numbers for each row or column that stored rows are mapped to.
    rows: AlignedBuffer<f32>,
    /// `rank` rows with one number for each stored column.
    columns: AlignedBuffer<f32>,
    scale: f32,
}

impl PlaceMap {
    /// Creates a map of `count` stored numbers from runs of them, each with the product's number of
    /// its first one.
    fn of(runs: &[(u64, RowSpan)], count: u64) -> Result<Self> {
        if let [(0, span)] = *runs {
            return Ok(Self::Span(span));
        }
        let len = usize::try_from(count).unwrap_or(usize::MAX);
        let mut table = try_vec(len)?;
        table.resize(len, u32::MAX);
        for (first, span) in runs {
            for n in 0..span.count {
                let stored = usize::try_from(span.start + n * span.step);
                let place = stored.ok().and_then(|stored| table.get_mut(stored));
                let outside = || Error::mismatch("a row outside of the stored tensor");
                *place.ok_or_else(outside)? = u32::try_from(first + n).unwrap_or(u32::MAX);
            }
        }
        Ok(Self::Table(table))
    }

    fn find(&self, stored: u64) -> Option<usize> {
        match self {
            Self::Span(RowSpan { start, step, count }) => {
                let distance = stored.checked_sub(*start)?;
                let number = distance.checked_div(*step).unwrap_or(distance);
                let is_one = number.checked_mul(*step) == Some(distance) && number < *count;
                usize::try_from(number).ok().filter(|_| is_one)
            }
            Self::Table(table) => {
                let number = *table.get(usize::try_from(stored).ok()?)?;
                (number != u32::MAX).then_some(number as usize)
            }
        }
    }
}

impl Adaptation {
    /// Adds a product to some rows of a canonical tensor, counted over all its matrices. `left` is
    /// `[rows, rank]` and `right` `[rank, columns]`, in canonical order. With `magnitudes`, each row is then
    /// scaled to its norm.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the shapes do not fit; `Unsupported` if the tensor is not derived from stored
    /// matrices by their rows and columns alone.
    pub(crate) fn add(
        &mut self,
        target: &Tensor,
        rows: Range<u64>,
        (left, right): (Tensor, Tensor),
        ProductUse { scale, rounded }: ProductUse,
        magnitudes: Option<Tensor>,
    ) -> Result<()> {
        let is_whole = rows == (0..target.rows());
        check_shapes(target, &rows, &left, &right)?;
        left.check_decodable()?;
        right.check_decodable()?;
        let unsupported =
            |what: &str| Err(Error::unsupported(what.to_owned()).in_tensor(target.name()));
        if target.sources.iter().any(|source| source.change != Arithmetic::None) {
            return unsupported("a change of a tensor whose values are stored in another form");
        }
        let product = self.products.len();
        let columns_of = |tensor: StoredTensor<'_>| shape::columns(tensor.shape());
        let rows_of = |tensor: StoredTensor<'_>| {
            tensor.elements().checked_div(columns_of(tensor)).unwrap_or(0)
        };
        let outputs: Vec<(u32, u64, RowSpan)> = numbered(target.spans(rows));
        let own = |source: u32, all: &[(u32, u64, RowSpan)]| {
            let own = all.iter().filter(|(of, ..)| *of == source);
            own.map(|(_, first, span)| (*first, *span)).collect::<Vec<_>>()
        };
        let inputs = || target.order.spans(target.taken.clone());
        let mut placed = Vec::new();
        for (number, source) in (0u32..).zip(&target.sources) {
            let tensor = source.tensor();
            let runs = own(number, &outputs);
            let name = tensor.name().spelling().into_owned();
            if runs.is_empty() {
                continue;
            }
            let Some(stored) = &source.transposed else {
                // A vector is stored as one row, whose elements are the rows of the target.
                if tensor.shape().len() == 1 && target.columns == 1 {
                    placed.push((name, PlacedProduct::of_vector(product, &runs, tensor)?));
                    continue;
                }
                if target.columns != columns_of(tensor) {
                    return unsupported("a change of a tensor that is not stored as a matrix");
                }
                let rows = PlaceMap::of(&runs, rows_of(tensor))?;
                let inputs: Vec<_> = numbered(inputs().map(|span| (0, span)));
                let columns = PlaceMap::of(&own(0, &inputs), target.columns)?;
                let (swapped, norms) = (false, None);
                placed.push((name, PlacedProduct { product, rows, columns, swapped, norms }));
                continue;
            };
            let Some(change) = PlacedProduct::of_columns(product, &runs, (target, tensor), stored)?
            else {
                return unsupported("a change of several matrices that are stored as columns");
            };
            placed.push((name, change));
        }
        self.products.push(Arc::new(Product { left, right, scale, rounded }));
        let names: Vec<String> = placed.iter().map(|(name, _)| name.clone()).collect();
        for (name, placed) in placed {
            self.by_tensor.entry(name).or_default().push(PlacedChange::Product(placed));
        }
        match magnitudes {
            Some(_) if !is_whole => {
                let fault = "norms of some rows of a tensor";
                Err(Error::mismatch(fault).in_tensor(target.name()))
            }
            Some(magnitudes) => self.scale_rows(target, magnitudes, &names),
            None => Ok(()),
        }
    }

    /// Adds the values of a vector to those of a canonical one.
    ///
    /// # Errors
    ///
    /// Same as [`add`](Self::add).
    pub(crate) fn add_vector(&mut self, target: &Tensor, values: Tensor, scale: f32) -> Result<()> {
        let (target, count) = (target.clone().by_rows(), values.elements());
        let one = Tensor::new("1", DType::F32, &[1, 1], 1f32.to_le_bytes().to_vec())?;
        let factors = (values.by_rows().with_shape(&[count, 1]), one);
        let how = ProductUse { scale, rounded: false };
        self.add(&target, 0..target.rows(), factors, how, None)
    }

    /// Scales the rows of `target`, with the last product of the stored tensors `names`, to norms.
    fn scale_rows(&mut self, target: &Tensor, magnitudes: Tensor, names: &[String]) -> Result<()> {
        if magnitudes.elements() != target.rows() {
            let fault = format!(
                "norms of shape {:?}, but {} rows of a tensor of shape {:?} are scaled",
                magnitudes.shape(),
                target.rows(),
                target.shape()
            );
            return Err(Error::mismatch(fault).in_tensor(target.name()));
        }
        let before = self.of_tensors(|name| names.iter().any(|known| known == name));
        let before = target.clone().adapted(&Arc::new(before));
        let norms = Arc::new(Norms { before, magnitudes, factors: OnceLock::new() });
        for name in names {
            let last = self.by_tensor.get_mut(name).and_then(|placed| placed.last_mut());
            if let Some(PlacedChange::Product(placed)) = last {
                placed.norms = Some(Arc::clone(&norms));
            }
        }
        Ok(())
    }

    /// The changes so far of some stored tensors.
    fn of_tensors(&self, is_wanted: impl Fn(&str) -> bool) -> Self {
        let placed = self.by_tensor.iter().filter(|(name, _)| is_wanted(name));
        let by_tensor = placed.map(|(name, placed)| (name.clone(), placed.clone())).collect();
        Self { products: self.products.clone(), by_tensor, ..Self::default() }
    }

    /// The same changes, to which others can be added.
    pub(crate) fn continued(&self) -> Self {
        self.of_tensors(|_| true)
    }

    /// The same without those of a stored tensor.
    pub(crate) fn without(&self, stored: &str) -> Self {
        self.of_tensors(|name| name != stored)
    }

    /// The same for a stored tensor that has a second name.
    pub(crate) fn with_alias(&self, of: &str, alias: &str) -> Self {
        let mut all = self.continued();
        if let Some(placed) = self.by_tensor.get(of) {
            all.by_tensor.insert(alias.to_owned(), placed.clone());
        }
        all
    }

    /// Puts the rows of `values` in place of these rows of a canonical tensor.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the shapes do not fit; `Unsupported` if the tensor's rows are not stored as they are.
    pub(crate) fn replace_rows(
        &mut self,
        target: &Tensor,
        rows: &[u64],
        values: &Tensor,
    ) -> Result<()> {
        let here = |error: Error| error.in_tensor(target.name());
        let columns = shape::columns(target.shape());
        if values.shape() != [rows.len() as u64, columns] {
            let fault = format!(
                "{} rows are listed, but shape {:?} has other ones for a tensor of shape {:?}",
                rows.len(),
                values.shape(),
                target.shape()
            );
            return Err(here(Error::mismatch(fault)));
        }
        let ([source], true) =
            (target.sources.as_slice(), target.order == RowLoops::of(0, columns))
        else {
            return Err(here(Error::unsupported("rows that are not stored as they are")));
        };
        if source.transposed.is_some() || source.change != Arithmetic::None {
            return Err(here(Error::unsupported("rows that are not stored as they are")));
        }
        let mut replaced = BTreeMap::new();
        for (number, row) in rows.iter().enumerate() {
            let stored = target.spans(*row..row.saturating_add(1)).next();
            let stored = stored.filter(|_| *row < target.rows());
            let (_, span) = stored.ok_or_else(|| {
                let fault = format!("row {row}, but the tensor has {} rows", target.rows());
                here(Error::mismatch(fault))
            })?;
            replaced.insert(span.start, number);
        }
        let rows = ReplacedRows { rows: replaced, values: values.dequantize()? };
        let name = source.tensor().name().spelling().into_owned();
        self.by_tensor.entry(name).or_default().push(PlacedChange::Rows(Arc::new(rows)));
        Ok(())
    }

    /// The factors of a product for a stored tensor, read if they are not kept.
    fn factors(&self, placed: &PlacedProduct, name: &str, columns: u64) -> Result<Arc<Factors>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is = |((product, of), _): &(FactorsOf, _)| *product == placed.product && of == name;
        let found = match kept.iter().position(is) {
            Some(place) => kept.remove(place).1,
            None => {
                let product = self.products.get(placed.product);
                let product = product.ok_or_else(|| Error::mismatch("a change without factors"))?;
                Arc::new(product.factors(placed, columns)?)
            }
        };
        kept.push(((placed.product, name.to_owned()), Arc::clone(&found)));
        let bytes = |(_, factors): &(FactorsOf, Arc<Factors>)| factors.bytes();
        let mut all: usize = kept.iter().map(bytes).fold(0, usize::saturating_add);
        while all > KEPT && kept.len() > 1 {
            all = all.saturating_sub(bytes(&kept.remove(0)));
        }
        Ok(found)
    }
}

impl Changes for Adaptation {
    fn changes(&self, stored: &str) -> bool {
        self.by_tensor.contains_key(stored)
    }

    fn apply(
        &self,
        tensor: &StoredTensor<'_>,
        elements: &Range<u64>,
        out: &mut [f32],
    ) -> Result<()> {
        let name = tensor.name().spelling();
        let columns = shape::columns(tensor.shape()).max(1);
        let placed = self.by_tensor.get(&*name).map_or(&[][..], Vec::as_slice);
        let round: Option<fn(f32) -> f32> = match tensor.dtype() {
            Ok(DType::F16) => Some(|value| f16::from_f32(value).to_f32()),
            Ok(DType::BF16) => Some(|value| bf16::from_f32(value).to_f32()),
            _ => None,
        };
        for placed in placed {
            let placed = match placed {
                PlacedChange::Product(placed) => placed,
                PlacedChange::Rows(rows) => {
                    rows.put(elements, columns, out)?;
                    continue;
                }
            };
            let rounded = self.products.get(placed.product).is_some_and(|product| product.rounded);
            let round = round.filter(|_| rounded);
            let factors = self.factors(placed, &name, columns)?;
            let scaled = placed.norms.as_ref().map(|norms| norms.factors()).transpose()?;
            for_each_row(elements, columns, out, |row, first, now| {
                let Some(number) = placed.rows.find(row) else { return Ok(()) };
                factors.add_row(number, first, columns, now, round)?;
                if let Some(scaled) = scaled {
                    placed.scale(scaled, (number, first), now);
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// Calls `change` with each row, or part of a row, among some elements of a matrix: the number of the row,
/// its first column and its values.
fn for_each_row(
    elements: &Range<u64>,
    columns: u64,
    mut out: &mut [f32],
    mut change: impl FnMut(u64, u64, &mut [f32]) -> Result<()>,
) -> Result<()> {
    let mut at = elements.start;
    while at < elements.end && !out.is_empty() {
        let (row, first) = (at / columns, at % columns);
        let count = (columns - first).min(elements.end - at);
        let len = usize::try_from(count).unwrap_or(usize::MAX).min(out.len());
        let (now, later) = out.split_at_mut(len);
        change(row, first, now)?;
        (out, at) = (later, at + count);
    }
    Ok(())
}

impl ReplacedRows {
    /// Puts the rows in place of those among some elements of a stored tensor.
    fn put(&self, elements: &Range<u64>, columns: u64, out: &mut [f32]) -> Result<()> {
        let width = usize::try_from(columns).unwrap_or(usize::MAX);
        for_each_row(elements, columns, out, |row, first, now| {
            let number = self.rows.get(&row).and_then(|number| number.checked_mul(width));
            let first = usize::try_from(first).unwrap_or(usize::MAX);
            let at = number.and_then(|start| start.checked_add(first));
            let values = at.and_then(|at| self.values.get(at..)?.get(..now.len()));
            values.into_iter().for_each(|values| now.copy_from_slice(values));
            Ok(())
        })
    }
}

impl PlacedProduct {
    /// The place of a product whose rows are elements of a stored vector.
    fn of_vector(
        product: usize,
        runs: &[(u64, RowSpan)],
        vector: StoredTensor<'_>,
    ) -> Result<Self> {
        let columns = PlaceMap::of(runs, vector.elements())?;
        Ok(Self {
            product,
            rows: PlaceMap::Span(RowSpan { start: 0, step: 1, count: 1 }),
            columns,
            swapped: true,
            norms: None,
        })
    }

    /// The rows `runs` of a target that are columns of one matrix of `tensor`; `None` if they are those of several.
    fn of_columns(
        product: usize,
        runs: &[(u64, RowSpan)],
        (target, tensor): (&Tensor, StoredTensor<'_>),
        stored: &Transposed,
    ) -> Result<Option<Self>> {
        let each = shape::columns(tensor.shape());
        let within = match (&*stored.sources, tensor.shape()) {
            ([_], [.., _, _]) => in_one_array(runs, each),
            _ => None,
        };
        let Some((array, runs)) = within else { return Ok(None) };
        let before = array.saturating_mul(target.columns);
        let inputs = target.order.spans(target.taken.clone()).flat_map(RowSpan::unbroken);
        let inputs = inputs.flat_map(|span| {
            let start = span.start.saturating_add(before);
            spans(&stored.rows, start..start.saturating_add(span.count)).collect::<Vec<_>>()
        });
        let inputs: Vec<_> =
            numbered(inputs).iter().map(|(_, first, span)| (*first, *span)).collect();
        let rows = PlaceMap::of(&inputs, tensor.elements().checked_div(each).unwrap_or(0))?;
        let columns = PlaceMap::of(&runs, each)?;
        Ok(Some(Self { product, rows, columns, swapped: true, norms: None }))
    }

    /// Multiplies the values of row `number` of the product, from column `first` on, with the factors of the
    /// canonical rows that they belong to.
    fn scale(&self, factors: &[f32], (number, first): (usize, u64), values: &mut [f32]) {
        let factor = |number: usize| factors.get(number).copied().unwrap_or(1.0);
        match self.swapped {
            false => values.iter_mut().for_each(|value| *value *= factor(number)),
            true => values.iter_mut().zip(first..).for_each(|(value, column)| {
                *value *= self.columns.find(column).map_or(1.0, factor);
            }),
        }
    }
}

impl Norms {
    /// The factor of each row.
    fn factors(&self) -> Result<&[f32]> {
        match self.factors.get_or_init(|| self.computed()) {
            Ok(factors) => Ok(factors),
            Err(error) => Err(error.clone()),
        }
    }

    fn computed(&self) -> Result<Vec<f32>> {
        let (mut reader, magnitudes) = (self.before.row_reader()?, self.magnitudes.dequantize()?);
        let columns = shape::columns(self.before.shape());
        let width = usize::try_from(columns).unwrap_or(usize::MAX);
        let mut row = AlignedBuffer::<f32>::zeroed(width)?;
        let mut factors = try_vec(magnitudes.len())?;
        for (number, magnitude) in (0u64..).zip(magnitudes.iter()) {
            reader.dequantize_rows(
                number..number.saturating_add(1),
                &mut row,
                &DecodeOptions::new(),
            )?;
            let squares = row.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>();
            if squares == 0.0 {
                let fault = format!("row {number} is zero, so that it cannot be scaled to a norm");
                return Err(Error::malformed(fault).in_tensor(self.before.name()));
            }
            factors.push(f32_of(f64::from(*magnitude) / squares.sqrt()));
        }
        Ok(factors)
    }
}

impl Product {
    /// Reads the factors in the order of the stored tensor's columns.
    fn factors(&self, placed: &PlacedProduct, columns: u64) -> Result<Factors> {
        let (left, right) = (self.left.dequantize()?, self.right.dequantize()?);
        let size = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let rank = size(shape::columns(self.left.shape()));
        let across = size(shape::columns(self.right.shape()));
        let columns = size(columns);
        let room = rank.saturating_mul(columns);
        let mut by_column = AlignedBuffer::zeroed(room)?;
        let by_rank = by_column.chunks_mut(columns.max(1));
        for (k, row) in by_rank.enumerate() {
            for (stored, value) in (0u64..).zip(row) {
                let factor = placed.columns.find(stored).and_then(|number| match placed.swapped {
                    false => right.get(k.checked_mul(across)?.checked_add(number)?),
                    true => left.get(number.checked_mul(rank)?.checked_add(k)?),
                });
                *value = factor.copied().unwrap_or(0.0);
            }
        }
        let rows = match placed.swapped {
            false => left,
            true => {
                let mut rows = AlignedBuffer::zeroed(right.len())?;
                for (number, row) in rows.chunks_mut(rank.max(1)).enumerate() {
                    for (k, value) in row.iter_mut().enumerate() {
                        let factor = k.checked_mul(across).and_then(|at| right.get(at + number));
                        *value = factor.copied().unwrap_or(0.0);
                    }
                }
                rows
            }
        };
        Ok(Factors { rank, rows, columns: by_column, scale: self.scale })
    }
}

impl Factors {
    fn bytes(&self) -> usize {
        size_of::<f32>().saturating_mul(self.rows.len().saturating_add(self.columns.len()))
    }

    /// Adds the product's row `number` to the values of a stored row, of which `out` holds those
    /// from column `first` on.
    fn add_row(
        &self,
        number: usize,
        first: u64,
        columns: u64,
        out: &mut [f32],
        round: Option<fn(f32) -> f32>,
    ) -> Result<()> {
        let first = usize::try_from(first).unwrap_or(usize::MAX);
        let stride = usize::try_from(columns).unwrap_or(usize::MAX);
        let start = number.saturating_mul(self.rank);
        let left = self.rows.get(start..start.saturating_add(self.rank));
        let (Some(left), Some(right)) = (left, self.columns.get(first..)) else { return Ok(()) };
        let row = ProductRow { left, right, stride, scale: self.scale };
        let Some(round) = round else {
            add_product(row, out);
            return Ok(());
        };
        let mut change = try_vec(out.len())?;
        change.resize(out.len(), 0.0f32);
        add_product(row, &mut change);
        out.iter_mut().zip(change).for_each(|(value, change)| *value += round(change));
        Ok(())
    }
}

/// Numbers the rows of spans, each with its source, from 0 on.
fn numbered(spans: impl Iterator<Item = (u32, RowSpan)>) -> Vec<(u32, u64, RowSpan)> {
    let mut next = 0u64;
    let number = |(source, span): (u32, RowSpan)| {
        let first = next;
        next = next.saturating_add(span.count);
        (source, first, span)
    };
    spans.map(number).collect()
}

/// The array of `each` rows in which all spans lie, and the spans as they are within it.
fn in_one_array(spans: &[(u64, RowSpan)], each: u64) -> Option<(u64, Vec<(u64, RowSpan)>)> {
    let array = spans.first()?.1.start.checked_div(each)?;
    let within = |(first, span): &(u64, RowSpan)| {
        let start = span.start.checked_sub(array.checked_mul(each)?)?;
        let last = span.count.checked_sub(1)?.checked_mul(span.step)?.checked_add(start)?;
        (last < each).then_some((*first, RowSpan { start, ..*span }))
    };
    Some((array, spans.iter().map(within).collect::<Option<_>>()?))
}

impl Tensor {
    /// Serves the values with these changes added.
    pub(crate) fn adapted(self, adaptation: &Arc<Adaptation>) -> Self {
        let changes: Arc<dyn Changes> = Arc::<Adaptation>::clone(adaptation);
        Self { changes: Some(changes), ..self }
    }

    /// The changes of its values, if any of its stored tensors is changed.
    pub(super) fn changes(&self) -> Option<&dyn Changes> {
        let changes = self.changes.as_deref()?;
        let is_changed = |tensor: StoredTensor<'_>| changes.changes(&tensor.name().spelling());
        self.stored_tensors().any(is_changed).then_some(changes)
    }

    /// Whether changes are added to its values.
    pub(crate) fn is_adapted(&self) -> bool {
        self.changes().is_some()
    }

    /// The rows of a stored tensor in canonical order, if its form has them in this order.
    pub(crate) fn in_canonical_rows(
        self,
        rows: RowOrder,
        config: Option<&ModelConfig>,
    ) -> Result<Self> {
        self.in_canonical_order(rows, RowOrder::All, config)
    }

    /// The same for columns.
    pub(crate) fn in_canonical_columns(
        self,
        columns: RowOrder,
        config: Option<&ModelConfig>,
    ) -> Result<Self> {
        self.in_canonical_order(RowOrder::All, columns, config)
    }

    fn in_canonical_order(
        self,
        rows: RowOrder,
        columns: RowOrder,
        config: Option<&ModelConfig>,
    ) -> Result<Self> {
        let (axes, values) = (Axes::Same, Change::None);
        if (rows, columns) == (RowOrder::All, RowOrder::All) {
            return Ok(self);
        }
        match self.sources.as_slice() {
            [source] if self.is_stored() => {
                let transform = Transform { axes, rows, columns, values };
                let tensor = Self::transformed(source.clone(), transform, config)?;
                Ok(tensor.named(&self.name))
            }
            _ => {
                Err(Error::unsupported("rows of an embedding in another order")
                    .in_tensor(&self.name))
            }
        }
    }
}

/// Checks that the product of `left` and `right` fits `rows` of `target`.
fn check_shapes(target: &Tensor, rows: &Range<u64>, left: &Tensor, right: &Tensor) -> Result<()> {
    let outputs = rows.end.saturating_sub(rows.start);
    let is_vector = target.shape().len() == 1 && target.width() == 1;
    let inputs = if is_vector { 1 } else { shape::columns(target.shape()) };
    let rank = shape::columns(left.shape());
    let fits = |factor: &Tensor, rows: u64, columns: u64| {
        factor.rows() == rows && factor.width() == columns
    };
    if rows.end <= target.rows()
        && target.width() == inputs
        && fits(left, outputs, rank)
        && fits(right, rank, inputs)
    {
        return Ok(());
    }
    let fault = format!(
        "a change of shape {:?} times {:?} does not fit {outputs} rows of a tensor of shape {:?}",
        left.shape(),
        right.shape(),
        target.shape()
    );
    let advice = "the adapter was trained on another model";
    Err(Error::mismatch(fault).advise(advice).in_tensor(target.name()))
}
