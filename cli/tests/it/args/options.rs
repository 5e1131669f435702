//! Options by what they change: in files, in numbers, in memory, in system calls.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::support;
use crate::support::{file, json, refused, root, run, safetensors};

const BF16: &str = "tests/fixtures/sample/sample-BF16.gguf";
const HF: &str = "assets/sample/hf";
const MLX: &str = "assets/sample/mlx-4bit";
const LORA: &str = "tests/fixtures/lora/llama";

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// The dtype and a digest of each tensor.
fn tensors(path: &Path) -> BTreeMap<String, (String, String)> {
    let report = json(&["hash", text(path), "--json"]);
    let tensors = report["tensors"].as_array().expect("a list");
    let one = |tensor: &serde_json::Value| {
        let field = |name: &str| tensor[name].as_str().unwrap_or_default().to_owned();
        (field("name"), (field("dtype"), field("raw_sha256")))
    };
    tensors.iter().map(one).collect()
}

#[test]
fn adapters_are_shown_and_merged() {
    let adapter = format!("{LORA}/adapter");
    let shown = run(&["inspect", &adapter]);
    assert!(shown.err.contains("apply it to that model"), "{}", shown.err);
    let line = shown.out.lines().find(|line| line.contains("LoRA: ")).expect("a line");
    for part in ["rank 2, 4", "alpha 6", "14 matrices", "q_proj", "embed_tokens"] {
        assert!(line.contains(part), "{line}");
    }
    let report = json(&["inspect", &format!("{LORA}/adapter.gguf"), "--json"]);
    assert_eq!(report["adapter"]["format"], "gguf");
    assert_eq!(
        (&report["adapter"]["alpha"], &report["adapter"]["matrix_count"]),
        (&6.0.into(), &14.into())
    );
    assert!(json(&["inspect", HF, "--json"]).get("adapter").is_none());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let merge = |name: &str, adapters: &[&str]| {
        let to = folder.path().join(name);
        let base = format!("{LORA}/base");
        let mut words = vec!["convert", &base, text(&to), "--to", "safetensors", "--json"];
        adapters.iter().for_each(|adapter| words.extend(["--lora", adapter]));
        let ran = run(&words);
        assert_eq!(ran.status, Some(0), "{}", ran.err);
        let report: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
        let merged = report["tensors"].as_array().expect("tensors").iter();
        (to, merged.filter(|tensor| tensor["how"] == "merged").count(), report["notes"].to_string())
    };
    let (once, merged, said) = merge("once", &[&adapter]);
    assert_eq!(merged, 14);
    assert!(said.contains("merged LoRA adapter") && said.contains("rank 2, 4"), "{said}");
    let expected = tensors(Path::new(&root().join(format!("{LORA}/merged.safetensors"))));
    let found = tensors(&once);
    assert!(expected.iter().all(|(name, tensor)| found.get(name) == Some(tensor)));
    // Half of it twice is the same but for rounding; none of it is the base.
    let (none, ..) = merge("none", &[&format!("{adapter}:0")]);
    assert_eq!(tensors(&none), tensors(&root().join(format!("{LORA}/base"))));
    let (half, _, said) = merge("half", &[&format!("{adapter}:0.5")]);
    assert!(said.contains("times 0.5"), "{said}");
    assert_ne!(tensors(&half), tensors(&once));
    let (twice, ..) = merge("twice", &[&format!("{adapter}:0.5"), &format!("{adapter}:0.5")]);
    let diff = json_of_difference(&twice, &once);
    assert!(diff < 0.01, "{diff}");
    let refusal = refused(&["convert", HF, "x", "--to", "gguf", "--lora", "a", "--lossless"]);
    assert!(refusal.starts_with("2\n"), "{refusal}");
    let refusal = refused(&[
        "convert",
        HF,
        text(&folder.path().join("x")),
        "--to",
        "safetensors",
        "--lora",
        HF,
    ]);
    assert!(refusal.contains("not a LoRA adapter"), "{refusal}");
}

/// The largest difference of two models.
fn json_of_difference(a: &Path, b: &Path) -> f64 {
    let ran = run(&["diff", text(a), text(b), "--json"]);
    let report: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    let differing = report["different"].as_array().expect("a list").iter();
    let most = differing.filter_map(|tensor| {
        tensor["values"]["max_difference"].as_f64().or(tensor["max"].as_f64())
    });
    most.fold(0.0, f64::max)
}

#[test]
fn lenient_accepts_what_is_refused_otherwise() {
    // A hole between two tensors.
    let header = r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}"#;
    let (_folder, path) = file("model.safetensors", &safetensors(header, &[0; 12]));
    let strict = run(&["inspect", &path]);
    assert_eq!(strict.status, Some(3), "{}", strict.err);
    assert!(strict.err.contains("--lenient"), "{}", strict.err);
    let lenient = run(&["inspect", &path, "--lenient"]);
    assert_eq!(lenient.status, Some(0), "{}", lenient.err);
    assert!(lenient.out.contains("2 tensors"), "{}", lenient.out);
}

#[test]
fn fusing_obeys_the_filter() {
    let load = |words: &[&str]| json(&[&["bench", HF, "--json"], words].concat());
    let all = load(&[]);
    let count = |report: &serde_json::Value| {
        (report["tensors"].as_u64().expect("tensors"), report["buffers"].as_u64().expect("buffers"))
    };
    let (tensors, buffers) = count(&all);
    assert_eq!(tensors, buffers);
    // Two layers, with three matrices in one buffer each.
    assert_eq!(count(&load(&["--fuse", "qkv"])), (tensors, tensors - 4));
    assert_eq!(count(&load(&["--fuse", "qkv,gate-up"])), (tensors, tensors - 6));
    assert_eq!(count(&load(&["--fuse", "qkv", "--filter", "layers.0.attention.*"])), (4, 2));
    let one = load(&["--fuse", "qkv", "--filter", "layers.0.attention.q.weight"]);
    assert_eq!(count(&one), (1, 1));
    assert_eq!(one["bytes"].as_u64(), Some(256 * 256 * 2));
}

#[test]
fn a_filter_may_use_the_names_of_either_model() {
    let gguf = "assets/sample/sample-Q8_0.gguf";
    let count = |filter: &str, a: &str, b: &str| {
        let ran = run(&["diff", a, b, "--json", "--filter", filter]);
        let report: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
        report["compared"].as_u64().or(report["tensors"].as_u64()).expect("a number of tensors")
    };
    for filter in
        ["blk.0.ffn_up.weight", "model.layers.0.mlp.up_proj.weight", "layers.0.ffn.up.weight"]
    {
        assert_eq!(count(filter, gguf, HF), 1, "{filter}");
        assert_eq!(count(filter, HF, gguf), 1, "{filter}");
    }
}

/// An importance matrix in llama-imatrix's older format.
fn imatrix(entries: &[(&str, usize)]) -> Vec<u8> {
    let number = |number: usize| i32::try_from(number).expect("a small number").to_le_bytes();
    let mut bytes = number(entries.len()).to_vec();
    for (name, columns) in entries {
        bytes.extend_from_slice(&number(name.len()));
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(&number(1));
        bytes.extend_from_slice(&number(*columns));
        let values = (0..*columns).map(|column| if column % 7 == 0 { 1e4f32 } else { 1e-3 });
        values.for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
    }
    bytes.extend_from_slice(&number(1));
    bytes.extend_from_slice(&number(1));
    bytes.extend_from_slice(b"x");
    bytes
}

#[test]
fn weights_are_included_and_excluded_by_name() {
    let (folder, matrix) = file(
        "imatrix.dat",
        &imatrix(&[
            ("blk.0.attn_q.weight", 256),
            ("blk.1.attn_q.weight", 256),
            ("blk.0.ffn_up.weight", 256),
        ]),
    );
    let quantized = |name: &str, options: &[&str]| {
        let to = folder.path().join(name);
        let words = ["quantize", BF16, text(&to), "--type", "Q4_K_S", "--imatrix", &matrix];
        let words =
            if options == ["none"] { words[..5].to_vec() } else { [&words, options].concat() };
        let ran = run(&words);
        assert_eq!(ran.status, Some(0), "{}", ran.err);
        tensors(&to)
    };
    let none = quantized("none.gguf", &["none"]);
    let all = quantized("all.gguf", &[]);
    let changed = |found: &BTreeMap<String, (String, String)>| {
        let changed = found.iter().filter(|(name, tensor)| none.get(*name) != Some(*tensor));
        changed.map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    let three = ["blk.0.attn_q.weight", "blk.0.ffn_up.weight", "blk.1.attn_q.weight"];
    assert_eq!(changed(&all), three);
    let included = quantized("in.gguf", &["--include-weights", "attn_q"]);
    assert_eq!(changed(&included), [three[0], three[2]]);
    let excluded = quantized("ex.gguf", &["--exclude-weights", "attn_q"]);
    assert_eq!(changed(&excluded), [three[1]]);
    let two = quantized("two.gguf", &["--include-weights", "blk.1", "--include-weights", "ffn"]);
    assert_eq!(changed(&two), [three[1], three[2]]);
}

/// The most memory that a conversion of 128 MiB uses, in KiB, with this `--max-memory`.
#[cfg(target_os = "linux")]
fn peak(model: &str, to: &Path, most: &str) -> u64 {
    let words = ["convert", model, text(to), "--to", "safetensors", "--dtype", "F16"];
    let ran = Command::new("sh")
        .args(["-c", "exec \"$0\" \"$@\" & pid=$!; m=0; while [ -d /proc/$pid ] && ! grep -q zombie /proc/$pid/status 2>/dev/null; do n=$(sed -n 's/VmHWM:[^0-9]*\\([0-9]*\\).*/\\1/p' /proc/$pid/status 2>/dev/null); [ -n \"$n\" ] && m=$n; sleep 0.01; done; wait $pid; s=$?; echo; echo $m; exit $s"])
        .arg(env!("CARGO_BIN_EXE_weighbridge"))
        .args(words)
        .args(["--max-memory", most, "--threads", "2", "--no-map", "--allow-incomplete"])
        .env("MALLOC_ARENA_MAX", "1")
        .output()
        .expect("a shell");
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    said.lines().last().and_then(|line| line.trim().parse().ok()).expect("a number")
}

#[cfg(target_os = "linux")]
#[test]
fn less_memory_is_used_if_less_is_allowed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = folder.path().join("model");
    std::fs::create_dir(&model).expect("a folder");
    let config = r#"{"model_type":"llama","hidden_size":4096,"num_hidden_layers":1,"num_attention_heads":32,"intermediate_size":4096,"vocab_size":8192,"rms_norm_eps":1e-5,"max_position_embeddings":64}"#;
    std::fs::write(model.join("config.json"), config).expect("a config");
    let path = model.join("model.safetensors");
    let bytes = 128u64 << 20;
    let header = format!(
        "{{\"model.embed_tokens.weight\":{{\"dtype\":\"F32\",\"shape\":[8192,4096],\"data_offsets\":[0,{bytes}]}}}}"
    );
    let start = safetensors(&header, &[]);
    std::fs::write(&path, &start).expect("a header");
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("the file");
    file.set_len(start.len() as u64 + bytes).expect("a sparse file");
    let little = peak(text(&model), &folder.path().join("a"), "1MiB");
    let much = peak(text(&model), &folder.path().join("b"), "256MiB");
    assert!(little + 8192 < much, "{little} KiB with 1 MiB, {much} KiB with 256 MiB");
}

/// A power failure must leave the old file or the complete new one: all bytes are written, then the
/// file is synced, then it gets its name, then the folder is synced.
#[cfg(target_os = "linux")]
#[test]
fn files_are_synced_before_they_are_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let inside = folder.path().join("in");
    std::fs::create_dir(&inside).expect("a folder");
    let at = |name: &str| inside.join(name);
    let store = folder.path().join("store");
    let plan = folder.path().join("plan.json");
    let sliced = at("sliced.gguf");
    for words in [
        ["job", "plan", "convert", HF, text(&sliced), "-o", text(&plan)].as_slice(),
        &["job", "run", text(&plan), "1/1"],
    ] {
        assert_eq!(run(words).status, Some(0), "{words:?}");
    }
    let cases: [(&str, Vec<String>, bool); 4] = [
        ("sliced", vec!["job".to_owned(), "finish".to_owned(), text(&plan).to_owned()], false),
        (
            "a.gguf",
            vec!["convert", HF, text(&at("a.gguf")), "--to", "gguf"]
                .into_iter()
                .map(str::to_owned)
                .collect(),
            false,
        ),
        (
            "mlx",
            vec!["convert", HF, text(&at("mlx")), "--to", "mlx"]
                .into_iter()
                .map(str::to_owned)
                .collect(),
            false,
        ),
        (
            "m",
            vec!["create", "m", MLX, "--store", text(&store)]
                .into_iter()
                .map(str::to_owned)
                .collect(),
            true,
        ),
    ];
    for (name, words, in_store) in cases {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let log = folder.path().join("calls");
        let Some(calls) = support::system_calls(&support::program(&words), &log) else { return };
        let place = folder.path().to_str().expect("UTF-8");
        let ours = |call: &&String| {
            call.contains(place) && !call.starts_with("write(1<") && !call.starts_with("write(2<")
        };
        let calls: Vec<&String> = calls.iter().filter(ours).collect();
        let of = |kinds: &[&str]| {
            let is = |call: &&String| kinds.iter().any(|kind| call.starts_with(kind));
            calls
                .iter()
                .enumerate()
                .filter(|(_, call)| is(call))
                .map(|(at, _)| at)
                .collect::<Vec<_>>()
        };
        let (renames, syncs) = (of(&["rename"]), of(&["fsync", "fdatasync"]));
        assert!(!renames.is_empty() && !syncs.is_empty(), "{name}: {calls:?}");
        // The path in angle brackets after a file descriptor.
        let written: Vec<(usize, &str)> = calls
            .iter()
            .enumerate()
            .filter(|(_, call)| call.starts_with("pwrite64") || call.starts_with("write("))
            .filter_map(|(at, call)| Some((at, call.split_once('<')?.1.split_once('>')?.0)))
            .collect();
        for (at, path) in &written {
            let synced = syncs.iter().find(|sync| *sync > at && calls[**sync].contains(*path));
            // A blob that the store already has is deleted instead of synced; there is none here.
            let synced =
                synced.unwrap_or_else(|| panic!("{name}: {path} is written and not synced"));
            // The file itself is renamed, or the folder that it is in.
            let named = renames.iter().find(|rename| {
                let from = calls[**rename].split('"').nth(1).unwrap_or("?");
                Path::new(path).starts_with(from)
            });
            let named =
                named.unwrap_or_else(|| panic!("{name}: {path} is never named\n{calls:#?}"));
            assert!(synced < named, "{name}: {path} is named before it is synced");
        }
        for rename in &renames {
            let from = calls[*rename].split('"').nth(1).expect("a path");
            // The slices themselves have synced what they have written.
            let is_synced = |sync: &usize| sync < rename && calls[*sync].contains(from);
            let by_slices = name == "sliced" && from.contains("/files/");
            assert!(by_slices || syncs.iter().any(is_synced), "{name}: {from} is not synced");
        }
        let last = *renames.last().expect("a rename");
        assert!(
            syncs.iter().any(|sync| *sync > last),
            "{name}: the folder is not synced at the end"
        );
        if in_store {
            // The manifest gets its name after every blob has its own and their folder is synced.
            let to_blob = |rename: &&usize| {
                calls[**rename].split('"').nth(3).is_some_and(|to| to.contains("/blobs/sha256-"))
            };
            let blobs: Vec<&usize> = renames.iter().filter(to_blob).collect();
            assert!(blobs.len() > 3 && blobs.iter().all(|rename| **rename < last), "{calls:?}");
            let folder_synced = syncs.iter().any(|sync| {
                *sync < last
                    && blobs.iter().all(|rename| *sync > **rename)
                    && calls[*sync].contains("/blobs>")
            });
            assert!(
                folder_synced,
                "the folder of blobs is not synced before the manifest is named"
            );
        }
    }
}

/// The error names what a product of two matrices cannot express.
#[test]
fn adapters_that_cannot_be_merged_say_why() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("adapter_model.safetensors");
    let names = ["up.lora_A.weight", "up.lora_B.weight", "up.weight"];
    let array = |(at, name): (usize, &&str)| {
        let (start, end) = (at * 4, at * 4 + 4);
        format!(
            r#""base_model.model.{name}":{{"dtype":"F32","shape":[1,1],"data_offsets":[{start},{end}]}}"#
        )
    };
    let arrays: Vec<String> = names.iter().enumerate().map(array).collect();
    let file = safetensors(&format!("{{{}}}", arrays.join(",")), &[0; 12]);
    std::fs::write(path, file).expect("a file");
    let config = r#"{"peft_type": "LORA", "r": 1, "base_model_name_or_path": "org/base",
        "enable_lora": [true]}"#;
    std::fs::write(folder.path().join("adapter_config.json"), config).expect("a file");
    let shown = run(&["inspect", text(folder.path())]).out;
    let line = |name: &str| shown.lines().find(|line| line.trim_start().starts_with(name));
    assert!(line("not mergeable").is_some_and(|line| line.contains("grouped B")), "{shown}");
    assert!(line("adapter of").is_some_and(|line| line.ends_with("org/base")), "{shown}");
    let report = json(&["inspect", text(folder.path()), "--json"]);
    assert_eq!(report["summary"]["base_models"], serde_json::json!(["org/base"]));
    std::fs::write(folder.path().join("adapter_config.json"), r#"{"peft_type": "IA3"}"#)
        .expect("a file");
    let shown = run(&["inspect", text(folder.path())]).out;
    assert!(shown.contains("IA3: no matrix that can be merged"), "{shown}");
}

/// The model of an adapter may have another name on this machine, or another path than where it was trained.
#[test]
fn the_base_of_an_adapter_may_be_elsewhere() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    let adapter = root().join(LORA).join("adapter");
    let weights = "adapter_model.safetensors";
    std::fs::copy(adapter.join(weights), path(weights)).expect("a copy");
    let config = std::fs::read_to_string(adapter.join("adapter_config.json")).expect("a config");
    let dst = path("x.gguf");
    for name in ["Tiny", "org/tiny", "/home/me/tiny"] {
        let stated = format!(r#""base_model_name_or_path": "{name}""#);
        let config = config.replace(r#""base_model_name_or_path": null"#, &stated);
        std::fs::write(path("adapter_config.json"), config).expect("a file");
        for verb in ["convert_lora_to_gguf.py", "convert"] {
            let said = refused(&[verb, text(folder.path()), "--outfile", text(&dst)]);
            assert!(said.contains(&format!("is an adapter of {name}, which is not on")), "{said}");
            assert!(said.contains("DST.gguf --base MODEL`"), "{said}");
            assert!(!said.contains("pull"), "{said}");
        }
    }
}
