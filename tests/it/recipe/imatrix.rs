//! Importance matrices: of llama-imatrix in both forms, and hostile ones.
#![allow(clippy::disallowed_methods, reason = "the files are the test's own")]

use crate::support::{Gguf, Kv, Writer, f32s, fixture, told};
use insta::assert_snapshot;
use weighbridge::recipe::llama_cpp::LlamaOptions;
use weighbridge::recipe::{FileType, ImportanceMatrix};
use weighbridge::{DType, Limits, OpenOptions};

fn open(bytes: Vec<u8>) -> weighbridge::Result<ImportanceMatrix> {
    ImportanceMatrix::open_memory("file", bytes, &OpenOptions::new())
}

fn refused(bytes: Vec<u8>) -> String {
    match open(bytes) {
        Ok(matrix) => format!("opened, with {} entries", matrix.len()),
        Err(error) => told(&error),
    }
}

/// A file in GGUF with the keys that one has.
fn gguf() -> Gguf {
    Gguf::new()
        .key("general.type", Kv::text("imatrix"))
        .key("imatrix.datasets", Kv::texts(&["a.txt", "b.txt"]))
        .key("imatrix.chunk_count", Kv::U32(12))
        .key("imatrix.chunk_size", Kv::U32(128))
}

/// Sums of three columns for each of two experts, of which one saw no token.
fn experts() -> Gguf {
    gguf()
        .tensor("e.weight.in_sum2", DType::F32, &[2, 3], f32s(&[2.0, 4.0, 6.0, 9.0, 9.0, 9.0]))
        .tensor("e.weight.counts", DType::F32, &[2, 1], f32s(&[4.0, 0.0]))
}

/// An entry of the older form.
fn entry(file: Writer, name: &str, calls: u32, values: &[f32]) -> Writer {
    let values_len = u32::try_from(values.len()).expect("few");
    let name_len = u32::try_from(name.len()).expect("short");
    file.u32(name_len).raw(name.as_bytes()).u32(calls).u32(values_len).raw(&f32s(values))
}

/// Two entries of the older form, with what may follow them.
fn dat() -> Writer {
    let file = entry(Writer::default().u32(2), "a.weight", 4, &[1.0, 2.0]);
    entry(file, "b.weight", 0, &[3.0]).u32(12).u32(5).raw(b"a.txt")
}

#[test]
fn both_forms_hold_means() {
    let matrix = open(experts().build()).expect("a matrix");
    let found = matrix.get("e.weight", 3, 2).expect("of the right size").expect("importance");
    assert_eq!(found, [0.5, 1.0, 1.5, 1.0, 1.0, 1.0]);
    assert_eq!((matrix.datasets(), matrix.chunks()), (&["a.txt".into(), "b.txt".into()][..], 12));
    assert_eq!(matrix.get("f.weight", 3, 2).expect("nothing"), None);

    let matrix = open(dat().out).expect("a matrix");
    assert_eq!(matrix.get("a.weight", 2, 1).expect("values"), Some(&[0.25, 0.5][..]));
    assert_eq!(matrix.get("b.weight", 1, 1).expect("values"), Some(&[3.0][..]));
    assert_eq!((matrix.datasets(), matrix.chunks()), (&["a.txt".to_owned()][..], 12));
    let names: Vec<&str> = matrix.names().collect();
    assert_eq!(names, ["a.weight", "b.weight"]);
}

/// Columns weigh as much as the others on average if an importance matrix has zeros or no numbers for them.
#[test]
fn weights_are_usable() {
    let weights = |values: &[f32], matrices: u64| {
        let columns = values.len() as u64 / matrices;
        let matrix =
            open(entry(Writer::default().u32(1), "a.weight", 1, values).out).expect("a matrix");
        let found =
            matrix.weights("a.weight", columns, matrices).expect("values").expect("importance");
        (found.values.into_owned(), found.replaced)
    };
    // One column without importance is what the text says: its values do not matter.
    let sound = [[0.0].as_slice(), &[2.0; 31]].concat();
    assert_eq!(weights(&sound, 1), (sound.clone(), 0));
    assert_eq!(weights(&[0.0; 32], 1), (vec![1.0; 32], 32));
    // 16 values may share a scale, which needs a weight.
    let half = [[0.0; 16], [3.0; 16]].concat();
    assert_eq!(weights(&half, 1), (vec![3.0; 32], 16));
    // An expert that no token reached, and the other one.
    assert_eq!(weights(&half, 2), ([[1.0; 16], [3.0; 16]].concat(), 16));
    let odd = [f32::NAN, -1.0, f32::INFINITY, 2.0, 4.0, 0.0];
    assert_eq!(weights(&odd, 1), (vec![3.0, 3.0, 3.0, 2.0, 4.0, 0.0], 3));
    // So small that products vanish.
    assert_eq!(weights(&[1e-30; 32], 1), (vec![1.0; 32], 32));
    let uncounted = open(experts().build()).expect("a matrix");
    let found =
        uncounted.weights("e.weight", 3, 2).expect("of the right size").expect("importance");
    assert_eq!((&*found.values, found.replaced), (&[0.5, 1.0, 1.5, 1.0, 1.0, 1.0][..], 3));
}

/// Tensors with such columns are quantized, and named in a note.
#[test]
fn tensors_without_importance_are_named_and_keep_their_values() {
    let values: Vec<f32> = (0..512u16).map(|n| (f32::from(n % 31) - 15.0) / 64.0).collect();
    let model = Gguf::new()
        .key("general.architecture", Kv::text("llama"))
        .key("llama.block_count", Kv::U32(1))
        .tensor(
            "blk.0.ffn_up.weight",
            DType::F32,
            &[2, 512],
            f32s(&[values.clone(), values.clone()].concat()),
        )
        .tensor(
            "blk.0.ffn_gate.weight",
            DType::F32,
            &[2, 512],
            f32s(&[values.clone(), values.clone()].concat()),
        );
    let model = OpenOptions::new().open_memory("m.gguf", model.build()).expect("a model");
    let file = entry(Writer::default().u32(2), "blk.0.ffn_up.weight", 1, &[0.0; 512]);
    let matrix = open(entry(file, "blk.0.ffn_gate.weight", 1, &[1.0; 512]).out).expect("a matrix");
    for file_type in
        [FileType::Q4_K_S, FileType::Q6_K, FileType::Q3_K_S, FileType::Q4_0, FileType::IQ4_XS]
    {
        let options = LlamaOptions::new(file_type).with_importance(&matrix, "i");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("out.gguf");
        let plan =
            weighbridge::ops::quantize(&model, &options, Some(&matrix), &path).expect("a plan");
        let note =
            plan.notes.iter().find(|note| note.contains("512 of 512 in blk.0.ffn_up.weight"));
        assert!(note.is_some_and(|note| !note.contains("ffn_gate")), "{:?}", plan.notes);
        plan.run(&path, &weighbridge::WriteOptions::new().allow_incomplete(true)).expect("written");
        let written = weighbridge::Model::open(&path).expect("a model");
        let found = written
            .stored_tensor("blk.0.ffn_up.weight")
            .expect("a tensor")
            .dequantize()
            .expect("values");
        let square = |values: &mut dyn Iterator<Item = f32>| values.map(|x| x * x).sum::<f32>();
        let error = square(&mut values.iter().zip(found.iter()).map(|(a, b)| a - b));
        assert!(error < 0.05 * square(&mut values.iter().copied()), "{file_type}: {error}");
    }
}

/// Experts were measured apart and stacked; models of 2023 have them apart.
#[test]
fn experts_are_found_in_both_forms() {
    let joined =
        entry(Writer::default().u32(1), "blk.0.ffn_up_exps.weight", 1, &[1.0, 2.0, 3.0, 4.0]);
    let joined = open(joined.out).expect("a matrix");
    let of_second = joined.get("blk.0.ffn_up.1.weight", 2, 1).expect("of the right size");
    assert_eq!(of_second, Some(&[3.0, 4.0][..]));
    assert_eq!(joined.get("blk.0.ffn_up.2.weight", 2, 1).expect("nothing"), None);

    let first = entry(Writer::default().u32(2), "blk.0.ffn_up.0.weight", 1, &[1.0, 2.0]);
    let apart = open(entry(first, "blk.0.ffn_up.1.weight", 1, &[3.0, 4.0]).out).expect("a matrix");
    let stacked = apart.get("blk.0.ffn_up_exps.weight", 2, 2).expect("of the right size");
    assert_eq!(stacked, Some(&[1.0, 2.0, 3.0, 4.0][..]));
}

#[test]
fn weights_that_were_not_measured_are_noted() {
    let values = f32s(&[0.5; 512]);
    let model = Gguf::new()
        .key("general.architecture", Kv::text("llama"))
        .key("llama.block_count", Kv::U32(1))
        .tensor("blk.0.ffn_up.weight", DType::F32, &[2, 256], values.clone())
        .tensor("blk.0.ffn_gate.weight", DType::F32, &[2, 256], values.clone())
        .tensor("token_embd.weight", DType::F32, &[2, 256], values);
    let model = OpenOptions::new().open_memory("m.gguf", model.build()).expect("a model");
    let matrix = entry(Writer::default().u32(1), "blk.0.ffn_up.weight", 1, &[1.0; 256]);
    let matrix = open(matrix.out).expect("a matrix");
    let options = LlamaOptions::new(FileType::Q4_K_S).with_importance(&matrix, "i");
    let path = std::path::Path::new("out.gguf");
    let plan = weighbridge::ops::quantize(&model, &options, Some(&matrix), path).expect("a plan");
    let notes = plan.notes.join("; ");
    assert!(
        notes.contains("no data is used for blk.0.ffn_gate.weight: quantized without"),
        "{notes}"
    );
}

#[test]
fn the_older_form_may_end_early() {
    let whole = dat().out;
    let ends = [whole.len() - 9, whole.len() - 13];
    for (end, chunks) in ends.into_iter().zip([12, 0]) {
        let matrix = open(whole[..end].to_vec()).expect("a matrix");
        assert_eq!((matrix.chunks(), matrix.datasets().len()), (chunks, 0));
    }
}

#[test]
fn sizes_have_to_fit() {
    let file = entry(Writer::default().u32(2), "token_embd.weight", 1, &[1.0]);
    let mut matrix = open(entry(file, "a.weight", 1, &[1.0, 2.0]).out).expect("a matrix");
    let wrong = matrix.get("a.weight", 4, 8).expect_err("another size");
    assert_snapshot!(told(&wrong), @r#"
    Mismatch: file: tensor "a.weight": importance of 2 columns, but the weight has 8 x 4
    help: the importance matrix was made for another model, or for experts in separate tensors
    "#);
    assert_eq!(matrix.get("token_embd.weight", 4, 1).expect("not used"), None);
    assert!(matrix.get("a.weight", u64::MAX, 2).is_err());
    matrix.retain(|name| name.contains("embd"));
    assert_eq!(matrix.len(), 1);
}

#[test]
fn refused_in_gguf() {
    let tensor = |file: Gguf, name: &str, shape: &[u64], values: &[f32]| {
        file.tensor(name, DType::F32, shape, f32s(values))
    };
    assert_snapshot!(refused(Gguf::new().key("general.type", Kv::text("model")).build()), @r#"Malformed: file: this is a GGUF file of type "model", not an importance matrix"#);
    assert_snapshot!(refused(Gguf::new().key("imatrix.datasets", Kv::texts(&[])).build()), @r#"Malformed: file: key "imatrix.chunk_count": the key is missing, but an importance matrix requires it"#);
    assert_snapshot!(refused(gguf().build()), @"Malformed: file: the importance matrix has no entries");
    assert_snapshot!(refused(b"Once upon a time".to_vec()), @"
    Malformed: file: a text, not an importance matrix
    help: llama-imatrix measures one over a text: `llama-imatrix -m MODEL -f TEXT -o FILE.gguf`
    ");
    assert_snapshot!(refused(tensor(gguf(), "a.in_sum2", &[2], &[1.0, 2.0]).build()), @r#"Malformed: file: tensor "a.in_sum2": there is "a.in_sum2", but no "a.counts""#);
    assert_snapshot!(refused(tensor(gguf(), "a.counts", &[1], &[1.0]).build()), @r#"Malformed: file: tensor "a.counts": there is "a.counts", but no "a.in_sum2""#);
    let pair = |sums: &[f32], counts: &[f32]| {
        let file = tensor(gguf(), "a.in_sum2", &[sums.len() as u64], sums);
        refused(tensor(file, "a.counts", &[counts.len() as u64], counts).build())
    };
    assert_snapshot!(pair(&[1.0, 2.0, 3.0], &[1.0, 1.0]), @r#"Malformed: file: tensor "a.in_sum2": 3 sums for 2 counts"#);
    assert_snapshot!(pair(&[1.0], &[]), @r#"Malformed: file: tensor "a.in_sum2": 1 sums for 0 counts"#);
    assert_snapshot!(pair(&[], &[1.0]), @r#"Malformed: file: tensor "a.in_sum2": 0 sums for 1 counts"#);
    let half = gguf().tensor("a.in_sum2", DType::F16, &[1], [0, 0]);
    assert_snapshot!(refused(tensor(half, "a.counts", &[1], &[1.0]).build()), @r#"Malformed: file: tensor "a.in_sum2": the dtype is F16, but an importance matrix requires F32"#);
}

#[test]
fn refused_in_the_older_form() {
    let first = |count: u32| refused(Writer::default().u32(count).raw(&[0; 64]).out);
    assert_snapshot!(refused(Vec::new()), @"
    Malformed: file: the number of entries needs 4 bytes, but only 0 are left in the file (at byte 0)
    help: the older format has no magic number: check that the file is an importance matrix
    ");
    assert_snapshot!(first(0), @"
    Malformed: file: the number of entries is 0, but the file has room for 1 to 4 (at byte 0)
    help: the older format has no magic number: check that the file is an importance matrix
    ");
    assert_snapshot!(first(u32::MAX), @"
    Malformed: file: the number of entries is -1, but the file has room for 1 to 4 (at byte 0)
    help: the older format has no magic number: check that the file is an importance matrix
    ");
    assert_snapshot!(first(1 << 30), @"
    Malformed: file: the number of entries is 1073741824, but the file has room for 1 to 4 (at byte 0)
    help: the older format has no magic number: check that the file is an importance matrix
    ");
    let one = Writer::default().u32(1).u32(1 << 30).raw(&[0; 64]);
    assert_snapshot!(refused(one.out), @"
    Malformed: file: the length of a name is 1073741824, but the file has room for 0 to 64 (at byte 4)
    help: the older format has no magic number: check that the file is an importance matrix
    ");
    let values = Writer::default().u32(1).u32(1).raw(b"a").u32(1).u32(1 << 30).raw(&[0; 64]);
    assert_snapshot!(refused(values.out), @"
    Malformed: file: the number of values is 1073741824, but the file has room for 1 to 16 (at byte 13)
    help: the older format has no magic number: check that the file is an importance matrix
    ");
    let none = entry(Writer::default().u32(1), "a", 1, &[]).raw(&[0; 8]);
    assert_snapshot!(refused(none.out), @"
    Malformed: file: the number of values is 0, but the file has room for 1 to 2 (at byte 13)
    help: the older format has no magic number: check that the file is an importance matrix
    ");
    let file = entry(Writer::default().u32(2), "a", 1, &[1.0]);
    assert_snapshot!(refused(entry(file, "a", 1, &[1.0]).out), @r#"Malformed: file: two entries for "a" (at byte 21)"#);
    assert_snapshot!(refused(Writer::default().u32(1).u32(1).raw(&[0xff]).raw(&[0; 16]).out), @"
    Malformed: file: a name is not UTF-8 (at byte 4)
    help: the older format has no magic number: check that the file is an importance matrix
    ");
    assert_snapshot!(refused(dat().u32(7).out), @"
    Malformed: file: 4 bytes are left over after the last entry (at byte 69)
    help: the older format has no magic number: check that the file is an importance matrix
    ");
    assert_snapshot!(refused(entry(Writer::default().u32(1), "a", 1, &[1.0]).u32(u32::MAX).out), @"Malformed: file: the number of chunks is -1, but it must not be negative (at byte 21)");
}

#[test]
fn limits_hold() {
    let mut limits = Limits::default();
    limits.string_bytes = 4;
    let open = |limits: &Limits| {
        let options = OpenOptions::new().limits(limits.clone());
        ImportanceMatrix::open_memory("file", dat().out, &options)
    };
    assert_snapshot!(told(&open(&limits).expect_err("a limit")), @"
    LimitExceeded: file: 8 bytes in one string, but the limit is 4 (at byte 4)
    help: for a file that you trust, the library can raise Limits::string_bytes
    ");
    limits.tensors = 1;
    assert_snapshot!(told(&open(&limits).expect_err("a limit")), @"
    LimitExceeded: file: 2 tensors, but the limit is 1
    help: for a file that you trust, the library can raise Limits::tensors
    ");
}

#[test]
fn cut_short_and_changed() {
    let whole = dat().out;
    let ends = [whole.len() - 9, whole.len() - 13];
    for end in 0..whole.len() {
        assert_eq!(open(whole[..end].to_vec()).is_ok(), ends.contains(&end), "{end}");
    }
    for file in [whole, experts().build()] {
        let mut changed = file.clone();
        for place in 0..file.len() {
            for byte in [0, 0xff, file[place].wrapping_add(1), file[place] ^ 0x80] {
                changed[place] = byte;
                drop(open(changed.clone()));
            }
            changed[place] = file[place];
        }
    }
    let file = experts().build();
    for end in 0..file.len() {
        drop(open(file[..end].to_vec()));
    }
}

/// An importance matrix of llama-imatrix, in both forms.
#[test]
fn both_forms_say_the_same() {
    let Some(folder) = fixture("gguf/misc") else { return };
    let [gguf, dat] = ["imatrix.gguf", "imatrix.dat"]
        .map(|name| ImportanceMatrix::open(folder.join(name)).expect("a matrix"));
    assert!(gguf.names().eq(dat.names()) && gguf.len() == 7);
    assert_eq!((gguf.datasets(), gguf.chunks()), (dat.datasets(), dat.chunks()));
    assert_eq!((gguf.datasets(), gguf.chunks()), (&["calib.txt".to_owned()][..], 12));
    for name in gguf.names() {
        let [a, b] = [&gguf, &dat]
            .map(|matrix| matrix.get(name, 256, 1).expect("256 columns").expect("importance"));
        // The older form keeps means times calls, rounded.
        let near = |(a, b): (&f32, &f32)| (a - b).abs() <= a.abs() * 1e-6;
        assert!(a.iter().zip(b).all(near), "{name}");
    }
}
