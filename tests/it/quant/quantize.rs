//! Quantizers against the blocks that ggml wrote of the same values, with and without importance:
//! all of them in `golden/ggml` of the folder that `WEIGHBRIDGE_FIXTURES` names.

use crate::support::{Gguf, fixture, open_as};
use weighbridge::dtype::DTYPES;
use weighbridge::quant::ErrorKind;
use weighbridge::quant::Importance;
use weighbridge::{DType, Model, Part, Strictness};

fn bytes(store: &Model, name: &str) -> Option<Vec<u8>> {
    let tensor = store.stored_tensor(name).ok()?;
    Some(tensor.bytes(Part::Weight).expect("bytes").into_owned())
}

fn floats(store: &Model, name: &str) -> Vec<f32> {
    store.stored_tensor(name).expect("the tensor").dequantize().expect("values").to_vec()
}

/// The reason why a dtype of ggml has no quantizer here.
fn reason(dtype: DType) -> Option<&'static str> {
    match dtype.name() {
        "F64" | "I8" | "I16" | "I32" | "I64" => Some("numbers as they are: nothing to choose"),
        _ => None,
    }
}

fn quantized(dtype: DType, values: &[f32], columns: usize, importance: Option<&[f32]>) -> Vec<u8> {
    let row = dtype.row_bytes(columns as u64).expect("whole blocks");
    let mut out = vec![0; values.len() / columns * usize::try_from(row).expect("few")];
    dtype.quantize_rows(values, columns, importance, &mut out).expect("bytes");
    out
}

/// The first block that differs.
fn same(what: &str, dtype: DType, found: &[u8], expected: &[u8]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let len = dtype.descriptor().block_bytes as usize;
    for (number, (found, expected)) in found.chunks(len).zip(expected.chunks(len)).enumerate() {
        assert_eq!(found, expected, "{what}, block {number}");
    }
}

#[test]
fn blocks_of_every_ggml_type() {
    let Some(folder) = fixture("golden/ggml") else { return };
    let input = Model::open(folder.join("_input.safetensors")).expect("the input");
    let (values, importance) = (floats(&input, "input"), floats(&input, "imatrix"));
    let columns = importance.len();
    let mut count = 0;
    for row in DTYPES.iter().filter(|row| row.dtype.is_ggml()) {
        let both = (row.quantizer.is_some(), reason(row.dtype).is_some());
        assert!(both.0 != both.1, "{}: quantizer {}, reason {}", row.name, both.0, both.1);
        let Some(quantizer) = row.quantizer else { continue };
        let store = Model::open(folder.join(format!("{}.safetensors", row.name)));
        let store = store.expect("a file of golden blocks");
        let plain = bytes(&store, "raw");
        if let Some(expected) = &plain {
            let found = quantized(row.dtype, &values, columns, None);
            same(row.name, row.dtype, &found, expected);
            count += 1;
        }
        // Where importance makes no difference, the blocks are the same ones.
        let weighted = match quantizer.importance() {
            Importance::Ignored => plain,
            _ => Some(bytes(&store, "raw_imatrix").expect("blocks with importance")),
        };
        let found = quantized(row.dtype, &values, columns, Some(&importance));
        same(
            &format!("{} with importance", row.name),
            row.dtype,
            &found,
            &weighted.expect("blocks"),
        );
        count += 1;
    }
    assert_eq!(count, 57);
}

/// The distance that values may have from the originals, as the root of the sum of squares over the
/// number of values: ggml's own bounds (`test-quantize-fns.cpp`), and ours for the types that it
/// leaves out.
fn bound(dtype: DType) -> f32 {
    match dtype.name() {
        "Q2_K" | "IQ2_S" => 0.0075,
        "IQ2_XXS" | "IQ2_XS" => 0.0075,
        "IQ1_S" | "IQ1_M" => 0.015,
        "Q3_K" | "IQ3_S" => 0.0040,
        "IQ3_XXS" => 0.0050,
        "TQ1_0" | "TQ2_0" | "Q2_0" => 0.01,
        "Q1_0" => 0.025,
        "MXFP4" | "NVFP4" => 0.0030,
        _ => 0.002,
    }
}

#[test]
fn errors_stay_in_bounds() {
    let values: Vec<f32> = (0..4096u16).map(|i| 0.1 + 2.0 * f32::from(i).cos()).collect();
    let importance = [1.0; 256];
    for row in DTYPES.iter().filter(|row| row.dtype.is_ggml()) {
        let Some(quantizer) = row.quantizer else { continue };
        let required = quantizer.importance() == Importance::Required;
        let raw = quantized(row.dtype, &values, 256, required.then_some(&importance[..]));
        let file = Gguf::new().tensor("t", row.dtype, &[16, 256], raw).build();
        let store = open_as(file, Strictness::Strict).expect("a well-formed file");
        let found = floats(&store, "t");
        let sum: f32 = found.iter().zip(&values).map(|(a, b)| (a - b) * (a - b)).sum();
        let error = sum.sqrt() / 4096.0;
        assert!(error < bound(row.dtype), "{}: {error}", row.name);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let values = [0.5; 512];
    let kind = |dtype: DType, values: &[f32], columns, importance: Option<&[f32]>, room: usize| {
        let mut out = vec![0; room];
        let done = dtype.quantize_rows(values, columns, importance, &mut out);
        done.expect_err("a refusal").kind()
    };
    assert_eq!(kind(DType::Q4_K, &values, 100, None, 288), ErrorKind::Mismatch);
    assert_eq!(kind(DType::Q4_K, &values[..500], 256, None, 288), ErrorKind::Mismatch);
    assert_eq!(kind(DType::Q4_K, &values, 256, None, 287), ErrorKind::Mismatch);
    assert_eq!(kind(DType::Q4_K, &values, 256, Some(&values), 288), ErrorKind::Mismatch);
    assert_eq!(kind(DType::Q4_K, &values, 0, None, 288), ErrorKind::Mismatch);
    assert_eq!(kind(DType::I8, &values, 256, None, 512), ErrorKind::Unsupported);
    assert_eq!(kind(DType::MLX_AFFINE4, &values, 256, None, 256), ErrorKind::Unsupported);
    let mut nothing = [];
    for columns in [0, 256] {
        DType::Q4_K.quantize_rows(&[], columns, None, &mut nothing).expect("nothing to do");
    }
}

/// The first of several equal values counts as the smallest, as in ggml; this decides the sign of a
/// zero.
#[test]
fn the_smallest_zero_is_the_first() {
    for dtype in [DType::Q4_1, DType::Q5_1] {
        for (first, second) in [(0, 1), (0, 16), (3, 17), (16, 18), (15, 31)] {
            for zero in [0.0f32, -0.0] {
                let mut values = [1.0f32; 32];
                (values[first], values[second]) = (zero, -zero);
                let block = quantized(dtype, &values, 32, None);
                let expected = half::f16::from_f32(zero).to_le_bytes();
                assert_eq!(block[2..4], expected, "{dtype} {first} {second} {zero:?}");
            }
        }
    }
}

/// Eight signs have an even number of negative ones. If the one that matters is changed for that,
/// the scale that fits is negative, and all eight signs change instead.
#[test]
fn a_negative_scale_changes_all_signs() {
    let (mut values, mut importance) = ([1.1f32; 256], [1.0f32; 256]);
    for (values, importance) in values.chunks_mut(8).zip(importance.chunks_mut(8)) {
        values[..2].fill(-1.1);
        // The smallest of the squares times their weights, but the largest of the products.
        (values[7], importance[7]) = (-0.001, 1e5);
    }
    for dtype in [DType::IQ2_XXS, DType::IQ2_XS] {
        let raw = quantized(dtype, &values, 256, Some(&importance));
        let file = Gguf::new().tensor("t", dtype, &[1, 256], raw).build();
        let found = floats(&open_as(file, Strictness::Lenient).expect("a file"), "t");
        for (n, (found, value)) in found.iter().zip(values).enumerate() {
            let kept = found * value > 0.0;
            assert_eq!(kept, n % 8 == 7, "{dtype}, {n}: {found} for {value}");
        }
    }
}

/// The scales of runs of 32 share bytes, but a NaN changes no other run than its own.
#[test]
fn a_nan_spoils_only_its_own_run() {
    // Smaller ones from the fourth run on, in whose scales the highest bits are 0.
    let size = |n: u16| if n < 128 { 1.0 } else { 0.1 };
    let ordinary: Vec<f32> =
        (0..256u16).map(|n| size(n) * (f32::from(n * 37 % 251) / 251.0 - 0.5)).collect();
    // The lowest byte of a NaN is what becomes of its scale.
    let nan = f32::from_bits(0x7fc0_00c0);
    for dtype in [DType::Q4_K, DType::Q5_K] {
        for at in [0, 5, 31] {
            let mut values = ordinary.clone();
            values[at] = nan;
            let raw = quantized(dtype, &values, 256, None);
            let file = Gguf::new().tensor("t", dtype, &[1, 256], raw).build();
            let found = floats(&open_as(file, Strictness::Lenient).expect("a file"), "t");
            let off = |n: u16| (found[usize::from(n)] - ordinary[usize::from(n)]).abs() / size(n);
            let most = (32..256).map(off).fold(0.0, f32::max);
            assert!(most < 0.08, "{dtype}, {at}: {most}");
        }
    }
}

/// A scale that is no number has neither a sign nor a payload, which differ between processors.
#[test]
fn a_scale_that_is_no_number_is_one_nan() {
    // Where the `f16` scales of a block are.
    let dtypes: &[(DType, &[usize])] = &[
        (DType::Q4_0, &[0]),
        (DType::Q4_1, &[0, 2]),
        (DType::Q5_0, &[0]),
        (DType::Q5_1, &[0, 2]),
        (DType::Q8_0, &[0]),
        (DType::Q2_K, &[80, 82]),
        (DType::Q3_K, &[108]),
        (DType::Q4_K, &[0, 2]),
        (DType::Q5_K, &[0, 2]),
        (DType::Q6_K, &[208]),
        (DType::IQ2_XXS, &[0]),
        (DType::IQ2_XS, &[0]),
        (DType::IQ2_S, &[0]),
        (DType::IQ3_XXS, &[0]),
        (DType::IQ3_S, &[0]),
        (DType::IQ1_S, &[0]),
        (DType::IQ4_NL, &[0]),
        (DType::IQ4_XS, &[0]),
        (DType::TQ1_0, &[52]),
        (DType::TQ2_0, &[64]),
    ];
    let odd = [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::from_bits(0xffc1_2345)];
    let ordinary: Vec<f32> = (0..256u16).map(|n| f32::from(n).sin()).collect();
    let importance = [1.0; 256];
    let mut found = std::collections::BTreeSet::new();
    for &(dtype, places) in dtypes {
        let (len, required) =
            (dtype.descriptor().block_bytes as usize, dtype.descriptor().quantizer);
        let required = required.is_some_and(|q| q.importance() == Importance::Required);
        for importance in [None, Some(&importance[..])] {
            if required && importance.is_none() {
                continue;
            }
            for (first, second) in odd.iter().flat_map(|a| odd.map(|b| (*a, b))) {
                let mut values = ordinary.clone();
                values[3] = first;
                values[200..].fill(second);
                let blocks = quantized(dtype, &values, 256, importance);
                for block in blocks.chunks(len) {
                    for &at in places {
                        let bits = u16::from_le_bytes([block[at], block[at + 1]]);
                        if half::f16::from_bits(bits).is_nan() {
                            assert_eq!(bits, 0x7e00, "{dtype} {first:?} {second:?}");
                            found.insert(dtype.name());
                        }
                    }
                }
            }
        }
    }
    assert!(found.len() > 5, "{found:?}");
}

/// ggml keeps nothing of a NaN but its sign.
#[test]
fn a_nan_in_f16_has_no_payload() {
    let nans = [0x7fc0_0000, 0x7f81_2345, 0xffff_ffff, 0xff80_0001].map(f32::from_bits);
    let mut values = vec![1.5; 40];
    values[..4].copy_from_slice(&nans);
    // Also behind the last sixteen.
    values[36..].copy_from_slice(&nans);
    let found = quantized(DType::F16, &values, 40, None);
    let found: Vec<u16> =
        found.as_chunks().0.iter().map(|bits| u16::from_le_bytes(*bits)).collect();
    let expected = [0x7e00, 0x7e00, 0xfe00, 0xfe00];
    assert_eq!((&found[..4], &found[36..]), (&expected[..], &expected[..]));
    assert!(found[4..36].iter().all(|bits| *bits == 0x3e00));
}
