"""Converts models with weighbridge, runs them with transformers and mlx-lm, and compares their logits with those of the
original.

    engines.py PROGRAM [--set FOLDER [--only]] [--match REGEX] [--keep FOLDER]

The models are tiny, have random weights, and are saved by transformers in its own form: each class below, with tied and
untied embeddings. FOLDER of --set has further models: a directory each, with config.json, model.safetensors and
logits.safetensors (`tokens`, `logits`; `encoder_tokens` beside those of a decoder, or `last_hidden_state` of an encoder).
With --only, the others are not made. --keep stores the models that were made.

Ways: hf-mlx, gguf-hf (to GGUF and back), gguf-mlx, mlx-hf (to MLX and back). The largest difference of logits, divided by
their standard deviation, is at most 0.002 with transformers and 0.02 with mlx-lm. A conversion that the program refuses
(exit status 4) is counted by itself. A way is skipped if mlx-lm does not have the class, or if what it does with the
original is wrong too. The exit status is 1 if any model was refused by an engine or gave other logits.
"""

import argparse
import importlib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import mlx.core as mx
import numpy as np
import torch
import transformers
from mlx_lm.utils import MODEL_REMAPPING, load_model
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

transformers.logging.set_verbosity_error()
mx.set_default_device(mx.cpu)
torch.set_num_threads(1)

BASE = {
    "vocab_size": 320, "hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 192, "max_position_embeddings": 256, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": None,
}
MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
SHARED = {"shared_expert_intermediate_size": 64}
LATENT = {
    "num_key_value_heads": 4, "q_lora_rank": 32, "kv_lora_rank": 64, "qk_rope_head_dim": 16, "qk_nope_head_dim": 32,
    "v_head_dim": 32, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1, "moe_intermediate_size": 64,
    "first_k_dense_replace": 1, "n_group": 2, "topk_group": 1,
}
LINEAR = {
    "head_dim": 32, "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 32,
    "linear_value_head_dim": 32, "num_hidden_layers": 4,
}
SCALES = {
    "embedding_multiplier": 12.0, "logits_scaling": 8.0, "residual_multiplier": 0.22, "attention_multiplier": 0.03125,
}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32}
LINEAR_ROPE = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
WINDOW = {"sliding_window": 16, "head_dim": 32}

# Names, classes, and what they have beside BASE.
MODELS = {
    "llama": ("llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}}),
    "llama-yarn": ("llama", {"rope_parameters": YARN}),
    "llama-linear": ("llama", {"rope_parameters": LINEAR_ROPE}),
    "llama-llama3": ("llama", {"rope_parameters": LLAMA3}),
    "llama-biases": ("llama", {"attention_bias": True, "mlp_bias": True, "head_dim": 24}),
    "mistral": ("mistral", {"sliding_window": None, "head_dim": 32}),
    "mistral-window": ("mistral", WINDOW),
    "mixtral": ("mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "arcee": ("arcee", {}),
    "smollm3": ("smollm3", {"num_hidden_layers": 4}),
    "ministral3": ("ministral3", {"head_dim": 32}),
    "qwen2": ("qwen2", {}),
    "qwen2-yarn": ("qwen2", {"rope_parameters": YARN}),
    "qwen2_moe": ("qwen2_moe", {**MOE, **SHARED}),
    "qwen3": ("qwen3", {"head_dim": 48}),
    "qwen3_moe": ("qwen3_moe", {**MOE, "head_dim": 32, "norm_topk_prob": True}),
    "qwen3_moe-unnormed": ("qwen3_moe", {**MOE, "head_dim": 32}),
    "qwen3_next": ("qwen3_next", {**MOE, **SHARED, **LINEAR}),
    "qwen3_5_text": ("qwen3_5_text", LINEAR),
    "qwen3_5_moe_text": ("qwen3_5_moe_text", {**MOE, **SHARED, **LINEAR}),
    "gemma": ("gemma", {"head_dim": 32}),
    "gemma2": ("gemma2", {**WINDOW, "query_pre_attn_scalar": 32}),
    "gemma3_text": ("gemma3_text", {**WINDOW, "query_pre_attn_scalar": 32, "num_hidden_layers": 7}),
    "phi3": ("phi3", {"sliding_window": None, "original_max_position_embeddings": 256}),
    "gpt_oss": ("gpt_oss", {**WINDOW, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "deepseek_v2": ("deepseek_v2", {**LATENT, "topk_method": "greedy", "head_dim": 16}),
    "deepseek_v3": ("deepseek_v3", LATENT),
    "deepseek_v3-yarn": ("deepseek_v3", {**LATENT, "rope_parameters": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}}),
    "glm4": ("glm4", {"head_dim": 32, "attention_bias": True}),
    "glm4_moe": ("glm4_moe", {**LATENT, "head_dim": 32, "n_group": 1, "attention_bias": True, "use_qk_norm": True}),
    "olmo": ("olmo", {}),
    "olmo2": ("olmo2", {}),
    "olmo3": ("olmo3", {"sliding_window": 16, "num_hidden_layers": 4}),
    "olmoe": ("olmoe", {"num_experts": 4, "num_experts_per_tok": 2}),
    "granite": ("granite", SCALES),
    "granitemoe": ("granitemoe", {**SCALES, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "cohere": ("cohere", {"use_qk_norm": True}),
    "cohere2": ("cohere2", {**WINDOW, "num_hidden_layers": 4}),
    "starcoder2": ("starcoder2", {"sliding_window": None}),
}


def fill(model, seed):
    """Random weights: matrices that keep the size of activations, norms near 1, and biases that matter."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            if weight.dim() > 1:
                weight.copy_(noise * weight.shape[-1] ** -0.5)
            elif name.endswith("bias") or "sinks" in name:
                weight.copy_(noise * 0.1)
            elif "A_log" not in name:
                weight.add_(noise * 0.1)
        for name, buffer in model.named_buffers():
            if "e_score_correction_bias" in name:
                buffer.copy_(torch.randn(buffer.shape, generator=generator) * 0.1)


def make(name, model_type, numbers, folder):
    seed = sum(map(ord, name))
    torch.manual_seed(seed)
    config = AutoConfig.for_model(model_type, **{**BASE, **numbers})
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    fill(model, seed)
    tokens = torch.randint(3, config.vocab_size, (40,), generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        logits = model(tokens[None], use_cache=False).logits[0]
    model.save_pretrained(folder)
    save_file({"tokens": tokens, "logits": logits.contiguous()}, folder / "logits.safetensors")


def by_transformers(folder, expected):
    config = json.loads((folder / "config.json").read_text())
    # Encoders alone, pairs and models with images are loaded by the class that the config names.
    causal = config["model_type"] in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    own = config.get("is_encoder_decoder") or "logits" not in expected or not causal
    class_ = getattr(transformers, config["architectures"][0]) if own else AutoModelForCausalLM
    model, info = class_.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    missing = [key for key in info["missing_keys"] if "lm_head" not in key]
    if missing:
        raise ValueError(f"missing {missing[:3]}")
    tokens = torch.as_tensor(expected["tokens"])[None]
    with torch.no_grad():
        if "encoder_tokens" in expected:
            text = torch.as_tensor(expected["encoder_tokens"])[None]
            return model.eval()(input_ids=text, decoder_input_ids=tokens, use_cache=False).logits[0].numpy()
        if "logits" not in expected:
            return model.eval()(tokens).last_hidden_state[0].numpy()
        return model.eval()(tokens, use_cache=False).logits[0].numpy()


def by_mlx_lm(folder, expected):
    tokens = np.asarray(expected["tokens"])
    model, _ = load_model(folder, lazy=False)
    return np.array(model(mx.array(tokens.astype("int32"))[None])[0].astype(mx.float32))


def mlx_lm_fault(folder, expected, logits, limit):
    """What is wrong if mlx-lm runs the original itself, with its own spelling of rope settings; None if nothing is."""
    with tempfile.TemporaryDirectory() as room:
        copy = Path(room)
        config = json.loads((folder / "config.json").read_text())
        rope = config.get("rope_parameters") or {}
        rope = rope.get("full_attention") or rope
        if rope.get("rope_theta"):
            config.setdefault("rope_theta", rope["rope_theta"])
        if rope.get("rope_type", "default") != "default":
            config.setdefault("rope_scaling", {**rope, "type": rope["rope_type"]})
        (copy / "config.json").write_text(json.dumps(config))
        (copy / "model.safetensors").symlink_to((folder / "model.safetensors").resolve())
        try:
            difference = np.abs(by_mlx_lm(copy, expected) - logits).max() / logits.std()
        except (Exception, SystemExit) as error:
            return f"{type(error).__name__}: {error}"
        return f"{difference:.1e} of a standard deviation" if difference > limit else None


def mlx_lm_has(folder):
    model_type = json.loads((folder / "config.json").read_text())["model_type"]
    try:
        importlib.import_module(f"mlx_lm.models.{MODEL_REMAPPING.get(model_type, model_type)}")
        return True
    except (Exception, SystemExit):
        return False


class Run:
    def __init__(self, program):
        self.program = program
        self.counts = {"passed": 0, "failed": 0, "refused": 0, "skipped": 0}

    def said(self, kind, what, why=""):
        self.counts[kind] += 1
        if kind in ("failed", "refused") or why:
            print(f"{kind}: {what}: {str(why)[:240]}", flush=True)

    def convert(self, source, target, container):
        words = [self.program, "convert", source, target, "--to", container]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
        return done.returncode, done.stderr.strip()

    def check(self, name, folder):
        expected = load_file(folder / "logits.safetensors")
        logits = expected.get("logits", expected.get("last_hidden_state")).numpy()
        with tempfile.TemporaryDirectory() as room:
            room = Path(room)
            original = room / "hf"
            original.mkdir()
            for file in ("config.json", "model.safetensors"):
                (original / file).symlink_to((folder / file).resolve())
            made = {"hf": original}
            for way, engine, limit in (
                ("hf-mlx", by_mlx_lm, 2e-2),
                ("hf-gguf", None, 0),
                ("gguf-hf", by_transformers, 2e-3),
                ("gguf-mlx", by_mlx_lm, 2e-2),
                ("mlx-hf", by_transformers, 2e-3),
            ):
                source, to = way.split("-")
                if source not in made:
                    self.said("skipped", f"{name} {way}")
                    continue
                container = {"hf": "safetensors"}.get(to, to)
                target = room / (way + (".gguf" if to == "gguf" else ""))
                status, words = self.convert(made[source], target, container)
                if status:
                    self.said("refused" if status == 4 else "failed", f"{name} {way}", words)
                    continue
                if source == "hf":
                    made[to] = target
                if engine is None:
                    continue
                if engine is by_mlx_lm and not mlx_lm_has(target):
                    self.said("skipped", f"{name} {way}")
                    continue
                try:
                    found = engine(target, expected)
                    difference = np.abs(found - logits).max() / logits.std()
                    fault = f"{difference:.1e} of a standard deviation" if difference > limit else None
                except (Exception, SystemExit) as error:
                    fault = f"{type(error).__name__}: {error}"
                if fault is None:
                    self.said("passed", f"{name} {way}")
                    continue
                own = mlx_lm_fault(original, expected, logits, limit) if engine is by_mlx_lm else None
                if own:
                    self.said("skipped", f"{name} {way}", f"the original, run by mlx-lm: {own}")
                else:
                    self.said("failed", f"{name} {way}", fault)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--set", type=Path)
    parser.add_argument("--only", action="store_true")
    parser.add_argument("--match", default="")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    run = Run(options.program)
    for path in sorted(options.set.iterdir()) if options.set else ():
        if (path / "logits.safetensors").exists() and re.search(options.match, path.name):
            if {"logits", "last_hidden_state"} & set(load_file(path / "logits.safetensors")):
                run.check(path.name, path)
    with tempfile.TemporaryDirectory() as room:
        for name, (model_type, numbers) in ({} if options.only else MODELS).items():
            for tied in (False, True):
                full = f"{name}-{'tied' if tied else 'untied'}"
                if re.search(options.match, full):
                    folder = (options.keep or Path(room)) / full
                    make(full, model_type, {**numbers, "tie_word_embeddings": tied}, folder)
                    run.check(full, folder)
    print(", ".join(f"{count} {kind}" for kind, count in run.counts.items()))
    sys.exit(1 if run.counts["failed"] or not run.counts["passed"] else 0)


main()
