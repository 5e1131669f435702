"""Writes tests/data/classes.json: tiny models of transformers' and mlx-lm's classes of language models, whose values follow from the tensors' names.

    classes.py [FOLDER]    also keep the models in a folder

A case has the config, the names and shapes of the stored tensors, tokens, and the logits that the class computes of the last ones. The values are those of
`Array::random` in tests/names/models.rs: FNV-1a of the name, then a linear congruential generator with Knuth's numbers.
"""

import copy
import json
import random
import sys
import tempfile
from pathlib import Path

import draws
import mlx.core as mx
import mlx_lm.utils
import numpy as np
import torch
import transformers
from mlx.utils import tree_flatten, tree_unflatten
from safetensors.numpy import load_file, save_file

N = {"vocab_size": 13, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
H = N | {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 12, "max_position_embeddings": 16}
G = N | {"n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 16}
E = H | {"type_vocab_size": 2}
D = N | {
    "d_model": 8, "decoder_layers": 1, "encoder_layers": 1, "decoder_attention_heads": 2, "encoder_attention_heads": 2, "decoder_ffn_dim": 12,
    "encoder_ffn_dim": 12, "max_position_embeddings": 16,
}  # fmt: skip
SMALL = N | {"dim": 8, "n_layers": 1, "n_heads": 2, "max_position_embeddings": 16}
APART = {"tie_word_embeddings": False}
DECODER = {"is_decoder": True}
OWN_ENCODER = ("encoder_layers", "encoder_attention_heads", "encoder_ffn_dim")
T = N | {"d_model": 8, "d_kv": 4, "d_ff": 12, "num_layers": 1, "num_decoder_layers": 1, "num_heads": 2, "relative_attention_num_buckets": 4}
ALONE = {key: value for key, value in D.items() if key not in OWN_ENCODER}
HEADS = {"head_dim": 4, "num_key_value_heads": 1}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
GROUPS = {
    "kv_lora_rank": 4, "q_lora_rank": None, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 4, "num_key_value_heads": 2, "n_routed_experts": 4,
    "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1, "moe_intermediate_size": 4, "first_k_dense_replace": 0,
}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 8}
WHISPER = {key: value for key, value in D.items() if key != "max_position_embeddings"} | {"max_target_positions": 16, "num_mel_bins": 4}
ROC = {"shape_embed_dim": 6, "pronunciation_embed_dim": 4, "shape_vocab_size": 3, "pronunciation_vocab_size": 3}

L, F = "linear_attention", "full_attention"
K = H | {"num_key_value_heads": 1, "head_dim": 4}
ROUTED = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8}
LAYERED = {key: value for key, value in K.items() if key != "num_hidden_layers"}
M = {"mamba_n_heads": 4, "mamba_d_head": 4, "mamba_d_state": 4, "mamba_n_groups": 2, "mamba_d_conv": 3, "mamba_expand": 2}
LATENT = {"kv_lora_rank": 4, "q_lora_rank": 4, "qk_rope_head_dim": 2, "qk_nope_head_dim": 4, "v_head_dim": 4, "num_key_value_heads": 2}

# A name, the model_type, and the numbers of the config.
CASES = [
    ("gpt_neox", "gpt_neox", H | {"rope_parameters": {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5}}),
    ("gpt_neox, one after the other", "gpt_neox", H | {"use_parallel_residual": False, "attention_bias": False, "hidden_act": "relu"} | APART),
    ("gpt_neox_japanese", "gpt_neox_japanese", H | {"num_hidden_layers": 2, "intermediate_multiple_size": 2} | APART),
    ("persimmon", "persimmon", H),
    ("gptj", "gptj", G | {"rotary_dim": 2}),
    ("codegen", "codegen", G | {"n_head": 4, "rotary_dim": 2}),
    ("gpt_bigcode", "gpt_bigcode", G),
    ("gpt_bigcode, with all heads", "gpt_bigcode", G | {"multi_query": False, "scale_attn_weights": False}),
    ("openai-gpt", "openai-gpt", G | APART),
    ("bloom", "bloom", N | {"hidden_size": 12, "n_layer": 1, "n_head": 3} | APART),
    ("mpt", "mpt", N | {"d_model": 12, "n_layers": 1, "n_heads": 3, "max_seq_len": 16, "attn_config": {"clip_qkv": 0.5, "softmax_scale": 0.3}} | APART),
    (
        "dbrx",
        "dbrx",
        N | {"d_model": 8, "n_layers": 1, "n_heads": 2, "max_seq_len": 16, "attn_config": {"clip_qkv": 0.5, "kv_n_heads": 1, "rope_theta": 100.0}}
        | {"ffn_config": {"ffn_hidden_size": 12, "moe_num_experts": 4, "moe_top_k": 2}},
    ),
    ("bitnet", "bitnet", H | {"num_key_value_heads": 1}),
    ("opt", "opt", H | {"ffn_dim": 12}),
    ("opt, narrow and normed last", "opt", H | {"ffn_dim": 12, "word_embed_proj_dim": 6, "do_layer_norm_before": False} | APART),
    ("opt, bare", "opt", H | {"ffn_dim": 12, "enable_bias": False, "layer_norm_elementwise_affine": False}),
    ("biogpt", "biogpt", H | APART),
    ("xglm", "xglm", N | {"d_model": 10, "num_layers": 1, "attention_heads": 2, "ffn_dim": 12, "max_position_embeddings": 16}),
    ("xglm, with attention to an encoder", "xglm", N | {"d_model": 8, "num_layers": 1, "attention_heads": 2, "ffn_dim": 12, "add_cross_attention": True} | APART),
    ("ctrl", "ctrl", G | {"dff": 12} | APART),
    ("ctrl, tied", "ctrl", G | {"dff": 12}),
    ("modernbert-decoder", "modernbert-decoder", H | {"num_hidden_layers": 2, "local_attention": 4}),
    (
        "modernbert-decoder, with biases",
        "modernbert-decoder",
        H | {"num_hidden_layers": 2, "attention_bias": True, "mlp_bias": True, "norm_bias": True, "classifier_bias": True} | APART,
    ),
    ("bert, an encoder", "bert", E),
    ("bert, a decoder", "bert", E | DECODER | APART),
    ("roberta, a decoder", "roberta", E | DECODER | {"pad_token_id": 4, "hidden_act": "relu"} | APART),
    ("electra", "electra", E | DECODER | {"embedding_size": 6} | APART),
    ("ernie", "ernie", E | {"use_task_id": True}),
    ("rembert", "rembert", E | DECODER | {"input_embedding_size": 6, "output_embedding_size": 10}),
    ("roberta-prelayernorm", "roberta-prelayernorm", E | DECODER),
    ("roc_bert", "roc_bert", E | DECODER | ROC),
    ("roformer", "roformer", E | DECODER | {"embedding_size": 6}),
    ("megatron-bert", "megatron-bert", E),
    ("data2vec-text", "data2vec-text", E | {"hidden_act": "relu"}),
    ("bert-generation", "bert-generation", H | DECODER),
    ("bert-generation, untied", "bert-generation", H | APART),
    ("xlm-roberta-xl", "xlm-roberta-xl", E | DECODER),
    ("big_bird", "big_bird", E | {"rescale_embeddings": True}),
    ("bart", "bart", D | APART),
    ("mbart", "mbart", D | {"scale_embedding": True}),
    ("marian", "marian", D | {"decoder_vocab_size": 13}),
    ("pegasus", "pegasus", D),
    ("blenderbot-small", "blenderbot-small", D),
    ("bigbird_pegasus", "bigbird_pegasus", D),
    ("plbart", "plbart", D),
    ("trocr", "trocr", ALONE | APART),
    ("whisper", "whisper", WHISPER),
    ("cpmant", "cpmant", {"vocab_size": 13, "hidden_size": 8, "num_attention_heads": 2, "dim_head": 4, "dim_ff": 12, "num_hidden_layers": 1, "segment_types": 3, "position_bias_num_buckets": 4, "prompt_length": 2, "prompt_types": 4}),
    ("prophetnet", "prophetnet", N | {"hidden_size": 8, "num_decoder_layers": 1, "num_encoder_layers": 1, "num_decoder_attention_heads": 2, "num_encoder_attention_heads": 2, "decoder_ffn_dim": 12, "encoder_ffn_dim": 12, "max_position_embeddings": 16, "num_buckets": 4} | APART),
    ("prophetnet, tied", "prophetnet", N | {"hidden_size": 8, "num_decoder_layers": 1, "num_encoder_layers": 1, "num_decoder_attention_heads": 2, "num_encoder_attention_heads": 2, "decoder_ffn_dim": 12, "encoder_ffn_dim": 12, "max_position_embeddings": 16, "num_buckets": 4}),
    ("bamba", "bamba", K | M | {"num_hidden_layers": 2, "attn_layer_indices": [1], "mlp_bias": True}),
    ("nemotron_h", "nemotron_h", LAYERED | {"layers_block_type": [L, "moe", F, "mlp"], "mamba_num_heads": 4, "mamba_head_dim": 4, "ssm_state_size": 4, "n_groups": 2, "conv_kernel": 3, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "n_shared_experts": 1, "moe_intermediate_size": 8, "moe_shared_expert_intermediate_size": 10, "moe_latent_size": 4, "time_step_min": 0.01, "attention_bias": True}),
    ("falcon_h1", "falcon_h1", K | {"mamba_n_heads": 4, "mamba_d_head": 4, "mamba_d_ssm": 16, "mamba_d_state": 4, "mamba_n_groups": 2, "mamba_d_conv": 3, "mamba_rms_norm": True, "mlp_bias": True, "attention_in_multiplier": 0.8, "attention_out_multiplier": 1.3, "embedding_multiplier": 1.5, "key_multiplier": 0.7, "lm_head_multiplier": 0.6, "mlp_multipliers": [0.9, 1.2], "ssm_in_multiplier": 1.1, "ssm_out_multiplier": 0.85, "ssm_multipliers": [0.7, 1.3, 0.9, 1.1, 0.8]}),
    ("falcon_mamba", "falcon_mamba", N | {"hidden_size": 8, "num_hidden_layers": 1, "state_size": 4, "intermediate_size": 16, "time_step_rank": 3, "conv_kernel": 3}),
    ("kimi_linear", "kimi_linear", K | {"num_hidden_layers": 2, "linear_num_heads": 2, "linear_head_dim": 4, "layer_types": [L, F], "mlp_layer_types": ["dense", "sparse"], "num_experts": 4, "num_experts_per_token": 2, "moe_intermediate_size": 8, "kv_lora_rank": 4, "qk_rope_head_dim": 2, "qk_nope_head_dim": 4, "v_head_dim": 4, "num_expert_group": 1, "topk_group": 1, "num_key_value_heads": 2}),
    ("bailing_hybrid", "bailing_hybrid", K | {"num_hidden_layers": 2, "layer_group_size": 2, "num_key_value_heads": 2, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "kv_lora_rank": 4, "q_lora_rank": 4, "attention_bias": True, "use_qkv_bias": True, "use_bias": True, "qk_rope_head_dim": 2, "qk_nope_head_dim": 4, "v_head_dim": 4, "linear_num_heads": 2, "linear_head_dim": 4}),
    ("olmo_hybrid", "olmo_hybrid", H | {"num_hidden_layers": 2, "layer_types": [L, F], "linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_key_head_dim": 4, "linear_value_head_dim": 4, "linear_conv_kernel_dim": 3} | APART),
    ("lfm3", "lfm3", K | {"num_hidden_layers": 2, "layer_types": ["conv", F]}),
    ("minimax", "minimax", K | {"num_hidden_layers": 2, "layer_types": [L, F], "num_local_experts": 3, "num_experts_per_tok": 2, "block_size": 2, "full_attn_alpha_factor": 1.2, "linear_attn_beta_factor": 1.1, "mlp_beta_factor": 0.8}),
    ("minimax_m3_vl_text", "minimax_m3_vl_text", K | {"num_hidden_layers": 2, "layer_types": [F, "minimax_m3_sparse"], "mlp_layer_types": ["dense", "sparse"], "num_local_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "dense_intermediate_size": 12, "shared_intermediate_size": 6, "index_block_size": 2, "index_topk_blocks": 2, "index_head_dim": 4, "index_n_heads": 1, "rotary_dim": 2}),
    ("recurrent_gemma", "recurrent_gemma", H | {"num_key_value_heads": 1, "num_hidden_layers": 3, "lru_width": 8, "attention_window_size": 3, "conv1d_width": 3, "attention_bias": True}),
    ("diffllama", "diffllama", H | {"num_attention_heads": 4, "num_key_value_heads": 2}),
    ("moshi", "moshi", H | {"ffn_dim": 12, "num_key_value_heads": 2}),
    ("kolibri1", "kolibri1", K | {"num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 8}),
    ("xlstm", "xlstm", N | {"hidden_size": 8, "embedding_dim": 8, "num_heads": 2, "num_hidden_layers": 1, "num_blocks": 1, "use_bias": True}),
    ("rwkv", "rwkv", N | {"hidden_size": 8, "num_hidden_layers": 2, "attention_hidden_size": 8, "context_length": 16}),
    ("deepseek_v4", "deepseek_v4", K | {"num_hidden_layers": 3, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "o_groups": 2, "o_lora_rank": 4, "q_lora_rank": 4, "hc_mult": 2, "index_n_heads": 2, "index_head_dim": 4, "index_topk": 2, "qk_rope_head_dim": 2}),
    ("jetmoe", "jetmoe", H | {"kv_channels": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 3, "num_experts_per_tok": 2}),
    ("doge", "doge", H | {"num_key_value_heads": 1, "keep_window_size": 4}),
    ("doge, experts, refused", "doge", H | {"num_key_value_heads": 1, "keep_window_size": 3, "is_moe": True, "num_experts": 4, "num_experts_per_tok": 2}),
    ("inkling_text", "inkling_text", K | {"num_hidden_layers": 2, "swa_num_attention_heads": 2, "swa_num_key_value_heads": 1, "swa_head_dim": 4, "sliding_window_size": 3, "rel_extent": 3, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8}),
    ("glm_moe_dsa", "glm_moe_dsa", K | {"head_dim": 2, "num_key_value_heads": 2, "num_hidden_layers": 2, "mlp_layer_types": ["dense", "sparse"], "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "kv_lora_rank": 4, "q_lora_rank": 4, "qk_rope_head_dim": 2, "qk_nope_head_dim": 4, "v_head_dim": 4, "n_group": 1, "topk_group": 1, "index_n_heads": 2, "index_head_dim": 4, "index_topk": 2}),
    ("gpt_neo", "gpt_neo", N | {"hidden_size": 8, "num_layers": 2, "attention_types": [[["global", "local"], 1]], "num_heads": 2, "intermediate_size": 12, "window_size": 3, "max_position_embeddings": 16}),
    ("lara_mini", "lara_mini", K | {"num_hidden_layers": 3, "layer_types": [L, "sliding_attention", F], "linear_num_key_heads": 1, "linear_num_value_heads": 2, "linear_key_head_dim": 4, "linear_value_head_dim": 4, "linear_conv_kernel_dim": 3, "sliding_window": 3, "num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "shared_expert_intermediate_size": 6}),
    ("glm4_moe_lite", "glm4_moe_lite", H | LATENT | {"num_hidden_layers": 2, "mlp_layer_types": ["dense", "sparse"], "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8}),
    ("youtu", "youtu", H | LATENT | {"pad_token_id": None}),  # the class sets the vector of that token to 0
    ("axk1", "axk1", H | LATENT | {"num_hidden_layers": 2, "mlp_layer_types": ["dense", "sparse"], "n_routed_experts": 4, "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 8}),
    ("sarvam_mla", "sarvam_mla", H | LATENT | {"num_hidden_layers": 2, "first_k_dense_replace": 1, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "q_lora_rank": None}),
    ("xlnet", "xlnet", N | {"d_model": 8, "n_layer": 1, "n_head": 2, "d_inner": 12} | APART),
    ("xlm", "xlm", {"n_words": 13, "emb_dim": 8, "n_layers": 1, "n_heads": 2, "max_position_embeddings": 16, "pad_index": 0, "bos_index": 1, "eos_index": 2, "n_langs": 2} | APART),
    ("dory", "dory", K | {"num_hidden_layers": 2, "layer_types": ["sliding_attention", F], "n_input_layers": 1, "n_output_layers": 1, "n_recurrent_layers": 0}),
    ("hrm_text", "hrm_text", H | {"head_dim": 4, "num_layers_per_stack": 1, "H_cycles": 1, "L_cycles": 1, "L_bp_cycles": [1]}),
    ("hy_v4", "hy_v4", H | LATENT | {"head_dim": 2, "num_key_value_heads": 2, "num_hidden_layers": 2, "mlp_layer_types": ["dense", "sparse"], "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "hc_mult": 2, "index_n_heads": 2, "index_head_dim": 4, "index_topk": 2}),
    ("distilbert", "distilbert", SMALL | {"hidden_dim": 12, "activation": "relu"} | APART),
    ("mpnet", "mpnet", H | {"pad_token_id": 1} | APART),
    ("eurobert", "eurobert", H | {"num_key_value_heads": 1, "head_dim": 4, "mask_token_id": 3, "attention_bias": True, "mlp_bias": True} | APART),
    ("esm", "esm", H | {"pad_token_id": 1, "mask_token_id": 11, "position_embedding_type": "rotary", "token_dropout": True}),
    ("esm, with learned positions", "esm", H | {"pad_token_id": 1, "mask_token_id": 3, "emb_layer_norm_before": True} | APART),
    ("gte", "gte", H | {"type_vocab_size": 2, "hidden_act": "relu"} | APART),
    ("m2m_100", "m2m_100", D | {"pad_token_id": 1, "encoder_attention_heads": 4}),
    ("m2m_100, with embeddings of each part", "m2m_100", D | {"pad_token_id": 1} | APART),
    ("jina_embeddings_v3", "jina_embeddings_v3", H | {"type_vocab_size": 1, "hidden_act": "relu"}),
    ("ibert", "ibert", E | {"pad_token_id": 1} | APART),
    ("longformer", "longformer", E | {"pad_token_id": 1, "attention_window": 4}),
    ("luke", "luke", E | {"pad_token_id": 1, "entity_vocab_size": 3, "entity_emb_size": 6}),
    ("xmod", "xmod", E | {"languages": ["en_XX", "de_DE"], "default_language": "en_XX"}),
    ("layoutlm", "layoutlm", E | {"max_2d_position_embeddings": 4}),
    ("tapas", "tapas", E | {"type_vocab_sizes": [3, 4, 4, 2, 4, 4, 3]}),
    ("yoso", "yoso", E | {"conv_window": 3}),
    ("mra", "mra", E),
    ("nystromformer", "nystromformer", E | {"num_landmarks": 5, "segment_means_seq_len": 5, "conv_kernel_size": 3}),
    ("fnet", "fnet", E),
    ("squeezebert", "squeezebert", E | {"embedding_size": 8}),
    ("flaubert", "flaubert", {"vocab_size": 13, "emb_dim": 8, "n_layers": 1, "n_heads": 2, "max_position_embeddings": 16, "pad_token_id": 0}),
    ("esmc", "esmc", H),
    ("deberta-v2, with ranges of distances", "deberta-v2", H | {"type_vocab_size": 0, "relative_attention": True, "position_buckets": 4, "max_relative_positions": 8, "share_att_key": True, "norm_rel_ebd": "layer_norm", "position_biased_input": False, "pos_att_type": ["p2c", "c2p"]}),
    ("deberta-v2, with matrices of distances", "deberta-v2", E | {"relative_attention": True, "max_relative_positions": 3, "pos_att_type": ["p2c", "c2p"], "legacy": False} | APART),
    ("deberta-v2, with a convolution, refused", "deberta-v2", E | {"relative_attention": True, "position_buckets": 4, "share_att_key": True, "pos_att_type": ["c2p"], "conv_kernel_size": 3}),
    ("deberta", "deberta", E | {"relative_attention": True, "max_relative_positions": 4, "pos_att_type": ["c2p", "p2c"]}),
    ("deberta, by distances of queries alone", "deberta", H | {"type_vocab_size": 0, "relative_attention": True, "position_biased_input": False, "pos_att_type": ["c2p"]}),
    ("albert", "albert", E | {"embedding_size": 6, "num_hidden_layers": 4, "num_hidden_groups": 2}),
    ("albert, of one group", "albert", E | {"embedding_size": 6, "num_hidden_layers": 2}),
    ("llama, with a key of ALBERT", "llama", K | {"num_hidden_layers": 2, "num_hidden_groups": 1}),
    ("deberta-v2, of few ranges", "deberta-v2", H | {"type_vocab_size": 0, "relative_attention": True, "position_buckets": 3, "max_relative_positions": 8, "share_att_key": True, "pos_att_type": "C2P|P2C"}),
    ("deberta-v2, of one range, refused", "deberta-v2", H | {"relative_attention": True, "position_buckets": 5, "max_relative_positions": 3, "share_att_key": True, "pos_att_type": ["c2p"]}),
    ("deberta, with a further word", "deberta", H | {"relative_attention": True, "max_relative_positions": 4, "share_att_key": True, "pos_att_type": ["c2p", "p2c", "p2p"]}),
    ("hunyuan_v1_moe, with numbers of experts by layer", "hunyuan_v1_moe", K | {"num_hidden_layers": 2, "num_experts": 4, "moe_topk": [1, 2]}),
    ("blenderbot-small, scaled, with its encoder", "blenderbot-small", D | {"scale_embedding": True}),
    ("longt5", "longt5", T),
    ("longt5, with means of blocks", "longt5", T | {"encoder_attention_type": "transient-global", "feed_forward_proj": "gated-gelu"}),
    ("fsmt", "fsmt", {key: value for key, value in D.items() if key != "vocab_size"} | {"src_vocab_size": 13, "tgt_vocab_size": 13, "langs": ["en", "de"]} | APART),
    ("led", "led", {key: value for key, value in D.items() if key != "max_position_embeddings"} | {"max_encoder_position_embeddings": 16, "max_decoder_position_embeddings": 16, "attention_window": 4}),
    ("pegasus_x", "pegasus_x", D | {"num_global_tokens": 2, "block_size": 2}),
    ("bart, with its encoder", "bart", D),
    ("bart, untied, with its encoder", "bart", D | {"encoder_attention_heads": 4, "encoder_ffn_dim": 10} | APART),
    ("mbart, with its encoder", "mbart", D | {"scale_embedding": True}),
    ("marian, with its encoder", "marian", D | {"decoder_vocab_size": 13, "decoder_start_token_id": 0}),
    ("pegasus, with its encoder", "pegasus", D),
    ("blenderbot, with its encoder", "blenderbot", D),
    ("blenderbot-small, with its encoder", "blenderbot-small", D),
    ("plbart, with its encoder", "plbart", D),
    ("mvp, with its encoder", "mvp", D),
    # Drawn by draws.py: what a field changes, alone.
    ("gemma, with another activation", "gemma", H | HEADS | {"hidden_act": "silu"}),
    ("gemma2, with another activation", "gemma2", H | HEADS | {"hidden_activation": "relu", "query_pre_attn_scalar": 4}),
    ("gemma3_text, with a bound of scores that the class ignores", "gemma3_text", H | HEADS | {"attn_logit_softcapping": 0.5, "query_pre_attn_scalar": 4}),
    ("falcon, with another activation", "falcon", H | {"activation": "relu"}),
    ("mamba, with another activation", "mamba", N | {"hidden_size": 8, "num_hidden_layers": 1, "state_size": 4, "time_step_rank": 2, "hidden_act": "relu"}),
    ("whisper, with another activation", "whisper", WHISPER | {"activation_function": "relu"}),
    ("deepseek_v3, rotated in halves", "deepseek_v3", H | GROUPS | {"rope_interleave": False}),
    ("deepseek_v3, unnormalized", "deepseek_v3", H | GROUPS | {"norm_topk_prob": False, "routed_scaling_factor": 1.5}),
    ("gpt_oss, with YaRN that is rounded", "gpt_oss", H | HEADS | EXPERTS | {"rope_parameters": YARN}),
    ("gpt_oss, with the class's YaRN", "gpt_oss", H | HEADS | EXPERTS | {"swiglu_limit": 0.5}),
    ("smollm3, with listed windows", "smollm3", H | {"num_key_value_heads": 1, "layer_types": ["sliding_attention"], "sliding_window": 2}),
    ("flint, with layers that the class chooses", "flint", K | {"num_hidden_layers": 4, "sliding_window": 2, "mlp_only_layers": [0, 1, 2], "num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 4, "shared_expert_intermediate_size": 4}),
    ("mellum, with layers that the class chooses", "mellum", K | {"sliding_window": 2, "num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 4}),
    ("modernbert-decoder, with layers that the class chooses", "modernbert-decoder", H | {"num_hidden_layers": 2, "sliding_window": 2}),
    ("deepseek_v2, with groups that it does not use", "deepseek_v2", H | GROUPS | {"topk_method": "greedy"}),
    ("deepseek_v3, with fewer experts in the chosen groups than for each token, refused", "deepseek_v3", H | GROUPS | {"num_experts_per_tok": 3}),
    ("aria_text, with another activation, refused", "aria_text", H | {"num_key_value_heads": 1, "moe_num_experts": 4, "moe_topk": 2, "hidden_act": "gelu"}),
    ("ministral3, with rotary embeddings that the class chooses", "ministral3", K),
    ("nemotron, with rotary embeddings that the class chooses", "nemotron", H | {"num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 8}),
    (
        "gemma4_unified_text, rotated in whole",
        "gemma4_unified_text",
        K | {"num_hidden_layers": 2, "layer_types": ["sliding_attention", F], "sliding_window": 3, "global_head_dim": 8, "num_kv_shared_layers": 0}
        | {"rope_parameters": {F: {"rope_type": "default", "rope_theta": 50.0, "partial_rotary_factor": 0.25}, "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}},
    ),
    ("granitemoehybrid, with layers that the class chooses", "granitemoehybrid", H | M | EXPERTS | {"mamba_expand": 2, "shared_intermediate_size": 6, "num_key_value_heads": 1}),
    ("phimoe, with three experts for each token, refused", "phimoe", H | EXPERTS | {"num_key_value_heads": 1, "num_experts_per_tok": 3}),
    ("jetmoe, with numbers that the class ignores", "jetmoe", H | EXPERTS | {"kv_channels": 4, "num_attention_heads": 6, "num_key_value_heads": 1, "rms_norm_eps": 0.1}),
    ("mimo_v2_flash, with an even number of rotated elements", "mimo_v2_flash", K | ROUTED | {"num_hidden_layers": 2, "v_head_dim": 2, "sliding_window": 3, "layer_types": [F, "sliding_attention"], "rope_parameters": {kind: {"rope_type": "default", "rope_theta": theta, "partial_rotary_factor": 0.5} for kind, theta in ((F, 1e4), ("sliding_attention", 1e3))}}),
    ("minimax, with one factor for all parts", "minimax", K | {"num_hidden_layers": 2, "layer_types": [L, F], "num_local_experts": 3, "num_experts_per_tok": 2, "rms_norm_eps": 1e-6} | {f"{part}_alpha_factor": 1.5 for part in ("full_attn", "linear_attn", "mlp")}),
    ("solar_open", "solar_open", K | ROUTED),
    ("sarvam_moe, with a dense layer", "sarvam_moe", K | ROUTED | {"num_hidden_layers": 2, "first_k_dense_replace": 1, "n_shared_experts": 1}),
    ("bailing_hybrid, with layers of both kinds", "bailing_hybrid", H | {"num_hidden_layers": 2, "layer_group_size": 2, "num_key_value_heads": 2, "num_experts": 4, "num_experts_per_token": 2, "moe_intermediate_size": 8, "kv_lora_rank": 4, "q_lora_rank": 4, "qk_rope_head_dim": 2, "qk_nope_head_dim": 4, "v_head_dim": 4}),
    ("minimax_m3_vl_text, with scaled rotary embeddings", "minimax_m3_vl_text", K | {"num_hidden_layers": 2, "layer_types": [F, "minimax_m3_sparse"], "mlp_layer_types": ["dense", "sparse"], "num_local_experts": 3, "num_experts_per_tok": 2, "dense_intermediate_size": 10, "shared_intermediate_size": 24, "index_block_size": 2, "index_topk_blocks": 2, "index_head_dim": 4, "index_n_heads": 1, "rope_parameters": {"rope_type": "linear", "rope_theta": 100.0, "factor": 4.0}}),
    ("falcon with biases of distances, arranged as the class chooses", "falcon", H | {"alibi": True}),
    ("beam, with kinds of layers that the class chooses", "beam", K | {"num_hidden_layers": 3, "sliding_window": 2, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "n_group": 1, "topk_group": 1}),
    ("qwen2_moe, with listed windows that a flag turns off, refused", "qwen2_moe", H | {"num_key_value_heads": 1, "layer_types": ["sliding_attention"], "sliding_window": 2, "num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 4, "shared_expert_intermediate_size": 4}),
    ("smollm3, with windows that the class chooses", "smollm3", H | {"num_hidden_layers": 2, "num_key_value_heads": 1, "no_rope_layer_interval": 2, "use_sliding_window": True, "sliding_window": 2}),
    ("ministral3, with a base that the class does not read", "ministral3", K | {"rope_theta": 50.0}),
    ("gpt_neox, with older numbers that the class does not read", "gpt_neox", H | {"num_attention_heads": 1, "rope_theta": 50.0, "partial_rotary_factor": 1.0, "rope_scaling": {"rope_type": "linear", "factor": 2.0}}),
    ("cohere2_moe, with scaling that the class does not read", "cohere2_moe", K | {"num_experts": 3, "num_experts_per_tok": 2, "sliding_window": 3, "rope_theta": 50.0, "rope_scaling": {"rope_type": "linear", "factor": 2.0}}),
    ("lfm3, with a part that the class does not read", "lfm3", K | {"num_hidden_layers": 2, "layer_types": ["conv", F], "rope_parameters": {kind: {"rope_type": "default", "rope_theta": 50.0, "partial_rotary_factor": 0.5} for kind in (F, "sliding_attention")}}),
    ("minimax_m3_vl_text, with shared experts as wide as the others", "minimax_m3_vl_text", K | {"num_hidden_layers": 2, "layer_types": [F, "minimax_m3_sparse"], "mlp_layer_types": ["dense", "sparse"], "num_local_experts": 3, "num_experts_per_tok": 2, "dense_intermediate_size": 10, "shared_intermediate_size": 24, "index_block_size": 2, "index_topk_blocks": 2, "index_head_dim": 4, "index_n_heads": 1, "rotary_dim": 4}),
    (
        "cohere_compass_text, without rotary embeddings in windows",
        "cohere_compass_text",
        K | {"num_hidden_layers": 2, "layer_types": ["sliding_attention", F], "sliding_window": 3, "logit_scale": 0.25}
        | {"rope_parameters": {F: {"rope_type": "default", "rope_theta": 100.0, "mrope_section": [1, 1, 0]}, "sliding_attention": None}},
    ),
    (
        "axk2",
        "axk2",
        H | LATENT | {"num_hidden_layers": 2, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "gated_norm_rank": 3}
        | {"index_n_heads": 2, "index_head_dim": 4, "index_topk": 2},
    ),
    (
        "dots3_note_text",
        "dots3_note_text",
        H | LATENT | {"head_dim": 6, "num_hidden_layers": 3, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8}
        | {"shared_experts_intermediate_size": 8, "index_n_heads": 2, "index_head_dim": 4, "index_topk": 2, "swa_num_attention_heads": 2}
        | {"swa_num_key_value_heads": 2, "swa_q_lora_rank": 4, "swa_kv_lora_rank": 4, "swa_head_dim": 6, "swa_qk_nope_head_dim": 4, "swa_v_head_dim": 4},
    ),
    (
        "qwen4_exp_text",
        "qwen4_exp_text",
        K | {"num_hidden_layers": 2, "layer_types": [L, "indexed_attention"], "num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 8}
        | {"shared_expert_intermediate_size": 6, "linear_num_key_heads": 1, "linear_num_value_heads": 2, "linear_key_head_dim": 4, "hc_count": 2}
        | {"linear_value_head_dim": 4, "hc_lowrank": 3, "ple_layer_ids": [1], "ngram_vocab_size_base": 5, "split_ngram_parts": 2, "heads_per_ngram": 2}
        | {"make_ngram_vocab_size_divisible_by": 2, "indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 4, "indexer_budget": 4}
        | {"indexer_compress_ratio": 2, "rope_parameters": {"rope_type": "default", "rope_theta": 100.0, "mrope_section": [1, 1, 0]}},
    ),
    (
        "inkling2_text",
        "inkling2_text",
        {key: value for key, value in K.items() if key != "intermediate_size"}
        | {"unpadded_vocab_size": 13, "num_hidden_layers": 2, "layer_types": ["hybrid_sliding", "hybrid"], "swa_num_attention_heads": 2, "swa_num_key_value_heads": 1}
        | {"swa_head_dim": 4, "sliding_window_size": 3, "d_rel": 2, "rel_extent": 3, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8}
        | {"n_layers_per_attn_res_block": 1},
    ),
    (
        "zamba",
        "zamba",
        H | {"num_hidden_layers": 6, "attn_layer_period": 3, "attn_layer_offset": 2, "num_key_value_heads": 2, "n_mamba_heads": 2, "mamba_d_state": 4, "mamba_dt_rank": 3}
        | {"mamba_expand": 2, "attention_hidden_size": 16, "attention_head_dim": 8, "use_mamba_kernels": False},
    ),
    ("zaya", "zaya", K | {"num_hidden_layers": 2, "num_experts": 3, "num_experts_per_tok": 1, "moe_intermediate_size": 8}),
]  # fmt: skip
# A class of each family that is computed, with a config that is drawn.
DRAWN = """
    apertus aria_text arcee cohere2 dots1 ernie4_5_moe exaone/3 exaone4 flex_olmo gemma3n_text/1 glm glm4 gpt2 granitemoeshared hunyuan_v1_dense hunyuan_v1_moe hyperclovax hy_v3 jais2 jamba lfm2
    laguna mamba2 llama4_text minimax_m2 nanochat olmo olmo3/2 phi qwen2/1 qwen3 qwen3_5_moe_text qwen3_moe qwen3_next/1 seed_oss stablelm starcoder2 vaultgemma afmoe cwm granitemoe_swa minicpm3/1
    olmoe qwen2_moe/1 exaone_moe gemma4_unified_text/1 phi3 axk1 bailing_hybrid/1 bamba bart beam/1 bert bert-generation big_bird bigbird_pegasus biogpt bitnet pegasus blenderbot-small bloom
    codegen cohere2_moe/1 ctrl data2vec-text deepseek_v3 diffllama doge electra ernie falcon falcon_h1 falcon_mamba flint gemma gemma2 gemma3_text glm4_moe gpt_bigcode gpt_neo gpt_neox
    gpt_neox_japanese gpt_oss gptj granitemoehybrid helium llama jetmoe/2 kimi_linear/1 kolibri1 lara_mini/1 lfm3 marian mbart megatron-bert mellum mimo_v2_flash minimax modernbert-decoder/1
    moshi/1 mpt nemotron nemotron_h/1 olmo_hybrid/1 openai-gpt opt persimmon phimoe/7 plbart recurrent_gemma rembert roberta-prelayernorm roc_bert rwkv sarvam_moe trocr whisper xglm xlm-roberta-xl
    xlstm sarvam_mla
""".split()
# The same of mlx-lm's classes.
B = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 6, "vocab_size": 13, "rms_norm_eps": 1e-5, "rope_theta": 100.0, "max_position_embeddings": 16}
BK = B | {"num_key_value_heads": 2}
FEW = {"num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 6}
OF_MLX_LM = [
    ("klear", "Klear", BK | FEW | {"num_hidden_layers": 2, "attention_bias": True, "mlp_only_layers": [0], "decoder_sparse_step": 1, "n_shared_experts": 1, "norm_topk_prob": True}),
    (
        "hunyuan",
        "hunyuan",
        BK | FEW | {"hidden_size": 16, "attention_bias": False, "moe_topk": 2, "num_shared_expert": 1, "use_mixed_mlp_moe": True, "use_qk_norm": True}
        | {"use_cla": False, "cla_share_factor": 2, "rope_scaling": {"type": "dynamic", "factor": 1.0, "alpha": 10.0}, "tie_word_embeddings": True},
    ),
    ("plamo, refused", "plamo", B | {"n_shared_head": 1}),
    ("plamo3", "plamo3", BK | {"num_hidden_layers": 2, "head_dim": 4, "window_size": 2, "sliding_window_pattern": 2, "rope_local_theta": 10.0, "tie_word_embeddings": True}),
    ("talkie", "talkie", B | {"num_hidden_layers": 2, "head_dim": 4}),
    (
        "openelm",
        "openelm",
        {"head_dim": 4, "num_transformer_layers": 2, "model_dim": 8, "vocab_size": 13, "ffn_dim_divisor": 2, "num_query_heads": [4, 2], "num_kv_heads": [2, 1]}
        | {"ffn_multipliers": [1.0, 2.0], "rope_freq_constant": 100, "share_input_output_layers": False, "rms_norm_eps": 1e-6},
    ),
    ("phixtral", "phi-msft", {"num_vocab": 13, "model_dim": 8, "num_heads": 2, "num_layers": 2, "rotary_dim": 2, "num_experts_per_tok": 2, "num_local_experts": 3}),
    ("phi3small, refused", "phi3small", {"hidden_size": 8, "dense_attention_every_n_layers": 2, "ff_intermediate_size": 6, "gegelu_limit": 20.0, "num_hidden_layers": 1, "num_attention_heads": 4, "layer_norm_epsilon": 1e-5, "vocab_size": 13, "num_key_value_heads": 2}),
    ("iquestloopcoder, refused", "iquestloopcoder", BK | {"head_dim": 4, "loop_num": 2}),
    ("baichuan_m1, refused", "baichuan_m1", BK | {"sliding_window": 3, "sliding_window_layers": [], "conv_window": 2}),
    (
        "nemotron-nas",
        "nemotron-nas",
        B | {"num_hidden_layers": 3}
        | {"block_configs": [{"attention": {"n_heads_in_group": 2}, "ffn": {"ffn_mult": 1.0}}, {"attention": {"no_op": True}, "ffn": {"ffn_mult": 1.0}}, {"attention": {"n_heads_in_group": 4}, "ffn": {"no_op": True}}]},
    ),
    ("nemotron-nas, with an empty layer", "nemotron-nas", B | {"num_hidden_layers": 2, "block_configs": [{"attention": {"no_op": True}, "ffn": {"no_op": True}}, {"attention": {"n_heads_in_group": 2}, "ffn": {"ffn_mult": 1.0}}]}),
    (
        "longcat_flash, refused",
        "longcat_flash",
        {"attention_method": "MLA", "zero_expert_type": "identity", "hidden_size": 8, "ffn_hidden_size": 6, "moe_topk": 1, "expert_ffn_hidden_size": 6, "n_routed_experts": 2}
        | {"zero_expert_num": 1, "num_layers": 1, "vocab_size": 13, "max_position_embeddings": 16, "num_attention_heads": 2, "kv_lora_rank": 4, "q_lora_rank": 5}
        | {"qk_rope_head_dim": 2, "qk_nope_head_dim": 2, "v_head_dim": 3, "routed_scaling_factor": 2.0, "rms_norm_eps": 1e-5, "rope_theta": 100.0}
        | {"mla_scale_q_lora": True, "mla_scale_kv_lora": True, "attention_bias": False, "router_bias": True},
    ),
    (
        "longcat_flash_ngram, refused",
        "longcat_flash_ngram",
        {"attention_method": "MLA", "zero_expert_type": "identity", "hidden_size": 8, "ffn_hidden_size": 6, "moe_topk": 1, "expert_ffn_hidden_size": 6, "n_routed_experts": 2}
        | {"zero_expert_num": 1, "num_layers": 1, "vocab_size": 13, "max_position_embeddings": 16, "num_attention_heads": 2, "kv_lora_rank": 4, "q_lora_rank": 5}
        | {"qk_rope_head_dim": 2, "qk_nope_head_dim": 2, "v_head_dim": 3, "routed_scaling_factor": 2.0, "rms_norm_eps": 1e-5, "rope_theta": 100.0}
        | {"mla_scale_q_lora": True, "mla_scale_kv_lora": True, "attention_bias": False, "router_bias": True, "ngram_vocab_size_ratio": 2}
        | {"emb_neighbor_num": 2, "emb_split_num": 2},
    ),
    (
        "deepseek_v41, refused",
        "deepseek_v41",
        {"vocab_size": 13, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 4, "q_lora_rank": 5, "qk_rope_head_dim": 2, "o_groups": 2}
        | {"o_lora_rank": 3, "moe_intermediate_size": 6, "n_routed_experts": 2, "num_experts_per_tok": 1, "sliding_window": 3, "compress_ratios": [0, 2], "hc_mult": 2}
        | {"kv_source_layer_ids": [1], "index_source_layer_ids": [1], "index_n_heads": 2, "index_head_dim": 4, "index_topk": 2},
    ),
    (
        "rwkv7, refused",
        "rwkv7",
        {"vocab_size": 13, "hidden_size": 8, "intermediate_size": 6, "norm_eps": 1e-5, "head_dim": 4, "num_hidden_layers": 2, "a_low_rank_dim": 3, "v_low_rank_dim": 3}
        | {"gate_low_rank_dim": 3, "decay_low_rank_dim": 3},
    ),
    (
        "muse_glimmer",
        "muse_glimmer",
        BK | {"num_hidden_layers": 2, "head_dim": 4, "layer_types": ["sliding_attention", F], "sliding_window": 3, "post_norm_eps": 1e-3, "qk_scale_factor": 1.5}
        | {"final_logit_softcapping": 20.0, "output_multiplier": 0.5, "tie_word_embeddings": False},
    ),
]  # fmt: skip
# Models that denoise a text as a whole, and the classes that compute the same with a causal mask.
WITHOUT_MASK = [
    ("Dream", "qwen2", H | {"num_key_value_heads": 1, "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": False}),
    ("rnd1", "qwen3_moe", H | {"num_key_value_heads": 1, "head_dim": 4, "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": False, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "norm_topk_prob": True}),
]
TOKENS = [5, 7, 4, 11, 7]
# The positions whose logits are kept.
LAST = 2
# The weights of a drawn model.
MOST = 800_000
# Classes whose names alone are known.
NAMED = ("cpmant", "prophetnet", "deepseek_v4", "inkling_text", "glm_moe_dsa", "xlnet", "xlm", "dory", "hrm_text", "hy_v4", "xmod", "yoso", "mra", "nystromformer", "fnet", "squeezebert", "longt5", "led", "fsmt", "pegasus_x", "axk2", "dots3_note_text", "qwen4_exp_text", "inkling2_text", "zamba", "zaya")
# What a class computes, although it is stored.
COMPUTED = ("encoder.embed_positions.weight", "slope_rate", "query_decay", "key_decay", "diagonal_decay", "inv_freq", "layer_multipliers", "ngram_heads_offsets", "ngram_heads_vocab_sizes")


def values(name, shape):
    """The values of a tensor, which nothing but its name decides."""
    state, all_bits = 0xCBF29CE484222325, (1 << 64) - 1
    for byte in name.encode():
        state = (state ^ byte) * 0x100000001B3 & all_bits
    found = []
    for _ in range(int(np.prod(shape, dtype=np.int64))):
        state = (state * 6364136223846793005 + 1442695040888963407) & all_bits
        found.append((state >> 40) / (1 << 23) - 1)
    return np.array(found, dtype=np.float32).reshape(shape)


def case(name, model_type, numbers, folder):
    config = transformers.CONFIG_MAPPING[model_type](**copy.deepcopy(numbers))
    of = transformers.AutoModelForCausalLM
    if type(config) not in of._model_mapping or name.endswith("with its encoder"):
        of = transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModelForMaskedLM
    of.from_config(config).save_pretrained(folder)
    stored = load_file(folder / "model.safetensors")
    # An encoder beside a decoder has learned ones.
    computed = {} if name.endswith("with its encoder") else {key: array for key, array in stored.items() if key.endswith(COMPUTED)}
    stored = {key: values(key, array.shape) for key, array in stored.items() if key not in computed}
    save_file(stored | computed, folder / "model.safetensors", {"format": "pt"})
    # Falcon's eager attention rounds biases of distances to bf16.
    attention = "sdpa" if model_type == "falcon" else "eager"
    model = of.from_pretrained(folder, attn_implementation=attention).float().eval()
    with torch.no_grad():
        tokens = torch.tensor([TOKENS])
        more = {} if of is transformers.AutoModelForMaskedLM else {"use_cache": False}
        if of is transformers.AutoModelForSeq2SeqLM:
            more["decoder_input_ids"] = tokens
        logits = model(input_ids=tokens, **more).logits[0].numpy()
    assert np.isfinite(logits).all() and logits.std() > 1e-3, name
    stated = config.to_diff_dict() | {"architectures": [type(model).__name__]}
    training = ("init", "summary_", "mask_", "use_cache", "transformers_version", "dtype", "chunk_size", "time_step_limit")
    skipped = [key for key in stated if key.startswith(training) or "drop" in key or key.endswith(("bos_token_id", "eos_token_id", "start_token_id"))]
    skipped = [key for key in skipped if key not in ("token_dropout", "mask_token_id")]
    if name.endswith("the class chooses"):
        skipped += ["layer_types", "rope_parameters", "parallel_attn"]
    older = {key: numbers[key] for key in ("rope_theta", "partial_rotary_factor", "rope_scaling") if key in numbers}
    skipped += ["rope_parameters"] if older else []
    # Some classes change a window.
    stated |= older | {key: numbers[key] for key in ("sliding_window", "pos_att_type") if key in numbers}
    return {
        "name": name,
        "config": {key: value for key, value in stated.items() if key not in skipped},
        "tensors": {key: list(array.shape) for key, array in sorted(stored.items())},
        "logits": [] if model_type in NAMED or name.endswith("refused") else [[float(f"{value:.5g}") for value in row] for row in logits[-LAST:].tolist()],
    }


def drawn(word, folder):
    """A case whose config is drawn: the first of which the class makes a model with logits that other roundings do not change."""
    r, name = random.Random(word), word.split("/")[0]
    while True:
        numbers = draws.draw(name, r) | {"vocab_size": 13}
        try:
            model, _ = draws.build(name, numbers, 0)
            if sum(weight.numel() for weight in model.parameters()) > MOST:
                continue
            found = case(f"{name}, drawn", name, numbers, folder)
            # What the class makes of the stated keys alone.
            (folder / "config.json").write_text(json.dumps(found["config"]))
            exact = [logits[-LAST:] for logits in draws.doubled(folder, TOKENS)]
        except Exception:
            continue
        if all(np.abs(logits - found["logits"]).max() < 1e-4 * logits.std() for logits in exact):
            return found


def case_of_mlx_lm(name, model_type, numbers):
    config = {"model_type": model_type} | numbers
    of, arguments = mlx_lm.utils._get_classes(config)
    model = of(arguments.from_dict(json.loads(json.dumps(config))))
    shapes = {key: array.shape for key, array in tree_flatten(model.parameters()) if not key.split(".")[-1].startswith("_")}
    logits = []
    if not name.endswith("refused"):
        model.update(tree_unflatten([(key, mx.array(values(key, shape))) for key, shape in shapes.items()]))
        logits = np.array(model(mx.array([TOKENS])))[0]
        assert np.isfinite(logits).all() and logits.std() > 1e-3, name
    return {
        "name": name,
        "config": config,
        "tensors": {key: list(shape) for key, shape in sorted(shapes.items())},
        "logits": [[float(f"{value:.5g}") for value in row] for row in np.asarray(logits)[-LAST:].tolist()],
    }


def case_without_mask(model_type, of, numbers):
    """A model that denoises a text as a whole. Its class is code of its publisher, and computes what a causal class does without the mask."""
    config = transformers.CONFIG_MAPPING[of](**copy.deepcopy(numbers), attn_implementation="eager")
    model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        shapes = {key: list(array.shape) for key, array in load_file(Path(folder) / "model.safetensors").items()}
        save_file({key: values(key, shape) for key, shape in shapes.items()}, Path(folder) / "model.safetensors", {"format": "pt"})
        model = type(model).from_pretrained(folder, attn_implementation="eager").float().eval()
    with torch.no_grad():
        mask = torch.zeros(1, 1, len(TOKENS), len(TOKENS))
        logits = model(input_ids=torch.tensor([TOKENS]), attention_mask=mask, use_cache=False).logits[0]
    return {
        "name": model_type,
        "config": {"model_type": model_type} | numbers,
        "tensors": dict(sorted(shapes.items())),
        "logits": [[float(f"{value:.5g}") for value in row] for row in logits[-LAST:].tolist()],
    }


def case_of_codeshell():
    """CodeShell's class is code of its publisher. StarCoder 2's computes the same, with q, k and v apart and other names."""
    heads, keys, layers = 4, 2, 2
    config = {
        "model_type": "kclgpt", "architectures": ["CodeShellForCausalLM"], "vocab_size": 13, "n_embd": 16, "n_layer": layers, "n_head": heads, "n_positions": 32,
        "n_inner": None, "num_query_groups": keys, "group_query_attention": True, "position_embedding_type": "rope", "rope_scaling": None,
        "activation_function": "gelu_pytorch_tanh", "layer_norm_epsilon": 1e-5, "scale_attn_weights": True,
    }
    width, of_keys = 16, 16 // heads * keys
    shapes = {"lm_head.weight": [13, width], "transformer.ln_f.weight": [width], "transformer.ln_f.bias": [width]}
    for layer in range(layers):
        for module, shape in (
            ("ln_1", [width]), ("ln_2", [width]), ("attn.c_attn", [width + 2 * of_keys, width]), ("attn.c_proj", [width, width]),
            ("mlp.c_fc", [4 * width, width]), ("mlp.c_proj", [width, 4 * width]),
        ):
            name = f"transformer.h.{layer}.{module}"
            shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    names = {
        "lm_head": "lm_head", "transformer.ln_f": "model.norm", "transformer.h": "model.layers", "ln_1": "input_layernorm", "ln_2": "post_attention_layernorm",
        "attn.c_proj": "self_attn.o_proj", "attn.c_attn": "self_attn.c_attn",
    }
    weights = {}
    for key, shape in shapes.items():
        array = torch.from_numpy(values(key, shape))
        for own, other in names.items():
            key = key.replace(own, other)
        parts = zip("qkv", array.split([width, of_keys, of_keys])) if "c_attn" in key else [("", array)]
        weights |= {key.replace("c_attn", f"{part}_proj"): values_of for part, values_of in parts}
    model = transformers.Starcoder2ForCausalLM(transformers.Starcoder2Config(
        vocab_size=13, hidden_size=width, intermediate_size=4 * width, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=keys,
        max_position_embeddings=32, norm_epsilon=1e-5, sliding_window=None, pad_token_id=0, tie_word_embeddings=True,
    )).eval()
    missing, unknown = model.load_state_dict(weights | {"model.embed_tokens.weight": weights["lm_head.weight"]}, strict=False)
    assert not missing and not unknown, (missing, unknown)
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([TOKENS]), use_cache=False).logits[0]
    return {
        "name": "kclgpt, with the embedding stored as the output matrix",
        "config": config,
        "tensors": dict(sorted(shapes.items())),
        "logits": [[float(f"{value:.5g}") for value in row] for row in logits[-LAST:].tolist()],
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else made)
        found = [case(*row, folder / str(number)) for number, row in enumerate(CASES)]
        found += [drawn(name, folder / name) for name in DRAWN]
    found += [case_of_mlx_lm(*row) for row in OF_MLX_LM]
    found += [case_of_codeshell(), *(case_without_mask(*row) for row in WITHOUT_MASK)]
    about = f"transformers {transformers.__version__}, mlx-lm {mlx_lm.__version__}, xtask/oracles/classes.py"
    lines = ",\n".join(json.dumps(row, separators=(",", ":"), allow_nan=False) for row in found)
    path = Path(__file__).resolve().parents[2] / "tests/data/classes.json"
    path.write_text(f'{{"source":"{about}","tokens":{TOKENS},"cases":[\n{lines}\n]}}\n')
    print(f"{len(found)} cases, {path.stat().st_size} bytes")
