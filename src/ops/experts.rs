//! Experts that transformers reads in MXFP4: blocks and scales in arrays of their own, or plain
//! numbers with rows as columns.

use std::collections::HashMap;

use serde_json::{Value as Json, json};

use super::packing::Made;
use crate::dtype::DType;
use crate::error::Result;
use crate::model::Tensor;
use crate::store::Part;
use crate::write::{How, Making, Repacking};

/// The experts of a model that are written in MXFP4, by their names.
#[derive(Debug, Default)]
pub(super) struct Experts {
    repacked: HashMap<String, Repacking>,
}

impl Experts {
    /// Those of `views` that have these names. Transformers reads all experts in one way: if one
    /// has a number that it does not write so, the reason is given back, and all of them become
    /// views of plain numbers. So they do where those are `wanted`.
    pub(super) fn new(
        views: &mut [Tensor],
        names: &[String],
        wanted: Option<DType>,
    ) -> Result<(Self, Option<String>)> {
        let (mut experts, mut why) = (Self::default(), None);
        for view in views.iter().filter(|view| wanted.is_none() && names.contains(&named(view))) {
            match Repacking::exact(view, DType::HF_MXFP4, Part::GlobalScale)? {
                Ok(repacking) => drop(experts.repacked.insert(named(view), repacking)),
                Err(fault) => {
                    why = Some(format!("{}: {fault}; so no experts are in MXFP4", view.name()));
                    break;
                }
            }
        }
        if wanted.is_some() || why.is_some() {
            experts.repacked.clear();
            for view in views.iter_mut().filter(|view| names.contains(&named(view))) {
                *view = view.clone().transpose()?;
            }
        }
        Ok((experts, why))
    }

    /// How a tensor of that name is made, if it is one of these.
    pub(super) fn made(&self, name: &str) -> Option<Made> {
        let repacking = self.repacked.get(name)?.clone();
        Some((Making::Repacked(repacking), How::Repacked, None))
    }

    /// What `config.json` says of them, if there are any. What is not in MXFP4 is told by the names
    /// of gpt-oss, which alone has experts of this kind.
    pub(super) fn quantization(&self) -> Option<Json> {
        (!self.repacked.is_empty()).then(|| {
            json!({
                "modules_to_not_convert": [
                    "model.layers.*.self_attn",
                    "model.layers.*.mlp.router",
                    "model.embed_tokens",
                    "lm_head",
                ],
                "quant_method": "mxfp4",
            })
        })
    }
}

fn named(view: &Tensor) -> String {
    view.name().to_owned()
}

/// What transformers calls a part of such a tensor.
pub(super) fn part_name(name: &str, part: Part) -> String {
    match part {
        Part::Weight => format!("{name}_blocks"),
        Part::Scale => format!("{name}_scales"),
        other => format!("{name}_{}", other.name()),
    }
}
