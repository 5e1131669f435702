//! SHA-256 of files, in constant memory.

use sha2::{Digest, Sha256};

use crate::bytes::{Source, try_zeroed};
use crate::error::Result;

/// The number of bytes read at a time.
const PIECE: u64 = 1 << 20;

/// The SHA-256 of a whole source, in lower-case hexadecimal.
pub(crate) fn sha256(source: &Source) -> Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = try_zeroed(usize::try_from(source.len().min(PIECE)).unwrap_or(0))?;
    let mut at = 0;
    while at < source.len() {
        let len = usize::try_from(source.len() - at).unwrap_or(usize::MAX).min(buffer.len());
        let Some(piece) = buffer.get_mut(..len) else { break };
        source.read_at(at, piece)?;
        hasher.update(&*piece);
        at += len as u64;
    }
    Ok(hex(&hasher.finalize()))
}

/// The SHA-256 of some bytes, in lower-case hexadecimal.
pub(crate) fn sha256_of(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes in lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
