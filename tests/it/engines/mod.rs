//! Tests of the library's `engines`.

pub(crate) mod requirements;
