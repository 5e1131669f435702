//! Steps of plans of encoders, alone or beside a decoder.

use super::steps::Step;
use crate::error::{Error, Result};
use crate::facts::{Facts, size};
use crate::plan::{DisentangledPlan, EncoderPlan, LayerPlan, MixerPlan, Plan, TextEncoderPlan};

/// The steps that families' files name.
pub(super) const STEPS: &[Step] = &[
    ("disentangled", disentangled),
    ("disentangled_first", disentangled_first),
    ("shared_layers", shared_layers),
    ("sound_encoder", sound_encoder),
    ("text_encoder", text_encoder),
    ("windows_of_layers", windows_of_layers),
];

/// Scores have parts for the distance (DeBERTa 2 and 3), which may be counted in ranges that grow with it.
fn disentangled(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let kinds = facts.words("pos_att_type");
    let has = |kind: &str| kinds.iter().any(|other| other == kind);
    let parts = usize::from(has("c2p")) + usize::from(has("p2c"));
    let (longest, ranges) = (longest_distance(facts), positive(facts, "position_buckets"));
    // Half of the ranges are one position wide, and the others end at the longest distance.
    if let Some(ranges) =
        ranges.filter(|ranges| !(1..longest.saturating_sub(1)).contains(&(ranges / 2)))
    {
        let fault = format!("{ranges} ranges of up to {longest} positions (position_buckets)");
        return Err(Error::Unsupported(fault));
    }
    let distances = DisentangledPlan {
        span: ranges.unwrap_or(longest),
        farthest: ranges.map(|_| longest),
        shared: facts.flag(&["share_att_key"]) == Some(true),
        of_queries: has("c2p"),
        of_keys: has("p2c"),
    };
    set_distances(facts, plan, parts, distances);
    Ok(())
}

/// The same in the first version: it has no ranges, and further words in its list make scores smaller.
fn disentangled_first(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let kinds = facts.words("pos_att_type");
    let has = |kind: &str| kinds.iter().any(|other| other == kind);
    let distances = DisentangledPlan {
        span: longest_distance(facts),
        farthest: None,
        shared: false,
        of_queries: has("c2p"),
        of_keys: has("p2c"),
    };
    set_distances(facts, plan, kinds.len(), distances);
    Ok(())
}

/// A number of the config that counts something; smaller ones stand for none.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small count")]
fn positive(facts: &Facts<'_>, key: &str) -> Option<usize> {
    facts.real(&[key]).filter(|count| *count >= 1.0).map(|count| count as usize)
}

/// The longest distance of two tokens that has a row of its own.
fn longest_distance(facts: &Facts<'_>) -> usize {
    let positions = facts.config.max_seq_len.as_ref().map_or(512, |count| size(count.value));
    positive(facts, "max_relative_positions").unwrap_or(positions)
}

/// Sets the distances of all layers. Each part that scores have for them makes their deviation larger.
#[expect(clippy::cast_precision_loss, reason = "a small count")]
fn set_distances(facts: &Facts<'_>, plan: &mut Plan, parts: usize, distances: DisentangledPlan) {
    let used = facts.flag(&["relative_attention"]) == Some(true);
    for attention in plan.attentions() {
        attention.scale /= ((1 + parts) as f32).sqrt();
        attention.disentangled = used.then_some(distances);
    }
}

/// The layers of a group are one layer, which is run several times (ALBERT).
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small count")]
fn shared_layers(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let all = facts.real(&["num_hidden_layers"]).unwrap_or(12.0) as usize;
    let groups = plan.layers.len().max(1);
    if !all.is_multiple_of(groups) {
        return Err(Error::Unsupported(format!("{all} layers in {groups} groups")));
    }
    plan.runs = all / groups;
    Ok(())
}

/// Each layer has a window, of which half is to either side (Longformer).
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of positions"
)]
fn windows_of_layers(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let windows = facts.reals(&["attention_window"]).unwrap_or_default();
    let windows = windows.into_iter().chain(std::iter::repeat(512.0));
    for (attention, window) in plan.attentions().zip(windows) {
        attention.window = Some(window as usize);
    }
    Ok(())
}

/// A layer of an encoder as wide as `dim`, which is that of the decoder but for its heads.
fn encoder_layer(facts: &Facts<'_>, plan: &Plan, dim: usize) -> Result<LayerPlan> {
    let fault = || Error::Unsupported("a decoder without attention".to_owned());
    let first = plan.layers.first().ok_or_else(fault)?;
    let MixerPlan::Attention(mut attention) = first.mixer.clone() else { return Err(fault()) };
    attention.causal = false;
    let heads = facts.config.encoder.enc_n_heads.as_ref().map(|heads| size(heads.value));
    if let Some(heads) = heads.filter(|heads| (*heads, dim) != (attention.heads, plan.dim)) {
        let head_dim = dim / heads.max(1);
        (attention.heads, attention.kv_heads) = (heads, heads);
        (attention.head_dim, attention.value_dim) = (head_dim, head_dim);
        #[expect(clippy::cast_precision_loss, reason = "a width")]
        let scale = (head_dim as f32).sqrt().recip();
        attention.scale = scale;
    }
    Ok(LayerPlan { mixer: MixerPlan::Attention(attention), ..first.clone() })
}

/// The encoder of text before the decoder.
fn text_encoder(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    // The class of the decoder alone has none.
    if facts.is_causal_class() && !facts.model.has("enc.layers.0.attn.q.weight") {
        return Ok(());
    }
    let layer = encoder_layer(facts, plan, plan.dim)?;
    let count = facts.config.encoder.enc_n_layers.as_ref();
    let count = count.ok_or_else(|| Error::Mismatch("an encoder without layers".to_owned()))?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a token")]
    let start = facts.real(&["decoder_start_token_id"]).unwrap_or(0.0) as u32;
    let layers = vec![layer; size(count.value)];
    let embedding_scale = plan.embedding_scale;
    plan.text_encoder = Some(TextEncoderPlan { embedding_scale, layers, start });
    Ok(())
}

/// The encoder of sound before the decoder.
fn sound_encoder(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    // The class of the decoder alone has none.
    if facts.is_causal_class() && !facts.model.has("enc.layers.0.attn.q.weight") {
        return Ok(());
    }
    let encoder = &facts.config.encoder;
    let need = |field: &Option<weighbridge::arch::Field<u32>>, name: &str| {
        let field = field.as_ref().map(|field| size(field.value));
        field.ok_or_else(|| Error::Unsupported(format!("an encoder without {name}")))
    };
    need(&encoder.enc_n_heads, "heads")?;
    let dim = need(&encoder.enc_dim, "a width")?;
    let layer = encoder_layer(facts, plan, dim)?;
    plan.encoder = Some(EncoderPlan {
        dim,
        bands: need(&encoder.n_mels, "bands")?,
        positions: need(&encoder.n_audio_ctx, "positions")?,
        layers: vec![layer; need(&encoder.enc_n_layers, "layers")?],
    });
    Ok(())
}
