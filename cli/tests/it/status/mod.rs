//! Tests of the program's `status`.

mod errors;
mod interrupted;
mod json;
mod statuses;
