//! SHA-256 of files and bytes, in constant memory. Without the feature `sha256` every digest is an
//! `Unsupported` error.

#[cfg(feature = "sha256")]
use sha2::Digest;

use crate::bytes::{Source, try_zeroed};
use crate::error::Result;

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
        Err(crate::error::Error::unsupported(fault).advise("enable the cargo feature `sha256`"))
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
    let mut buffer = try_zeroed(usize::try_from(source.len().min(PIECE)).unwrap_or(0))?;
    let mut at = 0;
    while at < source.len() {
        let len = usize::try_from(source.len() - at).unwrap_or(usize::MAX).min(buffer.len());
        let Some(piece) = buffer.get_mut(..len) else { break };
        source.read_at(at, piece)?;
        hasher.update(piece);
        at += len as u64;
        progress(len as u64)?;
    }
    Ok(hasher.finish())
}

/// The SHA-256 of some bytes, in lower-case hexadecimal.
pub(crate) fn sha256_of(bytes: &[u8]) -> Result<String> {
    let mut hasher = Hasher::new()?;
    hasher.update(bytes);
    Ok(hasher.finish())
}

/// Bytes in lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
