//! Checks LoRA adapters without the model that they change.

use crate::adapter::Adapter;
use crate::model::Model;
use crate::store::Encoding;

/// The result of checking an adapter.
#[derive(Debug, Default)]
pub(super) struct AdapterCheck {
    /// Whether its tensors have names that only adapters have, so that no rule for models applies.
    pub(super) is_separate: bool,
    pub(super) fault: Option<String>,
    /// The note on what cannot be checked without the model.
    pub(super) note: Option<String>,
}

impl AdapterCheck {
    /// Checks that each matrix A has its matrix B, and that both have one rank. The files of other models have no fault.
    pub(super) fn of(model: &Model) -> Self {
        let is_gguf = model.encoding() == Encoding::Gguf;
        let (error, note) = match Adapter::of(model) {
            Ok(None) => return Self::default(),
            // llama.cpp refuses a file with any other tensor. PEFT has kinds that cannot be merged, but it loads them.
            Ok(Some(adapter)) if adapter.is_empty() && model.is_empty() => {
                (adapter.check_content().err(), None)
            }
            Ok(Some(adapter)) => {
                (adapter.unmergeable().filter(|_| is_gguf).cloned(), note(&adapter))
            }
            Err(error) => (Some(error), None),
        };
        let fault = error.map(|error| error.without_path().to_string());
        Self { is_separate: is_gguf, fault, note }
    }
}

/// What cannot be checked without the model.
fn note(adapter: &Adapter) -> Option<String> {
    let count = adapter.len();
    let pairs = match count {
        0 => return None,
        1 => "1 pair of matrices is".to_owned(),
        _ => format!("{count} pairs of matrices are"),
    };
    Some(format!(
        "{pairs} complete; whether they fit the base model is checked when both are merged"
    ))
}
