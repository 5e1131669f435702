//! Made files: numbers that are the same in every run, and no infinities.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// The layout of a dtype of ggml: its number, elements and bytes of a block, and the positions in the block of an `f16`
/// scale, or of the byte of a power of two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    pub(crate) name: &'static str,
    code: u32,
    elements: u64,
    bytes: u64,
    halves: &'static [usize],
    power: Option<usize>,
}

const fn stored(
    name: &'static str,
    code: u32,
    elements: u64,
    bytes: u64,
    halves: &'static [usize],
) -> Stored {
    Stored { name, code, elements, bytes, halves, power: None }
}

pub(crate) const Q4_0: Stored = stored("Q4_0", 2, 32, 18, &[0]);
pub(crate) const F32: Stored = stored("F32", 0, 1, 4, &[]);
pub(crate) const F16: Stored = stored("F16", 1, 1, 2, &[0]);

/// The dtypes that are measured.
pub(crate) const DTYPES: &[Stored] = &[
    stored("Q4_K", 12, 256, 144, &[0, 2]),
    stored("Q5_K", 13, 256, 176, &[0, 2]),
    stored("Q6_K", 14, 256, 210, &[208]),
    stored("Q8_0", 8, 32, 34, &[0]),
    Q4_0,
    Stored { power: Some(0), ..stored("MXFP4", 39, 32, 17, &[]) },
    F16,
    stored("BF16", 30, 1, 2, &[0]),
];

impl Stored {
    pub(crate) fn size(&self, elements: u64) -> u64 {
        elements / self.elements * self.bytes
    }

    /// The bytes of so many elements.
    pub(crate) fn numbers(&self, elements: u64, seed: u32) -> Vec<u8> {
        let len = usize::try_from(self.size(elements)).expect("it fits memory");
        let mut state = seed | 1;
        let mut bytes = vec![0u8; len];
        for byte in &mut bytes {
            state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
            *byte = state.to_be_bytes()[0];
        }
        for block in bytes.chunks_exact_mut(usize::try_from(self.bytes).expect("it is small")) {
            // Magnitudes from 2^-7 to 2^-5, of either sign; 2^-9 to 2^-2 for powers.
            for half in self.halves {
                block[half + 1] = (block[half + 1] & 0x87) | 0x20;
            }
            if let Some(power) = self.power {
                block[power] = 118 + (block[power] & 7);
            }
        }
        bytes
    }
}

/// A GGUF file in the making: its tensors, of which each has a name, dimensions, outermost first, and a dtype.
pub(crate) struct Gguf {
    pub(crate) keys: Vec<u8>,
    pub(crate) count: u64,
    pub(crate) tensors: Vec<(String, Vec<u64>, Stored)>,
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

impl Gguf {
    pub(crate) fn new() -> Self {
        Self { keys: Vec::new(), count: 0, tensors: Vec::new() }
    }

    fn key(&mut self, name: &str, kind: u32, value: [u8; 4]) {
        text(&mut self.keys, name);
        self.keys.extend(kind.to_le_bytes());
        self.keys.extend(value);
        self.count += 1;
    }

    /// The header. Tensors follow at multiples of 32 bytes.
    fn header(&self) -> Vec<u8> {
        let mut out = b"GGUF\x03\0\0\0".to_vec();
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend(self.count.to_le_bytes());
        out.extend(&self.keys);
        let mut at = 0u64;
        for (name, dims, dtype) in &self.tensors {
            text(&mut out, name);
            out.extend(u32::try_from(dims.len()).expect("few dimensions").to_le_bytes());
            dims.iter().rev().for_each(|dim| out.extend(dim.to_le_bytes()));
            out.extend(dtype.code.to_le_bytes());
            out.extend(at.to_le_bytes());
            at += dtype.size(dims.iter().product()).next_multiple_of(32);
        }
        out.resize(out.len().next_multiple_of(32), 0);
        out
    }

    pub(crate) fn write(&self, path: &Path, numbers: impl Fn(usize, &Stored, u64) -> Vec<u8>) {
        let mut out = BufWriter::new(File::create(path).expect("a file"));
        out.write_all(&self.header()).expect("it is written");
        for (number, (_, dims, dtype)) in self.tensors.iter().enumerate() {
            let mut bytes = numbers(number, dtype, dims.iter().product());
            bytes.resize(bytes.len().next_multiple_of(32), 0);
            out.write_all(&bytes).expect("it is written");
        }
        // The last page is whole, so that the last tensor can be imported too.
        out.write_all(&[0; 4096]).expect("it is written");
        out.flush().expect("it is written");
    }
}

/// A model with the shapes of Llama 3.2 1B, in Q4_0, or with fewer layers and tokens.
pub(crate) fn write_model(path: &Path, share: usize) {
    let share = share.min(100) as u64;
    let (layers, vocabulary) =
        ((16 * share).div_ceil(100), (128_256 * share).div_ceil(100).max(64));
    let (dim, network, keys) = (2048u64, 8192u64, 512u64);
    let mut file = Gguf::new();
    let name = b"llama";
    text(&mut file.keys, "general.architecture");
    file.keys.extend(8u32.to_le_bytes());
    file.keys.extend((name.len() as u64).to_le_bytes());
    file.keys.extend(name);
    file.count += 1;
    for (key, value) in [
        ("block_count", layers),
        ("context_length", 8192),
        ("embedding_length", dim),
        ("feed_forward_length", network),
        ("attention.head_count", 32),
        ("attention.head_count_kv", 8),
        ("rope.dimension_count", 64),
        ("vocab_size", vocabulary),
    ] {
        let value = u32::try_from(value).expect("it is small");
        file.key(&format!("llama.{key}"), 4, value.to_le_bytes());
    }
    file.key("llama.attention.layer_norm_rms_epsilon", 6, 1e-5f32.to_le_bytes());
    file.key("llama.rope.freq_base", 6, 500_000f32.to_le_bytes());
    let mut tensor = |name: String, dims: &[u64]| {
        let dtype = if dims.len() == 1 { F32 } else { Q4_0 };
        file.tensors.push((format!("{name}.weight"), dims.to_vec(), dtype));
    };
    tensor("token_embd".to_owned(), &[vocabulary, dim]);
    for layer in 0..layers {
        for (name, dims) in [
            ("attn_norm", &[dim][..]),
            ("attn_q", &[dim, dim]),
            ("attn_k", &[keys, dim]),
            ("attn_v", &[keys, dim]),
            ("attn_output", &[dim, dim]),
            ("ffn_norm", &[dim]),
            ("ffn_gate", &[network, dim]),
            ("ffn_up", &[network, dim]),
            ("ffn_down", &[dim, network]),
        ] {
            tensor(format!("blk.{layer}.{name}"), dims);
        }
    }
    tensor("output_norm".to_owned(), &[dim]);
    file.write(path, |number, dtype, elements| match dtype.name {
        "F32" => (0..elements).flat_map(|_| 1f32.to_le_bytes()).collect(),
        _ => {
            dtype.numbers(elements, u32::try_from(number).unwrap_or(0).wrapping_mul(2_654_435_761))
        }
    });
}
