//! Loads a model to a device of one's own: separate memory that the program cannot reach, an
//! alignment of 256, transfers in words, and a capacity: `cargo run --example device -- MODEL`.
//!
//! The device's memory is a vector of words here. A real one has handles of a driver instead.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weighbridge::device::{BufferLayout, Device, DeviceLimits};
use weighbridge::load::Fusion;
use weighbridge::{
    DType, Error, ErrorKind, LoadOptions, Model, Part, Policy, Result, WeightProvider,
};
use zerocopy::IntoBytes;

fn main() -> Result<()> {
    let path = std::env::args().nth(1);
    let path = path.unwrap_or_else(|| "assets/sample/sample-Q8_0.gguf".to_owned());
    for line in load(Path::new(&path))? {
        println!("{line}");
    }
    Ok(())
}

/// An accelerator with memory of its own. It computes with everything but BF16.
#[derive(Debug)]
pub struct Accelerator {
    memory: Arc<Memory>,
}

/// The state that the device and its buffers share.
#[derive(Debug)]
struct Memory {
    capacity: u64,
    used: AtomicU64,
    /// Staging memory that is not in use.
    staging: Mutex<Vec<Vec<u64>>>,
    transfers: AtomicU64,
}

/// Memory on the accelerator, freed when it is dropped.
#[derive(Debug)]
pub struct Allocation {
    words: Mutex<Vec<u32>>,
    bytes: u64,
    memory: Arc<Memory>,
}

impl Drop for Allocation {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The bytes of a word: transfers begin and end at multiples of it.
const WORD: u64 = 4;

impl Accelerator {
    /// An accelerator with this many bytes of memory.
    pub fn new(capacity: u64) -> Self {
        let memory = Memory {
            capacity,
            used: AtomicU64::new(0),
            staging: Mutex::default(),
            transfers: AtomicU64::new(0),
        };
        Self { memory: Arc::new(memory) }
    }
}

impl Device for Accelerator {
    type Buffer = Allocation;
    type Region<'b> = (&'b Allocation, Range<u64>);

    fn name(&self) -> Cow<'_, str> {
        "accelerator".into()
    }

    fn limits(&self) -> DeviceLimits {
        let mut limits = DeviceLimits::new(256);
        (limits.unit, limits.memory) = (WORD, Some(self.memory.capacity));
        limits
    }

    fn supports(&self, dtype: DType) -> bool {
        dtype != DType::BF16
    }

    fn allocate(&self, layout: &BufferLayout) -> Result<Allocation> {
        let used = self.memory.used.fetch_add(layout.bytes, Ordering::Relaxed);
        let allocation = Allocation {
            words: Mutex::default(),
            bytes: layout.bytes,
            memory: Arc::clone(&self.memory),
        };
        let free = self.memory.capacity.saturating_sub(used);
        if layout.bytes > free {
            return Err(Error::out_of_memory(&self.name(), layout.bytes, Some(free)));
        }
        let len = usize::try_from(layout.bytes / WORD).unwrap_or(usize::MAX);
        words(&allocation).resize(len, 0);
        Ok(allocation)
    }

    fn regions<'b>(
        &self,
        buffer: &'b mut Allocation,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Self::Region<'b>>> {
        let buffer = &*buffer;
        Ok(ranges.iter().map(|range| (buffer, range.clone())).collect())
    }

    fn fill(
        &self,
        (buffer, range): Self::Region<'_>,
        write: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let mut pool = self.memory.staging.lock().unwrap_or_else(PoisonError::into_inner);
        let mut staging = pool.pop().unwrap_or_default();
        drop(pool);
        let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        staging.resize(len.div_ceil(8), 0);
        let bytes = staging.as_mut_bytes().get_mut(..len).unwrap_or_default();
        // The loader reads, permutes or decodes the file's bytes straight into the staging memory.
        write(bytes)?;
        let first = usize::try_from(range.start / WORD).unwrap_or(usize::MAX);
        let words = &mut words(buffer);
        for (to, from) in words.iter_mut().skip(first).zip(bytes.as_chunks().0) {
            *to = u32::from_le_bytes(*from);
        }
        self.memory.transfers.fetch_add(1, Ordering::Relaxed);
        self.memory.staging.lock().unwrap_or_else(PoisonError::into_inner).push(staging);
        Ok(())
    }

    fn read(&self, buffer: &Allocation, offset: u64, out: &mut [u8]) -> Result<()> {
        let end = offset.saturating_add(out.len() as u64);
        if end > buffer.bytes {
            let fault = format!("byte {end} exceeds the buffer of {} bytes", buffer.bytes);
            return Err(Error::new(ErrorKind::Mismatch, fault));
        }
        let skip = usize::try_from(offset).unwrap_or(usize::MAX);
        let words = words(buffer);
        let bytes = words.iter().flat_map(|word| word.to_le_bytes()).skip(skip);
        out.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        Ok(())
    }
}

fn words(buffer: &Allocation) -> std::sync::MutexGuard<'_, Vec<u32>> {
    buffer.words.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Loads a model with q, k and v fused, and describes what is on the device.
pub fn load(path: &Path) -> Result<Vec<String>> {
    let device = Arc::new(Accelerator::new(1 << 30));
    // BF16 is not supported: floats become F16, packed codes stay.
    let provider = WeightProvider::new(Model::open(path)?, Arc::clone(&device))?
        .policy(Policy::PackedF16)
        .fallback(&[DType::F16]);
    static QKV: Fusion =
        Fusion::new("my-qkv", &[".attention.q.", ".attention.k.", ".attention.v."]);
    let loaded = provider.load_all(|_| true, &LoadOptions::new().fuse(&[&QKV]))?;
    let mut lines = Vec::new();
    for tensor in &loaded {
        let parts: Vec<String> = tensor
            .parts
            .iter()
            .map(|part| format!("{} {} at {:?}", part.part.name(), part.dtype, part.range))
            .collect();
        let first = tensor.members.first().map_or("", |member| member.name.as_str());
        let members = tensor.members.len();
        lines.push(format!("{first} ({members} in it) {:?}: {}", tensor.shape, parts.join(", ")));
    }
    // Reading back is for tests; an engine computes on the device.
    let bytes: usize = loaded
        .iter()
        .map(|tensor| tensor.read(&device, Part::Weight).map(|bytes| bytes.len()))
        .sum::<Result<usize>>()?;
    let transfers = device.memory.transfers.load(Ordering::Relaxed);
    let used = device.memory.used.load(Ordering::Relaxed);
    lines.push(format!(
        "{bytes} bytes of codes and numbers; {used} bytes used, {transfers} transfers"
    ));
    drop((loaded, provider));
    lines.push(format!("{} bytes used at the end", device.memory.used.load(Ordering::Relaxed)));
    Ok(lines)
}
