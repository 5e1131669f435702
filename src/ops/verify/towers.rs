//! Vision and audio models next to a language model, whose tensors are known by their structure alone.

use std::collections::{BTreeMap, BTreeSet};

use crate::arch::{Auxiliary, Resolution};

/// Fewer layers, or fewer tensors of a layer, do not show what a layer has.
const FEW: usize = 4;

/// The tensors that one layer of a vision or audio model lacks although all others have them, one sentence each.
pub(super) fn gaps(resolution: &Resolution) -> Vec<String> {
    // The numbers of the layers that have a tensor, by the name before the number, and the one after it.
    let mut lists: BTreeMap<&str, BTreeMap<&str, BTreeSet<u32>>> = BTreeMap::new();
    for tensor in resolution.auxiliary.iter().filter(|tensor| tensor.is_of_a_tower()) {
        if let Some((before, number, after)) = around_number(tensor) {
            lists.entry(before).or_default().entry(after).or_default().insert(number);
        }
    }
    let mut out = Vec::new();
    for (before, tensors) in lists {
        let layers: BTreeSet<u32> = tensors.values().flatten().copied().collect();
        let whole = tensors.values().filter(|has| **has == layers).count();
        if layers.len() < FEW || tensors.len() < FEW || whole < tensors.len().div_ceil(2) {
            continue;
        }
        for (after, has) in &tensors {
            let lacking: Vec<u32> = layers.difference(has).copied().collect();
            if let [layer] = lacking.as_slice() {
                let others = has.len();
                out.push(format!(
                    "{before}{layer}{after} is missing: the other {others} layers of the vision or audio model have it"
                ));
            }
        }
    }
    out
}

/// The parts of a name before and after its only number.
fn around_number(tensor: &Auxiliary) -> Option<(&str, u32, &str)> {
    let name = tensor.stored.as_str();
    let is_number = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit());
    let mut numbers = name.split('.').filter(is_number);
    let number = numbers.next().filter(|_| numbers.next().is_none())?;
    let (before, after) = name.split_once(&format!(".{number}."))?;
    let end = before.len().checked_add(1)?;
    let start = name.len().checked_sub(after.len().checked_add(1)?)?;
    Some((name.get(..end)?, number.parse().ok()?, name.get(start..)?))
}
