//! `diff`: compares two models.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use serde::Serialize;
use weighbridge::Model;
use weighbridge::bytes::Text;
use weighbridge::container::GGUF;
use weighbridge::metadata::Value;
use weighbridge::ops::{
    Clipping, DiffOptions, DiffOutcome, DiffReport, MeanError, ModelDiff, TensorDiff, TensorPairs,
    ValueDiff, differing_files,
};

use super::{Done, Filter, no_match};
use crate::args;
use crate::json::{self, Versioned};
use crate::layers::Rows;
use crate::print::{self, Bar, Table, left, plural, right, shown};
use crate::{Status, Stop, note, remark};

/// The report of the library, and what only a single pair has.
#[derive(Serialize)]
struct Reported<'d> {
    #[serde(flatten)]
    report: DiffReport<'d>,
    /// The files beside the weights that differ.
    files: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    clipping: Option<Clipping>,
}

pub(crate) fn run(args: &args::Diff) -> Done {
    let open = |path: &PathBuf| {
        let store = args.open.options().open(path)?;
        if !args.json {
            remark(&store);
        }
        if store.attachments().iter().any(|layer| layer.kind == "adapter") {
            note(&format!("{}: compared without the adapter that is attached to it", shown(path)));
        }
        store.resolution()?;
        Ok::<_, Stop>(store)
    };
    let (a, b) = (open(&args.a)?, open(&args.b)?);
    let mut pairs = TensorPairs::new(&a, &b)?;
    let filter = Filter::new(args.filter.as_deref());
    if args.filter.is_some() {
        pairs.retain(|view| {
            let mut stored = view.stored_names();
            stored.any(|stored| filter.passes(&stored.spelling(), Some(view.name())))
        });
    }
    if pairs.both.iter().any(|pair| Some(&pair.name) == args.filter.as_ref()) {
        pairs.both.retain(|pair| Some(&pair.name) == args.filter.as_ref());
        (pairs.only_a, pairs.only_b) = (Vec::new(), Vec::new());
    }
    if let Some(glob) = &args.filter
        && pairs.both.len() + pairs.only_a.len() + pairs.only_b.len() == 0
    {
        return Err(no_match(glob, a.path()).into());
    }
    let bar = Bar::new();
    let watch = |progress| bar.show(progress);
    let options = DiffOptions::new().tolerance(args.tolerance).progress(&watch);
    let diff = pairs.compare(&options)?;
    let clipping = match diff.tensors.as_slice() {
        [TensorDiff { pair, outcome: DiffOutcome::Values(_), .. }] => pair.clipping(&options)?,
        _ => None,
    };
    drop(bar);
    let files = match args.filter {
        Some(_) => Vec::new(),
        None => differing_files(&a, &b)?,
    };
    let reported = Reported { report: diff.report(), files, clipping };
    if args.json {
        json::write(&Versioned::new(&reported))?;
    } else {
        write_text(args, &reported, &a, &b, &diff)?;
    }
    Ok(match (diff.is_equal(), reported.report.unread.is_empty()) {
        (false, _) => Status::Found,
        (true, true) => Status::Fine,
        (true, false) => Status::Unsupported,
    })
}

fn write_text(
    args: &args::Diff,
    Reported { report, files, clipping }: &Reported<'_>,
    a: &Model,
    b: &Model,
    diff: &ModelDiff,
) -> Result<(), Stop> {
    diff.notes.iter().for_each(|text| note(text));
    let mut out = print::stdout();
    let bold = anstyle::Style::new().bold();
    for (letter, model) in [("A", a), ("B", b)] {
        let path = shown(model.path());
        writeln!(out, "{letter} {bold}{path}{bold:#}: {}", model.container())?;
    }
    out.paragraph(&summary(report), 2)?;
    let has_same_tensors =
        report.different.is_empty() && report.only_a.is_empty() && report.only_b.is_empty();
    if let Some(line) = differing_metadata(a, b).filter(|_| has_same_tensors) {
        out.paragraph(&line, 0)?;
    }
    if !files.is_empty() {
        let line = format!("the files beside the weights differ: {}", files.join(", "));
        out.paragraph(&line, 0)?;
    }
    for difference in report.config {
        out.paragraph(&difference.to_string(), 2)?;
    }
    if let Some(worst) = worst(diff) {
        writeln!(out, "{worst}")?;
    }
    if let Some(clipping) = clipping {
        writeln!(out, "{}", clipped(clipping))?;
    }
    let table = match args.by_layer {
        true => Some(layers(args, diff)),
        false => table(args, diff),
    };
    if let Some(table) = table {
        writeln!(out)?;
        table.write(&mut out)?;
    }
    let brief = |name: &str| Text::new(name.as_bytes()).brief();
    for (which, names) in [("A", &report.only_a), ("B", &report.only_b)] {
        let mut rows = Rows::new(!args.all);
        names.iter().for_each(|name| rows.add(*name, (), (), |(), ()| {}));
        for row in rows.into_rows() {
            writeln!(out, "only in {which}: {}", brief(&row.name()))?;
        }
    }
    for unread in &report.unread {
        writeln!(out, "not compared: {}: {}", brief(unread.name), unread.error)?;
    }
    out.flush()?;
    Ok(())
}

/// The keys in which the metadata of two GGUF files differ.
fn differing_metadata(a: &Model, b: &Model) -> Option<String> {
    if [a, b].iter().any(|model| model.container() != GGUF.name) {
        return None;
    }
    let differs = |from: &Model, to: &Model| {
        let keys = from.metadata().iter().filter(|(key, value)| {
            to.metadata().get(&key.spelling()).is_none_or(|other| !same(other, *value))
        });
        keys.map(|(key, _)| key.spelling().into_owned()).collect::<BTreeSet<String>>()
    };
    let keys: Vec<String> = differs(a, b).union(&differs(b, a)).cloned().collect();
    let first = keys.iter().take(3).map(|key| Text::new(key.as_bytes()).brief());
    let first = first.collect::<Vec<_>>().join(", ");
    let more = if keys.len() > 3 { ", ..." } else { "" };
    let number = plural(keys.len(), "key");
    (!keys.is_empty())
        .then(|| format!("their metadata differs in {number} (`meta get`): {first}{more}"))
}

/// Whether two values of metadata are the same, element by element.
fn same(a: Value<'_>, b: Value<'_>) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => {
            (a.element_type(), a.len()) == (b.element_type(), b.len())
                && a.values().zip(b.values()).all(|(a, b)| same(a, b))
        }
        (Value::String(a), Value::String(b)) => a == b,
        // NaN is the same as NaN here.
        _ => format!("{a:?}") == format!("{b:?}"),
    }
}

/// `11 of 20 tensors differ, 2 only in A, relative RMS 0.5 % (mean over 15 matrices, weighted by
/// size)`.
fn summary(report: &DiffReport<'_>) -> String {
    let bound = match report.tolerance {
        0.0 => String::new(),
        tolerance => format!(" by more than {tolerance}"),
    };
    let only = |which: &str, names: &[&str]| match names.len() {
        0 => String::new(),
        number => format!(", {number} only in {which}"),
    };
    let only = only("A", &report.only_a) + &only("B", &report.only_b);
    let tensors = plural(report.compared, "tensor");
    let mut line = match report.different.len() {
        0 if report.compared == 0 => format!("no tensor compared{only}"),
        0 if report.tolerance == 0.0 => format!("{tensors} compared: equal{only}"),
        0 => format!("{tensors} compared: none differs{bound}{only}"),
        1 => format!("1 of {tensors} differs{bound}{only}"),
        number => format!("{number} of {tensors} differ{bound}{only}"),
    };
    if !report.unread.is_empty() {
        line += &format!(", {} not compared", report.unread.len());
    }
    match report.config.len() {
        0 => {}
        1 => line += ", 1 value of the config differs",
        number => line += &format!(", {number} values of the config differ"),
    }
    match report.relative_rms {
        Some(error) if error > 0.0 || !report.different.is_empty() => {
            let matrices = match report.matrices {
                1 => "1 matrix".to_owned(),
                number => format!("{number} matrices"),
            };
            let mean = format!("mean over {matrices}, weighted by size");
            format!("{line}, relative RMS {} ({mean})", percent(error))
        }
        _ => line,
    }
}

/// The tensor that differs most: NaN or infinity against a number first, then the largest relative RMS
/// error.
fn worst(diff: &ModelDiff) -> Option<String> {
    let error = |values: &ValueDiff| match values.max().is_finite() {
        true => values.relative_rms(),
        false => f64::INFINITY,
    };
    let mut found: Option<(&TensorDiff, &ValueDiff)> = None;
    for tensor in diff.tensors.iter().filter(|tensor| tensor.outcome.is_difference()) {
        if let DiffOutcome::Values(values) = &tensor.outcome
            && found.is_none_or(|(_, most)| error(values) > error(most))
        {
            found = Some((tensor, values));
        }
    }
    let (tensor, values) = found?;
    let worst = values.worst?;
    let at = worst.indices(tensor.pair.a.shape());
    let at: Vec<String> = at.iter().map(u64::to_string).collect();
    Some(format!(
        "largest difference: {}{}; at [{}]: {} in A, {} in B",
        Text::new(tensor.pair.name.as_bytes()).brief(),
        relative(values),
        at.join(", "),
        worst.a,
        worst.b
    ))
}

/// `clipped: 12 of 4096 values, 0.5 % of the squared error; the worst at row 3, column 38: 5 in A, 2 in B`.
fn clipped(clipping: &Clipping) -> String {
    let Clipping { elements, clipped, share_of_error, worst, .. } = clipping;
    let Some(worst) = worst else { return format!("clipped: none of {elements} values") };
    format!(
        "clipped: {clipped} of {elements} values, {} of the squared error; \
         the worst at row {}, column {}: {} in A, {} in B",
        percent(*share_of_error),
        worst.row,
        worst.column,
        worst.a,
        worst.b
    )
}

/// `, relative RMS 0.5 %`, or nothing if the values are equal.
fn relative(values: &ValueDiff) -> String {
    match values.relative_rms() {
        0.0 => String::new(),
        ratio => format!(", relative RMS {}", percent(ratio)),
    }
}

/// The order of names in which layer 2 comes before layer 10.
fn natural(name: &str) -> Vec<(Option<u64>, &str)> {
    name.split('.').map(|part| (part.parse().ok(), part)).collect()
}

/// The tensors of a layer, or of none.
#[derive(Default)]
struct Layer {
    tensors: usize,
    differing: usize,
    error: MeanError,
    max: f64,
    /// The tensor with the largest relative RMS.
    worst: Option<(f64, String)>,
}

/// `layers.3` or `enc.layers.3` of a tensor's name; `None` outside of layers.
fn layer_of(name: &str) -> Option<&str> {
    let start = name.find("layers.")? + "layers.".len();
    let number = name.get(start..)?;
    let end = number.find('.').map_or(name.len(), |length| start + length);
    name.get(start..end)?.parse::<u64>().ok()?;
    name.get(..end)
}

/// A row for each layer, and one for the tensors outside of layers.
fn layers(args: &args::Diff, diff: &ModelDiff) -> Table {
    let mut layers: Vec<(Option<&str>, Layer)> = Vec::new();
    for tensor in &diff.tensors {
        let name = layer_of(&tensor.pair.name);
        let place = layers.iter().position(|(other, _)| *other == name).unwrap_or(layers.len());
        if place == layers.len() {
            layers.push((name, Layer::default()));
        }
        let Some((_, layer)) = layers.get_mut(place) else { continue };
        layer.tensors += 1;
        layer.differing += usize::from(tensor.outcome.is_difference());
        if let DiffOutcome::Values(values) = &tensor.outcome {
            let error = values.relative_rms();
            layer.max = layer.max.max(values.max());
            if error > layer.worst.as_ref().map_or(0.0, |(most, _)| *most) {
                layer.worst = Some((error, tensor.pair.name.clone()));
            }
        }
        if let Some(error) = tensor.pair.matrix_error(&tensor.outcome) {
            layer.error.add(tensor.pair.a.elements(), error);
        }
    }
    layers.sort_by(|(a, _), (b, _)| {
        (a.is_none(), a.map(natural)).cmp(&(b.is_none(), b.map(natural)))
    });
    order(args.sort, &mut layers, |(_, layer)| (layer.error.relative_rms(), layer.max));
    let mut table = Table::new(&[
        left("LAYER"),
        right("TENSORS").optional(2),
        right("DIFFER"),
        right("RELATIVE"),
        right("MAX").optional(3),
        left("LARGEST").middle(20),
        right(""),
    ]);
    for (name, layer) in layers {
        let (error, worst) = layer.worst.unwrap_or_default();
        table.row([
            name.unwrap_or("none").to_owned(),
            layer.tensors.to_string(),
            layer.differing.to_string(),
            percent(layer.error.relative_rms().unwrap_or_default()),
            format!("{:.2e}", layer.max),
            worst,
            if error > 0.0 { percent(error) } else { String::new() },
        ]);
    }
    table
}

/// Sorts by relative RMS or by the largest difference, the largest first.
fn order<R>(by: Option<args::DiffSort>, rows: &mut [R], errors: impl Fn(&R) -> (Option<f64>, f64)) {
    let Some(by) = by else { return };
    let key = |row: &R| match (by, errors(row)) {
        (args::DiffSort::Relative, (error, _)) => error.unwrap_or_default(),
        (args::DiffSort::Max, (_, max)) => max,
    };
    rows.sort_by(|a, b| key(b).total_cmp(&key(a)));
}

/// A row for each tensor that differs, or for every tensor with `all`. Tensors that differ only in
/// their layer number share a row, unless they are sorted by their difference.
fn table(args: &args::Diff, diff: &ModelDiff) -> Option<Table> {
    let all = args.all;
    let mut rows = Rows::new(!all && args.sort.is_none());
    let mut tensors: Vec<&TensorDiff> = diff.tensors.iter().collect();
    tensors.sort_by(|a, b| natural(&a.pair.name).cmp(&natural(&b.pair.name)));
    for tensor in tensors {
        let (pair, outcome) = (&tensor.pair, &tensor.outcome);
        if !all && !outcome.is_difference() {
            continue;
        }
        let (values, what) = match outcome {
            DiffOutcome::Values(values) if values.differing > 0 => (*values, ""),
            DiffOutcome::Values(values) => (*values, "equal"),
            DiffOutcome::Identical => (ValueDiff::default(), "identical"),
            DiffOutcome::Shapes => (ValueDiff::default(), "shape"),
            _ => (ValueDiff::default(), "not read"),
        };
        let (shape, other) = (print::shape(pair.a.shape()), print::shape(pair.b.shape()));
        let shape = if shape == other { shape } else { format!("{shape} / {other}") };
        let alike = (pair.a.dtype_label(), pair.b.dtype_label(), shape, what);
        let mut error = MeanError::default();
        error.add(pair.a.elements(), values.relative_rms());
        rows.add(&pair.name, alike, (values, error), |(values, error), (more, other)| {
            values.merge(&more);
            error.merge(&other);
        });
    }
    let mut rows = rows.into_rows();
    if rows.is_empty() {
        return None;
    }
    order(args.sort, &mut rows, |row| (row.value.1.relative_rms(), row.value.0.max()));
    let mut table = Table::new(&[
        left("NAME").middle(38),
        left("A").optional(2),
        left("B").optional(2).joined(),
        right("SHAPE").optional(5),
        right("DIFFER").optional(1),
        right("MAX").optional(3),
        right("RMS").optional(6),
        right("RELATIVE"),
        right("COSINE").optional(4),
    ]);
    for row in rows {
        let (a, b, shape, what) = &row.alike;
        let (values, error) = &row.value;
        let decoded = values.elements > 0;
        let number = |number: String| if decoded { number } else { "-".to_owned() };
        table.row([
            row.name(),
            a.clone(),
            b.clone(),
            shape.clone(),
            match *what {
                "" => print::count(values.differing),
                what => what.to_owned(),
            },
            number(format!("{:.2e}", values.max())),
            number(format!("{:.2e}", values.rms())),
            // A value that is finite in one model alone spoils the tensor.
            number(match values.max() {
                most if most.is_finite() => percent(error.relative_rms().unwrap_or_default()),
                most => most.to_string(),
            }),
            number(values.cosine().map_or("-".to_owned(), |cosine| format!("{cosine:.7}"))),
        ]);
    }
    Some(table)
}

fn percent(ratio: f64) -> String {
    let percent = ratio * 100.0;
    if percent == 0.0 || percent >= 0.001 {
        format!("{percent:.3} %")
    } else {
        format!("{percent:.1e} %")
    }
}
