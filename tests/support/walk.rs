//! The bodies of the fuzz targets: open any bytes as a format, and read everything.
//!
//! No input may cause a panic, and repeated reads must agree.

use std::collections::BTreeSet;
use std::path::Path;

use weighbridge::arch::GenerationConfig;
use weighbridge::container::detect;
use weighbridge::container::{GGUF, MLX, OLLAMA, SAFETENSORS};
use weighbridge::device::Cpu;
use weighbridge::metadata::{Array, Value};
use weighbridge::model::DecodeOptions;
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::quant::Inputs;
use weighbridge::recipe::FileType;
use weighbridge::recipe::llama_cpp::LlamaOptions;
use weighbridge::{
    Error, Model, ModelConfig, OpenOptions, Part, Strictness, Tensor, Tokenizer, WeightProvider,
    WriteOptions, WritePlan,
};

use super::{POLICIES, Safetensors, f32s, open_as, own_folder, put};

/// Tensors and values beyond these limits are skipped, so that each input takes little time.
const TENSORS: usize = 64;
const ELEMENTS: u64 = 1 << 14;
const BYTES: u64 = 1 << 20;
/// Larger models are planned, but not written.
const WRITTEN: u64 = 1 << 16;

/// Opens any bytes as GGUF.
pub(crate) fn gguf_bytes(bytes: &[u8]) {
    under_each_policy(&with_magic(b"GGUF", bytes));
}

/// Opens any bytes as a file of whisper.cpp.
pub(crate) fn whisper_ggml_bytes(bytes: &[u8]) {
    under_each_policy(&with_magic(b"lmgg", bytes));
}

/// Without this, most inputs would fail at the magic and never reach the parser.
fn with_magic(magic: &[u8], bytes: &[u8]) -> Vec<u8> {
    [magic, bytes.strip_prefix(magic).unwrap_or(bytes)].concat()
}

/// Opens any bytes as safetensors.
pub(crate) fn safetensors_bytes(bytes: &[u8]) {
    under_each_policy(bytes);
    // Once more with a length that fits, which random input rarely has.
    if let Some(text) = bytes.get(8..) {
        let brace = text.iter().rposition(|&byte| byte == b'}').map_or(text.len(), |at| at + 1);
        let (header, data) = text.split_at(brace);
        under_each_policy(&Safetensors::text(header, data).build());
    }
}

/// Checks that wider policies accept what a narrower one accepts, with the same tensors.
fn under_each_policy(bytes: &[u8]) {
    let mut narrower: Option<usize> = None;
    for policy in POLICIES {
        match open_as(bytes.to_vec(), policy) {
            Ok(store) => {
                walk(&store);
                if let Some(tensors) = narrower {
                    assert_eq!(tensors, store.len());
                }
                narrower = Some(store.len());
                serve(store);
            }
            Err(error) => {
                look_at(&error);
                assert_eq!(narrower, None, "a wider policy refuses: {error}");
            }
        }
    }
}

/// Detects the container of bytes, on disk and in memory, under a file name that the first byte
/// selects.
pub(crate) fn any_file(bytes: &[u8]) {
    const NAMES: [&str; 8] = [
        "file",
        "model.safetensors",
        "model.gguf",
        "model.gguf.incomplete",
        "config.json",
        "model.safetensors.index.json",
        "model-00002-of-00003.gguf",
        "model.bin",
    ];
    let Some((&first, bytes)) = bytes.split_first() else { return };
    let name = NAMES[usize::from(first) % NAMES.len()];
    let path = own_folder("any", |_| {}).join(name);
    std::fs::write(&path, bytes).expect("a file in a temporary folder");
    let found = detect(&path);
    let in_memory = OpenOptions::new().open_memory(&path, bytes.to_vec());
    let on_disk = OpenOptions::new().read().open(&path);
    std::fs::remove_file(&path).expect("the file that was just written");
    for result in [&in_memory, &on_disk] {
        match (&found, result) {
            (Ok(container), Ok(store)) => assert_eq!(container.name, store.container()),
            (Ok(_), Err(error)) => look_at(error),
            (Err(found), Err(error)) => {
                look_at(error);
                assert_eq!(found.kind(), error.kind());
            }
            (Err(found), Ok(_)) => panic!("opened what is not recognized: {found}"),
        }
    }
    match (&in_memory, &on_disk) {
        (Ok(memory), Ok(disk)) => assert_eq!(memory.len(), disk.len()),
        (Err(memory), Err(disk)) => assert_eq!(memory.kind(), disk.kind()),
        _ => panic!("{in_memory:?} in memory, but {on_disk:?} on disk"),
    }
}

/// Opens a folder of two shards whose index is the bytes up to the first 0xFF, and whose
/// `config.json`, if there is any, is the rest. (0xFF does not occur in UTF-8.)
pub(crate) fn index_bytes(bytes: &[u8]) {
    let folder = &own_folder("index", |folder| {
        let shard = |name: &str| Safetensors::new().tensor(name, "F32", &[2], f32s(&[1.0, 2.0]));
        let [first, second] = ["model.embed_tokens.weight", "model.norm.weight"].map(shard);
        put(folder, "model-00001-of-00002.safetensors", first.build());
        put(folder, "model-00002-of-00002.safetensors", second.build());
    });
    let mut parts = bytes.splitn(2, |&byte| byte == 0xff);
    let names = ["model.safetensors.index.json", "config.json"];
    for name in names {
        match parts.next() {
            Some(part) => put(folder, name, part),
            None => drop(std::fs::remove_file(folder.join(name))),
        }
    }
    for all in [false, true] {
        match OpenOptions::new().all_files(all).open(folder) {
            Ok(store) => {
                walk(&store);
                assert!(store.files().all(|file| file.starts_with(folder)));
                serve(store);
            }
            Err(error) => look_at(&error),
        }
    }
}

/// Opens a folder with a tokenizer in one of the files that may contain one: the first byte selects
/// the file. What follows the first 0xFF is its `tokenizer_config.json`. SentencePiece's file may
/// contain that byte itself, and has no second file.
pub(crate) fn tokenizer_bytes(bytes: &[u8]) {
    const NAMES: [&str; 4] = ["tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt"];
    const CONFIGS: [&str; 3] = [
        r#"{"model_type": "llama", "hidden_size": 4, "num_hidden_layers": 0, "num_attention_heads": 1,
            "intermediate_size": 4, "rms_norm_eps": 1e-5, "max_position_embeddings": 8, "vocab_size": 8}"#,
        r#"{"model_type": "gemma4_text", "hidden_size": 4, "num_hidden_layers": 0,
            "num_attention_heads": 1, "vocab_size": 8}"#,
        r#"{"model_type": "xlm-roberta", "hidden_size": 4, "num_hidden_layers": 0,
            "num_attention_heads": 1, "intermediate_size": 4, "layer_norm_eps": 1e-5,
            "max_position_embeddings": 4, "pad_token_id": 1, "type_vocab_size": 1, "vocab_size": 8}"#,
    ];
    let Some((&first, bytes)) = bytes.split_first() else { return };
    let folder = &own_folder("tokenizer", |folder| {
        let file = Safetensors::new().tensor("model.embed_tokens.weight", "F32", &[8, 4], [0; 128]);
        put(folder, "model.safetensors", file.build());
    });
    for name in NAMES.into_iter().chain(["tokenizer_config.json"]) {
        drop(std::fs::remove_file(folder.join(name)));
    }
    let name = NAMES[usize::from(first) % NAMES.len()];
    let config = CONFIGS[usize::from(first) / NAMES.len() % CONFIGS.len()];
    let (file, more) = if name == NAMES[1] { (bytes, None) } else { split(bytes) };
    put(folder, name, file);
    put(folder, "config.json", config);
    if let Some(more) = more {
        put(folder, "tokenizer_config.json", more);
    }
    open_folder(folder);
}

/// Opens a folder of quantized weights, as MLX and others write it. The bytes up to the first 0xFF
/// are its `config.json`. What follows is the header of its `model.safetensors`, up to another 0xFF
/// and data; or its `weights.npz`, if it starts like a zip. Without anything after the config, the
/// folder has a packed weight with its scales and biases.
pub(crate) fn mlx_bytes(bytes: &[u8]) {
    let folder = &own_folder("mlx", |_| {});
    let (config, weights) = split(bytes);
    put(folder, "config.json", config);
    for name in ["model.safetensors", "weights.npz"] {
        drop(std::fs::remove_file(folder.join(name)));
    }
    let safetensors = match weights {
        Some(zip) if zip.starts_with(b"PK") => None,
        Some(weights) => {
            let (header, data) = split(weights);
            let mut data = data.unwrap_or_default().to_vec();
            data.resize(data.len().max(4096), 0x11);
            Some(Safetensors::text(header, data))
        }
        None => Some(packed("m.weight", "m.scales", "m.biases")),
    };
    match safetensors {
        Some(file) => put(folder, "model.safetensors", file.build()),
        None => put(folder, "weights.npz", weights.unwrap_or_default()),
    }
    open_folder(folder);
}

/// A weight of two rows of 64 elements with 4 bits, in groups of 32.
pub(crate) fn packed(weight: &str, scales: &str, biases: &str) -> Safetensors {
    Safetensors::new()
        .tensor(weight, "U32", &[2, 8], [0x21; 64])
        .tensor(scales, "F16", &[2, 2], [0, 0x3c].repeat(4))
        .tensor(biases, "F16", &[2, 2], [0; 8])
}

/// The digests in the manifests that [`ollama_bytes`] reads; the first two name existing blobs.
pub(crate) const DIGESTS: [&str; 3] = [
    "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
    "sha256:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc",
];

/// Opens a model of an Ollama store. The bytes up to the first 0xFF are its manifest; what follows
/// is the header of its first blob. The second blob is a config.
pub(crate) fn ollama_bytes(bytes: &[u8]) {
    let folder = &own_folder("ollama", |_| {});
    let (manifest, header) = split(bytes);
    let blob = match header {
        Some(header) => Safetensors::text(header, vec![0x11; 128]).build(),
        None => packed("m.weight", "m.weight.scale", "m.weight.bias").build(),
    };
    // The sizes in manifests are replaced by those of the blobs, which random input rarely has.
    let manifest = String::from_utf8_lossy(manifest).replace("SIZE", &blob.len().to_string());
    const MANIFEST: &str = "manifests/registry.ollama.ai/library/m/latest";
    put(folder, MANIFEST, manifest);
    put(folder, &format!("blobs/{}", DIGESTS[0].replace(':', "-")), blob);
    put(folder, &format!("blobs/{}", DIGESTS[1].replace(':', "-")), "{\"hidden_size\":64}");
    open_folder(&folder.join(MANIFEST));
}

/// The bytes before the first 0xFF, and those after it, if there is one.
fn split(bytes: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut parts = bytes.splitn(2, |&byte| byte == 0xff);
    (parts.next().unwrap_or_default(), parts.next())
}

fn open_folder(path: &Path) {
    for policy in [Strictness::Default, Strictness::Lenient] {
        match OpenOptions::new().strictness(policy).open(path) {
            Ok(store) => {
                walk(&store);
                serve(store);
            }
            Err(error) => look_at(&error),
        }
    }
}

/// Checks that a message is one line of limited length, and ends without a full stop.
pub(crate) fn look_at(error: &Error) {
    let message = error.to_string();
    assert!(!message.is_empty());
    for text in [message.as_str(), error.advice().unwrap_or_default()] {
        assert!(!text.contains(|c: char| c.is_control()), "{text:?}");
        assert!(!text.ends_with('.'), "{text:?}");
        assert!(text.len() < 16 << 10, "{} bytes: {text:?}", text.len());
    }
}

/// Reads everything in a model.
pub(crate) fn walk(store: &Model) {
    assert_eq!(store.stored_tensors().count(), store.len());
    store.stored_tensors().take(TENSORS).for_each(|tensor| walk_tensor(store, &tensor));
    walk_metadata(store);
    for note in store.notes() {
        assert!(!note.text.contains(|c: char| c.is_control()), "{:?}", note.text);
    }
    let unknown = store.stored_tensor("no such tensor").map(drop);
    look_at(&unknown.expect_err("nobody calls a tensor so"));
    let quantization = store.quantization();
    assert!(quantization.quant_bits().is_none_or(|bits| (1..16).contains(&bits)));
    for (_, value) in store.unused_config() {
        assert!(!value.to_string().contains(|c: char| c.is_control()));
    }
    match store.tokenizer() {
        Ok(tokenizer) => {
            let tokenizer = tokenizer.as_ref();
            let tokens = tokenizer.map_or(0, |tokenizer| tokenizer.tokens().count() as u64);
            assert_eq!(tokens, tokenizer.map_or(0, Tokenizer::len));
            tokenizer.map(|tokenizer| tokenizer.merges().count());
        }
        Err(error) => look_at(&error),
    }
    if let Err(error) = store.generation_config() {
        look_at(&error);
    }
    match store.resolution() {
        Ok(resolution) => {
            let mapped = resolution.mapped.iter().flat_map(|mapping| &mapping.stored);
            let auxiliary = resolution.auxiliary.iter().map(|auxiliary| &auxiliary.stored);
            let named: BTreeSet<&String> =
                mapped.clone().chain(auxiliary).chain(&resolution.unknown).collect();
            assert_eq!(named.len(), store.len(), "each tensor is accounted for");
            for stored in mapped.take(TENSORS) {
                store.stored_tensor(stored).expect("a tensor under its own name");
            }
            match store.config() {
                Ok(config) => assert!(!config.fields().is_empty()),
                Err(error) => look_at(&error),
            }
        }
        Err(error) => look_at(&error),
    }
}

/// Loads every tensor with a provider, by itself and fused with itself, and compares the result
/// with the tensor.
pub(crate) fn serve(store: Model) {
    let provider = match WeightProvider::new(store, Cpu) {
        Ok(provider) => provider,
        Err(error) => return look_at(&error),
    };
    rewrite(provider.model());
    let names: Vec<&str> = provider.model().names().expect("resolved").take(TENSORS).collect();
    for &name in &names {
        let view = match provider.tensor(name) {
            Ok(view) => view,
            Err(error) => {
                look_at(&error);
                continue;
            }
        };
        if view.elements() > ELEMENTS || view.sources().any(|tensor| tensor.stored_bytes() > BYTES)
        {
            continue;
        }
        for part in [Part::Weight, Part::Scale] {
            match (view.bytes(part), view.copy_bytes(part)) {
                (Ok(bytes), Ok(copied)) => assert_eq!(*bytes, *copied, "{name}"),
                (Err(error), Err(other)) => assert_eq!(error.kind(), other.kind(), "{name}"),
                (bytes, copied) => panic!("{name}: {:?}, {:?}", bytes.err(), copied.err()),
            }
        }
        let values = view.dequantize();
        match (provider.load(name), view.for_each_piece(Part::Weight, |_| Ok::<_, Error>(()))) {
            (Ok(loaded), pieces) => {
                assert_eq!(loaded.shape, view.shape());
                assert!(loaded.computed.is_some() || pieces.is_ok(), "{name}");
            }
            (Err(error), _) => look_at(&error),
        }
        match provider.fuse(&[name, name]) {
            Ok(fused) => {
                let split = fused.split(&Cpu, name).expect("it was fused");
                let alone = provider.load(name).expect("it was loaded");
                assert_eq!(*split.buffer, *alone.buffer, "{name}");
            }
            Err(error) => look_at(&error),
        }
        match (values, view.shard(weighbridge::model::Axis::Rows, 0, 1)) {
            (Ok(values), Ok(all)) => {
                let same = all.dequantize().expect("the same values");
                let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&values), bits(&same), "{name}");
            }
            (Err(error), _) | (_, Err(error)) => look_at(&error),
        }
    }
}

/// Plans writing the model in every format, and writes it if it is small. The result must open.
fn rewrite(model: &Model) {
    let folder = &own_folder("written", |_| {});
    let write = |plan: weighbridge::Result<WritePlan>, name: &str, opens: bool| {
        let plan = match plan {
            Ok(plan) => plan,
            Err(error) => return look_at(&error),
        };
        for note in &plan.notes {
            assert!(!note.contains(|c: char| c.is_control()), "{note:?}");
        }
        if plan.bytes() > WRITTEN || !opens {
            return;
        }
        let path = folder.join(name);
        let options = WriteOptions::new().overwrite(true).allow_incomplete(true).threads(1);
        match plan.run(&path, &options) {
            Ok(written) => {
                assert_eq!(written.bytes, plan.bytes());
                // Arrays may have the names of packed ones.
                let store = OpenOptions::new().strictness(Strictness::Lenient).open(&path);
                let store = store.unwrap_or_else(|error| panic!("what was written: {error}"));
                assert_eq!(store.len(), plan.tensors.len(), "{name}");
            }
            Err(error) => look_at(&error),
        }
    };
    for (format, name, opens) in [
        (&GGUF, "model.gguf", true),
        (&SAFETENSORS, "hf", true),
        (&MLX, "mlx", true),
        // Only in a store.
        (&OLLAMA, "ollama", false),
    ] {
        write(ops::convert(model, &ConvertOptions::new(format)), name, opens);
    }
    let path = folder.join("quantized.gguf");
    let plan = ops::quantize(model, &LlamaOptions::new(FileType::Q8_0), None, &path);
    write(plan, "quantized.gguf", true);
}

fn walk_tensor(store: &Model, tensor: &Tensor) {
    let found = store.stored_tensor(tensor.name()).expect("a tensor under its own name");
    if tensor.raw_name().to_str().is_some() {
        assert_eq!(found.raw_name(), tensor.raw_name());
    }
    let segments: Vec<_> = tensor.segments().collect();
    assert_eq!(segments.is_empty(), tensor.dtype().is_err());
    let mut total = 0u64;
    for segment in &segments {
        assert!(segment.range.start <= segment.range.end);
        let len = segment.range.end - segment.range.start;
        total = total.saturating_add(len);
        if len > BYTES {
            continue;
        }
        let bytes = tensor.raw_bytes(segment.part).expect("bytes that lie in the file");
        assert_eq!(bytes.len() as u64, len);
        let mut pieces = Vec::new();
        let gathered = tensor.for_each_raw_piece(segment.part, |piece| {
            pieces.extend_from_slice(piece);
            Ok::<_, Error>(())
        });
        gathered.expect("bytes that lie in the file");
        assert_eq!(*bytes, *pieces);
        if let Ok(native) = tensor.bytes(segment.part) {
            assert_eq!(native.len(), bytes.len());
        }
    }
    assert_eq!(total, tensor.stored_bytes());
    if segments.is_empty() {
        look_at(&tensor.bytes(Part::Weight).expect_err("an unknown dtype has no bytes"));
    }
    if tensor.elements() <= ELEMENTS {
        walk_values(tensor);
    }
}

fn walk_values(tensor: &Tensor) {
    let values = match tensor.dequantize() {
        Ok(values) => values,
        Err(error) => return look_at(&error),
    };
    tensor.check_decodable().expect("what was just decoded");
    assert_eq!(values.len() as u64, tensor.elements());
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let mut streamed = Vec::new();
    let done = tensor.for_each_values(|values: &[f32]| {
        streamed.extend_from_slice(values);
        Ok::<_, Error>(())
    });
    done.expect("what was just decoded");
    assert_eq!(bits(&streamed), bits(&values));
    for finding in tensor.check_values().expect("what was just decoded") {
        assert!(finding.count > 0 && finding.count <= finding.of, "{finding:?}");
        assert!(finding.first < finding.of, "{finding:?}");
        let segment = tensor.segments().find(|segment| segment.part == finding.part);
        let range = segment.expect("the part that it was found in").range;
        assert!(finding.offset.is_none_or(|offset| range.contains(&offset)), "{finding:?}");
    }
    let columns = weighbridge::shape::columns(tensor.shape());
    let rows = tensor.elements().checked_div(columns).unwrap_or(0);
    let mut row = vec![0.0f32; usize::try_from(columns).unwrap_or(0).min(values.len())];
    for number in [0, rows.saturating_sub(1)] {
        match tensor.dequantize_rows(
            number..number.saturating_add(1),
            &mut row,
            &DecodeOptions::new(),
        ) {
            Ok(_) => {
                let start = usize::try_from(number * columns).expect("a small tensor");
                assert_eq!(bits(&row), bits(&values[start..start + row.len()]));
            }
            Err(error) => look_at(&error),
        }
    }
    if let (true, Ok(mut reader)) = (rows > 0, tensor.row_reader()) {
        let (inputs, mut out) = (vec![1.0; row.len()], [0.0]);
        if let Err(error) = reader.multiply_rows(0..1, &Inputs::new(&inputs), &mut out) {
            look_at(&error);
        }
    }
    let beyond =
        tensor.dequantize_rows(rows..rows.saturating_add(1), &mut row, &DecodeOptions::new());
    look_at(&beyond.expect_err("there is no such row"));
}

fn walk_metadata(store: &Model) {
    let metadata = store.metadata();
    assert_eq!(metadata.iter().count(), metadata.len(), "a value that cannot be read back");
    for (key, value) in metadata.iter().take(1024) {
        walk_value(value);
        if let Some(key) = key.to_str() {
            let same = metadata.get(key).expect("a value under its own key");
            assert_eq!(same.value_type(), value.value_type());
        }
    }
}

fn walk_value(value: Value<'_>) {
    let _ = (value.to_f64(), value.to_u64(), value.to_bool(), value.to_text());
    if let Some(array) = value.to_array() {
        walk_array(array);
    }
}

fn walk_array(array: Array<'_>) {
    let mut count = 0;
    for element in array.values() {
        assert_eq!(element.value_type(), array.element_type());
        walk_value(element);
        count += 1;
    }
    assert_eq!(count, array.len(), "an element that cannot be read back");
    let counts = [
        array.texts().map(Iterator::count),
        array.integers().map(Iterator::count),
        array.floats().map(Iterator::count),
        array.bools().map(Iterator::count),
    ];
    assert!(counts.iter().flatten().all(|&counted| counted as u64 == count));
}
