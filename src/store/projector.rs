//! Compares a projector (mmproj) with the language model that it is for.

use std::path::Path;

use super::Store;
use crate::bytes::Text;
use crate::engines::llama_cpp;

/// The keys with the type of a projector, and with the length of the vectors that most types make.
const KEYS: [(&str, &[&str]); 3] = [
    ("clip.projector_type", &["clip.vision.projection_dim", "clip.audio.projection_dim"]),
    ("clip.vision.projector_type", &["clip.vision.projection_dim"]),
    ("clip.audio.projector_type", &["clip.audio.projection_dim"]),
];

/// The type of projectors that state none (clip.cpp).
const USUAL: &str = "mlp";

/// A length, and the key or tensor that it is from.
pub(crate) struct Length {
    pub(crate) value: u64,
    pub(crate) source: String,
}

impl Store {
    /// Whether the file is a projector in GGUF (mmproj): the vision or audio model of a language model.
    pub(crate) fn is_projector(&self) -> bool {
        self.metadata().str("general.architecture") == Some("clip")
    }

    /// The length of the embeddings that a GGUF file of a language model states.
    pub(crate) fn embedding_length(&self) -> Option<Length> {
        let family = self.metadata().str("general.architecture").unwrap_or_default();
        let key = format!("{family}.embedding_length");
        self.metadata().u64(&key).map(|value| Length { value, source: key })
    }

    /// The fault of a projector whose vectors do not have the length of the embeddings of the model at a path. `None` if
    /// they have, or if their length is not known.
    pub(crate) fn misfit(&self, path: &Path, embeddings: &Length) -> Option<String> {
        let found = self.projected_lengths();
        let other = found.into_iter().find(|it| it.value != embeddings.value)?;
        Some(format!(
            "the projector makes vectors of length {} ({}), but the embeddings of {} have length {} ({}): llama.cpp and \
             Ollama refuse the pair",
            other.value,
            Text::new(other.source.as_bytes()).brief(),
            Text::from_path(path),
            embeddings.value,
            Text::new(embeddings.source.as_bytes()).brief(),
        ))
    }

    /// The lengths of the vectors that a projector makes: of images, and of sounds.
    fn projected_lengths(&self) -> Vec<Length> {
        let keys = self.metadata();
        if !self.is_projector() {
            return Vec::new();
        }
        let stated = KEYS.iter().filter_map(|(kind, lengths)| Some((keys.str(kind)?, *lengths)));
        let mut kinds: Vec<(&str, &[&str])> = stated.collect();
        if kinds.is_empty() {
            kinds.push((USUAL, &[]));
        }
        let mut found = Vec::new();
        for (kind, lengths) in kinds {
            let tensors = llama_cpp::projector(kind);
            for row in tensors {
                let Some(tensor) = self.find(row.tensor) else { continue };
                let shape = tensor.shape();
                let axis = if row.of_rows { shape.first() } else { shape.last() };
                let source = row.tensor.to_owned();
                found.extend(axis.map(|&value| Length { value, source }));
            }
            for key in lengths.iter().filter(|_| tensors.is_empty()) {
                let length = keys.u64(key).filter(|length| *length > 0);
                found.extend(length.map(|value| Length { value, source: (*key).to_owned() }));
            }
        }
        found
    }
}
