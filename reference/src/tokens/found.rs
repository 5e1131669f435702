//! Functions that the models of tokenizers share.

use std::ops::Range;

use weighbridge::tokenizer::VocabularyTable;

/// A token of a normalized text, and its range there.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) id: u32,
    pub(super) range: Range<usize>,
}

/// The tokens of all bytes, such as `<0x0A>`; `None` if some have none.
pub(super) fn byte_tokens(vocabulary: &VocabularyTable) -> Option<Vec<u32>> {
    (0..=255u8).map(|byte| vocabulary.id(format!("<0x{byte:02X}>").as_bytes())).collect()
}
