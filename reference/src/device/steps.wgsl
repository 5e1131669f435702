// What a forward pass computes between its matrices. `y` is changed in place or filled; `a`, `b` and `c` are
// inputs. All are read as words, so that numbers of tokens and experts pass unchanged. Sums are f32.

@group(0) @binding(0) var<storage, read_write> y: array<u32>;
@group(0) @binding(1) var<storage, read> a: array<u32>;
@group(0) @binding(2) var<storage, read> b: array<u32>;
@group(0) @binding(3) var<storage, read> c: array<u32>;
var<immediate> numbers: array<vec4<u32>, 4>;

// A parameter: an integer, or the bits of a float.
fn n(i: u32) -> u32 {
    return numbers[i / 4u][i % 4u];
}

fn f(i: u32) -> f32 {
    return bitcast<f32>(n(i));
}

fn ya(i: u32) -> f32 {
    return bitcast<f32>(y[i]);
}

fn aa(i: u32) -> f32 {
    return bitcast<f32>(a[i]);
}

fn ba(i: u32) -> f32 {
    return bitcast<f32>(b[i]);
}

fn ca(i: u32) -> f32 {
    return bitcast<f32>(c[i]);
}

fn put(i: u32, value: f32) {
    y[i] = bitcast<u32>(value);
}

fn unit(id: vec3<u32>, groups: vec3<u32>) -> u32 {
    return id.x + id.y * groups.x * 64u;
}

// exp and tanh of large numbers overflow on some drivers.
fn sigmoid(x: f32) -> f32 {
    return 1.0 / (1.0 + exp(-clamp(x, -80.0, 80.0)));
}

fn bounded_tanh(x: f32) -> f32 {
    return tanh(clamp(x, -15.0, 15.0));
}

// Abramowitz and Stegun, 7.1.26: off by at most 1.5e-7.
fn erf(x: f32) -> f32 {
    let size = min(abs(x), 6.0);
    let t = 1.0 / (1.0 + 0.3275911 * size);
    let sum = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
    return sign(x) * (1.0 - sum * exp(-size * size));
}

// The functions of `Function::code`, with their numbers from parameter `i` on.
fn function(kind: u32, i: u32, x: f32) -> f32 {
    switch kind {
        case 0u, 5u: { return x * sigmoid(x); }
        case 1u: { return 0.5 * x * (1.0 + erf(x * 0.70710678)); }
        case 2u: { return 0.5 * x * (1.0 + bounded_tanh(0.79788456 * (x + 0.044715 * x * x * x))); }
        case 3u: { return max(x, 0.0); }
        case 4u: { return max(x, 0.0) * max(x, 0.0); }
        case 6u: {
            // Near 0 the difference would be lost.
            let small = x * x * (0.5 + x * (1.0 / 6.0 + x * (1.0 / 24.0 + x / 120.0)));
            let left = select(exp(max(min(x, f(i + 3u)), -80.0)) - 1.0 - x, small, abs(x) < 0.1);
            return f(i + 2u) * x + select(left * f(i), f(i + 1u) * x * x, x > 0.0);
        }
        case 7u: { return clamp(x, -f(i), f(i)); }
        case 8u: { return bounded_tanh(x / f(i)) * f(i); }
        case 9u: { return bounded_tanh(x); }
        case 11u: { return select(log(1.0 + exp(min(x, 20.0))), x, x > 20.0); }
        default: { return sigmoid(x); }
    }
}

// y + f(1) * a
@compute @workgroup_size(64)
fn add(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) g: vec3<u32>) {
    let i = unit(id, g);
    if i < n(0u) {
        put(i, ya(i) + f(1u) * aa(i));
    }
}

// y + a row of a to each row, from element n(2) on; with n(3), that of the row's chosen expert in b.
@compute @workgroup_size(64)
fn add_row(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) g: vec3<u32>) {
    let i = unit(id, g);
    if i < n(0u) {
        let row = select(0u, b[i / n(1u)], n(3u) == 1u);
        put(i, ya(i) + aa(n(2u) + row * n(1u) + i % n(1u)));
    }
}

@compute @workgroup_size(64)
fn scale(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) g: vec3<u32>) {
    let i = unit(id, g);
    if i < n(0u) {
        put(i, ya(i) * f(1u));
    }
}

// Each row of y times its factor in a.
@compute @workgroup_size(64)
fn scale_rows(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) g: vec3<u32>) {
    let i = unit(id, g);
    if i < n(0u) {
        put(i, ya(i) * aa(i / n(1u)));
    }
}

@compute @workgroup_size(64)
fn apply(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) g: vec3<u32>) {
    let i = unit(id, g);
    if i < n(0u) {
        put(i, function(n(1u), 2u, ya(i)));
    }
}

// y times the function of a; gpt-oss: both are bounded, and 1 is added to y.
@compute @workgroup_size(64)
fn gated(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) g: vec3<u32>) {
    let i = unit(id, g);
    if i >= n(0u) {
        return;
    }
    if n(1u) == 5u {
        let limit = f(3u);
        let gate = min(aa(i), limit);
        put(i, (clamp(ya(i), -limit, limit) + 1.0) * gate * sigmoid(f(2u) * gate));
        return;
    }
    put(i, function(n(1u), 2u, aa(i)) * ya(i));
}

var<workgroup> parts: array<f32, 64>;

fn total(t: u32, own: f32) -> f32 {
    parts[t] = own;
    workgroupBarrier();
    for (var s = 32u; s > 0u; s >>= 1u) {
        if t < s {
            parts[t] += parts[t + s];
        }
        workgroupBarrier();
    }
    let all = parts[0];
    workgroupBarrier();
    return all;
}

fn largest(t: u32, own: f32) -> f32 {
    parts[t] = own;
    workgroupBarrier();
    for (var s = 32u; s > 0u; s >>= 1u) {
        if t < s {
            parts[t] = max(parts[t], parts[t + s]);
        }
        workgroupBarrier();
    }
    let all = parts[0];
    workgroupBarrier();
    return all;
}

// Norms of runs of n(1) values, n(2) of them in a row. n(3): the mean is subtracted first. f(4): epsilon.
// n(5), n(6): how many runs the factors in a and the biases in b are for; 0 for none.
@compute @workgroup_size(64)
fn norm(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) g: vec3<u32>, @builtin(local_invocation_index) t: u32) {
    let run = group.x + group.y * g.x;
    let width = n(1u);
    let first = run * width;
    let count = select(0u, width, run < n(0u));
    var mean = 0.0;
    if n(3u) == 1u {
        var sum = 0.0;
        for (var i = t; i < count; i += 64u) {
            sum += ya(first + i);
        }
        mean = total(t, sum) / f32(width);
    }
    var square = 0.0;
    for (var i = t; i < count; i += 64u) {
        let x = ya(first + i) - mean;
        square += x * x;
    }
    let factor = 1.0 / sqrt(total(t, square) / f32(width) + f(4u));
    let place = run % n(2u);
    for (var i = t; i < count; i += 64u) {
        var x = (ya(first + i) - mean) * factor;
        if n(5u) > 0u {
            x *= aa(place % n(5u) * width + i);
        }
        if n(6u) > 0u {
            x += ba(place % n(6u) * width + i);
        }
        put(first + i, x);
    }
}

// Turns pairs of heads that are n(2) wide, n(1) heads a row, n(3) pairs each, from element n(4) of a head on.
// n(5): how far the elements of a pair are apart. a and b: cosines and sines of each row.
@compute @workgroup_size(64)
fn turn(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) g: vec3<u32>) {
    let i = unit(id, g);
    if i >= n(0u) {
        return;
    }
    let pair = i % n(3u);
    let head = i / n(3u);
    let row = head / n(1u);
    let first = head * n(2u) + n(4u) + select(pair, 2u * pair, n(5u) == 1u);
    let x = ya(first);
    let z = ya(first + n(5u));
    let cos = aa(row * n(3u) + pair);
    let sin = ba(row * n(3u) + pair);
    put(first, x * cos - z * sin);
    put(first + n(5u), x * sin + z * cos);
}

const HIDDEN = -3.0e38;

// Whether a position sees a key. n(8): 1 if it sees those before it alone. n(9): the window, 0 for none.
// n(10): 1 if it looks back to the last multiple of the window.
fn sees(position: u32, key: u32) -> bool {
    let window = n(9u);
    if n(8u) == 1u {
        if key > position {
            return false;
        }
        if n(10u) == 1u {
            return key >= position - position % max(window, 1u);
        }
        return window == 0u || key + window > position;
    }
    return window == 0u || (key + window / 2u >= position && key <= position + window / 2u);
}

// Scores of n(1) heads of queries in a with n(3) keys in b. n(2): heads of keys. n(4): their width.
// n(5): the first row of a. n(6): the position of row 0. f(7): a factor. f(11): the bound of tanh, 0 for none.
// n(12): 1 if c has a slope for each head.
@compute @workgroup_size(64)
fn scores(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) g: vec3<u32>) {
    let i = unit(id, g);
    if i >= n(0u) {
        return;
    }
    let key = i % n(3u);
    let head = i / n(3u) % n(1u);
    let row = n(5u) + i / n(3u) / n(1u);
    if !sees(n(6u) + row, key) {
        put(i, HIDDEN);
        return;
    }
    let width = n(4u);
    let q = (row * n(1u) + head) * width;
    let k = (key * n(2u) + head / (n(1u) / n(2u))) * width;
    var sum = 0.0;
    for (var e = 0u; e < width; e++) {
        sum += aa(q + e) * ba(k + e);
    }
    sum *= f(7u);
    if n(12u) == 1u {
        sum -= ca(head) * abs(f32(n(6u) + row) - f32(key));
    }
    if f(11u) > 0.0 {
        sum = bounded_tanh(sum / f(11u)) * f(11u);
    }
    put(i, sum);
}

// Scores become weights, in runs of n(1), one for each of n(2) heads in turn. n(3): 1 if a has a score beside
// for each head.
@compute @workgroup_size(64)
fn softmax(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) g: vec3<u32>, @builtin(local_invocation_index) t: u32) {
    let run = group.x + group.y * g.x;
    let count = select(0u, n(1u), run < n(0u));
    let first = run * n(1u);
    var most = HIDDEN;
    for (var i = t; i < count; i += 64u) {
        most = max(most, ya(first + i));
    }
    most = largest(t, most);
    var beside = HIDDEN;
    if n(3u) == 1u {
        beside = aa(run % n(2u));
        most = max(most, beside);
    }
    var sum = 0.0;
    for (var i = t; i < count; i += 64u) {
        let score = ya(first + i);
        let weight = select(exp(score - most), 0.0, score <= HIDDEN);
        put(first + i, weight);
        sum += weight;
    }
    sum = total(t, sum);
    if n(3u) == 1u {
        sum += exp(beside - most);
    }
    for (var i = t; i < count; i += 64u) {
        put(first + i, ya(first + i) / sum);
    }
}

// Values in b, n(4) wide, weighed by a: n(3) weights for each of n(1) heads. n(2): heads of values.
// n(5): the first row of y.
@compute @workgroup_size(64)
fn mix(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) g: vec3<u32>) {
    let i = unit(id, g);
    if i >= n(0u) {
        return;
    }
    let width = n(4u);
    let run = i / width;
    let kv = run % n(1u) / (n(1u) / n(2u));
    var sum = 0.0;
    for (var key = 0u; key < n(3u); key++) {
        let weight = aa(run * n(3u) + key);
        if weight > 0.0 {
            sum += weight * ba((key * n(2u) + kv) * width + i % width);
        }
    }
    put(n(5u) * n(1u) * width + i, sum);
}

// The score of an expert in a. n(3): 0 softmax, 1 softmax of the chosen, 2 sigmoid.
fn scored(row: u32, expert: u32, most: f32, sum: f32) -> f32 {
    let score = aa(row * n(1u) + expert);
    switch n(3u) {
        case 0u: { return exp(score - most) / sum; }
        case 1u: { return score; }
        default: { return sigmoid(score); }
    }
}

fn most_of(row: u32) -> f32 {
    var most = aa(row * n(1u));
    for (var expert = 1u; expert < n(1u); expert++) {
        most = max(most, aa(row * n(1u) + expert));
    }
    return most;
}

fn sum_of(row: u32, most: f32) -> f32 {
    var sum = 0.0;
    for (var expert = 0u; expert < n(1u); expert++) {
        sum += exp(aa(row * n(1u) + expert) - most);
    }
    return sum;
}

// The n(2) best of n(1) experts for each row. n(4): 1 if b has what is added to scores for the choice.
@compute @workgroup_size(64)
fn choose(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) g: vec3<u32>) {
    let row = unit(id, g);
    if row >= n(0u) {
        return;
    }
    let most = most_of(row);
    let sum = sum_of(row, most);
    for (var place = 0u; place < n(2u); place++) {
        var best = 0u;
        var found = false;
        var highest = 0.0;
        for (var expert = 0u; expert < n(1u); expert++) {
            var taken = false;
            for (var before = 0u; before < place; before++) {
                taken = taken || y[row * n(2u) + before] == expert;
            }
            var score = scored(row, expert, most, sum);
            if n(4u) == 1u {
                score += ba(expert);
            }
            if !taken && (!found || score > highest) {
                best = expert;
                highest = score;
                found = true;
            }
        }
        y[row * n(2u) + place] = best;
    }
}

// The weights of the experts in b that were chosen for each row. n(4): 1 if their sum is 1. f(5): a factor.
// n(6): 1 if c has a factor for each expert.
@compute @workgroup_size(64)
fn weigh(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) g: vec3<u32>) {
    let row = unit(id, g);
    if row >= n(0u) {
        return;
    }
    let used = n(2u);
    let most = most_of(row);
    let all = sum_of(row, most);
    var sum = 0.0;
    for (var place = 0u; place < used; place++) {
        var weight = scored(row, b[row * used + place], most, all);
        if n(3u) == 1u {
            weight = exp(weight - most);
        }
        sum += weight;
        put(row * used + place, weight);
    }
    for (var place = 0u; place < used; place++) {
        var weight = ya(row * used + place);
        if n(3u) == 1u {
            weight /= sum;
        } else if n(4u) == 1u {
            weight /= sum + 1e-20;
        }
        weight *= f(5u);
        if n(6u) == 1u {
            weight *= ca(b[row * used + place]);
        }
        put(row * used + place, weight);
    }
}

// Rows of a, n(2) for each row of y, weighed by b and added.
@compute @workgroup_size(64)
fn combine(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) g: vec3<u32>) {
    let i = unit(id, g);
    if i >= n(0u) {
        return;
    }
    let row = i / n(1u);
    var sum = 0.0;
    for (var place = 0u; place < n(2u); place++) {
        let given = row * n(2u) + place;
        sum += ba(given) * aa(given * n(1u) + i % n(1u));
    }
    put(i, sum);
}
