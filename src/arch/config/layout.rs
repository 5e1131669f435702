//! The kinds of layers: full attention, windows, chunks, linear attention.

use std::num::NonZeroU32;

use super::field::Field;
use super::keys::{AttentionConfig, Core, RopeConfig};
use super::origin::{FieldSource, SourceKind};
use super::read::ConfigReader;
use super::values::{LayerKind, LayerLayout, LayerPattern};
use crate::dialect::Dialect;

/// The ways in which files state the kinds of layers.
pub(super) struct Layouts<'d> {
    pub(super) core: &'d Core,
    pub(super) window: Option<&'d Field<u32>>,
    pub(super) chunk_size: Option<&'d Field<u32>>,
    pub(super) rope: &'d RopeConfig,
    pub(super) reader: &'d ConfigReader<'d>,
    pub(super) n_layers: u32,
}

impl Layouts<'_> {
    /// The first layout that the files state or that follows from what they state.
    pub(super) fn choose(&self) -> Option<Field<LayerLayout>> {
        // Layouts of windows apply only if layers have a window.
        let window = self.window;
        let of_windows = |field: Option<Field<LayerLayout>>| field.filter(|_| window.is_some());
        let is_usual = |pattern: &mut Field<_>| pattern.source.kind() == SourceKind::Family;
        let mut pattern = self.pattern();
        let usual = pattern.take_if(is_usual);
        self.listed(pattern.as_ref())
            .or_else(|| self.numbered())
            .or_else(|| self.counted())
            .or_else(|| self.periodic())
            .or_else(|| self.linear())
            .or_else(|| self.interval())
            .or_else(|| of_windows(pattern))
            .or_else(|| of_windows(self.partly()))
            .or_else(|| of_windows(usual))
            .or_else(|| self.chunks())
            .or_else(|| of_windows(self.unrotated()))
            .or_else(|| of_windows(self.of_class()))
            .or_else(|| {
                let same = LayerLayout::Same(LayerKind::Sliding);
                window.map(|window| Field::derived(same, window.source.clone()))
            })
    }

    /// Layers of a kind, and one with full attention in each period.
    fn of_period(&self, period: u32, kind: LayerKind) -> LayerLayout {
        match NonZeroU32::new(period) {
            None => LayerLayout::Same(kind),
            Some(period) if holds(&self.core.full_first) => {
                let is_full = |layer: u32| layer.is_multiple_of(period.get());
                let kind = |layer| if is_full(layer) { LayerKind::Full } else { kind.clone() };
                LayerLayout::of((0..self.n_layers).map(kind).collect())
            }
            Some(NonZeroU32::MIN) => LayerLayout::Same(LayerKind::Full),
            Some(period) => LayerLayout::Period(period, kind),
        }
    }

    fn pattern(&self) -> Option<Field<LayerLayout>> {
        let Field { value, source } = self.core.layer_pattern.as_ref()?;
        let layout = match value {
            LayerPattern::Period(period) => self.of_period(*period, LayerKind::Sliding),
            LayerPattern::Each(windows) => {
                let kind = |&window: &bool| match window {
                    true => LayerKind::Sliding,
                    false => LayerKind::Full,
                };
                LayerLayout::of(windows.iter().map(kind).collect())
            }
        };
        Some(Field::derived(layout, source.clone()))
    }

    fn listed(&self, pattern: Option<&Field<LayerLayout>>) -> Option<Field<LayerLayout>> {
        let Field { value, source } = self.core.layer_types.as_ref()?;
        // A stated pattern that agrees with the list replaces it, since it also covers layers that are
        // not listed.
        if let Some(pattern) = pattern.filter(|pattern| pattern.value.agrees(value)) {
            return Some(pattern.clone());
        }
        // Transformers 5 calls the layers of all kinds of state spaces `linear_attention`.
        let kind = |kind: &LayerKind| match (kind, &self.core.without_attention) {
            (LayerKind::Linear, Some(other)) => other.value.clone(),
            (kind, _) => kind.clone(),
        };
        let layout = LayerLayout::of(value.iter().map(kind).collect());
        Some(Field::derived(layout, source.clone()))
    }

    /// Layers with attention between others.
    fn between(
        &self,
        attends: impl Fn(u32) -> bool,
        source: &FieldSource,
    ) -> Option<Field<LayerLayout>> {
        let other = &self.core.without_attention.as_ref()?.value;
        let of = |layer| if attends(layer) { LayerKind::Full } else { other.clone() };
        let kinds = (0..self.n_layers).map(of).collect();
        Some(Field::derived(LayerLayout::of(kinds), source.clone()))
    }

    /// Layers with attention by their numbers.
    fn numbered(&self) -> Option<Field<LayerLayout>> {
        let Field { value, source } = self.core.attention_layers.as_ref()?;
        self.between(|layer| value.contains(&layer), source)
    }

    /// The same, where the first layer is number 1.
    fn counted(&self) -> Option<Field<LayerLayout>> {
        let Field { value, source } = self.core.attention_places.as_ref()?;
        self.between(|layer| value.contains(&layer.saturating_add(1)), source)
    }

    /// Layers with attention by their period.
    fn periodic(&self) -> Option<Field<LayerLayout>> {
        let core = self.core;
        let Field { value: period, source } = core.attention_period.as_ref()?;
        let offset = core.attention_offset.as_ref().map_or(0, |offset| offset.value);
        self.between(|layer| layer.checked_rem(*period) == Some(offset), source)
    }

    /// Layers with linear attention, one by one.
    fn linear(&self) -> Option<Field<LayerLayout>> {
        let Field { value, source } = self.core.linear_layers.as_ref()?;
        let kind = |&linear: &bool| if linear { LayerKind::Linear } else { LayerKind::Full };
        let kinds: Vec<LayerKind> = value.iter().map(kind).collect();
        let interval = self.interval().filter(|interval| interval.value.agrees(&kinds));
        interval.or_else(|| Some(Field::derived(LayerLayout::of(kinds), source.clone())))
    }

    /// Layers with linear attention, by the period of the others.
    fn interval(&self) -> Option<Field<LayerLayout>> {
        let interval = self.core.full_interval.as_ref()?;
        let layout = self.of_period(interval.value, LayerKind::Linear);
        Some(Field::derived(layout, interval.source.clone()))
    }

    /// Windows from some layer on.
    fn partly(&self) -> Option<Field<LayerLayout>> {
        let core = self.core;
        let from = core.window_from.as_ref()?;
        let layout = LayerLayout::From(from.value, LayerKind::Sliding);
        Some(Field::derived(layout, from.source.clone()))
    }

    /// Windows of the layers without rotary embeddings, if a flag states that there are windows.
    fn unrotated(&self) -> Option<Field<LayerLayout>> {
        let flag = self.core.use_window.as_ref().filter(|flag| flag.value)?;
        let kind = |rotates: bool| if rotates { LayerKind::Full } else { LayerKind::Sliding };
        let kinds = match (&self.rope.layers, &self.rope.skip_interval) {
            (Some(rotated), _) => rotated.value.iter().map(|&rotates| kind(rotates)).collect(),
            (None, Some(period)) => {
                let rotates = |layer: u32| !layer.saturating_add(1).is_multiple_of(period.value);
                (0..self.n_layers).map(|layer| kind(rotates(layer))).collect()
            }
            (None, None) => return None,
        };
        Some(Field::derived(LayerLayout::of(kinds), flag.source.clone()))
    }

    /// Windows of the layers that transformers' class chooses.
    fn of_class(&self) -> Option<Field<LayerLayout>> {
        let Field { value, source } = self.reader.layers_of_class(self.n_layers)?;
        Some(Field::derived(LayerLayout::of(value), source))
    }

    /// Attention within chunks. Layers without rotary embeddings attend to all positions.
    fn chunks(&self) -> Option<Field<LayerLayout>> {
        let size = self.chunk_size?;
        // A GGUF file states a window of 0 if no layer attends within chunks.
        if self.core.stated_window.as_ref().is_some_and(|window| window.value == 0) {
            return None;
        }
        let layout = match &self.rope.layers {
            Some(rotated) => LayerLayout::of(rotated.value.iter().map(chunked).collect()),
            None => {
                let period = self.rope.skip_interval.as_ref().map_or(4, |period| period.value);
                self.of_period(period, LayerKind::Chunked)
            }
        };
        Some(Field::derived(layout, size.source.clone()))
    }
}

/// The window of a family that states the positions before the current one. mlx-lm, which has a key of that name too,
/// counts the current one.
pub(super) fn count_itself(attention: &mut AttentionConfig, dialect: Dialect) {
    if let Some(before) = &attention.window_before {
        let window = before.value.saturating_add(u32::from(dialect != Dialect::Mlx));
        attention.sliding_window = Some(Field { value: window, ..before.clone() });
    }
}

/// The kind of each layer, where those of one kind have no key heads.
pub(super) fn headless(attention: &AttentionConfig, core: &Core) -> Option<Field<LayerLayout>> {
    let kind = &core.without_attention.as_ref()?.value;
    let Field { value, source } = attention.n_kv_heads_per_layer.as_ref()?;
    let of = |heads: &u32| if *heads == 0 { kind.clone() } else { LayerKind::Full };
    Some(Field::derived(LayerLayout::of(value.iter().map(of).collect()), source.clone()))
}

/// Whether a flag is stated and true.
pub(super) fn holds(flag: &Option<Field<bool>>) -> bool {
    flag.as_ref().is_some_and(|flag| flag.value)
}

/// The kind of a layer of a model that attends within chunks.
fn chunked(rotates: &bool) -> LayerKind {
    if *rotates { LayerKind::Chunked } else { LayerKind::Full }
}
