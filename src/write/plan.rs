//! Plans: everything that will be written, decided before the first byte is.

use std::path::{Path, PathBuf};

use super::blobs::BlobTarget;
use super::target::{
    ExistingFile, WriteTarget, check_directory, check_file, check_folder, finish_all,
};
use super::{
    Account, Loss, OutFile, PlannedTensor, Producer, WriteOptions, directory, pipeline, set,
};
use crate::arch::Resolution;
use crate::bytes::Text;
use crate::container::writer::Placement;
use crate::error::{AdvisedOption, Error, Result};
use crate::json::Json;
use crate::place;
use crate::recipe::FileType;
use crate::store::{Part, Store};

/// The files that will be written, and how each tensor is produced. Nothing is written until the
/// plan is [run](Self::run). Making the plan reads only the scales that show whether a repacking is
/// exact.
#[derive(Debug)]
#[non_exhaustive]
pub struct WritePlan {
    /// The tensors, each with its method, in the order of writing.
    pub tensors: Vec<PlannedTensor>,
    /// Notes on what is left out or was assumed.
    pub notes: Vec<String>,
    /// The name of the format, in the words of `weighbridge list containers`: `GGUF`,
    /// `safetensors`, `MLX`.
    pub format: &'static str,
    /// The file type that the metadata state, by its llama-quantize name.
    pub file_type: Option<FileType>,
    /// The outcome of everything that is read: each tensor, key and file of the model. Empty for a
    /// plan that a [`Builder`](super::Builder) makes of tensors, without a model.
    pub account: Account,
    /// Canonical names of tensors that the architecture requires and the model lacks. Running a
    /// plan with any is an error unless [`WriteOptions::allow_incomplete`] is set.
    pub missing: Vec<String>,
    /// Stored names that the architecture does not have.
    unknown: Vec<String>,
    pub(super) files: Vec<OutFile>,
    pub(super) placement: Placement,
    /// A stored manifest in which the plan's only file replaces the weights.
    replaces: Option<Json>,
    /// The models that are read; their files are never written to.
    pub(super) sources: Vec<PathBuf>,
    /// The files of those models that are on servers: names, lengths and versions.
    pub(super) elsewhere: Vec<(PathBuf, u64, Option<String>)>,
}

/// The report of a plan that was run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WriteReport {
    /// The paths that were written: a file, a directory, shards, or a manifest.
    pub paths: Vec<PathBuf>,
    /// The files that were replaced, or deleted with the directory that was replaced.
    pub replaced: Vec<PathBuf>,
    /// Symbolic links that were replaced, each with its target. The targets are unchanged.
    pub replaced_links: Vec<(PathBuf, PathBuf)>,
    /// Bytes of all files.
    pub bytes: u64,
    /// Tensors that lost something when they were rounded or requantized.
    pub lost: Vec<(String, Loss)>,
}

impl WritePlan {
    pub(crate) fn new(
        format: &'static str,
        placement: Placement,
        files: Vec<OutFile>,
        tensors: Vec<PlannedTensor>,
        notes: Vec<String>,
        sources: Vec<PathBuf>,
    ) -> Self {
        let (missing, unknown, replaces, file_type) = (Vec::new(), Vec::new(), None, None);
        Self {
            tensors,
            notes,
            format,
            file_type,
            account: Account::default(),
            missing,
            unknown,
            files,
            placement,
            replaces,
            sources,
            elsewhere: Vec::new(),
        }
    }

    /// Makes the plan replace the weights of a stored manifest with its only file.
    pub(crate) fn replacing(mut self, manifest: Json) -> Self {
        self.replaces = Some(manifest);
        self
    }

    /// Adds the files of another plan after the first one, with this role.
    pub(crate) fn attach(&mut self, role: &str, part: Self) {
        let after = self.files.len().min(1);
        let files = part.files.into_iter().map(|file| OutFile { role: role.to_owned(), ..file });
        self.files.splice(after..after, files);
        self.notes.extend(part.notes);
        self.sources.extend(part.sources);
        self.elsewhere.extend(part.elsewhere);
    }

    /// All bytes before the first tensor, if every tensor keeps its position in the only file of
    /// `store`; otherwise `None`.
    pub(crate) fn header_in_place(&self, store: &Store) -> Option<Vec<u8>> {
        let [file] = self.files.as_slice() else { return None };
        let places = file.tensors.iter().map(|placed| placed.offsets.first().copied());
        let found = store.tensors().map(|tensor| Some(tensor.place(Part::Weight)?.1));
        let alone = file.tensors.iter().all(|placed| placed.offsets.len() == 1);
        let first = file.tensors.first()?.offsets.first().copied()?;
        // In a file of the other byte order, the tensors have that byte order too.
        let swapped = store.tensors().any(|tensor| tensor.is_big_endian());
        if swapped || !alone || !places.eq(found) {
            return None;
        }
        let mut bytes = file.header.clone();
        bytes.resize(usize::try_from(first).ok()?, 0);
        Some(bytes)
    }

    /// Marks the plan as that of a whole model: records which required tensors are missing, and
    /// notes which tensors are unknown.
    pub(crate) fn for_whole_model(mut self, resolution: &Resolution) -> Self {
        self.missing.clone_from(&resolution.missing);
        self.unknown.clone_from(&resolution.unknown);
        if let (Some(architecture), [_, ..]) = (resolution.architecture, &*resolution.unknown) {
            let shown = shortened(&resolution.unknown);
            let shown = Text::new(shown.as_bytes()).brief();
            self.notes.push(format!("unknown to {}: {shown}", architecture.name));
        }
        self
    }

    /// Checks that the plan may be run with these options.
    ///
    /// # Errors
    ///
    /// `Malformed` if the model lacks required tensors and [`WriteOptions::allow_incomplete`] is
    /// not set.
    pub fn check(&self, options: &WriteOptions<'_>) -> Result<()> {
        if self.missing.is_empty() || options.allow_incomplete {
            return Ok(());
        }
        let shown = shortened(&self.missing);
        let fault = format!("the model is incomplete: its architecture requires {shown}");
        let (fault, advice) = match self.unknown.as_slice() {
            [] => (fault, "fetch the missing files, or write the incomplete model with {}"),
            // Other names may stand for the same matrices.
            unknown => (
                format!(
                    "{fault}, and has no name for {}",
                    Text::new(shortened(unknown).as_bytes()).brief()
                ),
                "if the model is of another kind, write it as it is with {}",
            ),
        };
        let error = Error::malformed(fault).advise_option(advice, AdvisedOption::AllowIncomplete);
        Err(match self.sources.first() {
            Some(source) => error.in_file(source),
            None => error,
        })
    }

    /// Bytes of all files: the space needed on the disk, in addition to that of the files being
    /// replaced.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.len).fold(0, u64::saturating_add)
    }

    /// The names and lengths in bytes of the files. The name is empty for the file at the given
    /// path, and for a blob without a name in the manifest.
    pub fn files(&self) -> impl ExactSizeIterator<Item = (&str, u64)> {
        self.files.iter().map(|file| (file.name.as_str(), file.len))
    }

    /// The role of each of the [files](Self::files) in the model.
    pub(super) fn roles(&self) -> impl ExactSizeIterator<Item = &str> {
        self.files.iter().map(|file| file.role.as_str())
    }

    /// The names of the tensors in each of the [files](Self::files).
    pub fn tensors_by_file(&self) -> impl ExactSizeIterator<Item = Vec<&str>> {
        self.files.iter().map(|file| {
            let tensors = file.tensors.iter().map(|placed| &placed.tensor);
            let own = tensors.filter(|tensor| !matches!(tensor.output.producer, Producer::File(_)));
            own.map(|tensor| tensor.name.as_str()).collect()
        })
    }

    /// Writes the model. Whatever exists at `path` stays unchanged until the new model is complete.
    /// The files that are read are never written to.
    ///
    /// # Errors
    ///
    /// `Mismatch` if `path` exists and [`WriteOptions::overwrite`] is not set, or if it belongs to
    /// the model that is read; `Unsupported` for a path in an object store, which is written in
    /// [slices](Self::slices); same as [`check`](Self::check); `Io` if a file cannot be read or written,
    /// or the disk is full; `Cancelled`. After any error, no incomplete file is left.
    pub fn run(&self, path: &Path, options: &WriteOptions<'_>) -> Result<WriteReport> {
        self.check(options)?;
        check_local(path)?;
        let paths = match self.placement {
            Placement::Files => self.file_paths(path),
            Placement::Directory | Placement::Store(_) => vec![path.to_path_buf()],
        };
        let link = |path: &PathBuf| Some((path.clone(), path.read_link().ok()?));
        let replaced_links = paths.iter().filter_map(link).collect();
        if !matches!(self.placement, Placement::Store(_)) {
            paths.iter().try_for_each(|path| self.check_target(path))?;
        }
        let (lost, replaced) = match self.placement {
            Placement::Files => {
                if paths.len() > 1 {
                    set::settle(&paths, options.overwrite)?;
                }
                let targets = paths.iter().map(|path| WriteTarget::file(path, options.overwrite));
                let targets = targets.collect::<Result<Vec<WriteTarget>>>()?;
                let lost = pipeline::run_each(&self.files, &targets, options)?;
                (lost, finish_all(targets)?)
            }
            Placement::Directory => {
                let target = WriteTarget::directory(path, options.overwrite, &self.files)?;
                let lost = pipeline::run(&self.files, &target, options)?;
                (lost, target.finish_directory(&self.files)?)
            }
            Placement::Store(store) => {
                let mut blobs = BlobTarget::begin(store, path, options.overwrite)?;
                let lost = blobs.write(&self.files, options)?;
                let replaced = self.replaced(path, options)?;
                blobs.finish(&self.files, self.replaces.as_ref())?;
                (lost, replaced)
            }
        };
        Ok(WriteReport { paths, replaced, replaced_links, bytes: self.bytes(), lost })
    }

    /// Checks that the plan may be run at `path`, as [`run`](Self::run) does before it writes.
    ///
    /// # Errors
    ///
    /// `Mismatch` and `Unsupported` as for [`run`](Self::run); `NotFound` if the folder of `path` does not exist.
    pub fn check_place(&self, path: &Path, options: &WriteOptions<'_>) -> Result<()> {
        check_local(path)?;
        match self.placement {
            Placement::Store(_) => Ok(()),
            Placement::Directory => {
                self.check_target(path)?;
                check_folder(path)?;
                check_directory(path, options.overwrite, &self.files)
            }
            Placement::Files => {
                check_folder(path)?;
                let paths = self.file_paths(path);
                paths.iter().try_for_each(|path| self.check_target(path))?;
                // What a killed run has left of several is settled first.
                match paths.as_slice() {
                    [only] => check_file(only, ExistingFile::of(options.overwrite)),
                    _ => Ok(()),
                }
            }
        }
    }

    /// The files that running the plan at `path` would replace or delete; none without
    /// [`WriteOptions::overwrite`]. Of a symbolic link, only the link is replaced. A directory is replaced
    /// only if it is one model, with nothing else in it.
    ///
    /// # Errors
    ///
    /// `Mismatch` if `path` may not be replaced; `Io` if a directory cannot be listed.
    pub fn replaced(&self, path: &Path, options: &WriteOptions<'_>) -> Result<Vec<PathBuf>> {
        if !options.overwrite || place::scheme(path).is_some() {
            return Ok(Vec::new());
        }
        let exists = |path: &PathBuf| path.symlink_metadata().is_ok();
        match self.placement {
            Placement::Files => {
                let mut paths = self.file_paths(path);
                for path in &paths {
                    self.check_target(path)?;
                    check_file(path, ExistingFile::Overwrite)?;
                }
                paths.retain(exists);
                Ok(paths)
            }
            Placement::Directory => {
                self.check_target(path)?;
                check_directory(path, options.overwrite, &self.files)?;
                if path.is_symlink() || !path.exists() {
                    return Ok(Some(path.to_path_buf()).into_iter().filter(exists).collect());
                }
                let names = directory::replaceable(path, &self.files, options.overwrite)?;
                Ok(names.iter().map(|name| path.join(name)).collect())
            }
            Placement::Store(_) => {
                Ok(Some(path.to_path_buf()).into_iter().filter(exists).collect())
            }
        }
    }

    /// The paths of the files, for a plan that writes no directory.
    pub(super) fn file_paths(&self, path: &Path) -> Vec<PathBuf> {
        let folder = path.parent().unwrap_or(Path::new(""));
        let place = |file: &OutFile| match file.name.as_str() {
            "" => path.to_path_buf(),
            name => folder.join(name),
        };
        self.files.iter().map(place).collect()
    }

    /// Replaces the file that is read with the plan's only file. The old file stays in place until
    /// the new one is complete.
    pub(crate) fn replace(&self, path: &Path, options: &WriteOptions<'_>) -> Result<()> {
        let target = WriteTarget::file(path, true)?;
        pipeline::run(&self.files, &target, options)?;
        target.finish().map(|_| ())
    }

    /// Refuses a target that belongs to the source, which is read while the target is written.
    pub(super) fn check_target(&self, path: &Path) -> Result<()> {
        let Ok(target) = path.canonicalize() else { return Ok(()) };
        // A snapshot of the Hugging Face cache consists of links to files elsewhere; the snapshot
        // is source as well.
        let within = |path: &Path| path.canonicalize().is_ok_and(|path| path.starts_with(&target));
        let own = |source: &PathBuf| {
            within(source)
                || source.parent().is_some_and(|folder| target.is_dir() && within(folder))
        };
        match self.sources.iter().any(own) {
            true => Err(Error::mismatch("source and destination are the same file")
                .advise("write to another name")
                .in_file(path)),
            false => Ok(()),
        }
    }
}

/// Refuses the address of a server.
fn check_local(path: &Path) -> Result<()> {
    let Some(scheme) = place::scheme(path) else { return Ok(()) };
    let (fault, advice) = match scheme {
        "ollama" => (
            "no registry is written to",
            "`weighbridge convert SRC NAME --to ollama` writes to Ollama's store",
        ),
        "hf" => ("no hub is written to", "write a folder, then use `hf upload`"),
        _ => (
            "models are written to an object store in slices only",
            "write it in slices: `job plan`, `job run`, `job finish`",
        ),
    };
    Err(Error::unsupported(fault).advise(advice).in_file(path))
}

/// The first name of a list, and the number of the others.
fn shortened(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let first = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
