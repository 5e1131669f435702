//! The stored side of a tensor: names, parts, bytes.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use super::Tensor;
use crate::bytes::{AlignedBytes, Scratch, Text};
use crate::error::{Error, ErrorKind, Result};
use crate::store::Part;
use crate::store::tensor::{Finding, RowScales, Segment, StoredTensor};

impl Tensor {
    /// The number in its store, of a stored tensor.
    pub(crate) fn stored_number(&self) -> Result<u32> {
        self.as_stored().map(|tensor| tensor.number())
    }

    /// The stored tensor behind this one, if it is complete and unchanged.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the tensor is made of several stored tensors, or of some rows of one.
    pub(crate) fn as_stored(&self) -> Result<StoredTensor<'_>> {
        self.stored_tensors().next().filter(|_| self.is_stored()).ok_or_else(|| {
            let fault = "the tensor is not a complete stored tensor";
            self.located(Error::unsupported(fault).advise("use its values or packed bytes"))
        })
    }

    /// The name as bytes. The name of a stored tensor need not be UTF-8.
    pub fn raw_name(&self) -> Text<'_> {
        let stored = self.stored_tensors().next().map(|tensor| tensor.name());
        match stored.filter(|name| self.is_stored() && name.spelling() == self.name()) {
            Some(name) => name,
            None => Text::new(self.name().as_bytes()),
        }
    }

    /// The names of its stored tensors in their files. They need not be UTF-8.
    pub fn stored_names(&self) -> impl Iterator<Item = Text<'_>> {
        self.stored_tensors().map(|tensor| tensor.name())
    }

    /// The parts of its stored tensors, the weight of each first. Empty for an unknown type code.
    pub fn segments(&self) -> impl Iterator<Item = Segment<'_>> {
        self.stored_tensors().flat_map(|tensor| tensor.segments())
    }

    /// The bytes of all parts of its stored tensors; 0 for an unknown type code.
    pub fn stored_bytes(&self) -> u64 {
        self.stored_tensors().map(|tensor| tensor.stored_bytes()).fold(0, u64::saturating_add)
    }

    /// The average number of bits for each stored value, scales included.
    pub fn bits_per_weight(&self) -> Option<f64> {
        let elements =
            self.stored_tensors().map(|tensor| tensor.elements()).fold(0, u64::saturating_add);
        let known = elements > 0 && self.stored_tensors().all(|tensor| tensor.dtype().is_ok());
        known.then(|| self.stored_bytes() as f64 * 8.0 / elements as f64)
    }

    /// The packed bytes of a part, little-endian. They are borrowed from the memory map if there is
    /// one, the file is little-endian and the tensor is stored as a whole. They may be unaligned.
    ///
    /// # Errors
    ///
    /// `Unsupported` or `Mismatch` if the tensor has no packed form, with the reason, or has an
    /// unknown type code; `NotFound` if it has no such part; `Io` if a file cannot be read or
    /// became shorter.
    pub fn bytes(&self, part: Part) -> Result<Cow<'_, [u8]>> {
        if let Ok(stored) = self.as_stored() {
            return stored.native_bytes(part);
        }
        let mut all = Vec::new();
        self.for_each_piece(part, |piece| {
            all.try_reserve(piece.len()).map_err(|_| {
                let fault = format!("no memory for the bytes of the {}", part.name());
                self.located(Error::new(ErrorKind::Io, fault))
            })?;
            all.extend_from_slice(piece);
            Ok::<(), Error>(())
        })?;
        Ok(Cow::Owned(all))
    }

    /// Like [`bytes`](Self::bytes), but copied into memory of their own, without the memory map: large
    /// parts are read with the fewest page faults.
    ///
    /// # Errors
    ///
    /// Same as [`bytes`](Self::bytes).
    pub fn copy_bytes(&self, part: Part) -> Result<AlignedBytes> {
        if let Ok(whole) = self.as_stored() {
            let range = whole.segment(part)?.range;
            let mut own = AlignedBytes::zeroed(range.end.saturating_sub(range.start))?;
            whole.fill(part, 0, &mut own, &mut Scratch::default())?;
            return Ok(own);
        }
        let mut own = AlignedBytes::zeroed(self.part(part)?.bytes)?;
        let mut rest: &mut [u8] = &mut own;
        self.for_each_piece(part, |piece| {
            let too_long = || self.located(Error::mismatch("the pieces exceed their part"));
            let (now, later) =
                std::mem::take(&mut rest).split_at_mut_checked(piece.len()).ok_or_else(too_long)?;
            now.copy_from_slice(piece);
            rest = later;
            Ok::<(), Error>(())
        })?;
        Ok(own)
    }

    /// Like [`bytes`](Self::bytes), but in the byte order of the file. The tensor must be stored as
    /// a whole.
    ///
    /// # Errors
    ///
    /// Same as [`bytes`](Self::bytes); `Unsupported` if the tensor is not stored as a whole.
    pub fn raw_bytes(&self, part: Part) -> Result<Cow<'_, [u8]>> {
        self.as_stored()?.bytes(part)
    }

    /// The path of the file that holds a part, and the range of the part's bytes in it, if they are
    /// consecutive: those of a complete stored tensor, or of consecutive rows of one without other
    /// parts.
    pub fn place(&self, part: Part) -> Option<(&Path, Range<u64>)> {
        let mut segments = self.segments();
        let segment = segments.find(|segment| segment.part == part)?;
        if self.is_stored() {
            return Some((segment.path, segment.range));
        }
        let rows = self.consecutive_rows().filter(|_| self.segments().count() == 1)?;
        let row = segment.dtype.row_bytes(self.columns)?;
        let at = |number: u64| segment.range.start.checked_add(number.checked_mul(row)?);
        let range = at(rows.start)?..at(rows.end)?;
        (range.end <= segment.range.end).then_some((segment.path, range))
    }

    /// The open file that holds a part, and its bytes' range as in [`place`](Self::place), for callers
    /// that map or send the file themselves. The file must be little-endian.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the bytes are not consecutive, are not in a file or are big-endian;
    /// `NotFound` if there is no such part; `Io` if the file was replaced or became shorter.
    pub fn file(&self, part: Part) -> Result<(std::fs::File, Range<u64>)> {
        match self.place(part).filter(|_| !self.is_stored()).zip(self.stored_tensors().next()) {
            Some(((_, range), stored)) => Ok((stored.file(part)?.0, range)),
            None => self.as_stored()?.file(part),
        }
    }

    /// Whether its files store numbers with the least significant byte first, as nearly all do.
    pub fn is_little_endian(&self) -> bool {
        !self.stored_tensors().any(|tensor| tensor.is_big_endian())
    }

    /// Like [`raw_bytes`](Self::raw_bytes), but passes the bytes to `sink` in pieces, through one
    /// small buffer and never through a memory map.
    ///
    /// # Errors
    ///
    /// Same as [`raw_bytes`](Self::raw_bytes), and any error of `sink`.
    pub fn for_each_raw_piece<E: From<Error>>(
        &self,
        part: Part,
        sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.as_stored()?.for_each_piece(part, sink)
    }

    /// Like [`for_each_raw_piece`](Self::for_each_raw_piece), for the byte range `within` of the
    /// part.
    ///
    /// # Errors
    ///
    /// Same as [`for_each_raw_piece`](Self::for_each_raw_piece); `Mismatch` if the range exceeds
    /// the part.
    pub fn for_each_raw_piece_in<E: From<Error>>(
        &self,
        part: Part,
        within: Range<u64>,
        sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.as_stored()?.for_each_piece_in(part, within, sink)
    }

    /// The scales of some rows of a quantized tensor: the first number of each block, every scale of
    /// `NVFP4`, or the numbers of MLX's scales. Rows are counted over all dimensions but the last. `None` if
    /// the tensor is not stored as a whole, has no scales, or has them in another order.
    ///
    /// ```
    /// # fn main() -> weighbridge::Result<()> {
    /// let model = weighbridge::Model::open("assets/sample/sample-Q8_0.gguf")?;
    /// let scales = model.stored_tensor("blk.0.attn_q.weight")?.row_scales(0..2)?.expect("scales");
    /// assert_eq!((scales.width, scales.values.len()), (32, 16));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`raw_bytes`](Self::raw_bytes).
    pub fn row_scales(&self, rows: Range<u64>) -> Result<Option<RowScales>> {
        match self.as_stored() {
            Ok(stored) => stored.row_scales(&rows),
            Err(_) => Ok(None),
        }
    }

    /// Scans the values and scales of its stored tensors for NaN, infinity and other oddities.
    ///
    /// ```
    /// # fn main() -> weighbridge::Result<()> {
    /// let model = weighbridge::Model::open("assets/sample/sample-Q8_0.gguf")?;
    /// assert_eq!(model.tensor("token_embedding.weight")?.check_values()?, []);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`dequantize`](Self::dequantize).
    pub fn check_values(&self) -> Result<Vec<Finding>> {
        let mut findings = Vec::new();
        for tensor in self.stored_tensors() {
            findings.extend(tensor.check_values()?);
        }
        Ok(findings)
    }
}
