//! Reports on models that are rare or cannot be read whole: capabilities, sizes, statistics, checks.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;
use weighbridge::bytes::{Access, FileSystem, Source};
use weighbridge::json::json;
use weighbridge::model::Mesh;
use weighbridge::ops::{
    self, GridOptions, HashList, HashOptions, StatisticsOptions, VerifyOptions,
};
use weighbridge::recipe::llama_cpp::LlamaOptions;
use weighbridge::recipe::{FileType, ImportanceMatrix};
use weighbridge::write::Method;
use weighbridge::{DType, Error, ErrorKind, Model, OpenOptions, Strictness, Tensor};

use crate::models::{Form, lists, open, own};
use crate::support::{Gguf, Kv, Safetensors, copy_of, f32s, fixture, folder, put, sample};

/// Encoders of text give embeddings, whether the architecture or the config says that they are such.
#[test]
fn encoders_give_embeddings() {
    let bert = Model::open(fixture("hf/bert-f32").expect("a fixture")).expect("a model");
    assert_eq!(ops::summarize(&bert).capabilities, ["embedding"]);
    let sample = Model::open(sample("hf")).expect("the sample");
    assert_eq!(ops::summarize(&sample).capabilities, ["completion"]);
}

/// Files that are no model of their own can do nothing, whatever their architecture.
#[test]
fn parts_of_models_have_no_capabilities() {
    let capabilities = |kind: &str, architecture: &str| {
        let file = Gguf::new()
            .key("general.architecture", Kv::text(architecture))
            .key("general.type", Kv::text(kind))
            .tensor("t", DType::F32, &[1], f32s(&[1.0]));
        let model = OpenOptions::new().open_memory("file", file.build()).expect("a model");
        ops::summarize(&model).capabilities
    };
    assert_eq!(capabilities("model", "llama"), ["completion"]);
    // Rerankers state no kind of pooling; of an architecture that is not known, nothing is.
    assert_eq!(capabilities("model", "bert"), ["embedding"]);
    assert!(capabilities("model", "pig").is_empty());
    assert!(capabilities("mmproj", "llama").is_empty());
    assert!(capabilities("model", "clip").is_empty());
    // Neither can an encoder that is followed by a decoder.
    let list = lists::LISTS.iter().find(|list| list.name == "t5").expect("a list");
    let (model, form) = (own(list), Form::HuggingFace);
    let opened = open(&model, form, &model.forms[0].1);
    assert!(opened.model.config().expect("a config").encoder.enc_n_layers.is_some());
    assert!(ops::summarize(&opened.model).capabilities.is_empty());
}

/// A folder of a pipeline of diffusers has a config, of a class that makes no text.
#[test]
fn models_of_diffusers_are_called_so_and_have_no_capabilities() {
    let weights = Safetensors::new().tensor("conv_in.weight", "F32", &[1], f32s(&[1.0])).build();
    let config = br#"{"_class_name": "UNet2DConditionModel", "in_channels": 4}"#.to_vec();
    let folder =
        folder(&[("config.json", config), ("diffusion_pytorch_model.safetensors", weights)]);
    let model = Model::open(folder.path()).expect("a directory");
    assert!(ops::summarize(&model).capabilities.is_empty());
    let reason = &model.resolution().expect("names").reason;
    assert!(
        reason.starts_with("UNet2DConditionModel of diffusers: the weights of a diffusion"),
        "{reason}"
    );
}

/// Numbers of `f32` are reported with the digits that the file has, not with those of their sum of
/// powers of two.
#[test]
fn settings_have_few_digits() {
    let folder = copy_of(sample("hf"));
    let settings = json!({"temperature": 0.7, "top_p": 0.95, "min_p": 0.05, "top_k": 20});
    put(folder.path(), "generation_config.json", settings.to_string());
    let model = Model::open(folder.path()).expect("a model");
    let report = ops::config(&model).expect("a report");
    let fields = report.generation.expect("settings").expect("settings").fields;
    let found: Vec<_> = fields
        .iter()
        .filter(|field| settings.get(&field.name).is_some())
        .map(|field| (field.name.as_str(), field.value.clone(), field.source.as_str()))
        .collect();
    let row = |name: &'static str| {
        (name, settings[name].clone(), format!("generation_config.json {name}"))
    };
    let expected = ["temperature", "top_k", "top_p", "min_p"].map(row);
    let expected: Vec<_> =
        expected.iter().map(|(name, value, from)| (*name, value.clone(), from.as_str())).collect();
    assert_eq!(found, expected);
}

/// As transformers does: config.json states them where generation_config.json is absent. A GGUF file has a key for one alone.
#[test]
fn several_tokens_end_a_text() {
    let folder = copy_of(sample("hf"));
    let text = std::fs::read_to_string(folder.path().join("config.json")).expect("a config");
    let mut config: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    config["eos_token_id"] = serde_json::json!([1, 7]);
    put(folder.path(), "config.json", config.to_string());
    let _ = std::fs::remove_file(folder.path().join("generation_config.json"));
    let ends = |path: &Path| Model::open(path).expect("a model").end_tokens().expect("tokens");
    let file = folder.path().join("sample.gguf");
    let write = || {
        let model = Model::open(folder.path()).expect("a model");
        let plan = ops::convert(&model, &ops::ConvertOptions::new(&weighbridge::container::GGUF));
        plan.expect("a plan").run(&file, &weighbridge::WriteOptions::default()).expect("a file");
        std::fs::rename(&file, folder.path().join("other")).expect("renamed");
    };
    write();
    for path in [folder.path().to_owned(), folder.path().join("other")] {
        assert!(ends(&path).contains(&7), "{}", path.display());
    }
    put(folder.path(), "generation_config.json", r#"{"eos_token_id": [1, 9]}"#);
    write();
    for path in [folder.path().to_owned(), folder.path().join("other")] {
        let ends = ends(&path);
        assert!(ends.contains(&9) && !ends.contains(&7), "{}: {ends:?}", path.display());
    }
}

/// The sample has BF16: F32 holds all of its values, F16 does not.
#[test]
fn wider_numbers_lose_nothing() {
    let model = Model::open(sample("hf")).expect("the sample");
    let methods = |file_type| {
        let options = LlamaOptions::new(file_type);
        let plan = ops::quantize(&model, &options, None, "out.gguf".as_ref());
        let plan = plan.unwrap_or_else(|error| panic!("{error}"));
        let q = plan.tensors.iter().find(|tensor| tensor.name == "blk.0.attn_q.weight");
        let q = q.expect("the tensor");
        (q.dtype, q.method)
    };
    assert_eq!(methods(FileType::F32), (DType::F32, Method::Exact));
    assert_eq!(methods(FileType::F16), (DType::F16, Method::Rounded));
    assert_eq!(methods(FileType::Q8_0), (DType::Q8_0, Method::Quantized));
}

/// A dtype of few bits needs the importance of each tensor, not only that of some.
#[test]
fn importance_of_the_wrong_tensors() {
    let model = Model::open(sample("hf")).expect("the sample");
    let matrix = |tensor: &str| {
        let file = Gguf::new()
            .key("general.type", Kv::text("imatrix"))
            .key("imatrix.datasets", Kv::texts(&["a.txt"]))
            .key("imatrix.chunk_count", Kv::U32(1))
            .key("imatrix.chunk_size", Kv::U32(128))
            .tensor(format!("{tensor}.in_sum2"), DType::F32, &[1, 256], f32s(&[1.0; 256]))
            .tensor(format!("{tensor}.counts"), DType::F32, &[1, 1], f32s(&[1.0]));
        ImportanceMatrix::open_memory("m.gguf", file.build(), &OpenOptions::new())
            .expect("a matrix")
    };
    let mut options = LlamaOptions::new(FileType::IQ2_XXS);
    options.importance = true;
    let refused = |importance: Option<&ImportanceMatrix>| {
        let plan = ops::quantize(&model, &options, importance, "out.gguf".as_ref());
        let error = plan.map(|_| ()).expect_err("a refusal");
        assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
        assert!(error.to_string().contains("IQ2_XXS requires an importance matrix"), "{error}");
        error.advice().unwrap_or_default().to_owned()
    };
    assert_eq!(refused(None), "give one with LlamaOptions::with_importance");
    let other = matrix("blk.7.attn_q.weight");
    assert_eq!(refused(Some(&other)), "m.gguf has no data for this tensor");
}

/// Adds a matrix of so many rows in NVFP4, whose third part is a divisor of this dtype.
fn in_nvfp4(file: Safetensors, module: &str, rows: u64, divisor: &str) -> Safetensors {
    let number = match divisor {
        "F32" => f32s(&[2.0]),
        _ => vec![0x00, 0x40],
    };
    let count = usize::try_from(rows).expect("a size");
    file.tensor(&format!("{module}.weight_packed"), "U8", &[rows, 8], vec![0x11; 8 * count])
        .tensor(&format!("{module}.weight_scale"), "F8_E4M3", &[rows, 1], vec![0x38; count])
        .tensor(&format!("{module}.weight_global_scale"), divisor, &[1], number)
}

/// A directory with one such matrix.
fn nvfp4(divisor: &str) -> TempDir {
    let config = json!({"model_type": "llama", "quantization_config": {
        "quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized",
    }});
    let file = in_nvfp4(Safetensors::new(), "model.layers.0.mlp.up_proj", 16, divisor);
    folder(&[("config.json", config.to_string().into_bytes()), ("model.safetensors", file.build())])
}

/// Whether experts have one scale or one each is read; a file that cannot be read is an error.
#[test]
fn shares_of_a_file_that_cannot_be_read() {
    let config = json!({"model_type": "qwen3_moe", "hidden_size": 16, "num_hidden_layers": 1,
    "num_attention_heads": 1, "moe_intermediate_size": 1 << 14, "num_experts": 2,
    "num_experts_per_tok": 1, "vocab_size": 16, "quantization_config": {
        "quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized",
    }});
    let file = (0..2).fold(Safetensors::new(), |file, expert| {
        let module = format!("model.layers.0.mlp.experts.{expert}.up_proj");
        in_nvfp4(file, &module, 1 << 14, "F32")
    });
    let folder = folder(&[("config.json", config.to_string().into_bytes())]);
    put(folder.path(), "model.safetensors", file.build());
    let open = || OpenOptions::new().read().open(folder.path()).expect("a model");
    let mesh: Mesh = "pp=1".parse().expect("a mesh");
    let report = ops::shares(&open(), &mesh).expect("a report");
    assert_eq!(report.bytes, 2 * (8 + 1) * (1 << 14) + 4);
    let model = open();
    let path = folder.path().join("model.safetensors");
    let len = std::fs::metadata(&path).expect("the file").len();
    let cut = std::fs::File::options().write(true).open(&path).and_then(|f| f.set_len(len - 4));
    cut.expect("a shorter file");
    let error = ops::shares(&model, &mesh).expect_err("a shorter file");
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
}

/// A tensor that cannot be hashed is no difference, but an error.
#[test]
fn a_list_of_hashes_of_values_that_cannot_be_read() {
    let (sound, faulty) = (nvfp4("F32"), nvfp4("BF16"));
    let model = Model::open(sound.path()).expect("a model");
    let report = ops::hash(&model, &HashOptions::new().values(true).parts(true)).expect("hashes");
    put(sound.path(), "list", HashList::new(&report).to_string());
    let list = HashList::open(sound.path().join("list")).expect("a list");
    let verified = |folder: &TempDir| {
        let options = VerifyOptions::new().against(&list);
        let report = ops::verify(&Model::open(folder.path())?, &options)?;
        Ok::<_, weighbridge::Error>(report.differences.expect("a comparison").len())
    };
    assert_eq!(verified(&sound).expect("a report"), 0);
    let error = verified(&faulty).expect_err("values that cannot be had");
    assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
    assert!(error.to_string().contains("the global_divisor is BF16 [1]"), "{error}");
}

/// Gemma 4 has fewer and wider key heads in layers that see the whole text.
#[test]
fn key_heads_of_layers_that_see_all() {
    let faults = |sliding: u64, full: u64| {
        let config = json!({
            "model_type": "gemma4_text", "hidden_size": 8, "num_hidden_layers": 2, "vocab_size": 16,
            "num_attention_heads": 4, "num_key_value_heads": 4, "num_global_key_value_heads": 1,
            "head_dim": 2, "global_head_dim": 4, "intermediate_size": 16, "sliding_window": 8,
            "layer_types": ["sliding_attention", "full_attention"], "rms_norm_eps": 1e-6,
        });
        let matrix = |file: Safetensors, layer: u64, rows: u64| {
            let name = format!("model.layers.{layer}.self_attn.k_proj.weight");
            file.tensor(&name, "F32", &[rows, 8], vec![0; 32 * rows as usize])
        };
        let file = matrix(matrix(Safetensors::new(), 0, sliding), 1, full).build();
        let folder = folder(&[("config.json", config.to_string().into_bytes())]);
        put(folder.path(), "model.safetensors", file);
        let model = Model::open(folder.path()).expect("a model");
        let found = ops::check_consistency(&model, Strictness::Default).expect("a report");
        let keys = |fault: &String| fault.contains(".attention.k.weight: the shape is");
        found.faults.into_iter().filter(keys).collect::<Vec<_>>()
    };
    assert_eq!(faults(8, 4), [""; 0]);
    let wrong = faults(4, 16);
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    assert!(wrong[0].starts_with("layers.0.attention.k.weight: the shape is [4, 8]"), "{wrong:?}");
    assert!(wrong[1].starts_with("layers.1.attention.k.weight: the shape is [16, 8]"), "{wrong:?}");
}

/// The files of this machine, of which one can no longer be read when `fails` is set.
#[derive(Debug)]
struct Failing {
    name: &'static str,
    fails: Arc<AtomicBool>,
}

impl FileSystem for Failing {
    fn open(&self, path: &Path) -> weighbridge::Result<Source> {
        if path.ends_with(self.name) && self.fails.load(Ordering::Relaxed) {
            return Err(Error::io("cannot read the file", std::io::ErrorKind::TimedOut.into()));
        }
        Source::open(path, Access::Read)
    }

    fn names(&self, folder: &Path) -> weighbridge::Result<Vec<String>> {
        let entries = std::fs::read_dir(folder).map_err(|error| Error::io("no folder", error))?;
        let name = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        Ok(entries.flatten().map(name).collect())
    }

    fn exists(&self, path: &Path) -> bool {
        path.is_file()
    }
}

/// A tokenizer that cannot be read is an error, one that is damaged a fault of the model.
#[test]
fn a_tokenizer_that_cannot_be_read() {
    let folder = copy_of(sample("hf"));
    let fails = Arc::new(AtomicBool::new(false));
    let files = Failing { name: "tokenizer.json", fails: Arc::clone(&fails) };
    let model = OpenOptions::new().files(files).open(folder.path()).expect("a model");
    let checked = || ops::check_consistency(&model, Strictness::Default);
    assert_eq!(checked().expect("a report").faults, [""; 0]);
    fails.store(true, Ordering::Relaxed);
    let error = checked().expect_err("a file that cannot be read");
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    fails.store(false, Ordering::Relaxed);
    put(folder.path(), "tokenizer.json", "{");
    let faults = checked().expect("a report").faults;
    assert!(faults.iter().any(|fault| fault.contains("tokenizer.json")), "{faults:?}");
}

/// Pieces of a tensor in which no number is finite change nothing of what is known of the others.
#[test]
fn statistics_of_pieces_without_numbers() {
    // Three pieces, of which the last has numbers.
    let (rows, columns) = (2100, 1024);
    let value = |row: usize| if row == 2099 { 3.0 } else { f32::NAN };
    let values: Vec<f32> = (0..rows * columns).map(|at| value(at / columns)).collect();
    let shape = [rows as u64, columns as u64];
    let tensor = Tensor::new("t", DType::F32, &shape, f32s(&values)).expect("a tensor");
    for threads in [1, 3] {
        let options = StatisticsOptions::new().threads(threads);
        let found = ops::statistics(std::slice::from_ref(&tensor), &options).expect("statistics");
        let numbers = found.tensors[0].values.as_ref().expect("values");
        assert_eq!((numbers.elements, numbers.nan), (2100 * 1024, 2099 * 1024));
        assert_eq!(
            (numbers.mean, numbers.deviation, numbers.rms),
            (Some(3.0), Some(0.0), Some(3.0))
        );
    }
}

/// Values of one bucket are divided among the bins, and none is lost beside them.
#[test]
fn histograms_within_a_bucket() {
    let values: Vec<f32> = (0..4096).map(|at| 1.0 + at as f32 / (1 << 20) as f32).collect();
    let tensor = Tensor::new("t", DType::F32, &[4096], f32s(&values)).expect("a tensor");
    let options = StatisticsOptions::new().bins(4).range(1.001, 1.002);
    let found = ops::statistics(std::slice::from_ref(&tensor), &options).expect("statistics");
    let found = found.tensors[0].values.as_ref().and_then(|v| v.histogram.clone());
    let found = found.expect("a histogram");
    let within: u64 = found.counts.iter().sum();
    assert_eq!(found.below + within + found.above, 4096);
    assert!(found.below > 900 && within > 900 && found.above > 1800, "{found:?}");
}

/// Extremes are those of all pieces, wherever they are.
#[test]
fn extremes_of_several_pieces() {
    let (rows, columns) = (2100, 1024);
    let last = rows * columns - 1;
    let values: Vec<f32> = (0..=last).map(|at| (at % 7) as f32).collect();
    for (low, high) in [(last, 0), (0, last), (last - 1, last), (0, 1)] {
        let mut values = values.clone();
        (values[low], values[high]) = (-9.0, 9.0);
        let shape = [rows as u64, columns as u64];
        let tensor = Tensor::new("t", DType::F32, &shape, f32s(&values)).expect("a tensor");
        let options = StatisticsOptions::new();
        let found = ops::statistics(std::slice::from_ref(&tensor), &options).expect("statistics");
        let found = found.tensors[0].values.as_ref().expect("values");
        let [min, max] = [&found.min, &found.max].map(|extreme| extreme.as_ref().expect("one"));
        let at = |at: usize| vec![(at / columns) as u64, (at % columns) as u64];
        assert_eq!((min.value, &min.at), (-9.0, &at(low)));
        assert_eq!((max.value, &max.at), (9.0, &at(high)));
    }
}

/// The reason of a dtype is said where it is not the file type's own.
#[test]
fn choices_of_dtypes_have_a_reason() {
    let planned = |model: &Model| {
        let options = LlamaOptions::new(FileType::from_name("Q4_K_M").expect("a type"));
        ops::quantize(model, &options, None, "out.gguf".as_ref()).expect("a plan")
    };
    let reasons = |model: &Model| {
        let plan = planned(model);
        let of = |tensor: &weighbridge::write::PlannedTensor| {
            (tensor.name.clone(), tensor.reason.clone().unwrap_or_default())
        };
        plan.tensors.iter().map(of).collect::<std::collections::BTreeMap<_, _>>()
    };
    let usual = reasons(&Model::open(sample("hf")).expect("the sample"));
    assert_eq!(usual["blk.0.attn_q.weight"], "");
    assert_eq!(usual["token_embd.weight"], "chosen by the file type's rules");
    let narrow = Gguf::new()
        .key("general.architecture", Kv::text("llama"))
        .key("llama.block_count", Kv::U32(1))
        .tensor("blk.0.attn_q.weight", DType::F32, &[4, 32], f32s(&[0.5; 128]));
    let narrow = OpenOptions::new().open_memory("file", narrow.build()).expect("a model");
    let reason = "its rows do not divide into blocks of Q4_K";
    assert_eq!(reasons(&narrow)["blk.0.attn_q.weight"], reason);
    let plan = planned(&narrow);
    assert_eq!(plan.tensors[0].unsuited, Some(DType::Q4_K));
    assert_eq!(plan.report().tensors[0].unsuited, Some("Q4_K"));
    let said = "the rows of 1 of 1 tensors do not divide into blocks of the dtype chosen for them: \
        1 is Q5_0, not Q4_K";
    assert!(plan.notes.iter().any(|note| note == said), "{:?}", plan.notes);
}

/// A histogram of one value has the value in its bins, and nothing beside it.
#[test]
fn histograms_without_a_width() {
    let values = [1.0, 2.0, 2.0, 3.0, 3.0, 3.0];
    let tensor = Tensor::new("t", DType::F32, &[6], f32s(&values)).expect("a tensor");
    let options = StatisticsOptions::new().bins(4).range(2.0, 2.0);
    let found = ops::statistics(std::slice::from_ref(&tensor), &options).expect("statistics");
    let found = found.tensors[0].values.as_ref().and_then(|v| v.histogram.clone());
    let found = found.expect("a histogram");
    assert_eq!((found.below, found.counts.iter().sum(), found.above), (1, 2u64, 3));
}

/// If nearly all values are equal, the histogram shows those that are not.
#[test]
fn histograms_of_few_odd_values() {
    let mut values = [0.0; 4096];
    values[7] = 8.0;
    let tensor = Tensor::new("t", DType::F32, &[4096], f32s(&values)).expect("a tensor");
    let options = StatisticsOptions::new().bins(4);
    let found = ops::statistics(std::slice::from_ref(&tensor), &options).expect("statistics");
    let found = found.tensors[0].values.as_ref().and_then(|v| v.histogram.clone());
    let found = found.expect("a histogram");
    assert_eq!((found.low, found.high), (0.0, 8.0));
    assert_eq!((found.below, found.counts, found.above), (0, vec![4095, 0, 0, 1], 0));
}

/// Rows that are decoded in several parts, of which only some have the wanted columns.
#[test]
fn columns_of_long_rows() {
    let columns = 700_001_u64;
    let value = |row: u64, column: u64| ((row * 7 + column * 3) % 1021) as f32;
    let values = (0..2).flat_map(|row| (0..columns).map(move |column| value(row, column)));
    let values: Vec<f32> = values.collect();
    let tensor = Tensor::new("t", DType::F32, &[2, columns], f32s(&values)).expect("a tensor");
    for wanted in [0..40, 65_500..65_580, 699_990..columns, 100..600_000] {
        let width = 20;
        let options = GridOptions::new(2, width).columns(wanted.clone());
        let grid = ops::grid(&tensor, &options).expect("a grid");
        let (width, len) = (grid.width as u64, wanted.end - wanted.start);
        for (place, found) in grid.mean.iter().enumerate() {
            let (row, cell) = (place as u64 / width, place as u64 % width);
            let within = wanted.start + cell * len / width..wanted.start + (cell + 1) * len / width;
            let all: Vec<f32> = within.map(|column| value(row, column)).collect();
            let mean = all.iter().map(|x| f64::from(*x)).sum::<f64>() / all.len() as f64;
            assert!((f64::from(*found) - mean).abs() < 1e-4, "{wanted:?} {place}: {found}, {mean}");
            assert_eq!(grid.max[place], all.iter().copied().fold(0.0, f32::max), "{wanted:?}");
        }
    }
}

/// A mixture of 4 experts of which a token takes 2.
#[test]
fn weights_that_a_token_needs() {
    let path = fixture("hf/mixtral-bf16").expect("the repository has it");
    let model = Model::open(path).expect("a model");
    let config = model.config().expect("a config");
    let used = config.experts.n_experts_used.as_ref().expect("a number").value;
    let all = model.quantization().elements();
    let experts: u64 = model
        .stored_tensors()
        .filter(|tensor| tensor.name().contains(".experts."))
        .map(|tensor| tensor.elements())
        .sum();
    let count = config.n_experts.value;
    let idle = experts / u64::from(count) * u64::from(count - used);
    assert!(idle > 0);
    assert_eq!(ops::summarize(&model).active_weights, Some(all - idle));
    let dense = Model::open(sample("sample-Q8_0.gguf")).expect("a model");
    assert_eq!(ops::summarize(&dense).active_weights, None);
}
