//! `inspect --shard`: what each of several ranks loads.

use std::io::Write;

use weighbridge::Model;
use weighbridge::bytes::Text;
use weighbridge::model::Mesh;
use weighbridge::ops::{self, SharedTensor, SharesReport};

use super::{Done, Filter, Inspect, no_match};
use crate::json::{self, Versioned};
use crate::layers::Rows;
use crate::print::{self, Screen, Table, bytes, left, right};
use crate::{Status, Stop};

pub(super) fn run(args: &Inspect, model: &Model, mesh: &Mesh) -> Done {
    let mut report = ops::shares(model, mesh)?;
    let filter = Filter::new(args.filter.as_deref());
    report.tensors.retain(|tensor| filter.passes(&tensor.name, Some(&tensor.name)));
    if let Some(glob) = args.filter.as_deref().filter(|_| report.tensors.is_empty()) {
        return Err(no_match(glob, model.path()).into());
    }
    match args.json {
        true => json::write(&Versioned::of(model.path(), &report))?,
        false => write_text(args, model, &report)?,
    }
    Ok(Status::Fine)
}

fn write_text(args: &Inspect, model: &Model, report: &SharesReport) -> Result<(), Stop> {
    let mut out = print::stdout();
    let bold = anstyle::Style::new().bold();
    writeln!(out, "{bold}{}{bold:#}", print::shown(model.path()))?;
    write_ranks(report, &mut out)?;
    writeln!(out)?;
    let mut tensors: Vec<&SharedTensor> = report.tensors.iter().collect();
    tensors.sort_by(|a, b| {
        let [a, b] = [a, b].map(|tensor| Text::new(tensor.name.as_bytes()));
        a.natural_cmp(b)
    });
    let mut rows = Rows::new(!args.all);
    for tensor in tensors {
        let shape = print::shape(&tensor.shape);
        let alike = (tensor.dtype.clone(), shape, part(tensor), ranks(tensor, report), how(tensor));
        rows.add(&tensor.name, alike, (), |(), ()| {});
    }
    let mut table = Table::new(&[
        left("NAME").middle(28),
        left("DTYPE").optional(2),
        right("SHAPE"),
        right("PART"),
        left("RANKS").end(12),
        left("DIVIDED").optional(1),
    ]);
    for row in rows.into_rows() {
        let (dtype, shape, part, ranks, how) = row.alike.clone();
        table.row([row.name(), dtype, shape, part, ranks, how]);
    }
    table.write(&mut out)?;
    out.flush()?;
    Ok(())
}

/// A row for each rank, with its number in each kind of parallelism that there is.
fn write_ranks(report: &SharesReport, out: &mut Screen<impl Write>) -> Result<(), Stop> {
    let kinds = [report.tensor_parallel, report.pipeline_parallel, report.expert_parallel];
    let mut columns = vec![right("RANK")];
    let names = ["TP", "PP", "EP"];
    columns.extend(names.iter().zip(kinds).filter(|(_, of)| *of > 1).map(|(name, _)| right(name)));
    columns.extend([right("TENSORS"), right("SIZE"), right("OF ALL")]);
    let mut table = Table::new(&columns);
    for rank in &report.ranks {
        let numbers = [rank.tensor_rank, rank.pipeline_rank, rank.expert_rank];
        let mut cells = vec![rank.rank.to_string()];
        cells.extend(
            numbers
                .iter()
                .zip(kinds)
                .filter(|(_, of)| *of > 1)
                .map(|(number, _)| number.to_string()),
        );
        let share = rank.bytes as f64 / report.bytes.max(1) as f64 * 100.0;
        cells.extend([rank.tensors.to_string(), bytes(rank.bytes), format!("{share:.1} %")]);
        table.row(cells);
    }
    table.write(out)?;
    Ok(())
}

/// The shape of the parts; the shapes of the largest and the smallest, if they differ.
fn part(tensor: &SharedTensor) -> String {
    let mut shapes: Vec<&[u64]> = tensor.parts.iter().map(|part| &*part.shape).collect();
    shapes.sort_by_key(|shape| std::cmp::Reverse(shape.iter().product::<u64>()));
    match (shapes.first(), shapes.last()) {
        (Some(most), Some(least)) if most != least => {
            format!("{} to {}", print::shape(most), print::shape(least))
        }
        (Some(shape), _) => print::shape(shape),
        _ => "-".to_owned(),
    }
}

/// The ranks that have a part: `all`, `0-3`.
fn ranks(tensor: &SharedTensor, report: &SharesReport) -> String {
    if tensor.parts.len() == report.ranks.len() {
        return "all".to_owned();
    }
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for part in &tensor.parts {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(part.rank) => *last = part.rank,
            _ => runs.push((part.rank, part.rank)),
        }
    }
    let run = |&(from, to): &(u64, u64)| match from == to {
        true => from.to_string(),
        false => format!("{from}-{to}"),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(",")
}

/// The division of the tensor, in words. Several ranks may have the same part: key heads, if there
/// are few.
fn how(tensor: &SharedTensor) -> String {
    let mut starts: Vec<Vec<(usize, u64)>> = tensor
        .parts
        .iter()
        .map(|part| part.ranges.iter().map(|range| (range.axis, range.start)).collect())
        .collect();
    let all = starts.len();
    starts.sort();
    starts.dedup();
    match (&*tensor.divided, starts.len()) {
        (_, 1) | ("", _) => "no".to_owned(),
        (divided, parts) if parts < all => format!("{divided}, {} ranks each", all / parts),
        (divided, _) => divided.to_owned(),
    }
}
