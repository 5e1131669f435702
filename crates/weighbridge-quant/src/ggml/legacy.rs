//! The first block dtypes, with one scale and optionally one minimum, and the simplest of the
//! newest.

use super::{NIBBLES, affine, blocks, field, put_halves, scaled};

blocks! {
    /// `d` f16, then 16 bytes: byte j holds element j in its low and element j + 16 in its high
    /// nibble. Value: (q - 8) d.
    Q4_0: 18 => 32 COARSE, |simd, [d0, d1, codes @ ..], out| {
        let d = simd.splat(out.half([*d0, *d1]));
        let eight = simd.splat(8.0);
        put_halves(simd, out, 0, codes, |q| simd.mul(simd.sub(q, eight), d));
    }

    /// `d` and `m` f16, then nibbles as in `Q4_0`. Value: q d + m.
    Q4_1: 20 => 32 COARSE, |simd, [d0, d1, m0, m1, codes @ ..], out| {
        let (d, m) = (simd.splat(out.half([*d0, *d1])), simd.splat(out.half([*m0, *m1])));
        put_halves(simd, out, 0, codes, |q| simd.add_product(q, d, m));
    }

    /// `d` f16, a fifth bit for each element in 4 bytes, then nibbles as in `Q4_0`.
    /// Value: (q - 16) d.
    Q5_0: 22 => 32 COARSE, |simd, bytes, out| {
        let d = out.half(*field(bytes, 0));
        if out.looks_up() {
            let (d, sixteen) = (simd.splat(d), simd.splat(16.0));
            let table = simd.mul(simd.sub(simd.load(&NIBBLES), sixteen), d);
            let low = simd.wide(field(bytes, 6));
            for (number, index) in [low, simd.down::<4>(low)].into_iter().enumerate() {
                let value = simd.entries(table, index);
                let high = simd.mask(u16::from_le_bytes(*field(bytes, 2 + 2 * number)));
                // Nothing is rounded: the sum has five bits more than `d`.
                out.put(number, simd.choose(high, simd.add(value, simd.mul(sixteen, d)), value));
            }
            return;
        }
        let high = simd.spread(u32::from_le_bytes(*field(bytes, 2)));
        let high = simd.and(high, simd.fill(16));
        let codes = simd.or(simd.nibbles(field(bytes, 6)), high);
        out.pair(0, scaled(simd, simd.minus(codes, simd.fill(16)), d));
    }

    /// `d` and `m` f16, then as in `Q5_0`. Value: q d + m.
    Q5_1: 24 => 32 COARSE, |simd, bytes, out| {
        let (d, m) = (out.half(*field(bytes, 0)), out.half(*field(bytes, 2)));
        let high = simd.spread(u32::from_le_bytes(*field(bytes, 4)));
        let high = simd.and(high, simd.fill(16));
        let codes = simd.or(simd.nibbles(field(bytes, 8)), high);
        out.pair(0, affine(simd, codes, d, m));
    }

    /// `d` f16, then 32 signed bytes. Value: q d.
    Q8_0: 34 => 32 COARSE, |simd, [d0, d1, codes @ ..], out| {
        let d = out.half([*d0, *d1]);
        out.pair(0, scaled(simd, simd.bytes(codes), d));
    }

    /// `d` f16, the sum of all elements times `d` f16, then 32 signed bytes. Value: q d.
    Q8_1: 36 => 32 COARSE, |simd, [d0, d1, _, _, codes @ ..], out| {
        let d = out.half([*d0, *d1]);
        out.pair(0, scaled(simd, simd.bytes(codes), d));
    }

    /// `d` f16, then a bit for each element. Value: d if the bit is set, else -d.
    Q1_0: 18 => 128 COARSE, |simd, [d0, d1, bits @ ..], out| {
        let d = out.half([*d0, *d1]);
        for (number, bits) in bits.as_chunks::<4>().0.iter().enumerate() {
            let set = simd.spread(u32::from_le_bytes(*bits));
            // 255 becomes 1, and 0 becomes -1.
            let codes = simd.or(simd.xor(set, simd.fill(255)), simd.fill(1));
            out.pair(number, scaled(simd, codes, d));
        }
    }

    /// `d` f16, then 2 bits for each element, lowest first. Value: (q - 1) d.
    Q2_0: 18 => 64 COARSE, |simd, [d0, d1, codes @ ..], out| {
        let d = simd.splat(out.half([*d0, *d1]));
        let one = simd.splat(1.0);
        let codes = [
            simd.codes::<2, 0>(codes),
            simd.codes::<2, 16>(codes),
            simd.codes::<2, 32>(codes),
            simd.codes::<2, 48>(codes),
        ];
        for (number, codes) in codes.into_iter().enumerate() {
            out.put(number, simd.mul(simd.sub(codes, one), d));
        }
    }
}
