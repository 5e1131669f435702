//! Compares a projector (mmproj) with the language model that it is for.

use super::Model;
use crate::store::Length;

impl Model {
    /// Whether the file is a projector in GGUF (mmproj): the vision or audio model of a language model.
    pub fn is_projector(&self) -> bool {
        self.store().is_projector()
    }

    /// The fault of a projector in GGUF whose vectors do not have the length of this model's embeddings, so that no program
    /// runs the pair. `None` if they have, or if one of the lengths is not known.
    pub fn projector_fault(&self, projector: &Self) -> Option<String> {
        projector.store().misfit(self.path(), &self.embedding_length()?)
    }

    /// The same for the projector that the container attaches to the model.
    pub(crate) fn attached_projector_fault(&self) -> Option<String> {
        let mut layers = self.attachments().iter().filter(|layer| layer.kind == "projector");
        // A layer that does not open is reported where it is read.
        layers.find_map(|layer| self.projector_fault(&Self::open(&layer.path).ok()?))
    }

    /// The length of the embeddings of a language model.
    fn embedding_length(&self) -> Option<Length> {
        self.store().embedding_length().or_else(|| {
            let width = self.config().ok()?.dim.clone();
            Some(Length { value: width.value.into(), source: width.source.to_string() })
        })
    }
}
