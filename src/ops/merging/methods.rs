//! The arithmetic of merging methods, on whole tensors in `f32`.

use super::rows::TokenRows;
use crate::error::{Error, Result};
use crate::model::Tensor;
use crate::ops::random::{draw, seed_of};

/// A method that merges the values of several models.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum MergeMethod {
    /// The weighted sum, divided by the sum of weights unless `normalize` is 0.
    Linear,
    /// The base, and the weighted sum of the differences from it (Ilharco et al., 2022).
    TaskArithmetic,
    /// Like `TaskArithmetic`, with the largest `density` of each difference, and only of those that have
    /// the sign of the sum (Yadav et al., 2023).
    Ties,
    /// Like `TaskArithmetic`, with a random share `density` of each difference, scaled to the sum of
    /// magnitudes before unless `rescale` is 0 (Yu et al., 2024).
    DareLinear,
    /// Like `DareLinear`, and only of those that have the sign of the sum.
    DareTies,
    /// The point at `t` on the arc from the base to the other model.
    Slerp,
    /// The tensor of one model, times `scale`.
    Passthrough,
}

impl MergeMethod {
    /// The methods.
    pub const ALL: [Self; 7] = [
        Self::Linear,
        Self::TaskArithmetic,
        Self::Ties,
        Self::DareLinear,
        Self::DareTies,
        Self::Slerp,
        Self::Passthrough,
    ];

    /// The name, as in mergekit's files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::TaskArithmetic => "task_arithmetic",
            Self::Ties => "ties",
            Self::DareLinear => "dare_linear",
            Self::DareTies => "dare_ties",
            Self::Slerp => "slerp",
            Self::Passthrough => "passthrough",
        }
    }

    /// The method with this name; `task` is short for `task_arithmetic`.
    ///
    /// # Errors
    ///
    /// `Unsupported` for another name.
    pub fn from_name(name: &str) -> Result<Self> {
        let full = if name == "task" { "task_arithmetic" } else { name };
        let found = Self::ALL.into_iter().find(|method| method.name() == full);
        found.ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            Error::unsupported(format!("the merge method is \"{name}\", not one of {known}"))
        })
    }

    /// Whether one of the models is the base.
    pub(super) fn needs_base(self) -> bool {
        !matches!(self, Self::Linear | Self::Passthrough)
    }

    /// The default of `normalize`.
    pub(super) fn normalizes(self) -> f64 {
        if matches!(self, Self::Linear | Self::Ties) { 1.0 } else { 0.0 }
    }

    /// The default of `rescale`.
    pub(super) fn rescales(self) -> f64 {
        if matches!(self, Self::DareLinear | Self::DareTies) { 1.0 } else { 0.0 }
    }

    /// The settings that the method reads.
    pub(super) fn settings(self) -> &'static [&'static str] {
        match self {
            Self::Linear => &["weight", "normalize"],
            Self::TaskArithmetic | Self::Ties | Self::DareLinear | Self::DareTies => {
                &["weight", "density", "normalize", "lambda", "int8_mask", "rescale"]
            }
            Self::Slerp => &["t"],
            Self::Passthrough => &["scale"],
        }
    }
}

/// A tensor that is merged, with its settings.
#[derive(Clone, Debug)]
pub(super) struct Input {
    pub(super) tensor: Tensor,
    /// The rows in another order, for a tensor with a row for each token.
    pub(super) rows: Option<TokenRows>,
    pub(super) weight: f64,
    pub(super) density: f64,
    pub(super) scale: f64,
}

impl Input {
    fn values(&self) -> Result<Vec<f32>> {
        match &self.rows {
            Some(rows) => rows.values(&self.tensor),
            None => self.tensor.to_vec::<f32>(),
        }
    }
}

/// The method and the settings by which one tensor is merged.
#[derive(Clone, Debug)]
pub(super) struct Merge {
    pub(super) method: MergeMethod,
    pub(super) base: Option<Input>,
    pub(super) inputs: Vec<Input>,
    pub(super) normalize: bool,
    /// Whether what is left of a difference is scaled to the sum of magnitudes before.
    pub(super) rescale: bool,
    pub(super) lambda: f64,
    pub(super) t: f64,
}

/// Weights whose sum is smaller are not divided by.
const LEAST_SUM: f64 = 1e-8;

/// Differences whose magnitudes have a smaller sum are not scaled.
const LEAST_MAGNITUDE: f64 = 1e-7;

#[expect(clippy::cast_possible_truncation, reason = "values are f32")]
fn f32_of(number: f64) -> f32 {
    number as f32
}

impl Merge {
    pub(super) fn check(&self) -> Result<()> {
        let fault = match (self.method, self.inputs.len()) {
            (MergeMethod::Slerp, 1) if self.base.is_some() => return Ok(()),
            (MergeMethod::Slerp, _) => "slerp merges a base and one other model",
            (MergeMethod::Passthrough, 1) => return Ok(()),
            (MergeMethod::Passthrough, _) => "passthrough takes each tensor from one model",
            (method, _) if method.needs_base() && self.base.is_none() => {
                return Err(Error::mismatch(format!("{} requires a base model", method.name())));
            }
            _ => return Ok(()),
        };
        Err(Error::mismatch(fault))
    }

    /// The merged values.
    pub(super) fn values(&self) -> Result<Vec<f32>> {
        match self.method {
            MergeMethod::Linear => self.linear(),
            MergeMethod::TaskArithmetic
            | MergeMethod::Ties
            | MergeMethod::DareLinear
            | MergeMethod::DareTies => self.differences(),
            MergeMethod::Slerp => self.slerp(),
            MergeMethod::Passthrough => {
                let Some(input) = self.inputs.first() else { return Ok(Vec::new()) };
                let mut values = input.values()?;
                if input.scale != 1.0 {
                    let scale = f32_of(input.scale);
                    values.iter_mut().for_each(|value| *value *= scale);
                }
                Ok(values)
            }
        }
    }

    fn linear(&self) -> Result<Vec<f32>> {
        let mut sum: Vec<f32> = Vec::new();
        for input in &self.inputs {
            let values = input.values()?;
            sum.resize(values.len(), 0.0);
            add(&mut sum, &values, f32_of(input.weight));
        }
        let total: f64 = self.inputs.iter().map(|input| input.weight).sum();
        if self.normalize && total.abs() >= LEAST_SUM {
            let total = f32_of(total);
            sum.iter_mut().for_each(|value| *value /= total);
        }
        Ok(sum)
    }

    /// The base plus differences from it.
    fn differences(&self) -> Result<Vec<f32>> {
        let Some(base) = &self.base else { return Ok(Vec::new()) };
        let mut base = base.values()?;
        let mut deltas = Vec::new();
        for (number, input) in (0..).zip(&self.inputs) {
            let mut delta = input.values()?;
            delta.iter_mut().zip(&base).for_each(|(value, base)| *value -= base);
            let before = magnitude(&delta);
            match self.method {
                MergeMethod::Ties => keep_largest(&mut delta, input.density),
                MergeMethod::DareLinear | MergeMethod::DareTies => {
                    keep_drawn(&mut delta, input.density, seed_of(input.tensor.name(), number));
                }
                _ => {}
            }
            let after = magnitude(&delta);
            if self.rescale && before >= LEAST_MAGNITUDE && after >= LEAST_MAGNITUDE {
                let scale = f32_of(before / after);
                delta.iter_mut().for_each(|value| *value *= scale);
            }
            let weight = f32_of(input.weight);
            delta.iter_mut().for_each(|value| *value *= weight);
            deltas.push(delta);
        }
        let weights: Vec<f32> = self.inputs.iter().map(|input| f32_of(input.weight)).collect();
        let all: f64 = self.inputs.iter().map(|input| input.weight).sum();
        let lambda = f32_of(self.lambda);
        for (place, value) in base.iter_mut().enumerate() {
            let own = || deltas.iter().filter_map(|delta| delta.get(place).copied());
            let (mixed, divisor) = match self.method {
                MergeMethod::Ties | MergeMethod::DareTies => agreeing(own, &weights),
                _ => (own().sum(), if all.abs() < LEAST_SUM { 1.0 } else { f32_of(all) }),
            };
            let mixed: f32 = if self.normalize { mixed / divisor } else { mixed };
            *value += mixed * lambda;
        }
        Ok(base)
    }

    fn slerp(&self) -> Result<Vec<f32>> {
        let (Some(base), Some(other)) = (&self.base, self.inputs.first()) else {
            return Ok(Vec::new());
        };
        let mut a = base.values()?;
        let b = other.values()?;
        let norm = |values: &[f32]| {
            let squares = values.iter().map(|value| f64::from(*value) * f64::from(*value));
            let norm = squares.sum::<f64>().sqrt();
            if norm > LEAST_SUM { norm } else { 1.0 }
        };
        let product: f64 = a.iter().zip(&b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
        let cosine = (product / (norm(&a) * norm(&b))).clamp(-1.0, 1.0);
        // Vectors in nearly one line have no arc between them.
        let (of_a, of_b) = if cosine.abs() > 0.9995 {
            (1.0 - self.t, self.t)
        } else {
            let angle = cosine.acos();
            (((1.0 - self.t) * angle).sin() / angle.sin(), (self.t * angle).sin() / angle.sin())
        };
        let (of_a, of_b) = (f32_of(of_a), f32_of(of_b));
        a.iter_mut().zip(&b).for_each(|(a, b)| *a = of_a * *a + of_b * b);
        Ok(a)
    }
}

fn add(sum: &mut [f32], values: &[f32], weight: f32) {
    sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value * weight);
}

/// The sum of the weighted differences that have the sign of their sum, and the sum of their weights.
fn agreeing<I: Iterator<Item = f32>>(own: impl Fn() -> I, weights: &[f32]) -> (f32, f32) {
    let total: f32 = own().sum();
    // A sum of 0 counts as positive.
    let agrees = |value: f32| if total >= 0.0 { value > 0.0 } else { value < 0.0 };
    let (mut mixed, mut divisor) = (0.0, 0.0);
    for (value, weight) in own().zip(weights) {
        if agrees(value) {
            mixed += value;
            divisor += weight;
        }
    }
    (mixed, if divisor == 0.0 { 1.0 } else { divisor })
}

/// Sets all but the share `density` of the largest magnitudes to 0, and keeps at least one.
fn keep_largest(values: &mut [f32], density: f64) {
    if density >= 1.0 || values.is_empty() {
        return;
    }
    if density <= 0.0 {
        values.fill(0.0);
        return;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a share of a length"
    )]
    let kept = ((density * values.len() as f64) as usize).clamp(1, values.len());
    let mut magnitudes: Vec<f32> = values.iter().map(|value| value.abs()).collect();
    let place = magnitudes.len() - kept;
    let (_, least, _) = magnitudes.select_nth_unstable_by(place, f32::total_cmp);
    let least = *least;
    // Of equal magnitudes at the border, the first ones stay.
    let larger = values.iter().filter(|value| value.abs() > least).count();
    let mut equal = kept.saturating_sub(larger);
    for value in values {
        let magnitude = value.abs();
        if magnitude < least || (magnitude == least && equal == 0) {
            *value = 0.0;
        } else if magnitude == least {
            equal -= 1;
        }
    }
}

/// Keeps each value with the probability `density`; others become 0.
fn keep_drawn(values: &mut [f32], density: f64, seed: u64) {
    if density >= 1.0 {
        return;
    }
    let mut state = seed;
    for value in values {
        if draw(&mut state) >= density {
            *value = 0.0;
        }
    }
}

/// The sum of magnitudes.
fn magnitude(values: &[f32]) -> f64 {
    values.iter().map(|value| f64::from(value.abs())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_kept() {
        let kept = |density: f64| {
            let mut values = [1.0, -4.0, 2.0, -2.0, 0.5, 3.0];
            keep_largest(&mut values, density);
            values
        };
        assert_eq!(kept(0.5), [0.0, -4.0, 2.0, 0.0, 0.0, 3.0]);
        assert_eq!(kept(0.01), [0.0, -4.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(kept(0.0), [0.0; 6]);
        assert_eq!(kept(1.0), [1.0, -4.0, 2.0, -2.0, 0.5, 3.0]);
    }

    #[test]
    fn values_are_drawn() {
        let drawn = |density, number| {
            let mut values = vec![1.0f32; 20_000];
            keep_drawn(&mut values, density, seed_of("a", number));
            values
        };
        let share = |density| magnitude(&drawn(density, 0)) / 20_000.0;
        assert!((share(0.25) - 0.25).abs() < 0.02, "{}", share(0.25));
        assert_eq!((share(0.0), share(1.0)), (0.0, 1.0));
        assert_ne!(drawn(0.5, 0), drawn(0.5, 1));
    }

    #[test]
    fn signs_are_elected() {
        let of = |values: [f32; 3]| agreeing(|| values.into_iter(), &[1.0, 0.5, 0.25]);
        assert_eq!(of([1.0, -0.5, 2.0]), (3.0, 1.25));
        assert_eq!(of([1.0, -3.0, 0.0]), (-3.0, 0.5));
        assert_eq!(of([0.0, 0.0, 0.0]), (0.0, 1.0));
    }
}
