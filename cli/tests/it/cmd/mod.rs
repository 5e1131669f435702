//! Tests of the program's `cmd`.

mod bucket;
mod compare;
mod convert;
mod create;
mod diff;
mod dump;
mod embed;
pub(crate) mod figures;
mod foreign;
mod inspect;
mod inspect_tiny;
mod memory;
mod meta;
mod models;
mod pull;
mod run;
mod shard;
mod slice;
mod slice_s3;
mod tokens;
mod verify;
mod verify_run;
mod view;
