//! Writes two arrays of the program to a GGUF file, and quantizes one of them:
//! `cargo run --example own_arrays -- DST.gguf`.

use std::path::Path;

use weighbridge::container::GGUF;
use weighbridge::metadata::Value;
use weighbridge::{Builder, DType, Result, Tensor, WriteOptions};

fn main() -> Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "own.gguf".to_owned());
    println!("wrote {} bytes to {path}", write(Path::new(&path))?);
    Ok(())
}

/// Writes the file; returns its length in bytes.
pub fn write(path: &Path) -> Result<u64> {
    let values = (0..1024 * 256).map(|n| (n as f32 * 0.1).sin());
    let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
    let embedding = Tensor::new("embedding", DType::F32, &[1024, 256], bytes)?;
    let norm = Tensor::new("norm", DType::F32, &[256], 1.0f32.to_le_bytes().repeat(256))?;

    let mut model = Builder::new(&GGUF)?;
    model.metadata().set_text("general.architecture", "mine");
    model.metadata().set("mine.embedding_length", Value::U32(256));
    model.add_as("token_embd.weight", &embedding, DType::Q4_K)?;
    model.add("output_norm.weight", &norm)?;
    Ok(model.plan()?.run(path, &WriteOptions::new())?.bytes)
}
