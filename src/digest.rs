//! SHA-256 of files and bytes, in constant memory. Without the feature `sha256` every digest is an
//! `Unsupported` error.

#[cfg(feature = "sha256")]
use sha2::Digest;

use crate::bytes::{Source, try_zeroed};
use crate::error::{Error, Result};

/// The number of bytes read at a time.
const PIECE: u64 = 1 << 20;

/// Computes one SHA-256.
#[derive(Debug)]
pub(crate) struct Hasher {
    #[cfg(feature = "sha256")]
    state: sha2::Sha256,
    /// Without the feature no hasher can be created.
    #[cfg(not(feature = "sha256"))]
    never: std::convert::Infallible,
}

#[cfg(feature = "sha256")]
impl Hasher {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { state: sha2::Sha256::new() })
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.state.update(bytes);
    }

    /// The digest in lower-case hexadecimal.
    pub(crate) fn finish(self) -> String {
        hex(&self.state.finalize())
    }
}

#[cfg(not(feature = "sha256"))]
impl Hasher {
    pub(crate) fn new() -> Result<Self> {
        let fault = "this build of weighbridge cannot compute SHA-256";
        Err(Error::unsupported(fault).advise("enable the cargo feature `sha256`"))
    }

    pub(crate) fn update(&mut self, _: &[u8]) {
        match self.never {}
    }

    pub(crate) fn finish(self) -> String {
        match self.never {}
    }
}

/// The SHA-256 of a whole source, in lower-case hexadecimal.
pub(crate) fn sha256(source: &Source) -> Result<String> {
    sha256_with(source, |_| Ok(()))
}

/// Like [`sha256`]. `progress` is called with the bytes read since its last call; its errors end
/// the work.
pub(crate) fn sha256_with(source: &Source, progress: impl Fn(u64) -> Result<()>) -> Result<String> {
    let mut hasher = Hasher::new()?;
    each_piece(source, |piece| {
        hasher.update(piece);
        progress(piece.len() as u64)
    })?;
    Ok(hasher.finish())
}

/// The digest of a whole source of the kind that the length of an expected one tells: SHA-256, or with 40
/// digits git's name of a blob, which is the SHA-1 of `blob SIZE`, a zero byte and the content.
pub(crate) fn like(
    expected: &str,
    source: &Source,
    progress: impl Fn(u64) -> Result<()>,
) -> Result<String> {
    if is_git_blob(expected) {
        return git_blob(source, progress);
    }
    sha256_with(source, progress)
}

#[cfg(feature = "http")]
fn git_blob(source: &Source, progress: impl Fn(u64) -> Result<()>) -> Result<String> {
    let mut hasher = sha1::Sha1::new_with_prefix(format!("blob {}\0", source.len()));
    each_piece(source, |piece| {
        hasher.update(piece);
        progress(piece.len() as u64)
    })?;
    Ok(hex(&hasher.finalize()))
}

#[cfg(not(feature = "http"))]
fn git_blob(_: &Source, _: impl Fn(u64) -> Result<()>) -> Result<String> {
    let error = Error::unsupported("this build has no SHA-1, which git's names of blobs need");
    Err(error.advise("enable the cargo feature `http`"))
}

/// Whether a digest is git's name of a blob.
pub(crate) fn is_git_blob(digest: &str) -> bool {
    digest.len() == 40
}

/// Reads a source from its start to its end.
fn each_piece(source: &Source, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut buffer = try_zeroed(usize::try_from(source.len().min(PIECE)).unwrap_or(0))?;
    let mut at = 0;
    while at < source.len() {
        let len = usize::try_from(source.len() - at).unwrap_or(usize::MAX).min(buffer.len());
        let Some(piece) = buffer.get_mut(..len) else { break };
        source.read_at(at, piece)?;
        at += len as u64;
        take(piece)?;
    }
    Ok(())
}

/// The SHA-256 of some bytes, in lower-case hexadecimal.
pub(crate) fn sha256_of(bytes: &[u8]) -> Result<String> {
    let mut hasher = Hasher::new()?;
    hasher.update(bytes);
    Ok(hasher.finish())
}

/// Bytes in lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The digest that a server states of a file.
#[cfg(feature = "http")]
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum FileDigest {
    Sha256(String),
    /// The SHA-1 of `blob SIZE`, a zero byte and the content: what git names a file by.
    GitBlob(String),
}

#[cfg(feature = "http")]
impl FileDigest {
    /// The digest in lower-case hexadecimal.
    pub(crate) fn hex(&self) -> &str {
        let (Self::Sha256(hex) | Self::GitBlob(hex)) = self;
        hex
    }

    /// Compares it with the digest of some bytes.
    ///
    /// # Errors
    ///
    /// `Malformed` with both digests if they differ.
    pub(crate) fn check_bytes(&self, bytes: &[u8]) -> Result<()> {
        self.compare(bytes.len() as u64, |add| {
            add(bytes);
            Ok(())
        })
    }

    /// Compares it with the digest of a whole source. Errors of `progress` end the work.
    ///
    /// # Errors
    ///
    /// Same as [`check_bytes`](Self::check_bytes); errors of reading.
    pub(crate) fn check(
        &self,
        source: &Source,
        progress: impl Fn(u64) -> Result<()>,
    ) -> Result<()> {
        self.compare(source.len(), |add| {
            each_piece(source, |piece| {
                add(piece);
                progress(piece.len() as u64)
            })
        })
    }

    fn compare(
        &self,
        size: u64,
        feed: impl FnOnce(&mut dyn FnMut(&[u8])) -> Result<()>,
    ) -> Result<()> {
        let (kind, found) = match self {
            Self::Sha256(_) => {
                let mut hasher = Hasher::new()?;
                feed(&mut |bytes| hasher.update(bytes))?;
                ("SHA-256", hasher.finish())
            }
            Self::GitBlob(_) => {
                let mut hasher = sha1::Sha1::new_with_prefix(format!("blob {size}\0"));
                feed(&mut |bytes| hasher.update(bytes))?;
                ("git blob id", hex(&hasher.finalize()))
            }
        };
        if found == self.hex() {
            return Ok(());
        }
        let fault = format!("the server sent bytes of {kind} {found}, not {}", self.hex());
        Err(Error::malformed(fault).advise("try again later"))
    }
}

/// The HMAC of a message with SHA-256 (RFC 2104).
#[cfg(feature = "http")]
pub(crate) fn hmac_sha256(key: &[u8], message: &[u8]) -> Vec<u8> {
    /// The block length of SHA-256.
    const BLOCK: usize = 64;
    let mut block = [0; BLOCK];
    let short = if key.len() > BLOCK { sha2::Sha256::digest(key).to_vec() } else { key.to_vec() };
    block.iter_mut().zip(&short).for_each(|(to, from)| *to = *from);
    let inner = sha2::Sha256::new()
        .chain_update(block.map(|byte| byte ^ 0x36))
        .chain_update(message)
        .finalize();
    let outer = sha2::Sha256::new().chain_update(block.map(|byte| byte ^ 0x5c)).chain_update(inner);
    outer.finalize().to_vec()
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use super::*;

    #[test]
    fn digests_and_codes() {
        // `git hash-object` of these contents.
        let cases = [
            ("", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"),
            ("hello\n", "ce013625030ba8dba906f756967f9e9ca394464a"),
        ];
        for (text, id) in cases {
            assert!(FileDigest::GitBlob(id.to_owned()).check_bytes(text.as_bytes()).is_ok());
        }
        // RFC 4231, cases 2 and 6.
        let codes = [
            (
                &b"Jefe"[..],
                &b"what do ya want for nothing?"[..],
                "5bdcc146bf60754e6a042426089575c7",
            ),
            (
                &[0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f",
            ),
        ];
        for (key, message, code) in codes {
            assert!(hex(&hmac_sha256(key, message)).starts_with(code));
        }
        let wrong = FileDigest::GitBlob("0".repeat(40)).check_bytes(b"").unwrap_err();
        assert!(wrong.to_string().contains("git blob id e69de29b"), "{wrong}");
    }
}
