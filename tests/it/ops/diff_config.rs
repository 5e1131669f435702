//! Two models whose tensors are the same, and which compute differently: the values of their configs, and the divisors of
//! rotary frequencies, which are tensors in GGUF alone.

use std::path::Path;

use crate::public_reports::reconfigured;
use crate::support::{outside, sample};
use serde_json::{Value, json};
use tempfile::TempDir;
use weighbridge::container::{Container, GGUF, MLX, SAFETENSORS};
use weighbridge::ops::{self, ConvertOptions, DiffOptions, ModelDiff};
use weighbridge::{Model, Part, WriteOptions};

fn open(path: &Path) -> Model {
    Model::open(path).unwrap_or_else(|error| panic!("{error}"))
}

fn diff(a: &Model, b: &Model) -> ModelDiff {
    ops::diff(a, b, &DiffOptions::new()).unwrap_or_else(|error| panic!("{error}"))
}

/// The model as a file of another program has it: without the keys of this library.
fn plain_gguf(model: &Model, into: &TempDir, name: &str) -> Model {
    let options = ConvertOptions::new(&GGUF).extra_keys(false);
    let plan = ops::convert(model, &options).expect("a plan");
    plan.run(&into.path().join(name), &WriteOptions::new()).expect("a file");
    open(&into.path().join(name))
}

/// The same file with other divisors.
fn with_divisors(file: &Model, into: &TempDir, name: &str, change: impl Fn(f32) -> f32) -> Model {
    let tensor = file.stored_tensor("rope_freqs.weight").expect("divisors");
    let values = tensor.dequantize().expect("their values");
    let (_, range) = tensor.file(Part::Weight).expect("their place");
    let mut bytes = std::fs::read(file.path()).expect("the file");
    let changed: Vec<u8> = values.iter().flat_map(|value| change(*value).to_le_bytes()).collect();
    let start = usize::try_from(range.start).expect("a place");
    bytes[start..start + changed.len()].copy_from_slice(&changed);
    std::fs::write(into.path().join(name), bytes).expect("a copy");
    open(&into.path().join(name))
}

fn scaled(config: &mut Value) {
    let rope = json!({
        "rope_theta": 10000.0, "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
    });
    config["rope_parameters"] = rope;
}

fn config_names(diff: &ModelDiff) -> Vec<&str> {
    diff.config.iter().map(|difference| difference.name.as_str()).collect()
}

fn tensor_names(tensors: &[weighbridge::Tensor]) -> Vec<&str> {
    tensors.iter().map(weighbridge::Tensor::name).collect()
}

#[test]
fn divisors_of_rotary_frequencies_count() {
    let folder = TempDir::new().expect("a folder");
    let (plain, with) = (open(&sample("hf")), reconfigured(scaled));
    let with = open(with.path());
    let (plain_file, file) =
        (plain_gguf(&plain, &folder, "plain.gguf"), plain_gguf(&with, &folder, "scaled.gguf"));
    for (a, b) in [(&with, &file), (&file, &with), (&plain, &plain_file), (&file, &file)] {
        let found = diff(a, b);
        assert!(found.is_equal(), "{:?}, {:?}", found.config, found.only_a);
    }
    // Present in one file alone.
    let found = diff(&file, &plain_file);
    assert!(!found.is_equal());
    assert_eq!(
        (tensor_names(&found.only_a), config_names(&found)),
        (vec!["rope_freqs.weight"], vec![])
    );
    let found = diff(&plain_file, &file);
    assert_eq!(tensor_names(&found.only_b), ["rope_freqs.weight"]);
    for (a, b) in [(&with, &plain_file), (&plain, &file), (&plain_file, &with), (&file, &plain)] {
        let found = diff(a, b);
        assert_eq!(config_names(&found), ["rope_freqs.weight"], "{:?}", found.config);
        assert!(!found.is_equal());
    }
    let said = diff(&with, &plain_file).config[0].to_string();
    assert!(said.starts_with("rope_freqs.weight: [1.0, "), "{said}");
    assert!(
        said.ends_with(
            "in A (derived from config.json rope_parameters.rope_type), not stated in B"
        ),
        "{said}"
    );
    // Other values.
    let other = with_divisors(&file, &folder, "other.gguf", |value| value * 0.25);
    let found = diff(&file, &other);
    let different = found.tensors.iter().filter(|tensor| tensor.outcome.is_difference());
    let different: Vec<&str> = different.map(|tensor| tensor.pair.name.as_str()).collect();
    assert_eq!(different, ["rope_freqs.weight"]);
    assert_eq!(config_names(&diff(&with, &other)), ["rope_freqs.weight"]);
    // Divisors of 1 are as good as none.
    let ones = with_divisors(&file, &folder, "ones.gguf", |_| 1.0);
    for (a, b) in [(&ones, &plain_file), (&plain_file, &ones), (&plain, &ones)] {
        let found = diff(a, b);
        assert!(found.is_equal(), "{:?}, {:?}", found.config, found.only_a);
    }
}

#[test]
fn values_of_the_config_count_in_every_container() {
    let folder = TempDir::new().expect("a folder");
    let plain = open(&sample("hf"));
    let other = reconfigured(|config| {
        config["rope_theta"] = json!(500_000.0);
        config["rope_parameters"]["rope_theta"] = json!(500_000.0);
        config["rms_norm_eps"] = json!(1e-6);
    });
    let other = open(other.path());
    let (plain_file, other_file) =
        (plain_gguf(&plain, &folder, "plain.gguf"), plain_gguf(&other, &folder, "other.gguf"));
    for a in [&plain, &plain_file] {
        for b in [&other, &other_file] {
            for (a, b) in [(a, b), (b, a)] {
                let found = diff(a, b);
                let mut names = config_names(&found);
                names.sort_unstable();
                assert_eq!(names, ["rms_norm_eps", "rope_theta"]);
                assert!(!found.is_equal());
                assert!(found.tensors.iter().all(|tensor| !tensor.outcome.is_difference()));
            }
        }
    }
    let found = diff(&other, &plain_file);
    let said: Vec<String> = found.config.iter().map(ToString::to_string).collect();
    let theta = "rope_theta: 500000.0 in A (config.json rope_parameters.rope_theta), 10000.0 in B \
                 (llama.rope.freq_base)";
    assert!(said.iter().any(|said| said == theta), "{said:?}");
}

/// A model and its conversions are equal, with the keys of this library or without, unless GGUF has no key for a value.
#[test]
fn models_of_all_families_equal_their_conversions() {
    let Some(root) = outside("logits") else { return };
    let mut models: Vec<_> = std::fs::read_dir(root).expect("a folder").flatten().collect();
    models.sort_by_key(std::fs::DirEntry::file_name);
    let mut compared = 0;
    for model in models.iter().map(std::fs::DirEntry::path).filter(|path| path.is_dir()) {
        let (source, folder) = (open(&model), TempDir::new().expect("a folder"));
        let forms: [(&str, &'static Container, bool); 4] = [
            ("m.gguf", &GGUF, true),
            ("plain.gguf", &GGUF, false),
            ("mlx", &MLX, true),
            ("hf", &SAFETENSORS, true),
        ];
        for (name, container, extra) in forms {
            let options = ConvertOptions::new(container).extra_keys(extra);
            let Ok(plan) = ops::convert(&source, &options) else { continue };
            let warned = plan.notes.iter().any(|note| note.contains("differently"));
            plan.run(&folder.path().join(name), &WriteOptions::new()).expect("a model");
            let form = open(&folder.path().join(name));
            for (a, b) in [(&source, &form), (&form, &source)] {
                let found = diff(a, b);
                let is_lost = !extra && warned;
                let (model, config) = (model.display(), &found.config);
                assert!(config.is_empty() || is_lost, "{model} {name}: {config:?}");
                compared += 1;
            }
        }
    }
    assert!(compared > 200, "{compared}");
}
