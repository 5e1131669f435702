//! Tests of the library's `ollama`.

mod create;
mod projectors;
