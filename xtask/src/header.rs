//! `cargo xtask header`: writes the header of the C library from its Rust declarations.

use crate::tools::{Fault, has_option};

const HEADER: &str = "capi/include/weighbridge.h";

pub(crate) fn run(options: &[String]) -> Result<(), Fault> {
    let check = has_option(options, "--check", "cargo xtask header [--check]")?;
    let config = cbindgen::Config::from_file("capi/cbindgen.toml")?;
    let builder = cbindgen::Builder::new().with_crate("capi").with_config(config);
    let bindings = builder.generate().map_err(|error| error.to_string())?;
    let mut header = Vec::new();
    bindings.write(&mut header);
    if check {
        let found =
            std::fs::read_to_string(HEADER).map_err(|error| format!("{HEADER}: {error}"))?;
        let same = found.as_bytes() == header;
        let fault = format!("{HEADER} is not that of capi/src: run cargo xtask header");
        return if same { Ok(()) } else { Err(fault.into()) };
    }
    Ok(std::fs::write(HEADER, header).map_err(|error| format!("{HEADER}: {error}"))?)
}
