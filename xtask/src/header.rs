//! `cargo xtask header`: writes the header of the C library from its Rust declarations.

use std::process::ExitCode;

const HEADER: &str = "capi/include/weighbridge.h";

pub(crate) fn run(options: &[String]) -> ExitCode {
    let check = match options {
        [] => false,
        [option] if option == "--check" => true,
        _ => {
            eprintln!("usage: cargo xtask header [--check]");
            return ExitCode::from(2);
        }
    };
    match write(check) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::FAILURE
        }
    }
}

fn write(check: bool) -> Result<(), String> {
    let config = cbindgen::Config::from_file("capi/cbindgen.toml")?;
    let builder = cbindgen::Builder::new().with_crate("capi").with_config(config);
    let bindings = builder.generate().map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    bindings.write(&mut bytes);
    let header = without_safety(&String::from_utf8_lossy(&bytes));
    if check {
        let found =
            std::fs::read_to_string(HEADER).map_err(|error| format!("{HEADER}: {error}"))?;
        let same = found == header;
        let fault = format!("{HEADER} is not that of capi/src: run cargo xtask header");
        return if same { Ok(()) } else { Err(fault) };
    }
    std::fs::write(HEADER, header).map_err(|error| format!("{HEADER}: {error}"))
}

/// Leaves out the sections that say what Rust calls safety: C has no other functions.
fn without_safety(header: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut in_section = false;
    for line in header.lines() {
        let comment = line.trim_start().starts_with("//");
        in_section = comment && (in_section || line.trim() == "// # Safety");
        if in_section {
            if kept.last().is_some_and(|last| last.trim() == "//") {
                kept.pop();
            }
            continue;
        }
        kept.push(line);
    }
    kept.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_on_safety_are_left_out() {
        let header = "// Frees.\n//\n// # Safety\n//\n// Not used.\nvoid f(void);\n// G\nint g;\n";
        assert_eq!(without_safety(header), "// Frees.\nvoid f(void);\n// G\nint g;\n");
    }
}
