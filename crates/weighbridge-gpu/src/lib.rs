//! Loads weights to the memory of a GPU, by Vulkan, Metal or Direct3D 12, and computes with them.
//!
//! [`Gpu`] is a [`Device`]: pass it to [`WeightProvider::new`](weighbridge::WeightProvider::new). `docs/devices.md` in the
//! repository describes uploads and kernels.

mod compute;
mod halves;
#[cfg_attr(not(any(windows, all(unix, not(target_vendor = "apple")))), path = "no_import.rs")]
mod import;
mod pipelines;
mod upload;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

pub use compute::{ChosenExperts, KernelCall};
pub use pipelines::ArrayLayout;
use pipelines::Pipelines;
use upload::{Place, STAGE, Uploads};
use weighbridge::device::kernel::{self, WIDTH};
use weighbridge::device::{BufferLayout, Device, DeviceLimits, HostMemory, TensorLayout};
use weighbridge::{DType, Error, ErrorKind, Result};
/// The version of wgpu whose types are in this module.
pub use wgpu;

/// Facts about a GPU, from its driver.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct GpuInfo {
    /// The name.
    pub name: String,
    /// `discrete`, `integrated`, `virtual`, `cpu` (software) or `other`.
    pub kind: &'static str,
    /// The interface: `vulkan`, `metal` or `dx12`.
    pub backend: &'static str,
    /// The driver and its version.
    pub driver: String,
    /// The alignment of tensors' parts in buffers.
    pub alignment: u64,
    /// The bytes that a kernel can use at once.
    pub max_binding_bytes: u64,
    /// The bytes of the largest buffer.
    pub max_buffer_bytes: u64,
}

/// The memory of a GPU as a device.
pub struct Gpu {
    info: GpuInfo,
    limits: DeviceLimits,
    device: wgpu::Device,
    queue: wgpu::Queue,
    state: Arc<GpuState>,
    uploads: Uploads,
    pipelines: Pipelines,
}

/// The state that a GPU and its buffers share.
#[derive(Debug, Default)]
struct GpuState {
    /// The first error that no call returned.
    fault: Mutex<Option<String>>,
    used: AtomicU64,
    buffers: AtomicUsize,
}

/// A buffer in the memory of a GPU: one buffer of the driver, or several for a tensor that exceeds
/// its limit.
#[derive(Debug)]
pub struct GpuBuffer {
    chunks: Vec<GpuChunk>,
    bytes: u64,
    /// The bytes of the device's memory.
    owned: u64,
    state: Arc<GpuState>,
}

/// A buffer of the driver, and the bytes of the tensor's buffer in it.
#[derive(Debug)]
#[non_exhaustive]
pub struct GpuChunk {
    /// The bytes of the tensor's buffer.
    pub range: Range<u64>,
    /// The buffer that holds them, from its first byte on.
    pub buffer: wgpu::Buffer,
}

impl Drop for GpuBuffer {
    fn drop(&mut self) {
        self.state.used.fetch_sub(self.owned, Ordering::Relaxed);
        self.state.buffers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl GpuBuffer {
    /// The buffers of the driver, in order. That of imported memory is a file's own pages: a kernel that
    /// writes to it ends the program.
    pub fn chunks(&self) -> &[GpuChunk] {
        &self.chunks
    }

    /// The places of the bytes of a range.
    fn places(&self, range: &Range<u64>) -> impl Iterator<Item = Place<'_>> {
        let (start, end) = (range.start, range.end);
        let part = move |chunk: &GpuChunk| start.max(chunk.range.start)..end.min(chunk.range.end);
        let all = self.chunks.iter().map(move |chunk| (chunk, part(chunk)));
        let some = all.filter(|(_, part)| !part.is_empty());
        some.map(|(chunk, part)| (&chunk.buffer, part.start - chunk.range.start, part))
    }
}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gpu({:?}, {:?})", self.info.name, self.limits)
    }
}

impl Gpu {
    /// The GPUs of this machine, discrete ones first and software last.
    pub fn list() -> Vec<GpuInfo> {
        adapters().iter().map(info).collect()
    }

    /// Opens the first GPU of [`list`](Self::list), the one with this number in it, or the first
    /// whose name contains this text, in upper or lower case.
    ///
    /// # Errors
    ///
    /// `Unsupported` if there is no such GPU; `Device` if the driver fails.
    pub fn open(which: Option<&str>) -> Result<Self> {
        let adapters = adapters();
        let named = |which: &str| match which.parse::<usize>() {
            Ok(number) => adapters.get(number),
            Err(_) => {
                let which = which.to_lowercase();
                adapters.iter().find(|one| one.get_info().name.to_lowercase().contains(&which))
            }
        };
        let adapter = match which {
            None => adapters.first(),
            Some(which) => named(which),
        };
        let adapter = adapter.ok_or_else(|| {
            let found: Vec<String> = adapters.iter().map(|one| one.get_info().name).collect();
            match (which, found.as_slice()) {
                (_, []) => Error::new(ErrorKind::Unsupported, "no GPU was found").advise(
                    "install a driver for Vulkan; Mesa's (mesa-vulkan-drivers) also runs on the CPU",
                ),
                (which, found) => {
                    let which = which.unwrap_or_default();
                    let fault = format!("no GPU \"{which}\"; there are: {}", found.join(", "));
                    Error::new(ErrorKind::Unsupported, fault).advise("list them with `weighbridge list devices`")
                }
            }
        })?;
        let info = info(adapter);
        let description = wgpu::DeviceDescriptor {
            label: Some("weighbridge"),
            required_features: wgpu::Features::IMMEDIATES,
            required_limits: adapter.limits(),
            memory_hints: wgpu::MemoryHints::MemoryUsage,
            ..wgpu::DeviceDescriptor::default()
        };
        let (device, queue, import) = match import::open(adapter, &description) {
            Some((device, queue, alignment)) => (device, queue, Some(alignment)),
            None => {
                let opened = block_on(adapter.request_device(&description));
                let (device, queue) = opened.map_err(|error| {
                    let fault = format!("cannot open {}", info.name);
                    Error::new(ErrorKind::Device, fault).with_source(error)
                })?;
                (device, queue, None)
            }
        };
        let state = Arc::<GpuState>::default();
        let note = |state: &GpuState, fault: String| {
            let mut first = state.fault.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(fault);
        };
        // Without these, wgpu would panic.
        let shared = Arc::clone(&state);
        device.on_uncaptured_error(Arc::new(move |error| note(&shared, error.to_string())));
        let shared = Arc::clone(&state);
        device.set_device_lost_callback(move |reason, why| {
            note(&shared, format!("the device was lost ({reason:?}): {why}"));
        });
        let mut limits = DeviceLimits::new(info.alignment);
        limits.unit = wgpu::COPY_BUFFER_ALIGNMENT;
        (limits.binding, limits.buffer) = (info.max_binding_bytes, info.max_buffer_bytes);
        // To a GPU with memory of its own, host memory is far away.
        limits.import = import.filter(|_| matches!(info.kind, "integrated" | "cpu"));
        limits.threads = match info.kind {
            "cpu" => 1,
            // More than these wait for each other in the driver.
            _ => 8,
        };
        let uploads = Uploads::new(&device, &queue, import);
        let pipelines = Pipelines::new(&device);
        Ok(Self { info, limits, device, queue, state, uploads, pipelines })
    }

    /// Lowers the limits: the bytes of the device's memory, of a buffer, and of a binding.
    #[must_use]
    pub fn limited(mut self, memory: Option<u64>, buffer: u64, binding: u64) -> Self {
        self.limits.memory = memory.or(self.limits.memory);
        self.limits.buffer = buffer.min(self.limits.buffer);
        self.limits.binding = binding.min(self.limits.binding);
        self
    }

    /// Copies all tensors, also those that could be used where they lie.
    #[must_use]
    pub fn without_import(mut self) -> Self {
        self.limits.import = None;
        self
    }

    /// Facts about the GPU, from its driver.
    pub fn info(&self) -> &GpuInfo {
        &self.info
    }

    /// wgpu's device, for the caller's own kernels.
    pub fn wgpu_device(&self) -> &wgpu::Device {
        &self.device
    }

    /// wgpu's queue.
    pub fn wgpu_queue(&self) -> &wgpu::Queue {
        &self.queue
    }

    /// The number of buffers that exist, and their bytes.
    pub fn usage(&self) -> (usize, u64) {
        let GpuState { buffers, used, .. } = &*self.state;
        (buffers.load(Ordering::Relaxed), used.load(Ordering::Relaxed))
    }

    /// The error that the driver reported, if it did.
    ///
    /// # Errors
    ///
    /// `Device`.
    pub fn check(&self) -> Result<()> {
        let fault = self.state.fault.lock().unwrap_or_else(PoisonError::into_inner);
        match &*fault {
            Some(fault) => Err(self.fault(fault.clone())),
            None => Ok(()),
        }
    }

    fn fault(&self, fault: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::new(ErrorKind::Device, format!("{} failed", self.info.name)).with_source(fault)
    }

    /// Waits for one submission, or for all.
    fn wait(&self, submission: Option<wgpu::SubmissionIndex>) -> Result<()> {
        let wait = wgpu::PollType::Wait { submission_index: submission, timeout: None };
        let waited = self.device.poll(wait).map_err(|error| self.fault(error));
        self.check()?;
        waited.map(drop)
    }

    /// Allocates one buffer of the driver.
    fn chunk(&self, range: Range<u64>) -> Result<GpuChunk> {
        let bytes = range.end - range.start;
        let memory = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let validation = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: bytes.next_multiple_of(WIDTH),
            usage: wgpu::BufferUsages::STORAGE
                | wgpu::BufferUsages::COPY_DST
                | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: false,
        });
        let invalid = block_on(validation.pop());
        if let Some(error) = block_on(memory.pop()) {
            let error = Error::out_of_memory(&self.info.name, bytes, None).with_source(error);
            return Err(error);
        }
        match invalid {
            Some(error) => Err(self.fault(error)),
            None => Ok(GpuChunk { range, buffer }),
        }
    }

    /// Copies bytes of one chunk to host memory, at most [`STAGE`] of them.
    fn read_chunk(&self, chunk: &GpuChunk, from: u64, out: &mut [u8]) -> Result<()> {
        let unit = self.limits.unit;
        let start = from / unit * unit;
        let size = (from + out.len() as u64).next_multiple_of(unit) - start;
        let staging = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size,
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let mut commands =
            self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        commands.copy_buffer_to_buffer(&chunk.buffer, start, &staging, 0, size);
        self.queue.submit([commands.finish()]);
        let (send, mapped) = std::sync::mpsc::channel();
        staging.slice(..).map_async(wgpu::MapMode::Read, move |result| {
            // The receiver is dropped only after an error.
            let _ = send.send(result);
        });
        self.wait(None)?;
        match mapped.try_recv() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(self.fault(error)),
            Err(error) => return Err(self.fault(error)),
        }
        let view = staging.slice(..).get_mapped_range().map_err(|error| self.fault(error))?;
        let skip = usize::try_from(from - start).unwrap_or(usize::MAX);
        let bytes = view.get(skip..).and_then(|bytes| bytes.get(..out.len()));
        out.copy_from_slice(bytes.ok_or_else(|| self.fault("a mapped range is too short"))?);
        Ok(())
    }
}

impl Device for Gpu {
    type Buffer = GpuBuffer;
    type Region<'b> = (&'b GpuBuffer, Range<u64>);

    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.info.name)
    }

    fn limits(&self) -> DeviceLimits {
        self.limits
    }

    fn supports(&self, dtype: DType) -> bool {
        kernel::supports(dtype)
    }

    fn computes(&self, tensor: &TensorLayout<'_>) -> bool {
        kernel::computes(tensor, self.limits)
    }

    fn instead(&self, dtype: DType) -> Option<DType> {
        Some(kernel::instead(dtype))
    }

    fn import(&self, memory: HostMemory) -> Option<GpuBuffer> {
        let bytes = memory.bytes().len() as u64;
        if bytes == 0 || bytes > self.limits.buffer {
            return None;
        }
        let buffer = import::buffer(&self.device, memory)?;
        self.state.buffers.fetch_add(1, Ordering::Relaxed);
        let chunks = vec![GpuChunk { range: 0..bytes, buffer }];
        Some(GpuBuffer { chunks, bytes, owned: 0, state: Arc::clone(&self.state) })
    }

    fn allocate(&self, layout: &BufferLayout) -> Result<GpuBuffer> {
        self.check()?;
        let used = self.state.used.fetch_add(layout.bytes, Ordering::Relaxed);
        self.state.buffers.fetch_add(1, Ordering::Relaxed);
        let state = Arc::clone(&self.state);
        // Dropping it takes the numbers back.
        let (bytes, owned) = (layout.bytes, layout.bytes);
        let mut buffer = GpuBuffer { chunks: Vec::new(), bytes, owned, state };
        let free = self.limits.memory.map_or(u64::MAX, |memory| memory.saturating_sub(used));
        if layout.bytes > free {
            return Err(Error::out_of_memory(&self.info.name, layout.bytes, Some(free)));
        }
        for range in layout.cuts(self.limits) {
            buffer.chunks.push(self.chunk(range)?);
        }
        Ok(buffer)
    }

    fn regions<'b>(
        &self,
        buffer: &'b mut GpuBuffer,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Self::Region<'b>>> {
        let buffer = &*buffer;
        let outside = |range: &&Range<u64>| range.end > buffer.bytes || range.start > range.end;
        if let Some(range) = ranges.iter().find(outside) {
            return Err(Error::outside_buffer(range, buffer.bytes));
        }
        Ok(ranges.iter().map(|range| (buffer, range.clone())).collect())
    }

    fn fill(
        &self,
        (buffer, range): Self::Region<'_>,
        write: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        self.check()?;
        let wait = |submission| self.wait(Some(submission));
        self.uploads.fill(&range, buffer.places(&range), write, &wait)
    }

    fn finish(&self) -> Result<()> {
        let waited = self.wait(None);
        self.uploads.clear();
        waited
    }

    fn read(&self, buffer: &GpuBuffer, offset: u64, out: &mut [u8]) -> Result<()> {
        let end = offset.saturating_add(out.len() as u64);
        if end > buffer.bytes {
            return Err(Error::outside_buffer(&(offset..end), buffer.bytes));
        }
        let (mut rest, mut at) = (out, offset);
        while !rest.is_empty() {
            let chunk = buffer.chunks.iter().find(|chunk| chunk.range.contains(&at));
            let chunk = chunk.ok_or_else(|| Error::outside_buffer(&(offset..end), buffer.bytes))?;
            let len = (chunk.range.end - at).min(rest.len() as u64).min(STAGE);
            let (now, later) = std::mem::take(&mut rest)
                .split_at_mut_checked(usize::try_from(len).unwrap_or(usize::MAX))
                .ok_or_else(|| Error::outside_buffer(&(offset..end), buffer.bytes))?;
            self.read_chunk(chunk, at - chunk.range.start, now)?;
            (rest, at) = (later, at + len);
        }
        Ok(())
    }
}

/// The GPUs of this machine, the most suitable first.
fn adapters() -> Vec<wgpu::Adapter> {
    let backends = wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12;
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
        backends,
        flags: wgpu::InstanceFlags::empty(),
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    });
    let mut adapters = block_on(instance.enumerate_adapters(backends));
    adapters.sort_by_key(|adapter| match adapter.get_info().device_type {
        wgpu::DeviceType::DiscreteGpu => 0,
        wgpu::DeviceType::IntegratedGpu => 1,
        wgpu::DeviceType::VirtualGpu => 2,
        wgpu::DeviceType::Other => 3,
        wgpu::DeviceType::Cpu => 4,
    });
    adapters
}

fn info(adapter: &wgpu::Adapter) -> GpuInfo {
    let (info, limits) = (adapter.get_info(), adapter.limits());
    GpuInfo {
        kind: match info.device_type {
            wgpu::DeviceType::DiscreteGpu => "discrete",
            wgpu::DeviceType::IntegratedGpu => "integrated",
            wgpu::DeviceType::VirtualGpu => "virtual",
            wgpu::DeviceType::Cpu => "cpu",
            wgpu::DeviceType::Other => "other",
        },
        backend: info.backend.to_str(),
        driver: format!("{} {}", info.driver, info.driver_info).trim().to_owned(),
        name: info.name,
        alignment: u64::from(limits.min_storage_buffer_offset_alignment).max(WIDTH),
        max_binding_bytes: limits.max_storage_buffer_binding_size,
        max_buffer_bytes: limits.max_buffer_size,
    }
}

/// Waits for a future. Those of wgpu are ready at once, except in a browser.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park();
    }
}
