//! Experts: in transformers' MXFP4 layout, which has blocks and scales in separate arrays or plain
//! transposed matrices; and stacked.

use std::collections::{BTreeMap, HashMap};

use crate::container::writer::{ExpertName, Writer};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::model::Tensor;
use crate::store::Part;
use crate::write::TensorRepack;

/// Repacks the experts with these names to transformers' MXFP4, and returns the repackings by name.
///
/// Transformers requires that all experts have the same layout. If MXFP4 cannot hold one of them
/// exactly, or if `plain` is set, all of them become plain transposed matrices. In the first case
/// the reason is returned as well.
pub(super) fn in_mxfp4(
    tensors: &mut [Tensor],
    names: &[String],
    plain: bool,
) -> Result<(HashMap<String, TensorRepack>, Option<String>)> {
    let named = |tensor: &Tensor| names.iter().any(|name| name == tensor.name());
    let mut repacked = HashMap::new();
    let mut why = None;
    for tensor in tensors.iter().filter(|tensor| !plain && named(tensor)) {
        match TensorRepack::exact(tensor, DType::HF_MXFP4, Some(Part::GlobalScale))? {
            Ok(repacking) => drop(repacked.insert(tensor.name().to_owned(), repacking)),
            Err(fault) => {
                why = Some(format!(
                    "{}: {fault}; therefore no experts are written in MXFP4",
                    tensor.name()
                ));
                break;
            }
        }
    }
    if plain || why.is_some() {
        repacked.clear();
        for tensor in tensors.iter_mut().filter(|tensor| named(tensor)) {
            *tensor = tensor.clone().transpose()?;
        }
    }
    Ok((repacked, why))
}

/// The tensors with their expert groups, with experts stacked if the container has them so.
pub(super) fn stacked(
    tensors: Vec<Tensor>,
    writer: &Writer,
) -> Result<Vec<(Option<String>, Tensor)>> {
    match writer.expert {
        Some(expert) => stack_experts(tensors, expert),
        None => Ok(tensors.into_iter().map(|tensor| (None, tensor)).collect()),
    }
}

/// Stacks the experts of each projection along a new first axis, under the projection's name, and
/// returns each stack with its expert group. Experts with different packings or with a global scale
/// stay separate. Groups follow all other tensors.
fn stack_experts(
    tensors: Vec<Tensor>,
    expert: fn(&str) -> Option<ExpertName<'_>>,
) -> Result<Vec<(Option<String>, Tensor)>> {
    let mut all = Vec::new();
    let mut experts: BTreeMap<(String, String), BTreeMap<u64, Tensor>> = BTreeMap::new();
    for tensor in tensors {
        let name = tensor.name().to_owned();
        match expert(&name) {
            Some(ExpertName { group, number, projection }) => {
                let key = (group.to_owned(), projection.to_owned());
                if experts.entry(key).or_default().insert(number, tensor).is_some() {
                    let fault = format!("expert {number} occurs twice");
                    return Err(Error::unsupported(fault).in_tensor(&name));
                }
            }
            None => all.push((None, tensor)),
        }
    }
    for ((group, projection), experts) in experts {
        let name = format!("{group}.{projection}");
        if let Some((missing, _)) = (0u64..).zip(experts.keys()).find(|(n, key)| n != *key) {
            let fault = format!("expert {missing} of {} is missing", experts.len());
            return Err(Error::unsupported(fault).in_tensor(&name));
        }
        let packing = |tensor: &Tensor| {
            let dtype: Option<DType> = tensor.dtype().ok();
            Ok::<_, Error>((dtype, tensor.group_size(), tensor.globals()?.is_empty()))
        };
        let packings = experts.values().map(packing).collect::<Result<Vec<_>>>()?;
        let alike = packings.windows(2).all(|pair| pair.first() == pair.last());
        let tensors: Vec<Tensor> = experts.into_values().collect();
        match alike && packings.iter().all(|(.., plain)| *plain) {
            true => all.push((Some(group), Tensor::stack(tensors)?.named(&name))),
            false => all.extend(tensors.into_iter().map(|tensor| (None, tensor))),
        }
    }
    all.sort_by(|(a, x), (b, y)| (a, x.name()).cmp(&(b, y.name())));
    Ok(all)
}
