//! Checkpoints of quantization schemes whose arrays do not fit together, one fault at a time, and
//! arrays that only look like those of a scheme.

use crate::support::{Safetensors, folder, told, without_path};
use insta::assert_snapshot;
use weighbridge::{DType, Model};

/// Arrays of zeros: the name, the dtype as safetensors spells it, and the shape.
type Arrays<'a> = &'a [(&'a str, &'a str, &'a [u64])];

fn file(arrays: Arrays<'_>) -> Safetensors {
    arrays.iter().fold(Safetensors::new(), |file, (name, dtype, shape)| {
        let width = DType::from_safetensors(dtype.as_bytes()).and_then(|dtype| dtype.row_bytes(1));
        let bytes = shape.iter().product::<u64>() * width.expect("whole bytes");
        file.tensor(name, dtype, shape, vec![0; bytes as usize])
    })
}

/// The error of a checkpoint, or the names and dtypes of its tensors, with the error of those whose values
/// are refused.
fn opened(file: &Safetensors) -> String {
    let config = r#"{"model_type": "llama", "quantization_config": {"quant_method": "x"}}"#;
    let folder = folder(&[("config.json", config.into()), ("model.safetensors", file.build())]);
    let said = match Model::open(folder.path()) {
        Err(error) => told(&error),
        Ok(model) => {
            let tensor = |tensor: weighbridge::Tensor| match tensor.check_decodable() {
                Err(error) => told(&error),
                Ok(()) => {
                    let dtype = tensor.dtype().expect("a known dtype");
                    format!("{} {dtype} {:?}", tensor.name(), tensor.shape())
                }
            };
            model.stored_tensors().map(tensor).collect::<Vec<_>>().join(", ")
        }
    };
    let said = without_path(&said, folder.path()).replace("./model.safetensors: tensor ", "");
    said.replace(
        "\nhelp: use the checkpoint from before its quantization, or copy this one as it is",
        "",
    )
}

fn all(cases: &[Arrays<'_>]) -> String {
    cases.iter().map(|arrays| opened(&file(arrays))).collect::<Vec<_>>().join("\n")
}

#[test]
fn gptq_and_awq() {
    assert_snapshot!(all(&[
        &[("l.qweight", "I32", &[4, 8]), ("l.scales", "F16", &[2, 8]), ("l.qzeros", "I32", &[2, 1])],
        // AWQ packs along the outputs.
        &[("l.qweight", "I32", &[32, 1]), ("l.scales", "F16", &[2, 8]), ("l.qzeros", "I32", &[2, 1])],
        &[("l.qweight", "I32", &[4, 8]), ("l.qzeros", "I32", &[2, 1])],
        &[("l.qweight", "I32", &[4, 8]), ("l.scales", "F16", &[2, 8])],
        &[("l.qweight", "I32", &[32]), ("l.scales", "F16", &[2, 8]), ("l.qzeros", "I32", &[2, 1])],
        &[("l.qweight", "I32", &[4, 8]), ("l.scales", "F16", &[2, 8]), ("l.qzeros", "I32", &[1, 1])],
        &[("l.qweight", "I32", &[4, 32]), ("l.scales", "F16", &[2, 32]), ("l.qzeros", "I32", &[2, 5])],
        &[("l.qweight", "I32", &[4, 0]), ("l.scales", "F16", &[2, 0]), ("l.qzeros", "I32", &[2, 1])],
        &[("l.qweight", "I32", &[4, 9]), ("l.scales", "F16", &[2, 8]), ("l.qzeros", "I32", &[2, 1])],
        // Words of 8 bits along the outputs are not AWQ's.
        &[("l.qweight", "I32", &[32, 2]), ("l.scales", "F16", &[2, 8]), ("l.qzeros", "I32", &[2, 2])],
        &[("l.qweight", "I32", &[1, 32]), ("l.scales", "F16", &[1, 32]), ("l.qzeros", "I32", &[1, 3])],
        &[("l.qweight", "I32", &[4, 8]), ("l.scales", "F16", &[2, 8]), ("l.qzeros", "I32", &[2, 1]), ("l.g_idx", "I32", &[31])],
        &[("l.qweight", "I32", &[4, 8]), ("l.scales", "F16", &[0, 8]), ("l.qzeros", "I32", &[0, 1])],
        &[("l.qweight", "I32", &[4, 8]), ("l.scales", "F16", &[33, 8]), ("l.qzeros", "I32", &[33, 1])],
    ]), @r#"
    l.weight GPTQ4 [8, 32]
    l.weight AWQ4 [8, 32]
    Unsupported: "l.qweight": codes of x (config.json) in a packing that is not supported (qweight I32, qzeros I32), l.qzeros I32 [2, 1]
    Unsupported: "l.qweight": codes of x (config.json) in a packing that is not supported (qweight I32, scales F16), l.scales F16 [2, 8]
    Unsupported: "l.qweight": codes of x (config.json) in a packing that is not supported (qweight I32, scales F16, qzeros I32): weight, scales and zero points must have two dimensions, l.scales F16 [2, 8], l.qzeros I32 [2, 1]
    Unsupported: "l.qweight": codes of x (config.json) in a packing that is not supported (qweight I32, scales F16, qzeros I32): qweight [4, 8], scales [2, 8] and qzeros [1, 1] are of no known layout: 0 bits per element, l.scales F16 [2, 8], l.qzeros I32 [1, 1]
    Unsupported: "l.qweight": codes of x (config.json) in a packing that is not supported (qweight I32, scales F16, qzeros I32): qweight [4, 32], scales [2, 32] and qzeros [2, 5] are of no known layout: 5 bits per element, l.scales F16 [2, 32], l.qzeros I32 [2, 5]
    Unsupported: "l.qweight": codes of x (config.json) in a packing that is not supported (qweight I32, scales F16, qzeros I32): qweight [4, 0], scales [2, 0] and qzeros [2, 1] are of no known layout: 0 bits per element, l.scales F16 [2, 0], l.qzeros I32 [2, 1]
    Unsupported: "l.qweight": codes of x (config.json) in a packing that is not supported (qweight I32, scales F16, qzeros I32): qweight [4, 9], scales [2, 8] and qzeros [2, 1] are of no known layout, l.scales F16 [2, 8], l.qzeros I32 [2, 1]
    Unsupported: "l.qweight": codes of x (config.json) in a packing that is not supported (qweight I32, scales F16, qzeros I32): qweight [32, 2], scales [2, 8] and qzeros [2, 2] are of no known layout, l.scales F16 [2, 8], l.qzeros I32 [2, 2]
    Unsupported: "l.qweight": codes of x (config.json) in a packing that is not supported (qweight I32, scales F16, qzeros I32): qweight [1, 32], scales [1, 32] and qzeros [1, 3] are of no known layout, l.scales F16 [1, 32], l.qzeros I32 [1, 3]
    Unsupported: "l.qweight": codes of x (config.json) in a packing that is not supported (qweight I32, scales F16, qzeros I32, g_idx I32): g_idx has shape [31], but there are 32 inputs, l.scales F16 [2, 8], l.qzeros I32 [2, 1], l.g_idx I32 [31]
    Unsupported: "l.qweight": codes of x (config.json) in a packing that is not supported (qweight I32, scales F16, qzeros I32): 0 groups for 32 inputs, l.scales F16 [0, 8], l.qzeros I32 [0, 1]
    Unsupported: "l.qweight": codes of x (config.json) in a packing that is not supported (qweight I32, scales F16, qzeros I32): 33 groups for 32 inputs, l.scales F16 [33, 8], l.qzeros I32 [33, 1]
    "#);
}

#[test]
fn compressed_tensors() {
    let stated = |dims: &[i64]| {
        let bytes: Vec<u8> = dims.iter().flat_map(|dim| dim.to_le_bytes()).collect();
        let arrays =
            file(&[("l.weight_packed", "I32", &[2, 4]), ("l.weight_scale", "F16", &[2, 1])]);
        opened(&arrays.tensor("l.weight_shape", "I64", &[dims.len() as u64], bytes))
    };
    let shapes = [&[2, 32][..], &[2, 16], &[2], &[3, 32], &[2, 24], &[2, -1]];
    assert_snapshot!(shapes.map(stated).join("\n"), @r#"
    l.weight CT_INT4 [2, 32]
    l.weight CT_INT8 [2, 16]
    Unsupported: "l.weight_packed": codes of x (config.json) in a packing that is not supported (weight_packed I32, weight_scale F16): weight_shape [2] does not fit packed weights [2, 4] at 4 or 8 bits, l.weight_scale F16 [2, 1], l.weight_shape I64 [1]
    Unsupported: "l.weight_packed": codes of x (config.json) in a packing that is not supported (weight_packed I32, weight_scale F16): weight_shape [3, 32] does not fit packed weights [2, 4] at 4 or 8 bits, l.weight_scale F16 [2, 1], l.weight_shape I64 [2]
    Unsupported: "l.weight_packed": codes of x (config.json) in a packing that is not supported (weight_packed I32, weight_scale F16): weight_shape [2, 24] does not fit packed weights [2, 4] at 4 or 8 bits, l.weight_scale F16 [2, 1], l.weight_shape I64 [2]
    Unsupported: "l.weight_packed": codes of x (config.json) in a packing that is not supported (weight_packed I32, weight_scale F16): weight_shape [2, 18446744073709551615] does not fit packed weights [2, 4] at 4 or 8 bits, l.weight_scale F16 [2, 1], l.weight_shape I64 [2]
    "#);
    assert_snapshot!(all(&[
        &[("l.weight_packed", "I32", &[2, 4])],
        &[("l.weight_packed", "I32", &[8]), ("l.weight_scale", "F16", &[2, 1])],
        &[("l.weight_packed", "I32", &[2, 4]), ("l.weight_scale", "F16", &[3, 1])],
        &[("l.weight_packed", "I32", &[2, 4]), ("l.weight_scale", "F16", &[2, 0])],
        &[("l.weight_packed", "I32", &[2, 4]), ("l.weight_scale", "F16", &[2, 1])],
        // NVFP4 and MXFP4, and bytes whose scales are neither's.
        &[("l.weight_packed", "U8", &[2, 16]), ("l.weight_scale", "F8_E4M3", &[2, 2])],
        &[("l.weight_packed", "U8", &[2, 16]), ("l.weight_scale", "F8_E4M3", &[2, 1])],
        &[("l.weight_packed", "U8", &[2, 16]), ("l.weight_scale", "U8", &[2, 1])],
        &[("l.weight_packed", "U8", &[2, 16]), ("l.weight_scale", "U8", &[2, 2])],
        &[("l.weight_packed", "U8", &[2, 16]), ("l.weight_scale", "F16", &[2, 2])],
    ]), @r#"
    Unsupported: "l.weight_packed": codes of x (config.json) in a packing that is not supported (weight_packed I32)
    Unsupported: "l.weight_packed": codes of x (config.json) in a packing that is not supported (weight_packed I32, weight_scale F16): packed weights must have two dimensions, l.weight_scale F16 [2, 1]
    Unsupported: "l.weight_packed": codes of x (config.json) in a packing that is not supported (weight_packed I32, weight_scale F16): packed weights [2, 4], but scales [3, 1], l.weight_scale F16 [3, 1]
    Unsupported: "l.weight_packed": codes of x (config.json) in a packing that is not supported (weight_packed I32, weight_scale F16): packed weights [2, 4], but scales [2, 0], l.weight_scale F16 [2, 0]
    Unsupported: "l.weight_packed": codes of x (config.json) in a packing that is not supported (weight_packed I32, weight_scale F16): the description is missing, l.weight_scale F16 [2, 1]
    l.weight HF_NVFP4 [2, 32]
    Unsupported: "l.weight_packed": codes of x (config.json) in a packing that is not supported (weight_packed U8, weight_scale F8_E4M3): codes [2, 16] and scales [2, 1], each for 16 codes, l.weight_scale F8_E4M3 [2, 1]
    l.weight HF_MXFP4 [2, 32]
    Unsupported: "l.weight_packed": codes of x (config.json) in a packing that is not supported (weight_packed U8, weight_scale U8): codes [2, 16] and scales [2, 2], each for 32 codes, l.weight_scale U8 [2, 2]
    Unsupported: "l.weight_packed": codes of x (config.json) in a packing that is not supported (weight_packed U8, weight_scale F16), l.weight_scale F16 [2, 2]
    "#);
}

#[test]
fn blocks_of_gpt_oss() {
    assert_snapshot!(all(&[
        &[("l.w_blocks", "U8", &[2, 3, 1, 16]), ("l.w_scales", "U8", &[2, 3, 1])],
        &[("l.w_blocks", "U8", &[2, 3, 1, 16])],
        &[("l.w_blocks", "U8", &[2, 3, 1, 15]), ("l.w_scales", "U8", &[2, 3, 1])],
        &[("l.w_blocks", "I8", &[2, 3, 1, 16]), ("l.w_scales", "U8", &[2, 3, 1])],
        &[("l.w_blocks", "U8", &[2, 3, 1, 16]), ("l.w_scales", "U8", &[2, 3, 2])],
        &[("l.w_blocks", "U8", &[16]), ("l.w_scales", "U8", &[])],
    ]), @r#"
    l.w HF_MXFP4 [2, 3, 32]
    Unsupported: "l.w_blocks": codes of x (config.json) in a packing that is not supported (w_blocks U8)
    Unsupported: "l.w_blocks": codes of x (config.json) in a packing that is not supported (w_blocks U8, w_scales U8), l.w_scales U8 [2, 3, 1]
    Unsupported: "l.w_blocks": codes of x (config.json) in a packing that is not supported (w_blocks I8, w_scales U8): blocks [2, 3, 1, 16] and scales [2, 3, 1], l.w_scales U8 [2, 3, 1]
    Unsupported: "l.w_blocks": codes of x (config.json) in a packing that is not supported (w_blocks U8, w_scales U8): blocks [2, 3, 1, 16] and scales [2, 3, 2], l.w_scales U8 [2, 3, 2]
    Unsupported: "l.w_blocks": codes of x (config.json) in a packing that is not supported (w_blocks U8, w_scales U8), l.w_scales U8 []
    "#);
}

#[test]
fn bitsandbytes() {
    let stated = |state: &str| {
        let arrays = file(&[
            ("l.weight", "U8", &[16, 1]),
            ("l.weight.absmax", "F32", &[1]),
            ("l.weight.quant_map", "F32", &[16]),
        ]);
        let name = "l.weight.quant_state.bitsandbytes__fp4";
        opened(&arrays.tensor(name, "U8", &[state.len() as u64], state))
    };
    assert_snapshot!([
        r#"{"shape": [2, 16], "blocksize": 64}"#,
        r#"{"blocksize": 64}"#,
        r#"{"shape": [], "blocksize": 64}"#,
        r#"{"shape": [2, 18], "blocksize": 64}"#,
        r#"{"shape": [1, 1, 1, 1, 1, 1, 1, 32], "blocksize": 64}"#,
        r#"{"shape": [1, 1, 1, 1, 1, 1, 1, 1, 32], "blocksize": 64}"#,
        r#"{"shape": [4294967296, 4294967296], "blocksize": 64}"#,
        "shape",
    ].map(stated).join("\n"), @r#"
    l.weight BNB_FP4 [2, 16]
    Unsupported: "l.weight": codes of x (config.json) in a packing that is not supported (weight U8, weight.absmax F32): quant_state gives the shape [], but the packed weight [16, 1], l.weight.absmax F32 [1], l.weight.quant_map F32 [16], l.weight.quant_state.bitsandbytes__fp4 U8 [17]
    Unsupported: "l.weight": codes of x (config.json) in a packing that is not supported (weight U8, weight.absmax F32): quant_state gives the shape [], but the packed weight [16, 1], l.weight.absmax F32 [1], l.weight.quant_map F32 [16], l.weight.quant_state.bitsandbytes__fp4 U8 [30]
    Unsupported: "l.weight": codes of x (config.json) in a packing that is not supported (weight U8, weight.absmax F32): quant_state gives the shape [2, 18], but the packed weight [16, 1], l.weight.absmax F32 [1], l.weight.quant_map F32 [16], l.weight.quant_state.bitsandbytes__fp4 U8 [35]
    l.weight BNB_FP4 [1, 1, 1, 1, 1, 1, 1, 32]
    Unsupported: "l.weight": codes of x (config.json) in a packing that is not supported (weight U8, weight.absmax F32): quant_state gives the shape [1, 1, 1, 1, 1, 1, 1, 1, 32], but the packed weight [16, 1], l.weight.absmax F32 [1], l.weight.quant_map F32 [16], l.weight.quant_state.bitsandbytes__fp4 U8 [56]
    Unsupported: "l.weight": codes of x (config.json) in a packing that is not supported (weight U8, weight.absmax F32): quant_state gives the shape [4294967296, 4294967296], but the packed weight [16, 1], l.weight.absmax F32 [1], l.weight.quant_map F32 [16], l.weight.quant_state.bitsandbytes__fp4 U8 [52]
    Malformed: "l.weight": not valid JSON: a value expected here, found 's' at line 1 column 1
    help: correct the file or fetch it again
    "#);
    assert_snapshot!(all(&[
        &[("l.weight", "I8", &[2, 3]), ("l.SCB", "F32", &[2])],
        &[("l.weight", "I8", &[2, 3]), ("l.SCB", "F32", &[3])],
        &[("l.weight", "I8", &[2, 3]), ("l.SCB", "I32", &[2])],
        &[("l.weight", "F16", &[2, 3]), ("l.SCB", "F32", &[2])],
    ]), @r#"
    l.weight BNB_INT8 [2, 3]
    Unsupported: "l.weight": codes of x (config.json) in a packing that is not supported (weight I8, SCB F32): weight [2, 3] and SCB [3], l.SCB F32 [3]
    Unsupported: "l.weight": codes of x (config.json) in a packing that is not supported (weight I8, SCB I32): the scale is I32, but F32 or F16 or BF16 is required, l.SCB I32 [2]
    l.weight F16 [2, 3], l.SCB F32 [2]
    "#);
}

#[test]
fn factors_of_elements() {
    assert_snapshot!(all(&[
        // ModelOpt's NVFP4.
        &[("l.weight", "U8", &[2, 16]), ("l.weight_scale", "F8_E4M3", &[2, 2]), ("l.weight_scale_2", "F32", &[])],
        &[("l.weight", "U8", &[2, 9]), ("l.weight_scale", "F8_E4M3", &[2, 1]), ("l.weight_scale_2", "F32", &[])],
        &[("l.weight", "U8", &[2, 16]), ("l.weight_scale", "F8_E4M3", &[2, 1]), ("l.weight_scale_2", "F32", &[])],
        &[("l.weight", "U8", &[2, 16]), ("l.weight_scale", "F8_E4M3", &[3, 2]), ("l.weight_scale_2", "F32", &[])],
        // A second scale beside 8-bit floats, which are not ModelOpt's.
        &[("l.weight", "F8_E4M3", &[2, 16]), ("l.weight_scale", "F32", &[]), ("l.weight_scale_2", "F32", &[])],
        &[("l.weight", "F8_E4M3", &[2, 3]), ("l.weight_scale_inv", "F32", &[1, 1])],
        &[("l.weight", "I8", &[2, 3]), ("l.weight_scale", "F32", &[2])],
        &[("l.weight", "I8", &[2, 3]), ("l.weight_scale", "F32", &[2, 3])],
        &[("l.weight", "I8", &[2, 3]), ("l.weight_scale", "F32", &[3])],
        &[("l.weight", "I8", &[2, 3]), ("l.weight_scale", "F32", &[2, 4])],
        &[("l.weight", "I8", &[2, 3]), ("l.weight_scale", "F32", &[2, 0])],
        &[("l.weight", "I8", &[2, 3]), ("l.weight_scale", "F32", &[2, 1, 1])],
        &[("l.weight", "F16", &[2, 3]), ("l.weight_scale", "F32", &[2, 1])],
    ]), @r#"
    l.weight HF_NVFP4 [2, 32]
    Unsupported: "l.weight": codes of x (config.json) in a packing that is not supported (weight U8, weight_scale F8_E4M3, weight_scale_2 F32): codes [2, 9] and scales [2, 1], each for 16 codes, l.weight_scale F8_E4M3 [2, 1], l.weight_scale_2 F32 []
    Unsupported: "l.weight": codes of x (config.json) in a packing that is not supported (weight U8, weight_scale F8_E4M3, weight_scale_2 F32): codes [2, 16] and scales [2, 1], each for 16 codes, l.weight_scale F8_E4M3 [2, 1], l.weight_scale_2 F32 []
    Unsupported: "l.weight": codes of x (config.json) in a packing that is not supported (weight U8, weight_scale F8_E4M3, weight_scale_2 F32): codes [2, 16] and scales [3, 2], each for 16 codes, l.weight_scale F8_E4M3 [3, 2], l.weight_scale_2 F32 []
    Unsupported: "l.weight": weight_scale_2 F32 of x (config.json) is no known part of it, l.weight_scale_2 F32 []
    l.weight SCALED_F8_E4M3 [2, 3]
    l.weight SCALED_I8 [2, 3]
    l.weight SCALED_I8 [2, 3]
    Unsupported: "l.weight": codes of x (config.json) in a packing that is not supported (weight I8, weight_scale F32): weight [2, 3] and scale [3], l.weight_scale F32 [3]
    Unsupported: "l.weight": codes of x (config.json) in a packing that is not supported (weight I8, weight_scale F32): weight [2, 3] and scale [2, 4], l.weight_scale F32 [2, 4]
    Unsupported: "l.weight": codes of x (config.json) in a packing that is not supported (weight I8, weight_scale F32): weight [2, 3] and scale [2, 0], l.weight_scale F32 [2, 0]
    Unsupported: "l.weight": codes of x (config.json) in a packing that is not supported (weight I8, weight_scale F32): weight [2, 3] and scale [2, 1, 1], l.weight_scale F32 [2, 1, 1]
    l.weight F16 [2, 3], l.weight_scale F32 [2, 1]
    "#);
}

/// Without a config that states a scheme, arrays are what their dtypes say.
#[test]
fn nothing_is_joined_unless_the_config_states_it() {
    let arrays = file(&[("l.weight", "I8", &[2, 3]), ("l.weight_scale", "F32", &[2, 1])]);
    for (name, config, joined) in [
        ("config.json", r#"{"quantization_config": {}}"#, true),
        ("config.json", r#"{"compression_config": {}}"#, true),
        ("config.json", r#"{"text_config": {"quantization_config": {}}}"#, true),
        ("config.json", r#"{"vision_config": {"quantization_config": {}}}"#, false),
        ("config.json", "{}", false),
        ("hf_quant_config.json", "{}", true),
        ("quantize_config.json", "{}", true),
        ("other.json", r#"{"quantization_config": {}}"#, false),
    ] {
        let files = [("model.safetensors", arrays.build()), (name, config.into())];
        let folder = folder(&files);
        let model = Model::open(folder.path()).expect("a model");
        assert_eq!(model.len(), if joined { 1 } else { 2 }, "{name} {config}");
    }
}

/// ModelSlim describes its codes in a document of its own. They have offsets besides scales.
#[test]
fn codes_of_model_slim_are_named() {
    let arrays = file(&[
        ("l.weight", "I8", &[2, 3]),
        ("l.weight_scale", "F32", &[2, 1]),
        ("l.weight_offset", "F32", &[2, 1]),
    ]);
    let stated = ("quant_model_description.json", r#"{"model_quant_type": "W8A8"}"#.into());
    let folder = folder(&[("model.safetensors", arrays.build()), stated]);
    let model = Model::open(folder.path()).expect("a model");
    let error = model.stored_tensor("l.weight").expect("a tensor").dequantize().unwrap_err();
    assert!(error.to_string().contains("ModelSlim's scheme W8A8"), "{error}");
}

/// So does QuIP#, in `config.json`.
#[test]
fn codes_of_quip_are_named() {
    let arrays =
        file(&[("l.Qidxs", "I16", &[2, 3]), ("l.SU", "F16", &[24]), ("l.SV", "F16", &[2])]);
    let stated = ("config.json", r#"{"quip_params": {"codebook": "E8P12"}}"#.into());
    let folder = folder(&[("model.safetensors", arrays.build()), stated]);
    let model = Model::open(folder.path()).expect("a model");
    let error = model.stored_tensor("l.Qidxs").expect("a tensor").dequantize().unwrap_err();
    assert!(error.to_string().contains("codes of QuIP# (quip_params in config.json)"), "{error}");
}

/// GPTQ's second format stores zero points as they are.
#[test]
fn the_format_of_gptq() {
    let arrays = file(&[
        ("l.qweight", "I32", &[4, 8]),
        ("l.scales", "F16", &[2, 8]),
        ("l.qzeros", "I32", &[2, 1]),
    ]);
    for (name, config, dtype) in [
        ("quantize_config.json", r#"{"checkpoint_format": "gptq_v2"}"#, DType::GPTQ4_V2),
        ("quantize_config.json", r#"{"checkpoint_format": "gptq"}"#, DType::GPTQ4),
        (
            "config.json",
            r#"{"quantization_config": {"checkpoint_format": "gptq_v2"}}"#,
            DType::GPTQ4_V2,
        ),
        ("config.json", r#"{"quantization_config": {"checkpoint_format": "gptq"}}"#, DType::GPTQ4),
        ("config.json", r#"{"quantization_config": {}}"#, DType::GPTQ4),
    ] {
        let files = [("model.safetensors", arrays.build()), (name, config.into())];
        let folder = folder(&files);
        let model = Model::open(folder.path()).expect("a model");
        let tensor = model.stored_tensor("l.weight").expect("a tensor");
        assert_eq!(tensor.dtype().expect("a dtype"), dtype, "{name} {config}");
    }
}

/// Symmetric checkpoints have the middle of the codes as zero point, whichever format is named.
#[test]
fn zero_points_in_the_middle_are_stored_whole() {
    for (bits, middle, config, dtype) in [
        (4, 0x88, r#""sym": true"#, DType::GPTQ4_V2),
        (4, 0x77, r#""sym": true"#, DType::GPTQ4),
        (4, 0x88, r#""sym": false"#, DType::GPTQ4),
        (8, 0x80, r#""sym": true"#, DType::GPTQ8_V2),
        (8, 0x7f, r#""sym": true"#, DType::GPTQ8),
    ] {
        let (rows, words) = (bits as u64, 8 * bits as u64 / 32);
        let file = Safetensors::new()
            .tensor("l.qweight", "I32", &[rows, 8], vec![0; rows as usize * 32])
            .tensor("l.scales", "F16", &[2, 8], vec![0; 32])
            .tensor("l.qzeros", "I32", &[2, words], vec![middle; words as usize * 8]);
        let config = format!(
            r#"{{"quantization_config": {{"quant_method": "gptq", "bits": {bits}, "checkpoint_format": "gptq", {config}}}}}"#
        );
        let folder =
            folder(&[("model.safetensors", file.build()), ("config.json", config.into_bytes())]);
        let model = Model::open(folder.path()).expect("a model");
        let tensor = model.stored_tensor("l.weight").expect("a tensor");
        assert_eq!(tensor.dtype().expect("a dtype"), dtype, "{bits} {middle:x}");
    }
}

/// The name of the joined tensor is that of the unquantized checkpoint, which also has it here.
#[test]
fn a_tensor_is_stored_in_one_form() {
    let gptq: Arrays<'_> = &[
        ("l.qweight", "I32", &[4, 8]),
        ("l.scales", "F16", &[2, 8]),
        ("l.qzeros", "I32", &[2, 1]),
        ("l.weight", "F16", &[8, 32]),
    ];
    let text = opened(&file(gptq));
    let fault = "\"l.qweight\": the array and \"l.weight\" belong to the same tensor";
    assert!(text.contains(fault), "{text}");
    let [rest @ .., plain] = gptq else { panic!("four arrays") };
    let apart = [rest, &[("k.weight", plain.1, plain.2)]].concat();
    assert_eq!(opened(&file(&apart)), "l.weight GPTQ4 [8, 32], k.weight F16 [8, 32]");
}
