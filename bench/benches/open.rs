//! Opening models: the header is read, parsed, checked and indexed. The cache is hot, and one
//! thread is used unless stated.
//!
//! The peers get a new memory map of the whole file each time, as in programs that use them.

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use criterion::{BatchSize, Criterion};
use weighbridge::container::ollama;
use weighbridge::{Model, OpenOptions};
use weighbridge_bench::{input, print_ratios};

fn map(path: &Path) -> memmap2::Mmap {
    let file = std::fs::File::open(path).expect("the input was made");
    // SAFETY: the file belongs to this program, and nobody changes it.
    unsafe { memmap2::Mmap::map(&file) }.expect("the input can be mapped")
}

fn gguf(c: &mut Criterion, name: &str, path: &Path, keys: usize, tensors: usize) {
    let mut group = c.benchmark_group(name);
    group.bench_function("weighbridge", |b| {
        b.iter(|| {
            let store = Model::open(path).expect("opens");
            assert_eq!((store.metadata().len(), store.len()), (keys, tensors));
            store
        });
    });
    group.bench_function("ggus", |b| {
        b.iter(|| {
            let map = map(path);
            let gguf = ggus::GGuf::new(&map).expect("opens");
            assert_eq!((gguf.meta_kvs.len(), gguf.tensors.len()), (keys, tensors));
        });
    });
    group.bench_function("candle", |b| {
        b.iter(|| {
            let map = map(path);
            let mut reader = std::io::Cursor::new(&map[..]);
            let gguf =
                candle_core::quantized::gguf_file::Content::read(&mut reader).expect("opens");
            assert_eq!((gguf.metadata.len(), gguf.tensor_infos.len()), (keys, tensors));
            gguf
        });
    });
    floor(&mut group, path);
    group.finish();
}

/// The cost of names after the header is read: the architecture, canonical names, the config, and
/// every tensor.
fn resolve(c: &mut Criterion, name: &str, path: &Path, tensors: usize) {
    let mut group = c.benchmark_group(name);
    group.bench_function("names_and_views", |b| {
        b.iter_batched(
            || Model::open(path).expect("opens"),
            |model| {
                assert_eq!(model.resolution().expect("resolves").mapped.len(), tensors);
                let view = |name: &str| model.tensor(name).expect("a view").elements();
                assert!(model.names().expect("resolves").map(view).sum::<u64>() > 0);
                assert!(model.config().expect("a config").dim.value > 0);
                model
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

/// The lower bound for any reader: copying the header's bytes into new memory.
fn floor(group: &mut criterion::BenchmarkGroup<'_, criterion::measurement::WallTime>, path: &Path) {
    group.bench_function("floor_read_file", |b| {
        b.iter(|| black_box(std::fs::read(path).expect("reads")).len());
    });
}

fn safetensors(c: &mut Criterion, name: &str, path: &Path, tensors: usize) {
    let mut group = c.benchmark_group(name);
    group.bench_function("weighbridge", |b| {
        b.iter(|| {
            let store = Model::open(path).expect("opens");
            assert_eq!(store.len(), tensors);
            store
        });
    });
    group.bench_function("safetensors", |b| {
        b.iter(|| {
            let map = map(path);
            let file = safetensors::SafeTensors::deserialize(&map).expect("opens");
            assert_eq!(file.len(), tensors);
        });
    });
    floor(&mut group, path);
    group.finish();
}

fn shards(c: &mut Criterion, name: &str, folder: &Path) {
    let mut group = c.benchmark_group(name);
    for threads in [1, 2] {
        group.bench_function(format!("weighbridge_{threads}_threads"), |b| {
            b.iter(|| {
                let store = OpenOptions::new().threads(threads).open(folder).expect("opens");
                assert_eq!(store.len(), 89_600);
                store
            });
        });
    }
    let paths: Vec<_> =
        (1..=160).map(|n| folder.join(format!("model-{n:05}-of-00160.safetensors"))).collect();
    group.bench_function("safetensors", |b| {
        b.iter(|| {
            let found: usize = paths
                .iter()
                .map(|path| {
                    let map = map(path);
                    safetensors::SafeTensors::deserialize(&map).expect("opens").len()
                })
                .sum();
            assert_eq!(found, 89_600);
        });
    });
    group.finish();
}

fn ollama(c: &mut Criterion, store: &Path) {
    let mut group = c.benchmark_group("ollama");
    let manifest = store.join("manifests/registry.ollama.ai/library/big/latest");
    group.bench_function("open_700_blobs", |b| {
        b.iter(|| {
            let store = Model::open(&manifest).expect("opens");
            assert_eq!(store.len(), 700);
            store
        });
    });
    group.bench_function("list_10000_manifests", |b| {
        b.iter(|| {
            let options = OpenOptions::new();
            let (_, models, faults) = ollama::models(Some(store), &options).expect("lists");
            assert_eq!((models.len(), faults.len()), (10_001, 0));
        });
    });
    group.finish();
}

fn main() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| folder.path().join(name);
    input::gguf_with_vocabulary(&at("vocabulary.gguf"));
    input::small_gguf(&at("small.gguf"));
    input::safetensors(&at("large.safetensors"), 0, 90_000);
    input::safetensors(&at("small.safetensors"), 0, 300);
    std::fs::create_dir(at("indexed")).expect("a directory");
    input::shards(&at("indexed"), true);
    std::fs::create_dir(at("unindexed")).expect("a directory");
    input::shards(&at("unindexed"), false);

    let mut c = Criterion::default()
        .measurement_time(Duration::from_secs(4))
        .warm_up_time(Duration::from_secs(1))
        .configure_from_args();
    gguf(&mut c, "open_gguf_vocabulary", &at("vocabulary.gguf"), 8, 700);
    gguf(&mut c, "open_gguf_small", &at("small.gguf"), 100, 200);
    resolve(&mut c, "resolve_gguf_700", &at("vocabulary.gguf"), 700);
    safetensors(&mut c, "open_safetensors_90000", &at("large.safetensors"), 90_000);
    safetensors(&mut c, "open_safetensors_300", &at("small.safetensors"), 300);
    shards(&mut c, "open_160_shards", &at("unindexed"));
    shards(&mut c, "open_160_shards_index", &at("indexed"));
    input::ollama_store(&at("store"));
    ollama(&mut c, &at("store"));
    c.final_summary();

    for group in [
        "open_gguf_vocabulary",
        "open_gguf_small",
        "open_safetensors_90000",
        "open_safetensors_300",
    ] {
        print_ratios(group, "weighbridge");
    }
    print_ratios("open_160_shards", "weighbridge_1_threads");
    print_ratios("open_160_shards_index", "weighbridge_1_threads");
}
