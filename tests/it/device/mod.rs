//! Tests of the library's `device`.

pub(crate) mod host;
mod imports;
mod kernel;
