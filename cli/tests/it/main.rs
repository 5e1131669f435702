//! The program's tests, in one program: it is linked once, and shares what builds models and runs commands.
#![allow(
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    reason = "the files and their sizes are the tests' own"
)]

#[cfg(feature = "http")]
#[path = "../../../tests/support/hub.rs"]
mod hub;
#[path = "../../../xtask/src/machine.rs"]
mod machine;
#[cfg(feature = "http")]
#[path = "../../../tests/support/s3.rs"]
mod s3;
#[path = "../../../tests/support/server.rs"]
mod server;
mod support;

mod args;
mod cmd;
mod memory;
mod pages;
mod print;
mod readme;
mod status;
