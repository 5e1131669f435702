//! Sources of raw bytes: files, memory maps, memory. Only this module checks byte ranges.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

mod alloc;
mod bounce;
mod bulk;
mod bulk_files;
mod content_addressed;
mod cursor;
mod files;
mod hub_link;
mod mmap;
mod pages;
mod positioned;
mod put;
mod text;

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

pub(crate) use alloc::{try_vec, try_zeroed};
pub(crate) use bounce::BounceBuffer;
pub(crate) use bulk::{CacheState, Scratch};
pub(crate) use content_addressed::{blob_behind, is_content_addressed};
pub(crate) use cursor::Cursor;
pub use files::FileSystem;
pub(crate) use files::Files;
pub(crate) use hub_link::BrokenLink;
pub use pages::{AlignedBuffer, AlignedBytes};
pub(crate) use positioned::{is_same, open_folder, open_or_create, read_exact_at, write_all_at};
pub(crate) use put::{own_path, put, put_by};
pub use text::Text;

use crate::error::{Error, Result};
use bulk_files::BulkFiles;
use mmap::MappedFile;
use positioned::open_without_waiting;

/// The method of reading the bytes of a file.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Access {
    /// Tensor data is borrowed from a memory map. Headers are read, not mapped.
    ///
    /// A map cannot guarantee that the file stays the same. If another program *shortens* the file
    /// while its tensor data is being accessed, the operating system ends this process (SIGBUS); if
    /// another program rewrites the file in place, borrowed bytes change. Neither can happen to a
    /// file that is replaced by renaming, as careful writers do. Choose [`Access::Read`] for files
    /// that others may write to, and for network file systems.
    #[default]
    Map,
    /// Every byte is read at its position into owned memory, without any map.
    Read,
}

/// Bytes that can be read at any position, wherever they are.
///
/// A program implements it for bytes that are neither a file nor in memory: values that are computed
/// when they are read, an object store, another process. Several threads read at the same time.
pub trait ReadAt: fmt::Debug + Send + Sync {
    /// The number of bytes, which never changes.
    fn size(&self) -> u64;

    /// Fills `out` with the bytes from `offset` on. The range lies within [`size`](Self::size).
    ///
    /// # Errors
    ///
    /// Any error ends the reading, and is returned with the source's name and the offset.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()>;

    /// These ranges will be read next, in this order or another. A reader of bytes that are far away
    /// may join those that are near to each other, and fetch several at the same time. The default
    /// does nothing.
    fn prefetch(&self, _ranges: &[Range<u64>]) {}

    /// The header has been read: what is read from now on is tensor data. A reader that fetches
    /// ahead may stop.
    fn opened(&self) {}

    /// An identifier of this version of the content, such as an ETag. A plan that is run in slices is
    /// compared with it. `None` by default.
    fn version(&self) -> Option<String> {
        None
    }

    /// The origin of the bytes at an offset, by which plans name what they write. Stored by default.
    fn origin(&self, _offset: u64) -> Origin {
        Origin::Stored
    }
}

/// The origin of bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Origin {
    /// They are stored, here or elsewhere.
    #[default]
    Stored,
    /// They are computed when they are read.
    Generated,
    /// They are computed from the tensors of several models when they are read.
    Merged,
}

/// The bytes of one file, or of memory. All reads and all range checks happen here.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    len: u64,
    /// The identity of the file when it was opened.
    identity: Option<FileIdentity>,
    kind: SourceKind,
    /// The file opened again for bulk reads, if the system supports them.
    bulk: OnceLock<Option<BulkFiles>>,
}

#[derive(Debug)]
enum SourceKind {
    Mapped { file: FileHandle, map: OnceLock<MappedFile> },
    Read { file: FileHandle },
    Memory { bytes: Cow<'static, [u8]> },
    Custom { reader: Box<dyn ReadAt> },
}

/// A file that is open, or that can be reopened.
#[derive(Debug)]
enum FileHandle {
    Open(File),
    Released,
}

/// Facts by which a reopened file is recognized as the same one.
#[derive(Debug, Eq, PartialEq)]
struct FileIdentity {
    len: u64,
    modified: Option<std::time::SystemTime>,
    #[cfg(unix)]
    inode: (u64, u64),
}

impl FileIdentity {
    fn of(metadata: &std::fs::Metadata) -> Self {
        Self {
            len: metadata.len(),
            modified: metadata.modified().ok(),
            #[cfg(unix)]
            inode: {
                use std::os::unix::fs::MetadataExt;
                (metadata.dev(), metadata.ino())
            },
        }
    }
}

impl<B: Into<Cow<'static, [u8]>>> From<B> for Source {
    fn from(bytes: B) -> Self {
        Self::memory("memory", bytes)
    }
}

/// The error of a link to a file that does not exist, as in a hub's cache whose blobs are gone.
pub(crate) fn dangling(target: &Path) -> Error {
    let fault = format!("a link to {}, which does not exist", Text::from_path(target));
    let advice =
        "the content is missing: pull the model again, or restore the folder of the link's target";
    Error::new(crate::ErrorKind::NotFound, fault).advise(advice)
}

impl Source {
    /// Opens a regular file. Directories, pipes and devices are refused because they have no
    /// length.
    ///
    /// # Errors
    ///
    /// `NotFound` or `Io`; also `Io` if it is not a regular file.
    pub fn open(path: &Path, access: Access) -> Result<Self> {
        Self::open_regular(path, access).map_err(|error| error.in_file(path))
    }

    fn open_regular(path: &Path, access: Access) -> Result<Self> {
        let file = match open_without_waiting(path) {
            Ok(file) => file,
            Err(error) => {
                let is_absent = error.kind() == std::io::ErrorKind::NotFound;
                return match hub_link::broken(path).filter(|_| is_absent) {
                    Some(BrokenLink { blob: Some(blob), .. }) => Self::open(&blob, access),
                    Some(BrokenLink { target, .. }) => Err(dangling(&target)),
                    None => Err(Error::io("cannot open", error)),
                };
            }
        };
        let opened = file
            .metadata()
            .map_err(|error| Error::io("cannot read the length of the file", error))?;
        if !opened.is_file() {
            let what = if opened.is_dir() { "a directory" } else { "a pipe, socket or device" };
            let fault = format!("this is {what}, not a regular file");
            let error = Error::new(crate::ErrorKind::Io, fault);
            let advice = "save what it yields to a file, and give its path";
            return Err(if opened.is_dir() { error } else { error.advise(advice) });
        }
        if let Some(blob) = hub_link::target(path, &file, opened.len()) {
            return Self::open(&blob, access);
        }
        let kind = match access {
            Access::Map => {
                SourceKind::Mapped { file: FileHandle::Open(file), map: OnceLock::new() }
            }
            Access::Read => SourceKind::Read { file: FileHandle::Open(file) },
        };
        let identity = Some(FileIdentity::of(&opened));
        Ok(Self {
            path: path.to_path_buf(),
            len: opened.len(),
            identity,
            kind,
            bulk: OnceLock::new(),
        })
    }

    /// Wraps bytes in memory. Messages use `name` as the path.
    pub fn memory(name: impl Into<PathBuf>, bytes: impl Into<Cow<'static, [u8]>>) -> Self {
        let bytes = bytes.into();
        Self {
            path: name.into(),
            len: bytes.len() as u64,
            identity: None,
            kind: SourceKind::Memory { bytes },
            bulk: OnceLock::new(),
        }
    }

    /// Bytes that `reader` reads; `name` stands for the path in messages.
    pub fn custom(name: impl Into<PathBuf>, reader: impl ReadAt + 'static) -> Self {
        Self {
            path: name.into(),
            len: reader.size(),
            identity: None,
            kind: SourceKind::Custom { reader: Box::new(reader) },
            bulk: OnceLock::new(),
        }
    }

    /// The file's path, or the name of bytes in memory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The length in bytes when the source was opened.
    #[expect(clippy::len_without_is_empty, reason = "an empty file is told by its length")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the bytes lie in a file, not in memory.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.kind, SourceKind::Mapped { .. } | SourceKind::Read { .. })
    }

    /// The bytes of `range`: borrowed from the map or from memory, otherwise read into a new
    /// buffer.
    ///
    /// # Errors
    ///
    /// `Malformed` if the range exceeds the file; `Io` if the file became shorter, cannot be read,
    /// or its range does not fit in memory.
    pub fn bytes(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        let len = self.check(&range)?;
        let whole: &[u8] = match &self.kind {
            SourceKind::Memory { bytes } => bytes,
            SourceKind::Mapped { .. } if len == 0 => return Ok(Cow::Borrowed(&[])),
            SourceKind::Mapped { file, map } => self.mapped(file, map)?,
            SourceKind::Read { .. } | SourceKind::Custom { .. } => {
                return self.read(range).map(Cow::Owned);
            }
        };
        self.part(whole, &range).map(Cow::Borrowed)
    }

    /// Reads `range` into new memory by positioned reads, never through the map.
    ///
    /// # Errors
    ///
    /// Same as [`bytes`](Self::bytes).
    pub(crate) fn read(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let len = self.check(&range)?;
        let mut out = try_vec(len).map_err(|error| error.in_file(&self.path))?;
        self.append(range, &mut out, &mut BounceBuffer::default())?;
        Ok(out)
    }

    /// Reads `range` behind the bytes of `out`, which has room for them. The buffer is kept for the next
    /// call.
    pub(crate) fn append(
        &self,
        range: Range<u64>,
        out: &mut Vec<u8>,
        buffer: &mut BounceBuffer,
    ) -> Result<()> {
        let len = self.check(&range)?;
        let offset = range.start;
        match &self.kind {
            SourceKind::Memory { bytes } => {
                out.extend_from_slice(self.part(bytes, &range)?);
                Ok(())
            }
            SourceKind::Custom { .. } => {
                let start = out.len();
                out.resize(start.saturating_add(len), 0);
                self.read_at(offset, out.get_mut(start..).unwrap_or_default())
            }
            SourceKind::Mapped { file, .. } | SourceKind::Read { file } => {
                let read = self.with_file(file, |file| Ok(buffer.append(file, range, out)))?;
                read.map_err(|error| self.unread(error, offset))
            }
        }
    }

    /// Fills `out` from `offset` by positioned reads, never through the map.
    ///
    /// # Errors
    ///
    /// Same as [`bytes`](Self::bytes).
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let range = offset..offset.saturating_add(out.len() as u64);
        self.check(&range)?;
        let read = match &self.kind {
            SourceKind::Memory { bytes } => {
                out.copy_from_slice(self.part(bytes, &range)?);
                return Ok(());
            }
            SourceKind::Custom { reader } => reader.read_at(offset, out),
            SourceKind::Mapped { file, .. } | SourceKind::Read { file } => {
                self.with_file(file, |file| Ok(read_exact_at(file, offset, out)))?
            }
        };
        read.map_err(|error| self.unread(error, offset))
    }

    /// The error for bytes that could not be read.
    #[cold]
    fn unread(&self, error: std::io::Error, offset: u64) -> Error {
        if error.kind() == std::io::ErrorKind::UnexpectedEof {
            return self.shrunk();
        }
        Error::io("cannot read", error).in_file(&self.path).at(offset)
    }

    /// The whole file, if it is mapped or can be.
    pub(crate) fn map(&self) -> Option<&[u8]> {
        match &self.kind {
            SourceKind::Mapped { file, map } if self.len > 0 => self.mapped(file, map).ok(),
            _ => None,
        }
    }

    fn mapped<'a>(&'a self, file: &FileHandle, map: &'a OnceLock<MappedFile>) -> Result<&'a [u8]> {
        if let Some(map) = map.get() {
            return Ok(map.bytes());
        }
        let made = self.with_file(file, |file| {
            let now = file
                .metadata()
                .map_err(|error| Error::io("cannot read the length of the file", error));
            let now = now.map_err(|error| error.in_file(&self.path))?;
            if now.len() < self.len {
                return Err(self.shrunk());
            }
            MappedFile::new(file, self.len).map_err(|error| error.in_file(&self.path))
        })?;
        Ok(map.get_or_init(|| made).bytes())
    }

    /// The open file, which shares its position with this source's own.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the bytes are not in a file; `Io` if the file was replaced or became
    /// shorter.
    pub(crate) fn file(&self) -> Result<File> {
        let (SourceKind::Mapped { file, .. } | SourceKind::Read { file }) = &self.kind else {
            return Err(Error::unsupported("the bytes are not in a file").in_file(&self.path));
        };
        self.with_file(file, |file| {
            let cannot = |error| Error::io("cannot duplicate the file", error).in_file(&self.path);
            let copy = file.try_clone().map_err(cannot)?;
            let now = copy.metadata().map_err(cannot)?;
            if now.len() < self.len { Err(self.shrunk()) } else { Ok(copy) }
        })
    }

    /// The modification time of the file when it was opened.
    pub(crate) fn modified(&self) -> Option<std::time::SystemTime> {
        self.identity.as_ref()?.modified
    }

    /// Whether the bytes are on this machine, so that reading more than is needed costs nothing.
    pub(crate) fn is_in_reach(&self) -> bool {
        !matches!(self.kind, SourceKind::Custom { .. })
    }

    /// Says that ranges will be read next.
    pub(crate) fn prefetch(&self, ranges: &[Range<u64>]) {
        if let SourceKind::Custom { reader } = &self.kind {
            reader.prefetch(ranges);
        }
    }

    /// The origin of the bytes at an offset.
    pub(crate) fn origin(&self, offset: u64) -> Origin {
        match &self.kind {
            SourceKind::Custom { reader } => reader.origin(offset),
            _ => Origin::Stored,
        }
    }

    /// The version of bytes that are neither a file nor in memory.
    pub(crate) fn version(&self) -> Option<String> {
        match &self.kind {
            SourceKind::Custom { reader } => reader.version(),
            _ => None,
        }
    }

    /// Says that the header has been read.
    pub(crate) fn opened(&self) {
        if let SourceKind::Custom { reader } = &self.kind {
            reader.opened();
        }
    }

    /// Closes the file. The next access reopens it and checks that it is the same file.
    pub(crate) fn release(&mut self) {
        if let SourceKind::Mapped { file, .. } | SourceKind::Read { file } = &mut self.kind {
            *file = FileHandle::Released;
        }
        self.bulk = OnceLock::new();
    }

    fn with_file<T>(
        &self,
        handle: &FileHandle,
        read: impl FnOnce(&File) -> Result<T>,
    ) -> Result<T> {
        if let FileHandle::Open(file) = handle {
            return read(file);
        }
        let cannot = |error| Error::io("cannot reopen the file", error).in_file(&self.path);
        let file = open_without_waiting(&self.path).map_err(cannot)?;
        let identity = FileIdentity::of(&file.metadata().map_err(cannot)?);
        if self.identity.as_ref() != Some(&identity) {
            let fault = "the file was changed or replaced after it was opened";
            return Err(Error::new(crate::ErrorKind::Io, fault).in_file(&self.path));
        }
        read(&file)
    }

    /// The only range check: start before end, within the file, and of a length that is representable
    /// as `usize`. Returns the length. The start may be beyond the address space.
    fn check(&self, range: &Range<u64>) -> Result<usize> {
        let len = range.end.checked_sub(range.start).ok_or_else(|| self.beyond(range))?;
        if range.end > self.len {
            return Err(self.beyond(range));
        }
        usize::try_from(len).map_err(|_| {
            Error::unsupported("the range exceeds this machine's address space")
                .in_file(&self.path)
                .at(range.start)
        })
    }

    /// A range of all bytes of this source.
    fn part<'b>(&self, bytes: &'b [u8], range: &Range<u64>) -> Result<&'b [u8]> {
        let ends = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        let part = ends.and_then(|(start, end)| bytes.get(start..end));
        part.ok_or_else(|| self.beyond(range))
    }

    fn beyond(&self, range: &Range<u64>) -> Error {
        Error::malformed(format!(
            "bytes {}..{} exceed the file, which has {} bytes",
            range.start, range.end, self.len
        ))
        .in_file(&self.path)
        .at(range.start)
        .advise("the file is cut short: fetch or copy it again")
    }

    fn shrunk(&self) -> Error {
        let fault = format!(
            "the file is now shorter than the {} bytes that it had when it was opened",
            self.len
        );
        Error::new(crate::ErrorKind::Io, fault)
            .in_file(&self.path)
            .advise("another program is writing to the file: wait for it to finish, then open the file again")
    }
}
