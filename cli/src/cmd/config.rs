//! `config`: the numbers an engine needs.

use std::io::Write;

use serde_json::{Map, Value, json};
use weighbridge::arch::{ConfigValue, Dialect, resolve};
use weighbridge::{DTypeSummary, ModelConfig, QuantizationSummary};

use super::Done;
use crate::args::Config;
use crate::json::{Metadatum, SCHEMA};
use crate::print::{self, Align, Table};
use crate::{Status, remark};

/// A line of the report: its group, name, value and source.
type Line = (&'static str, &'static str, Value, String);

pub(crate) fn run(args: &Config) -> Done {
    let store = args.open.options().open(&args.path)?;
    let resolution = resolve(&store)?;
    let config = ModelConfig::of(&store, &resolution)?;
    let fields = config.fields().into_iter();
    let mut lines: Vec<Line> =
        fields.map(|f| (f.group, f.name, f.value, f.source.to_owned())).collect();
    if let Some(rope) = resolution.stored_rope_layout() {
        let source = if rope.name() == "interleaved" && resolution.dialect == Dialect::Gguf {
            "rows permuted by the converter to GGUF".to_owned()
        } else {
            format!("{} names", resolution.dialect.name())
        };
        let line = ("rope", "rope_layout", json!(rope.name()), source);
        let place = lines.iter().position(|line| line.0 == "rope").unwrap_or(lines.len());
        lines.insert(place, line);
    }
    let quantization = store.quantization();
    let other = ModelConfig::other(&store);
    if args.json {
        let config: Map<String, Value> = lines
            .into_iter()
            .map(|(_, name, value, source)| {
                (name.into(), json!({"value": value, "source": source}))
            })
            .collect();
        let other: Map<String, Value> =
            other.into_iter().map(|(key, value)| (key, verbatim(value))).collect();
        let path = args.path.to_string_lossy();
        crate::json::write(&json!({
            "schema": SCHEMA,
            "path": path,
            "config": config,
            "quantization": report(&quantization),
            "other": other,
        }))?;
        return Ok(Status::Fine);
    }
    remark(&store);
    let mut out = std::io::BufWriter::new(anstream::stdout().lock());
    let mut table =
        Table::new(&[("FIELD", Align::Left), ("VALUE", Align::Right), ("FROM", Align::Left)]);
    let mut last = "model";
    for (group, name, value, source) in lines {
        if group != last {
            table.row([String::new(), String::new(), String::new()]);
            last = group;
        }
        table.row([name.to_owned(), shown(&value), source]);
    }
    table.write(&mut out)?;
    writeln!(out)?;
    stored(&quantization).write(&mut out)?;
    if !other.is_empty() {
        let keys = print::plural(other.len(), "key");
        writeln!(out, "\nand {keys} that no field is made of: --json has them")?;
    }
    out.flush()?;
    Ok(Status::Fine)
}

/// What the weights are stored as, a row for each dtype and one for all.
fn stored(quantization: &QuantizationSummary) -> Table {
    let mut table = Table::new(&[
        ("STORED AS", Align::Left),
        ("GROUP", Align::Right),
        ("TENSORS", Align::Right),
        ("WEIGHTS", Align::Right),
        ("BITS", Align::Right),
        ("SIZE", Align::Right),
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
            "all".to_owned(),
            String::new(),
            tensors.to_string(),
            print::count(quantization.elements()),
            print::bits(quantization.bits_per_weight()),
            print::bytes(quantization.bytes()),
        ]);
    }
    table
}

fn report(quantization: &QuantizationSummary) -> Value {
    let line = |line: &DTypeSummary| {
        json!({
            "dtype": line.label,
            "group_size": line.group_size,
            "tensors": line.tensors,
            "weights": line.elements,
            "bytes": line.bytes,
            "bits_per_weight": line.bits_per_weight(),
        })
    };
    json!({
        "dtype": quantization.most().map(|line| &line.label),
        "bits": quantization.quant_bits(),
        "group_size": quantization.quant_group_size(),
        "mixed": quantization.is_mixed(),
        "bits_per_weight": quantization.bits_per_weight(),
        "dtypes": quantization.dtypes.iter().map(line).collect::<Vec<_>>(),
    })
}

fn verbatim(value: ConfigValue<'_>) -> Value {
    match value {
        ConfigValue::Json(json) => json.clone(),
        ConfigValue::Metadata(value) => {
            serde_json::to_value(Metadatum(value)).unwrap_or(Value::Null)
        }
        _ => Value::Null,
    }
}

/// One cell of a table: lists are shown by their runs of equal elements.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => {
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
        Value::Object(parts) => {
            let part = |(name, value): (&String, &Value)| format!("{name} {}", shown(value));
            parts.iter().map(part).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}
