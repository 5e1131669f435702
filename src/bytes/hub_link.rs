//! Links of the Hugging Face cache that were copied as text, or that lead to another folder.
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
    is_hash(hash).then(|| folder.join("../../blobs").join(hash))
}

/// A link whose target does not exist.
#[derive(Debug)]
pub(crate) struct BrokenLink {
    pub(crate) target: PathBuf,
    /// The blob with the target's name in the folder of the link's own repository, which is read instead.
    pub(crate) blob: Option<PathBuf>,
}

/// The link at a path, if its target does not exist.
pub(super) fn broken(path: &Path) -> Option<BrokenLink> {
    let target = std::fs::read_link(path).ok().filter(|_| !path.exists())?;
    Some(BrokenLink { blob: own_blob(path, &target), target })
}

/// The blob with the name that a broken link of a snapshot has, in the folder of its own repository. A cache that was named
/// by a relative path has links that lead elsewhere, and so has one with absolute links that was moved.
fn own_blob(link: &Path, target: &Path) -> Option<PathBuf> {
    let hash = target.file_name()?.to_str().filter(|hash| is_hash(hash))?;
    let is_blob = target.parent()?.file_name()? == "blobs" && matches!(hash.len(), 40 | 64);
    let mut folders = link.ancestors();
    let snapshots = folders.find(|folder| folder.file_name().is_some_and(|f| f == "snapshots"))?;
    let blob = snapshots.parent()?.join("blobs").join(hash);
    (is_blob && blob.is_file()).then_some(blob)
}

fn is_hash(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
