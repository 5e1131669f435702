//! Tests of the library's `bytes`.

mod content_addressed;
mod shrink;
