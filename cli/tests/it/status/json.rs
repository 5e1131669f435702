//! With `--json`, an error is one JSON document on standard error.

use crate::support;
use crate::support::{failure, file, run, sample};
use serde_json::json;

const GGUF: &str = "assets/sample/sample-Q8_0.gguf";

/// Every verb that knows `--json`, on a path that does not exist.
#[test]
fn every_verb() {
    let none = "no-such-file";
    for arguments in [
        &["inspect", none][..],
        &["inspect", "--config", none],
        &["hash", none],
        &["diff", none, GGUF],
        &["diff", GGUF, none],
        &["verify", none],
        &["bench", none],
        &["run", "logits", none, "--ids", "1"],
        &["convert", none, "x.gguf"],
        &["quantize", none, "x.gguf", "Q8_0"],
        &["create", "x", none],
        &["split", none, "x"],
        &["merge", none, "x"],
        &["merge", "--align", "64", none, "x"],
        &["meta", "get", none],
        &["meta", "set", none, "a=b"],
        &["meta", "rm", none, "a"],
        &["quantize", none, "--list-types"],
    ] {
        let error = failure(&[arguments, &["--json"]].concat());
        assert_eq!((&error["kind"], &error["path"]), (&json!("not_found"), &json!(none)));
        assert_eq!(error["status"], 5, "{arguments:?}");
        let before = failure(&[&[arguments[0]], &["--json"], &arguments[1..]].concat());
        if !["meta", "run"].contains(&arguments[0]) {
            assert_eq!(before["kind"], "not_found", "{arguments:?}");
        }
    }
}

/// Each member says what the text says.
#[test]
fn members() {
    let (_folder, path) = file("model.gguf", b"GGUF\x03\0\0\0");
    let error = failure(&["inspect", &path, "--json"]);
    assert_eq!((&error["kind"], &error["offset"]), (&json!("malformed"), &json!(8)));
    assert_eq!(error["path"], *path);
    assert!(error["advice"].as_str().is_some_and(|advice| advice.contains("fetch")));
    let text = run(&["inspect", &path]).err;
    let message = error["message"].as_str().expect("a message");
    assert_eq!(text.lines().next(), Some(&*format!("error: {message}")));

    let (_folder, path) = sample();
    let broken = ["meta", "set", &path, "llama.attention.head_count=3", "--force"];
    assert_eq!(run(&broken).status, Some(0));
    let error = failure(&["bench", &path, "--json"]);
    assert_eq!(error["kind"], "malformed");
    assert_eq!(error["tensor"], "blk.0.attn_q.weight");

    let error = failure(&["meta", "get", GGUF, "no.such.key", "--json"]);
    assert_eq!((&error["kind"], &error["key"]), (&json!("not_found"), &json!("no.such.key")));
}

#[test]
fn wrong_usage() {
    for arguments in [
        &["inspect", "--json"][..],
        &["inspct", "x", "--json"],
        &["inspect", "x", "--nope", "--json"],
        &["inspect", "x", "--strict", "--lenient", "--json"],
        &["--json"],
        &["list", "nothing", "--json"],
        &["dump", "x", "y", "--json"],
        &["quantize", "x", "y", "--type", "Q99", "--json"],
        &["convert", GGUF, "y", "--json"],
        &["hash", "x", "y", "--save", "z", "--json"],
        &["split", "x", "y", "--max-shard-size", "many", "--json"],
        &["verify", "x", "y", "--against", "z", "--json"],
    ] {
        let error = failure(arguments);
        assert_eq!(
            (&error["kind"], &error["status"]),
            (&json!("usage"), &json!(2)),
            "{arguments:?}"
        );
        let message = error["message"].as_str().expect("a message");
        assert!(!message.is_empty() && !message.contains('\n'), "{arguments:?}: {message:?}");
        assert!(!message.starts_with("error"), "{arguments:?}: {message:?}");
    }
    // After `--`, it is no option.
    assert!(run(&["inspect", "--", "--json"]).err.starts_with("error: "));
}

/// Notes are members of the document: standard error holds nothing else.
#[test]
fn notes_are_part_of_the_document() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = |name: &str| {
        let from = support::root().join("assets/sample/hf").join(name);
        std::fs::copy(from, folder.path().join(name)).expect("a copy");
    };
    std::fs::read_dir(support::root().join("assets/sample/hf"))
        .expect("the sample")
        .flatten()
        .for_each(|entry| copy(entry.file_name().to_str().expect("UTF-8")));
    std::fs::copy(support::root().join(GGUF), folder.path().join("other.gguf")).expect("a copy");
    let path = folder.path().to_str().expect("UTF-8");
    let noted = |value: &serde_json::Value| {
        let notes = value["notes"].as_array().expect("notes");
        notes.iter().any(|note| note.as_str().is_some_and(|note| note.contains("other.gguf")))
    };
    for arguments in [
        &["inspect", "--config", path, "--json"][..],
        &["bench", path, "--json"],
        &["hash", path, "--json"],
        &["inspect", path, "--json"],
        &["verify", path, "--json"],
        &["convert", path, "x.gguf", "--dry-run", "--json"],
    ] {
        assert!(noted(&support::json(arguments)), "{arguments:?}");
    }
    let error = failure(&["bench", path, "--filter", "nothing", "--json"]);
    assert!(noted(&error) && error["kind"] == "not_found", "{error}");
}

/// The errors of several models, and faults that were found before, are in the same document.
#[test]
fn several_errors() {
    let (_folder, broken) = file("broken.gguf", b"GGUF\x03\0\0\0");
    for verb in ["inspect", "verify", "hash"] {
        let error = failure(&[verb, &broken, GGUF, "no-such-file", "--json"]);
        assert_eq!(error["kind"], "malformed", "{verb}");
        assert_eq!(error["others"][0]["kind"], "not_found", "{verb}");
        let ran = run(&[verb, &broken, GGUF, "no-such-file", "--json"]);
        let path =
            |line| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["path"].clone();
        let paths: Vec<serde_json::Value> = ran.out.lines().map(path).collect();
        let all = [json!(broken), json!(GGUF), json!("no-such-file")];
        assert_eq!(paths, if verb == "verify" { &all[..] } else { &all[1..2] }, "{verb}");
    }
    for verb in ["inspect", "verify", "hash", "memory"] {
        let each = |path| support::json(&[verb, path, "--json"]).to_string();
        let lines = [each(GGUF), each("assets/sample/hf")];
        let ran = run(&[verb, GGUF, "assets/sample/hf", "--json"]);
        let lines_of_both: Vec<serde_json::Value> =
            ran.out.lines().map(|line| serde_json::from_str(line).expect("a document")).collect();
        assert_eq!(
            lines_of_both.iter().map(ToString::to_string).collect::<Vec<_>>(),
            lines,
            "{verb}"
        );
    }

    let store = tempfile::tempdir().expect("a folder");
    let place = store.path().join("manifests/registry.ollama.ai/library/broken");
    std::fs::create_dir_all(&place).expect("folders");
    std::fs::write(place.join("a"), "{").expect("a file");
    std::fs::write(place.join("b"), "[]").expect("a file");
    let run = support::program(&["models", "--json"])
        .env("OLLAMA_MODELS", store.path())
        .output()
        .expect("the program starts");
    assert_eq!(run.status.code(), Some(1));
    let error: serde_json::Value = serde_json::from_slice(&run.stderr).expect("one document");
    assert_eq!(error["others"].as_array().map(Vec::len), Some(1), "{error}");
    let report: serde_json::Value = serde_json::from_slice(&run.stdout).expect("one document");
    let models = report["models"].as_array().expect("models");
    assert_eq!(models.len(), 2, "{report}");
    assert_eq!((&models[0]["name"], &models[0]["container"]), (&json!("broken:a"), &json!(null)));
}

/// JSON is UTF-8. Bytes of a path that are not are spelled as in texts, so that paths stay apart.
#[cfg(target_os = "linux")]
#[test]
fn paths_that_are_not_utf_8() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9.gguf"));
    std::fs::copy(support::root().join(GGUF), &path).expect("a copy");
    for verb in ["inspect", "hash", "verify", "config", "bench"] {
        let ran = std::process::Command::new(env!("CARGO_BIN_EXE_weighbridge"))
            .args([verb, "--json"])
            .arg(&path)
            .output()
            .expect("the program");
        assert_eq!(ran.status.code(), Some(0), "{verb}");
        let report: serde_json::Value = serde_json::from_slice(&ran.stdout).expect("JSON");
        let found = report["path"].as_str().expect("a path");
        assert!(found.ends_with("/caf\\xe9.gguf"), "{verb}: {found}");
    }
}
