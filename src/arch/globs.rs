//! Globs for the tensors of a model that can be left out.

use std::collections::{BTreeSet, HashSet};

use super::resolution::{Auxiliary, Resolution};

/// A name with `*` in place of each component that is a number.
fn numberless(name: &str) -> String {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts = name.split('.').map(|part| if is_number(part) { "*" } else { part });
    parts.collect::<Vec<_>>().join(".")
}

/// The starts of a name that end before a point, the shortest one first.
fn starts(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('.').filter_map(|(at, _)| name.get(..at))
}

/// Globs that match all of these names and none of `others`: each is a whole name, or the shortest start that no other
/// name has, with `*` for numbers.
fn covering<'n>(names: &[&'n String], others: impl Iterator<Item = &'n String>) -> Vec<String> {
    if let [only] = names {
        return vec![(*only).clone()];
    }
    let others: HashSet<String> = others.map(|name| numberless(name)).collect();
    let taken: HashSet<&str> = others.iter().flat_map(|name| starts(name)).collect();
    let glob = |name: &&String| {
        let all = numberless(name);
        let free = starts(&all).find(|start| !taken.contains(start) && *start != "*");
        match free.map(|start| format!("{start}.*")) {
            Some(glob) => glob,
            None if others.contains(&all) => (*name).clone(),
            None => all,
        }
    };
    names.iter().map(glob).collect::<BTreeSet<String>>().into_iter().collect()
}

impl Resolution {
    /// Globs that match all unknown tensors and no other.
    pub(crate) fn unknown_globs(&self) -> Vec<String> {
        let known = self.auxiliary.iter().map(|tensor| &tensor.stored);
        covering(&self.unknown.iter().collect::<Vec<_>>(), self.needed().chain(known))
    }

    /// Globs that match the tensors of vision and audio models and of their projectors, and no other.
    #[must_use]
    pub fn tower_globs(&self) -> Vec<String> {
        let (towers, others): (Vec<&Auxiliary>, Vec<&Auxiliary>) =
            self.auxiliary.iter().partition(|tensor| tensor.is_of_a_tower());
        let others = others.into_iter().map(|tensor| &tensor.stored).chain(&self.unknown);
        let towers: Vec<&String> = towers.into_iter().map(|tensor| &tensor.stored).collect();
        covering(&towers, self.needed().chain(others))
    }

    /// Globs that match all tensors that can be left out, and no other.
    pub(crate) fn optional_globs(&self) -> Vec<String> {
        let known = self.auxiliary.iter().map(|tensor| &tensor.stored);
        covering(&known.chain(&self.unknown).collect::<Vec<_>>(), self.needed())
    }

    /// The stored names of tensors with canonical names.
    fn needed(&self) -> impl Iterator<Item = &String> {
        self.mapped.iter().flat_map(|mapping| &mapping.stored)
    }
}

#[cfg(test)]
mod tests {
    use super::super::mapping::Mapping;
    use super::super::transform::SAME;
    use super::super::{Architecture, Dialect};
    use super::*;

    #[test]
    fn globs_cover_the_unknown_alone() {
        let globs = |unknown: &[&str]| {
            let row = None::<&'static Architecture>;
            let mut resolution = Resolution::empty(row, Dialect::HuggingFace, String::new());
            resolution.mapped = vec![Mapping {
                canonical: String::new(),
                stored: vec![
                    "model.layers.0.mlp.up.weight".to_owned(),
                    "lm_head.weight".to_owned(),
                ],
                stacked: false,
                transform: SAME,
            }];
            resolution.unknown = unknown.iter().map(|name| (*name).to_owned()).collect();
            resolution.unknown_globs()
        };
        assert_eq!(globs(&["v_head.summary.weight", "v_head.summary.bias"]), ["v_head.*"]);
        assert_eq!(globs(&["v_head.summary.bias"]), ["v_head.summary.bias"]);
        let scales = ["model.layers.0.mlp.kv_scale", "model.layers.11.mlp.kv_scale"];
        assert_eq!(globs(&scales), ["model.layers.*.mlp.kv_scale"]);
        let heads = ["model.layers.0.head.1.weight", "model.layers.0.head.1.bias", "lm_head.bias"];
        assert_eq!(globs(&heads), ["lm_head.bias", "model.layers.*.head.*"]);
        // Numbers that mean something else: the name itself.
        let other = ["model.layers.00.mlp.up.weight", "x"];
        assert_eq!(globs(&other), ["model.layers.00.mlp.up.weight", "x"]);
    }
}
