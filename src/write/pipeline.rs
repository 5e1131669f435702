//! The pipeline: threads read and compute pieces, one thread writes them.
//!
//! The number of buffers is fixed. A thread waits until a buffer is free, so memory stays bounded
//! however slow the disk is.

use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::Builder;

use super::producer::{OutputPiece, Producer, ProducerBuffers, room};
use super::target::WriteTarget;
use super::{Loss, OutFile, WriteOptions};
use crate::bytes::{AlignedBytes, read_exact_at, write_all_at};
use crate::error::{Error, Result};

/// The tensors that lost something, by name.
pub(crate) type TensorLosses = Vec<(String, Loss)>;

/// The most files that are open at the same time: a shell's usual limit is 1024.
const OPEN: usize = 64;

/// The default memory, in bytes.
const MEMORY: u64 = 256 << 20;

/// The number of buffers in addition to one for each thread: how far the disk may fall behind.
const AHEAD: u64 = 3;

/// Bytes that reading takes for each thread: the buffers of reads that bypass the page cache.
const READING: u64 = 8 << 20;

/// Writes files into a target, and syncs them.
pub(crate) fn run(
    files: &[OutFile],
    target: &WriteTarget,
    options: &WriteOptions<'_>,
) -> Result<TensorLosses> {
    in_batches(files, options, |file| create_in(file, target), synced)
}

/// Writes each file into its own target, and reports their progress together.
pub(crate) fn run_each(
    files: &[OutFile],
    targets: &[WriteTarget],
    options: &WriteOptions<'_>,
) -> Result<TensorLosses> {
    let mut targets = targets.iter();
    let open = |file: &OutFile| {
        let target = targets.next();
        create_in(file, target.ok_or_else(|| Error::mismatch("a file without a target"))?)
    };
    in_batches(files, options, open, synced)
}

fn create_in(file: &OutFile, target: &WriteTarget) -> Result<OpenFile> {
    Ok(OpenFile { file: target.create(&file.name, file.len)?, path: target.place(&file.name) })
}

fn synced(batch: Vec<OpenFile>) -> Result<()> {
    batch.iter().try_for_each(OpenFile::sync)
}

/// Writes files in batches of as many as may be open. `open` begins each file, in order; `close`
/// gets each batch once its bytes are written.
pub(super) fn in_batches(
    files: &[OutFile],
    options: &WriteOptions<'_>,
    mut open: impl FnMut(&OutFile) -> Result<OpenFile>,
    mut close: impl FnMut(Vec<OpenFile>) -> Result<()>,
) -> Result<TensorLosses> {
    let threads = options.threads.get();
    let total = files.iter().map(|file| file.data).fold(0, u64::saturating_add);
    let work = Pipeline { options, threads, total, stop: AtomicBool::new(false) };
    let mut lost = Vec::new();
    let mut done = 0;
    for batch in files.chunks(OPEN) {
        let open = batch.iter().map(&mut open).collect::<Result<Vec<OpenFile>>>()?;
        lost.extend(work.batch(batch, &open, &mut done)?);
        close(open)?;
    }
    Ok(lost)
}

/// A file that is being written.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) file: File,
    pub(super) path: PathBuf,
}

struct Pipeline<'o, 'w> {
    options: &'o WriteOptions<'w>,
    threads: usize,
    /// Bytes of all tensors.
    total: u64,
    /// Whether something has failed, so that the remaining pieces are not produced.
    stop: AtomicBool,
}

/// The numbers of a file and of a tensor in it, and a piece of that tensor.
type PieceJob<'a> = (usize, usize, OutputPiece);

/// A piece that has been produced.
struct FilledBuffer {
    file: usize,
    to: Vec<Range<u64>>,
    buffer: AlignedBytes,
}

impl Pipeline<'_, '_> {
    /// The memory that producing one piece may take, in bytes.
    fn piece(&self) -> u64 {
        let memory = self.options.memory.unwrap_or(MEMORY);
        let threads = self.threads as u64;
        let left = memory.saturating_sub(threads * READING);
        // A thread holds a piece's values and their packed form.
        (left / (2 * threads + AHEAD)).clamp(64 << 10, 4 << 20)
    }

    fn batch(&self, files: &[OutFile], open: &[OpenFile], done: &mut u64) -> Result<TensorLosses> {
        let tensors: Vec<(&str, &Producer)> = files
            .iter()
            .flat_map(|file| &file.tensors)
            .map(|placed| (placed.tensor.name.as_str(), &placed.tensor.output.producer))
            .collect();
        let mut jobs: Vec<PieceJob<'_>> = Vec::new();
        let mut number = 0;
        for (file, out) in files.iter().enumerate() {
            for placed in &out.tensors {
                let pieces = placed.pieces(self.piece())?;
                jobs.extend(pieces.into_iter().map(|piece| (file, number, piece)));
                number += 1;
            }
        }
        let longest = jobs.iter().map(|(.., piece)| piece.len()).max();
        for (out, open) in files.iter().zip(open) {
            open.write(&out.header, 0)?;
        }
        let longest = longest.unwrap_or(0);
        let buffers = self.threads.saturating_add(usize::try_from(AHEAD).unwrap_or(1));
        let (free, empty) = sync_channel::<AlignedBytes>(buffers);
        for _ in 0..buffers.min(jobs.len()) {
            // Pages that are never touched take no memory.
            let _ = free.send(room(longest)?);
        }
        let (full, made) = sync_channel::<FilledBuffer>(buffers);
        let jobs = Mutex::new(jobs.into_iter());
        let empty = Mutex::new(empty);
        let lost = Mutex::new(Vec::<(usize, Loss)>::new());
        std::thread::scope(|scope| {
            let make = |full| || self.make(&jobs, &tensors, &empty, full, &lost);
            let start = |full| Builder::new().spawn_scoped(scope, make(full));
            // What cannot be started leaves its share to the others.
            let mut makers = vec![start(full.clone()).map_err(cannot_start)?];
            makers.extend((1..self.threads).map_while(|_| start(full.clone()).ok()));
            drop(full);
            let written = self.write(made, free, open, done);
            makers.into_iter().map(joined).fold(written, Result::and)
        })?;
        let lost = lost.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut sums: TensorLosses = Vec::new();
        let mut by_tensor = vec![Loss::default(); tensors.len()];
        for (tensor, lost) in lost {
            if let Some(sum) = by_tensor.get_mut(tensor) {
                *sum += lost;
            }
        }
        for ((name, _), lost) in tensors.iter().zip(by_tensor) {
            if !lost.is_nothing() {
                sums.push(((*name).to_owned(), lost));
            }
        }
        Ok(sums)
    }

    /// Produces pieces until none are left.
    fn make<'a>(
        &self,
        jobs: &Mutex<impl Iterator<Item = PieceJob<'a>>>,
        tensors: &[(&str, &Producer)],
        empty: &Mutex<Receiver<AlignedBytes>>,
        full: SyncSender<FilledBuffer>,
        lost: &Mutex<Vec<(usize, Loss)>>,
    ) -> Result<()> {
        let mut bench = ProducerBuffers::new(self.options);
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((file, tensor, piece)) = job else { return Ok(()) };
            // A buffer is requested only when there is a piece to fill it, so an idle thread holds
            // none.
            let buffer = empty.lock().unwrap_or_else(PoisonError::into_inner).recv();
            // The writer has stopped, and reports the reason.
            let Ok(mut buffer) = buffer else { return Ok(()) };
            let len = usize::try_from(piece.len()).unwrap_or(usize::MAX);
            let done =
                tensors.get(tensor).zip(buffer.get_mut(..len)).map(|((name, producer), out)| {
                    producer.make(&piece, out, &mut bench).map_err(|error| error.in_tensor(name))
                });
            match done.unwrap_or_else(|| Err(Error::mismatch("a piece without a tensor"))) {
                Ok(loss) if loss == Loss::default() => {}
                Ok(loss) => {
                    lost.lock().unwrap_or_else(PoisonError::into_inner).push((tensor, loss));
                }
                Err(error) => {
                    self.stop.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
            if full.send(FilledBuffer { file, to: piece.to, buffer }).is_err() {
                return Ok(());
            }
        }
    }

    /// Writes the produced pieces until no more arrive.
    fn write(
        &self,
        made: Receiver<FilledBuffer>,
        free: SyncSender<AlignedBytes>,
        open: &[OpenFile],
        done: &mut u64,
    ) -> Result<()> {
        let put = |made: &FilledBuffer| -> Result<()> {
            let torn = || Error::mismatch("a piece that belongs to no file");
            let open = open.get(made.file).ok_or_else(torn)?;
            let mut rest = &made.buffer[..];
            for range in &made.to {
                let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
                let (now, later) = rest.split_at_checked(len).ok_or_else(torn)?;
                open.write(now, range.start)?;
                rest = later;
            }
            Ok(())
        };
        for piece in made {
            *done += piece.to.iter().map(|range| range.end - range.start).sum::<u64>();
            let end = put(&piece).and_then(|()| {
                self.options.progress.report(*done, self.total).map_err(interrupted)
            });
            if end.is_err() {
                self.stop.store(true, Ordering::Relaxed);
                return end;
            }
            // All threads may have ended by now.
            let _ = free.try_send(piece.buffer);
        }
        Ok(())
    }
}

fn interrupted(error: Error) -> Error {
    Error::new(error.kind(), "interrupted; nothing was written")
}

fn cannot_start(error: std::io::Error) -> Error {
    Error::io("cannot start a thread", error)
}

fn joined(thread: std::thread::ScopedJoinHandle<'_, Result<()>>) -> Result<()> {
    match thread.join() {
        Ok(end) => end,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

impl OpenFile {
    /// Syncs the file to the disk.
    pub(super) fn sync(&self) -> Result<()> {
        let failed = |error| Error::io("cannot sync the file to the disk", error);
        self.file.sync_all().map_err(failed).map_err(|error| error.in_file(&self.path))
    }

    pub(super) fn write(&self, bytes: &[u8], at: u64) -> Result<()> {
        let failed =
            |error| Error::io("cannot write to the file", error).in_file(&self.path).at(at);
        write_all_at(&self.file, bytes, at).map_err(failed)
    }

    /// Reads bytes back.
    pub(super) fn read(&self, out: &mut [u8], at: u64) -> Result<()> {
        let failed = |error| Error::io("cannot read the file", error).in_file(&self.path).at(at);
        read_exact_at(&self.file, at, out).map_err(failed)
    }
}
