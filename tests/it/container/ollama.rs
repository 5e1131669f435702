//! Ollama's store: names, manifests of both trees, and every layout that tensor blobs have had.
#![allow(clippy::disallowed_methods, reason = "the sizes are the test's own")]

use std::path::Path;

use crate::ollama_store::{Store, manifest};
use crate::support::{Gguf, Kv, Safetensors, f32s, notes, put, told, without_path};
use weighbridge::adapter::Adapter;
use weighbridge::container::{GGUF, SAFETENSORS, Shards, ollama};
use weighbridge::metadata::KeyValues;
use weighbridge::ollama::Modelfile;
use weighbridge::ops::ConvertOptions;
use weighbridge::recipe::FileType;
use weighbridge::recipe::llama_cpp::LlamaOptions;
use weighbridge::{DType, ErrorKind, Limits, Model, OpenOptions, Part, WriteOptions, ops};

/// Eight groups of 64 codes of 4 bits: code n in row n, and scales and biases in BF16.
fn int4(name: &str) -> Safetensors {
    let weight: Vec<u8> = (0..8u8).flat_map(|row| [row | row << 4; 32]).collect();
    let scales: Vec<u8> = (0..8).flat_map(|_| 0x3f80u16.to_le_bytes()).collect();
    let biases: Vec<u8> = (0..8).flat_map(|_| 0xc000u16.to_le_bytes()).collect();
    Safetensors::new()
        .tensor(name, "U32", &[8, 8], weight)
        .tensor(&format!("{name}.scale"), "BF16", &[8, 1], scales)
        .tensor(&format!("{name}.bias"), "BF16", &[8, 1], biases)
}

/// The values of [`int4`]: row n holds n - 2.
fn assert_int4(store: &Model, name: &str) {
    let tensor = store.tensor(name).unwrap();
    assert_eq!((tensor.dtype().unwrap(), tensor.shape()), (DType::MLX_AFFINE4, &[8, 64][..]));
    assert_eq!(tensor.group_size(), Some(64));
    let values = tensor.dequantize().unwrap();
    for (row, values) in values.chunks(64).enumerate() {
        assert!(values.iter().all(|&value| value == row as f32 - 2.0), "row {row}: {values:?}");
    }
    let parts: Vec<Part> = tensor.segments().map(|segment| segment.part).collect();
    assert_eq!(parts, [Part::Weight, Part::Scale, Part::Bias]);
}

#[test]
fn combined_blobs_with_metadata() {
    let store = Store::new();
    let said = int4("a.weight").metadata("quant_type", "int4").metadata("group_size", "64");
    let plain = Safetensors::new().tensor("norm.weight", "F32", &[2], f32s(&[1.0, 2.0]));
    let layers = [store.tensor("a.weight", &said), store.tensor("norm.weight", &plain)];
    let opened = Model::open(store.manifest("m/latest", &layers)).unwrap();
    assert_eq!((opened.container(), opened.len(), opened.files().len()), ("ollama", 2, 2));
    assert_int4(&opened, "a.weight");
    let message = opened.stored_tensor("a.weight.scale").unwrap_err();
    insta::assert_snapshot!(without_path(&told(&message), store.path()), @r#"
    NotFound: ./manifests/registry.ollama.ai/library/m/latest: "a.weight.scale" is not a tensor but a part of one
    help: use "a.weight"
    "#);
}

#[test]
fn the_first_layout_keyed_every_tensor_data() {
    let store = Store::new();
    let file = int4("x");
    let part = |number: usize| {
        let array = &file.arrays[number];
        Safetensors::new().tensor("data", &array.dtype, &array.shape, array.bytes.clone())
    };
    let layers = [
        store.tensor("a.weight", &part(0)),
        store.tensor("a.weight_scale", &part(1)),
        store.tensor("a.weight_qbias", &part(2)),
    ];
    let opened = Model::open(store.manifest("m/latest", &layers)).unwrap();
    assert_eq!(opened.len(), 1);
    assert_int4(&opened, "a.weight");
}

#[test]
fn packed_blobs_name_their_tensors_themselves() {
    let store = Store::new();
    let both = int4("l.0.weight").with(|file| file.arrays.extend(int4("l.1.weight").arrays));
    // Types for each tensor, and none at all: groups of 64 are then the only usual reading.
    let said = both
        .clone()
        .metadata("l.0.weight.quant_type", "int4")
        .metadata("l.0.weight.group_size", "64");
    for (file, guessed) in [(both, "l.0.weight"), (said, "l.1.weight")] {
        let layers = [store.tensor("l", &file)];
        let opened = Model::open(store.manifest("m/latest", &layers)).unwrap();
        assert_eq!(opened.len(), 2);
        let text = "its quantization is not stated: read with the group sizes that Ollama writes";
        assert_eq!(notes(&opened), format!("tensor \"{guessed}\": {text}"));
        assert_int4(&opened, "l.0.weight");
        assert_int4(&opened, "l.1.weight");
    }
}

#[test]
fn a_tensor_that_is_really_called_scale_stays_one() {
    let store = Store::new();
    let file = Safetensors::new().tensor("router.scale", "F32", &[1], f32s(&[1.0])).tensor(
        "q.bias",
        "F32",
        &[1],
        f32s(&[2.0]),
    );
    let opened = Model::open(store.manifest("m/latest", &[store.tensor("router", &file)])).unwrap();
    assert_eq!(opened.len(), 2);
    assert_eq!(*opened.stored_tensor("router.scale").unwrap().dequantize().unwrap(), [1.0]);
}

#[test]
fn blobs_open_by_themselves() {
    let store = Store::new();
    let tensor = store.blob(&int4("a.weight").metadata("quant_type", "int4").build());
    let opened = Model::open(store.path().join(format!("blobs/sha256-{tensor}"))).unwrap();
    assert_int4(&opened, "a.weight");
    assert_eq!(opened.metadata().str("quant_type"), Some("int4"));
    let gguf = Gguf::new().tensor("t", DType::F32, &[1], f32s(&[3.0])).build();
    let gguf = store.blob(&gguf);
    let opened = Model::open(store.path().join(format!("blobs/sha256-{gguf}"))).unwrap();
    assert_eq!((opened.container(), opened.len()), ("gguf", 1));
}

#[test]
fn gguf_models_and_what_belongs_to_them() {
    let store = Store::new();
    let gguf = Gguf::new()
        .key("general.architecture", Kv::text("llama"))
        .tensor("token_embd.weight", DType::F32, &[1, 1], f32s(&[3.0]))
        .build();
    let layers = [
        store.layer("model", "", &gguf),
        store.layer("projector", "", b"GGUF"),
        store.layer("template", "", b"{{ .Prompt }}"),
        store.layer("license", "", b"do as you like"),
    ];
    let opened = Model::open(store.manifest("m/latest", &layers)).unwrap();
    assert_eq!((opened.container(), opened.len()), ("ollama", 1));
    assert_eq!(opened.metadata().str("general.architecture"), Some("llama"));
    assert_eq!(opened.metadata().str("ollama.template"), Some("{{ .Prompt }}"));
    let kinds: Vec<&str> = opened.attachments().iter().map(|a| a.kind.as_str()).collect();
    assert_eq!(kinds, ["projector", "template", "license"]);
    let resolution = opened.resolution().unwrap();
    assert_eq!(resolution.mapped[0].canonical, "token_embedding.weight");
    assert!(opened.verify_digests(0, |_| Ok(())).unwrap().is_empty());
}

#[test]
fn changed_blobs_are_found_by_their_digests() {
    let store = Store::new();
    let file = Safetensors::new().tensor("a", "F32", &[1], f32s(&[1.0]));
    let path = store.manifest("m/latest", &[store.tensor("a", &file)]);
    let digest = store.blob(&file.build());
    put(
        store.path(),
        &format!("blobs/sha256-{digest}"),
        Safetensors::new().tensor("a", "F32", &[1], f32s(&[2.0])).build(),
    );
    let opened = Model::open(&path).unwrap();
    assert_eq!(opened.verify_digests(0, |_| Ok(())).unwrap().len(), 1);
    put(store.path(), &format!("blobs/sha256-{digest}"), b"short");
    insta::assert_snapshot!(store.refused(&path).replace(&digest, "DIGEST"), @r#"
    Malformed: ./blobs/sha256-DIGEST: the layer "a" has 5 bytes, but the manifest says 66
    help: pull the model again
    "#);
}

#[test]
fn manifests_that_are_no_model() {
    let store = Store::new();
    let path = store.manifest("m/latest", &[store.layer("template", "", b"x")]);
    insta::assert_snapshot!(store.refused(&path), @"Malformed: ./manifests/registry.ollama.ai/library/m/latest: the model has no weights: its layers are template");

    let config = store.blob(br#"{"remote_host":"https://ollama.com","remote_model":"big"}"#);
    let cloud = format!(
        "{{\"schemaVersion\":2,\"config\":{{\"digest\":\"sha256:{config}\"}},\"layers\":[]}}"
    );
    put(store.path(), "manifests/registry.ollama.ai/library/m/cloud", cloud);
    insta::assert_snapshot!(store.refused(&path.with_file_name("cloud")), @"
    Unsupported: ./manifests/registry.ollama.ai/library/m/cloud: a cloud model, served by https://ollama.com, without local weights
    help: pull a model that runs on this machine
    ");

    for digest in ["../../x", "sha256:ab", "sha256-../../../../etc/passwd", ""] {
        let layer = format!(
            "{{\"mediaType\":\"application/vnd.ollama.image.tensor\",\"digest\":\"{digest}\",\"size\":1}}"
        );
        let path = store.manifest("m/digest", &[layer]);
        assert!(
            store.refused(&path).contains("is not sha256: and 64 hexadecimal digits"),
            "{digest}"
        );
    }
}

#[test]
fn a_scale_that_the_metadata_promise_must_be_there() {
    let store = Store::new();
    let file = Safetensors::new().metadata("quant_type", "int4").tensor(
        "a.weight",
        "U32",
        &[8, 8],
        vec![0; 256],
    );
    let path = store.manifest("m/latest", &[store.tensor("a.weight", &file)]);
    assert!(store.refused(&path).contains(".scale is missing"));
    // The shapes of 4 bits in groups of 64 are those of 8 bits in groups of 32, but not of 64.
    let wrong = int4("a.weight").metadata("quant_type", "int8").metadata("group_size", "64");
    let path = store.manifest("m/latest", &[store.tensor("a.weight", &wrong)]);
    assert!(
        store
            .refused(&path)
            .contains("the blob's metadata say int8 in groups of 64, but the shapes fit")
    );
}

#[test]
fn lists_of_manifests_give_the_child_that_is_here() {
    let store = Store::new();
    let gguf = Gguf::new().tensor("t", DType::F32, &[1], f32s(&[3.0])).build();
    let child = store.blob(manifest(&[store.layer("model", "", &gguf)]).as_bytes());
    let absent = "0".repeat(64);
    let list = format!(
        "{{\"schemaVersion\":2,\"mediaType\":\"application/vnd.ollama.manifest.list.v2+json\",\"manifests\":[\
         {{\"digest\":\"sha256:{absent}\",\"runner\":\"llamacpp\"}},{{\"digest\":\"sha256:{child}\",\"runner\":\"ggml\"}}]}}"
    );
    put(store.path(), "manifests/registry.ollama.ai/library/m/latest", list);
    let path = store.path().join("manifests/registry.ollama.ai/library/m/latest");
    assert_eq!(Model::open(path).unwrap().len(), 1);
}

#[cfg(unix)]
#[test]
fn links_are_followed_checked_and_reported() {
    let store = Store::new();
    let file = Safetensors::new().tensor("a", "F32", &[1], f32s(&[1.0]));
    let text = manifest(&[store.tensor("a", &file)]);
    let digest = store.blob(text.as_bytes());
    let folder = store.path().join("manifests-v2/ollama.com/library/m");
    std::fs::create_dir_all(&folder).unwrap();
    let target = format!("../../../../blobs/sha256-{digest}");
    std::os::unix::fs::symlink(&target, folder.join("latest")).unwrap();
    assert_eq!(Model::open(folder.join("latest")).unwrap().len(), 1);
    // The manifest is changed under its name.
    put(store.path(), &format!("blobs/sha256-{digest}"), format!("{text} "));
    assert!(store.refused(&folder.join("latest")).contains("does not match the digest"));
    // A blob that lies elsewhere.
    let blob = store.blob(&file.build());
    let (here, there) =
        (store.path().join(format!("blobs/sha256-{blob}")), store.path().join("moved"));
    std::fs::rename(&here, &there).unwrap();
    std::os::unix::fs::symlink(&there, &here).unwrap();
    let opened = Model::open(store.manifest("m/latest", &[store.layer("x", "", b"")
        , format!("{{\"mediaType\":\"application/vnd.ollama.image.tensor\",\"digest\":\"sha256:{blob}\",\"size\":{},\"name\":\"a\"}}", file.build().len())])).unwrap();
    assert!(notes(&opened).contains("a symbolic link to"));
}

/// A model of tensors `t.0`, `t.1` and so on, each with its number and in a blob of its own.
fn numbered(store: &Store, count: usize) -> std::path::PathBuf {
    let layers: Vec<String> = (0..count)
        .map(|n| {
            let name = format!("t.{n}");
            let file = Safetensors::new().tensor(&name, "F32", &[1], f32s(&[n as f32]));
            store.tensor(&name, &file)
        })
        .collect();
    store.manifest("m/latest", &layers)
}

#[test]
fn many_blobs_do_not_keep_their_files_open() {
    let store = Store::new();
    let path = numbered(&store, 80);
    for options in [OpenOptions::new(), OpenOptions::new().read(), OpenOptions::new().threads(3)] {
        let opened = options.open(&path).unwrap();
        assert_eq!(opened.len(), 80);
        for n in 0..80 {
            assert_eq!(
                *opened.stored_tensor(&format!("t.{n}")).unwrap().dequantize().unwrap(),
                [n as f32]
            );
        }
    }
    // A blob that is replaced meanwhile is not taken for the one that was opened.
    let opened = OpenOptions::new().read().open(&path).unwrap();
    let blob = opened.stored_tensor("t.7").unwrap().segments().next().unwrap().path.to_path_buf();
    let bytes = std::fs::read(&blob).unwrap();
    std::fs::remove_file(&blob).unwrap();
    std::fs::write(&blob, [&bytes[..], b"more"].concat()).unwrap();
    let error = opened.stored_tensor("t.7").unwrap().dequantize().unwrap_err();
    assert!(error.to_string().contains("was changed or replaced"), "{error}");
}

#[test]
fn stores_are_listed() {
    let store = Store::new();
    let file = Safetensors::new().tensor("a", "F32", &[1], f32s(&[1.0]));
    let layers = [store.tensor("a", &file)];
    store.manifest("m/latest", &layers);
    store.manifest("m/q4", &layers);
    put(store.path(), "manifests/hf.co/u/n/Q8_0", manifest(&layers));
    put(store.path(), "manifests/hf.co/u/n/.DS_Store", "x");
    put(store.path(), "manifests/hf.co/u/n/broken", "<html>");
    let (place, models, faults) = ollama::models(Some(store.path()), &OpenOptions::new()).unwrap();
    assert_eq!(place, store.path());
    let names: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
    assert_eq!(names, ["hf.co/u/n:Q8_0", "m:latest", "m:q4"]);
    assert_eq!(models[1].format, "safetensors");
    assert_eq!((models[1].id.len(), models[1].bytes), (12, file.build().len() as u64));
    assert_eq!(faults.len(), 1);
    assert!(ollama::models(Some(&store.path().join("no")), &OpenOptions::new()).is_err());
}

/// The refusal of a model of one blob.
fn refused_blob(file: &Safetensors) -> String {
    let store = Store::new();
    let path = store.manifest("m/latest", &[store.tensor("a.weight", file)]);
    let digest = store.blob(&file.build());
    store.refused(&path).replace(&digest, "DIGEST")
}

#[test]
fn parts_that_do_not_belong_together_are_refused() {
    // Only NVFP4 has a value for the whole tensor, and it is a plain number.
    let global = int4("a.weight").tensor("a.weight.global_scale", "F32", &[1], f32s(&[1.0]));
    insta::assert_snapshot!(refused_blob(&global), @r#"Malformed: ./blobs/sha256-DIGEST: tensor "a.weight": MLX_AFFINE4 has no .global_scale, but one is stored"#);
    let nvfp4 = |dtype: &str, bytes: usize| {
        Safetensors::new()
            .metadata("quant_type", "nvfp4")
            .tensor("a.weight", "U32", &[2, 4], vec![0; 32])
            .tensor("a.weight.scale", "U8", &[2, 2], vec![0; 4])
            .tensor("a.weight.global_scale", dtype, &[1], vec![0; bytes])
    };
    insta::assert_snapshot!(refused_blob(&nvfp4("F16", 2)), @r#"Malformed: ./blobs/sha256-DIGEST: tensor "a.weight": MLX_NVFP4 has no .global_scale, but one is stored"#);
    assert_eq!(refused_blob(&nvfp4("F32", 4)), "opened, with 1 tensors");
    // Five groups are no part of a row of 64 or fewer values.
    let groups = Safetensors::new()
        .metadata("quant_type", "int4")
        .tensor("a.weight", "U32", &[8, 8], vec![0; 256])
        .tensor("a.weight.scale", "BF16", &[8, 5], vec![0; 80])
        .tensor("a.weight.bias", "BF16", &[8, 5], vec![0; 80]);
    insta::assert_snapshot!(refused_blob(&groups), @r#"
    Malformed: ./blobs/sha256-DIGEST: tensor "a.weight": the blob's metadata say int4, but the shapes fit nothing
    help: config.json and the tensors are of different models, or damaged
    "#);
}

#[test]
fn plain_tensors_with_a_scale_beside_them_stay_plain() {
    let store = Store::new();
    let file = Safetensors::new().tensor("router", "F32", &[2], f32s(&[1.0, 2.0])).tensor(
        "router.scale",
        "F32",
        &[1],
        f32s(&[3.0]),
    );
    let opened = Model::open(store.manifest("m/latest", &[store.tensor("router", &file)])).unwrap();
    assert_eq!(opened.len(), 2);
    assert_eq!(*opened.stored_tensor("router").unwrap().dequantize().unwrap(), [1.0, 2.0]);
    assert_eq!(*opened.stored_tensor("router.scale").unwrap().dequantize().unwrap(), [3.0]);
}

#[test]
fn limits_bound_blobs_manifests_and_modelfiles() {
    let store = Store::new();
    let path = numbered(&store, 3);
    let open = |shards: u32| {
        let mut limits = Limits::default();
        limits.shards = shards;
        OpenOptions::new().limits(limits).open(&path)
    };
    assert_eq!(open(3).unwrap().len(), 3);
    insta::assert_snapshot!(without_path(&told(&open(2).unwrap_err()), store.path()), @"
    LimitExceeded: ./manifests/registry.ollama.ai/library/m/latest: 3 blobs, but the limit is 2
    help: for a file that you trust, the library can raise Limits::shards
    ");
    let size = std::fs::metadata(&path).unwrap().len();
    let list = |bytes: u64| {
        let mut limits = Limits::default();
        limits.document_bytes = bytes;
        ollama::models(Some(store.path()), &OpenOptions::new().limits(limits)).unwrap()
    };
    assert_eq!(list(size).1.len(), 1);
    let (_, models, faults) = list(size - 1);
    assert_eq!((models.len(), faults.len()), (0, 1));
    assert_eq!(faults[0].kind(), ErrorKind::LimitExceeded);

    // A file with nothing but a hole.
    let modelfile = store.path().join("Modelfile");
    let most = Limits::default().document_bytes;
    std::fs::File::create(&modelfile).unwrap().set_len(most + 1).unwrap();
    let error = Modelfile::read(&modelfile).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
}

#[test]
fn lists_of_manifests_may_contain_them() {
    let store = Store::new();
    let gguf = Gguf::new().tensor("t", DType::F32, &[1], f32s(&[3.0])).build();
    let child = manifest(&[store.layer("model", "", &gguf)]);
    let child = child.trim_end().replacen('{', "{\"runner\":\"llamacpp\",", 1);
    let list = format!("{{\"schemaVersion\":2,\"manifests\":[{child}]}}");
    let place = "manifests/registry.ollama.ai/library/m/latest";
    put(store.path(), place, list);
    let opened = Model::open(store.path().join(place)).unwrap();
    assert_eq!(*opened.stored_tensor("t").unwrap().dequantize().unwrap(), [3.0]);
}

/// Until 2024 the names of blobs had a colon.
#[cfg(unix)]
#[test]
fn blobs_under_their_older_names_are_verified() {
    let store = Store::new();
    let file = Safetensors::new().tensor("a", "F32", &[1], f32s(&[1.0]));
    let path = store.manifest("m/latest", &[store.tensor("a", &file)]);
    let digest = store.blob(&file.build());
    let [new, old] =
        ["-", ":"].map(|mark| store.path().join(format!("blobs/sha256{mark}{digest}")));
    std::fs::rename(&new, &old).unwrap();
    let opened = Model::open(&path).unwrap();
    assert_eq!(*opened.stored_tensor("a").unwrap().dequantize().unwrap(), [1.0]);
    assert!(opened.verify_digests(0, |_| Ok(())).unwrap().is_empty());
    std::fs::write(&old, Safetensors::new().tensor("a", "F32", &[1], f32s(&[2.0])).build())
        .unwrap();
    let changed = Model::open(&path).unwrap().verify_digests(0, |_| Ok(())).unwrap();
    assert_eq!(changed.len(), 1);
}

#[test]
fn manifests_of_the_second_tree_are_only_read() {
    let store = Store::new();
    let gguf = Gguf::new()
        .key("general.architecture", Kv::text("llama"))
        .tensor("token_embd.weight", DType::F32, &[1, 1], f32s(&[3.0]))
        .build();
    let place = "manifests-v2/ollama.com/library/m/latest";
    let text = manifest(&[store.layer("model", "", &gguf)]);
    put(store.path(), place, &text);
    let path = store.path().join(place);
    let edit = |keys: &mut KeyValues| {
        keys.set_text("general.name", "new");
        Ok(())
    };
    let error = ops::edit_metadata(&path, edit, &WriteOptions::new()).unwrap_err();
    insta::assert_snapshot!(without_path(&told(&error), store.path()), @"
    Unsupported: ./manifests-v2/ollama.com/library/m/latest: this manifest is in the second tree of manifests (manifests-v2), which this program only reads
    help: copy the model to a file with `weighbridge convert NAME copy.gguf --to gguf`, change the copy, and create a model from it
    ");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn parameters_of_ollama_are_settings_for_generating() {
    let store = Store::new();
    let gguf = Gguf::new()
        .key("general.sampling.temp", Kv::F32(0.25))
        .tensor("t", DType::F32, &[1], f32s(&[3.0]))
        .build();
    let open = |params: &[u8]| {
        let layers = [store.layer("model", "", &gguf), store.layer("params", "", params)];
        Model::open(store.manifest("m/latest", &layers)).unwrap()
    };
    let model = open(br#"{"temperature":0.5,"num_predict":-1,"stop":["<end>"],"num_ctx":4096}"#);
    let found = model.generation_config().unwrap().unwrap();
    let temperature = found.temperature.unwrap();
    assert_eq!((temperature.value, &*temperature.source), (0.5, "ollama.params temperature"));
    // Ollama writes -1 for "no limit".
    assert_eq!(found.max_new_tokens.unwrap().value, u32::MAX);
    assert_eq!(found.stop.unwrap().value, ["<end>"]);
    assert_eq!(found.other.get("num_ctx").and_then(|size| size.as_u64()), Some(4096));
    // Parameters that are no object say nothing, so that the file's own settings count.
    let found = open(b"[1]").generation_config().unwrap().unwrap();
    let temperature = found.temperature.unwrap();
    assert_eq!((temperature.value, &*temperature.source), (0.25, "general.sampling.temp"));
}

/// A blob that somebody deleted is named, beside those that changed.
#[test]
fn blobs_that_are_gone_are_found() {
    use weighbridge::ops::{self, VerifyOptions};

    let store = Store::new();
    let model = Gguf::new().tensor("t", DType::F32, &[1], f32s(&[1.0])).build();
    let layers = [
        store.layer("model", "", &model),
        store.layer("projector", "", b"gone"),
        store.layer("license", "", b"changed"),
    ];
    let manifest = store.manifest("m/latest", &layers);
    let verified = || {
        let report = ops::verify(&Model::open(&manifest).unwrap(), &VerifyOptions::new()).unwrap();
        assert_eq!(report.digests, 3);
        report.faults.iter().map(|fault| without_path(fault, store.path())).collect::<Vec<_>>()
    };
    assert_eq!(verified(), Vec::<String>::new());
    let [gone, changed] = [b"gone" as &[u8], b"changed"].map(|bytes| store.blob(bytes));
    std::fs::remove_file(store.path().join(format!("blobs/sha256-{gone}"))).unwrap();
    put(store.path(), &format!("blobs/sha256-{changed}"), b"CHANGED");
    let faults = verified();
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert_eq!(faults[0], format!("./blobs/sha256-{gone}: the file is missing"));
    assert!(faults[1].contains(&changed), "{faults:?}");
}

/// A model that `ollama create` made of a base and an adapter, and one with a projector.
#[test]
fn layers_of_adapters_and_projectors_are_not_dropped() {
    let fixture = |name: &str| {
        std::fs::read(crate::support::root().join("tests/fixtures/lora/llama").join(name))
    };
    let base = Model::open(crate::support::root().join("tests/fixtures/lora/llama/base")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let written = |model: &Model, name: &str, options: &ConvertOptions| {
        let plan = ops::convert(model, options).unwrap_or_else(|error| panic!("{error}"));
        plan.run(&folder.path().join(name), &weighbridge::WriteOptions::new()).unwrap();
        (Model::open(folder.path().join(name)).unwrap(), plan.notes.join("; "))
    };
    let (gguf, _) = written(&base, "base.gguf", &ConvertOptions::new(&GGUF));
    let adapter = fixture("adapter.gguf").unwrap();
    let projector = Gguf::new()
        .key("general.architecture", Kv::text("clip"))
        .key("clip.projector_type", Kv::text("mlp"))
        .tensor("mm.0.weight", DType::F32, &[2, 2], f32s(&[1.0; 4]));
    let store = Store::new();
    let layers = [
        store.layer("model", "", &std::fs::read(folder.path().join("base.gguf")).unwrap()),
        store.layer("adapter", "", &adapter),
        store.layer("projector", "", &projector.build()),
    ];
    let model = Model::open(store.manifest("mine/latest", &layers)).unwrap();
    std::fs::write(folder.path().join("adapter.gguf"), &adapter).unwrap();
    let opened = Adapter::open(folder.path().join("adapter.gguf")).unwrap();
    let expected = Adapter::merged(&gguf, &[opened.into()]).unwrap();
    let same = |found: &Model| {
        let values = |model: &Model| {
            model.tensor("layers.0.attention.q.weight").unwrap().dequantize().unwrap().to_vec()
        };
        let all = values(found).into_iter().zip(values(&expected));
        all.into_iter().all(|(a, b)| (a - b).abs() <= 0.01 * b.abs().max(1.0))
    };
    assert!(!same(&model) && same(&Adapter::with_attached(&model).unwrap()));
    for (name, container) in [("merged.gguf", &GGUF), ("merged", &SAFETENSORS)] {
        let (merged, notes) = written(&model, name, &ConvertOptions::new(container));
        assert!(same(&merged), "{name}");
        assert!(notes.contains("merged LoRA adapter"), "{notes}");
        assert!(notes.contains("a file of its own (projector)"), "{notes}");
    }
    let options = LlamaOptions::new(FileType::F32);
    let plan = ops::quantize(&model, &options, None, &folder.path().join("q.gguf")).unwrap();
    plan.run(&folder.path().join("q.gguf"), &weighbridge::WriteOptions::new()).unwrap();
    assert!(same(&Model::open(folder.path().join("q.gguf")).unwrap()));
    // What only copies a file leaves the adapter out, and says so.
    for plan in [ops::merge(&model, None), ops::split(&model, Shards::Tensors(8), Path::new("s"))] {
        let notes = plan.unwrap().notes.join("; ");
        assert!(notes.contains("the adapter that Ollama's store attaches"), "{notes}");
    }
    let (copied, _) = written(&model, "mm.gguf", &ConvertOptions::new(&GGUF).projector(true));
    assert_eq!(copied.stored_tensor("mm.0.weight").unwrap().shape(), [2, 2]);
    assert_eq!(copied.metadata().str("clip.projector_type"), Some("mlp"));
    let error = ops::convert(&model, &ConvertOptions::new(&GGUF).projector(true).dtype(DType::F16));
    assert!(error.unwrap_err().to_string().contains("is copied as it is"));
}
