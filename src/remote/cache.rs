//! Starts of remote files on this machine's disk, so that a model that was looked at once is opened
//! with one request for each file, and without any when offline.
//!
//! An entry is a file: a line of JSON (address, size, marks of the version), then the bytes. It is
//! named by the SHA-256 of the address and replaced as a whole.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::Network;
use crate::bytes::{Access, Source, put};
use crate::digest;
use crate::error::{Error, Result};
use crate::json::{Json, json};

/// The size at which the oldest entries are removed.
const MOST: u64 = 1 << 30;

/// Larger starts are not kept.
const LARGEST: usize = 64 << 20;

/// By what a file is known to be the same.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Version {
    pub(crate) size: u64,
    /// The server's strong `ETag`.
    pub(super) tag: Option<String>,
    pub(super) modified: Option<String>,
}

impl Version {
    /// A mark that distinguishes versions of the same length, if the server states one.
    pub(crate) fn mark(&self) -> Option<&str> {
        self.tag.as_deref().or(self.modified.as_deref())
    }

    /// Whether two answers are about the same file. Different servers of a network may leave out
    /// either mark.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let differs = |a: &Option<String>, b: &Option<String>| {
            a.as_ref().zip(b.as_ref()).map(|(a, b)| a != b)
        };
        let tags = differs(&self.tag, &other.tag);
        self.size == other.size
            && !tags.or_else(|| differs(&self.modified, &other.modified)).unwrap_or(false)
    }
}

/// The start of a file, as an earlier run fetched it.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) version: Version,
    pub(super) start: Vec<u8>,
}

fn place(network: &Network, address: &str) -> Result<Option<PathBuf>> {
    // A signature changes with each run, and belongs in no file.
    let Some(folder) = network.cache.as_ref().filter(|_| !address.contains('?')) else {
        return Ok(None);
    };
    Ok(Some(folder.join("headers").join(digest::sha256_of(address.as_bytes())?)))
}

/// The entry of an address. One that cannot be read counts as none.
pub(super) fn read(network: &Network, address: &str) -> Result<Option<Kept>> {
    let Some(path) = place(network, address)? else { return Ok(None) };
    let kept = || {
        let source = Source::open(&path, Access::Read).ok()?;
        let small = source.len() <= (LARGEST + (64 << 10)) as u64;
        let entry = small.then(|| source.bytes(0..source.len()).ok()).flatten()?;
        parse(&entry, address)
    };
    Ok(kept())
}

fn parse(entry: &[u8], address: &str) -> Option<Kept> {
    let end = entry.iter().position(|&byte| byte == b'\n')?;
    let json = Json::parse(entry.get(..end)?).ok()?;
    let text = |key: &str| json.get(key).and_then(Json::as_str).map(str::to_owned);
    let start = entry.get(end + 1..)?.to_vec();
    let version =
        Version { size: json.get("size")?.as_u64()?, tag: text("tag"), modified: text("modified") };
    let whole = json.get("kept")?.as_u64()? == start.len() as u64
        && start.len() as u64 <= version.size
        && text("address")? == address;
    whole.then_some(Kept { version, start })
}

/// Writes an entry, and removes old ones if there are too many.
///
/// # Errors
///
/// `Io` if the folder cannot be written.
pub(super) fn write(
    network: &Network,
    address: &str,
    version: &Version,
    start: &[u8],
) -> Result<()> {
    let Some(path) = place(network, address)? else { return Ok(()) };
    let Some(folder) = path.parent().filter(|_| start.len() <= LARGEST) else { return Ok(()) };
    let cannot = |error| Error::io("cannot write to the cache", error).in_file(&path);
    std::fs::create_dir_all(folder).map_err(cannot)?;
    let head = json!({
        "address": address, "size": version.size, "tag": version.tag, "modified": version.modified,
        "kept": start.len(),
    });
    put(&path, &[format!("{head}\n").as_bytes(), start]).map_err(cannot)?;
    trim(folder);
    Ok(())
}

/// Removes the entries that were written longest ago, until the rest takes half of the room.
fn trim(folder: &Path) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<(SystemTime, u64, PathBuf)> = entries
        .filter_map(|entry| {
            let metadata = entry.metadata().ok()?;
            Some((metadata.modified().ok()?, metadata.len(), entry.path()))
        })
        .collect();
    let mut total: u64 = found.iter().map(|entry| entry.1).sum();
    if total <= MOST {
        return;
    }
    found.sort();
    for (_, len, path) in found {
        if total <= MOST / 2 {
            break;
        }
        if std::fs::remove_file(path).is_ok() {
            total = total.saturating_sub(len);
        }
    }
}
