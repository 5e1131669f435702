"""Writes the logits that llama.cpp computes of a GGUF file, with keys and values in F32.

    llama.py FILE TOKENS OUT.npy

llama.cpp may abort, so each file has a process of its own.
"""

import sys

import llama_cpp
import numpy as np

path, listed, out = sys.argv[1:]
tokens = [int(token) for token in listed.split(",")]
parameters = llama_cpp.llama_model_default_params()
parameters.n_gpu_layers, parameters.use_mmap = 0, False
model = llama_cpp.llama_model_load_from_file(path.encode(), parameters)
parameters = llama_cpp.llama_context_default_params()
parameters.n_ctx = parameters.n_batch = parameters.n_ubatch = 256
parameters.n_threads = parameters.n_threads_batch = 1
parameters.type_k = parameters.type_v = llama_cpp.GGML_TYPE_F32
parameters.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
context = model and llama_cpp.llama_init_from_model(model, parameters)
if not context:
    sys.exit(f"{path}: llama.cpp does not load it")
batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
batch.n_tokens = len(tokens)
for i, token in enumerate(tokens):
    batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = token, i, 1, 0, 1
if llama_cpp.llama_decode(context, batch):
    sys.exit(f"{path}: llama.cpp does not compute it")
width = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
np.save(out, np.ctypeslib.as_array(llama_cpp.llama_get_logits(context), (len(tokens), width)))
