//! MLX directories: what the config says, what the arrays say, and where they differ.
#![allow(clippy::cast_possible_truncation, reason = "the sizes are the test's own")]

use crate::support::{Safetensors, f32s, folder, refused_folder};
use tempfile::TempDir;
use weighbridge::model::DecodeOptions;
use weighbridge::{DType, Model, Part};

/// A module of 2 rows of 64 values, packed at some width, all bits zero.
fn module(bits: u64, group: u64, scales: &str) -> Safetensors {
    let words = 64 * bits / 32;
    let groups = 64 / group;
    let size = if scales == "U8" { 1 } else { 4 };
    let file = Safetensors::new()
        .tensor("m.weight", "U32", &[2, words], vec![0; (8 * words) as usize])
        .tensor("m.scales", scales, &[2, groups], vec![0; (2 * groups * size) as usize]);
    if scales == "U8" {
        return file;
    }
    file.tensor("m.biases", scales, &[2, groups], vec![0; (2 * groups * size) as usize])
}

fn directory(quantization: &str, file: &Safetensors) -> TempDir {
    let config = format!("{{\"model_type\":\"llama\",\"quantization\":{quantization}}}");
    folder(&[("config.json", config.into_bytes()), ("model.safetensors", file.build())])
}

/// The dtype and group size that a directory settles on, or what is wrong with it.
fn settled(quantization: &str, file: &Safetensors) -> String {
    let folder = directory(quantization, file);
    match Model::open(folder.path()) {
        Ok(store) => {
            assert_eq!(store.container(), "mlx");
            let tensor = store.stored_tensor("m.weight").unwrap();
            assert_eq!(tensor.shape(), [2, 64]);
            format!("{} {}", tensor.dtype().unwrap(), tensor.group_size().unwrap_or(0))
        }
        Err(_) => refused_folder(&folder),
    }
}

#[test]
fn every_mode_and_width() {
    let rows = [
        (1, 32, "F32", "affine", "MLX_AFFINE1 32"),
        (2, 32, "F32", "affine", "MLX_AFFINE2 32"),
        (3, 64, "F32", "affine", "MLX_AFFINE3 64"),
        (4, 64, "F32", "affine", "MLX_AFFINE4 64"),
        (5, 32, "F32", "affine", "MLX_AFFINE5 32"),
        (6, 64, "F32", "affine", "MLX_AFFINE6 64"),
        (8, 32, "F32", "affine", "MLX_AFFINE8 32"),
        (4, 32, "U8", "mxfp4", "MLX_MXFP4 32"),
        (8, 32, "U8", "mxfp8", "MLX_MXFP8 32"),
        (4, 16, "U8", "nvfp4", "MLX_NVFP4 16"),
    ];
    for (bits, group, scales, mode, expected) in rows {
        let file = module(bits, group, scales);
        let said = format!("{{\"bits\":{bits},\"group_size\":{group},\"mode\":\"{mode}\"}}");
        assert_eq!(settled(&said, &file), expected);
        // Named for the module, against another setting for all; without a mode it is affine.
        let mode = if mode == "affine" { String::new() } else { format!(",\"mode\":\"{mode}\"") };
        let named = format!(
            "{{\"bits\":8,\"group_size\":128,\"m\":{{\"bits\":{bits},\"group_size\":{group}{mode}}}}}"
        );
        assert_eq!(settled(&named, &file), expected);
    }
}

#[test]
fn shapes_decide_where_they_leave_one_reading() {
    // 5 bits in groups of 64 fit nothing else, whatever the setting for all says.
    assert_eq!(settled("{\"bits\":4,\"group_size\":32}", &module(5, 64, "F32")), "MLX_AFFINE5 64");
    assert_eq!(settled("{\"bits\":4,\"group_size\":64}", &module(4, 16, "U8")), "MLX_NVFP4 16");
    // 4 bits in groups of 64 have the shapes of 8 bits in groups of 32.
    assert_eq!(settled("{\"bits\":8,\"group_size\":32}", &module(8, 32, "F32")), "MLX_AFFINE8 32");
}

#[test]
fn wrappers_put_prefixes_before_names() {
    let file = Safetensors::new()
        .tensor("language_model.model.m.weight", "U32", &[1, 8], vec![0; 32])
        .tensor("language_model.model.m.scales", "F32", &[1, 1], vec![0; 4])
        .tensor("language_model.model.m.biases", "F32", &[1, 1], vec![0; 4]);
    for name in ["language_model.model.m", "model.m", "m", "model.language_model.m"] {
        let config = format!(
            "{{\"quantization\":{{\"bits\":2,\"group_size\":32,\"{name}\":{{\"bits\":4,\"group_size\":64}}}}}}"
        );
        let folder =
            folder(&[("config.json", config.into_bytes()), ("model.safetensors", file.build())]);
        let store = Model::open(folder.path()).unwrap();
        let tensor = store.stored_tensor("language_model.model.m.weight").unwrap();
        assert_eq!(tensor.dtype().unwrap(), DType::MLX_AFFINE4, "{name}");
    }
}

#[test]
fn the_setting_itself_is_checked_first() {
    let file = module(4, 64, "F32");
    let told = |said: &str| settled(said, &file);
    insta::assert_snapshot!(told("{\"bits\":7,\"group_size\":64}"), @r#"Malformed: ./config.json: key "quantization.bits": 7, but affine has 1, 2, 3, 4, 5, 6, 8"#);
    insta::assert_snapshot!(told("{\"bits\":4,\"group_size\":0}"), @r#"Malformed: ./config.json: key "quantization.group_size": 0, but affine has 64, 32, 128"#);
    insta::assert_snapshot!(told("{\"bits\":4,\"group_size\":64,\"mode\":\"mxfp5\"}"), @r#"Malformed: ./config.json: key "quantization.mode": "mxfp5", but affine, mxfp4, mxfp8, nvfp4 are known"#);
    insta::assert_snapshot!(told("{\"bits\":4,\"group_size\":64,\"m\":{\"bits\":4.5}}"), @r#"Malformed: ./config.json: key "quantization.m.bits": 4.5, but affine has 1, 2, 3, 4, 5, 6, 8"#);
}

#[test]
fn contradictions_name_both_readings() {
    let file = module(4, 64, "F32");
    let named = "{\"bits\":4,\"group_size\":64,\"m\":{\"bits\":8,\"group_size\":64}}";
    insta::assert_snapshot!(settled(named, &file), @r#"
    Malformed: ./model.safetensors: tensor "m.weight": config.json says affine with 8 bits in groups of 64, but its shapes fit MLX_AFFINE2 in groups of 128, or MLX_AFFINE4 in groups of 64, or MLX_AFFINE8 in groups of 32
    help: config.json and the tensors are of different models, or damaged
    "#);
    insta::assert_snapshot!(settled("{\"bits\":3,\"group_size\":64}", &file), @r#"
    Malformed: ./model.safetensors: tensor "m.weight": config.json says affine with 3 bits in groups of 64 for all, but its shapes fit MLX_AFFINE2 in groups of 128, or MLX_AFFINE4 in groups of 64, or MLX_AFFINE8 in groups of 32
    help: config.json and the tensors are of different models, or damaged
    "#);
}

#[test]
fn parts_must_fit() {
    let said = "{\"bits\":4,\"group_size\":64}";
    let broken = |change: fn(&mut Safetensors)| settled(said, &module(4, 64, "F32").with(change));
    insta::assert_snapshot!(broken(|file| { file.arrays.remove(1); }), @r#"Malformed: ./model.safetensors: tensor "m.weight": the weight is packed and has .biases, but .scales are missing"#);
    insta::assert_snapshot!(broken(|file| { file.arrays.remove(2); }), @r#"
    Malformed: ./model.safetensors: tensor "m.weight": float scales, but no biases
    help: config.json and the tensors are of different models, or damaged
    "#);
    insta::assert_snapshot!(broken(|file| file.arrays[1].dtype = "U32".into()), @r#"
    Malformed: ./model.safetensors: tensor "m.weight": scales of U32; F16, BF16, F32 or U8 are known
    help: config.json and the tensors are of different models, or damaged
    "#);
    insta::assert_snapshot!(broken(|file| {
        file.arrays[1].shape = vec![1, 1];
        file.arrays[1].bytes.truncate(4);
    }), @r#"
    Malformed: ./model.safetensors: tensor "m.weight": weight [2, 8] of U32 and scales [1, 1]
    help: config.json and the tensors are of different models, or damaged
    "#);
}

#[test]
fn values_of_experts_with_a_global_scale_each() {
    // Two experts of one row of 16: code 2 is 1.0, scale byte 0x38 is 1.0.
    let file = Safetensors::new()
        .tensor("m.weight", "U32", &[2, 1, 2], vec![0x22; 16])
        .tensor("m.scales", "U8", &[2, 1, 1], vec![0x38; 2])
        .tensor("m.global_scale", "F32", &[2], f32s(&[2688.0, 5376.0]));
    let folder = directory("{\"bits\":4,\"group_size\":16,\"mode\":\"nvfp4\"}", &file);
    let store = Model::open(folder.path()).unwrap();
    let tensor = store.stored_tensor("m.weight").unwrap();
    assert_eq!(tensor.shape(), [2, 1, 16]);
    assert_eq!(tensor.segments().last().unwrap().part, Part::GlobalAmax);
    assert_eq!(*tensor.dequantize().unwrap(), [[1.0; 16], [2.0; 16]].concat());
    let mut row = [0.0; 16];
    tensor.dequantize_rows(1..2, &mut row, &DecodeOptions::new()).unwrap();
    assert_eq!(row, [2.0; 16]);
}

#[test]
fn arrays_that_contradict_each_other() {
    let four = "{\"bits\":4,\"group_size\":64}";
    let said = |biases: &str, rows: u64, size: u64| {
        let mut file = module(4, 64, "F32");
        file.arrays.pop();
        let bytes = vec![0; (rows * size) as usize];
        settled(four, &file.tensor("m.biases", biases, &[rows, 1], bytes))
    };
    assert_eq!(said("F32", 2, 4), "MLX_AFFINE4 64");
    assert_eq!(said("BF16", 2, 2), "MLX_AFFINE4 64");
    insta::assert_snapshot!(said("F32", 3, 4), @r#"
    Malformed: ./model.safetensors: tensor "m.weight": scales [2, 1] and biases [3, 1] of F32
    help: config.json and the tensors are of different models, or damaged
    "#);
    insta::assert_snapshot!(said("U8", 2, 1), @r#"
    Malformed: ./model.safetensors: tensor "m.weight": scales [2, 1] and biases [2, 1] of U8
    help: config.json and the tensors are of different models, or damaged
    "#);
    // Five groups divide no row of 256 bits.
    let odd = Safetensors::new()
        .tensor("m.weight", "U32", &[2, 8], vec![0; 64])
        .tensor("m.scales", "F32", &[2, 5], vec![0; 40])
        .tensor("m.biases", "F32", &[2, 5], vec![0; 40]);
    insta::assert_snapshot!(settled(four, &odd), @r#"
    Malformed: ./model.safetensors: tensor "m.weight": config.json says affine with 4 bits in groups of 64 for all, but its shapes fit nothing
    help: config.json and the tensors are of different models, or damaged
    "#);
}
