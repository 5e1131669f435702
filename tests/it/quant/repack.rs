//! Blocks and groups that ggml and MLX wrote, in each other's packing: the values that those
//! libraries gave back are still the same.
#![allow(clippy::cast_possible_truncation, reason = "the numbers are the test's own")]

use std::path::Path;

use crate::support::{Gguf, Safetensors, folder, open_as};
use weighbridge::dtype::Packing;
use weighbridge::quant::{Global, GroupParts};
use weighbridge::repack::{PackedRows, REPACKS, Repack, Repacked};
use weighbridge::{DType, Model, Part, Strictness, Tensor};

fn data() -> Model {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/golden.safetensors");
    Model::open(path).expect("the golden rows")
}

fn bytes(store: &Model, name: &str) -> Option<Vec<u8>> {
    let tensor = store.stored_tensor(name).ok()?;
    Some(tensor.bytes(Part::Weight).expect("bytes").into_owned())
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// All parts of a tensor, changed by a thread for each row.
fn repacked(repack: &Repack, rows: usize, from: &PackedRows<'_>, scales: DType) -> [Vec<u8>; 3] {
    let sizes = repack.sizes(rows, from, scales).expect("whole rows");
    let [mut weight, mut scale, mut bias] = sizes.map(|size| vec![0xa5; size]);
    let cut = |part: &[u8], row: usize| part.len() / rows * row..part.len() / rows * (row + 1);
    std::thread::scope(|threads| {
        let mut rest = [&mut *weight, &mut *scale, &mut *bias];
        for row in 0..rows {
            let [weight, scale, bias] = [0, 1, 2].map(|part| {
                let len = sizes[part] / rows;
                rest[part].split_off_mut(..len).expect("room")
            });
            let to = GroupParts { weight, scale, bias };
            let from = PackedRows {
                weight: &from.weight[cut(from.weight, row)],
                scale: &from.scale[cut(from.scale, row)],
                bias: &from.bias[cut(from.bias, row)],
                ..*from
            };
            threads.spawn(move || {
                let done = repack.run(&from, scales, to).expect("room for it");
                assert_eq!(done, Repacked::Exact, "{} to {}", repack.from, repack.to);
            });
        }
    });
    [weight, scale, bias]
}

fn check(repack: &Repack, tensor: &Tensor, expected: &[f32]) {
    let values = tensor.dequantize().expect("values");
    assert_eq!(values.len(), expected.len());
    for (place, (new, old)) in values.iter().zip(expected).enumerate() {
        let zeros = *new == 0.0 && *old == 0.0 && !repack.keeps_zero_signs;
        let same = new.to_bits() == old.to_bits() || zeros || new.is_nan() && old.is_nan();
        assert!(same, "{} to {}, {place}: {old} {new}", repack.from, repack.to);
    }
}

/// Opens groups as MLX has them on disk.
fn check_groups(repack: &Repack, shape: [usize; 2], parts: [Vec<u8>; 3], expected: &[f32]) {
    let [rows, columns] = shape.map(|len| len as u64);
    let bits = u64::from(repack.to.bits());
    let name = repack.to.name().trim_start_matches("MLX_").to_lowercase();
    let mode = if name.starts_with("affine") { "affine" } else { &name };
    let group = repack.group.expect("a group") as u64;
    let config = format!(
        "{{\"model_type\":\"llama\",\"quantization\":{{\"bits\":{bits},\"group_size\":{group},\"mode\":\"{mode}\"}}}}"
    );
    let [weight, scale, bias] = parts;
    let format = if bias.is_empty() { "U8" } else { "F32" };
    let groups = [rows, columns / group];
    let mut file = Safetensors::new()
        .tensor("m.weight", "U32", &[rows, columns * bits / 32], weight)
        .tensor("m.scales", format, &groups, scale);
    if !bias.is_empty() {
        file = file.tensor("m.biases", format, &groups, bias);
    }
    let folder =
        folder(&[("config.json", config.into_bytes()), ("model.safetensors", file.build())]);
    let store = Model::open(folder.path()).expect("a directory");
    check(repack, &store.stored_tensor("m.weight").expect("the tensor"), expected);
}

#[test]
fn golden_blocks_as_groups() {
    let store = data();
    let mut count = 0;
    for repack in REPACKS.iter().filter(|repack| repack.to.name().starts_with("MLX")) {
        let name = repack.from.name();
        let Some(raw) = bytes(&store, &format!("{name}.raw")) else { continue };
        let expected = store.stored_tensor(&format!("{name}.expected")).expect("the values");
        let shape = expected.shape();
        let columns = *shape.last().expect("a dimension") as usize;
        let from = PackedRows::blocks(&raw, columns);
        let expected = floats(&bytes(&store, &format!("{name}.expected")).expect("values"));
        let rows = expected.len() / columns;
        let widest = repack.scales.last().expect("scales");
        let scales = if repack.scales[0] == DType::U8 { DType::U8 } else { *widest };
        if repack.from == DType::NVFP4 {
            // Noise, with scales that have a sign: MLX reads it, and ggml does not.
            let sizes = repack.sizes(rows, &from, scales).expect("whole rows");
            let [mut weight, mut scale, mut bias] = sizes.map(|size| vec![0; size]);
            let to = GroupParts { weight: &mut weight, scale: &mut scale, bias: &mut bias };
            let done = repack.run(&from, scales, to).expect("room for it");
            assert!(matches!(done, Repacked::NotExact(fault) if fault.value == 120.0), "{done:?}");
            continue;
        }
        let parts = repacked(repack, rows, &from, scales);
        check_groups(repack, [rows, columns], parts, &expected);
        count += 1;
    }
    assert_eq!(count, 11);
}

#[test]
fn golden_groups_as_blocks() {
    let store = data();
    let names: Vec<String> =
        store.stored_tensors().map(|tensor| tensor.name().to_string()).collect();
    let mut count = 0;
    for name in names.iter().filter_map(|name| name.strip_suffix(".weight")) {
        // affine_b4_g64_bf16, mxfp4_bf16, nvfp4_bf16_gs
        let mut words = name.split('_');
        let mode = words.next().expect("a mode").to_uppercase();
        let mut number = || words.next().expect("a number")[1..].to_owned();
        let (dtype, group_size) = match mode.as_str() {
            "AFFINE" => (format!("MLX_AFFINE{}", number()), number().parse().expect("a size")),
            "NVFP4" => ("MLX_NVFP4".to_owned(), 16),
            _ => (format!("MLX_{mode}"), 32),
        };
        let dtype = DType::from_name(&dtype).expect("a dtype");
        // Biases of groups that MLX chose are no multiples of their scales.
        let centred = [DType::Q4_0, DType::Q5_0, DType::Q8_0];
        let blocks = |repack: &&Repack| {
            let block = repack.to.descriptor().packing == Packing::Block;
            repack.from == dtype && block && !centred.contains(&repack.to)
        };
        let Some(repack) = REPACKS.iter().find(blocks) else { continue };
        let part = |part: &str| bytes(&store, &format!("{name}.{part}"));
        let (weight, scale, bias) =
            (part("weight").expect("codes"), part("scales").expect("scales"), part("biases"));
        let stored = store.stored_tensor(&format!("{name}.scales")).expect("scales");
        let dtypes = stored.dtype().expect("a dtype");
        let expected = floats(&part("expected").expect("the values"));
        let values = store.stored_tensor(&format!("{name}.expected")).expect("the values");
        let shape = values.shape();
        let columns = *shape.last().expect("a dimension") as usize;
        let global = part("global_scale").map_or(Global::None, |amax| {
            Global::of_amax(f32::from_le_bytes(*amax.first_chunk().expect("a number")))
        });
        let from = PackedRows {
            weight: &weight,
            scale: &scale,
            bias: bias.as_deref().unwrap_or_default(),
            dtypes: (dtypes, dtypes),
            columns,
            group_size,
            global,
        };
        let rows = expected.len() / columns;
        let fits = repack.sizes(rows, &from, DType::U8).is_ok();
        // Scales of `f32` are no halves, and a factor that is no power of two rounds elsewhere.
        if dtypes == DType::F32 || global != Global::None || !fits {
            continue;
        }
        let [raw, _, _] = repacked(repack, rows, &from, DType::U8);
        let file = Gguf::new().tensor("t", repack.to, &[rows as u64, columns as u64], raw).build();
        let opened = open_as(file, Strictness::Strict).expect("a well-formed file");
        check(repack, &opened.stored_tensor("t").expect("the tensor"), &expected);
        count += 1;
    }
    assert_eq!(count, 22);
}
