//! Llama, Mistral and Mixtral, and the families that are like them but for their numbers: in GGUF
//! the rows of q and k lie in pairs.

use super::decoder::{BARE, DECODER, MIXTURE, PREFIXES, REQUIRED, SHARED_EXPERT, SHARED_EXPERTS};
use super::rule::{NameRule, gguf, hf, rule};
use super::transform::{PERMUTE_K, PERMUTE_Q, Rows, SAME, rows};
use super::{Architecture, RopeLayout};

/// The row of the table.
pub(super) static LLAMA: Architecture = Architecture {
    name: "llama",
    summary: "Llama 1 to 3, Mistral, Mixtral, SmolLM 3, InternLM 3, MiniCPM, Nanbeige, XVERSE",
    gguf: &["llama", "llama-embed", "mistral3", "smollm3", "minicpm", "nanbeige", "xverse"],
    hf: &[
        "llama",
        "mistral",
        "mixtral",
        "ministral",
        "ministral3",
        "smollm3",
        "internlm3",
        "minicpm",
        "nanbeige",
        "xverse",
    ],
    rope: RopeLayout::HalfSplit,
    rules: &[PERMUTED, MIXTRAL, MIXTURE, DECODER],
    mlx: &[],
    publisher: MISTRAL,
    prefixes: PREFIXES,
    required: REQUIRED,
};

/// The row of the table: no gates.
pub(super) static ARCEE: Architecture = Architecture {
    name: "arcee",
    summary: "Arcee AFM",
    gguf: &["arcee"],
    hf: &["arcee"],
    rope: RopeLayout::HalfSplit,
    rules: &[PERMUTED, DECODER],
    mlx: &[],
    publisher: &[],
    prefixes: PREFIXES,
    required: BARE,
};

/// The row of the table: q, k and v in one.
pub(super) static BAICHUAN: Architecture = Architecture {
    name: "baichuan",
    summary: "Baichuan 1 and 2",
    gguf: &["baichuan"],
    hf: &["baichuan"],
    rope: RopeLayout::HalfSplit,
    rules: &[W_PACK, PERMUTED, DECODER],
    mlx: &[],
    publisher: &[],
    prefixes: PREFIXES,
    required: REQUIRED,
};

/// The row of the table: names of its own.
pub(super) static INTERNLM2: Architecture = Architecture {
    name: "internlm2",
    summary: "InternLM 2",
    gguf: &["internlm2"],
    hf: &["internlm2"],
    rope: RopeLayout::HalfSplit,
    rules: &[WQKV, PERMUTED, DECODER],
    mlx: &[],
    publisher: &[],
    prefixes: PREFIXES,
    required: REQUIRED,
};

/// The row of the table: norms without factors.
pub(super) static OLMO: Architecture = Architecture {
    name: "olmo",
    summary: "OLMo 1",
    gguf: &["olmo"],
    hf: &["olmo"],
    rope: RopeLayout::HalfSplit,
    rules: &[PERMUTED, DECODER],
    mlx: &[],
    publisher: &[],
    prefixes: PREFIXES,
    required: BARE,
};

/// The row of the table.
pub(super) static GRANITE: Architecture = Architecture {
    name: "granite",
    summary: "Granite 3 and 4 without state spaces, dense and with experts",
    gguf: &["granite", "granitemoe"],
    hf: &["granite", "granitemoe", "granitemoeshared"],
    rope: RopeLayout::HalfSplit,
    rules: &[PERMUTED, PARALLEL_EXPERTS, SHARED_EXPERT, MIXTURE, DECODER],
    mlx: &[],
    publisher: &[],
    prefixes: PREFIXES,
    required: REQUIRED,
};

/// The row of the table: before latent attention.
pub(super) static DEEPSEEK: Architecture = Architecture {
    name: "deepseek",
    summary: "DeepSeek 1 with experts",
    gguf: &["deepseek"],
    hf: &["deepseek"],
    rope: RopeLayout::HalfSplit,
    rules: &[PERMUTED, SHARED_EXPERTS, MIXTURE, DECODER],
    mlx: &[],
    publisher: &[],
    prefixes: PREFIXES,
    required: REQUIRED,
};

#[rustfmt::skip]
static PERMUTED: &[NameRule] = &[
    rule("layers.{n}.attention.q.weight", "blk.{n}.attn_q.weight", "model.layers.{n}.self_attn.q_proj.weight", PERMUTE_Q),
    rule("layers.{n}.attention.k.weight", "blk.{n}.attn_k.weight", "model.layers.{n}.self_attn.k_proj.weight", PERMUTE_K),
    rule("layers.{n}.attention.q.bias",   "blk.{n}.attn_q.bias",   "model.layers.{n}.self_attn.q_proj.bias",   PERMUTE_Q),
    rule("layers.{n}.attention.k.bias",   "blk.{n}.attn_k.bias",   "model.layers.{n}.self_attn.k_proj.bias",   PERMUTE_K),
    gguf("layers.{n}.attention.q.weight", "blk.{n}.attn_qkv.weight", rows(Rows::PairsQkv(0))),
    gguf("layers.{n}.attention.k.weight", "blk.{n}.attn_qkv.weight", rows(Rows::PairsQkv(1))),
    gguf("layers.{n}.attention.v.weight", "blk.{n}.attn_qkv.weight", rows(Rows::PairsQkv(2))),
    gguf("layers.{n}.attention.q.bias",   "blk.{n}.attn_qkv.bias",   rows(Rows::PairsQkv(0))),
    gguf("layers.{n}.attention.k.bias",   "blk.{n}.attn_qkv.bias",   rows(Rows::PairsQkv(1))),
    gguf("layers.{n}.attention.v.bias",   "blk.{n}.attn_qkv.bias",   rows(Rows::PairsQkv(2))),
];

/// Mixtral's experts in Hugging Face's files, and in mlx-lm's.
#[rustfmt::skip]
static MIXTRAL: &[NameRule] = &[
    hf("layers.{n}.ffn.router.weight",       "model.layers.{n}.block_sparse_moe.gate.weight",                 SAME),
    hf("layers.{n}.ffn.experts.gate.weight", "model.layers.{n}.block_sparse_moe.experts.{e}.w1.weight",       SAME),
    hf("layers.{n}.ffn.experts.up.weight",   "model.layers.{n}.block_sparse_moe.experts.{e}.w3.weight",       SAME),
    hf("layers.{n}.ffn.experts.down.weight", "model.layers.{n}.block_sparse_moe.experts.{e}.w2.weight",       SAME),
    hf("layers.{n}.ffn.experts.gate.weight", "model.layers.{n}.block_sparse_moe.switch_mlp.gate_proj.weight", SAME),
    hf("layers.{n}.ffn.experts.up.weight",   "model.layers.{n}.block_sparse_moe.switch_mlp.up_proj.weight",   SAME),
    hf("layers.{n}.ffn.experts.down.weight", "model.layers.{n}.block_sparse_moe.switch_mlp.down_proj.weight", SAME),
];

/// Granite's experts in Hugging Face's files, and in mlx-lm's.
#[rustfmt::skip]
static PARALLEL_EXPERTS: &[NameRule] = &[
    hf("layers.{n}.ffn.router.weight",             "model.layers.{n}.block_sparse_moe.router.layer.weight",         SAME),
    hf("layers.{n}.ffn.experts.gate.weight",       "model.layers.{n}.block_sparse_moe.input_linear.weight",         rows(Rows::Half(0))),
    hf("layers.{n}.ffn.experts.up.weight",         "model.layers.{n}.block_sparse_moe.input_linear.weight",         rows(Rows::Half(1))),
    hf("layers.{n}.ffn.experts.down.weight",       "model.layers.{n}.block_sparse_moe.output_linear.weight",        SAME),
    hf("layers.{n}.ffn.shared_expert.gate.weight", "model.layers.{n}.shared_mlp.input_linear.weight",               rows(Rows::Half(0))),
    hf("layers.{n}.ffn.shared_expert.up.weight",   "model.layers.{n}.shared_mlp.input_linear.weight",               rows(Rows::Half(1))),
    hf("layers.{n}.ffn.shared_expert.down.weight", "model.layers.{n}.shared_mlp.output_linear.weight",              SAME),
    hf("layers.{n}.ffn.experts.gate.weight",       "model.layers.{n}.block_sparse_moe.switch_mlp.gate_proj.weight", SAME),
    hf("layers.{n}.ffn.experts.up.weight",         "model.layers.{n}.block_sparse_moe.switch_mlp.up_proj.weight",   SAME),
    hf("layers.{n}.ffn.experts.down.weight",       "model.layers.{n}.block_sparse_moe.switch_mlp.down_proj.weight", SAME),
];

#[rustfmt::skip]
static W_PACK: &[NameRule] = &[
    hf("layers.{n}.attention.q.weight", "model.layers.{n}.self_attn.W_pack.weight", rows(Rows::Qkv(0))),
    hf("layers.{n}.attention.k.weight", "model.layers.{n}.self_attn.W_pack.weight", rows(Rows::Qkv(1))),
    hf("layers.{n}.attention.v.weight", "model.layers.{n}.self_attn.W_pack.weight", rows(Rows::Qkv(2))),
];

/// InternLM 2 in Hugging Face's files.
#[rustfmt::skip]
static WQKV: &[NameRule] = &[
    hf("token_embedding.weight",             "model.tok_embeddings.weight",             SAME),
    hf("output.weight",                      "output.weight",                           SAME),
    hf("layers.{n}.attention_norm.weight",   "model.layers.{n}.attention_norm.weight",  SAME),
    hf("layers.{n}.attention.q.weight",      "model.layers.{n}.attention.wqkv.weight",  rows(Rows::GroupedQkv(0))),
    hf("layers.{n}.attention.k.weight",      "model.layers.{n}.attention.wqkv.weight",  rows(Rows::GroupedQkv(1))),
    hf("layers.{n}.attention.v.weight",      "model.layers.{n}.attention.wqkv.weight",  rows(Rows::GroupedQkv(2))),
    hf("layers.{n}.attention.output.weight", "model.layers.{n}.attention.wo.weight",    SAME),
    hf("layers.{n}.ffn_norm.weight",         "model.layers.{n}.ffn_norm.weight",        SAME),
    hf("layers.{n}.ffn.gate.weight",         "model.layers.{n}.feed_forward.w1.weight", SAME),
    hf("layers.{n}.ffn.up.weight",           "model.layers.{n}.feed_forward.w3.weight", SAME),
    hf("layers.{n}.ffn.down.weight",         "model.layers.{n}.feed_forward.w2.weight", SAME),
];

/// Names in the `consolidated.safetensors` of Mistral and Meta, beside `params.json`. The rows of
/// their q and k lie in pairs, as in GGUF.
#[rustfmt::skip]
static MISTRAL: &[NameRule] = &[
    hf("token_embedding.weight",             "tok_embeddings.weight",                         SAME),
    hf("output_norm.weight",                 "norm.weight",                                   SAME),
    hf("output.weight",                      "output.weight",                                 SAME),
    hf("layers.{n}.attention_norm.weight",   "layers.{n}.attention_norm.weight",              SAME),
    hf("layers.{n}.attention.q.weight",      "layers.{n}.attention.wq.weight",                PERMUTE_Q),
    hf("layers.{n}.attention.k.weight",      "layers.{n}.attention.wk.weight",                PERMUTE_K),
    hf("layers.{n}.attention.v.weight",      "layers.{n}.attention.wv.weight",                SAME),
    hf("layers.{n}.attention.output.weight", "layers.{n}.attention.wo.weight",                SAME),
    hf("layers.{n}.ffn_norm.weight",         "layers.{n}.ffn_norm.weight",                    SAME),
    hf("layers.{n}.ffn.gate.weight",         "layers.{n}.feed_forward.w1.weight",             SAME),
    hf("layers.{n}.ffn.up.weight",           "layers.{n}.feed_forward.w3.weight",             SAME),
    hf("layers.{n}.ffn.down.weight",         "layers.{n}.feed_forward.w2.weight",             SAME),
    hf("layers.{n}.ffn.router.weight",       "layers.{n}.feed_forward.gate.weight",           SAME),
    hf("layers.{n}.ffn.experts.gate.weight", "layers.{n}.feed_forward.experts.{e}.w1.weight", SAME),
    hf("layers.{n}.ffn.experts.up.weight",   "layers.{n}.feed_forward.experts.{e}.w3.weight", SAME),
    hf("layers.{n}.ffn.experts.down.weight", "layers.{n}.feed_forward.experts.{e}.w2.weight", SAME),
];
