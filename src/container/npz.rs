//! NumPy archives, in which MLX stored weights before safetensors: a zip of uncompressed `.npy`
//! arrays.
//!
//! ```text
//! zip entry "NAME.npy":  "\x93NUMPY"  u8 major  u8 minor  u16 or u32 length  header  data
//! header:                {'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), }
//! ```

use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use super::OpenOptions;
use super::foreign::{cut_archive, most_entries};
use crate::bytes::{Source, Text, try_zeroed};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::index::hash;
use crate::metadata::Metadata;
use crate::store::{ArrayListing, check_count, check_range};

use super::safetensors::header::SafetensorsHeader;

/// NumPy's dtype names, for little-endian and one-byte dtypes.
static DESCRIPTIONS: &[(&str, DType)] = &[
    ("<f2", DType::F16),
    ("<f4", DType::F32),
    ("<f8", DType::F64),
    ("|i1", DType::I8),
    ("<i2", DType::I16),
    ("<i4", DType::I32),
    ("<i8", DType::I64),
    ("|u1", DType::U8),
    ("<u2", DType::U16),
    ("<u4", DType::U32),
    ("<u8", DType::U64),
    ("|b1", DType::BOOL),
    ("<c8", DType::C64),
];

/// The largest array header, in bytes; NumPy's own default limit is 10,000 as well.
const HEADER_BYTES: u32 = 10_000;

/// Lists the arrays of an archive.
pub(super) fn parse(source: Source, options: &OpenOptions) -> Result<SafetensorsHeader> {
    let path = source.path().to_path_buf();
    parse_file(source, options).map_err(|error| error.in_file(&path))
}

fn parse_file(source: Source, options: &OpenOptions) -> Result<SafetensorsHeader> {
    check_entries(&source)?;
    let broken = |error: zip::result::ZipError| Error::malformed(format!("a broken zip: {error}"));
    let mut names = Vec::new();
    let mut listing = ArrayListing::default();
    let mut archive =
        zip::ZipArchive::new(Positioned { source: &source, at: 0 }).map_err(broken)?;
    check_count(archive.len() as u64, &options.limits)?;
    for number in 0..archive.len() {
        let entry = archive.by_index_raw(number).map_err(broken)?;
        let Some(name) = entry.name_raw().strip_suffix(b".npy") else { continue };
        let named = |error: Error| error.in_tensor(Text::new(name));
        if entry.compression() != zip::CompressionMethod::Stored {
            let fault = "the array is compressed, so it cannot be read in place";
            return Err(named(
                Error::unsupported(fault).advise("save it with numpy.savez instead"),
            ));
        }
        let start = entry.data_start();
        let (dtype, shape, header) = array(&source, start).map_err(named)?;
        let rank = u8::try_from(shape.len()).unwrap_or(u8::MAX);
        if u32::from(rank) > options.limits.dims {
            let allowed = options.limits.dims.into();
            return Err(named(Error::limit("dimensions", rank.into(), allowed, "dims")));
        }
        shape.iter().for_each(|&dim| listing.push_dim(dim));
        let place = u32::try_from(names.len()).unwrap_or(u32::MAX);
        let end = u32::try_from(names.len().saturating_add(name.len())).unwrap_or(u32::MAX);
        names.extend_from_slice(name);
        listing.push(place..end, hash(name), Ok(dtype), rank, start.saturating_add(header))?;
    }
    for entry in listing.iter(&names) {
        check_range(&entry, source.len(), 0)?;
    }
    let (header, metadata, notes) = (Arc::new(names), Metadata::default(), Vec::new());
    Ok(SafetensorsHeader { source, header, listing, metadata, notes })
}

/// The largest number of entries. The zip library allocates some hundred bytes for each entry that
/// an archive claims.
const ENTRIES: u16 = 50_000;

/// Refuses archives with too many entries before they are listed, by the record at the end.
fn check_entries(source: &Source) -> Result<()> {
    match most_entries(source)? {
        Some(count) if count > ENTRIES => {
            Err(Error::limit("arrays in one archive", count.into(), ENTRIES.into(), "tensors"))
        }
        Some(_) => Ok(()),
        None => Err(cut_archive()),
    }
}

/// The dtype and shape of the array at `start`, and the length of its header.
fn array(source: &Source, start: u64) -> Result<(DType, Vec<u64>, u64)> {
    // Headers are read, never mapped.
    let take = |at: u64, len: u64| {
        let mut bytes = try_zeroed(usize::try_from(len).unwrap_or(0))?;
        source.read_at(at, &mut bytes).map(|()| bytes)
    };
    let head = take(start, 12)?;
    let (length, before) = match head[..] {
        [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _, a, b, ..] => {
            (u16::from_le_bytes([a, b]).into(), 10)
        }
        [0x93, b'N', b'U', b'M', b'P', b'Y', 2 | 3, _, a, b, c, d] => {
            (u32::from_le_bytes([a, b, c, d]), 12)
        }
        _ => return Err(Error::malformed("not a NumPy array").at(start)),
    };
    if length > HEADER_BYTES {
        return Err(Error::malformed(format!("an array header of {length} bytes")).at(start));
    }
    let bytes = take(start.saturating_add(before), length.into())?;
    let text = String::from_utf8_lossy(&bytes);
    let value = |key: &str| {
        let rest = text.split_once(&format!("'{key}'"))?.1;
        Some(rest.trim_start().strip_prefix(':')?.trim_start())
    };
    let wrong =
        |key: &str| Error::malformed(format!("an array header without {key}: {text}")).at(start);
    let description = value("descr").ok_or_else(|| wrong("descr"))?;
    let description = description.strip_prefix('\'').and_then(|rest| rest.split_once('\''));
    let (description, _) = description.ok_or_else(|| wrong("descr"))?;
    let row = DESCRIPTIONS.iter().find(|row| row.0 == description);
    let dtype = row.map(|row| row.1).ok_or_else(|| {
        let shown = Text::new(description.as_bytes());
        Error::unsupported(format!("arrays of NumPy's dtype \"{shown}\"")).at(start)
    })?;
    let shape = value("shape").and_then(|rest| rest.strip_prefix('(')?.split_once(')'));
    let (shape, _) = shape.ok_or_else(|| wrong("shape"))?;
    let dims = shape.split(',').map(str::trim).filter(|dim| !dim.is_empty());
    let dims: Vec<u64> =
        dims.map(|dim| dim.parse().map_err(|_| wrong("shape"))).collect::<Result<_>>()?;
    // MLX states it for vectors, whose elements have one order.
    let has_orders = dims.iter().filter(|dim| **dim != 1).count() > 1;
    if has_orders && !value("fortran_order").is_some_and(|order| order.starts_with("False")) {
        return Err(Error::unsupported("an array in Fortran's order").at(start));
    }
    Ok((dtype, dims, u64::from(length).saturating_add(before)))
}

/// Adapts a source to the zip library.
struct Positioned<'a> {
    source: &'a Source,
    at: u64,
}

impl Read for Positioned<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let left = self.source.len().saturating_sub(self.at);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(out.len());
        let Some(out) = out.get_mut(..len) else { return Ok(0) };
        self.source.read_at(self.at, out).map_err(std::io::Error::other)?;
        self.at = self.at.saturating_add(len as u64);
        Ok(len)
    }
}

impl Seek for Positioned<'_> {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        let target = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.source.len().checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = target.ok_or(std::io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
