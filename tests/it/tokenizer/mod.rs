//! Tests of the library's `tokenizer`.

mod decoder;
pub(crate) mod files;
