//! The types of numbers in GGUF: files of other writers have numbers of other widths, which llama.cpp refuses.

use tempfile::TempDir;
use weighbridge::container::{GGUF, Strictness};
use weighbridge::metadata::{Value, ValueType};
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::recipe::FileType;
use weighbridge::recipe::llama_cpp::LlamaOptions;
use weighbridge::write::WritePlan;
use weighbridge::{DType, Model, OpenOptions, WriteOptions};

use crate::support::{Gguf, Kv, f32s};

/// A model of one layer whose keys have these values in place of the usual ones.
fn model(other: &[(&str, Kv)]) -> Model {
    with_matrices(DType::F32, other)
}

fn with_matrices(matrices: DType, other: &[(&str, Kv)]) -> Model {
    let number = |key: &str, value| (format!("llama.{key}"), Kv::U32(value));
    let mut keys = vec![
        ("general.architecture".to_owned(), Kv::text("llama")),
        number("context_length", 64),
        number("embedding_length", 32),
        number("block_count", 1),
        number("feed_forward_length", 32),
        number("attention.head_count", 2),
        ("llama.attention.layer_norm_rms_epsilon".to_owned(), Kv::F32(1e-5)),
    ];
    for (key, value) in other {
        keys.retain(|(known, _)| known != key);
        keys.push(((*key).to_owned(), value.clone()));
    }
    let mut file = keys.into_iter().fold(Gguf::new(), |file, (key, value)| file.key(&key, value));
    for name in ["token_embd", "output"] {
        file = file.tensor(format!("{name}.weight"), DType::F32, &[32, 32], f32s(&[1.0; 1024]));
    }
    for name in ["output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"] {
        file = file.tensor(format!("{name}.weight"), DType::F32, &[32], f32s(&[1.0; 32]));
    }
    for name in ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"] {
        let name = format!("blk.0.{name}.weight");
        let zeros = vec![0; 1024 * matrices.bits() as usize / 8];
        file = file.tensor(&name, matrices, &[32, 32], zeros);
    }
    OpenOptions::new().open_memory("m.gguf", file.build()).expect("a model")
}

fn faults(model: &Model) -> String {
    ops::check_consistency(model, Strictness::Strict).expect("a report").faults.join("; ")
}

fn written(plan: &WritePlan) -> (TempDir, Model) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("m.gguf");
    plan.run(&path, &WriteOptions::new()).expect("written");
    (folder, Model::open(path).expect("a model"))
}

#[test]
fn numbers_get_the_types_that_llama_cpp_requires() {
    let sound = faults(&model(&[]));
    assert!(!sound.contains("reads it as"), "{sound}");
    for (key, value, wanted) in [
        ("llama.context_length", Kv::U64(64), ValueType::U32),
        ("llama.block_count", Kv::I32(1), ValueType::U32),
        ("llama.attention.head_count", Kv::U64(2), ValueType::U32),
        ("llama.rope.freq_base", Kv::F64(10000.0), ValueType::F32),
        ("llama.attention.layer_norm_rms_epsilon", Kv::F64(1e-6), ValueType::F32),
        ("general.file_type", Kv::U64(0), ValueType::U32),
        ("tokenizer.ggml.add_bos_token", Kv::U32(1), ValueType::Bool),
    ] {
        let source = model(&[(key, value)]);
        let said = faults(&source);
        assert!(said.contains(key) && said.contains("but llama.cpp reads it as"), "{key}: {said}");
        let quantized = LlamaOptions::new(FileType::Q8_0);
        let plans = [
            ops::convert(&source, &ConvertOptions::new(&GGUF)),
            ops::quantize(&source, &quantized, None, std::path::Path::new("m.gguf")),
        ];
        for plan in plans {
            let plan = plan.unwrap_or_else(|error| panic!("{key}: {error}"));
            let notes = plan.notes.join("; ");
            assert!(notes.contains(&format!("{key}: written as {}", wanted.name())), "{notes}");
            let (_folder, back) = written(&plan);
            assert_eq!(back.metadata().get(key).expect("the key").value_type(), wanted, "{key}");
            assert!(!faults(&back).contains("but llama.cpp reads it as"), "{key}");
        }
    }
}

/// A key that the loader of the architecture does not look at may have any type.
#[test]
fn keys_that_llama_cpp_does_not_read_keep_their_types() {
    for key in ["llama.attention.sliding_window", "llama.ssm.inner_size", "llama.kda.head_dim"] {
        let source = model(&[(key, Kv::U64(8))]);
        let said = faults(&source);
        assert!(!said.contains("reads it as"), "{said}");
        let plan = ops::convert(&source, &ConvertOptions::new(&GGUF)).expect("a plan");
        assert!(!plan.notes.join("; ").contains("llama.cpp requires"), "{:?}", plan.notes);
    }
}

#[test]
fn numbers_in_arrays_and_numbers_that_do_not_fit() {
    let heads = Kv::Array(10, vec![Kv::U64(2)]);
    let source = model(&[("llama.attention.head_count", heads)]);
    let plan = ops::convert(&source, &ConvertOptions::new(&GGUF)).expect("a plan");
    let (_folder, back) = written(&plan);
    let Some(Value::Array(array)) = back.metadata().get("llama.attention.head_count") else {
        panic!("an array")
    };
    assert_eq!((array.element_type(), array.len()), (ValueType::U32, 1));
    // mlx-lm writes the kinds of tokens without a sign.
    let array = |element: Kv| Kv::Array(element.code(), vec![element; 32]);
    for (key, element, wanted) in [
        ("tokenizer.ggml.token_type", Kv::U32(1), ValueType::I32),
        ("tokenizer.ggml.scores", Kv::F64(0.5), ValueType::F32),
    ] {
        let texts = (0..32).map(|n| Kv::text(&format!("t{n}"))).collect();
        let tokens = Kv::Array(Kv::text("").code(), texts);
        let source = model(&[("tokenizer.ggml.tokens", tokens), (key, array(element))]);
        assert!(faults(&source).contains(&format!("{key} is")), "{}", faults(&source));
        let plan = ops::convert(&source, &ConvertOptions::new(&GGUF)).expect("a plan");
        let (_folder, back) = written(&plan);
        let Some(Value::Array(array)) = back.metadata().get(key) else { panic!("an array") };
        assert_eq!((array.element_type(), array.len()), (wanted, 32), "{key}");
    }
    // The writer of GGUF's authors has scores as whole numbers if all of them are.
    let scores = Kv::Array(5, (0..32).map(|n| Kv::I32(-n)).collect());
    let texts = (0..32).map(|n| Kv::text(&format!("t{n}"))).collect();
    let source = model(&[
        ("tokenizer.ggml.model", Kv::text("llama")),
        ("tokenizer.ggml.tokens", Kv::Array(8, texts)),
        ("tokenizer.ggml.scores", scores),
    ]);
    assert!(!faults(&source).contains("scores"), "{}", faults(&source));
    let tokenizer = source.tokenizer().expect("a tokenizer").expect("one");
    let read: Vec<_> = tokenizer.tokens().filter_map(|token| token.score).collect();
    assert_eq!(read.get(3).copied(), Some(-3.0), "{read:?}");
    let said = faults(&model(&[("general.quantization_version", Kv::U64(1 << 40))]));
    assert!(said.contains("general.quantization_version is u64"), "{said}");
}

/// llama.cpp loads matrices of 64 bits, and aborts when it computes with them.
#[test]
fn matrices_of_64_bits_are_a_fault() {
    for (matrices, is_sound) in [(DType::F32, true), (DType::F64, false)] {
        let said = faults(&with_matrices(matrices, &[]));
        assert_eq!(
            !said.contains("F64, which llama.cpp computes nothing with"),
            is_sound,
            "{said}"
        );
    }
}
