//! Phi 3 and 4.

use super::{Family, as_configured};

pub(super) static FAMILIES: &[Family] = &[Family { name: "phi3", adjust: as_configured }];
