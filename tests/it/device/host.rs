//! Devices that take the file's own memory, that refuse dtypes, and that transfer in words; and
//! threads that load the same tensor.
#![allow(clippy::cast_possible_truncation, reason = "the sizes are the test's own")]

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use weighbridge::device::{BufferLayout, Cpu, Device, DeviceLimits, HostMemory, split_at};
use weighbridge::load::LoadedTensor;
use weighbridge::{DType, ErrorKind, LoadOptions, Model, Part, Result, WeightProvider};

use crate::support::{Gguf, Kv, Safetensors, folder};

/// The bytes of a memory page on any machine, or a multiple of them.
const PAGE: u64 = 1 << 16;

/// Host memory that a test looks into.
#[derive(Debug, Default)]
pub(crate) struct Host {
    imports: bool,
    refuses: Vec<DType>,
    unit: u64,
    /// The most bytes that a kernel uses at once.
    binding: Option<u64>,
    /// The ranges that were filled.
    ranges: Mutex<Vec<Range<u64>>>,
    /// The number of regions that have been filled, and whether that takes a while.
    filled: AtomicUsize,
    is_slow: bool,
}

impl Host {
    /// A device whose kernels use at most so many bytes at once.
    pub(crate) fn binding(bytes: u64) -> Self {
        Self { binding: Some(bytes), ..Self::default() }
    }
}

#[derive(Debug)]
pub(crate) enum Buffer {
    Own(Vec<u8>),
    Imported(HostMemory),
}

impl Buffer {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Imported(memory) => memory.bytes(),
        }
    }
}

impl Device for Host {
    type Buffer = Buffer;
    type Region<'b> = &'b mut [u8];

    fn name(&self) -> Cow<'_, str> {
        "host".into()
    }

    fn limits(&self) -> DeviceLimits {
        let mut limits = DeviceLimits::new(64);
        limits.unit = self.unit.max(1);
        limits.import = self.imports.then_some(4096);
        limits.binding = self.binding.unwrap_or(limits.binding);
        limits
    }

    fn supports(&self, dtype: DType) -> bool {
        !self.refuses.contains(&dtype)
    }

    fn import(&self, memory: HostMemory) -> Option<Buffer> {
        assert!(memory.bytes().len().is_multiple_of(4096) && !memory.bytes().is_empty());
        Some(Buffer::Imported(memory))
    }

    fn allocate(&self, layout: &BufferLayout) -> Result<Buffer> {
        Ok(Buffer::Own(vec![0xaa; layout.bytes as usize]))
    }

    fn regions<'b>(
        &self,
        buffer: &'b mut Buffer,
        ranges: &[Range<u64>],
    ) -> Result<Vec<&'b mut [u8]>> {
        self.ranges.lock().unwrap().extend_from_slice(ranges);
        match buffer {
            Buffer::Own(bytes) => split_at(bytes, ranges),
            Buffer::Imported(_) => panic!("a file's memory is not filled"),
        }
    }

    fn fill(
        &self,
        region: &mut [u8],
        write: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        if self.is_slow {
            std::thread::sleep(Duration::from_millis(100));
        }
        self.filled.fetch_add(1, Ordering::Relaxed);
        write(region)
    }

    fn read(&self, buffer: &Buffer, offset: u64, out: &mut [u8]) -> Result<()> {
        out.copy_from_slice(&buffer.bytes()[offset as usize..][..out.len()]);
        Ok(())
    }
}

fn provider(folder: &TempDir, device: Host) -> WeightProvider<Host> {
    WeightProvider::new(Model::open(folder.path()).unwrap(), device).unwrap()
}

/// Bytes that do not repeat soon.
fn bytes(seed: usize, len: u64) -> Vec<u8> {
    (0..len as usize).map(|n| (n * 7 + n / 251 + seed) as u8).collect()
}

/// A file of long tensors and a short one. After the last, the file ends within a page.
fn long_and_short() -> TempDir {
    let file = Gguf::new()
        .tensor("long", DType::I8, &[2, PAGE], bytes(1, 2 * PAGE))
        .tensor("short", DType::I8, &[100], bytes(2, 100))
        .tensor("between", DType::I8, &[PAGE], bytes(3, PAGE))
        .tensor("last", DType::I8, &[PAGE + 100], bytes(4, PAGE + 100));
    folder(&[("model.gguf", file.build())])
}

#[test]
fn a_device_takes_the_memory_of_the_file() {
    let folder = long_and_short();
    let provider = provider(&folder, Host { imports: true, ..Host::default() });
    let all = provider.load_all(|_| true, &LoadOptions::new()).unwrap();
    assert_eq!(all.len(), 4);
    for tensor in &all {
        let name = tensor.members[0].name.as_str();
        // A short tensor is copied, and one whose last page is not all in the file.
        assert_eq!(tensor.imported, ["long", "between"].contains(&name), "{name}");
        let expected = provider.tensor(name).unwrap();
        let expected = expected.bytes(Part::Weight).unwrap();
        assert_eq!(tensor.read(provider.device(), Part::Weight).unwrap(), *expected, "{name}");
        provider.verify(tensor).unwrap_or_else(|error| panic!("{name}: {error}"));
        let range = &tensor.parts[0].range;
        assert_eq!(range.end - range.start, expected.len() as u64);
        assert!(!tensor.imported || !range.start.is_multiple_of(4096), "within a page");
    }
    // What is converted is not imported.
    let other = WeightProvider::new(
        Model::open(folder.path()).unwrap(),
        Host { imports: true, refuses: vec![DType::I8], ..Host::default() },
    );
    let other = other.unwrap().fallback(&[DType::F32]);
    assert!(!other.load("long").unwrap().imported);
}

#[test]
fn parts_that_are_no_floats_are_decoded_with_their_codes() {
    // MLX's MXFP4: codes in words, and scales that are bytes.
    let file = Safetensors::new()
        .metadata("format", "mlx")
        .tensor("l.weight", "U32", &[4, 8], bytes(5, 128))
        .tensor("l.scales", "U8", &[4, 2], vec![126, 127, 128, 129, 125, 124, 123, 130]);
    let config = r#"{"quantization": {"group_size": 32, "bits": 4, "mode": "mxfp4"}}"#;
    let folder = folder(&[("config.json", config.into()), ("model.safetensors", file.build())]);
    let device = || Host { refuses: vec![DType::U8], ..Host::default() };
    let error = provider(&folder, device()).load("l.weight").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("U8, the dtype of its scale part"), "{error}");
    let provider = provider(&folder, device()).fallback(&[DType::F32]);
    let loaded = provider.load("l.weight").unwrap();
    let why = Some("the device does not support its dtype");
    assert_eq!((loaded.dtype, loaded.computed, loaded.parts.len()), (DType::F32, why, 1));
    let values = provider.tensor("l.weight").unwrap().dequantize().unwrap();
    let found = loaded.read(provider.device(), Part::Weight).unwrap();
    assert_eq!(found, crate::support::f32s(&values));
}

/// Blocks of 34 bytes are cut where a device that transfers words can cut them.
#[test]
fn long_blocks_are_filled_in_pieces_of_whole_words() {
    let rows = (17u64 << 20) / 34;
    let blocks = bytes(6, rows * 34);
    let file = Gguf::new().tensor("t", DType::Q8_0, &[rows, 32], blocks.clone());
    let folder = folder(&[("model.gguf", file.build())]);
    let provider = provider(&folder, Host { unit: 4, ..Host::default() });
    let loaded = provider.load("t").unwrap();
    let ranges = provider.device().ranges.lock().unwrap().clone();
    assert_eq!(ranges.len(), 3, "{ranges:?}");
    let longest = ranges.iter().map(|range| range.end - range.start).max().unwrap();
    assert!(longest <= (8 << 20) + 4 * 34, "{ranges:?}");
    assert!(loaded.read(provider.device(), Part::Weight).unwrap() == blocks);
}

/// Rows in another order are read together, and not one by one.
#[test]
fn short_rows_are_filled_together() {
    let (rows, columns) = (32, 8);
    let number = |key: &str, value: u32| (format!("llama.{key}"), Kv::U32(value));
    let keys = [number("block_count", 1), number("embedding_length", 8)];
    let heads = ["attention.head_count", "attention.head_count_kv"].map(|key| number(key, 4));
    let file =
        keys.into_iter().chain(heads).fold(
            Gguf::new().key("general.architecture", Kv::text("llama")),
            |file, (key, value)| file.key(key, value),
        );
    let stored = bytes(7, rows * columns);
    let file = file.tensor("blk.0.attn_q.weight", DType::I8, &[rows, columns], stored.clone());
    let folder = folder(&[("model.gguf", file.build())]);
    let provider = provider(&folder, Host::default());
    let name = "layers.0.attention.q.weight";
    let loaded = provider.load(name).unwrap();
    let ranges = provider.device().ranges.lock().unwrap().clone();
    assert_eq!(ranges, std::slice::from_ref(&(0..rows * columns)));
    let found = loaded.read(provider.device(), Part::Weight).unwrap();
    assert_eq!(found, *provider.tensor(name).unwrap().bytes(Part::Weight).unwrap());
    assert_ne!(found, stored);
}

/// Rows that follow one another in the file and in the buffer are one piece, however long they are.
#[test]
fn adjacent_rows_are_filled_at_once() {
    let shape = [10, PAGE];
    let (a, b) = (bytes(1, 10 * PAGE), bytes(2, 10 * PAGE));
    let file = Gguf::new().tensor("a", DType::I8, &shape, a.clone()).tensor(
        "b",
        DType::I8,
        &shape,
        b.clone(),
    );
    let folder = folder(&[("model.gguf", file.build())]);
    let provider = provider(&folder, Host::default());
    let fused = provider.fuse(&["a", "b"]).unwrap();
    let ranges = provider.device().ranges.lock().unwrap().clone();
    assert_eq!(ranges, [0..10 * PAGE, 10 * PAGE..20 * PAGE]);
    assert!(fused.read(provider.device(), Part::Weight).unwrap() == [a, b].concat());
}

/// A row of IQ4_KS is a scale and its blocks: no whole number of blocks.
#[test]
fn rows_that_start_with_their_scale_are_loaded_whole() {
    let stored = bytes(3, 2 * DType::IQ4_KS.row_bytes(256).unwrap());
    let file = Gguf::new().tensor("t", DType::IQ4_KS, &[2, 256], stored.clone());
    let folder = folder(&[("model.gguf", file.build())]);
    let provider = provider(&folder, Host::default());
    let loaded = provider.load("t").unwrap();
    assert_eq!(loaded.read(provider.device(), Part::Weight).unwrap(), stored);
    assert_eq!(loaded.parts[0].row_bytes, Some(stored.len() as u64 / 2));
}

/// Short tensors and long ones in one buffer, in any order.
#[test]
fn short_rows_come_before_the_long_ones_that_follow_them() {
    let tensor = |file: Gguf, name: &str, rows: u64| {
        file.tensor(name, DType::I8, &[rows, 64], bytes(name.len(), rows * 64))
    };
    let file = tensor(tensor(tensor(Gguf::new(), "a", 3), "long", 2000), "short", 5);
    let folder = folder(&[("model.gguf", file.build())]);
    for unit in [1, 4] {
        let provider = provider(&folder, Host { unit, ..Host::default() });
        for names in [["a", "long", "short"], ["short", "a", "long"], ["long", "short", "a"]] {
            let expected: Vec<u8> = names
                .iter()
                .flat_map(|name| {
                    provider.tensor(name).unwrap().bytes(Part::Weight).unwrap().to_vec()
                })
                .collect();
            let fused = provider.fuse(&names).unwrap();
            assert_eq!(fused.shape, [2008, 64]);
            let found = fused.read(provider.device(), Part::Weight).unwrap();
            assert!(found == expected, "{names:?}");
            provider.verify(&fused).unwrap();
        }
    }
}

/// Experts of two tensors in one buffer, of which a member is longer than a piece.
#[test]
fn long_members_are_split_back_piece_by_piece() {
    let shape = [2, 1600, 4096];
    let len = shape.iter().product::<u64>();
    let file = Gguf::new().tensor("a", DType::I8, &shape, bytes(8, len)).tensor(
        "b",
        DType::I8,
        &shape,
        bytes(9, len),
    );
    let folder = folder(&[("model.gguf", file.build())]);
    let provider = WeightProvider::open(folder.path()).unwrap();
    let fused = provider.fuse(&["a", "b"]).unwrap();
    for (name, seed) in [("a", 8), ("b", 9)] {
        let split = fused.split(&Cpu, name).unwrap();
        assert_eq!(split.shape, shape);
        assert!(split.contents(&Cpu, Part::Weight).unwrap() == bytes(seed, len), "{name}");
    }
}

/// Threads that request a tensor while another loads it wait for that one.
#[test]
fn a_tensor_is_loaded_once_for_all_threads() {
    const THREADS: usize = 4;
    let folder = long_and_short();
    let provider = &provider(&folder, Host { is_slow: true, ..Host::default() });
    let start = &Barrier::new(THREADS);
    let load = || {
        start.wait();
        provider.load("long").unwrap()
    };
    let loaded: Vec<Arc<LoadedTensor<Host>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(load)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(loaded.iter().all(|one| Arc::ptr_eq(one, &loaded[0])));
    assert_eq!(provider.device().filled.load(Ordering::Relaxed), 1);
}
