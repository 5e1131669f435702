//! The page on which `weighbridge view` shows models, and the answers to its questions.
//!
//! [`Viewer::answer`] takes a question and its parameters, and returns JSON. It does not know how they
//! travel: the program uses HTTP on the loopback interface, and `web/wasm` runs this crate in the browser, on
//! [files that a person gives](GivenFiles).
#![deny(missing_docs)]

mod answers;
mod fault;
mod files;
mod findings;
mod jobs;
mod lines;
mod names;
mod pairs;
mod parameters;
mod report;
mod standouts;
mod tables;
mod viewer;
mod watch;

pub use fault::problem;
pub use files::{GivenFiles, ReadPart};
pub use findings::{Finding, Findings, Kind, findings};
pub use parameters::Parameters;
pub use report::report;
pub use viewer::{MemoryToRun, Viewer};
pub use watch::Watch;

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
    "findings.js": "text/javascript; charset=utf-8";
    "differences.js": "text/javascript; charset=utf-8";
    "compare.js": "text/javascript; charset=utf-8";
    "workbench.js": "text/javascript; charset=utf-8";
    "pair.js": "text/javascript; charset=utf-8";
    "tokens.js": "text/javascript; charset=utf-8";
}
