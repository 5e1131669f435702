//! Experts that are stored one by one.

use super::Resolution;
use crate::error::{Error, Result};

/// The tensors of a layer's experts that form one canonical tensor.
pub(super) struct Experts {
    /// Index into the mappings.
    pub(super) place: usize,
    /// The number of each expert and its stored name.
    pub(super) stored: Vec<(u32, String)>,
}

/// Adds the stored names of experts to their mappings, in the order of their numbers.
pub(super) fn add_experts(
    all: impl Iterator<Item = Experts>,
    resolution: &mut Resolution,
) -> Result<()> {
    for mut experts in all {
        let Some(mapping) = resolution.mapped.get_mut(experts.place) else { continue };
        experts.stored.sort();
        let numbers = (0..).zip(&experts.stored).find(|(place, (number, _))| place != number);
        if let Some((place, (_, stored))) = numbers {
            let canonical = &mapping.canonical;
            let fault = format!("expert {place} of \"{canonical}\" is missing before this one");
            return Err(Error::malformed(fault).in_tensor(stored));
        }
        mapping.stored = experts.stored.into_iter().map(|(_, stored)| stored).collect();
    }
    Ok(())
}
