//! `diff`: compares two models.

use std::io::Write;

use weighbridge::Model;
use weighbridge::bytes::Text;
use weighbridge::ops::{
    DiffOptions, DiffOutcome, DiffReport, MeanError, ModelDiff, TensorDiff, TensorPairs, ValueDiff,
};

use super::{Done, Filter, no_match};
use crate::args;
use crate::json::{self, Versioned};
use crate::layers::Rows;
use crate::print::{self, Bar, Table, left, plural, right, shown};
use crate::{Status, Stop, note, remark};

pub(crate) fn run(args: &args::Diff) -> Done {
    let open = |path| {
        let store = args.open.options().open(path)?;
        if !args.json {
            remark(&store);
        }
        store.resolution()?;
        Ok::<_, Stop>(store)
    };
    let (a, b) = (open(&args.a)?, open(&args.b)?);
    let mut pairs = TensorPairs::new(&a, &b)?;
    let filter = Filter::new(args.filter.as_deref());
    pairs.retain(|view| {
        let mut stored = view.stored_names();
        stored.any(|stored| filter.passes(&stored.spelling(), Some(view.name())))
    });
    if let Some(glob) = &args.filter
        && pairs.both.len() + pairs.only_a.len() + pairs.only_b.len() == 0
    {
        return Err(no_match(glob, a.path()).into());
    }
    let bar = Bar::new();
    let watch = |progress| bar.show(progress);
    let diff = pairs.compare(&DiffOptions::new().tolerance(args.tolerance).progress(&watch))?;
    drop(bar);
    let report = diff.report();
    if args.json {
        json::write(&Versioned::new(&report))?;
    } else {
        write_text(args, &report, &a, &b, &diff)?;
    }
    Ok(match (diff.is_equal(), report.unread.is_empty()) {
        (false, _) => Status::Found,
        (true, true) => Status::Fine,
        (true, false) => Status::Unsupported,
    })
}

fn write_text(
    args: &args::Diff,
    report: &DiffReport<'_>,
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
    out.paragraph(&summary(report), 0)?;
    if let Some(worst) = worst(diff) {
        writeln!(out, "{worst}")?;
    }
    let table = table(args.all, diff);
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

/// `, relative RMS 0.5 %`, or nothing if the values are equal.
fn relative(values: &ValueDiff) -> String {
    match values.relative_rms() {
        0.0 => String::new(),
        ratio => format!(", relative RMS {}", percent(ratio)),
    }
}

/// A row for each tensor that differs, or for every tensor with `all`. Tensors that differ only in
/// their layer number share a row.
fn table(all: bool, diff: &ModelDiff) -> Option<Table> {
    let mut rows = Rows::new(!all);
    for tensor in &diff.tensors {
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
    let rows = rows.into_rows();
    if rows.is_empty() {
        return None;
    }
    let mut table = Table::new(&[
        left("NAME").middle(28),
        left("A"),
        left("B"),
        right("SHAPE").optional(3),
        right("DIFFER"),
        right("MAX").optional(1),
        right("RMS").optional(4),
        right("RELATIVE"),
        right("COSINE").optional(2),
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
            number(percent(error.relative_rms().unwrap_or_default())),
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
