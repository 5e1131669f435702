//! llama.cpp's adapters: `NAME.lora_a` and `NAME.lora_b` for each changed tensor `NAME`.

use super::pairs::{paired, rank_of};
use super::{Activation, Adapter, LORA, Layout, LowRankPair};
use crate::arch::Dialect;
use crate::error::{Error, Result};
use crate::model::Model;

/// The tokens after which an activated LoRA applies.
pub(super) const INVOCATION: &str = "adapter.alora.invocation_tokens";

/// Reads an adapter, or returns `None` for another kind of file.
pub(super) fn read(model: &Model) -> Result<Option<Adapter>> {
    let metadata = model.metadata();
    if metadata.str("general.type") != Some("adapter")
        || metadata.str("adapter.type") != Some("lora")
    {
        return Ok(None);
    }
    let alpha = metadata.f64("adapter.lora.alpha").filter(|alpha| *alpha != 0.0);
    let mut obstacle = None;
    let mut found = Vec::new();
    for tensor in model.stored_tensors() {
        let name = tensor.name();
        // Some converters add the factors of the model's rotary embeddings, which follow from its config.
        if name == "rope_freqs.weight" {
            continue;
        }
        match (name.strip_suffix(".lora_a"), name.strip_suffix(".lora_b")) {
            (Some(target), _) => found.push((target.to_owned(), true, name.to_owned())),
            (_, Some(target)) => found.push((target.to_owned(), false, name.to_owned())),
            _ => {
                let fault = "neither matrix A nor matrix B of a LoRA adapter";
                obstacle.get_or_insert(Error::unsupported(fault).in_tensor(name));
            }
        }
    }
    let activation = metadata.array(INVOCATION).map(|tokens| {
        let tokens = tokens.integers().into_iter().flatten().map(u32::try_from);
        Activation::new(tokens.filter_map(Result::ok).collect(), INVOCATION)
    });
    let mut products = Vec::new();
    for (target, a, b) in paired(found)? {
        let layout = match target.starts_with("token_embd.") {
            true => Layout::GgufEmbedding,
            false => Layout::Usual,
        };
        let rank = rank_of(model, layout, &a, &b)?;
        // In f32, as in llama-export-lora.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            reason = "as stated"
        )]
        let scale = alpha.map_or(1.0, |alpha| f64::from(alpha as f32 / rank as f32));
        products.push(LowRankPair::of_module(target, (a, b), layout, scale, rank));
    }
    let base = metadata.str("general.base_model.0.name").map(str::to_owned);
    Ok(Some(Adapter {
        model: model.clone(),
        dialect: Dialect::Gguf,
        alpha,
        scale: None,
        rank_stabilized: false,
        is_tied: false,
        kind: LORA.to_owned(),
        base,
        products,
        wholes: Vec::new(),
        bases: Vec::new(),
        rows: Vec::new(),
        activation,
        obstacle: obstacle.map(|error| error.in_file(model.path())),
    }))
}
