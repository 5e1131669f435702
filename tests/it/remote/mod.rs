//! Tests of the library's `remote`.

mod answers;
mod client;
