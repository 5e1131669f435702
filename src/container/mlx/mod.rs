#![doc = include_str!("../../../docs/formats/mlx.md")]

mod read;
#[cfg(feature = "write")]
pub(crate) mod write;

use super::Container;

/// The MLX container's row in [`CONTAINERS`](super::CONTAINERS).
pub static MLX: Container = Container {
    name: read::NAME,
    summary: "directories quantized by MLX: packed weights, scales and biases",
    detect: read::detect,
    open: read::open,
    #[cfg(feature = "write")]
    write: Some(&write::WRITER),
};
