//! `show`: shows a model of Ollama's store.

use std::io::Write;
use std::path::PathBuf;

use weighbridge::Model;
use weighbridge::bytes::Text;
use weighbridge::json::Json;
use weighbridge::ops::{self, ShowReport};

use super::Done;
use crate::args::Show;
use crate::{Status, json, note};

pub(crate) fn run(args: &Show) -> Done {
    let model = Model::open(&args.model)?;
    let report = ops::show(&model)?;
    if args.json {
        json::write(&json::Versioned::of(&args.model, &report))?;
        return Ok(Status::Fine);
    }
    let parts = [
        (args.modelfile, report.modelfile.as_str(), "Modelfile"),
        (args.template, report.template.as_str(), "template"),
        (args.system, report.system.as_str(), "system prompt"),
        (args.parameters, report.parameters.as_str(), "parameters"),
        (args.license, report.license.as_str(), "license"),
    ];
    let mut out = std::io::BufWriter::new(anstream::stdout().lock());
    match parts.iter().find(|(chosen, ..)| *chosen) {
        Some((_, "", name)) => note(&format!("the model has no {name}")),
        // Texts are printed as they are: they may be redirected into files.
        Some((_, text, _)) if text.ends_with('\n') => write!(out, "{text}")?,
        Some((_, text, _)) => writeln!(out, "{text}")?,
        None => write_sections(&report, &mut out)?,
    }
    out.flush()?;
    Ok(Status::Fine)
}

/// `inspect --modelfile`: prints the Modelfiles.
pub(super) fn modelfile(paths: &[PathBuf]) -> Done {
    let mut out = std::io::BufWriter::new(anstream::stdout().lock());
    for path in paths {
        let text = ops::show(&Model::open(path)?)?.modelfile;
        out.write_all(text.as_bytes())?;
        if !text.ends_with('\n') {
            writeln!(out)?;
        }
    }
    out.flush()?;
    Ok(Status::Fine)
}

/// Rows of a section: a name and values, or one text.
type Rows = Vec<Vec<String>>;

fn write_sections(report: &ShowReport, out: &mut impl Write) -> std::io::Result<()> {
    section(out, "Model", model(report))?;
    section(
        out,
        "Capabilities",
        report.capabilities.iter().map(|name| vec![name.clone()]).collect(),
    )?;
    if let Some(info) = &report.projector_info {
        let architecture = text(info.get("general.architecture"));
        let either = |key: &str| {
            let at = |kind: &str| info.get(&format!("{architecture}.{kind}.{key}"));
            text(at("vision").or_else(|| at("audio")))
        };
        let weights = info.get("general.parameter_count").and_then(Json::as_u64);
        let rows = [
            ("architecture", architecture.clone()),
            ("parameters", weights.map(crate::print::count).unwrap_or_default()),
            ("embedding length", either("embedding_length")),
            ("dimensions", either("projection_dim")),
        ];
        section(out, "Projector", named(rows))?;
    }
    if let Some(draft) = &report.draft {
        section(out, "Draft", vec![vec!["architecture".to_owned(), draft.clone()]])?;
    }
    let parameters = report.parameters.lines();
    let split = |line: &str| match line.split_once(' ') {
        Some((name, value)) => vec![name.to_owned(), value.trim().to_owned()],
        None => vec![line.to_owned()],
    };
    section(out, "Parameters", parameters.map(split).collect())?;
    section(out, "System", first_lines(&report.system))?;
    section(out, "License", first_lines(&report.license))
}

fn model(report: &ShowReport) -> Rows {
    let info = &report.model_info;
    let architecture = text(info.get("general.architecture"));
    let number = |key: &str| text(info.get(&format!("{architecture}.{key}")));
    named([
        ("architecture", architecture.clone()),
        ("parameters", report.details.parameter_size.clone()),
        ("context length", number("context_length")),
        ("embedding length", number("embedding_length")),
        ("quantization", report.details.quantization_level.clone()),
        ("requires", report.requires.clone()),
        ("renderer", report.renderer.clone()),
        ("parser", report.parser.clone()),
    ])
}

fn named<const N: usize>(rows: [(&str, String); N]) -> Rows {
    let known = rows.into_iter().filter(|(_, value)| !value.is_empty());
    known.map(|(name, value)| vec![name.to_owned(), value]).collect()
}

fn text(value: Option<&Json>) -> String {
    match value {
        None => String::new(),
        Some(Json::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// The first two lines of a text that are not blank.
fn first_lines(text: &str) -> Rows {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut rows: Rows = lines.by_ref().take(2).map(|line| vec![line.to_owned()]).collect();
    if lines.next().is_some() {
        rows.push(vec!["...".to_owned()]);
    }
    rows
}

/// Writes a section, its columns four spaces apart.
fn section(out: &mut impl Write, head: &str, rows: Rows) -> std::io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let shown = |text: &String| Text::new(text.as_bytes()).to_string();
    let rows: Rows = rows.iter().map(|row| row.iter().map(shown).collect()).collect();
    let names = rows.iter().filter(|row| row.len() > 1).filter_map(|row| row.first());
    let width = names.map(|name| name.chars().count()).max().unwrap_or(0);
    let bold = anstyle::Style::new().bold();
    writeln!(out, "  {bold}{head}{bold:#}")?;
    for row in &rows {
        match row.as_slice() {
            [name, value] => writeln!(out, "    {name:<width$}    {value}")?,
            others => writeln!(out, "    {}", others.join(" "))?,
        }
    }
    writeln!(out)
}
