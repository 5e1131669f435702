//! Models with an encoder and a decoder whose files count the layers of both, and the encoders of such
//! models alone. The models are those of the lists of names.

use crate::arch::families::{config_of_gguf, directory, integers, keys, listed};
use crate::support::put;
use crate::tokenizer::files::{field, piece};
use serde_json::{Value as Json, json};
use weighbridge::container::{GGUF, MLX, Strictness};
use weighbridge::metadata::KeyValues;
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::{ErrorKind, Model};

fn layers(model: &Model) -> (Option<u32>, u32) {
    let config = model.config().expect("a config");
    (config.encoder.enc_n_layers.as_ref().map(|layers| layers.value), config.n_layers.value)
}

fn text<'k>(keys: &'k KeyValues, key: &str) -> Option<&'k str> {
    keys.get(key).and_then(|value| value.to_text()?.to_str())
}

fn notes(model: &Model) -> Vec<String> {
    let plan = ops::convert(model, &ConvertOptions::new(&GGUF).allow_unloadable(true));
    plan.unwrap_or_else(|error| panic!("{error}")).notes.clone()
}

#[test]
fn both_stacks_are_counted() {
    let opened = directory(&listed("t5", &json!({})));
    assert_eq!(layers(&opened.model), (Some(2), 1));
    let written = keys(&opened.model);
    assert_eq!(integers(&written, "t5.block_count"), [2]);
    assert_eq!(integers(&written, "t5.decoder_block_count"), [1]);
    assert_eq!(integers(&written, "t5.attention.key_length"), [6]);
    let config = config_of_gguf(&listed("t5", &json!({})));
    for (key, value) in [
        ("architectures", json!(["T5ForConditionalGeneration"])),
        ("num_layers", json!(2)),
        ("num_decoder_layers", json!(1)),
        ("feed_forward_proj", json!("relu")),
        ("tie_word_embeddings", json!(true)),
        ("d_kv", json!(6)),
        ("relative_attention_num_buckets", json!(4)),
        ("is_encoder_decoder", json!(true)),
    ] {
        assert_eq!(config[key], value, "{key}");
    }
    // Without a number of its own, the decoder has as many as the encoder.
    let mut model = listed("umt5", &json!({}));
    model.config.as_object_mut().expect("an object").remove("num_decoder_layers");
    assert_eq!(layers(&directory(&model).model), (Some(2), 2));
}

#[test]
fn an_encoder_alone_is_an_architecture_of_its_own() {
    for (name, class, network) in [
        ("t5 encoder", "T5EncoderModel", "relu"),
        ("t5 encoder with gates", "T5EncoderModel", "gated-gelu"),
    ] {
        let model = listed(name, &json!({"feed_forward_proj": network}));
        let opened = directory(&model);
        let resolution = opened.model.resolution().expect("resolved");
        assert_eq!(resolution.architecture.map(|row| row.name), Some("t5encoder"), "{name}");
        assert_eq!(resolution.missing, [""; 0], "{name}");
        let (encoder, own) = layers(&opened.model);
        assert_eq!(encoder, None, "{name}");
        let written = keys(&opened.model);
        assert_eq!(text(&written, "general.architecture"), Some("t5encoder"));
        assert_eq!(integers(&written, "t5encoder.block_count"), [i128::from(own)]);
        assert!(written.get("t5encoder.decoder_block_count").is_none(), "{name}");
        let config = config_of_gguf(&model);
        assert_eq!(config["architectures"], json!([class]), "{name}");
        assert_eq!(config["feed_forward_proj"], network, "{name}");
        assert_eq!(config["is_encoder_decoder"], false, "{name}");
        // The decoder's layers are stated all the same, and nothing is lost with them.
        assert!(!notes(&opened.model).iter().any(|note| note.contains("llama.cpp will compute")));
    }
}

#[test]
fn a_bias_in_each_layer_tells_the_class() {
    let config = config_of_gguf(&listed("umt5", &json!({})));
    assert_eq!(config["model_type"], "umt5");
    assert_eq!(config["architectures"], json!(["UMT5ForConditionalGeneration"]));
}

#[test]
fn what_llama_cpp_computes_otherwise_is_told() {
    let told = |name: &str, more: Json| {
        let notes = notes(&directory(&listed(name, &more)).model);
        notes.into_iter().filter(|note| note.contains("llama.cpp will compute")).collect::<String>()
    };
    let scale = "the logits are not divided by the square root of the width";
    assert!(told("t5", json!({})).contains(scale));
    for kept in ["scale_decoder_outputs", "tie_word_embeddings"] {
        assert_eq!(told("t5", json!({kept: false})), "", "{kept}");
    }
    assert!(told("umt5", json!({"feed_forward_proj": "gated-gelu"})).contains(scale));
    let distance = told("t5 encoder", json!({"relative_attention_max_distance": 64}));
    assert!(distance.contains("relative_attention_max_distance: 64"), "{distance}");
    let network = told("t5 encoder with gates", json!({"feed_forward_proj": "gated-silu"}));
    assert!(network.contains("feed_forward_proj: gated-silu in config.json"), "{network}");
    let rotated = |kind| {
        let own = json!({"layer_types": [kind], "sliding_window": 4});
        told("afmoe", own).contains("the layers with a window are not all but each fourth")
    };
    assert!(rotated("full_attention") && !rotated("sliding_attention"));
}

#[test]
fn a_decoder_deeper_than_the_encoder_is_refused() {
    let mut model = listed("t5", &json!({"num_layers": 1, "num_decoder_layers": 2}));
    let tensors = &mut model.forms[0].1;
    tensors.retain(|name, _| !name.starts_with("encoder.block.1."));
    let second: Vec<_> = tensors
        .iter()
        .filter(|(name, _)| name.starts_with("decoder.block.0.") && !name.contains("relative"))
        .map(|(name, tensor)| (name.replace("block.0.", "block.1."), tensor.clone()))
        .collect();
    tensors.extend(second);
    let opened = directory(&model);
    put(opened.model.path(), "spiece.model", pieces());
    let error = ops::convert(&opened.model, &ConvertOptions::new(&GGUF)).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let fault = "t5.decoder_block_count is 2, but llama.cpp requires 0 to 1";
    assert!(error.to_string().contains(fault), "{error}");
}

#[test]
fn mlx_lm_has_no_class() {
    let planned = |name: &str, options: ConvertOptions| {
        let opened = directory(&listed(name, &json!({})));
        let plan = ops::convert(&opened.model, &options);
        plan.map(|plan| plan.notes.join("; "))
    };
    for (name, model_type) in [
        ("t5", "t5"),
        ("t5 encoder", "t5"),
        ("nomic-bert", "nomic_bert"),
        ("jina-bert-v2", "bert"),
        ("roberta with a head for masked words", "roberta"),
    ] {
        let said = format!("mlx-lm has no class for {model_type}");
        let error = planned(name, ConvertOptions::new(&MLX)).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(&said), "{error}");
        let notes = planned(name, ConvertOptions::new(&MLX).allow_unloadable(true));
        let notes = notes.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(notes.contains(&format!("{said}: the directory is for other readers")), "{notes}");
    }
    // Another program has one.
    for (name, model_type) in [
        ("bert classifier", "bert"),
        ("xlm-roberta classifier", "xlm-roberta"),
        ("modernbert", "modernbert"),
    ] {
        let notes = planned(name, ConvertOptions::new(&MLX));
        let notes = notes.unwrap_or_else(|error| panic!("{name}: {error}"));
        let said =
            format!("mlx-lm has no class for {model_type}: the directory is for mlx-embeddings");
        assert!(notes.contains(&said), "{notes}");
    }
    let notes = planned("llama with biases", ConvertOptions::new(&MLX)).expect("a plan");
    assert!(!notes.contains("class"), "{notes}");
}

#[test]
fn mlx_lm_finds_its_class_by_the_type() {
    let changes = json!({"model_type": null, "architectures": null});
    let opened = directory(&listed("llama with biases", &changes));
    let plan = ops::convert(&opened.model, &ConvertOptions::new(&MLX)).expect("a plan");
    let note = "config.json states no model_type, by which mlx-lm finds its class: the directory is for other readers";
    assert!(plan.notes.iter().any(|it| it == note), "{:?}", plan.notes);
}

/// Nine pieces of ten rows, in SentencePiece's own order.
fn pieces() -> Vec<u8> {
    let special = |id: u8| vec![0xc0 | id, 0x02];
    // unk 2, bos -1, eos 1, pad 0 in the trainer's fields 40 to 43.
    let none = [&[0xff; 9][..], &[0x01]].concat();
    let trainer = [
        vec![3 << 3, 1],
        [special(0x00), vec![2]].concat(),
        [special(0x08), none].concat(),
        [special(0x10), vec![1]].concat(),
        [special(0x18), vec![0]].concat(),
    ];
    let mut file =
        [piece("<pad>", 0.0, Some(3)), piece("</s>", 0.0, Some(3)), piece("<unk>", 0.0, Some(2))]
            .concat();
    for (score, text) in ["\u{2581}", "a", "b", "c", "d", "e"].iter().enumerate() {
        file.extend(piece(text, -(score as f32), None));
    }
    [file, field(2, &trainer.concat()), field(3, &field(2, &[7, 0, 9]))].concat()
}

/// As llama.cpp's converter writes it.
#[test]
fn the_tokenizer_of_spiece_model() {
    let more = json!({"eos_token_id": 1, "pad_token_id": 0, "decoder_start_token_id": 0});
    let opened = directory(&listed("t5", &more));
    put(opened.model.path(), "spiece.model", pieces());
    let written = keys(&Model::open(opened.model.path()).expect("a model"));
    let key = |name: &str| written.get(&format!("tokenizer.ggml.{name}"));
    assert_eq!(text(&written, "tokenizer.ggml.model"), Some("t5"));
    let tokens = key("tokens").and_then(|value| value.to_array()).and_then(|list| list.texts());
    let tokens: Vec<String> = tokens.expect("texts").map(|text| text.to_string()).collect();
    assert_eq!(tokens[..5], ["<pad>", "</s>", "<unk>", "▁", "a"]);
    assert_eq!(tokens[9], "[PAD9]");
    assert_eq!(integers(&written, "tokenizer.ggml.token_type"), [3, 3, 2, 1, 1, 1, 1, 1, 1, 5]);
    assert_eq!(integers(&written, "tokenizer.ggml.precompiled_charsmap"), [7, 0, 9]);
    for (name, id) in [("eos_token_id", 1), ("padding_token_id", 0)] {
        assert_eq!(integers(&written, &format!("tokenizer.ggml.{name}")), [id], "{name}");
    }
    assert_eq!(integers(&written, "t5.decoder_start_token_id"), [0]);
    // llama.cpp takes these flags from the kind of tokenizer.
    for name in ["bos_token_id", "add_bos_token", "add_eos_token", "add_sep_token"] {
        assert!(key(name).is_none(), "{name}");
    }
}

/// The layers of the encoder are compared with their number in the config, like those of the decoder.
#[test]
fn encoders_have_the_layers_that_the_config_states() {
    for (name, key) in [("t5", "num_layers"), ("whisper of mlx-examples", "encoder_layers")] {
        let opened = |count: u32| directory(&listed(name, &json!({ key: count })));
        let missing = |count| opened(count).model.resolution().unwrap().missing.clone();
        assert!(missing(2).is_empty(), "{name}: {:?}", missing(2));
        assert_eq!(missing(4), ["enc.layers.2..4"], "{name}");
        let more = opened(1);
        let said = ops::check_consistency(&more.model, Strictness::Default).unwrap().faults;
        let said = said.join("; ");
        assert!(said.contains("enc.layers.1 exists, but enc_n_layers"), "{name}: {said}");
    }
    let noted = notes(&directory(&listed("t5", &json!({"num_layers": 1}))).model).join("; ");
    assert!(noted.contains("transformers ignores the layers beyond"), "{noted}");
}
