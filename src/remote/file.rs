//! A file on a server, read in ranges.

use std::collections::HashMap;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::cache::{self, Version};
use super::client::{Answer, Client, refused};
use crate::bytes::{ReadAt, Source, try_vec, try_zeroed};
use crate::digest;
use crate::error::{Error, ErrorKind, Result};

/// The most bytes that are kept of the start of a file: more than any header.
const MOST_KEPT: u64 = 128 << 20;

/// An answer that breaks off before it has sent so many bytes is a failure.
const LEAST: usize = 64 << 10;

/// A file of at most this length may come whole, from a server that does not send ranges.
const WHOLE: u64 = 32 << 20;

/// A file on a server, and the bytes of its start that were fetched.
#[derive(Debug)]
pub(super) struct RemoteFile {
    client: Arc<Client>,
    address: String,
    /// Where a redirect led: later requests start there.
    direct: RwLock<Option<String>>,
    version: Version,
    start: Mutex<Vec<u8>>,
    growth: Growth,
    /// Whether the header is still being read.
    opening: AtomicBool,
}

/// The files that were opened, and the addresses at which there is none: neither is fetched twice.
#[derive(Debug)]
pub(super) struct RemoteFiles {
    pub(super) client: Arc<Client>,
    known: Mutex<HashMap<String, Option<Arc<RemoteFile>>>>,
}

impl RemoteFiles {
    pub(super) fn new(client: &Arc<Client>) -> Self {
        Self { client: Arc::clone(client), known: Mutex::default() }
    }

    /// Opens a file. `digest` is its SHA-256, if it is known.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Io` if the server cannot be reached or refuses access; `Unsupported` if it
    /// does not send ranges of a large file.
    pub(super) fn open(&self, address: &str, path: &Path, digest: Option<&str>) -> Result<Source> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known().get(address).cloned();
        let file = match found {
            Some(Some(file)) => file,
            Some(None) => return Err(refused(404).in_file(path)),
            None => {
                let opened = RemoteFile::open(&self.client, address, path, digest).map(Arc::new);
                match &opened {
                    Ok(file) => known().insert(address.to_owned(), Some(Arc::clone(file))),
                    Err(error) if error.kind() == ErrorKind::NotFound => {
                        known().insert(address.to_owned(), None)
                    }
                    Err(_) => None,
                };
                opened.map_err(|error| error.in_file(path))?
            }
        };
        Ok(Source::custom(path, Shared(file)))
    }
}

/// One file, also if it is opened several times.
#[derive(Debug)]
struct Shared(Arc<RemoteFile>);

impl ReadAt for Shared {
    fn size(&self) -> u64 {
        self.0.version.size
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.0.read_at(offset, out).map_err(std::io::Error::other)
    }

    fn opened(&self) {
        self.0.opened();
    }
}

/// The version of the file that an answer is about.
fn version(answer: &Answer, size: u64) -> Version {
    // A weak tag says that the content means the same, not that its bytes are.
    let tag = answer.header("etag").filter(|tag| !tag.starts_with("W/"));
    let modified = answer.header("last-modified");
    Version { size, tag: tag.map(str::to_owned), modified: modified.map(str::to_owned) }
}

/// How much of a file's start is fetched in the first, second, third request. Later ones double.
#[derive(Clone, Copy, Debug)]
struct Growth(&'static [u64]);

impl Growth {
    /// The start of a safetensors file says how long its header is. GGUF does not: a vocabulary
    /// takes up to 10 MB. Documents are read whole.
    fn of(path: &Path) -> Self {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        match ending.to_ascii_lowercase().as_str() {
            "safetensors" => Self(&[1 << 10]),
            "json" | "jinja" | "txt" | "md" | "model" => Self(&[64 << 10, WHOLE]),
            _ => Self(&[32 << 10, 512 << 10, 4 << 20, 16 << 20]),
        }
    }

    fn first(self) -> u64 {
        self.0.first().copied().unwrap_or(1 << 10)
    }

    /// The end of the next piece, if `have` bytes are there and `end` are needed.
    fn next(self, have: u64, end: u64) -> u64 {
        self.0.iter().copied().find(|&step| step > have && step >= end).unwrap_or(end)
    }
}

impl RemoteFile {
    /// Opens a file by fetching its start.
    fn open(
        client: &Arc<Client>,
        address: &str,
        path: &Path,
        digest: Option<&str>,
    ) -> Result<Self> {
        let growth = Growth::of(path);
        let made = |version, start, direct| Self {
            client: Arc::clone(client),
            address: address.to_owned(),
            direct: RwLock::new(direct),
            version,
            start: Mutex::new(start),
            growth,
            opening: AtomicBool::new(true),
        };
        if client.network.offline {
            let kept = cache::read(&client.network, address)?.ok_or_else(|| {
                let fault = "not kept from an earlier run, and this run is offline";
                Error::not_found(fault).advise("leave out --offline, or unset HF_HUB_OFFLINE")
            })?;
            return Ok(made(kept.version, kept.start, None));
        }
        let mut answer = client.get(address, Some(&(0..growth.first())))?;
        let direct = (answer.address != address).then(|| answer.address.clone());
        let (size, len) = match answer.status {
            206 => {
                let (range, size) = sent(&answer)?;
                let expected = 0..growth.first().min(size);
                if range != expected {
                    return Err(wrong_range(&range, &expected));
                }
                (size, expected.end)
            }
            200 => whole(&answer)?,
            // Of an empty file, no range can be sent.
            416 if answer.header("content-range").is_some_and(|range| range == "bytes */0") => {
                (0, 0)
            }
            status => return Err(refused(status)),
        };
        plain(&answer)?;
        let found = version(&answer, size);
        let mut start = try_zeroed(usize::try_from(len).unwrap_or(usize::MAX))?;
        let got = fill(&mut answer, &mut start);
        start.truncate(got);
        drop(answer);
        let file = made(found, start, direct);
        if let Some(kept) = cache::read(&client.network, address)?
            && kept.version == file.version
            && (kept.start.len() as u64) > len
        {
            *file.held() = kept.start;
        }
        // What a broken connection left out.
        file.grow(&mut file.held(), len)?;
        if let Some(digest) = digest.filter(|_| len == size) {
            let found = digest::sha256_of(&file.held())?;
            if !found.eq_ignore_ascii_case(digest) {
                let fault = format!("the server sent bytes of SHA-256 {found}, not {digest}");
                return Err(Error::malformed(fault).advise("try again later"));
            }
        }
        file.keep();
        Ok(file)
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.start.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the start to the cache. A cache that cannot be written is no error.
    fn keep(&self) {
        let _ = cache::write(&self.client.network, &self.address, &self.version, &self.held());
    }

    /// Fetches the start up to `end`.
    fn grow(&self, start: &mut Vec<u8>, end: u64) -> Result<()> {
        let have = start.len() as u64;
        if end <= have {
            return Ok(());
        }
        let len = usize::try_from(end).unwrap_or(usize::MAX);
        let mut more = try_vec(len)?;
        more.extend_from_slice(start);
        more.resize(len, 0);
        if let Some(rest) = more.get_mut(start.len()..) {
            self.fetch_range(have, rest)?;
        }
        *start = more;
        Ok(())
    }

    /// Fetches a range. A connection that breaks is continued where it broke.
    fn fetch_range(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let mut filled = 0;
        let mut failures = 0;
        while let Some(rest) = out.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let at = offset.saturating_add(filled as u64);
            let wanted = at..at.saturating_add(rest.len() as u64);
            let mut answer = self.ask(&wanted)?;
            plain(&answer)?;
            let size = match answer.status {
                206 => {
                    let (range, size) = sent(&answer)?;
                    // A server may send less than was asked for.
                    if range.start != wanted.start || range.end > wanted.end || range.is_empty() {
                        return Err(wrong_range(&range, &wanted));
                    }
                    size
                }
                200 if at == 0 => answer.number("content-length").unwrap_or(self.version.size),
                200 => return Err(no_ranges()),
                416 => return Err(changed()),
                status => return Err(refused(status)),
            };
            if !self.version.is_same(&version(&answer, size)) {
                return Err(changed());
            }
            let got = fill(&mut answer, rest);
            filled += got;
            // A server that sends a few bytes at a time would be followed for hours.
            failures = if got < LEAST { failures + 1 } else { 0 };
            if filled < out.len() && failures >= self.client.network.attempts.max(1) {
                let fault = "the server breaks off the connection before it sends the bytes";
                return Err(Error::new(ErrorKind::Io, fault).advise("try again later"));
            }
        }
        Ok(())
    }

    /// Requests a range, where a redirect led before if that still works.
    fn ask(&self, range: &Range<u64>) -> Result<Answer> {
        let direct = self.direct.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(direct) = direct {
            let answer = self.client.get(&direct, Some(range))?;
            if !matches!(answer.status, 400 | 401 | 403 | 404 | 410) {
                return Ok(answer);
            }
        }
        let answer = self.client.get(&self.address, Some(range))?;
        let direct = (answer.address != self.address).then(|| answer.address.clone());
        *self.direct.write().unwrap_or_else(PoisonError::into_inner) = direct;
        Ok(answer)
    }
}

impl RemoteFile {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let end = offset.saturating_add(out.len() as u64);
        let mut start = self.held();
        let have = start.len() as u64;
        let continues = offset <= have && end > have && end <= MOST_KEPT;
        if continues && self.opening.load(Ordering::Relaxed) {
            let next = self.growth.next(have, end).min(self.version.size);
            self.grow(&mut start, next)?;
            // A document is whole now; a header is kept when it has been read.
            if next == self.version.size {
                drop(start);
                self.keep();
                start = self.held();
            }
        }
        let range = usize::try_from(offset).ok().zip(usize::try_from(end).ok());
        if let Some(held) = range.and_then(|(from, to)| start.get(from..to)) {
            out.copy_from_slice(held);
            return Ok(());
        }
        drop(start);
        self.fetch_range(offset, out)
    }

    fn opened(&self) {
        if self.opening.swap(false, Ordering::Relaxed) {
            self.keep();
            let mut start = self.held();
            // The header is held by who parsed it.
            if (start.len() as u64) < self.version.size {
                *start = Vec::new();
            }
        }
    }
}

/// Reads as much of an answer as comes.
fn fill(answer: &mut Answer, out: &mut [u8]) -> usize {
    let mut reader = answer.reader();
    let mut filled = 0;
    while let Some(rest) = out.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match reader.read(rest) {
            Ok(0) | Err(_) => break,
            Ok(got) => filled += got,
        }
    }
    filled
}

/// The range that an answer contains, and the length of the whole file.
fn sent(answer: &Answer) -> Result<(Range<u64>, u64)> {
    let text = answer.header("content-range").unwrap_or_default();
    let parsed = || {
        let (range, size) = text.strip_prefix("bytes ")?.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        Some((first..last.checked_add(1)?, size.trim().parse::<u64>().ok()?))
    };
    match parsed() {
        Some((range, size)) if range.start <= range.end && range.end <= size => Ok((range, size)),
        _ => {
            let shown = crate::bytes::Text::new(text.as_bytes()).brief();
            let fault = format!("the server sent part of the file, but not which: \"{shown}\"");
            Err(Error::new(ErrorKind::Io, fault))
        }
    }
}

/// Size and length of an answer that is the whole file.
fn whole(answer: &Answer) -> Result<(u64, u64)> {
    let Some(size) = answer.number("content-length") else {
        let fault = "the server does not say how long the file is";
        return Err(Error::unsupported(fault).advise("download the file, then open it"));
    };
    if size > WHOLE { Err(no_ranges()) } else { Ok((size, size)) }
}

/// Refuses a compressed answer: its ranges are not those of the file.
fn plain(answer: &Answer) -> Result<()> {
    match answer.header("content-encoding") {
        None | Some("" | "identity") => Ok(()),
        Some(_) => Err(Error::unsupported("the server sends the file compressed")
            .advise("download the file, then open it")),
    }
}

fn no_ranges() -> Error {
    Error::unsupported("the server does not send parts of files")
        .advise("download the file, then open it")
}

fn changed() -> Error {
    Error::new(ErrorKind::Io, "the file on the server changed after it was opened")
        .advise("open it again")
}

fn wrong_range(found: &Range<u64>, wanted: &Range<u64>) -> Error {
    let fault = format!(
        "the server sent bytes {}..{}, but {}..{} were requested",
        found.start, found.end, wanted.start, wanted.end
    );
    Error::new(ErrorKind::Io, fault)
}
