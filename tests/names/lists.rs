//! Lists of names for what the large lists lack: other families, other layouts.

use super::Form;

/// A model in two forms.
pub(crate) struct List {
    /// What it is called here.
    pub(crate) name: &'static str,
    /// Where the names are from.
    pub(crate) source: &'static str,
    /// Its `config.json`.
    pub(crate) config: &'static str,
    /// What the second form is.
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

/// What nearly all have: four heads of width 4, two key heads.
macro_rules! config {
    ($model_type:literal) => {
        concat!(
            r#"{"model_type": ""#,
            $model_type,
            r#"", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 4, "intermediate_size": 6, "vocab_size": 10}"#
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
        config: config!("mixtral"),
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
        config: config!("mixtral"),
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
        config: config!("mixtral"),
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
        config: config!("mixtral"),
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
        config: r#"{"model_type": "baichuan", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 4,
            "head_dim": 4, "intermediate_size": 6, "vocab_size": 10}"#,
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
        config: config!("internlm2"),
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
        config: config!("granitemoeshared"),
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
        name: "granitemoe in mlx",
        source: "mlx-lm, granitemoe.py, sanitize",
        config: config!("granitemoe"),
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
        config: config!("deepseek"),
        form: Form::Gguf,
        gguf: "deepseek",
        tensors: &[EMBEDDINGS, NORMS, PERMUTED, EXPERTS, SHARED_EXPERTS],
    },
    List {
        name: "qwen3moe in memory",
        source: "data/names/qwen3_moe.json, hf_notes: the names that transformers 5 holds in memory",
        config: config!("qwen3_moe"),
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
        config: config!("qwen3_moe"),
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
        config: config!("phi3"),
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
            "intermediate_size": [6], "vocab_size": 10}}"#,
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
        config: config!("gpt_oss"),
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
        config: config!("glm4_moe"),
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
        config: config!("olmoe"),
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
];
