//! The findings of `check_values`, in every dtype that has scales or floats.
#![allow(clippy::cast_possible_truncation, reason = "the sizes are the test's own")]

use crate::support::{Gguf, Safetensors, f32s, folder, open_as};
use insta::assert_snapshot;
use weighbridge::dtype::{DTYPES, DTypeDescriptor, Packing};
use weighbridge::model::{Finding, FindingKind};
use weighbridge::{DType, ErrorKind, Model, Strictness};

/// The findings in one tensor of a store, and the offset of its weight.
fn found(store: &Model, name: &str) -> (Vec<Finding>, u64) {
    let tensor = store.stored_tensor(name).unwrap();
    let start = tensor.segments().next().unwrap().range.start;
    (tensor.check_values().unwrap(), start)
}

/// The same as sentences, with byte offsets from the start of the part.
fn said(store: &Model, name: &str) -> String {
    let tensor = store.stored_tensor(name).unwrap();
    let sentence = |mut finding: Finding| {
        let segment = tensor.segments().find(|segment| segment.part == finding.part).unwrap();
        finding.offset = finding.offset.map(|offset| offset - segment.range.start);
        format!("{}: {finding}", finding.kind.name())
    };
    tensor.check_values().unwrap().into_iter().map(sentence).collect::<Vec<_>>().join("\n")
}

/// A GGUF file of two tensors, the second of these bytes.
fn gguf(dtype: DType, shape: &[u64], bytes: Vec<u8>) -> Model {
    let file = Gguf::new().tensor("a", DType::F32, &[2], f32s(&[1.0, 2.0]));
    open_as(file.tensor("t", dtype, shape, bytes).build(), Strictness::Default).unwrap()
}

fn safetensors(dtype: &str, shape: &[u64], bytes: impl Into<Vec<u8>>) -> Model {
    let file = Safetensors::new().tensor("t", dtype, shape, bytes);
    open_as(file.build(), Strictness::Default).unwrap()
}

/// NaN as `F16` and `BF16`, and the upper half of NaN as `F32`.
const NAN: [u8; 2] = [0xc0, 0x7f];

/// Three rows of one block of zeros, with these bytes at a place of the second row.
fn rows(row: &DTypeDescriptor, place: usize, bytes: &[u8]) -> Vec<u8> {
    let row_bytes = (row.row_head + row.block_bytes) as usize;
    let mut rows = vec![0; 3 * row_bytes];
    rows[row_bytes + place..][..bytes.len()].copy_from_slice(bytes);
    rows
}

/// Wherever NaN in a block makes its values NaN, the block is found, and nothing else is.
#[test]
fn every_scale_of_every_block_dtype() {
    let blocks = DTYPES.iter().filter(|row| row.packing == Packing::Block && row.codec.is_some());
    for row in blocks {
        let row_bytes = (row.row_head + row.block_bytes) as usize;
        let mut places = Vec::new();
        for place in 0..row_bytes - 1 {
            let bytes = rows(row, place, &NAN);
            let store = gguf(row.dtype, &[3, row.block_len.into()], bytes);
            let (findings, start) = found(&store, "t");
            let scale = findings.iter().find(|finding| finding.kind == FindingKind::Scale);
            let nan = findings.iter().find(|finding| finding.kind == FindingKind::Nan);
            if let Some(scale) = scale {
                places.push(place);
                assert_eq!((scale.count, scale.of, scale.first), (1, 3, 1), "{}", row.name);
                let offset = start + row_bytes as u64 + u64::from(row.row_head);
                assert_eq!(scale.offset, Some(offset), "{}", row.name);
                assert!(scale.value.is_nan() && scale.kind.is_fault(), "{}", row.name);
            }
            if let Some(nan) = nan {
                assert!(scale.is_some(), "{}: NaN at byte {place} is not found", row.name);
                assert_eq!(nan.first, u64::from(row.block_len), "{}", row.name);
            }
            // Sums for activations never enter values.
            let sums = row.dtype == DType::Q8_1 && place == 2;
            assert_eq!(scale.is_some(), nan.is_some() || sums, "{}: byte {place}", row.name);
        }
        let expected = match row.dtype {
            // Neither has a float in two bytes of its own; see the next test.
            DType::MXFP4 | DType::NVFP4 | DType::IQ1_M => 0,
            DType::Q4_1 | DType::Q5_1 | DType::Q8_1 => 2,
            DType::Q2_K | DType::Q4_K | DType::Q5_K => 2,
            _ => 1,
        };
        assert_eq!(places.len(), expected, "{}: {places:?}", row.name);
    }
}

#[test]
fn scales_that_are_no_plain_floats() {
    // Nibbles 0, 0, c and 7 on top of four words: infinity.
    let d: Vec<u8> = [0x0fff_u16, 0, 0xc000, 0x7000].iter().flat_map(|w| w.to_le_bytes()).collect();
    let bytes = rows(DType::IQ1_M.descriptor(), 48, &d);
    assert_snapshot!(said(&gguf(DType::IQ1_M, &[3, 256], bytes), "t"), @"
    scale: 1 of 3 blocks have a scale that is NaN or infinite, the first is block 1 with inf (at byte 56)
    infinite: 256 of 768 values are infinite, the first is element 256 (at byte 56)
    ");

    // Codes that are not 0, so that the values are other than 0 everywhere.
    let mut bytes = vec![0x22; 3 * 17];
    (bytes[0], bytes[17], bytes[34]) = (127, 254, 255);
    assert_snapshot!(said(&gguf(DType::MXFP4, &[3, 32], bytes), "t"), @"
    scale: 1 of 3 blocks have a scale that is NaN or infinite, the first is block 2 with inf (at byte 34)
    infinite: 32 of 96 values are infinite, the first is element 64 (at byte 34)
    ");

    // Every code of NVFP4 is a number, but those below 8 have lost precision.
    let mut bytes = [[0x38; 4].as_slice(), &[0x12; 32]].concat().repeat(2);
    bytes[38..40].copy_from_slice(&[0x07, 0xff]);
    assert_snapshot!(said(&gguf(DType::NVFP4, &[2, 64], bytes), "t"), @"low_scale: 1 of 8 scales are below the normal range, the first is scale 6, 0.013671875 (at byte 38)");

    // A factor for the whole tensor beside them.
    let file = Gguf::new()
        .tensor("x.weight", DType::NVFP4, &[1, 64], [[0x38; 4].as_slice(), &[0x12; 32]].concat())
        .tensor("x.scale", DType::F32, &[1], f32s(&[f32::NAN]));
    let store = open_as(file.build(), Strictness::Default).unwrap();
    assert_snapshot!(said(&store, "x.weight"), @"
    scale: 1 of 1 numbers of the global_scale are NaN or infinite, the first is number 0, NaN (at byte 0)
    nan: 64 of 64 values are NaN, the first is element 0 (at byte 0)
    ");
}

#[test]
fn rows_that_start_with_their_scale() {
    let row = DType::IQ4_KS.descriptor();
    let mut bytes = vec![0; 2 * (row.row_head + 2 * row.block_bytes) as usize];
    let second = bytes.len() / 2;
    bytes[second..second + 4].copy_from_slice(&f32::INFINITY.to_le_bytes());
    // Both blocks of the second row are spoilt.
    assert_snapshot!(said(&gguf(row.dtype, &[2, 512], bytes), "t"), @"
    scale: 2 of 4 blocks have a scale that is NaN or infinite, the first is block 2 with inf (at byte 280)
    infinite: 512 of 1024 values are infinite, the first is element 512 (at byte 280)
    ");
}

/// A bound that is infinite bounds nothing.
#[test]
fn infinite_bounds() {
    for (name, value, count) in [
        ("mlp.input_max", f32::INFINITY, 0),
        ("mlp.output_min", f32::NEG_INFINITY, 0),
        ("mlp.input_min", f32::INFINITY, 1),
        ("mlp.output_max", f32::NAN, 1),
        ("mlp.scale", f32::INFINITY, 1),
    ] {
        let file = Safetensors::new().tensor(name, "F32", &[], f32s(&[value]));
        let model = open_as(file.build(), Strictness::Default).unwrap();
        assert_eq!(found(&model, name).0.len(), count, "{name}: {value}");
    }
}

#[test]
fn plain_floats() {
    let two = [1.5, f32::NAN, -2.0, f32::NEG_INFINITY, f32::NAN, 0.0];
    assert_snapshot!(said(&safetensors("F32", &[2, 3], f32s(&two)), "t"), @"
    nan: 2 of 6 values are NaN, the first is element 1 (at byte 4)
    infinite: 1 of 6 values are infinite, the first is element 3 (at byte 12)
    ");
    let halves = |bits: [u16; 2]| bits.iter().flat_map(|b| b.to_le_bytes()).collect::<Vec<u8>>();
    assert_snapshot!(said(&safetensors("F16", &[2], halves([0x3c00, 0x7c00])), "t"), @"infinite: 1 of 2 values are infinite, the first is element 1 (at byte 2)");
    assert_snapshot!(said(&safetensors("BF16", &[2], halves([0x3c00, 0xff81])), "t"), @"nan: 1 of 2 values are NaN, the first is element 1 (at byte 2)");
    assert_snapshot!(said(&safetensors("F8_E4M3", &[2], [0x38, 0xff]), "t"), @"nan: 1 of 2 values are NaN, the first is element 1 (at byte 1)");
    // Infinite as f32, but no infinity.
    let doubles = |values: &[f64]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    assert_eq!(said(&safetensors("F64", &[2], doubles(&[1e300, 1e-300])), "t"), "");
    let store = safetensors("F64", &[3], doubles(&[1e300, 1.0, f64::INFINITY]));
    assert_snapshot!(said(&store, "t"), @"infinite: 1 of 3 values are infinite, the first is element 2 (at byte 16)");
    let bytes = [1e300, f64::NAN].iter().flat_map(|v| v.to_be_bytes()).collect::<Vec<u8>>();
    let file = Gguf::new().big_endian().tensor("t", DType::F64, &[2], bytes);
    let store = open_as(file.build(), Strictness::Default).unwrap();
    assert_snapshot!(said(&store, "t"), @"nan: 1 of 2 values are NaN, the first is element 1 (at byte 8)");
    // The scale of a big-endian block.
    let mut bytes = vec![0; 36];
    bytes[18..20].copy_from_slice(&[0x7c, 0x00]);
    let file = Gguf::new().big_endian().tensor("t", DType::Q4_0, &[2, 32], bytes);
    let store = open_as(file.build(), Strictness::Default).unwrap();
    assert_eq!(found(&store, "t").0[0].kind, FindingKind::Scale);
}

/// Matrices that say nothing are remarked on; biases of zeros and norms of ones are ordinary.
#[test]
fn constants() {
    let said = |shape: &[u64], values: &[f32]| said(&safetensors("F32", shape, f32s(values)), "t");
    assert_snapshot!(said(&[2, 2], &[0.0, -0.0, 0.0, 0.0]), @"zero: all 4 values are 0");
    assert_snapshot!(said(&[2, 2], &[0.25; 4]), @"constant: all 4 values are 0.25");
    for (shape, values) in [
        (&[2, 2][..], &[0.25, 0.25, 0.25, 0.5][..]),
        (&[4], &[0.0; 4]),
        (&[4], &[1.0; 4]),
        (&[1, 1, 4], &[1.0; 4]),
        (&[], &[0.0]),
        (&[0, 4], &[]),
    ] {
        assert_eq!(said(shape, values), "", "{shape:?}");
    }
    // Larger than what is decoded at once, and different only at its end.
    let mut many = vec![0.5; 1000 * 1000];
    assert_eq!(said(&[1000, 1000], &many), "constant: all 1000000 values are 0.5");
    many[999_999] = f32::NAN;
    assert_snapshot!(said(&[1000, 1000], &many), @"nan: 1 of 1000000 values are NaN, the first is element 999999 (at byte 3999996)");
    let kinds = [FindingKind::Zero, FindingKind::Constant, FindingKind::LowScale];
    assert!(kinds.iter().all(|kind| !kind.is_fault()));
}

fn mlx(mode: &str, group: u64, scales: (&str, Vec<u8>), biases: Option<Vec<u8>>) -> String {
    let groups = 64 / group;
    let mut file = Safetensors::new()
        .tensor("m.weight", "U32", &[2, 8], (0..64).collect::<Vec<u8>>())
        .tensor("m.scales", scales.0, &[2, groups], scales.1);
    if let Some(biases) = biases {
        file = file.tensor("m.biases", scales.0, &[2, groups], biases);
    }
    let config = format!(
        "{{\"model_type\":\"llama\",\"quantization\":{{\"bits\":4,\"group_size\":{group},\"mode\":\"{mode}\"}}}}"
    );
    let folder =
        folder(&[("config.json", config.into_bytes()), ("model.safetensors", file.build())]);
    said(&Model::open(folder.path()).unwrap(), "m.weight")
}

#[test]
fn scales_in_arrays_of_their_own() {
    // A code of 0 makes NaN of infinity.
    let scales = f32s(&[1.0, 1.0, f32::INFINITY, 1.0]);
    let biases = f32s(&[0.0, 0.0, 0.0, f32::NAN]);
    assert_snapshot!(mlx("affine", 32, ("F32", scales), Some(biases)), @"
    scale: 1 of 4 numbers of the scale are NaN or infinite, the first is number 2, inf (at byte 8)
    scale: 1 of 4 numbers of the bias are NaN or infinite, the first is number 3, NaN (at byte 12)
    nan: 33 of 128 values are NaN, the first is element 64
    infinite: 31 of 128 values are infinite, the first is element 65
    ");
    let halves = |bits: [u16; 4]| bits.iter().flat_map(|b| b.to_le_bytes()).collect::<Vec<u8>>();
    let (scales, biases) = (halves([0x3c00, 0x7e00, 0x3c00, 0x3c00]), halves([0; 4]));
    assert!(mlx("affine", 32, ("F16", scales), Some(biases)).starts_with(
        "scale: 1 of 4 numbers of the scale are NaN or infinite, the first is number 1, NaN (at byte 2)\n"
    ));
    let (scales, biases) = (halves([0x3f80; 4]), halves([0x3f80, 0x3f80, 0x7f80, 0x3f80]));
    assert!(mlx("affine", 32, ("BF16", scales), Some(biases)).starts_with(
        "scale: 1 of 4 numbers of the bias are NaN or infinite, the first is number 2, inf (at byte 4)\n"
    ));
    assert!(mlx("mxfp4", 32, ("U8", vec![127, 255, 127, 127]), None).starts_with(
        "scale: 1 of 4 numbers of the scale are NaN or infinite, the first is number 1, inf (at byte 1)\n"
    ));
    assert_snapshot!(mlx("nvfp4", 16, ("U8", vec![0x38, 0, 0x07, 0x08, 0x7f, 0xff, 0x81, 0x38]), None), @"
    scale: 2 of 8 numbers of the scale are NaN or infinite, the first is number 4, NaN (at byte 4)
    low_scale: 2 of 8 scales are below the normal range, the first is scale 2, 0.013671875 (at byte 2)
    nan: 32 of 128 values are NaN, the first is element 64
    ");
}

/// Scales that a checkpoint of another scheme keeps beside the weight.
#[test]
fn schemes_of_checkpoints() {
    let open = |config: &str, file: Safetensors| {
        let folder = folder(&[("config.json", config.into()), ("model.safetensors", file.build())]);
        Model::open(folder.path()).unwrap()
    };
    let fp8 = Safetensors::new()
        .tensor("l.weight", "F8_E4M3", &[2, 2], [0x38, 0x30, 0x38, 0x7f])
        .tensor("l.weight_scale", "F32", &[2, 1], f32s(&[f32::NAN, 1.0]))
        .tensor("l.input_scale", "F32", &[], f32s(&[f32::INFINITY]));
    let config = "{\"model_type\":\"llama\",\"quantization_config\":{\"quant_method\":\"compressed-tensors\"}}";
    assert_snapshot!(said(&open(config, fp8), "l.weight"), @"
    scale: 1 of 2 numbers of the scale are NaN or infinite, the first is number 0, NaN (at byte 0)
    scale: 1 of 1 numbers of the activation_scale are NaN or infinite, the first is number 0, inf (at byte 0)
    nan: 3 of 4 values are NaN, the first is element 0
    ");
    let nvfp4 = Safetensors::new()
        .tensor("l.weight_packed", "U8", &[2, 16], (0..32).collect::<Vec<u8>>())
        .tensor("l.weight_scale", "F8_E4M3", &[2, 2], [0x38, 0xff, 0x01, 0x38])
        .tensor("l.weight_global_scale", "F32", &[1], f32s(&[2.0]));
    assert_snapshot!(said(&open(config, nvfp4), "l.weight"), @"
    scale: 1 of 4 numbers of the scale are NaN or infinite, the first is number 1, NaN (at byte 1)
    low_scale: 1 of 4 scales are below the normal range, the first is scale 2, 0.001953125 (at byte 2)
    nan: 16 of 64 values are NaN, the first is element 16
    ");
}

#[test]
fn what_cannot_be_decoded_is_an_error() {
    let row = DType::IQ5_K.descriptor();
    let store = gguf(row.dtype, &[1, 256], vec![0; row.block_bytes as usize]);
    let error = store.stored_tensor("t").unwrap().check_values().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_snapshot!(error.to_string(), @r#"file: tensor "t": decoding IQ5_K is not supported yet"#);
}

/// Pieces of a part, and values of some rows, are the same as those of the whole.
#[test]
fn parts_of_the_whole() {
    use half::bf16;
    use weighbridge::{Error, Part};
    let bytes: Vec<u8> =
        (0..3u32 << 20).flat_map(|n| (n % 251).to_le_bytes()[..1].to_vec()).collect();
    let store = safetensors("BF16", &[3, 1 << 19], bytes.clone());
    let tensor = store.stored_tensor("t").unwrap();
    let mut pieces = Vec::new();
    let range = 5..(3 << 20) - 7;
    tensor
        .for_each_piece_in(Part::Weight, range.clone(), |piece| {
            pieces.extend_from_slice(piece);
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!(pieces, bytes[range.start as usize..range.end as usize]);
    let beyond = tensor.for_each_piece_in(Part::Weight, 0..(3 << 20) + 1, |_| Ok::<_, Error>(()));
    assert_snapshot!(beyond.unwrap_err().to_string(), @r#"file: tensor "t": bytes 0..3145729 exceed the 3145728 bytes of the weight"#);
    let mut values = Vec::new();
    let lost = tensor
        .for_each_values_in(1..3, |some: &[bf16]| {
            values.extend(some.iter().flat_map(|value| value.to_le_bytes()));
            Ok::<_, Error>(())
        })
        .unwrap();
    assert!(lost.is_lossless());
    assert_eq!(values, bytes[1 << 20..]);
    let beyond = tensor.for_each_values_in(1..4, |_: &[f32]| Ok::<_, Error>(()));
    assert_snapshot!(beyond.unwrap_err().to_string(), @r#"file: tensor "t": rows 1..4 exceed the 3 rows"#);
}
