//! A model's tensors under the names, and in the order and with the values, of a dialect.

use crate::arch::{Axes, Dialect, DialectTensor, Mapping, Transform, dialect_tensors};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::model::{Convention, Tensor};

/// A model's tensors as a dialect has them.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Named {
    /// By the dialect's names, in the order of the files that are read.
    pub tensors: Vec<Tensor>,
    /// Tensors that are left out, each with the reason.
    pub left_out: Vec<(String, String)>,
    /// Names of experts that transformers keeps with rows as columns unless they are in MXFP4, as
    /// these are.
    pub(super) in_mxfp4: Vec<String>,
}

/// The tensors of a model under the names of a dialect, with its shapes and values: what
/// [`convert`](super::convert) writes, but for dtypes and documents. Experts of gpt-oss in MXFP4 lie as
/// transformers has those: not transposed, as plain ones are.
///
/// # Errors
///
/// `Unsupported` if the architecture is not known, or a tensor is none that it is known to have, or
/// the dialect keeps it in a way that this model's cannot be brought into; `Mismatch` if tensors are
/// not what the config says.
pub fn tensors_in(model: &Model, dialect: Dialect) -> Result<Named> {
    let (store, resolution) = (model.store(), model.resolution()?);
    if resolution.dialect == dialect {
        let tensors = model.stored_tensors().collect();
        return Ok(Named { tensors, ..Named::default() });
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
    let mut named = Named::default();
    for auxiliary in &resolution.auxiliary {
        named.left_out.push((auxiliary.stored.clone(), auxiliary.reason.to_owned()));
    }
    let canonical: Vec<&str> = resolution.mapped.iter().map(|m| m.canonical.as_str()).collect();
    let mapping = |name: &str| model.mapping(name).ok().flatten();
    let stored = |name: &str| mapping(name).map(|of| (&of.stored, of.transform));
    let one = |a: &str, b: &str| stored(a).is_some_and(|a| stored(b) == Some(a));
    let (spelled, without) = dialect_tensors(architecture, dialect, &canonical, one);
    let nameless = format!("{} has no name for it", dialect.name());
    named.left_out.extend(without.into_iter().map(|name| (name, nameless.clone())));
    let config = model.config().ok();
    for DialectTensor { name, parts } in &spelled {
        // Experts that are stored in one are taken apart.
        let apart = name.contains("{e}");
        let whole = if apart { None } else { unchanged(model, parts)? };
        if let Some(view) = whole {
            named.tensors.push(view.named(name));
            continue;
        }
        // Transforms are told of canonical tensors, whatever the model serves.
        let canonical = |part: &String| model.tensor_in(part, Convention::HuggingFace);
        let views = parts.iter().map(|(part, transform)| Ok((canonical(part)?, *transform)));
        let mut views = views.collect::<Result<Vec<(Tensor, Transform)>>>()?;
        if views.iter().all(stays_packed) {
            views.iter_mut().for_each(|(_, transform)| transform.axes = Axes::Same);
            named.in_mxfp4.push(name.clone());
        }
        if !apart {
            named.tensors.push(Tensor::stored_as(name, views, config)?);
            continue;
        }
        let experts =
            views.first().and_then(|(view, _)| view.shape().first()).copied().unwrap_or(0);
        if experts == 0 {
            named.left_out.push((name.clone(), "there are no experts".to_owned()));
        }
        // Each has rows of its own; a shape alone may promise any number.
        let rows = views.iter().map(|(view, _)| view.elements()).max().unwrap_or(0);
        if experts > rows.max(1) {
            let fault = format!("{experts} experts without a value");
            return Err(Error::mismatch(fault).in_tensor(name).in_file(store.path()));
        }
        for expert in 0..experts {
            let name = name.replace("{e}", &expert.to_string());
            let parts = views.iter().map(|(view, transform)| Ok((view.array(expert)?, *transform)));
            let parts = parts.collect::<Result<_>>()?;
            named.tensors.push(Tensor::stored_as(&name, parts, config)?);
        }
    }
    Ok(named)
}

/// Whether a part of a tensor is written with the codes that it has, and so in the order of those.
fn stays_packed((view, transform): &(Tensor, Transform)) -> bool {
    let mxfp4 = |dtype: DType| dtype.repack_to(DType::HF_MXFP4).is_some();
    transform.axes == Axes::TransposedIfPlain && view.dtype().is_ok_and(mxfp4)
}

/// The stored tensor that holds those canonical ones in the very same way, if one does: then all
/// of it is what it should be, whatever the way.
fn unchanged(model: &Model, parts: &[(String, Transform)]) -> Result<Option<Tensor>> {
    let mut stored: Option<&String> = None;
    for (part, transform) in parts {
        let Some(Mapping { stored: names, stacked: false, transform: own, .. }) =
            model.mapping(part)?
        else {
            return Ok(None);
        };
        let [name] = names.as_slice() else { return Ok(None) };
        if own != transform || stored.is_some_and(|stored| stored != name) {
            return Ok(None);
        }
        stored = Some(name);
    }
    stored.map(|name| model.stored_tensor(name)).transpose()
}
