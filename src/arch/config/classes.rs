//! Facts that only the name of a model's class states.

use super::field::Field;
use super::origin::FieldSource;
use crate::arch::Resolution;
use crate::json::Json;
use crate::store::Store;

/// The ends of the names of classes that make embeddings with a decoder's layers, without its mask: those of LLM2Vec, and
/// of NVIDIA's embedders. They are remote code; encoders of transformers have such names too.
const BIDIRECTIONAL: [&str; 3] = ["BiModel", "EncoderModel", "BidirectionalModel"];

/// That a decoder is not causal. `None` if its class does not say so.
pub(super) fn bidirectional(store: &Store, resolution: &Resolution) -> Option<Field<bool>> {
    let classes = store.document("config.json")?.get("architectures")?.as_array()?;
    let is_one = |class: &Json| {
        let class = class.as_str().unwrap_or_default();
        BIDIRECTIONAL.iter().any(|end| class.ends_with(end))
    };
    // Of other classes, the encoder of a model with a decoder has such a name.
    let has_encoder = || resolution.mapped.iter().any(|one| one.canonical.starts_with("enc."));
    let encodes = resolution.architecture.is_some_and(|row| row.encodes) || has_encoder();
    let found = !encodes && classes.iter().any(is_one);
    found.then(|| Field::derived(false, FieldSource::document("config.json", "architectures")))
}
