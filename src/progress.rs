//! How far long work has come, and calling it off.

use std::ops::ControlFlow;

use crate::error::{Error, ErrorKind, Result};

/// How far loading or writing has come.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Progress {
    /// Bytes that are where they should be.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

/// What is called as work goes on, from any of its threads; it may end the work.
pub(crate) type Watch<'w> = &'w (dyn Fn(Progress) -> ControlFlow<()> + Sync);

/// Tells a watcher, who may call the work off.
pub(crate) fn tell(watch: Option<Watch<'_>>, done: u64, total: u64) -> Result<()> {
    match watch.map(|watch| watch(Progress { done, total })) {
        Some(ControlFlow::Break(())) => Err(Error::new(ErrorKind::Cancelled, "it was called off")),
        _ => Ok(()),
    }
}
