//! Nemotron with searched layers: `config.json` describes each layer's attention and network, GGUF lists their heads and widths.

use super::step::{Step, Steps};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map, json};

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[("blocks", Step::Config(blocks)), ("lists", Step::Keys(lists))];

/// The key heads and the width of the network of a layer; 0 if it has none.
fn sizes(model: &SourceModel<'_>, layer: u32) -> (u64, u64) {
    let shape = |name: &str| model.shape(&format!("layers.{layer}.{name}.weight"));
    let head = u64::from(model.config.head_dim.value);
    let rows = shape("attention.k").and_then(<[u64]>::first).copied();
    let keys = rows.and_then(|rows| rows.checked_div(head)).unwrap_or(0);
    (keys, shape("ffn.down").and_then(<[u64]>::last).copied().unwrap_or(0))
}

fn lists(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let heads = u64::from(model.config.n_heads.value);
    let sizes: Vec<(u64, u64)> = (0..model.own_layers()).map(|layer| sizes(model, layer)).collect();
    let list = |size: &dyn Fn(&(u64, u64)) -> u64| {
        sizes.iter().map(|of| Json::from(size(of))).collect::<Json>()
    };
    keys.set("attention.head_count", &list(&|of| if of.0 > 0 { heads } else { 0 }));
    keys.set("attention.head_count_kv", &list(&|of| of.0));
    keys.set("feed_forward_length", &list(&|of| of.1));
    Ok(())
}

/// The inverse of [`lists`].
#[expect(clippy::cast_precision_loss, reason = "widths are small")]
fn blocks(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let heads = u64::from(model.config.n_heads.value);
    let dim = f64::from(model.config.dim.value);
    let block = |layer: u32| {
        let (keys, width) = sizes(model, layer);
        let group = heads.checked_div(keys);
        // The class takes two thirds of the width of the model, times this, and rounds it up to a multiple of 256.
        let factor = (width > 0).then(|| width as f64 * 3.0 / (2.0 * dim));
        json!({
            "attention": {"n_heads_in_group": group, "no_op": keys == 0, "replace_with_linear": false},
            "ffn": {"ffn_mult": factor, "no_op": width == 0, "replace_with_linear": false},
        })
    };
    out.insert("block_configs".to_owned(), (0..model.own_layers()).map(block).collect());
    let all: Vec<(u64, u64)> = (0..model.own_layers()).map(|layer| sizes(model, layer)).collect();
    // DeciLM's networks have one width, and all of its layers have both parts.
    let same =
        |(keys, width): &(u64, u64)| *keys > 0 && all.first().is_some_and(|of| of.1 == *width);
    let width = all.first().filter(|_| all.iter().all(same)).map(|of| of.1);
    out.insert("intermediate_size".to_owned(), width.map_or(Json::Null, Json::from));
    out.insert("num_key_value_heads".to_owned(), Json::Null);
    Ok(())
}
