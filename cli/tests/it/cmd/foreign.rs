//! Files and folders that are not whole models: what they are, and what to do.

use std::path::Path;

use crate::support::{file, printed, refused, run, safetensors};

/// Writes files into a folder; a name that ends in / is a folder.
fn folder(names: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, bytes) in names {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        match name.ends_with('/') {
            true => std::fs::create_dir_all(&path).expect("a folder"),
            false => std::fs::write(&path, bytes).expect("a file"),
        }
    }
    folder
}

/// Checks `inspect` of a path: the status, and whether the error and its advice have these texts.
fn assert_says(path: &Path, status: u8, fault: &str, advice: &str) {
    let said = refused(&["inspect", path.to_str().expect("UTF-8")]);
    assert!(said.starts_with(&format!("{status}\n")), "{}: {said}", path.display());
    let (error, help) = said.split_once("\n help: ").unwrap_or((&said, ""));
    assert!(error.contains(fault), "{}: {said}", path.display());
    assert!(help.contains(advice), "{}: {said}", path.display());
}

fn vector() -> Vec<u8> {
    safetensors("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", b"x")
}

#[test]
fn files() {
    let dat = [&1u32.to_le_bytes()[..], &14u32.to_le_bytes(), b"blk.0.k.weight", &[9; 40]].concat();
    let unigram = b"\x0a\x0e\x0a\x05<unk>\x15\0\0\0\0\x18\x02".as_slice();
    let onnx = b"\x08\x0a\x12\x05tf2ml:\x80\x01".as_slice();
    let unnamed = b"\x08\x07:\x80\x01".as_slice();
    for (name, bytes, status, fault, advice) in [
        ("imatrix.dat", dat.as_slice(), 4, "importance matrix", "--imatrix"),
        ("wiki.imatrix", dat.as_slice(), 4, "importance matrix", "--imatrix"),
        ("model.onnx", onnx, 4, "an ONNX model", ".safetensors or GGUF"),
        ("encoder.onnx", unnamed, 4, "an ONNX model", ".safetensors or GGUF"),
        ("renamed", onnx, 4, "an ONNX model", ".safetensors or GGUF"),
        ("tokenizer.model", unigram, 3, "SentencePiece tokenizer", "together with the weights"),
        ("merges.txt", b"#version: 0.2\na b\n".as_slice(), 3, "merges of a tokenizer", "directory"),
        ("tokenizer.json", b"{\"model\":{}}".as_slice(), 3, "a tokenizer", "directory"),
        ("adapter_config.json", b"{}".as_slice(), 3, "config of an adapter", "directory"),
        ("vocab.json", b"{}".as_slice(), 3, "JSON", "directory"),
        ("model.safetensors.incomplete", b"GGUF".as_slice(), 3, "unfinished download", "restart"),
        ("0a1b.incomplete", b"x".as_slice(), 3, "unfinished download", "restart"),
        ("llama.llamafile", b"MZqFpD='\n".as_slice(), 4, "a llamafile", "unzip"),
        ("setup.exe", b"MZ\x90\0\x03\0\0\0".as_slice(), 3, "a program", "path of the model"),
    ] {
        let (_folder, path) = file(name, bytes);
        assert_says(Path::new(&path), status, fault, advice);
    }
}

/// Pages and errors that servers send instead of a file.
#[test]
fn answers_of_servers() {
    let download = "fetch the file again";
    for (name, text, fault) in [
        (
            "model.safetensors",
            "{\"error\":\"Repository not found\"}",
            "it says \"Repository not found\"",
        ),
        (
            "model.gguf",
            "{\"message\": \"Access denied\", \"code\": 7}",
            "it says \"Access denied\"",
        ),
        ("model.gguf", "{\"error\":{\"message\":\"rate limit\"}}", "it says \"rate limit\""),
        ("model.safetensors", "[]", "a JSON document"),
        ("model.safetensors", "Entry not found", "it begins with \"Entry not found\""),
        ("model.gguf", "Invalid username or password.\n", "it begins with \"Invalid username"),
        ("pytorch_model.bin", "Not Found", "it begins with \"Not Found\""),
        ("blob", "{\"error\":\"gone\"}", "it says \"gone\""),
    ] {
        let (_folder, path) = file(name, text.as_bytes());
        assert_says(Path::new(&path), 3, fault, download);
    }
    let (_folder, path) = file("model.safetensors", b"<?xml version=\"1.0\"?><Error>no</Error>");
    assert_says(Path::new(&path), 3, "an XML document", "fetch");
    // A long answer is cut.
    let long = format!("{{\"error\": \"{}\"}}", "x".repeat(5000));
    let (_folder, path) = file("model.safetensors", long.as_bytes());
    assert_says(Path::new(&path), 3, "a JSON document", download);
}

#[test]
fn folders() {
    let json = b"{}".as_slice();
    type Case<'c> = (&'c [(&'c str, &'c [u8])], u8, &'c str, &'c str);
    let cases: &[Case<'_>] = &[
        (
            &[("tokenizer.json", json), ("tokenizer_config.json", json)],
            3,
            "a tokenizer without weights",
            "fetch the weights",
        ),
        (&[("tokenizer.model", json)], 3, "a tokenizer without weights", "fetch the weights"),
        (
            &[("vocab.json", json), ("merges.txt", json)],
            3,
            "a tokenizer without weights",
            "fetch the weights",
        ),
        (&[("config.json", json)], 3, "a config without weights", "fetch the weights"),
        (
            &[("adapter_config.json", json), ("README.md", json)],
            3,
            "without its weights",
            "adapter_model.safetensors",
        ),
        (
            &[("model.onnx", json), ("config.json", json), ("tokenizer.json", json)],
            4,
            "only ONNX models",
            ".safetensors or GGUF",
        ),
        (
            &[("openvino_model.bin", json), ("openvino_model.xml", json)],
            4,
            "an OpenVINO model",
            ".safetensors or GGUF",
        ),
        (
            &[("tf_model.h5", json), ("config.json", json)],
            4,
            "TensorFlow weights",
            ".safetensors or GGUF",
        ),
        (
            &[("flax_model.msgpack", json), ("config.json", json)],
            4,
            "Flax weights",
            ".safetensors or GGUF",
        ),
        (
            &[("pytorch_model.bin", b"\x80\x02}q"), ("config.json", json)],
            4,
            "only PyTorch pickles",
            "safetensors",
        ),
        (
            &[("adapter_model.bin", b"\x80\x02}q"), ("adapter_config.json", json)],
            4,
            "only PyTorch pickles",
            "safetensors",
        ),
        (&[("imatrix.dat", json)], 4, "only an importance matrix", "--imatrix"),
        (&[("0a.incomplete", json)], 3, "unfinished download", "restart"),
    ];
    for (names, status, fault, advice) in cases {
        assert_says(folder(names).path(), *status, fault, advice);
    }
    // The folders of a pipeline are named.
    let vector = vector();
    let pipeline = folder(&[
        ("model_index.json", json),
        ("unet/diffusion_pytorch_model.safetensors", &vector),
        ("vae/diffusion_pytorch_model.safetensors", &vector),
        ("tokenizer/vocab.json", json),
    ]);
    assert_says(pipeline.path(), 4, "a pipeline of diffusers", "the folder of a single model");
}

/// A model in the cache of the Hugging Face hub, given by a folder above its snapshot.
#[test]
fn folders_of_the_hub_s_cache() {
    let vector = vector();
    let [old, new] =
        ["0123456789abcdef0123456789abcdef01234567", "89abcdef0123456789abcdef0123456789abcdef"];
    let file = |commit: &str| format!("hub/models--org--name/snapshots/{commit}/model.safetensors");
    let [a, b] = [old, new].map(file);
    let config = format!("hub/models--org--name/blobs/{old}");
    let cache = folder(&[
        ("hub/models--org--name/blobs/0a1b", &vector),
        (&config, b"{\"model_type\": \"llama\"}"),
        ("hub/models--org--name/refs/main", new.as_bytes()),
        (&a, &vector),
        (&b, &vector),
        ("hub/models--org--empty/blobs/0a.incomplete", b""),
        ("hub/models--org--empty/snapshots/", b""),
        ("hub/version.txt", b"1"),
    ]);
    assert_says(&cache.path().join(&config), 3, "a JSON document", "give the model instead");
    let hub = cache.path().join("hub");
    let model = hub.join("models--org--name");
    let snapshot = format!("snapshots/{new}");
    for (path, fault) in [
        (model.join("snapshots"), "the snapshots in the Hugging Face cache"),
        (model.join("blobs"), "the blobs in the Hugging Face cache"),
        (model.join("refs"), "the references in the Hugging Face cache"),
    ] {
        assert_says(&path, 3, fault, &snapshot);
    }
    assert_says(&hub, 3, "the Hugging Face cache, which holds several models", "models--org--");
    assert_says(&hub.join("models--org--empty"), 3, "in the Hugging Face cache", "did not finish");
    // The folder of a repository is its main branch, and so is a link to it.
    let link = cache.path().join("link");
    #[cfg(unix)]
    std::os::unix::fs::symlink(&model, &link).expect("a link");
    for path in [model.join(&snapshot), model.clone(), link] {
        if cfg!(not(unix)) && !path.exists() {
            continue;
        }
        let out = printed(&["inspect", path.to_str().expect("UTF-8")]);
        assert!(out.contains(&snapshot), "{out}");
    }
    // Without a reference, it is the only snapshot with files.
    std::fs::remove_file(model.join("refs/main")).expect("removed");
    std::fs::remove_file(model.join(format!("snapshots/{old}/model.safetensors")))
        .expect("removed");
    let out = printed(&["inspect", model.to_str().expect("UTF-8")]);
    assert!(out.contains(&snapshot), "{out}");
}

/// A link whose target is gone names both, also in a snapshot of the hub's cache, whose folder says the same.
#[cfg(unix)]
#[test]
fn links_without_targets() {
    let cache = tempfile::tempdir().expect("a folder");
    let snapshot = cache.path().join("models--org--name/snapshots/0123456789abcdef");
    std::fs::create_dir_all(&snapshot).expect("folders");
    let target = format!("../../blobs/{}", "a1".repeat(32));
    for name in ["ggml-base.en.bin", "model.gguf", "model.safetensors"] {
        let link = snapshot.join(name);
        std::os::unix::fs::symlink(&target, &link).expect("a link");
        let fault = format!("{}: a link to {target}, which does not exist", link.display());
        for path in [&link, &snapshot] {
            assert_says(path, 5, &fault, "pull the model again");
        }
        std::fs::remove_file(&link).expect("removed");
    }
}

/// Programs that pass quotes on, and answers of storage servers.
#[test]
fn quotes_and_errors_in_xml() {
    let files = folder(&[("a.gguf", b"GGUF")]);
    let path = files.path().join("a.gguf").display().to_string();
    for quote in ['"', '\''] {
        let said = refused(&["inspect", &format!("{quote}{path}{quote}")]);
        assert!(said.contains(&format!("did you mean {path}?")), "{said}");
    }
    for (text, fault) in [
        ("<?xml version=\"1.0\"?>\n<Error><Code>AccessDenied</Code></Error>", "\"AccessDenied\""),
        ("<Error><Code>NoSuchKey</Code><Message>It is gone.</Message></Error>", "\"It is gone.\""),
        ("<?xml version=\"1.0\"?><net></net>", "an XML document, not a model"),
        ("<?xml version=\"1.0\"?><!DOCTYPE html><html></html>", "an HTML page"),
    ] {
        let (_folder, path) = file("model.gguf", text.as_bytes());
        assert_says(Path::new(&path), 3, fault, "the file");
    }
}

/// An adapter of PEFT opens, and says what it is.
#[test]
fn adapters() {
    let vector = vector();
    for (config, said) in [
        (
            "{\"peft_type\":\"LORA\",\"base_model_name_or_path\":\"org/base\"}",
            "(kind LoRA) for org/base",
        ),
        ("{\"peft_type\":\"IA3\"}", "(kind IA3) for a base model"),
        (
            "{\"peft_type\":\"LORA\",\"base_model_name_or_path\":null}",
            "(kind LoRA) for a base model",
        ),
    ] {
        let folder = folder(&[
            ("adapter_config.json", config.as_bytes()),
            ("adapter_model.safetensors", &vector),
        ]);
        for path in [folder.path().to_path_buf(), folder.path().join("adapter_model.safetensors")] {
            let ran = run(&["inspect", path.to_str().expect("UTF-8")]);
            assert_eq!(ran.status, Some(0));
            assert!(ran.err.contains(said) && ran.err.contains("not a whole model"), "{}", ran.err);
        }
        let path = folder.path().to_str().expect("UTF-8");
        assert_eq!(run(&["inspect", "--config", path]).status, Some(4));
        assert_eq!(run(&["verify", path]).status, Some(0));
    }
}

/// A destination in a folder that does not exist names the folder.
#[test]
fn missing_folders_of_destinations() {
    let (hf, gguf) = ("assets/sample/hf", "assets/sample/sample-Q8_0.gguf");
    let folder = tempfile::tempdir().expect("a folder");
    let inside =
        |name: &str| folder.path().join("none").join(name).to_str().expect("UTF-8").to_owned();
    let [file, directory, list] = ["x.gguf", "x", "x.list"].map(inside);
    for arguments in [
        &["convert", hf, &file][..],
        &["convert", gguf, &directory, "--to", "safetensors"],
        &["convert", gguf, &directory, "--to", "mlx"],
        &["quantize", hf, &file, "Q8_0"],
        &["quantize", hf, &directory, "--mlx", "4"],
        &["split", gguf, &directory, "--max-tensors", "9"],
        &["merge", gguf, &file],
        &["merge", "--align", "64", gguf, &file],
        &["hash", gguf, "--save", &list],
        &["dump", gguf, "output_norm.weight", "-o", &list],
        &["run", "logits", gguf, "--ids", "1", "-o", &list],
        &["meta", "set", gguf, "general.name=x", "-o", &file],
    ] {
        let said = refused(arguments);
        assert!(said.starts_with("5\n"), "{arguments:?}: {said}");
        assert!(
            said.contains("the folder ") && said.contains("does not exist"),
            "{arguments:?}: {said}"
        );
        assert!(!said.contains("partial"), "{arguments:?}: {said}");
    }
    std::fs::write(folder.path().join("none"), "a file").expect("a file");
    let said = refused(&["merge", gguf, &file]);
    assert!(said.starts_with("2\n") && said.contains("is a file, not a folder"), "{said}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 1);
}
