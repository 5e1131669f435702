//! Inverse transforms: derives what a dialect stores from canonical tensors.
//!
//! A transform says where each row of a canonical tensor lies in a stored one. Its inverse is not
//! written down a second time. It is computed from the transform, row by row.

use std::collections::HashMap;

use super::{Arithmetic, PIECES, RowRun, RowSource, Tensor, Transposed};
use crate::arch::{Axes, ModelConfig, RowLoops, RowOrder, RowSpan, Transform};
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
        let mut views: Vec<Self> = parts.into_iter().map(|(view, _)| view).collect();
        if axes == Axes::Squeezed {
            for view in &mut views {
                match view.shape.as_slice() {
                    [_, 1, _] => drop(view.shape.remove(1)),
                    _ => return Err(misfit("a second axis of length 1 is required")),
                }
            }
        }
        if matches!(axes, Axes::Vectors | Axes::Folded) {
            views = views.into_iter().map(Self::by_single_elements).collect::<Result<_>>()?;
        }
        let mut view = match (<[Self; 1]>::try_from(views), rows.as_slice()) {
            (Ok([view]), [RowOrder::All]) => view,
            (Ok([view]), rows) => Self::with_rows_restored(vec![view], rows, config)?,
            (Err(views), rows) => Self::with_rows_restored(views, rows, config)?,
        };
        if columns != RowOrder::All {
            view.restore_columns(columns, config)?;
        }
        match axes {
            // Tensors written here are plain; quantized tensors of this kind are copied or not
            // written at all.
            Axes::Transposed | Axes::TransposedIfPlain | Axes::WidthLast | Axes::WidthFirst => {
                view = view.transpose()?;
            }
            Axes::Trailing => {
                view = view.by_rows();
                view.shape.push(1);
            }
            Axes::Folded => {
                let groups = config.and_then(|config| config.ssm.group_count.as_ref());
                let groups = groups.map_or(1, |groups| u64::from(groups.value));
                let each = view.elements().checked_div(groups);
                let each = each.filter(|each| each.checked_mul(groups) == Some(view.elements()));
                view.shape = vec![groups, each.ok_or_else(|| misfit("groups of one length"))?];
            }
            Axes::Joined | Axes::JoinedTransposed => {
                if axes == Axes::JoinedTransposed {
                    view = view.transpose()?;
                }
                view = view.by_rows();
                let &[experts, each, columns] = view.shape.as_slice() else {
                    return Err(misfit("a matrix for each expert is required"));
                };
                let rows = experts.checked_mul(each).ok_or_else(|| misfit("too many rows"))?;
                view.shape = vec![rows, columns];
            }
            Axes::Same | Axes::Squeezed | Axes::Vectors => {}
        }
        let change = Arithmetic::to_stored(values);
        for source in &mut view.sources {
            source.change = source.change.then(change).ok_or_else(|| {
                Error::unsupported("the values already have a different change applied")
                    .in_tensor(name)
            })?;
        }
        name.clone_into(&mut view.name);
        Ok(view)
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
        let whole = self.is_stored();
        let view = self.by_rows();
        let reach = run.loops.iter().try_fold(run.start, |sum, (count, stride)| {
            sum.checked_add(count.checked_sub(1)?.checked_mul(*stride)?)
        });
        let fits = reach.is_some_and(|last| last < view.rows())
            && shape::elements(&shape) == run.len().checked_mul(view.columns);
        if !whole || !fits {
            let fault = format!("shape {:?}, of which {shape:?} cannot be selected", view.shape);
            return Err(Error::mismatch(fault).in_tensor(&view.name));
        }
        Ok(Self { shape, pieces: vec![RowRun::of(0, run)], ..view })
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
        let mut view = Self { shape: inner.to_vec(), ..self.clone() };
        let spans = self.spans(number * each..(number + 1) * each);
        view.pieces = spans.map(|(source, span)| RowRun::of(source, span.into())).collect();
        Ok(view.tidy())
    }

    /// Inserts `count` copies of the first row before it. Readers ignore these rows.
    pub(crate) fn after_copies(mut self, count: u64) -> Result<Self> {
        let few = usize::try_from(count).ok().filter(|count| *count <= PIECES);
        let few = few.ok_or_else(|| {
            let fault =
                format!("{count} copies of the first row, but at most {PIECES} are supported");
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
        self.pieces.splice(0..0, before);
        self.check_pieces()?;
        Ok(self)
    }

    /// Stacks tensors of the same shape, such as experts, along a new first axis.
    pub(crate) fn stack(views: Vec<Self>) -> Result<Self> {
        let count = views.len() as u64;
        let mut views = views.into_iter();
        let mut stacked = views.next().ok_or_else(|| Error::mismatch("no tensors to stack"))?;
        let form = |view: &Self| (view.shape.clone(), view.columns, view.order, view.taken.clone());
        let first = form(&stacked);
        for view in views {
            if form(&view) != first {
                let fault = format!("shape {:?} cannot be stacked on {:?}", view.shape, first.0);
                return Err(Error::mismatch(fault).in_tensor(&view.name));
            }
            stacked.append(view)?;
        }
        stacked.shape.insert(0, count);
        Ok(stacked)
    }

    /// The stored tensor in which `rows` selects each view's rows.
    fn with_rows_restored(
        views: Vec<Self>,
        rows: &[RowOrder],
        config: Option<&ModelConfig>,
    ) -> Result<Self> {
        let views: Vec<Self> = views.into_iter().map(Self::by_rows).collect();
        let counts: Vec<u64> = views.iter().map(Self::rows).collect();
        let Some(first) = views.first() else { return Err(Error::mismatch("no parts to store")) };
        let misfit = |what: String| Error::mismatch(what).in_tensor(&first.name);
        let form = |view: &Self| (view.columns, view.order, view.taken.clone());
        if let Some(other) = views.iter().find(|view| form(view) != form(first)) {
            return Err(misfit(format!("{} has different rows", other.name)));
        }
        let total = counts.iter().fold(0u64, |sum, rows| sum.saturating_add(*rows));
        // Rows of heads are counted in a single matrix; halves and alternate rows in each of
        // several.
        let of_many =
            rows.iter().all(|rows| matches!(rows, RowOrder::Half(_) | RowOrder::Alternate(_)));
        let arrays = if of_many { first.arrays().0 } else { 1 };
        let each = total.checked_div(arrays).filter(|_| arrays > 0 && total.is_multiple_of(arrays));
        let each = each.ok_or_else(|| misfit(format!("{total} rows in {arrays} arrays")))?;
        if let ([view], [choice]) = (views.as_slice(), rows)
            && let [run] = choice.choose(arrays, each, config)?.runs.as_slice()
            && let [RowRun { source, turns: 1, run: own }] = *view.pieces.as_slice()
            && own.is_whole(total)
            && run.len() == total
            && let Some(run) = run.inverse()
        {
            // The rows of one tensor in another order: a single run describes them, however many
            // there are.
            let shape = stored_shape(view, of_many, each);
            return Ok(Self { shape, pieces: vec![RowRun::of(source, run)], ..view.clone() });
        }
        if let Some(joined) = Self::interleaved(&views, rows) {
            return Ok(Self { shape: stored_shape(first, of_many, each), ..joined });
        }
        if total > ROWS {
            let fault = format!("{total} rows to reorder, but at most {ROWS} are supported");
            return Err(Error::unsupported(fault).in_tensor(&first.name));
        }
        let size = usize::try_from(total).unwrap_or(usize::MAX);
        // For each stored row: the view that has it, and the row's number there.
        let mut whose: Vec<Option<(u32, u32)>> = try_vec(size)?;
        whose.resize(size, None);
        for (number, (choice, count)) in (0..).zip(rows.iter().zip(&counts)) {
            let chosen = choice.choose(arrays, each, config)?;
            let spans = chosen.runs.iter().flat_map(|run| run.spans(0..run.len()));
            let stored = spans.flat_map(|RowSpan { start, step, count }| {
                (0..count).map(move |n| start + n * step)
            });
            let mut found = 0u64;
            for (own, row) in (0..).zip(stored) {
                let place = usize::try_from(row).ok().and_then(|row| whose.get_mut(row));
                let place = place.filter(|place| place.is_none());
                let place = place
                    .ok_or_else(|| misfit(format!("row {row} of {total} is selected twice")))?;
                *place = Some((number, own));
                found += 1;
            }
            if found != *count {
                return Err(misfit(format!("{count} rows, but positions for {found}")));
            }
        }
        let mut joined = first.clone();
        let mut before = vec![0u32];
        let mut others = views.iter();
        others.next();
        joined.pieces.clear();
        for view in others {
            before.push(u32::try_from(joined.sources.len()).unwrap_or(u32::MAX));
            joined.sources.extend(view.sources.iter().cloned());
        }
        let mut at = 0;
        while let Some(&found) = whose.get(at) {
            let (number, row) =
                found.ok_or_else(|| misfit(format!("no part contains row {at}")))?;
            let alike = whose.iter().skip(at).zip(row..);
            let len = alike.take_while(|(other, own)| **other == Some((number, *own))).count();
            let (view, shift) = views
                .get(number as usize)
                .zip(before.get(number as usize))
                .ok_or_else(|| misfit("a row belongs to no part".to_owned()))?;
            let row = u64::from(row);
            let spans = view.spans(row..row + len as u64);
            joined.pieces.extend(
                spans.map(|(source, span)| RowRun::of(source.saturating_add(*shift), span.into())),
            );
            if joined.pieces.len() > PIECES {
                break;
            }
            at += len;
        }
        joined.check_pieces()?;
        joined.shape = stored_shape(first, of_many, each);
        Ok(joined.tidy())
    }

    /// Interleaves two tensors: even rows from one, odd rows from the other. Only for views with
    /// the same pieces; a single piece per run then replaces one per row, of which models have
    /// millions.
    fn interleaved(views: &[Self], rows: &[RowOrder]) -> Option<Self> {
        let ([even, odd], [RowOrder::Alternate(0), RowOrder::Alternate(1)]) = (views, rows) else {
            return None;
        };
        let alike = even.pieces == odd.pieces && even.sources.len() == odd.sources.len();
        if !alike || even.is_interleaved() {
            return None;
        }
        let sources = even.sources.iter().zip(&odd.sources).flat_map(|(even, odd)| [even, odd]);
        let pieces = even.pieces.iter().map(|piece| {
            Some(RowRun { source: piece.source.checked_mul(2)?, turns: 2, run: piece.run })
        });
        let (sources, pieces) = (sources.cloned().collect(), pieces.collect::<Option<_>>()?);
        Some(Self { sources, pieces, ..even.clone() })
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
        let mut view = self.tidy();
        let whole = view.whole_rows();
        let elements = view.elements();
        let name = view.name.clone();
        let misfit = |what: &str| {
            let fault = format!("{what}, which cannot be transposed into one tensor");
            Err(Error::unsupported(fault).in_tensor(&name))
        };
        let [.., a, b] = view.shape.as_mut_slice() else {
            let fault = format!("the shape is {:?}, but a matrix is required", view.shape);
            return Err(Error::mismatch(fault).in_tensor(&view.name));
        };
        if !whole || view.columns != *b {
            return misfit("columns in a different order");
        }
        std::mem::swap(a, b);
        let (columns, before) = (*b, *a);
        let all = |columns: u64| {
            RowRun::of(0, RowLoops::of(0, elements.checked_div(columns).unwrap_or(0)))
        };
        view.columns = columns;
        (view.order, view.taken) = (RowLoops::of(0, columns), 0..columns);
        let rows = std::mem::take(&mut view.pieces);
        let mut sources = std::mem::take(&mut view.sources);
        if let [RowSource { transposed: transposed @ Some(_), tensor, change }] =
            sources.as_mut_slice()
        {
            // Transposing twice restores the stored tensor.
            let stored =
                transposed.take().filter(|_| columns == shape::columns(tensor.get().shape()));
            let Some(stored) = stored.filter(|_| rows == [all(before)]) else {
                return misfit("rows of a tensor that is already transposed");
            };
            let source = |tensor| RowSource { tensor, transposed: None, change: *change };
            view.sources = stored.tensors.into_iter().map(source).collect();
            view.pieces = stored.rows;
            return Ok(view);
        }
        let alike = |first: &&RowSource| {
            let mut sources = sources.iter();
            sources.all(|source| source.transposed.is_none() && source.change == first.change)
        };
        let Some(RowSource { tensor, change, .. }) = sources.first().filter(alike).cloned() else {
            return misfit("several stored tensors with different changes of values");
        };
        let tensors = sources.iter().map(|source| source.tensor.clone()).collect();
        view.sources =
            vec![RowSource { tensor, transposed: Some(Transposed { rows, tensors }), change }];
        view.pieces = vec![all(columns)];
        Ok(view)
    }

    /// Turns each element into a row.
    fn by_single_elements(self) -> Result<Self> {
        if self.columns == 1 {
            return Ok(self);
        }
        if !self.is_stored() {
            let fault = "the elements are in several stored tensors";
            return Err(Error::unsupported(fault).in_tensor(&self.name));
        }
        let run = RowLoops::of(0, self.elements());
        let pieces = vec![RowRun::of(0, run)];
        Ok(Self { columns: 1, order: RowLoops::of(0, 1), taken: 0..1, pieces, ..self })
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
        let mut place = Vec::new();
        // The sources with the same first stored tensor: there may be thousands of sources.
        let mut alike: HashMap<(usize, u32), Vec<usize>> = HashMap::new();
        for source in &self.sources {
            let same = |number: &&usize| {
                sources.get(**number).is_some_and(|other| {
                    let mut tensors = other.tensors().iter().zip(source.tensors());
                    other.is_made_like(source)
                        && tensors.all(|(one, other)| one.get().is(&other.get()))
                })
            };
            let alike = alike.entry(source.tensor.get().identity()).or_default();
            place.push(alike.iter().find(same).copied().unwrap_or_else(|| {
                alike.push(sources.len());
                sources.push(source.clone());
                sources.len() - 1
            }));
        }
        let mut pieces: Vec<RowRun> = Vec::new();
        for piece in &self.pieces {
            let source = place.get(piece.source as usize).copied().unwrap_or(0);
            let source = u32::try_from(source).unwrap_or(u32::MAX);
            let one = |run: RowLoops| {
                let mut spans = run.spans(0..run.len());
                spans
                    .next()
                    .filter(|span| (span.step == 1 || span.count == 1) && spans.next().is_none())
            };
            if let (Some(last), Some(next)) = (pieces.last_mut(), one(piece.run))
                && last.source == source
                && let Some(span) = one(last.run)
                && span.start + span.count == next.start
            {
                last.run = RowLoops::of(span.start, span.count + next.count);
                continue;
            }
            pieces.push(RowRun::of(source, piece.run));
        }
        let mut used = vec![false; sources.len()];
        for piece in &pieces {
            if let Some(used) = used.get_mut(piece.source as usize) {
                *used = true;
            }
        }
        // A tensor without rows has a dtype, too.
        if let Some(first) = used.first_mut().filter(|_| pieces.is_empty()) {
            *first = true;
        }
        if used.iter().all(|used| *used) {
            (self.sources, self.pieces) = (sources, pieces);
            return self;
        }
        let mut numbers = Vec::new();
        let mut kept = Vec::new();
        for (source, used) in sources.into_iter().zip(&used) {
            numbers.push(u32::try_from(kept.len()).unwrap_or(u32::MAX));
            if *used {
                kept.push(source);
            }
        }
        for piece in &mut pieces {
            piece.source = numbers.get(piece.source as usize).copied().unwrap_or(0);
        }
        (self.sources, self.pieces) = (kept, pieces);
        self
    }
}

/// The shape of a stored tensor with `each` rows in each matrix, of which a view has some. Without
/// `of_many`, the tensor is a single matrix, and the view's axes before its columns merge into one.
fn stored_shape(view: &Tensor, of_many: bool, each: u64) -> Vec<u64> {
    let outer = if of_many { view.shape.get(..view.row_axis()) } else { None };
    let columns = view.shape.get(view.row_axis() + 1..).and_then(<[u64]>::last);
    let outer = outer.unwrap_or_default().iter().chain([&each]);
    outer.chain(columns).copied().collect()
}
