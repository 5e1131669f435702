//! Exit statuses, and messages about paths and files that are not models.

use crate::support::{file, json, printed, program, refused, run, safetensors};
use insta::assert_snapshot;

/// The output of `inspect` for a file with this name and content, without the path of the folder.
fn said(name: &str, bytes: &[u8]) -> String {
    let (folder, path) = file(name, bytes);
    refused(&["inspect", &path]).replace(&*folder.path().to_string_lossy(), ".")
}

#[test]
fn wrong_files() {
    assert_snapshot!(said("model.gguf", b""), @"
    3
    error: ./model.gguf: the file is empty
     help: the download or copy failed: fetch the file again
    ");
    let archive = [&b"PK\x03\x04..............archive/data.pklPK\x05\x06"[..], &[0; 18]].concat();
    assert_snapshot!(said("model.pt", &archive), @"
    4
    error: ./model.pt: a zip archive: a PyTorch checkpoint (.pt, .pth, .bin)
     help: load it with PyTorch and save it with safetensors, or fetch the model's .safetensors files
    ");
    assert_snapshot!(said("model.bin", b"\x80\x02}q\x00.............."), @"
    4
    error: ./model.bin: a Python pickle: an old PyTorch checkpoint, which could run arbitrary code when loaded
     help: load it with PyTorch and save it with safetensors, or fetch the model's .safetensors files
    ");
    assert_snapshot!(said("model.safetensors", b"<!DOCTYPE html><html></html>"), @"
    3
    error: ./model.safetensors: an HTML page, not a model
     help: a download saved the site's page instead of the file, often one that asks to log in: fetch the file itself
    ");
    assert_snapshot!(said("model.gguf", b"version https://git-lfs.github.com/spec/v1\noid"), @"
    3
    error: ./model.gguf: a Git LFS pointer, not the file it points to
     help: run `git lfs pull` in the repository, or fetch the file itself
    ");
    assert_snapshot!(said("ggml-model.bin", b"lmgg.............."), @r#"
    3
    error: ./ggml-model.bin: text, not weights; it begins with "lmgg.............."
     help: a download may have saved the server's answer instead of the file: check the address, the name and the access token, and fetch the file again
    "#);
    assert_snapshot!(said("model.gguf.incomplete", b"GGUF\x03\0\0\0"), @"
    3
    error: ./model.gguf.incomplete: an unfinished download, according to its name
     help: wait for the download to finish, or restart it
    ");
    assert_snapshot!(said("model.gguf.gz", b"\x1f\x8b\x08.............."), @"
    4
    error: ./model.gguf.gz: compressed with gzip
     help: unpack it first
    ");
    assert_snapshot!(said("notes.txt", b"Nothing but words stand here."), @"
    3
    error: ./notes.txt: a text file, not a model
     help: give the path of the model: a file or a directory
    ");
    assert_snapshot!(said("model.gguf", b"GGUF\x03\0\0\0"), @"
    3
    error: ./model.gguf: the number of tensors needs 8 bytes, but only 0 are left in the file (at byte 8)
     help: the file is cut short or damaged: fetch or copy it again
    ");
    assert_snapshot!(said("config.json", b"{\"model_type\":\"llama\"}"), @"
    3
    error: ./config.json: this is JSON, not weights
     help: give the directory that contains it
    ");
}

#[test]
fn wrong_paths() {
    assert_snapshot!(refused(&["inspect", "assets/sample/sampel.gguf"]), @"
    5
    error: assets/sample/sampel.gguf: no such file
    ");
    assert_snapshot!(refused(&["inspect", "--config", "docs"]), @"
    3
    error: docs: no weights here: neither .gguf nor .safetensors files
     help: give the directory that holds the model, or one of its files
    ");
    assert_snapshot!(refused(&["inspect", "assets/sample/README.md"]), @"
    3
    error: assets/sample/README.md: a text file, not a model
     help: give the path of the model: a file or a directory
    ");
    assert_snapshot!(refused(&["inspect", "/dev/null"]), @"
    5
    error: /dev/null: this is a pipe, socket or device, not a regular file
     help: save what it yields to a file, and give its path
    ");
}

#[test]
fn wrong_usage() {
    for arguments in [
        &["inspect"][..],
        &["inspct", "x"],
        &["inspect", "x", "--nope"],
        &["inspect", "x", "--strict", "--lenient"],
        &["dump", "x", "--rows", "1"],
        &["dump", "x", "y", "--as", "csv"],
        &["list", "nothing"],
        &["completions", "nothing"],
    ] {
        let ran = run(arguments);
        assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(ran.err.starts_with("error: "), "{}", ran.err);
    }
}

/// A model that lacks a tensor and a file that only strict readers refuse are findings, not errors.
#[test]
fn status_1() {
    let header = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}\t";
    let (_folder, path) = file("model.safetensors", &safetensors(header, b"x"));
    assert_eq!(run(&["verify", &path]).status, Some(0));
    let ran = run(&["verify", &path, "--strict"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(1), ""));
    assert_snapshot!(ran.out.replace(&path, "model.safetensors"), @"
    fault: the header is padded with white space other than spaces, which the format's document forbids (at byte 61)
    model.safetensors: 1 fault in 1 file, 1 tensor
    ");

    let folder = tempfile::tempdir().expect("a temporary folder");
    let header = "{\"model.norm.weight\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    let put = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes);
    put("model.safetensors", &safetensors(header, b"x")).expect("a file");
    put("config.json", b"{\"model_type\":\"llama\",\"num_hidden_layers\":2}").expect("a file");
    let path = folder.path().to_str().expect("a path in UTF-8");
    let ran = run(&["verify", path]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(1), ""));
    assert_snapshot!(ran.out.replace(path, "."), @"
    fault: the model lacks token_embedding.weight, which its architecture requires
    fault: the model lacks layers.0..2, which its architecture requires
    fault: .: neither llama.embedding_length nor hidden_size in config.json
    .: 3 faults in 1 file, 1 tensor
    ");
    assert_eq!(run(&["verify", path, "--json"]).status, Some(1));
    // It can be inspected, but has no config.
    assert_eq!(run(&["inspect", path]).status, Some(0));
    assert_eq!(run(&["inspect", "--config", path]).status, Some(3));
}

/// A dtype whose values cannot be read: the report is complete, and the status shows it.
#[test]
fn status_4() {
    let mut gguf = b"GGUF\x03\0\0\0".to_vec();
    gguf.extend(2u64.to_le_bytes());
    gguf.extend(0u64.to_le_bytes());
    for (name, code, offset) in [(b'a', 0u32, 0u64), (b'b', 43, 32)] {
        gguf.extend(1u64.to_le_bytes());
        gguf.push(name);
        gguf.extend(1u32.to_le_bytes());
        gguf.extend(1u64.to_le_bytes());
        gguf.extend(code.to_le_bytes());
        gguf.extend(offset.to_le_bytes());
    }
    gguf.resize(gguf.len().next_multiple_of(32) + 64, 0);
    let (folder, path) = file("model.gguf", &gguf);
    let ran = run(&["hash", &path, "--values", "--json"]);
    assert_eq!(ran.status, Some(4));
    assert_snapshot!(ran.err.replace(&*folder.path().to_string_lossy(), "."), @r#"
    {
      "schema": 1,
      "kind": "unsupported",
      "status": 4,
      "message": "./model.gguf: tensor \"b\": ggml type 43 (unknown) cannot be read",
      "path": "./model.gguf",
      "tensor": "b",
      "key": null,
      "offset": null,
      "advice": null
    }
    "#);
    let report: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    let tensors = &report["tensors"];
    assert_eq!(tensors[0]["f32_sha256"].as_str().map(str::len), Some(64));
    assert_eq!((&tensors[1]["dtype"], &tensors[1]["f32_sha256"]), (&"ggml:43".into(), &().into()));
    assert!(tensors[1]["reason"].is_string());
    assert_eq!(run(&["dump", &path, "b"]).status, Some(4));
    assert_eq!(run(&["dump", &path, "a"]).status, Some(0));
    assert_eq!(json(&["inspect", &path, "--json"])["tensors"][1]["bytes"], 0);
}

#[test]
fn every_status() {
    let sample = "assets/sample/hf";
    assert_eq!(run(&["verify", sample]).status, Some(0));
    assert_eq!(run(&["inspect", sample, "--nope"]).status, Some(2));
    assert_eq!(run(&["dump", sample, "model.norm.weight", "--rows", "0..2"]).status, Some(2));
    assert_eq!(run(&["inspect", "assets"]).status, Some(3));
    assert_eq!(run(&["inspect", "no-such-file"]).status, Some(5));
    assert_eq!(run(&["dump", sample, "no-such-tensor"]).status, Some(5));
}

/// If no space is left, the report cannot be written, and the program says so.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk() {
    let full = || std::fs::File::options().write(true).open("/dev/full").expect("a full device");
    for arguments in [
        &["inspect", "assets/sample/hf"][..],
        &["inspect", "--config", "assets/sample/hf", "--json"],
        &["hash", "assets/sample/hf"],
        &["dump", "assets/sample/hf", "model.norm.weight", "--as", "npy"],
        &["verify", "assets/sample/hf"],
        &["bench"],
        &["list", "dtypes"],
        &["completions", "bash"],
    ] {
        let output = program(arguments).stdout(full()).output().expect("the program starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{arguments:?}: {said}");
        assert!(said.contains("cannot write the output: "), "{said}");
    }
}

/// Names from files reach terminals and messages without control characters.
#[test]
fn names_that_would_write_to_a_terminal() {
    let escape = "\\u001b]0;title\\u0007";
    let header = format!(
        "{{\"__metadata__\":{{\"{escape}\":\"{escape}\"}},\
           \"{escape}\":{{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}}}"
    );
    let folder = tempfile::tempdir().expect("a temporary folder");
    let put = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes);
    put("model.safetensors", &safetensors(&header, b"x")).expect("a file");
    let config = format!(
        "{{\"model_type\":\"{escape}\",\"hidden_size\":1,\"num_attention_heads\":1,\"num_hidden_layers\":1}}"
    );
    put("config.json", config.as_bytes()).expect("a file");
    let path = folder.path().to_str().expect("a path in UTF-8");
    for arguments in [
        &["inspect", path, "--metadata"][..],
        &["inspect", "--config", path],
        &["hash", path],
        &["verify", path],
        &["bench", path],
        &["dump", path, "nope"],
        &["dump", path, "\u{1b}]0;title\u{7}"],
    ] {
        let ran = run(&[&["--color", "always"], arguments].concat());
        for text in [&ran.out, &ran.err] {
            assert!(!text.contains("\u{1b}]"), "{arguments:?}: {text:?}");
            assert!(!text.contains('\u{7}'), "{arguments:?}: {text:?}");
        }
    }
    assert_eq!(printed(&["hash", path]).lines().count(), 1);
}

/// The same for the names of files in notes.
#[cfg(unix)]
#[test]
fn paths_that_would_write_to_a_terminal() {
    let header = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}\t";
    let (folder, _) = file("x\u{1b}]0;title\u{7}.safetensors", &safetensors(header, b"x"));
    let path = folder.path().to_str().expect("a path in UTF-8");
    for verb in ["inspect", "verify", "bench", "hash", "config"] {
        let ran = run(&["--color", "always", verb, path]);
        for text in [&ran.out, &ran.err] {
            assert!(!text.contains("\u{1b}]") && !text.contains('\u{7}'), "{verb}: {text:?}");
        }
    }
}

#[test]
fn numbers_that_are_none() {
    for arguments in [
        ["quantize", "assets/sample/hf", "Q8_0", "--threads", "x"],
        ["run", "generate", "assets/sample/hf", "--prompt=a", "--max-tokens="],
    ] {
        let said = refused(&arguments);
        assert!(said.starts_with("2\n") && said.contains("a whole number is needed"), "{said}");
    }
}
