//! Opens a model of any container, and prints its config and tensors:
//! `cargo run --example open -- MODEL`.

use std::path::Path;

use weighbridge::{Model, Result};

fn main() -> Result<()> {
    let path = std::env::args().nth(1);
    let path = path.unwrap_or_else(|| "assets/sample/sample-Q8_0.gguf".to_owned());
    for line in describe(Path::new(&path))? {
        println!("{line}");
    }
    Ok(())
}

/// Describes a model in lines: its config, and its tensors by canonical name.
pub fn describe(path: &Path) -> Result<Vec<String>> {
    let model = Model::open(path)?;
    let config = model.config()?;
    let mut lines = vec![
        format!("{}, from {}", config.architecture.value, model.container()),
        format!("{} layers of width {}", config.n_layers.value, config.dim.value),
    ];
    for tensor in model.tensors()? {
        let tensor = tensor?;
        let (name, shape, dtype) = (tensor.name(), tensor.shape(), tensor.dtype_label());
        lines.push(format!("{name} {shape:?} {dtype}"));
    }
    Ok(lines)
}
