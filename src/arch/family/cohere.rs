//! Command R and its successors: attention and feed-forward network run in parallel after one norm.

use serde_json::{Map, Value as Json};

use super::decoder::{BARE, DECODER, PREFIXES, QK_NORM, json, keys};
use crate::arch::config::Defaults;
use crate::arch::habits::TokenizerHabits;
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::variant::{Class, ConfigRule as C, Constant, KeyRule as K, Variant};
use crate::arch::{Architecture, RopeLayout};
use crate::error::Result;

use Constant::{Real, Word};

/// The architecture's row.
pub(super) static COMMAND_R: Architecture = Architecture {
    name: "command-r",
    summary: "Command R, R+, R7B and A, Aya 23 and Expanse",
    gguf: &["command-r", "cohere2"],
    hf: &["cohere", "cohere2"],
    rope: RopeLayout::Interleaved,
    rules: &[QK_NORM, DECODER],
    prefixes: PREFIXES,
    required: BARE,
    variants: VARIANTS,
    ..Architecture::EMPTY
};

const TOKENIZER: TokenizerHabits = TokenizerHabits { pre: &["command-r"], ..TokenizerHabits::NONE };

#[rustfmt::skip]
static VARIANTS: &[Variant] = &[
    Variant {
        gguf: "command-r",
        hf: &["cohere"],
        keys: &[keys::BASE, keys::HEADS, &[K::By(true_context), K::Row("logit_scale"), K::Fixed("rope.scaling.type", Word("none"))]],
        classes: &[
            Class { model_type: "cohere", class: "CohereForCausalLM",
                rules: &[json::BODY, json::DENSE, json::UNEVEN, json::GROUPED, json::SILU, &[C::Field("norm_eps", "layer_norm_eps"), C::Field("logit_scale", "logit_scale"), C::By(embedding_biases)]], ..Class::EMPTY },
        ],
        tokenizer: TOKENIZER,
        ..Variant::EMPTY
    },
    Variant {
        gguf: "cohere2",
        hf: &["cohere2"],
        keys: &[keys::BASE, keys::HEADS, &[K::Row("logit_scale"), K::Row("sliding_window"), K::Settled("vocab_size"),
            K::Rotated(1.0), K::Fixed("rope.scaling.type", Word("none"))]],
        classes: &[
            Class { model_type: "cohere2", class: "Cohere2ForCausalLM",
                rules: &[json::BODY, json::DENSE, json::GROUPED, json::SILU, json::HEADS, &[C::Field("norm_eps", "layer_norm_eps"), C::Field("logit_scale", "logit_scale"), C::Field("sliding_window", "sliding_window"),
                    C::Field("sliding_window_pattern", "sliding_window_pattern"), C::By(json::layer_types), C::Fixed("rotary_pct", Real(1.0))]], ..Class::EMPTY },
        ],
        defaults: Defaults { window_period: Some(4), ..Defaults::NONE },
        tokenizer: TOKENIZER,
        ..Variant::EMPTY
    },
];

/// In Cohere's configs, `max_position_embeddings` is the training length; the true context length
/// has the tokenizer's key.
fn true_context(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if let Some(length) = model.count("model_max_length")? {
        keys.count("context_length", length);
    }
    Ok(())
}

/// Cohere's larger models have norms on queries and keys.
fn embedding_biases(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    out.insert("attention_bias".to_owned(), model.has("layers.0.attention.q.bias").into());
    out.insert("use_qk_norm".to_owned(), model.has("layers.0.attention.q_norm.weight").into());
    Ok(())
}
