//! Keys in GGUF that decoders share, as most classes of llama.cpp's converter write them.

use super::super::step::{Step, Steps};
use crate::arch::config::Reported;
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::{LayerKind, RopeScalingKind};
use crate::engines::transformers;
use crate::error::{Error, Result};

/// The functions that the families' files name.
pub(crate) const STEPS: Steps = &[
    ("all_widths_of_heads", Step::Keys(all_widths_of_heads)),
    ("block_count", Step::Keys(block_count)),
    ("gating", Step::Keys(gating)),
    ("layer_norm_epsilon", Step::Keys(layer_norm_epsilon)),
    ("network_width", Step::Keys(network_width)),
    ("no_next_layers", Step::Keys(no_next_layers)),
    ("one_base", Step::Keys(one_base)),
    ("other_base", Step::Keys(other_base)),
    ("pooling", Step::Keys(pooling)),
    ("rope_scaling", Step::Keys(rope_scaling)),
    ("rotated_in_windows", Step::Keys(rotated_in_windows)),
    ("sections", Step::Keys(sections)),
    ("shared_width", Step::Keys(shared_width)),
    ("uneven_heads", Step::Keys(uneven_heads)),
    ("widths_of_heads", Step::Keys(widths_of_heads)),
    ("windows", Step::Keys(windows)),
];

/// The number of layers, including the extra layers that predict further tokens.
pub(crate) fn block_count(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let next = model.next_layers();
    keys.count("block_count", model.config.n_layers.value.saturating_add(next));
    if next > 0 {
        keys.count("nextn_predict_layers", next);
    }
    Ok(())
}

/// The width of the network, which configs of fixed widths do not state: that of its first matrix.
fn network_width(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let width = match &model.config.ffn_dim {
        Some(width) => Some(width.value),
        None => model.rows("layers.0.ffn.up.weight").and_then(|rows| u32::try_from(rows).ok()),
    };
    let width = width.ok_or_else(|| model.missing_in_config("the width of the network"))?;
    keys.count("feed_forward_length", width);
    Ok(())
}

/// Scaling of rotary embeddings.
fn rope_scaling(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let scaling = &model.config.rope_scaling;
    let (Some(kind), factor) = (&scaling.kind, &scaling.factor) else { return Ok(()) };
    match (&kind.value, factor) {
        (RopeScalingKind::Linear | RopeScalingKind::Yarn, Some(factor)) => {
            keys.set("rope.scaling.type", &kind.value.reported());
            keys.real("rope.scaling.factor", factor.value);
        }
        (RopeScalingKind::LongRope, _) => keys.set("rope.scaling.type", &kind.value.reported()),
        _ => {}
    }
    if kind.value != RopeScalingKind::Yarn || factor.is_none() {
        return Ok(());
    }
    let trained = scaling.trained(model.config.max_seq_len.as_ref());
    let trained =
        trained.ok_or_else(|| model.missing_in_config("original_max_position_embeddings"))?;
    keys.count("rope.scaling.original_context_length", trained.value);
    let numbers = [
        ("yarn_ext_factor", &scaling.ext_factor),
        ("yarn_attn_factor", &scaling.attention_factor),
        ("yarn_beta_fast", &scaling.beta_fast),
        ("yarn_beta_slow", &scaling.beta_slow),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            keys.real(&format!("rope.scaling.{name}"), number.value);
        }
    }
    Ok(())
}

/// Pairs rotated by time, height and width: GGUF stores four numbers.
fn sections(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    sections_or(None, model, keys)
}

/// Like [`sections`], for a family with defaults for configs that state none.
pub(crate) fn sections_or(
    usual: Option<[u32; 3]>,
    model: &SourceModel<'_>,
    keys: &mut KeyWriter<'_>,
) -> Result<()> {
    // llama.cpp turns halves by sections, and neighbors never.
    if model.turns_neighbors {
        return Ok(());
    }
    let found = model.config.rope.sections.as_ref().map(|sections| sections.value.clone());
    // llama.cpp aborts where sections are wider than a head. In a model of text alone, all positions
    // are equal, and any sections give the same result.
    let pairs = model.config.rope.dimension_count.as_ref().map_or(0, |rotated| rotated.value / 2);
    let fits = |sections: &[u32; 3]| sections.iter().sum::<u32>() <= model.config.head_dim.value;
    // llama.cpp takes the sections in turn: a pair whose section has no more pairs is not rotated.
    let thirds = [0, 1, 2].map(|section| pairs.saturating_sub(section).div_ceil(3));
    let usual = usual.map(|usual| if fits(&usual) { usual } else { thirds });
    if let Some(mut sections) = found.or(usual.map(Vec::from)) {
        sections.resize(4, 0);
        keys.set("rope.dimension_sections", &sections.reported());
    }
    Ok(())
}

/// GGUF has a number for each gating function that the table names.
fn gating(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let Some(gating) = &model.config.experts.expert_gating else { return Ok(()) };
    let number = gating.value.number().ok_or_else(|| {
        let fault =
            format!("\"{}\" has no value in GGUF's expert_gating_func", gating.value.name());
        Error::unsupported(fault).in_file(model.path()).in_key(&gating.source)
    })?;
    keys.count("expert_gating_func", number);
    Ok(())
}

/// The converter writes the width of a head only where the config states it. It reads the config
/// through transformers' classes, some of which state it always.
fn widths_of_heads(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if let Some(width) = model.row("head_dim")? {
        keys.set("attention.key_length", &width);
        keys.set("attention.value_length", &width);
        return Ok(());
    }
    match transformers::class(model.architecture()) {
        Some(class) if class.computes_head_width => all_widths_of_heads(model, keys),
        _ => Ok(()),
    }
}

/// The converter writes that a model has no layers that predict further tokens, if the config says
/// so.
pub(crate) fn no_next_layers(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if model.count("num_nextn_predict_layers")? == Some(0) && model.next_layers() == 0 {
        keys.count("nextn_predict_layers", 0);
    }
    Ok(())
}

/// The converter omits the width of a head for Granite and Phi 3. In all their models it equals the
/// derived width.
pub(crate) fn uneven_heads(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let config = &model.config;
    match config.dim.value.checked_div(config.n_heads.value) == Some(config.head_dim.value) {
        true => Ok(()),
        false => all_widths_of_heads(model, keys),
    }
}

/// Gemma's width of a head never equals the derived width, so it is always written.
pub(crate) fn all_widths_of_heads(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    keys.count("attention.key_length", model.config.head_dim.value);
    keys.count("attention.value_length", model.config.head_dim.value);
    Ok(())
}

/// The base of rotary embeddings, for families whose converter omits it because it is the usual one.
pub(crate) fn other_base(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let base = model.config.rope_theta.value;
    if base != 10_000.0 {
        keys.real("rope.freq_base", base);
    }
    Ok(())
}

/// The epsilon of layer norms, for families whose config states it under the name of RMS norms:
/// llama.cpp requires this key.
pub(crate) fn layer_norm_epsilon(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if let Some(eps) = &model.config.norm_eps {
        keys.real("attention.layer_norm_epsilon", eps.value);
    }
    Ok(())
}

/// The pooling of an embedding model.
pub(crate) fn pooling(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if let Some(pooling) = model.pooling()? {
        keys.count("pooling_type", pooling);
    }
    Ok(())
}

/// The window, and which layers attend to it, as a list; nothing if no layer does.
fn windows(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let (Some(window), Some(kinds)) = (model.row("sliding_window")?, model.kinds()) else {
        return Ok(());
    };
    let slides: Vec<bool> = kinds.iter().map(|kind| **kind == LayerKind::Sliding).collect();
    if slides.contains(&true) {
        keys.set("attention.sliding_window", &window);
        keys.flags("attention.sliding_window_pattern", &slides);
    }
    Ok(())
}

/// The number of rotated elements of a head, in layers without and with a window.
fn rotated_in_windows(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let (rope, width) = (&model.config.rope, f64::from(model.config.head_dim.value));
    let parts = [("", &rope.partial_factor), ("_swa", &rope.local_partial_factor)];
    for (ending, part) in parts {
        let part = part.as_ref().map_or(1.0, |part| f64::from(part.value));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a fraction")]
        let rotated = (width * part) as u32;
        if !rotated.is_multiple_of(2) {
            let what = format!("{rotated} rotated elements of a head, an odd number");
            return Err(model.inexpressible_in_gguf(&what));
        }
        keys.count(&format!("rope.dimension_count{ending}"), rotated);
    }
    Ok(())
}

/// Nothing: refuses layers with a window that have a base of rotary embeddings of their own, for a
/// graph that has one base.
fn one_base(model: &SourceModel<'_>, _: &mut KeyWriter<'_>) -> Result<()> {
    let (base, local) = (model.config.rope_theta.value, &model.config.rope.local_theta);
    let differs = local.as_ref().is_some_and(|local| local.value != base);
    let slides = |kinds: Vec<&LayerKind>| kinds.contains(&&LayerKind::Sliding);
    if differs && model.kinds().is_some_and(slides) {
        return Err(model.inexpressible_in_gguf("a base of rotary embeddings for windows"));
    }
    Ok(())
}

/// The width of all shared experts, of a config that states the width of one.
fn shared_width(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let experts = &model.config.experts;
    if let (Some(shared), Some(width)) = (&experts.n_shared_experts, &experts.expert_ffn_dim) {
        let width = shared.value.saturating_mul(width.value);
        keys.count("expert_shared_feed_forward_length", width);
    }
    Ok(())
}
