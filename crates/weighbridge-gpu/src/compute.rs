//! Runs kernels: dispatches and bindings.

use std::ops::Range;
use std::sync::{Arc, PoisonError};

use crate::{Gpu, GpuBuffer, block_on, pipelines};
use weighbridge::device::kernel::{Binding, KernelTensor, Operation, Subnormals, WIDTH, Window};
use weighbridge::{Error, ErrorKind, Result};

/// A call of a kernel: what it computes, and the buffers of its input and output.
#[derive(Clone, Copy, Debug)]
pub struct KernelCall<'a> {
    /// The operation.
    pub operation: Operation,
    /// The number of indices, of vectors or of chosen experts; 1 for other operations.
    pub count: u32,
    /// `u32` row numbers of `get_rows`, or `f32` vectors one after another; `None` for other
    /// operations. Its size is a multiple of 16 bytes ([`WIDTH`]); what is behind is not used.
    pub input: Option<&'a wgpu::Buffer>,
    /// The output, with usage `STORAGE`.
    pub output: &'a wgpu::Buffer,
    /// The matrices that are multiplied; only for `expert_vectors`.
    pub experts: Option<ChosenExperts<'a>>,
}

/// The experts of some vectors. A tensor's rows are those of all experts' matrices.
#[derive(Clone, Copy, Debug)]
pub struct ChosenExperts<'a> {
    /// Their numbers, `u32`. All must exist.
    pub chosen: &'a wgpu::Buffer,
    /// The rows of one expert's matrix.
    pub rows: u32,
    /// The number of chosen experts that have one vector: those of one token, or 1 if each has its
    /// own.
    pub per_vector: u32,
}

impl Gpu {
    /// Computes with all rows of a tensor: one dispatch for each window. The caller waits, if it
    /// wants to, with [`Device::finish`](weighbridge::device::Device::finish).
    ///
    /// # Errors
    ///
    /// Same as [`KernelTensor::windows`]; `Device` if the driver fails.
    pub fn compute(
        &self,
        tensor: &KernelTensor,
        buffer: &GpuBuffer,
        call: KernelCall<'_>,
    ) -> Result<()> {
        self.compute_rows(tensor, buffer, 0..tensor.rows, call)
    }

    /// Computes with some rows of a tensor, such as those of one expert.
    ///
    /// # Errors
    ///
    /// Same as [`compute`](Self::compute).
    pub fn compute_rows(
        &self,
        tensor: &KernelTensor,
        buffer: &GpuBuffer,
        rows: Range<u64>,
        call: KernelCall<'_>,
    ) -> Result<()> {
        let mut commands =
            self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut pass = commands.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        self.record(&mut pass, tensor, buffer, rows, call)?;
        drop(pass);
        self.queue.submit([commands.finish()]);
        self.check()
    }

    /// Adds a computation to a pass that the caller submits: for engines with steps of their own
    /// between those of this library. A pass for many computations costs less than many passes.
    ///
    /// # Errors
    ///
    /// Same as [`KernelTensor::windows`]; `Mismatch` if experts are given to another operation than
    /// `expert_vectors`, or not to that, or if the input has another size than documented.
    pub fn record(
        &self,
        pass: &mut wgpu::ComputePass<'_>,
        tensor: &KernelTensor,
        buffer: &GpuBuffer,
        rows: Range<u64>,
        call: KernelCall<'_>,
    ) -> Result<()> {
        if call.experts.is_some() != (call.operation == Operation::ExpertVectors) {
            let fault = format!("{} with or without experts", call.operation.name());
            return Err(Error::new(ErrorKind::Mismatch, fault));
        }
        if let Some(input) = call.input.filter(|input| !input.size().is_multiple_of(WIDTH)) {
            let fault = format!("the input has {} bytes, not a multiple of {WIDTH}", input.size());
            return Err(Error::new(ErrorKind::Mismatch, fault));
        }
        let windows = tensor.windows(call.operation, rows)?;
        let pipeline = self.pipeline(tensor, call.operation)?;
        pass.set_pipeline(&pipeline);
        for window in windows {
            let group = self.bind(tensor, buffer, &window, call)?;
            let mut parameters = window.parameters;
            let rows = call.experts.map_or(parameters.rows, |experts| experts.rows);
            parameters.count = call.count;
            if let Some(ChosenExperts { rows, per_vector, .. }) = call.experts {
                (parameters.all_rows, parameters.per_vector) = (rows, per_vector.max(1));
            }
            let [x, y, z] = call.operation.workgroups(rows, parameters.columns, call.count);
            pass.set_immediates(0, &parameters.bytes());
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups(x, y, z);
        }
        Ok(())
    }

    /// The pipeline of a kernel, made on first use.
    fn pipeline(
        &self,
        tensor: &KernelTensor,
        operation: Operation,
    ) -> Result<Arc<wgpu::ComputePipeline>> {
        let (scale, bias) = tensor.formats;
        let text = (tensor.kernel.dtype, scale, bias);
        let held = &self.pipelines;
        let mut pipelines = held.pipelines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = pipelines.get(&(text, operation)) {
            return Ok(Arc::clone(found));
        }
        let subnormals = match self.has_exact_halves() {
            true => Subnormals::Kept,
            false => Subnormals::Flushed,
        };
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let mut modules = held.modules.lock().unwrap_or_else(PoisonError::into_inner);
        let module = modules.entry(text).or_insert_with(|| {
            let source = tensor.kernel.source(scale, bias, subnormals);
            pipelines::finite_module(&self.device, tensor.kernel.dtype.name(), source)
        });
        let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(operation.name()),
            layout: Some(&held.layout.pipeline),
            module,
            entry_point: Some(operation.name()),
            compilation_options: wgpu::PipelineCompilationOptions {
                zero_initialize_workgroup_memory: false,
                ..wgpu::PipelineCompilationOptions::default()
            },
            cache: None,
        });
        if let Some(error) = block_on(scope.pop()) {
            return Err(self.fault(error));
        }
        let pipeline = Arc::new(pipeline);
        pipelines.insert((text, operation), Arc::clone(&pipeline));
        Ok(pipeline)
    }

    /// A buffer with these bytes.
    pub(super) fn constant(&self, bytes: &[u8], usage: wgpu::BufferUsages) -> Result<wgpu::Buffer> {
        // Written to before the GPU has it, so that no transfer is between two computations.
        let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: (bytes.len() as u64).next_multiple_of(WIDTH),
            usage,
            mapped_at_creation: true,
        });
        let view = buffer.slice(..bytes.len() as u64).get_mapped_range_mut();
        view.map_err(|error| self.fault(error))?.copy_from_slice(bytes);
        buffer.unmap();
        Ok(buffer)
    }

    /// The codebook of a tensor's dtype, made on first use; nothing for most dtypes.
    fn table(&self, tensor: &KernelTensor) -> Result<wgpu::Buffer> {
        let mut tables = self.pipelines.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = tables.get(&tensor.kernel.dtype) {
            return Ok(found.clone());
        }
        let words = tensor.kernel.table();
        if words.is_empty() {
            return Ok(self.pipelines.nothing.clone());
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let buffer = self.constant(&bytes, wgpu::BufferUsages::STORAGE)?;
        tables.insert(tensor.kernel.dtype, buffer.clone());
        Ok(buffer)
    }

    fn bind(
        &self,
        tensor: &KernelTensor,
        buffer: &GpuBuffer,
        window: &Window,
        call: KernelCall<'_>,
    ) -> Result<wgpu::BindGroup> {
        let held = &self.pipelines;
        let table = self.table(tensor)?;
        let whole = |buffer| wgpu::BufferBinding { buffer, offset: 0, size: None };
        let part = |binding: &'_ Option<Binding>| -> Result<wgpu::BufferBinding<'_>> {
            let Some(Binding { buffer: number, offset, bytes, .. }) = binding else {
                return Ok(whole(&held.nothing));
            };
            let chunk = buffer.chunks().get(*number);
            let chunk = chunk.ok_or_else(|| {
                Error::new(ErrorKind::Mismatch, "the tensor is in another buffer")
            })?;
            let size = std::num::NonZeroU64::new(*bytes);
            Ok(wgpu::BufferBinding { buffer: &chunk.buffer, offset: *offset, size })
        };
        let mut output = whole(call.output);
        if matches!(call.operation, Operation::DequantizeF32 | Operation::DequantizeF16) {
            let rows = window.rows.end.saturating_sub(window.rows.start);
            let elements = (rows + u64::from(window.parameters.first_row)) * tensor.columns;
            let bytes = (elements * call.operation.output_bytes()).next_multiple_of(4);
            output.offset = window.output_offset;
            output.size = std::num::NonZeroU64::new(bytes);
        }
        let [weight, scale, bias] = &window.bindings;
        let arrays = [
            part(weight)?,
            part(scale)?,
            part(bias)?,
            whole(&table),
            whole(call.input.unwrap_or(&held.nothing)),
            output,
            whole(call.experts.map_or(&held.nothing, |experts| experts.chosen)),
        ];
        let entries: Vec<_> = (0..)
            .zip(arrays)
            .map(|(binding, array)| wgpu::BindGroupEntry {
                binding,
                resource: wgpu::BindingResource::Buffer(array),
            })
            .collect();
        Ok(self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &held.layout.bindings,
            entries: &entries,
        }))
    }
}
