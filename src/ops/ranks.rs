//! The shares of ranks as files: what they can be written to, and which of their tensors are joined.

use std::collections::HashMap;

use crate::container::writer::{Placement, Writer};
use crate::dialect::Dialect;
use crate::error::{AdvisedOption, Error, Result};
use crate::load::Fusion;
use crate::model::{Mesh, Tensor};

/// For each fusion, the parts of names of its inputs, in order, and that of the joined tensor, as in vLLM's
/// `packed_modules_mapping`.
static JOINED: &[(&str, &[&str], &str)] = &[
    ("qkv", &[".q_proj.", ".k_proj.", ".v_proj."], ".qkv_proj."),
    ("gate-up", &[".gate_proj.", ".up_proj."], ".gate_up_proj."),
];

/// Refuses a container, or other options, with which the shares of ranks are not written; and fusions
/// without ranks.
pub(super) fn check(
    writer: &Writer,
    mesh: Option<Mesh>,
    fusions: &[&Fusion],
    has_others: bool,
) -> Result<()> {
    if mesh.is_none() {
        return match fusions {
            [] => Ok(()),
            _ => Err(Error::mismatch("tensors are joined only in the shares of ranks")
                .advise_option("give the number of ranks too, with {}", AdvisedOption::Shares)),
        };
    }
    let is_directory =
        writer.dialect == Dialect::HuggingFace && writer.placement == Placement::Directory;
    if is_directory && !has_others {
        return Ok(());
    }
    let fault = "the shares of ranks are written to a directory of safetensors files only";
    Err(Error::unsupported(fault).advise("write a directory of safetensors files"))
}

/// A note on tensors that vLLM joins, and that stay separate.
pub(super) fn separate(tensors: &[Tensor], fusions: &[&Fusion]) -> Option<String> {
    let others = JOINED.iter().filter(|(name, ..)| fusions.iter().all(|own| own.name != *name));
    let has = |member: &&str| tensors.iter().any(|tensor| tensor.name().contains(*member));
    let found = others.filter(|(_, members, _)| members.iter().all(has));
    let found: Vec<_> = found.map(|(name, _, whole)| (*name, whole.trim_matches('.'))).collect();
    let names = found.iter().map(|(_, whole)| *whole).collect::<Vec<_>>().join(" and ");
    let fusions = found.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(",");
    (!found.is_empty()).then(|| {
        format!("vLLM has {names} as one tensor each: the shares have their parts, which `fuse` joins ({fusions})")
    })
}

/// Joins tensors that belong together. A tensor without all of the others stays alone, and so does an
/// expert.
pub(super) fn joined(tensors: Vec<Tensor>, fusions: &[&Fusion]) -> Result<Vec<Tensor>> {
    let rules = JOINED.iter().filter(|(name, ..)| fusions.iter().any(|own| own.name == *name));
    rules
        .into_iter()
        .try_fold(tensors, |tensors, (_, members, whole)| join(tensors, members, whole))
}

fn join(tensors: Vec<Tensor>, members: &[&str], whole: &str) -> Result<Vec<Tensor>> {
    let target = |tensor: &Tensor| {
        let name = tensor.name();
        let member = members.iter().find(|member| name.contains(**member));
        member.filter(|_| !name.contains(".experts.")).map(|member| name.replace(member, whole))
    };
    // The members of each joined tensor, in their order.
    let mut found: HashMap<String, Vec<Option<Tensor>>> = HashMap::new();
    for tensor in &tensors {
        let Some(name) = target(tensor) else { continue };
        let place = members.iter().position(|member| tensor.name().contains(member));
        let all = found.entry(name).or_insert_with(|| vec![None; members.len()]);
        if let Some(member) = place.and_then(|place| all.get_mut(place)) {
            *member = Some(tensor.clone());
        }
    }
    let mut out = Vec::new();
    for tensor in tensors {
        let Some(name) = target(&tensor) else {
            out.push(tensor);
            continue;
        };
        match found.get(&name).map(|all| all.iter().cloned().collect::<Option<Vec<Tensor>>>()) {
            // It takes the place of the first member.
            Some(Some(all)) if all.first().is_some_and(|first| first.name() == tensor.name()) => {
                out.push(Tensor::fuse(all)?.named(&name));
            }
            Some(Some(_)) => {}
            _ => out.push(tensor),
        }
    }
    Ok(out)
}
