//! `load`: every tensor into memory, timed.

use std::io::Write;
use std::time::Instant;

use serde::Serialize;
use weighbridge::device::{Cpu, Device};
use weighbridge::{OpenOptions, WeightProvider};

use super::{Done, Filter};
use crate::args::Load;
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
    tensors: usize,
    weights: u64,
    bytes: u64,
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
    let provider = WeightProvider::new(store, Cpu)?;
    let open_seconds = start.elapsed().as_secs_f64();
    let resolution = provider.resolution();

    let filter = Filter::new(args.filter.as_deref());
    let stored_by = |name: &str| resolution.mapped.iter().find(|m| m.canonical == name);
    let wanted: Vec<&str> = provider
        .names()
        .filter(|name| {
            let stored = stored_by(name).map_or(*name, |m| m.stored.first().map_or("", |n| n));
            filter.passes(stored, Some(name))
        })
        .collect();
    let elements = |name: &str| provider.tensor(name).map(|tensor| tensor.elements());
    let total: u64 = wanted.iter().map(|name| elements(name)).sum::<Result<u64, _>>()?;
    let bar = progress(total);

    let start = Instant::now();
    let (mut loaded_bytes, mut weights) = (0, 0);
    for name in &wanted {
        let loaded = provider.load(name)?;
        let bytes: u64 = loaded.parts.iter().map(|part| part.range.end - part.range.start).sum();
        loaded_bytes += bytes;
        weights += provider.tensor(name)?.elements();
        bar.inc(bytes);
    }
    let load_seconds = start.elapsed().as_secs_f64();
    bar.finish_and_clear();

    let report = Report {
        schema: SCHEMA,
        path: provider.store().path().to_string_lossy().into_owned(),
        container: provider.store().container(),
        architecture: resolution.architecture.map(|architecture| architecture.name),
        rope_layout: resolution.stored_rope_layout().map(|rope| rope.name()),
        device: Cpu.name().into_owned(),
        tensors: wanted.len(),
        weights,
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
    writeln!(
        out,
        "loaded {} tensors, {} weights, {} to {} in {} ({:.1} GB/s), after {} to open",
        report.tensors,
        count(report.weights),
        bytes(report.bytes),
        report.device,
        seconds(report.load_seconds),
        report.gigabytes_per_second,
        seconds(report.open_seconds),
    )?;
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
