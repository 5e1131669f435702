//! Loading a whole model of 2.47 GB into new memory, hot and cold, compared with this machine's
//! limit and with other loaders.
//!
//! Every load is a separate process. The cases take turns, and each round starts with another case.
//! "Hot" means that the file was read just before; "cold" that the page cache was told to drop it
//! and holds none of it (the storage below a virtual disk may still cache it).
//!
//! Before its clock starts, each process allocates as much memory as it will need, writes to it and
//! frees it: a virtual machine may have returned free memory to its host, and getting it back takes
//! several times as long as the load. Starting an interpreter and importing modules is not measured.
//! Peak memory is the process's `VmHWM` since its clock started, which includes mapped pages of
//! files.
//!
//! `cargo bench --bench load -- hot --rounds 7 ours limit` runs the hot cases whose name contains
//! `ours` or `limit`. While other programs are busy, a load is delayed or repeated for some seconds
//! (`--patience 20`). After that its result is accepted and counted as disturbed.
//! `WEIGHBRIDGE_PEERS_PYTHON` names a Python interpreter that runs the peers in `peers/load.py`;
//! peers that it cannot import are skipped.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use candle_core::quantized::gguf_file;
use candle_core::{Device, Tensor};
use half::bf16;
use weighbridge::load::{FUSIONS, Fusion};
use weighbridge::{LoadOptions, Policy, WeightProvider};
use weighbridge_bench::{machine, model};

/// Loads the model, and returns an owner of the loaded data that can compute its sum, which is
/// requested after the clock has stopped.
type Load = fn(&Inputs) -> Sum;

type Sum = Box<dyn Fn() -> u64>;

/// The name prefix of limits, which other cases of the same temperature are compared with.
const LIMIT: &str = "limit";

struct Case {
    name: &'static str,
    hot: bool,
    cold: bool,
    load: Load,
}

const fn case(name: &'static str, load: Load) -> Case {
    Case { name, hot: true, cold: true, load }
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    Case { cold: false, ..case("limit map+copy, 1 thread", |inputs| limit_hot(inputs, Way::Map, 1)) },
    Case { cold: false, ..case("limit map+copy, 2 threads", |inputs| limit_hot(inputs, Way::Map, 2)) },
    Case { cold: false, ..case("limit read, 2 threads", |inputs| limit_hot(inputs, Way::Read, 2)) },
    Case { hot: false, ..case("limit direct 1 MiB, 2 threads", |inputs| limit_cold(inputs, 1 << 20, 2)) },
    Case { hot: false, ..case("limit direct 4 MiB, 2 threads", |inputs| limit_cold(inputs, 4 << 20, 2)) },
    Case { hot: false, ..case("limit direct 2 MiB, 4 threads", |inputs| limit_cold(inputs, 2 << 20, 4)) },
    case("ours safetensors", |inputs| ours(&inputs.folder(), Policy::Keep, &[])),
    case("ours safetensors, fused", |inputs| ours(&inputs.folder(), Policy::Keep, &FUSED)),
    case("ours safetensors to f16", |inputs| ours(&inputs.folder(), Policy::F16, &[])),
    case("ours gguf", |inputs| ours(&inputs.gguf, Policy::Keep, &[])),
    case("ours gguf, fused", |inputs| ours(&inputs.gguf, Policy::Keep, &FUSED)),
    case("safetensors + to_vec", safetensors_to_vec),
    case("candle safetensors", candle_safetensors),
    case("candle gguf", candle_gguf),
];

const FUSED: [&Fusion; 2] = [&FUSIONS[0], &FUSIONS[1]];

/// Peers in Python: the case's name, which is the argument of `peers/load.py`, and whether the
/// tensors are kept. A peer that releases them does less work.
const PYTHON: &[(&str, bool)] =
    &[("torch", true), ("mlx", true), ("runai", true), ("runai, not kept", false)];

struct Inputs {
    safetensors: PathBuf,
    gguf: PathBuf,
}

impl Inputs {
    fn made() -> Self {
        let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".into());
        let folder = Path::new(&target).join("inputs");
        Self { safetensors: model::safetensors(&folder.join("hf")), gguf: model::gguf(&folder) }
    }

    /// The folder with the safetensors file and its config.
    fn folder(&self) -> PathBuf {
        self.safetensors.with_file_name("")
    }

    /// The input of a case.
    fn of(&self, case: &str) -> &Path {
        if case.contains("gguf") { &self.gguf } else { &self.safetensors }
    }
}

/// The sum of all values of a tensor, in any order.
fn sum(bytes: &[u8]) -> u64 {
    let values = bytes.as_chunks::<2>().0;
    values.iter().map(|&value| u64::from(u16::from_le_bytes(value))).sum()
}

/// Loads a model with this crate; the only function that does.
fn ours(path: &Path, policy: Policy, fusions: &[&'static Fusion]) -> Sum {
    let model = WeightProvider::open(path).expect("opens").policy(policy);
    let options = LoadOptions::new().fuse(fusions);
    let tensors = model.load_all(|_| true, &options).expect("loads");
    Box::new(move || {
        let parts = tensors.iter().flat_map(|tensor| {
            let bytes = |range: &std::ops::Range<u64>| range.start as usize..range.end as usize;
            tensor.parts.iter().map(move |part| sum(&tensor.buffer[bytes(&part.range)]))
        });
        parts.sum()
    })
}

fn map(path: &Path) -> memmap2::Mmap {
    let file = File::open(path).expect("the input was made");
    // SAFETY: the file belongs to this program, and nobody changes it.
    unsafe { memmap2::Mmap::map(&file) }.expect("the input can be mapped")
}

fn safetensors_to_vec(inputs: &Inputs) -> Sum {
    let map = map(&inputs.safetensors);
    let file = safetensors::SafeTensors::deserialize(&map).expect("opens");
    let tensors: Vec<_> = file.iter().map(|(_, tensor)| tensor.data().to_vec()).collect();
    Box::new(move || tensors.iter().map(|tensor| sum(tensor)).sum())
}

fn candle_safetensors(inputs: &Inputs) -> Sum {
    let tensors = candle_core::safetensors::load(&inputs.safetensors, &Device::Cpu).expect("loads");
    Box::new(move || {
        let values = |tensor: &Tensor| tensor.flatten_all()?.to_vec1::<bf16>();
        let values = tensors.values().map(|tensor| values(tensor).expect("its values"));
        let bytes =
            values.map(|values| values.iter().flat_map(|value| value.to_le_bytes()).collect());
        bytes.map(|bytes: Vec<u8>| sum(&bytes)).sum()
    })
}

fn candle_gguf(inputs: &Inputs) -> Sum {
    let mut file = File::open(&inputs.gguf).expect("the input was made");
    let content = gguf_file::Content::read(&mut file).expect("opens");
    let names = content.tensor_infos.keys();
    let tensors = names.map(|name| content.tensor(&mut file, name, &Device::Cpu).expect("loads"));
    let tensors: Vec<_> = tensors.collect();
    Box::new(move || tensors.iter().map(|tensor| sum(&tensor.data().expect("its bytes"))).sum())
}

/// The sum of a safetensors file that fills the first `len` bytes of memory.
fn sum_of_file(fresh: machine::Fresh, len: usize) -> Sum {
    Box::new(move || {
        let file = safetensors::SafeTensors::deserialize(&fresh[..len]).expect("opens");
        file.iter().map(|(_, tensor)| sum(tensor.data())).sum()
    })
}

#[derive(Clone, Copy)]
enum Way {
    Map,
    Read,
}

/// Copies the page cache's bytes into fresh huge pages.
fn limit_hot(inputs: &Inputs, way: Way, threads: usize) -> Sum {
    let file = File::open(&inputs.safetensors).expect("the input was made");
    let map = map(&inputs.safetensors);
    let mut fresh = machine::Fresh::of(map.len());
    // The size that is best here: whole huge pages, so that no two threads touch the same one.
    in_pieces(&mut fresh[..map.len()], 8 << 20, threads, |offset, piece| match way {
        Way::Map => piece.copy_from_slice(&map[offset..offset + piece.len()]),
        Way::Read => file.read_exact_at(piece, offset as u64).expect("reads"),
    });
    sum_of_file(fresh, map.len())
}

/// Reads the disk's bytes into fresh huge pages, past the page cache.
fn limit_cold(inputs: &Inputs, piece: usize, threads: usize) -> Sum {
    let mut options = File::options();
    options.read(true).custom_flags(libc::O_DIRECT);
    let file = options.open(&inputs.safetensors).expect("the file system can read past the cache");
    let len = file.metadata().expect("a length").len() as usize;
    let mut fresh = machine::Fresh::of(len);
    // Reads request whole blocks; the last block is returned as far as the file goes.
    let whole = len.next_multiple_of(4096);
    in_pieces(&mut fresh[..whole], piece, threads, |offset, piece| {
        let wanted = piece.len().min(len - offset);
        let mut done = 0;
        while done < wanted {
            done += file.read_at(&mut piece[done..], (offset + done) as u64).expect("reads");
        }
    });
    sum_of_file(fresh, len)
}

/// Threads take pieces of `out` until none is left.
fn in_pieces(out: &mut [u8], len: usize, threads: usize, fill: impl Fn(usize, &mut [u8]) + Sync) {
    let pieces = Mutex::new(out.chunks_mut(len).enumerate());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let next = pieces.lock().expect("nobody panicked").next();
                    let Some((number, piece)) = next else { break };
                    fill(number * len, piece);
                }
            });
        }
    });
}

/// In a separate process: loads once, and prints seconds, peak memory in bytes, and a sum.
fn child(name: &str, inputs: &Inputs) {
    let case = CASES.iter().find(|case| case.name == name).expect("a case");
    machine::take_and_return(inputs.of(name).metadata().expect("a length").len() as usize);
    let start = Instant::now();
    let sum = (case.load)(inputs);
    let seconds = start.elapsed().as_secs_f64();
    println!("{seconds} {} {}", machine::peak(), sum());
}

struct Sample {
    seconds: f64,
    peak: u64,
    sum: u64,
}

/// The parameters of a table of measurements.
struct Run {
    cold: bool,
    rounds: usize,
    /// The time by which other programs may delay one load, or make it repeat.
    patience: Duration,
}

/// Measures one load in a separate process, and whether other programs were busy in spite of all
/// patience. `None` if the case cannot run here.
fn sample(name: &str, inputs: &Inputs, run: &Run) -> Option<(Sample, bool)> {
    let path = inputs.of(name);
    let asked = Instant::now();
    loop {
        machine::wait_until_quiet(run.patience.saturating_sub(asked.elapsed()));
        match run.cold {
            true => machine::drop_from_cache(path),
            false => machine::read_through(path),
        }
        let before = machine::Work::now();
        let start = Instant::now();
        let output = command(name, path)?.output().expect("the case starts");
        let (elapsed, foreign) = (start.elapsed(), before.foreign());
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            println!("{name}: left out: {}", error.lines().last().unwrap_or("it failed"));
            return None;
        }
        let disturbed = foreign > Duration::from_millis(30) + elapsed / 10;
        if disturbed && asked.elapsed() < run.patience {
            continue;
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let mut fields = text.split_whitespace();
        let mut field = || fields.next().expect("seconds, peak and sum");
        let sample = Sample {
            seconds: field().parse().expect("seconds"),
            peak: field().parse().expect("bytes"),
            sum: field().parse().expect("a sum"),
        };
        eprintln!("{name}: {:.3} s{}", sample.seconds, if disturbed { ", disturbed" } else { "" });
        return Some((sample, disturbed));
    }
}

fn command(name: &str, path: &Path) -> Option<Command> {
    if CASES.iter().any(|case| case.name == name) {
        let mut command = Command::new(std::env::current_exe().expect("this program's path"));
        command.args(["--child", name]);
        return Some(command);
    }
    let mut command = Command::new(std::env::var_os("WEIGHBRIDGE_PEERS_PYTHON")?);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/load.py")).arg(name).arg(path);
    Some(command)
}

fn measure(run: &Run, wanted: impl Fn(&str) -> bool, inputs: &Inputs) {
    let ours = CASES.iter().filter(|case| if run.cold { case.cold } else { case.hot });
    let mut names: Vec<&str> =
        ours.map(|case| case.name).chain(PYTHON.iter().map(|peer| peer.0)).collect();
    names.retain(|name| wanted(name));
    let mut samples: BTreeMap<&str, Vec<Sample>> = BTreeMap::new();
    let mut disturbed = 0;
    for _ in 0..run.rounds {
        names.retain(|name| {
            let Some((sample, busy)) = sample(name, inputs, run) else { return false };
            disturbed += usize::from(busy);
            samples.entry(name).or_default().push(sample);
            true
        });
        let turned = names.len().min(1);
        names.rotate_left(turned);
    }
    println!(
        "\n{}, {} rounds, {disturbed} loads disturbed by other programs",
        if run.cold { "cold" } else { "hot" },
        run.rounds
    );
    print(&mut samples, inputs);
    check_sums(&samples);
}

fn print(samples: &mut BTreeMap<&str, Vec<Sample>>, inputs: &Inputs) {
    for samples in samples.values_mut() {
        samples.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    }
    let median = |samples: &[Sample]| samples[samples.len() / 2].seconds;
    let limits = samples.iter().filter(|(name, _)| name.starts_with(LIMIT));
    let limit = limits.map(|(_, samples)| median(samples)).min_by(f64::total_cmp);
    println!("{:<30} seconds [min..max]       GB/s  of limit  peak - file, MB", "");
    let mut order: Vec<_> = samples.iter().collect();
    order.sort_by(|a, b| median(a.1).total_cmp(&median(b.1)));
    for (name, samples) in order {
        let (seconds, len) = (median(samples), inputs.of(name).metadata().expect("a length").len());
        let (min, max) = (samples[0].seconds, samples[samples.len() - 1].seconds);
        let peak = samples.iter().map(|sample| sample.peak).max().unwrap_or(0);
        println!(
            "{name:<30} {seconds:.3} [{min:.3}..{max:.3}] {:>8.2} {:>9} {:>9.0}{}",
            len as f64 / seconds / 1e9,
            limit.map_or(String::new(), |limit| format!("{:.2}", limit / seconds)),
            (peak as f64 - len as f64) / 1e6,
            if PYTHON.contains(&(name, false)) { "  (keeps nothing)" } else { "" },
        );
    }
}

/// Checks that all loads of BF16 have the same values, and that all loads of F16 have.
fn check_sums(samples: &BTreeMap<&str, Vec<Sample>>) {
    let mut sums: [Option<u64>; 2] = [None; 2];
    for (name, samples) in samples {
        let half = usize::from(name.contains("gguf") || name.contains("f16"));
        // The Python peers check their own values.
        if CASES.iter().any(|case| case.name == *name) {
            for sample in samples {
                let sum = *sums[half].get_or_insert(sample.sum);
                assert_eq!(sample.sum, sum, "{name} has loaded other values");
            }
        }
    }
}

fn number(argument: Option<String>) -> usize {
    argument.and_then(|text| text.parse().ok()).expect("a number")
}

fn main() {
    let inputs = Inputs::made();
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let (mut rounds, mut patience) = (5, 20);
    let (mut temperatures, mut texts) = (Vec::new(), Vec::new());
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--child" => return child(&arguments.next().expect("a case"), &inputs),
            "--rounds" => rounds = number(arguments.next()),
            "--patience" => patience = number(arguments.next()),
            "hot" => temperatures.push(false),
            "cold" => temperatures.push(true),
            _ => texts.push(argument),
        }
    }
    if temperatures.is_empty() {
        temperatures = vec![false, true];
    }
    let python = std::env::var_os("WEIGHBRIDGE_PEERS_PYTHON").is_some();
    if !python {
        println!("WEIGHBRIDGE_PEERS_PYTHON is not set: peers in Python are left out");
    }
    let wanted = |name: &str| {
        (python || PYTHON.iter().all(|peer| peer.0 != name))
            && (texts.is_empty() || texts.iter().any(|text| name.contains(text.as_str())))
    };
    for cold in temperatures {
        let patience = Duration::from_secs(patience as u64);
        measure(&Run { cold, rounds, patience }, wanted, &inputs);
    }
}
