//! Perplexity of a model on a text, and the divergence between the predictions of two models.
//!
//! The quantities are those that llama.cpp's perplexity tool prints, with the same definitions, so
//! that they can be compared with its figures.

use crate::error::{Error, Result};

/// The scores of one position, as logarithms of probabilities.
#[derive(Clone, Debug)]
pub struct Prediction<'s> {
    logits: &'s [f32],
    /// The logarithm of the sum of all scores' exponentials.
    total: f64,
    likeliest: [u32; TOP],
}

/// The number of likeliest tokens that are compared.
const TOP: usize = 5;

impl<'s> Prediction<'s> {
    /// Reads the scores of all tokens.
    ///
    /// # Errors
    ///
    /// `Mismatch` if they are not finite, or fewer than five.
    pub fn new(logits: &'s [f32]) -> Result<Self> {
        let unusual = logits.iter().enumerate().find(|(_, logit)| !logit.is_finite());
        if let Some((token, logit)) = unusual {
            let fault = format!("the score of token {token} is {logit}");
            return Err(Error::Mismatch(fault));
        }
        let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = logits.iter().map(|logit| f64::from(logit - most).exp()).sum();
        Ok(Self { logits, total: f64::from(most) + sum.ln(), likeliest: likeliest(logits)? })
    }

    /// The logarithm of a token's probability; `None` beyond the vocabulary.
    pub fn log_probability(&self, token: u32) -> Option<f64> {
        let logit = self.logits.get(usize::try_from(token).ok()?)?;
        Some(f64::from(*logit) - self.total)
    }

    /// The likeliest token.
    pub fn best(&self) -> u32 {
        let [best, ..] = self.likeliest;
        best
    }

    /// The Kullback-Leibler divergence of `other` from this prediction, in nats.
    pub fn divergence(&self, other: &Self) -> f64 {
        let pairs = self.logits.iter().zip(other.logits);
        let term = |(own, other_logit): (&f32, &f32)| {
            let own = f64::from(*own) - self.total;
            own.exp() * (own - (f64::from(*other_logit) - other.total))
        };
        // Rounding may leave a sum slightly below zero.
        pairs.map(term).sum::<f64>().max(0.0)
    }
}

/// The likeliest tokens, the first of equals first.
fn likeliest(logits: &[f32]) -> Result<[u32; TOP]> {
    let mut best = [(u32::MAX, f32::NEG_INFINITY); TOP];
    for (token, logit) in (0..).zip(logits) {
        let place = best.partition_point(|(_, score)| score >= logit);
        let worse = best.get_mut(place..).unwrap_or_default();
        if let [.., last] = worse {
            *last = (token, *logit);
            worse.rotate_right(1);
        }
    }
    match best.iter().all(|(token, _)| *token != u32::MAX) {
        true => Ok(best.map(|(token, _)| token)),
        false => Err(Error::Mismatch(format!("a vocabulary of {} tokens", logits.len()))),
    }
}

/// The likelihood of a text under a model.
#[derive(Clone, Copy, Debug, Default)]
pub struct Likelihood {
    positions: Moments,
}

impl Likelihood {
    /// Adds the logarithm of the probability of the token that follows.
    pub fn add(&mut self, log_probability: f64) {
        self.positions.add(-log_probability);
    }

    /// The perplexity: e to the mean negative logarithm.
    pub fn perplexity(&self) -> f64 {
        self.positions.mean().exp()
    }

    /// The standard error of the perplexity.
    pub fn perplexity_error(&self) -> f64 {
        self.perplexity() * self.positions.error()
    }
}

/// The divergence of a model's predictions from those of another model, over many positions.
#[derive(Clone, Debug, Default)]
pub struct Divergence {
    /// One for each position, in order.
    divergences: Vec<f64>,
    same_best: u64,
    same_top: u64,
    changes: Moments,
}

impl Divergence {
    /// Adds a position: the predictions of both models, and the token that follows.
    pub fn add(&mut self, base: &Prediction<'_>, other: &Prediction<'_>, next: u32) {
        self.divergences.push(base.divergence(other));
        self.same_best += u64::from(base.best() == other.best());
        let [mut a, mut b] = [base.likeliest, other.likeliest];
        a.sort_unstable();
        b.sort_unstable();
        self.same_top += u64::from(a == b);
        let of = |prediction: &Prediction<'_>| prediction.log_probability(next).map(f64::exp);
        if let (Some(base), Some(other)) = (of(base), of(other)) {
            self.changes.add(other - base);
        }
    }

    /// The divergence of each position, in nats, in the order in which they were added.
    pub fn divergences(&self) -> &[f64] {
        &self.divergences
    }

    /// The mean divergence, in nats.
    pub fn mean(&self) -> f64 {
        self.moments().mean()
    }

    /// The standard error of the mean.
    pub fn mean_error(&self) -> f64 {
        self.moments().error()
    }

    fn moments(&self) -> Moments {
        let mut moments = Moments::default();
        self.divergences.iter().for_each(|divergence| moments.add(*divergence));
        moments
    }

    /// The divergences below which these parts of the positions lie, each between 0 and 1; between
    /// two positions, in proportion.
    pub fn quantiles<const N: usize>(&self, parts: [f64; N]) -> [f64; N] {
        let mut sorted = self.divergences.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "places in a list"
        )]
        parts.map(|part| {
            let place = part.clamp(0.0, 1.0) * last as f64;
            let low = place.floor() as usize;
            let at = |place: usize| sorted.get(place.min(last)).copied().unwrap_or(0.0);
            at(low) + (place - low as f64) * (at(low + 1) - at(low))
        })
    }

    /// The share of positions at which both models have the same likeliest token.
    pub fn same_best(&self) -> f64 {
        self.share(self.same_best)
    }

    /// The share of positions at which both models have the same five likeliest tokens, in any order.
    pub fn same_top(&self) -> f64 {
        self.share(self.same_top)
    }

    #[expect(clippy::cast_precision_loss, reason = "numbers of positions")]
    fn share(&self, count: u64) -> f64 {
        count as f64 / (self.divergences.len().max(1)) as f64
    }

    /// The root mean square of the changes of the probability of the token that follows.
    pub fn rms_change(&self) -> f64 {
        self.changes.mean_square().sqrt()
    }
}

/// Sums of numbers and of their squares.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, value: f64) {
        self.count += 1.0;
        self.sum += value;
        self.squares += value * value;
    }

    fn mean(&self) -> f64 {
        self.sum / self.count.max(1.0)
    }

    fn mean_square(&self) -> f64 {
        self.squares / self.count.max(1.0)
    }

    /// The standard error of the mean.
    fn error(&self) -> f64 {
        let variance = (self.mean_square() - self.mean() * self.mean()).max(0.0);
        (variance / (self.count - 1.0).max(1.0)).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_predictions_do_not_diverge() {
        let logits = [0.5, -1.0, 3.0, 2.0, 0.0, 1.0];
        let shifted = logits.map(|logit| logit + 7.0);
        let (a, b) = (Prediction::new(&logits).unwrap(), Prediction::new(&shifted).unwrap());
        assert!(a.divergence(&b) < 1e-12);
        let mut all = Divergence::default();
        all.add(&a, &b, 2);
        assert_eq!((all.same_best(), all.same_top()), (1.0, 1.0));
        assert!(all.rms_change() < 1e-6);
    }

    /// Computed by hand: probabilities 1/2, 1/4 and four times 1/16 against six times 1/6.
    #[test]
    fn figures_are_those_of_the_definition() {
        let probabilities = [0.5, 0.25, 0.0625, 0.0625, 0.0625, 0.0625f32];
        let logits = probabilities.map(f32::ln);
        let (a, b) = (Prediction::new(&logits).unwrap(), Prediction::new(&[0.0; 6]).unwrap());
        let expected = 0.5 * 3f64.ln() + 0.25 * 1.5f64.ln() + 0.25 * 0.375f64.ln();
        assert!((a.divergence(&b) - expected).abs() < 1e-7);
        let mut all = Divergence::default();
        all.add(&a, &b, 0);
        all.add(&a, &a, 0);
        assert!((all.mean() - expected / 2.0).abs() < 1e-7);
        assert!((all.mean_error() - expected / 2.0).abs() < 1e-7);
        assert_eq!(all.quantiles([0.0, 1.0])[0], 0.0);
        assert!((all.quantiles([0.75])[0] - 0.75 * expected).abs() < 1e-7);
        assert!((all.rms_change() - (1.0 / 9.0f64 / 2.0).sqrt()).abs() < 1e-7);
        let mut text = Likelihood::default();
        [0.5f64, 0.125].iter().for_each(|p| text.add(p.ln()));
        assert!((text.perplexity() - 4.0).abs() < 1e-12);
        assert!((text.perplexity_error() - 4.0 * 2f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn scores_that_are_no_numbers_are_an_error() {
        let error = Prediction::new(&[0.0, f32::NAN, 0.0, 0.0, 0.0]).unwrap_err();
        assert_eq!(error.to_string(), "mismatch: the score of token 1 is NaN");
        assert!(Prediction::new(&[0.0; 4]).is_err());
    }
}
