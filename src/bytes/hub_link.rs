//! Links of the Hugging Face cache that were copied as text.
//!
//! In the cache, `snapshots/REVISION/FILE` is a symbolic link to `../../blobs/HASH`. A tool that
//! cannot create links (git without them, some archives and file systems) writes that path as the
//! text of the file instead. Only a hash in the folder of blobs is followed, so such a file cannot
//! lead anywhere else.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The text before the hash.
const BEFORE: &[u8] = b"../../blobs/";

/// The blob that a file stands for, if the file is such a text.
pub(super) fn target(path: &Path, file: &File, len: u64) -> Option<PathBuf> {
    // Git hashes have 40 digits, SHA-256 64.
    let hash_len = usize::try_from(len).ok()?.checked_sub(BEFORE.len())?;
    if !matches!(hash_len, 40 | 64) {
        return None;
    }
    let folder = path.parent()?;
    if folder.parent()?.file_name()? != "snapshots" {
        return None;
    }
    let mut text = [0; BEFORE.len() + 64];
    let text = text.get_mut(..BEFORE.len() + hash_len)?;
    let mut file = file;
    file.read_exact(text).ok()?;
    let hash = text.strip_prefix(BEFORE)?;
    let hash = std::str::from_utf8(hash).ok()?;
    hash.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| folder.join("../../blobs").join(hash))
}
