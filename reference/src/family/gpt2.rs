//! GPT-2: learned positions.

use super::{Family, as_configured};

pub(super) static FAMILIES: &[Family] = &[Family { name: "gpt2", adjust: as_configured }];
