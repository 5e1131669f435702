//! Quantizing to MLX's dtypes on one thread, from values in memory, in 1e9 values per second.
//!
//! `cargo bench --bench quantize_mlx -- affine4` runs the cases whose name contains `affine4`.

use criterion::{Criterion, Throughput};
use half::{bf16, f16};
use weighbridge::DType;
use weighbridge::quant::{Element, GroupParts, Grouping};

/// 64 MiB of `f32`, and 256 KiB.
const LENGTHS: [usize; 2] = [16 << 20, 64 << 10];

#[rustfmt::skip]
const ROWS: &[(&str, DType, usize)] = &[
    ("affine4_g64", DType::MLX_AFFINE4, 64), ("affine8_g64", DType::MLX_AFFINE8, 64),
    ("affine4_g32", DType::MLX_AFFINE4, 32), ("affine4_g128", DType::MLX_AFFINE4, 128),
    ("affine1_g64", DType::MLX_AFFINE1, 64), ("affine2_g64", DType::MLX_AFFINE2, 64),
    ("affine3_g64", DType::MLX_AFFINE3, 64), ("affine5_g64", DType::MLX_AFFINE5, 64),
    ("affine6_g64", DType::MLX_AFFINE6, 64), ("mxfp4", DType::MLX_MXFP4, 32),
    ("mxfp8", DType::MLX_MXFP8, 32), ("nvfp4", DType::MLX_NVFP4, 16),
];

/// Sums of uniform numbers, which are similar to weights.
fn values(len: usize) -> Vec<f32> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
            .to_le_bytes()
            .as_chunks::<2>()
            .0
            .iter()
            .map(|b| f32::from(i16::from_le_bytes(*b)))
            .sum::<f32>()
            * 1e-6
    };
    (0..len).map(|_| next()).collect()
}

fn rows<T: Element>(c: &mut Criterion, source: &str, round: fn(f32) -> T) {
    for len in LENGTHS {
        let values: Vec<T> = values(len).into_iter().map(round).collect();
        let mut group = c.benchmark_group(format!("{source}/{len}"));
        group.throughput(Throughput::Elements(len as u64)).sample_size(20);
        for &(name, dtype, size) in ROWS {
            let quantizer = dtype.group_quantizer().expect("a dtype of MLX");
            let grouping = Grouping { size, amax: None };
            let sizes = quantizer.sizes::<T>(len, grouping).expect("whole groups");
            let [mut weight, mut scale, mut bias] = sizes.map(|size| vec![0; size]);
            group.bench_function(name, |bencher| {
                bencher.iter(|| {
                    let out =
                        GroupParts { weight: &mut weight, scale: &mut scale, bias: &mut bias };
                    quantizer.quantize(&values, grouping, out).expect("quantized");
                });
            });
        }
    }
}

fn main() {
    let mut c = Criterion::default().configure_from_args();
    rows(&mut c, "f32", std::convert::identity);
    rows(&mut c, "bf16", bf16::from_f32);
    rows(&mut c, "f16", f16::from_f32);
    c.final_summary();
}
