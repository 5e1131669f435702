// ggml's blocks. `b` is the byte at which a block begins, and `i` the number of an element in it, a
// multiple of 4; the functions return the values of four elements. docs/formats/ggml-blocks.md has
// the fields.

fn nibbles(at: u32, upper: bool) -> vec4<u32> {
    return unpack4xU8((word(at) >> select(0u, 4u, upper)) & 0x0f0f0f0fu);
}

fn q4_0(b: u32, i: u32) -> vec4<f32> {
    return (vec4<f32>(nibbles(b + 2u + (i & 15u), i >= 16u)) - 8.0) * half(short(b));
}

fn q4_1(b: u32, i: u32) -> vec4<f32> {
    return vec4<f32>(nibbles(b + 4u + (i & 15u), i >= 16u)) * half(short(b)) + half(short(b + 2u));
}

fn q5_0(b: u32, i: u32) -> vec4<f32> {
    let q = nibbles(b + 6u + (i & 15u), i >= 16u) | (ones(word(b + 2u) >> i) << vec4<u32>(4u));
    return (vec4<f32>(q) - 16.0) * half(short(b));
}

fn q5_1(b: u32, i: u32) -> vec4<f32> {
    let q = nibbles(b + 8u + (i & 15u), i >= 16u) | (ones(word(b + 4u) >> i) << vec4<u32>(4u));
    return vec4<f32>(q) * half(short(b)) + half(short(b + 2u));
}

fn q8_0(b: u32, i: u32) -> vec4<f32> {
    return vec4<f32>(unpack4xI8(word(b + 2u + i))) * half(short(b));
}

fn q8_1(b: u32, i: u32) -> vec4<f32> {
    return vec4<f32>(unpack4xI8(word(b + 4u + i))) * half(short(b));
}

fn q1_0(b: u32, i: u32) -> vec4<f32> {
    return (vec4<f32>(ones(byte(b + 2u + (i >> 3u)) >> (i & 7u))) * 2.0 - 1.0) * half(short(b));
}

fn q2_0(b: u32, i: u32) -> vec4<f32> {
    return (vec4<f32>(twos(byte(b + 2u + (i >> 2u)))) - 1.0) * half(short(b));
}

// Codes of two bits: each 32 bytes hold 128 elements, the first 32 in the lowest bits.
fn planes(at: u32, i: u32) -> vec4<u32> {
    let shift = (i >> 5u & 3u) * 2u;
    return unpack4xU8((word(at + (i >> 7u) * 32u + (i & 31u)) >> shift) & 0x03030303u);
}

// Bit i / 32 of each of 32 bytes.
fn thirds(at: u32, i: u32) -> vec4<u32> {
    return unpack4xU8((word(at + (i & 31u)) >> (i >> 5u)) & 0x01010101u);
}

fn nibble(at: u32, upper: u32) -> u32 {
    return (byte(at) >> (upper * 4u)) & 15u;
}

fn q2_k(b: u32, i: u32) -> vec4<f32> {
    let s = byte(b + (i >> 4u));
    let d = half(short(b + 80u)) * f32(s & 15u);
    let m = half(short(b + 82u)) * f32(s >> 4u);
    return d * vec4<f32>(planes(b + 16u, i)) - m;
}

fn q3_k(b: u32, i: u32) -> vec4<f32> {
    let sub = i >> 4u;
    let high = (byte(b + 104u + (sub & 3u)) >> ((sub >> 2u) * 2u)) & 3u;
    let s = nibble(b + 96u + (sub & 7u), sub >> 3u) | (high << 4u);
    let q = planes(b + 32u, i) | (thirds(b, i) << vec4<u32>(2u));
    return (vec4<f32>(q) - 4.0) * (half(short(b + 108u)) * (f32(s) - 32.0));
}

// The products of scale and minimum of 32 elements with d and dmin.
fn k_scale(b: u32, j: u32) -> vec2<f32> {
    var s = byte(b + 4u + j) & 63u;
    var m = byte(b + 8u + j) & 63u;
    if j >= 4u {
        let both = byte(b + 8u + j);
        s = (both & 15u) | ((byte(b + j) >> 6u) << 4u);
        m = (both >> 4u) | ((byte(b + 4u + j) >> 6u) << 4u);
    }
    return vec2<f32>(half(short(b)) * f32(s), half(short(b + 2u)) * f32(m));
}

fn q4_k(b: u32, i: u32) -> vec4<f32> {
    let j = i >> 5u;
    let s = k_scale(b, j);
    let q = nibbles(b + 16u + (j >> 1u) * 32u + (i & 31u), (j & 1u) == 1u);
    return s.x * vec4<f32>(q) - s.y;
}

fn q5_k(b: u32, i: u32) -> vec4<f32> {
    let j = i >> 5u;
    let s = k_scale(b, j);
    let q = nibbles(b + 48u + (j >> 1u) * 32u + (i & 31u), (j & 1u) == 1u);
    return s.x * vec4<f32>(q | (thirds(b + 16u, i) << vec4<u32>(4u))) - s.y;
}

fn q6_k(b: u32, i: u32) -> vec4<f32> {
    let half_block = i >> 7u;
    let plane = i >> 5u & 3u;
    let l = i & 31u;
    let low = nibbles(b + half_block * 64u + (plane & 1u) * 32u + l, plane >= 2u);
    let high = unpack4xU8((word(b + 128u + half_block * 32u + l) >> (plane * 2u)) & 0x03030303u);
    let s = extractBits(bitcast<i32>(byte(b + 192u + (i >> 4u))), 0u, 8u);
    let q = vec4<f32>(low | (high << vec4<u32>(4u))) - 32.0;
    return q * (half(short(b + 208u)) * f32(s));
}

fn q8_k(b: u32, i: u32) -> vec4<f32> {
    return vec4<f32>(unpack4xI8(word(b + 4u + i))) * bitcast<f32>(word(b));
}

fn trits(at: u32, power: u32) -> vec4<f32> {
    let q = (unpack4xU8(word(at)) * vec4<u32>(power)) & vec4<u32>(255u);
    let one = select(vec4<f32>(0.0), vec4<f32>(1.0), q >= vec4<u32>(86u));
    return one + select(vec4<f32>(0.0), vec4<f32>(1.0), q >= vec4<u32>(171u)) - 1.0;
}

fn power_of_three(n: u32) -> u32 {
    // 1, 3, 9, 27 in one word; 81 is the fifth.
    return select((0x1b090301u >> (n * 8u)) & 255u, 81u, n == 4u);
}

fn tq1_0(b: u32, i: u32) -> vec4<f32> {
    let d = half(short(b + 52u));
    if i < 160u {
        return trits(b + (i & 31u), power_of_three(i >> 5u)) * d;
    }
    if i < 240u {
        return trits(b + 32u + (i & 15u), power_of_three((i - 160u) >> 4u)) * d;
    }
    return trits(b + 48u, power_of_three((i - 240u) >> 2u)) * d;
}

fn tq2_0(b: u32, i: u32) -> vec4<f32> {
    return (vec4<f32>(planes(b, i)) - 1.0) * half(short(b + 64u));
}

// Twice the values of E2M1 codes; code 8 is +0 in ggml.
const DOUBLED = vec4<u32>(0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu);

fn mxfp4(b: u32, i: u32) -> vec4<f32> {
    let e = byte(b);
    let scale = bitcast<f32>(select((e - 1u) << 23u, 0x200000u << e, e < 2u));
    return looked_up(DOUBLED, nibbles(b + 1u + (i & 15u), i >= 16u)) * scale;
}

fn nvfp4(b: u32, i: u32, row: u32) -> vec4<f32> {
    let code = byte(b + (i >> 4u));
    let exponent = code >> 3u & 15u;
    let fraction = code & 7u;
    var scale = f32(fraction);
    if exponent > 0u {
        scale = f32((fraction + 8u) << (exponent - 1u));
    }
    scale = select(scale * 0x1p-10f, 0.0, code == 0x7fu);
    let q = nibbles(b + 4u + (i >> 4u) * 8u + (i & 7u), (i & 15u) >= 8u);
    let values = looked_up(DOUBLED, q) * scale;
    if p.global_kind == NO_GLOBAL {
        return values;
    }
    return vec4<f32>(globally(row, values.x), globally(row, values.y), globally(row, values.z), globally(row, values.w));
}

// The levels of IQ4_NL, and the others of ik_llama.cpp's types.
const LEVELS = vec4<u32>(0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u);
const OTHER_LEVELS = vec4<u32>(0xc3b19c85u, 0xfaeee1d3u, 0x2a1d1105u, 0x755d4939u);
const TWO_LEVELS = vec4<u32>(0x1101f3e1u, 0x1606f8e6u, 0u, 0u);
const THREE_LEVELS = vec4<u32>(0xf6e9d8c1u, 0x2f1c0d01u, 0xfaeddcc5u, 0x33201105u);

fn iq4_nl(b: u32, i: u32) -> vec4<f32> {
    return looked_up(LEVELS, nibbles(b + 2u + (i & 15u), i >= 16u)) * half(short(b));
}

fn iq4_xs(b: u32, i: u32) -> vec4<f32> {
    let n = i >> 5u;
    let s = nibble(b + 4u + (n >> 1u), n & 1u) | (((short(b + 2u) >> (n * 2u)) & 3u) << 4u);
    let q = nibbles(b + 8u + n * 16u + (i & 15u), (i & 16u) != 0u);
    return looked_up(LEVELS, q) * (half(short(b)) * (f32(s) - 32.0));
}

fn q6_0(b: u32, i: u32) -> vec4<f32> {
    // Elements 8 to 15 have bits 4 and 5 of the byte, and 16 to 23 bits 2 and 3.
    let shift = (0x06020400u >> ((i >> 3u) * 8u)) & 255u;
    let high = unpack4xU8((word(b + 2u + (i & 7u)) >> shift) & 0x03030303u);
    let q = nibbles(b + 10u + (i & 15u), i >= 16u) | (high << vec4<u32>(4u));
    return (vec4<f32>(q) - 32.0) * half(short(b));
}

fn iq2_k(b: u32, i: u32) -> vec4<f32> {
    let sub = i >> 4u;
    let row = (short(b + 2u) >> sub) & 1u;
    let s = f32(nibble(b + 4u + (sub >> 1u), sub & 1u)) - 8.0;
    let q = planes(b + 12u, i) | vec4<u32>(row * 4u);
    return looked_up(TWO_LEVELS, q) * (half(short(b)) * s);
}

fn iq3_k(b: u32, i: u32) -> vec4<f32> {
    let sub = i >> 4u;
    let row = (short(b + 2u) >> sub) & 1u;
    let magnitude = f32(nibble(b + 6u + (sub >> 1u), sub & 1u) * 2u + 1u);
    let s = select(magnitude, -magnitude, ((short(b + 4u) >> sub) & 1u) == 1u);
    let q = planes(b + 14u, i) | (thirds(b + 78u, i) << vec4<u32>(2u)) | vec4<u32>(row * 8u);
    return looked_up(THREE_LEVELS, q) * (half(short(b)) * s);
}

fn iq4_k(b: u32, i: u32) -> vec4<f32> {
    let sub = i >> 4u;
    let row = (short(b + 2u) >> sub) & 1u;
    let high = (word(b + 4u) >> (sub * 2u)) & 3u;
    let s = f32(nibble(b + 8u + (sub >> 1u), sub & 1u) | (high << 4u)) - 32.0;
    let q = nibbles(b + 16u + (i >> 5u) * 16u + (i & 15u), (i & 16u) != 0u);
    let levels = select(LEVELS, OTHER_LEVELS, vec4<bool>(row == 1u));
    return looked_up(levels, q) * (half(short(b)) * s);
}

// `row` is the byte at which the row begins, with its own scale.
fn iq4_ks(b: u32, i: u32, row: u32) -> vec4<f32> {
    let n = i >> 5u;
    let s = byte(b + n);
    let q = nibbles(b + 8u + n * 16u + (i & 15u), (i & 16u) != 0u);
    let levels = select(LEVELS, OTHER_LEVELS, vec4<bool>((s & 1u) == 1u));
    return looked_up(levels, q) * (bitcast<f32>(word(row)) * (f32(s & 254u) - 127.0));
}

// Products, for the types that most models have. `start` is the byte at which a row begins.

// Half of 64 elements with two scales: a lane has 16 bytes, whose nibbles are elements of both. Eight pieces in
// a block.
fn q4_k_dot(start: u32, u: u32, v: u32) -> f32 {
    return k_dot(start / 16u + (u >> 3u) * 9u, 1u, u, v, vec4<u32>(0u), vec4<u32>(0u));
}

fn q5_k_dot(start: u32, u: u32, v: u32) -> f32 {
    let block = start / 16u + (u >> 3u) * 11u;
    // Bit 2 c of a byte is the fifth of an element of chunk c's first 32, and bit 2 c + 1 of its second.
    let bits = w[block + 1u + (u & 1u)] >> vec4<u32>((u >> 1u & 3u) * 2u);
    return k_dot(block, 3u, u, v, bits & vec4<u32>(0x01010101u), (bits >> vec4<u32>(1u)) & vec4<u32>(0x01010101u));
}

// `codes` is where the codes begin in the block, in 16 bytes; `low` and `high` are fifth bits.
fn k_dot(block: u32, codes: u32, u: u32, v: u32, low: vec4<u32>, high: vec4<u32>) -> f32 {
    let c = u >> 1u & 3u;
    let header = w[block];
    let q = w[block + codes + c * 2u + (u & 1u)];
    // Scales and minima of groups 2 c and 2 c + 1, in two bytes each.
    let shift = (c & 1u) * 16u;
    let a = header.y >> shift;
    let b = header.z >> shift;
    let e = header.w >> shift;
    let s = select((e & 0x0f0fu) | ((a >> 2u) & 0x3030u), a & 0x3f3fu, c < 2u);
    let m = select(((e >> 4u) & 0x0f0fu) | ((b >> 2u) & 0x3030u), b & 0x3f3fu, c < 2u);
    let i = v + (u >> 3u) * 64u + c * 16u + (u & 1u) * 4u;
    let l0 = vector(i);
    let l1 = vector(i + 1u);
    let l2 = vector(i + 2u);
    let l3 = vector(i + 3u);
    let h0 = vector(i + 8u);
    let h1 = vector(i + 9u);
    let h2 = vector(i + 10u);
    let h3 = vector(i + 11u);
    var sum = planes_dot(vec4<f32>(0.0), q.x, 0.0, l0, h0);
    sum = planes_dot(sum, q.y, 0.0, l1, h1);
    sum = planes_dot(sum, q.z, 0.0, l2, h2);
    sum = planes_dot(sum, q.w, 0.0, l3, h3);
    var first = sum.x + 0x1p-8f * sum.z;
    var second = 0x1p-4f * sum.y + 0x1p-12f * sum.w;
    if codes == 3u {
        first += 16.0 * (fifths(low.x, l0) + fifths(low.y, l1) + fifths(low.z, l2) + fifths(low.w, l3));
        second += 16.0 * (fifths(high.x, h0) + fifths(high.y, h1) + fifths(high.z, h2) + fifths(high.w, h3));
    }
    let d = halves2(header.x);
    let scaled = f32(s & 255u) * first + f32(s >> 8u) * second;
    let less = f32(m & 255u) * sum4((l0 + l1) + (l2 + l3)) + f32(m >> 8u) * sum4((h0 + h1) + (h2 + h3));
    return d.x * scaled - d.y * less;
}

// The sum of the values whose bit is set in the bytes of a word.
fn fifths(bits: u32, values: vec4<f32>) -> f32 {
    return dot(bytes4(bits, 0u, 0.0) * BYTES, values);
}

// Eight bytes of each plane: eight elements of each of four groups. Eight pieces in a block.
fn q6_k_dot(start: u32, u: u32, v: u32) -> f32 {
    let b = start + (u >> 3u) * 210u;
    let upper = u >> 2u & 1u;
    let l = (u & 3u) * 8u;
    let odd = (b & 2u) != 0u;
    let i = (b + upper * 64u + l) / 4u;
    let p1 = weights(i + 1u);
    let p0 = shifted(weights(i), p1, odd);
    let p2 = shifted(p1, weights(i + 2u), odd);
    let r1 = weights(i + 9u);
    let r0 = shifted(weights(i + 8u), r1, odd);
    let r2 = shifted(r1, weights(i + 10u), odd);
    let j = (b + 128u + upper * 32u + l) / 4u;
    let t1 = weights(j + 1u);
    let t0 = shifted(weights(j), t1, odd);
    let t2 = shifted(t1, weights(j + 2u), odd);
    let k = v + (u >> 3u) * 64u + upper * 32u + (u & 3u) * 2u;
    let n = 0x0f0f0f0fu;
    let m = 0x30303030u;
    let sums = vec4<f32>(
        sixes_dot((p0 & n) | ((t0 << 4u) & m), (p2 & n) | ((t2 << 4u) & m), k),
        sixes_dot((r0 & n) | ((t0 << 2u) & m), (r2 & n) | ((t2 << 2u) & m), k + 8u),
        sixes_dot(((p0 >> 4u) & n) | (t0 & m), ((p2 >> 4u) & n) | (t2 & m), k + 16u),
        sixes_dot(((r0 >> 4u) & n) | ((t0 >> 2u) & m), ((r2 >> 4u) & n) | ((t2 >> 2u) & m), k + 24u));
    // Every second scale of eight.
    let at = b + 192u + upper * 8u;
    let g1 = weights(at / 4u + 1u);
    let low = shifted(weights(at / 4u), g1, odd) >> (l / 16u * 8u);
    let high = shifted(g1, weights(at / 4u + 2u), odd) >> (l / 16u * 8u);
    let scales = vec4<i32>(i32(low << 24u), i32(low << 8u), i32(high << 24u), i32(high << 8u)) >> vec4<u32>(24u);
    return half_at(b + 208u) * dot(vec4<f32>(scales), sums);
}

fn sixes_dot(a: u32, b: u32, v: u32) -> f32 {
    return dot(fma(bytes4(a, 0u, 32.0), vector(v), bytes4(b, 0u, 32.0) * vector(v + 1u)), BYTES);
}

// Half a block.
fn q8_0_dot(start: u32, u: u32, v: u32) -> f32 {
    let b = start + u / 2u * 34u;
    let at = b + 2u + (u & 1u) * 16u;
    let odd = (at & 2u) != 0u;
    let i = at / 4u;
    let q1 = weights(i + 1u);
    let q2 = weights(i + 2u);
    let q3 = weights(i + 3u);
    let k = v + u * 4u;
    var sum = bytes4(shifted(weights(i), q1, odd), 0x80u, 128.0) * vector(k);
    sum = fma(bytes4(shifted(q1, q2, odd), 0x80u, 128.0), vector(k + 1u), sum);
    sum = fma(bytes4(shifted(q2, q3, odd), 0x80u, 128.0), vector(k + 2u), sum);
    sum = fma(bytes4(shifted(q3, weights(i + 4u), odd), 0x80u, 128.0), vector(k + 3u), sum);
    return half_at(b) * dot(sum, BYTES);
}

// Half the bytes of a block.
fn q4_0_dot(start: u32, u: u32, v: u32) -> f32 {
    let b = start + u / 2u * 18u;
    let at = b + 2u + (u & 1u) * 8u;
    let odd = (at & 2u) != 0u;
    let i = at / 4u;
    let q1 = weights(i + 1u);
    let k = v + u / 2u * 8u + (u & 1u) * 2u;
    let sum = planes_dot(vec4<f32>(0.0), shifted(weights(i), q1, odd), 8.0, vector(k), vector(k + 4u));
    let q2 = shifted(q1, weights(i + 2u), odd);
    return half_at(b) * dot(planes_dot(sum, q2, 8.0, vector(k + 1u), vector(k + 5u)), SIXTEENTHS);
}

// The same. The bits of E2M1 are those of a small f16, if zeros are put between.
fn mxfp4_dot(start: u32, u: u32, v: u32) -> f32 {
    let b = start + u / 2u * 17u;
    let at = b + 1u + (u & 1u) * 8u;
    let shift = (at & 3u) * 8u;
    let i = at / 4u;
    let q1 = weights(i + 1u);
    let k = v + u / 2u * 8u + (u & 1u) * 2u;
    let low = (weights(i) >> shift) | ((q1 << (31u - shift)) << 1u);
    let high = (q1 >> shift) | ((weights(i + 2u) << (31u - shift)) << 1u);
    let sum = e2m1_dot(low, vector(k), vector(k + 4u)) + e2m1_dot(high, vector(k + 1u), vector(k + 5u));
    let e = byte(b);
    return bitcast<f32>(select(e << 23u, 0x400000u, e == 0u)) * (sum * 0x1p14f);
}

fn e2m1_pair(bits: u32) -> vec2<f32> {
    return halves2((bits & 0x80008000u) | ((bits & 0x70007000u) >> 3u));
}

fn e2m1_dot(q: u32, l: vec4<f32>, h: vec4<f32>) -> f32 {
    let low = dot(vec4<f32>(e2m1_pair(q << 12u), e2m1_pair(q << 4u)), vec4<f32>(l.x, l.z, l.y, l.w));
    return low + dot(vec4<f32>(e2m1_pair(q << 8u), e2m1_pair(q)), vec4<f32>(h.x, h.z, h.y, h.w));
}
