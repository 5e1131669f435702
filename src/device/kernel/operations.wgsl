// The operations. Each uses `bits4(row, column)`: the bits of four f32 values of a row, from a
// column that is a multiple of 4. Values beyond the end of the row are unspecified.

// Bits go to the output as they are: a float register might change NaN and subnormal numbers.
fn values4(row: u32, column: u32) -> vec4<f32> {
    let values = bitcast<vec4<f32>>(bits4(row, column));
    if column + 4u <= p.columns {
        return values;
    }
    return select(vec4<f32>(0.0), values, inside(column));
}

fn inside(column: u32) -> vec4<bool> {
    return vec4<u32>(column) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(p.columns);
}

fn activations4(at: u32, column: u32) -> vec4<f32> {
    let i = at + column;
    let values = bitcast<vec4<f32>>(vec4<u32>(x[i], x[i + 1u], x[i + 2u], x[i + 3u]));
    return select(vec4<f32>(0.0), values, inside(column));
}

fn put(at: u32, column: u32, bits: vec4<u32>) {
    for (var k = 0u; k < 4u; k++) {
        if column + k < p.columns {
            y[at + column + k] = bits[k];
        }
    }
}

@compute @workgroup_size(64)
fn dequantize_f32(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>) {
    let unit = id.x + id.y * n.x * 64u;
    let quads = (p.columns + 3u) / 4u;
    let row = unit / quads;
    if row >= p.rows {
        return;
    }
    let column = unit % quads * 4u;
    put((p.first_row + row) * p.columns, column, bits4(row, column));
}

fn element(i: u32) -> u32 {
    let column = i % p.columns;
    return bits4(i / p.columns, column & ~3u)[column & 3u];
}

@compute @workgroup_size(64)
fn dequantize_f16(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>) {
    let unit = id.x + id.y * n.x * 64u;
    let total = p.rows * p.columns;
    let first = unit * 4u;
    if first >= total {
        return;
    }
    var bits = vec4<u32>(0u);
    if (p.columns & 3u) == 0u {
        bits = bits4(first / p.columns, first % p.columns);
    } else {
        for (var k = 0u; k < 4u; k++) {
            if first + k < total {
                bits[k] = element(first + k);
            }
        }
    }
    let at = p.first_row * p.columns / 2u + unit * 2u;
    y[at] = narrow(bits.x) | (narrow(bits.y) << 16u);
    if first + 2u < total {
        y[at + 1u] = narrow(bits.z) | (narrow(bits.w) << 16u);
    }
}

@compute @workgroup_size(64)
fn get_rows(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>) {
    let unit = id.x + id.y * n.x * 64u;
    let quads = (p.columns + 3u) / 4u;
    let i = unit / quads;
    if i >= p.count {
        return;
    }
    // Rows of other windows are left to their dispatches.
    let row = x[i] - p.first_row;
    if row >= p.rows {
        return;
    }
    let column = unit % quads * 4u;
    put(i * p.columns, column, bits4(row, column));
}

var<workgroup> sums: array<vec4<f32>, 64>;

// The sum over the workgroup, in an order that does not depend on the size of subgroups.
fn reduce(t: u32, sum: vec4<f32>) -> vec4<f32> {
    sums[t] = sum;
    workgroupBarrier();
    for (var s = 32u; s > 0u; s >>= 1u) {
        if t < s {
            sums[t] += sums[t + s];
        }
        workgroupBarrier();
    }
    return sums[0];
}

@compute @workgroup_size(64)
fn matrix_vector(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>, @builtin(local_invocation_index) t: u32) {
    let row = group.x + group.y * n.x;
    var sum = vec4<f32>(0.0);
    if row < p.rows {
        for (var column = t * 4u; column < p.columns; column += 256u) {
            sum += values4(row, column) * activations4(0u, column);
        }
    }
    let all = reduce(t, sum);
    if t == 0u && row < p.rows {
        y[p.first_row + row] = bitcast<u32>((all.x + all.y) + (all.z + all.w));
    }
}

// Four columns of the right matrix at a time: each weight is decoded once for them.
@compute @workgroup_size(64)
fn matrix_matrix(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>, @builtin(local_invocation_index) t: u32) {
    let row = group.x + group.y * n.x;
    let first = group.z * 4u;
    var sum = vec4<f32>(0.0);
    if row < p.rows {
        for (var column = t * 4u; column < p.columns; column += 256u) {
            let values = values4(row, column);
            for (var k = 0u; k < 4u; k++) {
                if first + k < p.count {
                    let product = values * activations4((first + k) * p.columns, column);
                    sum[k] += (product.x + product.y) + (product.z + product.w);
                }
            }
        }
    }
    let all = reduce(t, sum);
    if t < 4u && row < p.rows && first + t < p.count {
        y[(first + t) * p.all_rows + p.first_row + row] = bitcast<u32>(all[t]);
    }
}

// One row of the matrix of a chosen expert. Rows of other windows are left to their dispatches.
@compute @workgroup_size(64)
fn expert_vectors(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>, @builtin(local_invocation_index) t: u32) {
    let output = group.x + group.y * n.x;
    let row = chosen[group.z] * p.all_rows + output - p.first_row;
    let here = output < p.all_rows && row < p.rows;
    var sum = vec4<f32>(0.0);
    if here {
        let first = group.z / p.per_vector * p.columns;
        for (var column = t * 4u; column < p.columns; column += 256u) {
            sum += values4(row, column) * activations4(first, column);
        }
    }
    let all = reduce(t, sum);
    if t == 0u && here {
        y[group.z * p.all_rows + output] = bitcast<u32>((all.x + all.y) + (all.z + all.w));
    }
}
