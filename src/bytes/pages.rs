//! Aligned memory for decoding and loading.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::try_vec;
use crate::error::{Error, ErrorKind, Result};

/// Bytes in host memory that start at a multiple of 64: a cache line, and the widest vector.
///
/// Large buffers get their own pages, huge ones if the system has them: filling fresh memory in 4
/// KiB pages takes three times as long.
pub struct AlignedBytes(Allocation);

enum Allocation {
    /// A vector with room to spare, and the start of its aligned part.
    Small { bytes: Vec<u8>, start: usize },
    /// A map with room to spare, and the start and length of its aligned part.
    Large { map: memmap2::MmapMut, start: usize, len: usize },
}

const ALIGNMENT: usize = 64;

/// From this size, bytes get their own pages. It is a huge page on current processors.
const LARGE: usize = 2 << 20;

impl AlignedBytes {
    /// The alignment of the first byte.
    pub const ALIGNMENT: u64 = ALIGNMENT as u64;

    /// Allocates `len` zero bytes.
    ///
    /// # Errors
    ///
    /// `Io` if there is not enough memory.
    pub fn zeroed(len: u64) -> Result<Self> {
        let no_memory = || Error::new(ErrorKind::Io, format!("no memory for {len} bytes"));
        let size = usize::try_from(len).map_err(|_| no_memory())?;
        if size >= LARGE {
            let room = size.checked_add(LARGE).ok_or_else(no_memory)?;
            let map = memmap2::MmapMut::map_anon(room).map_err(|_| no_memory())?;
            let start = map.as_ptr().align_offset(LARGE).min(LARGE);
            // This is only advice: a system that ignores it uses small pages. The end keeps small
            // pages, because a huge page would take memory that nobody requested.
            #[cfg(target_os = "linux")]
            {
                let huge = size / LARGE * LARGE;
                let _ = map.advise_range(memmap2::Advice::HugePage, start, huge);
                let _ = map.advise_range(
                    memmap2::Advice::NoHugePage,
                    start + huge,
                    room - start - huge,
                );
            }
            return Ok(Self(Allocation::Large { map, start, len: size }));
        }
        let mut bytes = try_vec(size + ALIGNMENT)?;
        let start = Vec::<u8>::as_ptr(&bytes).align_offset(ALIGNMENT).min(ALIGNMENT);
        bytes.resize(start + size, 0);
        Ok(Self(Allocation::Small { bytes, start }))
    }
}

impl std::fmt::Debug for AlignedBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBytes({} bytes)", self.len())
    }
}

impl Deref for AlignedBytes {
    type Target = [u8];

    #[expect(clippy::indexing_slicing, reason = "the aligned part of its own memory")]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Allocation::Small { bytes, start } => &bytes[*start..],
            Allocation::Large { map, start, len } => &map[*start..*start + *len],
        }
    }
}

impl DerefMut for AlignedBytes {
    #[expect(clippy::indexing_slicing, reason = "the aligned part of its own memory")]
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Allocation::Small { bytes, start } => &mut bytes[*start..],
            Allocation::Large { map, start, len } => &mut map[*start..*start + *len],
        }
    }
}

/// Numbers in [`AlignedBytes`]. Dereferences to a slice.
#[derive(Debug)]
pub struct AlignedBuffer<T> {
    pages: AlignedBytes,
    element: PhantomData<T>,
}

impl<T: FromBytes + Immutable + IntoBytes> AlignedBuffer<T> {
    /// Allocates `len` zeros.
    ///
    /// # Errors
    ///
    /// `Io` if there is not enough memory.
    pub fn zeroed(len: usize) -> Result<Self> {
        // Then the bytes can always be read as numbers.
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= ALIGNMENT) };
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        Ok(Self { pages: AlignedBytes::zeroed(bytes)?, element: PhantomData })
    }
}

impl<T: FromBytes + Immutable + IntoBytes> Deref for AlignedBuffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        <[T]>::ref_from_bytes(&self.pages).unwrap_or_default()
    }
}

impl<T: FromBytes + Immutable + IntoBytes> DerefMut for AlignedBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        <[T]>::mut_from_bytes(&mut self.pages).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_zero() {
        for len in [0, 1, 63, 64, 1000, (2 << 20) - 1, 2 << 20, (2 << 20) + 1] {
            let pages = AlignedBytes::zeroed(len).unwrap();
            assert_eq!(pages.len() as u64, len);
            assert_eq!(pages.as_ptr().align_offset(64), 0, "{len}");
            assert!(len < 2 << 20 || pages.as_ptr().align_offset(2 << 20) == 0, "{len}");
            assert!(pages.iter().all(|&byte| byte == 0));
        }
        let mut values = AlignedBuffer::<f32>::zeroed(3).unwrap();
        values[1] = 2.0;
        assert_eq!(*values, [0.0, 2.0, 0.0]);
    }

    #[test]
    fn too_much_memory_is_an_error() {
        assert!(AlignedBytes::zeroed(u64::MAX).is_err());
        assert!(AlignedBuffer::<f32>::zeroed(usize::MAX).is_err());
    }
}
