"""Compares the figures of `weighbridge memory` with the buffers that llama.cpp allocates.

    memory.py PROGRAM [MODEL...]      MODEL: a GGUF file, or a directory, which is converted to GGUF first

Without MODEL: the sample, the models of models.py in target/oracles/models, and models that are made here by
transformers, with sliding windows, latent attention, linear attention and shared keys.

llama.cpp (llama-cpp-python) loads each model without a memory map and without repacked copies, makes a context, and
logs the size of each buffer: weights, keys and values by kind of layer, recurrent states. Weights and cache must agree
within 2%, or within the 0.01 MiB to which llama.cpp rounds each line. Its compute buffers are printed beside ours,
which are an estimate, and not compared. Models that llama.cpp does not load are skipped by name.
"""

import ctypes
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import llama_cpp

ROOT = pathlib.Path(__file__).parents[2]
CONTEXT, BATCH = 8192, 512
LIMIT = 0.02
# Models of which llama.cpp is known to keep something else, and why.
OF_ENCODER = "llama.cpp keeps keys of as many layers as the encoder has, whatever the decoder has"
EXCEPTIONS = {
    "exaone4": "llama.cpp has windows in models of 64 layers only",
    **dict.fromkeys(["mt5", "t5", "t5-encoder", "umt5-encoder"], OF_ENCODER),
}
SMALL = dict(
    vocab_size=256, hidden_size=64, num_attention_heads=4, num_key_value_heads=2, head_dim=16, intermediate_size=96,
    max_position_embeddings=8192, bos_token_id=1, eos_token_id=2, pad_token_id=0,
)
LATENT = dict(
    q_lora_rank=24, kv_lora_rank=32, qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=16, n_routed_experts=4,
    num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=32, first_k_dense_replace=1, n_group=1, topk_group=1,
    num_key_value_heads=4, num_hidden_layers=3,
)
# The model_type, and numbers that differ from SMALL.
MADE = {
    "windows": ("gemma3_text", dict(num_hidden_layers=6, sliding_window=512)),
    "windows-short": ("gemma2", dict(num_hidden_layers=4, sliding_window=1024)),
    "latent": ("deepseek_v3", LATENT),
    "linear": ("qwen3_next", dict(
        num_hidden_layers=4, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16,
        linear_value_head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
        shared_expert_intermediate_size=32,
    )),
    # llama.cpp takes the first 20 layers of Gemma 3n for those with keys of their own.
    "shared": ("gemma3n_text", dict(
        num_hidden_layers=25, num_kv_shared_layers=5, sliding_window=512, vocab_size_per_layer_input=256,
        hidden_size_per_layer_input=256, laurel_rank=64, intermediate_size=[96] * 25, activation_sparsity_pattern=[0.0] * 25,
    )),
}
# llama.cpp prints MiB with two decimals.
ROUNDING = 0.01 * 2**20
LINES = []


@llama_cpp.llama_log_callback
def listen(level, text, data):
    LINES.append(text.decode(errors="replace"))


def buffers(path):
    """The buffers of a model and its context, in bytes; `None` if llama.cpp does not load it."""
    LINES.clear()
    options = llama_cpp.llama_model_default_params()
    options.use_mmap, options.use_extra_bufts, options.n_gpu_layers = False, False, 0
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), options)
    if not model:
        return None
    options = llama_cpp.llama_context_default_params()
    options.n_ctx, options.n_batch, options.n_ubatch, options.swa_full = CONTEXT, BATCH, BATCH, False
    context = llama_cpp.llama_init_from_model(model, options)
    said = "".join(LINES)
    if context:
        llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)
    if not context:
        return None
    size = lambda pattern: [float(mib) * 2**20 for mib in re.findall(pattern + r" = +([\d.]+) MiB", said)]
    return {
        "weights": size(r"model buffer size"),
        "cache": size(r"(?:KV|RS) buffer size"),
        "buffers": size(r"sched_reserve: .* compute buffer size"),
    }


def run(program, *words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def make(folder):
    """Saves the models of MADE, with random weights, and returns their folders."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    for name, (kind, numbers) in MADE.items():
        torch.manual_seed(1)
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **{**SMALL, **numbers}))
        model.save_pretrained(folder / name)
        if name == "shared":
            add_unused_keys(folder / name / "model.safetensors", numbers["num_hidden_layers"])
        yield folder / name


def add_unused_keys(path, layers):
    """Adds the keys and values of layers that use another's: published checkpoints have them, and llama.cpp demands
    them."""
    from safetensors.torch import load_file, save_file

    tensors = load_file(path)
    for name, tensor in list(tensors.items()):
        if ".layers.0." in name and any(part in name for part in ("k_proj", "v_proj", "k_norm")):
            for layer in range(layers):
                tensors.setdefault(name.replace(".layers.0.", f".layers.{layer}."), tensor.clone())
    save_file(tensors, path, {"format": "pt"})


def main(program, *models):
    llama_cpp.llama_log_set(listen, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    checked, wrong, skipped = 0, 0, []
    with tempfile.TemporaryDirectory() as folder:
        if not models:
            models = [ROOT / "assets/sample/sample-Q8_0.gguf", *sorted((ROOT / "target/oracles/models").glob("*"))]
            models += make(pathlib.Path(folder))
        for number, path in enumerate(map(pathlib.Path, models)):
            file = path
            if path.is_dir():
                file = pathlib.Path(folder) / f"{number}.gguf"
                if run(program, "convert", path, file, "--allow-incomplete") is None:
                    skipped.append(path.name)
                    continue
                if not (path / "tokenizer.json").exists():
                    vocabulary = json.loads((path / "config.json").read_text()).get("vocab_size", 256)
                    keys = json.loads(run(program, "inspect", file, "--stored", "--json"))["metadata"]
                    name = next(key for key in keys if key["key"] == "general.architecture")["value"]
                    for key in ("tokenizer.ggml.model=str:no_vocab", f"{name}.vocab_size=u32:{vocabulary}"):
                        run(program, "meta", "set", file, key, "--force")
            said = run(program, "memory", file, "--context", CONTEXT, "--batch", BATCH, "--json")
            theirs = buffers(file) if said else None
            if file != path:
                file.unlink()
            if not theirs:
                skipped.append(path.name)
                continue
            ours, checked = json.loads(said), checked + 1
            for part in ("weights", "cache"):
                expected, found = sum(theirs[part]), ours[part]
                allowed = max(expected * LIMIT, ROUNDING * max(1, len(theirs[part])))
                if abs(found - expected) > allowed and path.name not in EXCEPTIONS:
                    wrong += 1
                    print(f"{path.name}: {part}: {found} bytes, llama.cpp has {expected:.0f}")
            print(f"{path.name}: weights {ours['weights']}, cache {ours['cache']}, "
                  f"buffers {ours['buffers']} (llama.cpp {sum(theirs['buffers']):.0f})")
    print(f"{checked} models compared, {wrong} figures differ; skipped: {', '.join(skipped) or 'none'}")
    return 1 if wrong or not checked else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
