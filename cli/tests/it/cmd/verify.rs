//! `verify --deep` checks values; `hash --save` and `verify --against` compare two models.

use std::path::Path;

use crate::support;
use crate::support::{file, json, printed, refused, run, safetensors};
use insta::assert_snapshot;

const GGUF: &str = "assets/sample/sample-Q8_0.gguf";
const HF: &str = "assets/sample/hf";
const MLX: &str = "assets/sample/mlx-4bit";

/// A safetensors file of arrays: name as in JSON, dtype, shape, bytes.
fn model(arrays: &[(&str, &str, &str, &[u8])]) -> (tempfile::TempDir, String) {
    let (mut entries, mut data) = (Vec::new(), Vec::new());
    for (name, dtype, shape, bytes) in arrays {
        let begin = data.len();
        data.extend_from_slice(bytes);
        entries.push(format!(
            "\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":[{begin},{}]}}",
            data.len()
        ));
    }
    file("model.safetensors", &safetensors(&format!("{{{}}}", entries.join(",")), &data))
}

/// A projector that does not fit the model that is given with it, or that it lies next to.
#[test]
fn projectors_of_other_models() {
    use weighbridge::metadata::Value;
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let model = at("model.gguf");
    std::fs::copy(support::root().join(GGUF), &model).expect("a copy");
    for (name, length) in [("mmproj.gguf", 256), ("mmproj-other.gguf", 128)] {
        support::gguf(&folder.path().join(name), |keys| {
            keys.set_text("general.architecture", "clip");
            keys.set_text("general.type", "mmproj");
            keys.set_text("clip.projector_type", "later");
            keys.set("clip.vision.projection_dim", Value::U32(length));
        });
    }
    let (own, other) = (at("mmproj.gguf"), at("mmproj-other.gguf"));
    let fault = "the projector makes vectors of length 128 (clip.vision.projection_dim), but the embeddings of ";
    let fine = run(&["verify", &model, &own]);
    assert_eq!((fine.status, fine.out.contains("the projector makes")), (Some(0), false));
    let found = run(&["verify", &model, &other]);
    assert_eq!(found.status, Some(1), "{}", found.out);
    assert!(found.out.contains(&format!("fault: {fault}")), "{}", found.out);
    assert!(found.out.contains("have length 256 (llama.embedding_length)"), "{}", found.out);
    // One of the two next to the model fits.
    assert!(!run(&["verify", &model]).out.contains("the projector makes"));
    let both = run(&["verify", &folder.path().display().to_string()]).out;
    assert!(both.contains("mmproj.gguf, which lies beside it, is its projector"), "{both}");
    assert!(both.contains(&format!("is left out: {fault}")), "{both}");
    std::fs::remove_file(&own).expect("a file");
    for place in [model, folder.path().display().to_string()] {
        let noted = run(&["verify", &place]);
        assert_eq!(noted.status, Some(0), "{}", noted.out);
        assert!(noted.out.contains("note: ") && noted.out.contains(fault), "{}", noted.out);
    }
    // A projector has no cache, and no config of a language model.
    let memory = run(&["memory", &other]).out;
    assert!(memory.contains("none: the vectors of a projector are in the cache of"), "{memory}");
    let memory = json(&["memory", &other, "--json"]);
    let why = "a projector has no cache, and its buffers depend on the images or sounds";
    assert_eq!((&memory["cache"], &memory["unknown"]), (&().into(), &why.into()));
}

/// A shard has some of the tensors, which is no fault: it stands for its folder.
#[test]
fn shards_stand_for_their_model() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("shards");
    printed(&["split", HF, path.to_str().expect("UTF-8"), "--max-shard-size", "1MB"]);
    let names = support::contents(&path).into_keys().filter(|name| name.ends_with(".safetensors"));
    let shards: Vec<String> = names.map(|name| path.join(name).display().to_string()).collect();
    assert!(shards.len() > 1, "{shards:?}");
    let words: Vec<&str> = ["verify"].into_iter().chain(shards.iter().map(|it| &**it)).collect();
    let said = printed(&words);
    assert_eq!((said.lines().count(), said.contains("shards: ok: ")), (1, true), "{said}");
    // One is compared with its digest, and lacks what the others have.
    let refused = run(&["verify", &shards[0], "--sha256", &"0".repeat(64)]).out;
    let digest = refused.split_once("the SHA-256 ").expect("a digest").1;
    let said = printed(&["verify", &shards[0], "--sha256", &digest[..64]]);
    assert!(said.contains("1 digest") && said.contains("shard 1 of 3"), "{said}");
}

/// A reader of the lines of many files sees the one that does not open.
#[test]
fn a_file_that_does_not_open_has_a_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let cut = folder.path().join("cut.gguf");
    std::fs::write(&cut, &std::fs::read(support::root().join(GGUF)).expect("the sample")[..40_000])
        .expect("a file");
    let cut = cut.to_str().expect("UTF-8");
    let ran = support::run(&["verify", GGUF, cut, "--json"]);
    assert_eq!(ran.status, Some(3), "{}", ran.err);
    let lines = ran.out.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let lines: Vec<serde_json::Value> = lines.collect();
    assert_eq!((lines.len(), lines[0]["ok"] == true, lines[1]["ok"] == false), (2, true, true));
    let error: serde_json::Value = serde_json::from_str(&ran.err).expect("one document");
    assert_eq!(lines[1]["path"], cut);
    assert_eq!(lines[1]["error"]["message"], error["message"]);
}

fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The sample with one byte changed, at an offset within a part of a tensor.
fn damaged(
    model: &str,
    name: &str,
    part: usize,
    place: u64,
    change: impl Fn(&mut [u8]),
) -> (tempfile::TempDir, String) {
    let report = json(&["inspect", model, "--all", "--json"]);
    let tensors = report["tensors"].as_array().expect("a list");
    let tensor = tensors.iter().find(|tensor| tensor["name"] == name).expect("a tensor");
    let at = tensor["parts"][part]["offset"].as_u64().expect("a number") + place;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = support::root().join(model);
    let files: Vec<_> = match path.is_dir() {
        true => std::fs::read_dir(&path)
            .expect("a folder")
            .map(|file| file.expect("a file").path())
            .collect(),
        false => vec![path],
    };
    for from in files {
        let mut bytes = std::fs::read(&from).expect("a file of the sample");
        if from.extension().is_some_and(|ending| ending == "gguf" || ending == "safetensors") {
            change(&mut bytes[at as usize..]);
        }
        std::fs::write(folder.path().join(from.file_name().expect("a name")), bytes)
            .expect("a copy");
    }
    let path = match model.ends_with(".gguf") {
        true => folder.path().join("sample-Q8_0.gguf"),
        false => folder.path().to_path_buf(),
    };
    let path = path.to_str().expect("a path in UTF-8").to_owned();
    (folder, path)
}

/// The output of `verify` for a model in which it finds something.
fn found(path: &str, more: &[&str]) -> String {
    let ran = run(&[&["verify", path], more].concat());
    assert_eq!((ran.status, ran.err.as_str()), (Some(1), ""), "{}", ran.out);
    ran.out.replace(path, "model")
}

#[test]
fn sound_models() {
    assert_snapshot!(printed(&["verify", GGUF, "--deep"]), @"assets/sample/sample-Q8_0.gguf: ok: 1 file, 20 tensors; checked headers, names, shapes, byte ranges, values; content not compared: no checksum is known");
    for model in [GGUF, HF, MLX] {
        let report = json(&["verify", model, "--deep", "--no-map", "--json"]);
        assert_eq!(report["findings"], serde_json::json!([]));
        assert!(report.get("differences").is_none());
        assert!(json(&["verify", model, "--json"]).get("findings").is_none());
    }
}

/// A remark on the files is told by default; the strict rules make it a fault or leave it out.
#[test]
fn remarks_on_the_files() {
    let folder = support::two_models();
    let path = folder.path().to_str().expect("UTF-8");
    let notes = |more: &[&str]| {
        let report = json(&[&["verify", path, "--json"], more].concat());
        report["notes"].as_array().expect("notes").len()
    };
    assert_eq!((notes(&[]), notes(&["--strict"])), (1, 0));
}

#[test]
fn unsound_values() {
    let (_folder, path) = model(&[
        ("norm", "F32", "[2]", &f32s(&[1.0, 1.0])),
        ("bias", "F32", "[2]", &f32s(&[0.0, 0.0])),
        ("zero", "F32", "[2,2]", &[0; 16]),
        ("same", "F32", "[2,2]", &f32s(&[0.5; 4])),
        ("a\\nb", "F32", "[2,2]", &f32s(&[1.0, f32::NAN, f32::NEG_INFINITY, f32::NAN])),
        ("complex", "C64", "[1]", &[0; 8]),
    ]);
    // Values are not checked without --deep.
    assert_eq!(run(&["verify", &path]).status, Some(0));
    assert_snapshot!(found(&path, &["--deep"]), @r#"
    remark: zero: all 4 values are 0
    remark: same: all 4 values are 0.5
    fault: a\nb: 2 of 4 values are NaN, the first is element 1 (at byte 415)
    fault: a\nb: 1 of 4 values are infinite, the first is element 2 (at byte 419)
    note: model: tensor "complex": decoding C64 is not supported yet; not checked
    model: 2 faults, 2 remarks in 1 file, 6 tensors
    "#);
    let ran = run(&["verify", &path, "--deep", "--json"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(1), ""));
    let report: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    let findings = report["findings"].as_array().expect("a list");
    let shown: Vec<String> = findings
        .iter()
        .map(|f| {
            format!(
                "{} {} {} {} {} {}",
                f["name"], f["finding"], f["fault"], f["count"], f["first"], f["value"]
            )
        })
        .collect();
    assert_snapshot!(shown.join("\n"), @r#"
    "zero" "zero" false 4 0 0.0
    "same" "constant" false 4 0 0.5
    "a\nb" "nan" true 2 1 "NaN"
    "a\nb" "infinite" true 1 2 "-Infinity"
    "#);
    assert_eq!((&findings[2]["part"], &findings[2]["of"]), (&"weight".into(), &4.into()));
    assert_eq!(findings[2]["file"], path.as_str());
    let bytes = std::fs::read(&path).expect("the model");
    let offset = findings[2]["offset"].as_u64().expect("a number") as usize;
    assert_eq!(bytes[offset..offset + 4], f32::NAN.to_le_bytes());
    assert_eq!(report["notes"].as_array().map(Vec::len), Some(1));
    // Tensors whose values cannot be read are not findings.
    let (_folder, path) = model(&[("complex", "C64", "[1]", &[0; 8])]);
    assert_eq!(run(&["verify", &path, "--deep"]).status, Some(0));
}

#[test]
fn unsound_scales() {
    let infinite = |bytes: &mut [u8]| bytes[..2].copy_from_slice(&[0, 0x7c]);
    let (_folder, path) = damaged(GGUF, "blk.0.attn_q.weight", 0, 34, infinite);
    let said = found(&path, &["--deep"]);
    let first = said.lines().next().expect("a line");
    let (before, _) = first.split_once(" (at byte ").expect("an offset");
    assert_eq!(
        before,
        "fault: blk.0.attn_q.weight: 1 of 2048 blocks have a scale that is NaN or infinite, the first is block 1 with inf"
    );
    assert!(said.lines().nth(1).expect("a line").contains("the first is element "), "{said}");

    let nan = |bytes: &mut [u8]| bytes[..2].copy_from_slice(&[0xc0, 0x7f]);
    let (_folder, path) = damaged(MLX, "model.norm.weight", 0, 0, nan);
    assert!(found(&path, &["--deep"]).starts_with(
        "fault: model.norm.weight: 1 of 256 values are NaN, the first is element 0 (at byte "
    ));
}

/// Saves the list of a model; returns its path and text.
fn saved(model: &str, folder: &Path, more: &[&str]) -> (String, String) {
    let path = folder.join("list").to_str().expect("a path in UTF-8").to_owned();
    assert_eq!(printed(&[&["hash", model, "--save", &path], more].concat()), "");
    let text = std::fs::read_to_string(&path).expect("a list");
    (path, text)
}

#[test]
fn lists() {
    let (folder, path) = model(&[
        ("m", "F32", "[2,2]", &f32s(&[1.0, 2.0, 3.0, 4.0])),
        ("s", "U8", "[]", b"x"),
        ("a\\u001b\\nb \\\\ \\u00e9", "U8", "[1]", b"x"),
    ]);
    let (list, text) = saved(&path, folder.path(), &[]);
    assert_snapshot!(text, @r"
    weighbridge-hashes 1 weight others dtype shape name
    ad73b9acd6e4a74b2f5bb5386658ce3bb146cd040a1867646ab3b973fb6632b1 - F32 2x2 m
    2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881 - U8 scalar s
    2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881 - U8 1 a\x1b\nb \\ \xc3\xa9
    ");
    assert_eq!(
        printed(&["verify", &path, "--against", &list])
            .replace(&*folder.path().to_string_lossy(), "."),
        "./model.safetensors: ok: 1 file, 3 tensors; checked headers, names, shapes, byte ranges; all hashes match ./list\n"
    );
    for sample in [GGUF, HF, MLX] {
        for values in [&[][..], &["--values"]] {
            let (list, text) = saved(sample, folder.path(), values);
            assert_eq!(text.lines().count(), 21);
            let report = json(&["verify", sample, "--against", &list, "--json"]);
            assert_eq!(report["differences"], serde_json::json!([]));
            // The hashes are equal to the printed ones.
            let hashes = json(&[&["hash", sample, "--json"], values].concat());
            for (tensor, line) in
                hashes["tensors"].as_array().expect("a list").iter().zip(text.lines().skip(1))
            {
                let fields: Vec<&str> = line.split(' ').collect();
                assert_eq!(tensor["raw_sha256"], fields[0]);
                assert_eq!(fields[1] == "-", tensor["dtype"] != "MLX_AFFINE4", "{line}");
                assert!(values.is_empty() || tensor["f32_sha256"] == fields[2]);
                assert_eq!(tensor["name"], fields[fields.len() - 1]);
            }
        }
    }
    // No temporary file is left behind.
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 2);
}

#[test]
fn changed_models() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let flip = |bytes: &mut [u8]| bytes[0] ^= 1;
    let (list, _) = saved(GGUF, folder.path(), &["--values"]);
    let (_copy, path) = damaged(GGUF, "blk.1.ffn_up.weight", 0, 77, flip);
    assert_snapshot!(found(&path, &["--against", &list]), @"
    difference: blk.1.ffn_up.weight: changed: bytes, values
    model: 1 difference in 1 file, 20 tensors
    ");
    // The scale of a group is in another part.
    let (list, _) = saved(MLX, folder.path(), &[]);
    let (_copy, path) = damaged(MLX, "model.layers.0.mlp.up_proj.weight", 1, 3, flip);
    assert_snapshot!(found(&path, &["--against", &list]), @"
    difference: model.layers.0.mlp.up_proj.weight: changed: bytes of its other parts
    model: 1 difference in 1 file, 20 tensors
    ");

    let (_old, path) =
        model(&[("a", "U8", "[2]", b"xy"), ("b", "U8", "[1]", b"x"), ("c", "U8", "[1]", b"x")]);
    let (list, _) = saved(&path, folder.path(), &[]);
    let (_new, path) =
        model(&[("d", "U8", "[1]", b"x"), ("c", "I8", "[1]", b"x"), ("a", "U8", "[2,1]", b"xy")]);
    assert_snapshot!(found(&path, &["--against", &list, "--deep"]), @"
    difference: a: changed: shape 2 to 2x1
    difference: b: missing from the model
    difference: c: changed: dtype U8 to I8
    difference: d: not in the list
    model: 4 differences in 1 file, 3 tensors
    ");
    let ran = run(&["verify", &path, "--against", &list, "--json"]);
    let report: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(
        report["differences"][0]["changes"],
        serde_json::json!([{"what": "shape", "saved": "2", "found": "2x1"}])
    );
    assert_eq!(report["differences"][1], serde_json::json!({"name": "b", "difference": "missing"}));
    assert_eq!(report["differences"][3], serde_json::json!({"name": "d", "difference": "extra"}));
}

/// A GGUF file of one tensor with this name, a type that llama.cpp has removed, and one byte of data.
fn gguf(name: &[u8], code: u32) -> Vec<u8> {
    let mut file = b"GGUF\x03\0\0\0".to_vec();
    file.extend(1u64.to_le_bytes());
    file.extend(0u64.to_le_bytes());
    file.extend((name.len() as u64).to_le_bytes());
    file.extend(name);
    file.extend(1u32.to_le_bytes());
    file.extend(1u64.to_le_bytes());
    file.extend(code.to_le_bytes());
    file.extend(0u64.to_le_bytes());
    file.resize(file.len().next_multiple_of(32) + 32, 1);
    file
}

#[test]
fn odd_names_and_unknown_dtypes() {
    let name = b"a\xff\x1b[2J\n\\x \xc3\xa9";
    let (folder, path) = file("model.gguf", &gguf(name, 24));
    let (list, text) = saved(&path, folder.path(), &["--values"]);
    assert_eq!(text.lines().count(), 2);
    assert!(text.ends_with(" I8 1 a\\xff\\x1b[2J\\n\\\\x \\xc3\\xa9\n"), "{text}");
    let report = json(&["verify", &path, "--against", &list, "--json"]);
    assert_eq!(report["differences"], serde_json::json!([]));
    let (_other, path) = file("model.gguf", &gguf(b"b", 24));
    let ran = run(&["verify", &path, "--against", &list, "--json"]);
    let report: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(report["differences"][0]["name_hex"], "61ff1b5b324a0a5c7820c3a9");
    let text = found(&path, &["--against", &list]);
    assert!(
        text.starts_with("difference: a\\xff\\u{1b}[2J\\n\\x \u{e9}: missing from the model\n"),
        "{text}"
    );

    // Its bytes are unknown, but it is in the list.
    let (folder, path) = file("model.gguf", &gguf(b"a", 43));
    let list = folder.path().join("list").to_str().expect("a path in UTF-8").to_owned();
    let ran = run(&["hash", &path, "--save", &list]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(4), ""));
    let text = std::fs::read_to_string(&list).expect("a list");
    assert!(text.ends_with("\n- - ggml:43 1 a\n"), "{text}");
    assert_eq!(run(&["verify", &path, "--against", &list]).status, Some(0));
}

/// The message about a list with this content.
fn said_of(list: &[u8]) -> String {
    let (folder, path) = file("list", list);
    refused(&["verify", HF, "--against", &path]).replace(&*folder.path().to_string_lossy(), ".")
}

#[test]
fn malformed_lists() {
    assert_snapshot!(said_of(b""), @r#"
    3
    error: ./list: line 1: the header is "", but "weighbridge-hashes 1 weight others dtype shape name" is allowed, or that with "values" before "dtype"
     help: `weighbridge hash MODEL --save LIST` writes a list
    "#);
    assert_snapshot!(said_of(b"weighbridge-hashes 2\n"), @r#"
    3
    error: ./list: line 1: the header is "weighbridge-hashes 2", but "weighbridge-hashes 1 weight others dtype shape name" is allowed, or that with "values" before "dtype"
    "#);
    assert_snapshot!(said_of(b"\x7fELF\n"), @"
    3
    error: ./list: line 1: the byte 0x7f is not allowed; only printable ASCII is
     help: `weighbridge hash MODEL --save LIST` writes a list
    ");
    let with = |lines: &str| {
        said_of(format!("weighbridge-hashes 1 weight others dtype shape name\n{lines}").as_bytes())
    };
    assert_snapshot!(with("- - F32 1 a\n- - F32 1"), @"
    3
    error: ./list: line 3: 9 bytes without a line feed: the file is truncated or is not a list of hashes
    ");
    assert_snapshot!(with("- - F32 1\n"), @"
    3
    error: ./list: line 2: the line ends before its name: 5 fields with a space between them are allowed
    ");
    assert_snapshot!(with("- 12AB F32 1 a\n"), @r#"
    3
    error: ./list: line 2: the hash of the other parts is "12AB", but 64 lower-case hexadecimal digits or - are allowed
    "#);
    assert_snapshot!(with("- - F32 2*3 a\n"), @r#"
    3
    error: ./list: line 2: the shape is "2*3", but numbers with x between them, as in 512x256, or "scalar" are allowed
    "#);
    assert_snapshot!(with("- - F32 2 a\\q\n"), @r#"
    3
    error: ./list: line 2: the name is "a\q", but after \ only n, r, t, ', ", \ and x with two digits are allowed
    "#);
    assert_snapshot!(with("- - F32 2 a\n- - F32 2 b\n- - F32 2 \\x61\n"), @r#"
    3
    error: ./list: line 4: the tensor "a" is already in line 2, but each tensor is allowed once
    "#);
}

#[test]
fn paths_that_do_not_do() {
    assert_snapshot!(refused(&["verify", HF, "--against", "no-such-list"]), @"
    5
    error: no-such-list: cannot read the list: No such file or directory (os error 2)
    ");
    let ran = run(&["hash", HF, "--save", "no-such-folder/list"]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(5), ""));
    assert!(
        ran.err.starts_with("error: no-such-folder/list: the folder no-such-folder does not exist"),
        "{}",
        ran.err
    );
    // The model itself, by mistake.
    let (folder, path) = model(&[("a", "U8", "[1]", b"x")]);
    let before = std::fs::read(&path).expect("the model");
    assert_snapshot!(refused(&["hash", &path, "--save", &path]).replace(&*folder.path().to_string_lossy(), "."), @"
    2
    error: ./model.safetensors: already exists and is not a hash list
     help: choose another path
    ");
    assert_eq!(std::fs::read(&path).expect("the model"), before);
    for other in ["/dev/null", "assets", "assets/sample/README.md"] {
        assert_eq!(run(&["hash", &path, "--save", other]).status, Some(2), "{other}");
    }
    // An older list is replaced.
    let (_, first) = saved(&path, folder.path(), &[]);
    let (_, second) = saved(HF, folder.path(), &[]);
    assert_ne!(first, second);
    assert_eq!(run(&["hash", &path, "--save", "x", "--json"]).status, Some(2));
}

/// A list is written as a temporary file first, which only its owner could read.
#[cfg(unix)]
#[test]
fn new_files_are_readable_by_others() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, path) = model(&[("a", "U8", "[1]", b"x")]);
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "x").expect("a file");
    let (list, _) = saved(&path, folder.path(), &[]);
    let mode = |path: &Path| std::fs::metadata(path).expect("a file").permissions().mode();
    assert_eq!(mode(Path::new(&list)), mode(&plain));
}

/// The SHA-256 of a file is compared whatever its format.
#[test]
fn the_digest_of_a_file_that_is_no_model() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.pth");
    std::fs::write(&path, b"abc").expect("a file");
    let path = path.to_str().expect("a path in UTF-8");
    // FIPS 180-2, appendix B.1.
    let right = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let same = run(&["verify", path, "--sha256", right]);
    assert_eq!(same.status, Some(0), "{same:?}");
    assert!(same.err.contains("nothing else was checked"), "{same:?}");
    let other = run(&["verify", path, "--sha256", &right.replace('b', "c")]);
    assert_eq!(other.status, Some(1), "{other:?}");
    assert!(other.out.contains(&format!("the content has the SHA-256 {right}")), "{other:?}");
}
