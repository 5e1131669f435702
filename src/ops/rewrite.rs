//! The `split`, `merge`, `align` and `meta` verbs: the same tensors in other files, or with other
//! metadata.

use std::path::Path;

use crate::bytes::blob_behind;
use crate::container::gguf::write::SPLIT_KEYS;
use crate::container::writer::{NewDocument, Writer};
use crate::container::{Shards, gguf, ollama, safetensors};
use crate::error::{Error, Result};
use crate::metadata::KeyValues;
use crate::model::Model;
use crate::store::{Encoding, Store};
use crate::write::{
    Builder, Method, OutTensor, Output, Producer, WriteOptions, WritePlan, overwrite_within_a_page,
};

/// Plans one file from a model in several files, or a copy of a single file. `alignment` is the
/// alignment of the tensor data in bytes: any power of two in GGUF, 64 or 8 in safetensors.
///
/// # Errors
///
/// `Unsupported` if the model's files are neither GGUF nor safetensors, or if they cannot hold one
/// of its tensors.
pub fn merge(model: &Model, alignment: Option<u64>) -> Result<WritePlan> {
    let mut builder = rewritten(model)?;
    for key in SPLIT_KEYS {
        builder.metadata().remove(key);
    }
    builder.one_file();
    if let Some(alignment) = alignment {
        builder.alignment(alignment);
    }
    builder.plan()
}

/// Plans a model as several files. A GGUF model becomes shards beside each other, whose names start
/// with that of `path`; a safetensors model becomes a directory with an index.
///
/// # Errors
///
/// Same as [`merge`].
pub fn split(model: &Model, shards: Shards, path: &Path) -> Result<WritePlan> {
    let store = model.store();
    let mut builder = rewritten(model)?;
    let stem = match store.encoding() {
        Encoding::Gguf => stem(path)?,
        _ => String::new(),
    };
    for key in SPLIT_KEYS {
        builder.metadata().remove(key);
    }
    builder.shards(shards, stem);
    if store.encoding() == Encoding::Safetensors {
        for (name, bytes) in store.read_companions()? {
            builder.push_document(NewDocument::new(name, bytes));
        }
    }
    builder.plan()
}

/// The start of the shards' names.
pub(super) fn stem(path: &Path) -> Result<String> {
    let name = path.file_name().and_then(|name| name.to_str());
    let stem = name.map(|name| name.strip_suffix(".gguf").unwrap_or(name).to_owned());
    stem.ok_or_else(|| Error::mismatch("the path does not end in a file name").in_file(path))
}

/// Starts a builder with all tensors and metadata of a model, unchanged.
fn rewritten(model: &Model) -> Result<Builder> {
    let store = model.store();
    let mut builder = Builder::with_writer(writer(store)?);
    builder.reads(store);
    *builder.metadata() = KeyValues::of(store.metadata());
    copied(model).into_iter().for_each(|tensor| builder.push(tensor));
    Ok(builder)
}

/// Adds all tensors and metadata of a GGUF model, as one file.
pub(super) fn merged_gguf(model: &Model, builder: &mut Builder) {
    *builder.metadata() = KeyValues::of(model.store().metadata());
    for key in SPLIT_KEYS {
        builder.metadata().remove(key);
    }
    copied(model).into_iter().for_each(|tensor| builder.push(tensor));
}

/// How [`edit_metadata`] changed a model.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Edited {
    /// It overwrote bytes of the file in place.
    InPlace,
    /// It wrote a new file, which replaced the old one.
    Rewritten,
    /// It added a blob to Ollama's store and put it into the model's manifest. The old blob stays,
    /// because other models may use it.
    NewBlob,
}

/// Changes the metadata of a model in one GGUF file.
///
/// If the tensors keep their positions and all changed bytes lie within one page of the file, which
/// the system writes as a whole, the file is changed in place. Otherwise the file is rewritten and
/// replaced. A file whose name is the digest of its content is never changed: a model in Ollama's
/// store gets a new blob and a new manifest, and a blob of the Hugging Face cache is refused.
///
/// # Errors
///
/// `Unsupported` if the model is not a single GGUF file; `Mismatch` if the file is named by its
/// digest and belongs to no manifest that can be changed; same as [`WritePlan::run`].
pub fn edit_metadata(
    path: &Path,
    edit: impl FnOnce(&mut KeyValues) -> Result<()>,
    options: &WriteOptions<'_>,
) -> Result<Edited> {
    let model = Model::open(path)?;
    let store = model.store();
    writer(store)?;
    if store.encoding() != Encoding::Gguf || store.files().len() != 1 {
        let fault = "metadata can be changed only in a model that is a single GGUF file";
        return Err(Error::unsupported(fault).in_file(path));
    }
    let file = store.files().next().map(Path::to_path_buf).unwrap_or_default();
    let mut keys = KeyValues::of(store.metadata());
    edit(&mut keys)?;
    let rewritten = |writer| {
        let mut builder = Builder::with_writer(writer);
        builder.reads(store);
        *builder.metadata() = keys;
        copied(&model).into_iter().for_each(|tensor| builder.push(tensor));
        builder.plan()
    };
    if store.container() == ollama::OLLAMA.name {
        let path = store.path().to_path_buf();
        let manifest = ollama::replaceable_model(&path, store.limits())?;
        let plan = rewritten(&ollama::write::GGUF_WRITER)?.replacing(manifest);
        plan.run(&path, &options.overwrite(true))?;
        return Ok(Edited::NewBlob);
    }
    if let Some(blob) = blob_behind(&file) {
        let fault = format!(
            "the file is {}, whose name is the digest of its content, so it must not be changed",
            blob.display()
        );
        let advice = "copy it to another name and change the copy; for a model of Ollama's, give the \
                      model's name";
        return Err(Error::mismatch(fault).advise(advice).in_file(path));
    }
    // The target of a link is changed, not the link.
    let file = file.canonicalize().unwrap_or(file);
    let plan = rewritten(&gguf::write::WRITER)?;
    if !has_other_names(&file)
        && let Some(bytes) = plan.header_in_place(store)
        && overwrite_within_a_page(&file, &bytes)?
    {
        return Ok(Edited::InPlace);
    }
    plan.replace(&file, options)?;
    Ok(Edited::Rewritten)
}

/// Whether the file has other names (hard links), one of which may be a digest.
fn has_other_names(file: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        file.metadata().is_ok_and(|found| found.nlink() > 1)
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        false
    }
}

/// The writer for a model's files, whichever container they belong to.
fn writer(store: &Store) -> Result<&'static Writer> {
    match store.encoding() {
        Encoding::Gguf => Ok(&gguf::write::WRITER),
        Encoding::Safetensors => Ok(&safetensors::write::WRITER),
        Encoding::Ggml => {
            let fault = "whisper.cpp files can be read, but not written";
            Err(Error::unsupported(fault)
                .advise("convert it: `weighbridge convert SRC DST --to gguf`")
                .in_file(store.path()))
        }
    }
}

/// All stored tensors, to be copied unchanged.
pub(super) fn copied(model: &Model) -> Vec<OutTensor> {
    let copy = |tensor: crate::model::Tensor| {
        let name = tensor.name().to_owned();
        OutTensor::new(name, Output::new(Producer::Packed(tensor), Method::Copied))
    };
    model.stored_tensors().map(copy).collect()
}
