//! `cargo xtask web`: tests of the page in a browser, with the program and without it.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::page;
use crate::tools::{Done, Fault, has_option, run_command};

const VENV: &str = "target/web-venv";
const PACKAGES: &[&str] = &["axe-playwright-python", "brotli", "playwright", "pytest"];

/// The names of the browser; the first is that of Debian's package.
const BROWSERS: &[&str] = &["chromium", "chromium-browser", "google-chrome"];

/// Without a browser the tests are skipped, unless this variable is 1.
const REQUIRE: &str = "WEIGHBRIDGE_REQUIRE_CHROMIUM";

pub(crate) fn run(options: &[String]) -> Result<(), Fault> {
    let quick = has_option(options, "--quick", "cargo xtask web [--quick]")?;
    if let Err(fault) = prepare() {
        if std::env::var(REQUIRE).is_ok_and(|value| value == "1") {
            return Err(fault.into());
        }
        eprintln!("skipped: web/tests: {fault}");
        return Ok(());
    }
    Ok(test(quick)?)
}

/// Finds the browser, and installs the target and the Python packages.
fn prepare() -> Done {
    let named = std::env::var("CHROMIUM").into_iter();
    let mut names = named.chain(BROWSERS.iter().map(|name| (*name).to_owned()));
    let runs = |name: &String| {
        let version = Command::new(name).arg("--version").stdout(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    };
    if !names.any(|name| runs(&name)) {
        return Err("no browser: install the package `chromium`, or set CHROMIUM".to_owned());
    }
    page::add_target()?;
    let pip = format!("{VENV}/bin/pip");
    if !Path::new(&pip).exists() {
        run_command(Command::new("python3").args(["-m", "venv", VENV]))?;
    }
    run_command(Command::new(&pip).args(["install", "--quiet"]).args(PACKAGES))
}

/// Builds what is tested, and runs the tests: all with the program of a release, or with `quick` the most telling
/// ones with the program that `cargo test` builds.
fn test(quick: bool) -> Done {
    let mut build = Command::new("cargo");
    build.arg("build");
    if !quick {
        build.args(["--release", "--package", "weighbridge-cli"]);
    }
    run_command(&mut build)?;
    page::make()?;
    if quick {
        page::lint()?;
    }
    let mut pytest = Command::new(format!("{VENV}/bin/python"));
    pytest.args(["-m", "pytest", "--quiet", "web/tests"]);
    if quick {
        pytest.arg("--quick").env("WEIGHBRIDGE", "target/debug/weighbridge");
    }
    run_command(&mut pytest)
}
