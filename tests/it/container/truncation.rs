//! Well-formed files cut at every byte, and with every byte of the header changed: any outcome but
//! a panic, and what opens can be looked at from end to end.
#![allow(clippy::disallowed_methods, reason = "the files are the test's own")]

use crate::support::{Gguf, Kv, POLICIES, Safetensors, WhisperGgml, f32s, open_as, sharded, walk};
use weighbridge::{DType, Model, Strictness};

/// A file with a key of each type, an array of arrays, and tensors of several dtypes.
fn gguf(version: u32) -> Gguf {
    Gguf::new()
        .version(version)
        .key("general.architecture", Kv::text("llama"))
        .key("u8", Kv::U8(1))
        .key("i16", Kv::I16(-2))
        .key("bool", Kv::Bool(true))
        .key("f64", Kv::F64(0.5))
        .key("texts", Kv::texts(&["a", "", "bc"]))
        .key("nested", Kv::Array(9, vec![Kv::Array(0, vec![Kv::U8(1)]), Kv::Array(8, vec![])]))
        .aligned(16)
        .tensor("blk.0.attn_norm.weight", DType::F32, &[3], f32s(&[1.0, 2.0, 3.0]))
        .tensor("q", DType::Q8_0, &[2, 32], vec![1; 68])
        .tensor("s", DType::F16, &[], [0, 0x3c])
}

fn every_gguf() -> [Gguf; 4] {
    [gguf(1), gguf(2), gguf(3), gguf(3).big_endian()]
}

fn safetensors() -> Safetensors {
    Safetensors::new()
        .metadata("format", "pt")
        .metadata("k\n", "\u{1f980}")
        .tensor("a", "F32", &[2], f32s(&[1.0, 2.0]))
        .tensor("b\"", "BF16", &[1, 3], [0; 6])
        .tensor("c", "U8", &[0], [])
}

/// Each change that a byte goes through.
const CHANGES: [fn(u8) -> u8; 4] =
    [|_| 0, |_| 0xff, |byte| byte.wrapping_add(1), |byte| byte ^ 0x80];

/// Opens what is left of a file, under every policy. Says how many of them accept it.
fn outcomes(file: &[u8]) -> usize {
    let opened = POLICIES.map(|policy| open_as(file.to_vec(), policy).ok());
    opened.iter().flatten().inspect(|store| walk(store)).count()
}

fn cut_everywhere(file: &[u8]) {
    for end in 0..file.len() {
        outcomes(&file[..end]);
    }
    assert_eq!(outcomes(file), POLICIES.len(), "the whole file is fine");
}

fn change_everything(file: &[u8], header: usize) {
    let mut changed = file.to_vec();
    for place in 0..header {
        for change in CHANGES {
            changed[place] = change(file[place]);
            outcomes(&changed);
        }
        changed[place] = file[place];
    }
    assert_eq!(changed, file);
}

#[test]
fn gguf_cut_short() {
    // A strict reader takes little of this, so say what the default one does.
    for file in every_gguf() {
        let whole = file.build();
        let data: usize = file.tensors.iter().map(|entry| entry.bytes.len()).sum();
        for end in 0..whole.len() {
            let opened = open_as(whole[..end].to_vec(), Strictness::Default);
            assert!(opened.is_err() || end + 16 > file.header().len() + data, "{end}");
            outcomes(&whole[..end]);
        }
        walk(&open_as(whole, Strictness::Default).expect("the whole file"));
    }
}

#[test]
fn gguf_changed() {
    for file in every_gguf() {
        change_everything(&file.build(), file.header().len());
    }
}

#[test]
fn safetensors_cut_short() {
    let file = safetensors();
    cut_everywhere(&file.build());
    cut_everywhere(&file.with(|file| file.spaced = true).build());
}

#[test]
fn safetensors_changed() {
    for spaced in [false, true] {
        let file = safetensors().with(|file| file.spaced = spaced);
        change_everything(&file.build(), 8 + file.header().len());
    }
}

fn every_whisper() -> [WhisperGgml; 3] {
    let (parakeet, silero) = (WhisperGgml::parakeet(), WhisperGgml::silero());
    [WhisperGgml::small(), parakeet.filled(19), silero.filled(9)]
}

#[test]
fn whisper_cut_short() {
    for file in every_whisper() {
        let whole = file.build();
        for end in 0..whole.len() {
            // Without any tensor it is a file like those that whisper.cpp is tested with.
            let empty = end == file.header.len();
            for policy in [Strictness::Strict, Strictness::Default] {
                assert_eq!(open_as(whole[..end].to_vec(), policy).is_ok(), empty, "{end}");
            }
        }
        cut_everywhere(&whole);
    }
}

#[test]
fn whisper_changed() {
    for file in every_whisper() {
        let whole = file.build();
        change_everything(&whole, whole.len());
    }
}

/// An index, and one of its shards, cut at every byte.
#[test]
fn folders_cut_short() {
    let names = ["model.safetensors.index.json", "model-00001-of-00002.safetensors"];
    let second = Safetensors::new().tensor("z", "F32", &[1], f32s(&[1.0]));
    let shards = [(names[1], safetensors()), ("model-00002-of-00002.safetensors", second)];
    let folder = sharded(&shards);
    for name in names {
        let path = folder.path().join(name);
        let whole = std::fs::read(&path).expect("the file that was just written");
        for end in 0..whole.len() {
            std::fs::write(&path, &whole[..end]).expect("a shorter file");
            assert!(Model::open(folder.path()).is_err(), "{name} cut at {end}");
        }
        std::fs::write(&path, &whole).expect("the whole file");
    }
    walk(&Model::open(folder.path()).expect("the whole folder"));
}
