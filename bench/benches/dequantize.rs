//! Decoding on one thread into existing memory, compared with candle, with `half`, and with the rate
//! at which this machine reads and writes the same numbers of bytes (the limit). The cases of a
//! dtype take turns.
//!
//! `cargo bench --bench dequantize -- Q4_K` runs the cases whose name contains `Q4_K`.

use std::hint::black_box;
use std::time::Instant;

use candle_core::quantized::{GgmlDType, QStorage, QTensor, k_quants};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use weighbridge::bytes::AlignedBuffer;
use weighbridge::model::DecodeOptions;
use weighbridge::quant::Element;
use weighbridge::{DType, Model, OpenOptions, Tensor, ops};
use weighbridge_bench::limits;

/// 256 MiB of `f32`.
const LARGE: usize = 64 << 20;

/// 256 KiB of `f32`.
const SMALL: usize = 64 << 10;

const COLUMNS: usize = 4096;

/// A dtype, the offsets of `f16` scales in its block, and the targeted share of the limit.
struct Row(DType, &'static [usize], f64);

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row(DType::F16, &[], 0.85), Row(DType::BF16, &[], 0.85), Row(DType::F8_E4M3, &[], 0.0),
    Row(DType::Q4_0, &[0], 0.85), Row(DType::Q4_1, &[0, 2], 0.85), Row(DType::Q5_0, &[0], 0.85),
    Row(DType::Q5_1, &[0, 2], 0.85), Row(DType::Q8_0, &[0], 0.85),
    Row(DType::Q2_K, &[80, 82], 0.75), Row(DType::Q3_K, &[108], 0.75), Row(DType::Q4_K, &[0, 2], 0.85),
    Row(DType::Q5_K, &[0, 2], 0.85), Row(DType::Q6_K, &[208], 0.85),
    Row(DType::IQ4_NL, &[0], 0.85), Row(DType::IQ4_XS, &[0], 0.85),
    Row(DType::TQ1_0, &[52], 0.85), Row(DType::TQ2_0, &[64], 0.85),
    Row(DType::MXFP4, &[], 0.85), Row(DType::NVFP4, &[], 0.85),
    Row(DType::Q1_0, &[0], 0.75), Row(DType::Q2_0, &[0], 0.85),
    Row(DType::IQ1_S, &[0], 0.33), Row(DType::IQ1_M, &[], 0.33), Row(DType::IQ2_XXS, &[0], 0.33),
    Row(DType::IQ2_XS, &[0], 0.33), Row(DType::IQ2_S, &[0], 0.33), Row(DType::IQ3_XXS, &[0], 0.33),
    Row(DType::IQ3_S, &[0], 0.33),
];

/// An MLX mode, its bits, its group size, and the targeted share of the limit.
struct Mode(&'static str, usize, usize, f64);

#[rustfmt::skip]
const MODES: &[Mode] = &[
    Mode("affine", 4, 64, 0.85), Mode("affine", 8, 64, 0.85), Mode("affine", 1, 64, 0.75),
    Mode("affine", 2, 64, 0.75), Mode("affine", 3, 64, 0.5), Mode("affine", 5, 64, 0.5),
    Mode("affine", 6, 64, 0.5), Mode("mxfp4", 4, 32, 0.85), Mode("mxfp8", 8, 32, 0.85),
    Mode("nvfp4", 4, 16, 0.85),
];

/// Pseudo-random bytes.
fn random(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// A scale of realistic size, as `f16`.
fn scale(number: usize) -> [u8; 2] {
    f16::from_f32(0.01 + (number % 61) as f32 * 0.001).to_le_bytes()
}

/// The bytes of some elements: random codes, realistic scales.
fn blocks(row: &Row, elements: usize) -> Vec<u8> {
    let dtype = row.0.descriptor();
    let size = dtype.block_bytes as usize;
    let count = elements / dtype.block_len as usize;
    // About a megabyte, repeated: the codes hardly matter, but generating them takes time.
    let some = count.min((1 << 20) / size);
    let mut bytes = random(some * size);
    for (number, block) in bytes.chunks_exact_mut(size).enumerate() {
        for at in row.1 {
            block[*at..*at + 2].copy_from_slice(&scale(number));
        }
        match row.0 {
            DType::MXFP4 => block[0] = 115 + (number % 20) as u8,
            DType::NVFP4 => block[..4].iter_mut().for_each(|byte| *byte = 0x20 | *byte & 0x1f),
            // The scale is in the top nibbles of four words.
            DType::IQ1_M => {
                block[48..].chunks_exact_mut(2).zip([1u8, 0, 4, 2]).for_each(|(word, top)| {
                    word[1] = word[1] & 15 | top << 4;
                })
            }
            DType::F16 => block.copy_from_slice(&scale(number)),
            // No NaN, as in real models.
            DType::F8_E4M3 => block[0] &= 0xf7,
            DType::BF16 => block[1] = 0x3c | block[1] & 0x83,
            _ => {}
        }
    }
    let mut all = Vec::with_capacity(count * size);
    while all.len() < count * size {
        all.extend_from_slice(&bytes[..bytes.len().min(count * size - all.len())]);
    }
    all
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// A file with one tensor, in memory: GGUF if the dtype has a type code, else safetensors.
fn file(dtype: DType, elements: usize, data: &[u8]) -> Model {
    let rows = elements / COLUMNS;
    let mut out = Vec::new();
    if let Some(code) = dtype.descriptor().ggml {
        out.extend_from_slice(b"GGUF");
        for number in [3u32, 1, 0, 0, 0] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        text(&mut out, "t");
        out.extend_from_slice(&2u32.to_le_bytes());
        for dim in [COLUMNS, rows] {
            out.extend_from_slice(&(dim as u64).to_le_bytes());
        }
        out.extend_from_slice(&code.to_le_bytes());
        out.extend_from_slice(&0u64.to_le_bytes());
        out.resize(out.len().next_multiple_of(32), 0);
    } else {
        let name = dtype.descriptor().safetensors.expect("a plain dtype");
        let header = format!(
            "{{\"t\":{{\"dtype\":\"{name}\",\"shape\":[{rows},{COLUMNS}],\"data_offsets\":[0,{}]}}}}",
            data.len()
        );
        let header = format!("{header:<width$}", width = header.len().next_multiple_of(64) - 8);
        text(&mut out, &header);
    }
    out.extend_from_slice(data);
    out.resize(out.len().next_multiple_of(32), 0);
    OpenOptions::new().open_memory("bench", out).expect("a well-formed file")
}

/// A directory in MLX's format.
fn mlx(mode: &Mode, elements: usize) -> (Model, tempfile::TempDir) {
    let &Mode(name, bits, group, _) = mode;
    let rows = elements / COLUMNS;
    let random = random(1 << 20);
    let repeat = |len: usize| random.iter().copied().cycle().take(len).collect::<Vec<u8>>();
    let mut weight = repeat(elements * bits / 8);
    if name == "mxfp8" {
        // No NaN, as in real models.
        weight.iter_mut().for_each(|byte| *byte &= 0xf7);
    }
    let groups = elements / group;
    let affine = name == "affine";
    let scales: Vec<u8> = match name {
        "affine" => (0..groups)
            .flat_map(|n| bf16::from_f32(0.01 + (n % 61) as f32 * 0.001).to_le_bytes())
            .collect(),
        "nvfp4" => (0..groups).map(|n| 0x20 + (n % 31) as u8).collect(),
        _ => (0..groups).map(|n| 110 + (n % 20) as u8).collect(),
    };
    let dtype = if affine { "BF16" } else { "U8" };
    let (a, b) = (weight.len(), weight.len() + scales.len());
    let mut header = format!(
        "{{\"m.weight\":{{\"dtype\":\"U32\",\"shape\":[{rows},{}],\"data_offsets\":[0,{a}]}},\"m.scales\":{{\"dtype\":\"{dtype}\",\"shape\":[{rows},{}],\"data_offsets\":[{a},{b}]}}",
        COLUMNS * bits / 32,
        COLUMNS / group
    );
    let mut data = weight;
    data.extend_from_slice(&scales);
    if affine {
        header += &format!(
            ",\"m.biases\":{{\"dtype\":\"BF16\",\"shape\":[{rows},{}],\"data_offsets\":[{b},{}]}}",
            COLUMNS / group,
            b + scales.len()
        );
        data.extend_from_slice(&scales);
    }
    header.push('}');
    let mut out = Vec::new();
    text(&mut out, &format!("{header:<width$}", width = header.len().next_multiple_of(64) - 8));
    out.extend_from_slice(&data);
    let folder = tempfile::tempdir().expect("a folder");
    let config = format!(
        "{{\"model_type\":\"llama\",\"quantization\":{{\"bits\":{bits},\"group_size\":{group},\"mode\":\"{name}\"}}}}"
    );
    std::fs::write(folder.path().join("config.json"), config).expect("written");
    std::fs::write(folder.path().join("model.safetensors"), out).expect("written");
    let store = Model::open(folder.path()).expect("a well-formed directory");
    (store, folder)
}

/// A case of a comparison: its name, and the code to time.
type Case<'a> = (String, Box<dyn FnMut() + 'a>);

/// The median seconds of each case; the cases are interleaved.
fn medians(cases: &mut [Case<'_>], rounds: usize, times: usize) -> Vec<f64> {
    let mut samples = vec![Vec::new(); cases.len()];
    for round in 0..=rounds {
        for ((_, case), samples) in cases.iter_mut().zip(&mut samples) {
            let start = Instant::now();
            for _ in 0..times {
                case();
            }
            // The first round warms up.
            if round > 0 {
                samples.push(start.elapsed().as_secs_f64() / times as f64);
            }
        }
    }
    samples
        .into_iter()
        .map(|mut samples| {
            samples.sort_by(f64::total_cmp);
            samples[samples.len() / 2]
        })
        .collect()
}

/// Prints one line: this library, the limit and their ratio, then the others.
fn report(
    name: &str,
    elements: usize,
    target: f64,
    cases: &mut [Case<'_>],
    rounds: usize,
    times: usize,
) {
    let seconds = medians(cases, rounds, times);
    let rate = |seconds: f64| elements as f64 / seconds / 1e9;
    let ratio = seconds[1] / seconds[0];
    let verdict = if target == 0.0 {
        String::new()
    } else if ratio >= target {
        format!("(>= {target})")
    } else {
        format!("(BELOW {target})")
    };
    print!(
        "{name:<24} {:>6.2} G/s  limit {:>6.2}  ratio {ratio:.3} {verdict:<14}",
        rate(seconds[0]),
        rate(seconds[1])
    );
    for ((peer, _), seconds) in cases.iter().zip(&seconds).skip(2) {
        print!("  {peer} {:.2}", rate(*seconds));
    }
    println!();
}

fn ours<'a, T: Element>(tensor: Tensor, out: &'a mut AlignedBuffer<T>) -> Case<'a> {
    let run = move || {
        black_box(tensor.dequantize_into(out, &DecodeOptions::new()).expect("values"));
    };
    ("weighbridge".into(), Box::new(run))
}

/// Decoding in pieces that stay in the processor's cache, as `hash --values` does before it hashes them, and the
/// statistics of the same values.
fn read<'a>(tensor: Tensor) -> [Case<'a>; 2] {
    let again = tensor.clone();
    let decode = move || {
        let mut sink = |values: &[f32]| -> weighbridge::Result<()> {
            black_box(values);
            Ok(())
        };
        tensor.for_each_values(&mut sink).expect("values");
    };
    let statistics = move || {
        let options = ops::StatisticsOptions::new().threads(1);
        black_box(ops::statistics(std::slice::from_ref(&again), &options).expect("a report"));
    };
    [("pieces".into(), Box::new(decode)), ("statistics".into(), Box::new(statistics))]
}

fn limit<'a>(input: &'a [u8], out: &'a mut AlignedBuffer<u8>, past: bool) -> Case<'a> {
    ("limit".into(), Box::new(move || limits::traffic(black_box(input), out, past)))
}

macro_rules! to_float {
    ($block:ty, $data:expr, $out:expr) => {{
        let data: &[u8] = $data;
        // SAFETY: candle's blocks have plain fields of at most two bytes, in the order of the file.
        let blocks: &[$block] = unsafe {
            std::slice::from_raw_parts(data.as_ptr().cast(), data.len() / size_of::<$block>())
        };
        assert!(data.as_ptr().align_offset(2) == 0);
        let out: &mut [f32] = $out;
        Some(Box::new(move || k_quants::GgmlType::to_float(black_box(blocks), out))
            as Box<dyn FnMut()>)
    }};
}

/// candle's own loop, into existing memory.
fn candle<'a>(dtype: DType, data: &'a [u8], out: &'a mut [f32]) -> Option<Box<dyn FnMut() + 'a>> {
    match dtype {
        DType::Q4_0 => to_float!(k_quants::BlockQ4_0, data, out),
        DType::Q4_1 => to_float!(k_quants::BlockQ4_1, data, out),
        DType::Q5_0 => to_float!(k_quants::BlockQ5_0, data, out),
        DType::Q5_1 => to_float!(k_quants::BlockQ5_1, data, out),
        DType::Q8_0 => to_float!(k_quants::BlockQ8_0, data, out),
        DType::Q2_K => to_float!(k_quants::BlockQ2K, data, out),
        DType::Q3_K => to_float!(k_quants::BlockQ3K, data, out),
        DType::Q4_K => to_float!(k_quants::BlockQ4K, data, out),
        DType::Q5_K => to_float!(k_quants::BlockQ5K, data, out),
        DType::Q6_K => to_float!(k_quants::BlockQ6K, data, out),
        _ => None,
    }
}

fn tensor(store: &Model) -> Tensor {
    store.stored_tensors().next().expect("one tensor")
}

fn input(tensor: &Tensor) -> Vec<std::borrow::Cow<'_, [u8]>> {
    tensor.segments().map(|segment| tensor.bytes(segment.part).expect("bytes")).collect()
}

fn row(row: &Row) {
    let name = row.0.name();
    let data = blocks(row, LARGE);
    let store = file(row.0, LARGE, &data);
    let stored = tensor(&store);
    let bytes = input(&stored);
    {
        let (mut out, mut other) = (
            AlignedBuffer::<f32>::zeroed(LARGE).unwrap(),
            AlignedBuffer::<u8>::zeroed(4 * LARGE).unwrap(),
        );
        let mut third = AlignedBuffer::<f32>::zeroed(LARGE).unwrap();
        let twos: Vec<f16> = match row.0 {
            DType::F16 | DType::BF16 => data.as_chunks::<2>().0[..LARGE / 2]
                .iter()
                .map(|b| f16::from_le_bytes(*b))
                .collect(),
            _ => Vec::new(),
        };
        let others: Vec<bf16> = twos.iter().map(|value| bf16::from_bits(value.to_bits())).collect();
        let mut cases = vec![ours(tensor(&store), &mut out), limit(&bytes[0], &mut other, true)];
        cases.extend(read(tensor(&store)));
        let (peer_out, half_out) = third.split_at_mut(LARGE / 2);
        if let Some(run) = candle(row.0, &data[..data.len() / 2], peer_out) {
            // Two halves, one after the other.
            let mut run = run;
            cases.push((
                "candle".into(),
                Box::new(move || {
                    run();
                    run();
                }),
            ));
        }
        match row.0 {
            DType::F16 => cases.push((
                "half".into(),
                Box::new(|| {
                    for _ in 0..2 {
                        twos.convert_to_f32_slice(half_out)
                    }
                }),
            )),
            DType::BF16 => cases.push((
                "half".into(),
                Box::new(|| {
                    for _ in 0..2 {
                        others.convert_to_f32_slice(half_out)
                    }
                }),
            )),
            _ => {}
        }
        report(&format!("{name} -> f32"), LARGE, row.2, &mut cases, 9, 1);
    }
    let half_target = match row.0 {
        DType::F16 | DType::BF16 | DType::Q4_K | DType::Q6_K | DType::Q8_0 => 0.85,
        _ => 0.0,
    };
    {
        let (mut out, mut other) = (
            AlignedBuffer::<f16>::zeroed(LARGE).unwrap(),
            AlignedBuffer::<u8>::zeroed(2 * LARGE).unwrap(),
        );
        let mut cases = vec![ours(tensor(&store), &mut out), limit(&bytes[0], &mut other, true)];
        report(&format!("{name} -> f16"), LARGE, half_target, &mut cases, 9, 1);
        drop(cases);
        let mut out = AlignedBuffer::<bf16>::zeroed(LARGE).unwrap();
        let mut cases = vec![ours(tensor(&store), &mut out), limit(&bytes[0], &mut other, true)];
        report(&format!("{name} -> bf16"), LARGE, half_target, &mut cases, 9, 1);
    }
    if matches!(row.0, DType::Q4_K | DType::Q6_K | DType::Q8_0 | DType::Q4_0) {
        small(name, &file(row.0, SMALL, &blocks(row, SMALL)));
        fresh(row, &store, &data);
    }
}

/// In the processor's cache: the limit is `bf16` to `f32`.
fn small(name: &str, store: &Model) {
    let halves = random(2 * SMALL);
    let (mut out, mut other) = (
        AlignedBuffer::<f32>::zeroed(SMALL).unwrap(),
        AlignedBuffer::<f32>::zeroed(SMALL).unwrap(),
    );
    let limit = || limits::bf16_to_f32(black_box(&halves), &mut other);
    let mut cases =
        vec![ours(tensor(store), &mut out), ("limit".into(), Box::new(limit) as Box<dyn FnMut()>)];
    report(&format!("{name} -> f32 in cache"), SMALL, 0.55, &mut cases, 15, 512);
    drop(cases);
    let mut out = AlignedBuffer::<f16>::zeroed(SMALL).unwrap();
    let limit = || limits::bf16_to_f32(black_box(&halves), &mut other);
    let mut cases =
        vec![ours(tensor(store), &mut out), ("limit".into(), Box::new(limit) as Box<dyn FnMut()>)];
    report(&format!("{name} -> f16 in cache"), SMALL, 0.0, &mut cases, 15, 512);
}

/// Into new memory, compared with candle's tensor.
fn fresh(row: &Row, store: &Model, data: &[u8]) {
    let dtype = match row.0 {
        DType::Q4_K => GgmlDType::Q4K,
        DType::Q6_K => GgmlDType::Q6K,
        DType::Q8_0 => GgmlDType::Q8_0,
        _ => GgmlDType::Q4_0,
    };
    let device = candle_core::Device::Cpu;
    let storage = QStorage::from_data(data.into(), &device, dtype).expect("blocks");
    let peer = QTensor::new(storage, (LARGE / COLUMNS, COLUMNS)).expect("a tensor");
    let mut cases: Vec<Case<'_>> = vec![
        (
            "weighbridge".into(),
            Box::new(|| drop(black_box(tensor(store).dequantize().expect("values")))),
        ),
        ("candle".into(), Box::new(|| drop(black_box(peer.dequantize(&device).expect("values"))))),
    ];
    let seconds = medians(&mut cases, 7, 1);
    let ratio = seconds[1] / seconds[0];
    let verdict = if ratio >= 2.5 { "(>= 2.5)" } else { "(BELOW 2.5)" };
    println!(
        "{:<24} {:>6.2} G/s  {ratio:.2} times candle's {:.2} {verdict}",
        format!("{} -> new f32", row.0.name()),
        LARGE as f64 / seconds[0] / 1e9,
        LARGE as f64 / seconds[1] / 1e9
    );
}

fn mode(mode: &Mode) {
    let &Mode(name, bits, group, target) = mode;
    let name = if name == "affine" { format!("affine{bits} g{group}") } else { name.to_owned() };
    let (store, _folder) = mlx(mode, LARGE);
    // The limit reads the same number of bytes from a single array.
    let stored = tensor(&store);
    let bytes = input(&stored).concat();
    {
        let (mut out, mut other) = (
            AlignedBuffer::<f32>::zeroed(LARGE).unwrap(),
            AlignedBuffer::<u8>::zeroed(4 * LARGE).unwrap(),
        );
        let mut cases = vec![ours(tensor(&store), &mut out), limit(&bytes, &mut other, true)];
        report(&format!("{name} -> f32"), LARGE, target, &mut cases, 9, 1);
    }
    if (bits, name.starts_with("affine")) == (4, true) {
        let (mut out, mut other) = (
            AlignedBuffer::<f16>::zeroed(LARGE).unwrap(),
            AlignedBuffer::<u8>::zeroed(2 * LARGE).unwrap(),
        );
        let mut cases = vec![ours(tensor(&store), &mut out), limit(&bytes, &mut other, true)];
        report(&format!("{name} -> f16"), LARGE, 0.85, &mut cases, 9, 1);
        drop(cases);
        let mut out = AlignedBuffer::<bf16>::zeroed(LARGE).unwrap();
        let mut cases = vec![ours(tensor(&store), &mut out), limit(&bytes, &mut other, true)];
        report(&format!("{name} -> bf16"), LARGE, 0.85, &mut cases, 9, 1);
        let (store, _folder) = mlx(mode, SMALL);
        small(&name, &store);
    }
}

fn main() {
    // `cargo bench` adds a flag of its own.
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let wanted = |name: &str| filter.as_ref().is_none_or(|filter| name.contains(filter.as_str()));
    println!("one thread, {} elements or in cache {}; G/s: 1e9 elements a second", LARGE, SMALL);
    ROWS.iter().filter(|row| wanted(row.0.name())).for_each(row);
    MODES.iter().filter(|mode| wanted(&format!("{}{}", mode.0, mode.1))).for_each(mode);
}
