"""Writes models with weighbridge and reads them with the reference libraries of each format.

    oracles.py PROGRAM MODEL...        MODEL: a model in any container; by default assets/sample

Each model is written in every way that the program supports, and then read by

- gguf (llama.cpp's Python package): it dequantizes every tensor of every GGUF, and the SHA-256 of
  the values must be the one that the program reports;
- safetensors and mlx: every array of every safetensors file;
- mlx-lm: it loads every directory whose family it supports, and checks the weights against the model
  that config.json describes; if greedy continuations are known, it must produce them;
- llama-cpp-python, if it can be imported: every GGUF is loaded by llama.cpp, and must produce the
  same continuations.

The exit status is 1 if any of them refuses a file or reads other numbers.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import mlx.core as mx
import numpy as np
from mlx_lm.utils import load_model
from safetensors import safe_open

PROGRAM = sys.argv[1]
ROOT = Path(__file__).resolve().parents[2]
FAULTS = []
CHECKED = {}


def said(oracle, ok, what, why=""):
    CHECKED[oracle] = CHECKED.get(oracle, 0) + 1
    if not ok:
        FAULTS.append(what)
        print(f"FAIL {oracle}: {what}: {why}")


def run(*words):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def hashes(path):
    status, out, err = run("hash", path, "--values", "--json")
    assert status == 0, err
    return {row["name"]: row for row in json.loads(out)["tensors"]}


def digest(values):
    return hashlib.sha256(np.ascontiguousarray(values, dtype=np.float32).tobytes()).hexdigest()


def check_gguf(path):
    ours = hashes(path)
    try:
        reader = gguf.GGUFReader(path)
    except ValueError as error:
        # A ggml type that the package does not support yet.
        assert "GGMLQuantizationType" in str(error), error
        print(f"left out: {path.name}: {error}")
        return
    said("gguf", len(reader.tensors) == len(ours), str(path), "another number of tensors")
    for tensor in reader.tensors:
        if tensor.name not in ours:
            # The factor of an NVFP4 tensor, which weighbridge joins with the tensor.
            said("gguf", tensor.name.endswith(".scale"), f"{path} {tensor.name}", "not ours")
            continue
        try:
            values = gguf.dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError:
            continue
        same = digest(values) == ours[tensor.name]["f32_sha256"]
        said("gguf", same, f"{path} {tensor.name}", "other values")


def check_safetensors(path):
    ours = mx.load(str(path))
    with safe_open(path, framework="np") as file:
        keys = set(file.keys())
        said("safetensors", keys == set(ours), str(path), "another set of arrays than MLX finds")
        said("safetensors", file.metadata().get("format") in ("pt", "mlx"), str(path), "no format")
        for key in keys:
            shape = list(file.get_slice(key).get_shape())
            said("safetensors", shape == list(ours[key].shape), f"{path} {key}", "another shape")


def expected(model):
    for place in (model, model.parent):
        if (place / "expected_generation.json").is_file():
            return json.loads((place / "expected_generation.json").read_text())["cases"]
    return []


def check_mlx_lm(folder, cases, exact):
    try:
        model, _ = load_model(folder, strict=True)
    except ValueError as error:
        if "not supported" in str(error):
            return
        return said("mlx-lm", False, str(folder), error)
    except Exception as error:
        return said("mlx-lm", False, str(folder), error)
    said("mlx-lm", True, str(folder))
    if not exact:
        return
    model.set_dtype(mx.float32)
    for case in cases:
        ids = list(case["prompt_ids"])
        while len(ids) < len(case["greedy_ids"]):
            ids.append(int(mx.argmax(model(mx.array([ids]))[0, -1]).item()))
        said("mlx-lm", ids == case["greedy_ids"], f"{folder} {case['prompt']}", "another text")


def check_llama(path, cases, exact):
    try:
        import llama_cpp
    except Exception:
        return
    try:
        model = llama_cpp.Llama(str(path), n_ctx=0, logits_all=False, verbose=False)
    except Exception as error:
        return said("llama.cpp", False, str(path), error)
    said("llama.cpp", True, str(path))
    for case in cases if exact else []:
        # The prompts begin with <s>, which the sample's tokenizer does not add by itself.
        prompt = [model.token_bos(), *model.tokenize(case["prompt"].encode(), add_bos=False, special=False)]
        said("llama.cpp", prompt == case["prompt_ids"], f"{path} {case['prompt']}", prompt)
        ids = list(case["prompt_ids"])
        for token in model.generate(list(ids), temp=0.0, top_k=1, repeat_penalty=1.0):
            ids.append(token)
            if len(ids) == len(case["greedy_ids"]):
                break
        said("llama.cpp", ids == case["greedy_ids"], f"{path} {case['prompt']}", "another text")


# A name, the arguments of the command, and whether values stay close enough for equal texts.
WAYS = [
    ("gguf", ["convert", "--to", "gguf"], True),
    ("gguf-F32", ["convert", "--to", "gguf", "--dtype", "F32"], True),
    ("safetensors", ["convert", "--to", "safetensors"], False),
    ("safetensors-F32", ["convert", "--to", "safetensors", "--dtype", "F32"], True),
    ("mlx", ["convert", "--to", "mlx"], False),
    ("mlx-4", ["quantize", "--allow-requantize", "--mlx", "4"], False),
    ("mlx-8-32", ["quantize", "--allow-requantize", "--mlx", "8,32"], False),
    ("mlx-mxfp4", ["quantize", "--allow-requantize", "--mlx", "4,32,mxfp4"], False),
    ("mlx-nvfp4", ["quantize", "--allow-requantize", "--mlx", "4,16,nvfp4"], False),
    ("mlx-mxfp8", ["quantize", "--allow-requantize", "--mlx", "8,32,mxfp8"], False),
] + [
    (name, ["quantize", "--allow-requantize", "--type", name], False)
    for name in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K_M", "Q4_K_M", "Q5_K_M", "Q6_K", "IQ3_S", "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "Q1_0", "Q2_0", "F16", "BF16")
]


def check(model, folder):
    cases = expected(model)
    unquantized = "BF16" in model.name or model.name in ("hf",) or model.name.endswith(("f16", "f32", "bf16"))
    for name, words, near in WAYS:
        target = folder / f"{model.stem}-{name}"
        is_directory = name.startswith(("safetensors", "mlx"))
        if not is_directory:
            target = target.with_name(target.name + ".gguf")
        status, _, err = run(*words, model, target)
        if status == 4:
            print(f"left out: {model.name} {name}: {err.strip().splitlines()[0]}")
            continue
        said("weighbridge", status == 0, f"{model} {name}", err.strip())
        if status:
            continue
        exact = near and unquantized
        if is_directory:
            for file in sorted(target.glob("*.safetensors")):
                check_safetensors(file)
            check_mlx_lm(target, cases, exact)
            merged = folder / "merged.safetensors"
            written = [(["merge", target, merged], merged, check_safetensors)]
        else:
            check_gguf(target)
            check_llama(target, cases, exact)
            aligned = folder / "aligned.gguf"
            written = [(["align", target, aligned, "--align", "4096"], aligned, check_gguf)]
        for words, path, look in written:
            status, _, err = run(*words)
            said("weighbridge", status == 0, f"{words}", err.strip())
            if status == 0:
                look(path)
                os.remove(path)
        status, out, err = run("verify", "--strict", target)
        said("weighbridge", status == 0, f"verify --strict {target}", out + err)


models = [Path(model) for model in sys.argv[2:]]
sample = ROOT / "assets" / "sample"
for model in models or [sample / "hf", sample / "mlx-4bit", sample / "sample-Q8_0.gguf"]:
    with tempfile.TemporaryDirectory() as folder:
        check(model, Path(folder))
for oracle, count in CHECKED.items():
    print(f"{oracle}: {count} checks")
print(f"{len(FAULTS)} faults")
sys.exit(1 if FAULTS or not CHECKED else 0)
