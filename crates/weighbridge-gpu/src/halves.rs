//! Whether the driver's conversion of `f16` is exact: WGSL lets it flush subnormal numbers, as which the scales
//! of many blocks are stored. Where it does, kernels convert by integer operations.

use crate::Gpu;
use weighbridge::Result;

/// Subnormal numbers, the largest ones, infinities, and an ordinary one.
const PAIRS: [u32; 6] =
    [0x0001_03ff, 0x8001_83ff, 0x0200_3c00, 0x7bff_fbff, 0x7c00_fc00, 0x0400_8400];

impl Gpu {
    /// Whether the driver converts `f16` exactly; tried once. `false` if it fails.
    pub(super) fn has_exact_halves(&self) -> bool {
        *self.pipelines.halves.get_or_init(|| self.try_halves().unwrap_or(false))
    }

    fn try_halves(&self) -> Result<bool> {
        let source = wgpu::ShaderSource::Wgsl(include_str!("halves.wgsl").into());
        let module = self
            .device
            .create_shader_module(wgpu::ShaderModuleDescriptor { label: Some("halves"), source });
        let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some("halves"),
            layout: None,
            module: &module,
            entry_point: Some("convert"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        let input: Vec<u8> = PAIRS.iter().flat_map(|pair| pair.to_le_bytes()).collect();
        let input = self.constant(&input, wgpu::BufferUsages::STORAGE)?;
        let output = self.chunk(0..8 * PAIRS.len() as u64)?;
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &[
                wgpu::BindGroupEntry { binding: 0, resource: input.as_entire_binding() },
                wgpu::BindGroupEntry { binding: 1, resource: output.buffer.as_entire_binding() },
            ],
        });
        let mut commands =
            self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut pass = commands.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(u32::try_from(PAIRS.len()).unwrap_or(0), 1, 1);
        drop(pass);
        self.queue.submit([commands.finish()]);
        let mut found = [0; 8 * PAIRS.len()];
        self.read_chunk(&output, 0, &mut found)?;
        let halves = PAIRS.iter().flat_map(|pair| [*pair & 0xffff, pair >> 16]);
        let expected = halves.map(|bits| {
            let bits = u16::try_from(bits).unwrap_or_default();
            half::f16::from_bits(bits).to_f32().to_bits().to_le_bytes()
        });
        Ok(found.as_chunks().0.iter().copied().eq(expected))
    }
}
