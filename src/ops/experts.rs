//! Experts in transformers' MXFP4 layout: blocks and scales in separate arrays, or plain transposed
//! matrices.

use std::collections::HashMap;

use crate::dtype::DType;
use crate::error::Result;
use crate::model::Tensor;
use crate::store::Part;
use crate::write::Repacking;

/// Repacks the experts with these names to transformers' MXFP4, and returns the repackings by name.
///
/// Transformers requires that all experts have the same layout. If MXFP4 cannot hold one of them
/// exactly, or if `plain` is set, all of them become plain transposed matrices. In the first case
/// the reason is returned as well.
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
