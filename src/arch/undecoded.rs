//! Arrays of a quantization scheme that is not decoded, by the canonical tensors that they stand for. Their values are
//! unknown, but which tensor of which layer they belong to follows from their module's name.

use super::resolution::{Resolution, Undecoded};
use crate::store::Store;

/// Names of a module's tensors that no scheme replaces with arrays.
const PLAIN: &[&str] = &["bias"];

/// The arrays that stand for canonical tensors: those of the module of `MODULE.weight`, such as `MODULE.trellis` and
/// `MODULE.centroids.weight`, unless it stores this weight too. `canonical` gives the canonical name of a stored one.
pub(super) fn find(
    store: &Store,
    resolution: &Resolution,
    canonical: impl Fn(&str) -> Option<String>,
) -> Vec<Undecoded> {
    let of_weight = |module: &str| {
        let weight = format!("{module}.weight");
        let is_stored = store.find(&weight).is_some_and(|tensor| tensor.check_known().is_ok());
        canonical(&weight).filter(|_| !is_stored)
    };
    let array = |stored: &String| {
        let bare = resolution.bare(stored);
        let mut ends = bare.rmatch_indices('.').take(2);
        let canonical = ends.find_map(|(end, _)| of_weight(bare.get(..end)?));
        let is_array = !PLAIN.contains(&bare.rsplit('.').next()?);
        Some(Undecoded { canonical: canonical.filter(|_| is_array)?, stored: stored.clone() })
    };
    resolution.unknown.iter().filter_map(array).collect()
}
