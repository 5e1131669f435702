//! Tests of the library's `arch`.

mod config;
mod cut;
mod encoders_and_decoders;
mod factor;
pub(crate) mod families;
mod linear_attention;
mod missing;
mod names;
mod structure;
mod tied;
mod transform;
