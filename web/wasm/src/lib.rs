//! The answers to the page's questions in the browser: what a worker (`page/worker.js`) calls.
//!
//! The worker writes a request where [`request`] says, calls [`open`] once and [`ask`] for each question, and
//! takes the answer, which is JSON, from [`answer`] and [`answer_len`]. Memory and numbers are all that passes:
//! no glue is generated. Everything runs in the worker's thread.
#![cfg(target_family = "wasm")]
#![allow(unsafe_code, reason = "JavaScript passes numbers, and functions need their names")]

use std::cell::RefCell;
use std::io;
use std::ops::ControlFlow;

use serde_json::{Value, json};
use weighbridge::{Error, ErrorKind, Progress, Result};
use weighbridge_web::{GivenFiles, Parameters, Viewer, problem};

#[link(wasm_import_module = "worker")]
unsafe extern "C" {
    /// Writes a part of a file to `out`. The result is 0 if that fails.
    fn read(file: usize, offset: u64, out: *mut u8, len: usize) -> u32;

    /// Called between pieces of work.
    safe fn progress(done: u64, total: u64);
}

struct Page {
    request: Vec<u8>,
    answer: Vec<u8>,
    viewer: Viewer,
}

thread_local! {
    static PAGE: RefCell<Page> =
        RefCell::new(Page { request: Vec::new(), answer: Vec::new(), viewer: Viewer::new(Vec::new()) });
}

/// Makes room for a request of `len` bytes, and says where it is.
#[unsafe(no_mangle)]
pub extern "C" fn request(len: usize) -> *mut u8 {
    PAGE.with_borrow_mut(|page| {
        page.request = vec![0; len];
        page.request.as_mut_ptr()
    })
}

/// Opens the models among the files that the request lists: `[[path, size], ...]`. The answer has the number
/// of models, and the errors of what could not be opened. The result is 0 if the request is malformed.
#[unsafe(no_mangle)]
pub extern "C" fn open() -> u32 {
    PAGE.with_borrow_mut(|page| {
        let opened = listed(&page.request).map(|files| {
            let (models, errors) = GivenFiles::new(files, read_part).models();
            let problems: Vec<Value> = errors.iter().map(problem).collect();
            let answer = json!({ "models": models.len(), "problems": problems });
            page.viewer = Viewer::new(models);
            answer.to_string().into_bytes()
        });
        page.reply(opened)
    })
}

/// Answers a question, `question?name=value&...`. If it cannot be answered, the result is 0, and the answer is
/// the error.
#[unsafe(no_mangle)]
pub extern "C" fn ask() -> u32 {
    PAGE.with_borrow_mut(|page| {
        let text = String::from_utf8_lossy(&page.request);
        let (question, query) = text.split_once('?').unwrap_or((&text, ""));
        let answered = page.viewer.answer(question, &Parameters::parse(query), &go_on);
        page.reply(answered)
    })
}

/// The address of the answer.
#[unsafe(no_mangle)]
pub extern "C" fn answer() -> *const u8 {
    PAGE.with_borrow(|page| page.answer.as_ptr())
}

/// The length of the answer in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn answer_len() -> usize {
    PAGE.with_borrow(|page| page.answer.len())
}

impl Page {
    fn reply(&mut self, answer: Result<Vec<u8>>) -> u32 {
        let answered = answer.is_ok();
        self.answer = answer.unwrap_or_else(|error| problem(&error).to_string().into_bytes());
        u32::from(answered)
    }
}

fn listed(request: &[u8]) -> Result<Vec<(String, u64)>> {
    let wrong = |error| Error::new(ErrorKind::Mismatch, format!("the list of files: {error}"));
    serde_json::from_slice(request).map_err(wrong)
}

/// Never cancels: the page ends a worker whose answer it no longer wants.
fn go_on(at: Progress) -> ControlFlow<()> {
    progress(at.done, at.total);
    ControlFlow::Continue(())
}

fn read_part(file: usize, offset: u64, out: &mut [u8]) -> io::Result<()> {
    // SAFETY: the worker writes at most `len` bytes to `out`, where `out` has as many.
    match unsafe { read(file, offset, out.as_mut_ptr(), out.len()) } {
        0 => Err(io::Error::other("the browser cannot read the file: was it changed or moved?")),
        _ => Ok(()),
    }
}
