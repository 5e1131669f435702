"""Converts and quantizes a large model on a Ray cluster of this machine, beside one process.

    python slices.py FOLDER [--gigabytes 4] [--kills 20]

Needs ray and numpy. Makes a checkpoint of random weights in FOLDER, and there for each case: one process
with as many threads; 2 and 4 workers; and workers of which one is killed at random moments. Compares the
bytes, and prints the times: the least of two runs, since the first pays for memory that the host of a
virtual machine has taken back. FOLDER needs four times the length of the model.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import struct
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import ray

import weighbridge as wb

DIM, FFN, VOCAB, HEADS, KV_HEADS = 2048, 8192, 32000, 32, 8
LAYER = {
    "input_layernorm": (DIM,), "post_attention_layernorm": (DIM,),
    "self_attn.q_proj": (DIM, DIM), "self_attn.k_proj": (DIM // 4, DIM),
    "self_attn.v_proj": (DIM // 4, DIM), "self_attn.o_proj": (DIM, DIM),
    "mlp.gate_proj": (FFN, DIM), "mlp.up_proj": (FFN, DIM), "mlp.down_proj": (DIM, FFN),
}


def make(folder: Path, gigabytes: float) -> int:
    """A Llama of BF16 weights with a normal distribution. Returns the number of its layers."""
    layer = sum(2 * int(np.prod(shape)) for shape in LAYER.values())
    layers = round((gigabytes * 1e9 - 4 * VOCAB * DIM) / layer)
    folder.mkdir(parents=True)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
        "hidden_size": DIM, "intermediate_size": FFN, "num_hidden_layers": layers,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "vocab_size": VOCAB,
        "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    }
    (folder / "config.json").write_text(json.dumps(config))
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCAB, DIM)}
    for number in range(layers):
        shapes |= {f"model.layers.{number}.{name}.weight": LAYER[name] for name in LAYER}
    shapes |= {"model.norm.weight": (DIM,), "lm_head.weight": (VOCAB, DIM)}
    header, at = {}, 0
    for name, shape in shapes.items():
        end = at + 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    numbers = np.random.default_rng(1)
    with (folder / "model.safetensors").open("wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for shape in shapes.values():
            values = numbers.standard_normal(int(np.prod(shape)), dtype=np.float32) * 0.02
            out.write((values.view(np.uint32) >> 16).astype(np.uint16).tobytes())
    return layers


def importance(layers: int, path: Path) -> None:
    """An importance matrix for the model, as llama-imatrix writes one."""
    numbers = np.random.default_rng(2)
    entries = []
    for number in range(layers):
        for name, width in (
            ("attn_q", DIM), ("attn_k", DIM), ("attn_v", DIM), ("attn_output", DIM),
            ("ffn_gate", DIM), ("ffn_up", DIM), ("ffn_down", FFN),
        ):
            text = f"blk.{number}.{name}.weight".encode()
            values = numbers.random(width, dtype=np.float32) + 0.1
            entry = struct.pack("<i", len(text)) + text + struct.pack("<ii", 1, width)
            entries.append(entry + values.tobytes())
    path.write_bytes(struct.pack("<i", len(entries)) + b"".join(entries))


def wait() -> None:
    time.sleep(1)


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def of_slices() -> list[int]:
    """Processes that write slices."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if b"weighbridge._program" in words and b"\0slice\0" in words:
            found.append(int(process.name))
    return found


class Killer(threading.Thread):
    """Kills a process that writes a slice, at random moments."""

    def __init__(self, kills: int, pause: float) -> None:
        super().__init__(daemon=True)
        self.left, self.pause, self.numbers = kills, pause, random.Random(7)
        self.stopped = threading.Event()

    def run(self) -> None:
        while self.left and not self.stopped.wait(self.numbers.random() * self.pause):
            for process in of_slices()[:1]:
                os.kill(process, signal.SIGKILL)
                self.left -= 1


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--slices", type=int, default=16)
    options = parser.parse_args()
    source, matrix = options.folder / "source", options.folder / "imatrix.dat"
    if not source.exists():
        importance(make(source, options.gigabytes), matrix)
    incomplete = {"allow_incomplete": True}
    cases: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
        "convert to GGUF": ("convert", (), incomplete),
        "quantize to Q4_K_M": ("quantize", ("Q4_K_M",), incomplete),
        "the same, with an importance matrix": (
            "quantize", ("Q4_K_M",), incomplete | {"imatrix": str(matrix)},
        ),
    }
    ray.init(num_cpus=4, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    # Workers are started before anything is measured.
    ray.get([ray.remote(wait).remote() for _ in range(4)])
    print("| what | one process | 2 workers | 4 workers | killed | equal |\n|---|---|---|---|---|---|")
    for name, (verb, arguments, keywords) in cases.items():
        one, sliced = options.folder / "one.gguf", options.folder / "sliced.gguf"
        seconds, sums = [], []
        for workers in (1, 2, 4, 0):
            path = one if workers == 1 else sliced
            killer = Killer(options.kills, 2.0)
            taken = []
            for _ in range(2 if workers else 1):
                path.unlink(missing_ok=True)
                start = time.perf_counter()
                if workers == 1:
                    getattr(wb, verb)(source, path, *arguments, threads=2, **keywords)
                else:
                    if workers == 0:
                        killer.start()
                    slots = {"ray_options": {"num_cpus": 4 / (workers or 2)}}
                    run = getattr(wb.ray, verb)
                    retries = 2 * options.kills
                    run(
                        source, path, *arguments, threads=1, slices=options.slices,
                        retries=retries, **slots, **keywords,
                    )
                taken.append(time.perf_counter() - start)
                sums.append(digest(path))
            killer.stopped.set()
            seconds.append(min(taken))
        times = " | ".join(f"{value:.1f} s" for value in seconds)
        kills = options.kills - killer.left
        print(f"| {name} | {times} ({kills} kills) | {len(set(sums)) == 1} |", flush=True)
    shutil.rmtree(options.folder)


if __name__ == "__main__":
    main()
