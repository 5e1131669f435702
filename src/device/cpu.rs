//! Host memory.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};

use super::Device;
use crate::bytes::try_vec;
use crate::error::{Error, Result};

/// The machine's own memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu;

/// Bytes in host memory that start at a multiple of 64: a cache line, and the widest vector.
pub struct CpuBuffer(Memory);

enum Memory {
    /// A vector with room to spare, and where its aligned part starts.
    Small { bytes: Vec<u8>, start: usize },
    /// Pages of its own, huge ones where the system has them: filling fresh memory costs three
    /// times as much by 4 KiB pages.
    Large(memmap2::MmapMut),
}

const ALIGNMENT: usize = 64;

/// From here on a buffer gets pages of its own.
const LARGE: u64 = 2 << 20;

impl CpuBuffer {
    /// `len` zero bytes.
    ///
    /// # Errors
    ///
    /// `Io` if there is not that much memory.
    pub fn zeroed(len: u64) -> Result<Self> {
        let no_memory = || Error::new(crate::ErrorKind::Io, format!("no memory for {len} bytes"));
        let size = usize::try_from(len).map_err(|_| no_memory())?;
        if len >= LARGE {
            let map = memmap2::MmapMut::map_anon(size).map_err(|_| no_memory())?;
            // Advice only: where the system does not take it, pages are small.
            #[cfg(target_os = "linux")]
            let _ = map.advise(memmap2::Advice::HugePage);
            return Ok(Self(Memory::Large(map)));
        }
        let mut bytes = try_vec(size + ALIGNMENT)?;
        let start = Vec::<u8>::as_ptr(&bytes).align_offset(ALIGNMENT).min(ALIGNMENT);
        bytes.resize(start + size, 0);
        Ok(Self(Memory::Small { bytes, start }))
    }
}

impl std::fmt::Debug for CpuBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CpuBuffer({} bytes)", self.len())
    }
}

impl Deref for CpuBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Memory::Small { bytes, start } => &bytes[*start..],
            Memory::Large(map) => map,
        }
    }
}

impl DerefMut for CpuBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Memory::Small { bytes, start } => &mut bytes[*start..],
            Memory::Large(map) => map,
        }
    }
}

impl Device for Cpu {
    type Buffer = CpuBuffer;

    fn name(&self) -> Cow<'_, str> {
        "cpu".into()
    }

    fn alignment(&self) -> u64 {
        ALIGNMENT as u64
    }

    fn allocate(&self, bytes: u64) -> Result<CpuBuffer> {
        CpuBuffer::zeroed(bytes)
    }

    fn write(&self, buffer: &mut CpuBuffer, offset: u64, bytes: &[u8]) -> Result<()> {
        let len = buffer.len();
        let room = place(offset, bytes.len()).and_then(|range| buffer.get_mut(range));
        let room = room.ok_or_else(|| beyond(offset, bytes.len(), len))?;
        room.copy_from_slice(bytes);
        Ok(())
    }

    fn read(&self, buffer: &CpuBuffer, offset: u64, out: &mut [u8]) -> Result<()> {
        let from = place(offset, out.len()).and_then(|range| buffer.get(range));
        let from = from.ok_or_else(|| beyond(offset, out.len(), buffer.len()))?;
        out.copy_from_slice(from);
        Ok(())
    }
}

fn place(offset: u64, len: usize) -> Option<std::ops::Range<usize>> {
    let start = usize::try_from(offset).ok()?;
    Some(start..start.checked_add(len)?)
}

fn beyond(offset: u64, len: usize, buffer: usize) -> Error {
    Error::mismatch(format!("{len} bytes at {offset} of a buffer of {buffer}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_zero() {
        for len in [0, 1, 63, 64, 1000, (2 << 20) - 1, 2 << 20, (2 << 20) + 1] {
            let buffer = Cpu.allocate(len).unwrap();
            assert_eq!(buffer.len() as u64, len);
            assert_eq!(buffer.as_ptr().align_offset(64), 0, "{len}");
            assert!(buffer.iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn writes_beyond_the_end_are_refused() {
        let mut buffer = Cpu.allocate(8).unwrap();
        Cpu.write(&mut buffer, 4, &[1, 2, 3, 4]).unwrap();
        let error = Cpu.write(&mut buffer, 5, &[1, 2, 3, 4]).unwrap_err();
        assert_eq!(error.to_string(), "4 bytes at 5 of a buffer of 8");
        assert!(Cpu.write(&mut buffer, u64::MAX, &[1]).is_err());
        let mut out = [0; 4];
        Cpu.read(&buffer, 4, &mut out).unwrap();
        assert_eq!(out, [1, 2, 3, 4]);
        assert!(Cpu.read(&buffer, 8, &mut out).is_err());
    }
}
