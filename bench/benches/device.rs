//! Loading to a GPU, compared with the best way that wgpu has to upload the same bytes, and kernels compared with
//! the CPU's. With Mesa's software driver the figures say what loading adds, and nothing about a GPU.
//!
//! `cargo bench --features gpu --bench device -- [MiB] [--rounds N]`: the size of the model, 512 without a number.
//! Each load is a process of its own, and the cases take turns. Peak memory is the process's `VmHWM` since its
//! clock started, less what it had before; with a software driver it includes the memory of the device.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use weighbridge::device::Device as _;
use weighbridge::device::gpu::{Gpu, KernelCall, wgpu};
use weighbridge::device::kernel::Operation;
use weighbridge::{LoadOptions, Model, OpenOptions, WeightProvider};
use weighbridge_bench::machine;

const TENSOR: usize = 32 << 20;
const PIECE: usize = 8 << 20;
const CASES: [&str; 4] =
    ["raw write_buffer_with", "ours, copied", "ours, copied, 1 thread", "ours, imported"];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if let [child, case, path] = words.as_slice()
        && child == "child"
    {
        return one(case, Path::new(path));
    }
    let number = |word: &String| word.parse::<usize>().ok();
    let mib = words.first().and_then(number).unwrap_or(512);
    let rounds = words.iter().position(|word| word == "--rounds");
    let rounds = rounds.and_then(|at| words.get(at + 1)).and_then(number).unwrap_or(5);
    println!("{}", Gpu::open(None).expect("a GPU").info().name);
    let folder = tempfile::tempdir_in("target").expect("a folder");
    let path = write_model(folder.path(), mib << 20);
    machine::read_through(&path);
    let mut found = [const { Vec::new() }; CASES.len()];
    for round in 0..rounds {
        for turn in 0..CASES.len() {
            let case = (turn + round) % CASES.len();
            found[case].push(run(CASES[case], &path));
        }
    }
    let median = |samples: &[(f64, f64)], of: fn(&(f64, f64)) -> f64| {
        let mut all: Vec<f64> = samples.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let raw = median(&found[0], |sample| sample.0);
    println!("{mib} MiB, medians of {rounds}:");
    for (case, samples) in CASES.iter().zip(&found) {
        let (seconds, peak) = (median(samples, |s| s.0), median(samples, |s| s.1));
        println!(
            "{case:24} {:8.1} ms  {:5.2} GB/s  {:5.2} of raw  peak {:7.1} MiB, {:+.1} beyond the model",
            seconds * 1e3,
            (mib << 20) as f64 / seconds / 1e9,
            raw / seconds,
            peak,
            peak - mib as f64,
        );
    }
    kernels();
}

/// A GGUF file with tensors of F16.
fn write_model(folder: &Path, bytes: usize) -> PathBuf {
    let path = folder.join("model.gguf");
    let mut out = BufWriter::new(File::create(&path).expect("a file"));
    let count = bytes / TENSOR;
    let mut header = b"GGUF\x03\0\0\0".to_vec();
    header.extend((count as u64).to_le_bytes());
    header.extend(0u64.to_le_bytes());
    for number in 0..count {
        let name = format!("t{number}");
        header.extend((name.len() as u64).to_le_bytes());
        header.extend(name.as_bytes());
        header.extend(2u32.to_le_bytes());
        header.extend(4096u64.to_le_bytes());
        header.extend((TENSOR as u64 / 2 / 4096).to_le_bytes());
        header.extend(1u32.to_le_bytes());
        header.extend(((number * TENSOR) as u64).to_le_bytes());
    }
    header.resize(header.len().next_multiple_of(32), 0);
    out.write_all(&header).expect("it is written");
    let mut state = 1u32;
    let mut tensor = vec![0u8; TENSOR];
    for word in tensor.as_chunks_mut::<4>().0 {
        state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        *word = (state & 0x3bff_3bff).to_le_bytes();
    }
    (0..count).for_each(|_| out.write_all(&tensor).expect("it is written"));
    // The last page is whole, so that the last tensor is imported too.
    out.write_all(&vec![0; 4096]).expect("it is written");
    out.flush().expect("it is written");
    path
}

fn run(case: &str, path: &Path) -> (f64, f64) {
    let own = std::env::current_exe().expect("this program");
    let done = Command::new(own).args(["child", case]).arg(path).output().expect("it runs");
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let mut numbers = text.split_whitespace().map(|word| word.parse::<f64>().expect("a number"));
    numbers.next().zip(numbers.next()).unwrap_or_else(|| panic!("{case}: {done:?}"))
}

/// One load: prints the seconds, and the MiB of peak memory.
fn one(case: &str, path: &Path) {
    let gpu = Gpu::open(None).expect("a GPU");
    let (gpu, threads) = match case {
        "ours, copied, 1 thread" => (gpu.without_import(), 1),
        "ours, copied" => (gpu.without_import(), 2),
        _ => (gpu, 2),
    };
    let gpu = Arc::new(gpu);
    let len = std::fs::metadata(path).expect("the file").len();
    machine::take_and_return(usize::try_from(len).expect("a size"));
    std::fs::write("/proc/self/clear_refs", "5").expect("Linux");
    let before = machine::peak();
    let start = Instant::now();
    let held: Box<dyn std::any::Any> = if case.starts_with("raw") {
        Box::new(raw(&gpu, path, len))
    } else {
        let model = Model::open(path).expect("the model");
        let provider = WeightProvider::new(model, Arc::clone(&gpu)).expect("a provider");
        let options = LoadOptions::new().threads(threads);
        Box::new(provider.load_all(|_| true, &options).expect("it loads"))
    };
    gpu.finish().expect("it is there");
    let seconds = start.elapsed().as_secs_f64();
    println!("{seconds} {}", (machine::peak() - before) as f64 / f64::from(1 << 20));
    drop(held);
}

/// Positioned reads into host memory, whose pieces go to staging memory of the driver.
fn raw(gpu: &Gpu, path: &Path, len: u64) -> Vec<wgpu::Buffer> {
    let file = File::open(path).expect("the file");
    let mut stage = vec![0u8; PIECE];
    let mut held = Vec::new();
    for first in (0..len / TENSOR as u64).map(|number| number * TENSOR as u64) {
        let buffer = gpu.wgpu_device().create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: TENSOR as u64,
            usage: wgpu::BufferUsages::STORAGE
                | wgpu::BufferUsages::COPY_DST
                | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: false,
        });
        for at in (0..TENSOR).step_by(PIECE) {
            file.read_exact_at(&mut stage, first + at as u64).expect("it is read");
            let size = NonZeroU64::new(PIECE as u64).expect("a size");
            let mut view =
                gpu.wgpu_queue().write_buffer_with(&buffer, at as u64, size).expect("staging");
            view.copy_from_slice(&stage);
            drop(view);
            gpu.wgpu_queue().submit([]);
        }
        held.push(buffer);
    }
    held
}

/// Matrix-vector products of 4096 by 4096, beside the CPU's on one thread.
fn kernels() {
    let gpu = Arc::new(Gpu::open(None).expect("a GPU"));
    let (rows, columns) = (4096u64, 4096u64);
    println!("matrix-vector, {rows} x {columns}, best of 10:");
    for (name, code, block, bytes) in
        [("Q8_0", 8u32, 32, 34), ("Q4_K", 12, 256, 144), ("MXFP4", 39, 32, 17), ("F16", 1, 1, 2)]
    {
        let len = (rows * columns) as usize / block * bytes;
        let mut file = b"GGUF\x03\0\0\0".to_vec();
        file.extend(1u64.to_le_bytes());
        file.extend(0u64.to_le_bytes());
        file.extend(1u64.to_le_bytes());
        file.extend(b"t");
        file.extend(2u32.to_le_bytes());
        file.extend(columns.to_le_bytes());
        file.extend(rows.to_le_bytes());
        file.extend(code.to_le_bytes());
        file.extend(0u64.to_le_bytes());
        file.resize(file.len().next_multiple_of(32), 0);
        // Small scales: no infinities.
        file.extend((0..len).map(|at| if at % bytes < 2 { 0x11 } else { (at * 31 % 97) as u8 }));
        let model = OpenOptions::new().open_memory("t", file).expect("a file");
        let provider = WeightProvider::new(model, Arc::clone(&gpu)).expect("a provider");
        let loaded = provider.load("t").expect("it loads");
        let tensor = loaded.kernel_tensor(provider.device()).expect("a kernel");
        let buffer = |bytes: u64| {
            gpu.wgpu_device().create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: bytes,
                usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            })
        };
        let (x, y) = (buffer(4 * columns), buffer(4 * rows));
        let best = |run: &mut dyn FnMut()| {
            let time = |_| {
                let start = Instant::now();
                run();
                start.elapsed().as_secs_f64()
            };
            (0..11).map(time).skip(1).fold(f64::INFINITY, f64::min)
        };
        let far = best(&mut || {
            let operation = Operation::MatrixVector;
            let (input, experts) = (Some(&x), None);
            let call = KernelCall { operation, count: 1, input, output: &y, experts };
            gpu.compute(&tensor, &loaded.buffer, call).expect("it runs");
            gpu.finish().expect("it is done");
        });
        let view = provider.tensor("t").expect("the tensor");
        let input = vec![0.5f32; columns as usize];
        let mut out = vec![0f32; rows as usize];
        let near = best(&mut || {
            let mut reader = view.row_reader().expect("a reader");
            reader.multiply_rows(0..rows, &input, &mut out).expect("products");
        });
        println!(
            "{name:6} {:7.2} ms, {:5.2} GB/s; CPU {:7.2} ms; ratio {:.3}",
            far * 1e3,
            len as f64 / far / 1e9,
            near * 1e3,
            near / far,
        );
    }
}
