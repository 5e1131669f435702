//! Requests that are refused because of what lies at a destination, what a container cannot hold, or
//! what a device does: each with the exact message, beside the nearest request that is met.
#![allow(clippy::disallowed_methods, reason = "the files are the test's own")]

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::{Gguf, Kv, Safetensors, f32s, folder, put, sample, told, without_path};
use insta::assert_snapshot;
use weighbridge::container::{Container, GGUF, OLLAMA, SAFETENSORS};
use weighbridge::device::{BufferLayout, Cpu, Device, DeviceLimits};
use weighbridge::metadata::Value;
use weighbridge::ops::{self, DiffOptions, HashList, HashOptions};
use weighbridge::{
    Builder, DType, LoadOptions, Model, OpenOptions, Policy, Result, Tensor, WeightProvider,
    WriteOptions,
};

fn text<T>(result: Result<T>, folder: &Path) -> String {
    let text = result.map_or_else(|error| told(&error), |_| "done".to_owned());
    without_path(&text, folder).replace('\n', " / ")
}

/// A destination that may exist, may be a link, and may be replaced or not.
#[cfg(unix)]
#[test]
fn what_lies_at_the_destination() {
    let source = Model::open(sample("sample-Q4_K_M.gguf")).expect("the sample");
    let write = |container: &'static Container, name: &str, overwrite: bool| {
        let folder = folder(&[
            ("file", &b"x"[..]),
            ("full/model.safetensors", b"x"),
            ("foreign/notes.txt", b"x"),
            ("sub/folder/x", b"x"),
        ]);
        std::fs::create_dir(folder.path().join("empty")).expect("a folder");
        for (link, to) in [("dangling", "nowhere"), ("to_file", "file"), ("to_folder", "empty")] {
            std::os::unix::fs::symlink(to, folder.path().join(link)).expect("a link");
        }
        let plan = ops::convert(&source, &ops::ConvertOptions::new(container)).expect("a plan");
        let options = WriteOptions::new().overwrite(overwrite);
        let ran = plan.run(&folder.path().join(name), &options);
        format!("{} {name} {overwrite}: {}", container.name, text(ran, folder.path()))
    };
    let mut lines = Vec::new();
    for container in [&GGUF, &SAFETENSORS] {
        for name in [
            "new",
            "file",
            "empty",
            "full",
            "foreign",
            "sub",
            "dangling",
            "to_file",
            "to_folder",
            "new/within",
            "file/below",
        ] {
            lines.extend([false, true].map(|overwrite| write(container, name, overwrite)));
        }
    }
    assert_snapshot!(lines.join("\n"));
}

/// The files of a folder, by name.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let file = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        (name, std::fs::read(path).expect("a file"))
    };
    let mut files: Vec<_> = entries.map(file).collect();
    files.sort();
    files
}

/// Files that somebody puts into a directory while the new one is written are not deleted with the
/// old one.
#[test]
fn files_that_appear_while_a_directory_is_written() {
    let source = Model::open(sample("hf")).expect("the sample");
    let plan = ops::convert(&source, &ops::ConvertOptions::new(&SAFETENSORS)).expect("a plan");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("m");
    plan.run(&path, &WriteOptions::new()).expect("a model");
    let before = contents(&path);
    for name in ["README.md", "another.safetensors", "model.safetensors.index.json"] {
        let appears = |_: weighbridge::Progress| {
            std::fs::write(path.join(name), "mine").expect("a file");
            std::ops::ControlFlow::Continue(())
        };
        let options = WriteOptions::new().overwrite(true).progress(&appears);
        let error = plan.run(&path, &options).expect_err(name);
        assert_eq!(error.kind(), weighbridge::ErrorKind::Mismatch, "{error}");
        assert_eq!(std::fs::read(path.join(name)).expect("the file"), b"mine");
        std::fs::remove_file(path.join(name)).expect("a file");
        assert!(contents(&path) == before, "{name}");
        let names: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").collect();
        assert_eq!(names.len(), 1, "nothing half-written is left");
    }
    // Without the request to replace it, nor is a model.
    let other = folder.path().join("other");
    let appears = |_: weighbridge::Progress| {
        std::fs::create_dir_all(&other).expect("a folder");
        for (name, bytes) in &before {
            std::fs::write(other.join(name), bytes).expect("a file");
        }
        std::ops::ControlFlow::Continue(())
    };
    let error = plan.run(&other, &WriteOptions::new().progress(&appears)).expect_err("a model");
    assert!(error.to_string().contains("already exists"), "{error}");
    assert!(contents(&other) == before);
}

#[test]
fn what_a_container_cannot_hold() {
    let add = |container: &Container, name: &str, dtype: DType, shape: &[u64]| {
        let count = shape.iter().product::<u64>();
        let len = dtype.row_bytes(count).expect("whole blocks");
        let tensor = Tensor::new("given", dtype, shape, vec![0; len as usize]).expect("a tensor");
        let mut builder = Builder::new(container).expect("it can be written");
        let planned = builder.add(name, &tensor).and_then(|_| builder.plan());
        let shown: String = name.chars().take(20).collect();
        let said = text(planned, Path::new("/nowhere"));
        format!("{} {shown} {dtype} {shape:?}: {said}", container.name)
    };
    let long = "n".repeat(64);
    let mut lines = Vec::new();
    for container in [&GGUF, &SAFETENSORS, &OLLAMA] {
        for (name, dtype, shape) in [
            ("a", DType::F32, &[2, 3][..]),
            ("a", DType::F32, &[]),
            ("a", DType::F32, &[0]),
            ("a", DType::F32, &[1, 1, 2, 1]),
            ("a", DType::F32, &[1, 1, 1, 2, 1]),
            ("a", DType::BOOL, &[4]),
            ("a", DType::Q4_0, &[32]),
            ("__metadata__", DType::F32, &[1]),
            ("", DType::F32, &[1]),
            (&long, DType::F32, &[1]),
            (&long[1..], DType::F32, &[1]),
        ] {
            lines.push(add(container, name, dtype, shape));
        }
    }
    let keyed = |key: &str, value: Value<'_>| {
        let mut builder = Builder::new(&GGUF).expect("it can be written");
        builder.metadata().set(key, value);
        let tensor = Tensor::new("t", DType::F32, &[1], vec![0; 4]).expect("a tensor");
        let planned = builder.add("t", &tensor).and_then(|_| builder.plan());
        format!("key {key:?}: {}", text(planned, Path::new("/nowhere")))
    };
    lines.push(keyed("", Value::U32(1)));
    lines.push(keyed("k", Value::U32(1)));
    lines.push(keyed("general.alignment", Value::U32(3)));
    lines.push(keyed("general.alignment", Value::U32(64)));
    assert_snapshot!(lines.join("\n"));
}

/// Host memory that changes a byte when it is read, or divides buffers wrongly.
#[derive(Debug, Default)]
struct Unsound {
    /// Counts down to the read that changes a byte.
    until: AtomicU64,
    drops_a_region: bool,
}

impl Device for Unsound {
    type Buffer = <Cpu as Device>::Buffer;
    type Region<'b> = <Cpu as Device>::Region<'b>;

    fn name(&self) -> Cow<'_, str> {
        "unsound".into()
    }

    fn limits(&self) -> DeviceLimits {
        DeviceLimits::new(64)
    }

    fn allocate(&self, layout: &BufferLayout) -> Result<Self::Buffer> {
        Cpu.allocate(layout)
    }

    fn regions<'b>(
        &self,
        buffer: &'b mut Self::Buffer,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Self::Region<'b>>> {
        let mut regions = Cpu.regions(buffer, ranges)?;
        if self.drops_a_region {
            regions.pop();
        }
        Ok(regions)
    }

    fn fill(
        &self,
        region: Self::Region<'_>,
        write: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        Cpu.fill(region, write)
    }

    fn read(&self, buffer: &Self::Buffer, offset: u64, out: &mut [u8]) -> Result<()> {
        Cpu.read(buffer, offset, out)?;
        if self.until.fetch_sub(1, Ordering::Relaxed) == 1 {
            out[5] ^= 1;
        }
        Ok(())
    }
}

#[test]
fn devices_that_are_unsound() {
    let model = || Model::open(sample("sample-Q4_K_M.gguf")).expect("the sample");
    let name = "layers.0.ffn.up.weight";
    let device = Arc::new(Unsound::default());
    let provider = WeightProvider::new(model(), Arc::clone(&device)).expect("a provider");
    let loaded = provider.load(name).expect("it loads");
    let verified = || text(provider.verify(&loaded), Path::new("/nowhere"));
    assert_eq!(verified(), "done");
    device.until.store(1, Ordering::Relaxed);
    assert_snapshot!(verified(), @r#"Device: tensor "layers.0.ffn.up.weight": byte 5 on unsound differs"#);
    assert_eq!(verified(), "done");
    let other = WeightProvider::new(model(), Arc::clone(&device)).expect("a provider");
    let other = other.policy(Policy::F16);
    assert_snapshot!(text(other.verify(&loaded), Path::new("/nowhere")), @r#"Mismatch: tensor "layers.0.ffn.up.weight": it was loaded with other parts"#);
    let device = Unsound { drops_a_region: true, ..Unsound::default() };
    let provider = WeightProvider::new(model(), device).expect("a provider");
    assert_snapshot!(text(provider.load(name), Path::new("/nowhere")), @"Mismatch: 0 regions, but 1 were requested");
    let all = provider.load_all(|_| true, &LoadOptions::new());
    assert_snapshot!(text(all, Path::new("/nowhere")), @"Mismatch: 0 regions, but 1 were requested");
}

fn vector(architecture: &str, values: &[f32]) -> Model {
    let file = Gguf::new().key("general.architecture", Kv::text(architecture)).tensor(
        "output_norm.weight",
        DType::F32,
        &[values.len() as u64],
        f32s(values),
    );
    OpenOptions::new().open_memory("model.gguf", file.build()).expect("a model")
}

/// The notes of `diff` on two models as a whole.
#[test]
fn models_that_are_hardly_comparable() {
    let (llama, qwen) = (vector("llama", &[1.0, 2.0]), vector("qwen2", &[1.0, 2.0]));
    let unknown = vector("odd", &[1.0, 2.0]);
    let plain = Safetensors::new().tensor("other", "F32", &[2], f32s(&[1.0, 2.0])).build();
    let plain = OpenOptions::new().open_memory("m.safetensors", plain).expect("a model");
    let infinite = vector("llama", &[f32::MAX, f32::INFINITY]);
    let compared = |a: &Model, b: &Model| match ops::diff(a, b, &DiffOptions::new()) {
        Err(error) => told(&error).replace('\n', " / "),
        Ok(report) => format!("{:?}", report.notes),
    };
    assert_snapshot!(
        [
            compared(&llama, &llama),
            compared(&llama, &qwen),
            compared(&llama, &unknown),
            compared(&unknown, &unknown),
            compared(&unknown, &plain),
            compared(&llama, &infinite),
        ]
        .join("\n")
    );
}

/// Lists of hashes with one damage each.
#[test]
fn lists_of_hashes() {
    let model = Model::open(sample("sample-Q4_K_M.gguf")).expect("the sample");
    let report = ops::hash(&model, &HashOptions::new().parts(true)).expect("hashes");
    let list = HashList::new(&report).to_string();
    let folder = folder(&[("list", list.as_bytes())]);
    let lines: Vec<&str> = list.lines().collect();
    let read = |text: String| {
        put(folder.path(), "list", text);
        self::text(HashList::open(folder.path().join("list")), folder.path())
    };
    let with = |place: usize, line: &str| {
        let mut lines = lines.clone();
        lines[place] = line;
        read(lines.join("\n"))
    };
    let second = lines[1].replacen(|c: char| c.is_ascii_hexdigit(), "z", 1);
    assert_snapshot!(
        [
            read(list.clone()),
            read(String::new()),
            read(lines[1..].join("\n")),
            with(0, "# other"),
            with(1, "x"),
            with(1, &second),
            with(1, lines[2]),
            read(lines[..1].join("\n")),
        ]
        .join("\n")
    );
}
