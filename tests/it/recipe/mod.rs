//! Tests of the library's `recipe`.

mod dtypes;
mod imatrix;
