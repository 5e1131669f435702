//! `load`: every tensor into memory, timed.

use std::collections::HashMap;
use std::io::Write;
use std::ops::ControlFlow;
use std::time::Instant;

use serde::Serialize;
use weighbridge::device::{Cpu, Device};
use weighbridge::{LoadOptions, Member, Narrowing, OpenOptions, Policy, Progress, WeightProvider};

use super::{Done, Filter};
use crate::args::{Load, LoadDtype};
use crate::json::{self, SCHEMA};
use crate::print::{bytes, count, progress};
use crate::{Status, remark};

/// A Llama of 1.3 million weights, trained for this project; see `assets/sample/README.md`.
static SAMPLE: &[u8] = include_bytes!("../../../assets/sample/sample-Q8_0.gguf");

#[derive(Serialize)]
struct Report {
    schema: u32,
    path: String,
    container: &'static str,
    architecture: Option<&'static str>,
    rope_layout: Option<&'static str>,
    device: String,
    /// What tensors are kept as, and which of them together.
    kept_as: &'static str,
    fused: Vec<String>,
    tensors: usize,
    buffers: usize,
    weights: u64,
    bytes: u64,
    /// Values that became infinite, and values that became 0, when they were rounded.
    lost_to_infinity: u64,
    lost_to_zero: u64,
    /// Tensors whose values had to be computed, with the reason.
    computed: Vec<(String, &'static str)>,
    open_seconds: f64,
    load_seconds: f64,
    gigabytes_per_second: f64,
    peak_memory_bytes: Option<u64>,
    mapped: usize,
    unknown: Vec<String>,
    missing: Vec<String>,
}

pub(crate) fn run(args: &Load) -> Done {
    let options: OpenOptions = args.open.options();
    let start = Instant::now();
    let store = match &args.path {
        Some(path) => options.open(path)?,
        None => options.open_memory("sample-Q8_0.gguf (inside the program)", SAMPLE)?,
    };
    remark(&store);
    let (policy, kept_as) = match args.dtype {
        LoadDtype::Keep => (Policy::Keep, "stored"),
        LoadDtype::F32 => (Policy::F32, "F32"),
        LoadDtype::F16 => (Policy::F16, "F16"),
        LoadDtype::Bf16 => (Policy::BF16, "BF16"),
    };
    let provider = WeightProvider::new(store, Cpu)?.policy(policy);
    let open_seconds = start.elapsed().as_secs_f64();
    let resolution = provider.model().resolution()?;

    let filter = Filter::new(args.filter.as_deref());
    let stored: HashMap<&str, &str> = resolution
        .mapped
        .iter()
        .filter_map(|m| Some((m.canonical.as_str(), m.stored.first()?.as_str())))
        .collect();
    let wanted = |name: &str| filter.passes(stored.get(name).copied().unwrap_or(name), Some(name));
    let bar = progress(1);
    let watch = |progress: Progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
        ControlFlow::Continue(())
    };
    let options = LoadOptions::new().fuse(&args.fuse).progress(&watch);
    let options = match args.threads {
        0 => options,
        threads => options.threads(threads),
    };

    let start = Instant::now();
    let loaded = provider.load_all(wanted, &options)?;
    let load_seconds = start.elapsed().as_secs_f64();
    bar.finish_and_clear();
    let loaded_bytes: u64 = loaded.iter().map(|tensor| tensor.bytes()).sum();
    let mut lost = Narrowing::default();
    loaded.iter().for_each(|tensor| lost += tensor.lost);
    let name = |members: &[Member]| {
        members.iter().map(|member| member.name.as_str()).collect::<Vec<_>>().join("+")
    };

    let report = Report {
        schema: SCHEMA,
        path: provider.model().path().to_string_lossy().into_owned(),
        container: provider.model().container(),
        architecture: resolution.architecture.map(|architecture| architecture.name),
        rope_layout: resolution.stored_rope_layout().map(|rope| rope.name()),
        device: Cpu.name().into_owned(),
        kept_as,
        fused: args.fuse.iter().map(|fusion| fusion.name.to_owned()).collect(),
        tensors: loaded.iter().map(|tensor| tensor.members.len()).sum(),
        buffers: loaded.len(),
        weights: loaded.iter().map(|tensor| tensor.shape.iter().product::<u64>()).sum(),
        lost_to_infinity: lost.overflows,
        lost_to_zero: lost.flushes,
        computed: loaded
            .iter()
            .filter_map(|tensor| Some((name(&tensor.members), tensor.computed?)))
            .collect(),
        bytes: loaded_bytes,
        open_seconds,
        load_seconds,
        gigabytes_per_second: loaded_bytes as f64 / 1e9 / load_seconds,
        peak_memory_bytes: peak_memory(),
        mapped: resolution.mapped.len(),
        unknown: resolution.unknown.clone(),
        missing: resolution.missing.clone(),
    };
    if args.json {
        json::write(&report)?;
    } else {
        write_text(&report, resolution)?;
    }
    Ok(Status::Fine)
}

fn write_text(
    report: &Report,
    resolution: &weighbridge::arch::Resolution,
) -> Result<(), crate::Stop> {
    let mut out = std::io::BufWriter::new(anstream::stdout().lock());
    let bold = anstyle::Style::new().bold();
    let path = weighbridge::Text::new(report.path.as_bytes());
    writeln!(out, "{bold}{path}{bold:#}")?;
    writeln!(out, "{}: {resolution}", report.container)?;
    let list = |what: &str, names: &[String]| match names {
        [] => String::new(),
        [some @ .., last] if some.len() < 6 => {
            format!(
                "{what}: {}{}{last}\n",
                some.join(", "),
                if some.is_empty() { "" } else { ", " }
            )
        }
        many => format!("{what}: {}, and {} more\n", many[..6].join(", "), many.len() - 6),
    };
    write!(out, "{}", list("missing", &report.missing))?;
    if resolution.architecture.is_some() {
        write!(out, "{}", list("without a canonical name", &report.unknown))?;
    }
    if let Some(rope) = report.rope_layout {
        writeln!(out, "rows of q and k: stored {rope}")?;
    }
    let buffers = match report.fused.as_slice() {
        [] => String::new(),
        fused => format!(" in {} buffers ({} fused)", report.buffers, fused.join(", ")),
    };
    writeln!(
        out,
        "loaded {} tensors{buffers}, {} weights, {} as {} to {} in {} ({:.1} GB/s), after {} to open",
        report.tensors,
        count(report.weights),
        bytes(report.bytes),
        report.kept_as,
        report.device,
        seconds(report.load_seconds),
        report.gigabytes_per_second,
        seconds(report.open_seconds),
    )?;
    if report.lost_to_infinity > 0 || report.lost_to_zero > 0 {
        writeln!(
            out,
            "rounding made {} values infinite and {} values 0",
            count(report.lost_to_infinity),
            count(report.lost_to_zero)
        )?;
    }
    if let Some((name, why)) = report.computed.first() {
        let name = weighbridge::Text::new(name.as_bytes());
        let others = match report.computed.len() {
            1 => String::new(),
            several => format!(" and {} more", several - 1),
        };
        writeln!(out, "computed: {name}{others}: {why}")?;
    }
    if let Some(peak) = report.peak_memory_bytes {
        writeln!(out, "peak memory {}", bytes(peak))?;
    }
    out.flush()?;
    Ok(())
}

fn seconds(seconds: f64) -> String {
    if seconds < 1e-3 {
        format!("{:.0} us", seconds * 1e6)
    } else if seconds < 1.0 {
        format!("{:.1} ms", seconds * 1e3)
    } else {
        format!("{seconds:.2} s")
    }
}

/// The most memory that the program has had at once, mapped file pages included.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
