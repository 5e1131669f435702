//! The provider: what is loaded, fused, split, shared out, kept and dropped.

#![allow(clippy::cast_possible_truncation, reason = "the sizes are the test's own")]

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use crate::support::{Gguf, Kv, Safetensors, f32s, folder};
use tempfile::TempDir;
use weighbridge::device::{BufferLayout, Cpu, Device, DeviceLimits, Paper};
use weighbridge::load::{DispatchTable, Fusion, LoadedTensor};
use weighbridge::model::{Axis, Convention};
use weighbridge::{
    DType, Error, ErrorKind, LoadOptions, OpenOptions, Part, Policy, Result, WeightProvider,
};
use zerocopy::{FromBytes, IntoBytes};

const HEADS: u64 = 4;
const KV_HEADS: u64 = 2;
const HEAD: u64 = 8;
const DIM: u64 = 64;

fn bytes(seed: u64, len: u64) -> Vec<u8> {
    // Small exponents in every 16 bits, so that no scale is NaN or infinite.
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut byte = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8 & 0x3B
    };
    (0..len).map(|_| byte()).collect()
}

/// A layer whose q, k and v have these dtypes.
fn layer(q: DType, k: DType, v: DType) -> TempDir {
    let number = |value: u64| Kv::U32(u32::try_from(value).unwrap());
    let mut file = Gguf::new()
        .key("general.architecture", Kv::text("llama"))
        .key("llama.block_count", number(1))
        .key("llama.embedding_length", number(DIM))
        .key("llama.attention.head_count", number(HEADS))
        .key("llama.attention.head_count_kv", number(KV_HEADS))
        .key("llama.attention.key_length", number(HEAD));
    let matrices = [
        ("blk.0.attn_q.weight", q, HEADS * HEAD),
        ("blk.0.attn_k.weight", k, KV_HEADS * HEAD),
        ("blk.0.attn_v.weight", v, KV_HEADS * HEAD),
        ("blk.0.ffn_gate.weight", q, 96),
        ("blk.0.ffn_up.weight", q, 96),
    ];
    for (seed, (name, dtype, rows)) in (1..).zip(matrices) {
        let len = dtype.row_bytes(DIM).unwrap() * rows;
        file = file.tensor(name, dtype, &[rows, DIM], bytes(seed, len));
    }
    let norm: Vec<f32> = (0..DIM).map(|value| value as f32 / 8.0 - 3.0).collect();
    file = file.tensor("blk.0.attn_norm.weight", DType::F32, &[DIM], f32s(&norm));
    folder(&[("model.gguf", file.build())])
}

const QKV: [&str; 3] =
    ["layers.0.attention.q.weight", "layers.0.attention.k.weight", "layers.0.attention.v.weight"];
const GATE_UP: [&str; 2] = ["layers.0.ffn.gate.weight", "layers.0.ffn.up.weight"];

/// Every way to reach a file's bytes.
fn providers(folder: &TempDir) -> [WeightProvider; 2] {
    [OpenOptions::new(), OpenOptions::new().read()]
        .map(|options| WeightProvider::new(options.open(folder.path()).unwrap(), Cpu).unwrap())
}

/// The bytes of a part.
fn part(loaded: &LoadedTensor<Cpu>, part: Part) -> &[u8] {
    let part = loaded.parts.iter().find(|found| found.part == part).unwrap();
    &loaded.buffer[part.range.start as usize..part.range.end as usize]
}

#[test]
fn fused_bytes_are_those_of_the_parts_and_split_back() {
    for dtype in [DType::F16, DType::Q8_0, DType::Q4_0, DType::F32] {
        let folder = layer(dtype, dtype, dtype);
        for provider in providers(&folder) {
            let fused = provider.fuse(&QKV).unwrap();
            assert_eq!(fused.shape, [(HEADS + 2 * KV_HEADS) * HEAD, DIM]);
            let apart = QKV.map(|name| provider.load(name).unwrap());
            let joined: Vec<u8> =
                apart.iter().flat_map(|one| part(one, Part::Weight).to_vec()).collect();
            assert_eq!(part(&fused, Part::Weight), joined, "{dtype}");
            for (name, alone) in QKV.iter().zip(&apart) {
                let split = fused.split(&Cpu, name).unwrap();
                assert_eq!(&*split.buffer, &*alone.buffer, "{dtype} {name}");
                assert_eq!((&split.shape, split.dtype), (&alone.shape, alone.dtype));
                assert_eq!(split.parts[0].shape, alone.parts[0].shape, "{dtype} {name}");
            }
            assert!(Arc::ptr_eq(&fused, &provider.fuse(&QKV).unwrap()), "cached");
            assert_eq!(fused.split(&Cpu, "no").unwrap_err().kind(), ErrorKind::NotFound);
        }
    }
}

#[test]
fn dtypes_that_differ_are_named_and_split_into_the_fewest() {
    let folder = layer(DType::Q4_0, DType::Q4_0, DType::Q8_0);
    for provider in providers(&folder) {
        let error = provider.fuse(&QKV).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        let text = error.to_string();
        assert!(
            text.contains("Q4_0") && text.contains("Q8_0") && text.contains("attn_v"),
            "{text}"
        );
        let split = provider.fuse_or_split(&QKV).unwrap();
        let members = |loaded: &Arc<LoadedTensor<Cpu>>| loaded.members.len();
        assert_eq!(split.iter().map(members).collect::<Vec<_>>(), [2, 1]);
        // Not neighbours, but joinable.
        let folder = layer(DType::Q4_0, DType::Q8_0, DType::Q4_0);
        let provider = WeightProvider::open(folder.path()).unwrap();
        let split = provider.fuse_or_split(&QKV).unwrap();
        let names = |loaded: &Arc<LoadedTensor<Cpu>>| {
            loaded.members.iter().map(|member| member.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&split[0]), [QKV[0], QKV[2]]);
        assert_eq!(names(&split[1]), [QKV[1]]);
        // As numbers they can all be joined.
        let provider = WeightProvider::open(folder.path()).unwrap().policy(Policy::F16);
        assert_eq!(provider.fuse_or_split(&QKV).unwrap().len(), 1);
    }
}

#[test]
fn policies_give_the_values_in_that_dtype() {
    let folder = layer(DType::Q8_0, DType::Q8_0, DType::Q8_0);
    for policy in [Policy::F32, Policy::F16, Policy::BF16] {
        for provider in providers(&folder) {
            let provider = provider.policy(policy);
            for name in QKV.into_iter().chain(["layers.0.attention_norm.weight"]) {
                let loaded = provider.load(name).unwrap();
                let exact = provider.tensor(name).unwrap().dequantize().unwrap();
                let values: Vec<f32> = match policy {
                    Policy::F32 => <[f32]>::ref_from_bytes(&loaded.buffer).unwrap().to_vec(),
                    Policy::F16 => {
                        let halves = <[half::f16]>::ref_from_bytes(&loaded.buffer).unwrap();
                        halves.iter().map(|value| value.to_f32()).collect()
                    }
                    _ => {
                        let halves = <[half::bf16]>::ref_from_bytes(&loaded.buffer).unwrap();
                        halves.iter().map(|value| value.to_f32()).collect()
                    }
                };
                let rounded: Vec<f32> = exact
                    .iter()
                    .map(|&value| match policy {
                        Policy::F32 => value,
                        Policy::F16 => half::f16::from_f32(value).to_f32(),
                        _ => half::bf16::from_f32(value).to_f32(),
                    })
                    .collect();
                assert_eq!(values, rounded, "{policy:?} {name}");
            }
        }
    }
}

/// A policy says what becomes of floats; integers stay as they are.
#[test]
fn integers_are_not_converted() {
    let file = Gguf::new().tensor("t", DType::I8, &[4], [1, 2, 3, 0xff]).build();
    for policy in [Policy::F32, Policy::F16, Policy::BF16, Policy::PackedF16] {
        let store = OpenOptions::new().open_memory("file", file.clone()).unwrap();
        let loaded = WeightProvider::new(store, Cpu).unwrap().policy(policy).load("t").unwrap();
        assert_eq!((loaded.dtype, &loaded.buffer[..4]), (DType::I8, &[1, 2, 3, 0xff][..]));
        assert_eq!(loaded.computed, None, "{policy:?}");
    }
}

#[test]
fn rows_of_q_and_k_are_put_back_unless_the_files_own_are_asked_for() {
    let folder = layer(DType::Q8_0, DType::Q8_0, DType::Q8_0);
    let canonical = WeightProvider::open(folder.path()).unwrap();
    let stored = WeightProvider::open(folder.path()).unwrap().convention(Convention::Stored);
    let row = DType::Q8_0.row_bytes(DIM).unwrap() as usize;
    for (name, heads) in [(QKV[0], HEADS), (QKV[1], KV_HEADS)] {
        let (ours, theirs) = (canonical.load(name).unwrap(), stored.load(name).unwrap());
        let rows = |loaded: &LoadedTensor<Cpu>| -> Vec<Vec<u8>> {
            part(loaded, Part::Weight).chunks(row).map(<[u8]>::to_vec).collect()
        };
        let (ours, theirs) = (rows(&ours), rows(&theirs));
        let half = HEAD / 2;
        for head in 0..heads {
            for c in 0..2 {
                for i in 0..half {
                    let to = (head * HEAD + c * half + i) as usize;
                    let from = (head * HEAD + 2 * i + c) as usize;
                    assert_eq!(ours[to], theirs[from], "{name} {head} {c} {i}");
                }
            }
        }
    }
    let v = |provider: &WeightProvider| provider.load(QKV[2]).unwrap().buffer.to_vec();
    assert_eq!(v(&canonical), v(&stored));
}

#[test]
fn all_at_once_is_each_by_itself() {
    let folder = layer(DType::Q4_0, DType::Q4_0, DType::Q8_0);
    let fusions: Vec<&Fusion> = ["qkv", "gate-up"].map(|name| Fusion::named(name).unwrap()).into();
    for policy in [Policy::Keep, Policy::F16] {
        for provider in providers(&folder) {
            let provider = provider.policy(policy);
            for threads in [1, 2, 5] {
                let done = AtomicU64::new(0);
                let watch = |progress: weighbridge::Progress| {
                    done.fetch_max(progress.done, Ordering::Relaxed);
                    ControlFlow::Continue(())
                };
                let options = LoadOptions::new().fuse(&fusions).threads(threads).progress(&watch);
                let loaded = provider.load_all(|_| true, &options).unwrap();
                let joined = if policy == Policy::Keep { 2 } else { 3 };
                assert!(loaded.iter().any(|tensor| tensor.members.len() == joined));
                let total: u64 = loaded.iter().map(|tensor| tensor.bytes()).sum();
                assert_eq!(done.into_inner(), total);
                let one = providers(&folder).into_iter().next().unwrap().policy(policy);
                let mut members = 0;
                for tensor in &loaded {
                    for member in &tensor.members {
                        let alone = one.load(&member.name).unwrap();
                        let split = tensor.split(&Cpu, &member.name).unwrap();
                        assert_eq!(&*split.buffer, &*alone.buffer, "{}", member.name);
                        members += 1;
                    }
                }
                assert_eq!(members, 6);
                // What was loaded is found again.
                let again =
                    provider.load_all(|_| true, &LoadOptions::new().fuse(&fusions)).unwrap();
                assert!(again.iter().all(|a| loaded.iter().any(|b| Arc::ptr_eq(a, b))));
                provider.unload_all();
            }
        }
    }
}

#[test]
fn loading_can_be_called_off() {
    let folder = layer(DType::F32, DType::F32, DType::F32);
    let provider = WeightProvider::open(folder.path()).unwrap();
    let watch = |_| ControlFlow::Break(());
    let options = LoadOptions::new().progress(&watch);
    let error = provider.load_all(|_| true, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert_eq!(provider.cached_bytes(), 0);
    assert_eq!(provider.load_all(|_| true, &LoadOptions::new()).unwrap().len(), 6);
}

#[test]
fn the_cache_keeps_to_its_budget_and_loads_nothing_twice() {
    let folder = layer(DType::F32, DType::F32, DType::F32);
    let size =
        |name: &str| WeightProvider::open(folder.path()).unwrap().load(name).unwrap().bytes();
    let provider = WeightProvider::open(folder.path()).unwrap().budget(size(QKV[0]) + size(QKV[1]));
    let q = provider.load(QKV[0]).unwrap();
    drop(provider.load(QKV[1]).unwrap());
    assert_eq!(provider.cached_bytes(), size(QKV[0]) + size(QKV[1]));
    drop(provider.load(QKV[2]).unwrap());
    assert!(provider.cached_bytes() <= size(QKV[0]) + size(QKV[1]));
    // q was asked for longest ago and is no longer kept, but somebody has it still.
    assert!(Arc::ptr_eq(&q, &provider.load(QKV[0]).unwrap()));
    drop(q);
    assert!(provider.unload(QKV[2]));
    assert!(!provider.unload(QKV[2]));
    provider.unload_all();
    assert_eq!(provider.cached_bytes(), 0);
}

#[test]
fn shards_are_rows_and_columns_between_blocks() {
    for dtype in [DType::F16, DType::Q8_0] {
        let folder = layer(dtype, dtype, dtype);
        let provider = WeightProvider::open(folder.path()).unwrap();
        for (axis, of) in [(Axis::Rows, 4), (Axis::Rows, 2), (Axis::Rows, 1), (Axis::Columns, 2)] {
            let whole = provider.tensor(GATE_UP[0]).unwrap().dequantize().unwrap();
            for rank in 0..of {
                let shard = provider.shard(GATE_UP[0], axis, rank, of).unwrap();
                let view = provider.tensor(GATE_UP[0]).unwrap().shard(axis, rank, of).unwrap();
                let values = view.dequantize().unwrap();
                assert_eq!(shard.shape, view.shape());
                assert_eq!(*view.copy_bytes(Part::Weight).unwrap(), *part(&shard, Part::Weight));
                let (rows, columns) = (view.shape()[0], view.shape()[1]);
                let (row, column) = match axis {
                    Axis::Rows => (rank * rows, 0),
                    Axis::Columns => (0, rank * columns),
                };
                for r in 0..rows {
                    let at = ((row + r) * DIM + column) as usize;
                    let expected = &whole[at..at + columns as usize];
                    let found = (r * columns) as usize;
                    assert_eq!(&values[found..found + columns as usize], expected);
                }
                let bytes = dtype.row_bytes(columns).unwrap() * rows;
                assert_eq!(part(&shard, Part::Weight).len() as u64, bytes);
                assert_eq!(shard.parts[0].row_bytes, dtype.row_bytes(columns));
                // The packed bytes decode to the same values.
                let file = Gguf::new()
                    .tensor("t", dtype, view.shape(), part(&shard, Part::Weight).to_vec())
                    .build();
                let store = OpenOptions::new().open_memory("shard", file).unwrap();
                assert_eq!(*store.tensor("t").unwrap().dequantize().unwrap(), *values);
            }
        }
        let error = provider.shard(GATE_UP[0], Axis::Rows, 0, 5).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        assert!(provider.shard(GATE_UP[0], Axis::Rows, 4, 4).is_err());
        assert!(provider.shard(GATE_UP[0], Axis::Rows, 0, 0).is_err());
        let by_eight = provider.shard(GATE_UP[0], Axis::Columns, 0, 8);
        assert_eq!(by_eight.is_ok(), dtype == DType::F16, "a block is 32 columns");
    }
}

/// A device whose memory this program cannot reach: bytes are staged, and transferred in words.
#[derive(Debug, Default)]
struct Far {
    refuses: Vec<DType>,
    capacity: Option<u64>,
    /// Bytes that are allocated.
    used: Arc<AtomicU64>,
    threads: Mutex<HashSet<ThreadId>>,
    /// The threads that have to meet before a region is filled: however busy a machine is.
    meeting: usize,
    met: Condvar,
    /// The most threads that it lets fill regions, if it says so.
    most_threads: Option<usize>,
    /// The number of the transfer that fails.
    fails_at: Option<u64>,
    transfers: AtomicU64,
    finished: AtomicU64,
}

#[derive(Debug)]
struct FarBuffer {
    bytes: Mutex<Vec<u8>>,
    used: Arc<AtomicU64>,
}

impl FarBuffer {
    fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }
}

impl Drop for FarBuffer {
    fn drop(&mut self) {
        let len = self.bytes.lock().unwrap().len() as u64;
        self.used.fetch_sub(len, Ordering::Relaxed);
    }
}

impl Device for Far {
    type Buffer = FarBuffer;
    type Region<'b> = (&'b FarBuffer, Range<u64>);

    fn name(&self) -> Cow<'_, str> {
        "far".into()
    }

    fn limits(&self) -> DeviceLimits {
        let mut limits = DeviceLimits::new(256);
        (limits.unit, limits.memory) = (4, self.capacity);
        limits.threads = self.most_threads.unwrap_or(limits.threads);
        limits
    }

    fn supports(&self, dtype: DType) -> bool {
        !self.refuses.contains(&dtype)
    }

    fn allocate(&self, layout: &BufferLayout) -> Result<FarBuffer> {
        assert!(layout.bytes.is_multiple_of(4));
        for part in &layout.parts {
            assert!(part.range.end <= layout.bytes);
        }
        let free = self.capacity.unwrap_or(u64::MAX) - self.used.load(Ordering::Relaxed);
        if layout.bytes > free {
            return Err(Error::out_of_memory("far", layout.bytes, Some(free)));
        }
        self.used.fetch_add(layout.bytes, Ordering::Relaxed);
        // What is not filled would be found by comparing.
        let bytes = Mutex::new(vec![0xAA; layout.bytes as usize]);
        Ok(FarBuffer { bytes, used: Arc::clone(&self.used) })
    }

    fn regions<'b>(
        &self,
        buffer: &'b mut FarBuffer,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Self::Region<'b>>> {
        let len = buffer.bytes.lock().unwrap().len() as u64;
        let mut end = 0;
        for range in ranges {
            assert!(range.start.is_multiple_of(4) && range.end.is_multiple_of(4), "{range:?}");
            assert!(end <= range.start && range.start < range.end && range.end <= len);
            end = range.end;
        }
        let buffer = &*buffer;
        Ok(ranges.iter().map(|range| (buffer, range.clone())).collect())
    }

    fn fill(
        &self,
        (buffer, range): Self::Region<'_>,
        write: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let number = self.transfers.fetch_add(1, Ordering::Relaxed);
        if self.fails_at == Some(number) {
            let cause = std::io::Error::other("the cable is cut");
            return Err(Error::new(ErrorKind::Device, "far is lost").with_source(cause));
        }
        let mut threads = self.threads.lock().unwrap();
        threads.insert(std::thread::current().id());
        self.met.notify_all();
        let alone = |threads: &mut HashSet<ThreadId>| threads.len() < self.meeting;
        drop(self.met.wait_timeout_while(threads, Duration::from_secs(60), alone).unwrap());
        // In eight-byte words, so that it is aligned.
        let len = (range.end - range.start) as usize;
        let mut staging = vec![0x5555_5555_5555_5555u64; len.div_ceil(8)];
        let staging = &mut staging.as_mut_bytes()[..len];
        write(staging)?;
        let mut bytes = buffer.bytes.lock().unwrap();
        bytes[range.start as usize..range.end as usize].copy_from_slice(staging);
        Ok(())
    }

    fn finish(&self) -> Result<()> {
        self.finished.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn read(&self, buffer: &FarBuffer, offset: u64, out: &mut [u8]) -> Result<()> {
        let bytes = buffer.bytes.lock().unwrap();
        out.copy_from_slice(&bytes[offset as usize..][..out.len()]);
        Ok(())
    }
}

fn far(folder: &TempDir, device: Far) -> WeightProvider<Far> {
    WeightProvider::new(OpenOptions::new().open(folder.path()).unwrap(), device).unwrap()
}

#[test]
fn a_device_out_of_reach_gets_the_same() {
    for dtype in [DType::Q8_0, DType::Q6_0, DType::MXFP4, DType::BF16] {
        let folder = layer(dtype, dtype, dtype);
        let far = far(&folder, Far::default());
        let near = WeightProvider::open(folder.path()).unwrap();
        let fused = far.fuse(&QKV).unwrap();
        let expected = near.fuse(&QKV).unwrap();
        assert_eq!(fused.read(far.device(), Part::Weight).unwrap(), part(&expected, Part::Weight));
        assert!(fused.contents(far.device(), Part::Weight).is_none());
        let split = fused.split(far.device(), QKV[1]).unwrap();
        let alone = near.load(QKV[1]).unwrap();
        assert_eq!(split.read(far.device(), Part::Weight).unwrap(), part(&alone, Part::Weight));
        assert!(far.device().finished.load(Ordering::Relaxed) >= 2);
        assert_eq!(split.read(far.device(), Part::Bias).unwrap_err().kind(), ErrorKind::NotFound);
    }
}

#[test]
fn several_threads_fill_a_device_out_of_reach() {
    let long = |seed| bytes(seed, 4 << 20);
    let mut file = Gguf::new();
    for (seed, name) in (1..).zip(["a", "b", "c", "d", "e", "f", "g", "h"]) {
        file = file.tensor(name, DType::F16, &[2048, 1024], long(seed));
    }
    let folder = folder(&[("model.gguf", file.build())]);
    let far = far(&folder, Far { meeting: 2, ..Far::default() });
    let loaded = far.load_all(|_| true, &LoadOptions::new().threads(4)).unwrap();
    assert_eq!(far.device().transfers.load(Ordering::Relaxed), 8);
    assert!(far.device().threads.lock().unwrap().len() > 1);
    for tensor in loaded {
        assert_eq!(tensor.parts[0].range.start, 0, "no lead where nothing is read into place");
        let seed = u64::from(tensor.members[0].name.as_bytes()[0] - b'a') + 1;
        assert_eq!(tensor.read(far.device(), Part::Weight).unwrap(), long(seed));
    }
    let far = self::far(&folder, Far { most_threads: Some(1), ..Far::default() });
    far.load_all(|_| true, &LoadOptions::new().threads(4)).unwrap();
    assert_eq!(far.device().transfers.load(Ordering::Relaxed), 8);
    assert_eq!(far.device().threads.lock().unwrap().len(), 1);
}

#[test]
fn a_shared_device_serves_several_providers() {
    let folder = layer(DType::F16, DType::F16, DType::F16);
    let device = Arc::new(Far::default());
    let open = || {
        let model = OpenOptions::new().open(folder.path()).unwrap();
        WeightProvider::new(model, Arc::clone(&device)).unwrap()
    };
    let (one, other) = (open(), open());
    std::thread::scope(|scope| {
        for provider in [&one, &other] {
            scope.spawn(|| provider.load_all(|_| true, &LoadOptions::new()).unwrap());
        }
    });
    assert_eq!(device.used.load(Ordering::Relaxed), one.cached_bytes() + other.cached_bytes());
    drop((one, other));
    assert_eq!(device.used.load(Ordering::Relaxed), 0, "nothing is left");
}

#[test]
fn a_device_without_memory_says_how_much_it_has() {
    let folder = layer(DType::F32, DType::F32, DType::F32);
    let used = Arc::<AtomicU64>::default();
    let device = Far { capacity: Some(10_000), used: Arc::clone(&used), ..Far::default() };
    let far = far(&folder, device);
    let error = far.load_all(|_| true, &LoadOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    let text = error.to_string();
    assert!(text.contains("far has no memory for ") && text.contains(" are available"), "{text}");
    assert!(text.contains("tensor \""), "{text}");
    assert_eq!((used.load(Ordering::Relaxed), far.cached_bytes()), (0, 0));
}

#[test]
fn a_device_that_is_lost_says_why() {
    let folder = layer(DType::F32, DType::F32, DType::F32);
    let used = Arc::<AtomicU64>::default();
    let device = Far { fails_at: Some(3), used: Arc::clone(&used), ..Far::default() };
    let far = far(&folder, device);
    let error = far.load_all(|_| true, &LoadOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Device);
    assert_eq!(error.to_string(), "far is lost: the cable is cut");
    assert!(std::error::Error::source(&error).is_some());
    assert_eq!(used.load(Ordering::Relaxed), 0);
    // A cancelled load leaves nothing either.
    let far = self::far(&folder, Far { used: Arc::clone(&used), ..Far::default() });
    let watch = |_| ControlFlow::Break(());
    let error = far.load_all(|_| true, &LoadOptions::new().progress(&watch)).unwrap_err();
    assert_eq!((error.kind(), used.load(Ordering::Relaxed)), (ErrorKind::Cancelled, 0));
}

#[test]
fn a_dtype_that_the_device_does_not_support_is_decoded_if_asked() {
    let folder = layer(DType::Q4_0, DType::Q4_0, DType::Q4_0);
    let device = || Far { refuses: vec![DType::Q4_0, DType::BF16], ..Far::default() };
    let error = far(&folder, device()).load(QKV[0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("far does not support Q4_0"), "{error}");
    assert!(far(&folder, device()).policy(Policy::F16).load(QKV[0]).is_ok());
    let provider = far(&folder, device()).fallback(&[DType::BF16, DType::F16, DType::F32]);
    let loaded = provider.load(QKV[0]).unwrap();
    assert_eq!(
        (loaded.dtype, loaded.computed),
        (DType::F16, Some("the device does not support its dtype"))
    );
    let near = WeightProvider::open(folder.path()).unwrap().policy(Policy::F16);
    let expected = near.load(QKV[0]).unwrap();
    assert_eq!(
        loaded.read(provider.device(), Part::Weight).unwrap(),
        part(&expected, Part::Weight)
    );
    // Norms are as stored.
    assert_eq!(provider.load("layers.0.attention_norm.weight").unwrap().dtype, DType::F32);

    // Scales are converted, and the codes stay.
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/sample/mlx-4bit");
    let open =
        |device| WeightProvider::new(OpenOptions::new().open(path).unwrap(), device).unwrap();
    let no_bf16 = || Far { refuses: vec![DType::BF16], ..Far::default() };
    let error = open(no_bf16()).load(QKV[0]).unwrap_err().to_string();
    assert!(error.contains("does not support BF16, the dtype of its scale part"), "{error}");
    let provider = open(no_bf16()).fallback(&[DType::F32]);
    let loaded = provider.load(QKV[0]).unwrap();
    assert_eq!((loaded.dtype, loaded.computed), (DType::MLX_AFFINE4, None));
    let stored = WeightProvider::open(path).unwrap();
    let stored = stored.load(QKV[0]).unwrap();
    for kind in [Part::Scale, Part::Bias] {
        assert_eq!(loaded.part(kind).unwrap().dtype, DType::F32);
        let halves = <[half::bf16]>::ref_from_bytes(part(&stored, kind)).unwrap();
        let expected: Vec<f32> = halves.iter().map(|half| half.to_f32()).collect();
        assert_eq!(loaded.read(provider.device(), kind).unwrap(), f32s(&expected));
    }
    assert_eq!(loaded.read(provider.device(), Part::Weight).unwrap(), part(&stored, Part::Weight));
}

#[test]
fn floats_become_f16_and_codes_stay() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/sample/mlx-4bit");
    let stored = WeightProvider::open(path).unwrap();
    let provider = WeightProvider::open(path).unwrap().policy(Policy::PackedF16).tightly_packed();
    let fused = provider.fuse(&QKV).unwrap();
    assert_eq!(fused.dtype, DType::MLX_AFFINE4);
    // The scales start where the codes end, and the biases where the scales end.
    let ranges =
        [Part::Weight, Part::Scale, Part::Bias].map(|part| fused.part(part).unwrap().range.clone());
    assert_eq!(
        (ranges[0].start, ranges[0].end, ranges[1].end),
        (0, ranges[1].start, ranges[2].start)
    );
    let apart = stored.fuse(&QKV).unwrap();
    assert_eq!(part(&fused, Part::Weight), part(&apart, Part::Weight));
    let halves = <[half::bf16]>::ref_from_bytes(part(&apart, Part::Scale)).unwrap();
    let expected: Vec<u8> =
        halves.iter().flat_map(|half| half::f16::from_f32(half.to_f32()).to_le_bytes()).collect();
    assert_eq!(part(&fused, Part::Scale), expected);
    assert_eq!(provider.load("output_norm.weight").unwrap().dtype, DType::F16);
    // On a device that transfers words, and part by part.
    let device = Far::default();
    let far = WeightProvider::new(OpenOptions::new().open(path).unwrap(), device).unwrap();
    let far = far.tightly_packed().policy_of(|part| match part.part {
        Part::Weight if part.dtype == DType::MLX_AFFINE4 => Policy::Keep,
        Part::Weight => Policy::F32,
        Part::Scale => Policy::F16,
        _ => Policy::F32,
    });
    let loaded = far.load(QKV[0]).unwrap();
    let dtypes =
        [Part::Weight, Part::Scale, Part::Bias].map(|part| loaded.part(part).unwrap().dtype);
    assert_eq!(dtypes, [loaded.part(Part::Weight).unwrap().dtype, DType::F16, DType::F32]);
    assert_eq!(far.load("output_norm.weight").unwrap().dtype, DType::F32);
}

/// The weight is asked for first, and no part twice.
#[test]
fn a_policy_is_asked_for_once_for_each_part() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/sample/mlx-4bit");
    let asked = Arc::new(Mutex::new(Vec::new()));
    let parts = Arc::clone(&asked);
    let provider = WeightProvider::open(path).unwrap().policy_of(move |part| {
        parts.lock().unwrap().push(part.part);
        Policy::Keep
    });
    provider.load(QKV[0]).unwrap();
    assert_eq!(*asked.lock().unwrap(), [Part::Weight, Part::Scale, Part::Bias]);
}

#[test]
fn losses_are_counted_within_reach_and_out_of_it() {
    let values = [1.0f32, 1e-12, 1e12, -1e-12, 1e-12, 0.0, 2.0, -2.0];
    let file = Gguf::new().tensor("t", DType::F32, &[2, 4], f32s(&values)).build();
    let store = || OpenOptions::new().open_memory("file", file.clone()).unwrap();
    let near = WeightProvider::new(store(), Cpu).unwrap().policy(Policy::F16);
    let far = WeightProvider::new(store(), Far::default()).unwrap().policy(Policy::F16);
    let (near, far) = (near.load("t").unwrap(), far.load("t").unwrap());
    for lost in [near.lost, far.lost] {
        assert_eq!((lost.flushes, lost.overflows), (3, 1));
    }
    assert_eq!(&*near.buffer, far.buffer.bytes());
}

/// Parts of odd lengths are padded, and pieces between which a device cannot cut are joined.
#[test]
fn odd_lengths_are_transferred_in_words() {
    let file = Gguf::new()
        .tensor("three", DType::BF16, &[3], bytes(1, 6))
        .tensor("one", DType::BF16, &[1], bytes(2, 2))
        .tensor("bytes", DType::I8, &[7], bytes(3, 7))
        .tensor("blocks", DType::MXFP4, &[5, 32], bytes(4, 85));
    let folder = folder(&[("model.gguf", file.build())]);
    let far = far(&folder, Far::default());
    let near = WeightProvider::open(folder.path()).unwrap();
    let all = [
        &["three"][..],
        &["one"],
        &["bytes"],
        &["blocks"],
        &["three", "one"],
        &["one", "three", "one"],
    ];
    for names in all {
        let (found, expected) = (far.fuse(names).unwrap(), near.fuse(names).unwrap());
        let found = found.read(far.device(), Part::Weight).unwrap();
        assert_eq!(found, part(&expected, Part::Weight), "{names:?}");
    }
}

#[test]
fn a_budget_frees_memory_before_the_next_tensor_is_loaded() {
    let folder = layer(DType::F32, DType::F32, DType::F32);
    let size = |name: &str| far(&folder, Far::default()).load(name).unwrap().bytes();
    let (q, k, v) = (size(QKV[0]), size(QKV[1]), size(QKV[2]));
    // The device has room for q and k only: v is loaded because q was dropped before.
    let used = Arc::<AtomicU64>::default();
    let device = Far { capacity: Some(q + k), used: Arc::clone(&used), ..Far::default() };
    let provider = far(&folder, device).budget(q + k);
    QKV.iter().for_each(|name| drop(provider.load(name).unwrap()));
    assert_eq!(used.load(Ordering::Relaxed), k + v);
    assert_eq!(provider.cached_bytes(), k + v);
    let provider = provider.budget(v);
    assert_eq!((used.load(Ordering::Relaxed), provider.cached_bytes()), (v, v));
    let provider = provider.budget(1);
    assert_eq!((used.load(Ordering::Relaxed), provider.cached_bytes()), (0, 0));
}

#[test]
fn a_fusion_of_the_caller_is_loaded_with_all() {
    static KV: Fusion = Fusion::new("kv", &[".attention.k.", ".attention.v."]);
    let folder = layer(DType::F16, DType::F16, DType::F16);
    let provider = WeightProvider::open(folder.path()).unwrap();
    let loaded = provider.load_all(|_| true, &LoadOptions::new().fuse(&[&KV])).unwrap();
    let joined: Vec<_> = loaded.iter().filter(|tensor| tensor.members.len() == 2).collect();
    assert_eq!(joined.len(), 1);
    assert_eq!(
        joined[0].members.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(),
        &QKV[1..]
    );
}

#[test]
fn excluded_tensors_are_in_no_fusion() {
    let folder = layer(DType::F16, DType::F16, DType::F16);
    let provider = WeightProvider::open(folder.path()).unwrap();
    let fusion = Fusion::named("qkv").expect("a fusion");
    let options = LoadOptions::new().fuse(&[fusion]);
    let loaded = provider.load_all(|name| name != QKV[1], &options).unwrap();
    let members: Vec<&str> =
        loaded.iter().flat_map(|one| &one.members).map(|member| member.name.as_str()).collect();
    assert!(!members.contains(&QKV[1]), "{members:?}");
    assert!(members.contains(&QKV[0]) && members.contains(&QKV[2]));
    let all = provider.load_all(|_| true, &options).unwrap();
    assert!(all.iter().any(|one| one.members.len() == 3), "nothing is excluded");
}

/// Long parts are laid to pages as they lie in the file: every device has them aligned all the same.
#[test]
fn long_parts_are_aligned_wherever_they_lie() {
    const LONG: [u64; 2] = [520, 1024];
    let long = |seed| bytes(seed, 4 * LONG[0] * LONG[1]);
    for between in [8, 16, 24, 72, 1000] {
        let mut file = Gguf::new();
        for (seed, name) in (1..).zip(["a", "b"]) {
            file = file.tensor(name, DType::F32, &LONG, long(seed));
            let between = vec![0; 4 * between as usize];
            file = file.tensor(
                format!("{name}.short"),
                DType::F32,
                &[between.len() as u64 / 4],
                between,
            );
        }
        let folder = folder(&[("model.gguf", file.build())]);
        let near = WeightProvider::open(folder.path()).unwrap();
        let far = far(&folder, Far::default());
        for names in [&["a"][..], &["b"], &["a", "b"]] {
            let (near_one, far_one) = (near.fuse(names).unwrap(), far.fuse(names).unwrap());
            let expected: Vec<u8> =
                names.iter().flat_map(|name| long(if *name == "a" { 1 } else { 2 })).collect();
            assert_eq!(part(&near_one, Part::Weight), expected, "{names:?} {between}");
            assert!(near_one.parts[0].range.start.is_multiple_of(64));
            assert_eq!(far_one.parts[0].range.start, 0);
            assert_eq!(far_one.buffer.bytes(), expected);
        }
    }
}

#[test]
fn parts_come_one_after_another() {
    // MLX: all weights, then all scales, then all biases.
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/sample/mlx-4bit");
    let provider = WeightProvider::open(path).unwrap();
    let fused = provider.fuse(&QKV).unwrap();
    let apart = QKV.map(|name| provider.load(name).unwrap());
    for kind in [Part::Weight, Part::Scale, Part::Bias] {
        let joined: Vec<u8> = apart.iter().flat_map(|one| part(one, kind).to_vec()).collect();
        assert_eq!(part(&fused, kind), joined);
    }
}

/// Codes that cannot be divided between rows and exceed a binding, and dtypes without a kernel.
#[test]
fn the_dispatch_table_says_what_is_decoded() {
    let config = r#"{"model_type":"llama","quantization_config":{"quant_method":"gptq"}}"#;
    let file = Safetensors::new()
        .tensor("one.qweight", "I32", &[64, 256], bytes(1, 64 << 10))
        .tensor("one.scales", "F16", &[2, 256], bytes(2, 1024))
        .tensor("one.qzeros", "I32", &[2, 32], bytes(3, 256))
        .tensor("two", "I64", &[2, 3], bytes(4, 48));
    let files = [("config.json", config.into()), ("model.safetensors", file.build())];
    let folder = folder(&files);
    let table = |binding: u64| {
        let mut paper = Paper::default();
        paper.limits.binding = binding;
        let model = OpenOptions::new().open(folder.path()).unwrap();
        let provider = WeightProvider::new(model, paper).unwrap();
        let table = DispatchTable::build(&provider, |_| true, &[]).unwrap();
        let entries = table.entries.iter();
        let entries = entries.map(|entry| (entry.dtype, entry.tensor.is_some(), entry.computed));
        entries.collect::<Vec<_>>()
    };
    let integers = (DType::F32, true, Some("the device does not support its dtype"));
    assert_eq!(table(64 << 10), [(DType::GPTQ4, true, None), integers]);
    let parts = "the device cannot compute with its parts as they are stored";
    assert_eq!(table((64 << 10) - 1), [(DType::F16, true, Some(parts)), integers]);
}
