//! Progress and cancellation of long operations.

use std::ops::ControlFlow;

use crate::error::{Error, ErrorKind, Result};

/// The progress of loading or writing.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Progress {
    /// Bytes processed so far.
    pub done: u64,
    /// Bytes in total.
    pub total: u64,
}

/// A progress callback. It is called from any worker thread, and `Break` cancels the operation.
pub(crate) type Watch<'w> = &'w (dyn Fn(Progress) -> ControlFlow<()> + Sync);

/// Calls the progress callback, and returns `Cancelled` if it cancels.
pub(crate) fn tell(watch: Option<Watch<'_>>, done: u64, total: u64) -> Result<()> {
    match watch.map(|watch| watch(Progress { done, total })) {
        Some(ControlFlow::Break(())) => Err(Error::new(ErrorKind::Cancelled, "it was called off")),
        _ => Ok(()),
    }
}
