//! The files of a merged model, none of which exists: its documents, and one file of weights whose values are
//! computed when they are read.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::arithmetic::{Merge, MergeBuffers};
use super::keep::Settled;
use super::settled::settled;
use crate::bytes::{FileSystem, Origin, ReadAt, Source, try_zeroed};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::json::{Json, Map, json};

/// A tensor that is merged when it is read.
#[derive(Debug)]
pub(super) struct MergedTensor {
    name: String,
    dtype: DType,
    shape: Vec<u64>,
    merge: Merge,
    /// The numbers that depend on all values, once they are computed. Other threads wait for them.
    settled: Mutex<Option<Arc<Settled>>>,
    /// For a tensor that is computed as a whole: the bytes, from the first read until all of them are read.
    kept: Mutex<Option<Kept>>,
}

#[derive(Debug)]
struct Kept {
    bytes: Vec<u8>,
    read: usize,
}

fn outside() -> std::io::Error {
    std::io::ErrorKind::UnexpectedEof.into()
}

impl MergedTensor {
    pub(super) fn new(name: String, dtype: DType, shape: Vec<u64>, merge: Merge) -> Self {
        let (settled, kept) = (Mutex::default(), Mutex::default());
        Self { name, dtype, shape, merge, settled, kept }
    }

    fn len(&self) -> Result<u64> {
        let too_large = || Error::mismatch("the tensor is too large").in_tensor(&self.name);
        self.dtype.tensor_bytes(&self.shape).ok_or_else(too_large)
    }

    /// Fills `out` from `start` on.
    fn read(&self, start: u64, out: &mut [u8], buffers: &mut MergeBuffers) -> std::io::Result<()> {
        let here = |error: Error| std::io::Error::other(error.in_tensor(&self.name));
        if !self.merge.is_whole() {
            return self.compute(start, out, buffers).map_err(here);
        }
        let start = usize::try_from(start).map_err(|_| outside())?;
        let end = start.checked_add(out.len()).ok_or_else(outside)?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_none() {
            let len = usize::try_from(self.len().map_err(here)?).map_err(|_| outside())?;
            let mut bytes = try_zeroed(len).map_err(here)?;
            self.compute(0, &mut bytes, buffers).map_err(here)?;
            *kept = Some(Kept { bytes, read: 0 });
        }
        let all = kept.as_mut().ok_or_else(outside)?;
        out.copy_from_slice(all.bytes.get(start..end).ok_or_else(outside)?);
        all.read = all.read.saturating_add(out.len());
        if all.read >= all.bytes.len() {
            *kept = None;
        }
        Ok(())
    }

    fn settled(&self, buffers: &mut MergeBuffers) -> Result<Arc<Settled>> {
        let mut held = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(settled) = &*held {
            return Ok(Arc::clone(settled));
        }
        let settled = Arc::new(settled(&self.merge, buffers)?);
        *held = Some(Arc::clone(&settled));
        Ok(settled)
    }

    /// Computes the bytes from `start` on.
    fn compute(&self, start: u64, out: &mut [u8], buffers: &mut MergeBuffers) -> Result<()> {
        let torn = || Error::mismatch("the bytes exceed the tensor");
        let width = u64::from(self.dtype.descriptor().block_bytes).max(1);
        let end = start.checked_add(out.len() as u64).ok_or_else(torn)?;
        let settled = self.settled(buffers)?;
        let (mut rest, mut place) = (out, start);
        for chunk in self.merge.chunks(start / width..end.div_ceil(width)) {
            self.merge.compute(&chunk, &settled, buffers)?;
            let bytes = buffers.encoded(self.dtype)?;
            // Reads need not begin or end between numbers.
            let before = usize::try_from(place - chunk.start * width).map_err(|_| torn())?;
            let len = bytes.len().saturating_sub(before).min(rest.len());
            let (now, later) = rest.split_at_mut(len);
            now.copy_from_slice(bytes.get(before..before + len).ok_or_else(torn)?);
            place = place.saturating_add(len as u64);
            rest = later;
        }
        if rest.is_empty() { Ok(()) } else { Err(torn()) }
    }
}

/// A safetensors file of merged tensors.
#[derive(Debug)]
pub(super) struct MergedFile {
    header: Vec<u8>,
    /// The tensors, each with its position after the header.
    tensors: Vec<(u64, MergedTensor)>,
    len: u64,
    /// The buffers that no thread uses.
    buffers: Mutex<Vec<MergeBuffers>>,
}

impl MergedFile {
    pub(super) fn new(planned: Vec<MergedTensor>) -> Result<Self> {
        let (mut keys, mut tensors, mut end) = (Map::new(), Vec::new(), 0u64);
        for tensor in planned {
            let start = end;
            end = end.saturating_add(tensor.len()?);
            let entry = json!({
                "dtype": tensor.dtype.name(), "shape": tensor.shape, "data_offsets": [start, end],
            });
            keys.insert(tensor.name.clone(), entry);
            tensors.push((start, tensor));
        }
        let mut text = Json::Object(keys).to_string().into_bytes();
        text.resize(text.len().next_multiple_of(8), b' ');
        let mut header = (text.len() as u64).to_le_bytes().to_vec();
        header.extend(text);
        let len = (header.len() as u64).saturating_add(end);
        Ok(Self { header, tensors, len, buffers: Mutex::default() })
    }
}

/// The file as a source of bytes.
#[derive(Debug)]
struct Shared(Arc<MergedFile>);

impl ReadAt for Shared {
    fn size(&self) -> u64 {
        self.0.len
    }

    fn origin(&self, offset: u64) -> Origin {
        match self.0.find(offset) {
            Some((_, tensor)) if !tensor.merge.is_copy(tensor.dtype) => Origin::Merged,
            _ => Origin::Stored,
        }
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        let file = &*self.0;
        let free = || file.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffers = free().pop().unwrap_or_default();
        let read = file.read(offset, out, &mut buffers);
        free().push(buffers);
        read
    }
}

impl MergedFile {
    /// The tensor with the byte at an offset of the file, and where its bytes begin.
    fn find(&self, offset: u64) -> Option<(u64, &MergedTensor)> {
        let data = self.header.len() as u64;
        let place = offset.checked_sub(data)?;
        let after = self.tensors.partition_point(|(start, _)| *start <= place);
        // Tensors without elements have the position of the next one.
        let mut before = self.tensors.iter().take(after).rev();
        let (start, tensor) = before.find(|(_, tensor)| tensor.len().is_ok_and(|len| len > 0))?;
        Some((data.saturating_add(*start), tensor))
    }

    fn read(&self, offset: u64, out: &mut [u8], buffers: &mut MergeBuffers) -> std::io::Result<()> {
        let (mut offset, mut out) = (offset, out);
        while !out.is_empty() {
            let done = if let Some((start, tensor)) = self.find(offset) {
                let within = offset - start;
                let left = tensor.len().map_err(std::io::Error::other)?.saturating_sub(within);
                let count = usize::try_from(left).unwrap_or(usize::MAX).min(out.len());
                if count == 0 {
                    return Err(outside());
                }
                tensor.read(within, out.get_mut(..count).ok_or_else(outside)?, buffers)?;
                count
            } else {
                let start = usize::try_from(offset).map_err(|_| outside())?;
                let rest = self.header.get(start..).ok_or_else(outside)?;
                let count = rest.len().min(out.len());
                if count == 0 {
                    return Err(outside());
                }
                let (now, rest) = (out.get_mut(..count), rest.get(..count));
                now.zip(rest).ok_or_else(outside).map(|(now, rest)| now.copy_from_slice(rest))?;
                count
            };
            offset = offset.saturating_add(done as u64);
            out = out.get_mut(done..).ok_or_else(outside)?;
        }
        Ok(())
    }
}

/// The folder of a merged model.
#[derive(Debug)]
pub(super) struct MergedFiles {
    pub(super) folder: PathBuf,
    pub(super) documents: Vec<(String, Vec<u8>)>,
    /// By name.
    pub(super) weights: Vec<(String, Arc<MergedFile>)>,
}

impl MergedFiles {
    fn paths(&self) -> impl Iterator<Item = PathBuf> {
        let names = self.documents.iter().map(|(name, _)| name);
        names.chain(self.weights.iter().map(|(name, _)| name)).map(|name| self.folder.join(name))
    }
}

impl FileSystem for MergedFiles {
    fn open(&self, path: &Path) -> Result<Source> {
        if let Some((_, file)) =
            self.weights.iter().find(|(name, _)| path == self.folder.join(name))
        {
            return Ok(Source::custom(path, Shared(Arc::clone(file))));
        }
        let named = self.documents.iter().find(|(name, _)| path == self.folder.join(name));
        let (_, bytes) = named.ok_or_else(|| Error::not_found("no such file").in_file(path))?;
        Ok(Source::memory(path, bytes.clone()))
    }

    fn names(&self, folder: &Path) -> Result<Vec<String>> {
        let within = self.paths().filter(|path| path.parent() == Some(folder));
        let name = |path: PathBuf| Some(path.file_name()?.to_str()?.to_owned());
        let names: Vec<String> = within.filter_map(name).collect();
        match names.is_empty() {
            true => Err(Error::not_found("no such folder").in_file(folder)),
            false => Ok(names),
        }
    }

    fn exists(&self, path: &Path) -> bool {
        self.paths().any(|own| own == path)
    }
}
