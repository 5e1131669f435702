//! Canonical tensors: the facts about each, whichever family it belongs to.

use std::collections::HashSet;

use super::rule;
use super::size::Size::{self, *};
use super::{Architecture, ModelConfig};

/// The facts about one canonical tensor. A bias has no row: its facts follow from those of its weight.
#[derive(Clone, Copy, Debug)]
struct TensorRow {
    /// The canonical name; `{n}` stands for the layer number.
    name: &'static str,
    role: Role,
    need: Need,
    /// The shapes that it may have, outermost axis first. Axes of length 1 do not count.
    shapes: &'static [&'static [Size]],
    /// Its shape in a state space with heads (Mamba 2), if that differs.
    with_heads: &'static [Size],
}

/// The purpose of a tensor, as far as programs treat tensors differently because of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Role {
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

/// Whether a model requires a tensor for which its family has a name, unless the family says that it
/// is [optional](Architecture::optional).
#[derive(Clone, Copy, Debug)]
enum Need {
    No,
    Yes,
    /// Required, unless the layer has the other tensor.
    InsteadOf(&'static str),
}

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

const fn must(name: &'static str, role: Role, shapes: Shapes) -> TensorRow {
    TensorRow { name, role, need: Need::Yes, shapes, with_heads: &[] }
}

const fn may(name: &'static str, role: Role, shapes: Shapes) -> TensorRow {
    TensorRow { need: Need::No, ..must(name, role, shapes) }
}

const fn or(other: &'static str, row: TensorRow) -> TensorRow {
    TensorRow { need: Need::InsteadOf(other), ..row }
}

const fn with_heads(with_heads: &'static [Size], row: TensorRow) -> TensorRow {
    TensorRow { with_heads, ..row }
}

#[rustfmt::skip]
static INPUTS: &[TensorRow] = &[
    must("token_embedding.weight",                     Matrix,      &[&[Embeddings, Embedding]]),
    must("token_type_embedding.weight",                Table,       &[&[Segments, Embedding]]),
    must("position_embedding.weight",                  Table,       &[&[Positions, Embedding], &[Positions, Dim], &[LaterPositions, Dim]]),
    must("token_embedding_norm.weight",                Norm,        &[&[Embedding]]),
    // What kind of task a text is for (ERNIE), and how a character looks and sounds (RoCBert).
    may("task_type_embedding.weight",                  Table,       &[&[Any, Embedding]]),
    may("shape_embedding.weight",                      Matrix,      &[&[Any, Any]]),
    may("pronunciation_embedding.weight",              Matrix,      &[&[Any, Any]]),
    // From the width of embeddings, or of several together, to that of the residual stream.
    may("embedding_projection.weight",                 Matrix,      &[&[Dim, Any]]),
    may("per_layer_embedding.weight",                  Matrix,      &[&[OtherVocab, Any]]),
    may("per_layer_model_projection.weight",           Matrix,      &[&[Any, Dim]]),
    may("per_layer_projection_norm.weight",            Norm,        &[&[PerLayer]]),
    may("altup.projections.weight",                    Matrix,      &[&[Any, Dim, Dim]]),
    // A bias of scores for each range of distances and pair of segments (CPM-Ant).
    may("relative_bias.weight",                        Matrix,      &[&[Any, Heads]]),
    // Of a token that is not known (XLNet), and the first state of a stack (HRM).
    may("mask_embedding",                              Vector,      &[&[Dim]]),
    may("low.initial",                                 Vector,      &[&[Dim]]),
    may("input_scale",                                 Vector,      &[&[Dim]]),
    may("input_bias",                                  Vector,      &[&[Dim]]),
    // One for each of several tokens that follow (ProphetNet).
    may("ngram_embedding.weight",                      Table,       &[&[Any, Dim]]),
    // Of distances, for scores that depend on queries and keys, and a convolution beside the first layer (DeBERTa).
    may("relative_embedding.weight",                   Table,       &[&[Any, Dim]]),
    may("relative_embedding_norm.weight",              Norm,        &[&[Dim]]),
    may("input_conv.weight",                           Matrix,      &[&[Dim, Dim, Any]]),
    may("input_conv_norm.weight",                      Norm,        &[&[Dim]]),
    // The place of a token on its page (LayoutLM), or in a table (TAPAS).
    may("x_embedding.weight",                          Table,       &[&[Any, Embedding]]),
    may("y_embedding.weight",                          Table,       &[&[Any, Embedding]]),
    may("height_embedding.weight",                     Table,       &[&[Any, Embedding]]),
    may("width_embedding.weight",                      Table,       &[&[Any, Embedding]]),
    may("column_embedding.weight",                     Table,       &[&[Any, Embedding]]),
    may("row_embedding.weight",                        Table,       &[&[Any, Embedding]]),
    may("previous_label_embedding.weight",             Table,       &[&[Any, Embedding]]),
    may("column_rank_embedding.weight",                Table,       &[&[Any, Embedding]]),
    may("inverse_column_rank_embedding.weight",        Table,       &[&[Any, Embedding]]),
    may("numeric_relation_embedding.weight",           Table,       &[&[Any, Embedding]]),
    // Entities beside the words (LUKE).
    may("entity_embedding.weight",                     Matrix,      &[&[Any, Any]]),
    may("entity_projection.weight",                    Matrix,      &[&[Dim, Any]]),
    may("entity_position_embedding.weight",            Table,       &[&[Any, Dim]]),
    may("entity_type_embedding.weight",                Table,       &[&[Any, Dim]]),
    may("entity_norm.weight",                          Norm,        &[&[Dim]]),
    // Of the last tokens together, by their number and by a part of a hash (LongCat).
    may("ngram.{n}.embedding.weight",                  Matrix,      &[&[Any, Any]]),
    may("ngram.{n}.projection.weight",                 Matrix,      &[&[Dim, Any]]),
    must("enc.conv1.weight",                           Matrix,      &[&[EncoderDim, Any, Any]]),
    must("enc.conv2.weight",                           Matrix,      &[&[EncoderDim, EncoderDim, Any]]),
    may("enc.position_embedding.weight",               Table,       &[&[Any, EncoderDim]]),
    may("enc.token_embedding.weight",                  Matrix,      &[&[Any, EncoderDim]]),
    may("enc.token_embedding_norm.weight",             Norm,        &[&[EncoderDim]]),
    may("enc.global_embedding.weight",                 Table,       &[&[Any, EncoderDim]]),
];

#[rustfmt::skip]
static LAYERS: &[TensorRow] = &[
    must("enc.layers.{n}.attn_norm.weight",            Norm,        &[&[EncoderDim]]),
    must("enc.layers.{n}.attn.q.weight",               Matrix,      &[&[EncoderQueries, EncoderDim], &[Queries, EncoderDim]]),
    must("enc.layers.{n}.attn.k.weight",               Matrix,      &[&[EncoderKeys, EncoderDim], &[Keys, EncoderDim]]),
    must("enc.layers.{n}.attn.v.weight",               Matrix,      &[&[EncoderKeys, EncoderDim], &[Values, EncoderDim]]),
    must("enc.layers.{n}.attn.output.weight",          Matrix,      &[&[EncoderDim, EncoderQueries], &[EncoderDim, Outputs]]),
    // A bias for each range of distances and each head.
    may("enc.layers.{n}.attn.relative_bias.weight",    Matrix,      &[&[Any, Heads]]),
    must("enc.layers.{n}.ffn_norm.weight",             Norm,        &[&[EncoderDim]]),
    may("enc.layers.{n}.ffn.gate.weight",              Matrix,      &[&[EncoderFfn, EncoderDim]]),
    must("enc.layers.{n}.ffn.up.weight",               Matrix,      &[&[EncoderFfn, EncoderDim]]),
    must("enc.layers.{n}.ffn.down.weight",             Matrix,      &[&[EncoderDim, EncoderFfn]]),
    // Of tokens that all others see (PEGASUS X), and of means of blocks (LongT5).
    may("enc.layers.{n}.global_attn_norm.weight",      Norm,        &[&[EncoderDim]]),
    may("enc.layers.{n}.attn.global_norm.weight",      Norm,        &[&[EncoderDim]]),
    may("enc.layers.{n}.attn.global_q.weight",         Matrix,      &[&[EncoderQueries, EncoderDim], &[Queries, EncoderDim]]),
    may("enc.layers.{n}.attn.global_k.weight",         Matrix,      &[&[EncoderQueries, EncoderDim], &[Queries, EncoderDim]]),
    may("enc.layers.{n}.attn.global_v.weight",         Matrix,      &[&[EncoderQueries, EncoderDim], &[Queries, EncoderDim]]),
    may("enc.layers.{n}.attn.global_relative_bias.weight", Matrix, &[&[Any, Heads]]),

    // Of the residual stream before the layer.
    may("layers.{n}.input_norm.weight",                Norm,        &[&[Dim]]),
    must("layers.{n}.attention_norm.weight",           Norm,        &[&[Dim]]),
    // In some families, layers of linear attention have these names too.
    must("layers.{n}.attention.q.weight",              Matrix,      &[&[Queries, Dim], &[GatedQueries, Dim], &[GroupStates, Dim]]),
    // Of each element of the output, of each head, or in linear attention of each channel.
    may("layers.{n}.attention.gate.weight",            Matrix,      &[&[Outputs, Dim], &[Heads, Dim], &[Channels, Dim]]),
    may("layers.{n}.attention.gate.head_bias",         Vector,      &[&[Heads]]),
    // The values of a key that all heads share, and an output in two steps (DeepSeek 4).
    may("layers.{n}.attention.kv.weight",              Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.attention.kv_norm.weight",         Norm,        &[&[Any]]),
    may("layers.{n}.attention.output_a.weight",        Matrix,      &[&[Any, Any], &[Any, Any, Any]]),
    may("layers.{n}.attention.output_a.groups",        Matrix,      &[&[Any, Any, Any]]),
    may("layers.{n}.attention.output_b.weight",        Matrix,      &[&[Dim, Any]]),
    may("layers.{n}.attention.compressor.kv.weight",   Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.attention.compressor.gate.weight", Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.attention.compressor.positions",   Table,       &[&[Any, Any]]),
    may("layers.{n}.attention.compressor.norm.weight", Norm,        &[&[Any]]),
    may("layers.{n}.attention.indexer.compressor.kv.weight", Matrix, &[&[Any, Dim]]),
    may("layers.{n}.attention.indexer.compressor.gate.weight", Matrix, &[&[Any, Dim]]),
    may("layers.{n}.attention.indexer.compressor.positions", Table, &[&[Any, Any]]),
    may("layers.{n}.attention.indexer.compressor.norm.weight", Norm, &[&[Any]]),
    // Hyper-connections: how several residual streams are mixed.
    may("layers.{n}.hyper.attention.base",             Vector,      &[&[Any]]),
    may("layers.{n}.hyper.attention.mix",              Table,       &[&[Any, Any]]),
    may("layers.{n}.hyper.attention.scale",            Vector,      &[&[Any]]),
    may("layers.{n}.hyper.ffn.base",                   Vector,      &[&[Any]]),
    may("layers.{n}.hyper.ffn.mix",                    Table,       &[&[Any, Any]]),
    may("layers.{n}.hyper.ffn.scale",                  Vector,      &[&[Any]]),
    // The same with a narrow mix of the streams, and what a part adds to each (Qwen 4).
    may("layers.{n}.hyper.attention.norm.weight",      Norm,        &[&[Any]]),
    may("layers.{n}.hyper.attention.down.weight",      Matrix,      &[&[Any, Any]]),
    may("layers.{n}.hyper.attention.up.weight",        Matrix,      &[&[Any, Any]]),
    may("layers.{n}.hyper.attention.inject.weight",    Router,      &[&[Any, Any]]),
    may("layers.{n}.hyper.ffn.norm.weight",            Norm,        &[&[Any]]),
    may("layers.{n}.hyper.ffn.down.weight",            Matrix,      &[&[Any, Any]]),
    may("layers.{n}.hyper.ffn.up.weight",              Matrix,      &[&[Any, Any]]),
    may("layers.{n}.hyper.ffn.inject.weight",          Router,      &[&[Any, Any]]),
    // Embeddings of the last tokens together, in a layer, which stored names number by their last word.
    may("layers.{n}.ngram.embedding.weight",           Matrix,      &[&[Any, Any, Any]]),
    may("layers.{n}.ngram.key.weight",                 Matrix,      &[&[Any, Any]]),
    may("layers.{n}.ngram.value.weight",               Matrix,      &[&[Any, Any]]),
    may("layers.{n}.ngram.conv.weight",                Convolution, &[&[Any, Any]]),
    may("layers.{n}.ngram.conv_norm.weight",           Norm,        &[&[Any]]),
    may("layers.{n}.ngram.key_norm.weight",            Norm,        &[&[Any]]),
    may("layers.{n}.ngram.query_norm.weight",          Norm,        &[&[Any]]),
    // A mixture of heads: experts have queries and outputs (JetMoE).
    may("layers.{n}.attention.router.weight",          Router,      &[&[Experts, Dim]]),
    may("layers.{n}.attention.experts.q.weight",       Matrix,      &[&[Experts, Any, Dim]]),
    may("layers.{n}.attention.experts.output.weight",  Matrix,      &[&[Experts, Dim, Any]]),
    may("layers.{n}.attention.experts.bias",           Vector,      &[&[Dim]]),
    // Of each token: the shares of the experts and of the shared expert (Klear).
    may("layers.{n}.ffn.shares.weight",                Router,      &[&[Any, Dim]]),
    // Gates of what norms give, in two steps, and queries with the gates of their heads (A.X K2).
    may("layers.{n}.attention_norm.gate_a.weight",     Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.attention_norm.gate_b.weight",     Matrix,      &[&[Dim, Any]]),
    may("layers.{n}.ffn_norm.gate_a.weight",           Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.ffn_norm.gate_b.weight",           Matrix,      &[&[Dim, Any]]),
    may("layers.{n}.attention.q_gate.weight",          Matrix,      &[&[Any, Any]]),
    // Factors of queries and of what attention, the network and the embedding add (Talkie).
    may("layers.{n}.attention.q_gain",                 Vector,      &[&[Heads]]),
    may("layers.{n}.attention_gain",                   Vector,      &[&[]]),
    may("layers.{n}.ffn_gain",                         Vector,      &[&[]]),
    may("layers.{n}.embedding_gain",                   Vector,      &[&[]]),
    // Shares of what a first and a second round of attention give (IQuest Loop).
    may("layers.{n}.attention.loop_gate.weight",       Router,      &[&[Heads, HeadDim]]),
    // What parts of the stream are mixed by (Inkling 2).
    may("layers.{n}.residuals.attention.weight",       Router,      &[&[Dim]]),
    may("layers.{n}.residuals.ffn.weight",             Router,      &[&[Dim]]),
    // How much of the stream is kept, and the norm of what experts give (Muse Spark).
    may("layers.{n}.attention_residual_gate",          Vector,      &[&[Dim]]),
    may("layers.{n}.ffn_residual_gate",                Vector,      &[&[Dim]]),
    may("layers.{n}.ffn.experts.output_norm.weight",   Norm,        &[&[Any]]),
    // Values of this position and of the one before, convolutions of queries and keys, factors and additions of the stream, and a
    // router of several layers (Zaya).
    may("layers.{n}.attention.v_now.weight",           Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.attention.v_before.weight",        Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.attention.qk_conv.weight",         Convolution, &[&[Any, Any]]),
    may("layers.{n}.attention.qk_mix.weight",          Vector,      &[&[Any, Any, Any]]),
    may("layers.{n}.attention.k_gain",                 Vector,      &[&[KeyHeads]]),
    may("layers.{n}.attention_residual_bias",          Vector,      &[&[Dim]]),
    may("layers.{n}.attention_added",                  Vector,      &[&[Dim]]),
    may("layers.{n}.attention_added_bias",             Vector,      &[&[Dim]]),
    may("layers.{n}.ffn_residual_bias",                Vector,      &[&[Dim]]),
    may("layers.{n}.ffn_added",                        Vector,      &[&[Dim]]),
    may("layers.{n}.ffn_added_bias",                   Vector,      &[&[Dim]]),
    may("layers.{n}.ffn.router.down.weight",           Router,      &[&[Any, Dim]]),
    may("layers.{n}.ffn.router.norm.weight",           Norm,        &[&[Any]]),
    may("layers.{n}.ffn.router.first.weight",          Router,      &[&[Any, Any]]),
    may("layers.{n}.ffn.router.second.weight",         Router,      &[&[Any, Any]]),
    may("layers.{n}.ffn.router.earlier",               Router,      &[&[Any]]),
    // The second half of a layer (LongCat), and a router with experts that change nothing.
    may("layers.{n}.second.attention_norm.weight",     Norm,        &[&[Dim]]),
    may("layers.{n}.second.attention.q.weight",        Matrix,      &[&[Queries, Dim]]),
    may("layers.{n}.second.attention.q_a.weight",      Matrix,      &[&[QueryRank, Dim]]),
    may("layers.{n}.second.attention.q_a_norm.weight", Norm,        &[&[QueryRank]]),
    may("layers.{n}.second.attention.q_b.weight",      Matrix,      &[&[Queries, QueryRank]]),
    may("layers.{n}.second.attention.kv_a.weight",     Matrix,      &[&[KeyValueRankRotated, Dim]]),
    may("layers.{n}.second.attention.kv_a_norm.weight", Norm,       &[&[KeyValueRank]]),
    may("layers.{n}.second.attention.k_b.weight",      Matrix,      &[&[Heads, Any, Any]]),
    may("layers.{n}.second.attention.v_b.weight",      Matrix,      &[&[Heads, Any, Any]]),
    may("layers.{n}.second.attention.output.weight",   Matrix,      &[&[Dim, Outputs]]),
    may("layers.{n}.second.ffn_norm.weight",           Norm,        &[&[Dim]]),
    may("layers.{n}.second.ffn.gate.weight",           Matrix,      &[&[Ffn, Dim]]),
    may("layers.{n}.second.ffn.up.weight",             Matrix,      &[&[Ffn, Dim]]),
    may("layers.{n}.second.ffn.down.weight",           Matrix,      &[&[Dim, Ffn]]),
    may("layers.{n}.ffn.router.all.weight",            Router,      &[&[Any, Any]]),
    may("layers.{n}.ffn.router.all.correction_bias",   Router,      &[&[Any]]),
    // Projections with an axis for the heads, and biases of content, distances and segments (XLNet).
    may("layers.{n}.attention.heads.q",                Table,       &[&[Dim, Heads, HeadDim]]),
    may("layers.{n}.attention.heads.k",                Table,       &[&[Dim, Heads, HeadDim]]),
    may("layers.{n}.attention.heads.v",                Table,       &[&[Dim, Heads, HeadDim]]),
    may("layers.{n}.attention.heads.output",           Table,       &[&[Dim, Heads, HeadDim]]),
    may("layers.{n}.attention.heads.distance",         Table,       &[&[Dim, Heads, HeadDim]]),
    may("layers.{n}.attention.heads.content_bias",     Vector,      &[&[Heads, HeadDim]]),
    may("layers.{n}.attention.heads.distance_bias",    Vector,      &[&[Heads, HeadDim]]),
    may("layers.{n}.attention.heads.segment_bias",     Vector,      &[&[Heads, HeadDim]]),
    may("layers.{n}.attention.heads.segments",         Table,       &[&[Any, Heads, HeadDim]]),
    // Factors of queries, of gates and of the inner width (Dory).
    may("layers.{n}.attention.q_scale",                Vector,      &[&[Queries]]),
    may("layers.{n}.attention.gate_scale",             Vector,      &[&[Outputs]]),
    may("layers.{n}.ffn.gate_scale",                   Vector,      &[&[Ffn]]),
    may("layers.{n}.ffn.up_scale",                     Vector,      &[&[Ffn]]),
    // Gates, queries, keys and values in one matrix, and a second stack of layers (HRM).
    may("layers.{n}.attention.gqkv.weight",            Matrix,      &[&[Any, Dim]]),
    may("low.layers.{n}.attention.gqkv.weight",        Matrix,      &[&[Any, Dim]]),
    may("low.layers.{n}.attention.output.weight",      Matrix,      &[&[Dim, Outputs]]),
    may("low.layers.{n}.ffn.gate.weight",              Matrix,      &[&[Ffn, Dim]]),
    may("low.layers.{n}.ffn.up.weight",                Matrix,      &[&[Ffn, Dim]]),
    may("low.layers.{n}.ffn.down.weight",              Matrix,      &[&[Dim, Ffn]]),
    // What a mask is computed of, and factors of the residual stream (Doge).
    may("layers.{n}.attention.mask.a",                 Vector,      &[&[Any]]),
    may("layers.{n}.attention.mask.dt.weight",         Router,      &[&[Any, Any]]),
    may("layers.{n}.attention_residual",               Vector,      &[&[Dim]]),
    may("layers.{n}.ffn_residual",                     Vector,      &[&[Dim]]),
    may("layers.{n}.ffn.experts.down_embedding.weight", Matrix,     &[&[Any, Dim]]),
    may("layers.{n}.ffn.experts.up_embedding.weight",  Matrix,      &[&[Any, Dim]]),
    // Convolutions over the last positions, and biases of distances that depend on the input (Inkling).
    may("layers.{n}.attention.k_conv.weight",          Convolution, &[&[Any, ConvKernel]]),
    may("layers.{n}.attention.v_conv.weight",          Convolution, &[&[Any, ConvKernel]]),
    may("layers.{n}.attention_conv.weight",            Convolution, &[&[Dim, ConvKernel]]),
    may("layers.{n}.ffn_conv.weight",                  Convolution, &[&[Dim, ConvKernel]]),
    may("layers.{n}.attention.distance.weight",        Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.attention.distance.table",         Table,       &[&[Any, Any]]),
    may("layers.{n}.attention.distance.scale",         Vector,      &[&[Any]]),
    may("layers.{n}.attention.sink.weight",            Router,      &[&[Heads, Dim]]),
    may("layers.{n}.attention.q_input_norm.weight",    Norm,        &[&[Any]]),
    may("layers.{n}.attention.k_input_norm.weight",    Norm,        &[&[Any]]),
    may("layers.{n}.attention.v_input_norm.weight",    Norm,        &[&[Any]]),
    may("layers.{n}.attention.k_conv.taps",            Vector,      &[&[ConvKernel, Any]]),
    may("layers.{n}.attention.k_conv.input.weight",    Router,      &[&[Any, Dim]]),
    may("layers.{n}.attention.v_conv.taps",            Vector,      &[&[ConvKernel, Any]]),
    may("layers.{n}.attention.v_conv.input.weight",    Router,      &[&[Any, Dim]]),
    may("layers.{n}.ffn.router.output_scale",          Vector,      &[&[Any]]),
    // Queries and keys of distances (DeBERTa), of tokens that all others see (Longformer), of entities (LUKE).
    may("layers.{n}.attention.distance_q.weight",      Matrix,      &[&[Queries, Dim]]),
    may("layers.{n}.attention.distance_k.weight",      Matrix,      &[&[Queries, Dim]]),
    may("layers.{n}.attention.global_q.weight",        Matrix,      &[&[Queries, Dim]]),
    may("layers.{n}.attention.global_k.weight",        Matrix,      &[&[Queries, Dim]]),
    may("layers.{n}.attention.global_v.weight",        Matrix,      &[&[Queries, Dim]]),
    may("layers.{n}.attention.word_to_entity.weight",  Matrix,      &[&[Queries, Dim]]),
    may("layers.{n}.attention.entity_to_word.weight",  Matrix,      &[&[Queries, Dim]]),
    may("layers.{n}.attention.entities.weight",        Matrix,      &[&[Queries, Dim]]),
    // Of the values, over the positions (YOSO, Nyströmformer).
    may("layers.{n}.attention.conv.weight",            Convolution, &[&[Heads, Any]]),
    // Matrices in groups: each group of outputs has a group of inputs (SqueezeBERT).
    may("layers.{n}.grouped.q.weight",                 Matrix,      &[&[Queries, Any]]),
    may("layers.{n}.grouped.k.weight",                 Matrix,      &[&[Keys, Any]]),
    may("layers.{n}.grouped.v.weight",                 Matrix,      &[&[Values, Any]]),
    may("layers.{n}.grouped.output.weight",            Matrix,      &[&[Dim, Any]]),
    may("layers.{n}.grouped.up.weight",                Matrix,      &[&[Ffn, Any]]),
    may("layers.{n}.grouped.down.weight",              Matrix,      &[&[Dim, Any]]),
    // Differential attention: what the factor of the second half of the heads is learned from.
    may("layers.{n}.attention.lambda_q1",              Vector,      &[&[HeadDim]]),
    may("layers.{n}.attention.lambda_k1",              Vector,      &[&[HeadDim]]),
    may("layers.{n}.attention.lambda_q2",              Vector,      &[&[HeadDim]]),
    may("layers.{n}.attention.lambda_k2",              Vector,      &[&[HeadDim]]),
    // Latent attention: narrow vectors, and the matrices that expand them.
    must("layers.{n}.attention.q_a.weight",            Matrix,      &[&[QueryRank, Dim]]),
    must("layers.{n}.attention.q_a_norm.weight",       Norm,        &[&[QueryRank]]),
    must("layers.{n}.attention.q_b.weight",            Matrix,      &[&[Queries, QueryRank]]),
    must("layers.{n}.attention.kv_a.weight",           Matrix,      &[&[KeyValueRankRotated, Dim]]),
    must("layers.{n}.attention.kv_a_norm.weight",      Norm,        &[&[KeyValueRank]]),
    must("layers.{n}.attention.k_b.weight",            Matrix,      &[&[Heads, Any, Any]]),
    must("layers.{n}.attention.v_b.weight",            Matrix,      &[&[Heads, Any, Any]]),
    must("layers.{n}.attention.k.weight",              Matrix,      &[&[Keys, Dim], &[GroupStates, Dim]]),
    must("layers.{n}.attention.v.weight",              Matrix,      &[&[Values, Dim], &[Channels, Dim]]),
    must("layers.{n}.attention.output.weight",         Matrix,      &[&[Dim, Outputs], &[Dim, Channels]]),
    // Shared by all heads, separate for each head, or over all heads together.
    may("layers.{n}.attention.q_norm.weight",          Norm,        &[&[HeadDim], &[Heads, HeadDim], &[Queries]]),
    may("layers.{n}.attention.k_norm.weight",          Norm,        &[&[HeadDim], &[KeyHeads, HeadDim], &[Keys]]),
    // Of what attention mixed, before the output matrix.
    must("layers.{n}.attention.sub_norm.weight",       Norm,        &[&[Outputs]]),
    may("layers.{n}.attention.sinks",                  Vector,      &[&[Heads]]),
    may("layers.{n}.attention.relative_bias.weight",   Matrix,      &[&[Any, Heads]]),
    // For each range of distances, a score of each head (ProphetNet).
    may("layers.{n}.attention.relative.weight",        Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.attention.indexer.q_b.weight",     Matrix,      &[&[Any, QueryRank]]),
    may("layers.{n}.attention.indexer.k.weight",       Matrix,      &[&[Any, Dim], &[Any, Any]]),
    may("layers.{n}.attention.indexer.k_norm.weight",  Norm,        &[&[Any]]),
    may("layers.{n}.attention.indexer.weights.weight", Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.attention.indexer.q.weight",       Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.attention.indexer.q_norm.weight",  Norm,        &[&[Any]]),
    may("layers.{n}.attention.indexer.qk.weight",      Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.attention.k_rope_norm.weight",     Norm,        &[&[Any]]),
    must("layers.{n}.attention_output_norm.weight",    Norm,        &[&[Dim]]),
    may("layers.{n}.attention_sum_norm.weight",        Norm,        &[&[Dim]]),
    must("layers.{n}.post_attention_norm.weight",      Norm,        &[&[Dim]]),

    may("layers.{n}.linear_attention.q.weight",        Matrix,      &[&[GroupStates, Dim]]),
    may("layers.{n}.linear_attention.k.weight",        Matrix,      &[&[GroupStates, Dim]]),
    may("layers.{n}.linear_attention.v.weight",        Matrix,      &[&[Channels, Dim]]),
    may("layers.{n}.linear_attention.gate.weight",     Matrix,      &[&[Channels, Dim], &[Queries, Dim]]),
    may("layers.{n}.linear_attention.conv.weight",     Convolution, &[&[Sum(&[GroupStates, GroupStates, Channels]), ConvKernel]]),
    may("layers.{n}.linear_attention.qkv.weight",      Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.linear_attention.q_conv.weight",   Convolution, &[&[Any, ConvKernel]]),
    may("layers.{n}.linear_attention.k_conv.weight",   Convolution, &[&[Any, ConvKernel]]),
    may("layers.{n}.linear_attention.v_conv.weight",   Convolution, &[&[Any, ConvKernel]]),
    may("layers.{n}.linear_attention.gate_a.weight",   Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.linear_attention.gate_b.weight",   Matrix,      &[&[Channels, Any]]),
    // A rate for each head, or for each element of its keys.
    may("layers.{n}.linear_attention.alpha.weight",    Matrix,      &[&[StateHeads, Dim], &[Channels, Dim]]),
    may("layers.{n}.linear_attention.alpha_a.weight",  Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.linear_attention.alpha_b.weight",  Matrix,      &[&[Channels, Any]]),
    may("layers.{n}.linear_attention.beta.weight",     Matrix,      &[&[StateHeads, Dim]]),
    may("layers.{n}.linear_attention.a_log",           Vector,      &[&[StateHeads]]),
    may("layers.{n}.linear_attention.dt_bias",         Vector,      &[&[StateHeads], &[Channels]]),
    may("layers.{n}.linear_attention.norm.weight",     Norm,        &[&[Any]]),
    may("layers.{n}.linear_attention.output.weight",   Matrix,      &[&[Dim, Channels], &[Dim, Queries]]),

    // The channels, and then their gates. With heads: gates, channels, the inputs and outputs of the
    // states by groups, and a time step for each head.
    or("layers.{n}.attention.q.weight", with_heads(&[Sum(&[Channels, Channels, GroupStates, GroupStates, StateHeads]), Dim],
        must("layers.{n}.ssm.in.weight",               Matrix,      &[&[Sum(&[Inner, Inner]), Dim]]))),
    or("layers.{n}.attention.k.weight", with_heads(&[Sum(&[Channels, GroupStates, GroupStates]), ConvKernel],
        must("layers.{n}.ssm.conv.weight",             Convolution, &[&[Inner, ConvKernel]]))),
    or("layers.{n}.attention.v.weight",
        must("layers.{n}.ssm.x.weight",                Matrix,      &[&[Sum(&[StepRank, State, State]), Inner]])),
    // With heads, only the bias.
    may("layers.{n}.ssm.dt.weight",                    Matrix,      &[&[Inner, StepRank]]),
    with_heads(&[StateHeads],
        must("layers.{n}.ssm.dt.bias",                 Vector,      &[&[Inner]])),
    or("layers.{n}.attention.v.weight", with_heads(&[StateHeads],
        must("layers.{n}.ssm.a_log",                   Vector,      &[&[Inner, State]]))),
    with_heads(&[StateHeads],
        must("layers.{n}.ssm.d",                       Vector,      &[&[Inner]])),
    // With heads, no number of the config is the width of the steps before their projection.
    may("layers.{n}.ssm.dt_norm.weight",               Norm,        &[&[StepRank], &[Any]]),
    may("layers.{n}.ssm.b_norm.weight",                Norm,        &[&[State]]),
    may("layers.{n}.ssm.c_norm.weight",                Norm,        &[&[State]]),
    may("layers.{n}.ssm.norm.weight",                  Norm,        &[&[Channels]]),
    or("layers.{n}.attention.output.weight", with_heads(&[Dim, Channels],
        must("layers.{n}.ssm.output.weight",           Matrix,      &[&[Dim, Inner]]))),

    // Of the stream and the embedding, before a transformer that layers share, and what it gives (Zamba).
    may("layers.{n}.shared_norm.weight",               Norm,        &[&[Any]]),
    may("layers.{n}.shared_projection.weight",         Matrix,      &[&[Dim, Dim]]),

    // A recurrence of single channels, whose gates are computed in blocks.
    may("layers.{n}.recurrence.x.weight",              Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.recurrence.y.weight",              Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.recurrence.conv.weight",           Convolution, &[&[Any, ConvKernel]]),
    may("layers.{n}.recurrence.input_gate.weight",     Vector,      &[&[Any, Any, Any]]),
    may("layers.{n}.recurrence.rate_gate.weight",      Vector,      &[&[Any, Any, Any]]),
    may("layers.{n}.recurrence.rates",                 Vector,      &[&[Any]]),
    may("layers.{n}.recurrence.output.weight",         Matrix,      &[&[Dim, Any]]),

    // Matrices with exponential gates.
    may("layers.{n}.matrix_lstm.q.weight",             Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.matrix_lstm.k.weight",             Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.matrix_lstm.v.weight",             Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.matrix_lstm.write.weight",         Router,      &[&[Any, Dim]]),
    may("layers.{n}.matrix_lstm.forget.weight",        Router,      &[&[Any, Dim]]),
    may("layers.{n}.matrix_lstm.gate.weight",          Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.matrix_lstm.norm.weight",          Norm,        &[&[Any]]),
    may("layers.{n}.matrix_lstm.output.weight",        Matrix,      &[&[Dim, Any]]),

    // Means of values with weights that decay, and shares of the present position in their inputs.
    may("layers.{n}.time_mix.k.weight",                Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.time_mix.v.weight",                Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.time_mix.gate.weight",             Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.time_mix.output.weight",           Matrix,      &[&[Dim, Any]]),
    may("layers.{n}.time_mix.k_share",                 Vector,      &[&[Dim]]),
    may("layers.{n}.time_mix.v_share",                 Vector,      &[&[Dim]]),
    may("layers.{n}.time_mix.gate_share",              Vector,      &[&[Dim]]),
    may("layers.{n}.time_mix.decay",                   Vector,      &[&[Any]]),
    may("layers.{n}.time_mix.first",                   Vector,      &[&[Any]]),
    // States that vectors change (RWKV 7).
    may("layers.{n}.time_mix.r.weight",                Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.time_mix.r_share",                 Vector,      &[&[Any, Any, Dim]]),
    may("layers.{n}.time_mix.w_share",                 Vector,      &[&[Any, Any, Dim]]),
    may("layers.{n}.time_mix.a_share",                 Vector,      &[&[Any, Any, Dim]]),
    may("layers.{n}.time_mix.g_share",                 Vector,      &[&[Any, Any, Dim]]),
    may("layers.{n}.time_mix.k_scale",                 Vector,      &[&[Any]]),
    may("layers.{n}.time_mix.k_rate",                  Vector,      &[&[Any]]),
    may("layers.{n}.time_mix.bonus",                   Vector,      &[&[Any, Any]]),
    may("layers.{n}.time_mix.norm.weight",             Norm,        &[&[Any]]),
    may("layers.{n}.time_mix.w_a.weight",              Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.time_mix.w_b.weight",              Matrix,      &[&[Any, Any]]),
    may("layers.{n}.time_mix.a_a.weight",              Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.time_mix.a_b.weight",              Matrix,      &[&[Any, Any]]),
    may("layers.{n}.time_mix.v_a.weight",              Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.time_mix.v_b.weight",              Matrix,      &[&[Any, Any]]),
    may("layers.{n}.time_mix.g_a.weight",              Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.time_mix.g_b.weight",              Matrix,      &[&[Any, Any]]),
    may("layers.{n}.ffn.receptance.weight",            Matrix,      &[&[Dim, Dim]]),
    may("layers.{n}.ffn.up_share",                     Vector,      &[&[Dim]]),
    may("layers.{n}.ffn.receptance_share",             Vector,      &[&[Dim]]),

    // Two gates and the channels.
    or("layers.{n}.attention.k.weight",
        must("layers.{n}.short_conv.in.weight",        Matrix,      &[&[Sum(&[ShortConv, ShortConv, ShortConv]), Dim]])),
    or("layers.{n}.attention.q.weight",
        must("layers.{n}.short_conv.weight",           Convolution, &[&[ShortConv, ConvKernel]])),
    or("layers.{n}.attention.output.weight",
        must("layers.{n}.short_conv.output.weight",    Matrix,      &[&[Dim, ShortConv]])),

    must("layers.{n}.cross_attn_norm.weight",          Norm,        &[&[Dim]]),
    must("layers.{n}.cross_attn.q.weight",             Matrix,      &[&[Queries, Dim]]),
    must("layers.{n}.cross_attn.k.weight",             Matrix,      &[&[Keys, EncoderDim]]),
    must("layers.{n}.cross_attn.v.weight",             Matrix,      &[&[Values, EncoderDim]]),
    must("layers.{n}.cross_attn.output.weight",        Matrix,      &[&[Dim, Outputs]]),
    may("layers.{n}.cross_attn.q_norm.weight",         Norm,        &[&[HeadDim]]),
    may("layers.{n}.cross_attn.k_norm.weight",         Norm,        &[&[HeadDim]]),
    may("layers.{n}.cross_attn_gate",                  Vector,      &[&[Any]]),
    may("layers.{n}.cross_ffn_gate",                   Vector,      &[&[Any]]),
    may("layers.{n}.cross_attn.relative_bias.weight",  Matrix,      &[&[Any, Heads]]),

    must("layers.{n}.ffn_norm.weight",                 Norm,        &[&[Dim]]),
    must("layers.{n}.ffn.gate.weight",                 Matrix,      &[&[Ffn, Dim], &[WideFfn, Dim]]),
    must("layers.{n}.ffn.up.weight",                   Matrix,      &[&[Ffn, Dim], &[WideFfn, Dim]]),
    must("layers.{n}.ffn.down.weight",                 Matrix,      &[&[Dim, Ffn], &[Dim, WideFfn]]),
    // Of what the network computed between its matrices.
    must("layers.{n}.ffn.sub_norm.weight",             Norm,        &[&[Ffn]]),
    may("layers.{n}.ffn.activation.alpha_n",           Vector,      &[&[Any]]),
    may("layers.{n}.ffn.activation.alpha_p",           Vector,      &[&[Any]]),
    may("layers.{n}.ffn.activation.beta",              Vector,      &[&[Any]]),
    may("layers.{n}.ffn.activation.eps",               Vector,      &[&[Any]]),
    may("layers.{n}.ffn.router.weight",                Router,      &[&[Experts, Dim]]),
    may("layers.{n}.ffn.router.correction_bias",       Router,      &[&[Experts]]),
    may("layers.{n}.ffn.router.scale",                 Router,      &[&[Dim]]),
    // The experts of each token, whatever its position says.
    may("layers.{n}.ffn.router.table",                 Table,       &[&[Vocab, Any]]),
    or("layers.{n}.ffn.gate.weight",
        must("layers.{n}.ffn.experts.gate.weight",     Matrix,      &[&[Experts, ExpertFfn, ExpertDim]])),
    or("layers.{n}.ffn.up.weight",
        must("layers.{n}.ffn.experts.up.weight",       Matrix,      &[&[Experts, ExpertFfn, ExpertDim]])),
    or("layers.{n}.ffn.down.weight",
        must("layers.{n}.ffn.experts.down.weight",     Matrix,      &[&[Experts, ExpertDim, ExpertFfn]])),
    // Into a narrower space that the experts compute in, and back.
    may("layers.{n}.ffn.experts.latent_down.weight",   Matrix,      &[&[ExpertDim, Dim]]),
    may("layers.{n}.ffn.experts.latent_up.weight",     Matrix,      &[&[Dim, ExpertDim]]),
    may("layers.{n}.ffn.experts.latent_norm.weight",   Norm,        &[&[ExpertDim]]),
    may("layers.{n}.ffn.experts.output_scale",         Vector,      &[&[Experts]]),
    // One for all experts, which is added to their sum.
    may("layers.{n}.ffn.experts.bias",                 Vector,      &[&[Dim]]),
    // One for each of several experts, which is added if one of them is chosen (GroveMoE).
    may("layers.{n}.ffn.group_experts.gate.weight",    Matrix,      &[&[Any, Any, Dim]]),
    may("layers.{n}.ffn.group_experts.up.weight",      Matrix,      &[&[Any, Any, Dim]]),
    may("layers.{n}.ffn.group_experts.down.weight",    Matrix,      &[&[Any, Dim, Any]]),
    may("layers.{n}.ffn.shared_expert.gate.weight",    Matrix,      &[&[SharedFfn, Dim]]),
    may("layers.{n}.ffn.shared_expert.up.weight",      Matrix,      &[&[SharedFfn, Dim]]),
    may("layers.{n}.ffn.shared_expert.down.weight",    Matrix,      &[&[Dim, SharedFfn]]),
    may("layers.{n}.ffn.shared_expert.gate.bias",      Vector,      &[&[SharedFfn]]),
    may("layers.{n}.ffn.shared_expert.up.bias",        Vector,      &[&[SharedFfn]]),
    may("layers.{n}.ffn.shared_expert.down.bias",      Vector,      &[&[Dim]]),
    may("layers.{n}.ffn.shared_expert.router.weight",  Router,      &[&[Dim]]),
    must("layers.{n}.post_ffn_norm.weight",            Norm,        &[&[Dim]]),
    may("layers.{n}.post_ffn_norm_1.weight",           Norm,        &[&[Dim]]),
    may("layers.{n}.ffn_norm_2.weight",                Norm,        &[&[Dim]]),
    may("layers.{n}.post_ffn_norm_2.weight",           Norm,        &[&[Dim]]),
    must("layers.{n}.layer_output_norm.weight",        Norm,        &[&[Dim]]),
    may("layers.{n}.output_scale",                     Vector,      &[&[Any]]),

    may("layers.{n}.per_layer_gate.weight",            Matrix,      &[&[PerLayer, Dim]]),
    may("layers.{n}.per_layer_projection.weight",      Matrix,      &[&[Dim, PerLayer]]),
    may("layers.{n}.per_layer_norm.weight",            Norm,        &[&[Dim]]),
    may("layers.{n}.altup.correction.weight",          Matrix,      &[&[Any, Any]]),
    may("layers.{n}.altup.output_scale",               Vector,      &[&[Dim]]),
    may("layers.{n}.altup.prediction.weight",          Matrix,      &[&[Any, Any]]),
    may("layers.{n}.altup.router.weight",              Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.altup.router_norm.weight",         Norm,        &[&[Dim]]),
    may("layers.{n}.laurel.left.weight",               Matrix,      &[&[Any, Dim]]),
    may("layers.{n}.laurel.right.weight",              Matrix,      &[&[Dim, Any]]),
    may("layers.{n}.laurel.norm.weight",               Norm,        &[&[Dim]]),

    may("layers.{n}.nextn.embedding.weight",           Matrix,      &[&[Vocab, Dim]]),
    may("layers.{n}.nextn.embedding_norm.weight",      Norm,        &[&[Dim]]),
    may("layers.{n}.nextn.hidden_norm.weight",         Norm,        &[&[Dim]]),
    may("layers.{n}.nextn.projection.weight",          Matrix,      &[&[Dim, Sum(&[Dim, Dim])]]),
    may("layers.{n}.nextn.output_norm.weight",         Norm,        &[&[Dim]]),
    may("layers.{n}.nextn.output.weight",              Matrix,      &[&[Vocab, Dim]]),
];

#[rustfmt::skip]
static OUTPUTS: &[TensorRow] = &[
    must("output_norm.weight",                         Norm,        &[&[Dim]]),
    may("output_projection.weight",                    Matrix,      &[&[Embedding, Dim]]),
    may("output.weight",                               Matrix,      &[&[Vocab, Dim], &[Vocab, Embedding]]),
    must("enc.output_norm.weight",                     Norm,        &[&[EncoderDim]]),
    may("output.scale",                                Vector,      &[&[Vocab]]),
    may("hyper.base",                                  Vector,      &[&[Any]]),
    may("hyper.mix",                                   Table,       &[&[Any, Any]]),
    may("hyper.scale",                                 Vector,      &[&[Any]]),
    may("hyper.norm.weight",                           Norm,        &[&[Any]]),
    may("hyper.down.weight",                           Matrix,      &[&[Any, Any]]),
    may("hyper.up.weight",                             Matrix,      &[&[Any, Any]]),
    may("residuals.weight",                            Router,      &[&[Dim]]),
    may("output.gain",                                 Vector,      &[&[]]),
    may("altup.unembed_projections.weight",            Matrix,      &[&[Any, Dim, Dim]]),
    may("pooler.weight",                               Matrix,      &[&[Dim, Dim]]),
    may("classifier.dense.weight",                     Matrix,      &[&[Dim, Dim]]),
    may("classifier.output.weight",                    Matrix,      &[&[Any, Dim]]),
    may("masked_words.dense.weight",                   Matrix,      &[&[Any, Dim]]),
    may("masked_words.norm.weight",                    Norm,        &[&[Any]]),
    may("masked_words.output.weight",                  Matrix,      &[&[Vocab, Any]]),
    may("masked_entities.dense.weight",                Matrix,      &[&[Any, Dim]]),
    may("masked_entities.norm.weight",                 Norm,        &[&[Any]]),
    may("masked_entities.output.weight",               Matrix,      &[&[Any, Any]]),
    may("next_sentence.weight",                        Matrix,      &[&[Any, Dim]]),
    may("dense_2.weight",                              Matrix,      &[&[Any, Any]]),
    may("dense_3.weight",                              Matrix,      &[&[Any, Any]]),
];

/// Whether a model requires a tensor if its family has a name for it.
pub(crate) fn is_required(canonical: &str) -> bool {
    rows().any(|(_, row)| row.name == canonical && !matches!(row.need, Need::No))
}

/// Whether this is the name of a canonical tensor.
pub(super) fn is_canonical(name: &str) -> bool {
    CanonicalTensor::of(name).is_some()
}

/// Whether layers have a norm at the place with this name, such as `ffn_norm`.
pub(super) fn is_norm_of_layers(place: &str) -> bool {
    let tensor = CanonicalTensor::of(&format!("layers.{{n}}.{place}.weight"));
    tensor.is_some_and(|tensor| tensor.row.role == Norm) && !place.contains('.')
}

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

    /// The most axes that it has in a checkpoint. A router of one output may be a matrix of one row.
    pub(crate) fn most_axes(&self) -> usize {
        let most = self.shapes(None).map(<[Size]>::len).max().unwrap_or(usize::MAX);
        most.saturating_add(usize::from(self.row.role == Role::Router))
    }

    /// The meaning of the first axis.
    pub(crate) fn rows(&self) -> Option<Size> {
        self.shapes(None).next()?.first().copied()
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

    /// The canonical names of the tensors that a complete model requires. Each entry has alternatives,
    /// one of which is enough.
    pub fn required(&self) -> Vec<Vec<&'static str>> {
        let rules = self.rules.iter().copied().flatten();
        let names: HashSet<&'static str> = rules.map(|rule| rule.canonical).collect();
        let is_required = |name: &str| names.contains(name) && !self.optional.contains(&name);
        let mut required: Vec<Vec<&'static str>> = Vec::new();
        for (_, TensorRow { name, need, .. }) in rows().filter(|(_, row)| is_required(row.name)) {
            let other = match need {
                Need::No => continue,
                Need::Yes => None,
                Need::InsteadOf(other) => names.contains(other).then_some(other),
            };
            match other {
                None => required.push(vec![name]),
                // Without an optional tensor, nothing needs to be there instead of it.
                Some(other) => {
                    let mut all = required.iter_mut();
                    let all = all.find(|names| names.first() == Some(other));
                    all.into_iter().for_each(|names| names.push(name));
                }
            }
        }
        // The tensors of such a name are stored under the usual one.
        for renamed in self.conditional_names {
            for alternatives in &mut required {
                let rest = alternatives.first().and_then(|name| name.strip_prefix(renamed.name));
                let usual = rest.map(|rest| format!("{}{rest}", renamed.usual));
                alternatives.extend(usual.and_then(|usual| names.get(usual.as_str())).copied());
            }
        }
        required
    }
}

#[cfg(test)]
mod tests {
    use super::super::{NameRule, architectures};
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
        for architecture in architectures() {
            for name in names(architecture) {
                let tensor = CanonicalTensor::of(&name);
                let tensor = tensor.unwrap_or_else(|| panic!("{}: {name}", architecture.name));
                assert_eq!(tensor.part == Part::Layer, name.contains("layers.{n}"), "{name}");
                used.insert(tensor.row.name);
            }
        }
        let unused = rows().filter(|(_, row)| !used.contains(row.name));
        assert_eq!(unused.map(|(_, row)| row.name).collect::<Vec<_>>(), [""; 0]);
        assert_eq!(used.len(), rows().count(), "two rows have one name");
    }

    #[test]
    fn exceptions_of_families_are_exceptions() {
        for architecture in architectures() {
            let names: HashSet<String> = names(architecture).into_iter().collect();
            for name in architecture.optional {
                let row = rows().find(|(_, row)| row.name == *name);
                let needed = row.is_some_and(|(_, row)| !matches!(row.need, Need::No));
                assert!(needed && names.contains(*name), "{}: {name}", architecture.name);
            }
        }
    }

    #[test]
    fn the_other_tensor_comes_first() {
        let mut seen = HashSet::new();
        for (_, row) in rows() {
            if let Need::InsteadOf(other) = row.need {
                assert!(seen.contains(other), "{}", row.name);
            }
            seen.insert(row.name);
        }
    }
}
