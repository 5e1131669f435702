//! Falcon: attention and the feed-forward network run in parallel. In Falcon RW they follow each
//! other, with biases and ALiBi instead of rotary embeddings.

use super::step::{Step, Steps};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map};

/// A tensor that only Falcons of one kind have.
const BIASED: &str = "layers.0.ffn.up.bias";

/// The functions that the families' files name.
pub(super) const STEPS: Steps =
    &[("alibi", Step::Keys(alibi)), ("falcon_flags", Step::Config(falcon_flags))];

/// The slopes of ALiBi, under the key that llama.cpp reads for other families.
fn alibi(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if model.config_value("alibi").and_then(Json::as_bool) == Some(true) {
        keys.real("attention.max_alibi_bias", 8.0);
    }
    Ok(())
}

/// Falcon 7B has one key head for all queries; the larger models use the new block order. Falcon RW
/// has as many key heads as queries.
fn falcon_flags(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let (heads, rw) = (model.config.n_kv_heads.value, model.has(BIASED));
    out.insert("new_decoder_architecture".to_owned(), (!rw && heads > 1).into());
    out.insert("multi_query".to_owned(), (!rw || heads == 1).into());
    out.insert("num_kv_heads".to_owned(), heads.into());
    for (key, flag) in [("parallel_attn", !rw), ("bias", rw), ("alibi", rw)] {
        out.insert(key.to_owned(), flag.into());
    }
    Ok(())
}
