//! `cargo xtask device-check`: checks and measures the device layer on a GPU, by `device-check.sh`.
//!
//! Everything that this takes is put into `target/device-check`, with the tests built and the loader of Vulkan,
//! so that the folder can be carried to an x86-64 machine that has a driver and nothing else: `sh run.sh`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tools::{Done, Fault, copy, create_folder, run_command, said};

const OUT: &str = "target/device-check";

/// Files that the tests and the script read, below the folder of the library.
const FILES: &[&str] = &["tests/data", "assets/sample", "tests/fixtures"];

/// The paths of the loader of Vulkan.
const LOADERS: &[&str] = &["/usr/lib/x86_64-linux-gnu/libvulkan.so.1", "/usr/lib64/libvulkan.so.1"];

pub(crate) fn run(options: &[String]) -> Result<(), Fault> {
    let mut quick = false;
    let mut pack = false;
    for option in options {
        match option.as_str() {
            "--quick" => quick = true,
            "--pack" => pack = true,
            _ => return Err(Fault::Usage("cargo xtask device-check [--quick] [--pack]")),
        }
    }
    make(quick)?;
    if pack {
        return Ok(archive()?);
    }
    let mut command = Command::new("sh");
    command.arg("run.sh").current_dir(OUT);
    Ok(run_command(if quick { command.arg("quick") } else { &mut command })?)
}

/// Builds and gathers; with the profile of tests if `quick`, which they have already.
fn make(quick: bool) -> Done {
    let out = Path::new(OUT);
    if out.exists() {
        std::fs::remove_dir_all(out).map_err(|error| format!("{OUT}: {error}"))?;
    }
    create_folder(&out.join("bin"))?;
    let cargo = |words: &[&str]| {
        let mut command = Command::new("cargo");
        command.args(words);
        if !quick {
            command.arg("--release");
        }
        command
    };
    let packages = ["--package", "weighbridge-cli", "--package", "weighbridge-bench-device"];
    let mut programs = cargo(&["build", "--features", "weighbridge-cli/gpu"]);
    run_command(programs.args(packages))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    let built = target.join(if quick { "debug" } else { "release" });
    for program in ["weighbridge", "weighbridge-bench-device"] {
        stripped(&built.join(program), &out.join("bin").join(program))?;
    }
    // The same command as `cargo xtask ci` has, so that nothing is built twice.
    let packages = ["weighbridge-cli", "weighbridge-gpu", "weighbridge-reference"];
    let packages = packages.iter().flat_map(|name| ["--package", name]);
    let words = ["--features", "weighbridge-cli/gpu", "--test", "gpu", "--no-run"];
    for program in test_programs(cargo(&["test"]).args(packages).args(words))? {
        let is_reference = said(Command::new(&program).arg("--list"))?.contains("logits");
        let name = if is_reference { "tests-reference" } else { "tests-weighbridge" };
        stripped(&program, &out.join("bin").join(name))?;
    }
    for folder in FILES {
        let to = out.join("root").join(folder);
        create_folder(to.parent().unwrap_or(out))?;
        run_command(Command::new("cp").arg("-r").arg(folder).arg(&to))?;
    }
    create_folder(&out.join("root/reference"))?;
    create_folder(&out.join("lib"))?;
    if let Some(loader) = LOADERS.iter().find(|path| Path::new(path).exists()) {
        copy(Path::new(loader), &out.join("lib/libvulkan.so.1"))?;
    }
    copy(Path::new("xtask/src/device-check.sh"), &out.join("run.sh"))
}

/// The programs of tests that a command builds.
fn test_programs(command: &mut Command) -> Done<Vec<PathBuf>> {
    let output = command.output().map_err(|error| format!("cargo: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("cargo test: {}: {said}", output.status));
    }
    let lines = said.lines().filter(|line| line.trim_start().starts_with("Executable"));
    let path = |line: &str| Some(PathBuf::from(line.rsplit_once('(')?.1.strip_suffix(')')?));
    Ok(lines.filter_map(path).collect())
}

/// Copies a program without its symbols.
fn stripped(from: &Path, to: &Path) -> Done {
    run_command(Command::new("strip").arg("-o").arg(to).arg(from))
}

/// Packs the folder, and says how large the archive is.
fn archive() -> Done {
    let path = "target/device-check.tar.xz";
    run_command(Command::new("tar").args([
        "--create",
        "--xz",
        "--file",
        path,
        "-C",
        "target",
        "device-check",
    ]))?;
    let size = std::fs::metadata(path).map_err(|error| format!("{path}: {error}"))?.len();
    println!(
        "{path}: {:.1} MiB; on the machine: tar xf, then sh device-check/run.sh",
        size as f64 / f64::from(1 << 20)
    );
    Ok(())
}
