//! Allocations of sizes that a file states.

use crate::error::{Error, ErrorKind, Result};

/// Allocates `len` zero bytes. Returns an error if memory is short, and never aborts.
pub(crate) fn try_zeroed(len: usize) -> Result<Vec<u8>> {
    let mut out = try_vec(len)?;
    if len < FRESH_PAGES {
        out.resize(len, 0);
        return Ok(out);
    }
    // The first request succeeded, so this one does too, and it gets zeroed pages from the system.
    drop(out);
    Ok(vec![0; len])
}

/// From about this size an allocator takes new pages from the system for each request.
const FRESH_PAGES: usize = 256 << 10;

/// Allocates an empty vector with room for `len` items. Returns an error if memory is short.
#[expect(clippy::disallowed_methods, reason = "this is the fallible form that replaces it")]
pub(crate) fn try_vec<T>(len: usize) -> Result<Vec<T>> {
    const { assert!(size_of::<T>() > 0) };
    let mut out = Vec::with_capacity(0);
    out.try_reserve_exact(len).map_err(|_| {
        Error::new(ErrorKind::Io, format!("no memory for {len} items of {} bytes", size_of::<T>()))
    })?;
    Ok(out)
}
