//! Reports on whole models, as JSON with the members that the program's `--json` has.

use std::ffi::{CString, c_char, c_void};
use std::mem::MaybeUninit;

use serde::Serialize;
use weighbridge_rs::ops::{self, DiffOptions, HashOptions, InspectOptions, VerifyOptions};
use weighbridge_rs::{Error, ErrorKind, Result, Strictness};

use crate::fault::{WbStatus, checked, guard, quietly};
use crate::model::{WbModel, WbOpenOptions};
use crate::{Callback, WbProgress, given};

/// Gives a report as JSON, unless the caller does not want it.
pub(crate) fn report(
    report: &impl Serialize,
    out: Option<&mut MaybeUninit<*mut c_char>>,
) -> Result<()> {
    let Some(out) = out else { return Ok(()) };
    let json = serde_json::to_string(report).ok().and_then(|json| CString::new(json).ok());
    let unwritable = || Error::new(ErrorKind::Unsupported, "the report cannot be written as JSON");
    out.write(json.ok_or_else(unwritable)?.into_raw());
    Ok(())
}

/// Frees a string that a function returned through a char ** argument. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_string_free(string: *mut c_char) {
    if !string.is_null() {
        // SAFETY: it was made by `into_raw`, and the caller gives it up.
        quietly(|| drop(unsafe { CString::from_raw(string) }));
    }
}

/// Describes a model: summary, names, notes, metadata, tensors. As `weighbridge inspect --json`. Free
/// *json with wb_string_free.
#[unsafe(no_mangle)]
pub extern "C" fn wb_inspect(
    model: Option<&WbModel>,
    json: Option<&mut MaybeUninit<*mut c_char>>,
) -> i32 {
    checked(|| {
        let model = given(model, "model")?;
        let inspected = ops::inspect(&model.model, &InspectOptions::new())?;
        report(&inspected, json)
    })
}

/// Computes the SHA-256 of every tensor's stored bytes and, if `values` is not 0, of its values. As
/// `weighbridge hash --json`. Free *json with wb_string_free.
#[unsafe(no_mangle)]
pub extern "C" fn wb_hash(
    model: Option<&WbModel>,
    values: u32,
    progress: WbProgress,
    user: *mut c_void,
    json: Option<&mut MaybeUninit<*mut c_char>>,
) -> i32 {
    let callback = Callback { call: progress, user };
    checked(|| {
        let model = given(model, "model")?;
        let watch = |progress| callback.report(progress);
        let options = HashOptions::new().values(values != 0).progress(&watch);
        let hashes = ops::hash(&model.model, &options)?;
        report(&hashes, json)
    })
}

/// Checks a model: its format, its completeness, that its files agree and, if `deep` is not 0, its
/// values. Returns WB_FOUND if it has a fault, or a remark about a value. As
/// `weighbridge verify --json`. `options` may be NULL. Free *json with wb_string_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_verify(
    path: *const c_char,
    options: *const WbOpenOptions,
    deep: u32,
    progress: WbProgress,
    user: *mut c_void,
    json: Option<&mut MaybeUninit<*mut c_char>>,
) -> i32 {
    let callback = Callback { call: progress, user };
    guard(|| {
        // SAFETY: the caller passes NULL or valid pointers.
        let (path, options) = unsafe { (crate::path(path, "path")?, crate::options(options)?) };
        let watch = |progress| callback.report(progress);
        let (mut open, mut verify) = (options.options()?, VerifyOptions::new().deep(deep != 0));
        if options.is_strict() {
            open = open.strictness(Strictness::Default);
            verify = verify.strictness(Strictness::Strict);
        }
        let found = ops::verify(&open.open(path)?, &verify.progress(&watch))?;
        report(&found, json)?;
        let status = if found.is_fine() { WbStatus::WB_OK } else { WbStatus::WB_FOUND };
        Ok(status as i32)
    })
}

/// Compares two models by canonical name; values that differ by at most `tolerance` are equal. Returns
/// WB_FOUND if they differ. As `weighbridge diff --json`. Free *json with wb_string_free.
#[unsafe(no_mangle)]
pub extern "C" fn wb_diff(
    a: Option<&WbModel>,
    b: Option<&WbModel>,
    tolerance: f64,
    progress: WbProgress,
    user: *mut c_void,
    json: Option<&mut MaybeUninit<*mut c_char>>,
) -> i32 {
    let callback = Callback { call: progress, user };
    guard(|| {
        let (a, b) = (given(a, "a")?, given(b, "b")?);
        let watch = |progress| callback.report(progress);
        let options = DiffOptions::new().tolerance(tolerance).progress(&watch);
        let diff = ops::diff(&a.model, &b.model, &options)?;
        let found = diff.report();
        report(&found, json)?;
        let status = match (diff.is_equal(), found.unread.is_empty()) {
            (false, _) => WbStatus::WB_FOUND,
            (true, true) => WbStatus::WB_OK,
            (true, false) => WbStatus::WB_UNSUPPORTED,
        };
        Ok(status as i32)
    })
}
