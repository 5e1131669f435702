//! The requirements of transformers and mlx-lm besides the tensors: each test is a model that one
//! of them refused or ran with other numbers. The models are those of `fixtures/logits`, and small
//! ones made here; `xtask/oracles/engines.py` runs the engines themselves.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::models::{Form, listed_models, metadata};
use crate::support::{Gguf, Kv, Safetensors, copy_of, f32s, folder, outside, put, sample};
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use weighbridge::container::{Container, GGUF, MLX, OLLAMA, SAFETENSORS, ollama};
use weighbridge::ops::{self, ConvertOptions, QuantizationRules};
use weighbridge::recipe::FileType;
use weighbridge::recipe::llama_cpp::LlamaOptions;
use weighbridge::recipe::mlx_lm::MlxOptions;
use weighbridge::translate::{Documents, gguf_metadata, hf_documents};
use weighbridge::write::{Method, WritePlan};
use weighbridge::{DType, Model, OpenOptions, Part, Strictness, WriteOptions};

/// A model that was written to a temporary folder.
struct Written {
    path: PathBuf,
    methods: Vec<(String, Method)>,
    _folder: TempDir,
}

impl Written {
    fn of(path: &Path, options: &ConvertOptions) -> Self {
        let model = Model::open(path).unwrap_or_else(|error| panic!("{error}"));
        let plan = ops::convert(&model, options).unwrap_or_else(|error| panic!("{error}"));
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("model.gguf");
        plan.run(&path, &WriteOptions::new()).unwrap_or_else(|error| panic!("{error}"));
        let methods = plan.tensors.iter().map(|t| (t.name.clone(), t.method)).collect();
        Self { path, methods, _folder: folder }
    }

    fn to(&self, container: &'static Container) -> Self {
        Self::of(&self.path, &ConvertOptions::new(container))
    }

    fn config(&self) -> Json {
        config(&self.path)
    }

    fn model(&self) -> Model {
        Model::open(&self.path).expect("a model")
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.methods.iter().map(|(name, _)| name.clone()).collect();
        names.sort();
        names
    }

    /// The dtypes of all floats: plain tensors, and scales and biases of groups.
    fn floats(&self) -> Vec<DType> {
        let model = self.model();
        let mut found = Vec::new();
        for tensor in model.stored_tensors() {
            if !tensor.dtype().expect("a dtype").is_quantized() {
                found.push(tensor.dtype().expect("a dtype"));
            }
            let of_groups = |part: Part| matches!(part, Part::Scale | Part::Bias);
            found.extend(tensor.segments().filter(|s| of_groups(s.part)).map(|s| s.dtype));
        }
        found.sort();
        found.dedup();
        found
    }
}

fn config(folder: &Path) -> Json {
    let text = std::fs::read(folder.join("config.json")).expect("a config.json");
    serde_json::from_slice(&text).expect("JSON")
}

/// A model of `fixtures/logits` in another container.
fn converted(name: &str, container: &'static Container) -> Option<Written> {
    let path = outside(&format!("logits/{name}"))?;
    Some(Written::of(&path, &ConvertOptions::new(container)))
}

/// A copy of a model of `fixtures/logits` with a changed `config.json`.
fn changed(name: &str, change: impl FnOnce(&mut Json)) -> Option<TempDir> {
    let folder = copy_of(outside(&format!("logits/{name}"))?);
    let mut json = config(folder.path());
    change(&mut json);
    put(folder.path(), "config.json", json.to_string());
    Some(folder)
}

fn without(json: &mut Json, key: &str) {
    json.as_object_mut().expect("an object").remove(key);
}

/// The `config.json` that these GGUF keys give.
fn config_of_gguf(file: Gguf) -> Json {
    let model = OpenOptions::new().open_memory("file", file.build()).expect("a model");
    let files = hf_documents(&model).map(Documents::into_files).expect("documents");
    serde_json::from_slice(&files[0].1).expect("JSON")
}

#[test]
fn rope_settings_are_stated_under_both_names_for_mlx_lm() {
    let Some(model) = converted("llama-rope-yarn", &MLX) else { return };
    let config = model.config();
    let newer = &config["rope_parameters"];
    assert_eq!(config["rope_theta"], newer["rope_theta"]);
    assert_eq!(config["rope_scaling"]["type"], "yarn");
    assert_eq!(config["rope_scaling"]["factor"], newer["factor"]);
    // Transformers reads the same numbers on the way back.
    assert_eq!(model.to(&SAFETENSORS).config()["rope_parameters"], *newer);
}

/// The lines of each block of a file in `engines/`: a key, and the words after it.
pub(crate) fn facts(file: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("engines").join(file);
    let text = std::fs::read_to_string(path).expect("facts");
    let mut blocks = BTreeMap::new();
    for block in text.split("\n\n") {
        let (first, rest) = block.split_once('\n').unwrap_or((block, ""));
        let name = first.split(' ').next().unwrap_or_default().to_owned();
        let lines = rest.lines().filter_map(|line| line.trim().split_once(' '));
        blocks.insert(name, lines.map(|(key, rest)| (key.to_owned(), rest.to_owned())).collect());
    }
    blocks
}

#[test]
fn keys_that_mlx_lm_requires_are_stated() {
    let classes = facts("mlx-lm/classes.txt");
    let Some(root) = outside("logits") else { return };
    let mut tested = 0;
    for entry in std::fs::read_dir(root).expect("a folder").filter_map(Result::ok) {
        if !entry.path().is_dir() {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        let model = Model::open(entry.path()).expect("a model");
        let gguf = ops::convert(&model, &ConvertOptions::new(&GGUF)).is_ok();
        let direct = ops::convert(&model, &ConvertOptions::new(&MLX)).is_ok();
        let mut made = Vec::new();
        made.extend(direct.then(|| Written::of(&entry.path(), &ConvertOptions::new(&MLX))));
        if gguf {
            let file = Written::of(&entry.path(), &ConvertOptions::new(&GGUF));
            let model = file.model();
            let fits = ops::convert(&model, &ConvertOptions::new(&MLX)).is_ok();
            made.extend(fits.then(|| file.to(&MLX)));
        }
        for written in made {
            let config = written.config();
            let inner = config.get("text_config").unwrap_or(&config);
            let model_type = inner["model_type"].as_str().expect("a model_type");
            let keys = classes.get(model_type).into_iter().flatten();
            for (key, _) in keys.filter(|(_, default)| default.starts_with("required")) {
                assert!(inner.get(key).is_some(), "{name}: {model_type} lacks {key}");
                tested += 1;
            }
        }
    }
    assert!(tested > 100, "{tested} keys were tested");
}

#[test]
fn flags_that_tensors_decide_are_stated() {
    let Some(model) = converted("glm4_moe", &GGUF) else { return };
    let config = model.to(&SAFETENSORS).config();
    assert_eq!(config["use_qk_norm"], true, "the class's default is false");
    let mlx = model.to(&MLX).config();
    assert_eq!((&mlx["use_qk_norm"], &mlx["rope_scaling"]), (&json!(true), &Json::Null));
}

#[test]
fn integers_of_a_class_stay_integers() {
    // GGUF does not state the scalar of the 27B forms: it follows from the number of layers.
    let gemma = |name: &str, layers: u32| {
        let key = |key: &str| format!("{name}.{key}");
        let counts = [
            ("block_count", layers),
            ("embedding_length", 256),
            ("feed_forward_length", 512),
            ("attention.head_count", 4),
            ("attention.head_count_kv", 2),
            ("attention.key_length", 32),
            ("attention.value_length", 32),
            ("context_length", 512),
            ("attention.sliding_window", 16),
        ];
        let file = Gguf::new().key("general.architecture", Kv::text(name));
        let file = counts.iter().fold(file, |file, (of, count)| file.key(key(of), Kv::U32(*count)));
        let file = file.key(key("attention.layer_norm_rms_epsilon"), Kv::F32(1e-6));
        config_of_gguf(file.tensor("token_embd.weight", DType::F32, &[8, 256], f32s(&[0.0; 2048])))
    };
    for (name, layers) in [("gemma2", 46), ("gemma3", 62)] {
        let config = gemma(name, layers);
        assert_eq!(config["query_pre_attn_scalar"], json!(64), "{name}");
    }
}

#[test]
fn a_model_without_a_padding_token_says_so() {
    let Some(source) = changed("phi3", |json| without(json, "pad_token_id")) else { return };
    let model = Model::open(source.path()).expect("a model");
    let gguf = source.path().join("model.gguf");
    let plan = ops::convert(&model, &ConvertOptions::new(&GGUF).extra_keys(false)).expect("a plan");
    plan.run(&gguf, &WriteOptions::new()).expect("a file");
    let config = Written::of(&gguf, &ConvertOptions::new(&SAFETENSORS)).config();
    // The class's default, 32000, lies beyond the vocabulary.
    assert_eq!(config.get("pad_token_id"), Some(&Json::Null));
}

#[test]
fn defaults_of_classes_apply_to_keys_that_are_left_out() {
    let key = |folder: &TempDir, key: &str| {
        let model = Model::open(folder.path()).expect("a model");
        let keys = gguf_metadata(&model).expect("metadata");
        keys.get(key).and_then(|value| value.to_u64())
    };
    let Some(deepseek) = changed("deepseek_v3", |json| without(json, "scoring_func")) else {
        return;
    };
    assert_eq!(key(&deepseek, "deepseek2.expert_gating_func"), Some(2));
    let Some(gemma) = changed("gemma4_text", |json| without(json, "global_head_dim")) else {
        return;
    };
    assert_eq!(key(&gemma, "gemma4.attention.key_length"), Some(512));
    // A null is a statement, and no omission.
    let Some(lite) = changed("deepseek_v3", |json| json["q_lora_rank"] = Json::Null) else {
        return;
    };
    // llama.cpp requires the key of a model with this number of layers.
    assert_eq!(key(&lite, "deepseek2.attention.q_lora_rank"), Some(0));
}

#[test]
fn the_latent_matrices_of_deepseek_are_split_as_mlx_lm_splits_them() {
    let Some(third) = converted("deepseek_v3", &MLX) else { return };
    let has = |model: &Written, end: &str| model.names().iter().any(|name| name.ends_with(end));
    assert!(has(&third, "self_attn.embed_q.weight") && has(&third, "self_attn.unembed_out.weight"));
    assert!(!has(&third, "kv_b_proj.weight"));
    // They come back as one.
    assert!(has(&third.to(&SAFETENSORS), "self_attn.kv_b_proj.weight"));
    let Some(second) = converted("deepseek_v2", &MLX) else { return };
    assert!(has(&second, "kv_b_proj.weight"), "mlx-lm's class of DeepSeek 2 does not split them");
}

#[test]
fn the_row_of_a_shared_router_has_one_axis_in_quantized_files() {
    let Some(gguf) = converted("qwen2_moe", &GGUF) else { return };
    let model = gguf.model();
    let path = gguf.path.with_file_name("quantized.gguf");
    let options = LlamaOptions::new(FileType::Q8_0);
    let plan = ops::quantize(&model, &options, None, &path).expect("a plan");
    plan.run(&path, &WriteOptions::new()).expect("a file");
    let model = Model::open(&path).expect("a model");
    let router = model.stored_tensor("blk.0.ffn_gate_inp_shexp.weight").expect("a tensor");
    assert_eq!(router.shape(), [64]);
    let back = Written::of(&path, &ConvertOptions::new(&SAFETENSORS)).model();
    let router = back.stored_tensor("model.layers.0.mlp.shared_expert_gate.weight");
    assert_eq!(router.expect("a tensor").shape(), [1, 64]);
}

/// ggml counts dimensions up to the last one above 1, and so do the files that llama-quantize writes.
#[test]
fn outer_ones_are_no_dimensions_of_quantized_files() {
    use weighbridge::{Builder, Tensor};
    let source = Model::open(sample("sample-BF16.gguf")).expect("the sample");
    let mut builder = Builder::new(&GGUF).expect("a builder");
    for (key, value) in source.metadata().iter() {
        builder.metadata().set(key.to_str().expect("a key"), value.to_owned());
    }
    for tensor in source.stored_tensors() {
        let name = tensor.name().to_owned();
        if name != "output_norm.weight" {
            builder.add(name, &tensor).expect("a tensor");
            continue;
        }
        let bytes = tensor.bytes(Part::Weight).expect("bytes").into_owned();
        let shape = [1, tensor.shape()[0]];
        let dtype = tensor.dtype().expect("a dtype");
        builder.add(name, &Tensor::new("n", dtype, &shape, bytes).expect("it")).expect("a tensor");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ones.gguf");
    builder.plan().expect("a plan").run(&path, &WriteOptions::new()).expect("a file");
    let model = Model::open(&path).expect("a model");
    let shape = |model: &Model| {
        model.stored_tensor("output_norm.weight").expect("a tensor").shape().to_vec()
    };
    let [one, width] = shape(&model)[..] else { panic!("{:?}", shape(&model)) };
    assert_eq!(one, 1);
    let path = folder.path().join("quantized.gguf");
    let plan = ops::quantize(&model, &LlamaOptions::new(FileType::Q8_0), None, &path);
    plan.expect("a plan").run(&path, &WriteOptions::new()).expect("a file");
    assert_eq!(shape(&Model::open(&path).expect("a model")), [width]);
}

#[test]
fn routers_of_a_gguf_file_get_eight_bits() {
    let Some(gguf) = converted("qwen3_moe", &GGUF) else { return };
    let rules = QuantizationRules::MlxLm(MlxOptions::default());
    let options = ConvertOptions::new(&MLX).quantize(rules);
    let config = Written::of(&gguf.path, &options).config();
    assert_eq!(config["quantization"]["bits"], 4);
    assert_eq!(config["quantization"]["model.layers.0.mlp.gate"]["bits"], 8);
}

#[test]
fn all_floats_of_an_mlx_directory_have_one_dtype() {
    let file = |name: &str, options: ConvertOptions| Written::of(&sample(name), &options).floats();
    let mlx = || ConvertOptions::new(&MLX);
    // Norms are in F32 in GGUF, whatever the model's dtype was.
    assert_eq!(file("sample-BF16.gguf", mlx()), [DType::BF16]);
    // Scales of Q8_0 are exact in F16; those of K-quants are products, which only F32 holds.
    assert_eq!(file("sample-Q8_0.gguf", mlx()), [DType::F16]);
    assert_eq!(file("sample-Q4_K_M.gguf", mlx()), [DType::BF16]);
    assert!(
        file("sample-Q4_K_M.gguf", mlx().dtype(DType::F32).lossless(true)).contains(&DType::F32)
    );
    assert_eq!(file("sample-Q4_K_M.gguf", mlx().dtype(DType::F16)), [DType::F16]);
    assert_eq!(file("hf", mlx().dtype(DType::F16)), [DType::F16]);
    let rules = QuantizationRules::MlxLm(MlxOptions::default());
    assert_eq!(file("sample-BF16.gguf", mlx().quantize(rules)), [DType::BF16]);
}

/// Scales that only F32 holds are rounded, and the values stay near.
#[test]
fn scales_of_k_quants_are_rounded_to_bf16() {
    let source = Model::open(sample("sample-Q4_K_M.gguf")).expect("the sample");
    let made = Written::of(&sample("sample-Q4_K_M.gguf"), &ConvertOptions::new(&MLX));
    let rounded = made.methods.iter().filter(|(_, method)| *method == Method::Rounded);
    assert!(rounded.count() > 3, "{:?}", made.methods);
    let made = made.model();
    for name in source.names().expect("names") {
        let [was, is] = [&source, &made].map(|model| {
            model.tensor(name).and_then(|tensor| tensor.dequantize()).expect("values").to_vec()
        });
        let square = |value: f32| f64::from(value).powi(2);
        let differences: f64 = was.iter().zip(&is).map(|(was, is)| square(was - is)).sum();
        let values: f64 = was.iter().map(|value| square(*value)).sum();
        assert!(differences.sqrt() < 0.02 * values.sqrt(), "{name}: {differences} of {values}");
    }
}

/// The sample with its matrices in 8-bit floats, one scale for each 128 x 128 of them.
fn in_8_bit_floats() -> TempDir {
    let source = Model::open(sample("hf")).expect("the sample");
    let mut file = Safetensors::new().metadata("format", "pt");
    for tensor in source.stored_tensors() {
        let (name, shape) = (tensor.name().to_owned(), tensor.shape().to_vec());
        let count = shape.iter().product::<u64>();
        if !name.contains("_proj.") {
            let bytes = tensor.raw_bytes(Part::Weight).expect("bytes").into_owned();
            let dtype = tensor.dtype().expect("a dtype");
            file = file.tensor(&name, dtype.name(), &shape, bytes);
            continue;
        }
        let codes: Vec<u8> = (0..count).map(|n| 0x20 + (n * 7 % 23) as u8).collect();
        let scales = [shape[0].div_ceil(128), shape[1].div_ceil(128)];
        let numbers = vec![0.05; (scales[0] * scales[1]) as usize];
        file = file.tensor(&name, "F8_E4M3", &shape, codes);
        file = file.tensor(&format!("{name}_scale_inv"), "F32", &scales, f32s(&numbers));
    }
    let files = copy_of(sample("hf"));
    put(files.path(), "model.safetensors", file.build());
    let mut config = config(files.path());
    config["quantization_config"] = json!({"quant_method": "fp8", "weight_block_size": [128, 128]});
    put(files.path(), "config.json", config.to_string());
    files
}

/// llama.cpp's converter decodes 8-bit floats to BF16, so quantizing them is a first quantization.
#[test]
fn values_of_8_bit_floats_are_quantized_once() {
    let files = in_8_bit_floats();
    let model = Model::open(files.path()).expect("a model");
    let options = LlamaOptions::new(FileType::Q8_0);
    let plan = ops::quantize(&model, &options, None, Path::new("quantized.gguf"));
    let plan = plan.unwrap_or_else(|error| panic!("{error}"));
    let matrices = plan.tensors.iter().filter(|tensor| tensor.name.contains("ffn_down"));
    let ways: Vec<_> = matrices.map(|tensor| (tensor.dtype, tensor.method)).collect();
    assert!(ways.len() > 1, "{ways:?}");
    assert!(ways.iter().all(|way| *way == (DType::Q8_0, Method::Quantized)), "{ways:?}");
}

#[test]
fn checkpoints_in_fp8_are_originals() {
    let Some(path) = outside("hfq/fp8-per-tensor") else { return };
    let model = Model::open(&path).expect("a model");
    let options = LlamaOptions::new(FileType::Q8_0);
    let plan = ops::quantize(&model, &options, None, Path::new("quantized.gguf"));
    let plan = plan.unwrap_or_else(|error| panic!("{error}"));
    let again = plan.tensors.iter().filter(|tensor| tensor.method == Method::Requantized);
    assert_eq!(again.map(|tensor| &tensor.name).next(), None);
}

/// Gemma 3 with images, as the hub has it: one layer and one tensor of the vision model.
fn with_images() -> TempDir {
    gemma3("pt", true)
}

/// Gemma 3 in the form of a model with images, with and without those of its vision model.
pub(crate) fn gemma3(format: &str, towers: bool) -> TempDir {
    let config = json!({
        "architectures": ["Gemma3ForConditionalGeneration"],
        "model_type": "gemma3",
        "text_config": {
            "model_type": "gemma3_text", "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1,
            "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "sliding_window": 16,
        },
        "vision_config": {"model_type": "siglip_vision_model"},
        "eos_token_id": 1,
    });
    let mut file = Safetensors::new().metadata("format", format);
    let mut put = |name: &str, shape: &[u64]| {
        let count = usize::try_from(shape.iter().product::<u64>()).expect("a size");
        file = std::mem::take(&mut file).tensor(name, "F32", shape, f32s(&vec![0.5; count]));
    };
    put("language_model.model.embed_tokens.weight", &[32, 8]);
    put("language_model.model.norm.weight", &[8]);
    for (name, shape) in [
        ("input_layernorm", &[8][..]),
        ("post_attention_layernorm", &[8]),
        ("pre_feedforward_layernorm", &[8]),
        ("post_feedforward_layernorm", &[8]),
        ("self_attn.q_norm", &[4]),
        ("self_attn.k_norm", &[4]),
        ("self_attn.q_proj", &[8, 8]),
        ("self_attn.k_proj", &[4, 8]),
        ("self_attn.v_proj", &[4, 8]),
        ("self_attn.o_proj", &[8, 8]),
        ("mlp.gate_proj", &[16, 8]),
        ("mlp.up_proj", &[16, 8]),
        ("mlp.down_proj", &[8, 16]),
    ] {
        put(&format!("language_model.model.layers.0.{name}.weight"), shape);
    }
    if towers {
        put("vision_tower.vision_model.post_layernorm.weight", &[8]);
        put("multi_modal_projector.mm_soft_emb_norm.weight", &[8]);
    }
    folder(&[("config.json", config.to_string().into_bytes()), ("model.safetensors", file.build())])
}

#[test]
fn a_model_with_images_stays_whole() {
    let folder = with_images();
    let mlx = Written::of(folder.path(), &ConvertOptions::new(&MLX));
    let names = mlx.names();
    let language = |name: &&String| !name.starts_with("language_model.model.");
    let others: Vec<&String> = names.iter().filter(language).collect();
    // mlx-vlm's class has an output matrix.
    let towers = [
        "language_model.lm_head.weight",
        "multi_modal_projector.mm_soft_emb_norm.weight",
        "vision_tower.vision_model.post_layernorm.weight",
    ];
    assert_eq!(others, towers);
    // mlx-lm takes the size of the vocabulary from the outer config.
    assert_eq!(
        (&mlx.config()["model_type"], &mlx.config()["vocab_size"]),
        (&json!("gemma3"), &json!(32))
    );
    assert_eq!(mlx.config()["text_config"]["tie_word_embeddings"], false);
    let back = mlx.to(&SAFETENSORS);
    assert_eq!(back.config()["model_type"], "gemma3");
    assert!(!back.names().iter().any(|name| name.ends_with("lm_head.weight")));
    let model = back.model();
    let resolution = model.resolution().expect("a resolution");
    assert_eq!((resolution.missing.len(), resolution.unknown.len()), (0, 0));
    assert_eq!(resolution.auxiliary.len(), 2);
}

/// mlx-lm stores a text model as part of one with images. Transformers has a class for it alone.
#[test]
fn a_text_model_alone_gets_a_config_of_its_own() {
    let config = |folder: TempDir| -> Json {
        let model = Model::open(folder.path()).expect("a model");
        let files = hf_documents(&model).map(Documents::into_files).expect("documents");
        serde_json::from_slice(&files[0].1).expect("JSON")
    };
    let alone = config(gemma3("mlx", false));
    assert_eq!(alone["model_type"], "gemma3_text");
    assert_eq!(alone["architectures"], json!(["Gemma3ForCausalLM"]));
    // What is stated for the whole model holds for it too, but for parts that it lacks.
    assert_eq!((&alone["hidden_size"], &alone["eos_token_id"]), (&json!(8), &json!(1)));
    assert_eq!((alone.get("text_config"), alone.get("vision_config")), (None, None));
    for whole in [gemma3("mlx", true), gemma3("pt", false)] {
        assert_eq!(config(whole)["model_type"], "gemma3");
    }
    // Ollama's store has the documents as they are.
    let store = tempfile::tempdir().expect("a folder");
    let model = gemma3("mlx", false);
    let plan =
        ops::convert(&Model::open(model.path()).expect("a model"), &ConvertOptions::new(&OLLAMA));
    let place = ollama::place("m", Some(store.path())).expect("a name");
    plan.expect("a plan").run(&place, &WriteOptions::new()).expect("written");
    let stored = Model::open(&place).expect("a model");
    let config = stored.read_document("config.json").expect("JSON").expect("a document");
    assert_eq!(config["model_type"], "gemma3");
}

#[test]
fn text_models_of_image_models_get_classes_that_transformers_loads() {
    let key = |name: &str| format!("qwen2vl.{name}");
    let counts = [
        ("block_count", 1),
        ("embedding_length", 8),
        ("feed_forward_length", 16),
        ("attention.head_count", 2),
        ("attention.head_count_kv", 1),
        ("context_length", 64),
    ];
    let file = Gguf::new().key("general.architecture", Kv::text("qwen2vl"));
    let file = counts.iter().fold(file, |file, (of, count)| file.key(key(of), Kv::U32(*count)));
    let sections = Kv::Array(Kv::I32(0).code(), [1, 1, 0, 0].map(Kv::I32).to_vec());
    let file = file.key(key("attention.layer_norm_rms_epsilon"), Kv::F32(1e-6));
    let file = file.key(key("rope.dimension_sections"), sections);
    let config =
        config_of_gguf(file.tensor("token_embd.weight", DType::F32, &[8, 8], f32s(&[0.0; 64])));
    assert_eq!(
        (&config["model_type"], &config["architectures"][0]),
        (&json!("qwen2"), &json!("Qwen2ForCausalLM"))
    );
    // The text model of Gemma 3n is wrapped for mlx-lm, and comes back as it was.
    let Some(mlx) = converted("gemma3n_text", &MLX) else { return };
    assert_eq!(mlx.config()["model_type"], "gemma3n");
    assert_eq!(mlx.to(&SAFETENSORS).config()["model_type"], "gemma3n_text");
}

#[test]
fn mistral_with_images_has_the_name_that_llama_cpp_gives_it() {
    let config = json!({
        "architectures": ["Mistral3ForConditionalGeneration"],
        "model_type": "mistral3",
        "text_config": {
            "model_type": "mistral", "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1,
            "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "sliding_window": null,
            "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "vocab_size": 4,
        },
    });
    let name = "language_model.model.embed_tokens.weight";
    let file = Safetensors::new().tensor(name, "F32", &[4, 8], f32s(&[0.0; 32]));
    let folder = folder(&[
        ("config.json", config.to_string().into_bytes()),
        ("model.safetensors", file.build()),
    ]);
    let model = Model::open(folder.path()).expect("a model");
    let keys = gguf_metadata(&model).expect("metadata");
    let name = keys.get("general.architecture").and_then(|name| name.to_text()?.to_str());
    assert_eq!(name, Some("mistral3"));
}

/// mlx-lm's classes of these models have an output matrix of their own; the way back drops the copy.
#[test]
fn tied_models_get_an_output_matrix_where_mlx_lm_requires_one() {
    for (name, copied) in [("glm4", true), ("deepseek_v3", true), ("qwen3", false)] {
        let Some(model) = converted(name, &MLX) else { return };
        let has = |model: &Written| model.names().iter().any(|name| name == "lm_head.weight");
        assert_eq!(has(&model), copied, "{name}");
        assert!(!has(&model.to(&SAFETENSORS)), "{name}");
        if copied {
            let model = model.model();
            let values = |name: &str| {
                model.stored_tensor(name).and_then(|t| t.dequantize()).expect("values").to_vec()
            };
            assert_eq!(values("lm_head.weight"), values("model.embed_tokens.weight"), "{name}");
        }
    }
}

/// The same of a model of the lists, from GGUF too.
#[test]
fn copies_of_the_embedding_come_and_go() {
    let mut model = listed_models().into_iter().find(|model| model.name == "glm4").expect("a list");
    model.config["tie_word_embeddings"] = true.into();
    for form in [Form::HuggingFace, Form::Gguf] {
        let (_, tensors) = model.forms.iter().find(|(of, _)| *of == form).expect("a form");
        let mut tensors = tensors.clone();
        tensors.retain(|name, _| !["lm_head.weight", "output.weight"].contains(&name.as_str()));
        let opened = crate::models::open(&model, form, &tensors);
        let plan = ops::convert(&opened.model, &ConvertOptions::new(&MLX)).expect("a plan");
        let head = |plan: &WritePlan| plan.tensors.iter().any(|one| one.name == "lm_head.weight");
        let note = "lm_head.weight: a copy of the embedding, which mlx-lm's class requires";
        assert!(head(&plan) && plan.notes.iter().any(|own| own == note), "{:?}", plan.notes);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("mlx");
        plan.run(&path, &WriteOptions::new()).expect("written");
        let mlx = Model::open(&path).expect("a model");
        let back = ops::convert(&mlx, &ConvertOptions::new(&SAFETENSORS)).expect("a plan");
        assert!(!head(&back) && back.notes.iter().all(|own| own != note), "{:?}", back.notes);
    }
}

/// The faults for which llama.cpp would not load a model of the lists, with these keys of its own and without those
/// that end so.
fn graph_faults(name: &str, own: &[(&str, Kv)], without: &[&str]) -> Vec<String> {
    let list = listed_models().into_iter().find(|model| model.name == name);
    let list = list.expect("a list of names");
    let (_, tensors) = list.forms.iter().find(|(form, _)| *form == Form::Gguf).expect("a form");
    let keys = metadata(&list.gguf, &list.config).into_iter();
    let keys = keys.filter(|(key, _)| !without.iter().any(|end| key.ends_with(end)));
    let own = own.iter().map(|(key, value)| (format!("{}.{key}", list.gguf), value.clone()));
    let file = keys.chain(own).fold(Gguf::new(), |file, (key, value)| file.key(key, value));
    let file = tensors.iter().fold(file, |file, (name, tensor)| {
        let dims: Vec<u64> = tensor.shape.iter().map(|dim| *dim as u64).collect();
        file.tensor(name, DType::F32, &dims, f32s(&tensor.values))
    });
    let model = OpenOptions::new().open_memory("file", file.build()).expect("a model");
    let report = ops::check_consistency(&model, Strictness::Strict).expect("checked");
    report.faults.iter().map(ToString::to_string).collect()
}

fn names_a_tensor(fault: &str) -> bool {
    fault.contains("blk.")
}

/// llama.cpp takes 4 for the interval of layers with attention to all positions.
#[test]
fn every_fourth_layer_of_qwen3_next_attends_to_all_positions() {
    let faults = |interval: Option<u32>| {
        let own = interval.map(|n| ("full_attention_interval", Kv::U32(n)));
        graph_faults("qwen3_next", own.as_slice(), &["attention.recurrent_layers"])
    };
    let stated = faults(Some(4));
    assert_eq!(faults(None), stated);
    assert!(!stated.iter().any(|fault| names_a_tensor(fault)), "{stated:?}");
    assert!(faults(Some(2)).iter().any(|fault| names_a_tensor(fault)));
}

/// Shapes follow from the keys, so they are not checked without one of them.
#[test]
fn missing_keys_are_told_before_shapes() {
    let rank = "attention.kv_lora_rank";
    let faults = graph_faults("deepseek_v2", &[], &[rank]);
    assert!(faults.iter().any(|fault| fault.contains("deepseek2.attention.kv_lora_rank")));
    assert!(!faults.iter().any(|fault| names_a_tensor(fault)), "{faults:?}");
    // Nor are counts compared with each other.
    let many = [("expert_group_count", Kv::U32(9))];
    let found = graph_faults("deepseek_v2", &many, &[]);
    let expected = "deepseek2.expert_group_count is 9, but llama.cpp requires 0 to 3";
    assert!(found.iter().any(|fault| fault.contains(expected)), "{found:?}");
    let both = graph_faults("deepseek_v2", &many, &[rank]);
    assert!(!both.iter().any(|fault| fault.contains("requires 0 to 3")), "{both:?}");
}

#[test]
fn choices_of_experts_that_llama_cpp_makes_differently_are_noted() {
    let list = listed_models().into_iter().find(|model| model.name == "deepseek_v2");
    let mut list = list.expect("a list of names");
    let note = |config: &Json| {
        let tensors = list.forms[0].1.iter();
        let file = tensors.fold(Safetensors::new(), |file, (name, tensor)| {
            let dims: Vec<u64> = tensor.shape.iter().map(|dim| *dim as u64).collect();
            file.tensor(name, "F32", &dims, f32s(&tensor.values))
        });
        let config = config.to_string().into_bytes();
        let folder = folder(&[("config.json", config), ("model.safetensors", file.build())]);
        let model = Model::open(folder.path()).expect("a directory");
        let options = ConvertOptions::new(&GGUF).allow_unloadable(true);
        let plan = ops::convert(&model, &options).expect("a plan");
        plan.notes
            .iter()
            .find(|note| note.contains("a group of experts"))
            .cloned()
            .unwrap_or_default()
    };
    let mut config = std::mem::take(&mut list.config);
    assert_eq!(note(&config), "");
    for (key, value) in [
        ("topk_method", json!("group_limited_greedy")),
        ("n_group", json!(2)),
        ("topk_group", json!(1)),
    ] {
        config[key] = value;
    }
    assert!(
        note(&config)
            .contains("a group of experts is scored by its two best experts, not by its best"),
        "{}",
        note(&config)
    );
}
