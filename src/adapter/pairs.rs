//! The pairs of matrices that an adapter has.

use super::Layout;
use crate::error::{Error, Result};
use crate::model::Model;

/// Pairs the matrices of an adapter: the names of A and B of each target, in the order of A.
pub(super) fn paired(found: Vec<(String, bool, String)>) -> Result<Vec<(String, String, String)>> {
    let mut pairs: Vec<(String, Option<String>, Option<String>)> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for (target, is_a, stored) in found {
        let place = *places.entry(target.clone()).or_insert_with(|| {
            pairs.push((target.clone(), None, None));
            pairs.len().saturating_sub(1)
        });
        let Some((_, a, b)) = pairs.get_mut(place) else { continue };
        let side = if is_a { a } else { b };
        if let Some(other) = side.replace(stored.clone()) {
            let fault = format!("it and \"{other}\" are the same matrix of one adapter");
            return Err(Error::malformed(fault).in_tensor(stored));
        }
    }
    let whole = |(target, a, b): (String, Option<String>, Option<String>)| match (a, b) {
        (Some(a), Some(b)) => Ok((target, a, b)),
        (a, b) => {
            let side = if a.is_none() { "A" } else { "B" };
            let fault = format!("the adapter lacks matrix {side} of {target}");
            Err(Error::malformed(fault).in_tensor(a.or(b).unwrap_or_default()))
        }
    };
    pairs.into_iter().map(whole).collect()
}

/// The rank of a pair of matrices, which is the dimension that both have.
pub(super) fn rank_of(model: &Model, layout: Layout, a: &str, b: &str) -> Result<u64> {
    let (first, second) = (model.stored_tensor(a)?, model.stored_tensor(b)?);
    let (by_a, by_b) = match (first.shape(), second.shape()) {
        // The experts of mlx-lm have the usual layout.
        ([_, rank], [other, _]) if layout == Layout::Mlx => (*rank, *other),
        ([.., _, rank], [.., _, other]) if layout == Layout::GgufEmbedding => (*rank, *other),
        ([.., rank, _], [.., _, other]) => (*rank, *other),
        (shape, other) => {
            let fault =
                format!("shape {shape:?}, and {b} has shape {other:?}: matrices are required");
            return Err(Error::unsupported(fault).in_tensor(a));
        }
    };
    if by_a != by_b || by_a == 0 {
        let fault = format!("rank {by_a}, but {b} has rank {by_b}: both need one rank above 0");
        return Err(Error::malformed(fault).in_tensor(a));
    }
    Ok(by_a)
}
