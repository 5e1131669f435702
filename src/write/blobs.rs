//! A model that is being written into Ollama's store.
//!
//! Until the end everything lies in `blobs/`, under names that begin as Ollama's temporary files do
//! (`sha256-`) and are no digests, so that a server takes them away when it starts, once they are an
//! hour old, as its own:
//!
//! ```text
//!  sha256-weighbridge-KEY      the manifest in the making; locked for as long as this program runs
//!  sha256-weighbridge-KEY-0    its blobs in the making
//! ```
//!
//! KEY stands for the model's name. So what a killed run leaves behind is known for what it is, and
//! the next run takes it away, whatever model it writes. At the end the blobs get their digests for
//! names, then the manifest its own.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value as Json;

use super::pipeline::{self, Lost, Open};
use super::target::{claimed, exists, folder, is_same, open_or_create, rename_to_new, reserve};
use super::{OutFile, WriteOptions};
use crate::bytes::{Access, Source};
use crate::container::ollama::{Digest, NewBlob, new_manifest, store_of_place, with_model};
use crate::digest::{sha256, sha256_of};
use crate::error::{Error, ErrorKind, Result};

/// What the names of unfinished files begin with.
const PREFIX: &str = "sha256-weighbridge-";

/// Files that are brought to the disk at once: a journal takes several in one go.
const SYNCED: usize = 8;

/// How often the dates of unfinished files are renewed. A server that starts takes away what is
/// older than an hour and belongs to no model.
const RENEWED: Duration = Duration::from_secs(10 * 60);

/// A model that is being written.
#[derive(Debug)]
pub(super) struct Blobs {
    store: PathBuf,
    /// Where the manifest will lie.
    manifest: PathBuf,
    /// Where it lies until the end.
    partial: PathBuf,
    lock: File,
    overwrite: bool,
    /// Blobs that are whole, in order.
    blobs: Vec<Blob>,
    begun: usize,
    renewed: Instant,
    /// Whether something unfinished is still there.
    pending: bool,
}

/// A blob that is whole.
#[derive(Debug)]
struct Blob {
    digest: Digest,
    len: u64,
    /// Where it lies until the end; nowhere if the store has had it already.
    unfinished: Option<PathBuf>,
}

impl Blobs {
    pub(super) fn begin(manifest: &Path, overwrite: bool) -> Result<Self> {
        let Some(store) = store_of_place(manifest) else {
            let fault = "no place of a manifest in a store of Ollama's";
            return Err(Error::mismatch(fault).in_file(manifest));
        };
        if manifest.exists() && !overwrite {
            return Err(exists(manifest));
        }
        let place = manifest.strip_prefix(&store).unwrap_or(manifest);
        // Case makes no difference to the server.
        let key = sha256_of(place.to_string_lossy().to_ascii_lowercase().as_bytes())?;
        let folder = store.join("blobs");
        make_folder(&folder)?;
        let partial = folder.join(format!("{PREFIX}{}", key.get(..16).unwrap_or(&key)));
        let lock = claimed(&partial, || open_or_create(&partial))?;
        let this = Self {
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
            .map_err(|error| Error::io("cannot take away what an earlier run left", error))
            .map_err(|error| error.in_file(&folder))?;
        Ok(this)
    }

    /// Takes away what killed runs have left: of this model, and of others whose lock nobody holds.
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
            // Blobs in the making without a manifest in the making belong to nobody.
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

    /// Writes blobs, and sees that they are on the disk.
    pub(super) fn write(&mut self, files: &[OutFile], options: &WriteOptions<'_>) -> Result<Lost> {
        let this = Mutex::new(self);
        let held = || this.lock().unwrap_or_else(PoisonError::into_inner);
        let open = |file: &OutFile| held().create(file.len);
        let close = |batch: Vec<Open>| held().settle(&batch);
        pipeline::in_batches(files, options, open, close)
    }

    fn create(&mut self, len: u64) -> Result<Open> {
        let mut path = self.partial.clone().into_os_string();
        path.push(format!("-{}", self.begun));
        let path = PathBuf::from(path);
        self.begun += 1;
        let here = |error: Error| error.in_file(&path);
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(|error| here(Error::io("cannot create it", error)))?;
        for_everyone(&file);
        reserve(&file, len).map_err(here)?;
        Ok(Open { file, path })
    }

    /// Makes digests of files that are written, and sees that they are on the disk, unless the store
    /// has them.
    fn settle(&mut self, batch: &[Open]) -> Result<()> {
        let jobs = Mutex::new(batch.iter().enumerate());
        let work = || {
            let mut done = Vec::new();
            loop {
                let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((number, open)) = job else { return Ok(done) };
                done.push((number, self.blob(open)?));
            }
        };
        let shares: Vec<Result<Vec<(usize, Blob)>>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..SYNCED.min(batch.len())).map(|_| scope.spawn(work)).collect();
            let joined = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(joined).collect()
        });
        let mut blobs = Vec::new();
        for share in shares {
            blobs.extend(share?);
        }
        blobs.sort_by_key(|(number, _)| *number);
        self.blobs.extend(blobs.into_iter().map(|(_, blob)| blob));
        if self.renewed.elapsed() > RENEWED {
            self.renew();
        }
        Ok(())
    }

    fn blob(&self, open: &Open) -> Result<Blob> {
        let source = Source::open(&open.path, Access::Read)?;
        let digest = Digest::parse(&format!("sha256:{}", sha256(&source)?))?;
        let len = source.len();
        let there = digest.path(&self.store);
        if is_intact(&there, len, &digest) {
            let failed = |error| Error::io("cannot take it away", error).in_file(&open.path);
            removed(&open.path).map_err(failed)?;
            touch(&there);
            return Ok(Blob { digest, len, unfinished: None });
        }
        open.sync()?;
        Ok(Blob { digest, len, unfinished: Some(open.path.clone()) })
    }

    /// Gives everything that is not yet part of a model today's date.
    fn renew(&mut self) {
        touch(&self.partial);
        for blob in &self.blobs {
            match &blob.unfinished {
                Some(path) => touch(path),
                None => touch(&blob.digest.path(&self.store)),
            }
        }
        self.renewed = Instant::now();
    }

    /// Gives the blobs their names, then writes the manifest: a new one, or `replaces` with the only
    /// blob in the place of its weights.
    pub(super) fn finish(mut self, files: &[OutFile], replaces: Option<&Json>) -> Result<()> {
        self.renew();
        let failed = |error| Error::io("cannot give it its name", error);
        for blob in &mut self.blobs {
            let there = blob.digest.path(&self.store);
            if let Some(path) = &blob.unfinished {
                let renamed = std::fs::rename(path, &there).map_err(failed);
                renamed.map_err(|error| error.in_file(path))?;
                blob.unfinished = None;
            }
            // A server that has started meanwhile may have taken it away.
            if there.metadata().map(|found| found.len()).ok() != Some(blob.len) {
                let fault = "another program has changed this blob meanwhile, or taken it away";
                return Err(Error::new(ErrorKind::Io, fault).in_file(&there));
            }
        }
        synced(&self.store.join("blobs"));
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
            (Some(manifest), [blob]) => with_model(manifest, blob),
            _ => new_manifest(&blobs),
        };
        let here = |error: Error| error.in_file(&self.partial);
        let written = std::io::Write::write_all(&mut &self.lock, &manifest);
        let written = written.and_then(|()| self.lock.sync_all());
        written.map_err(|error| here(Error::io("cannot write it", error)))?;
        for_everyone(&self.lock);
        let model = self.manifest.parent().unwrap_or(&self.store);
        make_folder(model)?;
        let named = match self.overwrite {
            true => std::fs::rename(&self.partial, &self.manifest),
            // A name that has come into being meanwhile is not this program's to replace.
            false => rename_to_new(&self.partial, &self.manifest),
        };
        named.map_err(failed).map_err(|error| error.in_file(&self.manifest))?;
        self.pending = false;
        // Names are on the disk only when their folders are.
        self.manifest.ancestors().skip(1).take(5).for_each(synced);
        Ok(())
    }
}

impl Drop for Blobs {
    fn drop(&mut self) {
        if self.pending {
            // What cannot be taken away now, the next run takes away. Blobs that have their digest
            // for a name stay: another model may have come to use them.
            if let Some(folder) = self.partial.parent() {
                let _ = self.clear(folder);
            }
            let _ = std::fs::remove_file(&self.partial);
        }
    }
}

/// Whether a blob of the store has the bytes that its name promises. One that has others, after a
/// crash or a bad edit, is replaced.
fn is_intact(path: &Path, len: u64, digest: &Digest) -> bool {
    let Ok(source) = Source::open(path, Access::Read) else { return false };
    source.len() == len && sha256(&source).is_ok_and(|found| found == digest.hex())
}

/// Takes a file away, if it is there.
fn removed(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Gives a file today's date, if it is this user's.
fn touch(path: &Path) {
    if let Ok(file) = File::open(path) {
        let _ = file.set_modified(SystemTime::now());
    }
}

/// Lets all users read a file: the server may run as another one.
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
    let failed = |error| Error::io("cannot create it", error).in_file(path);
    std::fs::create_dir_all(path).map_err(failed)
}

/// Sees that the names in a folder are on the disk, where the system can do that.
fn synced(path: &Path) {
    if let Ok(folder) = folder(path) {
        let _ = folder.sync_all();
    }
}
