//! Loads a model as an engine does: packed as stored, with q, k and v in one buffer, so that one
//! matrix multiplication serves all three: `cargo run --example fused -- MODEL`.

use std::path::Path;

use weighbridge::device::Cpu;
use weighbridge::load::Fusion;
use weighbridge::{LoadOptions, Model, Part, Result, WeightProvider};

fn main() -> Result<()> {
    let path = std::env::args().nth(1);
    let path = path.unwrap_or_else(|| "assets/sample/sample-Q8_0.gguf".to_owned());
    for line in load(Path::new(&path))? {
        println!("{line}");
    }
    Ok(())
}

/// Loads all tensors, and describes each fused one: its members, and the position of their weights
/// in the buffer.
pub fn load(path: &Path) -> Result<Vec<String>> {
    let provider = WeightProvider::new(Model::open(path)?, Cpu)?;
    let fusions: Vec<&Fusion> = ["qkv", "gate-up"].into_iter().filter_map(Fusion::named).collect();
    let loaded = provider.load_all(|_| true, &LoadOptions::new().fuse(&fusions))?;
    let mut lines = Vec::new();
    for tensor in loaded.iter().filter(|tensor| tensor.members.len() > 1) {
        let members: Vec<String> = tensor
            .members
            .iter()
            .map(|member| format!("{} (rows {:?})", member.name, member.rows))
            .collect();
        lines.push(format!("{:?} {}: {}", tensor.shape, tensor.dtype, members.join(", ")));
        for part in tensor.parts.iter().filter(|part| part.part == Part::Weight) {
            lines.push(format!("  codes at bytes {:?} of the buffer", part.range));
        }
    }
    lines.push(format!("{} buffers, {} bytes", loaded.len(), provider.cached_bytes()));
    Ok(lines)
}
