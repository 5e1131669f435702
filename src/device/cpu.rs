//! Host memory.

use std::borrow::Cow;
use std::ops::Range;

use super::{BufferLayout, Device, DeviceLimits, split_at};
use crate::bytes::AlignedBytes;
use crate::error::{Error, Result};

/// Host memory as a device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu;

impl Device for Cpu {
    type Buffer = AlignedBytes;
    type Region<'b> = &'b mut [u8];

    fn name(&self) -> Cow<'_, str> {
        "cpu".into()
    }

    fn limits(&self) -> DeviceLimits {
        DeviceLimits { in_place: true, ..DeviceLimits::new(AlignedBytes::ALIGNMENT) }
    }

    fn allocate(&self, layout: &BufferLayout) -> Result<AlignedBytes> {
        AlignedBytes::zeroed(layout.bytes)
            .map_err(|_| Error::out_of_memory(&self.name(), layout.bytes, None))
    }

    fn regions<'b>(
        &self,
        buffer: &'b mut AlignedBytes,
        ranges: &[Range<u64>],
    ) -> Result<Vec<&'b mut [u8]>> {
        split_at(buffer, ranges)
    }

    fn fill(
        &self,
        region: &mut [u8],
        write: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        write(region)
    }

    fn contents<'b>(&self, buffer: &'b AlignedBytes) -> Option<&'b [u8]> {
        Some(buffer)
    }

    fn read(&self, buffer: &AlignedBytes, offset: u64, out: &mut [u8]) -> Result<()> {
        let range = offset..offset.saturating_add(out.len() as u64);
        let bytes = usize::try_from(range.start)
            .ok()
            .zip(usize::try_from(range.end).ok())
            .and_then(|(start, end)| buffer.get(start..end));
        let bytes = bytes.filter(|bytes| bytes.len() == out.len());
        out.copy_from_slice(
            bytes.ok_or_else(|| Error::outside_buffer(&range, buffer.len() as u64))?,
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn ranges_beyond_the_end_are_refused() {
        let mut buffer = Cpu.allocate(&BufferLayout::new(8)).unwrap();
        let [first, last] = Cpu.regions(&mut buffer, &[0..2, 4..8]).unwrap().try_into().unwrap();
        let mut copy = |bytes: &mut [u8]| {
            bytes.copy_from_slice(&[1, 2, 3, 4][..bytes.len()]);
            Ok(())
        };
        Cpu.fill(last, &mut copy).unwrap();
        Cpu.fill(first, &mut copy).unwrap();
        assert_eq!(Cpu.contents(&buffer).unwrap(), [1, 2, 0, 0, 1, 2, 3, 4]);
        let error = Cpu.regions(&mut buffer, &[0..4, 5..9]).unwrap_err();
        assert_eq!(error.to_string(), "bytes 5 to 9 exceed the buffer of 8 bytes");
        for wrong in
            [[0..0, u64::MAX - 1..u64::MAX], [0..4, 3..5], [0..0, Range { start: 4, end: 2 }]]
        {
            assert_eq!(Cpu.regions(&mut buffer, &wrong).unwrap_err().kind(), ErrorKind::Mismatch);
        }
        let mut out = [0; 4];
        Cpu.read(&buffer, 4, &mut out).unwrap();
        assert_eq!(out, [1, 2, 3, 4]);
        for offset in [5, 8, u64::MAX] {
            assert!(Cpu.read(&buffer, offset, &mut out).is_err());
        }
    }

    #[test]
    fn too_much_memory_is_an_error_with_the_number() {
        let error = Cpu.allocate(&BufferLayout::new(1 << 62)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert_eq!(error.to_string(), "cpu has no memory for 4611686018427387904 bytes");
    }
}
