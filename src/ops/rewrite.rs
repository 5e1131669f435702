//! The `split`, `merge`, `align` and `meta` verbs: the same tensors in other files, or with other
//! metadata.

use std::path::{Path, PathBuf};

use super::verify::{Consistency, check_consistency, narrow_alignment};
use super::{account, modules};
use crate::bytes::blob_behind;
use crate::container::gguf::write::model_keys;
use crate::container::writer::{NewDocument, Writer};
use crate::container::{Shards, Strictness, gguf, ollama, safetensors};
use crate::error::{Error, Result};
use crate::metadata::KeyValues;
use crate::model::Model;
use crate::store::{Encoding, Store};
use crate::write::{Builder, PageChange, WriteOptions, WritePlan};

/// Plans one file from a model in several files, or a copy of a single file. `alignment` is the
/// alignment of the tensor data in bytes: any power of two in GGUF, 64 or 8 in safetensors. A note says that llama.cpp
/// aborts with less than 32.
///
/// # Errors
///
/// `Unsupported` if the model's files are neither GGUF nor safetensors, or if they cannot hold one
/// of its tensors.
pub fn merge(model: &Model, alignment: Option<u64>) -> Result<WritePlan> {
    let mut builder = copy_model(model)?;
    builder.one_file();
    if let Some(alignment) = alignment {
        builder.alignment(alignment);
        if model.encoding() == Encoding::Gguf {
            narrow_alignment(alignment).into_iter().for_each(|note| builder.note(note));
        }
    }
    account::complete(model, &mut builder)?;
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
    let mut builder = copy_model(model)?;
    let stem = match store.encoding() {
        Encoding::Gguf => stem(path)?,
        _ => String::new(),
    };
    builder.shards(shards, stem);
    if store.encoding() == Encoding::Safetensors {
        for (name, bytes) in store.read_companions()? {
            builder.push_document(NewDocument::new(name, bytes));
        }
        for document in modules::copies(model)? {
            if document.name.contains('/') {
                builder.push_document(document);
            }
        }
    }
    account::complete(model, &mut builder)?;
    builder.plan()
}

/// The start of the shards' names.
pub(super) fn stem(path: &Path) -> Result<String> {
    let name = path.file_name().and_then(|name| name.to_str());
    let stem = name.map(|name| name.strip_suffix(".gguf").unwrap_or(name).to_owned());
    stem.ok_or_else(|| Error::mismatch("the path does not end in a file name").in_file(path))
}

/// The note on an adapter of Ollama's store, which is a file of its own.
const ATTACHED: &str =
    "the adapter that Ollama's store attaches to the model is left out; `convert` merges it";

/// Starts a builder with all tensors and metadata of a model, unchanged.
fn copy_model(model: &Model) -> Result<Builder> {
    let store = model.store();
    let mut builder = Builder::with_writer(writer(store)?);
    builder.reads(store);
    *builder.metadata() = model_keys(store.metadata());
    builder.push_copies_of(model);
    if model.attachments().iter().any(|layer| layer.kind == "adapter") {
        builder.note(ATTACHED);
    }
    Ok(builder)
}

/// The way in which [`edit_metadata`] changed a model.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum EditOutcome {
    /// It overwrote bytes of the file in place.
    InPlace,
    /// It wrote a new file, which replaced the old one.
    Rewritten,
    /// It added a blob to Ollama's store and put it into the model's manifest. The old blob stays,
    /// because other models may use it.
    NewBlob,
}

/// Changes the metadata of a model in one GGUF file: [`MetadataEdit::plan`] and
/// [`MetadataEdit::run`].
///
/// # Errors
///
/// Same as these.
pub fn edit_metadata(
    path: &Path,
    edit: impl FnOnce(&mut KeyValues) -> Result<()>,
    options: &WriteOptions<'_>,
) -> Result<EditOutcome> {
    MetadataEdit::plan(&Model::open(path)?, edit)?.run(options)
}

/// A planned change of a model's metadata. Nothing is written until it is [run](Self::run).
#[derive(Debug)]
pub struct MetadataEdit {
    /// The file that is changed, or the manifest that gets a new blob.
    path: PathBuf,
    method: EditMethod,
}

#[derive(Debug)]
enum EditMethod {
    InPlace(PageChange),
    Rewritten(WritePlan),
    NewBlob(WritePlan),
}

impl MetadataEdit {
    /// Plans a change of the metadata of a model in one GGUF file.
    ///
    /// If the tensors keep their positions and all changed bytes lie within one page of the file,
    /// which the system writes as a whole, the file is changed in place. Otherwise the file is
    /// rewritten and replaced. A file whose name is the digest of its content is never changed: a
    /// model in Ollama's store gets a new blob and a new manifest, and a blob of the Hugging Face
    /// cache is refused.
    ///
    /// # Errors
    ///
    /// Same as [`check_editable`]; any error of `edit`; `Mismatch` if the file is named by its digest
    /// and belongs to no manifest that can be changed.
    pub fn plan(model: &Model, edit: impl FnOnce(&mut KeyValues) -> Result<()>) -> Result<Self> {
        check_editable(model)?;
        let store = model.store();
        let mut keys = KeyValues::of(store.metadata());
        edit(&mut keys)?;
        if store.container() == ollama::OLLAMA.name {
            let path = store.path().to_path_buf();
            let manifest = ollama::replaceable_model(&path, store.limits())?;
            let plan = with_keys(model, keys, &ollama::write::GGUF_WRITER)?.replacing(manifest);
            return Ok(Self { path, method: EditMethod::NewBlob(plan) });
        }
        let file = store.files().next().map(Path::to_path_buf).unwrap_or_default();
        if let Some(blob) = blob_behind(&file) {
            let fault = format!(
                "the file is {}, whose name is the digest of its content, so it must not be changed",
                blob.display()
            );
            let advice = "write the changed model to another file; for a model of Ollama's, give the \
                          model's name";
            return Err(Error::mismatch(fault).advise(advice).in_file(store.path()));
        }
        // The target of a link is changed, not the link.
        let path = file.canonicalize().unwrap_or(file);
        let plan = with_keys(model, keys, &gguf::write::WRITER)?;
        if !has_other_names(&path)
            && let Some(bytes) = plan.header_in_place(store)
            && let Some(change) = PageChange::to_start_with(&path, &bytes)?
        {
            return Ok(Self { path, method: EditMethod::InPlace(change) });
        }
        Ok(Self { path, method: EditMethod::Rewritten(plan) })
    }

    /// The way in which the change will be made.
    pub fn outcome(&self) -> EditOutcome {
        match self.method {
            EditMethod::InPlace(_) => EditOutcome::InPlace,
            EditMethod::Rewritten(_) => EditOutcome::Rewritten,
            EditMethod::NewBlob(_) => EditOutcome::NewBlob,
        }
    }

    /// Makes the change.
    ///
    /// # Errors
    ///
    /// Same as [`WritePlan::run`].
    pub fn run(&self, options: &WriteOptions<'_>) -> Result<EditOutcome> {
        let Self { path, method } = self;
        match method {
            EditMethod::InPlace(change) => change.apply(path)?,
            EditMethod::Rewritten(plan) => plan.replace(path, options)?,
            EditMethod::NewBlob(plan) => {
                plan.run(path, &options.overwrite(true))?;
            }
        }
        Ok(self.outcome())
    }
}

/// Plans a copy of a GGUF model with other metadata, as one file.
///
/// # Errors
///
/// `Unsupported` if the model's files are not GGUF; any error of `edit`.
pub fn copy_with_metadata(
    model: &Model,
    edit: impl FnOnce(&mut KeyValues) -> Result<()>,
) -> Result<WritePlan> {
    check_gguf(model)?;
    let mut keys = model_keys(model.store().metadata());
    edit(&mut keys)?;
    with_keys(model, keys, &gguf::write::WRITER)
}

/// What [`check_consistency`] would find in a copy of a GGUF model with other metadata. Nothing is written.
///
/// # Errors
///
/// Same as [`copy_with_metadata`], and as [`check_consistency`] of the copy.
pub fn consistency_with_metadata(
    model: &Model,
    edit: impl FnOnce(&mut KeyValues) -> Result<()>,
) -> Result<Consistency> {
    check_gguf(model)?;
    let mut keys = model_keys(model.store().metadata());
    edit(&mut keys)?;
    let copy = copy_with_keys(model, keys, &gguf::write::WRITER).model(model)?;
    copy.map_or_else(
        || Ok(Consistency::default()),
        |copy| check_consistency(&copy, Strictness::Default),
    )
}

fn with_keys(model: &Model, keys: KeyValues, writer: &'static Writer) -> Result<WritePlan> {
    let mut builder = copy_with_keys(model, keys, writer);
    account::complete(model, &mut builder)?;
    builder.plan()
}

fn copy_with_keys(model: &Model, keys: KeyValues, writer: &'static Writer) -> Builder {
    let mut builder = Builder::with_writer(writer);
    builder.reads(model.store());
    *builder.metadata() = keys;
    builder.push_copies_of(model);
    builder
}

/// Checks that [`MetadataEdit`] can change a model: its files are one GGUF file.
///
/// # Errors
///
/// `Unsupported` for any other model.
pub fn check_editable(model: &Model) -> Result<()> {
    check_gguf(model)?;
    match model.files().len() {
        1 => Ok(()),
        files => Err(Error::unsupported(format!("the model is split into {files} files"))
            .advise("write a changed copy with `-o FILE`, or merge it first: `weighbridge merge`")
            .in_file(model.path())),
    }
}

/// Checks that the metadata are those of GGUF files.
fn check_gguf(model: &Model) -> Result<()> {
    let store = model.store();
    writer(store)?;
    if store.encoding() == Encoding::Gguf {
        return Ok(());
    }
    let (fault, advice) = match (store.container() == ollama::OLLAMA.name, store.is_directory()) {
        (true, _) => (
            "the metadata of a model of tensor blobs cannot be changed",
            "change those of the directory, and create the model again",
        ),
        (false, true) => (
            "the metadata of a directory cannot be changed: they are in config.json, \
             tokenizer_config.json and the headers of its safetensors files",
            "edit config.json and the files next to it with a text editor",
        ),
        (false, false) => (
            "the metadata of a safetensors file cannot be changed",
            "convert the model to GGUF, whose metadata can be changed. `weighbridge convert SRC DST --to safetensors` \
             writes format=pt, and the package safetensors any key: save_file(load_file(SRC), DST, metadata={...})",
        ),
    };
    Err(Error::unsupported(fault).advise(advice).in_file(store.path()))
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
            Err(Error::unsupported(fault).advise("convert the model to GGUF").in_file(store.path()))
        }
    }
}
