//! `config`: the numbers an engine needs.

use std::io::Write;

use serde::Serialize;
use serde_json::{Map, Value, json};
use weighbridge::arch::{ConfigValue, Dialect, Field, GenerationConfig};
use weighbridge::{DTypeSummary, QuantizationSummary, Tokenizer};

use super::Done;
use crate::args::Config;
use crate::json::{Metadatum, SCHEMA};
use crate::print::{self, Align, Table};
use crate::{Status, note, remark};

/// A line of the report: its group, name, value and source.
type Line = (&'static str, String, Value, String);

pub(crate) fn run(args: &Config) -> Done {
    let store = args.open.options().open(&args.path)?;
    let (resolution, config) = (store.resolution()?, store.config()?);
    let fields = config.fields().into_iter();
    let mut lines: Vec<Line> =
        fields.map(|f| (f.group, f.name.to_owned(), f.value, f.source.to_owned())).collect();
    if let Some(rope) = resolution.stored_rope_layout() {
        let source = if rope.name() == "interleaved" && resolution.dialect == Dialect::Gguf {
            "rows permuted by the converter to GGUF".to_owned()
        } else {
            format!("{} names", resolution.dialect.name())
        };
        let line = ("rope", "rope_layout".to_owned(), json!(rope.name()), source);
        let place = lines.iter().position(|line| line.0 == "rope").unwrap_or(lines.len());
        lines.insert(place, line);
    }
    let quantization = store.quantization();
    // What says how to use the numbers may be broken and the numbers still be right.
    let tokenizer = store.tokenizer();
    let generation = store.generation_config();
    let other = store.unused_config();
    if args.json {
        let config = sourced(lines);
        let other: Map<String, Value> =
            other.into_iter().map(|(key, value)| (key, verbatim(value))).collect();
        let path = args.path.to_string_lossy();
        crate::json::write(&json!({
            "schema": SCHEMA,
            "path": path,
            "config": config,
            "quantization": report(&quantization),
            "tokenizer": or_error(&tokenizer, |found| sourced(tokenizer_lines(found))),
            "generation": or_error(&generation, |found| {
                let mut report = sourced(generation_lines(found));
                report.insert("other".to_owned(), found.other.clone().into());
                report
            }),
            "other": other,
        }))?;
        return Ok(Status::Fine);
    }
    remark(&store);
    for error in [tokenizer.as_ref().err(), generation.as_ref().err()].into_iter().flatten() {
        note(&error.to_string());
    }
    lines.extend(tokenizer.ok().flatten().as_ref().map(tokenizer_lines).unwrap_or_default());
    lines.extend(generation.ok().flatten().as_ref().map(generation_lines).unwrap_or_default());
    let mut out = std::io::BufWriter::new(anstream::stdout().lock());
    let mut table =
        Table::new(&[("FIELD", Align::Left), ("VALUE", Align::Right), ("FROM", Align::Left)]);
    let mut last = "model";
    for (group, name, value, source) in lines {
        if group != last {
            table.row([String::new(), String::new(), String::new()]);
            last = group;
        }
        table.row([name, shown(&value), source]);
    }
    table.write(&mut out)?;
    if !quantization.dtypes.is_empty() {
        writeln!(out)?;
        stored(&quantization).write(&mut out)?;
    }
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

fn line<T: Serialize>(group: &'static str, name: &str, field: Option<&Field<T>>) -> Option<Line> {
    let Field { value, source } = field?;
    Some((group, name.to_owned(), json!(value), source.clone().into_owned()))
}

fn tokenizer_lines(tokenizer: &Tokenizer<'_>) -> Vec<Line> {
    let source = &tokenizer.kind.source;
    let of = |value: Value| Some(Field { value, source: source.clone() });
    let merges = tokenizer.merges().count();
    let line = |name: &str, field: Option<Field<Value>>| line("tokenizer", name, field.as_ref());
    let mut lines: Vec<Option<Line>> = vec![
        line("tokenizer", of(tokenizer.kind.value.name().into())),
        line("pre_tokenizer", tokenizer.pre.as_ref().map(as_json)),
        line("n_tokens", of(tokenizer.len().into())),
        line("n_merges", of(merges.into()).filter(|_| merges > 0)),
    ];
    for (name, id) in &tokenizer.special {
        lines.push(line(&format!("{name}_token"), Some(as_json(id))));
    }
    lines.push(line("add_bos", tokenizer.add_bos.as_ref().map(as_json)));
    lines.push(line("add_eos", tokenizer.add_eos.as_ref().map(as_json)));
    for template in &tokenizer.chat_templates {
        let name = template.name.as_ref().map(|name| format!("_{name}")).unwrap_or_default();
        lines.push(line(&format!("chat_template{name}"), Some(as_json(&template.text))));
    }
    lines.into_iter().flatten().collect()
}

fn as_json<T: Serialize>(field: &Field<T>) -> Field<Value> {
    Field { value: json!(field.value), source: field.source.clone() }
}

fn generation_lines(generation: &GenerationConfig) -> Vec<Line> {
    let short = |field: &Option<Field<f32>>| {
        let shortest = |value: f32| value.to_string().parse::<f64>().unwrap_or(value.into());
        field.as_ref().map(|f| Field { value: shortest(f.value), source: f.source.clone() })
    };
    let group = "generation";
    let lines = [
        line(group, "do_sample", generation.do_sample.as_ref()),
        line(group, "temperature", short(&generation.temperature).as_ref()),
        line(group, "top_k", generation.top_k.as_ref()),
        line(group, "top_p", short(&generation.top_p).as_ref()),
        line(group, "min_p", short(&generation.min_p).as_ref()),
        line(group, "repetition_penalty", short(&generation.repetition_penalty).as_ref()),
        line(group, "max_new_tokens", generation.max_new_tokens.as_ref()),
        line(group, "bos_token_id", generation.bos.as_ref()),
        line(group, "eos_token_id", generation.eos.as_ref()),
        line(group, "pad_token_id", generation.pad.as_ref()),
        line(group, "stop", generation.stop.as_ref()),
    ];
    lines.into_iter().flatten().collect()
}

fn sourced(lines: Vec<Line>) -> Map<String, Value> {
    let field = |(_, name, value, source): Line| (name, json!({"value": value, "source": source}));
    lines.into_iter().map(field).collect()
}

/// A part of the report that may not be there, or be broken.
fn or_error<T>(
    part: &weighbridge::Result<Option<T>>,
    report: impl Fn(&T) -> Map<String, Value>,
) -> Value {
    match part {
        Ok(Some(part)) => report(part).into(),
        Ok(None) => Value::Null,
        Err(error) => json!({"error": error.to_string()}),
    }
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
        // A chat template has pages.
        Value::String(text) if text.len() > 72 => format!("{} bytes", text.len()),
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
