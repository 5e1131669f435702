"""State dicts of PyTorch tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch as _torch

from ._frames import load, named
from ._model import Model
from ._progress import Progress
from ._writer import save_file

__all__ = ["load_file", "save_file"]


def load_file(
    source: str | Path | Model,
    *,
    device: Any = "cpu",
    dtype: Any = None,
    names: str = "huggingface",
    threads: int = 0,
    progress: Progress = None,
) -> dict[str, _torch.Tensor]:
    """Loads all tensors of a model in any container, as a state dict that transformers loads.

    Stored numbers share the memory of the file, privately: a write never reaches it. Quantized
    tensors are decoded to `dtype` (torch.float32, float16 or bfloat16) or float32. `names` is
    `huggingface`, `canonical`, `stored`, `mlx` or `gguf`.

    >>> load_file(SAMPLE)["model.norm.weight"].shape
    torch.Size([256])
    """
    wanted = None if dtype is None else str(dtype).removeprefix("torch.")
    found = load(named(source, names), wanted, threads, progress)
    tensors = {name: _torch.from_dlpack(array) for name, (_, array) in found.items()}
    if str(device) == "cpu":
        return tensors
    return {name: tensor.to(device) for name, tensor in tensors.items()}
