//! Converts a model to another container, and shows the progress:
//! `cargo run --example convert -- SRC DST gguf|safetensors|mlx`.

use std::ops::ControlFlow;
use std::path::Path;

use weighbridge::container::{CONTAINERS, Container};
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::{Error, ErrorKind, Model, Progress, Result, WriteOptions};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [src, dst, name] = arguments.as_slice() else {
        eprintln!("usage: convert SRC DST gguf|safetensors|mlx");
        std::process::exit(2);
    };
    let Some(container) = CONTAINERS.iter().find(|container| container.name == name) else {
        return Err(Error::new(ErrorKind::Mismatch, format!("no container is called {name}")));
    };
    for line in convert(Path::new(src), Path::new(dst), container)? {
        println!("{line}");
    }
    Ok(())
}

/// Converts a model, and describes every tensor whose values changed.
pub fn convert(src: &Path, dst: &Path, container: &'static Container) -> Result<Vec<String>> {
    let model = Model::open(src)?;
    let plan = ops::convert(&model, &ConvertOptions::new(container))?;
    // The plan has the method of each tensor before anything is written.
    let lossy = plan.tensors.iter().filter(|tensor| !tensor.method.is_lossless());
    let mut lines: Vec<String> = lossy
        .map(|tensor| {
            let reason = tensor.reason.as_deref().unwrap_or("as asked for");
            let (name, from, to) = (&tensor.name, &tensor.from, tensor.dtype);
            format!("{name}: {from} becomes {to}, {}: {reason}", tensor.method.name())
        })
        .collect();
    let show = |progress: Progress| {
        eprint!("\r{:3} %", progress.done * 100 / progress.total.max(1));
        // `Break` would cancel the conversion and remove the partial output.
        ControlFlow::Continue(())
    };
    let written = plan.run(dst, &WriteOptions::new().progress(&show))?;
    lines.push(format!("wrote {} bytes", written.bytes));
    Ok(lines)
}
