//! Downloads files in pieces, several at a time, and continues what a killed run has begun.
//!
//! Beside a file that is being fetched lies a list of the ranges that are there already, as JSON. A
//! file gets its name when it is whole, has the digest that the server states of it, if it states one,
//! and is on the disk.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::fs::{File, TryLockError};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::ranges::Ranges;
use crate::bytes::{Access, Source, is_same, open_or_create, put_by, write_all_at};
use crate::digest::FileDigest;
use crate::error::{Error, ErrorKind, Result};
use crate::json::{Json, json};
use crate::progress::{Meter, Watch};
use crate::remote::{Client, Located, Version};
use crate::threads::Threads;

/// The time after which a run looks again whether another has finished a file.
const WAIT: Duration = Duration::from_millis(100);

/// The identity of a file's content.
#[derive(Debug)]
pub(super) enum Content {
    /// Its digest, which the server states.
    Digest(FileDigest),
    /// Its version alone: what was fetched must be of the same one.
    Version(Version),
}

impl Content {
    /// An identifier that is stable across runs, if the server provides one.
    fn name(&self) -> Option<&str> {
        match self {
            Self::Digest(digest) => Some(digest.hex()),
            Self::Version(version) => version.mark(),
        }
    }

    /// Compares a file with its digest, if it is known.
    ///
    /// # Errors
    ///
    /// Those of [`FileDigest::check`].
    pub(super) fn check(
        &self,
        source: &Source,
        progress: impl Fn(u64) -> Result<()>,
    ) -> Result<()> {
        match self {
            Self::Digest(digest) => digest.check(source, progress),
            Self::Version(_) => Ok(()),
        }
    }
}

/// A file to download.
pub(super) struct Download {
    pub(super) address: String,
    pub(super) size: u64,
    pub(super) content: Content,
    /// The path of the complete file.
    pub(super) place: PathBuf,
    /// The path until it is complete, in the same folder.
    pub(super) partial: PathBuf,
    /// The file that is locked in the meantime, if it is not `partial`.
    pub(super) lock: Option<PathBuf>,
    /// A file of the same name or digest on this machine, which is copied if it has the digest.
    pub(super) copy: Option<PathBuf>,
}

/// The address is left out, since it may contain a signature.
impl fmt::Debug for Download {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { size, place, .. } = self;
        f.debug_struct("Download").field("size", size).field("place", place).finish_non_exhaustive()
    }
}

impl Download {
    /// Whether the whole file is there. Its name or its size stands for its content.
    pub(super) fn is_there(&self) -> bool {
        self.place.metadata().is_ok_and(|found| found.is_file() && found.len() == self.size)
    }

    /// The bytes that need not be fetched.
    pub(super) fn there(&self) -> u64 {
        if self.is_there() || self.copy.is_some() { self.size } else { self.fetched().len() }
    }

    /// The bytes that are copied.
    pub(super) fn copied(&self) -> u64 {
        if self.copy.is_some() && !self.is_there() { self.size } else { 0 }
    }

    /// The list of fetched ranges.
    fn list(&self) -> PathBuf {
        with_ending(&self.partial, ".ranges")
    }

    /// The ranges that earlier runs have fetched.
    fn fetched(&self) -> Ranges {
        let read = || {
            let found = self.partial.metadata().ok().filter(|found| found.len() == self.size);
            found?;
            let source = Source::open(&self.list(), Access::Read).ok()?;
            let text = source.bytes(0..source.len().min(1 << 20)).ok()?;
            let json: Json = Json::parse(&text).ok()?;
            let same = json.get("digest")?.as_str()? == self.content.name()?
                && json.get("size")?.as_u64()? == self.size;
            let mut ranges = Ranges::default();
            for range in json.get("fetched")?.as_array()? {
                let (from, to) = (range[0].as_u64()?, range[1].as_u64()?);
                (from <= to && to <= self.size).then(|| ranges.add(from..to))?;
            }
            same.then_some(ranges)
        };
        read().unwrap_or_default()
    }

    /// Writes the list of fetched ranges.
    fn record(&self, fetched: &Ranges) -> std::io::Result<()> {
        let ranges: Vec<[u64; 2]> = fetched.iter().map(|range| [range.start, range.end]).collect();
        let json = json!({"digest": self.content.name(), "size": self.size, "fetched": ranges});
        put_by(&self.unfinished_list(), &self.list(), &[json.to_string().as_bytes()], false)
    }

    /// The list while it is being written. Only the run that holds the lock writes it.
    fn unfinished_list(&self) -> PathBuf {
        with_ending(&self.partial, ".ranges.partial")
    }

    /// Deletes the list, of which the whole file has no need. A run that was killed may have left it.
    fn forget_list(&self) {
        let _ = std::fs::remove_file(self.list());
        let _ = std::fs::remove_file(self.unfinished_list());
    }

    /// Deletes what was fetched of a file that is not the wanted one.
    fn discard(&self) {
        self.forget_list();
        let _ = std::fs::remove_file(&self.partial);
    }

    fn failed(&self, doing: &'static str) -> impl FnOnce(std::io::Error) -> Error + '_ {
        move |error| Error::io(doing, error).in_file(&self.partial)
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}

/// The settings of downloads.
pub(super) struct Settings<'s> {
    pub(super) client: &'s Arc<Client>,
    /// The most requests at the same time.
    pub(super) connections: usize,
    /// The longest range of one request.
    pub(super) piece: u64,
    pub(super) watch: Watch<'s>,
    /// Called with the number of a download whose file is in its place.
    pub(super) finished: &'s (dyn Fn(usize) -> Result<()> + Sync),
}

/// Downloads files.
///
/// # Errors
///
/// The first error of any file; `Malformed` for a file that has another digest; `Cancelled`. What was
/// fetched stays for the next run.
pub(super) fn run(downloads: &[Download], settings: &Settings<'_>) -> Result<()> {
    let total = downloads.iter().map(|download| download.size).sum();
    let run = Run {
        downloads,
        settings,
        meter: Meter::new(total, settings.watch),
        queue: Mutex::default(),
        changed: Condvar::new(),
        stopped: AtomicBool::new(false),
    };
    // A thread that was stopped because of another's error has none.
    let connections = settings.connections.max(1);
    Threads::new(connections).in_order(0..connections, || (), |(), _| run.work()).map(drop)
}

/// All files of a run, and what is left to do.
struct Run<'r> {
    downloads: &'r [Download],
    settings: &'r Settings<'r>,
    meter: Meter<'r>,
    queue: Mutex<Queue<'r>>,
    /// Signals that the queue has changed.
    changed: Condvar,
    /// An error has ended the run.
    stopped: AtomicBool,
}

#[derive(Default)]
struct Queue<'r> {
    /// The number of files that were begun.
    begun: usize,
    /// The number of threads that are determining the missing ranges of a file.
    beginning: usize,
    pieces: VecDeque<(Arc<Begun<'r>>, Range<u64>)>,
}

/// A file that is being fetched.
struct Begun<'r> {
    number: usize,
    download: &'r Download,
    located: Located,
    file: File,
    /// Held until the file is whole.
    _lock: File,
    fetched: Mutex<Fetched>,
    /// Whether a thread is writing the list of ranges.
    recording: AtomicBool,
    /// Pieces that are not fetched yet.
    pieces: AtomicUsize,
}

#[derive(Default)]
struct Fetched {
    ranges: Ranges,
    /// Bytes that the list on the disk does not have.
    unrecorded: u64,
}

/// The next task of a thread.
enum Task<'r> {
    Begin(usize),
    Fetch(Arc<Begun<'r>>, Range<u64>),
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'r> Run<'r> {
    /// Works until nothing is left to do.
    fn work(&self) -> Result<()> {
        while let Some(task) = self.next() {
            let done = match task {
                Task::Begin(number) => {
                    let begun = self.begin(number);
                    held(&self.queue).beginning -= 1;
                    begun
                }
                Task::Fetch(begun, range) => self.fetch(&begun, range),
            };
            if done.is_err() {
                self.stopped.store(true, Ordering::Relaxed);
            }
            self.changed.notify_all();
            done?;
        }
        Ok(())
    }

    fn next(&self) -> Option<Task<'r>> {
        let mut queue = held(&self.queue);
        loop {
            if self.stopped.load(Ordering::Relaxed) {
                return None;
            }
            // Pieces come before new files, so that no file waits for another while it is locked.
            if let Some((begun, range)) = queue.pieces.pop_front() {
                return Some(Task::Fetch(begun, range));
            }
            if queue.begun < self.downloads.len() {
                queue.begun += 1;
                queue.beginning += 1;
                return Some(Task::Begin(queue.begun - 1));
            }
            if queue.beginning == 0 {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Locks a file, finds out what is missing, and queues it.
    fn begin(&self, number: usize) -> Result<()> {
        let Some(download) = self.downloads.get(number) else { return Ok(()) };
        let whole = || {
            download.forget_list();
            self.meter.add(download.size)?;
            (self.settings.finished)(number)
        };
        if download.is_there() {
            return whole();
        }
        let failed = |doing| move |error| Error::io(doing, error).in_file(&download.place);
        for path in [Some(&download.place), download.lock.as_ref()].into_iter().flatten() {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder).map_err(failed("cannot create the folder"))?;
            }
        }
        let path = download.lock.as_ref().unwrap_or(&download.partial);
        let Some(lock) = self.lock(path)? else { return Ok(()) };
        // Another run has fetched it in the meantime.
        if download.is_there() {
            if download.lock.is_none() {
                download.discard();
            }
            return whole();
        }
        let file = open_or_create(&download.partial).map_err(failed("cannot create the file"))?;
        let mut fetched = download.fetched();
        file.set_len(download.size).map_err(failed("cannot set the length of the file"))?;
        if self.copy(download, &file)? {
            fetched.add(0..download.size);
        }
        self.meter.add(fetched.len())?;
        let missing: Vec<Range<u64>> =
            fetched.missing(download.size, self.settings.piece.max(1)).collect();
        let begun = Arc::new(Begun {
            number,
            download,
            located: match &download.content {
                Content::Version(version) => {
                    Located::known(self.settings.client, &download.address, version.clone(), None)
                }
                Content::Digest(_) => {
                    Located::new(self.settings.client, &download.address, download.size)
                }
            },
            file,
            _lock: lock,
            fetched: Mutex::new(Fetched { ranges: fetched, unrecorded: 0 }),
            recording: AtomicBool::new(false),
            pieces: AtomicUsize::new(missing.len()),
        });
        if missing.is_empty() {
            return self.finish(&begun);
        }
        let pieces = missing.into_iter().map(|range| (Arc::clone(&begun), range));
        held(&self.queue).pieces.extend(pieces);
        Ok(())
    }

    /// Copies the file that this machine has, if it has the digest that the server states. Returns whether it has.
    fn copy(&self, download: &Download, file: &File) -> Result<bool> {
        const PIECE: u64 = 8 << 20;
        let Some(path) = &download.copy else { return Ok(false) };
        let Ok(source) = Source::open(path, Access::Read) else { return Ok(false) };
        let checked = download.content.check(&source, |_| self.meter.add(0));
        match checked {
            Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
            Err(_) => return Ok(false),
            Ok(()) => {}
        }
        let mut at = 0;
        while at < download.size {
            let end = download.size.min(at.saturating_add(PIECE));
            write_all_at(file, &source.bytes(at..end)?, at)
                .map_err(download.failed("cannot write the file"))?;
            self.meter.add(0)?;
            at = end;
        }
        Ok(true)
    }

    /// Locks a file. Waits while another run holds the lock; `None` if this one is stopped.
    fn lock(&self, path: &Path) -> Result<Option<File>> {
        while !self.stopped.load(Ordering::Relaxed) {
            let file = open_or_create(path)
                .map_err(|error| Error::io("cannot create the file", error).in_file(path))?;
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => {
                    self.meter.add(0)?;
                    std::thread::sleep(WAIT);
                }
                // The one who held the lock may have renamed the file.
                Ok(()) if !is_same(&file, path) => {}
                // On a file system without locks, other runs cannot be noticed.
                Ok(()) | Err(TryLockError::Error(_)) => return Ok(Some(file)),
            }
        }
        Ok(None)
    }

    /// Fetches a piece of a file. The last one finishes the file.
    fn fetch(&self, begun: &Begun<'_>, range: Range<u64>) -> Result<()> {
        let download = begun.download;
        let mut write = |at: u64, bytes: &[u8]| {
            write_all_at(&begun.file, bytes, at)
                .map_err(download.failed("cannot write the file"))?;
            let end = at.saturating_add(bytes.len() as u64);
            {
                let mut fetched = held(&begun.fetched);
                fetched.ranges.add(at..end);
                fetched.unrecorded = fetched.unrecorded.saturating_add(bytes.len() as u64);
            }
            self.meter.add(bytes.len() as u64)?;
            if self.stopped.load(Ordering::Relaxed) {
                return Err(Error::new(ErrorKind::Cancelled, "interrupted"));
            }
            begun.record_beyond(self.settings.piece / 4)
        };
        let done = begun.located.fetch(range, &mut write);
        // Another thread's error has stopped this one.
        if done.is_err() && self.stopped.load(Ordering::Relaxed) {
            return Ok(());
        }
        done.map_err(|error| error.in_file(&download.place))?;
        if begun.pieces.fetch_sub(1, Ordering::AcqRel) == 1 { self.finish(begun) } else { Ok(()) }
    }

    /// Checks a file whose pieces are all there, and moves it to its place.
    fn finish(&self, begun: &Begun<'_>) -> Result<()> {
        let download = begun.download;
        begun.file.sync_all().map_err(download.failed("cannot sync the file to the disk"))?;
        let source = Source::open(&download.partial, Access::Read)?;
        if let Err(error) = download.content.check(&source, |_| self.meter.add(0)) {
            if error.kind() == ErrorKind::Malformed {
                download.discard();
            }
            return Err(error.in_file(&download.place));
        }
        std::fs::rename(&download.partial, &download.place)
            .map_err(download.failed("cannot rename the temporary file"))?;
        download.forget_list();
        // The rename is durable only after its folder has been synced.
        if let Some(Ok(folder)) = download.place.parent().map(File::open) {
            let _ = folder.sync_all();
        }
        (self.settings.finished)(begun.number)
    }
}

impl Begun<'_> {
    /// Writes the list of fetched ranges, if it lacks more than `bytes`.
    fn record_beyond(&self, bytes: u64) -> Result<()> {
        if held(&self.fetched).unrecorded <= bytes || self.recording.swap(true, Ordering::Acquire) {
            return Ok(());
        }
        let ranges = {
            let mut fetched = held(&self.fetched);
            fetched.unrecorded = 0;
            fetched.ranges.clone()
        };
        // A range is listed only when it is on the disk.
        let recorded = self.file.sync_data().and_then(|()| self.download.record(&ranges));
        self.recording.store(false, Ordering::Release);
        recorded.map_err(self.download.failed("cannot write the list of fetched ranges"))
    }
}

impl Drop for Begun<'_> {
    /// Lists what a run has fetched of a file that it does not finish.
    fn drop(&mut self) {
        if self.pieces.load(Ordering::Acquire) > 0 {
            // The error that ended the run is the one to report.
            let _ = self.record_beyond(0);
        }
    }
}
