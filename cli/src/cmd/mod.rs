//! One file a verb.

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

use std::collections::HashMap;

use weighbridge::arch::Resolution;

use crate::Stop;

/// What a command gives.
pub(crate) type Done = Result<crate::Status, Stop>;

/// Canonical names by stored names; with `+` between where one stored tensor holds several.
pub(crate) type CanonicalNames<'a> = HashMap<&'a str, String>;

pub(crate) fn canonical_names(resolution: &Resolution) -> CanonicalNames<'_> {
    let mut names = CanonicalNames::new();
    for mapping in &resolution.mapped {
        for stored in &mapping.stored {
            let name = names.entry(stored).or_default();
            if !name.is_empty() {
                name.push('+');
            }
            name.push_str(&mapping.canonical);
        }
    }
    names
}

/// Which names a `--filter` lets through.
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
