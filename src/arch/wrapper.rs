//! Pieces that programs which wrap a model, or modules of it, put into the names of its tensors.

use std::borrow::Cow;

/// Pieces of programs that may wrap any module: torch.compile, FSDP, activation checkpointing.
const INNER: [&str; 3] = ["_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module."];

/// Prefixes of programs that wrap a whole model: data parallelism, PEFT.
const OUTER: [&str; 2] = ["module.", "base_model.model."];

/// A name without the pieces of wrappers, and these pieces in order. The pieces are empty if the name has
/// none.
pub(super) fn unwrapped(name: &str) -> (Cow<'_, str>, String) {
    let (mut bare, mut pieces) = (String::new(), String::new());
    let mut rest = name;
    while !rest.is_empty() {
        let outer = OUTER.iter().filter(|_| bare.is_empty());
        let piece = INNER.iter().chain(outer).find(|piece| rest.starts_with(**piece));
        let end = rest.find('.').map_or(rest.len(), |dot| dot.saturating_add(1));
        let (part, after) = rest.split_at(piece.map_or(end, |piece| piece.len()));
        if piece.is_some() { &mut pieces } else { &mut bare }.push_str(part);
        rest = after;
    }
    match pieces.is_empty() {
        true => (Cow::Borrowed(name), pieces),
        false => (Cow::Owned(bare), pieces),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrappers_of_models_and_of_modules() {
        for (name, bare, pieces) in [
            ("model.norm.weight", "model.norm.weight", ""),
            ("_orig_mod.module.model.norm.weight", "model.norm.weight", "_orig_mod.module."),
            ("base_model.model.lm_head.weight", "lm_head.weight", "base_model.model."),
            ("model.layers.0._orig_mod.mlp.up", "model.layers.0.mlp.up", "_orig_mod."),
            // Only a whole model is wrapped under these names.
            ("model.module.weight", "model.module.weight", ""),
            ("not_orig_mod.weight", "not_orig_mod.weight", ""),
        ] {
            assert_eq!(unwrapped(name), (Cow::Borrowed(bare), pieces.to_owned()), "{name}");
        }
    }
}
