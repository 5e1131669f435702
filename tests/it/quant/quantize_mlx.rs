//! Values quantized to the dtypes of MLX, against what `mx.quantize` made of them: all files of
//! `golden/mlx` of the folder that `WEIGHBRIDGE_FIXTURES` names.
#![allow(clippy::cast_possible_truncation, reason = "the numbers are the test's own")]

use std::path::Path;

use crate::support::fixture;
use half::{bf16, f16};
use weighbridge::quant::ErrorKind;
use weighbridge::quant::{Element, GroupParts, Grouping};
use weighbridge::{DType, Model, Part};

fn bytes(store: &Model, name: &str) -> Vec<u8> {
    let Ok(tensor) = store.stored_tensor(name) else { return Vec::new() };
    tensor.bytes(Part::Weight).expect("bytes").into_owned()
}

fn quantize<T: Element>(dtype: DType, values: &[T], grouping: Grouping) -> [Vec<u8>; 3] {
    let quantizer = dtype.group_quantizer().expect("a quantizer");
    let sizes = quantizer.sizes::<T>(values.len(), grouping).expect("whole groups");
    // Bytes that must all be written over.
    let [mut weight, mut scale, mut bias] = sizes.map(|size| vec![0xa5; size]);
    let out = GroupParts { weight: &mut weight, scale: &mut scale, bias: &mut bias };
    quantizer.quantize(values, grouping, out).expect("quantized");
    [weight, scale, bias]
}

/// The dtype and the group size that a name says: affine_b4_g64_bf16, mxfp4_bf16, nvfp4_bf16_gs.
fn named(name: &str) -> (DType, usize) {
    let mut words = name.split('_');
    let mode = words.next().expect("a mode").to_uppercase();
    let mut number = || words.next().expect("a number")[1..].to_owned();
    let (name, size) = match mode.as_str() {
        "AFFINE" => (format!("MLX_AFFINE{}", number()), number().parse().expect("a size")),
        "NVFP4" => ("MLX_NVFP4".to_owned(), 16),
        _ => (format!("MLX_{mode}"), 32),
    };
    (DType::from_name(&name).expect("a dtype"), size)
}

/// Compares what is made of `input` with the other arrays of a file.
fn check(path: &Path) {
    let name = path.file_stem().expect("a name").to_string_lossy();
    let store = Model::open(path).expect("a file");
    let (dtype, size) = named(&name);
    let amax = bytes(&store, "global_scale");
    let amax = amax.first_chunk().map(|bytes| f32::from_le_bytes(*bytes));
    let grouping = Grouping { size, amax };
    let tensor = store.stored_tensor("input").expect("the input");
    let input = bytes(&store, "input");
    let (twos, fours) = (input.as_chunks::<2>().0, input.as_chunks::<4>().0);
    let parts = match tensor.dtype().expect("a dtype") {
        DType::F32 => {
            let values: Vec<f32> = fours.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            quantize(dtype, &values, grouping)
        }
        DType::F16 => {
            let values: Vec<f16> = twos.iter().map(|bytes| f16::from_le_bytes(*bytes)).collect();
            quantize(dtype, &values, grouping)
        }
        _ => {
            let values: Vec<bf16> = twos.iter().map(|bytes| bf16::from_le_bytes(*bytes)).collect();
            quantize(dtype, &values, grouping)
        }
    };
    let columns = *tensor.shape().last().expect("columns") as usize;
    for (part, found) in ["weight", "scales", "biases"].into_iter().zip(parts) {
        let expected = bytes(&store, part);
        assert_eq!(found.len(), expected.len(), "{name}: {part}");
        let place = found.iter().zip(&expected).position(|(found, expected)| found != expected);
        if let Some(place) = place {
            panic!(
                "{name} of rows of {columns}: byte {place} of {part} is {:#x}, not {:#x}",
                found[place], expected[place]
            );
        }
    }
}

#[test]
fn every_golden_file() {
    let Some(folder) = fixture("golden/mlx") else { return };
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("a folder") {
        check(&entry.expect("an entry").path());
        count += 1;
    }
    assert!(count >= 35, "{count}");
}

/// The scale of a group with an infinite value is 0, and values divided by it have the largest
/// codes: also 0, whose quotient is NaN.
#[test]
fn an_infinite_group_has_the_largest_codes() {
    let mut values = [0.0f32; 64];
    values[32..36].copy_from_slice(&[1.0, f32::INFINITY, -1.0, f32::NEG_INFINITY]);
    let grouping = Grouping { size: 32, amax: None };
    let [codes, scales, _] = quantize(DType::MLX_MXFP8, &values, grouping);
    // A scale of 1 for zeros.
    assert_eq!(scales, [127, 128]);
    assert_eq!(codes[..32], [0; 32]);
    assert_eq!(codes[32..36], [0x7e, 0x7e, 0xfe, 0xfe]);
    assert_eq!(codes[36..], [0x7e; 28]);
    // In narrower dtypes the exponent has no bits for 128.
    let halves = values.map(f16::from_f32);
    let [same, scales, _] = quantize(DType::MLX_MXFP8, &halves, grouping);
    assert_eq!((same, scales), (codes, vec![127, 0]));
}

/// MLX takes the first of the codes whose differences from a value are smallest. From 2^27 on, a
/// difference of 6 or less is rounded away.
#[test]
fn of_a_value_far_beyond_all_codes_the_first_is_as_near_as_any() {
    let mut values = [0.0f32; 16];
    values[..4].copy_from_slice(&[2e8, -2e8, 6.0, -6.0]);
    // The factor of a largest magnitude that the values exceed is 448, and so is the scale.
    let grouping = Grouping { size: 16, amax: Some(6.0) };
    let [codes, scales, _] = quantize(DType::MLX_NVFP4, &values, grouping);
    assert_eq!(scales, [0x7e]);
    assert_eq!(codes, [0x00, 0xf7, 0, 0, 0, 0, 0, 0]);
}

/// A scale is a power of two whose exponent, plus 127, is kept modulo 256, also below the smallest
/// normal number.
#[test]
fn scales_of_subnormal_numbers_are_powers_of_two_all_the_same() {
    let unit = f32::from_bits(1 << 9);
    assert_eq!(f64::from(unit), 2f64.powi(-140));
    let mut values = [0.0f32; 32];
    values[..4].copy_from_slice(&[6.0 * unit, unit, -3.0 * unit, 0.5 * unit]);
    let grouping = Grouping { size: 32, amax: None };
    let [codes, scales, _] = quantize(DType::MLX_MXFP4, &values, grouping);
    assert_eq!(scales, [(127 - 140i32) as u8]);
    // 6, 1, -3 and 0.5 in E2M1.
    assert_eq!(codes[..3], [0x27, 0x1d, 0]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |dtype: DType, values: usize, grouping: Grouping, room: [usize; 3]| {
        let quantizer = dtype.group_quantizer().expect("a quantizer");
        let [mut weight, mut scale, mut bias] = room.map(|size| vec![0; size]);
        let out = GroupParts { weight: &mut weight, scale: &mut scale, bias: &mut bias };
        let error = quantizer.quantize(&vec![1.0; values], grouping, out).expect_err("a misfit");
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        error.to_string()
    };
    let (size, amax) = (64, None);
    let four = DType::MLX_AFFINE4;
    assert_eq!(
        refused(four, 64, Grouping { size: 16, amax }, [32, 4, 4]),
        "groups of 16, but the dtype supports groups of [32, 64, 128]"
    );
    assert_eq!(
        refused(four, 96, Grouping { size, amax }, [48, 4, 4]),
        "96 values do not divide into groups of 64"
    );
    assert_eq!(
        refused(four, 64, Grouping { size, amax: Some(1.0) }, [32, 4, 4]),
        "a largest magnitude is given, but the dtype has no global scale"
    );
    for amax in [-1.0, f32::INFINITY, f32::NAN] {
        assert_eq!(
            refused(DType::MLX_NVFP4, 16, Grouping { size: 16, amax: Some(amax) }, [8, 1, 0]),
            format!("a largest magnitude of {amax}, but a finite, non-negative number is needed")
        );
    }
    for room in [[31, 4, 4], [32, 8, 4], [32, 4, 0]] {
        assert_eq!(
            refused(four, 64, Grouping { size, amax }, room),
            format!("room for {room:?} bytes, but the parts have [32, 4, 4]")
        );
    }
    assert!(DType::Q4_0.group_quantizer().is_none());
}
