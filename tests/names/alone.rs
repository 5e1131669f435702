//! Lists of names for architectures that GGUF alone has: as llama.cpp's loader asks for them.

use super::{Form, lists::List};

const EMBEDDINGS: &str = "
    -  10,8  token_embd.weight
    -  8     output_norm.weight
    -  10,8  output.weight
";

const NORMS: &str = "
    -  8  blk.0.attn_norm.weight
    -  8  blk.0.ffn_norm.weight
";

const ATTENTION: &str = "
    -  8,8  blk.0.attn_q.weight
    -  8,8  blk.0.attn_k.weight
    -  8,8  blk.0.attn_v.weight
    -  8,8  blk.0.attn_output.weight
";

const HEAD_NORMS: &str = "
    -  4  blk.0.attn_q_norm.weight
    -  4  blk.0.attn_k_norm.weight
";

const DENSE: &str = "
    -  6,8  blk.0.ffn_gate.weight
    -  6,8  blk.0.ffn_up.weight
    -  8,6  blk.0.ffn_down.weight
";

const EXPERTS: &str = "
    -  2,8    blk.0.ffn_gate_inp.weight
    -  2,6,8  blk.0.ffn_gate_exps.weight
    -  2,6,8  blk.0.ffn_up_exps.weight
    -  2,8,6  blk.0.ffn_down_exps.weight
";

const BIASES: &str = "
    -  8  output_norm.bias
    -  8  blk.0.attn_norm.bias
    -  8  blk.0.ffn_norm.bias
    -  8  blk.0.attn_q.bias
    -  8  blk.0.attn_k.bias
    -  8  blk.0.attn_v.bias
    -  8  blk.0.attn_output.bias
    -  6  blk.0.ffn_up.bias
    -  8  blk.0.ffn_down.bias
";

const fn list(gguf: &'static str, tensors: &'static [&'static str]) -> List {
    List {
        name: gguf,
        source: "llama.cpp of October 2026, what its loader asks for",
        config: r#"{"model_type": "", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
            "num_key_value_heads": 2, "intermediate_size": 6, "vocab_size": 10, "num_experts": 2,
            "num_experts_per_tok": 1, "moe_intermediate_size": 6}"#,
        form: Form::Gguf,
        gguf,
        tensors,
    }
}

pub(crate) const ALONE: &[List] = &[
    list("refact", &[EMBEDDINGS, NORMS, ATTENTION, DENSE]),
    list(
        "codeshell",
        &[
            EMBEDDINGS,
            NORMS,
            ATTENTION,
            "
        -  6,8  blk.0.ffn_up.weight
        -  8,6  blk.0.ffn_down.weight
    ",
            BIASES,
        ],
    ),
    list("jais", &[EMBEDDINGS, NORMS, ATTENTION, DENSE, BIASES]),
    list("maincoder", &[EMBEDDINGS, NORMS, ATTENTION, HEAD_NORMS, DENSE]),
    list("hunyuan_vl", &[EMBEDDINGS, NORMS, ATTENTION, HEAD_NORMS, DENSE]),
    list("paddleocr", &[EMBEDDINGS, NORMS, ATTENTION, DENSE]),
    list("k2-horizon", &[EMBEDDINGS, NORMS, ATTENTION, DENSE]),
    List {
        config: r#"{"model_type": "", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
            "num_key_value_heads": 2, "qk_nope_head_dim": 4, "qk_rope_head_dim": 2, "v_head_dim": 4, "kv_lora_rank": 4,
            "intermediate_size": 6, "vocab_size": 10}"#,
        ..list(
            "plm",
            &[
                EMBEDDINGS,
                NORMS,
                "
        -  12,8  blk.0.attn_q.weight
        -  6,8   blk.0.attn_kv_a_mqa.weight
        -  4     blk.0.attn_kv_a_norm.weight
        -  16,4  blk.0.attn_kv_b.weight
        -  8,8   blk.0.attn_output.weight
        -  6,8   blk.0.ffn_up.weight
        -  8,6   blk.0.ffn_down.weight
    ",
            ],
        )
    },
    list(
        "dream",
        &[
            EMBEDDINGS,
            NORMS,
            ATTENTION,
            DENSE,
            "
        -  10  output.bias
    ",
        ],
    ),
    list("llada", &[EMBEDDINGS, NORMS, ATTENTION, DENSE]),
    list("llada-moe", &[EMBEDDINGS, NORMS, ATTENTION, HEAD_NORMS, EXPERTS]),
    list("rnd1", &[EMBEDDINGS, NORMS, ATTENTION, HEAD_NORMS, EXPERTS]),
    list("smallthinker", &[EMBEDDINGS, NORMS, ATTENTION, EXPERTS]),
    list("maple", &[EMBEDDINGS, NORMS, ATTENTION, HEAD_NORMS, EXPERTS]),
    list(
        "cogvlm",
        &[
            EMBEDDINGS,
            NORMS,
            ATTENTION,
            DENSE,
            "
        -  24,8  blk.0.vis_attn_qkv.weight
        -  8,8   blk.0.vis_attn_output.weight
        -  6,8   blk.0.vis_gate.weight
        -  6,8   blk.0.vis_up.weight
        -  8,6   blk.0.vis_down.weight
    ",
        ],
    ),
    list(
        "arctic",
        &[
            EMBEDDINGS,
            NORMS,
            ATTENTION,
            DENSE,
            EXPERTS,
            "
        -  8  blk.0.ffn_norm_exps.weight
    ",
        ],
    ),
    list(
        "grok",
        &[
            EMBEDDINGS,
            NORMS,
            ATTENTION,
            EXPERTS,
            "
        -  8  blk.0.attn_output_norm.weight
        -  8  blk.0.post_ffw_norm.weight
    ",
        ],
    ),
    list(
        "grok",
        &[
            EMBEDDINGS,
            NORMS,
            ATTENTION,
            EXPERTS,
            "
        -  8  blk.0.attn_output_norm.weight
        -  8  blk.0.layer_output_norm.weight
    ",
        ],
    ),
    list(
        "grovemoe",
        &[
            EMBEDDINGS,
            NORMS,
            ATTENTION,
            HEAD_NORMS,
            EXPERTS,
            "
        -  1,4,8  blk.0.ffn_gate_chexps.weight
        -  1,4,8  blk.0.ffn_up_chexps.weight
        -  1,8,4  blk.0.ffn_down_chexps.weight
    ",
        ],
    ),
    list(
        "chameleon",
        &[
            EMBEDDINGS,
            NORMS,
            ATTENTION,
            DENSE,
            "
        -  2,4  blk.0.attn_q_norm.weight
        -  2,4  blk.0.attn_k_norm.weight
        -  2,4  blk.0.attn_q_norm.bias
        -  2,4  blk.0.attn_k_norm.bias
    ",
        ],
    ),
    list(
        "neo-bert",
        &[
            "
        -  10,8  token_embd.weight
        -  8     enc.output_norm.weight
    ",
            NORMS,
            "
        -  24,8  blk.0.attn_qkv.weight
        -  8,8   blk.0.attn_output.weight
        -  12,8  blk.0.ffn_up.weight
        -  8,6   blk.0.ffn_down.weight
        -  8,8   cls.weight
        -  8     cls.bias
        -  1,8   cls.output.weight
        -  1     cls.output.bias
    ",
        ],
    ),
    list(
        "gemma-embedding2",
        &[
            EMBEDDINGS,
            NORMS,
            ATTENTION,
            HEAD_NORMS,
            DENSE,
            "
        -  4,8  per_layer_model_proj.weight
        -  4    per_layer_proj_norm.weight
        -  8    blk.0.post_attention_norm.weight
        -  8    blk.0.post_ffw_norm.weight
        -  4,8  blk.0.inp_gate.weight
        -  8,4  blk.0.proj.weight
        -  8    blk.0.post_norm.weight
        -  1    blk.0.layer_output_scale.weight
    ",
        ],
    ),
    list(
        "deepseek4",
        &[
            EMBEDDINGS,
            NORMS,
            EXPERTS,
            "
        -  2,16    output_hc_fn.weight
        -  2       output_hc_base.weight
        -  1       output_hc_scale.weight
        -  8,16    blk.0.hc_attn_fn.weight
        -  8       blk.0.hc_attn_base.weight
        -  3       blk.0.hc_attn_scale.weight
        -  8,16    blk.0.hc_ffn_fn.weight
        -  8       blk.0.hc_ffn_base.weight
        -  3       blk.0.hc_ffn_scale.weight
        -  2       blk.0.attn_sinks.weight
        -  3,8     blk.0.attn_q_a.weight
        -  3       blk.0.attn_q_a_norm.weight
        -  8,3     blk.0.attn_q_b.weight
        -  4,8     blk.0.attn_kv.weight
        -  4       blk.0.attn_kv_a_norm.weight
        -  2,3,4   blk.0.attn_output_a.weight
        -  8,6     blk.0.attn_output_b.weight
        -  8,8     blk.0.attn_compressor_kv.weight
        -  8,8     blk.0.attn_compressor_gate.weight
        -  4,8     blk.0.attn_compressor_ape.weight
        -  4       blk.0.attn_compressor_norm.weight
        -  2,8     blk.0.indexer.proj.weight
        -  8,3     blk.0.indexer.attn_q_b.weight
        -  8,8     blk.0.indexer_compressor_kv.weight
        -  8,8     blk.0.indexer_compressor_gate.weight
        -  4,8     blk.0.indexer_compressor_ape.weight
        -  4       blk.0.indexer_compressor_norm.weight
        -  10,2    blk.0.ffn_gate_tid2eid.weight
        -  2       blk.0.exp_probs_b.bias
        -  6,8     blk.0.ffn_gate_shexp.weight
        -  6,8     blk.0.ffn_up_shexp.weight
        -  8,6     blk.0.ffn_down_shexp.weight
    ",
        ],
    ),
];
