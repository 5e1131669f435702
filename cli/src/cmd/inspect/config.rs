//! `inspect --config`: prints the config values that an engine needs.

use std::io::Write;

use weighbridge::json::Json;
use weighbridge::model::QuantizationSummary;
use weighbridge::{Model, ops};

use super::Done;
use crate::args::Inspect;
use crate::json::{self, Versioned};
use crate::print::{self, Table, left, right};
use crate::{Status, note, remark};

pub(super) fn run(args: &Inspect, model: &Model) -> Done {
    if args.json {
        remark(model);
    }
    let report = ops::config(model)?;
    if args.json {
        json::write(&Versioned::of(model.path(), &report))?;
        return Ok(Status::Fine);
    }
    for error in [report.tokenizer.as_ref().err(), report.generation.as_ref().err()] {
        error.into_iter().for_each(|error| note(&error.to_string()));
    }
    report.notes.iter().for_each(|text| note(text));
    let tokenizer = report.tokenizer.iter().flatten().flatten();
    let generation = report.generation.iter().flatten().flat_map(|found| &found.fields);
    let mut out = print::stdout();
    let mut table = Table::new(&[left("FIELD"), right("VALUE").end(16), left("SOURCE").end(16)]);
    let mut last = "model";
    for field in report.config.iter().chain(tokenizer).chain(generation) {
        if field.group != last {
            table.row([String::new(), String::new(), String::new()]);
            last = field.group;
        }
        table.row([field.name.clone(), shown(&field.value), field.source.clone()]);
    }
    table.write(&mut out)?;
    if !report.quantization.dtypes.is_empty() {
        writeln!(out)?;
        stored(&report.quantization).write(&mut out)?;
    }
    if !report.other.is_empty() {
        let keys = print::plural(report.other.len(), "unused key");
        writeln!(out, "\n{keys} (--json lists them)")?;
    }
    out.flush()?;
    Ok(Status::Fine)
}

/// The dtypes of the weights: a row for each, and one for the total.
fn stored(quantization: &QuantizationSummary) -> Table {
    let mut table = Table::new(&[
        left("STORED AS").middle(12),
        right("GROUP").optional(2),
        right("TENSORS"),
        right("WEIGHTS").optional(1),
        right("BITS").optional(3),
        right("SIZE"),
    ]);
    for line in &quantization.dtypes {
        table.row([
            line.label.to_string(),
            line.group_size.map_or("-".to_owned(), |size| size.to_string()),
            line.tensors.to_string(),
            print::count(line.elements),
            print::bits(line.bits_per_weight()),
            print::bytes(line.bytes),
        ]);
    }
    if quantization.dtypes.len() > 1 {
        let tensors: u64 = quantization.dtypes.iter().map(|line| line.tensors).sum();
        table.row([
            "total".to_owned(),
            String::new(),
            tensors.to_string(),
            print::count(quantization.elements()),
            print::bits(quantization.bits_per_weight()),
            print::bytes(quantization.bytes()),
        ]);
    }
    table
}

/// One cell of a table. Lists are shown as runs of equal elements.
fn shown(value: &Json) -> String {
    match value {
        // Chat templates are long.
        Json::String(text) if text.len() > 72 => format!("{} bytes", text.len()),
        Json::String(text) => text.clone(),
        Json::Array(list) => {
            let mut runs: Vec<(String, usize)> = Vec::new();
            for value in list {
                let cell = shown(value);
                match runs.last_mut() {
                    Some((last, times)) if *last == cell => *times += 1,
                    _ => runs.push((cell, 1)),
                }
            }
            let more = if runs.len() > 8 { ", ..." } else { "" };
            let run = |(cell, times): &(String, usize)| match times {
                1 => cell.clone(),
                times => format!("{times} x {cell}"),
            };
            let runs: Vec<String> = runs.iter().take(8).map(run).collect();
            format!("{}{more}", runs.join(", "))
        }
        Json::Object(parts) => {
            let part = |(name, value): (&String, &Json)| format!("{name} {}", shown(value));
            parts.iter().map(part).collect::<Vec<_>>().join(", ")
        }
        other => print::plain(&other.to_string()),
    }
}
