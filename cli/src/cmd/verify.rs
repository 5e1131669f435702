//! `verify`: is the model whole, and does it keep the rules?

use std::io::Write;

use serde::Serialize;
use weighbridge::arch::resolve;
use weighbridge::{ErrorKind, WeightStore};

use super::Done;
use crate::args::Verify;
use crate::json::{self, SCHEMA};
use crate::print::plural;
use crate::{Status, Stop};

#[derive(Serialize)]
struct Report {
    schema: u32,
    path: String,
    tensors: usize,
    /// What makes the model unfit for use, or for the strict reader that was asked for.
    faults: Vec<String>,
    /// What other readers may refuse.
    notes: Vec<String>,
}

pub(crate) fn run(args: &Verify) -> Done {
    let (store, faults) = match args.open.options().open(&args.path) {
        Ok(store) => {
            let mut faults = faults(&store);
            faults.extend(digest_faults(&store)?);
            (store, faults)
        }
        // What only the strict rules refuse is a finding about a model that can be opened.
        Err(error) if args.open.strict && error.kind() == ErrorKind::Malformed => {
            let options = args.open.options().strictness(weighbridge::Strictness::Default);
            let store = options.open(&args.path).map_err(|_| Stop::Library(error))?;
            let mut faults: Vec<String> = store.notes().iter().map(|n| n.text.clone()).collect();
            faults.extend(self::faults(&store));
            faults.extend(digest_faults(&store)?);
            (store, faults)
        }
        Err(error) => return Err(error.into()),
    };
    let notes = if args.open.strict { Vec::new() } else { notes(&store) };
    let status = if faults.is_empty() { Status::Fine } else { Status::Found };
    let report = Report {
        schema: SCHEMA,
        path: args.path.to_string_lossy().into_owned(),
        tensors: store.len(),
        faults,
        notes,
    };
    if args.json {
        json::write(&report)?;
        return Ok(status);
    }
    let mut out = std::io::BufWriter::new(anstream::stdout().lock());
    for fault in &report.faults {
        writeln!(out, "fault: {fault}")?;
    }
    for note in &report.notes {
        writeln!(out, "note: {note}")?;
    }
    let path = weighbridge::Text::new(store.path().as_os_str().as_encoded_bytes());
    let files = plural(store.files().len(), "file");
    let tensors = plural(store.len(), "tensor");
    let digests = match store.digests() {
        0 => String::new(),
        n => format!(", {}", plural(n, "digest")),
    };
    match report.faults.len() {
        0 => writeln!(
            out,
            "{path}: fine: {files}, {tensors}; headers, names, shapes, byte ranges{digests} checked"
        )?,
        n => writeln!(out, "{path}: {} in {files}, {tensors}", plural(n, "fault"))?,
    }
    out.flush()?;
    Ok(status)
}

fn notes(store: &WeightStore) -> Vec<String> {
    let note = |note: &weighbridge::Note| format!("{}: {}", shown(&note.path), note.text);
    store.notes().iter().map(note).collect()
}

/// A path that cannot write to the terminal.
fn shown(path: &std::path::Path) -> String {
    weighbridge::Text::new(path.as_os_str().as_encoded_bytes()).to_string()
}

/// Files whose bytes are not those that their container's digests promise.
fn digest_faults(store: &WeightStore) -> Result<Vec<String>, Stop> {
    let wrong = store.verify_digests(|_| {})?;
    let fault = |(path, found): (std::path::PathBuf, Option<String>)| match found {
        Some(found) => {
            format!("{}: its bytes have the SHA-256 {found}, not that of its name", shown(&path))
        }
        None => format!("{}: the file is missing", shown(&path)),
    };
    Ok(wrong.into_iter().map(fault).collect())
}

/// What a model that opened still lacks.
fn faults(store: &WeightStore) -> Vec<String> {
    match resolve(store) {
        Ok(resolution) => resolution
            .missing
            .iter()
            .map(|name| format!("the model lacks {name}, which its architecture needs"))
            .collect(),
        Err(error) => vec![error.to_string()],
    }
}
