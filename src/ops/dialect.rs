//! A model's tensors under the names, and in the order and with the values, of a dialect.

use crate::arch::{Dialect, Mapping, Spelled, Transform, spell};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::provider::WeightProvider;
use crate::view::View;

/// A model's tensors as a dialect has them.
#[derive(Debug, Default)]
pub(super) struct Spoken<'a> {
    /// By the dialect's names, in the order of the files that are read.
    pub(super) tensors: Vec<View<'a>>,
    /// Tensors that are left out, each with the reason.
    pub(super) left_out: Vec<(String, String)>,
}

/// The tensors of a model as a dialect has them.
///
/// # Errors
///
/// `Unsupported` if the architecture is not known, or a tensor is none that it is known to have.
pub(super) fn speak<D: Device>(model: &WeightProvider<D>, dialect: Dialect) -> Result<Spoken<'_>> {
    let (store, resolution) = (model.store(), model.resolution());
    if resolution.dialect == dialect {
        let tensors = store.tensors().map(View::stored).collect();
        return Ok(Spoken { tensors, left_out: Vec::new() });
    }
    let Some(architecture) = resolution.architecture else {
        let fault = format!(
            "its tensors cannot be given the names of {}: {}",
            dialect.name(),
            resolution.reason
        );
        return Err(Error::unsupported(fault).in_file(store.path()));
    };
    if let Some(unknown) = resolution.unknown.first() {
        let others = match resolution.unknown.len() {
            1 => String::new(),
            several => format!(", and {} more", several - 1),
        };
        let fault = format!("no tensor of {} that is known{others}", architecture.name);
        return Err(Error::unsupported(fault).in_tensor(unknown).in_file(store.path()));
    }
    let mut spoken = Spoken::default();
    for auxiliary in &resolution.auxiliary {
        spoken.left_out.push((auxiliary.stored.clone(), auxiliary.reason.to_owned()));
    }
    let canonical: Vec<&str> = resolution.mapped.iter().map(|m| m.canonical.as_str()).collect();
    let (spelled, without) = spell(architecture, dialect, &canonical);
    let nameless = format!("{} has no name for it", dialect.name());
    spoken.left_out.extend(without.into_iter().map(|name| (name, nameless.clone())));
    let config = model.config().ok();
    for Spelled { name, parts } in &spelled {
        // Experts that are stored in one are taken apart.
        let whole = if name.contains("{e}") { None } else { unchanged(model, parts)? };
        if let Some(view) = whole {
            spoken.tensors.push(view.named(name));
            continue;
        }
        let views = parts.iter().map(|(part, transform)| Ok((model.tensor(part)?, *transform)));
        let views = views.collect::<Result<Vec<(View<'_>, Transform)>>>()?;
        if !name.contains("{e}") {
            spoken.tensors.push(View::stored_as(name, views, config.as_ref())?);
            continue;
        }
        let experts = views.first().and_then(|(view, _)| view.shape().first()).copied();
        for expert in 0..experts.unwrap_or(0) {
            let name = name.replace("{e}", &expert.to_string());
            let parts = views.iter().map(|(view, transform)| Ok((view.array(expert)?, *transform)));
            let parts = parts.collect::<Result<_>>()?;
            spoken.tensors.push(View::stored_as(&name, parts, config.as_ref())?);
        }
    }
    Ok(spoken)
}

/// The stored tensor that holds those canonical ones in the very same way, if one does: then all
/// of it is what it should be, whatever the way.
fn unchanged<'a, D: Device>(
    model: &'a WeightProvider<D>,
    parts: &[(String, Transform)],
) -> Result<Option<View<'a>>> {
    let mut stored: Option<&String> = None;
    for (part, transform) in parts {
        let Some(Mapping { stored: names, stacked: false, transform: own, .. }) =
            model.mapping(part)
        else {
            return Ok(None);
        };
        let [name] = names.as_slice() else { return Ok(None) };
        if own != transform || stored.is_some_and(|stored| stored != name) {
            return Ok(None);
        }
        stored = Some(name);
    }
    stored.map(|name| model.store().tensor(name).map(View::stored)).transpose()
}
