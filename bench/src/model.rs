//! A whole model of 1.24 billion weights with the shapes of a published one (Llama 3.2 1B) and
//! generated numbers, which are the same in every run and in every file.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use half::f16;
use half::slice::HalfFloatSliceExt;

use crate::input::{Gguf, Numbers};

const LAYERS: usize = 16;
const DIM: u64 = 2048;
const KV: u64 = 512;
const HIDDEN: u64 = 8192;
const VOCABULARY: u64 = 128_256;

/// The tensors of a layer: the name in safetensors, the name in GGUF, and the dimensions, outermost
/// first.
const LAYER: [(&str, &str, &[u64]); 9] = [
    ("input_layernorm", "attn_norm", &[DIM]),
    ("self_attn.q_proj", "attn_q", &[DIM, DIM]),
    ("self_attn.k_proj", "attn_k", &[KV, DIM]),
    ("self_attn.v_proj", "attn_v", &[KV, DIM]),
    ("self_attn.o_proj", "attn_output", &[DIM, DIM]),
    ("post_attention_layernorm", "ffn_norm", &[DIM]),
    ("mlp.gate_proj", "ffn_gate", &[HIDDEN, DIM]),
    ("mlp.up_proj", "ffn_up", &[HIDDEN, DIM]),
    ("mlp.down_proj", "ffn_down", &[DIM, HIDDEN]),
];

struct Weight {
    safetensors: String,
    gguf: String,
    dims: &'static [u64],
}

impl Weight {
    fn elements(&self) -> usize {
        self.dims.iter().product::<u64>() as usize
    }
}

fn weights() -> Vec<Weight> {
    let outer = |safetensors: &str, gguf: &str, dims| Weight {
        safetensors: format!("model.{safetensors}.weight"),
        gguf: format!("{gguf}.weight"),
        dims,
    };
    let mut weights = vec![outer("embed_tokens", "token_embd", &[VOCABULARY, DIM])];
    for layer in 0..LAYERS {
        weights.extend(LAYER.iter().map(|&(safetensors, gguf, dims)| Weight {
            safetensors: format!("model.layers.{layer}.{safetensors}.weight"),
            gguf: format!("blk.{layer}.{gguf}.weight"),
            dims,
        }));
    }
    weights.push(outer("norm", "output_norm", &[DIM]));
    weights
}

/// The BF16 bits of tensor `number`: any sign, any mantissa, and the exponents of weights, 2^-15 to
/// 1, which `f16` represents exactly.
fn bits(number: usize, elements: usize) -> Vec<u16> {
    let mut numbers = Numbers::new(0x9e37_79b9_7f4a_7c15 ^ ((number as u64) << 32));
    let mut bits = Vec::new();
    while bits.len() < elements {
        let four = numbers.next();
        bits.extend([0, 16, 32, 48].map(|at| {
            let random = (four >> at) as u16;
            random & 0x807f | (112 + (random >> 7 & 15)) << 7
        }));
    }
    bits.truncate(elements);
    bits
}

fn le_bytes(bits: &[u16]) -> Vec<u8> {
    bits.iter().flat_map(|bits| bits.to_le_bytes()).collect()
}

/// Writes a file unless it exists. It is written under another name, so that an aborted run leaves
/// no file that looks complete.
fn made_once(path: PathBuf, write: impl FnOnce(&mut BufWriter<File>)) -> PathBuf {
    if !path.exists() {
        println!("making {}", path.display());
        let unfinished = path.with_extension("unfinished");
        let mut out = BufWriter::new(File::create(&unfinished).expect("the input can be written"));
        write(&mut out);
        let file = out.into_inner().expect("the input can be written");
        file.sync_all().expect("the input can be written");
        std::fs::rename(unfinished, &path).expect("the input can be written");
    }
    path
}

/// Creates a directory with a BF16 safetensors file of 2.47 GB and a config; returns the file's
/// path.
pub fn safetensors(folder: &Path) -> PathBuf {
    std::fs::create_dir_all(folder).expect("a directory");
    let config = format!(
        "{{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":{DIM},\"intermediate_size\":{HIDDEN},\"num_hidden_layers\":{LAYERS},\"num_attention_heads\":32,\"num_key_value_heads\":8,\"head_dim\":64,\"rms_norm_eps\":1e-05,\"rope_theta\":500000.0,\"max_position_embeddings\":131072,\"vocab_size\":{VOCABULARY},\"tie_word_embeddings\":true}}"
    );
    made_once(folder.join("config.json"), |out| {
        out.write_all(config.as_bytes()).expect("the input can be written");
    });
    made_once(folder.join("model.safetensors"), |out| {
        let weights = weights();
        let mut header = String::from("{\"__metadata__\":{\"format\":\"pt\"}");
        let mut end = 0;
        for weight in &weights {
            let begin = end;
            end += 2 * weight.elements();
            let (name, dims) = (&weight.safetensors, weight.dims);
            header += &format!(
                ",\"{name}\":{{\"dtype\":\"BF16\",\"shape\":{dims:?},\"data_offsets\":[{begin},{end}]}}"
            );
        }
        header.push('}');
        let len = header.len().next_multiple_of(8);
        out.write_all(&(len as u64).to_le_bytes()).expect("the input can be written");
        write!(out, "{header:<len$}").expect("the input can be written");
        for (number, weight) in weights.iter().enumerate() {
            let bytes = le_bytes(&bits(number, weight.elements()));
            out.write_all(&bytes).expect("the input can be written");
        }
    })
}

/// Writes the same weights as F16 in GGUF.
pub fn gguf(folder: &Path) -> PathBuf {
    std::fs::create_dir_all(folder).expect("a directory");
    made_once(folder.join("model-F16.gguf"), |out| {
        let weights = weights();
        let mut gguf = Gguf::default();
        gguf.string("general.architecture", "llama");
        for (key, value) in [
            ("block_count", LAYERS as u32),
            ("context_length", 131_072),
            ("embedding_length", DIM as u32),
            ("feed_forward_length", HIDDEN as u32),
            ("attention.head_count", 32),
            ("attention.head_count_kv", 8),
            ("rope.dimension_count", 64),
            ("vocab_size", VOCABULARY as u32),
        ] {
            gguf.u32(&format!("llama.{key}"), value);
        }
        gguf.f32("llama.attention.layer_norm_rms_epsilon", 1e-5);
        // F16 is type 1. Norms are usually F32, but F16 here, so that all cases move the same
        // number of bytes.
        let infos = weights.iter().map(|weight| {
            let dims = weight.dims.iter().rev().copied().collect();
            (weight.gguf.clone(), dims, 1, 2 * weight.elements() as u64)
        });
        let header = gguf.header(&infos.collect::<Vec<_>>());
        out.write_all(&header).expect("the input can be written");
        for (number, weight) in weights.iter().enumerate() {
            // All dimensions are multiples of 16, so that no tensor needs padding.
            let values: Vec<f32> = bits(number, weight.elements())
                .iter()
                .map(|&bits| f32::from_bits(u32::from(bits) << 16))
                .collect();
            let mut halves = vec![f16::ZERO; values.len()];
            halves.convert_from_f32_slice(&values);
            let bits: Vec<u16> = halves.iter().map(|half| half.to_bits()).collect();
            out.write_all(&le_bytes(&bits)).expect("the input can be written");
        }
    })
}
