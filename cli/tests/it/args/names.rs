//! Names, endings and defaults: what may be left out, and what other programs spell differently.

use std::path::Path;

use crate::support;
use crate::support::{failure, file, json, printed, refused, run};

const GGUF: &str = "assets/sample/sample-Q8_0.gguf";
const HF: &str = "assets/sample/hf";

fn inside(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).to_str().expect("UTF-8").to_owned()
}

#[test]
fn shards_have_at_most_the_size_that_was_asked_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let to = folder.path().join("out");
    let words = ["convert", "assets/sample/hf", to.to_str().expect("UTF-8"), "--to", "safetensors"];
    assert_eq!(run(&[&words[..], &["--max-shard-size", "1M"]].concat()).status, Some(0));
    let files = support::contents(&to);
    let shards: Vec<_> = files.iter().filter(|(name, _)| name.ends_with(".safetensors")).collect();
    assert!(shards.len() > 2, "{:?}", files.keys());
    assert!(shards.iter().all(|(_, bytes)| bytes.len() < 1_004_096), "{:?}", files.keys());
    let index: serde_json::Value =
        serde_json::from_slice(&files["model.safetensors.index.json"]).expect("JSON");
    let map = index["weight_map"].as_object().expect("a map");
    assert_eq!(map.len(), 20);
    assert!(map.values().all(|file| files.contains_key(file.as_str().expect("a name"))));
}

#[test]
fn types_that_need_an_importance_matrix_say_so() {
    let types = printed(&["list", "types"]);
    let line = |name: &str| types.lines().find(|line| line.starts_with(name)).expect("a line");
    assert!(line("IQ2_XXS ").contains("  required  ") && !line("Q4_K_M ").contains("required"));
}

/// A folder named as a verb is not taken for a model before its verb.
#[test]
fn a_folder_may_have_the_name_of_a_verb() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("run")).expect("a folder");
    let model = support::root().join(GGUF);
    let words = ["run", "logits", model.to_str().expect("UTF-8"), "--ids", "1"];
    let ran = support::program(&words).current_dir(folder.path()).output().expect("a program");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

/// `-` is standard output, not a file of that name.
#[test]
fn a_report_goes_to_standard_output() {
    let page = printed(&["view", "assets/sample/mlx-4bit", "-o", "-"]);
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"), "{page:.200}");
    assert!(!support::root().join("-").exists());
}

#[test]
fn the_ending_names_the_container() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, container) in
        [("x.gguf", "gguf"), ("x.safetensors", "safetensors"), ("Y.GGUF", "gguf")]
    {
        let path = inside(&folder, name);
        printed_or_noted(&["convert", HF, &path]);
        assert!(Path::new(&path).is_file(), "{name}");
        assert_eq!(json(&["inspect", &path, "--json"])["container"], container, "{name}");
        let tensors = json(&["inspect", &path, "--json"])["tensor_count"].clone();
        assert_eq!(tensors, 20, "{name}");
    }
    // A file's directory needs a container; an ending that contradicts it is refused.
    for arguments in [
        &["convert", GGUF, "directory"][..],
        &["convert", HF, "x.bin"],
        &["convert", HF, "x.gguf", "--to", "safetensors"],
        &["convert", HF, "x.gguf", "--to", "mlx"],
        &["convert", HF, "x.safetensors", "--to", "gguf"],
        &["convert", HF, "x.safetensors", "--to", "mlx"],
        &["convert", HF, "x.safetensors", "--max-shard-size", "1M"],
    ] {
        let said = refused(arguments);
        assert!(said.starts_with("2\n"), "{arguments:?}: {said}");
    }
}

/// Runs what must succeed, and may print notes.
fn printed_or_noted(arguments: &[&str]) -> support::Ran {
    let ran = run(arguments);
    assert_eq!(ran.status, Some(0), "{arguments:?}: {}", ran.err);
    ran
}

/// A file that is named as one is one file; its documents are left out, which is said.
#[test]
fn one_safetensors_file() {
    let folder = tempfile::tempdir().expect("a folder");
    for (number, source) in [HF, GGUF, "assets/sample/mlx-4bit"].into_iter().enumerate() {
        let path = inside(&folder, &format!("{number}.safetensors"));
        let ran = printed_or_noted(&["convert", source, &path, "--to", "safetensors"]);
        assert!(Path::new(&path).is_file() && ran.err.contains("config.json"), "{}", ran.err);
        assert_eq!(json(&["inspect", &path, "--json"])["tensor_count"], 20, "{source}");
    }
    // An existing directory of that name is still a directory.
    let path = inside(&folder, "directory.safetensors");
    std::fs::create_dir(&path).expect("a directory");
    printed_or_noted(&["convert", HF, &path, "--to", "safetensors"]);
    assert!(Path::new(&path).join("config.json").is_file());
}

#[test]
fn the_type_stands_third_as_in_llama_quantize() {
    let folder = tempfile::tempdir().expect("a folder");
    let [third, option] = ["a.gguf", "b.gguf"].map(|name| inside(&folder, name));
    for (spelled, file_type) in [("Q4_K_M", "Q4_K_M"), ("q5_0", "Q5_0"), ("7", "Q8_0")] {
        printed_or_noted(&["quantize", HF, &third, spelled, "--overwrite"]);
        printed_or_noted(&["quantize", HF, &option, "--type", file_type, "--overwrite"]);
        let [a, b] = [&third, &option].map(|path| std::fs::read(path).expect("the file"));
        assert!(a == b, "{spelled}");
    }
    for arguments in [
        &["quantize", HF, &third][..],
        &["quantize", HF, &third, "Q99"],
        &["quantize", HF, &third, "Q8_0", "--type", "Q8_0"],
        &["quantize", HF, &third, "Q8_0", "--mlx", "4"],
    ] {
        assert_eq!(run(arguments).status, Some(2), "{arguments:?}");
    }
}

#[test]
fn types_and_sizes() {
    let rows = |arguments: &[&str]| -> Vec<serde_json::Value> {
        json(arguments)["rows"].as_array().expect("rows").clone()
    };
    let row = |rows: &[serde_json::Value], name: &str| -> serde_json::Value {
        rows.iter().find(|row| row["name"] == name).expect(name).clone()
    };
    let plain = rows(&["list", "types", "--json"]);
    for (name, bits, needs) in [
        ("Q4_0", 4.5, false),
        ("Q8_0", 8.5, false),
        ("F16", 16.0, false),
        ("IQ2_XXS", 2.0625, true),
        ("IQ1_S", 1.5625, true),
        ("Q2_K_S", 2.625, true),
        ("IQ3_XS", 3.4375, true),
        ("Q4_K_M", 4.5, false),
    ] {
        let row = row(&plain, name);
        assert_eq!(
            (row["bits_per_weight"].as_f64(), row["needs_imatrix"].as_bool()),
            (Some(bits), Some(needs)),
            "{name}"
        );
        assert!(row["bytes"].is_null());
    }
    // The sizes are those of the files that `quantize` writes.
    let sized = rows(&["list", "types", HF, "--json"]);
    for name in ["Q4_K_M", "Q8_0", "Q2_K", "F16", "Q5_K_S", "IQ4_XS"] {
        let planned = json(&["quantize", HF, "x.gguf", name, "--dry-run", "--json"]);
        let tensors = planned["tensors"].as_array().expect("tensors");
        let bytes: u64 = tensors.iter().filter_map(|tensor| tensor["bytes"].as_u64()).sum();
        assert_eq!(row(&sized, name)["bytes"], bytes, "{name}");
    }
    for name in ["IQ2_XXS", "IQ1_M", "IQ3_XXS"] {
        assert_eq!(row(&sized, name)["needs_imatrix"], true, "{name}");
        assert_eq!(run(&["quantize", HF, "x.gguf", name, "--dry-run"]).status, Some(2), "{name}");
    }
    let text = printed(&["list", "types"]);
    assert!(text.lines().any(|line| line.starts_with("Q4_K_M ")), "{text}");
    assert!(!text.contains("SIZE") && printed(&["list", "types", GGUF]).contains("SIZE"));
}

#[test]
fn several_models() {
    let both = printed(&["inspect", GGUF, HF]);
    assert!(
        both.contains(&printed(&["inspect", GGUF])) && both.contains(&printed(&["inspect", HF]))
    );
    let both = printed(&["verify", GGUF, HF]);
    assert_eq!(both, printed(&["verify", GGUF]) + &printed(&["verify", HF]));
    let both = printed(&["hash", GGUF, HF]);
    let [a, b] = [GGUF, HF].map(|path| format!("{path}:\n{}", printed(&["hash", path])));
    assert_eq!(both, a + &b);
}

#[test]
fn dumps_to_files() {
    let folder = tempfile::tempdir().expect("a folder");
    for form in ["raw", "f32", "f16", "bf16", "npy", "text"] {
        let path = inside(&folder, form);
        let arguments = ["dump", GGUF, "output_norm.weight", "--as", form];
        let expected = run(&arguments).bytes;
        let ran = run(&[&arguments[..], &["-o", &path]].concat());
        assert_eq!((ran.status, ran.out.as_str()), (Some(0), ""), "{}", ran.err);
        assert!(ran.err.ends_with(&format!("note: wrote {path}\n")), "{}", ran.err);
        assert_eq!(std::fs::read(&path).expect("the file"), expected, "{form}");
        assert_eq!(run(&[&arguments[..], &["-o", "-"]].concat()).bytes, expected, "{form}");
        assert_eq!(run(&[&arguments[..], &["-o", &path]].concat()).status, Some(2), "{form}");
    }
    let lost = inside(&folder, "none/x");
    let error = refused(&["dump", GGUF, "output_norm.weight", "-o", &lost]);
    assert!(error.starts_with("5\n") && error.contains("does not exist"), "{error}");
    // A dump that fails leaves no file.
    let path = inside(&folder, "rows");
    assert_eq!(
        run(&["dump", GGUF, "output_norm.weight", "--rows", "0..9", "-o", &path]).status,
        Some(2)
    );
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 6);
}

/// Bytes do not reach a terminal, unless they were sent there.
#[cfg(target_os = "linux")]
#[test]
fn terminals_get_no_bytes() {
    if std::process::Command::new("script").arg("--version").output().is_err() {
        println!("skipped: terminals_get_no_bytes: no program `script`");
        return;
    }
    let in_terminal = |rest: &str| {
        let line =
            format!("{} dump {GGUF} output_norm.weight {rest}", env!("CARGO_BIN_EXE_weighbridge"));
        let mut script = std::process::Command::new("script");
        script.args(["-qec", &line, "/dev/null"]).current_dir(support::root());
        script.stdin(std::process::Stdio::null());
        let output = script.output().expect("a terminal");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    for form in ["raw", "f32", "f16", "bf16", "npy"] {
        let (status, said) = in_terminal(&format!("--as {form}"));
        assert_eq!(status, Some(2), "{form}: {said}");
        assert!(said.contains("give -o FILE"), "{said}");
        assert_eq!(in_terminal(&format!("--as {form} -o -")).0, Some(0), "{form}");
        assert_eq!(in_terminal(&format!("--as {form} > /dev/null")).0, Some(0), "{form}");
    }
    assert_eq!(in_terminal("--as text").0, Some(0));
}

/// Completion scripts offer the names of types, dtypes, containers and mixes. Those of elvish and
/// PowerShell offer no values at all.
#[test]
fn completions_know_names() {
    for shell in ["bash", "zsh", "fish"] {
        let script = printed(&["completions", shell]);
        for name in
            ["Q4_K_M", "IQ2_XXS", "MXFP4_MOE", "BF16", "Q6_K", "nvfp4", "gate-up", "safetensors"]
        {
            assert!(script.contains(name), "{shell}: {name}");
        }
    }
}

/// A directory with models of two containers says which one is not opened.
#[test]
fn two_containers_in_a_directory() {
    let (folder, _) =
        file("a.gguf", &std::fs::read(support::root().join(GGUF)).expect("the sample"));
    let copy = |name: &str| {
        let from = support::root().join(HF).join(name);
        std::fs::copy(from, folder.path().join(name)).expect("a copy");
    };
    ["config.json", "model.safetensors"].into_iter().for_each(copy);
    let path = folder.path().to_str().expect("UTF-8");
    for verb in ["inspect", "config", "bench", "hash"] {
        let ran = run(&[verb, path]);
        assert_eq!(ran.status, Some(0));
        assert!(ran.err.starts_with("note: ") && ran.err.contains("a.gguf"), "{verb}: {}", ran.err);
    }
    let notes = json(&["inspect", path, "--json"])["notes"].to_string();
    assert!(notes.contains("a.gguf"), "{notes}");
    let verified = run(&["verify", path]);
    assert!(verified.out.contains("a.gguf"), "{}", verified.out);
    // A directory of one container says nothing.
    assert_eq!(run(&["inspect", HF]).err, "");
    assert!(failure(&["dump", path, "nothing", "--json"]).get("notes").is_none());
}
