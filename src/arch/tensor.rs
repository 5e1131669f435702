//! Canonical tensors: the facts about each, whichever family it belongs to.

use super::rule;
use super::size::Size::{self, *};
use super::{Architecture, ModelConfig};

/// The facts about one canonical tensor. A bias has no row: they follow from those of its weight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TensorRow {
    /// The canonical name; `{n}` stands for the layer number.
    name: &'static str,
    role: Role,
    /// The shapes that it may have, outermost axis first. Axes of length 1 do not count.
    shapes: &'static [&'static [Size]],
    /// Its shape in a state space with heads (Mamba 2), if that differs.
    with_heads: &'static [Size],
}

/// The purpose of a tensor, as far as programs treat tensors differently because of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Role {
    /// A matrix, or a vector for each of many tokens.
    Matrix,
    /// A vector for each of few positions or segments.
    Table,
    Norm,
    Router,
    /// A depthwise convolution.
    Convolution,
    /// A value for each channel, head or expert, or for a whole layer; a bias.
    Vector,
}

use Role::{Convolution, Matrix, Norm, Router, Table, Vector};

/// The part of a model that a tensor belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Part {
    /// Before the layers.
    Input,
    Layer,
    /// After the layers.
    Output,
}

type Shapes = &'static [&'static [Size]];

const fn row(name: &'static str, role: Role, shapes: Shapes) -> TensorRow {
    TensorRow { name, role, shapes, with_heads: &[] }
}

const fn with_heads(with_heads: &'static [Size], row: TensorRow) -> TensorRow {
    TensorRow { with_heads, ..row }
}

#[rustfmt::skip]
static INPUTS: &[TensorRow] = &[
    row("token_embedding.weight",                      Matrix,      &[&[Vocab, Dim]]),
    row("token_type_embedding.weight",                 Table,       &[&[Segments, Dim]]),
    row("position_embedding.weight",                   Table,       &[&[Positions, Dim]]),
    row("token_embedding_norm.weight",                 Norm,        &[&[Dim]]),
    row("per_layer_embedding.weight",                  Matrix,      &[&[OtherVocab, Any]]),
    row("per_layer_model_projection.weight",           Matrix,      &[&[Any, Dim]]),
    row("per_layer_projection_norm.weight",            Norm,        &[&[PerLayer]]),
    row("altup.projections.weight",                    Matrix,      &[&[Any, Dim, Dim]]),
    row("enc.conv1.weight",                            Matrix,      &[&[EncoderDim, Any, Any]]),
    row("enc.conv2.weight",                            Matrix,      &[&[EncoderDim, EncoderDim, Any]]),
    row("enc.position_embedding.weight",               Table,       &[&[Any, EncoderDim]]),
];

#[rustfmt::skip]
static LAYERS: &[TensorRow] = &[
    row("enc.layers.{n}.attn_norm.weight",             Norm,        &[&[EncoderDim]]),
    row("enc.layers.{n}.attn.q.weight",                Matrix,      &[&[EncoderQueries, EncoderDim], &[Queries, EncoderDim]]),
    row("enc.layers.{n}.attn.k.weight",                Matrix,      &[&[EncoderKeys, EncoderDim], &[Keys, EncoderDim]]),
    row("enc.layers.{n}.attn.v.weight",                Matrix,      &[&[EncoderKeys, EncoderDim], &[Values, EncoderDim]]),
    row("enc.layers.{n}.attn.output.weight",           Matrix,      &[&[EncoderDim, EncoderQueries], &[EncoderDim, Outputs]]),
    // A bias for each range of distances and each head.
    row("enc.layers.{n}.attn.relative_bias.weight",    Matrix,      &[&[Any, Heads]]),
    row("enc.layers.{n}.ffn_norm.weight",              Norm,        &[&[EncoderDim]]),
    row("enc.layers.{n}.ffn.gate.weight",              Matrix,      &[&[EncoderFfn, EncoderDim]]),
    row("enc.layers.{n}.ffn.up.weight",                Matrix,      &[&[EncoderFfn, EncoderDim]]),
    row("enc.layers.{n}.ffn.down.weight",              Matrix,      &[&[EncoderDim, EncoderFfn]]),

    row("layers.{n}.attention_norm.weight",            Norm,        &[&[Dim]]),
    row("layers.{n}.attention.q.weight",               Matrix,      &[&[Queries, Dim], &[GatedQueries, Dim]]),
    row("layers.{n}.attention.gate.weight",            Matrix,      &[&[Outputs, Dim]]),
    // Latent attention: narrow vectors, and the matrices that expand them.
    row("layers.{n}.attention.q_a.weight",             Matrix,      &[&[QueryRank, Dim]]),
    row("layers.{n}.attention.q_a_norm.weight",        Norm,        &[&[QueryRank]]),
    row("layers.{n}.attention.q_b.weight",             Matrix,      &[&[Queries, QueryRank]]),
    row("layers.{n}.attention.kv_a.weight",            Matrix,      &[&[KeyValueRankRotated, Dim]]),
    row("layers.{n}.attention.kv_a_norm.weight",       Norm,        &[&[KeyValueRank]]),
    row("layers.{n}.attention.k_b.weight",             Matrix,      &[&[Heads, Any, Any]]),
    row("layers.{n}.attention.v_b.weight",             Matrix,      &[&[Heads, Any, Any]]),
    row("layers.{n}.attention.k.weight",               Matrix,      &[&[Keys, Dim]]),
    row("layers.{n}.attention.v.weight",               Matrix,      &[&[Values, Dim]]),
    row("layers.{n}.attention.output.weight",          Matrix,      &[&[Dim, Outputs]]),
    // Shared by all heads, separate for each head, or over all heads together.
    row("layers.{n}.attention.q_norm.weight",          Norm,        &[&[HeadDim], &[Heads, HeadDim], &[Queries]]),
    row("layers.{n}.attention.k_norm.weight",          Norm,        &[&[HeadDim], &[KeyHeads, HeadDim], &[Keys]]),
    row("layers.{n}.attention.sinks",                  Vector,      &[&[Heads]]),
    row("layers.{n}.attention.relative_bias.weight",   Matrix,      &[&[Any, Heads]]),
    row("layers.{n}.attention.indexer.q_b.weight",     Matrix,      &[&[Any, QueryRank]]),
    row("layers.{n}.attention.indexer.k.weight",       Matrix,      &[&[Any, Dim]]),
    row("layers.{n}.attention.indexer.k_norm.weight",  Norm,        &[&[Any]]),
    row("layers.{n}.attention.indexer.weights.weight", Matrix,      &[&[Any, Dim]]),
    row("layers.{n}.attention_output_norm.weight",     Norm,        &[&[Dim]]),
    row("layers.{n}.attention_sum_norm.weight",        Norm,        &[&[Dim]]),
    row("layers.{n}.post_attention_norm.weight",       Norm,        &[&[Dim]]),

    row("layers.{n}.linear_attention.q.weight",        Matrix,      &[&[GroupStates, Dim]]),
    row("layers.{n}.linear_attention.k.weight",        Matrix,      &[&[GroupStates, Dim]]),
    row("layers.{n}.linear_attention.v.weight",        Matrix,      &[&[Channels, Dim]]),
    row("layers.{n}.linear_attention.gate.weight",     Matrix,      &[&[Channels, Dim]]),
    row("layers.{n}.linear_attention.conv.weight",     Convolution, &[&[Sum(&[GroupStates, GroupStates, Channels]), ConvKernel]]),
    row("layers.{n}.linear_attention.alpha.weight",    Matrix,      &[&[StateHeads, Dim]]),
    row("layers.{n}.linear_attention.beta.weight",     Matrix,      &[&[StateHeads, Dim]]),
    row("layers.{n}.linear_attention.a_log",           Vector,      &[&[StateHeads]]),
    row("layers.{n}.linear_attention.dt_bias",         Vector,      &[&[StateHeads]]),
    row("layers.{n}.linear_attention.norm.weight",     Norm,        &[&[Any]]),
    row("layers.{n}.linear_attention.output.weight",   Matrix,      &[&[Dim, Channels]]),

    // The channels, and then their gates. With heads: gates, channels, the inputs and outputs of the
    // states by groups, and a time step for each head.
    with_heads(&[Sum(&[Channels, Channels, GroupStates, GroupStates, StateHeads]), Dim],
        row("layers.{n}.ssm.in.weight",                Matrix,      &[&[Sum(&[Inner, Inner]), Dim]])),
    with_heads(&[Sum(&[Channels, GroupStates, GroupStates]), ConvKernel],
        row("layers.{n}.ssm.conv.weight",              Convolution, &[&[Inner, ConvKernel]])),
    row("layers.{n}.ssm.x.weight",                 Matrix,      &[&[Sum(&[StepRank, State, State]), Inner]]),
    // With heads, only the bias.
    row("layers.{n}.ssm.dt.weight",                    Matrix,      &[&[Inner, StepRank]]),
    with_heads(&[StateHeads],
        row("layers.{n}.ssm.dt.bias",                  Vector,      &[&[Inner]])),
    with_heads(&[StateHeads],
        row("layers.{n}.ssm.a_log",                    Vector,      &[&[Inner, State]])),
    with_heads(&[StateHeads],
        row("layers.{n}.ssm.d",                        Vector,      &[&[Inner]])),
    row("layers.{n}.ssm.dt_norm.weight",               Norm,        &[&[StepRank]]),
    row("layers.{n}.ssm.b_norm.weight",                Norm,        &[&[State]]),
    row("layers.{n}.ssm.c_norm.weight",                Norm,        &[&[State]]),
    row("layers.{n}.ssm.norm.weight",                  Norm,        &[&[Channels]]),
    with_heads(&[Dim, Channels],
        row("layers.{n}.ssm.output.weight",            Matrix,      &[&[Dim, Inner]])),

    // Two gates and the channels.
    row("layers.{n}.short_conv.in.weight",         Matrix,      &[&[Sum(&[ShortConv, ShortConv, ShortConv]), Dim]]),
    row("layers.{n}.short_conv.weight",            Convolution, &[&[ShortConv, ConvKernel]]),
    row("layers.{n}.short_conv.output.weight",     Matrix,      &[&[Dim, ShortConv]]),

    row("layers.{n}.cross_attn_norm.weight",           Norm,        &[&[Dim]]),
    row("layers.{n}.cross_attn.q.weight",              Matrix,      &[&[Queries, Dim]]),
    row("layers.{n}.cross_attn.k.weight",              Matrix,      &[&[Keys, EncoderDim]]),
    row("layers.{n}.cross_attn.v.weight",              Matrix,      &[&[Values, EncoderDim]]),
    row("layers.{n}.cross_attn.output.weight",         Matrix,      &[&[Dim, Outputs]]),
    row("layers.{n}.cross_attn.relative_bias.weight",  Matrix,      &[&[Any, Heads]]),

    row("layers.{n}.ffn_norm.weight",                  Norm,        &[&[Dim]]),
    row("layers.{n}.ffn.gate.weight",                  Matrix,      &[&[Ffn, Dim], &[WideFfn, Dim]]),
    row("layers.{n}.ffn.up.weight",                    Matrix,      &[&[Ffn, Dim], &[WideFfn, Dim]]),
    row("layers.{n}.ffn.down.weight",                  Matrix,      &[&[Dim, Ffn], &[Dim, WideFfn]]),
    row("layers.{n}.ffn.activation.alpha_n",           Vector,      &[&[Any]]),
    row("layers.{n}.ffn.activation.alpha_p",           Vector,      &[&[Any]]),
    row("layers.{n}.ffn.activation.beta",              Vector,      &[&[Any]]),
    row("layers.{n}.ffn.activation.eps",               Vector,      &[&[Any]]),
    row("layers.{n}.ffn.router.weight",                Router,      &[&[Experts, Dim]]),
    row("layers.{n}.ffn.router.correction_bias",       Router,      &[&[Experts]]),
    row("layers.{n}.ffn.router.scale",                 Router,      &[&[Dim]]),
    row("layers.{n}.ffn.experts.gate.weight",      Matrix,      &[&[Experts, ExpertFfn, Dim]]),
    row("layers.{n}.ffn.experts.up.weight",        Matrix,      &[&[Experts, ExpertFfn, Dim]]),
    row("layers.{n}.ffn.experts.down.weight",      Matrix,      &[&[Experts, Dim, ExpertFfn]]),
    row("layers.{n}.ffn.experts.output_scale",         Vector,      &[&[Experts]]),
    // One for all experts, which is added to their sum.
    row("layers.{n}.ffn.experts.bias",                 Vector,      &[&[Dim]]),
    row("layers.{n}.ffn.shared_expert.gate.weight",    Matrix,      &[&[SharedFfn, Dim]]),
    row("layers.{n}.ffn.shared_expert.up.weight",      Matrix,      &[&[SharedFfn, Dim]]),
    row("layers.{n}.ffn.shared_expert.down.weight",    Matrix,      &[&[Dim, SharedFfn]]),
    row("layers.{n}.ffn.shared_expert.router.weight",  Router,      &[&[Dim]]),
    row("layers.{n}.post_ffn_norm.weight",             Norm,        &[&[Dim]]),
    row("layers.{n}.post_ffn_norm_1.weight",           Norm,        &[&[Dim]]),
    row("layers.{n}.ffn_norm_2.weight",                Norm,        &[&[Dim]]),
    row("layers.{n}.post_ffn_norm_2.weight",           Norm,        &[&[Dim]]),
    row("layers.{n}.layer_output_norm.weight",         Norm,        &[&[Dim]]),
    row("layers.{n}.output_scale",                     Vector,      &[&[Any]]),

    row("layers.{n}.per_layer_gate.weight",            Matrix,      &[&[PerLayer, Dim]]),
    row("layers.{n}.per_layer_projection.weight",      Matrix,      &[&[Dim, PerLayer]]),
    row("layers.{n}.per_layer_norm.weight",            Norm,        &[&[Dim]]),
    row("layers.{n}.altup.correction.weight",          Matrix,      &[&[Any, Any]]),
    row("layers.{n}.altup.output_scale",               Vector,      &[&[Dim]]),
    row("layers.{n}.altup.prediction.weight",          Matrix,      &[&[Any, Any]]),
    row("layers.{n}.altup.router.weight",              Matrix,      &[&[Any, Dim]]),
    row("layers.{n}.altup.router_norm.weight",         Norm,        &[&[Dim]]),
    row("layers.{n}.laurel.left.weight",               Matrix,      &[&[Any, Dim]]),
    row("layers.{n}.laurel.right.weight",              Matrix,      &[&[Dim, Any]]),
    row("layers.{n}.laurel.norm.weight",               Norm,        &[&[Dim]]),

    row("layers.{n}.nextn.embedding.weight",           Matrix,      &[&[Vocab, Dim]]),
    row("layers.{n}.nextn.embedding_norm.weight",      Norm,        &[&[Dim]]),
    row("layers.{n}.nextn.hidden_norm.weight",         Norm,        &[&[Dim]]),
    row("layers.{n}.nextn.projection.weight",          Matrix,      &[&[Dim, Sum(&[Dim, Dim])]]),
    row("layers.{n}.nextn.output_norm.weight",         Norm,        &[&[Dim]]),
    row("layers.{n}.nextn.output.weight",              Matrix,      &[&[Vocab, Dim]]),
];

#[rustfmt::skip]
static OUTPUTS: &[TensorRow] = &[
    row("output_norm.weight",                          Norm,        &[&[Dim]]),
    row("output.weight",                               Matrix,      &[&[Vocab, Dim]]),
    row("enc.output_norm.weight",                      Norm,        &[&[EncoderDim]]),
    row("altup.unembed_projections.weight",            Matrix,      &[&[Any, Dim, Dim]]),
    row("pooler.weight",                               Matrix,      &[&[Dim, Dim]]),
    row("classifier.dense.weight",                     Matrix,      &[&[Dim, Dim]]),
    row("classifier.output.weight",                    Matrix,      &[&[Any, Dim]]),
    row("masked_words.dense.weight",                   Matrix,      &[&[Dim, Dim]]),
    row("masked_words.norm.weight",                    Norm,        &[&[Dim]]),
    row("masked_words.output.weight",                  Matrix,      &[&[Vocab, Dim]]),
    row("next_sentence.weight",                        Matrix,      &[&[Any, Dim]]),
    row("dense_2.weight",                              Matrix,      &[&[Any, Any]]),
    row("dense_3.weight",                              Matrix,      &[&[Any, Any]]),
];

/// The rows, in the order of computation.
fn rows() -> impl Iterator<Item = (Part, &'static TensorRow)> {
    let parts = [(Part::Input, INPUTS), (Part::Layer, LAYERS), (Part::Output, OUTPUTS)];
    parts.into_iter().flat_map(|(part, rows)| rows.iter().map(move |row| (part, row)))
}

/// A canonical tensor: the facts of its row, or of its weight's row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CanonicalTensor {
    row: &'static TensorRow,
    is_bias: bool,
    pub(crate) part: Part,
    pub(crate) layer: Option<u32>,
}

impl CanonicalTensor {
    /// The tensor with this canonical name. Every name in the tables of a family has one.
    pub(crate) fn of(canonical: &str) -> Option<Self> {
        let rule::Pattern { layers: name, layer, .. } = rule::pattern(canonical);
        if let Some((part, row)) = rows().find(|(_, row)| row.name == name) {
            return Some(Self { row, is_bias: false, part, layer });
        }
        let module = name.strip_suffix(".bias")?;
        let mut rows = rows();
        let (part, row) = rows.find(|(_, row)| row.name.strip_suffix(".weight") == Some(module))?;
        Some(Self { row, is_bias: true, part, layer })
    }

    /// Whether a program that computes with the tensor needs its values as `F32`, and they are few.
    fn is_small(&self) -> bool {
        self.is_bias || self.row.role != Role::Matrix
    }

    /// Whether the first axis counts experts that have their own values. That of a router counts
    /// its outputs.
    pub(crate) fn has_experts(&self) -> bool {
        let experts = self.row.shapes.first().and_then(|axes| axes.first());
        self.row.role != Role::Router && experts == Some(&Size::Experts)
    }

    /// The shapes that it may have, outermost axis first.
    pub(crate) fn shapes(
        &self,
        config: Option<&ModelConfig>,
    ) -> impl Iterator<Item = &'static [Size]> {
        let has_heads = config.is_some_and(|config| config.ssm.group_count.is_some());
        let (row, with_heads) = (self.row, &self.row.with_heads);
        let shapes = match has_heads && !with_heads.is_empty() {
            true => std::slice::from_ref(with_heads),
            false => row.shapes,
        };
        // A norm has a bias for each weight; a matrix has one for each row.
        let axes = match (self.is_bias && row.role != Role::Norm, self.has_experts()) {
            (false, _) => usize::MAX,
            (true, false) => 1,
            (true, true) => 2,
        };
        shapes.iter().map(move |shape| shape.get(..axes).unwrap_or(shape))
    }
}

impl Architecture {
    /// Whether llama.cpp's converter writes the tensor with this name in GGUF as `F32` in every file
    /// type: norms, routers, convolutions and tables of positions (`prepare_tensors` in
    /// conversion/base.py).
    pub(crate) fn is_small_in_gguf(&self, name: &str) -> bool {
        let name = rule::pattern(name).layers;
        let mut rules = self.rules.iter().copied().flatten();
        let rule = rules.find(|rule| rule.gguf.name == name);
        let tensor = rule.and_then(|rule| CanonicalTensor::of(rule.canonical));
        tensor.is_some_and(|tensor| tensor.is_small())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::{ARCHITECTURES, NameRule};
    use super::*;

    /// The canonical names in the tables of a family, those that depend on other tensors included.
    fn names(architecture: &'static Architecture) -> Vec<String> {
        let rules = architecture.rules.iter().copied().flatten();
        let others = [architecture.mlx, architecture.publisher, architecture.conditional_rules];
        let rules: Vec<&NameRule> = rules.chain(others.into_iter().flatten()).collect();
        let renamed = architecture.conditional_names.iter().flat_map(|renamed| {
            let rests = rules.iter().filter_map(|rule| rule.canonical.strip_prefix(renamed.usual));
            rests.map(|rest| format!("{}{rest}", renamed.name))
        });
        let keyed = architecture.keyed.iter().map(|tensor| tensor.canonical.to_owned());
        renamed.chain(keyed).chain(rules.iter().map(|rule| rule.canonical.to_owned())).collect()
    }

    #[test]
    fn every_canonical_name_has_a_row_and_every_row_a_family() {
        let mut used = HashSet::new();
        for architecture in ARCHITECTURES {
            for name in names(architecture) {
                let tensor = CanonicalTensor::of(&name);
                let tensor = tensor.unwrap_or_else(|| panic!("{}: {name}", architecture.name));
                assert_eq!(tensor.part == Part::Layer, name.contains("{n}"), "{name}");
                used.insert(tensor.row.name);
            }
        }
        let unused = rows().filter(|(_, row)| !used.contains(row.name));
        assert_eq!(unused.map(|(_, row)| row.name).collect::<Vec<_>>(), [""; 0]);
        assert_eq!(used.len(), rows().count(), "two rows have one name");
    }
}
