//! Tests of the library's `engines`.

mod mlx_vlm;
pub(crate) mod requirements;
