//! `embed`: a vector for each text.

use std::io::Write;

use serde::Serialize;
use weighbridge::bytes::Text;
use weighbridge_reference::{Embedder, Pooling, Rows, TextTokens, normalize};

use super::Done;
use super::logits::write_npy;
use crate::args::run::{Embed, PoolingName};
use crate::json::{self, JsonFloat, SCHEMA};
use crate::print::{self, Table, left, right};
use crate::{Status, Stop, device, failure, note};

/// Values shown for each text.
const SHOWN: usize = 3;

#[derive(Serialize)]
struct Report {
    schema: u32,
    path: String,
    /// Such as `mean`; several are joined by `+`.
    pooling: String,
    normalized: bool,
    embeddings: Vec<TextReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

#[derive(Serialize)]
struct TextReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    tokens: usize,
    embedding: Vec<JsonFloat>,
}

pub(crate) fn run(args: &Embed) -> Done {
    let model = args.open.runnable(&args.path)?;
    let reference = device::reference(&args.runner, &model)?;
    let chosen = args.pooling.map(|pooling| match pooling {
        PoolingName::Mean => Pooling::Mean,
        PoolingName::First => Pooling::First,
        PoolingName::Last => Pooling::Last,
    });
    let embedder = Embedder::new(&model, &reference, chosen)?;
    let name: Vec<&str> = embedder.poolings().iter().map(|pooling| pooling.name()).collect();
    let name = name.join("+");
    // The tokens of a prompt that are not pooled.
    let mut skipped = 0;
    let mut inputs = Vec::new();
    if !args.text.is_empty() {
        let tokens = TextTokens::new(&model)?;
        let prompt = embedder.prompt().unwrap_or_default();
        if !prompt.is_empty() {
            let shown = Text::new(prompt.as_bytes()).brief();
            note(&format!(
                "each text begins with \"{shown}\", as config_sentence_transformers.json says"
            ));
            if !embedder.pools_prompt() {
                skipped = tokens.before(prompt)?;
            }
        }
        for text in &args.text {
            let whole = format!("{prompt}{text}");
            let all = tokens.of(&whole)?;
            let ids = match embedder.longest().filter(|longest| all.len() > *longest) {
                Some(longest) => {
                    note(&format!(
                        "a text of {} tokens is cut to {longest}, as sentence_bert_config.json says",
                        all.len()
                    ));
                    tokens.at_most(&whole, longest)?
                }
                None => all,
            };
            inputs.push((Some(text.clone()), ids));
        }
    }
    if !args.ids.is_empty() {
        inputs.push((None, args.ids.clone()));
    }
    let normalized = normalizes(args, embedder.width());
    let mut values = Vec::new();
    for (_, tokens) in &inputs {
        let mut vector = embedder.embed(tokens, skipped)?;
        if normalized {
            normalize(&mut vector);
        }
        values.extend(vector);
    }
    let rows = Rows::new(values, embedder.width());
    match &args.output {
        Some(path) => write_npy(path, &rows, args.overwrite)?,
        None if args.json => {
            let float = |value: &f32| JsonFloat((*value).into());
            let report = |((text, tokens), row): ((Option<String>, Vec<u32>), &[f32])| TextReport {
                text,
                tokens: tokens.len(),
                embedding: row.iter().map(float).collect(),
            };
            json::write(&Report {
                schema: SCHEMA,
                path: args.path.display().to_string(),
                pooling: name,
                normalized,
                embeddings: inputs.into_iter().zip(rows.rows()).map(report).collect(),
                notes: failure::take_notes(),
            })?;
        }
        None => show(&inputs, &rows, &name)?,
    }
    Ok(Status::Fine)
}

/// Whether vectors get length 1. The score of a reranker, which is one number, has no direction.
fn normalizes(args: &Embed, width: usize) -> bool {
    if width == 1 && !args.no_normalize {
        note("each text has one number, a score, which is not normalized");
    }
    width > 1 && !args.no_normalize
}

/// For people: the first values of each vector, and how near it is to the first text's.
fn show(inputs: &[(Option<String>, Vec<u32>)], rows: &Rows, pooling: &str) -> Result<(), Stop> {
    let mut out = print::stdout();
    writeln!(out, "embeddings: {} x {}, pooling: {pooling}", rows.len(), rows.width())?;
    let several = rows.len() > 1;
    let values = [right("[0]"), right("[1]"), right("[2]")].map(|column| column.optional(1));
    let columns = [right("TOKENS").optional(2)].into_iter().chain(values);
    let columns = columns.chain(several.then(|| right("SIMILARITY"))).chain([left("TEXT").end(16)]);
    let mut table = Table::new(&columns.collect::<Vec<_>>());
    let first = rows.row(0).unwrap_or_default();
    for ((text, tokens), row) in inputs.iter().zip(rows.rows()) {
        let values = row.iter().take(SHOWN).map(|value| format!("{value:.4}"));
        let similarity = several.then(|| format!("{:.4}", cosine(first, row)));
        let text = Text::new(text.as_deref().unwrap_or("-").as_bytes()).brief();
        let cells = [tokens.len().to_string()].into_iter().chain(values).chain(similarity);
        table.row(cells.chain([text]));
    }
    table.write(&mut out)?;
    Ok(out.flush()?)
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let product = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let lengths = (product(a, a) * product(b, b)).sqrt();
    if lengths > 0.0 { product(a, b) / lengths } else { 0.0 }
}
