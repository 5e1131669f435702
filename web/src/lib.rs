//! The page on which `weighbridge view` shows models, and the answers to its questions.
//!
//! [`Viewer::answer`] takes a question and its parameters, and returns JSON. It does not know how they
//! travel: the program uses HTTP on the loopback interface, and `web/wasm` runs this crate in the browser, on
//! [files that a person gives](GivenFiles).
#![deny(missing_docs)]

mod answers;
mod files;
mod pairs;
mod parameters;
mod report;
mod tables;

use std::ops::ControlFlow;

use serde_json::{Value, json};
use weighbridge::bytes::Text;
use weighbridge::{Error, ErrorKind, Model, Progress, Result};

pub use files::{GivenFiles, ReadPart};
pub use parameters::Parameters;
pub use report::report;

use pairs::PairCache;

/// The version of the answers' form: that of the program's JSON.
const SCHEMA: u32 = 1;

/// A callback that answers to long questions call between pieces of work. `Break` cancels.
pub type Watch<'w> = &'w (dyn Fn(Progress) -> ControlFlow<()> + Sync);

/// A file of the page.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PageFile {
    /// Its path, without a slash before it.
    pub path: &'static str,
    /// Its media type.
    pub media_type: &'static str,
    /// Its content.
    pub content: &'static [u8],
}

macro_rules! page {
    ($($path:literal: $media_type:literal;)*) => {
        /// The files of the page. The first is the page itself.
        pub static PAGE: &[PageFile] = &[$(PageFile {
            path: $path,
            media_type: $media_type,
            content: include_bytes!(concat!("../page/", $path)),
        }),*];
    };
}

page! {
    "index.html": "text/html; charset=utf-8";
    "style.css": "text/css; charset=utf-8";
    "icon.svg": "image/svg+xml";
    "main.js": "text/javascript; charset=utf-8";
    "source.js": "text/javascript; charset=utf-8";
    "state.js": "text/javascript; charset=utf-8";
    "dom.js": "text/javascript; charset=utf-8";
    "format.js": "text/javascript; charset=utf-8";
    "table.js": "text/javascript; charset=utf-8";
    "charts.js": "text/javascript; charset=utf-8";
    "heatmap.js": "text/javascript; charset=utf-8";
    "take.js": "text/javascript; charset=utf-8";
    "overview.js": "text/javascript; charset=utf-8";
    "tensors.js": "text/javascript; charset=utf-8";
    "tensor.js": "text/javascript; charset=utf-8";
    "layers.js": "text/javascript; charset=utf-8";
    "compare.js": "text/javascript; charset=utf-8";
    "pair.js": "text/javascript; charset=utf-8";
    "tokens.js": "text/javascript; charset=utf-8";
}

/// The models that are shown.
#[derive(Debug)]
pub struct Viewer {
    models: Vec<Model>,
    pairs: PairCache,
}

impl Viewer {
    /// A viewer of these models, which questions refer to by their position.
    pub fn new(models: Vec<Model>) -> Self {
        Self { models, pairs: PairCache::default() }
    }

    /// Answers a question of the page with a JSON document.
    ///
    /// # Errors
    ///
    /// `NotFound` for an unknown question, model, tensor or pair; `Mismatch` for a parameter that is missing
    /// or wrong; `Cancelled` if `watch` cancels; otherwise the errors of the library.
    pub fn answer(
        &self,
        question: &str,
        parameters: &Parameters,
        watch: Watch<'_>,
    ) -> Result<Vec<u8>> {
        answers::answer(self, question, parameters, watch)
    }

    fn model(&self, parameters: &Parameters, name: &str) -> Result<(usize, &Model)> {
        let number = parameters.index(name)?;
        let model = self.models.get(number);
        model
            .map(|model| (number, model))
            .ok_or_else(|| not_found(format!("no model {number}: there are {}", self.models.len())))
    }
}

/// An error as JSON, in the form that the program gives errors with `--json`.
pub fn problem(error: &Error) -> Value {
    json!({
        "schema": SCHEMA,
        "kind": error.kind().name(),
        "message": error.to_string(),
        "path": error.path().map(|path| Text::from_path(path).spelling()),
        "tensor": error.tensor(),
        "offset": error.offset(),
        "advice": error.advice(),
    })
}

fn not_found(fault: impl Into<String>) -> Error {
    Error::new(ErrorKind::NotFound, fault.into())
}

fn mismatch(fault: impl Into<String>) -> Error {
    Error::new(ErrorKind::Mismatch, fault.into())
}
