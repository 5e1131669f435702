//! Progress and cancellation of long operations.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, ErrorKind, Result};

/// The progress of loading, writing, hashing or comparing.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Progress {
    /// Bytes processed so far.
    pub done: u64,
    /// Bytes in total.
    pub total: u64,
}

/// A progress callback. It is called from any worker thread, and `Break` cancels the operation.
pub(crate) type Callback<'w> = &'w (dyn Fn(Progress) -> ControlFlow<()> + Sync);

/// The progress callback of an operation, if it has one.
#[derive(Clone, Copy, Default)]
pub(crate) struct Watch<'w>(pub(crate) Option<Callback<'w>>);

impl<'w> From<Callback<'w>> for Watch<'w> {
    fn from(callback: Callback<'w>) -> Self {
        Self(Some(callback))
    }
}

impl fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "set" } else { "none" })
    }
}

impl Watch<'_> {
    /// Calls the callback, and returns `Cancelled` if it cancels.
    pub(crate) fn report(self, done: u64, total: u64) -> Result<()> {
        match self.0.map(|callback| callback(Progress { done, total })) {
            Some(ControlFlow::Break(())) => Err(Error::new(ErrorKind::Cancelled, "interrupted")),
            _ => Ok(()),
        }
    }
}

/// Adds up the bytes that several threads have processed, and calls the progress callback.
pub(crate) struct Meter<'w> {
    done: AtomicU64,
    total: u64,
    watch: Watch<'w>,
}

impl<'w> Meter<'w> {
    pub(crate) fn new(total: u64, watch: Watch<'w>) -> Self {
        Self { done: AtomicU64::new(0), total, watch }
    }

    /// Adds processed bytes.
    ///
    /// # Errors
    ///
    /// `Cancelled` if the progress callback cancels.
    pub(crate) fn add(&self, bytes: u64) -> Result<()> {
        let before = self.done.fetch_add(bytes, Ordering::Relaxed);
        self.watch.report(before.saturating_add(bytes), self.total)
    }
}
