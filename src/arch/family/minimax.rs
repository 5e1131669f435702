//! MiniMax Text 01 and M3.

use super::step::{Step, Steps};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map};

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[
    ("blocks", Step::Keys(blocks)),
    ("m3_layers", Step::Config(m3_layers)),
    ("residual_factors", Step::Config(residual_factors)),
    ("residuals", Step::Keys(residuals)),
    ("shared_count", Step::Keys(shared_count)),
];

/// The factors of the normed stream, which is added to what a part of a layer computes.
const FACTORS: [&str; 3] =
    ["full_attn_alpha_factor", "linear_attn_alpha_factor", "mlp_alpha_factor"];

/// The factor of the normed stream. GGUF has one for all parts of layers.
fn residuals(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let [full, linear, network] = FACTORS.map(|factor| model.real(factor));
    let (full, linear, network) = (full?, linear?, network?);
    if full != linear || full != network {
        return Err(model.inexpressible_in_gguf(&format!("several of {}", FACTORS.join(", "))));
    }
    keys.real("residual_scale", full.unwrap_or(1.0));
    Ok(())
}

/// The same in `config.json`.
fn residual_factors(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let factor = model.gguf_value("residual_scale")?;
    out.extend(FACTORS.map(|key| (key.to_owned(), factor.clone())));
    Ok(())
}

/// The key of GGUF for a number of the indexer, its key in `config.json`, the one that published files
/// have in `sparse_attention_config`, and the number without both.
const BLOCKS: [(&str, &str, &str, u32); 5] = [
    ("head_count", "index_n_heads", "sparse_num_index_heads", 4),
    ("key_length", "index_head_dim", "sparse_index_dim", 128),
    ("block_size", "index_block_size", "sparse_block_size", 128),
    ("top_k", "index_topk_blocks", "sparse_topk_blocks", 16),
    ("local_blocks", "index_local_blocks", "sparse_local_block", 1),
];

/// The numbers of the indexer.
fn blocks(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    for (key, name, published, usual) in BLOCKS {
        let published = model.count(&format!("sparse_attention_config.{published}"))?;
        let number = published.or(model.count(name)?).unwrap_or(usual);
        keys.count(&format!("attention.indexer.{key}"), number);
    }
    Ok(())
}

/// The columns of the first matrix with this name, as Hugging Face's and GGUF's files store it.
fn columns(model: &SourceModel<'_>, name: &str) -> Option<u32> {
    let shape = |layer| model.shape(&format!("layers.{layer}.{name}"));
    let columns = (0..model.own_layers()).find_map(shape)?.last()?;
    u32::try_from(*columns).ok()
}

/// The number of shared experts, each as wide as the others.
fn shared_count(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let wide = model.config.experts.expert_ffn_dim.as_ref().map_or(0, |width| width.value);
    let shared = columns(model, "ffn.shared_expert.down.weight").unwrap_or(0);
    if shared.checked_rem(wide) != Some(0) {
        let what = format!("a shared expert of width {shared} next to experts of width {wide}");
        return Err(model.inexpressible_in_gguf(&what));
    }
    keys.count("expert_shared_count", shared.checked_div(wide).unwrap_or(0));
    Ok(())
}

/// The layers whose keys an indexer chooses, and the width of the shared expert.
fn m3_layers(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let indexed = |layer| model.has(&format!("layers.{layer}.attention.indexer.k.weight"));
    let kind = |layer| if indexed(layer) { "minimax_m3_sparse" } else { "full_attention" };
    out.insert("layer_types".to_owned(), (0..model.own_layers()).map(kind).collect());
    let shared = columns(model, "ffn.shared_expert.down.weight");
    out.extend(shared.map(|width| ("shared_intermediate_size".to_owned(), width.into())));
    Ok(())
}
