//! The numbers of scaled rotary embeddings that follow from others.

use super::field::Field;
use super::keys::{Core, RopeConfig, RopeScaling};
use super::origin::FieldSource;
use super::read::ConfigReader;
use super::values::RopeScalingKind;
use crate::error::Result;
use crate::rounding::f32_of;

/// Completes what a model's files state.
///
/// # Errors
///
/// `Malformed` if the ramp's bounds are the wrong way round.
pub(super) fn finish(
    reader: &ConfigReader<'_>,
    core: &Core,
    rope: &RopeConfig,
    scaling: &mut RopeScaling,
) -> Result<()> {
    if scaling.kind.is_none() {
        let store = reader.store;
        let tensor = |name: &str| store.find(name).map(|tensor| tensor.name().to_string());
        let stored = |name: &str, kind| {
            let is_stored = |name| FieldSource::tensors(format!("{name} is stored"));
            tensor(name).map(|name| Field::derived(kind, is_stored(name)))
        };
        // Mistral's params.json has an object named after the method. A factor without a type scales
        // linearly in llama.cpp, and nothing in the classes of transformers.
        let factor = scaling.factor.as_ref().and_then(|factor| {
            let kind = match factor.source.is_within("yarn") {
                true => RopeScalingKind::Yarn,
                false => reader.reads_gguf_keys().then_some(RopeScalingKind::Linear)?,
            };
            Some(Field::derived(kind, factor.source.clone()))
        });
        scaling.kind = stored("rope_factors_long.weight", RopeScalingKind::LongRope)
            .or_else(|| stored("rope_freqs.weight", RopeScalingKind::Tensor))
            .or(factor)
            .or_else(|| {
                let rotates = rope.dimension_count.is_some();
                rotates.then(|| Field::derived(RopeScalingKind::None, FieldSource::usual()))
            });
    }
    name_longrope(reader, scaling);
    flat_magnitude(reader, scaling);
    // YaRN's class derives a factor that is null.
    let lengths = core.max_seq_len.as_ref().zip(scaling.original_max_seq_len.as_ref());
    if let (None, Some((longest, trained)), false) =
        (&scaling.factor, lengths, reader.reads_gguf_keys())
        && scaling.kind.as_ref().is_some_and(|kind| kind.value == RopeScalingKind::Yarn)
    {
        let factor = f32_of(f64::from(longest.value) / f64::from(trained.value));
        scaling.factor =
            Some(Field::derived(factor, "max_seq_len / rope_scaling_original_max_seq_len"));
    }
    // The method divides by the difference of the two, unless there is none: then it has no ramp.
    if let (Some(low), Some(high)) = (&scaling.low_freq_factor, &scaling.high_freq_factor)
        && low.value > high.value
    {
        let fault =
            format!("{}, but at least low_freq_factor, {}, is needed", high.value, low.value);
        return Err(reader.invalid(&high.source, fault));
    }
    Ok(())
}

/// Mistral's word for a magnitude that does not grow: transformers' configs of the same models state both as 1.
fn flat_magnitude(reader: &ConfigReader<'_>, scaling: &mut RopeScaling) {
    const APPLIES: &str = "yarn.apply_scale";
    if reader.is_stated_false(APPLIES) {
        let one = || Field::derived(1.0, FieldSource::document("params.json", APPLIES));
        scaling.mscale.get_or_insert_with(one);
        scaling.mscale_all_dim.get_or_insert_with(one);
    }
}

/// Phi 3's first configs name LongRoPE so, as its class knows: YaRN has no lists of divisors.
fn name_longrope(reader: &ConfigReader<'_>, scaling: &mut RopeScaling) {
    if let Some(kind) = &mut scaling.kind
        && kind.value == RopeScalingKind::Yarn
        && scaling.long_factors.is_some()
        && !reader.reads_gguf_keys()
    {
        kind.value = RopeScalingKind::LongRope;
    }
}
