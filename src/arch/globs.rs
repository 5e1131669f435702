//! Globs for the tensors that no rule of a family recognizes.

use std::collections::{BTreeSet, HashSet};

use super::resolution::Resolution;

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

impl Resolution {
    /// Globs that match all unknown tensors and no other: each is a whole name, or the shortest start that no other
    /// tensor has, with `*` for numbers.
    pub(crate) fn unknown_globs(&self) -> Vec<String> {
        if let [only] = self.unknown.as_slice() {
            return vec![only.clone()];
        }
        let mapped = self.mapped.iter().flat_map(|mapping| &mapping.stored);
        let known = mapped.chain(self.auxiliary.iter().map(|tensor| &tensor.stored));
        let known: HashSet<String> = known.map(|name| numberless(name)).collect();
        let taken: HashSet<&str> = known.iter().flat_map(|name| starts(name)).collect();
        let globs: BTreeSet<String> = self
            .unknown
            .iter()
            .map(|name| {
                let all = numberless(name);
                let free = starts(&all).find(|start| !taken.contains(start) && *start != "*");
                match free.map(|start| format!("{start}.*")) {
                    Some(glob) => glob,
                    None if known.contains(&all) => name.clone(),
                    None => all,
                }
            })
            .collect();
        globs.into_iter().collect()
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
