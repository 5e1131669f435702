//! Parses the header of one safetensors file.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::rules::RuleViolations;
use super::super::{OpenOptions, Strictness};
use super::number::number;
use crate::bytes::{BounceBuffer, Source, Text, try_vec};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::index::{NameIndex, hash};
use crate::json::{JsonSpan, Scanner, plain_ascii};
use crate::limits::Limits;
use crate::metadata::{HeaderEncoding, Item, ItemKind, Metadata};
use crate::store::{ArrayListing, Note, check_count, cut_short};

/// The header of one file.
pub(crate) struct SafetensorsHeader {
    pub(crate) source: Source,
    pub(crate) header: Arc<Vec<u8>>,
    pub(crate) listing: ArrayListing,
    pub(crate) metadata: Metadata,
    pub(crate) notes: Vec<Note>,
}

/// The length field, in bytes.
const LENGTH: usize = 8;

/// The first read, in bytes.
const FIRST: u64 = 64 << 10;

/// Later reads, in bytes: what was read is parsed while it is in the processor's cache.
const LATER: u64 = 128 << 10;

/// Parses and checks the header of a file.
pub(crate) fn parse(source: Source, options: &OpenOptions) -> Result<SafetensorsHeader> {
    let path = source.path().to_path_buf();
    parse_file(source, options).map_err(|error| error.in_file(&path))
}

fn parse_file(source: Source, options: &OpenOptions) -> Result<SafetensorsHeader> {
    let mut header = Header::start(&source, &options.limits)?;
    let mut parser = SafetensorsParser {
        limits: &options.limits,
        rules: RuleViolations::new(options.strictness),
        listing: ArrayListing::default(),
        data_start: header.len,
        reached: header.len,
        in_order: true,
        duplicates_may_pass: options.strictness == Strictness::Lenient,
        metadata_seen: false,
        items: Vec::new(),
        unescaped: Vec::new(),
        dtypes: [(u64::MAX, DType::F32); 2],
    };
    // Text that is not UTF-8 is told before anything else that is wrong with it.
    let parsed = parser.run(&mut header);
    parsed.or_else(|error| header.check_text().and(Err(error)))?;
    let mut header = header.bytes;
    let needed = || parser.listing.iter(&header).filter_map(|entry| entry.end()).max();
    let needed = options.partial.then(needed).flatten().filter(|needed| *needed > source.len());
    if let Some(needed) = needed {
        parser.rules.noted(source.len(), || cut_short(source.len(), needed));
    }
    parser.check_spans(&header, needed.unwrap_or(source.len()))?;
    let SafetensorsParser { rules, listing, items, unescaped, .. } = parser;
    // Unescaped metadata is stored after the header, so that one buffer holds everything.
    if header.try_reserve_exact(unescaped.len()).is_err() {
        try_vec::<u8>(unescaped.len()).map(drop)?;
    }
    header.extend_from_slice(&unescaped);
    drop(unescaped);
    let header = Arc::new(header);
    let metadata = metadata(&header, items, rules)?;
    let notes = metadata.1.into_notes(source.path());
    Ok(SafetensorsHeader { source, header, listing, metadata: metadata.0, notes })
}

/// Whether the first bytes may be those of a safetensors file: a length with which a header fits
/// into the file, and a brace or what may precede one.
pub(crate) fn looks_right(head: &[u8], file_len: u64) -> bool {
    let Some((length, text)) = head.split_first_chunk() else { return false };
    let length = u64::from_le_bytes(*length);
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).trim_ascii_start();
    length <= file_len.saturating_sub(LENGTH as u64)
        && text.first().is_none_or(|&byte| byte == b'{')
}

/// The length field and the header, as far as they are read.
struct Header<'a> {
    source: &'a Source,
    bytes: Vec<u8>,
    buffer: BounceBuffer,
    /// The length of both.
    len: u64,
}

impl<'a> Header<'a> {
    /// Reads and checks the length field, and reads the start of the header.
    fn start(source: &'a Source, limits: &Limits) -> Result<Self> {
        let file_len = source.len();
        if file_len < LENGTH as u64 {
            let fault =
                format!("a file of {file_len} bytes, but the header's length alone takes 8");
            return Err(Error::malformed(fault).advise("the file is cut short: fetch it again"));
        }
        // The first read contains most headers completely; where a read is a request, only the length.
        let most = if source.is_in_reach() { FIRST } else { LENGTH as u64 };
        let first = source.read(0..file_len.min(most))?;
        let length = first.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let room = file_len - LENGTH as u64;
        if length > room {
            let fault = format!("the header's length is {length}, but only {room} bytes follow");
            return Err(Error::malformed(fault).at(0).advise(
                if length < limits.json_header_bytes {
                    "the file is cut short, perhaps by an unfinished download: fetch it again"
                } else {
                    "this is not a safetensors file, or its start was overwritten"
                },
            ));
        }
        // Positions are stored in 32 bits.
        let allowed = limits.json_header_bytes.min(u64::from(u32::MAX) / 2);
        if length > allowed {
            return Err(Error::limit("header bytes", length, allowed, "json_header_bytes").at(0));
        }
        if length == 0 {
            return Err(Error::malformed("the header's length is 0").at(0));
        }
        let len = LENGTH as u64 + length;
        let mut bytes = first;
        let whole = usize::try_from(len).unwrap_or(usize::MAX);
        if whole > bytes.len() {
            let read = std::mem::replace(&mut bytes, try_vec(whole)?);
            bytes.extend_from_slice(&read);
        } else {
            bytes.truncate(whole);
            bytes.shrink_to_fit();
        }
        Ok(Self { source, bytes, buffer: BounceBuffer::default(), len })
    }

    fn is_whole(&self) -> bool {
        self.bytes.len() as u64 == self.len
    }

    /// Reads the next `most` bytes, or all that are left.
    fn read(&mut self, most: u64) -> Result<()> {
        let have = self.bytes.len() as u64;
        let end = self.len.min(have.saturating_add(most));
        self.source.append(have..end, &mut self.bytes, &mut self.buffer)
    }

    /// The header's text, as far as it is read.
    fn text(&self) -> &[u8] {
        self.bytes.split_first_chunk::<LENGTH>().map_or(&[], |(_, text)| text)
    }

    /// Reads what is left, and checks that all of it is text.
    #[cold]
    fn check_text(&mut self) -> Result<()> {
        self.read(u64::MAX)?;
        check_utf8(self.text(), LENGTH as u64)
    }
}

/// Checks that a part of the header, which starts at `at` in the file, is text.
fn check_utf8(text: &[u8], at: u64) -> Result<()> {
    std::str::from_utf8(text).map(drop).map_err(|error| {
        Error::malformed("the header is not UTF-8").at(at + error.valid_up_to() as u64)
    })
}

fn metadata(
    header: &Arc<Vec<u8>>,
    mut items: Vec<Item>,
    mut rules: RuleViolations,
) -> Result<(Metadata, RuleViolations)> {
    loop {
        let (metadata, twice) =
            Metadata::new(Arc::clone(header), HeaderEncoding::default(), items.clone())?;
        let Some((key, at)) = twice.and_then(|twice| metadata.place(twice)) else {
            return Ok((metadata, rules));
        };
        let fault = || format!("duplicate key \"{key}\" in __metadata__; the last value is used");
        rules.broken(Strictness::Default, at, fault)?;
        // Keep the last value of each key, at the position of the first.
        let span = |(start, end): (u32, u32)| header.get(start as usize..end as usize);
        let mut places: HashMap<Option<&[u8]>, usize> = HashMap::new();
        let mut kept: Vec<Item> = Vec::new();
        for item in items {
            let place = *places.entry(span(item.key)).or_insert(kept.len());
            match kept.get_mut(place) {
                Some(kept) => kept.value = item.value,
                None => kept.push(item),
            }
        }
        items = kept;
    }
}

struct SafetensorsParser<'a> {
    limits: &'a Limits,
    rules: RuleViolations,
    listing: ArrayListing,
    /// The offset of the data in the file, after the header.
    data_start: u64,
    /// The end of the last entry's data in the file.
    reached: u64,
    /// Whether every entry so far began at the end of the one before.
    in_order: bool,
    /// Whether a duplicate name could go unnoticed by the check of offsets.
    duplicates_may_pass: bool,
    metadata_seen: bool,
    items: Vec<Item>,
    /// Metadata strings that contained escapes; they are stored after the header.
    unescaped: Vec<u8>,
    /// The last dtype in [`compact_dtype`](Self::compact_dtype), and the one before: most entries have
    /// one of them.
    dtypes: [(u64, DType); 2],
}

impl<'a> SafetensorsParser<'a> {
    fn run(&mut self, header: &mut Header<'_>) -> Result<()> {
        // A header of this size rarely has more tensors; if it does, growing is cheap.
        self.listing.reserve(usize::try_from(header.len / 100).unwrap_or(usize::MAX))?;
        let parsed = self.parse_pieces(header)?;
        let (whole, mut base) = (header.text(), LENGTH as u64);
        let mut text = whole;
        if let Some(rest) = text.strip_prefix(b"\xef\xbb\xbf") {
            self.lenient(base, "a byte order mark precedes the header")?;
            (text, base) = (rest, base + 3);
        }
        let mut json = Scanner::new(text, base);
        if parsed > 0 {
            json.continue_at(text.get(parsed..).unwrap_or_default());
        } else {
            if text.first() != Some(&b'{') && json.peek() == Some(b'{') {
                self.rules.broken(Strictness::Default, base, || {
                    "white space precedes the header's first brace, which the format's document forbids".into()
                })?;
            }
            json.expect(b'{')?;
        }
        if parsed > 0 || !json.eat(b'}') {
            loop {
                self.usual_entries(&mut json);
                let (start, at) = (json.rest(), json.at());
                let name = json.string()?;
                json.expect(b':')?;
                if json.raw(&name) == b"__metadata__" {
                    self.metadata(&mut json)?;
                } else {
                    self.tensor(&mut json, &name)?;
                }
                let more = json.eat(b',');
                let len = start.len() - json.rest().len();
                check_utf8(start.get(..len).unwrap_or_default(), at)?;
                if more {
                    continue;
                }
                json.expect(b'}')?;
                break;
            }
        }
        self.tail(json)
    }

    /// Reads the whole header, a piece at a time, and parses the entries of each piece that are in the
    /// usual form up to the first that is not. Returns the length of the text that was parsed.
    fn parse_pieces(&mut self, header: &mut Header<'_>) -> Result<usize> {
        // Where a read is a request, there is only one.
        let piece = if header.source.is_in_reach() { LATER } else { u64::MAX };
        let has_entries = header.text().starts_with(b"{\"");
        let mut parsed = usize::from(has_entries);
        while !header.is_whole() {
            let rest = header.text().get(parsed..).unwrap_or_default();
            if has_entries {
                let mut json = Scanner::new(rest, LENGTH as u64 + parsed as u64);
                self.usual_entries(&mut json);
                if self.usual_metadata(&mut json)? {
                    self.usual_entries(&mut json);
                }
                parsed += rest.len() - json.rest().len();
            }
            header.read(piece)?;
        }
        Ok(parsed)
    }

    /// Parses `__metadata__` and the comma after it, if they come next and are read completely.
    fn usual_metadata(&mut self, json: &mut Scanner<'_>) -> Result<bool> {
        const NAME: &[u8; 15] = b"\"__metadata__\":";
        let mut ahead = Scanner::new(json.rest(), json.at());
        if !ahead.eat_text(NAME) || ahead.skip_value().is_err() || !ahead.eat_text(b",") {
            return Ok(false);
        }
        let len = json.rest().len() - ahead.rest().len();
        check_utf8(json.rest().get(..len).unwrap_or_default(), json.at())?;
        json.eat_text(NAME);
        self.metadata(json)?;
        json.expect(b',')?;
        Ok(true)
    }

    /// Parses entries in the usual form, each with the comma after it: a name of plain ASCII characters,
    /// and fields that [`compact_fields`](Self::compact_fields) reads. Nearly all have this form.
    #[inline(always)]
    fn usual_entries(&mut self, json: &mut Scanner<'_>) {
        let mut at = json.at();
        let mut rest = json.rest();
        loop {
            let dims = self.listing.dims();
            let Some(after) = self.usual_entry(rest, at) else {
                self.listing.keep_dims(dims);
                break;
            };
            at += (rest.len() - after.len()) as u64;
            rest = after;
        }
        json.continue_at(rest);
    }

    /// Parses an entry at `at` of the file, and returns the text after it. An entry in another form, or with
    /// anything to say of it, is left to [`tensor`](Self::tensor); dimensions may remain.
    #[inline(always)]
    fn usual_entry<'t>(&mut self, text: &'t [u8], at: u64) -> Option<&'t [u8]> {
        let text = text.strip_prefix(b"\"")?;
        let (name, rest) = text.split_at_checked(plain_ascii(text))?;
        let (fields, rest) = self.compact_fields(rest.strip_prefix(b"\":")?)?;
        let rest = rest.strip_prefix(b",")?;
        let EntryFields { dtype, rank, begin, end } = fields;
        let bytes = dtype.tensor_bytes(self.listing.last_dims(rank.into()))?;
        let offset = self.data_start.checked_add(begin)?;
        let is_usual = begin.checked_add(bytes) == Some(end)
            && u32::from(rank) <= self.limits.dims
            && (self.listing.len() as u64) < self.limits.tensors
            && name != b"__metadata__";
        if !is_usual {
            return None;
        }
        let start = u32::try_from(at).ok()?.checked_add(1)?;
        let name_end = start.checked_add(u32::try_from(name.len()).ok()?)?;
        let end = offset.checked_add(bytes)?;
        self.listing.push(start..name_end, hash(name), Ok(dtype), rank, offset).ok()?;
        self.in_order &= offset == self.reached;
        self.duplicates_may_pass |= bytes == 0;
        self.reached = end;
        Some(rest)
    }

    fn lenient(&mut self, at: u64, fault: &str) -> Result<()> {
        let fault = || format!("{fault}, which the reference crate refuses");
        self.rules.broken(Strictness::Lenient, at, fault)
    }

    /// Checks what follows the last brace: padding.
    fn tail(&mut self, mut json: Scanner<'_>) -> Result<()> {
        let rest = json.rest();
        if rest.iter().all(|&byte| byte == b' ') {
            return Ok(());
        }
        let at = json.at();
        if json.at_end() {
            return self.rules.broken(Strictness::Default, at, || {
                "the header is padded with white space other than spaces, which the format's document forbids".into()
            });
        }
        if rest.iter().all(|byte| b" \t\r\n\0".contains(byte)) {
            return self.lenient(at, "the header is padded with NUL bytes");
        }
        Err(json.unexpected("the end of the header"))
    }

    fn metadata(&mut self, json: &mut Scanner<'_>) -> Result<()> {
        let at = json.at();
        if std::mem::replace(&mut self.metadata_seen, true) {
            self.lenient(at, "__metadata__ occurs twice")?;
            self.items.clear();
        }
        match json.peek() {
            Some(b'n') if json.eat_text(b"null") => {
                return self.rules.broken(Strictness::Default, at, || {
                    "__metadata__ is null, which the format's document does not allow".into()
                });
            }
            Some(b'[') => {
                self.lenient(at, "__metadata__ is a list")?;
                return json.skip_value();
            }
            _ => {}
        }
        json.expect(b'{')?;
        if json.eat(b'}') {
            return Ok(());
        }
        loop {
            let key = json.string()?;
            json.expect(b':')?;
            let value = json.string().map_err(|_| {
                let key = String::from_utf8_lossy(json.raw(&key)).into_owned();
                json.error("a value in __metadata__ is not a string").in_key(key)
            })?;
            let item = Item {
                key: self.keep(json, &key)?,
                value: self.keep(json, &value)?,
                kind: ItemKind::Text,
            };
            if self.items.len() as u64 >= self.limits.metadata_items {
                let (found, most) = (self.items.len() as u64 + 1, self.limits.metadata_items);
                return Err(Error::limit("metadata keys", found, most, "metadata_items").at(at));
            }
            self.items.push(item);
            if !json.eat(b',') {
                return json.expect(b'}');
            }
        }
    }

    /// The location of a string's characters: in the header, or unescaped after it.
    fn keep(&mut self, json: &Scanner<'_>, span: &JsonSpan) -> Result<(u32, u32)> {
        let place = |start: usize, len: usize| {
            let end = start.saturating_add(len);
            match (u32::try_from(start), u32::try_from(end)) {
                (Ok(start), Ok(end)) => Ok((start, end)),
                _ => Err(json.error("metadata of more than 4 GiB")),
            }
        };
        let text = json.unescape(span)?;
        if !span.escaped {
            return place(self.header_offset(json, span), text.len());
        }
        let header = usize::try_from(self.data_start).unwrap_or(usize::MAX);
        let start = header.saturating_add(self.unescaped.len());
        self.unescaped.extend_from_slice(&text);
        place(start, text.len())
    }

    /// The offset of a string in the buffer that holds the length field and the header.
    fn header_offset(&self, json: &Scanner<'_>, span: &JsonSpan) -> usize {
        let base = usize::try_from(json.base()).unwrap_or(0);
        base.saturating_add(span.range.start)
    }

    fn tensor(&mut self, json: &mut Scanner<'_>, name: &JsonSpan) -> Result<()> {
        let named = |json: &Scanner<'_>, error: Error| {
            error.in_tensor(Text::new(&json.unescape(name).unwrap_or_default()))
        };
        let fields = self.fields_in_any_order(json).map_err(|error| named(json, error))?;
        let EntryFields { dtype, rank, begin, end } = fields;
        let shape = self.listing.last_dims(rank.into());
        let fault = match dtype.tensor_bytes(shape) {
            _ if end < begin => {
                Some(format!("data_offsets [{begin}, {end}] end before they begin"))
            }
            Some(bytes) if bytes == end - begin => None,
            Some(bytes) => Some(format!(
                "data_offsets [{begin}, {end}] span {} bytes, but shape {shape:?} of {dtype} takes {bytes}",
                end - begin
            )),
            None if crate::shape::elements(shape).and_then(|n| n.checked_mul(64)).is_none() => {
                Some(format!("shape {shape:?} has more than 2^64 bits"))
            }
            None => Some(format!("shape {shape:?} of {dtype} is not a whole number of bytes")),
        };
        if let Some(fault) = fault {
            return Err(named(json, json.error(fault)));
        }
        let start = self.header_offset(json, name);
        let place = u32::try_from(start).unwrap_or(u32::MAX)
            ..u32::try_from(start.saturating_add(name.range.len())).unwrap_or(u32::MAX);
        let offset = self.data_start.checked_add(begin).zip(self.data_start.checked_add(end));
        let Some((offset, end)) = offset else {
            let fault = format!("data_offsets [{begin}, {end}] exceed the largest file size");
            return Err(named(json, json.error(fault)));
        };
        self.in_order &= offset == self.reached;
        self.duplicates_may_pass |= offset == end;
        self.reached = end;
        self.listing.push(place, hash(json.raw(name)), Ok(dtype), rank, offset)?;
        if name.escaped {
            self.listing.rename_last(&json.unescape(name)?)?;
        }
        check_count(self.listing.len() as u64, self.limits)
    }

    /// Reads the fields in the exact form that the reference crate, MLX and Go's writer in Ollama
    /// produce, and returns them with the text after the entry's brace: only the three fields, at
    /// most four dimensions, no white space. Most entries have this form, and reading it is several
    /// times as fast as reading any other. Dimensions remain if it returns `None`.
    #[inline(always)]
    fn compact_fields<'t>(&mut self, text: &'t [u8]) -> Option<(EntryFields, &'t [u8])> {
        if let Some(rest) = text.strip_prefix(b"{\"dtype\":\"") {
            let (dtype, rest) = self.compact_dtype(rest)?;
            let (rank, rest) = self.compact_shape(rest.strip_prefix(b",\"shape\":[")?)?;
            let (begin, end, rest) = compact_span(rest.strip_prefix(b",\"data_offsets\":[")?)?;
            return Some((EntryFields { dtype, rank, begin, end }, rest.strip_prefix(b"}")?));
        }
        let (begin, end, rest) = compact_span(text.strip_prefix(b"{\"data_offsets\":[")?)?;
        let (dtype, rest) = self.compact_dtype(rest.strip_prefix(b",\"dtype\":\"")?)?;
        let (rank, rest) = self.compact_shape(rest.strip_prefix(b",\"shape\":[")?)?;
        Some((EntryFields { dtype, rank, begin, end }, rest.strip_prefix(b"}")?))
    }

    /// A name of at most seven bytes is compared as a number: the name, and its length in the last byte.
    #[inline(always)]
    fn compact_dtype<'t>(&mut self, text: &'t [u8]) -> Option<(DType, &'t [u8])> {
        let word = u64::from_le_bytes(*text.first_chunk()?);
        let quote = word ^ 0x2222_2222_2222_2222;
        // The high bit of each byte that is a quote; exact up to the first.
        let quotes = quote.wrapping_sub(0x0101_0101_0101_0101) & !quote & 0x8080_8080_8080_8080;
        let len = quotes.trailing_zeros() / 8;
        let name = word & !u64::MAX.checked_shl(8 * len)? | u64::from(len) << 56;
        let rest = text.get(len as usize + 1..)?;
        let [last, before] = self.dtypes;
        if name == last.0 {
            return Some((last.1, rest));
        }
        let found = if name == before.0 { before } else { short_dtype(name)? };
        self.dtypes = [found, last];
        Some((found.1, rest))
    }

    #[inline(always)]
    fn compact_shape<'t>(&mut self, text: &'t [u8]) -> Option<(u8, &'t [u8])> {
        if let Some(rest) = text.strip_prefix(b"]") {
            return Some((0, rest));
        }
        let (mut text, mut rank) = (text, 0);
        loop {
            let (dim, rest) = number(text)?;
            self.listing.push_dim(dim);
            rank += 1;
            match rest.split_first()? {
                (b',', rest) if rank < 4 => text = rest,
                (b']', rest) => return Some((rank, rest)),
                _ => return None,
            }
        }
    }

    fn fields_in_any_order(&mut self, json: &mut Scanner<'_>) -> Result<EntryFields> {
        let (mut dtype, mut rank, mut span) = (None, None, None);
        if !json.eat(b'{') {
            return Err(json.unexpected("an object with dtype, shape and data_offsets"));
        }
        if !json.eat(b'}') {
            loop {
                let field = json.string()?;
                json.expect(b':')?;
                match &*json.unescape(&field)? {
                    b"dtype" => {
                        self.once(json, dtype.is_some(), "dtype")?;
                        dtype = Some(self.dtype(json)?);
                    }
                    b"shape" => {
                        self.once(json, rank.is_some(), "shape")?;
                        rank = Some(self.shape(json)?);
                    }
                    b"data_offsets" => {
                        self.once(json, span.is_some(), "data_offsets")?;
                        span = Some(self.span(json)?);
                    }
                    _ => json.skip_value()?,
                }
                if !json.eat(b',') {
                    json.expect(b'}')?;
                    break;
                }
            }
        }
        let missing = |field: &str| json.error(format!("the entry has no {field}"));
        let dtype = dtype.ok_or_else(|| missing("dtype"))?;
        let rank = rank.ok_or_else(|| missing("shape"))?;
        let (begin, end) = span.ok_or_else(|| missing("data_offsets"))?;
        Ok(EntryFields { dtype, rank, begin, end })
    }

    fn once(&mut self, json: &Scanner<'_>, seen: bool, field: &str) -> Result<()> {
        if seen { self.lenient(json.at(), &format!("an entry has two {field}")) } else { Ok(()) }
    }

    fn dtype(&mut self, json: &mut Scanner<'_>) -> Result<DType> {
        if json.peek() == Some(b'"')
            && let Some((dtype, rest)) =
                json.rest().get(1..).and_then(|text| self.compact_dtype(text))
        {
            json.continue_at(rest);
            return Ok(dtype);
        }
        let span = json.string()?;
        let found = DType::from_safetensors(&json.unescape(&span)?);
        found.ok_or_else(|| {
            let name = json.unescape(&span).unwrap_or_default();
            json.error(format!("\"{}\" is not a safetensors dtype", Text::new(&name)))
        })
    }

    fn shape(&mut self, json: &mut Scanner<'_>) -> Result<u8> {
        json.expect(b'[')?;
        let mut rank = 0;
        if json.eat(b']') {
            return Ok(rank);
        }
        loop {
            let at = json.at();
            let (dim, float) = json.whole_number()?;
            if float {
                self.lenient(at, "a dimension is written as a float")?;
            }
            rank += 1;
            if u32::from(rank) > self.limits.dims || rank == u8::MAX {
                let allowed = self.limits.dims.into();
                return Err(Error::limit("dimensions", rank.into(), allowed, "dims").at(at));
            }
            self.listing.push_dim(dim);
            if !json.eat(b',') {
                json.expect(b']')?;
                return Ok(rank);
            }
        }
    }

    fn span(&mut self, json: &mut Scanner<'_>) -> Result<(u64, u64)> {
        json.expect(b'[')?;
        let begin = json.integer()?;
        json.expect(b',')?;
        let end = json.integer()?;
        json.expect(b']')?;
        Ok((begin, end))
    }

    /// Checks that the data ranges follow each other from the start of the data to the end of the
    /// file.
    fn check_spans(&mut self, header: &[u8], file_len: u64) -> Result<()> {
        // If the entries are listed in file order, as most writers do, this was checked during
        // parsing. In such a file, a duplicate name is possible only if its tensors are empty or
        // holes are allowed.
        if self.in_order && self.reached == file_len && !self.duplicates_may_pass {
            return Ok(());
        }
        self.keep_last_of_each_name(header)?;
        let data_start = self.data_start;
        let mut order = try_vec(self.listing.len())?;
        order.extend(
            self.listing
                .iter(header)
                .enumerate()
                .map(|(number, entry)| (entry.offset, entry.end().unwrap_or(u64::MAX), number)),
        );
        order.sort_unstable();
        let needed = order.iter().map(|(_, end, _)| *end).max().unwrap_or(0);
        self.check_overlaps(header, &order)?;
        let mut reached = data_start;
        for (begin, end, number) in order {
            let Some(entry) = self.listing.get(number, header) else { continue };
            if end > file_len {
                let fault = format!(
                    "the data end {} bytes after the end of the file ({file_len})",
                    end - file_len
                );
                let advice = format!("{}: fetch it again", cut_short(file_len, needed));
                return Err(Error::malformed(fault).in_tensor(entry.name).at(begin).advise(advice));
            }
            if begin > reached {
                let fault = || {
                    format!(
                        "a gap precedes tensor \"{}\": it begins at {}, not at {}, which the reference crate refuses",
                        entry.name,
                        begin - data_start,
                        reached - data_start
                    )
                };
                self.rules.broken(Strictness::Lenient, begin, fault)?;
            }
            reached = reached.max(end);
        }
        if reached != file_len {
            let left = file_len - reached;
            self.lenient(reached, &format!("{left} bytes follow the last tensor"))?;
        }
        Ok(())
    }

    /// Reports tensors with bytes in common. These come before gaps, which may be a consequence of them.
    fn check_overlaps(&mut self, header: &[u8], order: &[(u64, u64, usize)]) -> Result<()> {
        let Some((&first, rest)) = order.split_first() else { return Ok(()) };
        // Of the tensors so far, the one that ends last.
        let mut last = first;
        for &(begin, end, number) in rest {
            let entries = self.listing.get(last.2, header).zip(self.listing.get(number, header));
            if let Some((before, entry)) = entries.filter(|_| begin < last.1) {
                let fault = || {
                    format!(
                        "tensors \"{}\" and \"{}\" overlap: the first ends at {}, the second begins at {}, which the reference crate refuses",
                        before.name,
                        entry.name,
                        last.1 - self.data_start,
                        begin - self.data_start
                    )
                };
                self.rules.broken(Strictness::Lenient, begin, fault)?;
            }
            if end > last.1 {
                last = (begin, end, number);
            }
        }
        Ok(())
    }

    /// Keeps the last entry of each duplicate name, like the reference crate.
    fn keep_last_of_each_name(&mut self, header: &[u8]) -> Result<()> {
        let mut index = NameIndex::with_room(self.listing.len())?;
        let mut replaced = Vec::new();
        let name_of = |n: u32| {
            self.listing.get(n as usize, header).map_or(&[][..], |entry| entry.name.as_bytes())
        };
        for number in 0..u32::try_from(self.listing.len()).unwrap_or(u32::MAX) {
            let name = name_of(number);
            let same = |other| name_of(other) == name;
            if let Some(first) = index.insert(hash(name), number, same, |n| hash(name_of(n))) {
                index.replace(name, number, name_of);
                replaced.push(first as usize);
            }
        }
        let Some(&first) = replaced.first() else { return Ok(()) };
        if let Some(entry) = self.listing.get(first, header) {
            let fault = || format!("tensor \"{}\" occurs twice; the last one is used", entry.name);
            self.rules.broken(Strictness::Default, entry.offset, fault)?;
        }
        replaced.sort_unstable();
        self.listing.retain(|number| replaced.binary_search(&number).is_err());
        Ok(())
    }
}

/// The dtype with a name of at most seven bytes, in the form of [`SafetensorsParser::compact_dtype`].
#[cold]
fn short_dtype(name: u64) -> Option<(u64, DType)> {
    let [text @ .., len] = name.to_le_bytes();
    Some((name, DType::from_safetensors(text.get(..len.into())?)?))
}

/// Reads both offsets of an entry without white space.
#[inline(always)]
fn compact_span(text: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (begin, rest) = number(text)?;
    let (end, rest) = number(rest.strip_prefix(b",")?)?;
    Some((begin, end, rest.strip_prefix(b"]")?))
}

struct EntryFields {
    dtype: DType,
    rank: u8,
    begin: u64,
    end: u64,
}
