//! Prints reports as JSON: one document per model or report, `"schema": 1` first.
//!
//! The library's reports serialize themselves; see `weighbridge::ops`.

use std::io::{IsTerminal, Write};
use std::path::Path;
use weighbridge::bytes::Text;

use serde::{Serialize, Serializer};

use crate::failure::{self, Failure, Held};

/// The schema version of all reports.
pub(crate) const SCHEMA: u32 = 1;

/// A report of the library, preceded by the schema version.
#[derive(Serialize)]
pub(crate) struct Versioned<R: Serialize> {
    schema: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(flatten)]
    report: R,
    /// The notes that text reports print on standard error, unless the report has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

impl<R: Serialize> Versioned<R> {
    /// A report on one model.
    pub(crate) fn of(path: &Path, report: R) -> Self {
        let path = Some(Text::from_path(path).spelling().into_owned());
        Self { path, ..Self::new(report) }
    }

    /// A report that contains the paths of its models.
    pub(crate) fn new(report: R) -> Self {
        Self { schema: SCHEMA, path: None, report, notes: failure::take_notes() }
    }
}

/// A number that JSON may not have: NaN and the infinities become strings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonFloat(pub(crate) f64);

impl Serialize for JsonFloat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            number if number.is_nan() => serializer.serialize_str("NaN"),
            f64::INFINITY => serializer.serialize_str("Infinity"),
            f64::NEG_INFINITY => serializer.serialize_str("-Infinity"),
            number => serializer.serialize_f64(number),
        }
    }
}

/// Writes a report to standard output: indented on a terminal, otherwise on one line, so that the
/// reports on several models are one line for each.
pub(crate) fn write(report: &impl Serialize) -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let written = match std::io::stdout().is_terminal() {
        true => serde_json::to_writer_pretty(&mut out, report),
        false => serde_json::to_writer(&mut out, report),
    };
    written.map_err(std::io::Error::from)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// One document for all errors of a run: the first, then the others.
#[derive(Serialize)]
struct Failures<'f> {
    schema: u32,
    #[serde(flatten)]
    first: &'f Failure,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    others: &'f [Failure],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    notes: &'f [String],
}

/// Prints the errors and notes that were held back, once the command has ended.
pub(crate) fn finish() {
    let Some(held) = failure::held() else { return };
    let Held { failures, notes } = &*held;
    let Some((first, others)) = failures.split_first() else {
        notes.iter().for_each(|note| failure::print_note(note));
        return;
    };
    let document = Failures { schema: SCHEMA, first, others, notes };
    let mut err = std::io::stderr().lock();
    let _ = serde_json::to_writer_pretty(&mut err, &document);
    let _ = writeln!(err);
}
