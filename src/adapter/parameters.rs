//! PEFT's changes of parameters, such as the matrices of all experts in one tensor.

use std::cmp::Ordering;

use super::merge::{Target, targets};
use super::{Adapter, LowRankPair, Parameters};
use crate::arch::Axes;
use crate::error::{Error, Result};
use crate::json::{Json, Map};
use crate::model::Model;
use crate::shape;

/// The key that names them.
const KEY: &str = "target_parameters";

/// The version of PEFT from which on it knows whether a class has the outputs or the inputs of its experts first.
const KNOWS_AXES: [u64; 2] = [0, 19];

impl Parameters {
    /// Those of a module that the config names, for one expert; `None` if its product changes the weight.
    pub(super) fn of(config: &Map<String, Json>, module: &str) -> Option<Self> {
        let named = config.get(KEY)?.as_array()?.iter().filter_map(Json::as_str);
        let parameter = |name: &str| {
            let (of, parameter) = name.rsplit_once('.').unwrap_or(("", name));
            let before = module.strip_suffix(of)?;
            let is_one = of.is_empty() || before.is_empty() || before.ends_with('.');
            is_one.then(|| format!("{module}.{parameter}"))
        };
        let names: Vec<String> = named.filter_map(parameter).collect();
        let version = config.get("peft_version").and_then(Json::as_str).unwrap_or_default();
        let parts = version.split('.').map_while(|part| part.parse::<u64>().ok());
        let is_inputs_first = parts.cmp(KNOWS_AXES) == Ordering::Less;
        (!names.is_empty()).then_some(Self { names, experts: 1, is_inputs_first })
    }

    /// The reason why an adapter with this config cannot be merged.
    pub(super) fn obstacle(config: &Map<String, Json>) -> Option<Error> {
        let is_set = config.get(KEY)?.as_array().is_some_and(|names| !names.is_empty());
        let mapping = config.get("auto_mapping").filter(|_| is_set)?;
        mapping.get("unsloth_fixed").and_then(Json::as_bool).filter(|is_fixed| *is_fixed)?;
        let fault =
            "Unsloth stores the matrices of experts in an order of its own, so it cannot be merged";
        let advice = "merge it with Unsloth (save_pretrained_merged), and convert the model which that saves";
        Some(Error::unsupported(fault).in_key(KEY).advise(advice))
    }

    /// The one of them that has the shapes of the product: its name, and the tensors that it is. No tensors if the
    /// model has none of them.
    pub(super) fn changed<'a>(
        &'a self,
        model: &Model,
        adapter: &Adapter,
        product: &'a LowRankPair,
    ) -> Result<(&'a str, Vec<Target>)> {
        let (a, b) = (adapter.stored(&product.a)?, adapter.stored(&product.b)?);
        let shape = (self.experts, b.gathered_shape().0, a.gathered_shape().1);
        let (mut fitting, mut shapes) = (Vec::new(), Vec::new());
        for name in &self.names {
            let found = targets(model, adapter, name, "")?;
            let Some(whole) = whole_shape(&found) else { continue };
            if whole == shape {
                fitting.push((name.as_str(), found));
            }
            shapes.push(format!("{name} has {whole:?}"));
        }
        let fault = |fault: String| Err(Error::unsupported(fault).in_tensor(&product.a));
        match (fitting.len(), fitting.pop()) {
            (1, Some((name, found))) => {
                let is_transposed = |target: &Target| {
                    matches!(target.transform.axes, Axes::Transposed | Axes::TransposedIfPlain)
                };
                let is_turned = self.experts > 1 && !found.iter().all(is_transposed);
                if self.is_inputs_first && is_turned {
                    let error = "PEFT before 0.19 changes the inputs of these experts as if they were outputs";
                    let advice = "merge it in PEFT (merge_and_unload), and convert the model which that saves";
                    return Err(Error::unsupported(error).in_tensor(&product.a).advise(advice));
                }
                Ok((name, found))
            }
            (0, _) if shapes.is_empty() => {
                Ok((self.names.first().unwrap_or(&product.target), Vec::new()))
            }
            (0, _) => fault(format!(
                "a change of {shape:?} (experts, outputs, inputs), but {}",
                shapes.join(", ")
            )),
            _ => fault(format!("a change of {shape:?}, but {}", shapes.join(", "))),
        }
    }
}

/// The experts, outputs and inputs of a parameter that is several tensors, whose outputs follow one another.
fn whole_shape(parts: &[Target]) -> Option<(u64, u64, u64)> {
    let columns = shape::columns(parts.first()?.tensor.shape());
    let each = |part: &Target| part.expert.is_none().then(|| part.tensor.matrix_rows());
    let rows: Option<Vec<u64>> = parts.iter().map(each).collect();
    let outputs = rows?.into_iter().try_fold(0u64, u64::checked_add)?;
    let first = &parts.first()?.tensor;
    let experts = first.elements().checked_div(first.matrix_rows().checked_mul(columns)?)?;
    Some((experts, outputs, columns))
}
