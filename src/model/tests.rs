//! Opens models of some sizes and says so on standard error, for `cargo xtask counts`.

use super::*;

/// Prints a line without a second call of the system, which would be counted too.
fn say(line: &str) {
    use std::io::Write;
    std::io::stderr().write_all(line.as_bytes()).expect("standard error");
}

/// The tensors of a layer of Llama, with their shapes in GGUF's order.
const LAYER: &[(&str, &str, &[u64])] = &[
    ("attn_norm", "input_layernorm", &[64]),
    ("attn_q", "self_attn.q_proj", &[64, 64]),
    ("attn_k", "self_attn.k_proj", &[64, 32]),
    ("attn_v", "self_attn.v_proj", &[64, 32]),
    ("attn_output", "self_attn.o_proj", &[64, 64]),
    ("ffn_norm", "post_attention_layernorm", &[64]),
    ("ffn_gate", "mlp.gate_proj", &[64, 128]),
    ("ffn_up", "mlp.up_proj", &[64, 128]),
    ("ffn_down", "mlp.down_proj", &[128, 64]),
];

/// The bytes of a tensor in `F32`.
fn bytes(shape: &[u64]) -> usize {
    usize::try_from(shape.iter().product::<u64>() * 4).unwrap()
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

/// A GGUF file of Llama in `F32`.
fn gguf(layers: u32, tokens: u32) -> Vec<u8> {
    let mut infos = Vec::new();
    let mut offset = 0;
    let tensors = (0..layers).flat_map(|layer| {
        LAYER.iter().map(move |(name, _, shape)| (format!("blk.{layer}.{name}.weight"), *shape))
    });
    let rows = u64::from(tokens.max(2));
    let embedding = [64, rows];
    let outer: [(String, &[u64]); 2] =
        [("token_embd.weight".into(), &embedding), ("output_norm.weight".into(), &[64])];
    for (name, shape) in outer.into_iter().chain(tensors) {
        text(&mut infos, &name);
        infos.extend(u32::try_from(shape.len()).unwrap().to_le_bytes());
        infos.extend(shape.iter().flat_map(|size| size.to_le_bytes()));
        infos.extend(0u32.to_le_bytes());
        infos.extend((offset as u64).to_le_bytes());
        offset += bytes(shape);
    }
    let mut keys = Vec::new();
    let numbers = [
        ("llama.block_count", layers),
        ("llama.embedding_length", 64),
        ("llama.feed_forward_length", 128),
        ("llama.attention.head_count", 4),
        ("llama.attention.head_count_kv", 2),
        ("llama.context_length", 512),
    ];
    text(&mut keys, "general.architecture");
    keys.extend(8u32.to_le_bytes());
    text(&mut keys, "llama");
    for (key, number) in numbers {
        text(&mut keys, key);
        keys.extend(4u32.to_le_bytes());
        keys.extend(number.to_le_bytes());
    }
    text(&mut keys, "tokenizer.ggml.tokens");
    keys.extend(9u32.to_le_bytes());
    keys.extend(8u32.to_le_bytes());
    keys.extend(u64::from(tokens).to_le_bytes());
    for token in 0..tokens {
        text(&mut keys, &format!("token {token}"));
    }

    let mut file = b"GGUF\x03\0\0\0".to_vec();
    file.extend((u64::from(layers) * LAYER.len() as u64 + 2).to_le_bytes());
    file.extend((numbers.len() as u64 + 2).to_le_bytes());
    file.extend(keys);
    file.extend(infos);
    file.resize(file.len().next_multiple_of(32) + offset, 0);
    file
}

/// A safetensors file of Llama in `F32`, without a config.
fn safetensors(layers: u64) -> Vec<u8> {
    let mut offset = 0;
    let mut entry = |layer: u64, name: &str, shape: &[u64]| {
        let shape: Vec<u64> = shape.iter().rev().copied().collect();
        let end = offset + bytes(&shape);
        // Without white space, as nearly all files are written.
        let shape = format!("{shape:?}").replace(' ', "");
        let name = format!("model.layers.{layer}.{name}.weight");
        let entry = format!(
            r#""{name}":{{"dtype":"F32","shape":{shape},"data_offsets":[{offset},{end}]}}"#
        );
        offset = end;
        entry
    };
    let names = (0..layers).flat_map(|layer| LAYER.iter().map(move |of| (layer, of)));
    let entries: Vec<String> =
        names.map(|(layer, (_, name, shape))| entry(layer, name, shape)).collect();
    let header = format!("{{{}}}", entries.join(","));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.resize(file.len() + offset, 0);
    file
}

/// Says what is done before and after it, and does it once without a word, for what is made once.
fn measure<T>(what: &str, input: impl Fn() -> T, run: impl Fn(T)) {
    run(input());
    let input = input();
    say(&format!("{what} all begin\n"));
    run(input);
    say(&format!("{what} all end\n"));
}

#[test]
#[ignore = "for `cargo xtask counts`"]
fn counts() {
    let options = OpenOptions::new().threads(1);
    let open = |bytes: &'static [u8]| options.open_memory("model", bytes).unwrap();
    for (what, bytes) in [
        ("open GGUF 200-tensors", gguf(22, 2)),
        ("open GGUF 700-tensors", gguf(77, 2)),
        ("open GGUF 20000-tokens", gguf(1, 20_000)),
        ("open safetensors 4000-tensors", safetensors(444)),
    ] {
        let bytes: &'static [u8] = bytes.leak();
        measure(what, || bytes, |bytes| drop(open(bytes)));
    }
    let bytes: &'static [u8] = gguf(77, 2).leak();
    measure(
        "resolve GGUF 700-tensors",
        || open(bytes),
        |model| {
            assert_eq!(model.resolution().unwrap().mapped.len(), 77 * LAYER.len() + 2);
            for name in model.names().unwrap() {
                assert!(model.tensor(name).unwrap().elements() > 0);
            }
            assert_eq!(model.config().unwrap().n_layers.value, 77);
        },
    );
}
