//! Two models side by side: exactly what differs between them, and nothing else.
#![allow(clippy::disallowed_methods, reason = "the sizes are the test's own")]

use crate::support;
use std::path::{Path, PathBuf};

use crate::ollama_store::Store;
use crate::support::{Gguf, Kv, Safetensors, f32s, folder, open_as, put, sample};
use tempfile::TempDir;
use weighbridge::container::{GGUF, MLX};
use weighbridge::ops::{
    self, ConvertOptions, DiffOptions, DiffOutcome, ModelDiff, TensorPairs, ValueDiff,
};
use weighbridge::{DType, ErrorKind, Model, OpenOptions, Part, Strictness, WriteOptions};

fn open(path: &Path) -> Model {
    Model::open(path).unwrap_or_else(|error| panic!("{error}"))
}

fn model(bytes: Vec<u8>) -> Model {
    let store = open_as(bytes, Strictness::Default).expect("a model");
    support::resolved(store).expect("names")
}

fn diff<'a>(a: &'a Model, b: &'a Model, tolerance: f64) -> ModelDiff {
    let pairs = TensorPairs::new(a, b).unwrap_or_else(|error| panic!("{error}"));
    pairs
        .compare(&DiffOptions::new().tolerance(tolerance).threads(2))
        .unwrap_or_else(|error| panic!("{error}"))
}

fn outcome<'d>(diff: &'d ModelDiff, name: &str) -> &'d DiffOutcome {
    let tensor = diff.tensors.iter().find(|tensor| tensor.pair.name == name);
    &tensor.unwrap_or_else(|| panic!("{name} was not compared")).outcome
}

fn values(diff: &ModelDiff, name: &str) -> ValueDiff {
    match outcome(diff, name) {
        DiffOutcome::Values(values) => *values,
        other => panic!("{name}: {other:?}"),
    }
}

fn names(diff: &ModelDiff) -> [Vec<String>; 3] {
    let names = |views: &[weighbridge::Tensor]| {
        views.iter().map(|view| view.name().to_owned()).collect::<Vec<_>>()
    };
    let different = diff.tensors.iter().filter(|tensor| tensor.outcome.is_difference());
    let different = different.map(|tensor| tensor.pair.name.clone()).collect();
    [different, names(&diff.only_a), names(&diff.only_b)]
}

/// The sample as Ollama keeps it: a blob for each tensor of a directory, with its parts.
fn in_ollama(directory: &Path) -> (Store, PathBuf) {
    let (store, source) = (Store::new(), Model::open(directory).expect("a directory"));
    let mut layers = Vec::new();
    for tensor in source.stored_tensors() {
        let name = tensor.name().to_string();
        let mut file = Safetensors::new();
        if let Some(group) = tensor.group_size() {
            file = file.metadata("quant_type", "int4").metadata("group_size", &group.to_string());
        }
        for segment in tensor.segments() {
            let part = match segment.part {
                Part::Weight => name.clone(),
                Part::Scale => format!("{name}.scale"),
                Part::Bias => format!("{name}.bias"),
                other => panic!("{other:?}"),
            };
            let dtype = segment.dtype.descriptor().safetensors.expect("a dtype of safetensors");
            let bytes = tensor.bytes(segment.part).expect("its bytes").into_owned();
            file = file.tensor(&part, dtype, segment.shape, bytes);
        }
        layers.push(store.tensor(&name, &file));
    }
    let config = std::fs::read(directory.join("config.json")).expect("its config");
    layers.push(store.layer("json", "config.json", &config));
    let path = store.manifest("sample/latest", &layers);
    (store, path)
}

/// Names of the sample's tensors in GGUF and in Hugging Face directories, and the heads of those
/// whose rows GGUF has in pairs.
const SAMPLE: [(&str, &str, &str, usize); 11] = [
    ("token_embedding.weight", "token_embd.weight", "model.embed_tokens.weight", 0),
    ("output_norm.weight", "output_norm.weight", "model.norm.weight", 0),
    ("attention_norm.weight", "attn_norm.weight", "input_layernorm.weight", 0),
    ("attention.q.weight", "attn_q.weight", "self_attn.q_proj.weight", 4),
    ("attention.k.weight", "attn_k.weight", "self_attn.k_proj.weight", 2),
    ("attention.v.weight", "attn_v.weight", "self_attn.v_proj.weight", 0),
    ("attention.output.weight", "attn_output.weight", "self_attn.o_proj.weight", 0),
    ("ffn_norm.weight", "ffn_norm.weight", "post_attention_layernorm.weight", 0),
    ("ffn.gate.weight", "ffn_gate.weight", "mlp.gate_proj.weight", 0),
    ("ffn.up.weight", "ffn_up.weight", "mlp.up_proj.weight", 0),
    ("ffn.down.weight", "ffn_down.weight", "mlp.down_proj.weight", 0),
];

/// Canonical, GGUF and Hugging Face names of every tensor of the sample, and heads to reorder.
fn sample_names() -> Vec<([String; 3], usize)> {
    let mut all = Vec::new();
    for (number, (canonical, gguf, hf, heads)) in SAMPLE.into_iter().enumerate() {
        if number < 2 {
            all.push(([canonical, gguf, hf].map(str::to_owned), heads));
            continue;
        }
        for layer in 0..2 {
            let with = |prefix: &str, name: &str| format!("{prefix}.{layer}.{name}");
            let names = [with("layers", canonical), with("blk", gguf), with("model.layers", hf)];
            all.push((names, heads));
        }
    }
    all
}

/// The values of a form of the sample by canonical name, by stored names and index arithmetic
/// alone.
fn plain_values(store: &Model, names: &[String; 3], heads: usize) -> Vec<f32> {
    let gguf = store.container() == "gguf";
    let name = if gguf { &names[1] } else { &names[2] };
    let tensor = store.stored_tensor(name).unwrap_or_else(|error| panic!("{error}"));
    let stored = tensor.dequantize().expect("values").to_vec();
    if !gguf || heads == 0 {
        return stored;
    }
    let columns = usize::try_from(tensor.shape()[1]).expect("some columns");
    let half = stored.len() / columns / heads / 2;
    let row = |head: usize, part: usize, row: usize| (head * 2 * half + 2 * row + part) * columns;
    let mut values = Vec::new();
    for head in 0..heads {
        for part in 0..2 {
            for number in 0..half {
                let start = row(head, part, number);
                values.extend_from_slice(&stored[start..start + columns]);
            }
        }
    }
    values
}

/// The sample against each of its forms: what is reported is what plain sums over plainly decoded
/// values give, norms and embeddings in BF16 are equal, and nothing is missing.
#[test]
fn the_samples_forms_differ_by_their_quantization_and_nothing_else() {
    let exact = Model::open(sample("hf")).expect("the sample");
    let (_plain_store, plain) = in_ollama(&sample("hf"));
    let (_packed_store, packed) = in_ollama(&sample("mlx-4bit"));
    let forms = [
        (sample("sample-Q8_0.gguf"), "gguf", 15),
        (sample("mlx-4bit"), "mlx", 15),
        (plain, "ollama", 0),
        (packed, "ollama", 15),
        (sample("sample-BF16.gguf"), "gguf", 0),
        (sample("sample-Q4_K_M.gguf"), "gguf", 15),
    ];
    let a = open(&sample("hf"));
    for (form, container, expected) in forms {
        let what = form.display();
        let (b, stored) = (open(&form), Model::open(&form).expect("a form of the sample"));
        assert_eq!(b.container(), container, "{what}");
        for (a, b, reversed) in [(&a, &b, false), (&b, &a, true)] {
            let diff = diff(a, b, 0.0);
            let [different, only_a, only_b] = names(&diff);
            assert_eq!((diff.tensors.len(), different.len()), (20, expected), "{what}");
            assert_eq!((only_a.len(), only_b.len(), diff.notes.len()), (0, 0, 0), "{what}");
            assert_eq!(diff.is_equal(), expected == 0, "{what}");
            for (names, heads) in sample_names() {
                let name = &names[0];
                let mut one = plain_values(&exact, &names, heads);
                let mut other = plain_values(&stored, &names, heads);
                if reversed {
                    (one, other) = (other, one);
                }
                let (mut max, mut squares, mut all) = (0.0f64, 0.0f64, 0.0f64);
                let (mut others, mut products, mut differing) = (0.0f64, 0.0f64, 0);
                for (a, b) in one.iter().zip(&other) {
                    let (a, b) = (f64::from(*a), f64::from(*b));
                    max = max.max((a - b).abs());
                    squares += (a - b) * (a - b);
                    (all, others, products) = (all + a * a, others + b * b, products + a * b);
                    differing += u64::from(a != b);
                }
                let norm = name.contains("norm");
                assert_eq!(different.contains(name), !norm && expected > 0, "{what}: {name}");
                if differing == 0 {
                    assert!(!outcome(&diff, name).is_difference(), "{what}: {name}");
                    continue;
                }
                let found = values(&diff, name);
                assert_eq!(found.elements, one.len() as u64, "{what}: {name}");
                assert_eq!((found.max(), found.differing), (max, differing), "{what}: {name}");
                let worst = found.worst.expect("the worst element");
                let at = usize::try_from(worst.at).expect("a place");
                assert_eq!((worst.a, worst.b), (one[at], other[at]), "{what}: {name}");
                let close = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-9;
                let rms = (squares / one.len() as f64).sqrt();
                assert!(close(found.rms(), rms), "{what}: {name}: {} {rms}", found.rms());
                assert!(close(found.relative_rms(), (squares / all).sqrt()), "{what}: {name}");
                let cosine = products / (all.sqrt() * others.sqrt());
                assert!(close(found.cosine().expect("vectors"), cosine), "{what}: {name}");
            }
        }
    }
}

/// The MLX form and the same parts in Ollama's store are packed in one way: nothing is decoded.
#[test]
fn equal_bytes_are_told_without_decoding() {
    let (_store, path) = in_ollama(&sample("mlx-4bit"));
    let (mlx, ollama) = (open(&sample("mlx-4bit")), open(&path));
    let diff = diff(&mlx, &ollama, 0.0);
    assert_eq!(diff.tensors.len(), 20);
    assert!(diff.tensors.iter().all(|tensor| matches!(tensor.outcome, DiffOutcome::Identical)));
}

/// The permutation of rows depends on the number of heads, so equal bytes are not equal values.
#[test]
fn equal_bytes_in_another_order_differ() {
    let of_heads = |heads: u32| {
        let values: Vec<f32> = (0..16).map(|n| n as f32).collect();
        let file = Gguf::new()
            .key("general.architecture", Kv::text("llama"))
            .key("llama.block_count", Kv::U32(1))
            .key("llama.embedding_length", Kv::U32(2))
            .key("llama.attention.head_count", Kv::U32(heads))
            .key("llama.attention.key_length", Kv::U32(8 / heads))
            .tensor("blk.0.attn_q.weight", DType::F32, &[8, 2], f32s(&values));
        model(file.build())
    };
    let (two, one) = (of_heads(2), of_heads(1));
    let found = diff(&two, &one, 0.0);
    // The stored rows 0 2 1 3, 4 6 5 7 of two heads, and 0 2 4 6 1 3 5 7 of one.
    assert_eq!(values(&found, "layers.0.attention.q.weight").differing, 2 * 4);
}

/// A file of some tensors under names of no architecture.
fn plain(tensors: &[(&str, &[u64], &[f32])]) -> Model {
    let file = tensors.iter().fold(Safetensors::new(), |file, (name, shape, values)| {
        file.tensor(name, "F32", shape, f32s(values))
    });
    model(file.build())
}

#[test]
fn one_changed_element_is_found_where_it_is() {
    // More than a piece, so that the place is counted over several.
    let (rows, columns) = (700u64, 1000u64);
    let mut one: Vec<f32> = (0..rows * columns).map(|n| (n % 97) as f32 / 8.0).collect();
    let exact = plain(&[("m", &[rows, columns], &one), ("v", &[rows * columns], &one)]);
    for at in [0, 1, 1023, 262_143, 262_144, 523_456, 699_999] {
        let before = one[at];
        one[at] = before + 0.5;
        let changed = plain(&[("m", &[rows, columns], &one), ("v", &[rows * columns], &one)]);
        let diff = diff(&exact, &changed, 0.0);
        for name in ["m", "v"] {
            let found = values(&diff, name);
            let worst = found.worst.expect("the changed element");
            assert_eq!((found.differing, worst.at), (1, at as u64), "{name}");
            assert_eq!((worst.a, worst.b, worst.difference()), (before, before + 0.5, 0.5));
            let rms = 0.5 / ((rows * columns) as f64).sqrt();
            assert!((found.rms() / rms - 1.0).abs() < 1e-12, "{name}: {}", found.rms());
        }
        one[at] = before;
    }
    assert!(diff(&exact, &exact, 0.0).is_equal());
}

#[test]
fn tolerance_is_absolute_and_includes_its_edge() {
    let a = plain(&[("t", &[3], &[1.0, 2.0, 1e6])]);
    let b = plain(&[("t", &[3], &[1.25, 2.0, 1e6 + 0.5])]);
    let differing = |tolerance| values(&diff(&a, &b, tolerance), "t").differing;
    assert_eq!([0.0, 0.2499, 0.25, 0.4999, 0.5].map(differing), [2, 2, 1, 1, 0]);
    assert!(diff(&a, &b, 0.5).is_equal() && !diff(&a, &b, 0.49).is_equal());
}

#[test]
fn numbers_that_are_none() {
    const NAN: f32 = f32::NAN;
    const INF: f32 = f32::INFINITY;
    let other_nan = f32::from_bits(0xffc0_1234);
    let a = plain(&[("n", &[4], &[NAN, 1.0, INF, 0.0]), ("z", &[2], &[0.0, 0.0])]);
    // NaN of other bits, infinity, and zeros of both signs are equal.
    let b = plain(&[("n", &[4], &[other_nan, 1.0, INF, -0.0]), ("z", &[2], &[0.0, -0.0])]);
    let same = diff(&a, &b, 0.0);
    assert!(same.is_equal());
    let found = values(&same, "n");
    assert_eq!((found.elements, found.differing, found.worst), (4, 0, None));
    assert_eq!((found.rms(), found.relative_rms(), found.cosine()), (0.0, 0.0, Some(1.0)));
    assert_eq!(values(&same, "z").cosine(), None);
    // NaN beside a number is the worst there is, whatever is tolerated.
    let c = plain(&[("n", &[4], &[9.0, 1.0, -INF, NAN]), ("z", &[2], &[0.0, 3.0])]);
    for tolerance in [0.0, 1e30, INF.into()] {
        let diff = diff(&a, &c, tolerance);
        let found = values(&diff, "n");
        let differing = if tolerance == f64::INFINITY { 2 } else { 3 };
        assert_eq!((found.differing, found.worst.map(|worst| worst.at)), (differing, Some(0)));
        assert!(found.max().is_nan() && !diff.is_equal());
        assert_eq!(found.rms(), 0.0, "of what is finite in both");
    }
    let zeros = values(&diff(&a, &c, 0.0), "z");
    assert_eq!((zeros.relative_rms(), zeros.max()), (f64::INFINITY, 3.0));
}

#[test]
fn missing_extra_and_other_shapes() {
    let a = plain(&[("x", &[2], &[1.0, 2.0]), ("s", &[2, 3], &[0.0; 6]), ("y", &[1], &[3.0])]);
    let b = plain(&[("s", &[3, 2], &[0.0; 6]), ("z", &[1], &[1.0]), ("y", &[1], &[3.0])]);
    let found = diff(&a, &b, 0.0);
    assert_eq!(
        names(&found),
        [vec!["s"], vec!["x"], vec!["z"]]
            .map(|names| names.iter().map(|n| n.to_string()).collect::<Vec<_>>())
    );
    assert!(matches!(outcome(&found, "s"), DiffOutcome::Shapes));
    assert!(matches!(outcome(&found, "y"), DiffOutcome::Identical));
    assert_eq!(found.notes, ["neither architecture is known: tensors are paired by stored name"]);
    // Filtered, what is left is equal.
    let mut pairs = TensorPairs::new(&a, &b).expect("pairs");
    pairs.retain(|view| view.name() == "y");
    assert!(pairs.compare(&DiffOptions::new()).expect("values").is_equal());
}

/// A vision model is no part of the language model, but it is part of what a fine-tune changes; a projector's file has no other
/// tensors.
#[test]
fn vision_models_are_compared() {
    let vision = "visual.vision_model.post_layernorm.weight";
    let with = |language: bool, vision: Option<(&str, f32)>| {
        let mut file = Safetensors::new();
        if language {
            file = file.tensor("model.norm.weight", "F32", &[1], f32s(&[1.0]));
        }
        if let Some((name, value)) = vision {
            file = file.tensor(name, "F32", &[1], f32s(&[value]));
        }
        let config = br#"{"model_type": "paddleocr_vl"}"#.to_vec();
        let files = folder(&[("config.json", config), ("model.safetensors", file.build())]);
        let model = open(files.path());
        (files, model)
    };
    let (_a, a) = with(true, Some((vision, 1.0)));
    let (_b, b) = with(true, Some((vision, 2.0)));
    assert_eq!(names(&diff(&a, &b, 0.0)), [vec![vision.to_owned()], vec![], vec![]]);
    let (_c, c) = with(true, None);
    let found = diff(&a, &c, 0.0);
    assert_eq!(names(&found), [const { Vec::<String>::new() }; 3]);
    assert!(found.notes.iter().any(|note| note.contains("not compared: visual.vision")));
    let (_d, d) = with(false, Some((vision, 1.0)));
    assert_eq!(diff(&d, &d, 0.0).tensors.len(), 1);
}

/// Programs that wrap a model, and checkpoints of several models, have a prefix.
#[test]
fn names_that_differ_by_a_prefix() {
    let bare = || plain(&[("blocks.0.q", &[1], &[1.0]), ("blocks.0.k", &[1], &[2.0])]);
    for (prefix, shown) in [
        ("model.diffusion_model.", "model.diffusion_model."),
        ("_orig_mod.module.", "the pieces of a wrapper"),
        ("base_model.model.", "the pieces of a wrapper"),
        ("anything.else.", "anything.else."),
    ] {
        let names = ["q", "k"].map(|name| format!("{prefix}blocks.0.{name}"));
        let whole = || plain(&[(&names[0], &[1], &[1.0]), (&names[1], &[1], &[3.0])]);
        for (which, a, b) in [("A", whole(), bare()), ("B", bare(), whole())] {
            let found = diff(&a, &b, 0.0);
            let note = format!("names of {which} are compared without {shown}");
            assert!(found.notes.contains(&note), "{:?}", found.notes);
            let pairs: Vec<_> =
                found.tensors.iter().map(|t| (&*t.pair.name, t.outcome.is_difference())).collect();
            assert_eq!(pairs, [("blocks.0.q", false), ("blocks.0.k", true)], "{prefix}");
            assert!(found.only_a.is_empty() && found.only_b.is_empty());
        }
    }
    // A checkpoint has other models beside it.
    let a = plain(&[("model.diffusion_model.x", &[1], &[1.0]), ("vae.y", &[1], &[1.0])]);
    let found = diff(&a, &plain(&[("x", &[1], &[1.0])]), 0.0);
    assert_eq!(names(&found), [vec![], vec!["vae.y".to_owned()], vec![]]);
    // Names in common are compared as they stand.
    let a = plain(&[("p.x", &[1], &[1.0]), ("p.y", &[1], &[1.0])]);
    let b = plain(&[("p.x", &[1], &[1.0]), ("y", &[1], &[1.0])]);
    let found = diff(&a, &b, 0.0);
    assert_eq!((found.only_a.len(), found.only_b.len()), (1, 1));
}

#[test]
fn nothing_in_common_is_an_error() {
    let (a, b) = (plain(&[("x", &[1], &[1.0])]), plain(&[("y", &[1], &[1.0])]));
    let error = TensorPairs::new(&a, &b).expect_err("no pairs");
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    assert_eq!(error.to_string(), "file: no tensor name in common with file");
}

#[test]
fn what_cannot_be_read_is_neither_equal_nor_different() {
    let file = |code: u32, bytes: &[u8]| {
        model(
            Gguf::new()
                .tensor("n", DType::F32, &[1], f32s(&[1.0]))
                .coded("t", code, &[1], bytes.to_vec())
                .build(),
        )
    };
    let (a, b) = (file(777, &[0; 32]), file(777, &[0; 32]));
    let found = diff(&a, &b, 0.0);
    assert!(
        matches!(outcome(&found, "t"), DiffOutcome::Unread(error) if error.kind() == ErrorKind::Unsupported)
    );
    assert!(found.is_equal());
    // Complex numbers have no codec, but equal bytes are equal.
    let complex = |last: u8| {
        let file = Safetensors::new().tensor("t", "C64", &[1], vec![1, 2, 3, 4, 5, 6, 7, last]);
        model(file.build())
    };
    let (a, b, c) = (complex(8), complex(8), complex(9));
    assert!(matches!(outcome(&diff(&a, &b, 0.0), "t"), DiffOutcome::Identical));
    assert!(matches!(outcome(&diff(&a, &c, 0.0), "t"), DiffOutcome::Unread(_)));
}

/// The same numbers in files of both byte orders: equal bytes would be other numbers.
#[test]
fn byte_order_is_no_difference() {
    let file = |values: &[u8]| Gguf::new().tensor("t", DType::F32, &[2], values.to_vec());
    let little = model(file(&f32s(&[1.0, 2.5])).build());
    let turned: Vec<u8> = [1.0f32, 2.5].iter().flat_map(|v| v.to_be_bytes()).collect();
    let big = model(file(&turned).big_endian().build());
    assert!(diff(&little, &big, 0.0).is_equal());
    let same_bytes = model(file(&f32s(&[1.0, 2.5])).big_endian().build());
    assert_eq!(values(&diff(&little, &same_bytes, 0.0), "t").differing, 2);
}

/// A Llama of one layer without its layers, in a folder; with an output matrix or without.
fn tiny(output: Option<&[f32]>) -> TempDir {
    let embedding = f32s(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    let mut file = Safetensors::new()
        .tensor("model.embed_tokens.weight", "F32", &[2, 4], embedding)
        .tensor("model.norm.weight", "F32", &[4], f32s(&[1.0; 4]))
        .tensor("model.layers.0.self_attn.rotary_emb.inv_freq", "F32", &[1], f32s(&[1.0]));
    if let Some(output) = output {
        file = file.tensor("lm_head.weight", "F32", &[2, 4], f32s(output));
    }
    let folder = folder(&[("model.safetensors", file.build())]);
    let config = "{\"model_type\":\"llama\",\"num_hidden_layers\":1,\"hidden_size\":4,\
                  \"num_attention_heads\":1,\"intermediate_size\":4,\"vocab_size\":2}";
    put(folder.path(), "config.json", config);
    folder
}

#[test]
fn a_tied_output_matrix_is_the_embedding() {
    let embedding = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    let (tied, own) = (tiny(None), tiny(Some(&embedding)));
    let other = tiny(Some(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 9.0]));
    let [tied, own, other] = [&tied, &own, &other].map(|folder| open(folder.path()));
    for (a, b, which) in [(&own, &tied, "B"), (&tied, &own, "A")] {
        let found = diff(a, b, 0.0);
        assert!(found.is_equal());
        assert!(matches!(outcome(&found, "output.weight"), DiffOutcome::Identical));
        let note =
            format!("{which} ties output.weight to token_embedding.weight: compared with that");
        assert_eq!(found.notes, [note]);
    }
    let found = diff(&other, &tied, 0.0);
    assert_eq!(names(&found)[0], ["output.weight"]);
    assert_eq!(values(&found, "output.weight").worst.map(|worst| worst.at), Some(7));
    // Auxiliary tensors are not compared, nor are they missing.
    assert_eq!(found.tensors.len(), 3);
}

#[test]
fn one_unknown_architecture_makes_both_go_by_stored_names() {
    let known = tiny(None);
    let unknown = tiny(None);
    put(unknown.path(), "config.json", "{\"model_type\":\"nobody-knows\"}");
    let [known, unknown] = [&known, &unknown].map(|folder| open(folder.path()));
    let found = diff(&known, &unknown, 0.0);
    assert!(found.is_equal());
    assert_eq!(
        found.notes,
        ["the architecture of B is unknown: tensors are paired by stored name"]
    );
    let compared: Vec<&str> = found.tensors.iter().map(|t| t.pair.name.as_str()).collect();
    assert_eq!(compared, ["model.embed_tokens.weight", "model.norm.weight"]);
    // A GGUF has other stored names.
    let gguf = Gguf::new().key("general.architecture", Kv::text("nobody-knows")).tensor(
        "token_embd.weight",
        DType::F32,
        &[1],
        f32s(&[1.0]),
    );
    let error = TensorPairs::new(&known, &model(gguf.build())).expect_err("no pairs").to_string();
    assert!(error.contains("no tensor name in common with"), "{error}");
}

/// Without a map and with one, with one thread and with several, the figures are the same.
#[test]
fn neither_threads_nor_maps_matter() {
    let read = |name: &str| {
        let store = OpenOptions::new().read().open(sample(name)).expect("the sample");
        support::resolved(store).expect("names")
    };
    let (a, b) = (open(&sample("hf")), open(&sample("sample-Q8_0.gguf")));
    let (unmapped_a, unmapped_b) = (read("hf"), read("sample-Q8_0.gguf"));
    let figures = |a: &Model, b: &Model, threads: usize| {
        let options = DiffOptions::new().tolerance(1e-4).threads(threads);
        let diff = TensorPairs::new(a, b).expect("pairs").compare(&options).expect("values");
        diff.tensors.iter().map(|tensor| format!("{:?}", tensor.outcome)).collect::<Vec<_>>()
    };
    let expected = figures(&a, &b, 1);
    assert_eq!(figures(&a, &b, 3), expected);
    assert_eq!(figures(&unmapped_a, &unmapped_b, 2), expected);
}

/// The matrices of one layer of Gemma 3, and its norms.
const GEMMA: [(&str, &[u64]); 13] = [
    ("embed_tokens", &[48, 32]),
    ("layers.0.self_attn.q_proj", &[32, 32]),
    ("layers.0.self_attn.k_proj", &[16, 32]),
    ("layers.0.self_attn.v_proj", &[16, 32]),
    ("layers.0.self_attn.o_proj", &[32, 32]),
    ("layers.0.mlp.gate_proj", &[64, 32]),
    ("layers.0.mlp.up_proj", &[64, 32]),
    ("layers.0.mlp.down_proj", &[32, 64]),
    ("norm", &[32]),
    ("layers.0.input_layernorm", &[32]),
    ("layers.0.post_attention_layernorm", &[32]),
    ("layers.0.pre_feedforward_layernorm", &[32]),
    ("layers.0.post_feedforward_layernorm", &[32]),
];

/// The values of a tensor of [`GEMMA`]: exact in BF16, also after 1 was added. Those of norms are
/// large. In the second model some matrices differ, one by a lot.
fn gemma_values(number: usize, shape: &[u64], is_second: bool) -> Vec<f32> {
    let count = shape.iter().product::<u64>();
    let values = (0..count).map(|n| ((n * 7 + number as u64 * 11) % 64) as f32 / 64.0 - 0.5);
    let error = |n: u64| match (is_second, number) {
        (true, 1) => 0.25,
        (true, 0 | 3 | 5) if n.is_multiple_of(3) => 1.0 / 64.0,
        _ => 0.0,
    };
    match shape.len() {
        1 => (0..count).map(|n| 64.0 + (n % 60) as f32).collect(),
        _ => (0..).zip(values).map(|(n, value)| value + error(n)).collect(),
    }
}

fn gemma(is_second: bool) -> TempDir {
    let mut file = Safetensors::new().metadata("format", "pt");
    for (number, (name, shape)) in GEMMA.into_iter().enumerate() {
        let values = f32s(&gemma_values(number, shape, is_second));
        file = file.tensor(&format!("model.{name}.weight"), "F32", shape, values);
    }
    for name in ["q_norm", "k_norm"] {
        let name = format!("model.layers.0.self_attn.{name}.weight");
        file = file.tensor(&name, "F32", &[16], f32s(&[80.0; 16]));
    }
    // A copy of the embedding, as some checkpoints store it.
    let embedding = f32s(&gemma_values(0, &[48, 32], is_second));
    file = file.tensor("lm_head.weight", "F32", &[48, 32], embedding);
    let config = serde_json::json!({
        "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "hidden_size": 32,
        "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 16, "sliding_window": 16, "vocab_size": 48,
        "tie_word_embeddings": true, "eos_token_id": 1,
    });
    folder(&[("config.json", config.to_string().into_bytes()), ("model.safetensors", file.build())])
}

/// A model as it is, as GGUF, and as MLX.
fn forms(source: &Path, into: &Path) -> Vec<Model> {
    let source = open(source);
    let mut forms = vec![source.clone()];
    for (container, name) in [(&GGUF, "model.gguf"), (&MLX, "mlx")] {
        let plan = ops::convert(&source, &ConvertOptions::new(container));
        let plan = plan.unwrap_or_else(|error| panic!("{error}"));
        plan.run(&into.join(name), &WriteOptions::new()).unwrap_or_else(|error| panic!("{error}"));
        forms.push(open(&into.join(name)));
    }
    forms
}

/// The error of a model is that of its matrices, each by its size, whatever the containers: not that
/// of norms, whose bytes are equal in some pairs and only their values in others, and not that of
/// the largest values.
#[test]
fn the_error_of_a_model_does_not_depend_on_containers() {
    let (mut sum, mut elements) = (0.0, 0.0);
    for (number, (_, shape)) in GEMMA.into_iter().enumerate().filter(|(_, row)| row.1.len() > 1) {
        let [a, b] = [false, true].map(|second| gemma_values(number, shape, second));
        let squares: f64 = a.iter().map(|a| f64::from(*a).powi(2)).sum();
        let apart: f64 = a.iter().zip(&b).map(|(a, b)| f64::from(a - b).powi(2)).sum();
        sum += a.len() as f64 * (apart / squares).sqrt();
        elements += a.len() as f64;
    }
    let (one, two) = (gemma(false), gemma(true));
    let (folder_a, folder_b) =
        (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    let (of_a, of_b) = (forms(one.path(), folder_a.path()), forms(two.path(), folder_b.path()));
    for a in &of_a {
        for b in &of_b {
            let found = diff(a, b, 0.0);
            let what = format!("{} and {}", a.container(), b.container());
            let report = found.report();
            let error = report.relative_rms.expect("an error");
            assert!((error / (sum / elements) - 1.0).abs() < 1e-9, "{what}: {error}");
            assert_eq!(report.matrices, 8, "{what}");
        }
    }
    // Equal models have an error of 0 over the same matrices.
    let found = diff(&of_a[0], &of_a[1], 0.0);
    assert_eq!((found.error().relative_rms(), found.error().tensors), (Some(0.0), 8));
}

/// Tensors other than weight matrices do not count, and a matrix that was 0 has no ratio.
#[test]
fn matrices_that_count() {
    let four = [1.0, 2.0, 2.0, 4.0];
    let doubled = four.map(|value| 2.0 * value);
    let a = plain(&[("w", &[2, 2], &four), ("v", &[4], &four), ("e.bias", &[2, 2], &four)]);
    let b = plain(&[("w", &[2, 2], &four), ("v", &[4], &doubled), ("e.bias", &[2, 2], &doubled)]);
    let found = diff(&a, &b, 0.0);
    assert_eq!((found.error().relative_rms(), found.error().tensors), (Some(0.0), 1));
    assert!(!found.is_equal());
    let a = plain(&[("w", &[2, 2], &four), ("z", &[4, 3], &[0.0; 12])]);
    let b = plain(&[("w", &[2, 2], &doubled), ("z", &[4, 3], &[3.0; 12])]);
    assert_eq!(diff(&a, &b, 0.0).error().relative_rms(), Some(1.0));
    // One NaN spoils a matrix; where both models have it, nothing differs.
    let broken = [1.0, f32::NAN, 2.0, 4.0];
    let [a, b] = [four, broken].map(|values| plain(&[("w", &[2, 2], &values)]));
    for (a, b, error) in [(&a, &b, 1.0), (&b, &a, 1.0), (&b, &b, 0.0)] {
        assert_eq!(diff(a, b, 0.0).error().relative_rms(), Some(error));
    }
    let vectors = plain(&[("v", &[4], &four)]);
    assert_eq!(diff(&vectors, &vectors, 0.0).report().relative_rms, None);
}
