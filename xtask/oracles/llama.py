"""Writes the logits that llama.cpp computes of a GGUF file, with keys and values in F32, or the tokens that it makes of texts.

    llama.py FILE TOKENS OUT.npy
    llama.py FILE TEXTS.json OUT.json

llama.cpp may abort, so each file has a process of its own.
"""

import json
import sys
from pathlib import Path

import llama_cpp
import numpy as np


def model(path, vocab_only=False):
    parameters = llama_cpp.llama_model_default_params()
    parameters.n_gpu_layers, parameters.use_mmap, parameters.vocab_only = 0, False, vocab_only
    return llama_cpp.llama_model_load_from_file(path.encode(), parameters) or sys.exit(f"{path}: llama.cpp does not load it")


def logits(path, tokens):
    loaded = model(path)
    parameters = llama_cpp.llama_context_default_params()
    parameters.n_ctx = parameters.n_batch = parameters.n_ubatch = 256
    parameters.n_threads = parameters.n_threads_batch = 1
    parameters.type_k = parameters.type_v = llama_cpp.GGML_TYPE_F32
    parameters.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    context = llama_cpp.llama_init_from_model(loaded, parameters) or sys.exit(f"{path}: llama.cpp does not load it")
    batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for i, token in enumerate(tokens):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = token, i, 1, 0, 1
    if llama_cpp.llama_decode(context, batch):
        sys.exit(f"{path}: llama.cpp does not compute it")
    width = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(loaded))
    return np.ctypeslib.as_array(llama_cpp.llama_get_logits(context), (len(tokens), width))


def tokens(path, texts):
    vocab = llama_cpp.llama_model_get_vocab(model(path, vocab_only=True))
    for text in texts:
        data = text.encode()
        buffer = (llama_cpp.llama_token * (2 * len(data) + 8))()
        count = llama_cpp.llama_tokenize(vocab, data, len(data), buffer, len(buffer), True, True)
        yield buffer[:count] if count >= 0 else sys.exit(f"{path}: too many tokens: {text!r}")


path, given, out = sys.argv[1:]
if given.endswith(".json"):
    Path(out).write_text(json.dumps(list(tokens(path, json.loads(Path(given).read_text())))))
else:
    np.save(out, logits(path, [int(token) for token in given.split(",")]))
