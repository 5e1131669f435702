//! Files that did not arrive whole: cut ones, single shards, shards joined by their bytes, pages in place of
//! shards, and blobs whose content is not that of their name.

#[cfg(feature = "http")]
use weighbridge::ops::{self, VerifyOptions};
use weighbridge::{DType, Model, OpenOptions};

use crate::support::{Gguf, Kv, Safetensors, f32s, folder, notes, told};

fn gguf() -> Gguf {
    let keys = Gguf::new()
        .key("general.architecture", Kv::text("llama"))
        .key("general.name", Kv::text("Tiny"));
    ["output.weight", "token_embd.weight"]
        .iter()
        .fold(keys, |file, name| file.tensor(name, DType::F32, &[8, 32], f32s(&[1.0; 256])))
}

#[test]
fn a_cut_file_has_a_header() {
    let whole = gguf().build();
    let cut = whole[..whole.len() - 1000].to_vec();
    let missing = "1000 missing";
    let safetensors = Safetensors::new()
        .tensor("a.weight", "F32", &[8, 32], f32s(&[1.0; 256]))
        .tensor("b.weight", "F32", &[8, 32], f32s(&[1.0; 256]))
        .build();
    let cut_tensors = safetensors[..safetensors.len() - 1000].to_vec();
    let files = folder(&[("cut.gguf", cut), ("cut.safetensors", cut_tensors)]);
    for name in ["cut.gguf", "cut.safetensors"] {
        let path = files.path().join(name);
        let error = Model::open(&path).expect_err("cut short");
        assert!(told(&error).contains(missing), "{}", told(&error));
        let model = OpenOptions::new().partial(true).open(&path).expect("its header");
        assert_eq!(model.len(), 2);
        assert!(notes(&model).contains(missing), "{}", notes(&model));
        // What is there can be read, the rest cannot.
        let mut read = model.stored_tensors().map(|tensor| tensor.dequantize().is_ok());
        assert_eq!((read.next(), read.next()), (Some(true), Some(false)), "{name}");
    }
}

fn shard(number: u16, tensor: &str) -> Vec<u8> {
    Gguf::new()
        .key("general.architecture", Kv::text("llama"))
        .key("split.no", Kv::U16(number))
        .key("split.count", Kv::U16(2))
        .key("split.tensors.count", Kv::I32(2))
        .tensor(tensor, DType::F32, &[8, 32], f32s(&[1.0; 256]))
        .build()
}

#[test]
fn a_shard_is_a_part_of_its_set() {
    let (first, second) = ("m-00001-of-00002.gguf", "m-00002-of-00002.gguf");
    let files = folder(&[(first, shard(0, "output.weight"))]);
    let path = files.path().join(first);
    Model::open(&path).expect_err("a shard is missing");
    let model = OpenOptions::new().partial(true).open(&path).expect("one shard");
    let part = "shard 1 of 2 with 1 of the 2 tensors of the model; missing: m-00002-of-00002.gguf";
    assert!(notes(&model).contains(part), "{}", notes(&model));

    let pointer = b"version https://git-lfs.github.com/spec/v1\n".to_vec();
    let files = folder(&[(first, shard(0, "output.weight")), (second, pointer)]);
    let error = Model::open(files.path().join(first)).expect_err("a pointer");
    assert!(error.to_string().contains("a Git LFS pointer"), "{error}");

    let joined = [shard(0, "output.weight"), shard(1, "token_embd.weight")].concat();
    let files = folder(&[("joined.gguf", joined)]);
    let error = Model::open(files.path().join("joined.gguf")).expect_err("joined");
    let fault = "2 shards of a model one after another in one file";
    assert!(error.to_string().contains(fault), "{error}");

    let index = r#"{"weight_map": {"a.weight": "m-00001-of-00002.safetensors",
        "b.weight": "m-00002-of-00002.safetensors"}}"#;
    let weights = Safetensors::new().tensor("a.weight", "F32", &[8, 32], f32s(&[1.0; 256])).build();
    let files = folder(&[
        ("m-00001-of-00002.safetensors", weights),
        ("m.safetensors.index.json", index.as_bytes().to_vec()),
    ]);
    let model = Model::open(files.path().join("m-00001-of-00002.safetensors")).expect("a file");
    let part = "shard 1 of 2, with 1 of the 2 tensors of the model";
    assert!(notes(&model).contains(part), "{}", notes(&model));
    Model::open(files.path()).expect_err("a shard is missing");
    let model = OpenOptions::new().partial(true).open(files.path()).expect("what is there");
    assert!(notes(&model).contains("1 of the 2 shards of m are here"), "{}", notes(&model));
}

/// The cache of the hub: `snapshots/REVISION/FILE` is a link to `blobs/DIGEST`.
#[cfg(all(unix, feature = "http"))]
#[test]
fn blobs_are_compared_with_their_names() {
    use crate::hub::{blob_name, sha256};
    let weights = Safetensors::new().tensor("a.weight", "F32", &[8, 32], f32s(&[1.0; 256])).build();
    let config = br#"{"model_type": "unheard-of"}"#.to_vec();
    let cache = tempfile::tempdir().expect("a folder");
    let snapshot = cache.path().join("models--a--b/snapshots/0123");
    let blobs = cache.path().join("models--a--b/blobs");
    std::fs::create_dir_all(&snapshot).expect("a folder");
    std::fs::create_dir_all(&blobs).expect("a folder");
    for (name, bytes) in [("model.safetensors", &weights), ("config.json", &config)] {
        let blob = blob_name(name, bytes);
        std::fs::write(blobs.join(&blob), bytes).expect("written");
        std::os::unix::fs::symlink(format!("../../blobs/{blob}"), snapshot.join(name))
            .expect("a link");
    }
    let verify = |options: &VerifyOptions<'_>| {
        let model = Model::open(&snapshot).expect("a model");
        ops::verify(&model, options).expect("a report")
    };
    let report = verify(&VerifyOptions::new());
    assert_eq!((report.digests, report.faults), (2, Vec::new()));
    let digest = sha256(&weights);
    assert!(verify(&VerifyOptions::new().sha256(&digest)).faults.is_empty());
    let faults = verify(&VerifyOptions::new().sha256(&"0".repeat(64))).faults.join("\n");
    assert!(faults.contains(&digest) && faults.contains("is expected"), "{faults}");
    for (name, bytes) in [("model.safetensors", &weights), ("config.json", &config)] {
        let mut damaged = bytes.clone();
        // The last value, and a letter of the model's type.
        let at = bytes.len() - 4;
        damaged[at] ^= 1;
        let blob = blobs.join(blob_name(name, bytes));
        std::fs::write(&blob, &damaged).expect("written");
        let faults = verify(&VerifyOptions::new()).faults.join("\n");
        assert!(faults.contains(name), "{faults}");
        assert!(faults.contains("which differs from the file's name"), "{faults}");
        std::fs::write(&blob, bytes).expect("written");
    }
}

/// The files of a repository, compared with copies of them: whole, changed, cut, under another name, and with
/// others next to them.
#[cfg(feature = "http")]
#[test]
fn files_are_compared_with_those_of_the_hub() {
    use crate::hub::{COMMIT, Hub};
    let weights = |value: f32| {
        let file = Safetensors::new().tensor("a.weight", "F32", &[8, 32], f32s(&[value; 256]));
        file.build()
    };
    let config = br#"{"model_type": "unheard-of"}"#.to_vec();
    let files = vec![
        ("model.safetensors".to_owned(), weights(1.0)),
        ("config.json".to_owned(), config.clone()),
        ("tokenizer.json".to_owned(), b"{}".to_vec()),
        ("README.md".to_owned(), b"# A tale".to_vec()),
        ("half/model.safetensors".to_owned(), weights(0.5)),
        ("half/config.json".to_owned(), config.clone()),
    ];
    let hub = Hub::start("org/tale", files);
    let mut network = weighbridge::remote::Network::default();
    network.timeout = std::time::Duration::from_secs(60);
    network.hub.clone_from(&hub.hub.address);
    let verify = |name: &str, local: &[(&str, Vec<u8>)], opened: &str| {
        let here = folder(local);
        let model = Model::open(here.path().join(opened)).expect("a model");
        let report = ops::verify(&model, &VerifyOptions::new().hub(name).network(&network));
        report.map(|report| (report.digests, report.faults.join("\n"), report.notes.join("\n")))
    };
    let whole = [("model.safetensors", weights(1.0)), ("config.json", config.clone())];
    let (digests, faults, notes) = verify("org/tale", &whole, "").expect("a report");
    assert_eq!((digests, faults.as_str()), (2, ""));
    let said =
        format!("compared with org/tale@main ({}): model.safetensors, config.json", &COMMIT[..12]);
    assert!(notes.contains(&said), "{notes}");
    assert!(notes.contains("but not here: tokenizer.json"), "{notes}");
    assert!(!notes.contains("README.md"), "{notes}");

    let changed = [("model.safetensors", weights(2.0)), ("config.json", b"{\"a\": 1}".to_vec())];
    let (_, faults, notes) = verify("hf://org/tale@main", &changed, "").expect("a report");
    assert!(notes.contains("but not here: tokenizer.json\n"), "{notes}");
    assert!(faults.contains("model.safetensors: digest "), "{faults}");
    assert!(faults.contains("config.json: 8 bytes, but org/tale@main"), "{faults}");

    // Other weights of the repository, by their folder, and a file that was renamed.
    let half = [("model.safetensors", weights(0.5)), ("config.json", config.clone())];
    assert_eq!(verify("org/tale/half", &half, "").expect("a report").1, "");
    let renamed = [("tale.safetensors", weights(0.5)), ("generation_config.json", b"{}".to_vec())];
    let (digests, faults, notes) =
        verify("org/tale/half/model.safetensors", &renamed, "tale.safetensors").expect("a report");
    assert_eq!((digests, faults.as_str()), (1, ""));
    assert!(notes.contains("has no file of this name: generation_config.json"), "{notes}");
    let (digests, faults, _) = verify("org/tale", &renamed, "tale.safetensors").expect("a report");
    assert_eq!(digests, 0);
    assert!(faults.contains("has no file of this name; ORG/NAME/FILE names another"), "{faults}");

    for wrong in ["tale", "org/tale:Q4_K_M", "org/tale/../x"] {
        let error = verify(wrong, &whole, "").expect_err("no repository");
        assert!(told(&error).contains("is no repository of the hub"), "{}", told(&error));
    }
    verify("org/other", &whole, "").expect_err("another repository");
}
