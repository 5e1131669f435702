//! Families: what their configs do not say.
//!
//! A family is a function that changes the plan which the config gave. Most change one thing or
//! nothing. Facts are those of the models' classes in transformers.

mod apertus;
mod bert;
mod cohere;
mod deepseek;
mod ernie;
mod exaone4;
mod falcon;
mod gemma;
mod glm;
mod gpt2;
mod gpt_oss;
mod hunyuan;
mod jamba;
mod jina_bert;
mod lfm2;
mod llama;
mod llama4;
mod mamba;
mod minicpm3;
mod modernbert;
mod nemotron;
mod nomic_bert;
mod olmo;
mod phi;
mod phi2;
mod qwen;
mod qwen3_next;
mod seed_oss;
mod stablelm;
mod starcoder2;
mod t5;
mod whisper;

use crate::error::{Error, Result};
use crate::facts::Facts;
use crate::plan::Plan;

/// A family of [`weighbridge::arch::architectures`], and what it changes in a plan.
#[derive(Debug)]
pub(crate) struct Family {
    /// The architecture's name.
    pub(crate) name: &'static str,
    pub(crate) adjust: fn(&Facts<'_>, &mut Plan) -> Result<()>,
}

/// Every family that can be run.
pub(crate) static FAMILIES: &[&[Family]] = &[
    apertus::FAMILIES,
    bert::FAMILIES,
    cohere::FAMILIES,
    deepseek::FAMILIES,
    ernie::FAMILIES,
    exaone4::FAMILIES,
    falcon::FAMILIES,
    gemma::FAMILIES,
    glm::FAMILIES,
    gpt2::FAMILIES,
    gpt_oss::FAMILIES,
    hunyuan::FAMILIES,
    jamba::FAMILIES,
    jina_bert::FAMILIES,
    lfm2::FAMILIES,
    llama::FAMILIES,
    llama4::FAMILIES,
    mamba::FAMILIES,
    minicpm3::FAMILIES,
    modernbert::FAMILIES,
    nemotron::FAMILIES,
    nomic_bert::FAMILIES,
    olmo::FAMILIES,
    phi::FAMILIES,
    phi2::FAMILIES,
    qwen::FAMILIES,
    qwen3_next::FAMILIES,
    seed_oss::FAMILIES,
    stablelm::FAMILIES,
    starcoder2::FAMILIES,
    t5::FAMILIES,
    whisper::FAMILIES,
];

/// The family of a model.
pub(crate) fn find(facts: &Facts<'_>) -> Result<&'static Family> {
    let name = facts.architecture.name;
    let found = FAMILIES.iter().copied().flatten().find(|family| family.name == name);
    found
        .ok_or_else(|| Error::Unsupported(format!("the architecture \"{name}\" cannot be run yet")))
}

/// For families of which the config says everything.
pub(crate) fn as_configured(_: &Facts<'_>, _: &mut Plan) -> Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use weighbridge::arch::architectures;

    use super::FAMILIES;

    #[test]
    fn every_architecture_of_the_library_has_a_row() {
        for row in architectures() {
            let found = FAMILIES.iter().copied().flatten().filter(|family| family.name == row.name);
            assert_eq!(found.count(), 1, "{}", row.name);
        }
        for family in FAMILIES.iter().copied().flatten() {
            assert!(architectures().iter().any(|row| row.name == family.name), "{}", family.name);
        }
    }
}
