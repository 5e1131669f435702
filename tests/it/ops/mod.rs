//! Tests of the library's `ops`.

mod agreement;
mod check_values;
pub(crate) mod convert;
mod convert_names;
mod create;
mod dialect;
mod diff;
mod diff_config;
mod inspect;
mod left_out;
mod merging;
mod mmproj;
#[cfg(feature = "http")]
pub(crate) mod pull;
#[cfg(feature = "http")]
mod pull_cache;
pub(crate) mod ranks;
mod refused;
mod reports;
mod rewrite;
mod shapes;
mod text_class;
mod verify;
mod zero_biases;
