//! `verify`: is the model whole, does it keep the rules, and does it hold sound numbers?

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

use serde::Serialize;
use weighbridge::{Error, ErrorKind, Finding, Model, Strictness, Tensor, Text, ops};

use super::Done;
use crate::args::Verify;
use crate::hashes::{Line, Saved};
use crate::json::{self, Float, SCHEMA, hex_if_odd};
use crate::print::{plural, progress, shown};
use crate::{Status, Stop};

#[derive(Serialize)]
struct Report {
    schema: u32,
    path: String,
    tensors: usize,
    /// What makes the model unfit for use, or for the strict reader that was asked for.
    faults: Vec<String>,
    /// What other readers may refuse, and what could not be looked at.
    notes: Vec<String>,
    /// What is odd in the values. Absent unless they were looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    findings: Option<Vec<FindingReport>>,
    /// Absent without a list to compare with.
    #[serde(skip_serializing_if = "Option::is_none")]
    differences: Option<Vec<Difference>>,
}

#[derive(Serialize)]
struct FindingReport {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name_hex: Option<String>,
    finding: &'static str,
    /// Whether the tensor cannot be used.
    fault: bool,
    part: &'static str,
    count: u64,
    of: u64,
    first: u64,
    file: Option<String>,
    offset: Option<u64>,
    value: Float,
    /// All of it in a sentence.
    text: String,
}

impl FindingReport {
    fn new(tensor: &Tensor, finding: &Finding) -> Self {
        let segment = tensor.segments().find(|segment| segment.part == finding.part);
        Self {
            name: tensor.name().to_owned(),
            name_hex: hex_if_odd(tensor.raw_name()),
            finding: finding.kind.name(),
            fault: finding.kind.is_fault(),
            part: finding.part.name(),
            count: finding.count,
            of: finding.of,
            first: finding.first,
            file: segment.map(|segment| segment.path.to_string_lossy().into_owned()),
            offset: finding.offset,
            value: Float(finding.value),
            text: finding.to_string(),
        }
    }
}

/// A tensor that is not as a list has it.
#[derive(Serialize)]
struct Difference {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name_hex: Option<String>,
    /// `missing`, `extra` or `changed`.
    difference: &'static str,
    /// What changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<Change>,
}

#[derive(Serialize)]
struct Change {
    what: &'static str,
    saved: Option<String>,
    found: Option<String>,
}

impl Difference {
    fn new(name: &[u8], difference: &'static str, changes: Vec<Change>) -> Self {
        let text = Text::new(name);
        let (name, name_hex) = (text.spelling().into_owned(), hex_if_odd(text));
        Self { name, name_hex, difference, changes }
    }

    /// For people: hashes say nothing to them.
    fn text(&self) -> String {
        let changes: Vec<String> = self
            .changes
            .iter()
            .map(|Change { what, saved, found }| match (*what, saved, found) {
                ("dtype" | "shape", Some(saved), Some(found)) => {
                    format!("{what} {saved} to {found}")
                }
                _ => (*what).to_owned(),
            })
            .collect();
        match self.difference {
            "missing" => "missing from the model".to_owned(),
            "extra" => "not in the list".to_owned(),
            _ => format!("changed: {}", changes.join(", ")),
        }
    }
}

pub(crate) fn run(args: &Verify) -> Done {
    let list = args.against.as_deref().map(Saved::read).transpose()?;
    let (store, faults) = match args.open.options().open(&args.path) {
        Ok(store) => {
            let faults = digest_faults(&store)?;
            (store, faults)
        }
        // What only the strict rules refuse is a finding about a model that can be opened.
        Err(error) if args.open.strict && error.kind() == ErrorKind::Malformed => {
            let options = args.open.options().strictness(Strictness::Default);
            let store = options.open(&args.path).map_err(|_| Stop::Library(error))?;
            let mut faults: Vec<String> = store.notes().iter().map(|n| n.text.clone()).collect();
            faults.extend(digest_faults(&store)?);
            (store, faults)
        }
        Err(error) => return Err(error.into()),
    };
    let strictness = match args.open.strict {
        true => Strictness::Strict,
        false => Strictness::Default,
    };
    let meaning = ops::check_meaning(&store, strictness)?;
    let mut faults = faults;
    faults.extend(meaning.faults);
    let mut notes = if args.open.strict { Vec::new() } else { notes(&store) };
    notes.extend(meaning.notes);
    let mut report = Report {
        schema: SCHEMA,
        path: args.path.to_string_lossy().into_owned(),
        tensors: store.len(),
        faults,
        notes,
        findings: None,
        differences: None,
    };
    if args.deep {
        report.findings = Some(look_deep(&store, &mut report.faults, &mut report.notes)?);
    }
    if let Some(list) = &list {
        report.differences = Some(differences(&store, list)?);
    }
    let found = report.faults.len()
        + report.findings.as_ref().map_or(0, Vec::len)
        + report.differences.as_ref().map_or(0, Vec::len);
    if args.json {
        json::write(&report)?;
    } else {
        write_text(&report, &store, args.against.as_deref())?;
    }
    Ok(if found == 0 { Status::Fine } else { Status::Found })
}

/// The values of every tensor. What cannot be read is noted, and parts that do not fit together are
/// a fault.
fn look_deep(
    store: &Model,
    faults: &mut Vec<String>,
    notes: &mut Vec<String>,
) -> Result<Vec<FindingReport>, Stop> {
    let mut reports = Vec::new();
    let bar = progress(store.stored_bytes());
    for tensor in store.stored_tensors() {
        match tensor.check_values() {
            Ok(findings) => {
                reports.extend(findings.iter().map(|found| FindingReport::new(&tensor, found)));
            }
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                notes.push(format!("{error}; it was not looked at"));
            }
            Err(error) if error.kind() == ErrorKind::Malformed => faults.push(error.to_string()),
            Err(error) => return Err(error.into()),
        }
        bar.inc(tensor.stored_bytes());
    }
    bar.finish_and_clear();
    Ok(reports)
}

/// The tensors that are not as the list has them, in its order, then those that it has not.
fn differences(store: &Model, list: &Saved) -> Result<Vec<Difference>, Stop> {
    let mut found = HashMap::new();
    let mut extra = Vec::new();
    let bar = progress(store.stored_bytes());
    let known: HashMap<&[u8], &Line> =
        list.lines.iter().map(|line| (line.name.as_slice(), line)).collect();
    for tensor in store.stored_tensors() {
        let name = tensor.raw_name().as_bytes().to_vec();
        match known.get(name.as_slice()) {
            Some(saved) => {
                let line = Line::new(&tensor, list.with_values, &mut None::<Error>)?;
                found.insert(name, changes(saved, &line));
            }
            None => extra.push(Difference::new(&name, "extra", Vec::new())),
        }
        bar.inc(tensor.stored_bytes());
    }
    bar.finish_and_clear();
    let difference = |line: &Line| match found.remove(&line.name) {
        None => Some(Difference::new(&line.name, "missing", Vec::new())),
        Some(changes) if changes.is_empty() => None,
        Some(changes) => Some(Difference::new(&line.name, "changed", changes)),
    };
    Ok(list.lines.iter().filter_map(difference).chain(extra).collect())
}

fn changes(saved: &Line, found: &Line) -> Vec<Change> {
    let text = |text: &String| Some(text.clone());
    let rows = [
        ("dtype", text(&saved.dtype), text(&found.dtype)),
        ("shape", text(&saved.shape), text(&found.shape)),
        ("bytes", saved.weight.clone(), found.weight.clone()),
        ("bytes of its other parts", saved.others.clone(), found.others.clone()),
        ("values", saved.values.clone().flatten(), found.values.clone().flatten()),
    ];
    let changed = rows.into_iter().filter(|(_, saved, found)| saved != found);
    changed.map(|(what, saved, found)| Change { what, saved, found }).collect()
}

fn write_text(report: &Report, store: &Model, list: Option<&Path>) -> Result<(), Stop> {
    let mut out = std::io::BufWriter::new(anstream::stdout().lock());
    let name = |name: &str| Text::new(name.as_bytes()).brief();
    let mut counts = [("fault", report.faults.len()), ("remark", 0), ("difference", 0)];
    for fault in &report.faults {
        writeln!(out, "fault: {fault}")?;
    }
    for finding in report.findings.iter().flatten() {
        let row = &mut counts[usize::from(!finding.fault)];
        row.1 += 1;
        writeln!(out, "{}: {}: {}", row.0, name(&finding.name), finding.text)?;
    }
    for difference in report.differences.iter().flatten() {
        counts[2].1 += 1;
        writeln!(out, "difference: {}: {}", name(&difference.name), difference.text())?;
    }
    for note in &report.notes {
        writeln!(out, "note: {note}")?;
    }
    let path = shown(store.path());
    let files = plural(store.files().len(), "file");
    let tensors = plural(store.len(), "tensor");
    let counts: Vec<String> =
        counts.iter().filter(|row| row.1 > 0).map(|row| plural(row.1, row.0)).collect();
    if counts.is_empty() {
        let digests = match store.digests() {
            0 => String::new(),
            n => format!(", {}", plural(n, "digest")),
        };
        let values = if report.findings.is_some() { ", values" } else { "" };
        let list = list.map_or(String::new(), |list| format!("; all as in {}", shown(list)));
        writeln!(
            out,
            "{path}: fine: {files}, {tensors}; headers, names, shapes, byte ranges{digests}{values} checked{list}"
        )?;
    } else {
        writeln!(out, "{path}: {} in {files}, {tensors}", counts.join(", "))?;
    }
    out.flush()?;
    Ok(())
}

fn notes(store: &Model) -> Vec<String> {
    let note = |note: &weighbridge::Note| format!("{}: {}", shown(&note.path), note.text);
    store.notes().iter().map(note).collect()
}

/// Files whose bytes are not those that their container's digests promise.
fn digest_faults(store: &Model) -> Result<Vec<String>, Stop> {
    let wrong = store.verify_digests(|_| {})?;
    let fault = |(path, found): (std::path::PathBuf, Option<String>)| match found {
        Some(found) => {
            format!("{}: its bytes have the SHA-256 {found}, not that of its name", shown(&path))
        }
        None => format!("{}: the file is missing", shown(&path)),
    };
    Ok(wrong.into_iter().map(fault).collect())
}
