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
        // Codes are read as such next to their scales under this name alone.
        Part::Weight if tensor.group_size.is_some() => format!("{base}.weight"),
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
    let mut found: Vec<(&NewTensor, Json)> = Vec::new();
    for tensor in tensors {
        let forms = MODES.iter().flat_map(|mode| mode.forms.iter().map(move |form| (mode, form)));
        let row = forms.into_iter().find(|(_, (.., dtype))| *dtype == tensor.dtype);
        let (Some((mode, (bits, ..))), Some(size)) = (row, tensor.group_size) else { continue };
        found.push((tensor, json!({ "group_size": size, "bits": bits, "mode": mode.name })));
    }
    let count = |json: &Json| found.iter().filter(|(_, other)| other == json).count();
    let usual = found.iter().map(|(_, json)| json).max_by_key(|json| count(json))?.clone();
    let mut config: Map<String, Json> = usual.as_object().cloned().unwrap_or_default();
    for (tensor, mut json) in found.into_iter().filter(|(_, json)| *json != usual) {
        // mlx-lm looks for the array itself only where nothing is listed.
        let has_global = tensor.parts.iter().any(|part| part.part == Part::GlobalAmax);
        if let Some(entry) = json.as_object_mut().filter(|_| has_global) {
            entry.insert("global_scale".to_owned(), true.into());
        }
        let path = tensor.name.strip_suffix(".weight").unwrap_or(&tensor.name);
        config.insert(path.to_owned(), json);
    }
    Some(Json::Object(config))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::writer::NewPart;

    fn tensor(name: &str, dtype: DType, group_size: u32, parts: &[Part]) -> NewTensor {
        let part = |part: &Part| NewPart {
            part: *part,
            dtype: DType::F32,
            shape: Vec::new(),
            bytes: 0,
            stored_name: None,
        };
        NewTensor {
            name: name.to_owned(),
            dtype,
            group_size: Some(group_size),
            shape: Vec::new(),
            parts: parts.iter().map(part).collect(),
            experts: None,
            rank: None,
        }
    }

    #[test]
    fn listed_experts_say_that_they_have_global_scales() {
        let (nvfp4, affine) = (DType::MLX_NVFP4, DType::MLX_AFFINE8);
        let experts = [Part::Weight, Part::Scale, Part::GlobalAmax];
        let few = [
            tensor("a.weight", affine, 64, &[Part::Weight]),
            tensor("b.weight", affine, 64, &[Part::Weight]),
            tensor("experts.weight", nvfp4, 16, &experts),
        ];
        let expected = json!({"group_size": 64, "bits": 8, "mode": "affine",
            "experts": {"group_size": 16, "bits": 4, "mode": "nvfp4", "global_scale": true}});
        assert_eq!(quantization(&few), Some(expected));
        // What is not listed is known by its arrays.
        let usual = json!({"group_size": 16, "bits": 4, "mode": "nvfp4"});
        assert_eq!(quantization(&few[2..]), Some(usual));
    }
}
