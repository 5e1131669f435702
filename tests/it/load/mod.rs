//! Tests of the library's `load`.

mod provider;
