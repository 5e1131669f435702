//! Quantizer tests: every instruction set gives the same results as the portable code, groups do
//! not depend on their neighbours, and values come back as close as their codes allow.

use proptest::prelude::*;

use super::super::kernel::Isa;
use super::super::simd::{Portable, Simd};
use super::super::{Decoder, GroupParts, Grouping, Rounding, Stores};
use super::*;
use crate::DType;

/// All dtypes, with their group sizes.
const ALL: &[(DType, &[usize])] = &[
    (DType::MLX_AFFINE1, &[32, 64, 128]),
    (DType::MLX_AFFINE2, &[32, 64, 128]),
    (DType::MLX_AFFINE3, &[32, 64, 128]),
    (DType::MLX_AFFINE4, &[32, 64, 128]),
    (DType::MLX_AFFINE5, &[32, 64, 128]),
    (DType::MLX_AFFINE6, &[32, 64, 128]),
    (DType::MLX_AFFINE8, &[32, 64, 128]),
    (DType::MLX_MXFP4, &[32]),
    (DType::MLX_MXFP8, &[32]),
    (DType::MLX_NVFP4, &[16]),
];

fn all(amax: Option<f32>) -> impl Iterator<Item = (DType, Grouping)> {
    ALL.iter().flat_map(move |&(dtype, sizes)| {
        let amax = amax.filter(|_| dtype == DType::MLX_NVFP4);
        sizes.iter().map(move |&size| (dtype, Grouping { size, amax }))
    })
}

/// The parts of some values, with all NaN equal, since a processor may choose the sign of NaN.
fn quantize_on<T: Element>(
    isa: Isa,
    dtype: DType,
    values: &[T],
    grouping: Grouping,
) -> [Vec<u8>; 3] {
    let quantizer = dtype.group_quantizer().unwrap();
    let sizes = quantizer.sizes::<T>(values.len(), grouping).unwrap();
    let [mut weight, mut scale, mut bias] = sizes.map(|size| vec![0xa5; size]);
    let out = GroupParts { weight: &mut weight, scale: &mut scale, bias: &mut bias };
    T::encoders(&quantizer.kernels).run_on(isa, (values, grouping, out));
    if !bias.is_empty() {
        for bytes in [&mut scale, &mut bias] {
            for number in bytes.chunks_mut(size_of::<T>()) {
                let nan = match *number {
                    [a, b, c, d] => f32::from_le_bytes([a, b, c, d]).is_nan(),
                    [a, b] if T::round(0.1) == T::round(0.099_975_586) => {
                        f16::from_le_bytes([a, b]).is_nan()
                    }
                    [a, b] => bf16::from_le_bytes([a, b]).is_nan(),
                    _ => false,
                };
                if nan {
                    number.fill(0xff);
                }
            }
        }
    }
    [weight, scale, bias]
}

fn portable() -> Isa {
    Isa::available().next().unwrap()
}

/// Compares all instruction sets, and each group by itself.
fn agree<T: Element>(dtype: DType, values: &[f32], grouping: Grouping) {
    let values: Vec<T> = values.iter().map(|value| T::round(*value)).collect();
    let whole = values.len() / grouping.size * grouping.size;
    let values = &values[..whole];
    let expected = quantize_on(portable(), dtype, values, grouping);
    for isa in Isa::available() {
        let found = quantize_on(isa, dtype, values, grouping);
        assert_eq!(found, expected, "{dtype}, {grouping:?}, {isa:?}");
    }
    let mut joined = [const { Vec::new() }; 3];
    for group in values.chunks(grouping.size) {
        let parts = quantize_on(portable(), dtype, group, grouping);
        joined.iter_mut().zip(parts).for_each(|(joined, part)| joined.extend(part));
    }
    assert_eq!(joined, expected, "{dtype}, {grouping:?}, group by group");
}

fn all_agree(values: &[f32], amax: Option<f32>) {
    for (dtype, grouping) in all(amax) {
        agree::<f32>(dtype, values, grouping);
        agree::<f16>(dtype, values, grouping);
        agree::<bf16>(dtype, values, grouping);
    }
}

/// Any bits, including NaN and infinity.
fn bits() -> impl Strategy<Value = f32> {
    any::<u32>().prop_map(f32::from_bits)
}

/// Multiples of a 64th times a power of two, which include ties.
fn steps() -> impl Strategy<Value = f32> {
    (-512i16..=512, -12i32..6).prop_map(|(step, power)| f32::from(step) / 64.0 * 2f32.powi(power))
}

/// The largest magnitude of a whole tensor, or none.
fn amax() -> impl Strategy<Value = Option<f32>> {
    prop_oneof![
        Just(None),
        Just(Some(0.0)),
        Just(Some(f32::MAX)),
        Just(Some(f32::from_bits(1))),
        (0.001f32..1000.0).prop_map(Some),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn kernels_agree(
        values in proptest::collection::vec(bits(), 0..700),
        amax in amax(),
    ) {
        all_agree(&values, amax);
    }

    #[test]
    fn kernels_agree_on_ties(
        values in proptest::collection::vec(steps(), 0..700),
        amax in amax(),
    ) {
        all_agree(&values, amax);
    }

    #[test]
    fn kernels_agree_where_groups_differ(
        values in proptest::collection::vec(-1f32..1.0, 0..2300),
        powers in proptest::collection::vec(-140i32..127, 1..9),
        odd in bits(),
        place in 0usize..2300,
        amax in amax(),
    ) {
        let mut values = values;
        for (run, values) in values.chunks_mut(16).enumerate() {
            // In two steps, because the power alone may be below the smallest normal number.
            let power = powers[run % powers.len()];
            values.iter_mut().for_each(|value| {
                *value *= 2f32.powi(power / 2) * 2f32.powi(power - power / 2);
            });
        }
        if let Some(value) = values.get_mut(place) {
            *value = odd;
        }
        all_agree(&values, amax);
    }

    /// The error of a value is at most a step of its scale, and mostly half of one.
    #[test]
    fn values_come_back(
        values in proptest::collection::vec(-1f32..1.0, 128..1024),
        power in -20i32..20,
        above in -3f32..3.0,
    ) {
        let values: Vec<f32> =
            values.iter().map(|value| (value + above) * 2f32.powi(power)).collect();
        let amax = values.iter().fold(0.0, |amax: f32, value| amax.max(value.abs()));
        for (dtype, grouping) in all(Some(amax)) {
            come_back(dtype, &values, grouping);
        }
    }
}

/// Tiles that are full, that lack a group, or that have a single group.
#[test]
fn kernels_agree_on_any_number_of_groups() {
    let mut values = vec![0.0; 67 * 32];
    values.iter_mut().zip((0i16..1009).cycle().step_by(37)).for_each(|(value, number)| {
        *value = f32::from(number - 500);
    });
    for groups in [0, 1, 2, 3, 15, 16, 17, 31, 33, 63, 64, 65, 66, 67] {
        all_agree(&values[..groups * 16], None);
        all_agree(&values[..groups * 32], Some(504.0));
    }
}

fn come_back(dtype: DType, values: &[f32], grouping: Grouping) {
    let values = &values[..values.len() / grouping.size * grouping.size];
    let [weight, scale, bias] = quantize_on(portable(), dtype, values, grouping);
    let format = match dtype {
        DType::MLX_NVFP4 => Float::E4M3,
        DType::MLX_MXFP4 | DType::MLX_MXFP8 => Float::E8M0,
        _ => Float::F32,
    };
    let factor = grouping.amax.map_or(1.0, |amax| amax / 2688.0);
    let packed = Packed {
        weight: &weight,
        scale: &scale,
        bias: &bias,
        formats: (format, format),
        group_size: grouping.size,
        global: Global::Factor(factor),
    };
    let Decoder::Runs(runs) = &dtype.descriptor().codec.unwrap().0 else { panic!("{dtype}") };
    let mut back = vec![0.0f32; values.len()];
    runs.decode(&packed, &mut back, Rounding::F32, Stores::Cached);
    for (place, (value, back)) in values.iter().zip(&back).enumerate() {
        let at = place / grouping.size * format.bytes();
        let scale = format.number(&scale[at..]).abs() * factor;
        let bound = match dtype {
            // Between two codes, or beyond the last, where a step may be missing.
            DType::MLX_MXFP4 => scale,
            DType::MLX_MXFP8 => (value.abs() / 16.0).max(scale / 1024.0),
            // The scale itself is rounded, by a 16th, or more if it is subnormal.
            DType::MLX_NVFP4 => scale * 1.5,
            // The far end of a range may lie beyond the last code; biases round to `f32`.
            _ => scale + value.abs() * 1e-6,
        };
        let off = (value - back).abs();
        assert!(
            off <= bound * 1.001,
            "{dtype}, {grouping:?}: {value} came back as {back}, {scale}"
        );
    }
}

/// The nearest of all finite codes; of two, the one that `keep` selects.
fn nearest(value: f32, table: &[f32], keep: fn(usize) -> bool) -> usize {
    let off = |code: usize| (f64::from(value) - f64::from(table[code])).abs();
    (0..table.len()).filter(|code| !table[*code].is_nan()).fold(0, |best, code| {
        let tie = off(code) == off(best) && !keep(best) && keep(code);
        if off(code) < off(best) || tie { code } else { best }
    })
}

/// Numbers at and next to the midpoints between codes, and the codes themselves.
fn doubtful(table: &[f32]) -> Vec<f32> {
    let codes = table.iter().filter(|value| value.is_finite());
    let middles = table.windows(2).map(|two| (two[0] + two[1]) / 2.0);
    let places: Vec<f32> =
        codes.copied().chain(middles.filter(|middle| middle.is_finite())).collect();
    places.iter().flat_map(|place| [place.next_down(), *place, place.next_up()]).collect()
}

#[test]
fn small_floats_are_the_nearest() {
    let positive = &E4M3[..0x7f];
    for value in doubtful(positive).into_iter().filter(|value| *value >= 0.0) {
        let code = nearest(value, positive, |code| code % 2 == 0);
        assert_eq!(usize::from(float::to_e4m3(value)), code, "{value}");
        assert_eq!(usize::from(float::to_e4m3(-value)), code | 0x80, "-{value}");
    }
    for value in [449.0, 464.0, 1e9, f32::INFINITY, f32::NAN] {
        assert_eq!((float::to_e4m3(value), float::to_e4m3(-value)), (0x7e, 0xfe), "{value}");
    }
    let positive = &E2M1[..8];
    for value in doubtful(positive).into_iter().filter(|value| *value >= 0.0) {
        // Of two, the first is the smaller.
        let code = nearest(value, positive, |_| true);
        assert_eq!(usize::from(float::to_e2m1(value)), code, "{value}");
        let negative = if code == 0 { 0 } else { code | 8 };
        assert_eq!(usize::from(float::to_e2m1(-value)), negative, "-{value}");
    }
    let limit = 536_870_912.0;
    assert_eq!([7.0, 1e6f32, limit].map(float::to_e2m1), [7, 7, 0]);
    assert_eq!([f32::INFINITY, f32::NAN, -f32::NAN, -0.0].map(float::to_e2m1), [0; 4]);
}

/// The meaning of operations, by examples: `kernels_agree` compares the other instruction sets.
#[test]
fn whole_bytes_and_streams() {
    let mut values = [0.0; 16];
    let some = [-1.0, 0.5, 1.5, 2.5, 254.5, 255.5, 300.0, 2.1e9, 2.2e9, f32::NAN, f32::INFINITY];
    values[..some.len()].copy_from_slice(&some);
    let bytes = Portable.to_unsigned([values, [7.4; 16]]);
    assert_eq!(bytes[..some.len()], [0, 0, 2, 2, 254, 255, 255, 255, 0, 0, 0]);
    assert_eq!(bytes[16..], [7; 16]);
    // The fields of MLX's streams: elements take bits from the lowest on.
    let codes = std::array::from_fn(|i| [1, 2, 3, 4, 5, 6, 7, 0][i % 8]);
    let mut out = [0; 32];
    Portable.stream::<3>(codes, &mut out);
    let stream: u32 = (0..8).map(|i| u32::from(codes[i]) << (3 * i)).sum();
    assert_eq!(out[..3], stream.to_le_bytes()[..3]);
    assert_eq!(out[9..12], out[..3]);
}
