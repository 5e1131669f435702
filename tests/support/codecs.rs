//! The body of the fuzz target for values: builds tensors of every dtype that can be decoded, from
//! any bytes, and decodes them in every way.

use half::{bf16, f16};
use weighbridge::bytes::AlignedBuffer;
use weighbridge::dtype::{DTYPES, DTypeDescriptor, Packing};
use weighbridge::model::{DecodeOptions, FindingKind};
use weighbridge::quant::{Element, Narrowing, Rounding};
use weighbridge::{DType, Error, Model, OpenOptions, Strictness, Tensor};

use super::{Gguf, Safetensors, look_at, open_as, own_folder, put};

/// The parameters of a tensor: one input byte each, before the bytes of the tensor's parts.
#[derive(Clone, Copy, Debug)]
struct Choice {
    /// The position of the dtype among those that can be decoded.
    dtype: u8,
    rows: u8,
    columns: u8,
    /// The group size, or the number of groups, and the number of scales.
    groups: u8,
    /// The formats of scales and biases, and which parts exist.
    parts: u8,
    /// The memory offset of the output, and the requested rows.
    place: u8,
}

/// The dtypes that can be decoded.
pub(crate) fn decodable() -> impl Iterator<Item = &'static DTypeDescriptor> {
    DTYPES.iter().filter(|row| row.codec.is_some())
}

/// Builds a tensor with the dtype and the shape that the first bytes select, from the bytes that
/// follow, and decodes it. Returns its dtype.
pub(crate) fn codec_bytes(bytes: &[u8]) -> Option<DType> {
    let (&[dtype, rows, columns, groups, parts, place], data) = bytes.split_first_chunk()?;
    let choice = Choice { dtype, rows, columns, groups, parts, place };
    let row = decodable().nth(usize::from(dtype) % decodable().count())?;
    let store = made(row, choice, &mut Cut { data, at: 0 });
    let mut tensors = store.stored_tensors();
    let tensor = tensors.next().expect("the tensor");
    assert_eq!(tensors.count(), 0, "{}: parts that were not gathered", row.name);
    assert_eq!(tensor.dtype().expect("a known dtype"), row.dtype);
    decode(&tensor, usize::from(place));
    Some(row.dtype)
}

/// The bytes of an input, repeated as needed.
struct Cut<'a> {
    data: &'a [u8],
    at: usize,
}

impl Cut<'_> {
    fn next(&mut self, len: u64) -> Vec<u8> {
        let bytes = self.data.iter().copied().cycle().skip(self.at % self.data.len().max(1));
        let len = usize::try_from(len).expect("a small tensor");
        self.at += len;
        // An empty input gives zeros.
        bytes.chain(std::iter::repeat(0)).take(len).collect()
    }
}

/// A model with one tensor.
fn made(row: &DTypeDescriptor, choice: Choice, cut: &mut Cut<'_>) -> Model {
    let rows = u64::from(choice.rows % 6) + 1;
    let unit = u64::from(row.block_len);
    match row.packing {
        Packing::Plain => {
            // Whole bytes in total, but not in each row if elements are smaller than a byte.
            let (rows, columns) = match choice.parts % 2 {
                0 => (rows * unit, u64::from(choice.columns) + 1),
                _ => (rows, (u64::from(choice.columns) + 1) * unit),
            };
            let bytes = cut.next(rows * columns / unit * u64::from(row.block_bytes));
            let name = row.safetensors.expect("safetensors has all plain dtypes");
            let shape = [rows, columns];
            let file = match (row.ggml, choice.groups % 3) {
                (Some(_), 1) => Gguf::new().tensor("t", row.dtype, &shape, bytes).build(),
                _ => Safetensors::new().tensor("t", name, &shape, bytes).build(),
            };
            open_as(file, Strictness::Strict).expect("a well-formed file")
        }
        Packing::Block => {
            let blocks = u64::from(choice.columns % 4) + 1;
            let shape: &[u64] = match choice.parts % 2 {
                0 => &[rows, blocks * unit],
                _ => &[2, rows, blocks * unit],
            };
            let all: u64 = shape[..shape.len() - 1].iter().product();
            let bytes =
                cut.next(all * (blocks * u64::from(row.block_bytes) + u64::from(row.row_head)));
            let mut file = Gguf::new().tensor("t", row.dtype, shape, bytes);
            if choice.groups % 3 == 1 && !row.units.is_empty() {
                file = file.big_endian();
            }
            open_as(file.build(), Strictness::Lenient).expect("a well-formed file")
        }
        _ => {
            let (config, file) = match row.name.strip_prefix("MLX_") {
                Some(mode) => of_mlx(mode, rows, choice, cut),
                None => of_scheme(row.name, rows, choice, cut),
            };
            let folder = &own_folder("codecs", |_| {});
            put(folder, "config.json", config);
            put(folder, "model.safetensors", file.build());
            let opened = OpenOptions::new().read().open(folder);
            opened.unwrap_or_else(|error| panic!("{}, {choice:?}: {error}", row.name))
        }
    }
}

/// The names and sizes of scale formats.
const FLOATS: [(&str, u64); 3] = [("F32", 4), ("F16", 2), ("BF16", 2)];

fn of_mlx(mode: &str, rows: u64, choice: Choice, cut: &mut Cut<'_>) -> (String, Safetensors) {
    let (name, bits) = match mode.strip_prefix("AFFINE") {
        Some(bits) => ("affine".to_owned(), bits.parse().expect("bits")),
        None => (mode.to_lowercase(), if mode == "MXFP8" { 8 } else { 4 }),
    };
    let size = match name.as_str() {
        "affine" => [32, 64, 128][usize::from(choice.groups) % 3],
        "nvfp4" => 16,
        _ => 32,
    };
    // Rows are whole words.
    let groups = (u64::from(choice.columns % 5) + 1) * if size == 16 { 2 } else { 1 };
    let words = groups * size * bits / 32;
    let mut file =
        Safetensors::new().tensor("m.weight", "U32", &[rows, words], cut.next(rows * words * 4));
    let scales = [rows, groups];
    if name == "affine" {
        let (format, bytes) = FLOATS[usize::from(choice.parts) % 3];
        for part in ["m.scales", "m.biases"] {
            file = file.tensor(part, format, &scales, cut.next(rows * groups * bytes));
        }
    } else {
        file = file.tensor("m.scales", "U8", &scales, cut.next(rows * groups));
        if name == "nvfp4" && choice.parts % 2 == 1 {
            file = file.tensor("m.global_scale", "F32", &[], cut.next(4));
        }
    }
    let config = format!(
        "{{\"model_type\":\"llama\",\"quantization\":{{\"group_size\":{size},\"bits\":{bits},\"mode\":\"{name}\"}}}}"
    );
    (config, file)
}

fn of_scheme(name: &str, rows: u64, choice: Choice, cut: &mut Cut<'_>) -> (String, Safetensors) {
    let (groups, parts) = (u64::from(choice.groups % 7) + 1, choice.parts);
    let (format, width) = FLOATS[usize::from(parts / 8) % 3];
    let has = |bit: u8| parts >> bit & 1 == 1;
    let packed = 32 * (u64::from(choice.columns % 5) + 1);
    let any = u64::from(choice.columns) + 8;
    let mut file = Safetensors::new();
    let mut put = |name: &str, dtype: &str, shape: &[u64], width: u64| {
        let bytes = cut.next(shape.iter().product::<u64>() * width);
        file = std::mem::take(&mut file).tensor(name, dtype, shape, bytes);
    };
    let (kind, bits) = name.split_at(name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len()));
    let bits: u64 = bits.trim_end_matches("_V2").parse().unwrap_or(0);
    let text = |name: &str, dtype: &str, shape: &[u64], bytes: Vec<u8>| {
        (name.to_owned(), dtype.to_owned(), shape.to_vec(), bytes)
    };
    let number = |number: u64| u32::try_from(number).expect("a small number");
    let mut written = Vec::new();
    match (kind, name) {
        ("GPTQ", _) => {
            let outputs = rows * 32;
            put("l.qweight", "I32", &[packed * bits / 32, outputs], 4);
            put("l.qzeros", "I32", &[groups, outputs * bits / 32], 4);
            put("l.scales", format, &[groups, outputs], width);
            match (has(0), has(1)) {
                (true, false) => put("l.g_idx", "I32", &[packed], 4),
                (true, true) => {
                    let index = (0..packed).flat_map(|i| number(i * 5 % groups).to_le_bytes());
                    written.push(text("l.g_idx", "I32", &[packed], index.collect()));
                }
                _ => {}
            }
        }
        (_, "AWQ4_GEMV") => {
            let (outputs, words) = (rows * 4, (packed / 32).div_ceil(8).next_multiple_of(4));
            put("l.qweight", "I32", &[outputs, packed / 8], 4);
            put("l.qzeros", "I32", &[outputs, words], 4);
            put("l.scales", format, &[outputs, words * 8], width);
        }
        (_, "CT_MXFP6") => {
            put("l.weight_packed", "U8", &[rows, packed * 3 / 4], 1);
            put("l.weight_scale", "U8", &[rows, packed / 32], 1);
        }
        ("SPARSE", _) => {
            let (element, bytes) = match (name, has(1)) {
                ("SPARSE24_8", true) => ("I8", 1),
                ("SPARSE24_8", false) => ("F8_E4M3", 1),
                (_, true) => ("F16", 2),
                (_, false) => ("BF16", 2),
            };
            put("l.compressed", element, &[rows, packed / 2], bytes);
            if name == "SPARSE24_8" {
                put("l.weight_scale", format, &[if has(2) { rows } else { 1 }, 1], width);
            }
            match has(0) {
                true => put("l.bitmask", "U8", &[rows, packed / 8], 1),
                false => {
                    let half = vec![0x33; usize::try_from(rows * packed / 8).expect("small")];
                    written.push(text("l.bitmask", "U8", &[rows, packed / 8], half));
                }
            }
            let dims = [rows, packed].iter().flat_map(|dim| dim.to_le_bytes()).collect();
            written.push(text("l.shape", "I64", &[2, 1], dims));
        }
        ("AWQ", _) => {
            put("l.qweight", "I32", &[any, rows], 4);
            put("l.qzeros", "I32", &[groups, rows], 4);
            put("l.scales", format, &[groups, rows * 8], width);
        }
        ("CT_INT", _) => {
            put("l.weight_packed", "I32", &[rows, (any * bits).div_ceil(32)], 4);
            put("l.weight_scale", format, &[rows, groups], width);
            if has(0) {
                put("l.weight_zero_point", "I32", &[(rows * bits).div_ceil(32), groups], 4);
            }
            let dims = [rows, any].iter().flat_map(|dim| dim.to_le_bytes()).collect();
            written.push(text("l.weight_shape", "I64", &[2], dims));
        }
        ("SCALED_I", _) => {
            let scales = [vec![rows, 1], vec![rows], vec![1], vec![]];
            let scales = &scales[usize::from(parts) % 4];
            put("l.weight", "I8", &[rows, any], 1);
            put("l.weight_scale", format, scales, width);
            if has(2) {
                put("l.weight_zero_point", "I8", scales, 1);
            }
        }
        ("SCALED_F", _) => {
            let (across, down) = (1 << (parts % 8), 1 << (groups % 4));
            let blocks = [any.div_ceil(across), rows.div_ceil(down)];
            let (shape, scales) = match has(3) {
                true => (vec![2, rows, any], vec![2, blocks[1], blocks[0]]),
                false => (vec![rows, any], vec![blocks[1], blocks[0]]),
            };
            put("l.weight", name.trim_start_matches("SCALED_"), &shape, 1);
            put("l.weight_scale_inv", format, &scales, width);
        }
        (_, "HF_NVFP4") => {
            let names = match has(0) {
                true => ["l.weight_packed", "l.weight_global_scale"],
                false => ["l.weight", "l.weight_scale_2"],
            };
            put(names[0], "U8", &[rows, packed / 2], 1);
            put("l.weight_scale", "F8_E4M3", &[rows, packed / 16], 1);
            put(names[1], "F32", if has(0) { &[1] } else { &[] }, 4);
        }
        (_, "HF_NVFP4_AWQ") => {
            put("l.weight", "U8", &[rows, packed / 2], 1);
            put("l.weight_scale", "F8_E4M3", &[rows, packed / 16], 1);
            put("l.weight_scale_2", "F32", &[], 4);
            put("l.pre_quant_scale", format, &[packed], width);
        }
        (_, "HF_MXFP4") => {
            put("l_blocks", "U8", &[2, rows, packed / 32, 16], 1);
            put("l_scales", "U8", &[2, rows, packed / 32], 1);
        }
        (_, "BNB_INT8") => {
            put("l.weight", "I8", &[rows, any], 1);
            put("l.SCB", "F32", &[rows], 4);
        }
        _ => {
            let elements = rows * any;
            let blocks = elements.div_ceil(groups * 16);
            put("l.weight", "U8", &[elements.div_ceil(2), 1], 1);
            put("l.weight.quant_map", "F32", &[16], 4);
            if has(0) {
                put("l.weight.absmax", "U8", &[blocks], 1);
                put("l.weight.nested_absmax", "F32", &[blocks.div_ceil(4)], 4);
                put("l.weight.nested_quant_map", "F32", &[256], 4);
            } else {
                put("l.weight.absmax", "F32", &[blocks], 4);
            }
            // Sometimes the stated block size is smaller than the entries suffice for.
            let size = if has(2) { groups } else { groups * 16 };
            let state = format!(
                "{{\"shape\":[{rows},{any}],\"blocksize\":{size},\"nested_blocksize\":4,\"nested_offset\":0.37}}"
            );
            let kind = name.trim_start_matches("BNB_").to_lowercase();
            let part = format!("l.weight.quant_state.bitsandbytes__{kind}");
            written.push(text(&part, "U8", &[state.len() as u64], state.into_bytes()));
        }
    }
    for (name, dtype, shape, bytes) in written {
        file = file.tensor(&name, &dtype, &shape, bytes);
    }
    let more = match kind {
        "CT_INT" => format!(",\"config_groups\":{{\"g\":{{\"weights\":{{\"num_bits\":{bits}}}}}}}"),
        _ if name == "AWQ4_GEMV" => ",\"version\":\"gemv\",\"group_size\":32".to_owned(),
        _ if name.ends_with("_V2") => ",\"checkpoint_format\":\"gptq_v2\"".to_owned(),
        _ => String::new(),
    };
    let config = format!(
        "{{\"model_type\":\"llama\",\"quantization_config\":{{\"quant_method\":\"any\"{more}}}}}"
    );
    (config, file)
}

/// The bits of a number, with all NaN equal.
trait Bits: Element {
    fn bits(self) -> u32;
    fn narrowed(value: f32) -> Self;
    fn widened(self) -> f32;
}

macro_rules! bits {
    ($($element:ty: $narrowed:expr, $widened:expr;)*) => {$(
        impl Bits for $element {
            fn bits(self) -> u32 {
                if self.is_nan() { u32::MAX } else { self.to_bits().into() }
            }

            fn narrowed(value: f32) -> Self {
                $narrowed(value)
            }

            fn widened(self) -> f32 {
                $widened(self)
            }
        }
    )*};
}

bits! {
    f32: std::convert::identity, std::convert::identity;
    f16: f16::from_f32, f16::to_f32;
    bf16: bf16::from_f32, bf16::to_f32;
}

fn bits<T: Bits>(values: &[T]) -> Vec<u32> {
    values.iter().map(|value| value.bits()).collect()
}

/// Decodes a tensor in every way, and compares the results.
fn decode(tensor: &Tensor, place: usize) {
    tensor.check_decodable().expect("a dtype that can be decoded");
    let exact = match tensor.dequantize() {
        Ok(values) => values,
        Err(error) => return no_way(tensor, &error),
    };
    assert_eq!(exact.len() as u64, tensor.elements());
    let mut native = vec![0.0f32; exact.len()];
    let decoding = DecodeOptions::new().rounding(Rounding::Native);
    tensor.dequantize_into(&mut native, &decoding).expect("what was just decoded");
    let is_mlx = tensor.segments().next().is_some_and(|part| part.dtype != DType::F64)
        && tensor.group_size().is_some();
    if !is_mlx {
        assert_eq!(bits(&native), bits(&exact), "only MLX rounds in another way");
    }
    in_all_ways::<f32>(tensor, &exact, &native, place);
    in_all_ways::<f16>(tensor, &exact, &native, place);
    in_all_ways::<bf16>(tensor, &exact, &native, place);
    findings(tensor, &exact);
}

/// Checks that a tensor that one method cannot decode fails in every other, with a reason.
fn no_way(tensor: &Tensor, error: &Error) {
    look_at(error);
    let len = usize::try_from(tensor.elements()).expect("a small tensor");
    let mut out = vec![f16::ZERO; len];
    let into = tensor.dequantize_into(&mut out, &DecodeOptions::new()).map(drop);
    let each = tensor.for_each_values(|_: &[f32]| Ok::<_, Error>(())).map(drop);
    for other in [into, each, tensor.check_values().map(drop)] {
        let other = other.expect_err("what could not be decoded");
        assert_eq!(other.to_string(), error.to_string());
    }
}

fn in_all_ways<T: Bits>(tensor: &Tensor, exact: &[f32], native: &[f32], place: usize) {
    let narrowed = |values: &[f32]| values.iter().map(|v| T::narrowed(*v)).collect::<Vec<T>>();
    let expected = bits(&narrowed(exact));
    let over = |(a, b): (&f32, T)| a.is_finite() && b.widened().is_infinite();
    let under = |(a, b): (&f32, T)| *a != 0.0 && b.widened() == 0.0;
    let lost = |values: &[f32], found: Narrowing| {
        // Doubles may overflow or flush to 0 before they are narrowed.
        if tensor.dtype().is_ok_and(|dtype| dtype != DType::F64) {
            let pairs = || values.iter().zip(narrowed(values));
            let counts = (
                pairs().filter(|(a, b)| over((a, *b))).count() as u64,
                pairs().filter(|(a, b)| under((a, *b))).count() as u64,
            );
            assert_eq!((found.overflows, found.flushes), counts);
        }
    };
    // At the start of an aligned buffer, and some elements later.
    for off in [0, place % 33] {
        let mut memory = AlignedBuffer::<T>::zeroed(exact.len() + off).expect("a little memory");
        let out = &mut memory[off..];
        lost(exact, tensor.dequantize_into(out, &DecodeOptions::new()).expect("values"));
        assert_eq!(bits(out), expected);
        let decoding = DecodeOptions::new().rounding(Rounding::Native);
        lost(native, tensor.dequantize_into(out, &decoding).expect("values"));
        assert_eq!(bits(out), bits(&narrowed(native)));
    }
    let mut streamed = Vec::new();
    let each = tensor.for_each_values(|values: &[T]| {
        streamed.extend_from_slice(values);
        Ok::<_, Error>(())
    });
    lost(exact, each.expect("values"));
    assert_eq!(bits(&streamed), expected);

    let columns = tensor.shape().last().expect("a dimension");
    let columns = usize::try_from(*columns).expect("a small tensor");
    let rows = exact.len() / columns;
    let first = place % rows;
    for (first, end) in [(0, 1), (first, first + 1), (first, rows), (rows - 1, rows), (rows, rows)]
    {
        let within = first * columns..end * columns;
        let mut out = vec![T::narrowed(0.0); within.len()];
        let range = first as u64..end as u64;
        match tensor.dequantize_rows(range.clone(), &mut out, &DecodeOptions::new()) {
            Ok(found) => {
                lost(&exact[within.clone()], found);
                assert_eq!(bits(&out), expected[within.clone()]);
            }
            Err(error) => {
                look_at(&error);
                let row = tensor.dtype().expect("a dtype").descriptor();
                assert!(!columns.is_multiple_of(row.block_len as usize), "{error}");
                continue;
            }
        }
        let mut streamed = Vec::new();
        let each = tensor.for_each_values_in(range, |values: &[T]| {
            streamed.extend_from_slice(values);
            Ok::<_, Error>(())
        });
        lost(&exact[within.clone()], each.expect("values"));
        assert_eq!(bits(&streamed), expected[within]);
    }
}

/// Checks that every reported anomaly exists in the values.
fn findings(tensor: &Tensor, exact: &[f32]) {
    let findings = tensor.check_values().expect("what was just decoded");
    let count = |kind: FindingKind| {
        findings.iter().find(|finding| finding.kind == kind).map_or(0, |finding| finding.count)
    };
    let counted = |is: fn(&f32) -> bool| exact.iter().filter(|value| is(value)).count() as u64;
    assert_eq!(count(FindingKind::Nan), counted(|value| value.is_nan()));
    if tensor.dtype().is_ok_and(|dtype| dtype != DType::F64) {
        assert_eq!(count(FindingKind::Infinite), counted(|value| value.is_infinite()));
        if count(FindingKind::Zero) > 0 {
            assert_eq!(counted(|value| *value == 0.0), exact.len() as u64);
        }
        if count(FindingKind::Constant) > 0 {
            assert!(exact.iter().all(|value| *value == exact[0] && *value != 0.0));
        }
    }
    for finding in &findings {
        assert!(finding.first < finding.of && finding.count <= finding.of, "{finding:?}");
    }
}
