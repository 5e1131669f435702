//! Finds models with the same files or the same values, and says what could be saved. Nothing is
//! deleted or linked.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use foldhash::fast::RandomState;

use super::index::{FNV, Index, fnv};
use super::known::Known;
use super::options::{DuplicateSearch, InventoryOptions, InventoryStage};
use super::walk::{FoundFile, Kind, now};
use crate::bytes::{Access, Source, is_content_addressed};
use crate::digest::{self, Hasher};
use crate::error::{ErrorKind, Result};
use crate::model::{Model, Tensor};
use crate::ops;
use crate::progress::{Meter, Progress, Watch};

/// Models with the same content.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct DuplicateGroup {
    /// `files` if the models have the same files; `values` if only names, shapes and values of
    /// their tensors are the same.
    pub same: &'static str,
    /// The paths of the models.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::paths"))]
    pub models: Vec<PathBuf>,
    /// The bytes that could be saved: for `values`, by keeping the largest of them.
    pub bytes: u64,
    /// The ways to save space. Empty for `values`: which model to keep depends on the programs that
    /// read them.
    pub savings: Vec<Saving>,
}

/// A file that could be saved.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Saving {
    /// The action for `file`.
    pub action: Action,
    /// The file that is superfluous.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::path"))]
    pub file: PathBuf,
    /// The file with the same content that stays.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::path"))]
    pub keep: PathBuf,
    /// The bytes that it takes.
    pub bytes: u64,
}

/// A file whose content does not have the digest that a store has named it by.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct DamagedFile {
    /// The path, without links.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::path"))]
    pub path: PathBuf,
    /// The digest in the name: SHA-256, or git's SHA-1 with 40 digits.
    pub named: String,
    /// The SHA-256 of the content.
    pub sha256: String,
}

/// A way to save the space of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Action {
    /// Replace it by a hard link to the file that stays: both are on one file system.
    HardLink,
    /// Delete it, best with the program that it belongs to.
    Delete,
}

/// The positions of models with the same content.
#[derive(Debug)]
pub(super) struct Class {
    members: Vec<usize>,
    /// The first of those with the same files, for each such set.
    distinct: Vec<usize>,
}

type Identity = (u64, u64);
type Digests = HashMap<Identity, String, RandomState>;

/// The files that are the same, and those that are damaged.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    classes: Vec<Class>,
    damaged: BTreeMap<Identity, DamagedFile>,
}

/// Finds the models with the same content, as far as the options say. Digests that are computed are
/// put into the index.
pub(super) fn find(
    known: &mut [Known],
    index: &mut Index,
    options: &InventoryOptions<'_>,
) -> Result<Comparison> {
    let reads = options.duplicates != DuplicateSearch::Known;
    let mut digests = Digests::default();
    for Known { candidate, entry } in known.iter() {
        let computed = entry.digests.iter().map(Some).chain(std::iter::repeat(None));
        for (file, computed) in candidate.weights.iter().zip(computed) {
            // Names are trusted only where no weights are read, and nothing is advised.
            let named = file.digest.as_ref().filter(|_| !reads);
            if let Some(digest) = named.or(computed) {
                digests.insert(file.identity, digest.clone());
            }
        }
    }
    let mut damaged = BTreeMap::new();
    if reads {
        // Without the feature `sha256` there is no search.
        Hasher::new()?;
        hash_files(known, &mut digests, options)?;
        damaged = damaged_files(known, &digests)?;
        keep_digests(known, &digests);
    }
    let mut classes = same_files(known, &digests);
    if options.duplicates == DuplicateSearch::Values {
        classes = same_values(classes, known, &damaged, options)?;
    }
    if reads {
        put_all(known, index);
    }
    classes.sort_by_key(|class| class.members.first().copied());
    Ok(Comparison { classes, damaged })
}

impl Comparison {
    /// The damaged files, by path.
    pub(super) fn damaged(&self) -> Vec<DamagedFile> {
        let mut files: Vec<DamagedFile> = self.damaged.values().cloned().collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files
    }
}

/// Puts models with the same contents of files into one class.
fn same_files(known: &[Known], digests: &Digests) -> Vec<Class> {
    // Each content has a number: that of its digest if it is known, else that of the file.
    let mut by_digest: HashMap<&str, usize, RandomState> = HashMap::default();
    let mut by_file: HashMap<Identity, usize, RandomState> = HashMap::default();
    let mut sets: HashMap<Vec<usize>, Vec<usize>, RandomState> = HashMap::default();
    let mut classes = Vec::new();
    for (place, Known { candidate, .. }) in known.iter().enumerate() {
        let mut contents = Vec::new();
        for file in &candidate.weights {
            let next = by_digest.len() + by_file.len();
            contents.push(match digests.get(&file.identity) {
                Some(digest) => *by_digest.entry(digest).or_insert(next),
                None => *by_file.entry(file.identity).or_insert(next),
            });
        }
        contents.sort_unstable();
        match contents.is_empty() {
            // A model without weights is like no other.
            true => classes.push(vec![place]),
            false => sets.entry(contents).or_default().push(place),
        }
    }
    classes.extend(sets.into_values());
    let class = |members: Vec<usize>| {
        let distinct = members.iter().take(1).copied().collect();
        Class { members, distinct }
    };
    classes.into_iter().map(class).collect()
}

/// The models with the same content as each model.
pub(super) fn twins(known: &[Known], found: &Comparison) -> Vec<Vec<PathBuf>> {
    let mut all: Vec<Vec<PathBuf>> = known.iter().map(|_| Vec::new()).collect();
    let path = |place: usize| Some(known.get(place)?.candidate.path.clone());
    for class in &found.classes {
        for &member in &class.members {
            let others = class.members.iter().filter(|other| **other != member);
            if let Some(list) = all.get_mut(member) {
                list.extend(others.filter_map(|&other| path(other)));
            }
        }
    }
    all
}

/// The groups of models from which space can be saved. Models that already share their files are
/// left out.
pub(super) fn groups(known: &[Known], found: &Comparison) -> Vec<DuplicateGroup> {
    found.classes.iter().filter_map(|class| group(known, class, &found.damaged)).collect()
}

fn group(
    known: &[Known],
    class: &Class,
    damaged: &BTreeMap<Identity, DamagedFile>,
) -> Option<DuplicateGroup> {
    let model = |place: &usize| known.get(*place);
    let models = || class.members.iter().filter_map(model);
    let (same, bytes, savings) = match class.distinct.len() {
        0 | 1 => {
            let savings = savings(&models().collect::<Vec<_>>(), damaged);
            (
                "files",
                savings.iter().map(|saving| saving.bytes).fold(0, u64::saturating_add),
                savings,
            )
        }
        _ => {
            let mut seen = BTreeSet::new();
            let is_new = |model: &&Known| {
                model.candidate.weights.iter().any(|file| seen.insert(file.identity))
            };
            let sizes: Vec<u64> =
                models().filter(is_new).map(|model| model.candidate.bytes).collect();
            let largest = sizes.iter().copied().max().unwrap_or(0);
            let all = sizes.into_iter().fold(0, u64::saturating_add);
            ("values", all.saturating_sub(largest), Vec::new())
        }
    };
    let models = models().map(|model| model.candidate.path.clone()).collect();
    (bytes > 0).then_some(DuplicateGroup { same, models, bytes, savings })
}

/// The superfluous files of models whose files have the same contents. Of damaged files nothing is said
/// but that they are damaged.
fn savings(models: &[&Known], damaged: &BTreeMap<Identity, DamagedFile>) -> Vec<Saving> {
    // Of files with one content, those in a store that names them by it stay.
    let mut copies: BTreeMap<(u64, String), Vec<&FoundFile>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for model in models {
        // Only contents that were hashed are known to be the same.
        for (file, digest) in model.candidate.weights.iter().zip(&model.entry.digests) {
            if !damaged.contains_key(&file.identity) && seen.insert(file.identity) {
                copies.entry((file.len, digest.clone())).or_default().push(file);
            }
        }
    }
    let mut all = Vec::new();
    for ((bytes, _), files) in copies {
        let in_store = |file: &&&FoundFile| is_content_addressed(&real(&file.path));
        let Some(keep) = files.iter().find(in_store).or(files.first()) else { continue };
        for file in files.iter().filter(|file| file.identity != keep.identity) {
            let action = match on_one_file_system(file, keep) {
                true => Action::HardLink,
                false => Action::Delete,
            };
            let (file, keep) = (real(&file.path), real(&keep.path));
            all.push(Saving { action, file, keep, bytes });
        }
    }
    all
}

/// The path without links: a link itself takes no room.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

#[cfg(unix)]
fn on_one_file_system(a: &FoundFile, b: &FoundFile) -> bool {
    a.identity.0 == b.identity.0
}

#[cfg(not(unix))]
fn on_one_file_system(a: &FoundFile, b: &FoundFile) -> bool {
    real(&a.path).components().next() == real(&b.path).components().next()
}

/// Calls the callback of the options with bytes.
fn watching<'o>(
    options: &'o InventoryOptions<'_>,
) -> impl Fn(Progress) -> ControlFlow<()> + Sync + 'o {
    |progress| match options.progress {
        Some(watch) => watch(InventoryStage::Reading, progress),
        None => ControlFlow::Continue(()),
    }
}

/// Models whose files have the same lengths.
type Alike<'k> = Vec<&'k [FoundFile]>;

/// Computes the digests of files that may be copies, or damaged copies.
fn hash_files(
    known: &[Known],
    digests: &mut Digests,
    options: &InventoryOptions<'_>,
) -> Result<()> {
    let mut alike: HashMap<Vec<u64>, Alike<'_>> = HashMap::new();
    let mut seen = BTreeSet::new();
    for Known { candidate, .. } in known {
        let files = candidate.weights.as_slice();
        let identities: Vec<Identity> = files.iter().map(|file| file.identity).collect();
        if !files.is_empty() && seen.insert(identities) {
            let mut lens: Vec<u64> = files.iter().map(|file| file.len).collect();
            lens.sort_unstable();
            alike.entry(lens).or_default().push(files);
        }
    }
    let lacks = |files: &&[FoundFile]| files.iter().any(|f| !digests.contains_key(&f.identity));
    alike.retain(|_, models| models.len() > 1 && models.iter().any(lacks));
    let mut missing: BTreeMap<Identity, &FoundFile> = BTreeMap::new();
    for models in alike.into_values() {
        for file in comparable(models, options)?.into_iter().flatten() {
            if !digests.contains_key(&file.identity) {
                missing.insert(file.identity, file);
            }
        }
    }
    let total = missing.values().map(|file| file.len).fold(0, u64::saturating_add);
    let watch = watching(options);
    let meter = Meter::new(total, Watch(Some(&watch)));
    let hash = |(): &mut (), file: &FoundFile| {
        let hashed = Source::open(&file.path, Access::Read)
            .and_then(|source| digest::sha256_with(&source, |bytes| meter.add(bytes)));
        readable(hashed).map(|digest| Some((file.identity, digest?)))
    };
    let hashed = options.threads.in_order(
        missing.into_values().collect::<Vec<_>>().into_iter(),
        || (),
        hash,
    )?;
    digests.extend(hashed.into_iter().flatten());
    Ok(())
}

/// The models, among those with files of the same lengths, that must be read to be compared: those with the
/// same bytes in some places, and those in a store of which another one may be a damaged copy, or which may
/// be damaged themselves. Two models that a store names by different digests, and that have different bytes,
/// are different.
fn comparable<'k>(models: Alike<'k>, options: &InventoryOptions<'_>) -> Result<Alike<'k>> {
    let probe = |(): &mut (), files: &&[FoundFile]| Ok(samples(files));
    let samples = options.threads.in_order(models.iter(), || (), probe)?;
    let names: Vec<Option<Vec<&String>>> = models.iter().map(|files| names(files)).collect();
    let mut by_sample: HashMap<u64, usize> = HashMap::new();
    let mut by_name: HashMap<&Option<Vec<&String>>, usize> = HashMap::new();
    for (sample, name) in samples.iter().zip(&names) {
        *by_sample.entry(*sample).or_default() += 1;
        *by_name.entry(name).or_default() += 1;
    }
    let has_unnamed = by_name.contains_key(&None);
    let several = |count: Option<&usize>| count.is_some_and(|count| *count > 1);
    let must_be_read = samples.iter().zip(&names).map(|(sample, name)| {
        let may_be_damaged = name.is_some() && (has_unnamed || several(by_name.get(name)));
        several(by_sample.get(sample)) || may_be_damaged
    });
    let chosen = models.iter().zip(must_be_read).filter(|(_, read)| *read);
    Ok(chosen.map(|(files, _)| *files).collect())
}

/// The digests that a store names the files by, sorted; `None` if it does not name all.
fn names(files: &[FoundFile]) -> Option<Vec<&String>> {
    let mut names: Vec<&String> =
        files.iter().map(|file| file.digest.as_ref()).collect::<Option<_>>()?;
    names.sort_unstable();
    Some(names)
}

/// The files whose content does not have the digest in their name.
fn damaged_files(known: &[Known], digests: &Digests) -> Result<BTreeMap<Identity, DamagedFile>> {
    let mut damaged = BTreeMap::new();
    for file in known.iter().flat_map(|known| &known.candidate.weights) {
        let (Some(named), Some(sha256)) = (&file.digest, digests.get(&file.identity)) else {
            continue;
        };
        if !has_digest(file, named, sha256)? {
            let (path, named, sha256) = (real(&file.path), named.clone(), sha256.clone());
            damaged.insert(file.identity, DamagedFile { path, named, sha256 });
        }
    }
    Ok(damaged)
}

/// Whether a file with this SHA-256 has the digest that it is named by. Without the feature `http`, git's
/// digests are not checked.
fn has_digest(file: &FoundFile, named: &str, sha256: &str) -> Result<bool> {
    /// The digits of a SHA-1.
    const GIT: usize = 40;
    if named.len() != GIT {
        return Ok(named == sha256);
    }
    #[cfg(feature = "http")]
    {
        let digest = digest::FileDigest::GitBlob(named.to_owned());
        let checked = Source::open(&file.path, Access::Read)
            .and_then(|source| digest.check(&source, |_| Ok(())));
        Ok(readable(checked)?.is_some())
    }
    #[cfg(not(feature = "http"))]
    {
        let _ = file;
        Ok(true)
    }
}

/// `None` for a file that cannot be read: it is no duplicate of any other.
fn readable<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::Cancelled => Err(error),
        Err(_) => Ok(None),
    }
}

/// A hash of some bytes of each file: different files rarely have the same.
fn samples(files: &[FoundFile]) -> u64 {
    const PIECE: u64 = 4096;
    let mut order: Vec<&FoundFile> = files.iter().collect();
    order.sort_by_key(|file| file.len);
    let mut parts: Vec<u64> = Vec::new();
    for file in order {
        let mut hash = fnv(FNV, &file.len.to_le_bytes());
        if let Ok(source) = Source::open(&file.path, Access::Read) {
            let len = source.len();
            for start in [0, len / 2, len.saturating_sub(PIECE)] {
                let end = start.saturating_add(PIECE).min(len);
                hash = source.bytes(start..end).map_or(hash, |bytes| fnv(hash, &bytes));
            }
        }
        parts.push(hash);
    }
    // Files of one length may stand in any order.
    parts.sort_unstable();
    parts.iter().fold(FNV, |hash, part| fnv(hash, &part.to_le_bytes()))
}

/// Notes the digests of models of which all files have one.
fn keep_digests(known: &mut [Known], digests: &Digests) {
    for Known { candidate, entry } in known {
        let files = candidate.weights.iter();
        let all: Option<Vec<String>> =
            files.map(|file| digests.get(&file.identity).cloned()).collect();
        if let Some(all) = all {
            entry.digests = all;
        }
    }
}

/// Puts what is known of all models into the index. That their weights were read for it is no use of
/// theirs.
fn put_all(known: &mut [Known], index: &mut Index) {
    let now = now();
    for Known { candidate, entry } in known {
        if entry.tensors > 0 {
            (entry.looked, entry.seen) = (now, now);
            (entry.stamp, entry.used) = (candidate.stamp, candidate.last_used);
            index.put(&candidate.path, entry.clone());
        }
    }
}

/// Joins classes whose models have the same canonical names, shapes and values.
fn same_values(
    classes: Vec<Class>,
    known: &mut [Known],
    damaged: &BTreeMap<Identity, DamagedFile>,
    options: &InventoryOptions<'_>,
) -> Result<Vec<Class>> {
    let firsts: Vec<usize> =
        classes.iter().filter_map(|class| class.distinct.first().copied()).collect();
    digest_values(&firsts, known, options)?;
    let mut joined: BTreeMap<String, Class> = BTreeMap::new();
    let mut alone = Vec::new();
    for class in classes {
        let first = class.distinct.first().and_then(|first| known.get(*first));
        let is_whole = |model: &&Known| {
            model.candidate.weights.iter().all(|file| !damaged.contains_key(&file.identity))
        };
        let values = first.filter(is_whole).and_then(|model| model.entry.values.clone());
        match values.filter(|values| values.len() > SHAPES) {
            None => alone.push(class),
            Some(values) => {
                let empty = || Class { members: Vec::new(), distinct: Vec::new() };
                let all = joined.entry(values).or_insert_with(empty);
                all.members.extend(class.members);
                all.distinct.extend(class.distinct);
            }
        }
    }
    let joined = joined.into_values().map(|mut class| {
        class.members.sort_unstable();
        class.distinct.sort_unstable();
        class
    });
    Ok(joined.chain(alone).collect())
}

/// The digits of the hash of names and shapes, which stand before the digest of values.
const SHAPES: usize = 16;

/// Computes the digests of values of models that may be equal: those with the same canonical names
/// and shapes, and the same values in one small matrix.
fn digest_values(
    places: &[usize],
    known: &mut [Known],
    options: &InventoryOptions<'_>,
) -> Result<()> {
    let models: &[Known] = known;
    let can_open = |place: &usize| {
        let model = models.get(*place)?;
        let is_whole = model.entry.error.is_none() && model.candidate.kind != Kind::Weightless;
        (is_whole && model.entry.values.as_deref() != Some("")).then_some((*place, model))
    };
    let open = |(): &mut (), (_, model): &(usize, &Known)| {
        let opened = readable(Model::open(&model.candidate.path)).ok().flatten();
        let tensors = opened.as_ref().and_then(tensors);
        Ok(tensors.map(|tensors| (shapes(&tensors), tensors)))
    };
    let wanted: Vec<(usize, &Known)> = places.iter().filter_map(can_open).collect();
    let opened = options.threads.in_order(wanted.iter(), || (), open)?;
    let mut nameless = Vec::new();
    /// A model, its place in the list, and its tensors.
    type Opened<'k> = (usize, &'k Known, Vec<Tensor>);
    let mut alike: BTreeMap<u64, Vec<Opened<'_>>> = BTreeMap::new();
    for ((place, model), tensors) in wanted.into_iter().zip(opened) {
        match tensors {
            Some((shapes, tensors)) => {
                alike.entry(shapes).or_default().push((place, model, tensors));
            }
            None => nameless.push((place, String::new())),
        }
    }
    let quiet = Meter::new(0, Watch::default());
    let mut wanted = Vec::new();
    for (shapes, models) in alike.into_iter().filter(|(_, models)| models.len() > 1) {
        if models.iter().all(|(_, model, _)| model.entry.values.is_some()) {
            continue;
        }
        let probe = |(): &mut (), (place, model, tensors): (usize, &'_ Known, Vec<Tensor>)| {
            let matrices = tensors.iter().filter(|tensor| tensor.shape().len() > 1);
            let small = matrices.min_by_key(|tensor| tensor.stored_bytes()).or(tensors.first());
            let sample = small.map(|tensor| ops::values_sha256(tensor, &quiet)).transpose();
            Ok((readable(sample)?.flatten(), place, model.entry.values.is_some(), tensors))
        };
        let probed = options.threads.in_order(models.into_iter(), || (), probe)?;
        let mut same: BTreeMap<String, Vec<(usize, bool, Vec<Tensor>)>> = BTreeMap::new();
        for (sample, place, is_known, tensors) in probed {
            same.entry(sample.unwrap_or_default()).or_default().push((place, is_known, tensors));
        }
        for models in same.into_values().filter(|models| models.len() > 1) {
            let missing = models.into_iter().filter(|(_, is_known, _)| !is_known);
            wanted.extend(missing.map(|(place, _, tensors)| (place, shapes, tensors)));
        }
    }
    let bytes = |(_, _, tensors): &(usize, u64, Vec<Tensor>)| {
        tensors.iter().map(Tensor::stored_bytes).fold(0, u64::saturating_add)
    };
    let total = wanted.iter().map(bytes).fold(0, u64::saturating_add);
    let watch = watching(options);
    let meter = Meter::new(total, Watch(Some(&watch)));
    let digest = |(): &mut (), (place, shapes, tensors): (usize, u64, Vec<Tensor>)| {
        let digest = readable(digest_of(&tensors, &meter))?;
        Ok(digest.map(|digest| (place, format!("{shapes:0SHAPES$x}{digest}"))))
    };
    let found = options.threads.in_order(wanted.into_iter(), || (), digest)?;
    for (place, values) in found.into_iter().flatten().chain(nameless) {
        if let Some(model) = known.get_mut(place) {
            model.entry.values = Some(values);
        }
    }
    Ok(())
}

/// The tensors by canonical name, sorted; `None` if the model has no such names.
fn tensors(model: &Model) -> Option<Vec<Tensor>> {
    let mut all: Vec<Tensor> = model.tensors().ok()?.collect::<Result<_>>().ok()?;
    all.sort_by(|a, b| a.name().cmp(b.name()));
    (!all.is_empty()).then_some(all)
}

/// A hash of names and shapes.
fn shapes(tensors: &[Tensor]) -> u64 {
    let of_tensor = |hash: u64, tensor: &Tensor| {
        let dims = tensor.shape().iter().flat_map(|dim| dim.to_le_bytes()).collect::<Vec<u8>>();
        fnv(fnv(fnv(hash, tensor.name().as_bytes()), &[0]), &dims)
    };
    tensors.iter().fold(FNV, of_tensor)
}

/// The digest of names, shapes and values.
fn digest_of(tensors: &[Tensor], meter: &Meter<'_>) -> Result<String> {
    let mut whole = Hasher::new()?;
    for tensor in tensors {
        let values = ops::values_sha256(tensor, meter)?;
        whole.update(format!("{} {:?} {values}\n", tensor.name(), tensor.shape()).as_bytes());
    }
    Ok(whole.finish())
}
