//! Files that are named by the digest of their content: blobs of Ollama's store and of the Hugging
//! Face cache. Other programs trust the name, so the content of such a file must never change.

use std::path::{Path, PathBuf};

/// The content-addressed file that `path` is or leads to through symbolic links.
///
/// Ollama names blobs `sha256-HEX` (`sha256:HEX` before 2024). The Hugging Face cache names them by
/// 40 digits (git's SHA-1) or 64 digits (SHA-256), in a folder `blobs`.
pub(crate) fn blob_behind(path: &Path) -> Option<PathBuf> {
    let resolved = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    is_content_addressed(&resolved).then_some(resolved)
}

/// Whether the last component of a path names a file by its digest. Links are not followed.
pub(crate) fn is_content_addressed(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    let is_hex = |text: &str, len| text.len() == len && text.bytes().all(|b| b.is_ascii_hexdigit());
    if let Some(hex) = name.strip_prefix("sha256-").or_else(|| name.strip_prefix("sha256:")) {
        return is_hex(hex, 64);
    }
    let in_blobs = path.parent().and_then(Path::file_name).is_some_and(|folder| folder == "blobs");
    in_blobs && (is_hex(name, 40) || is_hex(name, 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_as_names() {
        let hex = "0123456789abcdef".repeat(4);
        let named = [
            format!("store/blobs/sha256-{hex}"),
            format!("store/blobs/sha256:{hex}"),
            format!("anywhere/sha256-{hex}"),
            format!("hub/models--a--b/blobs/{hex}"),
            format!("hub/models--a--b/blobs/{}", &hex[..40]),
        ];
        for path in named {
            assert!(is_content_addressed(Path::new(&path)), "{path}");
        }
        let others = [
            "model.gguf".to_owned(),
            hex.clone(),
            format!("blobs/{}", &hex[..39]),
            format!("blobs/{}g", &hex[..63]),
            format!("sha256-{hex}.gguf"),
            "blobs".to_owned(),
        ];
        for path in others {
            assert!(!is_content_addressed(Path::new(&path)), "{path}");
        }
    }
}
