//! Weights in the memory of a GPU, and the kernels. Without a GPU the tests are skipped by name;
//! with `WEIGHBRIDGE_REQUIRE_GPU=1` they fail. Mesa's software driver suffices.
#![allow(
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    reason = "the sizes are the tests' own"
)]

#[path = "../../../tests/support/mod.rs"]
#[allow(unreachable_pub, reason = "shared with other tests")]
mod support;

use std::ops::ControlFlow;
use std::sync::Arc;

use support::{Gguf, Safetensors, f32s, fixture, folder, root};
use weighbridge::device::Device as _;
use weighbridge::device::kernel::{Exactness, KERNELS, Operation, WIDTH};
use weighbridge::load::{Fusion, LoadedTensor};
use weighbridge::{
    DType, ErrorKind, LoadOptions, Model, OpenOptions, Part, Policy, WeightProvider,
};
use weighbridge_gpu::{ChosenExperts, Gpu, KernelCall};

/// The GPU, or `None` after a line that names the skipped test.
fn gpu(test: &str) -> Option<Gpu> {
    match Gpu::open(None) {
        Ok(gpu) => Some(gpu),
        Err(error) if std::env::var_os("WEIGHBRIDGE_REQUIRE_GPU").is_some() => {
            panic!("{test}: {error}")
        }
        Err(error) => {
            eprintln!("skipped: {test}: {error}");
            None
        }
    }
}

/// Random bytes; the same for the same seed.
fn random(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Random numbers between -1 and 1.
fn numbers(seed: u64, len: usize) -> Vec<f32> {
    let bytes = random(seed, 4 * len);
    let number = |bytes: &[u8; 4]| (u32::from_le_bytes(*bytes) >> 8) as f32 / 8_388_608.0 - 1.0;
    bytes.as_chunks().0.iter().map(number).collect()
}

/// Random numbers of 24 bits between 2^-40 and 2^40.
fn normal(seed: u64, len: usize) -> Vec<f32> {
    let exponents = random(!seed, len).into_iter().map(|byte| i32::from(byte) * 80 / 255 - 40);
    let number = |(number, exponent)| (1.0 + f32::abs(number)) * 2f32.powi(exponent);
    numbers(seed, len).into_iter().zip(exponents).map(number).collect()
}

fn buffer(gpu: &Gpu, bytes: u64, contents: &[u8]) -> wgpu::Buffer {
    let buffer = gpu.wgpu_device().create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: bytes.max(1).next_multiple_of(WIDTH),
        usage: wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::COPY_SRC
            | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    if !contents.is_empty() {
        gpu.wgpu_queue().write_buffer(&buffer, 0, contents);
    }
    buffer
}

fn read(gpu: &Gpu, from: &wgpu::Buffer) -> Vec<u8> {
    let size = from.size();
    let staging = gpu.wgpu_device().create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size,
        usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    let mut commands = gpu.wgpu_device().create_command_encoder(&Default::default());
    commands.copy_buffer_to_buffer(from, 0, &staging, 0, size);
    gpu.wgpu_queue().submit([commands.finish()]);
    staging.slice(..).map_async(wgpu::MapMode::Read, |result| result.unwrap());
    gpu.finish().unwrap();
    staging.slice(..).get_mapped_range().unwrap().to_vec()
}

/// The output of an operation on all rows.
fn compute(
    gpu: &Gpu,
    loaded: &LoadedTensor<Arc<Gpu>>,
    device: &Arc<Gpu>,
    operation: Operation,
    input: &[u8],
    count: u32,
) -> Vec<u8> {
    let tensor = loaded.kernel_tensor(device).expect("a kernel");
    let (rows, count_of) = (tensor.rows, u64::from(count));
    let elements = match operation {
        Operation::GetRows => count_of * tensor.columns,
        Operation::MatrixVector | Operation::MatrixMatrix => rows * count_of,
        Operation::ExpertVectors => panic!("see experts"),
        _ => rows * tensor.columns,
    };
    let bytes = elements * operation.output_bytes();
    let output = buffer(gpu, bytes, &[]);
    let input = buffer(gpu, input.len() as u64, input);
    let call = KernelCall { operation, count, input: Some(&input), output: &output, experts: None };
    gpu.compute(&tensor, &loaded.buffer, call).expect("it runs");
    let mut out = read(gpu, &output);
    out.truncate(bytes as usize);
    out
}

/// The products of the vectors in `x` with the matrices of some experts, each of so many rows.
fn experts(
    gpu: &Gpu,
    loaded: &LoadedTensor<Arc<Gpu>>,
    device: &Arc<Gpu>,
    x: &[f32],
    chosen: &[u32],
    [rows, per_vector]: [u32; 2],
) -> Vec<f32> {
    let tensor = loaded.kernel_tensor(device).expect("a kernel");
    let output = buffer(gpu, 4 * u64::from(rows) * chosen.len() as u64, &[]);
    let input = f32s(x);
    let input = buffer(gpu, input.len() as u64, &input);
    let numbers: Vec<u8> = chosen.iter().flat_map(|number| number.to_le_bytes()).collect();
    let numbers = buffer(gpu, numbers.len() as u64, &numbers);
    let experts = Some(ChosenExperts { chosen: &numbers, rows, per_vector });
    let (operation, count) = (Operation::ExpertVectors, chosen.len() as u32);
    let call = KernelCall { operation, count, input: Some(&input), output: &output, experts };
    gpu.compute(&tensor, &loaded.buffer, call).expect("it runs");
    floats(&read(gpu, &output))
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// The distance that values may have from those of the CPU. NaN equals NaN, and zeros equal each
/// other.
#[derive(Clone, Copy, PartialEq)]
enum Nearness {
    Exact,
    /// Exact, but subnormal values may be others.
    Normal,
    /// Within 1 unit in the last place.
    Within,
}

fn same(what: &str, found: &[f32], expected: &[f32], nearness: Nearness) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let small = [found, expected].into_iter().all(|value| value.abs() < f32::MIN_POSITIVE);
        let (a, b) = (found.to_bits() as i32, expected.to_bits() as i32);
        let fine = found.to_bits() == expected.to_bits()
            || (found.is_nan() && expected.is_nan())
            || (found == 0.0 && expected == 0.0)
            || (nearness != Nearness::Exact && small)
            || (nearness == Nearness::Within && a.abs_diff(b) <= 1);
        let (a, b) = (found.to_bits(), expected.to_bits());
        assert!(fine, "{what}: element {i} is {found:e} ({a:#x}), not {expected:e} ({b:#x})");
    }
}

/// Checks every operation on one tensor against the CPU.
fn check(what: &str, provider: &WeightProvider<Arc<Gpu>>, names: &[&str]) {
    let device = Arc::clone(provider.device());
    let gpu = &*device;
    let loaded = provider.fuse(names).unwrap_or_else(|error| panic!("{what}: {error}"));
    let view = provider.fused(names).expect("the tensors");
    let mut values = view.dequantize().expect("values");
    if loaded.dtype == DType::F16 {
        values.iter_mut().for_each(|value| *value = half::f16::from_f32(*value).to_f32());
    }
    let tensor = loaded.kernel_tensor(&device).unwrap_or_else(|| panic!("{what}: no kernel"));
    let (rows, columns) = (tensor.rows as usize, tensor.columns as usize);
    let globals = [Part::GlobalScale, Part::GlobalAmax, Part::GlobalDivisor];
    let is_global = globals.iter().any(|part| loaded.part(*part).is_some());
    let half_scales = loaded.part(Part::Scale).is_none_or(|part| part.dtype != DType::F32);
    let exact = match tensor.kernel.exactness {
        Exactness::Always => Nearness::Exact,
        Exactness::HalfScales if half_scales => Nearness::Exact,
        Exactness::UnlessSubnormal if is_global => Nearness::Normal,
        Exactness::UnlessSubnormal => Nearness::Exact,
        _ => Nearness::Within,
    };
    let found = floats(&compute(gpu, &loaded, &device, Operation::DequantizeF32, &[], 1));
    same(&format!("{what} f32"), &found, &values, exact);

    let found = compute(gpu, &loaded, &device, Operation::DequantizeF16, &[], 1);
    let halves = found.as_chunks().0.iter().map(|bits| half::f16::from_le_bytes(*bits).to_f32());
    let expected: Vec<f32> =
        values.iter().map(|value| half::f16::from_f32(*value).to_f32()).collect();
    if exact != Nearness::Within {
        same(&format!("{what} f16"), &halves.collect::<Vec<_>>(), &expected, Nearness::Exact);
    }

    let indices: Vec<u32> = [rows - 1, 0, rows / 2, 0].map(|row| row as u32).into();
    let bytes: Vec<u8> = indices.iter().flat_map(|index| index.to_le_bytes()).collect();
    let found = floats(&compute(gpu, &loaded, &device, Operation::GetRows, &bytes, 4));
    let expected: Vec<f32> = indices
        .iter()
        .flat_map(|&row| values[row as usize * columns..][..columns].iter().copied())
        .collect();
    same(&format!("{what} rows"), &found, &expected, exact);

    for (operation, count) in
        [(Operation::MatrixVector, 1), (Operation::MatrixMatrix, 1), (Operation::MatrixMatrix, 6)]
    {
        let x = numbers(7, columns * count);
        let found = floats(&compute(gpu, &loaded, &device, operation, &f32s(&x), count as u32));
        for (n, x) in x.chunks(columns).enumerate() {
            for row in 0..rows {
                let weights = &values[row * columns..][..columns];
                let case = format!("{what} {operation:?} row {row} vector {n}");
                is_product(&case, found[n * rows + row], weights, x);
            }
        }
    }

    // The last expert, the first and the last again, with one vector for all and with one for each.
    let of_each = if rows.is_multiple_of(2) { rows / 2 } else { 1 };
    let chosen = [rows / of_each - 1, 0, rows / of_each - 1].map(|expert| expert as u32);
    for shared in [1, 3] {
        let x = numbers(8, columns * 3 / shared);
        let sizes = [of_each, shared].map(|size| size as u32);
        let found = experts(gpu, &loaded, &device, &x, &chosen, sizes);
        for (place, expert) in chosen.iter().enumerate() {
            for row in 0..of_each {
                let weights = &values[(*expert as usize * of_each + row) * columns..][..columns];
                let x = &x[place / shared * columns..][..columns];
                let case = format!("{what} expert {expert} row {row} of {shared}");
                is_product(&case, found[place * of_each + row], weights, x);
            }
        }
    }
}

/// Checks the product of a row with a vector, within 1e-6 of the sum of magnitudes.
fn is_product(case: &str, found: f32, weights: &[f32], x: &[f32]) {
    let terms = || weights.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x));
    let (sum, size) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
    if sum.is_finite() && size < 1e37 {
        let error = (f64::from(found) - sum).abs();
        assert!(error <= 1e-6 * size + 1e-37, "{case}: {found}, not {sum} (of {size})");
    } else {
        assert!(!found.is_finite() || size >= 1e37, "{case}: {found}");
    }
}

fn data() -> Model {
    Model::open(root().join("tests/data/golden.safetensors")).expect("the golden rows")
}

/// Rows of ggml's dtypes and of plain ones: golden blocks, and random bytes, which have NaN,
/// infinities and subnormal numbers as scales.
#[test]
fn every_block_and_plain_dtype_computes_as_the_cpu() {
    let Some(gpu) = gpu("every_block_and_plain_dtype_computes_as_the_cpu") else { return };
    let gpu = Arc::new(gpu);
    let golden = data();
    let mut checked = 0;
    for (number, kernel) in KERNELS.iter().enumerate().filter(|(_, kernel)| !kernel.is_grouped()) {
        let dtype = kernel.dtype;
        let row = dtype.descriptor();
        // Short rows, and such in which every invocation has pieces and some columns are left.
        let shapes = match row.block_len {
            1 => vec![7, 1004],
            2 | 4 => vec![12],
            block => vec![u64::from(block) * if block < 256 { 37 } else { 5 }],
        };
        for columns in shapes {
            let rows = 5;
            let bytes = dtype.tensor_bytes(&[rows, columns]).expect("whole blocks") as usize;
            let mut contents = random(number as u64, bytes);
            // The golden blocks first.
            if let Ok(tensor) = golden.stored_tensor(&format!("{}.raw", row.name)) {
                let blocks = tensor.bytes(Part::Weight).expect("bytes");
                let each = dtype.row_bytes(columns).expect("a row") as usize;
                let len = blocks.len().min(each);
                contents[..len].copy_from_slice(&blocks[..len]);
                if len == each {
                    contents[each..2 * each].copy_from_slice(&blocks[..len]);
                }
                checked += 1;
            }
            let file = match row.ggml {
                Some(_) => {
                    Gguf::new().tensor("t", dtype, &[rows, columns], contents.clone()).build()
                }
                None => {
                    let label = row.safetensors.expect("a name").to_owned();
                    Safetensors::new()
                        .tensor("t", &label, &[rows, columns], contents.clone())
                        .build()
                }
            };
            let model = OpenOptions::new().open_memory("file", file).expect("a file");
            let provider = WeightProvider::new(model, Arc::clone(&gpu)).expect("a provider");
            check(row.name, &provider, &["t"]);
        }
    }
    assert!(checked >= 30, "{checked}");
}

/// MLX's golden groups, in all widths and modes, with `f16`, `bf16` and `f32` scales.
#[test]
fn every_group_dtype_computes_as_the_cpu() {
    let Some(gpu) = gpu("every_group_dtype_computes_as_the_cpu") else { return };
    let gpu = Arc::new(gpu);
    let hf = &root().join("assets/sample/mlx-4bit");
    let provider = WeightProvider::new(Model::open(hf).unwrap(), Arc::clone(&gpu)).unwrap();
    let q = "layers.0.attention.q.weight";
    check("sample", &provider, &[q]);
    for policy in [Policy::PackedF16, Policy::Keep] {
        let model = Model::open(hf).unwrap();
        let provider = WeightProvider::new(model, Arc::clone(&gpu)).unwrap();
        let provider = match policy {
            Policy::Keep => provider.policy_of(|part| match part.part {
                Part::Weight => Policy::Keep,
                _ => Policy::F32,
            }),
            other => provider.policy(other).tightly_packed(),
        };
        let names = ["q", "k", "v"].map(|part| format!("layers.1.attention.{part}.weight"));
        let loaded = provider.load(q).unwrap();
        let device = Arc::clone(provider.device());
        let scales = loaded.part(Part::Scale).unwrap().dtype;
        assert_eq!(scales, if policy == Policy::Keep { DType::F32 } else { DType::F16 });
        // Conversion of scales to f32 keeps the values; that to f16 may round them.
        if policy == Policy::Keep {
            check("f32 scales", &provider, &names.each_ref().map(String::as_str));
        } else {
            let found = floats(&compute(&gpu, &loaded, &device, Operation::DequantizeF32, &[], 1));
            let values = provider.tensor(q).unwrap().dequantize().unwrap();
            let near =
                found.iter().zip(&*values).all(|(a, b)| (a - b).abs() <= 1e-3 * (1.0 + b.abs()));
            assert!(near);
        }
    }
    let mut checked = std::collections::BTreeSet::new();
    let golden = data();
    let names: Vec<String> = golden.stored_tensors().map(|one| one.name().to_owned()).collect();
    let mut globals = 0;
    for name in names.iter().filter(|name| name.ends_with("weight")) {
        let prefix = name.strip_suffix("weight").unwrap();
        let mut file = Safetensors::new();
        for part in ["weight", "scales", "biases", "global_scale"] {
            if let Ok(tensor) = golden.stored_tensor(&format!("{prefix}{part}")) {
                let bytes = tensor.bytes(Part::Weight).expect("bytes").into_owned();
                file =
                    file.tensor(&format!("m.{part}"), &tensor.dtype_label(), tensor.shape(), bytes);
            }
        }
        let what = prefix.trim_end_matches(['.', '/']);
        let mut words = what.split('_');
        let mode = words.next().expect("a mode");
        let number = |word: Option<&str>| word.and_then(|word| word[1..].parse::<u32>().ok());
        let (bits, group) = match mode {
            "affine" => (number(words.next()), number(words.next())),
            "mxfp8" => (Some(8), Some(32)),
            "mxfp4" => (Some(4), Some(32)),
            "nvfp4" => (Some(4), Some(16)),
            _ => continue,
        };
        let (bits, group) = (bits.expect("bits"), group.expect("a group"));
        let config = format!(
            "{{\"model_type\":\"llama\",\"quantization\":{{\"bits\":{bits},\"group_size\":{group},\"mode\":\"{mode}\"}}}}"
        );
        let files = [("config.json", config.into_bytes()), ("model.safetensors", file.build())];
        let folder = folder(&files);
        let model = Model::open(folder.path()).expect("a directory");
        let provider = WeightProvider::new(model, Arc::clone(&gpu)).unwrap();
        check(what, &provider, &["m.weight"]);
        let loaded = provider.load("m.weight").unwrap();
        globals += u32::from(loaded.part(Part::GlobalAmax).is_some());
        checked.insert(loaded.dtype);
    }
    assert!(checked.len() >= 9 && globals > 0, "{checked:?} {globals}");
}

/// An array of a checkpoint: the end of its name, its dtype and its shape.
type Array = (&'static str, &'static str, &'static [u64]);

/// A checkpoint with one tensor, `t`, of random arrays.
fn checkpoint(dtype: DType, arrays: &[Array], seed: u64) -> tempfile::TempDir {
    let format = if dtype.name().ends_with("V2") { "gptq_v2" } else { "gptq" };
    let config = format!(
        "{{\"model_type\":\"llama\",\"quantization_config\":{{\"checkpoint_format\":\"{format}\"}}}}"
    );
    let mut file = Safetensors::new();
    for (number, (name, dtype, shape)) in arrays.iter().enumerate() {
        let len = shape.iter().product::<u64>() as usize;
        let width = DType::from_safetensors(dtype.as_bytes()).and_then(|dtype| dtype.row_bytes(1));
        let mut bytes = random(seed + number as u64, len * width.expect("whole bytes") as usize);
        // Three groups in any order; values and sizes that are no NaN; the shape [7, 64].
        if name.ends_with("g_idx") {
            bytes = (0..len).flat_map(|i| (i as u32 * 7 % 3).to_le_bytes()).collect();
        } else if ["absmax", "map", "SCB"].iter().any(|end| name.ends_with(end)) && *dtype == "F32"
        {
            bytes = f32s(&numbers(seed + number as u64, len));
        } else if ["weight_global_scale", "scale_2"].iter().any(|end| name.ends_with(end)) {
            bytes = f32s(&normal(seed + number as u64, len));
        } else if name.ends_with("weight_shape") {
            bytes = [7u64, 64].iter().flat_map(|side| side.to_le_bytes()).collect();
        }
        file = file.tensor(&format!("t{name}"), dtype, shape, bytes);
    }
    if let Some(kind) =
        ["nf4", "fp4"].into_iter().find(|kind| dtype.name().ends_with(&kind.to_uppercase()))
    {
        let state =
            r#"{"shape": [6, 30], "blocksize": 64, "nested_blocksize": 2, "nested_offset": 0.25}"#;
        let state = match arrays.iter().any(|(name, ..)| name.contains("nested")) {
            true => state.to_owned(),
            false => r#"{"shape": [6, 30], "blocksize": 64}"#.to_owned(),
        };
        let name = format!("t.weight.quant_state.bitsandbytes__{kind}");
        file = file.tensor(&name, "U8", &[state.len() as u64], state);
    }
    folder(&[("config.json", config.into_bytes()), ("model.safetensors", file.build())])
}

const NESTED: &[Array] = &[
    (".weight", "U8", &[90, 1]),
    (".weight.absmax", "U8", &[3]),
    (".weight.quant_map", "F32", &[16]),
    (".weight.nested_absmax", "F32", &[2]),
    (".weight.nested_quant_map", "F32", &[256]),
];

const BITSANDBYTES: &[Array] = &[
    (".weight", "U8", &[90, 1]),
    (".weight.absmax", "F32", &[3]),
    (".weight.quant_map", "F32", &[16]),
];

/// The arrays of each scheme, with random codes, scales and zero points.
#[rustfmt::skip]
const SCHEMES: &[(DType, &[Array])] = &[
    (DType::GPTQ2, &[(".qweight", "I32", &[4, 16]), (".scales", "F16", &[2, 16]), (".qzeros", "I32", &[2, 1])]),
    (DType::GPTQ2_V2, &[(".qweight", "I32", &[4, 16]), (".scales", "F16", &[2, 16]), (".qzeros", "I32", &[2, 1])]),
    (DType::GPTQ3, &[(".qweight", "I32", &[6, 32]), (".scales", "F16", &[2, 32]), (".qzeros", "I32", &[2, 3])]),
    (DType::GPTQ3_V2, &[(".qweight", "I32", &[6, 32]), (".scales", "BF16", &[1, 32]), (".qzeros", "I32", &[1, 3])]),
    (DType::GPTQ4, &[(".qweight", "I32", &[8, 24]), (".scales", "F16", &[4, 24]), (".qzeros", "I32", &[4, 3])]),
    (DType::GPTQ4, &[(".qweight", "I32", &[8, 24]), (".scales", "F16", &[3, 24]), (".qzeros", "I32", &[3, 3]), (".g_idx", "I32", &[64])]),
    (DType::GPTQ4_V2, &[(".qweight", "I32", &[8, 24]), (".scales", "F32", &[1, 24]), (".qzeros", "I32", &[1, 3])]),
    (DType::GPTQ8, &[(".qweight", "I32", &[16, 4]), (".scales", "F16", &[2, 4]), (".qzeros", "I32", &[2, 1])]),
    (DType::GPTQ8_V2, &[(".qweight", "I32", &[16, 4]), (".scales", "F16", &[2, 4]), (".qzeros", "I32", &[2, 1])]),
    (DType::AWQ4, &[(".qweight", "I32", &[64, 3]), (".scales", "F16", &[2, 24]), (".qzeros", "I32", &[2, 3])]),
    (DType::CT_INT4, &[(".weight_packed", "I32", &[7, 8]), (".weight_scale", "BF16", &[7, 2]), (".weight_shape", "I64", &[2])]),
    (DType::CT_INT4, &[(".weight_packed", "I32", &[7, 8]), (".weight_scale", "F16", &[7, 3]), (".weight_zero_point", "I32", &[1, 3]), (".weight_g_idx", "I32", &[64]), (".weight_shape", "I64", &[2])]),
    (DType::CT_INT8, &[(".weight_packed", "I32", &[7, 16]), (".weight_scale", "F16", &[7, 1]), (".weight_shape", "I64", &[2])]),
    (DType::CT_INT8, &[(".weight_packed", "I32", &[7, 16]), (".weight_scale", "F16", &[7, 2]), (".weight_zero_point", "I32", &[2, 2]), (".weight_shape", "I64", &[2])]),
    (DType::SCALED_I8, &[(".weight", "I8", &[7, 21]), (".weight_scale", "F16", &[7, 1])]),
    (DType::SCALED_I8, &[(".weight", "I8", &[7, 21]), (".weight_scale", "BF16", &[7]), (".weight_zero_point", "I8", &[7])]),
    (DType::SCALED_I8, &[(".weight", "I8", &[7, 21]), (".weight_scale", "F32", &[])]),
    (DType::SCALED_F8_E4M3, &[(".weight", "F8_E4M3", &[7, 21]), (".weight_scale", "F32", &[1])]),
    (DType::SCALED_F8_E4M3, &[(".weight", "F8_E4M3", &[7, 21]), (".weight_scale", "BF16", &[7, 1])]),
    (DType::SCALED_F8_E4M3, &[(".weight", "F8_E4M3", &[130, 260]), (".weight_scale_inv", "F32", &[2, 3])]),
    (DType::SCALED_F8_E4M3, &[(".weight", "F8_E4M3", &[2, 6, 20]), (".weight_scale", "F16", &[2, 1, 1])]),
    (DType::SCALED_F8_E4M3, &[(".weight", "F8_E4M3", &[3, 6, 20]), (".weight_scale", "F16", &[3])]),
    (DType::SCALED_F8_E4M3, &[(".weight", "F8_E4M3", &[2, 6, 20]), (".weight_scale_inv", "F16", &[2, 3, 5])]),
    (DType::HF_NVFP4, &[(".weight_packed", "U8", &[7, 24]), (".weight_scale", "F8_E4M3", &[7, 3])]),
    (DType::HF_NVFP4, &[(".weight_packed", "U8", &[7, 24]), (".weight_scale", "F8_E4M3", &[7, 3]), (".weight_global_scale", "F32", &[1])]),
    (DType::HF_NVFP4, &[(".weight_packed", "U8", &[700, 24]), (".weight_scale", "F8_E4M3", &[700, 3]), (".weight_global_scale", "F32", &[700])]),
    (DType::HF_NVFP4, &[(".weight", "U8", &[7, 24]), (".weight_scale", "F8_E4M3", &[7, 3]), (".weight_scale_2", "F32", &[])]),
    (DType::HF_NVFP4, &[(".weight", "U8", &[6, 7, 24]), (".weight_scale", "F8_E4M3", &[6, 7, 3]), (".weight_scale_2", "F32", &[6]), (".input_scale", "F32", &[6])]),
    (DType::HF_MXFP4, &[(".weight_packed", "U8", &[7, 48]), (".weight_scale", "U8", &[7, 3])]),
    (DType::BNB_NF4, BITSANDBYTES),
    (DType::BNB_NF4, NESTED),
    (DType::BNB_FP4, BITSANDBYTES),
    (DType::BNB_FP4, NESTED),
    (DType::BNB_INT8, &[(".weight", "I8", &[7, 21]), (".SCB", "F32", &[7])]),
];

#[test]
fn every_scheme_computes_as_the_cpu() {
    let Some(gpu) = gpu("every_scheme_computes_as_the_cpu") else { return };
    let gpu = Arc::new(gpu);
    for (number, (dtype, arrays)) in SCHEMES.iter().enumerate() {
        let what = format!("{number}: {dtype} {arrays:?}");
        let folder = checkpoint(*dtype, arrays, 100 * number as u64);
        for tight in [false, true] {
            let model =
                Model::open(folder.path()).unwrap_or_else(|error| panic!("{what}: {error}"));
            let provider = WeightProvider::new(model, Arc::clone(&gpu)).unwrap();
            let provider = if tight { provider.tightly_packed() } else { provider };
            let loaded = provider.load("t.weight").unwrap();
            assert_eq!((loaded.dtype, loaded.computed), (*dtype, None), "{what}");
            check(&what, &provider, &["t.weight"]);
        }
    }
    let with = |row: &&weighbridge::device::kernel::Kernel| {
        row.is_grouped() && !row.dtype.name().starts_with("MLX")
    };
    for kernel in KERNELS.iter().filter(with) {
        assert!(SCHEMES.iter().any(|(dtype, _)| *dtype == kernel.dtype), "{}", kernel.dtype);
    }
}

/// The global scales of GGUF (a factor) and of MLX (the largest magnitude): one for all, one for each
/// expert, and one for each row.
#[test]
fn every_global_scale_computes_as_the_cpu() {
    let Some(gpu) = gpu("every_global_scale_computes_as_the_cpu") else { return };
    let gpu = Arc::new(gpu);
    for (number, count) in [1, 5, 5 * 70].into_iter().enumerate() {
        let shape = [5, 70, 64];
        let bytes = DType::NVFP4.tensor_bytes(&shape).unwrap() as usize;
        let globals = f32s(&normal(number as u64, count as usize));
        let file = Gguf::new()
            .tensor("t.weight", DType::NVFP4, &shape, random(number as u64, bytes))
            .tensor("t.scale", DType::F32, &[count], globals.clone())
            .build();
        let ggml = OpenOptions::new().open_memory("file", file).unwrap();

        let config =
            r#"{"model_type":"llama","quantization":{"bits":4,"group_size":16,"mode":"nvfp4"}}"#;
        let file = Safetensors::new()
            .tensor("t.weight", "U32", &[5, 70, 8], random(number as u64, 5 * 70 * 32))
            .tensor("t.scales", "U8", &[5, 70, 4], random(9 + number as u64, 5 * 70 * 4))
            .tensor("t.global_scale", "F32", &[count], globals);
        let files = [("config.json", config.into()), ("model.safetensors", file.build())];
        let folder = folder(&files);
        let mlx = Model::open(folder.path()).unwrap();
        for (model, dtype) in [(ggml, DType::NVFP4), (mlx, DType::MLX_NVFP4)] {
            for tight in [false, true] {
                let provider = WeightProvider::new(model.clone(), Arc::clone(&gpu)).unwrap();
                let provider = if tight { provider.tightly_packed() } else { provider };
                let loaded = provider.load("t.weight").unwrap();
                assert_eq!((loaded.dtype, loaded.computed), (dtype, None));
                assert!(loaded.parts.len() > 1, "{:?}", loaded.parts);
                check(&format!("{dtype}, {count} global scales"), &provider, &["t.weight"]);
            }
        }
    }
}

/// Codes that lie in rows are used in windows of rows; others are bound as a whole.
#[test]
fn schemes_are_used_in_windows() {
    let Some(gpu) = gpu("schemes_are_used_in_windows") else { return };
    let gpu = Arc::new(gpu.limited(None, 96 << 10, 40 << 10));
    let scaled: &[Array] =
        &[(".weight", "F8_E4M3", &[300, 256]), (".weight_scale_inv", "BF16", &[3, 2])];
    let gptq: &[Array] = &[
        (".qweight", "I32", &[32, 256]),
        (".scales", "F16", &[2, 256]),
        (".qzeros", "I32", &[2, 32]),
    ];
    let nvfp4: &[Array] = &[
        (".weight_packed", "U8", &[700, 64]),
        (".weight_scale", "F8_E4M3", &[700, 8]),
        (".weight_global_scale", "F32", &[100]),
    ];
    for (dtype, arrays, windows) in
        [(DType::SCALED_F8_E4M3, scaled, 2), (DType::GPTQ4, gptq, 1), (DType::HF_NVFP4, nvfp4, 2)]
    {
        let folder = checkpoint(dtype, arrays, 1);
        let model = Model::open(folder.path()).unwrap();
        let provider = WeightProvider::new(model, Arc::clone(&gpu)).unwrap();
        let tensor = provider.load("t.weight").unwrap().kernel_tensor(provider.device()).unwrap();
        let found = tensor.windows(Operation::MatrixVector, 0..tensor.rows).unwrap().len();
        assert!(found == 1 && windows == 1 || found >= windows && windows > 1, "{dtype}: {found}");
        let rows = tensor.windows(Operation::DequantizeF32, 0..tensor.rows).unwrap().len();
        assert!(rows > 1, "{dtype}: {rows}");
        check(dtype.name(), &provider, &["t.weight"]);
    }
}

/// Codes that are packed across rows, and values of codes, that exceed a binding are decoded by the CPU, to
/// the caller's dtype or the GPU's own.
#[test]
fn codes_beyond_a_binding_are_decoded_while_loading() {
    let gptq: &[Array] = &[
        (".qweight", "I32", &[64, 256]),
        (".scales", "F16", &[2, 256]),
        (".qzeros", "I32", &[2, 32]),
    ];
    let awq: &[Array] = &[
        (".qweight", "I32", &[512, 32]),
        (".scales", "F16", &[4, 256]),
        (".qzeros", "I32", &[4, 32]),
    ];
    let cases = [
        (DType::GPTQ4, gptq, 40 << 10),
        (DType::AWQ4, awq, 40 << 10),
        (DType::BNB_NF4, NESTED, 1000),
    ];
    for (number, (dtype, arrays, binding)) in cases.into_iter().enumerate() {
        let Some(gpu) = gpu("codes_beyond_a_binding_are_decoded_while_loading") else { return };
        let gpu = Arc::new(gpu.limited(None, 96 << 10, binding));
        let folder = checkpoint(dtype, arrays, number as u64);
        for to in [None, Some(DType::F32)] {
            let model = Model::open(folder.path()).unwrap();
            let provider = WeightProvider::new(model, Arc::clone(&gpu)).unwrap();
            let provider = match to {
                Some(to) => provider.fallback(&[to]),
                None => provider,
            };
            let loaded = provider.load("t.weight").unwrap();
            let why = "the device cannot compute with its parts as they are stored";
            assert_eq!(
                (loaded.dtype, loaded.computed),
                (to.unwrap_or(DType::F16), Some(why)),
                "{dtype}"
            );
            provider.verify(&loaded).unwrap();
            check(&format!("{dtype} decoded"), &provider, &["t.weight"]);
        }
    }
}

/// Numbers of 64 bits, for which WGSL has no type, are decoded to F32.
#[test]
fn numbers_of_64_bits_are_decoded_while_loading() {
    let Some(gpu) = gpu("numbers_of_64_bits_are_decoded_while_loading") else { return };
    let gpu = Arc::new(gpu);
    let words =
        |word: fn(u64) -> u64| (0..21).flat_map(|i| word(i).to_le_bytes()).collect::<Vec<_>>();
    let file = Safetensors::new()
        .tensor("i", "I64", &[3, 7], words(|i| (i * 123_457).wrapping_neg()))
        .tensor("u", "U64", &[3, 7], words(|i| u64::MAX >> (3 * i)))
        .tensor("f", "F64", &[3, 7], words(|i| (1e10 / (1.0 + i as f64)).to_bits()))
        .build();
    let model = OpenOptions::new().open_memory("file", file).unwrap();
    let provider = WeightProvider::new(model, Arc::clone(&gpu)).unwrap();
    for name in ["i", "u", "f"] {
        let loaded = provider.load(name).unwrap();
        let why = Some("the device does not support its dtype");
        assert_eq!(
            (loaded.dtype, loaded.computed, loaded.lost.is_lossless()),
            (DType::F32, why, true)
        );
        check(name, &provider, &[name]);
    }
}

/// A fault in a tensor's parts is the same error whether values are decoded, or packed parts are loaded to the host or
/// to a GPU.
#[test]
fn parts_that_do_not_fit_are_the_same_error() {
    let Some(gpu) = gpu("parts_that_do_not_fit_are_the_same_error") else { return };
    let gpu = Arc::new(gpu);
    let arrays = |index: u32| {
        let mut groups = [0u32; 64];
        groups[5] = index;
        let groups: Vec<u8> = groups.iter().flat_map(|group| group.to_le_bytes()).collect();
        let gptq = Safetensors::new()
            .tensor("t.qweight", "I32", &[8, 24], random(1, 8 * 24 * 4))
            .tensor("t.scales", "F16", &[3, 24], random(2, 3 * 24 * 2))
            .tensor("t.qzeros", "I32", &[3, 3], random(3, 36))
            .tensor("t.g_idx", "I32", &[64], groups.clone());
        let shape: Vec<u8> = [7u64, 64].iter().flat_map(|side| side.to_le_bytes()).collect();
        let compressed = Safetensors::new()
            .tensor("t.weight_packed", "I32", &[7, 8], random(1, 7 * 8 * 4))
            .tensor("t.weight_scale", "F16", &[7, 3], random(2, 7 * 3 * 2))
            .tensor("t.weight_g_idx", "I32", &[64], groups)
            .tensor("t.weight_shape", "I64", &[2], shape);
        [gptq, compressed]
    };
    let open = |file: Safetensors| {
        let config = r#"{"model_type":"llama","quantization_config":{"quant_method":"gptq"}}"#;
        let files = [("config.json", config.into()), ("model.safetensors", file.build())];
        let folder = folder(&files);
        let model = Model::open(folder.path()).unwrap();
        (folder, model)
    };
    for file in arrays(2) {
        let (_folder, model) = open(file);
        let provider = WeightProvider::new(model, Arc::clone(&gpu)).unwrap();
        check("the last group", &provider, &["t.weight"]);
    }
    for (file, index) in [3, u32::MAX].into_iter().flat_map(|i| arrays(i).map(|file| (file, i))) {
        let (_folder, model) = open(file);
        let far = WeightProvider::new(model.clone(), Arc::clone(&gpu)).unwrap();
        let near = WeightProvider::new(model, weighbridge::device::Cpu).unwrap();
        let error = far.load("t.weight").unwrap_err();
        let text = error.to_string();
        let fault = format!("column 5 is in group {index}, but there are 3 groups");
        assert!(error.kind() == ErrorKind::Malformed && text.contains(&fault), "{text}");
        assert!(error.offset().is_some() && error.path().is_some(), "{text}");
        assert_eq!(near.load("t.weight").unwrap_err().to_string(), text);
        assert_eq!(near.tensor("t.weight").unwrap().dequantize().unwrap_err().to_string(), text);
        assert_eq!(gpu.usage(), (0, 0));
    }
    // Zero points for fewer rows than there are.
    let shape: Vec<u8> = [16u64, 64].iter().flat_map(|side| side.to_le_bytes()).collect();
    let (_folder, model) = open(
        Safetensors::new()
            .tensor("t.weight_packed", "I32", &[16, 8], random(1, 16 * 8 * 4))
            .tensor("t.weight_scale", "F16", &[16, 2], random(2, 16 * 2 * 2))
            .tensor("t.weight_zero_point", "I32", &[1, 2], random(3, 8))
            .tensor("t.weight_shape", "I64", &[2], shape),
    );
    let far = WeightProvider::new(model, Arc::clone(&gpu)).unwrap();
    let error = far.load("t.weight").unwrap_err();
    let expected = far.tensor("t.weight").unwrap().dequantize().unwrap_err();
    assert_eq!((error.kind(), error.to_string()), (ErrorKind::Malformed, expected.to_string()));
}

/// Tensors beyond a binding are used in windows of whole rows, and tensors beyond a buffer are
/// divided into several.
#[test]
fn windows_and_several_buffers_give_the_same() {
    let Some(gpu) = gpu("windows_and_several_buffers_give_the_same") else { return };
    let gpu = Arc::new(gpu.limited(None, 96 << 10, 40 << 10));
    for (number, dtype) in
        [DType::Q6_K, DType::Q8_0, DType::F32, DType::MXFP4].into_iter().enumerate()
    {
        let shape = [301, 256];
        let bytes = dtype.tensor_bytes(&shape).unwrap() as usize;
        let mut contents = random(number as u64, bytes);
        if dtype == DType::F32 {
            contents = f32s(&numbers(3, 301 * 256));
        }
        let file = Gguf::new().tensor("t", dtype, &shape, contents.clone()).build();
        let model = OpenOptions::new().open_memory("file", file).unwrap();
        let provider = WeightProvider::new(model, Arc::clone(&gpu)).unwrap();
        let loaded = provider.load("t").unwrap();
        let buffers = loaded.buffer.chunks().len();
        assert_eq!(buffers > 1, bytes > 96 << 10, "{dtype}");
        assert_eq!(loaded.read(provider.device(), Part::Weight).unwrap(), contents);
        let tensor = loaded.kernel_tensor(provider.device()).unwrap();
        let windows = tensor.windows(Operation::MatrixVector, 0..301).unwrap();
        assert!(windows.len() > 1, "{dtype} {}", windows.len());
        // A window of outputs of dequantize has at most 40 rows of f32: fewer than 128.
        let values = provider.tensor("t").unwrap().dequantize().unwrap();
        let x = numbers(9, 256);
        let found = floats(&compute(
            &gpu,
            &loaded,
            provider.device(),
            Operation::MatrixVector,
            &f32s(&x),
            1,
        ));
        for (row, (found, weights)) in found.iter().zip(values.chunks(256)).enumerate() {
            is_product(&format!("{dtype} row {row}"), *found, weights, &x);
        }
        // Seven experts of 43 rows, some of which are in two windows.
        let chosen = [6, 0, 3];
        let found = experts(&gpu, &loaded, provider.device(), &x, &chosen, [43, 3]);
        for (found, expert) in found.chunks(43).zip(chosen) {
            let weights = values[expert as usize * 43 * 256..].chunks(256);
            for (row, (found, weights)) in found.iter().zip(weights).enumerate() {
                is_product(&format!("{dtype} expert {expert} row {row}"), *found, weights, &x);
            }
        }
        let found = compute(&gpu, &loaded, provider.device(), Operation::DequantizeF16, &[], 1);
        let first = half::f16::from_le_bytes([found[0], found[1]]).to_f32();
        let expected = half::f16::from_f32(values[0]).to_f32();
        assert!(first == expected || first.is_nan() && expected.is_nan(), "{dtype}");
    }
}

/// Tensors that are stored as the GPU uses them are the file's own memory, where the driver imports that.
#[test]
fn mapped_files_are_used_where_they_are() {
    let Some(gpu) = gpu("mapped_files_are_used_where_they_are") else { return };
    let (rows, columns) = (301, 256);
    let bytes = DType::Q8_0.tensor_bytes(&[rows, columns]).unwrap() as usize;
    let contents = [random(1, bytes), random(2, bytes), random(3, bytes)];
    let mut file = Gguf::new();
    for (name, contents) in ["a", "b", "c"].iter().zip(&contents) {
        file = file.tensor(name, DType::Q8_0, &[rows, columns], contents.clone());
    }
    let small = f32s(&numbers(1, 7));
    let file = file.tensor("small", DType::F32, &[7], small.clone()).build();
    let folder = folder(&[("model.gguf", file)]);
    let path = folder.path().join("model.gguf");
    let copying = Arc::new(Gpu::open(None).unwrap().without_import());
    let gpu = Arc::new(gpu);
    let imports = gpu.limits().import.is_some();
    for (device, maps, wanted) in
        [(&gpu, true, imports), (&gpu, false, false), (&copying, true, false)]
    {
        let options = OpenOptions::new();
        let options = if maps { options } else { options.read() };
        let model = options.open(&path).unwrap();
        let provider = WeightProvider::new(model, Arc::clone(device)).unwrap();
        let loaded = provider.load_all(|_| true, &LoadOptions::new()).unwrap();
        let imported: Vec<bool> = loaded.iter().map(|tensor| tensor.imported).collect();
        // The last page of the file is not whole, which "c" reaches into; small tensors are copied.
        assert_eq!(imported, [wanted, wanted, false, false], "{maps}");
        let owned: u64 =
            loaded.iter().filter(|tensor| !tensor.imported).map(|tensor| tensor.bytes()).sum();
        assert_eq!(device.usage(), (4, owned.next_multiple_of(4)));
        for (tensor, contents) in loaded.iter().zip(contents.iter().chain([&small])) {
            assert_eq!(tensor.read(provider.device(), Part::Weight).unwrap(), *contents);
            provider.verify(tensor).unwrap();
        }
        check("in a file", &provider, &["b"]);
        // Fused tensors are copied.
        let fused = provider.fuse(&["a", "c"]).unwrap();
        assert!(!fused.imported);
        drop((fused, loaded));
        provider.unload_all();
        assert_eq!(device.usage(), (0, 0), "nothing is left");
    }
    // The memory is kept as long as the buffer.
    let provider = WeightProvider::new(Model::open(&path).unwrap(), Arc::clone(&gpu)).unwrap();
    let tensor = provider.load("b").unwrap();
    let device = Arc::clone(provider.device());
    drop(provider);
    assert_eq!(tensor.read(&device, Part::Weight).unwrap(), contents[1]);
}

/// Every form of the sample, and every model among the fixtures: loaded, read back and equal.
#[test]
fn every_model_is_loaded_and_read_back() {
    let Some(gpu) = gpu("every_model_is_loaded_and_read_back") else { return };
    let gpu = Arc::new(gpu);
    let mut paths: Vec<_> = ["sample-Q8_0.gguf", "hf", "mlx-4bit"]
        .map(|form| root().join("assets/sample").join(form))
        .into();
    for folder in ["gguf", "hf", "hfq", "mlx"] {
        let Some(folder) = fixture(folder) else { continue };
        let entries = std::fs::read_dir(folder).unwrap();
        paths.extend(entries.map(|entry| entry.unwrap().path()));
    }
    let fusions: Vec<&Fusion> =
        ["qkv", "gate-up"].iter().filter_map(|name| Fusion::named(name)).collect();
    let (mut models, mut tensors) = (0, 0);
    for path in paths {
        let Ok(model) = Model::open(&path) else { continue };
        let near = WeightProvider::new(model.clone(), weighbridge::device::Cpu);
        let (Ok(near), Ok(far)) = (near, WeightProvider::new(model, Arc::clone(&gpu))) else {
            continue;
        };
        for fusions in [&fusions[..], &[]] {
            let options = LoadOptions::new().fuse(fusions);
            let loaded = match far.load_all(|_| true, &options) {
                Ok(loaded) => loaded,
                Err(error) => {
                    assert!(
                        near.load_all(|_| true, &options).is_err(),
                        "{}: {error}",
                        path.display()
                    );
                    continue;
                }
            };
            for one in &loaded {
                let names: Vec<&str> =
                    one.members.iter().map(|member| member.name.as_str()).collect();
                if one.computed.is_some() {
                    continue;
                }
                let expected = near.fuse(&names).unwrap();
                for part in &one.parts {
                    let found = one.read(far.device(), part.part).unwrap();
                    let expected = expected.contents(near.device(), part.part).unwrap();
                    assert!(found == expected, "{} {names:?} {:?}", path.display(), part.part);
                }
                tensors += 1;
            }
            far.unload_all();
            near.unload_all();
        }
        models += 1;
    }
    assert!(models >= 3 && tensors > 50, "{models} {tensors}");
    assert_eq!(gpu.usage(), (0, 0), "nothing is left");
}

#[test]
fn faults_are_errors_and_leave_nothing() {
    let Some(gpu) = gpu("faults_are_errors_and_leave_nothing") else { return };
    let gpu = Arc::new(gpu.limited(Some(1 << 20), u64::MAX, u64::MAX));
    let file = |rows: u64| {
        let contents = random(1, (rows * 1024 * 4) as usize);
        let file = Gguf::new()
            .tensor("a", DType::F32, &[rows, 1024], contents.clone())
            .tensor("b", DType::F32, &[rows, 1024], contents)
            .build();
        let model = OpenOptions::new().open_memory("file", file).unwrap();
        WeightProvider::new(model, Arc::clone(&gpu)).unwrap()
    };
    // More than the memory.
    let error = file(200).load_all(|_| true, &LoadOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    let text = error.to_string();
    assert!(text.contains("has no memory for 819200 bytes: 229376 are available"), "{text}");
    assert_eq!(gpu.usage(), (0, 0));
    // Cancelled.
    let stop = |_| ControlFlow::Break(());
    let error = file(100).load_all(|_| true, &LoadOptions::new().progress(&stop)).unwrap_err();
    assert_eq!((error.kind(), gpu.usage()), (ErrorKind::Cancelled, (0, 0)));
    // Two threads, two models.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let provider = file(60);
                let loaded = provider.load_all(|_| true, &LoadOptions::new()).unwrap();
                let expected = random(1, 60 * 1024 * 4);
                for one in loaded {
                    assert_eq!(one.read(provider.device(), Part::Weight).unwrap(), expected);
                }
            });
        }
    });
    assert_eq!(gpu.usage(), (0, 0));
    // A model without tensors.
    let model = OpenOptions::new().open_memory("empty", Gguf::new().build()).unwrap();
    let provider = WeightProvider::new(model, Arc::clone(&gpu)).unwrap();
    assert!(provider.load_all(|_| true, &LoadOptions::new()).unwrap().is_empty());
    // A lost device.
    let provider = file(60);
    gpu.wgpu_device().destroy();
    let error = provider.load_all(|_| true, &LoadOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Device, "{error}");
    assert!(error.to_string().contains("failed"), "{error}");
    assert_eq!(gpu.usage(), (0, 0));
}

/// Rows with more pieces than invocations, in all sizes of groups that MLX has.
#[test]
fn groups_of_every_size_compute_as_the_cpu() {
    let Some(gpu) = gpu("groups_of_every_size_compute_as_the_cpu") else { return };
    let gpu = Arc::new(gpu);
    let (rows, columns) = (5, 1152);
    for size in [32, 64, 128] {
        let config = format!(
            r#"{{"model_type": "made", "quantization": {{"group_size": {size}, "bits": 4}}}}"#
        );
        let groups = columns / size;
        let halves = |seed| -> Vec<u8> {
            let numbers = numbers(seed, (rows * groups) as usize);
            numbers.iter().flat_map(|x| half::f16::from_f32(*x).to_le_bytes()).collect()
        };
        let file = Safetensors::new()
            .tensor(
                "t.weight",
                "U32",
                &[rows, columns / 8],
                random(size, (rows * columns / 2) as usize),
            )
            .tensor("t.scales", "F16", &[rows, groups], halves(1))
            .tensor("t.biases", "F16", &[rows, groups], halves(2))
            .build();
        let folder = folder(&[("config.json", config.into_bytes()), ("model.safetensors", file)]);
        let model = Model::open(folder.path()).expect("a folder");
        let provider = WeightProvider::new(model, Arc::clone(&gpu)).expect("a provider");
        check(&format!("groups of {size}"), &provider, &["t.weight"]);
    }
}

/// Kernels read 16 bytes of the input at once.
#[test]
fn inputs_have_a_multiple_of_16_bytes() {
    let Some(gpu) = gpu("inputs_have_a_multiple_of_16_bytes") else { return };
    let gpu = Arc::new(gpu);
    let file = Gguf::new().tensor("t", DType::F32, &[2, 3], random(1, 24)).build();
    let model = OpenOptions::new().open_memory("file", file).unwrap();
    let provider = WeightProvider::new(model, Arc::clone(&gpu)).unwrap();
    let loaded = provider.load("t").unwrap();
    let tensor = loaded.kernel_tensor(&gpu).unwrap();
    let usage = wgpu::BufferUsages::STORAGE;
    let [input, output] = [12, 16].map(|size| {
        let (label, mapped_at_creation) = (None, false);
        let new = wgpu::BufferDescriptor { label, size, usage, mapped_at_creation };
        gpu.wgpu_device().create_buffer(&new)
    });
    let (operation, input, output) = (Operation::MatrixVector, Some(&input), &output);
    let call = KernelCall { operation, count: 1, input, output, experts: None };
    let error = gpu.compute(&tensor, &loaded.buffer, call).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    assert!(error.to_string().contains("the input has 12 bytes"), "{error}");
}

#[test]
fn a_gpu_is_chosen_by_number_and_name() {
    let Some(first) = gpu("a_gpu_is_chosen_by_number_and_name") else { return };
    let name = first.info().name.clone();
    assert_eq!(Gpu::list()[0], *first.info());
    assert_eq!(Gpu::open(Some("0")).unwrap().info().name, name);
    assert_eq!(Gpu::open(Some(&name.to_uppercase())).unwrap().info().name, name);
    for wrong in ["99", "no such GPU"] {
        let error = Gpu::open(Some(wrong)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(&name), "{error}");
    }
}

/// NaN, infinities, subnormal numbers and ties of f16.
#[test]
fn special_values_pass_unchanged() {
    let Some(gpu) = gpu("special_values_pass_unchanged") else { return };
    let gpu = Arc::new(gpu);
    let words = [
        0x7fc0_0001u32,
        0xffa0_0002,
        0x7f80_0000,
        0xff80_0000,
        1,
        0x8000_0001,
        0x007f_ffff,
        0,
        0x8000_0000,
        0x3f80_0000,
        0x7f7f_ffff,
        0x3300_0000,
        0x3300_0001,
        0x387f_ffff,
        0x477f_efff,
        0x477f_f000,
    ];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let file = Gguf::new().tensor("t", DType::F32, &[1, 16], bytes.clone()).build();
    let model = OpenOptions::new().open_memory("file", file).unwrap();
    let provider = WeightProvider::new(model, Arc::clone(&gpu)).unwrap();
    let loaded = provider.load("t").unwrap();
    let device = provider.device();
    assert_eq!(compute(&gpu, &loaded, device, Operation::DequantizeF32, &[], 1), bytes);
    let found = compute(&gpu, &loaded, device, Operation::DequantizeF16, &[], 1);
    for (bits, word) in found.as_chunks().0.iter().zip(words) {
        let (found, expected) =
            (half::f16::from_le_bytes(*bits), half::f16::from_f32(f32::from_bits(word)));
        assert!(
            found.to_bits() == expected.to_bits() || expected.is_nan() && found.is_nan(),
            "{word:#x}"
        );
    }
}
