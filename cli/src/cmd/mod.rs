//! The subcommands, one file each.

pub(crate) mod config;
pub(crate) mod convert;
pub(crate) mod create;
pub(crate) mod diff;
pub(crate) mod dump;
pub(crate) mod generate;
pub(crate) mod hash;
pub(crate) mod inspect;
pub(crate) mod list;
pub(crate) mod load;
pub(crate) mod logits;
pub(crate) mod merge;
pub(crate) mod meta;
pub(crate) mod quantize;
pub(crate) mod split;
pub(crate) mod verify;

use crate::Stop;

/// The result of a subcommand.
pub(crate) type Done = Result<crate::Status, Stop>;

/// The names that `--filter` matches.
pub(crate) struct Filter(Option<wildmatch::WildMatch>);

impl Filter {
    pub(crate) fn new(glob: Option<&str>) -> Self {
        Self(glob.map(wildmatch::WildMatch::new))
    }

    pub(crate) fn passes(&self, stored: &str, canonical: Option<&str>) -> bool {
        let Some(glob) = &self.0 else { return true };
        glob.matches(stored) || canonical.is_some_and(|name| glob.matches(name))
    }
}
