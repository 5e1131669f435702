//! Compares tensor shapes with those that the config determines.

use crate::arch::size::Size;
use crate::arch::{ModelConfig, Resolution};

/// The tensor whose rows are those of all key heads.
const KEYS: &str = ".attention.k.weight";

/// A canonical name with the shape of the tensor, or the fault of a tensor that cannot be derived.
type NamedShape<'n> = (&'n str, Result<Vec<u64>, String>);

/// The faults of canonical tensors that cannot be derived, or whose shapes differ from those that the config determines.
/// If heads of one width explain all shapes in attention, that is the fault.
pub(super) fn faults(
    config: &ModelConfig,
    resolution: &Resolution,
    shapes: &[NamedShape<'_>],
) -> Vec<String> {
    let faults = |config: &ModelConfig| {
        let of = |(name, shape): &NamedShape<'_>| match shape {
            Ok(shape) => fault(config, resolution, name, shape),
            Err(fault) => Some(fault.clone()),
        };
        shapes.iter().filter_map(of).collect::<Vec<String>>()
    };
    let found = faults(config);
    let other = if found.is_empty() { None } else { head_width(config, shapes) };
    let Some(width) = other else { return found };
    let mut others = faults(&with_heads_of(config, width));
    if others.len() >= found.len() || others.iter().any(|fault| fault.contains(".attention.")) {
        return found;
    }
    let stated = &config.head_dim;
    others.insert(
        0,
        format!(
            "head_dim ({}) is {}, but the matrices of attention have heads of {width} elements in every layer: head_dim: \
             {width} in config.json would fit",
            stated.source, stated.value
        ),
    );
    others
}

/// The width of a head by the rows of keys, of a model with a `config.json` that says otherwise.
fn head_width(config: &ModelConfig, shapes: &[NamedShape<'_>]) -> Option<u32> {
    let (_, shape) = shapes.iter().find(|(name, _)| name.ends_with(KEYS))?;
    let shape = shape.as_ref().ok().filter(|_| shapes.iter().all(|(_, shape)| shape.is_ok()))?;
    let (rows, heads) = (shape.first()?, u64::from(config.n_kv_heads.value));
    let width = rows.checked_div(heads).filter(|width| width.checked_mul(heads) == Some(*rows))?;
    let width = u32::try_from(width).ok().filter(|width| *width > 0)?;
    let source = config.n_heads.source.document_name();
    let is_one = config.attention.local_head_dim.is_none() && width != config.head_dim.value;
    (is_one && source == Some("config.json")).then_some(width)
}

/// The config of the same model with heads of another width.
fn with_heads_of(config: &ModelConfig, width: u32) -> ModelConfig {
    let mut other = config.clone();
    if let Some(values) = &mut other.attention.value_head_dim
        && values.value == config.head_dim.value
    {
        values.value = width;
    }
    other.head_dim.value = width;
    other
}

/// The fault of a canonical tensor whose shape differs from the one that the config determines.
fn fault(
    config: &ModelConfig,
    resolution: &Resolution,
    canonical: &str,
    shape: &[u64],
) -> Option<String> {
    let tensor = resolution.canonical_tensor(canonical)?;
    let layer = tensor.layer.unwrap_or(0);
    let mut expected = Vec::new();
    for sizes in tensor.shapes(Some(config)) {
        // A size that the config does not state is not checked.
        let stated = |size: &Size| match size {
            Size::Any => Some(None),
            size => size.of(config, layer).map(Some),
        };
        let Some(stated) = sizes.iter().map(stated).collect::<Option<Vec<_>>>() else { continue };
        if fits(&stated, shape) {
            return None;
        }
        let lengths: Option<Vec<u64>> = stated.into_iter().collect();
        expected.extend(lengths.map(|lengths| (lengths, sizes)));
    }
    // The closest of the allowed shapes is reported.
    let distance = |(lengths, _): &&(Vec<u64>, &[Size])| {
        let same = lengths.iter().zip(shape).filter(|(a, b)| a == b).count();
        (lengths.len() != shape.len(), lengths.len().saturating_sub(same))
    };
    let (lengths, sizes) = expected.iter().min_by_key(distance)?;
    let wrong = sizes.iter().zip(lengths).enumerate();
    let wrong: Vec<String> = wrong
        .filter(|(axis, (_, length))| shape.get(*axis) != Some(length))
        .map(|(_, (size, length))| format!("{} is {length}", size.describe(config)))
        .collect();
    Some(format!("{canonical}: the shape is {shape:?}, but {}", wrong.join(" and ")))
}

/// Whether a shape has the stated lengths; `None` stands for any. A vector may be stored as a matrix of one row or one column.
fn fits(stated: &[Option<u64>], shape: &[u64]) -> bool {
    let stated = stated.iter().filter(|length| **length != Some(1));
    let found: Vec<u64> = shape.iter().copied().filter(|&length| length != 1).collect();
    let same = |(stated, found): (&Option<u64>, &u64)| stated.is_none_or(|stated| stated == *found);
    stated.clone().count() == found.len() && stated.zip(&found).all(same)
}
