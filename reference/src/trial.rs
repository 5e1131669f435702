//! A short run of a model, which finds files whose bytes are whole and whose meaning is not.

use serde::Serialize;
use weighbridge::Model;

use crate::{Likelihood, Prediction, Reference, Result, Rows, TextTokens};

/// Tokens that are run.
const TOKENS: usize = 64;

/// The result of a short run of a model.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Trial {
    /// The number of tokens that were run.
    pub tokens: usize,
    /// The perplexity of a text, if the model's tokenizer splits one into tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub perplexity: Option<f64>,
    /// The number of tokens in the vocabulary, which is the perplexity of a model that knows nothing.
    pub vocabulary: usize,
    /// Results that no healthy model gives, one sentence each.
    pub faults: Vec<String>,
}

impl Trial {
    /// The text that models predict, in trials and in comparisons.
    pub const TEXT: &str = include_str!("../assets/comparison.txt");

    /// Runs a model on a few tokens: on a text if its tokenizer splits texts, else on tokens from all
    /// of its vocabulary.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a model that the decoder does not run; otherwise same as [`Reference::new`].
    pub fn run(model: &Model) -> Result<Self> {
        let reference = Reference::new(model)?;
        let mut trial = Self::default();
        let text = TextTokens::new(model).and_then(|tokens| tokens.of(Self::TEXT)).ok();
        let vocabulary = u32::try_from(reference.vocabulary()).unwrap_or(u32::MAX);
        let known = |tokens: &Vec<u32>| tokens.iter().all(|token| *token < vocabulary);
        let text = text.filter(|tokens| known(tokens) && tokens.len() >= TOKENS);
        let spread = |number: usize| u32::try_from(number).unwrap_or(0) * (vocabulary / 64).max(1);
        let tokens: Vec<u32> = match &text {
            Some(text) => text.iter().copied().take(TOKENS).collect(),
            None => (0..TOKENS).map(|number| spread(number) % vocabulary.max(1)).collect(),
        };
        trial.tokens = tokens.len();
        trial.vocabulary = reference.vocabulary();
        if reference.plan().encodes() {
            examine(&reference.encode(&tokens, None)?.hidden, "hidden states", &mut trial);
            return Ok(trial);
        }
        if let Some(beside) = &reference.plan().text_encoder {
            // The decoder is given the same tokens, behind the one that it starts with.
            let encoded = reference.encode(&tokens, None)?.hidden;
            examine(&encoded, "hidden states", &mut trial);
            let answer: Vec<u32> = std::iter::once(beside.start).chain(tokens).collect();
            let logits = reference.session_of(&encoded)?.logits(&answer)?;
            examine(&logits, "logits", &mut trial);
            return Ok(trial);
        }
        let logits = reference.session().logits(&tokens)?;
        examine(&logits, "logits", &mut trial);
        if text.is_some() && trial.faults.is_empty() {
            let mut likelihood = Likelihood::default();
            for (row, next) in logits.rows().zip(tokens.iter().skip(1)) {
                likelihood.add(Prediction::new(row)?.log_probability(*next).unwrap_or(0.0));
            }
            // No bound: a healthy model of one kind of text finds another kind less likely than chance.
            trial.perplexity = Some(likelihood.perplexity());
        }
        Ok(trial)
    }
}

/// Looks for values that no healthy model gives.
fn examine(rows: &Rows, what: &str, trial: &mut Trial) {
    let unusual = rows.rows().position(|row| row.iter().any(|value| !value.is_finite()));
    if let Some(place) = unusual {
        trial.faults.push(format!("{what} of position {place} are infinite or NaN"));
        return;
    }
    let even = |row: &[f32]| row.iter().all(|value| Some(value) == row.first());
    if let Some(place) = rows.rows().position(even) {
        trial.faults.push(format!("{what} of position {place} are all equal"));
    } else if rows.len() > 1 && rows.rows().all(|row| Some(row) == rows.row(0)) {
        trial.faults.push(format!("{what} are the same for every token"));
    }
}
