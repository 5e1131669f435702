//! Experts that transformers reads in MXFP4: blocks and scales in arrays of their own, or plain
//! numbers with rows as columns.

use std::collections::HashMap;

use crate::dtype::DType;
use crate::error::Result;
use crate::model::Tensor;
use crate::store::Part;
use crate::write::Repacking;

/// Repacks the experts of `tensors` that have these names to transformers' MXFP4, by name.
///
/// Transformers reads all experts in one way. So if one has a number that MXFP4 does not hold, or if
/// `plain` ones are asked for, all become plain with rows as columns; in the first case the reason is
/// returned, too.
pub(super) fn in_mxfp4(
    tensors: &mut [Tensor],
    names: &[String],
    plain: bool,
) -> Result<(HashMap<String, Repacking>, Option<String>)> {
    let named = |tensor: &Tensor| names.iter().any(|name| name == tensor.name());
    let mut repacked = HashMap::new();
    let mut why = None;
    for tensor in tensors.iter().filter(|tensor| !plain && named(tensor)) {
        match Repacking::exact(tensor, DType::HF_MXFP4, Part::GlobalScale)? {
            Ok(repacking) => drop(repacked.insert(tensor.name().to_owned(), repacking)),
            Err(fault) => {
                why = Some(format!("{}: {fault}; so no experts are in MXFP4", tensor.name()));
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
