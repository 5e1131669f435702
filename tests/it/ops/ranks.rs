//! The shares of ranks as files: put together they are the whole, and they are what `inspect --shard`
//! says.

use std::collections::BTreeMap;
use std::path::Path;

use crate::model::sharding::{every, llama, values};
use crate::support::{folder, sample, told};
use weighbridge::arch::Dialect;
use weighbridge::container::{Container, GGUF, MLX, SAFETENSORS};
use weighbridge::load::FUSIONS;
use weighbridge::model::{Mesh, Sharding};
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::{DType, ErrorKind, Model, WriteOptions};

/// A tensor: its dtype, shape, and values as bits.
pub(crate) type Found = (DType, Vec<u64>, Vec<u32>);

/// The tensors of all files in a folder whose names begin with `start`.
fn tensors(folder: &Path, start: &str) -> BTreeMap<String, Found> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if !name.starts_with(start) || !name.ends_with(".safetensors") {
            continue;
        }
        let model = Model::open(&path).unwrap();
        for tensor in model.stored_tensors() {
            let own = (tensor.dtype().unwrap(), tensor.shape().to_vec(), values(&tensor));
            assert!(found.insert(tensor.name().to_owned(), own).is_none(), "{}", tensor.name());
        }
    }
    found
}

pub(crate) fn of_rank(folder: &Path, rank: u64) -> BTreeMap<String, Found> {
    tensors(folder, &format!("model-rank-{rank}-part-"))
}

pub(crate) fn write(
    model: &Model,
    options: &ConvertOptions,
) -> weighbridge::Result<tempfile::TempDir> {
    let folder = tempfile::tempdir().unwrap();
    ops::convert(model, options)?.run(&folder.path().join("out"), &WriteOptions::new())?;
    Ok(folder)
}

fn shares(mesh: &str) -> ConvertOptions {
    ConvertOptions::new(&SAFETENSORS).shares(mesh.parse().unwrap())
}

#[test]
fn files_have_the_share_of_each_rank_of_every_model() {
    let mut checked = 0;
    for model in every() {
        let at = model.path().display().to_string();
        for text in ["tp=2", "ep=2", "tp=2,pp=2"] {
            let mesh: Mesh = text.parse().unwrap();
            // What is decoded is written as it was decoded.
            let whole = ConvertOptions::new(&SAFETENSORS).dtype(DType::F32);
            let Ok(report) = ops::shares(&model, &mesh) else { continue };
            if ops::convert(&model, &whole).is_err() {
                continue;
            }
            let folder = match write(&model, &shares(text).dtype(DType::F32)) {
                Ok(folder) => folder,
                // A model that lacks tensors, for example.
                Err(error) => {
                    assert_ne!(error.kind(), ErrorKind::Io, "{at} {text}: {error}");
                    continue;
                }
            };
            let out = folder.path().join("out");
            for (own, sharding) in report.ranks.iter().zip(mesh.shardings()) {
                let found = of_rank(&out, own.rank);
                let expected = ops::tensors_of_rank(&model, Dialect::HuggingFace, &sharding);
                let expected = expected.unwrap().tensors;
                assert_eq!(found.len(), expected.len(), "{at} {text} {sharding:?}");
                for tensor in &expected {
                    let (_, shape, bits) = &found[tensor.name()];
                    assert_eq!(shape, tensor.shape(), "{at} {text}: {}", tensor.name());
                    assert_eq!(*bits, values(tensor), "{at} {text}: {}", tensor.name());
                }
            }
            checked += 1;
        }
    }
    assert!(checked >= 6, "{checked}");
    println!("{checked} directories");
}

/// Joins parts of an array along the axis in which they are shorter. Parts of the whole length are all
/// the same.
fn joined(whole: &[u64], parts: &[&Found]) -> Vec<u32> {
    let (_, first, bits) = parts[0];
    let Some(axis) = (0..whole.len()).find(|axis| first[*axis] != whole[*axis]) else {
        assert!(parts.iter().all(|(_, _, other)| other == bits));
        return bits.clone();
    };
    let outer: u64 = whole[..axis].iter().product();
    let mut out = Vec::new();
    for number in 0..outer as usize {
        for (_, shape, bits) in parts {
            let run = shape[axis..].iter().product::<u64>() as usize;
            out.extend(&bits[number * run..(number + 1) * run]);
        }
    }
    out
}

#[test]
fn files_put_together_are_the_whole() {
    for (name, dtype) in
        [("hf", None), ("sample-Q8_0.gguf", Some(DType::BF16)), ("mlx-4bit", Some(DType::F32))]
    {
        let model = Model::open(sample(name)).unwrap();
        let with = |options: ConvertOptions| match dtype {
            Some(dtype) => options.dtype(dtype),
            None => options,
        };
        let folder = write(&model, &with(ConvertOptions::new(&SAFETENSORS))).unwrap();
        let whole = tensors(&folder.path().join("out"), "model");
        let document = |folder: &Path| std::fs::read(folder.join("out/config.json")).unwrap();
        let config = document(folder.path());
        for of in [1, 2, 4] {
            // Parts of a rank are in several files.
            let options = with(shares(&format!("tp={of}"))).shard_bytes(200_000);
            let folder = write(&model, &options).unwrap();
            assert_eq!(document(folder.path()), config, "{name}: the config of the whole");
            let out = folder.path().join("out");
            assert!(out.join("model-rank-0-part-1.safetensors").exists());
            let ranks: Vec<_> = (0..of).map(|rank| of_rank(&out, rank)).collect();
            assert!(ranks.iter().all(|rank| rank.keys().eq(whole.keys())), "{name}");
            for (tensor, (dtype, shape, bits)) in &whole {
                let parts: Vec<&Found> = ranks.iter().map(|rank| &rank[tensor]).collect();
                assert!(parts.iter().all(|(own, ..)| own == dtype), "{name}: {tensor}");
                // The sample has two key heads: of four ranks, two have the same one.
                let key = tensor.contains("k_proj") || tensor.contains("v_proj");
                let parts = if of == 4 && key { vec![parts[0], parts[2]] } else { parts };
                assert!(joined(shape, &parts) == *bits, "{name}: {tensor}");
            }
        }
    }
}

#[test]
fn files_have_the_bytes_that_inspect_says() {
    let model = Model::open(sample("hf")).unwrap();
    for text in ["tp=2", "pp=2", "tp=2,pp=2", "tp=4"] {
        let report = ops::shares(&model, &text.parse().unwrap()).unwrap();
        let folder = write(&model, &shares(text)).unwrap();
        for share in &report.ranks {
            let found = of_rank(&folder.path().join("out"), share.rank);
            let bytes = |(dtype, shape, _): &Found| {
                shape.iter().product::<u64>() * u64::from(dtype.descriptor().block_bytes)
            };
            assert_eq!(found.values().map(bytes).sum::<u64>(), share.bytes, "{text}");
            assert_eq!(found.len(), share.tensors, "{text}");
        }
    }
}

/// A rank of vLLM loads a quantized model's codes, but its files have values.
#[test]
fn decoded_parts_are_noted() {
    for (name, said) in [("sample-Q8_0.gguf", Some("Q8_0 is decoded to F16")), ("hf", None)] {
        let model = Model::open(sample(name)).unwrap();
        let notes = ops::convert(&model, &shares("tp=2")).unwrap().notes;
        let mut found = notes.iter().filter(|note| note.contains("is decoded to"));
        assert_eq!(
            found.next().is_some_and(|note| note.starts_with(said.unwrap_or("-"))),
            said.is_some()
        );
        assert!(found.next().is_none(), "{notes:?}");
    }
}

#[test]
fn joined_tensors_have_the_rows_of_each() {
    let model = Model::open(sample("hf")).unwrap();
    let fusions: Vec<_> = FUSIONS.iter().collect();
    let notes = |options: &ConvertOptions| ops::convert(&model, options).unwrap().notes.join("\n");
    let parts = "vLLM has qkv_proj and gate_up_proj as one tensor each";
    assert!(notes(&shares("tp=2")).contains(parts), "{}", notes(&shares("tp=2")));
    assert!(!notes(&shares("tp=2").fuse(&fusions)).contains("vLLM"));
    let folder = write(&model, &shares("tp=2").fuse(&fusions)).unwrap();
    for rank in 0..2 {
        let found = of_rank(&folder.path().join("out"), rank);
        let sharding = Sharding::new().tensor(rank, 2);
        let own = ops::tensors_of_rank(&model, Dialect::HuggingFace, &sharding).unwrap().tensors;
        let rows = |layer: u32, names: &[&str]| -> Vec<u32> {
            let of = |name: &&str| {
                let full = format!("model.layers.{layer}.{name}_proj.weight");
                values(own.iter().find(|tensor| tensor.name() == full).unwrap())
            };
            names.iter().flat_map(of).collect()
        };
        for layer in 0..2 {
            let name = |module: &str| format!("model.layers.{layer}.{module}_proj.weight");
            let qkv = &found[&name("self_attn.qkv")];
            assert_eq!(qkv.2, rows(layer, &["self_attn.q", "self_attn.k", "self_attn.v"]));
            assert_eq!(found[&name("mlp.gate_up")].2, rows(layer, &["mlp.gate", "mlp.up"]));
            assert!(!found.contains_key(&name("self_attn.k")));
            assert_eq!(found[&name("mlp.down")].2, rows(layer, &["mlp.down"]));
        }
    }
}

#[test]
fn what_cannot_be_written_is_refused() {
    let made = folder(&[("model.gguf", llama(8, 3, DType::F16).build())]);
    let refusal = |options: &ConvertOptions| {
        let model = Model::open(made.path().join("model.gguf")).unwrap();
        let error = ops::convert(&model, options).unwrap_err();
        told(&error).replace(&*made.path().to_string_lossy(), ".")
    };
    insta::assert_snapshot!(refusal(&shares("tp=2")), @r#"
    Mismatch: ./model.gguf: tensor "layers.0.attention.k.weight": 3 key heads cannot be divided equally among 2 ranks
    help: choose a number of ranks that divides them
    "#);
    insta::assert_snapshot!(refusal(&shares("pp=3")), @"Mismatch: ./model.gguf: 2 layers cannot be divided into 3 stages");
    let to = |container: &'static Container| {
        refusal(&ConvertOptions::new(container).shares("tp=1".parse().unwrap()))
    };
    insta::assert_snapshot!(to(&GGUF), @"
    Unsupported: ./model.gguf: the shares of ranks are written to a directory of safetensors files only
    help: write a directory of safetensors files
    ");
    assert_eq!(to(&GGUF), to(&MLX));
    let fusions: Vec<_> = FUSIONS.iter().collect();
    insta::assert_snapshot!(refusal(&ConvertOptions::new(&SAFETENSORS).fuse(&fusions)), @"
    Mismatch: ./model.gguf: tensors are joined only in the shares of ranks
    help: give the number of ranks too, with ConvertOptions::shares
    ");
    let model = Model::open(sample("hf")).unwrap();
    let folder = write(&model, &shares("tp=2")).unwrap();
    let error = Model::open(folder.path().join("out")).unwrap_err();
    insta::assert_snapshot!(told(&error).replace(&*folder.path().to_string_lossy(), "."), @"
    Unsupported: ./out: a directory with the shares of ranks, which are no whole model: model-rank-0-part-0.safetensors
    help: give one of its files
    ");
}
