//! Weights as the files have them: packed, and decoded row by row as they are multiplied.

use std::ops::Range;

use rayon::prelude::*;
use weighbridge::arch::NormKind;
use weighbridge::model::DecodeOptions;
use weighbridge::quant::{InputPanels, Inputs, StridedRows};
use weighbridge::{Model, Tensor};

use crate::device::{Loading, Matrix};
use crate::error::{Error, Result};
use crate::plan::NormPlan;
use crate::rows::{Rows, number};

/// Values that a thread decodes at a time, if a row is not longer.
const PIECE: usize = 1 << 16;

/// Rows of inputs that are multiplied one after the other with packed rows: decoding those takes as long as
/// some products.
const FEW: usize = 4;

/// Products of a block of rows, which are transposed together, if each thread has a piece.
const BLOCK: usize = 1 << 17;

/// A matrix, or one for each expert, with the bias that is added to its outputs.
#[derive(Debug)]
pub(crate) struct Weight {
    tensor: Tensor,
    arrays: usize,
    outputs: usize,
    inputs: usize,
    /// Stored rows of one output: more than one where its inputs have two dimensions.
    rows: usize,
    bias: Option<Rows>,
    /// The same in the memory of a GPU.
    device: Option<Matrix>,
}

/// Finds a model's tensors, and checks that they have the shape that the config says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loader<'m> {
    model: &'m Model,
    device: Option<&'m Loading>,
}

impl<'m> Loader<'m> {
    pub(crate) fn new(model: &'m Model, device: Option<&'m Loading>) -> Self {
        Self { model, device }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.model.has(name)
    }

    /// The matrix `{name}.weight` and, where the model has it, the bias `{name}.bias`.
    pub(crate) fn weight(&self, name: &str, inputs: usize) -> Result<Weight> {
        let tensor = self.model.tensor(&format!("{name}.weight"))?;
        let shape = tensor.dims()?;
        let (outer, outputs, found) = match shape.as_slice() {
            [outer @ .., outputs, inputs] => (outer, *outputs, *inputs),
            // llama-quantize drops outermost dimensions of 1.
            [inputs] => (&[][..], 1, *inputs),
            [] => return Err(misfit(name, tensor.shape(), "a matrix was expected")),
        };
        if found != inputs || inputs == 0 || outputs == 0 {
            return Err(misfit(name, tensor.shape(), &format!("the config says {inputs} inputs")));
        }
        let arrays = outer.iter().try_fold(1usize, |arrays, more| arrays.checked_mul(*more));
        let arrays = arrays.ok_or_else(|| misfit(name, tensor.shape(), "that is too large"))?;
        let bias = self.vector_if(&format!("{name}.bias"), outputs * arrays)?;
        let bias = bias.map(|bias| Rows::new(bias, outputs));
        let device = match self.device {
            Some(device) => device.matrix(&format!("{name}.weight"))?,
            None => None,
        };
        Ok(Weight { tensor, arrays, outputs, inputs, rows: 1, bias, device })
    }

    /// The convolution `{name}.weight` as a matrix: inputs are windows of positions, channel by channel.
    pub(crate) fn convolution(&self, name: &str, inputs: usize) -> Result<Weight> {
        let tensor = self.model.tensor(&format!("{name}.weight"))?;
        let shape = tensor.dims()?;
        let [outputs, rows, width] = *shape.as_slice() else {
            return Err(misfit(name, tensor.shape(), "three dimensions were expected"));
        };
        if rows.checked_mul(width) != Some(inputs) || inputs == 0 || outputs == 0 {
            return Err(misfit(name, tensor.shape(), &format!("the config says {inputs} inputs")));
        }
        let bias = Some(Rows::new(self.vector(&format!("{name}.bias"), outputs)?, outputs));
        Ok(Weight { tensor, arrays: 1, outputs, inputs, rows, bias, device: None })
    }

    /// As [`weight`](Self::weight), or nothing where the model has no such matrix.
    pub(crate) fn weight_if(&self, name: &str, inputs: usize) -> Result<Option<Weight>> {
        let there = self.has(&format!("{name}.weight"));
        there.then(|| self.weight(name, inputs)).transpose()
    }

    /// As [`weight_if`](Self::weight_if), with one of several numbers of inputs.
    pub(crate) fn weight_of(&self, name: &str, inputs: &[usize]) -> Result<Option<Weight>> {
        let full = format!("{name}.weight");
        if !self.has(&full) {
            return Ok(None);
        }
        let stored = self.model.tensor(&full)?.shape().last().copied().unwrap_or_default();
        let fits = |inputs: &&usize| u64::try_from(**inputs) == Ok(stored);
        let inputs = inputs.iter().find(fits).or(inputs.first()).copied().unwrap_or_default();
        self.weight(name, inputs).map(Some)
    }

    /// The first row of the matrix `{name}.weight`, or nothing where the model has none.
    pub(crate) fn first_row(&self, name: &str) -> Result<Option<Rows>> {
        let full = format!("{name}.weight");
        if !self.has(&full) {
            return Ok(None);
        }
        let width = self.model.tensor(&full)?.shape().last().copied().unwrap_or_default();
        let width = usize::try_from(width).unwrap_or(usize::MAX);
        self.weight(name, width)?.rows_of(&[0], "row").map(Some)
    }

    /// The bias of scores by the embedding, for models without a separate output matrix.
    pub(crate) fn output_bias(&self, tokens: usize) -> Result<Option<Rows>> {
        if self.has("output.weight") {
            return Ok(None);
        }
        Ok(self.vector_if("output.bias", tokens)?.map(|bias| Rows::new(bias, tokens)))
    }

    /// As [`weight`](Self::weight), with that many outputs.
    pub(crate) fn sized(&self, name: &str, outputs: usize, inputs: usize) -> Result<Weight> {
        let weight = self.weight(name, inputs)?;
        if weight.outputs == outputs {
            return Ok(weight);
        }
        let fault = format!("the config says {outputs} outputs");
        Err(misfit(name, weight.tensor.shape(), &fault))
    }

    /// As [`vector`](Self::vector), or nothing where the model has no such tensor.
    pub(crate) fn vector_if(&self, name: &str, len: usize) -> Result<Option<Vec<f32>>> {
        self.has(name).then(|| self.vector(name, len)).transpose()
    }

    /// The number of values of a tensor, or nothing where the model has no such tensor.
    pub(crate) fn len_if(&self, name: &str) -> Result<Option<usize>> {
        if !self.has(name) {
            return Ok(None);
        }
        Ok(Some(usize::try_from(self.model.tensor(name)?.elements()).unwrap_or(usize::MAX)))
    }

    /// All values of a tensor, of which there are that many.
    pub(crate) fn vector(&self, name: &str, len: usize) -> Result<Vec<f32>> {
        let tensor = self.model.tensor(name)?;
        if tensor.elements() != len as u64 {
            return Err(misfit(name, tensor.shape(), &format!("{len} values were expected")));
        }
        Ok(tensor.dequantize()?.to_vec())
    }

    /// The norm of runs of `width` values whose factors are `{name}.weight`. `None` where the model has no such
    /// factors.
    pub(crate) fn norm_if(&self, name: &str, width: usize, plan: NormPlan) -> Result<Option<Norm>> {
        let all = plan.runs.saturating_mul(width);
        let factors = self.vector_if(&format!("{name}.weight"), all)?;
        let Some(factors) = factors.filter(|factors| !factors.is_empty()) else { return Ok(None) };
        let bias = self.vector_if(&format!("{name}.bias"), all)?;
        let factors = factors.iter().map(|factor| factor + plan.added).collect();
        let factors = Some(Rows::new(factors, width));
        let bias = bias.map(|bias| Rows::new(bias, width));
        Ok(Some(Norm { width, kind: plan.kind, eps: plan.eps, factors, bias }))
    }

    /// As [`norm_if`](Self::norm_if); without factors where the plan says that norms have none.
    pub(crate) fn norm(&self, name: &str, width: usize, plan: NormPlan) -> Result<Norm> {
        match self.norm_if(name, width, plan)? {
            Some(norm) => Ok(norm),
            None if plan.bare => Ok(Norm::bare(width, plan)),
            // The library's own message names what is missing.
            None => Err(self.model.tensor(&format!("{name}.weight")).err().map_or_else(
                || Error::Mismatch(format!("{name}.weight is missing")),
                Error::Model,
            )),
        }
    }
}

fn misfit(name: &str, shape: &[u64], fault: &str) -> Error {
    Error::Mismatch(format!("{name} has the shape {shape:?}, but {fault}"))
}

impl Weight {
    pub(crate) fn outputs(&self) -> usize {
        self.outputs
    }

    pub(crate) fn arrays(&self) -> usize {
        self.arrays
    }

    /// The products of each row of `x` with all rows of the matrix, and the bias.
    pub(crate) fn of(&self, x: &Rows) -> Result<Rows> {
        self.of_array(0, x)
    }

    /// As [`of`](Self::of), with the matrix of one expert.
    pub(crate) fn of_array(&self, array: usize, x: &Rows) -> Result<Rows> {
        let count = x.len();
        if x.width() != self.inputs || array >= self.arrays {
            let fault = format!("{} values for {} inputs", x.width(), self.inputs);
            return Err(Error::Mismatch(fault));
        }
        if count == 0 {
            return Ok(Rows::zeros(0, self.outputs));
        }
        let first = array * self.outputs;
        if let Some(matrix) = &self.device {
            let x = x.on(matrix.engine());
            let given = match self.arrays {
                1 => matrix.multiply(x, count),
                _ => matrix.of_experts(x, &matrix.always(array, count), self.outputs, 1),
            };
            let mut out = Rows::of_array(given, count, self.outputs);
            self.bias.iter().for_each(|bias| out.add_row(bias, first));
            return Ok(out);
        }
        let few = count <= FEW && self.rows == 1;
        // Pieces are as large as threads still share them well.
        let shared = self.outputs / (8 * rayon::current_num_threads());
        let decoded = PIECE / self.inputs;
        let at_once = if few { shared.max(decoded) } else { shared.min(decoded) };
        let at_once = at_once.clamp(1, self.outputs);
        // A block has a piece for each thread, and no more than the transposed products of all inputs
        // take.
        let pieces = (BLOCK / (at_once * count)).max(rayon::current_num_threads());
        let mut out = Rows::zeros(count, self.outputs);
        let mut turned = vec![0.0; self.outputs.min(pieces * at_once) * count];
        let one_by_one: Vec<_> =
            x.rows().take(if few { count } else { 0 }).map(Inputs::new).collect();
        let together = if few { &[] } else { x.values() };
        let together = InputPanels::new(StridedRows::dense(together, self.inputs), self.inputs);
        for block in (0..self.outputs).step_by(pieces * at_once) {
            // A piece has an input's products with all of its rows, then those of the next input.
            let rows = (self.outputs - block).min(pieces * at_once);
            turned.truncate(rows * count);
            turned.par_chunks_mut(at_once * count).enumerate().try_for_each_init(
                || (self.tensor.row_reader(), Vec::new()),
                |(reader, scratch), (piece, out)| -> Result<()> {
                    let reader = reader.as_mut().map_err(|error| Error::Model(error.clone()))?;
                    let rows = out.len() / count;
                    let start = first + block + piece * at_once;
                    let stored = self.stored_rows(start..start + rows);
                    if few {
                        for (inputs, out) in one_by_one.iter().zip(out.chunks_mut(rows)) {
                            reader.multiply_rows(stored.clone(), inputs, out)?;
                        }
                        return Ok(());
                    }
                    scratch.resize(rows * self.inputs, 0.0);
                    reader.dequantize_rows(stored, scratch, &DecodeOptions::new())?;
                    together.multiply(StridedRows::dense(scratch, self.inputs), out);
                    Ok(())
                },
            )?;
            out.rows_mut_in_threads().enumerate().for_each(|(place, row)| {
                let pieces = turned.chunks(at_once * count);
                let row = row.get_mut(block..).unwrap_or_default();
                for (row, piece) in row.chunks_mut(at_once).zip(pieces) {
                    let found = piece.chunks_exact(row.len()).nth(place).unwrap_or_default();
                    row.iter_mut().zip(found).for_each(|(out, product)| *out = *product);
                }
            });
        }
        self.bias.iter().for_each(|bias| out.add_row(bias, first));
        Ok(out)
    }

    /// The products of rows of `x` with the matrices of the experts in `chosen`, on the GPU that has the
    /// matrices. A row is for `per_row` of them.
    pub(crate) fn of_experts(&self, x: &Rows, chosen: &Rows, per_row: usize) -> Option<Rows> {
        let matrix = self.device.as_ref()?;
        let engine = matrix.engine();
        let chosen_there = chosen.on(engine);
        let given = matrix.of_experts(x.on(engine), chosen_there, self.outputs, per_row);
        let mut out = Rows::of_array(given, chosen.len() * chosen.width(), self.outputs);
        if let Some(bias) = &self.bias {
            let numbers = [out.count(), number(self.outputs), 0, 1];
            out.step(engine, "add_row", &[bias, chosen], &numbers);
        }
        Some(out)
    }

    /// The stored rows of some outputs, counted over all arrays.
    fn stored_rows(&self, outputs: Range<usize>) -> Range<u64> {
        (outputs.start * self.rows) as u64..(outputs.end * self.rows) as u64
    }

    /// One row for each of some numbers: an embedding's, for tokens.
    pub(crate) fn rows_of(&self, numbers: &[u32], what: &str) -> Result<Rows> {
        let place = |number: &u32| usize::try_from(*number).unwrap_or(usize::MAX);
        if let Some(beyond) = numbers.iter().find(|number| place(number) >= self.outputs) {
            let fault = format!("{what} {beyond}, but there are {}", self.outputs);
            return Err(Error::Input(fault));
        }
        if let Some(matrix) = self.device.as_ref().filter(|_| !numbers.is_empty()) {
            return Ok(Rows::of_array(matrix.rows(numbers), numbers.len(), self.inputs));
        }
        let mut out = Rows::zeros(numbers.len(), self.inputs);
        for (row, number) in out.rows_mut().zip(numbers) {
            let number = place(number);
            let stored = self.stored_rows(number..number + 1);
            self.tensor.dequantize_rows(stored, row, &DecodeOptions::new())?;
        }
        Ok(out)
    }
}

/// A norm over runs of values.
#[derive(Clone, Debug)]
pub(crate) struct Norm {
    width: usize,
    kind: NormKind,
    eps: f32,
    factors: Option<Rows>,
    bias: Option<Rows>,
}

impl Norm {
    /// A norm without factors.
    pub(crate) fn bare(width: usize, plan: NormPlan) -> Self {
        Self { width, kind: plan.kind, eps: plan.eps, factors: None, bias: None }
    }

    /// The same norm, with a factor for each of several runs in turn, those of heads.
    pub(crate) fn times(self, factors: &[f32]) -> Self {
        if factors.is_empty() {
            return self;
        }
        let each = factors.iter().flat_map(|factor| std::iter::repeat_n(*factor, self.width));
        let factors = Rows::new(each.collect(), self.width);
        Self { factors: Some(factors), ..self }
    }

    pub(crate) fn of(&self, x: &Rows) -> Rows {
        let mut out = x.clone();
        self.apply(&mut out);
        out
    }

    /// Norms each run of `width` values. Factors for several runs, those of heads, are taken in turn.
    pub(crate) fn apply(&self, x: &mut Rows) {
        let width = self.width.max(1);
        if let Some(engine) = x.engine() {
            let runs = x.width() / width;
            let empty = Rows::default();
            let of = |values: &Option<Rows>| values.as_ref().map_or(0, Rows::len);
            let numbers = [
                number(x.len() * runs),
                number(width),
                number(runs.max(1)),
                u32::from(self.kind == NormKind::Layer),
                self.eps.to_bits(),
                number(of(&self.factors)),
                number(of(&self.bias)),
            ];
            let inputs =
                [&self.factors, &self.bias].map(|values| values.as_ref().unwrap_or(&empty));
            return x.step_by(&engine, "norm", &inputs, &numbers, x.len() * runs);
        }
        x.rows_mut_in_threads().for_each(|row| {
            for (place, run) in row.chunks_exact_mut(width).enumerate() {
                self.normalize(run);
                for (values, multiply) in [(&self.factors, true), (&self.bias, false)] {
                    let Some(values) = values else { continue };
                    let own = values.row(place % values.len().max(1)).unwrap_or_default();
                    let pairs = run.iter_mut().zip(own);
                    if multiply {
                        pairs.for_each(|(x, factor)| *x *= factor);
                    } else {
                        pairs.for_each(|(x, bias)| *x += bias);
                    }
                }
            }
        });
    }

    #[expect(clippy::cast_possible_truncation, reason = "sums are f64, values f32")]
    fn normalize(&self, run: &mut [f32]) {
        let count = run.len() as f64;
        if self.kind == NormKind::Layer {
            let mean = run.iter().copied().map(f64::from).sum::<f64>() / count;
            run.iter_mut().for_each(|x| *x = (f64::from(*x) - mean) as f32);
        }
        let square = run.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>() / count;
        let factor = (square + f64::from(self.eps)).sqrt().recip() as f32;
        run.iter_mut().for_each(|x| *x *= factor);
    }
}
