//! The same tensors in other files: split, merged, aligned, with other metadata.

use crate::support;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::support::{Gguf, Kv, Safetensors, fixture, folder, put, sharded};
use weighbridge::container::{GGUF, Shards};
use weighbridge::metadata::{KeyValues, Value};
use weighbridge::ops::{self, ConvertOptions, EditOutcome};
use weighbridge::recipe::FileType;
use weighbridge::recipe::llama_cpp::LlamaOptions;
use weighbridge::{
    DType, ErrorKind, Model, OpenOptions, Progress, Strictness, WriteOptions, WritePlan,
};

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/sample").join(name)
}

#[allow(clippy::disallowed_methods, reason = "the files are small")]
fn read(path: impl AsRef<Path>) -> Vec<u8> {
    let path = path.as_ref();
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn strict(path: &Path) -> Model {
    let store = OpenOptions::new().strictness(Strictness::Strict).open(path);
    store.unwrap_or_else(|error| panic!("{error}"))
}

fn run(plan: &WritePlan, path: &Path) -> Vec<PathBuf> {
    // The small models of these tests lack most of what their architecture requires.
    let options = WriteOptions::new().allow_incomplete(true);
    plan.run(path, &options).unwrap_or_else(|error| panic!("{error}")).paths
}

fn assert_same(found: &Model, expected: &Model) {
    assert_eq!(found.len(), expected.len());
    for expected in expected.stored_tensors() {
        let found = found.stored_tensor(expected.name()).expect("it");
        assert_eq!(found.shape(), expected.shape());
        assert_eq!(found.dtype_label(), expected.dtype_label());
        for segment in expected.segments() {
            let bytes = |tensor: &weighbridge::Tensor| {
                tensor.bytes(segment.part).expect("bytes").into_owned()
            };
            assert!(bytes(&found) == bytes(&expected), "{}", expected.name());
        }
    }
}

/// Aligned to 8 bytes, a file is what the safetensors crate writes, byte for byte: those of
/// transformers come of it.
#[test]
fn safetensors_are_those_of_the_crate() {
    let mut models = vec![sample("hf")];
    let names = ["llama-f16", "qwen2-f16", "mixtral-bf16", "whisper-f32", "bert-f32"];
    models.extend(names.iter().filter_map(|name| fixture(&format!("hf/{name}"))));
    for model in models {
        let store = Model::open(&model).expect("a model");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("made.safetensors");
        run(&ops::merge(&store, Some(8)).expect("a plan"), &path);
        let expected = read(model.join("model.safetensors"));
        assert!(read(&path) == expected, "{}", model.display());
        // The data of other files starts at a cache line.
        let aligned = folder.path().join("aligned.safetensors");
        run(&ops::merge(&store, None).expect("a plan"), &aligned);
        let store = strict(&aligned);
        let first =
            store.stored_tensors().filter_map(|t| t.segments().map(|s| s.range.start).min()).min();
        assert!(first.is_some_and(|first| first.is_multiple_of(64)));
    }
}

/// The files of llama-gguf-split, of the same model and of as many tensors in each.
#[test]
fn shards_are_those_of_llama_gguf_split() {
    let Some(whole) = fixture("gguf/model/mixtral-bf16.gguf") else { return };
    let store = Model::open(&whole).expect("a model");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mixtral-split.gguf");
    let plan = ops::split(&store, Shards::Tensors(8), &path).expect("a plan");
    let paths = run(&plan, &path);
    assert_eq!(paths.len(), 3);
    for path in &paths {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        let expected = fixture(&format!("gguf/split/{name}")).expect("it lies there");
        let (found, expected) = (read(path), read(expected));
        let differs = found.iter().zip(&expected).position(|(a, b)| a != b);
        assert_eq!((found.len(), differs), (expected.len(), None), "{name}");
    }
    // And together again.
    let shards = strict(&paths[0]);
    let merged = folder.path().join("merged.gguf");
    run(&ops::merge(&shards, None).expect("a plan"), &merged);
    assert!(read(&merged) == read(&whole));
}

/// A model of several files, quantized: as many files under llama-quantize's names, with the same
/// tensors in each as were read from it, and told of as one work.
#[test]
fn quantized_shards_keep_their_tensors() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let provider = |path: &Path| support::resolved(strict(path)).expect("a model");
    let hf = provider(&sample("hf"));
    let to_gguf = ConvertOptions::new(&GGUF);
    run(&ops::convert(&hf, &to_gguf).expect("a plan"), &at("whole.gguf"));
    let whole = strict(&at("whole.gguf"));
    let cut = run(
        &ops::split(&whole, Shards::Tensors(7), &at("cut.gguf")).expect("a plan"),
        &at("cut.gguf"),
    );
    assert!(cut.len() > 2);
    let mut options = LlamaOptions::new(FileType::Q4_0);
    let one = provider(&at("whole.gguf"));
    let one =
        ops::quantize(&one, &options, None, &at("one.gguf")).map(|p| run(&p, &at("one.gguf")));
    assert_eq!(one.expect("a plan"), [at("one.gguf")]);
    options.keep_split = true;
    let model = provider(&cut[0]);
    let plan = ops::quantize(&model, &options, None, &at("made.gguf")).expect("a plan");
    let told = Mutex::new(Vec::new());
    let watch = |progress: Progress| {
        told.lock().expect("no panic").push((progress.done, progress.total));
        ControlFlow::Continue(())
    };
    let made = plan.run(&at("made.gguf"), &WriteOptions::new().progress(&watch));
    let made = made.expect("shards").paths;
    let count = cut.len();
    let names = (1..=count).map(|number| at(&format!("made-{number:05}-of-{count:05}.gguf")));
    assert_eq!(made, names.collect::<Vec<_>>());
    let told = told.into_inner().expect("no panic");
    assert!(told.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 == pair[1].1));
    assert_eq!(told.last().map(|(done, total)| done == total), Some(true));
    // One file of a split is opened with all the others: which file a tensor lies in, it says.
    let of_files = |path: &Path| {
        let store = strict(path);
        let file = |tensor: weighbridge::Tensor| {
            let path = tensor.segments().next().expect("a part").path.to_path_buf();
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
            (tensor.name().to_string(), name[name.len() - "00001-of-00003.gguf".len()..].to_owned())
        };
        let mut files: Vec<(String, String)> = store.stored_tensors().map(file).collect();
        files.sort();
        files
    };
    assert_eq!(of_files(&made[0]), of_files(&cut[0]));
    assert_same(&strict(&made[0]), &strict(&at("one.gguf")));
    assert!(plan.tensors.iter().any(|fate| fate.dtype == DType::Q4_0));
}

/// A first shard may have all the keys and no tensors; it stays so.
#[test]
fn quantized_shards_keep_a_first_one_without_tensors() {
    let shard = |number| {
        Gguf::new()
            .key("split.no", Kv::U16(number))
            .key("split.count", Kv::U16(2))
            .key("split.tensors.count", Kv::I32(2))
    };
    let first = shard(0)
        .key("general.architecture", Kv::text("llama"))
        .key("llama.block_count", Kv::U32(1))
        .key("llama.attention.head_count", Kv::U32(1));
    let second =
        ["token_embd.weight", "blk.0.ffn_up.weight"].into_iter().fold(shard(1), |file, name| {
            let values = (0..64 * 64).flat_map(|n: u16| (0x3c00 | (n % 512)).to_le_bytes());
            file.tensor(name, DType::F16, &[64, 64], values.collect::<Vec<u8>>())
        });
    let files =
        [("a-00001-of-00002.gguf", first.build()), ("a-00002-of-00002.gguf", second.build())];
    let folder = folder(&files);
    let path = folder.path().join(files[0].0);
    let model = support::resolved(strict(&path)).expect("a model");
    let mut options = LlamaOptions::new(FileType::Q8_0);
    options.keep_split = true;
    let made = folder.path().join("b.gguf");
    let plan = ops::quantize(&model, &options, None, &made).expect("a plan");
    let made = run(&plan, &made);
    let expected = ["b-00001-of-00002.gguf", "b-00002-of-00002.gguf"];
    assert_eq!(made, expected.map(|name| folder.path().join(name)));
    let second = Gguf::new().key("split.no", Kv::U16(1)).key("split.count", Kv::U16(2));
    let second = second.key("split.tensors.count", Kv::I32(2)).build();
    // In the order in which llama-quantize has the keys: behind magic, version and counts.
    assert!(read(&made[1])[24..].starts_with(&second[24..24 + 82]));
    let store = strict(&made[0]);
    assert_eq!(store.len(), 2);
    for tensor in store.stored_tensors() {
        assert_eq!(tensor.dtype().expect("a dtype"), DType::Q8_0);
        assert!(tensor.segments().all(|segment| segment.path == made[1]));
    }
}

#[test]
fn layers_to_prune_exist() {
    let model = support::resolved(strict(&sample("hf"))).expect("a model");
    let plan = |pruned: &[u64]| {
        let mut options = LlamaOptions::new(FileType::Q8_0);
        options.pruned = pruned.iter().copied().collect();
        ops::quantize(&model, &options, None, Path::new("pruned.gguf"))
    };
    assert!(plan(&[1]).expect("a plan").tensors.iter().all(|fate| !fate.name.contains("blk.1.")));
    for pruned in [&[2][..], &[0, 9]] {
        let error = plan(pruned).expect_err("no such layer");
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        let fault = "cannot be removed: the last one is layer 1";
        assert!(error.to_string().contains(fault), "{error}");
    }
}

/// Safetensors in shards with an index, whose documents come along, and in one file again.
#[test]
fn directories_in_shards_and_back() {
    for model in [sample("hf"), sample("mlx-4bit")] {
        let store = Model::open(&model).expect("a model");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("split");
        let plan = ops::split(&store, Shards::Bytes(300_000), &path).expect("a plan");
        run(&plan, &path);
        let shards = strict(&path);
        assert!(shards.files().len() > 2);
        assert_same(&shards, &store);
        for name in ["config.json", "tokenizer.json"] {
            assert!(read(path.join(name)) == read(model.join(name)), "{name}");
        }
        for file in plan.files().filter(|(name, _)| name.ends_with(".safetensors")) {
            let one = strict(&path.join(file.0));
            assert!(one.stored_bytes() <= 300_000 || one.len() == 1, "{}", file.0);
        }
        // One file lacks what config.json says of its groups; beside it, all is as it was.
        let merged = tempfile::tempdir().expect("a folder");
        let one = merged.path().join("model.safetensors");
        run(&ops::merge(&shards, None).expect("a plan"), &one);
        put(merged.path(), "config.json", read(model.join("config.json")));
        assert_same(&strict(merged.path()), &store);
    }
}

/// An existing file is replaced only if that is asked for, and never while it is read.
#[test]
fn nothing_is_written_over_what_is_read() {
    let folder = folder(&[("model.gguf", small(&[1.0; 32]).build())]);
    let path = folder.path().join("model.gguf");
    let store = Model::open(&path).expect("a model");
    let plan = ops::merge(&store, None).expect("a plan");
    let other = folder.path().join("other.gguf");
    run(&plan, &other);
    let replace = WriteOptions::new().overwrite(true);
    assert_eq!(
        plan.run(&other, &WriteOptions::new()).expect_err("there").kind(),
        ErrorKind::Mismatch
    );
    plan.run(&other, &replace).expect("replaced");
    let before = read(&path);
    let error = plan.run(&path, &replace).expect_err("it is read");
    assert!(error.to_string().contains("source and destination are the same file"), "{error}");
    assert!(read(&path) == before);
    let names: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").collect();
    assert_eq!(names.len(), 2, "nothing half-written is left");
}

/// A hub's snapshot is a folder of links: to write a model over it would take them away.
#[cfg(unix)]
#[test]
fn a_snapshot_that_is_read_is_not_replaced() {
    let file = Safetensors::new().tensor("a", "F32", &[2], [0; 8]);
    let hub = folder(&[("blobs/1234", file.build())]);
    let snapshot = hub.path().join("snapshots/abcd");
    std::fs::create_dir_all(&snapshot).expect("a folder");
    let link = snapshot.join("model.safetensors");
    std::os::unix::fs::symlink("../../blobs/1234", &link).expect("a link");
    let store = Model::open(&snapshot).expect("a model");
    let plan = ops::split(&store, Shards::Tensors(1), &snapshot).expect("a plan");
    let error = plan.run(&snapshot, &WriteOptions::new().overwrite(true));
    assert_eq!(error.expect_err("it is read").kind(), ErrorKind::Mismatch);
    assert!(link.is_symlink());
}

fn small(values: &[f32]) -> Gguf {
    Gguf::new()
        .key("general.architecture", Kv::text("llama"))
        .key("general.name", Kv::text("a name with room"))
        .tensor("x", DType::F32, &[values.len() as u64], support::f32s(values))
}

/// Changes of one page are made in place, and touch no other byte; others make a new file.
#[test]
fn metadata_in_place_or_anew() {
    // 40 kB of keys lie between the name and the tensors.
    let padded = small(&[1.0; 32]).key("far.away", Kv::String(vec![b'x'; 40_000]));
    let folder = folder(&[("model.gguf", padded.build())]);
    let path = folder.path().join("model.gguf");
    let before = read(&path);
    let set = |key: &'static str, text: String| {
        let options = WriteOptions::new();
        let set = |keys: &mut KeyValues| {
            keys.set_text(key, text);
            Ok(())
        };
        let done = ops::edit_metadata(&path, set, &options);
        done.unwrap_or_else(|error| panic!("{error}"))
    };
    assert_eq!(set("general.name", "a name with rook".to_owned()), EditOutcome::InPlace);
    let after = read(&path);
    let changed: Vec<usize> = (0..before.len()).filter(|at| before[*at] != after[*at]).collect();
    assert_eq!((before.len(), changed.len()), (after.len(), 1));
    assert_eq!(strict(&path).metadata().str("general.name"), Some("a name with rook"));
    // Nothing to change is nothing to write.
    assert_eq!(set("general.name", "a name with rook".to_owned()), EditOutcome::InPlace);
    // The same length, but over ten pages.
    assert_eq!(set("far.away", "y".repeat(40_000)), EditOutcome::Rewritten);
    assert_eq!(strict(&path).metadata().str("far.away").map(str::len), Some(40_000));
    // Longer: all that follows moves.
    assert_eq!(set("general.name", "z".repeat(5000)), EditOutcome::Rewritten);
    let store = strict(&path);
    assert_eq!(*store.stored_tensor("x").expect("it").dequantize().expect("values"), [1.0; 32]);
    assert_eq!(store.metadata().str("far.away").map(str::len), Some(40_000));
    // A key less.
    let less = |keys: &mut KeyValues| {
        assert!(keys.remove("far.away"));
        Ok(())
    };
    let done = ops::edit_metadata(&path, less, &WriteOptions::new());
    assert_eq!(done.expect("it"), EditOutcome::Rewritten);
    assert!(strict(&path).metadata().get("far.away").is_none());
}

/// The header of the other byte order cannot be changed alone: the tensors have that order, too.
#[test]
fn big_endian_files_are_written_anew() {
    let swapped: Vec<u8> = [1.0f32, 2.0, 3.0, 4.0].iter().flat_map(|v| v.to_be_bytes()).collect();
    let file = small(&[0.0; 4]).last(|entry| entry.bytes = swapped).big_endian();
    let folder = folder(&[("model.gguf", file.build())]);
    let path = folder.path().join("model.gguf");
    let values = |path: &Path| {
        let store = Model::open(path).expect("a model");
        let values = store.stored_tensor("x").expect("it").dequantize().expect("values");
        (values.to_vec(), store.notes().len())
    };
    assert_eq!(values(&path).0, [1.0, 2.0, 3.0, 4.0]);
    let set = |keys: &mut KeyValues| {
        keys.set_text("general.name", "a name with rook");
        Ok(())
    };
    let edited = ops::edit_metadata(&path, set, &WriteOptions::new()).expect("changed");
    assert_eq!(edited, EditOutcome::Rewritten);
    assert_eq!(values(&path), (vec![1.0, 2.0, 3.0, 4.0], 0));
    strict(&path);
}

#[cfg(unix)]
#[test]
fn a_file_written_anew_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder(&[("model.gguf", small(&[1.0; 32]).build())]);
    let path = folder.path().join("model.gguf");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).expect("a mode");
    let set = |keys: &mut KeyValues| {
        keys.set("a.number", Value::U32(7));
        keys.set_text("general.name", "b".repeat(9000));
        Ok(())
    };
    let edited = ops::edit_metadata(&path, set, &WriteOptions::new()).expect("changed");
    assert_eq!(edited, EditOutcome::Rewritten);
    assert_eq!(path.metadata().expect("it").permissions().mode() & 0o777, 0o640);
}

/// Tensors that a container or llama.cpp does not accept are refused by name.
#[test]
fn refusals() {
    let long = "n".repeat(64);
    let mut told = Vec::new();
    let mut say = |what: &str, result: weighbridge::Result<WritePlan>| {
        let error = result.expect_err(what);
        told.push(format!(
            "{what}: {:?}: {}",
            error.kind(),
            error.to_string().replace(&long, "n*64")
        ));
    };
    let open = |file: Gguf| {
        let options = OpenOptions::new().strictness(Strictness::Lenient);
        options.open_memory("model.gguf", file.build()).expect("a file")
    };
    let named = open(Gguf::new().tensor(&long, DType::F32, &[1], [0; 4]));
    say("a long name", ops::merge(&named, None));
    let store = open(small(&[1.0; 32]));
    say("an odd alignment", ops::merge(&store, Some(24)));
    say("shards of no tensor", ops::split(&store, Shards::Tensors(0), Path::new("x.gguf")));
    say("shards without a name", ops::split(&store, Shards::Tensors(1), Path::new("..")));
    let unknown = open(Gguf::new().coded("x", 777, &[1], [0; 4]));
    say("an unknown dtype", ops::merge(&unknown, None));
    let (a, b) = (
        Safetensors::new().tensor("a", "F32", &[1], [0; 4]),
        Safetensors::new().tensor("b", "F32", &[1], [0; 4]),
    );
    let shards = sharded(&[
        ("model-00001-of-00002.safetensors", a),
        ("model-00002-of-00002.safetensors", b),
    ]);
    let shards = Model::open(shards.path()).expect("shards");
    assert_eq!(shards.len(), 2);
    ops::merge(&shards, Some(8)).expect("a plan");
    insta::assert_snapshot!(told.join("\n"));
}

/// No values, no dimensions, and both.
#[test]
fn empty_tensors_and_scalars() {
    let file = Safetensors::new()
        .tensor("scalar", "F32", &[], [0, 0, 128, 63])
        .tensor("none", "F16", &[0], [])
        .tensor("many none", "BF16", &[1 << 40, 0, 3], [])
        .tensor("row", "I8", &[1, 3], [1, 2, 3]);
    let folder = folder(&[("model.safetensors", file.build())]);
    let store = Model::open(folder.path()).expect("a model");
    let target = tempfile::tempdir().expect("a folder");
    let path = target.path().join("split");
    run(&ops::split(&store, Shards::Bytes(1), &path).expect("a plan"), &path);
    assert_same(&strict(&path), &store);
    let empty = OpenOptions::new().open_memory("e.gguf", Gguf::new().build()).expect("no tensors");
    let path = target.path().join("empty.gguf");
    let paths = run(&ops::split(&empty, Shards::Tensors(4), &path).expect("a plan"), &path);
    assert_eq!(strict(&paths[0]).len(), 0);
    assert_eq!(strict(&paths[0]).stored_tensors().count(), 0);
}

/// GGUF allows any power of two, and ggml none below 32.
#[test]
fn an_alignment_with_which_llama_cpp_aborts() {
    let model = Model::open(crate::support::sample("sample-Q8_0.gguf")).expect("a model");
    let folder = tempfile::tempdir().expect("a folder");
    for (alignment, aborts) in [(8, true), (16, true), (32, false), (64, false)] {
        let path = folder.path().join(format!("{alignment}.gguf"));
        let plan = ops::merge(&model, Some(alignment)).expect("a plan");
        let notes = plan.notes.clone();
        plan.run(&path, &WriteOptions::new()).expect("written");
        let found =
            ops::check_consistency(&Model::open(&path).expect("a model"), Strictness::Strict);
        // The plan says what `verify` finds.
        let fault = format!("general.alignment is {alignment}: llama.cpp aborts with less than 32");
        assert_eq!(found.expect("checked").faults.contains(&fault), aborts);
        assert_eq!(notes.contains(&fault), aborts, "{notes:?}");
    }
}

/// The reader of the header says it, with the offset.
#[test]
fn a_wrong_type_of_the_alignment_is_said_once() {
    let file = Gguf::new()
        .key("general.architecture", Kv::text("llama"))
        .key("general.alignment", Kv::I32(32));
    let model = OpenOptions::new().open_memory("model.gguf", file.build()).expect("a file");
    let found = ops::check_consistency(&model, Strictness::Default).expect("checked");
    let opened: Vec<String> = model.notes().iter().map(|note| note.text.clone()).collect();
    let all: Vec<&String> = opened.iter().chain(&found.notes).chain(&found.faults).collect();
    let of_key = all.iter().filter(|text| text.contains("general.alignment"));
    assert_eq!(of_key.count(), 1, "{all:#?}");
}
