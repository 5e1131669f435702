//! Fusions: tensors that engines load into one buffer.

use super::WeightProvider;
use crate::device::Device;
use crate::error::Result;
use crate::model::Tensor;

/// Tensors of a layer that share their input, so that one matrix multiplication can replace
/// several.
#[derive(Debug)]
#[non_exhaustive]
pub struct Fusion {
    /// The name, as in `weighbridge bench --fuse`.
    pub name: &'static str,
    /// The parts of the canonical names that differ, in order.
    pub members: &'static [&'static str],
}

/// All named fusions. Any other list of tensors can be fused as well.
pub static FUSIONS: &[Fusion] = &[
    Fusion { name: "qkv", members: &[".attention.q.", ".attention.k.", ".attention.v."] },
    Fusion { name: "gate-up", members: &[".gate.", ".up."] },
];

impl Fusion {
    /// A fusion of the caller. In the canonical names of its tensors, one of `members` occurs where
    /// they differ; the tensors are joined in the order of `members`.
    ///
    /// ```
    /// use weighbridge::load::Fusion;
    ///
    /// static KV: Fusion = Fusion::new("kv", &[".attention.k.", ".attention.v."]);
    /// ```
    pub const fn new(name: &'static str, members: &'static [&'static str]) -> Self {
        Self { name, members }
    }

    /// The fusion with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        FUSIONS.iter().find(|fusion| fusion.name == name)
    }

    /// The members of the fusion, if `name` is the first of them and the others exist.
    fn members_of(&self, name: &str, has: impl Fn(&str) -> bool) -> Option<Vec<String>> {
        let (first, others) = self.members.split_first()?;
        let (before, after) = name.split_once(first)?;
        let mut members = vec![name.to_owned()];
        members.extend(others.iter().map(|other| format!("{before}{other}{after}")));
        members.iter().all(|name| has(name)).then_some(members)
    }
}

impl<D: Device> WeightProvider<D> {
    /// Divides names into as few groups as possible, each of which fits into one buffer.
    pub(super) fn joinable<'n>(&self, names: &[&'n str]) -> Result<Vec<Vec<&'n str>>> {
        let mut groups: Vec<(Vec<&'n str>, Vec<Tensor>)> = Vec::new();
        for name in names {
            let view = self.tensor(name)?;
            let mut joined = false;
            for (names, views) in &mut groups {
                let mut all = views.clone();
                all.push(view.clone());
                if self.check_fused(&all).is_ok() {
                    (*views, joined) = (all, true);
                    names.push(name);
                    break;
                }
            }
            if !joined {
                groups.push((vec![name], vec![view]));
            }
        }
        Ok(groups.into_iter().map(|(names, _)| names).collect())
    }

    /// Checks that tensors can be fused.
    fn check_fused(&self, views: &[Tensor]) -> Result<()> {
        let fused = Tensor::fuse(views.to_vec())?;
        self.choices.form(&fused, &self.device).map(drop)
    }

    /// Groups the requested names with those that they are fused with.
    pub(super) fn groups(&self, names: &[&str], fusions: &[&Fusion]) -> Result<Vec<Vec<String>>> {
        let wanted: std::collections::HashSet<&str> = names.iter().copied().collect();
        let mut taken = std::collections::HashSet::new();
        let mut groups = Vec::new();
        for name in names {
            let has = |name: &str| wanted.contains(name) && self.model.has(name);
            let members = fusions.iter().find_map(|fusion| fusion.members_of(name, has));
            let Some(members) = members.filter(|_| !taken.contains(*name)) else { continue };
            taken.extend(members.iter().cloned());
            let members: Vec<&str> = members.iter().map(String::as_str).collect();
            for group in self.joinable(&members)? {
                groups.push(group.into_iter().map(str::to_owned).collect());
            }
        }
        let alone = names.iter().filter(|name| !taken.contains(**name));
        groups.extend(alone.map(|name| vec![(*name).to_owned()]));
        Ok(groups)
    }
}
