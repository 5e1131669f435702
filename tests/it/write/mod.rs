//! Tests of the library's `write`.

pub(crate) mod account;
mod builder;
mod finite;
mod round_trip;
