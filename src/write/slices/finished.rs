//! The record that a finished plan leaves: which files it has put into place, and how to tell that they are
//! still the same.
//!
//! A file whose length and times are those of the record is not read. If its times differ, as after it was
//! copied, its content is compared with the checksum. Objects in a store are compared by length and ETag.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::cut::SlicesStatus;
use super::description::array;
use super::layout::PIECE;
use super::records::{Checksum, SliceRecord, missing};
use crate::bytes::{Access, Source, Text};
use crate::error::{Error, Result};
use crate::json::{Json, json};
use crate::threads::Threads;

/// The state of a plan, by its record.
#[derive(Debug)]
pub(super) enum FinishedState {
    /// There is no record of this plan.
    Unknown,
    /// Its files are in their places.
    Finished,
    /// This file is gone, or is not the one that the plan wrote.
    Changed(PathBuf),
}

/// A file that is in its place.
pub(super) struct FinishedFile {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    /// A version that changes whenever the file does: times, or the version in a store.
    pub(super) version: Option<String>,
    /// The checksum of its content, unless it is in a store.
    pub(super) checksum: Option<Checksum>,
}

impl FinishedFile {
    /// A file on this machine, of which the checksum is known.
    pub(super) fn new(path: PathBuf, checksum: Checksum) -> Result<Self> {
        let failed = |error| Error::io("cannot read the file", error).in_file(&path);
        let metadata = path.metadata().map_err(failed)?;
        let (bytes, version) = (metadata.len(), times(&metadata));
        Ok(Self { path, bytes, version, checksum: Some(checksum) })
    }

    fn to_json(&self) -> Json {
        json!({
            "path": Text::from_path(&self.path).spelling(),
            "bytes": self.bytes,
            "version": self.version,
            "xxh3_128": self.checksum.map(|checksum| checksum.to_string()),
        })
    }

    fn parse(json: &Json) -> Option<Self> {
        let text = |name: &str| json[name].as_str().map(str::to_owned);
        let checksum = text("xxh3_128").map(|text| text.parse()).transpose().ok()?;
        let (path, bytes) = (PathBuf::from(text("path")?), json["bytes"].as_u64()?);
        Some(Self { path, bytes, version: text("version"), checksum })
    }

    /// Whether the file on this machine is still the same.
    pub(super) fn is_same(&self) -> Result<bool> {
        let Ok(metadata) = self.path.metadata() else { return Ok(false) };
        if !metadata.is_file() || metadata.len() != self.bytes {
            return Ok(false);
        }
        let same_times = self.version.is_some() && times(&metadata) == self.version;
        Ok(same_times
            || Some(checksum(&self.path, Threads::default(), |_| Ok(()))?) == self.checksum)
    }
}

/// The JSON of a record.
pub(super) fn record_of(digest: &str, files: &[FinishedFile]) -> String {
    let files: Vec<Json> = files.iter().map(FinishedFile::to_json).collect();
    json!({ "plan_sha256": digest, "files": files }).to_string()
}

/// Reads a record, and compares each file with it.
///
/// # Errors
///
/// `Io` if the record, or a file, exists and cannot be read; errors of `is_same`.
pub(super) fn state(
    record: &Path,
    digest: &str,
    is_same: impl Fn(&FinishedFile) -> Result<bool>,
) -> Result<FinishedState> {
    if !record.exists() {
        return Ok(FinishedState::Unknown);
    }
    let text = Source::open(record, Access::Read)?;
    let text = text.bytes(0..text.len())?;
    // A record that cannot be parsed, and that of another plan, say nothing about this one.
    let json: Json = Json::parse(&text).unwrap_or_default();
    let files: Option<Vec<FinishedFile>> =
        array(&json, "files").iter().map(FinishedFile::parse).collect();
    let is_of_plan = json.get("plan_sha256").is_some_and(|recorded| *recorded == digest);
    let Some(files) = files.filter(|files| is_of_plan && !files.is_empty()) else {
        return Ok(FinishedState::Unknown);
    };
    for file in files {
        if !is_same(&file)? {
            return Ok(FinishedState::Changed(file.path));
        }
    }
    Ok(FinishedState::Finished)
}

/// The progress of a plan, by the records of its slices.
pub(super) fn status_of(
    records: Vec<SliceRecord>,
    pieces: u64,
    state: FinishedState,
) -> SlicesStatus {
    let missing = missing(&records, pieces);
    let left: u64 = missing.iter().map(|range| range.end - range.start).sum();
    SlicesStatus {
        pieces,
        done: pieces.saturating_sub(left),
        missing,
        slices: records.into_iter().map(|record| record.name).collect(),
        finished: matches!(state, FinishedState::Finished),
        changed: match state {
            FinishedState::Changed(path) => Some(Text::from_path(&path).spelling().into_owned()),
            FinishedState::Unknown | FinishedState::Finished => None,
        },
    }
}

/// The checksum of a file: that of the checksums of its blocks, which threads share. `progress` is called with
/// the bytes of each block; its errors end the work.
pub(super) fn checksum(
    path: &Path,
    threads: Threads,
    progress: impl Fn(u64) -> Result<()> + Sync,
) -> Result<Checksum> {
    let source = Source::open(path, Access::Read)?;
    let len = source.len();
    let of_block = |(): &mut (), block: usize| {
        let start = (block as u64).saturating_mul(PIECE);
        let bytes = source.bytes(start..start.saturating_add(PIECE).min(len))?;
        progress(bytes.len() as u64)?;
        Ok(Checksum::of(&bytes))
    };
    let blocks = usize::try_from(len.div_ceil(PIECE)).unwrap_or(usize::MAX);
    let blocks = threads.in_order(0..blocks, || (), of_block)?;
    Ok(Checksum::of_all(&blocks))
}

/// When a file was changed: its content, and where the system says so, anything about it.
fn times(metadata: &Metadata) -> Option<String> {
    let modified = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let modified = format!("{}.{:09}", modified.as_secs(), modified.subsec_nanos());
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        Some(format!("{modified} {}.{:09}", metadata.ctime(), metadata.ctime_nsec()))
    }
    #[cfg(not(unix))]
    Some(modified)
}
