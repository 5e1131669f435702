//! Reads the values of every tensor, of any dtype, in pieces, so that no whole tensor is in memory:
//! `cargo run --example values -- MODEL`.

use std::path::Path;

use weighbridge::{Error, Model, Result};

fn main() -> Result<()> {
    let path = std::env::args().nth(1);
    let path = path.unwrap_or_else(|| "assets/sample/sample-Q8_0.gguf".to_owned());
    for tensor in statistics(Path::new(&path))? {
        println!("{:<45} mean {:>12.6} largest {:>10.4}", tensor.name, tensor.mean, tensor.largest);
    }
    Ok(())
}

/// Statistics of one tensor's values.
#[derive(Debug)]
pub struct Statistics {
    pub name: String,
    pub mean: f64,
    /// The largest magnitude.
    pub largest: f32,
}

/// Computes the statistics of each tensor in one pass over its values.
pub fn statistics(path: &Path) -> Result<Vec<Statistics>> {
    let model = Model::open(path)?;
    let mut all = Vec::new();
    for tensor in model.tensors()? {
        let tensor = tensor?;
        let (mut sum, mut largest) = (0.0, 0.0f32);
        tensor.for_each_values(|values: &[f32]| {
            sum += values.iter().map(|value| f64::from(*value)).sum::<f64>();
            largest = values.iter().fold(largest, |largest, value| largest.max(value.abs()));
            Ok::<(), Error>(())
        })?;
        let mean = sum / tensor.elements() as f64;
        all.push(Statistics { name: tensor.name().to_owned(), mean, largest });
    }
    Ok(all)
}
