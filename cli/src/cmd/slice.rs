//! `job run`, `job finish` and `job status`: run a plan in slices.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use weighbridge::write::slices_status;

use super::Done;
use super::plan::{self, ReadPlan};
use crate::args::slices::{Finish, Slice, SlicesStatus};
use crate::json::{self, Versioned};
use crate::print::{self, bytes, shown};
use crate::writing::{self, interruptible_bar};
use crate::{Status, remark};

pub(crate) fn run(args: &Slice) -> Done {
    let read = ReadPlan::again(plan::read(&args.plan)?)?;
    remark(&read.prepared.model);
    let slices = read.slices()?;
    let watch = interruptible_bar();
    let options = read.options().threads(args.threads).progress(&watch);
    let report = slices.run(args.slice.number, args.slice.of, &options)?;
    drop(watch);
    if args.json {
        json::write(&Versioned::new(&report))?;
        return Ok(Status::Fine);
    }
    let done = if report.was_done { "already there" } else { "done" };
    let mut out = print::stdout();
    let (slice, of) = (report.slice, report.of);
    let amount = format!("{} pieces, {}", report.pieces, bytes(report.bytes));
    writeln!(out, "slice {slice}/{of}: {amount}: {done}")?;
    out.flush()?;
    Ok(Status::Fine)
}

/// The report of `finish`.
#[derive(Serialize)]
struct FinishReport {
    written: Vec<PathBuf>,
    /// The files that were replaced, or deleted with the directory that was replaced.
    replaced: Vec<PathBuf>,
    bytes: u64,
}

pub(crate) fn finish(args: &Finish) -> Done {
    let document = plan::read(&args.plan)?;
    let record = document.record.clone();
    let read = ReadPlan::again(document)?;
    let slices = read.slices()?;
    let watch = interruptible_bar();
    let options = read.options().threads(args.threads).progress(&watch);
    let done = slices.finish(&record, &options)?;
    drop(watch);
    let report = FinishReport { written: done.paths, replaced: done.replaced, bytes: done.bytes };
    if args.json {
        json::write(&Versioned::new(&report))?;
        return Ok(Status::Fine);
    }
    let mut out = print::stdout();
    for path in &report.written {
        writeln!(out, "{}", shown(path))?;
    }
    if !report.replaced.is_empty() {
        writing::write_replaced("replaced or deleted", &report.replaced, &mut out)?;
    }
    writeln!(out, "{} checked and in place", bytes(report.bytes))?;
    out.flush()?;
    Ok(Status::Fine)
}

pub(crate) fn status(args: &SlicesStatus) -> Done {
    let document = plan::read(&args.plan)?;
    let report = slices_status(&document.description, &document.destination, &document.record)?;
    let complete = report.finished || report.missing.is_empty();
    let status = if complete { Status::Fine } else { Status::Found };
    if args.json {
        json::write(&Versioned::new(&report))?;
        return Ok(status);
    }
    let mut out = print::stdout();
    let destination = shown(&document.destination);
    if report.finished {
        writeln!(out, "{destination} is finished")?;
    } else {
        if let Some(changed) = &report.changed {
            let changed = shown(Path::new(changed));
            writeln!(out, "{changed} has changed since the plan was finished")?;
        }
        writeln!(out, "{} of {} pieces are done", report.done, report.pieces)?;
        if !report.slices.is_empty() {
            writeln!(out, "slices: {}", report.slices.join(", "))?;
        }
        match report.missing.as_slice() {
            [] => writeln!(out, "all slices are there: `weighbridge job finish` checks them")?,
            missing => {
                let ranges: Vec<String> =
                    missing.iter().map(|range| format!("{}..{}", range.start, range.end)).collect();
                writeln!(out, "missing pieces: {}", ranges.join(", "))?;
            }
        }
    }
    out.flush()?;
    Ok(status)
}
