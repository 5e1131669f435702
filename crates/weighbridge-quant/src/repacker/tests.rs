//! Compares values before and after repacking, decoded by the library's own codecs: every scale,
//! every code.
#![allow(clippy::cast_possible_truncation, reason = "the numbers are the test's own")]

use super::*;
use crate::dtype::{DType, Packing};
use crate::kernel::Isa;
use crate::repack::{PackedRows, REPACKS, Repack, Repacked};
use crate::{Decoder, SchemeArrays, StoredArray};

/// All parts of some rows.
#[derive(Clone, Debug, PartialEq)]
struct Rows {
    dtype: DType,
    weight: Vec<u8>,
    scale: Vec<u8>,
    bias: Vec<u8>,
    dtypes: (DType, DType),
    columns: usize,
    group_size: usize,
    global: Global,
}

impl Rows {
    fn blocks(dtype: DType, weight: Vec<u8>, columns: usize) -> Self {
        let dtypes = (DType::U8, DType::U8);
        let [scale, bias] = [Vec::new(), Vec::new()];
        Self { dtype, weight, scale, bias, dtypes, columns, group_size: 1, global: Global::None }
    }

    fn packed(&self) -> PackedRows<'_> {
        PackedRows {
            weight: &self.weight,
            scale: &self.scale,
            bias: &self.bias,
            dtypes: self.dtypes,
            columns: self.columns,
            group_size: self.group_size,
            global: self.global,
        }
    }

    fn count(&self) -> usize {
        self.weight.len() / self.dtype.row_bytes(self.columns as u64).unwrap() as usize
    }

    fn values(&self) -> Vec<f32> {
        let row = self.dtype.descriptor();
        let mut values = vec![f32::INFINITY; self.count() * self.columns];
        let float = |dtype: DType| match (dtype, row.name.contains("NVFP4")) {
            (DType::F32, _) => Float::F32,
            (DType::F16, _) => Float::F16,
            (DType::BF16, _) => Float::BF16,
            (_, true) => Float::E4M3,
            (_, false) => Float::E8M0,
        };
        match &row.codec.unwrap().0 {
            Decoder::Runs(runs) => {
                let group = row.packing == Packing::Group;
                let packed = Packed {
                    weight: &self.weight,
                    scale: &self.scale,
                    bias: &self.bias,
                    formats: (float(self.dtypes.0), float(self.dtypes.1)),
                    group_size: self.group_size,
                    global: if group { self.global } else { Global::None },
                };
                runs.to_f32.run((&packed, &mut values, false));
                if let (false, Global::Factor(factor)) = (group, self.global) {
                    values.iter_mut().for_each(|value| *value *= factor);
                }
            }
            Decoder::Rows(decode) => {
                let rows = self.count();
                let shape = |columns: usize| [rows as u64, columns as u64];
                let shapes = [self.columns, self.columns / 8, self.columns / self.group_size];
                let [values_of, words, groups] = shapes.map(shape);
                let scale = float(self.dtypes.0);
                let array = |bytes: &'_ Vec<u8>, shape, width, format| StoredArray {
                    bytes: bytes.clone().into(),
                    shape,
                    width,
                    format,
                };
                let parts = SchemeArrays {
                    shape: &values_of,
                    columns: self.columns,
                    weight: array(&self.weight, &words, 4, None),
                    scale: Some(array(&self.scale, &groups, scale.bytes(), Some(scale))),
                    zero_point: None,
                    bitmask: None,
                    group_index: None,
                    absmax: None,
                    code_values: None,
                    nested_absmax: None,
                    nested_code_values: None,
                    global_scale: None,
                    input_factor: None,
                    blocks: crate::BlockScales::default(),
                };
                decode(&parts, 0..rows, &mut values).unwrap();
            }
        }
        values
    }

    /// Repacks through the public API.
    fn to(&self, to: DType, scales: DType) -> Result<Self, NotExact> {
        let repack = self.dtype.repack_to(to).unwrap();
        let sizes = repack.sizes(self.count(), &self.packed(), scales).unwrap();
        // A pattern that must be overwritten completely.
        let [mut weight, mut scale, mut bias] = sizes.map(|size| vec![0xa5; size]);
        let parts = GroupParts { weight: &mut weight, scale: &mut scale, bias: &mut bias };
        match repack.run(&self.packed(), scales, parts).unwrap() {
            Repacked::NotExact(fault) => Err(fault),
            Repacked::Exact => Ok(Self {
                dtype: to,
                weight,
                scale,
                bias,
                dtypes: (scales, scales),
                columns: self.columns,
                group_size: repack.group_size(self.group_size).unwrap(),
                global: repack.global(self.global),
            }),
        }
    }

    /// Asserts that the repacked rows have the same values.
    fn check(&self, to: &Self) {
        let repack = self.dtype.repack_to(to.dtype).unwrap();
        for (place, (old, new)) in self.values().into_iter().zip(to.values()).enumerate() {
            let zeros = !repack.keeps_zero_signs && old == 0.0 && new == 0.0;
            let same = old.to_bits() == new.to_bits() || zeros || old.is_nan() && new.is_nan();
            assert!(same, "{} to {}, {place}: {old} {new}, of {self:?}", self.dtype, to.dtype);
        }
    }
}

/// Pseudo-random bytes.
fn noise(seed: u32) -> impl Iterator<Item = u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[2]
    })
}

/// Random rows for a repacking; `choice` selects scales and group sizes.
fn random(repack: &Repack, rows: usize, units: usize, choice: usize) -> Rows {
    let mut source = noise(choice as u32 + 7);
    let mut cut = |len: usize| source.by_ref().take(len).collect::<Vec<u8>>();
    let (dtype, small) = (repack.from, repack.from.name().contains("FP4"));
    let group_size = match (dtype.name(), small) {
        (name, true) if name.contains("NV") => 16,
        (_, true) => 32,
        ("CT_INT4", _) => [32, 64, 128, 96, 256, 1024][choice % 6],
        _ => [32, 64, 128][choice % 3],
    };
    let blocks = dtype.descriptor().packing == Packing::Block;
    // Whole blocks or groups on both sides.
    let columns = units
        * [dtype.descriptor().block_len, repack.to.descriptor().block_len]
            .into_iter()
            .map(|len| len as usize)
            .chain([if blocks { 1 } else { group_size }, repack.group.unwrap_or(1)])
            .max()
            .unwrap();
    let float = [DType::F16, DType::BF16, DType::F32][choice / 3 % 3];
    let dtypes = if small { (DType::U8, DType::U8) } else { (float, float) };
    let width = |dtype: DType| dtype.descriptor().block_bytes as usize;
    let groups = if blocks { 0 } else { rows * columns / group_size };
    let biased = dtype.name().starts_with("MLX_AFFINE");
    let mut weight = cut(rows * dtype.row_bytes(columns as u64).unwrap() as usize);
    let mut scale = cut(groups * width(dtypes.0));
    if small && !choice.is_multiple_of(7) {
        // Scales that all formats represent.
        let each = if dtype.name() == "NVFP4" { 4 } else { 1 };
        let of_blocks = weight.chunks_mut(dtype.descriptor().block_bytes as usize);
        let of_blocks = of_blocks.filter(|_| blocks).flat_map(|block| &mut block[..each]);
        of_blocks.chain(&mut scale).for_each(|scale| *scale %= 0x7f);
    }
    let mut bias = cut(if biased { groups * width(dtypes.1) } else { 0 });
    let zero = match repack.to {
        DType::Q4_0 => 8.0,
        DType::Q5_0 => 16.0,
        DType::Q8_0 => 128.0,
        _ => 0.0,
    };
    if zero > 0.0 && !choice.is_multiple_of(7) {
        // Biases among the codes' values, and scales that represent the multiples.
        let format = match float {
            DType::F16 => Float::F16,
            DType::BF16 => Float::BF16,
            _ => Float::F32,
        };
        let pairs = scale.chunks_mut(width(float)).zip(bias.chunks_mut(width(float)));
        for (number, (scale, bias)) in pairs.enumerate() {
            let d = (number as f32 + 1.0) * if choice.is_multiple_of(2) { 0.25 } else { -0.125 };
            for (value, part) in [(d, scale), (-zero * d, bias)] {
                let bytes = format.bytes_of(value).unwrap();
                part.copy_from_slice(&bytes[..part.len()]);
            }
        }
    }
    Rows {
        dtype,
        weight,
        scale,
        bias,
        dtypes,
        columns,
        group_size: if blocks { 1 } else { group_size },
        global: match (repack.from.name().contains("NVFP4"), choice % 5) {
            (true, 1) => Global::Factor(0.25),
            (true, 2) => Global::Factor(0.37),
            (true, 3) if !blocks => Global::Divisor(1024.0),
            (true, 4) if !blocks => Global::Divisor(3.1),
            _ => Global::None,
        },
    }
}

fn scales(repack: &Repack) -> &'static [DType] {
    match repack.scales {
        [] => &[DType::U8],
        [DType::U8, ..] => &[DType::U8],
        _ => &[DType::F16, DType::BF16, DType::F32],
    }
}

#[test]
fn noise_is_the_same_or_said_not_to_be() {
    for repack in REPACKS {
        let (mut exact, mut not) = (0, 0);
        for choice in 0..600 {
            let from = random(repack, 1 + choice % 3, 1 + choice % 2, choice);
            for &scales in scales(repack) {
                match from.to(repack.to, scales) {
                    Ok(to) => (exact += 1, from.check(&to)).0,
                    Err(_) => not += 1,
                }
            }
        }
        assert!(exact > 50, "{} to {}: {exact} exact, {not} not", repack.from, repack.to);
    }
}

/// Every `f16` number as the scale of all codes.
#[test]
fn every_half() {
    // The dtype, the offsets of its `f16` fields, the rest of its blocks, and the scale from which
    // `f16` cannot represent scale or bias.
    let limits = [
        (DType::Q4_0, 0, 8188.0),
        (DType::Q5_0, 0, 4094.0),
        (DType::Q8_0, 0, 511.75),
        (DType::TQ2_0, 64, f32::MAX),
        (DType::Q1_0, 0, 32752.0),
        (DType::Q2_0, 0, f32::MAX),
    ];
    for (dtype, at, most) in limits {
        let repack = REPACKS.iter().find(|repack| repack.from == dtype).unwrap();
        let row = dtype.descriptor();
        let columns = (row.block_len as usize).max(256);
        let mut weight: Vec<u8> = (0..dtype.row_bytes(columns as u64).unwrap())
            .map(|i| (i * 17 + (i >> 4)) as u8)
            .collect();
        let mut signs = 0;
        for bits in 0..=u16::MAX {
            for (number, block) in weight.chunks_mut(row.block_bytes as usize).enumerate() {
                block[at..at + 2].copy_from_slice(&bits.to_le_bytes());
                if dtype == DType::Q8_0 {
                    let codes = block[2..].iter_mut().zip(32 * number..);
                    codes.for_each(|(byte, code)| *byte = code as u8);
                }
            }
            let d = half::f16::from_bits(bits).to_f32();
            let from = Rows::blocks(dtype, weight.clone(), columns);
            match from.to(repack.to, DType::F32) {
                Ok(to) => {
                    assert!(!d.is_infinite());
                    from.check(&to);
                    // The same blocks come back, if the scale is a number.
                    if matches!(dtype, DType::Q4_0 | DType::Q5_0 | DType::Q8_0) && !d.is_nan() {
                        assert_eq!(to.to(dtype, DType::U8).unwrap().weight, from.weight, "{d}");
                    }
                    let zeros = from.values().into_iter().zip(to.values());
                    signs += zeros.filter(|(a, b)| *a == 0.0 && a.to_bits() != b.to_bits()).count();
                }
                Err(fault) => assert!(d.is_infinite(), "{dtype}, {d}: {fault}"),
            }
            match from.to(repack.to, DType::F16) {
                Ok(to) => (assert!(d.is_nan() || d.abs() <= most, "{d}"), from.check(&to)).1,
                Err(fault) => assert!(d.abs() > most || d.is_infinite(), "{dtype}, {d}: {fault}"),
            }
        }
        // The table is right to say that zeros lose their signs.
        assert!(signs > 0 && !repack.keeps_zero_signs, "{dtype}");
    }
}

/// Every scale of small floats with all codes, with several global scales.
#[test]
fn every_small_scale() {
    let globals = [
        Global::None,
        Global::Factor(1.0),
        Global::Factor(0.125),
        Global::Factor(0.37),
        Global::Divisor(8.0),
        Global::Divisor(3.1),
    ];
    for repack in REPACKS.iter().filter(|repack| repack.from.name().contains("FP4")) {
        let (blocks, nv) =
            (repack.from.descriptor().packing == Packing::Block, repack.from.name().contains("NV"));
        let copied = repack.from.descriptor().packing == repack.to.descriptor().packing;
        for global in globals {
            if (blocks && matches!(global, Global::Divisor(_))) || (!nv && global != Global::None) {
                continue;
            }
            let mut exact = Vec::new();
            for scale in 0..=255u8 {
                // Each code two or four times.
                let codes = (0..32).map(|i| ((i * 2 % 16) | ((i * 2 + 1) % 16) << 4) as u8);
                let mut from = Rows::blocks(repack.from, codes.collect(), 64);
                match (blocks, nv) {
                    (true, true) => drop(from.weight.splice(..0, [scale; 4])),
                    (true, false) => {
                        from.weight = [&[scale][..], &from.weight[..16]].concat().repeat(2);
                    }
                    (false, true) => (from.group_size, from.scale) = (16, vec![scale; 4]),
                    (false, false) => (from.group_size, from.scale) = (32, vec![scale; 2]),
                }
                from.global = global;
                let to = from.to(repack.to, DType::U8);
                if let Ok(to) = &to {
                    from.check(to);
                    exact.push(scale);
                } else {
                    // All codes occur, so an inexact repacking differs at once.
                    assert_eq!(to.unwrap_err().element, 0);
                }
            }
            let all: Vec<u8> = match (nv, copied) {
                (false, false) => (0..=254).collect(),
                (_, true) => (0..=255).collect(),
                // ggml ignores the sign and has no NaN.
                (true, false) => (0..=0x7e).chain([0x80]).collect(),
            };
            let name = format!("{} to {}, {global:?}", repack.from, repack.to);
            match global {
                Global::Factor(0.37) if !copied => {
                    assert!(!exact.is_empty() && exact.len() < all.len(), "{name}: {exact:?}");
                }
                Global::Divisor(3.1) => {
                    assert!(!exact.is_empty() && exact.len() < all.len(), "{name}: {exact:?}");
                }
                _ => assert_eq!(exact, all, "{name}"),
            }
        }
    }
}

/// Repacking back and forth gives the same bytes.
#[test]
fn round_trips() {
    let pairs = [
        (DType::Q4_1, DType::MLX_AFFINE4, DType::F16),
        (DType::Q5_1, DType::MLX_AFFINE5, DType::F16),
        (DType::Q4_1, DType::MLX_AFFINE4, DType::F32),
        (DType::MXFP4, DType::MLX_MXFP4, DType::U8),
        (DType::MXFP4, DType::HF_MXFP4, DType::U8),
        (DType::NVFP4, DType::MLX_NVFP4, DType::U8),
        (DType::NVFP4, DType::HF_NVFP4, DType::F8_E4M3),
    ];
    for (one, other, scales) in pairs {
        let columns = 192;
        let row = one.descriptor();
        for seed in 0..50 {
            let len = 3 * one.row_bytes(columns).unwrap() as usize;
            let mut weight: Vec<u8> = noise(seed).take(len).collect();
            for block in weight.chunks_mut(row.block_bytes as usize) {
                match one {
                    // Neither infinity nor NaN.
                    DType::Q4_1 | DType::Q5_1 => {
                        (block[1], block[3]) = (block[1] & 0xbf, block[3] & 0xbf);
                    }
                    DType::MXFP4 => block[0] = block[0].min(254),
                    _ => block[..4].iter_mut().for_each(|scale| *scale %= 0x7f),
                }
            }
            let from = Rows::blocks(one, weight, columns as usize);
            let there = from.to(other, scales).unwrap();
            from.check(&there);
            let back = there.to(one, DType::U8).unwrap();
            there.check(&back);
            assert_eq!(back.weight, from.weight, "{one}");
        }
    }
}

#[test]
fn what_does_not_fit_is_named() {
    // A scale that only `bf16` represents, in the second group.
    let number = |value: f32| half::bf16::from_f32(value).to_le_bytes();
    let affine = Rows {
        scale: [number(0.5), number(1e-9)].concat(),
        bias: [number(-0.5), number(3.0)].concat(),
        dtypes: (DType::BF16, DType::BF16),
        group_size: 64,
        ..Rows::blocks(DType::MLX_AFFINE4, vec![0x31; 64], 128)
    };
    let fault = affine.to(DType::Q4_1, DType::U8).unwrap_err();
    assert_eq!(
        (fault.element, fault.fault),
        (64, "a scale that the target dtype cannot represent")
    );
    assert!(fault.to_string().contains("from element 64 on"), "{fault}");
    // A scale of 24 bits, whose products with 15 are rounded; and one of 20, whose products are
    // exact.
    let int4 = |scale: f32| Rows {
        scale: scale.to_le_bytes().repeat(2),
        dtypes: (DType::F32, DType::F32),
        group_size: 64,
        ..Rows::blocks(DType::CT_INT4, vec![0x9f; 64], 128)
    };
    let fault = int4(0.1).to(DType::MLX_AFFINE4, DType::F32).unwrap_err();
    assert_eq!((fault.element, fault.value), (0, 0.1));
    let wide = int4(1.0 + 0.5f32.powi(19));
    wide.check(&wide.to(DType::MLX_AFFINE4, DType::F32).unwrap());
    assert!(wide.to(DType::MLX_AFFINE4, DType::F16).is_err());
}

#[test]
fn misfits_are_refused() {
    let repack = DType::Q4_0.repack_to(DType::MLX_AFFINE4).unwrap();
    let block = [0; 18];
    let from = PackedRows::blocks(&block, 32);
    assert_eq!(repack.sizes(1, &from, DType::F16).unwrap(), [16, 2, 2]);
    assert!(repack.sizes(1, &from, DType::U8).is_err());
    assert!(repack.sizes(1, &PackedRows::blocks(&block, 31), DType::F16).is_err());
    let [mut weight, mut scale, mut bias] = [vec![0; 16], vec![0; 2], vec![0; 1]];
    let to = GroupParts { weight: &mut weight, scale: &mut scale, bias: &mut bias };
    assert!(repack.run(&from, DType::F16, to).is_err());
    let [mut weight, mut scale, mut bias] = [vec![0; 16], vec![0; 2], vec![0; 2]];
    let to = GroupParts { weight: &mut weight, scale: &mut scale, bias: &mut bias };
    assert!(repack.run(&PackedRows { scale: &[0], ..from }, DType::F16, to).is_err());
    // Rows of NVFP4 are multiples of 64; MLX does not support GPTQ's group sizes.
    let repack = DType::MLX_NVFP4.repack_to(DType::NVFP4).unwrap();
    let rows = PackedRows { group_size: 16, ..PackedRows::blocks(&block, 32) };
    assert!(repack.sizes(1, &rows, DType::U8).is_err());
    let repack = DType::CT_INT4.repack_to(DType::MLX_AFFINE4).unwrap();
    let rows = PackedRows { group_size: 48, ..PackedRows::blocks(&block, 96) };
    assert!(repack.sizes(1, &rows, DType::F16).is_err());
    assert!(DType::Q6_K.repack_to(DType::MLX_AFFINE6).is_none());
}

/// Every instruction set, and rows one at a time.
#[test]
fn kernels_and_pieces_agree() {
    for repack in REPACKS {
        for choice in 0..60 {
            let from = random(repack, 3, 2, choice);
            let scales = *scales(repack).last().unwrap();
            let packed = from.packed();
            let sizes = repack.sizes(3, &packed, scales).unwrap();
            let float = |dtype: DType| match dtype {
                DType::F32 => Float::F32,
                DType::F16 => Float::F16,
                DType::BF16 => Float::BF16,
                _ => Float::E8M0,
            };
            let mut all = Isa::available().map(|isa| {
                let [mut weight, mut scale, mut bias] = sizes.map(|size| vec![0xa5; size]);
                let given = RepackInput {
                    from: Packed {
                        weight: packed.weight,
                        scale: packed.scale,
                        bias: packed.bias,
                        formats: (float(packed.dtypes.0), float(packed.dtypes.1)),
                        group_size: packed.group_size,
                        global: packed.global,
                    },
                    to: GroupParts { weight: &mut weight, scale: &mut scale, bias: &mut bias },
                    group_size: repack.group_size(packed.group_size).unwrap(),
                    format: float(scales),
                    global: repack.global(packed.global),
                    elements: 3 * packed.columns,
                };
                let said = repack.repacker.run_on(isa, given).map(|fault| fault.to_string());
                // The compiler may choose the sign of NaN.
                if scales == DType::F32 {
                    let numbers = scale.as_chunks_mut::<4>().0.iter_mut();
                    for number in numbers.chain(bias.as_chunks_mut().0) {
                        if f32::from_le_bytes(*number).is_nan() {
                            *number = [0xff; 4];
                        }
                    }
                }
                (said, weight, scale, bias)
            });
            let expected = all.next().unwrap();
            for found in all {
                assert_eq!(found, expected, "{} to {}", repack.from, repack.to);
            }
            let Ok(whole) = from.to(repack.to, scales) else { continue };
            let third = |part: &[u8], row: usize| {
                let len = part.len() / 3;
                part[row * len..][..len].to_vec()
            };
            for row in 0..3 {
                let cut = |rows: &Rows| Rows {
                    weight: third(&rows.weight, row),
                    scale: third(&rows.scale, row),
                    bias: third(&rows.bias, row),
                    ..rows.clone()
                };
                assert_eq!(cut(&from).to(repack.to, scales).unwrap(), cut(&whole));
            }
        }
    }
}

/// MLX stores a largest magnitude that gives the factor, if there is one.
#[test]
fn largest_magnitudes() {
    let mut found = 0;
    for number in 0..10_000u16 {
        let factor = 1e-4 + f32::from(number) * 1.7e-7;
        if let Some(amax) = Global::Factor(factor).amax() {
            assert_eq!(Global::of_amax(amax), Global::Factor(factor));
            found += 1;
        }
    }
    assert!((8_000..9_000).contains(&found), "{found}");
    assert_eq!(Global::of_amax(2688.0), Global::Factor(1.0));
    assert_eq!((Global::None.amax(), Global::Divisor(1.0).amax()), (None, None));
}
