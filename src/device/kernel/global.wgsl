// NVFP4's global scale: an f32 for the whole tensor, or one for each of its matrices, in the binding of
// the biases. crates/weighbridge-quant/src/mod.rs describes the kinds.

const NO_GLOBAL = 0u;
const FACTOR = 1u;
const AMAX = 2u;

// The largest product of a scale and an element: 448 times 6.
const REACH = 2688f;

// The quotient of two normal numbers, rounded as on the CPU if it is normal: a driver's division may be
// off by 2.5 units in the last place.
fn quotient(a: f32, b: f32) -> f32 {
    let n = bitcast<u32>(a);
    let d = bitcast<u32>(b);
    let above = (n & 0x7fffffu) | 0x800000u;
    let below = (d & 0x7fffffu) | 0x800000u;
    let is_less = above < below;
    let ea = i32((n >> 23u) & 255u);
    let eb = i32((d >> 23u) & 255u);
    let exponent = ea - eb + select(127, 126, is_less);
    if ea == 0 || ea == 255 || eb == 0 || eb == 255 || exponent < 1 || exponent > 254 {
        return a / b;
    }
    // Nearly the quotient of the significands, as 24 bits. What remains says how much it is off: a few
    // units, so that 32 bits of it suffice.
    var q = u32(f32(above) / f32(below) * select(0x1p23f, 0x1p24f, is_less));
    var rest = bitcast<i32>((above << select(23u, 24u, is_less)) - q * below);
    let unit = i32(below);
    while rest < 0 {
        q -= 1u;
        rest += unit;
    }
    while rest >= unit {
        q += 1u;
        rest -= unit;
    }
    // No such quotient lies halfway between two numbers.
    q += select(0u, 1u, 2 * rest > unit);
    return bitcast<f32>(((n ^ d) & 0x80000000u) | ((u32(exponent) << 23u) + (q - 0x800000u)));
}

// A number multiplied by the global scale of its row, or divided by it.
fn globally(row: u32, number: f32) -> f32 {
    if p.global_kind == NO_GLOBAL {
        return number;
    }
    let scale = bitcast<f32>(other(p.bias_at + (p.start_row + row) / p.outputs * 4u));
    switch p.global_kind {
        case FACTOR: { return rounded(rounded(number) * scale); }
        case AMAX: { return rounded(number * quotient(scale, REACH)); }
        default: { return quotient(number, scale); }
    }
}
