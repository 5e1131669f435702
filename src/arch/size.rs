//! Sizes: the lengths of the axes of canonical tensors, as far as a config determines them.

use super::{Field, LayerKind, ModelConfig};

/// The length of an axis: a number of the config, or one computed from several.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Size {
    /// A length that the config does not determine.
    Any,
    Dim,
    /// The embedding of a token, which may be projected to `Dim`.
    Embedding,
    Vocab,
    /// The vocabulary, and the rows of the embedding beyond it.
    Embeddings,
    /// A vocabulary whose length the config does not state.
    OtherVocab,
    /// All query heads.
    Queries,
    /// All query heads, each followed by its gate (Qwen3-Next).
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
    /// Twice the usual width, in layers that share keys and values (Gemma 4).
    WideFfn,
    Experts,
    /// The vectors that experts are given: the residual stream's, or narrower ones.
    ExpertDim,
    ExpertFfn,
    SharedFfn,
    Positions,
    /// Positions after two rows for none: fairseq's tables.
    LaterPositions,
    Segments,
    QueryRank,
    /// The latent of keys and values, followed by the rotated part of the key.
    KeyValueRankRotated,
    KeyValueRank,
    PerLayer,
    EncoderDim,
    /// All query heads of an encoder, where they are as wide as its vectors.
    EncoderQueries,
    /// All key heads of an encoder, where they are as wide as its vectors.
    EncoderKeys,
    EncoderFfn,
    /// The channels of a state space without heads.
    Inner,
    /// The channels of a state space with heads, or of the values of linear attention.
    Channels,
    /// Heads of a state space, or value heads of linear attention.
    StateHeads,
    /// The states of all groups of a state space, or all keys of linear attention.
    GroupStates,
    /// The state of one channel.
    State,
    /// The rank of the time steps of a state space without heads.
    StepRank,
    ConvKernel,
    /// The channels of a short convolution.
    ShortConv,
    /// Several sizes one after another.
    Sum(&'static [Self]),
}

/// The unit that is not divided further.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Unit {
    /// Elements: blocks, where a dtype has them.
    Element,
    /// Tokens. The last ranks may have fewer.
    Token,
    /// Query heads.
    Query,
    /// Key and value heads. Several ranks have the same one if there are fewer than ranks.
    Key,
    /// Groups of a state space, or key heads of linear attention. As `Key`.
    Group,
    /// Heads of a state space, or value heads of linear attention.
    State,
}

impl Unit {
    /// The name in messages.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Element => "elements",
            Self::Token => "tokens",
            Self::Query => "query heads",
            Self::Key => "key heads",
            Self::Group => "groups",
            Self::State => "heads of the state",
        }
    }

    /// Whether several ranks have the same unit if there are fewer units than ranks.
    pub(crate) const fn is_shared(self) -> bool {
        matches!(self, Self::Key | Self::Group)
    }
}

impl Size {
    /// The length in one layer; `None` if the config does not state it.
    pub(crate) fn of(self, config: &ModelConfig, layer: u32) -> Option<u64> {
        let attention = &config.attention;
        let (ssm, scales, encoder) = (&config.ssm, &config.scales, &config.encoder);
        let heads = || each(&attention.n_heads_per_layer, config.n_heads.value, layer);
        let product = |a: u32, b: u32| u64::from(a).checked_mul(u64::from(b));
        let field = |field: &Option<Field<u32>>| field.as_ref().map(|field| field.value.into());
        match self {
            Self::Any | Self::OtherVocab | Self::ShortConv => None,
            Self::Dim => Some(config.dim.value.into()),
            Self::Embedding => field(&scales.embedding_dim).or_else(|| Self::Dim.of(config, layer)),
            Self::Vocab => field(&config.vocab_size),
            Self::Embeddings => {
                let more: u64 = field(&scales.more_embeddings).unwrap_or(0);
                field(&config.vocab_size)?.checked_add(more)
            }
            Self::Queries => product(heads()?, head_dim(config, layer)),
            Self::GatedQueries => product(heads()?, head_dim(config, layer))?.checked_mul(2),
            Self::Keys => product(key_heads(config, layer)?, head_dim(config, layer)),
            Self::Values => product(key_heads(config, layer)?, value_dim(config, layer)),
            Self::Outputs => product(heads()?, value_dim(config, layer)),
            Self::Heads => Some(heads()?.into()),
            Self::KeyHeads => Some(key_heads(config, layer)?.into()),
            Self::HeadDim => Some(head_dim(config, layer).into()),
            Self::Ffn => match &config.ffn_dim_per_layer {
                Some(list) => list.value.get(layer as usize).map(|&width| width.into()),
                None => field(&config.ffn_dim),
            },
            Self::WideFfn => {
                let shared = attention.n_kv_shared_layers.as_ref()?.value;
                let first = config.n_layers.value.checked_sub(shared)?;
                let width = (layer >= first).then(|| Self::Ffn.of(config, layer)).flatten();
                width?.checked_mul(2)
            }
            Self::Experts => Some(config.n_experts.value).filter(|&n| n > 0).map(u64::from),
            Self::ExpertDim => {
                let narrow = field(&config.experts.expert_latent_dim);
                narrow.or_else(|| Self::Dim.of(config, layer))
            }
            Self::ExpertFfn => field(&config.experts.expert_ffn_dim),
            Self::SharedFfn => field(&config.experts.shared_expert_ffn_dim),
            Self::Positions => field(&config.max_seq_len),
            Self::LaterPositions => Self::Positions.of(config, layer)?.checked_add(2),
            Self::Segments => field(&scales.type_vocab_size),
            Self::QueryRank => field(&attention.q_lora_rank),
            Self::KeyValueRank => field(&attention.kv_lora_rank),
            Self::KeyValueRankRotated => {
                let rotated: u64 = field(&config.rope.dimension_count)?;
                rotated.checked_add(field(&attention.kv_lora_rank)?)
            }
            Self::PerLayer => field(&scales.per_layer_dim),
            Self::EncoderDim | Self::EncoderQueries | Self::EncoderKeys => field(&encoder.enc_dim),
            Self::EncoderFfn => field(&encoder.enc_ffn_dim),
            Self::Inner | Self::Channels => field(&ssm.inner_size),
            Self::StateHeads | Self::StepRank => field(&ssm.time_step_rank),
            Self::GroupStates => {
                product(ssm.group_count.as_ref()?.value, ssm.state_size.as_ref()?.value)
            }
            Self::State => field(&ssm.state_size),
            Self::ConvKernel => field(&ssm.conv_kernel),
            Self::Sum(sizes) => {
                sizes.iter().try_fold(0u64, |sum, size| sum.checked_add(size.of(config, layer)?))
            }
        }
    }

    /// Describes the size: its name and the keys of the config that state it.
    pub(crate) fn describe(self, config: &ModelConfig) -> String {
        let from = |name: &str, source: &str| format!("{name} ({source})");
        let or = |name: &str, field: &Option<Field<u32>>| match field {
            Some(field) => from(name, &field.source),
            None => name.to_owned(),
        };
        let heads = |name: &str, heads: &Field<u32>| {
            let dim = &config.head_dim;
            format!("{name} ({}) * head_dim ({}: {})", heads.source, dim.source, dim.value)
        };
        let ssm = &config.ssm;
        match self {
            Self::Any | Self::OtherVocab | Self::ShortConv => "any length".to_owned(),
            Self::Dim => from("dim", &config.dim.source),
            Self::Embedding => match &config.scales.embedding_dim {
                Some(width) => from("embedding_dim", &width.source),
                None => Self::Dim.describe(config),
            },
            Self::Vocab | Self::Embeddings => or("vocab_size", &config.vocab_size),
            Self::Queries => heads("n_heads", &config.n_heads),
            Self::GatedQueries => format!("2 * {}", heads("n_heads", &config.n_heads)),
            Self::Keys => heads("n_kv_heads", &config.n_kv_heads),
            Self::Values => or("n_kv_heads * value_head_dim", &config.attention.value_head_dim),
            Self::Outputs => or("n_heads * value_head_dim", &config.attention.value_head_dim),
            Self::Heads => from("n_heads", &config.n_heads.source),
            Self::KeyHeads => from("n_kv_heads", &config.n_kv_heads.source),
            Self::HeadDim => from("head_dim", &config.head_dim.source),
            Self::Ffn => or("ffn_dim", &config.ffn_dim),
            Self::WideFfn => format!("2 * {}", Self::Ffn.describe(config)),
            Self::Experts => from("n_experts", &config.n_experts.source),
            Self::ExpertDim => match &config.experts.expert_latent_dim {
                Some(width) => from("expert_latent_dim", &width.source),
                None => Self::Dim.describe(config),
            },
            Self::ExpertFfn => or("expert_ffn_dim", &config.experts.expert_ffn_dim),
            Self::SharedFfn => or("shared_expert_ffn_dim", &config.experts.shared_expert_ffn_dim),
            Self::Positions => or("max_seq_len", &config.max_seq_len),
            Self::LaterPositions => format!("{} + 2", Self::Positions.describe(config)),
            Self::Segments => or("type_vocab_size", &config.scales.type_vocab_size),
            Self::QueryRank => or("q_lora_rank", &config.attention.q_lora_rank),
            Self::KeyValueRank => or("kv_lora_rank", &config.attention.kv_lora_rank),
            Self::KeyValueRankRotated => {
                or("kv_lora_rank + rope_dimension_count", &config.attention.kv_lora_rank)
            }
            Self::PerLayer => or("per_layer_dim", &config.scales.per_layer_dim),
            Self::EncoderDim | Self::EncoderQueries | Self::EncoderKeys => {
                or("enc_dim", &config.encoder.enc_dim)
            }
            Self::EncoderFfn => or("enc_ffn_dim", &config.encoder.enc_ffn_dim),
            Self::Inner | Self::Channels => or("ssm_inner_size", &ssm.inner_size),
            Self::StateHeads | Self::StepRank => or("ssm_time_step_rank", &ssm.time_step_rank),
            Self::GroupStates => or("ssm_group_count * ssm_state_size", &ssm.group_count),
            Self::State => or("ssm_state_size", &ssm.state_size),
            Self::ConvKernel => or("ssm_conv_kernel", &ssm.conv_kernel),
            Self::Sum(sizes) => {
                let sizes: Vec<String> = sizes.iter().map(|size| size.describe(config)).collect();
                sizes.join(" + ")
            }
        }
    }

    /// The unit by which ranks divide such an axis; `None` if they do not.
    pub(crate) const fn unit(self) -> Option<Unit> {
        Some(match self {
            Self::Vocab | Self::Embeddings | Self::OtherVocab => Unit::Token,
            Self::Queries
            | Self::GatedQueries
            | Self::Outputs
            | Self::Heads
            | Self::EncoderQueries => Unit::Query,
            Self::Keys | Self::Values | Self::KeyHeads | Self::EncoderKeys => Unit::Key,
            Self::Ffn
            | Self::WideFfn
            | Self::ExpertFfn
            | Self::SharedFfn
            | Self::EncoderFfn
            | Self::Inner
            | Self::ShortConv => Unit::Element,
            Self::GroupStates => Unit::Group,
            Self::Channels | Self::StateHeads => Unit::State,
            _ => return None,
        })
    }
}

/// A layer's number in a list with one for each layer, or the number that all layers have.
fn each(list: &Option<Field<Vec<u32>>>, all: u32, layer: u32) -> Option<u32> {
    match list {
        Some(list) => list.value.get(layer as usize).copied(),
        None => Some(all),
    }
}

fn is_sliding(config: &ModelConfig, layer: u32) -> bool {
    config.layer_kind(layer) == Some(&LayerKind::Sliding)
}

fn key_heads(config: &ModelConfig, layer: u32) -> Option<u32> {
    let attention = &config.attention;
    match &attention.n_global_kv_heads {
        Some(global) if !is_sliding(config, layer) => Some(global.value),
        _ => each(&attention.n_kv_heads_per_layer, config.n_kv_heads.value, layer),
    }
}

fn head_dim(config: &ModelConfig, layer: u32) -> u32 {
    let local = config.attention.local_head_dim.as_ref();
    local.filter(|_| is_sliding(config, layer)).unwrap_or(&config.head_dim).value
}

fn value_dim(config: &ModelConfig, layer: u32) -> u32 {
    let attention = &config.attention;
    let width = match is_sliding(config, layer) {
        true => attention.local_value_head_dim.as_ref().or(attention.local_head_dim.as_ref()),
        false => None,
    };
    let width = width.or(attention.value_head_dim.as_ref());
    width.map_or_else(|| head_dim(config, layer), |width| width.value)
}
