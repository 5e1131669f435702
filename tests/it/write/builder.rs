//! Models built from arrays of the caller's own, in every container that can be written.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::{Gguf, Kv, f32s};
use weighbridge::bytes::{ReadAt, Source};
use weighbridge::container::{self, CONTAINERS, Container, Shards};
use weighbridge::metadata::Value;
use weighbridge::{Builder, DType, ErrorKind, Model, OpenOptions, Part, Tensor, WriteOptions};

const WIDTH: u64 = 256;
const CONFIG: &str = r#"{"model_type": "mine", "architectures": ["Mine"], "hidden_size": 256}"#;

/// Numbers that are computed when they are read: the `n`th is `n mod 1000 / 8`.
#[derive(Debug)]
struct Computed {
    numbers: u64,
    /// The most bytes that were asked for at once.
    most: Arc<AtomicU64>,
}

fn number(n: u64) -> f32 {
    (n % 1000) as f32 / 8.0 - 50.0
}

impl ReadAt for Computed {
    fn size(&self) -> u64 {
        self.numbers * 4
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.most.fetch_max(out.len() as u64, Ordering::Relaxed);
        for (at, byte) in (offset..).zip(out) {
            *byte = number(at / 4).to_le_bytes()[(at % 4) as usize];
        }
        Ok(())
    }
}

fn computed(name: &str, rows: u64) -> (Tensor, Arc<AtomicU64>) {
    let most = Arc::new(AtomicU64::new(0));
    let reader = Computed { numbers: rows * WIDTH, most: Arc::clone(&most) };
    let source = Source::custom("computed", reader);
    (Tensor::new(name, DType::F32, &[rows, WIDTH], source).expect("a tensor"), most)
}

fn builder(container: &Container) -> Builder {
    let mut model = Builder::new(container).expect("it can be written");
    if *container == container::GGUF {
        model.metadata().set_text("general.architecture", "mine");
        model.metadata().set("mine.width", Value::U32(256));
    } else {
        model.document("config.json", CONFIG.into()).expect("a config");
        model.document("tokenizer.json", b"{}".to_vec()).expect("a document");
    }
    model
}

/// The path of a model of that container below a folder.
fn place(container: &Container, folder: &Path) -> PathBuf {
    match *container == container::OLLAMA {
        true => container::ollama::place("mine", Some(folder)).expect("a place"),
        false => folder.join("model"),
    }
}

#[test]
fn own_arrays_in_every_container() {
    for container in CONTAINERS.iter().filter(|row| row.written_as().is_some()) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = place(container, folder.path());
        let (large, _) = computed("large", 64);
        let bias = Tensor::new("bias", DType::F16, &[2], vec![0x00, 0x3c, 0x00, 0xc0]);
        let mut model = builder(container);
        model.add("a.weight", &large).expect("f32 is held by all");
        model.add("a.bias", &bias.expect("a tensor")).expect("and f16");
        let quantized = match **container == container::GGUF {
            true => DType::Q8_0,
            false => DType::MLX_AFFINE8,
        };
        let plain = **container == container::SAFETENSORS;
        if !plain {
            model.add_as("b.weight", &large, quantized).expect("it quantizes");
        }
        model.add_as("c.weight", &large, DType::BF16).expect("it rounds");
        let plan = model.plan().unwrap_or_else(|error| panic!("{}: {error}", container.name));
        let methods: Vec<_> = plan.tensors.iter().map(|tensor| tensor.method.name()).collect();
        let expected = ["copied", "copied", "quantized", "rounded"];
        let expected = expected.into_iter().filter(|method| !plain || *method != "quantized");
        assert_eq!(methods, expected.collect::<Vec<_>>(), "{}", container.name);
        plan.run(&path, &WriteOptions::new()).unwrap_or_else(|error| panic!("{error}"));

        let read = Model::open(&path).unwrap_or_else(|error| panic!("{}: {error}", container.name));
        let name = if plain { "safetensors" } else { container.name };
        assert_eq!(read.container(), name);
        let tensor = |name: &str| read.stored_tensor(name).expect("a tensor");
        assert_eq!(tensor("a.weight").dtype().unwrap(), DType::F32);
        let values = tensor("a.weight").dequantize().unwrap();
        assert!((0..).zip(values.iter()).all(|(n, value)| *value == number(n)));
        assert_eq!(tensor("a.bias").dequantize().unwrap()[..], [1.0, -2.0]);
        assert_eq!(tensor("c.weight").dtype().unwrap(), DType::BF16);
        if !plain {
            assert_eq!(tensor("b.weight").dtype().unwrap(), quantized);
            assert_eq!(tensor("b.weight").shape(), [64, WIDTH]);
            let values = tensor("b.weight").dequantize().unwrap();
            let far = (0..).zip(values.iter()).map(|(n, value)| (value - number(n)).abs());
            assert!(far.fold(0.0, f32::max) < 0.5, "{}", container.name);
        }
        if **container == container::GGUF {
            assert_eq!(read.metadata().u64("mine.width"), Some(256));
        } else {
            let config = read.document("config.json").expect("a config");
            assert_eq!(config["hidden_size"], 256);
            let mlx = **container == container::MLX;
            assert_eq!(config["quantization"]["group_size"] == 64, mlx, "{}", container.name);
        }
    }
}

/// Arrays that are computed when they are read are written in bounded memory, and their source is
/// asked for pieces, never for all of it.
#[test]
fn computed_arrays_are_streamed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("large.gguf");
    let rows = 64 << 10;
    let (tensor, most) = computed("large", rows);
    let mut model = builder(&container::GGUF);
    model.add("large.weight", &tensor).unwrap();
    model.add_as("small.weight", &tensor, DType::Q4_K).unwrap();
    let plan = model.plan().unwrap();
    plan.run(&path, &WriteOptions::new().memory(32 << 20)).unwrap();
    assert!(most.load(Ordering::Relaxed) <= 32 << 20, "{most:?}");
    let read = Model::open(&path).unwrap();
    let rows_of = |name: &str| read.stored_tensor(name).unwrap().shape()[0];
    assert_eq!((rows_of("large.weight"), rows_of("small.weight")), (rows, rows));
}

/// A reader that fails ends the writing with its own error, and nothing is left.
#[test]
fn a_failing_reader_leaves_nothing() {
    #[derive(Debug)]
    struct Broken;
    impl ReadAt for Broken {
        fn size(&self) -> u64 {
            8 << 20
        }
        fn read_at(&self, offset: u64, _: &mut [u8]) -> std::io::Result<()> {
            match offset {
                0..0x10_0000 => Ok(()),
                _ => Err(std::io::Error::other("the store is gone")),
            }
        }
    }
    for container in CONTAINERS.iter().filter(|row| row.written_as().is_some()) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = place(container, folder.path());
        let source = Source::custom("far away", Broken);
        let tensor = Tensor::new("t", DType::U8, &[8, 1 << 20], source).unwrap();
        let mut model = builder(container);
        model.add("t", &tensor).unwrap();
        let error = model.plan().unwrap().run(&path, &WriteOptions::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains("the store is gone"), "{error}");
        assert!(error.to_string().contains("far away"), "{error}");
        assert!(!path.exists());
        let left: Vec<_> = walk(folder.path()).collect();
        assert_eq!(left, [] as [PathBuf; 0], "{}", container.name);
        // So does the user who interrupts it.
        let (tensor, _) = computed("t", 1024);
        let mut model = builder(container);
        model.add("t", &tensor).unwrap();
        let stop = |_| ControlFlow::Break(());
        let stopped = model.plan().unwrap().run(&path, &WriteOptions::new().progress(&stop));
        assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Cancelled);
        assert!(!path.exists());
    }
}

/// All files below a folder.
fn walk(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let mut folders = vec![folder.to_path_buf()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() { folders.push(entry) } else { files.push(entry) }
        }
    }
    files.into_iter()
}

#[test]
fn shards_of_every_kind() {
    let folder = tempfile::tempdir().expect("a folder");
    let (tensor, _) = computed("t", 16);
    let count = |container: &Container, shards: Shards, name: &str| {
        let mut model = builder(container);
        (0..4).for_each(|n| model.add(format!("t{n}"), &tensor).unwrap());
        model.shards(shards, name);
        let plan = model.plan()?;
        let path = folder.path().join(name);
        let written = plan.run(&path, &WriteOptions::new())?;
        let first = written.paths[0].clone();
        assert_eq!(Model::open(&first)?.stored_tensors().count(), 4);
        Ok::<usize, weighbridge::Error>(
            plan.files()
                .filter(|(file, _)| file.ends_with(".gguf") || file.ends_with(".safetensors"))
                .count(),
        )
    };
    let bytes = 16 * WIDTH * 4;
    assert_eq!(count(&container::GGUF, Shards::Tensors(3), "a").unwrap(), 2);
    assert_eq!(count(&container::GGUF, Shards::Bytes(bytes), "b").unwrap(), 4);
    assert_eq!(count(&container::GGUF, Shards::Counts(vec![1, 3]), "c").unwrap(), 2);
    assert_eq!(count(&container::SAFETENSORS, Shards::Bytes(2 * bytes), "d").unwrap(), 2);
    assert_eq!(count(&container::MLX, Shards::Tensors(4), "e").unwrap(), 1);
    for wrong in [Shards::Tensors(0), Shards::Bytes(0), Shards::Counts(vec![1, 2])] {
        let error = count(&container::GGUF, wrong, "f").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch);
    }
}

#[test]
fn what_a_container_cannot_hold_is_refused() {
    let refused = |error: weighbridge::Error| (error.kind(), error.to_string());
    let whisper = Builder::new(&container::WHISPER_GGML).unwrap_err();
    assert_eq!(whisper.kind(), ErrorKind::Unsupported);
    // As many bytes as the shape has.
    let (kind, text) = refused(Tensor::new("t", DType::F32, &[2, 2], vec![0; 15]).unwrap_err());
    assert_eq!(kind, ErrorKind::Mismatch);
    assert!(text.contains("15 bytes, but a F32 array of shape [2, 2] has 16"), "{text}");
    assert!(Tensor::new("t", DType::Q4_K, &[2, 100], vec![0; 144]).is_err());
    assert!(Tensor::new("t", DType::F32, &[u64::MAX, 2], vec![0; 8]).is_err());
    // Documents beside a GGUF file.
    let mut gguf = builder(&container::GGUF);
    gguf.document("notes.txt", b"x".to_vec()).unwrap();
    assert_eq!(gguf.plan().unwrap_err().kind(), ErrorKind::Unsupported);
    // An array of arrays, which GGUF has and llama.cpp does not read.
    let inner = Kv::Array(4, vec![Kv::U32(7)]);
    let nested = Gguf::new().key("a.nested", Kv::Array(9, vec![inner])).build();
    let nested = OpenOptions::new().open_memory("nested", nested).unwrap();
    let mut gguf = builder(&container::GGUF);
    gguf.metadata().set("a.nested", nested.metadata().get("a.nested").unwrap());
    let error = gguf.plan().unwrap_err();
    assert_eq!((error.kind(), error.key()), (ErrorKind::Unsupported, Some("a.nested")));
    // One name twice.
    let (tensor, _) = computed("t", 1);
    for container in [&container::GGUF, &container::SAFETENSORS] {
        let mut model = builder(container);
        model.add("t", &tensor).unwrap();
        model.add("t", &tensor).unwrap();
        assert_eq!(model.plan().unwrap_err().kind(), ErrorKind::Mismatch);
    }
    let mut nameless = builder(&container::SAFETENSORS);
    assert_eq!(nameless.add("", &tensor).unwrap_err().kind(), ErrorKind::Mismatch);
    assert_eq!(nameless.add_as("", &tensor, DType::F16).unwrap_err().kind(), ErrorKind::Mismatch);
    // A dtype that needs more than values, and rows that do not fit.
    let mut gguf = builder(&container::GGUF);
    assert!(gguf.add_as("t", &tensor, DType::IQ2_XXS).is_err());
    let narrow = Tensor::new("n", DType::F32, &[1, 7], vec![0; 28]).unwrap();
    assert!(gguf.add_as("t", &narrow, DType::Q8_0).is_err());
    let mut mlx = Builder::new(&container::MLX).unwrap();
    assert!(mlx.document("config.json", b"[]".to_vec()).is_err());
    assert!(mlx.add_as("t", &narrow, DType::MLX_AFFINE4).is_err());
    // Whole words of codes, but no whole groups.
    let odd = Tensor::new("n", DType::F32, &[1, 96], vec![0; 384]).unwrap();
    let error = mlx.add_as("t", &odd, DType::MLX_AFFINE4).unwrap_err();
    assert!(error.to_string().contains("rows of 96 elements do not fit MLX_AFFINE4"), "{error}");
    mlx.add_as("t", &odd, DType::MLX_MXFP4).expect("three groups of 32");
}

/// A tensor of an open model goes into another model under another name.
#[test]
fn blocks_are_copied_or_refused() {
    let bytes: Vec<u8> = (0..2 * 34).collect();
    let tensor = Tensor::new("q", DType::Q8_0, &[2, 32], bytes.clone()).expect("two blocks");
    let folder = tempfile::tempdir().expect("a folder");
    let mut gguf = builder(&container::GGUF);
    gguf.add_copied("q.weight", &tensor).expect("a dtype of GGUF");
    assert_eq!(gguf.add_copied("", &tensor).unwrap_err().kind(), ErrorKind::Mismatch);
    let path = folder.path().join("q.gguf");
    gguf.plan().expect("a plan").run(&path, &WriteOptions::new()).expect("a file");
    let written = Model::open(&path).expect("a model");
    let written = written.stored_tensor("q.weight").expect("the tensor");
    assert_eq!(written.dtype().expect("a dtype"), DType::Q8_0);
    assert_eq!(*written.bytes(Part::Weight).expect("bytes"), bytes);
    for container in [&container::SAFETENSORS, &container::MLX] {
        let error = builder(container).add_copied("q.weight", &tensor).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("cannot hold Q8_0"), "{error}");
    }
}

#[test]
fn tensors_of_other_models() {
    let sample = Model::open(crate::support::sample("sample-Q8_0.gguf")).unwrap();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("one.safetensors");
    let mut model = Builder::new(&container::SAFETENSORS).unwrap();
    let q = sample.tensor("layers.0.attention.q.weight").unwrap();
    model.add("q", &q).unwrap();
    model.one_file();
    model.plan().unwrap().run(&path, &WriteOptions::new()).unwrap();
    let read = Model::open(&path).unwrap();
    let (found, expected) = (read.stored_tensor("q").unwrap(), q);
    assert_eq!(found.dtype().unwrap(), DType::F16);
    let far = found
        .dequantize()
        .unwrap()
        .iter()
        .zip(expected.dequantize().unwrap().iter())
        .map(|(found, expected)| (found - expected).abs() / expected.abs().max(1e-3))
        .fold(0.0, f32::max);
    assert!(far <= 1.0 / 2048.0, "{far}");
    // A plan never writes over what it reads.
    let mut model = Builder::new(&container::SAFETENSORS).unwrap();
    model.add("q", &found).unwrap();
    model.one_file();
    let error = model.plan().unwrap().run(&path, &WriteOptions::new().overwrite(true));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Mismatch);
}

/// A rename would replace a pipe, a socket or a device by a file, and a link to one by a file that nothing reads.
#[cfg(unix)]
#[test]
fn devices_and_pipes_are_not_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let made = std::process::Command::new("mkfifo").arg(path("pipe")).status();
    assert!(made.expect("mkfifo is in POSIX").success());
    let _socket = std::os::unix::net::UnixListener::bind(path("socket")).expect("a socket");
    for (link, target) in [("null", "/dev/null"), ("out", "/dev/stdout"), ("link", "pipe")] {
        std::os::unix::fs::symlink(target, path(link)).expect("a link");
    }
    let kind = |name: &str| path(name).symlink_metadata().expect("it is there").file_type();
    for (container, is_one_file) in
        [(&container::GGUF, false), (&container::SAFETENSORS, true), (&container::MLX, false)]
    {
        for (name, said) in [
            ("pipe", "this is a pipe"),
            ("link", "this is a pipe"),
            ("socket", "this is a socket"),
            ("null", "this is a device"),
            ("out", "this is "),
        ] {
            let before = kind(name);
            for overwrite in [false, true] {
                let mut model = builder(container);
                model.add("a.weight", &computed("a", 2).0).expect("f32 is held");
                if is_one_file {
                    model.one_file();
                }
                let plan = model.plan().expect("a plan");
                let options = WriteOptions::new().overwrite(overwrite);
                let error = plan.run(&path(name), &options).expect_err(name);
                assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
                assert!(error.to_string().contains(said), "{name}: {error}");
                if overwrite {
                    plan.replaced(&path(name), &options).expect_err(name);
                }
                assert_eq!(kind(name), before, "{name}");
            }
        }
    }
}

/// The name of an array in memory is only a name, even if a file has it too.
#[test]
fn an_array_in_memory_is_no_file_to_protect() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let reader = Computed { numbers: WIDTH, most: Arc::new(AtomicU64::new(0)) };
    let source = Source::custom(path.to_str().expect("a path of text"), reader);
    let tensor = Tensor::new("a.weight", DType::F32, &[1, WIDTH], source).expect("a tensor");
    let plan = || {
        let mut model = builder(&container::GGUF);
        model.add("a.weight", &tensor).expect("f32 is held");
        model.plan().expect("a plan")
    };
    plan().run(&path, &WriteOptions::new()).expect("it is written");
    plan().run(&path, &WriteOptions::new().overwrite(true)).expect("and replaced");
}

/// Files of killed runs that cannot be deleted are no files of the new run.
#[test]
fn a_store_with_something_in_the_way() {
    let folder = tempfile::tempdir().expect("a folder");
    let blobs = folder.path().join("blobs");
    std::fs::create_dir_all(blobs.join("sha256-weighbridge-0123456789abcdef-0")).expect("a folder");
    let path = place(&container::OLLAMA, folder.path());
    let plan = || {
        let mut model = builder(&container::OLLAMA);
        model.add("a.weight", &computed("a", 2).0).expect("f32 is held");
        model.plan().expect("a plan")
    };
    let error = plan().run(&path, &WriteOptions::new()).expect_err("a folder in the way");
    assert_eq!(error.kind(), ErrorKind::Io);
    let said = "cannot delete the unfinished files of an earlier run";
    assert!(error.to_string().contains(said), "{error}");
    assert!(!path.exists());
    std::fs::remove_dir(blobs.join("sha256-weighbridge-0123456789abcdef-0")).expect("a folder");
    plan().run(&path, &WriteOptions::new()).expect("a model");
    assert_eq!(Model::open(&path).expect("a model").len(), 1);
}

/// Several tensors in one, which have no dtype in common: their values are written.
/// A blob that the store has is not replaced by its like.
#[cfg(unix)]
#[test]
fn blobs_that_are_there_are_kept() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().expect("a folder");
    let path = place(&container::OLLAMA, folder.path());
    let write = || {
        let mut model = builder(&container::OLLAMA);
        model.add("a.weight", &computed("a", 2).0).expect("f32 is held");
        let plan = model.plan().expect("a plan");
        plan.run(&path, &WriteOptions::new().overwrite(true)).expect("a model");
        let blobs = std::fs::read_dir(folder.path().join("blobs")).expect("blobs");
        let number = |entry: std::io::Result<std::fs::DirEntry>| {
            let entry = entry.expect("a blob");
            (entry.file_name(), entry.metadata().expect("it").ino())
        };
        blobs.map(number).collect::<std::collections::BTreeMap<_, _>>()
    };
    let first = write();
    assert!(!first.is_empty());
    assert_eq!(write(), first);
}

#[test]
fn rows_of_several_dtypes() {
    let half: Vec<u8> = (0..2 * WIDTH).flat_map(|n| (0x3c00 + n as u16).to_le_bytes()).collect();
    let half = Tensor::new("half", DType::F16, &[2, WIDTH], half).expect("a tensor");
    let (single, _) = computed("single", 3);
    let fused = Tensor::fuse(vec![half, single]).expect("a tensor");
    let values = fused.dequantize().expect("values");
    for container in [&container::GGUF, &container::SAFETENSORS, &container::MLX] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = place(container, folder.path());
        let mut model = builder(container);
        model.add("all.weight", &fused).expect("values");
        let plan = model.plan().expect("a plan");
        assert_eq!(plan.tensors[0].method.name(), "exact", "{}", container.name);
        assert_eq!(plan.tensors[0].dtype, DType::F32);
        let reason = plan.tensors[0].reason.as_deref().unwrap_or_default();
        assert!(reason.contains("half") && reason.contains("single"), "{reason}");
        plan.run(&path, &WriteOptions::new()).expect("a model");
        let read = Model::open(&path).expect("a model");
        assert!(*read.stored_tensor("all.weight").unwrap().dequantize().unwrap() == *values);
    }
}

/// Scales of groups have the dtype of the values that mlx-lm starts from: checkpoints in 8-bit floats are
/// those of BF16 models.
#[test]
fn groups_of_what_was_quantized_before() {
    use crate::support::{Safetensors, f32s, folder, sample};
    let config = br#"{"model_type":"mine","quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]}}"#;
    let file = Safetensors::new().tensor("l.weight", "F8_E4M3", &[4, 128], vec![0x38; 512]).tensor(
        "l.weight_scale_inv",
        "F32",
        &[1, 1],
        f32s(&[0.5]),
    );
    let source = folder(&[("config.json", config.to_vec()), ("model.safetensors", file.build())]);
    let floats = Model::open(source.path()).expect("a model");
    let blocks = Model::open(sample("sample-Q8_0.gguf")).expect("a model");
    let cases = [
        (floats.stored_tensor("l.weight"), DType::SCALED_F8_E4M3, DType::BF16, "quantized"),
        (blocks.stored_tensor("blk.0.attn_q.weight"), DType::Q8_0, DType::F16, "requantized"),
    ];
    for (tensor, from, scales, method) in cases {
        let tensor = tensor.expect("a tensor");
        assert_eq!(tensor.dtype().expect("a dtype"), from);
        let made = tempfile::tempdir().expect("a folder");
        let path = place(&container::MLX, made.path());
        let mut model = builder(&container::MLX);
        model.add_as("l.weight", &tensor, DType::MLX_AFFINE8).expect("groups");
        let plan = model.plan().expect("a plan");
        assert_eq!(plan.tensors[0].method.name(), method, "{from}");
        let written = plan.run(&path, &WriteOptions::new()).expect("a model");
        // Eight bits hold nearly all of what both have.
        let lost = written.lost.first().and_then(|(_, loss)| loss.relative_rms());
        assert!(lost.unwrap_or(0.0) < 0.01, "{from}: {lost:?}");
        assert_eq!(lost.is_some(), method == "requantized", "{from}: {lost:?}");
        let read = Model::open(&path).expect("a model");
        let part = read.stored_tensor("l.weight").expect("a tensor");
        let of_groups = part.segments().filter(|segment| segment.part != weighbridge::Part::Weight);
        assert_eq!(of_groups.map(|s| s.dtype).collect::<Vec<_>>(), [scales; 2], "{from}");
    }
}

/// Quantized values are quantized again, with a report of the cost; a first quantization is what was asked for.
#[test]
fn blocks_of_what_was_quantized_before() {
    let blocks = Model::open(crate::support::sample("sample-Q8_0.gguf")).expect("a model");
    let blocks = blocks.stored_tensor("blk.0.attn_q.weight").expect("a tensor");
    let folder = tempfile::tempdir().expect("a folder");
    let path = place(&container::GGUF, folder.path());
    let mut model = builder(&container::GGUF);
    model.add_as("again", &blocks, DType::Q4_0).expect("blocks");
    model.add_as("first", &computed("first", 4).0, DType::Q4_0).expect("blocks");
    let plan = model.plan().expect("a plan");
    let methods: Vec<_> = plan.tensors.iter().map(|tensor| tensor.method.name()).collect();
    assert_eq!(methods, ["requantized", "quantized"]);
    let written = plan.run(&path, &WriteOptions::new()).expect("a model");
    let [(name, loss)] = written.lost.as_slice() else { panic!("{:?}", written.lost) };
    assert_eq!(name, "again");
    let error = loss.relative_rms().expect("an error");
    assert!((0.01..0.2).contains(&error), "{error}");
}

/// mlx-lm's experts have a factor each, its linear layers none.
#[test]
fn factors_of_experts_are_a_list() {
    use weighbridge::Part;
    let source = crate::ops::convert::experts([4.0, 32.0]);
    let model = Model::open(source.path()).expect("a model");
    let folder = tempfile::tempdir().expect("a folder");
    let path = place(&container::MLX, folder.path());
    let mut one = builder(&container::MLX);
    let name = "model.layers.0.block_sparse_moe.experts.0.w1.weight";
    one.add("one.weight", &model.stored_tensor(name).expect("a tensor")).expect("groups");
    let all = model.tensor("layers.0.ffn.experts.gate.weight").expect("experts");
    one.add("all.weight", &all).expect("groups");
    // One factor for all experts of a tensor.
    let block = [[0x38; 4].as_slice(), &[0x12; 32]].concat();
    let shared = Gguf::new().tensor("x.weight", DType::NVFP4, &[2, 1, 64], block.repeat(2)).tensor(
        "x.scale",
        DType::F32,
        &[1],
        f32s(&[2.0]),
    );
    let shared = OpenOptions::new().open_memory("shared", shared.build()).expect("a model");
    one.add("shared.weight", &shared.stored_tensor("x.weight").expect("experts")).expect("groups");
    one.plan().expect("a plan").run(&path, &WriteOptions::new()).expect("a model");
    let read = Model::open(&path).expect("a model");
    let found = |name: &str| {
        let tensor = read.stored_tensor(name).expect("a tensor");
        let mut parts = tensor.segments();
        let global = parts.find(|segment| segment.part == Part::GlobalAmax);
        (tensor.dtype().expect("a dtype"), global.map(|segment| segment.shape.to_vec()))
    };
    assert_eq!(found("one.weight"), (DType::MLX_AFFINE8, None));
    assert_eq!(found("all.weight"), (DType::MLX_NVFP4, Some(vec![2])));
    assert_eq!(found("shared.weight"), (DType::MLX_NVFP4, Some(vec![2])));
}

#[test]
fn slices_count_from_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let mut model = builder(&container::GGUF);
    model.add("a.weight", &Tensor::new("a", DType::F32, &[1], vec![0; 4]).unwrap()).unwrap();
    let plan = model.plan().expect("a plan");
    let options = WriteOptions::new();
    let slices = plan.slices(&path, &[], &options).expect("slices");
    for (slice, of) in [(0, 1), (0, 0), (1, 0), (3, 2)] {
        let error = slices.run(slice, of, &options).expect_err("no such slice");
        assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
        let said = format!("slice {slice} of {of}: slices count from 1");
        assert!(error.to_string().contains(&said), "{error}");
    }
    slices.run(1, 1, &options).expect("the only one");
    let record = folder.path().join("finished");
    assert_eq!(slices.finish(&record, &options).expect("a model").paths, [path]);
}

/// A file that another program makes while this one writes is not replaced.
#[test]
fn a_destination_that_appears_meanwhile() {
    for container in [&container::GGUF, &container::OLLAMA] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = place(container, folder.path());
        let plan = || {
            let mut model = builder(container);
            model.add("a.weight", &computed("a", 2).0).expect("f32 is held");
            model.plan().expect("a plan")
        };
        let other = |_: weighbridge::Progress| {
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
            std::fs::write(&path, "mine").expect("a file");
            ControlFlow::Continue(())
        };
        let error = plan().run(&path, &WriteOptions::new().progress(&other)).expect_err("a file");
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert_eq!(std::fs::read(&path).expect("the file"), b"mine", "{}", container.name);
        plan().run(&path, &WriteOptions::new().overwrite(true)).expect("a model");
        assert_eq!(Model::open(&path).expect("a model").len(), 1);
    }
}

#[test]
fn documents_stay_in_the_directory() {
    let mut model = Builder::new(&container::SAFETENSORS).unwrap();
    for name in ["", "..", "../x", "a/../../x", "/x"] {
        let error = model.document(name, Vec::new()).expect_err(name);
        assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
    }
    model.document("1_Pooling/config.json", b"{}".to_vec()).unwrap();
}
