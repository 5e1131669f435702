//! The promise: one model, written as GGUF, as a safetensors directory and as shards with an index,
//! has the same canonical names, config, and values.

mod support;

use std::collections::BTreeMap;

use support::{Gguf, Kv, Safetensors, f32s, folder, put, sharded};
use tempfile::TempDir;
use weighbridge::arch::{ARCHITECTURES, Architecture, NameRule, RopeLayout, Rows, Transform};
use weighbridge::{DType, ModelConfig, OpenOptions, WeightProvider};

const LAYERS: u64 = 2;
const HEADS: u64 = 4;
const KV_HEADS: u64 = 2;
const HEAD: u64 = 6;
const DIM: u64 = HEADS * HEAD;

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
    ("layers.{n}.ffn.gate.weight", &[20, DIM]),
    ("layers.{n}.ffn.up.weight", &[20, DIM]),
    ("layers.{n}.ffn.down.weight", &[DIM, 20]),
];

struct Tensor {
    canonical: String,
    gguf: String,
    hf: String,
    shape: &'static [u64],
    transform: Transform,
    /// As Hugging Face has them.
    values: Vec<f32>,
}

fn llama() -> &'static Architecture {
    ARCHITECTURES.iter().find(|row| row.name == "llama").expect("a row for llama")
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

/// What GGUF stores of a tensor.
fn in_gguf(tensor: &Tensor) -> Vec<f32> {
    match tensor.transform.rows {
        Rows::PairsQ | Rows::PairsK => permuted(
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
        .key("llama.feed_forward_length", number(20))
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
          \"intermediate_size\":20,\"max_position_embeddings\":128,\"vocab_size\":10,\
          \"rms_norm_eps\":1e-06,\"rope_theta\":500000.0}}"
    )
}

/// The model in each form. The last is split in the midst of a layer.
fn every_form() -> [(&'static str, TempDir); 4] {
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
    [
        ("gguf", folder(&[("model.gguf", gguf().build())])),
        ("gguf of version 1", folder(&[("model.gguf", gguf().version(1).build())])),
        ("safetensors", single),
        ("shards", split),
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
fn same_names_config_and_values() {
    let mut configs = BTreeMap::new();
    for (form, folder) in every_form() {
        for options in [OpenOptions::new(), OpenOptions::new().read().threads(2)] {
            let store = options.open(folder.path()).expect(form);
            assert!(store.notes().iter().all(|note| note.text.contains("version 1")), "{form}");
            let provider = WeightProvider::new(store, weighbridge::device::Cpu).expect(form);
            let resolution = provider.resolution();
            assert_eq!((&*resolution.unknown, &*resolution.missing), (&[][..], &[][..]), "{form}");
            assert_eq!(provider.names().count(), tensors().len(), "{form}");
            let gguf = form.starts_with("gguf");
            let rope = if gguf { RopeLayout::Interleaved } else { RopeLayout::HalfSplit };
            assert_eq!(resolution.stored_rope_layout(), Some(rope), "{form}");
            for tensor in tensors() {
                let name = tensor.canonical.as_str();
                let expected = &tensor.values;
                let found = provider.tensor(name).expect(form);
                assert_eq!(found.shape(), tensor.shape, "{form}: {name}");
                assert_eq!(*found.dequantize().expect(form), **expected, "{form}: {name}");
                let loaded = provider.load(name).expect(form);
                assert_eq!(*loaded.buffer, *f32s(expected), "{form}: {name}");
            }
            configs.insert(values(&provider.config().expect(form)), form);
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
