// Converts pairs of f16, to see what the driver makes of them.

@group(0) @binding(0) var<storage, read> pairs: array<u32>;
@group(0) @binding(1) var<storage, read_write> values: array<vec2<f32>>;

@compute @workgroup_size(1)
fn convert(@builtin(workgroup_id) group: vec3<u32>) {
    values[group.x] = unpack2x16float(pairs[group.x]);
}
