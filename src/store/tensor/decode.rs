//! Decoding of a tensor's values: which bytes of its parts a range of elements needs, and how the
//! work is divided.

use std::borrow::Cow;
use std::ops::Range;

use super::{Segment, StoredTensor};
use crate::bytes::{AlignedBuffer, Scratch, try_vec, try_zeroed};
use crate::dtype::{DType, DTypeDescriptor, Packing};
use crate::error::{Error, Result};
use crate::json::Json;
use crate::quant::{
    BlockScales, Codec, Decoder, Element, Float, Global, Inputs, Narrowing, Packed, PackedRows,
    Rounding, RowsDecode, Runs, ScaleFormat, SchemeArrays, StoredArray, Stores, narrow,
};
use crate::rounding::f32_of;
use crate::setters::setters;
use crate::shape;
use crate::store::Part;
use crate::threads::Threads;

/// Options for decoding values.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct DecodeOptions {
    /// When values are rounded.
    pub rounding: Rounding,
    /// The threads that share the work: by default the calling thread alone, which writes nearly as
    /// fast as the memory allows.
    pub threads: Threads,
}

impl DecodeOptions {
    /// The defaults: every step rounds to `f32`, and the calling thread does the work.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets when values are rounded.
        rounding: Rounding;
        /// Sets the threads that share the work.
        threads: impl Into<Threads>;
    }
}

impl Default for DecodeOptions {
    fn default() -> Self {
        Self { rounding: Rounding::default(), threads: Threads::one() }
    }
}

/// The largest number of elements of a piece, unless a row or block is longer: large enough that
/// the cost of a piece itself is negligible.
const PIECE: u64 = 1 << 18;

/// From this many bytes, values are written with streaming stores: the cache could not keep them
/// until they are read, and a write through the cache reads the memory first.
const STREAMED: usize = 8 << 20;

/// The number of values passed on at a time when they are not all needed at once.
const CHUNK: u64 = 1 << 18;

impl<'a> StoredTensor<'a> {
    /// Checks that [`dequantize`](Self::dequantize) supports the dtype.
    ///
    /// # Errors
    ///
    /// `Unsupported`, naming the dtype.
    pub(crate) fn check_decodable(&self) -> Result<()> {
        self.codec().map(drop)
    }

    /// Checks that the stored numbers are values, or codes with all that their values are computed from.
    ///
    /// # Errors
    ///
    /// `Unsupported`, with the scheme and the arrays.
    pub(crate) fn check_known(&self) -> Result<()> {
        match self.store.refused.get(&self.number) {
            Some(why) => Err(self.store.refusal(self.number, why)),
            None => Ok(()),
        }
    }

    fn codec(&self) -> Result<(DType, &'static Codec)> {
        self.check_known()?;
        let dtype = self.dtype()?;
        let codec = dtype.descriptor().codec.ok_or_else(|| {
            let fault = format!("decoding {dtype} is not supported yet");
            Error::unsupported(fault).in_file(self.store.path()).in_tensor(self.name())
        })?;
        if self.is_big_endian() {
            self.check_swappable(dtype)?;
        }
        Ok((dtype, codec))
    }

    /// Returns all values as `f32`, in row-major order, in new memory.
    ///
    /// # Errors
    ///
    /// Same as [`bytes`](Self::bytes); `Unsupported` for a dtype whose values cannot be read.
    pub(crate) fn dequantize(&self) -> Result<AlignedBuffer<f32>> {
        let plan = DecodePlan::new(self)?;
        let elements = usize::try_from(self.elements())
            .map_err(|_| Error::unsupported("the values exceed this machine's address space"))?;
        let mut out =
            AlignedBuffer::zeroed(elements).map_err(|error| error.in_tensor(self.name()))?;
        plan.decode(0..self.elements(), &mut out, &DecodeOptions::new())?;
        Ok(out)
    }

    /// Passes all values to `sink`, in chunks and constant memory. Returns the number of values
    /// that rounding turned into infinity or 0. Only the schemes that need all of their arrays at
    /// once (GPTQ, AWQ, compressed-tensors' integers, scaled FP8, bitsandbytes) hold those arrays,
    /// packed as stored, if the file is read and not mapped.
    ///
    /// # Errors
    ///
    /// Same as [`dequantize`](Self::dequantize), and any error of `sink`.
    pub(crate) fn for_each_values<T: Element, E: From<Error>>(
        &self,
        sink: impl FnMut(&[T]) -> Result<(), E>,
    ) -> Result<Narrowing, E> {
        DecodePlan::new(self)?.each(0..self.elements(), sink)
    }

    /// The number format of a part, if its numbers are floats.
    pub(super) fn float_format(&self, segment: &Segment<'_>) -> Option<Float> {
        match segment.dtype {
            DType::F32 => Some(Float::F32),
            DType::F16 => Some(Float::F16),
            DType::BF16 => Some(Float::BF16),
            DType::F8_E4M3 => Some(Float::E4M3),
            DType::F8_E8M0 => Some(Float::E8M0),
            // MLX, gpt-oss and compressed-tensors store these formats as U8.
            DType::U8 => {
                let dtype = self.dtype().ok()?;
                let scales = dtype.descriptor().scales.filter(|scales| scales.places.is_empty());
                match scales.map(|scales| scales.format) {
                    Some(ScaleFormat::Float(float)) => Some(float),
                    _ => dtype.is_scaled_f8().then_some(Float::E8M0),
                }
            }
            _ => None,
        }
    }

    /// The global scales: one for the whole tensor, or one for each of its outermost arrays.
    pub(crate) fn globals(&self) -> Result<Vec<Global>> {
        let is_global = |segment: &Segment<'_>| {
            matches!(segment.part, Part::GlobalAmax | Part::GlobalScale | Part::GlobalDivisor)
        };
        let Some(segment) = self.segments().find(is_global) else { return Ok(Vec::new()) };
        // One for all, or one for each of the outermost arrays.
        let count = shape::elements(segment.shape).unwrap_or(0);
        let each = self.elements().checked_div(count).unwrap_or(0);
        let whole = each.saturating_mul(count) == self.elements()
            && each.is_multiple_of(shape::columns(self.shape()).max(1));
        if segment.dtype != DType::F32 || count == 0 || !whole {
            let (part, shape) = (segment.part.name(), segment.shape);
            let fault = format!("the {part} is {} {shape:?}, but F32 is required", segment.dtype);
            return Err(Error::malformed(format!("{fault}, one number or one for each array"))
                .in_file(self.store.path())
                .in_tensor(self.name()));
        }
        let bytes = self.native_bytes(segment.part)?;
        let number = |bytes: &[u8; 4]| {
            let number = f32::from_le_bytes(*bytes);
            match segment.part {
                Part::GlobalAmax => Global::of_amax(number),
                Part::GlobalDivisor => Global::Divisor(number),
                _ => Global::Factor(number),
            }
        };
        Ok(bytes.as_chunks::<4>().0.iter().map(number).collect())
    }

    fn array(&self, segment: &Segment<'a>) -> Result<StoredArray<'a>> {
        let format = self.float_format(segment);
        let width = segment.dtype.descriptor().block_bytes as usize;
        Ok(StoredArray { bytes: self.bytes(segment.part)?, shape: segment.shape, width, format })
    }
}

/// Consecutive bytes of a weight part, starting at `start`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteWindow<'w> {
    pub(crate) start: u64,
    pub(crate) bytes: &'w [u8],
}

impl<'w> ByteWindow<'w> {
    fn within(self, range: &Range<u64>) -> Option<&'w [u8]> {
        let at = |place: u64| usize::try_from(place.checked_sub(self.start)?).ok();
        self.bytes.get(at(range.start)?..at(range.end)?)
    }
}

/// The constants for decoding any range of a tensor's elements, computed once.
pub(crate) struct DecodePlan<'a> {
    tensor: StoredTensor<'a>,
    row: &'static DTypeDescriptor,
    codec: &'static Codec,
    columns: u64,
    /// Ranges start and end at multiples of this many elements: a block, a group or a row.
    unit: u64,
    /// The number of elements of a piece.
    step: u64,
    /// The number of elements of a group; 1 for other dtypes.
    group_size: u64,
    formats: (Option<Float>, Option<Float>),
    globals: Vec<Global>,
    /// The number of elements that share a global scale.
    each_global: u64,
    /// All arrays, for schemes that need them at once.
    parts: Option<SchemeArrays<'a>>,
}

impl<'a> DecodePlan<'a> {
    pub(crate) fn new(tensor: &StoredTensor<'a>) -> Result<Self> {
        let (dtype, codec) = tensor.codec()?;
        let row = dtype.descriptor();
        let columns = shape::columns(tensor.shape());
        let group_size = u64::from(tensor.group_size().unwrap_or(1)).max(1);
        let format = |part: Part| -> Result<Option<Float>> {
            let Some(segment) = tensor.segments().find(|segment| segment.part == part) else {
                return Ok(None);
            };
            let format = tensor.float_format(&segment);
            let format = format.ok_or_else(|| {
                let fault = format!("a {} of {}", part.name(), segment.dtype);
                Error::unsupported(fault).in_file(tensor.store.path()).in_tensor(tensor.name())
            })?;
            Ok(Some(format))
        };
        let runs = matches!(codec.0, Decoder::Runs(_));
        let formats = if runs && row.packing == Packing::Group {
            (format(Part::Scale)?, format(Part::Bias)?)
        } else {
            (None, None)
        };
        let unit = match (runs, row.row_head) {
            (true, 0) => u64::from(row.block_len).max(group_size),
            _ => columns.max(1),
        };
        let step = (PIECE / unit).max(1).saturating_mul(unit);
        let globals = if runs { tensor.globals()? } else { Vec::new() };
        // Each of the outermost arrays (experts) may have its own global scale.
        let each_global = match globals.len() as u64 {
            0 | 1 => u64::MAX,
            arrays => tensor.elements().checked_div(arrays).unwrap_or(1).max(1),
        };
        let parts = if runs { None } else { Some(tensor.parts(columns)?) };
        let tensor = *tensor;
        Ok(Self {
            tensor,
            row,
            codec,
            columns,
            unit,
            step,
            group_size,
            formats,
            globals,
            each_global,
            parts,
        })
    }

    /// The end of the piece that starts at an element.
    fn piece_end(&self, start: u64, end: u64) -> u64 {
        let global = (start / self.each_global).saturating_add(1).saturating_mul(self.each_global);
        end.min(start.saturating_add(self.step)).min(global)
    }

    /// Passes the values of a range of elements to `sink`, in chunks that fit into a small buffer.
    /// The range must start and end at multiples of the unit.
    fn each<T: Element, E: From<Error>>(
        &self,
        elements: Range<u64>,
        mut sink: impl FnMut(&[T]) -> Result<(), E>,
    ) -> Result<Narrowing, E> {
        let room = CHUNK.max(self.unit).min(elements.end - elements.start);
        let mut out = try_vec(usize::try_from(room).unwrap_or(usize::MAX))?;
        let mut lost = Narrowing::default();
        let mut at = elements.start;
        while at < elements.end {
            let mut end = at;
            // As many whole pieces as fit, and at least one.
            while end < elements.end {
                let next = self.piece_end(end, elements.end);
                if end > at && next - at > room {
                    break;
                }
                end = next;
            }
            out.resize(usize::try_from(end - at).unwrap_or(usize::MAX), T::new_zeroed());
            lost += self.decode(at..end, &mut out, &DecodeOptions::new())?;
            sink(&out)?;
            at = end;
        }
        Ok(lost)
    }

    /// Decodes a range of elements into `out`, whose length is their number. The range must start
    /// and end at multiples of the unit.
    pub(crate) fn decode<T: Element>(
        &self,
        elements: Range<u64>,
        out: &mut [T],
        decoding: &DecodeOptions,
    ) -> Result<Narrowing> {
        self.decode_from(elements, out, decoding, None)
    }

    /// Like [`decode`](Self::decode), with the weight's bytes for these elements if the caller has
    /// already read them.
    pub(crate) fn decode_from<T: Element>(
        &self,
        elements: Range<u64>,
        out: &mut [T],
        decoding: &DecodeOptions,
        window: Option<ByteWindow<'_>>,
    ) -> Result<Narrowing> {
        let stores = if size_of_val(out) >= STREAMED { Stores::Streaming } else { Stores::Cached };
        let whole = |element: u64| element.is_multiple_of(self.unit);
        if self.row.packing != Packing::Plain && !(whole(elements.start) && whole(elements.end)) {
            let fault =
                format!("rows of {} elements end within a unit of {}", self.columns, self.unit);
            return Err(self.malformed(&fault));
        }
        let (mut start, mut rest) = (elements.start, out);
        let pieces = std::iter::from_fn(|| {
            if start >= elements.end {
                return None;
            }
            let end = self.piece_end(start, elements.end);
            let len = usize::try_from(end - start).unwrap_or(usize::MAX).min(rest.len());
            let (now, later) = std::mem::take(&mut rest).split_at_mut(len);
            let range = start..end;
            (start, rest) = (end, later);
            Some((range, now))
        });
        let decode = |(range, out)| self.piece(range, out, decoding.rounding, stores, window);
        let mut lost = Narrowing::default();
        if decoding.threads == Threads::one() {
            for piece in pieces {
                lost += decode(piece)?;
            }
            return Ok(lost);
        }
        let pieces: Vec<_> = pieces.collect();
        let decode = |(): &mut (), piece| decode(piece);
        for piece in decoding.threads.in_order(pieces.into_iter(), || (), decode)? {
            lost += piece;
        }
        Ok(lost)
    }

    /// Fills `out` with the products of whole rows with one row of inputs, without a copy of their
    /// values: those of every `step`-th row of the `elements`. `false` if there is no kernel for that.
    pub(crate) fn multiply(
        &self,
        elements: &Range<u64>,
        step: usize,
        inputs: &Inputs<'_>,
        out: &mut [f32],
    ) -> Result<bool> {
        let Decoder::Runs(runs) = &self.codec.0 else { return Ok(false) };
        let is_whole = [16, self.unit].iter().all(|unit| self.columns.is_multiple_of(*unit));
        let is_plain = self.row.row_head == 0 && self.globals.is_empty();
        if !is_whole || !is_plain || !self.is_weight_alone() {
            return Ok(false);
        }
        let bytes = &self.weight(elements, None)?;
        Ok(runs.multiply(PackedRows { bytes, step }, inputs, out))
    }

    fn piece<T: Element>(
        &self,
        elements: Range<u64>,
        out: &mut [T],
        rounding: Rounding,
        stores: Stores,
        window: Option<ByteWindow<'_>>,
    ) -> Result<Narrowing> {
        let runs = match &self.codec.0 {
            Decoder::Runs(runs) => runs,
            Decoder::Rows(decode) => return self.piece_of_rows(*decode, &elements, out),
        };
        let global = usize::try_from(elements.start / self.each_global).unwrap_or(usize::MAX);
        let global = self.globals.get(global).copied().unwrap_or(Global::None);
        if self.row.packing == Packing::Group {
            let [scale, bias] = self.scales_and_biases(&elements, window)?;
            let packed = Packed {
                weight: &self.weight(&elements, window)?,
                scale: &scale,
                bias: &bias,
                formats: (
                    self.formats.0.unwrap_or(Float::F32),
                    self.formats.1.or(self.formats.0).unwrap_or(Float::F32),
                ),
                group_size: usize::try_from(self.group_size).unwrap_or(1),
                global,
            };
            return Ok(runs.decode(&packed, out, rounding, stores));
        }
        let weight = self.weight(&elements, window)?;
        if self.row.row_head > 0 {
            return Ok(self.piece_with_heads(runs, &weight, out, rounding, stores));
        }
        let packed = Packed::blocks(&weight);
        let Global::Factor(factor) = global else {
            return Ok(runs.decode(&packed, out, rounding, stores));
        };
        // The block's value times the factor: two roundings.
        let mut exact = vec![0.0; out.len()];
        runs.decode(&packed, &mut exact, rounding, Stores::Cached);
        exact.iter_mut().for_each(|value| *value *= factor);
        Ok(narrow(&exact, out))
    }

    /// Decodes rows that need all parts of the tensor.
    fn piece_of_rows<T: Element>(
        &self,
        decode: RowsDecode,
        elements: &Range<u64>,
        out: &mut [T],
    ) -> Result<Narrowing> {
        let first = elements.start.checked_div(self.columns).unwrap_or(0);
        let rows = out.len() as u64 / self.columns.max(1);
        let range = usize::try_from(first).ok().zip(usize::try_from(first + rows).ok());
        let mut exact = try_vec(out.len())?;
        exact.resize(out.len(), 0.0);
        self.parts
            .as_ref()
            .zip(range)
            .and_then(|(parts, (start, end))| decode(parts, start..end, &mut exact))
            .map(|()| narrow(&exact, out))
            .ok_or_else(|| self.malformed("the parts do not match"))
    }

    /// The bytes of the scales and of the biases of whole groups.
    fn scales_and_biases(
        &self,
        elements: &Range<u64>,
        window: Option<ByteWindow<'_>>,
    ) -> Result<[Cow<'a, [u8]>; 2]> {
        let per_group = |format: Option<Float>| {
            let bytes = format?.bytes() as u64;
            let at = |element: u64| (element / self.group_size).checked_mul(bytes);
            Some(at(elements.start)?..at(elements.end)?)
        };
        let scale = match per_group(self.formats.0) {
            Some(range) => self.group_bytes(Part::Scale, range, window)?,
            None => return Err(self.malformed("the tensor has no scales")),
        };
        let bias = match per_group(self.formats.1) {
            Some(range) => self.group_bytes(Part::Bias, range, window)?,
            None => Cow::Borrowed(&[][..]),
        };
        Ok([scale, bias])
    }

    /// Decodes whole rows, each of which starts with bytes for all of its blocks.
    fn piece_with_heads<T: Element>(
        &self,
        runs: &Runs,
        weight: &[u8],
        out: &mut [T],
        rounding: Rounding,
        stores: Stores,
    ) -> Narrowing {
        let bytes = self.row.dtype.row_bytes(self.columns).unwrap_or(0);
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).max(1);
        let columns = usize::try_from(self.columns).unwrap_or(usize::MAX).max(1);
        let block_bytes = self.row.block_bytes as usize;
        let blocks = usize::try_from(PIECE / u64::from(self.row.block_len)).unwrap_or(1);
        let step = blocks * self.row.block_len as usize;
        let mut lost = Narrowing::default();
        for (row, out) in weight.chunks(bytes).zip(out.chunks_mut(columns)) {
            let (head, row) =
                row.split_at_checked(self.row.row_head as usize).unwrap_or((&[], &[]));
            // A row may be as long as its file.
            for (row, out) in row.chunks(blocks * block_bytes).zip(out.chunks_mut(step)) {
                let packed = Packed { scale: head, ..Packed::blocks(row) };
                lost += runs.decode(&packed, out, rounding, stores);
            }
        }
        lost
    }

    /// The weight's bytes for some elements, little-endian.
    fn weight<'w>(
        &self,
        elements: &Range<u64>,
        window: Option<ByteWindow<'w>>,
    ) -> Result<Cow<'w, [u8]>>
    where
        'a: 'w,
    {
        let Some(range) = self.weight_range(elements) else {
            // Only elements smaller than a byte can be requested at a position inside a byte.
            let dtype = self.row.dtype;
            let fault = format!("{dtype} rows do not start at whole bytes; read the whole tensor");
            return Err(Error::unsupported(fault).in_tensor(self.tensor.name()));
        };
        match window.and_then(|window| window.within(&range)) {
            Some(bytes) => Ok(Cow::Borrowed(bytes)),
            None => self.tensor.native_within(Part::Weight, range),
        }
    }

    /// The bytes of a part with a number for each group. They are read if the weight was read, and
    /// borrowed otherwise.
    fn group_bytes(
        &self,
        part: Part,
        range: Range<u64>,
        window: Option<ByteWindow<'_>>,
    ) -> Result<Cow<'a, [u8]>> {
        if window.is_none() {
            return self.tensor.bytes_within(part, range);
        }
        let mut bytes = try_zeroed(usize::try_from(range.end - range.start).unwrap_or(usize::MAX))?;
        self.tensor.fill(part, range.start, &mut bytes, &mut Scratch::default())?;
        Ok(Cow::Owned(bytes))
    }

    /// Whether the weight part alone determines the values.
    pub(crate) fn is_weight_alone(&self) -> bool {
        self.parts.is_none() && self.formats == (None, None)
    }

    /// Ranges start and end at multiples of this many elements.
    pub(crate) fn unit(&self) -> u64 {
        self.unit
    }

    /// The byte range of some elements in the weight part.
    pub(crate) fn weight_range(&self, elements: &Range<u64>) -> Option<Range<u64>> {
        let dtype = self.row.dtype;
        let at = |element: u64| match self.row.row_head {
            0 => dtype.row_bytes(element),
            _ => dtype.row_bytes(self.columns)?.checked_mul(element.checked_div(self.columns)?),
        };
        Some(at(elements.start)?..at(elements.end)?)
    }

    /// Whether weight bytes that were read elsewhere can be decoded as they are.
    pub(crate) fn takes_windows(&self) -> bool {
        self.parts.is_none() && !self.tensor.is_big_endian()
    }

    fn malformed(&self, fault: &str) -> Error {
        Error::malformed(fault.to_owned())
            .in_file(self.tensor.store.path())
            .in_tensor(self.tensor.name())
    }
}

impl<'a> StoredTensor<'a> {
    /// All arrays of a tensor that is decoded row by row.
    fn parts(&self, columns: u64) -> Result<SchemeArrays<'a>> {
        self.check_groups()?;
        let array = |part: Part| {
            let segment = self.segments().find(|segment| segment.part == part);
            segment.map(|segment| self.array(&segment)).transpose()
        };
        let weight = array(Part::Weight)?
            .ok_or_else(|| Error::not_found("the tensor has no weight part"))?;
        Ok(SchemeArrays {
            shape: self.shape(),
            columns: usize::try_from(columns).unwrap_or(usize::MAX),
            weight,
            scale: array(Part::Scale)?,
            zero_point: array(Part::ZeroPoint)?,
            bitmask: array(Part::Bitmask)?,
            group_index: array(Part::GroupIndex)?,
            absmax: array(Part::Absmax)?,
            code_values: array(Part::CodeValues)?,
            nested_absmax: array(Part::NestedAbsmax)?,
            nested_code_values: array(Part::NestedCodeValues)?,
            global_scale: array(Part::GlobalScale)?,
            input_factor: array(Part::InputFactor)?,
            blocks: self.block_scales()?.unwrap_or_else(|| BlockScales {
                block: self.group_size().unwrap_or(0),
                ..BlockScales::default()
            }),
        })
    }

    /// Checks that the groups exist that the columns of a scheme name.
    pub(crate) fn check_groups(&self) -> Result<()> {
        let is = |wanted: Part| move |segment: &Segment<'_>| segment.part == wanted;
        let Some(scales) = self.segments().find(is(Part::Scale)) else { return Ok(()) };
        if !self.segments().any(|segment| segment.part == Part::GroupIndex) {
            return Ok(());
        }
        let across = self.dtype()?.is_packed_across_rows();
        let groups = if across { scales.shape.first() } else { scales.shape.last() };
        let groups = groups.copied().unwrap_or(0);
        let bytes = self.native_bytes(Part::GroupIndex)?;
        let mut index = bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word));
        // compressed-tensors stores -1 for all columns if they were not sorted.
        if !across && index.clone().all(|group| group == u32::MAX) {
            return Ok(());
        }
        let Some(column) = index.position(|group| u64::from(group) >= groups) else {
            return Ok(());
        };
        let group = bytes.as_chunks().0.get(column).map_or(0, |word| u32::from_le_bytes(*word));
        let fault = format!("column {column} is in group {group}, but there are {groups} groups");
        let (source, segment) = self.source(Part::GroupIndex)?;
        let offset = segment.range.start.saturating_add(4 * column as u64);
        Err(Error::malformed(fault).in_file(source.path()).in_tensor(self.name()).at(offset))
    }

    /// The scales that bitsandbytes' description of a tensor states, which was checked when the model was opened;
    /// `None` if there is no description.
    pub(crate) fn block_scales(&self) -> Result<Option<BlockScales>> {
        if !self.segments().any(|segment| segment.part == Part::Absmax) {
            return Ok(None);
        }
        let text = self.bytes(Part::Description)?;
        let state = Json::parse(&text).map_err(|error| {
            Error::malformed(format!("quant_state: {error}"))
                .in_file(self.store.path())
                .in_tensor(self.name())
        })?;
        let number = |key: &str| {
            let number = state.get(key).and_then(Json::as_u64);
            number.and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
        };
        let offset = state.get("nested_offset").and_then(Json::as_f64);
        let nested_offset = f32_of(offset.unwrap_or(0.0));
        let (block, nested_block) = (number("blocksize"), number("nested_blocksize"));
        Ok(Some(BlockScales { block, nested_block, nested_offset }))
    }
}
