//! Tests of the library's `inventory`.

mod folders;
