//! Random files, written by the builders and read back: keys, values, names, shapes and bytes are
//! those that went in, and big-endian files hold the same numbers as little-endian ones.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{Gguf, Kv, Safetensors, WhisperGgml, open_as, walk};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use weighbridge::bytes::Text;
use weighbridge::dtype::{DTYPES, DTypeDescriptor, Packing};
use weighbridge::metadata::Value;
use weighbridge::{DType, Model, Part, Strictness};

/// A value of the type with this code. Arrays hold arrays down to `depth` levels.
fn value(code: u32, depth: u32) -> BoxedStrategy<Kv> {
    match code {
        0 => any::<u8>().prop_map(Kv::U8).boxed(),
        1 => any::<i8>().prop_map(Kv::I8).boxed(),
        2 => any::<u16>().prop_map(Kv::U16).boxed(),
        3 => any::<i16>().prop_map(Kv::I16).boxed(),
        4 => any::<u32>().prop_map(Kv::U32).boxed(),
        5 => any::<i32>().prop_map(Kv::I32).boxed(),
        6 => any::<u32>().prop_map(|bits| Kv::F32(f32::from_bits(bits))).boxed(),
        7 => any::<bool>().prop_map(Kv::Bool).boxed(),
        8 => vec(any::<u8>(), 0..20).prop_map(Kv::String).boxed(),
        9 => array(depth),
        10 => any::<u64>().prop_map(Kv::U64).boxed(),
        11 => any::<i64>().prop_map(Kv::I64).boxed(),
        _ => any::<u64>().prop_map(|bits| Kv::F64(f64::from_bits(bits))).boxed(),
    }
}

fn array(depth: u32) -> BoxedStrategy<Kv> {
    let codes: Vec<u32> = (0..=12).filter(|&code| code != 9 || depth > 1).collect();
    let elements = select(codes).prop_flat_map(move |code| {
        vec(value(code, depth - 1), 0..4).prop_map(move |elements| Kv::Array(code, elements))
    });
    elements.boxed()
}

fn keys() -> impl Strategy<Value = BTreeMap<Vec<u8>, Kv>> {
    let any_value = (0u32..=12).prop_flat_map(|code| value(code, 4));
    // Other keys change how the file is read.
    let key = vec(any::<u8>(), 1..12).prop_filter("a key without meaning", |key| !key.contains(&0));
    btree_map(key, any_value, 0..8)
}

/// Whether a value is the one that was written, bit for bit.
fn same(value: Value<'_>, kv: &Kv) -> bool {
    match (value, kv) {
        (Value::U8(a), Kv::U8(b)) => a == *b,
        (Value::I8(a), Kv::I8(b)) => a == *b,
        (Value::U16(a), Kv::U16(b)) => a == *b,
        (Value::I16(a), Kv::I16(b)) => a == *b,
        (Value::U32(a), Kv::U32(b)) => a == *b,
        (Value::I32(a), Kv::I32(b)) => a == *b,
        (Value::F32(a), Kv::F32(b)) => a.to_bits() == b.to_bits(),
        (Value::Bool(a), Kv::Bool(b)) => a == *b,
        (Value::String(a), Kv::String(b)) => a.as_bytes() == b,
        (Value::U64(a), Kv::U64(b)) => a == *b,
        (Value::I64(a), Kv::I64(b)) => a == *b,
        (Value::F64(a), Kv::F64(b)) => a.to_bits() == b.to_bits(),
        (Value::Array(a), Kv::Array(code, b)) => {
            a.element_type() as u32 == *code
                && a.len() == b.len() as u64
                && a.values().zip(b).all(|(a, b)| same(a, b))
                && a.values().count() == b.len()
        }
        _ => false,
    }
}

/// Something to be stored: a dtype, a shape that suits it, and bytes.
#[derive(Clone, Debug)]
struct Stored {
    row: &'static DTypeDescriptor,
    shape: Vec<u64>,
    /// Little-endian.
    bytes: Vec<u8>,
    gap: u64,
}

fn stored(
    rows: Vec<&'static DTypeDescriptor>,
    rank: std::ops::RangeInclusive<usize>,
) -> impl Strategy<Value = Stored> {
    let shaped = (select(rows), vec(0u64..4, rank), 0u64..100);
    shaped.prop_flat_map(|(row, mut shape, gap)| {
        match shape.last_mut() {
            Some(columns) => *columns *= u64::from(row.block_len),
            // A scalar is one element, which not every block has.
            None if row.block_len > 1 => shape.push(row.block_len.into()),
            None => {}
        }
        let len = row.dtype.tensor_bytes(&shape).expect("a shape that suits the dtype");
        let len = usize::try_from(len).expect("a small tensor");
        let bytes = vec(any::<u8>(), len);
        bytes.prop_map(move |bytes| Stored { row, shape: shape.clone(), bytes, gap })
    })
}

/// Turns each number of each block round.
fn swapped(row: &DTypeDescriptor, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        for &(width, count) in row.units {
            for _ in 0..count {
                let (number, tail) = rest.split_at(width.into());
                out.extend(number.iter().rev());
                rest = tail;
            }
        }
    }
    out
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[derive(Clone, Debug)]
struct Random {
    version: u32,
    alignment: u32,
    keys: BTreeMap<Vec<u8>, Kv>,
    tensors: BTreeMap<Vec<u8>, Stored>,
    reverse: bool,
    unpadded: bool,
}

fn model() -> impl Strategy<Value = Random> {
    // A row of ik_llama.cpp's begins with bytes of its own; of most nothing is known but the size.
    let rows: Vec<_> = DTYPES.iter().filter(|r| r.ggml.is_some() && !r.units.is_empty()).collect();
    let tensors = btree_map(vec(any::<u8>(), 0..63), stored(rows, 0..=4), 0..6);
    let alignment = (0u32..=12).prop_map(|power| 1 << power);
    (1u32..=3, alignment, keys(), tensors, any::<bool>(), any::<bool>()).prop_map(
        |(version, alignment, keys, tensors, reverse, unpadded)| Random {
            version,
            alignment,
            keys,
            tensors,
            reverse,
            unpadded,
        },
    )
}

fn written(model: &Random, big_endian: bool) -> Vec<u8> {
    let mut file = Gguf::new().version(model.version).aligned(model.alignment);
    (file.big_endian, file.unpadded) = (big_endian, model.unpadded);
    for (key, value) in &model.keys {
        file = file.key(key, value.clone());
    }
    for (name, stored) in &model.tensors {
        let Stored { row, shape, bytes, gap } = stored;
        let bytes = if big_endian { swapped(row, bytes) } else { bytes.clone() };
        file = file.tensor(name, row.dtype, shape, bytes).last(|entry| entry.gap = *gap);
    }
    if model.reverse {
        file.order = Some((0..model.tensors.len()).rev().collect());
    }
    file.build()
}

fn check(model: &Random, store: &Model, big_endian: bool) {
    walk(store);
    let metadata = store.metadata();
    assert_eq!(metadata.len(), model.keys.len() + 1);
    for ((key, value), (read_key, read)) in model.keys.iter().zip(metadata.iter().skip(1)) {
        assert_eq!(read_key.as_bytes(), key);
        assert!(same(read, value), "{read:?} for {value:?}");
        if let Ok(key) = std::str::from_utf8(key) {
            assert!(metadata.get(key).is_some_and(|found| same(found, value)));
        }
    }
    assert_eq!(store.len(), model.tensors.len());
    for (tensor, (name, stored)) in store.stored_tensors().zip(&model.tensors) {
        assert_eq!(tensor.raw_name().as_bytes(), name);
        assert_eq!(tensor.dtype().expect("a known dtype"), stored.row.dtype);
        assert_eq!(tensor.shape(), stored.shape);
        let raw = tensor.raw_bytes(Part::Weight).expect("bytes");
        let swapped = swapped(stored.row, &stored.bytes);
        assert_eq!(*raw, if big_endian { swapped } else { stored.bytes.clone() });
        assert_eq!(*tensor.bytes(Part::Weight).expect("bytes"), stored.bytes);
    }
}

/// The pieces of a vocabulary, and tensors.
fn whisper_model() -> impl Strategy<Value = (Vec<Vec<u8>>, BTreeMap<Vec<u8>, Stored>)> {
    let rows = DTYPES.iter().filter(|row| row.ggml.is_some()).collect();
    let filled = |stored: &Stored| !stored.shape.contains(&0);
    let tensor = stored(rows, 0..=4).prop_filter("no dimension is zero", filled);
    (vec(vec(any::<u8>(), 0..8), 0..6), btree_map(vec(any::<u8>(), 1..63), tensor, 0..6))
}

fn array_model() -> impl Strategy<Value = (Safetensors, BTreeMap<String, Stored>)> {
    let rows: Vec<_> = DTYPES.iter().filter(|row| row.safetensors.is_some()).collect();
    let name = any::<String>().prop_filter("metadata", |name| name != "__metadata__");
    let arrays = btree_map(name, stored(rows, 0..=6), 0..8);
    let metadata = btree_map(any::<String>(), any::<String>(), 0..20);
    (arrays, metadata, any::<bool>(), any::<bool>()).prop_map(
        |(arrays, metadata, escape, spaced)| {
            let mut file = Safetensors { escape, spaced, ..Safetensors::new() };
            for (key, value) in &metadata {
                file = file.metadata(key, value);
            }
            for (name, stored) in &arrays {
                let dtype = stored.row.safetensors.expect("a dtype of safetensors");
                file = file.tensor(name, dtype, &stored.shape, stored.bytes.clone());
            }
            (file, arrays)
        },
    )
}

proptest! {
    #[test]
    fn gguf(model in model()) {
        let open = |big_endian| {
            let opened = open_as(written(&model, big_endian), Strictness::Default);
            opened.expect("a well-formed file")
        };
        let (little, big) = (open(false), open(true));
        check(&model, &little, false);
        check(&model, &big, true);
        for (a, b) in little.stored_tensors().zip(big.stored_tensors()) {
            match (a.dequantize(), b.dequantize()) {
                (Ok(a), Ok(b)) => prop_assert_eq!(bits(&a), bits(&b)),
                (Err(a), Err(b)) => prop_assert_eq!(a.to_string(), b.to_string()),
                (a, b) => prop_assert!(false, "{:?} little-endian, {:?} big-endian", a, b),
            }
        }
    }

    #[test]
    fn whisper_ggml((pieces, tensors) in whisper_model()) {
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        let file = tensors.iter().fold(WhisperGgml::whisper(1, 2, &pieces), |file, (name, stored)| {
            file.tensor(name, stored.row.dtype, &stored.shape, &stored.bytes)
        });
        // A whole model has more tensors.
        let store = open_as(file.build(), Strictness::Lenient).expect("a well-formed file");
        walk(&store);
        let metadata = store.metadata();
        prop_assert_eq!(metadata.str("general.architecture"), Some("whisper"));
        let numbers = ["whisper.n_audio_layer", "whisper.n_text_layer", "whisper.ftype"];
        prop_assert_eq!(numbers.map(|key| metadata.u64(key)), [Some(1), Some(2), Some(8)]);
        prop_assert_eq!(metadata.u64("general.quantization_version"), Some(2));
        let vocabulary = metadata.array("whisper.vocab").expect("an array");
        let texts: Vec<&[u8]> = vocabulary.texts().expect("texts").map(|t| t.as_bytes()).collect();
        prop_assert_eq!((texts, vocabulary.len()), (pieces.clone(), pieces.len() as u64));
        prop_assert_eq!(store.len(), 1 + tensors.len());
        let filters = store.stored_tensor("mel_filters").expect("the filters");
        prop_assert_eq!(filters.shape(), [2, 3]);
        prop_assert_eq!(&*filters.dequantize().expect("values"), [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]);
        for (tensor, (name, stored)) in store.stored_tensors().skip(1).zip(&tensors) {
            prop_assert_eq!(tensor.raw_name().as_bytes(), name);
            prop_assert_eq!(tensor.dtype().expect("a known dtype"), stored.row.dtype);
            prop_assert_eq!(tensor.shape(), &*stored.shape);
            prop_assert_eq!(&*tensor.bytes(Part::Weight).expect("bytes"), &*stored.bytes);
        }
    }

    #[test]
    fn safetensors((file, arrays) in array_model()) {
        let store = open_as(file.build(), Strictness::Strict).expect("a well-formed file");
        walk(&store);
        let metadata: Vec<(String, String)> = store
            .metadata()
            .iter()
            .map(|(key, value)| (key, value.to_text().expect("a string")))
            .map(|(key, text)| (key.spelling().into_owned(), text.spelling().into_owned()))
            .collect();
        prop_assert_eq!(metadata, file.metadata);
        prop_assert_eq!(store.len(), arrays.len());
        for (tensor, (name, stored)) in store.stored_tensors().zip(&arrays) {
            prop_assert_eq!(tensor.name(), name.as_str());
            let found = store.stored_tensor(name).expect("by its name");
            prop_assert_eq!(found.name(), tensor.name());
            prop_assert_eq!(tensor.dtype().expect("a known dtype"), stored.row.dtype);
            prop_assert_eq!(tensor.shape(), &*stored.shape);
            prop_assert_eq!(&*tensor.bytes(Part::Weight).expect("bytes"), &*stored.bytes);
        }
    }
}

proptest! {
    /// Sorting panics where an order contradicts itself.
    #[test]
    fn the_natural_order_is_one(names in vec("[a0-9.\u{e9}]{0,5}", 3)) {
        let order = |a: usize, b: usize| {
            let text = |number: usize| Text::new(names[number].as_bytes());
            text(a).natural_cmp(text(b))
        };
        prop_assert_eq!(order(0, 1), order(1, 0).reverse());
        prop_assert_eq!(order(0, 1).is_eq(), names[0] == names[1]);
        if order(0, 1).is_le() && order(1, 2).is_le() {
            prop_assert!(order(0, 2).is_le());
        }
    }
}

/// The factor of a whole tensor is turned round as well.
#[test]
fn a_factor_beside_a_big_endian_tensor() {
    let values = |big_endian: bool| {
        let factor = if big_endian { 0.75f32.to_be_bytes() } else { 0.75f32.to_le_bytes() };
        let block = [[0x38; 4].as_slice(), &[0x12; 32]].concat();
        let mut file = Gguf::new().tensor("x.weight", DType::NVFP4, &[1, 64], block).tensor(
            "x.scale",
            DType::F32,
            &[1],
            factor,
        );
        file.big_endian = big_endian;
        let store = open_as(file.build(), Strictness::Default).expect("a well-formed file");
        store.stored_tensor("x.weight").expect("it").dequantize().expect("its values").to_vec()
    };
    assert_eq!(values(false)[..2], [0.75, 0.75]);
    assert_eq!(values(true), values(false));
}

/// Every dtype takes part above: those left out have no numbers that are known.
#[test]
fn dtypes_left_out() {
    let known = |row: &&DTypeDescriptor| row.ggml.is_some() && !row.units.is_empty();
    let covered: BTreeSet<DType> = DTYPES.iter().filter(known).map(|row| row.dtype).collect();
    for row in DTYPES {
        let elsewhere = row.safetensors.is_some() || row.packing == Packing::Group;
        let foreign = row.ggml.is_some_and(|code| code > 42);
        assert!(covered.contains(&row.dtype) || elsewhere || foreign, "{}", row.name);
    }
}
