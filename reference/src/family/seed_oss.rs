//! Seed-OSS.

use super::{Family, as_configured};

pub(super) static FAMILIES: &[Family] = &[Family { name: "seed_oss", adjust: as_configured }];
