//! Tensors that are derived from stored ones: how the tensor is derived, which parts can be joined,
//! which rows and columns can be selected, and what is read of its scales.
#![allow(clippy::cast_possible_truncation, reason = "the sizes are the test's own")]

use std::fs::File;

use tempfile::TempDir;
use weighbridge::model::Derivation;
use weighbridge::quant::Inputs;
use weighbridge::{DType, Error, ErrorKind, Model, OpenOptions, Part, Tensor};

use crate::support::{Gguf, Kv, Safetensors, f32s, folder};

/// A directory with one file and this config.
fn directory(config: &str, file: &Safetensors) -> TempDir {
    folder(&[("config.json", config.into()), ("model.safetensors", file.build())])
}

fn fused(model: &Model, names: &[&str]) -> Tensor {
    let tensors = names.iter().map(|name| model.stored_tensor(name).expect("a tensor")).collect();
    Tensor::fuse(tensors).expect("shapes that fit")
}

fn said(error: &Error) -> String {
    let text = error.to_string();
    text.split_once("tensor ").map_or(text.clone(), |(_, fault)| fault.to_owned())
}

#[test]
fn parts_of_different_dtypes_do_not_join() {
    // MLX's groups: the scales of `b` have another dtype than those of `a` and `c`.
    let mut file = Safetensors::new().metadata("format", "mlx");
    for (name, dtype, scale) in
        [("a", "F16", &[0x00, 0x3c][..]), ("b", "BF16", &[0x80, 0x3f]), ("c", "F16", &[0x00, 0x40])]
    {
        file = file
            .tensor(&format!("{name}.weight"), "U32", &[2, 8], [0x21; 64])
            .tensor(&format!("{name}.scales"), dtype, &[2, 1], scale.repeat(2))
            .tensor(&format!("{name}.biases"), dtype, &[2, 1], scale.repeat(2));
    }
    let folder = directory(r#"{"quantization": {"group_size": 64, "bits": 4}}"#, &file);
    let model = Model::open(folder.path()).expect("a model");
    let joined = fused(&model, &["a.weight", "c.weight"]);
    assert_eq!(joined.derivation().expect("packed"), Derivation::Joined);
    assert_eq!(*joined.bytes(Part::Scale).expect("scales"), [0, 0x3c, 0, 0x3c, 0, 0x40, 0, 0x40]);
    let apart = fused(&model, &["a.weight", "b.weight"]);
    let error = apart.bytes(Part::Weight).expect_err("two layouts");
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    assert_eq!(said(&error), "\"b.weight\": the layout of the scale differs from that of a.weight");
    assert!(matches!(apart.derivation(), Ok(Derivation::Computed(_))));
    assert_eq!(apart.dequantize().expect("values").len(), 4 * 64);
}

#[test]
fn parts_that_only_one_has_do_not_join() {
    let mut file = Safetensors::new();
    for name in ["a", "b", "c"] {
        file = file.tensor(&format!("{name}.weight"), "F8_E4M3", &[2, 4], [0x38; 8]).tensor(
            &format!("{name}.weight_scale"),
            "F32",
            &[2, 1],
            f32s(&[1.0, 2.0]),
        );
    }
    file = file.tensor("b.input_scale", "F32", &[], f32s(&[0.5]));
    let config = r#"{"quantization_config": {"quant_method": "fp8"}}"#;
    let folder = directory(config, &file);
    let model = Model::open(folder.path()).expect("a model");
    let joined = fused(&model, &["a.weight", "c.weight"]);
    assert_eq!(*joined.bytes(Part::Scale).expect("scales"), f32s(&[1.0, 2.0, 1.0, 2.0]));
    let error = fused(&model, &["a.weight", "b.weight"]).bytes(Part::Weight).expect_err("a part");
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    assert_eq!(said(&error), "\"b.weight\": the parts differ from those of a.weight");
}

/// Two matrices of NVFP4 with these divisors.
fn nvfp4(globals: [f32; 2]) -> TempDir {
    let mut file = Safetensors::new();
    for name in ["a", "b"] {
        file = file.tensor(&format!("{name}.weight_packed"), "U8", &[2, 16], [0x12; 32]).tensor(
            &format!("{name}.weight_scale"),
            "F8_E4M3",
            &[2, 2],
            [0x38; 4],
        );
    }
    for (name, global) in ["a", "b"].into_iter().zip(globals) {
        let name = format!("{name}.weight_global_scale");
        file = file.tensor(&name, "F32", &[1], f32s(&[global]));
    }
    let config = r#"{"quantization_config": {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"}}"#;
    directory(config, &file)
}

/// Rows of one matrix, and matrices with equal global scales, have that scale.
#[test]
fn an_equal_global_scale_is_that_of_all_rows() {
    let folder = nvfp4([4.0, 4.0]);
    let model = Model::open(folder.path()).expect("a model");
    let joined = fused(&model, &["a.weight", "b.weight"]);
    let row = model.stored_tensor("b.weight").expect("a matrix").slice_rows(1..2).expect("a row");
    for (tensor, rows) in [(joined, 4), (row, 1)] {
        assert_eq!(*tensor.bytes(Part::GlobalDivisor).expect("one scale"), f32s(&[4.0]));
        assert_eq!(tensor.bytes(Part::Weight).expect("codes").len(), 16 * rows);
        assert_eq!(tensor.bytes(Part::Scale).expect("scales").len(), 2 * rows);
    }
}

/// Whether global scales are equal is read from the file. If that fails, it is not another way to
/// derive the tensor.
#[test]
fn a_file_that_became_shorter_is_no_reason_to_compute() {
    let folder = nvfp4([4.0, 8.0]);
    let model = OpenOptions::new().read().open(folder.path()).expect("a model");
    let joined = fused(&model, &["a.weight", "b.weight"]);
    let computed = joined.derivation().expect("two scales");
    assert!(matches!(computed, Derivation::Computed(_)), "{computed:?}");
    let path = folder.path().join("model.safetensors");
    let shorter = File::options().write(true).open(&path).expect("the file");
    let len = shorter.metadata().expect("a length").len();
    shorter.set_len(len - 8).expect("a shorter file");
    assert_eq!(joined.derivation().expect_err("no scales").kind(), ErrorKind::Io);
}

/// Rows of a matrix that is stored by columns can be cut anywhere, also where two elements share a
/// byte.
#[test]
fn columns_of_a_turned_matrix_are_cut_within_bytes() {
    let codes: Vec<u8> = (0..32).map(|n| (n * 37 + 5) as u8).collect();
    let file = Safetensors::new()
        .tensor("h.0.mlp.c_fc.weight", "F4", &[8, 8], codes.clone())
        .tensor("h.0.mlp.c_fc.bias", "F4", &[8], codes[..4].to_vec());
    let config =
        r#"{"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 2, "vocab_size": 10}"#;
    let folder = directory(config, &file);
    let model = Model::open(folder.path()).expect("a model");
    let whole = model.tensor("layers.0.ffn.up.weight").expect("a matrix");
    let values = whole.dequantize().expect("values");
    let part = whole.clone().slice_columns(3..6).expect("any columns");
    assert_eq!(part.shape(), [8, 3]);
    let expected: Vec<f32> = values.chunks(8).flat_map(|row| row[3..6].to_vec()).collect();
    assert_eq!(part.dequantize().expect("values")[..], expected);
    // Of the stored matrix, a column is half a byte.
    let stored = model.stored_tensor("h.0.mlp.c_fc.weight").expect("a matrix");
    assert_eq!(stored.slice_columns(3..6).expect_err("half bytes").kind(), ErrorKind::Mismatch);
}

/// A vector of blocks has no single elements.
#[test]
fn elements_within_a_block_are_no_rows() {
    let block = [&[0x00, 0x3c][..], &[1; 32]].concat();
    let tensor = Tensor::new("t", DType::Q8_0, &[64], block.repeat(2)).expect("a vector");
    let part = tensor.clone().slice_rows(32..64).expect("a block");
    assert_eq!(part.dequantize().expect("values")[..], [1.0; 32]);
    let error = tensor.slice_rows(31..33).expect_err("elements of two blocks");
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    let fault = "\"t\": elements 31..33 of 64, which can be split only at multiples of 32";
    assert_eq!(said(&error), fault);
}

/// The elements of a permuted bias are gathered one by one, and multiplied as one row.
#[test]
fn a_permuted_vector_is_multiplied_as_one_row() {
    let values: Vec<f32> = (0..8u8).map(|n| f32::from(n) - 2.5).collect();
    let file = Gguf::new()
        .key("general.architecture", Kv::text("llama"))
        .key("llama.block_count", Kv::U32(1))
        .key("llama.embedding_length", Kv::U32(8))
        .key("llama.attention.head_count", Kv::U32(2))
        .key("llama.attention.head_count_kv", Kv::U32(2))
        .tensor("blk.0.attn_q.bias", DType::F32, &[8], f32s(&values));
    let model = OpenOptions::new().open_memory("model.gguf", file.build()).expect("a file");
    let bias = model.tensor("layers.0.attention.q.bias").expect("a vector");
    let canonical = bias.dequantize().expect("values");
    assert_ne!(canonical[..], values);
    let input: Vec<f32> = (0..8u8).map(|n| f32::from(1u8 << n)).collect();
    let mut out = [f32::NAN];
    bias.row_reader()
        .expect("a reader")
        .multiply_rows(0..1, &Inputs::new(&input), &mut out)
        .expect("a product");
    let expected: f32 = canonical.iter().zip(&input).map(|(a, b)| a * b).sum();
    assert_eq!(out, [expected]);
}

/// Scales that do not lie row after row, or are no scales of blocks, are not given as those of rows.
#[test]
fn scales_of_rows_are_those_that_lie_row_after_row() {
    let gptq = Safetensors::new()
        .tensor("l.qweight", "I32", &[4, 8], [0x21; 128])
        .tensor("l.qzeros", "I32", &[2, 1], [0x77; 8])
        .tensor("l.scales", "F16", &[2, 8], [0, 0x3c].repeat(16));
    let config = r#"{"quantization_config": {"quant_method": "gptq"}}"#;
    let folder = directory(config, &gptq);
    let model = Model::open(folder.path()).expect("a model");
    let tensor = model.stored_tensor("l.weight").expect("a matrix");
    assert_eq!(tensor.dtype().expect("a dtype"), DType::GPTQ4);
    assert_eq!(tensor.row_scales(0..8).expect("no error"), None);
    // Each row of IQ4_KS starts with a scale of its own, and its blocks have no other.
    let row = DType::IQ4_KS.row_bytes(256).expect("a row");
    let tensor = Tensor::new("t", DType::IQ4_KS, &[2, 256], vec![0; 2 * row as usize]);
    assert_eq!(tensor.expect("a matrix").row_scales(0..2).expect("no error"), None);
    let block = [&[0x00, 0x3c][..], &[1; 32]].concat();
    let tensor = Tensor::new("t", DType::Q8_0, &[2, 32], block.repeat(2)).expect("a matrix");
    let scales = tensor.row_scales(1..2).expect("no error").expect("scales");
    assert_eq!((scales.width, scales.values), (32, vec![1.0]));
}

/// A program that maps the file itself would read the numbers in the wrong order.
#[test]
fn a_big_endian_file_is_not_handed_out() {
    for big_endian in [false, true] {
        let file = Gguf::new().tensor("t", DType::F16, &[2], [0x3c, 0x00, 0x40, 0x00]);
        let file = if big_endian { file.big_endian() } else { file };
        let folder = folder(&[("model.gguf", file.build())]);
        let model = Model::open(folder.path().join("model.gguf")).expect("a file");
        let tensor = model.stored_tensor("t").expect("a vector");
        assert_eq!(tensor.is_little_endian(), !big_endian);
        match (tensor.file(Part::Weight), big_endian) {
            (Ok((_, range)), false) => assert_eq!(range.end - range.start, 4),
            (Err(error), true) => {
                assert_eq!(error.kind(), ErrorKind::Unsupported);
                assert_eq!(said(&error), "\"t\": the file is big-endian");
            }
            (found, _) => panic!("big-endian: {big_endian}, {found:?}"),
        }
    }
}
