//! Defaults for numbers that the files of a family leave out.

use super::values::Reported;
use crate::engines::Constant;
use crate::json::{Json, json};

/// Values used where a model's files do not state them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Defaults {
    /// Values that transformers' class takes for keys that `config.json` omits.
    pub(crate) of_class: &'static [(&'static str, Constant)],
    /// Values of the family's own code, or of llama.cpp's loader.
    pub(crate) of_family: &'static [FamilyDefault],
    /// Whether the files have GGUF's name of the family.
    pub(crate) has_gguf_name: bool,
    /// Keys that the family alone reads.
    pub(crate) own_keys: OwnKeys,
}

/// Keys of `config.json` that one family alone reads, by the row of the config's table.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OwnKeys(pub(crate) &'static [(&'static str, &'static [&'static str])]);

impl OwnKeys {
    /// The keys of a row: those of the family, then those that several families use.
    pub(crate) fn and(
        self,
        row: &'static str,
        shared: &'static [&'static str],
    ) -> impl Iterator<Item = &'static str> + Clone {
        let of_row = self.0.iter().filter(move |(name, _)| *name == row);
        of_row.flat_map(|(_, keys)| *keys).chain(shared).copied()
    }
}

/// A value that the files of a family leave out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FamilyDefault {
    /// The row of the config's table.
    pub(crate) row: &'static str,
    /// The value.
    pub(crate) value: Constant,
    /// The source that reports show in place of the family.
    pub(crate) source: Option<&'static str>,
    /// Whether it applies to files with GGUF's name of the family only. Others state the value.
    pub(crate) only_gguf: bool,
}

impl Defaults {
    /// The family's default for a row of the config's table.
    pub(crate) fn of_row(&self, row: &str) -> Option<&'static FamilyDefault> {
        let applies = |default: &&FamilyDefault| {
            default.row == row && (self.has_gguf_name || !default.only_gguf)
        };
        self.of_family.iter().find(applies)
    }

    /// Its value.
    pub(crate) fn value(&self, row: &str) -> Option<Json> {
        self.of_row(row).map(|default| default.value.into())
    }
}

impl From<Constant> for Json {
    fn from(constant: Constant) -> Self {
        match constant {
            Constant::Count(count) => count.reported(),
            Constant::Real(real) => real.reported(),
            Constant::Flag(flag) => flag.into(),
            Constant::Word(word) => word.into(),
            Constant::Empty => json!([]),
        }
    }
}
