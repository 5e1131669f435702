"""Draws configs of transformers' causal classes, and compares the program with the class, in every container.

    draws.py PROGRAM FOLDER [--seed N] [--count N] [--each] [--jobs N] [--containers WORDS] [--llama COMMAND] [CLASS...]

A draw is a small config in which features are on or off by chance, and a model with random weights. The logits of the class
are compared with those of the program for the model in its own form, the most likely tokens after them too, and after the conversion to GGUF, to MLX, to Ollama's
store and back; with mlx-lm's, if it has the class; and with llama.cpp's, which COMMAND writes, by default llama.py. A
difference is printed as one line, with the smallest config that shows it: values return to their defaults as long as the
difference stays. FOLDER keeps the results, so that a run that was interrupted goes on.
`--each` draws nothing: each field that the code of a class reads (engines/transformers/read.txt) gets another value, alone; and
so does each key that llama.cpp's loader reads of the architecture (engines/llama.cpp/types.txt), in a GGUF file.
The exit status is 1 if anything differs without a word of the program.
"""

import argparse
import ast
import copy
import importlib.util
import inspect
import json
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

# llama.cpp would start a debugger where it aborts.
os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TQDM_DISABLE="1", GGML_NO_BACKTRACE="1")

import numpy as np
import torch
import transformers

sys.path.append(str(Path(__file__).resolve().parents[1] / "engines"))
import lines

# An import that the alarm interrupts would fail for ever after.
import transformers.modeling_utils  # noqa: F401
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL

torch.set_num_threads(1)

# Numbers that make a config small; a list is drawn from. Only those that the class has are taken.
SIZES = {
    "vocab_size": [256, 320], "hidden_size": [48, 64, 96], "d_model": [64, 96], "n_embd": [64, 96], "dim": [64], "embedding_size": [48, 64],
    "intermediate_size": [64, 96], "ffn_dim": [96], "n_inner": [None, 96], "d_ff": [96], "ffn_hidden_size": [96], "decoder_ffn_dim": [96],
    "num_hidden_layers": [4], "n_layer": [4], "n_layers": [4], "num_layers": [4], "decoder_layers": [2], "encoder_layers": [2],
    "num_attention_heads": [2, 4], "n_head": [2, 4], "n_heads": [4], "decoder_attention_heads": [4], "attention_heads": [4], "num_key_value_heads": [1, 2, 4], "num_kv_heads": [1, 2],
    "head_dim": [16, 24, 32], "max_position_embeddings": [32, 64, 256], "n_positions": [64], "n_ctx": [64], "max_seq_len": [64], "rotary_dim": [8, 16],
    "moe_intermediate_size": [32], "shared_expert_intermediate_size": [32, 48], "n_routed_experts": [8], "num_experts": [8], "num_local_experts": [8],
    "n_shared_experts": [1, 2], "moe_num_shared_experts": [1], "moe_num_experts": [8], "moe_k": [1, 2], "moe_topk": [2], "num_experts_per_tok": [1, 2, 3], "n_group": [1, 2, 4], "num_expert_group": [1, 2, 4],
    "topk_group": [1, 2], "kv_lora_rank": [16], "q_lora_rank": [None, 24], "qk_rope_head_dim": [8], "qk_nope_head_dim": [16], "v_head_dim": [16, 24],
    "first_k_dense_replace": [0, 1, 2], "sliding_window": [None, 6, 8, 64], "max_window_layers": [0, 2, 28], "attention_chunk_size": [8], "local_attention": [8],
    "state_size": [16], "ssm_state_size": [16], "mamba_d_state": [16], "mamba_n_heads": [8], "mamba_d_head": [16], "mamba_num_heads": [8], "mamba_head_dim": [16], "n_groups": [1, 2],
    "mamba_n_groups": [1], "mamba_d_ssm": [128], "conv_kernel": [3, 4], "time_step_rank": [4], "linear_num_key_heads": [2], "linear_num_value_heads": [4],
    "linear_key_head_dim": [16], "linear_value_head_dim": [16], "index_n_heads": [2], "index_head_dim": [16], "index_topk": [8],
    "query_pre_attn_scalar": [16, 64, 100], "pad_token_id": [0], "bos_token_id": [1], "eos_token_id": [2], "word_embed_proj_dim": [48, 64],
    "num_nextn_predict_layers": [0], "mtp_num_hidden_layers": [0], "original_max_position_embeddings": [16, 32], "multi_query_group_num": [2], "hidden_size_per_layer_input": [0, 16],
    "vocab_size_per_layer_input": [256], "num_kv_shared_layers": [0, 2], "top_k_experts": [2], "num_experts_per_token": [2], "num_heads": [4],
    "dff": [96], "emb_dim": [64], "n_words": [256], "dim_ff": [96], "dim_head": [16], "linear_num_heads": [2], "linear_head_dim": [16], "shape_vocab_size": [8],
    "shape_embed_dim": [16], "pronunciation_vocab_size": [8], "pronunciation_embed_dim": [16], "expert_ffn_hidden_size": [32], "o_lora_rank": [16], "o_groups": [2],
    "swa_num_attention_heads": [4], "swa_num_key_value_heads": [2], "swa_head_dim": [16], "sliding_window_size": [6], "rel_extent": [8], "dense_intermediate_size": [96],
}  # fmt: skip
# The same of classes whose defaults are those of no small model, by the type of model.
OWN = {
    "afmoe": {"mup_enabled": [False, True]},
    "bamba": {"attn_layer_indices": [[0], [1, 3]]},
    "bitnet": {"hidden_act": ["relu2", "silu"], "tie_word_embeddings": [False, True]},
    "cohere_compass_text": {
        "layer_types": [["full_attention"] * 4, ["sliding_attention", "full_attention"] * 2, ["sliding_attention"] * 4],
        "rope_parameters": [{kind: {"rope_type": "default", "rope_theta": base} for kind in ("full_attention", "sliding_attention")} for base in (100.0, 10000.0)],
    },
    "dbrx": {"tie_word_embeddings": [False], "attn_config": [{"rope_theta": 10000.0, "clip_qkv": bound} for bound in (2.0, 0.3)], "ffn_config": [{"moe_top_k": 2}]},
    "gemma4_text": {"num_kv_shared_layers": [0]},
    "gemma4_unified_text": {"num_kv_shared_layers": [0]},
    "gpt_neo": {"attention_types": [[[["global", "local"], 2]], [[["local"], 4]]]},
    "granitemoehybrid": {"layer_types": [["mamba"] * 4, ["mamba", "attention"] * 2, ["attention"] * 4], "position_embedding_type": [None, "rope"]},
    "helium": {"num_attention_heads": [4], "hidden_size": [64], "head_dim": [16]},
    "llama4_text": {"attention_chunk_size": [8192, 8]},
    "lfm2_moe": {"layer_types": [["conv", "full_attention"] * 2, ["full_attention", "conv", "conv", "conv"]]},
    "zaya": {"num_experts_per_tok": [1]},
}
# Fields that matter only in training, to texts, or to what a model returns.
APART = re.compile(
    r"^_|drop|use_cache|output_|return_|chunk_size_feed|dtype|_token_id|is_decoder|is_encoder|cross_att|initializer|_std$|init_|aux_loss|jitter|label|task|"
    r"architectures|transformers_version|name_or_path|pretraining|use_mamba_kernels|mambapy|capacity|training|z_loss|summary|model_type|vocab_size|attn_implementation|"
    r"experts_implementation|tokenizer|problem|base_model|auto_map|loss_coef|time_step_(min|max|floor|scale)|rescale_prenorm|associative_scan|gradient|layerdrop"
)
ACTIVATIONS = ["silu", "gelu", "gelu_pytorch_tanh", "gelu_new", "relu", "relu2", "quick_gelu", "tanh"]
TOLERANCE, ENGINES = 1e-3, 2e-2
# Draws until the class makes a model.
TRIES = 4
# Tokens that follow those that are given, as long as the first is more likely than the second by so many deviations.
STEPS, GAP = 6, 1e-2
EVERYWHERE = ("tokens", "gguf", "back", "mlx", "mlx-lm", "ollama", "llama.cpp")


class Late(Exception):
    pass


def rope(r, base):
    """Numbers of one kind of rotary embeddings."""
    kind = r.choice(["default", "linear", "dynamic", "yarn", "llama3"])
    own = {"rope_type": kind, "rope_theta": r.choice([100.0, 10000.0, 500000.0])}
    own |= {key: r.choice([0.25, 0.5, 1.0]) for key in ("partial_rotary_factor",) if key in base}
    if kind != "default":
        own["factor"] = r.choice([2.0, 4.0, 8.0])
    if kind in ("yarn", "llama3", "dynamic"):
        own["original_max_position_embeddings"] = r.choice([8, 16, 32])
    if kind == "llama3":
        own |= {"low_freq_factor": r.choice([1.0, 1.5]), "high_freq_factor": r.choice([2.0, 4.0])}
    if kind == "yarn":
        optional = {"beta_fast": [16.0, 32.0], "beta_slow": [1.0, 2.0], "attention_factor": [1.0, 1.3], "truncate": [True, False], "mscale": [0.7, 1.0], "mscale_all_dim": [0.5, 1.0]}
        own |= {key: r.choice(values) for key, values in optional.items() if r.random() < 0.3}
    return own


def smallest(base, choose):
    """The sizes of a small config, each chosen from the possible ones."""
    own = {key: choose(values) for key, values in (SIZES | OWN.get(base["model_type"], {})).items() if key in base}
    heads = own.get("num_attention_heads") or own.get("n_head") or 4
    if base.get("num_key_value_heads", 0) is None:
        own["num_key_value_heads"] = heads
    for key in ("num_key_value_heads", "num_kv_heads"):
        if key in own and heads % own[key]:
            own[key] = heads
    if "qk_rope_head_dim" in own:
        own.pop("head_dim", None)
        own["num_key_value_heads"] = heads
    if "head_dim" not in own and "hidden_size" in own:
        own["hidden_size"] = heads * choose([16, 24, 32])
    # The width of a state-space layer is a multiple of the model's.
    for count, width, factor in (("mamba_n_heads", "mamba_d_head", "mamba_expand"), ("num_heads", "head_dim", "expand")):
        if count in own and factor in base and "hidden_size" in own and "mamba_d_ssm" not in own:
            own[width] = own["hidden_size"] * base[factor] // own[count]
    for key in ("n_group", "num_expert_group"):
        if key in own and own.get("topk_group", 1) > own[key]:
            own["topk_group"] = own[key]
    return own


def other(key, value, r, base):
    """Another legal value of a field, or None."""
    if isinstance(value, bool):
        return not value
    if key in ("hidden_act", "hidden_activation", "activation_function", "activation", "mamba_hidden_act", "classifier_activation"):
        return r.choice([name for name in ACTIVATIONS if name != value])
    if isinstance(value, float) and value:
        return r.choice([0.5, 1.0]) if re.search(r"partial|pct", key) else value * r.choice([0.5, 2.0, 1.5])
    if value is None and re.search(r"softcap|clip|clamp|softmax_scale", key):
        return r.choice([0.3, 2.0])
    if key.endswith("_act_fn") and isinstance(value, dict):
        return {**value, "name": r.choice(ACTIVATIONS)}
    if isinstance(value, int) and 0 < value < 10 and key not in SIZES:
        return value + r.choice([1, 2])
    if key in ("rope_parameters",) and isinstance(value, dict) and "rope_type" in value:
        return rope(r, value)
    if key == "rope_parameters" and isinstance(value, dict):
        return {kind: rope(r, own) if isinstance(own, dict) else own for kind, own in value.items()}
    if key == "layer_types" and isinstance(value, list) and set(value) <= {"sliding_attention", "full_attention"}:
        return [r.choice(["sliding_attention", "full_attention"]) for _ in range(4)]
    return None


def is_part(value):
    """Whether a value is the config of a part of the model."""
    return isinstance(value, dict) and "architectures" in value


def nested(base):
    """The fields in configs of parts: the part's name, the field's, and its default."""
    return [(part, key, value) for part, fields in base.items() if is_part(fields) for key, value in fields.items() if key not in base]


def other_values(key, value, base, r):
    """Some other values of a field."""
    if key in SIZES:
        return [size for size in SIZES[key] if size != value]
    if isinstance(value, list) and value and all(isinstance(x, (str, int)) for x in value):
        return [value[::-1], [value[-1]] * len(value), [value[0]] * len(value)]
    found = [other(key, value, r, base) for _ in range(TRIES)]
    return [changed for changed in found if changed is not None]


def usual(name):
    """A small config in which every flag is on: what one turns off, nothing else would change."""
    base = transformers.CONFIG_MAPPING[name]().to_dict()
    own = smallest(base, lambda values: values[len(values) // 2])
    own |= {part: own.get(part, {}) | {key: SIZES[key][0] for key in base[part] if key in SIZES} for part in base if is_part(base[part])}
    return own | {f"use_{key}": True for key in own if f"use_{key}" in base}


def draw(name, r):
    """A class and the numbers of its config."""
    class_ = transformers.CONFIG_MAPPING[name]
    base = class_().to_dict()
    own = smallest(base, r.choice)
    rate = r.choice([0.1, 0.3])
    return own | changes(base, own, rate, r)


def changes(base, own, rate, r):
    """Other values of some of the fields that are not chosen yet."""
    found = {}
    for key, value in base.items():
        if is_part(value):
            part = own.get(key, {}) | {name: r.choice(sizes) for name, sizes in SIZES.items() if name in value}
            found[key] = part | changes(value, part, rate, r)
        elif key not in own and not APART.search(key) and r.random() < (0.6 if "rope" in key else rate):
            changed = other(key, value, r, base)
            found |= {} if changed is None else {key: changed}
    return found


def build(name, own, seed):
    """A model, and tokens."""
    with Alarm(40):
        config = transformers.CONFIG_MAPPING[name](**own)
        with torch.device("meta"):
            count = sum(x.numel() for x in transformers.AutoModelForCausalLM.from_config(config).parameters())
        if count > 4_000_000:
            raise ValueError(f"{count} weights")
        torch.manual_seed(seed)
        model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
        # Buffers that are not stored, such as masks, are no weights.
        stored = model.state_dict()
        biases = [value for key, value in model.named_buffers() if key.endswith("bias") and key in stored]
        for weight in [*model.parameters(), *biases]:
            if weight.dim() > 1:
                weight.data.mul_(3)
            elif weight.is_floating_point():
                weight.data.add_(torch.randn_like(weight) * 0.1)
        return model, torch.randint(3, 250, (24,)).tolist()


def loaded(folder, tokens):
    """What the class computes of the files: a spelling may mean another config than that which the model was made with."""
    with Alarm(40):
        model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
        if any(info.values()):
            raise ValueError(f"other weights: {info}")
        found = logits(model.eval(), tokens)
        return following(model, tokens), [found, *apart(model, tokens)]


def following(model, tokens):
    """The tokens that the class gives next, always the most likely, as long as no other is about as likely."""
    tokens = list(tokens)
    start = len(tokens)
    try:
        for _ in range(STEPS):
            scores = logits(model, tokens)[-1]
            second, first = np.sort(scores)[-2:]
            if first - second <= GAP * scores.std():
                break
            tokens.append(int(scores.argmax()))
    # Of a class that computes no more positions.
    except Exception:
        pass
    return tokens[start:]


def doubled(folder, tokens):
    """The same in numbers of 64 bits, in case those of 32 are not exact enough; nothing of a class that fails with them."""
    try:
        with Alarm(40):
            model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
            return [logits(model, tokens)]
    except (Late, Exception):
        return []


def apart(model, tokens):
    """The logits without fused attention, which some classes compute differently."""
    try:
        model.set_attn_implementation("eager")
        return [logits(model, tokens)]
    except Exception:
        return []


def spell(folder, name, own, r):
    """Changes `config.json` from the form that transformers saves to that of what was chosen alone, or to that of a publisher's."""
    path = folder / "config.json"
    saved = json.loads(path.read_text())
    how = r.choice(["saved", "raw", "published", "published"])
    if how == "saved":
        return
    stated = {"architectures": saved["architectures"], "model_type": saved["model_type"], **own}
    if how == "published":
        stated = published(transformers.CONFIG_MAPPING[name], stated, r)
    path.write_text(json.dumps(stated))


def published(class_, stated, r):
    """The config in the words of a publisher's own code: rope's numbers at the top, a field's other names, the keys that only
    the constructor reads, and null for what is not there."""
    base = class_().to_dict()
    scaling = stated.get("rope_parameters") or {}
    if "rope_type" in scaling:
        del stated["rope_parameters"]
        stated["rope_theta"] = scaling.pop("rope_theta")
        stated |= {key: scaling.pop(key) for key in ("partial_rotary_factor",) if key in scaling}
        kind = scaling.pop("rope_type")
        stated["rope_scaling"] = {r.choice(["rope_type", "type"]): kind, **scaling} if kind != "default" else None
    for alias, key in class_.attribute_map.items():
        if key in stated and alias not in stated and r.random() < 0.5:
            stated[alias] = stated.pop(key)
    for key, value in constructor_keys(class_, base):
        if key not in stated and r.random() < 0.3:
            changed = other(key, value, r, base) if key not in SIZES else r.choice(SIZES[key])
            stated |= {} if changed is None else {key: changed}
    return stated | {key: None for key, value in base.items() if value is None and key not in stated and r.random() < 0.3}


def constructor_keys(class_, base):
    """The keys that a config class takes and that are none of its fields, with their defaults where these are constants."""
    code = inspect.getsource(sys.modules[class_.__module__])
    found = dict(re.findall(r'kwargs\.(?:pop|get|setdefault)\("(\w+)"(?:, ([\w.]+)\))?', code))
    return {key: literal(value) for key, value in found.items() if key not in base and not APART.search(key)}.items()


def literal(text):
    """The value of a Python number or word; None of an expression."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return None


def logits(model, tokens):
    with torch.no_grad():
        found = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0].float().numpy()
    if not np.isfinite(found).all() or found.std() < 1e-6:
        raise ValueError("no logits")
    return found


class Alarm:
    """Raises `Late` after some seconds."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __enter__(self):
        def late(*_):
            raise Late()

        signal.signal(signal.SIGALRM, late)
        signal.alarm(self.seconds)

    def __exit__(self, *_):
        signal.alarm(0)


def program(*words, **more):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, errors="replace", timeout=120, **more)


def said(done):
    """The first line that says what is wrong."""
    lines = [line for line in done.stderr.splitlines() if line.startswith("error")] or done.stderr.strip().splitlines() or ["nothing said"]
    return lines[0].split(": ", 1)[-1].replace(tempfile.gettempdir(), "")[-150:]


def distance(found, expected):
    """The largest difference from the nearest of some logits, in deviations."""
    found = found.reshape(len(expected[0]), -1)
    return min((float(np.abs(found - other).max() / other.std()) for other in expected if found.shape == other.shape), default=float("inf"))


class Comparison:
    """One model in every container."""

    def __init__(self, options, folder, tokens, following, expected):
        self.options, self.folder, self.tokens, self.following, self.expected = options, Path(folder), tokens, following, expected
        self.found, self.limit = {}, TOLERANCE

    def put(self, way, found, why="", limit=TOLERANCE, told=False):
        if found is None:
            self.found[way] = ["refused", why]
            return False
        difference = distance(found, self.expected)
        right = difference <= limit
        self.found[way] = ["right" if right else "told" if told else "wrong", "" if right else f"{difference:.1g}"]
        return right

    def ours(self, way, path, told=False, limit=None, **more):
        out = self.folder / f"{way}.npy"
        out.unlink(missing_ok=True)
        ids = ",".join(map(str, self.tokens))
        done = program(self.options.program, "run", "logits", path, "--ids", ids, "-o", out, **more)
        return self.put(way, np.load(out) if done.returncode == 0 else None, said(done), limit or self.limit, told)

    def greedy(self, path):
        """Whether the program continues the tokens as the class does."""
        words = ["--ids", ",".join(map(str, self.tokens)), "--max-tokens", len(self.following), "--ignore-eos", "--print-ids"]
        done = program(self.options.program, "run", "generate", path, *words)
        wanted = ",".join(map(str, self.following))
        same = done.stdout.strip() == wanted
        self.found["tokens"] = ["refused", said(done)] if done.returncode else ["right", ""] if same else ["wrong", f"{done.stdout.strip()}, but {wanted}"]

    def convert(self, way, source, target, *words, **more):
        """Whether the conversion was made, and what was said."""
        done = program(self.options.program, "convert", source, target, *words, **more)
        if done.returncode:
            self.found[way] = ["refused", said(done)]
        return done.returncode == 0, done.stderr

    def run(self):
        source, wanted = self.folder / "model", self.options.containers
        if not self.ours("ours", source):
            exact = doubled(source, self.tokens) if self.found["ours"][0] == "wrong" else []
            # What the class itself loses with 32 bits is lost here too.
            self.limit = max([self.limit, *(float(np.abs(found - self.expected[0]).max() / found.std()) for found in exact)])
            self.expected += exact
            if not self.ours("ours", source):
                return self.found
        # The tokens are those of the class's first way to compute.
        if "tokens" in wanted and self.following and distance(np.load(self.folder / "ours.npy"), self.expected[:1]) <= self.limit:
            self.greedy(source)
        gguf, told = self.folder / "model.gguf", False
        if "gguf" in wanted:
            made, words = self.convert("gguf", source, gguf)
            told = "llama.cpp will compute" in words or "llama.cpp does not know" in words
            if made and self.ours("gguf", gguf, told) and "back" in wanted:
                if self.convert("back", gguf, self.folder / "back", "--to", "safetensors")[0]:
                    self.ours("back", self.folder / "back")
            if made and "llama.cpp" in wanted and self.options.llama:
                if self.llama_cpp(gguf, told) and "keys" in wanted:
                    self.keys(gguf)
        if "mlx" in wanted:
            made, words = self.convert("mlx", source, self.folder / "mlx", "--to", "mlx")
            if made:
                self.ours("mlx", self.folder / "mlx")
            if made and "mlx-lm" in wanted:
                self.mlx_lm(self.folder / "mlx", "mlx-lm will " in words)
        if "ollama" in wanted and gguf.exists():
            store = os.environ | {"OLLAMA_MODELS": str(self.folder / "ollama")}
            made, words = self.convert("ollama", gguf, "drawn", "--to", "ollama", env=store)
            if made:
                self.ours("ollama", "drawn", told, env=store)
        return self.found

    def mlx_lm(self, folder, told):
        from mlx_lm.utils import MODEL_REMAPPING, load_model
        import importlib
        import mlx.core as mx

        mx.set_default_device(mx.cpu)
        kind = json.loads((folder / "config.json").read_text())["model_type"]
        try:
            importlib.import_module(f"mlx_lm.models.{MODEL_REMAPPING.get(kind, kind)}")
        except (Exception, SystemExit):
            return
        try:
            model, _ = load_model(folder, lazy=False)
            found = np.array(model(mx.array(self.tokens)[None])[0].astype(mx.float32))
        except (Exception, SystemExit) as error:
            self.found["mlx-lm"] = ["told" if told else "wrong", f"{type(error).__name__}: {error}"[:100]]
            return
        self.put("mlx-lm", found, limit=ENGINES, told=told)

    def keys(self, path):
        """What llama.cpp and the program compute of the file if a key that llama.cpp's loader reads has another value."""
        stated = json.loads(program(self.options.program, "meta", "get", path, "--json").stdout)
        kind, usual, bare, changed = stated["general.architecture"], self.expected, self.folder / "bare.gguf", self.folder / "changed.gguf"
        # As other programs write it.
        own = [key for key in stated if key.startswith("weighbridge.")]
        bare = bare if own else path
        program(self.options.program, "meta", "rm", path, *own, "-o", bare, "--force")
        if not self.ours("bare", bare, limit=ENGINES):
            return
        rows = ((type_[0], *row) for type_, rows in lines.blocks("llama.cpp/types.txt") for row in rows)
        for type_, key, *readers in rows:
            if readers and kind not in readers[0].split(",") or key.startswith(("clip.", "general.", "tokenizer.")):
                continue
            for value in values_of_key(key, type_, stated.get(f"{kind}.{key}")):
                word = f"{kind}.{key}={type_}{'[]' if isinstance(value, list) else ''}:{json.dumps(value)}"
                program(self.options.program, "meta", "set", bare, word, "-o", changed, "--force")
                if (found := self.logits_of_llama_cpp(changed)) is not None:
                    self.expected = [found]
                    self.ours(f"{kind}.{key}", changed, limit=ENGINES)
                    row = self.found[f"{kind}.{key}"]
                    if row[0] == "wrong" and "llama.cpp will compute" in self.convert("keys", changed, self.folder / "again.gguf", "--overwrite")[1]:
                        row[0] = "told"
                    unchanged = np.abs(found - usual[0]).max() <= ENGINES * usual[0].std()
                    row[1] += f" {word}{', which llama.cpp ignores' if unchanged else ''}"
                    break
        self.found.pop("keys", None)
        self.expected = usual

    def llama_cpp(self, path, told):
        kind = program(self.options.program, "meta", "get", path, "general.architecture").stdout.split()[-1].strip('"')
        for value in ("tokenizer.ggml.model=str:no_vocab", f"{kind}.vocab_size=u32:{self.expected[0].shape[1]}"):
            program(self.options.program, "meta", "set", path, value, "--force")
        found = self.logits_of_llama_cpp(path)
        if found is not None:
            return self.put("llama.cpp", found, limit=ENGINES, told=told)
        self.found["llama.cpp"] = ["told" if told else "wrong", "not loaded"]

    def logits_of_llama_cpp(self, path):
        out = self.folder / "llama.npy"
        out.unlink(missing_ok=True)
        ids = ",".join(map(str, self.tokens))
        done = program(*self.options.llama.split(), path, ids, out)
        return np.load(out) if done.returncode == 0 and out.exists() else None


def values_of_key(key, type_, value):
    """Some other values of a key of GGUF."""
    if isinstance(value, list):
        return [changed for changed in (value[::-1],) if changed != value]
    if type_ == "bool":
        return [flag for flag in (True, False) if flag != value]
    if type_ == "f32":
        # Bases near 1 have no wave within the trained length, where YaRN's ramp has no sense.
        return [0.1 if "epsilon" in key else 3.0 * value if value else 100.0 if "freq_base" in key else 2.0]
    return [value // 2 if value and value > 1 else 2]


def compared(options, name, own, seed):
    """What each way gives; None if the class makes no such model."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "model")
        try:
            model, tokens = build(name, own, seed)
            model.save_pretrained(source)
            spell(source, name, copy.deepcopy(own), random.Random(seed))
            following, expected = loaded(source, tokens)
        except (Late, Exception):
            return None
        return Comparison(options, folder, tokens, following, expected).run()


def reduced(options, name, own, seed, way):
    """The config without the fields that the difference does not need."""
    base = transformers.CONFIG_MAPPING[name]().to_dict()
    for key in [key for key in own if key not in SIZES or base[key] is None]:
        less = {other: value for other, value in own.items() if other != key}
        found = compared(options, name, less, seed)
        if found and found.get(way, [""])[0] == "wrong":
            own = less
    return {key: value for key, value in own.items() if key not in SIZES or key in ("sliding_window", "num_experts_per_tok", "n_group", "topk_group", "num_kv_heads")}


def configs(options, name, number):
    """The configs of a draw, with a number for the weights: the first of which the class makes a model counts. Those of a field."""
    r = random.Random(f"{options.seed} {name} {number}")
    if options.each:
        base, own = transformers.CONFIG_MAPPING[name]().to_dict(), usual(name)
        if number:
            each = [own | {number: value} for value in other_values(number, own.get(number, base[number]), base, r)]
        else:
            each = [own, *(smallest(base, r.choice) for _ in range(TRIES)), *(draw(name, r) for _ in range(4 * TRIES))]
        for changed in each:
            yield changed, r.randrange(1 << 30)
        return
    for _ in range(TRIES):
        try:
            yield draw(name, r), r.randrange(1 << 30)
        except Exception:  # a class without defaults
            return


def one(task):
    options, name, number = task
    if number == "":
        options.containers = [*options.containers, "keys"]
    found = None
    for own, seed in configs(options, name, number):
        found = compared(options, name, own, seed) or found
        # Keys are compared where llama.cpp computes the unchanged file as the class does.
        if found and (number != "" or found.get("llama.cpp", [""])[0] == "right"):
            break
    row = {"class": name, "number": number, "found": found}
    for way in [way for way, (kind, _) in (found or {}).items() if kind == "wrong"]:
        row.setdefault("smallest", {})[way] = reduced(options, name, own, seed, way)
    return row


def shown(row):
    for way, (kind, why) in (row["found"] or {}).items():
        if kind == "wrong":
            print(f"{row['class']} {row['number']} {way} {why} {json.dumps(row['smallest'][way])}", flush=True)


def table(rows):
    ways = ("ours", *EVERYWHERE)
    print("class, draws, then right/told/refused/wrong:", *ways, sep="  ")
    for name in dict.fromkeys(row["class"] for row in rows):
        made = [row["found"] for row in rows if row["class"] == name and row["found"]]
        counts = [Counter(found[way][0] for found in made if way in found) for way in ways]
        print(f"{name:<20} {len(made):>4}", *("/".join(str(count[kind]) for kind in ("right", "told", "refused", "wrong")) for count in counts), sep="  ")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folder", type=Path)
    parser.add_argument("classes", nargs="*")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=15)
    parser.add_argument("--each", action="store_true", help="each field and key alone")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--containers", type=lambda words: words.split(","), default=EVERYWHERE)
    own = f"{sys.executable} {Path(__file__).with_name('llama.py')}" if importlib.util.find_spec("llama_cpp") else None
    parser.add_argument("--llama", default=own, help="a command that is given a GGUF file, tokens and a .npy file to write the logits to")
    options = parser.parse_intermixed_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    path = options.folder / f"{'each' if options.each else 'draws'}-{options.seed}.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(row["class"], row["number"]) for row in rows}
    names = options.classes or sorted(CAUSAL)
    if options.each:
        classes = {name: [row[0] for row in rows] for (name, *_), rows in lines.blocks("transformers/read.txt") if name in names}
        tasks = [(name, "") for name in classes if options.llama]
        tasks += [(name, key) for name, keys in classes.items() for key in keys if key in transformers.CONFIG_MAPPING[name]().to_dict()]
    else:
        # Every class in turn, so that a run that ends early has drawn from all.
        tasks = [(name, number) for number in range(options.count) for name in names]
    tasks = [(options, *task) for task in tasks if task not in done]
    print(f"seed {options.seed}, {len(tasks)} models of {len(names)} classes, transformers {transformers.__version__}")
    for row in rows:
        shown(row)
    with multiprocessing.Pool(options.jobs) as pool, path.open("a") as out:
        for row in pool.imap_unordered(one, tasks):
            print(json.dumps(row), file=out, flush=True)
            shown(row)
            rows.append(row)
    rows = sorted((row for row in rows if row["class"] in names), key=lambda row: (row["class"], row["number"]))
    table(rows)
    kinds = Counter(kind for row in rows for kind, _ in (row["found"] or {}).values())
    print(", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))
    sys.exit(1 if kinds["wrong"] else 0)


if __name__ == "__main__":
    main()
