//! `hash`: digests of every tensor, in constant memory.

use std::cell::Cell;
use std::io::Write;

use serde::Serialize;
use sha2::{Digest, Sha256};
use weighbridge::{Error, ErrorKind, Part, Tensor};

use super::Done;
use crate::args::Hash;
use crate::json::{self, Each, SCHEMA, hex, hex_if_odd};
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
    // The report is complete even where a tensor cannot be read; the status tells.
    let refused = Cell::new(0);
    let first: Cell<Option<Error>> = Cell::new(None);
    let failed: Cell<Option<Error>> = Cell::new(None);
    let report = |tensor: Tensor<'_>| {
        let raw = digest(|hash| tensor.for_each_piece(Part::Weight, |piece| hash(piece)));
        let values = args.values.then(|| {
            digest(|hash| {
                let mut bytes = Vec::new();
                let lost = tensor.for_each_values(|values: &[f32]| {
                    bytes.clear();
                    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
                    hash(&bytes)
                });
                lost.map(drop)
            })
        });
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
            name: tensor.name().spelling().into_owned(),
            name_hex: hex_if_odd(tensor.name()),
            dtype: tensor.dtype_label().into_owned(),
            shape: tensor.shape().to_vec(),
            raw_sha256: keep(raw),
            f32_sha256: values.map(&mut keep),
            reason,
        }
    };
    if args.json {
        json::write(&Report {
            schema: SCHEMA,
            path: store.path().to_string_lossy().into_owned(),
            container: store.container(),
            tensors: Each(|| store.tensors().map(report)),
        })?;
    } else {
        remark(&store);
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        for tensor in store.tensors() {
            let report = report(tensor);
            let shown = |digest: &Option<String>| digest.clone().unwrap_or_else(|| "-".repeat(64));
            write!(out, "{}", shown(&report.raw_sha256))?;
            if let Some(values) = &report.f32_sha256 {
                write!(out, "  {}", shown(values))?;
            }
            writeln!(out, "  {}", tensor.name())?;
        }
        out.flush()?;
    }
    if let Some(error) = failed.take() {
        return Err(Stop::Library(error));
    }
    if let Some(error) = first.take() {
        let others = refused.get() - 1;
        let more = if others > 0 { format!("; nor can {others} more") } else { String::new() };
        complain(&format!("{error}{more}"), error.advice());
        return Ok(Status::Unsupported);
    }
    Ok(Status::Fine)
}

type Sink<'a> = dyn FnMut(&[u8]) -> Result<(), Error> + 'a;

/// The SHA-256 of all pieces that `feed` passes on.
fn digest(feed: impl FnOnce(&mut Sink<'_>) -> Result<(), Error>) -> Result<String, Error> {
    let mut hasher = Sha256::new();
    feed(&mut |piece| {
        hasher.update(piece);
        Ok(())
    })?;
    Ok(hex(&hasher.finalize()))
}
