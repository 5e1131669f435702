//! Products and decoding beside a kernel that copies. Matrices take turns, so that none is in a cache, and the
//! GPU is kept busy before each measurement: idle ones run at a fraction of their clock.

use std::sync::Arc;
use std::time::Instant;

use weighbridge::device::Device as _;
use weighbridge::device::kernel::Operation;
use weighbridge::{Model, OpenOptions, WeightProvider};
use weighbridge_gpu::{Gpu, KernelCall, wgpu};

use crate::files::{DTYPES, Gguf, Stored};

const SHAPES: [(u64, u64); 2] = [(4096, 4096), (14_336, 4096)];

pub(crate) fn run(mib: usize) {
    let gpu = Arc::new(Gpu::open(None).expect("a GPU"));
    println!("{}, {} ({})", gpu.info().name, gpu.info().driver, gpu.info().backend);
    let total = (mib as u64) << 20;
    let copying = Copying::new(&gpu);
    // The size of a matrix, and a large one.
    let rate = |bytes: u64| copying.rate(bytes, total).max(copying.rate(bytes, total)) / 1e9;
    let (small, large) = (rate(9 << 20), rate(64 << 20));
    println!(
        "copy kernel, bytes read and written: {small:.0} GB/s for 9 MiB, {large:.0} for 64 MiB"
    );
    println!(
        "{:8} {:14} {:>10} {:>8} {:>13} {:>15}",
        "dtype", "shape", "vector", "of copy", "8 vectors", "to f32"
    );
    for (rows, columns) in SHAPES {
        for dtype in DTYPES {
            let count = (total / dtype.size(rows * columns)).clamp(1, 64);
            let provider = matrices(&gpu, dtype, rows, columns, count);
            measure(&gpu, &provider, dtype.name, large, [rows, columns, count]);
        }
        let count = (total / (rows * columns / 2)).clamp(1, 64);
        let folder = tempfile::tempdir().expect("a folder");
        let provider = affine(&gpu, folder.path(), rows, columns, count);
        measure(&gpu, &provider, "affine4", large, [rows, columns, count]);
    }
}

type Provider = WeightProvider<Arc<Gpu>>;

fn matrices(gpu: &Arc<Gpu>, dtype: &Stored, rows: u64, columns: u64, count: u64) -> Provider {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.gguf");
    let mut file = Gguf::new();
    file.tensors =
        (0..count).map(|number| (format!("t{number}"), vec![rows, columns], *dtype)).collect();
    let numbers = dtype.numbers(rows * columns, 7);
    file.write(&path, |_, _, _| numbers.clone());
    let model = OpenOptions::new().open(&path).expect("a file");
    WeightProvider::new(model, Arc::clone(gpu)).expect("a provider")
}

/// Matrices as MLX packs them: 4 bits, and a scale and a bias in F16 for 64 elements.
fn affine(
    gpu: &Arc<Gpu>,
    folder: &std::path::Path,
    rows: u64,
    columns: u64,
    count: u64,
) -> Provider {
    let config = r#"{"model_type": "made", "quantization": {"group_size": 64, "bits": 4}}"#;
    std::fs::write(folder.join("config.json"), config).expect("it is written");
    let (mut header, mut at) = (String::from("{"), 0);
    let parts = [
        ("weight", "U32", columns / 8, 4),
        ("scales", "F16", columns / 64, 2),
        ("biases", "F16", columns / 64, 2),
    ];
    for number in 0..count {
        for (part, dtype, width, bytes) in parts {
            let end = at + rows * width * bytes;
            let comma = if at == 0 { "" } else { "," };
            header += &format!(
                r#"{comma}"t{number}.{part}":{{"dtype":"{dtype}","shape":[{rows},{width}],"data_offsets":[{at},{end}]}}"#
            );
            at = end;
        }
    }
    header.push('}');
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    let codes = crate::files::Q4_0.numbers(rows * columns, 7);
    let halves = crate::files::F16.numbers(rows * columns / 64, 9);
    for _ in 0..count {
        bytes.extend(&codes[..usize::try_from(rows * columns / 2).expect("a size")]);
        bytes.extend(&halves);
        bytes.extend(&halves);
    }
    std::fs::write(folder.join("model.safetensors"), bytes).expect("it is written");
    let model = Model::open(folder).expect("a folder");
    WeightProvider::new(model, Arc::clone(gpu)).expect("a provider")
}

fn buffer(gpu: &Gpu, bytes: u64) -> wgpu::Buffer {
    gpu.wgpu_device().create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: bytes,
        usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    })
}

/// Seconds of the computations of a pass, the best of three or more. `record` is called for each.
fn timed(gpu: &Gpu, mut record: impl FnMut(&mut wgpu::ComputePass<'_>)) -> f64 {
    let mut best = f64::INFINITY;
    let warm = Instant::now();
    let mut rounds = 0;
    while rounds < 3 || (warm.elapsed().as_millis() < 400 && best < 0.1) {
        let mut commands = gpu.wgpu_device().create_command_encoder(&Default::default());
        record(&mut commands.begin_compute_pass(&Default::default()));
        let commands = commands.finish();
        let start = Instant::now();
        gpu.wgpu_queue().submit([commands]);
        gpu.finish().expect("it is done");
        best = best.min(start.elapsed().as_secs_f64());
        rounds += 1;
    }
    best
}

fn measure(
    gpu: &Arc<Gpu>,
    provider: &Provider,
    name: &str,
    copy: f64,
    [rows, columns, count]: [u64; 3],
) {
    let names: Vec<String> = (0..count)
        .map(|number| {
            let plain = format!("t{number}");
            if provider.model().tensor(&plain).is_ok() { plain } else { format!("{plain}.weight") }
        })
        .collect();
    let loaded: Vec<_> = names.iter().map(|name| provider.load(name).expect("it loads")).collect();
    let tensors: Vec<_> = loaded
        .iter()
        .map(|loaded| loaded.kernel_tensor(provider.device()).expect("a kernel"))
        .collect();
    let vectors = 8u32;
    let input = buffer(gpu, 4 * columns * u64::from(vectors));
    let values: Vec<u8> = (0..columns * u64::from(vectors))
        .flat_map(|at| ((at * 7919 % 1009) as f32 / 504.0 - 1.0).to_le_bytes())
        .collect();
    gpu.wgpu_queue().write_buffer(&input, 0, &values);
    let outputs: Vec<_> =
        tensors.iter().map(|_| buffer(gpu, 4 * rows * u64::from(vectors))).collect();
    let run = |operation: Operation, count: u32, outputs: &[wgpu::Buffer], rounds: usize| {
        let seconds = timed(gpu, |pass| {
            for _ in 0..rounds {
                for (number, tensor) in tensors.iter().enumerate() {
                    let output = &outputs[number % outputs.len()];
                    let input = Some(&input).filter(|_| operation != Operation::DequantizeF32);
                    let call = KernelCall { operation, count, input, output, experts: None };
                    let buffer = &loaded[number].buffer;
                    gpu.record(pass, tensor, buffer, 0..rows, call).expect("it is recorded");
                }
            }
        });
        seconds / (rounds * tensors.len()) as f64
    };
    let vector = run(Operation::MatrixVector, 1, &outputs, 4);
    let matrix = run(Operation::MatrixMatrix, vectors, &outputs, 1);
    let values = [buffer(gpu, 4 * rows * columns), buffer(gpu, 4 * rows * columns)];
    let decode = run(Operation::DequantizeF32, 1, &values, 1);
    let rate = tensors[0].bytes(rows) as f64 / vector / 1e9;
    let flops = (2 * rows * columns * u64::from(vectors)) as f64 / matrix / 1e9;
    let shape = format!("{rows} x {columns}");
    println!(
        "{name:8} {shape:14} {rate:5.0} GB/s {:8.2} {flops:6.0} GFLOP/s {:10.0} GB/s",
        rate / copy,
        (4 * rows * columns) as f64 / decode / 1e9,
    );
}

/// A kernel that copies.
struct Copying {
    gpu: Arc<Gpu>,
    pipeline: wgpu::ComputePipeline,
}

impl Copying {
    fn new(gpu: &Arc<Gpu>) -> Self {
        let source = wgpu::ShaderSource::Wgsl(include_str!("copy.wgsl").into());
        let device = gpu.wgpu_device();
        let module =
            device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: Some("copy"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        Self { gpu: Arc::clone(gpu), pipeline }
    }

    /// Bytes read and written in a second, by copies that move so many bytes each.
    fn rate(&self, bytes: u64, total: u64) -> f64 {
        let (gpu, half) = (&self.gpu, bytes / 2);
        let count = (total / bytes).clamp(1, 64);
        let pairs: Vec<_> = (0..count).map(|_| [buffer(gpu, half), buffer(gpu, half)]).collect();
        let groups: Vec<_> = pairs
            .iter()
            .map(|[from, to]| {
                gpu.wgpu_device().create_bind_group(&wgpu::BindGroupDescriptor {
                    label: None,
                    layout: &self.pipeline.get_bind_group_layout(0),
                    entries: &[
                        wgpu::BindGroupEntry { binding: 0, resource: from.as_entire_binding() },
                        wgpu::BindGroupEntry { binding: 1, resource: to.as_entire_binding() },
                    ],
                })
            })
            .collect();
        let workgroups = u32::try_from(half / 16 / 256).expect("few workgroups");
        let across = workgroups.min(65_535);
        let rounds = 4;
        let seconds = timed(gpu, |pass| {
            pass.set_pipeline(&self.pipeline);
            for _ in 0..rounds {
                for group in &groups {
                    pass.set_bind_group(0, group, &[]);
                    pass.dispatch_workgroups(across, workgroups.div_ceil(across), 1);
                }
            }
        });
        (bytes * count * rounds) as f64 / seconds
    }
}
