//! Parses the header of one GGUF file.

use std::sync::Arc;

use super::super::rules::RuleViolations;
use super::super::{OpenOptions, Strictness};
use crate::bytes::{Cursor, Source, Text, try_vec};
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::index::hash;
use crate::limits::Limits;
use crate::metadata::{self, HeaderEncoding, Item, ItemKind, Metadata, ValueType};
use crate::shape;
use crate::store::{ArrayListing, ListedArray, Note, check_count, check_range, cut_short};

/// The key of the alignment of the tensor data.
pub(crate) const ALIGNMENT_KEY: &str = "general.alignment";

/// The alignment of tensor data without [`ALIGNMENT_KEY`] (`GGUF_DEFAULT_ALIGNMENT`).
const ALIGNMENT: u64 = 32;

/// The largest number of dimensions in ggml (`GGML_MAX_DIMS`).
const GGML_DIMS: u32 = 4;

/// The largest tensor name in ggml, in bytes (`GGML_MAX_NAME` minus the NUL).
const GGML_NAME: usize = 63;

/// The most bytes of a tensor's entry within these bounds.
const USUAL_TENSOR: usize = 8 + GGML_NAME + 4 + 8 * GGML_DIMS as usize + 4 + 8;

/// The entries for which memory is reserved before they are read.
const RESERVED: usize = 1024;

/// The header of one file.
pub(super) struct GgufHeader {
    pub(super) source: Source,
    pub(super) header: Arc<Vec<u8>>,
    pub(super) version: u32,
    pub(super) big_endian: bool,
    pub(super) listing: ArrayListing,
    pub(super) metadata: Metadata,
    pub(super) notes: Vec<Note>,
}

/// Parses the header of a file that starts with the magic.
pub(super) fn parse(source: Source, options: &OpenOptions) -> Result<GgufHeader> {
    let path = source.path().to_path_buf();
    parse_header(source, options).map_err(|error| error.in_file(&path))
}

fn parse_header(source: Source, options: &OpenOptions) -> Result<GgufHeader> {
    let mut header = GgufParser::new(&source, options).run()?;
    // Where the data would begin is not known.
    if header.is_cut {
        header.listing.move_to(source.len())?;
    } else {
        check_layout(&mut header, source.len(), options.partial)?;
    }
    let ParsedHeader { header, version, encoding, items, listing, rules, .. } = header;
    let header = Arc::new(header);
    let (metadata, twice) = Metadata::new(Arc::clone(&header), encoding, items)?;
    if let Some((key, at)) = twice.and_then(|twice| metadata.place(twice)) {
        return Err(Error::malformed(format!("duplicate metadata key \"{key}\"")).at(at));
    }
    let notes = rules.into_notes(source.path());
    let big_endian = encoding.swap;
    Ok(GgufHeader { source, header, version, big_endian, listing, metadata, notes })
}

struct ParsedHeader {
    header: Vec<u8>,
    version: u32,
    encoding: HeaderEncoding,
    items: Vec<Item>,
    listing: ArrayListing,
    data_start: u64,
    alignment: u64,
    /// The end of the tensor data, counted from their first byte, if each tensor follows the one before it.
    reached: Option<u64>,
    /// Whether the file ends inside its header.
    is_cut: bool,
    rules: RuleViolations,
}

struct GgufParser<'a> {
    cursor: Cursor<'a>,
    limits: &'a Limits,
    /// Whether a header is read as far as it goes.
    partial: bool,
    version: u32,
    /// Whether lengths and counts take 8 bytes.
    wide: bool,
    items: Vec<Item>,
    listing: ArrayListing,
    alignment: u64,
    /// The end of the tensor data so far, counted from their first byte, if each tensor follows the one before it.
    reached: Option<u64>,
    rules: RuleViolations,
}

impl<'a> GgufParser<'a> {
    fn new(source: &'a Source, options: &'a OpenOptions) -> Self {
        Self {
            cursor: Cursor::new(source, options.limits.header_bytes),
            limits: &options.limits,
            partial: options.partial,
            version: 0,
            wide: true,
            items: Vec::new(),
            listing: ArrayListing::default(),
            alignment: ALIGNMENT,
            reached: Some(0),
            rules: RuleViolations::new(options.strictness),
        }
    }

    fn run(mut self) -> Result<ParsedHeader> {
        let magic = self.cursor.take(4, "the magic")?;
        if self.held((magic.start, magic.end)) != b"GGUF" {
            let magic = self.held((magic.start, magic.end)).escape_ascii();
            return Err(Error::malformed(format!("the magic is \"{magic}\", not \"GGUF\"")).at(0));
        }
        self.version()?;
        let tensors = self.count("the number of tensors", self.smallest_tensor())?;
        check_count(tensors, self.limits)?;
        let items = self.count("the number of metadata keys", self.smallest_item())?;
        if items > self.limits.metadata_items {
            let limit = self.limits.metadata_items;
            return Err(Error::limit("metadata keys", items, limit, "metadata_items").at(16));
        }
        let is_cut = match self.entries(items, tensors) {
            Err(error) if self.partial && error.kind() == ErrorKind::Malformed => {
                let (keys, listed) = (self.items.len(), self.listing.len());
                let read = format!(
                    "the header cannot be read to its end: {keys} of {items} keys and {listed} of {tensors} tensors were \
                     read, then: {error}"
                );
                self.rules.noted(self.cursor.position(), || read);
                true
            }
            read => read.map(|()| false)?,
        };
        // Without data, the padding after the last entry may be missing.
        let end = self.cursor.position();
        let data_start = align(end, self.alignment).unwrap_or(u64::MAX);
        let encoding = HeaderEncoding { wide: self.wide, swap: self.cursor.is_big_endian() };
        Ok(ParsedHeader {
            header: self.cursor.into_header(),
            version: self.version,
            encoding,
            items: self.items,
            listing: self.listing,
            data_start,
            alignment: self.alignment,
            reached: self.reached,
            is_cut,
            rules: self.rules,
        })
    }

    /// Reads the keys and the tensors.
    fn entries(&mut self, items: u64, tensors: u64) -> Result<()> {
        self.items = try_vec(usize::try_from(items).unwrap_or(usize::MAX).min(RESERVED))?;
        for _ in 0..items {
            self.item()?;
        }
        // A file that claims more than it has is found out before it costs more memory.
        self.listing.reserve(usize::try_from(tensors).unwrap_or(usize::MAX).min(RESERVED))?;
        for _ in 0..tensors {
            self.cursor.read_ahead(USUAL_TENSOR)?;
            if !self.usual_tensor() {
                self.reached = None;
                self.tensor()?;
            }
        }
        Ok(())
    }

    /// Records a fault that llama.cpp refuses.
    fn refused(&mut self, at: u64, fault: impl FnOnce() -> String) -> Result<()> {
        refused(&mut self.rules, at, fault)
    }

    fn version(&mut self) -> Result<()> {
        let version = self.cursor.u32("the version")?;
        // The magic is the same in both byte orders. A version whose lower half is zero is in the
        // other byte order.
        let (version, big_endian) = if version != 0 && version & 0xffff == 0 {
            (version.swap_bytes(), true)
        } else {
            (version, false)
        };
        if big_endian {
            self.cursor.set_big_endian();
            self.refused(4, || "the file is big-endian".into())?;
        }
        self.version = version;
        match version {
            1 => {
                self.wide = false;
                self.refused(4, || "the file is of GGUF version 1".into())?;
            }
            2 | 3 => {}
            _ => {
                let fault = format!("GGUF version {version}, but 1, 2 and 3 are known");
                return Err(Error::new(ErrorKind::Unsupported, fault).at(4));
            }
        }
        Ok(())
    }

    /// Reads a count of records, each of which takes at least `smallest` of the remaining bytes.
    fn count(&mut self, what: &str, smallest: u64) -> Result<u64> {
        let at = self.cursor.position();
        let count = self.cursor.length(self.wide, what)?;
        let room = self.cursor.remaining() / smallest;
        if count > room && !self.partial {
            let fault = format!("{what} is {count}, but the file has room for {room} at most");
            return Err(Error::malformed(fault).at(at).advise("the file is cut short or damaged"));
        }
        Ok(count)
    }

    fn length_bytes(&self) -> u64 {
        if self.wide { 8 } else { 4 }
    }

    /// The smallest item: the key's length, a key of one byte, the type, a value of one byte.
    fn smallest_item(&self) -> u64 {
        self.length_bytes() + 6
    }

    /// The smallest tensor entry: the name's length, the number of dimensions, the type, the
    /// offset.
    fn smallest_tensor(&self) -> u64 {
        self.length_bytes() + 16
    }

    #[inline(always)]
    fn string(&mut self, what: &str) -> Result<(u32, u32)> {
        let at = self.cursor.position();
        let len = self.cursor.length(self.wide, what)?;
        self.cursor.check_string(len, self.limits.string_bytes, at)?;
        let range = self.cursor.take(len, what)?;
        Ok((range.start, range.end))
    }

    fn held(&self, (start, end): (u32, u32)) -> &[u8] {
        self.cursor.held().get(start as usize..end as usize).unwrap_or_default()
    }

    fn here(&self) -> u32 {
        u32::try_from(self.cursor.position()).unwrap_or(u32::MAX)
    }

    fn item(&mut self) -> Result<()> {
        let at = self.cursor.position();
        let key = self.string("a key")?;
        if key.0 == key.1 {
            return Err(Error::malformed("an empty metadata key").at(at));
        }
        let named = |this: &Self, error: Error| error.in_key(Text::new(this.held(key)));
        // Keys are short: a search would take longer to begin than this takes.
        if self.held(key).iter().fold(false, |found, &byte| found | (byte == 0)) {
            self.rules.noted(at, || "a key holds a NUL byte".into());
        }
        let code = self.cursor.u32("a value type")?;
        let value_type = ValueType::from_code(code).ok_or_else(|| {
            let error = Error::malformed(format!("value type {code}, but 0 to 12 are known"));
            named(self, error.at(self.cursor.position() - 4))
        })?;
        let start = self.here();
        self.value(value_type, 0).map_err(|error| named(self, error))?;
        let value = (start, self.here());
        if self.held(key) == ALIGNMENT_KEY.as_bytes() {
            self.alignment =
                self.alignment(value_type, value).map_err(|error| named(self, error))?;
        }
        self.items.push(Item { key, value, kind: ItemKind::Gguf(value_type) });
        Ok(())
    }

    /// Skips a value, and checks that it lies within the file.
    fn value(&mut self, value_type: ValueType, depth: u32) -> Result<()> {
        let at = self.cursor.position();
        if let Some(bytes) = value_type.fixed_bytes() {
            let value = self.cursor.take(bytes, "a value")?;
            if value_type == ValueType::Bool
                && self.held((value.start, value.end)).iter().any(|&byte| byte > 1)
            {
                self.rules.noted(at, || "a boolean is neither 0 nor 1 but read as true".into());
            }
            return Ok(());
        }
        if value_type == ValueType::String {
            return self.string("a string").map(drop);
        }
        let depth = depth + 1;
        if depth > self.limits.array_depth {
            let allowed = self.limits.array_depth.into();
            let error = Error::limit("levels of arrays", depth.into(), allowed, "array_depth");
            return Err(error.at(at));
        }
        if depth == 2 {
            self.refused(at, || "an array contains an array".into())?;
        }
        let code = self.cursor.u32("an element type")?;
        let element_type = ValueType::from_code(code).ok_or_else(|| {
            Error::malformed(format!("element type {code}, but 0 to 12 are known")).at(at)
        })?;
        let smallest = match element_type {
            ValueType::String => self.length_bytes(),
            ValueType::Array => self.length_bytes() + 4,
            fixed => fixed.fixed_bytes().unwrap_or(1),
        };
        let count = self.count("the number of elements", smallest)?;
        if count > self.limits.array_elements {
            let allowed = self.limits.array_elements;
            return Err(Error::limit("array elements", count, allowed, "array_elements").at(at));
        }
        match element_type {
            ValueType::String => {
                self.cursor.skip_strings(count, self.wide, self.limits.string_bytes)
            }
            ValueType::Array => (0..count).try_for_each(|_| self.value(element_type, depth)),
            _ => self.cursor.take(count.saturating_mul(smallest), "an array").map(drop),
        }
    }

    /// Reads `general.alignment`. llama.cpp requires a u32; any other integer has the same meaning.
    fn alignment(&mut self, value_type: ValueType, value: (u32, u32)) -> Result<u64> {
        let at = u64::from(value.0);
        let encoding = HeaderEncoding { wide: self.wide, swap: self.cursor.is_big_endian() };
        let decoded = metadata::decode(value_type, self.held(value), encoding);
        let number = decoded.and_then(|value| value.to_i128()).ok_or_else(|| {
            let fault = format!("the alignment is a {}, not an integer", value_type.name());
            Error::malformed(fault).at(at)
        })?;
        let alignment = u64::try_from(number).ok().filter(|number| number.is_power_of_two());
        let alignment = alignment.ok_or_else(|| {
            let fault = format!("the alignment is {number}, not a power of two");
            Error::malformed(fault).at(at)
        })?;
        if alignment > self.limits.alignment {
            let allowed = self.limits.alignment;
            return Err(Error::limit("bytes of alignment", alignment, allowed, "alignment").at(at));
        }
        if value_type != ValueType::U32 {
            let name = value_type.name();
            self.refused(at, || format!("{ALIGNMENT_KEY} is a {name}, not a u32"))?;
        }
        Ok(alignment)
    }

    /// Reads an entry that is held completely, in the usual encoding, within ggml's limits, and whose
    /// data follow those of the one before it. Nearly all do. Returns false, and reads nothing, for any
    /// other: [`tensor`](Self::tensor) reads those, and says what is wrong with them.
    #[inline(always)]
    fn usual_tensor(&mut self) -> bool {
        let dims = self.listing.dims();
        let read = self.read_usual_tensor().is_some();
        if !read {
            self.listing.keep_dims(dims);
        }
        read
    }

    #[inline(always)]
    fn read_usual_tensor(&mut self) -> Option<()> {
        if !self.wide || self.cursor.is_big_endian() {
            return None;
        }
        let (len, rest) = self.cursor.rest().split_first_chunk()?;
        let len = u64::from_le_bytes(*len);
        if len > (GGML_NAME as u64).min(self.limits.string_bytes) {
            return None;
        }
        let (name, rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
        let (rank, mut rest) = rest.split_first_chunk()?;
        let rank = u32::from_le_bytes(*rank);
        if rank > GGML_DIMS.min(self.limits.gguf_dims) {
            return None;
        }
        for _ in 0..rank {
            let (dim, after) = rest.split_first_chunk()?;
            self.listing.push_dim(u64::from_le_bytes(*dim));
            rest = after;
        }
        let (code, rest) = rest.split_first_chunk()?;
        let (offset, _) = rest.split_first_chunk()?;
        let dtype = DType::from_ggml(u32::from_le_bytes(*code)).filter(|dtype| dtype.is_ggml())?;
        let rank = u8::try_from(rank).ok()?;
        self.listing.reverse_dims(rank.into());
        let shape = self.listing.last_dims(rank.into());
        let most = i64::MAX.unsigned_abs();
        if shape::elements(shape)? > most || shape.iter().any(|&dim| dim > most) {
            return None;
        }
        let offset = u64::from_le_bytes(*offset);
        if offset != align(self.reached?, self.alignment)? {
            return None;
        }
        let reached = offset.checked_add(dtype.tensor_bytes(shape)?)?;
        let start = self.here().checked_add(8)?;
        let end = start.checked_add(u32::try_from(len).ok()?)?;
        let read = 8 + len + 4 + 8 * u64::from(rank) + 4 + 8;
        let hash = hash(name);
        self.listing.push(start..end, hash, Ok(dtype), rank, offset).ok()?;
        self.reached = Some(reached);
        self.cursor.take(read, "a tensor").ok().map(drop)
    }

    fn tensor(&mut self) -> Result<()> {
        let at = self.cursor.position();
        let name = self.string("a tensor name")?;
        let named = |this: &Self, error: Error| error.in_tensor(Text::new(this.held(name)));
        let rank = self.cursor.u32("a number of dimensions").map_err(|e| named(self, e))?;
        // The rank is stored in 8 bits.
        let most = self.limits.gguf_dims.min(u8::MAX.into());
        if rank > most {
            let error = Error::limit("dimensions", rank.into(), most.into(), "gguf_dims");
            return Err(named(self, error.at(self.cursor.position() - 4)));
        }
        for _ in 0..rank {
            let dim = self.cursor.length(self.wide, "a dimension").map_err(|e| named(self, e))?;
            self.listing.push_dim(dim);
        }
        self.listing.reverse_dims(rank as usize);
        let code = self.cursor.u32("a tensor type").map_err(|e| named(self, e))?;
        let offset = self.cursor.u64("a tensor offset").map_err(|e| named(self, e))?;
        let shape = self.listing.last_dims(rank as usize);
        // llama.cpp counts elements in a signed integer.
        let signed = |number: u64| i64::try_from(number).is_ok();
        let countable = shape::elements(shape).is_some_and(signed);
        if !countable || !shape.iter().copied().all(signed) {
            let fault = format!("shape {shape:?} has more than 2^63 - 1 elements");
            return Err(named(self, Error::malformed(fault).at(at)));
        }
        let dtype = DType::from_ggml(code).ok_or(code);
        let (len, rank) = (name.1 - name.0, u8::try_from(rank).unwrap_or(u8::MAX));
        if len as usize > GGML_NAME {
            self.refused(at, || format!("a tensor name has {len} bytes, more than 63"))?;
        }
        if u32::from(rank) > GGML_DIMS {
            self.refused(at, || format!("a tensor has {rank} dimensions, more than 4"))?;
        }
        if !dtype.is_ok_and(DType::is_ggml) {
            self.refused(at, || format!("a tensor has {}", crate::dtype::describe_ggml(code)))?;
        }
        let hash = hash(self.held(name));
        self.listing.push(name.0..name.1, hash, dtype, rank, offset)
    }
}

fn refused(rules: &mut RuleViolations, at: u64, fault: impl FnOnce() -> String) -> Result<()> {
    let who = || format!("{}, which llama.cpp refuses", fault());
    rules.broken(Strictness::Default, at, who)
}

/// Converts tensor offsets to file positions, and checks them. Tensors that exceed the file or are
/// not aligned are refused; gaps, an unusual order and shared bytes are reported, and if `partial`, that
/// bytes are missing.
fn check_layout(header: &mut ParsedHeader, file_len: u64, partial: bool) -> Result<()> {
    let ParsedHeader { header, listing, data_start, alignment, reached, rules, .. } = header;
    listing.move_to(*data_start)?;
    let end = reached.and_then(|reached| align(reached, *alignment)?.checked_add(*data_start));
    if end.is_some_and(|end| end <= file_len) {
        return Ok(());
    }
    let needed = listing.iter(header).filter_map(|entry| entry.end()).max().unwrap_or(0);
    if needed > file_len {
        report_shared_bytes(listing, header, rules)?;
    }
    let is_cut = partial && needed > file_len;
    let room = if is_cut { needed } else { file_len };
    // The expected start of the next tensor; unknown after a tensor of an unknown type.
    let (mut expected, mut in_order) = (Some(*data_start), true);
    for entry in listing.iter(header) {
        let offset = entry.offset - *data_start;
        if align(offset, *alignment) != Some(offset) {
            let fault = format!("offset {offset} is not a multiple of the alignment, {alignment}");
            return Err(Error::malformed(fault).in_tensor(entry.name).at(entry.offset));
        }
        let end = check_range(&entry, room, needed)?;
        if expected.is_some_and(|expected| entry.offset != expected) {
            in_order = false;
            refused(rules, entry.offset, || {
                format!("tensor \"{}\" does not follow the one listed before it", entry.name)
            })?;
        }
        expected = end.and_then(|end| align(end, *alignment));
    }
    if is_cut {
        rules.noted(file_len, || cut_short(file_len, needed));
    }
    let padded = is_cut || expected.is_none_or(|expected| expected <= file_len);
    if listing.len() > 0 && in_order && !padded {
        let fault = "the padding after the last tensor is missing, which ggml refuses where it reads tensors with the \
                     header; llama.cpp loads such a file";
        rules.broken(Strictness::Default, file_len, || fault.into())?;
    }
    if !in_order {
        report_shared_bytes(listing, header, rules)?;
    }
    Ok(())
}

/// The next multiple of the alignment, a power of two: without a division, which would take as long
/// as the other checks of an entry.
fn align(position: u64, alignment: u64) -> Option<u64> {
    let below = alignment.wrapping_sub(1);
    Some(position.checked_add(below)? & !below)
}

/// Two tensors of which one starts before the end of the other.
fn overlap(one: &ListedArray<'_>, other: &ListedArray<'_>, end: u64) -> String {
    let (name, start) = (other.name, other.offset);
    let of_type = match one.dtype {
        Ok(dtype) if dtype.is_quantized() => {
            format!(
                "; the first has the number of {dtype}, by which another program may mean a type of another size"
            )
        }
        _ => String::new(),
    };
    format!(
        "tensors \"{}\" and \"{name}\" overlap: the first ends at {end}, the second begins at {start}{of_type}, which \
         llama.cpp refuses",
        one.name
    )
}

fn report_shared_bytes(
    listing: &ArrayListing,
    header: &[u8],
    rules: &mut RuleViolations,
) -> Result<()> {
    let mut spans = try_vec(listing.len())?;
    let places = (0usize..).zip(listing.iter(header));
    spans.extend(places.filter_map(|(place, entry)| Some((entry.offset, entry.end()?, place))));
    spans.sort_unstable();
    // The tensor that reaches furthest, from where and to where.
    let (mut longest, mut from, mut reached) = (0, 0, 0);
    for (start, end, place) in spans {
        if start < reached && end > start {
            // The same bytes may serve two tensors. Those of one in the middle of another mean that a size is wrong.
            if start == from {
                refused(rules, start, || "two tensors share bytes".into())?;
            } else if let (Some(one), Some(other)) =
                (listing.get(longest, header), listing.get(place, header))
            {
                rules.broken(Strictness::Lenient, start, || overlap(&one, &other, reached))?;
            }
        }
        if end > reached {
            (longest, from, reached) = (place, start, end);
        }
    }
    Ok(())
}
