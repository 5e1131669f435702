//! Values by the formulas of their formats, computed here one element at a time and in the order
//! that each library rounds in, against what the library gives, bit for bit: ik_llama.cpp's types,
//! and the schemes of Hugging Face directories. Scales are realistic ones and odd ones.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "the numbers are the test's own"
)]

use crate::support::{
    Gguf, Safetensors, f32s, folder, open_as, same, same_rounded, told, without_path,
};
use half::{bf16, f16};
use tempfile::TempDir;
use weighbridge::model::DecodeOptions;
use weighbridge::{DType, Error, ErrorKind, Model, Policy, Strictness, Tensor, WeightProvider};

/// Bytes without a pattern, the same ones each time.
struct Random(u64);

impl Random {
    fn number(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) as u32
    }

    fn below(&mut self, end: usize) -> usize {
        self.number() as usize % end
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.number().to_le_bytes()[1]).collect()
    }

    fn words(&mut self, len: usize) -> Vec<u32> {
        (0..len).map(|_| self.number() << 16 ^ self.number()).collect()
    }

    /// Mostly such as stand in models; one of eight is odd.
    fn scale(&mut self) -> f32 {
        const ODD: [f32; 12] = [
            f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            0.0,
            -0.0,
            1e-45,
            -3e-39,
            5.960_464_5e-8,
            6.1e-5,
            65504.0,
            3e38,
            -1.0,
        ];
        if self.below(8) == 0 {
            return ODD[self.below(ODD.len())];
        }
        (self.number() % 20_001) as f32 * 1.3e-6 - 0.007
    }

    /// The bytes of some scales, and what they are once stored.
    fn scales(&mut self, format: Format, len: usize) -> (Vec<u8>, Vec<f32>) {
        let (mut bytes, mut values) = (Vec::new(), Vec::new());
        for _ in 0..len {
            let scale = self.scale();
            match format {
                Format::F32 => {
                    bytes.extend(scale.to_le_bytes());
                    values.push(scale);
                }
                Format::F16 => {
                    let scale = f16::from_f32(scale);
                    bytes.extend(scale.to_le_bytes());
                    values.push(scale.to_f32());
                }
                Format::BF16 => {
                    let scale = bf16::from_f32(scale);
                    bytes.extend(scale.to_le_bytes());
                    values.push(scale.to_f32());
                }
            }
        }
        (bytes, values)
    }
}

#[derive(Clone, Copy, Debug)]
enum Format {
    F32,
    F16,
    BF16,
}

impl Format {
    const ALL: [Self; 3] = [Self::F32, Self::F16, Self::BF16];

    fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::BF16 => "BF16",
        }
    }
}

fn le(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// All values, the same rounded to halves, and each row alone.
fn check(what: &str, tensor: &Tensor, dtype: DType, shape: &[u64], expected: &[f32]) {
    assert_eq!(tensor.dtype().expect("a dtype"), dtype, "{what}");
    assert_eq!(tensor.shape(), shape, "{what}");
    assert!(expected.iter().any(|value| value.is_finite() && *value != 0.0), "{what}");
    same(what, &tensor.dequantize().expect("values"), expected);
    same_rounded(&format!("{what} as f16"), tensor, expected, f16::from_f32, f16::to_f32);
    same_rounded(&format!("{what} as bf16"), tensor, expected, bf16::from_f32, bf16::to_f32);
    let columns = *shape.last().expect("a dimension") as usize;
    for (number, expected) in expected.chunks(columns).enumerate() {
        let rows = number as u64..number as u64 + 1;
        let mut row = vec![0.0f32; columns];
        tensor.dequantize_rows(rows.clone(), &mut row, &DecodeOptions::new()).expect("a row");
        same(&format!("{what}, row {number}"), &row, expected);
        let mut row = vec![f16::ZERO; columns];
        tensor.dequantize_rows(rows, &mut row, &DecodeOptions::new()).expect("a row");
        let row: Vec<f32> = row.into_iter().map(f16::to_f32).collect();
        let rounded: Vec<f32> = expected.iter().map(|v| f16::from_f32(*v).to_f32()).collect();
        same(&format!("{what}, row {number} as f16"), &row, &rounded);
    }
}

const TWO: [[i32; 4]; 2] = [[-31, -13, 1, 17], [-26, -8, 6, 22]];
const THREE: [[i32; 8]; 2] =
    [[-63, -40, -23, -10, 1, 13, 28, 47], [-59, -36, -19, -6, 5, 17, 32, 51]];
const FOUR: [[i32; 16]; 2] = [
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113],
    [-123, -100, -79, -61, -45, -31, -18, -6, 5, 17, 29, 42, 57, 73, 93, 117],
];

fn u16_at(block: &[u8], at: usize) -> u32 {
    u32::from(block[at]) | u32::from(block[at + 1]) << 8
}

fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_bits(u16_at(block, at) as u16).to_f32()
}

/// A nibble of one of some bytes, the low one first.
fn nibble(bytes: &[u8], number: usize) -> i32 {
    i32::from(bytes[number / 2] >> (4 * (number % 2)) & 15)
}

/// Element `i` of a block with 2-bit codes in planes: bits 2p of 32 bytes are 32 elements.
fn plane(codes: &[u8], i: usize) -> usize {
    usize::from(codes[32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32)) & 3)
}

/// Element `i` of nibbles of which each 16 bytes hold 16 elements below and 16 above.
fn below_above(codes: &[u8], i: usize) -> usize {
    usize::from(codes[16 * (i / 32) + i % 16] >> (4 * (i % 32 / 16)) & 15)
}

/// An element of a block; `head` is what the row starts with.
fn ik_element(dtype: DType, block: &[u8], head: f32, i: usize) -> f32 {
    let part = i / 16;
    match dtype {
        DType::Q6_0 => {
            let (low, j) = (block[10 + i % 16] >> (4 * (i / 16)) & 15, i % 8);
            let shift = match i / 8 {
                0 => 0,
                2 => 2,
                1 => 4,
                _ => 6,
            };
            let q = i32::from(low) | i32::from(block[2 + j] >> shift & 3) << 4;
            (q - 32) as f32 * half_at(block, 0)
        }
        DType::IQ2_K => {
            let row = u16_at(block, 2) >> part & 1;
            let scale = half_at(block, 0) * (nibble(&block[4..12], part) - 8) as f32;
            scale * TWO[row as usize][plane(&block[12..], i)] as f32
        }
        DType::IQ3_K => {
            let row = u16_at(block, 2) >> part & 1;
            let s = 2 * nibble(&block[6..14], part) + 1;
            let s = if u16_at(block, 4) >> part & 1 == 1 { -s } else { s };
            let q = plane(&block[14..78], i) | usize::from(block[78 + i % 32] >> (i / 32) & 1) << 2;
            half_at(block, 0) * s as f32 * THREE[row as usize][q] as f32
        }
        DType::IQ4_K => {
            let row = u16_at(block, 2) >> part & 1;
            let high = i32::from(block[4 + part / 4] >> (2 * (part % 4)) & 3);
            let s = (nibble(&block[8..16], part) | high << 4) - 32;
            half_at(block, 0) * s as f32 * FOUR[row as usize][below_above(&block[16..], i)] as f32
        }
        DType::IQ4_KS => {
            let s = i32::from(block[i / 32]);
            let q = below_above(&block[8..], i);
            head * ((s & 254) - 127) as f32 * FOUR[(s & 1) as usize][q] as f32
        }
        other => panic!("{other}"),
    }
}

#[test]
fn types_of_ik_llama() {
    let dtypes = [
        (DType::Q6_0, 133, 32, 26, 0),
        (DType::IQ2_K, 137, 256, 76, 0),
        (DType::IQ3_K, 138, 256, 110, 0),
        (DType::IQ4_K, 139, 256, 144, 0),
        (DType::IQ4_KS, 144, 256, 136, 4),
    ];
    for (dtype, code, elements, bytes, head) in dtypes {
        let (mut random, (rows, blocks)) = (Random(code.into()), (23, 5));
        let (mut raw, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..rows {
            let (first, scale) = random.scales(Format::F32, 1);
            raw.extend_from_slice(&first[..head]);
            for _ in 0..blocks {
                let mut block = random.bytes(bytes);
                if head == 0 {
                    block[..2].copy_from_slice(&random.scales(Format::F16, 1).0);
                }
                expected.extend((0..elements).map(|i| ik_element(dtype, &block, scale[0], i)));
                raw.extend(block);
            }
        }
        let shape = [rows, (blocks * elements) as u64];
        let file = Gguf::new().coded("t", code, &shape, raw).build();
        let store = open_as(file, Strictness::Default).expect("a well-formed file");
        let tensor = store.stored_tensor("t").expect("the tensor");
        check(dtype.name(), &tensor, dtype, &shape, &expected);
    }
}

/// A directory of one quantized weight.
fn directory(settings: &str, file: &Safetensors) -> TempDir {
    let config = format!("{{\"model_type\":\"llama\",\"quantization_config\":{settings}}}");
    folder(&[("config.json", config.into_bytes()), ("model.safetensors", file.build())])
}

fn check_scheme(
    what: &str,
    settings: &str,
    file: &Safetensors,
    name: &str,
    (dtype, shape): (DType, &[u64]),
    expected: &[f32],
) {
    let folder = directory(settings, file);
    let store = Model::open(folder.path()).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(store.len(), 1, "{what}");
    let tensor = store.stored_tensor(name).unwrap_or_else(|error| panic!("{what}: {error}"));
    check(what, &tensor, dtype, shape, expected);
    for segment in tensor.segments() {
        let copy = tensor.copy_bytes(segment.part).unwrap_or_else(|error| panic!("{error}"));
        let bytes = tensor.bytes(segment.part).unwrap_or_else(|error| panic!("{error}"));
        assert!(copy[..] == bytes[..], "{what}: {:?}", segment.part);
    }
}

/// Field `number` of fields of `width` bits, bit by bit, `word` giving the words that they lie in.
fn field(number: usize, width: usize, word: impl Fn(usize) -> u32) -> i32 {
    (0..width).fold(0, |code, bit| {
        let at = number * width + bit;
        code | i32::from(word(at / 32) >> (at % 32) & 1 == 1) << bit
    })
}

/// The settings of a scheme in a config.
fn settings(method: &str, more: &str) -> String {
    format!("{{\"quant_method\":\"{method}\"{more}}}")
}

#[test]
fn gptq() {
    let kinds = [
        (2, DType::GPTQ2, DType::GPTQ2_V2),
        (3, DType::GPTQ3, DType::GPTQ3_V2),
        (4, DType::GPTQ4, DType::GPTQ4_V2),
        (8, DType::GPTQ8, DType::GPTQ8_V2),
    ];
    for (width, v1, v2) in kinds {
        for (dtype, less, format) in [(v1, 1, "gptq"), (v2, 0, "gptq_v2")] {
            // Without g_idx, with one that rises, and with a permutation.
            for order in 0..3 {
                let (outputs, inputs, groups) = (64, 96, 3);
                let mut random = Random((width * 100 + order) as u64);
                let weight = random.words(inputs * width / 32 * outputs);
                let zero_words = outputs * width / 32;
                let zeros = random.words(groups * zero_words);
                let stored = [Format::F16, Format::BF16, Format::F32][order];
                let (scale_bytes, scales) = random.scales(stored, groups * outputs);
                let mut index: Vec<u32> =
                    (0..inputs).map(|i| (i / (inputs / groups)) as u32).collect();
                if order == 2 {
                    for i in (1..inputs).rev() {
                        index.swap(i, random.below(i + 1));
                    }
                }
                let mut expected = Vec::new();
                for n in 0..outputs {
                    for (k, g) in index.iter().enumerate() {
                        let g = *g as usize;
                        let q = field(k, width, |word| weight[word * outputs + n]);
                        let z = field(n, width, |word| zeros[g * zero_words + word]);
                        let z = (z + less) % (1 << width);
                        expected.push(scales[g * outputs + n] * (q - z) as f32);
                    }
                }
                let at = |count: usize| count as u64;
                let mut file = Safetensors::new()
                    .tensor(
                        "l.qweight",
                        "I32",
                        &[at(inputs * width / 32), at(outputs)],
                        le(&weight),
                    )
                    .tensor("l.qzeros", "I32", &[at(groups), at(zero_words)], le(&zeros))
                    .tensor("l.scales", stored.name(), &[at(groups), at(outputs)], scale_bytes);
                if order > 0 {
                    file = file.tensor("l.g_idx", "I32", &[at(inputs)], le(&index));
                }
                let shape = [at(outputs), at(inputs)];
                check_scheme(
                    &format!("{dtype}, order {order}"),
                    &settings("gptq", &format!(",\"checkpoint_format\":\"{format}\"")),
                    &file,
                    "l.weight",
                    (dtype, &shape),
                    &expected,
                );
            }
        }
    }
}

#[test]
fn awq() {
    for (format, groups) in Format::ALL.into_iter().zip([1, 3, 6]) {
        let (outputs, inputs) = (40, 96);
        let mut random = Random(groups as u64);
        let (weight, zeros) =
            (random.words(inputs * outputs / 8), random.words(groups * outputs / 8));
        let (bytes, scales) = random.scales(format, groups * outputs);
        // The column within its word that each nibble holds.
        let columns = [0, 2, 4, 6, 1, 3, 5, 7];
        let code = |words: &[u32], row: usize, n: usize| {
            let place = columns.iter().position(|column| *column == n % 8).expect("a nibble");
            (words[row * (outputs / 8) + n / 8] >> (4 * place) & 15) as i32
        };
        let mut expected = Vec::new();
        for n in 0..outputs {
            for k in 0..inputs {
                let g = k / (inputs / groups);
                let q = code(&weight, k, n) - code(&zeros, g, n);
                expected.push(scales[g * outputs + n] * q as f32);
            }
        }
        let (o, g) = (outputs as u64, groups as u64);
        let file = Safetensors::new()
            .tensor("l.qweight", "I32", &[inputs as u64, o / 8], le(&weight))
            .tensor("l.qzeros", "I32", &[g, o / 8], le(&zeros))
            .tensor("l.scales", format.name(), &[g, o], bytes);
        let shape = [o, inputs as u64];
        let what = format!("awq, {groups} groups");
        let config = settings("awq", ",\"bits\":4,\"version\":\"gemm\"");
        check_scheme(&what, &config, &file, "l.weight", (DType::AWQ4, &shape), &expected);
    }
}

/// The weight of compressed-tensors' packed integers, and its values. `experts` is the number of matrices if
/// the arrays have a dimension for them; the names begin with `head`.
fn packed_integers(
    (head, width): (&str, usize),
    (experts, rows, columns, groups): (Option<usize>, usize, usize, usize),
    zero_points: bool,
    format: Format,
) -> (Safetensors, Vec<f32>) {
    let mut random = Random((width + rows + columns + groups) as u64);
    let (words, zero_rows) = ((columns * width).div_ceil(32), (rows * width).div_ceil(32));
    let count = experts.unwrap_or(1);
    let weight = random.words(count * rows * words);
    let zeros = random.words(count * zero_rows * groups);
    let (bytes, scales) = random.scales(format, count * rows * groups);
    let half = 1 << (width - 1);
    let mut expected = Vec::new();
    for (e, n) in (0..count).flat_map(|e| (0..rows).map(move |n| (e, n))) {
        for k in 0..columns {
            let g = k / columns.div_ceil(groups);
            let q = field(k, width, |word| weight[(e * rows + n) * words + word]) - half;
            let z = field(n, width, |word| zeros[(e * zero_rows + word) * groups + g]) - half;
            let z = if zero_points { z } else { 0 };
            expected.push(scales[(e * rows + n) * groups + g] * (q - z) as f32);
        }
    }
    let shape = |last: [usize; 2]| -> Vec<u64> {
        experts.into_iter().chain(last).map(|len| len as u64).collect()
    };
    let dims = shape([rows, columns]);
    let stated: Vec<u8> = dims.iter().flat_map(|dim| dim.to_le_bytes()).collect();
    let name = |part: &str| format!("{head}_{part}");
    let mut file = Safetensors::new()
        .tensor(&name("packed"), "I32", &shape([rows, words]), le(&weight))
        .tensor(&name("scale"), format.name(), &shape([rows, groups]), bytes)
        .tensor(&name("shape"), "I64", &[dims.len() as u64], stated);
    if zero_points {
        file = file.tensor(&name("zero_point"), "I32", &shape([zero_rows, groups]), le(&zeros));
    }
    (file, expected)
}

#[test]
fn integers_of_compressed_tensors() {
    for (width, dtype) in [(4, DType::CT_INT4), (8, DType::CT_INT8)] {
        // Groups, and one scale a row; rows and columns that do not fill words.
        for dims in [(16, 128, 4), (16, 64, 1), (5, 96, 3), (3, 45, 5), (9, 13, 1)] {
            for zero_points in [false, true] {
                for format in Format::ALL {
                    let (n, k, groups) = dims;
                    let matrix = (None, n, k, groups);
                    let (file, expected) =
                        packed_integers(("l.weight", width), matrix, zero_points, format);
                    check_scheme(
                        &format!("{dtype}, {dims:?}, zero points {zero_points}, {format:?}"),
                        &settings("compressed-tensors", ",\"format\":\"pack-quantized\""),
                        &file,
                        "l.weight",
                        (dtype, &[dims.0 as u64, dims.1 as u64]),
                        &expected,
                    );
                }
            }
        }
    }
}

/// All experts of a layer in one array, as a module's weight or as the array of a layer.
#[test]
fn packed_experts_of_compressed_tensors() {
    let stated = settings(
        "compressed-tensors",
        r#","config_groups":{"g":{"weights":{"num_bits":BITS,"type":"int"}}}"#,
    );
    for (width, dtype) in [(3, DType::CT_INT3), (4, DType::CT_INT4), (8, DType::CT_INT8)] {
        for (head, name) in
            [("m.experts.up.weight", "m.experts.up.weight"), ("m.up_proj", "m.up_proj")]
        {
            for zero_points in [false, true] {
                let (file, expected) =
                    packed_integers((head, width), (Some(3), 5, 96, 3), zero_points, Format::F32);
                check_scheme(
                    &format!("{dtype}, {head}, zero points {zero_points}"),
                    &stated.replace("BITS", &width.to_string()),
                    &file,
                    name,
                    (dtype, &[3, 5, 96]),
                    &expected,
                );
            }
        }
    }
}

/// If columns were not sorted, all are in group -1.
#[test]
fn columns_of_compressed_tensors_that_are_in_no_group() {
    let matrix = (None, 16, 64, 2);
    let (file, expected) = packed_integers(("l.weight", 4), matrix, false, Format::F32);
    let file = file.tensor("l.weight_g_idx", "I32", &[64], [0xff; 256]);
    let config = settings("compressed-tensors", "");
    check_scheme("-1", &config, &file, "l.weight", (DType::CT_INT4, &[16, 64]), &expected);
}

#[test]
fn scaled_bytes() {
    for (number, scale_shape) in
        [vec![7, 1], vec![7], vec![1], vec![], vec![1, 1]].iter().enumerate()
    {
        for zero_points in [false, true] {
            let mut random = Random(number as u64 + 1);
            let (rows, columns) = (7, 37);
            let weight = random.bytes(rows * columns);
            let count: u64 = scale_shape.iter().product();
            let format = Format::ALL[number % 3];
            let (bytes, mut scales) = random.scales(format, count as usize);
            let bytes = match count {
                // One that is not odd, so that there is something to see.
                1 => {
                    scales[0] = 0.5f32.powi(7) * 1.5;
                    match format {
                        Format::F32 => scales[0].to_le_bytes().to_vec(),
                        Format::F16 => f16::from_f32(scales[0]).to_le_bytes().to_vec(),
                        Format::BF16 => bf16::from_f32(scales[0]).to_le_bytes().to_vec(),
                    }
                }
                _ => bytes,
            };
            let zeros = random.bytes(count as usize);
            let expected: Vec<f32> = (0..rows * columns)
                .map(|i| {
                    let n = if count == 1 { 0 } else { i / columns };
                    let z = if zero_points { i32::from(zeros[n] as i8) } else { 0 };
                    scales[n] * (i32::from(weight[i] as i8) - z) as f32
                })
                .collect();
            let mut file = Safetensors::new().tensor("l.weight", "I8", &[7, 37], weight).tensor(
                "l.weight_scale",
                format.name(),
                scale_shape,
                bytes,
            );
            if zero_points {
                file = file.tensor("l.weight_zero_point", "I8", scale_shape, zeros);
            }
            check_scheme(
                &format!("SCALED_I8, scale {scale_shape:?}, zero points {zero_points}"),
                &settings("compressed-tensors", ",\"format\":\"int-quantized\""),
                &file,
                "l.weight",
                (DType::SCALED_I8, &[7, 37]),
                &expected,
            );
        }
    }
}

/// A float of eight bits: a sign, four of exponent with a bias of 7, three of fraction; no infinity.
fn e4m3(code: u8) -> f32 {
    let (exponent, fraction) = (i32::from(code >> 3 & 15), f32::from(code & 7));
    let magnitude = match (exponent, code & 7) {
        (15, 7) => f32::NAN,
        (0, _) => fraction / 8.0 * 2f32.powi(-6),
        _ => (1.0 + fraction / 8.0) * 2f32.powi(exponent - 7),
    };
    if code & 0x80 == 0 { magnitude } else { -magnitude }
}

/// A float of four bits: a sign, two of exponent, one of fraction.
fn e2m1(code: u8) -> f32 {
    let magnitude = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0][usize::from(code & 7)];
    if code & 8 == 0 { magnitude } else { -magnitude }
}

#[test]
fn scaled_floats() {
    // The shape of the weight, that of the scales, and how far a scale reaches along each dimension.
    let kinds: [(&[u64], &[u64], &[usize]); 9] = [
        (&[192, 320], &[2, 3], &[128, 128]),
        (&[128, 256], &[1, 2], &[128, 128]),
        (&[130, 100], &[2, 1], &[128, 128]),
        (&[9, 33], &[9, 1], &[1, 33]),
        (&[9, 33], &[9], &[1, 33]),
        (&[9, 33], &[1], &[9, 33]),
        (&[9, 33], &[], &[9, 33]),
        (&[3, 192, 320], &[3, 2, 3], &[1, 128, 128]),
        (&[4, 6, 40], &[4, 6, 1], &[1, 1, 40]),
    ];
    for (number, (shape, scale_shape, reach)) in kinds.into_iter().enumerate() {
        let mut random = Random(number as u64 + 40);
        let weight = random.bytes(shape.iter().product::<u64>() as usize);
        let scale_count = scale_shape.iter().product::<u64>() as usize;
        // A format in turn, and for a single scale one that is not odd.
        let format = if scale_count == 1 { Format::F32 } else { Format::ALL[number % 3] };
        let (mut bytes, mut scales) = random.scales(format, scale_count);
        if scale_count < 3 {
            scales.iter_mut().for_each(|scale| *scale = 0.0123);
            bytes = f32s(&scales);
        }
        let format = if scale_count < 3 { Format::F32 } else { format };
        let mut expected = Vec::new();
        for (element, code) in weight.iter().enumerate() {
            // Its place along each dimension, and its scale's.
            let (mut rest, mut place, mut stride) = (element, 0, 1);
            for dimension in (0..shape.len()).rev() {
                let len = shape[dimension] as usize;
                place += rest % len / reach[dimension] * stride;
                stride *= len.div_ceil(reach[dimension]);
                rest /= len;
            }
            expected.push(e4m3(*code) * scales[place]);
        }
        let file = Safetensors::new().tensor("l.weight", "F8_E4M3", shape, weight).tensor(
            "l.weight_scale_inv",
            format.name(),
            scale_shape,
            bytes,
        );
        check_scheme(
            &format!("SCALED_F8_E4M3 {shape:?}, scale {scale_shape:?}"),
            &settings("fp8", ",\"weight_block_size\":[128,128]"),
            &file,
            "l.weight",
            (DType::SCALED_F8_E4M3, shape),
            &expected,
        );
    }
}

#[test]
fn nvfp4_with_a_divisor_and_with_a_factor() {
    for (number, global) in [1234.5f32, 0.037, 1e-40, 3e38, -2.0].into_iter().enumerate() {
        let (rows, columns) = (17, 96);
        let mut random = Random(number as u64 + 60);
        let weight = random.bytes(rows * columns / 2);
        // Every code, NaN among them.
        let scales: Vec<u8> = (0..rows * columns / 16).map(|i| (i * 5 + number) as u8).collect();
        let values = |scaled: fn(f32, f32) -> f32| -> Vec<f32> {
            (0..rows * columns)
                .map(|i| {
                    let code = weight[i / 2] >> (4 * (i % 2)) & 15;
                    e2m1(code) * scaled(e4m3(scales[i / 16]), global)
                })
                .collect()
        };
        let (n, k) = (rows as u64, columns as u64);
        let file = Safetensors::new()
            .tensor("l.weight_packed", "U8", &[n, k / 2], weight.clone())
            .tensor("l.weight_scale", "F8_E4M3", &[n, k / 16], scales.clone())
            .tensor("l.weight_global_scale", "F32", &[1], f32s(&[global]));
        check_scheme(
            &format!("divided by {global}"),
            &settings("compressed-tensors", ",\"format\":\"nvfp4-pack-quantized\""),
            &file,
            "l.weight",
            (DType::HF_NVFP4, &[n, k]),
            &values(|scale, global| scale / global),
        );
        let file = Safetensors::new()
            .tensor("l.weight", "U8", &[n, k / 2], weight.clone())
            .tensor("l.weight_scale", "F8_E4M3", &[n, k / 16], scales.clone())
            .tensor("l.weight_scale_2", "F32", &[], f32s(&[global]));
        check_scheme(
            &format!("times {global}"),
            &settings("modelopt", ",\"quant_algo\":\"NVFP4\""),
            &file,
            "l.weight",
            (DType::HF_NVFP4, &[n, k]),
            &values(|scale, global| scale * global),
        );
    }
}

#[test]
fn mxfp4() {
    let (experts, rows, blocks) = (3, 24, 4);
    let mut random = Random(70);
    let count = experts * rows * blocks;
    let weight = random.bytes(count * 16);
    // Every code; the largest power of two is no f32.
    let scales: Vec<u8> = (0..count).map(|i| (i * 3) as u8).collect();
    let expected: Vec<f32> = (0..count * 32)
        .map(|i| {
            let scale = 2f64.powi(i32::from(scales[i / 32]) - 127) as f32;
            e2m1(weight[i / 2] >> (4 * (i % 2)) & 15) * scale
        })
        .collect();
    let [e, n, b] = [experts, rows, blocks].map(|count| count as u64);
    let file = Safetensors::new()
        .tensor("m.experts.down_proj_blocks", "U8", &[e, n, b, 16], weight.clone())
        .tensor("m.experts.down_proj_scales", "U8", &[e, n, b], scales.clone());
    let dtype = (DType::HF_MXFP4, &[e, n, b * 32][..]);
    let config = settings("mxfp4", "");
    check_scheme("gpt-oss", &config, &file, "m.experts.down_proj", dtype, &expected);
    let file = Safetensors::new().tensor("l.weight_packed", "U8", &[e * n, b * 16], weight).tensor(
        "l.weight_scale",
        "U8",
        &[e * n, b],
        scales,
    );
    let dtype = (DType::HF_MXFP4, &[e * n, b * 32][..]);
    let config = settings("compressed-tensors", ",\"format\":\"mxfp4-pack-quantized\"");
    check_scheme("compressed-tensors", &config, &file, "l.weight", dtype, &expected);
}

/// Four bits of bitsandbytes: parts, in the order of which the tests change some, and values.
struct Bnb {
    kind: &'static str,
    file: Safetensors,
    expected: Vec<f32>,
}

fn four_bits(
    kind: &'static str,
    (rows, columns): (u64, u64),
    (block, nested): (usize, Option<usize>),
) -> Bnb {
    let elements = (rows * columns) as usize;
    let mut random = Random(rows + columns + block as u64);
    let weight = random.bytes(elements.div_ceil(2));
    let map: Vec<f32> = (0..16).map(|i| (i as f32 - 7.3) / 8.1).collect();
    let blocks = elements.div_ceil(block);
    let mut file = Safetensors::new()
        .tensor("l.weight", "U8", &[weight.len() as u64, 1], weight.clone())
        .tensor("l.weight.quant_map", "F32", &[16], f32s(&map));
    let mut more = String::new();
    let absmax: Vec<f32> = match nested {
        None => {
            let (bytes, absmax) = random.scales(Format::F32, blocks);
            file = file.tensor("l.weight.absmax", "F32", &[blocks as u64], bytes);
            absmax
        }
        Some(nested) => {
            let codes = random.bytes(blocks);
            let nested_map: Vec<f32> = (0..256).map(|i| (i as f32 - 127.7) / 128.3).collect();
            let count = blocks.div_ceil(nested);
            let (bytes, outer) = random.scales(Format::F32, count);
            let offset = 0.123_456_789_012_345_6_f64;
            more = format!(",\"nested_blocksize\":{nested},\"nested_offset\":{offset}");
            file = file
                .tensor("l.weight.absmax", "U8", &[blocks as u64], codes.clone())
                .tensor("l.weight.nested_absmax", "F32", &[count as u64], bytes)
                .tensor("l.weight.nested_quant_map", "F32", &[256], f32s(&nested_map));
            let of = |(i, code): (usize, &u8)| {
                let product = nested_map[usize::from(*code)] * outer[i / nested];
                product + offset as f32
            };
            codes.iter().enumerate().map(of).collect()
        }
    };
    let state = format!(
        "{{\"quant_type\":\"{kind}\",\"blocksize\":{block},\"dtype\":\"bfloat16\",\"shape\":[{rows},{columns}]{more}}}"
    );
    let part = format!("l.weight.quant_state.bitsandbytes__{kind}");
    file = file.tensor(&part, "U8", &[state.len() as u64], state);
    let expected = (0..elements)
        .map(|i| {
            let byte = weight[i / 2];
            let code = if i % 2 == 0 { byte >> 4 } else { byte & 15 };
            map[usize::from(code)] * absmax[i / block]
        })
        .collect();
    Bnb { kind, file, expected }
}

/// The codes as numbers of another width, as FSDP needs them (`bnb_4bit_quant_storage`).
#[test]
fn codes_of_bitsandbytes_in_wider_numbers() {
    for (stored, width) in [("BF16", 2), ("F16", 2), ("F32", 4)] {
        let Bnb { kind, mut file, expected } = four_bits("nf4", (16, 64), (64, None));
        let weight = file.arrays.iter_mut().find(|array| array.name == "l.weight");
        let weight = weight.expect("the codes");
        weight.dtype = stored.to_owned();
        weight.shape[0] /= width;
        check_scheme(
            &format!("{kind}, {stored}"),
            &settings("bitsandbytes", ",\"load_in_4bit\":true"),
            &file,
            "l.weight",
            (DType::BNB_NF4, &[16, 64]),
            &expected,
        );
    }
}

#[test]
fn bitsandbytes() {
    for (kind, dtype) in [("nf4", DType::BNB_NF4), ("fp4", DType::BNB_FP4)] {
        // Blocks end within rows; the last has fewer elements, and the last byte one.
        for shape in [(16, 64), (7, 200), (5, 33)] {
            for blocks in [(64, None), (128, None), (64, Some(256)), (64, Some(4))] {
                let Bnb { kind, file, expected } = four_bits(kind, shape, blocks);
                check_scheme(
                    &format!("{kind}, {shape:?}, blocks {blocks:?}"),
                    &settings("bitsandbytes", ",\"load_in_4bit\":true"),
                    &file,
                    "l.weight",
                    (dtype, &[shape.0, shape.1]),
                    &expected,
                );
            }
        }
    }
    // Two products, the first of which rounds before the second.
    let reciprocal = 0.007_874_015_718_698_502_f64 as f32;
    let mut random = Random(90);
    let (rows, columns) = (21, 19);
    let weight = random.bytes(rows * columns);
    let (bytes, scales) = random.scales(Format::F32, rows);
    let expected: Vec<f32> = (0..rows * columns)
        .map(|i| f32::from(weight[i] as i8) * scales[i / columns] * reciprocal)
        .collect();
    let file = Safetensors::new()
        .tensor("l.weight", "I8", &[21, 19], weight)
        .tensor("l.SCB", "F32", &[21], bytes)
        .tensor("l.weight_format", "U8", &[], [0]);
    let config = settings("bitsandbytes", ",\"load_in_8bit\":true");
    check_scheme("int8", &config, &file, "l.weight", (DType::BNB_INT8, &[21, 19]), &expected);
}

/// The error for a weight whose parts do not fit, when it is opened or when it is decoded.
fn refused(method: &str, file: &Safetensors) -> String {
    let folder = directory(&settings(method, ""), file);
    let decoded = |store: &Model| -> Result<String, Error> {
        let tensor = store.tensor("l.weight")?;
        tensor.check_decodable()?;
        let rows = tensor.shape()[0];
        let mut row = vec![0.0f32; tensor.shape()[1] as usize];
        let last = tensor.dequantize_rows(rows - 1..rows, &mut row, &DecodeOptions::new());
        let all = tensor.dequantize().map(|values| format!("{} values", values.len()));
        assert_eq!(last.is_ok(), all.is_ok(), "{last:?}, but {all:?}");
        all
    };
    let found = Model::open(folder.path()).and_then(|store| decoded(&store));
    let said = found.unwrap_or_else(|error| match error.kind() {
        // The advice is always the same, and so are the arrays.
        ErrorKind::Unsupported => format!("{error:?}"),
        _ => told(&error),
    });
    let said = without_path(&said, folder.path());
    match (said.find(" in a packing that is not supported ("), said.find("): ")) {
        (Some(start), Some(end)) => format!("{}{}", &said[..start], &said[end + 1..]),
        _ => said,
    }
}

/// The same file with other bytes, another dtype and another shape for one part.
fn changed(
    file: &Safetensors,
    name: &str,
    dtype: &str,
    shape: &[u64],
    bytes: &[u8],
) -> Safetensors {
    let mut file = file.clone();
    let array = file.arrays.iter_mut().find(|array| array.name == name).expect("a part");
    (array.dtype, array.shape, array.bytes) = (dtype.into(), shape.to_vec(), bytes.to_vec());
    file
}

/// The scheme with the first row of the table joins the arrays. It is not known what another scale means.
#[test]
fn arrays_of_two_schemes_are_those_of_the_first() {
    let file = Safetensors::new()
        .tensor("l.weight", "F8_E4M3", &[2, 32], [0x38; 64])
        .tensor("l.weight_scale", "F32", &[1], f32s(&[2.0]))
        .tensor("l.weight_scale_inv", "F32", &[1], f32s(&[4.0]));
    let folder = directory(&settings("fp8", ""), &file);
    let model = Model::open(folder.path()).expect("a model");
    let values = |name: &str| model.stored_tensor(name).expect(name).dequantize();
    let refused = values("l.weight").expect_err("a refusal");
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.to_string().contains("weight_scale_inv F32"), "{refused}");
    assert_eq!(values("l.weight_scale_inv").expect("values")[..], [4.0]);
}

/// Kernels get what the files state of scales; decoded values need none of it.
#[test]
fn blocks_of_bitsandbytes_go_with_the_codes() {
    let Bnb { file, .. } = four_bits("nf4", (4, 64), (64, Some(4)));
    // Of no family, so that tensors keep their names.
    let settings = settings("bitsandbytes", ",\"load_in_4bit\":true");
    let config = format!("{{\"quantization_config\":{settings}}}").into_bytes();
    let folder = folder(&[("config.json", config), ("model.safetensors", file.build())]);
    let blocks = |policy: Policy| {
        let provider = WeightProvider::open(folder.path()).expect("a model").policy(policy);
        let loaded = provider.load("l.weight").expect("a tensor");
        loaded.blocks.map(|blocks| (blocks.block, blocks.nested_block, blocks.nested_offset))
    };
    assert_eq!(blocks(Policy::Keep), Some((64, 4, 0.123_456_789_012_345_6_f64 as f32)));
    assert_eq!(blocks(Policy::F32), None);
}

fn small_gptq(index: [u32; 32]) -> Safetensors {
    Safetensors::new()
        .tensor("l.qweight", "I32", &[4, 8], [0x21; 128])
        .tensor("l.qzeros", "I32", &[2, 1], [0x77; 8])
        .tensor("l.scales", "F16", &[2, 8], [0, 0x3c].repeat(16))
        .tensor("l.g_idx", "I32", &[32], le(&index))
}

#[test]
fn groups_that_are_not_there() {
    let index = |last: u32| {
        let mut index = [0; 32];
        index[31] = last;
        refused("gptq", &small_gptq(index))
    };
    // Kernels would read the scales of such a group, so its codes are not loaded either.
    let loaded = |last: u32| {
        let mut index = [0; 32];
        index[31] = last;
        // Of no family, so that tensors keep their names.
        let config = format!("{{\"quantization_config\":{}}}", settings("gptq", ""));
        let file = small_gptq(index).build();
        let folder = folder(&[("config.json", config.into_bytes()), ("model.safetensors", file)]);
        let provider = WeightProvider::open(folder.path()).expect("a model");
        let loaded = provider.load("l.weight").map(|loaded| loaded.computed);
        without_path(
            &loaded.map_or_else(|error| told(&error), |computed| format!("{computed:?}")),
            folder.path(),
        )
    };
    insta::assert_snapshot!(loaded(1), @"None");
    assert_eq!(loaded(2), index(2));
    insta::assert_snapshot!(index(1), @"256 values");
    insta::assert_snapshot!(index(2), @r#"Malformed: ./model.safetensors: tensor "l.weight": column 31 is in group 2, but there are 2 groups (at byte 562)"#);
    insta::assert_snapshot!(index(u32::MAX), @r#"Malformed: ./model.safetensors: tensor "l.weight": column 31 is in group 4294967295, but there are 2 groups (at byte 562)"#);
}

#[test]
fn parts_too_small() {
    let zeros = |shape: &[u64]| {
        let (file, _) = packed_integers(("l.weight", 4), (None, 16, 64, 2), true, Format::F16);
        let bytes = vec![0x11; shape.iter().product::<u64>() as usize * 4];
        refused("compressed-tensors", &changed(&file, "l.weight_zero_point", "I32", shape, &bytes))
    };
    insta::assert_snapshot!(zeros(&[2, 2]), @"1024 values");
    insta::assert_snapshot!(zeros(&[1, 2]), @r#"Malformed: .: tensor "l.weight": the parts do not match"#);
    let scaled = Safetensors::new()
        .tensor("l.weight", "I8", &[4, 8], [1; 32])
        .tensor("l.weight_scale", "F32", &[4, 1], f32s(&[1.0; 4]))
        .tensor("l.weight_zero_point", "I8", &[3, 1], [1; 3]);
    insta::assert_snapshot!(refused("compressed-tensors", &scaled), @r#"Malformed: .: tensor "l.weight": the parts do not match"#);

    let whole = four_bits("nf4", (4, 64), (64, None)).file;
    let cut = |name: &str, len: u64| {
        let bytes = vec![0; len as usize * 4];
        refused("bitsandbytes", &changed(&whole, name, "F32", &[len], &bytes))
    };
    insta::assert_snapshot!(cut("l.weight.absmax", 4), @"256 values");
    insta::assert_snapshot!(cut("l.weight.absmax", 3), @r#"Malformed: .: tensor "l.weight": the parts do not match"#);
    insta::assert_snapshot!(cut("l.weight.quant_map", 15), @r#"Malformed: .: tensor "l.weight": the parts do not match"#);
    let nested = four_bits("nf4", (4, 64), (64, Some(2))).file;
    let file = changed(&nested, "l.weight.nested_absmax", "F32", &[1], &[0; 4]);
    insta::assert_snapshot!(refused("bitsandbytes", &file), @r#"Malformed: .: tensor "l.weight": the parts do not match"#);
    let file = changed(&nested, "l.weight.nested_quant_map", "F32", &[16], &[0; 64]);
    insta::assert_snapshot!(refused("bitsandbytes", &file), @r#"Malformed: .: tensor "l.weight": the parts do not match"#);
}

#[test]
fn blocks_of_nothing() {
    let state = |state: &str, nested: Option<usize>| {
        let file = four_bits("nf4", (4, 64), (64, nested)).file;
        let name = "l.weight.quant_state.bitsandbytes__nf4";
        refused(
            "bitsandbytes",
            &changed(&file, name, "U8", &[state.len() as u64], state.as_bytes()),
        )
    };
    insta::assert_snapshot!(state("{\"shape\":[4,64],\"blocksize\":0}", None), @r#"Malformed: .: tensor "l.weight": the parts do not match"#);
    insta::assert_snapshot!(state("{\"shape\":[4,64]}", None), @r#"Malformed: .: tensor "l.weight": the parts do not match"#);
    let nothing = "{\"shape\":[4,64],\"blocksize\":64,\"nested_blocksize\":0}";
    insta::assert_snapshot!(state(nothing, Some(2)), @r#"Malformed: .: tensor "l.weight": the parts do not match"#);
}

/// Parts that are stored as something else are not read as if they were not.
#[test]
fn parts_of_another_dtype() {
    let gptq = small_gptq([0; 32]);
    let other = |name: &str, dtype: &str, shape: &[u64], len: usize| {
        refused("gptq", &changed(&gptq, name, dtype, shape, &vec![0; len]))
    };
    insta::assert_snapshot!(other("l.g_idx", "I64", &[32], 256), @r#"Unsupported: ./model.safetensors: tensor "l.qweight": codes of gptq (config.json): the group_index is I64, but I32 or U32 is required"#);
    insta::assert_snapshot!(other("l.qweight", "F32", &[4, 8], 128), @r#"Unsupported: ./model.safetensors: tensor "l.qweight": codes of gptq (config.json): the weight is F32, but I32 or U32 is required"#);
    insta::assert_snapshot!(other("l.qzeros", "I16", &[2, 1], 4), @r#"Unsupported: ./model.safetensors: tensor "l.qweight": codes of gptq (config.json): the zero_point is I16, but I32 or U32 is required"#);
    insta::assert_snapshot!(other("l.scales", "I32", &[2, 8], 64), @r#"Unsupported: ./model.safetensors: tensor "l.qweight": codes of gptq (config.json): the scale is I32, but F32 or F16 or BF16 is required"#);

    let (file, _) = packed_integers(("l.weight", 8), (None, 16, 64, 2), true, Format::F16);
    let file = changed(&file, "l.weight_zero_point", "I16", &[16, 2], &[0; 64]);
    insta::assert_snapshot!(refused("compressed-tensors", &file), @r#"Unsupported: ./model.safetensors: tensor "l.weight_packed": codes of compressed-tensors (config.json): the zero_point is I16, but I32 or U32 is required"#);
    let scaled = Safetensors::new()
        .tensor("l.weight", "I8", &[4, 8], [1; 32])
        .tensor("l.weight_scale", "F32", &[4, 1], f32s(&[1.0; 4]))
        .tensor("l.weight_zero_point", "I32", &[4, 1], [1; 16]);
    insta::assert_snapshot!(refused("compressed-tensors", &scaled), @r#"Unsupported: ./model.safetensors: tensor "l.weight": codes of compressed-tensors (config.json): the zero_point is I32, but I8 is required"#);

    // Codes of absmax without the table of their values.
    let plain = four_bits("nf4", (4, 64), (64, None)).file;
    let file = changed(&plain, "l.weight.absmax", "U8", &[4], &[1; 4]);
    insta::assert_snapshot!(refused("bitsandbytes", &file), @r#"Unsupported: ./model.safetensors: tensor "l.weight": codes of bitsandbytes (config.json): the absmax is U8, but F32 or F16 or BF16 is required"#);
    let nested = four_bits("nf4", (4, 64), (64, Some(2))).file;
    let file = changed(&nested, "l.weight.absmax", "F32", &[4], &[0; 16]);
    insta::assert_snapshot!(refused("bitsandbytes", &file), @r#"Unsupported: ./model.safetensors: tensor "l.weight": codes of bitsandbytes (config.json): the absmax is F32, but U8 is required"#);

    // Bytes are no scales of NVFP4, and floats none of MXFP4.
    let file = Safetensors::new()
        .tensor("l.weight", "U8", &[2, 16], [0x21; 32])
        .tensor("l.weight_scale", "U8", &[2, 2], [0x38; 4])
        .tensor("l.weight_scale_2", "F32", &[], f32s(&[1.0]));
    insta::assert_snapshot!(refused("modelopt", &file), @r#"Unsupported: ./model.safetensors: tensor "l.weight": codes of modelopt (config.json): the scale is U8, but F8_E4M3 is required"#);
    let file = Safetensors::new().tensor("l.weight_blocks", "U8", &[2, 1, 16], [0x21; 32]).tensor(
        "l.weight_scales",
        "F16",
        &[2, 1],
        [0x38; 4],
    );
    insta::assert_snapshot!(refused("mxfp4", &file), @r#"Unsupported: ./model.safetensors: tensor "l.weight_blocks": codes of mxfp4 (config.json): the scale is F16, but U8 or F8_E8M0 is required"#);

    // A number for the whole tensor that would be overlooked.
    let nvfp4 = |dtype: &str, shape: &[u64], len: usize| {
        let file = Safetensors::new()
            .tensor("l.weight_packed", "U8", &[2, 16], [0x21; 32])
            .tensor("l.weight_scale", "F8_E4M3", &[2, 2], [0x38; 4])
            .tensor("l.weight_global_scale", dtype, shape, vec![0x40; len]);
        refused("compressed-tensors", &file)
    };
    insta::assert_snapshot!(nvfp4("F32", &[1], 4), @"64 values");
    insta::assert_snapshot!(nvfp4("BF16", &[1], 2), @r#"Malformed: .: tensor "l.weight": the global_divisor is BF16 [1], but F32 is required, one number or one for each array"#);
    insta::assert_snapshot!(nvfp4("F32", &[0], 0), @r#"Malformed: .: tensor "l.weight": the global_divisor is F32 [0], but F32 is required, one number or one for each array"#);
    insta::assert_snapshot!(nvfp4("F32", &[3], 12), @r#"Malformed: .: tensor "l.weight": the global_divisor is F32 [3], but F32 is required, one number or one for each array"#);
    insta::assert_snapshot!(nvfp4("F64", &[1], 8), @r#"Malformed: .: tensor "l.weight": the global_divisor is F64 [1], but F32 is required, one number or one for each array"#);
}
