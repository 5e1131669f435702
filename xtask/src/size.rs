//! `cargo xtask size`: builds the C library that only reads models, as docs/c.md says, and weighs it.

use std::process::Command;

use crate::tools::{Done, Fault, run_command};

/// A program that only reads models should not become much larger by this library.
const MOST: u64 = 4_000_000;

pub(crate) fn run(_options: &[String]) -> Result<(), Fault> {
    let bytes = measured()?;
    let said =
        format!("the C library that only reads has {bytes} bytes, at most {MOST} are allowed");
    if bytes > MOST {
        return Err(said.into());
    }
    eprintln!("{said}");
    Ok(())
}

fn measured() -> Done<u64> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--profile", "page", "--config", "profile.page.panic=\"unwind\""]);
    cargo.args(["--package", "weighbridge-capi", "--no-default-features"]);
    cargo.args(["--target-dir", "target"]);
    run_command(&mut cargo)?;
    let name =
        format!("{}weighbridge{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let path = std::path::Path::new("target/page").join(name);
    let found = std::fs::metadata(&path).map_err(|error| format!("{}: {error}", path.display()));
    found.map(|found| found.len())
}
