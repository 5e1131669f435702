//! Adapters that are more than PEFT's products: those of mlx-lm, DoRA, whole tensors, rows of tokens and
//! longer vocabularies. Expected values are computed here from the values of both files.

use std::path::Path;

use serde_json::{Value as Json, json};
use tempfile::TempDir;
use weighbridge::adapter::{Adapter, ScaledAdapter};
use weighbridge::container::{GGUF, MLX, SAFETENSORS};
use weighbridge::ops::{self, ConvertOptions, QuantizationRules};
use weighbridge::recipe::FileType;
use weighbridge::recipe::llama_cpp::LlamaOptions;
use weighbridge::recipe::mlx_lm::MlxOptions;
use weighbridge::{ErrorKind, Model, WriteOptions};

use crate::support::{Safetensors, copy_of, f32s, fixture, folder, put};

const Q: &str = "model.layers.0.self_attn.q_proj";

fn base() -> Model {
    let path = fixture("lora/llama/base").expect("the repository has it");
    Model::open(path).expect("a model")
}

fn values(model: &Model, name: &str) -> Vec<f32> {
    let tensor = model.stored_tensor(name).unwrap_or_else(|error| panic!("{error}"));
    tensor.dequantize().unwrap_or_else(|error| panic!("{error}")).to_vec()
}

/// Numbers between -1 and 1, other ones for each `start`.
fn numbers(start: usize, count: usize) -> Vec<f32> {
    (0..count).map(|n| ((n * 7 + start * 13) % 31) as f32 / 15.0 - 1.0).collect()
}

/// An adapter's folder: the name of its file, its tensors and its config.
fn adapter(file: &str, tensors: &[(&str, &[u64], Vec<f32>)], config: &Json) -> TempDir {
    let mut weights = Safetensors::new();
    for (name, shape, values) in tensors {
        weights = weights.tensor(name, "F32", shape, f32s(values));
    }
    folder(&[(file, weights.build()), ("adapter_config.json", config.to_string().into_bytes())])
}

fn merged(folder: &Path) -> weighbridge::Result<Model> {
    Adapter::merged(&base(), &[Adapter::open(folder)?.into()])
}

#[track_caller]
fn close(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        // A change is rounded to BF16.
        assert!((found - expected).abs() <= 0.01 * expected.abs().max(1.0), "{found} {expected}");
    }
}

/// `base + scale * b a`, where `a` is `[rank, columns]` and `b` `[rows, rank]`.
fn changed(
    base: &[f32],
    a: &[f32],
    b: &[f32],
    (columns, rank, scale): (usize, usize, f32),
) -> Vec<f32> {
    let value = |(place, base): (usize, &f32)| {
        let (row, column) = (place / columns, place % columns);
        let sum: f32 = (0..rank).map(|k| b[row * rank + k] * a[k * columns + column]).sum();
        base + scale * sum
    };
    base.iter().enumerate().map(value).collect()
}

fn transposed(values: &[f32], columns: usize) -> Vec<f32> {
    let rows = values.len() / columns;
    (0..values.len()).map(|n| values[(n % rows) * columns + n / rows]).collect()
}

/// Rows scaled to norms.
fn scaled(values: &[f32], norms: &[f32]) -> Vec<f32> {
    let columns = values.len() / norms.len();
    let row = |(row, norm): (&[f32], &f32)| {
        let length = row.iter().map(|value| value * value).sum::<f32>().sqrt();
        row.iter().map(|value| value * norm / length).collect::<Vec<f32>>()
    };
    values.chunks(columns).zip(norms).flat_map(row).collect()
}

fn of_mlx(kind: &str) -> Json {
    json!({"fine_tune_type": kind, "num_layers": 2, "model": "base",
        "lora_parameters": {"rank": 2, "scale": 0.5, "dropout": 0.0}})
}

#[test]
fn adapters_of_mlx_lm() {
    let (a, b) = (numbers(1, 64), numbers(2, 64));
    let norms: Vec<f32> = (0..32).map(|n| 1.0 + n as f32 / 16.0).collect();
    let own = values(&base(), &format!("{Q}.weight"));
    // A is [inputs, rank], B [rank, outputs].
    let lora = changed(&own, &transposed(&a, 2), &transposed(&b, 32), (32, 2, 0.5));
    let (name_a, name_b, name_m) = (format!("{Q}.lora_a"), format!("{Q}.lora_b"), format!("{Q}.m"));
    let pair = [(&*name_a, &[32u64, 2][..], a.clone()), (&*name_b, &[2, 32], b.clone())];
    let folder = adapter("adapters.safetensors", &pair, &of_mlx("lora"));
    // mlx-lm saves earlier states of the adapter next to it.
    let earlier = std::fs::read(folder.path().join("adapters.safetensors")).expect("weights");
    std::fs::write(folder.path().join("0000100_adapters.safetensors"), earlier).expect("written");
    let opened = Adapter::open(folder.path()).expect("an adapter");
    assert_eq!((opened.format(), opened.base_model()), ("mlx", Some("base")));
    assert_eq!(opened.summary(), "rank 2, scale 0.5, 1 matrix: q_proj");
    close(&values(&merged(folder.path()).expect("merged"), &format!("{Q}.weight")), &lora);

    let dora = [pair.to_vec(), vec![(&*name_m, &[32u64][..], norms.clone())]].concat();
    let folder = adapter("adapters.safetensors", &dora, &of_mlx("dora"));
    let expected = scaled(&lora, &norms);
    close(&values(&merged(folder.path()).expect("merged"), &format!("{Q}.weight")), &expected);
    // Nothing but products can be multiplied by a factor.
    let opened = Adapter::open(folder.path()).expect("an adapter");
    let error = Adapter::merged(&base(), &[ScaledAdapter { adapter: opened, factor: 0.5 }])
        .expect_err("a factor");
    assert_eq!((error.kind(), error.tensor()), (ErrorKind::Unsupported, Some(&*name_m)));
    let error = merged(adapter("adapters.safetensors", &pair, &of_mlx("dora")).path());
    assert!(error.expect_err("no norms").to_string().contains(&name_m));

    let weight = format!("{Q}.weight");
    let whole = numbers(3, 1024);
    let full = [(&*weight, &[32u64, 32][..], whole.clone())];
    let folder = adapter("adapters.safetensors", &full, &of_mlx("full"));
    close(&values(&merged(folder.path()).expect("merged"), &weight), &whole);
    // An adapter without a scale means nothing.
    let config = json!({"fine_tune_type": "lora", "lora_parameters": {"rank": 2, "alpha": 4}});
    let error = Adapter::open(adapter("adapters.safetensors", &pair, &config).path());
    assert_eq!(error.expect_err("no scale").key(), Some("lora_parameters.scale"));
}

/// Those of mlx-vlm have other names, and alpha divided by the rank.
#[test]
fn adapters_of_mlx_vlm() {
    let (a, b) = (numbers(1, 64), numbers(2, 64));
    let own = values(&base(), &format!("{Q}.weight"));
    let expected = changed(&own, &transposed(&a, 2), &transposed(&b, 32), (32, 2, 1.5));
    let (name_a, name_b) = (format!("{Q}.A"), format!("{Q}.B"));
    let pair = [(&*name_a, &[32u64, 2][..], a), (&*name_b, &[2, 32], b)];
    let config = json!({"rank": 2, "alpha": 3, "dropout": 0.0, "model_path": "base"});
    let folder = adapter("adapters.safetensors", &pair, &config);
    let opened = Adapter::open(folder.path()).expect("an adapter");
    assert_eq!((opened.format(), opened.base_model()), ("mlx", Some("base")));
    assert_eq!(opened.summary(), "rank 2, alpha 3, 1 matrix: q_proj");
    let model = merged(folder.path()).expect("merged");
    close(&values(&model, &format!("{Q}.weight")), &expected);
    let plan = ops::convert(&model, &ConvertOptions::new(&SAFETENSORS)).expect("a plan");
    let told = plan.notes.iter().filter(|note| note.contains("earlier versions"));
    assert_eq!(told.count(), 1, "{:?}", plan.notes);
    let zero = adapter("adapters.safetensors", &pair, &json!({"rank": 0, "alpha": 3}));
    assert_eq!(Adapter::open(zero.path()).expect_err("a rank").key(), Some("rank"));
}

/// An embedding has `[tokens, rank]` and `[rank, width]`.
#[test]
fn embeddings_in_adapters_of_mlx_lm() {
    let name = "model.embed_tokens";
    let (a, b) = (numbers(4, 80), numbers(5, 64));
    let (name_a, name_b) = (format!("{name}.lora_a"), format!("{name}.lora_b"));
    let pair = [(&*name_a, &[40u64, 2][..], a.clone()), (&*name_b, &[2, 32], b.clone())];
    let folder = adapter("adapters.safetensors", &pair, &of_mlx("lora"));
    let own = values(&base(), &format!("{name}.weight"));
    let expected = changed(&own, &b, &a, (32, 2, 0.5));
    close(&values(&merged(folder.path()).expect("merged"), &format!("{name}.weight")), &expected);
}

fn peft(more: &Json) -> Json {
    let mut config = json!({"peft_type": "LORA", "r": 2, "lora_alpha": 4});
    config.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    config
}

#[test]
fn norms_of_peft() {
    let (a, b) = (numbers(6, 64), numbers(7, 64));
    let norms: Vec<f32> = (0..32).map(|n| 2.0 - n as f32 / 32.0).collect();
    let expected = changed(&values(&base(), &format!("{Q}.weight")), &a, &b, (32, 2, 2.0));
    let stored = |part: &str| format!("base_model.model.{Q}.{part}");
    for magnitude in ["lora_magnitude_vector", "lora_magnitude_vector.default.weight"] {
        let (name_a, name_b, norm) =
            (stored("lora_A.weight"), stored("lora_B.weight"), stored(magnitude));
        let tensors = [
            (&*name_a, &[2u64, 32][..], a.clone()),
            (&*name_b, &[32, 2], b.clone()),
            (&*norm, &[32], norms.clone()),
        ];
        let folder =
            adapter("adapter_model.safetensors", &tensors, &peft(&json!({"use_dora": true})));
        let model = merged(folder.path()).expect("merged");
        close(&values(&model, &format!("{Q}.weight")), &scaled(&expected, &norms));
        assert!(model.tensor("layers.0.attention.q.weight").is_ok());
    }
}

#[test]
fn rows_of_tokens_take_the_place_of_others() {
    let name = "base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta";
    let rows = numbers(8, 96);
    let tensors = [(name, &[3u64, 32][..], rows.clone())];
    let mut expected = values(&base(), "model.embed_tokens.weight");
    for (place, row) in [5usize, 2, 39].into_iter().zip(rows.chunks(32)) {
        expected[place * 32..(place + 1) * 32].copy_from_slice(row);
    }
    for stated in [json!([5, 2, 39]), json!({"embed_tokens": [5, 2, 39]})] {
        let config = peft(&json!({"trainable_token_indices": stated}));
        let folder = adapter("adapter_model.safetensors", &tensors, &config);
        let model = merged(folder.path()).expect("merged");
        assert_eq!(values(&model, "model.embed_tokens.weight"), expected);
        assert_eq!(model.notes().len(), base().notes().len());
        let opened = Adapter::open(folder.path()).expect("an adapter");
        assert_eq!(opened.summary(), "3 rows of embed_tokens");
    }
    let config = peft(&json!({"trainable_token_indices": [5, 2, 40]}));
    let error = merged(adapter("adapter_model.safetensors", &tensors, &config).path());
    let error = error.expect_err("a row that is not there");
    assert!(error.to_string().contains("row 40, but the tensor has 40 rows"), "{error}");
}

#[test]
fn whole_tensors_and_longer_vocabularies() {
    let stored = |name: &str| format!("base_model.model.{name}");
    let (head, embedding) = (stored("lm_head.weight"), stored("model.embed_tokens.weight"));
    let norm = stored("model.norm.modules_to_save.default.weight");
    let (rows, factors) = (numbers(9, 43 * 32), numbers(10, 32));
    // With a longer vocabulary, PEFT saves such modules three times: as they are, trained, and as they were before.
    let (trained, before) =
        (stored("lm_head.modules_to_save.weight"), stored("lm_head.original_module.weight"));
    let tensors = [
        (&*trained, &[43u64, 32][..], rows.clone()),
        (&*before, &[43, 32], numbers(11, 43 * 32)),
        (&*head, &[43, 32], rows.clone()),
        (&*embedding, &[43, 32], rows.clone()),
        (&*norm, &[32], factors.clone()),
    ];
    let files = adapter("adapter_model.safetensors", &tensors, &peft(&json!({})));
    let model = merged(files.path()).expect("merged");
    assert_eq!(values(&model, "lm_head.weight"), rows);
    assert_eq!(values(&model, "model.norm.weight"), factors);
    let config = model.config().expect("a config");
    assert_eq!(config.vocab_size.as_ref().map(|size| size.value), Some(43));
    let plan = ops::convert(&model, &ConvertOptions::new(&SAFETENSORS)).expect("a plan");
    assert!(plan.notes.iter().any(|note| note.contains("3 whole tensors")), "{:?}", plan.notes);
    let out = tempfile::tempdir().expect("a folder");
    let path = out.path().join("merged");
    plan.run(&path, &WriteOptions::new()).expect("written");
    let written = Model::open(&path).expect("a model");
    assert_eq!(values(&written, "model.embed_tokens.weight"), rows);
    let stated =
        written.document("config.json").and_then(|config| config.get("vocab_size")?.as_u64());
    assert_eq!(stated, Some(43));
    // Both matrices of tokens must have as many rows.
    let one = [(&*head, &[43u64, 32][..], rows.clone())];
    let error = merged(adapter("adapter_model.safetensors", &one, &peft(&json!({}))).path());
    assert_eq!(error.expect_err("one of two").kind(), ErrorKind::Mismatch);
}

/// PEFT saves the embedding below a change if the model got more tokens for the training, and loads it again.
#[test]
fn the_embedding_below_a_change_is_that_of_the_training() {
    let stored = |part: &str| format!("base_model.model.{part}");
    let (a, b) = (numbers(20, 2 * 43), numbers(21, 64));
    let rows = numbers(22, 43 * 32);
    let head = stored("lm_head.base_layer.weight");
    let embedding = stored("model.embed_tokens.base_layer.weight");
    let (name_a, name_b) = (
        stored("model.embed_tokens.lora_embedding_A"),
        stored("model.embed_tokens.lora_embedding_B"),
    );
    let (own_a, own_b) = (stored("lm_head.lora_A.weight"), stored("lm_head.lora_B.weight"));
    let tensors = |embedding_rows: &[f32], head_rows: &[f32]| {
        let count = embedding_rows.len() as u64 / 32;
        let a: Vec<f32> = a.iter().copied().take(2 * count as usize).collect();
        let tensors = [
            (&*embedding, &[count, 32][..], embedding_rows.to_vec()),
            (&*name_a, &[2, count], a),
            (&*name_b, &[32, 2], b.clone()),
            (&*head, &[count, 32], head_rows.to_vec()),
            (&*own_a, &[2, 32], numbers(23, 64)),
            (&*own_b, &[count, 2], numbers(24, 2 * count as usize)),
        ];
        adapter("adapter_model.safetensors", &tensors, &peft(&json!({})))
    };
    let files = tensors(&rows, &rows);
    let model = merged(files.path()).expect("merged");
    let expected = changed(&rows, &numbers(23, 64), &numbers(24, 86), (32, 2, 2.0));
    close(&values(&model, "lm_head.weight"), &expected);
    let expected = changed(&rows, &transposed(&b, 2), &transposed(&a, 43), (32, 2, 2.0));
    close(&values(&model, "model.embed_tokens.weight"), &expected);
    let config = model.config().expect("a config");
    assert_eq!(config.vocab_size.as_ref().map(|size| size.value), Some(43));
    let notes = |model: &Model| {
        ops::convert(model, &ConvertOptions::new(&SAFETENSORS)).expect("a plan").notes.concat()
    };
    let said = notes(&model);
    assert!(said.contains("trained on a model with another embedding"), "{said}");
    // The matrices of the model itself change nothing.
    let own = |name: &str| values(&base(), name);
    let files = tensors(&own("model.embed_tokens.weight"), &own("lm_head.weight"));
    let model = merged(files.path()).expect("merged");
    let said = notes(&model);
    assert!(!said.contains("another embedding"), "{said}");
}

/// Programs that train tokens or a chat template save the tokenizer next to the adapter. The base has 40 rows of tokens.
#[test]
fn the_tokenizer_next_to_an_adapter() {
    let tokenizer = |texts: &[&str]| {
        let numbered = texts.iter().enumerate().map(|(n, text)| ((*text).to_owned(), n.into()));
        let vocabulary: serde_json::Map<String, Json> = numbered.collect();
        json!({"model": {"type": "BPE", "vocab": vocabulary, "merges": []}}).to_string()
    };
    let base = copy_of(fixture("lora/llama/base").expect("the repository has it"));
    put(base.path(), "tokenizer.json", tokenizer(&["a", "b"]));
    let base = Model::open(base.path()).expect("a model");
    let (name_a, name_b) = (
        format!("base_model.model.{Q}.lora_A.weight"),
        format!("base_model.model.{Q}.lora_B.weight"),
    );
    let pair = [(&*name_a, &[2u64, 32][..], numbers(1, 64)), (&*name_b, &[32, 2], numbers(2, 64))];
    let many: Vec<String> = (0..41).map(|n| format!("t{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for (texts, template, said, is_used) in [
        (&["a", "b"][..], "", "", false),
        (&["a", "b", "c"], "", "the token \"c\" that the model's lacks, and takes its place", true),
        (&["a", "b"], "{{ x }}", "a chat template that the model's lacks", true),
        (&many, "", "41 tokens, \"t0\" first that the model's lacks, and is not used", false),
    ] {
        let files = adapter("adapter_model.safetensors", &pair, &peft(&json!({})));
        put(files.path(), "tokenizer.json", tokenizer(texts));
        if !template.is_empty() {
            put(files.path(), "chat_template.jinja", template);
        }
        let opened = Adapter::open(files.path()).expect("an adapter");
        let model = Adapter::merged(&base, &[opened.into()]).expect("merged");
        let plan = ops::convert(&model, &ConvertOptions::new(&SAFETENSORS)).expect("a plan");
        let notes = plan.notes.join("; ");
        assert_eq!(notes.contains("the tokenizer next to it"), !said.is_empty(), "{notes}");
        assert!(notes.contains(said), "{notes}");
        let found = model.tokenizer().expect("a tokenizer").expect("a tokenizer");
        let len = if is_used { texts.len() as u64 } else { 2 };
        assert_eq!((found.len(), found.chat_template().unwrap_or_default()), (len, template));
    }
}

/// torchtune saves adapters under its own names, unless it is asked for PEFT's.
#[test]
fn adapters_of_torchtune_are_named() {
    let tensors = [
        ("layers.0.attn.output_proj.lora_a.weight", &[2u64, 32][..], numbers(1, 64)),
        ("layers.0.attn.output_proj.lora_b.weight", &[32, 2], numbers(2, 64)),
    ];
    let folder = adapter("adapter_model.safetensors", &tensors, &peft(&json!({})));
    let error = merged(folder.path()).expect_err("other names").to_string();
    assert!(error.contains("torchtune's own"), "{error}");
}

#[test]
fn quantizing_a_merged_model() {
    let adapter = fixture("lora/llama/adapter").expect("the repository has it");
    let adapter = || Adapter::open(&adapter).expect("an adapter");
    let out = tempfile::tempdir().expect("a folder");
    let write = |name: &str, plan: weighbridge::write::WritePlan| {
        let path = out.path().join(name);
        plan.run(&path, &WriteOptions::new()).expect("written");
        Model::open(&path).expect("a model")
    };
    let options = LlamaOptions::new(FileType::Q8_0);
    let path = out.path().join("x.gguf");
    let merged = Adapter::merged(&base(), &[adapter().into()]).expect("merged");
    let at_once = ops::quantize(&merged, &options, None, &path).expect("a plan");
    assert!(at_once.notes.iter().any(|note| note.starts_with("merged LoRA adapter")));
    let at_once = write("at-once.gguf", at_once);
    let converted = ConvertOptions::new(&GGUF).adapter(adapter(), 1.0);
    let converted = write("merged.gguf", ops::convert(&base(), &converted).expect("a plan"));
    let later = ops::quantize(&converted, &options, None, &path).expect("a plan");
    let later = write("later.gguf", later);
    for tensor in later.stored_tensors() {
        // The file between the two has the precision of the model.
        let (once, later) = (values(&at_once, tensor.name()), values(&later, tensor.name()));
        let far = once.iter().zip(&later).any(|(once, later)| (once - later).abs() > 0.01);
        assert!(!far && once.len() == later.len(), "{}", tensor.name());
    }
}

/// The difference of a model and one into which an adapter was merged is that adapter's.
#[test]
fn an_adapter_comes_from_the_difference_of_two_models() {
    let tuned = {
        let (a, b) = (numbers(1, 2 * 32), numbers(2, 32 * 2));
        let named = |end: &str| format!("base_model.model.{Q}.{end}");
        let config =
            json!({"peft_type": "LORA", "r": 2, "lora_alpha": 2, "target_modules": ["q_proj"]});
        let (a_name, b_name) = (named("lora_A.weight"), named("lora_B.weight"));
        let own = [(a_name.as_str(), &[2u64, 32][..], a), (b_name.as_str(), &[32, 2], b)];
        let folder = adapter("adapter_model.safetensors", &own, &config);
        let into = tempfile::tempdir().expect("a folder");
        let path = into.path().join("tuned");
        let options = ConvertOptions::new(&SAFETENSORS).dtype(weighbridge::DType::F32);
        let plan =
            ops::convert(&merged(folder.path()).expect("a model"), &options).expect("a plan");
        plan.run(&path, &WriteOptions::new()).expect("files");
        (Model::open(&path).expect("a model"), into)
    };
    let out = tempfile::tempdir().expect("a folder");
    for (rank, holds_all) in [(1, false), (2, true), (100, true)] {
        let path = out.path().join(format!("rank-{rank}"));
        let found = ops::extract_adapter(&base(), &tuned.0, rank).expect("a plan");
        assert!(found.kept().is_empty());
        found.plan.run(&path, &WriteOptions::new()).expect("files");
        let kept = found.kept();
        assert_eq!((kept.len(), kept[0].0), (1, "model.layers.0.self_attn.q_proj.weight"));
        assert_eq!(kept[0].1 > 0.9999, holds_all, "{rank}: {kept:?}");
        let adapter = Adapter::open(&path).expect("an adapter");
        assert_eq!((adapter.format(), adapter.targets()), ("peft", vec!["q_proj"]));
        if holds_all {
            let name = format!("{Q}.weight");
            close(&values(&merged(&path).expect("a model"), &name), &values(&tuned.0, &name));
        }
    }
    let same = ops::extract_adapter(&base(), &base(), 4).expect_err("no difference");
    assert_eq!(same.kind(), ErrorKind::Mismatch);
    assert_eq!(
        ops::extract_adapter(&base(), &tuned.0, 0).expect_err("no rank").kind(),
        ErrorKind::Mismatch
    );
}

#[test]
fn a_head_that_the_adapter_adds_is_called_so() {
    let config = peft(&json!({"task_type": "SEQ_CLS", "modules_to_save": ["score"]}));
    let tensors = [("base_model.model.score.weight", &[2, 64][..], numbers(1, 128))];
    let folder = adapter("adapter_model.safetensors", &tensors, &config);
    let error = merged(folder.path()).expect_err("a head more");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("saves \"score.weight\" as a whole"), "{error}");
}

/// PEFT refuses it too: "Impossible to merge LoRA layer with `lora_bias=True` because the base layer has no bias."
#[test]
fn a_bias_for_a_layer_without_one_is_called_so() {
    let config = peft(&json!({"lora_bias": true}));
    let name = |end: &str| format!("base_model.model.{Q}.{end}");
    let (a, b, bias) = (name("lora_A.weight"), name("lora_B.weight"), name("lora_B.bias"));
    let tensors = [
        (&*a, &[2, 32][..], numbers(1, 64)),
        (&*b, &[32, 2], numbers(2, 64)),
        (&*bias, &[32], numbers(3, 32)),
    ];
    let folder = adapter("adapter_model.safetensors", &tensors, &config);
    let error = merged(folder.path()).expect_err("no bias");
    assert_eq!(
        (error.kind(), error.key(), error.tensor()),
        (ErrorKind::Unsupported, Some("lora_bias"), Some(&*bias))
    );
    assert!(error.to_string().contains(&format!("a bias to {Q}, which has none")), "{error}");
    assert!(!error.to_string().contains("another model"), "{error}");
}

/// Only an MLX directory has the matrices quantized as they were.
#[test]
fn matrices_that_stay_plain_after_a_merge_are_named() {
    let out = tempfile::tempdir().expect("a folder");
    let groups = MlxOptions { bits: Some(4), group_size: Some(32), ..MlxOptions::default() };
    let options = ConvertOptions::new(&MLX).quantize(QuantizationRules::MlxLm(groups));
    let quantized = out.path().join("mlx");
    let plan = ops::convert(&base(), &options).unwrap_or_else(|error| panic!("{error}"));
    plan.run(&quantized, &WriteOptions::new()).expect("written");
    let (a, b) = (
        format!("base_model.model.{Q}.lora_A.weight"),
        format!("base_model.model.{Q}.lora_B.weight"),
    );
    let tensors = [(&*a, &[2, 32][..], numbers(1, 64)), (&*b, &[32, 2], numbers(2, 64))];
    let folder = adapter("adapter_model.safetensors", &tensors, &peft(&json!({})));
    for (source, to, is_named) in [
        (Model::open(&quantized).expect("a model"), &MLX, false),
        (Model::open(&quantized).expect("a model"), &GGUF, true),
        (Model::open(&quantized).expect("a model"), &SAFETENSORS, true),
        (base(), &MLX, false),
    ] {
        let adapter = Adapter::open(folder.path()).expect("an adapter");
        let options = ConvertOptions::new(to).adapter(adapter, 1.0).requantize_merged(true);
        let plan = ops::convert(&source, &options).unwrap_or_else(|error| panic!("{error}"));
        let notes = plan.notes.join("; ");
        let said = notes.contains("not quantized again after the merge");
        assert_eq!(said, is_named, "{}: {notes}", to.name);
    }
}

/// Adapters name the modules of a class, checkpoints leave its prefix out.
#[test]
fn matrices_of_a_tower_are_changed_too() {
    let name = "visual.blocks.0.attn.qkv";
    let weights = Safetensors::new()
        .tensor("model.norm.weight", "F32", &[4], f32s(&[1.0; 4]))
        .tensor(&format!("{name}.weight"), "F32", &[2, 4], f32s(&[1.0; 8]));
    let config = json!({"model_type": "qwen2_5_vl"}).to_string().into_bytes();
    let base = folder(&[("config.json", config), ("model.safetensors", weights.build())]);
    let base = Model::open(base.path()).expect("a model");
    let stored = format!("base_model.model.model.{name}");
    let (a, b) = (format!("{stored}.lora_A.weight"), format!("{stored}.lora_B.weight"));
    let tensors =
        [(a.as_str(), &[1, 4][..], vec![1.0; 4]), (b.as_str(), &[2, 1][..], vec![1.0, 2.0])];
    let config = peft(&json!({"r": 1, "lora_alpha": 1}));
    let folder = adapter("adapter_model.safetensors", &tensors, &config);
    let adapter = Adapter::open(folder.path()).expect("an adapter");
    let merged = Adapter::merged(&base, &[adapter.into()]).expect("a merged model");
    let found = values(&merged, &format!("{name}.weight"));
    assert_eq!(found, [2.0, 2.0, 2.0, 2.0, 3.0, 3.0, 3.0, 3.0]);
}

/// Programs that divide parameters save such files if they gather nothing.
#[test]
fn an_adapter_without_tensors_changes_nothing_and_is_refused() {
    let folder = adapter("adapter_model.safetensors", &[], &peft(&json!({})));
    let error = merged(folder.path()).expect_err("nothing to merge");
    assert!(error.to_string().contains("changes no tensor"), "{error}");
    let lone = Adapter::open(folder.path()).expect("an adapter");
    let error = ops::adapter_in_gguf(&lone, &base(), None).expect_err("nothing to convert");
    assert!(error.to_string().contains("changes no tensor"), "{error}");
    let model = Model::open(folder.path()).expect("no tensors");
    let checked = ops::check_consistency(&model, weighbridge::Strictness::Default).expect("checks");
    assert!(checked.faults.join("; ").contains("changes no tensor"), "{:?}", checked.faults);
}

/// One value that is none makes every product with it none.
#[test]
fn an_adapter_with_nan_is_refused() {
    let (a, b) =
        ("base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", "lora_B.weight");
    let width = base().stored_tensor(&format!("{Q}.weight")).expect("a matrix").shape().to_vec();
    let count = |axis: usize| 2 * usize::try_from(width[axis]).expect("a small number");
    let mut of_a = numbers(1, count(1));
    of_a[5] = f32::NAN;
    let of_b = numbers(2, count(0));
    let tensors =
        [(a.to_owned(), [2, width[1]], of_a), (a.replace("lora_A.weight", b), [width[0], 2], of_b)];
    let tensors =
        tensors.each_ref().map(|(name, shape, values)| (name.as_str(), &shape[..], values.clone()));
    let folder = adapter("adapter_model.safetensors", &tensors, &peft(&json!({})));
    let error = merged(folder.path()).expect_err("NaN");
    let said = error.to_string();
    assert!(said.contains("lora_A.weight") && said.contains("element 5 is NaN"), "{said}");
    let lone = Adapter::open(folder.path()).expect("an adapter");
    assert!(ops::adapter_in_gguf(&lone, &base(), None).is_err());
}

/// Tensors of a model with images and sound: names, shapes, and a number that their values start from.
type Named<'t> = (&'t str, &'t [u64], usize);

const TOWERS: &[Named<'_>] = &[
    ("model.norm.weight", &[4], 1),
    ("model.layers.0.self_attn.q_proj.weight", &[4, 4], 2),
    ("model.layers.0.self_attn.q_proj.bias", &[4], 3),
    ("model.image_newline", &[4], 4),
    ("visual.patch_embed.proj.weight", &[4, 3, 2, 2, 2], 5),
    ("visual.patch_embed.proj.bias", &[4], 6),
    ("visual.pos_embed", &[2, 4], 7),
    ("visual.embed_positions.weight", &[2, 4], 20),
    ("visual.blocks.0.norm1.weight", &[4], 8),
    ("visual.blocks.0.norm1.bias", &[4], 9),
    ("visual.blocks.0.attn.proj.weight", &[4, 4], 10),
    ("visual.blocks.0.attn.proj.bias", &[4], 11),
    ("visual.blocks.1.norm1.weight", &[4], 12),
    ("visual.blocks.1.norm1.bias", &[4], 13),
    ("visual.merger.mlp.0.weight", &[4, 4], 14),
    ("visual.merger.mlp.0.bias", &[4], 15),
    ("audio_tower.conv1.weight", &[4, 4, 3], 16),
    ("audio_tower.layers.0.fc1.weight", &[4, 4], 17),
    ("multi_modal_projector.mm_input_projection_weight", &[4, 4], 18),
    ("multi_modal_projector.mm_soft_emb_norm.weight", &[4], 19),
];

/// The model, with other values in the tensors whose names `changes` accepts.
fn with_towers(prefix: &str, changes: impl Fn(&str) -> bool) -> (Model, TempDir) {
    let mut weights = Safetensors::new();
    for (name, shape, start) in TOWERS {
        let start = start + if changes(name) { 5 } else { 0 };
        let count = usize::try_from(shape.iter().product::<u64>()).expect("a small number");
        weights =
            weights.tensor(&format!("{prefix}{name}"), "F32", shape, f32s(&numbers(start, count)));
    }
    let config = json!({"model_type": "qwen2_5_vl"}).to_string().into_bytes();
    let folder = folder(&[("config.json", config), ("model.safetensors", weights.build())]);
    (Model::open(folder.path()).expect("a model"), folder)
}

/// Whole tensors are exact, matrices as near as their rank allows: all of them here.
#[test]
fn an_adapter_of_a_vision_and_audio_model_merges_back_to_the_tuned_model() {
    let changes = |name: &str| !name.contains("blocks.1") && !name.contains("attn.proj.weight");
    let (base, tuned) = (with_towers("", |_| false), with_towers("", changes));
    let out = tempfile::tempdir().expect("a folder");
    let path = out.path().join("adapter");
    let found = ops::extract_adapter(&base.0, &tuned.0, 4).expect("a plan");
    found.plan.run(&path, &WriteOptions::new()).expect("files");
    // Programs put prefixes before names.
    for prefix in ["", "module."] {
        let base = with_towers(prefix, |_| false);
        let adapter = Adapter::open(&path).expect("an adapter");
        let merged = Adapter::merged(&base.0, &[adapter.into()]).expect("a merged model");
        for (name, shape, _) in TOWERS {
            let merged = values(&merged, &format!("{prefix}{name}"));
            let tuned = values(&tuned.0, name);
            if shape.len() == 2 && name.ends_with(".weight") && !name.contains("embed") {
                close(&merged, &tuned);
            } else {
                assert_eq!(merged, tuned, "{name}");
            }
        }
    }
    // PEFT requires all tensors of a module that is saved, and no other module may match its name. A number alone is the end
    // of the names of layers too, and `proj` that of a convolution.
    let config = std::fs::read(path.join("adapter_config.json")).expect("a config");
    let config: Json = serde_json::from_slice(&config).expect("JSON");
    assert_eq!(config["target_modules"], json!(["q_proj", "mlp.0", "fc1"]));
    let saved = [
        "model.language_model.norm",
        "model.visual.patch_embed.proj",
        "model.visual.embed_positions",
        "model.visual.blocks.0.norm1",
        "audio_tower.conv1",
        "multi_modal_projector.mm_soft_emb_norm",
    ];
    assert_eq!(config["modules_to_save"], json!(saved));
    let written = Model::open(&path).expect("an adapter's files");
    for name in ["blocks.0.norm1.bias", "merger.mlp.0.base_layer.bias", "pos_embed"] {
        let name = format!("base_model.model.model.visual.{name}");
        assert!(written.stored_tensor(&name).is_ok(), "{name}");
    }
}

/// A base without its vision model, such as one in GGUF, has no place for what the adapter changes there.
#[test]
fn a_whole_tensor_of_a_tower_that_the_base_lacks_is_named() {
    let name = "base_model.model.visual.patch_embed.proj.weight";
    let tensors = [(name, &[2, 3, 2, 2, 2][..], numbers(1, 48))];
    let config = peft(&json!({"modules_to_save": ["visual.patch_embed.proj"]}));
    let folder = adapter("adapter_model.safetensors", &tensors, &config);
    let error = merged(folder.path()).expect_err("no vision model");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("part of the vision model"), "{error}");
}
