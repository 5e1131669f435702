//! Devices that use the memory of mapped files, without a copy.

use std::borrow::Cow;
use std::ops::Range;

use crate::support::sample;
use weighbridge::device::{BufferLayout, Cpu, Device, DeviceLimits, HostMemory, split_at};
use weighbridge::{Error, ErrorKind, LoadOptions, OpenOptions, Part, Result, WeightProvider};

const PAGE: u64 = 4096;

/// The bytes of the smallest part for which an import is worth its cost.
const LEAST: u64 = 64 << 10;

/// A device in whose reach host memory is.
#[derive(Debug)]
struct Near;

#[derive(Debug)]
enum NearBuffer {
    Own(Vec<u8>),
    OfFile(HostMemory),
}

impl NearBuffer {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::OfFile(memory) => memory.bytes(),
        }
    }
}

impl Device for Near {
    type Buffer = NearBuffer;
    type Region<'b> = &'b mut [u8];

    fn name(&self) -> Cow<'_, str> {
        "near".into()
    }

    fn limits(&self) -> DeviceLimits {
        let mut limits = DeviceLimits::new(256);
        limits.import = Some(PAGE);
        limits
    }

    fn import(&self, memory: HostMemory) -> Option<NearBuffer> {
        assert!((memory.bytes().as_ptr().addr() as u64).is_multiple_of(PAGE));
        assert!((memory.bytes().len() as u64).is_multiple_of(PAGE));
        Some(NearBuffer::OfFile(memory))
    }

    fn allocate(&self, layout: &BufferLayout) -> Result<NearBuffer> {
        Ok(NearBuffer::Own(vec![0xAA; layout.bytes as usize]))
    }

    fn regions<'b>(
        &self,
        buffer: &'b mut NearBuffer,
        ranges: &[Range<u64>],
    ) -> Result<Vec<&'b mut [u8]>> {
        match buffer {
            NearBuffer::Own(bytes) => split_at(bytes, ranges),
            NearBuffer::OfFile(_) => {
                Err(Error::new(ErrorKind::Mismatch, "the memory of a file is not written"))
            }
        }
    }

    fn fill(
        &self,
        region: &mut [u8],
        write: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        write(region)
    }

    fn contents<'b>(&self, buffer: &'b NearBuffer) -> Option<&'b [u8]> {
        Some(buffer.bytes())
    }

    fn read(&self, buffer: &NearBuffer, offset: u64, out: &mut [u8]) -> Result<()> {
        out.copy_from_slice(&buffer.bytes()[offset as usize..][..out.len()]);
        Ok(())
    }
}

/// Whether each tensor's memory is that of the file, which then has the same bytes as a copy.
fn imported(options: &OpenOptions) -> Vec<bool> {
    let path = sample("sample-BF16.gguf");
    let model = options.open(&path).expect("the sample");
    let near = WeightProvider::new(model.clone(), Near).expect("a provider");
    let copied = WeightProvider::new(model, Cpu).expect("a provider");
    let (all, load) = (|_: &str| true, LoadOptions::new());
    let near = near.load_all(all, &load).expect("tensors");
    let copied = copied.load_all(all, &load).expect("tensors");
    let found = near.iter().zip(&copied).map(|(tensor, copy)| {
        assert_eq!(tensor.shape, copy.shape);
        for part in &tensor.parts {
            let bytes = tensor.contents(&Near, part.part).expect("bytes");
            assert!(bytes == copy.contents(&Cpu, part.part).expect("bytes"));
        }
        let bytes = copy.contents(&Cpu, Part::Weight).expect("bytes").len() as u64;
        assert!(!tensor.imported || bytes >= LEAST);
        tensor.imported
    });
    found.collect()
}

#[test]
fn a_device_uses_the_memory_of_mapped_files() {
    let mapped = imported(&OpenOptions::new());
    assert!(mapped.contains(&true) && mapped.contains(&false), "{mapped:?}");
    let read = imported(&OpenOptions::new().read());
    assert!(!read.contains(&true), "{read:?}");
}
