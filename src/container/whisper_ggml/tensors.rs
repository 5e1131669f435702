//! Lists the tensors. Each tensor's header directly precedes its data, so finding one means
//! stepping over all those before it.

use super::super::rules::RuleViolations;
use super::super::{OpenOptions, Strictness};
use super::header::HeaderText;
use crate::bytes::{Source, Text, try_zeroed};
use crate::dtype::{self, DType};
use crate::error::{Error, Result};
use crate::index::hash;
use crate::limits::Limits;
use crate::store::{ArrayListing, check_count, check_range};

/// The bytes of a tensor's header before its dimensions: their number, the length of the name, the
/// type.
const FIXED: u64 = 12;

/// The largest number of dimensions in whisper.cpp.
const DIMS: u32 = 4;

/// Lists the tensors from `at` to the end of the file, after those already in `listing`.
pub(super) fn list(
    source: &Source,
    mut at: u64,
    text: &mut HeaderText,
    listing: ArrayListing,
    options: &OpenOptions,
    rules: &mut RuleViolations,
) -> Result<ArrayListing> {
    let window = ReadWindow { source, start: 0, held: Vec::new() };
    let mut walk = Walk { window, text, listing, limits: &options.limits, rules };
    while at < source.len() {
        let left = source.len() - at;
        if left < FIXED {
            // whisper.cpp treats this as a regular end.
            walk.rules.broken(Strictness::Lenient, at, || {
                format!("the remaining {left} bytes are too few for the header of another tensor")
            })?;
            break;
        }
        at = walk.tensor(at)?;
    }
    Ok(walk.listing)
}

struct Walk<'a> {
    window: ReadWindow<'a>,
    text: &'a mut HeaderText,
    listing: ArrayListing,
    limits: &'a Limits,
    rules: &'a mut RuleViolations,
}

impl Walk<'_> {
    /// Lists the tensor whose header is at `at`. Returns the end of its data.
    fn tensor(&mut self, at: u64) -> Result<u64> {
        check_count((self.listing.len() as u64).saturating_add(1), self.limits)
            .map_err(|error| error.at(at))?;
        let fixed = self.window.take(at, FIXED, "the header of a tensor")?;
        let (rank, len, code) = (number(fixed, 0), number(fixed, 1), number(fixed, 2));
        let rank = u32::try_from(rank).ok().filter(|&rank| rank <= DIMS).ok_or_else(|| {
            let fault = format!("a tensor with {rank} dimensions, but 0 to {DIMS} are allowed");
            Error::malformed(fault).at(at)
        })?;
        if rank > self.limits.gguf_dims {
            let allowed = self.limits.gguf_dims.into();
            return Err(Error::limit("dimensions", rank.into(), allowed, "gguf_dims").at(at));
        }
        let dims_at = at.saturating_add(FIXED);
        let name_at = dims_at.saturating_add(4 * u64::from(rank));
        let name = self.name(len, at.saturating_add(4), name_at)?;
        self.shaped(rank, dims_at)
            .and_then(|()| self.typed(code, at.saturating_add(8)))
            .and_then(|dtype| {
                let text = self.text.get(&name);
                let offset = name_at.saturating_add(text.len() as u64);
                let rank = u8::try_from(rank).unwrap_or(u8::MAX);
                self.listing.push(name.clone(), hash(text), Ok(dtype), rank, offset)?;
                let last = self.listing.len().saturating_sub(1);
                let Some(listed) = self.listing.get(last, &self.text.bytes) else {
                    return Ok(self.window.source.len());
                };
                let end = check_range(&listed, self.window.source.len(), 0)?;
                Ok(end.unwrap_or(u64::MAX))
            })
            .map_err(|error| error.in_tensor(Text::new(self.text.get(&name))))
    }

    /// Stores the name of `len` bytes at `name_at`. `at` is the position of the length itself.
    fn name(&mut self, len: i32, at: u64, name_at: u64) -> Result<std::ops::Range<u32>> {
        let len = u64::try_from(len).ok().filter(|&len| len > 0).ok_or_else(|| {
            Error::malformed(format!("a tensor name with a length of {len} bytes")).at(at)
        })?;
        if len > self.limits.string_bytes {
            let allowed = self.limits.string_bytes;
            return Err(Error::limit("bytes in one string", len, allowed, "string_bytes").at(at));
        }
        let name = self.window.take(name_at, len, "a tensor name")?;
        self.text.add(name).map_err(|error| error.at(name_at))
    }

    /// Stores the dimensions, which the file lists innermost first.
    fn shaped(&mut self, rank: u32, at: u64) -> Result<()> {
        let dims = self.window.take(at, 4 * u64::from(rank), "the dimensions of a tensor")?;
        for (place, dim) in dims.chunks_exact(4).enumerate() {
            let dim = number(dim, 0);
            let found = u64::try_from(dim).ok().filter(|&dim| dim > 0).ok_or_else(|| {
                let at = at.saturating_add(4 * place as u64);
                Error::malformed(format!("dimension {place} is {dim}")).at(at)
            })?;
            self.listing.push_dim(found);
        }
        self.listing.reverse_dims(rank as usize);
        Ok(())
    }

    /// The dtype of a type code. Without its size, no later tensor can be found.
    fn typed(&mut self, code: i32, at: u64) -> Result<DType> {
        let code = u32::try_from(code).map_err(|_| {
            Error::malformed(format!("type code {code}, but type codes are not negative")).at(at)
        })?;
        let found = DType::from_ggml(code).ok_or_else(|| {
            let what = dtype::describe_ggml(code);
            let fault = format!("{what}, so the start of the next tensor is unknown");
            Error::unsupported(fault).at(at)
        })?;
        if !found.is_ggml() {
            let fault = || format!("a tensor of {found}, which whisper.cpp refuses");
            self.rules.broken(Strictness::Default, at, fault)?;
        }
        Ok(found)
    }
}

/// The number at position `place` in `bytes`.
fn number(bytes: &[u8], place: usize) -> i32 {
    let found = bytes.get(4 * place..).and_then(|rest| rest.first_chunk().copied());
    found.map_or(0, i32::from_le_bytes)
}

/// Reads a few kilobytes at a time, because small tensors such as biases are close to each other.
struct ReadWindow<'a> {
    source: &'a Source,
    start: u64,
    held: Vec<u8>,
}

impl ReadWindow<'_> {
    const BYTES: u64 = 4 << 10;

    /// The `len` bytes at `at`. `what` names them in messages.
    fn take(&mut self, at: u64, len: u64, what: &str) -> Result<&[u8]> {
        let left = self.source.len().saturating_sub(at);
        if len > left {
            let fault = format!("{what} needs {len} bytes, but only {left} are left in the file");
            return Err(Error::malformed(fault)
                .at(at)
                .advise("the file is cut short or damaged: fetch or copy it again"));
        }
        let held = self.start.saturating_add(self.held.len() as u64);
        if at < self.start || at.saturating_add(len) > held {
            let wanted = usize::try_from(len.max(Self::BYTES).min(left)).unwrap_or(usize::MAX);
            self.held = try_zeroed(wanted)?;
            self.start = at;
            self.source.read_at(at, &mut self.held)?;
        }
        let from = usize::try_from(at.saturating_sub(self.start)).unwrap_or(usize::MAX);
        let to = from.saturating_add(usize::try_from(len).unwrap_or(usize::MAX));
        Ok(self.held.get(from..to).unwrap_or_default())
    }
}
