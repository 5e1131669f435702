//! Columns that a converter reordered: the output matrix of Qwen3.5's linear attention, whose heads
//! GGUF keeps in tiles, packed and as values.

use crate::support::{Gguf, Kv, f32s};

use weighbridge::device::Cpu;
use weighbridge::model::{Axis, Convention};
use weighbridge::{DType, OpenOptions, WeightProvider};

const NAME: &str = "layers.0.linear_attention.output.weight";
const ROWS: u64 = 3;

/// Two key heads, each serving two value heads of `width`.
fn model(dtype: DType, width: u32, bytes: Vec<u8>) -> WeightProvider {
    let file = [
        ("embedding_length", 64),
        ("block_count", 1),
        ("attention.head_count", 1),
        ("ssm.state_size", 8),
        ("ssm.group_count", 2),
        ("ssm.time_step_rank", 4),
        ("ssm.inner_size", 4 * width),
    ]
    .into_iter()
    .fold(Gguf::new().key("general.architecture", Kv::text("qwen35")), |file, (key, value)| {
        file.key(format!("qwen35.{key}"), Kv::U32(value))
    });
    let file = file.tensor("blk.0.ssm_out.weight", dtype, &[ROWS, 4 * u64::from(width)], bytes);
    let store = OpenOptions::new().open_memory("model.gguf", file.build()).expect("a GGUF file");
    WeightProvider::new(store, Cpu).expect("a model")
}

/// Blocks of `Q8_0` with finite scales.
fn blocks(count: usize) -> Vec<u8> {
    (0..=250u8).map(|byte| byte & 0x7b).cycle().take(34 * count).collect()
}

/// The stored heads in the order of the canonical ones: of the first key head, of the second.
const HEADS: [usize; 4] = [0, 2, 1, 3];

/// The canonical columns of each stored row, a head being `len` elements long.
fn untiled<T: Copy>(stored: &[T], len: usize) -> Vec<T> {
    let rows = stored.chunks(4 * len);
    rows.flat_map(|row| HEADS.map(|head| row[head * len..(head + 1) * len].to_vec()).concat())
        .collect()
}

#[test]
fn heads_of_whole_blocks_move_packed() {
    let bytes = blocks(12);
    let model = model(DType::Q8_0, 32, bytes.clone());
    let loaded = model.load(NAME).expect("packed bytes");
    assert_eq!(loaded.buffer[..], untiled(&bytes, 34));

    let view = model.tensor(NAME).expect("the tensor");
    assert_eq!(view.shape(), [ROWS, 128]);
    assert!(!view.is_stored());
    let stored = model.model().stored_tensor("blk.0.ssm_out.weight").expect("the stored tensor");
    let values = stored.dequantize().expect("values");
    assert_eq!(view.dequantize().expect("values")[..], untiled(&values, 32));
    let half = view.shard(Axis::Columns, 1, 2).expect("the heads of the second key head");
    let expected: Vec<f32> =
        untiled(&values, 32).chunks(128).flat_map(|row| row[64..].to_vec()).collect();
    assert_eq!(half.dequantize().expect("values")[..], expected);

    let model = model.convention(Convention::Stored);
    assert!(model.tensor(NAME).expect("the tensor").is_stored());
}

#[test]
fn heads_within_blocks_move_as_values_alone() {
    let bytes = blocks(6);
    let model = model(DType::Q8_0, 16, bytes);
    let error = model.load(NAME).expect_err("two heads in a block");
    assert_eq!(
        error.to_string(),
        format!("tensor \"{NAME}\": the columns were reordered within blocks of Q8_0")
    );
    let stored = model.model().stored_tensor("blk.0.ssm_out.weight").expect("the stored tensor");
    let values = stored.dequantize().expect("values");
    let view = model.tensor(NAME).expect("the tensor");
    assert_eq!(view.dequantize().expect("values")[..], untiled(&values, 16));
}

#[test]
fn plain_elements_move_whatever_the_width() {
    let values: Vec<f32> = (0..ROWS * 12).map(|n| n as f32).collect();
    let model = model(DType::F32, 3, f32s(&values));
    let loaded = model.load(NAME).expect("plain elements");
    assert_eq!(loaded.buffer[..], f32s(&untiled(&values, 3)));
}
