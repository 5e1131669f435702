//! Tests of the library's `quant`.

mod decode;
mod quantize;
mod quantize_mlx;
mod repack;
