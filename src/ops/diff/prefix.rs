//! Stored names of two models that differ by a prefix of one of them.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::arch::other_models::MODULES;
use crate::arch::wrapper;
use crate::model::Tensor;

/// What the names of one model have, and those of the other lack.
#[derive(Debug)]
pub(super) struct Prefix {
    /// Whether the names of the second model have it.
    pub(super) of_b: bool,
    /// The prefix; `None` for the pieces of wrappers, which stand in several places.
    text: Option<String>,
}

impl Prefix {
    /// The prefix without which two models have a name in common; `None` if they have one as they stand, or no prefix
    /// helps. All names have it, or it is that of a wrapper or of the model within a checkpoint of several.
    pub(super) fn of(a: &[Tensor], b: &[Tensor]) -> Option<Self> {
        let [of_a, of_b] = [a, b].map(|tensors| tensors.iter().map(Tensor::name));
        let [set_a, set_b]: [HashSet<&str>; 2] = [of_a.collect(), of_b.collect()];
        if !set_a.is_disjoint(&set_b) {
            return None;
        }
        let of = |of_b: bool, tensors: &[Tensor], others: &HashSet<&str>| {
            let known = MODULES.iter().map(|module| Some((*module).to_owned()));
            let all = common(tensors).map(Some);
            let mut found = std::iter::once(None).chain(known).chain(all);
            found.find_map(|text| {
                let prefix = Self { of_b, text };
                let mut names = tensors.iter().map(|tensor| prefix.without(tensor.name()));
                names.any(|name| others.contains(&*name)).then_some(prefix)
            })
        };
        of(false, a, &set_b).or_else(|| of(true, b, &set_a))
    }

    /// A name without it.
    pub(super) fn without<'n>(&self, name: &'n str) -> Cow<'n, str> {
        match &self.text {
            Some(prefix) => Cow::Borrowed(name.strip_prefix(&**prefix).unwrap_or(name)),
            None => wrapper::without_pieces(name),
        }
    }

    /// The remark on how names were matched.
    pub(super) fn note(&self) -> String {
        let which = if self.of_b { "B" } else { "A" };
        match &self.text {
            Some(prefix) => format!("names of {which} are compared without {prefix}"),
            None => format!("names of {which} are compared without the pieces of a wrapper"),
        }
    }
}

/// The modules that all names have in common, the longest prefix first.
fn common(tensors: &[Tensor]) -> impl Iterator<Item = String> {
    let first = tensors.first().map(Tensor::name).unwrap_or_default();
    let ends = first.rmatch_indices('.').map(|(at, _)| at.saturating_add(1));
    let prefixes = ends.filter_map(move |end| first.get(..end));
    prefixes
        .filter(|prefix| tensors.iter().all(|tensor| tensor.name().starts_with(prefix)))
        .map(str::to_owned)
}
