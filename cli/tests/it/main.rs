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
#[allow(dead_code, reason = "the program of xtask is not tested here")]
mod machine;
#[cfg(feature = "http")]
#[path = "../../../tests/support/s3.rs"]
mod s3;
#[path = "../../../tests/support/server.rs"]
mod server;
mod support;

mod broken;
mod buckets;
mod compare;
mod convert;
mod create;
mod diff;
mod dump;
mod effects;
mod embed;
mod errors;
mod families;
mod figures;
mod fits;
mod help;
mod interrupted;
mod json_errors;
mod kinds;
mod memory;
mod meta;
mod mistakes;
mod models;
mod names;
mod overwrite;
mod pages;
mod pipes;
mod pull;
mod rare;
mod readme;
mod reports;
mod run;
mod shards;
mod slices;
mod slices_s3;
mod statuses;
mod terminal;
mod tiny;
mod tokens;
mod verify;
mod view;
