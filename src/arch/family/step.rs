//! Functions that files of families name: what cannot be said in a table.

use crate::json::{Json, Map};

use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::variant::{MlxConfig, RopeFreqs};
use crate::error::Result;

/// A function of a family, by what it is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Writes keys of a GGUF file.
    Keys(fn(&SourceModel<'_>, &mut KeyWriter<'_>) -> Result<()>),
    /// Writes keys of `config.json`.
    Config(fn(&SourceModel<'_>, &mut Map<String, Json>) -> Result<()>),
    /// Says whether a class fits a model.
    Fits(fn(&SourceModel<'_>) -> bool),
    /// Says whether a `config.json` is that of a variant or of another family.
    Is(fn(&Json) -> bool),
    /// Derives the divisors of rotary frequencies that GGUF stores as `rope_freqs.weight`.
    Frequencies(RopeFreqs),
    /// Changes a `config.json` for mlx-lm.
    Mlx(MlxConfig),
    /// Counts the rows of the position embedding before that of the first position.
    Rows(fn(&SourceModel<'_>) -> Result<u64>),
}

/// The functions of a module, by name.
pub(crate) type Steps = &'static [(&'static str, Step)];
