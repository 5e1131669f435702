//! StableLM: layer norms, and rotary embeddings of a quarter of each head. In StableLM 2 12B attention
//! and the feed-forward network run in parallel, and each head of q and k has a norm of its own.

use super::step::{Step, Steps};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map};

/// The functions that the families' files name.
pub(super) const STEPS: Steps =
    &[("flags", Step::Config(flags)), ("parallel", Step::Keys(parallel))];

/// Whether attention and network run in parallel: then there is no norm before the network.
fn is_parallel(model: &SourceModel<'_>) -> bool {
    !model.has_in_layers("ffn_norm.weight")
}

fn parallel(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    keys.set("use_parallel_residual", &is_parallel(model).into());
    Ok(())
}

fn flags(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    for (key, flag) in [
        ("use_parallel_residual", is_parallel(model)),
        ("use_qkv_bias", model.has_in_layers("attention.q.bias")),
        ("qk_layernorm", model.has_in_layers("attention.q_norm.weight")),
    ] {
        out.insert(key.to_owned(), flag.into());
    }
    Ok(())
}
