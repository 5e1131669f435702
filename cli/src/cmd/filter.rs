//! Selects tensors by name.

use std::path::Path;

use weighbridge::ops::InspectedTensors;
use weighbridge::{Error, ErrorKind};

/// The names that `--filter` matches: as a whole if the filter has `*` or `?`, else in any part.
pub(crate) struct Filter(Option<wildmatch::WildMatch>);

impl Filter {
    pub(crate) fn new(glob: Option<&str>) -> Self {
        let any_part = |text: &str| match text.contains(['*', '?']) {
            true => text.to_owned(),
            false => format!("*{text}*"),
        };
        Self(glob.map(|glob| wildmatch::WildMatch::new(&any_part(glob))))
    }

    pub(crate) fn passes(&self, stored: &str, canonical: Option<&str>) -> bool {
        let Some(glob) = &self.0 else { return true };
        glob.matches(stored) || canonical.is_some_and(|name| glob.matches(name))
    }

    /// Removes the tensors that do not pass.
    pub(crate) fn retain(&self, tensors: &mut InspectedTensors<'_>) {
        match tensors {
            InspectedTensors::Stored { tensors, .. } => tensors.retain(|tensor| {
                let canonical = tensor.canonical.iter().flatten().next();
                self.passes(&tensor.name, canonical.map(|name| &**name))
            }),
            InspectedTensors::Canonical { tensors, unknown, auxiliary, .. } => {
                tensors.retain(|tensor| {
                    tensor.stored.iter().any(|stored| self.passes(stored, Some(tensor.name)))
                });
                unknown.retain(|name| self.passes(name, None));
                auxiliary.retain(|tensor| self.passes(tensor.name, None));
            }
            _ => {}
        }
    }
}

/// The error of a filter that matches no tensor of a model.
pub(crate) fn no_match(glob: &str, model: &Path) -> Error {
    let fault = format!("no tensor name matches \"{glob}\"");
    let advice = match glob.contains(['*', '?']) {
        true => {
            "with * or ?, it is that of a whole name, as in '*attn_q*'; `weighbridge inspect --all` lists the names"
        }
        false => "`weighbridge inspect --all` lists the names",
    };
    Error::new(ErrorKind::NotFound, fault).advise(advice).in_file(model)
}
