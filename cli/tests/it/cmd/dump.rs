//! `dump`: every byte of its output.

use crate::support;
use crate::support::{file, printed, refused, run, safetensors};
use insta::assert_snapshot;

/// A matrix of 3 x 2 and a scalar.
fn model() -> (tempfile::TempDir, String) {
    let header = "{\"m\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]},\
                   \"s\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[24,26]},\
                   \"e\":{\"dtype\":\"F32\",\"shape\":[0,2],\"data_offsets\":[26,26]}}";
    let mut data: Vec<u8> = VALUES.iter().flat_map(|value| value.to_le_bytes()).collect();
    data.extend([0xc0, 0x3f]);
    file("model.safetensors", &safetensors(header, &data))
}

const VALUES: [f32; 6] = [1.0, -2.5, 1e-20, 0.1, f32::INFINITY, f32::NAN];

fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn text() {
    let (_folder, path) = model();
    assert_snapshot!(printed(&["dump", &path, "m"]), @"
    m: F32 3 x 2
                 1          -2.5
             1e-20           0.1
               inf           NaN
    ");
    assert_snapshot!(printed(&["dump", &path, "m", "--rows", "1..2"]), @"
    m: F32 3 x 2
             1e-20           0.1
    ");
    assert_snapshot!(printed(&["dump", &path, "s"]), @"
    s: BF16 scalar
               1.5
    ");
    assert_snapshot!(printed(&["dump", &path, "e"]), @"e: F32 0 x 2");
    let sample = "assets/sample/sample-Q8_0.gguf";
    assert_snapshot!(printed(&["dump", sample, "token_embedding.weight"]), @"
    token_embedding.weight: Q8_0 512 x 256
      -0.050525665   -0.04210472   0.011789322   0.033683777  ...   0.009595871  -0.015993118 -0.0031986237    0.08796215
       -0.08614349   -0.14767456 -0.0076913834             0  ...    0.07297897    0.15290833    0.04170227    0.07992935
      -0.043304443   -0.27163696   0.074798584  -0.055114746  ...   -0.04972458             0    0.48820496    0.57409286
      -0.046691895    -0.3034973     0.0894928   -0.06614685  ...  -0.058368683  0.0044898987    0.50735855    0.57021713
               ...
      -0.020561218   0.060214996  -0.016889572  0.0022029877  ... -0.0021915436   0.070129395   -0.08912277  -0.056980133
       -0.06536865   -0.27685547   0.049987793  -0.049987793  ...   -0.05916214   0.004550934     0.5097046     0.5779686
       0.023578644  -0.040420532     0.1212616   0.080841064  ...   -0.09640694    0.11393547  -0.012269974    0.22261238
      -0.009687424    0.05650997   0.090415955  -0.033905983  ...  -0.039123535   0.090473175  -0.042791367    0.06846619
    ");
}

#[test]
fn values_as_bytes() {
    let (_folder, path) = model();
    let dump = |more: &[&str]| run(&[&["dump", path.as_str()], more].concat()).bytes;
    assert_eq!(dump(&["m", "--as", "f32"]), f32s(&VALUES));
    assert_eq!(dump(&["m", "--as", "raw"]), f32s(&VALUES));
    assert_eq!(dump(&["m", "--as", "f32", "--rows", "..1"]), f32s(&VALUES[..2]));
    assert_eq!(dump(&["m", "--as", "raw", "--rows", "1..3"]), f32s(&VALUES[2..]));
    assert_eq!(dump(&["m", "--as", "f32", "--rows", "3..3"]), b"");
    assert_eq!(dump(&["s", "--as", "f32"]), f32s(&[1.5]));
    assert_eq!(dump(&["s", "--as", "raw"]), [0xc0, 0x3f]);
    assert_eq!(dump(&["e", "--as", "f32"]), b"");
}

/// Values are rounded once from `f32`; those that become infinite or 0 are counted in a note.
#[test]
fn rounded_values() {
    let header = "{\"m\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]},\
                   \"d\":{\"dtype\":\"F64\",\"shape\":[2,2],\"data_offsets\":[24,56]}}";
    let mut data = f32s(&[1.0, 65520.0, 1e-20, 0.1, f32::INFINITY, -7e4]);
    data.extend([1e300, 1.0, 1e-300, 0.1].iter().flat_map(|value: &f64| value.to_le_bytes()));
    let (_folder, path) = file("model.safetensors", &safetensors(header, &data));
    let dump = |more: &[&str]| {
        let ran = run(&[&["dump", path.as_str()], more].concat());
        assert_eq!(ran.status, Some(0), "{more:?}");
        (ran.bytes, ran.err)
    };
    let halves = |bits: &[u16]| bits.iter().flat_map(|b| b.to_le_bytes()).collect::<Vec<u8>>();

    let (bytes, said) = dump(&["m", "--as", "f16"]);
    assert_eq!(bytes, halves(&[0x3c00, 0x7c00, 0, 0x2e66, 0x7c00, 0xfc00]));
    assert_eq!(said, "note: m: 2 values rounded to infinity and 1 value to 0\n");
    let (bytes, said) = dump(&["m", "--as", "f16", "--rows", "0..1"]);
    assert_eq!(bytes, halves(&[0x3c00, 0x7c00]));
    assert_eq!(said, "note: m: 1 value rounded to infinity\n");
    let (bytes, said) = dump(&["m", "--as", "bf16", "--rows", "0..2"]);
    assert_eq!(bytes, halves(&[0x3f80, 0x4780, 0x1e3d, 0x3dcd]));
    assert_eq!(said, "");

    let (bytes, said) = dump(&["d", "--as", "f32"]);
    assert_eq!(bytes, f32s(&[f32::INFINITY, 1.0, 0.0, 0.1]));
    assert_eq!(said, "note: d: 1 value rounded to infinity and 1 value to 0\n");
    let (bytes, said) = dump(&["d", "--as", "npy", "--rows", "1..2"]);
    assert_eq!(bytes[bytes.len() - 8..], f32s(&[0.0, 0.1]));
    assert_eq!(said, "note: d: 1 value rounded to 0\n");
    // Text output is not rounded to the format.
    assert_eq!(dump(&["d"]).1, "");
}

/// The same for tensors larger than one decoded piece, with and without a map.
#[test]
fn rows_of_packed_tensors() {
    for (model, name) in [
        ("assets/sample/sample-Q8_0.gguf", "blk.0.ffn_up.weight"),
        ("assets/sample/mlx-4bit", "model.layers.0.mlp.up_proj.weight"),
        ("assets/sample/hf", "model.layers.0.mlp.up_proj.weight"),
    ] {
        for form in ["f32", "f16", "bf16", "raw"] {
            let dump = |rows: &[&str]| {
                run(&[&["dump", model, name, "--as", form, "--no-map"], rows].concat()).bytes
            };
            let whole = dump(&[]);
            let parts = ["0..1", "1..511", "511..512"].map(|rows| dump(&["--rows", rows]));
            assert!(whole.len() > 512, "{name}, {form}");
            assert_eq!(parts.concat(), whole, "{name}, {form}");
            assert_eq!(whole, run(&["dump", model, name, "--as", form]).bytes, "{name}, {form}");
        }
    }
}

/// A canonical name gives the values of a Hugging Face checkpoint and their packed bytes; a stored name
/// gives those of the file.
#[test]
fn canonical_tensors() {
    let model = "assets/sample/sample-Q8_0.gguf";
    let (canonical, stored) = ("layers.1.attention.k.weight", "blk.1.attn_k.weight");
    for (form, row) in [("f32", 4 * 256), ("bf16", 2 * 256), ("raw", 256 / 32 * 34)] {
        let dump = |name: &str, more: &[&str]| {
            run(&[&["dump", model, name, "--as", form], more].concat()).bytes
        };
        let file = dump(stored, &[]);
        // Two heads of 64 rows; each has its even rows first, then the odd ones.
        let rows = (0..128).map(|row| row / 64 * 64 + row % 32 * 2 + row % 64 / 32);
        let expected: Vec<u8> = rows.flat_map(|n| file[n * row..(n + 1) * row].to_vec()).collect();
        assert_ne!(expected, file, "{form}");
        assert_eq!(dump(canonical, &[]), expected, "{form}");
        assert_eq!(dump(canonical, &["--no-map"]), expected, "{form}");
        let parts = ["0..5", "5..128"].map(|rows| dump(canonical, &["--rows", rows]));
        assert_eq!(parts.concat(), expected, "{form}");
    }
    let norm = |name: &str| run(&["dump", model, name, "--as", "raw"]).bytes;
    assert_eq!(norm("layers.0.ffn_norm.weight"), norm("blk.0.ffn_norm.weight"));
    assert_snapshot!(refused(&["dump", model, "layers.1.attention.k", "--as", "raw"]), @r#"
    5
    error: assets/sample/sample-Q8_0.gguf: the model has no tensor "layers.1.attention.k"
     help: the most similar name is "layers.1.attention.k.weight"
    "#);
}

#[test]
fn numpy_arrays() {
    let (_folder, path) = model();
    let npy_of = |path: &str, more: &[&str]| {
        let bytes = run(&[&["dump", path, "--as", "npy"], more].concat()).bytes;
        let (magic, rest) = bytes.split_at(8);
        assert_eq!(magic, b"\x93NUMPY\x01\x00");
        let len = usize::from(u16::from_le_bytes([rest[0], rest[1]]));
        let (header, data) = rest[2..].split_at(len);
        assert_eq!((10 + len) % 64, 0, "the data are aligned");
        (String::from_utf8(header.to_vec()).expect("a header of ASCII"), data.to_vec())
    };
    let npy = |more: &[&str]| npy_of(&path, more);
    let (header, data) = npy(&["m"]);
    assert_snapshot!(header.trim_end(), @"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }");
    assert!(header.ends_with('\n'));
    assert_eq!(data, f32s(&VALUES));
    let (header, data) = npy(&["m", "--rows", "2..3"]);
    assert_snapshot!(header.trim_end(), @"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }");
    assert_eq!(data, f32s(&VALUES[4..]));
    let (header, _) = npy_of("assets/sample/sample-Q8_0.gguf", &["output_norm.weight"]);
    assert_snapshot!(header.trim_end(), @"{'descr': '<f4', 'fortran_order': False, 'shape': (256,), }");
    let (header, data) = npy(&["s"]);
    assert_snapshot!(header.trim_end(), @"{'descr': '<f4', 'fortran_order': False, 'shape': (), }");
    assert_eq!(data, f32s(&[1.5]));
    let (header, data) = npy(&["e"]);
    assert_snapshot!(header.trim_end(), @"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 2), }");
    assert_eq!(data, b"");
}

#[test]
fn what_is_not_there() {
    let (folder, path) = model();
    let said = |more: &[&str]| {
        let said = refused(&[&["dump", path.as_str()], more].concat());
        said.replace(&*folder.path().to_string_lossy(), ".")
    };
    assert_snapshot!(said(&["nope"]), @r#"
    5
    error: ./model.safetensors: no tensor "nope"
     help: `inspect` lists the names
    "#);
    assert_snapshot!(said(&["m", "--rows", "0..4", "--as", "f32"]), @r#"
    2
    error: ./model.safetensors: tensor "m": rows 0..4 exceed the 3 rows
    "#);
    assert_snapshot!(said(&["m", "--rows", "0..4", "--as", "raw"]), @r#"
    2
    error: ./model.safetensors: tensor "m": rows 0..4 exceed the 3 rows
    "#);
    assert_snapshot!(said(&["m", "--rows", "2..1"]), @"
    2
    error: invalid value '2..1' for '--rows <A..B>': expected the first row and the row after the last, as in 0..4 or 0:4, or one row
    ");
    assert_snapshot!(said(&["m", "--rows", "x"]), @"
    2
    error: invalid value 'x' for '--rows <A..B>': expected the first row and the row after the last, as in 0..4 or 0:4, or one row
    ");
}

/// Schemes that pack several rows together have bytes as a whole, but not by rows.
#[test]
fn bytes_of_rows_that_are_packed_together() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let codes: Vec<u8> = (0..128).collect();
    let header = r#"{"l.qweight":{"dtype":"I32","shape":[4,8],"data_offsets":[0,128]},
        "l.qzeros":{"dtype":"I32","shape":[2,1],"data_offsets":[128,136]},
        "l.scales":{"dtype":"F16","shape":[2,8],"data_offsets":[136,168]}}"#;
    let data = [&codes[..], &[0x77; 8], &[0, 0x3c].repeat(16)].concat();
    let config = r#"{"quantization_config":{"quant_method":"gptq"}}"#;
    std::fs::write(folder.path().join("model.safetensors"), support::safetensors(header, &data))
        .expect("a file");
    std::fs::write(folder.path().join("config.json"), config).expect("a file");
    let path = folder.path().to_str().expect("UTF-8");
    assert_eq!(run(&["dump", path, "l.weight", "--as", "raw"]).bytes, codes);
    let rows = refused(&["dump", path, "l.weight", "--as", "raw", "--rows", "0..1"]);
    assert!(rows.starts_with("2\n") && rows.contains("packs several rows together"), "{rows}");
}

/// `dump MODEL TENSOR > FILE` writes some of the values.
#[test]
#[cfg(unix)]
fn what_a_redirected_table_lacks_is_said() {
    let mut program =
        support::program(&["dump", "assets/sample/sample-Q8_0.gguf", "output_norm.weight"]);
    let file = tempfile::tempfile().expect("a file");
    let said = program.stdout(file).output().expect("a run").stderr;
    assert!(String::from_utf8_lossy(&said).contains("not every value is written"), "{said:?}");
}
