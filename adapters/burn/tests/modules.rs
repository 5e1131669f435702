//! Modules of burn get the same weights from every container.

use std::path::{Path, PathBuf};

use burn_core as burn;
use burn_core::module::Module;
use burn_ndarray::NdArray;
use burn_nn::{Linear, LinearConfig, RmsNorm, RmsNormConfig};
use burn_store::{ApplyResult, ModuleSnapshot, PyTorchToBurnAdapter, SafetensorsStore};
use burn_tensor::activation::silu;
use burn_tensor::backend::Backend;
use burn_tensor::{Tensor, TensorData};
use weighbridge::arch::Dialect;
use weighbridge::container::SAFETENSORS;
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::{DType, Model, WriteOptions};
use weighbridge_burn::load;

type Cpu = NdArray<f32>;

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/sample").join(name)
}

/// A feed-forward network of Llama, with the names of canonical tensors.
#[derive(Debug, Module)]
struct FeedForward<B: Backend> {
    gate: Linear<B>,
    up: Linear<B>,
    down: Linear<B>,
}

impl<B: Backend> FeedForward<B> {
    fn new(device: &B::Device) -> Self {
        let linear = |from, to| LinearConfig::new(from, to).with_bias(false).init(device);
        Self { gate: linear(256, 512), up: linear(256, 512), down: linear(512, 256) }
    }

    fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        self.down.forward(silu(self.gate.forward(x.clone())) * self.up.forward(x))
    }
}

fn input() -> Tensor<Cpu, 2> {
    let values: Vec<f32> = (0u8..=255).map(|number| (f32::from(number) - 100.0) / 64.0).collect();
    Tensor::from_data(TensorData::new(values, [1, 256]), &Default::default())
}

fn output(load: impl FnOnce(&mut FeedForward<Cpu>) -> ApplyResult) -> Vec<f32> {
    let mut module = FeedForward::<Cpu>::new(&Default::default());
    let applied = load(&mut module);
    assert_eq!(applied.applied.len(), 3, "{applied}");
    assert!(applied.missing.is_empty() && applied.errors.is_empty(), "{applied}");
    module.forward(input()).into_data().to_vec().expect("numbers")
}

fn ours(model: &Model) -> Vec<f32> {
    let tensors = model.names().expect("names").map(|name| model.tensor(name));
    let tensors = tensors.collect::<Result<Vec<_>, _>>().expect("tensors");
    output(|module| load(module, tensors, "layers.1.ffn.").expect("a module"))
}

/// The same network, computed from the library's values.
fn expected(model: &Model) -> Vec<f32> {
    let values = |name: &str| {
        let tensor = model.tensor(&format!("layers.1.ffn.{name}.weight")).expect(name);
        tensor.dequantize().expect(name).to_vec()
    };
    let times = |matrix: &[f32], x: &[f32]| -> Vec<f64> {
        let rows = matrix.chunks(x.len());
        let product = |row: &[f32]| row.iter().zip(x).map(|(a, b)| f64::from(a * b)).sum();
        rows.map(product).collect()
    };
    let x: Vec<f32> = input().into_data().to_vec().expect("numbers");
    let (gate, up) = (times(&values("gate"), &x), times(&values("up"), &x));
    #[expect(clippy::cast_possible_truncation, reason = "the network computes with f32")]
    let inner = gate.iter().zip(up).map(|(gate, up)| (gate / (1.0 + (-gate).exp()) * up) as f32);
    let inner: Vec<f32> = inner.collect();
    #[expect(clippy::cast_possible_truncation, reason = "as above")]
    times(&values("down"), &inner).into_iter().map(|value| value as f32).collect()
}

#[test]
fn every_container_gives_the_same_network() {
    for name in ["hf", "sample-Q8_0.gguf", "mlx-4bit"] {
        let model = Model::open(sample(name)).expect("a model");
        let (found, expected) = (ours(&model), expected(&model));
        let largest = expected.iter().fold(0.0f32, |most, value| most.max(value.abs()));
        assert!(largest > 0.01, "{largest}");
        for (a, b) in found.iter().zip(&expected) {
            assert!((a - b).abs() < 1e-4 * largest, "{name}: {a} {b}");
        }
    }
}

#[test]
fn a_checkpoint_gives_what_burns_own_loader_gives() {
    let model = Model::open(sample("hf")).expect("a model");
    // burn-ndarray has no BF16.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("model.safetensors");
    let options = ConvertOptions::new(&SAFETENSORS).one_file(true).dtype(DType::F32);
    let plan = ops::convert(&model, &options).expect("a plan");
    plan.run(&file, &WriteOptions::new()).expect("a file");
    let mut theirs = SafetensorsStore::from_file(file)
        .with_from_adapter(PyTorchToBurnAdapter)
        .with_key_remapping(r"^model\.layers\.1\.mlp\.(\w+)_proj\.", "$1.");
    let theirs = output(|module| module.load_from(&mut theirs).expect("a module"));
    assert_eq!(ours(&model), theirs);
}

#[test]
fn norms_have_the_names_of_burn() {
    #[derive(Debug, Module)]
    struct Norms<B: Backend> {
        norm: RmsNorm<B>,
    }
    let model = Model::open(sample("sample-Q8_0.gguf")).expect("a model");
    let tensors = model.tensors_in(Dialect::HuggingFace).expect("tensors").tensors;
    let mut module = Norms::<Cpu> { norm: RmsNormConfig::new(256).init(&Default::default()) };
    let applied = load(&mut module, tensors, "model.").expect("a norm");
    assert!(applied.missing.is_empty(), "{applied}");
    let found: Vec<f32> = module.norm.gamma.val().into_data().to_vec().expect("numbers");
    let expected = model.tensor("output_norm.weight").expect("a norm").dequantize();
    assert_eq!(found, expected.expect("values").to_vec());
}
