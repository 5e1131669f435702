//! Tensors that are put together, taken apart and turned for the names of another dialect: what is
//! exact, what is copied, and what is refused.
#![allow(clippy::cast_possible_truncation, reason = "the sizes are the test's own")]

use weighbridge::arch::Dialect;
use weighbridge::container::OLLAMA;
use weighbridge::model::Sharding;
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::{DType, ErrorKind, Model, OpenOptions, Tensor};

use crate::models::{Array, Form, NamedModel, Tensors, listed_models, lists, metadata, open, own};
use crate::support::{Gguf, Safetensors, f32s, folder};

/// A model of a list of names.
fn named(name: &str) -> NamedModel {
    match lists::LISTS.iter().find(|list| list.name == name) {
        Some(list) => own(list),
        None => listed_models().into_iter().find(|model| model.name == name).expect("a list"),
    }
}

/// The tensors of a model in one form.
fn tensors(model: &NamedModel, form: Form) -> Tensors {
    model.forms.iter().find(|(other, _)| *other == form).expect("a form").1.clone()
}

/// One of the tensors that a model has in a dialect.
fn translated(model: &Model, dialect: Dialect, name: &str) -> weighbridge::Result<Tensor> {
    let all = model.tensors_in(dialect)?.tensors;
    Ok(all.into_iter().find(|tensor| tensor.name() == name).expect("a tensor of the dialect"))
}

/// Both dialects add 1 to the norms, so that nothing is computed on the way.
#[test]
fn a_change_and_its_inverse_leave_every_bit() {
    let model = named("qwen3-next of the first converter");
    let opened = &open(&model, Form::Gguf, &tensors(&model, Form::Gguf)).model;
    let norm = translated(opened, Dialect::Mlx, "model.norm.weight").expect("a norm");
    let stored = opened.stored_tensor("output_norm.weight").expect("a norm");
    assert_eq!(norm.why_computed(), None);
    assert_eq!(norm.dequantize().expect("values")[..], stored.dequantize().expect("values")[..]);
    // It is not the stored tensor that is copied, since each rank's tensors are made anew.
    let half = Sharding::new().expert(1, 2);
    let of_rank = ops::tensors_of_rank(opened, Dialect::Mlx, &half).expect("a rank").tensors;
    let norm = of_rank.iter().find(|tensor| tensor.name() == "model.norm.weight").expect("a norm");
    assert_eq!(norm.why_computed(), None);
    assert_eq!(norm.dequantize().expect("values")[..], stored.dequantize().expect("values")[..]);
    // Hugging Face's norms have no 1.
    let norm = translated(opened, Dialect::HuggingFace, "model.norm.weight").expect("a norm");
    assert_eq!(norm.why_computed(), Some("1 is subtracted from the stored values"));
}

/// llama-quantize leaves out axes of length 1, and other writers add some; the other formats have one.
#[test]
fn a_router_of_one_row_is_a_matrix_again() {
    let model = named("qwen2_moe");
    let mut all = tensors(&model, Form::Gguf);
    for shape in [vec![64], vec![1, 1, 64]] {
        let router = all.get_mut("blk.0.ffn_gate_inp_shexp.weight").expect("a router");
        router.shape = shape;
        let values = router.values.clone();
        let opened = &open(&model, Form::Gguf, &all).model;
        for dialect in [Dialect::HuggingFace, Dialect::Mlx] {
            let name = "model.layers.0.mlp.shared_expert_gate.weight";
            let router = translated(opened, dialect, name).expect("a router");
            assert_eq!(router.shape(), [1, 64]);
            assert_eq!(router.dequantize().expect("values")[..], values);
        }
    }
}

/// Tensors of which a rank has the whole are the stored ones, also those that were turned.
#[test]
fn what_is_turned_twice_is_the_stored_tensor() {
    let model = named("gpt2 without prefixes");
    let opened = &open(&model, Form::HuggingFace, &tensors(&model, Form::HuggingFace)).model;
    let whole = Sharding::new().expert(1, 2);
    let all = ops::tensors_of_rank(opened, Dialect::HuggingFace, &whole).expect("a rank").tensors;
    let mut turned = 0;
    for tensor in all.iter().filter(|tensor| tensor.shape().len() == 2) {
        let stored = tensor.stored_names().next().expect("a stored tensor").to_string();
        let stored = opened.stored_tensor(&stored).expect("the stored tensor");
        assert!(tensor.is_stored(), "{}", tensor.name());
        assert_eq!(tensor.shape(), stored.shape(), "{}", tensor.name());
        turned += usize::from(tensor.name().contains(".c_"));
    }
    assert_eq!(turned, 4);
    // Of a part of it, the stored order cannot be restored.
    let half = Sharding::new().tensor(1, 2);
    let error = ops::tensors_of_rank(opened, Dialect::HuggingFace, &half).expect_err("halves");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("which cannot be transposed into one tensor"), "{error}");
}

/// The heads of a rank's columns are not those that GGUF puts in tiles.
#[test]
fn columns_of_a_part_are_put_in_no_order() {
    let model = named("qwen3.5, dense");
    let opened = &open(&model, Form::HuggingFace, &tensors(&model, Form::HuggingFace)).model;
    let name = "blk.0.ssm_out.weight";
    assert_eq!(translated(opened, Dialect::Gguf, name).expect("a matrix").shape(), [8, 8]);
    let half = Sharding::new().tensor(0, 2);
    let error = ops::tensors_of_rank(opened, Dialect::Gguf, &half).map(drop).expect_err("a part");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let text = error.to_string();
    assert!(text.contains("the columns cannot be put in that order"), "{text}");
}

/// The biases of gate and up alternate, those of some experts as those of all.
#[test]
fn elements_of_a_part_alternate() {
    let model = named("gpt_oss");
    let opened = &open(&model, Form::Gguf, &tensors(&model, Form::Gguf)).model;
    let biases = |rank: &Sharding| {
        let tensors = ops::tensors_of_rank(opened, Dialect::HuggingFace, rank).expect("tensors");
        let mut tensors = tensors.tensors.into_iter();
        let found =
            tensors.find(|tensor| tensor.name().ends_with("0.mlp.experts.gate_up_proj_bias"));
        found.expect("biases").to_vec::<f32>().expect("values")
    };
    let halves = [0, 1].map(|rank| biases(&Sharding::new().expert(rank, 2)));
    assert_eq!(halves.concat(), biases(&Sharding::new()));
}

/// A fused matrix has equal halves.
#[test]
fn halves_of_different_lengths_do_not_join() {
    let model = named("granitemoe");
    let mut all = tensors(&model, Form::Gguf);
    let up = "blk.0.ffn_up_exps.weight";
    all.insert(up.to_owned(), Array::random(up, vec![2, 8, 8]));
    let opened = &open(&model, Form::Gguf, &all).model;
    let error = opened.tensors_in(Dialect::HuggingFace).map(drop).expect_err("6 and 8 rows");
    assert_eq!(error.kind(), ErrorKind::Malformed);
    assert!(error.to_string().ends_with("12 rows, but positions for 14"), "{error}");
}

/// The memory for the order of rows is bounded, whatever a file claims.
#[test]
fn rows_to_reorder_are_limited() {
    let model = named("granitemoe");
    let keys = metadata(&model.gguf, &model.config);
    let file = keys.into_iter().fold(Gguf::new(), |file, (key, value)| file.key(key, value));
    let rows = |rows: u64| {
        let shape = [rows, 1];
        let bytes = || vec![0u8; rows as usize];
        let file = file
            .clone()
            .tensor("blk.0.ffn_gate_shexp.weight", DType::I8, &shape, bytes())
            .tensor("blk.0.ffn_up_shexp.weight", DType::I8, &shape, bytes());
        let opened = OpenOptions::new().open_memory("model.gguf", file.build()).expect("a file");
        opened.tensors_in(Dialect::HuggingFace)
    };
    let joined = rows(3).expect("few rows").tensors;
    assert_eq!(joined[0].shape(), [6, 1]);
    let error = rows((1 << 23) + 1).map(drop).expect_err("too many rows");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let text = error.to_string();
    assert!(
        text.ends_with("16777218 rows to reorder, but at most 16777216 are supported"),
        "{text}"
    );
}

/// Rows in a regular order need no memory for each row, so that there may be any number of them.
#[test]
fn any_number_of_rows_is_reordered_by_a_rule() {
    // The halves of each head in turn.
    let model = named("granitemoe");
    let rows = (1u64 << 24) + 8;
    let name = "model.layers.0.self_attn.q_proj.weight";
    let file = Safetensors::new().tensor(name, "I8", &[rows, 1], vec![0; rows as usize]);
    let config = model.config.to_string().into_bytes();
    let folder = folder(&[("config.json", config), ("model.safetensors", file.build())]);
    let opened = Model::open(folder.path()).expect("a directory");
    let q = translated(&opened, Dialect::Gguf, "blk.0.attn_q.weight").expect("a matrix");
    assert_eq!((q.shape(), q.is_stored()), (&[rows, 1][..], false));
    // Gate and up in turn.
    let model = named("gpt-oss, fused");
    let keys = metadata(&model.gguf, &model.config);
    let file = keys.into_iter().fold(Gguf::new(), |file, (key, value)| file.key(key, value));
    let (experts, rows) = (2, 300_000u64);
    let bytes = |value: u8| vec![value; (experts * rows) as usize];
    let file = file
        .tensor("blk.0.ffn_gate_exps.weight", DType::I8, &[experts, rows, 1], bytes(1))
        .tensor("blk.0.ffn_up_exps.weight", DType::I8, &[experts, rows, 1], bytes(2));
    let opened = OpenOptions::new().open_memory("model.gguf", file.build()).expect("a file");
    let name = "model.layers.0.mlp.experts.gate_up_proj";
    let joined = translated(&opened, Dialect::HuggingFace, name).expect("a tensor");
    assert_eq!(joined.shape(), [experts, 1, 2 * rows]);
}

/// Experts with a matrix of another shape are neither one canonical tensor nor one of Ollama's.
#[test]
fn experts_have_one_shape() {
    let model = named("qwen3_moe");
    let mut all = tensors(&model, Form::HuggingFace);
    let expert = "model.layers.1.mlp.experts.1.gate_proj.weight";
    assert_eq!(all[expert].shape, [32, 64]);
    all.insert(expert.to_owned(), Array::random(expert, vec![64, 32]));
    let opened = &open(&model, Form::HuggingFace, &all).model;
    let error = opened.tensor("layers.1.ffn.experts.gate.weight").expect_err("two shapes");
    assert_eq!(error.kind(), ErrorKind::Malformed);
    let fault = "expert 1 of layers.1.ffn.experts.gate.weight has shape [64, 32], but the first has [32, 64]";
    assert!(error.to_string().ends_with(fault), "{error}");
    // That is the fault, and not that a config is missing which these rows do not need.
    let mut without = model.clone();
    without.config.as_object_mut().expect("an object").remove("hidden_size");
    let without = &open(&without, Form::HuggingFace, &all).model;
    assert!(without.config().is_err());
    let error = without.tensor("layers.1.ffn.experts.gate.weight").expect_err("two shapes");
    assert!(error.to_string().ends_with(fault), "{error}");
    let whole = opened.tensor("layers.1.ffn.experts.up.weight").expect("one shape");
    assert_eq!(whole.shape(), [4, 32, 64]);
    let error = ops::convert(opened, &ConvertOptions::new(&OLLAMA)).map(drop).expect_err("apart");
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    let fault = "shape [64, 32] cannot be stacked on [32, 64]";
    assert!(error.to_string().ends_with(fault), "{error}");
}

/// GGUF's norms of zeros and ones decode to what their own bytes say.
#[test]
fn values_that_are_computed_are_loaded_as_numbers() {
    use weighbridge::model::Derivation;
    use weighbridge::{Part, WeightProvider, device::Cpu};

    let model = named("qwen3-next of the first converter");
    let opened = open(&model, Form::Gguf, &tensors(&model, Form::Gguf)).model;
    let norm = opened.tensor("output_norm.weight").expect("a norm");
    let why = "1 is subtracted from the stored values";
    assert_eq!(norm.derivation().expect("a reason"), Derivation::Computed(why.to_owned()));
    let values = norm.dequantize().expect("values").to_vec();
    let provider = WeightProvider::new(opened, Cpu).expect("a provider");
    let loaded = provider.load("output_norm.weight").expect("values");
    assert_eq!((loaded.dtype, loaded.computed), (DType::F32, Some(why)));
    assert_eq!(loaded.contents(&Cpu, Part::Weight), Some(&f32s(&values)[..]));
}

/// Fused experts of published files are `[inputs, outputs]`. Where one of the two matrices is square, the other says it.
#[test]
fn square_experts_are_stored_as_the_others() {
    let config = |width: u64| {
        serde_json::json!({"model_type": "qwen3_vl_moe_text", "hidden_size": 2, "moe_intermediate_size": width,
            "intermediate_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1, "head_dim": 2,
            "num_experts": 1, "num_experts_per_tok": 1, "vocab_size": 2, "rms_norm_eps": 1e-6})
    };
    let values = |shape: &[u64]| -> Vec<f32> {
        (0..shape.iter().product::<u64>()).map(|number| number as f32).collect()
    };
    let experts = "model.layers.0.mlp.experts";
    for (width, both, part, name, expected) in [
        (2, [[1, 2, 4], [1, 2, 2]], "down_proj", "down", [0.0, 2.0, 1.0, 3.0].as_slice()),
        (2, [[1, 4, 2], [1, 2, 2]], "down_proj", "down", &[0.0, 1.0, 2.0, 3.0]),
        (1, [[1, 2, 2], [1, 1, 2]], "gate_up_proj", "gate", &[0.0, 2.0]),
        (1, [[1, 2, 2], [1, 2, 1]], "gate_up_proj", "gate", &[0.0, 1.0]),
    ] {
        let mut file = Safetensors::new();
        for (name, shape) in ["gate_up_proj", "down_proj"].into_iter().zip(&both) {
            file = file.tensor(&format!("{experts}.{name}"), "F32", shape, f32s(&values(shape)));
        }
        let config = config(width).to_string().into_bytes();
        let folder = folder(&[("config.json", config), ("model.safetensors", file.build())]);
        let model = Model::open(folder.path()).expect("a directory");
        let matrix = model.tensor(&format!("layers.0.ffn.experts.{name}.weight"));
        let found = matrix.and_then(|matrix| matrix.dequantize()).expect("values");
        assert_eq!(found[..], *expected, "{part} of {both:?}");
    }
}
