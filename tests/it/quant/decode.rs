//! Blocks and groups that ggml and MLX wrote, against the values that those libraries give back:
//! one row of each in `tests/data/golden.safetensors`, all of them in `golden` of
//! `WEIGHBRIDGE_FIXTURES`.
#![allow(clippy::cast_possible_truncation, reason = "the numbers are the test's own")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::support::{Gguf, Safetensors, fixture, folder, open_as, same, same_rounded};
use half::{bf16, f16};
use weighbridge::dtype::DTYPES;
use weighbridge::model::DecodeOptions;
use weighbridge::quant::Rounding;
use weighbridge::{DType, Model, Part, Strictness, Tensor};

fn data() -> Model {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/golden.safetensors");
    Model::open(path).expect("the golden rows")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

fn stem(path: &Path) -> String {
    path.file_stem().expect("a name").to_string_lossy().into_owned()
}

fn bytes(store: &Model, name: &str) -> Vec<u8> {
    let tensor = store.stored_tensor(name).unwrap_or_else(|error| panic!("{error}"));
    tensor.bytes(Part::Weight).expect("bytes").into_owned()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

fn check(what: &str, tensor: &Tensor, expected: &[f32]) {
    same(what, &tensor.dequantize().expect("values"), expected);
    same_rounded(&format!("{what} as f16"), tensor, expected, f16::from_f32, f16::to_f32);
    same_rounded(&format!("{what} as bf16"), tensor, expected, bf16::from_f32, bf16::to_f32);
    // By rows, the last first.
    let columns = *tensor.shape().last().expect("a dimension");
    let mut row = vec![0.0; usize::try_from(columns).expect("a few")];
    for (number, expected) in expected.chunks(row.len()).enumerate().rev() {
        let rows = number as u64..number as u64 + 1;
        tensor.dequantize_rows(rows, &mut row, &DecodeOptions::new()).expect("a row");
        same(&format!("{what}, row {number}"), &row, expected);
    }
    // The same on several threads.
    let mut out = vec![0.0f32; expected.len()];
    tensor.dequantize_into(&mut out, &DecodeOptions::new().threads(3)).expect("values");
    same(&format!("{what}, three threads"), &out, expected);
}

/// Puts blocks into a GGUF, and compares its values.
fn check_blocks(what: &str, dtype: DType, shape: &[u64], raw: Vec<u8>, expected: &[f32]) {
    let file = Gguf::new().tensor("t", dtype, shape, raw).build();
    let store = open_as(file, Strictness::Strict).expect("a well-formed file");
    check(what, &store.stored_tensor("t").expect("the tensor"), expected);
}

#[test]
fn rows_of_every_ggml_type() {
    let store = data();
    let mut count = 0;
    for tensor in store.stored_tensors() {
        let name = tensor.name().to_string();
        let Some(dtype) = name.strip_suffix(".raw").map(DType::from_name) else {
            continue;
        };
        let expected = name.replace(".raw", ".expected");
        let values = store.stored_tensor(&expected).expect("the values");
        let shape = values.shape();
        let expected = floats(&bytes(&store, &expected));
        check_blocks(&name, dtype.expect("a dtype"), shape, bytes(&store, &name), &expected);
        count += 1;
    }
    assert_eq!(count, 35);
}

#[test]
fn all_blocks_of_every_ggml_type() {
    let Some(folder) = fixture("golden/ggml") else { return };
    let mut count = 0;
    for path in files(&folder) {
        let (store, name) = (Model::open(&path).expect("a file"), stem(&path));
        let Some(dtype) = DType::from_name(&name) else { continue };
        for kind in ["", "_imatrix", "_random"] {
            let Ok(tensor) = store.stored_tensor(&format!("expected{kind}")) else { continue };
            let raw = bytes(&store, &format!("raw{kind}"));
            let expected = floats(&bytes(&store, &format!("expected{kind}")));
            check_blocks(&format!("{name}{kind}"), dtype, tensor.shape(), raw, &expected);
            count += 1;
        }
    }
    assert!(count >= 60, "{count}");
}

/// Puts arrays of MLX into a directory, and compares its values: `f32` all along, and rounded as
/// MLX rounds.
fn check_groups(name: &str, store: &Model, prefix: &str, suffix: &str) -> usize {
    let find = |part: &str| {
        [format!("{prefix}{part}{suffix}"), format!("{prefix}{part}")]
            .into_iter()
            .find_map(|name| store.stored_tensor(&name).ok())
    };
    let mut file = Safetensors::new();
    for part in ["weight", "scales", "biases", "global_scale"] {
        if let Some(tensor) = find(part) {
            let label = tensor.dtype_label();
            let bytes = tensor.bytes(Part::Weight).expect("bytes");
            file = file.tensor(&format!("m.{part}"), &label, tensor.shape(), bytes.into_owned());
        }
    }
    // affine_b4_g64_bf16, mxfp4_bf16, nvfp4_bf16_gs
    let mut words = name.split('_');
    let mode = words.next().expect("a mode");
    let number = |word: Option<&str>| word.and_then(|word| word[1..].parse::<u32>().ok());
    let (bits, group) = match mode {
        "affine" => (number(words.next()), number(words.next())),
        "mxfp8" => (Some(8), Some(32)),
        "mxfp4" => (Some(4), Some(32)),
        _ => (Some(4), Some(16)),
    };
    let (bits, group) = (bits.expect("bits"), group.expect("a group"));
    let expected = find("expected").expect("the values");
    let config = format!(
        "{{\"model_type\":\"llama\",\"quantization\":{{\"bits\":{bits},\"group_size\":{group},\"mode\":\"{mode}\"}}}}"
    );
    let folder =
        folder(&[("config.json", config.into_bytes()), ("model.safetensors", file.build())]);
    let opened = Model::open(folder.path()).expect("a directory");
    let tensor = opened.stored_tensor("m.weight").expect("the tensor");
    check(&format!("{name}{suffix}"), &tensor, &expected.dequantize().expect("values"));

    let native = [format!("{prefix}expected{suffix}_native"), format!("{prefix}native")];
    let Some(native) = native.iter().find_map(|name| store.stored_tensor(name).ok()) else {
        return 1;
    };
    let expected = native.dequantize().expect("values");
    let decoding = DecodeOptions::new().rounding(Rounding::Native);
    let mut out = vec![0.0f32; expected.len()];
    tensor.dequantize_into(&mut out, &decoding).expect("values");
    same(&format!("{name}{suffix}, native"), &out, &expected);
    2
}

#[test]
fn a_row_of_every_mlx_mode() {
    let store = data();
    let names: Vec<String> =
        store.stored_tensors().map(|tensor| tensor.name().to_string()).collect();
    let mut count = 0;
    for name in names.iter().filter_map(|name| name.strip_suffix(".weight")) {
        count += check_groups(name, &store, &format!("{name}."), "");
    }
    assert_eq!(count, 2 * 33);
}

#[test]
fn all_groups_of_every_mlx_mode() {
    let Some(folder) = fixture("golden/mlx") else { return };
    let mut native = 0;
    for path in files(&folder) {
        let (store, name) = (Model::open(&path).expect("a file"), stem(&path));
        native += check_groups(&name, &store, "", "") - 1;
        native += check_groups(&name, &store, "", "_random") - 1;
    }
    assert!(native >= 60, "{native}");
}

/// MLX computes values of small floats in `bf16`, whose smallest number is 2^-133.
#[test]
fn products_below_bf16_are_rounded() {
    let mut codes = [0; 32];
    // Multiples of 2^-9 in E4M3, under a scale of 2^-127.
    codes[..6].copy_from_slice(&[1, 3, 4, 5, 7, 8]);
    let file = Safetensors::new().tensor("m.weight", "U32", &[1, 8], codes.to_vec()).tensor(
        "m.scales",
        "U8",
        &[1, 1],
        [0],
    );
    let config =
        r#"{"model_type":"llama","quantization":{"bits":8,"group_size":32,"mode":"mxfp8"}}"#;
    let folder = folder(&[("config.json", config.into()), ("model.safetensors", file.build())]);
    let model = Model::open(folder.path()).expect("a directory");
    let tensor = model.stored_tensor("m.weight").expect("the tensor");
    let values = |rounding: Rounding| {
        let mut out = [1.0f32; 32];
        let decoding = DecodeOptions::new().rounding(rounding);
        tensor.dequantize_into(&mut out, &decoding).expect("values");
        out[..6].iter().map(|value| f64::from(*value) * 2f64.powi(136)).collect::<Vec<f64>>()
    };
    assert_eq!(values(Rounding::F32), [1.0, 3.0, 4.0, 5.0, 7.0, 8.0]);
    assert_eq!(values(Rounding::Native), [0.0, 0.0, 0.0, 8.0, 8.0, 8.0]);
}

/// The reason why a row of the table has no golden blocks of its own.
fn reason(dtype: DType) -> Option<&'static str> {
    let row = dtype.descriptor();
    let name = row.name;
    match () {
        () if row.codec.is_none() && row.ggml.is_some_and(|code| code > 42) => {
            Some("a type of ik_llama.cpp that is refused by name")
        }
        () if name == "C64" => Some("complex numbers are no weights: refused by name"),
        () if matches!(name, "F8_E4M3" | "F8_E5M2" | "F8_E8M0") => {
            Some("every code: see `tables_of_small_floats`")
        }
        () if matches!(name, "F8_E4M3FNUZ" | "F8_E5M2FNUZ" | "F6_E2M3" | "F6_E3M2" | "F4") => {
            Some("every code by the definition of its format: see `small_floats_by_definition`")
        }
        () if matches!(name, "U8" | "U16" | "U32" | "U64" | "BOOL") => {
            Some("the language's own conversion: see `integers`")
        }
        () if matches!(name, "Q6_0" | "IQ2_K" | "IQ3_K" | "IQ4_K" | "IQ4_KS") => Some(
            "no tool at hand writes ik_llama.cpp's types: by their formulas in `tests/it/store/formulas.rs`",
        ),
        () if ["GPTQ", "AWQ", "CT_", "SCALED_", "SPARSE24_", "HF_", "BNB_"]
            .iter()
            .any(|s| name.starts_with(s)) =>
        {
            Some(
                "whole directories in `tests/it/fixtures.rs`, and by formulas in `tests/it/store/formulas.rs`",
            )
        }
        () => None,
    }
}

#[test]
fn every_row_has_golden_data_or_a_reason() {
    let store = data();
    let golden: BTreeSet<String> = store
        .stored_tensors()
        .filter_map(|tensor| {
            let name = tensor.name().to_string();
            let mode = name.strip_suffix(".weight").map(|name| {
                let mut words = name.split('_');
                let mode = words.next().unwrap_or_default().to_uppercase();
                let bits = words.next().unwrap_or_default().trim_start_matches('b');
                if mode == "AFFINE" { format!("MLX_AFFINE{bits}") } else { format!("MLX_{mode}") }
            });
            mode.or(name.strip_suffix(".raw").map(str::to_owned))
        })
        .collect();
    for row in DTYPES {
        let both = (golden.contains(row.name), reason(row.dtype));
        assert!(
            matches!(both, (true, None) | (false, Some(_))),
            "{}: golden data {}, reason {:?}",
            row.name,
            both.0,
            both.1
        );
        let refused = reason(row.dtype).is_some_and(|reason| reason.ends_with("refused by name"));
        assert_eq!(row.codec.is_none(), refused, "{}", row.name);
    }
}

/// The values of a plain dtype's elements.
fn plain(dtype: &str, elements: u64, raw: Vec<u8>) -> Vec<f32> {
    let file = Safetensors::new().tensor("t", dtype, &[elements], raw).build();
    let store = open_as(file, Strictness::Strict).expect("a well-formed file");
    store.stored_tensor("t").expect("the tensor").dequantize().expect("values").to_vec()
}

fn codes() -> Vec<u8> {
    (0..=255).collect()
}

#[test]
fn tables_of_small_floats() {
    let Some(tables) = fixture("golden/scalar") else { return };
    let tables = Model::open(tables.join("scalar_tables.safetensors")).expect("the tables");
    let table = |name: &str| floats(&bytes(&tables, name));
    let halves: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    same("F16", &plain("F16", 65_536, halves.clone()), &table("f16_to_f32"));
    same("BF16", &plain("BF16", 65_536, halves), &table("bf16_to_f32"));
    same("F8_E4M3", &plain("F8_E4M3", 256, codes()), &table("e4m3fn_to_f32"));
    same("F8_E5M2", &plain("F8_E5M2", 256, codes()), &table("e5m2_to_f32"));
    same("F8_E8M0", &plain("F8_E8M0", 256, codes()), &table("e8m0_to_f32_ocp"));

    // Elements of 1 under every scale: code 2 of E2M1.
    let blocks: Vec<u8> = codes().iter().flat_map(|e| [&[*e][..], &[0x22; 16]].concat()).collect();
    let spread = |name: &str, each: usize| -> Vec<f32> {
        table(name).into_iter().flat_map(|value| vec![value; each]).collect()
    };
    let values = spread("e8m0_to_f32_ggml_mxfp4", 32);
    check_blocks("MXFP4", DType::MXFP4, &[256, 32], blocks, &values);
    let blocks: Vec<u8> =
        codes().chunks(4).flat_map(|scales| [scales, &[0x22; 32]].concat()).collect();
    let values = spread("ue4m3_to_f32_ggml_nvfp4", 16);
    check_blocks("NVFP4", DType::NVFP4, &[64, 64], blocks, &values);
    let groups = |mode: &str, name: &str, group: u64| {
        let config = format!(
            "{{\"model_type\":\"llama\",\"quantization\":{{\"bits\":4,\"group_size\":{group},\"mode\":\"{mode}\"}}}}"
        );
        let file = Safetensors::new()
            .tensor("m.weight", "U32", &[256, group / 8], vec![0x22; 128 * group as usize])
            .tensor("m.scales", "U8", &[256, 1], codes());
        let folder =
            folder(&[("config.json", config.into_bytes()), ("model.safetensors", file.build())]);
        let store = Model::open(folder.path()).expect("a directory");
        let values = spread(name, group as usize);
        check(name, &store.stored_tensor("m.weight").expect("the tensor"), &values);
    };
    groups("mxfp4", "e8m0_to_f32_mlx_mxfp4", 32);
    groups("nvfp4", "e4m3_to_f32_mlx_nvfp4", 16);

    // Narrowing, against what ggml, numpy and ml_dtypes agree on but for the payload of NaN.
    let input = bytes(&tables, "narrow_input");
    let count = input.len() as u64 / 4;
    let file = Safetensors::new().tensor("t", "F32", &[count], input).build();
    let store = open_as(file, Strictness::Strict).expect("a well-formed file");
    let tensor = store.stored_tensor("t").expect("the tensor");
    let mut halves = vec![f16::ZERO; count as usize];
    let lost = tensor.dequantize_into(&mut halves, &DecodeOptions::new()).expect("values");
    assert!(lost.overflows > 0 && lost.flushes > 0, "{lost:?}");
    let mut uppers = vec![bf16::ZERO; count as usize];
    tensor.dequantize_into(&mut uppers, &DecodeOptions::new()).expect("values");
    for (name, found) in [
        ("f32_to_f16_numpy", halves.iter().map(|value| value.to_bits()).collect::<Vec<u16>>()),
        ("f32_to_f16_ggml", halves.iter().map(|value| value.to_bits()).collect()),
    ] {
        for (place, (found, expected)) in
            found.iter().zip(bytes(&tables, name).as_chunks().0).enumerate()
        {
            let (found, expected) = (f16::from_bits(*found), f16::from_le_bytes(*expected));
            let nan = found.is_nan() && expected.is_nan();
            assert!(nan || found.to_bits() == expected.to_bits(), "{name} {place}: {found}");
        }
    }
    for name in ["f32_to_bf16_ggml", "f32_to_bf16_ml_dtypes"] {
        for (place, (found, expected)) in
            uppers.iter().zip(bytes(&tables, name).as_chunks().0).enumerate()
        {
            let expected = bf16::from_le_bytes(*expected);
            let nan = found.is_nan() && expected.is_nan();
            assert!(nan || found.to_bits() == expected.to_bits(), "{name} {place}: {found}");
        }
    }
}

/// A small float by the book: a sign, bits of exponent, bits of fraction.
fn by_definition(code: u32, exponent: u32, fraction: u32, bias: i32) -> f64 {
    let low = f64::from(code & ((1 << fraction) - 1)) / f64::from(1 << fraction);
    let high = code >> fraction & ((1 << exponent) - 1);
    let magnitude = match high {
        0 => low * 2f64.powi(1 - bias),
        high => (1.0 + low) * 2f64.powi(high as i32 - bias),
    };
    if code >> (exponent + fraction) & 1 == 1 { -magnitude } else { magnitude }
}

#[test]
fn small_floats_by_definition() {
    let values = |exponent, fraction, bias, codes: u32| -> Vec<f32> {
        (0..codes).map(|code| by_definition(code, exponent, fraction, bias) as f32).collect()
    };
    // One NaN, in place of minus zero.
    let fnuz = |mut values: Vec<f32>| {
        values[0x80] = f32::NAN;
        values
    };
    same("F8_E4M3FNUZ", &plain("F8_E4M3FNUZ", 256, codes()), &fnuz(values(4, 3, 8, 256)));
    same("F8_E5M2FNUZ", &plain("F8_E5M2FNUZ", 256, codes()), &fnuz(values(5, 2, 16, 256)));
    // Codes of a few bits follow each other, the first in the lowest bits.
    let stream = |bits: usize, count: usize| {
        let mut bytes = vec![0u8; count * bits / 8];
        for (code, bit) in (0..count).flat_map(|code| (0..bits).map(move |bit| (code, bit))) {
            let place = code * bits + bit;
            bytes[place / 8] |= ((code >> bit & 1) as u8) << (place % 8);
        }
        bytes
    };
    same("F6_E2M3", &plain("F6_E2M3", 64, stream(6, 64)), &values(2, 3, 1, 64));
    same("F6_E3M2", &plain("F6_E3M2", 64, stream(6, 64)), &values(3, 2, 3, 64));
    same("F4", &plain("F4", 16, stream(4, 16)), &values(2, 1, 1, 16));
}

#[test]
fn integers() {
    let numbers = [0u64, 1, 127, 128, 255, 32_767, 65_535, 16_777_217, u32::MAX.into(), u64::MAX];
    let raw = |width: usize| -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()[..width].to_vec()).collect()
    };
    let count = numbers.len() as u64;
    let values =
        |cut: fn(u64) -> f32| numbers.iter().map(|number| cut(*number)).collect::<Vec<_>>();
    same("U8", &plain("U8", count, raw(1)), &values(|n| n as u8 as f32));
    same("I8", &plain("I8", count, raw(1)), &values(|n| n as i8 as f32));
    same("U16", &plain("U16", count, raw(2)), &values(|n| n as u16 as f32));
    same("U32", &plain("U32", count, raw(4)), &values(|n| n as u32 as f32));
    same("U64", &plain("U64", count, raw(8)), &values(|n| n as f32));
    same("BOOL", &plain("BOOL", count, raw(1)), &values(|n| f32::from(n as u8 != 0)));
}
