//! Quantizing refuses values that no block holds, and leaves nothing behind.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "the numbers are the test's own"
)]

use std::path::Path;

use insta::assert_snapshot;
use weighbridge::container::MLX;
use weighbridge::ops::{self, ConvertOptions, QuantizationRules};
use weighbridge::recipe::FileType;
use weighbridge::recipe::llama_cpp::LlamaOptions;
use weighbridge::recipe::mlx_lm::{MlxMode, MlxOptions};
use weighbridge::{DType, Error, Model, OpenOptions, WriteOptions, WritePlan};

use crate::support::{Gguf, Kv, Safetensors, f32s, folder};

const ROWS: u64 = 4;
const COLUMNS: u64 = 256;

/// Values with another one in row 2, column 5.
fn values(odd: f32) -> Vec<f32> {
    let mut values: Vec<f32> = (0..ROWS * COLUMNS).map(|n| (n % 17) as f32 / 64.0).collect();
    values[2 * COLUMNS as usize + 5] = odd;
    values
}

fn gguf(odd: f32) -> Vec<u8> {
    let shape = [ROWS, COLUMNS];
    let file = Gguf::new()
        .key("general.architecture", Kv::text("llama"))
        .key("llama.block_count", Kv::U32(1));
    file.tensor("blk.0.ffn_down.weight", DType::F32, &shape, f32s(&values(odd))).build()
}

/// Runs a plan, and returns the error. There must be nothing else in the folder afterwards.
fn run(plan: &WritePlan, allow: bool) -> Result<(), Error> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = WriteOptions::new().allow_nonfinite(allow).allow_incomplete(true);
    let ran = plan.run(&folder.path().join("out"), &options);
    let left = std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(left, usize::from(ran.is_ok()));
    ran.map(|_| ())
}

fn quantized(odd: f32, file_type: FileType, allow: bool) -> Result<(), Error> {
    let model = OpenOptions::new().open_memory("m.gguf", gguf(odd))?;
    run(&ops::quantize(&model, &LlamaOptions::new(file_type), None, Path::new("out"))?, allow)
}

const TYPES: [FileType; 9] = [
    FileType::Q8_0,
    FileType::Q4_0,
    FileType::Q5_1,
    FileType::Q2_K,
    FileType::Q4_K_S,
    FileType::Q6_K,
    FileType::IQ4_XS,
    FileType::IQ4_NL,
    FileType::TQ2_0,
];

#[test]
fn values_that_are_no_numbers_are_refused() {
    for file_type in TYPES {
        for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let error = quantized(odd, file_type, false).expect_err("a refusal");
            assert_eq!(error.tensor(), Some("blk.0.ffn_down.weight"), "{file_type}");
            let place = format!("row 2, column 5 is {odd}");
            assert!(error.to_string().contains(&place), "{file_type}: {error}");
            quantized(odd, file_type, true).expect("as asked for");
        }
        quantized(1.0, file_type, false).expect("a sound model");
    }
    let error = quantized(f32::NAN, FileType::Q8_0, false).expect_err("a refusal");
    assert_snapshot!(
        format!("{error}\n{}", error.advice().unwrap_or_default()),
        @r#"
    m.gguf: tensor "blk.0.ffn_down.weight": row 2, column 5 is NaN, which Q8_0 cannot hold
    VerifyOptions::deep finds all such values; WriteOptions::allow_nonfinite quantizes them all the same
    "#
    );
}

/// The scale of a block is stored in 16 bits.
#[test]
fn values_beyond_the_range_of_a_scale_are_refused() {
    for (file_type, most) in [(FileType::Q8_0, 8e6), (FileType::Q4_0, 5e5), (FileType::Q4_K_S, 5e7)]
    {
        quantized(most, file_type, false).expect("within the range");
        let error = quantized(most * 10.0, file_type, false).expect_err("a refusal");
        assert!(error.to_string().contains("row 2, column 5 is "), "{file_type}: {error}");
        assert!(error.to_string().contains("beyond the range"), "{file_type}: {error}");
        quantized(most * 10.0, file_type, true).expect("as asked for");
    }
}

/// The sums of squares from which some scales are computed overflow, so that the block would be zeros.
#[test]
fn values_whose_squares_overflow_are_refused() {
    for file_type in TYPES {
        for most in [2e18, 2e19, 3e38] {
            let error = quantized(most, file_type, false).expect_err("a refusal");
            assert!(error.to_string().contains("beyond the range"), "{file_type}: {error}");
            quantized(most, file_type, true).expect("as asked for");
        }
    }
}

#[test]
fn groups_of_mlx_are_checked_too() {
    let directory = |odd: f32| {
        let shape = [ROWS, COLUMNS];
        let name = "model.layers.0.mlp.down_proj.weight";
        let file = Safetensors::new().tensor(name, "F32", &shape, f32s(&values(odd))).build();
        let config = br#"{"model_type":"llama","hidden_size":4,"num_hidden_layers":1,
            "num_attention_heads":1,"intermediate_size":256,"vocab_size":2,"rms_norm_eps":1e-5}"#;
        folder(&[("config.json", config.to_vec()), ("model.safetensors", file)])
    };
    let convert = |odd: f32, mode: MlxMode, allow: bool| {
        let folder = directory(odd);
        let model = Model::open(folder.path())?;
        let rules = MlxOptions { mode, ..MlxOptions::default() };
        let options = ConvertOptions::new(&MLX).quantize(QuantizationRules::MlxLm(rules));
        run(&ops::convert(&model, &options)?, allow)
    };
    for mode in [MlxMode::Affine, MlxMode::Mxfp4, MlxMode::Mxfp8, MlxMode::Nvfp4] {
        let error = convert(f32::NAN, mode, false).expect_err("a refusal");
        assert_eq!(error.tensor(), Some("model.layers.0.mlp.down_proj.weight"), "{mode:?}");
        assert!(error.to_string().contains("row 2, column 5 is NaN"), "{error}");
        convert(f32::NAN, mode, true).expect("as asked for");
        convert(1.0, mode, false).expect("a sound model");
    }
    // Its scales saturate instead of becoming infinite.
    let error = convert(1e4, MlxMode::Nvfp4, false).expect_err("a refusal");
    assert!(error.to_string().contains("is 10000, but MLX_NVFP4 holds at most 2688"), "{error}");
}
