//! A tensor of a store: its dtype, shape and parts, its bytes, its values.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

mod bulk;
mod check;
mod decode;
mod lookup;
mod sub_scales;

use std::borrow::Cow;
use std::ops::Range;

use crate::bytes::{Origin, Source, Text, try_zeroed};
use crate::dtype::{DType, describe_ggml};
use crate::error::{Error, Result};
use crate::shape;
use crate::store::{Part, Store};

pub(crate) use check::odd_block;
pub use check::{Finding, FindingKind, RowScales, SubScales};
pub use decode::DecodeOptions;
pub(crate) use decode::{ByteWindow, DecodePlan};
pub(crate) use lookup::nearest;

/// The location of one part of a tensor.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Segment<'a> {
    /// The role of the array in its tensor.
    pub part: Part,
    /// The array's own name in the file.
    pub name: Text<'a>,
    /// The array's dtype.
    pub dtype: DType,
    /// The array's own shape, outermost first.
    pub shape: &'a [u64],
    /// The file that holds it.
    pub path: &'a std::path::Path,
    /// Its bytes in that file.
    pub range: Range<u64>,
    number: u32,
}

/// A named logical array of a [`Store`], with all its parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredTensor<'a> {
    store: &'a Store,
    number: u32,
}

/// The number of values decoded at a time when they are not all needed at once.
const CHUNK: u64 = 1 << 20;

/// Says that all parts of these tensors will be read next. It does nothing for files of this machine.
pub(crate) fn prefetch<'a>(tensors: impl Iterator<Item = StoredTensor<'a>>) {
    let mut found: Vec<(&Source, Vec<Range<u64>>)> = Vec::new();
    for tensor in tensors {
        for segment in tensor.segments() {
            let Some(file) = tensor.store.entry_file(segment.number) else { continue };
            if file.source.is_in_reach() {
                continue;
            }
            match found.iter_mut().find(|(source, _)| std::ptr::eq(*source, &*file.source)) {
                Some((_, ranges)) => ranges.push(segment.range),
                None => found.push((&*file.source, vec![segment.range])),
            }
        }
    }
    found.iter().for_each(|(source, ranges)| source.prefetch(ranges));
}

impl<'a> StoredTensor<'a> {
    pub(crate) fn new(store: &'a Store, number: u32) -> Self {
        Self { store, number }
    }

    pub(crate) fn store(&self) -> &'a Store {
        self.store
    }

    /// The number of the tensor in its store.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The stored name: that of the weight part, or, for a tensor grouped from several arrays, the
    /// name in the unquantized checkpoint.
    pub(crate) fn name(&self) -> Text<'a> {
        self.store.entry_name(self.number)
    }

    /// The dtype of the elements.
    ///
    /// # Errors
    ///
    /// `Unsupported` for an unknown ggml type code; the message gives the code and, if it once had
    /// a name, the name.
    pub(crate) fn dtype(&self) -> Result<DType> {
        if let Some((dtype, _)) = self.store.entry_group(self.number) {
            return Ok(dtype);
        }
        self.store.entry_dtype(self.number).map_err(|code| {
            Error::unsupported(format!("{} cannot be read", describe_ggml(code)))
                .in_file(self.store.path())
                .in_tensor(self.name())
        })
    }

    /// The name of the dtype, or `ggml:43` for an unknown code.
    pub(crate) fn dtype_label(&self) -> Cow<'static, str> {
        match (self.dtype(), self.store.entry_dtype(self.number)) {
            (Ok(dtype), _) => dtype.name().into(),
            (_, Err(code)) => format!("ggml:{code}").into(),
            (Err(_), Ok(dtype)) => dtype.name().into(),
        }
    }

    /// The dimensions of the values, outermost first; none for a scalar. The array of a packed
    /// weight may have other dimensions: see [`segments`](Self::segments).
    pub(crate) fn shape(&self) -> &'a [u64] {
        self.store.tensor_shape(self.number)
    }

    /// The number of elements that share a scale, for dtypes whose group size differs between
    /// tensors (MLX).
    pub(crate) fn group_size(&self) -> Option<u32> {
        self.store.entry_group_size(self.number)
    }

    /// The number of values. Opening the store checked that it does not overflow; for an unknown
    /// type code it may be 0 instead.
    pub(crate) fn elements(&self) -> u64 {
        shape::elements(self.shape()).unwrap_or(0)
    }

    /// The parts, the weight first. Empty for an unknown type code.
    pub(crate) fn segments(&self) -> impl Iterator<Item = Segment<'a>> + use<'a> {
        let Self { store, number } = *self;
        let parts = store.entry_group(number).map_or(&[][..], |(_, parts)| parts);
        let alone = parts.is_empty().then_some((Part::Weight, number));
        parts.iter().copied().chain(alone).filter_map(move |(part, number)| {
            let dtype = store.entry_dtype(number).ok()?;
            let entry = store.entry(number)?;
            let shape = store.entry_shape(number);
            let end = entry.offset.checked_add(dtype.tensor_bytes(shape)?)?;
            let path = store.entry_file(number)?.source.path();
            let name = store.stored_name(number);
            Some(Segment { part, name, dtype, shape, path, range: entry.offset..end, number })
        })
    }

    pub(crate) fn segment(&self, part: Part) -> Result<Segment<'a>> {
        self.dtype()?;
        self.segments().find(|segment| segment.part == part).ok_or_else(|| {
            Error::not_found(format!("the tensor has no part \"{}\"", part.name()))
                .in_file(self.store.path())
                .in_tensor(self.name())
        })
    }

    /// Bytes of all parts; 0 for an unknown type code.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.segments().map(|part| part.range.end - part.range.start).fold(0, u64::saturating_add)
    }

    /// The origin of the weight.
    pub(crate) fn origin(&self) -> Origin {
        let file = self.store.entry_file(self.number);
        file.zip(self.store.entry(self.number))
            .map_or(Origin::Stored, |(file, entry)| file.source.origin(entry.offset))
    }

    /// The bytes of a part in the byte order of the file, borrowed from the memory map if there is
    /// one. They may be unaligned.
    ///
    /// # Errors
    ///
    /// `Unsupported` for an unknown type code, `NotFound` if the tensor has no such part, `Io` if
    /// the file cannot be read or became shorter.
    pub(crate) fn bytes(&self, part: Part) -> Result<Cow<'a, [u8]>> {
        let segment = self.segment(part)?;
        self.located(|store| match store.entry_file(segment.number) {
            Some(file) => file.source.bytes(segment.range.clone()),
            None => Err(Error::not_found("the tensor's file is missing")),
        })
    }

    /// The bytes of a part, little-endian, borrowed from the memory map if there is one and the
    /// file is little-endian.
    ///
    /// # Errors
    ///
    /// Same as [`bytes`](Self::bytes); `Unsupported` if the big-endian form of the dtype is
    /// unknown.
    pub(crate) fn native_bytes(&self, part: Part) -> Result<Cow<'a, [u8]>> {
        let segment = self.segment(part)?;
        let bytes = self.bytes(part)?;
        match self.store.entry_file(segment.number) {
            Some(file) if file.big_endian => {
                self.check_swappable(segment.dtype)?;
                let mut bytes = bytes.into_owned();
                swap(&mut bytes, segment.dtype);
                Ok(Cow::Owned(bytes))
            }
            _ => Ok(bytes),
        }
    }

    /// The open file that holds a part, and the part's bytes in it.
    pub(crate) fn file(&self, part: Part) -> Result<(std::fs::File, Range<u64>)> {
        let segment = self.segment(part)?;
        if self.is_big_endian() {
            let fault = "the file is big-endian";
            return Err(Error::unsupported(fault).in_tensor(self.name()));
        }
        self.located(|store| match store.entry_file(segment.number) {
            Some(file) => Ok((file.source.file()?, segment.range.clone())),
            None => Err(Error::not_found("the tensor's file is missing")),
        })
    }

    fn check_swappable(&self, dtype: DType) -> Result<()> {
        if !dtype.descriptor().units.is_empty() {
            return Ok(());
        }
        Err(Error::unsupported(format!("the big-endian form of {dtype} is unknown"))
            .in_file(self.store.path())
            .in_tensor(self.name()))
    }

    /// Passes the bytes of a part to `sink` in pieces, through one small buffer and never through a
    /// memory map.
    ///
    /// # Errors
    ///
    /// Same as [`bytes`](Self::bytes), and any error of `sink`.
    pub(crate) fn for_each_piece<E: From<Error>>(
        &self,
        part: Part,
        sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Range { start, end } = self.segment(part)?.range;
        self.for_each_piece_in(part, 0..end - start, sink)
    }

    /// Like [`for_each_piece`](Self::for_each_piece), for a byte range of the part.
    ///
    /// # Errors
    ///
    /// Same as [`bytes`](Self::bytes), and any error of `sink`; `Mismatch` if the range exceeds the
    /// part.
    pub(crate) fn for_each_piece_in<E: From<Error>>(
        &self,
        part: Part,
        within: Range<u64>,
        mut sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let segment = self.segment(part)?;
        let Some(file) = self.store.entry_file(segment.number) else { return Ok(()) };
        let bytes = segment.range.end - segment.range.start;
        if within.start > within.end || within.end > bytes {
            let fault = format!(
                "bytes {}..{} exceed the {bytes} bytes of the {}",
                within.start,
                within.end,
                part.name()
            );
            let error = Error::mismatch(fault).in_file(segment.path).in_tensor(self.name());
            return Err(error.into());
        }
        let end = segment.range.start + within.end;
        let mut at = segment.range.start + within.start;
        let mut buffer = try_zeroed(usize::try_from((end - at).min(CHUNK)).unwrap_or(0))?;
        file.source.prefetch(std::slice::from_ref(&(at..end)));
        while at < end {
            let len = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len());
            let Some(piece) = buffer.get_mut(..len) else { break };
            file.source.read_at(at, piece).map_err(|error| error.in_tensor(self.name()))?;
            sink(piece)?;
            at += len as u64;
        }
        Ok(())
    }

    /// A byte range of a part.
    fn bytes_within(&self, part: Part, within: Range<u64>) -> Result<Cow<'a, [u8]>> {
        let (source, segment) = self.source(part)?;
        let range = self.range(&segment, &within)?;
        source.bytes(range).map_err(|error| error.in_tensor(self.name()))
    }

    /// Whether two tensors have the same packing and the same bytes, so that their values are
    /// equal.
    pub(crate) fn is_packed_like(&self, other: &StoredTensor<'_>) -> Result<bool> {
        let form = |tensor: &StoredTensor<'_>| {
            let (shape, group) = (tensor.shape().to_vec(), tensor.group_size());
            (tensor.dtype_label(), shape, group, tensor.is_big_endian())
        };
        let own = |part: &Segment<'_>| (part.part, part.dtype, part.shape.to_vec());
        if form(self) != form(other)
            || !self.segments().map(|part| own(&part)).eq(other.segments().map(|part| own(&part)))
        {
            return Ok(false);
        }
        for Segment { part, range, .. } in self.segments() {
            let bytes = range.end - range.start;
            let mut at = 0;
            while at < bytes {
                let end = bytes.min(at + CHUNK);
                if self.bytes_within(part, at..end)? != other.bytes_within(part, at..end)? {
                    return Ok(false);
                }
                at = end;
            }
        }
        // The bytes of a tensor of an unknown type are unknown.
        Ok(self.dtype().is_ok())
    }

    /// The path of the model that contains the tensor.
    pub(crate) fn model(&self) -> &'a std::path::Path {
        self.store.path()
    }

    /// A byte range of a part, little-endian. In a big-endian file it must be whole blocks.
    pub(crate) fn native_within(&self, part: Part, within: Range<u64>) -> Result<Cow<'a, [u8]>> {
        let bytes = self.bytes_within(part, within)?;
        if !self.is_big_endian() {
            return Ok(bytes);
        }
        let segment = self.segment(part)?;
        self.check_swappable(segment.dtype)?;
        let mut bytes = bytes.into_owned();
        swap(&mut bytes, segment.dtype);
        Ok(Cow::Owned(bytes))
    }

    pub(crate) fn is_big_endian(&self) -> bool {
        self.store.entry_file(self.number).is_some_and(|file| file.big_endian)
    }

    fn located<T>(&self, read: impl FnOnce(&'a Store) -> Result<T>) -> Result<T> {
        read(self.store).map_err(|error| error.in_tensor(self.name()))
    }
}

/// Reverses the byte order of the numbers in big-endian blocks.
fn swap(bytes: &mut [u8], dtype: DType) {
    let row = dtype.descriptor();
    for block in bytes.chunks_exact_mut(row.block_bytes as usize) {
        let mut rest = block;
        for &(width, count) in row.units {
            let (width, count) = (usize::from(width), usize::from(count));
            let Some((numbers, tail)) = rest.split_at_mut_checked(width * count) else { return };
            if width > 1 {
                numbers.chunks_exact_mut(width).for_each(<[u8]>::reverse);
            }
            rest = tail;
        }
    }
}
