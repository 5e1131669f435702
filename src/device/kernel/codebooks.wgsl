// ggml's dtypes whose elements are points of a codebook, which `table` holds: points of 8 signed
// bytes, or of 4 for IQ3.

// Negates the values whose bit is set.
fn signed(values: vec4<f32>, bits: u32) -> vec4<f32> {
    return select(values, -values, ones(bits) != vec4<u32>(0u));
}

// Four signs of 8, of which 7 are stored: the eighth makes the number of minus signs even.
fn seven(bits: u32, i: u32) -> u32 {
    let stored = bits & 127u;
    return (stored | ((countOneBits(stored) & 1u) << 7u)) >> (i & 4u);
}

// Four elements of a point of 8.
fn eight(point: u32, i: u32) -> vec4<f32> {
    return vec4<f32>(unpack4xI8(table[point * 2u + (i >> 2u & 1u)]));
}

fn four(point: u32) -> vec4<f32> {
    return vec4<f32>(unpack4xI8(table[point]));
}

fn iq2_xxs(b: u32, i: u32) -> vec4<f32> {
    let n = i >> 5u;
    let k = i >> 3u & 3u;
    let bits = word(b + 6u + n * 8u);
    let s = half(short(b)) * (0.5 + f32(bits >> 28u)) * 0.25;
    return signed(eight(byte(b + 2u + n * 8u + k), i), seven(bits >> (k * 7u), i)) * s;
}

fn half_scale(b: u32, at: u32, i: u32) -> f32 {
    let s = (byte(b + at + (i >> 5u)) >> ((i >> 4u & 1u) * 4u)) & 15u;
    return half(short(b)) * (0.5 + f32(s)) * 0.25;
}

fn iq2_xs(b: u32, i: u32) -> vec4<f32> {
    let bits = short(b + 2u + (i >> 3u) * 2u);
    return signed(eight(bits & 511u, i), seven(bits >> 9u, i)) * half_scale(b, 66u, i);
}

fn iq2_s(b: u32, i: u32) -> vec4<f32> {
    let k = i >> 3u & 3u;
    let high = ((byte(b + 66u + (i >> 5u)) << 8u) >> (k * 2u)) & 0x300u;
    let point = byte(b + 2u + (i >> 3u)) | high;
    return signed(eight(point, i), byte(b + 34u + (i >> 3u)) >> (i & 4u)) * half_scale(b, 74u, i);
}

fn iq3_xxs(b: u32, i: u32) -> vec4<f32> {
    let bits = word(b + 66u + (i >> 5u) * 4u);
    let s = half(short(b)) * (0.5 + f32(bits >> 28u)) * 0.5;
    let signs = seven(bits >> ((i >> 3u & 3u) * 7u), i);
    return signed(four(byte(b + 2u + (i >> 2u))), signs) * s;
}

fn iq3_s(b: u32, i: u32) -> vec4<f32> {
    let n = i >> 5u;
    let high = ((byte(b + 66u + n) << 8u) >> (i >> 2u & 7u)) & 0x100u;
    let s = (byte(b + 106u + (n >> 1u)) >> ((n & 1u) * 4u)) & 15u;
    let signs = byte(b + 74u + (i >> 3u)) >> (i & 4u);
    return signed(four(byte(b + 2u + (i >> 2u)) | high), signs) * (half(short(b)) * f32(2u * s + 1u));
}

// (8 grid + 8 delta) / 8, times the scale.
fn eighths(point: u32, i: u32, negative: bool, s: f32) -> vec4<f32> {
    return (eight(point, i) + select(1.0, -1.0, negative)) * 0.125 * s;
}

fn odd(bits: u32) -> f32 {
    return f32((bits & 7u) * 2u + 1u);
}

fn iq1_s(b: u32, i: u32) -> vec4<f32> {
    let high = short(b + 34u + (i >> 5u) * 2u);
    let point = byte(b + 2u + (i >> 3u)) | (((high >> ((i >> 3u & 3u) * 3u)) & 7u) << 8u);
    return eighths(point, i, (high & 0x8000u) != 0u, half(short(b)) * odd(high >> 12u));
}

fn iq1_m(b: u32, i: u32) -> vec4<f32> {
    let low = word(b + 48u);
    let high = word(b + 52u);
    let d = (low >> 12u & 15u) | (low >> 24u & 0xf0u) | (high >> 4u & 0xf00u) | (high >> 16u & 0xf000u);
    let n = i >> 5u;
    let bits = (byte(b + 32u + (i >> 4u)) >> ((i >> 3u & 1u) * 4u)) & 15u;
    let point = byte(b + (i >> 3u)) | ((bits & 7u) << 8u);
    let scales = short(b + 48u + (n >> 1u) * 2u) >> ((n & 1u) * 6u + (i >> 4u & 1u) * 3u);
    return eighths(point, i, (bits & 8u) != 0u, half(d) * odd(scales));
}
