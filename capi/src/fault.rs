//! Statuses, and the last error of each thread.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use weighbridge_rs::{AdvisedOption, Error, ErrorKind, Result};

use crate::give;

/// The result of a function: an exit status of the program `weighbridge`, or WB_NOT_FOUND.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(i32)]
#[expect(non_camel_case_types, reason = "C's names")]
pub enum WbStatus {
    /// Success.
    WB_OK = 0,
    /// wb_verify found a fault, or wb_diff a difference: the report says which.
    WB_FOUND = 1,
    /// An argument does not fit the model, the destination or this function.
    WB_USAGE = 2,
    /// The file is damaged, incomplete, contradicts itself, exceeds a limit, or is no model.
    WB_INVALID = 3,
    /// Unsupported.
    WB_UNSUPPORTED = 4,
    /// No permission, no space, no memory.
    WB_IO = 5,
    /// The file, tensor, key or position does not exist.
    WB_NOT_FOUND = 6,
    /// A fault of this library: a panic was caught. Please report it.
    WB_INTERNAL = 101,
    /// A callback cancelled the call.
    WB_CANCELLED = 130,
}

/// The last error of a thread, in C's strings.
#[derive(Default)]
struct LastError {
    status: i32,
    message: Option<CString>,
    kind: Option<CString>,
    path: Option<CString>,
    tensor: Option<CString>,
    key: Option<CString>,
    advice: Option<CString>,
    offset: Option<u64>,
}

thread_local! {
    static LAST: RefCell<LastError> = RefCell::default();
}

fn string(text: &[u8]) -> Option<CString> {
    // Names from files may contain NUL, which would end the string.
    CString::new(text.iter().copied().filter(|byte| *byte != 0).collect::<Vec<u8>>()).ok()
}

/// The name of an option in C.
fn spelled(option: AdvisedOption) -> &'static str {
    match option {
        AdvisedOption::AllFiles => "all_files",
        AdvisedOption::AllowIncomplete | AdvisedOption::AllowUnloadable => "allow_incomplete",
        AdvisedOption::AllowNonfinite | AdvisedOption::FindNonfinite => "allow_nonfinite",
        AdvisedOption::AllowRequantize => "allow_requantize",
        AdvisedOption::Importance => "imatrix",
        AdvisedOption::Lenient => "strictness=2",
        AdvisedOption::Overwrite => "overwrite",
        AdvisedOption::Strict => "strictness=1",
        other => other.name(),
    }
}

impl LastError {
    fn of(error: &Error) -> Self {
        let text = |text: &str| string(text.as_bytes());
        Self {
            status: match error.kind() {
                ErrorKind::NotFound => WbStatus::WB_NOT_FOUND as i32,
                kind => kind.exit_status().into(),
            },
            message: text(&error.to_string()),
            kind: text(error.kind().name()),
            path: error.path().and_then(|path| string(path.as_os_str().as_encoded_bytes())),
            tensor: error.tensor().and_then(text),
            key: error.key().and_then(text),
            advice: error.advice_in(spelled).as_deref().and_then(text),
            offset: error.offset(),
        }
    }

    fn panic() -> Self {
        let message = string(b"a fault of this library: please report it");
        let kind = string(b"internal");
        Self { status: WbStatus::WB_INTERNAL as i32, message, kind, ..Self::default() }
    }
}

/// Runs the body of a function. Keeps its error, or that of a panic, as the last one of the thread.
/// The body returns the status of its success.
pub(crate) fn guard(body: impl FnOnce() -> Result<i32>) -> i32 {
    let last = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(status)) => LastError { status, ..LastError::default() },
        Ok(Err(error)) => LastError::of(&error),
        Err(_) => LastError::panic(),
    };
    let status = last.status;
    // While a thread ends, its error can no longer be kept.
    let _ = LAST.try_with(|kept| kept.try_borrow_mut().map(|mut kept| *kept = last));
    status
}

/// Like [`guard`], for a body without a status of its own.
pub(crate) fn checked(body: impl FnOnce() -> Result<()>) -> i32 {
    guard(|| body().map(|()| 0))
}

/// Like [`checked`], for a body whose result is written through the out-parameter `out`.
pub(crate) fn gives<T>(out: Option<&mut MaybeUninit<T>>, body: impl FnOnce() -> Result<T>) -> i32 {
    checked(|| give(out, body()?, "out"))
}

/// Runs what frees something: the last error stays, so that a caller can free before it prints.
pub(crate) fn quietly(body: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(body));
}

fn last(choose: impl Fn(&LastError) -> Option<&CString>) -> *const c_char {
    let pointer = |last: &RefCell<LastError>| {
        last.try_borrow().ok().and_then(|last| choose(&last).map(|text| text.as_ptr()))
    };
    LAST.try_with(pointer).ok().flatten().unwrap_or(ptr::null())
}

/// The message of the last call of this thread, if it failed; otherwise NULL. Valid, as all strings
/// of the last error, until the thread calls another function that returns a status.
#[unsafe(no_mangle)]
pub extern "C" fn wb_error_message() -> *const c_char {
    last(|last| last.message.as_ref())
}

/// The kind of the last error: "io", "not_found", "unknown_container", "malformed", "unsupported",
/// "limit_exceeded", "mismatch", "cancelled" or "internal"; NULL if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn wb_error_kind() -> *const c_char {
    last(|last| last.kind.as_ref())
}

/// The path of the file or directory concerned, or NULL.
#[unsafe(no_mangle)]
pub extern "C" fn wb_error_path() -> *const c_char {
    last(|last| last.path.as_ref())
}

/// The stored name of the tensor concerned, or NULL.
#[unsafe(no_mangle)]
pub extern "C" fn wb_error_tensor() -> *const c_char {
    last(|last| last.tensor.as_ref())
}

/// The metadata key concerned, or NULL.
#[unsafe(no_mangle)]
pub extern "C" fn wb_error_key() -> *const c_char {
    last(|last| last.key.as_ref())
}

/// Returns what to do about the error, or NULL. It is not part of the message.
#[unsafe(no_mangle)]
pub extern "C" fn wb_error_advice() -> *const c_char {
    last(|last| last.advice.as_ref())
}

/// The byte offset in wb_error_path() at which the faulty item starts, or UINT64_MAX.
#[unsafe(no_mangle)]
pub extern "C" fn wb_error_offset() -> u64 {
    let offset = |last: &RefCell<LastError>| last.try_borrow().ok().and_then(|last| last.offset);
    LAST.try_with(offset).ok().flatten().unwrap_or(u64::MAX)
}
