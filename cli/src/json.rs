//! JSON for programs: one document a report, `"schema": 1` first.
//!
//! The library's reports serialize themselves; see `weighbridge::ops`.

use std::io::Write;
use std::path::Path;

use serde::Serialize;

/// The version of all reports.
pub(crate) const SCHEMA: u32 = 1;

/// A report of the library, with the version before it.
#[derive(Serialize)]
pub(crate) struct Versioned<R: Serialize> {
    schema: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(flatten)]
    report: R,
}

impl<R: Serialize> Versioned<R> {
    /// The report of one model.
    pub(crate) fn of(path: &Path, report: R) -> Self {
        let path = Some(path.to_string_lossy().into_owned());
        Self { schema: SCHEMA, path, report }
    }

    /// A report that names its models itself.
    pub(crate) fn new(report: R) -> Self {
        Self { schema: SCHEMA, path: None, report }
    }
}

/// Writes a report to standard output.
pub(crate) fn write(report: &impl Serialize) -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    serde_json::to_writer_pretty(&mut out, report).map_err(std::io::Error::from)?;
    out.write_all(b"\n")?;
    out.flush()
}
