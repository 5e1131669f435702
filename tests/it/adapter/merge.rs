//! LoRA adapters merged into models: what peft's `merge_and_unload` makes of the same adapter, in
//! every container, and what cannot be merged. `xtask/oracles/lora.py` writes the fixtures.
#![allow(clippy::disallowed_methods, reason = "the sizes are the test's own")]

use std::path::{Path, PathBuf};

use crate::ops::ranks::{of_rank, write};
use crate::support::{Gguf, Kv, Safetensors, f32s, fixture, folder};
use tempfile::TempDir;
use weighbridge::adapter::Adapter;
use weighbridge::container::{GGUF, MLX, OLLAMA, SAFETENSORS};
use weighbridge::metadata::ValueType;
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::write::Method;
use weighbridge::{DType, Error, ErrorKind, Model, Part, WriteOptions};

fn lora(path: &str) -> PathBuf {
    fixture(&format!("lora/{path}")).expect("the repository has it")
}

fn open(path: &Path) -> Model {
    Model::open(path).unwrap_or_else(|error| panic!("{error}"))
}

/// A model that was written into a temporary folder.
struct Written {
    model: Model,
    path: PathBuf,
    notes: Vec<String>,
    methods: Vec<(String, Method)>,
    _folder: TempDir,
}

impl Written {
    fn merged(&self) -> Vec<&str> {
        let merged = self.methods.iter().filter(|(_, method)| *method == Method::Merged);
        merged.map(|(name, _)| name.as_str()).collect()
    }
}

fn convert(path: &Path, options: &ConvertOptions) -> Written {
    let plan = ops::convert(&open(path), options).unwrap_or_else(|error| panic!("{error}"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("out");
    plan.run(&path, &WriteOptions::new()).unwrap_or_else(|error| panic!("{error}"));
    let methods = plan.tensors.iter().map(|tensor| (tensor.name.clone(), tensor.method)).collect();
    Written { model: open(&path), path, notes: plan.notes.clone(), methods, _folder: folder }
}

fn with(options: ConvertOptions, adapter: &Path) -> ConvertOptions {
    let adapter = Adapter::open(adapter).unwrap_or_else(|error| panic!("{error}"));
    options.adapter(adapter, 1.0)
}

fn refusal(model: &Path, adapter: &Path) -> Error {
    let adapter = Adapter::open(adapter);
    let planned = adapter.and_then(|adapter| {
        ops::convert(&open(model), &ConvertOptions::new(&SAFETENSORS).adapter(adapter, 1.0))
    });
    planned.expect_err("the adapter cannot be merged")
}

/// The stored bytes of every tensor of `expected` are those of `found`.
#[track_caller]
fn same_bytes(found: &Model, expected: &Model) {
    for tensor in expected.stored_tensors() {
        let name = tensor.name();
        let other = found.stored_tensor(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(other.dtype().ok(), tensor.dtype().ok(), "{name}");
        assert_eq!(other.shape(), tensor.shape(), "{name}");
        assert!(other.bytes(Part::Weight).ok() == tensor.bytes(Part::Weight).ok(), "{name}");
    }
}

#[test]
fn merges_what_peft_merges() {
    for (case, changed) in
        [("llama", 14), ("llama-rslora", 4), ("gpt2", 4), ("qwen3moe", 10), ("gpt-oss", 3)]
    {
        let (base, adapter) = (lora(&format!("{case}/base")), lora(&format!("{case}/adapter")));
        let merged = convert(&base, &with(ConvertOptions::new(&SAFETENSORS), &adapter));
        let expected = open(&lora(&format!("{case}/merged.safetensors")));
        assert_eq!(expected.len(), changed, "{case}");
        same_bytes(&merged.model, &expected);
        let mut names = merged.merged();
        names.sort_unstable();
        let mut changed: Vec<String> =
            expected.stored_tensors().map(|tensor| tensor.name().to_owned()).collect();
        changed.sort_unstable();
        assert_eq!(names, changed, "{case}");
        // All others are copied.
        for tensor in open(&base).stored_tensors() {
            if !names.contains(&tensor.name()) {
                let copy = merged.model.stored_tensor(tensor.name()).expect("a copy");
                assert!(copy.bytes(Part::Weight).ok() == tensor.bytes(Part::Weight).ok());
            }
        }
    }
}

#[test]
fn merging_and_converting_are_one_step() {
    for case in ["llama", "llama-rslora", "gpt2", "qwen3moe", "gpt-oss"] {
        let (base, adapter) = (lora(&format!("{case}/base")), lora(&format!("{case}/adapter")));
        let merged = convert(&base, &with(ConvertOptions::new(&SAFETENSORS), &adapter));
        for container in [&GGUF, &MLX] {
            let at_once = convert(&base, &with(ConvertOptions::new(container), &adapter));
            let expected = convert(&merged.path, &ConvertOptions::new(container));
            assert_eq!(at_once.model.len(), expected.model.len());
            same_bytes(&at_once.model, &expected.model);
            // The base in that container first, then the adapter.
            let base = convert(&base, &ConvertOptions::new(container));
            let later = convert(&base.path, &with(ConvertOptions::new(container), &adapter));
            same_bytes(&later.model, &expected.model);
            let back = convert(&base.path, &with(ConvertOptions::new(&SAFETENSORS), &adapter));
            for name in merged.merged() {
                let (back, direct) =
                    (back.model.stored_tensor(name), merged.model.stored_tensor(name));
                let (back, direct) = (back.expect("the tensor"), direct.expect("the tensor"));
                assert!(back.bytes(Part::Weight).ok() == direct.bytes(Part::Weight).ok(), "{name}");
            }
        }
    }
}

/// The config says which program wrote the matrices, and in which order.
#[test]
fn experts_in_another_order_are_refused() {
    let (base, adapter) = (lora("qwen3moe/base"), lora("qwen3moe/adapter"));
    let with_keys = |key: &str, value: serde_json::Value| {
        let config =
            std::fs::read_to_string(adapter.join("adapter_config.json")).expect("a config");
        let mut config: serde_json::Value = serde_json::from_str(&config).expect("JSON");
        config[key] = value;
        let weights = std::fs::read(adapter.join("adapter_model.safetensors")).expect("weights");
        folder(&[
            ("adapter_config.json", config.to_string().into_bytes()),
            ("adapter_model.safetensors", weights),
        ])
    };
    let names = ["mlp.experts.gate_up_proj"];
    for (key, value, fault) in [
        ("peft_version", "0.18.1".into(), "PEFT before 0.19"),
        ("peft_version", serde_json::Value::Null, "PEFT before 0.19"),
        ("auto_mapping", serde_json::json!({"unsloth_fixed": true}), "Unsloth stores"),
        ("target_parameters", names.as_slice().into(), "a change of (3, 16, 12)"),
        ("rank_pattern", serde_json::json!({"mlp.experts.down_proj": 1}), "different numbers"),
        ("r", 5.into(), "rank 6, but adapter_config.json states 5"),
    ] {
        let error = refusal(&base, with_keys(key, value).path()).to_string();
        assert!(error.contains(fault), "{key}: {error}");
    }
}

#[test]
fn an_adapter_in_gguf_is_the_same_adapter() {
    // llama.cpp has one alpha for all tensors, so the patterns of alpha are taken out of PEFT's.
    let plain = with_one_alpha();
    let (base, gguf) = (lora("llama/base"), lora("llama/adapter.gguf"));
    let expected = convert(&base, &with(ConvertOptions::new(&SAFETENSORS), plain.path()));
    let merged = convert(&base, &with(ConvertOptions::new(&SAFETENSORS), &gguf));
    assert_eq!(merged.merged().len(), 14);
    // PEFT rounds the change of an embedding before it is added; llama.cpp does not.
    let embedding = "model.embed_tokens.weight";
    for tensor in expected.model.stored_tensors().filter(|tensor| tensor.name() != embedding) {
        let found = merged.model.stored_tensor(tensor.name()).expect("the tensor");
        assert!(
            found.bytes(Part::Weight).ok() == tensor.bytes(Part::Weight).ok(),
            "{}",
            tensor.name()
        );
    }
    let values = |model: &Model| {
        let tensor = model.stored_tensor(embedding).expect("the embedding");
        tensor.dequantize().expect("values")
    };
    for (a, b) in values(&merged.model).iter().zip(values(&expected.model).iter()) {
        assert!((a - b).abs() <= 0.004 * a.abs().max(1.0), "{a} {b}");
    }
    let expected = merged;
    let base = convert(&base, &ConvertOptions::new(&GGUF));
    let merged = convert(&base.path, &with(ConvertOptions::new(&GGUF), &gguf));
    let expected = convert(&expected.path, &ConvertOptions::new(&GGUF));
    assert_eq!(merged.merged().len(), 14);
    same_bytes(&merged.model, &expected.model);
    let line = "merged LoRA adapter";
    assert!(merged.notes.iter().any(|note| note.starts_with(line)), "{:?}", merged.notes);
}

/// A model with one 4x32 matrix that any dtype can hold, and an adapter of rank 1 that adds `scale`
/// times the row numbers to the columns.
fn small_adapter(alpha: f32, b: [f32; 4]) -> Vec<u8> {
    Gguf::new()
        .key("general.architecture", Kv::text("llama"))
        .key("general.type", Kv::text("adapter"))
        .key("adapter.type", Kv::text("lora"))
        .key("adapter.lora.alpha", Kv::F32(alpha))
        .tensor("output.weight.lora_a", DType::F32, &[1, 32], f32s(&[1.0; 32]))
        .tensor("output.weight.lora_b", DType::F32, &[4, 1], f32s(&b))
        .build()
}

fn small_model(dtype: DType, bytes: Vec<u8>) -> Vec<u8> {
    Gguf::new()
        .key("general.architecture", Kv::text("llama"))
        .tensor("output.weight", dtype, &[4, 32], bytes)
        .build()
}

fn merged_values(
    model: Vec<u8>,
    adapters: &[(Vec<u8>, f64)],
    dtype: Option<DType>,
) -> (DType, Vec<f32>) {
    let files = folder(&[("model.gguf", model)]);
    let mut options = ConvertOptions::new(&GGUF);
    if let Some(dtype) = dtype {
        options = options.dtype(dtype);
    }
    for (number, (bytes, factor)) in adapters.iter().enumerate() {
        let path = files.path().join(format!("{number}.gguf"));
        std::fs::write(&path, bytes).expect("written");
        options = options.adapter(Adapter::open(&path).expect("an adapter"), *factor);
    }
    let plan = ops::convert(&open(&files.path().join("model.gguf")), &options).expect("a plan");
    let path = files.path().join("merged.gguf");
    plan.run(&path, &WriteOptions::new().allow_incomplete(true)).expect("written");
    let model = open(&path);
    let tensor = model.stored_tensor("output.weight").expect("the matrix");
    (tensor.dtype().expect("a dtype"), tensor.dequantize().expect("values").to_vec())
}

#[test]
fn dtypes_scales_and_several_adapters() {
    let zeros = || small_model(DType::F32, f32s(&[0.0; 128]));
    let rows = |values: &[f32]| values.iter().step_by(32).copied().collect::<Vec<f32>>();
    let b = [1.0, 2.0, 3.0, 4.0];
    // Without alpha, the factor alone counts.
    let (dtype, values) = merged_values(zeros(), &[(small_adapter(0.0, b), 1.0)], None);
    assert_eq!((dtype, rows(&values)), (DType::F32, vec![1.0, 2.0, 3.0, 4.0]));
    let (_, values) = merged_values(zeros(), &[(small_adapter(8.0, b), 0.5)], None);
    assert_eq!(rows(&values), [4.0, 8.0, 12.0, 16.0]);
    let two = [(small_adapter(0.0, b), 1.0), (small_adapter(2.0, [1.0; 4]), -1.0)];
    let (_, values) = merged_values(zeros(), &two, None);
    assert_eq!(rows(&values), [-1.0, 0.0, 1.0, 2.0]);
    // F16 stays F16, BF16 stays BF16, quantized matrices become F16, unless a dtype is requested.
    let adapter = || vec![(small_adapter(0.0, b), 1.0)];
    let (dtype, values) = merged_values(small_model(DType::F16, vec![0; 256]), &adapter(), None);
    assert_eq!((dtype, rows(&values)), (DType::F16, b.to_vec()));
    let (dtype, values) = merged_values(small_model(DType::BF16, vec![0; 256]), &adapter(), None);
    assert_eq!((dtype, rows(&values)), (DType::BF16, b.to_vec()));
    // Q8_0: a scale of 1 and codes of 2.
    let block = [vec![0x00, 0x3c], vec![2; 32]].concat();
    let (dtype, values) =
        merged_values(small_model(DType::Q8_0, block.repeat(4)), &adapter(), None);
    assert_eq!((dtype, rows(&values)), (DType::F16, vec![3.0, 4.0, 5.0, 6.0]));
    let all = Some(DType::Q8_0);
    let (dtype, values) = merged_values(small_model(DType::F16, vec![0; 256]), &adapter(), all);
    assert_eq!(dtype, DType::Q8_0);
    assert!(rows(&values).iter().zip(b).all(|(a, b)| (a - b).abs() < 0.02), "{values:?}");
}

#[test]
fn experts_stored_one_by_one_and_together() {
    let base = fixture("hf/mixtral-bf16").expect("the repository has it");
    let name = |expert: u64| format!("model.layers.0.block_sparse_moe.experts.{expert}.w1");
    let model = open(&base);
    let shape =
        model.stored_tensor(&format!("{}.weight", name(1))).expect("an expert").shape().to_vec();
    let [rows, columns] = shape.as_slice() else { panic!("{shape:?}") };
    let a: Vec<f32> = (0..*columns).map(|n| n as f32 / 64.0).collect();
    let b: Vec<f32> = (0..*rows).map(|n| 1.0 - n as f32 / 32.0).collect();
    let stored = |matrix: &str| format!("base_model.model.{}.lora_{matrix}.weight", name(1));
    let weights = Safetensors::new()
        .tensor(&stored("A"), "F32", &[1, *columns], f32s(&a))
        .tensor(&stored("B"), "F32", &[*rows, 1], f32s(&b))
        .build();
    let config = br#"{"peft_type": "LORA", "r": 1, "lora_alpha": 1}"#.to_vec();
    let peft = folder(&[("adapter_config.json", config), ("adapter_model.safetensors", weights)]);
    // In GGUF, the products of all experts are one tensor; those of the others are zero.
    let experts = model.config().expect("a config").n_experts.value as usize;
    let mut all = (vec![0.0; experts * a.len()], vec![0.0; experts * b.len()]);
    all.0[a.len()..2 * a.len()].copy_from_slice(&a);
    all.1[b.len()..2 * b.len()].copy_from_slice(&b);
    let gguf = Gguf::new()
        .key("general.architecture", Kv::text("llama"))
        .key("general.type", Kv::text("adapter"))
        .key("adapter.type", Kv::text("lora"))
        .key("adapter.lora.alpha", Kv::F32(1.0))
        .tensor(
            "blk.0.ffn_gate_exps.weight.lora_a",
            DType::F32,
            &[experts as u64, 1, *columns],
            f32s(&all.0),
        )
        .tensor(
            "blk.0.ffn_gate_exps.weight.lora_b",
            DType::F32,
            &[experts as u64, *rows, 1],
            f32s(&all.1),
        )
        .build();
    let gguf_file = folder(&[("adapter.gguf", gguf)]);
    let gguf = gguf_file.path().join("adapter.gguf");
    let merged = convert(&base, &with(ConvertOptions::new(&SAFETENSORS), peft.path()));
    assert_eq!(merged.merged(), [format!("{}.weight", name(1))]);
    let own = model.stored_tensor(&format!("{}.weight", name(1))).expect("an expert");
    let (own, found) = (own.dequantize().expect("values"), {
        let tensor = merged.model.stored_tensor(&format!("{}.weight", name(1))).expect("an expert");
        tensor.dequantize().expect("values")
    });
    for (place, (own, found)) in own.iter().zip(found.iter()).enumerate() {
        let (row, column) = (place / a.len(), place % a.len());
        let exact = own + b[row] * a[column];
        assert_eq!(*found, half::bf16::from_f32(exact).to_f32(), "{row} {column}");
    }
    let by_gguf = convert(&base, &with(ConvertOptions::new(&GGUF), &gguf));
    let by_peft = convert(&base, &with(ConvertOptions::new(&GGUF), peft.path()));
    assert_eq!(by_peft.merged(), ["blk.0.ffn_gate_exps.weight"]);
    same_bytes(&by_gguf.model, &by_peft.model);
    same_bytes(&by_peft.model, &convert(&merged.path, &ConvertOptions::new(&GGUF)).model);
}

/// The adapter of `llama` with other settings.
fn adapter_with(change: impl FnOnce(&mut serde_json::Value)) -> TempDir {
    let adapter = lora("llama/adapter");
    let config = std::fs::read_to_string(adapter.join("adapter_config.json")).expect("a config");
    let mut config: serde_json::Value = serde_json::from_str(&config).expect("JSON");
    change(&mut config);
    let weights = std::fs::read(adapter.join("adapter_model.safetensors")).expect("weights");
    folder(&[
        ("adapter_config.json", config.to_string().into_bytes()),
        ("adapter_model.safetensors", weights),
    ])
}

/// PEFT merges other adapters than LoRA into the weights, except those that learn a prompt or depend on the input.
#[test]
fn other_types_of_peft() {
    for (stated, kind, advice) in [
        ("IA3", "IA3", "merge_and_unload"),
        ("BOFT", "BOFT", "merge_and_unload"),
        ("PREFIX_TUNING", "PREFIX_TUNING", "run it with PEFT"),
        ("xlora", "xlora", "run it with PEFT"),
        ("lora", "LoRA", ""),
    ] {
        let adapter = adapter_with(|config| config["peft_type"] = stated.into());
        let model = Model::open(adapter.path()).expect("a directory");
        let adapter = Adapter::of(&model).expect("read").expect("an adapter");
        assert_eq!(adapter.kind(), kind);
        let said = adapter.obstacle().and_then(weighbridge::Error::advice).unwrap_or_default();
        assert_eq!(advice.is_empty(), adapter.obstacle().is_none(), "{said}");
        assert!(said.to_string().contains(advice), "{said}");
        // Its tensors have other meanings than the names of LoRA's.
        assert_eq!(adapter.is_empty(), kind != "LoRA", "{}", adapter.summary());
    }
}

#[test]
fn refuses_what_is_more_than_a_product() {
    let base = lora("llama/base");
    let cases: [(&str, serde_json::Value, &str); 4] = [
        ("use_dora", true.into(), "DoRA scales rows by their norms"),
        ("peft_type", "LOHA".into(), "LOHA, but only LORA can be merged"),
        ("init_lora_weights", "pissa_niter_4".into(), "\"pissa_niter_4\" changes the base model"),
        ("layer_replication", serde_json::json!([[0, 1]]), "the adapter repeats layers"),
    ];
    for (key, value, fault) in cases {
        let adapter = adapter_with(|config| config[key] = value);
        let error = refusal(&base, adapter.path());
        assert_eq!((error.kind(), error.key()), (ErrorKind::Unsupported, Some(key)));
        assert!(error.to_string().contains(fault), "{error}");
    }
    let magnitude = "base_model.model.model.layers.0.mlp.up_proj.lora_magnitude_vector";
    let tensor = |name: &str| Safetensors::new().tensor(name, "F32", &[2], f32s(&[1.0; 2])).build();
    for (name, fault) in [
        (magnitude, "DoRA"),
        ("base_model.model.model.layers.0.mlp.up_proj.lora_B.bias", "a bias without its matrices"),
        ("base_model.model.lm_head.weight", "saves a module as a whole"),
    ] {
        let config = br#"{"peft_type": "LORA", "r": 4, "lora_alpha": 4}"#.to_vec();
        let files =
            folder(&[("adapter_config.json", config), ("adapter_model.safetensors", tensor(name))]);
        let error = refusal(&base, files.path());
        assert_eq!((error.kind(), error.tensor()), (ErrorKind::Unsupported, Some(name)));
        assert!(error.to_string().contains(fault), "{error}");
    }
    let options = with(ConvertOptions::new(&SAFETENSORS), &lora("llama/adapter")).lossless(true);
    let error = ops::convert(&open(&base), &options).expect_err("not lossless");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let gguf = convert(&base, &ConvertOptions::new(&GGUF));
    let options = with(ConvertOptions::new(&OLLAMA), &lora("llama/adapter"));
    let error = ops::convert(&open(&gguf.path), &options).expect_err("no GGUF in Ollama's store");
    assert!(error.advice().is_some_and(|advice| advice.contains("GGUF file")), "{error}");
}

/// Writes an adapter as a GGUF file for a base.
fn in_gguf(adapter: &Path, base: &Path) -> Result<(PathBuf, TempDir), Error> {
    let plan = ops::adapter_in_gguf(&Adapter::open(adapter)?, &Model::open(base)?, None)?;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("adapter.gguf");
    plan.run(&path, &WriteOptions::new())?;
    Ok((path, folder))
}

/// The adapter of `llama` with one alpha, as llama.cpp has it.
fn with_one_alpha() -> TempDir {
    adapter_with(|config| config["alpha_pattern"] = serde_json::json!({}))
}

#[test]
fn adapters_are_written_as_llama_cpp_s_converter_writes_them() {
    let (base, adapter) = (lora("llama/base"), with_one_alpha());
    let expected = open(&lora("llama/adapter.gguf"));
    let gguf = convert(&base, &ConvertOptions::new(&GGUF));
    for base in [&base, &gguf.path] {
        let (path, _folder) = in_gguf(adapter.path(), base).expect("an adapter");
        let found = open(&path);
        assert_eq!(found.len(), expected.len());
        same_bytes(&found, &expected);
        let keys = |model: &Model| {
            let metadata = model.metadata();
            let text = |key: &str| metadata.str(key).map(str::to_owned);
            let texts = ["general.architecture", "general.type", "adapter.type"].map(text);
            (texts, metadata.f64("adapter.lora.alpha"))
        };
        assert_eq!(keys(&found), keys(&expected));
    }
    // Fused matrices, and matrices that are stored transposed: the merged models are the same.
    for case in ["llama-rslora", "gpt2"] {
        let (base, adapter) = (lora(&format!("{case}/base")), lora(&format!("{case}/adapter")));
        let (path, _folder) = in_gguf(&adapter, &base).unwrap_or_else(|error| panic!("{error}"));
        let by_gguf = convert(&base, &with(ConvertOptions::new(&SAFETENSORS), &path));
        let by_peft = convert(&base, &with(ConvertOptions::new(&SAFETENSORS), &adapter));
        same_bytes(&by_gguf.model, &by_peft.model);
    }
}

#[test]
fn refuses_adapters_that_gguf_cannot_hold() {
    let base = lora("llama/base");
    let refusal = |adapter: &Path, base: &Path| in_gguf(adapter, base).expect_err("no such GGUF");
    let error = refusal(&lora("llama/adapter"), &base);
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("llama.cpp has one alpha for all matrices"), "{error}");
    let error = refusal(with_one_alpha().path(), &lora("gpt2/base"));
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    let pair = |module: &str, rows: u64, columns: u64, more: &[&str]| {
        let name = |side: &str| format!("base_model.model.{module}.lora_{side}.weight");
        let zeros = |count: u64| f32s(&vec![0.0; count as usize]);
        let mut file = Safetensors::new()
            .tensor(&name("A"), "F32", &[1, columns], zeros(columns))
            .tensor(&name("B"), "F32", &[rows, 1], zeros(rows));
        for other in more {
            file = file.tensor(other, "F32", &[32], zeros(32));
        }
        let config = br#"{"peft_type": "LORA", "r": 1, "lora_alpha": 1}"#.to_vec();
        folder(&[("adapter_config.json", config), ("adapter_model.safetensors", file.build())])
    };
    let q = "model.layers.0.self_attn.q_proj";
    for more in [
        "base_model.model.model.norm.weight",
        "base_model.model.model.layers.0.self_attn.q_proj.lora_B.bias",
    ] {
        let error = refusal(pair(q, 32, 32, &[more]).path(), &base);
        assert_eq!(error.tensor(), Some(more));
        assert!(error.to_string().contains("llama.cpp's adapters have nothing else"), "{error}");
    }
    let mixtral = fixture("hf/mixtral-bf16").expect("the repository has it");
    let expert = "model.layers.0.block_sparse_moe.experts.1.w1";
    let shape = open(&mixtral).stored_tensor(&format!("{expert}.weight")).expect("an expert");
    let &[rows, columns] = shape.shape() else { panic!("{:?}", shape.shape()) };
    let error = refusal(pair(expert, rows, columns, &[]).path(), &mixtral);
    assert!(error.to_string().contains("an adapter of experts"), "{error}");
    // The sample's embedding is also its output matrix.
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/sample/hf");
    let error = refusal(pair("model.embed_tokens", 256, 512, &[]).path(), &sample);
    assert!(error.to_string().contains("also the output matrix"), "{error}");
}

#[test]
fn names_what_the_model_lacks() {
    let error = refusal(&lora("gpt2/base"), &lora("llama/adapter"));
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    let text = error.to_string();
    assert!(text.contains("embed_tokens") || text.contains("model.layers.0"), "{text}");
    assert!(text.contains("more that the adapter changes"), "{text}");
    // An adapter for another family in GGUF.
    let error = refusal(&lora("gpt2/base"), &lora("llama/adapter.gguf"));
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    assert!(error.to_string().contains("\"llama\", but the model is gpt2"), "{error}");
    // A wrong width, a wrong rank, and half of a pair.
    let pair = |a: &[u64], b: &[u64], config: &[u8]| {
        let at = "base_model.model.model.layers.0.self_attn.q_proj.lora_";
        let count = |shape: &[u64]| vec![0.5; shape.iter().product::<u64>() as usize];
        let mut file = Safetensors::new();
        for (side, shape) in [("A", a), ("B", b)] {
            if !shape.is_empty() {
                file =
                    file.tensor(&format!("{at}{side}.weight"), "F32", shape, f32s(&count(shape)));
            }
        }
        let files = folder(&[
            ("adapter_config.json", config.to_vec()),
            ("adapter_model.safetensors", file.build()),
        ]);
        refusal(&lora("llama/base"), files.path())
    };
    let rank = |rank: u64| format!(r#"{{"peft_type": "LORA", "r": {rank}}}"#).into_bytes();
    let error = pair(&[2, 31], &[32, 2], &rank(2));
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    assert!(error.tensor().is_some() && error.to_string().contains("does not fit"), "{error}");
    let error = pair(&[2, 32], &[32, 3], &rank(2));
    assert!(error.to_string().contains("rank 2, but"), "{error}");
    let error = pair(&[2, 32], &[32, 2], &rank(4));
    assert!(error.to_string().contains("rank 2, but adapter_config.json states 4"), "{error}");
    let error = pair(&[2, 32], &[], &rank(2));
    assert!(error.to_string().contains("lacks matrix B"), "{error}");
}

#[test]
fn names_with_and_without_prefixes() {
    let adapter = lora("llama-rslora/adapter");
    let source = open(&adapter);
    let config = std::fs::read(adapter.join("adapter_config.json")).expect("a config");
    let expected = open(&lora("llama-rslora/merged.safetensors"));
    let renamed: [fn(&str) -> String; 4] = [
        |name| name.replace("base_model.model.", ""),
        |name| name.replace("base_model.model.model.", ""),
        |name| name.replace("base_model.model.model.", "base_model.model."),
        |name| name.replace(".weight", ".default.weight"),
    ];
    for rename in renamed {
        let mut file = Safetensors::new();
        for tensor in source.stored_tensors() {
            let bytes = tensor.bytes(Part::Weight).expect("bytes").into_owned();
            file = file.tensor(&rename(tensor.name()), "F32", tensor.shape(), bytes);
        }
        let files = folder(&[
            ("adapter_config.json", config.clone()),
            ("adapter_model.safetensors", file.build()),
        ]);
        let options = with(ConvertOptions::new(&SAFETENSORS), files.path());
        same_bytes(&convert(&lora("llama-rslora/base"), &options).model, &expected);
    }
}

/// A wrapper around a model adds `model.` to the names of all modules.
#[test]
fn names_of_a_wrapped_model() {
    use crate::arch::families;
    let opened = families::directory(&families::listed("t5", &serde_json::json!({})));
    let module = "encoder.block.0.layer.0.SelfAttention.q";
    let tensor = opened.model.stored_tensor(&format!("{module}.weight")).expect("a matrix");
    let [rows, columns] = *tensor.shape() else { panic!("{:?}", tensor.shape()) };
    let merged = ["", "model."].map(|wrapper| {
        let stored = |side| format!("base_model.model.{wrapper}{module}.lora_{side}.weight");
        let file = Safetensors::new()
            .tensor(&stored("A"), "F32", &[1, columns], f32s(&vec![0.5; columns as usize]))
            .tensor(&stored("B"), "F32", &[rows, 1], f32s(&vec![0.25; rows as usize]));
        let config = br#"{"peft_type": "LORA", "r": 1, "lora_alpha": 1}"#.to_vec();
        let files =
            folder(&[("adapter_config.json", config), ("adapter_model.safetensors", file.build())]);
        let options = with(ConvertOptions::new(&SAFETENSORS), files.path());
        convert(opened.model.path(), &options)
    });
    assert_eq!(merged[0].merged(), [format!("{module}.weight")]);
    same_bytes(&merged[1].model, &merged[0].model);
}

/// A product for fused rows needs all of them.
#[test]
fn a_part_of_a_fused_matrix_is_not_the_matrix() {
    let square = || f32s(&[0.0; 16]);
    let model = Gguf::new()
        .key("general.architecture", Kv::text("phi3"))
        .key("phi3.block_count", Kv::U32(1))
        .key("phi3.embedding_length", Kv::U32(4))
        .key("phi3.attention.head_count", Kv::U32(1))
        .tensor("blk.0.attn_q.weight", DType::F32, &[4, 4], square())
        .tensor("blk.0.attn_k.weight", DType::F32, &[4, 4], square());
    let files = folder(&[("model.gguf", model.build())]);
    let stored =
        |side| format!("base_model.model.model.layers.0.self_attn.qkv_proj.lora_{side}.weight");
    let file = Safetensors::new().tensor(&stored("A"), "F32", &[1, 4], f32s(&[1.0; 4])).tensor(
        &stored("B"),
        "F32",
        &[12, 1],
        f32s(&[1.0; 12]),
    );
    let config = br#"{"peft_type": "LORA", "r": 1, "lora_alpha": 1}"#.to_vec();
    let adapter =
        folder(&[("adapter_config.json", config), ("adapter_model.safetensors", file.build())]);
    let error = refusal(&files.path().join("model.gguf"), adapter.path());
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let lacking = "the model has no tensor \"model.layers.0.self_attn.qkv_proj\"";
    assert!(error.to_string().contains(lacking), "{error}");
}

#[test]
fn adapters_describe_themselves() {
    let adapter = Adapter::open(lora("llama/adapter")).expect("an adapter");
    assert_eq!((adapter.format(), adapter.ranks()), ("peft", vec![2, 4]));
    assert_eq!((adapter.alpha(), adapter.len()), (Some(6.0), 14));
    assert!(!adapter.is_rank_stabilized() && adapter.obstacle().is_none());
    let mut targets = adapter.targets();
    targets.sort_unstable();
    let all = [
        "down_proj",
        "embed_tokens",
        "gate_proj",
        "k_proj",
        "lm_head",
        "o_proj",
        "q_proj",
        "v_proj",
    ];
    assert_eq!(targets, all);
    let adapter = Adapter::open(lora("llama/adapter.gguf")).expect("an adapter");
    assert_eq!((adapter.format(), adapter.len()), ("gguf", 14));
    assert!(adapter.targets().contains(&"attn_q"), "{:?}", adapter.targets());
    let adapter = Adapter::open(lora("llama-rslora/adapter")).expect("an adapter");
    assert!(
        adapter.is_rank_stabilized() && adapter.summary().starts_with("rank 3, alpha 5 (rank-")
    );
    let error = Adapter::open(lora("llama/base")).expect_err("no adapter");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

/// The same matrix of an adapter under two names, and half of a pair.
#[test]
fn each_matrix_is_there_once() {
    let opened = |names: &[&str]| {
        let file = names.iter().fold(Safetensors::new(), |file, name| {
            file.tensor(&format!("base_model.model.{name}"), "F32", &[1, 1], f32s(&[1.0]))
        });
        let config = br#"{"peft_type": "LORA", "r": 1}"#.to_vec();
        let files =
            folder(&[("adapter_config.json", config), ("adapter_model.safetensors", file.build())]);
        Adapter::open(files.path())
    };
    let fault = |names: &[&str]| {
        let error = opened(names).expect_err("not a pair");
        assert_eq!(error.kind(), ErrorKind::Malformed);
        let text = error.to_string();
        text.split_once("tensor ").expect("a tensor").1.to_owned()
    };
    assert_eq!(
        fault(&["up.lora_A.weight", "up.lora_B.weight", "up.lora_A.default.weight"]),
        "\"base_model.model.up.lora_A.default.weight\": it and \"base_model.model.up.lora_A.weight\" are the same matrix of one adapter"
    );
    let lacks = |side: &str, name: &str| {
        format!("\"base_model.model.{name}\": the adapter lacks matrix {side} of up")
    };
    assert_eq!(fault(&["up.lora_B.weight"]), lacks("A", "up.lora_B.weight"));
    assert_eq!(fault(&["up.lora_A.weight"]), lacks("B", "up.lora_A.weight"));
    // A module whose name only begins like that of a matrix.
    let pair = ["up.lora_A.weight", "up.lora_B.weight", "up.lora_Adapter.weight"];
    let adapter = opened(&pair).expect("a pair");
    assert_eq!((adapter.len(), adapter.targets()), (1, vec!["up"]));
    let obstacle = adapter.obstacle().expect("an obstacle");
    assert_eq!(obstacle.tensor(), Some("base_model.model.up.lora_Adapter.weight"));
    assert!(obstacle.to_string().contains("saves a module as a whole"), "{obstacle}");
}

/// An adapter in GGUF of one matrix, with values of its own.
fn gguf_adapter(architecture: &str, target: &str, a: [u64; 2], b: [u64; 2]) -> Gguf {
    let values = |shape: [u64; 2], step: f32| {
        f32s(&(0..shape[0] * shape[1]).map(|n| n as f32 * step - 1.0).collect::<Vec<f32>>())
    };
    Gguf::new()
        .key("general.architecture", Kv::text(architecture))
        .key("general.type", Kv::text("adapter"))
        .key("adapter.type", Kv::text("lora"))
        .key("adapter.lora.alpha", Kv::F32(1.0))
        .tensor(format!("{target}.lora_a"), DType::F32, &a, values(a, 0.125))
        .tensor(format!("{target}.lora_b"), DType::F32, &b, values(b, 0.25))
}

#[test]
fn an_adapter_for_some_inputs_alone_is_not_merged() {
    let plain = || gguf_adapter("llama", "output.weight", [1, 32], [4, 1]);
    let tokens = Kv::Array(4, vec![Kv::U32(7), Kv::U32(9)]);
    let activated = plain().key("adapter.alora.invocation_tokens", tokens);
    let model = folder(&[("model.gguf", small_model(DType::F32, f32s(&[0.0; 128])))]);
    for (file, fault) in [(plain(), None), (activated, Some("only after its invocation tokens"))] {
        let file = folder(&[("adapter.gguf", file.build())]);
        let adapter = Adapter::open(file.path().join("adapter.gguf")).expect("an adapter");
        let options = ConvertOptions::new(&GGUF).adapter(adapter, 1.0);
        let planned = ops::convert(&open(&model.path().join("model.gguf")), &options);
        let Some(fault) = fault else {
            assert!(planned.is_ok());
            continue;
        };
        let error = planned.map(drop).expect_err("it cannot be merged");
        assert_eq!(
            (error.kind(), error.key()),
            (ErrorKind::Unsupported, Some("adapter.alora.invocation_tokens"))
        );
        assert!(error.to_string().contains(fault), "{error}");
        // The adapter itself keeps its tokens.
        let adapter = Adapter::open(file.path().join("adapter.gguf")).expect("an adapter");
        let model = open(&model.path().join("model.gguf"));
        let plan = ops::adapter_in_gguf(&adapter, &model, None).expect("a plan");
        let path = file.path().join("out.gguf");
        plan.run(&path, &WriteOptions::new()).expect("written");
        let tokens =
            open(&path).metadata().array("adapter.alora.invocation_tokens").map(|tokens| {
                (
                    tokens.element_type(),
                    tokens.integers().into_iter().flatten().collect::<Vec<i128>>(),
                )
            });
        assert_eq!(tokens, Some((ValueType::U32, vec![7, 9])));
        // Rows as long as the rank do not divide into blocks, and are F16, as the script writes them.
        let plan = ops::adapter_in_gguf(&adapter, &model, Some(DType::Q8_0)).expect("a plan");
        let dtypes: Vec<DType> = plan.tensors.iter().map(|tensor| tensor.dtype).collect();
        assert_eq!(dtypes, [DType::Q8_0, DType::F16]);
        assert!(plan.notes.iter().any(|note| note.contains("are F16")), "{:?}", plan.notes);
    }
}

/// A BERT's pooler is not in its GGUF file either.
#[test]
fn what_the_base_loses_in_gguf_is_left_out_of_an_adapter() {
    let Some(base) = fixture("hf/bert-f32") else { return };
    let adapter = |modules: &[&str]| {
        let config =
            br#"{"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": ["dense"]}"#;
        let mut file = Safetensors::new();
        for module in modules {
            for (half, shape) in [("A", [1, 64]), ("B", [64, 1])] {
                let name = format!("base_model.model.{module}.lora_{half}.weight");
                file = file.tensor(&name, "F32", &shape, f32s(&[0.5; 64]));
            }
        }
        let weights = file.build();
        folder(&[("adapter_config.json", config.to_vec()), ("adapter_model.safetensors", weights)])
    };
    let plan = |modules: &[&str]| {
        let (adapter, base) = (adapter(modules), Model::open(&base)?);
        ops::adapter_in_gguf(&Adapter::open(adapter.path())?, &base, None)
    };
    let (query, pooler) = ("encoder.layer.0.attention.self.query", "pooler.dense");
    let both = plan(&[query, pooler]).expect("a plan");
    let names: Vec<&str> = both.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_b"]);
    assert!(
        both.notes.iter().any(|note| note.contains("left out: pooler.weight")),
        "{:?}",
        both.notes
    );
    let error = plan(&[pooler]).expect_err("nothing is left");
    assert_eq!((error.kind(), error.tensor()), (ErrorKind::Unsupported, Some("pooler.weight")));
}

/// The rows of q are permuted in GGUF. An adapter is merged before or after they are put back.
#[test]
fn long_rows_in_another_order_are_merged() {
    let (rows, columns) = (16, 96);
    let values: Vec<f32> = (0..rows * columns).map(|n| (n % 89) as f32 / 16.0 - 2.0).collect();
    let number = |key: &str, value: u32| (format!("llama.{key}"), Kv::U32(value));
    let keys = [
        number("block_count", 1),
        number("embedding_length", 96),
        number("attention.head_count", 2),
        number("attention.head_count_kv", 2),
        number("attention.key_length", 8),
    ];
    let base = keys
        .into_iter()
        .fold(Gguf::new().key("general.architecture", Kv::text("llama")), |file, (key, value)| {
            file.key(key, value)
        });
    let base = base.tensor("blk.0.attn_q.weight", DType::F32, &[rows, columns], f32s(&values));
    let adapter = gguf_adapter("llama", "blk.0.attn_q.weight", [2, columns], [rows, 2]);
    let files = folder(&[("base.gguf", base.build()), ("adapter.gguf", adapter.build())]);
    let written = |source: &Path, options: ConvertOptions, name: &str| {
        let plan = ops::convert(&open(source), &options).expect("a plan");
        let path = files.path().join(name);
        plan.run(&path, &WriteOptions::new().allow_incomplete(true)).expect("written");
        path
    };
    let (base, adapter) = (files.path().join("base.gguf"), files.path().join("adapter.gguf"));
    let at_once = with(ConvertOptions::new(&SAFETENSORS), &adapter);
    let at_once = open(&written(&base, at_once, "at-once"));
    let merged = written(&base, with(ConvertOptions::new(&GGUF), &adapter), "merged.gguf");
    let later = open(&written(&merged, ConvertOptions::new(&SAFETENSORS), "later"));
    let name = "model.layers.0.self_attn.q_proj.weight";
    let found = at_once.stored_tensor(name).expect("a matrix").dequantize().expect("values");
    let expected = later.stored_tensor(name).expect("a matrix").dequantize().expect("values");
    assert_eq!(found[..], expected[..]);
    let unmerged = open(&base).tensor("layers.0.attention.q.weight").expect("a matrix");
    assert_ne!(found[..], unmerged.dequantize().expect("values")[..]);
}

/// A product is added to stored rows and columns. These targets have none, or not their values.
#[test]
fn targets_that_are_no_stored_matrices_are_refused() {
    let fault = |model: &Model, adapter: Gguf| {
        let files = folder(&[("adapter.gguf", adapter.build())]);
        let adapter = Adapter::open(files.path().join("adapter.gguf")).expect("an adapter");
        let options = ConvertOptions::new(&GGUF).adapter(adapter, 1.0);
        let error = ops::convert(model, &options).map(drop).expect_err("no matrix");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        let text = error.to_string();
        text.split_once("tensor ").expect("a tensor").1.to_owned()
    };
    let norm = Gguf::new().key("general.architecture", Kv::text("gemma")).tensor(
        "blk.0.attn_norm.weight",
        DType::F32,
        &[4],
        f32s(&[1.0, 2.0, 3.0, 4.0]),
    );
    let files = folder(&[("model.gguf", norm.build())]);
    let adapter = gguf_adapter("gemma", "blk.0.attn_norm.weight", [1, 4], [1, 1]);
    assert_eq!(
        fault(&open(&files.path().join("model.gguf")), adapter),
        "\"layers.0.attention_norm.weight\": a change of a tensor whose values are stored in another form"
    );
    // Of each expert's two elements, the first is the bias of gate.
    let bias = Safetensors::new().tensor(
        "model.layers.0.mlp.experts.gate_up_proj_bias",
        "F32",
        &[2, 2],
        f32s(&[1.0, 2.0, 3.0, 4.0]),
    );
    let config = br#"{"model_type": "gpt_oss", "hidden_size": 4, "intermediate_size": 1,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 2,
        "num_local_experts": 2, "num_experts_per_tok": 1, "vocab_size": 8}"#;
    let files = folder(&[("config.json", config.to_vec()), ("model.safetensors", bias.build())]);
    let adapter = gguf_adapter("gpt-oss", "blk.0.ffn_gate_exps.bias", [1, 1], [2, 1]);
    assert_eq!(
        fault(&open(files.path()), adapter),
        "\"layers.0.ffn.experts.gate.bias\": a change of a tensor that is not stored as a matrix"
    );
}

/// Merging changes values, and a factor is told if it is not 1.
#[test]
fn what_merging_says() {
    let (base, adapter) = (open(&lora("llama/base")), lora("llama/adapter"));
    let adapter = || Adapter::open(&adapter).expect("an adapter");
    let plan = |factor| {
        let options = ConvertOptions::new(&SAFETENSORS).adapter(adapter(), factor);
        ops::convert(&base, &options).expect("a plan").notes
    };
    let told = |notes: Vec<String>| {
        notes.into_iter().find(|note| note.starts_with("merged LoRA adapter")).expect("a note")
    };
    assert!(!told(plan(1.0)).contains("times"));
    assert!(told(plan(0.5)).ends_with(", times 0.5"));
    let lossless = ConvertOptions::new(&SAFETENSORS).lossless(true).adapter(adapter(), 1.0);
    let error = ops::convert(&base, &lossless).expect_err("a refusal");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("merging an adapter changes values"), "{error}");
}

/// A file next to an adapter that is not merged is named, with what it is.
#[test]
fn files_next_to_an_adapter_are_named() {
    let (base, folder) = (open(&lora("llama/base")), with_one_alpha());
    let head = Safetensors::new().tensor("v_head.summary.weight", "F32", &[1, 1], vec![0; 4]);
    std::fs::write(folder.path().join("value_head.safetensors"), head.build()).expect("a file");
    let adapter = || Adapter::open(folder.path()).expect("an adapter");
    let merged = ops::convert(&base, &ConvertOptions::new(&GGUF).adapter(adapter(), 1.0));
    let in_gguf = ops::adapter_in_gguf(&adapter(), &base, None);
    for plan in [merged, in_gguf] {
        let notes = plan.expect("a plan").notes;
        let named = |note: &String| {
            note.contains("value_head.safetensors") && note.contains("reward model")
        };
        assert_eq!(notes.iter().filter(|note| named(note)).count(), 1, "{notes:?}");
    }
}

/// Shares are taken of the merged model.
#[test]
fn shares_of_a_merged_model() {
    let (base, adapter) = (lora("llama/base"), lora("llama/adapter"));
    let shares = || ConvertOptions::new(&SAFETENSORS).shares("tp=2".parse().expect("a mesh"));
    let of_ranks = |path: &Path, options: &ConvertOptions| {
        let folder = write(&open(path), options).unwrap_or_else(|error| panic!("{error}"));
        [0, 1].map(|rank| of_rank(&folder.path().join("out"), rank))
    };
    let merged = convert(&base, &with(ConvertOptions::new(&SAFETENSORS), &adapter));
    let expected = of_ranks(&merged.path, &shares());
    assert_eq!(of_ranks(&base, &with(shares(), &adapter)), expected);
    assert_ne!(of_ranks(&base, &shares()), expected);
}
