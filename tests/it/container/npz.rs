//! `weights.npz`: the archives of NumPy that MLX's first converters wrote.

use std::path::Path;

use crate::support::{folder, told, without_path};
use insta::assert_snapshot;
use weighbridge::adapter::Adapter;
use weighbridge::{DType, Limits, Model, OpenOptions};

/// A file of `numpy.save`: the version, the header as Python spells it, and the data.
fn npy(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
    let len = header.len() as u32;
    let len =
        if version == 1 { len.to_le_bytes()[..2].to_vec() } else { len.to_le_bytes().to_vec() };
    [b"\x93NUMPY", &[version, 0][..], &len, header.as_bytes(), data].concat()
}

fn header(descr: &str, order: &str, shape: &str) -> String {
    format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n")
}

fn array(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    npy(1, &header(descr, "False", shape), data)
}

/// A zip archive without compression, or one that claims another `method`.
fn zip(files: &[(&str, Vec<u8>)], method: u16) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes) in files {
        let (at, len) = (archive.len() as u32, bytes.len() as u32);
        // The checksum, which nothing reads, and both lengths.
        let sizes = [0u32, len, len].map(u32::to_le_bytes).concat();
        let common = [&20u16.to_le_bytes()[..], &[0, 0], &method.to_le_bytes(), &[0; 4], &sizes];
        let name_len = (name.len() as u16).to_le_bytes();
        archive.extend([b"PK\x03\x04", &common.concat()[..], &name_len, &[0, 0]].concat());
        archive.extend(name.as_bytes());
        archive.extend(bytes);
        directory
            .extend([b"PK\x01\x02", &[20, 0][..], &common.concat(), &name_len, &[0; 12]].concat());
        directory.extend(at.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let count = (files.len() as u16).to_le_bytes();
    let place = [directory.len() as u32, archive.len() as u32].map(u32::to_le_bytes).concat();
    archive.extend(directory);
    archive.extend([b"PK\x05\x06", &[0; 4][..], &count, &count, &place, &[0, 0]].concat());
    archive
}

fn with<T>(archive: Vec<u8>, look: impl FnOnce(weighbridge::Result<Model>, &Path) -> T) -> T {
    let folder = folder(&[("weights.npz", archive), ("config.json", b"{}".to_vec())]);
    look(Model::open(folder.path()), folder.path())
}

fn refused(archive: Vec<u8>) -> String {
    with(archive, |model, folder| match model {
        Err(error) => without_path(&told(&error), folder),
        Ok(model) => format!("opened, with {} tensors", model.len()),
    })
}

/// mlx-lm wrote adapters as archives before safetensors: without their config, and thus their scale, they mean nothing.
#[test]
fn archives_of_adapters_have_their_config_beside_them() {
    let arrays = || {
        let pair =
            [("lora_a", "(2, 1)", 2usize), ("lora_b", "(1, 2)", 2)].map(|(side, shape, len)| {
                let data: Vec<u8> =
                    vec![0.5f32; len].into_iter().flat_map(f32::to_le_bytes).collect();
                (format!("model.layers.0.self_attn.q_proj.{side}.npy"), array("<f4", shape, &data))
            });
        let files: Vec<(&str, Vec<u8>)> =
            pair.iter().map(|(name, bytes)| (&**name, bytes.clone())).collect();
        ("adapters.npz", zip(&files, 0))
    };
    let config = br#"{"fine_tune_type": "lora", "lora_parameters": {"rank": 1, "scale": 20.0}}"#;
    let whole = folder(&[arrays(), ("adapter_config.json", config.to_vec())]);
    for path in [whole.path().to_owned(), whole.path().join("adapters.npz")] {
        let adapter = Adapter::open(&path).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(adapter.summary(), "rank 1, scale 20, 1 matrix: q_proj");
    }
    let alone = folder(&[arrays()]);
    for path in [alone.path().to_owned(), alone.path().join("adapters.npz")] {
        let error = told(&Adapter::open(&path).expect_err("no scale"));
        assert!(error.contains("without the scale of its changes"), "{error}");
    }
    let error = told(&Model::open(whole.path().join("adapters.npz")).expect_err("an archive"));
    assert!(error.contains("opened with the config next to them"), "{error}");
}

#[test]
fn arrays_are_read_in_place() {
    let long = header("<f4", "False", "(1, 2)") + &" ".repeat(300);
    let archive = zip(
        &[
            ("a.weight.npy", array("<f2", "(2, 2)", &[0, 0x3c, 0, 0x40, 0, 0x42, 0, 0x44])),
            ("scalar.npy", array("|u1", "()", &[7])),
            // MLX states Fortran's order of vectors.
            ("vector.npy", npy(1, &header("<i4", "True", "(1,)"), &[5, 0, 0, 0])),
            ("b.weight.npy", npy(2, &long, &[0, 0, 0x80, 0x3f, 0, 0, 0, 0x40])),
            ("README.md", b"no array".to_vec()),
        ],
        0,
    );
    with(archive, |model, _| {
        let model = model.expect("a model");
        let values = |name: &str| {
            let tensor = model.stored_tensor(name).expect(name);
            (
                tensor.dtype().expect("a dtype"),
                tensor.shape().to_vec(),
                tensor.dequantize().expect("values").to_vec(),
            )
        };
        assert_eq!(model.len(), 4);
        assert_eq!(values("a.weight"), (DType::F16, vec![2, 2], vec![1.0, 2.0, 3.0, 4.0]));
        assert_eq!(values("scalar"), (DType::U8, vec![], vec![7.0]));
        assert_eq!(values("vector"), (DType::I32, vec![1], vec![5.0]));
        assert_eq!(values("b.weight"), (DType::F32, vec![1, 2], vec![1.0, 2.0]));
    });
}

#[test]
fn archives_that_cannot_be_read() {
    let one = |bytes: Vec<u8>| refused(zip(&[("a.npy", bytes)], 0));
    let whole = zip(&[("a.npy", array("|u1", "(1,)", &[7]))], 0);
    let mut many = whole.clone();
    let end = many.len() - 22;
    many[end + 8..end + 12].copy_from_slice(&[0x51, 0xc3, 0x51, 0xc3]);
    let mut broken = whole.clone();
    broken[end + 16] = 0xff;
    assert_snapshot!([
        refused(whole[..end].to_vec()),
        refused(many),
        refused(broken),
        refused(zip(&[("a.npy", array("|u1", "(1,)", &[7]))], 8)),
        one(b"not an array at all".to_vec()),
        one(npy(4, &header("|u1", "False", "(1,)"), &[7])),
        one(npy(2, &(header("|u1", "False", "(1,)") + &" ".repeat(10_000)), &[7])),
        one(npy(1, "{'shape': (1,)}", &[7])),
        one(npy(1, "{'descr': [('a', '<f4')], 'shape': (1,)}", &[7])),
        one(npy(1, "{'descr': '|u1', 'fortran_order': False}", &[7])),
        one(array("<U4", "(1,)", &[0; 16])),
        one(npy(1, &header("|u1", "True", "(2, 2)"), &[7; 4])),
        one(array("|u1", "(one,)", &[7])),
        one(array("|u1", "(1, 1, 1, 1, 1, 1, 1, 1, 1)", &[7])),
        one(array("<f4", "(100, 100)", &[7])),
    ].join("\n"), @r#"
    Malformed: ./weights.npz: the zip archive is incomplete: the record at its end is missing
    help: the file is cut short: fetch it again
    LimitExceeded: ./weights.npz: 50001 arrays in one archive, but the limit is 50000
    help: for a file that you trust, the library can raise Limits::tensors
    Malformed: ./weights.npz: a broken zip: invalid Zip archive: Invalid CDFH offset in EOCD
    Unsupported: ./weights.npz: tensor "a": the array is compressed, so it cannot be read in place
    help: save it with numpy.savez instead
    Malformed: ./weights.npz: tensor "a": not a NumPy array (at byte 35)
    Malformed: ./weights.npz: tensor "a": not a NumPy array (at byte 35)
    Malformed: ./weights.npz: tensor "a": an array header of 10058 bytes (at byte 35)
    Malformed: ./weights.npz: tensor "a": an array header without descr: {'shape': (1,)} (at byte 35)
    Malformed: ./weights.npz: tensor "a": an array header without descr: {'descr': [('a', '<f4')], 'shape': (1,)} (at byte 35)
    Malformed: ./weights.npz: tensor "a": an array header without shape: {'descr': '|u1', 'fortran_order': False} (at byte 35)
    Unsupported: ./weights.npz: tensor "a": arrays of NumPy's dtype "<U4" (at byte 35)
    Unsupported: ./weights.npz: tensor "a": an array in Fortran's order (at byte 35)
    Malformed: ./weights.npz: tensor "a": an array header without shape: {'descr': '|u1', 'fortran_order': False, 'shape': (one,), }\n (at byte 35)
    LimitExceeded: ./weights.npz: tensor "a": 9 dimensions, but the limit is 8
    help: for a file that you trust, the library can raise Limits::dims
    Malformed: ./weights.npz: tensor "a": the tensor's 40000 bytes would end 39926 bytes after the end of the file (183) (at byte 109)
    help: the file is cut short, perhaps by an unfinished download: fetch it again
    "#);
}

/// The limits of directories count for arrays too.
#[test]
fn limits() {
    let arrays = ["a.npy", "b.npy"].map(|name| (name, array("|u1", "(1, 1)", &[7])));
    let folder = folder(&[("weights.npz", zip(&arrays, 0)), ("config.json", b"{}".to_vec())]);
    let open = |limits: Limits| {
        let model = OpenOptions::new().limits(limits).open(folder.path());
        model.map(|model| model.len()).map_err(|error| without_path(&told(&error), folder.path()))
    };
    let limits = |dims: u32, tensors: u64| {
        let mut limits = Limits::default();
        (limits.dims, limits.tensors) = (dims, tensors);
        limits
    };
    assert_eq!(open(limits(2, 2)), Ok(2));
    assert_snapshot!(open(limits(1, 2)).expect_err("a limit"), @r#"
    LimitExceeded: ./weights.npz: tensor "a": 2 dimensions, but the limit is 1
    help: for a file that you trust, the library can raise Limits::dims
    "#);
    assert_snapshot!(open(limits(2, 1)).expect_err("a limit"), @"
    LimitExceeded: ./weights.npz: 2 tensors, but the limit is 1
    help: for a file that you trust, the library can raise Limits::tensors
    ");
}
