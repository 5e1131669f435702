//! Apertus.

use super::{Family, as_configured};

pub(super) static FAMILIES: &[Family] = &[Family { name: "apertus", adjust: as_configured }];
