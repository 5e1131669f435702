//! Families that are described by a file at run time: in a program of its own, since the whole process
//! knows a family that was added.
#![allow(clippy::disallowed_methods, reason = "the files are the tests' own")]

#[path = "support/left_out.rs"]
mod left_out;

use std::path::{Path, PathBuf};

use weighbridge::arch::{Architecture, FamilyFile, architectures};
use weighbridge::container::{GGUF, MLX};
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::write::WriteOptions;
use weighbridge::{ErrorKind, Model};

/// A family that nobody has: Llama's tensors under Llama's names, and a `model_type` of its own.
const AURORA: &str = "\
# Aurora, which exists in this test alone.
[family aurora]
summary   Aurora
rope      half_split
tensors   decoder
prefixes  decoder

[gguf aurora]
hf       aurora
default  layer_pattern 4
gguf-default activation \"silu\"
keys     base heads llama/llama

[class aurora AuroraForCausalLM]
config   body dense grouped rms heads silu
fixed    aurora_flag true
";

/// The sample as a model of a type that no built-in family describes.
fn sample_of_type(folder: &Path, model_type: &str) -> PathBuf {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/sample/hf");
    let to = folder.join(model_type);
    std::fs::create_dir_all(&to).unwrap();
    for name in ["model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(sample.join(name), to.join(name)).unwrap();
    }
    let config = std::fs::read_to_string(sample.join("config.json")).unwrap();
    let config = config.replace("\"llama\"", &format!("\"{model_type}\""));
    std::fs::write(to.join("config.json"), config).unwrap();
    to
}

#[test]
fn an_unknown_family_works_from_a_file_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = sample_of_type(folder.path(), "aurora");
    let before = Model::open(&path).unwrap();
    assert!(before.resolution().unwrap().architecture.is_none());

    let file = folder.path().join("aurora.family");
    std::fs::write(&file, AURORA).unwrap();
    FamilyFile::open(&file).unwrap().add();

    let model = Model::open(&path).unwrap();
    let resolution = model.resolution().unwrap();
    assert_eq!(resolution.architecture.map(|row| row.name), Some("aurora"));
    assert_eq!((resolution.mapped.len(), resolution.missing.len()), (20, 0));
    assert_eq!(model.config().unwrap().dim.value, 256);

    // Its names, its keys and its class lead to GGUF and back.
    let gguf = folder.path().join("aurora.gguf");
    let plan = ops::convert(&model, &ConvertOptions::new(&GGUF).extra_keys(false)).unwrap();
    plan.run(&gguf, &WriteOptions::new()).unwrap();
    let written = Model::open(&gguf).unwrap();
    assert_eq!(written.metadata().str("general.architecture"), Some("aurora"));
    assert_eq!(written.config().unwrap().activation.as_ref().unwrap().value, "silu");
    for mapping in &resolution.mapped {
        let (a, b) = (model.tensor(&mapping.canonical), written.tensor(&mapping.canonical));
        let (a, b) = (a.unwrap().dequantize().unwrap(), b.unwrap().dequantize().unwrap());
        assert_eq!(a[..], b[..], "{}", mapping.canonical);
    }
    let mlx = folder.path().join("mlx");
    let plan = ops::convert(&written, &ConvertOptions::new(&MLX).allow_unloadable(true)).unwrap();
    plan.run(&mlx, &WriteOptions::new()).unwrap();
    let config = std::fs::read_to_string(mlx.join("config.json")).unwrap();
    assert!(config.contains("\"AuroraForCausalLM\"") && config.contains("aurora_flag"), "{config}");
}

/// The example of `families/README.md` is a file of families, and takes no model of another family.
#[test]
fn the_example_of_the_guide_is_sound() {
    let guide = include_str!("../families/README.md");
    let blocks = guide.split("```text\n").skip(1).filter_map(|block| block.split("```").next());
    let blocks = blocks.filter(|block| block.contains('['));
    let example: String = blocks.collect();
    let file = FamilyFile::parse("cedar.family", &example).unwrap();
    let [cedar] = file.architectures() else { panic!("{file:?}") };
    assert_eq!((cedar.name, cedar.gguf, cedar.hf), ("cedar", &["cedar"][..], &["cedar"][..]));
}

/// The built-in files are such files: parsed as a given one, each describes the same.
#[test]
fn a_built_in_family_is_the_same_as_a_given_one() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("families");
    let mut all = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "family") {
            continue;
        }
        for given in FamilyFile::open(&path).unwrap().architectures() {
            let built_in: Vec<_> =
                architectures().into_iter().filter(|row| row.name == given.name).collect();
            let [built_in] = built_in.as_slice() else { panic!("{}", given.name) };
            let text = |row: &Architecture| format!("{row:?}");
            assert_eq!(text(given), text(built_in));
            all += 1;
        }
    }
    assert_eq!(all, architectures().iter().filter(|row| row.name != "aurora").count());
}

#[test]
fn faults_name_the_file_and_the_line() {
    let cases = [
        ("x y\n", "line 1: x: a line before the first section"),
        ("[famly a]\n", "line 1: famly: no such section"),
        ("[family a]\nrope round\n", "line 2: rope: half_split, interleaved or none is needed"),
        ("[family a]\nhf a\ntensors missing\n", "line 3: tensors: no table \"missing\""),
        ("[family a]\nhf a\n", "line 1: family: a has no tensors"),
        (
            "[family a]\ntensors decoder\n",
            "line 1: family: a has no name in GGUF and none in config",
        ),
        ("[family a]\nhf a\ncolour red\n", "line 3: colour: no such line of a family"),
        ("[family a]\nhf a\ninstead b if c\n", "line 3: instead: FAMILY when FUNCTION is needed"),
        (
            "[family a]\nhf a\nnamed x. of y. with z.weight\n",
            "line 3: named: NAME for NAME with or without TENSOR is needed",
        ),
        (
            "[family a]\nhf a\ntensors decoder\n[decoder]\nnorm added 1.0 ffn_nrom\n",
            "line 5: norm: \"ffn_nrom\", but nothing or NORMS is needed",
        ),
        (
            "[family a]\nhf a\ntensors decoder\n[decoder]\nlogits gained output.gian\n",
            "line 5: logits: \"output.gian\", but TENSOR is needed",
        ),
        (
            "[family a]\nhf a\ntensors decoder\n[decoder]\n\nnorm wobbly\n",
            "line 6: norm: \"wobbly\", but layer or added or epsilon or bare or embedding is needed",
        ),
        (
            "[family a]\nhf a\ntensors decoder\n[decoder]\nnorm added small\n",
            "line 5: norm: \"small\", but NUMBER is needed",
        ),
        (
            "[family a]\nhf a\ntensors decoder\n[decoder]\nfrobnicate yes models a\n",
            "line 5: frobnicate: \"frobnicate\", but norm or embedding or positions or",
        ),
        (
            "[family a]\nhf a\ntensors decoder\n[decoder]\nstep nosuch\n",
            "line 5: step: \"nosuch\", but altup or apertus_activation or",
        ),
        (
            "[family a]\nhf a\ntensors decoder\n[decoder]\nrefuse with output.gian \"no\"\n",
            "line 5: refuse: \"output.gian\", but TENSOR is needed",
        ),
        (
            "[family a]\nhf a\ntensors decoder\n[decoder]\nactivation gelu_tanh unless_state\n",
            "line 5: activation: \"unless_state\", but nothing or unless_stated or gelu or",
        ),
        (
            "[family a]\nhf a\ntensors decoder\noptional nothing.weight\n",
            "line 4: optional: nothing.weight is optional, but no table names it",
        ),
        (
            "[family a]\nhf a\ntensors decoder\n[gguf a]\n[class a A]\nfield nothing x\n",
            "line 6: field: nothing is no number of the config",
        ),
        (
            "[family a]\nhf a\ntensors decoder\nrename hf a. b. requires output.wieght\n",
            "line 4: rename: no tensor \"output.wieght\"",
        ),
        (
            "[family a]\nhf a\ntensors decoder\nrename hf a. b. without output.weight\n",
            "line 4: rename: requires TENSOR, lacks TENSOR or models NAMES is needed",
        ),
        ("[gguf a]\nfamily\n", "line 2: family: 0 values, but at least 1 are needed"),
        (
            "[tensors t]\na.weight b.weight c.weight gguf:turned\n",
            "line 2: a.weight: no transform \"turned\"",
        ),
        ("[tensors t]\na.weight\n", "line 2: a.weight: 0 values, but at least 1 are needed"),
        (
            "[family a]\nhf a\ntensors decoder\n[gguf a]\nrow nothing\n",
            "line 5: row: nothing is no number of the config that GGUF has a key for",
        ),
        (
            "[family a]\nhf a\ntensors decoder\n[gguf a]\nstep nothing\n",
            "line 5: step: no function \"nothing\" for this",
        ),
        ("[gguf a]\ndefault window_period \"x\n", "line 2: a quotation mark that no other one"),
        ("[gguf a]\nfixed k 1x\n", "line 2: fixed: 1x, but a count"),
        ("[family a]\nreads widht breadth\n", "line 2: reads: widht is no number of the config"),
        ("[family a]\nreads dim\n", "line 2: reads: 1 values, but at least 2 are needed"),
        (
            "[canonical middle]\n",
            "line 1: canonical: \"middle\", but one of these is needed: input, layers",
        ),
        (
            "[canonical input]\na.weight matrx dim\n",
            "line 2: a.weight: \"matrx\", but one of these",
        ),
        (
            "[canonical input]\na.weight matrix dim,widht\n",
            "line 2: a.weight: \"widht\", but one of these",
        ),
        (
            "[canonical input]\na.weight matrix\n",
            "line 2: a.weight: no shape, but at least one is needed",
        ),
        (
            "[canonical layers]\na.weight matrix dim\n",
            "line 2: a.weight: tensors of layers, and no others",
        ),
        (
            "[canonical input]\na matrix dim instead_of b\n",
            "line 2: a: instead_of: no tensor \"b\" above",
        ),
        (
            "[canonical input]\na norm dim\n\na table dim\n",
            "line 4: a: the file has a row with this name",
        ),
    ];
    for (text, expected) in cases {
        let error = FamilyFile::parse("my.family", text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed);
        let message = error.to_string();
        assert!(message.contains("my.family") && message.contains(expected), "{message}");
    }
}

#[test]
fn files_have_limits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.family");
    std::fs::write(&path, vec![b' '; (4 << 20) + 1]).unwrap();
    assert_eq!(FamilyFile::open(&path).unwrap_err().kind(), ErrorKind::LimitExceeded);
    std::fs::write(&path, b"# \xff\n").unwrap();
    assert_eq!(FamilyFile::open(&path).unwrap_err().kind(), ErrorKind::Malformed);
    assert_eq!(
        FamilyFile::open(folder.path().join("none")).unwrap_err().kind(),
        ErrorKind::NotFound
    );
}
