// Scales and biases. Before this text are constants: BITS, the bits of a code, and SCALE and BIAS, the
// formats of the numbers.

const IS_F32 = 0u;
const IS_F16 = 1u;
const IS_BF16 = 2u;
const IS_E8M0 = 3u;
const IS_E4M3 = 4u;
const IS_U8 = 5u;

// A number from the word that has its first byte, shifted so that it begins at bit 0.
fn number(format: u32, bits: u32) -> f32 {
    switch format {
        case IS_F32: { return bitcast<f32>(bits); }
        case IS_F16: { return half(bits & 0xffffu); }
        case IS_BF16: { return bitcast<f32>(bits << 16u); }
        case IS_E8M0: { return bitcast<f32>(select((bits & 255u) << 23u, 0x400000u, (bits & 255u) == 0u)); }
        case IS_E4M3: { return e4m3(bits & 255u); }
        default: { return f32(bits & 255u); }
    }
}

fn width(format: u32) -> u32 {
    return select(select(1u, 2u, format == IS_F16 || format == IS_BF16), 4u, format == IS_F32);
}

// Numbers may begin at any byte. WGSL has no pointers to storage as arguments, hence the same twice.
fn scale(i: u32) -> f32 {
    let at = p.scale_at + i * width(SCALE);
    let shift = (at & 3u) * 8u;
    var bits = scales[at >> 2u] >> shift;
    if (at & 3u) + width(SCALE) > 4u {
        bits |= scales[(at >> 2u) + 1u] << (32u - shift);
    }
    return number(SCALE, bits);
}

fn bias(i: u32) -> f32 {
    let at = p.bias_at + i * width(BIAS);
    let shift = (at & 3u) * 8u;
    var bits = biases[at >> 2u] >> shift;
    if (at & 3u) + width(BIAS) > 4u {
        bits |= biases[(at >> 2u) + 1u] << (32u - shift);
    }
    return number(BIAS, bits);
}

