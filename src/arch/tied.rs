//! Models that tie both and store the matrix that predicts words alone: transformers' classes tie them in either direction.

use super::config::{self, ConfigReader};
use super::mapping::Mapping;
use super::resolution::Resolution;
use crate::dialect::Dialect;
use crate::store::{Encoding, Store};

const EMBEDDING: &str = "token_embedding.weight";
/// The matrices that predict words, of decoders and of encoders.
const OUTPUTS: [&str; 2] = ["output.weight", "masked_words.output.weight"];
/// Norms next to the embedding, which tell what the model's names have before those of the tables.
const NORMS: [&str; 2] = ["output_norm.weight", "token_embedding_norm.weight"];

/// Maps the stored output matrix to the embedding, if the config ties both and no embedding is stored
/// (`tie_weights` of transformers 5.24).
pub(super) fn tie_embedding(
    store: &Store,
    resolution: &mut Resolution,
    reader: Option<&ConfigReader<'_>>,
) {
    let is_of_transformers =
        store.encoding() == Encoding::Safetensors && resolution.dialect == Dialect::HuggingFace;
    let place = |name: &str| resolution.mapped.iter().position(|known| known.canonical == name);
    let output = OUTPUTS.iter().find_map(|name| place(name));
    let (Some(output), None, true) = (output, place(EMBEDDING), is_of_transformers) else {
        return;
    };
    if !reader.is_some_and(config::ties) {
        return;
    }
    let Some(alias) = embedding_name(resolution) else { return };
    let Some(mapping) = resolution.mapped.get_mut(output) else { return };
    if let ([stored], true) = (mapping.stored.as_slice(), mapping.transform.is_same()) {
        EMBEDDING.clone_into(&mut mapping.canonical);
        resolution.aliases.push((alias, stored.clone()));
    }
}

/// The name that the embedding would have, next to the norm that the model has.
fn embedding_name(resolution: &Resolution) -> Option<String> {
    let rules = resolution.architecture?.rules.iter().copied().flatten();
    let name = |canonical: &str| {
        let mut rules = rules.clone().filter(|rule| !rule.hf.name.is_empty());
        rules.find(|rule| rule.canonical == canonical && rule.hf.transform.is_same())
    };
    let embedding = name(EMBEDDING)?.hf.name;
    let beside = |norm: &&str| {
        let found = resolution.mapped.iter().find(|known| known.canonical == *norm);
        let stored = found.and_then(|Mapping { stored, .. }| stored.first());
        // The name that the class has for it.
        let stored = stored.map(|stored| {
            let mut renamed = resolution.renamed.iter();
            renamed.find(|(other, _)| other == stored).map_or(stored, |(_, name)| name)
        });
        let norm = name(norm)?.hf.name;
        let shared = norm.bytes().zip(embedding.bytes()).take_while(|(a, b)| a == b).count();
        let shared = norm.get(..shared)?.rfind('.').map_or(0, |dot| dot.saturating_add(1));
        let before = stored?.strip_suffix(norm.get(shared..)?)?;
        Some(format!("{before}{}", embedding.get(shared..)?))
    };
    Some(NORMS.iter().find_map(beside).unwrap_or_else(|| embedding.to_owned()))
}
