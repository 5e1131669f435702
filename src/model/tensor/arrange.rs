//! Inverse transforms: derives what a dialect stores from canonical tensors.
//!
//! A transform says where each row of a canonical tensor lies in a stored one. Its inverse is not
//! written down a second time. It is computed from the transform, row by row.

use std::collections::HashMap;

use super::{Arithmetic, RUNS, RowRun, RowSource, Tensor, Transposed};
use crate::arch::{Axes, Half, ModelConfig, RowLoops, RowOrder, RowSelection, RowSpan, Transform};
use crate::bytes::try_vec;
use crate::error::{Error, Result};
use crate::shape;

/// The largest number of fused rows whose inverse is computed row by row. It bounds the memory that
/// a file can demand: 16 bytes for each row.
const ROWS: u64 = 1 << 24;

impl Tensor {
    /// The tensor that a dialect stores under `name` for the canonical tensors in `parts`. A
    /// dialect may store several canonical tensors in one; each part comes with its transform
    /// there. The transforms of one stored tensor differ in their rows alone.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the parts do not form one tensor; `Unsupported` if its values cannot be
    /// computed from the parts in one step.
    pub(crate) fn stored_as(
        name: &str,
        parts: Vec<(Self, Transform)>,
        config: Option<&ModelConfig>,
    ) -> Result<Self> {
        let misfit = |what: &str| Error::mismatch(what.to_owned()).in_tensor(name);
        let Some((_, first)) = parts.first() else { return Err(misfit("no parts to store")) };
        let Transform { axes, columns, values, .. } = *first;
        let rows: Vec<RowOrder> = parts.iter().map(|(_, transform)| transform.rows).collect();
        let mut tensors: Vec<Self> = parts.into_iter().map(|(tensor, _)| tensor).collect();
        if axes == Axes::Squeezed {
            for tensor in &mut tensors {
                match tensor.shape.as_slice() {
                    [_, 1, _] => drop(tensor.shape.remove(1)),
                    _ => return Err(misfit("a second axis of length 1 is required")),
                }
            }
        }
        if matches!(axes, Axes::Vectors | Axes::Folded) {
            tensors = tensors.into_iter().map(Self::by_single_elements).collect::<Result<_>>()?;
        }
        let mut tensor = match (<[Self; 1]>::try_from(tensors), rows.as_slice()) {
            (Ok([tensor]), [RowOrder::All]) => tensor,
            (Ok([tensor]), rows) => Self::with_rows_restored(vec![tensor], rows, config)?,
            (Err(tensors), rows) => Self::with_rows_restored(tensors, rows, config)?,
        };
        if columns != RowOrder::All {
            tensor.restore_columns(columns, config)?;
        }
        match axes {
            // Tensors written here are plain; quantized tensors of this kind are copied or not
            // written at all.
            Axes::Transposed | Axes::TransposedIfPlain | Axes::WidthLast | Axes::WidthFirst => {
                tensor = tensor.transpose()?;
            }
            Axes::Trailing => {
                tensor = tensor.by_rows();
                tensor.shape.push(1);
            }
            Axes::Folded => {
                let groups = config.and_then(|config| config.ssm.group_count.as_ref());
                let groups = groups.map_or(1, |groups| u64::from(groups.value));
                let each = tensor.elements().checked_div(groups);
                let each = each.filter(|each| each.checked_mul(groups) == Some(tensor.elements()));
                tensor.shape = vec![groups, each.ok_or_else(|| misfit("groups of one length"))?];
            }
            Axes::Joined | Axes::JoinedTransposed => {
                if axes == Axes::JoinedTransposed {
                    tensor = tensor.transpose()?;
                }
                tensor = tensor.by_rows();
                let &[experts, each, columns] = tensor.shape.as_slice() else {
                    return Err(misfit("a matrix for each expert is required"));
                };
                let rows = experts.checked_mul(each).ok_or_else(|| misfit("too many rows"))?;
                tensor.shape = vec![rows, columns];
            }
            Axes::Same | Axes::Squeezed | Axes::Vectors => {}
        }
        let change = Arithmetic::to_stored(values);
        for source in &mut tensor.sources {
            source.change = source.change.then(change).ok_or_else(|| {
                Error::unsupported("the values already have a different change applied")
                    .in_tensor(name)
            })?;
        }
        name.clone_into(&mut tensor.name);
        Ok(tensor)
    }

    /// Multiplies the values. Each part of the rows, in order, has a number of rows and a factor; a single factor is
    /// that of all rows.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the tensor has another number of rows; `Unsupported` if its values are changed otherwise.
    pub(crate) fn times(self, parts: &[(u64, f32)]) -> Result<Self> {
        let mut tensor = if parts.len() > 1 { self.by_rows() } else { self };
        let changed = |source: &RowSource, factor: f32| -> Result<RowSource> {
            let change = source.change.then(Arithmetic::Times(factor));
            let change = change.ok_or_else(|| {
                let fault = "factors of values that are stored in another form";
                Error::unsupported(fault).in_tensor(&tensor.name)
            })?;
            Ok(RowSource { change, ..source.clone() })
        };
        let whole = [(tensor.rows(), parts.first().map_or(1.0, |(_, factor)| *factor))];
        let parts = if parts.len() > 1 { parts } else { &whole };
        let all = parts.iter().try_fold(0u64, |sum, (rows, _)| sum.checked_add(*rows));
        if all != Some(tensor.rows()) {
            let fault =
                format!("{} rows, but the config's factors are those of {all:?}", tensor.rows());
            return Err(Error::mismatch(fault).in_tensor(&tensor.name));
        }
        let (mut sources, mut runs, mut start) = (Vec::new(), Vec::new(), 0u64);
        for (rows, factor) in parts {
            let first = u32::try_from(sources.len()).unwrap_or(u32::MAX);
            for source in &tensor.sources {
                sources.push(changed(source, *factor)?);
            }
            let end = start.saturating_add(*rows);
            let moved = |(source, span): (u32, RowSpan)| {
                RowRun::of(source.saturating_add(first), span.into())
            };
            runs.extend(tensor.spans(start..end).map(moved));
            start = end;
        }
        (tensor.sources, tensor.runs) = (sources, runs);
        tensor.check_runs()?;
        Ok(tensor)
    }

    /// Renames the tensor.
    pub(crate) fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// A vector as a matrix of one row; any other tensor stays as it is.
    pub(crate) fn into_row(mut self) -> Self {
        if self.shape.len() == 1 {
            self.shape.insert(0, 1);
        }
        self
    }

    /// The rows of a whole stored tensor that `run` selects, in this shape.
    pub(crate) fn selected(self, run: RowLoops, shape: Vec<u64>) -> Result<Self> {
        // The factors of an adapter are placed by the rows of a stored matrix.
        let whole = self.is_stored() || self.is_in_stored_order() && self.shape.len() == 2;
        let is_adapted = self.is_adapted();
        let tensor = self.by_rows();
        let reach = run.loops.iter().try_fold(run.start, |sum, (count, stride)| {
            sum.checked_add(count.checked_sub(1)?.checked_mul(*stride)?)
        });
        let fits = reach.is_some_and(|last| last < tensor.rows())
            && shape::elements(&shape) == run.len().checked_mul(tensor.columns);
        if !whole || !fits {
            let fault = format!("shape {:?}, of which {shape:?} cannot be selected", tensor.shape);
            let error = Error::mismatch(fault).in_tensor(&tensor.name);
            let advice = "merge the adapter into a safetensors directory first, and convert that";
            return Err(if is_adapted { error.advise(advice) } else { error });
        }
        Ok(Self { shape, runs: vec![RowRun::of(0, run)], ..tensor })
    }

    /// A tensor of one value with another number of axes.
    pub(crate) fn with_shape(self, shape: &[u64]) -> Self {
        Self { shape: shape.to_vec(), ..self }
    }

    /// One of the arrays along the first axis, such as one expert.
    pub(crate) fn array(&self, number: u64) -> Result<Self> {
        let fault = || {
            let fault = format!("array {number} does not exist in shape {:?}", self.shape);
            Error::mismatch(fault).in_tensor(&self.name)
        };
        let [count, inner @ ..] = self.shape.as_slice() else { return Err(fault()) };
        // A vector has no arrays: they would be its elements.
        let whole = number < *count && self.rows().is_multiple_of(*count);
        let each = self.rows().checked_div(*count).filter(|_| whole).ok_or_else(fault)?;
        let mut tensor = Self { shape: inner.to_vec(), ..self.clone() };
        let spans = self.spans(number * each..(number + 1) * each);
        tensor.runs = spans.map(|(source, span)| RowRun::of(source, span.into())).collect();
        Ok(tensor.tidy())
    }

    /// The columns `first`, `first + step` and so on, of columns in their stored order.
    pub(crate) fn columns_apart(mut self, first: u64, step: u64) -> Result<Self> {
        let count = self.columns.checked_div(step).unwrap_or(0);
        let fits =
            first < step && self.whole_rows() && count.checked_mul(step) == Some(self.columns);
        let Some(columns) = self.shape.last_mut().filter(|_| fits) else {
            let fault = format!("shape {:?} has no column {first} of {step} in turns", self.shape);
            return Err(Error::mismatch(fault).in_tensor(&self.name));
        };
        *columns = count;
        self.order = RowLoops { start: first, loops: [(1, 0), (1, 0), (count, step)] };
        self.taken = 0..count;
        Ok(self)
    }

    /// Inserts `count` copies of the first row before it. Readers ignore these rows.
    pub(crate) fn after_copies(mut self, count: u64) -> Result<Self> {
        let few = usize::try_from(count).ok().filter(|count| *count <= RUNS);
        let few = few.ok_or_else(|| {
            let fault =
                format!("{count} copies of the first row, but at most {RUNS} are supported");
            Error::unsupported(fault).in_tensor(&self.name)
        })?;
        let first = self.spans(0..1).next();
        let (Some((source, span)), [rows, _]) = (first, self.shape.as_mut_slice()) else {
            let fault =
                format!("the shape is {:?}, but a matrix with rows is required", self.shape);
            return Err(Error::mismatch(fault).in_tensor(&self.name));
        };
        *rows = rows.saturating_add(count);
        let before = std::iter::repeat_n(RowRun::of(source, span.into()), few);
        self.runs.splice(0..0, before);
        self.check_runs()?;
        Ok(self)
    }

    /// Stacks tensors of the same shape, such as experts, along a new first axis.
    pub(crate) fn stack(tensors: Vec<Self>) -> Result<Self> {
        let count = tensors.len() as u64;
        let mut tensors = tensors.into_iter();
        let mut stacked = tensors.next().ok_or_else(|| Error::mismatch("no tensors to stack"))?;
        let form = |tensor: &Self| {
            (tensor.shape.clone(), tensor.columns, tensor.order, tensor.taken.clone())
        };
        let first = form(&stacked);
        for tensor in tensors {
            if form(&tensor) != first {
                let fault = format!("shape {:?} cannot be stacked on {:?}", tensor.shape, first.0);
                return Err(Error::mismatch(fault).in_tensor(&tensor.name));
            }
            stacked.append(tensor)?;
        }
        stacked.shape.insert(0, count);
        Ok(stacked)
    }

    /// The stored tensor in which `orders` select the rows of each part.
    fn with_rows_restored(
        parts: Vec<Self>,
        orders: &[RowOrder],
        config: Option<&ModelConfig>,
    ) -> Result<Self> {
        let parts: Vec<Self> = parts.into_iter().map(Self::by_rows).collect();
        let Some(first) = parts.first() else { return Err(Error::mismatch("no parts to store")) };
        let misfit = |what: String| Error::mismatch(what).in_tensor(&first.name);
        let form = |part: &Self| (part.columns, part.order, part.taken.clone());
        if let Some(other) = parts.iter().find(|part| form(part) != form(first)) {
            return Err(misfit(format!("{} has different rows", other.name)));
        }
        let total = parts.iter().map(Self::rows).fold(0, u64::saturating_add);
        // Rows of heads are counted in a single matrix; halves and alternate rows in each of
        // several.
        let of_many =
            orders.iter().all(|order| matches!(order, RowOrder::Half(_) | RowOrder::Alternate(_)));
        let arrays = if of_many { first.arrays().0 } else { 1 };
        let each = total.checked_div(arrays).filter(|_| total.is_multiple_of(arrays));
        let Some(each) = each else {
            return Err(misfit(format!("{total} rows in {arrays} arrays")));
        };
        let choose = |order: &RowOrder| order.choose(arrays, each, config);
        let selections = orders.iter().map(choose).collect::<Result<Vec<RowSelection>>>()?;
        let restored = match Self::restored_at_once(&parts, orders, &selections, total) {
            Some(restored) => restored,
            None => Self::restored_row_by_row(&parts, first, &selections, total)?,
        };
        Ok(Self { shape: stored_shape(first, of_many, each), ..restored })
    }

    /// The rows of one tensor in another order, or those of two in turns: a few runs describe them, however
    /// many rows there are.
    fn restored_at_once(
        parts: &[Self],
        orders: &[RowOrder],
        selections: &[RowSelection],
        total: u64,
    ) -> Option<Self> {
        let ([part], [selection]) = (parts, selections) else {
            return Self::interleaved(parts, orders);
        };
        let [selected] = selection.runs.as_slice() else { return None };
        let [RowRun { source, turns: 1, run: stored }] = *part.runs.as_slice() else { return None };
        if !stored.is_whole(total) || selected.len() != total {
            return None;
        }
        let inverse = selected.inverse()?;
        Some(Self { runs: vec![RowRun::of(source, inverse)], ..part.clone() })
    }

    fn restored_row_by_row(
        parts: &[Self],
        first: &Self,
        selections: &[RowSelection],
        total: u64,
    ) -> Result<Self> {
        let misfit = |what: String| Error::mismatch(what).in_tensor(&first.name);
        let origins =
            row_origins(parts, selections, total).map_err(|error| error.in_tensor(&first.name))?;
        let mut restored = Self { sources: Vec::new(), runs: Vec::new(), ..first.clone() };
        let mut first_sources = Vec::new();
        for part in parts {
            first_sources.push(u32::try_from(restored.sources.len()).unwrap_or(u32::MAX));
            restored.sources.extend(part.sources.iter().cloned());
        }
        let mut row = 0;
        while let Some(origin) = origins.get(row) {
            let Some((part, start)) = *origin else {
                return Err(misfit(format!("no part contains row {row}")));
            };
            let next = origins.iter().skip(row).zip(start..);
            let count = next.take_while(|(other, row)| **other == Some((part, *row))).count();
            let first_source = first_sources.get(part as usize);
            let Some((part, first_source)) = parts.get(part as usize).zip(first_source) else {
                return Err(misfit("a row belongs to no part".to_owned()));
            };
            let spans = part.spans(u64::from(start)..u64::from(start) + count as u64);
            let run = |(source, span): (u32, RowSpan)| {
                RowRun::of(source.saturating_add(*first_source), span.into())
            };
            restored.runs.extend(spans.map(run));
            restored.check_runs()?;
            row += count;
        }
        Ok(restored.tidy())
    }

    /// Interleaves two tensors: even rows from one, odd rows from the other. Only for tensors
    /// with the same runs; one run then replaces one for each row, of which models have millions.
    fn interleaved(parts: &[Self], rows: &[RowOrder]) -> Option<Self> {
        let ([even, odd], [RowOrder::Alternate(Half::First), RowOrder::Alternate(Half::Second)]) =
            (parts, rows)
        else {
            return None;
        };
        let alike = even.runs == odd.runs && even.sources.len() == odd.sources.len();
        if !alike || even.is_interleaved() {
            return None;
        }
        let sources = even.sources.iter().zip(&odd.sources).flat_map(|(even, odd)| [even, odd]);
        let runs = even
            .runs
            .iter()
            .map(|run| Some(RowRun { source: run.source.checked_mul(2)?, turns: 2, run: run.run }));
        let (sources, runs) = (sources.cloned().collect(), runs.collect::<Option<_>>()?);
        Some(Self { sources, runs, ..even.clone() })
    }

    /// Reverses a transform's reordering of columns.
    fn restore_columns(&mut self, order: RowOrder, config: Option<&ModelConfig>) -> Result<()> {
        let chosen = order.choose(1, self.columns, config)?;
        let inverse = match chosen.runs.as_slice() {
            [run] if run.len() == self.columns => run.inverse(),
            _ => None,
        };
        self.order = inverse.filter(|_| self.whole_rows()).ok_or_else(|| {
            Error::unsupported("the columns cannot be put in that order").in_tensor(&self.name)
        })?;
        Ok(())
    }

    /// Transposes each matrix.
    pub(crate) fn transpose(self) -> Result<Self> {
        let mut tensor = self.tidy();
        let whole = tensor.whole_rows();
        let elements = tensor.elements();
        let name = tensor.name.clone();
        let misfit = |what: &str| {
            let fault = format!("{what}, which cannot be transposed into one tensor");
            Err(Error::unsupported(fault).in_tensor(&name))
        };
        let [.., a, b] = tensor.shape.as_mut_slice() else {
            let fault = format!("the shape is {:?}, but a matrix is required", tensor.shape);
            return Err(Error::mismatch(fault).in_tensor(&tensor.name));
        };
        if !whole || tensor.columns != *b {
            return misfit("columns in a different order");
        }
        std::mem::swap(a, b);
        let (columns, before) = (*b, *a);
        let all = |columns: u64| {
            RowRun::of(0, RowLoops::of(0, elements.checked_div(columns).unwrap_or(0)))
        };
        tensor.columns = columns;
        (tensor.order, tensor.taken) = (RowLoops::of(0, columns), 0..columns);
        let rows = std::mem::take(&mut tensor.runs);
        let mut sources = std::mem::take(&mut tensor.sources);
        if let [source @ RowSource { transposed: Some(_), .. }] = sources.as_mut_slice() {
            // Transposing twice restores the stored tensor.
            let stored_columns = shape::columns(source.tensor().shape());
            let stored = source.transposed.take().filter(|_| columns == stored_columns);
            let Some(stored) = stored.filter(|_| rows == [all(before)]) else {
                return misfit("rows of a tensor that is already transposed");
            };
            let change = source.change;
            let changed = |stored: RowSource| RowSource { change, ..stored };
            tensor.sources = stored.sources.into_iter().map(changed).collect();
            tensor.runs = stored.rows;
            return Ok(tensor);
        }
        let alike = |first: &&RowSource| {
            let mut sources = sources.iter();
            sources.all(|source| source.transposed.is_none() && source.change == first.change)
        };
        let Some(first) = sources.first().filter(alike).cloned() else {
            return misfit("several stored tensors with different changes of values");
        };
        tensor.sources =
            vec![RowSource { transposed: Some(Transposed { rows, sources }), ..first }];
        tensor.runs = vec![all(columns)];
        Ok(tensor)
    }

    /// Turns each element into a row.
    fn by_single_elements(self) -> Result<Self> {
        if self.columns == 1 {
            return Ok(self);
        }
        let is_plain = |source: &RowSource| source.transposed.is_none();
        let is_whole = self.whole_rows() && !self.is_interleaved();
        if !is_whole || !self.sources.iter().all(is_plain) {
            let fault = "the elements are those of rearranged tensors";
            return Err(Error::unsupported(fault).in_tensor(&self.name));
        }
        let columns = self.columns;
        let elements = |run: &RowRun| {
            let (source, spans) = (run.source, run.run.spans(0..run.len()));
            spans.flat_map(RowSpan::unbroken).map(move |rows| {
                let [start, count] = [rows.start, rows.count].map(|n| n.saturating_mul(columns));
                RowRun::of(source, RowLoops::of(start, count))
            })
        };
        let runs = self.runs.iter().flat_map(elements).collect();
        Ok(Self { columns: 1, order: RowLoops::of(0, 1), taken: 0..1, runs, ..self })
    }

    /// Merges adjacent runs and drops unused sources, so that a complete stored tensor is
    /// recognized as one.
    pub(super) fn tidy(mut self) -> Self {
        if self.is_interleaved() {
            // Sources that alternate must stay adjacent.
            return self;
        }
        // One stored tensor may be the source of several parts.
        let mut sources: Vec<RowSource> = Vec::new();
        let mut positions = Vec::new();
        // The sources with the same first stored tensor: there may be thousands of sources.
        let mut alike: HashMap<(usize, u32), Vec<usize>> = HashMap::new();
        for source in &self.sources {
            let same = |number: &&usize| {
                sources.get(**number).is_some_and(|other| {
                    let mut tensors = other.tensors().zip(source.tensors());
                    other.is_made_like(source) && tensors.all(|(one, other)| one.is(&other))
                })
            };
            let alike = alike.entry(source.tensor().identity()).or_default();
            positions.push(alike.iter().find(same).copied().unwrap_or_else(|| {
                alike.push(sources.len());
                sources.push(source.clone());
                sources.len() - 1
            }));
        }
        let mut runs: Vec<RowRun> = Vec::new();
        for run in &self.runs {
            let source = positions.get(run.source as usize).copied().unwrap_or(0);
            let source = u32::try_from(source).unwrap_or(u32::MAX);
            let one = |run: RowLoops| {
                let mut spans = run.spans(0..run.len());
                spans
                    .next()
                    .filter(|span| (span.step == 1 || span.count == 1) && spans.next().is_none())
            };
            if let (Some(last), Some(next)) = (runs.last_mut(), one(run.run))
                && last.source == source
                && let Some(span) = one(last.run)
                && span.start + span.count == next.start
            {
                last.run = RowLoops::of(span.start, span.count + next.count);
                continue;
            }
            runs.push(RowRun::of(source, run.run));
        }
        let mut used = vec![false; sources.len()];
        for run in &runs {
            if let Some(used) = used.get_mut(run.source as usize) {
                *used = true;
            }
        }
        // A tensor without rows has a dtype, too.
        if let Some(first) = used.first_mut().filter(|_| runs.is_empty()) {
            *first = true;
        }
        if used.iter().all(|used| *used) {
            (self.sources, self.runs) = (sources, runs);
            return self;
        }
        let mut numbers = Vec::new();
        let mut used_sources = Vec::new();
        for (source, used) in sources.into_iter().zip(&used) {
            numbers.push(u32::try_from(used_sources.len()).unwrap_or(u32::MAX));
            if *used {
                used_sources.push(source);
            }
        }
        for run in &mut runs {
            run.source = numbers.get(run.source as usize).copied().unwrap_or(0);
        }
        (self.sources, self.runs) = (used_sources, runs);
        self
    }
}

/// For each row of a stored tensor: the part that has it, and the number of the row in the part.
type RowOrigins = Vec<Option<(u32, u32)>>;

fn row_origins(parts: &[Tensor], selections: &[RowSelection], total: u64) -> Result<RowOrigins> {
    if total > ROWS {
        let fault = format!("{total} rows to reorder, but at most {ROWS} are supported");
        return Err(Error::unsupported(fault));
    }
    let size = usize::try_from(total).unwrap_or(usize::MAX);
    let mut origins: RowOrigins = try_vec(size)?;
    origins.resize(size, None);
    for (number, (part, selection)) in (0..).zip(parts.iter().zip(selections)) {
        let spans = selection.runs.iter().flat_map(|run| run.spans(0..run.len()));
        let stored_rows = spans.flat_map(|RowSpan { start, step, count }| {
            (0..count).map(move |index| start + index * step)
        });
        let mut count = 0u64;
        for (row, stored_row) in (0..).zip(stored_rows) {
            let origin = usize::try_from(stored_row).ok().and_then(|row| origins.get_mut(row));
            let Some(origin) = origin.filter(|origin| origin.is_none()) else {
                let fault = format!("row {stored_row} of {total} is selected twice");
                return Err(Error::mismatch(fault));
            };
            *origin = Some((number, row));
            count += 1;
        }
        let rows = part.rows();
        if count != rows {
            return Err(Error::mismatch(format!("{rows} rows, but positions for {count}")));
        }
    }
    Ok(origins)
}

/// The shape of a stored tensor with `each` rows in each matrix, of which a part has some. Without
/// `of_many`, the stored tensor is a single matrix, and the part's axes before its columns merge into one.
fn stored_shape(tensor: &Tensor, of_many: bool, each: u64) -> Vec<u64> {
    let outer = if of_many { tensor.shape.get(..tensor.row_axis()) } else { None };
    let columns = tensor.shape.get(tensor.row_axis() + 1..).and_then(<[u64]>::last);
    let outer = outer.unwrap_or_default().iter().chain([&each]);
    outer.chain(columns).copied().collect()
}
