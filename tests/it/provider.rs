//! The provider: what is loaded, fused, split, shared out, kept and dropped.

#![allow(clippy::cast_possible_truncation, reason = "the sizes are the test's own")]

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::{Gguf, Kv, f32s, folder};
use tempfile::TempDir;
use weighbridge::device::{Cpu, Device};
use weighbridge::load::{Fusion, LoadedTensor};
use weighbridge::model::{Axis, Convention};
use weighbridge::{
    DType, ErrorKind, LoadOptions, OpenOptions, Part, Policy, Result, WeightProvider,
};

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
                    Policy::F32 => bytemuck::cast_slice(&loaded.buffer).to_vec(),
                    Policy::F16 => {
                        let halves: &[half::f16] = bytemuck::cast_slice(&loaded.buffer);
                        halves.iter().map(|value| value.to_f32()).collect()
                    }
                    _ => {
                        let halves: &[half::bf16] = bytemuck::cast_slice(&loaded.buffer);
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
        for (axis, of) in [(Axis::Rows, 4), (Axis::Rows, 1), (Axis::Columns, 2)] {
            let whole = provider.tensor(GATE_UP[0]).unwrap().dequantize().unwrap();
            for rank in 0..of {
                let shard = provider.shard(GATE_UP[0], axis, rank, of).unwrap();
                let view = provider.tensor(GATE_UP[0]).unwrap().shard(axis, rank, of).unwrap();
                let values = view.dequantize().unwrap();
                assert_eq!(shard.shape, view.shape());
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

/// A device whose memory this program cannot reach.
#[derive(Debug)]
struct Far(Cpu);

impl Device for Far {
    type Buffer = <Cpu as Device>::Buffer;

    fn name(&self) -> Cow<'_, str> {
        "far".into()
    }

    fn alignment(&self) -> u64 {
        256
    }

    fn supports(&self, dtype: DType) -> bool {
        dtype != DType::Q4_0
    }

    fn allocate(&self, bytes: u64) -> Result<Self::Buffer> {
        self.0.allocate(bytes)
    }

    fn write(&self, buffer: &mut Self::Buffer, offset: u64, bytes: &[u8]) -> Result<()> {
        self.0.write(buffer, offset, bytes)
    }

    fn read(&self, buffer: &Self::Buffer, offset: u64, out: &mut [u8]) -> Result<()> {
        self.0.read(buffer, offset, out)
    }
}

#[test]
fn a_device_out_of_reach_gets_the_same() {
    let folder = layer(DType::Q8_0, DType::Q8_0, DType::Q8_0);
    let store = OpenOptions::new().open(folder.path()).unwrap();
    let far = WeightProvider::new(store, Far(Cpu)).unwrap();
    let near = WeightProvider::open(folder.path()).unwrap();
    let fused = far.fuse(&QKV).unwrap();
    assert_eq!(&*fused.buffer, &*near.fuse(&QKV).unwrap().buffer);
    let split = fused.split(far.device(), QKV[1]).unwrap();
    assert_eq!(&*split.buffer, &*near.load(QKV[1]).unwrap().buffer);

    let folder = layer(DType::Q4_0, DType::Q4_0, DType::Q4_0);
    let store = OpenOptions::new().open(folder.path()).unwrap();
    let far = WeightProvider::new(store, Far(Cpu)).unwrap();
    let error = far.load(QKV[0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("far does not support Q4_0"), "{error}");
    assert!(far.policy(Policy::F16).load(QKV[0]).is_ok());
}

#[test]
fn losses_are_counted_within_reach_and_out_of_it() {
    let values = [1.0f32, 1e-12, 1e12, -1e-12, 1e-12, 0.0, 2.0, -2.0];
    let file = Gguf::new().tensor("t", DType::F32, &[2, 4], f32s(&values)).build();
    let store = || OpenOptions::new().open_memory("file", file.clone()).unwrap();
    let near = WeightProvider::new(store(), Cpu).unwrap().policy(Policy::F16);
    let far = WeightProvider::new(store(), Far(Cpu)).unwrap().policy(Policy::F16);
    let (near, far) = (near.load("t").unwrap(), far.load("t").unwrap());
    for loaded in [near.lost, far.lost] {
        assert_eq!((loaded.flushes, loaded.overflows), (3, 1));
    }
    assert_eq!(&*near.buffer, &*far.buffer);
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
        let store = OpenOptions::new().open(folder.path()).unwrap();
        let far = WeightProvider::new(store, Far(Cpu)).unwrap();
        for names in [&["a"][..], &["b"], &["a", "b"]] {
            let (near_one, far_one) = (near.fuse(names).unwrap(), far.fuse(names).unwrap());
            let expected: Vec<u8> =
                names.iter().flat_map(|name| long(if *name == "a" { 1 } else { 2 })).collect();
            assert_eq!(part(&near_one, Part::Weight), expected, "{names:?} {between}");
            let start = far_one.parts[0].range.start;
            assert!(start.is_multiple_of(256) && near_one.parts[0].range.start.is_multiple_of(64));
            assert_eq!(far_one.buffer[start as usize..], expected);
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
