//! The choice between two readings of files, keys, tokens or numbers, and choices that are not
//! reported: a wrong one leaves no trace but its result.
#![allow(clippy::disallowed_methods, reason = "the files are the test's own")]

use std::path::Path;

use crate::ollama_store::Store;
use crate::support::{Gguf, Kv, Safetensors, f32s, folder, put, sample};
use weighbridge::container::{GGUF, MLX, SAFETENSORS, Shards};
use weighbridge::json::json;
use weighbridge::model::Convention;
use weighbridge::ops::{self, ConvertOptions, DiffOptions, DiffOutcome};
use weighbridge::write::Method;
use weighbridge::{DType, ErrorKind, Model, OpenOptions, Part, WriteOptions};

fn open(path: &Path) -> Model {
    Model::open(path).unwrap_or_else(|error| panic!("{error}"))
}

fn one(value: f32) -> Safetensors {
    Safetensors::new().tensor("t", "F32", &[1], f32s(&[value]))
}

fn value_of(model: &Model, name: &str) -> f32 {
    let tensor = model.stored_tensor(name).unwrap_or_else(|error| panic!("{error}"));
    tensor.dequantize().expect("values")[0]
}

#[test]
fn a_variant_is_opened_only_if_it_is_the_only_one() {
    for name in ["model.fp16.safetensors", "model-fp16.safetensors"] {
        let files = folder(&[(name, one(1.0).build()), ("other.safetensors", one(2.0).build())]);
        assert_eq!(value_of(&open(files.path()), "t"), 1.0, "{name}");
        // The model without a suffix comes first.
        put(files.path(), "model.safetensors", one(3.0).build());
        assert_eq!(value_of(&open(files.path()), "t"), 3.0, "{name}");
    }
    let two = folder(&[
        ("model.fp16.safetensors", one(1.0).build()),
        ("model.bf16.safetensors", one(2.0).build()),
    ]);
    assert!(Model::open(two.path()).is_err(), "two variants, and neither is preferred");
}

/// The only GGUF file of a repository in the hub's cache is opened, also in a folder; not one that lies
/// beside other weights.
#[test]
fn the_only_file_of_a_snapshot_is_opened() {
    let gguf = std::fs::read(sample("sample-Q8_0.gguf")).expect("the sample");
    let snapshot = "models--org--tale/snapshots/c0ffee";
    let files = folder(&[(&*format!("{snapshot}/Q8_0/more/tale-Q8_0.gguf"), &*gguf)]);
    let repository = files.path().join("models--org--tale");
    let model = open(&repository);
    assert_eq!(model.path(), files.path().join(snapshot).join("Q8_0/more/tale-Q8_0.gguf"));
    put(files.path(), &format!("{snapshot}/model.safetensors"), one(3.0).build());
    assert_eq!(value_of(&open(&repository), "t"), 3.0);
}

/// Programs that cannot make links write them as texts. Only in a snapshot of the hub's cache, and only
/// for the digest of a blob, is such a text taken for a link.
#[test]
fn texts_that_stand_for_links() {
    let gguf = std::fs::read(sample("sample-Q8_0.gguf")).expect("the sample");
    let (git, sha256, other) = ("a1".repeat(20), "b2".repeat(32), "c3".repeat(24));
    for (folder_name, digest, follows) in [
        ("snapshots", &git, true),
        ("snapshots", &sha256, true),
        ("snapshots", &other, false),
        ("copies", &git, false),
        ("copies", &sha256, false),
    ] {
        let text = format!("../../blobs/{digest}");
        let (blob, file) = (format!("blobs/{digest}"), format!("{folder_name}/c0ffee/m.gguf"));
        let files = folder(&[(&*blob, &*gguf), (&*file, text.as_bytes())]);
        let opened = Model::open(files.path().join(&file));
        assert_eq!(opened.is_ok(), follows, "{folder_name}/c0ffee/m.gguf: {text}");
    }
}

/// Ollama ignores the case of names. Where a store has several, the one that is written so is meant.
#[cfg(target_os = "linux")]
#[test]
fn names_that_differ_in_case_alone() {
    use weighbridge::container::ollama::place;
    let store = Store::new();
    let names = ["tale", "TALE", "Tale", "tAle", "taLe", "talE"];
    let manifests = names.map(|name| store.manifest(&format!("{name}/latest"), &[]));
    for (name, manifest) in names.iter().zip(&manifests) {
        assert_eq!(place(name, Some(store.path())).expect("a place"), *manifest);
    }
    let other = place("tALE", Some(store.path())).expect("a place");
    assert!(manifests.contains(&other), "{other:?}");
}

/// Older versions of Ollama named blobs with a colon; they are the ones that are verified.
#[cfg(unix)]
#[test]
fn blobs_of_older_versions() {
    let gguf = std::fs::read(sample("sample-Q8_0.gguf")).expect("the sample");
    let store = Store::new();
    let manifest = store.manifest("m/latest", &[store.layer("model", "", &gguf)]);
    let entries = std::fs::read_dir(store.path().join("blobs")).expect("blobs").flatten();
    let mut blobs: Vec<_> = entries.map(|entry| entry.path()).collect();
    let blob = blobs.pop().expect("a blob");
    let name = blob.file_name().expect("a name").to_string_lossy().replace("sha256-", "sha256:");
    let old = blob.with_file_name(name);
    std::fs::rename(&blob, &old).expect("an older name");
    let model = open(&manifest);
    assert_eq!(model.verify_digests(0, |_| Ok(())).expect("a blob"), []);
    let mut bytes = gguf;
    *bytes.last_mut().expect("a byte") ^= 1;
    std::fs::write(&old, bytes).expect("other bytes");
    let differs = model.verify_digests(0, |_| Ok(())).expect("a blob");
    assert_eq!(differs.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>(), [old]);
}

#[test]
fn runners_are_preferred_in_a_fixed_order() {
    let store = Store::new();
    let child = |runner: &str, value: f32| {
        let bytes = match runner {
            "mlx" => store.tensor("t", &one(value)),
            _ => {
                let file = Gguf::new().tensor("t", DType::F32, &[1], f32s(&[value])).build();
                store.layer("model", "", &file)
            }
        };
        let digest = store.blob(crate::ollama_store::manifest(&[bytes]).as_bytes());
        format!("{{\"digest\":\"sha256:{digest}\",\"runner\":\"{runner}\"}}")
    };
    let apple = cfg!(all(target_os = "macos", target_arch = "aarch64"));
    let order = if apple { ["mlx", "llamacpp", "ggml"] } else { ["llamacpp", "ggml", "mlx"] };
    // Whatever their order in the list, and whichever of them are there.
    for from in 0..3 {
        for turn in 0..3 {
            let mut children: Vec<String> = (from..3).map(|n| child(order[n], n as f32)).collect();
            let count = children.len();
            children.rotate_left(turn % count);
            let list = format!(
                "{{\"schemaVersion\":2,\"mediaType\":\"application/vnd.ollama.manifest.list.v2+json\",\
                 \"manifests\":[{}]}}",
                children.join(",")
            );
            put(store.path(), "manifests/registry.ollama.ai/library/m/latest", list);
            let path = store.path().join("manifests/registry.ollama.ai/library/m/latest");
            assert_eq!(value_of(&open(&path), "t"), from as f32, "{from} {turn}");
        }
    }
}

#[test]
fn a_blob_must_have_the_length_that_its_manifest_states() {
    let store = Store::new();
    let file = Gguf::new().tensor("t", DType::F32, &[1], f32s(&[3.0])).build();
    let layer = store.layer("model", "", &file);
    let size = format!("\"size\":{}", file.len());
    assert!(layer.contains(&size));
    for other in [file.len() - 1, file.len() + 1] {
        let layer = layer.replace(&size, &format!("\"size\":{other}"));
        let refused = store.refused(&store.manifest("m/latest", &[layer]));
        assert!(refused.contains(&other.to_string()), "{refused}");
        assert!(refused.contains(&file.len().to_string()), "{refused}");
    }
}

/// A model of Gemma's family with one norm, whose values GGUF stores with 1 added.
fn gemma(norm: &[f32]) -> (Gguf, Safetensors) {
    let number = |value| Kv::U32(value);
    let gguf = Gguf::new()
        .key("general.architecture", Kv::text("gemma2"))
        .key("gemma2.block_count", number(1))
        .key("gemma2.embedding_length", number(4))
        .key("gemma2.attention.head_count", number(1))
        .tensor("output_norm.weight", DType::F32, &[4], f32s(norm));
    let hf = Safetensors::new().tensor("model.norm.weight", "F32", &[4], f32s(norm));
    (gguf, hf)
}

const GEMMA_CONFIG: &str = r#"{"model_type": "gemma2", "hidden_size": 4, "num_hidden_layers": 1,
    "num_attention_heads": 1, "intermediate_size": 4, "vocab_size": 4}"#;

#[test]
fn the_convention_decides_on_values() {
    let stored = [1.5, 2.0, 0.25, -1.0];
    let files = folder(&[("a.gguf", gemma(&stored).0.build())]);
    let model = open(&files.path().join("a.gguf"));
    let values = |convention| {
        let tensor = model.tensor_in("output_norm.weight", convention).expect("the norm");
        (tensor.dequantize().expect("values").to_vec(), tensor.is_stored())
    };
    assert_eq!(values(Convention::HuggingFace), (vec![0.5, 1.0, -0.75, -2.0], false));
    assert_eq!(values(Convention::Stored), (stored.to_vec(), true));
}

#[test]
fn the_convention_decides_on_rows() {
    // Eight rows in one head: halves in Hugging Face's order, pairs in GGUF's.
    let rows: Vec<f32> = (0..8u8).flat_map(|row| [f32::from(row); 8]).collect();
    let file = Gguf::new()
        .key("general.architecture", Kv::text("llama"))
        .key("llama.block_count", Kv::U32(1))
        .key("llama.embedding_length", Kv::U32(8))
        .key("llama.attention.head_count", Kv::U32(1))
        .tensor("blk.0.attn_q.weight", DType::F32, &[8, 8], f32s(&rows));
    let files = folder(&[("a.gguf", file.build())]);
    let model = open(&files.path().join("a.gguf"));
    let rows = |convention| {
        let tensor = model.tensor_in("layers.0.attention.q.weight", convention).expect("q");
        let values = tensor.dequantize().expect("values");
        values.iter().step_by(8).map(|value| *value as u8).collect::<Vec<u8>>()
    };
    assert_eq!(rows(Convention::Stored), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(rows(Convention::HuggingFace), [0, 2, 4, 6, 1, 3, 5, 7]);
}

#[test]
fn equal_bytes_with_another_meaning_differ() {
    let norm = [1.5, 2.0, 0.25, -1.0];
    let (gguf, hf) = gemma(&norm);
    let files = folder(&[("a.gguf", gguf.build())]);
    let directory = folder(&[
        ("config.json", GEMMA_CONFIG.as_bytes().to_vec()),
        ("model.safetensors", hf.build()),
    ]);
    let (a, b) = (open(&files.path().join("a.gguf")), open(directory.path()));
    let diff = ops::diff(&a, &b, &DiffOptions::new()).expect("a report");
    let norm = diff.tensors.iter().find(|tensor| tensor.pair.name.contains("output_norm"));
    let outcome = &norm.expect("the norm").outcome;
    assert!(outcome.is_difference(), "{outcome:?}");
    let same = ops::diff(&a, &a, &DiffOptions::new()).expect("a report");
    assert!(same.tensors.iter().all(|tensor| matches!(tensor.outcome, DiffOutcome::Identical)));
}

/// The scales and periods that the publishers' configs state, and that GGUF files of these models
/// leave to the reader. Gemma 3 27B: `query_pre_attn_scalar` 168 and a width of 5376 with 32 heads;
/// Gemma 2 27B: 144. All others use the width of a head.
#[test]
fn numbers_that_files_leave_to_the_reader() {
    let model = |name: &str, numbers: [u32; 4], window: Option<u32>| {
        let [layers, dim, heads, head] = numbers;
        let key = |rest: &str| format!("{name}.{rest}");
        let mut file = Gguf::new()
            .key("general.architecture", Kv::text(name))
            .key(key("block_count"), Kv::U32(layers))
            .key(key("embedding_length"), Kv::U32(dim))
            .key(key("feed_forward_length"), Kv::U32(8))
            .key(key("attention.head_count"), Kv::U32(heads))
            .key(key("attention.head_count_kv"), Kv::U32(1))
            .key(key("attention.layer_norm_rms_epsilon"), Kv::F32(1e-6))
            .key(key("attention.key_length"), Kv::U32(head))
            .key(key("attention.value_length"), Kv::U32(head));
        if let Some(window) = window {
            file = file.key(key("attention.sliding_window"), Kv::U32(window));
        }
        // The reader checks that tensors support the number of layers.
        let last = format!("blk.{}.attn_norm.weight", layers - 1);
        let file = file.tensor(last, DType::F32, &[1], f32s(&[1.0]));
        OpenOptions::new().open_memory("file", file.build()).expect("a model")
    };
    let scale = |model: &Model| {
        let config = model.config().unwrap_or_else(|error| panic!("{error}"));
        config.attention.attention_scale.as_ref().map(|scale| scale.value)
    };
    let root = |scalar: f32| Some(1.0 / scalar.sqrt());
    let close = |found: Option<f32>, expected: Option<f32>| match (found, expected) {
        (Some(found), Some(expected)) => (found - expected).abs() < 1e-7,
        (found, expected) => found == expected,
    };
    for (name, numbers, scalar) in [
        ("gemma3", [62, 5376, 32, 128], root(168.0)),
        ("gemma3", [48, 3840, 16, 256], None),
        ("gemma3", [34, 2560, 8, 256], None),
        ("gemma2", [46, 4608, 32, 128], root(144.0)),
        ("gemma2", [42, 3584, 16, 256], None),
    ] {
        let found = scale(&model(name, numbers, Some(1024)));
        assert!(close(found, scalar), "{name} of {} layers: {found:?}", numbers[0]);
    }
    let full = |name: &str| {
        let model = model(name, [16, 64, 4, 16], Some(128));
        let config = model.config().unwrap_or_else(|error| panic!("{error}"));
        let sliding = |layer| format!("{:?}", config.layer_kind(layer)) == "Some(Sliding)";
        (0..16).filter(|layer| !sliding(*layer)).collect::<Vec<u32>>()
    };
    for (name, period) in [("exaone4", 4), ("gemma3", 6), ("gemma2", 2), ("plamo3", 8)] {
        let expected: Vec<u32> = (0..16).filter(|layer| layer % period == period - 1).collect();
        assert_eq!(full(name), expected, "{name}");
    }
}

#[test]
fn vectors_stay_plain() {
    for (container, dtype) in [(&GGUF, DType::Q8_0), (&GGUF, DType::Q4_K)] {
        let model = open(&sample("sample-BF16.gguf"));
        let plan =
            ops::convert(&model, &ConvertOptions::new(container).dtype(dtype)).expect("a plan");
        for tensor in &plan.tensors {
            match tensor.shape.len() {
                1 => assert_eq!(tensor.dtype, DType::F32, "{}", tensor.name),
                _ => assert_eq!(tensor.dtype, dtype, "{}", tensor.name),
            }
        }
        assert!(plan.tensors.iter().any(|tensor| tensor.shape.len() == 1));
    }
}

#[test]
fn every_shard_has_the_models_alignment() {
    let mut file = Gguf::new().aligned(256).key("general.architecture", Kv::text("mine"));
    for number in 0..5u8 {
        let name = format!("t{number}");
        file = file.tensor(name, DType::F32, &[3], f32s(&[f32::from(number); 3]));
    }
    let files = folder(&[("a.gguf", file.build())]);
    let model = open(&files.path().join("a.gguf"));
    let to = files.path().join("parts");
    let plan = ops::split(&model, Shards::Tensors(2), &to).expect("a plan");
    let written = plan.run(&to, &WriteOptions::new()).expect("written");
    assert_eq!(written.paths.len(), 3);
    for path in &written.paths {
        let shard = OpenOptions::new().open_memory("shard", std::fs::read(path).expect("read"));
        // A shard alone is no model, but its header states the alignment.
        drop(shard);
        let bytes = std::fs::read(path).expect("a shard");
        let key = b"general.alignment";
        let at = bytes.windows(key.len()).position(|window| window == key).expect("the alignment");
        let value = &bytes[at + key.len() + 4..at + key.len() + 8];
        assert_eq!(u32::from_le_bytes(value.try_into().expect("four bytes")), 256);
    }
    let again = open(&written.paths[0]);
    for tensor in again.stored_tensors() {
        let segment = tensor.segments().next().expect("a weight");
        assert_eq!(segment.range.start % 256, 0, "{}", tensor.name());
        assert_eq!(
            value_of(&again, tensor.name()),
            tensor.name()[1..].parse::<f32>().expect("one")
        );
    }
}

#[test]
fn an_infinite_scale_is_not_exact() {
    // Q8_0 blocks of zeros; MLX's 8-bit groups would hold them exactly but for the scale.
    let convert = |scale: u16| {
        let mut block = scale.to_le_bytes().to_vec();
        block.extend_from_slice(&[1; 32]);
        let file = Gguf::new()
            .key("general.architecture", Kv::text("llama"))
            .key("llama.block_count", Kv::U32(1))
            .key("llama.embedding_length", Kv::U32(64))
            .key("llama.feed_forward_length", Kv::U32(64))
            .key("llama.context_length", Kv::U32(64))
            .key("llama.attention.head_count", Kv::U32(1))
            .key("llama.attention.layer_norm_rms_epsilon", Kv::F32(1e-6))
            .tensor("token_embd.weight", DType::Q8_0, &[1, 64], block.repeat(2));
        let model = OpenOptions::new().open_memory("file", file.build()).expect("a model");
        ops::convert(&model, &ConvertOptions::new(&MLX).lossless(true))
    };
    let plan = convert(0x3c00).expect("a plan");
    assert_eq!(plan.tensors[0].method, Method::Repacked);
    let error = convert(0x7c00).expect_err("not exact");
    assert_eq!(
        (error.kind(), error.tensor()),
        (ErrorKind::Unsupported, Some("model.embed_tokens.weight"))
    );
}

#[test]
fn values_lost_to_rounding_are_counted() {
    let values = [1e-9f32, 1.0, -1e-10, 1e9, 0.0, f32::MIN_POSITIVE, -1e38, 6e-8];
    let file = Gguf::new().key("general.architecture", Kv::text("mine")).tensor(
        "m",
        DType::F32,
        &[2, 4],
        f32s(&values),
    );
    let files = folder(&[("a.gguf", file.build())]);
    let model = open(&files.path().join("a.gguf"));
    let mut builder = weighbridge::Builder::new(&GGUF).expect("a builder");
    builder.metadata().set_text("general.architecture", "mine");
    builder.add_as("m", &model.stored_tensor("m").expect("m"), DType::F16).expect("added");
    let written =
        builder.plan().expect("a plan").run(&files.path().join("b.gguf"), &WriteOptions::new());
    let lost = written.expect("written").lost;
    let [(name, loss)] = lost.as_slice() else { panic!("{lost:?}") };
    // 6e-8 is above half of the smallest subnormal, so it is kept; 0 was 0.
    assert_eq!((name.as_str(), loss.narrowing.flushes, loss.narrowing.overflows), ("m", 3, 2));
}

/// A checkpoint of Qwen 2 with a tokenizer of these documents.
fn checkpoint(
    config: weighbridge::json::Json,
    documents: &[(&str, weighbridge::json::Json)],
) -> tempfile::TempDir {
    let mut all = json!({
        "model_type": "llama", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1,
        "intermediate_size": 8, "vocab_size": 6, "rms_norm_eps": 1e-6, "max_position_embeddings": 16,
    });
    for (key, value) in config.as_object().expect("an object") {
        all[key.as_str()] = value.clone();
    }
    let weights = Safetensors::new()
        .tensor("model.embed_tokens.weight", "F32", &[6, 8], f32s(&[0.5; 48]))
        .tensor("model.norm.weight", "F32", &[8], f32s(&[1.0; 8]));
    let files = folder(&[
        ("config.json", all.to_string().into_bytes()),
        ("model.safetensors", weights.build()),
    ]);
    for (name, json) in documents {
        put(files.path(), name, json.to_string());
    }
    files
}

#[test]
fn one_of_two_names_and_dtypes() {
    // A name of the hub's form, whatever the folder is called.
    for (path, expected) in [
        ("someone/Great-Model-7B", Some("Great Model 7B")),
        ("Alone", Some("Alone")),
        // A path of the machine that saved it says nothing.
        ("/home/someone/runs/7", None),
        ("", None),
    ] {
        let files = checkpoint(json!({"_name_or_path": path}), &[]);
        let keys = weighbridge::translate::gguf_metadata(&open(files.path())).expect("keys");
        let name = keys.iter().find(|(key, _)| key.as_bytes() == b"general.name");
        let name = name.and_then(|(_, value)| Some(value.to_text()?.to_str()?.to_owned()));
        match expected {
            Some(expected) => assert_eq!(name.as_deref(), Some(expected)),
            None => assert!(!name.unwrap_or_default().contains("runs")),
        }
    }
    // transformers 5 writes `dtype`, and reads it before `torch_dtype`. A converted checkpoint
    // states the dtype that its tensors have, under either name.
    for stated in [
        json!({"dtype": "bfloat16", "torch_dtype": "bfloat16"}),
        json!({"dtype": "bfloat16"}),
        json!({"torch_dtype": "bfloat16"}),
    ] {
        let files = checkpoint(stated.clone(), &[]);
        let options = ConvertOptions::new(&SAFETENSORS).dtype(DType::F16);
        let plan = ops::convert(&open(files.path()), &options).expect("a plan");
        let to = files.path().join("out");
        plan.run(&to, &WriteOptions::new().allow_incomplete(true)).expect("written");
        let config = std::fs::read(to.join("config.json")).expect("a config");
        let config = weighbridge::json::Json::parse(&config).expect("JSON");
        let dtypes: Vec<&str> =
            ["dtype", "torch_dtype"].iter().filter_map(|key| config[*key].as_str()).collect();
        assert!(
            !dtypes.is_empty() && dtypes.iter().all(|dtype| *dtype == "float16"),
            "{stated}: {dtypes:?}"
        );
    }
}

#[test]
fn the_tokenizer_comes_before_added_tokens() {
    let tokenizer = json!({
        "version": "1.0",
        "added_tokens": [
            {"id": 4, "content": "<s>", "special": true},
            {"id": 5, "content": "</s>", "special": true},
        ],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3}, "merges": ["a b"]},
    });
    let files = checkpoint(
        json!({"model_type": "qwen2"}),
        &[
            ("tokenizer.json", tokenizer),
            ("added_tokens.json", json!({"<other>": 4, "</s>": 5})),
            (
                "tokenizer_config.json",
                json!({"bos_token": "<s>", "eos_token": "</s>", "tokenizer_class": "Qwen2Tokenizer"}),
            ),
        ],
    );
    let model = open(files.path());
    let keys =
        weighbridge::translate::gguf_metadata(&model).unwrap_or_else(|error| panic!("{error}"));
    let tokens = keys.iter().find(|(key, _)| key.as_bytes() == b"tokenizer.ggml.tokens");
    let tokens = tokens.and_then(|(_, value)| value.to_array()).expect("tokens");
    let tokens: Vec<String> =
        tokens.texts().expect("texts").map(|text| text.spelling().into_owned()).collect();
    assert_eq!(tokens, ["a", "b", "c", "ab", "<s>", "</s>"]);
}

/// The purposes of special tokens in GGUF, as the GGUF document and llama.cpp's `llama-vocab.cpp`
/// list them.
#[test]
fn special_tokens_have_their_own_keys() {
    let purposes = [
        ("bos", "bos_token_id"),
        ("eos", "eos_token_id"),
        ("eot", "eot_token_id"),
        ("eom", "eom_token_id"),
        ("unk", "unknown_token_id"),
        ("sep", "seperator_token_id"),
        ("pad", "padding_token_id"),
        ("cls", "cls_token_id"),
        ("mask", "mask_token_id"),
        ("fim_prefix", "fim_pre_token_id"),
        ("fim_suffix", "fim_suf_token_id"),
        ("fim_middle", "fim_mid_token_id"),
        ("fim_pad", "fim_pad_token_id"),
        ("fim_repository", "fim_rep_token_id"),
        ("fim_separator", "fim_sep_token_id"),
    ];
    let tokens: Vec<String> = (0..purposes.len()).map(|number| format!("<{number}>")).collect();
    let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
    let mut file = Gguf::new()
        .key("general.architecture", Kv::text("llama"))
        .key("tokenizer.ggml.model", Kv::text("gpt2"))
        .key("tokenizer.ggml.tokens", Kv::texts(&tokens));
    for (number, (_, key)) in (0u32..).zip(purposes) {
        file = file.key(format!("tokenizer.ggml.{key}"), Kv::U32(number));
    }
    let model = OpenOptions::new().open_memory("file", file.build()).expect("a model");
    let tokenizer = model.tokenizer().expect("sound").expect("a tokenizer");
    for (number, (purpose, _)) in (0u32..).zip(purposes) {
        assert_eq!(tokenizer.special(purpose), Some(number), "{purpose}");
    }
    // Of two spellings, the one that llama.cpp writes.
    let both = Gguf::new()
        .key("general.architecture", Kv::text("llama"))
        .key("tokenizer.ggml.model", Kv::text("gpt2"))
        .key("tokenizer.ggml.tokens", Kv::texts(&["a", "b", "c"]))
        .key("tokenizer.ggml.separator_token_id", Kv::U32(1))
        .key("tokenizer.ggml.seperator_token_id", Kv::U32(2));
    let model = OpenOptions::new().open_memory("file", both.build()).expect("a model");
    assert_eq!(model.tokenizer().expect("sound").expect("a tokenizer").special("sep"), Some(2));
}

#[test]
fn big_and_little_endian_parts_are_the_same() {
    // A part of a big-endian file is swapped when it is copied row by row, too.
    let values: Vec<f32> = (0..32u8).map(f32::from).collect();
    let file = |big: bool| {
        let bytes: Vec<u8> = match big {
            true => values.iter().flat_map(|value| value.to_be_bytes()).collect(),
            false => f32s(&values),
        };
        let file = Gguf::new().tensor("m", DType::F32, &[4, 8], bytes);
        let file = if big { file.big_endian() } else { file };
        OpenOptions::new().open_memory("file", file.build()).expect("a model")
    };
    let rows = |model: &Model| {
        let tensor = model.stored_tensor("m").expect("m").slice_rows(1..3).expect("rows");
        tensor.bytes(Part::Weight).expect("bytes").into_owned()
    };
    assert_eq!(rows(&file(true)), rows(&file(false)));
    assert_eq!(rows(&file(false)), f32s(&values[8..24]));
}

/// A document that opening the model read is not read again.
#[test]
fn a_document_that_changes_later_is_the_one_that_was_opened() {
    let folder = folder(&[
        ("config.json", b"{\"model_type\":\"a\"}".to_vec()),
        ("model.safetensors", one(1.0).build()),
    ]);
    let model = open(folder.path());
    put(folder.path(), "config.json", "{\"model_type\":\"b\"}");
    let read = model.read_document("config.json").expect("JSON").expect("a document");
    assert_eq!(*read, json!({"model_type": "a"}));
}

/// Some dtypes have no big-endian form, which is an error before a value is read.
#[test]
fn dtypes_without_a_big_endian_form() {
    let file = Gguf::new().tensor("m", DType::IQ2_K, &[1, 256], [0; 76]);
    let open = |file: Gguf| OpenOptions::new().open_memory("file", file.build()).expect("a model");
    let check = |model: Model| model.stored_tensor("m").expect("m").check_decodable();
    check(open(file.clone())).expect("a codec");
    let error = check(open(file.big_endian())).expect_err("an unknown order of bytes");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().ends_with("the big-endian form of IQ2_K is unknown"), "{error}");
}

#[test]
fn the_last_of_duplicates_is_kept_at_the_position_of_the_first() {
    let header = r#"{"__metadata__":{"a":"1","b":"2","a":"3","c":"4"},"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let file = Safetensors::text(header, f32s(&[1.0])).build();
    let model = OpenOptions::new().open_memory("file", file).expect("a model");
    assert!(model.notes().iter().any(|note| note.text.contains("duplicate key \"a\"")));
    let keys: Vec<(String, String)> = model
        .metadata()
        .iter()
        .map(|(key, value)| {
            let text = value.to_text().expect("text").spelling().into_owned();
            (key.spelling().into_owned(), text)
        })
        .collect();
    let expected = [("a", "3"), ("b", "2"), ("c", "4")];
    assert_eq!(keys, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
    assert_eq!(model.metadata().str("a"), Some("3"));
}

/// However often a name occurs, its last tensor is the one.
#[test]
fn the_last_of_three_is_kept() {
    let entry = |at: u32| {
        format!(r#""a":{{"dtype":"F32","shape":[1],"data_offsets":[{},{}]}}"#, at, at + 4)
    };
    let header = format!("{{{},{},{}}}", entry(0), entry(4), entry(8));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.bytes());
    file.extend(f32s(&[1.0, 2.0, 3.0]));
    let model =
        OpenOptions::new().strictness(weighbridge::Strictness::Lenient).open_memory("file", file);
    let model = model.expect("a model");
    assert_eq!(model.len(), 1);
    let values = model.stored_tensor("a").and_then(|tensor| tensor.dequantize()).expect("values");
    assert_eq!(values[..], [3.0]);
}
