//! Runs a plan and reports the result, for every subcommand that writes.

use std::collections::HashMap;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde::Serialize;
use weighbridge::write::{Loss, Method, PlannedTensor};
use weighbridge::{Progress, WriteOptions, WritePlan};

use crate::args::write::{Whole, Writing};
use crate::cmd::Done;
use crate::failure;
use crate::json::{self, SCHEMA};
use crate::print::{Align, Bar, Table, bits, bytes, count, plural, shape, shown};
use crate::{Status, Stop, note};

#[derive(Serialize)]
struct Report<'p> {
    schema: u32,
    written: Vec<String>,
    dry_run: bool,
    bytes: u64,
    seconds: f64,
    tensors: Vec<Tensor<'p>>,
    /// Those of opening the model, of the plan and of the run.
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Tensor<'p> {
    name: &'p str,
    shape: &'p [u64],
    from: &'p str,
    dtype: &'static str,
    group_size: Option<u32>,
    bytes: u64,
    how: &'static str,
    lossless: bool,
    why: Option<&'p str>,
    lost_to_infinity: u64,
    lost_to_zero: u64,
    /// The relative RMS difference, for requantized tensors.
    relative_rms: Option<f64>,
}

/// Runs a plan, or shows it with `--dry-run`.
pub(crate) fn run(plan: &WritePlan, dst: &Path, args: &Writing) -> Done {
    run_whole(plan, dst, Whole::default(), args)
}

/// Like [`run`], for a model that must be complete unless `whole` allows otherwise.
pub(crate) fn run_whole(plan: &WritePlan, dst: &Path, whole: Whole, args: &Writing) -> Done {
    let options = WriteOptions::new().allow_incomplete(whole.allow_incomplete);
    plan.check(&options)?;
    if !plan.missing.is_empty() {
        note(&format!("the model is incomplete; missing: {}", plan.missing.join(", ")));
    }
    plan.notes.iter().for_each(|text| note(text));
    let start = Instant::now();
    let mut report = Report {
        schema: SCHEMA,
        written: Vec::new(),
        dry_run: args.dry_run,
        bytes: plan.bytes(),
        seconds: 0.0,
        tensors: plan.tensors.iter().map(tensor).collect(),
        notes: Vec::new(),
    };
    if !args.dry_run {
        let written = execute(plan, dst, options, args)?;
        report.written = written.paths.iter().map(|path| shown(path)).collect();
        report.seconds = start.elapsed().as_secs_f64();
        for (link, target) in &written.replaced_links {
            let (link, target) = (shown(link), shown(target));
            note(&format!("{link}: replaced the symbolic link; {target} is unchanged"));
        }
        let lost: HashMap<&str, &Loss> =
            written.lost.iter().map(|(name, loss)| (name.as_str(), loss)).collect();
        for tensor in &mut report.tensors {
            if let Some(loss) = lost.get(tensor.name) {
                tensor.lost_to_infinity = loss.narrowing.overflows;
                tensor.lost_to_zero = loss.narrowing.flushes;
                tensor.relative_rms = loss.relative_rms();
            }
        }
    }
    match args.json {
        true => {
            report.notes = failure::take_notes();
            json::write(&report)?;
        }
        false => write_text(&report, plan, dst)?,
    }
    Ok(Status::Fine)
}

fn execute(
    plan: &WritePlan,
    dst: &Path,
    options: WriteOptions<'_>,
    args: &Writing,
) -> Result<weighbridge::write::WriteReport, Stop> {
    let bar = Bar::new();
    let watch = |progress: Progress| match interrupted() {
        true => ControlFlow::Break(()),
        false => bar.show(progress),
    };
    let options = options
        .overwrite(args.overwrite)
        .threads(args.threads)
        .memory(args.max_memory)
        .progress(&watch);
    let written = plan.run(dst, &options);
    drop(bar);
    Ok(written?)
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Whether the user pressed Ctrl-C: the program then removes its partial output. A second Ctrl-C ends
/// it at once.
fn interrupted() -> bool {
    static LISTENING: std::sync::Once = std::sync::Once::new();
    LISTENING.call_once(|| {
        // Without a handler the system ends the program, and the next run removes the partial output.
        let _ = ctrlc::set_handler(|| {
            if INTERRUPTED.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
        });
    });
    INTERRUPTED.load(Ordering::Relaxed)
}

fn tensor(planned: &PlannedTensor) -> Tensor<'_> {
    Tensor {
        name: &planned.name,
        shape: &planned.shape,
        from: &planned.from,
        dtype: planned.dtype.name(),
        group_size: planned.group_size,
        bytes: planned.bytes,
        how: planned.method.name(),
        lossless: planned.method.is_lossless(),
        why: planned.reason.as_deref(),
        lost_to_infinity: 0,
        lost_to_zero: 0,
        relative_rms: None,
    }
}

/// The method in text reports.
fn method(method: Method) -> &'static str {
    match method {
        Method::Exact => "converted exactly",
        other => other.name(),
    }
}

fn write_text(report: &Report<'_>, plan: &WritePlan, dst: &Path) -> Result<(), Stop> {
    let mut out = std::io::BufWriter::new(anstream::stdout().lock());
    if report.dry_run {
        let mut table = Table::new(&[
            ("TENSOR", Align::Left),
            ("SHAPE", Align::Left),
            ("FROM", Align::Left),
            ("TO", Align::Left),
            ("METHOD", Align::Left),
            ("BYTES", Align::Right),
            ("REASON", Align::Left),
        ]);
        for (tensor, planned) in report.tensors.iter().zip(&plan.tensors) {
            table.row([
                tensor.name.to_owned(),
                shape(tensor.shape),
                tensor.from.to_owned(),
                match tensor.group_size {
                    Some(size) => format!("{} g{size}", tensor.dtype),
                    None => tensor.dtype.to_owned(),
                },
                method(planned.method).to_owned(),
                count(tensor.bytes),
                tensor.why.unwrap_or_default().to_owned(),
            ]);
        }
        table.write(&mut out)?;
        writeln!(out)?;
    }
    let bold = anstyle::Style::new().bold();
    let elements: u64 = report.tensors.iter().map(|t| t.shape.iter().product::<u64>()).sum();
    let weight: u64 = report.tensors.iter().map(|tensor| tensor.bytes).sum();
    let each = (elements > 0).then(|| weight as f64 * 8.0 / elements as f64);
    let name = match plan.files().len() {
        1 => shown(dst),
        files => format!("{} ({})", shown(dst), plural(files, "file")),
    };
    writeln!(
        out,
        "{bold}{name}{bold:#}: {}, {} weights, {}{}",
        plural(report.tensors.len(), "tensor"),
        count(elements),
        bytes(report.bytes),
        match each {
            Some(each) => format!(" ({} bits per weight)", bits(Some(each))),
            None => String::new(),
        }
    )?;
    let counts = Method::ALL.iter().filter_map(|how| {
        let number = plan.tensors.iter().filter(|tensor| tensor.method == *how).count();
        (number > 0).then(|| format!("{number} {}", method(*how)))
    });
    let lossless = report.tensors.iter().all(|tensor| tensor.lossless);
    let all = if lossless { "; all values unchanged" } else { "" };
    writeln!(out, "{}{all}", counts.collect::<Vec<_>>().join(", "))?;
    let mut requantized: Vec<(f64, &str, &str)> = report
        .tensors
        .iter()
        .filter_map(|tensor| Some((tensor.relative_rms?, tensor.name, tensor.from)))
        .collect();
    requantized.sort_by(|a, b| b.0.total_cmp(&a.0));
    if let Some((rms, name, from)) = requantized.first() {
        let others = match requantized.len() {
            1 => String::new(),
            several => format!(", the largest of {several} tensors"),
        };
        let percent = rms * 100.0;
        writeln!(
            out,
            "requantization error: {percent:.3} % relative RMS in {name} ({from}){others}"
        )?;
    }
    let lost: Vec<&Tensor<'_>> = report
        .tensors
        .iter()
        .filter(|tensor| tensor.lost_to_infinity > 0 || tensor.lost_to_zero > 0)
        .collect();
    for tensor in lost.iter().take(8) {
        writeln!(
            out,
            "{}: rounding made {} values infinite and {} values 0",
            tensor.name,
            count(tensor.lost_to_infinity),
            count(tensor.lost_to_zero)
        )?;
    }
    if lost.len() > 8 {
        writeln!(out, "rounding did the same in {} more tensors", lost.len() - 8)?;
    }
    match report.dry_run {
        true => writeln!(out, "dry run: nothing was written")?,
        false => writeln!(
            out,
            "written in {:.2} s ({:.2} G weights/s)",
            report.seconds,
            elements as f64 / 1e9 / report.seconds
        )?,
    }
    out.flush()?;
    Ok(())
}
