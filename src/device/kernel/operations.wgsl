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
    let values = bitcast<vec4<f32>>(vec4<u32>(input(i), input(i + 1u), input(i + 2u), input(i + 3u)));
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
    let row = input(i) - p.first_row;
    if row >= p.rows {
        return;
    }
    let column = unit % quads * 4u;
    put(i * p.columns, column, bits4(row, column));
}

// A product is computed by 32 invocations, LANES: each multiplies every 32nd piece of the row, and the sums
// are added in an order that does not depend on the size of subgroups. A workgroup has two times as many.
const LANES = 32u;

// Rows that are multiplied with the same piece of a vector, which is read once for them.
const ROWS = 4u;

var<workgroup> sums: array<vec4<f32>, 64>;

fn reduce(t: u32, sum: vec4<f32>) -> vec4<f32> {
    sums[t] = sum;
    workgroupBarrier();
    for (var s = LANES / 2u; s > 0u; s >>= 1u) {
        if (t & (LANES - 1u)) < s {
            sums[t] += sums[t + s];
        }
        workgroupBarrier();
    }
    return sums[t & ~(LANES - 1u)];
}

// Whether rows and vectors lie so that `dot` can read them.
fn is_fast() -> bool {
    let aligned = ((p.weight_at | p.row_bytes) & (DOT_ALIGNMENT - 1u)) == 0u && (p.columns & 3u) == 0u;
    return DOT_COLUMNS > 0u && aligned;
}

// The columns that `dot` leaves, if it is used.
fn rest(fast: bool) -> u32 {
    return select(0u, p.columns - p.columns % max(DOT_COLUMNS, 1u), fast);
}

fn slow(row: u32, column: u32, activations: vec4<f32>) -> f32 {
    return dot(values4(row, column), activations);
}

// The sums of one invocation for four rows and one vector, which begins at `at`.
fn four_rows(rows: vec4<u32>, at: u32, lane: u32) -> vec4<f32> {
    var sum = vec4<f32>(0.0);
    let fast = is_fast();
    if fast {
        let v = at / 4u;
        for (var u = lane; u < p.columns / max(DOT_COLUMNS, 1u); u += LANES) {
            sum += vec4<f32>(product(rows.x, u, v), product(rows.y, u, v), product(rows.z, u, v), product(rows.w, u, v));
        }
    }
    for (var column = rest(fast) + lane * 4u; column < p.columns; column += LANES * 4u) {
        let a = activations4(at, column);
        sum += vec4<f32>(slow(rows.x, column, a), slow(rows.y, column, a), slow(rows.z, column, a), slow(rows.w, column, a));
    }
    return sum;
}

@compute @workgroup_size(64)
fn matrix_vector(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>, @builtin(local_invocation_index) t: u32) {
    let row = ((group.x + group.y * n.x) * 2u + t / LANES) * ROWS;
    let lane = t & (LANES - 1u);
    let rows = min(vec4<u32>(row, row + 1u, row + 2u, row + 3u), vec4<u32>(p.rows - 1u));
    let all = reduce(t, four_rows(rows, 0u, lane));
    if lane < ROWS && row + lane < p.rows {
        y[p.first_row + row + lane] = bitcast<u32>(all[lane]);
    }
}

// One row and four vectors at a time: each weight is decoded once for them.
@compute @workgroup_size(64)
fn matrix_matrix(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>, @builtin(local_invocation_index) t: u32) {
    let row = (group.x + group.y * n.x) * 2u + t / LANES;
    let lane = t & (LANES - 1u);
    let here = min(row, p.rows - 1u);
    let first = group.z * 4u;
    let vectors = min(vec4<u32>(first, first + 1u, first + 2u, first + 3u), vec4<u32>(p.count - 1u));
    let at = vectors * p.columns;
    var sum = vec4<f32>(0.0);
    let fast = is_fast();
    if fast {
        let v = at / 4u;
        for (var u = lane; u < p.columns / max(DOT_COLUMNS, 1u); u += LANES) {
            sum += vec4<f32>(product(here, u, v.x), product(here, u, v.y), product(here, u, v.z), product(here, u, v.w));
        }
    }
    for (var column = rest(fast) + lane * 4u; column < p.columns; column += LANES * 4u) {
        let values = values4(here, column);
        sum += vec4<f32>(dot(values, activations4(at.x, column)), dot(values, activations4(at.y, column)), dot(values, activations4(at.z, column)), dot(values, activations4(at.w, column)));
    }
    let all = reduce(t, sum);
    if lane < 4u && row < p.rows && first + lane < p.count {
        y[(first + lane) * p.all_rows + p.first_row + row] = bitcast<u32>(all[lane]);
    }
}

// Four rows of the matrix of a chosen expert. Rows of other windows are left to their dispatches.
@compute @workgroup_size(64)
fn expert_vectors(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>, @builtin(local_invocation_index) t: u32) {
    let output = ((group.x + group.y * n.x) * 2u + t / LANES) * ROWS;
    let lane = t & (LANES - 1u);
    let start = chosen[group.z] * p.all_rows - p.first_row;
    // Numbers of rows before the window are beyond its end.
    let row = start + output;
    let rows = min(vec4<u32>(row, row + 1u, row + 2u, row + 3u), vec4<u32>(p.rows - 1u));
    let all = reduce(t, four_rows(rows, group.z / p.per_vector * p.columns, lane));
    if lane < ROWS && output + lane < p.all_rows && row + lane < p.rows {
        y[group.z * p.all_rows + output + lane] = bitcast<u32>(all[lane]);
    }
}
