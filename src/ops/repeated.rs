//! Keys and values of layers that take those of another layer. Some programs require them, and read nothing of them.

use crate::arch::canonical_names;
use crate::dialect::Dialect;
use crate::error::Result;
use crate::model::{Model, Tensor};

/// The tensors of a layer that others may share.
const SHARED: [&str; 3] = ["attention.k.weight", "attention.v.weight", "attention.k_norm.weight"];

/// Adds those that a model lacks and that its family's line `requires-shared-keys` says are required: the tensors of the
/// first layer under other names. Returns their names.
pub(super) fn add(
    model: &Model,
    dialect: Dialect,
    tensors: &mut Vec<Tensor>,
) -> Result<Vec<String>> {
    let architecture = model.resolution()?.architecture.filter(|row| row.requires_shared_keys);
    let Some(architecture) = architecture.filter(|_| dialect != Dialect::HuggingFace) else {
        return Ok(Vec::new());
    };
    let Ok(config) = model.config() else { return Ok(Vec::new()) };
    let shared = config.attention.n_kv_shared_layers.as_ref().map_or(0, |shared| shared.value);
    let layers = config.n_layers.value;
    let names = canonical_names(architecture, dialect, tensors.iter().map(Tensor::name));
    let stored = |canonical: &str| names.iter().find(|(name, _)| name == canonical);
    let mut added = Vec::new();
    for part in SHARED {
        let Some((_, first)) = stored(&format!("layers.0.{part}")) else { continue };
        let Some(own) = tensors.iter().find(|tensor| tensor.name() == first).cloned() else {
            continue;
        };
        for layer in layers.saturating_sub(shared)..layers {
            if stored(&format!("layers.{layer}.{part}")).is_none() {
                added.push(own.clone().named(&first.replacen(".0.", &format!(".{layer}."), 1)));
            }
        }
    }
    let repeated = added.iter().map(|tensor| tensor.name().to_owned()).collect();
    tensors.extend(added);
    Ok(repeated)
}

/// A note on what was added for a program.
pub(super) fn note(repeated: &[String], program: &str) -> Option<String> {
    let (first, others) = repeated.split_first()?;
    let more = match others.len() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    Some(format!(
        "{first}{more}: copies of the first layer's, which {program} requires and does not read: the layers take the keys \
         and values of another one"
    ))
}
