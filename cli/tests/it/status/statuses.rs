//! Exit statuses: one meaning each, whichever verb and whichever kind of fault.

use crate::support;
use crate::support::{file, gguf, run, safetensors, sample};
use weighbridge::metadata::{KeyValues, Value};

const HF: &str = "assets/sample/hf";

fn status(arguments: &[&str]) -> i32 {
    run(arguments).status.unwrap_or_else(|| panic!("{arguments:?}: a signal"))
}

fn assert_statuses(expected: i32, runs: &[&[&str]]) {
    for arguments in runs {
        let ran = run(arguments);
        assert_eq!(ran.status, Some(expected), "{arguments:?}: {}", ran.err);
    }
}

/// A healthy file that is no language model has no config: that is unsupported, and no fault of the
/// file.
#[test]
fn healthy_files_without_a_config() {
    let folder = tempfile::tempdir().expect("a folder");
    let texts: [(&str, &[(&str, &str)]); 4] = [
        ("projector", &[("general.architecture", "clip"), ("general.type", "mmproj")]),
        ("adapter", &[("general.architecture", "llama"), ("general.type", "adapter")]),
        ("imatrix", &[("general.type", "imatrix")]),
        ("unknown", &[("general.architecture", "an-architecture-of-tomorrow")]),
    ];
    for (name, keys) in texts {
        let path = folder.path().join(format!("{name}.gguf"));
        gguf(&path, |metadata| keys.iter().for_each(|(key, text)| metadata.set_text(key, text)));
        let path = path.to_str().expect("UTF-8");
        assert_statuses(
            4,
            &[&["inspect", "--config", path], &["inspect", "--config", path, "--json"]],
        );
        assert_statuses(0, &[&["inspect", path], &["hash", path]]);
    }
    let header = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    let (_folder, path) = file("alone.safetensors", &safetensors(header, b"x"));
    assert_eq!(status(&["inspect", "--config", &path]), 4);
    // A language model that lacks a number that its architecture requires is incomplete.
    let path = folder.path().join("llama.gguf");
    gguf(&path, |metadata| metadata.set_text("general.architecture", "llama"));
    assert_eq!(status(&["inspect", "--config", path.to_str().expect("UTF-8")]), 3);
}

/// A model whose config contradicts its tensors is malformed, whichever verb finds that.
#[test]
fn contradictory_models() {
    for (key, value) in [
        ("llama.attention.head_count", 3),
        ("llama.attention.head_count_kv", 3),
        ("llama.attention.head_count", 5),
    ] {
        let (folder, path) = sample();
        assert_eq!(status(&["meta", "set", &path, &format!("{key}={value}"), "--force"]), 0);
        let out = folder.path().join("out");
        let out = out.to_str().expect("UTF-8");
        assert_statuses(
            3,
            &[
                &["bench", &path],
                &["bench", &path, "--fuse", "qkv,gate-up"],
                &["diff", &path, HF],
                &["convert", &path, out, "--to", "safetensors"],
                &["convert", &path, out, "--to", "mlx", "--dry-run"],
                &["run", "logits", &path, "--ids", "1"],
                &["run", "generate", &path, "--ids", "1", "--print-ids"],
            ],
        );
        assert_eq!(status(&["verify", &path]), 1);
    }
}

/// Formats of other programs are unsupported, whichever; what is no model at all is status 3.
#[test]
fn files_of_other_programs() {
    let onnx = b"\x08\x07\x12\x07pytorch\x1a\x052.1.0:\x80\x01".as_slice();
    for (name, bytes, expected) in [
        ("model.onnx", onnx, 4),
        ("model.pt", b"PK\x03\x04PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0".as_slice(), 4),
        ("cut.pt", b"PK\x03\x04..............".as_slice(), 3),
        ("model.h5", b"\x89HDF\r\n\x1a\n......".as_slice(), 4),
        ("model.npy", b"\x93NUMPY\x01\x00......".as_slice(), 4),
        ("model.tflite", b"\x1c\0\0\0TFL3........".as_slice(), 4),
        ("model.gguf.gz", b"\x1f\x8b\x08..............".as_slice(), 4),
        ("model.gguf.zst", b"\x28\xb5\x2f\xfd..............".as_slice(), 4),
        ("model.safetensors", b"<html><body>404</body></html>".as_slice(), 3),
        ("paper.pdf", b"%PDF-1.7..............".as_slice(), 3),
        ("notes.txt", b"words and nothing else".as_slice(), 3),
    ] {
        let (_folder, path) = file(name, bytes);
        for verb in ["inspect", "verify", "hash", "bench", "config"] {
            assert_eq!(status(&[verb, &path]), expected, "{verb} {name}");
        }
    }
}

/// Whatever is asked for by name and does not exist is status 5.
#[test]
fn names_that_do_not_exist() {
    let gguf = "assets/sample/sample-Q8_0.gguf";
    assert_statuses(
        5,
        &[
            &["dump", gguf, "no-such-tensor"],
            &["meta", "get", gguf, "no.such.key"],
            &["meta", "rm", gguf, "no.such.key"],
            &["inspect", gguf, "--filter", "no-such-*"],
            &["inspect", gguf, "--filter", "no-such-*", "--json"],
            &["inspect", gguf, "--canonical", "--filter", "no-such-*"],
            &["bench", gguf, "--filter", "no-such-*"],
            &["diff", gguf, HF, "--filter", "no-such-*"],
            &["inspect", "no-such-file"],
            &["quantize", HF, "no-such-folder/x.gguf", "Q8_0"],
            &["verify", gguf, "--against", "no-such-list"],
        ],
    );
    assert_statuses(0, &[&["inspect", gguf, "--filter", "*attn_q*"]]);
}

/// A request that does not fit the model or the destination is status 2.
#[test]
fn requests_that_do_not_fit() {
    let (folder, path) = sample();
    let list = folder.path().join("taken");
    std::fs::write(&list, "not a list of hashes").expect("a file");
    let taken = list.to_str().expect("UTF-8");
    assert_statuses(
        2,
        &[
            &["dump", &path, "output_norm.weight", "--rows", "0..99"],
            &["dump", &path, "output_norm.weight", "-o", taken],
            &["hash", &path, "--save", taken],
            &["run", "logits", &path, "--ids", "1", "-o", taken],
            &["merge", &path, taken],
        ],
    );
    assert_eq!(std::fs::read(&list).expect("the file"), b"not a list of hashes");
}

/// The help and docs/scripts.md name the same statuses.
#[test]
fn the_help_names_every_status() {
    let help = support::printed(&["--help"]);
    let (_, said) = help.split_once("Exit status:\n").expect("a list");
    let readme =
        std::fs::read_to_string(support::root().join("docs/scripts.md")).expect("docs/scripts.md");
    let (_, table) = readme.split_once("| status | meaning |").expect("a table");
    let mut table: Vec<&str> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(' ').next())
        .filter(|word| word.parse::<u8>().is_ok())
        .collect();
    // Status 1 has a row for each verb.
    table.dedup();
    let named: Vec<&str> = said
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| word.parse::<u8>().is_ok())
        .collect();
    assert_eq!(named, table);
    assert_eq!(named, ["0", "1", "2", "3", "4", "5", "130"]);
}

#[test]
fn several_models_have_the_status_of_the_one_that_fails() {
    let gguf = "assets/sample/sample-Q8_0.gguf";
    let (_folder, broken) = file("broken.gguf", b"GGUF\x03\0\0\0");
    for verb in ["inspect", "verify", "hash"] {
        assert_eq!(status(&[verb, gguf, HF]), 0, "{verb}");
        let ran = run(&[verb, gguf, &broken, HF, "no-such-file"]);
        assert_eq!(ran.status, Some(3), "{verb}");
        assert!(
            ran.out.contains("sample-Q8_0.gguf") && ran.out.contains(HF),
            "{verb}: {}",
            ran.out
        );
        assert_eq!(ran.err.matches("error: ").count(), 2, "{verb}: {}", ran.err);
    }
    let keys = |metadata: &mut KeyValues| {
        metadata.set_text("general.architecture", "llama");
        metadata.set("llama.block_count", Value::U32(2));
    };
    let folder = tempfile::tempdir().expect("a folder");
    let faulty = folder.path().join("faulty.gguf");
    support::gguf(&faulty, keys);
    let faulty = faulty.to_str().expect("UTF-8");
    assert_eq!(status(&["verify", faulty, gguf]), 1);
}
