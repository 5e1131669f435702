//! OpenELM: the widths of networks differ by layer. `config.json` states them as factors, GGUF as a list.

use super::step::{Step, Steps};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map};

/// The functions that the families' files name.
pub(super) const STEPS: Steps =
    &[("multipliers", Step::Config(multipliers)), ("widths", Step::Keys(widths))];

/// The width of the network of each layer.
fn each_width(model: &SourceModel<'_>) -> Result<Vec<u64>> {
    let width = |layer: u32| {
        let name = format!("layers.{layer}.ffn.down.weight");
        let width = model.shape(&name).and_then(<[u64]>::last).copied();
        width.ok_or_else(|| model.missing_in_model(&name))
    };
    (0..model.own_layers()).map(width).collect()
}

fn widths(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let widths = each_width(model)?.into_iter().map(Json::from).collect();
    keys.set("feed_forward_length", &Json::Array(widths));
    Ok(())
}

/// The factors, whose products with the width of the model the class rounds to multiples of a divisor.
#[expect(clippy::cast_precision_loss, reason = "widths are small")]
fn multipliers(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let dim = f64::from(model.config.dim.value);
    let factors = each_width(model)?.into_iter().map(|width| Json::from(width as f64 / dim));
    out.insert("ffn_multipliers".to_owned(), factors.collect());
    out.insert("ffn_dim_divisor".to_owned(), 1.into());
    Ok(())
}
