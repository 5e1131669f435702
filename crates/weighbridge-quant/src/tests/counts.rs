//! Runs each kernel on some elements and on twice as many, and says so on standard error.
//! `cargo xtask counts` counts the instructions between two lines: the difference of two runs is the
//! cost of the elements alone.

use std::io::Write;

use super::*;
use crate::repack::{PackedRows, REPACKS};
use crate::repacker::RepackInput;

/// The elements of the first run, as rows of [`COLUMNS`].
const ELEMENTS: usize = 16 * COLUMNS;
const COLUMNS: usize = 512;

/// The functions that are used most: the part of a name before the instruction set.
const HOT: &[&str] = &[
    "decode BF16 f32",
    "decode MLX_AFFINE4 f32",
    "decode MXFP4 f32",
    "decode Q4_0 f32",
    "decode Q4_K bf16",
    "decode Q4_K f32",
    "decode Q6_K f32",
    "decode Q8_0 f32",
    "quantize Q4_K f32",
    "quantize Q8_0 f32",
];

/// Prints a line without a second call of the system, which would be counted too.
pub(crate) fn say(line: &str) {
    std::io::stderr().write_all(line.as_bytes()).expect("standard error");
}

/// Runs a kernel on [`ELEMENTS`] elements, and on twice as many: if it is one of [`HOT`], or
/// `WEIGHBRIDGE_COUNTS` is `all`.
fn measure(what: &str, isa: Isa, mut run: impl FnMut(usize)) {
    let all = std::env::var_os("WEIGHBRIDGE_COUNTS").is_some_and(|which| which == "all");
    if !all && !HOT.contains(&what) {
        return;
    }
    // What is computed once, such as tables.
    run(ELEMENTS);
    let [begin, end] = ["begin", "end"].map(|at| format!("{what} {isa:?} {at}\n"));
    for elements in [ELEMENTS, 2 * ELEMENTS] {
        say(&begin);
        run(elements);
        say(&end);
    }
}

/// Values as in weights: most of them small. Those of the second half equal those of the first.
fn weights() -> Vec<f32> {
    let unit = values(0, 4 * ELEMENTS, &[1, 2, 3, 5, 8]);
    let half: Vec<f32> =
        unit.as_chunks::<4>().0.iter().map(|of| of.iter().sum::<f32>() * 0.02).collect();
    [&*half, &*half].concat()
}

/// The bytes of values as a dtype, or bytes with harmless scales.
fn input(row: &DTypeDescriptor, values: &[f32]) -> Input {
    let group = row.packing == Packing::Group;
    let unit = match (group, row.name.contains("NVFP4"), row.name.contains("FP")) {
        (false, ..) if row.packing == Packing::Plain => 1,
        (false, ..) => row.block_len as usize,
        (true, true, _) => 16,
        (true, false, true) => 32,
        (true, false, false) => 64,
    };
    let mut input = Input::new(row, 2 * ELEMENTS / unit, &[0x35, 0x2c, 0x11, 0x27], 4);
    if group && row.name.contains("FP") {
        // A 32nd as E8M0, and 1 as E4M3.
        input.scale.fill(if input.group_size == 16 { 0x38 } else { 0x7a });
    }
    if let Some(quantizer) = row.quantizer {
        let importance = vec![1.0; COLUMNS];
        let importance = Some(&*importance);
        let bytes = 2 * ELEMENTS / row.block_len as usize * row.block_bytes as usize;
        input.weight.resize(bytes, 0);
        quantizer.run(&QuantizerInput { values, columns: COLUMNS, importance }, &mut input.weight);
    }
    input
}

fn decode<T: Bits>(row: &DTypeDescriptor, runs: &Runs, input: &Input, to: &str, isa: Isa) {
    let Some(kernels) = T::decoders(runs) else { return };
    let mut out = [T::round(0.0); 2 * ELEMENTS];
    measure(&format!("decode {} {to}", row.name), isa, |elements| {
        let packed = input.packed();
        kernels.run_on(isa, (&packed, &mut out[..elements], false));
    });
}

fn quantize(row: &DTypeDescriptor, quantizer: &Quantizer, values: &[f32], isa: Isa) {
    let importance = vec![1.0; COLUMNS];
    let importance = (quantizer.importance() == Importance::Required).then_some(&*importance);
    let bytes = |elements: usize| elements / row.block_len as usize * row.block_bytes as usize;
    let mut out = vec![0; bytes(2 * ELEMENTS)];
    measure(&format!("quantize {} f32", row.name), isa, |elements| {
        let rows = QuantizerInput { values: &values[..elements], columns: COLUMNS, importance };
        quantizer.run_on(isa, &rows, &mut out[..bytes(elements)]);
    });
}

fn quantize_groups<T: Element>(row: &DTypeDescriptor, values: &[f32], from: &str, isa: Isa) {
    let Some(quantizer) = row.group_quantizer else { return };
    let values: Vec<T> = values.iter().map(|value| T::round(*value)).collect();
    let size = [64, 32, 16]
        .into_iter()
        .find(|size| quantizer.sizes::<T>(ELEMENTS, Grouping { size: *size, amax: None }).is_ok());
    let grouping = Grouping { size: size.unwrap(), amax: None };
    let sizes = quantizer.sizes::<T>(2 * ELEMENTS, grouping).unwrap();
    let [mut weight, mut scale, mut bias] = sizes.map(|size| vec![0; size]);
    measure(&format!("quantize {} {from}", row.name), isa, |elements| {
        let part = |bytes: usize| bytes * elements / (2 * ELEMENTS);
        let out = GroupParts {
            weight: &mut weight[..part(sizes[0])],
            scale: &mut scale[..part(sizes[1])],
            bias: &mut bias[..part(sizes[2])],
        };
        T::encoders(&quantizer.kernels).run_on(isa, (&values[..elements], grouping, out));
    });
}

/// Blocks to groups with scales in `f32`.
fn repack(values: &[f32], isa: Isa) {
    for repack in REPACKS {
        let row = repack.from.descriptor();
        if row.quantizer.is_none() {
            continue;
        }
        let input = input(row, values);
        let from = PackedRows::blocks(&input.weight, COLUMNS);
        let scales = *repack.scales.last().unwrap_or(&crate::DType::F32);
        let sizes = repack.sizes(2 * ELEMENTS / COLUMNS, &from, scales).unwrap();
        let [mut weight, mut scale, mut bias] = sizes.map(|size| vec![0; size]);
        let format = if scales == crate::DType::F32 { Float::F32 } else { Float::E8M0 };
        measure(&format!("repack {} {}", repack.from, repack.to), isa, |elements| {
            let to = GroupParts { weight: &mut weight, scale: &mut scale, bias: &mut bias };
            let given = RepackInput {
                from: input.packed(),
                to,
                group_size: repack.group_size(1).unwrap_or(32),
                format,
                global: Global::None,
                elements,
            };
            assert_eq!(repack.repacker.run_on(isa, given), None);
        });
    }
}

#[test]
#[ignore = "for `cargo xtask counts`"]
fn counts() {
    let values = weights();
    for isa in Isa::available() {
        for (row, runs) in runs() {
            let input = input(row, &values);
            decode::<f32>(row, runs, &input, "f32", isa);
            decode::<f16>(row, runs, &input, "f16", isa);
            decode::<bf16>(row, runs, &input, "bf16", isa);
        }
        for row in DTYPES {
            if let Some(quantizer) = row.quantizer {
                quantize(row, quantizer, &values, isa);
            }
            quantize_groups::<f32>(row, &values, "f32", isa);
            quantize_groups::<bf16>(row, &values, "bf16", isa);
        }
        repack(&values, isa);
    }
}
