//! The reports of `ops`: what each verb finds in a model, through the public API.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::{Gguf, copy_of, f32s, fixture, folder, open_as, sample};
use tempfile::TempDir;
use weighbridge::ops::{
    self, DiffOptions, HashList, HashOptions, HashReport, InspectNames, InspectOptions,
    InspectedTensors, VerifyOptions, VerifyReport,
};
use weighbridge::{
    DType, ErrorKind, LoadOptions, Model, Policy, Progress, Strictness, WeightProvider, device::Cpu,
};

const GGUF: &str = "gguf/model/llama-f16.gguf";
const MLX: &str = "mlx/llama-q4g64-f16";
const SPLIT: &str = "gguf/split/mixtral-split-00001-of-00003.gguf";

fn path(name: &str) -> PathBuf {
    fixture(name).expect("a fixture of the repository")
}

fn open(name: &str) -> Model {
    Model::open(path(name)).unwrap_or_else(|error| panic!("{error}"))
}

/// A GGUF file of a sound tensor, one with NaN, one of an unknown type, and one whose name is not UTF-8.
fn odd() -> Gguf {
    Gguf::new()
        .tensor("sound", DType::F32, &[2, 2], f32s(&[1.0, 2.0, 3.0, 4.0]))
        .tensor("sick", DType::F32, &[3], f32s(&[1.0, f32::NAN, 2.0]))
        .tensor(b"\xffname", DType::F32, &[2], f32s(&[1.0, 2.0]))
        .coded("unknown", 4242, &[4], vec![0; 16])
}

/// A file in a temporary folder.
fn file_in(name: &str, bytes: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let folder = folder(&[(name, bytes)]);
    let path = folder.path().join(name);
    (folder, path)
}

fn odd_model() -> Model {
    open_as(odd().build(), Strictness::Default).expect("a model")
}

/// A callback that calls work off, and one that keeps the farthest that it was told.
fn stop(_: Progress) -> ControlFlow<()> {
    ControlFlow::Break(())
}

fn farthest(far: &AtomicU64) -> impl Fn(Progress) -> ControlFlow<()> + Sync {
    |progress| {
        assert!(progress.done <= progress.total, "{progress:?}");
        far.fetch_max(progress.done, Ordering::Relaxed);
        ControlFlow::Continue(())
    }
}

#[test]
fn inspect_by_stored_names() {
    let model = open(GGUF);
    for (names, asked) in [(InspectNames::Both, true), (InspectNames::Stored, false)] {
        let report = ops::inspect(&model, &InspectOptions::new().names(names)).expect("a report");
        assert_eq!((report.container, report.tensor_count), ("gguf", model.len()));
        assert_eq!(report.stored_bytes, model.stored_bytes());
        assert_eq!(report.names.map(|names| names.architecture), asked.then_some(Some("llama")));
        let InspectedTensors::Stored { tensors, .. } = report.tensors else {
            panic!("stored names")
        };
        assert_eq!(tensors.len(), model.len());
        for (found, tensor) in tensors.iter().zip(model.stored_tensors()) {
            assert_eq!((&*found.name, found.shape), (tensor.name(), tensor.shape()));
            assert_eq!(
                (&*found.dtype, found.bytes),
                (&*tensor.dtype_label(), tensor.stored_bytes())
            );
            assert_eq!(found.bits_per_weight, tensor.bits_per_weight());
            assert_eq!(found.canonical.is_some(), asked);
        }
        let q = tensors.iter().find(|tensor| tensor.name == "blk.0.attn_q.weight").expect("q");
        let canonical = asked.then(|| Some("layers.0.attention.q.weight".into()));
        assert_eq!(q.canonical, canonical);
        let parts: Vec<_> = q.parts.iter().map(|part| (part.part, part.name)).collect();
        assert_eq!(parts, [("weight", q.name.clone())]);
    }
}

#[test]
fn inspect_shows_what_cannot_be_read() {
    let model = odd_model();
    let report = ops::inspect(&model, &InspectOptions::new()).expect("a report");
    let names = report.names.expect("names");
    assert_eq!((names.architecture, names.error.is_none()), (None, true));
    let InspectedTensors::Stored { tensors, .. } = report.tensors else { panic!("stored names") };
    let [_, _, odd, unknown] = &*tensors else { panic!("four tensors") };
    assert_eq!((&*odd.name, odd.name_hex.as_deref()), ("\\xffname", Some("ff6e616d65")));
    assert_eq!(odd.raw_name.as_bytes(), b"\xffname");
    assert_eq!((&*unknown.dtype, unknown.bytes, unknown.parts.is_empty()), ("ggml:4242", 0, true));
    assert_eq!(unknown.bits_per_weight, None);
}

/// Scales of rows are those in the blocks; statistics count them all.
#[test]
fn scales_of_rows() {
    for (path, name, width) in [
        (sample("sample-Q8_0.gguf"), "blk.0.attn_q.weight", 32),
        (sample("mlx-4bit"), "model.layers.0.self_attn.q_proj.weight", 64),
    ] {
        let model = Model::open(path).expect("a model");
        let tensor = model.stored_tensor(name).expect("a tensor");
        let all = tensor.row_scales(0..256).expect("read").expect("scales");
        assert_eq!((all.width, all.values.len() as u64), (width, 256 * 256 / width));
        let some = tensor.row_scales(7..9).expect("read").expect("scales");
        let per_row = usize::try_from(256 / width).expect("a number");
        assert_eq!(some.values, all.values[7 * per_row..9 * per_row]);
        let report = ops::statistics(&[tensor], &ops::StatisticsOptions::new()).expect("a report");
        let scales =
            report.tensors[0].values.as_ref().and_then(|values| values.scales).expect("scales");
        assert_eq!(scales.count, all.values.len() as u64);
        let most = all.values.iter().map(|scale| f64::from(scale.abs())).fold(0.0, f64::max);
        assert_eq!(scales.max, Some(most));
    }
    let model = Model::open(sample("hf")).expect("a model");
    assert_eq!(
        model.stored_tensor("model.norm.weight").expect("a tensor").row_scales(0..1).expect("none"),
        None
    );
}

/// The values of a tensor that cannot be decoded are an entry with the reason; a callback cancels.
#[test]
fn statistics_of_odd_tensors() {
    let model = odd_model();
    let tensors: Vec<_> = model.stored_tensors().collect();
    for threads in [1, 3] {
        let options = ops::StatisticsOptions::new().threads(threads);
        let report = ops::statistics(&tensors, &options).expect("a report");
        let [sound, sick, odd, unknown] = &*report.tensors else { panic!("four tensors") };
        let of = |tensor: &ops::TensorStatistics| tensor.values.clone().expect("values");
        assert_eq!((of(sound).mean, of(sound).elements), (Some(2.5), 4));
        assert_eq!((of(sick).nan, of(sick).mean), (1, Some(1.5)));
        assert_eq!(odd.name_hex.as_deref(), Some("ff6e616d65"));
        assert!(unknown.values.is_none() && unknown.error.is_some());
    }
    let error =
        ops::statistics(&tensors, &ops::StatisticsOptions::new().progress(&stop)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    let error = ops::grid(&tensors[0], &ops::GridOptions::new(2, 2).progress(&stop)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    let far = AtomicU64::new(0);
    let watch = farthest(&far);
    ops::statistics(&tensors[..2], &ops::StatisticsOptions::new().progress(&watch))
        .expect("a report");
    assert_eq!(far.load(Ordering::Relaxed), 28);
}

#[test]
fn inspect_by_canonical_names() {
    let model = open(GGUF);
    let options = InspectOptions::new().names(InspectNames::Canonical);
    let report = ops::inspect(&model, &options).expect("a report");
    let InspectedTensors::Canonical { tensors, unknown, auxiliary, .. } = report.tensors else {
        panic!("canonical names")
    };
    let resolution = model.resolution().expect("names");
    assert_eq!((unknown.len(), auxiliary.len()), (0, resolution.auxiliary.len()));
    assert_eq!(tensors.len(), resolution.mapped.len());
    let find = |name: &str| tensors.iter().find(|tensor| tensor.name == name).expect("a tensor");
    let (q, v) = (find("layers.0.attention.q.weight"), find("layers.0.attention.v.weight"));
    assert_eq!((q.served, v.served), ("reordered", "stored"));
    assert_eq!(q.stored, ["blk.0.attn_q.weight"]);
    assert_eq!(v.shape.as_deref(), Some(model.tensor(v.name).expect("v").shape()));
}

#[test]
fn config_has_a_source_for_each_field() {
    let model = open(MLX);
    let report = ops::config(&model).expect("a report");
    let value = |name: &str| {
        let field = report.config.iter().find(|field| field.name == name).expect("a field");
        assert!(!field.source.is_empty(), "{name}");
        field.value.clone()
    };
    let config = model.config().expect("a config");
    assert_eq!(value("dim"), config.dim.value);
    assert_eq!(value("rope_layout"), "half_split");
    assert_eq!(report.quantization.quant_bits(), Some(4));
    let tokenizer = report.tokenizer.expect("no fault");
    assert_eq!(tokenizer.is_some(), model.tokenizer().expect("no fault").is_some());
    assert_eq!(report.other.len(), model.unused_config().len());
}

#[test]
fn config_tells_a_broken_part_beside_the_others() {
    let folder = copy_of(sample("hf"));
    std::fs::write(folder.path().join("generation_config.json"), "{\"top_k\": \"many\"}")
        .expect("a file");
    let model = Model::open(folder.path()).expect("a model");
    let report = ops::config(&model).expect("a report");
    assert!(report.tokenizer.is_ok_and(|tokenizer| tokenizer.is_some()));
    assert_eq!(
        report.generation.map(|_| ()).map_err(|error| error.kind()),
        Err(ErrorKind::Malformed)
    );
}

/// The hashes, as text, of a report.
fn hashes(report: &HashReport) -> Vec<String> {
    report.tensors.iter().map(|tensor| format!("{tensor:?}")).collect()
}

#[test]
fn hashes_do_not_depend_on_threads() {
    for name in [GGUF, MLX, SPLIT] {
        let model = open(name);
        let options = HashOptions::new().values(true).parts(true);
        let far = AtomicU64::new(0);
        let watch = farthest(&far);
        let alone = ops::hash(&model, &options.threads(1).progress(&watch)).expect("hashes");
        assert_eq!(far.load(Ordering::Relaxed), model.stored_bytes() * 2);
        for threads in [0, 2, 7] {
            let shared = ops::hash(&model, &options.threads(threads)).expect("hashes");
            assert_eq!(hashes(&shared), hashes(&alone), "{name}, {threads} threads");
        }
        let stopped = ops::hash(&model, &options.progress(&stop)).expect_err("it was stopped");
        assert_eq!(stopped.kind(), ErrorKind::Cancelled);
    }
}

#[test]
fn hashes_are_of_bytes_and_values() {
    let model = odd_model();
    let report = ops::hash(&model, &HashOptions::new().values(true)).expect("hashes");
    let [sound, _, odd, unknown] = &*report.tensors else { panic!("four tensors") };
    // sha256 of four little-endian floats: 1, 2, 3, 4.
    let expected = "ad73b9acd6e4a74b";
    assert_eq!(&sound.raw_sha256.as_deref().expect("a hash")[..16], expected);
    assert_eq!(sound.f32_sha256.as_ref(), Some(&sound.raw_sha256));
    assert_eq!(odd.raw_name, b"\xffname");
    assert_eq!((&unknown.raw_sha256, &unknown.f32_sha256), (&None, &Some(None)));
    let error = unknown.error.as_ref().expect("a reason");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

fn verified(path: &std::path::Path, options: &VerifyOptions<'_>) -> VerifyReport {
    let model = Model::open(path).expect("a model");
    ops::verify(&model, options).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn verify_finds_odd_values() {
    let (_folder, file) = file_in("odd.gguf", odd().build());
    let shallow = verified(&file, &VerifyOptions::new());
    assert_eq!((shallow.tensors, shallow.findings.is_none()), (4, true));
    for threads in [1, 3] {
        let far = AtomicU64::new(0);
        let watch = farthest(&far);
        let options = VerifyOptions::new().deep(true).threads(threads).progress(&watch);
        let report = verified(&file, &options);
        assert!(!report.is_fine());
        let findings = report.findings.expect("findings");
        let [nan] = &*findings else { panic!("one finding: {findings:?}") };
        assert_eq!((&*nan.name, nan.finding, nan.fault), ("sick", "nan", true));
        assert_eq!((nan.count, nan.of, nan.first), (1, 3, 1));
        assert!(
            report.notes.iter().any(|note| note.contains("ggml type 4242")),
            "{:?}",
            report.notes
        );
        assert_eq!(far.load(Ordering::Relaxed), 16 + 12 + 8);
    }
    let model = Model::open(&file).expect("a model");
    let stopped = ops::verify(&model, &VerifyOptions::new().deep(true).progress(&stop));
    assert_eq!(stopped.expect_err("it was stopped").kind(), ErrorKind::Cancelled);
}

#[test]
fn verify_reports_what_only_strict_rules_refuse() {
    let path = path("gguf/misc/be-qwen2-f16.gguf");
    let default = verified(&path, &VerifyOptions::new());
    let report = verified(&path, &VerifyOptions::new().strictness(Strictness::Strict));
    assert!(open_as(std::fs::read(&path).expect("a file"), Strictness::Strict).is_err());
    assert!(default.is_fine(), "{default:?}");
    assert_eq!(report.faults, ["the file is big-endian, which llama.cpp refuses (at byte 4)"]);
}

#[test]
fn verify_compares_with_a_list() {
    for name in [GGUF, MLX] {
        let (path, model) = (path(name), open(name));
        for values in [false, true] {
            let report = ops::hash(&model, &HashOptions::new().values(values).parts(true));
            let list = HashList::new(&report.expect("hashes"));
            let (_folder, file) = file_in("model.hashes", list.to_string());
            let mut list = HashList::open(&file).expect("a list");
            assert_eq!((list.lines.len(), list.values), (model.len(), values));
            let same = verified(&path, &VerifyOptions::new().against(&list));
            assert_eq!(same.differences.map(|all| all.len()), Some(0));
            // One changed, one that the model lacks, one that the list lacks.
            list.lines[0].weight = Some("0".repeat(64));
            list.lines[0].shape = "7".to_owned();
            list.lines[1].name = b"other\xff".to_vec();
            let report = verified(&path, &VerifyOptions::new().against(&list).threads(3));
            let found = report.differences.expect("differences");
            let told: Vec<_> = found.iter().map(|found| found.difference).collect();
            assert_eq!(told, ["changed", "missing", "extra"]);
            let changes: Vec<_> = found[0].changes.iter().map(|change| change.what).collect();
            assert_eq!(changes, ["shape", "bytes"]);
            assert_eq!(found[1].name_hex.as_deref(), Some("6f74686572ff"));
        }
    }
}

#[test]
fn lists_that_are_damaged_are_refused() {
    let model = open(GGUF);
    let report = ops::hash(&model, &HashOptions::new().parts(true)).expect("hashes");
    let text = HashList::new(&report).to_string();
    let last = text.lines().last().expect("a line").to_owned();
    for (damaged, fault) in [
        (text[..text.len() - 1].to_owned(), "without a line feed"),
        (format!("{text}{last}\n"), "is already in line"),
        (text.replacen('1', "2", 1), "the header is"),
        (text.replacen(" - ", " + ", 1), "64 lower-case hexadecimal digits or -"),
        (String::new(), "line 1: the header is \"\""),
    ] {
        let (_folder, file) = file_in("a.hashes", damaged);
        let error = HashList::open(&file).expect_err("no list");
        assert_eq!(error.kind(), ErrorKind::Malformed);
        assert!(error.to_string().contains(fault), "{error}");
    }
}

#[test]
fn diff_reports_what_differs() {
    let (a, b) = (open("sample/hf"), open("sample/sample-Q8_0.gguf"));
    let far = AtomicU64::new(0);
    let watch = farthest(&far);
    let diff = ops::diff(&a, &b, &DiffOptions::new().tolerance(1e-9).progress(&watch));
    let diff = diff.expect("a comparison");
    let report = diff.report();
    assert_eq!((report.a.architecture, report.b.container), (Some("llama"), "gguf"));
    assert_eq!(report.tolerance, 1e-9);
    assert!(!diff.is_equal() && !report.different.is_empty());
    assert!(report.compared > report.different.len());
    for tensor in &report.different {
        let values = tensor.values.as_ref().expect("values");
        let worst = values.worst.as_ref().expect("an element that differs");
        assert_eq!((worst.a - worst.b).abs(), values.max_difference, "{}", tensor.name);
        assert_eq!(worst.at.len(), tensor.a.shape.len());
    }
    assert!(far.load(Ordering::Relaxed) > 0);
    let same = ops::diff(&a, &a, &DiffOptions::new()).expect("a comparison");
    assert_eq!((same.is_equal(), same.report().identical), (true, same.tensors.len()));
    let stopped = ops::diff(&a, &b, &DiffOptions::new().progress(&stop));
    assert_eq!(stopped.expect_err("it was stopped").kind(), ErrorKind::Cancelled);
}

#[test]
fn load_reports_what_it_loaded() {
    let provider = WeightProvider::new(open(GGUF), Cpu).expect("names").policy(Policy::F16);
    let report = ops::load(&provider, |name| name.starts_with("layers.0."), &LoadOptions::new());
    let report = report.expect("a report");
    assert_eq!((report.container, report.kept_as), ("gguf", "F16"));
    assert_eq!(report.architecture, Some("llama"));
    assert_eq!(report.bytes, report.weights * 2);
    assert_eq!((report.tensors, report.buffers), (9, 9));
    assert_eq!(provider.cached_bytes(), report.bytes);
    assert_eq!(report.open_seconds, None);
}

/// Reports of every verb, as the program writes them but for `schema` and `path`.
#[cfg(feature = "serde")]
#[test]
fn reports_serialize() {
    let keys = |json: serde_json::Value| {
        let keys = json.as_object().expect("an object").keys().cloned();
        keys.collect::<Vec<_>>().join(" ")
    };
    let json = |report: serde_json::Result<serde_json::Value>| report.expect("JSON");
    let model = open(GGUF);
    let inspected = ops::inspect(&model, &InspectOptions::new()).expect("a report");
    assert_eq!(
        keys(json(serde_json::to_value(&inspected))),
        "container summary files file_bytes tensor_count weight_count stored_bytes architecture architecture_reason \
         by_structure rope_layout missing notes attachments metadata tensors"
    );
    let config = ops::config(&model).expect("a report");
    let config = json(serde_json::to_value(&config));
    assert_eq!(config["config"]["n_layers"]["value"], 1);
    assert_eq!(keys(config), "config quantization tokenizer generation other notes");
    let hashes = ops::hash(&odd_model(), &HashOptions::new()).expect("hashes");
    let hashes = json(serde_json::to_value(&hashes));
    assert_eq!(hashes["tensors"][2]["name_hex"], "ff6e616d65");
    assert!(hashes["tensors"][3]["reason"].is_string());
    assert_eq!(keys(hashes["tensors"][0].clone()), "name dtype shape raw_sha256");
    let (_folder, file) = file_in("odd.gguf", odd().build());
    let verified = json(serde_json::to_value(verified(&file, &VerifyOptions::new().deep(true))));
    assert_eq!(verified["findings"][0]["value"], "NaN");
    assert_eq!(keys(verified), "digests tensors faults notes findings");
    let diff = ops::diff(&model, &model, &DiffOptions::new()).expect("a comparison");
    assert_eq!(
        keys(json(serde_json::to_value(diff.report()))),
        "a b tolerance compared identical relative_rms matrices different only_a only_b config unread notes"
    );
    let provider = WeightProvider::new(model, Cpu).expect("names");
    let loaded = ops::load(&provider, |_| true, &LoadOptions::new()).expect("a report");
    assert!(keys(json(serde_json::to_value(&loaded))).starts_with("container architecture"));
}
