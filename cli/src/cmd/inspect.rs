//! `inspect`: what is in a model.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write;

use serde::Serialize;
use weighbridge::arch::{Resolution, resolve};
use weighbridge::metadata::Value;
use weighbridge::{ModelConfig, Tensor, Text, WeightStore};

use super::{Done, Filter, canonical_names};
use crate::args::Inspect;
use crate::json::{self, Each, MetadataList, SCHEMA, hex_if_odd};
use crate::print::{self, Align, Table};
use crate::{Status, remark};

pub(crate) fn run(args: &Inspect) -> Done {
    let store = args.open.options().open(&args.path)?;
    // A model whose names or config cannot be understood can still be looked at.
    let resolution = resolve(&store);
    let filter = Filter::new(args.filter.as_deref());
    if args.json {
        write_json(&store, &resolution, &filter)?;
    } else {
        remark(&store);
        write_text(args, &store, &resolution, &filter)?;
    }
    Ok(Status::Fine)
}

type Resolved = weighbridge::Result<Resolution>;

fn names(resolution: &Resolved) -> HashMap<&str, &str> {
    resolution.as_ref().map(canonical_names).unwrap_or_default()
}

fn write_text(
    args: &Inspect,
    store: &WeightStore,
    resolution: &Resolved,
    filter: &Filter,
) -> Result<(), crate::Stop> {
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
    match resolution {
        Ok(resolution) => {
            writeln!(out, "{resolution}")?;
            if !resolution.missing.is_empty() {
                let some: Vec<&str> =
                    resolution.missing.iter().take(4).map(String::as_str).collect();
                let more = if resolution.missing.len() > 4 { ", ..." } else { "" };
                writeln!(out, "missing: {}{more}", some.join(", "))?;
            }
            if let Ok(config) = ModelConfig::of(store, resolution) {
                writeln!(out, "{}", summary(&config, resolution))?;
            }
        }
        Err(error) => writeln!(out, "names not understood: {error}")?,
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
        table(args.all, store, &names(resolution), filter).write(&mut out)?;
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
    if let Some(rope) = resolution.rope_layout() {
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

/// Tensors that are alike but for the number of their layer.
struct Row<'a> {
    first: Tensor<'a>,
    layers: Vec<u64>,
    stored: Pattern,
    canonical: Option<Pattern>,
    bytes: u64,
}

fn table(
    all: bool,
    store: &WeightStore,
    canonical: &HashMap<&str, &str>,
    filter: &Filter,
) -> Table {
    let mut tensors: Vec<Tensor<'_>> = store.tensors().collect();
    tensors.sort_by(|a, b| a.name().natural_cmp(b.name()));
    let mut rows: Vec<Row<'_>> = Vec::new();
    let mut places: HashMap<(Pattern, String, &[u64]), usize> = HashMap::new();
    for tensor in tensors {
        let spelled = tensor.name().spelling();
        let canonical = canonical.get(&*spelled).copied();
        if !filter.passes(&spelled, canonical) {
            continue;
        }
        let (stored, layer) = Pattern::of(&tensor.name().to_string());
        let canonical = canonical.map(|name| Pattern::of(name).0);
        let row = Row {
            first: tensor,
            layers: layer.into_iter().collect(),
            stored: stored.clone(),
            canonical,
            bytes: tensor.stored_bytes(),
        };
        let (true, Some(layer)) = (!all, layer) else {
            rows.push(row);
            continue;
        };
        let alike = (stored, tensor.dtype_label().into_owned(), tensor.shape());
        match places.get(&alike).and_then(|&place| rows.get_mut(place)) {
            Some(row) => {
                row.layers.push(layer);
                row.bytes = row.bytes.saturating_add(tensor.stored_bytes());
            }
            None => {
                places.insert(alike, rows.len());
                rows.push(row);
            }
        }
    }
    let mut table = Table::new(&[
        ("NAME", Align::Left),
        ("CANONICAL", Align::Left),
        ("DTYPE", Align::Left),
        ("SHAPE", Align::Right),
        ("BITS", Align::Right),
        ("SIZE", Align::Right),
    ]);
    for row in rows {
        let layers = runs(&row.layers);
        table.row([
            row.stored.with(&layers),
            row.canonical.map_or("-".to_owned(), |name| name.with(&layers)),
            row.first.dtype_label().into_owned(),
            print::shape(row.first.shape()),
            print::bits(row.first.bits_per_weight()),
            if row.first.dtype().is_ok() { print::bytes(row.bytes) } else { "-".to_owned() },
        ]);
    }
    table
}

/// A name round the number of its layer.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Pattern {
    before: String,
    after: String,
}

impl Pattern {
    /// Splits at the first component between dots that is a number.
    fn of(name: &str) -> (Self, Option<u64>) {
        let mut start = 0;
        for component in name.split('.') {
            let end = start + component.len();
            if let Ok(layer) = component.parse::<u64>()
                && layer.to_string() == component
            {
                let (before, after) = (name[..start].to_owned(), name[end..].to_owned());
                return (Self { before, after }, Some(layer));
            }
            start = end + 1;
        }
        (Self { before: name.to_owned(), after: String::new() }, None)
    }

    fn with(&self, layers: &str) -> String {
        format!("{}{layers}{}", self.before, self.after)
    }
}

/// `0` for one layer, `[0-3,5]` for several; they come sorted.
fn runs(layers: &[u64]) -> String {
    if let [] | [_] = layers {
        return layers.first().map(u64::to_string).unwrap_or_default();
    }
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &layer in layers {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(layer) => *last = layer,
            _ => runs.push((layer, layer)),
        }
    }
    let run = |&(from, to): &(u64, u64)| {
        if from == to { from.to_string() } else { format!("{from}-{to}") }
    };
    format!("[{}]", runs.iter().map(run).collect::<Vec<_>>().join(","))
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
    architecture: Option<&'a str>,
    architecture_reason: String,
    rope_layout: Option<&'a str>,
    missing: &'a [String],
    notes: Vec<String>,
    attachments: Vec<AttachmentReport<'a>>,
    metadata: MetadataList<'a>,
    tensors: T,
}

#[derive(Serialize)]
struct AttachmentReport<'a> {
    kind: &'a str,
    name: &'a str,
    bytes: u64,
    file: String,
}

#[derive(Serialize)]
struct TensorReport<'a> {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name_hex: Option<String>,
    canonical: Option<&'a str>,
    dtype: String,
    shape: &'a [u64],
    #[serde(skip_serializing_if = "Option::is_none")]
    group_size: Option<u32>,
    bits_per_weight: Option<f64>,
    bytes: u64,
    parts: Vec<PartReport>,
}

#[derive(Serialize)]
struct PartReport {
    part: &'static str,
    name: String,
    dtype: &'static str,
    file: String,
    offset: u64,
    bytes: u64,
}

fn write_json(
    store: &WeightStore,
    resolution: &Resolved,
    filter: &Filter,
) -> Result<(), crate::Stop> {
    let canonical = names(resolution);
    let path = |path: &std::path::Path| path.to_string_lossy().into_owned();
    let tensors = Each(|| {
        store.tensors().filter_map(|tensor| {
            let name = tensor.name().spelling().into_owned();
            let canonical = canonical.get(name.as_str()).copied();
            filter.passes(&name, canonical).then(|| TensorReport {
                name_hex: hex_if_odd(tensor.name()),
                canonical,
                dtype: tensor.dtype_label().into_owned(),
                shape: tensor.shape(),
                group_size: tensor.group_size(),
                bits_per_weight: tensor.bits_per_weight(),
                bytes: tensor.stored_bytes(),
                parts: tensor
                    .segments()
                    .map(|segment| PartReport {
                        part: segment.part.name(),
                        name: segment.name.spelling().into_owned(),
                        dtype: segment.dtype.name(),
                        file: path(segment.path),
                        offset: segment.range.start,
                        bytes: segment.range.end - segment.range.start,
                    })
                    .collect(),
                name,
            })
        })
    });
    let resolved = resolution.as_ref().ok();
    json::write(&Report {
        schema: SCHEMA,
        path: path(store.path()),
        container: store.container(),
        files: store.files().map(path).collect(),
        tensor_count: store.len(),
        weight_count: store.tensors().map(|t| t.elements()).fold(0, u64::saturating_add),
        stored_bytes: store.stored_bytes(),
        architecture: resolved.and_then(|r| Some(r.architecture?.name)),
        architecture_reason: match resolution {
            Ok(resolution) => resolution.reason.clone(),
            Err(error) => error.to_string(),
        },
        rope_layout: resolved.and_then(|r| Some(r.rope_layout()?.name())),
        missing: resolved.map_or(&[], |r| &r.missing),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_in_runs() {
        assert_eq!(runs(&[7]), "7");
        assert_eq!(runs(&[0, 1, 2, 3]), "[0-3]");
        assert_eq!(runs(&[0, 2, 3, 9, u64::MAX]), "[0,2-3,9,18446744073709551615]");
        let (pattern, layer) = Pattern::of("blk.12.attn_q.weight");
        assert_eq!(
            (pattern.with("[0-3]"), layer),
            ("blk.[0-3].attn_q.weight".to_owned(), Some(12))
        );
    }
}
