//! Measures uploads, products and decoding on a GPU, next to the limits of the hardware.
//!
//! ```text
//! weighbridge-bench-device upload [MiB]       beside wgpu's own way, and a copy of pinned memory by CUDA's driver
//! weighbridge-bench-device kernels [MiB]      beside a kernel that copies; so many MiB of weights in turn
//! weighbridge-bench-device model FILE [SHARE] writes a model of 1.24 billion weights, or so many hundredths of them
//! ```
//!
//! `cargo xtask device-check` runs all of them on a machine of its own.
#![allow(clippy::disallowed_methods, reason = "a program that measures")]

mod cuda;
mod files;
mod kernels;
mod upload;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, usual: usize| {
        words.get(at).map_or(Some(usual), |word| word.parse().ok().filter(|number| *number > 0))
    };
    match words.first().map(String::as_str) {
        Some("upload") if number(1, 2048).is_some() => upload::run(number(1, 2048).unwrap_or(1)),
        Some("kernels") if number(1, 1024).is_some() => kernels::run(number(1, 1024).unwrap_or(1)),
        Some("model") if words.len() > 1 && number(2, 100).is_some() => {
            files::write_model(words[1].as_ref(), number(2, 100).unwrap_or(1));
        }
        _ => {
            eprintln!(
                "usage: weighbridge-bench-device upload [MiB] | kernels [MiB] | model FILE [SHARE]"
            );
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
