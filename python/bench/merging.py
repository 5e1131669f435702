"""Measures `weighbridge merge` beside mergekit: python merging.py FOLDER MERGEKIT-YAML [--rounds 5]

MERGEKIT-YAML is the program of that name, of an environment of its own. Makes three models of 1.5 GB in FOLDER
and leaves them there; needs about 6 GB. Both programs run the same recipes, in turn, and the least of each
figure counts: seconds, seconds of processors, and the largest resident size, once with pages of files and once
without. "Half" says whether ours is at most half of theirs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import ml_dtypes
import numpy as np
from bench import CONFIG, VOCAB
from bench import tensors as shapes_of_all

import weighbridge as wb

LAYERS = 8


def make(folder: Path) -> None:
    """Makes what is missing of the models: two that were tuned from one."""
    config = {**CONFIG, "num_hidden_layers": LAYERS}
    vocab = {f"t{number}": number for number in range(VOCAB)}
    tokenizer = {
        "version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": vocab, "merges": []}
    }
    kept = [str(layer) for layer in range(LAYERS)]
    shapes = {
        name: shape
        for name, shape in shapes_of_all().items()
        if not name.startswith("model.layers.") or name.split(".")[2] in kept
    }
    for seed, name in enumerate(("base", "a", "b")):
        if (folder / name).exists():
            continue
        writer = wb.Writer("safetensors", one_file=False)
        writer.document("config.json", config)
        writer.document("tokenizer.json", tokenizer)
        writer.document("tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"})
        writer.set("format", "pt")
        for number, (tensor, shape) in enumerate(shapes.items()):

            def values(shape: tuple[int, ...] = shape, number: int = number) -> np.ndarray:
                own = np.random.default_rng(number).standard_normal(shape, np.float32) * 0.02
                if seed > 0:
                    change = np.random.default_rng((seed, number)).standard_normal(shape, np.float32)
                    own += change * 0.002
                return own.astype(ml_dtypes.bfloat16)

            writer.add(tensor, values, shape=shape, dtype="BF16")
        writer.write(folder / name)


def recipes(folder: Path) -> Iterator[tuple[str, str]]:
    """The recipes, by their method."""

    def two(more: str = "") -> str:
        each = "- model: {}\n  parameters: {{weight: {}" + more + "}}\n"
        return "models:\n" + each.format(folder / "a", 0.6) + each.format(folder / "b", 0.4)

    base = f"base_model: {folder / 'base'}\n"
    yield "linear", two()
    yield "task_arithmetic", base + two()
    yield "ties", base + two(", density: 0.5")
    yield "dare_ties", base + two(", density: 0.5")
    a, b = folder / "a", folder / "b"
    yield "slerp", f"base_model: {a}\nmodels:\n- model: {a}\n- model: {b}\nparameters: {{t: 0.4}}\n"


def measured(command: list[str]) -> dict[str, float]:
    """Runs a program."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    own = 0
    while True:
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        if ended:
            break
        try:
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        except OSError:
            lines = []
        own = max([own, *(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))])
        time.sleep(0.01)
    if status != 0:
        raise SystemExit(f"{' '.join(command)}: status {status}")
    return {
        "s": time.perf_counter() - start,
        "s of processors": usage.ru_utime + usage.ru_stime,
        "MB": usage.ru_maxrss / 1024,
        "MB without files": own / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("mergekit")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    folder = options.folder.absolute()
    make(folder)
    print("| method | measure | ours | mergekit | ratio | half |\n|---|---|---|---|---|---|")
    for method, text in recipes(folder):
        if options.only not in method:
            continue
        recipe, out = folder / f"{method}.yml", folder / "merged"
        recipe.write_text(f"merge_method: {method}\ndtype: bfloat16\n{text}")
        least: list[dict[str, float]] = [{}, {}]
        for _ in range(options.rounds):
            ours = ["weighbridge", "merge", str(recipe), str(out)]
            for found, command in zip(
                least, (ours, [options.mergekit, str(recipe), str(out), "--quiet"]), strict=True
            ):
                shutil.rmtree(out, ignore_errors=True)
                for key, number in measured(command).items():
                    found[key] = min(number, found.get(key, number))
        for key, a in least[0].items():
            ratio = a / least[1][key]
            half = "yes" if ratio <= 0.5 else "no"
            print(f"| {method} | {key} | {a:.2f} | {least[1][key]:.2f} | {ratio:.2f} | {half} |", flush=True)
    shutil.rmtree(out, ignore_errors=True)


if __name__ == "__main__":
    main()
