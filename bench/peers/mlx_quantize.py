"""Loads a directory's safetensors file, quantizes the matrices and saves them like mlx_lm.convert, but
without building the model; prints the seconds. Started by benches/write.rs."""

import json
import os
import sys
import time

import mlx.core as mx

src, dst, how = sys.argv[1:]
mode, bits, group_size = how.split(",")
how = {"mode": mode, "bits": int(bits), "group_size": int(group_size)}
os.makedirs(dst)

start = time.perf_counter()
written = {}
for name, weight in mx.load(os.path.join(src, "model.safetensors")).items():
    if weight.ndim < 2:
        written[name] = weight
        continue
    base = name.removesuffix(".weight")
    parts = mx.quantize(weight, **how)
    for part, array in zip(("weight", "scales", "biases"), parts):
        written[f"{base}.{part}"] = array
mx.save_safetensors(os.path.join(dst, "model.safetensors"), written, metadata={"format": "mlx"})
print(time.perf_counter() - start)

with open(os.path.join(src, "config.json")) as file:
    config = json.load(file)
config["quantization"] = how
with open(os.path.join(dst, "config.json"), "w") as file:
    json.dump(config, file)
