//! Records of the slices that are done, and how much of a plan they are.

use std::ops::Range;
use std::path::Path;

use serde_json::{Value as Json, json};

use super::description::array;
use super::{RECORDS, SlicesStatus};
use crate::bytes::{Access, Source};
use crate::error::{Error, Result};

/// The record of a slice that is done.
pub(super) struct SliceRecord {
    pub(super) name: String,
    pub(super) pieces: Range<u64>,
    /// The digest of its pieces' digests.
    pub(super) sha256: String,
    /// In an object store: the tags of the parts, in the order of the pieces.
    pub(super) tags: Vec<String>,
}

impl SliceRecord {
    /// The name of the record's file.
    pub(super) fn file_name(pieces: &Range<u64>) -> String {
        format!("{}-{}.json", pieces.start, pieces.end)
    }

    pub(super) fn to_json(&self) -> String {
        let json = json!({
            "slice": self.name,
            "first": self.pieces.start,
            "end": self.pieces.end,
            "sha256": self.sha256,
            "tags": self.tags,
        });
        json.to_string()
    }

    /// Reads a record.
    ///
    /// # Errors
    ///
    /// `Malformed` for other bytes.
    pub(super) fn parse(bytes: &[u8], path: &Path) -> Result<Self> {
        let json: Option<Json> = serde_json::from_slice(bytes).ok();
        let record = json.as_ref().and_then(|json| {
            let tags = array(json, "tags").iter().map(|tag| tag.as_str().map(str::to_owned));
            Some(Self {
                name: json["slice"].as_str()?.to_owned(),
                pieces: json["first"].as_u64()?..json["end"].as_u64()?,
                sha256: json["sha256"].as_str()?.to_owned(),
                tags: tags.collect::<Option<_>>()?,
            })
        });
        record.ok_or_else(|| {
            Error::malformed("no record of a slice").advise("delete it").in_file(path)
        })
    }
}

/// How much is done by slices with these records.
pub(super) fn status_of(records: Vec<SliceRecord>, pieces: u64, finished: bool) -> SlicesStatus {
    let missing = missing(&records, pieces);
    let left: u64 = missing.iter().map(|range| range.end - range.start).sum();
    SlicesStatus {
        pieces,
        done: pieces.saturating_sub(left),
        missing,
        slices: records.into_iter().map(|record| record.name).collect(),
        finished,
    }
}

/// The records in a folder, in the order of their pieces.
pub(super) fn records(folder: &Path) -> Result<Vec<SliceRecord>> {
    let folder = folder.join(RECORDS);
    let failed = |error| Error::io("cannot read the records of slices", error).in_file(&folder);
    let mut records = Vec::new();
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(records),
        Err(error) => return Err(failed(error)),
    };
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_none_or(|ending| ending != "json") {
            continue;
        }
        let text = Source::open(&path, Access::Read)?;
        let text = text.bytes(0..text.len())?;
        records.push(SliceRecord::parse(&text, &path)?);
    }
    records.sort_by_key(|record| (record.pieces.start, record.pieces.end));
    Ok(records)
}

/// The pieces that no record has.
pub(super) fn missing(records: &[SliceRecord], pieces: u64) -> Vec<Range<u64>> {
    let mut missing = Vec::new();
    let mut end = 0;
    for record in records {
        if record.pieces.start > end {
            missing.push(end..record.pieces.start);
        }
        end = end.max(record.pieces.end);
    }
    if end < pieces {
        missing.push(end..pieces);
    }
    missing
}
