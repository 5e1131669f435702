"""Measures the Python package beside its peers: python bench.py FOLDER [--rounds 5] [--only WORD]

Needs torch, safetensors, gguf, transformers and mlx. Makes its models in FOLDER, about 4 GB, and leaves
them there. Each measurement is a process of its own. Ours and the peer's alternate, and every other round
begins with the peer, so that neither always finds the machine as the other left it. The call is made
twice in the process, and the second counts: the first also pays for code that is loaded, and on a
virtual machine for memory that its host has taken back, which can be most of the time. Its time is
printed too. Figures are medians, and the ratio is that of the least times, which other programs disturb
least; a call of less than 0.1 s is repeated, and its least time counts. Both libraries read the same file.
"Read" means that a number of every page is read after loading, since libraries that map a file have read
nothing before. Memory is the largest resident size of the process in the first call above that before
it, "own" without pages of the file.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable

import numpy as np

# Llama 3.2 1B.
DIM, FFN, LAYERS, HEADS, KV_HEADS, VOCAB = 2048, 8192, 16, 32, 8, 128256


def tensors() -> dict[str, tuple[int, ...]]:
    """Names and shapes of the model."""
    head = DIM // HEADS
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCAB, DIM)}
    for layer in range(LAYERS):
        shapes |= {
            f"model.layers.{layer}.{name}.weight": shape
            for name, shape in {
                "input_layernorm": (DIM,), "post_attention_layernorm": (DIM,),
                "self_attn.q_proj": (DIM, DIM), "self_attn.k_proj": (KV_HEADS * head, DIM),
                "self_attn.v_proj": (KV_HEADS * head, DIM), "self_attn.o_proj": (DIM, DIM),
                "mlp.gate_proj": (FFN, DIM), "mlp.up_proj": (FFN, DIM),
                "mlp.down_proj": (DIM, FFN),
            }.items()
        }
    return shapes | {"model.norm.weight": (DIM,)}


CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
    "hidden_size": DIM, "intermediate_size": FFN, "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": DIM // HEADS,
    "vocab_size": VOCAB, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
    "bos_token_id": 0, "eos_token_id": 1,
}


def make(folder: Path) -> None:
    """Makes what is missing of the models."""
    import torch

    import weighbridge as wb

    folder.mkdir(parents=True, exist_ok=True)
    hf = folder / "hf"
    if not hf.exists():
        numbers = torch.randn(VOCAB * DIM, generator=torch.Generator().manual_seed(1))
        numbers = (numbers * 0.02).to(torch.bfloat16)
        writer = wb.Writer("safetensors", one_file=False)
        writer.document("config.json", CONFIG)
        vocab = {f"t{number}": number for number in range(VOCAB)}
        model = {"type": "BPE", "vocab": vocab, "merges": []}
        writer.document("tokenizer.json", {"version": "1.0", "added_tokens": [], "model": model})
        writer.document("tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"})
        for at, (name, shape) in enumerate(tensors().items()):
            count = int(np.prod(shape))
            start = (at * 4099) % (len(numbers) - count + 1)
            writer.add(name, numbers[start : start + count].reshape(shape))
        writer.write(hf)
    if not (folder / "q4_k_m.gguf").exists():
        wb.quantize(hf, folder / "q4_k_m.gguf", "Q4_K_M", allow_incomplete=True)
    if not (folder / "mlx").exists():
        wb.quantize(hf, folder / "mlx", mlx="affine", bits=4, group_size=64)
    if not (folder / "tokens.gguf").exists():
        writer = wb.Writer("gguf")
        writer.set("general.architecture", "qwen2")
        writer.set("tokenizer.ggml.model", "gpt2")
        words = [f"token-{number * 7919 % 152064}" for number in range(152064)]
        writer.set("tokenizer.ggml.tokens", words)
        writer.set("tokenizer.ggml.token_type", [1] * len(words))
        merges = [f"{words[n % 152064]} {words[n * 31 % 152064]}" for n in range(280000)]
        writer.set("tokenizer.ggml.merges", merges)
        for number in range(700):
            writer.add(f"blk.{number}.attn_norm.weight", np.ones(64, np.float32))
        writer.write(folder / "tokens.gguf")


def touch(state: dict[str, Any]) -> None:
    """Reads a number of every page."""
    import torch

    for tensor in state.values():
        tensor.view(-1).view(torch.uint8)[::4096].sum()


def ours_torch(path: Path, **options: Any) -> Callable[[], dict[str, Any]]:
    import weighbridge.torch

    return lambda: weighbridge.torch.load_file(path, **options)


def case_safetensors(folder: Path, ours: bool) -> Callable[[], object]:
    path = folder / "hf" / "model.safetensors"
    if ours:
        return ours_torch(path)
    from safetensors.torch import load_file

    return lambda: load_file(path)


def case_safetensors_read(folder: Path, ours: bool) -> Callable[[], object]:
    load = case_safetensors(folder, ours)
    return lambda: touch(load())  # type: ignore[arg-type]


def case_safetensors_copied(folder: Path, ours: bool) -> Callable[[], object]:
    if ours:
        return ours_torch(folder / "hf" / "model.safetensors", copy=True)
    load = case_safetensors(folder, False)
    return lambda: {name: t.clone() for name, t in load().items()}  # type: ignore[attr-defined]


ROWS = range(0, 100_000, 100)
"""The first of ten rows of the embedding, 1000 times."""


def opened(path: Path, framework: str, ours: bool) -> Any:
    """`safe_open` of ours or of the package, which finds bfloat16 only if `ml_dtypes` is imported."""
    importlib.import_module("torch" if framework == "pt" else "ml_dtypes")
    module: Any = importlib.import_module("weighbridge.safetensors" if ours else "safetensors")
    return module.safe_open(path, framework)


def case_rows_numpy(folder: Path, ours: bool) -> Callable[[], object]:
    path, name = folder / "hf" / "model.safetensors", "model.embed_tokens.weight"
    if ours:
        import weighbridge as wb

        tensor = wb.open(path).stored[name]
        return lambda: [tensor[row : row + 10].numpy() for row in ROWS]
    part = opened(path, "np", False).get_slice(name)
    return lambda: [part[row : row + 10] for row in ROWS]


def case_rows_torch(folder: Path, ours: bool) -> Callable[[], object]:
    path, name = folder / "hf" / "model.safetensors", "model.embed_tokens.weight"
    if ours:
        import torch  # noqa: F401  (its import is not what is measured)

        import weighbridge as wb

        tensor = wb.open(path).stored[name]
        return lambda: [tensor[row : row + 10].torch() for row in ROWS]
    part = opened(path, "pt", False).get_slice(name)
    return lambda: [part[row : row + 10] for row in ROWS]


def rows_of_the_replacement(framework: str) -> Callable[[Path, bool], Callable[[], object]]:
    def case(folder: Path, ours: bool) -> Callable[[], object]:
        path = folder / "hf" / "model.safetensors"
        part = opened(path, framework, ours).get_slice("model.embed_tokens.weight")
        return lambda: [part[row : row + 10] for row in ROWS]

    return case


def case_mlx(folder: Path, ours: bool) -> Callable[[], object]:
    import mlx.core as mx

    path = folder / "mlx"
    if ours:
        import weighbridge.mlx as wbm

        return lambda: mx.eval(wbm.load_file(path, packed=True))
    return lambda: mx.eval(mx.load(str(path / "model.safetensors")))


def case_gguf_values(folder: Path, ours: bool) -> Callable[[], object]:
    import torch

    path = folder / "q4_k_m.gguf"
    if ours:
        return ours_torch(path, dtype=torch.bfloat16, names="gguf")
    import gguf

    def load() -> object:
        return {
            tensor.name: torch.from_numpy(
                gguf.dequantize(tensor.data, tensor.tensor_type)
            ).to(torch.bfloat16)
            for tensor in gguf.GGUFReader(path).tensors
        }

    return load


def case_gguf_again(folder: Path, ours: bool) -> Callable[[], object]:
    path = folder / "q4_k_m.gguf"
    if ours:
        import weighbridge as wb

        model = wb.open(path)
        names = list(model.stored)
        room = np.zeros(max(int(np.prod(model.stored[name].shape)) for name in names), np.float32)

        def decode() -> None:
            for name in names:
                tensor = model.stored[name]
                tensor.dequantize(out=room[: int(np.prod(tensor.shape))].reshape(tensor.shape))

        return decode
    import gguf

    def load() -> None:
        for tensor in gguf.GGUFReader(path).tensors:
            gguf.dequantize(tensor.data, tensor.tensor_type)

    return load


def case_gguf_transformers(folder: Path, ours: bool) -> Callable[[], object]:
    import torch
    import transformers

    path = folder / "q4_k_m.gguf"
    if not ours:
        return lambda: transformers.AutoModelForCausalLM.from_pretrained(
            folder, gguf_file=path.name, dtype=torch.bfloat16
        )
    config = transformers.AutoConfig.from_pretrained(folder / "hf")
    read = ours_torch(path, dtype=torch.bfloat16)

    def load() -> object:
        with torch.device("meta"):
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        model.load_state_dict(read(), strict=False, assign=True)
        model.tie_weights()
        return model

    return load


def case_open(folder: Path, ours: bool) -> Callable[[], object]:
    path = folder / "tokens.gguf"
    if ours:
        import weighbridge as wb

        return lambda: wb.open(path)
    import gguf

    return lambda: gguf.GGUFReader(path)


CASES = {
    "safetensors file, 2.5 GB, to torch": (case_safetensors, "safetensors.torch.load_file"),
    "the same, every page read": (case_safetensors_read, "safetensors.torch.load_file"),
    "the same, copied into own memory": (case_safetensors_copied, "load_file, clone()"),
    "1000 times ten rows, to NumPy": (case_rows_numpy, "get_slice"),
    "1000 times ten rows, to torch": (case_rows_torch, "get_slice"),
    "the same, weighbridge.safetensors, NumPy": (rows_of_the_replacement("np"), "get_slice"),
    "the same, weighbridge.safetensors, torch": (rows_of_the_replacement("pt"), "get_slice"),
    "MLX directory, 4 bits, to MLX": (case_mlx, "mlx.core.load"),
    "GGUF Q4_K_M to torch, bfloat16": (case_gguf_values, "gguf.dequantize"),
    "GGUF Q4_K_M to float32, one tensor at a time": (case_gguf_again, "gguf.dequantize"),
    "GGUF Q4_K_M to a transformers model": (case_gguf_transformers, "gguf_file="),
    "opening a GGUF of 152,064 tokens": (case_open, "gguf.GGUFReader"),
}


def new_memory() -> None:
    """What any program needs for the memory alone that the 1.24 billion values in bfloat16 take."""
    count = sum(int(np.prod(shape)) for shape in tensors().values())
    np.empty(2 * count, np.uint8)[::4096] = 1


def memory() -> tuple[int, int]:
    """The largest resident size of this process so far, and its size without files now, in KiB."""
    fields = {}
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        fields[name] = value.split()
    return int(fields["VmHWM"][0]), int(fields["RssAnon"][0])


def timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    kept = run()
    seconds = time.perf_counter() - start
    del kept
    return seconds


def child(name: str, folder: Path, ours: bool) -> None:
    """Measures one call in this process."""
    run = CASES[name][0](folder, ours)
    before = memory()
    start = time.perf_counter()
    kept = run()
    first = time.perf_counter() - start
    after = memory()
    del kept
    seconds = timed(run)
    if seconds < 0.1:
        seconds = min(timed(run) for _ in range(20))
    peak, own = ((b - a) / 1024 for a, b in zip(before, after, strict=True))
    print(json.dumps({"seconds": seconds, "first": first, "peak": peak, "own": own}))


def measured(name: str, folder: Path, ours: bool) -> dict[str, float]:
    command = [sys.executable, __file__, str(folder), "--child", name]
    ran = subprocess.run(
        [*command, *(["--ours"] if ours else [])], capture_output=True, text=True, check=False
    )
    if ran.returncode != 0:
        raise SystemExit(f"{name}: {ran.stderr[-2000:]}")
    found: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return found


def shown(seconds: float) -> str:
    for factor, unit in ((1, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.2f} {unit}"
    return f"{seconds * 1e6:.0f} us"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--child")
    parser.add_argument("--ours", action="store_true")
    parser.add_argument("--new-memory", action="store_true")
    options = parser.parse_args()
    if options.new_memory:
        print(timed(new_memory))
        return
    if options.child:
        child(options.child, options.folder, options.ours)
        return
    make(options.folder)
    print("| case | ours (first) | peer (first) | ratio of least | memory of ours: peak, own | of the peer |")
    print("|---|---|---|---|---|---|")
    for name, (_, peer) in CASES.items():
        if options.only not in name:
            continue
        rounds: dict[bool, list[dict[str, float]]] = {True: [], False: []}
        for number in range(options.rounds):
            for ours in (number % 2 == 0, number % 2 == 1):
                rounds[ours].append(measured(name, options.folder, ours))
        middle = {
            ours: {key: statistics.median(one[key] for one in found) for key in found[0]}
            for ours, found in rounds.items()
        }
        a, b = middle[True], middle[False]
        least = [min(one["seconds"] for one in rounds[ours]) for ours in (True, False)]
        print(
            f"| {name} | {shown(a['seconds'])} ({shown(a['first'])}) "
            f"| {peer} {shown(b['seconds'])} ({shown(b['first'])}) "
            f"| {least[1] / least[0]:.2f} | {a['peak']:.0f} MiB, {a['own']:.0f} MiB "
            f"| {b['peak']:.0f} MiB, {b['own']:.0f} MiB |",
            flush=True,
        )

    again = [sys.executable, __file__, str(options.folder), "--new-memory"]
    alone = [float(subprocess.check_output(again)) for _ in range(options.rounds)]
    print(f"\nNew memory of 2.5 GB, a write to each page: {shown(statistics.median(alone))}")


if __name__ == "__main__":
    main()
