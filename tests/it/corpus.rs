//! Replays the fuzz targets' corpora, so that what fuzzing found once is tried with every compiler.
#![allow(clippy::disallowed_methods, reason = "the files are the test's own")]

use std::path::{Path, PathBuf};

use crate::support::{
    DIGESTS, Gguf, Kv, Safetensors, WhisperGgml, any_file, codec_bytes, decodable, f32s,
    gguf_bytes, index, index_bytes, mlx_bytes, ollama_bytes, packed, safetensors_bytes,
    tokenizer_bytes, whisper_ggml_bytes,
};
use weighbridge::DType;
use weighbridge::dtype::DTYPES;

/// A fuzz target, its body, and the well-formed inputs that its corpus begins with.
struct Target {
    name: &'static str,
    body: fn(&[u8]),
    seeds: fn() -> Vec<(&'static str, Vec<u8>)>,
}

const TARGETS: [Target; 9] = [
    Target { name: "gguf", body: gguf_bytes, seeds: gguf_seeds },
    Target { name: "safetensors", body: safetensors_bytes, seeds: safetensors_seeds },
    Target { name: "weight_map", body: index_bytes, seeds: index_seeds },
    Target { name: "mlx", body: mlx_bytes, seeds: mlx_seeds },
    Target { name: "ollama", body: ollama_bytes, seeds: ollama_seeds },
    Target { name: "whisper_ggml", body: whisper_ggml_bytes, seeds: whisper_ggml_seeds },
    Target { name: "tokenizer", body: tokenizer_bytes, seeds: tokenizer_seeds },
    Target { name: "codecs", body: codecs, seeds: codec_seeds },
    Target { name: "detect", body: any_file, seeds: file_seeds },
];

fn codecs(bytes: &[u8]) {
    codec_bytes(bytes);
}

fn corpus(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target.name)
}

#[test]
fn every_input() {
    for target in &TARGETS {
        let files = std::fs::read_dir(corpus(target)).expect("the corpus of a fuzz target");
        for file in files {
            let path = file.expect("an entry of the corpus").path();
            // Shown where the body panics.
            println!("{}", path.display());
            (target.body)(&std::fs::read(&path).expect("a file of the corpus"));
        }
    }
}

/// With `WRITE_SEEDS` in the environment the seeds are written anew instead.
#[test]
fn seeds_are_those_of_the_builders() {
    for target in &TARGETS {
        for (name, bytes) in (target.seeds)() {
            let path = corpus(target).join(name);
            if std::env::var_os("WRITE_SEEDS").is_some() {
                std::fs::create_dir_all(corpus(target)).expect("a folder");
                std::fs::write(&path, &bytes).expect("a seed");
            }
            let there = std::fs::read(&path).unwrap_or_default();
            assert!(there == bytes, "{}: run this test with WRITE_SEEDS=1", path.display());
        }
    }
}

/// A key of each type, and arrays of each.
fn keys(file: Gguf) -> Gguf {
    let values = [
        Kv::U8(1),
        Kv::I8(-1),
        Kv::U16(2),
        Kv::I16(-2),
        Kv::U32(3),
        Kv::I32(-3),
        Kv::F32(0.5),
        Kv::Bool(true),
        Kv::text("text"),
        Kv::U64(4),
        Kv::I64(-4),
        Kv::F64(0.25),
    ];
    let file = values.iter().fold(file, |file, value| {
        let code = value.code();
        let array = Kv::Array(code, vec![value.clone(), value.clone()]);
        file.key(format!("k{code}"), value.clone()).key(format!("a{code}"), array)
    });
    file.key("nested", Kv::Array(9, vec![Kv::texts(&["a", ""]), Kv::Array(9, vec![])]))
}

/// One layer of a model that can be resolved, with a config.
fn llama() -> Gguf {
    let keys = [
        ("llama.block_count", Kv::U32(1)),
        ("llama.embedding_length", Kv::U32(4)),
        ("llama.attention.head_count", Kv::U32(2)),
        ("llama.attention.head_count_kv", Kv::Array(5, vec![Kv::I32(1)])),
        ("llama.feed_forward_length", Kv::U32(4)),
        ("llama.attention.layer_norm_rms_epsilon", Kv::F32(1e-5)),
        ("llama.rope.freq_base", Kv::F32(1e4)),
        ("tokenizer.ggml.tokens", Kv::texts(&["a", "b"])),
    ];
    let file = Gguf::new().key("general.architecture", Kv::text("llama"));
    let file = keys.into_iter().fold(file, |file, (key, value)| file.key(key, value));
    file.tensor("token_embd.weight", DType::F32, &[2, 4], vec![0; 32])
        .tensor("output_norm.weight", DType::F32, &[4], vec![0; 16])
        .tensor("blk.0.attn_q.weight", DType::F16, &[4, 4], vec![0; 32])
        .tensor("blk.0.attn_k.weight", DType::F16, &[2, 4], vec![0; 16])
}

/// One block of each dtype that GGUF has.
fn every_dtype() -> Gguf {
    DTYPES.iter().filter(|row| row.ggml.is_some()).fold(Gguf::new(), |file, row| {
        let bytes = vec![1; (row.row_head + row.block_bytes) as usize];
        file.tensor(row.name, row.dtype, &[row.block_len.into()], bytes)
    })
}

fn gguf_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let shard = Gguf::new().key("split.no", Kv::U16(0)).key("split.count", Kv::U16(1));
    let overlap = Gguf::new().tensor("a", DType::I8, &[2], [1, 2]).tensor("b", DType::I8, &[1], []);
    let scale = f32s(&[2.0]);
    let nvfp4 = Gguf::new().tensor("x.weight", DType::NVFP4, &[1, 64], vec![1; 36]);
    vec![
        ("empty", Gguf::new().build()),
        ("keys", keys(Gguf::new()).build()),
        ("keys-v1", keys(Gguf::new().version(1)).build()),
        ("keys-v2", keys(Gguf::new().version(2)).build()),
        ("keys-big-endian", keys(Gguf::new().big_endian()).build()),
        ("llama", llama().build()),
        ("llama-v1", llama().version(1).build()),
        ("llama-big-endian", llama().big_endian().build()),
        ("dtypes", every_dtype().aligned(1).build()),
        ("dtypes-big-endian", every_dtype().aligned(1).big_endian().build()),
        ("aligned", Gguf::new().aligned(4).tensor("a", DType::I8, &[1], [1]).build()),
        (
            "unpadded",
            Gguf::new().tensor("a", DType::I8, &[1], [1]).with(|f| f.unpadded = true).build(),
        ),
        ("shared", overlap.at(0).build()),
        ("shard", shard.build()),
        ("nvfp4", nvfp4.tensor("x.scale", DType::F32, &[1], scale).build()),
        ("scalar", Gguf::new().tensor("a", DType::F32, &[], f32s(&[1.0])).build()),
        ("zero", Gguf::new().tensor("a", DType::Q4_0, &[0, 32], []).build()),
    ]
}

fn safetensors_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let two = Safetensors::new()
        .metadata("format", "pt")
        .tensor("a", "F32", &[2], f32s(&[1.0, 2.0]))
        .tensor("b", "BF16", &[1, 3], [0; 6]);
    let dtypes = DTYPES.iter().fold(Safetensors::new(), |file, row| match row.safetensors {
        Some(name) => {
            let (len, bytes) = (row.block_len.into(), vec![1; row.block_bytes as usize]);
            file.tensor(row.name, name, &[len], bytes)
        }
        None => file,
    });
    let text = |text: &str| Safetensors::text(text, []).build();
    let twice = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\
                  \"a\":{\"dtype\":\"U8\",\"shape\":[1.0],\"x\":[{}],\"data_offsets\":[0,1]}}";
    vec![
        ("two", two.build()),
        ("spaced", two.clone().with(|file| file.spaced = true).build()),
        ("escaped", two.clone().with(|file| file.escape = true).build()),
        ("after", two.with(|file| file.after = vec![0]).build()),
        ("dtypes", dtypes.build()),
        ("scalar", Safetensors::new().tensor("", "U8", &[], [1]).build()),
        ("twice", Safetensors::text(twice, [1]).build()),
        ("null", text("{\"__metadata__\":null}")),
        ("list", text("{\"__metadata__\":[true,false,-1.5e3]} \n\0")),
        ("keys", text("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"},\"__metadata__\":{}}")),
    ]
}

fn index_seeds() -> Vec<(&'static str, Vec<u8>)> {
    const ONE: (&str, &str) = ("model.embed_tokens.weight", "model-00001-of-00002.safetensors");
    const TWO: (&str, &str) = ("model.norm.weight", "model-00002-of-00002.safetensors");
    let with = |config: &str| [index(&[ONE, TWO]).as_bytes(), b"\xff", config.as_bytes()].concat();
    vec![
        ("both", index(&[ONE, TWO]).into_bytes()),
        ("one", index(&[ONE]).into_bytes()),
        ("swapped", index(&[(ONE.0, TWO.1), (TWO.0, ONE.1)]).into_bytes()),
        ("stale", index(&[(ONE.0, "sub/absent.safetensors")]).into_bytes()),
        ("empty", index(&[]).into_bytes()),
        ("config", with(CONFIG)),
        (
            "infinity",
            with("{\"model_type\":\"llama\",\"rope_theta\":Infinity,\"x\":[NaN,\"NaN\\\"\"]}"),
        ),
        ("nested", with(&format!("{{\"model_type\":\"x\",\"text_config\":{CONFIG}}}"))),
    ]
}

const CONFIG: &str = "{\"model_type\":\"qwen2\",\"hidden_size\":4,\"num_hidden_layers\":1,\
    \"num_attention_heads\":2,\"num_key_value_heads\":1,\"intermediate_size\":8,\"vocab_size\":2,\
    \"max_position_embeddings\":16,\"rms_norm_eps\":1e-06,\"rope_theta\":10000.0,\
    \"rope_parameters\":{\"rope_theta\":5.0},\"num_local_experts\":0}";

fn mlx_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let affine = "{\"model_type\":\"llama\",\"hidden_size\":64,\
        \"quantization\":{\"group_size\":32,\"bits\":4,\"mode\":\"affine\",\"m\":{\"group_size\":32,\"bits\":4}}}";
    let mode = |mode: &str, bits: u32, size: u32| {
        format!(
            "{{\"quantization\":{{\"group_size\":{size},\"bits\":{bits},\"mode\":\"{mode}\"}}}}"
        )
    };
    // One row of one group.
    let floating = |words: u32| {
        Safetensors::new()
            .tensor("m.weight", "U32", &[1, words.into()], [0; 4].repeat(words as usize))
            .tensor("m.scales", "U8", &[1, 1], [0])
            .header()
    };
    let with = |config: &str, header: &[u8]| [config.as_bytes(), b"\xff", header].concat();
    let mut seeds = vec![
        ("affine", affine.as_bytes().to_vec()),
        ("affine-header", with(affine, &packed("m.weight", "m.scales", "m.biases").header())),
        ("mxfp4", with(&mode("mxfp4", 4, 32), &floating(4))),
        ("mxfp8", with(&mode("mxfp8", 8, 32), &floating(8))),
        ("nvfp4", with(&mode("nvfp4", 4, 16), &floating(2))),
        ("unquantized", with(CONFIG, &floating(1))),
        ("archive", with(affine, &archive())),
    ];
    let other = "{\"model_type\":\"llama\",\"quantization_config\":{\"quant_method\":\"\"}}";
    for (name, file) in other_schemes() {
        let data = file.arrays.iter().flat_map(|array| array.bytes.clone()).collect::<Vec<u8>>();
        seeds.push((name, [&with(other, &file.header()), &b"\xff"[..], &data].concat()));
    }
    seeds
}

/// One small weight of each of the schemes that are neither GGUF's nor MLX's.
fn other_schemes() -> [(&'static str, Safetensors); 9] {
    let state = "{\"shape\":[2,32],\"blocksize\":64,\"quant_type\":\"nf4\",\"dtype\":\"float16\"}";
    let dims: Vec<u8> = [2u64, 8].iter().flat_map(|dim| dim.to_le_bytes()).collect();
    let index: Vec<u8> = (0..32).flat_map(|_| 0u32.to_le_bytes()).collect();
    let new = Safetensors::new;
    [
        (
            "gptq",
            new()
                .tensor("l.qweight", "I32", &[4, 8], [0x21; 128])
                .tensor("l.qzeros", "I32", &[1, 1], [0x77; 4])
                .tensor("l.scales", "F16", &[1, 8], [0, 0x3c].repeat(8))
                .tensor("l.g_idx", "I32", &[32], index),
        ),
        (
            "awq",
            new()
                .tensor("l.qweight", "I32", &[32, 1], [0x21; 128])
                .tensor("l.qzeros", "I32", &[1, 1], [0x77; 4])
                .tensor("l.scales", "F16", &[1, 8], [0, 0x3c].repeat(8)),
        ),
        (
            "compressed",
            new()
                .tensor("l.weight_packed", "I32", &[2, 1], [0x21; 8])
                .tensor("l.weight_scale", "BF16", &[2, 1], [0x80, 0x3f].repeat(2))
                .tensor("l.weight_shape", "I64", &[2], dims),
        ),
        (
            "compressed-nvfp4",
            new()
                .tensor("l.weight_packed", "U8", &[2, 16], [0x21; 32])
                .tensor("l.weight_scale", "F8_E4M3", &[2, 2], [0x38; 4])
                .tensor("l.weight_global_scale", "F32", &[1], f32s(&[2.0])),
        ),
        (
            "gpt-oss",
            new().tensor("e_blocks", "U8", &[1, 2, 1, 16], [0x21; 32]).tensor(
                "e_scales",
                "U8",
                &[1, 2, 1],
                [127; 2],
            ),
        ),
        (
            "bitsandbytes",
            new()
                .tensor("l.weight", "U8", &[32, 1], [0x21; 32])
                .tensor("l.weight.absmax", "F32", &[1], f32s(&[1.0]))
                .tensor("l.weight.quant_map", "F32", &[16], f32s(&[0.5; 16]))
                .tensor(
                    "l.weight.quant_state.bitsandbytes__nf4",
                    "U8",
                    &[state.len() as u64],
                    state,
                ),
        ),
        (
            "bitsandbytes-int8",
            new().tensor("l.weight", "I8", &[2, 4], [1; 8]).tensor(
                "l.SCB",
                "F32",
                &[2],
                f32s(&[1.0, 2.0]),
            ),
        ),
        (
            "model-opt",
            new()
                .tensor("l.weight", "U8", &[2, 16], [0x21; 32])
                .tensor("l.weight_scale", "F8_E4M3", &[2, 2], [0x38; 4])
                .tensor("l.weight_scale_2", "F32", &[], f32s(&[2.0])),
        ),
        (
            "fp8",
            new().tensor("l.weight", "F8_E4M3", &[2, 4], [0x38; 8]).tensor(
                "l.weight_scale_inv",
                "F32",
                &[1, 1],
                f32s(&[2.0]),
            ),
        ),
    ]
}

/// A zip of one array that is stored as it is.
fn archive() -> Vec<u8> {
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n";
    let length = u16::try_from(header.len()).expect("a short header").to_le_bytes();
    let npy = [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), &f32s(&[1.0, 2.0])].concat();
    let size = u32::try_from(npy.len()).expect("a small array").to_le_bytes();
    // Version, flags, method, time and date; a checksum that nobody looks at; sizes and lengths.
    let about =
        [&[20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &size, &size, &[5, 0, 0, 0]].concat();
    let mut zip = [b"PK\x03\x04", &about[..], b"a.npy", &npy].concat();
    let directory = u32::try_from(zip.len()).expect("a small archive").to_le_bytes();
    let entry = [b"PK\x01\x02\x14\x00", &about[..], &[0; 14], b"a.npy"].concat();
    let size = u32::try_from(entry.len()).expect("a small archive").to_le_bytes();
    zip.extend(entry);
    zip.extend([b"PK\x05\x06\0\0\0\0\x01\0\x01\0", &size[..], &directory, &[0, 0]].concat());
    zip
}

fn ollama_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let layer = |kind: &str, digest: usize, size: &str, name: &str| {
        format!(
            "{{\"mediaType\":\"application/vnd.ollama.image.{kind}\",\"digest\":\"{}\",\
              \"size\":{size},\"name\":\"{name}\"}}",
            DIGESTS[digest]
        )
    };
    let manifest = |layers: &[String]| {
        format!(
            "{{\"schemaVersion\":2,\"config\":{},\"layers\":[{}]}}",
            layer("json", 1, "18", ""),
            layers.join(",")
        )
    };
    let tensor = layer("tensor", 0, "SIZE", "m.weight");
    let config = layer("json", 1, "18", "config.json");
    let blob = Safetensors::new()
        .metadata("quant_type", "int4")
        .metadata("group_size", "32")
        .tensor("data", "U8", &[1], [1])
        .header();
    let with = |manifest: String, header: &[u8]| [manifest.as_bytes(), b"\xff", header].concat();
    let child = format!("{{\"runner\":\"mlx\",\"digest\":\"{}\"}}", DIGESTS[1]);
    vec![
        ("tensor", manifest(&[tensor.clone(), config.clone()]).into_bytes()),
        ("named-data", with(manifest(&[tensor.clone(), config.clone()]), &blob)),
        ("model", manifest(&[layer("model", 0, "SIZE", ""), config]).into_bytes()),
        (
            "texts",
            manifest(&[tensor, layer("template", 1, "18", ""), layer("license", 2, "1", "")])
                .into_bytes(),
        ),
        ("missing", manifest(&[layer("tensor", 2, "1", "m")]).into_bytes()),
        ("list", format!("{{\"schemaVersion\":2,\"manifests\":[{child}]}}").into_bytes()),
    ]
}

fn tokenizer_seeds() -> Vec<(&'static str, Vec<u8>)> {
    // The first byte chooses the file, and a config for each four of them.
    let of = |first: u8, file: &str, config: &str| {
        let mut seed = [&[first], file.as_bytes()].concat();
        if !config.is_empty() {
            seed.extend([b"\xff", config.as_bytes()].concat());
        }
        seed
    };
    let config = r#"{"bos_token":"<s>","eos_token":{"content":"</s>"},"add_bos_token":true,
        "added_tokens_decoder":{"2":{"content":"</s>","special":true}},"chat_template":"{{ a }}"}"#;
    let added = r#""added_tokens":[{"id":0,"content":"<s>","special":true}]"#;
    let bytes = r#"{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true}"#;
    let bpe = format!(
        r#"{{{added},"pre_tokenizer":{bytes},"model":{{"type":"BPE",
        "vocab":{{"<s>":0,"t":1,"h":2,"th":3,"\u0120t":4}},"merges":["t h",["\u0120","t"]]}}}}"#
    );
    let fallback = r#"{"model":{"type":"BPE","byte_fallback":true,"unk_token":"<unk>",
        "vocab":{"<unk>":0,"<0x0A>":1,"a":2,"b":3,"ab":4},"merges":["a b"]}}"#;
    let unigram = format!(
        r#"{{{added},"normalizer":{{"type":"Precompiled","precompiled_charsmap":"AAEC/f7/"}},
        "pre_tokenizer":{{"type":"Sequence","pretokenizers":[{{"type":"WhitespaceSplit"}},
        {{"type":"Metaspace","replacement":"_","prepend_scheme":"always"}}]}},
        "model":{{"type":"Unigram","unk_id":1,"vocab":[["<s>",0],["<unk>",0.0],["a",-2.5]]}}}}"#
    );
    let words = r###"{"normalizer":{"type":"BertNormalizer","lowercase":true},
        "model":{"type":"WordPiece","unk_token":"[UNK]","vocab":{"[UNK]":0,"the":1,"##re":2}}}"###;
    let piece = b"\x0a\x0c\x0a\x03\xe2\x96\x81\x15\0\0\x60\xc0\x18\x01";
    let trainer = b"\x12\x02\x18\x02";
    vec![
        ("bpe", of(0, &bpe, config)),
        ("fallback", of(0, fallback, config)),
        ("gemma4", of(4, fallback, config)),
        ("unigram", of(8, &unigram, config)),
        ("words", of(8, words, "")),
        ("sentencepiece", [&[1][..], piece, trainer].concat()),
        ("vocab", of(2, "{\"t\":0,\"h\":1}", "")),
        ("lines", of(11, "[PAD]\n[UNK]\r\nthe", "")),
    ]
}

fn whisper_ggml_seeds() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("whisper", WhisperGgml::small().build()),
        ("whisper-empty", WhisperGgml::whisper(1, 1, &[]).build()),
        ("parakeet", WhisperGgml::parakeet().filled(19).build()),
        ("silero", WhisperGgml::silero().filled(9).build()),
    ]
}

/// Numbers of the table's rows, a shape and some bytes: few seeds, for the numbers change with the
/// table. That each dtype is met says `codecs_meet_every_dtype`.
fn codec_seeds() -> Vec<(&'static str, Vec<u8>)> {
    // Bytes of ordinary halves, and of floats that are NaN or infinite.
    const ORDINARY: [u8; 9] = [0x12, 0x34, 0x9a, 0x2c, 0x55, 0x38, 0xe1, 0xb4, 0x07];
    const ODD: [u8; 12] = [0, 0x7c, 1, 0x7e, 0, 0, 0x80, 0x7f, 0xff, 0xff, 0, 0x80];
    let seed = |head: [u8; 6], data: &[u8]| [&head, data].concat();
    vec![
        ("none", seed([0; 6], &[])),
        ("plain", seed([8, 1, 40, 0, 1, 3], &ORDINARY)),
        ("block", seed([30, 2, 1, 0, 1, 5], &ORDINARY)),
        ("block-big-endian", seed([30, 2, 1, 1, 0, 5], &ORDINARY)),
        ("block-odd", seed([40, 2, 1, 0, 0, 5], &ODD)),
        ("group", seed([60, 2, 1, 0, 1, 7], &ORDINARY)),
        ("group-odd", seed([64, 2, 1, 2, 3, 7], &ODD)),
        ("scheme", seed([70, 1, 1, 2, 3, 9], &ORDINARY)),
        ("scheme-odd", seed([80, 1, 1, 2, 1, 9], &ODD)),
    ]
}

/// Every dtype that can be decoded, with parts of every kind, of ordinary bytes and odd ones.
#[test]
fn codecs_meet_every_dtype() {
    let mut state = 1u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    for (number, row) in decodable().enumerate() {
        for parts in 0..24 {
            let number = u8::try_from(number).expect("a table of at most 256 dtypes");
            let mut input = vec![number, random(), random(), random(), parts, random()];
            input.extend((0..random()).map(|_| random()));
            println!("{}, {:?}", row.name, &input[..6]);
            assert_eq!(codec_bytes(&input), Some(row.dtype));
        }
    }
}

fn file_seeds() -> Vec<(&'static str, Vec<u8>)> {
    // The first byte chooses the name.
    let named = |name: u8, bytes: &[u8]| [&[name], bytes].concat();
    let gguf = Gguf::new().tensor("a", DType::I8, &[1], [1]).build();
    let shard = Gguf::new().key("split.no", Kv::U16(1)).key("split.count", Kv::U16(3)).build();
    let safetensors = Safetensors::new().tensor("a", "U8", &[1], [1]).build();
    vec![
        ("gguf", named(0, &gguf)),
        ("safetensors", named(0, &safetensors)),
        ("named-safetensors", named(1, &safetensors)),
        ("named-gguf", named(2, &gguf)),
        ("incomplete", named(3, &gguf)),
        ("config", named(4, CONFIG.as_bytes())),
        ("index", named(5, index(&[]).as_bytes())),
        ("shard", named(6, &shard)),
        ("empty", named(0, b"")),
        ("html", named(7, b"<!DOCTYPE html>")),
        ("pickle", named(7, b"\x80\x02}q\0")),
        ("zip", named(7, b"PK\x03\x04")),
        ("whisper", named(7, &WhisperGgml::small().build())),
        ("link", named(0, b"../../blobs/0123")),
        ("zeros", named(0, &[0; 16])),
    ]
}
