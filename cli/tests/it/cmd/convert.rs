//! The verbs that write: their output passes the strictest rules, and the report says what was done
//! with each tensor.

use crate::support::{json, printed, run};

const GGUF: &str = "assets/sample/sample-Q8_0.gguf";
const HF: &str = "assets/sample/hf";
const MLX: &str = "assets/sample/mlx-4bit";

#[test]
fn what_is_written_is_sound() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut number = 0;
    let mut sound = |arguments: &[&str], ending: &str, lossless: bool| {
        number += 1;
        let path = folder.path().join(format!("{number}{ending}"));
        let path = path.to_str().expect("a path").to_owned();
        let mut all = vec![arguments[0], arguments[1], &path];
        all.extend_from_slice(&arguments[2..]);
        // Notes go to standard error.
        let ran = run(&[&all[..], &["--json"]].concat());
        assert_eq!(ran.status, Some(0), "{arguments:?}: {}", ran.err);
        let report: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
        let tensors = report["tensors"].as_array().expect("tensors");
        let exact = tensors.iter().all(|tensor| tensor["lossless"] == true);
        assert_eq!(exact, lossless, "{arguments:?}");
        let first = report["written"][0].as_str().expect("a path").to_owned();
        let verified = json(&["verify", "--strict", "--deep", &first, "--json"]);
        let nothing = serde_json::json!([]);
        assert_eq!((&verified["faults"], &verified["findings"]), (&nothing, &nothing));
        assert_eq!(verified["notes"], nothing, "{arguments:?}");
        first
    };
    let gguf = sound(&["convert", HF, "--to", "gguf"], ".gguf", true);
    let mlx = sound(&["convert", GGUF, "--to", "mlx", "--lossless"], "", true);
    let back = sound(&["convert", &mlx, "--to", "gguf", "--lossless"], ".gguf", true);
    let hf = sound(&["convert", MLX, "--to", "safetensors"], "", false);
    sound(&["convert", &gguf, "--to", "safetensors", "--lossless"], "", true);
    sound(&["convert", HF, "--to", "gguf", "--dtype", "Q4_0"], ".gguf", false);
    sound(&["convert", HF, "--to", "mlx", "--max-shard-size", "300kB"], "", true);
    sound(&["quantize", HF, "--type", "Q4_K_M"], ".gguf", false);
    sound(&["quantize", HF, "--mlx", "4,64"], "", false);
    sound(&["split", HF, "--max-tensors", "7"], "", true);
    sound(&["split", GGUF, "--max-tensors", "7"], ".gguf", true);
    sound(&["merge", GGUF], ".gguf", true);
    sound(&["merge", GGUF, "--align", "4096"], ".gguf", true);
    // Blocks that were converted to MLX groups and back are unchanged.
    assert_eq!(run(&["diff", GGUF, &back]).status, Some(0));
    assert!(printed(&["list", "dtypes"]).contains("MLX_AFFINE8"));
    assert_eq!(run(&["verify", &hf]).status, Some(0));
}

/// Tensors that are quantized as wanted are copied; others are quantized again only if that is allowed.
#[test]
fn quantizing_again_is_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("same");
    let same = path.to_str().expect("a path");
    assert_eq!(run(&["quantize", MLX, same, "--type", "mlx4"]).status, Some(0));
    assert_eq!(run(&["diff", MLX, same]).status, Some(0));
    let other = folder.path().join("other");
    let refused = run(&["quantize", MLX, other.to_str().expect("a path"), "--type", "mlx8"]);
    assert_eq!(refused.status, Some(2));
    assert!(refused.err.contains("already quantized as MLX_AFFINE4"), "{}", refused.err);
    assert!(refused.err.contains("--allow-requantize"), "{}", refused.err);
}

/// Scripts need the path alone.
#[test]
fn quiet_verbs_print_the_path() {
    let folder = tempfile::tempdir().expect("a folder");
    for (number, words) in
        [["convert", GGUF], ["quantize", HF], ["merge", GGUF]].into_iter().enumerate()
    {
        let path = folder.path().join(format!("{number}.gguf"));
        let path = path.to_str().expect("a path");
        let more: &[&str] = if words[0] == "quantize" { &["--type", "Q8_0"] } else { &[] };
        let ran = run(&[&words[..], &[path, "--quiet"], more].concat());
        assert_eq!((ran.status, ran.out.as_str()), (Some(0), format!("{path}\n").as_str()));
    }
}

/// Requests that cannot be met fail before anything is written.
#[test]
fn refusals() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model");
    let path = path.to_str().expect("a path");
    let mut told = Vec::new();
    for arguments in [
        &["convert", MLX, path, "--to", "gguf", "--lossless", "--dtype", "Q8_0"][..],
        &["convert", HF, path, "--to", "gguf", "--dtype", "I8"],
        &["convert", HF, path, "--to", "gguf", "--dtype", "IQ2_XXS"],
        &["convert", HF, path, "--to", "mlx", "--dtype", "Q4_K"],
        &["convert", HF, path, "--to", "safetensors", "--dtype", "MLX_AFFINE4"],
        &["convert", HF, HF, "--to", "mlx", "--overwrite"],
        &["split", GGUF, path, "--max-tensors", "0"],
        &["merge", "no-such-model", path],
    ] {
        let ran = run(arguments);
        assert_eq!((ran.out.as_str(), ran.status == Some(0)), ("", false), "{arguments:?}");
        told.push(format!("{:?}\n{}", &arguments[3..], ran.err.replace(path, "model")));
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn a_merge_of_several_models_is_not_aligned() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let recipe = "merge_method: passthrough\nmodels:\n  - model: x\n";
    std::fs::write(at("recipe.yml"), recipe).expect("written");
    let ran = run(&["merge", &at("recipe.yml"), &at("out.gguf"), "--align", "64"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("align the merged model"), "{}", ran.err);
}

/// The name of a file of another container would hide what is in it.
#[test]
fn files_written_unchanged_are_not_named_otherwise() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (wrong, other) = (path("x.safetensors"), path("x.gguf"));
    for arguments in [
        ["merge", GGUF, &wrong],
        ["split", GGUF, &wrong],
        ["merge", HF, &other],
        ["split", HF, &other],
    ] {
        let ran = run(&arguments);
        assert_eq!(ran.status, Some(2), "{arguments:?}");
        assert!(ran.err.contains("but the tensors stay in"), "{}", ran.err);
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

/// As mlx-lm does: norms in F32 take the dtype that config.json states, so that the model computes in it.
#[test]
fn quantizing_for_mlx_casts_all_floats() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (plain, packed) = (path("plain"), path("packed"));
    let plain_as_stored = ["convert", GGUF, &plain, "--to", "safetensors", "--dequantize"];
    assert_eq!(run(&plain_as_stored).status, Some(0));
    assert!(json(&["inspect", &plain, "--json"])["tensors"].to_string().contains("\"F32\""));
    assert_eq!(run(&["quantize", &plain, &packed, "--mlx", "4,64"]).status, Some(0));
    let written = json(&["inspect", &packed, "--json"])["tensors"].to_string();
    assert!(written.contains("\"F16\"") && !written.contains("\"F32\""), "{written}");
}

/// A destination whose name states no container gets that of a source that is a directory.
#[test]
fn a_directory_becomes_a_directory() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    for (source, container) in [(HF, "safetensors"), (MLX, "mlx")] {
        let to = at(container);
        let ran = run(&["convert", source, &to]);
        assert_eq!(ran.status, Some(0), "{}", ran.err);
        assert_eq!(json(&["inspect", &to, "--json"])["container"], *container);
    }
    let model = crate::support::root().join(HF);
    let recipe = format!("merge_method: passthrough\nmodels:\n  - model: {}\n", model.display());
    std::fs::write(at("recipe.yml"), recipe).expect("a recipe");
    let ran = run(&["merge", &at("recipe.yml"), &at("merged")]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert_eq!(json(&["inspect", &at("merged"), "--json"])["container"], "safetensors");
    for (source, to) in [(GGUF, at("x")), (HF, "-".to_owned())] {
        let ran = run(&["convert", source, &to]);
        assert_eq!(ran.status, Some(2), "{}", ran.err);
    }
}

/// Shards of a GGUF file that was converted are those that `split` makes of the whole.
#[test]
fn a_gguf_file_is_written_in_shards() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    let shards = |stem: &str| -> Vec<Vec<u8>> {
        let names = (1..=11).map(|number| at(&format!("{stem}-{number:05}-of-00011.gguf")));
        names.map(|name| std::fs::read(&name).expect(&name)).collect()
    };
    let ran = run(&["convert", HF, &at("a.gguf"), "--max-shard-size", "300K"]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert!(ran.out.contains("a.gguf (11 files)"), "{}", ran.out);
    printed(&["convert", HF, &at("whole.gguf")]);
    printed(&["split", &at("whole.gguf"), &at("b"), "--max-shard-size", "300K"]);
    assert_eq!(shards("a"), shards("b"));
    let store = ["convert", HF, "tales", "--to", "ollama", "--max-shard-size", "1M"];
    assert!(run(&store).err.contains("--max-shard-size is for several files"));
}

/// A change of metadata that breaks a model is written, as asked, and said.
#[test]
fn a_setting_that_breaks_a_model_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.gguf").to_str().expect("a path").to_owned();
    std::fs::copy(crate::support::root().join(GGUF), &path).expect("a copy");
    let ran = run(&["meta", "set", &path, "eos=400"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    let ran = run(&["meta", "set", &path, "eos=99999", "--force"]);
    assert_eq!(ran.status, Some(0));
    assert!(ran.err.contains("note: `verify` finds a new fault: "), "{}", ran.err);
}
