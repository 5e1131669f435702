//! The values of checkpoints whose schemes are recognized by names and dtypes alone, computed here by the
//! formulas of those schemes; and arrays whose scheme is not known, whose values are refused.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "the numbers are the test's own"
)]

use std::path::Path;

use crate::support::{Safetensors, f32s, folder};
use tempfile::TempDir;
use weighbridge::container::{GGUF, SAFETENSORS};
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::{DType, ErrorKind, Model, Part, Strictness, WriteOptions};

fn config(quantization: &str) -> String {
    format!("{{\"quantization_config\": {quantization}}}")
}

fn directory(config: &str, file: &Safetensors) -> TempDir {
    folder(&[("config.json", config.into()), ("model.safetensors", file.build())])
}

fn opened(folder: &TempDir) -> Model {
    Model::open(folder.path()).unwrap_or_else(|error| panic!("{error}"))
}

/// Bytes of all kinds in a fixed order.
fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|n| (n * 37 + n / 11) as u8).collect()
}

/// The codes of E4M3 without NaN.
fn codes(count: usize) -> Vec<u8> {
    bytes(count).into_iter().map(|code| if code & 0x7f == 0x7f { 0 } else { code }).collect()
}

/// The value of a small float with bits of exponent and fraction.
fn small(code: u8, exponent: u32, fraction: u32, bias: i32) -> f32 {
    let low = f32::from(code & ((1 << fraction) - 1)) / (1u32 << fraction) as f32;
    let high = i32::from(code >> fraction) & ((1 << exponent) - 1);
    let value =
        if high == 0 { low * 2f32.powi(1 - bias) } else { (1.0 + low) * 2f32.powi(high - bias) };
    if code >> (exponent + fraction) & 1 == 1 { -value } else { value }
}

fn e4m3(code: u8) -> f32 {
    small(code, 4, 3, 7)
}

/// Two E2M1 codes of a byte, the low nibble first.
fn e2m1(packed: &[u8]) -> Vec<f32> {
    packed.iter().flat_map(|byte| [byte & 15, byte >> 4]).map(|code| small(code, 2, 1, 1)).collect()
}

fn power(byte: u8) -> f32 {
    2f32.powi(i32::from(byte) - 127)
}

/// Checks the values of the only tensor of a checkpoint.
fn check(
    what: &str,
    quantization: &str,
    file: &Safetensors,
    name: &str,
    dtype: DType,
    expected: &[f32],
) {
    let folder = directory(&config(quantization), file);
    let model = opened(&folder);
    let names: Vec<String> = model.stored_tensors().map(|t| t.name().to_string()).collect();
    assert_eq!(names, [name], "{what}");
    let tensor = model.stored_tensor(name).expect(name);
    assert_eq!(tensor.dtype().expect("a dtype"), dtype, "{what}");
    let values = tensor.dequantize().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(*values, *expected, "{what}");
    assert!(model.notes().is_empty(), "{what}: {:?}", model.notes());
}

#[test]
fn scales_that_are_powers_of_two() {
    let (rows, columns) = (160, 192);
    let weight = codes(rows * columns);
    for (dtype, ending, shape, reach) in [
        ("U8", ".weight_scale", [160u64, 6], [1, 32]),
        ("F8_E8M0", ".weight_scale", [160, 6], [1, 32]),
        ("F8_E8M0", ".weight_scale_inv", [2, 2], [128, 128]),
        ("F8_E8M0", ".scale", [2, 2], [128, 128]),
    ] {
        let powers: Vec<u8> = (0..shape[0] * shape[1]).map(|n| 110 + (n % 17) as u8).collect();
        let scale = |n: usize| {
            let place = [n / columns / reach[0], n % columns / reach[1]];
            power(powers[place[0] * shape[1] as usize + place[1]])
        };
        let expected: Vec<f32> =
            weight.iter().enumerate().map(|(n, code)| e4m3(*code) * scale(n)).collect();
        let file = Safetensors::new()
            .tensor("l.weight", "F8_E4M3", &[160, 192], weight.clone())
            .tensor(&format!("l{ending}"), dtype, &shape, powers.clone());
        check(
            ending,
            r#"{"quant_method":"x"}"#,
            &file,
            "l.weight",
            DType::SCALED_F8_E4M3,
            &expected,
        );
    }
}

#[test]
fn e2m1_codes_with_powers_of_two() {
    let (rows, columns) = (6, 64);
    let (weight, powers) = (bytes(rows * columns / 2), bytes(rows * columns / 32));
    let powers: Vec<u8> = powers.iter().map(|byte| 100 + byte % 40).collect();
    let expected: Vec<f32> =
        e2m1(&weight).iter().enumerate().map(|(n, v)| v * power(powers[n / 32])).collect();
    for (weights, scales, ending) in [
        ("U8", "U8", ".weight_scale"),
        ("U8", "F8_E8M0", ".weight_scale"),
        ("I8", "F8_E8M0", ".scale"),
    ] {
        let file = Safetensors::new().tensor("l.weight", weights, &[6, 32], weight.clone()).tensor(
            &format!("l{ending}"),
            scales,
            &[6, 2],
            powers.clone(),
        );
        check(ending, r#"{"quant_method":"quark"}"#, &file, "l.weight", DType::HF_MXFP4, &expected);
    }
}

#[test]
fn names_of_scales() {
    let weight = codes(6);
    let expected: Vec<f32> = weight.iter().map(|code| e4m3(*code) * 0.25).collect();
    for (scale, activation) in [
        ("l.weight_quantizer.scale", "l.input_quantizer.scale"),
        ("l.qscale_weight", "l.qscale_act"),
        ("l.weight._scale", "l.output_scale"),
        ("l.weight_scale", "l.input_scale_ub"),
        ("l.weight_scale_inv", "l.activation_scale"),
        ("l.scale", "l.input_scale"),
    ] {
        let of_quanto = scale.ends_with("._scale");
        let name = if of_quanto { "l.weight._data" } else { "l.weight" };
        let file = Safetensors::new()
            .tensor(name, "F8_E4M3", &[2, 3], weight.clone())
            .tensor(scale, "F32", &[], f32s(&[0.25]))
            .tensor(activation, "F32", &[], f32s(&[9.0]));
        check(scale, "{}", &file, "l.weight", DType::SCALED_F8_E4M3, &expected);
    }
}

#[test]
fn floats_of_other_formats() {
    let weight: Vec<u8> = codes(12).into_iter().map(|code| code & 0xbf).collect();
    for (name, dtype, exponent, fraction, bias) in [
        ("F8_E5M2", DType::SCALED_F8_E5M2, 5, 2, 15),
        ("F8_E4M3FNUZ", DType::SCALED_F8_E4M3FNUZ, 4, 3, 8),
        ("F8_E5M2FNUZ", DType::SCALED_F8_E5M2FNUZ, 5, 2, 16),
    ] {
        let weight: Vec<u8> = weight.iter().map(|&c| if c == 0x80 { 1 } else { c }).collect();
        let expected: Vec<f32> = weight
            .iter()
            .enumerate()
            .map(|(n, code)| small(*code, exponent, fraction, bias) * [0.5, 3.0][n / 6])
            .collect();
        let file = Safetensors::new().tensor("l.weight", name, &[2, 6], weight).tensor(
            "l.weight_scale",
            "F32",
            &[2, 1],
            f32s(&[0.5, 3.0]),
        );
        check(name, "{}", &file, "l.weight", dtype, &expected);
    }
}

/// The experts of a layer in one array, as transformers 5 saves them.
#[test]
fn experts_in_one_array() {
    let shape = [2u64, 130, 192];
    let weight = codes(2 * 130 * 192);
    for (name, scales, reach) in [
        ("gate_up_proj_scale_inv", &[2u64, 2, 2][..], [1usize, 128, 128]),
        ("gate_up_proj_scale", &[2], [1, 130, 192]),
        ("gate_up_proj_scale", &[2, 1, 1], [1, 130, 192]),
        ("gate_up_proj_scale", &[2, 130], [1, 1, 192]),
    ] {
        let count = scales.iter().product::<u64>() as usize;
        let numbers: Vec<f32> = (0..count).map(|n| 0.5 + n as f32).collect();
        let at = |n: usize| {
            let place = [n / (130 * 192), n / 192 % 130, n % 192];
            let along = |axis: usize| scales.get(axis).map_or(1, |len| *len as usize);
            (0..3).fold(0, |at, axis| at * along(axis) + place[axis] / reach[axis])
        };
        let expected: Vec<f32> =
            weight.iter().enumerate().map(|(n, code)| e4m3(*code) * numbers[at(n)]).collect();
        let file = Safetensors::new()
            .tensor("e.gate_up_proj", "F8_E4M3", &shape, weight.clone())
            .tensor(&format!("e.{name}"), "F32", scales, f32s(&numbers));
        check(name, "{}", &file, "e.gate_up_proj", DType::SCALED_F8_E4M3, &expected);
    }
    let (weight, scales) = (bytes(2 * 3 * 16), codes(2 * 3 * 2));
    let expected: Vec<f32> = e2m1(&weight)
        .iter()
        .enumerate()
        .map(|(n, v)| v * (e4m3(scales[n / 16]) * [0.5, 4.0][n / 96]))
        .collect();
    let file = Safetensors::new()
        .tensor("e.down_proj", "U8", &[2, 3, 16], weight)
        .tensor("e.down_proj_scale", "F8_E4M3", &[2, 3, 2], scales)
        .tensor("e.down_proj_scale_2", "F32", &[2], f32s(&[0.5, 4.0]));
    check("nvfp4", "{}", &file, "e.down_proj", DType::HF_NVFP4, &expected);
}

/// AWQ in ModelOpt leaves a factor of the input with some layers.
#[test]
fn a_factor_of_the_input() {
    let (weight, scales) = (bytes(2 * 16), codes(4));
    let factors: Vec<f32> = (0..32).map(|n| 0.5 + n as f32 / 8.0).collect();
    let expected: Vec<f32> = e2m1(&weight)
        .iter()
        .enumerate()
        .map(|(n, v)| v * (e4m3(scales[n / 16]) * 0.1) * factors[n % 32])
        .collect();
    let file = Safetensors::new()
        .tensor("l.weight", "U8", &[2, 16], weight)
        .tensor("l.weight_scale", "F8_E4M3", &[2, 2], scales)
        .tensor("l.weight_scale_2", "F32", &[], f32s(&[0.1]))
        .tensor("l.pre_quant_scale", "F32", &[32], f32s(&factors));
    check("nvfp4 after awq", "{}", &file, "l.weight", DType::HF_NVFP4_AWQ, &expected);
}

#[test]
fn packed_integers_of_stated_widths() {
    for (bits, dtype) in [
        (2u32, DType::CT_INT2),
        (3, DType::CT_INT3),
        (4, DType::CT_INT4),
        (5, DType::CT_INT5),
        (6, DType::CT_INT6),
        (7, DType::CT_INT7),
        (8, DType::CT_INT8),
    ] {
        let integers: Vec<u32> = (0..2 * 64u32).map(|n| (n * 29) & ((1 << bits) - 1)).collect();
        // A stream of bits, the lowest first.
        let mut packed = vec![0u8; 2 * 64 * bits as usize / 8];
        for (n, integer) in integers.iter().enumerate() {
            for bit in (0..bits).filter(|bit| integer >> bit & 1 == 1) {
                let at = n * bits as usize + bit as usize;
                packed[at / 8] |= 1 << (at % 8);
            }
        }
        let half = (1u32 << (bits - 1)) as f32;
        let expected: Vec<f32> = integers
            .iter()
            .enumerate()
            .map(|(n, q)| (*q as f32 - half) * [0.5, 2.0, 3.0, 4.0][n / 32])
            .collect();
        let words = u64::from(bits) * 2;
        for (dims, wide) in [("I32", false), ("I64", true)] {
            let shape: Vec<u8> = [2u64, 64]
                .iter()
                .flat_map(|n| n.to_le_bytes()[..if wide { 8 } else { 4 }].to_vec())
                .collect();
            let file = Safetensors::new()
                .tensor("l.weight_packed", "I32", &[2, words], packed.clone())
                .tensor("l.weight_scale", "F32", &[2, 2], f32s(&[0.5, 2.0, 3.0, 4.0]))
                .tensor("l.weight_shape", dims, &[2], shape);
            let stated =
                format!("{{\"config_groups\":{{\"g\":{{\"weights\":{{\"num_bits\":{bits}}}}}}}}}");
            check(dims, &stated, &file, "l.weight", dtype, &expected);
        }
    }
}

/// The words in which numbers of 4 bits follow each other, the lowest bits first.
fn nibbles(numbers: &[u8]) -> Vec<u8> {
    numbers.chunks(2).map(|pair| pair[0] | pair[1] << 4).collect()
}

/// Scales and zero points of this layout are padded: three groups have room for 32.
#[test]
fn awq_that_is_packed_along_the_input() {
    let codes: Vec<u8> = (0..2 * 96).map(|n| (n * 7 % 16) as u8).collect();
    let zeros = [[3u8, 9, 15], [8, 1, 4]].map(|of| [&of[..], &[0; 29]].concat());
    let scales: Vec<f32> = (0..64).map(|n| (n + 1) as f32 / 8.0).collect();
    let expected: Vec<f32> = codes
        .iter()
        .enumerate()
        .map(|(n, code)| {
            let (row, group) = (n / 96, n % 96 / 32);
            scales[row * 32 + group] * (f32::from(*code) - f32::from(zeros[row][group]))
        })
        .collect();
    let file = Safetensors::new()
        .tensor("l.qweight", "I32", &[2, 12], nibbles(&codes))
        .tensor("l.qzeros", "I32", &[2, 4], nibbles(&zeros.concat()))
        .tensor("l.scales", "F32", &[2, 32], f32s(&scales));
    let stated = r#"{"quant_method":"awq","version":"gemv","group_size":32}"#;
    check("gemv", stated, &file, "l.weight", DType::AWQ4_GEMV, &expected);
}

#[test]
fn half_of_a_matrix_and_its_bits() {
    // Two of four elements, in each place that they can have.
    let pairs = [[0usize, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]];
    let places: Vec<usize> = (0..12).flat_map(|n| pairs[n % 6].map(|at| n * 4 + at)).collect();
    let mut mask = vec![0u8; 2 * 3];
    places.iter().for_each(|at| mask[at / 8] |= 1 << (at % 8));
    let stored = codes(24);
    let dims: Vec<u8> = [2u64, 24].iter().flat_map(|dim| dim.to_le_bytes()).collect();
    let file = |dtype: &str, bytes: Vec<u8>| {
        Safetensors::new()
            .tensor("l.compressed", dtype, &[2, 12], bytes)
            .tensor("l.bitmask", "U8", &[2, 3], mask.clone())
            .tensor("l.shape", "I64", &[2, 1], dims.clone())
    };
    let spread = |value: &dyn Fn(usize) -> f32| {
        let mut expected = vec![0.0; 48];
        places.iter().enumerate().for_each(|(n, at)| expected[*at] = value(n));
        expected
    };
    let stated =
        r#"{"quant_method":"compressed-tensors","sparsity_config":{"format":"sparse-24-bitmask"}}"#;
    let scaled = |bytes: &[u8], dtype: &str| {
        file(dtype, bytes.to_vec()).tensor("l.weight_scale", "F32", &[2, 1], f32s(&[0.5, 3.0]))
    };
    let scale = |n: usize| [0.5, 3.0][n / 12];
    let expected = spread(&|n| e4m3(stored[n]) * scale(n));
    check("f8", stated, &scaled(&stored, "F8_E4M3"), "l.weight", DType::SPARSE24_8, &expected);
    let expected = spread(&|n| f32::from(stored[n] as i8) * scale(n));
    check("i8", stated, &scaled(&stored, "I8"), "l.weight", DType::SPARSE24_8, &expected);
    let halves: Vec<u8> = (0..24u16).flat_map(|n| (0x3f80 + n).to_le_bytes()).collect();
    let expected = spread(&|n| f32::from_bits((0x3f80 + n as u32) << 16));
    check("bf16", stated, &file("BF16", halves), "l.weight", DType::SPARSE24_16, &expected);
}

#[test]
fn floats_of_six_bits() {
    let numbers: Vec<u8> = (0..2 * 64).map(|n| (n * 23 % 64) as u8).collect();
    let mut packed = vec![0u8; 2 * 48];
    for (n, bit) in (0..numbers.len()).flat_map(|n| (0..6).map(move |bit| (n, bit))) {
        packed[(n * 6 + bit) / 8] |= (numbers[n] >> bit & 1) << ((n * 6 + bit) % 8);
    }
    let powers = [127u8, 120, 130, 128];
    let value = |(n, code): (usize, &u8)| small(*code, 2, 3, 1) * power(powers[n / 32]);
    let expected: Vec<f32> = numbers.iter().enumerate().map(value).collect();
    let file = Safetensors::new().tensor("l.weight_packed", "U8", &[2, 48], packed).tensor(
        "l.weight_scale",
        "U8",
        &[2, 2],
        powers.to_vec(),
    );
    let stated = r#"{"quant_method":"compressed-tensors","format":"mxfp6-pack-quantized"}"#;
    check("mxfp6", stated, &file, "l.weight", DType::CT_MXFP6, &expected);
}

/// compressed-tensors' strategies `tensor` and `block`: their zero points are not packed.
#[test]
fn packed_integers_with_shared_scales() {
    let integers: Vec<u8> = (0..32 * 64).map(|n| (n * 11 % 16) as u8).collect();
    let dims: Vec<u8> = [32u64, 64].iter().flat_map(|dim| dim.to_le_bytes()).collect();
    let stated = r#"{"config_groups":{"g":{"weights":{"num_bits":4}}}}"#;
    let blocks = [0.5f32, 2.0, 3.0, 4.0];
    for (shape, scales, zeros) in [
        (&[1u64][..], &blocks[1..2], &[3i8][..]),
        (&[2, 2], &blocks, &[-2, 0, 5, 7]),
        (&[2, 2], &blocks, &[]),
    ] {
        let at = |n: usize| if scales.len() == 1 { 0 } else { n / 64 / 16 * 2 + n % 64 / 32 };
        let zero = |n: usize| zeros.get(at(n)).map_or(0.0, |zero| f32::from(*zero));
        let value = |(n, q): (usize, &u8)| scales[at(n)] * (f32::from(*q) - 8.0 - zero(n));
        let expected: Vec<f32> = integers.iter().enumerate().map(value).collect();
        let mut file = Safetensors::new()
            .tensor("l.weight_packed", "I32", &[32, 8], nibbles(&integers))
            .tensor("l.weight_scale", "F32", shape, f32s(scales))
            .tensor("l.weight_shape", "I64", &[2], dims.clone());
        if !zeros.is_empty() {
            let bytes: Vec<u8> = zeros.iter().map(|zero| *zero as u8).collect();
            file = file.tensor("l.weight_zero_point", "I8", shape, bytes);
        }
        check("shared", stated, &file, "l.weight", DType::CT_INT4, &expected);
    }
}

/// auto-round's own packing stores zero points as they are, and its others as GPTQ does.
#[test]
fn packings_of_auto_round() {
    let file = Safetensors::new()
        .tensor("l.qweight", "I32", &[1, 8], vec![0x55; 32])
        .tensor("l.scales", "F32", &[1, 8], f32s(&[1.0; 8]))
        .tensor("l.qzeros", "I32", &[1, 1], vec![0x33; 4]);
    for (stated, dtype, value) in [
        (r#""packing_format":"auto_round""#, DType::GPTQ4_V2, 2.0),
        (r#""packing_format":"auto_round:exllamav2""#, DType::GPTQ4_V2, 2.0),
        (r#""packing_format":"auto_round:auto_gptq""#, DType::GPTQ4, 1.0),
        (r#""backend":"auto_round:gptq:exllamav2""#, DType::GPTQ4, 1.0),
        (r#""bits":4"#, DType::GPTQ4, 1.0),
    ] {
        for method in ["auto-round", "intel/auto-round"] {
            let stated = format!("{{\"quant_method\":\"{method}\",{stated}}}");
            check(&stated, &stated, &file, "l.weight", dtype, &[value; 64]);
        }
    }
}

/// A checkpoint: what its config states, and its arrays of zeros by name, dtype and shape.
type Checkpoint<'a> = (&'a str, &'a [(&'a str, &'a str, &'a [u64])]);

fn zeros(arrays: &[(&str, &str, &[u64])]) -> Safetensors {
    arrays.iter().fold(Safetensors::new(), |file, (name, dtype, shape)| {
        let width = DType::from_safetensors(dtype.as_bytes()).and_then(|dtype| dtype.row_bytes(1));
        let bytes = shape.iter().product::<u64>() * width.expect("whole bytes");
        file.tensor(name, dtype, shape, vec![0; bytes as usize])
    })
}

/// Checkpoints whose first array is no tensor of numbers, with a word that the refusal has.
#[rustfmt::skip]
const UNKNOWN: &[(&str, Checkpoint<'_>)] = &[
    ("exl3", (r#"{"quant_method":"exl3"}"#, &[("l.trellis", "I16", &[2, 2, 64]), ("l.suh", "F16", &[32]), ("l.svh", "F16", &[32]), ("l.mcg", "I32", &[])])),
    ("exl2", (r#"{"quant_method":"exl2"}"#, &[("l.q_weight", "I32", &[4, 32]), ("l.q_scale", "I32", &[1, 4]), ("l.q_invperm", "I32", &[32])])),
    ("hqq", (r#"{"quant_method":"hqq"}"#, &[("l.W_q", "U8", &[8, 64]), ("l.scale", "F16", &[16, 1]), ("l.zero", "F16", &[16, 1]), ("l.shape", "I64", &[2])])),
    ("aqlm", (r#"{"quant_method":"aqlm"}"#, &[("l.codes", "I16", &[4, 4, 1]), ("l.codebooks", "F16", &[1, 256, 1, 8]), ("l.scales", "F16", &[4, 1, 1, 1])])),
    ("vptq", (r#"{"quant_method":"vptq"}"#, &[("l.indices", "I32", &[1, 4, 4]), ("l.centroids.weight", "F16", &[1, 64]), ("l.perm", "I32", &[4])])),
    ("spqr", (r#"{"quant_method":"spqr"}"#, &[("l.dense_weights", "I64", &[64]), ("l.row_offsets", "I32", &[5])])),
    ("higgs", (r#"{"quant_method":"higgs"}"#, &[("l.weight", "I16", &[4, 8]), ("l.scales", "F16", &[4, 1]), ("l.tables", "F16", &[16, 2])])),
    ("quanto", (r#"{"quant_method":"quanto"}"#, &[("l.weight._data._data", "U8", &[4, 8]), ("l.weight._scale", "F16", &[8, 1]), ("l.weight._shift", "F16", &[8, 1])])),
    ("gemma", (r#"{"quant_method":"gemma"}"#, &[("l.weight", "U8", &[4, 8]), ("l.weight_scale", "F32", &[4, 1]), ("l.input_activation_scale", "F32", &[])])),
    ("nvfp4", (r#"{"quant_method":"nvfp4"}"#, &[("l.weight", "U8", &[4, 8]), ("l.weight_sf", "I32", &[128, 1]), ("l.weight_sf_rowmajor", "U8", &[4, 1]), ("l.weight_global_scale", "F32", &[1])])),
    ("squeezellm", (r#"{"quant_method":"squeezellm"}"#, &[("l.qweight", "I32", &[4, 32]), ("l.lookup_table", "F16", &[32, 16])])),
    ("marlin-24", (r#"{"quant_method":"compressed-tensors","format":"marlin-24"}"#, &[("l.weight_packed", "I32", &[1, 64]), ("l.scale_packed", "F16", &[1, 32]), ("l.meta", "I16", &[32, 2])])),
    ("gptq_marlin_24", (r#"{"quant_method":"gptq_marlin_24"}"#, &[("l.B_24", "I32", &[1, 64]), ("l.B_meta", "I16", &[32, 2]), ("l.s", "F16", &[1, 32])])),
    ("qqq", (r#"{"quant_method":"qqq"}"#, &[("l.B", "I32", &[2, 64]), ("l.s_channel", "F32", &[1, 32]), ("l.s_group", "F16", &[1, 32])])),
    ("bitblas", (r#"{"quant_method":"bitblas"}"#, &[("l.qweight", "I8", &[32, 16]), ("l.scales", "F16", &[32, 1]), ("l.zeros", "F16", &[32, 1])])),
    ("metal", (r#"{"quant_method":"metal"}"#, &[("l.weight", "U32", &[4, 8]), ("l.scales", "F16", &[4, 1]), ("l.qbiases", "F16", &[4, 1])])),
    ("fp_quant", (r#"{"quant_method":"fp_quant"}"#, &[("l.qweight", "U8", &[4, 16]), ("l.scales", "U8", &[4, 1]), ("l.forward_hadamard_matrix", "BF16", &[32, 32])])),
    ("bitnet", (r#"{"quant_method":"bitnet"}"#, &[("l.weight", "U8", &[1, 8]), ("l.weight_scale", "BF16", &[1])])),
    ("rounds it", (r#"{"quant_method":"bitnet","linear_class":"autobitlinear","quantization_mode":"online"}"#, &[("l.weight", "BF16", &[4, 8])])),
    ("gemv_fast", (r#"{"quant_method":"awq","version":"gemv_fast","group_size":32}"#, &[("l.qweight", "I16", &[8, 32]), ("l.qzeros", "F16", &[8, 32]), ("l.scales", "F16", &[8, 32])])),
    ("eetq", (r#"{"quant_method":"eetq"}"#, &[("l.weight", "I8", &[4, 8]), ("l.weight_scales", "F16", &[8])])),
    ("AutoAWQ", (r#"{"quant_method":"awq"}"#, &[("f.act.scales", "F16", &[16]), ("f.down.qweight", "I32", &[8, 2]), ("f.down.scales", "F16", &[1, 16]), ("f.down.qzeros", "I32", &[1, 2])])),
    ("gemv", (r#"{"quant_method":"awq","version":"gemv"}"#, &[("l.qweight", "I32", &[32, 4]), ("l.qzeros", "I32", &[32, 1]), ("l.scales", "F16", &[32, 1])])),
    ("marlin", (r#"{"quant_method":"gptq","checkpoint_format":"marlin"}"#, &[("l.B", "I32", &[2, 64]), ("l.s", "F16", &[1, 32]), ("l.workspace", "I32", &[16])])),
    ("sparse-24", (r#"{"quant_method":"compressed-tensors","sparsity_config":{"format":"sparse-24-bitmask"}}"#, &[("l.bitmask", "U8", &[4, 4]), ("l.compressed", "F16", &[4, 16])])),
    ("quark", (r#"{"quant_method":"quark"}"#, &[("l.weight", "I32", &[8, 4]), ("l.weight_scale", "F16", &[1, 32]), ("l.weight_zero_point", "I32", &[1, 4])])),
    ("fp8", (r#"{"quant_method":"fp8"}"#, &[("l.weight", "F8_E4M3", &[4, 8])])),
    ("weight_scale_2", (r#"{"quant_method":"fp8"}"#, &[("l.weight", "F8_E4M3", &[4, 8]), ("l.weight_scale", "F32", &[]), ("l.weight_scale_2", "F32", &[])])),
    ("pre_quant_scale", (r#"{"quant_method":"modelopt"}"#, &[("l.weight", "I8", &[4, 8]), ("l.weight_scale", "F32", &[4]), ("l.pre_quant_scale", "F32", &[8])])),
    ("pre_quant_scale", (r#"{"quant_method":"modelopt"}"#, &[("l.weight", "BF16", &[4, 8]), ("l.pre_quant_scale", "F32", &[8])])),
    ("smooth_scale", (r#"{"quant_method":"x"}"#, &[("l.weight", "F16", &[4, 8]), ("l.smooth_scale", "F32", &[8])])),
    ("sinq", (r#"{"quant_method":"sinq"}"#, &[("e.gate_up_proj", "U8", &[2, 4, 8]), ("e.gate_up_proj_scales", "F16", &[2, 4, 1])])),
    ("not stated", ("null", &[("l.weight", "U8", &[4, 8]), ("l.weight.absmax", "F32", &[1]), ("l.weight.quant_map", "F32", &[16])])),
];

/// Checkpoints that are decoded, each of another value of `quant_method`.
#[rustfmt::skip]
const DECODED: &[Checkpoint<'_>] = &[
    (r#"{"quant_method":"auto-round"}"#, &[("l.qweight", "I32", &[1, 8]), ("l.scales", "F16", &[1, 8]), ("l.qzeros", "I32", &[1, 1])]),
    (r#"{"quant_method":"awq"}"#, &[("l.qweight", "I32", &[8, 2]), ("l.scales", "F16", &[1, 16]), ("l.qzeros", "I32", &[1, 2])]),
    (r#"{"quant_method":"bitsandbytes"}"#, &[("l.weight", "I8", &[4, 8]), ("l.SCB", "F32", &[4])]),
    (r#"{"quant_method":"compressed-tensors"}"#, &[("l.weight", "I8", &[4, 8]), ("l.weight_scale", "F32", &[4, 1])]),
    (r#"{"quant_method":"fbgemm_fp8"}"#, &[("l.weight", "F8_E4M3", &[4, 8]), ("l.weight_scale", "F32", &[4, 1]), ("l.input_scale_ub", "F32", &[1])]),
    (r#"{"quant_method":"fp8"}"#, &[("l.weight", "F8_E4M3", &[4, 8]), ("l.weight_scale_inv", "F32", &[1, 1])]),
    (r#"{"quant_method":"gptq"}"#, &[("l.qweight", "I32", &[1, 8]), ("l.scales", "F16", &[1, 8]), ("l.qzeros", "I32", &[1, 1])]),
    (r#"{"quant_method":"modelopt"}"#, &[("l.weight", "U8", &[4, 16]), ("l.weight_scale", "F8_E4M3", &[4, 2]), ("l.weight_scale_2", "F32", &[]), ("l.input_scale", "F32", &[])]),
    (r#"{"quant_method":"mxfp4"}"#, &[("l_blocks", "U8", &[2, 4, 1, 16]), ("l_scales", "U8", &[2, 4, 1])]),
    (r#"{"quant_method":"mxfp8"}"#, &[("l.weight", "F8_E4M3", &[4, 32]), ("l.weight_scale_inv", "U8", &[4, 1])]),
    (r#"{"quant_method":"quark"}"#, &[("l.weight", "F8_E4M3", &[4, 8]), ("l.weight_scale", "F32", &[])]),
    (r#"{"quant_method":"torchao"}"#, &[("l._weight_qdata", "I8", &[4, 8]), ("l._weight_scale", "BF16", &[4, 1])]),
];

/// The values of `quant_method` in transformers 5.24 that files of safetensors have, and those of vLLM beside them.
/// mlx-lm 0.31 reads some of these. Not fouroversix, whose arrays its package chooses.
#[rustfmt::skip]
const METHODS: &[&str] = &[
    "aqlm", "auto-round", "awq", "bitnet", "bitsandbytes", "compressed-tensors", "eetq", "fbgemm_fp8", "fp8", "fp_quant",
    "gemma", "gptq", "higgs", "hqq", "metal", "mxfp4", "mxfp8", "nvfp4", "quanto", "quark", "sinq", "spqr", "torchao",
    "vptq",
    "bitblas", "exl2", "exl3", "gptq_marlin_24", "modelopt", "qqq", "squeezellm",
];

#[test]
fn every_method_is_decoded_or_named() {
    let all =
        || UNKNOWN.iter().map(|(_, (stated, _))| *stated).chain(DECODED.iter().map(|row| row.0));
    for method in METHODS {
        let tried = all().any(|stated| stated.contains(&format!("\"quant_method\":\"{method}\"")));
        assert!(tried, "{method}");
    }
    for (stated, arrays) in DECODED {
        let model = opened(&directory(&config(stated), &zeros(arrays)));
        let tensors: Vec<_> = model.stored_tensors().collect();
        assert_eq!(tensors.len(), 1, "{stated}");
        tensors[0].dequantize().unwrap_or_else(|error| panic!("{stated}: {error}"));
    }
}

/// The name of an array in its module, its dtype and its shape.
type Array = (&'static str, &'static str, &'static [u64]);

/// The arrays of a module in schemes that are not decoded, by their names in it.
#[rustfmt::skip]
const MODULES: &[(&str, &[Array])] = &[
    ("exl3", &[("trellis", "I16", &[2, 2, 64]), ("suh", "F16", &[32]), ("svh", "F16", &[32]), ("mcg", "I32", &[])]),
    ("exl2", &[("q_weight", "I32", &[4, 32]), ("q_scale", "I32", &[1, 4]), ("q_invperm", "I16", &[32])]),
    ("aqlm", &[("codes", "I16", &[4, 4, 1]), ("codebooks", "F16", &[1, 256, 1, 8]), ("scales", "F16", &[4, 1, 1, 1])]),
    ("hqq", &[("W_q", "U8", &[8, 64]), ("scale", "F16", &[16, 1]), ("zero", "F16", &[16, 1])]),
    ("vptq", &[("indices", "I32", &[1, 4, 4]), ("centroids.weight", "F16", &[1, 64])]),
];

/// A Llama of one layer, whose matrices have the arrays that `arrays` gives for their inputs and outputs.
fn llama<'a>(
    method: &str,
    arrays: impl Fn([u64; 2]) -> Vec<(&'a str, &'a str, Vec<u64>)>,
) -> TempDir {
    let mut file = zeros(&[
        ("model.embed_tokens.weight", "F16", &[40, 32]),
        ("model.norm.weight", "F16", &[32]),
        ("model.layers.0.input_layernorm.weight", "F16", &[32]),
        ("model.layers.0.post_attention_layernorm.weight", "F16", &[32]),
    ]);
    for (module, shape) in [
        ("model.layers.0.self_attn.q_proj", [32, 32]),
        ("model.layers.0.self_attn.k_proj", [32, 32]),
        ("model.layers.0.self_attn.v_proj", [32, 32]),
        ("model.layers.0.self_attn.o_proj", [32, 32]),
        ("model.layers.0.mlp.gate_proj", [32, 64]),
        ("model.layers.0.mlp.up_proj", [32, 64]),
        ("model.layers.0.mlp.down_proj", [64, 32]),
        ("lm_head", [32, 40]),
    ] {
        for (name, dtype, shape) in arrays(shape) {
            let width =
                DType::from_safetensors(dtype.as_bytes()).and_then(|dtype| dtype.row_bytes(1));
            let bytes = shape.iter().product::<u64>() * width.expect("whole bytes");
            file = file.tensor(&format!("{module}.{name}"), dtype, &shape, vec![0; bytes as usize]);
        }
    }
    let config = format!(
        r#"{{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32, "intermediate_size": 64,
        "num_attention_heads": 2, "num_hidden_layers": 1, "vocab_size": 40, "rms_norm_eps": 1e-5,
        "max_position_embeddings": 64, "tie_word_embeddings": false,
        "quantization_config": {{"quant_method": "{method}"}}}}"#
    );
    directory(&config, &file)
}

/// Parts of matrices that are packed across rows count as that part of their stored bytes, not as decoded values.
#[test]
fn parts_of_quantized_matrices_count_as_stored() {
    let folder = llama("gptq", |[inputs, outputs]| {
        vec![
            ("qweight", "I32", vec![inputs / 8, outputs]),
            ("scales", "F16", vec![inputs / 16, outputs]),
            ("qzeros", "I32", vec![inputs / 16, outputs / 8]),
        ]
    });
    let report = ops::shares(&opened(&folder), &"tp=2".parse().expect("a mesh")).expect("shares");
    for tensor in &report.tensors {
        for part in &tensor.parts {
            let elements = |shape: &[u64]| shape.iter().product::<u64>();
            let expected = tensor.bytes * elements(&part.shape) / elements(&tensor.shape);
            assert_eq!(part.bytes, expected, "{}", tensor.name);
        }
    }
    assert!(report.ranks.iter().all(|rank| rank.bytes < report.bytes), "{:?}", report.ranks);
}

/// A Llama whose matrices are arrays of a scheme that is not decoded is still a Llama: its arrays belong to its
/// tensors, the stored output matrix among them.
#[test]
fn arrays_that_are_not_decoded_belong_to_tensors() {
    for (method, arrays) in MODULES {
        let source = llama(method, |_| {
            arrays.iter().map(|(name, dtype, shape)| (*name, *dtype, shape.to_vec())).collect()
        });
        let model = opened(&source);
        let resolution = model.resolution().expect("names");
        let of = |name: &str| {
            resolution.undecoded.iter().filter(|array| array.canonical == name).count()
        };
        for name in ["layers.0.attention.k.weight", "layers.0.ffn.down.weight", "output.weight"] {
            assert_eq!(of(name), arrays.len(), "{method} {name}");
        }
        let tied = model.config().expect("a config").tie_embeddings.clone().expect("it");
        assert!(!tied.value && tied.source.to_string().contains("lm_head"), "{method}: {tied:?}");
        let found = ops::check_consistency(&model, Strictness::Default).expect("a check");
        assert!(found.faults.len() == 1 && found.faults[0].contains(method), "{method}: {found:?}");
        copies(&model, source.path());
    }
}

/// Arrays of which some are of 8 bits, and are what they seem.
#[rustfmt::skip]
const PLAIN: &[Checkpoint<'_>] = &[
    ("null", &[("l.weight", "F8_E4M3", &[4, 8]), ("m.weight", "F8_E5M2", &[4, 8])]),
    ("null", &[("e.position_ids", "I64", &[1, 8]), ("l.weight", "I8", &[4, 8])]),
    (r#"{"modules_to_not_convert":["l"]}"#, &[("a.l.weight", "F8_E4M3", &[4, 8])]),
    (r#"{"ignore":["re:.*head.*"]}"#, &[("a.head.weight", "F8_E4M3", &[4, 8])]),
    ("{}", &[("e.position_ids", "I64", &[1, 8]), ("a.bias", "U8", &[1, 1, 8, 8]), ("a.causal_mask", "I8", &[8, 8]), ("g.weight", "BF16", &[4, 8]), ("g.tid2eid", "I64", &[8, 2])]),
    ("{}", &[("a.k_proj.weight", "BF16", &[4, 8]), ("a.k_proj.k_scale", "F32", &[]), ("a.logit_scale", "F32", &[1]), ("l.weight", "BF16", &[8]), ("l.weight_scale", "F32", &[])]),
    ("{}", &[("l.weight", "F8_E4M3", &[4, 8]), ("l.weight_scale", "F32", &[]), ("l.k_scale", "F32", &[]), ("l.output_scale", "F32", &[])]),
];

#[test]
fn codes_without_their_scales_are_refused() {
    for (word, (stated, arrays)) in UNKNOWN {
        let folder = directory(&config(stated), &zeros(arrays));
        let model = opened(&folder);
        let name = arrays[0].0;
        let tensor = model.stored_tensor(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        let error = tensor.dequantize().expect_err(word);
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{word}: {error}");
        assert!(error.to_string().contains(word), "{word}: {error}");
        assert_eq!(error.tensor(), Some(name));
        assert!(!error.advice().unwrap_or_default().contains("fetch"));
        assert!(model.notes().iter().any(|note| note.text.contains(word)), "{word}");
        // The bytes are there.
        assert!(tensor.bytes(weighbridge::Part::Weight).is_ok(), "{word}");
        let found = ops::check_consistency(&model, Strictness::Default).expect("a check");
        assert!(found.faults.len() == 1 && found.faults[0].contains(word), "{word}: {found:?}");
        for options in
            [ConvertOptions::new(&GGUF), ConvertOptions::new(&SAFETENSORS).dtype(DType::F32)]
        {
            let error = ops::convert(&model, &options).map(drop).expect_err(word);
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{word}: {error}");
            assert!(error.to_string().contains(word), "{word}: {error}");
        }
        copies(&model, folder.path());
    }
}

/// The inputs of a layer may be described by several arrays, and its outputs too.
#[test]
fn arrays_of_activations_are_copied_one_by_one() {
    let file = Safetensors::new()
        .tensor("l.weight", "I8", &[2, 4], bytes(8))
        .tensor("l.weight_scale", "F32", &[2, 1], f32s(&[0.5, 0.25]))
        .tensor("l.input_scale", "F32", &[1], f32s(&[0.125]))
        .tensor("l.input_zero_point", "I8", &[1], vec![3])
        .tensor("l.output_scale", "F32", &[1], f32s(&[2.0]));
    let scheme = r#"{"quant_method":"compressed-tensors","format":"int-quantized","config_groups":{"group_0":{"targets":["Linear"],"weights":{"num_bits":8,"type":"int","symmetric":true,"strategy":"channel"}}}}"#;
    let folder = directory(&config(scheme), &file);
    let model = opened(&folder);
    copies(&model, folder.path());
    let out = tempfile::tempdir().expect("a folder");
    let plan = ops::convert(&model, &ConvertOptions::new(&SAFETENSORS)).expect("a plan");
    plan.run(&out.path().join("copy"), &WriteOptions::new()).expect("a copy");
    let copy = Model::open(out.path().join("copy")).expect("a model");
    let tensor = copy.stored_tensor("l.weight").expect("it");
    for (part, expected) in [
        (Part::ActivationScale, f32s(&[0.125])),
        (Part::ActivationZeroPoint, vec![3]),
        (Part::OutputScale, f32s(&[2.0])),
    ] {
        assert_eq!(*tensor.bytes(part).expect("an array"), *expected, "{part:?}");
    }
}

/// A copy has the same arrays, and is described as the source is.
fn copies(model: &Model, source: &Path) {
    let copy = tempfile::tempdir().expect("a folder");
    let plan = ops::convert(model, &ConvertOptions::new(&SAFETENSORS)).expect("a plan");
    plan.run(&copy.path().join("copy"), &WriteOptions::new()).expect("a copy");
    let again = Model::open(copy.path().join("copy")).expect("a model");
    let arrays = |model: &Model| {
        let all = model.stored_tensors().flat_map(|tensor| {
            let parts = tensor.segments();
            parts
                .map(|part| (part.name.to_string(), part.dtype, part.shape.to_vec()))
                .collect::<Vec<_>>()
        });
        let mut all: Vec<_> = all.collect();
        all.sort();
        all
    };
    assert_eq!(arrays(&again), arrays(model));
    let config = |folder: &Path| std::fs::read_to_string(folder.join("config.json")).expect("it");
    assert_eq!(config(&copy.path().join("copy")), config(source));
}

#[test]
fn plain_arrays_are_not_taken_for_codes() {
    for (number, (stated, arrays)) in PLAIN.iter().enumerate() {
        let folder = directory(&config(stated), &zeros(arrays));
        let model = opened(&folder);
        for tensor in model.stored_tensors() {
            tensor.dequantize().unwrap_or_else(|error| panic!("{number}: {error}"));
        }
        let notes = model.notes().iter().map(|note| note.text.as_str());
        let notes: Vec<&str> =
            notes.filter(|note| !note.contains("no tensor is quantized")).collect();
        assert!(notes.is_empty(), "{number}: {notes:?}");
    }
}

/// The scales of codes are numbers themselves.
#[test]
fn companions_can_be_read() {
    let (_, (stated, arrays)) = UNKNOWN.iter().find(|(word, _)| *word == "aqlm").expect("it");
    let folder = directory(&config(stated), &zeros(arrays));
    let model = opened(&folder);
    assert_eq!(model.stored_tensor("l.scales").expect("it").dequantize().expect("it").len(), 4);
}

/// transformers reads a scheme in config.json alone: a copy states there what only another program's document says.
#[test]
fn schemes_of_other_documents_are_stated_in_config_json() {
    let gptq = [
        ("l.qweight", "I32", &[1, 8][..]),
        ("l.scales", "F16", &[1, 8]),
        ("l.qzeros", "I32", &[1, 1]),
    ];
    let awq = [
        ("l.qweight", "I32", &[8, 2][..]),
        ("l.scales", "F16", &[1, 16]),
        ("l.qzeros", "I32", &[1, 2]),
    ];
    for (document, said, arrays, stated) in [
        (
            "quantize_config.json",
            r#"{"bits": 4, "group_size": 8, "desc_act": false}"#,
            gptq,
            r#"{"quant_method":"gptq","bits":4,"group_size":8,"desc_act":false}"#,
        ),
        (
            "quant_config.json",
            r#"{"zero_point": true, "q_group_size": 8, "w_bit": 4, "version": "GEMM"}"#,
            awq,
            r#"{"quant_method":"awq","zero_point":true,"group_size":8,"bits":4,"version":"GEMM"}"#,
        ),
    ] {
        let source = folder(&[
            ("config.json", r#"{"model_type": "unheard"}"#.into()),
            (document, said.into()),
            ("model.safetensors", zeros(&arrays).build()),
        ]);
        let model = opened(&source);
        let noted = |model: &Model| {
            let found = ops::check_consistency(model, Strictness::Default).expect("a check");
            found.notes.into_iter().any(|note| note.contains(document))
        };
        assert!(noted(&model), "{document}");
        let copy = tempfile::tempdir().expect("a folder");
        let plan = ops::convert(&model, &ConvertOptions::new(&SAFETENSORS)).expect("a plan");
        assert!(plan.notes.iter().any(|note| note.contains(document)), "{:?}", plan.notes);
        plan.run(&copy.path().join("copy"), &WriteOptions::new()).expect("a copy");
        let again = Model::open(copy.path().join("copy")).expect("a model");
        assert!(!noted(&again), "{document}");
        let config = again.document("config.json").expect("a config");
        let found = config.get("quantization_config").map(ToString::to_string);
        assert_eq!(found.as_deref().map(|json| json.replace(' ', "")), Some(stated.to_owned()));
        // Decoded values are of no scheme.
        let decoded = ConvertOptions::new(&SAFETENSORS).dtype(DType::F32);
        let plan = ops::convert(&model, &decoded).expect("a plan");
        assert!(!plan.notes.iter().any(|note| note.contains(document)), "{:?}", plan.notes);
    }
}

/// What one document does not say, the other may. A copy says it in both, with the numbers that the codes have.
#[test]
fn documents_about_gptq_that_differ() {
    let arrays = [
        ("l.qweight", "I32", &[8, 8][..]),
        ("l.scales", "F16", &[2, 8]),
        ("l.qzeros", "I32", &[2, 1]),
    ];
    let opened_with = |config: &str, beside: &str| {
        let source = folder(&[
            (
                "config.json",
                format!(r#"{{"model_type":"unheard","quantization_config":{config}}}"#).into(),
            ),
            ("quantize_config.json", beside.into()),
            ("model.safetensors", zeros(&arrays).build()),
        ]);
        let model = opened(&source);
        (source, model)
    };
    let said = |model: &Model| {
        let found = ops::check_consistency(model, Strictness::Default).expect("a check");
        let of = |list: Vec<String>| {
            list.into_iter()
                .filter(|it| it.contains("config.json ") || it.contains("config.json:"))
                .collect::<Vec<_>>()
        };
        (of(found.faults), of(found.notes))
    };
    let plain = r#"{"quant_method":"gptq","bits":4,"group_size":32,"desc_act":false}"#;
    for (config, beside, dtype, faults, notes, corrected) in [
        (
            plain,
            r#"{"bits":4,"group_size":32,"checkpoint_format":"gptq"}"#,
            DType::GPTQ4,
            0,
            0,
            None,
        ),
        (
            plain,
            r#"{"checkpoint_format":"gptq_v2"}"#,
            DType::GPTQ4_V2,
            0,
            1,
            Some(
                r#"{"quant_method":"gptq","bits":4,"group_size":32,"desc_act":false,"checkpoint_format":"gptq_v2"}"#,
            ),
        ),
        (
            r#"{"quant_method":"gptq","bits":8,"group_size":128}"#,
            plain,
            DType::GPTQ4,
            2,
            0,
            Some(r#"{"quant_method":"gptq","bits":4,"group_size":32}"#),
        ),
        (plain, r#"{"bits":3,"group_size":-1,"desc_act":true}"#, DType::GPTQ4, 2, 1, None),
    ] {
        let (_source, model) = opened_with(config, beside);
        let tensor = model.stored_tensor("l.weight").expect("a tensor");
        assert_eq!(tensor.dtype().expect("a dtype"), dtype, "{config} {beside}");
        let found = said(&model);
        assert_eq!((found.0.len(), found.1.len()), (faults, notes), "{found:?}");
        let copy = tempfile::tempdir().expect("a folder");
        let plan = ops::convert(&model, &ConvertOptions::new(&SAFETENSORS)).expect("a plan");
        assert_eq!(
            plan.notes.iter().any(|note| note.starts_with("config.json: ")),
            corrected.is_some(),
            "{:?}",
            plan.notes
        );
        plan.run(&copy.path().join("copy"), &WriteOptions::new()).expect("a copy");
        let again = Model::open(copy.path().join("copy")).expect("a model");
        assert_eq!(said(&again).0, Vec::<String>::new());
        let stated = again.document("config.json").and_then(|it| it.get("quantization_config"));
        let stated = stated.map(|json| json.to_string().replace(' ', ""));
        assert_eq!(stated.as_deref(), Some(corrected.unwrap_or(config)));
        let again = again.stored_tensor("l.weight").expect("a tensor");
        assert_eq!(again.dtype().expect("a dtype"), dtype);
    }
    // Both state a layout: which is right, no number shows.
    let (_source, model) =
        opened_with(r#"{"checkpoint_format":"gptq"}"#, r#"{"checkpoint_format":"gptq_v2"}"#);
    let error =
        model.stored_tensor("l.qweight").expect("codes").dequantize().unwrap_err().to_string();
    let both = r#"config.json says checkpoint_format "gptq", quantize_config.json says "gptq_v2""#;
    assert!(error.contains(both), "{error}");
}

/// Matrices of quantized modules that are stored as they are: next to a scale, or where other layers have codes.
#[test]
fn unquantized_matrices_of_quantized_modules() {
    let stated = |ignored: &str| {
        let scheme = r#""quant_method":"compressed-tensors","format":"int-quantized","config_groups":{"group_0":{"targets":["Linear"]}}"#;
        let sizes = r#""hidden_size":8,"intermediate_size":4,"num_attention_heads":1,"num_hidden_layers":2,"vocab_size":4,"rms_norm_eps":1e-5,"max_position_embeddings":8"#;
        format!(
            r#"{{"model_type":"llama",{sizes},"quantization_config":{{{scheme},"ignore":[{ignored}]}}}}"#
        )
    };
    let arrays = [
        ("model.layers.0.mlp.up_proj.weight", "I8", &[4, 8][..]),
        ("model.layers.0.mlp.up_proj.weight_scale", "BF16", &[4, 1]),
        ("model.layers.1.mlp.up_proj.weight", "BF16", &[4, 8]),
        ("lm_head.weight", "BF16", &[4, 8]),
    ];
    let scaled = [("model.layers.1.mlp.up_proj.weight_scale", "BF16", &[4, 1][..])];
    for (ignored, more, found) in [
        ("", &scaled[..], true),
        ("", &[], true),
        (r#""model.layers.1.mlp.up_proj""#, &scaled, false),
        (r#""re:.*layers.1.*""#, &[], false),
        (r#""re:model\\.layers\\.[1-9]\\..*""#, &[], false),
        (r#""re:model\\.layers\\.([2-9]|1\\d)\\..*""#, &[], true),
        // An expression that is not understood accuses nothing.
        (r#""re:(?!model\\.layers\\.0).*""#, &[], false),
    ] {
        let file = zeros(&[&arrays[..], more].concat());
        let folder = directory(&stated(ignored), &file);
        let model = opened(&folder);
        let is_named = |text: &String| {
            text.starts_with("model.layers.1.mlp.up_proj.weight is stored unquantized, BF16")
                && text.contains("transformers takes its values for codes")
        };
        let check = ops::check_consistency(&model, Strictness::Default).expect("a check");
        assert_eq!(check.faults.iter().any(is_named), found, "{ignored}: {check:?}");
        let plan = ops::convert(&model, &ConvertOptions::new(&SAFETENSORS)).expect("a plan");
        assert_eq!(plan.notes.iter().any(is_named), found, "{ignored}: {:?}", plan.notes);
        if found && !more.is_empty() {
            let error =
                ops::convert(&model, &ConvertOptions::new(&GGUF)).map(drop).expect_err("a refusal");
            assert!(
                error.to_string().contains("is stored unquantized, BF16 next to weight_scale"),
                "{error}"
            );
        }
    }
}

/// The documents that only describe quantization go with a copy, and not with decoded values.
#[test]
fn documents_of_quantization_are_copied() {
    let file = Safetensors::new().tensor("l.weight", "F8_E4M3", &[2, 3], codes(6)).tensor(
        "l.weight_scale",
        "F32",
        &[],
        f32s(&[0.5]),
    );
    let stated = ("hf_quant_config.json", "{\"quantization\": {\"quant_algo\": \"FP8\"}}".into());
    let folder =
        folder(&[("config.json", "{}".into()), stated, ("model.safetensors", file.build())]);
    let model = opened(&folder);
    assert_eq!(
        model.stored_tensor("l.weight").expect("it").dtype().expect("it"),
        DType::SCALED_F8_E4M3
    );
    for (options, copied) in [
        (ConvertOptions::new(&SAFETENSORS), true),
        (ConvertOptions::new(&SAFETENSORS).dtype(DType::F32), false),
    ] {
        let copy = tempfile::tempdir().expect("a folder");
        let plan = ops::convert(&model, &options).expect("a plan");
        plan.run(&copy.path().join("copy"), &WriteOptions::new()).expect("a copy");
        assert_eq!(copy.path().join("copy/hf_quant_config.json").exists(), copied);
    }
}
