"""Damages the meaning of small models, loads them with transformers and mlx-lm, and compares with `verify --strict`.

    strict.py PROGRAM [-v]

Each case changes a key of config.json or a tensor. A case that an engine refuses (an error, missing tensors, or tensors of
another shape) must not pass `verify --strict`, and the undamaged model must. An engine that refuses the undamaged model,
as transformers saves it, is not asked. Cases that
`verify --strict` refuses and both engines take are printed: each contradicts something that the engines do not look at.
What llama.cpp refuses is tested by loaded.py. The exit status is 1 if a case is not refused that must be.
"""

import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import mlx.core as mx
import torch
import transformers
from mlx_lm.utils import load_model
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
mx.set_default_device(mx.cpu)

NUMBERS = {
    "vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 128, "max_position_embeddings": 64, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": None,
    "tie_word_embeddings": False,
}
FAMILIES = {
    "llama": {},
    "qwen2": {},
    "qwen3": {"head_dim": 16},
    "gemma2": {"head_dim": 16, "tie_word_embeddings": True, "query_pre_attn_scalar": 16},
    "qwen3_moe": {"head_dim": 16, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32},
}


def key(name, value):
    return f"{name} = {json.dumps(value)}", lambda config, tensors: config.__setitem__(name, value)


def no_key(name):
    return f"no {name}", lambda config, tensors: config.pop(name, None)


def without(name):
    return f"no tensor {name}", lambda config, tensors: tensors.pop(name, None)


def of_shape(name, *shape):
    return f"{name} of shape {list(shape)}", lambda config, tensors: tensors.__setitem__(name, torch.ones(shape))


LAYER = "model.layers.1."
CASES = [
    key("hidden_size", 100),
    key("hidden_size", 32),
    key("num_attention_heads", 3),
    key("num_attention_heads", 8),
    key("num_attention_heads", 0),
    key("num_key_value_heads", 4),
    key("num_key_value_heads", 3),
    key("num_hidden_layers", 3),
    key("num_hidden_layers", 1),
    key("num_hidden_layers", -1),
    key("intermediate_size", 96),
    key("vocab_size", 80),
    key("vocab_size", 128),
    key("head_dim", 24),
    key("rms_norm_eps", "small"),
    key("hidden_act", "no such function"),
    key("rope_parameters", {"rope_type": "no such kind", "rope_theta": 10000.0}),
    key("rope_parameters", {"rope_type": "linear", "rope_theta": 10000.0}),
    key("quantization", {"group_size": 64, "bits": 4}),
    no_key("model_type"),
    no_key("num_attention_heads"),
    without("model.norm.weight"),
    without("model.embed_tokens.weight"),
    without(LAYER + "self_attn.v_proj.weight"),
    without(LAYER + "mlp.down_proj.weight"),
    without(LAYER + "input_layernorm.weight"),
    without("lm_head.weight"),
    of_shape("model.norm.weight", 32),
    of_shape(LAYER + "self_attn.q_proj.weight", 64, 32),
    of_shape(LAYER + "self_attn.o_proj.weight", 32, 64),
    of_shape(LAYER + "self_attn.q_proj.bias", 64),
    of_shape(LAYER + "self_attn.unheard_of.weight", 64, 64),
]


def of_transformers(folder):
    try:
        model, found = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
        missing = [name for name in found["missing_keys"] if not (name == "lm_head.weight" and model.config.tie_word_embeddings)]
        if missing or found["mismatched_keys"]:
            return f"missing {missing[:2]}, of another shape {list(found['mismatched_keys'])[:2]}"
        model.eval()(torch.tensor([[1, 2, 3]]))
    except (Exception, SystemExit) as error:
        return f"{type(error).__name__}: {error}"
    return None


def of_mlx_lm(folder):
    try:
        model, _ = load_model(folder, lazy=False)
        mx.eval(model(mx.array([[1, 2, 3]])))
    except (Exception, SystemExit) as error:
        return f"{type(error).__name__}: {error}"
    return None


def verify(program, folder):
    done = subprocess.run([program, "verify", "--strict", folder, "--json"], capture_output=True, text=True)
    report = json.loads(done.stdout or done.stderr)
    return done.returncode, report.get("faults") or report.get("message")


def main():
    program, verbose = sys.argv[1], "-v" in sys.argv
    wrong = refused = stricter = 0
    for family, more in FAMILIES.items():
        with tempfile.TemporaryDirectory() as room:
            original = Path(room) / "original"
            torch.manual_seed(1)
            config = AutoConfig.for_model(family, **{**NUMBERS, **more})
            AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(original)
            asked = {"transformers": of_transformers, "mlx-lm": of_mlx_lm}
            for name, change in [("nothing", lambda config, tensors: None), *CASES]:
                config = json.loads((original / "config.json").read_text())
                tensors = load_file(original / "model.safetensors")
                before = json.dumps(config), sorted((n, t.shape) for n, t in tensors.items())
                change(config, tensors)
                if name != "nothing" and before == (json.dumps(config), sorted((n, t.shape) for n, t in tensors.items())):
                    continue
                with tempfile.TemporaryDirectory() as changed:
                    folder = Path(changed)
                    (folder / "config.json").write_text(json.dumps(config))
                    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
                    status, said = verify(program, changed)
                    engines = {engine: load(folder) for engine, load in asked.items()}
                refusals = {engine: text for engine, text in engines.items() if text}
                if name == "nothing":
                    asked = {engine: load for engine, load in asked.items() if engine not in refusals}
                    if status or not asked:
                        wrong += 1
                        print(f"WRONG {family}, unchanged: status {status}, {said}, {refusals}")
                elif refusals and not status:
                    wrong += 1
                    print(f"WRONG {family}, {name}: verify --strict gives {status}; {refusals}"[:400], flush=True)
                elif refusals:
                    refused += 1
                    if verbose:
                        print(f"{family}, {name}: {said}"[:300])
                elif status:
                    stricter += 1
                    print(f"{family}, {name}: only verify --strict refuses it: {said}"[:300], flush=True)
    print(f"{refused} refused like the engines, {stricter} refused by verify --strict alone, {wrong} wrong")
    sys.exit(1 if wrong or not refused else 0)


main()
