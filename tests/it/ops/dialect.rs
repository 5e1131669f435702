//! Tensors in the names and shapes of another container: what is left out or refused, and names that
//! the files of models with images give.

use serde_json::{Value as Json, json};
use weighbridge::arch::Dialect;
use weighbridge::container::{GGUF, MLX, OLLAMA, SAFETENSORS};
use weighbridge::ollama::QuantType;
use weighbridge::ops::{self, ConvertOptions, QuantizationRules};
use weighbridge::recipe::mlx_lm::MlxOptions;
use weighbridge::{DType, ErrorKind, Model, OpenOptions, WriteOptions};

use crate::arch::families::{directory, listed};
use crate::models::{Form, open};
use crate::support::{Gguf, Safetensors, folder, put, sample};

/// mlx-lm writes numbers of an activation without axes; transformers gives some of them one.
#[test]
fn numbers_get_the_axes_of_the_other_class() {
    let mut model = listed("apertus", &json!({}));
    let (_, tensors) = &mut model.forms[0];
    for (name, tensor) in tensors.iter_mut().filter(|(name, _)| name.contains(".act_fn.")) {
        assert_eq!(tensor.values.len(), 1, "{name}");
        tensor.shape.clear();
    }
    let (_, tensors) = &model.forms[0];
    // The norms of heads, which no other name tells from Hugging Face's, are those of both.
    let opened = open(&model, Form::Mlx, tensors);
    assert_eq!(opened.model.resolution().expect("names").dialect, Dialect::Mlx);
    let made = opened.model.tensors_in(Dialect::HuggingFace).expect("tensors").tensors;
    let shape = |end: &str| {
        let name = format!("model.layers.0.mlp.act_fn.{end}");
        made.iter().find(|tensor| tensor.name() == name).expect("the tensor").shape().to_vec()
    };
    assert_eq!(["alpha_n", "alpha_p"].map(shape), [[1], [1]]);
    assert!(["beta", "eps"].iter().all(|end| shape(end).is_empty()));
}

/// A model with experts whose matrices are stacked in arrays of this shape.
fn with_experts(shape: [u64; 3]) -> tempfile::TempDir {
    let config = json!({
        "model_type": "qwen3_moe", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 4, "intermediate_size": 16, "moe_intermediate_size": 16,
        "num_experts": 4, "num_experts_per_tok": 2, "vocab_size": 32, "rms_norm_eps": 1e-6,
        "quantization": {"group_size": 64, "bits": 4},
    });
    let count = usize::try_from(shape.iter().product::<u64>()).expect("a size");
    let name = "model.layers.0.mlp.switch_mlp.up_proj.weight";
    let file = Safetensors::new().tensor(name, "F32", &shape, vec![0; 4 * count]);
    folder(&[("config.json", config.to_string().into_bytes()), ("model.safetensors", file.build())])
}

#[test]
fn experts_of_impossible_numbers() {
    let name = "model.layers.0.mlp.experts.{e}.up_proj.weight";
    let separated = |shape| {
        let folder = with_experts(shape);
        Model::open(folder.path()).expect("a model").tensors_in(Dialect::HuggingFace)
    };
    let names = separated([3, 16, 8]).expect("tensors").tensors;
    let names: Vec<&str> = names.iter().map(|tensor| tensor.name()).collect();
    assert_eq!(names, [0, 1, 2].map(|expert| name.replace("{e}", &expert.to_string())));
    let none = separated([0, 16, 8]).expect("no tensors");
    assert!(none.tensors.is_empty(), "{:?}", none.tensors);
    assert_eq!(none.left_out, [(name.to_owned(), "the tensor has no experts".to_owned())]);
    // A shape without values can state any number.
    let error = separated([5, 0, 8]).expect_err("too many");
    assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
    let fault = "the shape claims 5 experts, but the tensor has fewer values";
    assert!(error.to_string().contains(fault), "{error}");
}

/// Llama 4's language model has in mlx-lm the names of a model with images, whether it is one or not.
#[test]
fn names_within_a_model_with_images_are_given_once() {
    let mut model = listed("llama4", &json!({}));
    let names = |model: &crate::models::NamedModel| -> Vec<String> {
        let opened = directory(model);
        let made = opened.model.tensors_in(Dialect::Mlx).expect("tensors").tensors;
        made.iter().map(|tensor| tensor.name().to_owned()).collect()
    };
    let mut alone = names(&model);
    assert!(alone.iter().all(|name| name.starts_with("language_model.")), "{alone:?}");
    let text = std::mem::take(&mut model.config);
    model.config = json!({"model_type": "llama4", "text_config": text});
    let (_, tensors) = &mut model.forms[0];
    let stored = std::mem::take(tensors).into_iter();
    tensors.extend(stored.map(|(name, tensor)| (format!("language_model.{name}"), tensor)));
    let mut within = names(&model);
    within.sort();
    alone.sort();
    assert_eq!(within, alone);
}

/// Rules of a program for quantizing are for its own container, and a single file for one.
#[test]
fn options_of_other_containers_are_refused() {
    let model = Model::open(sample("hf")).expect("the sample");
    let refused = |options: ConvertOptions| {
        let error = ops::convert(&model, &options).expect_err("a refusal");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        (error.to_string(), error.advice().unwrap_or_default().to_owned())
    };
    let mlx = QuantizationRules::MlxLm(MlxOptions::default());
    let ollama = QuantizationRules::Ollama(QuantType::Int8);
    for (container, rules) in [(&GGUF, mlx), (&SAFETENSORS, mlx), (&MLX, ollama), (&GGUF, ollama)] {
        let (fault, advice) = refused(ConvertOptions::new(container).quantize(rules));
        assert!(fault.ends_with("does not support this quantization"), "{fault}");
        assert_eq!(advice, "quantize to a GGUF type instead");
    }
    for container in [&MLX, &OLLAMA] {
        let (fault, advice) = refused(ConvertOptions::new(container).one_file(true));
        let said = "needs a directory: its config.json describes the tensors";
        assert!(fault.ends_with(said), "{fault}");
        assert_eq!(advice, "give the path of a directory");
    }
    for options in [
        ConvertOptions::new(&MLX).quantize(mlx),
        ConvertOptions::new(&OLLAMA).quantize(ollama),
        ConvertOptions::new(&SAFETENSORS).one_file(true),
    ] {
        ops::convert(&model, &options).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Ollama has the experts of a layer in one array, which needs each of them once.
#[test]
fn experts_that_cannot_be_stacked() {
    let stacked = |experts: &[&str]| {
        let config: Json = json!({"architectures": ["OwnForCausalLM"], "num_hidden_layers": 1});
        let file = experts.iter().fold(Safetensors::new(), |file, expert| {
            let name = format!("model.layers.0.mlp.experts.{expert}.up_proj.weight");
            file.tensor(&name, "F32", &[1, 2], vec![0; 8])
        });
        let folder = folder(&[("config.json", config.to_string().into_bytes())]);
        put(folder.path(), "model.safetensors", file.build());
        let model = Model::open(folder.path()).expect("a model");
        let plan = ops::convert(&model, &ConvertOptions::new(&OLLAMA).allow_unloadable(true))?;
        Ok::<_, weighbridge::Error>(
            plan.tensors.iter().map(|t| t.shape.to_vec()).collect::<Vec<_>>(),
        )
    };
    assert_eq!(stacked(&["0", "1", "2"]).expect("a plan"), [[3, 1, 2]]);
    for (experts, fault) in [
        (["0", "1", "01"], "expert 1 occurs twice"),
        (["0", "1", "3"], "expert 2 of 3 is missing"),
        (["1", "2", "3"], "expert 0 of 3 is missing"),
    ] {
        let error = stacked(&experts).expect_err(fault);
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().ends_with(fault), "{error}");
    }
}

/// The vision model lies in the original directory alone.
#[test]
fn a_gguf_file_gives_no_projector() {
    let file = Gguf::new().key("general.architecture", crate::support::Kv::text("qwen2vl")).tensor(
        "token_embd.weight",
        DType::F32,
        &[2, 2],
        vec![0; 16],
    );
    let model = OpenOptions::new().open_memory("file", file.build()).expect("a model");
    let error =
        ops::convert(&model, &ConvertOptions::new(&GGUF).projector(true)).expect_err("none");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let fault = "a GGUF file with a language model contains no vision model";
    assert!(error.to_string().ends_with(fault), "{error}");
    assert_eq!(error.advice(), Some("convert the original directory (mmproj)"));
}

/// In GGUF the rows before the first position are left out once, not again with each step.
#[test]
fn positions_stay_in_a_second_step() {
    let mut model = listed("xlm-roberta classifier", &json!({"pad_token_id": 1}));
    let name = "roberta.embeddings.position_embeddings.weight";
    let rows = model.forms[0].1[name].shape[0];
    model.config["max_position_embeddings"] = rows.into();
    let written = |model: &Model, options: ConvertOptions| {
        let plan = ops::convert(model, &options.allow_unloadable(true));
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("model.gguf");
        plan.expect("a plan").run(&path, &WriteOptions::new()).expect("a file");
        let model = Model::open(&path).expect("a model");
        let positions = model.stored_tensor("position_embd.weight").expect("positions");
        (
            positions.shape().to_vec(),
            positions.dequantize().expect("values").to_vec(),
            model,
            folder,
        )
    };
    let opened = directory(&model);
    let (shape, values, first, _folder) = written(&opened.model, ConvertOptions::new(&GGUF));
    assert_eq!(shape, [rows as u64 - 2, 8]);
    let (again, same, ..) = written(&first, ConvertOptions::new(&GGUF).dtype(DType::F32));
    assert_eq!((again, same), (shape, values));
}
