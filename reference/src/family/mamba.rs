//! Mamba and Mamba 2.

use super::{Family, as_configured};

pub(super) static FAMILIES: &[Family] = &[
    Family { name: "mamba", adjust: as_configured },
    Family { name: "mamba2", adjust: as_configured },
];
