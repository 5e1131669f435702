//! Ranges of one file on a server. Every answer must contain what was requested, of the same version
//! of the file.

use std::fmt;
use std::io::Read;
use std::ops::Range;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use super::cache::Version;
use super::client::{Answer, Client, refused};
use crate::bytes::try_zeroed;
use crate::error::{Error, ErrorKind, Result};

/// An answer that breaks off before it has sent so many bytes is a failure.
const LEAST: u64 = 64 << 10;

/// The most bytes that are read of an answer at a time.
const PIECE: u64 = 256 << 10;

/// The address of a file, and what is known of the file.
pub(crate) struct Located {
    client: Arc<Client>,
    address: String,
    /// The address that a redirect led to: later requests start there.
    direct: RwLock<Option<String>>,
    size: u64,
    /// The version that the first answer was about.
    version: OnceLock<Version>,
}

/// The addresses are left out, since they may contain a signature.
impl fmt::Debug for Located {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Located").field("version", &self.version).finish_non_exhaustive()
    }
}

impl Located {
    /// A file of `size` bytes, of which nothing was requested yet.
    pub(crate) fn new(client: &Arc<Client>, address: &str, size: u64) -> Self {
        Self {
            client: Arc::clone(client),
            address: address.to_owned(),
            direct: RwLock::default(),
            size,
            version: OnceLock::new(),
        }
    }

    /// A file whose version is known, and where a redirect led.
    pub(crate) fn known(
        client: &Arc<Client>,
        address: &str,
        version: Version,
        direct: Option<String>,
    ) -> Self {
        let direct = RwLock::new(direct);
        Self { direct, version: version.clone().into(), ..Self::new(client, address, version.size) }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Fetches a range, and passes its bytes to `take` in order, each part with its offset in the
    /// file. A connection that breaks is continued where it broke.
    ///
    /// # Errors
    ///
    /// `Io` if the server cannot be reached, refuses, sends another range, or if the file changed;
    /// `Unsupported` if it does not send ranges; the errors of `take`.
    pub(crate) fn fetch(
        &self,
        range: Range<u64>,
        take: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let len = range.end.saturating_sub(range.start).min(PIECE);
        let mut buffer = try_zeroed(usize::try_from(len).unwrap_or(0))?;
        let (mut at, mut failures) = (range.start, 0);
        while at < range.end {
            let (mut answer, end) = self.request(&(at..range.end))?;
            let before = at;
            let mut reader = answer.reader().take(end - at);
            loop {
                let got = match reader.read(&mut buffer) {
                    Ok(0) | Err(_) => break,
                    Ok(got) => got,
                };
                take(at, buffer.get(..got).unwrap_or_default())?;
                at = at.saturating_add(got as u64);
            }
            // A server that sends a few bytes at a time would be followed for hours.
            failures = if at - before < LEAST { failures + 1 } else { 0 };
            if at < range.end && failures >= self.client.network.attempts.max(1) {
                let fault = "the server breaks off the connection before it sends the bytes";
                return Err(Error::new(ErrorKind::Io, fault).advise("try again later"));
            }
            if at < range.end {
                let (network, fault) = (&self.client.network, "the connection broke off");
                network.retries(&self.address, fault, failures.max(1), Duration::ZERO);
            }
        }
        Ok(())
    }

    /// Requests a range, and checks the head of the answer. Also returns where its bytes end.
    fn request(&self, wanted: &Range<u64>) -> Result<(Answer, u64)> {
        let answer = self.ask(wanted)?;
        plain(&answer)?;
        let (end, size) = match answer.status {
            206 => {
                let (range, size) = sent(&answer)?;
                // A server may send less than was requested.
                if range.start != wanted.start || range.end > wanted.end || range.is_empty() {
                    return Err(wrong_range(&range, wanted));
                }
                (range.end, size)
            }
            200 if wanted.start == 0 => {
                (wanted.end, answer.number("content-length").unwrap_or(self.size))
            }
            200 => return Err(no_ranges()),
            416 => return Err(changed()),
            _ => return Err(refused(&answer)),
        };
        let found = version(&answer, size);
        let first = self.version.get_or_init(|| found.clone());
        if size != self.size || !first.is_same(&found) {
            return Err(changed());
        }
        Ok((answer, end))
    }

    /// Sends the request, where a redirect led before if that still works.
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

/// The version of the file that an answer is about.
pub(super) fn version(answer: &Answer, size: u64) -> Version {
    // A weak tag says that the content means the same, not that its bytes are.
    let tag = answer.header("etag").filter(|tag| !tag.starts_with("W/"));
    let modified = answer.header("last-modified");
    Version { size, tag: tag.map(str::to_owned), modified: modified.map(str::to_owned) }
}

/// The range that an answer contains, and the length of the whole file.
pub(super) fn sent(answer: &Answer) -> Result<(Range<u64>, u64)> {
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

/// Refuses a compressed answer: its ranges are not those of the file.
pub(super) fn plain(answer: &Answer) -> Result<()> {
    match answer.header("content-encoding") {
        None | Some("" | "identity") => Ok(()),
        Some(_) => Err(Error::unsupported("the server sends the file compressed")
            .advise("download the file, then open it")),
    }
}

pub(super) fn no_ranges() -> Error {
    Error::unsupported("the server does not send parts of files")
        .advise("download the file, then open it")
}

fn changed() -> Error {
    Error::new(ErrorKind::Io, "the file on the server changed after it was opened")
        .advise("open it again")
}

pub(super) fn wrong_range(found: &Range<u64>, wanted: &Range<u64>) -> Error {
    let fault = format!(
        "the server sent bytes {}..{}, but {}..{} were requested",
        found.start, found.end, wanted.start, wanted.end
    );
    Error::new(ErrorKind::Io, fault)
}
