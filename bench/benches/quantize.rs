//! Quantizing from `f32` on one thread, with and without importance, compared with candle, and with
//! ggml if `WEIGHBRIDGE_GGML` is the path of a `libggml-base.so`. The bytes that ggml writes must be
//! the same. The cases of a dtype take turns.
//!
//! `cargo bench --bench quantize -- Q4_K` runs the cases whose name contains `Q4_K`.

use std::hint::black_box;
use std::time::Instant;

use candle_core::quantized::k_quants::{self, GgmlType};
use libloading::{Library, Symbol};
use weighbridge::DType;
use weighbridge::dtype::DTYPES;
use weighbridge::quant::Importance;

/// 4 MiB of `f32`.
const ELEMENTS: usize = 1 << 20;

const COLUMNS: usize = 4096;

const ROUNDS: usize = 7;

/// Numbers with about the size and the distribution of weights: sums of uniform numbers.
fn weights(len: usize) -> Vec<f32> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..len).map(|_| 0.02 * (uniform() + uniform() + uniform() + uniform())).collect()
}

type Case<'a> = (&'static str, Box<dyn FnMut() + 'a>);

/// candle's quantizer for the same dtype, into existing blocks.
fn candle<'a>(dtype: DType, values: &'a [f32]) -> Option<Case<'a>> {
    fn run<'a, B: GgmlType + 'a>(values: &'a [f32]) -> Option<Case<'a>> {
        let mut blocks: Vec<B> = (0..values.len() / B::BLCK_SIZE).map(|_| B::zeros()).collect();
        Some(("candle", Box::new(move || B::from_float(black_box(values), &mut blocks))))
    }
    match dtype {
        DType::Q4_0 => run::<k_quants::BlockQ4_0>(values),
        DType::Q4_1 => run::<k_quants::BlockQ4_1>(values),
        DType::Q5_0 => run::<k_quants::BlockQ5_0>(values),
        DType::Q5_1 => run::<k_quants::BlockQ5_1>(values),
        DType::Q8_0 => run::<k_quants::BlockQ8_0>(values),
        DType::Q2_K => run::<k_quants::BlockQ2K>(values),
        DType::Q3_K => run::<k_quants::BlockQ3K>(values),
        DType::Q4_K => run::<k_quants::BlockQ4K>(values),
        DType::Q5_K => run::<k_quants::BlockQ5K>(values),
        DType::Q6_K => run::<k_quants::BlockQ6K>(values),
        _ => None,
    }
}

fn ours<'a>(
    name: &'static str,
    dtype: DType,
    values: &'a [f32],
    importance: Option<&'a [f32]>,
) -> Case<'a> {
    let row = dtype.row_bytes(COLUMNS as u64).expect("whole blocks") as usize;
    let mut out = vec![0; values.len() / COLUMNS * row];
    let run = move || {
        dtype.quantize_rows(black_box(values), COLUMNS, importance, &mut out).expect("bytes");
    };
    (name, Box::new(run))
}

/// `ggml_quantize_chunk` of ggml.h: the type, values, blocks, the first element, rows, columns and
/// importance; returns the number of bytes written.
type QuantizeChunk =
    unsafe extern "C" fn(i32, *const f32, *mut u8, i64, i64, i64, *const f32) -> usize;

/// ggml's library, if its path was given.
fn ggml() -> Option<Library> {
    /// `ggml_init_params` of ggml.h.
    #[repr(C)]
    struct Params {
        size: usize,
        buffer: *mut u8,
        no_alloc: bool,
    }
    let path = std::env::var_os("WEIGHBRIDGE_GGML")?;
    // SAFETY: this is the requested library, and the function is declared as in its header. The
    // first context fills ggml's tables of `f16` values.
    unsafe {
        let library = Library::new(path).expect("a library");
        let init: Symbol<'_, unsafe extern "C" fn(Params) -> *mut u8> =
            library.get(b"ggml_init").expect("ggml_init");
        init(Params { size: 1 << 20, buffer: std::ptr::null_mut(), no_alloc: false });
        Some(library)
    }
}

/// ggml's quantizer for the same dtype, after checking that its bytes are equal.
fn theirs<'a>(
    library: &'a Library,
    name: &'static str,
    dtype: DType,
    values: &'a [f32],
    importance: Option<&'a [f32]>,
) -> Option<Case<'a>> {
    let kind = i32::try_from(dtype.descriptor().ggml?).ok()?;
    // SAFETY: declared as in its header.
    let quantize: Symbol<'a, QuantizeChunk> =
        unsafe { library.get(b"ggml_quantize_chunk") }.expect("ggml_quantize_chunk");
    let row = dtype.row_bytes(COLUMNS as u64).expect("whole blocks") as usize;
    let weights = importance.map_or(std::ptr::null(), <[f32]>::as_ptr);
    let rows = (values.len() / COLUMNS) as i64;
    let run = move |out: &mut [u8]| {
        let (from, to) = (black_box(values).as_ptr(), out.as_mut_ptr());
        // SAFETY: `values` has this number of rows, `out` has room for their blocks, and `weights`
        // has one entry for each column, or is null.
        unsafe { quantize(kind, from, to, 0, rows, COLUMNS as i64, weights) };
    };
    let (mut out, mut own) =
        (vec![0; values.len() / COLUMNS * row], vec![0; values.len() / COLUMNS * row]);
    run(&mut out);
    dtype.quantize_rows(values, COLUMNS, importance, &mut own).expect("bytes");
    assert!(out == own, "{dtype}: other bytes than ggml's");
    Some((name, Box::new(move || run(&mut out))))
}

/// The median seconds of interleaved cases; the first round warms up. A short case runs twice, and
/// the second run counts, because other cases have filled the caches before the first.
fn medians(cases: &mut [Case<'_>]) -> Vec<f64> {
    let mut samples = vec![Vec::new(); cases.len()];
    for round in 0..=ROUNDS {
        for ((_, case), samples) in cases.iter_mut().zip(&mut samples) {
            let mut start = Instant::now();
            case();
            if start.elapsed().as_millis() < 10 {
                start = Instant::now();
                case();
            }
            if round > 0 {
                samples.push(start.elapsed().as_secs_f64());
            }
        }
    }
    let middle = |mut samples: Vec<f64>| {
        samples.sort_by(f64::total_cmp);
        samples[samples.len() / 2]
    };
    samples.into_iter().map(middle).collect()
}

fn main() {
    // `cargo bench` adds a flag of its own.
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let wanted = |name: &str| filter.as_ref().is_none_or(|filter| name.contains(filter.as_str()));
    println!("one thread, {ELEMENTS} elements; G/s: 1e9 elements a second");
    let (all, importance) = (weights(ELEMENTS), weights(COLUMNS));
    let importance: Vec<f32> = importance.iter().map(|weight| weight * weight).collect();
    let library = ggml();
    for row in DTYPES.iter().filter(|row| wanted(row.name)) {
        let Some(quantizer) = row.quantizer else { continue };
        // Dtypes with codebooks take long.
        let some = matches!(row.name.as_bytes(), [b'I', b'Q', b'1'..=b'3', ..]);
        let values = if some { &all[..ELEMENTS / 16] } else { &all };
        let mut cases = Vec::new();
        if quantizer.importance() != Importance::Required {
            cases.push(ours("plain", row.dtype, values, None));
        }
        if quantizer.importance() != Importance::Ignored {
            cases.push(ours("importance", row.dtype, values, Some(&importance)));
        }
        cases.extend(candle(row.dtype, values));
        if let Some(library) = &library {
            // Some dtypes have a ggml type but no quantizer there.
            let quantizes = !matches!(row.name, "Q8_1" | "Q8_K");
            if quantizes && quantizer.importance() != Importance::Required {
                cases.extend(theirs(library, "ggml", row.dtype, values, None));
            }
            if quantizes && quantizer.importance() != Importance::Ignored {
                let case = "ggml, importance";
                cases.extend(theirs(library, case, row.dtype, values, Some(&importance)));
            }
        }
        let seconds = medians(&mut cases);
        print!("{:<8}", row.name);
        for ((name, _), seconds) in cases.iter().zip(seconds) {
            print!("  {name} {:>7.4}", values.len() as f64 / seconds / 1e9);
        }
        println!();
    }
}
