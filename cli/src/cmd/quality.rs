//! `quality`: what a conversion or a quantization costs in quality.

use std::io::Write;
use std::path::Path;

use serde::Serialize;
use weighbridge::bytes::Text;
use weighbridge::ops;
use weighbridge::tokenizer::{Token, TokenKind};
use weighbridge::{Error, ErrorKind, Model};
use weighbridge_reference::{
    Divergence, Likelihood, Prediction, Reference, Rows, TextTokens, Trial,
};

use super::Done;
use crate::args::run::Quality;
use crate::json::{self, Versioned};
use crate::print::{self, Steps, Table, bits, bytes, grouped, left, plural, right, shown};
use crate::{Status, Stop, device, failure};

/// Tokens in a window, unless another number is given.
const CONTEXT: usize = 512;

/// Positions whose scores are in memory at a time: those of a large vocabulary take 1 MB each.
const AT_ONCE: usize = 16;

/// Positions that are shown, those with the largest divergence.
const WORST: usize = 5;

/// The number of tokens shown before a position.
const BEFORE: usize = 12;

#[derive(Serialize)]
struct Report {
    text: String,
    tokens: usize,
    context: usize,
    positions: usize,
    /// The number of tokens that the first model knows: the perplexity of chance.
    vocabulary: Option<u32>,
    models: Vec<ModelReport>,
}

#[derive(Serialize)]
struct ModelReport {
    path: String,
    container: String,
    file_type: Option<String>,
    bytes: u64,
    bits_per_weight: Option<f64>,
    perplexity: f64,
    perplexity_error: f64,
    /// Compared with the first model; absent for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    divergence: Option<DivergenceReport>,
}

/// Divergences are in nats.
#[derive(Serialize)]
struct DivergenceReport {
    mean: f64,
    mean_error: f64,
    median: f64,
    p90: f64,
    p99: f64,
    p99_9: f64,
    max: f64,
    same_top_1: f64,
    same_top_5: f64,
    rms_probability_difference: f64,
    worst: Vec<Worst>,
}

/// A position at which the models disagree.
#[derive(Clone, Serialize)]
struct Worst {
    position: usize,
    divergence: f64,
    text: String,
    next: String,
    first: String,
    second: String,
}

/// A model, and what is known of it so far.
struct Candidate {
    model: Model,
    reference: Reference,
    likelihood: Likelihood,
    divergence: Divergence,
    /// The likeliest token at each position.
    best: Vec<u32>,
}

/// Whether a model can be compared with another over the built-in text.
///
/// # Errors
///
/// `Unsupported` if the model cannot be run, or has no tokenizer.
pub(super) fn check(model: &Model) -> Result<(), Stop> {
    Reference::new(model)?;
    TextTokens::new(model)?;
    Ok(())
}

pub(crate) fn run(args: &Quality) -> Done {
    let mut candidates = Vec::new();
    for path in &args.paths {
        let model = args.open.runnable(path)?;
        if let Some(Candidate { model: first, .. }) = candidates.first() {
            same_vocabulary(first, &model)?;
        }
        let reference = device::reference(&args.runner, &model)?;
        let (likelihood, divergence) = <(Likelihood, Divergence)>::default();
        candidates.push(Candidate { model, reference, likelihood, divergence, best: Vec::new() });
    }
    let first = candidates.first().ok_or_else(|| Stop::Usage("give two models".to_owned()))?;
    let text = Tokens::new(args, &first.model)?;
    let longest = ops::summarize(&first.model).context_length.map(usize::try_from);
    let longest = longest.and_then(Result::ok).unwrap_or(CONTEXT);
    let context = args.context.map(|tokens| usize::try_from(tokens).unwrap_or(usize::MAX));
    let windows = text.windows(context.unwrap_or(CONTEXT.min(longest)))?;
    let vocabulary = first.model.config().ok().and_then(|config| config.vocab_size.as_ref());
    let vocabulary = vocabulary.map(|rows| rows.value);
    // A decoder that is not supported is no obstacle: tokens are then shown by their numbers.
    let texts = first.model.tokenizer()?.and_then(|tokenizer| tokenizer.detokenizer().ok());
    let mut places = Vec::new();
    let steps = Steps::new("tokens", (windows.len() * windows.first().map_or(0, Vec::len)) as u64);
    for (number, window) in windows.iter().enumerate() {
        // As llama.cpp does: only positions with half of the context before them count.
        let start = window.len() / 2;
        places.extend((start..window.len() - 1).map(|place| (number, place)));
        over(&mut candidates, window, start)?;
        steps.advance(window.len() as u64);
    }
    drop(steps);
    let shown = |tokens: &[u32]| match &texts {
        // Tokens within a text, of which several can make one character.
        Some(texts) => {
            let bytes: Vec<u8> = tokens.iter().flat_map(|token| texts.token(*token)).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        }
        None => tokens.iter().map(|token| format!("[{token}]")).collect(),
    };
    let report = Report {
        text: text.name.clone(),
        tokens: windows.iter().map(Vec::len).sum(),
        context: windows.first().map_or(0, Vec::len),
        positions: places.len(),
        vocabulary,
        models: reports(&candidates, &windows, &places, &shown)?,
    };
    let worst = report.models.iter().filter_map(|model| model.divergence.as_ref());
    let worst = worst.map(|divergence| divergence.mean).fold(0.0, f64::max);
    if args.json {
        json::write(&Versioned::new(&report))?;
    } else {
        write_text(&report)?;
    }
    let beyond = args.max_kl.is_some_and(|most| worst > f64::from(most));
    Ok(if beyond { Status::Found } else { Status::Fine })
}

/// Runs all models over a window of tokens, and compares what they predict from `start` on.
fn over(candidates: &mut [Candidate], window: &[u32], start: usize) -> Result<(), Stop> {
    let mut hidden = Vec::new();
    for candidate in &*candidates {
        let all = behind_each(&candidate.reference, window)?;
        hidden.push(all.part(start..window.len() - 1));
    }
    let next = window.get(start + 1..).unwrap_or_default();
    for (place, next) in (0..).step_by(AT_ONCE).zip(next.chunks(AT_ONCE)) {
        let part = |hidden: &Rows| hidden.part(place..place + next.len());
        let mut base: Option<Rows> = None;
        for (candidate, hidden) in candidates.iter_mut().zip(&hidden) {
            let logits = candidate.reference.scores(&part(hidden))?;
            if let Some(base) = base.as_ref().filter(|base| base.width() != logits.width()) {
                let (found, expected) = (logits.width(), base.width());
                let fault = format!("scores of {found} tokens, but A gives {expected}");
                let error = Error::new(ErrorKind::Mismatch, fault);
                return Err(error.in_file(candidate.model.path()).into());
            }
            for (place, next) in next.iter().enumerate() {
                let row = |rows: &Rows| rows.row(place).unwrap_or_default().to_vec();
                let own = row(&logits);
                let own = Prediction::new(&own)?;
                candidate.likelihood.add(own.log_probability(*next).unwrap_or(f64::NEG_INFINITY));
                candidate.best.push(own.best());
                if let Some(base) = &base {
                    let base = row(base);
                    candidate.divergence.add(&Prediction::new(&base)?, &own, *next);
                }
            }
            base.get_or_insert(logits);
        }
    }
    Ok(())
}

/// A row for each token of a window, by which the model predicts the token behind it. A model with an
/// encoder of text reads the window, and its decoder repeats it.
fn behind_each(reference: &Reference, window: &[u32]) -> Result<Rows, Stop> {
    let Some(text) = &reference.plan().text_encoder else {
        return Ok(reference.session().hidden(window)?);
    };
    let encoded = reference.encode(window, None)?.hidden;
    let tokens: Vec<u32> = std::iter::once(text.start).chain(window.iter().copied()).collect();
    let all = reference.session_of(&encoded)?.hidden(&tokens)?;
    Ok(all.part(1..all.len()))
}

/// The tokens that models are compared over.
struct Tokens {
    name: String,
    tokens: Vec<u32>,
    /// The token that each window begins with, if the tokenizer begins texts so.
    first: Option<u32>,
}

impl Tokens {
    fn new(args: &Quality, model: &Model) -> Result<Self, Stop> {
        let (name, tokens) = if args.ids.is_empty() {
            let (name, text) = match &args.text {
                Some(path) => (shown(path), read(path)?),
                None => ("the built-in text".to_owned(), Trial::TEXT.to_owned()),
            };
            (name, TextTokens::new(model)?.of(&text)?)
        } else {
            ("the tokens of --ids".to_owned(), args.ids.clone())
        };
        let tokenizer = model.tokenizer()?;
        let begins = tokenizer.and_then(|tokenizer| tokenizer.special("bos"));
        let first = begins.filter(|begins| tokens.first() == Some(begins));
        let most = args.tokens.unwrap_or(usize::MAX);
        Ok(Self { name, tokens: tokens.into_iter().take(most).collect(), first })
    }

    /// Windows of `context` tokens, or one shorter window; what is left at the end is dropped.
    fn windows(&self, context: usize) -> Result<Vec<Vec<u32>>, Stop> {
        let context = context.min(self.tokens.len());
        if context < 4 {
            let fault =
                format!("{} has {} tokens, too few to compare", self.name, self.tokens.len());
            return Err(Stop::Usage(fault));
        }
        let mut windows: Vec<Vec<u32>> =
            self.tokens.chunks_exact(context).map(<[u32]>::to_vec).collect();
        if let Some(first) = self.first {
            windows.iter_mut().filter_map(|window| window.first_mut()).for_each(|t| *t = first);
        }
        Ok(windows)
    }
}

fn read(path: &Path) -> Result<String, Stop> {
    std::fs::read_to_string(path).map_err(|error| failure::io(path, "cannot read the text", error))
}

/// Whether both models have the same tokens; the error names the first difference.
fn same_vocabulary(first: &Model, other: &Model) -> Result<(), Stop> {
    let differ = |fault: String| {
        let error =
            Error::new(ErrorKind::Mismatch, fault).advise("compare models with one vocabulary");
        Err(error.in_file(other.path()).into())
    };
    let (Some(a), Some(b)) = (first.tokenizer()?, other.tokenizer()?) else {
        let size = |model: &Model| Some(model.config().ok()?.vocab_size.as_ref()?.value);
        return match (size(first), size(other)) {
            (Some(a), Some(b)) if a != b => {
                let name = shown(first.path());
                differ(format!(
                    "it has {} tokens, but {name} has {}",
                    grouped(b.into()),
                    grouped(a.into())
                ))
            }
            _ => Ok(()),
        };
    };
    let text = |token: Option<Token<'_>>| match token {
        Some(token) => format!("{:?}", String::from_utf8_lossy(&token.text)),
        None => "no token".to_owned(),
    };
    // GGUF has tokens that stand for the rows of the embedding which have none.
    let is_filler = |token: &Token<'_>| token.kind == Some(TokenKind::Unused);
    let (mut a, mut b) = (a.tokens(), b.tokens());
    for number in 0u64.. {
        match (a.next(), b.next()) {
            (None, None) => break,
            (Some(a), Some(b)) if a.text == b.text => {}
            (Some(filler), None) | (None, Some(filler)) if is_filler(&filler) => {}
            (a, b) => {
                let (a, b) = (text(a), text(b));
                return differ(format!(
                    "token {number} is {b}, but {a} in {}",
                    shown(first.path())
                ));
            }
        }
    }
    Ok(())
}

fn reports(
    candidates: &[Candidate],
    windows: &[Vec<u32>],
    places: &[(usize, usize)],
    shown: &dyn Fn(&[u32]) -> String,
) -> Result<Vec<ModelReport>, Stop> {
    let first = candidates.first().map_or(&[][..], |first| &first.best);
    let mut reports = Vec::new();
    for (number, candidate) in candidates.iter().enumerate() {
        let Candidate { model, likelihood, divergence, best, .. } = candidate;
        let summary = ops::summarize(model);
        let worst = |(place, divergence): (usize, f64)| {
            let (window, at) = places.get(place).copied()?;
            let window = windows.get(window)?;
            let before = window.get(at.saturating_sub(BEFORE)..=at)?;
            Some(Worst {
                position: place,
                divergence,
                text: shown(before),
                next: shown(window.get(at + 1..at + 2)?),
                first: shown(first.get(place..=place)?),
                second: shown(best.get(place..=place)?),
            })
        };
        let divergence = (number > 0).then(|| {
            let mut sorted: Vec<(usize, f64)> =
                divergence.divergences().iter().copied().enumerate().collect();
            sorted.sort_by(|(_, a), (_, b)| b.total_cmp(a));
            let [median, p90, p99, p99_9, max] = divergence.quantiles([0.5, 0.9, 0.99, 0.999, 1.0]);
            DivergenceReport {
                mean: divergence.mean(),
                mean_error: divergence.mean_error(),
                median,
                p90,
                p99,
                p99_9,
                max,
                same_top_1: divergence.same_best(),
                same_top_5: divergence.same_top(),
                rms_probability_difference: divergence.rms_change(),
                worst: sorted.into_iter().take(WORST).filter_map(worst).collect(),
            }
        });
        reports.push(ModelReport {
            path: Text::from_path(model.path()).spelling().into_owned(),
            container: model.container().to_string(),
            file_type: summary.file_type.or(summary.main_dtype),
            bytes: model.file_bytes(),
            bits_per_weight: summary.bits_per_weight,
            perplexity: likelihood.perplexity(),
            perplexity_error: likelihood.perplexity_error(),
            divergence,
        });
    }
    Ok(reports)
}

/// Positions of which a mean says little.
const FEW: usize = 64;

/// Says if the first model of a vocabulary predicts the text worse than chance.
fn write_chance(
    models: &[ModelReport],
    vocabulary: Option<u32>,
    positions: usize,
    out: &mut print::Screen<impl Write>,
) -> std::io::Result<()> {
    let (Some(first), Some(tokens)) = (models.first(), vocabulary) else { return Ok(()) };
    if positions < FEW {
        return out.paragraph(
            &format!("\n{} say little: give a longer text", plural(positions, "position")),
            0,
        );
    }
    let is_single = models.len() == 1;
    if first.perplexity <= tokens.into() {
        return Ok(());
    }
    writeln!(out)?;
    let tokens = grouped(tokens.into());
    let name = if is_single { "its" } else { "the first model's" };
    let chance = format!("{name} perplexity is worse than chance among {tokens} tokens");
    let advice = "it was trained on texts of another kind (--text FILE takes another), or it is damaged (`verify --run`)";
    out.paragraph(&format!("{chance}: {advice}"), 0)
}

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

fn write_table(models: &[ModelReport], out: &mut print::Screen<impl Write>) -> std::io::Result<()> {
    let columns = [
        left("MODEL").middle(16),
        right("SIZE").optional(3),
        right("BITS").optional(2),
        right("PERPLEXITY"),
        right("KL MEAN"),
        right("KL 99 %").optional(1),
        right("KL MAX").optional(4),
        right("SAME TOP"),
        right("RMS DP").optional(5),
    ];
    // A single model is compared with none.
    let count = if models.len() > 1 { columns.len() } else { 4 };
    // Of two models, lines below the table speak of A and B.
    let has_letters = models.len() == 2;
    let shown_columns =
        has_letters.then_some(left("")).into_iter().chain(columns.into_iter().take(count));
    let mut table = Table::new(&shown_columns.collect::<Vec<_>>());
    for (letter, model) in ["A", "B"].iter().cycle().zip(models) {
        let divergence = model.divergence.as_ref();
        let of = |value: fn(&DivergenceReport) -> f64, format: &dyn Fn(f64) -> String| {
            divergence.map_or_else(String::new, |divergence| format(value(divergence)))
        };
        let cells = [
            shown(Path::new(&model.path)),
            bytes(model.bytes),
            bits(model.bits_per_weight),
            perplexity(model.perplexity, model.perplexity_error),
            of(|d| d.mean, &number),
            of(|d| d.p99, &number),
            of(|d| d.max, &number),
            of(|d| d.same_top_1, &percent),
            of(|d| d.rms_probability_difference, &percent),
        ];
        let letter = has_letters.then(|| (*letter).to_owned());
        table.row(letter.into_iter().chain(cells.into_iter().take(count)));
    }
    table.write(out)
}

fn write_text(report: &Report) -> Result<(), Stop> {
    let mut out = print::stdout();
    let Report { text, tokens, context, positions, vocabulary, models } = report;
    out.paragraph(
        &format!(
            "{text}: {tokens} tokens in windows of {context}; {positions} positions predicted"
        ),
        0,
    )?;
    writeln!(out)?;
    write_table(models, &mut out)?;
    write_chance(models, *vocabulary, *positions, &mut out)?;
    let [_, second] = models.as_slice() else { return Ok(out.flush()?) };
    let Some(divergence) = &second.divergence else { return Ok(out.flush()?) };
    writeln!(out)?;
    let lines = [
        (
            "KL divergence",
            format!("{} ± {}", number(divergence.mean), number(divergence.mean_error)),
        ),
        ("  median", number(divergence.median)),
        ("  90 %", number(divergence.p90)),
        ("  99 %", number(divergence.p99)),
        ("  99.9 %", number(divergence.p99_9)),
        ("  maximum", number(divergence.max)),
        ("same likeliest token", percent(divergence.same_top_1)),
        ("same five likeliest", percent(divergence.same_top_5)),
        ("RMS probability difference", percent(divergence.rms_probability_difference)),
    ];
    let width = lines.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    for (label, value) in lines {
        writeln!(out, "{label:<width$}  {value}")?;
    }
    if divergence.max > 0.0 {
        writeln!(
            out,
            "\nlargest divergences, with the text before, the next token, and those that A and B expect:"
        )?;
        for worst in &divergence.worst {
            let brief = |text: &str| Text::new(text.as_bytes()).brief();
            let [text, next, first, second] =
                [&worst.text, &worst.next, &worst.first, &worst.second].map(|text| brief(text));
            let expected = match first == second {
                true => format!("both expect \"{first}\""),
                false => format!("A expects \"{first}\", B \"{second}\""),
            };
            let line = format!("{}  …{text} → \"{next}\"; {expected}", number(worst.divergence));
            out.paragraph(&line, 10)?;
        }
    }
    Ok(out.flush()?)
}

/// A perplexity and its error, with as many digits as say something.
fn perplexity(value: f64, error: f64) -> String {
    let places = match value {
        large if large >= 1e4 => 0,
        large if large >= 100.0 => 2,
        _ => 4,
    };
    format!("{value:.places$} ± {error:.places$}")
}

/// A divergence: small ones with their first digits.
fn number(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        small if small < 0.001 => format!("{small:.2e}"),
        value => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_divergences_keep_their_digits() {
        assert_eq!([0.0, 0.000_512_3, 0.25].map(number), ["0", "5.12e-4", "0.2500"]);
    }

    #[test]
    fn windows_begin_as_texts_do() {
        let tokens = |first| Tokens { name: "a text".to_owned(), tokens: (1..=9).collect(), first };
        let windows = |first| tokens(first).windows(4).unwrap_or_default();
        assert_eq!(windows(None), [[1, 2, 3, 4], [5, 6, 7, 8]]);
        assert_eq!(windows(Some(1)), [[1, 2, 3, 4], [1, 6, 7, 8]]);
    }
}
