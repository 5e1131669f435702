//! Headers that are read in pieces, from files: what they say does not depend on where a piece ends or how
//! an entry is written.

use crate::support::{Gguf, Kv, Safetensors, folder, notes, told, without_path};
use insta::assert_snapshot;
use tempfile::TempDir;
use weighbridge::{DType, Model, Part};

/// The entries of a file.
fn entries(model: &Model) -> Vec<(String, DType, Vec<u64>, Vec<u8>)> {
    let all = model.stored_tensors().map(|tensor| {
        let bytes = tensor.raw_bytes(Part::Weight).expect("its bytes").into_owned();
        (
            tensor.name().to_owned(),
            tensor.dtype().expect("a known dtype"),
            tensor.shape().to_vec(),
            bytes,
        )
    });
    all.collect()
}

/// Opens a file of these bytes. An error is returned as text.
fn opened(name: &str, bytes: Vec<u8>) -> Result<(Model, TempDir), String> {
    let folder = folder(&[(name, bytes)]);
    match Model::open(folder.path().join(name)) {
        Ok(model) => Ok((model, folder)),
        Err(error) => Err(without_path(&told(&error), folder.path())),
    }
}

/// 6,000 tensors whose names have all lengths up to 200, in a header of about a megabyte.
fn arrays() -> Safetensors {
    (0..6_000u64).fold(Safetensors::new().metadata("format", "pt"), |file, number| {
        let name = match number % 1_000 {
            700 => format!("é.{number}.weight"),
            800 => format!("a \"quoted\" \\ name.{number}"),
            other => format!("{number}.{}", "x".repeat(other as usize % 197)),
        };
        let (dtype, shape): (&str, &[u64]) = match number % 7 {
            0 => ("F32", &[1]),
            1 => ("BF16", &[2, 1]),
            2 => ("I64", &[]),
            3 => ("F8_E4M3", &[1, 2, 3]),
            4 => ("F16", &[1, 1, 1, 1, 2]),
            _ => ("U8", &[1, 3]),
        };
        let len = match number % 7 {
            0 | 1 | 4 => 4,
            2 => 8,
            3 => 6,
            _ => 3,
        };
        file.tensor(&name, dtype, shape, vec![u8::try_from(number % 251).unwrap(); len])
    })
}

#[test]
fn safetensors_in_any_spelling() {
    let usual = arrays();
    let expected: Vec<_> =
        usual.arrays.iter().map(|a| (a.name.clone(), a.shape.clone(), a.bytes.clone())).collect();
    let spellings = [
        usual.clone(),
        usual.clone().with(|file| file.spaced = true),
        usual.clone().with(|file| file.escape = true),
    ];
    for file in spellings {
        let (model, _folder) = opened("m.safetensors", file.build()).expect("opens");
        let found: Vec<_> = entries(&model)
            .into_iter()
            .map(|(name, _, shape, bytes)| (name, shape, bytes))
            .collect();
        assert!(found == expected, "spaced: {}, escape: {}", file.spaced, file.escape);
        assert_eq!(model.metadata().str("format"), Some("pt"));
        assert_eq!(notes(&model), "");
    }
}

/// The header with `from` replaced by `to`, and its data.
fn replaced(from: &str, to: &str) -> Vec<u8> {
    let file = arrays();
    let header = String::from_utf8(file.header()).expect("text");
    assert_eq!(header.matches(from).count(), 1, "{from}");
    let data = file.arrays.iter().flat_map(|array| array.bytes.clone()).collect::<Vec<u8>>();
    Safetensors::text(header.replace(from, to), data).build()
}

#[test]
fn metadata_may_stand_anywhere() {
    let metadata = "\"__metadata__\":{\"format\":\"pt\"},";
    let file = arrays();
    let header = String::from_utf8(file.header()).expect("text").replace(metadata, "");
    let data: Vec<u8> = file.arrays.iter().flat_map(|array| array.bytes.clone()).collect();
    let expected = opened("m.safetensors", file.build()).map(|(model, _)| entries(&model));
    let expected = expected.expect("opens");
    for (before, len) in
        [("\"0.", 2), ("\"0.", 300_000), ("\"1.x\"", 2), ("\"5000.", 90_000), ("\"5999.", 2)]
    {
        let value = "pt".repeat(len / 2);
        let metadata = metadata.replace("pt", &value);
        let header = header.replacen(before, &format!("{metadata}{before}"), 1);
        let model = opened("m.safetensors", Safetensors::text(header, data.clone()).build());
        let (model, _folder) = model.expect("opens");
        assert!(entries(&model) == expected, "{before} {len}");
        assert_eq!(model.metadata().str("format"), Some(value.as_str()));
    }
}

#[test]
fn faults_far_into_a_header() {
    let refused = |bytes: Vec<u8>| match opened("m.safetensors", bytes) {
        Ok((model, _)) => format!("opened, with {} tensors", model.len()),
        Err(error) => error,
    };
    let name = |number: u64| format!("\"{number}.{}\":", "x".repeat(number as usize % 1_000 % 197));
    assert_eq!(refused(replaced(&name(5_003), "\"5003\":")), "opened, with 6000 tensors");
    assert_snapshot!(refused(replaced(&name(5_003), &name(5_002))), @r#"Malformed: ./m.safetensors: tensor "5002.xx": duplicate tensor name: the header lists it twice (at byte 1003343)"#);
    assert_snapshot!(refused(replaced(&name(5_003), "\"5003\u{1}\":")), @"Malformed: ./m.safetensors: not valid JSON: a control character in a string (at byte 816288)");
    assert_snapshot!(refused(replaced(&name(5_003), "5003:")), @"Malformed: ./m.safetensors: not valid JSON: a string expected here, found '5' (at byte 816283)");
    assert_snapshot!(refused(replaced(&name(5_003), "\"__metadata__\":")), @r#"
    Malformed: ./m.safetensors: __metadata__ occurs twice, which the reference crate refuses (at byte 816298)
    help: Strictness::Lenient accepts the file
    "#);
    // The first fault of the text, whatever follows.
    let mut bytes = replaced(&name(5_003), "5003:");
    let at = bytes.windows(6).position(|window| window == b"\"5990.").expect("a name");
    bytes[at + 1] = 0xff;
    assert_snapshot!(refused(bytes).replace(&at.saturating_add(1).to_string(), "AT"), @"Malformed: ./m.safetensors: the header is not UTF-8 (at byte AT)");
    let mut bytes = arrays().build();
    let at = bytes.windows(6).position(|window| window == b"\"5990.").expect("a name");
    bytes[at + 1] = 0xff;
    assert_snapshot!(refused(bytes).replace(&at.saturating_add(1).to_string(), "AT"), @"Malformed: ./m.safetensors: the header is not UTF-8 (at byte AT)");
}

/// A vocabulary of strings of all lengths, and tensors with names of all lengths that ggml allows.
fn vocabulary() -> Gguf {
    let tokens = (0..40_000usize).map(|n| match n % 5_000 {
        4_000 => Kv::String(vec![b'y'; 3_000]),
        4_500 => Kv::text(""),
        other => Kv::String(vec![b'a' + (n % 26) as u8; other % 17 % (1 + other % 13)]),
    });
    let file = Gguf::new()
        .key("general.architecture", Kv::text("llama"))
        .key("tokenizer.ggml.tokens", Kv::Array(8, tokens.collect()))
        .key("tokenizer.ggml.scores", Kv::Array(6, vec![Kv::F32(0.0); 40_000]))
        .key("last", Kv::U32(7));
    (0..4_000u32).fold(file, |file, number| {
        let name = format!("{number}.{}", "t".repeat(number as usize % 59));
        let (dtype, shape): (DType, &[u64]) = match number % 4 {
            0 => (DType::F32, &[2, 1]),
            1 => (DType::Q8_0, &[1, 32]),
            2 => (DType::I16, &[]),
            _ => (DType::F16, &[1, 2, 1, 2]),
        };
        let len = [8, 34, 2, 8][number as usize % 4];
        file.tensor(name, dtype, shape, vec![u8::try_from(number % 251).unwrap(); len])
    })
}

fn tokens(model: &Model) -> Vec<Vec<u8>> {
    let array = model.metadata().array("tokenizer.ggml.tokens").expect("tokens");
    array.texts().expect("strings").map(|text| text.as_bytes().to_vec()).collect()
}

#[test]
fn gguf_in_any_encoding() {
    let usual = vocabulary();
    let (model, _folder) = opened("m.gguf", usual.build()).expect("opens");
    let (expected, texts) = (entries(&model), tokens(&model));
    assert_eq!((notes(&model).as_str(), expected.len(), texts.len()), ("", 4_000, 40_000));
    for (entry, tensor) in expected.iter().zip(&usual.tensors) {
        assert_eq!((entry.0.as_bytes(), &entry.2), (tensor.name.as_slice(), &tensor.shape));
    }
    let Kv::Array(_, written) = &usual.keys[1].1 else { panic!("an array") };
    let written =
        written.iter().map(|kv| if let Kv::String(text) = kv { text } else { panic!("text") });
    assert!(written.eq(&texts));
    let (old, _folder) = opened("m.gguf", usual.clone().version(1).build()).expect("opens");
    assert!(entries(&old) == expected && tokens(&old) == texts);
    assert_eq!(old.metadata().u64("last"), Some(7));
    let (swapped, _folder) = opened("m.gguf", usual.clone().big_endian().build()).expect("opens");
    assert!(entries(&swapped) == expected && tokens(&swapped) == texts);
    assert_eq!(swapped.metadata().u64("last"), Some(7));
    let (aligned, _folder) = opened("m.gguf", usual.aligned(256).build()).expect("opens");
    assert!(entries(&aligned) == expected);
}

#[test]
fn gguf_entries_that_are_not_usual() {
    let said = |file: Gguf| match opened("m.gguf", file.build()) {
        Ok((model, _)) => notes(&model),
        Err(error) => error,
    };
    let last = |change: fn(&mut crate::support::Entry)| vocabulary().last(change);
    assert_snapshot!(said(last(|entry| entry.name = vec![b'n'; 64])), @"a tensor name has 64 bytes, more than 63, which llama.cpp refuses (at byte 903504)");
    assert_snapshot!(said(last(|entry| entry.shape = vec![1, 1, 1, 2, 2])), @r#"
    LimitExceeded: ./m.gguf: tensor "3999.tttttttttttttttttttttttttttttttttttttttttttttt": 5 dimensions, but the limit is 4 (at byte 903563)
    help: for a file that you trust, the library can raise Limits::gguf_dims
    "#);
    assert_snapshot!(said(last(|entry| entry.code = 777)), @"a tensor has ggml type 777 (unknown), which llama.cpp refuses (at byte 903504)");
    assert_snapshot!(said(last(|entry| entry.offset = Some(0))), @r#"
    tensor "3999.tttttttttttttttttttttttttttttttttttttttttttttt" does not follow the one listed before it, which llama.cpp refuses (at byte 903616)
    two tensors share bytes, which llama.cpp refuses (at byte 903616)
    "#);
    assert_snapshot!(said(last(|entry| entry.offset = Some(3))), @r#"Malformed: ./m.gguf: tensor "3999.tttttttttttttttttttttttttttttttttttttttttttttt": offset 3 is not a multiple of the alignment, 32 (at byte 903619)"#);
    assert_snapshot!(said(last(|entry| entry.shape = vec![1 << 62, 4])), @r#"Malformed: ./m.gguf: tensor "3999.tttttttttttttttttttttttttttttttttttttttttttttt": shape [4611686018427387904, 4] has more than 2^63 - 1 elements (at byte 903504)"#);
    assert_snapshot!(said(last(|entry| entry.shape = vec![1 << 40, 1 << 40, 0])), @r#"Malformed: ./m.gguf: tensor "3999.tttttttttttttttttttttttttttttttttttttttttttttt": shape [1099511627776, 1099511627776, 0] has more than 2^63 - 1 elements (at byte 903504)"#);
    assert_snapshot!(said(last(|entry| entry.shape = vec![1 << 30])), @r#"
    Malformed: ./m.gguf: tensor "3999.tttttttttttttttttttttttttttttttttttttttttttttt": the tensor's 2147483648 bytes would end 2147483616 bytes after the end of the file (1063616) (at byte 1063584)
    help: the file is cut short, perhaps by an unfinished download: 1063616 of 2148547232 bytes are there (0 %), 2147483616 missing: fetch it again
    "#);
    assert_snapshot!(said(vocabulary().with(|file| file.unpadded = true)), @"the padding after the last tensor is missing, which ggml refuses where it reads tensors with the header; llama.cpp loads such a file (at byte 1063592)");
    let tokens = |text: Vec<u8>| {
        vocabulary().with(|file| {
            let Kv::Array(_, tokens) = &mut file.keys[1].1 else { panic!("an array") };
            tokens[39_000] = Kv::Raw(8, text);
        })
    };
    assert_snapshot!(said(tokens((1u64 << 40).to_le_bytes().to_vec())), @r#"Malformed: ./m.gguf: key "tokenizer.ggml.tokens": a string of 1099511627776 bytes, but only 625269 are left (at byte 435363)"#);
    assert_snapshot!(said(tokens((40u64 << 20).to_le_bytes().to_vec())), @r#"Malformed: ./m.gguf: key "tokenizer.ggml.tokens": a string of 41943040 bytes, but only 625269 are left (at byte 435363)"#);
}
