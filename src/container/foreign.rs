//! Recognizes files of other formats that users mistake for models, and says what to do with each.

use super::{OpenOptions, Probe};
use crate::bytes::{Access, Source, Text, is_content_addressed, try_zeroed};
use crate::error::{AdvisedOption, Error, ErrorKind, Result};
use crate::json::Json;

/// A file format that is not supported, recognized by its first bytes.
struct Foreign {
    /// The bytes at the start of the file.
    magic: &'static [u8],
    kind: ErrorKind,
    what: &'static str,
    advice: &'static str,
}

pub(super) const PICKLE: &str =
    "load it with PyTorch and save it with safetensors, or fetch the model's .safetensors files";
pub(super) const OLD_GGML: &str = "convert it to GGUF with llama.cpp's convert_llama_ggml_to_gguf.py, or fetch a GGUF of the model";
const OLD_ADAPTER: &str = "no program converts it any more: take the adapter that it was made from, in PEFT's safetensors";
const UNPACK: &str = "unpack it first";
const DIRECTORY: &str = "give the directory that holds it, together with the weights";
pub(super) const ONNX: &str =
    "fetch the model's .safetensors or GGUF files, from which ONNX was exported";
const CTRANSLATE2: &str = "no program converts it back: fetch the .safetensors files of the model that it was converted from";
pub(super) const IMATRIX: &str = "give it to {}, together with the model";
const DOWNLOAD: &str = "a download may have saved the server's answer instead of the file: check the \
                        address, the name and the access token, and fetch the file again";

/// File name suffixes of weights.
pub(super) const WEIGHTS: [&str; 9] =
    [".safetensors", ".gguf", ".bin", ".pt", ".pth", ".ckpt", ".onnx", ".npz", ".ggml"];

#[rustfmt::skip]
static FOREIGN: &[Foreign] = &[
    Foreign { magic: b"version https://git-lfs", kind: ErrorKind::UnknownContainer, what: "a Git LFS pointer, not the file it points to", advice: "run `git lfs pull` in the repository, or fetch the file itself" },
    Foreign { magic: b"PK\x03\x04", kind: ErrorKind::Unsupported, what: "a zip archive", advice: UNPACK },
    Foreign { magic: b"PK\x05\x06", kind: ErrorKind::Unsupported, what: "an empty zip archive", advice: "give the path of the model" },
    Foreign { magic: b"\x80\x02", kind: ErrorKind::Unsupported, what: "a Python pickle: an old PyTorch checkpoint, which could run arbitrary code when loaded", advice: PICKLE },
    Foreign { magic: b"\x80\x03", kind: ErrorKind::Unsupported, what: "a Python pickle, which could run arbitrary code when loaded", advice: PICKLE },
    Foreign { magic: b"\x80\x04", kind: ErrorKind::Unsupported, what: "a Python pickle, which could run arbitrary code when loaded", advice: PICKLE },
    Foreign { magic: b"\x80\x05", kind: ErrorKind::Unsupported, what: "a Python pickle, which could run arbitrary code when loaded", advice: PICKLE },
    Foreign { magic: b"fmgg", kind: ErrorKind::Unsupported, what: "a file in the ggmf format from before GGUF", advice: OLD_GGML },
    Foreign { magic: b"tjgg", kind: ErrorKind::Unsupported, what: "a file in the ggjt format from before GGUF", advice: OLD_GGML },
    Foreign { magic: b"algg", kind: ErrorKind::Unsupported, what: "a LoRA adapter in the ggla format from before GGUF", advice: OLD_ADAPTER },
    Foreign { magic: b"FUGG", kind: ErrorKind::Malformed, what: "a GGUF file with a reversed magic, which no writer produces, not even on big-endian machines", advice: "the file was damaged by a byte swap: fetch it again" },
    Foreign { magic: b"\x89HDF\r\n\x1a\n", kind: ErrorKind::Unsupported, what: "an HDF5 file (Keras weights)", advice: "convert it to safetensors with the library that wrote it" },
    Foreign { magic: b"#version: 0.", kind: ErrorKind::UnknownContainer, what: "the merges of a tokenizer, not weights", advice: DIRECTORY },
    Foreign { magic: b"\x93NUMPY", kind: ErrorKind::Unsupported, what: "a NumPy array (.npy)", advice: "save it with the Python package safetensors" },
    Foreign { magic: b"\x1f\x8b", kind: ErrorKind::Unsupported, what: "compressed with gzip", advice: UNPACK },
    Foreign { magic: b"\xfd7zXZ\0", kind: ErrorKind::Unsupported, what: "compressed with xz", advice: UNPACK },
    Foreign { magic: b"\x28\xb5\x2f\xfd", kind: ErrorKind::Unsupported, what: "compressed with zstd", advice: UNPACK },
    Foreign { magic: b"BZh", kind: ErrorKind::Unsupported, what: "compressed with bzip2", advice: UNPACK },
    Foreign { magic: b"7z\xbc\xaf\x27\x1c", kind: ErrorKind::Unsupported, what: "a 7z archive", advice: UNPACK },
    Foreign { magic: b"Rar!\x1a\x07", kind: ErrorKind::Unsupported, what: "a RAR archive", advice: UNPACK },
    Foreign { magic: b"MZqFpD", kind: ErrorKind::Unsupported, what: "a llamafile: a program with a GGUF file in it", advice: "unzip it, and give the path of the GGUF file" },
    Foreign { magic: b"MZ\x90\0", kind: ErrorKind::UnknownContainer, what: "a program, not a model", advice: "give the path of the model" },
    Foreign { magic: b"\x7fELF", kind: ErrorKind::UnknownContainer, what: "a program, not a model", advice: "give the path of the model" },
    Foreign { magic: b"\x89PNG\r\n", kind: ErrorKind::UnknownContainer, what: "an image, not a model", advice: "give the path of the model" },
    Foreign { magic: b"%PDF", kind: ErrorKind::UnknownContainer, what: "a PDF document, not a model", advice: "give the path of the model" },
];

/// File name suffixes of unfinished downloads.
const PARTIAL: [&str; 6] =
    [".incomplete", ".part", ".partial", ".crdownload", ".download", ".aria2"];

/// Checks that a file that a model needs is not recognizably something else: a page, a pointer.
pub(super) fn check(source: &Source, options: &OpenOptions) -> Result<()> {
    let mut head = [0; Probe::HEAD];
    let len = usize::try_from(source.len()).unwrap_or(usize::MAX).min(head.len());
    let head = head.get_mut(..len).unwrap_or_default();
    source.read_at(0, head)?;
    let (path, len) = (source.path(), source.len());
    recognize(&Probe { path, head, len, source: Some(source), directory: None, options })
        .map_or(Ok(()), Err)
}

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
    if let Some(error) = zipped(probe, name) {
        return Some(error);
    }
    if let Some(error) = by_magic(probe) {
        return Some(error);
    }
    // In a GGUF file, the bytes that others would have may have any value.
    if is_gguf(probe) {
        return None;
    }
    if probe.head.get(257..262) == Some(b"ustar") {
        let error = Error::new(ErrorKind::Unsupported, "a tar archive");
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
    if let Some(error) = xml(text) {
        return Some(error);
    }
    if is_html(text) {
        return Some(Error::new(ErrorKind::UnknownContainer, "an HTML page, not a model").advise(
            "a download saved the site's page instead of the file, often one that asks to log \
                 in: fetch the file itself",
        ));
    }
    if let Some(error) = other_format(probe, name) {
        return Some(error);
    }
    if matches!(text, [b'{' | b'[', ..]) && name.to_ascii_lowercase().ends_with(".json") {
        let what = match name {
            name if name.ends_with(".index.json") => "the index of a sharded model",
            name if name.starts_with("tokenizer") => "a tokenizer",
            "adapter_config.json" => "the config of an adapter",
            _ => "JSON",
        };
        return Some(
            Error::new(ErrorKind::UnknownContainer, format!("this is {what}, not weights"))
                .advise("give the directory that contains it"),
        );
    }
    if WEIGHTS.iter().any(|ending| name.ends_with(ending))
        && let Some(error) = server_answer(probe)
    {
        return Some(error);
    }
    if probe.head.iter().all(|&byte| byte == 0) && probe.len > 8 {
        return Some(
            Error::malformed(format!("the file begins with {} zero bytes", probe.head.len()))
                .advise("space was reserved for the file, but its start was never written: fetch the file again"),
        );
    }
    None
}

/// Whether the file begins with GGUF's magic and a version. A tar archive starts with a file name, which may begin with the
/// magic but is not followed by a version, 1 to 3 in four bytes.
fn is_gguf(probe: &Probe<'_>) -> bool {
    probe.head.starts_with(b"GGUF")
        && matches!(probe.head.get(4..8), Some([1..=3, 0, 0, 0] | [0, 0, 0, 1..=3]))
}

/// The error for a zip archive that is cut short, or holds arrays or a pickle.
fn zipped(probe: &Probe<'_>, name: &str) -> Option<Error> {
    let (what, advice) = match probe.head.starts_with(b"PK") {
        true if name.ends_with(".npz") => (
            "NumPy arrays (.npz), which are opened with the config next to them",
            "give the directory: it needs weights.npz and config.json, or adapters.npz and the adapter_config.json of mlx-lm",
        ),
        true if is_cut_archive(probe) => return Some(cut_archive()),
        true if holds_pickle(probe) => {
            ("a zip archive: a PyTorch checkpoint (.pt, .pth, .bin)", PICKLE)
        }
        _ => return None,
    };
    Some(Error::new(ErrorKind::Unsupported, what).advise(advice))
}

/// Whether a zip archive has the entry in which PyTorch puts the pickle: among the names at its end, or as its first entry.
fn holds_pickle(probe: &Probe<'_>) -> bool {
    const NAME: &[u8] = b"/data.pkl";
    const END: u64 = 1 << 16;
    let end = || {
        let source = probe.source?;
        let start = source.len().saturating_sub(END);
        source.bytes(start..source.len()).ok().map(|bytes| bytes.to_vec())
    };
    let has = |bytes: &[u8]| bytes.windows(NAME.len()).any(|window| window == NAME);
    has(probe.head) || end().is_some_and(|bytes| has(&bytes))
}

/// The number of entries that the record at the end of a zip archive states; the largest, if the bytes of an entry look
/// like that record too. `None` without such a record.
///
/// # Errors
///
/// `Io` if the file cannot be read.
pub(super) fn most_entries(source: &Source) -> Result<Option<u16>> {
    // The record takes 22 bytes, and a comment of at most 65,535 bytes may follow it.
    let len = source.len().min(22 + 65_535);
    let mut tail = try_zeroed(usize::try_from(len).unwrap_or(0))?;
    source.read_at(source.len().saturating_sub(len), &mut tail)?;
    let found = tail.windows(22).filter(|record| record.starts_with(b"PK\x05\x06"));
    let counts =
        found.filter_map(|record| Some(u16::from_le_bytes(*record.get(10..12)?.first_chunk()?)));
    Ok(counts.max())
}

/// The error for a zip archive without the record at its end.
pub(super) fn cut_archive() -> Error {
    Error::malformed("the zip archive is incomplete: the record at its end is missing")
        .advise("the file is cut short: fetch it again")
}

/// The error for a format that is recognized by its first bytes.
fn by_magic(probe: &Probe<'_>) -> Option<Error> {
    let foreign = FOREIGN.iter().find(|foreign| probe.head.starts_with(foreign.magic))?;
    Some(Error::new(foreign.kind, foreign.what).advise(foreign.advice))
}

/// Whether the file is a zip archive that was cut short.
fn is_cut_archive(probe: &Probe<'_>) -> bool {
    let source = probe.source.filter(|_| probe.head.starts_with(b"PK\x03\x04"));
    source.is_some_and(|source| most_entries(source).is_ok_and(|count| count.is_none()))
}

/// Whether a name is that of a file that was cut into pieces, without regard to its tensors, such as
/// `model.gguf-split-a` and `model.gguf.part1of2`.
fn is_piece(name: &str) -> bool {
    let rests = [".gguf", ".safetensors"].iter().filter_map(|end| Some(name.rsplit_once(end)?.1));
    let words = |rest: &str| {
        let rest = rest.trim_start_matches(['-', '.', '_']);
        let number = ["split", "part"].iter().find_map(|word| rest.strip_prefix(word));
        number.is_some_and(|number| !number.is_empty())
    };
    rests.into_iter().any(words)
}

/// The error for a piece of a file.
pub(super) fn piece(probe: &Probe<'_>) -> Option<Error> {
    let name = probe.path.file_name()?.to_str()?;
    let error = || {
        Error::new(ErrorKind::UnknownContainer, "one piece of a file that was cut into several")
            .advise("join all pieces in order, for example with `cat`, and give the whole file")
    };
    (probe.directory.is_none() && is_piece(name)).then(error)
}

/// The error for a format that is recognized by more than its first bytes.
fn other_format(probe: &Probe<'_>, name: &str) -> Option<Error> {
    let has = |text: &[u8]| probe.head.windows(text.len()).any(|window| window == text);
    let (kind, what, advice) = if is_onnx(probe.head, name) {
        (ErrorKind::Unsupported, "an ONNX model", ONNX)
    } else if probe.head.get(4..8) == Some(b"TFL3") {
        let advice = "fetch the model's .safetensors or GGUF files";
        (ErrorKind::Unsupported, "a TensorFlow Lite model", advice)
    } else if is_ctranslate2(probe.head) {
        (ErrorKind::Unsupported, "a model of CTranslate2", CTRANSLATE2)
    } else if is_old_imatrix(probe.head) {
        let what = "an importance matrix in llama-imatrix's older format, not a model";
        (ErrorKind::Unsupported, what, IMATRIX)
    } else if matches!(probe.head, [b'\n', _, b'\n', ..]) && (has(b"<unk>") || has(b"</s>")) {
        (ErrorKind::UnknownContainer, "a SentencePiece tokenizer, not weights", DIRECTORY)
    } else {
        return None;
    };
    Some(advised(Error::new(kind, what), advice))
}

/// Adds advice, which names the option for importance matrices as `{}`.
pub(super) fn advised(error: Error, advice: &'static str) -> Error {
    match advice.contains("{}") {
        true => error.advise_option(advice, AdvisedOption::Importance),
        false => error.advise(advice),
    }
}

/// Whether the file is an ONNX `ModelProto`: field 1 is the version as a small number, and the next
/// field is the name of the program that wrote it. Some files have other fields next.
fn is_onnx(head: &[u8], name: &str) -> bool {
    let [0x08, 1..=63, rest @ ..] = head else { return false };
    match rest {
        [0x12, len @ 1..=64, rest @ ..] => rest.get(..usize::from(*len)).is_some_and(|producer| {
            producer.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ')
        }),
        _ => name.ends_with(".onnx"),
    }
}

/// Whether the file is a model of CTranslate2: a version in four bytes, the length of a name in two, and the name of the
/// model's specification, which ends in `Spec` and a zero byte.
fn is_ctranslate2(head: &[u8]) -> bool {
    let [1..=32, 0, 0, 0, len @ 6..=64, 0, rest @ ..] = head else { return false };
    let name = rest.get(..usize::from(*len)).and_then(|name| name.strip_suffix(b"Spec\0"));
    name.is_some_and(|name| name.iter().all(u8::is_ascii_alphanumeric))
}

/// The first bytes of a file of the directory that is probed; `None` if it cannot be read.
pub(super) fn head_in_folder(probe: &Probe<'_>, name: &str) -> Option<Vec<u8>> {
    let source = probe.options.files.open(&probe.path.join(name), Access::Read).ok()?;
    let head = source.bytes(0..source.len().min(Probe::HEAD as u64)).ok()?;
    Some(head.to_vec())
}

/// The error for a folder whose weights are such a file.
pub(super) fn ctranslate2_folder(probe: &Probe<'_>, names: &[String]) -> Option<Error> {
    const WEIGHTS: &str = "model.bin";
    names.iter().find(|name| *name == WEIGHTS)?;
    is_ctranslate2(&head_in_folder(probe, WEIGHTS)?).then(|| {
        let fault = format!("the directory contains only a model of CTranslate2, {WEIGHTS}");
        Error::new(ErrorKind::Unsupported, fault).advise(CTRANSLATE2)
    })
}

/// Whether the file is an importance matrix of llama-imatrix before GGUF: the number of entries,
/// then for each the length of a tensor's name, the name, the number of calls and of values.
fn is_old_imatrix(head: &[u8]) -> bool {
    let number = |at: usize| {
        let bytes = head.get(at..)?.first_chunk::<4>()?;
        usize::try_from(u32::from_le_bytes(*bytes)).ok()
    };
    let (Some(1..=1_000_000), Some(len @ 1..=256)) = (number(0), number(4)) else { return false };
    let name = head.get(8..).and_then(|rest| rest.get(..len));
    name.is_some_and(|name| name.iter().all(u8::is_ascii_graphic) && name.ends_with(b".weight"))
}

/// The start of a file that is text.
fn text<'p>(probe: &Probe<'p>) -> Option<&'p str> {
    let text = match std::str::from_utf8(probe.head) {
        Ok(text) => text,
        // The end of the head may cut a character.
        Err(cut) if cut.error_len().is_none() => {
            std::str::from_utf8(probe.head.get(..cut.valid_up_to())?).ok()?
        }
        Err(_) => return None,
    };
    let text = text.trim();
    let printable = |c: char| !c.is_control() || c.is_ascii_whitespace();
    Some(text).filter(|text| !text.is_empty() && text.chars().all(printable))
}

/// The error for text where weights were expected: what a server says instead of sending a file.
fn server_answer(probe: &Probe<'_>) -> Option<Error> {
    let text = text(probe)?;
    let json = Json::parse(text.as_bytes()).ok();
    let said = json.as_ref().and_then(|json| {
        ["error", "message", "detail"].iter().find_map(|key| match json.get(key)? {
            Json::String(said) => Some(said.as_str()),
            inner => inner.get("message")?.as_str(),
        })
    });
    let what = match (text.starts_with(['{', '[']), said) {
        (_, Some(said)) => format!("a JSON document, not weights; it says \"{said}\""),
        (true, None) => "a JSON document, not weights".to_owned(),
        (false, None) => {
            let first: String = text.lines().next().unwrap_or_default().chars().take(80).collect();
            format!("text, not weights; it begins with \"{first}\"")
        }
    };
    let advice = match is_content_addressed(probe.path) {
        true => "a document of a model in a cache or a store: give the model instead",
        false => DOWNLOAD,
    };
    Some(Error::new(ErrorKind::UnknownContainer, what).advise(advice))
}

/// The error for a file of no known container and no recognized format.
pub(super) fn unknown(probe: &Probe<'_>) -> Error {
    let json = probe.head.trim_ascii_start().starts_with(b"{");
    if let Some(answer) = server_answer(probe).filter(|_| json) {
        return answer;
    }
    match text(probe) {
        // Shorter ones may be the start of a file that was cut short.
        Some(text) if text.len() > 8 => {
            let is_modelfile = text.lines().any(|line| line.starts_with("FROM "));
            let advice = match is_modelfile {
                true => "`weighbridge create NAME -f FILE` creates a model from a Modelfile",
                false => "give the path of the model: a file or a directory",
            };
            Error::new(ErrorKind::UnknownContainer, "a text file, not a model").advise(advice)
        }
        _ => Error::new(ErrorKind::UnknownContainer, "the file is neither GGUF nor safetensors"),
    }
}

/// Whether the whole file is a relative path, as when git checks out links where it cannot create
/// them.
fn is_link_as_text(probe: &Probe<'_>) -> bool {
    probe.len == probe.head.len() as u64
        && probe.head.starts_with(b"../")
        && probe.head.iter().all(|byte| byte.is_ascii_graphic())
}

fn is_html(text: &[u8]) -> bool {
    ["<!doctype html", "<html", "<?xml", "<head"].iter().any(|with| starts(text, with))
}

fn starts(text: &[u8], with: &str) -> bool {
    text.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with.as_bytes()))
}

/// The error for an XML document, such as the answer of a storage server that has no such file. HTML may be XML too.
fn xml(text: &[u8]) -> Option<Error> {
    if text.first() != Some(&b'<') {
        return None;
    }
    let shown = String::from_utf8_lossy(text);
    let is_xml = starts(text, "<?xml") && !shown.to_ascii_lowercase().contains("<html");
    if !is_xml && !starts(text, "<error>") {
        return None;
    }
    let inner = |name: &str| {
        let (_, rest) = shown.split_once(&format!("<{name}>"))?;
        let (said, _) = rest.split_once(&format!("</{name}>"))?;
        Some(Text::new(said.as_bytes()).brief())
    };
    let said = inner("Message").or_else(|| inner("Code"));
    let what = match said {
        Some(said) => {
            format!("the XML error page of a storage server, not weights; it says \"{said}\"")
        }
        None => "an XML document, not a model".to_owned(),
    };
    Some(Error::new(ErrorKind::UnknownContainer, what).advise(DOWNLOAD))
}

pub(super) fn is_partial(name: &str) -> bool {
    PARTIAL.iter().any(|ending| name.ends_with(ending))
}
