//! Whether the page still wants an answer.

use std::ops::ControlFlow;

use weighbridge::{Error, ErrorKind, Progress, Result};

/// A callback that answers to long questions call between pieces of work. `Break` cancels.
pub type Watch<'w> = &'w (dyn Fn(Progress) -> ControlFlow<()> + Sync);

/// Ends the work with an error if the page no longer wants the answer.
pub(crate) fn go_on(watch: Watch<'_>) -> Result<()> {
    match watch(Progress::default()) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::new(ErrorKind::Cancelled, "interrupted")),
    }
}
