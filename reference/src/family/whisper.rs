//! Whisper: an encoder of sound, and a decoder that attends to it.

use super::Family;
use weighbridge::arch::NormKind;

use crate::error::{Error, Result};
use crate::facts::{Facts, size};
use crate::math::Activation;
use crate::plan::{EncoderPlan, LayerPlan, MixerPlan, Plan};

pub(super) static FAMILIES: &[Family] = &[Family { name: "whisper", adjust }];

fn adjust(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    plan.norm.kind = NormKind::Layer;
    plan.set_activation(Activation::Gelu);
    let encoder = &facts.config.encoder;
    let need = |field: &Option<weighbridge::arch::Field<u32>>, name: &str| {
        let field = field.as_ref().map(|field| size(field.value));
        field.ok_or_else(|| Error::Unsupported(format!("an encoder without {name}")))
    };
    let (dim, heads) = (need(&encoder.enc_dim, "a width")?, need(&encoder.enc_n_heads, "heads")?);
    let first = plan.layers.first();
    let first = first.ok_or_else(|| Error::Unsupported("a decoder without layers".to_owned()))?;
    let MixerPlan::Attention(mut attention) = first.mixer.clone() else {
        return Err(Error::Unsupported("a decoder without attention".to_owned()));
    };
    let head_dim = dim / heads.max(1);
    (attention.heads, attention.kv_heads) = (heads, heads);
    (attention.head_dim, attention.value_dim) = (head_dim, head_dim);
    #[expect(clippy::cast_precision_loss, reason = "a width")]
    let scale = (head_dim as f32).sqrt().recip();
    (attention.scale, attention.causal) = (scale, false);
    let layer = LayerPlan { mixer: MixerPlan::Attention(attention), network: first.network };
    plan.encoder = Some(EncoderPlan {
        dim,
        bands: need(&encoder.n_mels, "bands")?,
        positions: need(&encoder.n_audio_ctx, "positions")?,
        layers: vec![layer; need(&encoder.enc_n_layers, "layers")?],
    });
    Ok(())
}
