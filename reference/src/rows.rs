//! Values of several positions, in host memory or in that of a GPU.

use std::sync::{Arc, OnceLock};

use rayon::prelude::*;
use rayon::slice::ChunksExactMut;

use crate::device::{Array, Engine};
use crate::math::Function;

/// Values that a thread changes at a time.
const TOGETHER: usize = 1 << 13;

/// Values that a workgroup of a step handles.
const GROUP: usize = 64;

/// A row of values for each position.
///
/// Values that a GPU computed are copied to host memory when they are first asked for.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    len: usize,
    width: usize,
    /// At least one of the two is there, and they are equal.
    host: OnceLock<Vec<f32>>,
    device: OnceLock<Array>,
}

impl PartialEq for Rows {
    fn eq(&self, other: &Self) -> bool {
        self.width == other.width && self.values() == other.values()
    }
}

impl Rows {
    /// Rows of zeros.
    pub(crate) fn zeros(len: usize, width: usize) -> Self {
        Self::new(vec![0.0; len.saturating_mul(width)], width)
    }

    /// Rows of `width` values each. Values behind the last whole row are dropped.
    pub fn new(mut values: Vec<f32>, width: usize) -> Self {
        let width = width.max(1);
        let len = values.len() / width;
        values.truncate(len * width);
        Self { len, width, host: values.into(), device: OnceLock::new() }
    }

    /// Rows that a GPU holds.
    pub(crate) fn of_array(array: Array, len: usize, width: usize) -> Self {
        Self { len, width: width.max(1), host: OnceLock::new(), device: array.into() }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of values in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// All values, row by row.
    pub fn values(&self) -> &[f32] {
        self.host.get_or_init(|| self.device.get().map(Array::download).unwrap_or_default())
    }

    #[expect(clippy::expect_used, reason = "the line before has set it")]
    pub(crate) fn values_mut(&mut self) -> &mut Vec<f32> {
        self.values();
        self.device = OnceLock::new();
        self.host.get_mut().expect("values")
    }

    /// The GPU that holds the values.
    pub(crate) fn engine(&self) -> Option<Arc<Engine>> {
        self.device.get().map(|array| Arc::clone(array.engine()))
    }

    /// The values in the memory of a GPU, copied there if they are not there yet.
    pub(crate) fn on(&self, engine: &Arc<Engine>) -> &Array {
        self.device.get_or_init(|| engine.upload(self.values()))
    }

    /// As [`on`](Self::on), to be changed there.
    fn changed_on(&mut self, engine: &Arc<Engine>) -> &Array {
        self.on(engine);
        self.host = OnceLock::new();
        self.on(engine)
    }

    /// Runs a step that changes the values, by `groups` workgroups; without, by one for each 64 values.
    /// The first of its numbers counts what it handles.
    pub(crate) fn step(
        &mut self,
        engine: &Arc<Engine>,
        entry: &'static str,
        inputs: &[&Self],
        numbers: &[u32],
    ) {
        let count = numbers.first().map_or(0, |count| *count as usize);
        self.step_by(engine, entry, inputs, numbers, count.div_ceil(GROUP));
    }

    /// As [`step`](Self::step), by so many workgroups.
    pub(crate) fn step_by(
        &mut self,
        engine: &Arc<Engine>,
        entry: &'static str,
        inputs: &[&Self],
        numbers: &[u32],
        groups: usize,
    ) {
        if groups == 0 {
            return;
        }
        let inputs: Vec<&Array> = inputs.iter().map(|input| input.on(engine)).collect();
        engine.run(self.changed_on(engine), entry, groups, &inputs, numbers);
    }

    /// Rows that steps fill.
    pub(crate) fn unfilled(engine: &Arc<Engine>, len: usize, width: usize) -> Self {
        Self::of_array(engine.array(len.saturating_mul(width)), len, width)
    }

    /// The number of values, for steps.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.len.saturating_mul(self.width)).unwrap_or(u32::MAX)
    }

    /// Each row.
    pub fn rows(&self) -> std::slice::ChunksExact<'_, f32> {
        self.values().chunks_exact(self.width.max(1))
    }

    pub(crate) fn rows_mut(&mut self) -> std::slice::ChunksExactMut<'_, f32> {
        let width = self.width.max(1);
        self.values_mut().chunks_exact_mut(width)
    }

    /// As [`rows_mut`](Self::rows_mut), shared out among threads.
    pub(crate) fn rows_mut_in_threads(&mut self) -> ChunksExactMut<'_, f32> {
        let width = self.width.max(1);
        self.values_mut().par_chunks_exact_mut(width)
    }

    /// One row, or nothing beyond the last.
    pub fn row(&self, row: usize) -> Option<&[f32]> {
        let start = row.checked_mul(self.width)?;
        self.values().get(start..start.checked_add(self.width)?)
    }

    /// Some rows.
    pub fn part(&self, rows: std::ops::Range<usize>) -> Self {
        let end = rows.end.min(self.len);
        let start = rows.start.min(end);
        let (first, count) = (start * self.width, (end - start) * self.width);
        match self.device.get() {
            Some(array) => Self::of_array(array.part(first, count), end - start, self.width),
            None => {
                let values = self.values().get(first..first + count).unwrap_or_default();
                Self::new(values.to_vec(), self.width)
            }
        }
    }

    /// The last row alone.
    pub(crate) fn last(&self) -> Self {
        self.part(self.len.saturating_sub(1)..self.len)
    }

    /// The first row alone.
    pub(crate) fn first(&self) -> Self {
        self.part(0..1)
    }

    /// Adds rows at the end, where the first ones are. Room is made for a multiple of `step` rows.
    pub(crate) fn append(&mut self, more: &Self, step: usize) {
        if self.is_empty() {
            let device = more.device.get().map(|array| array.part(0, 0).into());
            let host = if device.is_some() { OnceLock::new() } else { Vec::new().into() };
            *self = Self { len: 0, width: more.width, host, device: device.unwrap_or_default() };
        }
        self.len += more.len;
        let step = step.saturating_mul(more.width);
        if let Some(engine) = self.engine() {
            self.host = OnceLock::new();
            if let Some(array) = self.device.get_mut() {
                array.append(more.on(&engine), step);
            }
            return;
        }
        let kept = self.values_mut();
        let len = kept.len() + more.values().len();
        if len > kept.capacity() {
            kept.reserve_exact(len.next_multiple_of(step.max(1)) - kept.len());
        }
        kept.extend_from_slice(more.values());
    }

    /// Adds `other`, times `factor`, value by value.
    pub(crate) fn add(&mut self, other: &Self, factor: f32) {
        if let Some(engine) = self.engine().or_else(|| other.engine()) {
            return self.step(&engine, "add", &[other], &[self.count(), factor.to_bits()]);
        }
        let pairs = self.values_mut().iter_mut().zip(other.values());
        pairs.for_each(|(own, other)| *own += factor * other);
    }

    /// Adds a row, from a place among its values on, to each row.
    pub(crate) fn add_row(&mut self, row: &Self, first: usize) {
        let width = self.width;
        if let Some(engine) = self.engine() {
            let numbers = [self.count(), number(width), number(first), 0];
            return self.step(&engine, "add_row", &[row], &numbers);
        }
        let row = row.values().get(first..first + width).unwrap_or_default();
        for own in self.rows_mut() {
            own.iter_mut().zip(row).for_each(|(own, value)| *own += value);
        }
    }

    /// Multiplies every value.
    pub(crate) fn scale(&mut self, factor: f32) {
        if let Some(engine) = self.engine() {
            return self.step(&engine, "scale", &[], &[self.count(), factor.to_bits()]);
        }
        self.each(|value| value * factor);
    }

    /// Multiplies every row by its factor.
    pub(crate) fn scale_rows(&mut self, factors: &Self) {
        if let Some(engine) = self.engine() {
            let numbers = [self.count(), number(self.width)];
            return self.step(&engine, "scale_rows", &[factors], &numbers);
        }
        for (row, factor) in self.rows_mut().zip(factors.values()) {
            row.iter_mut().for_each(|value| *value *= factor);
        }
    }

    /// Replaces every value by a function of it.
    pub(crate) fn apply(&mut self, function: impl Into<Function>) {
        let function = function.into();
        if let Some(engine) = self.engine() {
            let (code, numbers) = function.code();
            let numbers = numbers.map(f32::to_bits);
            let numbers = [&[self.count(), code][..], &numbers].concat();
            return self.step(&engine, "apply", &[], &numbers);
        }
        self.values_mut().par_chunks_mut(TOGETHER).for_each(|values| function.apply(values));
    }

    /// Multiplies every value by the function of a gate in the same place.
    pub(crate) fn gate(&mut self, gate: &Self, function: impl Into<Function>) {
        let function = function.into();
        if let Some(engine) = self.engine().or_else(|| gate.engine()) {
            let (code, numbers) = function.code();
            let numbers = numbers.map(f32::to_bits);
            let numbers = [&[self.count(), code][..], &numbers].concat();
            return self.step(&engine, "gated", &[gate], &numbers);
        }
        let gates = gate.values().par_chunks(TOGETHER);
        let parts = self.values_mut().par_chunks_mut(TOGETHER).zip(gates);
        parts.for_each(|(values, gates)| function.gate(values, gates));
    }

    /// Replaces every value, in host memory.
    pub(crate) fn each(&mut self, change: impl Fn(f32) -> f32 + Sync) {
        self.values_mut()
            .par_chunks_mut(TOGETHER)
            .for_each(|values| values.iter_mut().for_each(|value| *value = change(*value)));
    }

    /// Combines every value with that of `other` in the same place, in host memory.
    pub(crate) fn with(&mut self, other: &Self, combine: impl Fn(f32, f32) -> f32 + Sync) {
        let others = other.values().par_chunks(TOGETHER);
        self.values_mut().par_chunks_mut(TOGETHER).zip(others).for_each(|(own, other)| {
            let pairs = own.iter_mut().zip(other);
            pairs.for_each(|(own, other)| *own = combine(*own, *other));
        });
    }

    /// The columns of several, side by side. All have the same number of rows.
    pub(crate) fn joined(parts: &[Self]) -> Self {
        let width = parts.iter().map(Self::width).sum();
        let count = parts.first().map_or(0, Self::len);
        let row = |place| parts.iter().filter_map(move |part| part.row(place)).flatten().copied();
        Self::new((0..count).flat_map(row).collect(), width)
    }

    /// Some columns of every row.
    pub(crate) fn columns(&self, columns: std::ops::Range<usize>) -> Self {
        let some = |row: &[f32]| row.get(columns.clone()).unwrap_or_default().to_vec();
        Self::new(self.rows().flat_map(some).collect(), columns.len())
    }

    /// The same values in host memory alone.
    pub(crate) fn on_host(mut self) -> Self {
        self.values_mut();
        self
    }
}

/// A number of a step.
pub(crate) fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
