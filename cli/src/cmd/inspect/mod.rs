//! `inspect`: shows a model's container, config and tensors.

mod canonical;
mod stored;

use std::fmt::Write as _;
use std::io::Write;

use weighbridge::arch::Resolution;
use weighbridge::bytes::Text;
use weighbridge::metadata::Value;
use weighbridge::ops::{self, InspectNames, InspectOptions, InspectReport, InspectedTensors};
use weighbridge::{Model, ModelConfig};

use super::{Done, Filter};
use crate::args::Inspect;
use crate::json::{self, Versioned};
use crate::print::{self, Align, Table};
use crate::{Status, Stop, remark};

pub(crate) fn run(args: &Inspect) -> Done {
    let model = args.open.options().open(&args.path)?;
    if !args.json {
        remark(&model);
    }
    let names = match (args.canonical, args.stored) {
        (true, _) => InspectNames::Canonical,
        (false, true) => InspectNames::Stored,
        (false, false) => InspectNames::Both,
    };
    let mut report = ops::inspect(&model, &InspectOptions::new().names(names))?;
    retain(&mut report.tensors, &Filter::new(args.filter.as_deref()));
    if args.json {
        json::write(&Versioned::of(model.path(), &report))?;
    } else {
        write_text(args, &model, &report)?;
    }
    Ok(Status::Fine)
}

/// Removes the tensors that the filter does not match.
fn retain(tensors: &mut InspectedTensors<'_>, filter: &Filter) {
    match tensors {
        InspectedTensors::Stored { tensors, .. } => tensors.retain(|tensor| {
            filter
                .passes(&tensor.name, tensor.canonical.iter().flatten().next().map(|name| &**name))
        }),
        InspectedTensors::Canonical { tensors, unknown, auxiliary, .. } => {
            tensors.retain(|tensor| {
                tensor.stored.iter().any(|stored| filter.passes(stored, Some(tensor.name)))
            });
            unknown.retain(|name| filter.passes(name, None));
            auxiliary.retain(|tensor| filter.passes(tensor.name, None));
        }
        _ => {}
    }
}

fn write_text(args: &Inspect, store: &Model, report: &InspectReport<'_>) -> Result<(), Stop> {
    let table = match &report.tensors {
        InspectedTensors::Canonical { tensors, unknown, auxiliary, .. } => {
            canonical::table(args.all, store, tensors, unknown, auxiliary)?
        }
        InspectedTensors::Stored { tensors, .. } => stored::table(args.all, tensors, !args.stored),
        _ => Table::new(&[]),
    };
    let mut out = std::io::BufWriter::new(anstream::stdout().lock());
    let bold = anstyle::Style::new().bold();
    let path = Text::new(store.path().as_os_str().as_encoded_bytes());
    writeln!(out, "{bold}{path}{bold:#}")?;
    let files = store.files().len();
    // Tensors of unknown types have no known size, so their elements are not counted.
    let quantization = store.quantization();
    let mut line = store.container().to_owned();
    if files > 1 {
        let _ = write!(line, ", {}", print::plural(files, "file"));
    }
    let _ = write!(line, ": {}", print::plural(store.len(), "tensor"));
    if let Some(bits) = quantization.bits_per_weight() {
        let (weights, stored) = (quantization.elements(), quantization.bytes());
        let _ = write!(line, ", {} weights, {}", print::count(weights), print::bytes(stored));
        let _ = write!(line, ", {bits:.2} bits per weight");
    }
    writeln!(out, "{line}")?;
    match report.names.as_ref().map(|names| &names.error) {
        None => {}
        Some(Some(error)) => writeln!(out, "no canonical names: {error}")?,
        Some(None) => {
            let resolution = store.resolution()?;
            writeln!(out, "{resolution}")?;
            if !resolution.missing.is_empty() {
                let some: Vec<&str> =
                    resolution.missing.iter().take(4).map(String::as_str).collect();
                let more = if resolution.missing.len() > 4 { ", ..." } else { "" };
                writeln!(out, "missing: {}{more}", some.join(", "))?;
            }
            if let Ok(config) = store.config() {
                writeln!(out, "{}", summary(config, resolution))?;
            }
        }
    }
    let (drafts, others): (Vec<_>, Vec<_>) =
        store.attachments().iter().partition(|attachment| attachment.kind == "tensor");
    if !drafts.is_empty() {
        let size: u64 = drafts.iter().map(|draft| draft.bytes).sum();
        let blobs = print::plural(drafts.len(), "blob");
        writeln!(out, "draft model: {blobs} of tensors, {}, not listed below", print::bytes(size))?;
    }
    for attachment in others {
        let (name, kind) = (&attachment.name, &attachment.kind);
        let label = match name.is_empty() {
            true => kind.clone(),
            false => Text::new(name.as_bytes()).to_string(),
        };
        // The kind of `config.json` is `json`.
        let kind = if label.ends_with(kind) { String::new() } else { format!("{kind}, ") };
        writeln!(out, "attached: {label} ({kind}{})", print::bytes(attachment.bytes))?;
    }
    if args.metadata && !store.metadata().is_empty() {
        writeln!(out)?;
        let mut table =
            Table::new(&[("KEY", Align::Left), ("TYPE", Align::Left), ("VALUE", Align::Left)]);
        for (key, value) in store.metadata().iter() {
            table.row([key.to_string(), value.value_type().name().to_owned(), shown(value)]);
        }
        table.write(&mut out)?;
    }
    if !store.is_empty() {
        writeln!(out)?;
        table.write(&mut out)?;
    }
    out.flush()?;
    Ok(())
}

/// The main values of the config, on two lines.
fn summary(config: &ModelConfig, resolution: &Resolution) -> String {
    let attention = format!(
        "width {}, {}, {} of size {} ({} for k and v)",
        config.dim.value,
        print::plural(config.n_layers.value, "layer"),
        print::plural(config.n_heads.value, "attention head"),
        config.head_dim.value,
        config.n_kv_heads.value,
    );
    let mut others = Vec::new();
    if let Some(ffn) = &config.ffn_dim {
        others.push(format!("feed-forward {}", ffn.value));
    }
    if config.n_experts.value > 0 {
        others.push(print::plural(config.n_experts.value, "expert"));
    }
    let tied = config.tie_embeddings.as_ref().is_some_and(|tied| tied.value);
    match &config.vocab_size {
        Some(vocab) if tied => others.push(format!("vocabulary {} (tied)", vocab.value)),
        Some(vocab) => others.push(format!("vocabulary {}", vocab.value)),
        None if tied => others.push("tied embeddings".to_owned()),
        None => {}
    }
    if let Some(context) = &config.max_seq_len {
        others.push(format!("context {}", context.value));
    }
    if let Some(rope) = resolution.stored_rope_layout() {
        others.push(format!("rope layout {}", rope.name()));
    }
    let others = others.join(", ");
    if others.is_empty() { attention } else { format!("{attention}\n{others}") }
}

/// A metadata value on one line.
fn shown(value: Value<'_>) -> String {
    let short = |text: String| match text.char_indices().nth(72) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    };
    match value {
        Value::String(text) => short(format!("{text:?}")),
        Value::Array(array) => {
            let some: Vec<String> = array.values().take(4).map(shown).collect();
            let more = if array.len() > 4 { ", ..." } else { "" };
            short(format!(
                "{} of {}: [{}{more}]",
                array.len(),
                array.element_type().name(),
                some.join(", ")
            ))
        }
        Value::F32(v) => v.to_string(),
        Value::F64(v) => v.to_string(),
        Value::Bool(v) => v.to_string(),
        other => other.to_i128().map_or("?".to_owned(), |number| number.to_string()),
    }
}
