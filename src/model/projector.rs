//! Compares a projector (mmproj) with the language model that it is for.

use super::Model;
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
struct Length {
    value: u64,
    source: String,
}

impl Model {
    /// Whether the file is a projector in GGUF (mmproj): the vision or audio model of a language model.
    pub fn is_projector(&self) -> bool {
        self.metadata().str("general.architecture") == Some("clip")
    }

    /// The fault of a projector in GGUF whose vectors do not have the length of this model's embeddings, so that no program
    /// runs the pair. `None` if they have, or if one of the lengths is not known.
    pub fn projector_fault(&self, projector: &Self) -> Option<String> {
        let own = self.embedding_length()?;
        let other = projector.projected_lengths().into_iter().find(|it| it.value != own.value)?;
        Some(format!(
            "the projector makes vectors of length {} ({}), but the embeddings of {} have length {} ({}): llama.cpp and \
             Ollama refuse the pair",
            other.value,
            Text::new(other.source.as_bytes()).brief(),
            Text::from_path(self.path()),
            own.value,
            Text::new(own.source.as_bytes()).brief(),
        ))
    }

    /// The same for the projector that the container attaches to the model.
    pub(crate) fn attached_projector_fault(&self) -> Option<String> {
        let mut layers = self.attachments().iter().filter(|layer| layer.kind == "projector");
        // A layer that does not open is reported where it is read.
        layers.find_map(|layer| self.projector_fault(&Self::open(&layer.path).ok()?))
    }

    /// The length of the embeddings of a language model.
    fn embedding_length(&self) -> Option<Length> {
        let family = self.metadata().str("general.architecture").unwrap_or_default();
        let key = format!("{family}.embedding_length");
        if let Some(value) = self.metadata().u64(&key) {
            return Some(Length { value, source: key });
        }
        let width = self.config().ok()?.dim.clone();
        Some(Length { value: width.value.into(), source: width.source.to_string() })
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
                let Some(tensor) = self.store().find(row.tensor) else { continue };
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
