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
    /// another. A line with `{e}` stands for two experts.
    pub(crate) tensors: &'static str,
}

/// Four heads of width 4 and two key heads.
const SMALL: &str = r#"{"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 4, "intermediate_size": 6, "vocab_size": 10}"#;

#[rustfmt::skip]
pub(crate) const LISTS: &[List] = &[
    List {
        name: "llama with biases",
        source: "data/names/README.md: biases follow their weights, permutation included",
        config: SMALL,
        form: Form::Gguf,
        gguf: "llama",
        tensors: "
            model.embed_tokens.weight                       10,8  token_embd.weight
            model.norm.weight                               8     output_norm.weight
            model.layers.0.input_layernorm.weight           8     blk.0.attn_norm.weight
            model.layers.0.self_attn.q_proj.weight          16,8  blk.0.attn_q.weight       rope_row_interleave(head_dim=4)
            model.layers.0.self_attn.k_proj.weight          8,8   blk.0.attn_k.weight       rope_row_interleave(head_dim=4)
            model.layers.0.self_attn.v_proj.weight          8,8   blk.0.attn_v.weight
            model.layers.0.self_attn.o_proj.weight          8,16  blk.0.attn_output.weight
            model.layers.0.self_attn.q_proj.bias            16    blk.0.attn_q.bias         rope_row_interleave(head_dim=4)
            model.layers.0.self_attn.k_proj.bias            8     blk.0.attn_k.bias         rope_row_interleave(head_dim=4)
            model.layers.0.self_attn.v_proj.bias            8     blk.0.attn_v.bias
            model.layers.0.self_attn.o_proj.bias            8     blk.0.attn_output.bias
            model.layers.0.post_attention_layernorm.weight  8     blk.0.ffn_norm.weight
            model.layers.0.mlp.gate_proj.weight             6,8   blk.0.ffn_gate.weight
            model.layers.0.mlp.up_proj.weight               6,8   blk.0.ffn_up.weight
            model.layers.0.mlp.down_proj.weight             8,6   blk.0.ffn_down.weight
            model.layers.0.mlp.gate_proj.bias               6     blk.0.ffn_gate.bias
            model.layers.0.mlp.up_proj.bias                 6     blk.0.ffn_up.bias
            model.layers.0.mlp.down_proj.bias               8     blk.0.ffn_down.bias
        ",
    },
    List {
        name: "mistral consolidated",
        source: "llama.cpp's gguf-py/gguf/tensor_mapping.py (llama-pth), the order of rows from convert_llama_weights_to_hf.py in transformers",
        config: SMALL,
        form: Form::Publisher,
        gguf: "",
        tensors: "
            model.embed_tokens.weight                       10,8  tok_embeddings.weight
            model.norm.weight                               8     norm.weight
            lm_head.weight                                  10,8  output.weight
            model.layers.0.input_layernorm.weight           8     layers.0.attention_norm.weight
            model.layers.0.self_attn.q_proj.weight          16,8  layers.0.attention.wq.weight     rope_row_interleave(head_dim=4)
            model.layers.0.self_attn.k_proj.weight          8,8   layers.0.attention.wk.weight     rope_row_interleave(head_dim=4)
            model.layers.0.self_attn.v_proj.weight          8,8   layers.0.attention.wv.weight
            model.layers.0.self_attn.o_proj.weight          8,16  layers.0.attention.wo.weight
            model.layers.0.post_attention_layernorm.weight  8     layers.0.ffn_norm.weight
            model.layers.0.mlp.gate_proj.weight             6,8   layers.0.feed_forward.w1.weight
            model.layers.0.mlp.up_proj.weight               6,8   layers.0.feed_forward.w3.weight
            model.layers.0.mlp.down_proj.weight             8,6   layers.0.feed_forward.w2.weight
        ",
    },
];
