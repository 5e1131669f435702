//! Writes a model into a store of blobs.
//!
//! Until the model is complete, its files are in the folder of the blobs under temporary names. The names
//! begin with `sha256-`, as those of the server's temporary files do, and are not digests. A server that
//! starts therefore deletes them once they are an hour old:
//!
//! ```text
//!  sha256-weighbridge-KEY      the manifest in the making; locked for as long as this program runs
//!  sha256-weighbridge-KEY-0    its blobs in the making
//! ```
//!
//! KEY is a hash of the model's name. The next run, of any model, recognizes the files of a killed
//! run by these names and deletes them. At the end each blob is renamed to its digest, and then the
//! manifest to its final name.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant, SystemTime};

use super::pipeline::{self, OpenFile, TensorLosses};
use super::rename::{exists, rename_to_new};
use super::target::{claimed, reserve};
use super::{OutFile, WriteOptions};
use crate::bytes::{Access, Source, is_same, open_folder, open_or_create};
use crate::container::writer::{BlobStore, NewBlob};
use crate::digest::{sha256, sha256_of};
use crate::error::{Error, ErrorKind, Result};
use crate::json::Json;
use crate::threads::Threads;

/// The prefix of the names of unfinished files.
const PREFIX: &str = "sha256-weighbridge-";

/// The number of files that are synced at the same time: a journal commits several in one step.
const SYNCED: usize = 8;

/// The interval at which the dates of unfinished files are renewed. A server that starts deletes
/// files that are older than an hour and belong to no model.
const RENEWED: Duration = Duration::from_secs(10 * 60);

/// The files of a model that is being written.
#[derive(Debug)]
pub(super) struct BlobTarget {
    format: &'static BlobStore,
    store: PathBuf,
    /// The final path of the manifest.
    manifest: PathBuf,
    /// The temporary path of the manifest, which is locked.
    partial: PathBuf,
    lock: File,
    overwrite: bool,
    /// The complete blobs, in order.
    blobs: Vec<FinishedBlob>,
    begun: usize,
    renewed: Instant,
    /// Whether unfinished files still exist.
    pending: bool,
}

/// A complete blob.
#[derive(Debug)]
struct FinishedBlob {
    /// The SHA-256 in hexadecimal.
    digest: String,
    len: u64,
    /// The temporary path; `None` if the store already had the blob.
    unfinished: Option<PathBuf>,
}

impl BlobTarget {
    pub(super) fn begin(
        format: &'static BlobStore,
        manifest: &Path,
        overwrite: bool,
    ) -> Result<Self> {
        let store = (format.root)(manifest)?;
        if manifest.exists() && !overwrite {
            return Err(exists(manifest));
        }
        let place = manifest.strip_prefix(&store).unwrap_or(manifest);
        // The server ignores case.
        let key = sha256_of(place.to_string_lossy().to_ascii_lowercase().as_bytes())?;
        let folder = store.join(format.blobs);
        make_folder(&folder)?;
        let partial = folder.join(format!("{PREFIX}{}", key.get(..16).unwrap_or(&key)));
        let lock = claimed(&partial, || open_or_create(&partial))?;
        let this = Self {
            format,
            store,
            manifest: manifest.to_path_buf(),
            partial,
            lock,
            overwrite,
            blobs: Vec::new(),
            begun: 0,
            renewed: Instant::now(),
            pending: true,
        };
        this.clear(&folder)
            .map_err(|error| {
                Error::io("cannot delete the unfinished files of an earlier run", error)
            })
            .map_err(|error| error.in_file(&folder))?;
        Ok(this)
    }

    /// Deletes the files of killed runs: those of this model, and those of other models whose lock
    /// nobody holds.
    fn clear(&self, folder: &Path) -> std::io::Result<()> {
        let mut runs: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
        for entry in std::fs::read_dir(folder)? {
            let name = entry?.file_name();
            let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else {
                continue;
            };
            let key = name.get(PREFIX.len()..).and_then(|rest| rest.split('-').next());
            let run = folder.join(format!("{PREFIX}{}", key.unwrap_or_default()));
            let files = runs.entry(run.clone()).or_default();
            files.extend(Some(folder.join(name)).filter(|file| *file != run));
        }
        for (run, files) in runs {
            let own = run == self.partial;
            // Unfinished blobs without an unfinished manifest belong to no run.
            let lock = if own { None } else { File::open(&run).ok() };
            if lock.as_ref().is_some_and(|lock| lock.try_lock().is_err() || !is_same(lock, &run)) {
                continue;
            }
            files.iter().try_for_each(|file| removed(file))?;
            if !own {
                removed(&run)?;
            }
        }
        self.lock.set_len(0)
    }

    /// Writes blobs and syncs them.
    pub(super) fn write(
        &mut self,
        files: &[OutFile],
        options: &WriteOptions<'_>,
    ) -> Result<TensorLosses> {
        let this = Mutex::new(self);
        let held = || this.lock().unwrap_or_else(PoisonError::into_inner);
        let open = |file: &OutFile| held().create(file.len);
        let close = |batch: Vec<OpenFile>| held().hash_batch(&batch);
        pipeline::in_batches(files, options, open, close)
    }

    fn create(&mut self, len: u64) -> Result<OpenFile> {
        let mut path = self.partial.clone().into_os_string();
        path.push(format!("-{}", self.begun));
        let path = PathBuf::from(path);
        self.begun += 1;
        let here = |error: Error| error.in_file(&path);
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(|error| here(Error::io("cannot create the file", error)))?;
        for_everyone(&file);
        reserve(&file, len).map_err(here)?;
        Ok(OpenFile { file, path })
    }

    /// Hashes files that have been written, and syncs them unless the store already has them.
    fn hash_batch(&mut self, batch: &[OpenFile]) -> Result<()> {
        let hash = |(): &mut (), open: &OpenFile| self.blob(open);
        let blobs = Threads::new(SYNCED).in_order(batch.iter(), || (), hash)?;
        self.blobs.extend(blobs);
        if self.renewed.elapsed() > RENEWED {
            self.renew();
        }
        Ok(())
    }

    fn blob(&self, open: &OpenFile) -> Result<FinishedBlob> {
        let source = Source::open(&open.path, Access::Read)?;
        let digest = sha256(&source)?;
        let len = source.len();
        let there = self.path(&digest);
        if is_intact(&there, len, &digest) {
            let failed =
                |error| Error::io("cannot delete the temporary file", error).in_file(&open.path);
            removed(&open.path).map_err(failed)?;
            touch(&there);
            return Ok(FinishedBlob { digest, len, unfinished: None });
        }
        open.sync()?;
        Ok(FinishedBlob { digest, len, unfinished: Some(open.path.clone()) })
    }

    /// The final path of a blob.
    fn path(&self, digest: &str) -> PathBuf {
        (self.format.blob)(&self.store, digest)
    }

    /// Sets the date of every file that is not yet part of a model to the current time.
    fn renew(&mut self) {
        touch(&self.partial);
        for blob in &self.blobs {
            match &blob.unfinished {
                Some(path) => touch(path),
                None => touch(&self.path(&blob.digest)),
            }
        }
        self.renewed = Instant::now();
    }

    /// Renames the blobs to their digests, then writes the manifest: a new one, or `replaces` with
    /// the only blob in place of its weights.
    pub(super) fn finish(mut self, files: &[OutFile], replaces: Option<&Json>) -> Result<()> {
        self.renew();
        let failed = |error| Error::io("cannot rename the temporary file", error);
        for blob in &mut self.blobs {
            let there = (self.format.blob)(&self.store, &blob.digest);
            if let Some(path) = &blob.unfinished {
                let renamed = std::fs::rename(path, &there).map_err(failed);
                renamed.map_err(|error| error.in_file(path))?;
                blob.unfinished = None;
            }
            // A server that was started in the meantime may have deleted it.
            if there.metadata().map(|found| found.len()).ok() != Some(blob.len) {
                let fault = "another program changed or deleted this blob while the model was being written";
                return Err(Error::new(ErrorKind::Io, fault).in_file(&there));
            }
        }
        synced(&self.store.join(self.format.blobs));
        let blobs = self.blobs.iter().zip(files);
        let blobs: Vec<NewBlob<'_>> = blobs
            .map(|(blob, file)| NewBlob {
                role: &file.role,
                name: &file.name,
                digest: &blob.digest,
                size: blob.len,
            })
            .collect();
        let manifest = match (replaces, blobs.as_slice()) {
            (Some(manifest), [blob]) => (self.format.with_weights)(manifest, blob),
            _ => (self.format.manifest)(&blobs),
        };
        let here = |error: Error| error.in_file(&self.partial);
        let written = std::io::Write::write_all(&mut &self.lock, &manifest);
        let written = written.and_then(|()| self.lock.sync_all());
        written.map_err(|error| here(Error::io("cannot write the file", error)))?;
        for_everyone(&self.lock);
        let model = self.manifest.parent().unwrap_or(&self.store);
        make_folder(model)?;
        let named = match self.overwrite {
            true => std::fs::rename(&self.partial, &self.manifest),
            // A file that another program has created in the meantime is not replaced.
            false => rename_to_new(&self.partial, &self.manifest),
        };
        named.map_err(failed).map_err(|error| error.in_file(&self.manifest))?;
        self.pending = false;
        // A rename is durable only after its folder has been synced.
        self.manifest.ancestors().skip(1).take(5).for_each(synced);
        Ok(())
    }
}

impl Drop for BlobTarget {
    fn drop(&mut self) {
        if self.pending {
            // Files that cannot be deleted now are deleted by the next run. Blobs that are already
            // named by their digest stay, because another model may use them by now.
            if let Some(folder) = self.partial.parent() {
                let _ = self.clear(folder);
            }
            let _ = std::fs::remove_file(&self.partial);
        }
    }
}

/// Whether the content of a blob in the store has the digest that names it. A blob with other
/// content, after a crash or an edit, is replaced.
fn is_intact(path: &Path, len: u64, digest: &str) -> bool {
    let Ok(source) = Source::open(path, Access::Read) else { return false };
    source.len() == len && sha256(&source).is_ok_and(|found| found == digest)
}

/// Deletes a file, if it exists.
fn removed(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Sets a file's date to the current time, if this user owns it.
fn touch(path: &Path) {
    if let Ok(file) = File::open(path) {
        let _ = file.set_modified(SystemTime::now());
    }
}

/// Lets all users read a file: the server may run as another user.
fn for_everyone(file: &File) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let _ = file.set_permissions(std::fs::Permissions::from_mode(0o644));
    }
    #[cfg(not(unix))]
    let _ = file;
}

fn make_folder(path: &Path) -> Result<()> {
    let failed = |error| Error::io("cannot create the file", error).in_file(path);
    std::fs::create_dir_all(path).map_err(failed)
}

/// Syncs a folder, and with it the names in it, where the system can do that.
fn synced(path: &Path) {
    if let Ok(folder) = open_folder(path) {
        let _ = folder.sync_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: BlobStore = BlobStore {
        name: "a store",
        blobs: "blobs",
        root: |manifest| Ok(manifest.parent().expect("a folder").to_path_buf()),
        blob: |store, hex| store.join("blobs").join(hex),
        manifest: |_| Vec::new(),
        with_weights: |_, _| Vec::new(),
    };

    fn begun() -> (tempfile::TempDir, BlobTarget) {
        let store = tempfile::tempdir().expect("a folder");
        let manifest = store.path().join("tale");
        let target = BlobTarget::begin(&STORE, &manifest, false).expect("a store");
        (store, target)
    }

    /// A server that starts deletes unfinished files that are older than an hour.
    #[test]
    fn long_runs_renew_the_dates_of_their_files() {
        let (_store, mut target) = begun();
        let old = SystemTime::now() - Duration::from_secs(7200);
        target.lock.set_modified(old).expect("a date");
        let modified = |target: &BlobTarget| {
            target.partial.metadata().expect("the file").modified().expect("a date")
        };
        target.hash_batch(&[]).expect("no files");
        assert_eq!(modified(&target), old, "ten minutes are not over");
        target.renewed = target.renewed.checked_sub(2 * RENEWED).expect("a time");
        target.hash_batch(&[]).expect("no files");
        assert!(modified(&target) > old + Duration::from_secs(3600));
        assert!(target.renewed.elapsed() < RENEWED);
    }

    /// A blob that the store had is no file of this run, and others may delete it.
    #[test]
    fn a_blob_that_is_gone_is_in_no_manifest() {
        for other in [None, Some(b"tal")] {
            let (store, mut target) = begun();
            let digest = sha256_of(b"tale").expect("a digest");
            let place = (STORE.blob)(store.path(), &digest);
            if let Some(bytes) = other {
                crate::bytes::put(&place, &[bytes]).expect("another file");
            }
            target.blobs.push(FinishedBlob { digest, len: 4, unfinished: None });
            let manifest = target.manifest.clone();
            let error = target.finish(&[], None).expect_err("no such blob");
            assert_eq!((error.kind(), error.path()), (ErrorKind::Io, Some(&*place)), "{error}");
            assert!(!manifest.exists());
        }
    }
}
