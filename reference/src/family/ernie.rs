//! ERNIE 4.5.

use super::{Family, as_configured};

pub(super) static FAMILIES: &[Family] = &[Family { name: "ernie4_5", adjust: as_configured }];
