// Codes in one array, and scales and biases in others: MLX's groups, and the floats of checkpoints.

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
    let s = scale(g);
    let q = vec4<f32>(codes(row, column));
    if SCALE == IS_F32 {
        // The product has more than 24 bits, and must not be part of a fused sum: it is rounded on the CPU.
        return vec4<f32>(rounded(q.x * s), rounded(q.y * s), rounded(q.z * s), rounded(q.w * s)) + bias(g);
    }
    return q * s + bias(g);
}

// Products of 32 elements of four bits, which have one scale: MLX has groups of 32, 64 and 128, and a model
// with others does not open.
fn affine4_dot(row: u32, u: u32, v: u32) -> f32 {
    let q = w[(p.weight_at + row * p.row_bytes) / 16u + u];
    let g = group(row, u * 32u);
    let k = v + u * 8u;
    let x0 = vector(k);
    let x1 = vector(k + 1u);
    let x2 = vector(k + 2u);
    let x3 = vector(k + 3u);
    let x4 = vector(k + 4u);
    let x5 = vector(k + 5u);
    let x6 = vector(k + 6u);
    let x7 = vector(k + 7u);
    var sum = nibbles_dot(vec4<f32>(0.0), q.x, 0.0, x0, x1);
    sum = nibbles_dot(sum, q.y, 0.0, x2, x3);
    sum = nibbles_dot(sum, q.z, 0.0, x4, x5);
    sum = nibbles_dot(sum, q.w, 0.0, x6, x7);
    return scale(g) * dot(sum, SIXTEENTHS) + bias(g) * sum4(((x0 + x1) + (x2 + x3)) + ((x4 + x5) + (x6 + x7)));
}

fn scaled_e2m1(row: u32, column: u32) -> vec4<f32> {
    return e2m1s(codes(row, column)) * globally(row, scale(group(row, column)));
}

fn scaled_e4m3(row: u32, column: u32) -> vec4<f32> {
    let c = codes(row, column);
    return vec4<f32>(e4m3(c.x), e4m3(c.y), e4m3(c.z), e4m3(c.w)) * scale(group(row, column));
}
