//! Prefixes that programs which wrap a model put before the names of its tensors.

use crate::store::Store;

/// Prefixes of programs that wrap a model: torch.compile, data parallelism, FSDP, PEFT.
const WRAPPERS: [&str; 4] = ["_orig_mod.", "module.", "_fsdp_wrapped_module.", "base_model.model."];

/// The prefix that every stored name has because the model was wrapped; empty if there is none.
pub(super) fn prefix(store: &Store) -> String {
    let mut prefix = String::new();
    let all = |prefix: &str| {
        let mut names = store.tensors().map(|tensor| tensor.name().spelling());
        names.all(|name| name.starts_with(prefix))
    };
    let next = |prefix: &str| {
        let longer = WRAPPERS.iter().map(|wrapper| format!("{prefix}{wrapper}"));
        longer.into_iter().find(|longer| !store.is_empty() && all(longer))
    };
    // Several programs may have wrapped the model, each once.
    for _ in 0..WRAPPERS.len() {
        match next(&prefix) {
            Some(longer) => prefix = longer,
            None => break,
        }
    }
    prefix
}
