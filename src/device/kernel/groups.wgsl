// Codes in one array, and scales and biases in others: MLX's groups. BITS, SCALE and BIAS are
// constants before this text: the bits of a code, and the formats of the numbers.

const IS_F32 = 0u;
const IS_F16 = 1u;
const IS_BF16 = 2u;
const IS_E8M0 = 3u;
const IS_E4M3 = 4u;

// A number from the word that has its first byte, shifted so that it begins at bit 0.
fn number(format: u32, bits: u32) -> f32 {
    switch format {
        case IS_F32: { return bitcast<f32>(bits); }
        case IS_F16: { return half(bits & 0xffffu); }
        case IS_BF16: { return bitcast<f32>(bits << 16u); }
        case IS_E8M0: { return bitcast<f32>(select((bits & 255u) << 23u, 0x400000u, (bits & 255u) == 0u)); }
        default: { return e4m3(bits & 255u); }
    }
}

fn width(format: u32) -> u32 {
    return select(select(1u, 2u, format == IS_F16 || format == IS_BF16), 4u, format == IS_F32);
}

// F32 scales may begin at any multiple of 2.
fn scale(i: u32) -> f32 {
    let at = p.scale_at + i * width(SCALE);
    var bits = scales[at >> 2u] >> ((at & 3u) * 8u);
    if SCALE == IS_F32 && (at & 2u) != 0u {
        bits |= scales[(at >> 2u) + 1u] << 16u;
    }
    return number(SCALE, bits);
}

fn bias(i: u32) -> f32 {
    let at = p.bias_at + i * width(BIAS);
    var bits = biases[at >> 2u] >> ((at & 3u) * 8u);
    if BIAS == IS_F32 && (at & 2u) != 0u {
        bits |= biases[(at >> 2u) + 1u] << 16u;
    }
    return number(BIAS, bits);
}

fn codes(row: u32, column: u32) -> vec4<u32> {
    let bit = column * BITS;
    let v = word(p.weight_at + row * p.row_bytes + (bit >> 3u)) >> (bit & 7u);
    return (vec4<u32>(v) >> vec4<u32>(0u, BITS, 2u * BITS, 3u * BITS)) & vec4<u32>((1u << BITS) - 1u);
}

fn group(row: u32, column: u32) -> u32 {
    return row * p.groups + column / p.group_size;
}

fn affine(row: u32, column: u32) -> vec4<f32> {
    let g = group(row, column);
    return vec4<f32>(codes(row, column)) * scale(g) + bias(g);
}

fn scaled_e2m1(row: u32, column: u32) -> vec4<f32> {
    return e2m1s(codes(row, column)) * scale(group(row, column));
}

fn scaled_e4m3(row: u32, column: u32) -> vec4<f32> {
    let c = codes(row, column);
    return vec4<f32>(e4m3(c.x), e4m3(c.y), e4m3(c.z), e4m3(c.w)) * scale(group(row, column));
}
