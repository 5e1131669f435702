//! The program `weighbridge`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(weighbridge_cli::run(std::env::args_os().collect()))
}
