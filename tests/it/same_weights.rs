//! The promise: one model, written in every container, has the same canonical names, config, values
//! and fused bytes. Its numbers are such that each form, quantized ones too, holds them exactly.
//! (whisper.cpp's container holds models of another family: `tests/it/fixtures.rs` compares those.)

#![allow(clippy::cast_possible_truncation, reason = "the sizes are the test's own")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::ollama_store::Store;
use crate::support::{Gguf, Kv, Safetensors, f32s, folder, put, sharded};
use tempfile::TempDir;
use weighbridge::arch::{Architecture, NameRule, RopeLayout, RowOrder, Transform, architectures};
use weighbridge::{DType, ModelConfig, OpenOptions, Policy, WeightProvider};

const LAYERS: u64 = 2;
const HEADS: u64 = 4;
const KV_HEADS: u64 = 2;
const HEAD: u64 = 8;
const DIM: u64 = HEADS * HEAD;
const FFN: u64 = 64;

/// Canonical names with the shapes that they have here.
const TENSORS: [(&str, &[u64]); 12] = [
    ("token_embedding.weight", &[10, DIM]),
    ("output_norm.weight", &[DIM]),
    ("output.weight", &[10, DIM]),
    ("layers.{n}.attention_norm.weight", &[DIM]),
    ("layers.{n}.attention.q.weight", &[DIM, DIM]),
    ("layers.{n}.attention.k.weight", &[KV_HEADS * HEAD, DIM]),
    ("layers.{n}.attention.v.weight", &[KV_HEADS * HEAD, DIM]),
    ("layers.{n}.attention.output.weight", &[DIM, DIM]),
    ("layers.{n}.ffn_norm.weight", &[DIM]),
    ("layers.{n}.ffn.gate.weight", &[FFN, DIM]),
    ("layers.{n}.ffn.up.weight", &[FFN, DIM]),
    ("layers.{n}.ffn.down.weight", &[DIM, FFN]),
];

struct Tensor {
    pattern: &'static str,
    layer: u64,
    canonical: String,
    gguf: String,
    hf: String,
    shape: &'static [u64],
    transform: Transform,
    /// As Hugging Face has them.
    values: Vec<f32>,
}

fn llama() -> &'static Architecture {
    architectures().iter().find(|row| row.name == "llama").expect("a row for llama")
}

fn rule(canonical: &str) -> &'static NameRule {
    let mut rules = llama().rules.iter().copied().flatten();
    let both = |rule: &&NameRule| !rule.gguf.name.is_empty() && !rule.hf.name.is_empty();
    let rule = rules.find(|rule| rule.canonical == canonical && both(rule));
    rule.expect("a rule for each tensor")
}

fn tensors() -> Vec<Tensor> {
    let mut tensors: Vec<Tensor> = Vec::new();
    for (pattern, shape) in TENSORS {
        let layers = if pattern.contains("{n}") { LAYERS } else { 1 };
        for layer in 0..layers {
            let name = |pattern: &str| pattern.replace("{n}", &layer.to_string());
            let rule = rule(pattern);
            let first = 1000 * tensors.len() as u64;
            let count = shape.iter().product::<u64>();
            tensors.push(Tensor {
                pattern,
                layer,
                canonical: name(pattern),
                gguf: name(rule.gguf.name),
                hf: name(rule.hf.name),
                shape,
                transform: rule.gguf.transform,
                values: (first..first + count).map(|value| value as f32 / 8.0).collect(),
            });
        }
    }
    tensors
}

/// The rows of each head, from two halves to pairs, as llama.cpp's converter reorders them.
fn permuted(values: &[f32], columns: usize) -> Vec<f32> {
    let rows = usize::try_from(HEAD).expect("some rows");
    let half = rows / 2;
    let head = |head: &[f32]| -> Vec<f32> {
        let row = |number: usize| head[number * columns..(number + 1) * columns].to_vec();
        (0..half).flat_map(|pair| [row(pair), row(half + pair)]).flatten().collect()
    };
    values.chunks(rows * columns).flat_map(head).collect()
}

/// The values that GGUF stores of a tensor.
fn in_gguf(tensor: &Tensor) -> Vec<f32> {
    match tensor.transform.rows {
        RowOrder::PairsQ | RowOrder::PairsK => permuted(
            &tensor.values,
            tensor.values.len() / usize::try_from(tensor.shape[0]).expect("some rows"),
        ),
        _ => tensor.values.clone(),
    }
}

fn gguf() -> Gguf {
    let number = |value: u64| Kv::U32(u32::try_from(value).expect("a small number"));
    let file = Gguf::new()
        .key("general.architecture", Kv::text("llama"))
        .key("llama.block_count", number(LAYERS))
        .key("llama.embedding_length", number(DIM))
        .key("llama.attention.head_count", number(HEADS))
        .key("llama.attention.head_count_kv", number(KV_HEADS))
        .key("llama.feed_forward_length", number(FFN))
        .key("llama.context_length", number(128))
        .key("llama.attention.layer_norm_rms_epsilon", Kv::F32(1e-6))
        .key("llama.rope.freq_base", Kv::F32(500_000.0));
    tensors().iter().fold(file, |file, tensor| {
        file.tensor(&tensor.gguf, DType::F32, tensor.shape, f32s(&in_gguf(tensor)))
    })
}

fn safetensors<'a>(tensors: impl Iterator<Item = &'a Tensor>) -> Safetensors {
    tensors.fold(Safetensors::new().metadata("format", "pt"), |file, tensor| {
        file.tensor(&tensor.hf, "F32", tensor.shape, f32s(&tensor.values))
    })
}

fn config() -> String {
    format!(
        "{{\"model_type\":\"llama\",\"num_hidden_layers\":{LAYERS},\"hidden_size\":{DIM},\
          \"num_attention_heads\":{HEADS},\"num_key_value_heads\":{KV_HEADS},\
          \"intermediate_size\":{FFN},\"max_position_embeddings\":128,\"vocab_size\":10,\
          \"rms_norm_eps\":1e-06,\"rope_theta\":500000.0}}"
    )
}

/// Names in the checkpoints of Mistral, whose rows of q and k lie as in GGUF.
fn consolidated() -> Safetensors {
    tensors().iter().fold(Safetensors::new(), |file, tensor| {
        let rule = llama().publisher.iter().find(|rule| rule.canonical == tensor.pattern);
        let rule = rule.expect("a name for each tensor");
        let name = rule.hf.name.replace("{n}", &tensor.layer.to_string());
        file.tensor(&name, "F32", tensor.shape, f32s(&in_gguf(tensor)))
    })
}

fn params() -> String {
    format!(
        "{{\"dim\":{DIM},\"n_layers\":{LAYERS},\"n_heads\":{HEADS},\"n_kv_heads\":{KV_HEADS},\
          \"hidden_dim\":{FFN},\"max_seq_len\":128,\"vocab_size\":10,\"norm_eps\":1e-06,\
          \"rope_theta\":500000.0}}"
    )
}

/// A matrix in groups of 32 codes of 8 bits, which hold its steps of 1/8 exactly: weight, scales and
/// biases, under these endings.
fn packed(file: Safetensors, tensor: &Tensor, endings: [&str; 3]) -> Safetensors {
    let (rows, columns) = (tensor.shape[0], tensor.shape[1]);
    let groups = columns / 32;
    let (codes, biases): (Vec<Vec<u8>>, Vec<f32>) = tensor
        .values
        .chunks(32)
        .map(|group| {
            let code = |value: &f32| ((value - group[0]) * 8.0) as u8;
            (group.iter().map(code).collect::<Vec<u8>>(), group[0])
        })
        .unzip();
    let scales = vec![0.125; biases.len()];
    let stem = tensor.hf.strip_suffix(".weight").expect("a matrix");
    let [weight, scale, bias] = endings.map(|ending| format!("{stem}{ending}"));
    file.tensor(&weight, "U32", &[rows, columns / 4], codes.concat())
        .tensor(&scale, "F32", &[rows, groups], f32s(&scales))
        .tensor(&bias, "F32", &[rows, groups], f32s(&biases))
}

fn mlx() -> TempDir {
    let file = tensors().iter().fold(Safetensors::new(), |file, tensor| match tensor.shape {
        [_, _] => packed(file, tensor, [".weight", ".scales", ".biases"]),
        _ => file.tensor(&tensor.hf, "F32", tensor.shape, f32s(&tensor.values)),
    });
    let quantization = ",\"quantization\":{\"bits\":8,\"group_size\":32}}";
    let config = config().replace('}', quantization);
    folder(&[("model.safetensors", file.build()), ("config.json", config.into_bytes())])
}

/// A model of Ollama's store: a blob for each tensor, packed in its way, and the config as another.
fn ollama() -> (Store, PathBuf) {
    let store = Store::new();
    let mut layers = vec![store.layer("json", "config.json", config().as_bytes())];
    for tensor in tensors() {
        let file = match tensor.shape {
            [_, _] => {
                packed(Safetensors::new(), &tensor, [".weight", ".weight.scale", ".weight.bias"])
                    .metadata("quant_type", "int8")
                    .metadata("group_size", "32")
            }
            _ => Safetensors::new().tensor(&tensor.hf, "F32", tensor.shape, f32s(&tensor.values)),
        };
        layers.push(store.tensor(&tensor.hf, &file));
    }
    let manifest = store.manifest("m/latest", &layers);
    (store, manifest)
}

/// The same store with the GGUF file as its one blob.
fn ollama_gguf() -> (Store, PathBuf) {
    let store = Store::new();
    let layer = store.layer("model", "", &gguf().build());
    let manifest = store.manifest("m/latest", &[layer]);
    (store, manifest)
}

/// A form of the model: what it is, where it is, and what keeps it there.
struct Form {
    name: &'static str,
    path: PathBuf,
    _kept: (Option<TempDir>, Option<Store>),
}

/// The model in each form. The shards are split in the midst of a layer.
fn every_form() -> Vec<Form> {
    let tensors = tensors();
    let single = folder(&[("model.safetensors", safetensors(tensors.iter()).build())]);
    let (one, two) = tensors.split_at(7);
    let split = sharded(&[
        ("model-00001-of-00002.safetensors", safetensors(one.iter())),
        ("model-00002-of-00002.safetensors", safetensors(two.iter())),
    ]);
    for folder in [&single, &split] {
        put(folder.path(), "config.json", config());
    }
    let publisher = [
        ("consolidated.safetensors", consolidated().build()),
        ("params.json", params().into_bytes()),
    ];
    let kept = |name, folder: TempDir| {
        let path = folder.path().to_path_buf();
        Form { name, path, _kept: (Some(folder), None) }
    };
    let stored =
        |name, (store, path): (Store, PathBuf)| Form { name, path, _kept: (None, Some(store)) };
    vec![
        kept("gguf", folder(&[("model.gguf", gguf().build())])),
        kept("gguf of version 1", folder(&[("model.gguf", gguf().version(1).build())])),
        kept("safetensors", single),
        kept("shards", split),
        kept("mistral's own", folder(&publisher)),
        kept("mlx", mlx()),
        stored("ollama", ollama()),
        stored("ollama gguf", ollama_gguf()),
    ]
}

/// The config's values, without the places where they were found.
fn values(config: &ModelConfig) -> String {
    format!(
        "{:?}",
        (
            &config.architecture.value,
            [config.dim.value, config.n_layers.value, config.n_heads.value],
            [config.n_kv_heads.value, config.head_dim.value, config.q_dim.value],
            [config.kv_dim.value, config.n_experts.value],
            config.ffn_dim.as_ref().map(|field| field.value),
            config.vocab_size.as_ref().map(|field| field.value),
            config.max_seq_len.as_ref().map(|field| field.value),
            config.norm_eps.as_ref().map(|field| field.value),
            config.rope_theta.value,
            config.tie_embeddings.as_ref().map(|field| field.value),
        )
    )
}

#[test]
fn same_names_config_values_and_fused_bytes() {
    let mut configs = BTreeMap::new();
    let forms = every_form();
    let names = forms.iter().map(|form| form.name.split(' ').next().expect("a word"));
    let containers = weighbridge::container::CONTAINERS.iter().map(|row| row.name);
    let missing: Vec<&str> =
        containers.filter(|name| !names.clone().any(|form| form == *name)).collect();
    assert_eq!(missing, ["whisper-ggml"], "every container has a form of this model");
    for Form { name: form, path, .. } in &forms {
        for options in [OpenOptions::new(), OpenOptions::new().read().threads(2)] {
            let store = options.open(path).expect(form);
            assert!(store.notes().iter().all(|note| note.text.contains("version 1")), "{form}");
            let provider = WeightProvider::new(store, weighbridge::device::Cpu).expect(form);
            let resolution = provider.model().resolution().expect(form).clone();
            assert_eq!((&*resolution.unknown, &*resolution.missing), (&[][..], &[][..]), "{form}");
            assert_eq!(provider.model().names().expect(form).count(), tensors().len(), "{form}");
            let pairs = form.contains("gguf") || form.contains("mistral");
            let rope = if pairs { RopeLayout::Interleaved } else { RopeLayout::HalfSplit };
            assert_eq!(resolution.stored_rope_layout(), Some(rope), "{form}");
            let packed = ["mlx", "ollama"].contains(form);
            for tensor in tensors() {
                let name = tensor.canonical.as_str();
                let found = provider.tensor(name).expect(form);
                assert_eq!(found.shape(), tensor.shape, "{form}: {name}");
                assert_eq!(*found.dequantize().expect(form), *tensor.values, "{form}: {name}");
                let loaded = provider.load(name).expect(form);
                assert_eq!(loaded.dtype != DType::F32, packed && tensor.shape.len() == 2);
                if !packed {
                    assert_eq!(*loaded.buffer, *f32s(&tensor.values), "{form}: {name}");
                }
            }
            configs.insert(values(provider.model().config().expect(form)), *form);

            let provider = provider.policy(Policy::F32);
            for parts in
                [&["attention.q", "attention.k", "attention.v"][..], &["ffn.gate", "ffn.up"]]
            {
                let names: Vec<String> =
                    parts.iter().map(|part| format!("layers.1.{part}.weight")).collect();
                let fused = provider.fuse(&names.iter().map(|n| &**n).collect::<Vec<_>>());
                let values = |name: &String| {
                    let all = tensors();
                    all.into_iter().find(|tensor| tensor.canonical == *name).expect("it").values
                };
                let expected: Vec<f32> = names.iter().flat_map(values).collect();
                assert_eq!(*fused.expect(form).buffer, *f32s(&expected), "{form}");
            }
        }
    }
    assert_eq!(configs.len(), 1, "{configs:#?}");
}

#[test]
fn only_q_and_k_are_permuted() {
    for tensor in tensors() {
        let q_or_k = tensor.gguf.contains("attn_q") || tensor.gguf.contains("attn_k");
        assert_eq!(in_gguf(&tensor) != tensor.values, q_or_k, "{}", tensor.canonical);
    }
}
