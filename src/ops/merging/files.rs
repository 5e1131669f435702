//! The files of a merged model, none of which exists: its documents, and one file of weights whose values are
//! computed when they are read.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use half::{bf16, f16};

use super::methods::Merge;
use crate::bytes::{FileSystem, ReadAt, Source};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::json::{Json, Map, json};

const WEIGHTS: &str = "model.safetensors";

/// A tensor that is merged when it is read.
#[derive(Debug)]
pub(super) struct MergedTensor {
    name: String,
    dtype: DType,
    shape: Vec<u64>,
    merge: Merge,
    /// The bytes, from the first read until all of them are read.
    kept: Mutex<Option<Kept>>,
}

#[derive(Debug)]
struct Kept {
    bytes: Vec<u8>,
    read: usize,
}

impl MergedTensor {
    pub(super) fn new(name: String, dtype: DType, shape: Vec<u64>, merge: Merge) -> Self {
        Self { name, dtype, shape, merge, kept: Mutex::default() }
    }

    fn len(&self) -> Result<u64> {
        let too_large = || Error::mismatch("the tensor is too large").in_tensor(&self.name);
        self.dtype.tensor_bytes(&self.shape).ok_or_else(too_large)
    }

    fn bytes(&self) -> Result<Vec<u8>> {
        let values = self.merge.values()?;
        Ok(match self.dtype {
            DType::F16 => values.iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()).collect(),
            DType::BF16 => values.iter().flat_map(|v| bf16::from_f32(*v).to_le_bytes()).collect(),
            _ => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        })
    }

    /// Fills `out` from `start` on.
    fn read(&self, start: u64, out: &mut [u8]) -> std::io::Result<()> {
        let outside = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        let start = usize::try_from(start).map_err(|_| outside())?;
        let end = start.checked_add(out.len()).ok_or_else(outside)?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_none() {
            let bytes = self.bytes().map_err(|error| error.in_tensor(&self.name));
            *kept = Some(Kept { bytes: bytes.map_err(std::io::Error::other)?, read: 0 });
        }
        let all = kept.as_mut().ok_or_else(outside)?;
        out.copy_from_slice(all.bytes.get(start..end).ok_or_else(outside)?);
        all.read = all.read.saturating_add(out.len());
        if all.read >= all.bytes.len() {
            *kept = None;
        }
        Ok(())
    }
}

/// A safetensors file of merged tensors.
#[derive(Debug)]
pub(super) struct MergedFile {
    header: Vec<u8>,
    /// The tensors, each with its position after the header.
    tensors: Vec<(u64, MergedTensor)>,
    len: u64,
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
        Ok(Self { header, tensors, len })
    }
}

/// The file as a source of bytes.
#[derive(Debug)]
struct Shared(Arc<MergedFile>);

impl ReadAt for Shared {
    fn size(&self) -> u64 {
        self.0.len
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        let outside = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        let file = &*self.0;
        let (mut offset, mut out) = (offset, out);
        let data = file.header.len() as u64;
        while !out.is_empty() {
            let done = if offset < data {
                let start = usize::try_from(offset).map_err(|_| outside())?;
                let rest = file.header.get(start..).ok_or_else(outside)?;
                let count = rest.len().min(out.len());
                let (now, rest) = (out.get_mut(..count), rest.get(..count));
                now.zip(rest).ok_or_else(outside).map(|(now, rest)| now.copy_from_slice(rest))?;
                count
            } else {
                let place = offset - data;
                let after = file.tensors.partition_point(|(start, _)| *start <= place);
                // Tensors without elements have the position of the next one.
                let mut before = file.tensors.iter().take(after).rev();
                let found = before.find(|(_, tensor)| tensor.len().is_ok_and(|len| len > 0));
                let (start, tensor) = found.ok_or_else(outside)?;
                let within = place - start;
                let left = tensor.len().map_err(std::io::Error::other)?.saturating_sub(within);
                let count = usize::try_from(left).unwrap_or(usize::MAX).min(out.len());
                if count == 0 {
                    return Err(outside());
                }
                tensor.read(within, out.get_mut(..count).ok_or_else(outside)?)?;
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
    pub(super) weights: Arc<MergedFile>,
}

impl FileSystem for MergedFiles {
    fn open(&self, path: &Path) -> Result<Source> {
        if path == self.folder.join(WEIGHTS) {
            return Ok(Source::custom(path, Shared(Arc::clone(&self.weights))));
        }
        let named = self.documents.iter().find(|(name, _)| path == self.folder.join(name));
        let (_, bytes) = named.ok_or_else(|| Error::not_found("no such file").in_file(path))?;
        Ok(Source::memory(path, bytes.clone()))
    }

    fn names(&self, folder: &Path) -> Result<Vec<String>> {
        let paths = self.documents.iter().map(|(name, _)| self.folder.join(name));
        let within = paths.filter(|path| path.parent() == Some(folder));
        let name = |path: PathBuf| Some(path.file_name()?.to_str()?.to_owned());
        let mut names: Vec<String> = within.filter_map(name).collect();
        if folder == self.folder {
            names.push(WEIGHTS.to_owned());
        }
        match names.is_empty() {
            true => Err(Error::not_found("no such folder").in_file(folder)),
            false => Ok(names),
        }
    }

    fn exists(&self, path: &Path) -> bool {
        path == self.folder.join(WEIGHTS)
            || self.documents.iter().any(|(name, _)| path == self.folder.join(name))
    }
}
