//! Conversions there and back: what other programs made of the same model is what is made here, and
//! what is said to be lossless comes back bit for bit.
#![allow(
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    reason = "the sizes are the test's own"
)]

use crate::support;
use std::path::{Path, PathBuf};

use crate::support::{Gguf, Safetensors, f32s, fixture, folder, put, sample};
use tempfile::TempDir;
use weighbridge::adapter::Adapter;
use weighbridge::arch::Dialect;
use weighbridge::container::{GGUF, MLX, SAFETENSORS};
use weighbridge::device::Cpu;
use weighbridge::model::Convention;
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::quant::Global;
use weighbridge::write::{Method, PlannedTensor};
use weighbridge::{
    DType, ErrorKind, Model, OpenOptions, Part, Strictness, Tensor, WeightProvider, WriteOptions,
};

fn provider(path: &Path) -> Model {
    let store = OpenOptions::new().open(path).unwrap_or_else(|error| panic!("{error}"));
    support::resolved(store).unwrap_or_else(|error| panic!("{error}"))
}

/// The output and the report of a conversion.
struct Converted {
    store: Model,
    fates: Vec<PlannedTensor>,
    notes: Vec<String>,
    path: PathBuf,
    _folder: TempDir,
}

impl Converted {
    /// The method by which a tensor was produced.
    fn how(&self, name: &str) -> Method {
        let fate = self.fates.iter().find(|fate| fate.name == name);
        fate.unwrap_or_else(|| panic!("no tensor {name}")).method
    }
}

/// Converts a model, and opens what was written by the strict rules, which find nothing wrong.
fn converted(path: &Path, options: &ConvertOptions) -> Converted {
    let model = provider(path);
    let plan = ops::convert(&model, options).unwrap_or_else(|error| panic!("{error}"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("model.gguf");
    let written = plan.run(&path, &WriteOptions::new()).unwrap_or_else(|error| panic!("{error}"));
    assert!(written.paths == [path.clone()] && written.bytes == plan.bytes());
    let store = OpenOptions::new().strictness(Strictness::Strict).open(&path);
    let store = store.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(store.notes().iter().map(|note| &*note.text).collect::<Vec<_>>(), [""; 0]);
    let missing = store.resolution().unwrap_or_else(|error| panic!("{error}")).missing.clone();
    assert_eq!(missing, [""; 0]);
    assert_eq!(plan.tensors.len(), store.len());
    for fate in &plan.tensors {
        let tensor = store.stored_tensor(&fate.name).unwrap_or_else(|error| panic!("{error}"));
        let is = (tensor.dtype().expect("a dtype"), tensor.shape(), tensor.group_size());
        assert_eq!(is, (fate.dtype, &*fate.shape, fate.group_size), "{}", fate.name);
    }
    let (fates, notes) = (plan.tensors.clone(), plan.notes.clone());
    Converted { store, fates, notes, path, _folder: folder }
}

/// Its dtype, shape and group size, and each of its parts.
type Content = (DType, Vec<u64>, Option<u32>, Vec<(Part, DType, Vec<u8>)>);

/// All that a tensor is, but its name.
fn content(tensor: &Tensor) -> Content {
    let part =
        |part: Part, dtype: DType| (part, dtype, tensor.bytes(part).expect("bytes").into_owned());
    let parts = tensor.segments().map(|segment| part(segment.part, segment.dtype)).collect();
    (tensor.dtype().expect("a dtype"), tensor.shape().to_vec(), tensor.group_size(), parts)
}

/// The same names, dtypes, shapes and bytes, in whatever order.
fn assert_same(found: &Model, expected: &Model) {
    let names = |store: &Model| {
        let mut names: Vec<String> = store.stored_tensors().map(|t| t.name().to_string()).collect();
        names.sort();
        names
    };
    assert_eq!(names(found), names(expected));
    for expected in expected.stored_tensors() {
        let name = expected.name();
        let found = found.stored_tensor(name).expect("a tensor");
        let label = |t: &Tensor| (t.dtype_label(), t.shape().to_vec());
        assert_eq!(label(&found), label(&expected), "{name}");
        assert!(content(&found) == content(&expected), "{name} has other bytes");
    }
}

/// The models of which llama.cpp's converter wrote a GGUF file (the fixtures' MANIFEST), and
/// OpenAI's Whisper under its own names.
#[test]
fn gguf_is_what_the_converter_of_llama_cpp_writes() {
    for (hf, gguf) in [
        ("llama-f16", "llama-f16"),
        ("qwen2-f16", "qwen2-f16"),
        ("mixtral-bf16", "mixtral-bf16"),
        ("bert-f32", "bert-f32"),
    ] {
        let Some(hf) = fixture(&format!("hf/{hf}")) else { return };
        let gguf = fixture(&format!("gguf/model/{gguf}.gguf")).expect("it lies beside");
        println!("{}", hf.display());
        // GGUF has no names for BERT's pooler.
        let lossless = !hf.ends_with("bert-f32");
        let options = ConvertOptions::new(&GGUF).lossless(lossless).extra_keys(false);
        let made = converted(&hf, &options);
        let expected = Model::open(&gguf).expect("a GGUF file");
        assert_same(&made.store, &expected);
        let key = "general.file_type";
        assert_eq!(made.store.metadata().u64(key), expected.metadata().u64(key));
    }
}

/// The sample was converted by the same program.
#[test]
fn the_sample_in_gguf_is_that_of_llama_cpp() {
    let made = converted(&sample("hf"), &ConvertOptions::new(&GGUF).lossless(true));
    let expected = Model::open(sample("sample-BF16.gguf")).expect("a GGUF file");
    assert_same(&made.store, &expected);
    for (key, value) in expected.metadata().iter() {
        let key = key.to_str().expect("a key");
        // Made of the folder's name.
        if key == "general.name" {
            continue;
        }
        let found = made.store.metadata().get(key);
        assert!(found == Some(value), "{key}: {found:?}, not {value:?}");
    }
}

/// The dtypes of `convert_hf_to_gguf.py --outtype tq2_0`: F16 for the embedding and the output, F32 for norms. The file
/// type is that which was asked for, whatever has the most weights.
#[test]
fn ternary_dtypes_spare_the_embedding_and_the_output() {
    for (dtype, number) in [(DType::TQ1_0, 36), (DType::TQ2_0, 37)] {
        let made = converted(&sample("hf"), &ConvertOptions::new(&GGUF).dtype(dtype));
        for fate in &made.fates {
            let expected = match &*fate.name {
                "token_embd.weight" | "output.weight" => DType::F16,
                _ if fate.shape.len() < 2 => DType::F32,
                _ => dtype,
            };
            assert_eq!(fate.dtype, expected, "{}", fate.name);
            let said = fate.reason.as_deref().is_some_and(|why| why.contains("converter"));
            assert_eq!(said, expected == DType::F16, "{}: {:?}", fate.name, fate.reason);
        }
        assert_eq!(made.store.metadata().u64("general.file_type"), Some(number));
    }
}

/// Plain values go through every container and come back as they were.
#[test]
fn plain_values_come_back() {
    let hf = sample("hf");
    let expected = Model::open(&hf).expect("the sample");
    for format in [&GGUF, &MLX] {
        let there = converted(&hf, &ConvertOptions::new(format).lossless(true));
        let back = converted(&there.path, &ConvertOptions::new(&SAFETENSORS).lossless(true));
        // llama.cpp keeps vectors as F32.
        let widened = format == &GGUF;
        for tensor in expected.stored_tensors() {
            let name = tensor.name();
            let found = back.store.stored_tensor(name).unwrap_or_else(|error| panic!("{error}"));
            if widened && tensor.shape().len() == 1 {
                assert_eq!(found.dtype().expect("a dtype"), DType::F32);
                assert!(*found.dequantize().unwrap() == *tensor.dequantize().unwrap(), "{name}");
            } else {
                assert!(content(&found) == content(&tensor), "{name}");
            }
        }
        assert_eq!(back.store.len(), expected.len());
    }
}

/// Each quantized GGUF in MLX's groups and back: where the lattice of exact changes has a way, the
/// values are the same, and the blocks too where the way back leads to the same dtype.
#[test]
fn blocks_in_groups_and_back() {
    for (name, exact, back) in [
        ("Q4_0", DType::MLX_AFFINE4, DType::Q4_0),
        ("Q4_1", DType::MLX_AFFINE4, DType::Q4_1),
        ("Q5_0", DType::MLX_AFFINE5, DType::Q5_0),
        ("Q5_1", DType::MLX_AFFINE5, DType::Q5_1),
        ("Q8_0", DType::MLX_AFFINE8, DType::Q8_0),
        ("TQ2_0", DType::MLX_AFFINE2, DType::Q4_1),
        ("Q1_0", DType::MLX_AFFINE1, DType::Q4_1),
        ("Q2_0", DType::MLX_AFFINE2, DType::Q4_1),
    ] {
        let Some(gguf) = fixture(&format!("gguf/quant/llama-{name}.gguf")) else { return };
        println!("{name}");
        let dtype = DType::from_name(name).expect("a dtype");
        let model = provider(&gguf);
        let there = converted(&gguf, &ConvertOptions::new(&MLX));
        let again = converted(&there.path, &ConvertOptions::new(&GGUF));
        let mut count = 0;
        for tensor in
            model.stored_tensors().filter(|tensor| tensor.dtype().is_ok_and(|d| d == dtype))
        {
            let name = tensor.name();
            let mapping =
                model.resolution().expect("resolved").mapped.iter().find(|m| m.stored == [name]);
            let canonical = &mapping.expect("a mapping").canonical;
            let groups = provider(&there.path);
            let groups = groups.tensor(canonical).expect("the tensor");
            let stored = groups.sources().next().expect("a source");
            assert_eq!(stored.dtype().expect("a dtype"), exact, "{name}");
            assert_eq!(there.how(stored.name()), Method::Repacked);
            let values = model.tensor(canonical).unwrap().dequantize().unwrap();
            assert!(*groups.dequantize().unwrap() == *values, "{name}");
            let found = again.store.stored_tensor(name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(found.dtype().expect("a dtype"), back, "{name}");
            assert_eq!(again.how(name), Method::Repacked, "{name}");
            match back == dtype {
                true => assert!(content(&found) == content(&tensor), "{name} has other blocks"),
                false => assert!(*found.dequantize().unwrap() == *tensor.dequantize().unwrap()),
            }
            count += 1;
        }
        assert!(count > 0, "{name}");
    }
}

/// MLX's groups in GGUF and back.
#[test]
fn groups_in_blocks_and_back() {
    for (name, dtype, blocks) in [
        ("sample/mlx-4bit", DType::MLX_AFFINE4, DType::Q4_1),
        ("mlx/llama-q4g64-f16", DType::MLX_AFFINE4, DType::Q4_1),
        ("mlx/llama-q4g32-bf16-sharded", DType::MLX_AFFINE4, DType::Q4_1),
        ("mlx/qwen2-q5g32-f16", DType::MLX_AFFINE5, DType::Q5_1),
        ("mlx/qwen3-tied-q3g32-bf16", DType::MLX_AFFINE3, DType::Q4_1),
        ("mlx/mixtral-mxfp4", DType::MLX_MXFP4, DType::MXFP4),
        ("mlx/qwen2-nvfp4", DType::MLX_NVFP4, DType::NVFP4),
    ] {
        let Some(mlx) = fixture(name) else { continue };
        println!("{name}");
        let model = provider(&mlx);
        let there = converted(&mlx, &ConvertOptions::new(&GGUF).lossless(true));
        let again = converted(&there.path, &ConvertOptions::new(&MLX).lossless(true));
        let (gguf, back) = (provider(&there.path), provider(&again.path));
        let mut count = 0;
        for mapping in &model.resolution().expect("resolved").mapped {
            let name = &*mapping.canonical;
            let values = model.tensor(name).unwrap().dequantize().unwrap();
            let in_gguf = gguf.tensor(name).unwrap_or_else(|error| panic!("{error}"));
            assert!(*in_gguf.dequantize().unwrap() == *values, "{name} in GGUF");
            let again = back.tensor(name).unwrap_or_else(|error| panic!("{error}"));
            assert!(*again.dequantize().unwrap() == *values, "{name} in MLX again");
            // llama.cpp keeps routers as F32.
            let kept = !name.contains("router");
            let is = |tensor: Tensor| tensor.dtype().is_ok_and(|found| found == dtype);
            if kept && model.tensor(name).unwrap().sources().all(is) {
                let found = in_gguf.sources().next().unwrap().dtype().unwrap();
                assert_eq!(found, blocks, "{name}");
                count += 1;
            }
        }
        assert!(count > 0);
    }
}

/// A value without an exact form is refused with its name and the reason, before anything is
/// written.
#[test]
fn what_would_be_lost_is_refused_by_name() {
    let mut told = Vec::new();
    for (name, format) in [
        ("gguf/quant/llama-Q6_K.gguf", &MLX),
        ("gguf/quant/llama-IQ4_XS.gguf", &MLX),
        ("gguf/quant/llama-Q2_K.gguf", &MLX),
        ("sample/sample-Q4_K_M.gguf", &MLX),
        ("mlx/llama-mxfp8", &GGUF),
        ("mlx/llama-mixed_3_6", &GGUF),
    ] {
        let Some(path) = fixture(name) else { return };
        let model = provider(&path);
        let error = ops::convert(&model, &ConvertOptions::new(format).lossless(true));
        let error = error.expect_err("something would be lost");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(error.path(), Some(&*path));
        let text = error.to_string().replace(&*path.to_string_lossy(), name);
        told.push(format!("{text}\nhelp: {}", error.advice().unwrap_or_default()));
        // Where it may be lost, the fates say so, and name the reason.
        let made = converted(&path, &ConvertOptions::new(format));
        let lossy = made.fates.iter().filter(|fate| !fate.method.is_lossless());
        for fate in lossy.clone() {
            assert!(matches!(fate.method, Method::Requantized | Method::Rounded));
            assert!(fate.reason.is_some(), "{}", fate.name);
        }
        assert!(lossy.count() > 0);
        println!("{name}: {:?}", made.notes);
    }
    insta::assert_snapshot!(told.join("\n"));
}

/// A mixture of experts, each of which has a number for all of its values.
pub(crate) fn experts(divisors: [f32; 2]) -> TempDir {
    let mut file = Safetensors::new().metadata("format", "pt");
    let plain = |file: Safetensors, name: &str, shape: &[u64]| {
        let count: u64 = shape.iter().product();
        let values: Vec<f32> = (0..count).map(|n| (n % 13) as f32 / 8.0 - 0.5).collect();
        file.tensor(name, "F32", shape, f32s(&values))
    };
    for name in ["model.embed_tokens.weight", "lm_head.weight"] {
        file = plain(file, name, &[8, 64]);
    }
    file = plain(file, "model.norm.weight", &[64]);
    let layer = |name: &str| format!("model.layers.0.{name}");
    for name in ["q", "k", "v", "o"] {
        file = plain(file, &layer(&format!("self_attn.{name}_proj.weight")), &[64, 64]);
    }
    for name in ["input_layernorm.weight", "post_attention_layernorm.weight"] {
        file = plain(file, &layer(name), &[64]);
    }
    file = plain(file, &layer("block_sparse_moe.gate.weight"), &[2, 64]);
    for (expert, divisor) in [0u8, 1].into_iter().zip(divisors) {
        for name in ["w1", "w2", "w3"] {
            let base = layer(&format!("block_sparse_moe.experts.{expert}.{name}"));
            // No code of -0, which ggml does not have.
            let codes: Vec<u8> = (0..64 * 32).map(|n| (n % 7) as u8 * 0x11 + expert).collect();
            let scales: Vec<u8> = (0..64 * 4).map(|n| 0x30 + (n % 8) as u8).collect();
            file = file
                .tensor(&format!("{base}.weight_packed"), "U8", &[64, 32], codes)
                .tensor(&format!("{base}.weight_scale"), "F8_E4M3", &[64, 4], scales)
                .tensor(&format!("{base}.weight_global_scale"), "F32", &[1], f32s(&[divisor]));
        }
    }
    let config = serde_json::json!({"model_type": "mixtral", "hidden_size": 64,
        "architectures": ["MixtralForCausalLM"], "num_hidden_layers": 1,
        "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 64,
        "num_local_experts": 2, "num_experts_per_tok": 1, "vocab_size": 8, "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0, "max_position_embeddings": 64, "torch_dtype": "float32",
        "quantization_config": {"quant_method": "compressed-tensors",
            "format": "nvfp4-pack-quantized", "config_groups": {"group_0": {
                "format": "nvfp4-pack-quantized", "targets": ["Linear"], "weights": {
                    "group_size": 16, "num_bits": 4, "strategy": "tensor_group",
                    "symmetric": true, "type": "float"}}}}});
    let config = config.to_string().into_bytes();
    folder(&[("config.json", config), ("model.safetensors", file.build())])
}

/// Experts keep their own numbers when they are put together, and when they are taken apart.
#[test]
fn experts_with_numbers_of_their_own() {
    let source = experts([4.0, 32.0]);
    let model = provider(source.path());
    let lossless = |format| ConvertOptions::new(format).lossless(true);
    let gguf = converted(source.path(), &lossless(&GGUF));
    let mlx = converted(&gguf.path, &lossless(&MLX));
    let direct = converted(source.path(), &lossless(&MLX));
    let again = converted(&mlx.path, &lossless(&GGUF));
    let apart = converted(&gguf.path, &lossless(&SAFETENSORS));
    let name = "blk.0.ffn_gate_exps.weight";
    let tensor = gguf.store.stored_tensor(name).expect("experts");
    assert_eq!(
        (tensor.dtype().expect("a dtype"), tensor.shape()),
        (DType::NVFP4, &[2, 64, 64][..])
    );
    let numbers = tensor.bytes(Part::GlobalScale).expect("numbers");
    assert_eq!(*numbers, *f32s(&[0.25, 1.0 / 32.0]));
    assert!(content(&again.store.stored_tensor(name).expect("experts")) == content(&tensor));
    for made in [&gguf, &mlx, &direct, &again, &apart] {
        let made = provider(&made.path);
        for mapping in &model.resolution().expect("resolved").mapped {
            let name = &*mapping.canonical;
            let values = |model: &Model| {
                let view = model.tensor(name).unwrap_or_else(|error| panic!("{error}"));
                view.dequantize().unwrap_or_else(|error| panic!("{error}")).to_vec()
            };
            assert!(values(&made) == values(&model), "{name}");
        }
    }
}

/// llama.cpp's graphs multiply the matrices of some architectures alone by a scale beside them: the others are written
/// without one.
#[test]
fn scales_that_a_graph_does_not_apply() {
    for (model_type, applied) in [("mixtral", true), ("phimoe", false)] {
        let folder = experts([4.0, 32.0]);
        let config = std::fs::read(folder.path().join("config.json")).expect("a config");
        let mut config: serde_json::Value = serde_json::from_slice(&config).expect("JSON");
        config["model_type"] = model_type.into();
        config.as_object_mut().expect("an object").remove("architectures");
        put(folder.path(), "config.json", config.to_string());
        let options = ConvertOptions::new(&GGUF).allow_unloadable(true);
        let plan = ops::convert(&provider(folder.path()), &options).expect("a plan");
        let fate = plan.tensors.iter().find(|fate| fate.name == "blk.0.ffn_gate_exps.weight");
        let fate = fate.expect("the experts");
        assert_eq!(fate.dtype == DType::NVFP4, applied, "{fate:?}");
        let reason = fate.reason.as_deref().unwrap_or_default();
        assert_eq!(reason.contains("does not multiply it by its scale"), !applied, "{reason}");
    }
}

/// MLX derives factors from a largest magnitude. About every sixth factor has none, and a tensor with such
/// a factor is quantized again.
#[test]
fn factors_without_a_largest_magnitude() {
    let has_none = |divisor: &f32| Global::Factor(1.0 / divisor).amax().is_none();
    let divisor = (1u8..).map(f32::from).find(has_none).expect("a divisor");
    let source = experts([4.0, divisor]);
    let mlx = converted(source.path(), &ConvertOptions::new(&MLX));
    let requantized: Vec<&PlannedTensor> =
        mlx.fates.iter().filter(|fate| fate.method == Method::Requantized).collect();
    assert_eq!(requantized.len(), 3, "gate, up and down of the experts");
    for fate in requantized {
        assert_eq!(fate.dtype, DType::MLX_AFFINE8);
        let reason = fate.reason.as_deref().unwrap_or_default();
        let said = "its global scale cannot be derived from a largest magnitude";
        assert!(reason.contains(said), "{reason}");
    }
}

/// mlx-lm's linear layers take no global scale: it refuses a directory with one.
#[test]
fn global_scales_of_matrices_are_not_written_for_mlx_lm() {
    let Some(path) = fixture("hfq/modelopt-nvfp4") else { return };
    let model = provider(&path);
    let error =
        ops::convert(&model, &ConvertOptions::new(&MLX).lossless(true)).expect_err("a loss");
    assert!(error.to_string().contains("has no place for its global scale"), "{error}");
    let plan = ops::convert(&model, &ConvertOptions::new(&MLX)).expect("a plan");
    let quantized = plan.tensors.iter().filter(|fate| fate.dtype.is_quantized());
    for fate in quantized {
        assert_eq!((fate.dtype, fate.method), (DType::MLX_AFFINE8, Method::Requantized));
    }
    // A directory that another program wrote is verified as mlx-lm reads it.
    let model = provider(&fixture("mlx/qwen2-nvfp4").expect("the repository has it"));
    let mut file = Safetensors::new();
    for tensor in model.stored_tensors() {
        for part in tensor.segments() {
            let bytes = tensor.bytes(part.part).expect("bytes").to_vec();
            file = file.tensor(&part.name.to_string(), part.dtype.name(), part.shape, bytes);
        }
    }
    let global = "model.layers.0.mlp.up_proj.global_scale";
    let file = file.tensor(global, "F32", &[], f32s(&[5376.0]));
    let files = crate::support::copy_of(model.path());
    crate::support::put(files.path(), "model.safetensors", file.build());
    for (path, count) in [(model.path(), 0), (files.path(), 1)] {
        let verified = ops::check_consistency(&provider(path), Strictness::Strict).expect("it");
        let faults = verified.faults.iter().filter(|fault| fault.contains("has a global scale"));
        assert_eq!(faults.count(), count, "{verified:?}");
    }
    // Where the module is listed, mlx-lm looks for a flag, and otherwise for the array.
    let mut config = config_of(files.path());
    let mut entry = config["quantization"].clone();
    for (states, count) in [(false, 1), (true, 0)] {
        entry["global_scale"] = states.into();
        config["quantization"]["model.layers.0.mlp.up_proj"] = entry.clone();
        crate::support::put(files.path(), "config.json", config.to_string());
        let verified = ops::check_consistency(&provider(files.path()), Strictness::Strict);
        let faults = verified.expect("it").faults;
        let faults = faults.iter().filter(|fault| fault.contains("without global_scale"));
        assert_eq!(faults.count(), count);
    }
}

/// Files of the other byte order hold the same numbers, and are written in this one.
#[test]
fn big_endian_sources() {
    for (big, little) in [
        ("gguf/misc/be-qwen2-Q4_0.gguf", "gguf/quant/qwen2-Q4_0.gguf"),
        ("gguf/misc/be-qwen2-f16.gguf", "gguf/model/qwen2-f16.gguf"),
    ] {
        let (Some(big), Some(little)) = (fixture(big), fixture(little)) else { return };
        let little = Model::open(little).expect("a model");
        let gguf = converted(&big, &ConvertOptions::new(&GGUF).lossless(true));
        assert_same(&gguf.store, &little);
        for (key, value) in little.metadata().iter() {
            assert!(
                gguf.store.metadata().get(key.to_str().expect("a key")) == Some(value),
                "{key}"
            );
        }
        let made = |format| {
            let options = ConvertOptions::new(format);
            let (one, other) = (converted(&big, &options), converted(little.path(), &options));
            assert_same(&one.store, &other.store);
        };
        made(&MLX);
        made(&SAFETENSORS);
    }
}

/// Whatever order a model serves its rows in, its files have that of their container.
#[test]
fn the_convention_of_a_provider_changes_no_file() {
    let model = provider(&sample("sample-Q8_0.gguf"));
    let names = |model: &Model| {
        let spoken = model.tensors_in(Dialect::HuggingFace).expect("names");
        let of = |view: &Tensor| (view.name().to_owned(), view.dequantize().unwrap().to_vec());
        spoken.tensors.iter().map(of).collect::<Vec<_>>()
    };
    let expected = names(&model);
    // A provider of the same model that serves the file's own order.
    let stored =
        WeightProvider::new(model, Cpu).expect("a provider").convention(Convention::Stored);
    assert!(names(stored.model()) == expected);
}

/// Numbers that `F32` cannot hold are not called exact.
#[test]
fn wide_numbers_are_not_called_exact() {
    let source = experts([4.0, 32.0]);
    let config = source.path().join("config.json");
    let text = std::fs::read_to_string(&config).expect("it");
    let mut json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    json.as_object_mut().expect("an object").remove("quantization_config");
    json["model_type"] = "llama".into();
    json["architectures"] = serde_json::json!(["LlamaForCausalLM"]);
    let f64s =
        |count: usize| (0..count).flat_map(|n| (0.1 * n as f64).to_le_bytes()).collect::<Vec<u8>>();
    let tensor = |file: Safetensors, name: &str, shape: &[u64]| {
        let count: u64 = shape.iter().product();
        file.tensor(name, "F64", shape, f64s(usize::try_from(count).expect("a small one")))
    };
    let mut file = tensor(Safetensors::new(), "model.embed_tokens.weight", &[8, 64]);
    file = tensor(file, "model.norm.weight", &[64]);
    let folder = folder(&[
        ("config.json", json.to_string().into_bytes()),
        ("model.safetensors", file.build()),
    ]);
    let model = provider(folder.path());
    let plan = ops::convert(&model, &ConvertOptions::new(&GGUF)).expect("a plan");
    let hows: Vec<(&str, DType, Method)> =
        plan.tensors.iter().map(|fate| (&*fate.name, fate.dtype, fate.method)).collect();
    let expected = [
        ("output_norm.weight", DType::F32, Method::Rounded),
        ("token_embd.weight", DType::F32, Method::Rounded),
    ];
    assert!(expected.iter().all(|one| hows.contains(one)), "{hows:?}");
    let lossless = ConvertOptions::new(&GGUF).lossless(true);
    let error = ops::convert(&model, &lossless).expect_err("a norm is rounded");
    assert!(error.to_string().contains("F32 does not hold every value of F64"), "{error}");
}

/// Codes of checkpoints, symmetric or with zero points, are held exactly by MLX's groups, unless the groups are of columns
/// that are not neighbours.
#[test]
fn codes_of_checkpoints_in_groups() {
    for (name, how) in [
        ("ct-pack-int4-sym-g128", Method::Repacked),
        ("ct-pack-int4-asym-g128", Method::Repacked),
        ("gptq-4bit-g128-asym", Method::Repacked),
        ("awq-gemm-4bit-g128", Method::Repacked),
        ("torchao-int4-unpacked", Method::Repacked),
        ("gptq-4bit-g128-actorder", Method::Requantized),
        // mlx-lm knows no global scale.
        ("modelopt-nvfp4", Method::Requantized),
    ] {
        let Some(path) = fixture(&format!("hfq/{name}")) else { return };
        let model = provider(&path);
        let plan = ops::convert(&model, &ConvertOptions::new(&MLX));
        let plan = plan.unwrap_or_else(|error| panic!("{error}"));
        let quantized = |fate: &&PlannedTensor| fate.dtype.is_quantized();
        let ways: Vec<Method> =
            plan.tensors.iter().filter(quantized).map(|fate| fate.method).collect();
        assert!(ways.len() >= 3 && ways.iter().all(|way| *way == how), "{name}: {ways:?}");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let target = folder.path().join("model");
        // These files are parts of models.
        plan.run(&target, &WriteOptions::new().allow_incomplete(true))
            .unwrap_or_else(|error| panic!("{error}"));
        let again = provider(&target);
        for name in model.names().expect("resolved") {
            let [old, new] = [&model, &again].map(|model| {
                model.tensor(name).and_then(|view| view.dequantize()).expect("values")
            });
            let near = |(a, b): (&f32, &f32)| match how {
                Method::Repacked => a == b,
                _ => (a - b).abs() < 0.01,
            };
            assert!(old.len() == new.len() && old.iter().zip(&*new).all(near), "{name}");
        }
    }
}

/// gpt-oss as it is published: experts in blocks of MXFP4, gate and up in turn.
fn gpt_oss() -> TempDir {
    let (experts, hidden, inter) = (3u64, 96u64, 64u64);
    let mut file = Safetensors::new().metadata("format", "pt");
    let mut plain = |name: &str, shape: &[u64]| {
        let count: u64 = shape.iter().product();
        // BF16 holds each, and no two rows are alike. The output matrix is not a copy of the embedding.
        let first = u64::from(name == "lm_head.weight");
        let value = |n: u64| half::bf16::from_f32(((first + n) * 37 % 251) as f32 / 8.0 - 9.0);
        let bytes = (0..count).flat_map(|n| value(n).to_le_bytes()).collect::<Vec<u8>>();
        file = std::mem::take(&mut file).tensor(name, "BF16", shape, bytes);
    };
    for name in ["model.embed_tokens.weight", "lm_head.weight"] {
        plain(name, &[8, hidden]);
    }
    plain("model.norm.weight", &[hidden]);
    let layer = |name: &str| format!("model.layers.0.{name}");
    for (name, rows, columns) in
        [("q", 64, hidden), ("k", 32, hidden), ("v", 32, hidden), ("o", hidden, 64)]
    {
        plain(&layer(&format!("self_attn.{name}_proj.weight")), &[rows, columns]);
        plain(&layer(&format!("self_attn.{name}_proj.bias")), &[rows]);
    }
    for name in ["input_layernorm.weight", "post_attention_layernorm.weight"] {
        plain(&layer(name), &[hidden]);
    }
    plain(&layer("self_attn.sinks"), &[2]);
    plain(&layer("mlp.router.weight"), &[experts, hidden]);
    plain(&layer("mlp.router.bias"), &[experts]);
    for (name, rows) in [("gate_up_proj", 2 * inter), ("down_proj", hidden)] {
        plain(&layer(&format!("mlp.experts.{name}_bias")), &[experts, rows]);
    }
    for (name, rows, columns) in [("gate_up_proj", 2 * inter, hidden), ("down_proj", hidden, inter)]
    {
        let base = layer(&format!("mlp.experts.{name}"));
        let blocks = columns / 32;
        let codes = (0..experts * rows * blocks * 16).map(|n| (n * n % 255 + n % 7) as u8);
        let scales = (0..experts * rows * blocks).map(|n| 110 + (n * 5 % 29) as u8);
        file = file
            .tensor(
                &format!("{base}_blocks"),
                "U8",
                &[experts, rows, blocks, 16],
                codes.collect::<Vec<u8>>(),
            )
            .tensor(
                &format!("{base}_scales"),
                "U8",
                &[experts, rows, blocks],
                scales.collect::<Vec<u8>>(),
            );
    }
    let config = serde_json::json!({"architectures": ["GptOssForCausalLM"],
        "model_type": "gpt_oss", "hidden_size": hidden, "intermediate_size": inter,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
        "head_dim": 32, "num_local_experts": experts, "num_experts_per_tok": 2, "vocab_size": 8,
        "rms_norm_eps": 1e-5, "max_position_embeddings": 131_072, "sliding_window": 128,
        "layer_types": ["sliding_attention"], "attention_bias": true, "torch_dtype": "bfloat16",
        "tie_word_embeddings": false, "rope_theta": 150_000.0, "rope_scaling": {
            "beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "rope_type": "yarn",
            "original_max_position_embeddings": 4096, "truncate": false},
        "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": [
            "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens",
            "lm_head"]}});
    let config = config.to_string().into_bytes();
    folder(&[("config.json", config), ("model.safetensors", file.build())])
}

fn config_of(path: &Path) -> serde_json::Value {
    let bytes = std::fs::read(path.join("config.json")).expect("a config.json");
    serde_json::from_slice(&bytes).expect("JSON")
}

/// Blocks and scales come back byte for byte from GGUF, where gate and up lie apart, and from MLX.
#[test]
fn experts_of_gpt_oss_come_back() {
    let source = gpt_oss();
    let expected = Model::open(source.path()).expect("a model");
    for format in [&GGUF, &MLX] {
        // llama.cpp rounds the bounds of YaRN, which is a loss.
        let lossless = format == &MLX;
        let there = converted(source.path(), &ConvertOptions::new(format).lossless(lossless));
        let back = converted(&there.path, &ConvertOptions::new(&SAFETENSORS).lossless(true));
        assert_eq!(back.store.len(), expected.len());
        for tensor in expected.stored_tensors() {
            let name = tensor.name();
            let found = back.store.stored_tensor(name).unwrap_or_else(|error| panic!("{error}"));
            let widened = found.dtype().expect("a dtype") == DType::F32;
            if format == &GGUF && widened {
                // llama.cpp keeps vectors and routers as F32.
                assert_eq!(found.shape(), tensor.shape(), "{name}");
                assert!(*found.dequantize().unwrap() == *tensor.dequantize().unwrap(), "{name}");
            } else {
                assert!(content(&found) == content(&tensor), "{name}");
            }
        }
        for name in ["gate_up_proj", "down_proj"] {
            assert_eq!(back.how(&format!("model.layers.0.mlp.experts.{name}")), Method::Repacked);
        }
        // Rows that are short and come from two tensors in turn are values, not copies.
        let turns = "model.layers.0.mlp.experts.gate_up_proj_bias";
        assert_eq!(back.how(turns), Method::Exact, "{}", format.name);
        let key = "quantization_config";
        let (found, own) = (config_of(&back.path), config_of(source.path()));
        assert_eq!(found.get(key), own.get(key));
        assert_eq!(found.get("quantization"), None);
        // What GGUF has no key for.
        assert_eq!(found["rope_scaling"]["truncate"], false);
    }
}

/// Plain experts have rows as columns, those of gate and up in turn.
#[test]
fn experts_of_gpt_oss_in_plain_numbers() {
    let source = gpt_oss();
    let model = provider(source.path());
    let options = ConvertOptions::new(&SAFETENSORS).dtype(DType::BF16);
    let gguf = converted(source.path(), &ConvertOptions::new(&GGUF));
    let mlx = converted(source.path(), &ConvertOptions::new(&MLX));
    let bytes = Safetensors::new()
        .tensor(
            "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight",
            "F32",
            &[1, 96],
            f32s(&[0.0; 96]),
        )
        .tensor(
            "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight",
            "F32",
            &[64, 1],
            f32s(&[0.0; 64]),
        )
        .build();
    let adapter = folder(&[
        ("adapter_config.json", br#"{"peft_type": "LORA", "r": 1, "lora_alpha": 1}"#.to_vec()),
        ("adapter_model.safetensors", bytes),
    ]);
    let adapter = Adapter::open(adapter.path()).expect("an adapter");
    let merging = options.clone().adapter(adapter, 1.0);
    for (path, options) in [
        (source.path(), &options),
        (source.path(), &merging),
        (&*gguf.path, &options),
        (&*mlx.path, &options),
    ] {
        let made = converted(path, options);
        let values = |name: &str| model.tensor(name).unwrap().dequantize().unwrap();
        let [gate, up, down] = ["gate", "up", "down"]
            .map(|name| values(&format!("layers.0.ffn.experts.{name}.weight")));
        let mut in_turn = Vec::new();
        let mut turned = Vec::new();
        for expert in 0..3 {
            for input in 0..96 {
                for output in 0..64 {
                    let at = (expert * 64 + output) * 96 + input;
                    in_turn.extend([gate[at], up[at]]);
                }
            }
            for input in 0..64 {
                turned.extend((0..96).map(|output| down[(expert * 96 + output) * 64 + input]));
            }
        }
        for (name, shape, expected) in
            [("gate_up_proj", [3, 96, 128], in_turn), ("down_proj", [3, 64, 96], turned)]
        {
            let name = format!("model.layers.0.mlp.experts.{name}");
            let tensor = made.store.stored_tensor(&name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((tensor.dtype().unwrap(), tensor.shape()), (DType::BF16, &shape[..]));
            assert!(tensor.dequantize().unwrap().to_vec() == expected, "{name}");
        }
        assert_eq!(config_of(&made.path).get("quantization_config"), None);
        // And into GGUF once more, rows as rows.
        let again = converted(&made.path, &ConvertOptions::new(&GGUF));
        let again = provider(&again.path);
        for mapping in &model.resolution().expect("resolved").mapped {
            let name = &*mapping.canonical;
            let again = again.tensor(name).unwrap_or_else(|error| panic!("{error}"));
            assert!(*again.dequantize().unwrap() == *values(name), "{name}");
        }
    }
}

/// A scale that ggml reads as a number and others as none: then the values are written.
#[test]
fn experts_of_gpt_oss_that_mxfp4_of_others_does_not_hold() {
    let source = gpt_oss();
    let gguf = converted(source.path(), &ConvertOptions::new(&GGUF));
    let name = "blk.0.ffn_up_exps.weight";
    let blocks = gguf.store.stored_tensor(name).expect("experts");
    let blocks = blocks.bytes(Part::Weight);
    let blocks = blocks.expect("bytes").into_owned();
    let mut bytes = std::fs::read(&gguf.path).expect("a file");
    let at = bytes.windows(blocks.len()).position(|run| run == blocks).expect("its blocks");
    bytes[at] = 255;
    let file = folder(&[("model.gguf", bytes)]);
    let path = file.path().join("model.gguf");
    let model = provider(&path);
    let made = ops::convert(&model, &ConvertOptions::new(&SAFETENSORS)).expect("a plan");
    let fate = |name: &str| made.tensors.iter().find(|fate| fate.name.ends_with(name)).unwrap();
    for name in ["gate_up_proj", "down_proj"] {
        assert_eq!((fate(name).dtype, fate(name).method), (DType::BF16, Method::Rounded), "{name}");
    }
    let note = made.notes.iter().find(|note| note.contains("no experts are written in MXFP4"));
    assert!(note.expect("a note").contains("a scale that has another value"));
}

/// Checkpoints of gpt-oss with modules for the experts: with the joined projection (Quark) or with both
/// (llm-compressor).
#[test]
fn experts_of_gpt_oss_in_modules_of_their_own() {
    let source = gpt_oss();
    let expected = provider(source.path());
    let values =
        |name: &str| expected.tensor(name).expect("a tensor").dequantize().expect("values");
    let config = config_of(source.path()).to_string().into_bytes();
    for [gate, up, down] in [
        ["{e}.gate_up_proj", "", "{e}.down_proj"],
        ["{e}.gate_proj", "{e}.up_proj", "{e}.down_proj"],
        ["experts.{e}.gate_proj", "experts.{e}.up_proj", "experts.{e}.down_proj"],
    ] {
        let mut file = Safetensors::new();
        for tensor in expected.stored_tensors().filter(|t| !t.name().contains(".experts.")) {
            let bytes = f32s(&tensor.dequantize().expect("values"));
            file = file.tensor(tensor.name(), "F32", tensor.shape(), bytes);
        }
        for part in ["weight", "bias"] {
            let all = |kind: &str| values(&format!("layers.0.ffn.experts.{kind}.{part}"));
            let columns = |of: usize| if part == "bias" { 1 } else { of };
            for expert in 0..3 {
                let rows = |kind: &str, rows: usize, columns: usize| {
                    let len = rows * columns;
                    all(kind)[expert * len..(expert + 1) * len].to_vec()
                };
                let mut put = |module: &str, values: &[f32], columns: usize| {
                    let module = module.replace("{e}", &expert.to_string());
                    let name = format!("model.layers.0.mlp.experts.{module}.{part}");
                    let mut shape = vec![(values.len() / columns) as u64];
                    shape.extend((part == "weight").then_some(columns as u64));
                    file = std::mem::take(&mut file).tensor(&name, "F32", &shape, f32s(values));
                };
                let (wide, narrow) = (columns(96), columns(64));
                let (gates, ups) = (rows("gate", 64, wide), rows("up", 64, wide));
                if up.is_empty() {
                    let pairs = gates.chunks(wide).zip(ups.chunks(wide));
                    let joined: Vec<f32> = pairs.flat_map(|(a, b)| [a, b].concat()).collect();
                    put(gate, &joined, wide);
                } else {
                    put(gate, &gates, wide);
                    put(up, &ups, wide);
                }
                put(down, &rows("down", 96, narrow), narrow);
            }
        }
        let files = folder(&[("config.json", config.clone()), ("model.safetensors", file.build())]);
        let found = provider(files.path());
        assert_eq!(found.resolution().expect("names").unknown, [""; 0], "{gate}");
        for mapping in &expected.resolution().expect("names").mapped {
            let name = &*mapping.canonical;
            let tensor = found.tensor(name).unwrap_or_else(|error| panic!("{gate}: {error}"));
            assert!(*tensor.dequantize().expect("values") == *values(name), "{gate}: {name}");
        }
        // In GGUF, all experts are one tensor again.
        let gguf = converted(files.path(), &ConvertOptions::new(&GGUF).dtype(DType::F32));
        let gguf = provider(&gguf.path);
        for kind in ["gate", "up", "down"] {
            for part in ["weight", "bias"] {
                let name = format!("layers.0.ffn.experts.{kind}.{part}");
                let tensor = gguf.tensor(&name).expect("a tensor");
                assert!(*tensor.dequantize().expect("values") == *values(&name), "{gate}: {name}");
            }
        }
    }
}

/// The class of gpt-oss stretches rotary embeddings unless its config says that they are not.
#[test]
fn gpt_oss_that_is_not_stretched_stays_so() {
    let source = gpt_oss();
    let mut config = config_of(source.path());
    config.as_object_mut().expect("an object").remove("rope_scaling");
    config["rope_parameters"] =
        serde_json::json!({"rope_type": "default", "rope_theta": 150_000.0});
    std::fs::write(source.path().join("config.json"), config.to_string()).expect("written");
    for extra in [true, false] {
        let there = converted(source.path(), &ConvertOptions::new(&GGUF).extra_keys(extra));
        let notes = there.notes.concat();
        assert!(!notes.contains("computes") && !notes.contains("differently"), "{notes}");
        let back = converted(&there.path, &ConvertOptions::new(&SAFETENSORS));
        let config = config_of(&back.path);
        let stated =
            ["rope_scaling", "rope_parameters"].map(|key| config[key]["rope_type"].clone());
        assert!(stated.contains(&"default".into()), "{config}");
    }
}

/// Decoded tensors have the dtype that mlx-lm gives them, that of their scales. Others stay as they are.
#[test]
fn decoded_tensors_have_the_dtype_of_their_scales() {
    for (name, dtype) in [
        ("mlx/llama-q4g32-bf16-sharded", DType::BF16),
        ("mlx/llama-q4g64-f16", DType::F16),
        ("mlx/llama-mxfp8", DType::BF16),
        ("mlx/qwen2-nvfp4", DType::BF16),
    ] {
        let path = fixture(name).expect("the repository has it");
        let model = provider(&path);
        for options in [
            ConvertOptions::new(&MLX).dequantize(true),
            ConvertOptions::new(&SAFETENSORS),
            ConvertOptions::new(&GGUF).dequantize(true),
        ] {
            let there = converted(&path, &options);
            for fate in there.fates.iter().filter(|fate| fate.shape.len() > 1) {
                assert_eq!(fate.dtype, dtype, "{name}: {}", fate.name);
            }
            for canonical in model.names().expect("names") {
                let [source, written] =
                    [&model, &there.store].map(|model| model.tensor(canonical).expect("a tensor"));
                let quantized = source.dtype().is_ok_and(DType::is_quantized);
                let rounded = |value: &f32| match dtype {
                    _ if !quantized => *value,
                    DType::BF16 => half::bf16::from_f32(*value).to_f32(),
                    _ => half::f16::from_f32(*value).to_f32(),
                };
                let [source, written] =
                    [&source, &written].map(|it| it.dequantize().expect("values"));
                assert!(
                    source.iter().map(rounded).eq(written.iter().copied()),
                    "{name}: {canonical}"
                );
            }
        }
    }
}

/// FP8 checkpoints are decoded to BF16, which their config.json states as the dtype of their values.
#[test]
fn fp8_is_decoded_to_the_dtype_of_its_config() {
    for name in ["hfq/ct-fp8-channel", "hfq/fp8-per-tensor"] {
        let model = provider(&fixture(name).expect("the repository has it"));
        for container in [&SAFETENSORS, &GGUF] {
            let options = ConvertOptions::new(container).dequantize(true);
            let plan = ops::convert(&model, &options).unwrap_or_else(|error| panic!("{error}"));
            let matrices = plan.tensors.iter().filter(|tensor| tensor.shape.len() > 1);
            let dtypes: Vec<DType> = matrices.map(|tensor| tensor.dtype).collect();
            assert_eq!(dtypes, vec![DType::BF16; dtypes.len()], "{name}");
            assert!(dtypes.len() > 3, "{name}");
        }
    }
}

/// With a dtype, a checkpoint has one dtype, as after `model.to(dtype)`: a model whose norms stay in
/// another dtype is not loaded by those who add them to its matrices.
#[test]
fn a_dtype_is_that_of_vectors_too() {
    for (name, dtype) in [
        ("hf/llama-f16", DType::BF16),
        ("hf/mixtral-bf16", DType::F16),
        ("hf/mixtral-bf16", DType::F32),
        ("hf/bert-f32", DType::F16),
        ("hfq/ct-fp8-channel", DType::F16),
    ] {
        let model = provider(&fixture(name).expect("the repository has it"));
        let options = ConvertOptions::new(&SAFETENSORS).dtype(dtype);
        let plan = ops::convert(&model, &options).unwrap_or_else(|error| panic!("{error}"));
        let others: Vec<_> = plan.tensors.iter().filter(|tensor| tensor.dtype != dtype).collect();
        assert!(others.is_empty(), "{name}: {others:?}");
    }
}

/// What a publisher keeps in F32 beside narrower tensors needs it, as the biases of routers.
#[test]
fn vectors_that_alone_are_in_f32_stay_so() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let bytes = Safetensors::new()
        .tensor("model.embed_tokens.weight", "BF16", &[4, 8], vec![0; 64])
        .tensor("model.norm.weight", "BF16", &[8], vec![0; 16])
        .tensor("model.layers.0.mlp.gate.e_score_correction_bias", "F32", &[8], f32s(&[0.1; 8]))
        .build();
    let path = folder.path().join("model.safetensors");
    std::fs::write(&path, bytes).expect("a file");
    let plan = |dtype| {
        let options = ConvertOptions::new(&SAFETENSORS).dtype(dtype).one_file(true);
        let plan = ops::convert(&OpenOptions::new().open(&path).expect("a model"), &options);
        let tensors = plan.unwrap_or_else(|error| panic!("{error}")).tensors;
        tensors.iter().map(|tensor| (tensor.name.clone(), tensor.dtype)).collect::<Vec<_>>()
    };
    for (name, dtype) in plan(DType::F16) {
        let expected = if name.ends_with("_bias") { DType::F32 } else { DType::F16 };
        assert_eq!(dtype, expected, "{name}");
    }
    assert!(plan(DType::F32).iter().all(|(_, dtype)| *dtype == DType::F32));
}

/// candle's tensor-tools write GGUF files with the names of the checkpoint and without any key.
#[test]
fn a_gguf_file_without_architecture_keeps_its_names() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("model.gguf");
    let name = "model.layers.0.self_attn.q_proj.weight";
    let block = [&[0x00, 0x38][..], &[2; 32]].concat();
    let bytes = Gguf::new()
        .tensor(name, DType::Q8_0, &[2, 32], [&block[..], &block].concat())
        .tensor("model.norm.weight", DType::F32, &[2], f32s(&[0.5, 2.0]))
        .build();
    std::fs::write(&path, bytes).expect("a file");
    let model = OpenOptions::new().open(&path).expect("a model");
    let options = ConvertOptions::new(&SAFETENSORS);
    let plan = ops::convert(&model, &options.clone().one_file(true));
    let plan = plan.unwrap_or_else(|error| panic!("{error}"));
    let said = "the file has no general.architecture: the tensors keep its names";
    assert!(plan.notes.iter().any(|note| note.starts_with(said)), "{:?}", plan.notes);
    let written = folder.path().join("decoded.safetensors");
    plan.run(&written, &WriteOptions::new()).unwrap_or_else(|error| panic!("{error}"));
    let decoded = OpenOptions::new().open(&written).expect("a model");
    let values =
        |name| decoded.stored_tensor(name).expect("a tensor").dequantize().expect("values");
    assert_eq!(values(name).to_vec(), [1.0; 64]);
    assert_eq!(values("model.norm.weight").to_vec(), [0.5, 2.0]);
    assert_eq!(decoded.stored_tensor(name).expect("a tensor").shape(), [2, 32]);
    let directory = ops::convert(&model, &options).expect_err("no names");
    let advice = directory.advice().unwrap_or_default().to_string();
    assert!(advice.contains("a single file"), "{directory} {advice}");
    // Names of a known architecture that is not stated, or of another program's, are not translated.
    let mlx = ops::convert(&model, &ConvertOptions::new(&MLX)).expect_err("no names");
    assert!(mlx.to_string().contains("no general.architecture"), "{mlx}");
}

/// A file without its config.json can be cast: no name has to be known for that.
#[test]
fn a_file_without_config_in_another_dtype() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("model.safetensors");
    let bytes = Safetensors::new()
        .metadata("note", "kept")
        .tensor("first.weight", "F32", &[1, 2], f32s(&[0.5, 0.1]))
        .tensor("first.bias", "F32", &[1], f32s(&[2.0]))
        .tensor("places", "I64", &[1], vec![7, 0, 0, 0, 0, 0, 0, 0])
        .build();
    std::fs::write(&path, bytes).expect("a file");
    let model = OpenOptions::new().open(&path).expect("a model");
    let options = ConvertOptions::new(&SAFETENSORS).dtype(DType::F16).one_file(true);
    let plan = ops::convert(&model, &options).unwrap_or_else(|error| panic!("{error}"));
    let written = folder.path().join("cast.safetensors");
    plan.run(&written, &WriteOptions::new()).unwrap_or_else(|error| panic!("{error}"));
    let cast = OpenOptions::new().open(&written).expect("a model");
    let label = |name| {
        let tensor = cast.stored_tensor(name).expect("a tensor");
        (tensor.dtype_label().to_string(), tensor.bytes(Part::Weight).expect("bytes").into_owned())
    };
    assert_eq!(label("first.weight"), ("F16".to_owned(), vec![0x00, 0x38, 0x66, 0x2e]));
    assert_eq!(label("first.bias"), ("F16".to_owned(), vec![0x00, 0x40]));
    assert_eq!(label("places").1, [7, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(cast.metadata().str("note"), Some("kept"));
    let names = ops::convert(&model, &ConvertOptions::new(&GGUF)).expect_err("no names");
    assert!(names.to_string().contains("no config"), "{names}");
}
