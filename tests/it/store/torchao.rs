//! Checkpoints that torchao quantized and transformers saved. `tests/fixtures/hfq/torchao-*` has
//! whole ones, with the values that torchao gives back; these are the shapes and layouts that those
//! lack.

use std::path::Path;

use crate::support::{Safetensors, f32s, folder, told, without_path};
use insta::assert_snapshot;
use weighbridge::{DType, Model};

const CONFIG: &str = r#"{"quantization_config": {"quant_method": "torchao"}}"#;

fn with(file: &Safetensors, check: impl FnOnce(weighbridge::Result<Model>, &Path)) {
    let folder = folder(&[("model.safetensors", file.build()), ("config.json", CONFIG.into())]);
    check(Model::open(folder.path()), folder.path());
}

/// The array names are those of the tensor with an underscore before its last part.
#[test]
fn tensors_get_their_names_back() {
    for (stored, name) in [
        ("l._weight", "l.weight"),
        ("l.experts._gate_up_proj", "l.experts.gate_up_proj"),
        ("l.experts._down_proj", "l.experts.down_proj"),
    ] {
        // One scale for each of two rows of each of two experts, or one for all.
        for (shape, scales) in [(&[2, 2, 1][..], &[0.5, 1.0, 2.0, 4.0][..]), (&[1, 1, 1], &[0.5])] {
            let codes: Vec<u8> = (0..12).map(|n| (n as i8 - 6).cast_unsigned()).collect();
            let file = Safetensors::new()
                .tensor(&format!("{stored}_qdata"), "I8", &[2, 2, 3], codes)
                .tensor(&format!("{stored}_scale"), "F32", shape, f32s(scales))
                .tensor(&format!("{stored}_act_quant_scale"), "F32", &[1], f32s(&[1.0]));
            with(&file, |model, _| {
                let model = model.expect("a model");
                let tensor = model.stored_tensor(name).expect(name);
                assert_eq!(tensor.dtype().expect("a dtype"), DType::SCALED_I8);
                assert_eq!(tensor.shape(), [2, 2, 3]);
                let scale = |n: usize| if scales.len() == 1 { scales[0] } else { scales[n / 3] };
                let expected: Vec<f32> = (0..12).map(|n| (n as f32 - 6.0) * scale(n)).collect();
                assert_eq!(*tensor.dequantize().expect("values"), expected);
            });
        }
    }
}

#[test]
fn zero_points_are_subtracted() {
    let file = Safetensors::new()
        .tensor("l._weight_qdata", "I8", &[2, 4], [1, 2, 3, 4, 5, 6, 7, 8])
        .tensor("l._weight_scale", "F32", &[2, 2], f32s(&[1.0, 10.0, 100.0, 1000.0]))
        .tensor("l._weight_zero_point", "I8", &[2, 2], [0, 3, 5, 0xff]);
    with(&file, |model, _| {
        let model = model.expect("a model");
        let values = model.stored_tensor("l.weight").expect("it").dequantize().expect("values");
        assert_eq!(*values, [1.0, 2.0, 0.0, 10.0, 0.0, 100.0, 8000.0, 9000.0]);
    });
}

#[test]
fn other_layouts_are_named() {
    let int8 = || Safetensors::new().tensor("l._weight_qdata", "I8", &[4, 8], [1; 32]);
    let scale = f32s(&[1.0; 4]);
    let mut said = Vec::new();
    for file in [
        // Int4Tensor: two codes in a byte, scales and zero points by group and row.
        int8().tensor("l._weight_scale", "BF16", &[2, 4], [0; 16]).tensor(
            "l._weight_zero_point",
            "BF16",
            &[2, 4],
            [0; 16],
        ),
        // Int4TilePackedTo4dTensor.
        Safetensors::new().tensor("l._weight_qdata", "I32", &[1, 1, 32, 4], [0; 512]).tensor(
            "l._weight_scale_and_zero",
            "BF16",
            &[1, 8, 2],
            [0; 32],
        ),
        // MXTensor, NVFP4Tensor.
        Safetensors::new().tensor("l._weight_qdata", "F8_E4M3", &[4, 32], [0; 128]).tensor(
            "l._weight_scale",
            "F8_E8M0",
            &[4, 1],
            [0; 4],
        ),
        Safetensors::new().tensor("l._weight_qdata", "U8", &[4, 8], [0; 32]).tensor(
            "l._weight_scale",
            "F8_E4M3",
            &[4, 1],
            [0; 4],
        ),
        // Inputs are scaled before the product, so the stored values are not the weight's.
        int8().tensor("l._weight_scale", "F32", &[4, 1], scale.clone()).tensor(
            "l._weight_act_pre_scale",
            "F32",
            &[8],
            f32s(&[1.0; 8]),
        ),
        int8().tensor("l._weight_scale", "F32", &[5, 1], f32s(&[1.0; 5])),
        int8(),
    ] {
        with(&file, |model, folder| {
            let tensor = model.expect("a model").stored_tensor("l._weight_qdata").expect("it");
            let error = tensor.dequantize().expect_err("a refusal");
            said.push(without_path(&told(&error), folder));
        });
    }
    assert_snapshot!(said.join("\n"), @r#"
    Unsupported: ./model.safetensors: tensor "l._weight_qdata": codes of torchao (config.json) in a packing that is not supported (_weight_qdata I8, _weight_scale BF16, _weight_zero_point BF16): qdata I8 [4, 8], scale BF16 [2, 4], zero_point BF16 [2, 4]: none of Int8Tensor, IntxUnpackedToInt8Tensor and Float8Tensor
    help: use the checkpoint from before its quantization, or copy this one as it is
    Unsupported: ./model.safetensors: tensor "l._weight_qdata": codes of torchao (config.json) in a packing that is not supported (_weight_qdata I32, _weight_scale_and_zero BF16): qdata I32 [1, 1, 32, 4]: none of Int8Tensor, IntxUnpackedToInt8Tensor and Float8Tensor
    help: use the checkpoint from before its quantization, or copy this one as it is
    Unsupported: ./model.safetensors: tensor "l._weight_qdata": codes of torchao (config.json) in a packing that is not supported (_weight_qdata F8_E4M3, _weight_scale F8_E8M0): qdata F8_E4M3 [4, 32], scale F8_E8M0 [4, 1]: none of Int8Tensor, IntxUnpackedToInt8Tensor and Float8Tensor
    help: use the checkpoint from before its quantization, or copy this one as it is
    Unsupported: ./model.safetensors: tensor "l._weight_qdata": codes of torchao (config.json) in a packing that is not supported (_weight_qdata U8, _weight_scale F8_E4M3): qdata U8 [4, 8], scale F8_E4M3 [4, 1]: none of Int8Tensor, IntxUnpackedToInt8Tensor and Float8Tensor
    help: use the checkpoint from before its quantization, or copy this one as it is
    Unsupported: ./model.safetensors: tensor "l._weight_qdata": codes of torchao (config.json) in a packing that is not supported (_weight_qdata I8, _weight_scale F32, _weight_act_pre_scale F32): torchao scales the inputs of this tensor (act_pre_scale)
    help: use the checkpoint from before its quantization, or copy this one as it is
    Unsupported: ./model.safetensors: tensor "l._weight_qdata": codes of torchao (config.json) in a packing that is not supported (_weight_qdata I8, _weight_scale F32): weight [4, 8] and scale [5, 1]
    help: use the checkpoint from before its quantization, or copy this one as it is
    Unsupported: ./model.safetensors: tensor "l._weight_qdata": codes of torchao (config.json) in a packing that is not supported (_weight_qdata I8): qdata I8 [4, 8]: none of Int8Tensor, IntxUnpackedToInt8Tensor and Float8Tensor
    help: use the checkpoint from before its quantization, or copy this one as it is
    "#);
}
