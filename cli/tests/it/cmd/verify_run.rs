//! Models whose bytes are whole and whose meaning is not: `verify --run` or `compare` tells.

use std::ops::Range;
use std::path::Path;

use crate::support;
use crate::support::{printed, run};
use serde_json::Value as Json;

const HF: &str = "assets/sample/hf";

/// A model in memory: its config, and the file of its weights.
struct Broken {
    config: Json,
    weights: Vec<u8>,
}

impl Broken {
    fn sample() -> Self {
        let folder = support::root().join(HF);
        let config = std::fs::read(folder.join("config.json")).expect("the config");
        let weights = std::fs::read(folder.join("model.safetensors")).expect("the weights");
        Self { config: serde_json::from_slice(&config).expect("JSON"), weights }
    }

    fn range(&self, name: &str) -> Range<usize> {
        let (length, rest) = self.weights.split_first_chunk::<8>().expect("a length");
        let length = usize::try_from(u64::from_le_bytes(*length)).expect("a length");
        let header: Json = serde_json::from_slice(&rest[..length]).expect("a header");
        let at = |place: usize| {
            let offset = header[name]["data_offsets"][place].as_u64().expect("an offset");
            usize::try_from(offset).expect("an offset") + 8 + length
        };
        at(0)..at(1)
    }

    fn bytes(&mut self, name: &str) -> &mut [u8] {
        let range = self.range(name);
        &mut self.weights[range]
    }

    /// Changes each bf16 value.
    fn each(&mut self, name: &str, change: impl Fn(f32) -> f32) {
        for bytes in self.bytes(name).as_chunks_mut::<2>().0 {
            let value = f32::from_bits(u32::from(u16::from_le_bytes(*bytes)) << 16);
            let bits = (change(value).to_bits() >> 16).to_le_bytes();
            *bytes = [bits[0], bits[1]];
        }
    }

    /// Moves rows of 256 values to other places of their matrix.
    fn rows(&mut self, name: &str, from: impl Fn(usize) -> usize) {
        let rows: Vec<Vec<u8>> = self.bytes(name).chunks(512).map(<[u8]>::to_vec).collect();
        let moved = (0..rows.len()).flat_map(|row| rows[from(row)].clone());
        let moved: Vec<u8> = moved.collect();
        self.bytes(name).copy_from_slice(&moved);
    }

    fn write(&self, folder: &Path) {
        std::fs::create_dir(folder).expect("a folder");
        for entry in std::fs::read_dir(support::root().join(HF)).expect("the sample") {
            let entry = entry.expect("an entry");
            std::fs::copy(entry.path(), folder.join(entry.file_name())).expect("a copy");
        }
        std::fs::write(folder.join("config.json"), self.config.to_string()).expect("written");
        std::fs::write(folder.join("model.safetensors"), &self.weights).expect("written");
    }
}

const LAYER: &str = "model.layers.0.";

type Break = fn(&mut Broken);

const BREAKS: &[(&str, Break)] = &[
    ("rows of q as GGUF has them", |model| {
        // Pairs of rotary embeddings side by side in place of half a head apart.
        let from = |row: usize| row / 64 * 64 + row % 64 / 2 + row % 2 * 32;
        model.rows(&format!("{LAYER}self_attn.q_proj.weight"), from);
    }),
    ("factors of a norm less 1", |model| {
        model.each(&format!("{LAYER}input_layernorm.weight"), |factor| factor - 1.0);
    }),
    ("another base of rotary embeddings", |model| {
        model.config["rope_theta"] = 100.into();
        model.config["rope_parameters"]["rope_theta"] = 100.into();
    }),
    ("heads of v swapped", |model| {
        model.rows(&format!("{LAYER}self_attn.v_proj.weight"), |row| (row + 64) % 128);
    }),
    ("gate in the place of up", |model| {
        let gate = model.bytes(&format!("{LAYER}mlp.gate_proj.weight")).to_vec();
        let up = model.bytes(&format!("{LAYER}mlp.up_proj.weight")).to_vec();
        model.bytes(&format!("{LAYER}mlp.up_proj.weight")).copy_from_slice(&gate);
        model.bytes(&format!("{LAYER}mlp.gate_proj.weight")).copy_from_slice(&up);
    }),
    ("embeddings moved by one token", |model| {
        model.rows("model.embed_tokens.weight", |row| (row + 1) % 512);
    }),
    ("another activation", |model| model.config["hidden_act"] = "relu".into()),
    ("a large epsilon", |model| model.config["rms_norm_eps"] = 1.into()),
    ("layers in another order", |model| {
        let name = |layer: usize| format!("model.layers.{layer}.mlp.down_proj.weight");
        let [first, second] = [0, 1].map(|layer| model.bytes(&name(layer)).to_vec());
        model.bytes(&name(0)).copy_from_slice(&second);
        model.bytes(&name(1)).copy_from_slice(&first);
    }),
    ("scores that overflow", |model| {
        model.each("model.norm.weight", |factor| factor * 3e38);
    }),
    ("weights of one block too small", |model| {
        model.each(&format!("{LAYER}self_attn.o_proj.weight"), |weight| weight / 16.0);
    }),
    ("heads of half the width", |model| {
        model.config["head_dim"] = 32.into();
        model.config["num_attention_heads"] = 8.into();
        model.config["num_key_value_heads"] = 4.into();
    }),
];

#[test]
fn every_break_is_seen_and_the_whole_model_is_fine() {
    let fine = printed(&["verify", HF, "--run"]);
    assert!(fine.contains("; ran 64 tokens of a text, perplexity "), "{fine}");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let compare =
        |path: &str| run(&["quality", HF, path, "--tokens", "128", "--max-kl", "0.001", "--json"]);
    for (number, (name, change)) in BREAKS.iter().enumerate() {
        let mut model = Broken::sample();
        change(&mut model);
        let path = folder.path().join(number.to_string());
        model.write(&path);
        let path = path.to_str().expect("a path");
        let verified = run(&["verify", path, "--run"]).status;
        let compared = compare(path);
        assert!(
            verified == Some(1) || compared.status == Some(1),
            "{name}: verify {verified:?}, compare {}{}",
            compared.out,
            compared.err
        );
    }
    assert_eq!(compare(HF).status, Some(0));
}

#[test]
fn what_cannot_be_run_is_said() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("model");
    let mut model = Broken::sample();
    model.each("model.norm.weight", |_| f32::MAX);
    model.write(&path);
    let path = path.to_str().expect("a path");
    let ran = run(&["verify", path, "--run"]);
    let fault = "fault: logits of position 0 are infinite or NaN\n";
    assert_eq!((ran.status, ran.out.starts_with(fault)), (Some(1), true), "{}", ran.out);
    assert_eq!(run(&["verify", path]).status, Some(0));
}
