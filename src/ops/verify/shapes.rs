//! Compares tensor shapes with those that the config determines.

use crate::arch::{LayerKind, ModelConfig};

/// The length of an axis: a number of the config, or one computed from several.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Size {
    Dim,
    Vocab,
    /// All query heads.
    Queries,
    /// All query heads, each with a gate beside it (Qwen3-Next).
    GatedQueries,
    /// All key heads.
    Keys,
    /// All value heads.
    Values,
    /// The output of all query heads.
    Outputs,
    Heads,
    KeyHeads,
    HeadDim,
    Ffn,
    /// Twice that, in layers that share keys and values (Gemma 4).
    WideFfn,
    Experts,
    ExpertFfn,
    SharedFfn,
    Positions,
    Segments,
    QueryRank,
    /// The latent of keys and values, followed by the rotated part of the key.
    KeyValueRankRotated,
    KeyValueRank,
    PerLayer,
    EncoderDim,
    EncoderFfn,
}

use Size::*;

/// The shapes that a canonical tensor may have.
struct ShapeRule {
    name: &'static str,
    shapes: &'static [&'static [Size]],
}

const fn row(name: &'static str, shapes: &'static [&'static [Size]]) -> ShapeRule {
    ShapeRule { name, shapes }
}

/// Canonical names whose shapes a config determines. Other names are not checked.
#[rustfmt::skip]
static ROWS: &[ShapeRule] = &[
    row("token_embedding.weight",                    &[&[Vocab, Dim]]),
    row("position_embedding.weight",                 &[&[Positions, Dim]]),
    row("token_type_embedding.weight",               &[&[Segments, Dim]]),
    row("output.weight",                             &[&[Vocab, Dim]]),
    row("output.bias",                               &[&[Vocab]]),
    row("output_norm.weight",                        &[&[Dim]]),
    row("output_norm.bias",                          &[&[Dim]]),
    row("layers.{n}.attention_norm.weight",          &[&[Dim]]),
    row("layers.{n}.attention_norm.bias",            &[&[Dim]]),
    row("layers.{n}.post_attention_norm.weight",     &[&[Dim]]),
    row("layers.{n}.ffn_norm.weight",                &[&[Dim]]),
    row("layers.{n}.ffn_norm.bias",                  &[&[Dim]]),
    row("layers.{n}.post_ffn_norm.weight",           &[&[Dim]]),
    row("layers.{n}.attention.q.weight",             &[&[Queries, Dim], &[GatedQueries, Dim]]),
    row("layers.{n}.attention.q.bias",               &[&[Queries], &[GatedQueries]]),
    row("layers.{n}.attention.k.weight",             &[&[Keys, Dim]]),
    row("layers.{n}.attention.k.bias",               &[&[Keys]]),
    row("layers.{n}.attention.v.weight",             &[&[Values, Dim]]),
    row("layers.{n}.attention.v.bias",               &[&[Values]]),
    row("layers.{n}.attention.output.weight",        &[&[Dim, Outputs]]),
    row("layers.{n}.attention.output.bias",          &[&[Dim]]),
    // Shared by all heads, separate for each head, or over all heads together.
    row("layers.{n}.attention.q_norm.weight",        &[&[HeadDim], &[Heads, HeadDim], &[Queries]]),
    row("layers.{n}.attention.k_norm.weight",        &[&[HeadDim], &[KeyHeads, HeadDim], &[Keys]]),
    row("layers.{n}.attention.sinks",                &[&[Heads]]),
    row("layers.{n}.attention.q_a.weight",           &[&[QueryRank, Dim]]),
    row("layers.{n}.attention.q_a_norm.weight",      &[&[QueryRank]]),
    row("layers.{n}.attention.q_b.weight",           &[&[Queries, QueryRank]]),
    row("layers.{n}.attention.kv_a.weight",          &[&[KeyValueRankRotated, Dim]]),
    row("layers.{n}.attention.kv_a_norm.weight",     &[&[KeyValueRank]]),
    row("layers.{n}.ffn.gate.weight",                &[&[Ffn, Dim], &[WideFfn, Dim]]),
    row("layers.{n}.ffn.gate.bias",                  &[&[Ffn]]),
    row("layers.{n}.ffn.up.weight",                  &[&[Ffn, Dim], &[WideFfn, Dim]]),
    row("layers.{n}.ffn.up.bias",                    &[&[Ffn]]),
    row("layers.{n}.ffn.down.weight",                &[&[Dim, Ffn], &[Dim, WideFfn]]),
    row("layers.{n}.ffn.down.bias",                  &[&[Dim]]),
    row("layers.{n}.ffn.router.weight",              &[&[Experts, Dim]]),
    row("layers.{n}.ffn.router.bias",                &[&[Experts]]),
    row("layers.{n}.ffn.router.correction_bias",     &[&[Experts]]),
    row("layers.{n}.ffn.experts.gate.weight",        &[&[Experts, ExpertFfn, Dim]]),
    row("layers.{n}.ffn.experts.up.weight",          &[&[Experts, ExpertFfn, Dim]]),
    row("layers.{n}.ffn.experts.down.weight",        &[&[Experts, Dim, ExpertFfn]]),
    row("layers.{n}.ffn.shared_expert.gate.weight",  &[&[SharedFfn, Dim]]),
    row("layers.{n}.ffn.shared_expert.up.weight",    &[&[SharedFfn, Dim]]),
    row("layers.{n}.ffn.shared_expert.down.weight",  &[&[Dim, SharedFfn]]),
    row("layers.{n}.per_layer_gate.weight",          &[&[PerLayer, Dim]]),
    row("layers.{n}.per_layer_projection.weight",    &[&[Dim, PerLayer]]),
    row("enc.layers.{n}.attn.q.weight",              &[&[EncoderDim, EncoderDim], &[Queries, EncoderDim]]),
    row("enc.layers.{n}.attn.k.weight",              &[&[EncoderDim, EncoderDim], &[Keys, EncoderDim]]),
    row("enc.layers.{n}.attn.v.weight",              &[&[EncoderDim, EncoderDim], &[Values, EncoderDim]]),
    row("enc.layers.{n}.ffn.gate.weight",            &[&[EncoderFfn, EncoderDim]]),
    row("enc.layers.{n}.ffn.up.weight",              &[&[EncoderFfn, EncoderDim]]),
    row("enc.layers.{n}.ffn.down.weight",            &[&[EncoderDim, EncoderFfn]]),
];

/// The fault of a canonical tensor whose shape differs from the one that the config determines.
pub(super) fn fault(config: &ModelConfig, canonical: &str, shape: &[u64]) -> Option<String> {
    let (name, layer) = pattern(canonical);
    let row = ROWS.iter().find(|row| row.name == name)?;
    let mut expected = Vec::new();
    for sizes in row.shapes {
        // A size that the config does not state is not checked.
        let lengths: Option<Vec<u64>> = sizes.iter().map(|size| size.of(config, layer)).collect();
        let Some(lengths) = lengths else { continue };
        // A vector may be stored as a matrix of one row or one column.
        let squeezed = |shape: &[u64]| -> Vec<u64> {
            shape.iter().copied().filter(|&length| length != 1).collect()
        };
        if squeezed(&lengths) == squeezed(shape) {
            return None;
        }
        expected.push((lengths, sizes));
    }
    // The closest of the allowed shapes is reported.
    let distance = |(lengths, _): &&(Vec<u64>, &&[Size])| {
        let same = lengths.iter().zip(shape).filter(|(a, b)| a == b).count();
        (lengths.len() != shape.len(), lengths.len().saturating_sub(same))
    };
    let (lengths, sizes) = expected.iter().min_by_key(distance)?;
    let wrong = sizes.iter().zip(lengths).enumerate();
    let wrong: Vec<String> = wrong
        .filter(|(axis, (_, length))| shape.get(*axis) != Some(length))
        .map(|(_, (size, length))| format!("{} is {length}", size.describe(config)))
        .collect();
    Some(format!("{canonical}: the shape is {shape:?}, but {}", wrong.join(" and ")))
}

/// Replaces the layer number in a canonical name by `{n}`, and returns both.
fn pattern(canonical: &str) -> (String, u32) {
    let mut layer = None;
    let parts: Vec<&str> = canonical
        .split('.')
        .map(|part| match part.parse() {
            Ok(number) if layer.is_none() => {
                layer = Some(number);
                "{n}"
            }
            _ => part,
        })
        .collect();
    (parts.join("."), layer.unwrap_or(0))
}

impl Size {
    fn of(self, config: &ModelConfig, layer: u32) -> Option<u64> {
        let attention = &config.attention;
        let layers = config.layers.as_ref().map(|layers| &layers.value);
        let sliding = layers.and_then(|layers| layers.kind(layer)) == Some(&LayerKind::Sliding);
        let each = |list: &Option<crate::arch::Field<Vec<u32>>>, all: u32| match list {
            Some(list) => list.value.get(layer as usize).copied(),
            None => Some(all),
        };
        let heads = each(&attention.n_heads_per_layer, config.n_heads.value)?;
        let kv_heads = match &attention.n_global_kv_heads {
            Some(global) if !sliding => global.value,
            _ => each(&attention.n_kv_heads_per_layer, config.n_kv_heads.value)?,
        };
        let local = attention.local_head_dim.as_ref().filter(|_| sliding);
        let head = local.unwrap_or(&config.head_dim).value;
        let local = attention.local_value_head_dim.as_ref().filter(|_| sliding);
        let value_head = match (local, attention.local_head_dim.as_ref().filter(|_| sliding)) {
            (Some(local), _) | (None, Some(local)) => local.value,
            (None, None) => attention.value_head_dim.as_ref().map_or(head, |dim| dim.value),
        };
        let product = |a: u32, b: u32| u64::from(a).checked_mul(u64::from(b));
        let field = |field: &Option<crate::arch::Field<u32>>| {
            field.as_ref().map(|field| u64::from(field.value))
        };
        match self {
            Dim => Some(config.dim.value.into()),
            Vocab => field(&config.vocab_size),
            Queries => product(heads, head),
            GatedQueries => product(heads, head)?.checked_mul(2),
            Keys => product(kv_heads, head),
            Values => product(kv_heads, value_head),
            Outputs => product(heads, value_head),
            Heads => Some(heads.into()),
            KeyHeads => Some(kv_heads.into()),
            HeadDim => Some(head.into()),
            Ffn => match &config.ffn_dim_per_layer {
                Some(list) => list.value.get(layer as usize).map(|&width| width.into()),
                None => field(&config.ffn_dim),
            },
            WideFfn => {
                let shared = attention.n_kv_shared_layers.as_ref()?.value;
                let first = config.n_layers.value.checked_sub(shared)?;
                let width = (layer >= first).then(|| Ffn.of(config, layer)).flatten();
                width?.checked_mul(2)
            }
            Experts => Some(config.n_experts.value).filter(|&n| n > 0).map(u64::from),
            ExpertFfn => field(&config.experts.expert_ffn_dim),
            SharedFfn => field(&config.experts.shared_expert_ffn_dim),
            Positions => field(&config.max_seq_len),
            Segments => field(&config.scales.type_vocab_size),
            QueryRank => field(&attention.q_lora_rank),
            KeyValueRank => field(&attention.kv_lora_rank),
            KeyValueRankRotated => {
                field(&attention.kv_lora_rank)?.checked_add(field(&config.rope.dimension_count)?)
            }
            PerLayer => field(&config.scales.per_layer_dim),
            EncoderDim => field(&config.encoder.enc_dim),
            EncoderFfn => field(&config.encoder.enc_ffn_dim),
        }
    }

    /// Describes the size: its name and the keys of the config that state it.
    fn describe(self, config: &ModelConfig) -> String {
        let from = |name: &str, source: &str| format!("{name} ({source})");
        let or = |name: &str, field: &Option<crate::arch::Field<u32>>| match field {
            Some(field) => from(name, &field.source),
            None => name.to_owned(),
        };
        let heads = |name: &str, heads: &crate::arch::Field<u32>| {
            let dim = &config.head_dim;
            format!("{name} ({}) * head_dim ({}: {})", heads.source, dim.source, dim.value)
        };
        match self {
            Dim => from("dim", &config.dim.source),
            Vocab => or("vocab_size", &config.vocab_size),
            Queries => heads("n_heads", &config.n_heads),
            GatedQueries => format!("2 * {}", heads("n_heads", &config.n_heads)),
            Keys => heads("n_kv_heads", &config.n_kv_heads),
            Values => or("n_kv_heads * value_head_dim", &config.attention.value_head_dim),
            Outputs => or("n_heads * value_head_dim", &config.attention.value_head_dim),
            Heads => from("n_heads", &config.n_heads.source),
            KeyHeads => from("n_kv_heads", &config.n_kv_heads.source),
            HeadDim => from("head_dim", &config.head_dim.source),
            Ffn => or("ffn_dim", &config.ffn_dim),
            WideFfn => format!("2 * {}", Ffn.describe(config)),
            Experts => from("n_experts", &config.n_experts.source),
            ExpertFfn => or("expert_ffn_dim", &config.experts.expert_ffn_dim),
            SharedFfn => or("shared_expert_ffn_dim", &config.experts.shared_expert_ffn_dim),
            Positions => or("max_seq_len", &config.max_seq_len),
            Segments => or("type_vocab_size", &config.scales.type_vocab_size),
            QueryRank => or("q_lora_rank", &config.attention.q_lora_rank),
            KeyValueRank => or("kv_lora_rank", &config.attention.kv_lora_rank),
            KeyValueRankRotated => {
                or("kv_lora_rank + rope_dimension_count", &config.attention.kv_lora_rank)
            }
            PerLayer => or("per_layer_dim", &config.scales.per_layer_dim),
            EncoderDim => or("enc_dim", &config.encoder.enc_dim),
            EncoderFfn => or("enc_ffn_dim", &config.encoder.enc_ffn_dim),
        }
    }
}
