"""Tiny encoders whose classes no package has, and what llama.cpp computes of them.

    encoders.py FOLDER

writes FOLDER/NAME.gguf and FOLDER/NAME.json: tokens, and for each the last hidden state. Needs gguf, numpy and
xllamacpp, which has llama.cpp inside. The files in reference/tests/encoders were made by it.
"""

import json
import sys
import urllib.request
from pathlib import Path

import gguf
import numpy
import xllamacpp

DIM, HEADS, WIDE, LAYERS, VOCABULARY, EXPERTS = 24, 3, 40, 2, 32, 4
TOKENS = [2, 9, 17, 30, 11, 9, 25, 6, 14, 21, 3]


def write(path, architecture, code=False):
    random = numpy.random.default_rng(7)
    out = gguf.GGUFWriter(path, architecture)
    mixture = architecture == "nomic-bert-moe"
    out.add_block_count(LAYERS)
    out.add_context_length(64)
    out.add_embedding_length(DIM)
    out.add_feed_forward_length(WIDE)
    out.add_head_count(HEADS)
    out.add_layer_norm_eps(1e-5)
    out.add_causal_attention(False)
    out.add_pooling_type(gguf.PoolingType.MEAN)
    if mixture:
        out.add_rope_freq_base(1000.0)
        out.add_expert_count(EXPERTS)
        out.add_expert_used_count(2)
        out.add_moe_every_n_layers(2)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"\u2581w{number}" for number in range(VOCABULARY - 5)]
    out.add_tokenizer_model("bert")
    out.add_tokenizer_pre("jina-v2-en")
    out.add_token_list(words)
    out.add_token_types([3] * 5 + [1] * (VOCABULARY - 5))
    out.add_token_type_count(1 if mixture else 2)
    for number, name in enumerate(["pad", "unk", "cls", "sep", "mask"]):
        out.add_uint32({"unk": "tokenizer.ggml.unknown_token_id", "sep": "tokenizer.ggml.seperator_token_id"}.get(
            name, f"tokenizer.ggml.{'padding' if name == 'pad' else name}_token_id"), number)

    def array(name, *shape):
        out.add_tensor(name, (random.standard_normal(shape) / shape[-1] ** 0.5).astype(numpy.float32))

    def linear(name, rows, columns, bias=True):
        array(f"{name}.weight", rows, columns)
        if bias:
            out.add_tensor(f"{name}.bias", (0.1 * random.standard_normal(rows)).astype(numpy.float32))

    def norm(name):
        out.add_tensor(f"{name}.weight", (1 + 0.1 * random.standard_normal(DIM)).astype(numpy.float32))
        out.add_tensor(f"{name}.bias", (0.1 * random.standard_normal(DIM)).astype(numpy.float32))

    array("token_embd.weight", VOCABULARY, DIM)
    array("token_types.weight", 1 if mixture else 2, DIM)
    norm("token_embd_norm")
    for layer in range(LAYERS):
        at = f"blk.{layer}."
        if mixture:
            linear(f"{at}attn_qkv", 3 * DIM, DIM)
        else:
            for part in "qkv":
                linear(f"{at}attn_{part}", DIM, DIM)
        linear(f"{at}attn_output", DIM, DIM)
        norm(f"{at}attn_output_norm")
        norm(f"{at}layer_output_norm")
        if code:
            for name in ("attn_q_norm", "attn_k_norm", "attn_norm_2"):
                norm(at + name)
        if not mixture:
            linear(f"{at}ffn_up", 2 * WIDE, DIM, bias=False)
            linear(f"{at}ffn_down", DIM, WIDE)
        elif layer % 2 == 0:
            linear(f"{at}ffn_up", WIDE, DIM)
            linear(f"{at}ffn_down", DIM, WIDE)
        else:
            array(f"{at}ffn_gate_inp.weight", EXPERTS, DIM)
            array(f"{at}ffn_up_exps.weight", EXPERTS, WIDE, DIM)
            array(f"{at}ffn_down_exps.weight", EXPERTS, DIM, WIDE)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def hidden(path):
    given = xllamacpp.CommonParams()
    given.model.path = str(path)
    given.n_ctx = given.n_batch = given.n_ubatch = 64
    given.n_parallel = 1
    given.warmup = False
    given.embedding = True
    given.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_NONE
    given.embd_normalize = -1
    server = xllamacpp.Server(given)
    body = json.dumps({"content": [TOKENS]}).encode()
    request = urllib.request.Request(f"{server.listening_address}/embedding", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)[0]["embedding"]


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, architecture, code in (
        ("jina-bert-v2", "jina-bert-v2", False),
        ("jina-bert-v2-code", "jina-bert-v2", True),
        ("nomic-bert-moe", "nomic-bert-moe", False),
    ):
        write(folder / f"{name}.gguf", architecture, code)
        expected = {"tokens": TOKENS, "hidden": hidden(folder / f"{name}.gguf")}
        expected["hidden"] = [[float(f"{value:.7g}") for value in row] for row in expected["hidden"]]
        (folder / f"{name}.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")
