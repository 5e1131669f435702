//! `--overwrite`: what is replaced, what is refused, and what is listed. No file of anybody else is lost.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support;
use crate::support::{contents, json, printed, refused, root, run};

const HF: &str = "assets/sample/hf";
const GGUF: &str = "assets/sample/sample-Q8_0.gguf";

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

fn succeeds(arguments: &[&str]) {
    let ran = run(arguments);
    assert_eq!(ran.status, Some(0), "{arguments:?}: {}", ran.err);
}

/// Writes files below a folder.
fn put(folder: &Path, files: &[(&str, &[u8])]) {
    for (name, bytes) in files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, bytes).expect("a file");
    }
}

/// The files of a small model.
const MODEL: [(&str, &[u8]); 3] =
    [("config.json", b"{}"), ("model.safetensors", b"weights"), ("tokenizer.json", b"{}")];

/// An index that names two shards.
const INDEX: &[u8] = br#"{"weight_map": {"a": "x-1.safetensors", "b": "x-2.safetensors"}}"#;

const SHARDS: [(&str, &[u8]); 4] = [
    ("config.json", b"{}"),
    ("model.safetensors.index.json", INDEX),
    ("x-1.safetensors", b"1"),
    ("x-2.safetensors", b"2"),
];

/// Names and contents of files.
type Files<'a> = Vec<(&'a str, &'a [u8])>;

#[test]
fn a_folder_that_is_not_one_model_is_refused() {
    let ten: Vec<String> = (0..10).map(|number| format!("{number}.gguf")).collect();
    let ten: Vec<(&str, &[u8])> = ten.iter().map(|name| (name.as_str(), &b"x"[..])).collect();
    let with = |more: &[(&'static str, &'static [u8])]| [&MODEL, more].concat();
    let shards = |more: &[(&'static str, &'static [u8])]| [&SHARDS, more].concat();
    let cases: Vec<(Files<'_>, &str)> = vec![
        (vec![("a.gguf", b"a"), ("b.gguf", b"b")], "it also has \"a.gguf\" and \"b.gguf\""),
        (ten, "\"7.gguf\" and 2 more"),
        (with(&[("README.md", b"mine")]), "it also has \"README.md\""),
        (with(&[("my-lora.safetensors", b"mine")]), "it also has \"my-lora.safetensors\""),
        (with(&[("photos/a.png", b"mine")]), "it also has \"photos/\""),
        (
            with(&[("vocab.csv", b"x"), ("run.py", b"x")]),
            "it also has \"run.py\" and \"vocab.csv\"",
        ),
        (with(&[(".cache/x", b"x")]), "it also has \".cache/\""),
        (shards(&[("model.safetensors", b"another")]), "it also has \"model.safetensors\""),
        (shards(&[("x-3.safetensors", b"3")]), "it also has \"x-3.safetensors\""),
        (shards(&[("model.gguf", b"x")]), "it also has \"model.gguf\""),
        (SHARDS[..3].to_vec(), "it has no \"x-2.safetensors\", which model.safetensors.index.json"),
        (SHARDS[1..].to_vec(), "it has no config.json"),
        (MODEL[1..].to_vec(), "it has no config.json"),
        (vec![MODEL[0]], "it has neither model.safetensors nor model.safetensors.index.json"),
        (
            vec![MODEL[0], ("model.safetensors.index.json", b"no JSON")],
            "model.safetensors.index.json cannot be read",
        ),
        (
            vec![
                MODEL[0],
                ("model-rank-0-part-0.safetensors", b"0"),
                ("model-rank-2-part-0.safetensors", b"2"),
            ],
            "it has no model-rank-1-part-0.safetensors",
        ),
    ];
    for (files, said) in cases {
        let folder = tempfile::tempdir().expect("a folder");
        put(&folder.path().join("m"), &files);
        let before = contents(folder.path());
        let m = folder.path().join("m");
        let m = text(&m);
        let commands: [&[&str]; 5] = [
            &["convert", HF, m, "--to", "mlx", "--overwrite"],
            &["convert", HF, m, "--to", "mlx", "--overwrite", "--dry-run"],
            &["convert", GGUF, m, "--to", "safetensors", "--overwrite"],
            &["quantize", HF, m, "--mlx", "4", "--overwrite"],
            &["split", HF, m, "--max-shard-size", "300K", "--overwrite"],
        ];
        for command in commands {
            let refusal = refused(command);
            assert!(refusal.starts_with("2\n") && refusal.contains(said), "{said}: {refusal}");
            assert!(refusal.contains("or give another name"), "{refusal}");
            assert!(contents(folder.path()) == before, "{command:?}");
        }
        let plan = folder.path().join("plan.json");
        let plan = text(&plan);
        let refusal =
            refused(&["job", "plan", "convert", HF, m, "--to", "mlx", "--overwrite", "-o", plan]);
        assert!(refusal.starts_with("2\n") && refusal.contains(said), "{said}: {refusal}");
        assert!(contents(folder.path()) == before);
    }
}

/// A file that a slice's destination gets before the end of the plan.
#[test]
fn slices_refuse_what_appears_meanwhile() {
    let folder = tempfile::tempdir().expect("a folder");
    let (m, plan) = (folder.path().join("m"), folder.path().join("plan.json"));
    put(&m, &MODEL);
    let (m, plan) = (text(&m), text(&plan));
    succeeds(&["job", "plan", "convert", HF, m, "--to", "mlx", "--overwrite", "-o", plan]);
    succeeds(&["job", "run", plan, "1/1"]);
    put(Path::new(m), &[("README.md", b"mine")]);
    let before = contents(Path::new(m));
    let refusal = refused(&["job", "finish", plan]);
    assert!(refusal.starts_with("2\n") && refusal.contains("\"README.md\""), "{refusal}");
    assert!(contents(Path::new(m)) == before);
    std::fs::remove_file(Path::new(m).join("README.md")).expect("a file");
    let report = json(&["job", "finish", plan, "--json"]);
    let replaced = report["replaced"].as_array().expect("a list");
    assert_eq!(replaced.len(), MODEL.len(), "{report}");
    assert!(Path::new(m).join("model.safetensors.index.json").exists());
}

/// The program replaces what it wrote: `--dry-run` and the report list each file.
#[test]
fn models_of_this_program_are_replaced() {
    let kinds: [&[&str]; 5] = [
        &["--to", "mlx"],
        &["--to", "safetensors"],
        &["--to", "safetensors", "--max-shard-size", "300K"],
        &["--shards", "tp=2"],
        &["--to", "mlx", "--max-shard-size", "300K"],
    ];
    for kind in kinds {
        let folder = tempfile::tempdir().expect("a folder");
        let m = folder.path().join("m");
        let m = text(&m);
        let first = [&["convert", HF, m], kind].concat();
        assert_eq!(json(&[&first[..], &["--json"]].concat())["replaced"], serde_json::json!([]));
        let before = contents(folder.path());
        let all =
            [&["convert", GGUF, m, "--to", "safetensors", "--overwrite"], &["--json"][..]].concat();
        let mut expected: Vec<String> =
            before.keys().map(|name| format!("{}/{name}", text(folder.path()))).collect();
        expected.sort();
        let listed = |report: serde_json::Value| {
            let names = report["replaced"].as_array().expect("a list").iter();
            let mut names: Vec<String> =
                names.map(|name| name.as_str().expect("a name").to_owned()).collect();
            names.sort();
            names
        };
        let dry = run(&[&all[..], &["--dry-run"]].concat());
        assert_eq!(listed(serde_json::from_str(&dry.out).expect("JSON")), expected, "{kind:?}");
        let said = run(&[&all[..all.len() - 1], &["--dry-run"]].concat()).out;
        assert!(
            said.contains("would replace or delete") && said.contains("/config.json"),
            "{said}"
        );
        assert!(contents(folder.path()) == before, "a dry run changes nothing");
        let ran = run(&all);
        assert_eq!(ran.status, Some(0), "{kind:?}: {}", ran.err);
        assert_eq!(listed(serde_json::from_str(&ran.out).expect("JSON")), expected, "{kind:?}");
        let names: Vec<String> = contents(folder.path()).into_keys().collect();
        assert!(names.contains(&"m/model.safetensors".to_owned()), "{names:?}");
        assert!(
            !names.iter().any(|name| name.contains("rank") || name.contains("-of-")),
            "{names:?}"
        );
        assert!(names.iter().all(|name| name.starts_with("m/")), "{names:?}");
    }
}

/// A document that the new model has with the same bytes is not lost.
#[test]
fn the_same_documents_may_be_written_again() {
    let source = tempfile::tempdir().expect("a folder");
    for (name, bytes) in contents(&root().join(HF)) {
        std::fs::write(source.path().join(name), bytes).expect("a copy");
    }
    put(source.path(), &[("modeling_own.py", b"class Own: pass\n")]);
    let folder = tempfile::tempdir().expect("a folder");
    let m = folder.path().join("m");
    let all = ["split", text(source.path()), text(&m), "--max-shard-size", "300K", "--overwrite"];
    succeeds(&all);
    let first = contents(&m);
    assert!(first.contains_key("modeling_own.py"));
    succeeds(&all);
    assert!(contents(&m) == first);
    put(&m, &[("modeling_own.py", b"class Mine: pass\n")]);
    let refusal = refused(&all);
    assert!(refusal.contains("it also has \"modeling_own.py\""), "{refusal}");
}

/// A directory that a run was replacing when it was killed: the old model comes back, or what is left of it
/// is deleted.
#[test]
fn killed_runs_are_settled_by_the_next_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let m = folder.path().join("m");
    let aside = folder.path().join(".m.replaced");
    let convert = ["convert", HF, text(&m), "--to", "mlx"];
    let over = [&convert[..], &["--overwrite"]].concat();
    // Between two renames, where directories cannot be exchanged.
    put(&aside, &MODEL);
    let refusal = refused(&convert);
    assert!(refusal.starts_with("2\n") && refusal.contains("already exists"), "{refusal}");
    let old: BTreeMap<String, Vec<u8>> =
        MODEL.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect();
    assert!(contents(&m) == old && !aside.exists());
    // After the exchange, while the old files were deleted.
    succeeds(&over);
    let new = contents(folder.path());
    put(&aside, &MODEL[2..]);
    succeeds(&over);
    assert!(contents(folder.path()) == new);
    // A file of somebody else is never deleted with them.
    put(&aside, &[("config.json", b"{}"), ("diary.txt", b"mine")]);
    let before = contents(folder.path());
    let refusal = refused(&over);
    assert!(refusal.contains(".m.replaced: ") && refusal.contains("\"diary.txt\""), "{refusal}");
    assert!(contents(folder.path()) == before);
}

/// The shards of a GGUF file: all of the old model, or all of the new one.
#[test]
fn shards_are_replaced_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let stem = folder.path().join("x");
    let split = ["split", GGUF, text(&stem), "--max-tensors", "7"];
    succeeds(&split);
    let new = contents(folder.path());
    assert_eq!(new.len(), 3, "{:?}", new.keys());
    let over = [&split[..], &["--overwrite", "--json"]].concat();
    let name = |number: usize| format!("x-0000{number}-of-00003.gguf");
    let old: Vec<(String, Vec<u8>)> =
        (1..=3).map(|number| (name(number), format!("old {number}").into_bytes())).collect();
    let put_old = || {
        for (name, bytes) in &old {
            std::fs::write(folder.path().join(name), bytes).expect("a file");
        }
    };
    put_old();
    let dry = json(&[&over[..], &["--dry-run"]].concat());
    assert_eq!(dry["replaced"].as_array().map(Vec::len), Some(3));
    assert_eq!(json(&over)["replaced"], dry["replaced"]);
    assert!(contents(folder.path()) == new);
    // A run that was killed after it had moved all old files, and one new file.
    put_old();
    for number in 1..=3 {
        let path = folder.path().join(name(number));
        let aside = folder.path().join(format!(".{}.replaced", name(number)));
        std::fs::rename(path, aside).expect("a rename");
    }
    let refusal = refused(&split);
    assert!(refusal.contains("already exists"), "{refusal}");
    assert!(contents(folder.path()) == old.iter().cloned().collect());
    succeeds(&over);
    assert!(contents(folder.path()) == new);
}

#[test]
fn a_replaced_file_is_listed() {
    let (folder, path) = support::file("x.gguf", b"old");
    let all = ["convert", HF, &path, "--overwrite", "--json"];
    let dry = json(&[&all[..], &["--dry-run"]].concat());
    assert_eq!(dry["replaced"], serde_json::json!([path]));
    assert_eq!(std::fs::read(&path).expect("a file"), b"old");
    assert_eq!(json(&all)["replaced"], serde_json::json!([path]));
    let said = printed(&["convert", HF, &path, "--overwrite"]);
    assert!(said.contains(&format!("replaced or deleted 1 existing file: {path}\n")), "{said}");
    drop(folder);
}

/// A file that replaced `/dev/null` would take what every program throws away.
#[cfg(unix)]
#[test]
fn devices_and_pipes_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    std::os::unix::fs::symlink("/dev/null", at("null")).expect("a link");
    let made = std::process::Command::new("mkfifo").arg(at("pipe")).status();
    assert!(made.expect("mkfifo is in POSIX").success());
    let (null, pipe) = (at("null"), at("pipe"));
    for (words, said) in [
        (&["llama-quantize", GGUF, &null, "Q4_0"][..], "`bench` times loading; --dry-run"),
        (&["convert", GGUF, &null, "--to", "gguf", "--overwrite"], "this is a device"),
        (&["convert", GGUF, &null, "--to", "gguf", "--dry-run"], "this is a device"),
        (&["convert", HF, &null, "--to", "mlx", "--overwrite"], "this is a device"),
        (
            &["dump", GGUF, "output_norm.weight", "-o", &null, "--overwrite"],
            "give the path of a file",
        ),
        (&["quantize", GGUF, &pipe, "Q4_0", "--overwrite"], "it gets its name when it is complete"),
        (&["hash", GGUF, "--save", &pipe], "this is a pipe"),
        (&["meta", "set", GGUF, "name=x", "-o", &pipe, "--overwrite"], "this is a pipe"),
    ] {
        let refusal = refused(words);
        assert!(refusal.contains(said), "{words:?}: {refusal}");
    }
    let kinds = ["null", "pipe"].map(|name| {
        Path::new(&at(name)).symlink_metadata().expect("it is there").file_type().is_file()
    });
    assert_eq!(kinds, [false, false]);
}
