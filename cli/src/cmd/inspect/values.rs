//! `inspect PATH NAME` and `inspect --stats`: statistics of the values of tensors.

use std::io::Write;
use std::path::{Path, PathBuf};

use weighbridge::bytes::Text;
use weighbridge::ops::{
    self, Extreme, Histogram, StatisticsOptions, StatisticsReport, TensorStatistics,
    ValueStatistics,
};
use weighbridge::{Error, ErrorKind, Model, Result, Tensor};

use super::{Done, Filter, Inspect, no_match, outliers};
use crate::failure::Failure;
use crate::json::{self, Versioned};
use crate::print::{self, Bar, Fields, Table, left, number, plural, right};
use crate::{Status, Stop, complain, remark};

/// The tensor that the second argument names, unless it names a model. An error if it names neither.
pub(super) fn named(args: &Inspect) -> Option<(Model, Result<Tensor>)> {
    let [path, name] = args.paths.as_slice() else { return None };
    if args.config || args.modelfile || args.filter.is_some() || name.exists() {
        return None;
    }
    // If the first is no model, the second is one too, and the error is that of the first.
    let open = |path: &Path| args.open.options().open(path);
    let model = open(path).ok()?;
    let tensor =
        name.to_str().map(|name| model.stored_tensor(name).or_else(|_| model.tensor(name)))?;
    let Err(error) = &tensor else { return Some((model, tensor)) };
    if open(name).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        let fault = format!("neither a model nor a tensor of {}", print::shown(path));
        let mut neither = Error::new(ErrorKind::NotFound, fault).in_file(name);
        let key = name.to_str().filter(|name| model.metadata().get(name).is_some());
        if let Some(key) = key {
            let get = format!("`weighbridge meta get {} {key}` prints it", print::shown(path));
            neither = neither.advise(format!("it is a key of the metadata: {get}"));
        } else if let Some(advice) = error.advice() {
            neither = neither.advise(advice.to_owned());
        }
        return Some((model, Err(neither)));
    }
    None
}

/// Whether a text is a part of the name of a stored tensor.
pub(super) fn is_part(model: &Model, part: &str) -> bool {
    let filter = Filter::new(Some(part));
    model.stored_tensors().any(|tensor| filter.passes(tensor.name(), None))
}

/// Whether several names after a model are names of tensors or parts of them, and not of models.
pub(super) fn are_tensors(args: &Inspect, path: &Path, names: &[PathBuf]) -> bool {
    if names.len() < 2 || names.iter().any(|name| name.exists()) {
        return false;
    }
    let Ok(model) = args.open.options().open(path) else { return false };
    names.iter().any(|name| is_part(&model, &name.to_string_lossy()))
}

/// Shows the statistics of one tensor.
pub(super) fn one(args: &Inspect, model: &Model, tensor: &Tensor) -> Done {
    if !args.json {
        remark(model);
    }
    let bar = Bar::new();
    let watch = |progress| bar.show(progress);
    let options = StatisticsOptions::new().bins(BINS).progress(&watch);
    let report = ops::statistics(std::slice::from_ref(tensor), &options)?;
    drop(bar);
    for found in &report.tensors {
        if let Some(error) = &found.error {
            return Err(Stop::Library(error.clone()));
        }
        match &found.values {
            _ if args.json => json::write(&Versioned::of(model.path(), found))?,
            Some(values) => write_text(tensor, found, values)?,
            None => {}
        }
    }
    Ok(Status::Fine)
}

/// Shows a table of the statistics of all tensors.
pub(super) fn all(args: &Inspect, model: &Model) -> Done {
    let report = ops::inspect(model, &ops::InspectOptions::new())?;
    let ops::InspectedTensors::Stored { tensors: listed, .. } = &report.tensors else {
        return Ok(Status::Fine);
    };
    let filter = Filter::new(args.filter.as_deref());
    let passes = |listed: &ops::InspectedTensor<'_>| {
        filter.passes(&listed.name, listed.canonical.iter().flatten().next().map(|name| &**name))
    };
    let chosen = model.stored_tensors().zip(listed).filter(|(_, listed)| passes(listed));
    let mut tensors: Vec<Tensor> = chosen.map(|(tensor, _)| tensor).collect();
    if let Some(glob) = args.filter.as_deref().filter(|_| tensors.is_empty()) {
        return Err(no_match(glob, model.path()).into());
    }
    if !args.json {
        tensors.sort_by(|a, b| a.raw_name().natural_cmp(b.raw_name()));
    }
    let bar = Bar::new();
    let watch = |progress| bar.show(progress);
    let report = ops::statistics(&tensors, &StatisticsOptions::new().progress(&watch))?;
    drop(bar);
    if args.json {
        json::write(&Versioned::of(model.path(), &report))?;
    } else {
        write_table(model, &report)?;
    }
    let failed =
        report.tensors.iter().filter_map(|tensor| tensor.error.as_ref()).collect::<Vec<_>>();
    let Some((first, others)) = failed.split_first() else { return Ok(Status::Fine) };
    let more = match others.len() {
        0 => String::new(),
        others => format!("; {others} more cannot be read either"),
    };
    complain(Failure::from(*first).and(&more));
    Ok(Status::Unsupported)
}

fn write_table(model: &Model, report: &StatisticsReport) -> Result<(), Stop> {
    let mut table = Table::new(&[
        left("NAME").middle(24),
        left("DTYPE").optional(3),
        right("SHAPE").optional(4),
        right("MIN"),
        right("MAX"),
        right("MEAN").optional(2),
        right("DEVIATION"),
        right("ZEROS").optional(1),
        right("OUTLIERS").optional(1),
        right("NAN, INF").optional(2),
    ]);
    for tensor in &report.tensors {
        let values = tensor.values.as_ref();
        let cell = |value: Option<f64>| value.map_or("-".to_owned(), number);
        let count = |count: fn(&ValueStatistics) -> u64| {
            values.map_or("-".to_owned(), |values| count(values).to_string())
        };
        table.row([
            tensor.name.clone(),
            tensor.dtype.clone(),
            print::shape(&tensor.shape),
            cell(values.and_then(|values| Some(values.min.as_ref()?.value))),
            cell(values.and_then(|values| Some(values.max.as_ref()?.value))),
            cell(values.and_then(|values| values.mean)),
            cell(values.and_then(|values| values.deviation)),
            values.map_or("-".to_owned(), |values| share(values.zeros, values.elements)),
            count(|values| values.outliers),
            count(|values| values.nan + values.infinite),
        ]);
    }
    let mut out = print::stdout();
    let bold = anstyle::Style::new().bold();
    writeln!(out, "{bold}{}{bold:#}\n", print::shown(model.path()))?;
    table.write(&mut out)?;
    let deviations = ValueStatistics::OUTLIER;
    writeln!(out, "\noutliers are more than {deviations} deviations away from the mean")?;
    out.flush()?;
    Ok(())
}

/// Bins of a histogram in text, and the columns of its longest bar.
const BINS: usize = 20;
const BAR: usize = 44;
/// The columns of the start of a bin.
const LABEL: usize = 12;

fn write_text(
    tensor: &Tensor,
    found: &TensorStatistics,
    values: &ValueStatistics,
) -> Result<(), Stop> {
    let mut fields = Fields::default();
    let stored: Vec<String> = tensor.stored_names().map(|name| name.to_string()).collect();
    match stored.as_slice() {
        [one] if *one == found.name => {}
        [one] => fields.add("stored", one.as_str()),
        [first, ..] => fields.add("stored", format!("{first} and {} more", stored.len() - 1)),
        [] => {}
    }
    let bits = print::bits(found.bits_per_weight);
    fields.add("dtype", format!("{}, {bits} bits per weight", found.dtype));
    fields.add("shape", print::shape(&found.shape));
    fields.add("values", print::grouped(values.elements));
    let counted =
        |count: u64| format!("{} ({})", print::grouped(count), share(count, values.elements));
    for (label, count) in [("NaN", values.nan), ("infinite", values.infinite)] {
        if count > 0 {
            fields.add(label, counted(count));
        }
    }
    fields.add("zeros", counted(values.zeros));
    for (label, end) in [("least", &values.min), ("largest", &values.max)] {
        if let Some(Extreme { value, at, .. }) = end {
            let at: Vec<String> = at.iter().map(u64::to_string).collect();
            fields.add(label, format!("{} at [{}]", number(*value), at.join(", ")));
        }
    }
    if let (Some(mean), Some(deviation), Some(rms)) = (values.mean, values.deviation, values.rms) {
        fields.add("mean", number(mean));
        fields.add("deviation", format!("{}, RMS {}", number(deviation), number(rms)));
        let far = ValueStatistics::OUTLIER;
        let what = plural(values.outliers, "value");
        fields.add("outliers", format!("{what} more than {far} deviations from the mean"));
    }
    if let Some(scales) = &values.scales {
        let ends = scales
            .min
            .zip(scales.max)
            .map(|(min, max)| format!(", magnitudes {} to {}", number(min), number(max)));
        let zeros = plural(scales.zeros, "zero");
        let ends = ends.unwrap_or_default();
        fields.add("scales", format!("{}, {zeros}{ends}", print::grouped(scales.count)));
    }
    let mut out = print::stdout();
    let name = Text::new(found.name.as_bytes()).brief();
    fields.write(&name, &mut out)?;
    if !values.quantiles.is_empty() {
        writeln!(out)?;
        let shown = values.quantiles.iter().filter(|quantile| SHARES.contains(&quantile.share));
        let mut table = Table::new(&[right("QUANTILE"), right("VALUE")]);
        for quantile in shown {
            let share = format!("{} %", (quantile.share * 1000.0).round() / 10.0);
            table.row([share, number(quantile.value)]);
        }
        table.write(&mut out)?;
    }
    if let Some(table) = outliers::table(tensor, values)? {
        writeln!(out)?;
        table.write(&mut out)?;
    }
    if let Some(histogram) = &values.histogram {
        writeln!(out)?;
        write_histogram(histogram, &mut out)?;
    }
    out.flush()?;
    Ok(())
}

/// The shares whose quantiles are shown.
const SHARES: [f64; 7] = [0.001, 0.01, 0.25, 0.5, 0.75, 0.99, 0.999];

/// A line for each bin: where it starts, a bar, and its count.
fn write_histogram(histogram: &Histogram, out: &mut impl Write) -> std::io::Result<()> {
    let width = (histogram.high - histogram.low) / histogram.counts.len().max(1) as f64;
    let most = histogram.counts.iter().copied().max().unwrap_or(0).max(1);
    // Two spaces before the label, the bar and the count.
    let others = 2 + LABEL + 2 + 2 + most.to_string().len();
    let room = print::stdout_columns().map_or(BAR, |columns| columns.saturating_sub(others));
    let room = room.clamp(1, BAR);
    let mut line = |label: String, count: u64| {
        let bar = bar(count as f64 / most as f64, room);
        writeln!(out, "  {label:>LABEL$}  {bar:<room$}  {count}")
    };
    if histogram.below > 0 {
        line("below".to_owned(), histogram.below)?;
    }
    for (bin, count) in histogram.counts.iter().enumerate() {
        line(number(histogram.low + bin as f64 * width), *count)?;
    }
    if histogram.above > 0 {
        line("above".to_owned(), histogram.above)?;
    }
    Ok(())
}

/// A bar of up to `columns`, in eighths of a column. What is not 0 is at least one eighth.
fn bar(share: f64, columns: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths =
        (1..=columns * 8).filter(|eighth| *eighth as f64 <= share.min(1.0) * (columns * 8) as f64);
    let eighths = eighths.count().max(usize::from(share > 0.0));
    let rest = EIGHTHS.get(eighths % 8).copied().unwrap_or_default();
    "█".repeat(eighths / 8) + rest
}

/// `0.02 %`.
fn share(count: u64, of: u64) -> String {
    match count {
        0 => "0 %".to_owned(),
        _ => format!("{} %", number(count as f64 * 100.0 / of.max(1) as f64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_in_proportion() {
        assert_eq!(
            (bar(0.0, 44), bar(1.0, 44), bar(2.0, 44)),
            (String::new(), "█".repeat(44), "█".repeat(44))
        );
        assert_eq!((bar(0.5, 44), bar(1e-9, 44)), ("█".repeat(22), "▏".to_owned()));
        assert_eq!(bar(1.5 / 44.0, 44), "█▌");
    }
}
