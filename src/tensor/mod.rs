//! One tensor of a store: what it is, its bytes, its values.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

mod bulk;
mod check;
mod decode;

use std::borrow::Cow;
use std::ops::Range;

use crate::bytes::{Text, try_zeroed};
use crate::dtype::{DType, describe_ggml};
use crate::error::{Error, Result};
use crate::shape;
use crate::store::WeightStore;

pub use check::{Finding, FindingKind};
pub use decode::Decoding;
pub(crate) use decode::{Plan, Window};

/// What a stored array is to the tensor that it belongs to.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Part {
    /// The elements themselves, packed or plain.
    Weight,
    /// A factor for each group or block, or for the whole tensor where there is no other.
    Scale,
    /// A term added for each group: not a layer's own bias, which is a tensor by itself.
    Bias,
    /// A factor for the whole tensor, beside factors for its groups.
    GlobalScale,
    /// The largest magnitude of the whole tensor, from which its factor follows (MLX).
    GlobalAmax,
    /// A divisor for the whole tensor, beside factors for its groups (compressed-tensors).
    GlobalDivisor,
    /// What is subtracted from the elements of each group before they are scaled.
    ZeroPoint,
    /// The number of the group of each input (GPTQ's `g_idx`).
    GroupIndex,
    /// The largest magnitude of each run of elements, or its code (bitsandbytes).
    Absmax,
    /// The values of the codes of the elements (bitsandbytes).
    CodeValues,
    /// The largest magnitude of each run of `Absmax` codes.
    NestedAbsmax,
    /// The values of the codes of `Absmax`.
    NestedCodeValues,
    /// A description of how the tensor was packed, for the library that did it.
    Description,
    /// A factor for the layer's input, which no weight needs.
    ActivationScale,
}

impl Part {
    /// The name in messages and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Weight => "weight",
            Self::Scale => "scale",
            Self::Bias => "bias",
            Self::GlobalScale => "global_scale",
            Self::GlobalAmax => "global_amax",
            Self::GlobalDivisor => "global_divisor",
            Self::ZeroPoint => "zero_point",
            Self::GroupIndex => "group_index",
            Self::Absmax => "absmax",
            Self::CodeValues => "code_values",
            Self::NestedAbsmax => "nested_absmax",
            Self::NestedCodeValues => "nested_code_values",
            Self::Description => "description",
            Self::ActivationScale => "activation_scale",
        }
    }
}

/// Where one part of a tensor lies.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Segment<'a> {
    /// What the array is to its tensor.
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

/// A named logical array of a [`WeightStore`], with all its parts.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    store: &'a WeightStore,
    number: u32,
}

/// Values decoded at a time where all of them need not be held.
const CHUNK: u64 = 1 << 20;

impl<'a> Tensor<'a> {
    pub(crate) fn new(store: &'a WeightStore, number: u32) -> Self {
        Self { store, number }
    }

    /// The stored name: that of its weight part, or for a tensor gathered from several arrays the one
    /// that it has in the unquantized checkpoint.
    pub fn name(&self) -> Text<'a> {
        self.store.entry_name(self.number)
    }

    /// How the elements are stored.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a ggml type code that is not known; the message gives the code and, where
    /// there is one, the name it once had.
    pub fn dtype(&self) -> Result<DType> {
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
    pub fn dtype_label(&self) -> Cow<'static, str> {
        match (self.dtype(), self.store.entry_dtype(self.number)) {
            (Ok(dtype), _) => dtype.name().into(),
            (_, Err(code)) => format!("ggml:{code}").into(),
            (Err(_), Ok(dtype)) => dtype.name().into(),
        }
    }

    /// Dimensions of the values, outermost first; none for a scalar. A packed weight's own array
    /// may have others: see [`segments`](Self::segments).
    pub fn shape(&self) -> &'a [u64] {
        self.store.tensor_shape(self.number)
    }

    /// Elements that share a scale, for dtypes that leave the number to the tensor (MLX).
    pub fn group_size(&self) -> Option<u32> {
        self.store.entry_group_size(self.number)
    }

    /// The number of values. It was checked not to overflow when the store was opened; for an
    /// unknown type code it may be 0 instead.
    pub fn elements(&self) -> u64 {
        shape::elements(self.shape()).unwrap_or(0)
    }

    /// The parts, the weight first. Empty for an unknown type code.
    pub fn segments(&self) -> impl Iterator<Item = Segment<'a>> + use<'a> {
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

    fn segment(&self, part: Part) -> Result<Segment<'a>> {
        self.dtype()?;
        self.segments().find(|segment| segment.part == part).ok_or_else(|| {
            Error::not_found(format!("it has no part \"{}\"", part.name()))
                .in_file(self.store.path())
                .in_tensor(self.name())
        })
    }

    /// Bytes of all parts; 0 for an unknown type code.
    pub fn stored_bytes(&self) -> u64 {
        self.segments().map(|part| part.range.end - part.range.start).fold(0, u64::saturating_add)
    }

    /// Bits for each value, scales and the like included.
    pub fn bits_per_weight(&self) -> Option<f64> {
        let elements = self.elements();
        (elements > 0 && self.dtype().is_ok())
            .then(|| self.stored_bytes() as f64 * 8.0 / elements as f64)
    }

    /// The bytes of a part as they lie in the file, big-endian ones too: borrowed from the map
    /// where there is one. They need not be aligned for anything.
    ///
    /// # Errors
    ///
    /// `Unsupported` for an unknown type code, `NotFound` for a part that the tensor does not
    /// have, `Io` if the file cannot be read or has become shorter.
    pub fn bytes(&self, part: Part) -> Result<Cow<'a, [u8]>> {
        let segment = self.segment(part)?;
        self.located(|store| match store.entry_file(segment.number) {
            Some(file) => file.source.bytes(segment.range.clone()),
            None => Err(Error::not_found("its file")),
        })
    }

    /// The bytes of a part, little-endian: borrowed from the map where there is one and the file is
    /// not big-endian.
    ///
    /// # Errors
    ///
    /// As [`bytes`](Self::bytes); `Unsupported` where the big-endian form of the dtype is not known.
    pub fn native_bytes(&self, part: Part) -> Result<Cow<'a, [u8]>> {
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

    fn check_swappable(&self, dtype: DType) -> Result<()> {
        if !dtype.descriptor().units.is_empty() {
            return Ok(());
        }
        Err(Error::unsupported(format!("the big-endian form of {dtype} is not known"))
            .in_file(self.store.path())
            .in_tensor(self.name()))
    }

    /// Passes the bytes of a part to `sink` in pieces, through one small buffer and never through
    /// the map.
    ///
    /// # Errors
    ///
    /// As [`bytes`](Self::bytes), and what `sink` returns.
    pub fn for_each_piece<E: From<Error>>(
        &self,
        part: Part,
        sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Range { start, end } = self.segment(part)?.range;
        self.for_each_piece_in(part, 0..end - start, sink)
    }

    /// As [`for_each_piece`](Self::for_each_piece), for the bytes of a part from one to another,
    /// counted from the part's first.
    ///
    /// # Errors
    ///
    /// As [`bytes`](Self::bytes), and what `sink` returns; `Mismatch` where the part has not that
    /// many bytes.
    pub fn for_each_piece_in<E: From<Error>>(
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
                "bytes {}..{} of the {bytes} of its {}",
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
        while at < end {
            let len = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len());
            let Some(piece) = buffer.get_mut(..len) else { break };
            file.source.read_at(at, piece).map_err(|error| error.in_tensor(self.name()))?;
            sink(piece)?;
            at += len as u64;
        }
        Ok(())
    }

    /// Part of the bytes of a part.
    fn bytes_within(&self, part: Part, within: Range<u64>) -> Result<Cow<'a, [u8]>> {
        let segment = self.segment(part)?;
        let start = segment.range.start.saturating_add(within.start);
        let end = segment.range.start.saturating_add(within.end);
        if end > segment.range.end {
            return Err(Error::malformed(format!("its {} is too short", part.name()))
                .in_file(self.store.path())
                .in_tensor(self.name()));
        }
        self.located(|store| match store.entry_file(segment.number) {
            Some(file) => file.source.bytes(start..end),
            None => Err(Error::not_found("its file")),
        })
    }

    /// Whether it is packed in the same way as another, into the same bytes: then its values are the
    /// same too.
    pub(crate) fn is_packed_like(&self, other: &Tensor<'_>) -> Result<bool> {
        let form = |tensor: &Tensor<'_>| {
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
        // A tensor of an unknown type has no bytes that are known.
        Ok(self.dtype().is_ok())
    }

    /// The path of the model that it is of.
    pub(crate) fn model(&self) -> &'a std::path::Path {
        self.store.path()
    }

    /// Part of the bytes of a part, little-endian. In a big-endian file they are whole blocks.
    pub(crate) fn native_within(&self, part: Part, within: Range<u64>) -> Result<Cow<'a, [u8]>> {
        let segment = self.segment(part)?;
        let bytes = self.bytes_within(part, within)?;
        if !self.is_big_endian() {
            return Ok(bytes);
        }
        self.check_swappable(segment.dtype)?;
        let mut bytes = bytes.into_owned();
        swap(&mut bytes, segment.dtype);
        Ok(Cow::Owned(bytes))
    }

    pub(crate) fn is_big_endian(&self) -> bool {
        self.store.entry_file(self.number).is_some_and(|file| file.big_endian)
    }

    fn located<T>(&self, read: impl FnOnce(&'a WeightStore) -> Result<T>) -> Result<T> {
        read(self.store).map_err(|error| error.in_tensor(self.name()))
    }
}

/// Turns the numbers of big-endian blocks round.
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
