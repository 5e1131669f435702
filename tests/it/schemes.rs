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

/// The error of a checkpoint, or the names and dtypes of its tensors.
fn opened(file: &Safetensors) -> String {
    let config = r#"{"model_type": "llama", "quantization_config": {"quant_method": "x"}}"#;
    let folder = folder(&[("config.json", config.into()), ("model.safetensors", file.build())]);
    let said = match Model::open(folder.path()) {
        Err(error) => told(&error),
        Ok(model) => {
            let tensor = |tensor: weighbridge::Tensor| {
                let dtype = tensor.dtype().expect("a known dtype");
                format!("{} {dtype} {:?}", tensor.name(), tensor.shape())
            };
            model.stored_tensors().map(tensor).collect::<Vec<_>>().join(", ")
        }
    };
    without_path(&said, folder.path()).replace("./model.safetensors: tensor ", "")
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
    Malformed: "l.qweight": the scale is missing (the array whose name ends in .scales)
    help: fetch the files of the model again
    Malformed: "l.qweight": the zero_point is missing (the array whose name ends in .qzeros)
    help: fetch the files of the model again
    Malformed: "l.qweight": weight, scales and zero points must have two dimensions
    help: the parts do not match: fetch the model's files again
    Malformed: "l.qweight": qweight [4, 8], scales [2, 8] and qzeros [1, 1] do not fit together: 0 bits per element
    help: the parts do not match: fetch the model's files again
    Malformed: "l.qweight": qweight [4, 32], scales [2, 32] and qzeros [2, 5] do not fit together: 5 bits per element
    help: the parts do not match: fetch the model's files again
    Malformed: "l.qweight": qweight [4, 0], scales [2, 0] and qzeros [2, 1] do not fit together: 0 bits per element
    help: the parts do not match: fetch the model's files again
    Malformed: "l.qweight": qweight [4, 9], scales [2, 8] and qzeros [2, 1] do not fit together
    help: the parts do not match: fetch the model's files again
    Malformed: "l.qweight": qweight [32, 2], scales [2, 8] and qzeros [2, 2] do not fit together
    help: the parts do not match: fetch the model's files again
    Malformed: "l.qweight": qweight [1, 32], scales [1, 32] and qzeros [1, 3] do not fit together
    help: the parts do not match: fetch the model's files again
    Malformed: "l.qweight": g_idx has shape [31], but there are 32 inputs
    help: the parts do not match: fetch the model's files again
    Malformed: "l.qweight": 0 groups for 32 inputs
    help: the parts do not match: fetch the model's files again
    Malformed: "l.qweight": 33 groups for 32 inputs
    help: the parts do not match: fetch the model's files again
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
    Malformed: "l.weight_packed": weight_shape holds 1 numbers, not 2
    help: the parts do not match: fetch the model's files again
    Malformed: "l.weight_packed": weight_shape [3, 32] does not fit weight_packed [2, 4] at 4 or 8 bits
    help: the parts do not match: fetch the model's files again
    Malformed: "l.weight_packed": weight_shape [2, 24] does not fit weight_packed [2, 4] at 4 or 8 bits
    help: the parts do not match: fetch the model's files again
    Malformed: "l.weight_packed": weight_shape [2, 18446744073709551615] does not fit weight_packed [2, 4] at 4 or 8 bits
    help: the parts do not match: fetch the model's files again
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
    Malformed: "l.weight_packed": the scale is missing (the array whose name ends in .weight_scale)
    help: fetch the files of the model again
    Malformed: "l.weight_packed": weight_packed and weight_scale must have two dimensions
    help: the parts do not match: fetch the model's files again
    Malformed: "l.weight_packed": weight_packed has 2 rows, but weight_scale [3, 1]
    help: the parts do not match: fetch the model's files again
    Malformed: "l.weight_packed": weight_packed has 2 rows, but weight_scale [2, 0]
    help: the parts do not match: fetch the model's files again
    Malformed: "l.weight_packed": weight_shape is missing
    help: the parts do not match: fetch the model's files again
    l.weight HF_NVFP4 [2, 32]
    Malformed: "l.weight_packed": 32 columns, but 1 scales, each for 16
    help: the parts do not match: fetch the model's files again
    l.weight HF_MXFP4 [2, 32]
    Malformed: "l.weight_packed": 32 columns, but 2 scales, each for 32
    help: the parts do not match: fetch the model's files again
    l.weight_packed U8 [2, 16], l.weight_scale F16 [2, 2]
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
    Malformed: "l.w_blocks": the scale is missing (the array whose name ends in _scales)
    help: fetch the files of the model again
    l.w_blocks U8 [2, 3, 1, 15], l.w_scales U8 [2, 3, 1]
    Malformed: "l.w_blocks": blocks [2, 3, 1, 16] and scales [2, 3, 1]
    help: the parts do not match: fetch the model's files again
    Malformed: "l.w_blocks": blocks [2, 3, 1, 16] and scales [2, 3, 2]
    help: the parts do not match: fetch the model's files again
    l.w_blocks U8 [16], l.w_scales U8 []
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
    Malformed: "l.weight": quant_state gives the shape [], but the packed weight [16, 1]
    help: the parts do not match: fetch the model's files again
    Malformed: "l.weight": quant_state gives the shape [], but the packed weight [16, 1]
    help: the parts do not match: fetch the model's files again
    Malformed: "l.weight": quant_state gives the shape [2, 18], but the packed weight [16, 1]
    help: the parts do not match: fetch the model's files again
    l.weight BNB_FP4 [1, 1, 1, 1, 1, 1, 1, 32]
    Malformed: "l.weight": quant_state gives the shape [1, 1, 1, 1, 1, 1, 1, 1, 32], but the packed weight [16, 1]
    help: the parts do not match: fetch the model's files again
    Malformed: "l.weight": quant_state gives the shape [4294967296, 4294967296], but the packed weight [16, 1]
    help: the parts do not match: fetch the model's files again
    Malformed: "l.weight": not valid JSON: expected value at line 1 column 1
    help: correct the file or fetch it again
    "#);
    assert_snapshot!(all(&[
        &[("l.weight", "I8", &[2, 3]), ("l.SCB", "F32", &[2])],
        &[("l.weight", "I8", &[2, 3]), ("l.SCB", "F32", &[3])],
        &[("l.weight", "I8", &[2, 3]), ("l.SCB", "I32", &[2])],
        &[("l.weight", "F16", &[2, 3]), ("l.SCB", "F32", &[2])],
    ]), @r#"
    l.weight BNB_INT8 [2, 3]
    Malformed: "l.weight": weight [2, 3] and SCB [3]
    help: the parts do not match: fetch the model's files again
    Unsupported: "l.weight": the scale is I32, but F32 or F16 or BF16 is required
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
    Malformed: "l.weight": weight [2, 9] and weight_scale [2, 1]
    help: the parts do not match: fetch the model's files again
    Malformed: "l.weight": weight [2, 16] and weight_scale [2, 1]
    help: the parts do not match: fetch the model's files again
    Malformed: "l.weight": weight [2, 16] and weight_scale [3, 2]
    help: the parts do not match: fetch the model's files again
    l.weight SCALED_F8_E4M3 [2, 16], l.weight_scale_2 F32 []
    l.weight SCALED_F8_E4M3 [2, 3]
    l.weight SCALED_I8 [2, 3]
    l.weight SCALED_I8 [2, 3]
    Malformed: "l.weight": weight [2, 3] and scale [3]
    help: the parts do not match: fetch the model's files again
    Malformed: "l.weight": weight [2, 3] and scale [2, 4]
    help: the parts do not match: fetch the model's files again
    Malformed: "l.weight": weight [2, 3] and scale [2, 0]
    help: the parts do not match: fetch the model's files again
    Malformed: "l.weight": weight [2, 3] and scale [2, 1, 1]
    help: the parts do not match: fetch the model's files again
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
