//! Writes MLX directories as mlx-lm does.

use super::super::groups::MODES;
use super::super::safetensors::write::{DirectoryLayout, directory, is_plain};
use super::super::writer::{DocumentKinds, NewPart, NewTensor, Placement, Writer};
use crate::dialect::Dialect;
use crate::dtype::DType;
use crate::json::{Json, Map, json};
use crate::store::Part;

/// The writer of MLX directories.
pub(crate) const WRITER: Writer = Writer {
    name: "MLX",
    summary: "A directory as mlx-lm reads it",
    dialect: Dialect::Mlx,
    placement: Placement::Directory,
    metadata: &[("format", "mlx")],
    // mlx-lm's maximum file size.
    shard_bytes: Some(5 << 30),
    // MLX loads floats of 8 bits as integers, and has none that are narrower.
    holds: |dtype, parts| {
        let is_narrow = dtype.bits() <= 8 && !dtype.is_integer();
        let is_other = parts.contains(&Part::GlobalScale);
        (is_plain(dtype) && dtype != DType::F64 && !is_narrow) || (is_mlx(dtype) && !is_other)
    },
    repacks_to: is_mlx,
    global: Part::GlobalAmax,
    // mlx-lm's modules of experts have one for each expert, its linear layers have none.
    takes_global: |shape| shape.len() == 3,
    rounds_divisors: false,
    fallback: Some((DType::MLX_AFFINE8, 32)),
    widens_plain: true,
    keeps_schemes: false,
    documents: DocumentKinds::All,
    quantization_in_config: true,
    expert: None,
    layout: |model| directory(model, &MLX_LM),
};

const MLX_LM: DirectoryLayout = DirectoryLayout { part_name, always_indexed: true, quantization };

/// Whether a dtype is one of MLX's quantized dtypes.
fn is_mlx(dtype: DType) -> bool {
    dtype.group_quantizer().is_some()
}

fn part_name(tensor: &NewTensor, part: &NewPart) -> String {
    let base = tensor.name.strip_suffix(".weight").unwrap_or(&tensor.name);
    match part.part {
        Part::Weight => tensor.name.clone(),
        Part::Scale => format!("{base}.scales"),
        Part::Bias => format!("{base}.biases"),
        Part::GlobalAmax => format!("{base}.global_scale"),
        other => format!("{base}.{}", other.name()),
    }
}

/// The `quantization` of `config.json`: the parameters that most tensors have, and, under their
/// paths, the parameters of the others.
fn quantization(tensors: &[NewTensor]) -> Option<Json> {
    let mut found: Vec<(&str, Json)> = Vec::new();
    for tensor in tensors {
        let forms = MODES.iter().flat_map(|mode| mode.forms.iter().map(move |form| (mode, form)));
        let row = forms.into_iter().find(|(_, (.., dtype))| *dtype == tensor.dtype);
        let (Some((mode, (bits, ..))), Some(size)) = (row, tensor.group_size) else { continue };
        let path = tensor.name.strip_suffix(".weight").unwrap_or(&tensor.name);
        found.push((path, json!({ "group_size": size, "bits": bits, "mode": mode.name })));
    }
    let count = |json: &Json| found.iter().filter(|(_, other)| other == json).count();
    let usual = found.iter().map(|(_, json)| json).max_by_key(|json| count(json))?.clone();
    let mut config: Map<String, Json> = usual.as_object().cloned().unwrap_or_default();
    for (path, json) in found.iter().filter(|(_, json)| *json != usual) {
        config.insert((*path).to_owned(), json.clone());
    }
    Some(Json::Object(config))
}
