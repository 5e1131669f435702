//! `logits`: what a model says of each position of some tokens.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use serde::Serialize;
use weighbridge::{Error, ErrorKind};
use weighbridge_reference::{Reference, Rows};

use super::Done;
use super::dump::npy_header;
use crate::args::run::Logits;
use crate::json::{self, JsonFloat, SCHEMA};
use crate::newfile::NewFile;
use crate::print::{self, Table, right};
use crate::{Status, Stop, device, failure};

/// Tokens shown for each position.
const SHOWN: usize = 5;

/// Bytes of a spectrum's file, at most: an hour of sound.
const LARGEST: u64 = 1 << 30;

#[derive(Serialize)]
struct Report {
    schema: u32,
    path: String,
    /// `logits`, or `hidden_states` of an encoder of text.
    output: &'static str,
    shape: [usize; 2],
    values: Vec<Vec<JsonFloat>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

pub(crate) fn run(args: &Logits) -> Done {
    let model = args.open.runnable(&args.path)?;
    device::note_missing_head(&model);
    let reference = device::reference(&args.runner, &model)?;
    let (output, rows) = match reference.plan().encodes() {
        true => encoded(args, &reference)?,
        false => ("logits", continued(args, &reference)?),
    };
    match &args.output {
        Some(path) => write_npy(path, &rows, args.overwrite)?,
        None if args.json => {
            let float = |value: &f32| JsonFloat((*value).into());
            let values = rows.rows().map(|row| row.iter().map(float).collect());
            json::write(&Report {
                schema: SCHEMA,
                path: args.path.display().to_string(),
                output,
                shape: [rows.len(), rows.width()],
                values: values.collect(),
                notes: failure::take_notes(),
            })?;
        }
        None => show(args, output, &rows)?,
    }
    Ok(Status::Fine)
}

fn encoded(args: &Logits, reference: &Reference) -> Result<(&'static str, Rows), Stop> {
    let given = reference.encode(&args.ids, args.token_type_ids.as_deref())?;
    if !args.masked_head && !reference.plan().scores_tokens {
        return Ok(("hidden_states", given.hidden));
    }
    let none = || Error::new(ErrorKind::Unsupported, "the model has no head for masked words");
    Ok(("logits", given.logits.ok_or_else(none)?))
}

fn continued(args: &Logits, reference: &Reference) -> Result<Rows, Stop> {
    if args.masked_head || args.token_type_ids.is_some() {
        let fault = "--masked-head and --token-type-ids are for encoders of text";
        return Err(Stop::Usage(fault.to_owned()));
    }
    let mut session = match (&args.features, &reference.plan().text_encoder) {
        (Some(path), _) => reference.session_of(&reference.encode_sound(&read_npy(path)?)?)?,
        (None, Some(_)) => reference.session_of(&encode(reference, &args.encoder_ids)?)?,
        (None, None) => reference.session(),
    };
    Ok(session.logits(&args.ids)?)
}

/// The output of the text encoder next to a decoder.
pub(super) fn encode(reference: &Reference, tokens: &[u32]) -> Result<Rows, Stop> {
    if tokens.is_empty() {
        let fault = "the model has an encoder of text, which needs tokens: give --encoder-ids";
        return Err(Stop::Usage(fault.to_owned()));
    }
    Ok(reference.encode(tokens, None)?.hidden)
}

/// For people: the likeliest tokens behind each position, or the first values of its hidden state.
fn show(args: &Logits, output: &str, rows: &Rows) -> Result<(), Stop> {
    let mut out = print::stdout();
    writeln!(out, "{output}: {} x {}", rows.len(), rows.width())?;
    let best = (0..).zip(["1ST", "2ND", "3RD", "4TH", "5TH"]);
    let value = (0..).zip(["[0]", "[1]", "[2]", "[3]", "[4]"]);
    let ranked = output == "logits";
    let values = if ranked { best } else { value };
    let values = values.map(|(place, head)| right(head).optional(place));
    let columns = [right("POSITION"), right("TOKEN")].into_iter().chain(values);
    let mut table = Table::new(&columns.collect::<Vec<_>>());
    for ((place, id), row) in args.ids.iter().enumerate().zip(rows.rows()) {
        let mut values: Vec<(usize, f32)> = row.iter().copied().enumerate().collect();
        if ranked {
            values.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        }
        let value = |(token, value): &(usize, f32)| match ranked {
            true => format!("{token}: {value:.4}"),
            false => format!("{value:.4}"),
        };
        let values = values.iter().take(SHOWN).map(value);
        table.row([place.to_string(), id.to_string()].into_iter().chain(values));
    }
    table.write(&mut out)?;
    Ok(out.flush()?)
}

pub(super) fn write_npy(path: &Path, rows: &Rows, overwrite: bool) -> Result<(), Stop> {
    let mut file = NewFile::create(path, |_| Ok(overwrite))?;
    let dims = [rows.len() as u64, rows.width() as u64];
    file.write_all(&npy_header(&dims))?;
    for value in rows.values() {
        file.write_all(&value.to_le_bytes())?;
    }
    file.finish()
}

/// Reads a NumPy array file of f32 with two dimensions.
pub(crate) fn read_npy(path: &Path) -> Result<Rows, Stop> {
    let file = File::open(path).map_err(|error| failure::io(path, "cannot open", error))?;
    let mut bytes = Vec::new();
    file.take(LARGEST)
        .read_to_end(&mut bytes)
        .map_err(|error| failure::io(path, "cannot read", error))?;
    parse_npy(&bytes).ok_or_else(|| {
        let fault = "no NumPy array file of little-endian f32 with two dimensions, row by row";
        Error::new(ErrorKind::Malformed, fault).in_file(path).into()
    })
}

/// The values of an array file of version 1 or 2, or nothing if it is another kind of file.
fn parse_npy(bytes: &[u8]) -> Option<Rows> {
    let (version, rest) = bytes.strip_prefix(b"\x93NUMPY")?.split_first_chunk::<2>()?;
    let (length, rest) = match version {
        [1, _] => {
            let (length, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_le_bytes(*length)), rest)
        }
        [2, _] => {
            let (length, rest) = rest.split_first_chunk::<4>()?;
            (usize::try_from(u32::from_le_bytes(*length)).ok()?, rest)
        }
        _ => return None,
    };
    let (header, data) = rest.split_at_checked(length)?;
    let header = std::str::from_utf8(header).ok()?;
    if !header.contains("'<f4'") || !header.contains("'fortran_order': False") {
        return None;
    }
    let (_, shape) = header.split_once("'shape': (")?;
    let (shape, _) = shape.split_once(')')?;
    let dims = shape.split(',').map(str::trim).filter(|dim| !dim.is_empty());
    let dims = dims.map(|dim| dim.parse::<usize>().ok()).collect::<Option<Vec<_>>>()?;
    let [rows, columns] = *dims.as_slice() else { return None };
    let (values, odd) = data.as_chunks::<4>();
    let whole = rows.checked_mul(columns) == Some(values.len()) && odd.is_empty() && columns > 0;
    let values = values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    whole.then(|| Rows::new(values, columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn array_files_are_read_as_they_are_written() {
        let rows = Rows::new(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 3);
        let mut bytes = npy_header(&[2, 3]);
        bytes.extend(rows.values().iter().flat_map(|value| value.to_le_bytes()));
        assert_eq!(parse_npy(&bytes), Some(rows));
        assert_eq!(parse_npy(&bytes[..bytes.len() - 1]), None);
        assert_eq!(parse_npy(&npy_header(&[6])), None);
    }
}
