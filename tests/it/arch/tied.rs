//! Models that use their embedding as output matrix, and what changes or names only one of the two.

use std::path::Path;

use serde_json::{Value as Json, json};
use tempfile::TempDir;
use weighbridge::adapter::Adapter;
use weighbridge::container::{GGUF, MLX, SAFETENSORS};
use weighbridge::ops::{self, ConvertOptions, MergeMethod, MergeRecipe, merge_models};
use weighbridge::{DType, ErrorKind, Model, Strictness, WriteOptions};

use crate::support::{Safetensors, copy_of, f32s, folder, put, sample};

const EMBEDDING: &str = "token_embedding.weight";
const OUTPUT: &str = "output.weight";

fn values(model: &Model, name: &str) -> Vec<f32> {
    model.tensor(name).unwrap_or_else(|error| panic!("{error}")).to_vec().expect("values")
}

/// The sample without or with an output matrix, in F32.
fn model(head: Option<f32>) -> TempDir {
    let files = copy_of(sample("hf"));
    let model = Model::open(files.path()).expect("the sample");
    let mut file = Safetensors::new();
    for tensor in model.stored_tensors() {
        if tensor.name() != "lm_head.weight" {
            let bytes = f32s(&tensor.dequantize().expect("values"));
            file = file.tensor(tensor.name(), "F32", tensor.shape(), bytes);
        }
    }
    let embedding = model.tensor(EMBEDDING).expect("a tensor");
    if let Some(factor) = head {
        let own: Vec<f32> =
            embedding.dequantize().expect("values").iter().map(|v| v * factor).collect();
        file = file.tensor("lm_head.weight", "F32", embedding.shape(), f32s(&own));
    }
    put(files.path(), "model.safetensors", file.build());
    state(files.path(), "tie_word_embeddings", json!(head.is_none()));
    files
}

fn state(files: &Path, key: &str, value: Json) {
    let text = std::fs::read_to_string(files.join("config.json")).expect("a config");
    let mut config: Json = serde_json::from_str(&text).expect("JSON");
    config[key] = value;
    put(files, "config.json", config.to_string());
}

fn adapter(tensors: &[(&str, &[u64], &[f32])], more: &Json) -> TempDir {
    let mut weights = Safetensors::new();
    for (name, shape, values) in tensors {
        weights = weights.tensor(&format!("base_model.model.{name}"), "F32", shape, f32s(values));
    }
    let mut config = json!({"peft_type": "LORA", "r": 1, "lora_alpha": 1});
    config.as_object_mut().expect("an object").extend(more.as_object().expect("keys").clone());
    folder(&[
        ("adapter_model.safetensors", weights.build()),
        ("adapter_config.json", config.to_string().into_bytes()),
    ])
}

fn merged(base: &Path, adapter: &Path) -> weighbridge::Result<Model> {
    Adapter::merged(&Model::open(base)?, &[Adapter::open(adapter)?.into()])
}

/// Writes a model, and returns what was written and the notes of the plan.
fn written(model: &Model, options: &ConvertOptions, name: &str) -> (TempDir, Model, String) {
    let out = tempfile::tempdir().expect("a folder");
    let path = out.path().join(name);
    let plan = ops::convert(model, options).unwrap_or_else(|error| panic!("{error}"));
    plan.run(&path, &WriteOptions::new()).expect("written");
    let model = Model::open(&path).expect("a model");
    (out, model, plan.notes.join("; "))
}

/// Without a statement, the class decides whether an equal output matrix is the embedding.
#[test]
fn an_output_matrix_that_equals_the_embedding_of_a_class_that_ties_them() {
    for (class, is_left_out) in [("gemma", true), ("llama", false)] {
        let files = model(Some(1.0));
        for (key, value) in
            [("model_type", json!(class)), ("hidden_activation", json!("gelu_pytorch_tanh"))]
        {
            state(files.path(), key, value);
        }
        state(files.path(), "tie_word_embeddings", Json::Null);
        let own = Model::open(files.path()).expect("a model");
        let (_out, back, notes) = written(&own, &ConvertOptions::new(&SAFETENSORS), "st");
        let is_stored = back.stored_tensor("lm_head.weight").is_ok();
        assert_eq!(!is_stored, is_left_out, "{class}: {notes}");
        assert!(!notes.contains("differs from the embedding"), "{class}: {notes}");
    }
}

/// CodeShell as published: the output matrix alone, a config that states neither that it is the embedding nor the width of
/// the network. llama.cpp requires both.
#[test]
fn an_output_matrix_alone_is_the_embedding_of_a_family_that_ties_them() {
    let config = json!({"model_type": "kclgpt", "n_embd": 8, "n_layer": 1, "n_head": 4, "num_query_groups": 2,
        "n_positions": 16, "n_inner": null, "vocab_size": 5, "layer_norm_epsilon": 1e-5});
    let mut file = Safetensors::new().tensor("lm_head.weight", "F32", &[5, 8], f32s(&[0.5; 40]));
    for (module, rows, columns) in [
        ("ln_f", 8, 0),
        ("h.0.ln_1", 8, 0),
        ("h.0.ln_2", 8, 0),
        ("h.0.attn.c_attn", 16, 8),
        ("h.0.attn.c_proj", 8, 8),
        ("h.0.mlp.c_fc", 32, 8),
        ("h.0.mlp.c_proj", 8, 32),
    ] {
        let shape: Vec<u64> = [rows, columns].into_iter().filter(|of| *of > 0).collect();
        let values = |count: u64| f32s(&(0..count).map(|n| n as f32).collect::<Vec<_>>());
        let name = |end: &str| format!("transformer.{module}.{end}");
        file = file.tensor(&name("weight"), "F32", &shape, values(shape.iter().product())).tensor(
            &name("bias"),
            "F32",
            &[rows],
            values(rows),
        );
    }
    let files = folder(&[
        ("model.safetensors", file.build()),
        ("config.json", config.to_string().into_bytes()),
    ]);
    let model = Model::open(files.path()).expect("a model");
    let (_out, back, _) = written(&model, &ConvertOptions::new(&GGUF).one_file(true), "x.gguf");
    for name in ["token_embd.weight", "output.weight"] {
        assert_eq!(back.stored_tensor(name).expect(name).shape(), [5, 8]);
    }
    let number = |key: &str| back.metadata().u64(&format!("codeshell.{key}"));
    assert_eq!(number("feed_forward_length"), Some(32));
    assert_eq!(number("attention.head_count_kv"), Some(2));
    assert_eq!(values(&back, "layers.0.attention.k.bias"), [8.0, 9.0, 10.0, 11.0]);
}

/// PEFT trains a copy of a module to save, and leaves the output matrix as it was.
#[test]
fn a_trained_embedding_leaves_the_output_matrix_as_it_was() {
    let base = model(None);
    let own = Model::open(base.path()).expect("a model");
    let (shape, before) =
        (own.tensor(EMBEDDING).expect("it").shape().to_vec(), values(&own, EMBEDDING));
    let after: Vec<f32> = before.iter().map(|value| value + 1.0).collect();
    let tensors = [("model.embed_tokens.weight", &*shape, &*after)];
    let files = adapter(&tensors, &json!({"modules_to_save": ["embed_tokens"]}));
    let found = merged(base.path(), files.path()).expect("merged");
    assert_eq!(
        (values(&found, EMBEDDING), values(&found, OUTPUT)),
        (after.clone(), before.clone())
    );
    assert!(!found.config().expect("a config").tie_embeddings.as_ref().expect("stated").value);
    let (_out, back, notes) = written(&found, &ConvertOptions::new(&SAFETENSORS), "st");
    assert_eq!(values(&back, OUTPUT), before);
    let tied = back
        .document("config.json")
        .and_then(|config| config.get("tie_word_embeddings")?.as_bool());
    assert_eq!(tied, Some(false));
    assert!(notes.contains("the output matrix is written separately"), "{notes}");
    let (_out, back, _) = written(&found, &ConvertOptions::new(&GGUF), "x.gguf");
    assert_eq!((values(&back, EMBEDDING), values(&back, OUTPUT)), (after.clone(), before));
    // Both are one where the config asks for it, and where PEFT saves the embedding of a longer vocabulary.
    for config in
        [json!({"modules_to_save": ["embed_tokens"], "ensure_weight_tying": true}), json!({})]
    {
        let files = adapter(&tensors, &config);
        let found = merged(base.path(), files.path()).expect("merged");
        assert!(!found.has(OUTPUT) && values(&found, EMBEDDING) == after);
    }
}

#[test]
fn an_adapter_of_the_output_matrix_alone_gives_the_model_one() {
    let base = model(None);
    let own = Model::open(base.path()).expect("a model");
    let (shape, before) =
        (own.tensor(EMBEDDING).expect("it").shape().to_vec(), values(&own, EMBEDDING));
    let (rows, width) = (shape[0] as usize, shape[1] as usize);
    let whole: Vec<f32> = before.iter().map(|value| value * 3.0).collect();
    let files =
        adapter(&[("lm_head.weight", &shape, &whole)], &json!({"modules_to_save": ["lm_head"]}));
    let found = merged(base.path(), files.path()).expect("merged");
    assert_eq!((values(&found, EMBEDDING), values(&found, OUTPUT)), (before.clone(), whole));
    let (ones, halves) = (vec![1.0; width], vec![0.5; rows]);
    let tensors = [
        ("lm_head.lora_A.weight", &[1, shape[1]][..], &*ones),
        ("lm_head.lora_B.weight", &[shape[0], 1], &*halves),
    ];
    let files = adapter(&tensors, &json!({"target_modules": ["lm_head"]}));
    for to in [&SAFETENSORS, &GGUF] {
        let name = if *to == GGUF { "x.gguf" } else { "st" };
        let found = merged(base.path(), files.path()).expect("merged");
        let (_out, back, _) = written(&found, &ConvertOptions::new(to), name);
        let expected: Vec<f32> = before.iter().map(|value| value + 0.5).collect();
        assert_eq!(
            (values(&back, EMBEDDING), values(&back, OUTPUT)),
            (before.clone(), expected),
            "{name}"
        );
    }
}

/// The products of a tied adapter change both, once.
#[test]
fn a_product_of_the_embedding_changes_both() {
    let base = model(None);
    let own = Model::open(base.path()).expect("a model");
    let shape = own.tensor(EMBEDDING).expect("it").shape().to_vec();
    let (ones, halves) = (vec![1.0; shape[0] as usize], vec![0.5; shape[1] as usize]);
    let embedding = [
        ("model.embed_tokens.lora_embedding_A", &[1, shape[0]][..], &*ones),
        ("model.embed_tokens.lora_embedding_B", &[shape[1], 1], &*halves),
    ];
    let expected: Vec<f32> = values(&own, EMBEDDING).iter().map(|value| value + 0.5).collect();
    let files = adapter(&embedding, &json!({"target_modules": ["embed_tokens"]}));
    let found = merged(base.path(), files.path()).expect("merged");
    assert!(!found.has(OUTPUT) && values(&found, EMBEDDING) == expected);
    let (_out, _, notes) = written(&found, &ConvertOptions::new(&SAFETENSORS), "st");
    assert!(notes.contains("also changes the output matrix"), "{notes}");
    let (head_a, head_b) = (halves.clone(), ones.clone());
    let mut both = embedding.to_vec();
    both.push(("lm_head.lora_A.weight", &[1, 256], &head_a));
    both.push(("lm_head.lora_B.weight", &[512, 1], &head_b));
    let files = adapter(&both, &json!({"ensure_weight_tying": true}));
    let found = merged(base.path(), files.path()).expect("merged");
    assert!(!found.has(OUTPUT) && values(&found, EMBEDDING) == expected);
}

/// Adapters are merged one after another: the second one finds what the first one has changed.
#[test]
fn adapters_are_merged_in_their_order() {
    let base = model(None);
    let own = Model::open(base.path()).expect("a model");
    let shape = own.tensor(EMBEDDING).expect("it").shape().to_vec();
    let before = values(&own, EMBEDDING);
    let (tokens, width) = (vec![1.0; shape[0] as usize], vec![1.0; shape[1] as usize]);
    let (half, quarter) = (vec![0.5; shape[1] as usize], vec![0.25; shape[0] as usize]);
    let of_embedding = adapter(
        &[
            ("model.embed_tokens.lora_embedding_A", &[1, shape[0]], &tokens),
            ("model.embed_tokens.lora_embedding_B", &[shape[1], 1], &half),
        ],
        &json!({"target_modules": ["embed_tokens"]}),
    );
    let of_head = adapter(
        &[
            ("lm_head.lora_A.weight", &[1, shape[1]], &width),
            ("lm_head.lora_B.weight", &[shape[0], 1], &quarter),
        ],
        &json!({"target_modules": ["lm_head"]}),
    );
    let whole: Vec<f32> = before.iter().map(|value| value * 3.0).collect();
    let save = json!({"modules_to_save": ["embed_tokens"]});
    let saved = adapter(&[("model.embed_tokens.weight", &shape, &whole)], &save);
    let row = vec![7.0; shape[1] as usize];
    let of_row = adapter(
        &[("model.embed_tokens.token_adapter.trainable_tokens_delta", &[1, shape[1]], &row)],
        &json!({"trainable_token_indices": [2]}),
    );
    let added = |more: f32| before.iter().map(|value| value + more).collect::<Vec<f32>>();
    let all = |files: &[&TempDir]| {
        let adapters = files.iter().map(|files| Adapter::open(files.path()).expect("it").into());
        Adapter::merged(&own, &adapters.collect::<Vec<_>>())
            .unwrap_or_else(|error| panic!("{error}"))
    };
    // The output matrix is separated from an embedding that has been changed, or is changed afterwards.
    let found = all(&[&of_embedding, &of_head]);
    assert_eq!((values(&found, EMBEDDING), values(&found, OUTPUT)), (added(0.5), added(0.75)));
    let found = all(&[&of_head, &of_embedding]);
    assert_eq!((values(&found, EMBEDDING), values(&found, OUTPUT)), (added(0.5), added(0.25)));
    let found = all(&[&of_embedding, &saved]);
    assert_eq!((values(&found, EMBEDDING), values(&found, OUTPUT)), (whole, added(0.5)));
    let (_out, _, notes) = written(&found, &ConvertOptions::new(&SAFETENSORS), "st");
    assert!(notes.contains("takes the place of that which was merged before"), "{notes}");
    // Rows too.
    let at = |model: &Model| values(model, EMBEDDING)[2 * shape[1] as usize];
    assert_eq!(
        (at(&all(&[&of_row, &of_embedding])), at(&all(&[&of_embedding, &of_row]))),
        (7.5, 7.0)
    );
    // What was merged before stays.
    let first = all(&[&of_embedding]);
    let head = Adapter::open(of_head.path()).expect("it").into();
    let found = Adapter::merged(&first, &[head]).expect("merged");
    assert_eq!((values(&found, EMBEDDING), values(&found, OUTPUT)), (added(0.5), added(0.75)));
}

#[test]
fn the_embedding_of_a_tied_model_is_merged_as_its_output_matrix() {
    let (tied, own) = (model(None), model(Some(3.0)));
    let open = |files: &TempDir| Model::open(files.path()).expect("a model");
    let embedding = values(&open(&tied), EMBEDDING);
    for order in [[&tied, &own], [&own, &tied]] {
        let mut recipe = MergeRecipe::new(MergeMethod::Linear);
        order.into_iter().for_each(|files| {
            recipe.add(open(files), 0.5);
        });
        let found = merge_models(&recipe).unwrap_or_else(|error| panic!("{error}"));
        let expected: Vec<f32> = embedding.iter().map(|value| value * 2.0).collect();
        let close = |a: &f32, b: &f32| (a - b).abs() <= 1e-6 * (1.0 + b.abs());
        assert!(values(&found, OUTPUT).iter().zip(&expected).all(|(a, b)| close(a, b)));
        let (_out, _, notes) = written(&found, &ConvertOptions::new(&SAFETENSORS), "st");
        assert!(notes.contains("uses its embedding as output matrix"), "{notes}");
    }
    // Nothing of another model is dropped in silence.
    let more = model(None);
    let (model_of, mut file) = (open(&more), Safetensors::new());
    for tensor in model_of.stored_tensors() {
        let bytes = f32s(&tensor.dequantize().expect("values"));
        file = file.tensor(tensor.name(), "F32", tensor.shape(), bytes);
    }
    let bias =
        file.tensor("model.layers.0.self_attn.q_proj.bias", "F32", &[256], f32s(&[0.0; 256]));
    put(more.path(), "model.safetensors", bias.build());
    let mut recipe = MergeRecipe::new(MergeMethod::Linear);
    [&tied, &more].into_iter().for_each(|files| {
        recipe.add(open(files), 0.5);
    });
    let error = merge_models(&recipe).expect_err("a bias that one of them lacks");
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    assert!(error.to_string().contains("q_proj.bias"), "{error}");
}

/// A model whose embedding is stored as the output matrix alone. `prefix` precedes the names of the language model.
fn stored_as_output(prefix: &str) -> TempDir {
    let files = model(None);
    let mut file = Safetensors::new();
    for tensor in Model::open(files.path()).expect("a model").stored_tensors() {
        let name = tensor.name().replace("model.embed_tokens", "lm_head");
        let name = name.replace("model.", prefix);
        let bytes = f32s(&tensor.dequantize().expect("values"));
        file = file.tensor(&name, "F32", tensor.shape(), bytes);
    }
    put(files.path(), "model.safetensors", file.build());
    files
}

/// transformers ties in either direction: an AWQ export of a tied Qwen2.5 had the output matrix alone.
#[test]
fn a_tied_model_may_store_its_output_matrix_alone() {
    let before = values(&Model::open(model(None).path()).expect("a model"), EMBEDDING);
    for prefix in ["model.", "model.language_model."] {
        let files = stored_as_output(prefix);
        let found = Model::open(files.path()).expect("a model");
        assert_eq!(found.resolution().expect("names").missing, [""; 0]);
        assert!(!found.has(OUTPUT) && values(&found, EMBEDDING) == before);
        assert!(found.config().expect("a config").tie_embeddings.as_ref().expect("it").value);
        let checked = ops::check_consistency(&found, Strictness::Strict).expect("checked");
        // The class has other names than the second ones.
        assert_eq!(checked.faults.is_empty(), prefix == "model.", "{:?}", checked.faults);
        let notes = checked.notes.join("; ");
        let name = "model.embed_tokens.weight";
        assert_eq!(
            notes,
            format!(
                "the model lacks {name}: its config ties it to lm_head.weight, which is read in its place, as \
                 transformers 5 does"
            )
        );
        for (to, out, name) in [
            (&SAFETENSORS, "st", name),
            (&MLX, "mlx", name),
            (&GGUF, "x.gguf", "token_embd.weight"),
        ] {
            let (_out, back, told) = written(&found, &ConvertOptions::new(to), out);
            assert!(back.stored_tensor(name).is_ok() && !back.has(OUTPUT), "{out}");
            assert_eq!(values(&back, EMBEDDING), before, "{out}");
            assert!(told.contains(&notes), "{out}: {told}");
        }
    }
    // Without the tie, the embedding is missing.
    let files = stored_as_output("model.");
    state(files.path(), "tie_word_embeddings", json!(false));
    let found = Model::open(files.path()).expect("a model");
    assert_eq!(found.resolution().expect("names").missing, [EMBEDDING]);
}

/// `save_model` of safetensors stores a shared tensor under one of its names, and states the others.
#[test]
fn a_shared_tensor_is_found_under_its_other_name() {
    let files = model(None);
    let before = Model::open(files.path()).expect("a model");
    let mut file = Safetensors::new().metadata("model.embed_tokens.weight", "lm_head.weight");
    for tensor in before.stored_tensors() {
        let name = tensor.name().replace("model.embed_tokens", "lm_head");
        file =
            file.tensor(&name, "F32", tensor.shape(), f32s(&tensor.dequantize().expect("values")));
    }
    let (config, renamed) = (files.path().join("config.json"), file.build());
    let found = folder(&[
        ("config.json", std::fs::read(config).expect("it")),
        ("model.safetensors", renamed),
    ]);
    let found = Model::open(found.path()).expect("a model");
    assert!(found.resolution().expect("names").missing.is_empty());
    assert_eq!(values(&found, EMBEDDING), values(&before, EMBEDDING));
    let (_out, back, _) =
        written(&found, &ConvertOptions::new(&SAFETENSORS).dtype(DType::F32), "st");
    assert_eq!(values(&back, EMBEDDING), values(&before, EMBEDDING));
    assert!(!back.has(OUTPUT));
}

/// PEFT merges the biases that were trained, and those of its own matrices.
#[test]
fn biases_of_adapters_are_merged() {
    let files = model(None);
    let before = Model::open(files.path()).expect("a model");
    let mut file = Safetensors::new();
    for tensor in before.stored_tensors() {
        let bytes = f32s(&tensor.dequantize().expect("values"));
        file = file.tensor(tensor.name(), "F32", tensor.shape(), bytes);
    }
    let (q, o) = ("model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.o_proj");
    for module in [q, o] {
        file = file.tensor(&format!("{module}.bias"), "F32", &[256], f32s(&[1.0; 256]));
    }
    put(files.path(), "model.safetensors", file.build());
    state(files.path(), "attention_bias", json!(true));
    let (zeros, twos) = (vec![0.0; 256], vec![2.0; 256]);
    let names = [".lora_A.weight", ".lora_B.weight", ".lora_B.bias", ".base_layer.bias"]
        .map(|end| format!("{q}{end}"));
    let products = [(&*names[0], &[1u64, 256][..], &*zeros), (&names[1], &[256, 1], &zeros)];
    let bias_of_o = format!("{o}.bias");
    let mut trained = products.to_vec();
    trained.extend([(&*names[3], &[256u64][..], &*twos), (&*bias_of_o, &[256], &*twos)]);
    let found =
        merged(files.path(), adapter(&trained, &json!({"bias": "all"})).path()).expect("merged");
    for bias in ["layers.0.attention.q.bias", "layers.0.attention.output.bias"] {
        assert_eq!(values(&found, bias), [2.0; 256]);
    }
    let mut added = products.to_vec();
    added.push((&*names[2], &[256], &*twos));
    let scaled = json!({"lora_bias": true, "lora_alpha": 2});
    let found = merged(files.path(), adapter(&added, &scaled).path()).expect("merged");
    assert_eq!(values(&found, "layers.0.attention.q.bias"), [5.0; 256]);
    assert_eq!(values(&found, "layers.0.attention.output.bias"), [1.0; 256]);
    let error = merged(model(None).path(), adapter(&added, &scaled).path()).expect_err("no bias");
    assert!(error.to_string().contains("q_proj, which has none"), "{error}");
}

/// The bias of a product of a matrix that holds q, k and v is that of all three.
#[test]
fn a_bias_of_a_fused_matrix_is_merged() {
    let (wide, half) = (vec![0.0; 32], vec![0.0; 96]);
    let bias: Vec<f32> = (0..96u8).map(f32::from).collect();
    let files = folder(&[("config.json", br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 32, "vocab_size": 40, "n_positions": 16}"#.to_vec())]);
    let mut file = Safetensors::new();
    let vector = |count: usize| f32s(&vec![1.0; count]);
    for (name, shape) in [
        ("wte.weight", &[40u64, 32][..]),
        ("wpe.weight", &[16, 32]),
        ("ln_f.weight", &[32]),
        ("ln_f.bias", &[32]),
        ("h.0.ln_1.weight", &[32]),
        ("h.0.ln_1.bias", &[32]),
        ("h.0.ln_2.weight", &[32]),
        ("h.0.ln_2.bias", &[32]),
        ("h.0.attn.c_attn.weight", &[32, 96]),
        ("h.0.attn.c_attn.bias", &[96]),
        ("h.0.attn.c_proj.weight", &[32, 32]),
        ("h.0.attn.c_proj.bias", &[32]),
        ("h.0.mlp.c_fc.weight", &[32, 128]),
        ("h.0.mlp.c_fc.bias", &[128]),
        ("h.0.mlp.c_proj.weight", &[128, 32]),
        ("h.0.mlp.c_proj.bias", &[32]),
    ] {
        let count = shape.iter().product::<u64>() as usize;
        file = file.tensor(&format!("transformer.{name}"), "F32", shape, vector(count));
    }
    put(files.path(), "model.safetensors", file.build());
    let module = "transformer.h.0.attn.c_attn";
    let names =
        ["lora_A.weight", "lora_B.weight", "lora_B.bias"].map(|end| format!("{module}.{end}"));
    let tensors = [
        (&*names[0], &[1u64, 32][..], &*wide),
        (&names[1], &[96, 1], &half),
        (&names[2], &[96], &bias),
    ];
    let lora =
        adapter(&tensors, &json!({"lora_bias": true, "lora_alpha": 2, "fan_in_fan_out": true}));
    let found = merged(files.path(), lora.path()).unwrap_or_else(|error| panic!("{error}"));
    let expected: Vec<f32> = bias.iter().map(|value| 1.0 + 2.0 * value).collect();
    for (name, part) in ["q", "k", "v"].iter().zip(expected.chunks(32)) {
        assert_eq!(values(&found, &format!("layers.0.attention.{name}.bias")), part, "{name}");
    }
    let (_out, back, _) = written(&found, &ConvertOptions::new(&GGUF), "x.gguf");
    assert_eq!(
        back.stored_tensor("blk.0.attn_qkv.bias").expect("it").to_vec::<f32>().expect("values"),
        expected
    );
}
