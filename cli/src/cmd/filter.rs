//! Selects tensors by name.

use std::path::Path;

use weighbridge::{Error, ErrorKind};

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

/// The error of a filter that matches no tensor of a model.
pub(crate) fn no_match(glob: &str, model: &Path) -> Error {
    let fault = format!("no tensor name matches \"{glob}\"");
    let advice = "`inspect` lists the names; * matches any text, ? one character";
    Error::new(ErrorKind::NotFound, fault).advise(advice).in_file(model)
}
