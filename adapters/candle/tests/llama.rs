//! A Llama of candle gives the same logits from every container.

use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::llama::{Cache, Config, Llama, LlamaConfig};
use weighbridge::container::{Container, GGUF, MLX, SAFETENSORS};
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::{DType as Stored, Model, WriteOptions};
use weighbridge_candle::Weights;

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/sample").join(name)
}

fn config(model: &Model) -> Config {
    let keys = weighbridge::translate::hf_documents(model).expect("a config").config;
    let config: LlamaConfig = serde_json::from_slice(&keys.into_bytes()).expect("candle's config");
    config.into_config(false)
}

/// The logits after some tokens.
fn logits(weights: VarBuilder<'_>, config: &Config) -> Vec<f32> {
    let (dtype, device) = (weights.dtype(), Device::Cpu);
    let llama = Llama::load(weights, config).expect("a Llama");
    let mut cache = Cache::new(false, dtype, config, &device).expect("a cache");
    let ids = Tensor::new(&[[1u32, 5, 9, 200, 17]], &device).expect("ids");
    let logits = llama.forward(&ids, 0, &mut cache).expect("logits");
    let logits = logits.to_dtype(DType::F32).and_then(|logits| logits.flatten_all());
    logits.and_then(|logits| logits.to_vec1()).expect("numbers")
}

fn ours(path: &Path, dtype: DType) -> Vec<f32> {
    let model = Model::open(path).expect("a model");
    let weights = Weights::new(&model).expect("tensors");
    logits(weights.var_builder(dtype, Device::Cpu), &config(&model))
}

/// Candle's own loader of safetensors files.
fn theirs(path: &Path, dtype: DType, config: &Config) -> Vec<f32> {
    // SAFETY: nobody changes the file during the test.
    let weights = unsafe { VarBuilder::from_mmaped_safetensors(&[path], dtype, &Device::Cpu) };
    logits(weights.expect("a file"), config)
}

fn converted(source: &Path, to: &'static Container, dtype: Option<Stored>, path: &Path) {
    let model = Model::open(source).expect("a model");
    let mut options = ConvertOptions::new(to).one_file(*to == SAFETENSORS);
    if let Some(dtype) = dtype {
        options = options.dtype(dtype);
    }
    let plan = ops::convert(&model, &options).expect("a plan");
    plan.run(path, &WriteOptions::new()).expect("a model");
}

#[test]
fn a_checkpoint_has_the_logits_of_candles_own_loader() {
    let model = Model::open(sample("hf")).expect("a model");
    for dtype in [DType::F32, DType::BF16] {
        let expected = theirs(&sample("hf/model.safetensors"), dtype, &config(&model));
        assert_eq!(expected.len(), 512);
        assert_eq!(ours(&sample("hf"), dtype), expected, "{dtype:?}");
    }
}

#[test]
fn the_same_values_in_other_containers_have_the_same_logits() {
    let folder = tempfile::tempdir().expect("a folder");
    let expected = ours(&sample("hf"), DType::F32);
    for (to, name) in [(&GGUF, "model.gguf"), (&MLX, "mlx"), (&SAFETENSORS, "one.safetensors")] {
        let path = folder.path().join(name);
        converted(&sample("hf"), to, None, &path);
        if *to == SAFETENSORS {
            // One file has no config beside it.
            let model = Model::open(sample("hf")).expect("a model");
            assert_eq!(theirs(&path, DType::F32, &config(&model)), expected, "{name}");
        } else {
            assert_eq!(ours(&path, DType::F32), expected, "{name}");
        }
    }
}

#[test]
fn quantized_models_have_the_logits_of_their_values() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["sample-Q8_0.gguf", "mlx-4bit"] {
        let path = folder.path().join(format!("{name}.safetensors"));
        converted(&sample(name), &SAFETENSORS, Some(Stored::F32), &path);
        let model = Model::open(sample(name)).expect("a model");
        let expected = theirs(&path, DType::F32, &config(&model));
        assert_eq!(ours(&sample(name), DType::F32), expected, "{name}");
    }
}

#[test]
fn what_a_model_lacks_is_an_error() {
    let model = Model::open(sample("hf")).expect("a model");
    let weights = Weights::new(&model).expect("tensors").var_builder(DType::F32, Device::Cpu);
    assert!(weights.contains_tensor("model.norm.weight"));
    let absent = weights.get(4, "absent").expect_err("no such tensor").to_string();
    assert!(absent.contains("absent"), "{absent}");
    let other = weights.get(4, "model.norm.weight").expect_err("another shape").to_string();
    assert!(other.contains("model.norm.weight") && other.contains("256"), "{other}");
}
