//! The part of a tensor that a rank has where that does not follow from the tensor alone: biases, the heads of
//! encoders, and tensors that several stages read. The models are those of the lists of names.

use crate::arch::families::{directory, listed};
use crate::models::{NamedModel, listed_models};
use serde_json::json;
use weighbridge::Model;
use weighbridge::arch::Dialect;
use weighbridge::model::{Convention, Sharding};
use weighbridge::ops::{self, SharedTensor};

/// A model of the large lists.
fn of_list(name: &str) -> NamedModel {
    let found = listed_models().into_iter().find(|model| model.name == name);
    found.expect("a list of that name")
}

/// A tensor of a model that is divided so.
fn shared(model: &Model, mesh: &str, name: &str) -> SharedTensor {
    let report = ops::shares(model, &mesh.parse().expect("a mesh"))
        .unwrap_or_else(|error| panic!("{error}"));
    let mut tensors = report.tensors.into_iter();
    tensors.find(|tensor| tensor.name == name).unwrap_or_else(|| panic!("no {name}"))
}

/// The shapes of the parts of two ranks of tensor parallelism.
fn halves(model: &Model, name: &str) -> Vec<Vec<u64>> {
    let of_rank = |rank| {
        let sharding = Sharding::new().tensor(rank, 2);
        let tensor = model.tensor_of_rank(name, &sharding, Convention::HuggingFace);
        tensor.unwrap_or_else(|error| panic!("{error}")).shape().to_vec()
    };
    (0..2).map(of_rank).collect()
}

/// Results of matrices that are divided by inputs are summed over the ranks, and their bias is added
/// once.
#[test]
fn biases_of_summed_matrices_are_whole() {
    let opened = directory(&listed("starcoder2", &json!({})));
    for (name, shape) in [
        ("layers.0.attention.output.weight", vec![8, 8]),
        ("layers.0.attention.output.bias", vec![8]),
        ("layers.0.ffn.down.weight", vec![8, 16]),
        ("layers.0.ffn.down.bias", vec![8]),
        ("layers.0.attention.q.bias", vec![8]),
        ("layers.0.attention.k.bias", vec![4]),
        ("layers.0.ffn.up.bias", vec![16]),
    ] {
        let tensor = shared(&opened.model, "tp=2", name);
        assert!(tensor.parts.iter().all(|part| part.shape == shape), "{name}: {:?}", tensor.parts);
        assert_eq!(tensor.parts.len(), 2, "{name}");
    }
}

/// The first layer of each stack has the bias of all its layers, and encoder and decoder have one
/// embedding.
#[test]
fn every_stage_has_what_all_layers_of_t5_read() {
    let opened = directory(&listed("t5", &json!({})));
    for (name, ranks) in [
        ("token_embedding.weight", vec![0, 1, 2]),
        ("enc.layers.0.attn.relative_bias.weight", vec![0, 1, 2]),
        ("layers.0.attention.relative_bias.weight", vec![0, 1, 2]),
        ("enc.layers.0.attn.q.weight", vec![0]),
        ("enc.layers.1.attn.q.weight", vec![1]),
        ("layers.0.attention.q.weight", vec![2]),
    ] {
        let tensor = shared(&opened.model, "pp=3", name);
        let found: Vec<u64> = tensor.parts.iter().map(|part| part.rank).collect();
        assert_eq!(found, ranks, "{name}");
    }
}

#[test]
fn heads_of_an_encoder_are_divided_by_its_own_number() {
    let mut model = of_list("whisper");
    model.config["encoder_attention_heads"] = 2.into();
    model.config["decoder_attention_heads"] = 1.into();
    let opened = directory(&model);
    for end in ["q.weight", "k.weight", "v.weight", "q.bias"] {
        let found = halves(&opened.model, &format!("enc.layers.0.attn.{end}"));
        assert!(found.iter().all(|shape| shape[0] == 32), "{end}: {found:?}");
    }
    // The only key head of the decoder is on both ranks.
    let found = halves(&opened.model, "layers.0.attention.k.weight");
    assert_eq!(found, [[64, 64], [64, 64]]);
}

#[test]
fn layers_without_a_window_have_their_own_number_of_key_heads() {
    let mut model = of_list("gemma4");
    model.config["num_global_key_value_heads"] = 1.into();
    let keys = model.forms[0].1.get_mut("model.layers.1.self_attn.k_proj.weight");
    let keys = keys.expect("the keys of a layer without a window");
    let (rows, columns) = (32, keys.shape[1]);
    keys.values.truncate(rows * columns);
    keys.shape[0] = rows;
    let opened = directory(&model);
    // Two heads of width 16, and one of width 32, which both ranks have.
    assert_eq!(halves(&opened.model, "layers.0.attention.k.weight"), [[16, 64], [16, 64]]);
    assert_eq!(halves(&opened.model, "layers.1.attention.k.weight"), [[32, 64], [32, 64]]);
}

#[test]
fn reports_say_that_experts_are_divided() {
    let opened = directory(&of_list("mixtral"));
    let divided = |name: &str| shared(&opened.model, "ep=2", name).divided;
    assert_eq!(divided("layers.0.ffn.experts.up.weight"), "experts, outputs by elements");
    assert_eq!(divided("layers.0.ffn.experts.down.weight"), "experts, inputs by elements");
    assert_eq!(divided("layers.0.attention.output.weight"), "inputs by query heads");
}

/// Falcon 7B has one norm for attention and feed-forward network.
#[test]
fn norms_that_are_used_twice_are_one_tensor_of_a_rank() {
    let opened = directory(&listed("falcon 7b", &json!({})));
    let name = "transformer.h.0.input_layernorm.weight";
    let whole = opened.model.stored_tensor(name).expect("the norm").dequantize().expect("values");
    for rank in [Sharding::new().tensor(1, 2), Sharding::new().expert(0, 2)] {
        let found = ops::tensors_of_rank(&opened.model, Dialect::HuggingFace, &rank);
        let found = found.unwrap_or_else(|error| panic!("{error}")).tensors;
        let norms: Vec<_> = found.iter().filter(|tensor| tensor.name() == name).collect();
        assert_eq!(norms.len(), 1);
        assert_eq!(*norms[0].dequantize().expect("values"), *whole);
    }
}
