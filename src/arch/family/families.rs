//! The contents of a file of families.

use crate::arch::Architecture;
use crate::arch::habits::MlxModules;
use crate::arch::variant::Variant;

/// The contents of a file of families.
#[derive(Debug, Default)]
pub(super) struct Families {
    pub(super) architectures: Vec<&'static Architecture>,
    /// Facts about values of `general.architecture` whose tensors have no canonical names.
    pub(super) nameless: Vec<Variant>,
    /// mlx-lm's choices for modules of such models.
    pub(super) modules: Vec<MlxModules>,
}

impl Families {
    /// Whether a family, a value of `general.architecture` or a `model_type` has this name.
    pub(super) fn mentions(&self, name: &str) -> bool {
        let of_row = |row: &&Architecture| {
            row.name == name || row.gguf.contains(&name) || row.hf.contains(&name)
        };
        self.architectures.iter().any(of_row) || self.nameless.iter().any(|row| row.gguf == name)
    }
}
