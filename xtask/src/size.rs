//! `cargo xtask size`: builds the C library that only reads models, as docs/c.md says, and weighs it.

use std::process::{Command, ExitCode};

/// A program that only reads models should not become much larger by this library.
const MOST: u64 = 4_000_000;

pub(crate) fn run() -> ExitCode {
    match measured() {
        Ok(bytes) => {
            eprintln!(
                "the C library that only reads has {bytes} bytes, at most {MOST} are allowed"
            );
            if bytes <= MOST { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::FAILURE
        }
    }
}

fn measured() -> Result<u64, String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--profile", "page", "--config", "profile.page.panic=\"unwind\""]);
    cargo.args(["--package", "weighbridge-capi", "--no-default-features"]);
    cargo.args(["--target-dir", "target"]);
    match cargo.status() {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(format!("cargo build: {status}")),
        Err(error) => return Err(format!("cannot run cargo: {error}")),
    }
    let name =
        format!("{}weighbridge{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let path = std::path::Path::new("target/page").join(name);
    let found = std::fs::metadata(&path).map_err(|error| format!("{}: {error}", path.display()));
    found.map(|found| found.len())
}
