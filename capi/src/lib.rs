//! Weighbridge for C: opaque handles, statuses that are the program's exit statuses, and the last
//! error of each thread. `docs/c.md` is the guide; the header is written by `cargo xtask header`.
//!
//! Rules of every function:
//!
//! - A panic never leaves it: it becomes `WB_INTERNAL`.
//! - Pointers are checked for NULL, and nothing else can be checked: they are NULL or valid, and those to
//!   several elements have as many as the argument after them says. What was freed is not used.
//! - Handles and out-parameters are references: `None` is NULL, and a box is given to the caller.
//! - An out-parameter is written only on success.
#![allow(unsafe_code, reason = "C passes pointers, and functions need their C names")]
#![allow(clippy::missing_safety_doc, reason = "the rules of every function are above")]

#[cfg(feature = "write")]
pub mod builder;
pub mod fault;
pub mod load;
pub mod metadata;
pub mod model;
#[cfg(feature = "reports")]
pub mod reports;
pub mod tensor;
pub mod tokenizer;
#[cfg(feature = "write")]
pub mod verbs;

use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::ops::ControlFlow;

use weighbridge_rs::{Error, ErrorKind, Progress, Result};

/// Bytes of text: UTF-8 unless the file stores something else. Not terminated by NUL: print it with
/// "%.*s". `data` is never NULL in a value that this library returns.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct WbStr {
    /// The first byte.
    pub data: *const c_char,
    /// The number of bytes.
    pub len: usize,
}

impl WbStr {
    fn new(text: &[u8]) -> Self {
        Self { data: text.as_ptr().cast(), len: text.len() }
    }
}

/// Progress of a long call, in bytes. Called from any thread that does the work, and from several at
/// a time. Any value but 0 cancels the call, which then returns WB_CANCELLED.
pub type WbProgress = Option<unsafe extern "C" fn(user: *mut c_void, done: u64, total: u64) -> i32>;

/// The version of the interface of this library. It changes when a program that was compiled with an
/// older header would no longer work: compare it with WB_ABI_VERSION.
#[unsafe(no_mangle)]
pub extern "C" fn wb_abi_version() -> u32 {
    WB_ABI_VERSION
}

/// The interface that this header describes.
pub const WB_ABI_VERSION: u32 = 1;

/// The version of the library, such as "0.1.0": a constant that ends with NUL.
#[unsafe(no_mangle)]
pub extern "C" fn wb_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

fn usage(fault: String) -> Error {
    Error::new(ErrorKind::Mismatch, fault)
}

/// The error of a position behind the last item.
fn beyond(what: &str, position: usize, count: usize) -> Error {
    let fault = format!("position {position}, but the model has {count} {what}");
    Error::new(ErrorKind::NotFound, fault)
}

fn null(what: &str) -> Error {
    usage(format!("the argument {what} is NULL"))
}

/// The value that an argument points to.
fn given<T>(argument: Option<T>, what: &str) -> Result<T> {
    argument.ok_or_else(|| null(what))
}

/// Writes a result through an out-parameter.
fn give<T>(out: Option<&mut MaybeUninit<T>>, value: T, what: &str) -> Result<()> {
    given(out, what)?.write(value);
    Ok(())
}

/// A string argument.
///
/// # Safety
///
/// The pointer is null or points to a string that ends with NUL and is valid while it is used.
unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str> {
    if pointer.is_null() {
        return Err(null(what));
    }
    // SAFETY: as the caller of this function promises.
    let text = unsafe { CStr::from_ptr(pointer) }.to_str();
    text.map_err(|_| usage(format!("the argument {what} is not UTF-8")))
}

/// A path argument, in the encoding of the system.
///
/// # Safety
///
/// Same as [`text`].
unsafe fn path<'a>(pointer: *const c_char, what: &str) -> Result<&'a std::path::Path> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        if !pointer.is_null() {
            // SAFETY: as the caller of this function promises.
            let bytes = unsafe { CStr::from_ptr(pointer) }.to_bytes();
            return Ok(std::path::Path::new(std::ffi::OsStr::from_bytes(bytes)));
        }
    }
    // SAFETY: as the caller of this function promises.
    unsafe { text(pointer, what) }.map(std::path::Path::new)
}

/// Options that begin with their size. Fields that an older caller does not know are 0.
///
/// # Safety
///
/// The struct is C's, its first member is the size, and every member may be 0.
unsafe trait Options: Copy {}

/// The options of a caller.
///
/// # Safety
///
/// The pointer is null or points to as many bytes as the first member says.
unsafe fn options<T: Options>(pointer: *const T) -> Result<T> {
    // SAFETY: every member may be 0.
    let mut all = unsafe { MaybeUninit::<T>::zeroed().assume_init() };
    if pointer.is_null() {
        return Ok(all);
    }
    // SAFETY: every struct of options begins with its size, and the caller's has that member.
    let size = unsafe { pointer.cast::<usize>().read() };
    if size < size_of::<usize>() {
        return Err(usage(format!("the options begin with the size {size}: set it to sizeof")));
    }
    let known = size.min(size_of::<T>());
    // SAFETY: both have at least `known` bytes, of the same members.
    unsafe {
        std::ptr::copy_nonoverlapping(
            pointer.cast::<u8>(),
            std::ptr::from_mut(&mut all).cast::<u8>(),
            known,
        );
    }
    Ok(all)
}

/// A C callback, which may be called from any thread.
#[derive(Clone, Copy)]
struct Callback {
    call: WbProgress,
    user: *mut c_void,
}

// SAFETY: the header says that callbacks are called from any thread, several at a time.
unsafe impl Send for Callback {}
// SAFETY: as above.
unsafe impl Sync for Callback {}

impl Callback {
    fn report(&self, progress: Progress) -> ControlFlow<()> {
        let Some(call) = self.call else { return ControlFlow::Continue(()) };
        // SAFETY: the caller passed a function of this type, with its own pointer.
        match unsafe { call(self.user, progress.done, progress.total) } {
            0 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    }
}
