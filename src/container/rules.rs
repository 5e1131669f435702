//! Rules that a file may break and still have a single safe interpretation.

use std::path::Path;

use super::Strictness;
use crate::error::{Error, Result};
use crate::store::Note;

/// The rules that one file breaks. Each is refused or reported, depending on the strictness.
///
/// A hostile file may break a rule a million times, so only the first few cases are recorded.
#[derive(Debug)]
pub(super) struct Rules {
    strictness: Strictness,
    kept: Vec<(String, u64)>,
    more: u64,
}

impl Rules {
    const MOST: usize = 8;

    pub(super) fn new(strictness: Strictness) -> Self {
        Self { strictness, kept: Vec::new(), more: 0 }
    }

    /// Records that the file breaks a rule at a byte offset. `allowed` is the strictest policy that
    /// accepts it; `fault` says what was found and which reader refuses it.
    pub(super) fn broken(
        &mut self,
        allowed: Strictness,
        at: u64,
        fault: impl FnOnce() -> String,
    ) -> Result<()> {
        let refused = match self.strictness {
            Strictness::Strict => true,
            Strictness::Default => allowed == Strictness::Lenient,
            Strictness::Lenient => false,
        };
        if refused {
            let option = match allowed {
                Strictness::Lenient => "Strictness::Lenient (--lenient) accepts the file",
                _ => "without Strictness::Strict (--strict) the file is accepted",
            };
            return Err(Error::malformed(fault()).at(at).advise(option));
        }
        self.noted(at, fault);
        Ok(())
    }

    /// Records an oddity at a byte offset that every reader accepts.
    pub(super) fn noted(&mut self, at: u64, fault: impl FnOnce() -> String) {
        if self.kept.len() < Self::MOST {
            self.kept.push((fault(), at));
        } else {
            self.more += 1;
        }
    }

    pub(super) fn into_notes(self, path: &Path) -> Vec<Note> {
        let note = |text: String| Note::new(path, text);
        let more = (self.more > 0).then(|| note(format!("and {} more of this kind", self.more)));
        let kept = self.kept.into_iter().map(|(fault, at)| note(format!("{fault} (at byte {at})")));
        kept.chain(more).collect()
    }
}
