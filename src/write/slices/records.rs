//! Records of the slices that are done, and how much of a plan they are.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;

use super::description::array;
use super::layout::RECORDS;
use crate::bytes::{Access, Source};
use crate::error::{Error, Result};
use crate::json::{Json, json};

/// XXH3 of 128 bits, <https://xxhash.com>. It finds bytes that a disk or a network lost, at the speed of
/// memory. A worker could forge it, but a worker is trusted with the bytes too.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Checksum(pub(super) u128);

impl Checksum {
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self(xxhash_rust::xxh3::xxh3_128(bytes))
    }

    /// The checksum of pieces by theirs.
    pub(super) fn of_all(pieces: &[Self]) -> Self {
        let bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.0.to_le_bytes()).collect();
        Self::of(&bytes)
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for Checksum {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        u128::from_str_radix(text, 16).map(Self)
    }
}

/// The record of a slice that is done.
pub(super) struct SliceRecord {
    pub(super) name: String,
    pub(super) pieces: Range<u64>,
    pub(super) checksum: Checksum,
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
            "xxh3_128": self.checksum.to_string(),
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
        let json = Json::parse(bytes).ok();
        let record = json.as_ref().and_then(|json| {
            let tags = array(json, "tags").iter().map(|tag| tag.as_str().map(str::to_owned));
            Some(Self {
                name: json["slice"].as_str()?.to_owned(),
                pieces: json["first"].as_u64()?..json["end"].as_u64()?,
                checksum: json["xxh3_128"].as_str()?.parse().ok()?,
                tags: tags.collect::<Option<_>>()?,
            })
        });
        record.ok_or_else(|| {
            Error::malformed("no record of a slice").advise("delete it").in_file(path)
        })
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
