// What every kernel has: the bindings, the parameters, and numbers read at any byte.
//
// Bytes are read as words of 32 bits or four of them, so that no feature is needed. f16 is decoded by integer
// operations: unpack2x16float may flush subnormal numbers. Nothing is divided, and no sum relies on
// its order beyond the one of the loop.

struct Parameters {
    rows: u32,
    columns: u32,
    row_bytes: u32,
    // Byte offsets of the first row in the bindings of the weight, the scales and the biases.
    weight_at: u32,
    scale_at: u32,
    bias_at: u32,
    // Scales of each row, and elements that share one.
    groups: u32,
    group_size: u32,
    // Indices of get_rows; columns of the right matrix.
    count: u32,
    // The number of the first row within the tensor, and the tensor's rows.
    first_row: u32,
    all_rows: u32,
    // Chosen experts that have one vector.
    per_vector: u32,
    // Of the schemes of checkpoints: the number of the first row within the tensor, and the rows of one
    // matrix.
    start_row: u32,
    outputs: u32,
    // Byte offsets in the binding of the biases, or NONE: zero points, the group of each column, the
    // values of codes, and the sizes and values of coded scales.
    zero_at: u32,
    index_at: u32,
    values_at: u32,
    nested_at: u32,
    nested_values_at: u32,
    // Words of zero points for each group.
    zero_words: u32,
    // Scales of each matrix, and rows that share one.
    matrix_scales: u32,
    row_group: u32,
    // Elements that share a scale, scales that share one of their own, and the bits of what is added.
    block: u32,
    nested_block: u32,
    nested_offset: u32,
    // What the global scale is: NO_GLOBAL, or how it is used. Each is that of `outputs` rows.
    global_kind: u32,
    // Always 0, which no compiler knows.
    nothing: u32,
}

@group(0) @binding(0) var<storage, read> w: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> scales: array<u32>;
@group(0) @binding(2) var<storage, read> biases: array<u32>;
@group(0) @binding(3) var<storage, read> table: array<u32>;
@group(0) @binding(4) var<storage, read> x: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> y: array<u32>;
var<immediate> p: Parameters;
@group(0) @binding(6) var<storage, read> chosen: array<u32>;

// A word of the weight, and one of the input.
fn weights(i: u32) -> u32 {
    return w[i >> 2u][i & 3u];
}

fn input(i: u32) -> u32 {
    return x[i >> 2u][i & 3u];
}

fn byte(at: u32) -> u32 {
    return (weights(at >> 2u) >> ((at & 3u) * 8u)) & 255u;
}

// 32 bits from any byte on.
fn word(at: u32) -> u32 {
    let i = at >> 2u;
    let shift = (at & 3u) * 8u;
    if shift == 0u {
        return weights(i);
    }
    return (weights(i) >> shift) | (weights(i + 1u) << (32u - shift));
}

// The same of the parts behind the scales.
fn other(at: u32) -> u32 {
    let i = at >> 2u;
    let shift = (at & 3u) * 8u;
    if shift == 0u {
        return biases[i];
    }
    return (biases[i] >> shift) | (biases[i + 1u] << (32u - shift));
}

// The product is rounded before anything is done with it: no compiler knows that the parameter is 0.
fn rounded(product: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(product) ^ p.nothing);
}

fn short(at: u32) -> u32 {
    return word(at) & 0xffffu;
}

// The bits of the f32 with the value of an f16. NaN becomes quiet, as on the CPU.
fn half_bits(h: u32) -> u32 {
    let sign = (h & 0x8000u) << 16u;
    let exponent = (h >> 10u) & 31u;
    let fraction = h & 0x3ffu;
    if exponent == 0u {
        return bitcast<u32>(f32(fraction) * 0x1p-24f) | sign;
    }
    if exponent == 31u {
        return sign | 0x7f800000u | (fraction << 13u) | select(0u, 0x400000u, fraction != 0u);
    }
    return sign | ((exponent + 112u) << 23u) | (fraction << 13u);
}

fn half(h: u32) -> f32 {
    return bitcast<f32>(half_bits(h));
}

// The bits of the nearest f16, ties to even.
fn narrow(bits: u32) -> u32 {
    let sign = (bits >> 16u) & 0x8000u;
    let a = bits & 0x7fffffffu;
    if a > 0x7f800000u {
        return sign | 0x7e00u | ((a >> 13u) & 0x3ffu);
    }
    if a >= 0x477ff000u {
        return sign | 0x7c00u;
    }
    if a >= 0x38800000u {
        return sign | ((a + 0xfffu + ((a >> 13u) & 1u) - 0x38000000u) >> 13u);
    }
    if a <= 0x33000000u {
        return sign;
    }
    let shift = 126u - (a >> 23u);
    let fraction = (a & 0x7fffffu) | 0x800000u;
    let whole = fraction >> shift;
    let rest = fraction & ((1u << shift) - 1u);
    let tie = 1u << (shift - 1u);
    let up = rest > tie || (rest == tie && (whole & 1u) == 1u);
    return sign | (whole + select(0u, 1u, up));
}

// Four codes of one bit from the lowest bits.
fn ones(bits: u32) -> vec4<u32> {
    return (vec4<u32>(bits) >> vec4<u32>(0u, 1u, 2u, 3u)) & vec4<u32>(1u);
}

// Four codes of two bits.
fn twos(bits: u32) -> vec4<u32> {
    return (vec4<u32>(bits) >> vec4<u32>(0u, 2u, 4u, 6u)) & vec4<u32>(3u);
}

// Entry `i` of a table of 16 signed bytes.
fn level(levels: vec4<u32>, i: u32) -> f32 {
    return f32(extractBits(bitcast<i32>(levels[i >> 2u]), (i & 3u) * 8u, 8u));
}

fn looked_up(levels: vec4<u32>, i: vec4<u32>) -> vec4<f32> {
    return vec4<f32>(level(levels, i.x), level(levels, i.y), level(levels, i.z), level(levels, i.w));
}

// E4M3 with signs and one NaN for each sign.
fn e4m3(code: u32) -> f32 {
    let sign = (code & 0x80u) << 24u;
    let exponent = (code >> 3u) & 15u;
    let fraction = code & 7u;
    if (code & 0x7fu) == 0x7fu {
        return bitcast<f32>(sign | 0x7fc00000u);
    }
    if exponent == 0u {
        return bitcast<f32>(bitcast<u32>(f32(fraction) * 0x1p-9f) | sign);
    }
    return bitcast<f32>(sign | ((exponent + 120u) << 23u) | (fraction << 20u));
}

// E2M1; code 8 is -0.
fn e2m1(code: u32) -> f32 {
    let sign = (code & 8u) << 28u;
    let exponent = (code >> 1u) & 3u;
    let fraction = code & 1u;
    if exponent == 0u {
        return bitcast<f32>(sign | select(0u, 0x3f000000u, fraction == 1u));
    }
    return bitcast<f32>(sign | ((exponent + 126u) << 23u) | (fraction << 22u));
}

fn e2m1s(codes: vec4<u32>) -> vec4<f32> {
    return vec4<f32>(e2m1(codes.x), e2m1(codes.y), e2m1(codes.z), e2m1(codes.w));
}

// What products need: see `dot` of the dtypes that have one. A dot function multiplies so many columns of a
// row that one invocation reads much at a time, decodes a header once, and has the neighbours of what its
// neighbours read. `u` is the number of these columns in the row, and `v` of the vector's first four values.

fn vector(v: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>(x[v]);
}

fn sum4(v: vec4<f32>) -> f32 {
    return (v.x + v.y) + (v.z + v.w);
}

// Two f16. HALVES says whether the driver's own function keeps subnormal numbers.
fn halves2(bits: u32) -> vec2<f32> {
    if HALVES {
        return unpack2x16float(bits);
    }
    return vec2<f32>(half(bits & 0xffffu), half(bits >> 16u));
}

// The f16 at an even byte.
fn half_at(at: u32) -> f32 {
    return halves2((weights(at >> 2u) >> ((at & 2u) * 8u)) & 0xffffu).x;
}

// 32 bits of two words, from the third byte on if `odd`.
fn shifted(a: u32, b: u32, odd: bool) -> u32 {
    return select(a, (a >> 16u) | (b << 16u), odd);
}

// The bits of 2^23, to which the lowest bits of a number are added by setting them: converting integers is
// slow. The parameter is 0, which no compiler knows: each of these constants would cost an instruction.
fn magic() -> vec4<u32> {
    return vec4<u32>(0x4b000000u | p.nothing);
}

// The nibbles of the lower half of a word less `zero`, times 1, 16, 256 and 4096.
fn nibbles4(v: u32, zero: f32) -> vec4<f32> {
    let bits = (vec4<u32>(v) & vec4<u32>(0xfu, 0xf0u, 0xf00u, 0xf000u)) | magic();
    return bitcast<vec4<f32>>(bits) - (0x1p23f + zero * vec4<f32>(1.0, 16.0, 256.0, 4096.0));
}

const SIXTEENTHS = vec4<f32>(1.0, 0x1p-4f, 0x1p-8f, 0x1p-12f);

// The products of the nibbles of a word with eight columns, in the order of the nibbles.
fn nibbles_dot(sum: vec4<f32>, v: u32, zero: f32, a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    return fma(nibbles4(v >> 16u, zero), b, fma(nibbles4(v, zero), a, sum));
}

// The same if the lower nibbles of the bytes belong to four columns, and the upper ones to others.
fn planes_dot(sum: vec4<f32>, v: u32, zero: f32, l: vec4<f32>, h: vec4<f32>) -> vec4<f32> {
    return nibbles_dot(sum, v, zero, vec4<f32>(l.x, h.x, l.y, h.y), vec4<f32>(l.z, h.z, l.w, h.w));
}

// The bytes of a word less `zero`, times 1, 256, 1 and 256. `flip` has the bits to change in each byte.
fn bytes4(v: u32, flip: u32, zero: f32) -> vec4<f32> {
    let u = vec4<u32>(v, v, v >> 16u, v >> 16u);
    let changed = magic() ^ vec4<u32>(flip, flip << 8u, flip, flip << 8u);
    let bits = (u & vec4<u32>(0xffu, 0xff00u, 0xffu, 0xff00u)) ^ changed;
    return bitcast<vec4<f32>>(bits) - (0x1p23f + zero * vec4<f32>(1.0, 256.0, 1.0, 256.0));
}

const BYTES = vec4<f32>(1.0, 0x1p-8f, 1.0, 0x1p-8f);
