//! A file on a server, read in ranges.

use std::collections::HashMap;
use std::fmt;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::ahead::{Ahead, REQUEST, TOGETHER};
use super::cache::{self, Version};
use super::client::{Answer, Client, refused, refused_status};
use super::range::{Located, no_ranges, plain, sent, version, wrong_range};
use crate::bytes::{ReadAt, Source, try_vec, try_zeroed};
use crate::digest::FileDigest;
use crate::error::{Error, ErrorKind, Result};
use crate::threads::Threads;

/// The most bytes that are kept of the start of a file: more than any header.
const MOST_KEPT: u64 = 128 << 20;

/// A file of at most this length may come whole, from a server that does not send ranges.
const WHOLE: u64 = 32 << 20;

/// A file on a server, and the bytes of its start that were fetched.
#[derive(Debug)]
pub(super) struct RemoteFile {
    client: Arc<Client>,
    located: Located,
    version: Version,
    start: Mutex<Vec<u8>>,
    growth: Growth,
    ahead: Ahead,
    /// The digest of the whole file, if it is known.
    digest: Option<FileDigest>,
    /// Whether the header is still being read.
    opening: AtomicBool,
}

/// The files that were opened, and the addresses at which there is none: neither is fetched twice.
pub(super) struct RemoteFiles {
    pub(super) client: Arc<Client>,
    known: Mutex<HashMap<String, Option<Arc<RemoteFile>>>>,
}

/// The addresses are left out, since they may contain a signature.
impl fmt::Debug for RemoteFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteFiles").field("client", &self.client).finish_non_exhaustive()
    }
}

impl RemoteFiles {
    pub(super) fn new(client: &Arc<Client>) -> Self {
        Self { client: Arc::clone(client), known: Mutex::default() }
    }

    /// Opens a file. `digest` is its digest, if it is known.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Io` if the server cannot be reached or refuses access; `Unsupported` if it
    /// does not send ranges of a large file.
    pub(super) fn open(
        &self,
        address: &str,
        path: &Path,
        digest: Option<FileDigest>,
    ) -> Result<Source> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known().get(address).cloned();
        let file = match found {
            Some(Some(file)) => file,
            Some(None) => return Err(refused_status(404).in_file(path)),
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

    /// The version of a file, which is opened for it.
    ///
    /// # Errors
    ///
    /// Same as [`open`](Self::open).
    pub(super) fn version(&self, address: &str, path: &Path) -> Result<Version> {
        self.open(address, path, None)?;
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let file = known.get(address).and_then(Option::as_ref);
        file.map(|file| file.version.clone()).ok_or_else(|| refused_status(404).in_file(path))
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

    fn prefetch(&self, ranges: &[Range<u64>]) {
        self.0.ahead.plan(ranges);
    }

    fn opened(&self) {
        self.0.opened();
    }

    fn version(&self) -> Option<String> {
        let Version { tag, modified, .. } = &self.0.version;
        tag.clone().or_else(|| modified.clone())
    }
}

/// The lengths of a file's start that the first, second, third request fetches. Later ones double.
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
        digest: Option<FileDigest>,
    ) -> Result<Self> {
        let growth = Growth::of(path);
        let made = |version: Version, start, direct| Self {
            client: Arc::clone(client),
            located: Located::known(client, address, version.clone(), direct),
            version,
            start: Mutex::new(start),
            growth,
            ahead: Ahead::default(),
            digest: digest.clone(),
            opening: AtomicBool::new(true),
        };
        if client.network.offline {
            let kept = cache::read(&client.network, address)?.ok_or_else(|| {
                let fault = "not kept from an earlier run, and this run is offline";
                super::client::online(Error::not_found(fault))
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
            _ => return Err(refused(&answer)),
        };
        plain(&answer)?;
        let found = version(&answer, size);
        let mut start = try_zeroed(usize::try_from(len).unwrap_or(usize::MAX))?;
        let got = fill(&mut answer, &mut start);
        start.truncate(got);
        drop(answer);
        let file = made(found, start, direct);
        // A length alone does not show that the file is still the same.
        let is_marked = file.version.tag.is_some() || file.version.modified.is_some();
        if let Some(kept) = cache::read(&client.network, address)?.filter(|_| is_marked)
            && kept.version == file.version
            && kept.start.len() as u64 >= len
        {
            *file.held() = kept.start;
            file.check(&file.held())?;
            return Ok(file);
        }
        // What a broken connection left out.
        file.grow(&mut file.held(), len)?;
        file.check(&file.held())?;
        file.keep();
        Ok(file)
    }

    /// Compares a file that was fetched as a whole with the digest that is known of it.
    fn check(&self, start: &[u8]) -> Result<()> {
        let whole = start.len() as u64 == self.version.size;
        match self.digest.as_ref().filter(|_| whole) {
            Some(digest) => digest.check_bytes(start),
            None => Ok(()),
        }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.start.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the start to the cache. A cache that cannot be written is no error.
    fn keep(&self) {
        let _ =
            cache::write(&self.client.network, self.located.address(), &self.version, &self.held());
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

    /// Fetches a range: a long one in several requests at the same time.
    fn fetch_range(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let piece = usize::try_from(REQUEST).unwrap_or(usize::MAX);
        let pieces = (0..).map(|number| offset.saturating_add(number * REQUEST));
        let pieces: Vec<(u64, &mut [u8])> = pieces.zip(out.chunks_mut(piece)).collect();
        let fetch = |(): &mut (), (at, piece): (u64, &mut [u8])| self.fetch_piece(at, piece);
        Threads::new(TOGETHER).in_order(pieces.into_iter(), || (), fetch).map(drop)
    }

    fn fetch_piece(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let end = offset.saturating_add(out.len() as u64);
        let mut rest = out;
        self.located.fetch(offset..end, &mut |_, bytes| {
            let (now, later) = std::mem::take(&mut rest).split_at_mut(bytes.len());
            now.copy_from_slice(bytes);
            rest = later;
            Ok(())
        })
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
                if let Err(error) = self.check(&start) {
                    start.clear();
                    return Err(error);
                }
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
        let fetch = |range: &Range<u64>| {
            let len = range.end.saturating_sub(range.start);
            let mut bytes = try_zeroed(usize::try_from(len).unwrap_or(usize::MAX))?;
            self.fetch_piece(range.start, &mut bytes).map(|()| bytes)
        };
        match self.ahead.read(offset, out, fetch)? {
            true => Ok(()),
            false => self.fetch_range(offset, out),
        }
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

/// Size and length of an answer that is the whole file.
fn whole(answer: &Answer) -> Result<(u64, u64)> {
    let Some(size) = answer.number("content-length") else {
        let fault = "the server does not say how long the file is";
        return Err(Error::unsupported(fault).advise("download the file, then open it"));
    };
    if size > WHOLE { Err(no_ranges()) } else { Ok((size, size)) }
}
