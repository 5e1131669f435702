//! Tests of the library's `write`.

mod account;
mod builder;
mod finite;
mod round_trip;
