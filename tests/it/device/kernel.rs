//! The facts that kernels get about tensors of checkpoints' schemes.

use std::sync::Arc;

use weighbridge::device::kernel::{KernelTensor, Operation, Parameters};
use weighbridge::device::{Cpu, Device};
use weighbridge::load::LoadedTensor;
use weighbridge::{DType, ErrorKind, Model, OpenOptions, Part, WeightProvider};

use crate::device::host::Host;
use crate::support::{Gguf, Safetensors, f32s, folder};

/// A scheme's matrix, loaded tightly packed.
fn loaded<D: Device + Clone>(method: &str, file: &Safetensors, device: D) -> (D, LoadedTensor<D>) {
    let config = format!(r#"{{"quantization_config": {{"quant_method": "{method}"}}}}"#);
    let folder =
        folder(&[("config.json", config.into_bytes()), ("model.safetensors", file.build())]);
    let model = Model::open(folder.path()).expect("a model");
    let provider = WeightProvider::new(model, device).expect("a provider").tightly_packed();
    let tensor = provider.load("l.weight").expect("a matrix");
    provider.unload_all();
    (provider.device().clone(), Arc::into_inner(tensor).expect("no other handle"))
}

fn kernel(method: &str, file: &Safetensors) -> Option<KernelTensor> {
    let (device, tensor) = loaded(method, file, Cpu);
    tensor.kernel_tensor(&device)
}

/// The parameters of the only window of all rows.
fn parameters(method: &str, file: &Safetensors) -> Parameters {
    let tensor = kernel(method, file).expect("a kernel");
    let windows = tensor.windows(Operation::MatrixVector, 0..tensor.rows).expect("windows");
    assert_eq!(windows.len(), 1);
    windows[0].parameters
}

/// 8 outputs of 32 inputs, in two groups.
fn gptq(zeros: &str) -> Safetensors {
    Safetensors::new()
        .tensor("l.qweight", "I32", &[4, 8], [0x21; 128])
        .tensor("l.qzeros", zeros, &[2, 1], [0x77; 8])
        .tensor("l.scales", "F16", &[2, 8], [0, 0x3c].repeat(16))
}

#[test]
fn zero_points_are_found_and_parts_that_are_missing_are_not() {
    let all = parameters("gptq", &gptq("I32"));
    assert_eq!((all.columns, all.groups, all.group_size, all.zero_words), (32, 2, 16, 1));
    // The zero points follow the codes and the scales; the binding starts at a multiple of 64.
    assert_eq!((all.zero_at, all.bias_at), (32, 32));
    assert_eq!([all.index_at, all.values_at, all.nested_at, all.nested_values_at], [u32::MAX; 4]);
    // Words without a sign are not what the kernel reads.
    assert!(kernel("gptq", &gptq("U32")).is_none());
}

#[test]
fn codes_and_zero_points_of_awq_are_packed_alike() {
    let file = Safetensors::new()
        .tensor("l.qweight", "I32", &[32, 1], [0x21; 128])
        .tensor("l.qzeros", "I32", &[2, 1], [0x77; 8])
        .tensor("l.scales", "F16", &[2, 8], [0, 0x3c].repeat(16));
    let (device, mut tensor) = loaded("awq", &file, Cpu);
    assert!(tensor.kernel_tensor(&device).is_some());
    let zeros = tensor.parts.iter_mut().find(|part| part.part == Part::ZeroPoint);
    zeros.expect("zero points").shape = vec![1, 2];
    assert!(tensor.kernel_tensor(&device).is_none());
}

#[test]
fn bytes_have_zero_points_of_bytes_and_scales_of_rows() {
    let file = |scales: &[u64]| {
        let rows = scales[0] as usize;
        Safetensors::new()
            .tensor("l.weight", "I8", &[3, 8], [5; 24])
            .tensor("l.weight_scale", "F32", scales, f32s(&vec![0.5; rows]))
            .tensor("l.weight_zero_point", "I8", scales, vec![1; rows])
    };
    for (scales, row_group) in [(&[3][..], 1), (&[3, 1], 1), (&[1], 3)] {
        let all = parameters("compressed-tensors", &file(scales));
        assert_eq!((all.row_group, all.group_size, all.groups), (row_group, 8, 1), "{scales:?}");
        assert_ne!(all.zero_at, u32::MAX, "{scales:?}");
        assert_eq!(all.matrix_scales, 0);
    }
}

#[test]
fn each_matrix_has_scales_of_its_own() {
    let file = Safetensors::new().tensor("l.weight", "F8_E4M3", &[3, 4, 8], [0x38; 96]).tensor(
        "l.weight_scale_inv",
        "F32",
        &[3, 2, 2],
        f32s(&[0.5; 12]),
    );
    let all = parameters("fp8", &file);
    assert_eq!((all.outputs, all.groups, all.group_size, all.row_group), (4, 2, 4, 2));
    assert_eq!(all.matrix_scales, 4);
}

#[test]
fn a_part_without_rows_is_bound_as_a_whole() {
    let windows = |binding| {
        let device = Arc::new(Host::binding(binding));
        let (device, tensor) = loaded("gptq", &gptq("I32"), device);
        let tensor = tensor.kernel_tensor(&device).expect("a kernel");
        tensor.windows(Operation::MatrixVector, 0..8).map(|windows| windows.len())
    };
    assert_eq!(windows(128).expect("room for the codes"), 1);
    let error = windows(124).expect_err("no room for the codes");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(error.to_string(), "a part of 128 bytes cannot be divided between rows");
}

/// The kind of a tensor's global scale: none, a factor (GGUF), or the largest magnitude (MLX).
#[test]
fn global_scales_are_told_by_their_kind() {
    let global = |model: &Model| {
        let provider = WeightProvider::new(model.clone(), Cpu).expect("a provider");
        let tensor = provider.load("t.weight").expect("a matrix");
        assert_eq!(tensor.computed, None);
        let tensor = tensor.kernel_tensor(provider.device()).expect("a kernel");
        let windows = tensor.windows(Operation::MatrixVector, 0..tensor.rows).expect("windows");
        windows[0].parameters.global_kind
    };
    let ggml = |file: Gguf| {
        let bytes = DType::NVFP4.tensor_bytes(&[2, 64]).expect("a size");
        let file = file.tensor("t.weight", DType::NVFP4, &[2, 64], vec![0; bytes as usize]);
        OpenOptions::new().open_memory("file", file.build()).expect("a model")
    };
    assert_eq!(global(&ggml(Gguf::new())), 0);
    assert_eq!(global(&ggml(Gguf::new().tensor("t.scale", DType::F32, &[1], f32s(&[2.0])))), 1);

    let config =
        r#"{"model_type":"llama","quantization":{"bits":4,"group_size":16,"mode":"nvfp4"}}"#;
    let mlx = |file: Safetensors| {
        let file = file
            .tensor("t.weight", "U32", &[2, 8], [0; 64])
            .tensor("t.scales", "U8", &[2, 4], [0; 8])
            .build();
        folder(&[("config.json", config.into()), ("model.safetensors", file)])
    };
    let plain = mlx(Safetensors::new());
    assert_eq!(global(&Model::open(plain.path()).expect("a model")), 0);
    let scaled = mlx(Safetensors::new().tensor("t.global_scale", "F32", &[1], f32s(&[2.0])));
    assert_eq!(global(&Model::open(scaled.path()).expect("a model")), 2);
}

/// Rows of F16 with an odd number of elements share words of the output with their neighbours.
#[test]
fn rows_that_share_a_word_are_in_one_window() {
    let file = Gguf::new().tensor("t.weight", DType::F16, &[64, 5], vec![0; 640]).build();
    let model = OpenOptions::new().open_memory("file", file).expect("a model");
    let device = Arc::new(Host::binding(472));
    let provider = WeightProvider::new(model, Arc::clone(&device)).expect("a provider");
    let tensor = provider.load("t.weight").expect("a matrix");
    let tensor = tensor.kernel_tensor(&device).expect("a kernel");
    let rows = |operation| -> Vec<_> {
        let windows = tensor.windows(operation, 0..64).expect("windows");
        windows.into_iter().map(|window| window.rows).collect()
    };
    assert_eq!(rows(Operation::MatrixVector), [0..39, 39..64]);
    assert_eq!(rows(Operation::DequantizeF16), [0..38, 38..64]);
}
