//! The report of `verify`: whether a model is complete, follows its format's rules and has sound
//! values.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::check_consistency;
use super::hub::HubFiles;
use crate::bytes::{Access, Source, Text};
use crate::container::Strictness;
use crate::digest::{is_git_blob, sha256};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Model, Tensor};
use crate::ops::hash::{HashLine, HashList, HashOptions, TensorHash};
use crate::ops::odd_name;
use crate::progress::{Callback, Meter, Watch};
use crate::remote::Network;
use crate::setters::setters;
use crate::store::tensor::Finding;
use crate::threads::Threads;

/// Options of [`verify`].
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct VerifyOptions<'w> {
    deep: bool,
    strictness: Strictness,
    against: Option<&'w HashList>,
    sha256: Option<&'w str>,
    hub: Option<&'w str>,
    network: Option<&'w Network>,
    threads: Threads,
    progress: Watch<'w>,
}

impl<'w> VerifyOptions<'w> {
    /// The defaults: check everything except values, with one thread for each processor.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Also checks every value and scale; see [`Tensor::check_values`].
        deep: bool;
        /// Sets whether what only [`Strictness::Strict`] refuses is a fault: rules of the format that the
        /// files break, and what the container's reference reader refuses. Such a model is opened with
        /// [`Strictness::Default`].
        strictness: Strictness;
        /// Compares the tensors with a list of hashes.
        against: &'w HashList;
        /// Compares the model's file with a SHA-256 in hexadecimal.
        sha256: &'w str;
        /// Compares the model's files with those of a repository of the Hugging Face hub: `org/name`,
        /// `org/name@revision`, or `org/name/file` for a file that has another name here.
        hub: &'w str;
        /// Sets how the hub is reached; the default is [`Network::from_env`].
        network: &'w Network;
        /// Sets the threads that share the tensors.
        threads: impl Into<Threads>;
        /// Sets a callback that is called after every tensor. `Break` cancels the verification.
        progress: Callback<'w>;
    }
}

/// The result of [`verify`].
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct VerifyReport {
    /// The path of the model.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub path: PathBuf,
    /// The number of files that hold tensors or metadata.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub files: usize,
    /// The number of files that were compared with a digest: the container states it, the name of the file
    /// is its digest, the caller gave one, or the hub states it.
    pub digests: usize,
    /// The number of stored tensors.
    pub tensors: usize,
    /// Faults that make the model unusable, or refused by the requested strictness.
    pub faults: Vec<String>,
    /// Notes on what some readers refuse, and on what could not be checked.
    pub notes: Vec<String>,
    /// Findings about the values; absent unless values were checked.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub findings: Option<Vec<TensorFinding>>,
    /// Tensors that differ from the list of hashes; absent without a list.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub differences: Option<Vec<HashDifference>>,
}

impl VerifyReport {
    /// Whether there are no faults, findings or differences.
    pub fn is_fine(&self) -> bool {
        self.faults.is_empty()
            && self.findings.as_ref().is_none_or(Vec::is_empty)
            && self.differences.as_ref().is_none_or(Vec::is_empty)
    }
}

/// A [`Finding`], with its tensor.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TensorFinding {
    /// The stored name; if it is not UTF-8, its [spelling](Text::spelling).
    pub name: String,
    /// The bytes of a name that is not UTF-8, in hexadecimal.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub name_hex: Option<String>,
    /// The [kind](crate::model::FindingKind::name).
    pub finding: &'static str,
    /// Whether the tensor cannot be used.
    pub fault: bool,
    /// The name of the part that has it.
    pub part: &'static str,
    /// The number of occurrences.
    pub count: u64,
    /// The number of checked values.
    pub of: u64,
    /// The index of the first occurrence, counted from 0.
    pub first: u64,
    /// The file that holds the part.
    pub file: Option<String>,
    /// The offset of the first occurrence in that file, in bytes.
    pub offset: Option<u64>,
    /// The first occurrence's value.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::ops::serialize::float"))]
    pub value: f64,
    /// The finding in one sentence.
    pub text: String,
}

impl TensorFinding {
    fn new(tensor: &Tensor, finding: &Finding) -> Self {
        let segment = tensor.segments().find(|segment| segment.part == finding.part);
        Self {
            name: tensor.name().to_owned(),
            name_hex: odd_name(tensor.raw_name()),
            finding: finding.kind.name(),
            fault: finding.kind.is_fault(),
            part: finding.part.name(),
            count: finding.count,
            of: finding.of,
            first: finding.first,
            file: segment.map(|segment| Text::from_path(segment.path).spelling().into_owned()),
            offset: finding.offset,
            value: finding.value,
            text: finding.to_string(),
        }
    }
}

/// A tensor that differs from a [`HashList`].
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct HashDifference {
    /// The stored name; if it is not UTF-8, its [spelling](Text::spelling).
    pub name: String,
    /// The bytes of a name that is not UTF-8, in hexadecimal.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub name_hex: Option<String>,
    /// `missing` (not in the model), `extra` (not in the list) or `changed`.
    pub difference: &'static str,
    /// The properties that changed.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub changes: Vec<HashChange>,
}

/// A property of a tensor that differs from a [`HashList`].
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct HashChange {
    /// `dtype`, `shape`, `bytes`, `bytes of its other parts` or `values`.
    pub what: &'static str,
    /// The dtype, shape or hash in the list.
    pub saved: Option<String>,
    /// The dtype, shape or hash in the model.
    pub found: Option<String>,
}

impl HashDifference {
    fn new(name: &[u8], difference: &'static str, changes: Vec<HashChange>) -> Self {
        let text = Text::new(name);
        let (name, name_hex) = (text.spelling().into_owned(), odd_name(text));
        Self { name, name_hex, difference, changes }
    }
}

/// Checks an opened model: the rules that its files break, the digests that its container states, and
/// the [consistency](check_consistency) of its files. If requested, it also checks the values and
/// compares the tensors with a list of hashes.
///
/// ```
/// use weighbridge::{Model, ops};
///
/// # fn main() -> weighbridge::Result<()> {
/// let model = Model::open("assets/sample/sample-Q8_0.gguf")?;
/// let report = ops::verify(&model, &ops::VerifyOptions::new().deep(true))?;
/// assert!(report.is_fine());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// `Io` if a file cannot be read, or the hub cannot be reached; `NotFound` or `Mismatch` if it has no such
/// repository; `Cancelled` if the progress callback cancels.
pub fn verify(model: &Model, options: &VerifyOptions<'_>) -> Result<VerifyReport> {
    let strict = options.strictness == Strictness::Strict;
    let mut faults = Vec::new();
    if strict {
        let broken = model.notes().iter().filter(|note| note.breaks_rule);
        faults.extend(broken.map(|note| note.text.clone()));
    }
    let checked = if options.deep { model.stored_bytes() } else { 0 };
    let compared = options.against.map(|list| {
        let hashing = hashing(list);
        let bytes = model.stored_tensors().map(|tensor| hashing.bytes(&tensor));
        bytes.fold(0, u64::saturating_add)
    });
    let whole = options.sha256.map_or(0, |_| model.store().file_bytes());
    let hub = options.hub.map(|name| HubFiles::of(model, name, options.network)).transpose()?;
    let hub = hub.unwrap_or_default();
    let listed = hub.bytes(model.store());
    let read = [model.store().digest_bytes(), whole, listed, checked, compared.unwrap_or(0)];
    let meter = Meter::new(read.into_iter().fold(0, u64::saturating_add), options.progress);
    faults.extend(digest_faults(model, options, &meter)?);
    if let Some(hex) = options.sha256 {
        faults.extend(given_digest_fault(model, hex, &meter)?);
    }
    faults.extend(hub.different(model.store(), options.threads, &meter)?);
    let digests = [model.digests(), usize::from(options.sha256.is_some()), hub.len()];
    faults.extend(hub.faults);
    let meaning = check_consistency(model, options.strictness)?;
    faults.extend(meaning.faults);
    let mut notes = hub.notes;
    if !strict {
        let notes_of_files = model.notes().iter();
        notes.extend(notes_of_files.map(|note| format!("{}: {}", shown(&note.path), note.text)));
    }
    notes.extend(meaning.notes);
    let mut report = VerifyReport {
        path: model.path().to_path_buf(),
        files: model.files().len(),
        digests: digests.into_iter().fold(0, usize::saturating_add),
        tensors: model.len(),
        faults,
        notes,
        findings: None,
        differences: None,
    };
    if options.deep {
        report.findings = Some(findings(model, options, &meter, &mut report)?);
    }
    if let Some(list) = options.against {
        report.differences = Some(differences(model, list, options, &meter)?);
    }
    Ok(report)
}

/// A path with control characters escaped.
fn shown(path: &Path) -> String {
    Text::from_path(path).to_string()
}

/// The fault of a model's file whose SHA-256 is not the given one.
///
/// # Errors
///
/// `Mismatch` if the model has several files.
fn given_digest_fault(model: &Model, hex: &str, meter: &Meter<'_>) -> Result<Option<String>> {
    let files: Vec<&Path> = model.files().collect();
    let [file] = files.as_slice() else {
        let fault =
            format!("a SHA-256 is that of one file, but the model has {} files", files.len());
        return Err(Error::mismatch(fault).in_file(model.path()).advise("give one of its files"));
    };
    let found = model.store().sha256_of_file(|bytes| meter.add(bytes))?;
    Ok(different(file, &found, hex))
}

/// The fault of a file whose SHA-256 is not the given one, or `None`. The file may have any format.
///
/// # Errors
///
/// `Io` if the file cannot be read.
pub fn digest_fault(file: &Path, hex: &str) -> Result<Option<String>> {
    let found = sha256(&Source::open(file, Access::Read)?)?;
    Ok(different(file, &found, hex))
}

fn different(file: &Path, found: &str, hex: &str) -> Option<String> {
    (!found.eq_ignore_ascii_case(hex)).then(|| {
        format!("{}: the content has the SHA-256 {found}, but {hex} is expected", shown(file))
    })
}

/// The faults of files whose SHA-256 differs from the one that the container states.
fn digest_faults(
    model: &Model,
    options: &VerifyOptions<'_>,
    meter: &Meter<'_>,
) -> Result<Vec<String>> {
    let wrong = model.verify_digests(options.threads, |bytes| meter.add(bytes))?;
    let fault = |(path, found): (PathBuf, Option<String>)| match found {
        Some(found) => {
            let kind = if is_git_blob(&found) { "git blob id" } else { "SHA-256" };
            let path = shown(&path);
            format!(
                "{path}: the content has the {kind} {found}, which differs from the file's name"
            )
        }
        None => format!("{}: the file is missing", shown(&path)),
    };
    Ok(wrong.into_iter().map(fault).collect())
}

/// Checks the values of every tensor. A tensor that cannot be read becomes a note; parts that do
/// not fit together become a fault.
fn findings(
    model: &Model,
    options: &VerifyOptions<'_>,
    meter: &Meter<'_>,
    report: &mut VerifyReport,
) -> Result<Vec<TensorFinding>> {
    let tensors: Vec<Tensor> = model.stored_tensors().collect();
    let check = |(): &mut (), tensor: Tensor| {
        let found = match tensor.check_values() {
            Ok(found) => Ok(found.iter().map(|found| TensorFinding::new(&tensor, found)).collect()),
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Malformed) => {
                Err(error)
            }
            Err(error) => return Err(error),
        };
        meter.add(tensor.stored_bytes())?;
        Ok(found)
    };
    let checked: Vec<Result<Vec<TensorFinding>>> =
        options.threads.in_order(tensors.into_iter(), || (), check)?;
    let mut findings = Vec::new();
    for found in checked {
        match found {
            Ok(found) => findings.extend(found),
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                report.notes.push(format!("{error}; not checked"));
            }
            Err(error) => report.faults.push(error.to_string()),
        }
    }
    Ok(findings)
}

/// The options that produce the hashes of a list.
fn hashing(list: &HashList) -> HashOptions<'static> {
    HashOptions::new().values(list.values).parts(true)
}

/// The tensors that differ from the list, in its order, followed by those that it lacks.
fn differences(
    model: &Model,
    list: &HashList,
    options: &VerifyOptions<'_>,
    meter: &Meter<'_>,
) -> Result<Vec<HashDifference>> {
    let known: HashMap<&[u8], &HashLine> =
        list.lines.iter().map(|line| (line.name.as_slice(), line)).collect();
    let tensors: Vec<Tensor> = model.stored_tensors().collect();
    let hashing = hashing(list);
    let compare = |(): &mut (), tensor: Tensor| {
        let name = tensor.raw_name().as_bytes();
        let changes = match known.get(name) {
            None => {
                meter.add(hashing.bytes(&tensor))?;
                None
            }
            Some(saved) => {
                let hashes = TensorHash::of(&tensor, &hashing, meter)?;
                let line = HashLine::new(&hashes);
                match hashes.error {
                    Some(error) if error.kind() != ErrorKind::Unsupported => return Err(error),
                    _ => Some(changes(saved, &line)),
                }
            }
        };
        Ok((name.to_vec(), changes))
    };
    let compared = options.threads.in_order(tensors.into_iter(), || (), compare)?;
    let mut found = HashMap::new();
    let mut extra = Vec::new();
    for (name, changes) in compared {
        match changes {
            Some(changes) => {
                found.insert(name, changes);
            }
            None => extra.push(HashDifference::new(&name, "extra", Vec::new())),
        }
    }
    let difference = |line: &HashLine| match found.remove(&line.name) {
        None => Some(HashDifference::new(&line.name, "missing", Vec::new())),
        Some(changes) if changes.is_empty() => None,
        Some(changes) => Some(HashDifference::new(&line.name, "changed", changes)),
    };
    Ok(list.lines.iter().filter_map(difference).chain(extra).collect())
}

fn changes(saved: &HashLine, found: &HashLine) -> Vec<HashChange> {
    let text = |text: &String| Some(text.clone());
    let rows = [
        ("dtype", text(&saved.dtype), text(&found.dtype)),
        ("shape", text(&saved.shape), text(&found.shape)),
        ("bytes", saved.weight.clone(), found.weight.clone()),
        ("bytes of its other parts", saved.others.clone(), found.others.clone()),
        ("values", saved.values.clone(), found.values.clone()),
    ];
    let changed = rows.into_iter().filter(|(_, saved, found)| saved != found);
    changed.map(|(what, saved, found)| HashChange { what, saved, found }).collect()
}
