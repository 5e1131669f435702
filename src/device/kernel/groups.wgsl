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
    return vec4<f32>(codes(row, column)) * scale(g) + bias(g);
}

fn scaled_e2m1(row: u32, column: u32) -> vec4<f32> {
    return e2m1s(codes(row, column)) * globally(row, scale(group(row, column)));
}

fn scaled_e4m3(row: u32, column: u32) -> vec4<f32> {
    let c = codes(row, column);
    return vec4<f32>(e4m3(c.x), e4m3(c.y), e4m3(c.z), e4m3(c.w)) * scale(group(row, column));
}
