//! Models whose config and tensors do not belong together: what is missing, what was promised, and
//! packed arrays that no config explains.

#![allow(clippy::disallowed_methods, reason = "the files and their sizes are the test's own")]

use crate::support;
use std::path::Path;

use crate::support::{Safetensors, copy_of, folder, put, told, without_path};
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use weighbridge::arch::Dialect;
use weighbridge::container::{self, OLLAMA, SAFETENSORS};
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::recipe::FileType;
use weighbridge::recipe::llama_cpp::LlamaOptions;
use weighbridge::{ErrorKind, Model, OpenOptions, Strictness, WriteOptions};

const HF: &str = "assets/sample/hf";
const MLX: &str = "assets/sample/mlx-4bit";
const GGUF: &str = "assets/sample/sample-Q8_0.gguf";

fn json_of(path: impl AsRef<Path>) -> Json {
    let text = std::fs::read_to_string(path).expect("a document");
    serde_json::from_str(&text).expect("JSON")
}

/// A copy of a model's directory, whose config `change` has changed.
fn changed(model: &str, change: impl FnOnce(&mut Json)) -> TempDir {
    let copy = copy_of(model);
    let mut config = json_of(copy.path().join("config.json"));
    change(&mut config);
    put(copy.path(), "config.json", config.to_string());
    copy
}

fn model(path: impl AsRef<Path>) -> Model {
    Model::open(path).expect("a model")
}

/// The sample without some of its tensors.
fn lacking(names: &[&str]) -> TempDir {
    let copy = changed(HF, |_| {});
    let path = copy.path().join("model.safetensors");
    let store = Model::open(&path).expect("a model");
    let mut file = Safetensors::new();
    for tensor in store.stored_tensors().filter(|tensor| !names.contains(&tensor.name())) {
        let bytes = tensor.bytes(weighbridge::Part::Weight).expect("bytes").into_owned();
        file = file.tensor(tensor.name(), "BF16", tensor.shape(), bytes);
    }
    drop(store);
    std::fs::write(path, file.build()).expect("a file");
    copy
}

/// Every verb that makes another model of an incomplete one refuses, unless it is told otherwise.
#[test]
fn incomplete_models_need_permission() {
    let name = "model.layers.1.mlp.up_proj.weight";
    let source = lacking(&[name]);
    let provider = model(source.path());
    let out = tempfile::tempdir().unwrap();
    let convert = |format| ops::convert(&provider, &ConvertOptions::new(format)).unwrap();
    let file_type = FileType::from_name("Q8_0").unwrap();
    let gguf = out.path().join("model.gguf");
    let manifest = weighbridge::container::ollama::place("m", Some(out.path())).unwrap();
    let plans = [
        (convert(&container::GGUF), gguf.clone()),
        (convert(&SAFETENSORS), out.path().join("hf")),
        (convert(&container::MLX), out.path().join("mlx")),
        (convert(&OLLAMA), manifest.clone()),
        (ops::create(&provider, ops::CreateOptions::new()).unwrap(), manifest.clone()),
        (ops::quantize(&provider, &LlamaOptions::new(file_type), None, &gguf).unwrap(), gguf),
    ];
    for (plan, path) in plans {
        assert_eq!(plan.missing, ["layers.1.ffn.up.weight | layers.1.ffn.experts.up.weight"]);
        let error = plan.run(&path, &WriteOptions::new()).expect_err("it is incomplete");
        assert_eq!(error.kind(), ErrorKind::Malformed);
        assert!(!path.exists(), "{}", path.display());
        insta::allow_duplicates! {
            insta::assert_snapshot!(without_path(&told(&error), source.path()), @r"
            Malformed: ./model.safetensors: the model is incomplete: its architecture requires layers.1.ffn.up.weight | layers.1.ffn.experts.up.weight
            help: fetch the missing files, or write the incomplete model with WriteOptions::allow_incomplete
            ");
        }
        plan.run(&path, &WriteOptions::new().allow_incomplete(true)).unwrap();
        let written = Model::open(&path).unwrap();
        assert_eq!(written.len(), 19);
        drop(written);
        match path.is_dir() {
            true => std::fs::remove_dir_all(&path).unwrap(),
            false => std::fs::remove_file(&path).unwrap(),
        }
    }
}

/// Whole layers, and several tensors at once; what is complete has nothing to say.
#[test]
fn what_is_missing_is_listed() {
    let cases: [(&[&str], &[&str]); 3] = [
        (&[], &[]),
        (
            &["model.norm.weight", "model.embed_tokens.weight"],
            &["token_embedding.weight", "output_norm.weight"],
        ),
        (
            &["model.layers.0.self_attn.q_proj.weight", "model.layers.1.self_attn.q_proj.weight"],
            &["layers.[0-1].attention.q.weight"],
        ),
    ];
    for (without, missing) in cases {
        let source = lacking(without);
        let provider = model(source.path());
        let plan = ops::convert(&provider, &ConvertOptions::new(&SAFETENSORS)).unwrap();
        assert_eq!(plan.missing, missing);
    }
    let promised = changed(HF, |config| config["num_hidden_layers"] = json!(5));
    let provider = model(promised.path());
    let plan = ops::convert(&provider, &ConvertOptions::new(&SAFETENSORS)).unwrap();
    assert_eq!(plan.missing, ["layers.2..5"]);
}

/// A number of layers that the tensors cannot support is an error, not a list of that length.
#[test]
fn layers_that_no_tensor_supports() {
    for layers in [13_369_351u64, 65_537, 2000] {
        let source = changed(HF, |config| config["num_hidden_layers"] = json!(layers));
        let store = Model::open(source.path()).unwrap();
        let _resolution = store.resolution().unwrap();
        let error = store.config().expect_err("too many");
        assert_eq!(error.kind(), ErrorKind::Malformed);
        let said = told(&error);
        assert!(said.contains(&format!("{layers} layers, but ")), "{said}");
        assert!(said.contains("num_hidden_layers"), "{said}");
        for format in [&container::GGUF, &container::MLX] {
            let provider = model(source.path());
            let plan = ops::convert(&provider, &ConvertOptions::new(format));
            let bytes = plan.map(|plan| plan.bytes()).unwrap_or(0);
            assert!(bytes < 20 << 20, "{layers} layers: {bytes} bytes");
        }
    }
    let out = tempfile::tempdir().unwrap();
    let copy = out.path().join("model.gguf");
    std::fs::copy(GGUF, &copy).unwrap();
    let edit = |keys: &mut weighbridge::metadata::KeyValues| {
        keys.set("llama.block_count", weighbridge::metadata::Value::U32(13_369_351));
        Ok(())
    };
    ops::edit_metadata(&copy, edit, &WriteOptions::new()).unwrap();
    let provider = model(&copy);
    for format in [&SAFETENSORS, &container::MLX] {
        let error = ops::convert(&provider, &ConvertOptions::new(format)).expect_err("too many");
        assert!(error.to_string().contains("13369351 layers, but "), "{error}");
    }
}

/// Packed arrays that no config explains are not taken for weights.
#[test]
fn packed_arrays_without_a_config() {
    let said = |path: &Path| match Model::open(path) {
        Ok(store) => format!("opened: {}", support::notes(&store)),
        Err(error) => without_path(&told(&error), path),
    };
    let with = |quantization: Json| {
        changed(MLX, |config| {
            let config = config.as_object_mut().expect("an object");
            config.remove("quantization_config");
            match quantization {
                Json::Null => config.remove("quantization"),
                other => config.insert("quantization".to_owned(), other),
            };
        })
    };
    let cases =
        [json!("4bit"), Json::Null, json!([4, 64]), json!(4), json!({"bits": 4, "mode": "no"})];
    let texts: Vec<String> = cases.into_iter().map(|case| said(with(case).path())).collect();
    insta::assert_snapshot!(texts.join("\n"), @r#"
    Malformed: ./model.safetensors: tensor "model.embed_tokens.weight": MLX packed this weight (it is U32 and has .scales), but "quantization" in config.json is "4bit"; an object with "bits" and "group_size" is required
    help: fetch config.json again; Strictness::Lenient opens the codes as plain U32
    Malformed: ./model.safetensors: tensor "model.embed_tokens.weight": MLX packed this weight (it is U32 and has .scales), but config.json has no "quantization"; an object with "bits" and "group_size" is required
    help: fetch config.json again; Strictness::Lenient opens the codes as plain U32
    Malformed: ./model.safetensors: tensor "model.embed_tokens.weight": MLX packed this weight (it is U32 and has .scales), but "quantization" in config.json is [4,64]; an object with "bits" and "group_size" is required
    help: fetch config.json again; Strictness::Lenient opens the codes as plain U32
    Malformed: ./model.safetensors: tensor "model.embed_tokens.weight": MLX packed this weight (it is U32 and has .scales), but "quantization" in config.json is 4; an object with "bits" and "group_size" is required
    help: fetch config.json again; Strictness::Lenient opens the codes as plain U32
    Malformed: ./config.json: key "quantization.mode": "no", but affine, mxfp4, mxfp8, nvfp4 are known
    "#);
    for document in ["[]", "\"4bit\"", "null", "7", "true"] {
        let copy = changed(MLX, |_| {});
        put(copy.path(), "config.json", document);
        let said = said(copy.path());
        assert!(said.starts_with("Malformed: ./config.json: "), "{said}");
        assert!(said.contains("but a JSON object is required"), "{said}");
        // The file by itself finds the same config beside it.
        let file = copy.path().join("model.safetensors");
        let error = Model::open(&file).expect_err("no config explains it");
        assert!(error.to_string().contains("config.json is not used: "), "{error}");
    }
    // Codes as they are, for whoever asks for them.
    let copy = with(json!("4bit"));
    let lenient = OpenOptions::new().strictness(Strictness::Lenient);
    let store = lenient.open(copy.path()).expect("opened");
    assert!(
        support::notes(&store).contains("MLX packed this weight"),
        "{}",
        support::notes(&store)
    );
    // A file that came without any config contradicts nothing.
    let alone =
        folder(&[("x.safetensors", std::fs::read(format!("{MLX}/model.safetensors")).unwrap())]);
    let store = Model::open(alone.path().join("x.safetensors")).expect("opened");
    assert!(
        support::notes(&store).contains("MLX packed this weight"),
        "{}",
        support::notes(&store)
    );
    // A tensor that only happens to be called so.
    let file = Safetensors::new()
        .tensor("a.weight", "U32", &[2, 2], [0; 16])
        .tensor("a.scales", "F32", &[3, 1], [0; 12])
        .tensor("b.weight", "U32", &[2], [0; 8])
        .tensor("b.scales", "F32", &[2], [0; 8]);
    let plain = folder(&[("model.safetensors", file.build())]);
    put(plain.path(), "config.json", "{}");
    assert_eq!(Model::open(plain.path()).expect("opened").len(), 4);
}

/// Layers that use the keys and values of an earlier one need none of their own.
#[test]
fn shared_keys_and_values() {
    let tensors = |layers: u32, own: u32| {
        let mut file = Safetensors::new()
            .tensor("model.embed_tokens.weight", "F32", &[1, 1], [0; 4])
            .tensor("model.norm.weight", "F32", &[1], [0; 4]);
        for n in 0..layers {
            let mut names = vec!["self_attn.q_proj", "self_attn.o_proj", "mlp.gate_proj"];
            names.extend(["mlp.up_proj", "mlp.down_proj"]);
            if n < own {
                names.extend(["self_attn.k_proj", "self_attn.v_proj"]);
            }
            for name in names {
                file =
                    file.tensor(&format!("model.layers.{n}.{name}.weight"), "F32", &[1, 1], [0; 4]);
            }
            let norms = ["input", "post_attention", "pre_feedforward", "post_feedforward"];
            for norm in norms {
                let name = format!("model.layers.{n}.{norm}_layernorm.weight");
                file = file.tensor(&name, "F32", &[1], [0; 4]);
            }
        }
        file.build()
    };
    let missing = |config: Json, layers, own| {
        let folder = folder(&[("model.safetensors", tensors(layers, own))]);
        put(folder.path(), "config.json", config.to_string());
        let store = Model::open(folder.path()).expect("a model");
        store.resolution().expect("resolved").missing.join(" ")
    };
    let shared = |family: &str, layers: u32, shared: u32| json!({"model_type": family, "num_hidden_layers": layers, "num_kv_shared_layers": shared});
    assert_eq!(missing(shared("gemma3n_text", 5, 2), 5, 3), "");
    assert_eq!(missing(shared("gemma4_text", 4, 2), 4, 2), "");
    // One that should have them lacks them.
    let lacks = "layers.2.attention.k.weight layers.2.attention.v.weight";
    assert_eq!(missing(shared("gemma3n_text", 5, 2), 5, 2), lacks);
    assert_eq!(missing(shared("gemma3n_text", 4, 0), 4, 4), "");
    // Where all would share, none does.
    let lacks = "layers.3.attention.k.weight layers.3.attention.v.weight";
    assert_eq!(missing(shared("gemma3n_text", 4, 4), 4, 3), lacks);
    // Transformers 5 leaves the default of 15 out.
    let default = json!({"model_type": "gemma3n_text", "num_hidden_layers": 20});
    assert_eq!(missing(default.clone(), 20, 5), "");
    assert_eq!(missing(default, 20, 4), "layers.4.attention.k.weight layers.4.attention.v.weight");

    // llama.cpp and mlx-lm require them of Gemma 3n all the same, and read nothing of them.
    let config = |family: &str| {
        let mut config = shared(family, 5, 2);
        let keys = ["hidden_size", "intermediate_size", "num_attention_heads", "vocab_size"];
        keys.iter().for_each(|key| config[key] = 1.into());
        config
    };
    let names = |family: &str, dialect| -> Vec<String> {
        let files = [("model.safetensors", tensors(5, 3))];
        let folder = folder(&files);
        put(folder.path(), "config.json", config(family).to_string());
        let model = Model::open(folder.path()).expect("a model");
        let spoken = model.tensors_in(dialect).expect("names").tensors;
        spoken.iter().map(|tensor| tensor.name().to_owned()).collect()
    };
    for (dialect, key, counts) in [
        (Dialect::Gguf, "attn_k.weight", [5, 3]),
        (Dialect::Mlx, "self_attn.k_proj.weight", [5, 3]),
        (Dialect::HuggingFace, "self_attn.k_proj.weight", [3, 3]),
    ] {
        for (family, count) in ["gemma3n_text", "gemma4_text"].into_iter().zip(counts) {
            let names = names(family, dialect);
            let found = names.iter().filter(|name| name.ends_with(key)).count();
            assert_eq!(found, count, "{family} {dialect:?} {names:?}");
        }
    }
}

/// Two layers of Gemma 4 with two experts of one value each, one by one or all in one tensor, without some.
fn gemma4_experts(apart: bool, without: &[&str]) -> TempDir {
    let one = |value: f32| value.to_le_bytes().to_vec();
    let mut tensors = vec![("model.embed_tokens.weight".to_owned(), vec![1, 1], one(0.0))];
    for layer in 0..2 {
        let at = format!("model.layers.{layer}");
        let mut put = |name: &str, shape: &[u64], values: &[f32]| {
            let bytes = values.iter().flat_map(|value| one(*value)).collect();
            tensors.push((format!("{at}.{name}"), shape.to_vec(), bytes));
        };
        put("router.proj.weight", &[2, 1], &[0.5, 0.25]);
        match apart {
            true => {
                for (expert, values) in [(0, [1.0, 2.0, 3.0]), (1, [4.0, 5.0, 6.0])] {
                    for (part, value) in ["gate", "up", "down"].into_iter().zip(values) {
                        put(&format!("experts.{expert}.{part}_proj.weight"), &[1, 1], &[value]);
                    }
                }
            }
            false => {
                put("experts.gate_up_proj", &[2, 2, 1], &[1.0, 2.0, 4.0, 5.0]);
                put("experts.down_proj", &[2, 1, 1], &[3.0, 6.0]);
            }
        }
    }
    tensors.retain(|(name, ..)| !without.contains(&&**name));
    let file = tensors.into_iter().fold(Safetensors::new(), |file, (name, shape, bytes)| {
        file.tensor(&name, "F32", &shape, bytes)
    });
    let config = json!({
        "model_type": "gemma4_text", "num_hidden_layers": 2, "hidden_size": 1, "num_attention_heads": 1, "head_dim": 1,
        "intermediate_size": 1, "vocab_size": 1, "enable_moe_block": true, "num_experts": 2, "top_k_experts": 1,
        "moe_intermediate_size": 1
    });
    folder(&[("model.safetensors", file.build()), ("config.json", config.to_string().into_bytes())])
}

/// Families whose layers need no experts need those of a router.
#[test]
fn experts_of_a_router() {
    let missing = |apart, without: &[&str]| -> Vec<String> {
        let folder = gemma4_experts(apart, without);
        let model = model(folder.path());
        let missing = &model.resolution().expect("resolved").missing;
        missing.iter().filter(|name| name.contains("experts")).cloned().collect()
    };
    assert_eq!(missing(false, &[]), [""; 0]);
    let lost = missing(false, &["model.layers.1.experts.down_proj"]);
    assert_eq!(lost, ["layers.1.ffn.experts.down.weight"]);
    let lost = missing(false, &["model.layers.0.experts.gate_up_proj"]);
    assert_eq!(lost, ["layers.0.ffn.experts.up.weight", "layers.0.ffn.experts.gate.weight"]);
    let all = [0, 1].map(|expert| format!("model.layers.0.experts.{expert}.down_proj.weight"));
    let lost = missing(true, &[&*all[0], &*all[1]]);
    assert_eq!(lost, ["layers.0.ffn.experts.down.weight"]);
}

/// Experts one by one have the values of those in one tensor, and are joined where transformers' class has them so.
#[test]
fn experts_of_gemma_4_one_by_one() {
    let (apart, joined) = (gemma4_experts(true, &[]), gemma4_experts(false, &[]));
    let (apart, joined) = (model(apart.path()), model(joined.path()));
    assert_eq!(apart.resolution().expect("resolved").unknown, [""; 0]);
    for part in ["gate", "up", "down"] {
        let name = format!("layers.1.ffn.experts.{part}.weight");
        let values =
            |model: &Model| model.tensor(&name).expect("a tensor").to_vec::<f32>().expect("values");
        assert_eq!(values(&apart), values(&joined), "{part}");
    }
    for dialect in [Dialect::HuggingFace, Dialect::Gguf, Dialect::Mlx] {
        let told = |model: &Model| -> Vec<(String, Vec<f32>)> {
            let mut tensors: Vec<_> = model.tensors_in(dialect).expect("names").tensors;
            tensors.sort_by(|a, b| a.name().cmp(b.name()));
            let values = |one: &weighbridge::Tensor| one.to_vec::<f32>().expect("values");
            tensors.iter().map(|one| (one.name().to_owned(), values(one))).collect()
        };
        assert_eq!(told(&apart), told(&joined), "{dialect:?}");
    }
}

/// Experts one by one in families whose class has all in one tensor: llm-compressor writes them so.
#[test]
fn experts_of_fused_classes_one_by_one() {
    for (model_type, at) in [
        ("granitemoe", "model.layers.0.block_sparse_moe"),
        ("granitemoeshared", "model.layers.0.block_sparse_moe"),
        ("granitemoehybrid", "model.layers.0.block_sparse_moe"),
        ("granitemoe_swa", "model.layers.0.block_sparse_moe"),
        ("llama4_text", "model.layers.0.feed_forward"),
    ] {
        let mut file = Safetensors::new();
        for expert in 0..2 {
            for part in ["gate", "up", "down"] {
                let name = format!("{at}.experts.{expert}.{part}_proj.weight");
                file = file.tensor(&name, "F32", &[1, 1], 1f32.to_le_bytes().to_vec());
            }
        }
        let config =
            json!({"model_type": model_type, "num_hidden_layers": 1, "num_local_experts": 2})
                .to_string();
        let folder =
            folder(&[("model.safetensors", file.build()), ("config.json", config.into_bytes())]);
        let model = model(folder.path());
        let resolution = model.resolution().expect("resolved");
        assert_eq!(resolution.unknown, [""; 0], "{model_type}");
        assert_eq!(resolution.mapped.len(), 3, "{model_type}");
        let joined = model.tensors_in(Dialect::HuggingFace).expect("names").tensors;
        assert_eq!(joined.len(), 2, "{model_type}: gate and up, and down");
    }
}
