"""Makes a checkpoint with the shapes of DeepSeek V3 and no content: 671 billion weights, 90,427 arrays.

    python3 bench/sparse_checkpoint.py FOLDER

The files are sparse: they take a few megabytes on a file system that supports that. All weights are 0. With
it, the cost of opening and planning can be measured without 700 GB.
"""

import argparse
import json
import struct
from pathlib import Path

HIDDEN, LAYERS, DENSE_LAYERS, VOCABULARY = 7168, 61, 3, 129280
HEADS, QUERY_RANK, KEY_RANK, NOPE, ROPE, VALUE = 128, 1536, 512, 128, 64, 128
DENSE, EXPERTS, EXPERT = 18432, 256, 2048
FILES = 158
BYTES = {"F8_E4M3": 1, "BF16": 2, "F32": 4}

CONFIG = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "first_k_dense_replace": DENSE_LAYERS,
    "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "q_lora_rank": QUERY_RANK,
    "kv_lora_rank": KEY_RANK, "qk_nope_head_dim": NOPE, "qk_rope_head_dim": ROPE, "v_head_dim": VALUE,
    "intermediate_size": DENSE, "moe_intermediate_size": EXPERT, "n_routed_experts": EXPERTS,
    "n_shared_experts": 1, "num_experts_per_tok": 8, "n_group": 8, "topk_group": 4, "moe_layer_freq": 1,
    "norm_topk_prob": True, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid",
    "topk_method": "noaux_tc", "hidden_act": "silu", "rms_norm_eps": 1e-06, "rope_theta": 10000,
    "max_position_embeddings": 163840, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    "quantization_config": {
        "activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [128, 128],
    },
}


def arrays():
    """Name, dtype and shape of each array."""

    def quantized(name, rows, columns):
        yield name + ".weight", "F8_E4M3", [rows, columns]
        yield name + ".weight_scale_inv", "F32", [-(-rows // 128), -(-columns // 128)]

    def feed_forward(name, width):
        yield from quantized(name + ".gate_proj", width, HIDDEN)
        yield from quantized(name + ".up_proj", width, HIDDEN)
        yield from quantized(name + ".down_proj", HIDDEN, width)

    yield "model.embed_tokens.weight", "BF16", [VOCABULARY, HIDDEN]
    for layer in range(LAYERS):
        at = f"model.layers.{layer}"
        yield at + ".input_layernorm.weight", "BF16", [HIDDEN]
        yield at + ".post_attention_layernorm.weight", "BF16", [HIDDEN]
        yield at + ".self_attn.q_a_layernorm.weight", "BF16", [QUERY_RANK]
        yield at + ".self_attn.kv_a_layernorm.weight", "BF16", [KEY_RANK]
        yield from quantized(at + ".self_attn.q_a_proj", QUERY_RANK, HIDDEN)
        yield from quantized(at + ".self_attn.q_b_proj", HEADS * (NOPE + ROPE), QUERY_RANK)
        yield from quantized(at + ".self_attn.kv_a_proj_with_mqa", KEY_RANK + ROPE, HIDDEN)
        yield from quantized(at + ".self_attn.kv_b_proj", HEADS * (NOPE + VALUE), KEY_RANK)
        yield from quantized(at + ".self_attn.o_proj", HIDDEN, HEADS * VALUE)
        if layer < DENSE_LAYERS:
            yield from feed_forward(at + ".mlp", DENSE)
            continue
        yield at + ".mlp.gate.weight", "BF16", [EXPERTS, HIDDEN]
        yield at + ".mlp.gate.e_score_correction_bias", "F32", [EXPERTS]
        yield from feed_forward(at + ".mlp.shared_experts", EXPERT)
        for expert in range(EXPERTS):
            yield from feed_forward(f"{at}.mlp.experts.{expert}", EXPERT)
    yield "model.norm.weight", "BF16", [HIDDEN]
    yield "lm_head.weight", "BF16", [VOCABULARY, HIDDEN]


def length(dtype, shape):
    count = BYTES[dtype]
    for size in shape:
        count *= size
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True)
    everything = list(arrays())
    total = sum(length(dtype, shape) for _, dtype, shape in everything)
    files = [[] for _ in range(FILES)]
    before = 0
    for name, dtype, shape in everything:
        files[before * FILES // total].append((name, dtype, shape))
        before += length(dtype, shape)
    index = {}
    for number, own in enumerate(files, 1):
        file_name = f"model-{number:05}-of-{FILES:05}.safetensors"
        header, end = {}, 0
        for name, dtype, shape in own:
            size = length(dtype, shape)
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
            index[name], end = file_name, end + size
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(folder / file_name, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            file.truncate(8 + len(text) + end)
    weights = sum(length(dtype, shape) // BYTES[dtype] for name, dtype, shape in everything if name.endswith("weight"))
    document = {"metadata": {"total_size": total}, "weight_map": index}
    (folder / "model.safetensors.index.json").write_text(json.dumps(document))
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=2))
    print(f"{len(everything)} arrays in {FILES} files, {weights} weights, {total} bytes")


if __name__ == "__main__":
    main()
