//! `inspect`: shows a model's container, config and tensors.

mod canonical;
mod config;
mod dispatch;
mod findings;
mod outliers;
mod shares;
mod stored;
mod values;

use std::io::Write;
use std::path::Path;

use weighbridge::arch::Resolution;
use weighbridge::bytes::Text;
use weighbridge::container::GGUF;
use weighbridge::metadata::Value;
use weighbridge::ops::{
    self, InspectNames, InspectOptions, InspectReport, InspectedTensors, ModelSummary,
};
use weighbridge::{Error, ErrorKind, Model, ModelConfig};

use super::{Done, Filter, no_match, separated};
use crate::args::{Inspect, InspectSort};
use crate::json::{self, Versioned};
use crate::print::{self, Amount, Fields, Table, left};
use crate::{Status, Stop, remark};

pub(crate) fn run(args: &Inspect) -> Done {
    if let ([path, name], Some((model, tensor))) = (args.paths.as_slice(), values::named(args)) {
        let name = name.to_string_lossy();
        return match tensor {
            Ok(tensor) if !args.is_list() => values::one(args, &model, &tensor),
            Err(error) if !values::is_part(&model, &name) => Err(error.into()),
            _ => one(&Inspect { filter: Some(name.into_owned()), ..args.clone() }, path),
        };
    }
    if let [path, names @ ..] = args.paths.as_slice()
        && values::are_tensors(args, path, names)
    {
        let of = |name: &Path| Inspect { paths: vec![path.clone(), name.into()], ..args.clone() };
        return separated(names, args.json, |name| run(&of(name)));
    }
    if args.modelfile {
        return super::show::modelfile(&args.paths);
    }
    separated(&args.paths, args.json, |path| one(args, path))
}

fn one(args: &Inspect, path: &Path) -> Done {
    let (model, cut) = opened(args, path)?;
    if !args.json {
        remark(&model);
    }
    if args.config {
        return config::run(args, &model);
    }
    if args.dispatch {
        return dispatch::run(args, model);
    }
    if let Some(mesh) = &args.shard {
        return shares::run(args, &model, mesh);
    }
    if args.stats {
        return values::all(args, &model);
    }
    if args.findings {
        return findings::run(args, &model);
    }
    report(args, &model)?;
    match cut {
        Some(error) => Err(error.into()),
        None => Ok(Status::Fine),
    }
}

/// Shows the tensors whose names the filter matches.
fn report(args: &Inspect, model: &Model) -> Done {
    let filter = args.filter.as_deref();
    let names = match (args.canonical, args.stored) {
        (true, _) => InspectNames::Canonical,
        (false, true) => InspectNames::Stored,
        (false, false) => InspectNames::Both,
    };
    let mut report = ops::inspect(model, &InspectOptions::new().names(names))?;
    Filter::new(filter).retain(&mut report.tensors);
    if let Some(by) = args.sort {
        sort(&mut report.tensors, by);
    }
    if let Some(glob) = filter.filter(|_| is_empty(&report.tensors)) {
        return Err(no_match(glob, model.path()).into());
    }
    if args.json {
        json::write(&Versioned::of(model.path(), &report))?;
    } else {
        write_text(args, model, &report)?;
    }
    Ok(Status::Fine)
}

/// The model, and the error that stopped it from being opened whole: a file that is cut short, or a shard
/// without the others of its set, still has a header.
fn opened(args: &Inspect, path: &Path) -> Result<(Model, Option<Error>), Stop> {
    let options = args.open.options();
    match options.open(path) {
        Ok(model) => Ok((model, None)),
        Err(error) if error.kind() == ErrorKind::Malformed => {
            let partial = options.partial(true).open(path);
            partial.map(|model| (model, Some(error.clone()))).map_err(|_| error.into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Sorts by a column; the largest come first.
fn sort(tensors: &mut InspectedTensors<'_>, by: InspectSort) {
    let InspectedTensors::Stored { tensors, .. } = tensors else { return };
    tensors.sort_by(|a, b| {
        let name = a.raw_name.natural_cmp(b.raw_name);
        match by {
            InspectSort::Name => name,
            InspectSort::Size => b.bytes.cmp(&a.bytes).then(name),
            InspectSort::Bits => {
                let [a, b] = [a, b].map(|tensor| tensor.bits_per_weight.unwrap_or_default());
                b.total_cmp(&a).then(name)
            }
        }
    });
}

fn is_empty(tensors: &InspectedTensors<'_>) -> bool {
    match tensors {
        InspectedTensors::Stored { tensors, .. } => tensors.is_empty(),
        InspectedTensors::Canonical { tensors, unknown, auxiliary, .. } => {
            tensors.is_empty() && unknown.is_empty() && auxiliary.is_empty()
        }
        _ => false,
    }
}

fn write_text(args: &Inspect, store: &Model, report: &InspectReport<'_>) -> Result<(), Stop> {
    let table = match &report.tensors {
        InspectedTensors::Canonical { tensors, unknown, auxiliary, .. } => {
            canonical::table(args.all, store, tensors, unknown, auxiliary)?
        }
        InspectedTensors::Stored { tensors, .. } => {
            let (is_sorted, all) = (args.sort.is_some(), args.all || args.sort.is_some());
            stored::table(all, is_sorted, tensors, !args.stored)
        }
        _ => Table::new(&[]),
    };
    let mut out = print::stdout();
    let path = print::shown(store.path());
    fields(store, report)?.write(&path, &mut out)?;
    if args.metadata && !store.metadata().is_empty() {
        writeln!(out)?;
        let mut table = Table::new(&[left("KEY").middle(32), left("TYPE"), left("VALUE").end(24)]);
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

/// The header of the report.
fn fields(store: &Model, report: &InspectReport<'_>) -> Result<Fields, Stop> {
    // Tensors of unknown types have no known size, so their elements are not counted.
    let weights = store.quantization().elements();
    let amount = Amount { tensors: store.len(), weights, bytes: report.file_bytes };
    let mut fields = print::header(&report.summary, format(store, &report.summary), amount);
    if let Some(adapter) = &report.adapter {
        if let Some(base) = &adapter.base_model {
            fields.add("adapter of", Text::new(base.as_bytes()).to_string());
        }
        fields.add("adapter", format!("{}: {}", adapter.kind, adapter.summary));
        if let Some(obstacle) = &adapter.obstacle {
            fields.add("not mergeable", obstacle.clone());
        }
    }
    // The names of an adapter's matrices are not those of a model.
    if let Some(names) = report.names.as_ref().filter(|_| report.adapter.is_none()) {
        match &names.error {
            Some(error) => fields.add("names", format!("no canonical names: {error}")),
            None => add_names(&mut fields, store, store.resolution()?),
        }
    }
    let (drafts, others): (Vec<_>, Vec<_>) =
        store.attachments().iter().partition(|attachment| attachment.kind == "tensor");
    if !drafts.is_empty() {
        let size = print::bytes(drafts.iter().map(|draft| draft.bytes).sum());
        let blobs = print::plural(drafts.len(), "tensor");
        fields.add("draft model", format!("{blobs}, {size}, not listed below"));
    }
    for attachment in others {
        let (name, kind) = (&attachment.name, &attachment.kind);
        let label = match name.is_empty() {
            true => kind.clone(),
            false => Text::new(name.as_bytes()).to_string(),
        };
        // The kind of `config.json` is `json`.
        let kind = if label.ends_with(kind) { String::new() } else { format!("{kind}, ") };
        fields.add("attached", format!("{label} ({kind}{})", print::bytes(attachment.bytes)));
    }
    Ok(fields)
}

/// `gguf version 3, 3 files`; in Ollama's store, `ollama, gguf version 3`.
fn format(store: &Model, summary: &ModelSummary) -> String {
    let mut format = store.container().to_owned();
    if let Some(version) = summary.version {
        let gguf = if format == GGUF.name { "" } else { ", gguf" };
        format += &format!("{gguf} version {version}");
    }
    match store.files().len() {
        0 | 1 => format,
        files => format!("{format}, {files} files"),
    }
}

/// Adds the facts from the names of the tensors and the config.
fn add_names(fields: &mut Fields, store: &Model, resolution: &Resolution) {
    let family = match resolution.architecture {
        Some(architecture) => architecture.name,
        None if resolution.is_by_structure() => "by structure",
        None => {
            fields.add("names", resolution.to_string());
            return;
        }
    };
    fields.add("family", format!("{family} ({})", resolution.reason));
    if let Ok(config) = store.config() {
        add_config(fields, config, resolution);
    }
    let [known, unknown] = [resolution.mapped.len(), resolution.unknown.len()];
    let missing = &resolution.missing;
    fields.add("names", format!("{known} mapped, {unknown} unknown, {} missing", missing.len()));
    if !missing.is_empty() {
        let some: Vec<&str> = missing.iter().take(4).map(String::as_str).collect();
        let more = if missing.len() > 4 { ", ..." } else { "" };
        fields.add("missing", format!("{}{more}", some.join(", ")));
    }
}

/// The main values of the config.
fn add_config(fields: &mut Fields, config: &ModelConfig, resolution: &Resolution) {
    let mut layers = format!("{} of width {}", config.n_layers.value, config.dim.value);
    if let Some(ffn) = &config.ffn_dim {
        layers += &format!(", feed-forward {}", ffn.value);
    }
    if config.n_experts.value > 0 {
        layers += &format!(", {}", print::plural(config.n_experts.value, "expert"));
    }
    fields.add("layers", layers);
    let rules = resolution.architecture.iter().flat_map(|row| row.rules).copied().flatten();
    let mut names = rules.map(|rule| rule.canonical).peekable();
    if names.peek().is_none() || names.any(|name| name.contains(".attention.")) {
        add_attention(fields, config, resolution);
    }
    let tied = config.tie_embeddings.as_ref().is_some_and(|tied| tied.value);
    match &config.vocab_size {
        Some(vocab) => {
            let tied = if tied { " (tied)" } else { "" };
            fields.add("vocabulary", format!("{}{tied}", print::grouped(vocab.value.into())));
        }
        None if tied => fields.add("vocabulary", "tied embeddings"),
        None => {}
    }
}

fn add_attention(fields: &mut Fields, config: &ModelConfig, resolution: &Resolution) {
    let mut attention = format!(
        "{} of size {} ({} for k and v)",
        print::plural(config.n_heads.value, "head"),
        config.head_dim.value,
        config.n_kv_heads.value,
    );
    if let Some(rope) = resolution.stored_rope_layout() {
        attention += &format!(", rope layout {}", rope.name());
    }
    fields.add("attention", attention);
}

/// A metadata value on one line.
fn shown(value: Value<'_>) -> String {
    let short = |text: String| match text.char_indices().nth(72) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    };
    match value {
        Value::String(text) => short(format!("\"{}\"", text.to_string().replace('"', "\\\""))),
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
