//! The known facts about a model: its place, and the contents of its files.

use super::index::Entry;
use super::programs;
use super::walk::{Candidate, Kind};
use crate::container::MLX;

/// A model that was found, and what was found out about it.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) candidate: Candidate,
    pub(super) entry: Entry,
}

impl Known {
    /// Whether it is listed: a GGUF file without tensors is a vocabulary.
    pub(super) fn is_model(&self) -> bool {
        let is_weightless = self.candidate.kind == Kind::Weightless;
        self.entry.tensors > 0 || self.entry.error.is_some() || is_weightless
    }

    /// Whether it is one of these programs', or in a folder of no program. The hub cache also has MLX's.
    pub(super) fn is_of(&self, programs: &[&str]) -> bool {
        let is_named = |name| programs.contains(&name);
        let Some(folder) = self.candidate.program else { return true };
        programs.is_empty() || is_named(folder) || self.program().is_some_and(is_named)
    }

    /// The program: that of the folder; a model in MLX's format in the hub cache is one of MLX's.
    pub(super) fn program(&self) -> Option<&'static str> {
        let is_mlx = self.entry.container == Some(MLX.name);
        self.candidate.program.map(|name| match is_mlx && name == programs::HUB {
            true => programs::MLX,
            false => name,
        })
    }
}
