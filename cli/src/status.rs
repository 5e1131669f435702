//! The results of subcommands.

use crate::failure::Stop;

/// The exit status of a command that completed.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub(crate) enum Status {
    Fine = 0,
    Found = 1,
    Usage = 2,
    Unsupported = 4,
}

/// The result of a subcommand.
pub(crate) type Done = Result<Status, Stop>;
