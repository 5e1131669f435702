//! Pieces of tensors' names that a family's tables lack: those of programs that wrap a model, and the prefix
//! of a language model within another model.

use std::borrow::Cow;
use std::collections::BTreeSet;

/// Pieces of programs that may wrap any module: torch.compile, FSDP, activation checkpointing, PEFT.
const INNER: [&str; 4] =
    ["_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "base_layer."];

/// Prefixes of programs that wrap a whole model: data parallelism, PEFT.
const OUTER: [&str; 2] = ["module.", "base_model.model."];

/// The pieces that only the names of one model have.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct OwnPieces {
    /// A prefix of all names.
    pub(super) held: String,
    /// Whether names have a module twice, one after the other, that the model has once.
    pub(super) repeats: bool,
}

impl OwnPieces {
    /// The pieces without which names are those of layers, which no name is as it stands. `reason` names the
    /// config of the language model.
    pub(super) fn of(names: &[String], reason: &str, is_of_layers: impl Fn(&str) -> bool) -> Self {
        let prefixes = prefixes(names.iter(), &is_of_layers);
        if let [held] = prefixes.as_slice()
            && !is_repeated(held)
            && !held.split('.').any(|module| reason.contains(&format!("{module}_config")))
            // Trainers put heads of their own beside the model.
            && names.iter().all(|name| name.starts_with(held) || name.contains("head"))
        {
            return Self { held: (*held).to_owned(), repeats: false };
        }
        let repeats = Self { repeats: true, ..Self::default() };
        match names.iter().any(|name| is_of_layers(&unwrapped(name, &repeats).0)) {
            true => repeats,
            false => Self::default(),
        }
    }
}

fn is_repeated(prefix: &str) -> bool {
    let modules: Vec<&str> = prefix.split_terminator('.').collect();
    modules.windows(2).any(|pair| pair.first() == pair.last())
}

/// The different texts before names of layers.
fn prefixes<'n>(
    names: impl Iterator<Item = &'n String>,
    is_of_layers: impl Fn(&str) -> bool,
) -> Vec<&'n str> {
    let prefix = |name: &'n String| {
        let mut splits = name.match_indices('.').map(|(at, _)| name.split_at(at.saturating_add(1)));
        splits.find(|(_, rest)| is_of_layers(rest)).map(|(prefix, _)| prefix)
    };
    names.filter_map(prefix).collect::<BTreeSet<_>>().into_iter().collect()
}

/// A name without the pieces of wrappers, and these pieces in order. The pieces are empty if the name has
/// none.
pub(super) fn unwrapped<'n>(name: &'n str, own: &OwnPieces) -> (Cow<'n, str>, String) {
    let (mut bare, mut pieces) = (String::new(), String::new());
    let (mut rest, mut last) = (name, "");
    while !rest.is_empty() {
        let outer = OUTER.iter().copied().filter(|_| bare.is_empty());
        // The model has modules of the same name.
        let held = Some(own.held.as_str());
        let once =
            held.filter(|held| !held.is_empty() && bare.is_empty() && !pieces.contains(held));
        let is_module = !last.is_empty() && !last.starts_with(|c: char| c.is_ascii_digit());
        let twice = Some(last).filter(|_| own.repeats && is_module);
        let mut all = INNER.iter().copied().chain(outer).chain(once).chain(twice);
        let piece = all.find(|piece| rest.starts_with(*piece));
        let end = rest.find('.').map_or(rest.len(), |dot| dot.saturating_add(1));
        let (part, after) = rest.split_at(piece.map_or(end, |piece| piece.len()));
        match piece {
            Some(_) => pieces.push_str(part),
            None => {
                bare.push_str(part);
                last = part;
            }
        }
        rest = after;
    }
    match pieces.is_empty() {
        true => (Cow::Borrowed(name), pieces),
        false => (Cow::Owned(bare), pieces),
    }
}

/// A name without the pieces of programs that wrap a model.
pub(crate) fn without_pieces(name: &str) -> Cow<'_, str> {
    unwrapped(name, &OwnPieces::default()).0
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
    let of_model = names.iter().filter(|name| name.split('.').any(holds));
    match prefixes(of_model, is_of_layers).as_slice() {
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
            (
                "model.layers.0.mlp.up.base_layer.weight",
                "model.layers.0.mlp.up.weight",
                "base_layer.",
            ),
            // Only a whole model is wrapped under these names.
            ("model.module.weight", "model.module.weight", ""),
            ("not_orig_mod.weight", "not_orig_mod.weight", ""),
        ] {
            let expected = (Cow::Borrowed(bare), pieces.to_owned());
            assert_eq!(unwrapped(name, &OwnPieces::default()), expected, "{name}");
        }
        let held = OwnPieces { held: "model.".to_owned(), repeats: false };
        let (bare, pieces) = unwrapped("module.model.model.layers.0.model.up", &held);
        assert_eq!((&*bare, &*pieces), ("model.layers.0.model.up", "module.model."));
        let repeats = OwnPieces { held: String::new(), repeats: true };
        let (bare, pieces) = unwrapped("encoder.encoder.encoder.layers.0.0.up", &repeats);
        assert_eq!((&*bare, &*pieces), ("encoder.layers.0.0.up", "encoder.encoder."));
    }
}
