//! Writing a whole model of 1.24 billion weights: `weighbridge quantize` and `convert` compared
//! with llama-quantize and MLX. Each job is a separate process with two threads, the programs take
//! turns, and files are in the page cache. For MLX, starting the interpreter and importing modules
//! is not measured.
//!
//! The program is `../target/release/weighbridge`: build it first. `WEIGHBRIDGE_LLAMA_QUANTIZE`
//! names llama-quantize, `WEIGHBRIDGE_PEERS_PYTHON` a Python interpreter with MLX; peers that are
//! not named are skipped. `cargo bench --bench write -- Q4_K_M --rounds 3` runs the jobs whose name
//! contains a text.
//!
//! The program syncs its files to the disk before it renames them into place, and this counts as
//! part of its time. Its peers leave syncing to the system.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use weighbridge::Model;
use weighbridge_bench::{machine, model};

/// A job, and the arguments for each program; `{src}` and `{dst}` stand for paths.
struct Job {
    name: &'static str,
    /// Whether the source is GGUF instead of safetensors.
    gguf: bool,
    ours: &'static [&'static str],
    peer: Peer,
}

enum Peer {
    LlamaQuantize(&'static str),
    Mlx(&'static str),
}

#[rustfmt::skip]
const JOBS: &[Job] = &[
    Job { name: "F16 to Q8_0",   gguf: true,  ours: &["quantize", "--type", "Q8_0"],     peer: Peer::LlamaQuantize("Q8_0") },
    Job { name: "F16 to Q4_0",   gguf: true,  ours: &["quantize", "--type", "Q4_0"],     peer: Peer::LlamaQuantize("Q4_0") },
    Job { name: "F16 to Q4_K_M", gguf: true,  ours: &["quantize", "--type", "Q4_K_M"],   peer: Peer::LlamaQuantize("Q4_K_M") },
    Job { name: "BF16 to affine 4", gguf: false, ours: &["quantize", "--mlx", "4,64"],       peer: Peer::Mlx("affine,4,64") },
    Job { name: "BF16 to affine 8", gguf: false, ours: &["quantize", "--mlx", "8,64"],       peer: Peer::Mlx("affine,8,64") },
    Job { name: "BF16 to mxfp4", gguf: false, ours: &["quantize", "--mlx", "4,32,mxfp4"], peer: Peer::Mlx("mxfp4,4,32") },
];

struct Sample {
    seconds: f64,
    /// The peak of resident memory, mapped pages of files included.
    peak: u64,
}

/// Runs a command, and measures its time and memory.
fn timed(command: &mut Command) -> (Sample, ExitStatus, String) {
    let start = Instant::now();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("starts");
    let number = child.id();
    // The system's figures for a finished child include this process's own pages.
    let watch = std::thread::spawn(move || {
        let mut peak = 0;
        while let Some(bytes) = resident(number) {
            peak = peak.max(bytes);
            std::thread::sleep(Duration::from_millis(5));
        }
        peak
    });
    let mut out = String::new();
    let pipe = child.stdout.as_mut().expect("a pipe");
    std::io::Read::read_to_string(pipe, &mut out).expect("text");
    let status = child.wait().expect("it ends");
    let seconds = start.elapsed().as_secs_f64();
    (Sample { seconds, peak: watch.join().expect("a number") }, status, out)
}

/// The peak of a process's memory; `None` once the process has ended.
fn resident(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(1024 * kilobytes)
}

fn ours(job: &Job, src: &Path, dst: &Path) -> Sample {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/weighbridge");
    let mut command = Command::new(program);
    command.args(job.ours).args([src, dst]).args(["--threads", "2"]);
    let (sample, status, _) = timed(&mut command);
    assert!(status.success(), "{}: {status}", job.name);
    sample
}

fn peer(job: &Job, src: &Path, dst: &Path) -> Option<Sample> {
    let (sample, status) = match job.peer {
        Peer::LlamaQuantize(file_type) => {
            let mut command = Command::new(std::env::var_os("WEIGHBRIDGE_LLAMA_QUANTIZE")?);
            let (sample, status, _) = timed(command.args([src, dst]).args([file_type, "2"]));
            (sample, status)
        }
        Peer::Mlx(mode) => {
            let mut command = Command::new(std::env::var_os("WEIGHBRIDGE_PEERS_PYTHON")?);
            command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/mlx_quantize.py"));
            let (sample, status, out) = timed(command.args([src, dst]).arg(mode));
            // Measured by its own clock, which starts after its modules are imported.
            let seconds = out.trim().parse().expect("seconds");
            (Sample { seconds, ..sample }, status)
        }
    };
    assert!(status.success(), "{}'s peer: {status}", job.name);
    Some(sample)
}

/// The number of tensors with equal bytes, and the number of all tensors.
fn same(ours: &Path, theirs: &Path) -> (usize, usize) {
    let [ours, theirs] = [ours, theirs].map(|path| Model::open(path).expect("opens"));
    let equal = ours.stored_tensors().filter(|tensor| {
        let name = tensor.name().to_owned();
        let other = theirs.tensor(&name).expect("the same names");
        let parts = tensor.segments().map(|segment| segment.part);
        parts.into_iter().all(|part| {
            tensor.bytes(part).expect("bytes") == other.bytes(part).expect("the same parts")
        })
    });
    (equal.count(), ours.len())
}

fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
    let _ = std::fs::remove_dir_all(path);
}

fn median(samples: &mut [Sample]) -> f64 {
    samples.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    samples[samples.len() / 2].seconds
}

fn main() {
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".into());
    let folder = Path::new(&target).join("inputs");
    let (mut rounds, mut texts) = (3, Vec::new());
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--rounds" => rounds = arguments.next().and_then(|n| n.parse().ok()).expect("a number"),
            _ => texts.push(argument),
        }
    }
    let wanted =
        |job: &&Job| texts.is_empty() || texts.iter().any(|text| job.name.contains(text.as_str()));
    println!(
        "{:<18} {:>8} {:>9} {:>8} {:>9} {:>6}  same tensors",
        "", "ours, s", "MB", "peer, s", "MB", "ratio"
    );
    for job in JOBS.iter().filter(wanted) {
        let src: PathBuf = match job.gguf {
            true => model::gguf(&folder),
            false => model::safetensors(&folder.join("hf")).with_file_name(""),
        };
        let (mine, theirs) = (folder.join("written-ours"), folder.join("written-peer"));
        let (mut own, mut others) = (Vec::new(), Vec::new());
        let mut equal = None;
        for _ in 0..rounds {
            for path in std::fs::read_dir(&src).map_or(vec![src.clone()], |entries| {
                entries.map(|entry| entry.expect("an entry").path()).collect()
            }) {
                machine::read_through(&path);
            }
            remove(&mine);
            own.push(ours(job, &src, &mine));
            remove(&theirs);
            others.extend(peer(job, &src, &theirs));
            if equal.is_none() && !others.is_empty() {
                equal = Some(same(&mine, &theirs));
            }
        }
        let peak = |samples: &[Sample]| samples.iter().map(|sample| sample.peak).max().unwrap_or(0);
        let (peaks, seconds) = ([peak(&own), peak(&others)], median(&mut own));
        print!("{:<18} {seconds:>8.2} {:>9.0}", job.name, peaks[0] as f64 / 1e6);
        match others.is_empty() {
            true => println!("     no peer"),
            false => {
                let theirs = median(&mut others);
                let (same, of) = equal.unwrap_or_default();
                println!(
                    " {theirs:>8.2} {:>9.0} {:>6.1}  {same} of {of}",
                    peaks[1] as f64 / 1e6,
                    theirs / seconds
                );
            }
        }
        remove(&mine);
        remove(&theirs);
    }
}
