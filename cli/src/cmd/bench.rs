//! `bench`: loads every tensor into memory and measures the time.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use weighbridge::arch::Resolution;
use weighbridge::bytes::Text;
use weighbridge::device::{Cpu, Device};
use weighbridge::ops::{self, LoadReport};
use weighbridge::{LoadOptions, OpenOptions, Policy, WeightProvider};

use super::{Done, Filter, no_match};
use crate::args::{Bench, DeviceName, LoadDtype};
use crate::json::{self, Versioned};
use crate::print::{self, Bar, bytes, count, plural};
use crate::{Status, Stop, remark};

/// A Llama of 1.3 million weights, trained for this project; see `assets/sample/README.md`.
/// The link in this package makes it part of the published crate.
pub(super) const SAMPLE: &[u8] = include_bytes!("../../sample.gguf");

const _: () = assert!(
    matches!(SAMPLE.first_chunk(), Some(b"GGUF")),
    "cli/sample.gguf is no link to the sample: set git's core.symlinks, and check it out again"
);

pub(crate) fn run(args: &Bench) -> Done {
    let options: OpenOptions = args.open.options();
    let start = Instant::now();
    let store = match &args.path {
        Some(path) => options.open(path)?,
        None => options.open_memory("sample-Q8_0.gguf (inside the program)", SAMPLE)?,
    };
    remark(&store);
    match &args.device {
        DeviceName::Cpu => load(args, WeightProvider::new(store, Cpu)?, start),
        #[cfg(feature = "gpu")]
        DeviceName::Gpu(which) => {
            let gpu = crate::device::gpu(which.as_deref())?;
            load(args, WeightProvider::new(store, gpu)?, start)
        }
        #[cfg(not(feature = "gpu"))]
        DeviceName::Gpu(which) => Err(crate::device::without_gpus(which.as_deref())),
    }
}

fn load<D: Device>(args: &Bench, mut provider: WeightProvider<D>, start: Instant) -> Done {
    if let (Some(mesh), Some(rank)) = (args.shard, args.rank) {
        provider = provider.sharding(mesh.rank(rank)?)?;
    }
    let provider = provider.policy(match args.dtype {
        LoadDtype::Keep => Policy::Keep,
        LoadDtype::F32 => Policy::F32,
        LoadDtype::F16 => Policy::F16,
        LoadDtype::Bf16 => Policy::BF16,
        LoadDtype::PackedF16 => Policy::PackedF16,
    });
    let open_seconds = start.elapsed().as_secs_f64();
    let resolution = provider.model().resolution()?;

    let filter = Filter::new(args.filter.as_deref());
    let stored: HashMap<&str, &str> = resolution
        .mapped
        .iter()
        .filter_map(|m| Some((m.canonical.as_str(), m.stored.first()?.as_str())))
        .collect();
    let wanted = |name: &str| filter.passes(stored.get(name).copied().unwrap_or(name), Some(name));
    if let Some(glob) = &args.filter
        && !provider.names()?.into_iter().any(&wanted)
    {
        return Err(no_match(glob, provider.model().path()).into());
    }
    let bar = Bar::new();
    let watch = |progress| bar.show(progress);
    let options = LoadOptions::new().fuse(&args.fuse).threads(args.threads).progress(&watch);
    let mut report = ops::load(&provider, wanted, &options)?;
    if args.verify {
        // They are in the cache, and not loaded again.
        let loaded = provider.load_all(wanted, &options)?;
        for tensor in &loaded {
            provider.verify(tensor)?;
        }
        report.verified = Some(loaded.len());
    }
    drop(bar);
    report.open_seconds = Some(open_seconds);
    if args.json {
        json::write(&Versioned::of(provider.model().path(), &report))?;
    } else {
        write_text(args, &report, open_seconds, provider.model().path(), resolution)?;
    }
    Ok(Status::Fine)
}

fn write_text(
    args: &Bench,
    report: &LoadReport,
    open_seconds: f64,
    path: &Path,
    resolution: &Resolution,
) -> Result<(), Stop> {
    let mut out = print::stdout();
    let bold = anstyle::Style::new().bold();
    let path = path.to_string_lossy();
    let path = Text::new(path.as_bytes());
    writeln!(out, "{bold}{path}{bold:#}")?;
    writeln!(out, "{}: {resolution}", report.container)?;
    write!(out, "{}", name_list("missing", &report.missing))?;
    if resolution.architecture.is_some() {
        write!(out, "{}", name_list("no canonical name", &report.unknown))?;
    }
    if let Some(rope) = report.rope_layout {
        writeln!(out, "stored rope layout: {rope}")?;
    }
    if let (Some(mesh), Some(rank)) = (args.shard, args.rank) {
        writeln!(out, "rank {rank} of {} ({mesh})", mesh.ranks())?;
    }
    let buffers = match report.fused.as_slice() {
        [] => String::new(),
        fused => format!(" in {} buffers ({} fused)", report.buffers, fused.join(", ")),
    };
    writeln!(
        out,
        "loaded {}{buffers} ({} weights, {} as {}) to {} in {} ({}/s); opened in {}",
        plural(report.tensors, "tensor"),
        count(report.weights),
        bytes(report.bytes),
        report.kept_as,
        report.device,
        seconds(report.load_seconds),
        bytes(print::whole(report.gigabytes_per_second * 1e9)),
        seconds(open_seconds),
    )?;
    if report.imported_bytes > 0 {
        let (imported, copied) = (report.imported_bytes, report.bytes - report.imported_bytes);
        writeln!(
            out,
            "{} used where the file is mapped, {} copied",
            bytes(imported),
            bytes(copied)
        )?;
    }
    if let Some(verified) = report.verified {
        writeln!(out, "read back from {}: {verified} buffers are equal", report.device)?;
    }
    if report.lost_to_infinity > 0 || report.lost_to_zero > 0 {
        writeln!(out, "{}", print::rounded(report.lost_to_infinity, report.lost_to_zero))?;
    }
    if let Some((name, why)) = report.computed.first() {
        let name = Text::new(name.as_bytes());
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

/// A line with some of the names; empty without names.
fn name_list(what: &str, names: &[String]) -> String {
    match names {
        [] => String::new(),
        [some @ .., last] if some.len() < 6 => {
            let between = if some.is_empty() { "" } else { ", " };
            format!("{what}: {}{between}{last}\n", some.join(", "))
        }
        many => format!("{what}: {}, and {} more\n", many[..6].join(", "), many.len() - 6),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_unit_that_fits() {
        assert_eq!([0.000_25, 0.25, 2.5].map(seconds), ["250 us", "250.0 ms", "2.50 s"]);
    }
}
