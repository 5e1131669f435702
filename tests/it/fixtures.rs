//! Files that other programs wrote, against digests that other programs computed: a few in
//! `tests/fixtures`, and the larger set outside of the repository.

use std::path::{Path, PathBuf};

use crate::support::{outside, serve, walk};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use weighbridge::metadata::Value;
use weighbridge::{Error, ErrorKind, Model, OpenOptions, Part, Strictness, Tensor};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

fn json(path: &Path) -> Json {
    let text = std::fs::read_to_string(path);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A model and what is expected of it.
struct Fixture {
    model: PathBuf,
    expected: Json,
}

/// Every model below `folder` that something is expected of.
fn fixtures(folder: &Path, found: &mut Vec<Fixture>) {
    let entries = std::fs::read_dir(folder).expect("a folder of fixtures");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            fixtures(&path, found);
        } else if name == "expected.json" {
            found.push(Fixture { model: folder.to_path_buf(), expected: json(&path) });
        } else if let Some(model) = name.strip_suffix(".expected.json") {
            found.push(Fixture { model: folder.join(model), expected: json(&path) });
        }
    }
}

fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn raw_digest(tensor: &Tensor) -> Result<String, Error> {
    let mut hash = Sha256::new();
    tensor.for_each_raw_piece(Part::Weight, |piece| {
        hash.update(piece);
        Ok::<_, Error>(())
    })?;
    let mapped = tensor.raw_bytes(Part::Weight)?;
    let digest = hex(hash.finalize());
    assert_eq!(digest, hex(Sha256::digest(mapped)), "pieces are the bytes");
    Ok(digest)
}

fn f32_digest(tensor: &Tensor) -> Result<String, Error> {
    let mut hash = Sha256::new();
    tensor.for_each_values(|values: &[f32]| {
        values.iter().for_each(|value| hash.update(value.to_le_bytes()));
        Ok::<_, Error>(())
    })?;
    Ok(hex(hash.finalize()))
}

/// Compares a model with what is expected. Gives the number of tensors whose values were compared,
/// and of those whose dtype has no codec yet.
fn compare(fixture: &Fixture) -> (usize, usize) {
    let Fixture { model, expected } = fixture;
    let at = model.display();
    let store = Model::open(model).unwrap_or_else(|error| panic!("{error}"));
    walk(&store);
    let tensors: Vec<(&str, &Json)> = match &expected["tensors"] {
        Json::Object(map) => map.iter().map(|(name, json)| (name.as_str(), json)).collect(),
        Json::Array(list) => {
            list.iter().map(|json| (json["name"].as_str().expect("a name"), json)).collect()
        }
        other => panic!("{at}: {other}"),
    };
    let shard = store.files().len() > 1 && model.is_file();
    assert!(store.len() >= tensors.len(), "{at}: {} tensors", store.len());
    let (mut compared, mut without) = (0, 0);
    for (name, expected) in tensors {
        let tensor = store.stored_tensor(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(serde_json::json!(tensor.shape()), expected["shape"], "{at}: {name}");
        if let Some(raw) = expected["raw_sha256"].as_str() {
            assert_eq!(raw_digest(&tensor).expect("bytes"), raw, "{at}: {name}");
        }
        let offset = expected["file_offset"].as_u64();
        let begins = tensor.segments().next().map(|segment| segment.range.start);
        assert!(offset.is_none() || offset == begins, "{at}: {name}: {offset:?}, not {begins:?}");
        let Some(values) = expected["f32_sha256"].as_str() else { continue };
        match f32_digest(&tensor) {
            Ok(digest) => {
                assert_eq!(digest, values, "{at}: {name}, {}", tensor.dtype_label());
                compared += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
                let codec = tensor.dtype().ok().and_then(|dtype| dtype.descriptor().codec);
                assert!(codec.is_none(), "{error}");
                without += 1;
            }
        }
    }
    for key in expected["kv"].as_array().into_iter().flatten() {
        // The later shards have keys of their own, which are not the model's.
        if !shard {
            compare_key(&store, key);
        }
    }
    serve(store);
    (compared, without)
}

fn compare_key(store: &Model, expected: &Json) {
    let key = expected["key"].as_str().expect("a key");
    let value = store.metadata().get(key).unwrap_or_else(|| panic!("{key} is not there"));
    let Some(array) = value.to_array() else {
        assert!(same(value, &expected["value"]), "{key}: {value:?}, not {expected}");
        return;
    };
    assert_eq!(Some(array.len()), expected["len"].as_u64(), "{key}");
    let first = expected["first3"].as_array().expect("the first elements");
    for (value, expected) in array.values().zip(first) {
        assert!(same(value, expected), "{key}: {value:?}, not {expected}");
    }
    let last = array.values().last();
    assert!(last.is_none_or(|value| same(value, &expected["last"])), "{key}: {last:?}");
    if let Some(sum) = expected["sum"].as_f64() {
        let number = |value: Value<'_>| value.to_f64().or(value.to_bool().map(f64::from));
        assert!(close(array.values().filter_map(number).sum(), sum), "{key}: not {sum}");
    }
}

fn same(value: Value<'_>, expected: &Json) -> bool {
    match (value, expected) {
        (Value::String(text), Json::String(expected)) => text.spelling() == expected.as_str(),
        (Value::Bool(value), Json::Bool(expected)) => value == *expected,
        (value, expected) => match (value.to_i128(), expected.as_u64(), expected.as_i64()) {
            (Some(value), Some(expected), _) => value == expected.into(),
            (Some(value), _, Some(expected)) => value == expected.into(),
            _ => value.to_f64().zip(expected.as_f64()).is_some_and(|(a, b)| close(a, b)),
        },
    }
}

/// Equal but for the last digit, which the JSON library may round another way.
fn close(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= a.abs() * 1e-15
}

fn compare_all(folder: &Path) -> (usize, usize) {
    let mut found = Vec::new();
    fixtures(folder, &mut found);
    assert!(!found.is_empty(), "{} holds no fixtures", folder.display());
    let counts = found.iter().map(compare);
    counts.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1))
}

#[test]
fn files_of_the_repository() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for kind in ["gguf", "hf", "hfq", "mlx"] {
        let (compared, without) = compare_all(&folder.join(kind));
        println!("{kind}: values of {compared} tensors compared; {without} without a codec");
        assert!(compared > 0, "{kind}");
    }
}

#[test]
fn files_outside_of_the_repository() {
    let Some(folder) = outside("") else { return };
    for kind in ["gguf", "hf", "hfq", "mlx", "real"] {
        let (compared, without) = compare_all(&folder.join(kind));
        println!("{kind}: values of {compared} tensors compared; {without} without a codec");
    }
}

/// The file of silero's voice detector that whisper.cpp ships. Digests and values by Python's
/// `struct` and `hashlib`.
#[test]
fn a_file_of_whisper() {
    let Some(folder) = outside("") else { return };
    let path = folder.join("real/for-tests-silero-v6.2.0-ggml.bin");
    let store = OpenOptions::new().strictness(Strictness::Strict).open(path).expect("a model");
    walk(&store);
    assert_eq!((store.container(), store.len()), ("whisper-ggml", 15));
    assert_eq!(store.notes(), []);
    let metadata = store.metadata();
    assert_eq!(metadata.str("general.architecture"), Some("silero-vad"));
    assert_eq!(metadata.str("silero-vad.model_type"), Some("silero-16k"));
    let number = |key: &str| metadata.u64(&format!("silero-vad.{key}"));
    assert_eq!(number("n_encoder_layers"), Some(4));
    assert_eq!(number("encoder.0.in_channels"), Some(129));
    assert_eq!(number("encoder.3.out_channels"), Some(128));
    assert_eq!((number("n_window"), number("final_conv_out")), (Some(512), Some(1)));
    assert_eq!(store.resolution().expect("names").architecture.map(|row| row.name), None);
    for (name, shape, digest) in [
        (
            "_model.encoder.0.reparam_conv.weight",
            &[128, 129, 3][..],
            "3e1661ecf18ae6397b2430b5f0e982c51165634b5b064d1688d06e2e555fdde8",
        ),
        (
            "_model.decoder.rnn.weight_hh",
            &[512, 128][..],
            "0abcd16bb107ed57e44a57d812e6b55852f1d36cb9017e6d1d7845d4e1d66ab2",
        ),
        (
            "_model.decoder.decoder.2.weight",
            &[128][..],
            "6aa833acf5a54151c9a735e7fbea77d1f33da71c12ad674d071bc8c19a5a750c",
        ),
        (
            "_model.decoder.decoder.2.bias",
            &[][..],
            "544d9b7ad69153374a902584a96f6a8b65af300157b9502bdfb5432bfc2f073a",
        ),
        (
            "_model.stft.forward_basis_buffer",
            &[258, 1, 256][..],
            "cd130dce55c5aaf058ebcea9b8282bfba186d9d42f9d6eff9d065f0836b49fed",
        ),
    ] {
        let tensor = store.stored_tensor(name).expect("a tensor");
        assert_eq!(tensor.shape(), shape, "{name}");
        assert_eq!(raw_digest(&tensor).expect("bytes"), digest, "{name}");
    }
    let bias = store.stored_tensor("_model.decoder.decoder.2.bias").expect("a scalar");
    assert_eq!(*bias.dequantize().expect("a value"), [-0.6245977]);
}

/// Checks that a file of the hostile set is met as expected.
fn meet(path: &Path, expect: &str) -> Result<(), String> {
    use ErrorKind::{Io, LimitExceeded, Malformed, UnknownContainer, Unsupported};
    let opened = OpenOptions::new().open(path);
    let rejected = opened.as_ref().err().map(|error| {
        matches!(error.kind(), Io | Malformed | UnknownContainer | Unsupported | LimitExceeded)
    });
    let readable = opened.as_ref().is_ok_and(|store| {
        walk(store);
        store.stored_tensors().all(|tensor| tensor.bytes(Part::Weight).is_ok())
    });
    let config = opened.as_ref().map(|store| store.config().map(drop));
    let met = match expect {
        "accept" => readable,
        "reject-open" | "reject-as-model" => rejected == Some(true),
        "reject-open-or-access" => rejected == Some(true) || (rejected.is_none() && !readable),
        "accept-config-error" => matches!(config, Ok(Err(_))),
        "policy" => rejected != Some(false),
        other => return Err(format!("what is {other}?")),
    };
    if !met {
        return Err(format!("{}: {expect}, but {opened:?}", path.display()));
    }
    opened.into_iter().for_each(serve);
    Ok(())
}

fn meet_all(folder: &Path) {
    let cases = json(&folder.join("hostile/cases.json"));
    let mut faults = Vec::new();
    let mut count = 0;
    for case in cases.as_array().expect("a list of cases") {
        let text = |key: &str| case[key].as_str().unwrap_or_default();
        if matches!(text("kind"), "gguf" | "st" | "mlx") {
            faults.extend(meet(&folder.join(text("file")), text("expect")).err());
            count += 1;
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(count > 100, "{count} cases");
}

#[test]
fn hostile_files() {
    meet_all(&data());
}

#[test]
fn all_hostile_files() {
    if let Some(folder) = outside("") {
        meet_all(&folder);
    }
}

#[test]
fn converted_models_have_the_canonical_tensors_of_their_source() {
    let Some(folder) = outside("") else { return };
    let mut checked = Vec::new();
    for entry in std::fs::read_dir(folder.join("gguf/model")).expect("a folder of models") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(name) = name.strip_suffix(".relation.json") else { continue };
        let relation = json(&path);
        let open = |path: PathBuf| Model::open(path).expect("a model");
        let file = |key: &str| relation[key].as_str().expect("a name");
        let gguf = open(folder.join("gguf/model").join(file("gguf")));
        let hf = open(folder.join("hf").join(file("hf")));
        if [&gguf, &hf]
            .iter()
            .any(|model| model.resolution().expect("resolved").architecture.is_none())
        {
            println!("skipped: the tables do not have {name}");
            continue;
        }
        let canonical = |model: &Model, stored: &str| -> Vec<String> {
            let mapped = model.resolution().expect("resolved").mapped.iter();
            let of = mapped.filter(|mapping| mapping.stored.iter().any(|name| name == stored));
            of.map(|mapping| mapping.canonical.clone()).collect()
        };
        for (stored, source) in relation["tensors"].as_object().expect("pairs of names") {
            let source = source[0].as_str().expect("a name").replace('*', "0");
            let names = canonical(&gguf, stored);
            assert!(!names.is_empty(), "{name}: {stored} is not known");
            assert_eq!(names, canonical(&hf, &source), "{name}: {stored} and {source}");
            for tensor in &names {
                let view = |model: &Model| {
                    let view = model.tensor(tensor).expect("the tensor");
                    (view.shape().to_vec(), view.dequantize().expect("values").to_vec())
                };
                let ((shape, found), (expected_shape, expected)) = (view(&gguf), view(&hf));
                assert_eq!(shape, expected_shape, "{name}: {tensor}");
                // What the converter rounded, it rounded to f16.
                let near = |(a, b): (&f32, &f32)| (a - b).abs() <= b.abs() / 1024.0 + 1e-7;
                assert!(found.iter().zip(&expected).all(near), "{name}: {tensor} differs");
            }
        }
        checked.push(name.to_owned());
    }
    checked.sort();
    assert!(checked.iter().any(|name| name.starts_with("whisper")), "{checked:?}");
    assert!(checked.iter().any(|name| name.starts_with("bert")), "{checked:?}");
}

#[test]
fn blocks_of_deepseek_go_by_canonical_names() {
    let Some(folder) = outside("") else { return };
    let model = Model::open(folder.join("hf/deepseek-fp8-block128")).expect("a model");
    assert_eq!(model.resolution().expect("resolved").unknown, [""; 0]);
    let mut names: Vec<&str> = model.names().expect("resolved").collect();
    names.sort_unstable();
    let expected =
        ["layers.0.attention.q_a.weight", "layers.0.ffn.down.weight", "output_norm.weight"];
    assert_eq!(names, expected);
    let view = model.tensor("layers.0.ffn.down.weight").expect("the tensor");
    let stored = model.stored_tensor("model.layers.0.mlp.down_proj.weight").expect("the tensor");
    assert_eq!(view.dequantize().expect("values")[..], stored.dequantize().expect("values")[..]);
}
