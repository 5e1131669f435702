//! Families whose layers compute what no operation here does.

use super::Family;
use crate::error::{Error, Result};
use crate::facts::Facts;

pub(super) static FAMILIES: &[Family] = &[
    Family { name: "apertus", adjust: |facts, _| lacks(facts, "the activation xIELU") },
    Family { name: "llama4", adjust: |facts, _| lacks(facts, "attention within chunks") },
    Family { name: "jamba", adjust: |facts, _| lacks(facts, "state-space layers") },
    Family { name: "lfm2", adjust: |facts, _| lacks(facts, "short convolutions") },
    Family { name: "phimoe", adjust: |facts, _| lacks(facts, "a softmax for each chosen expert") },
];

fn lacks(facts: &Facts<'_>, what: &str) -> Result<()> {
    let name = facts.architecture.name;
    Err(Error::Unsupported(format!("the architecture \"{name}\" cannot be run yet: {what}")))
}
