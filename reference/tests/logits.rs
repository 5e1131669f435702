//! Tiny models of every family: logits as Hugging Face transformers computes them, from the directory
//! that transformers wrote, and from other containers that `convert` makes of it.

mod support;

use std::path::Path;

use support::{Container, Expected, compare, converted, outside};
use weighbridge::Model;

/// Models that do not pass yet, or cannot in that container: the fixture, the container, the reason.
const EXCEPT: &[(&str, Container, &str)] = &[];

/// Every fixture from one container; those of [`EXCEPT`] must fail.
fn all(container: Container) {
    let Some(folder) = outside("logits") else { return };
    let mut faults = Vec::new();
    let mut passed = 0;
    for name in support::fixtures(&folder) {
        let reason = EXCEPT.iter().find(|(of, within, _)| *of == name && *within == container);
        let found = one(&folder.join(&name), container);
        match (found, reason) {
            (Ok(_), None) => passed += 1,
            (Err(_), Some(_)) => {}
            (Err(fault), None) => faults.push(format!("{name}: {fault}")),
            (Ok(_), Some(_)) => faults.push(format!("{name} passes: remove it from EXCEPT")),
        }
    }
    assert!(faults.is_empty(), "{container:?}: {passed} pass, but\n{}", faults.join("\n"));
    assert!(passed > 0, "no fixtures in {}", folder.display());
}

fn one(folder: &Path, container: Container) -> Result<f32, String> {
    let expected = Expected::read(&folder.join("logits.safetensors"));
    let model = Model::open(folder).map_err(|error| error.to_string())?;
    let (model, _kept) = converted(model, container)?;
    compare(&model, &expected)
}

#[test]
fn a_directory_gives_the_logits_of_transformers() {
    all(Container::Directory);
}

#[test]
fn a_gguf_gives_the_logits_of_transformers() {
    all(Container::Gguf);
}

#[test]
fn an_mlx_directory_gives_the_logits_of_transformers() {
    all(Container::Mlx);
}
