//! Pieces of tensors' names that a family's tables lack: those of programs that wrap a model, and the prefix
//! of a language model within another model.

use std::borrow::Cow;
use std::collections::BTreeSet;

/// Pieces of programs that may wrap any module: torch.compile, FSDP, activation checkpointing.
const INNER: [&str; 3] = ["_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module."];

/// Prefixes of programs that wrap a whole model: data parallelism, PEFT.
const OUTER: [&str; 2] = ["module.", "base_model.model."];

/// The name under which classes hold a whole model, as those of trainers do.
const HELD: &str = "model.";

/// The prefix that a program has put before every name, if no name is that of a layer with it, and one is
/// without it.
pub(super) fn held(names: &[String], is_of_layers: impl Fn(&str) -> bool) -> &'static str {
    let is_held = names.iter().all(|name| name.starts_with(HELD))
        && names.iter().any(|name| name.strip_prefix(HELD).is_some_and(&is_of_layers));
    if is_held { HELD } else { "" }
}

/// A name without the pieces of wrappers, and these pieces in order. The pieces are empty if the name has
/// none. `held` is a prefix of all names of the model.
pub(super) fn unwrapped<'n>(name: &'n str, held: &str) -> (Cow<'n, str>, String) {
    let (mut bare, mut pieces) = (String::new(), String::new());
    let mut rest = name;
    while !rest.is_empty() {
        let outer = OUTER.iter().copied().filter(|_| bare.is_empty());
        // The model has modules of the same name.
        let once =
            Some(held).filter(|held| !held.is_empty() && bare.is_empty() && !pieces.contains(held));
        let mut all = INNER.iter().copied().chain(outer).chain(once);
        let piece = all.find(|piece| rest.starts_with(*piece));
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

/// Modules that hold a language model within another model.
const LANGUAGE_MODELS: [&str; 4] = ["language_model", "text_model", "llm", "thinker"];

/// The prefix of the language model's layers within another model; empty if there is none, or several. No
/// name as it stands is that of a layer.
/// `is_of_layers` says whether a name is that of a tensor in a layer of its family.
pub(super) fn inner(names: &[String], reason: &str, is_of_layers: impl Fn(&str) -> bool) -> String {
    // The config of the language model is below the same modules.
    let holds = |module: &str| {
        LANGUAGE_MODELS.contains(&module) || reason.contains(&format!("{module}_config"))
    };
    let mut prefixes = BTreeSet::new();
    for name in names.iter().filter(|name| name.split('.').any(holds)) {
        let mut splits = name.match_indices('.').map(|(at, _)| name.split_at(at.saturating_add(1)));
        prefixes.extend(splits.find(|(_, rest)| is_of_layers(rest)).map(|(prefix, _)| prefix));
    }
    match prefixes.into_iter().collect::<Vec<_>>().as_slice() {
        [prefix] => (*prefix).to_owned(),
        _ => String::new(),
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
            let expected = (Cow::Borrowed(bare), pieces.to_owned());
            assert_eq!(unwrapped(name, ""), expected, "{name}");
        }
        let (bare, pieces) = unwrapped("module.model.model.layers.0.model.up", "model.");
        assert_eq!((&*bare, &*pieces), ("model.layers.0.model.up", "module.model."));
    }
}
