//! One case for each fault of each parser, with the message that it gives.

use crate::support;
use crate::support::{
    DIGESTS, Gguf, Kv, POLICIES, Safetensors, WhisperGgml, Writer, f32s, folder, index, notes,
    open_as, packed, put, refused, refused_by, refused_folder, sharded, told, without_path,
};
use insta::assert_snapshot;
use weighbridge::{DType, ErrorKind, Model, OpenOptions, Part, Strictness};

/// A file with one key and one tensor.
fn small() -> Gguf {
    Gguf::new().key("general.architecture", Kv::text("llama")).tensor(
        "a",
        DType::F32,
        &[2, 3],
        f32s(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
    )
}

/// Little-endian, as in version 3.
fn le() -> Writer {
    Writer::default()
}

/// A file whose only key stands in these bytes.
fn raw_key(bytes: Writer) -> Vec<u8> {
    Gguf::new().with(|file| (file.key_count, file.after_keys) = (Some(1), bytes.out)).build()
}

/// A file whose only tensor entry stands in these bytes.
fn raw_entry(bytes: Writer) -> Vec<u8> {
    Gguf::new().with(|file| (file.tensor_count, file.after_table) = (Some(1), bytes.out)).build()
}

/// A file of one key `k` whose value has this type code and these bytes.
fn raw_value(code: u32, value: Writer) -> Vec<u8> {
    raw_key(le().string(b"k").u32(code).raw(&value.out))
}

/// A tensor whose shape is what is wrong.
fn shaped(dtype: DType, shape: &[u64]) -> String {
    refused(Gguf::new().tensor("t", dtype, shape, vec![0; 32]).build())
}

#[test]
fn gguf_starts() {
    assert_snapshot!(refused(Vec::new()), @"
    Malformed: file: the file is empty
    help: the download or copy failed: fetch the file again
    ");
    assert_snapshot!(refused(b"GG".to_vec()), @"UnknownContainer: file: the file is neither GGUF nor safetensors");
    assert_snapshot!(refused(b"GGUF".to_vec()), @"
    Malformed: file: the version needs 4 bytes, but only 0 are left in the file (at byte 4)
    help: the file is cut short or damaged: fetch or copy it again
    ");
    assert_snapshot!(refused(small().with(|file| file.magic = *b"FUGG").build()), @"
    Malformed: file: a GGUF file with a reversed magic, which no writer produces, not even on big-endian machines
    help: the file was damaged by a byte swap: fetch it again
    ");
    assert_snapshot!(refused(small().with(|file| file.magic = *b"GGUX").build()), @"UnknownContainer: file: the file is neither GGUF nor safetensors");
    assert_snapshot!(refused(small().version(0).build()), @"Unsupported: file: GGUF version 0, but 1, 2 and 3 are known (at byte 4)");
    assert_snapshot!(refused(small().version(4).build()), @"Unsupported: file: GGUF version 4, but 1, 2 and 3 are known (at byte 4)");
    assert_snapshot!(refused(small().version(99).big_endian().build()), @"Unsupported: file: GGUF version 99, but 1, 2 and 3 are known (at byte 4)");
}

#[test]
fn gguf_counts() {
    let count = |keys, tensors| {
        refused(small().with(|file| (file.key_count, file.tensor_count) = (keys, tensors)).build())
    };
    assert_snapshot!(count(None, Some(u64::MAX)), @"
    Malformed: file: the number of tensors is 18446744073709551615, but the file has room for 6 at most (at byte 8)
    help: the file is cut short or damaged
    ");
    assert_snapshot!(count(Some(u64::MAX), None), @"
    Malformed: file: the number of metadata keys is 18446744073709551615, but the file has room for 9 at most (at byte 16)
    help: the file is cut short or damaged
    ");
    assert_snapshot!(count(Some(1 << 63), None), @"
    Malformed: file: the number of metadata keys is 9223372036854775808, but the file has room for 9 at most (at byte 16)
    help: the file is cut short or damaged
    ");
    assert_snapshot!(count(Some(1_000_000_000), None), @"
    Malformed: file: the number of metadata keys is 1000000000, but the file has room for 9 at most (at byte 16)
    help: the file is cut short or damaged
    ");
    assert_snapshot!(count(Some(2), None), @"Malformed: file: a string of 562949953421312 bytes, but only 68 are left (at byte 84)");
    assert_snapshot!(count(None, Some(2)), @r#"
    Malformed: file: tensor "a": the tensor's 24 bytes would end 24 bytes after the end of the file (160) (at byte 160)
    help: the file is cut short, perhaps by an unfinished download: 160 of 69818988363940 bytes are there (0 %), 69818988363780 missing: fetch it again
    "#);
}

#[test]
fn gguf_keys() {
    assert_snapshot!(refused(raw_key(le().u64(u64::MAX).raw(&[0; 16]))), @"Malformed: file: a string of 18446744073709551615 bytes, but only 16 are left (at byte 24)");
    assert_snapshot!(refused(raw_key(le().u64(17).raw(&[b'k'; 16]))), @"Malformed: file: a string of 17 bytes, but only 16 are left (at byte 24)");
    assert_snapshot!(refused(raw_key(le().string(b"").u32(4).u32(0))), @"Malformed: file: an empty metadata key (at byte 24)");
    assert_snapshot!(refused(raw_value(13, le().u64(0))), @r#"Malformed: file: key "k": value type 13, but 0 to 12 are known (at byte 33)"#);
    assert_snapshot!(refused(raw_value(255, le().u64(0))), @r#"Malformed: file: key "k": value type 255, but 0 to 12 are known (at byte 33)"#);
    assert_snapshot!(refused(raw_value(u32::MAX, le().u64(0))), @r#"Malformed: file: key "k": value type 4294967295, but 0 to 12 are known (at byte 33)"#);
    assert_snapshot!(refused(raw_value(12, le().u32(0))), @r#"
    Malformed: file: key "k": a value needs 8 bytes, but only 4 are left in the file (at byte 37)
    help: the file is cut short or damaged: fetch or copy it again
    "#);
    assert_snapshot!(refused(small().key("k", Kv::U8(1)).key("k", Kv::U8(1)).build()), @r#"Malformed: file: duplicate metadata key "k" (at byte 91)"#);
    // Beyond the number of keys that are searched one by one.
    let many = (0..40).fold(small(), |file, n| file.key(format!("k{}", n % 39), Kv::U8(1)));
    assert_snapshot!(refused(many.build()), @r#"Malformed: file: duplicate metadata key "k0" (at byte 691)"#);
}

#[test]
fn gguf_strings() {
    assert_snapshot!(refused(raw_value(8, le().u64(u64::MAX))), @r#"Malformed: file: key "k": a string of 18446744073709551615 bytes, but only 0 are left (at byte 37)"#);
    assert_snapshot!(refused(raw_value(8, le().u64(1 << 62).raw(b"abc"))), @r#"Malformed: file: key "k": a string of 4611686018427387904 bytes, but only 3 are left (at byte 37)"#);
    assert_snapshot!(refused(raw_value(8, le().u64(4).raw(b"abc"))), @r#"Malformed: file: key "k": a string of 4 bytes, but only 3 are left (at byte 37)"#);
    assert_snapshot!(refused(raw_value(8, le().u32(1))), @r#"
    Malformed: file: key "k": a string needs 8 bytes, but only 4 are left in the file (at byte 37)
    help: the file is cut short or damaged: fetch or copy it again
    "#);
}

#[test]
fn gguf_arrays() {
    let array = |element: u32, count: u64, bytes: &[u8]| {
        refused(raw_value(9, le().u32(element).u64(count).raw(bytes)))
    };
    assert_snapshot!(array(0, u64::MAX, b""), @r#"
    Malformed: file: key "k": the number of elements is 18446744073709551615, but the file has room for 0 at most (at byte 41)
    help: the file is cut short or damaged
    "#);
    assert_snapshot!(array(0, 4, b"abc"), @r#"
    Malformed: file: key "k": the number of elements is 4, but the file has room for 3 at most (at byte 41)
    help: the file is cut short or damaged
    "#);
    assert_snapshot!(array(4, (1 << 62) + 1, b"abcd"), @r#"
    Malformed: file: key "k": the number of elements is 4611686018427387905, but the file has room for 1 at most (at byte 41)
    help: the file is cut short or damaged
    "#);
    assert_snapshot!(array(8, 1 << 40, b"abcd"), @r#"
    Malformed: file: key "k": the number of elements is 1099511627776, but the file has room for 0 at most (at byte 41)
    help: the file is cut short or damaged
    "#);
    assert_snapshot!(array(9, 1 << 40, &[0; 24]), @r#"
    Malformed: file: key "k": the number of elements is 1099511627776, but the file has room for 2 at most (at byte 41)
    help: the file is cut short or damaged
    "#);
    assert_snapshot!(array(13, 1, b"abcd"), @r#"Malformed: file: key "k": element type 13, but 0 to 12 are known (at byte 37)"#);
    assert_snapshot!(array(u32::MAX, 0, b""), @r#"Malformed: file: key "k": element type 4294967295, but 0 to 12 are known (at byte 37)"#);
    let strings =
        |length: u64| refused(raw_value(9, le().u32(8).u64(2).string(b"a").u64(length).raw(b"bc")));
    assert_snapshot!(strings(1 << 63), @r#"Malformed: file: key "k": a string of 9223372036854775808 bytes, but only 2 are left (at byte 58)"#);
    assert_snapshot!(strings(3), @r#"Malformed: file: key "k": a string of 3 bytes, but only 2 are left (at byte 58)"#);
    assert_snapshot!(refused(raw_value(9, le().u32(4))), @r#"
    Malformed: file: key "k": the number of elements needs 8 bytes, but only 0 are left in the file (at byte 41)
    help: the file is cut short or damaged: fetch or copy it again
    "#);
    assert_snapshot!(refused(raw_value(9, le().raw(b"\x04"))), @r#"
    Malformed: file: key "k": an element type needs 4 bytes, but only 1 are left in the file (at byte 37)
    help: the file is cut short or damaged: fetch or copy it again
    "#);
}

#[test]
fn gguf_nested_arrays() {
    let nested = |depth: usize| {
        let inner = Kv::Array(0, vec![Kv::U8(7)]);
        let value = (1..depth).fold(inner, |inner, _| Kv::Array(9, vec![inner]));
        small().key("k", value).build()
    };
    assert!(open_as(nested(4), Strictness::Default).is_ok());
    assert_snapshot!(refused(nested(5)), @r#"
    LimitExceeded: file: key "k": 5 levels of arrays, but the limit is 4 (at byte 130)
    help: for a file that you trust, the library can raise Limits::array_depth
    "#);
    assert_snapshot!(refused(nested(10_000)), @r#"
    LimitExceeded: file: key "k": 5 levels of arrays, but the limit is 4 (at byte 130)
    help: for a file that you trust, the library can raise Limits::array_depth
    "#);
    assert_snapshot!(refused_by(nested(2), Strictness::Strict), @r#"
    Malformed: file: key "k": an array contains an array, which llama.cpp refuses (at byte 94)
    help: without Strictness::Strict the file is accepted
    "#);
}

#[test]
fn gguf_alignments() {
    let alignment = |value: Kv| refused(small().key("general.alignment", value).build());
    assert_snapshot!(alignment(Kv::U32(0)), @r#"Malformed: file: key "general.alignment": the alignment is 0, not a power of two (at byte 98)"#);
    assert_snapshot!(alignment(Kv::U32(13)), @r#"Malformed: file: key "general.alignment": the alignment is 13, not a power of two (at byte 98)"#);
    assert_snapshot!(alignment(Kv::U32(1 << 31)), @r#"
    LimitExceeded: file: key "general.alignment": 2147483648 bytes of alignment, but the limit is 1048576 (at byte 98)
    help: for a file that you trust, the library can raise Limits::alignment
    "#);
    assert_snapshot!(alignment(Kv::U64(1 << 63)), @r#"
    LimitExceeded: file: key "general.alignment": 9223372036854775808 bytes of alignment, but the limit is 1048576 (at byte 98)
    help: for a file that you trust, the library can raise Limits::alignment
    "#);
    assert_snapshot!(alignment(Kv::I32(-32)), @r#"Malformed: file: key "general.alignment": the alignment is -32, not a power of two (at byte 98)"#);
    assert_snapshot!(alignment(Kv::F32(32.0)), @r#"Malformed: file: key "general.alignment": the alignment is a f32, not an integer (at byte 98)"#);
    assert_snapshot!(alignment(Kv::Bool(true)), @r#"Malformed: file: key "general.alignment": the alignment is a bool, not an integer (at byte 98)"#);
    assert_snapshot!(alignment(Kv::text("32")), @r#"Malformed: file: key "general.alignment": the alignment is a string, not an integer (at byte 98)"#);
    assert_snapshot!(alignment(Kv::Array(4, vec![Kv::U32(32)])), @r#"Malformed: file: key "general.alignment": the alignment is a array, not an integer (at byte 98)"#);
    let odd = small().key("general.alignment", Kv::I32(32)).build();
    assert_snapshot!(refused_by(odd, Strictness::Strict), @r#"
    Malformed: file: key "general.alignment": general.alignment is a i32, not a u32, which llama.cpp refuses (at byte 98)
    help: without Strictness::Strict the file is accepted
    "#);
}

/// -128 in 8 bits is 0x80, which read without its sign is a power of two.
#[test]
fn gguf_negative_alignments() {
    for value in [Kv::I8(-128), Kv::I16(-32_768), Kv::I32(i32::MIN), Kv::I64(i64::MIN)] {
        let file = Gguf::new().key("general.alignment", value.clone()).build();
        let said = refused(file);
        assert!(said.starts_with("Malformed") && said.contains('-'), "{value:?}: {said}");
    }
}

#[test]
fn gguf_tensor_entries() {
    let named = |length: u64| refused(raw_entry(le().u64(length).raw(&[0; 40])));
    assert_snapshot!(named(u64::MAX), @"Malformed: file: a string of 18446744073709551615 bytes, but only 40 are left (at byte 24)");
    assert_snapshot!(named(41), @"Malformed: file: a string of 41 bytes, but only 40 are left (at byte 24)");
    let ranked = |rank: u32| refused(raw_entry(le().string(b"t").u32(rank).raw(&[0; 40])));
    assert_snapshot!(ranked(u32::MAX), @r#"
    LimitExceeded: file: tensor "t": 4294967295 dimensions, but the limit is 4 (at byte 33)
    help: for a file that you trust, the library can raise Limits::gguf_dims
    "#);
    assert_snapshot!(shaped(DType::F32, &[1, 1, 1, 1, 1]), @r#"
    LimitExceeded: file: tensor "t": 5 dimensions, but the limit is 4 (at byte 33)
    help: for a file that you trust, the library can raise Limits::gguf_dims
    "#);
    let twice = small().tensor("b", DType::F32, &[1], f32s(&[1.0]));
    assert_snapshot!(refused(twice.tensor("a", DType::F32, &[1], f32s(&[1.0])).build()), @r#"Malformed: file: tensor "a": duplicate tensor name (at byte 256)"#);
    let long = "n".repeat(64);
    let long = Gguf::new().tensor(long, DType::F32, &[1], f32s(&[1.0])).build();
    assert!(open_as(long.clone(), Strictness::Default).is_ok());
    assert_snapshot!(refused_by(long, Strictness::Strict), @"
    Malformed: file: a tensor name has 64 bytes, more than 63, which llama.cpp refuses (at byte 24)
    help: without Strictness::Strict the file is accepted
    ");
}

#[test]
fn gguf_shapes() {
    assert_snapshot!(shaped(DType::F32, &[u64::MAX, 1]), @r#"Malformed: file: tensor "t": shape [18446744073709551615, 1] has more than 2^63 - 1 elements (at byte 24)"#);
    assert_snapshot!(shaped(DType::F32, &[1 << 32, 1 << 32]), @r#"Malformed: file: tensor "t": shape [4294967296, 4294967296] has more than 2^63 - 1 elements (at byte 24)"#);
    assert_snapshot!(shaped(DType::F32, &[1 << 31, 1 << 31, 1 << 31]), @r#"Malformed: file: tensor "t": shape [2147483648, 2147483648, 2147483648] has more than 2^63 - 1 elements (at byte 24)"#);
    assert_snapshot!(shaped(DType::F32, &[0x1_ffff_fffc, 0x1_ffff_fffc]), @r#"Malformed: file: tensor "t": shape [8589934588, 8589934588] has more than 2^63 - 1 elements (at byte 24)"#);
    assert_snapshot!(shaped(DType::I8, &[1 << 63]), @r#"Malformed: file: tensor "t": shape [9223372036854775808] has more than 2^63 - 1 elements (at byte 24)"#);
    assert_snapshot!(shaped(DType::I64, &[(1 << 61) + 1]), @r#"Malformed: file: tensor "t": shape [2305843009213693953] has more than 2^64 elements (at byte 64)"#);
    assert_snapshot!(shaped(DType::F32, &[(1 << 30) + 1, (1 << 30) - 1, 4]), @r#"
    Malformed: file: tensor "t": the tensor's 18446744073709551600 bytes would end 18446744073709551487 bytes after the end of the file (128) (at byte 96)
    help: the file is cut short, perhaps by an unfinished download: fetch it again
    "#);
    assert_snapshot!(shaped(DType::I8, &[i64::MAX as u64]), @r#"
    Malformed: file: tensor "t": the tensor's 9223372036854775807 bytes would end 9223372036854775775 bytes after the end of the file (96) (at byte 64)
    help: the file is cut short, perhaps by an unfinished download: 96 of 9223372036854775871 bytes are there (0 %), 9223372036854775775 missing: fetch it again
    "#);
    assert_snapshot!(shaped(DType::F32, &[1 << 18, 1 << 20]), @r#"
    Malformed: file: tensor "t": the tensor's 1099511627776 bytes would end 1099511627744 bytes after the end of the file (128) (at byte 96)
    help: the file is cut short, perhaps by an unfinished download: 128 of 1099511627872 bytes are there (0 %), 1099511627744 missing: fetch it again
    "#);
    assert_snapshot!(shaped(DType::Q4_0, &[33]), @r#"Malformed: file: tensor "t": rows of 33 elements do not divide into Q4_0 blocks of 32 (at byte 64)"#);
    assert_snapshot!(shaped(DType::Q4_K, &[256, 32]), @r#"Malformed: file: tensor "t": rows of 32 elements do not divide into Q4_K blocks of 256 (at byte 96)"#);
}

#[test]
fn gguf_offsets() {
    let at = |offset| refused(small().at(offset).build());
    assert_snapshot!(at(u64::MAX), @"Malformed: file: offset 18446744073709551615 exceeds the largest file size");
    assert_snapshot!(at(u64::MAX - 31), @"Malformed: file: offset 18446744073709551584 exceeds the largest file size");
    assert_snapshot!(at(2), @r#"Malformed: file: tensor "a": offset 2 is not a multiple of the alignment, 32 (at byte 130)"#);
    assert_snapshot!(at(4096), @r#"
    Malformed: file: tensor "a": the tensor's 24 bytes would end 4088 bytes after the end of the file (160) (at byte 4224)
    help: the file is cut short, perhaps by an unfinished download: 160 of 4248 bytes are there (3 %), 4088 missing: fetch it again
    "#);
    let mut short = small().with(|file| file.unpadded = true).build();
    short.pop();
    assert_snapshot!(refused(short), @r#"
    Malformed: file: tensor "a": the tensor's 24 bytes would end 1 bytes after the end of the file (151) (at byte 128)
    help: the file is cut short, perhaps by an unfinished download: 151 of 152 bytes are there (99 %), 1 missing: fetch it again
    "#);
    // Laid out for an alignment of 1, which no key gives.
    let inconsistent = Gguf::new().with(|file| file.alignment = 1);
    let inconsistent =
        inconsistent.tensor("a", DType::I8, &[1], [1]).tensor("b", DType::I8, &[1], [2]);
    assert_snapshot!(refused(inconsistent.build()), @r#"
    Malformed: file: tensor "a": the tensor's 1 bytes would end 5 bytes after the end of the file (92) (at byte 96)
    help: the file is cut short, perhaps by an unfinished download: 92 of 98 bytes are there (93 %), 6 missing: fetch it again
    "#);
    // Two sizes that are fine alone and too much together.
    let huge = Gguf::new().tensor("a", DType::I8, &[0x7fff_ffff_ffff_ffc0], [0; 32]).tensor(
        "b",
        DType::I8,
        &[0x7fff_ffff_ffff_ffc0],
        [0; 32],
    );
    assert_snapshot!(refused(huge.build()), @r#"
    Malformed: file: tensors "a" and "b" overlap: the first ends at 9223372036854775840, the second begins at 128, which llama.cpp refuses (at byte 128)
    help: Strictness::Lenient accepts the file
    "#);
}

#[test]
fn gguf_dtypes_are_refused_where_their_bytes_are_asked_for() {
    let coded = |code: u32| {
        let file = small().coded("odd", code, &[256], [0; 32]).build();
        let store = open_as(file, Strictness::Default).expect("a file with one odd tensor");
        let odd = store.stored_tensor("odd").expect("the odd tensor");
        told(&odd.bytes(weighbridge::Part::Weight).expect_err("an unknown dtype"))
    };
    assert_snapshot!(coded(4), @r#"Unsupported: file: tensor "odd": ggml type 4 (Q4_2, removed from ggml) cannot be read"#);
    assert_snapshot!(coded(33), @r#"Unsupported: file: tensor "odd": ggml type 33 (Q4_0_8_8, removed from ggml) cannot be read"#);
    assert_snapshot!(coded(37), @r#"Unsupported: file: tensor "odd": ggml type 37 (IQ4_NL_4_8, removed from ggml) cannot be read"#);
    assert_snapshot!(coded(43), @r#"Unsupported: file: tensor "odd": ggml type 43 (unknown) cannot be read"#);
    assert_snapshot!(coded(u32::MAX), @r#"Unsupported: file: tensor "odd": ggml type 4294967295 (unknown) cannot be read"#);
    let strict = small().coded("odd", 31, &[256], [0; 32]).build();
    assert_snapshot!(refused_by(strict, Strictness::Strict), @"
    Malformed: file: a tensor has ggml type 31 (Q4_0_4_4, removed from ggml), which llama.cpp refuses (at byte 110)
    help: without Strictness::Strict the file is accepted
    ");
}

/// Oddities that every reader accepts are noted, and refused by none.
#[test]
fn gguf_oddities() {
    let noted = |file: Gguf| {
        notes(&open_as(file.build(), Strictness::Strict).expect("a file llama.cpp reads"))
    };
    assert_snapshot!(noted(small().key("b", Kv::Raw(7, vec![2]))), @"a boolean is neither 0 nor 1 but read as true (at byte 82)");
    assert_snapshot!(noted(small().key("a\0b", Kv::U8(1))), @"a key holds a NUL byte (at byte 69)");
}

/// Files that llama.cpp refuses and that have one safe reading: strict refuses them, the others
/// note it.
#[test]
fn gguf_strictness() {
    let said = |file: Gguf| {
        let store = open_as(file.build(), Strictness::Default).expect("a file with one reading");
        let refused = refused_by(file.build(), Strictness::Strict);
        format!("{}\n{refused}", notes(&store))
    };
    assert_snapshot!(said(small().version(1)), @"
    the file is of GGUF version 1, which llama.cpp refuses (at byte 4)
    Malformed: file: the file is of GGUF version 1, which llama.cpp refuses (at byte 4)
    help: without Strictness::Strict the file is accepted
    ");
    assert_snapshot!(said(small().with(|file| file.keys.clear()).big_endian()), @"
    the file is big-endian, which llama.cpp refuses (at byte 4)
    Malformed: file: the file is big-endian, which llama.cpp refuses (at byte 4)
    help: without Strictness::Strict the file is accepted
    ");
    assert_snapshot!(said(small().key("general.alignment", Kv::U64(32))), @r#"
    general.alignment is a u64, not a u32, which llama.cpp refuses (at byte 98)
    Malformed: file: key "general.alignment": general.alignment is a u64, not a u32, which llama.cpp refuses (at byte 98)
    help: without Strictness::Strict the file is accepted
    "#);
    let second = || small().tensor("b", DType::F32, &[1], f32s(&[1.0]));
    assert_snapshot!(said(second().last(|entry| entry.gap = 128)), @r#"
    tensor "b" does not follow the one listed before it, which llama.cpp refuses (at byte 320)
    Malformed: file: tensor "b" does not follow the one listed before it, which llama.cpp refuses (at byte 320)
    help: without Strictness::Strict the file is accepted
    "#);
    assert_snapshot!(said(second().at(0)), @r#"
    tensor "b" does not follow the one listed before it, which llama.cpp refuses (at byte 160)
    two tensors share bytes, which llama.cpp refuses (at byte 160)
    Malformed: file: tensor "b" does not follow the one listed before it, which llama.cpp refuses (at byte 160)
    help: without Strictness::Strict the file is accepted
    "#);
    // A size that is wrong, as for a type that another program has under the same number.
    let within = Gguf::new()
        .key("general.architecture", Kv::text("llama"))
        .tensor("a", DType::Q8_0, &[64], vec![0; 68])
        .tensor("b", DType::F32, &[1], f32s(&[1.0]))
        .at(32);
    assert_snapshot!(refused_by(within.build(), Strictness::Default), @r#"
    Malformed: file: tensors "a" and "b" overlap: the first ends at 228, the second begins at 192; the first has the number of Q8_0, by which another program may mean a type of another size, which llama.cpp refuses (at byte 192)
    help: Strictness::Lenient accepts the file
    "#);
    assert_snapshot!(said(second().with(|file| file.order = Some(vec![1, 0]))), @r#"
    tensor "a" does not follow the one listed before it, which llama.cpp refuses (at byte 192)
    tensor "b" does not follow the one listed before it, which llama.cpp refuses (at byte 160)
    Malformed: file: tensor "a" does not follow the one listed before it, which llama.cpp refuses (at byte 192)
    help: without Strictness::Strict the file is accepted
    "#);
    assert_snapshot!(said(small().with(|file| file.unpadded = true)), @"
    the padding after the last tensor is missing, which ggml refuses where it reads tensors with the header; llama.cpp loads such a file (at byte 152)
    Malformed: file: the padding after the last tensor is missing, which ggml refuses where it reads tensors with the header; llama.cpp loads such a file (at byte 152)
    help: without Strictness::Strict the file is accepted
    ");
    assert_snapshot!(said(small().coded("odd", 43, &[1], [])), @"
    a tensor has ggml type 43 (unknown), which llama.cpp refuses (at byte 110)
    Malformed: file: a tensor has ggml type 43 (unknown), which llama.cpp refuses (at byte 110)
    help: without Strictness::Strict the file is accepted
    ");
}

#[test]
fn gguf_is_accepted_at_its_edges() {
    let f32 = || f32s(&[1.0]);
    let cases = [
        Gguf::new(),
        Gguf::new().key("k", Kv::texts(&[])),
        Gguf::new().tensor("scalar", DType::F32, &[], f32()),
        Gguf::new().tensor("none", DType::F32, &[4, 0], []),
        Gguf::new().tensor("none", DType::Q4_0, &[0], []).tensor("a", DType::F32, &[1], f32()),
        Gguf::new().tensor("", DType::F32, &[1], f32()),
        Gguf::new().aligned(1).tensor("a", DType::I8, &[1], [1]).tensor("b", DType::I8, &[1], [2]),
        Gguf::new().aligned(4096).tensor("a", DType::I8, &[1], [1]),
        Gguf::new().version(2).tensor("a", DType::F32, &[1], f32()),
        Gguf::new().key([0xff, 0xfe], Kv::String(vec![0x80])),
        Gguf::new().key("llama.block_count", Kv::U64(u32::MAX.into())),
        Gguf::new().tensor("../../../tmp/x", DType::F32, &[1], f32()),
    ];
    for file in cases {
        for policy in POLICIES {
            let store = open_as(file.build(), policy);
            let store = store.unwrap_or_else(|error| panic!("{policy:?}: {error}: {file:?}"));
            support::walk(&store);
            assert_eq!(notes(&store), "", "{file:?}");
        }
    }
}

#[test]
fn gguf_shards() {
    let shard = |number: u16, count: u16, total: i32| {
        Gguf::new()
            .key("split.no", Kv::U16(number))
            .key("split.count", Kv::U16(count))
            .key("split.tensors.count", Kv::I32(total))
            .tensor(format!("t{number}"), DType::F32, &[1], f32s(&[1.0]))
            .build()
    };
    const FIRST: &str = "m-00001-of-00002.gguf";
    const SECOND: &str = "m-00002-of-00002.gguf";
    let both = |first: Vec<u8>, second: Vec<u8>| {
        refused_folder(&folder(&[(FIRST, first), (SECOND, second)]))
    };
    let good = folder(&[(FIRST, shard(0, 2, 2)), (SECOND, shard(1, 2, 2))]);
    for file in [FIRST, SECOND] {
        let store = OpenOptions::new().threads(2).open(good.path().join(file));
        assert_eq!(store.expect("a set of two").len(), 2);
    }
    assert_snapshot!(refused_folder(&folder(&[(FIRST, shard(0, 2, 2))])), @"
    Malformed: ./m-00001-of-00002.gguf: 1 of 2 shards are missing, the first m-00002-of-00002.gguf
    help: fetch the missing shards into the same directory
    ");
    assert_snapshot!(refused_folder(&folder(&[(SECOND, shard(1, 2, 2))])), @"
    Malformed: ./m-00002-of-00002.gguf: 1 of 2 shards are missing, the first m-00001-of-00002.gguf
    help: fetch the missing shards into the same directory
    ");
    let part = folder(&[(SECOND, shard(1, 2, 2))]);
    let part = OpenOptions::new().partial(true).open(part.path()).expect("one shard of two");
    assert_eq!(part.len(), 1);
    assert_snapshot!(refused_folder(&folder(&[("m.gguf", shard(0, 2, 2))])), @"
    Malformed: ./m.gguf: this is shard 1 of 2, but the file name does not say so, so the other shards cannot be found
    help: name the shards PREFIX-00001-of-0000N.gguf, as llama-gguf-split does
    ");
    assert_snapshot!(both(shard(0, 3, 2), shard(1, 2, 2)), @"
    Malformed: ./m-00001-of-00002.gguf: the name says shard 1 of 2, but the metadata say 1 of 3
    help: restore the file's original name
    ");
    assert_snapshot!(both(shard(1, 2, 2), shard(0, 2, 2)), @"
    Malformed: ./m-00001-of-00002.gguf: the name says shard 1 of 2, but the metadata say 2 of 2
    help: restore the file's original name
    ");
    assert_snapshot!(both(shard(2, 2, 2), shard(1, 2, 2)), @"Malformed: ./m-00001-of-00002.gguf: split.no is 2, but there are 2 shards");
    assert_snapshot!(both(shard(0, 2, 2), shard(0, 2, 2)), @"
    Malformed: ./m-00002-of-00002.gguf: the metadata say shard 1 of 2, but the file name says 2 of 2
    help: the directory mixes shards of different models
    ");
    assert_snapshot!(both(shard(0, 2, 3), shard(1, 2, 3)), @"
    Malformed: ./m-00001-of-00002.gguf: the shards hold 2 tensors, but split.tensors.count says 3
    help: the directory mixes shards of different models
    ");
    assert_snapshot!(both(shard(0, 2, 2), small().build()), @"Malformed: ./m-00002-of-00002.gguf: not a shard: split.count is missing");
    let same = |number: u16| {
        let keys = Gguf::new().key("split.no", Kv::U16(number)).key("split.count", Kv::U16(2));
        keys.tensor("t", DType::F32, &[1], f32s(&[1.0])).build()
    };
    assert_snapshot!(both(same(0), same(1)), @r#"Malformed: ./m-00002-of-00002.gguf: tensor "t": ./m-00001-of-00002.gguf has a tensor with the same name (at byte 128)"#);
    assert_snapshot!(both(small().key("split.count", Kv::text("2")).build(), same(1)), @r#"Malformed: .: key "split.count": String("2"), but a non-negative integer is required"#);
    assert_snapshot!(both(shard(0, 2, 2), b"GGUF\x03".to_vec()), @"
    Malformed: ./m-00002-of-00002.gguf: the version needs 4 bytes, but only 1 are left in the file (at byte 4)
    help: the file is cut short or damaged: fetch or copy it again
    ");
    let several = folder(&[("a.gguf", small().build()), ("b.gguf", small().build())]);
    assert_snapshot!(refused_folder(&several), @"
    Mismatch: .: the directory contains 2 models: a.gguf, b.gguf
    help: give the path of one of them, or where several are taken, as FOLDER/*.gguf
    ");
}

/// Bytes in memory have no neighbours on disk, whatever they are called.
#[test]
fn gguf_shard_in_memory() {
    let shard = |number: u16| {
        let keys = Gguf::new().key("split.no", Kv::U16(number)).key("split.count", Kv::U16(2));
        keys.tensor(format!("t{number}"), DType::F32, &[1], f32s(&[1.0])).build()
    };
    let folder =
        folder(&[("m-00001-of-00002.gguf", shard(0)), ("m-00002-of-00002.gguf", shard(1))]);
    let path = folder.path().join("m-00001-of-00002.gguf");
    let error = OpenOptions::new().open_memory(path, shard(0)).expect_err("one of two shards");
    assert_eq!(error.kind(), ErrorKind::Malformed);
    let said = "a single shard of a split model cannot be opened without the others";
    assert!(error.to_string().ends_with(said), "{error}");
}

/// One F32 array of 8 elements behind a header that is wrong in one thing.
fn header(text: &str) -> Vec<u8> {
    Safetensors::text(text, vec![0; 32]).build()
}

fn entry(entry: &str) -> String {
    refused(header(&format!("{{\"a\":{entry}}}")))
}

#[test]
fn safetensors_lengths() {
    let good = Safetensors::new().tensor("a", "F32", &[2], f32s(&[1.0, 2.0]));
    let named = |bytes: Vec<u8>| {
        told(&OpenOptions::new().open_memory("a.safetensors", bytes).expect_err("a wrong length"))
    };
    assert_snapshot!(refused(vec![1]), @"UnknownContainer: file: the file is neither GGUF nor safetensors");
    assert_snapshot!(named(vec![1; 7]), @"
    Malformed: a.safetensors: a file of 7 bytes, but the header's length alone takes 8
    help: the file is cut short: fetch it again
    ");
    assert_snapshot!(named(vec![0; 8]), @"Malformed: a.safetensors: the header's length is 0 (at byte 0)");
    assert_snapshot!(named(good.clone().with(|file| file.length = Some(0)).build()), @"Malformed: a.safetensors: the header's length is 0 (at byte 0)");
    assert_snapshot!(named(good.clone().with(|file| file.length = Some(10_000)).build()), @"
    Malformed: a.safetensors: the header's length is 10000, but only 62 bytes follow (at byte 0)
    help: the file is cut short, perhaps by an unfinished download: fetch it again
    ");
    assert_snapshot!(named(good.clone().with(|file| file.length = Some(100_000_001)).build()), @"
    Malformed: a.safetensors: the header's length is 100000001, but only 62 bytes follow (at byte 0)
    help: this is not a safetensors file, or its start was overwritten
    ");
    assert_snapshot!(named(good.with(|file| file.length = Some(u64::MAX)).build()), @"
    Malformed: a.safetensors: the header's length is 18446744073709551615, but only 62 bytes follow (at byte 0)
    help: this is not a safetensors file, or its start was overwritten
    ");
}

/// The length comes first, so some lengths begin like the magic of pickle or gzip.
#[test]
fn safetensors_lengths_that_look_like_magic() {
    for length in [0x0280, 0x0380, 0x0480, 0x0580, 0x8b1f, 0x1_0280] {
        let mut file = Safetensors::new().tensor("a", "F32", &[1], f32s(&[1.0]));
        let mut text = file.header();
        text.resize(length, b' ');
        file.text = Some(text);
        let opened = open_as(file.build(), Strictness::Strict).map(|store| store.len());
        assert_eq!(opened.map_err(|error| error.to_string()), Ok(1), "{length}");
    }
}

#[test]
fn safetensors_json() {
    assert_snapshot!(refused(header("{\"a\":")), @r#"Malformed: file: tensor "a": not valid JSON: the text ends where an object with dtype, shape and data_offsets is expected (at byte 13)"#);
    assert_snapshot!(refused(header("{\"a\":{},}")), @r#"Malformed: file: tensor "a": the entry has no dtype (at byte 15)"#);
    assert_snapshot!(refused(header("{}}")), @"Malformed: file: not valid JSON: the end of the header expected here, found '}' (at byte 10)");
    assert_snapshot!(refused(header("{} x")), @"Malformed: file: not valid JSON: the end of the header expected here, found 'x' (at byte 11)");
    assert_snapshot!(refused(header("{a:1}")), @"Malformed: file: not valid JSON: a string expected here, found 'a' (at byte 9)");
    assert_snapshot!(refused(header("{\"a\"}")), @"Malformed: file: not valid JSON: ':' expected here, found '}' (at byte 12)");
    assert_snapshot!(refused(header("{\"a\n\":{}}")), @"Malformed: file: not valid JSON: a control character in a string (at byte 11)");
    assert_snapshot!(refused(header("{\"a")), @"Malformed: file: not valid JSON: a string is not terminated (at byte 11)");
    assert_snapshot!(refused(Safetensors::text(b"{\"a\xff\":{}}", []).build()), @"Malformed: file: the header is not UTF-8 (at byte 11)");
    assert_snapshot!(refused(header("[]")), @"UnknownContainer: file: the file is neither GGUF nor safetensors");
    let deep = |depth| refused(header(&format!("{{\"a\":{{\"x\":{}", "[".repeat(depth))));
    assert_snapshot!(deep(100_000), @r#"Malformed: file: tensor "a": JSON nested deeper than 128 levels (at byte 146)"#);
}

#[test]
fn safetensors_entries() {
    let good = "\"dtype\":\"F32\",\"shape\":[8],\"data_offsets\":[0,32]";
    assert!(open_as(header(&format!("{{\"a\":{{{good}}}}}")), Strictness::Strict).is_ok());
    assert_snapshot!(entry("5"), @r#"Malformed: file: tensor "a": not valid JSON: an object with dtype, shape and data_offsets expected here, found '5' (at byte 13)"#);
    assert_snapshot!(entry("[\"F32\",[8],[0,32]]"), @r#"Malformed: file: tensor "a": not valid JSON: an object with dtype, shape and data_offsets expected here, found '[' (at byte 13)"#);
    assert_snapshot!(entry("{}"), @r#"Malformed: file: tensor "a": the entry has no dtype (at byte 15)"#);
    assert_snapshot!(entry("{\"shape\":[8],\"data_offsets\":[0,32]}"), @r#"Malformed: file: tensor "a": the entry has no dtype (at byte 48)"#);
    assert_snapshot!(entry("{\"dtype\":\"F32\",\"data_offsets\":[0,32]}"), @r#"Malformed: file: tensor "a": the entry has no shape (at byte 50)"#);
    assert_snapshot!(entry("{\"dtype\":\"F32\",\"shape\":[8]}"), @r#"Malformed: file: tensor "a": the entry has no data_offsets (at byte 40)"#);
    assert_snapshot!(entry("{\"dtype\":\"F7\",\"shape\":[8],\"data_offsets\":[0,32]}"), @r#"Malformed: file: tensor "a": "F7" is not a safetensors dtype (at byte 26)"#);
    assert_snapshot!(entry("{\"dtype\":\"f32\",\"shape\":[8],\"data_offsets\":[0,32]}"), @r#"Malformed: file: tensor "a": "f32" is not a safetensors dtype (at byte 27)"#);
    assert_snapshot!(entry("{\"dtype\":\"\",\"shape\":[8],\"data_offsets\":[0,32]}"), @r#"Malformed: file: tensor "a": "" is not a safetensors dtype (at byte 24)"#);
    assert_snapshot!(entry("{\"dtype\":32,\"shape\":[8],\"data_offsets\":[0,32]}"), @r#"Malformed: file: tensor "a": not valid JSON: a string expected here, found '3' (at byte 22)"#);
    assert_snapshot!(entry("{\"dtype\":{\"F32\":null},\"shape\":[8],\"data_offsets\":[0,32]}"), @r#"Malformed: file: tensor "a": not valid JSON: a string expected here, found '{' (at byte 22)"#);
    assert_snapshot!(entry(&format!("{{{good},\"extra\":tru}}")), @r#"Malformed: file: tensor "a": not valid JSON: a value expected here, found 't' (at byte 70)"#);
    assert!(
        open_as(header(&format!("{{\"a\":{{{good},\"x\":[1]}}}}")), Strictness::Strict).is_ok()
    );
}

#[test]
fn safetensors_shapes() {
    let shape = |shape: &str| {
        entry(&format!("{{\"dtype\":\"F32\",\"shape\":{shape},\"data_offsets\":[0,32]}}"))
    };
    assert_snapshot!(shape("[4]"), @r#"Malformed: file: tensor "a": data_offsets [0, 32] span 32 bytes, but shape [4] of F32 takes 16 (at byte 62)"#);
    assert_snapshot!(shape("[-8]"), @r#"Malformed: file: tensor "a": not valid JSON: a non-negative integer expected here, found '-' (at byte 37)"#);
    assert_snapshot!(shape("[\"8\"]"), @r#"Malformed: file: tensor "a": not valid JSON: a non-negative integer expected here, found '\"' (at byte 37)"#);
    assert_snapshot!(shape("8"), @r#"Malformed: file: tensor "a": not valid JSON: '[' expected here, found '8' (at byte 36)"#);
    assert_snapshot!(shape("[08]"), @r#"Malformed: file: tensor "a": not valid JSON: a non-negative integer expected here, found '0' (at byte 37)"#);
    assert_snapshot!(shape("[8.5]"), @r#"Malformed: file: tensor "a": not valid JSON: a non-negative integer expected here, found '8' (at byte 37)"#);
    assert_snapshot!(shape("[18446744073709551616]"), @r#"Malformed: file: tensor "a": a number exceeds 64 bits (at byte 56)"#);
    assert_snapshot!(shape("[18446744073709551615]"), @r#"Malformed: file: tensor "a": shape [18446744073709551615] has more than 2^64 bits (at byte 81)"#);
    assert_snapshot!(shape("[4294967296,4294967296,4]"), @r#"Malformed: file: tensor "a": shape [4294967296, 4294967296, 4] has more than 2^64 bits (at byte 84)"#);
    assert_snapshot!(shape("[4294967296,4294967296,0]"), @r#"Malformed: file: tensor "a": shape [4294967296, 4294967296, 0] has more than 2^64 bits (at byte 84)"#);
    assert_snapshot!(shape("[1,1,1,1,1,1,1,1,8]"), @r#"
    LimitExceeded: file: tensor "a": 9 dimensions, but the limit is 8 (at byte 53)
    help: for a file that you trust, the library can raise Limits::dims
    "#);
    let packed = |dtype: &str, shape: &str, end: u32| {
        entry(&format!("{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":[0,{end}]}}"))
    };
    assert_snapshot!(packed("F4", "[63]", 32), @r#"Malformed: file: tensor "a": shape [63] of F4 is not a whole number of bytes (at byte 62)"#);
    assert_snapshot!(packed("F6_E2M3", "[42]", 32), @r#"Malformed: file: tensor "a": shape [42] of F6_E2M3 is not a whole number of bytes (at byte 67)"#);
}

#[test]
fn safetensors_offsets() {
    let offsets = |offsets: &str| {
        entry(&format!("{{\"dtype\":\"F32\",\"shape\":[8],\"data_offsets\":{offsets}}}"))
    };
    assert_snapshot!(offsets("[32,0]"), @r#"Malformed: file: tensor "a": data_offsets [32, 0] end before they begin (at byte 62)"#);
    assert_snapshot!(offsets("[-32,0]"), @r#"Malformed: file: tensor "a": not valid JSON: a non-negative integer expected here, found '-' (at byte 56)"#);
    assert_snapshot!(offsets("[0]"), @r#"Malformed: file: tensor "a": not valid JSON: ',' expected here, found ']' (at byte 57)"#);
    assert_snapshot!(offsets("[0,32,64]"), @r#"Malformed: file: tensor "a": not valid JSON: ']' expected here, found ',' (at byte 60)"#);
    assert_snapshot!(offsets("[0.0,32.0]"), @r#"Malformed: file: tensor "a": not valid JSON: ',' expected here, found '.' (at byte 57)"#);
    assert_snapshot!(offsets("[1024,1056]"), @r#"
    Malformed: file: tensor "a": the data end 1024 bytes after the end of the file (100) (at byte 1092)
    help: the file is cut short, perhaps by an unfinished download: 100 of 1124 bytes are there (8 %), 1024 missing: fetch it again
    "#);
    assert_snapshot!(offsets("[18446744073709551584,18446744073709551615]"), @r#"Malformed: file: tensor "a": data_offsets [18446744073709551584, 18446744073709551615] span 31 bytes, but shape [8] of F32 takes 32 (at byte 99)"#);
    assert_snapshot!(offsets("[18446744073709551583,18446744073709551615]"), @r#"Malformed: file: tensor "a": data_offsets [18446744073709551583, 18446744073709551615] exceed the largest file size (at byte 99)"#);
}

#[test]
fn safetensors_metadata() {
    let metadata = |text: &str| refused(header(&format!("{{\"__metadata__\":{text}}}")));
    assert_snapshot!(metadata("{\"k\":5}"), @r#"Malformed: file: key "k": a value in __metadata__ is not a string (at byte 29)"#);
    assert_snapshot!(metadata("{\"k\":null}"), @r#"Malformed: file: key "k": a value in __metadata__ is not a string (at byte 29)"#);
    assert_snapshot!(metadata("7"), @"Malformed: file: not valid JSON: '{' expected here, found '7' (at byte 24)");
    assert_snapshot!(metadata("\"text\""), @r#"Malformed: file: not valid JSON: '{' expected here, found '\"' (at byte 24)"#);
    assert_snapshot!(metadata("{\"k\":\"\\x\"}"), @"Malformed: file: not valid JSON: a string with an invalid escape (at byte 30)");
    assert_snapshot!(metadata("{\"k\":\"\\ud800\"}"), @"Malformed: file: not valid JSON: a string with an invalid escape (at byte 30)");
    assert_snapshot!(refused(header("{\"\\ud800\":{}}")), @r#"Malformed: file: tensor "": the entry has no dtype (at byte 20)"#);
}

/// The table of policies in the format's document: what each of them says, or that it opens.
#[test]
fn safetensors_policies() {
    const A: &str = "\"dtype\":\"F32\",\"shape\":[8],\"data_offsets\":[0,32]";
    let said = |file: Vec<u8>| {
        let each = POLICIES.map(|policy| match open_as(file.clone(), policy) {
            Ok(store) => match notes(&store) {
                notes if notes.is_empty() => format!("{policy:?}: opens"),
                notes => format!("{policy:?}: notes {notes}"),
            },
            Err(error) => format!("{policy:?}: {error}"),
        });
        each.join("\n")
    };
    let text = |text: String| said(header(&text));
    assert_snapshot!(text(format!(" \n{{\"a\":{{{A}}}}}")), @"
    Strict: file: white space precedes the header's first brace, which the format's document forbids (at byte 8)
    Default: notes white space precedes the header's first brace, which the format's document forbids (at byte 8)
    Lenient: notes white space precedes the header's first brace, which the format's document forbids (at byte 8)
    ");
    assert_snapshot!(text(format!("{{\"a\":{{{A}}}}}   ")), @"
    Strict: opens
    Default: opens
    Lenient: opens
    ");
    assert_snapshot!(text(format!("{{\"a\":{{{A}}}}}\t\n")), @"
    Strict: file: the header is padded with white space other than spaces, which the format's document forbids (at byte 63)
    Default: notes the header is padded with white space other than spaces, which the format's document forbids (at byte 63)
    Lenient: notes the header is padded with white space other than spaces, which the format's document forbids (at byte 63)
    ");
    assert_snapshot!(text(format!("{{\"a\":{{{A}}}}}\0\0")), @"
    Strict: file: the header is padded with NUL bytes, which the reference crate refuses (at byte 63)
    Default: file: the header is padded with NUL bytes, which the reference crate refuses (at byte 63)
    Lenient: notes the header is padded with NUL bytes, which the reference crate refuses (at byte 63)
    ");
    assert_snapshot!(text(format!("\u{feff}{{\"a\":{{{A}}}}}")), @"
    Strict: file: a byte order mark precedes the header, which the reference crate refuses (at byte 8)
    Default: file: a byte order mark precedes the header, which the reference crate refuses (at byte 8)
    Lenient: notes a byte order mark precedes the header, which the reference crate refuses (at byte 8)
    ");
    assert_snapshot!(text(format!("{{\"a\":{{{A}}},\"a\":{{{A}}}}}")), @r#"
    Strict: file: tensor "a" occurs twice; the last one is used (at byte 117)
    Default: notes tensor "a" occurs twice; the last one is used (at byte 117)
    Lenient: notes tensor "a" occurs twice; the last one is used (at byte 117)
    "#);
    assert_snapshot!(text(format!("{{\"__metadata__\":{{}},\"a\":{{{A}}},\"__metadata__\":{{}}}}")), @"
    Strict: file: __metadata__ occurs twice, which the reference crate refuses (at byte 96)
    Default: file: __metadata__ occurs twice, which the reference crate refuses (at byte 96)
    Lenient: notes __metadata__ occurs twice, which the reference crate refuses (at byte 96)
    ");
    assert_snapshot!(text(format!("{{\"a\":{{\"dtype\":\"F16\",{A}}}}}")), @r#"
    Strict: file: tensor "a": an entry has two dtype, which the reference crate refuses (at byte 36)
    Default: file: tensor "a": an entry has two dtype, which the reference crate refuses (at byte 36)
    Lenient: notes an entry has two dtype, which the reference crate refuses (at byte 36)
    "#);
    assert_snapshot!(text(format!("{{\"__metadata__\":{{\"k\":\"1\",\"k\":\"2\"}},\"a\":{{{A}}}}}")), @r#"
    Strict: file: duplicate key "k" in __metadata__; the last value is used (at byte 34)
    Default: notes duplicate key "k" in __metadata__; the last value is used (at byte 34)
    Lenient: notes duplicate key "k" in __metadata__; the last value is used (at byte 34)
    "#);
    assert_snapshot!(text(format!("{{\"__metadata__\":null,\"a\":{{{A}}}}}")), @"
    Strict: file: __metadata__ is null, which the format's document does not allow (at byte 24)
    Default: notes __metadata__ is null, which the format's document does not allow (at byte 24)
    Lenient: notes __metadata__ is null, which the format's document does not allow (at byte 24)
    ");
    assert_snapshot!(text(format!("{{\"__metadata__\":[1],\"a\":{{{A}}}}}")), @"
    Strict: file: __metadata__ is a list, which the reference crate refuses (at byte 24)
    Default: file: __metadata__ is a list, which the reference crate refuses (at byte 24)
    Lenient: notes __metadata__ is a list, which the reference crate refuses (at byte 24)
    ");
    assert_snapshot!(text(format!("{{\"a\":{{{}}}}}", A.replace("[8]", "[8.0]"))), @r#"
    Strict: file: tensor "a": a dimension is written as a float, which the reference crate refuses (at byte 37)
    Default: file: tensor "a": a dimension is written as a float, which the reference crate refuses (at byte 37)
    Lenient: notes a dimension is written as a float, which the reference crate refuses (at byte 37)
    "#);
    assert_snapshot!(text(format!("{{\"a\":{{{}}}}}", A.replace("[8]", "[8e0]"))), @r#"
    Strict: file: tensor "a": a dimension is written as a float, which the reference crate refuses (at byte 37)
    Default: file: tensor "a": a dimension is written as a float, which the reference crate refuses (at byte 37)
    Lenient: notes a dimension is written as a float, which the reference crate refuses (at byte 37)
    "#);
    assert_snapshot!(text(format!("{{\"\":{{{A}}}}}")), @"
    Strict: opens
    Default: opens
    Lenient: opens
    ");
    // Data that start late, share bytes, overlap, go on after the last tensor.
    let spans = |spans: &[(u32, u32)]| {
        let entries: Vec<String> = spans
            .iter()
            .enumerate()
            .map(|(number, (begin, end))| {
                let shape = end - begin;
                format!("\"t{number}\":{{\"dtype\":\"U8\",\"shape\":[{shape}],\"data_offsets\":[{begin},{end}]}}")
            })
            .collect();
        text(format!("{{{}}}", entries.join(",")))
    };
    assert_snapshot!(spans(&[(4, 32)]), @r#"
    Strict: file: a gap precedes tensor "t0": it begins at 4, not at 0, which the reference crate refuses (at byte 68)
    Default: file: a gap precedes tensor "t0": it begins at 4, not at 0, which the reference crate refuses (at byte 68)
    Lenient: notes a gap precedes tensor "t0": it begins at 4, not at 0, which the reference crate refuses (at byte 68)
    "#);
    assert_snapshot!(spans(&[(0, 32), (0, 32)]), @r#"
    Strict: file: tensors "t0" and "t1" overlap: the first ends at 32, the second begins at 0, which the reference crate refuses (at byte 119)
    Default: file: tensors "t0" and "t1" overlap: the first ends at 32, the second begins at 0, which the reference crate refuses (at byte 119)
    Lenient: notes tensors "t0" and "t1" overlap: the first ends at 32, the second begins at 0, which the reference crate refuses (at byte 119)
    "#);
    assert_snapshot!(spans(&[(0, 20), (10, 32)]), @r#"
    Strict: file: tensors "t0" and "t1" overlap: the first ends at 20, the second begins at 10, which the reference crate refuses (at byte 130)
    Default: file: tensors "t0" and "t1" overlap: the first ends at 20, the second begins at 10, which the reference crate refuses (at byte 130)
    Lenient: notes tensors "t0" and "t1" overlap: the first ends at 20, the second begins at 10, which the reference crate refuses (at byte 130)
    "#);
    assert_snapshot!(spans(&[(0, 8), (16, 32)]), @r#"
    Strict: file: a gap precedes tensor "t1": it begins at 16, not at 8, which the reference crate refuses (at byte 134)
    Default: file: a gap precedes tensor "t1": it begins at 16, not at 8, which the reference crate refuses (at byte 134)
    Lenient: notes a gap precedes tensor "t1": it begins at 16, not at 8, which the reference crate refuses (at byte 134)
    "#);
    assert_snapshot!(spans(&[(0, 31)]), @"
    Strict: file: 1 bytes follow the last tensor, which the reference crate refuses (at byte 95)
    Default: file: 1 bytes follow the last tensor, which the reference crate refuses (at byte 95)
    Lenient: notes 1 bytes follow the last tensor, which the reference crate refuses (at byte 95)
    ");
    assert_snapshot!(spans(&[(16, 32), (0, 16)]), @"
    Strict: opens
    Default: opens
    Lenient: opens
    ");
    assert_snapshot!(spans(&[(0, 33)]), @r#"
    Strict: file: tensor "t0": the data end 1 bytes after the end of the file (96) (at byte 64)
    Default: file: tensor "t0": the data end 1 bytes after the end of the file (96) (at byte 64)
    Lenient: file: tensor "t0": the data end 1 bytes after the end of the file (96) (at byte 64)
    "#);
    assert_snapshot!(spans(&[]), @"
    Strict: file: 32 bytes follow the last tensor, which the reference crate refuses (at byte 10)
    Default: file: 32 bytes follow the last tensor, which the reference crate refuses (at byte 10)
    Lenient: notes 32 bytes follow the last tensor, which the reference crate refuses (at byte 10)
    ");
}

/// A name twice, each with data of its own that follow each other: the last one counts.
#[test]
fn safetensors_same_name_in_order() {
    let file = Safetensors::new()
        .tensor("a", "F32", &[1], f32s(&[1.0]))
        .tensor("a", "F32", &[1], f32s(&[2.0]))
        .build();
    let values = |policy| {
        let store = open_as(file.clone(), policy).map_err(|error| told(&error));
        store.map(|store| {
            store.stored_tensor("a").expect("the tensor").dequantize().expect("values").to_vec()
        })
    };
    let error = values(Strictness::Strict).expect_err("a name that occurs twice");
    assert!(error.contains("tensor \"a\": duplicate tensor name"), "{error}");
    assert!(values(Strictness::Default).is_err(), "the first one leaves a hole");
    assert_eq!(values(Strictness::Lenient), Ok(vec![2.0]));
    let empty = "{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},\
                  \"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}";
    let empty = open_as(Safetensors::text(empty, []).build(), Strictness::Default);
    let empty = empty.map_err(|error| told(&error)).map(|store| store.len());
    assert_eq!(empty, Ok(1), "no hole is left");
}

fn shard(name: &str) -> Safetensors {
    Safetensors::new().tensor(name, "F32", &[1], f32s(&[1.0]))
}

const ONE: &str = "model-00001-of-00002.safetensors";
const TWO: &str = "model-00002-of-00002.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// Two shards and this index.
fn indexed(text: &str) -> String {
    let folder = folder(&[(ONE, shard("a").build()), (TWO, shard("b").build())]);
    put(folder.path(), INDEX, text);
    refused_folder(&folder)
}

#[test]
fn index_texts() {
    assert_snapshot!(indexed(""), @"Malformed: ./model.safetensors.index.json: not valid JSON: the text ends where '{' is expected (at byte 0)");
    assert_snapshot!(indexed("not JSON"), @"Malformed: ./model.safetensors.index.json: not valid JSON: '{' expected here, found 'n' (at byte 0)");
    assert_snapshot!(indexed("{}"), @"Malformed: ./model.safetensors.index.json: the index has no weight_map");
    assert_snapshot!(indexed("{\"weight_map\":[]}"), @"Malformed: ./model.safetensors.index.json: not valid JSON: '{' expected here, found '[' (at byte 14)");
    assert_snapshot!(indexed("{\"weight_map\":{\"a\":1}}"), @r#"Malformed: ./model.safetensors.index.json: tensor "a": a value in weight_map is not a file name (at byte 19)"#);
    assert_snapshot!(indexed("{\"weight_map\":{\"a\":null}}"), @r#"Malformed: ./model.safetensors.index.json: tensor "a": a value in weight_map is not a file name (at byte 19)"#);
    assert_snapshot!(indexed("{\"weight_map\":{},\"weight_map\":{}}"), @"Malformed: ./model.safetensors.index.json: weight_map occurs twice (at byte 30)");
    assert_snapshot!(indexed("{\"weight_map\":{\"a\":\"x\"}"), @"Malformed: ./model.safetensors.index.json: not valid JSON: the text ends where '}' is expected (at byte 23)");
    assert_snapshot!(indexed("{\"weight_map\":{\"a\":\"x\"}}}"), @"Malformed: ./model.safetensors.index.json: not valid JSON: the end of the index expected here, found '}' (at byte 24)");
    assert_snapshot!(indexed(&format!("{{\"x\":{}", "[".repeat(100_000))), @"Malformed: ./model.safetensors.index.json: JSON nested deeper than 128 levels (at byte 133)");
    let folder = folder(&[(ONE, shard("a").build())]);
    put(folder.path(), INDEX, b"{\"weight_map\":{\"\xff\":\"x\"}}");
    assert_snapshot!(refused_folder(&folder), @"Malformed: ./model.safetensors.index.json: the index is not UTF-8 (at byte 16)");
}

#[test]
fn index_file_names() {
    let named = |name: &str| indexed(&index(&[("a", ONE), ("b", name)]));
    assert_snapshot!(named("../../etc/passwd"), @r#"
    Malformed: ./model.safetensors.index.json: the index names the file "../../etc/passwd", which is outside its directory (at byte 86)
    help: do not use this model: its index refers to files outside the model
    "#);
    assert_snapshot!(named("/etc/passwd"), @r#"
    Malformed: ./model.safetensors.index.json: the index names the file "/etc/passwd", which is outside its directory (at byte 86)
    help: do not use this model: its index refers to files outside the model
    "#);
    assert_snapshot!(named("sub/../../x"), @r#"
    Malformed: ./model.safetensors.index.json: the index names the file "sub/../../x", which is outside its directory (at byte 86)
    help: do not use this model: its index refers to files outside the model
    "#);
    assert_snapshot!(named(""), @r#"
    Malformed: ./model.safetensors.index.json: the index names the file "", which is outside its directory (at byte 86)
    help: do not use this model: its index refers to files outside the model
    "#);
    assert_snapshot!(named("x\0"), @r#"
    Malformed: ./model.safetensors.index.json: the index names the file "x\u{0}", which is outside its directory (at byte 86)
    help: do not use this model: its index refers to files outside the model
    "#);
    assert_snapshot!(named("C:\\x"), @r#"
    Malformed: ./model.safetensors.index.json: the index names the file "C:\x", which is outside its directory (at byte 86)
    help: do not use this model: its index refers to files outside the model
    "#);
}

/// The index of the model from which an unquantized copy was made lists its scales.
#[test]
fn an_index_that_lists_scales_of_unquantized_weights() {
    let weights = |dtype: &str, bytes: Vec<u8>| {
        let file = Safetensors::new().tensor("a.weight", dtype, &[2], bytes);
        let index =
            index(&[("a.weight", ONE), ("a.weight_scale_inv", ONE), ("a.input_scale", ONE)]);
        folder(&[(ONE, file.build()), ("model.safetensors.index.json", index.into_bytes())])
    };
    let model = Model::open(weights("BF16", vec![0; 4]).path()).expect("a model");
    assert_eq!(model.stored_tensors().count(), 1);
    let said: Vec<&str> = model.notes().iter().map(|note| note.text.as_str()).collect();
    let expected = "the index is that of a quantized model: it lists 2 arrays that no file contains, such as \
                    a.weight_scale_inv, but the weights are not quantized";
    assert!(said.contains(&expected), "{said:?}");
    // Codes need their scales.
    let error = Model::open(weights("F8_E4M3", vec![0; 2]).path()).expect_err("no scales");
    assert!(error.to_string().contains("\"a.weight_scale_inv\": the index lists"), "{error}");
}

#[test]
fn index_against_its_files() {
    assert_snapshot!(indexed(&index(&[("a", ONE), ("b", TWO), ("c", TWO)])), @r#"
    Malformed: ./model.safetensors.index.json: tensor "c": the index lists the tensor, but no file contains it
    help: a shard or the index belongs to another version of the model: fetch the files again, or read what is there with Strictness::Lenient
    "#);
    assert_snapshot!(indexed(&index(&[("a", TWO), ("b", TWO)])), @r#"
    Malformed: ./model.safetensors.index.json: tensor "a": the index lists the tensor, but no file contains it
    help: a shard or the index belongs to another version of the model: fetch the files again, or read what is there with Strictness::Lenient
    "#);
    assert_snapshot!(indexed(&index(&[("a", TWO), ("b", ONE)])), @r#"Malformed: ./model.safetensors.index.json: tensor "a": the index says model-00002-of-00002.safetensors, but the tensor is in model-00001-of-00002.safetensors"#);
    let files = folder(&[(ONE, shard("a").build()), (TWO, shard("b").build())]);
    put(files.path(), INDEX, index(&[("a", ONE), ("b", TWO), ("c", TWO)]));
    let lenient = OpenOptions::new().strictness(Strictness::Lenient).open(files.path());
    let said = notes(&lenient.expect("what is there"));
    assert!(said.contains("the index lists c, which no file contains"), "{said}");
    // Both hold the same name.
    let twice = sharded(&[(ONE, shard("a")), (TWO, shard("a"))]);
    assert_snapshot!(refused_folder(&twice), @r#"
    Malformed: ./model-00002-of-00002.safetensors: tensor "a": ./model-00001-of-00002.safetensors has a tensor with the same name (at byte 62)
    help: keep one of the two files
    "#);
    // An index decides which of them is read.
    let both = shard("a").tensor("c", "I8", &[1], [0]).build();
    let twice = folder(&[(ONE, both), (TWO, shard("a").build())]);
    put(twice.path(), INDEX, index(&[("a", TWO), ("c", ONE)]));
    let model = Model::open(twice.path()).expect("a model");
    let tensor = model.stored_tensor("a").expect("it");
    assert_eq!(tensor.place(Part::Weight).expect("a file").0, twice.path().join(TWO));
    assert_eq!(model.len(), 2);
    assert!(model.notes().iter().any(|note| note.text.contains("1 tensors are read from other")));
    // A shard is cut short, or no regular file.
    let cut = sharded(&[(ONE, shard("a")), (TWO, shard("b"))]);
    let bytes = shard("b").build();
    put(cut.path(), TWO, &bytes[..bytes.len() - 1]);
    assert_snapshot!(refused_folder(&cut), @r#"
    Malformed: ./model-00002-of-00002.safetensors: tensor "b": the data end 1 bytes after the end of the file (65) (at byte 62)
    help: the file is cut short, perhaps by an unfinished download: 65 of 66 bytes are there (98 %), 1 missing: fetch it again
    "#);
    let odd = folder(&[(ONE, shard("a").build())]);
    std::fs::create_dir(odd.path().join(TWO)).expect("a folder");
    put(odd.path(), INDEX, index(&[("a", ONE), ("b", TWO)]));
    assert_snapshot!(refused_folder(&odd), @"Io: ./model-00002-of-00002.safetensors: this is a directory, not a regular file");
    // An index that is stale gives way to complete shards, with a remark.
    let stale = folder(&[(ONE, shard("a").build()), (TWO, shard("b").build())]);
    put(stale.path(), INDEX, index(&[("a", "model-00001-of-00009.safetensors")]));
    let store = Model::open(stale.path()).expect("shards that are complete");
    assert_snapshot!(notes(&store), @"model.safetensors.index.json is outdated: 1 of the 1 files that it lists are missing");
}

#[test]
fn folders() {
    let names = |names: &[&str]| {
        let content = |name: &str| if name.ends_with(".bin") { &b"\x80\x02"[..] } else { b"" };
        let files: Vec<(&str, &[u8])> = names.iter().map(|&name| (name, content(name))).collect();
        refused_folder(&folder(&files))
    };
    assert_snapshot!(names(&[]), @"UnknownContainer: .: the directory is empty");
    assert_snapshot!(names(&["README.md"]), @"
    UnknownContainer: .: no weights here: neither .gguf nor .safetensors files
    help: give the directory that holds the model, or one of its files
    ");
    assert_snapshot!(names(&["pytorch_model.bin", "config.json"]), @"
    Unsupported: .: the directory contains only PyTorch pickles, such as pytorch_model.bin
    help: load it with PyTorch and save it with safetensors, or fetch the model's .safetensors files
    ");
    let translated = b"\x06\0\0\0\x17\0TransformerDecoderSpec\0\x08\0\0\0".to_vec();
    let parts: &[(&str, &[u8])] = &[("config.json", b"{}"), ("model.bin", &translated)];
    assert_snapshot!(refused_folder(&folder(parts)), @"
    Unsupported: .: the directory contains only a model of CTranslate2, model.bin
    help: no program converts it back: fetch the .safetensors files of the model that it was converted from
    ");
    assert_snapshot!(refused(translated), @"
    Unsupported: file: a model of CTranslate2
    help: no program converts it back: fetch the .safetensors files of the model that it was converted from
    ");
    assert_snapshot!(names(&["model.safetensors.incomplete"]), @"
    Malformed: .: the directory contains only an unfinished download: model.safetensors.incomplete
    help: wait for the download to finish, or restart it
    ");
    assert_snapshot!(names(&["model.safetensors"]), @"
    Malformed: ./model.safetensors: the file is empty
    help: the download or copy failed: fetch the file again
    ");
    assert_snapshot!(names(&[ONE]), @"
    Malformed: .: only 1 of 2 shards of model exist; the first missing one is number 2
    help: fetch the missing files into the same directory
    ");
    assert_snapshot!(names(&[ONE, "model-00002-of-00002.safetensors.incomplete"]), @"
    Malformed: .: only 1 of 2 shards of model exist; the first missing one is number 2
    help: model-00002-of-00002.safetensors.incomplete shows an unfinished download: wait for it to finish, or restart it
    ");
    assert_snapshot!(names(&["x.safetensors", "y.safetensors"]), @"
    Malformed: .: 2 sets of safetensors files, none of which has a usual name: x.safetensors, y.safetensors
    help: give the path of one file, or open all of them with OpenOptions::all_files
    ");
    let missing = folder(&[(INDEX, index(&[("a", ONE)]))]);
    assert_snapshot!(refused_folder(&missing), @"
    Malformed: .: none of the 1 files that model.safetensors.index.json lists is in the directory
    help: fetch the missing files into the same directory
    ");
}

/// Names of files end up in notes, messages and advice, but cannot write to a terminal there.
#[cfg(unix)]
#[test]
fn file_names_with_control_characters() {
    const ODD: &str = "x\u{1b}]0;title\u{7}.safetensors";
    let clean = |text: &str| assert!(!text.contains(|c: char| c.is_control()), "{text:?}");
    let stray = folder(&[("model.safetensors", shard("a").build()), (ODD, shard("b").build())]);
    let store = Model::open(stray.path()).expect("a model beside another file");
    store.notes().iter().for_each(|note| clean(&note.text));
    let stray = sharded(&[(ONE, shard("a"))]);
    put(stray.path(), ODD, shard("b").build());
    let store = Model::open(stray.path()).expect("a model beside another file");
    store.notes().iter().for_each(|note| clean(&note.text));
    let partial = format!("{ODD}.incomplete");
    for files in [&[ODD, "y.safetensors"][..], &[ODD], &[ONE, &partial], &[&partial]] {
        let files: Vec<(&str, &[u8])> = files.iter().map(|&name| (name, &b""[..])).collect();
        let error = Model::open(folder(&files).path()).expect_err("no model");
        clean(&error.to_string());
        clean(error.advice().unwrap_or_default());
    }
}

#[test]
fn documents() {
    let config = |text: &str| {
        refused_folder(&folder(&[
            ("model.safetensors", shard("a").build()),
            ("config.json", text.as_bytes().to_vec()),
        ]))
    };
    assert_snapshot!(config(""), @"
    Malformed: ./config.json: not valid JSON: the text ends where a value is expected at line 1 column 1
    help: the file is empty: fetch or copy it again
    ");
    assert_snapshot!(config("{\"model_type\":"), @"
    Malformed: ./config.json: not valid JSON: the text ends where a value is expected at line 1 column 15
    help: correct the file or fetch it again
    ");
    assert_snapshot!(config("<html>"), @"
    Malformed: ./config.json: not valid JSON: a value expected here, found '<' at line 1 column 1
    help: this looks like an HTML page saved under the file's name: fetch it again
    ");
    assert_snapshot!(config(&"[".repeat(100_000)), @"
    Malformed: ./config.json: not valid JSON: nested deeper than 127 levels at line 1 column 128
    help: correct the file or fetch it again
    ");
    // Beside a file that was given by its own path, a document is only an aid.
    let beside = folder(&[("model.safetensors", shard("a").build())]);
    put(beside.path(), "config.json", "{");
    let store = Model::open(beside.path().join("model.safetensors"));
    let store = store.expect("a file beside a broken document");
    assert_snapshot!(without_path(&notes(&store), beside.path()), @"not used: ./config.json: not valid JSON: the text ends where a string is expected at line 1 column 2");
}

/// Checkpoints of PyTorch cannot be read, but what is cut short or missing is named.
#[test]
fn damaged_pickles() {
    let end = [&b"PK\x05\x06"[..], &[0; 18]].concat();
    let whole = || [&b"PK\x03\x04"[..], &[7; 60], &end].concat();
    let cut = || [&b"PK\x03\x04"[..], &[7; 60]].concat();
    let list = || b"00  consolidated.00.pth\n00  consolidated.03.pth\n00  params.json\n".to_vec();
    let at = |files: &[(&str, Vec<u8>)]| {
        let folder = folder(files);
        refused_folder(&folder)
    };
    assert_snapshot!(at(&[("consolidated.00.pth", whole()), ("consolidated.01.pth", cut())]), @"
    Malformed: ./consolidated.01.pth: the zip archive is incomplete: the record at its end is missing
    help: the file is cut short: fetch it again
    ");
    let answer = b"<?xml version=\"1.0\"?><Error/>".to_vec();
    assert_snapshot!(at(&[("consolidated.00.pth", whole()), ("consolidated.01.pth", answer)]), @"
    UnknownContainer: ./consolidated.01.pth: an XML document, not a model
    help: a download may have saved the server's answer instead of the file: check the address, the name and the access token, and fetch the file again
    ");
    assert_snapshot!(at(&[("consolidated.00.pth", whole()), ("consolidated.02.pth", whole()), ("checklist.chk", list())]), @"
    Unsupported: .: the directory contains only PyTorch pickles, such as consolidated.00.pth; consolidated.01.pth, consolidated.03.pth are missing
    help: load it with PyTorch and save it with safetensors, or fetch the model's .safetensors files
    ");
    let one = folder(&[("x.pth", cut()), ("y.pth", whole())]);
    let open = |name: &str| told(&Model::open(one.path().join(name)).expect_err("no model"));
    assert!(open("x.pth").starts_with("Malformed:"), "{}", open("x.pth"));
    assert!(open("y.pth").starts_with("Unsupported:"), "{}", open("y.pth"));
}

/// Files that people give in place of a model.
#[test]
fn other_files() {
    let file = |bytes: &[u8]| refused(bytes.to_vec());
    let named = |name: &str, bytes: &[u8]| {
        told(&OpenOptions::new().open_memory(name, bytes.to_vec()).expect_err("no model"))
    };
    assert_snapshot!(file(b"version https://git-lfs.github.com/spec/v1\n"), @"
    UnknownContainer: file: a Git LFS pointer, not the file it points to
    help: run `git lfs pull` in the repository, or fetch the file itself
    ");
    // The head that is looked at may end within a character.
    for spaces in [1, 2] {
        let text = format!("{{{}\"é{}", " ".repeat(1021 - spaces), "é".repeat(500));
        let said = file(text.as_bytes());
        assert!(said.starts_with("UnknownContainer: file: a JSON document, not weights"), "{said}");
    }
    let zip = [&b"PK\x03\x04............archive/data.pkl..PK\x05\x06"[..], &[0; 18]].concat();
    assert_snapshot!(file(&zip), @"
    Unsupported: file: a zip archive: a PyTorch checkpoint (.pt, .pth, .bin)
    help: load it with PyTorch and save it with safetensors, or fetch the model's .safetensors files
    ");
    let zip = [&b"PK\x03\x04............model.gguf..PK\x05\x06"[..], &[0; 18]].concat();
    assert_snapshot!(file(&zip), @"
    Unsupported: file: a zip archive
    help: unpack it first
    ");
    assert_snapshot!(file(b"PK\x05\x06............"), @"
    Unsupported: file: an empty zip archive
    help: give the path of the model
    ");
    assert_snapshot!(file(b"\x80\x02}q\x00............"), @"
    Unsupported: file: a Python pickle: an old PyTorch checkpoint, which could run arbitrary code when loaded
    help: load it with PyTorch and save it with safetensors, or fetch the model's .safetensors files
    ");
    assert_snapshot!(file(b"\x80\x04............"), @"
    Unsupported: file: a Python pickle, which could run arbitrary code when loaded
    help: load it with PyTorch and save it with safetensors, or fetch the model's .safetensors files
    ");
    assert_snapshot!(file(b"lmgg............"), @"
    Malformed: file: a whisper.cpp file of 16 bytes that ends within its header
    help: the file is cut short: fetch it again
    ");
    assert_snapshot!(file(b"tjgg............"), @"
    Unsupported: file: a file in the ggjt format from before GGUF
    help: convert it to GGUF with llama.cpp's convert_llama_ggml_to_gguf.py, or fetch a GGUF of the model
    ");
    assert_snapshot!(file(b"algg............"), @"
    Unsupported: file: a LoRA adapter in the ggla format from before GGUF
    help: no program converts it any more: take the adapter that it was made from, in PEFT's safetensors
    ");
    assert_snapshot!(file(b"\x89HDF\r\n\x1a\n........"), @"
    Unsupported: file: an HDF5 file (Keras weights)
    help: convert it to safetensors with the library that wrote it
    ");
    assert_snapshot!(file(b"\x1f\x8b\x08............"), @"
    Unsupported: file: compressed with gzip
    help: unpack it first
    ");
    assert_snapshot!(file(b"\x93NUMPY............"), @"
    Unsupported: file: a NumPy array (.npy)
    help: save it with the Python package safetensors
    ");
    assert_snapshot!(file(b"<!DOCTYPE html><html>"), @"
    UnknownContainer: file: an HTML page, not a model
    help: a download saved the site's page instead of the file, often one that asks to log in: fetch the file itself
    ");
    assert_snapshot!(file(b"\x7fELF............"), @"
    UnknownContainer: file: a program, not a model
    help: give the path of the model
    ");
    assert_snapshot!(file(&[0; 64]), @"
    Malformed: file: the file begins with 64 zero bytes
    help: space was reserved for the file, but its start was never written: fetch the file again
    ");
    assert_snapshot!(file(b"../../blobs/0123456789abcdef"), @"
    Malformed: file: a symbolic link that was copied as text, not the file that it points to
    help: copy the model with its symbolic links, or give the path of the blob
    ");
    assert_snapshot!(file(b"no model at all, but a text"), @"
    UnknownContainer: file: a text file, not a model
    help: give the path of the model: a file or a directory
    ");
    assert_snapshot!(named("config.json", b"{\"model_type\":\"llama\"}"), @"
    UnknownContainer: config.json: this is JSON, not weights
    help: give the directory that contains it
    ");
    assert_snapshot!(named("model.safetensors.index.json", b"{\"weight_map\":{}}"), @"
    UnknownContainer: model.safetensors.index.json: this is the index of a sharded model, not weights
    help: give the directory that contains it
    ");
    assert_snapshot!(named("model.gguf.incomplete", b"GGUF............"), @"
    Malformed: model.gguf.incomplete: an unfinished download, according to its name
    help: wait for the download to finish, or restart it
    ");
    assert_snapshot!(named("model.gguf.part", b""), @"
    Malformed: model.gguf.part: the file is empty
    help: the download has not received any data: restart it
    ");
    assert_snapshot!(named("model.safetensors", &[0xee; 64]), @"
    Malformed: model.safetensors: the header's length is 17216961135462248174, but only 56 bytes follow (at byte 0)
    help: this is not a safetensors file, or its start was overwritten
    ");
}

/// A small whisper model with another number at a byte.
fn whisper_with(at: usize, number: i32) -> String {
    refused(WhisperGgml::small().patched(at, number))
}

/// A whisper model whose tensors are these: the first begins at byte 84.
fn whisper_of(tensors: impl FnOnce(WhisperGgml) -> WhisperGgml) -> WhisperGgml {
    tensors(WhisperGgml::whisper(0, 0, &[]))
}

#[test]
fn whisper_headers() {
    assert_snapshot!(refused(b"lmgg".to_vec()), @"
    Malformed: file: a whisper.cpp file of 4 bytes that ends within its header
    help: the file is cut short: fetch it again
    ");
    assert_snapshot!(whisper_with(4, -1), @"Malformed: file: n_vocab is -1 (at byte 4)");
    assert_snapshot!(whisper_with(36, -7), @"Malformed: file: n_text_layer is -7 (at byte 36)");
    assert_snapshot!(whisper_with(44, i32::MIN), @"Malformed: file: ftype is -2147483648 (at byte 44)");
    assert_snapshot!(whisper_with(44, 2), @"
    Unsupported: file: ftype 2: quantized blocks of version 0, but ggml has read only version 2 or later since May 2023 (at byte 44)
    help: fetch a newer file of the model, or quantize its F16 file again
    ");
    assert_snapshot!(whisper_with(44, 1007), @"
    Unsupported: file: ftype 1007: quantized blocks of version 1, but ggml has read only version 2 or later since May 2023 (at byte 44)
    help: fetch a newer file of the model, or quantize its F16 file again
    ");
    assert_snapshot!(whisper_with(48, 3), @r#"
    Unsupported: file: a file in the ggml format from before GGUF (magic "ggml"), but not one of whisper.cpp's: in those the number of mel bands, here 2, is that of the filters' rows, here 3 (at byte 40)
    help: convert it to GGUF with llama.cpp's convert_llama_ggml_to_gguf.py, or fetch a GGUF of the model
    "#);
    assert_snapshot!(whisper_with(52, -1), @"Malformed: file: a dimension is -1 (at byte 52)");
    assert_snapshot!(whisper_with(52, i32::MAX), @"
    Malformed: file: mel_filters needs 17179869176 bytes, but only 583 are left in the file (at byte 56)
    help: the file is cut short or damaged: fetch or copy it again
    ");
    assert_snapshot!(whisper_with(80, -1), @"Malformed: file: the number of pieces in the vocabulary is -1 (at byte 80)");
    assert_snapshot!(whisper_with(80, i32::MAX), @"
    Malformed: file: the number of pieces in the vocabulary is 2147483647, but the file has room for 138 at most (at byte 80)
    help: the file is cut short or damaged
    ");
    assert_snapshot!(whisper_with(84, -1), @"Malformed: file: a string of 4294967295 bytes, but only 551 are left (at byte 84)");
    let llama: Vec<u8> = [32000u32, 4096, 256, 32, 32, 128, 1, 5, 0x8781_e220, 0x0120, 0x2000_0000]
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    assert_snapshot!(refused([b"lmgg", &*llama, &[0; 64]].concat()), @r#"
    Unsupported: file: a file in the ggml format from before GGUF (magic "ggml"), but not one of whisper.cpp's: in those the number of mel bands, here 288, is that of the filters' rows, here 0 (at byte 40)
    help: convert it to GGUF with llama.cpp's convert_llama_ggml_to_gguf.py, or fetch a GGUF of the model
    "#);

    let silero =
        |at: usize, number: i32| refused(WhisperGgml::silero().filled(9).patched(at, number));
    assert_snapshot!(silero(4, -1), @"Malformed: file: a string's length is -1 (at byte 4)");
    assert_snapshot!(silero(4, 1 << 20), @"Malformed: file: a string of 1048576 bytes, but only 224 are left (at byte 4)");
    assert_snapshot!(silero(38, i32::MAX), @"
    Malformed: file: n_encoder_layers is 2147483647, but the file has room for 15 at most (at byte 38)
    help: the file is cut short or damaged
    ");
    assert_snapshot!(silero(46, -3), @"Malformed: file: out_channels is -3 (at byte 46)");
    let parakeet = WhisperGgml::parakeet().filled(19);
    assert_snapshot!(refused(parakeet.patched(56, i32::MAX)), @"
    Malformed: file: tdt_durations needs 8589934588 bytes, but only 377 are left in the file (at byte 96)
    help: the file is cut short or damaged: fetch or copy it again
    ");
    assert_snapshot!(refused(parakeet.patched(80, -1)), @"Malformed: file: a dimension is -1 (at byte 80)");
}

#[test]
fn whisper_tensors() {
    let first = |at: usize, number: i32| {
        refused(
            whisper_of(|file| file.tensor("name", DType::F32, &[2, 3], [0; 24]))
                .patched(at, number),
        )
    };
    assert_snapshot!(first(84, -1), @"Malformed: file: a tensor with -1 dimensions, but 0 to 4 are allowed (at byte 84)");
    assert_snapshot!(first(84, 5), @"Malformed: file: a tensor with 5 dimensions, but 0 to 4 are allowed (at byte 84)");
    assert_snapshot!(first(88, -1), @"Malformed: file: a tensor name with a length of -1 bytes (at byte 88)");
    assert_snapshot!(first(88, 0), @"Malformed: file: a tensor name with a length of 0 bytes (at byte 88)");
    assert_snapshot!(first(88, i32::MAX), @"
    LimitExceeded: file: 2147483647 bytes in one string, but the limit is 268435456 (at byte 88)
    help: for a file that you trust, the library can raise Limits::string_bytes
    ");
    assert_snapshot!(first(92, -1), @r#"Malformed: file: tensor "name": type code -1, but type codes are not negative (at byte 92)"#);
    assert_snapshot!(first(92, 777), @r#"Unsupported: file: tensor "name": ggml type 777 (unknown), so the start of the next tensor is unknown (at byte 92)"#);
    assert_snapshot!(first(92, 36), @r#"Unsupported: file: tensor "name": ggml type 36 (IQ4_NL_4_4, removed from ggml, or ik_llama.cpp's I2_S), so the start of the next tensor is unknown (at byte 92)"#);
    assert_snapshot!(first(92, 2), @r#"Malformed: file: tensor "name": rows of 3 elements do not divide into Q4_0 blocks of 32 (at byte 108)"#);
    assert_snapshot!(first(96, -3), @r#"Malformed: file: tensor "name": dimension 0 is -3 (at byte 96)"#);
    assert_snapshot!(first(96, 0), @r#"Malformed: file: tensor "name": dimension 0 is 0 (at byte 96)"#);
    assert_snapshot!(first(100, 3), @r#"
    Malformed: file: tensor "name": the tensor's 36 bytes would end 12 bytes after the end of the file (132) (at byte 108)
    help: the file is cut short, perhaps by an unfinished download: fetch it again
    "#);
    assert_snapshot!(first(100, i32::MAX), @r#"
    Malformed: file: tensor "name": the tensor's 25769803764 bytes would end 25769803740 bytes after the end of the file (132) (at byte 108)
    help: the file is cut short, perhaps by an unfinished download: fetch it again
    "#);
    let most = [i32::MAX as u64; 4];
    assert_snapshot!(refused(whisper_of(|file| file.tensor("t", DType::F32, &most, [])).build()), @r#"Malformed: file: tensor "t": shape [2147483647, 2147483647, 2147483647, 2147483647] has more than 2^64 elements (at byte 113)"#);
    let twice = whisper_of(|file| file.filled(10).filled(1));
    assert_snapshot!(refused(twice.build()), @r#"Malformed: file: tensor "t0": duplicate tensor name (at byte 278)"#);
    let filters = whisper_of(|file| file.tensor("mel_filters", DType::F32, &[], [0; 4]));
    assert_snapshot!(refused_by(filters.build(), Strictness::Lenient), @r#"Malformed: file: tensor "mel_filters": duplicate tensor name (at byte 107)"#);
}

/// Nothing in the file says how many tensors there are, but the numbers of layers do.
#[test]
fn whisper_tensors_are_counted() {
    let said = |file: Vec<u8>| {
        let each = POLICIES.map(|policy| match open_as(file.clone(), policy) {
            Ok(store) => format!("{policy:?}: {} tensors {}", store.len(), notes(&store)),
            Err(error) => told(&error),
        });
        each.join("\n")
    };
    assert_snapshot!(said(WhisperGgml::small().build()), @"
    Strict: 12 tensors 
    Default: 12 tensors 
    Lenient: 12 tensors
    ");
    assert_snapshot!(said(whisper_of(|file| file).build()), @"
    Strict: 1 tensors no tensors, as in the files that whisper.cpp is tested with (at byte 84)
    Default: 1 tensors no tensors, as in the files that whisper.cpp is tested with (at byte 84)
    Lenient: 1 tensors no tensors, as in the files that whisper.cpp is tested with (at byte 84)
    ");
    assert_snapshot!(said(whisper_of(|file| file.filled(10)).build()), @"
    Malformed: file: 10 tensors, but 11 belong to a whisper model of these numbers, and whisper.cpp refuses any other (at byte 264)
    help: Strictness::Lenient accepts the file
    Malformed: file: 10 tensors, but 11 belong to a whisper model of these numbers, and whisper.cpp refuses any other (at byte 264)
    help: Strictness::Lenient accepts the file
    Lenient: 11 tensors 10 tensors, but 11 belong to a whisper model of these numbers, and whisper.cpp refuses any other (at byte 264)
    ");
    assert_snapshot!(said(whisper_of(|file| file.filled(12)).build()), @"
    Malformed: file: 12 tensors, but 11 belong to a whisper model of these numbers, and whisper.cpp refuses any other (at byte 302)
    help: without Strictness::Strict the file is accepted
    Default: 13 tensors 12 tensors, but 11 belong to a whisper model of these numbers, and whisper.cpp refuses any other (at byte 302)
    Lenient: 13 tensors 12 tensors, but 11 belong to a whisper model of these numbers, and whisper.cpp refuses any other (at byte 302)
    ");
    assert_snapshot!(said([WhisperGgml::small().build(), vec![0; 11]].concat()), @"
    Malformed: file: the remaining 11 bytes are too few for the header of another tensor (at byte 639)
    help: Strictness::Lenient accepts the file
    Malformed: file: the remaining 11 bytes are too few for the header of another tensor (at byte 639)
    help: Strictness::Lenient accepts the file
    Lenient: 12 tensors the remaining 11 bytes are too few for the header of another tensor (at byte 639)
    ");
    let fork = whisper_of(|file| file.filled(10).tensor("t", DType::Q6_0, &[32], [0; 26]));
    assert_snapshot!(said(fork.build()), @r#"
    Malformed: file: tensor "t": a tensor of Q6_0, which whisper.cpp refuses (at byte 272)
    help: without Strictness::Strict the file is accepted
    Default: 12 tensors a tensor of Q6_0, which whisper.cpp refuses (at byte 272)
    Lenient: 12 tensors a tensor of Q6_0, which whisper.cpp refuses (at byte 272)
    "#);
    let layers = WhisperGgml::whisper(2, 3, &[]).filled(11 + 2 * 15 + 3 * 24);
    assert_snapshot!(said(layers.build()), @"
    Strict: 114 tensors 
    Default: 114 tensors 
    Lenient: 114 tensors
    ");
}

#[test]
fn folders_of_whisper() {
    let file = WhisperGgml::small().build();
    let folder = folder(&[("ggml-base.bin", &file), ("ggml-tiny.bin", &file)]);
    assert_snapshot!(refused_folder(&folder), @"
    Mismatch: .: the weights in the directory are files of whisper.cpp, which are opened one by one
    help: give the path of one of them, such as ggml-base.bin
    ");
    let named = self::folder(&[("model.bin", &file), ("config.json", &b"{}".to_vec())]);
    assert_snapshot!(refused_folder(&named), @"
    Mismatch: .: the weights in the directory are files of whisper.cpp, which are opened one by one
    help: give the path of one of them, such as model.bin
    ");
}

/// A store with one model, whose manifest is this text.
fn stored(manifest: &str, blob: Vec<u8>) -> String {
    const MANIFEST: &str = "manifests/registry.ollama.ai/library/m/latest";
    let manifest = manifest.replace("SIZE", &blob.len().to_string());
    let name = format!("blobs/{}", DIGESTS[0].replace(':', "-"));
    let store = folder(&[(MANIFEST, manifest.into_bytes()), (&name, blob)]);
    match Model::open(store.path().join(MANIFEST)) {
        Ok(opened) => format!("opened, with {} tensors", opened.len()),
        Err(error) => without_path(&told(&error), store.path()),
    }
}

fn layer(kind: &str, digest: &str, size: &str) -> String {
    format!(
        "{{\"mediaType\":\"application/vnd.ollama.image.{kind}\",\"digest\":\"{digest}\",\
          \"size\":{size},\"name\":\"m.weight\"}}"
    )
}

fn layers(layers: &[String]) -> String {
    format!("{{\"schemaVersion\":2,\"layers\":[{}]}}", layers.join(","))
}

#[test]
fn ollama_manifests() {
    let blob = || packed("m.weight", "m.weight.scale", "m.weight.bias").build();
    let tensor = |digest: &str, size: &str| layers(&[layer("tensor", digest, size)]);
    assert_snapshot!(stored(&tensor(DIGESTS[0], "SIZE"), blob()), @"opened, with 1 tensors");
    assert_snapshot!(stored(&tensor(DIGESTS[0], "7"), blob()), @r#"
    Malformed: ./blobs/sha256-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa: the layer "m.weight" has 291 bytes, but the manifest says 7
    help: pull the model again
    "#);
    assert_snapshot!(stored(&tensor(DIGESTS[2], "SIZE"), blob()), @r#"
    Malformed: ./blobs/sha256-cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc: the blob of the layer "m.weight" is missing
    help: pull the model again
    "#);
    assert_snapshot!(stored(&tensor("sha256:../../../../etc/passwd", "1"), blob()), @r#"
    Malformed: ./manifests/registry.ollama.ai/library/m/latest: the digest "sha256:../../../../etc/passwd" is not sha256: and 64 hexadecimal digits
    help: do not use this manifest: its digests are invalid
    "#);
    assert_snapshot!(stored(&tensor("", "1"), blob()), @r#"
    Malformed: ./manifests/registry.ollama.ai/library/m/latest: the digest "" is not sha256: and 64 hexadecimal digits
    help: do not use this manifest: its digests are invalid
    "#);
    assert_snapshot!(stored(&layers(&[]), blob()), @"Malformed: ./manifests/registry.ollama.ai/library/m/latest: the model has no weights: its layers are");
    assert_snapshot!(stored("{\"schemaVersion\":2,\"layers\":7}", blob()), @"Malformed: ./manifests/registry.ollama.ai/library/m/latest: the manifest has no layers");
    assert_snapshot!(stored("{\"schemaVersion\":2,\"layers\":[", blob()), @"
    Malformed: ./manifests/registry.ollama.ai/library/m/latest: not valid JSON: the text ends where a value is expected at line 1 column 30
    help: correct the file or fetch it again
    ");
    let both = [layer("tensor", DIGESTS[0], "SIZE"), layer("model", DIGESTS[0], "SIZE")];
    assert_snapshot!(stored(&layers(&both), blob()), @"Malformed: ./manifests/registry.ollama.ai/library/m/latest: the manifest has both a GGUF layer and tensor layers");
    assert_snapshot!(stored(&layers(&[layer("license", DIGESTS[0], "SIZE")]), blob()), @"Malformed: ./manifests/registry.ollama.ai/library/m/latest: the model has no weights: its layers are license");
}

/// A blob that a manifest calls a model must begin with GGUF's magic.
#[test]
fn ollama_models_have_the_magic() {
    let model = layers(&[layer("model", DIGESTS[0], "SIZE")]);
    assert_eq!(stored(&model, small().build()), "opened, with 1 tensors");
    for magic in [*b"lmgg", *b"FUGG", *b"\0\0\0\0"] {
        let said = stored(&model, small().with(|file| file.magic = magic).build());
        assert!(!said.starts_with("opened"), "{magic:?}: {said}");
    }
}

/// A message shows of a name what people can read, however long the file makes it; programs get
/// the whole.
#[test]
fn long_names() {
    let long = "n".repeat(8 << 20);
    let name = format!("start{long}.end");
    let (start, end) = (format!("start{}", "n".repeat(251)), format!("{}.end", "n".repeat(252)));
    let brief = format!("\"{start}\u{2026} 8388105 more bytes \u{2026}{end}\"");
    let fails = |bytes: Vec<u8>| open_as(bytes, Strictness::Default).expect_err("a long name");

    let error = fails(Gguf::new().tensor(&name, DType::Q4_0, &[31], vec![0; 32]).build());
    assert!(error.to_string().starts_with(&format!("file: tensor {brief}: ")), "{error}");
    assert_eq!(error.tensor(), Some(&*name));
    let error = fails(Gguf::new().key(&name, Kv::Raw(99, vec![0; 8])).build());
    assert!(error.to_string().starts_with(&format!("file: key {brief}: ")), "{error}");
    assert_eq!(error.key(), Some(&*name));

    // What stands in the sentence itself, in advice, and before it all.
    let within = |text: &str| {
        assert!(text.contains(" more bytes \u{2026}"), "{text}");
        assert!(text.len() < 1024, "{} bytes: {text}", text.len());
    };
    let twice = Gguf::new().key(&name, Kv::U8(1)).key(&name, Kv::U8(1)).build();
    within(&fails(twice).to_string());
    let dtype = Safetensors::text(
        format!("{{\"a\":{{\"dtype\":\"{name}\",\"shape\":[8],\"data_offsets\":[0,32]}}}}"),
        vec![0; 32],
    );
    within(&fails(dtype.build()).to_string());
    let store = Gguf::new().tensor(&name, DType::F32, &[1], f32s(&[1.0])).build();
    let store = open_as(store, Strictness::Default).expect("a name of any length");
    let error = store.stored_tensor(&format!("start{long}")).expect_err("only the start of a name");
    within(&error.to_string());
    within(error.advice().expect("the nearest name"));
    let path = OpenOptions::new().open_memory(&*name, Vec::new());
    within(&path.expect_err("an empty file").to_string());
    // One that is merely long stands whole.
    let ordinary = "n".repeat(512);
    let error = fails(Gguf::new().tensor(&ordinary, DType::Q4_0, &[31], vec![0; 32]).build());
    assert!(error.to_string().starts_with(&format!("file: tensor \"{ordinary}\": ")), "{error}");
}

/// A GGUF file may have the mark of an archive at its 257th byte too, in a token for one.
#[test]
fn tar_archives_and_what_looks_like_one() {
    let mut archive = b"model.gguf".to_vec();
    archive.resize(512, 0);
    archive[257..262].copy_from_slice(b"ustar");
    assert_snapshot!(refused(archive.clone()), @"
    Unsupported: file: a tar archive
    help: unpack it first
    ");
    archive[..10].copy_from_slice(b"GGUF-model");
    assert_snapshot!(refused(archive), @"
    Unsupported: file: a tar archive
    help: unpack it first
    ");
    for version in 1..=3 {
        for big_endian in [false, true] {
            let text = format!("{}ustar", " ".repeat(240));
            let file = Gguf::new().version(version).with(|file| file.big_endian = big_endian);
            let start = file.clone().key("k", Kv::text("")).header().len();
            let text = &text[text.len() - (262 - start)..];
            let file = file.key("k", Kv::text(text)).build();
            assert_eq!(&file[257..262], b"ustar");
            let store = open_as(file, Strictness::Lenient).expect("a well-formed file");
            assert_eq!(store.metadata().len(), 1);
        }
    }
}
