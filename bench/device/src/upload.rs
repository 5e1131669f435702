//! Loading to a GPU beside the raw way of wgpu, and beside a copy of pinned memory. The raw way is one thread
//! that reads 8 MiB at a time and calls `write_buffer_with`. The file is in the page cache.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use weighbridge::device::{BufferLayout, Device as _};
use weighbridge::{LoadOptions, Model, WeightProvider};
use weighbridge_gpu::{Gpu, wgpu};

use crate::cuda;
use crate::files::{F16, Gguf};

const TENSOR: usize = 32 << 20;
const PIECE: usize = 8 << 20;

pub(crate) fn run(mib: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let count = (mib << 20).div_ceil(TENSOR);
    let bytes = count * TENSOR;
    let mut file = Gguf::new();
    file.tensors = (0..count)
        .map(|number| (format!("t{number}"), vec![TENSOR as u64 / 2 / 4096, 4096], F16))
        .collect();
    let tensor = F16.numbers(TENSOR as u64 / 2, 1);
    file.write(&path, |_, _, _| tensor.clone());
    let gpu = Arc::new(Gpu::open(None).expect("a GPU"));
    println!("{}, {} ({})", gpu.info().name, gpu.info().driver, gpu.info().backend);
    let show = |what: &str, seconds: f64, pinned: Option<f64>| {
        let rate = bytes as f64 / seconds;
        let share =
            pinned.map_or(String::new(), |pinned| format!(", {:.2} of pinned", rate / pinned));
        println!("{what:32} {:8.1} ms, {:6.2} GB/s{share}", seconds * 1e3, rate / 1e9);
    };
    let pinned = cuda::pinned_copy(bytes);
    match pinned {
        Some(rate) => show("pinned copy, by CUDA's driver", bytes as f64 / rate, pinned),
        None => println!("no driver of CUDA: no pinned copy"),
    }
    let best = |run: &mut dyn FnMut() -> f64| (0..3).map(|_| run()).fold(f64::INFINITY, f64::min);
    show("raw write_buffer_with", best(&mut || raw(&gpu, &path, count)), pinned);
    let allocating = best(&mut || {
        let start = Instant::now();
        let layout = BufferLayout::new(TENSOR as u64);
        let held: Vec<_> = (0..count).map(|_| gpu.allocate(&layout).expect("memory")).collect();
        let seconds = start.elapsed().as_secs_f64();
        drop(held);
        seconds
    });
    show("the driver's allocations alone", allocating, None);
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let mut threads = vec![1, 4, 8, all];
    threads.retain(|threads| *threads <= all);
    threads.dedup();
    for is_imported in [true, false] {
        let used = Gpu::open(None).expect("a GPU");
        let used = Arc::new(if is_imported { used } else { used.without_import() });
        if is_imported && used.limits().import.is_none() {
            continue;
        }
        for &threads in &threads {
            let seconds = best(&mut || {
                let start = Instant::now();
                let model = Model::open(&path).expect("the model");
                let provider = WeightProvider::new(model, Arc::clone(&used)).expect("a provider");
                let options = LoadOptions::new().threads(threads);
                let held = provider.load_all(|_| true, &options).expect("it loads");
                used.finish().expect("it is there");
                let seconds = start.elapsed().as_secs_f64();
                drop(held);
                seconds
            });
            let way = if is_imported { "imported" } else { "copied" };
            show(&format!("ours, {way}, {threads} threads"), seconds, pinned);
        }
    }
}

/// Positioned reads into host memory, whose pieces go to staging memory of the driver.
fn raw(gpu: &Gpu, path: &Path, count: usize) -> f64 {
    let file = File::open(path).expect("the file");
    let mut stage = vec![0u8; PIECE];
    let mut held = Vec::new();
    let start = Instant::now();
    for first in (0..count).map(|number| (number * TENSOR) as u64) {
        let buffer = gpu.wgpu_device().create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: TENSOR as u64,
            usage: wgpu::BufferUsages::STORAGE
                | wgpu::BufferUsages::COPY_DST
                | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: false,
        });
        for at in (0..TENSOR).step_by(PIECE) {
            (&file).seek(SeekFrom::Start(first + at as u64)).expect("a position");
            (&file).read_exact(&mut stage).expect("it is read");
            let size = NonZeroU64::new(PIECE as u64).expect("a size");
            let mut view =
                gpu.wgpu_queue().write_buffer_with(&buffer, at as u64, size).expect("staging");
            view.copy_from_slice(&stage);
            drop(view);
            gpu.wgpu_queue().submit([]);
        }
        held.push(buffer);
    }
    gpu.finish().expect("it is there");
    start.elapsed().as_secs_f64()
}
