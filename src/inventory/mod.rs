//! The models on this machine: where programs keep them, what they are, and which are the same.
//!
//! ```no_run
//! use weighbridge::inventory::{InventoryOptions, inventory};
//!
//! # fn main() -> weighbridge::Result<()> {
//! for model in inventory(&InventoryOptions::new())?.models {
//!     println!("{} {:?} {} bytes", model.name, model.program, model.bytes);
//! }
//! # Ok(())
//! # }
//! ```
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

mod duplicates;
mod index;
mod known;
mod options;
mod programs;
mod walk;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;

use crate::bytes::Text;
use crate::container::OpenOptions;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::ops;
use crate::threads::Threads;

pub use duplicates::{Action, DamagedFile, DuplicateGroup, Saving};
use index::{Entry, Index};
use known::Known;
pub use options::{DuplicateSearch, InventoryOptions, InventoryStage};
use programs::Places;
pub use programs::{PROGRAMS, Program};
use walk::{Candidate, Kind};

/// The models on this machine.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Inventory {
    /// The models, in the order of programs and names.
    pub models: Vec<ListedModel>,
    /// The models with the same content, if they were searched for.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub duplicates: Vec<DuplicateGroup>,
    /// The files that were read for the search, and whose content does not have the digest in their name.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub damaged: Vec<DamagedFile>,
    /// The bytes of all models on disk. What several models share counts once.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub bytes: u64,
    /// The number of files in all folders.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub files: u64,
    /// The folders that were looked at, each with its program.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub roots: Vec<(Option<&'static str>, PathBuf)>,
    /// Folders that cannot be read, and an index that cannot be written.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub faults: Vec<Error>,
}

/// A model on this machine. What is not known is `None`.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ListedModel {
    /// The name: in Ollama's store and in the hub cache that of the program, elsewhere the path
    /// below the program's folder.
    pub name: String,
    /// The program whose folder it is in, by its name in [`PROGRAMS`].
    pub program: Option<&'static str>,
    /// The path that opens it.
    #[cfg_attr(feature = "serde", serde(serialize_with = "path"))]
    pub path: PathBuf,
    /// The name of the container: `gguf`, `safetensors`.
    pub container: Option<&'static str>,
    /// The architecture that its metadata or its config states.
    pub architecture: Option<String>,
    /// The number of weights.
    pub parameters: Option<u64>,
    /// Bits of an average weight, scales included.
    pub bits_per_weight: Option<f64>,
    /// The bytes of its files.
    pub bytes: u64,
    /// When its weights were read last, in seconds since 1970, as far as the file system says.
    pub last_used: Option<u64>,
    /// The paths of the models with the same content.
    #[cfg_attr(feature = "serde", serde(serialize_with = "paths"))]
    pub duplicates_of: Vec<PathBuf>,
    /// The file type, such as `Q4_K_M`; else the dtype of most weights.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub quantization: Option<String>,
    /// The reason why it cannot be opened.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub error: Option<Error>,
}

#[cfg(feature = "serde")]
fn path<S: serde::Serializer>(path: &Path, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&Text::from_path(path).spelling())
}

#[cfg(feature = "serde")]
fn paths<S: serde::Serializer>(paths: &[PathBuf], out: S) -> Result<S::Ok, S::Error> {
    out.collect_seq(paths.iter().map(|path| Text::from_path(path).spelling()))
}

/// Finds the models on this machine. A model that cannot be opened is listed with its error.
///
/// Folders that do not exist are skipped, as most programs are not installed. Models are opened
/// unless the index knows them; weights are read only for [`DuplicateSearch::Content`] and
/// [`DuplicateSearch::Values`].
///
/// # Errors
///
/// `NotFound` if a folder of [`InventoryOptions::roots`] does not exist; `Cancelled` if the
/// progress callback cancels.
pub fn inventory(options: &InventoryOptions<'_>) -> Result<Inventory> {
    let roots = roots(options)?;
    let walk::Found { candidates, mut faults, files } = walk::walk(&roots, options.threads)?;
    let mut index = options.index.as_deref().map(Index::read).unwrap_or_default();
    let places: Vec<&Path> = roots.iter().map(|(_, root)| root.as_path()).collect();
    index.forget(&places, candidates.iter().map(|found| found.path.as_path()));
    let wanted = |found: &Candidate| options.names.is_none_or(|passes| passes(&found.name));
    let candidates = candidates.into_iter().filter(wanted).collect();
    let mut known = open(candidates, &mut index, options)?;
    known.retain(|model| model.is_model() && model.is_of(options.only));
    let mut known: Vec<_> = known.into_iter().map(|model| (order(&model), model)).collect();
    known.sort_by(|(first, a), (second, b)| first.cmp(second).then_with(|| natural(a, b)));
    let mut known: Vec<Known> = known.into_iter().map(|(_, model)| model).collect();
    let compared = duplicates::find(&mut known, &mut index, options)?;
    if let Some(Err(error)) = options.index.as_deref().map(|folder| index.write(folder)) {
        faults.push(error);
    }
    let bytes = distinct_bytes(&known);
    let duplicates = match options.duplicates {
        DuplicateSearch::Known => Vec::new(),
        _ => duplicates::groups(&known, &compared),
    };
    let twins = duplicates::twins(&known, &compared);
    let damaged = compared.damaged();
    let models = known.into_iter().zip(twins).map(|(known, twins)| known.listed(twins)).collect();
    Ok(Inventory { models, duplicates, damaged, bytes, files, roots, faults })
}

/// The folders to look at that exist. The index has absolute paths.
fn roots(options: &InventoryOptions<'_>) -> Result<Vec<(Option<&'static str>, PathBuf)>> {
    let own = if options.programs { Places::with_own(programs::roots) } else { Vec::new() };
    let own = own.into_iter().filter(|(_, root)| root.is_dir());
    let own = own.map(|(program, root)| (Some(program), root));
    let given = options.roots.iter().map(|root| (None, root.clone()));
    let mut all = Vec::new();
    for (program, root) in own.chain(given) {
        if !root.is_dir() {
            return Err(Error::not_found("no such folder").in_file(&root));
        }
        let absolute = std::path::absolute(&root);
        let cannot = |error| Error::io("cannot resolve the path", error).in_file(&root);
        all.push((program, absolute.map_err(cannot)?));
    }
    Ok(all)
}

/// The position of a model's program; models of none come last.
fn order(model: &Known) -> usize {
    let is_own = |program: &Program| Some(program.name) == model.program();
    PROGRAMS.iter().position(is_own).unwrap_or(PROGRAMS.len())
}

fn natural(a: &Known, b: &Known) -> std::cmp::Ordering {
    let (first, second) = (&a.candidate, &b.candidate);
    let names = Text::new(first.name.as_bytes()).natural_cmp(Text::new(second.name.as_bytes()));
    names.then_with(|| first.path.cmp(&second.path))
}

/// Looks up what is known of each model, and opens the others. Paths of one file are opened once.
fn open(
    candidates: Vec<Candidate>,
    index: &mut Index,
    options: &InventoryOptions<'_>,
) -> Result<Vec<Known>> {
    let now = walk::now();
    let identity = |found: &Candidate| {
        let files: Vec<(u64, u64)> = found.weights.iter().map(|file| file.identity).collect();
        (found.kind == Kind::File).then_some(files)
    };
    let (mut entries, mut unknown) = (Vec::new(), Vec::new());
    let mut same: HashMap<Vec<(u64, u64)>, usize> = HashMap::new();
    for (place, found) in candidates.iter().enumerate() {
        let entry = match (&found.error, index.get(&found.path, found.stamp)) {
            (Some(error), _) => Some(Entry { error: Some(error.clone()), ..Entry::default() }),
            (None, _) if found.kind == Kind::Weightless => {
                Some(Entry { container: Some(crate::container::OLLAMA.name), ..Entry::default() })
            }
            (None, Some(entry)) => Some(entry.clone()),
            (None, None) => {
                let first = identity(found).map(|files| *same.entry(files).or_insert(place));
                if first.is_none_or(|first| first == place) {
                    unknown.push(place);
                }
                None
            }
        };
        entries.push(entry);
    }
    let (done, total) = (AtomicU64::new(0), unknown.len() as u64);
    let look = |(): &mut (), place: usize| {
        let entry = candidates.get(place).map(look);
        let done = done.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        options.report(InventoryStage::Opening, done, total)?;
        Ok((place, entry.unwrap_or_default()))
    };
    let opened = options.threads.in_order(unknown.into_iter(), || (), look)?;
    let opened: HashMap<usize, Entry> = opened.into_iter().collect();
    let of_place = |(place, (candidate, entry)): (usize, (Candidate, Option<Entry>))| {
        let fresh = entry.is_none();
        let entry = entry.unwrap_or_else(|| {
            let first = identity(&candidate).and_then(|files| same.get(&files).copied());
            opened.get(&first.unwrap_or(place)).cloned().unwrap_or_default()
        });
        // What was read by this library is no use of the model.
        let used = match (candidate.last_used, entry.used) {
            (Some(last), kept) if !fresh && last <= entry.looked => kept.or(Some(last)),
            (last, _) => last,
        };
        if fresh {
            let (stamp, seen) = (candidate.stamp, now);
            index.put(&candidate.path, Entry { stamp, used, seen, ..entry.clone() });
        }
        let candidate = Candidate { last_used: used, ..candidate };
        Known { candidate, entry }
    };
    Ok(candidates.into_iter().zip(entries).enumerate().map(of_place).collect())
}

/// Opens a model, and notes what it is.
fn look(found: &Candidate) -> Entry {
    let mut entry = match OpenOptions::new().threads(Threads::one()).open(&found.path) {
        Ok(model) => describe(&model),
        Err(error) => Entry { error: Some(error), ..Entry::default() },
    };
    entry.looked = walk::now();
    entry
}

fn describe(model: &Model) -> Entry {
    let quantization = model.quantization();
    // What llama-imatrix writes about a model is a GGUF file too.
    let is_model = model.metadata().str("general.type") != Some("imatrix");
    Entry {
        container: Some(model.container()),
        architecture: architecture(model),
        parameters: Some(quantization.elements()),
        bits_per_weight: quantization.bits_per_weight(),
        quantization: ops::file_type(model).or_else(|| ops::main_dtype(&quantization)),
        tensors: if is_model { model.len() as u64 } else { 0 },
        ..Entry::default()
    }
}

/// The architecture: as the metadata or the config state it, else the family that the names of the
/// tensors belong to.
fn architecture(model: &Model) -> Option<String> {
    let config = model.document("config.json");
    let stated = config.and_then(|config| config.get("model_type")?.as_str());
    let stated = model.metadata().str("general.architecture").or(stated);
    stated.filter(|text| !text.is_empty()).map(str::to_owned).or_else(|| {
        let family = model.resolution().ok()?.architecture?;
        Some(family.name.to_owned())
    })
}

/// The bytes of all models. A file that several models or links share counts once.
fn distinct_bytes(known: &[Known]) -> u64 {
    let mut seen: HashSet<_, RandomState> = HashSet::default();
    let mut all: u64 = 0;
    for Known { candidate, .. } in known {
        let weights = candidate.weights.iter().map(|file| file.len).fold(0, u64::saturating_add);
        let fresh = candidate.weights.iter().filter(|file| seen.insert(file.identity));
        let fresh = fresh.map(|file| file.len).fold(0, u64::saturating_add);
        all = all.saturating_add(candidate.bytes.saturating_sub(weights)).saturating_add(fresh);
    }
    all
}

impl Known {
    fn listed(self, duplicates_of: Vec<PathBuf>) -> ListedModel {
        let program = self.program();
        let Self { candidate, entry } = self;
        let container = entry.container;
        ListedModel {
            name: candidate.name,
            program,
            path: candidate.path,
            container,
            architecture: entry.architecture,
            parameters: entry.parameters,
            bits_per_weight: entry.bits_per_weight,
            bytes: candidate.bytes,
            last_used: candidate.last_used,
            duplicates_of,
            quantization: entry.quantization,
            error: entry.error,
        }
    }
}
