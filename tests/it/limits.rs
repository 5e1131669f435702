//! Every field of `Limits` has a file which trips it: what stands at the limit opens, what is one
//! beyond it is refused, and the advice names the field.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::support::{
    Gguf, Kv, Safetensors, WhisperGgml, f32s, folder, index, packed, put, sharded,
};
use tempfile::TempDir;
use weighbridge::{DType, ErrorKind, Limits, OpenOptions};

/// A model, and the least value of one limit that lets it through.
struct Case {
    field: &'static str,
    set: fn(&mut Limits, u64),
    least: u64,
    model: Model,
}

enum Model {
    Memory(Vec<u8>),
    Folder(TempDir, &'static str),
}

impl Model {
    fn open(&self, limits: Limits) -> weighbridge::Result<usize> {
        let options = OpenOptions::new().limits(limits);
        let opened = match self {
            Self::Memory(bytes) => options.open_memory("file", bytes.clone()),
            Self::Folder(folder, file) => {
                let path: PathBuf = folder.path().join(file);
                options.open(path)
            }
        };
        // Vocabularies are read when they are asked for.
        opened.and_then(|store| store.tokenizer().map(|_| store.len()))
    }
}

fn small(limit: u64) -> u32 {
    u32::try_from(limit).expect("a small limit")
}

fn shard(name: &str) -> Safetensors {
    Safetensors::new().tensor(name, "F32", &[1], f32s(&[1.0]))
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut case = |field, set, least, model| cases.push(Case { field, set, least, model });
    let key = |value: Kv| Model::Memory(Gguf::new().key("k", value).build());

    let file = Gguf::new().key("k", Kv::text(&"x".repeat(100_000)));
    let header = file.header().len() as u64;
    case("header_bytes", |l, n| l.header_bytes = n, header, Model::Memory(file.build()));
    let file = shard("a");
    let header = file.header().len() as u64;
    case("json_header_bytes", |l, n| l.json_header_bytes = n, header, Model::Memory(file.build()));

    case("string_bytes", |l, n| l.string_bytes = n, 9, key(Kv::text("nine char")));
    let texts = Kv::texts(&["a", "nine char", "b"]);
    case("string_bytes", |l, n| l.string_bytes = n, 9, key(texts));
    let nine = Gguf::new().tensor("nine char", DType::F32, &[1], f32s(&[1.0])).build();
    case("string_bytes", |l, n| l.string_bytes = n, 9, Model::Memory(nine));

    let array = Kv::Array(0, vec![Kv::U8(0); 7]);
    case("array_elements", |l, n| l.array_elements = n, 7, key(array.clone()));
    case("array_elements", |l, n| l.array_elements = n, 7, key(Kv::Array(9, vec![array.clone()])));
    case("array_depth", |l, n| l.array_depth = small(n), 1, key(array.clone()));
    let deep = Kv::Array(9, vec![Kv::Array(9, vec![array])]);
    case("array_depth", |l, n| l.array_depth = small(n), 3, key(deep));

    let keys = Gguf::new().key("a", Kv::U8(0)).key("b", Kv::U8(0));
    case("metadata_items", |l, n| l.metadata_items = n, 2, Model::Memory(keys.build()));
    let keys = shard("a").metadata("a", "").metadata("b", "").metadata("c", "");
    case("metadata_items", |l, n| l.metadata_items = n, 3, Model::Memory(keys.build()));

    let scalar = f32s(&[1.0]);
    let dims = Gguf::new().tensor("a", DType::F32, &[1, 1, 1], scalar.clone());
    case("gguf_dims", |l, n| l.gguf_dims = small(n), 3, Model::Memory(dims.build()));
    let dims = Gguf::new().tensor("a", DType::F32, &[1, 1, 1, 1, 1, 1], scalar.clone());
    case("gguf_dims", |l, n| l.gguf_dims = small(n), 6, Model::Memory(dims.build()));
    // Few dimensions are read another way than many.
    for rank in [2, 12] {
        let dims = Safetensors::new().tensor("a", "F32", &vec![1; rank], scalar.clone());
        case("dims", |l, n| l.dims = small(n), rank as u64, Model::Memory(dims.build()));
    }

    let aligned = Gguf::new().aligned(64).tensor("a", DType::F32, &[1], scalar.clone());
    case("alignment", |l, n| l.alignment = n, 64, Model::Memory(aligned.build()));

    let two = Gguf::new().tensor("a", DType::F32, &[1], scalar.clone());
    let two = two.tensor("b", DType::F32, &[1], scalar.clone());
    case("tensors", |l, n| l.tensors = n, 2, Model::Memory(two.build()));
    let three = shard("a").tensor("b", "U8", &[0], []).tensor("c", "U8", &[0], []);
    case("tensors", |l, n| l.tensors = n, 3, Model::Memory(three.build()));

    let whisper = |file: WhisperGgml| Model::Memory(file.build());
    case("string_bytes", |l, n| l.string_bytes = n, 30, whisper(WhisperGgml::small()));
    let pieces: [&[u8]; 2] = [b"a", b"nine char"];
    case(
        "string_bytes",
        |l, n| l.string_bytes = n,
        9,
        whisper(WhisperGgml::whisper(0, 0, &pieces)),
    );
    case("string_bytes", |l, n| l.string_bytes = n, 10, whisper(WhisperGgml::silero().filled(9)));
    case("array_elements", |l, n| l.array_elements = n, 3, whisper(WhisperGgml::small()));
    case("array_elements", |l, n| l.array_elements = n, 2, whisper(WhisperGgml::parakeet()));
    case("gguf_dims", |l, n| l.gguf_dims = small(n), 3, whisper(WhisperGgml::small()));
    case("metadata_items", |l, n| l.metadata_items = n, 14, whisper(WhisperGgml::small()));
    case("metadata_items", |l, n| l.metadata_items = n, 15, whisper(WhisperGgml::silero()));
    case("tensors", |l, n| l.tensors = n, 12, whisper(WhisperGgml::small()));
    case("tensors", |l, n| l.tensors = n, 2, whisper(WhisperGgml::parakeet()));

    let files = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
    let indexed = sharded(&[(files[0], shard("a")), (files[1], shard("b"))]);
    case("shards", |l, n| l.shards = small(n), 2, Model::Folder(indexed, ""));
    let split = |number: u16| {
        let keys = Gguf::new().key("split.no", Kv::U16(number)).key("split.count", Kv::U16(2));
        keys.tensor(format!("t{number}"), DType::F32, &[1], f32s(&[1.0])).build()
    };
    let set = folder(&[("m-00001-of-00002.gguf", split(0)), ("m-00002-of-00002.gguf", split(1))]);
    case("shards", |l, n| l.shards = small(n), 2, Model::Folder(set, "m-00002-of-00002.gguf"));

    let text = index(&[("a", "model.safetensors")]);
    let indexed = folder(&[("model.safetensors", shard("a").build())]);
    put(indexed.path(), "model.safetensors.index.json", &text);
    let len = text.len() as u64;
    case("index_bytes", |l, n| l.index_bytes = n, len, Model::Folder(indexed, ""));
    let documented = folder(&[("model.safetensors", shard("a").build())]);
    put(documented.path(), "config.json", "{\"a\":\"b\"}");
    case("document_bytes", |l, n| l.document_bytes = n, 9, Model::Folder(documented, ""));
    let documented = folder(&[("model.safetensors", shard("a").build())]);
    put(documented.path(), "config.json", "{\"a\":[1,2]}");
    case("document_values", |l, n| l.document_values = n, 17, Model::Folder(documented, ""));
    let vocabulary = |text: &str| {
        let folder = folder(&[("model.safetensors", shard("a").build())]);
        put(folder.path(), "tokenizer.json", text);
        Model::Folder(folder, "")
    };
    let text = r#"{"model":{"vocab":{"a":0,"b":1,"c":2}}}"#;
    let bytes = text.len() as u64;
    case("vocabulary_bytes", |l, n| l.vocabulary_bytes = n, bytes, vocabulary(text));
    case("vocabulary_items", |l, n| l.vocabulary_items = n, 3, vocabulary(text));
    let text = r#"{"model":{"merges":["a b","b c"]}}"#;
    case("vocabulary_items", |l, n| l.vocabulary_items = n, 2, vocabulary(text));
    let state = br#"{"shape":[8,8],"blocksize":64}"#;
    let described = Safetensors::new()
        .tensor("l.weight", "U8", &[32, 1], [0x21; 32])
        .tensor("l.weight.absmax", "F32", &[1], f32s(&[1.0]))
        .tensor("l.weight.quant_map", "F32", &[16], f32s(&[0.5; 16]))
        .tensor("l.weight.quant_state.bitsandbytes__nf4", "U8", &[state.len() as u64], state);
    let described = folder(&[("model.safetensors", described.build())]);
    put(described.path(), "config.json", "{\"quantization_config\":{}}");
    case("document_values", |l, n| l.document_values = n, 21, Model::Folder(described, ""));
    cases
}

fn limited(case: &Case, value: u64) -> Limits {
    let mut limits = Limits::default();
    (case.set)(&mut limits, value);
    limits
}

#[test]
fn one_below_is_refused() {
    for case in cases() {
        let Case { field, least, model, .. } = &case;
        let opened = model.open(limited(&case, *least));
        opened.unwrap_or_else(|error| panic!("{field} of {least}: {error}"));
        let error = model.open(limited(&case, least - 1)).expect_err(field);
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{field}: {error}");
        let advice = error.advice().unwrap_or_default();
        assert!(advice.ends_with(&format!("Limits::{field}")), "{field}: {error}: {advice}");
        let (found, allowed) = (least.to_string(), (least - 1).to_string());
        let message = error.to_string();
        assert!(message.contains(&format!("but the limit is {allowed}")), "{field}: {message}");
        // The header is refused where it is met, before its length is known.
        assert!(field == &"header_bytes" || message.contains(&found), "{field}: {message}");
    }
}

#[test]
fn every_field_has_a_case() {
    let debug = format!("{:?}", Limits::default());
    let names = debug.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let fields: BTreeSet<&str> =
        names.filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase())).collect();
    let covered: BTreeSet<&str> = cases().iter().map(|case| case.field).collect();
    assert_eq!(fields, covered);
}

/// A config that is read to tell the container is read within the caller's limits.
#[test]
fn containers_are_told_within_the_limits() {
    let folder =
        folder(&[("model.safetensors", packed("m.weight", "m.scales", "m.biases").build())]);
    let values = Limits::default().document_values;
    let padding = vec!["0"; usize::try_from(values).expect("a limit of values")].join(",");
    let settings = "\"quantization\":{\"bits\":4,\"group_size\":32}";
    put(folder.path(), "config.json", format!("{{{settings},\"padding\":[{padding}]}}"));
    let file = folder.path().join("model.safetensors");
    let container = |limits: Limits| match OpenOptions::new().limits(limits).open(&file) {
        Ok(store) => (store.container(), store.len()),
        Err(error) => {
            assert!(error.to_string().contains("config.json is not used: "), "{error}");
            ("none", 0)
        }
    };
    assert_eq!(container(Limits::default()), ("none", 0));
    let mut raised = Limits::default();
    raised.document_values *= 2;
    assert_eq!(container(raised), ("mlx", 1));

    put(folder.path(), "config.json", format!("{{{settings}}}"));
    assert_eq!(container(Limits::default()), ("mlx", 1));
    let mut lowered = Limits::default();
    lowered.document_values = 10;
    assert_eq!(container(lowered), ("none", 0));
}

/// However high the limit, a shape is given whole or not at all.
#[test]
fn more_dimensions_than_anybody_needs() {
    for rank in [255, 256, 300] {
        let mut shape = vec![1; rank];
        shape[0] = 2;
        let mut limits = Limits::default();
        (limits.gguf_dims, limits.dims) = (1000, 1000);
        let gguf = Gguf::new().tensor("a", DType::F32, &shape, f32s(&[1.0, 2.0])).build();
        let safetensors = Safetensors::new().tensor("a", "F32", &shape, f32s(&[1.0, 2.0])).build();
        for bytes in [gguf, safetensors] {
            let opened = OpenOptions::new().limits(limits.clone()).open_memory("file", bytes);
            if let Ok(store) = opened {
                let tensor = store.tensor("a").expect("the tensor");
                assert!(tensor.shape() == shape, "{rank} dimensions");
            }
        }
    }
}

/// A directory with too many files is refused before they are looked at.
#[test]
fn directories_are_listed_within_bounds() {
    let folder = folder(&[("model.safetensors", shard("a").build())]);
    for number in 0..4100 {
        put(folder.path(), &format!("{number}.txt"), "");
    }
    let mut limits = Limits::default();
    limits.shards = 1;
    let error = Model::Folder(folder, "").open(limits).expect_err("4,101 files");
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert!(error.advice().is_some_and(|advice| advice.ends_with("Limits::shards")));
}
