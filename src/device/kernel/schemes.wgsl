// The schemes of checkpoints: GPTQ, AWQ, compressed-tensors, scaled bytes, bitsandbytes. The parts that
// are neither codes nor scales are in the binding of the biases. LESS is a constant before this text:
// what zero points are stored minus. crates/weighbridge-quant/src/scheme.rs describes the layouts.

const NONE = 0xffffffffu;
const MASK = (1u << BITS) - 1u;

// Field `i` of the code words that begin at byte `at` and are `stride` words apart. A width that does
// not divide 32 reaches into the next word.
fn code(at: u32, stride: u32, i: u32) -> u32 {
    let bit = i * BITS;
    let shift = bit & 31u;
    let first = at + (bit >> 5u) * stride * 4u;
    var bits = word(first) >> shift;
    if shift + BITS > 32u {
        bits |= word(first + stride * 4u) << (32u - shift);
    }
    return bits & MASK;
}

// The same of zero points, from word `start` on.
fn zero(start: u32, stride: u32, i: u32) -> u32 {
    let bit = i * BITS;
    let shift = bit & 31u;
    let first = p.zero_at + (start + (bit >> 5u) * stride) * 4u;
    var bits = other(first) >> shift;
    if shift + BITS > 32u {
        bits |= other(first + stride * 4u) << (32u - shift);
    }
    return bits & MASK;
}

fn group(column: u32) -> u32 {
    if p.index_at != NONE {
        let named = other(p.index_at + column * 4u);
        // compressed-tensors stores -1 for all columns if they were not sorted.
        if named != NONE {
            return named;
        }
    }
    return column / p.group_size;
}

// The value of a code. The loader refuses files that name a group that they do not have; this reads
// nothing outside the scales whoever wrote the buffer.
fn scaled(g: u32, i: u32, q: u32, z: u32) -> f32 {
    if g >= p.groups {
        return bitcast<f32>(0x7fc00000u | p.nothing);
    }
    return scale(i) * f32(i32(q) - i32(z));
}

fn gptq(row: u32, column: u32) -> vec4<f32> {
    let output = p.start_row + row;
    var values: vec4<f32>;
    for (var k = 0u; k < 4u; k++) {
        let g = group(column + k);
        let z = (zero(g * p.zero_words, 1u, output) + LESS) & MASK;
        let q = code(p.weight_at + output * 4u, p.outputs, column + k);
        values[k] = scaled(g, g * p.outputs + output, q, z);
    }
    return values;
}

// The nibbles of a word hold outputs 0, 2, 4, 6, 1, 3, 5, 7.
fn awq(row: u32, column: u32) -> vec4<f32> {
    let output = p.start_row + row;
    let shift = ((output & 1u) * 4u + ((output & 7u) >> 1u)) * 4u;
    let within = output >> 3u;
    var values: vec4<f32>;
    for (var k = 0u; k < 4u; k++) {
        let g = group(column + k);
        let z = (other(p.zero_at + (g * p.zero_words + within) * 4u) >> shift) & MASK;
        let q = (word(p.weight_at + ((column + k) * p.zero_words + within) * 4u) >> shift) & MASK;
        values[k] = scaled(g, g * p.outputs + output, q, z);
    }
    return values;
}

fn compressed(row: u32, column: u32) -> vec4<f32> {
    let output = p.start_row + row;
    var values: vec4<f32>;
    for (var k = 0u; k < 4u; k++) {
        let g = group(column + k);
        var z = 1u << (BITS - 1u);
        if p.zero_at != NONE {
            z = zero(g, p.groups, output);
        }
        let q = code(p.weight_at + row * p.row_bytes, 1u, column + k);
        values[k] = scaled(g, output * p.groups + g, q, z);
    }
    return values;
}

// The number of the scale of an element: one for all, for each row, or for each block of both
// dimensions of a matrix.
fn block_scale(row: u32, column: u32) -> u32 {
    let output = p.start_row + row;
    let within = output % p.outputs / p.row_group * p.groups + column / p.group_size;
    return output / p.outputs * p.matrix_scales + within;
}

fn scaled_i8(row: u32, column: u32) -> vec4<f32> {
    let codes = unpack4xI8(word(p.weight_at + row * p.row_bytes + column));
    var values: vec4<f32>;
    for (var k = 0u; k < 4u; k++) {
        let s = block_scale(row, column + k);
        var z = 0;
        if p.zero_at != NONE {
            z = extractBits(bitcast<i32>(other(p.zero_at + s)), 0u, 8u);
        }
        values[k] = scale(s) * f32(codes[k] - z);
    }
    return values;
}

fn scaled_f8(row: u32, column: u32) -> vec4<f32> {
    let codes = unpack4xU8(word(p.weight_at + row * p.row_bytes + column));
    var values: vec4<f32>;
    for (var k = 0u; k < 4u; k++) {
        values[k] = e4m3(codes[k]) * scale(block_scale(row, column + k));
    }
    return values;
}

// The largest magnitude of a block, which may be a code for another table.
fn largest(block: u32) -> f32 {
    if p.nested_at == NONE {
        return scale(block);
    }
    let value = bitcast<f32>(other(p.nested_values_at + u32(scale(block)) * 4u));
    let size = bitcast<f32>(other(p.nested_at + block / p.nested_block * 4u));
    return rounded(value * size) + bitcast<f32>(p.nested_offset);
}

// Codes over the whole tensor, the first of two in the high nibble.
fn bitsandbytes(row: u32, column: u32) -> vec4<f32> {
    let first = (p.start_row + row) * p.columns + column;
    var values: vec4<f32>;
    for (var k = 0u; k < 4u; k++) {
        let i = first + k;
        let q = (word(p.weight_at + (i >> 1u)) >> (4u - (i & 1u) * 4u)) & 15u;
        values[k] = bitcast<f32>(other(p.values_at + q * 4u)) * largest(i / p.block);
    }
    return values;
}

// The division by 127 is a multiplication by the rounded reciprocal, as in the library.
fn bitsandbytes_int8(row: u32, column: u32) -> vec4<f32> {
    let codes = unpack4xI8(word(p.weight_at + row * p.row_bytes + column));
    let size = scale(p.start_row + row);
    var values: vec4<f32>;
    for (var k = 0u; k < 4u; k++) {
        values[k] = rounded(f32(codes[k]) * size) * 0.007874016f;
    }
    return values;
}

