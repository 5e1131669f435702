//! Models written into Ollama's store: as Ollama itself wrote them, where it has, and with the values
//! of what they were made of.
#![allow(
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    reason = "the files and their sizes are the test's own"
)]

use crate::support;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::support::{Safetensors, f32s, fixture, folder, put, told};
use serde_json::Value;
use tempfile::TempDir;
use weighbridge::container;
use weighbridge::container::ollama;
use weighbridge::ollama::QuantType;
use weighbridge::ops::{self, ConvertOptions, QuantizationRules};
use weighbridge::recipe::mlx_lm;
use weighbridge::{DType, ErrorKind, Model, Part, WriteOptions};

const HF: &str = "assets/sample/hf";
const MLX: &str = "assets/sample/mlx-4bit";
const GGUF: &str = "assets/sample/sample-Q8_0.gguf";

fn model(path: impl AsRef<Path>) -> Model {
    Model::open(path).expect("a model")
}

/// Creates a model of a store; gives its manifest.
fn create(store: &TempDir, name: &str, source: impl AsRef<Path>, to: Option<QuantType>) -> PathBuf {
    let place = ollama::place(name, Some(store.path())).expect("a place");
    let source = model(source);
    let plan = ops::create(&source, ops::CreateOptions::new().quantize(to)).expect("a plan");
    // Some of the fixtures are parts of models.
    let options = WriteOptions::new().allow_incomplete(true);
    plan.run(&place, &options).expect("a model is written");
    place
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("a file")
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&read(path)).expect("JSON")
}

/// The layers of a manifest: kind, name, and the file of each.
fn layers(manifest: &Path) -> Vec<(String, String, PathBuf)> {
    let store = manifest.ancestors().nth(5).expect("a store");
    let json = json(manifest);
    let layer = |layer: &Value| {
        let text = |key: &str| layer[key].as_str().unwrap_or_default().to_owned();
        let blob = store.join("blobs").join(text("digest").replace(':', "-"));
        assert_eq!(layer["size"], read(&blob).len(), "{blob:?}");
        let kind = text("mediaType").rsplit('.').next().expect("a kind").to_owned();
        (kind, text("name"), blob)
    };
    let all = json["layers"].as_array().expect("layers").iter().chain([&json["config"]]);
    all.map(layer).collect()
}

/// A blob of tensors: its metadata, and each array's dtype, shape and bytes.
type Arrays = (Value, BTreeMap<String, (Value, Value, Vec<u8>)>);

fn arrays(blob: &Path) -> Arrays {
    let bytes = read(blob);
    let len = u64::from_le_bytes(*bytes.first_chunk().expect("a length")) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + len]).expect("a header");
    let data = &bytes[8 + len..];
    let mut header = header.as_object().expect("an object").clone();
    let metadata = header.remove("__metadata__").unwrap_or_default();
    let array = |(name, entry): (String, Value)| {
        let offset = |n: usize| entry["data_offsets"][n].as_u64().expect("an offset") as usize;
        let bytes = data[offset(0)..offset(1)].to_vec();
        (name, (entry["dtype"].clone(), entry["shape"].clone(), bytes))
    };
    (metadata, header.into_iter().map(array).collect())
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.expect("an entry").file_name().to_string_lossy().into_owned()
    };
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort();
    names
}

fn theirs(name: &str) -> Option<PathBuf> {
    let manifests = "ollama/store/manifests/registry.ollama.ai/library";
    fixture(&format!("{manifests}/{name}"))
}

/// Every byte of the store is Ollama's if tensors are kept as stored: the manifest holds the
/// digests of all of it.
#[test]
fn copies_are_ollamas_to_the_byte() {
    for (name, source) in [("tales/latest", HF), ("mlx/latest", MLX)] {
        let Some(theirs) = theirs(name) else { return };
        let store = tempfile::tempdir().unwrap();
        let ours = create(&store, name.split('/').next().unwrap(), source, None);
        let text = |path: &Path| String::from_utf8(read(path)).unwrap();
        assert_eq!(text(&ours), text(&theirs), "{name}");
    }
}

/// The arrays of a blob; of mxfp8 without those groups whose scales are not `other`'s: MLX 0.31.2,
/// which Ollama used, rounded them to the nearest power of two, and rounds them up since 0.32.4.
fn comparable((metadata, mut arrays): Arrays, (_, other): &Arrays) -> (Arrays, usize) {
    let mut differ = 0;
    if metadata["quant_type"] == "mxfp8" {
        let names: Vec<String> = arrays.keys().cloned().collect();
        for name in names.iter().filter(|name| !name.ends_with(".scale")) {
            let scale = format!("{name}.scale");
            let pairs: Vec<(u8, u8)> =
                arrays[&scale].2.iter().copied().zip(other[&scale].2.iter().copied()).collect();
            for (group, (own, other)) in pairs.into_iter().enumerate() {
                if own != other {
                    assert_eq!(own.abs_diff(other), 1, "{name}: the scale of group {group}");
                    arrays.get_mut(name).unwrap().2[group * 32..][..32].fill(0);
                    arrays.get_mut(&scale).unwrap().2[group] = 0;
                    differ += 1;
                }
            }
        }
    }
    ((metadata, arrays), differ)
}

/// Quantized tensors have the same arrays; MLX, which lays them out for Ollama, orders them by
/// chance, and pads no header.
#[test]
fn quantized_models_are_ollamas() {
    let mixtral = fixture("hf/mixtral-bf16").expect("a fixture");
    let cases = [
        ("tales/int4", Path::new(HF), QuantType::Int4),
        ("tales/int8", Path::new(HF), QuantType::Int8),
        ("tales/nvfp4", Path::new(HF), QuantType::Nvfp4),
        ("tales/mxfp8", Path::new(HF), QuantType::Mxfp8),
        ("mixtral/int4", &mixtral, QuantType::Int4),
    ];
    for (name, source, to) in cases {
        let Some(theirs) = theirs(name) else { return };
        let store = tempfile::tempdir().unwrap();
        let ours = create(&store, "ours", source, Some(to));
        let (ours, theirs) = (layers(&ours), layers(&theirs));
        assert_eq!(ours.len(), theirs.len(), "{name}");
        let (mut quantized, mut differ) = (0, 0);
        for ((kind, layer, ours), (their_kind, their_layer, theirs)) in ours.iter().zip(&theirs) {
            assert_eq!((kind, layer), (their_kind, their_layer), "{name}");
            match kind.as_str() {
                "tensor" => {
                    let (ours, theirs) = (arrays(ours), arrays(theirs));
                    quantized += u32::from(!ours.0.is_null());
                    let (our_part, found) = comparable(ours.clone(), &theirs);
                    let (their_part, _) = comparable(theirs, &ours);
                    differ += found;
                    assert!(our_part == their_part, "{name}: {layer}");
                }
                _ => assert!(read(ours) == read(theirs), "{name}: {layer}"),
            }
        }
        assert!(quantized > 4, "{name}: {quantized}");
        println!("{name}: {differ} groups whose scales MLX rounds otherwise by now");
    }
}

/// A layer of a mixture of experts as transformers stores it, and how Ollama wrote one.
#[test]
fn experts_are_stacked() {
    let mut file = Safetensors::new();
    let mut value = 0;
    let mut numbers = |count: usize| -> Vec<u8> {
        let next = |_| {
            value = (value * 29 + 7) % 251;
            half::bf16::from_f32(f32::from(value as i16 - 125) / 64.0).to_le_bytes()
        };
        (0..count).flat_map(next).collect()
    };
    let mut experts: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    // Twelve, so that their numbers sort otherwise than their names.
    for expert in 0..12 {
        for (projection, shape) in
            [("down_proj", [64, 128]), ("gate_proj", [128, 64]), ("up_proj", [128, 64])]
        {
            let bytes = numbers(64 * 128);
            experts.entry(projection).or_default().extend(&bytes);
            let name = format!("model.layers.1.mlp.experts.{expert}.{projection}.weight");
            file = file.tensor(&name, "BF16", &shape, bytes);
        }
    }
    file = file
        .tensor("model.layers.1.mlp.gate.weight", "BF16", &[12, 64], numbers(12 * 64))
        .tensor("model.layers.1.mlp.shared_experts.up_proj.weight", "BF16", &[2, 64], numbers(128));
    let config = r#"{"architectures":["Qwen3MoeForCausalLM"],"num_hidden_layers":2}"#;
    let source =
        folder(&[("config.json", config.as_bytes()), ("model.safetensors", &file.build())]);
    let store = tempfile::tempdir().unwrap();
    let tensors = |manifest: &Path| -> Vec<(String, Arrays)> {
        let tensors = layers(manifest).into_iter().filter(|(kind, ..)| kind == "tensor");
        tensors.map(|(_, name, blob)| (name, arrays(&blob))).collect()
    };
    let names = |tensors: &[(String, Arrays)]| -> Vec<String> {
        tensors.iter().map(|(name, _)| name.clone()).collect()
    };
    let plain = create(&store, "moe:bf16", source.path(), None);
    let plain = tensors(&plain);
    insta::assert_snapshot!(names(&plain).join("\n"), @"
    model.layers.1.mlp.gate.weight
    model.layers.1.mlp.shared_experts.up_proj.weight
    model.layers.1.mlp.experts
    ");
    let (_, (metadata, stacked)) = plain.last().unwrap();
    assert!(metadata.is_null());
    for (projection, bytes) in &experts {
        let name = format!("model.layers.1.mlp.experts.{projection}.weight");
        let (dtype, shape, stored) = &stacked[&name];
        let down = *projection == "down_proj";
        let expected = if down { [12, 64, 128] } else { [12, 128, 64] };
        assert_eq!((dtype, shape), (&"BF16".into(), &expected.as_slice().into()));
        assert!(stored == bytes, "{name}");
    }
    let int4 = create(&store, "moe:int4", source.path(), Some(QuantType::Int4));
    let config = layers(&int4).pop().unwrap();
    let int4 = tensors(&int4);
    insta::assert_snapshot!(names(&int4).join("\n"), @"
    model.layers.1.mlp.gate.weight
    model.layers.1.mlp.shared_experts.up_proj.weight
    model.layers.1.mlp.experts.down_proj.weight
    model.layers.1.mlp.experts.gate_proj.weight
    model.layers.1.mlp.experts.up_proj.weight
    ");
    insta::assert_snapshot!(String::from_utf8(read(&config.2)).unwrap(), @r#"{"model_format":"safetensors","model_family":"","model_families":null,"model_type":"","file_type":"int4","renderer":"qwen3-coder","parser":"qwen3","requires":"0.19.0","capabilities":["completion","tools"],"architecture":"","os":""}"#);
    let said = |name: &str| {
        let (metadata, _) = &int4.iter().find(|(other, _)| other == name).unwrap().1;
        metadata["quant_type"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(said("model.layers.1.mlp.experts.down_proj.weight"), "int8");
    assert_eq!(said("model.layers.1.mlp.experts.up_proj.weight"), "int4");
    let nvfp4 = create(&store, "moe:nvfp4", source.path(), Some(QuantType::Nvfp4));
    let nvfp4 = tensors(&nvfp4);
    assert_eq!(names(&nvfp4), names(&plain));
    let (metadata, stacked) = &nvfp4.last().unwrap().1;
    assert_eq!((stacked.len(), &metadata["quant_type"]), (6, &"nvfp4".into()));
}

/// The values of every tensor, by canonical name.
fn assert_same_values(ours: &Path, source: impl AsRef<Path>) {
    let path = source.as_ref().display().to_string();
    let (ours, source) = (model(ours), model(source));
    let names: Vec<&str> = source.names().expect("resolved").collect();
    assert!(ours.stored_tensors().all(|tensor| !tensor.name().contains('{')), "{path}");
    assert_eq!(ours.names().expect("resolved").count(), names.len());
    for name in names {
        let values = |model: &Model| -> Vec<u32> {
            let values = model.tensor(name).expect(name).dequantize().expect(name);
            values.iter().map(|value| value.to_bits()).collect()
        };
        assert!(values(&ours) == values(&source), "{path}: {name}");
    }
    assert!(ours.verify_digests(0, |_| Ok(())).unwrap().is_empty());
}

#[test]
fn values_are_those_of_the_source() {
    let store = tempfile::tempdir().unwrap();
    for (number, source) in [HF, MLX, GGUF].into_iter().enumerate() {
        assert_same_values(&create(&store, &format!("a:{number}"), source, None), source);
    }
    for name in [
        "mlx/mixtral-mxfp4",
        "mlx/qwen2-nvfp4",
        "mlx/llama-mxfp8",
        "hf/mixtral-bf16",
        "hf/qwen3-bf16-sharded",
        "hfq/modelopt-nvfp4",
        "hfq/gptoss-mxfp4",
    ] {
        let source = fixture(name).expect("a fixture");
        {
            let name = name.replace('/', "-");
            let made = create(&store, &name, &source, None);
            assert_same_values(&made, &source);
            // And once more, from what is in the store.
            assert_same_values(&create(&store, &format!("{name}:2"), &made, None), &source);
            let text = |path: &Path| String::from_utf8(read(path)).unwrap();
            let again = made.with_file_name("2");
            assert_eq!(text(&again), text(&made), "{name}");
        }
    }
}

/// A GGUF file is a blob as it is; its tensors as tensors are those of Hugging Face.
#[test]
fn gguf_models() {
    let store = tempfile::tempdir().unwrap();
    let made = create(&store, "sample", GGUF, None);
    let found = layers(&made);
    let kinds: Vec<&str> = found.iter().map(|(kind, ..)| kind.as_str()).collect();
    assert_eq!(kinds, ["model", "v1+json"]);
    assert!(read(&found[0].2) == read(Path::new(GGUF)));
    insta::assert_snapshot!(String::from_utf8(read(&found[1].2)).unwrap(), @r#"{"model_format":"gguf","model_family":"llama","model_families":["llama"],"model_type":"1.31M","file_type":"Q8_0","architecture":"amd64","os":"linux"}"#);
    // Of blocks of ggml, those that MLX can say keep their codes; others are made anew.
    let source = model(GGUF);
    let plan =
        ops::create(&source, ops::CreateOptions::new().quantize(QuantType::Int8)).expect("a plan");
    let how =
        |name: &str| plan.tensors.iter().find(|fate| fate.name == name).unwrap().method.name();
    assert_eq!(how("model.embed_tokens.weight"), "repacked");
    assert_eq!(how("model.layers.0.mlp.up_proj.weight"), "requantized");
    assert_eq!(how("model.norm.weight"), "copied");
    let place = ollama::place("sample:int8", Some(store.path())).unwrap();
    plan.run(&place, &WriteOptions::new()).unwrap();
    let opened = Model::open(&place).unwrap();
    let tensor = opened.stored_tensor("model.layers.0.mlp.up_proj.weight").unwrap();
    assert_eq!((tensor.dtype().unwrap(), tensor.group_size()), (DType::MLX_AFFINE8, Some(64)));
}

/// A tensor is quantized as the MLX writer does it.
#[test]
fn quantizers_are_those_of_mlx() {
    let store = tempfile::tempdir().unwrap();
    let out = tempfile::tempdir().unwrap();
    for (to, mode, bits) in [
        (QuantType::Int4, mlx_lm::MlxMode::Affine, 4),
        (QuantType::Int8, mlx_lm::MlxMode::Affine, 8),
        (QuantType::Mxfp4, mlx_lm::MlxMode::Mxfp4, 4),
        (QuantType::Mxfp8, mlx_lm::MlxMode::Mxfp8, 8),
        (QuantType::Nvfp4, mlx_lm::MlxMode::Nvfp4, 4),
    ] {
        let name = to.descriptor().name;
        let made = Model::open(create(&store, name, HF, Some(to))).unwrap();
        let source = model(HF);
        let options =
            mlx_lm::MlxOptions { mode, bits: Some(bits), ..mlx_lm::MlxOptions::default() };
        let options =
            ConvertOptions::new(&container::MLX).quantize(QuantizationRules::MlxLm(options));
        let folder = out.path().join(name);
        ops::convert(&source, &options).unwrap().run(&folder, &WriteOptions::new()).unwrap();
        let theirs = Model::open(&folder).unwrap();
        let mut compared = 0;
        for tensor in made.stored_tensors().filter(|t| t.dtype().unwrap() == to.descriptor().dtype)
        {
            let other = theirs.stored_tensor(tensor.name()).unwrap();
            assert_eq!(tensor.group_size(), other.group_size());
            for part in [Part::Weight, Part::Scale, Part::Bias] {
                let bytes = tensor.bytes(part).ok();
                assert!(bytes == other.bytes(part).ok(), "{name}: {} {part:?}", tensor.name());
            }
            compared += 1;
        }
        assert!(compared >= 6, "{name}: {compared}");
    }
}

#[test]
fn what_is_there_stays() {
    let store = tempfile::tempdir().unwrap();
    let place = create(&store, "m", HF, None);
    let before = read(&place);
    let source = model(HF);
    let plan = ops::create(&source, ops::CreateOptions::new().quantize(QuantType::Int4)).unwrap();
    let refused = plan.run(&place, &WriteOptions::new()).unwrap_err();
    insta::assert_snapshot!(support::without_path(&told(&refused), store.path()), @"
    Mismatch: ./manifests/registry.ollama.ai/library/m/latest: already exists
    help: give another name, or replace it with WriteOptions::overwrite once the new one is complete
    ");
    assert_eq!(read(&place), before);
    let key = store.path().join("blobs");
    let watch = |_| {
        let found = names(&key);
        assert!(found.iter().any(|name| name.contains("weighbridge")), "{found:?}");
        std::ops::ControlFlow::Break(())
    };
    let stopped = plan.run(&place, &WriteOptions::new().overwrite(true).progress(&watch));
    assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(read(&place), before);
    let blobs = names(&key);
    let own = |names: &[String]| names.iter().filter(|name| name.contains("weighbridge")).count();
    assert_eq!(own(&blobs), 0, "{blobs:?}");
    // What killed runs have left, and what is not this program's.
    for left in ["sha256-weighbridge-00ff", "sha256-weighbridge-00ff-0", "sha256-weighbridge-11-3"]
    {
        put(&key, left, b"left");
    }
    let foreign = [
        format!("sha256-{}-partial", "0".repeat(64)),
        format!("sha256-{}-partial-0", "0".repeat(64)),
        "sha256-123456".to_owned(),
    ];
    foreign.iter().for_each(|name| put(&key, name, b"theirs"));
    // A run that is still at work.
    put(&key, "sha256-weighbridge-22-0", b"at work");
    let held = std::fs::File::create(key.join("sha256-weighbridge-22")).unwrap();
    held.lock().unwrap();
    plan.run(&place, &WriteOptions::new().overwrite(true)).unwrap();
    let after = names(&key);
    assert_eq!(own(&after), 2, "{after:?}");
    assert!(foreign.iter().all(|name| after.contains(name)), "{after:?}");
    assert!(
        blobs.iter().all(|name| after.contains(name)),
        "the old blobs are the server's to take"
    );
    assert_ne!(read(&place), before);
    assert_eq!(names(place.parent().unwrap()), ["latest"]);
    drop(held);
    // Blobs that are there already are used again, with today's date.
    let old = std::time::SystemTime::UNIX_EPOCH;
    for name in names(&key) {
        std::fs::File::open(key.join(name)).unwrap().set_modified(old).unwrap();
    }
    create(&store, "again", HF, Some(QuantType::Int4));
    let again = key.join("..").join("manifests/registry.ollama.ai/library/again/latest");
    assert_eq!(read(&again), read(&place));
    for (.., blob) in layers(&again) {
        assert_ne!(blob.metadata().unwrap().modified().unwrap(), old, "{blob:?}");
    }
    assert_eq!(own(&names(&key)), 0);
}

#[test]
fn names_are_checked() {
    let store = tempfile::tempdir().unwrap();
    let place = |name: &str| ollama::place(name, Some(store.path()));
    insta::assert_snapshot!(told(&place("../../etc/passwd").unwrap_err()), @"
    Mismatch: ../../etc/passwd: not a valid name of an Ollama model
    help: [HOST/][NAMESPACE/]MODEL[:TAG], of letters, digits, '_', '-' and '.'
    ");
    let source = model(HF);
    let plan = ops::create(&source, ops::CreateOptions::new()).unwrap();
    let elsewhere = store.path().join("model.gguf");
    let refused = plan.run(&elsewhere, &WriteOptions::new()).unwrap_err();
    insta::assert_snapshot!(support::without_path(&told(&refused), store.path()), @"Mismatch: ./model.gguf: not the path of a manifest in an Ollama store");
    assert_eq!(names(store.path()), Vec::<String>::new());
}

/// A class that Ollama's runner of tensor blobs does not have is noted, when the model is created and verified.
#[test]
fn classes_that_ollama_does_not_run() {
    let copy = support::copy_of(HF);
    let path = copy.path().join("config.json");
    let mut config = json(&path);
    config["architectures"] = serde_json::json!(["Qwen2ForCausalLM"]);
    support::put(copy.path(), "config.json", config.to_string());
    let plan = ops::create(&model(copy.path()), ops::CreateOptions::new()).expect("a plan");
    let what =
        "Ollama's MLX runner, which runs models of tensor blobs, has no class for Qwen2ForCausalLM";
    assert!(plan.notes.iter().any(|note| note.starts_with(what)), "{:?}", plan.notes);
    let store = tempfile::tempdir().unwrap();
    let made = model(create(&store, "m", copy.path(), None));
    let found = ops::check_consistency(&made, weighbridge::Strictness::default()).unwrap();
    assert!(found.notes.iter().any(|note| note.starts_with(what)), "{:?}", found.notes);
}

/// Numbers that MLX does not support are written as what it does.
#[test]
fn dtypes_that_mlx_does_not_read() {
    let doubles: Vec<u8> = [1.5f64, -2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    let file = Safetensors::new().tensor("a.weight", "F64", &[2], doubles).tensor(
        "b.weight",
        "F32",
        &[1],
        f32s(&[1.0]),
    );
    let source = folder(&[("config.json", b"{}".as_slice()), ("model.safetensors", &file.build())]);
    let store = tempfile::tempdir().unwrap();
    let made = create(&store, "m", source.path(), None);
    let opened = Model::open(made).unwrap();
    let tensor = opened.stored_tensor("a.weight").unwrap();
    assert_eq!(tensor.dtype().unwrap(), DType::F32);
    assert_eq!(*tensor.dequantize().unwrap(), [1.5, -2.0]);
}
