//! A standard output that was closed when the program started (`>&-`).
//!
//! Rust opens `/dev/null` in its place before `main`, so that reports would vanish without an error.
//! Whether it was closed is therefore looked up earlier, when the program is loaded.

use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

#[cfg(unix)]
#[ctor::ctor(unsafe)]
fn look() {
    // One system call and one store: nothing here relies on what Rust sets up before `main`.
    let closed = rustix::io::fcntl_getfd(rustix::stdio::stdout()).is_err();
    CLOSED.store(closed, Ordering::Relaxed);
}

/// Whether standard output was closed when the program started.
pub(crate) fn was_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

/// Makes every write to a closed standard output fail: it becomes a pipe that nobody reads.
pub(crate) fn fail_if_closed() -> std::io::Result<()> {
    #[cfg(unix)]
    if was_closed() {
        let (_, unread) = std::io::pipe()?;
        rustix::stdio::dup2_stdout(unread)?;
    }
    Ok(())
}
