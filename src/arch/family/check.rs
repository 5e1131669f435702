//! Checks of a file of families beyond its format: names that other tables must have, and the lines of decoders. A file
//! is checked when a program adds it; a test checks the built-in ones.

use super::families::Families;
use super::table::{Tables, sound};
use super::text::{Line, Parsed, Section, Word, sections};
use crate::arch::Architecture;
use crate::arch::config::key;
use crate::arch::tensor::is_norm_of_layers;

/// The contents of `families/decoder.lines`, without its comments.
const DECODER_LINES: &str = include_str!(concat!(env!("OUT_DIR"), "/decoder.lines"));

/// Fields that no row of the config's table reads, since they are derived from others.
pub(super) const MADE: [&str; 4] = ["norm_eps", "sliding_window_pattern", "head_dim", "n_layers"];

/// Checks a file with these tables and families.
pub(super) fn check(tables: &Tables, families: &Families, text: &'static str) -> Parsed<()> {
    let schema = sound("decoder.lines", sections(DECODER_LINES));
    for Section { head, lines } in sections(text)? {
        let row = families.architectures.iter().find(|row| Some(row.name) == head.from(0).next());
        let row = row.filter(|_| head.keyword == "family");
        row.map_or(Ok(()), |row| names_and_tensors(row, &head))?;
        for line in &lines {
            match (head.keyword, line.keyword) {
                ("family", "optional") => row.map_or(Ok(()), |row| optional(tables, row, line))?,
                ("keys" | "gguf", "row" | "derived") => {
                    let name = line.word(0)?;
                    if key(name).is_none_or(|key| key.gguf.is_empty()) {
                        let fault = "is no number of the config that GGUF has a key for";
                        return Err(line.fault(format!("{name} {fault}")));
                    }
                }
                ("config" | "class", "field" | "needed") => {
                    let name = line.word(0)?;
                    if key(name).is_none() && !MADE.contains(&name) {
                        return Err(line.fault(format!("{name} is no number of the config")));
                    }
                }
                ("decoder", _) => of_decoder(tables, &schema, line)?,
                _ => {}
            }
        }
    }
    Ok(())
}

fn names_and_tensors(row: &Architecture, head: &Line) -> Parsed<()> {
    if row.gguf.is_empty() && row.hf.is_empty() {
        let fault = format!("{} has no name in GGUF and none in config.json", row.name);
        return Err(head.fault(fault));
    }
    if row.rules.is_empty() {
        return Err(head.fault(format!("{} has no tensors", row.name)));
    }
    Ok(())
}

/// Checks that the family has the tensors that models may lack.
fn optional(tables: &Tables, row: &Architecture, line: &Line) -> Parsed<()> {
    let rules = || row.rules.iter().copied().flatten();
    let lacking = tables.all_optional(line)?;
    let lacking = lacking.iter().find(|name| !rules().any(|rule| rule.canonical == **name));
    lacking.map_or(Ok(()), |name| {
        Err(line.fault(format!("{name} is optional, but no table names it")))
    })
}

/// Checks that a line has one of the forms of `families/decoder.lines`. A fault is that of the forms which
/// fit the most words.
fn of_decoder(tables: &Tables, schema: &[Section], line: &Line) -> Parsed<()> {
    let words: Vec<Word> = line.all().take_while(|word| word.text != "models").collect();
    let names = |kind: &str| {
        let section = schema.iter().find(|section| section.head.keyword == kind);
        let lines = section.into_iter().flat_map(|section| &section.lines);
        lines.flat_map(|line| line.all().map(|word| word.text)).collect::<Vec<_>>()
    };
    let is_fixed = |kind: &str| !kind.starts_with(|c: char| c.is_ascii_uppercase());
    let fits = |kind: &str, word: &Word| match kind {
        "KEY" | "VALUE" | "MODEL" => true,
        "TEXT" => word.is_quoted,
        "NUMBER" => word.text.parse::<f32>().is_ok(),
        "COUNT" => word.text.parse::<u32>().is_ok(),
        "FLAG" => word.text.parse::<bool>().is_ok(),
        "TENSOR" => tables.tensor(line, word.text).is_ok(),
        "NORMS" => is_norm_of_layers(word.text, tables.canonical),
        _ if is_fixed(kind) => kind.split('|').any(|fixed| fixed == word.text),
        _ => names(kind).contains(&word.text),
    };
    let needed = |kind: &str| match names(kind) {
        _ if is_fixed(kind) => kind.replace('|', " or "),
        names if names.is_empty() => kind.to_owned(),
        names => names.join(" or "),
    };
    // The first word that does not fit, and what is needed in its place.
    let misfit = |form: &[&'static str]| {
        let last = form.last().filter(|kind| **kind == "NORMS");
        (0..words.len().max(form.len())).find_map(|at| {
            match (form.get(at).or(last), words.get(at)) {
                (Some(kind), Some(word)) if fits(kind, word) => None,
                (Some(kind), _) => Some((at, needed(kind))),
                (None, _) => Some((at, "nothing".to_owned())),
            }
        })
    };
    let lines = schema.iter().find(|section| section.head.keyword == "lines");
    let forms = lines.into_iter().flat_map(|section| &section.lines);
    let forms: Vec<Vec<&str>> =
        forms.map(|form| form.all().map(|word| word.text).collect()).collect();
    let fixed = |form: &Vec<&'static str>| {
        let pairs = form.iter().zip(&words);
        pairs.take_while(|(kind, word)| is_fixed(kind) && fits(kind, word)).count()
    };
    let most = forms.iter().map(fixed).max();
    let misfits = forms.iter().filter(|form| Some(fixed(form)) == most).map(|form| misfit(form));
    let Some(misfits) = misfits.collect::<Option<Vec<_>>>() else { return Ok(()) };
    let farthest = misfits.iter().map(|(at, _)| *at).max().unwrap_or_default();
    let mut needed: Vec<&str> = misfits
        .iter()
        .filter(|(at, _)| *at == farthest)
        .map(|(_, needed)| needed.as_str())
        .collect();
    needed.dedup();
    let found =
        words.get(farthest).map_or("nothing".to_owned(), |word| format!("\"{}\"", word.text));
    Err(line.fault(format!("{found}, but {} is needed", needed.join(" or "))))
}
