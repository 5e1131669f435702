// Elements of a fixed size. `at` is the bit of the first element, counted from the start of the row
// that is at byte `start`.

fn f32s(at: u32) -> vec4<u32> {
    return vec4<u32>(word(at), word(at + 4u), word(at + 8u), word(at + 12u));
}

fn halves(at: u32) -> vec4<u32> {
    let a = word(at);
    let b = word(at + 4u);
    return vec4<u32>(a & 0xffffu, a >> 16u, b & 0xffffu, b >> 16u);
}

fn f16s(at: u32) -> vec4<u32> {
    let h = halves(at);
    return vec4<u32>(half_bits(h.x), half_bits(h.y), half_bits(h.z), half_bits(h.w));
}

fn bf16s(at: u32) -> vec4<u32> {
    return halves(at) << vec4<u32>(16u);
}

fn i8s(at: u32) -> vec4<u32> {
    return bitcast<vec4<u32>>(vec4<f32>(unpack4xI8(word(at))));
}

fn u8s(at: u32) -> vec4<u32> {
    return bitcast<vec4<u32>>(vec4<f32>(unpack4xU8(word(at))));
}

fn bools(at: u32) -> vec4<u32> {
    return select(vec4<u32>(0u), vec4<u32>(0x3f800000u), unpack4xU8(word(at)) != vec4<u32>(0u));
}

fn i16s(at: u32) -> vec4<u32> {
    return bitcast<vec4<u32>>(vec4<f32>(bitcast<vec4<i32>>(halves(at) << vec4<u32>(16u)) >> vec4<u32>(16u)));
}

fn u16s(at: u32) -> vec4<u32> {
    return bitcast<vec4<u32>>(vec4<f32>(halves(at)));
}

fn e4m3s(at: u32) -> vec4<u32> {
    let c = unpack4xU8(word(at));
    return bitcast<vec4<u32>>(vec4<f32>(e4m3(c.x), e4m3(c.y), e4m3(c.z), e4m3(c.w)));
}

// The upper half of an f16.
fn e5m2s(at: u32) -> vec4<u32> {
    let c = unpack4xU8(word(at)) << vec4<u32>(8u);
    return vec4<u32>(half_bits(c.x), half_bits(c.y), half_bits(c.z), half_bits(c.w));
}

fn e8m0s(at: u32) -> vec4<u32> {
    let c = unpack4xU8(word(at));
    let powers = select(c << vec4<u32>(23u), vec4<u32>(0x400000u), c == vec4<u32>(0u));
    return select(powers, vec4<u32>(0x7fc00000u), c == vec4<u32>(255u));
}

// A small float without infinities: its bits above the fraction, and the exponent of its bias.
fn small(sign: u32, code: u32, fraction: u32, bias: u32) -> u32 {
    let exponent = code >> fraction;
    let rest = code & ((1u << fraction) - 1u);
    if exponent == 0u {
        let step = bitcast<f32>((128u - bias - fraction) << 23u);
        return bitcast<u32>(f32(rest) * step) | sign;
    }
    return sign | ((exponent + 127u - bias) << 23u) | (rest << (23u - fraction));
}

fn fnuz(code: u32, fraction: u32, bias: u32) -> u32 {
    if code == 0x80u {
        return 0x7fc00000u;
    }
    return small((code & 0x80u) << 24u, code & 0x7fu, fraction, bias);
}

fn e4m3fnuzs(at: u32) -> vec4<u32> {
    let c = unpack4xU8(word(at));
    return vec4<u32>(fnuz(c.x, 3u, 8u), fnuz(c.y, 3u, 8u), fnuz(c.z, 3u, 8u), fnuz(c.w, 3u, 8u));
}

fn e5m2fnuzs(at: u32) -> vec4<u32> {
    let c = unpack4xU8(word(at));
    return vec4<u32>(fnuz(c.x, 2u, 16u), fnuz(c.y, 2u, 16u), fnuz(c.z, 2u, 16u), fnuz(c.w, 2u, 16u));
}

// Four elements of six bits, from any multiple of two bits on.
fn sixes(bit: u32) -> vec4<u32> {
    let v = word(bit >> 3u) >> (bit & 7u);
    return (vec4<u32>(v) >> vec4<u32>(0u, 6u, 12u, 18u)) & vec4<u32>(63u);
}

fn six(code: u32, fraction: u32, bias: u32) -> u32 {
    return small((code & 32u) << 26u, code & 31u, fraction, bias);
}

fn e2m3s(bit: u32) -> vec4<u32> {
    let c = sixes(bit);
    return vec4<u32>(six(c.x, 3u, 1u), six(c.y, 3u, 1u), six(c.z, 3u, 1u), six(c.w, 3u, 1u));
}

fn e3m2s(bit: u32) -> vec4<u32> {
    let c = sixes(bit);
    return vec4<u32>(six(c.x, 2u, 3u), six(c.y, 2u, 3u), six(c.z, 2u, 3u), six(c.w, 2u, 3u));
}

fn fours(bit: u32) -> vec4<u32> {
    let v = word(bit >> 3u) >> (bit & 7u);
    let c = (vec4<u32>(v) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u);
    return bitcast<vec4<u32>>(e2m1s(c));
}

fn i32s(at: u32) -> vec4<u32> {
    return bitcast<vec4<u32>>(vec4<f32>(bitcast<vec4<i32>>(f32s(at))));
}

fn u32s(at: u32) -> vec4<u32> {
    return bitcast<vec4<u32>>(vec4<f32>(f32s(at)));
}

// Products of eight elements.

fn f16_dot(start: u32, u: u32, v: u32) -> f32 {
    let q = w[start / 16u + u];
    let a = vec4<f32>(halves2(q.x), halves2(q.y));
    return sum4(fma(a, vector(v + u * 2u), vec4<f32>(halves2(q.z), halves2(q.w)) * vector(v + u * 2u + 1u)));
}

fn bf16_dot(start: u32, u: u32, v: u32) -> f32 {
    let q = w[start / 16u + u];
    let a = vec4<u32>(q.x << 16u, q.x & 0xffff0000u, q.y << 16u, q.y & 0xffff0000u);
    let b = vec4<u32>(q.z << 16u, q.z & 0xffff0000u, q.w << 16u, q.w & 0xffff0000u);
    return sum4(fma(bitcast<vec4<f32>>(a), vector(v + u * 2u), bitcast<vec4<f32>>(b) * vector(v + u * 2u + 1u)));
}
