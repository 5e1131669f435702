//! Apertus.

use super::Family;
use crate::error::Result;
use crate::facts::Facts;
use crate::math::{Activation, Xielu};
use crate::plan::Plan;

pub(super) static FAMILIES: &[Family] = &[Family { name: "apertus", adjust }];

/// A GGUF file states the numbers of each layer's activation as keys; other files have tensors.
#[expect(clippy::cast_possible_truncation, reason = "models compute in f32")]
fn adjust(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let negative = facts.listed("xielu.alpha_n").into_iter().zip(facts.listed("xielu.alpha_p"));
    let numbers =
        negative.zip(facts.listed("xielu.beta").into_iter().zip(facts.listed("xielu.eps")));
    for (layer, ((alpha_n, alpha_p), (beta, eps))) in plan.layers.iter_mut().zip(numbers) {
        let [alpha_n, alpha_p, beta, eps] = [alpha_n, alpha_p, beta, eps].map(|n| n as f32);
        layer.network.activation = Activation::Xielu(Xielu::stored(alpha_n, alpha_p, beta, eps));
    }
    Ok(())
}
