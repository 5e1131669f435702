//! Tests of the library's `model`.

mod derived;
mod products;
mod requests;
pub(crate) mod sharding;
mod slices;
