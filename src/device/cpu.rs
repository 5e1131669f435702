//! Host memory.

use std::borrow::Cow;

use super::Device;
use crate::bytes::Pages;
use crate::error::{Error, Result};

/// Host memory as a device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu;

impl Device for Cpu {
    type Buffer = Pages;

    fn name(&self) -> Cow<'_, str> {
        "cpu".into()
    }

    fn alignment(&self) -> u64 {
        Pages::ALIGNMENT
    }

    fn allocate(&self, bytes: u64) -> Result<Pages> {
        Pages::zeroed(bytes)
    }

    fn host<'b>(&self, buffer: &'b mut Pages) -> Option<&'b mut [u8]> {
        Some(buffer)
    }

    fn write(&self, buffer: &mut Pages, offset: u64, bytes: &[u8]) -> Result<()> {
        let len = buffer.len();
        let room = place(offset, bytes.len()).and_then(|range| buffer.get_mut(range));
        let room = room.ok_or_else(|| beyond(offset, bytes.len(), len))?;
        room.copy_from_slice(bytes);
        Ok(())
    }

    fn read(&self, buffer: &Pages, offset: u64, out: &mut [u8]) -> Result<()> {
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
    Error::mismatch(format!("{len} bytes at offset {offset} exceed the buffer of {buffer} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_beyond_the_end_are_refused() {
        let mut buffer = Cpu.allocate(8).unwrap();
        Cpu.write(&mut buffer, 4, &[1, 2, 3, 4]).unwrap();
        let error = Cpu.write(&mut buffer, 5, &[1, 2, 3, 4]).unwrap_err();
        assert_eq!(error.to_string(), "4 bytes at offset 5 exceed the buffer of 8 bytes");
        assert!(Cpu.write(&mut buffer, u64::MAX, &[1]).is_err());
        let mut out = [0; 4];
        Cpu.read(&buffer, 4, &mut out).unwrap();
        assert_eq!(out, [1, 2, 3, 4]);
        assert!(Cpu.read(&buffer, 8, &mut out).is_err());
    }
}
