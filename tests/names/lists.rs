//! Lists of names for what the large lists lack: other families, other layouts.

use super::Form;

/// A model in two forms.
pub(crate) struct List {
    /// The name of the list.
    pub(crate) name: &'static str,
    /// The source of the names.
    pub(crate) source: &'static str,
    /// Its `config.json`.
    pub(crate) config: &'static str,
    /// The kind of the second form.
    pub(crate) form: Form,
    /// `general.architecture`, if that is a GGUF file.
    pub(crate) gguf: &'static str,
    /// A line each: the name in a Hugging Face directory, the shape there, the name in the second
    /// form (`=` if it is the same, `-` if there is none), and the transform, in the words of
    /// `data/names/README.md`. Besides those, `joined[i]` is part i of tensors that lie one below
    /// another, and `columns:` gives elements of the last axis. A name `-` is of a tensor that the
    /// second form alone has. A line with `{e}` stands for two experts.
    pub(crate) tensors: &'static [&'static str],
}

/// The config that nearly all have: four heads of width 4, two key heads.
macro_rules! config {
    ($model_type:literal) => {
        config!($model_type, "")
    };
    ($model_type:literal, $more:literal) => {
        concat!(
            r#"{"model_type": ""#,
            $model_type,
            r#"", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
            "head_dim": 4, "intermediate_size": 6, "vocab_size": 10"#,
            $more,
            "}"
        )
    };
}

const EMBEDDINGS: &str = "
    model.embed_tokens.weight  10,8  token_embd.weight
    model.norm.weight          8     output_norm.weight
";

const NORMS: &str = "
    model.layers.0.input_layernorm.weight           8  blk.0.attn_norm.weight
    model.layers.0.post_attention_layernorm.weight  8  blk.0.ffn_norm.weight
";

const ATTENTION: &str = "
    model.layers.0.self_attn.q_proj.weight  16,8  blk.0.attn_q.weight
    model.layers.0.self_attn.k_proj.weight  8,8   blk.0.attn_k.weight
    model.layers.0.self_attn.v_proj.weight  8,8   blk.0.attn_v.weight
    model.layers.0.self_attn.o_proj.weight  8,16  blk.0.attn_output.weight
";

const PERMUTED: &str = "
    model.layers.0.self_attn.q_proj.weight  16,8  blk.0.attn_q.weight  rope_row_interleave(head_dim=4)
    model.layers.0.self_attn.k_proj.weight  8,8   blk.0.attn_k.weight  rope_row_interleave(head_dim=4)
    model.layers.0.self_attn.v_proj.weight  8,8   blk.0.attn_v.weight
    model.layers.0.self_attn.o_proj.weight  8,16  blk.0.attn_output.weight
";

const HEAD_NORMS: &str = "
    model.layers.0.self_attn.q_norm.weight  4  blk.0.attn_q_norm.weight
    model.layers.0.self_attn.k_norm.weight  4  blk.0.attn_k_norm.weight
";

const DENSE: &str = "
    model.layers.0.mlp.gate_proj.weight  6,8  blk.0.ffn_gate.weight
    model.layers.0.mlp.up_proj.weight    6,8  blk.0.ffn_up.weight
    model.layers.0.mlp.down_proj.weight  8,6  blk.0.ffn_down.weight
";

const EXPERTS: &str = "
    model.layers.0.mlp.gate.weight                   2,8  blk.0.ffn_gate_inp.weight
    model.layers.0.mlp.experts.{e}.gate_proj.weight  6,8  blk.0.ffn_gate_exps.weight  stacked[{e}]
    model.layers.0.mlp.experts.{e}.up_proj.weight    6,8  blk.0.ffn_up_exps.weight    stacked[{e}]
    model.layers.0.mlp.experts.{e}.down_proj.weight  8,6  blk.0.ffn_down_exps.weight  stacked[{e}]
";

const SHARED_EXPERTS: &str = "
    model.layers.0.mlp.shared_experts.gate_proj.weight  6,8  blk.0.ffn_gate_shexp.weight
    model.layers.0.mlp.shared_experts.up_proj.weight    6,8  blk.0.ffn_up_shexp.weight
    model.layers.0.mlp.shared_experts.down_proj.weight  8,6  blk.0.ffn_down_shexp.weight
";

/// Experts are `[inputs, outputs]` in Hugging Face's files.
const LLAMA4_EXPERTS: &str = "
    model.layers.0.feed_forward.router.weight                   2,8     blk.0.ffn_gate_inp.weight
    model.layers.0.feed_forward.experts.gate_up_proj            2,8,12  blk.0.ffn_gate_exps.weight   slice(axis=2,start=0,len=6)+transpose_last_two
    model.layers.0.feed_forward.experts.gate_up_proj            2,8,12  blk.0.ffn_up_exps.weight     slice(axis=2,start=6,len=6)+transpose_last_two
    model.layers.0.feed_forward.experts.down_proj               2,6,8   blk.0.ffn_down_exps.weight   transpose_last_two
    model.layers.0.feed_forward.shared_expert.gate_proj.weight  6,8     blk.0.ffn_gate_shexp.weight
    model.layers.0.feed_forward.shared_expert.up_proj.weight    6,8     blk.0.ffn_up_shexp.weight
    model.layers.0.feed_forward.shared_expert.down_proj.weight  8,6     blk.0.ffn_down_shexp.weight
";

const LFM2: &str = r#"{"model_type": "lfm2_moe", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 6, "moe_intermediate_size": 6, "num_experts": 2, "num_experts_per_tok": 1, "num_dense_layers": 1, "conv_L_cache": 3,
    "layer_types": ["conv", "full_attention"], "vocab_size": 10}"#;

const LFM2_ATTENTION: &str = "
    model.layers.1.operator_norm.weight          16     blk.1.attn_norm.weight
    model.layers.1.ffn_norm.weight               16     blk.1.ffn_norm.weight
    model.layers.1.self_attn.q_proj.weight       16,16  blk.1.attn_q.weight
    model.layers.1.self_attn.k_proj.weight       8,16   blk.1.attn_k.weight
    model.layers.1.self_attn.v_proj.weight       8,16   blk.1.attn_v.weight
    model.layers.1.self_attn.out_proj.weight     16,16  blk.1.attn_output.weight
    model.layers.1.self_attn.q_layernorm.weight  4      blk.1.attn_q_norm.weight
    model.layers.1.self_attn.k_layernorm.weight  4      blk.1.attn_k_norm.weight
";

/// The same names in both forms.
const SAME_REST: &str = "
    model.embed_tokens.weight                       10,8  =
    model.norm.weight                               8     =
    model.layers.0.input_layernorm.weight           8     =
    model.layers.0.post_attention_layernorm.weight  8     =
    model.layers.0.self_attn.q_proj.weight          16,8  =
    model.layers.0.self_attn.k_proj.weight          8,8   =
    model.layers.0.self_attn.v_proj.weight          8,8   =
    model.layers.0.self_attn.o_proj.weight          8,16  =
";

/// Experts and their router under names of their own in Hugging Face's files alone.
const OWN_EXPERTS: &str = "
    model.layers.0.mlp.gate.weight                   2,8  =
    model.layers.0.mlp.experts.{e}.gate_proj.weight  6,8  =
    model.layers.0.mlp.experts.{e}.up_proj.weight    6,8  =
    model.layers.0.mlp.experts.{e}.down_proj.weight  8,6  =
";

const OWN_DENSE: &str = "
    model.layers.0.mlp.gate_proj.weight  6,8  =
    model.layers.0.mlp.up_proj.weight    6,8  =
    model.layers.0.mlp.down_proj.weight  8,6  =
";

const OWN_HEAD_NORMS: &str = "
    model.layers.0.self_attn.q_norm.weight  4  =
    model.layers.0.self_attn.k_norm.weight  4  =
";

const OWN_SHARED_EXPERTS: &str = "
    model.layers.0.mlp.shared_experts.gate_proj.weight  6,8  =
    model.layers.0.mlp.shared_experts.up_proj.weight    6,8  =
    model.layers.0.mlp.shared_experts.down_proj.weight  8,6  =
";

const CONSOLIDATED: &str = "
    model.embed_tokens.weight                       10,8  tok_embeddings.weight
    model.norm.weight                               8     norm.weight
    lm_head.weight                                  10,8  output.weight
    model.layers.0.input_layernorm.weight           8     layers.0.attention_norm.weight
    model.layers.0.post_attention_layernorm.weight  8     layers.0.ffn_norm.weight
    model.layers.0.self_attn.q_proj.weight          16,8  layers.0.attention.wq.weight  rope_row_interleave(head_dim=4)
    model.layers.0.self_attn.k_proj.weight          8,8   layers.0.attention.wk.weight  rope_row_interleave(head_dim=4)
    model.layers.0.self_attn.v_proj.weight          8,8   layers.0.attention.wv.weight
    model.layers.0.self_attn.o_proj.weight          8,16  layers.0.attention.wo.weight
";

#[rustfmt::skip]
pub(crate) const LISTS: &[List] = &[
    List {
        name: "llama with biases",
        source: "data/names/README.md: biases follow their weights, permutation included",
        config: config!("llama"),
        form: Form::Gguf,
        gguf: "llama",
        tensors: &[EMBEDDINGS, NORMS, PERMUTED, DENSE, "
            model.layers.0.self_attn.q_proj.bias          16  blk.0.attn_q.bias  rope_row_interleave(head_dim=4)
            model.layers.0.self_attn.k_proj.bias          8   blk.0.attn_k.bias  rope_row_interleave(head_dim=4)
            model.layers.0.self_attn.v_proj.bias          8   blk.0.attn_v.bias
            model.layers.0.self_attn.o_proj.bias          8   blk.0.attn_output.bias
            model.layers.0.mlp.gate_proj.bias             6   blk.0.ffn_gate.bias
            model.layers.0.mlp.up_proj.bias               6   blk.0.ffn_up.bias
            model.layers.0.mlp.down_proj.bias             8   blk.0.ffn_down.bias
            model.layers.0.self_attn.rotary_emb.inv_freq  2   -
            model.layers.0.self_attn.q_proj.input_scale   1   -
            model.layers.0.self_attn.q_proj.qscale_act    1   -
            model.layers.0.self_attn.k_proj.k_scale       1   -
            model.layers.0.self_attn.v_proj.v_scale       1   -
            -                                             2   rope_freqs.weight
            -                                             2   rope_factors_long.weight
            -                                             2   rope_factors_short.weight
            -                                             2   blk.0.attn_rot_embd.weight
        "],
    },
    List {
        name: "llama, fused",
        source: "llama.cpp, conversion/base.py, --fuse-qkv: joins what was permuted",
        config: config!("llama"),
        form: Form::Gguf,
        gguf: "llama",
        tensors: &[EMBEDDINGS, NORMS, DENSE, "
            model.layers.0.self_attn.q_proj.weight  16,8  blk.0.attn_qkv.weight  rope_row_interleave(head_dim=4)+joined[0]
            model.layers.0.self_attn.k_proj.weight  8,8   blk.0.attn_qkv.weight  rope_row_interleave(head_dim=4)+joined[1]
            model.layers.0.self_attn.v_proj.weight  8,8   blk.0.attn_qkv.weight  joined[2]
            model.layers.0.self_attn.q_proj.bias    16    blk.0.attn_qkv.bias    rope_row_interleave(head_dim=4)+joined[0]
            model.layers.0.self_attn.k_proj.bias    8     blk.0.attn_qkv.bias    rope_row_interleave(head_dim=4)+joined[1]
            model.layers.0.self_attn.v_proj.bias    8     blk.0.attn_qkv.bias    joined[2]
            model.layers.0.self_attn.o_proj.weight  8,16  blk.0.attn_output.weight
        "],
    },
    List {
        name: "qwen2, fused",
        source: "llama.cpp, conversion/base.py, --fuse-qkv",
        config: config!("qwen2"),
        form: Form::Gguf,
        gguf: "qwen2",
        tensors: &[EMBEDDINGS, NORMS, DENSE, "
            model.layers.0.self_attn.q_proj.weight  16,8  blk.0.attn_qkv.weight  joined[0]
            model.layers.0.self_attn.k_proj.weight  8,8   blk.0.attn_qkv.weight  joined[1]
            model.layers.0.self_attn.v_proj.weight  8,8   blk.0.attn_qkv.weight  joined[2]
            model.layers.0.self_attn.q_proj.bias    16    blk.0.attn_qkv.bias    joined[0]
            model.layers.0.self_attn.k_proj.bias    8     blk.0.attn_qkv.bias    joined[1]
            model.layers.0.self_attn.v_proj.bias    8     blk.0.attn_qkv.bias    joined[2]
            model.layers.0.self_attn.o_proj.weight  8,16  blk.0.attn_output.weight
        "],
    },
    List {
        name: "mistral consolidated",
        source: "llama.cpp, gguf-py/gguf/tensor_mapping.py (llama-pth); transformers' convert_llama_weights_to_hf.py for the order of rows",
        config: config!("llama"),
        form: Form::Publisher,
        gguf: "",
        tensors: &[CONSOLIDATED, "
            model.layers.0.mlp.gate_proj.weight  6,8  layers.0.feed_forward.w1.weight
            model.layers.0.mlp.up_proj.weight    6,8  layers.0.feed_forward.w3.weight
            model.layers.0.mlp.down_proj.weight  8,6  layers.0.feed_forward.w2.weight
        "],
    },
    List {
        name: "mixtral consolidated",
        source: "llama.cpp, gguf-py/gguf/tensor_mapping.py (mixtral); mistral-inference, moe.py",
        config: config!("mixtral", r#", "num_local_experts": 2, "num_experts_per_tok": 1"#),
        form: Form::Publisher,
        gguf: "",
        tensors: &[CONSOLIDATED, "
            model.layers.0.block_sparse_moe.gate.weight            2,8  layers.0.feed_forward.gate.weight
            model.layers.0.block_sparse_moe.experts.{e}.w1.weight  6,8  layers.0.feed_forward.experts.{e}.w1.weight
            model.layers.0.block_sparse_moe.experts.{e}.w3.weight  6,8  layers.0.feed_forward.experts.{e}.w3.weight
            model.layers.0.block_sparse_moe.experts.{e}.w2.weight  8,6  layers.0.feed_forward.experts.{e}.w2.weight
        "],
    },
    List {
        name: "mixtral of 2023",
        source: "facts/gguf.md 5.4: a tensor for each expert until early 2024",
        config: config!("mixtral", r#", "num_local_experts": 2, "num_experts_per_tok": 1"#),
        form: Form::Gguf,
        gguf: "llama",
        tensors: &[EMBEDDINGS, NORMS, PERMUTED, "
            model.layers.0.block_sparse_moe.gate.weight            2,8  blk.0.ffn_gate_inp.weight
            model.layers.0.block_sparse_moe.experts.{e}.w1.weight  6,8  blk.0.ffn_gate.{e}.weight
            model.layers.0.block_sparse_moe.experts.{e}.w3.weight  6,8  blk.0.ffn_up.{e}.weight
            model.layers.0.block_sparse_moe.experts.{e}.w2.weight  8,6  blk.0.ffn_down.{e}.weight
        "],
    },
    List {
        name: "mixtral, fused",
        source: "llama.cpp, conversion/base.py, --fuse-gate-up-exps",
        config: config!("mixtral", r#", "num_local_experts": 2, "num_experts_per_tok": 1"#),
        form: Form::Gguf,
        gguf: "llama",
        tensors: &[EMBEDDINGS, NORMS, PERMUTED, "
            model.layers.0.block_sparse_moe.gate.weight  2,8     blk.0.ffn_gate_inp.weight
            model.layers.0.mlp.experts.gate_up_proj      2,12,8  blk.0.ffn_gate_up_exps.weight
            model.layers.0.mlp.experts.down_proj         2,8,6   blk.0.ffn_down_exps.weight
        "],
    },
    List {
        name: "mixtral in memory",
        source: "data/names/mixtral.json, hf_notes: the names that transformers 5 holds in memory",
        config: config!("mixtral", r#", "num_local_experts": 2, "num_experts_per_tok": 1"#),
        form: Form::HuggingFace,
        gguf: "",
        tensors: &[SAME_REST, "
            model.layers.0.block_sparse_moe.gate.weight                  2,8    model.layers.0.mlp.gate.weight
            model.layers.0.block_sparse_moe.switch_mlp.gate_proj.weight  2,6,8  model.layers.0.mlp.experts.gate_up_proj  joined[0]
            model.layers.0.block_sparse_moe.switch_mlp.up_proj.weight    2,6,8  model.layers.0.mlp.experts.gate_up_proj  joined[1]
            model.layers.0.block_sparse_moe.switch_mlp.down_proj.weight  2,8,6  model.layers.0.mlp.experts.down_proj
        "],
    },
    List {
        name: "arcee",
        source: "llama.cpp, conversion/arcee.py: a LlamaModel; no gates",
        config: config!("arcee"),
        form: Form::Gguf,
        gguf: "arcee",
        tensors: &[EMBEDDINGS, NORMS, PERMUTED, "
            model.layers.0.mlp.up_proj.weight    6,8  blk.0.ffn_up.weight
            model.layers.0.mlp.down_proj.weight  8,6  blk.0.ffn_down.weight
        "],
    },
    List {
        name: "baichuan",
        source: "llama.cpp, conversion/baichuan.py",
        // As wide as its heads together, since no key says their width; the tensors are narrower.
        config: r#"{"model_type": "baichuan", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4,
            "intermediate_size": 6, "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "baichuan",
        tensors: &[EMBEDDINGS, NORMS, DENSE, "
            model.layers.0.self_attn.W_pack.weight  48,8  blk.0.attn_q.weight  slice(axis=0,start=0,len=16)+rope_row_interleave(head_dim=4)
            model.layers.0.self_attn.W_pack.weight  48,8  blk.0.attn_k.weight  slice(axis=0,start=16,len=16)+rope_row_interleave(head_dim=4)
            model.layers.0.self_attn.W_pack.weight  48,8  blk.0.attn_v.weight  slice(axis=0,start=32,len=16)
            model.layers.0.self_attn.o_proj.weight  8,16  blk.0.attn_output.weight
            lm_head.weight                          10,8  output.weight
        "],
    },
    List {
        name: "internlm2",
        source: "llama.cpp, conversion/internlm.py",
        // As wide as its heads together, since no key says their width; the tensors are narrower.
        config: r#"{"model_type": "internlm2", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4,
            "num_key_value_heads": 2, "intermediate_size": 6, "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "internlm2",
        tensors: &["
            model.tok_embeddings.weight            10,8  token_embd.weight
            model.norm.weight                      8     output_norm.weight
            output.weight                          10,8  output.weight
            model.layers.0.attention_norm.weight   8     blk.0.attn_norm.weight
            model.layers.0.ffn_norm.weight         8     blk.0.ffn_norm.weight
            model.layers.0.attention.wqkv.weight   32,8  blk.0.attn_q.weight  rows:0-7,16-23+rope_row_interleave(head_dim=4)
            model.layers.0.attention.wqkv.weight   32,8  blk.0.attn_k.weight  rows:8-11,24-27+rope_row_interleave(head_dim=4)
            model.layers.0.attention.wqkv.weight   32,8  blk.0.attn_v.weight  rows:12-15,28-31
            model.layers.0.attention.wo.weight     8,16  blk.0.attn_output.weight
            model.layers.0.feed_forward.w1.weight  6,8   blk.0.ffn_gate.weight
            model.layers.0.feed_forward.w3.weight  6,8   blk.0.ffn_up.weight
            model.layers.0.feed_forward.w2.weight  8,6   blk.0.ffn_down.weight
        "],
    },
    List {
        name: "olmo",
        source: "llama.cpp, conversion/olmo.py: norms have no weights",
        config: config!("olmo"),
        form: Form::Gguf,
        gguf: "olmo",
        tensors: &[PERMUTED, DENSE, "
            model.embed_tokens.weight  10,8  token_embd.weight
        "],
    },
    List {
        name: "granitemoe",
        source: "llama.cpp, conversion/granite.py",
        config: config!("granitemoeshared", r#", "num_local_experts": 2, "num_experts_per_tok": 1"#),
        form: Form::Gguf,
        gguf: "granitemoe",
        tensors: &[EMBEDDINGS, NORMS, PERMUTED, "
            model.layers.0.block_sparse_moe.router.layer.weight   2,8     blk.0.ffn_gate_inp.weight
            model.layers.0.block_sparse_moe.input_linear.weight   2,12,8  blk.0.ffn_gate_exps.weight   slice(axis=1,start=0,len=6)
            model.layers.0.block_sparse_moe.input_linear.weight   2,12,8  blk.0.ffn_up_exps.weight     slice(axis=1,start=6,len=6)
            model.layers.0.block_sparse_moe.output_linear.weight  2,8,6   blk.0.ffn_down_exps.weight
            model.layers.0.shared_mlp.input_linear.weight         20,8    blk.0.ffn_gate_shexp.weight  slice(axis=0,start=0,len=10)
            model.layers.0.shared_mlp.input_linear.weight         20,8    blk.0.ffn_up_shexp.weight    slice(axis=0,start=10,len=10)
            model.layers.0.shared_mlp.output_linear.weight        8,10    blk.0.ffn_down_shexp.weight
        "],
    },
    List {
        name: "granitemoehybrid",
        source: "GraniteMoeHybridForCausalLM of transformers 5.23 as it is saved, and what llama.cpp's conversion/granite.py makes of it",
        config: r#"{"model_type": "granitemoehybrid", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 6,
            "shared_intermediate_size": 10, "vocab_size": 10, "num_local_experts": 2, "num_experts_per_tok": 1, "layer_types": ["mamba", "attention"], "mamba_n_heads": 4, "mamba_d_head": 4,
            "mamba_n_groups": 1, "mamba_d_state": 3, "mamba_d_conv": 3, "mamba_expand": 2, "position_embedding_type": "nope"}"#,
        form: Form::Gguf,
        gguf: "granitehybrid",
        tensors: &["
            model.embed_tokens.weight                             10,8    token_embd.weight
            model.norm.weight                                     8       output_norm.weight
            lm_head.weight                                        10,8    output.weight
            model.layers.0.input_layernorm.weight                 8       blk.0.attn_norm.weight
            model.layers.0.post_attention_layernorm.weight        8       blk.0.ffn_norm.weight
            model.layers.0.mamba.in_proj.weight                   42,8    blk.0.ssm_in.weight
            model.layers.0.mamba.conv1d.weight                    22,1,3  blk.0.ssm_conv1d.weight      reshape
            model.layers.0.mamba.conv1d.bias                      22      blk.0.ssm_conv1d.bias
            model.layers.0.mamba.dt_bias                          4       blk.0.ssm_dt.bias
            model.layers.0.mamba.A_log                            4       blk.0.ssm_a                  neg_exp
            model.layers.0.mamba.D                                4       blk.0.ssm_d
            model.layers.0.mamba.norm.weight                      16      blk.0.ssm_norm.weight        reshape
            -                                                     1,16    blk.0.ssm_norm.weight
            model.layers.0.mamba.out_proj.weight                  8,16    blk.0.ssm_out.weight
            model.layers.0.block_sparse_moe.router.layer.weight   2,8     blk.0.ffn_gate_inp.weight
            model.layers.0.block_sparse_moe.input_linear.weight   2,12,8  blk.0.ffn_gate_exps.weight   slice(axis=1,start=0,len=6)
            model.layers.0.block_sparse_moe.input_linear.weight   2,12,8  blk.0.ffn_up_exps.weight     slice(axis=1,start=6,len=6)
            model.layers.0.block_sparse_moe.output_linear.weight  2,8,6   blk.0.ffn_down_exps.weight
            model.layers.0.shared_mlp.input_linear.weight         20,8    blk.0.ffn_gate_shexp.weight  slice(axis=0,start=0,len=10)
            model.layers.0.shared_mlp.input_linear.weight         20,8    blk.0.ffn_up_shexp.weight    slice(axis=0,start=10,len=10)
            model.layers.0.shared_mlp.output_linear.weight        8,10    blk.0.ffn_down_shexp.weight
            model.layers.1.input_layernorm.weight                 8       blk.1.attn_norm.weight
            model.layers.1.post_attention_layernorm.weight        8       blk.1.ffn_norm.weight
            model.layers.1.self_attn.q_proj.weight                8,8     blk.1.attn_q.weight          rope_row_interleave(head_dim=4)
            model.layers.1.self_attn.k_proj.weight                4,8     blk.1.attn_k.weight          rope_row_interleave(head_dim=4)
            model.layers.1.self_attn.v_proj.weight                4,8     blk.1.attn_v.weight
            model.layers.1.self_attn.o_proj.weight                8,8     blk.1.attn_output.weight
            model.layers.1.block_sparse_moe.router.layer.weight   2,8     blk.1.ffn_gate_inp.weight
            model.layers.1.block_sparse_moe.input_linear.weight   2,12,8  blk.1.ffn_gate_exps.weight   slice(axis=1,start=0,len=6)
            model.layers.1.block_sparse_moe.input_linear.weight   2,12,8  blk.1.ffn_up_exps.weight     slice(axis=1,start=6,len=6)
            model.layers.1.block_sparse_moe.output_linear.weight  2,8,6   blk.1.ffn_down_exps.weight
            model.layers.1.shared_mlp.input_linear.weight         20,8    blk.1.ffn_gate_shexp.weight  slice(axis=0,start=0,len=10)
            model.layers.1.shared_mlp.input_linear.weight         20,8    blk.1.ffn_up_shexp.weight    slice(axis=0,start=10,len=10)
            model.layers.1.shared_mlp.output_linear.weight        8,10    blk.1.ffn_down_shexp.weight
        "],
    },
    List {
        name: "granitemoehybrid without experts",
        source: "GraniteMoeHybridForCausalLM of transformers 5.23 as it is saved, and what llama.cpp's conversion/granite.py makes of it",
        config: r#"{"model_type": "granitemoehybrid", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 6,
            "shared_intermediate_size": 6, "vocab_size": 10, "num_local_experts": 0, "num_experts_per_tok": 0, "layer_types": ["mamba", "attention"], "mamba_n_heads": 4, "mamba_d_head": 4,
            "mamba_n_groups": 1, "mamba_d_state": 3, "mamba_d_conv": 3, "mamba_expand": 2, "position_embedding_type": "nope"}"#,
        form: Form::Gguf,
        gguf: "granitehybrid",
        tensors: &["
            model.embed_tokens.weight                       10,8    token_embd.weight
            model.norm.weight                               8       output_norm.weight
            lm_head.weight                                  10,8    output.weight
            model.layers.0.input_layernorm.weight           8       blk.0.attn_norm.weight
            model.layers.0.post_attention_layernorm.weight  8       blk.0.ffn_norm.weight
            model.layers.0.mamba.in_proj.weight             42,8    blk.0.ssm_in.weight
            model.layers.0.mamba.conv1d.weight              22,1,3  blk.0.ssm_conv1d.weight   reshape
            model.layers.0.mamba.conv1d.bias                22      blk.0.ssm_conv1d.bias
            model.layers.0.mamba.dt_bias                    4       blk.0.ssm_dt.bias
            model.layers.0.mamba.A_log                      4       blk.0.ssm_a               neg_exp
            model.layers.0.mamba.D                          4       blk.0.ssm_d
            model.layers.0.mamba.norm.weight                16      blk.0.ssm_norm.weight     reshape
            -                                               1,16    blk.0.ssm_norm.weight
            model.layers.0.mamba.out_proj.weight            8,16    blk.0.ssm_out.weight
            model.layers.0.shared_mlp.input_linear.weight   12,8    blk.0.ffn_gate.weight     slice(axis=0,start=0,len=6)
            model.layers.0.shared_mlp.input_linear.weight   12,8    blk.0.ffn_up.weight       slice(axis=0,start=6,len=6)
            model.layers.0.shared_mlp.output_linear.weight  8,6     blk.0.ffn_down.weight
            model.layers.1.input_layernorm.weight           8       blk.1.attn_norm.weight
            model.layers.1.post_attention_layernorm.weight  8       blk.1.ffn_norm.weight
            model.layers.1.self_attn.q_proj.weight          8,8     blk.1.attn_q.weight       rope_row_interleave(head_dim=4)
            model.layers.1.self_attn.k_proj.weight          4,8     blk.1.attn_k.weight       rope_row_interleave(head_dim=4)
            model.layers.1.self_attn.v_proj.weight          4,8     blk.1.attn_v.weight
            model.layers.1.self_attn.o_proj.weight          8,8     blk.1.attn_output.weight
            model.layers.1.shared_mlp.input_linear.weight   12,8    blk.1.ffn_gate.weight     slice(axis=0,start=0,len=6)
            model.layers.1.shared_mlp.input_linear.weight   12,8    blk.1.ffn_up.weight       slice(axis=0,start=6,len=6)
            model.layers.1.shared_mlp.output_linear.weight  8,6     blk.1.ffn_down.weight
        "],
    },
    List {
        name: "granitemoehybrid without states",
        source: "GraniteMoeHybridForCausalLM of transformers 5.23 as it is saved, and what llama.cpp's conversion/granite.py makes of it",
        config: r#"{"model_type": "granitemoehybrid", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 6,
            "shared_intermediate_size": 6, "vocab_size": 10, "num_local_experts": 0, "num_experts_per_tok": 0, "layer_types": ["attention", "attention"], "mamba_n_heads": 4, "mamba_d_head": 4,
            "mamba_n_groups": 1, "mamba_d_state": 3, "mamba_d_conv": 3, "mamba_expand": 2, "position_embedding_type": "rope"}"#,
        form: Form::Gguf,
        gguf: "granite",
        tensors: &["
            model.embed_tokens.weight                       10,8  token_embd.weight
            model.norm.weight                               8     output_norm.weight
            lm_head.weight                                  10,8  output.weight
            model.layers.0.input_layernorm.weight           8     blk.0.attn_norm.weight
            model.layers.0.post_attention_layernorm.weight  8     blk.0.ffn_norm.weight
            model.layers.0.self_attn.q_proj.weight          8,8   blk.0.attn_q.weight       rope_row_interleave(head_dim=4)
            model.layers.0.self_attn.k_proj.weight          4,8   blk.0.attn_k.weight       rope_row_interleave(head_dim=4)
            model.layers.0.self_attn.v_proj.weight          4,8   blk.0.attn_v.weight
            model.layers.0.self_attn.o_proj.weight          8,8   blk.0.attn_output.weight
            model.layers.0.shared_mlp.input_linear.weight   12,8  blk.0.ffn_gate.weight     slice(axis=0,start=0,len=6)
            model.layers.0.shared_mlp.input_linear.weight   12,8  blk.0.ffn_up.weight       slice(axis=0,start=6,len=6)
            model.layers.0.shared_mlp.output_linear.weight  8,6   blk.0.ffn_down.weight
            model.layers.1.input_layernorm.weight           8     blk.1.attn_norm.weight
            model.layers.1.post_attention_layernorm.weight  8     blk.1.ffn_norm.weight
            model.layers.1.self_attn.q_proj.weight          8,8   blk.1.attn_q.weight       rope_row_interleave(head_dim=4)
            model.layers.1.self_attn.k_proj.weight          4,8   blk.1.attn_k.weight       rope_row_interleave(head_dim=4)
            model.layers.1.self_attn.v_proj.weight          4,8   blk.1.attn_v.weight
            model.layers.1.self_attn.o_proj.weight          8,8   blk.1.attn_output.weight
            model.layers.1.shared_mlp.input_linear.weight   12,8  blk.1.ffn_gate.weight     slice(axis=0,start=0,len=6)
            model.layers.1.shared_mlp.input_linear.weight   12,8  blk.1.ffn_up.weight       slice(axis=0,start=6,len=6)
            model.layers.1.shared_mlp.output_linear.weight  8,6   blk.1.ffn_down.weight
        "],
    },
    List {
        name: "granitemoehybrid in mlx",
        source: "mlx-lm, granitemoehybrid.py, sanitize",
        config: r#"{"model_type": "granitemoehybrid", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 6,
            "shared_intermediate_size": 10, "vocab_size": 10, "num_local_experts": 2, "num_experts_per_tok": 1, "layer_types": ["mamba", "attention"], "mamba_n_heads": 4, "mamba_d_head": 4,
            "mamba_n_groups": 1, "mamba_d_state": 3, "mamba_d_conv": 3, "mamba_expand": 2, "position_embedding_type": "nope"}"#,
        form: Form::Mlx,
        gguf: "",
        tensors: &["
            model.embed_tokens.weight                             10,8    =
            model.norm.weight                                     8       =
            lm_head.weight                                        10,8    =
            model.layers.0.input_layernorm.weight                 8       =
            model.layers.0.post_attention_layernorm.weight        8       =
            model.layers.0.mamba.in_proj.weight                   42,8    =
            model.layers.0.mamba.conv1d.weight                    22,1,3  =                                                            transpose_last_two
            model.layers.0.mamba.conv1d.bias                      22      =
            model.layers.0.mamba.dt_bias                          4       =
            model.layers.0.mamba.A_log                            4       =
            model.layers.0.mamba.D                                4       =
            model.layers.0.mamba.norm.weight                      16      =
            model.layers.0.mamba.out_proj.weight                  8,16    =
            model.layers.0.block_sparse_moe.router.layer.weight   2,8     =
            model.layers.0.block_sparse_moe.input_linear.weight   2,12,8  model.layers.0.block_sparse_moe.switch_mlp.gate_proj.weight  slice(axis=1,start=0,len=6)
            model.layers.0.block_sparse_moe.input_linear.weight   2,12,8  model.layers.0.block_sparse_moe.switch_mlp.up_proj.weight    slice(axis=1,start=6,len=6)
            model.layers.0.block_sparse_moe.output_linear.weight  2,8,6   model.layers.0.block_sparse_moe.switch_mlp.down_proj.weight
            model.layers.0.shared_mlp.input_linear.weight         20,8    =
            model.layers.0.shared_mlp.output_linear.weight        8,10    =
            model.layers.1.input_layernorm.weight                 8       =
            model.layers.1.post_attention_layernorm.weight        8       =
            model.layers.1.self_attn.q_proj.weight                8,8     =
            model.layers.1.self_attn.k_proj.weight                4,8     =
            model.layers.1.self_attn.v_proj.weight                4,8     =
            model.layers.1.self_attn.o_proj.weight                8,8     =
            model.layers.1.block_sparse_moe.router.layer.weight   2,8     =
            model.layers.1.block_sparse_moe.input_linear.weight   2,12,8  model.layers.1.block_sparse_moe.switch_mlp.gate_proj.weight  slice(axis=1,start=0,len=6)
            model.layers.1.block_sparse_moe.input_linear.weight   2,12,8  model.layers.1.block_sparse_moe.switch_mlp.up_proj.weight    slice(axis=1,start=6,len=6)
            model.layers.1.block_sparse_moe.output_linear.weight  2,8,6   model.layers.1.block_sparse_moe.switch_mlp.down_proj.weight
            model.layers.1.shared_mlp.input_linear.weight         20,8    =
            model.layers.1.shared_mlp.output_linear.weight        8,10    =
        "],
    },
    List {
        name: "granitemoehybrid without experts in mlx",
        source: "mlx-lm, granitemoehybrid.py, sanitize",
        config: r#"{"model_type": "granitemoehybrid", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 6,
            "shared_intermediate_size": 6, "vocab_size": 10, "num_local_experts": 0, "num_experts_per_tok": 0, "layer_types": ["mamba", "attention"], "mamba_n_heads": 4, "mamba_d_head": 4,
            "mamba_n_groups": 1, "mamba_d_state": 3, "mamba_d_conv": 3, "mamba_expand": 2, "position_embedding_type": "nope"}"#,
        form: Form::Mlx,
        gguf: "",
        tensors: &["
            model.embed_tokens.weight                       10,8    =
            model.norm.weight                               8       =
            lm_head.weight                                  10,8    =
            model.layers.0.input_layernorm.weight           8       =
            model.layers.0.post_attention_layernorm.weight  8       =
            model.layers.0.mamba.in_proj.weight             42,8    =
            model.layers.0.mamba.conv1d.weight              22,1,3  =                                    transpose_last_two
            model.layers.0.mamba.conv1d.bias                22      =
            model.layers.0.mamba.dt_bias                    4       =
            model.layers.0.mamba.A_log                      4       =
            model.layers.0.mamba.D                          4       =
            model.layers.0.mamba.norm.weight                16      =
            model.layers.0.mamba.out_proj.weight            8,16    =
            model.layers.0.shared_mlp.input_linear.weight   12,8    model.layers.0.mlp.gate_proj.weight  slice(axis=0,start=0,len=6)
            model.layers.0.shared_mlp.input_linear.weight   12,8    model.layers.0.mlp.up_proj.weight    slice(axis=0,start=6,len=6)
            model.layers.0.shared_mlp.output_linear.weight  8,6     model.layers.0.mlp.down_proj.weight
            model.layers.1.input_layernorm.weight           8       =
            model.layers.1.post_attention_layernorm.weight  8       =
            model.layers.1.self_attn.q_proj.weight          8,8     =
            model.layers.1.self_attn.k_proj.weight          4,8     =
            model.layers.1.self_attn.v_proj.weight          4,8     =
            model.layers.1.self_attn.o_proj.weight          8,8     =
            model.layers.1.shared_mlp.input_linear.weight   12,8    model.layers.1.mlp.gate_proj.weight  slice(axis=0,start=0,len=6)
            model.layers.1.shared_mlp.input_linear.weight   12,8    model.layers.1.mlp.up_proj.weight    slice(axis=0,start=6,len=6)
            model.layers.1.shared_mlp.output_linear.weight  8,6     model.layers.1.mlp.down_proj.weight
        "],
    },
    List {
        name: "granitemoehybrid without states in mlx",
        source: "mlx-lm, granitemoehybrid.py, sanitize",
        config: r#"{"model_type": "granitemoehybrid", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 6,
            "shared_intermediate_size": 6, "vocab_size": 10, "num_local_experts": 0, "num_experts_per_tok": 0, "layer_types": ["attention", "attention"], "mamba_n_heads": 4, "mamba_d_head": 4,
            "mamba_n_groups": 1, "mamba_d_state": 3, "mamba_d_conv": 3, "mamba_expand": 2, "position_embedding_type": "rope"}"#,
        form: Form::Mlx,
        gguf: "",
        tensors: &["
            model.embed_tokens.weight                       10,8  =
            model.norm.weight                               8     =
            lm_head.weight                                  10,8  =
            model.layers.0.input_layernorm.weight           8     =
            model.layers.0.post_attention_layernorm.weight  8     =
            model.layers.0.self_attn.q_proj.weight          8,8   =
            model.layers.0.self_attn.k_proj.weight          4,8   =
            model.layers.0.self_attn.v_proj.weight          4,8   =
            model.layers.0.self_attn.o_proj.weight          8,8   =
            model.layers.0.shared_mlp.input_linear.weight   12,8  model.layers.0.mlp.gate_proj.weight  slice(axis=0,start=0,len=6)
            model.layers.0.shared_mlp.input_linear.weight   12,8  model.layers.0.mlp.up_proj.weight    slice(axis=0,start=6,len=6)
            model.layers.0.shared_mlp.output_linear.weight  8,6   model.layers.0.mlp.down_proj.weight
            model.layers.1.input_layernorm.weight           8     =
            model.layers.1.post_attention_layernorm.weight  8     =
            model.layers.1.self_attn.q_proj.weight          8,8   =
            model.layers.1.self_attn.k_proj.weight          4,8   =
            model.layers.1.self_attn.v_proj.weight          4,8   =
            model.layers.1.self_attn.o_proj.weight          8,8   =
            model.layers.1.shared_mlp.input_linear.weight   12,8  model.layers.1.mlp.gate_proj.weight  slice(axis=0,start=0,len=6)
            model.layers.1.shared_mlp.input_linear.weight   12,8  model.layers.1.mlp.up_proj.weight    slice(axis=0,start=6,len=6)
            model.layers.1.shared_mlp.output_linear.weight  8,6   model.layers.1.mlp.down_proj.weight
        "],
    },
    List {
        name: "granitemoe in mlx",
        source: "mlx-lm, granitemoe.py, sanitize",
        config: config!("granitemoe", r#", "num_local_experts": 2, "num_experts_per_tok": 1"#),
        form: Form::Mlx,
        gguf: "",
        tensors: &[SAME_REST, "
            model.layers.0.block_sparse_moe.router.layer.weight   2,8     =
            model.layers.0.block_sparse_moe.input_linear.weight   2,12,8  model.layers.0.block_sparse_moe.switch_mlp.gate_proj.weight  slice(axis=1,start=0,len=6)
            model.layers.0.block_sparse_moe.input_linear.weight   2,12,8  model.layers.0.block_sparse_moe.switch_mlp.up_proj.weight    slice(axis=1,start=6,len=6)
            model.layers.0.block_sparse_moe.output_linear.weight  2,8,6   model.layers.0.block_sparse_moe.switch_mlp.down_proj.weight
        "],
    },
    List {
        name: "deepseek",
        source: "llama.cpp, conversion/deepseek.py, DeepseekModel",
        // As wide as its heads together, since no key says their width; the tensors are narrower.
        config: r#"{"model_type": "deepseek", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4,
            "num_key_value_heads": 2, "intermediate_size": 6, "vocab_size": 10, "n_routed_experts": 2, "num_experts_per_tok": 1,
            "n_shared_experts": 1, "moe_intermediate_size": 6, "first_k_dense_replace": 0}"#,
        form: Form::Gguf,
        gguf: "deepseek",
        tensors: &[EMBEDDINGS, NORMS, PERMUTED, EXPERTS, SHARED_EXPERTS],
    },
    List {
        name: "qwen3moe in memory",
        source: "data/names/qwen3_moe.json, hf_notes: the names that transformers 5 holds in memory",
        config: config!("qwen3_moe", r#", "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 6"#),
        form: Form::HuggingFace,
        gguf: "",
        tensors: &[SAME_REST, "
            model.layers.0.self_attn.q_norm.weight          4      =
            model.layers.0.self_attn.k_norm.weight          4      =
            model.layers.0.mlp.gate.weight                  2,8    =
            model.layers.0.mlp.switch_mlp.gate_proj.weight  2,6,8  model.layers.0.mlp.experts.gate_up_proj  joined[0]
            model.layers.0.mlp.switch_mlp.up_proj.weight    2,6,8  model.layers.0.mlp.experts.gate_up_proj  joined[1]
            model.layers.0.mlp.switch_mlp.down_proj.weight  2,8,6  model.layers.0.mlp.experts.down_proj
        "],
    },
    List {
        name: "qwen3moe in ollama",
        source: "facts/ollama.md 3.7: experts of a projection in one tensor",
        config: config!("qwen3_moe", r#", "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 6"#),
        form: Form::HuggingFace,
        gguf: "",
        tensors: &[SAME_REST, "
            model.layers.0.self_attn.q_norm.weight           4    =
            model.layers.0.self_attn.k_norm.weight           4    =
            model.layers.0.mlp.gate.weight                   2,8  =
            model.layers.0.mlp.experts.{e}.gate_proj.weight  6,8  model.layers.0.mlp.experts.gate_proj.weight  stacked[{e}]
            model.layers.0.mlp.experts.{e}.up_proj.weight    6,8  model.layers.0.mlp.experts.up_proj.weight    stacked[{e}]
            model.layers.0.mlp.experts.{e}.down_proj.weight  8,6  model.layers.0.mlp.experts.down_proj.weight  stacked[{e}]
        "],
    },
    List {
        name: "embeddinggemma",
        source: "llama.cpp, conversion/gemma.py, EmbeddingGemma: names without \"model.\"",
        config: config!("gemma3_text"),
        form: Form::Gguf,
        gguf: "gemma-embedding",
        tensors: &["
            embed_tokens.weight                         10,8  token_embd.weight
            norm.weight                                 8     output_norm.weight                plus_one
            -                                           12,8  dense_2.weight
            -                                           8,12  dense_3.weight
            layers.0.input_layernorm.weight             8     blk.0.attn_norm.weight            plus_one
            layers.0.post_attention_layernorm.weight    8     blk.0.post_attention_norm.weight  plus_one
            layers.0.pre_feedforward_layernorm.weight   8     blk.0.ffn_norm.weight             plus_one
            layers.0.post_feedforward_layernorm.weight  8     blk.0.post_ffw_norm.weight        plus_one
            layers.0.self_attn.q_norm.weight            4     blk.0.attn_q_norm.weight          plus_one
            layers.0.self_attn.k_norm.weight            4     blk.0.attn_k_norm.weight          plus_one
            layers.0.self_attn.q_proj.weight            16,8  blk.0.attn_q.weight
            layers.0.self_attn.k_proj.weight            8,8   blk.0.attn_k.weight
            layers.0.self_attn.v_proj.weight            8,8   blk.0.attn_v.weight
            layers.0.self_attn.o_proj.weight            8,16  blk.0.attn_output.weight
            layers.0.mlp.gate_proj.weight               6,8   blk.0.ffn_gate.weight
            layers.0.mlp.up_proj.weight                 6,8   blk.0.ffn_up.weight
            layers.0.mlp.down_proj.weight               8,6   blk.0.ffn_down.weight
        "],
    },
    List {
        name: "phi3, taken apart",
        source: "transformers, modeling_phi3.py: q, k and v in that order, gate before up",
        config: config!("phi3", r#", "max_position_embeddings": 16"#),
        form: Form::HuggingFace,
        gguf: "",
        tensors: &["
            model.embed_tokens.weight                       10,8  =
            model.norm.weight                               8     =
            model.layers.0.input_layernorm.weight           8     =
            model.layers.0.post_attention_layernorm.weight  8     =
            model.layers.0.self_attn.o_proj.weight          8,16  =
            model.layers.0.self_attn.q_proj.weight          16,8  model.layers.0.self_attn.qkv_proj.weight  joined[0]
            model.layers.0.self_attn.k_proj.weight          8,8   model.layers.0.self_attn.qkv_proj.weight  joined[1]
            model.layers.0.self_attn.v_proj.weight          8,8   model.layers.0.self_attn.qkv_proj.weight  joined[2]
            model.layers.0.mlp.gate_proj.weight             6,8   model.layers.0.mlp.gate_up_proj.weight    joined[0]
            model.layers.0.mlp.up_proj.weight               6,8   model.layers.0.mlp.gate_up_proj.weight    joined[1]
            model.layers.0.mlp.down_proj.weight             8,6   =
        "],
    },
    List {
        name: "gemma3n",
        source: "llama.cpp, conversion/gemma.py, Gemma3NModel; llama.cpp, gguf-py/gguf/tensor_mapping.py",
        config: r#"{"model_type": "gemma3n", "text_config": {"model_type": "gemma3n_text", "hidden_size": 8,
            "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4,
            "intermediate_size": [6], "vocab_size": 10, "hidden_size_per_layer_input": 5, "num_kv_shared_layers": 0,
            "altup_active_idx": 0, "altup_num_inputs": 4, "activation_sparsity_pattern": [0.5], "sliding_window": 4,
            "layer_types": ["full_attention"]}}"#,
        form: Form::Gguf,
        gguf: "gemma3n",
        tensors: &["
            model.language_model.embed_tokens_per_layer.weight               10,5     per_layer_token_embd.weight
            model.language_model.per_layer_model_projection.weight           5,8      per_layer_model_proj.weight
            model.language_model.per_layer_projection_norm.weight            5        per_layer_proj_norm.weight
            model.language_model.altup_projections.0.weight                  8,8      altup_proj.weight         stacked[0]
            model.language_model.altup_projections.1.weight                  8,8      altup_proj.weight         stacked[1]
            model.language_model.altup_projections.2.weight                  8,8      altup_proj.weight         stacked[2]
            model.language_model.altup_unembed_projections.0.weight          8,8      altup_unembd_proj.weight  stacked[0]
            model.language_model.altup_unembed_projections.1.weight          8,8      altup_unembd_proj.weight  stacked[1]
            model.language_model.altup_unembed_projections.2.weight          8,8      altup_unembd_proj.weight  stacked[2]
            model.language_model.layers.0.per_layer_input_gate.weight        5,8      blk.0.inp_gate.weight
            model.language_model.layers.0.per_layer_projection.weight        8,5      blk.0.proj.weight
            model.language_model.layers.0.post_per_layer_input_norm.weight   8        blk.0.post_norm.weight
            model.language_model.layers.0.altup.correction_coefs.weight      4,4      blk.0.altup_correct_coef.weight
            model.language_model.layers.0.altup.correct_output_scale         8        blk.0.altup_correct_scale.weight
            model.language_model.layers.0.altup.prediction_coefs.weight      16,4     blk.0.altup_predict_coef.weight
            model.language_model.layers.0.altup.modality_router.weight       4,8      blk.0.altup_router.weight
            model.language_model.layers.0.altup.router_norm.weight           8        blk.0.altup_router_norm.weight
            model.language_model.layers.0.laurel.linear_left.weight          3,8      blk.0.laurel_l.weight
            model.language_model.layers.0.laurel.linear_right.weight         8,3      blk.0.laurel_r.weight
            model.language_model.layers.0.laurel.post_laurel_norm.weight     8        blk.0.laurel_post_norm.weight
            model.language_model.embed_tokens.weight                         10,8     token_embd.weight
            model.language_model.norm.weight                                 8        output_norm.weight
            model.language_model.layers.0.input_layernorm.weight             8        blk.0.attn_norm.weight
            model.language_model.layers.0.post_attention_layernorm.weight    8        blk.0.post_attention_norm.weight
            model.language_model.layers.0.pre_feedforward_layernorm.weight   8        blk.0.ffn_norm.weight
            model.language_model.layers.0.post_feedforward_layernorm.weight  8        blk.0.post_ffw_norm.weight
            model.language_model.layers.0.self_attn.q_norm.weight            4        blk.0.attn_q_norm.weight
            model.language_model.layers.0.self_attn.k_norm.weight            4        blk.0.attn_k_norm.weight
            model.language_model.layers.0.self_attn.q_proj.weight            16,8     blk.0.attn_q.weight
            model.language_model.layers.0.self_attn.k_proj.weight            8,8      blk.0.attn_k.weight
            model.language_model.layers.0.self_attn.v_proj.weight            8,8      blk.0.attn_v.weight
            model.language_model.layers.0.self_attn.o_proj.weight            8,16     blk.0.attn_output.weight
            model.language_model.layers.0.mlp.gate_proj.weight               6,8      blk.0.ffn_gate.weight
            model.language_model.layers.0.mlp.up_proj.weight                 6,8      blk.0.ffn_up.weight
            model.language_model.layers.0.mlp.down_proj.weight               8,6      blk.0.ffn_down.weight
            model.vision_tower.timm_model.conv_stem.conv.weight              4,3,3,3  -
            model.audio_tower.conformer.0.norm.weight                        4        -
            model.embed_vision.embedding.weight                              4,8      -
            model.embed_audio.embedding.weight                               4,8      -
        "],
    },
    List {
        name: "gpt-oss, fused",
        source: "llama.cpp, conversion/gpt_oss.py, --fuse-gate-up-exps",
        config: config!("gpt_oss", r#", "num_local_experts": 2, "num_experts_per_tok": 1"#),
        form: Form::Gguf,
        gguf: "gpt-oss",
        tensors: &[EMBEDDINGS, ATTENTION, "
            model.layers.0.input_layernorm.weight           8      blk.0.attn_norm.weight
            model.layers.0.post_attention_layernorm.weight  8      blk.0.post_attention_norm.weight
            model.layers.0.self_attn.sinks                  4      blk.0.attn_sinks.weight
            model.layers.0.mlp.router.weight                2,8    blk.0.ffn_gate_inp.weight
            model.layers.0.mlp.experts.gate_proj.weight     2,6,8  blk.0.ffn_gate_up_exps.weight  joined[0]
            model.layers.0.mlp.experts.up_proj.weight       2,6,8  blk.0.ffn_gate_up_exps.weight  joined[1]
            model.layers.0.mlp.experts.down_proj.weight     2,8,6  blk.0.ffn_down_exps.weight
            model.layers.0.mlp.experts.gate_up_proj_bias    2,12   blk.0.ffn_gate_up_exps.bias    columns:0,2,4,6,8,10,1,3,5,7,9,11
            model.layers.0.mlp.experts.down_proj_bias       2,8    blk.0.ffn_down_exps.bias
        "],
    },
    List {
        name: "glm4moe",
        source: "llama.cpp, conversion/glm.py, Glm4MoeModel; constants.py for the norm's name",
        config: config!("glm4_moe", r#", "n_routed_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 6, "n_shared_experts": 1, "first_k_dense_replace": 0"#),
        form: Form::Gguf,
        gguf: "glm4moe",
        tensors: &[EMBEDDINGS, ATTENTION, HEAD_NORMS, EXPERTS, SHARED_EXPERTS, "
            model.layers.0.input_layernorm.weight            8     blk.0.attn_norm.weight
            model.layers.0.post_attention_layernorm.weight   8     blk.0.post_attention_norm.weight
            model.layers.0.mlp.gate.e_score_correction_bias  2     blk.0.exp_probs_b.bias
            model.layers.0.embed_tokens.weight               10,8  blk.0.nextn.embed_tokens.weight
            model.layers.0.enorm.weight                      8     blk.0.nextn.enorm.weight
            model.layers.0.hnorm.weight                      8     blk.0.nextn.hnorm.weight
            model.layers.0.eh_proj.weight                    8,16  blk.0.nextn.eh_proj.weight
            model.layers.0.shared_head.norm.weight           8     blk.0.nextn.shared_head_norm.weight
            model.layers.0.shared_head.head.weight           10,8  blk.0.nextn.shared_head_head.weight
        "],
    },
    List {
        name: "olmo2",
        source: "llama.cpp, conversion/olmo.py, Olmo2Model; llama.cpp, gguf-py/gguf/tensor_mapping.py",
        config: config!("olmo2"),
        form: Form::Gguf,
        gguf: "olmo2",
        tensors: &[EMBEDDINGS, ATTENTION, DENSE, "
            model.layers.0.self_attn.q_norm.weight            16  blk.0.attn_q_norm.weight
            model.layers.0.self_attn.k_norm.weight            8   blk.0.attn_k_norm.weight
            model.layers.0.post_attention_layernorm.weight    8   blk.0.post_attention_norm.weight
            model.layers.0.post_feedforward_layernorm.weight  8   blk.0.post_ffw_norm.weight
        "],
    },
    List {
        name: "olmoe",
        source: "llama.cpp, conversion/olmo.py, OlmoeModel; llama.cpp, gguf-py/gguf/tensor_mapping.py",
        config: config!("olmoe", r#", "num_experts": 2, "num_experts_per_tok": 1"#),
        form: Form::Gguf,
        gguf: "olmoe",
        tensors: &[EMBEDDINGS, NORMS, ATTENTION, HEAD_NORMS, EXPERTS],
    },
    List {
        name: "command-r",
        source: "llama.cpp, conversion/command_r.py; llama.cpp, gguf-py/gguf/tensor_mapping.py (cohere)",
        config: config!("cohere"),
        form: Form::Gguf,
        gguf: "command-r",
        tensors: &[EMBEDDINGS, ATTENTION, DENSE, "
            model.layers.0.input_layernorm.weight   8    blk.0.attn_norm.weight
            model.layers.0.self_attn.q_norm.weight  4,4  blk.0.attn_q_norm.weight
            model.layers.0.self_attn.k_norm.weight  2,4  blk.0.attn_k_norm.weight
        "],
    },
    List {
        name: "cohere2",
        source: "llama.cpp, conversion/command_r.py, Cohere2Model",
        config: config!("cohere2"),
        form: Form::Gguf,
        gguf: "cohere2",
        tensors: &[EMBEDDINGS, ATTENTION, DENSE, "
            model.layers.0.input_layernorm.weight  8  blk.0.attn_norm.weight
        "],
    },
    List {
        name: "deepseek before k_b and v_b",
        source: "llama.cpp before its pull request 12801, which split attn_kv_b",
        config: r#"{"model_type": "deepseek_v3", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
            "num_key_value_heads": 2, "qk_nope_head_dim": 2, "qk_rope_head_dim": 2, "v_head_dim": 3, "kv_lora_rank": 4,
            "q_lora_rank": 5, "n_routed_experts": 2, "num_experts_per_tok": 1, "n_shared_experts": 1,
            "moe_intermediate_size": 6, "intermediate_size": 6, "first_k_dense_replace": 0, "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "deepseek2",
        tensors: &["
            model.embed_tokens.weight                           10,8  token_embd.weight
            model.norm.weight                                   8     output_norm.weight
            model.layers.0.input_layernorm.weight               8     blk.0.attn_norm.weight
            model.layers.0.self_attn.q_a_proj.weight            5,8   blk.0.attn_q_a.weight
            model.layers.0.self_attn.q_a_layernorm.weight       5     blk.0.attn_q_a_norm.weight
            model.layers.0.self_attn.q_b_proj.weight            8,5   blk.0.attn_q_b.weight
            model.layers.0.self_attn.kv_a_proj_with_mqa.weight  6,8   blk.0.attn_kv_a_mqa.weight
            model.layers.0.self_attn.kv_a_layernorm.weight      4     blk.0.attn_kv_a_norm.weight
            model.layers.0.self_attn.kv_b_proj.weight           10,4  blk.0.attn_kv_b.weight
            model.layers.0.self_attn.o_proj.weight              8,6   blk.0.attn_output.weight
            model.layers.0.post_attention_layernorm.weight      8     blk.0.ffn_norm.weight
            model.layers.0.mlp.gate_proj.weight                 6,8   blk.0.ffn_gate.weight
            model.layers.0.mlp.up_proj.weight                   6,8   blk.0.ffn_up.weight
            model.layers.0.mlp.down_proj.weight                 8,6   blk.0.ffn_down.weight
        "],
    },
    List {
        name: "deepseek with biases",
        source: "DeepseekV3ForCausalLM of transformers 5.23 with attention_bias as it is saved, and what llama.cpp's conversion/deepseek.py made of it",
        config: r#"{"model_type": "deepseek_v3", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
            "num_key_value_heads": 2, "qk_nope_head_dim": 2, "qk_rope_head_dim": 2, "v_head_dim": 3, "kv_lora_rank": 4,
            "q_lora_rank": 5, "n_routed_experts": 2, "num_experts_per_tok": 1, "n_shared_experts": 1,
            "moe_intermediate_size": 6, "intermediate_size": 6, "first_k_dense_replace": 0, "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "deepseek2",
        tensors: &[EMBEDDINGS, NORMS, DENSE, "
            model.layers.0.self_attn.q_a_proj.weight            5,8   blk.0.attn_q_a.weight
            model.layers.0.self_attn.q_a_proj.bias              5     blk.0.attn_q_a.bias
            model.layers.0.self_attn.q_a_layernorm.weight       5     blk.0.attn_q_a_norm.weight
            model.layers.0.self_attn.q_b_proj.weight            8,5   blk.0.attn_q_b.weight
            model.layers.0.self_attn.kv_a_proj_with_mqa.weight  6,8   blk.0.attn_kv_a_mqa.weight
            model.layers.0.self_attn.kv_a_proj_with_mqa.bias    6     blk.0.attn_kv_a_mqa.bias
            model.layers.0.self_attn.kv_a_layernorm.weight      4     blk.0.attn_kv_a_norm.weight
            model.layers.0.self_attn.kv_b_proj.weight           10,4  blk.0.attn_kv_b.weight
            model.layers.0.self_attn.o_proj.weight              8,6   blk.0.attn_output.weight
            model.layers.0.self_attn.o_proj.bias                8     blk.0.attn_output.bias
        "],
    },
    List {
        name: "deepseek of ik_llama.cpp",
        source: "ikawrakow/ik_llama.cpp keeps attn_kv_b beside attn_k_b and attn_v_b; its attn_k_b has other axes, which are not read",
        config: r#"{"model_type": "deepseek_v3", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
            "num_key_value_heads": 2, "qk_nope_head_dim": 2, "qk_rope_head_dim": 2, "v_head_dim": 3, "kv_lora_rank": 4,
            "q_lora_rank": 5, "n_routed_experts": 2, "num_experts_per_tok": 1, "n_shared_experts": 1,
            "moe_intermediate_size": 6, "intermediate_size": 6, "first_k_dense_replace": 0, "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "deepseek2",
        tensors: &["
            model.embed_tokens.weight                           10,8  token_embd.weight
            model.norm.weight                                   8     output_norm.weight
            model.layers.0.input_layernorm.weight               8     blk.0.attn_norm.weight
            model.layers.0.self_attn.q_a_proj.weight            5,8   blk.0.attn_q_a.weight
            model.layers.0.self_attn.q_a_layernorm.weight       5     blk.0.attn_q_a_norm.weight
            model.layers.0.self_attn.q_b_proj.weight            8,5   blk.0.attn_q_b.weight
            model.layers.0.self_attn.kv_a_proj_with_mqa.weight  6,8   blk.0.attn_kv_a_mqa.weight
            model.layers.0.self_attn.kv_a_layernorm.weight      4     blk.0.attn_kv_a_norm.weight
            model.layers.0.self_attn.kv_b_proj.weight           10,4  blk.0.attn_kv_b.weight
            model.layers.0.self_attn.kv_b_proj.weight           10,4  blk.0.attn_k_b.weight        per_head(n=2,rows=5).slice(start=0,len=2)+transpose_last_two
            model.layers.0.self_attn.kv_b_proj.weight           10,4  blk.0.attn_v_b.weight        per_head(n=2,rows=5).slice(start=2,len=3)
            model.layers.0.self_attn.o_proj.weight              8,6   blk.0.attn_output.weight
            model.layers.0.post_attention_layernorm.weight      8     blk.0.ffn_norm.weight
            model.layers.0.mlp.gate_proj.weight                 6,8   blk.0.ffn_gate.weight
            model.layers.0.mlp.up_proj.weight                   6,8   blk.0.ffn_up.weight
            model.layers.0.mlp.down_proj.weight                 8,6   blk.0.ffn_down.weight
        "],
    },
    List {
        name: "deepseek 3.2 with the layer behind the others",
        source: "llama.cpp's gguf-py/gguf/tensor_mapping.py; model.layers.61 of DeepSeek-V3",
        config: r#"{"model_type": "deepseek_v32", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
            "num_key_value_heads": 2, "qk_nope_head_dim": 2, "qk_rope_head_dim": 2, "v_head_dim": 3, "kv_lora_rank": 4,
            "q_lora_rank": 5, "n_routed_experts": 2, "num_experts_per_tok": 1, "n_shared_experts": 1,
            "moe_intermediate_size": 6, "intermediate_size": 6, "first_k_dense_replace": 0, "index_n_heads": 2, "index_head_dim": 4,
            "index_topk": 2, "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "deepseek32",
        tensors: &["
            model.embed_tokens.weight                             10,8  token_embd.weight
            model.norm.weight                                     8     output_norm.weight
            model.layers.0.input_layernorm.weight                 8     blk.0.attn_norm.weight
            model.layers.0.self_attn.q_a_proj.weight              5,8   blk.0.attn_q_a.weight
            model.layers.0.self_attn.q_a_layernorm.weight         5     blk.0.attn_q_a_norm.weight
            model.layers.0.self_attn.q_b_proj.weight              8,5   blk.0.attn_q_b.weight
            model.layers.0.self_attn.kv_a_proj_with_mqa.weight    6,8   blk.0.attn_kv_a_mqa.weight
            model.layers.0.self_attn.kv_a_layernorm.weight        4     blk.0.attn_kv_a_norm.weight
            model.layers.0.self_attn.kv_b_proj.weight             10,4  blk.0.attn_k_b.weight                per_head(n=2,rows=5).slice(start=0,len=2)+transpose_last_two
            model.layers.0.self_attn.kv_b_proj.weight             10,4  blk.0.attn_v_b.weight                per_head(n=2,rows=5).slice(start=2,len=3)
            model.layers.0.self_attn.indexer.wq_b.weight          4,5   blk.0.indexer.attn_q_b.weight
            model.layers.0.self_attn.indexer.wk.weight            2,8   blk.0.indexer.attn_k.weight
            model.layers.0.self_attn.indexer.k_norm.weight        2     blk.0.indexer.k_norm.weight
            model.layers.0.self_attn.indexer.k_norm.bias          2     blk.0.indexer.k_norm.bias
            model.layers.0.self_attn.indexer.weights_proj.weight  2,8   blk.0.indexer.proj.weight
            model.layers.0.self_attn.o_proj.weight                8,6   blk.0.attn_output.weight
            model.layers.0.post_attention_layernorm.weight        8     blk.0.ffn_norm.weight
            model.layers.0.mlp.gate_proj.weight                   6,8   blk.0.ffn_gate.weight
            model.layers.0.mlp.up_proj.weight                     6,8   blk.0.ffn_up.weight
            model.layers.0.mlp.down_proj.weight                   8,6   blk.0.ffn_down.weight
            model.layers.1.input_layernorm.weight                 8     blk.1.attn_norm.weight
            model.layers.1.self_attn.q_a_proj.weight              5,8   blk.1.attn_q_a.weight
            model.layers.1.self_attn.q_a_layernorm.weight         5     blk.1.attn_q_a_norm.weight
            model.layers.1.self_attn.q_b_proj.weight              8,5   blk.1.attn_q_b.weight
            model.layers.1.self_attn.kv_a_proj_with_mqa.weight    6,8   blk.1.attn_kv_a_mqa.weight
            model.layers.1.self_attn.kv_a_layernorm.weight        4     blk.1.attn_kv_a_norm.weight
            model.layers.1.self_attn.kv_b_proj.weight             10,4  blk.1.attn_k_b.weight                per_head(n=2,rows=5).slice(start=0,len=2)+transpose_last_two
            model.layers.1.self_attn.kv_b_proj.weight             10,4  blk.1.attn_v_b.weight                per_head(n=2,rows=5).slice(start=2,len=3)
            model.layers.1.self_attn.o_proj.weight                8,6   blk.1.attn_output.weight
            model.layers.1.post_attention_layernorm.weight        8     blk.1.ffn_norm.weight
            model.layers.1.enorm.weight                           8     blk.1.nextn.enorm.weight
            model.layers.1.hnorm.weight                           8     blk.1.nextn.hnorm.weight
            model.layers.1.eh_proj.weight                         8,16  blk.1.nextn.eh_proj.weight
            model.layers.1.embed_tokens.weight                    10,8  blk.1.nextn.embed_tokens.weight
            model.layers.1.shared_head.norm.weight                8     blk.1.nextn.shared_head_norm.weight
            model.layers.1.shared_head.head.weight                10,8  blk.1.nextn.shared_head_head.weight
        "],
    },
    List {
        name: "qwen3.5, dense",
        source: "llama.cpp's conversion/qwen.py (_LinearAttentionVReorderBase, _QwenMtpMixin) and gguf-py/gguf/tensor_mapping.py; mtp.* as Qwen/Qwen3.5-9B has it",
        config: r#"{"model_type": "qwen3_5_text", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
            "num_key_value_heads": 1, "head_dim": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
            "linear_key_head_dim": 2, "linear_value_head_dim": 2, "linear_conv_kernel_dim": 3, "intermediate_size": 6,
            "layer_types": ["linear_attention", "full_attention"], "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "qwen35",
        tensors: &["
            model.language_model.embed_tokens.weight                       10,8    token_embd.weight
            model.language_model.norm.weight                               8       output_norm.weight                   plus_one
            model.language_model.layers.0.input_layernorm.weight           8       blk.0.attn_norm.weight               plus_one
            model.language_model.layers.0.post_attention_layernorm.weight  8       blk.0.post_attention_norm.weight     plus_one
            model.language_model.layers.0.linear_attn.in_proj_qkv.weight   16,8    blk.0.attn_qkv.weight                rows:0-9,12-13,10-11,14-15
            model.language_model.layers.0.linear_attn.in_proj_z.weight     8,8     blk.0.attn_gate.weight               rows:0-1,4-5,2-3,6-7
            model.language_model.layers.0.linear_attn.in_proj_a.weight     4,8     blk.0.ssm_alpha.weight               rows:0,2,1,3
            model.language_model.layers.0.linear_attn.in_proj_b.weight     4,8     blk.0.ssm_beta.weight                rows:0,2,1,3
            model.language_model.layers.0.linear_attn.A_log                4       blk.0.ssm_a                          rows:0,2,1,3+neg_exp
            model.language_model.layers.0.linear_attn.dt_bias              4       blk.0.ssm_dt.bias                    rows:0,2,1,3
            model.language_model.layers.0.linear_attn.conv1d.weight        16,1,3  blk.0.ssm_conv1d.weight              rows:0-9,12-13,10-11,14-15+reshape
            model.language_model.layers.0.linear_attn.norm.weight          2       blk.0.ssm_norm.weight
            model.language_model.layers.0.linear_attn.out_proj.weight      8,8     blk.0.ssm_out.weight                 transpose_last_two+rows:0-1,4-5,2-3,6-7+transpose_last_two
            model.language_model.layers.0.mlp.gate_proj.weight             6,8     blk.0.ffn_gate.weight
            model.language_model.layers.0.mlp.up_proj.weight               6,8     blk.0.ffn_up.weight
            model.language_model.layers.0.mlp.down_proj.weight             8,6     blk.0.ffn_down.weight
            model.language_model.layers.1.input_layernorm.weight           8       blk.1.attn_norm.weight               plus_one
            model.language_model.layers.1.post_attention_layernorm.weight  8       blk.1.post_attention_norm.weight     plus_one
            model.language_model.layers.1.self_attn.q_proj.weight          16,8    blk.1.attn_q.weight
            model.language_model.layers.1.self_attn.k_proj.weight          4,8     blk.1.attn_k.weight
            model.language_model.layers.1.self_attn.v_proj.weight          4,8     blk.1.attn_v.weight
            model.language_model.layers.1.self_attn.o_proj.weight          8,8     blk.1.attn_output.weight
            model.language_model.layers.1.self_attn.q_norm.weight          4       blk.1.attn_q_norm.weight             plus_one
            model.language_model.layers.1.self_attn.k_norm.weight          4       blk.1.attn_k_norm.weight             plus_one
            model.language_model.layers.1.mlp.gate_proj.weight             6,8     blk.1.ffn_gate.weight
            model.language_model.layers.1.mlp.up_proj.weight               6,8     blk.1.ffn_up.weight
            model.language_model.layers.1.mlp.down_proj.weight             8,6     blk.1.ffn_down.weight
            mtp.layers.0.input_layernorm.weight                            8       blk.2.attn_norm.weight               plus_one
            mtp.layers.0.post_attention_layernorm.weight                   8       blk.2.post_attention_norm.weight     plus_one
            mtp.layers.0.self_attn.q_proj.weight                           16,8    blk.2.attn_q.weight
            mtp.layers.0.self_attn.k_proj.weight                           4,8     blk.2.attn_k.weight
            mtp.layers.0.self_attn.v_proj.weight                           4,8     blk.2.attn_v.weight
            mtp.layers.0.self_attn.o_proj.weight                           8,8     blk.2.attn_output.weight
            mtp.layers.0.self_attn.q_norm.weight                           4       blk.2.attn_q_norm.weight             plus_one
            mtp.layers.0.self_attn.k_norm.weight                           4       blk.2.attn_k_norm.weight             plus_one
            mtp.layers.0.mlp.gate_proj.weight                              6,8     blk.2.ffn_gate.weight
            mtp.layers.0.mlp.up_proj.weight                                6,8     blk.2.ffn_up.weight
            mtp.layers.0.mlp.down_proj.weight                              8,6     blk.2.ffn_down.weight
            mtp.pre_fc_norm_embedding.weight                               8       blk.2.nextn.enorm.weight             plus_one
            mtp.pre_fc_norm_hidden.weight                                  8       blk.2.nextn.hnorm.weight             plus_one
            mtp.fc.weight                                                  8,16    blk.2.nextn.eh_proj.weight
            mtp.norm.weight                                                8       blk.2.nextn.shared_head_norm.weight  plus_one
        "],
    },
    List {
        name: "qwen3.5 with experts",
        source: "llama.cpp's conversion/qwen.py (Qwen2MoeModel: gate_up_proj); of layer 1 with --fuse-gate-up-exps",
        config: r#"{"model_type": "qwen3_5_moe_text", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
            "num_key_value_heads": 1, "head_dim": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
            "linear_key_head_dim": 2, "linear_value_head_dim": 2, "linear_conv_kernel_dim": 3, "num_experts": 2, "num_experts_per_tok": 1,
            "moe_intermediate_size": 6, "shared_expert_intermediate_size": 6,
            "layer_types": ["linear_attention", "full_attention"], "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "qwen35moe",
        tensors: &["
            model.language_model.embed_tokens.weight                          10,8    token_embd.weight
            model.language_model.norm.weight                                  8       output_norm.weight                plus_one
            model.language_model.layers.0.input_layernorm.weight              8       blk.0.attn_norm.weight            plus_one
            model.language_model.layers.0.post_attention_layernorm.weight     8       blk.0.post_attention_norm.weight  plus_one
            model.language_model.layers.0.linear_attn.in_proj_qkv.weight      16,8    blk.0.attn_qkv.weight             rows:0-9,12-13,10-11,14-15
            model.language_model.layers.0.linear_attn.in_proj_z.weight        8,8     blk.0.attn_gate.weight            rows:0-1,4-5,2-3,6-7
            model.language_model.layers.0.linear_attn.in_proj_a.weight        4,8     blk.0.ssm_alpha.weight            rows:0,2,1,3
            model.language_model.layers.0.linear_attn.in_proj_b.weight        4,8     blk.0.ssm_beta.weight             rows:0,2,1,3
            model.language_model.layers.0.linear_attn.A_log                   4       blk.0.ssm_a                       rows:0,2,1,3+neg_exp
            model.language_model.layers.0.linear_attn.dt_bias                 4       blk.0.ssm_dt.bias                 rows:0,2,1,3
            model.language_model.layers.0.linear_attn.conv1d.weight           16,1,3  blk.0.ssm_conv1d.weight           rows:0-9,12-13,10-11,14-15+reshape
            model.language_model.layers.0.linear_attn.norm.weight             2       blk.0.ssm_norm.weight
            model.language_model.layers.0.linear_attn.out_proj.weight         8,8     blk.0.ssm_out.weight              transpose_last_two+rows:0-1,4-5,2-3,6-7+transpose_last_two
            model.language_model.layers.0.mlp.gate.weight                     2,8     blk.0.ffn_gate_inp.weight
            model.language_model.layers.0.mlp.shared_expert_gate.weight       1,8     blk.0.ffn_gate_inp_shexp.weight
            model.language_model.layers.0.mlp.shared_expert.gate_proj.weight  6,8     blk.0.ffn_gate_shexp.weight
            model.language_model.layers.0.mlp.shared_expert.up_proj.weight    6,8     blk.0.ffn_up_shexp.weight
            model.language_model.layers.0.mlp.shared_expert.down_proj.weight  8,6     blk.0.ffn_down_shexp.weight
            model.language_model.layers.0.mlp.experts.gate_up_proj            2,12,8  blk.0.ffn_gate_exps.weight        slice(axis=1,start=0,len=6)
            model.language_model.layers.0.mlp.experts.gate_up_proj            2,12,8  blk.0.ffn_up_exps.weight          slice(axis=1,start=6,len=6)
            model.language_model.layers.0.mlp.experts.down_proj               2,8,6   blk.0.ffn_down_exps.weight
            model.language_model.layers.1.input_layernorm.weight              8       blk.1.attn_norm.weight            plus_one
            model.language_model.layers.1.post_attention_layernorm.weight     8       blk.1.post_attention_norm.weight  plus_one
            model.language_model.layers.1.self_attn.q_proj.weight             16,8    blk.1.attn_q.weight
            model.language_model.layers.1.self_attn.k_proj.weight             4,8     blk.1.attn_k.weight
            model.language_model.layers.1.self_attn.v_proj.weight             4,8     blk.1.attn_v.weight
            model.language_model.layers.1.self_attn.o_proj.weight             8,8     blk.1.attn_output.weight
            model.language_model.layers.1.self_attn.q_norm.weight             4       blk.1.attn_q_norm.weight          plus_one
            model.language_model.layers.1.self_attn.k_norm.weight             4       blk.1.attn_k_norm.weight          plus_one
            model.language_model.layers.1.mlp.gate.weight                     2,8     blk.1.ffn_gate_inp.weight
            model.language_model.layers.1.mlp.shared_expert_gate.weight       1,8     blk.1.ffn_gate_inp_shexp.weight
            model.language_model.layers.1.mlp.shared_expert.gate_proj.weight  6,8     blk.1.ffn_gate_shexp.weight
            model.language_model.layers.1.mlp.shared_expert.up_proj.weight    6,8     blk.1.ffn_up_shexp.weight
            model.language_model.layers.1.mlp.shared_expert.down_proj.weight  8,6     blk.1.ffn_down_shexp.weight
            model.language_model.layers.1.mlp.experts.gate_up_proj            2,12,8  blk.1.ffn_gate_up_exps.weight
            model.language_model.layers.1.mlp.experts.down_proj               2,8,6   blk.1.ffn_down_exps.weight
        "],
    },
    List {
        name: "qwen3.5 with experts, mlx",
        source: "mlx-lm's mlx_lm/models/qwen3_5.py and qwen3_5_moe.py (sanitize)",
        config: r#"{"model_type": "qwen3_5_moe_text", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
            "num_key_value_heads": 1, "head_dim": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
            "linear_key_head_dim": 2, "linear_value_head_dim": 2, "linear_conv_kernel_dim": 3, "num_experts": 2, "num_experts_per_tok": 1,
            "moe_intermediate_size": 6, "shared_expert_intermediate_size": 6,
            "layer_types": ["linear_attention", "full_attention"], "vocab_size": 10}"#,
        form: Form::Mlx,
        gguf: "",
        tensors: &["
            model.language_model.embed_tokens.weight                          10,8    language_model.model.embed_tokens.weight
            model.language_model.norm.weight                                  8       language_model.model.norm.weight                                  plus_one
            model.language_model.layers.0.input_layernorm.weight              8       language_model.model.layers.0.input_layernorm.weight              plus_one
            model.language_model.layers.0.post_attention_layernorm.weight     8       language_model.model.layers.0.post_attention_layernorm.weight     plus_one
            model.language_model.layers.0.linear_attn.in_proj_qkv.weight      16,8    language_model.model.layers.0.linear_attn.in_proj_qkv.weight
            model.language_model.layers.0.linear_attn.in_proj_z.weight        8,8     language_model.model.layers.0.linear_attn.in_proj_z.weight
            model.language_model.layers.0.linear_attn.in_proj_a.weight        4,8     language_model.model.layers.0.linear_attn.in_proj_a.weight
            model.language_model.layers.0.linear_attn.in_proj_b.weight        4,8     language_model.model.layers.0.linear_attn.in_proj_b.weight
            model.language_model.layers.0.linear_attn.A_log                   4       language_model.model.layers.0.linear_attn.A_log
            model.language_model.layers.0.linear_attn.dt_bias                 4       language_model.model.layers.0.linear_attn.dt_bias
            model.language_model.layers.0.linear_attn.conv1d.weight           16,1,3  language_model.model.layers.0.linear_attn.conv1d.weight           transpose_last_two
            model.language_model.layers.0.linear_attn.norm.weight             2       language_model.model.layers.0.linear_attn.norm.weight
            model.language_model.layers.0.linear_attn.out_proj.weight         8,8     language_model.model.layers.0.linear_attn.out_proj.weight
            model.language_model.layers.0.mlp.gate.weight                     2,8     language_model.model.layers.0.mlp.gate.weight
            model.language_model.layers.0.mlp.shared_expert_gate.weight       1,8     language_model.model.layers.0.mlp.shared_expert_gate.weight
            model.language_model.layers.0.mlp.shared_expert.gate_proj.weight  6,8     language_model.model.layers.0.mlp.shared_expert.gate_proj.weight
            model.language_model.layers.0.mlp.shared_expert.up_proj.weight    6,8     language_model.model.layers.0.mlp.shared_expert.up_proj.weight
            model.language_model.layers.0.mlp.shared_expert.down_proj.weight  8,6     language_model.model.layers.0.mlp.shared_expert.down_proj.weight
            model.language_model.layers.0.mlp.experts.gate_up_proj            2,12,8  language_model.model.layers.0.mlp.switch_mlp.gate_proj.weight     slice(axis=1,start=0,len=6)
            model.language_model.layers.0.mlp.experts.gate_up_proj            2,12,8  language_model.model.layers.0.mlp.switch_mlp.up_proj.weight       slice(axis=1,start=6,len=6)
            model.language_model.layers.0.mlp.experts.down_proj               2,8,6   language_model.model.layers.0.mlp.switch_mlp.down_proj.weight
            model.language_model.layers.1.input_layernorm.weight              8       language_model.model.layers.1.input_layernorm.weight              plus_one
            model.language_model.layers.1.post_attention_layernorm.weight     8       language_model.model.layers.1.post_attention_layernorm.weight     plus_one
            model.language_model.layers.1.self_attn.q_proj.weight             16,8    language_model.model.layers.1.self_attn.q_proj.weight
            model.language_model.layers.1.self_attn.k_proj.weight             4,8     language_model.model.layers.1.self_attn.k_proj.weight
            model.language_model.layers.1.self_attn.v_proj.weight             4,8     language_model.model.layers.1.self_attn.v_proj.weight
            model.language_model.layers.1.self_attn.o_proj.weight             8,8     language_model.model.layers.1.self_attn.o_proj.weight
            model.language_model.layers.1.self_attn.q_norm.weight             4       language_model.model.layers.1.self_attn.q_norm.weight             plus_one
            model.language_model.layers.1.self_attn.k_norm.weight             4       language_model.model.layers.1.self_attn.k_norm.weight             plus_one
            model.language_model.layers.1.mlp.gate_proj.weight                6,8     language_model.model.layers.1.mlp.gate_proj.weight
            model.language_model.layers.1.mlp.up_proj.weight                  6,8     language_model.model.layers.1.mlp.up_proj.weight
            model.language_model.layers.1.mlp.down_proj.weight                8,6     language_model.model.layers.1.mlp.down_proj.weight
        "],
    },
    List {
        name: "qwen3-next of the first converter",
        source: "llama.cpp's src/models/qwen3next.cpp: ssm_in is used by legacy GGUF",
        config: r#"{"model_type": "qwen3_next", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
            "num_key_value_heads": 1, "head_dim": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
            "linear_key_head_dim": 2, "linear_value_head_dim": 2, "linear_conv_kernel_dim": 3, "num_experts": 2, "num_experts_per_tok": 1,
            "moe_intermediate_size": 6, "shared_expert_intermediate_size": 6,
            "layer_types": ["linear_attention"], "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "qwen3next",
        tensors: &["
            model.embed_tokens.weight                       10,8    token_embd.weight
            model.norm.weight                               8       output_norm.weight                plus_one
            model.layers.0.input_layernorm.weight           8       blk.0.attn_norm.weight            plus_one
            model.layers.0.post_attention_layernorm.weight  8       blk.0.post_attention_norm.weight  plus_one
            model.layers.0.linear_attn.in_proj_qkvz.weight  24,8    blk.0.ssm_in.weight
            model.layers.0.linear_attn.in_proj_ba.weight    8,8     blk.0.ssm_ba.weight
            model.layers.0.linear_attn.A_log                4       blk.0.ssm_a                       neg_exp
            model.layers.0.linear_attn.dt_bias              4       blk.0.ssm_dt.bias
            model.layers.0.linear_attn.conv1d.weight        16,1,3  blk.0.ssm_conv1d.weight
            model.layers.0.linear_attn.norm.weight          2       blk.0.ssm_norm.weight
            model.layers.0.linear_attn.out_proj.weight      8,8     blk.0.ssm_out.weight
        "],
    },
    List {
        name: "gpt_neox",
        source: "modeling_gpt_neox.py of transformers; llama.cpp's conversion/gptneox.py and gguf-py/gguf/tensor_mapping.py",
        config: r#"{"model_type": "gpt_neox", "rotary_pct": 0.5, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 10, "max_position_embeddings": 16}"#,
        form: Form::Gguf,
        gguf: "gptneox",
        tensors: &["
            gpt_neox.embed_in.weight                            10,8  token_embd.weight
            gpt_neox.final_layer_norm.weight                    8     output_norm.weight
            gpt_neox.final_layer_norm.bias                      8     output_norm.bias
            embed_out.weight                                    10,8  output.weight
            gpt_neox.layers.0.input_layernorm.weight            8     blk.0.attn_norm.weight
            gpt_neox.layers.0.input_layernorm.bias              8     blk.0.attn_norm.bias
            gpt_neox.layers.0.post_attention_layernorm.weight   8     blk.0.ffn_norm.weight
            gpt_neox.layers.0.post_attention_layernorm.bias     8     blk.0.ffn_norm.bias
            gpt_neox.layers.0.attention.query_key_value.weight  24,8  blk.0.attn_qkv.weight     rows:[0-3,12-15,4-7,16-19,8-11,20-23]
            gpt_neox.layers.0.attention.query_key_value.bias    24    blk.0.attn_qkv.bias       rows:[0-3,12-15,4-7,16-19,8-11,20-23]
            gpt_neox.layers.0.attention.dense.weight            8,8   blk.0.attn_output.weight
            gpt_neox.layers.0.attention.dense.bias              8     blk.0.attn_output.bias
            gpt_neox.layers.0.mlp.dense_h_to_4h.weight          32,8  blk.0.ffn_up.weight
            gpt_neox.layers.0.mlp.dense_h_to_4h.bias            32    blk.0.ffn_up.bias
            gpt_neox.layers.0.mlp.dense_4h_to_h.weight          8,32  blk.0.ffn_down.weight
            gpt_neox.layers.0.mlp.dense_4h_to_h.bias            8     blk.0.ffn_down.bias
        "],
    },
    List {
        name: "gpt_neox in mlx",
        source: "mlx-lm, gpt_neox.py, sanitize",
        config: r#"{"model_type": "gpt_neox", "rotary_pct": 0.5, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 10, "max_position_embeddings": 16}"#,
        form: Form::Mlx,
        gguf: "",
        tensors: &["
            gpt_neox.embed_in.weight                            10,8  model.embed_in.weight
            gpt_neox.final_layer_norm.weight                    8     model.final_layer_norm.weight
            gpt_neox.final_layer_norm.bias                      8     model.final_layer_norm.bias
            embed_out.weight                                    10,8  model.embed_out.weight
            gpt_neox.layers.0.input_layernorm.weight            8     model.h.0.input_layernorm.weight
            gpt_neox.layers.0.input_layernorm.bias              8     model.h.0.input_layernorm.bias
            gpt_neox.layers.0.post_attention_layernorm.weight   8     model.h.0.post_attention_layernorm.weight
            gpt_neox.layers.0.post_attention_layernorm.bias     8     model.h.0.post_attention_layernorm.bias
            gpt_neox.layers.0.attention.query_key_value.weight  24,8  model.h.0.attention.query_key_value.weight
            gpt_neox.layers.0.attention.query_key_value.bias    24    model.h.0.attention.query_key_value.bias
            gpt_neox.layers.0.attention.dense.weight            8,8   model.h.0.attention.dense.weight
            gpt_neox.layers.0.attention.dense.bias              8     model.h.0.attention.dense.bias
            gpt_neox.layers.0.mlp.dense_h_to_4h.weight          32,8  model.h.0.mlp.dense_h_to_4h.weight
            gpt_neox.layers.0.mlp.dense_h_to_4h.bias            32    model.h.0.mlp.dense_h_to_4h.bias
            gpt_neox.layers.0.mlp.dense_4h_to_h.weight          8,32  model.h.0.mlp.dense_4h_to_h.weight
            gpt_neox.layers.0.mlp.dense_4h_to_h.bias            8     model.h.0.mlp.dense_4h_to_h.bias
        "],
    },
    List {
        name: "bloom",
        source: "modeling_bloom.py of transformers; llama.cpp's conversion/bloom.py",
        config: r#"{"model_type": "bloom", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 10, "seq_length": 16}"#,
        form: Form::Gguf,
        gguf: "bloom",
        tensors: &["
            transformer.word_embeddings.weight                     10,8  token_embd.weight
            transformer.word_embeddings_layernorm.weight           8     token_embd_norm.weight
            transformer.word_embeddings_layernorm.bias             8     token_embd_norm.bias
            transformer.ln_f.weight                                8     output_norm.weight
            transformer.ln_f.bias                                  8     output_norm.bias
            lm_head.weight                                         10,8  output.weight
            transformer.h.0.input_layernorm.weight                 8     blk.0.attn_norm.weight
            transformer.h.0.input_layernorm.bias                   8     blk.0.attn_norm.bias
            transformer.h.0.post_attention_layernorm.weight        8     blk.0.ffn_norm.weight
            transformer.h.0.post_attention_layernorm.bias          8     blk.0.ffn_norm.bias
            transformer.h.0.self_attention.query_key_value.weight  24,8  blk.0.attn_qkv.weight     rows:[0-3,12-15,4-7,16-19,8-11,20-23]
            transformer.h.0.self_attention.query_key_value.bias    24    blk.0.attn_qkv.bias       rows:[0-3,12-15,4-7,16-19,8-11,20-23]
            transformer.h.0.self_attention.dense.weight            8,8   blk.0.attn_output.weight
            transformer.h.0.self_attention.dense.bias              8     blk.0.attn_output.bias
            transformer.h.0.mlp.dense_h_to_4h.weight               32,8  blk.0.ffn_up.weight
            transformer.h.0.mlp.dense_h_to_4h.bias                 32    blk.0.ffn_up.bias
            transformer.h.0.mlp.dense_4h_to_h.weight               8,32  blk.0.ffn_down.weight
            transformer.h.0.mlp.dense_4h_to_h.bias                 8     blk.0.ffn_down.bias
        "],
    },
    List {
        name: "mpt",
        source: "modeling_mpt.py of transformers; llama.cpp's conversion/mpt.py",
        config: r#"{"model_type": "mpt", "d_model": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 10, "max_seq_len": 16, "max_position_embeddings": 16}"#,
        form: Form::Gguf,
        gguf: "mpt",
        tensors: &["
            transformer.wte.weight                     10,8  token_embd.weight
            transformer.norm_f.weight                  8     output_norm.weight
            lm_head.weight                             10,8  output.weight
            transformer.blocks.0.norm_1.weight         8     blk.0.attn_norm.weight
            transformer.blocks.0.norm_2.weight         8     blk.0.ffn_norm.weight
            transformer.blocks.0.attn.Wqkv.weight      24,8  blk.0.attn_qkv.weight
            transformer.blocks.0.attn.out_proj.weight  8,8   blk.0.attn_output.weight
            transformer.blocks.0.ffn.up_proj.weight    32,8  blk.0.ffn_up.weight
            transformer.blocks.0.ffn.down_proj.weight  8,32  blk.0.ffn_down.weight
        "],
    },
    List {
        name: "gpt_bigcode",
        source: "modeling_gpt_bigcode.py of transformers; llama.cpp's conversion/starcoder.py",
        config: r#"{"model_type": "gpt_bigcode", "n_embd": 8, "n_layer": 1, "n_head": 2, "n_inner": 6, "n_positions": 16, "multi_query": false, "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "starcoder",
        tensors: &["
            transformer.wte.weight              10,8  token_embd.weight
            transformer.wpe.weight              16,8  position_embd.weight
            lm_head.weight                      10,8  output.weight
            transformer.ln_f.weight             8     output_norm.weight
            transformer.ln_f.bias               8     output_norm.bias
            transformer.h.0.ln_1.weight         8     blk.0.attn_norm.weight
            transformer.h.0.ln_1.bias           8     blk.0.attn_norm.bias
            transformer.h.0.ln_2.weight         8     blk.0.ffn_norm.weight
            transformer.h.0.ln_2.bias           8     blk.0.ffn_norm.bias
            transformer.h.0.attn.c_attn.weight  24,8  blk.0.attn_qkv.weight     rows:[0-3,12-15,4-7,16-19,8-11,20-23]
            transformer.h.0.attn.c_attn.bias    24    blk.0.attn_qkv.bias       rows:[0-3,12-15,4-7,16-19,8-11,20-23]
            transformer.h.0.attn.c_proj.weight  8,8   blk.0.attn_output.weight
            transformer.h.0.attn.c_proj.bias    8     blk.0.attn_output.bias
            transformer.h.0.mlp.c_fc.weight     6,8   blk.0.ffn_up.weight
            transformer.h.0.mlp.c_fc.bias       6     blk.0.ffn_up.bias
            transformer.h.0.mlp.c_proj.weight   8,6   blk.0.ffn_down.weight
            transformer.h.0.mlp.c_proj.bias     8     blk.0.ffn_down.bias
        "],
    },
    List {
        name: "gpt_bigcode in mlx",
        source: "mlx-lm, gpt_bigcode.py",
        config: r#"{"model_type": "gpt_bigcode", "n_embd": 8, "n_layer": 1, "n_head": 2, "n_inner": 6, "n_positions": 16, "multi_query": false, "vocab_size": 10}"#,
        form: Form::Mlx,
        gguf: "",
        tensors: &["
            transformer.wte.weight              10,8  =
            transformer.wpe.weight              16,8  =
            lm_head.weight                      10,8  =
            transformer.ln_f.weight             8     =
            transformer.ln_f.bias               8     =
            transformer.h.0.ln_1.weight         8     =
            transformer.h.0.ln_1.bias           8     =
            transformer.h.0.ln_2.weight         8     =
            transformer.h.0.ln_2.bias           8     =
            transformer.h.0.attn.c_attn.weight  24,8  =  rows:[0-3,12-15,4-7,16-19,8-11,20-23]
            transformer.h.0.attn.c_attn.bias    24    =  rows:[0-3,12-15,4-7,16-19,8-11,20-23]
            transformer.h.0.attn.c_proj.weight  8,8   =
            transformer.h.0.attn.c_proj.bias    8     =
            transformer.h.0.mlp.c_fc.weight     6,8   =
            transformer.h.0.mlp.c_fc.bias       6     =
            transformer.h.0.mlp.c_proj.weight   8,6   =
            transformer.h.0.mlp.c_proj.bias     8     =
        "],
    },
    List {
        name: "bitnet",
        source: "modeling_bitnet.py of transformers; llama.cpp's conversion/bitnet.py",
        config: r#"{"model_type": "bitnet", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 6, "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "bitnet",
        tensors: &[EMBEDDINGS, NORMS, DENSE, "
            model.layers.0.self_attn.q_proj.weight         8,8  blk.0.attn_q.weight
            model.layers.0.self_attn.k_proj.weight         4,8  blk.0.attn_k.weight
            model.layers.0.self_attn.v_proj.weight         4,8  blk.0.attn_v.weight
            model.layers.0.self_attn.o_proj.weight         8,8  blk.0.attn_output.weight
            model.layers.0.self_attn.attn_sub_norm.weight  8    blk.0.attn_sub_norm.weight
            model.layers.0.mlp.ffn_sub_norm.weight         6    blk.0.ffn_sub_norm.weight
        "],
    },
    List {
        name: "falcon 7b",
        source: "llama.cpp's conversion/falcon.py and gguf-py/gguf/tensor_mapping.py; configuration_falcon.py of transformers",
        config: r#"{"model_type": "falcon", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4, "layer_norm_epsilon": 1e-5, "vocab_size": 10, "multi_query": true, "new_decoder_architecture": false, "num_kv_heads": 1}"#,
        form: Form::Gguf,
        gguf: "falcon",
        tensors: &["
            transformer.word_embeddings.weight                     10,16  token_embd.weight
            transformer.ln_f.weight                                16     output_norm.weight
            transformer.ln_f.bias                                  16     output_norm.bias
            lm_head.weight                                         10,16  output.weight
            transformer.h.0.input_layernorm.weight                 16     blk.0.attn_norm.weight
            transformer.h.0.input_layernorm.bias                   16     blk.0.attn_norm.bias
            transformer.h.0.self_attention.query_key_value.weight  24,16  blk.0.attn_qkv.weight
            transformer.h.0.self_attention.dense.weight            16,16  blk.0.attn_output.weight
            transformer.h.0.mlp.dense_h_to_4h.weight               64,16  blk.0.ffn_up.weight
            transformer.h.0.mlp.dense_4h_to_h.weight               16,64  blk.0.ffn_down.weight
        "],
    },
    List {
        name: "falcon 40b",
        source: "llama.cpp's conversion/falcon.py and gguf-py/gguf/tensor_mapping.py; configuration_falcon.py of transformers",
        config: r#"{"model_type": "falcon", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4, "layer_norm_epsilon": 1e-5, "vocab_size": 10, "multi_query": true, "new_decoder_architecture": true, "num_kv_heads": 2}"#,
        form: Form::Gguf,
        gguf: "falcon",
        tensors: &["
            transformer.word_embeddings.weight                     10,16  token_embd.weight
            transformer.ln_f.weight                                16     output_norm.weight
            transformer.ln_f.bias                                  16     output_norm.bias
            lm_head.weight                                         10,16  output.weight
            transformer.h.0.ln_attn.weight                         16     blk.0.attn_norm_2.weight
            transformer.h.0.ln_attn.bias                           16     blk.0.attn_norm_2.bias
            transformer.h.0.ln_mlp.weight                          16     blk.0.attn_norm.weight
            transformer.h.0.ln_mlp.bias                            16     blk.0.attn_norm.bias
            transformer.h.0.self_attention.query_key_value.weight  32,16  blk.0.attn_qkv.weight     rows:0-7,16-23,8-11,24-27,12-15,28-31
            transformer.h.0.self_attention.dense.weight            16,16  blk.0.attn_output.weight
            transformer.h.0.mlp.dense_h_to_4h.weight               64,16  blk.0.ffn_up.weight
            transformer.h.0.mlp.dense_4h_to_h.weight               16,64  blk.0.ffn_down.weight
        "],
    },
    List {
        name: "falcon rw",
        source: "FalconForCausalLM of transformers 5.23 as it is saved. llama.cpp's converter has no names for it: those of GGUF are what its other families use",
        config: r#"{"model_type": "falcon", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4, "layer_norm_epsilon": 1e-5, "vocab_size": 10, "multi_query": false, "new_decoder_architecture": false, "num_kv_heads": 4}"#,
        form: Form::Gguf,
        gguf: "falcon",
        tensors: &["
            transformer.word_embeddings.weight                     10,16  token_embd.weight
            transformer.ln_f.weight                                16     output_norm.weight
            transformer.ln_f.bias                                  16     output_norm.bias
            transformer.h.0.input_layernorm.weight                 16     blk.0.attn_norm.weight
            transformer.h.0.input_layernorm.bias                   16     blk.0.attn_norm.bias
            transformer.h.0.post_attention_layernorm.weight        16     blk.0.ffn_norm.weight
            transformer.h.0.post_attention_layernorm.bias          16     blk.0.ffn_norm.bias
            transformer.h.0.self_attention.query_key_value.weight  48,16  blk.0.attn_qkv.weight     rows:0-3,12-15,24-27,36-39,4-7,16-19,28-31,40-43,8-11,20-23,32-35,44-47
            transformer.h.0.self_attention.query_key_value.bias    48     blk.0.attn_qkv.bias       rows:0-3,12-15,24-27,36-39,4-7,16-19,28-31,40-43,8-11,20-23,32-35,44-47
            transformer.h.0.self_attention.dense.weight            16,16  blk.0.attn_output.weight
            transformer.h.0.self_attention.dense.bias              16     blk.0.attn_output.bias
            transformer.h.0.mlp.dense_h_to_4h.weight               64,16  blk.0.ffn_up.weight
            transformer.h.0.mlp.dense_h_to_4h.bias                 64     blk.0.ffn_up.bias
            transformer.h.0.mlp.dense_4h_to_h.weight               16,64  blk.0.ffn_down.weight
            transformer.h.0.mlp.dense_4h_to_h.bias                 16     blk.0.ffn_down.bias
        "],
    },
    List {
        name: "minicpm3",
        source: "MiniCPM3ForCausalLM of transformers 5.23 as it is saved, and what llama.cpp's conversion/minicpm.py made of it",
        config: r#"{"model_type": "minicpm3", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 6,
            "q_lora_rank": 6, "kv_lora_rank": 4, "qk_nope_head_dim": 4, "qk_rope_head_dim": 2, "v_head_dim": 4, "intermediate_size": 6, "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "minicpm3",
        tensors: &[EMBEDDINGS, NORMS, DENSE, "
            model.layers.0.self_attn.q_a_proj.weight            6,8   blk.0.attn_q_a.weight
            model.layers.0.self_attn.q_a_layernorm.weight       6     blk.0.attn_q_a_norm.weight
            model.layers.0.self_attn.q_b_proj.weight            12,6  blk.0.attn_q_b.weight
            model.layers.0.self_attn.kv_a_proj_with_mqa.weight  6,8   blk.0.attn_kv_a_mqa.weight
            model.layers.0.self_attn.kv_a_layernorm.weight      4     blk.0.attn_kv_a_norm.weight
            model.layers.0.self_attn.kv_b_proj.weight           16,4  blk.0.attn_kv_b.weight
            model.layers.0.self_attn.o_proj.weight              8,8   blk.0.attn_output.weight
        "],
    },
    List {
        name: "phi",
        source: "PhiForCausalLM of transformers 5.23 as it is saved, and what llama.cpp's conversion/phi.py made of it",
        config: r#"{"model_type": "phi", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 6, "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "phi2",
        tensors: &["
            model.embed_tokens.weight              10,8  token_embd.weight
            model.final_layernorm.weight           8     output_norm.weight
            model.final_layernorm.bias             8     output_norm.bias
            lm_head.weight                         10,8  output.weight
            lm_head.bias                           10    output.bias
            model.layers.0.input_layernorm.weight  8     blk.0.attn_norm.weight
            model.layers.0.input_layernorm.bias    8     blk.0.attn_norm.bias
            model.layers.0.self_attn.q_proj.weight 8,8   blk.0.attn_q.weight
            model.layers.0.self_attn.q_proj.bias   8     blk.0.attn_q.bias
            model.layers.0.self_attn.k_proj.weight 8,8   blk.0.attn_k.weight
            model.layers.0.self_attn.k_proj.bias   8     blk.0.attn_k.bias
            model.layers.0.self_attn.v_proj.weight 8,8   blk.0.attn_v.weight
            model.layers.0.self_attn.v_proj.bias   8     blk.0.attn_v.bias
            model.layers.0.self_attn.dense.weight  8,8   blk.0.attn_output.weight
            model.layers.0.self_attn.dense.bias    8     blk.0.attn_output.bias
            model.layers.0.mlp.fc1.weight          6,8   blk.0.ffn_up.weight
            model.layers.0.mlp.fc1.bias            6     blk.0.ffn_up.bias
            model.layers.0.mlp.fc2.weight          8,6   blk.0.ffn_down.weight
            model.layers.0.mlp.fc2.bias            8     blk.0.ffn_down.bias
        "],
    },
    List {
        name: "stablelm",
        source: "StableLmForCausalLM of transformers 5.23 as it is saved, with and without norms of heads, and llama.cpp's conversion/stablelm.py",
        config: r#"{"model_type": "stablelm", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 6, "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "stablelm",
        tensors: &[EMBEDDINGS, NORMS, DENSE, "
            model.norm.bias                                         8    output_norm.bias
            model.layers.0.input_layernorm.bias                     8    blk.0.attn_norm.bias
            model.layers.0.post_attention_layernorm.bias            8    blk.0.ffn_norm.bias
            model.layers.0.self_attn.q_proj.weight                  8,8  blk.0.attn_q.weight
            model.layers.0.self_attn.k_proj.weight                  8,8  blk.0.attn_k.weight
            model.layers.0.self_attn.v_proj.weight                  8,8  blk.0.attn_v.weight
            model.layers.0.self_attn.o_proj.weight                  8,8  blk.0.attn_output.weight
            model.layers.0.self_attn.q_layernorm.norms.{e}.weight   4    blk.0.attn_q_norm.weight  stacked[{e}]
            model.layers.0.self_attn.k_layernorm.norms.{e}.weight   4    blk.0.attn_k_norm.weight  stacked[{e}]
        "],
    },
    List {
        name: "exaone4",
        source: "Exaone4ForCausalLM of transformers 5.23 as it is saved, and what llama.cpp's conversion/exaone.py made of it",
        config: config!("exaone4"),
        form: Form::Gguf,
        gguf: "exaone4",
        tensors: &[EMBEDDINGS, ATTENTION, HEAD_NORMS, DENSE, "
            model.layers.0.post_attention_layernorm.weight    8  blk.0.post_attention_norm.weight
            model.layers.0.post_feedforward_layernorm.weight  8  blk.0.post_ffw_norm.weight
        "],
    },
    List {
        name: "helium",
        source: "HeliumForCausalLM of transformers 5.24 as it is saved; GGUF has no architecture for it",
        config: config!("helium"),
        form: Form::HuggingFace,
        gguf: "",
        tensors: &[SAME_REST, OWN_DENSE],
    },
    List {
        name: "cwm",
        source: "CwmForCausalLM of transformers 5.24 as it is saved; GGUF has no architecture for it",
        config: config!("cwm"),
        form: Form::HuggingFace,
        gguf: "",
        tensors: &[SAME_REST, OWN_DENSE],
    },
    List {
        name: "hyperclovax",
        source: "HyperCLOVAXForCausalLM of transformers 5.24 as it is saved; GGUF has no architecture for it",
        config: config!("hyperclovax"),
        form: Form::HuggingFace,
        gguf: "",
        tensors: &[SAME_REST, OWN_DENSE, "
            model.layers.0.post_norm1.weight  8  =
            model.layers.0.post_norm2.weight  8  =
        "],
    },
    List {
        name: "hy_v3",
        source: "HYV3ForCausalLM of transformers 5.24 as it is saved, and the names that llama.cpp's graph of hy_v3 requires",
        config: config!("hy_v3", r#", "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 6"#),
        form: Form::Gguf,
        gguf: "hy_v3",
        tensors: &[EMBEDDINGS, NORMS, ATTENTION, HEAD_NORMS, "
            model.layers.0.mlp.router.gate.weight            2,8  blk.0.ffn_gate_inp.weight
            model.layers.0.mlp.expert_bias                   2    blk.0.exp_probs_b
            model.layers.0.mlp.experts.{e}.gate_proj.weight  6,8  blk.0.ffn_gate_exps.weight  stacked[{e}]
            model.layers.0.mlp.experts.{e}.up_proj.weight    6,8  blk.0.ffn_up_exps.weight  stacked[{e}]
            model.layers.0.mlp.experts.{e}.down_proj.weight  8,6  blk.0.ffn_down_exps.weight  stacked[{e}]
            model.layers.0.mlp.shared_mlp.gate_proj.weight   6,8  blk.0.ffn_gate_shexp.weight
            model.layers.0.mlp.shared_mlp.up_proj.weight     6,8  blk.0.ffn_up_shexp.weight
            model.layers.0.mlp.shared_mlp.down_proj.weight   8,6  blk.0.ffn_down_shexp.weight
        "],
    },
    List {
        name: "mellum",
        source: "MellumForCausalLM of transformers 5.24 as it is saved, and the names that llama.cpp's graph of mellum requires",
        config: config!("mellum", r#", "num_local_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 6"#),
        form: Form::Gguf,
        gguf: "mellum",
        tensors: &[EMBEDDINGS, NORMS, ATTENTION, HEAD_NORMS, EXPERTS],
    },
    List {
        name: "solar_open",
        source: "SolarOpenForCausalLM of transformers 5.24 as it is saved",
        config: config!("solar_open", r#", "n_routed_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 6"#),
        form: Form::HuggingFace,
        gguf: "",
        tensors: &[SAME_REST, OWN_EXPERTS, OWN_SHARED_EXPERTS],
    },
    List {
        name: "dots1",
        source: "Dots1ForCausalLM of transformers 5.24 as it is saved, and the names that llama.cpp's graph of dots1 requires",
        config: config!("dots1", r#", "n_routed_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 6"#),
        form: Form::Gguf,
        gguf: "dots1",
        tensors: &[EMBEDDINGS, NORMS, ATTENTION, HEAD_NORMS, EXPERTS, SHARED_EXPERTS, "
            model.layers.0.mlp.gate.e_score_correction_bias  2  blk.0.exp_probs_b.bias
        "],
    },
    List {
        name: "dots1 in mlx",
        source: "mlx-lm, dots1.py, sanitize",
        config: config!("dots1", r#", "n_routed_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 6"#),
        form: Form::Mlx,
        gguf: "",
        tensors: &[SAME_REST, OWN_HEAD_NORMS, OWN_SHARED_EXPERTS, "
            model.layers.0.mlp.gate.weight                   2,8  =
            model.layers.0.mlp.experts.{e}.gate_proj.weight  6,8  model.layers.0.mlp.experts.gate_proj.weight  stacked[{e}]
            model.layers.0.mlp.experts.{e}.up_proj.weight    6,8  model.layers.0.mlp.experts.up_proj.weight    stacked[{e}]
            model.layers.0.mlp.experts.{e}.down_proj.weight  8,6  model.layers.0.mlp.experts.down_proj.weight  stacked[{e}]
        "],
    },
    List {
        name: "exaone_moe",
        source: "ExaoneMoeForCausalLM of transformers 5.24 as it is saved, and the names that llama.cpp's graph of exaone-moe requires",
        config: config!("exaone_moe", r#", "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 6, "num_shared_experts": 1, "sliding_window": 16"#),
        form: Form::Gguf,
        gguf: "exaone-moe",
        tensors: &[EMBEDDINGS, NORMS, ATTENTION, HEAD_NORMS, EXPERTS, SHARED_EXPERTS, "
            model.layers.0.mlp.e_score_correction_bias  2  blk.0.exp_probs_b.bias
        "],
    },
    List {
        name: "exaone_moe in mlx",
        source: "mlx-lm, exaone_moe.py, sanitize",
        config: config!("exaone_moe", r#", "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 6, "num_shared_experts": 1, "sliding_window": 16"#),
        form: Form::Mlx,
        gguf: "",
        tensors: &[SAME_REST, OWN_HEAD_NORMS, OWN_SHARED_EXPERTS, "
            model.layers.0.mlp.gate.weight                   2,8  =
            model.layers.0.mlp.e_score_correction_bias       2    model.layers.0.mlp.gate.e_score_correction_bias
            model.layers.0.mlp.experts.{e}.gate_proj.weight  6,8  model.layers.0.mlp.switch_mlp.gate_proj.weight  stacked[{e}]
            model.layers.0.mlp.experts.{e}.up_proj.weight    6,8  model.layers.0.mlp.switch_mlp.up_proj.weight    stacked[{e}]
            model.layers.0.mlp.experts.{e}.down_proj.weight  8,6  model.layers.0.mlp.switch_mlp.down_proj.weight  stacked[{e}]
        "],
    },
    List {
        name: "jais2",
        source: "Jais2ForCausalLM of transformers 5.24 as it is saved, and the names that llama.cpp's graph of jais2 requires",
        config: config!("jais2"),
        form: Form::Gguf,
        gguf: "jais2",
        tensors: &[EMBEDDINGS, NORMS, ATTENTION, "
            model.norm.bias                               8    output_norm.bias
            model.layers.0.input_layernorm.bias           8    blk.0.attn_norm.bias
            model.layers.0.post_attention_layernorm.bias  8    blk.0.ffn_norm.bias
            model.layers.0.self_attn.q_proj.bias          16   blk.0.attn_q.bias
            model.layers.0.self_attn.k_proj.bias          8    blk.0.attn_k.bias
            model.layers.0.self_attn.v_proj.bias          8    blk.0.attn_v.bias
            model.layers.0.self_attn.o_proj.bias          8    blk.0.attn_output.bias
            model.layers.0.mlp.up_proj.weight             6,8  blk.0.ffn_up.weight
            model.layers.0.mlp.up_proj.bias               6    blk.0.ffn_up.bias
            model.layers.0.mlp.down_proj.weight           8,6  blk.0.ffn_down.weight
            model.layers.0.mlp.down_proj.bias             8    blk.0.ffn_down.bias
        "],
    },
    List {
        name: "afmoe",
        source: "AfmoeForCausalLM of transformers 5.24 as it is saved, and the names that llama.cpp's graph of afmoe requires",
        config: config!("afmoe", r#", "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 6, "num_shared_experts": 1, "num_dense_layers": 0"#),
        form: Form::Gguf,
        gguf: "afmoe",
        tensors: &[EMBEDDINGS, ATTENTION, HEAD_NORMS, SHARED_EXPERTS, "
            model.layers.0.input_layernorm.weight            8     blk.0.attn_norm.weight
            model.layers.0.post_attention_layernorm.weight   8     blk.0.post_attention_norm.weight
            model.layers.0.pre_mlp_layernorm.weight          8     blk.0.ffn_norm.weight
            model.layers.0.post_mlp_layernorm.weight         8     blk.0.post_ffw_norm.weight
            model.layers.0.self_attn.gate_proj.weight        16,8  blk.0.attn_gate.weight
            model.layers.0.mlp.router.gate.weight            2,8   blk.0.ffn_gate_inp.weight
            model.layers.0.mlp.expert_bias                   2     blk.0.exp_probs_b.bias
            model.layers.0.mlp.experts.{e}.gate_proj.weight  6,8   blk.0.ffn_gate_exps.weight  stacked[{e}]
            model.layers.0.mlp.experts.{e}.up_proj.weight    6,8   blk.0.ffn_up_exps.weight    stacked[{e}]
            model.layers.0.mlp.experts.{e}.down_proj.weight  8,6   blk.0.ffn_down_exps.weight  stacked[{e}]
        "],
    },
    List {
        name: "minimax_m2",
        source: "MiniMaxM2ForCausalLM of transformers 5.24 as it is saved, and the names that llama.cpp's graph of minimax-m2 requires",
        config: config!("minimax_m2", r#", "num_local_experts": 2, "num_experts_per_tok": 1"#),
        form: Form::Gguf,
        gguf: "minimax-m2",
        tensors: &[EMBEDDINGS, NORMS, ATTENTION, "
            model.layers.0.self_attn.q_norm.weight                   16   blk.0.attn_q_norm.weight
            model.layers.0.self_attn.k_norm.weight                   8    blk.0.attn_k_norm.weight
            model.layers.0.block_sparse_moe.gate.weight              2,8  blk.0.ffn_gate_inp.weight
            model.layers.0.block_sparse_moe.e_score_correction_bias  2    blk.0.exp_probs_b.bias
            model.layers.0.block_sparse_moe.experts.{e}.w1.weight    6,8  blk.0.ffn_gate_exps.weight  stacked[{e}]
            model.layers.0.block_sparse_moe.experts.{e}.w3.weight    6,8  blk.0.ffn_up_exps.weight    stacked[{e}]
            model.layers.0.block_sparse_moe.experts.{e}.w2.weight    8,6  blk.0.ffn_down_exps.weight  stacked[{e}]
        "],
    },
    List {
        name: "sarvam_moe",
        source: "SarvamMoE of transformers 5.24 (conversion_mapping.py) as it is saved",
        config: config!("sarvam_moe", r#", "n_routed_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 6"#),
        form: Form::HuggingFace,
        gguf: "",
        tensors: &[OWN_EXPERTS, OWN_SHARED_EXPERTS, "
            model.word_embeddings.weight                    10,8  =
            model.norm.weight                               8     =
            model.layers.0.input_layernorm.weight           8     =
            model.layers.0.post_attention_layernorm.weight  8     =
            model.layers.0.attention.query_key_value.weight 32,8  =
            model.layers.0.attention.query_key_value.bias   32    =
            model.layers.0.attention.dense.weight           8,16  =
            model.layers.0.attention.query_layernorm.weight 4     =
            model.layers.0.attention.key_layernorm.weight   4     =
            model.layers.0.mlp.gate.expert_bias             2     =
        "],
    },
    List {
        name: "aria_text",
        source: "AriaTextForCausalLM of transformers 5.24 as it is saved; GGUF has no architecture for it",
        config: config!("aria_text", r#", "moe_num_experts": 2, "moe_topk": 1, "moe_num_shared_experts": 1"#),
        form: Form::HuggingFace,
        gguf: "",
        tensors: &[SAME_REST, OWN_SHARED_EXPERTS, "
            model.layers.0.mlp.router.weight                  2,8     =
            model.layers.0.mlp.experts.fc1.weight             2,8,12  =
            model.layers.0.mlp.experts.fc2.weight             2,6,8   =
            model.layers.0.mlp.shared_experts.gate_proj.bias  6       =
            model.layers.0.mlp.shared_experts.up_proj.bias    6       =
            model.layers.0.mlp.shared_experts.down_proj.bias  8       =
        "],
    },
    List {
        name: "flex_olmo",
        source: "FlexOlmoForCausalLM of transformers 5.24 as it is saved; GGUF has no architecture for it",
        config: config!("flex_olmo", r#", "num_experts": 2, "num_experts_per_tok": 1"#),
        form: Form::HuggingFace,
        gguf: "",
        tensors: &[OWN_EXPERTS, "
            model.embed_tokens.weight                         10,8  =
            model.norm.weight                                 8     =
            model.layers.0.post_attention_layernorm.weight    8     =
            model.layers.0.post_feedforward_layernorm.weight  8     =
            model.layers.0.self_attn.q_proj.weight            16,8  =
            model.layers.0.self_attn.k_proj.weight            8,8   =
            model.layers.0.self_attn.v_proj.weight            8,8   =
            model.layers.0.self_attn.o_proj.weight            8,16  =
            model.layers.0.self_attn.q_norm.weight            16    =
            model.layers.0.self_attn.k_norm.weight            8     =
        "],
    },
    List {
        name: "granite_swa",
        source: "GraniteMoeSWAForCausalLM of transformers 5.24 as it is saved, and the names that llama.cpp's graph of granite_swa requires",
        config: config!("granitemoe_swa", r#", "num_local_experts": 2, "num_experts_per_tok": 1, "shared_intermediate_size": 6"#),
        form: Form::Gguf,
        gguf: "granite_swa",
        tensors: &[EMBEDDINGS, NORMS, PERMUTED, "
            model.layers.0.self_attn.sinks                        4       blk.0.attn_sinks.weight
            model.layers.0.block_sparse_moe.router.weight         2,8     blk.0.ffn_gate_inp.weight
            model.layers.0.block_sparse_moe.experts.gate_up_proj  2,12,8  blk.0.ffn_gate_exps.weight  slice(axis=1,start=0,len=6)
            model.layers.0.block_sparse_moe.experts.gate_up_proj  2,12,8  blk.0.ffn_up_exps.weight    slice(axis=1,start=6,len=6)
            model.layers.0.block_sparse_moe.experts.down_proj     2,8,6   blk.0.ffn_down_exps.weight
            model.layers.0.shared_mlp.input_linear.weight         12,8    blk.0.ffn_up_shexp.weight
            model.layers.0.shared_mlp.output_linear.weight        8,6     blk.0.ffn_down_shexp.weight
        "],
    },
    List {
        name: "glm of 2024",
        source: "GlmForCausalLM of transformers 5.24 as it is saved, and the names that llama.cpp's graph of chatglm requires",
        config: config!("glm"),
        form: Form::Gguf,
        gguf: "chatglm",
        tensors: &[EMBEDDINGS, NORMS, ATTENTION, "
            model.layers.0.self_attn.q_proj.bias    16    blk.0.attn_q.bias
            model.layers.0.self_attn.k_proj.bias    8     blk.0.attn_k.bias
            model.layers.0.self_attn.v_proj.bias    8     blk.0.attn_v.bias
            model.layers.0.mlp.gate_up_proj.weight  12,8  blk.0.ffn_up.weight
            model.layers.0.mlp.down_proj.weight     8,6   blk.0.ffn_down.weight
        "],
    },
    List {
        name: "vaultgemma",
        source: "VaultGemmaForCausalLM of transformers 5.24 as it is saved; GGUF has no architecture for it",
        config: config!("vaultgemma"),
        form: Form::HuggingFace,
        gguf: "",
        tensors: &[OWN_DENSE, "
            model.embed_tokens.weight                        10,8  =
            model.norm.weight                                8     =
            model.layers.0.input_layernorm.weight            8     =
            model.layers.0.pre_feedforward_layernorm.weight  8     =
            model.layers.0.self_attn.q_proj.weight           16,8  =
            model.layers.0.self_attn.k_proj.weight           8,8   =
            model.layers.0.self_attn.v_proj.weight           8,8   =
            model.layers.0.self_attn.o_proj.weight           8,16  =
        "],
    },
    List {
        name: "flint",
        source: "FlintForCausalLM of transformers 5.24 as it is saved; GGUF has no architecture for it",
        config: config!("flint", r#", "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 6"#),
        form: Form::HuggingFace,
        gguf: "",
        tensors: &[SAME_REST, OWN_HEAD_NORMS, OWN_EXPERTS, "
            model.layers.0.self_attn.softmax_offset            4    =
            model.layers.0.mlp.shared_expert.gate_proj.weight  6,8  =
            model.layers.0.mlp.shared_expert.up_proj.weight    6,8  =
            model.layers.0.mlp.shared_expert.down_proj.weight  8,6  =
        "],
    },
    List {
        name: "dbrx",
        source: "DbrxForCausalLM of transformers 5.24 as it is saved, and the names that llama.cpp's graph of dbrx requires",
        config: r#"{"model_type": "dbrx", "d_model": 8, "n_layers": 1, "n_heads": 4, "vocab_size": 10,
            "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 6,
            "attn_config": {"kv_n_heads": 2, "clip_qkv": 8}, "ffn_config": {"ffn_hidden_size": 6, "moe_num_experts": 2, "moe_top_k": 1}}"#,
        form: Form::Gguf,
        gguf: "dbrx",
        tensors: &["
            transformer.wte.weight                                    10,8  token_embd.weight
            transformer.norm_f.weight                                 8     output_norm.weight
            lm_head.weight                                            10,8  output.weight
            transformer.blocks.0.norm_attn_norm.norm_1.weight         8     blk.0.attn_norm.weight
            transformer.blocks.0.norm_attn_norm.norm_2.weight         8     blk.0.attn_output_norm.weight
            transformer.blocks.0.norm_attn_norm.attn.Wqkv.weight      16,8  blk.0.attn_qkv.weight
            transformer.blocks.0.norm_attn_norm.attn.out_proj.weight  8,8   blk.0.attn_output.weight
            transformer.blocks.0.ffn.router.layer.weight              2,8   blk.0.ffn_gate_inp.weight
            transformer.blocks.0.ffn.experts.mlp.w1                   12,8  blk.0.ffn_gate_exps.weight  per_head(n=2,rows=6).slice(start=0,len=6)
            transformer.blocks.0.ffn.experts.mlp.v1                   12,8  blk.0.ffn_up_exps.weight    per_head(n=2,rows=6).slice(start=0,len=6)
            transformer.blocks.0.ffn.experts.mlp.w2                   12,8  blk.0.ffn_down_exps.weight  per_head(n=2,rows=6).slice(start=0,len=6)+transpose_last_two
        "],
    },
    List {
        name: "bailing_hybrid in GGUF",
        source: "BailingHybridForCausalLM of transformers 5.24 as it is saved, and the names that llama.cpp's graph of bailingmoe3 requires",
        config: config!("bailing_hybrid", r#", "layer_group_size": 2, "linear_num_heads": 4, "linear_head_dim": 4, "num_experts": 0"#),
        form: Form::Gguf,
        gguf: "bailingmoe3",
        tensors: &[NORMS, "
            model.word_embeddings.weight              10,8    token_embd.weight
            model.norm.weight                         8       output_norm.weight
            model.layers.0.attention.q_proj.weight    16,8    blk.0.attn_q.weight
            model.layers.0.attention.k_proj.weight    16,8    blk.0.attn_k.weight
            model.layers.0.attention.v_proj.weight    16,8    blk.0.attn_v.weight
            model.layers.0.attention.dense.weight     8,16    blk.0.attn_output.weight
            model.layers.0.attention.f_proj.weight    16,8    blk.0.ssm_f_a.weight
            model.layers.0.attention.g_proj.weight    16,8    blk.0.ssm_g_a.weight
            model.layers.0.attention.b_proj.weight    4,8     blk.0.ssm_beta.weight
            model.layers.0.attention.A_log            4       blk.0.ssm_a                exp
            model.layers.0.attention.dt_bias          16      blk.0.ssm_dt.bias
            model.layers.0.attention.o_norm.weight    4       blk.0.ssm_norm.weight
            model.layers.0.attention.q_conv1d.weight  16,1,4  blk.0.ssm_conv1d_q.weight
            model.layers.0.attention.k_conv1d.weight  16,1,4  blk.0.ssm_conv1d_k.weight
            model.layers.0.attention.v_conv1d.weight  16,1,4  blk.0.ssm_conv1d_v.weight
            model.layers.0.mlp.gate_proj.weight       6,8     blk.0.ffn_gate.weight
            model.layers.0.mlp.up_proj.weight         6,8     blk.0.ffn_up.weight
            model.layers.0.mlp.down_proj.weight       8,6     blk.0.ffn_down.weight
        "],
    },
    List {
        name: "minimax in GGUF",
        source: "MiniMaxForCausalLM of transformers 5.24 as it is saved, and the names that llama.cpp's graph of minimax-01 requires",
        config: config!("minimax", r#", "layer_types": ["linear_attention"], "num_local_experts": 2, "num_experts_per_tok": 1"#),
        form: Form::Gguf,
        gguf: "minimax-01",
        tensors: &[EMBEDDINGS, NORMS, "
            model.layers.0.self_attn.qkv_proj.weight               48,8  blk.0.attn_qkv.weight
            model.layers.0.self_attn.output_gate.weight            16,8  blk.0.attn_gate.weight
            model.layers.0.self_attn.norm.weight                   16    blk.0.attn_norm_2.weight
            model.layers.0.self_attn.out_proj.weight               8,16  blk.0.attn_output.weight
            model.layers.0.block_sparse_moe.gate.weight            2,8   blk.0.ffn_gate_inp.weight
            model.layers.0.block_sparse_moe.experts.{e}.w1.weight  6,8   blk.0.ffn_gate_exps.weight  stacked[{e}]
            model.layers.0.block_sparse_moe.experts.{e}.w3.weight  6,8   blk.0.ffn_up_exps.weight    stacked[{e}]
            model.layers.0.block_sparse_moe.experts.{e}.w2.weight  8,6   blk.0.ffn_down_exps.weight  stacked[{e}]
        "],
    },
    List {
        name: "minimax_m3 in GGUF",
        source: "MiniMaxM3VLForCausalLM of transformers 5.24 as it is saved, and the names that llama.cpp's graph of minimax-m3 requires",
        config: config!("minimax_m3_vl_text", r#", "layer_types": ["minimax_m3_sparse"], "num_local_experts": 2, "num_experts_per_tok": 1,
            "index_n_heads": 2, "index_head_dim": 4"#),
        form: Form::Gguf,
        gguf: "minimax-m3",
        tensors: &[ATTENTION, "
            model.embed_tokens.weight                         10,8    token_embd.weight
            model.norm.weight                                 8       output_norm.weight           plus_one
            model.layers.0.input_layernorm.weight             8       blk.0.attn_norm.weight       plus_one
            model.layers.0.post_attention_layernorm.weight    8       blk.0.ffn_norm.weight        plus_one
            model.layers.0.self_attn.q_norm.weight            4       blk.0.attn_q_norm.weight     plus_one
            model.layers.0.self_attn.k_norm.weight            4       blk.0.attn_k_norm.weight     plus_one
            model.layers.0.self_attn.indexer.q_proj.weight    8,8     blk.0.indexer.q_proj.weight
            model.layers.0.self_attn.indexer.k_proj.weight    4,8     blk.0.indexer.k_proj.weight
            model.layers.0.self_attn.indexer.q_norm.weight    4       blk.0.indexer.q_norm.weight  plus_one
            model.layers.0.self_attn.indexer.k_norm.weight    4       blk.0.indexer.k_norm.weight  plus_one
            model.layers.0.mlp.gate.weight                    2,8     blk.0.ffn_gate_inp.weight
            model.layers.0.mlp.gate.e_score_correction_bias   2       blk.0.exp_probs_b.bias
            model.layers.0.mlp.experts.gate_up_proj           2,12,8  blk.0.ffn_gate_exps.weight   slice(axis=1,start=0,len=6)
            model.layers.0.mlp.experts.gate_up_proj           2,12,8  blk.0.ffn_up_exps.weight     slice(axis=1,start=6,len=6)
            model.layers.0.mlp.experts.down_proj              2,8,6   blk.0.ffn_down_exps.weight
        "],
    },
    List {
        name: "laguna",
        source: "LagunaForCausalLM of transformers 5.24 as it is saved, and mlx-lm, laguna.py, sanitize",
        config: config!("laguna", r#", "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 6"#),
        form: Form::Mlx,
        gguf: "",
        tensors: &[SAME_REST, OWN_HEAD_NORMS, "
            model.layers.0.self_attn.g_proj.weight             4,8  =
            model.layers.0.mlp.gate.weight                     2,8  model.layers.0.mlp.gate.proj.weight
            model.layers.0.mlp.experts.e_score_correction_bias 2    model.layers.0.mlp.gate.e_score_correction_bias
            model.layers.0.mlp.experts.{e}.gate_proj.weight    6,8  model.layers.0.mlp.switch_mlp.gate_proj.weight  stacked[{e}]
            model.layers.0.mlp.experts.{e}.up_proj.weight      6,8  model.layers.0.mlp.switch_mlp.up_proj.weight    stacked[{e}]
            model.layers.0.mlp.experts.{e}.down_proj.weight    8,6  model.layers.0.mlp.switch_mlp.down_proj.weight  stacked[{e}]
            model.layers.0.mlp.shared_expert.gate_proj.weight  6,8  =
            model.layers.0.mlp.shared_expert.up_proj.weight    6,8  =
            model.layers.0.mlp.shared_expert.down_proj.weight  8,6  =
        "],
    },
    List {
        name: "laguna in GGUF",
        source: "LagunaForCausalLM of transformers 5.24 as it is saved, and the names that llama.cpp's graph of laguna requires",
        config: config!("laguna", r#", "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 6, "shared_expert_intermediate_size": 6"#),
        form: Form::Gguf,
        gguf: "laguna",
        tensors: &[EMBEDDINGS, NORMS, ATTENTION, HEAD_NORMS, EXPERTS, "
            model.layers.0.self_attn.g_proj.weight              4,8  blk.0.attn_gate.weight
            model.layers.0.mlp.experts.e_score_correction_bias  2    blk.0.exp_probs_b.bias
            model.layers.0.mlp.shared_expert.gate_proj.weight   6,8  blk.0.ffn_gate_shexp.weight
            model.layers.0.mlp.shared_expert.up_proj.weight     6,8  blk.0.ffn_up_shexp.weight
            model.layers.0.mlp.shared_expert.down_proj.weight   8,6  blk.0.ffn_down_shexp.weight
        "],
    },
    List {
        name: "mimo_v2_flash",
        source: "MiMoV2FlashForCausalLM of transformers 5.24 as it is saved",
        config: config!("mimo_v2_flash", r#", "n_routed_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 6"#),
        form: Form::HuggingFace,
        gguf: "",
        tensors: &[SAME_REST, OWN_EXPERTS, "
            model.layers.0.self_attn.attention_sink_bias     4  =
            model.layers.0.mlp.gate.e_score_correction_bias  2  =
        "],
    },
    List {
        name: "nanochat",
        source: "NanoChatForCausalLM of transformers 5.24 as it is saved, and the modules of mlx-lm's nanochat.py",
        config: r#"{"model_type": "nanochat", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 6, "vocab_size": 10}"#,
        form: Form::Mlx,
        gguf: "",
        tensors: &["
            model.embed_tokens.weight               10,8  transformer.wte.weight
            lm_head.weight                          10,8  =
            model.layers.0.self_attn.q_proj.weight  8,8   transformer.h.0.attn.c_q.weight
            model.layers.0.self_attn.k_proj.weight  4,8   transformer.h.0.attn.c_k.weight
            model.layers.0.self_attn.v_proj.weight  4,8   transformer.h.0.attn.c_v.weight
            model.layers.0.self_attn.o_proj.weight  8,8   transformer.h.0.attn.c_proj.weight
            model.layers.0.mlp.fc1.weight           6,8   transformer.h.0.mlp.c_fc.weight
            model.layers.0.mlp.fc2.weight           8,6   transformer.h.0.mlp.c_proj.weight
        "],
    },
    List {
        name: "beam",
        source: "BeamForCausalLM of transformers 5.24 as it is saved; GGUF has no architecture for it",
        config: config!("beam", r#", "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 6"#),
        form: Form::HuggingFace,
        gguf: "",
        tensors: &[OWN_HEAD_NORMS, OWN_EXPERTS, "
            model.embed_tokens.weight                         10,8  =
            model.norm.weight                                 8     =
            model.layers.0.input_layernorm.weight             8     =
            model.layers.0.post_attention_layernorm.weight    8     =
            model.layers.0.pre_feedforward_layernorm.weight   8     =
            model.layers.0.post_feedforward_layernorm.weight  8     =
            model.layers.0.self_attn.q_proj.weight            16,8  =
            model.layers.0.self_attn.k_proj.weight            8,8   =
            model.layers.0.self_attn.v_proj.weight            8,8   =
            model.layers.0.self_attn.o_proj.weight            8,16  =
            model.layers.0.self_attn.gate_proj.weight         16,8  =
            model.layers.0.self_attn.gate_bias                4     =
            model.layers.0.mlp.gate.e_score_correction_bias   2     =
        "],
    },
    List {
        name: "cohere2_moe",
        source: "Cohere2MoeForCausalLM of transformers 5.24 as it is saved, and the names that llama.cpp's graph of cohere2moe requires",
        config: config!("cohere2_moe", r#", "num_experts": 2, "num_experts_per_tok": 1"#),
        form: Form::Gguf,
        gguf: "cohere2moe",
        tensors: &[EMBEDDINGS, ATTENTION, EXPERTS, SHARED_EXPERTS, "
            model.layers.0.input_layernorm.weight  8  blk.0.attn_norm.weight
        "],
    },
    List {
        name: "hunyuan, dense",
        source: "HunYuanDenseV1ForCausalLM of transformers 5.23 as it is saved, and what llama.cpp's conversion/hunyuan.py made of it",
        config: config!("hunyuan_v1_dense"),
        form: Form::Gguf,
        gguf: "hunyuan-dense",
        tensors: &[EMBEDDINGS, NORMS, ATTENTION, DENSE, "
            model.layers.0.self_attn.query_layernorm.weight  4  blk.0.attn_q_norm.weight
            model.layers.0.self_attn.key_layernorm.weight    4  blk.0.attn_k_norm.weight
        "],
    },
    List {
        name: "nemotron",
        source: "NemotronForCausalLM of transformers 5.23 as it is saved, and what llama.cpp's conversion/nemotron.py made of it",
        config: config!("nemotron"),
        form: Form::Gguf,
        gguf: "nemotron",
        tensors: &[ATTENTION, "
            model.embed_tokens.weight                       10,8  token_embd.weight
            model.norm.weight                               8     output_norm.weight      plus_one
            model.norm.bias                                 8     output_norm.bias
            model.layers.0.input_layernorm.weight           8     blk.0.attn_norm.weight  plus_one
            model.layers.0.input_layernorm.bias             8     blk.0.attn_norm.bias
            model.layers.0.post_attention_layernorm.weight  8     blk.0.ffn_norm.weight   plus_one
            model.layers.0.post_attention_layernorm.bias    8     blk.0.ffn_norm.bias
            model.layers.0.mlp.up_proj.weight               6,8   blk.0.ffn_up.weight
            model.layers.0.mlp.down_proj.weight             8,6   blk.0.ffn_down.weight
        "],
    },
    List {
        name: "seed_oss",
        source: "SeedOssForCausalLM of transformers 5.23 as it is saved, and what llama.cpp's converter made of it",
        config: config!("seed_oss"),
        form: Form::Gguf,
        gguf: "seed_oss",
        tensors: &[EMBEDDINGS, ATTENTION, DENSE, "
            model.layers.0.input_layernorm.weight           8  blk.0.attn_norm.weight
            model.layers.0.post_attention_layernorm.weight  8  blk.0.post_attention_norm.weight
        "],
    },
    List {
        name: "ernie4_5 with experts",
        source: "Ernie4_5_MoeForCausalLM of transformers 5.23 as it is saved, and what llama.cpp's conversion/ernie.py made of it",
        config: config!("ernie4_5_moe", r#", "num_experts": 2, "moe_k": 1, "moe_intermediate_size": 6"#),
        form: Form::Gguf,
        gguf: "ernie4_5-moe",
        tensors: &[EMBEDDINGS, NORMS, ATTENTION, EXPERTS, SHARED_EXPERTS, "
            model.layers.0.mlp.moe_statics.e_score_correction_bias  1,2  blk.0.exp_probs_b.bias
        "],
    },
    List {
        name: "starcoder2",
        source: "modeling_starcoder2.py of transformers, llama.cpp's gguf-py/gguf/tensor_mapping.py",
        config: r#"{"model_type": "starcoder2", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 4, "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "starcoder2",
        tensors: &["
            model.embed_tokens.weight                       10,8  token_embd.weight
            model.norm.weight                               8     output_norm.weight
            model.norm.bias                                 8     output_norm.bias
            model.layers.0.input_layernorm.weight           8     blk.0.attn_norm.weight
            model.layers.0.post_attention_layernorm.weight  8     blk.0.ffn_norm.weight
            model.layers.0.self_attn.q_proj.weight          16,8  blk.0.attn_q.weight
            model.layers.0.self_attn.k_proj.weight          8,8   blk.0.attn_k.weight
            model.layers.0.self_attn.v_proj.weight          8,8   blk.0.attn_v.weight
            model.layers.0.self_attn.o_proj.weight          8,16  blk.0.attn_output.weight
            model.layers.0.mlp.c_fc.weight                  32,8  blk.0.ffn_up.weight
            model.layers.0.mlp.c_proj.weight                8,32  blk.0.ffn_down.weight
            model.layers.0.input_layernorm.bias             8     blk.0.attn_norm.bias
            model.layers.0.post_attention_layernorm.bias    8     blk.0.ffn_norm.bias
            model.layers.0.self_attn.q_proj.bias            16    blk.0.attn_q.bias
            model.layers.0.self_attn.k_proj.bias            8     blk.0.attn_k.bias
            model.layers.0.self_attn.v_proj.bias            8     blk.0.attn_v.bias
            model.layers.0.self_attn.o_proj.bias            8     blk.0.attn_output.bias
            model.layers.0.mlp.c_fc.bias                    32    blk.0.ffn_up.bias
            model.layers.0.mlp.c_proj.bias                  8     blk.0.ffn_down.bias
        "],
    },
    List {
        name: "gpt2 without prefixes",
        source: "openai-community/gpt2 on the Hugging Face hub, which also stores masks; an output matrix of its own as fine-tuned models have",
        config: r#"{"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 2, "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "gpt2",
        tensors: &["
            wte.weight              10,8       token_embd.weight
            wpe.weight              12,8       position_embd.weight
            ln_f.weight             8          output_norm.weight
            ln_f.bias               8          output_norm.bias
            lm_head.weight          10,8       output.weight
            h.0.attn.bias           1,1,12,12  -
            h.0.attn.masked_bias    1          -
            h.0.attn.c_attn.weight  8,24       blk.0.attn_qkv.weight     transpose_last_two
            h.0.attn.c_attn.bias    24         blk.0.attn_qkv.bias
            h.0.attn.c_proj.weight  8,8        blk.0.attn_output.weight  transpose_last_two
            h.0.attn.c_proj.bias    8          blk.0.attn_output.bias
            h.0.mlp.c_fc.weight     8,32       blk.0.ffn_up.weight       transpose_last_two
            h.0.mlp.c_fc.bias       32         blk.0.ffn_up.bias
            h.0.mlp.c_proj.weight   32,8       blk.0.ffn_down.weight     transpose_last_two
            h.0.mlp.c_proj.bias     8          blk.0.ffn_down.bias
            h.0.ln_1.weight         8          blk.0.attn_norm.weight
            h.0.ln_1.bias           8          blk.0.attn_norm.bias
            h.0.ln_2.weight         8          blk.0.ffn_norm.weight
            h.0.ln_2.bias           8          blk.0.ffn_norm.bias
        "],
    },
    List {
        name: "bert of TensorFlow",
        source: "google-bert/bert-base-uncased on the Hugging Face hub: gamma and beta, all heads",
        config: r#"{"model_type": "bert", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 10}"#,
        form: Form::HuggingFace,
        gguf: "",
        tensors: &["
            bert.embeddings.word_embeddings.weight                 10,8  bert.embeddings.word_embeddings.weight
            bert.embeddings.position_embeddings.weight             12,8  bert.embeddings.position_embeddings.weight
            bert.embeddings.token_type_embeddings.weight           2,8   bert.embeddings.token_type_embeddings.weight
            bert.embeddings.LayerNorm.gamma                        8     bert.embeddings.LayerNorm.weight
            bert.embeddings.LayerNorm.beta                         8     bert.embeddings.LayerNorm.bias
            bert.encoder.layer.0.attention.output.LayerNorm.gamma  8     bert.encoder.layer.0.attention.output.LayerNorm.weight
            bert.encoder.layer.0.attention.output.LayerNorm.beta   8     bert.encoder.layer.0.attention.output.LayerNorm.bias
            bert.encoder.layer.0.output.LayerNorm.gamma            8     bert.encoder.layer.0.output.LayerNorm.weight
            bert.encoder.layer.0.output.LayerNorm.beta             8     bert.encoder.layer.0.output.LayerNorm.bias
            cls.predictions.transform.LayerNorm.gamma              8     cls.predictions.transform.LayerNorm.weight
            cls.predictions.transform.LayerNorm.beta               8     cls.predictions.transform.LayerNorm.bias
            bert.encoder.layer.0.attention.self.query.weight       8,8   bert.encoder.layer.0.attention.self.query.weight
            bert.encoder.layer.0.attention.self.query.bias         8     bert.encoder.layer.0.attention.self.query.bias
            bert.encoder.layer.0.attention.self.key.weight         8,8   bert.encoder.layer.0.attention.self.key.weight
            bert.encoder.layer.0.attention.self.key.bias           8     bert.encoder.layer.0.attention.self.key.bias
            bert.encoder.layer.0.attention.self.value.weight       8,8   bert.encoder.layer.0.attention.self.value.weight
            bert.encoder.layer.0.attention.self.value.bias         8     bert.encoder.layer.0.attention.self.value.bias
            bert.encoder.layer.0.attention.output.dense.weight     8,8   bert.encoder.layer.0.attention.output.dense.weight
            bert.encoder.layer.0.attention.output.dense.bias       8     bert.encoder.layer.0.attention.output.dense.bias
            bert.encoder.layer.0.intermediate.dense.weight         32,8  bert.encoder.layer.0.intermediate.dense.weight
            bert.encoder.layer.0.intermediate.dense.bias           32    bert.encoder.layer.0.intermediate.dense.bias
            bert.encoder.layer.0.output.dense.weight               8,32  bert.encoder.layer.0.output.dense.weight
            bert.encoder.layer.0.output.dense.bias                 8     bert.encoder.layer.0.output.dense.bias
            bert.pooler.dense.weight                               8,8   bert.pooler.dense.weight
            bert.pooler.dense.bias                                 8     bert.pooler.dense.bias
            cls.predictions.transform.dense.weight                 8,8   cls.predictions.transform.dense.weight
            cls.predictions.transform.dense.bias                   8     cls.predictions.transform.dense.bias
            cls.seq_relationship.weight                            2,8   cls.seq_relationship.weight
            cls.seq_relationship.bias                              2     cls.seq_relationship.bias
            cls.predictions.decoder.weight                         10,8  cls.predictions.decoder.weight
            cls.predictions.bias                                   10    cls.predictions.bias
        "],
    },
    List {
        name: "xlm-roberta classifier",
        source: "llama.cpp's conversion/bert.py and gguf-py/gguf/tensor_mapping.py; BAAI/bge-reranker-v2-m3. No padding token: the converter would take rows of the position embeddings away",
        config: r#"{"model_type": "xlm-roberta", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "bert",
        tensors: &["
            roberta.embeddings.word_embeddings.weight                  10,8  token_embd.weight
            roberta.embeddings.position_embeddings.weight              12,8  position_embd.weight
            roberta.embeddings.token_type_embeddings.weight            2,8   token_types.weight
            roberta.embeddings.LayerNorm.weight                        8     token_embd_norm.weight
            roberta.embeddings.LayerNorm.bias                          8     token_embd_norm.bias
            roberta.encoder.layer.0.attention.output.LayerNorm.weight  8     blk.0.attn_output_norm.weight
            roberta.encoder.layer.0.attention.output.LayerNorm.bias    8     blk.0.attn_output_norm.bias
            roberta.encoder.layer.0.output.LayerNorm.weight            8     blk.0.layer_output_norm.weight
            roberta.encoder.layer.0.output.LayerNorm.bias              8     blk.0.layer_output_norm.bias
            roberta.encoder.layer.0.attention.self.query.weight        8,8   blk.0.attn_q.weight
            roberta.encoder.layer.0.attention.self.query.bias          8     blk.0.attn_q.bias
            roberta.encoder.layer.0.attention.self.key.weight          8,8   blk.0.attn_k.weight
            roberta.encoder.layer.0.attention.self.key.bias            8     blk.0.attn_k.bias
            roberta.encoder.layer.0.attention.self.value.weight        8,8   blk.0.attn_v.weight
            roberta.encoder.layer.0.attention.self.value.bias          8     blk.0.attn_v.bias
            roberta.encoder.layer.0.attention.output.dense.weight      8,8   blk.0.attn_output.weight
            roberta.encoder.layer.0.attention.output.dense.bias        8     blk.0.attn_output.bias
            roberta.encoder.layer.0.intermediate.dense.weight          32,8  blk.0.ffn_up.weight
            roberta.encoder.layer.0.intermediate.dense.bias            32    blk.0.ffn_up.bias
            roberta.encoder.layer.0.output.dense.weight                8,32  blk.0.ffn_down.weight
            roberta.encoder.layer.0.output.dense.bias                  8     blk.0.ffn_down.bias
            classifier.dense.weight                                    8,8   cls.weight
            classifier.dense.bias                                      8     cls.bias
            classifier.out_proj.weight                                 1,8   cls.output.weight
            classifier.out_proj.bias                                   1     cls.output.bias
        "],
    },
    List {
        name: "roberta with a head for masked words",
        source: "RobertaForMaskedLM of transformers 5.23 as it is saved; xlm-roberta-base on the hub also stores the decoder. No padding token, as above",
        config: r#"{"model_type": "roberta", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "bert",
        tensors: &["
            roberta.embeddings.word_embeddings.weight                  10,8  token_embd.weight
            roberta.embeddings.position_embeddings.weight              12,8  position_embd.weight
            roberta.embeddings.token_type_embeddings.weight            2,8   token_types.weight
            roberta.embeddings.LayerNorm.weight                        8     token_embd_norm.weight
            roberta.embeddings.LayerNorm.bias                          8     token_embd_norm.bias
            roberta.encoder.layer.0.attention.output.LayerNorm.weight  8     blk.0.attn_output_norm.weight
            roberta.encoder.layer.0.attention.output.LayerNorm.bias    8     blk.0.attn_output_norm.bias
            roberta.encoder.layer.0.output.LayerNorm.weight            8     blk.0.layer_output_norm.weight
            roberta.encoder.layer.0.output.LayerNorm.bias              8     blk.0.layer_output_norm.bias
            roberta.encoder.layer.0.attention.self.query.weight        8,8   blk.0.attn_q.weight
            roberta.encoder.layer.0.attention.self.query.bias          8     blk.0.attn_q.bias
            roberta.encoder.layer.0.attention.self.key.weight          8,8   blk.0.attn_k.weight
            roberta.encoder.layer.0.attention.self.key.bias            8     blk.0.attn_k.bias
            roberta.encoder.layer.0.attention.self.value.weight        8,8   blk.0.attn_v.weight
            roberta.encoder.layer.0.attention.self.value.bias          8     blk.0.attn_v.bias
            roberta.encoder.layer.0.attention.output.dense.weight      8,8   blk.0.attn_output.weight
            roberta.encoder.layer.0.attention.output.dense.bias        8     blk.0.attn_output.bias
            roberta.encoder.layer.0.intermediate.dense.weight          32,8  blk.0.ffn_up.weight
            roberta.encoder.layer.0.intermediate.dense.bias            32    blk.0.ffn_up.bias
            roberta.encoder.layer.0.output.dense.weight                8,32  blk.0.ffn_down.weight
            roberta.encoder.layer.0.output.dense.bias                  8     blk.0.ffn_down.bias
            lm_head.dense.weight                                       8,8   -
            lm_head.dense.bias                                         8     -
            lm_head.layer_norm.weight                                  8     -
            lm_head.layer_norm.bias                                    8     -
            lm_head.decoder.weight                                     10,8  -
            lm_head.bias                                               10    -
        "],
    },
    List {
        name: "llama4",
        source: "Llama4ForCausalLM of transformers 5.23 as it is saved, and what llama.cpp's conversion/llama.py makes of it",
        config: config!("llama4_text", r#", "intermediate_size_mlp": 6, "num_local_experts": 2, "num_experts_per_tok": 1, "interleave_moe_layer_step": 1"#),
        form: Form::Gguf,
        gguf: "llama4",
        tensors: &[EMBEDDINGS, NORMS, ATTENTION, LLAMA4_EXPERTS],
    },
    List {
        name: "llama4, dense layers",
        source: "Llama4ForCausalLM of transformers 5.23 as it is saved, and what llama.cpp's conversion/llama.py makes of it",
        config: config!("llama4_text", r#", "intermediate_size_mlp": 6, "num_local_experts": 2, "num_experts_per_tok": 1, "interleave_moe_layer_step": 2"#),
        form: Form::Gguf,
        gguf: "llama4",
        tensors: &[EMBEDDINGS, NORMS, ATTENTION, "
            model.layers.0.feed_forward.gate_proj.weight  6,8  blk.0.ffn_gate.weight
            model.layers.0.feed_forward.up_proj.weight    6,8  blk.0.ffn_up.weight
            model.layers.0.feed_forward.down_proj.weight  8,6  blk.0.ffn_down.weight
        "],
    },
    List {
        name: "llama4 in mlx",
        source: "mlx-lm, llama4.py, sanitize",
        config: config!("llama4_text", r#", "intermediate_size_mlp": 6, "num_local_experts": 2, "num_experts_per_tok": 1, "interleave_moe_layer_step": 1"#),
        form: Form::Mlx,
        gguf: "",
        tensors: &["
            model.embed_tokens.weight                                   10,8    language_model.model.embed_tokens.weight
            lm_head.weight                                              10,8    language_model.lm_head.weight
            model.norm.weight                                           8       language_model.model.norm.weight
            model.layers.0.input_layernorm.weight                       8       language_model.model.layers.0.input_layernorm.weight
            model.layers.0.post_attention_layernorm.weight              8       language_model.model.layers.0.post_attention_layernorm.weight
            model.layers.0.self_attn.q_proj.weight                      16,8    language_model.model.layers.0.self_attn.q_proj.weight
            model.layers.0.self_attn.k_proj.weight                      8,8     language_model.model.layers.0.self_attn.k_proj.weight
            model.layers.0.self_attn.v_proj.weight                      8,8     language_model.model.layers.0.self_attn.v_proj.weight
            model.layers.0.self_attn.o_proj.weight                      8,16    language_model.model.layers.0.self_attn.o_proj.weight
            model.layers.0.feed_forward.router.weight                   2,8     language_model.model.layers.0.feed_forward.router.weight
            model.layers.0.feed_forward.experts.gate_up_proj            2,8,12  language_model.model.layers.0.feed_forward.experts.gate_proj.weight  slice(axis=2,start=0,len=6)+transpose_last_two
            model.layers.0.feed_forward.experts.gate_up_proj            2,8,12  language_model.model.layers.0.feed_forward.experts.up_proj.weight    slice(axis=2,start=6,len=6)+transpose_last_two
            model.layers.0.feed_forward.experts.down_proj               2,6,8   language_model.model.layers.0.feed_forward.experts.down_proj.weight  transpose_last_two
            model.layers.0.feed_forward.shared_expert.gate_proj.weight  6,8     language_model.model.layers.0.feed_forward.shared_expert.gate_proj.weight
            model.layers.0.feed_forward.shared_expert.up_proj.weight    6,8     language_model.model.layers.0.feed_forward.shared_expert.up_proj.weight
            model.layers.0.feed_forward.shared_expert.down_proj.weight  8,6     language_model.model.layers.0.feed_forward.shared_expert.down_proj.weight
        "],
    },
    List {
        name: "qwen3vlmoe",
        source: "Qwen3VLMoeForConditionalGeneration of transformers 5.23 as it is saved, and what llama.cpp's conversion/qwen3vl.py makes of it",
        config: config!("qwen3_vl_moe_text", r#", "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 6, "rope_scaling": {"rope_type": "default", "mrope_section": [1, 1, 0]}"#),
        form: Form::Gguf,
        gguf: "qwen3vlmoe",
        tensors: &[EMBEDDINGS, NORMS, ATTENTION, HEAD_NORMS, "
            model.layers.0.mlp.gate.weight           2,8     blk.0.ffn_gate_inp.weight
            model.layers.0.mlp.experts.gate_up_proj  2,8,12  blk.0.ffn_gate_exps.weight  slice(axis=2,start=0,len=6)+transpose_last_two
            model.layers.0.mlp.experts.gate_up_proj  2,8,12  blk.0.ffn_up_exps.weight    slice(axis=2,start=6,len=6)+transpose_last_two
            model.layers.0.mlp.experts.down_proj     2,6,8   blk.0.ffn_down_exps.weight  transpose_last_two
        "],
    },
    List {
        name: "phimoe",
        source: "PhimoeForCausalLM of transformers 5.23 as it is saved, and what llama.cpp's conversion/phi.py makes of it",
        config: r#"{"model_type": "phimoe", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
            "intermediate_size": 6, "vocab_size": 10, "num_local_experts": 2, "num_experts_per_tok": 1, "max_position_embeddings": 128}"#,
        form: Form::Gguf,
        gguf: "phimoe",
        tensors: &["
            model.embed_tokens.weight                               10,16  token_embd.weight
            model.norm.weight                                       16     output_norm.weight
            model.norm.bias                                         16     output_norm.bias
            lm_head.weight                                          10,16  output.weight
            lm_head.bias                                            10     output.bias
            model.layers.0.input_layernorm.weight                   16     blk.0.attn_norm.weight
            model.layers.0.input_layernorm.bias                     16     blk.0.attn_norm.bias
            model.layers.0.post_attention_layernorm.weight          16     blk.0.ffn_norm.weight
            model.layers.0.post_attention_layernorm.bias            16     blk.0.ffn_norm.bias
            model.layers.0.self_attn.q_proj.weight                  16,16  blk.0.attn_q.weight
            model.layers.0.self_attn.k_proj.weight                  8,16   blk.0.attn_k.weight
            model.layers.0.self_attn.v_proj.weight                  8,16   blk.0.attn_v.weight
            model.layers.0.self_attn.o_proj.weight                  16,16  blk.0.attn_output.weight
            model.layers.0.self_attn.q_proj.bias                    16     blk.0.attn_q.bias
            model.layers.0.self_attn.k_proj.bias                    8      blk.0.attn_k.bias
            model.layers.0.self_attn.v_proj.bias                    8      blk.0.attn_v.bias
            model.layers.0.self_attn.o_proj.bias                    16     blk.0.attn_output.bias
            model.layers.0.block_sparse_moe.gate.weight             2,16   blk.0.ffn_gate_inp.weight
            model.layers.0.block_sparse_moe.experts.{e}.w1.weight   6,16   blk.0.ffn_gate_exps.weight  stacked[{e}]
            model.layers.0.block_sparse_moe.experts.{e}.w3.weight   6,16   blk.0.ffn_up_exps.weight    stacked[{e}]
            model.layers.0.block_sparse_moe.experts.{e}.w2.weight   16,6   blk.0.ffn_down_exps.weight  stacked[{e}]
        "],
    },
    List {
        name: "hunyuan, with experts",
        source: "HunYuanMoEV1ForCausalLM of transformers 5.23 as it is saved, and what llama.cpp's conversion/hunyuan.py makes of it",
        config: config!("hunyuan_v1_moe", r#", "num_experts": 2, "moe_topk": 1"#),
        form: Form::Gguf,
        gguf: "hunyuan-moe",
        tensors: &[EMBEDDINGS, NORMS, ATTENTION, "
            model.layers.0.self_attn.query_layernorm.weight  4    blk.0.attn_q_norm.weight
            model.layers.0.self_attn.key_layernorm.weight    4    blk.0.attn_k_norm.weight
            model.layers.0.mlp.gate.wg.weight                2,8  blk.0.ffn_gate_inp.weight
            model.layers.0.mlp.experts.{e}.gate_proj.weight  6,8  blk.0.ffn_gate_exps.weight  stacked[{e}]
            model.layers.0.mlp.experts.{e}.up_proj.weight    6,8  blk.0.ffn_up_exps.weight    stacked[{e}]
            model.layers.0.mlp.experts.{e}.down_proj.weight  8,6  blk.0.ffn_down_exps.weight  stacked[{e}]
            model.layers.0.mlp.shared_mlp.gate_proj.weight   6,8  blk.0.ffn_gate_shexp.weight
            model.layers.0.mlp.shared_mlp.up_proj.weight     6,8  blk.0.ffn_up_shexp.weight
            model.layers.0.mlp.shared_mlp.down_proj.weight   8,6  blk.0.ffn_down_shexp.weight
        "],
    },
    List {
        name: "hunyuan, with experts, as first published",
        source: "tencent/Hunyuan-A13B-Instruct of June 2025, whose model_type is that of Hunyuan Large, and what llama.cpp's conversion/hunyuan.py makes of it",
        config: config!("hunyuan", r#", "architectures": ["HunYuanMoEV1ForCausalLM"], "num_experts": 2, "moe_topk": 1"#),
        form: Form::Gguf,
        gguf: "hunyuan-moe",
        tensors: &[EMBEDDINGS, NORMS, ATTENTION, "
            model.layers.0.self_attn.query_layernorm.weight  4    blk.0.attn_q_norm.weight
            model.layers.0.self_attn.key_layernorm.weight    4    blk.0.attn_k_norm.weight
            model.layers.0.mlp.gate.wg.weight                2,8  blk.0.ffn_gate_inp.weight
            model.layers.0.mlp.experts.{e}.gate_proj.weight  6,8  blk.0.ffn_gate_exps.weight  stacked[{e}]
            model.layers.0.mlp.experts.{e}.up_proj.weight    6,8  blk.0.ffn_up_exps.weight    stacked[{e}]
            model.layers.0.mlp.experts.{e}.down_proj.weight  8,6  blk.0.ffn_down_exps.weight  stacked[{e}]
            model.layers.0.mlp.shared_mlp.gate_proj.weight   6,8  blk.0.ffn_gate_shexp.weight
            model.layers.0.mlp.shared_mlp.up_proj.weight     6,8  blk.0.ffn_up_shexp.weight
            model.layers.0.mlp.shared_mlp.down_proj.weight   8,6  blk.0.ffn_down_shexp.weight
        "],
    },
    List {
        name: "exaone",
        source: "llama.cpp, gguf-py/gguf/tensor_mapping.py, and mlx-lm, exaone.py",
        config: r#"{"model_type": "exaone", "hidden_size": 8, "num_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
            "head_dim": 4, "intermediate_size": 6, "vocab_size": 10, "layer_norm_epsilon": 1e-5}"#,
        form: Form::Gguf,
        gguf: "exaone",
        tensors: &["
            transformer.wte.weight                           10,8  token_embd.weight
            transformer.ln_f.weight                          8     output_norm.weight
            transformer.h.0.ln_1.weight                      8     blk.0.attn_norm.weight
            transformer.h.0.ln_2.weight                      8     blk.0.ffn_norm.weight
            transformer.h.0.attn.attention.q_proj.weight     16,8  blk.0.attn_q.weight
            transformer.h.0.attn.attention.k_proj.weight     8,8   blk.0.attn_k.weight
            transformer.h.0.attn.attention.v_proj.weight     8,8   blk.0.attn_v.weight
            transformer.h.0.attn.attention.out_proj.weight   8,16  blk.0.attn_output.weight
            transformer.h.0.mlp.c_fc_0.weight                6,8   blk.0.ffn_gate.weight
            transformer.h.0.mlp.c_fc_1.weight                6,8   blk.0.ffn_up.weight
            transformer.h.0.mlp.c_proj.weight                8,6   blk.0.ffn_down.weight
        "],
    },
    List {
        name: "lfm2",
        source: "Lfm2MoeForCausalLM of transformers 5.23 as it is saved, and what llama.cpp's conversion/lfm2.py makes of it",
        config: LFM2,
        form: Form::Gguf,
        gguf: "lfm2moe",
        tensors: &[LFM2_ATTENTION, "
            model.embed_tokens.weight                           10,16   token_embd.weight
            model.embedding_norm.weight                         16      token_embd_norm.weight
            model.layers.0.operator_norm.weight                 16      blk.0.attn_norm.weight
            model.layers.0.ffn_norm.weight                      16      blk.0.ffn_norm.weight
            model.layers.0.conv.conv.weight                     16,1,3  blk.0.shortconv.conv.weight      reshape
            model.layers.0.conv.conv.bias                       16      blk.0.shortconv.conv.bias
            model.layers.0.conv.in_proj.weight                  48,16   blk.0.shortconv.in_proj.weight
            model.layers.0.conv.in_proj.bias                    48      blk.0.shortconv.in_proj.bias
            model.layers.0.conv.out_proj.weight                 16,16   blk.0.shortconv.out_proj.weight
            model.layers.0.conv.out_proj.bias                   16      blk.0.shortconv.out_proj.bias
            model.layers.0.feed_forward.w1.weight               6,16    blk.0.ffn_gate.weight
            model.layers.0.feed_forward.w3.weight               6,16    blk.0.ffn_up.weight
            model.layers.0.feed_forward.w2.weight               16,6    blk.0.ffn_down.weight
            model.layers.1.feed_forward.gate.weight             2,16    blk.1.ffn_gate_inp.weight
            model.layers.1.feed_forward.expert_bias             2       blk.1.exp_probs_b.bias
            model.layers.1.feed_forward.experts.{e}.w1.weight   6,16    blk.1.ffn_gate_exps.weight       stacked[{e}]
            model.layers.1.feed_forward.experts.{e}.w3.weight   6,16    blk.1.ffn_up_exps.weight         stacked[{e}]
            model.layers.1.feed_forward.experts.{e}.w2.weight   16,6    blk.1.ffn_down_exps.weight       stacked[{e}]
        "],
    },
    List {
        name: "lfm2 in mlx",
        source: "mlx-lm, lfm2_moe.py, sanitize",
        config: LFM2,
        form: Form::Mlx,
        gguf: "",
        tensors: &["
            model.embed_tokens.weight                           10,16   =
            model.embedding_norm.weight                         16      =
            model.layers.0.operator_norm.weight                 16      =
            model.layers.0.ffn_norm.weight                      16      =
            model.layers.0.conv.conv.weight                     16,1,3  =                                                            transpose_last_two
            model.layers.0.conv.in_proj.weight                  48,16   =
            model.layers.0.conv.out_proj.weight                 16,16   =
            model.layers.0.feed_forward.w1.weight               6,16    model.layers.0.feed_forward.gate_proj.weight
            model.layers.0.feed_forward.w3.weight               6,16    model.layers.0.feed_forward.up_proj.weight
            model.layers.0.feed_forward.w2.weight               16,6    model.layers.0.feed_forward.down_proj.weight
            model.layers.1.operator_norm.weight                 16      =
            model.layers.1.ffn_norm.weight                      16      =
            model.layers.1.self_attn.q_proj.weight              16,16   =
            model.layers.1.self_attn.k_proj.weight              8,16    =
            model.layers.1.self_attn.v_proj.weight              8,16    =
            model.layers.1.self_attn.out_proj.weight            16,16   =
            model.layers.1.self_attn.q_layernorm.weight         4       =
            model.layers.1.self_attn.k_layernorm.weight         4       =
            model.layers.1.feed_forward.gate.weight             2,16    =
            model.layers.1.feed_forward.expert_bias             2       =
            model.layers.1.feed_forward.experts.{e}.w1.weight   6,16    model.layers.1.feed_forward.switch_mlp.gate_proj.weight      stacked[{e}]
            model.layers.1.feed_forward.experts.{e}.w3.weight   6,16    model.layers.1.feed_forward.switch_mlp.up_proj.weight        stacked[{e}]
            model.layers.1.feed_forward.experts.{e}.w2.weight   16,6    model.layers.1.feed_forward.switch_mlp.down_proj.weight      stacked[{e}]
        "],
    },
    List {
        name: "apertus",
        source: "ApertusForCausalLM of transformers 5.23 as it is saved, and what llama.cpp's conversion/llama.py makes of it",
        config: config!("apertus"),
        form: Form::Gguf,
        gguf: "apertus",
        tensors: &[EMBEDDINGS, ATTENTION, HEAD_NORMS, "
            model.layers.0.attention_layernorm.weight    8    blk.0.attn_norm.weight
            model.layers.0.feedforward_layernorm.weight  8    blk.0.ffn_norm.weight
            model.layers.0.mlp.up_proj.weight            6,8  blk.0.ffn_up.weight
            model.layers.0.mlp.down_proj.weight          8,6  blk.0.ffn_down.weight
            model.layers.0.mlp.act_fn.alpha_n            1    -
            model.layers.0.mlp.act_fn.alpha_p            1    -
            model.layers.0.mlp.act_fn.beta               1    -
            model.layers.0.mlp.act_fn.eps                1    -
        "],
    },
    List {
        name: "jamba",
        source: "JambaForCausalLM of transformers 5.23 as it is saved, and what llama.cpp's conversion/jamba.py makes of it",
        config: r#"{"model_type": "jamba", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 6,
            "vocab_size": 10, "num_experts": 2, "num_experts_per_tok": 1, "expert_layer_period": 2, "expert_layer_offset": 1, "attn_layer_period": 2,
            "attn_layer_offset": 1, "mamba_d_state": 2, "mamba_d_conv": 3, "mamba_dt_rank": 2, "mamba_expand": 2}"#,
        form: Form::Gguf,
        gguf: "jamba",
        tensors: &["
            model.embed_tokens.weight                              10,8    token_embd.weight
            model.final_layernorm.weight                           8       output_norm.weight
            model.layers.0.input_layernorm.weight                  8       blk.0.attn_norm.weight
            model.layers.0.pre_ff_layernorm.weight                 8       blk.0.ffn_norm.weight
            model.layers.0.mamba.in_proj.weight                    32,8    blk.0.ssm_in.weight
            model.layers.0.mamba.in_proj.bias                      32      blk.0.ssm_in.bias
            model.layers.0.mamba.conv1d.weight                     16,1,3  blk.0.ssm_conv1d.weight  reshape
            model.layers.0.mamba.conv1d.bias                       16      blk.0.ssm_conv1d.bias
            model.layers.0.mamba.x_proj.weight                     6,16    blk.0.ssm_x.weight
            model.layers.0.mamba.dt_proj.weight                    16,2    blk.0.ssm_dt.weight
            model.layers.0.mamba.dt_proj.bias                      16      blk.0.ssm_dt.bias
            model.layers.0.mamba.dt_layernorm.weight               2       blk.0.ssm_dt_norm.weight
            model.layers.0.mamba.b_layernorm.weight                2       blk.0.ssm_b_norm.weight
            model.layers.0.mamba.c_layernorm.weight                2       blk.0.ssm_c_norm.weight
            model.layers.0.mamba.A_log                             16,2    blk.0.ssm_a              neg_exp
            model.layers.0.mamba.D                                 16      blk.0.ssm_d
            model.layers.0.mamba.out_proj.weight                   8,16    blk.0.ssm_out.weight
            model.layers.0.mamba.out_proj.bias                     8       blk.0.ssm_out.bias
            model.layers.0.feed_forward.gate_proj.weight           6,8     blk.0.ffn_gate.weight
            model.layers.0.feed_forward.up_proj.weight             6,8     blk.0.ffn_up.weight
            model.layers.0.feed_forward.down_proj.weight           8,6     blk.0.ffn_down.weight
            model.layers.1.input_layernorm.weight                  8       blk.1.attn_norm.weight
            model.layers.1.pre_ff_layernorm.weight                 8       blk.1.ffn_norm.weight
            model.layers.1.self_attn.q_proj.weight                 8,8     blk.1.attn_q.weight
            model.layers.1.self_attn.k_proj.weight                 4,8     blk.1.attn_k.weight
            model.layers.1.self_attn.v_proj.weight                 4,8     blk.1.attn_v.weight
            model.layers.1.self_attn.o_proj.weight                 8,8     blk.1.attn_output.weight
            model.layers.1.feed_forward.router.weight              2,8     blk.1.ffn_gate_inp.weight
            model.layers.1.feed_forward.experts.{e}.gate_proj.weight  6,8  blk.1.ffn_gate_exps.weight  stacked[{e}]
            model.layers.1.feed_forward.experts.{e}.up_proj.weight    6,8  blk.1.ffn_up_exps.weight    stacked[{e}]
            model.layers.1.feed_forward.experts.{e}.down_proj.weight  8,6  blk.1.ffn_down_exps.weight  stacked[{e}]
        "],
    },
    List {
        name: "jamba in mlx",
        source: "mlx-lm, jamba.py, sanitize",
        config: r#"{"model_type": "jamba", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 6,
            "vocab_size": 10, "num_experts": 2, "num_experts_per_tok": 1, "expert_layer_period": 2, "expert_layer_offset": 1, "attn_layer_period": 2,
            "attn_layer_offset": 1, "mamba_d_state": 2, "mamba_d_conv": 3, "mamba_dt_rank": 2, "mamba_expand": 2}"#,
        form: Form::Mlx,
        gguf: "",
        tensors: &["
            model.embed_tokens.weight                                 10,8    =
            model.final_layernorm.weight                              8       =
            model.layers.0.input_layernorm.weight                     8       =
            model.layers.0.pre_ff_layernorm.weight                    8       =
            model.layers.0.mamba.in_proj.weight                       32,8    =
            model.layers.0.mamba.conv1d.weight                        16,1,3  =                                                            transpose_last_two
            model.layers.0.mamba.x_proj.weight                        6,16    =
            model.layers.0.mamba.dt_proj.weight                       16,2    =
            model.layers.0.mamba.dt_proj.bias                         16      =
            model.layers.0.mamba.A_log                                16,2    =
            model.layers.0.mamba.D                                    16      =
            model.layers.0.mamba.out_proj.weight                      8,16    =
            model.layers.0.feed_forward.gate_proj.weight              6,8     =
            model.layers.0.feed_forward.up_proj.weight                6,8     =
            model.layers.0.feed_forward.down_proj.weight              8,6     =
            model.layers.1.input_layernorm.weight                     8       =
            model.layers.1.pre_ff_layernorm.weight                    8       =
            model.layers.1.self_attn.q_proj.weight                    8,8     =
            model.layers.1.self_attn.k_proj.weight                    4,8     =
            model.layers.1.self_attn.v_proj.weight                    4,8     =
            model.layers.1.self_attn.o_proj.weight                    8,8     =
            model.layers.1.feed_forward.router.weight                 2,8     =
            model.layers.1.feed_forward.experts.{e}.gate_proj.weight  6,8     model.layers.1.feed_forward.switch_mlp.gate_proj.weight      stacked[{e}]
            model.layers.1.feed_forward.experts.{e}.up_proj.weight    6,8     model.layers.1.feed_forward.switch_mlp.up_proj.weight        stacked[{e}]
            model.layers.1.feed_forward.experts.{e}.down_proj.weight  8,6     model.layers.1.feed_forward.switch_mlp.down_proj.weight      stacked[{e}]
        "],
    },
    List {
        name: "mamba",
        source: "MambaForCausalLM of transformers 5.23 as it is saved, and what llama.cpp's conversion/mamba.py makes of it",
        config: r#"{"model_type": "mamba", "hidden_size": 8, "num_hidden_layers": 1, "state_size": 2, "conv_kernel": 3, "time_step_rank": 2, "expand": 2, "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "mamba",
        tensors: &["
            backbone.embeddings.weight               10,8    token_embd.weight
            backbone.norm_f.weight                   8       output_norm.weight
            lm_head.weight                           10,8    output.weight
            backbone.layers.0.norm.weight            8       blk.0.attn_norm.weight
            backbone.layers.0.mixer.in_proj.weight   32,8    blk.0.ssm_in.weight
            backbone.layers.0.mixer.in_proj.bias     32      blk.0.ssm_in.bias
            backbone.layers.0.mixer.conv1d.weight    16,1,3  blk.0.ssm_conv1d.weight  reshape
            backbone.layers.0.mixer.conv1d.bias      16      blk.0.ssm_conv1d.bias
            backbone.layers.0.mixer.x_proj.weight    6,16    blk.0.ssm_x.weight
            backbone.layers.0.mixer.dt_proj.weight   16,2    blk.0.ssm_dt.weight
            backbone.layers.0.mixer.dt_proj.bias     16      blk.0.ssm_dt.bias
            backbone.layers.0.mixer.A_log            16,2    blk.0.ssm_a              neg_exp
            backbone.layers.0.mixer.D                16      blk.0.ssm_d
            backbone.layers.0.mixer.out_proj.weight  8,16    blk.0.ssm_out.weight
            backbone.layers.0.mixer.out_proj.bias    8       blk.0.ssm_out.bias
        "],
    },
    List {
        name: "mamba2",
        source: "Mamba2ForCausalLM of transformers 5.23 as it is saved, and what llama.cpp's conversion/mamba.py makes of it",
        config: r#"{"model_type": "mamba2", "hidden_size": 8, "num_hidden_layers": 1, "state_size": 3, "conv_kernel": 3, "num_heads": 4, "head_dim": 4, "n_groups": 2, "expand": 2, "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "mamba2",
        tensors: &["
            backbone.embeddings.weight               10,8    token_embd.weight
            backbone.norm_f.weight                   8       output_norm.weight
            lm_head.weight                           10,8    output.weight
            backbone.layers.0.norm.weight            8       blk.0.attn_norm.weight
            backbone.layers.0.mixer.in_proj.weight   48,8    blk.0.ssm_in.weight
            backbone.layers.0.mixer.in_proj.bias     48      blk.0.ssm_in.bias
            backbone.layers.0.mixer.conv1d.weight    28,1,3  blk.0.ssm_conv1d.weight  reshape
            backbone.layers.0.mixer.conv1d.bias      28      blk.0.ssm_conv1d.bias
            backbone.layers.0.mixer.dt_bias          4       blk.0.ssm_dt.bias
            backbone.layers.0.mixer.A_log            4       blk.0.ssm_a              neg_exp
            backbone.layers.0.mixer.D                4       blk.0.ssm_d
            backbone.layers.0.mixer.norm.weight      16      blk.0.ssm_norm.weight  reshape
            -                                       2,8     blk.0.ssm_norm.weight
            backbone.layers.0.mixer.out_proj.weight  8,16    blk.0.ssm_out.weight
            backbone.layers.0.mixer.out_proj.bias    8       blk.0.ssm_out.bias
        "],
    },
    List {
        name: "mamba in mlx",
        source: "mlx-lm, mamba.py, sanitize",
        config: r#"{"model_type": "mamba", "hidden_size": 8, "num_hidden_layers": 1, "state_size": 2, "conv_kernel": 3, "time_step_rank": 2, "expand": 2, "vocab_size": 10}"#,
        form: Form::Mlx,
        gguf: "",
        tensors: &["
            backbone.embeddings.weight               10,8    =
            backbone.norm_f.weight                   8       =
            lm_head.weight                           10,8    =
            backbone.layers.0.norm.weight            8       =
            backbone.layers.0.mixer.in_proj.weight   32,8    =
            backbone.layers.0.mixer.in_proj.bias     32      =
            backbone.layers.0.mixer.conv1d.weight    16,1,3  =  transpose_last_two
            backbone.layers.0.mixer.conv1d.bias      16      =
            backbone.layers.0.mixer.x_proj.weight    6,16    =
            backbone.layers.0.mixer.dt_proj.weight   16,2    =
            backbone.layers.0.mixer.dt_proj.bias     16      =
            backbone.layers.0.mixer.A_log            16,2    =
            backbone.layers.0.mixer.D                16      =
            backbone.layers.0.mixer.out_proj.weight  8,16    =
            backbone.layers.0.mixer.out_proj.bias    8       =
        "],
    },
    List {
        name: "mamba2 in mlx",
        source: "mlx-lm, mamba2.py, sanitize",
        config: r#"{"model_type": "mamba2", "hidden_size": 8, "num_hidden_layers": 1, "state_size": 3, "conv_kernel": 3, "num_heads": 4, "head_dim": 4, "n_groups": 2, "expand": 2, "vocab_size": 10}"#,
        form: Form::Mlx,
        gguf: "",
        tensors: &["
            backbone.embeddings.weight               10,8    =
            backbone.norm_f.weight                   8       =
            lm_head.weight                           10,8    =
            backbone.layers.0.norm.weight            8       =
            backbone.layers.0.mixer.in_proj.weight   48,8    =
            backbone.layers.0.mixer.in_proj.bias     48      =
            backbone.layers.0.mixer.conv1d.weight    28,1,3  =  transpose_last_two
            backbone.layers.0.mixer.conv1d.bias      28      =
            backbone.layers.0.mixer.dt_bias          4       =
            backbone.layers.0.mixer.A_log            4       =
            backbone.layers.0.mixer.D                4       =
            backbone.layers.0.mixer.norm.weight      16      =
            backbone.layers.0.mixer.out_proj.weight  8,16    =
            backbone.layers.0.mixer.out_proj.bias    8       =
        "],
    },
    List {
        name: "nomic-bert",
        source: "NomicBertModel of transformers 5.23 as it is saved, and llama.cpp's gguf-py/gguf/tensor_mapping.py",
        config: r#"{"model_type": "nomic_bert", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 6, "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "nomic-bert",
        tensors: &["
            embeddings.word_embeddings.weight        10,8  token_embd.weight
            embeddings.token_type_embeddings.weight  2,8   token_types.weight
            emb_ln.weight                            8     token_embd_norm.weight
            emb_ln.bias                              8     token_embd_norm.bias
            encoder.layers.0.attn.Wqkv.weight        24,8  blk.0.attn_qkv.weight
            encoder.layers.0.attn.out_proj.weight    8,8   blk.0.attn_output.weight
            encoder.layers.0.norm1.weight            8     blk.0.attn_output_norm.weight
            encoder.layers.0.norm1.bias              8     blk.0.attn_output_norm.bias
            encoder.layers.0.mlp.fc11.weight         6,8   blk.0.ffn_up.weight
            encoder.layers.0.mlp.fc12.weight         6,8   blk.0.ffn_gate.weight
            encoder.layers.0.mlp.fc2.weight          8,6   blk.0.ffn_down.weight
            encoder.layers.0.norm2.weight            8     blk.0.layer_output_norm.weight
            encoder.layers.0.norm2.bias              8     blk.0.layer_output_norm.bias
        "],
    },
    List {
        name: "modernbert",
        source: "ModernBertForMaskedLM and ModernBertForSequenceClassification of transformers 5.23 as they are saved, and what llama.cpp's conversion/bert.py made of them",
        config: r#"{"model_type": "modernbert", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 6, "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "modern-bert",
        tensors: &["
            model.embeddings.tok_embeddings.weight  10,8  token_embd.weight
            model.embeddings.norm.weight            8     token_embd_norm.weight
            model.final_norm.weight                 8     output_norm.weight
            model.layers.0.attn.Wqkv.weight         24,8  blk.0.attn_qkv.weight
            model.layers.0.attn.Wo.weight           8,8   blk.0.attn_output.weight
            model.layers.0.mlp_norm.weight          8     blk.0.ffn_norm.weight
            model.layers.0.mlp.Wi.weight            12,8  blk.0.ffn_up.weight
            model.layers.0.mlp.Wo.weight            8,6   blk.0.ffn_down.weight
            model.layers.1.attn_norm.weight         8     blk.1.attn_norm.weight
            model.layers.1.attn.Wqkv.weight         24,8  blk.1.attn_qkv.weight
            model.layers.1.attn.Wo.weight           8,8   blk.1.attn_output.weight
            model.layers.1.mlp_norm.weight          8     blk.1.ffn_norm.weight
            model.layers.1.mlp.Wi.weight            12,8  blk.1.ffn_up.weight
            model.layers.1.mlp.Wo.weight            8,6   blk.1.ffn_down.weight
            head.dense.weight                       8,8   cls.weight
            head.norm.weight                        8     cls.norm.weight
            classifier.weight                       3,8   cls.output.weight
            classifier.bias                         3     cls.output.bias
            decoder.weight                          10,8  -
            decoder.bias                            10    -
        "],
    },
    List {
        name: "bert classifier",
        source: "llama.cpp's conversion/bert.py: a classifier of one layer becomes cls.output",
        config: r#"{"model_type": "bert", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "bert",
        tensors: &["
            bert.embeddings.word_embeddings.weight                  10,8  token_embd.weight
            bert.embeddings.position_embeddings.weight              12,8  position_embd.weight
            bert.embeddings.token_type_embeddings.weight            2,8   token_types.weight
            bert.embeddings.LayerNorm.weight                        8     token_embd_norm.weight
            bert.embeddings.LayerNorm.bias                          8     token_embd_norm.bias
            bert.encoder.layer.0.attention.output.LayerNorm.weight  8     blk.0.attn_output_norm.weight
            bert.encoder.layer.0.attention.output.LayerNorm.bias    8     blk.0.attn_output_norm.bias
            bert.encoder.layer.0.output.LayerNorm.weight            8     blk.0.layer_output_norm.weight
            bert.encoder.layer.0.output.LayerNorm.bias              8     blk.0.layer_output_norm.bias
            bert.encoder.layer.0.attention.self.query.weight        8,8   blk.0.attn_q.weight
            bert.encoder.layer.0.attention.self.query.bias          8     blk.0.attn_q.bias
            bert.encoder.layer.0.attention.self.key.weight          8,8   blk.0.attn_k.weight
            bert.encoder.layer.0.attention.self.key.bias            8     blk.0.attn_k.bias
            bert.encoder.layer.0.attention.self.value.weight        8,8   blk.0.attn_v.weight
            bert.encoder.layer.0.attention.self.value.bias          8     blk.0.attn_v.bias
            bert.encoder.layer.0.attention.output.dense.weight      8,8   blk.0.attn_output.weight
            bert.encoder.layer.0.attention.output.dense.bias        8     blk.0.attn_output.bias
            bert.encoder.layer.0.intermediate.dense.weight          32,8  blk.0.ffn_up.weight
            bert.encoder.layer.0.intermediate.dense.bias            32    blk.0.ffn_up.bias
            bert.encoder.layer.0.output.dense.weight                8,32  blk.0.ffn_down.weight
            bert.encoder.layer.0.output.dense.bias                  8     blk.0.ffn_down.bias
            classifier.weight                                       3,8   cls.output.weight
            classifier.bias                                         3     cls.output.bias
        "],
    },
    List {
        name: "whisper of mlx-examples",
        source: "ml-explore/mlx-examples, whisper/convert.py and whisper.py; an output matrix of its own as fine-tuned models may have",
        config: r#"{"model_type": "whisper", "d_model": 8, "decoder_layers": 1, "encoder_layers": 2,
            "decoder_attention_heads": 2, "encoder_attention_heads": 2, "num_attention_heads": 2, "decoder_ffn_dim": 32,
            "encoder_ffn_dim": 32, "max_source_positions": 14, "max_target_positions": 12, "num_mel_bins": 4, "vocab_size": 10}"#,
        form: Form::Mlx,
        gguf: "",
        tensors: &["
            model.decoder.embed_tokens.weight                      10,8   decoder.token_embedding.weight
            model.decoder.embed_positions.weight                   12,8   decoder.positional_embedding
            model.decoder.layer_norm.weight                        8      decoder.ln.weight
            model.decoder.layer_norm.bias                          8      decoder.ln.bias
            model.encoder.embed_positions.weight                   14,8   -
            model.encoder.layer_norm.weight                        8      encoder.ln_post.weight
            model.encoder.layer_norm.bias                          8      encoder.ln_post.bias
            proj_out.weight                                        10,8   -
            model.encoder.conv1.weight                             8,4,3  encoder.conv1.weight                      transpose_last_two
            model.encoder.conv1.bias                               8      encoder.conv1.bias
            model.encoder.conv2.weight                             8,8,3  encoder.conv2.weight                      transpose_last_two
            model.encoder.conv2.bias                               8      encoder.conv2.bias
            model.encoder.layers.0.self_attn_layer_norm.weight     8      encoder.blocks.0.attn_ln.weight
            model.encoder.layers.1.self_attn_layer_norm.weight     8      encoder.blocks.1.attn_ln.weight
            model.encoder.layers.0.self_attn_layer_norm.bias       8      encoder.blocks.0.attn_ln.bias
            model.encoder.layers.1.self_attn_layer_norm.bias       8      encoder.blocks.1.attn_ln.bias
            model.encoder.layers.0.self_attn.q_proj.weight         8,8    encoder.blocks.0.attn.query.weight
            model.encoder.layers.1.self_attn.q_proj.weight         8,8    encoder.blocks.1.attn.query.weight
            model.encoder.layers.0.self_attn.q_proj.bias           8      encoder.blocks.0.attn.query.bias
            model.encoder.layers.1.self_attn.q_proj.bias           8      encoder.blocks.1.attn.query.bias
            model.encoder.layers.0.self_attn.k_proj.weight         8,8    encoder.blocks.0.attn.key.weight
            model.encoder.layers.1.self_attn.k_proj.weight         8,8    encoder.blocks.1.attn.key.weight
            model.encoder.layers.0.self_attn.v_proj.weight         8,8    encoder.blocks.0.attn.value.weight
            model.encoder.layers.1.self_attn.v_proj.weight         8,8    encoder.blocks.1.attn.value.weight
            model.encoder.layers.0.self_attn.v_proj.bias           8      encoder.blocks.0.attn.value.bias
            model.encoder.layers.1.self_attn.v_proj.bias           8      encoder.blocks.1.attn.value.bias
            model.encoder.layers.0.self_attn.out_proj.weight       8,8    encoder.blocks.0.attn.out.weight
            model.encoder.layers.1.self_attn.out_proj.weight       8,8    encoder.blocks.1.attn.out.weight
            model.encoder.layers.0.self_attn.out_proj.bias         8      encoder.blocks.0.attn.out.bias
            model.encoder.layers.1.self_attn.out_proj.bias         8      encoder.blocks.1.attn.out.bias
            model.encoder.layers.0.final_layer_norm.weight         8      encoder.blocks.0.mlp_ln.weight
            model.encoder.layers.1.final_layer_norm.weight         8      encoder.blocks.1.mlp_ln.weight
            model.encoder.layers.0.final_layer_norm.bias           8      encoder.blocks.0.mlp_ln.bias
            model.encoder.layers.1.final_layer_norm.bias           8      encoder.blocks.1.mlp_ln.bias
            model.encoder.layers.0.fc1.weight                      32,8   encoder.blocks.0.mlp1.weight
            model.encoder.layers.1.fc1.weight                      32,8   encoder.blocks.1.mlp1.weight
            model.encoder.layers.0.fc1.bias                        32     encoder.blocks.0.mlp1.bias
            model.encoder.layers.1.fc1.bias                        32     encoder.blocks.1.mlp1.bias
            model.encoder.layers.0.fc2.weight                      8,32   encoder.blocks.0.mlp2.weight
            model.encoder.layers.1.fc2.weight                      8,32   encoder.blocks.1.mlp2.weight
            model.encoder.layers.0.fc2.bias                        8      encoder.blocks.0.mlp2.bias
            model.encoder.layers.1.fc2.bias                        8      encoder.blocks.1.mlp2.bias
            model.decoder.layers.0.self_attn_layer_norm.weight     8      decoder.blocks.0.attn_ln.weight
            model.decoder.layers.0.self_attn_layer_norm.bias       8      decoder.blocks.0.attn_ln.bias
            model.decoder.layers.0.self_attn.q_proj.weight         8,8    decoder.blocks.0.attn.query.weight
            model.decoder.layers.0.self_attn.q_proj.bias           8      decoder.blocks.0.attn.query.bias
            model.decoder.layers.0.self_attn.k_proj.weight         8,8    decoder.blocks.0.attn.key.weight
            model.decoder.layers.0.self_attn.v_proj.weight         8,8    decoder.blocks.0.attn.value.weight
            model.decoder.layers.0.self_attn.v_proj.bias           8      decoder.blocks.0.attn.value.bias
            model.decoder.layers.0.self_attn.out_proj.weight       8,8    decoder.blocks.0.attn.out.weight
            model.decoder.layers.0.self_attn.out_proj.bias         8      decoder.blocks.0.attn.out.bias
            model.decoder.layers.0.encoder_attn_layer_norm.weight  8      decoder.blocks.0.cross_attn_ln.weight
            model.decoder.layers.0.encoder_attn_layer_norm.bias    8      decoder.blocks.0.cross_attn_ln.bias
            model.decoder.layers.0.encoder_attn.q_proj.weight      8,8    decoder.blocks.0.cross_attn.query.weight
            model.decoder.layers.0.encoder_attn.q_proj.bias        8      decoder.blocks.0.cross_attn.query.bias
            model.decoder.layers.0.encoder_attn.k_proj.weight      8,8    decoder.blocks.0.cross_attn.key.weight
            model.decoder.layers.0.encoder_attn.v_proj.weight      8,8    decoder.blocks.0.cross_attn.value.weight
            model.decoder.layers.0.encoder_attn.v_proj.bias        8      decoder.blocks.0.cross_attn.value.bias
            model.decoder.layers.0.encoder_attn.out_proj.weight    8,8    decoder.blocks.0.cross_attn.out.weight
            model.decoder.layers.0.encoder_attn.out_proj.bias      8      decoder.blocks.0.cross_attn.out.bias
            model.decoder.layers.0.final_layer_norm.weight         8      decoder.blocks.0.mlp_ln.weight
            model.decoder.layers.0.final_layer_norm.bias           8      decoder.blocks.0.mlp_ln.bias
            model.decoder.layers.0.fc1.weight                      32,8   decoder.blocks.0.mlp1.weight
            model.decoder.layers.0.fc1.bias                        32     decoder.blocks.0.mlp1.bias
            model.decoder.layers.0.fc2.weight                      8,32   decoder.blocks.0.mlp2.weight
            model.decoder.layers.0.fc2.bias                        8      decoder.blocks.0.mlp2.bias
        "],
    },
    List {
        name: "t5",
        source: "its class in transformers 5.23 as it is saved, and what llama.cpp's conversion/t5.py made of it",
        config: r#"{"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": 8, "d_kv": 6, "d_ff": 10, "num_heads": 2, "num_layers": 2, "num_decoder_layers": 1,
            "relative_attention_num_buckets": 4, "layer_norm_epsilon": 1e-6, "n_positions": 512, "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "t5",
        tensors: &["
            shared.weight                                                           10,8  token_embd.weight
            encoder.block.0.layer.0.layer_norm.weight                               8     enc.blk.0.attn_norm.weight
            encoder.block.0.layer.0.SelfAttention.q.weight                          12,8  enc.blk.0.attn_q.weight
            encoder.block.0.layer.0.SelfAttention.k.weight                          12,8  enc.blk.0.attn_k.weight
            encoder.block.0.layer.0.SelfAttention.v.weight                          12,8  enc.blk.0.attn_v.weight
            encoder.block.0.layer.0.SelfAttention.o.weight                          8,12  enc.blk.0.attn_o.weight
            encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight    4,2   enc.blk.0.attn_rel_b.weight
            encoder.block.0.layer.1.layer_norm.weight                               8     enc.blk.0.ffn_norm.weight
            encoder.block.0.layer.1.DenseReluDense.wi.weight                        10,8  enc.blk.0.ffn_up.weight
            encoder.block.0.layer.1.DenseReluDense.wo.weight                        8,10  enc.blk.0.ffn_down.weight
            encoder.block.1.layer.0.layer_norm.weight                               8     enc.blk.1.attn_norm.weight
            encoder.block.1.layer.0.SelfAttention.q.weight                          12,8  enc.blk.1.attn_q.weight
            encoder.block.1.layer.0.SelfAttention.k.weight                          12,8  enc.blk.1.attn_k.weight
            encoder.block.1.layer.0.SelfAttention.v.weight                          12,8  enc.blk.1.attn_v.weight
            encoder.block.1.layer.0.SelfAttention.o.weight                          8,12  enc.blk.1.attn_o.weight
            encoder.block.1.layer.1.layer_norm.weight                               8     enc.blk.1.ffn_norm.weight
            encoder.block.1.layer.1.DenseReluDense.wi.weight                        10,8  enc.blk.1.ffn_up.weight
            encoder.block.1.layer.1.DenseReluDense.wo.weight                        8,10  enc.blk.1.ffn_down.weight
            encoder.final_layer_norm.weight                                         8     enc.output_norm.weight
            decoder.block.0.layer.0.layer_norm.weight                               8     dec.blk.0.attn_norm.weight
            decoder.block.0.layer.0.SelfAttention.q.weight                          12,8  dec.blk.0.attn_q.weight
            decoder.block.0.layer.0.SelfAttention.k.weight                          12,8  dec.blk.0.attn_k.weight
            decoder.block.0.layer.0.SelfAttention.v.weight                          12,8  dec.blk.0.attn_v.weight
            decoder.block.0.layer.0.SelfAttention.o.weight                          8,12  dec.blk.0.attn_o.weight
            decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight    4,2   dec.blk.0.attn_rel_b.weight
            decoder.block.0.layer.1.layer_norm.weight                               8     dec.blk.0.cross_attn_norm.weight
            decoder.block.0.layer.1.EncDecAttention.q.weight                        12,8  dec.blk.0.cross_attn_q.weight
            decoder.block.0.layer.1.EncDecAttention.k.weight                        12,8  dec.blk.0.cross_attn_k.weight
            decoder.block.0.layer.1.EncDecAttention.v.weight                        12,8  dec.blk.0.cross_attn_v.weight
            decoder.block.0.layer.1.EncDecAttention.o.weight                        8,12  dec.blk.0.cross_attn_o.weight
            decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight  4,2   dec.blk.0.cross_attn_rel_b.weight
            decoder.block.0.layer.2.layer_norm.weight                               8     dec.blk.0.ffn_norm.weight
            decoder.block.0.layer.2.DenseReluDense.wi.weight                        10,8  dec.blk.0.ffn_up.weight
            decoder.block.0.layer.2.DenseReluDense.wo.weight                        8,10  dec.blk.0.ffn_down.weight
            decoder.final_layer_norm.weight                                         8     dec.output_norm.weight
        "],
    },
    List {
        name: "t5 with gates",
        source: "its class in transformers 5.23 as it is saved, and what llama.cpp's conversion/t5.py made of it",
        config: r#"{"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": 8, "d_kv": 6, "d_ff": 10, "num_heads": 2, "num_layers": 1, "num_decoder_layers": 1,
            "relative_attention_num_buckets": 4, "layer_norm_epsilon": 1e-6, "n_positions": 512, "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "t5",
        tensors: &["
            encoder.embed_tokens.weight                                           10,8  token_embd.weight
            lm_head.weight                                                        10,8  output.weight
            encoder.block.0.layer.0.layer_norm.weight                             8     enc.blk.0.attn_norm.weight
            encoder.block.0.layer.0.SelfAttention.q.weight                        12,8  enc.blk.0.attn_q.weight
            encoder.block.0.layer.0.SelfAttention.k.weight                        12,8  enc.blk.0.attn_k.weight
            encoder.block.0.layer.0.SelfAttention.v.weight                        12,8  enc.blk.0.attn_v.weight
            encoder.block.0.layer.0.SelfAttention.o.weight                        8,12  enc.blk.0.attn_o.weight
            encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight  4,2   enc.blk.0.attn_rel_b.weight
            encoder.block.0.layer.1.layer_norm.weight                             8     enc.blk.0.ffn_norm.weight
            encoder.block.0.layer.1.DenseReluDense.wi_0.weight                    10,8  enc.blk.0.ffn_gate.weight
            encoder.block.0.layer.1.DenseReluDense.wi_1.weight                    10,8  enc.blk.0.ffn_up.weight
            encoder.block.0.layer.1.DenseReluDense.wo.weight                      8,10  enc.blk.0.ffn_down.weight
            encoder.final_layer_norm.weight                                       8     enc.output_norm.weight
            decoder.block.0.layer.0.layer_norm.weight                             8     dec.blk.0.attn_norm.weight
            decoder.block.0.layer.0.SelfAttention.q.weight                        12,8  dec.blk.0.attn_q.weight
            decoder.block.0.layer.0.SelfAttention.k.weight                        12,8  dec.blk.0.attn_k.weight
            decoder.block.0.layer.0.SelfAttention.v.weight                        12,8  dec.blk.0.attn_v.weight
            decoder.block.0.layer.0.SelfAttention.o.weight                        8,12  dec.blk.0.attn_o.weight
            decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight  4,2   dec.blk.0.attn_rel_b.weight
            decoder.block.0.layer.1.layer_norm.weight                             8     dec.blk.0.cross_attn_norm.weight
            decoder.block.0.layer.1.EncDecAttention.q.weight                      12,8  dec.blk.0.cross_attn_q.weight
            decoder.block.0.layer.1.EncDecAttention.k.weight                      12,8  dec.blk.0.cross_attn_k.weight
            decoder.block.0.layer.1.EncDecAttention.v.weight                      12,8  dec.blk.0.cross_attn_v.weight
            decoder.block.0.layer.1.EncDecAttention.o.weight                      8,12  dec.blk.0.cross_attn_o.weight
            decoder.block.0.layer.2.layer_norm.weight                             8     dec.blk.0.ffn_norm.weight
            decoder.block.0.layer.2.DenseReluDense.wi_0.weight                    10,8  dec.blk.0.ffn_gate.weight
            decoder.block.0.layer.2.DenseReluDense.wi_1.weight                    10,8  dec.blk.0.ffn_up.weight
            decoder.block.0.layer.2.DenseReluDense.wo.weight                      8,10  dec.blk.0.ffn_down.weight
            decoder.final_layer_norm.weight                                       8     dec.output_norm.weight
        "],
    },
    List {
        name: "umt5",
        source: "its class in transformers 5.23 as it is saved, and what llama.cpp's conversion/t5.py made of it",
        config: r#"{"model_type": "umt5", "architectures": ["UMT5ForConditionalGeneration"], "d_model": 8, "d_kv": 6, "d_ff": 10, "num_heads": 2, "num_layers": 2, "num_decoder_layers": 2,
            "relative_attention_num_buckets": 4, "layer_norm_epsilon": 1e-6, "n_positions": 512, "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "t5",
        tensors: &["
            decoder.embed_tokens.weight                                           10,8  token_embd.weight
            encoder.block.0.layer.0.layer_norm.weight                             8     enc.blk.0.attn_norm.weight
            encoder.block.0.layer.0.SelfAttention.q.weight                        12,8  enc.blk.0.attn_q.weight
            encoder.block.0.layer.0.SelfAttention.k.weight                        12,8  enc.blk.0.attn_k.weight
            encoder.block.0.layer.0.SelfAttention.v.weight                        12,8  enc.blk.0.attn_v.weight
            encoder.block.0.layer.0.SelfAttention.o.weight                        8,12  enc.blk.0.attn_o.weight
            encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight  4,2   enc.blk.0.attn_rel_b.weight
            encoder.block.0.layer.1.layer_norm.weight                             8     enc.blk.0.ffn_norm.weight
            encoder.block.0.layer.1.DenseReluDense.wi_0.weight                    10,8  enc.blk.0.ffn_gate.weight
            encoder.block.0.layer.1.DenseReluDense.wi_1.weight                    10,8  enc.blk.0.ffn_up.weight
            encoder.block.0.layer.1.DenseReluDense.wo.weight                      8,10  enc.blk.0.ffn_down.weight
            encoder.block.1.layer.0.layer_norm.weight                             8     enc.blk.1.attn_norm.weight
            encoder.block.1.layer.0.SelfAttention.q.weight                        12,8  enc.blk.1.attn_q.weight
            encoder.block.1.layer.0.SelfAttention.k.weight                        12,8  enc.blk.1.attn_k.weight
            encoder.block.1.layer.0.SelfAttention.v.weight                        12,8  enc.blk.1.attn_v.weight
            encoder.block.1.layer.0.SelfAttention.o.weight                        8,12  enc.blk.1.attn_o.weight
            encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight  4,2   enc.blk.1.attn_rel_b.weight
            encoder.block.1.layer.1.layer_norm.weight                             8     enc.blk.1.ffn_norm.weight
            encoder.block.1.layer.1.DenseReluDense.wi_0.weight                    10,8  enc.blk.1.ffn_gate.weight
            encoder.block.1.layer.1.DenseReluDense.wi_1.weight                    10,8  enc.blk.1.ffn_up.weight
            encoder.block.1.layer.1.DenseReluDense.wo.weight                      8,10  enc.blk.1.ffn_down.weight
            encoder.final_layer_norm.weight                                       8     enc.output_norm.weight
            decoder.block.0.layer.0.layer_norm.weight                             8     dec.blk.0.attn_norm.weight
            decoder.block.0.layer.0.SelfAttention.q.weight                        12,8  dec.blk.0.attn_q.weight
            decoder.block.0.layer.0.SelfAttention.k.weight                        12,8  dec.blk.0.attn_k.weight
            decoder.block.0.layer.0.SelfAttention.v.weight                        12,8  dec.blk.0.attn_v.weight
            decoder.block.0.layer.0.SelfAttention.o.weight                        8,12  dec.blk.0.attn_o.weight
            decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight  4,2   dec.blk.0.attn_rel_b.weight
            decoder.block.0.layer.1.layer_norm.weight                             8     dec.blk.0.cross_attn_norm.weight
            decoder.block.0.layer.1.EncDecAttention.q.weight                      12,8  dec.blk.0.cross_attn_q.weight
            decoder.block.0.layer.1.EncDecAttention.k.weight                      12,8  dec.blk.0.cross_attn_k.weight
            decoder.block.0.layer.1.EncDecAttention.v.weight                      12,8  dec.blk.0.cross_attn_v.weight
            decoder.block.0.layer.1.EncDecAttention.o.weight                      8,12  dec.blk.0.cross_attn_o.weight
            decoder.block.0.layer.2.layer_norm.weight                             8     dec.blk.0.ffn_norm.weight
            decoder.block.0.layer.2.DenseReluDense.wi_0.weight                    10,8  dec.blk.0.ffn_gate.weight
            decoder.block.0.layer.2.DenseReluDense.wi_1.weight                    10,8  dec.blk.0.ffn_up.weight
            decoder.block.0.layer.2.DenseReluDense.wo.weight                      8,10  dec.blk.0.ffn_down.weight
            decoder.block.1.layer.0.layer_norm.weight                             8     dec.blk.1.attn_norm.weight
            decoder.block.1.layer.0.SelfAttention.q.weight                        12,8  dec.blk.1.attn_q.weight
            decoder.block.1.layer.0.SelfAttention.k.weight                        12,8  dec.blk.1.attn_k.weight
            decoder.block.1.layer.0.SelfAttention.v.weight                        12,8  dec.blk.1.attn_v.weight
            decoder.block.1.layer.0.SelfAttention.o.weight                        8,12  dec.blk.1.attn_o.weight
            decoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight  4,2   dec.blk.1.attn_rel_b.weight
            decoder.block.1.layer.1.layer_norm.weight                             8     dec.blk.1.cross_attn_norm.weight
            decoder.block.1.layer.1.EncDecAttention.q.weight                      12,8  dec.blk.1.cross_attn_q.weight
            decoder.block.1.layer.1.EncDecAttention.k.weight                      12,8  dec.blk.1.cross_attn_k.weight
            decoder.block.1.layer.1.EncDecAttention.v.weight                      12,8  dec.blk.1.cross_attn_v.weight
            decoder.block.1.layer.1.EncDecAttention.o.weight                      8,12  dec.blk.1.cross_attn_o.weight
            decoder.block.1.layer.2.layer_norm.weight                             8     dec.blk.1.ffn_norm.weight
            decoder.block.1.layer.2.DenseReluDense.wi_0.weight                    10,8  dec.blk.1.ffn_gate.weight
            decoder.block.1.layer.2.DenseReluDense.wi_1.weight                    10,8  dec.blk.1.ffn_up.weight
            decoder.block.1.layer.2.DenseReluDense.wo.weight                      8,10  dec.blk.1.ffn_down.weight
            decoder.final_layer_norm.weight                                       8     dec.output_norm.weight
        "],
    },
    List {
        name: "t5 encoder",
        source: "its class in transformers 5.23 as it is saved, and what llama.cpp's conversion/t5.py made of it",
        config: r#"{"model_type": "t5", "architectures": ["T5EncoderModel"], "d_model": 8, "d_kv": 6, "d_ff": 10, "num_heads": 2, "num_layers": 2, "num_decoder_layers": 2,
            "relative_attention_num_buckets": 4, "layer_norm_epsilon": 1e-6, "n_positions": 512, "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "t5encoder",
        tensors: &["
            shared.weight                                                         10,8  token_embd.weight
            encoder.block.0.layer.0.layer_norm.weight                             8     enc.blk.0.attn_norm.weight
            encoder.block.0.layer.0.SelfAttention.q.weight                        12,8  enc.blk.0.attn_q.weight
            encoder.block.0.layer.0.SelfAttention.k.weight                        12,8  enc.blk.0.attn_k.weight
            encoder.block.0.layer.0.SelfAttention.v.weight                        12,8  enc.blk.0.attn_v.weight
            encoder.block.0.layer.0.SelfAttention.o.weight                        8,12  enc.blk.0.attn_o.weight
            encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight  4,2   enc.blk.0.attn_rel_b.weight
            encoder.block.0.layer.1.layer_norm.weight                             8     enc.blk.0.ffn_norm.weight
            encoder.block.0.layer.1.DenseReluDense.wi.weight                      10,8  enc.blk.0.ffn_up.weight
            encoder.block.0.layer.1.DenseReluDense.wo.weight                      8,10  enc.blk.0.ffn_down.weight
            encoder.block.1.layer.0.layer_norm.weight                             8     enc.blk.1.attn_norm.weight
            encoder.block.1.layer.0.SelfAttention.q.weight                        12,8  enc.blk.1.attn_q.weight
            encoder.block.1.layer.0.SelfAttention.k.weight                        12,8  enc.blk.1.attn_k.weight
            encoder.block.1.layer.0.SelfAttention.v.weight                        12,8  enc.blk.1.attn_v.weight
            encoder.block.1.layer.0.SelfAttention.o.weight                        8,12  enc.blk.1.attn_o.weight
            encoder.block.1.layer.1.layer_norm.weight                             8     enc.blk.1.ffn_norm.weight
            encoder.block.1.layer.1.DenseReluDense.wi.weight                      10,8  enc.blk.1.ffn_up.weight
            encoder.block.1.layer.1.DenseReluDense.wo.weight                      8,10  enc.blk.1.ffn_down.weight
            encoder.final_layer_norm.weight                                       8     enc.output_norm.weight
        "],
    },
    List {
        name: "t5 encoder with gates",
        source: "its class in transformers 5.23 as it is saved, and what llama.cpp's conversion/t5.py made of it",
        config: r#"{"model_type": "t5", "architectures": ["T5EncoderModel"], "d_model": 8, "d_kv": 6, "d_ff": 10, "num_heads": 2, "num_layers": 1, "num_decoder_layers": 1,
            "relative_attention_num_buckets": 4, "layer_norm_epsilon": 1e-6, "n_positions": 512, "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "t5encoder",
        tensors: &["
            encoder.embed_tokens.weight                                           10,8  token_embd.weight
            encoder.block.0.layer.0.layer_norm.weight                             8     enc.blk.0.attn_norm.weight
            encoder.block.0.layer.0.SelfAttention.q.weight                        12,8  enc.blk.0.attn_q.weight
            encoder.block.0.layer.0.SelfAttention.k.weight                        12,8  enc.blk.0.attn_k.weight
            encoder.block.0.layer.0.SelfAttention.v.weight                        12,8  enc.blk.0.attn_v.weight
            encoder.block.0.layer.0.SelfAttention.o.weight                        8,12  enc.blk.0.attn_o.weight
            encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight  4,2   enc.blk.0.attn_rel_b.weight
            encoder.block.0.layer.1.layer_norm.weight                             8     enc.blk.0.ffn_norm.weight
            encoder.block.0.layer.1.DenseReluDense.wi_0.weight                    10,8  enc.blk.0.ffn_gate.weight
            encoder.block.0.layer.1.DenseReluDense.wi_1.weight                    10,8  enc.blk.0.ffn_up.weight
            encoder.block.0.layer.1.DenseReluDense.wo.weight                      8,10  enc.blk.0.ffn_down.weight
            encoder.final_layer_norm.weight                                       8     enc.output_norm.weight
        "],
    },
    List {
        name: "jina-bert-v2",
        source: "the names that llama.cpp's conversion/bert.py and gguf-py/gguf/tensor_mapping.py know, which its converter wrote of them",
        config: r#"{"model_type": "bert", "architectures": ["JinaBertModel"], "position_embedding_type": "alibi", "feed_forward_type": "geglu", "hidden_size": 8,
            "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 6, "layer_norm_eps": 1e-12, "max_position_embeddings": 64, "type_vocab_size": 2, "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "jina-bert-v2",
        tensors: &["
            embeddings.word_embeddings.weight                  10,8  token_embd.weight
            embeddings.token_type_embeddings.weight            2,8   token_types.weight
            embeddings.LayerNorm.weight                        8     token_embd_norm.weight
            embeddings.LayerNorm.bias                          8     token_embd_norm.bias
            encoder.layer.0.attention.self.query.weight        8,8   blk.0.attn_q.weight
            encoder.layer.0.attention.self.query.bias          8     blk.0.attn_q.bias
            encoder.layer.0.attention.self.key.weight          8,8   blk.0.attn_k.weight
            encoder.layer.0.attention.self.key.bias            8     blk.0.attn_k.bias
            encoder.layer.0.attention.self.value.weight        8,8   blk.0.attn_v.weight
            encoder.layer.0.attention.self.value.bias          8     blk.0.attn_v.bias
            encoder.layer.0.attention.output.dense.weight      8,8   blk.0.attn_output.weight
            encoder.layer.0.attention.output.dense.bias        8     blk.0.attn_output.bias
            encoder.layer.0.attention.output.LayerNorm.weight  8     blk.0.attn_output_norm.weight
            encoder.layer.0.attention.output.LayerNorm.bias    8     blk.0.attn_output_norm.bias
            encoder.layer.0.mlp.gated_layers.weight            12,8  blk.0.ffn_up.weight
            encoder.layer.0.mlp.wo.weight                      8,6   blk.0.ffn_down.weight
            encoder.layer.0.mlp.wo.bias                        8     blk.0.ffn_down.bias
            encoder.layer.0.mlp.layernorm.weight               8     blk.0.layer_output_norm.weight
            encoder.layer.0.mlp.layernorm.bias                 8     blk.0.layer_output_norm.bias
            pooler.dense.weight                                8,8   -
            pooler.dense.bias                                  8     -
        "],
    },
    List {
        name: "jina-bert-v2 for code",
        source: "the names that llama.cpp's conversion/bert.py and gguf-py/gguf/tensor_mapping.py know, which its converter wrote of them",
        config: r#"{"model_type": "bert", "architectures": ["JinaBertModel"], "position_embedding_type": "alibi", "feed_forward_type": "geglu", "hidden_size": 8,
            "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 6, "layer_norm_eps": 1e-12, "max_position_embeddings": 64, "type_vocab_size": 2, "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "jina-bert-v2",
        tensors: &["
            embeddings.word_embeddings.weight                   10,8  token_embd.weight
            embeddings.token_type_embeddings.weight             2,8   token_types.weight
            embeddings.LayerNorm.weight                         8     token_embd_norm.weight
            embeddings.LayerNorm.bias                           8     token_embd_norm.bias
            encoder.layer.0.attention.self.query.weight         8,8   blk.0.attn_q.weight
            encoder.layer.0.attention.self.query.bias           8     blk.0.attn_q.bias
            encoder.layer.0.attention.self.key.weight           8,8   blk.0.attn_k.weight
            encoder.layer.0.attention.self.key.bias             8     blk.0.attn_k.bias
            encoder.layer.0.attention.self.value.weight         8,8   blk.0.attn_v.weight
            encoder.layer.0.attention.self.value.bias           8     blk.0.attn_v.bias
            encoder.layer.0.attention.output.dense.weight       8,8   blk.0.attn_output.weight
            encoder.layer.0.attention.output.dense.bias         8     blk.0.attn_output.bias
            encoder.layer.0.attention.output.LayerNorm.weight   8     blk.0.attn_output_norm.weight
            encoder.layer.0.attention.output.LayerNorm.bias     8     blk.0.attn_output_norm.bias
            encoder.layer.0.attention.self.layer_norm_q.weight  8     blk.0.attn_q_norm.weight
            encoder.layer.0.attention.self.layer_norm_q.bias    8     blk.0.attn_q_norm.bias
            encoder.layer.0.attention.self.layer_norm_k.weight  8     blk.0.attn_k_norm.weight
            encoder.layer.0.attention.self.layer_norm_k.bias    8     blk.0.attn_k_norm.bias
            encoder.layer.0.layer_norm_1.weight                 8     blk.0.attn_norm_2.weight
            encoder.layer.0.layer_norm_1.bias                   8     blk.0.attn_norm_2.bias
            encoder.layer.0.mlp.up_gated_layer.weight           12,8  blk.0.ffn_up.weight
            encoder.layer.0.mlp.down_layer.weight               8,6   blk.0.ffn_down.weight
            encoder.layer.0.mlp.down_layer.bias                 8     blk.0.ffn_down.bias
            encoder.layer.0.layer_norm_2.weight                 8     blk.0.layer_output_norm.weight
            encoder.layer.0.layer_norm_2.bias                   8     blk.0.layer_output_norm.bias
            pooler.dense.weight                                 8,8   -
            pooler.dense.bias                                   8     -
        "],
    },
    List {
        name: "nomic-bert-moe",
        source: "the names that llama.cpp's conversion/bert.py and gguf-py/gguf/tensor_mapping.py know, which its converter wrote of them",
        config: r#"{"model_type": "nomic_bert", "architectures": ["NomicBertModel"], "n_embd": 8, "n_layer": 2, "n_head": 2, "n_inner": 6, "n_positions": 2048,
            "max_trained_positions": 2048, "layer_norm_epsilon": 1e-5, "num_experts": 2, "moe_top_k": 1, "moe_every_n_layers": 2, "type_vocab_size": 1, "vocab_size": 10}"#,
        form: Form::Gguf,
        gguf: "nomic-bert-moe",
        tensors: &["
            embeddings.word_embeddings.weight         10,8  token_embd.weight
            embeddings.token_type_embeddings.weight   1,8   token_types.weight
            emb_ln.weight                             8     token_embd_norm.weight
            emb_ln.bias                               8     token_embd_norm.bias
            encoder.layers.0.attn.Wqkv.weight         24,8  blk.0.attn_qkv.weight
            encoder.layers.0.attn.Wqkv.bias           24    blk.0.attn_qkv.bias
            encoder.layers.0.attn.out_proj.weight     8,8   blk.0.attn_output.weight
            encoder.layers.0.attn.out_proj.bias       8     blk.0.attn_output.bias
            encoder.layers.0.norm1.weight             8     blk.0.attn_output_norm.weight
            encoder.layers.0.norm1.bias               8     blk.0.attn_output_norm.bias
            encoder.layers.0.norm2.weight             8     blk.0.layer_output_norm.weight
            encoder.layers.0.norm2.bias               8     blk.0.layer_output_norm.bias
            encoder.layers.0.mlp.fc1.weight           6,8   blk.0.ffn_up.weight
            encoder.layers.0.mlp.fc1.bias             6     blk.0.ffn_up.bias
            encoder.layers.0.mlp.fc2.weight           8,6   blk.0.ffn_down.weight
            encoder.layers.0.mlp.fc2.bias             8     blk.0.ffn_down.bias
            encoder.layers.1.attn.Wqkv.weight         24,8  blk.1.attn_qkv.weight
            encoder.layers.1.attn.Wqkv.bias           24    blk.1.attn_qkv.bias
            encoder.layers.1.attn.out_proj.weight     8,8   blk.1.attn_output.weight
            encoder.layers.1.attn.out_proj.bias       8     blk.1.attn_output.bias
            encoder.layers.1.norm1.weight             8     blk.1.attn_output_norm.weight
            encoder.layers.1.norm1.bias               8     blk.1.attn_output_norm.bias
            encoder.layers.1.norm2.weight             8     blk.1.layer_output_norm.weight
            encoder.layers.1.norm2.bias               8     blk.1.layer_output_norm.bias
            encoder.layers.1.mlp.router.layer.weight  2,8   blk.1.ffn_gate_inp.weight
            encoder.layers.1.mlp.experts.mlp.w1       12,8  blk.1.ffn_up_exps.weight        apart(2)
            encoder.layers.1.mlp.experts.mlp.w2       12,8  blk.1.ffn_down_exps.weight      apart(2)+transpose_last_two
            encoder.layers.1.mlp.experts.bias         8     -
        "],
    },
    List {
        name: "orion",
        source: "llama.cpp's graph of orion, and the names of Llama in gguf-py 0.19's map",
        config: r#"{"model_type": "orion", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
            "intermediate_size": 6, "vocab_size": 10, "rms_norm_eps": 1e-5, "rope_theta": 10000.0}"#,
        form: Form::Gguf,
        gguf: "orion",
        tensors: &[EMBEDDINGS, NORMS, DENSE, "
            lm_head.weight                                10,8  output.weight
            model.layers.0.self_attn.q_proj.weight        8,8   blk.0.attn_q.weight
            model.layers.0.self_attn.k_proj.weight        4,8   blk.0.attn_k.weight
            model.layers.0.self_attn.v_proj.weight        4,8   blk.0.attn_v.weight
            model.layers.0.self_attn.o_proj.weight        8,8   blk.0.attn_output.weight
            model.norm.bias                               8     output_norm.bias
            model.layers.0.input_layernorm.bias           8     blk.0.attn_norm.bias
            model.layers.0.post_attention_layernorm.bias  8     blk.0.ffn_norm.bias
        "],
    },
    List {
        name: "pangu-embedded",
        source: "llama.cpp's graph of pangu-embedded, and the names of Llama in gguf-py 0.19's map",
        config: config!("pangu-embedded"),
        form: Form::Gguf,
        gguf: "pangu-embedded",
        tensors: &[EMBEDDINGS, NORMS, ATTENTION, DENSE, "
            lm_head.weight  10,8  output.weight
        "],
    },
    List {
        name: "mimo",
        source: "mlx-lm 0.32.2, models/mimo.py as it is saved",
        config: config!("mimo"),
        form: Form::HuggingFace,
        gguf: "",
        tensors: &[SAME_REST, OWN_DENSE, "
            lm_head.weight                          10,8  =
            model.layers.0.self_attn.q_proj.bias    16    =
            model.layers.0.self_attn.k_proj.bias    8     =
            model.layers.0.self_attn.v_proj.bias    8     =
        "],
    },
    List {
        name: "lille",
        source: "mlx-lm 0.32.2, models/lille-130m.py as it is saved",
        config: config!("lille-130m", r#", "tie_word_embeddings": true"#),
        form: Form::HuggingFace,
        gguf: "",
        tensors: &["
            transformer.tok_embeddings.weight                   10,8  =
            transformer.norm.weight                             8     =
            transformer.layers.0.attention.norm.weight          8     =
            transformer.layers.0.attention.qkv_proj.weight      32,8  =
            transformer.layers.0.attention.out_proj.weight      8,16  =
            transformer.layers.0.feed_forward.norm.weight       8     =
            transformer.layers.0.feed_forward.gate_proj.weight  6,8   =
            transformer.layers.0.feed_forward.up_proj.weight    6,8   =
            transformer.layers.0.feed_forward.down_proj.weight  8,6   =
        "],
    },
    List {
        name: "spark",
        source: "mlx-lm 0.32.2, models/spark2_5.py as it is saved",
        config: config!("spark2_5"),
        form: Form::HuggingFace,
        gguf: "",
        tensors: &[OWN_DENSE, "
            model.embedding.weight                          10,8  =
            model.norm.weight                               8     =
            lm_head.weight                                  10,8  =
            model.layers.0.input_layernorm.weight           8     =
            model.layers.0.post_attention_layernorm.weight  8     =
            model.layers.0.self_attn.q_k_v_proj.weight      32,8  =
            model.layers.0.self_attn.g_proj.weight          4,8   =
            model.layers.0.self_attn.out_proj.weight        8,16  =
        "],
    },
    List {
        name: "ling 1",
        source: "mlx-lm 0.32.2, models/bailing_moe.py as it is saved",
        config: config!("bailing_moe", r#", "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 6, "num_shared_experts": 1, "first_k_dense_replace": 0"#),
        form: Form::HuggingFace,
        gguf: "",
        tensors: &[OWN_SHARED_EXPERTS, "
            model.word_embeddings.weight                     10,8  =
            model.norm.weight                                8     =
            lm_head.weight                                   10,8  =
            model.layers.0.input_layernorm.weight            8     =
            model.layers.0.post_attention_layernorm.weight   8     =
            model.layers.0.attention.query_key_value.weight  32,8  =
            model.layers.0.attention.dense.weight            8,16  =
            model.layers.0.attention.query_layernorm.weight  4     =
            model.layers.0.attention.key_layernorm.weight    4     =
            model.layers.0.mlp.gate.gate_proj.weight         2,8   =
            model.layers.0.mlp.gate.expert_bias              2     =
            model.layers.0.mlp.experts.{e}.gate_proj.weight  6,8   =
            model.layers.0.mlp.experts.{e}.up_proj.weight    6,8   =
            model.layers.0.mlp.experts.{e}.down_proj.weight  8,6   =
        "],
    },
    List {
        name: "qwen 1",
        source: "mlx-lm 0.32.2, models/qwen.py as it is saved, and the names that llama.cpp's graph of qwen requires",
        config: r#"{"model_type": "qwen", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "kv_channels": 4,
            "intermediate_size": 12, "vocab_size": 10, "layer_norm_epsilon": 1e-6, "rotary_emb_base": 10000.0}"#,
        form: Form::Gguf,
        gguf: "qwen",
        tensors: &["
            transformer.wte.weight                 10,8  token_embd.weight
            transformer.ln_f.weight                8     output_norm.weight
            lm_head.weight                         10,8  output.weight
            transformer.h.0.ln_1.weight            8     blk.0.attn_norm.weight
            transformer.h.0.attn.c_attn.weight     24,8  blk.0.attn_qkv.weight
            transformer.h.0.attn.c_attn.bias       24    blk.0.attn_qkv.bias
            transformer.h.0.attn.c_proj.weight     8,8   blk.0.attn_output.weight
            transformer.h.0.ln_2.weight            8     blk.0.ffn_norm.weight
            transformer.h.0.mlp.w2.weight          6,8   blk.0.ffn_gate.weight
            transformer.h.0.mlp.w1.weight          6,8   blk.0.ffn_up.weight
            transformer.h.0.mlp.c_proj.weight      8,6   blk.0.ffn_down.weight
        "],
    },
    List {
        name: "mistral4",
        source: "mlx-lm 0.32.2, models/mistral4.py as it is saved",
        config: r#"{"model_type": "mistral4", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
            "num_key_value_heads": 2, "qk_nope_head_dim": 2, "qk_rope_head_dim": 2, "v_head_dim": 3, "kv_lora_rank": 4,
            "q_lora_rank": 5, "n_routed_experts": 2, "num_experts_per_tok": 1, "n_shared_experts": 1,
            "moe_intermediate_size": 6, "intermediate_size": 6, "first_k_dense_replace": 0, "vocab_size": 10}"#,
        form: Form::HuggingFace,
        gguf: "",
        tensors: &[OWN_EXPERTS, OWN_SHARED_EXPERTS, "
            model.embed_tokens.weight                           10,8  =
            model.norm.weight                                   8     =
            lm_head.weight                                      10,8  =
            model.layers.0.input_layernorm.weight               8     =
            model.layers.0.post_attention_layernorm.weight      8     =
            model.layers.0.self_attn.q_a_proj.weight            5,8   =
            model.layers.0.self_attn.q_a_layernorm.weight       5     =
            model.layers.0.self_attn.q_b_proj.weight            8,5   =
            model.layers.0.self_attn.kv_a_proj_with_mqa.weight  6,8   =
            model.layers.0.self_attn.kv_a_layernorm.weight      4     =
            model.layers.0.self_attn.kv_b_proj.weight           10,4  =
            model.layers.0.self_attn.o_proj.weight              8,6   =
        "],
    },
    List {
        name: "jina_embeddings_v3",
        source: "gguf-py 0.19, tensor_mapping.py; transformers 5.24, jina_embeddings_v3 as it is saved",
        config: r#"{"model_type": "jina_embeddings_v3", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
            "intermediate_size": 6, "vocab_size": 10, "type_vocab_size": 1, "layer_norm_eps": 1e-5,
            "max_position_embeddings": 16}"#,
        form: Form::Gguf,
        gguf: "jina-bert-v3",
        tensors: &["
            embeddings.word_embeddings.weight          10,8  token_embd.weight
            embeddings.token_type_embeddings.weight    1,8   token_types.weight
            emb_ln.weight                              8     token_embd_norm.weight
            emb_ln.bias                                8     token_embd_norm.bias
            encoder.layers.0.mixer.Wqkv.weight         24,8  blk.0.attn_qkv.weight
            encoder.layers.0.mixer.Wqkv.bias           24    blk.0.attn_qkv.bias
            encoder.layers.0.mixer.out_proj.weight     8,8   blk.0.attn_output.weight
            encoder.layers.0.mixer.out_proj.bias       8     blk.0.attn_output.bias
            encoder.layers.0.norm1.weight              8     blk.0.attn_output_norm.weight
            encoder.layers.0.norm1.bias                8     blk.0.attn_output_norm.bias
            encoder.layers.0.mlp.fc1.weight            6,8   blk.0.ffn_up.weight
            encoder.layers.0.mlp.fc1.bias              6     blk.0.ffn_up.bias
            encoder.layers.0.mlp.fc2.weight            8,6   blk.0.ffn_down.weight
            encoder.layers.0.mlp.fc2.bias              8     blk.0.ffn_down.bias
            encoder.layers.0.norm2.weight              8     blk.0.layer_output_norm.weight
            encoder.layers.0.norm2.bias                8     blk.0.layer_output_norm.bias
        "],
    },
    List {
        name: "plamo 2",
        source: "mlx-lm 0.32.2, models/plamo2.py as it is saved",
        config: r#"{"model_type": "plamo2", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "intermediate_size": 6, "vocab_size": 10, "hidden_size_per_head": 4,
            "mamba_d_state": 3, "mamba_d_conv": 2, "mamba_num_heads": 2, "mamba_step": 2,
            "tie_word_embeddings": true, "rms_norm_eps": 1e-06}"#,
        form: Form::HuggingFace,
        gguf: "",
        tensors: &["
            model.embed_tokens.weight                      10,8   =
            model.layers.layers.0.mixer.in_proj.weight     16,8   =
            model.layers.layers.0.mixer.conv1d.weight      8,1,2  =
            model.layers.layers.0.mixer.bcdt_proj.weight   70,8   =
            model.layers.layers.0.mixer.dt_proj.weight     2,64   =
            model.layers.layers.0.mixer.dt_bias            2      =
            model.layers.layers.0.mixer.A_log              2      =
            model.layers.layers.0.mixer.D                  2      =
            model.layers.layers.0.mixer.dt_norm_weight     64     =
            model.layers.layers.0.mixer.B_norm_weight      3      =
            model.layers.layers.0.mixer.C_norm_weight      3      =
            model.layers.layers.0.mixer.out_proj.weight    8,8    =
            model.layers.layers.0.mlp.gate_up_proj.weight  12,8   =
            model.layers.layers.0.mlp.down_proj.weight     8,6    =
            model.layers.layers.0.pre_mixer_norm.weight    8      =
            model.layers.layers.0.post_mixer_norm.weight   8      =
            model.layers.layers.0.pre_mlp_norm.weight      8      =
            model.layers.layers.0.post_mlp_norm.weight     8      =
            model.layers.layers.1.mixer.qkv_proj.weight    32,8   =
            model.layers.layers.1.mixer.o_proj.weight      8,16   =
            model.layers.layers.1.mixer.q_weight           4,4    =
            model.layers.layers.1.mixer.k_weight           2,4    =
            model.layers.layers.1.mlp.gate_up_proj.weight  12,8   =
            model.layers.layers.1.mlp.down_proj.weight     8,6    =
            model.layers.layers.1.pre_mixer_norm.weight    8      =
            model.layers.layers.1.post_mixer_norm.weight   8      =
            model.layers.layers.1.pre_mlp_norm.weight      8      =
            model.layers.layers.1.post_mlp_norm.weight     8      =
            model.norm.weight                              8      =
        "],
    },
    List {
        name: "step 3.5",
        source: "mlx-lm 0.32.2, models/step3p5.py as it is saved, under the names that it reads",
        config: r#"{"model_type": "step3p5", "hidden_size": 8, "num_hidden_layers": 2, "vocab_size": 10,
            "num_attention_heads": 4, "num_attention_groups": 2, "head_dim": 4, "intermediate_size": 6,
            "layer_types": ["full_attention", "sliding_attention", "full_attention"], "num_nextn_predict_layers": 1, "sliding_window": 4,
            "attention_other_setting": {"attention_type": "sliding_attention", "num_attention_heads": 6,
            "num_attention_groups": 2, "head_dim": 4}, "moe_num_experts": 2, "moe_top_k": 1,
            "moe_intermediate_size": 6, "share_expert_dim": 6, "moe_layers_enum": "1", "rope_theta": [10000.0,
            10000.0, 10000.0]}"#,
        form: Form::HuggingFace,
        gguf: "",
        tensors: &["
            model.embed_tokens.weight                       10,8   =
            model.layers.0.self_attn.q_proj.weight          16,8   =
            model.layers.0.self_attn.k_proj.weight          8,8    =
            model.layers.0.self_attn.v_proj.weight          8,8    =
            model.layers.0.self_attn.o_proj.weight          8,16   =
            model.layers.0.self_attn.q_norm.weight          4      =
            model.layers.0.self_attn.k_norm.weight          4      =
            model.layers.0.self_attn.g_proj.weight          4,8    =
            model.layers.0.mlp.gate_proj.weight             6,8    =
            model.layers.0.mlp.up_proj.weight               6,8    =
            model.layers.0.mlp.down_proj.weight             8,6    =
            model.layers.0.input_layernorm.weight           8      =
            model.layers.0.post_attention_layernorm.weight  8      =
            model.layers.1.self_attn.q_proj.weight          24,8   =
            model.layers.1.self_attn.k_proj.weight          8,8    =
            model.layers.1.self_attn.v_proj.weight          8,8    =
            model.layers.1.self_attn.o_proj.weight          8,24   =
            model.layers.1.self_attn.q_norm.weight          4      =
            model.layers.1.self_attn.k_norm.weight          4      =
            model.layers.1.self_attn.g_proj.weight          6,8    =
            model.layers.1.moe.gate.weight                  2,8    =
            model.layers.1.moe.router_bias                  2      =
            model.layers.1.moe.gate_proj.weight             2,6,8  =
            model.layers.1.moe.up_proj.weight               2,6,8  =
            model.layers.1.moe.down_proj.weight             2,8,6  =
            model.layers.1.share_expert.gate_proj.weight    6,8    =
            model.layers.1.share_expert.up_proj.weight      6,8    =
            model.layers.1.share_expert.down_proj.weight    8,6    =
            model.layers.1.input_layernorm.weight           8      =
            model.layers.1.post_attention_layernorm.weight  8      =
            model.layers.2.self_attn.q_proj.weight          16,8   =
            model.layers.2.self_attn.k_proj.weight          8,8    =
            model.layers.2.self_attn.v_proj.weight          8,8    =
            model.layers.2.self_attn.o_proj.weight          8,16   =
            model.layers.2.self_attn.q_norm.weight          4      =
            model.layers.2.self_attn.k_norm.weight          4      =
            model.layers.2.self_attn.g_proj.weight          4,8    =
            model.layers.2.mlp.gate_proj.weight             6,8    =
            model.layers.2.mlp.up_proj.weight               6,8    =
            model.layers.2.mlp.down_proj.weight             8,6    =
            model.layers.2.input_layernorm.weight           8      =
            model.layers.2.post_attention_layernorm.weight  8      =
            model.layers.2.enorm.weight                     8      =
            model.layers.2.hnorm.weight                     8      =
            model.layers.2.eh_proj.weight                   8,16   =
            model.layers.2.transformer.shared_head.norm.weight  8  =
            model.layers.2.transformer.shared_head.output.weight  10,8  =
            model.norm.weight                               8      =
            lm_head.weight                                  10,8   =
        "],
    },
    List {
        name: "muse spark",
        source: "transformers 5.24.0, models/muse_spark/modeling_muse_spark.py",
        config: r#"{"model_type": "muse_spark_text", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 4, "intermediate_size": 6, "vocab_size": 10, "num_local_experts": 2,
            "num_experts_per_tok": 1, "moe_intermediate_size": 6, "moe_hidden_size": 4}"#,
        form: Form::HuggingFace,
        gguf: "",
        tensors: &["
            model.embed_tokens.weight                                10,8    =
            model.norm.weight                                        8       =
            lm_head.weight                                           10,8    =
            model.layers.0.input_layernorm.weight                    8       =
            model.layers.0.self_attn.q_proj.weight                   16,8    =
            model.layers.0.self_attn.k_proj.weight                   8,8     =
            model.layers.0.self_attn.v_proj.weight                   8,8     =
            model.layers.0.self_attn.gate_proj.weight                16,8    =
            model.layers.0.self_attn.o_proj.weight                   8,16    =
            model.layers.0.post_attention_residual_gate.gate         8       =
            model.layers.0.pre_feedforward_layernorm.weight          8       =
            model.layers.0.mlp.gate.weight                           2,8     =
            model.layers.0.mlp.gate.e_score_correction_bias          2       =
            model.layers.0.mlp.pre_expert_proj.weight                4,8     =
            model.layers.0.mlp.pre_expert_norm.weight                4       =
            model.layers.0.mlp.experts.gate_up_proj                  2,12,4  =
            model.layers.0.mlp.experts.down_proj                     2,4,6   =
            model.layers.0.mlp.experts.post_expert_norm.weight       4       =
            model.layers.0.mlp.post_expert_proj.weight               8,4     =
            model.layers.0.post_feedforward_layernorm.weight         8       =
            model.layers.0.post_feedforward_residual_gate.gate       8       =
        "],
    },
    List {
        name: "mllama",
        source: "transformers 5.24.0, models/mllama/modeling_mllama.py",
        config: config!("mllama_text_model"),
        form: Form::HuggingFace,
        gguf: "",
        tensors: &["
            model.embed_tokens.weight                       18,8  =
            model.norm.weight                               8     =
            lm_head.weight                                  10,8  =
            model.layers.0.input_layernorm.weight           8     =
            model.layers.0.cross_attn.q_proj.weight         16,8  =
            model.layers.0.cross_attn.q_norm.weight         4     =
            model.layers.0.cross_attn.k_proj.weight         8,8   =
            model.layers.0.cross_attn.k_norm.weight         4     =
            model.layers.0.cross_attn.v_proj.weight         8,8   =
            model.layers.0.cross_attn.o_proj.weight         8,16  =
            model.layers.0.cross_attn_attn_gate             1     =
            model.layers.0.post_attention_layernorm.weight  8     =
            model.layers.0.mlp.gate_proj.weight             6,8   =
            model.layers.0.mlp.up_proj.weight               6,8   =
            model.layers.0.mlp.down_proj.weight             8,6   =
            model.layers.0.cross_attn_mlp_gate              1     =
        "],
    },
    List {
        name: "modernvbert",
        source: "transformers 5.24.0, models/modernvbert/modeling_modernvbert.py",
        config: r#"{"model_type": "modernvbert", "text_config": {"model_type": "modernbert", "hidden_size": 8, "num_hidden_layers": 1,
            "num_attention_heads": 2, "intermediate_size": 6, "vocab_size": 10}}"#,
        form: Form::HuggingFace,
        gguf: "",
        tensors: &["
            model.text_model.embeddings.tok_embeddings.weight  10,8  =
            model.text_model.embeddings.norm.weight            8     =
            model.text_model.layers.0.attn.Wqkv.weight         24,8  =
            model.text_model.layers.0.attn.Wo.weight           8,8   =
            model.text_model.layers.0.mlp_norm.weight          8     =
            model.text_model.layers.0.mlp.Wi.weight            12,8  =
            model.text_model.layers.0.mlp.Wo.weight            8,6   =
            model.text_model.final_norm.weight                 8     =
            projection_head.dense.weight                       8,8   =
            projection_head.norm.weight                        8     =
            lm_head.weight                                     10,8  =
            lm_head.bias                                       10    =
        "],
    },
];
