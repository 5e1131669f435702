//! Ctrl-C: what is being written is removed, and the exit status is 130.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use weighbridge::{Error, ErrorKind};

use crate::failure::{self, Failure};
use crate::{json, print};

/// Nothing would have to be removed: Ctrl-C ends the program.
const IDLE: u8 = 0;
/// Work asks for Ctrl-C, and removes its partial output.
const WATCHED: u8 = 1;
/// The user pressed Ctrl-C, and that work will end.
const INTERRUPTED: u8 = 2;
/// The program is ending.
const ENDING: u8 = 3;

static STATE: AtomicU8 = AtomicU8::new(IDLE);

/// Whether the command writes a model, and has not yet.
static WRITES: AtomicBool = AtomicBool::new(false);

/// Signals within this time are one: `timeout` and some shells send theirs twice.
const ONE_SIGNAL: Duration = Duration::from_millis(300);

/// Listens for Ctrl-C from now on. The command may be one that writes a model.
pub(crate) fn listen(writes: bool) {
    WRITES.store(writes, Ordering::SeqCst);
    // None replaces what `nohup` or a shell has set: a signal that is ignored stays so. Without a handler the system ends
    // the program, and the next run removes the partial output.
    let _ = ctrlc::try_set_handler(on_signal);
}

fn on_signal() {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let change = |from, to| STATE.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
    if change(IDLE, ENDING).is_ok() {
        let fault = match WRITES.load(Ordering::SeqCst) {
            true => "interrupted; nothing was written",
            false => "interrupted",
        };
        // A bar may be there, or nothing that can be written to.
        let _ = print::stderr().clear_line();
        failure::complain(Failure::from(&Error::new(ErrorKind::Cancelled, fault)));
        json::finish();
        std::process::exit(130);
    }
    let _ = change(WATCHED, INTERRUPTED);
    // A second Ctrl-C does not wait.
    if FIRST.get_or_init(Instant::now).elapsed() > ONE_SIGNAL {
        std::process::exit(130);
    }
}

/// Work that asks for Ctrl-C until this is dropped. It may be a part of other such work.
#[derive(Debug)]
pub(crate) struct Watch {
    is_outermost: bool,
}

impl Watch {
    pub(crate) fn new() -> Self {
        let found = STATE.compare_exchange(IDLE, WATCHED, Ordering::SeqCst, Ordering::SeqCst);
        while found == Err(ENDING) {
            // Until the program ends, before anything is written.
            std::thread::park();
        }
        Self { is_outermost: found.is_ok() }
    }

    /// Whether the user pressed Ctrl-C.
    #[allow(clippy::unused_self, reason = "without a watch, Ctrl-C ends the program")]
    pub(crate) fn is_interrupted(&self) -> bool {
        STATE.load(Ordering::SeqCst) == INTERRUPTED
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.is_outermost {
            WRITES.store(false, Ordering::SeqCst);
            let _ = STATE.compare_exchange(WATCHED, IDLE, Ordering::SeqCst, Ordering::SeqCst);
        }
    }
}
