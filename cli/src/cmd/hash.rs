//! `hash`: digests of every tensor, in constant memory.

use std::cell::Cell;
use std::io::Write;
use std::path::Path;

use serde::Serialize;
use weighbridge::{Error, ErrorKind, Model, Tensor};

use super::Done;
use crate::args::Hash;
use crate::hashes::{Line, Saving, of_values, of_weight};
use crate::json::{self, Each, SCHEMA, hex_if_odd};
use crate::{Status, Stop, complain, remark};

#[derive(Serialize)]
struct Report<'a, T: Serialize> {
    schema: u32,
    path: String,
    container: &'a str,
    tensors: T,
}

#[derive(Serialize)]
struct TensorReport {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name_hex: Option<String>,
    dtype: String,
    shape: Vec<u64>,
    raw_sha256: Option<String>,
    /// Absent unless values were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    f32_sha256: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

pub(crate) fn run(args: &Hash) -> Done {
    let store = args.open.options().open(&args.path)?;
    if let Some(path) = &args.save {
        return save(&store, path, args.values);
    }
    // The report is complete even where a tensor cannot be read; the status tells.
    let refused = Cell::new(0);
    let first: Cell<Option<Error>> = Cell::new(None);
    let failed: Cell<Option<Error>> = Cell::new(None);
    let report = |tensor: Tensor| {
        let mut reason = None;
        let mut keep = |result: Result<String, Error>| match result {
            Ok(digest) => Some(digest),
            Err(error) => {
                if reason.is_none() {
                    reason = Some(error.to_string());
                    refused.set(refused.get() + 1);
                }
                if error.kind() != ErrorKind::Unsupported {
                    failed.set(Some(error));
                } else if refused.get() == 1 {
                    first.set(Some(error));
                }
                None
            }
        };
        TensorReport {
            name: tensor.name().to_owned(),
            name_hex: hex_if_odd(tensor.raw_name()),
            dtype: tensor.dtype_label(),
            shape: tensor.shape().to_vec(),
            raw_sha256: keep(of_weight(&tensor)),
            f32_sha256: args.values.then(|| keep(of_values(&tensor))),
            reason,
        }
    };
    if args.json {
        json::write(&Report {
            schema: SCHEMA,
            path: store.path().to_string_lossy().into_owned(),
            container: store.container(),
            tensors: Each(|| store.stored_tensors().map(report)),
        })?;
    } else {
        remark(&store);
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        for tensor in store.stored_tensors() {
            let report = report(tensor.clone());
            let shown = |digest: &Option<String>| digest.clone().unwrap_or_else(|| "-".repeat(64));
            write!(out, "{}", shown(&report.raw_sha256))?;
            if let Some(values) = &report.f32_sha256 {
                write!(out, "  {}", shown(values))?;
            }
            writeln!(out, "  {}", tensor.raw_name())?;
        }
        out.flush()?;
    }
    if let Some(error) = failed.take() {
        return Err(Stop::Library(error));
    }
    match first.take() {
        Some(error) => Ok(unread(&error, refused.get())),
        None => Ok(Status::Fine),
    }
}

/// Writes a list for `verify --against`, complete even where a tensor cannot be read.
fn save(store: &Model, path: &Path, values: bool) -> Done {
    remark(store);
    let mut list = Saving::create(path, values)?;
    let mut first = None;
    let mut refused = 0;
    for tensor in store.stored_tensors() {
        let mut error = None;
        list.line(Line::new(&tensor, values, &mut error)?)?;
        refused += usize::from(error.is_some());
        first = first.or(error);
    }
    list.finish()?;
    match first {
        Some(error) => Ok(unread(&error, refused)),
        None => Ok(Status::Fine),
    }
}

/// Says why some tensors have no hashes.
fn unread(error: &Error, tensors: usize) -> Status {
    let more = match tensors.saturating_sub(1) {
        0 => String::new(),
        others => format!("; nor can {others} more"),
    };
    complain(&format!("{error}{more}"), error.advice());
    Status::Unsupported
}
