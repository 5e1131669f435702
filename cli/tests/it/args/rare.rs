//! Reports and messages of models that are rare, and of options that are rarely given.

use std::path::Path;

use crate::support;
use crate::support::{file, program, root, run, safetensors, without};
use insta::assert_snapshot;

const GGUF: &str = "assets/sample/sample-Q8_0.gguf";
const HF: &str = "assets/sample/hf";
const MIXTRAL: &str = "tests/fixtures/hf/mixtral-bf16";
const TIED: &str = "tests/fixtures/mlx/qwen3-tied-q3g32-bf16";

/// Status, output and messages of a run, without a folder's path and without times.
fn said(folder: &Path, arguments: &[&str]) -> String {
    let output = program(arguments).env("OLLAMA_MODELS", folder.join("store")).output();
    let ran: support::Ran = output.expect("the program starts").into();
    let text = format!("{}\n{}{}", ran.status.unwrap_or(-1), ran.out, ran.err);
    let text = text.replace(&*folder.to_string_lossy(), "FOLDER");
    let text = without(&text, "written in ", "\n");
    let text = without(&without(&text, "to cpu in ", "\n"), "peak memory ", "\n");
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

fn put(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(path, bytes).expect("a file");
}

/// A directory with vectors of zeros under these names.
fn directory(folder: &Path, name: &str, config: &str, tensors: &[&str]) {
    let entry = |(place, tensor): (usize, &&str)| {
        let start = place * 8;
        format!(
            "\"{tensor}\":{{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[{start},{}]}}",
            start + 8
        )
    };
    let entries: Vec<String> = tensors.iter().enumerate().map(entry).collect();
    let header = format!("{{{}}}", entries.join(","));
    put(folder, &format!("{name}/config.json"), config);
    put(
        folder,
        &format!("{name}/model.safetensors"),
        safetensors(&header, &vec![0; tensors.len() * 8]),
    );
}

const LLAMA: &str = r#"{"model_type":"llama","hidden_size":2,"num_hidden_layers":2,"num_attention_heads":1,"intermediate_size":2,"vocab_size":2,"rms_norm_eps":1e-5,"max_position_embeddings":64}"#;

/// Models that lack tensors, have unknown ones, experts, or one matrix for two purposes.
#[test]
fn what_inspect_says_of_names() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let unknown: Vec<String> = (0..9).map(|number| format!("odd.{number}")).collect();
    let mut names: Vec<&str> = unknown.iter().map(String::as_str).collect();
    names.push("model.norm.weight");
    directory(folder, "many", LLAMA, &names);
    directory(folder, "few", LLAMA, &["model.norm.weight", "odd"]);
    directory(folder, "unknown", r#"{"model_type":"odd"}"#, &["a", "b"]);
    let norms = [0, 1].map(|layer| format!("model.layers.{layer}.input_layernorm.weight"));
    directory(folder, "norms", LLAMA, &norms.each_ref().map(String::as_str));
    let head = |path: &str| {
        let said = said(folder, &["inspect", path]);
        said.lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
    };
    let at = |name: &str| text(&folder.join(name)).to_owned();
    assert_snapshot!(
        [
            head(&at("many")),
            head(&at("few")),
            head(&at("unknown")),
            head(&at("norms")),
            head(MIXTRAL),
            head(TIED)
        ]
        .join("\n\n")
    );
    let load = |name: &str| said(folder, &["bench", &at(name)]);
    assert_snapshot!([load("many"), load("few"), load("unknown")].join("\n\n"));
    let filtered = |words: &[&str]| said(folder, &[&["inspect", GGUF], words].concat());
    assert_snapshot!(
        [
            filtered(&["--dispatch", "--filter", "zzz"]),
            filtered(&["--canonical", "--filter", "zzz"]),
            filtered(&["--stored", "--filter", "zzz"]),
            filtered(&["--canonical", "--filter", "layers.0.ffn.*"]),
            filtered(&["--stored", "--filter", "blk.0.ffn*"]),
        ]
        .join("\n\n")
    );
}

/// Lists and long texts in the report of `config`.
#[test]
fn what_config_shows_of_lists() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let config = |layers: &str, more: &str| {
        let config = format!(
            r#"{{"model_type":"gemma3_text","hidden_size":2,"num_hidden_layers":10,"num_attention_heads":1,"intermediate_size":2,"vocab_size":2,"rms_norm_eps":1e-5,"max_position_embeddings":64,"sliding_window":4,"layer_types":[{layers}]{more}}}"#
        );
        let names: Vec<String> =
            (0..10).map(|n| format!("model.layers.{n}.input_layernorm.weight")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        directory(folder, "model", &config, &names);
        said(folder, &["inspect", "--config", text(&folder.join("model"))])
    };
    let kinds = ["\"sliding_attention\"", "\"full_attention\""];
    let alternating: Vec<&str> = (0..10).map(|layer| kinds[layer % 2]).collect();
    let in_runs: Vec<&str> = (0..10).map(|layer| kinds[usize::from(layer % 5 == 4)]).collect();
    let long = format!(r#","hidden_activation":"{}""#, "x".repeat(80));
    assert_snapshot!(
        [config(&alternating.join(","), ""), config(&in_runs.join(","), &long),].join("\n\n")
    );
}

#[test]
fn lists_of_hashes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let at = |name: &str| text(&folder.join(name)).to_owned();
    put(folder, "short", "w");
    put(folder, "other", "a text that is long enough to be something else, whatever it may be");
    let cut = std::fs::read(root().join(GGUF)).expect("the sample");
    put(folder, "two.gguf", &cut);
    let mut coded = cut.clone();
    // The type of the first tensor becomes one that does not exist.
    let name = b"output_norm.weight";
    let place = coded.windows(name.len()).position(|window| window == name).expect("a name");
    let dimensions =
        u32::from_le_bytes(coded[place + name.len()..][..4].try_into().expect("4 bytes"));
    let at_type = place + name.len() + 4 + 8 * dimensions as usize;
    coded[at_type..at_type + 4].copy_from_slice(&4242u32.to_le_bytes());
    put(folder, "coded.gguf", &coded);
    let last = |words: &[&str]| {
        let said = said(folder, words);
        let lines: Vec<&str> = said.lines().collect();
        format!("{} ... {}", lines[0], lines[lines.len().saturating_sub(2)..].join(" | "))
    };
    assert_snapshot!(
        [
            last(&["hash", GGUF, &at("two.gguf"), "--save", &at("list")]),
            last(&["hash", GGUF, "--save", &at("short")]),
            last(&["hash", GGUF, "--save", &at("other")]),
            last(&["hash", GGUF, "--save", &at("list")]),
            last(&["hash", GGUF, "--save", &at("list")]),
            last(&["hash", &at("coded.gguf")]),
            last(&["hash", &at("coded.gguf"), "--save", &at("coded")]),
            last(&["hash", &at("coded.gguf"), GGUF]),
            last(&["verify", &at("coded.gguf")]),
            last(&["verify", &at("two.gguf"), "--against", &at("list")]),
        ]
        .join("\n")
    );
}

#[test]
fn values_that_rounding_loses() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let values: Vec<f32> = (0..2).flat_map(|_| [1e30f32, 1e-30, 1.0, -1e30]).collect();
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let entry = |n: usize| {
        format!(
            "\"model.layers.{n}.input_layernorm.weight\":{{\"dtype\":\"F32\",\"shape\":[2,4],\"data_offsets\":[{},{}]}}",
            n * 32,
            n * 32 + 32
        )
    };
    let entries: Vec<String> = (0..10).map(entry).collect();
    let header = format!("{{{}}}", entries.join(","));
    put(
        folder,
        "model/config.json",
        LLAMA.replace("\"num_hidden_layers\":2", "\"num_hidden_layers\":10"),
    );
    put(folder, "model/model.safetensors", safetensors(&header, &bytes.repeat(10)));
    let at = |name: &str| text(&folder.join(name)).to_owned();
    assert_snapshot!(
        [
            said(folder, &["bench", &at("model"), "--dtype", "f16"]),
            said(folder, &["bench", &at("model"), "--dtype", "bf16"]),
            said(
                folder,
                &[
                    "convert",
                    &at("model"),
                    &at("out"),
                    "--to",
                    "safetensors",
                    "--dtype",
                    "F16",
                    "--allow-incomplete"
                ]
            ),
            said(
                folder,
                &["dump", &at("model"), "model.layers.0.input_layernorm.weight", "--as", "text"]
            ),
        ]
        .join("\n\n")
    );
}

#[test]
fn values_of_metadata() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let at = |name: &str| text(&folder.join(name)).to_owned();
    let large = folder.join("large");
    let sparse = std::fs::File::create(&large).expect("a file");
    sparse.set_len((64 << 20) + 1).expect("a sparse file");
    put(folder, "binary", b"\xff\xfe\xfd");
    std::fs::copy(root().join(GGUF), folder.join("m.gguf")).expect("a copy");
    let model = at("m.gguf");
    let said = |words: &[&str]| said(folder, words);
    assert_snapshot!(
        [
            said(&["meta", "get", &model, "general.architecture"]),
            said(&["meta", "get", &model, "general.architecture", "llama.block_count"]),
            said(&["meta", "get", &model, "tokenizer.ggml.tokens", "llama.block_count"])
                .lines()
                .take(3)
                .collect::<Vec<_>>()
                .join("\n"),
            said(&["meta", "set", &model, &format!("general.name=@{}", at("large"))]),
            said(&["meta", "set", &model, &format!("general.name=@{}", at("binary"))]),
            said(&["meta", "set", &model, "general.name=@nowhere"]),
        ]
        .join("\n\n")
    );
}

#[test]
fn importance_matrices_of_which_nothing_is_left() {
    let number = |number: i32| number.to_le_bytes();
    let name = b"blk.0.attn_q.weight";
    let mut bytes = [&number(1)[..], &number(19), name, &number(1), &number(256)].concat();
    (0..256).for_each(|_| bytes.extend_from_slice(&1f32.to_le_bytes()));
    bytes.extend_from_slice(&[&number(1)[..], &number(1), b"x"].concat());
    let (folder, matrix) = file("imatrix.dat", &bytes);
    let folder = folder.path();
    let to = folder.join("out.gguf");
    let source = "tests/fixtures/sample/sample-BF16.gguf";
    let words = ["quantize", source, text(&to), "Q4_0", "--imatrix", &matrix, "--overwrite"];
    assert_snapshot!(
        [
            said(folder, &[&words[..], &["--exclude-weights", "attn_q"]].concat()),
            said(folder, &[&words[..], &["--include-weights", "ffn"]].concat()),
            said(folder, &words),
        ]
        .join("\n\n")
    );
}

/// A Modelfile in the folder where the program runs, a draft model, a renderer and a parser.
#[test]
fn models_for_ollama() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let sample = std::fs::canonicalize(root().join(HF)).expect("the sample");
    let here = |words: &[&str]| {
        let mut command = program(words);
        command.current_dir(folder).env("OLLAMA_MODELS", folder.join("store"));
        let ran: support::Ran = command.output().expect("the program starts").into();
        let said = format!("{}\n{}{}", ran.status.unwrap_or(-1), ran.out, ran.err);
        let said = said.replace(text(folder), "FOLDER").replace(text(&sample), "SAMPLE");
        without(&said, "written in ", "\n")
    };
    let mut told = vec![here(&["create", "a"])];
    put(folder, "Modelfile", format!("FROM {}\n", sample.display()));
    told.push(here(&["create", "a"]));
    told.push(here(&[
        "create",
        "b",
        text(&sample),
        "--renderer",
        "qwen3.5",
        "--parser",
        "qwen3.5",
        "--requires",
        "0.14.0",
    ]));
    told.push(here(&["show", "b"]));
    told.push(here(&["create", "c", text(&sample), "--draft", text(&sample)]));
    told.push(here(&["show", "c"]));
    told.push(here(&["inspect", "c"]).lines().take(22).collect::<Vec<_>>().join("\n"));
    told.push(here(&["create", "d", text(&sample), "--requires", "new"]));
    told.push(here(&["create", "e", text(&sample), "--draft", "nowhere"]));
    assert_snapshot!(told.join("\n\n"));
}

/// Heads for masked words, and logits of other programs.
#[test]
fn logits_that_cannot_be_had() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let npy = |header: &str, values: &[f32]| {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes
            .extend_from_slice(&u16::try_from(header.len()).expect("a short header").to_le_bytes());
        bytes.extend_from_slice(header.as_bytes());
        values.iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
        bytes
    };
    let rows = |order: &str, dtype: &str, shape: &str| {
        format!("{{'descr': '{dtype}', 'fortran_order': {order}, 'shape': ({shape}), }}\n")
    };
    put(folder, "fortran.npy", npy(&rows("True", "<f4", "1, 2"), &[1.0, 2.0]));
    put(folder, "double.npy", npy(&rows("False", "<f8", "1, 1"), &[1.0, 2.0]));
    put(folder, "flat.npy", npy(&rows("False", "<f4", "2,"), &[1.0, 2.0]));
    put(folder, "short.npy", npy(&rows("False", "<f4", "2, 2"), &[1.0, 2.0]));
    put(folder, "empty.npy", "");
    put(folder, "other.npy", npy(&rows("False", "<f4", "1, 2"), &[1.0, 2.0]));
    let mut told = Vec::new();
    for name in ["fortran", "double", "flat", "short", "empty", "other"] {
        let path = folder.join(format!("{name}.npy"));
        let ran = run(&[
            "run",
            "logits",
            "tests/fixtures/hf/whisper-f32",
            "--ids",
            "1",
            "--features",
            text(&path),
        ]);
        told.push(format!("{name}: {:?} {}", ran.status, ran.err.replace(text(folder), "FOLDER")));
    }
    told.push(said(
        folder,
        &["run", "logits", "tests/fixtures/hf/bert-f32", "--ids", "1,2", "--masked-head"],
    ));
    assert_snapshot!(told.join("\n"));
}

/// Values far from the others have no bins of their own; their number is said.
#[test]
fn values_outside_the_histogram_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut values: Vec<f32> = (0..4000u16).map(|n| f32::from(n) / 1000.0 - 2.0).collect();
    values[7] = -1e6;
    values[8..10].fill(1e6);
    let header = r#"{"t":{"dtype":"F32","shape":[40,100],"data_offsets":[0,16000]}}"#;
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    put(folder.path(), "model.safetensors", safetensors(header, &bytes));
    let told =
        said(folder.path(), &["inspect", text(&folder.path().join("model.safetensors")), "t"]);
    let bins: Vec<&str> =
        told.lines().filter(|line| line.contains('▏') || line.contains('█')).collect();
    let of = |label: &str| {
        let line = told.lines().find(|line| line.trim_start().starts_with(label));
        line.and_then(|line| line.split_whitespace().last()).map(str::to_owned)
    };
    assert_eq!((of("below").as_deref(), of("above").as_deref()), (Some("1"), Some("2")), "{told}");
    assert!(bins.len() > 4, "{told}");
}
