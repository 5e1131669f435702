//! `inspect`: what is in a model.

mod canonical;
mod stored;

use std::fmt::Write as _;
use std::io::Write;

use serde::Serialize;
use weighbridge::arch::Resolution;
use weighbridge::metadata::Value;
use weighbridge::{Model, ModelConfig, Text};

use super::{Done, Filter, canonical_names};
use crate::args::Inspect;
use crate::json::{self, MetadataList, SCHEMA};
use crate::print::{self, Align, Table};
use crate::{Status, Stop, remark};

pub(crate) fn run(args: &Inspect) -> Done {
    let store = args.open.options().open(&args.path)?;
    let filter = Filter::new(args.filter.as_deref());
    if !args.json {
        remark(&store);
    }
    if args.canonical {
        let names = Names::Known(store.resolution()?);
        if args.json {
            write_json(&store, &names, canonical::report(&store, &filter)?)?;
        } else {
            write_text(args, &store, &names, &canonical::table(args.all, &store, &filter)?)?;
        }
        return Ok(Status::Fine);
    }
    // A model whose names or config cannot be understood can still be looked at.
    let resolution = if args.stored { None } else { Some(store.resolution()) };
    let names = match &resolution {
        None => Names::Unasked,
        Some(Ok(resolution)) => Names::Known(resolution),
        Some(Err(error)) => Names::Faulty(error),
    };
    let canonical = match names {
        Names::Unasked => None,
        _ => Some(names.resolution().map(canonical_names).unwrap_or_default()),
    };
    if args.json {
        write_json(&store, &names, stored::report(&store, canonical.as_ref(), &filter))?;
    } else {
        let table = stored::table(args.all, &store, canonical.as_ref(), &filter);
        write_text(args, &store, &names, &table)?;
    }
    Ok(Status::Fine)
}

/// How a model's names were understood, if anybody asked.
enum Names<'a> {
    Unasked,
    Known(&'a Resolution),
    Faulty(&'a weighbridge::Error),
}

impl<'a> Names<'a> {
    fn resolution(&self) -> Option<&'a Resolution> {
        match self {
            Self::Known(resolution) => Some(resolution),
            _ => None,
        }
    }
}

fn write_text(args: &Inspect, store: &Model, names: &Names<'_>, table: &Table) -> Result<(), Stop> {
    let mut out = std::io::BufWriter::new(anstream::stdout().lock());
    let bold = anstyle::Style::new().bold();
    let path = Text::new(store.path().as_os_str().as_encoded_bytes());
    writeln!(out, "{bold}{path}{bold:#}")?;
    let files = store.files().len();
    // Tensors of unknown types have no bytes that are known, so their elements do not count.
    let quantization = store.quantization();
    let mut line = store.container().to_owned();
    if files > 1 {
        let _ = write!(line, ", {}", print::plural(files, "file"));
    }
    let _ = write!(line, ": {}", print::plural(store.len(), "tensor"));
    if let Some(bits) = quantization.bits_per_weight() {
        let (weights, stored) = (quantization.elements(), quantization.bytes());
        let _ = write!(line, ", {} weights in {}", print::count(weights), print::bytes(stored));
        let _ = write!(line, ", {bits:.2} bits a weight");
    }
    writeln!(out, "{line}")?;
    match names {
        Names::Unasked => {}
        Names::Known(resolution) => {
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
        Names::Faulty(error) => writeln!(out, "names not understood: {error}")?,
    }
    for attachment in store.attachments() {
        let name = if attachment.name.is_empty() {
            String::new()
        } else {
            format!(" {}", Text::new(attachment.name.as_bytes()))
        };
        writeln!(out, "with {}{name}, {}", attachment.kind, print::bytes(attachment.bytes))?;
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

fn summary(config: &ModelConfig, resolution: &Resolution) -> String {
    let mut line = format!(
        "width {}, {}, {} of {} ({} for k and v)",
        config.dim.value,
        print::plural(config.n_layers.value as usize, "layer"),
        print::plural(config.n_heads.value as usize, "head"),
        config.head_dim.value,
        config.n_kv_heads.value,
    );
    if let Some(ffn) = &config.ffn_dim {
        let _ = write!(line, ", feed-forward {}", ffn.value);
    }
    if config.n_experts.value > 0 {
        let _ = write!(line, ", {} experts", config.n_experts.value);
    }
    if let Some(vocab) = &config.vocab_size {
        let _ = write!(line, ", vocabulary {}", vocab.value);
    }
    if config.tie_embeddings.as_ref().is_some_and(|tied| tied.value) {
        line.push_str(" (tied)");
    }
    if let Some(context) = &config.max_seq_len {
        let _ = write!(line, ", context {}", context.value);
    }
    if let Some(rope) = resolution.stored_rope_layout() {
        let _ = write!(line, ", rope {}", rope.name());
    }
    line
}

/// One line for a metadata value.
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

#[derive(Serialize)]
struct Report<'a, T: Serialize> {
    schema: u32,
    path: String,
    container: &'a str,
    files: Vec<String>,
    tensor_count: usize,
    weight_count: u64,
    stored_bytes: u64,
    /// Absent where nobody asked.
    #[serde(flatten)]
    names: Option<NamesReport<'a>>,
    notes: Vec<String>,
    attachments: Vec<AttachmentReport<'a>>,
    metadata: MetadataList<'a>,
    #[serde(flatten)]
    tensors: T,
}

#[derive(Serialize)]
struct NamesReport<'a> {
    architecture: Option<&'a str>,
    architecture_reason: String,
    rope_layout: Option<&'a str>,
    missing: &'a [String],
}

#[derive(Serialize)]
struct AttachmentReport<'a> {
    kind: &'a str,
    name: &'a str,
    bytes: u64,
    file: String,
}

fn write_json(store: &Model, names: &Names<'_>, tensors: impl Serialize) -> Result<(), Stop> {
    let path = |path: &std::path::Path| path.to_string_lossy().into_owned();
    let known = names.resolution();
    let reason = match names {
        Names::Unasked => None,
        Names::Known(resolution) => Some(resolution.reason.clone()),
        Names::Faulty(error) => Some(error.to_string()),
    };
    json::write(&Report {
        schema: SCHEMA,
        path: path(store.path()),
        container: store.container(),
        files: store.files().map(path).collect(),
        tensor_count: store.len(),
        weight_count: store.stored_tensors().map(|t| t.elements()).fold(0, u64::saturating_add),
        stored_bytes: store.stored_bytes(),
        names: reason.map(|architecture_reason| NamesReport {
            architecture: known.and_then(|r| Some(r.architecture?.name)),
            architecture_reason,
            rope_layout: known.and_then(|r| Some(r.stored_rope_layout()?.name())),
            missing: known.map_or(&[], |r| &r.missing),
        }),
        notes: store.notes().iter().map(|n| format!("{}: {}", n.path.display(), n.text)).collect(),
        attachments: store
            .attachments()
            .iter()
            .map(|a| AttachmentReport {
                kind: &a.kind,
                name: &a.name,
                bytes: a.bytes,
                file: path(&a.path),
            })
            .collect(),
        metadata: MetadataList(store.metadata()),
        tensors,
    })?;
    Ok(())
}
