//! Recognizes files of other formats that users mistake for models, and says what to do with each.

use super::Probe;
use crate::error::{Error, ErrorKind};

/// A file format that is not supported, recognized by its first bytes.
struct Foreign {
    /// The bytes at the start of the file.
    magic: &'static [u8],
    kind: ErrorKind,
    what: &'static str,
    advice: &'static str,
}

const PICKLE: &str =
    "load it with PyTorch and save it with safetensors, or fetch the model's .safetensors files";
pub(super) const OLD_GGML: &str = "convert it to GGUF with llama.cpp's convert_llama_ggml_to_gguf.py, or fetch a GGUF of the model";
const UNPACK: &str = "unpack it first";

#[rustfmt::skip]
static FOREIGN: &[Foreign] = &[
    Foreign { magic: b"version https://git-lfs", kind: ErrorKind::UnknownContainer, what: "a Git LFS pointer, not the file it points to", advice: "run `git lfs pull` in the repository, or fetch the file itself" },
    Foreign { magic: b"PK\x03\x04", kind: ErrorKind::Unsupported, what: "a zip archive: a PyTorch checkpoint (.pt, .pth, .bin) or NumPy arrays (.npz)", advice: PICKLE },
    Foreign { magic: b"PK\x05\x06", kind: ErrorKind::Unsupported, what: "an empty zip archive", advice: PICKLE },
    Foreign { magic: b"\x80\x02", kind: ErrorKind::Unsupported, what: "a Python pickle: an old PyTorch checkpoint, which could run arbitrary code when loaded", advice: PICKLE },
    Foreign { magic: b"\x80\x03", kind: ErrorKind::Unsupported, what: "a Python pickle, which could run arbitrary code when loaded", advice: PICKLE },
    Foreign { magic: b"\x80\x04", kind: ErrorKind::Unsupported, what: "a Python pickle, which could run arbitrary code when loaded", advice: PICKLE },
    Foreign { magic: b"\x80\x05", kind: ErrorKind::Unsupported, what: "a Python pickle, which could run arbitrary code when loaded", advice: PICKLE },
    Foreign { magic: b"fmgg", kind: ErrorKind::Unsupported, what: "a file in the ggmf format from before GGUF", advice: OLD_GGML },
    Foreign { magic: b"tjgg", kind: ErrorKind::Unsupported, what: "a file in the ggjt format from before GGUF", advice: OLD_GGML },
    Foreign { magic: b"algg", kind: ErrorKind::Unsupported, what: "a LoRA adapter in the ggla format from before GGUF", advice: OLD_GGML },
    Foreign { magic: b"FUGG", kind: ErrorKind::Malformed, what: "a GGUF file with a reversed magic, which no writer produces, not even on big-endian machines", advice: "the file was damaged by a byte swap: fetch it again" },
    Foreign { magic: b"\x89HDF\r\n\x1a\n", kind: ErrorKind::Unsupported, what: "an HDF5 file (Keras weights)", advice: "convert it to safetensors with the library that wrote it" },
    Foreign { magic: b"\x93NUMPY", kind: ErrorKind::Unsupported, what: "a NumPy array (.npy)", advice: "save it with the Python package safetensors" },
    Foreign { magic: b"\x1f\x8b", kind: ErrorKind::UnknownContainer, what: "compressed with gzip", advice: UNPACK },
    Foreign { magic: b"\xfd7zXZ\0", kind: ErrorKind::UnknownContainer, what: "compressed with xz", advice: UNPACK },
    Foreign { magic: b"\x28\xb5\x2f\xfd", kind: ErrorKind::UnknownContainer, what: "compressed with zstd", advice: UNPACK },
    Foreign { magic: b"BZh", kind: ErrorKind::UnknownContainer, what: "compressed with bzip2", advice: UNPACK },
    Foreign { magic: b"7z\xbc\xaf\x27\x1c", kind: ErrorKind::UnknownContainer, what: "a 7z archive", advice: UNPACK },
    Foreign { magic: b"Rar!\x1a\x07", kind: ErrorKind::UnknownContainer, what: "a RAR archive", advice: UNPACK },
    Foreign { magic: b"\x7fELF", kind: ErrorKind::UnknownContainer, what: "a program, not a model", advice: "give the path of the model" },
    Foreign { magic: b"\x89PNG\r\n", kind: ErrorKind::UnknownContainer, what: "an image, not a model", advice: "give the path of the model" },
    Foreign { magic: b"%PDF", kind: ErrorKind::UnknownContainer, what: "a PDF document, not a model", advice: "give the path of the model" },
];

/// File name suffixes of unfinished downloads.
const PARTIAL: [&str; 6] =
    [".incomplete", ".part", ".partial", ".crdownload", ".download", ".aria2"];

/// The error for a path that is recognizably something else, or `None`.
pub(super) fn recognize(probe: &Probe<'_>) -> Option<Error> {
    if probe.directory.is_some() {
        return None;
    }
    let name = probe.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if probe.len == 0 {
        return Some(Error::malformed("the file is empty").advise(if is_partial(name) {
            "the download has not received any data: restart it"
        } else {
            "the download or copy failed: fetch the file again"
        }));
    }
    if is_partial(name) {
        return Some(
            Error::malformed("an unfinished download, according to its name")
                .advise("wait for the download to finish, or restart it"),
        );
    }
    if let Some(foreign) = FOREIGN.iter().find(|foreign| probe.head.starts_with(foreign.magic)) {
        return Some(Error::new(foreign.kind, foreign.what).advise(foreign.advice));
    }
    // A tar archive starts with a file name, which may begin with GGUF's magic but is not followed
    // by a version, 1 to 3 in four bytes. In a GGUF file, the bytes at this offset may have any
    // value.
    let is_gguf = probe.head.starts_with(b"GGUF")
        && matches!(probe.head.get(4..8), Some([1..=3, 0, 0, 0] | [0, 0, 0, 1..=3]));
    if !is_gguf && probe.head.get(257..262) == Some(b"ustar") {
        let error = Error::new(ErrorKind::UnknownContainer, "a tar archive");
        return Some(error.advise(UNPACK));
    }
    if is_link_as_text(probe) {
        return Some(
            Error::malformed(
                "a symbolic link that was copied as text, not the file that it points to",
            )
            .advise("copy the model with its symbolic links, or give the path of the blob"),
        );
    }
    let text = probe.head.trim_ascii_start();
    if is_html(text) {
        return Some(Error::new(ErrorKind::UnknownContainer, "an HTML page, not a model").advise(
            "a download saved the site's page instead of the file, often one that asks to log \
                 in: fetch the file itself",
        ));
    }
    if text.starts_with(b"{") && name.to_ascii_lowercase().ends_with(".json") {
        let what =
            if name.ends_with(".index.json") { "the index of a sharded model" } else { "JSON" };
        return Some(
            Error::new(ErrorKind::UnknownContainer, format!("this is {what}, not weights"))
                .advise("give the directory that contains it"),
        );
    }
    if probe.head.iter().all(|&byte| byte == 0) && probe.len > 8 {
        return Some(
            Error::malformed(format!("the file begins with {} zero bytes", probe.head.len()))
                .advise("space was reserved for the file, but its start was never written: fetch the file again"),
        );
    }
    None
}

/// Whether the whole file is a relative path, as when git checks out links where it cannot create
/// them.
fn is_link_as_text(probe: &Probe<'_>) -> bool {
    probe.len == probe.head.len() as u64
        && probe.head.starts_with(b"../")
        && probe.head.iter().all(|byte| byte.is_ascii_graphic())
}

fn is_html(text: &[u8]) -> bool {
    let starts = |with: &str| {
        text.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with.as_bytes()))
    };
    starts("<!doctype html") || starts("<html") || starts("<?xml") || starts("<head")
}

pub(super) fn is_partial(name: &str) -> bool {
    PARTIAL.iter().any(|ending| name.ends_with(ending))
}

/// The error for a directory without a supported container.
pub(super) fn directory(probe: &Probe<'_>) -> Error {
    let names = probe.directory.unwrap_or_default();
    let any = |ending: &str| names.iter().find(|name| name.ends_with(ending));
    if names.is_empty() {
        return Error::new(ErrorKind::UnknownContainer, "the directory is empty");
    }
    if let Some(partial) = names.iter().find(|name| is_partial(name)) {
        return Error::malformed(format!(
            "the directory contains only an unfinished download: {partial}"
        ))
        .advise("wait for the download to finish, or restart it");
    }
    if let Some(name) =
        names.iter().find(|name| name.starts_with("ggml-") && name.ends_with(".bin"))
    {
        return Error::mismatch(
            "the directory contains only whisper.cpp files, which are opened one by one",
        )
        .advise(format!("give the path of one of them, such as {name}"));
    }
    if let Some(name) = any(".bin").or_else(|| any(".pt")).or_else(|| any(".pth")) {
        return Error::unsupported(format!(
            "the directory contains only PyTorch pickles, such as {name}"
        ))
        .advise(PICKLE);
    }
    Error::new(ErrorKind::UnknownContainer, "no weights here: neither .gguf nor .safetensors files")
        .advise("give the directory that holds the model, or one of its files")
}
