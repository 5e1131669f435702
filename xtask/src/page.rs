//! `cargo xtask page`: the page of `view` with the library as WebAssembly, in `target/viewer`. Any host of static
//! files can serve the folder; it shows models that are dropped on it.

use std::path::Path;
use std::process::Command;

use crate::tools::{Done, Fault, copy, create_folder, no_options, run_command, said, write};

/// The folder of the page. Cargo has the folder that is named like the profile.
pub(crate) const OUT: &str = "target/viewer";
const TARGET: &str = "wasm32-unknown-unknown";
const LIBRARY: &str = "target/wasm32-unknown-unknown/page/weighbridge_wasm.wasm";

/// The folders whose files are copied.
const FOLDERS: &[&str] = &["web/page", "web/wasm/page"];

/// The start of the program's page, and of the one without it. A host of static files may not send the policy, so the
/// page has it: what the program's server sends, and the library and its worker.
const PROGRAM: &str =
    "<html lang=\"en\" data-source=\"program\">\n<head>\n<meta charset=\"utf-8\">\n";
const FILES: &str = "<html lang=\"en\" data-source=\"files\">\n<head>\n<meta charset=\"utf-8\">\n\
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
connect-src 'self'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; \
trusted-types worker\">\n<meta name=\"referrer\" content=\"no-referrer\">\n";

pub(crate) fn run(options: &[String]) -> Result<(), Fault> {
    no_options(options, "cargo xtask page")?;
    Ok(make()?)
}

/// Builds the library, and puts the folder together.
pub(crate) fn make() -> Done {
    add_target()?;
    run_command(&mut cargo("build"))?;
    let out = Path::new(OUT);
    if out.exists() {
        std::fs::remove_dir_all(out).map_err(|error| format!("{OUT}: {error}"))?;
    }
    create_folder(out)?;
    for folder in FOLDERS {
        let entries = std::fs::read_dir(folder).map_err(|error| format!("{folder}: {error}"))?;
        for entry in entries {
            let entry = entry.map_err(|error| format!("{folder}: {error}"))?;
            copy(&entry.path(), &out.join(entry.file_name()))?;
        }
    }
    copy(Path::new(LIBRARY), &out.join("weighbridge.wasm"))?;
    let index = out.join("index.html");
    let text = std::fs::read_to_string(&index);
    let text = text.map_err(|error| format!("{}: {error}", index.display()))?;
    if text.matches(PROGRAM).count() != 1 {
        return Err(format!("web/page/index.html does not begin as expected:\n{PROGRAM}"));
    }
    write(&index, &text.replace(PROGRAM, FILES))?;
    eprintln!("{OUT}: any server of files can serve it, such as python3 -m http.server");
    Ok(())
}

/// Installs the compiler's target for browsers.
pub(crate) fn add_target() -> Done {
    // Without rustup the target may be there all the same.
    let _ = Command::new("rustup").args(["target", "add", TARGET]).status();
    let folder =
        said(Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]))?;
    match Path::new(folder.trim()).is_dir() {
        true => Ok(()),
        false => Err(format!("the target {TARGET} is not installed")),
    }
}

/// Checks the library as clippy does: no other check compiles it for the browser.
pub(crate) fn lint() -> Done {
    run_command(cargo("clippy").args(["--", "--deny", "warnings"]))
}

fn cargo(verb: &str) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.args([verb, "--package", "weighbridge-wasm", "--profile", "page", "--target", TARGET]);
    cargo
}
