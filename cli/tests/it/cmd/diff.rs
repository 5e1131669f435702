//! `diff`: its output and exit status.

use crate::support;
use crate::support::{file, indented, json, printed, refused, run, safetensors};
use insta::assert_snapshot;

const GGUF: &str = "assets/sample/sample-Q8_0.gguf";
const HF: &str = "assets/sample/hf";
const MLX: &str = "assets/sample/mlx-4bit";

/// The output of a run that finds a difference.
fn found(arguments: &[&str]) -> String {
    let ran = run(arguments);
    assert_eq!((ran.status, ran.err.as_str()), (Some(1), ""), "{arguments:?}");
    ran.out
}

#[test]
fn quantization_error() {
    assert_snapshot!(found(&["diff", HF, GGUF]), @"
    A assets/sample/hf: safetensors
    B assets/sample/sample-Q8_0.gguf: gguf
    15 of 20 tensors differ, relative RMS 0.546 % (mean over 15 matrices, weighted by size)
    largest difference: layers.1.ffn.down.weight, relative RMS 0.615 %; at [255, 337]: -0.024658203 in A, -0.02279663 in B

    NAME                                  A     B         SHAPE    DIFFER      MAX      RMS  RELATIVE     COSINE
    layers.[0-1].attention.k.weight       BF16  Q8_0  128 x 256   65.38 k  9.33e-4  2.74e-4   0.531 %  0.9999859
    layers.[0-1].attention.output.weight  BF16  Q8_0  256 x 256  130.66 k  9.16e-4  2.71e-4   0.524 %  0.9999863
    layers.[0-1].attention.q.weight       BF16  Q8_0  256 x 256  130.61 k  1.13e-3  2.93e-4   0.529 %  0.9999860
    layers.[0-1].attention.v.weight       BF16  Q8_0  128 x 256   65.34 k  9.77e-4  2.65e-4   0.535 %  0.9999857
    layers.[0-1].ffn.down.weight          BF16  Q8_0  256 x 512  261.33 k  1.86e-3  3.65e-4   0.585 %  0.9999827
    layers.[0-1].ffn.gate.weight          BF16  Q8_0  512 x 256  261.32 k  1.33e-3  3.40e-4   0.531 %  0.9999859
    layers.[0-1].ffn.up.weight            BF16  Q8_0  512 x 256  261.34 k  1.28e-3  3.31e-4   0.525 %  0.9999862
    token_embedding.weight                BF16  Q8_0  512 x 256  130.73 k  3.05e-3  9.47e-4   0.596 %  0.9999822
    ");
    assert_snapshot!(found(&["diff", HF, MLX, "--filter", "layers.0.attention*", "--all"]), @"
    A assets/sample/hf: safetensors
    B assets/sample/mlx-4bit: mlx
    4 of 5 tensors differ, relative RMS 9.024 % (mean over 4 matrices, weighted by size)
    largest difference: layers.0.attention.v.weight, relative RMS 9.153 %; at [40, 238]: -0.13378906 in A, -0.11706543 in B

    NAME                              A     B                SHAPE     DIFFER      MAX      RMS  RELATIVE     COSINE
    layers.0.attention.k.weight       BF16  MLX_AFFINE4  128 x 256    31.97 k  1.83e-2  4.66e-3   9.072 %  0.9958908
    layers.0.attention.output.weight  BF16  MLX_AFFINE4  256 x 256    64.00 k  1.77e-2  4.34e-3   9.022 %  0.9959390
    layers.0.attention.q.weight       BF16  MLX_AFFINE4  256 x 256    63.98 k  2.25e-2  4.89e-3   8.938 %  0.9960092
    layers.0.attention.v.weight       BF16  MLX_AFFINE4  128 x 256    32.01 k  1.67e-2  4.18e-3   9.153 %  0.9958167
    layers.0.attention_norm.weight    BF16  BF16               256  identical        -        -         -          -
    ");
    assert_snapshot!(found(&["diff", MLX, GGUF, "--tolerance", "0.05", "--no-map"]), @"
    A assets/sample/mlx-4bit: mlx
    B assets/sample/sample-Q8_0.gguf: gguf
    1 of 20 tensors differs by more than 0.05, relative RMS 9.248 % (mean over 15 matrices, weighted by size)
    largest difference: token_embedding.weight, relative RMS 9.872 %; at [472, 61]: -0.5126953 in A, -0.58572006 in B

    NAME                    A            B         SHAPE  DIFFER      MAX      RMS  RELATIVE     COSINE
    token_embedding.weight  MLX_AFFINE4  Q8_0  512 x 256      77  7.30e-2  1.57e-2   9.872 %  0.9951189
    ");
}

#[test]
fn equal_models() {
    assert_snapshot!(printed(&["diff", HF, HF]), @"
    A assets/sample/hf: safetensors
    B assets/sample/hf: safetensors
    20 tensors compared: equal
    ");
    assert_snapshot!(printed(&["diff", HF, GGUF, "--tolerance", "0.01"]), @"
    A assets/sample/hf: safetensors
    B assets/sample/sample-Q8_0.gguf: gguf
    20 tensors compared: none differs by more than 0.01, relative RMS 0.546 % (mean over 15 matrices, weighted by size)
    ");
    assert_snapshot!(printed(&["diff", HF, GGUF, "--filter", "*norm*", "--all"]), @"
    A assets/sample/hf: safetensors
    B assets/sample/sample-Q8_0.gguf: gguf
    5 tensors compared: equal

    NAME                            A     B    SHAPE  DIFFER     MAX     RMS  RELATIVE     COSINE
    layers.0.attention_norm.weight  BF16  F32    256   equal  0.00e0  0.00e0   0.000 %  1.0000000
    layers.0.ffn_norm.weight        BF16  F32    256   equal  0.00e0  0.00e0   0.000 %  1.0000000
    layers.1.attention_norm.weight  BF16  F32    256   equal  0.00e0  0.00e0   0.000 %  1.0000000
    layers.1.ffn_norm.weight        BF16  F32    256   equal  0.00e0  0.00e0   0.000 %  1.0000000
    output_norm.weight              BF16  F32    256   equal  0.00e0  0.00e0   0.000 %  1.0000000
    ");
}

/// Two files with names of no known family: a tensor of 3 x 2, a tensor in one file only, one with
/// different shapes, one of a dtype whose values cannot be read.
fn plain(change: bool) -> (tempfile::TempDir, String) {
    let (shape, name) = if change { ("[3,2]", "new") } else { ("[2,3]", "old") };
    let header = format!(
        "{{\"m\":{{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]}},\
          \"s\":{{\"dtype\":\"F32\",\"shape\":{shape},\"data_offsets\":[24,48]}},\
          \"{name}\":{{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[48,52]}},\
          \"c\":{{\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[52,60]}}}}"
    );
    let mut values = [0.5f32; 15];
    if change {
        values[3] = f32::NAN;
        values[14] = 1.0;
    }
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    file("model.safetensors", &safetensors(&header, &data))
}

#[test]
fn every_kind_of_difference() {
    let ((folder_a, a), (folder_b, b)) = (plain(false), plain(true));
    let ran = run(&["diff", &a, &b]);
    let without = |text: &str| {
        let text = text.replace(&*folder_a.path().to_string_lossy(), "a");
        text.replace(&*folder_b.path().to_string_lossy(), "b")
    };
    assert_eq!(ran.status, Some(1));
    assert_snapshot!(without(&ran.err), @"note: neither architecture is known: tensors are paired by stored name");
    assert_snapshot!(without(&ran.out), @r#"
    A a/model.safetensors: safetensors
    B b/model.safetensors: safetensors
    2 of 2 tensors differ, 1 only in A, 1 only in B, 1 not compared, relative RMS 100.000 % (mean over 1 matrix, weighted by size)
    largest difference: m; at [1, 1]: 0.5 in A, NaN in B

    NAME  A    B            SHAPE  DIFFER  MAX     RMS  RELATIVE     COSINE
    m     F32  F32          3 x 2       1  NaN  0.00e0       NaN  1.0000000
    s     F32  F32  2 x 3 / 3 x 2   shape    -       -         -          -
    only in A: old
    only in B: new
    not compared: c: a/model.safetensors: tensor "c": decoding C64 is not supported yet
    "#);
    let ran = run(&["diff", &a, &b, "--json"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(1), ""));
    assert_snapshot!(without(&indented(&ran.out)), @r#"
    {
      "schema": 1,
      "a": {
        "path": "a/model.safetensors",
        "container": "safetensors",
        "architecture": null
      },
      "b": {
        "path": "b/model.safetensors",
        "container": "safetensors",
        "architecture": null
      },
      "tolerance": 0.0,
      "compared": 2,
      "identical": 0,
      "relative_rms": 1.0,
      "matrices": 1,
      "different": [
        {
          "name": "m",
          "a": {
            "stored": [
              "m"
            ],
            "dtype": "F32",
            "shape": [
              3,
              2
            ]
          },
          "b": {
            "stored": [
              "m"
            ],
            "dtype": "F32",
            "shape": [
              3,
              2
            ]
          },
          "elements": 6,
          "differing": 1,
          "max_difference": "NaN",
          "rms_difference": 0.0,
          "relative_rms": 0.0,
          "cosine": 0.9999999999999998,
          "worst": {
            "at": [
              1,
              1
            ],
            "a": 0.5,
            "b": "NaN"
          }
        },
        {
          "name": "s",
          "a": {
            "stored": [
              "s"
            ],
            "dtype": "F32",
            "shape": [
              2,
              3
            ]
          },
          "b": {
            "stored": [
              "s"
            ],
            "dtype": "F32",
            "shape": [
              3,
              2
            ]
          }
        }
      ],
      "only_a": [
        "old"
      ],
      "only_b": [
        "new"
      ],
      "config": [],
      "unread": [
        {
          "name": "c",
          "reason": "a/model.safetensors: tensor \"c\": decoding C64 is not supported yet"
        }
      ],
      "notes": [
        "neither architecture is known: tensors are paired by stored name"
      ],
      "files": []
    }
    "#);
    // Tensors that cannot be read are not reported as equal.
    let ran = run(&["diff", &a, &b, "--filter", "c"]);
    assert_eq!(ran.status, Some(4));
    assert_snapshot!(without(&ran.out), @r#"
    A a/model.safetensors: safetensors
    B b/model.safetensors: safetensors
    no tensor compared, 1 not compared
    not compared: c: a/model.safetensors: tensor "c": decoding C64 is not supported yet
    "#);
}

#[test]
fn json_report() {
    let report = json(&["diff", HF, HF, "--json"]);
    assert_eq!((&report["compared"], &report["identical"]), (&20.into(), &20.into()));
    for list in ["different", "only_a", "only_b", "unread", "notes"] {
        assert_eq!(report[list], serde_json::json!([]), "{list}");
    }
    let ran = run(&["diff", HF, GGUF, "--json", "--filter", "output_norm*"]);
    assert_eq!(ran.status, Some(0));
}

#[test]
fn refusals() {
    let ((folder, path), mut arguments) = (plain(false), vec!["diff"]);
    arguments.extend([path.as_str(), HF]);
    let said = refused(&arguments).replace(&*folder.path().to_string_lossy(), ".");
    assert_snapshot!(said, @r#"
    2
    error: ./model.safetensors: no tensor name in common with assets/sample/hf
     help: A: no file states the architecture: 4 tensors under stored names; B: llama (config.json model_type is "llama"): 20 tensors mapped, 0 unknown, 0 missing
    "#);
    assert_snapshot!(refused(&["diff", HF, GGUF, "--filter", "nothing"]), @r#"
    5
    error: assets/sample/hf: no tensor name matches "nothing"
     help: `weighbridge inspect --all` lists the names
    "#);
    assert_snapshot!(refused(&["diff", HF, GGUF, "--tolerance", "-1"]), @"
    2
    error: invalid value '-1' for '--tolerance <T>': expected a number that is not negative, as in 1e-6
    ");
    assert_snapshot!(refused(&["diff", HF, GGUF, "--tolerance", "NaN"]), @"
    2
    error: invalid value 'NaN' for '--tolerance <T>': expected a number that is not negative, as in 1e-6
    ");
    assert_snapshot!(refused(&["diff", HF, "nowhere"]), @"
    5
    error: nowhere: no such file, and no model of that name in no-store
     help: `weighbridge pull nowhere` downloads a model of Ollama's; `weighbridge models` lists those of a store
    ");
}

/// A remark on a model stands before reports for people, and in no report as JSON.
#[test]
fn remarks_come_with_texts_alone() {
    let folder = support::two_models();
    let path = folder.path().to_str().expect("UTF-8");
    for words in [&["diff", path, HF][..], &["inspect", path, "model.norm.weight"]] {
        let ran = run(words);
        assert_eq!(ran.status, Some(0), "{words:?}: {}", ran.err);
        assert!(ran.err.starts_with("note: ") && ran.err.contains("beside.gguf"), "{}", ran.err);
        assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
        assert_eq!(run(&[words, &["--json"]].concat()).err, "", "{words:?}");
    }
}

#[test]
fn a_single_tensor_has_its_clipped_values() {
    let ran = found(&["diff", HF, GGUF, "--filter", "layers.0.ffn.down.weight"]);
    assert_snapshot!(ran, @"
    A assets/sample/hf: safetensors
    B assets/sample/sample-Q8_0.gguf: gguf
    1 of 1 tensor differs, relative RMS 0.555 % (mean over 1 matrix, weighted by size)
    largest difference: layers.0.ffn.down.weight, relative RMS 0.555 %; at [34, 342]: 0.10595703 in A, 0.107185364 in B
    clipped: 2 of 131072 values, 0.003 % of the squared error; the worst at row 117, column 41: 0.10595703 in A, 0.10537338 in B

    NAME                      A     B         SHAPE    DIFFER      MAX      RMS  RELATIVE     COSINE
    layers.0.ffn.down.weight  BF16  Q8_0  256 x 512  130.65 k  1.23e-3  3.32e-4   0.555 %  0.9999846
    ");
    let one = |filter: &str| -> serde_json::Value {
        serde_json::from_str(&found(&["diff", HF, GGUF, "--json", "--filter", filter]))
            .expect("JSON")
    };
    let named = one("token_embedding.weight");
    assert_eq!(named["compared"], 1);
    assert_eq!(named["clipping"]["width"], 32);
    assert!(one("layers.0.ffn").get("clipping").is_none());
}
