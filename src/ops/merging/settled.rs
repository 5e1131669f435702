//! The numbers of whole tensors that merging needs before it computes their first value: lengths and angles,
//! borders between differences that are kept and others, sums of magnitudes.

use std::ops::Range;

use super::arithmetic::{LEAST_SUM, Merge, MergeBuffers};
use super::keep::{Keep, Kept, Settled, magnitude};
use super::methods::MergeMethod;
use crate::error::Result;
use crate::model::prefetch;
use crate::ops::random::seed_of;
use crate::rounding::f32_of;

/// Differences whose magnitudes have a smaller sum are not scaled.
const LEAST_MAGNITUDE: f64 = 1e-7;

/// Reads the whole tensors as often as their method requires.
pub(super) fn settled(merge: &Merge, buffers: &mut MergeBuffers) -> Result<Settled> {
    prefetch(merge.tensors());
    let arc = match merge.method {
        MergeMethod::Slerp => arc(merge, buffers)?,
        _ => (1.0, 0.0),
    };
    let mut kept = Vec::new();
    for (number, input) in merge.inputs.iter().enumerate().filter(|_| merge.base.is_some()) {
        let keep = match merge.method {
            MergeMethod::Ties | MergeMethod::DareLinear | MergeMethod::DareTies
                if input.density >= 1.0 =>
            {
                Keep::All
            }
            MergeMethod::Ties if input.density <= 0.0 => Keep::Nothing,
            MergeMethod::Ties => largest(merge, number, input.density, buffers)?,
            MergeMethod::DareLinear | MergeMethod::DareTies => {
                let seed = seed_of(input.tensor().name(), number as u64);
                Keep::Drawn { density: input.density, seed }
            }
            _ => Keep::All,
        };
        let scale = match keep {
            Keep::All | Keep::Nothing => 1.0,
            _ if merge.rescale => scale(merge, number, keep, buffers)?,
            _ => 1.0,
        };
        kept.push(Kept { keep, scale });
    }
    Ok(Settled { arc, kept })
}

/// The sums of eight numbers at a time, which processors add at once.
fn sum(values: impl ExactSizeIterator<Item = f64> + Clone) -> f64 {
    let mut sums = [0.0f64; 8];
    for (place, value) in values.enumerate() {
        if let Some(sum) = sums.get_mut(place % 8) {
            *sum += value;
        }
    }
    sums.iter().sum()
}

/// Passes the differences of an input to `sink`, in chunks with their first element, until it returns
/// `false`.
fn each(
    merge: &Merge,
    number: usize,
    buffers: &mut MergeBuffers,
    mut sink: impl FnMut(Range<u64>, &mut [f32]) -> bool,
) -> Result<()> {
    for chunk in merge.chunks(0..merge.elements) {
        buffers.out.clear();
        merge.difference(&chunk, number, buffers)?;
        let delta = buffers.others.get_mut(number).map_or(&mut [][..], Vec::as_mut_slice);
        if !sink(chunk, delta) {
            break;
        }
    }
    Ok(())
}

/// Counts of the numbers that some bits of magnitudes have.
struct Counts(Vec<u64>);

impl Counts {
    fn new(bits: u32) -> Self {
        Self(vec![0; 1 << bits])
    }

    fn add(&mut self, number: u32) {
        if let Some(count) = usize::try_from(number).ok().and_then(|at| self.0.get_mut(at)) {
            *count += 1;
        }
    }

    /// The number that the `rank`th largest has, and how many are larger.
    fn at_rank(&self, rank: u64) -> (u32, u64) {
        let mut larger = 0u64;
        for (number, count) in self.0.iter().enumerate().rev() {
            if larger.saturating_add(*count) >= rank {
                return (u32::try_from(number).unwrap_or(0), larger);
            }
            larger = larger.saturating_add(*count);
        }
        (0, larger)
    }

    fn of(&self, number: u32) -> u64 {
        usize::try_from(number).ok().and_then(|at| self.0.get(at)).copied().unwrap_or(0)
    }
}

/// The bits of a magnitude that are counted in the second pass.
const LOW: u32 = 15;

/// The border of the largest differences: a share of all, and at least one. The magnitude with this rank is
/// found in two passes, by its higher and its lower bits. Of equal magnitudes at the border, the first
/// ones are kept.
fn largest(merge: &Merge, number: usize, density: f64, buffers: &mut MergeBuffers) -> Result<Keep> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a share of a length"
    )]
    let kept = ((density * merge.elements as f64) as u64).clamp(1, merge.elements.max(1));
    let mut high = Counts::new(31 - LOW);
    each(merge, number, buffers, |_, values| {
        values.iter().for_each(|value| high.add(magnitude(*value) >> LOW));
        true
    })?;
    let (top, above) = high.at_rank(kept);
    let mut low = Counts::new(LOW);
    each(merge, number, buffers, |_, values| {
        for bits in values.iter().map(|value| magnitude(*value)) {
            if bits >> LOW == top {
                low.add(bits & ((1 << LOW) - 1));
            }
        }
        true
    })?;
    let (rest, between) = low.at_rank(kept.saturating_sub(above));
    let least = top << LOW | rest;
    let mut equal = kept.saturating_sub(above).saturating_sub(between);
    let mut equal_until = u64::MAX;
    if equal < low.of(rest) {
        each(merge, number, buffers, |chunk, values| {
            let count = values.iter().filter(|value| magnitude(**value) == least).count() as u64;
            if count < equal {
                equal -= count;
                return true;
            }
            let mut places = chunk.zip(&*values).filter(|(_, value)| magnitude(**value) == least);
            let after = |count: u64| usize::try_from(count.saturating_sub(1)).unwrap_or(usize::MAX);
            equal_until = match equal {
                0 => 0,
                _ => places.nth(after(equal)).map_or(u64::MAX, |(place, _)| place + 1),
            };
            false
        })?;
    }
    Ok(Keep::Largest { least, equal_until })
}

/// The factor by which what is kept of a difference gets the sum of magnitudes of all.
fn scale(merge: &Merge, number: usize, keep: Keep, buffers: &mut MergeBuffers) -> Result<f32> {
    let magnitudes = |values: &[f32]| sum(values.iter().map(|value| f64::from(value.abs())));
    let (mut before, mut after) = (0.0, 0.0);
    each(merge, number, buffers, |chunk, values| {
        before += magnitudes(values);
        keep.apply(chunk.start, values);
        after += magnitudes(values);
        true
    })?;
    let is_scaled = before >= LEAST_MAGNITUDE && after >= LEAST_MAGNITUDE;
    Ok(if is_scaled { f32_of(before / after) } else { 1.0 })
}

/// The factors of the base and of the other model, for the point at `t` on the arc between them.
fn arc(merge: &Merge, buffers: &mut MergeBuffers) -> Result<(f32, f32)> {
    let (mut product, mut of_a, mut of_b) = (0.0, 0.0, 0.0);
    for chunk in merge.chunks(0..merge.elements) {
        merge.pair(&chunk, buffers)?;
        let a = &*buffers.out;
        let b = buffers.others.first().map_or(&[][..], Vec::as_slice);
        let products =
            |a: &[f32], b: &[f32]| sum(a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)));
        product += products(a, b);
        of_a += products(a, a);
        of_b += products(b, b);
    }
    let norm = |squares: f64| if squares.sqrt() > LEAST_SUM { squares.sqrt() } else { 1.0 };
    let cosine = (product / (norm(of_a) * norm(of_b))).clamp(-1.0, 1.0);
    // Vectors in nearly one line have no arc between them.
    let (of_a, of_b) = if cosine.abs() > 0.9995 {
        (1.0 - merge.t, merge.t)
    } else {
        let angle = cosine.acos();
        (((1.0 - merge.t) * angle).sin() / angle.sin(), (merge.t * angle).sin() / angle.sin())
    };
    Ok((f32_of(of_a), f32_of(of_b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::model::Tensor;
    use crate::ops::merging::arithmetic::Input;
    use crate::ops::random::draw;

    fn tensor(values: &[f32]) -> Tensor {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Tensor::new("a", DType::F32, &[values.len() as u64], bytes).unwrap()
    }

    /// The values that are kept.
    fn kept(method: MergeMethod, values: &[f32], density: f64) -> Vec<f32> {
        let mut input = Input::new(tensor(values), None);
        input.density = density;
        let merge = Merge {
            method,
            base: Some(Input::new(tensor(&vec![0.0; values.len()]), None)),
            inputs: vec![input],
            normalize: false,
            rescale: false,
            lambda: 1.0,
            t: 0.5,
            elements: values.len() as u64,
        };
        let mut buffers = MergeBuffers::default();
        let settled = settled(&merge, &mut buffers).unwrap();
        let mut out = Vec::new();
        // Ranges that begin anywhere.
        for range in [0..merge.elements / 3, merge.elements / 3..merge.elements] {
            merge.compute(&range, &settled, &mut buffers).unwrap();
            out.extend_from_slice(&buffers.out);
        }
        out
    }

    #[test]
    fn the_largest_are_kept() {
        let values = [1.0, -4.0, 2.0, -2.0, 0.5, 3.0];
        let kept = |density| kept(MergeMethod::Ties, &values, density);
        assert_eq!(kept(0.5), [0.0, -4.0, 2.0, 0.0, 0.0, 3.0]);
        assert_eq!(kept(0.67), [0.0, -4.0, 2.0, -2.0, 0.0, 3.0]);
        assert_eq!(kept(0.01), [0.0, -4.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(kept(0.0), [0.0; 6]);
        assert_eq!(kept(1.0), values);
    }

    /// The border by counting is that of sorting, for values that are often equal.
    #[test]
    fn the_border_is_that_of_sorted_values() {
        let mut state = 1;
        let values: Vec<f32> = (0..400_000)
            .map(|_| f32_of(((draw(&mut state) - 0.5) * 2000.0).trunc()) / 64.0)
            .collect();
        for (density, count) in [(0.001, 400), (0.25, 100_000), (0.9, 360_000)] {
            let mut sorted: Vec<usize> = (0..values.len()).collect();
            sorted.sort_by(|a, b| values[*b].abs().total_cmp(&values[*a].abs()).then(a.cmp(b)));
            let mut expected = vec![0.0; values.len()];
            sorted[..count].iter().for_each(|&place| expected[place] = values[place]);
            assert_eq!(kept(MergeMethod::Ties, &values, density), expected, "{density}");
        }
    }

    #[test]
    fn values_are_drawn() {
        let values = vec![1.0f32; 20_000];
        let drawn = |density| kept(MergeMethod::DareLinear, &values, density);
        let share = |density| drawn(density).iter().sum::<f32>() / 20_000.0;
        assert!((share(0.25) - 0.25).abs() < 0.02, "{}", share(0.25));
        assert_eq!((share(0.0), share(1.0)), (0.0, 1.0));
        let keep = |seed| {
            let mut values = values.clone();
            Keep::Drawn { density: 0.5, seed }.apply(0, &mut values);
            values
        };
        assert_ne!(keep(seed_of("a", 0)), keep(seed_of("a", 1)));
    }
}
