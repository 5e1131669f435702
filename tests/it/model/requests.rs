//! Requests of the library that do not fit a tensor: ranges, lengths, and parts that cannot be joined
//! or divided. Each also has the nearest request that fits.

use crate::support::{Gguf, Safetensors, f32s, told};
use insta::assert_snapshot;
use weighbridge::model::{Axis, DecodeOptions};
use weighbridge::quant::{Global, GroupParts};
use weighbridge::repack::PackedRows;
use weighbridge::{DType, Error, Model, OpenOptions, Part, Tensor};

fn values(count: usize) -> Vec<f32> {
    (0..count).map(|n| n as f32 / 4.0).collect()
}

fn model() -> Model {
    let shapes: [(&str, &[u64]); 6] = [
        ("matrix", &[4, 8]),
        ("wide", &[4, 9]),
        ("vector", &[8]),
        ("scalar", &[]),
        ("stack", &[2, 3, 8]),
        ("taller", &[2, 1, 8]),
    ];
    let file = shapes.iter().fold(Safetensors::new(), |file, (name, shape)| {
        file.tensor(name, "F32", shape, f32s(&values(shape.iter().product::<u64>() as usize)))
    });
    let file = file.tensor("half", "F16", &[4, 8], [0; 64]);
    OpenOptions::new().open_memory("m.safetensors", file.build()).expect("a model")
}

fn blocks() -> Tensor {
    let file = Gguf::new().tensor("q", DType::Q8_0, &[2, 64], vec![1; 2 * 68]);
    let model = OpenOptions::new().open_memory("m.gguf", file.build()).expect("a model");
    model.stored_tensor("q").expect("a tensor")
}

fn said<T, E: Into<weighbridge::Error>>(results: impl IntoIterator<Item = Result<T, E>>) -> String {
    let said =
        |result: Result<T, E>| result.map_or_else(|error| told(&error.into()), |_| "fits".into());
    results.into_iter().map(said).collect::<Vec<String>>().join("\n")
}

#[test]
fn buffers_have_room_for_exactly_the_values() {
    let model = model();
    let matrix = model.stored_tensor("matrix").expect("a tensor");
    let all = |len: usize| matrix.dequantize_into(&mut vec![0.0f32; len], &DecodeOptions::new());
    assert_snapshot!(said([all(32), all(31), all(33)]), @r#"
    fits
    Mismatch: tensor "matrix": the buffer has room for 31 values, but the tensor has 32
    Mismatch: tensor "matrix": the buffer has room for 33 values, but the tensor has 32
    "#);
    let rows = |rows, len: usize| {
        matrix.dequantize_rows(rows, &mut vec![0.0f32; len], &DecodeOptions::new())
    };
    #[expect(clippy::reversed_empty_ranges, reason = "it is what is tested")]
    let reversed = 2..1;
    assert_snapshot!(said([rows(1..3, 16), rows(4..4, 0), rows(1..3, 15), rows(3..5, 16), rows(5..5, 0), rows(reversed, 0)]), @r#"
    fits
    fits
    Mismatch: m.safetensors: tensor "matrix": the buffer has room for 15 values, but the rows have 16
    Mismatch: m.safetensors: tensor "matrix": rows 3..5 exceed the 4 rows
    Mismatch: m.safetensors: tensor "matrix": rows 5..5 exceed the 4 rows
    Mismatch: m.safetensors: tensor "matrix": rows 2..1 exceed the 4 rows
    "#);
    let mut count = 0;
    let mut sink = |values: &[f32]| {
        count += values.len();
        Ok::<_, Error>(())
    };
    assert_snapshot!(said([matrix.for_each_values_in(1..3, &mut sink), matrix.for_each_values_in(3..5, &mut sink)]), @r#"
    fits
    Mismatch: m.safetensors: tensor "matrix": rows 3..5 exceed the 4 rows
    "#);
    assert_eq!(count, 16);
}

#[test]
fn bytes_are_within_the_part() {
    let model = model();
    let matrix = model.stored_tensor("matrix").expect("a tensor");
    let taken = |tensor: &Tensor, part, range| {
        let mut bytes = Vec::new();
        let sink = |piece: &[u8]| {
            bytes.extend_from_slice(piece);
            Ok::<_, Error>(())
        };
        tensor.for_each_piece_in(part, range, sink).map(|()| bytes)
    };
    assert_eq!(taken(&matrix, Part::Weight, 4..12).expect("bytes"), f32s(&[0.25, 0.5]));
    #[expect(clippy::reversed_empty_ranges, reason = "it is what is tested")]
    let reversed = 8..4;
    // Rows of a tensor are packed from the stored bytes.
    let rows = matrix.clone().slice_rows(1..3).expect("rows");
    assert_eq!(taken(&rows, Part::Weight, 0..4).expect("bytes"), f32s(&[2.0]));
    assert_snapshot!(said([
        taken(&matrix, Part::Weight, 120..128),
        taken(&matrix, Part::Weight, 120..129),
        taken(&matrix, Part::Weight, reversed.clone()),
        taken(&matrix, Part::Scale, 0..1),
        taken(&rows, Part::Weight, 60..64),
        taken(&rows, Part::Weight, 60..65),
        taken(&rows, Part::Weight, reversed),
        taken(&rows, Part::Scale, 0..1),
    ]), @r#"
    fits
    Mismatch: m.safetensors: tensor "matrix": bytes 120..129 exceed the 128 bytes of the weight
    Mismatch: m.safetensors: tensor "matrix": bytes 8..4 exceed the 128 bytes of the weight
    NotFound: m.safetensors: tensor "matrix": the tensor has no part "scale"
    fits
    Mismatch: m.safetensors: tensor "matrix": bytes 60..65 exceed the 64 bytes of the weight
    Mismatch: m.safetensors: tensor "matrix": bytes 8..4 exceed the 64 bytes of the weight
    NotFound: m.safetensors: tensor "matrix": the tensor has no part "scale"
    "#);
}

#[test]
fn fused_tensors_differ_in_their_rows_only() {
    let model = model();
    let fused = |names: &[&str]| {
        let tensor = |name: &&str| model.stored_tensor(name).expect("a tensor");
        let fused = Tensor::fuse(names.iter().map(tensor).collect())?;
        fused.dtype()?;
        Ok::<_, Error>(fused)
    };
    let stacks = fused(&["stack", "taller"]).expect("a stack");
    assert_eq!(stacks.shape(), [2, 4, 8]);
    let rows = |from: usize| values(48)[from..from + 24].to_vec();
    let expected = [&rows(0)[..], &values(16)[..8], &rows(24), &values(16)[8..]].concat();
    assert_eq!(*stacks.dequantize().expect("values"), expected);
    assert_eq!(fused(&["vector", "vector"]).expect("a vector").shape(), [16]);
    assert_snapshot!(said([
        fused(&["matrix", "matrix"]),
        fused(&[]),
        fused(&["matrix", "wide"]),
        fused(&["matrix", "vector"]),
        fused(&["stack", "matrix"]),
        fused(&["scalar", "scalar"]),
        fused(&["matrix", "half"]),
    ]), @r#"
    fits
    Mismatch: no tensors to fuse
    Mismatch: tensor "wide": shape [4, 9] cannot be concatenated with matrix, which has shape [4, 8]
    Mismatch: tensor "vector": shape [8] cannot be concatenated with matrix, which has shape [4, 8]
    Mismatch: tensor "matrix": shape [4, 8] cannot be concatenated with stack, which has shape [2, 3, 8]
    Mismatch: tensor "scalar": shape [] cannot be concatenated with scalar, which has shape []
    Mismatch: tensor "matrix+half": matrix is F32, but half is F16: they cannot be fused into one tensor
    help: convert them to one dtype, or load them separately
    "#);
}

#[test]
fn parts_begin_and_end_at_rows_and_blocks() {
    let model = model();
    let tensor = |name: &str| model.stored_tensor(name).expect("a tensor");
    let values = |tensor: weighbridge::Result<Tensor>| {
        let tensor = tensor.expect("a part");
        (tensor.shape().to_vec(), tensor.dequantize().expect("values").to_vec())
    };
    assert_eq!(
        values(tensor("stack").slice_rows(2..3)),
        (
            vec![2, 1, 8],
            [
                (16..24).map(|n| n as f32 / 4.0).collect::<Vec<_>>(),
                (40..48).map(|n| n as f32 / 4.0).collect(),
            ]
            .concat()
        )
    );
    assert_eq!(values(tensor("vector").slice_rows(1..3)), (vec![2], vec![0.25, 0.5]));
    assert_eq!(
        values(tensor("matrix").slice_columns(7..8)),
        (vec![4, 1], vec![1.75, 3.75, 5.75, 7.75])
    );
    assert_eq!(values(tensor("matrix").shard(Axis::Rows, 1, 4)).0, [1, 8]);
    assert_eq!(values(tensor("matrix").shard(Axis::Columns, 1, 2)).0, [4, 4]);
    assert_eq!(blocks().slice_columns(32..64).expect("a block").shape(), [2, 32]);
    #[expect(clippy::reversed_empty_ranges, reason = "it is what is tested")]
    let reversed = 2..1;
    assert_snapshot!(said([
        tensor("matrix").slice_rows(3..5),
        tensor("matrix").slice_rows(reversed.clone()),
        tensor("scalar").slice_rows(0..1),
        tensor("matrix").slice_columns(7..9),
        tensor("matrix").slice_columns(reversed),
        tensor("vector").slice_columns(0..1),
        blocks().slice_columns(16..32),
        blocks().slice_columns(32..48),
        tensor("matrix").shard(Axis::Rows, 0, 3),
        tensor("matrix").shard(Axis::Rows, 4, 4),
        tensor("matrix").shard(Axis::Rows, 0, 0),
        tensor("wide").shard(Axis::Columns, 0, 2),
    ]), @r#"
    Mismatch: tensor "matrix": rows 3..5 exceed the 4 rows
    Mismatch: tensor "matrix": rows 2..1 exceed the 4 rows
    Mismatch: tensor "scalar": axis 0 does not exist in shape []
    Mismatch: tensor "matrix": columns 7..9 of 8, which can be split only at multiples of 1
    Mismatch: tensor "matrix": columns 2..1 of 8, which can be split only at multiples of 1
    Mismatch: tensor "vector": shape [8] has no columns
    Mismatch: tensor "q": columns 16..32 of 64, which can be split only at multiples of 32
    Mismatch: tensor "q": columns 32..48 of 64, which can be split only at multiples of 32
    Mismatch: tensor "matrix": cannot take part 0 of 3 equal parts of 4 rows
    Mismatch: tensor "matrix": cannot take part 4 of 4 equal parts of 4 rows
    Mismatch: tensor "matrix": cannot take part 0 of 0 equal parts of 4 rows
    Mismatch: tensor "wide": cannot take part 0 of 2 equal parts of 9 columns
    "#);
}

#[test]
fn rows_to_quantize_fit_their_buffers() {
    let quantized = |dtype: DType,
                     count: usize,
                     columns,
                     importance: Option<usize>,
                     room: usize| {
        let importance = importance.map(|len| vec![1.0; len]);
        dtype.quantize_rows(&vec![1.0; count], columns, importance.as_deref(), &mut vec![0; room])
    };
    assert_snapshot!(said([
        quantized(DType::Q8_0, 64, 32, None, 68),
        quantized(DType::Q4_K, 512, 256, Some(256), 288),
        quantized(DType::IQ2_XS, 256, 256, None, 74),
        quantized(DType::GPTQ4, 64, 32, None, 68),
        quantized(DType::Q8_0, 66, 33, None, 68),
        quantized(DType::Q8_0, 65, 32, None, 68),
        quantized(DType::Q8_0, 64, 32, None, 67),
        quantized(DType::Q8_0, 64, 32, Some(64), 68),
    ]), @"
    fits
    fits
    Mismatch: IQ2_XS requires the importance of the columns
    help: give it an importance matrix
    Unsupported: GPTQ4 has no quantizer
    Mismatch: rows of 33 elements do not divide into blocks of 32
    Mismatch: 65 values do not divide into rows of 32
    Mismatch: 2 rows take 34 bytes each, but there is room for 67
    Mismatch: importance of 64 columns, but rows have 32 elements
    ");
}

#[test]
fn rows_to_repack_fit_their_buffers() {
    let repack = DType::Q8_0.repack_to(DType::MLX_AFFINE8).expect("a way");
    let bytes = [&[0, 0x3c][..], &[1; 32]].concat().repeat(2);
    let run = |weight: &[u8], columns, scales, room: [usize; 3]| {
        let [mut to, mut scale, mut bias] = room.map(|len| vec![0; len]);
        let parts = GroupParts { weight: &mut to, scale: &mut scale, bias: &mut bias };
        repack.run(&PackedRows::blocks(weight, columns), scales, parts)
    };
    assert_snapshot!(said([
        run(&bytes, 64, DType::F16, [64, 4, 4]),
        run(&bytes, 64, DType::BF16, [64, 4, 4]),
        run(&bytes, 64, DType::F8_E4M3, [64, 2, 2]),
        run(&bytes, 48, DType::F16, [64, 4, 4]),
        run(&bytes, 64, DType::F16, [64, 4, 3]),
        run(&bytes[..67], 64, DType::F16, [64, 4, 4]),
    ]), @"
    fits
    fits
    Mismatch: MLX_AFFINE8 does not support scales of F8_E4M3
    Mismatch: rows of 48 elements in groups of 1 of Q8_0 cannot be repacked to MLX_AFFINE8
    Mismatch: room for [64, 4, 3] bytes, but the parts have [64, 4, 4]
    Mismatch: room for [64, 4, 4] bytes, but the parts have [0, 0, 0]
    ");
    assert_eq!(repack.global(Global::None), Global::None);
}
