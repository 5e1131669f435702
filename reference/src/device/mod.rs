//! Values and matrices in the memory of a GPU: commands are collected, and values are copied back only where
//! the host needs them.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weighbridge::device::Device as _;
use weighbridge::device::kernel::{KernelTensor, Operation, WIDTH};
use weighbridge::load::LoadedTensor;
use weighbridge::{DType, Error, ErrorKind, Model, WeightProvider};
use weighbridge_gpu::{ArrayLayout, ChosenExperts, Gpu, KernelCall, wgpu};

use crate::error::Result;

/// Commands that are collected before they are submitted.
const COMMANDS: usize = 256;

/// The arrays that a step reads and writes.
const ARRAYS: u32 = 4;

/// The bytes of a step's numbers.
const NUMBERS: u32 = 64;

/// A GPU on which a model runs.
pub(crate) struct Engine {
    gpu: Arc<Gpu>,
    layout: ArrayLayout,
    module: wgpu::ShaderModule,
    pipelines: Mutex<HashMap<&'static str, wgpu::ComputePipeline>>,
    /// Bound in place of arrays that a step does not have.
    nothing: wgpu::Buffer,
    pending: Mutex<Pending>,
    /// The first error. Operations on values cannot fail; the run that they are part of does.
    fault: Mutex<Option<Error>>,
    copies: AtomicUsize,
}

#[derive(Default)]
struct Pending {
    commands: Option<wgpu::CommandEncoder>,
    /// The pass of the last computations, until something is copied.
    pass: Option<wgpu::ComputePass<'static>>,
    count: usize,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Engine({:?})", self.gpu)
    }
}

/// Values in the memory of a GPU.
pub(crate) struct Array {
    engine: Arc<Engine>,
    buffer: wgpu::Buffer,
    len: usize,
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Array({})", self.len)
    }
}

/// A matrix in the memory of a GPU, or one for each expert, one after another.
#[derive(Debug)]
pub(crate) struct Matrix {
    engine: Arc<Engine>,
    tensor: KernelTensor,
    loaded: Arc<LoadedTensor<Arc<Gpu>>>,
}

/// Loads matrices to a GPU.
#[derive(Debug)]
pub(crate) struct Loading {
    engine: Arc<Engine>,
    provider: WeightProvider<Arc<Gpu>>,
}

impl Loading {
    pub(crate) fn new(model: &Model, gpu: Arc<Gpu>) -> Result<Self> {
        // What no kernel computes with is decoded, without loss.
        let provider =
            WeightProvider::new(model.clone(), Arc::clone(&gpu))?.fallback(&[DType::F32]);
        Ok(Self { engine: Engine::new(gpu), provider })
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// A tensor, or nothing if no kernel computes with it.
    pub(crate) fn matrix(&self, name: &str) -> Result<Option<Matrix>> {
        let loaded = self.provider.load(name)?;
        let tensor = loaded.kernel_tensor(self.provider.device());
        Ok(tensor.map(|tensor| Matrix { engine: Arc::clone(&self.engine), tensor, loaded }))
    }
}

fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// The bytes of so many words, as kernels read them.
fn bytes(words: usize) -> u64 {
    (words as u64).saturating_mul(4).max(1).next_multiple_of(WIDTH)
}

impl Engine {
    fn new(gpu: Arc<Gpu>) -> Arc<Self> {
        let device = gpu.wgpu_device();
        let layout = ArrayLayout::new(device, ARRAYS, 0, NUMBERS);
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some("steps"),
            source: wgpu::ShaderSource::Wgsl(include_str!("steps.wgsl").into()),
        });
        let nothing = device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: bytes(0),
            usage: wgpu::BufferUsages::STORAGE,
            mapped_at_creation: false,
        });
        let (pipelines, pending, fault) = (Mutex::default(), Mutex::default(), Mutex::default());
        let copies = AtomicUsize::new(0);
        Arc::new(Self { gpu, layout, module, pipelines, nothing, pending, fault, copies })
    }

    /// Times that values were copied back to the host.
    pub(crate) fn copies(&self) -> usize {
        self.copies.load(Ordering::Relaxed)
    }

    /// The first error since the last call.
    pub(crate) fn check(&self) -> Result<()> {
        let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(fault) = fault {
            return Err(fault.into());
        }
        Ok(self.gpu.check()?)
    }

    fn note(&self, error: Error) {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// Adds a copy.
    fn record(&self, add: impl FnOnce(&mut wgpu::CommandEncoder)) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.pass = None;
        add(pending.commands.get_or_insert_with(|| self.commands()));
        self.recorded(&mut pending);
    }

    /// Adds a computation. Those that follow each other share a pass: each pass costs the GPU microseconds.
    fn compute(&self, add: impl FnOnce(&mut wgpu::ComputePass<'_>)) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let Pending { commands, pass, .. } = &mut *pending;
        let commands = commands.get_or_insert_with(|| self.commands());
        add(pass.get_or_insert_with(|| {
            let new = wgpu::ComputePassDescriptor::default();
            commands.begin_compute_pass(&new).forget_lifetime()
        }));
        self.recorded(&mut pending);
    }

    fn commands(&self) -> wgpu::CommandEncoder {
        self.gpu.wgpu_device().create_command_encoder(&wgpu::CommandEncoderDescriptor::default())
    }

    fn recorded(&self, pending: &mut Pending) {
        pending.count += 1;
        if pending.count >= COMMANDS {
            self.submit(pending);
        }
    }

    fn submit(&self, pending: &mut Pending) {
        pending.count = 0;
        pending.pass = None;
        if let Some(commands) = pending.commands.take() {
            self.gpu.wgpu_queue().submit([commands.finish()]);
        }
    }

    fn buffer(&self, size: u64, usage: wgpu::BufferUsages, contents: &[u8]) -> wgpu::Buffer {
        let buffer = self.gpu.wgpu_device().create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size,
            usage,
            mapped_at_creation: !contents.is_empty(),
        });
        if !contents.is_empty() {
            match buffer.slice(..contents.len() as u64).get_mapped_range_mut() {
                Ok(mut view) => view.copy_from_slice(contents),
                Err(error) => {
                    let fault = "cannot write to memory of the GPU";
                    self.note(Error::new(ErrorKind::Device, fault).with_source(error));
                }
            }
            buffer.unmap();
        }
        buffer
    }

    /// An array whose values are about to be written.
    pub(crate) fn array(self: &Arc<Self>, len: usize) -> Array {
        let buffer = self.buffer(bytes(len), STORAGE, &[]);
        Array { engine: Arc::clone(self), buffer, len }
    }

    /// An array of words: the bits of floats, or numbers of tokens and experts.
    fn words(self: &Arc<Self>, words: impl ExactSizeIterator<Item = u32>) -> Array {
        let len = words.len();
        let contents: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
        let buffer = self.buffer(bytes(len), STORAGE, &contents);
        Array { engine: Arc::clone(self), buffer, len }
    }

    pub(crate) fn upload(self: &Arc<Self>, values: &[f32]) -> Array {
        self.words(values.iter().map(|value| value.to_bits()))
    }

    /// Runs a step of `steps.wgsl`, which changes or fills `out`, by so many workgroups.
    pub(crate) fn run(
        &self,
        out: &Array,
        entry: &'static str,
        groups: usize,
        inputs: &[&Array],
        numbers: &[u32],
    ) {
        let device = self.gpu.wgpu_device();
        let mut pipelines = self.pipelines.lock().unwrap_or_else(PoisonError::into_inner);
        let pipeline = pipelines.entry(entry).or_insert_with(|| {
            device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(entry),
                layout: Some(&self.layout.pipeline),
                module: &self.module,
                entry_point: Some(entry),
                compilation_options: wgpu::PipelineCompilationOptions::default(),
                cache: None,
            })
        });
        let mut parameters = [0u8; NUMBERS as usize];
        for (to, number) in parameters.as_chunks_mut().0.iter_mut().zip(numbers) {
            *to = number.to_le_bytes();
        }
        let buffers = std::iter::once(&out.buffer)
            .chain(inputs.iter().map(|input| &input.buffer))
            .chain(std::iter::repeat(&self.nothing))
            .take(ARRAYS as usize);
        let entries: Vec<_> = (0..)
            .zip(buffers)
            .map(|(binding, buffer)| wgpu::BindGroupEntry {
                binding,
                resource: buffer.as_entire_binding(),
            })
            .collect();
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &self.layout.bindings,
            entries: &entries,
        });
        // At most 65,535 in each direction.
        let side = usize::from(u16::MAX);
        let across = groups.clamp(1, side);
        self.compute(|pass| {
            pass.set_pipeline(pipeline);
            pass.set_immediates(0, &parameters);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups(number(across), number(groups.div_ceil(across)), 1);
        });
    }
}

const STORAGE: wgpu::BufferUsages = wgpu::BufferUsages::STORAGE
    .union(wgpu::BufferUsages::COPY_SRC)
    .union(wgpu::BufferUsages::COPY_DST);

impl Array {
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Some of the values, in a new array.
    pub(crate) fn part(&self, start: usize, len: usize) -> Self {
        let out = self.engine.array(len);
        out.copy(0, self, start, len);
        out
    }

    fn copy(&self, to: usize, from: &Self, start: usize, len: usize) {
        let [start, to, len] = [start, to, len].map(|words| words as u64 * 4);
        if len > 0 {
            self.engine.record(|commands| {
                commands.copy_buffer_to_buffer(&from.buffer, start, &self.buffer, to, len);
            });
        }
    }

    /// Adds values at the end. Room is made for a multiple of `step` values.
    pub(crate) fn append(&mut self, more: &Self, step: usize) {
        let len = self.len + more.len;
        if bytes(len) > self.buffer.size() {
            let grown = self.engine.array(len.next_multiple_of(step.max(1)));
            grown.copy(0, self, 0, self.len);
            self.buffer = grown.buffer;
        }
        self.copy(self.len, more, 0, more.len);
        self.len = len;
    }

    /// The values, in host memory: zeros if the GPU fails, which the run then reports.
    pub(crate) fn download(&self) -> Vec<f32> {
        let engine = &self.engine;
        engine.copies.fetch_add(1, Ordering::Relaxed);
        self.read().unwrap_or_else(|error| {
            engine.note(error);
            vec![0.0; self.len]
        })
    }

    fn read(&self) -> weighbridge::Result<Vec<f32>> {
        let engine = &self.engine;
        let size = self.len as u64 * 4;
        if size == 0 {
            return Ok(Vec::new());
        }
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let staging = engine.buffer(size, usage, &[]);
        engine.record(|commands| {
            commands.copy_buffer_to_buffer(&self.buffer, 0, &staging, 0, size);
        });
        engine.submit(&mut engine.pending.lock().unwrap_or_else(PoisonError::into_inner));
        staging.slice(..).map_async(wgpu::MapMode::Read, |_| {});
        engine.gpu.finish()?;
        let view = staging.slice(..).get_mapped_range().map_err(|error| {
            Error::new(ErrorKind::Device, "cannot read memory of the GPU").with_source(error)
        })?;
        Ok(view.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }
}

impl Clone for Array {
    fn clone(&self) -> Self {
        self.part(0, self.len)
    }
}

impl Matrix {
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    fn compute(&self, call: KernelCall<'_>) {
        let Self { engine, tensor, loaded } = self;
        engine.compute(|pass| {
            let rows = 0..tensor.rows;
            if let Err(error) = engine.gpu.record(pass, tensor, &loaded.buffer, rows, call) {
                engine.note(error);
            }
        });
    }

    /// The products of `count` vectors with all rows.
    pub(crate) fn multiply(&self, x: &Array, count: usize) -> Array {
        let rows = usize::try_from(self.tensor.rows).unwrap_or(usize::MAX);
        let out = self.engine.array(rows.saturating_mul(count));
        let operation = if count == 1 { Operation::MatrixVector } else { Operation::MatrixMatrix };
        let (input, output) = (Some(&x.buffer), &out.buffer);
        let count = number(count);
        self.compute(KernelCall { operation, count, input, output, experts: None });
        out
    }

    /// The products of vectors with the matrices of the experts in `chosen`, each of so many rows. One
    /// vector is for `per_vector` experts.
    pub(crate) fn of_experts(
        &self,
        x: &Array,
        chosen: &Array,
        rows: usize,
        per_vector: usize,
    ) -> Array {
        let out = self.engine.array(rows.saturating_mul(chosen.len));
        let [rows, per_vector, count] = [rows, per_vector, chosen.len].map(number);
        let experts = Some(ChosenExperts { chosen: &chosen.buffer, rows, per_vector });
        let (input, output) = (Some(&x.buffer), &out.buffer);
        let operation = Operation::ExpertVectors;
        self.compute(KernelCall { operation, count, input, output, experts });
        out
    }

    /// The numbers of experts, for [`of_experts`](Self::of_experts): always the same one.
    pub(crate) fn always(&self, expert: usize, count: usize) -> Array {
        self.engine.words(vec![number(expert); count].into_iter())
    }

    /// The values of some rows.
    pub(crate) fn rows(&self, numbers: &[u32]) -> Array {
        let columns = usize::try_from(self.tensor.columns).unwrap_or(usize::MAX);
        let out = self.engine.array(columns.saturating_mul(numbers.len()));
        let numbers = self.engine.words(numbers.iter().copied());
        let (count, input) = (number(numbers.len), Some(&numbers.buffer));
        let (operation, output) = (Operation::GetRows, &out.buffer);
        self.compute(KernelCall { operation, count, input, output, experts: None });
        out
    }
}
