//! Long work: on a thread of its own, while the caller's thread shows progress and sees Ctrl-C.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use pyo3::prelude::*;
use weighbridge::Progress;

use crate::fault::OrRaise;

/// The progress of some work, and whether it shall stop.
#[derive(Default)]
pub(crate) struct Watch {
    done: AtomicU64,
    total: AtomicU64,
    stop: AtomicBool,
}

impl Watch {
    /// Whether to go on.
    pub(crate) fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// Sets the total amount of work.
    pub(crate) fn of(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
    }

    /// Adds work that was done.
    pub(crate) fn add(&self, amount: u64) {
        self.done.fetch_add(amount, Ordering::Relaxed);
    }

    /// The progress callback of the library.
    pub(crate) fn report(&self, progress: Progress) -> ControlFlow<()> {
        self.done.store(progress.done, Ordering::Relaxed);
        self.total.store(progress.total, Ordering::Relaxed);
        if self.goes_on() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    /// Runs Python's signal handlers and the caller's callback.
    fn tell(&self, py: Python<'_>, callback: Option<&Py<PyAny>>) -> PyResult<()> {
        py.check_signals()?;
        let (done, total) = (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        if let Some(callback) = callback.filter(|_| total > 0) {
            callback.call1(py, (done.min(total), total))?;
        }
        Ok(())
    }
}

/// The time between two looks of the caller's thread at signals.
const PAUSE: Duration = Duration::from_millis(50);

/// Runs `work` without the GIL. An exception of the callback, or Ctrl-C, cancels it.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    callback: Option<Py<PyAny>>,
    work: impl FnOnce(&Watch) -> weighbridge::Result<T> + Send,
) -> PyResult<T> {
    let watch = Watch::default();
    let (ended, callback) = py.detach(|| {
        std::thread::scope(|scope| {
            let (sender, receiver) = channel();
            let watch = &watch;
            scope.spawn(move || {
                // The receiver lives until this thread has ended.
                let _ = sender.send(work(watch));
            });
            let mut raised = None;
            loop {
                match receiver.recv_timeout(PAUSE) {
                    Ok(result) => return (raised.map_or(Ok(result), Err), callback),
                    // The thread panicked; leaving the scope panics too, and PyO3 raises it.
                    Err(RecvTimeoutError::Disconnected) => panic!("the work panicked"),
                    Err(RecvTimeoutError::Timeout) if raised.is_some() => {}
                    Err(RecvTimeoutError::Timeout) => {
                        let told = Python::attach(|py| watch.tell(py, callback.as_ref()));
                        if let Err(error) = told {
                            watch.stop.store(true, Ordering::Relaxed);
                            raised = Some(error);
                        }
                    }
                }
            }
        })
    });
    let done = ended?.or_raise()?;
    if let Some(callback) = &callback {
        let total = watch.total.load(Ordering::Relaxed);
        callback.call1(py, (total, total))?;
    }
    Ok(done)
}
