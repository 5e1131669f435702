//! GPT-2, whose matrices are stored as `[inputs, outputs]`.

use serde_json::{Map, Value as Json};

use super::decoder::{UNGATED_REQUIRED, keys};
use crate::arch::config::{Defaults, GgufDefaults};
use crate::arch::habits::TokenizerHabits;
use crate::arch::rule::{NameRule, both, gguf, hf, rule};
use crate::arch::source::SourceModel;
use crate::arch::transform::{RowOrder, SAME, rows, transposed};
use crate::arch::variant::{Class, ConfigRule as C, Constant, KeyRule as K, Variant};
use crate::arch::{Architecture, RopeLayout};
use crate::error::Result;

use Constant::Word;

/// The architecture's row.
pub(super) static GPT2: Architecture = Architecture {
    name: "gpt2",
    summary: "GPT-2",
    gguf: &["gpt2"],
    hf: &["gpt2"],
    rope: RopeLayout::None,
    rules: &[RULES],
    mlx: MLX,
    prefixes: PREFIXES,
    required: UNGATED_REQUIRED,
    auxiliary: &[
        ("*.attn.bias", "the mask of causal attention"),
        ("*.attn.masked_bias", "the score of masked positions in causal attention"),
    ],
    variants: VARIANTS,
    ..Architecture::EMPTY
};

/// mlx-lm's prefix, and that of the oldest checkpoints, which have none.
static PREFIXES: &[(&str, &str)] = &[("model.", "transformer."), ("", "transformer.")];

#[rustfmt::skip]
static RULES: &[NameRule] = &[
    rule("token_embedding.weight",           "token_embd.weight",        "transformer.wte.weight",             SAME),
    rule("position_embedding.weight",        "position_embd.weight",     "transformer.wpe.weight",             SAME),
    rule("output_norm.weight",               "output_norm.weight",       "transformer.ln_f.weight",            SAME),
    rule("output_norm.bias",                 "output_norm.bias",         "transformer.ln_f.bias",              SAME),
    rule("output.weight",                    "output.weight",            "lm_head.weight",                     SAME),
    rule("layers.{n}.attention_norm.weight", "blk.{n}.attn_norm.weight", "transformer.h.{n}.ln_1.weight",      SAME),
    rule("layers.{n}.attention_norm.bias",   "blk.{n}.attn_norm.bias",   "transformer.h.{n}.ln_1.bias",        SAME),
    rule("layers.{n}.ffn_norm.weight",       "blk.{n}.ffn_norm.weight",  "transformer.h.{n}.ln_2.weight",      SAME),
    rule("layers.{n}.ffn_norm.bias",         "blk.{n}.ffn_norm.bias",    "transformer.h.{n}.ln_2.bias",        SAME),
    gguf("layers.{n}.attention.q.weight",      "blk.{n}.attn_qkv.weight",    rows(RowOrder::Qkv(0))),
    gguf("layers.{n}.attention.k.weight",      "blk.{n}.attn_qkv.weight",    rows(RowOrder::Qkv(1))),
    gguf("layers.{n}.attention.v.weight",      "blk.{n}.attn_qkv.weight",    rows(RowOrder::Qkv(2))),
    hf("layers.{n}.attention.q.weight",      "transformer.h.{n}.attn.c_attn.weight", transposed(RowOrder::Qkv(0))),
    hf("layers.{n}.attention.k.weight",      "transformer.h.{n}.attn.c_attn.weight", transposed(RowOrder::Qkv(1))),
    hf("layers.{n}.attention.v.weight",      "transformer.h.{n}.attn.c_attn.weight", transposed(RowOrder::Qkv(2))),
    both("layers.{n}.attention.q.bias", "blk.{n}.attn_qkv.bias", "transformer.h.{n}.attn.c_attn.bias", rows(RowOrder::Qkv(0))),
    both("layers.{n}.attention.k.bias", "blk.{n}.attn_qkv.bias", "transformer.h.{n}.attn.c_attn.bias", rows(RowOrder::Qkv(1))),
    both("layers.{n}.attention.v.bias", "blk.{n}.attn_qkv.bias", "transformer.h.{n}.attn.c_attn.bias", rows(RowOrder::Qkv(2))),
    gguf("layers.{n}.attention.output.weight", "blk.{n}.attn_output.weight", SAME),
    hf("layers.{n}.attention.output.weight", "transformer.h.{n}.attn.c_proj.weight", transposed(RowOrder::All)),
    rule("layers.{n}.attention.output.bias", "blk.{n}.attn_output.bias", "transformer.h.{n}.attn.c_proj.bias", SAME),
    gguf("layers.{n}.ffn.up.weight",           "blk.{n}.ffn_up.weight",      SAME),
    hf("layers.{n}.ffn.up.weight",           "transformer.h.{n}.mlp.c_fc.weight",    transposed(RowOrder::All)),
    rule("layers.{n}.ffn.up.bias",           "blk.{n}.ffn_up.bias",      "transformer.h.{n}.mlp.c_fc.bias",    SAME),
    gguf("layers.{n}.ffn.down.weight",         "blk.{n}.ffn_down.weight",    SAME),
    hf("layers.{n}.ffn.down.weight",         "transformer.h.{n}.mlp.c_proj.weight",  transposed(RowOrder::All)),
    rule("layers.{n}.ffn.down.bias",         "blk.{n}.ffn_down.bias",    "transformer.h.{n}.mlp.c_proj.bias",  SAME),
];

/// mlx-lm stores matrices as `[outputs, inputs]`, under a prefix of its own.
#[rustfmt::skip]
static MLX: &[NameRule] = &[
    hf("token_embedding.weight",             "model.wte.weight",                  SAME),
    hf("position_embedding.weight",          "model.wpe.weight",                  SAME),
    hf("output_norm.weight",                 "model.ln_f.weight",                 SAME),
    hf("output_norm.bias",                   "model.ln_f.bias",                   SAME),
    hf("layers.{n}.attention_norm.weight",   "model.h.{n}.ln_1.weight",           SAME),
    hf("layers.{n}.attention_norm.bias",     "model.h.{n}.ln_1.bias",             SAME),
    hf("layers.{n}.ffn_norm.weight",         "model.h.{n}.ln_2.weight",           SAME),
    hf("layers.{n}.ffn_norm.bias",           "model.h.{n}.ln_2.bias",             SAME),
    hf("layers.{n}.attention.q.bias",        "model.h.{n}.attn.c_attn.bias",      rows(RowOrder::Qkv(0))),
    hf("layers.{n}.attention.k.bias",        "model.h.{n}.attn.c_attn.bias",      rows(RowOrder::Qkv(1))),
    hf("layers.{n}.attention.v.bias",        "model.h.{n}.attn.c_attn.bias",      rows(RowOrder::Qkv(2))),
    hf("layers.{n}.attention.output.bias",   "model.h.{n}.attn.c_proj.bias",      SAME),
    hf("layers.{n}.ffn.up.bias",             "model.h.{n}.mlp.c_fc.bias",         SAME),
    hf("layers.{n}.ffn.down.bias",           "model.h.{n}.mlp.c_proj.bias",       SAME),
    hf("layers.{n}.attention.q.weight",      "model.h.{n}.attn.c_attn.weight", rows(RowOrder::Qkv(0))),
    hf("layers.{n}.attention.k.weight",      "model.h.{n}.attn.c_attn.weight", rows(RowOrder::Qkv(1))),
    hf("layers.{n}.attention.v.weight",      "model.h.{n}.attn.c_attn.weight", rows(RowOrder::Qkv(2))),
    hf("layers.{n}.attention.output.weight", "model.h.{n}.attn.c_proj.weight", SAME),
    hf("layers.{n}.ffn.up.weight",           "model.h.{n}.mlp.c_fc.weight",    SAME),
    hf("layers.{n}.ffn.down.weight",         "model.h.{n}.mlp.c_proj.weight",  SAME),
];

const DEFAULTS: Defaults = Defaults {
    of_gguf: GgufDefaults {
        activation: Some("gelu_new"),
        ffn_four_times: true,
        ..GgufDefaults::NONE
    },
    ..Defaults::NONE
};

#[rustfmt::skip]
static VARIANTS: &[Variant] = &[
    Variant {
        gguf: "gpt2",
        hf: &["gpt2"],
        keys: &[&[K::By(keys::block_count), K::Row("max_seq_len"), K::Row("dim"), K::Derived("ffn_dim"),
            K::Row("n_heads"), K::Row("layer_eps"), K::FileType]],
        classes: &[
            Class { model_type: "gpt2", class: "GPT2LMHeadModel",
                rules: &[&[C::Field("dim", "n_embd"), C::Field("n_layers", "n_layer"), C::Field("n_heads", "n_head"), C::Field("max_seq_len", "n_ctx"), C::Field("max_seq_len", "n_positions"),
                    C::By(plain_width), C::Field("vocab_size", "vocab_size"), C::Field("norm_eps", "layer_norm_epsilon"), C::Fixed("activation_function", Word("gelu_new")),
                    C::Field("tie_embeddings", "tie_word_embeddings")]], ..Class::EMPTY },
        ],
        defaults: DEFAULTS,
        tokenizer: TokenizerHabits { default_pre: Some("gpt-2"), ..TokenizerHabits::NONE },
        ..Variant::EMPTY
    },
];

fn plain_width(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let (dim, width) = (model.config.dim.value, model.config.ffn_dim.as_ref());
    if let Some(width) = width.filter(|width| width.value != dim.saturating_mul(4)) {
        out.insert("n_inner".to_owned(), width.value.into());
    }
    Ok(())
}
