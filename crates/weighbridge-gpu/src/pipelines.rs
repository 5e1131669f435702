//! Pipelines, made once for each text of a shader.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use weighbridge::DType;
use weighbridge::device::kernel::{Operation, Parameters};

/// The key of a shader's text: a dtype, and those of scales and biases.
type Text = (DType, Option<DType>, Option<DType>);

/// The pipelines of a GPU.
pub(super) struct Pipelines {
    pub(super) layout: ArrayLayout,
    pub(super) modules: Mutex<HashMap<Text, wgpu::ShaderModule>>,
    pub(super) pipelines: Mutex<HashMap<(Text, Operation), Arc<wgpu::ComputePipeline>>>,
    /// The codebooks of dtypes that have one.
    pub(super) tables: Mutex<HashMap<DType, wgpu::Buffer>>,
    /// Whether the driver converts `f16` exactly.
    pub(super) halves: OnceLock<bool>,
    /// Bound in place of parts that a tensor does not have.
    pub(super) nothing: wgpu::Buffer,
}

impl fmt::Debug for Pipelines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pipelines")
    }
}

/// The layout of kernels whose bindings are all arrays.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ArrayLayout {
    /// The layout of the arrays.
    pub bindings: wgpu::BindGroupLayout,
    /// The layout of the pipelines.
    pub pipeline: wgpu::PipelineLayout,
}

impl ArrayLayout {
    /// The layout of so many arrays, one of which is written to, and of so many bytes of immediates.
    #[must_use]
    pub fn new(device: &wgpu::Device, arrays: u32, output: u32, immediates: u32) -> Self {
        let entry = |binding| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: wgpu::BufferBindingType::Storage { read_only: binding != output },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        };
        let entries: Vec<_> = (0..arrays).map(entry).collect();
        let bindings = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: None,
            entries: &entries,
        });
        let pipeline = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&bindings)],
            immediate_size: immediates,
        });
        Self { bindings, pipeline }
    }
}

/// The number of bindings, all of them arrays.
const BINDINGS: u32 = 7;

/// The binding that kernels write to.
const OUTPUT: u32 = 5;

impl Pipelines {
    pub(super) fn new(device: &wgpu::Device) -> Self {
        let layout = ArrayLayout::new(device, BINDINGS, OUTPUT, Parameters::BYTES);
        let nothing = device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: 16,
            usage: wgpu::BufferUsages::STORAGE,
            mapped_at_creation: false,
        });
        let (modules, pipelines, tables) = (Mutex::default(), Mutex::default(), Mutex::default());
        let halves = OnceLock::new();
        Self { layout, modules, pipelines, tables, halves, nothing }
    }
}

/// A module whose loops end. Where wgpu cannot know that, it counts the rounds of each loop, and drivers do not
/// unroll it.
#[allow(unsafe_code, reason = "wgpu cannot know that loops end")]
pub(super) fn finite_module(
    device: &wgpu::Device,
    name: &str,
    source: String,
) -> wgpu::ShaderModule {
    let checks = wgpu::ShaderRuntimeChecks {
        force_loop_bounding: false,
        ..wgpu::ShaderRuntimeChecks::checked()
    };
    let description = wgpu::ShaderModuleDescriptor {
        label: Some(name),
        source: wgpu::ShaderSource::Wgsl(source.into()),
    };
    // SAFETY: every loop of the kernels ends: it counts up to a number, or takes the same away each time. Accesses
    // are checked.
    unsafe { device.create_shader_module_trusted(description, checks) }
}
