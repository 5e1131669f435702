//! Rules that a file may break and still have a single safe interpretation.

use std::path::Path;

use super::Strictness;
use crate::error::{AdvisedOption, Error, Result};
use crate::store::Note;

/// The rules that one file breaks. Each is refused or reported, depending on the strictness.
///
/// A hostile file may break a rule a million times, so only the first few cases are recorded.
#[derive(Debug)]
pub(super) struct RuleViolations {
    strictness: Strictness,
    /// Each case, the byte that has it, and whether it breaks a rule.
    kept: Vec<(String, u64, bool)>,
    more: u64,
}

impl RuleViolations {
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
            let (advice, option) = match allowed {
                Strictness::Lenient => ("{} accepts the file", AdvisedOption::Lenient),
                _ => ("without {} the file is accepted", AdvisedOption::Strict),
            };
            return Err(Error::malformed(fault()).at(at).advise_option(advice, option));
        }
        self.keep(at, fault, true);
        Ok(())
    }

    /// Records an oddity at a byte offset that every reader accepts.
    pub(super) fn noted(&mut self, at: u64, fault: impl FnOnce() -> String) {
        self.keep(at, fault, false);
    }

    fn keep(&mut self, at: u64, fault: impl FnOnce() -> String, breaks_rule: bool) {
        if self.kept.len() < Self::MOST {
            self.kept.push((fault(), at, breaks_rule));
        } else {
            self.more += 1;
        }
    }

    pub(super) fn into_notes(self, path: &Path) -> Vec<Note> {
        let note = |text: String, breaks_rule| Note { breaks_rule, ..Note::new(path, text) };
        let any = self.kept.iter().any(|(.., breaks_rule)| *breaks_rule);
        let more = format!("and {} more of this kind", self.more);
        let more = (self.more > 0).then(|| note(more, any));
        let kept = self.kept.into_iter();
        kept.map(|(fault, at, rule)| note(format!("{fault} (at byte {at})"), rule))
            .chain(more)
            .collect()
    }
}
