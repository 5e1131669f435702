//! Opening files of whisper.cpp.

use std::sync::Arc;

use super::super::rules::RuleViolations;
use super::super::{DetectedPath, OpenOptions, Probe, Strictness};
use super::header::WhisperHeader;
use super::{header, tensors};
use crate::bytes::Source;
use crate::error::{Error, Result};
use crate::metadata::{self, Metadata};
use crate::store::{Encoding, Store, StoreBuilder, StoredFile};

/// The name of the container.
pub(super) const NAME: &str = "whisper-ggml";

/// 0x67676d6c, "ggml" in the byte order of big-endian machines (`GGML_FILE_MAGIC`).
const MAGIC: &[u8] = b"lmgg";

/// Whether a file that starts so is one of whisper.cpp's.
pub(in crate::container) fn is_head(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

pub(super) fn detect(probe: &Probe<'_>) -> bool {
    is_head(probe.head)
}

pub(super) fn open(opened: DetectedPath, options: &OpenOptions) -> Result<Store> {
    match opened {
        DetectedPath::File(source) => {
            let path = source.path().to_path_buf();
            read(source, options).map_err(|error| error.in_file(&path))
        }
        DetectedPath::Directory(..) => {
            Err(Error::mismatch("files of whisper.cpp are opened one by one"))
        }
    }
}

fn read(source: Source, options: &OpenOptions) -> Result<Store> {
    let mut rules = RuleViolations::new(options.strictness);
    let WhisperHeader { form, mut text, items, listing, counts, end } =
        header::parse(&source, options)?;
    let before = listing.len();
    let listing = tensors::list(&source, end, &mut text, listing, options, &mut rules)?;
    let found = listing.len().saturating_sub(before) as u64;
    let expected = form.tensors(&counts);
    if found == 0 {
        rules.noted(end, || "no tensors, as in the files that whisper.cpp is tested with".into());
    } else if found != expected {
        // The file has no table and no tensor count, so only the expected number reveals that it
        // was truncated between two tensors.
        let allowed = if found < expected { Strictness::Lenient } else { Strictness::Default };
        let architecture = form.architecture;
        rules.broken(allowed, source.len(), || {
            format!(
                "{found} tensors, but {expected} belong to a {architecture} model of these numbers, \
                 and whisper.cpp refuses any other"
            )
        })?;
    }
    let header = Arc::new(text.bytes);
    let encoding = metadata::HeaderEncoding::default();
    let mut builder = StoreBuilder::new(NAME, Encoding::Ggml, source.path());
    // The keys are those of the form's fields, which are unique.
    (builder.metadata, _) = Metadata::new(Arc::clone(&header), encoding, items)?;
    builder.notes = rules.into_notes(source.path());
    let source = Arc::new(source);
    builder.add(StoredFile { source, header, big_endian: false }, listing)?;
    let indexed = builder.index(|_, _, _| Error::malformed("duplicate tensor name"))?;
    Ok(indexed.finish())
}
