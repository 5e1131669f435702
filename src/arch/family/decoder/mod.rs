//! Names and config keys that decoder-only transformers share. A family's own rules take precedence
//! over these.

pub(super) mod json;
pub(super) mod keys;
