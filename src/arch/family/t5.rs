//! T5, its later versions and its multilingual relatives: an encoder and a decoder without positions,
//! which add a learned bias for the distance of two tokens to the attention scores. T5's encoder alone
//! is an architecture of its own in GGUF.
//!
//! The network of the first version has no gate; that of the later ones has one. Except in UMT5, the
//! first layer of a stack has the bias of all its layers.

use super::step::{Step, Steps};
use crate::arch::config::class_name;
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map};

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[
    ("both_counts", Step::Keys(both_counts)),
    ("epsilon", Step::Keys(epsilon)),
    ("first_token", Step::Keys(first_token)),
    ("is_encoder", Step::Is(is_encoder)),
    ("layers", Step::Config(layers)),
    ("network", Step::Config(network)),
    ("one_count", Step::Keys(one_count)),
    ("start", Step::Config(start)),
    ("trained_length", Step::Keys(trained_length)),
];

/// Whether a `config.json` is that of an encoder alone.
fn is_encoder(config: &Json) -> bool {
    let class = class_name(config);
    class.is_some_and(|class| class.ends_with("EncoderModel"))
}

/// The positions that the model was trained with. No class has this key; the converter's default is
/// that of T5's training.
fn trained_length(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    keys.count("context_length", model.count("n_positions")?.unwrap_or(512));
    Ok(())
}

/// Layers of the encoder and of the decoder.
fn both_counts(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let encoder = model.config.encoder.enc_n_layers.as_ref();
    let encoder = encoder.ok_or_else(|| model.missing_in_config("num_layers"))?;
    keys.count("block_count", encoder.value);
    keys.count("decoder_block_count", model.config.n_layers.value);
    Ok(())
}

fn one_count(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    keys.count("block_count", model.config.n_layers.value);
    Ok(())
}

/// The norms are RMS norms. The converter states their epsilon under both keys.
fn epsilon(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if let Some(eps) = &model.config.norm_eps {
        keys.real("attention.layer_norm_rms_epsilon", eps.value);
    }
    Ok(())
}

/// The token that the decoder starts with.
fn first_token(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if let Some(token) = model.count("decoder_start_token_id")? {
        keys.count("decoder_start_token_id", token);
    }
    Ok(())
}

/// The inverse of [`first_token`].
fn start(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let stated = model.metadata().u64(&format!("{}.decoder_start_token_id", model.architecture()));
    out.extend(stated.map(|token| ("decoder_start_token_id".to_owned(), token.into())));
    Ok(())
}

/// llama.cpp takes GELU for networks with a gate, and ReLU for those without.
fn network(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let gated = ["layers.0.ffn.gate.weight", "enc.layers.0.ffn.gate.weight"];
    let gated = gated.iter().any(|name| model.has(name));
    let name = if gated { "gated-gelu" } else { "relu" };
    out.insert("feed_forward_proj".to_owned(), name.into());
    Ok(())
}

fn layers(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let own = model.config.n_layers.value;
    let encoder = model.config.encoder.enc_n_layers.as_ref().map(|layers| layers.value);
    out.insert("num_layers".to_owned(), encoder.unwrap_or(own).into());
    out.extend(encoder.map(|_| ("num_decoder_layers".to_owned(), own.into())));
    Ok(())
}
