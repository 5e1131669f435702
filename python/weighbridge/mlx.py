"""Dicts of MLX arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as _mx

from ._frames import load
from ._model import Model
from ._progress import Progress
from ._writer import save_file

__all__ = ["load_file", "save_file"]


def load_file(
    source: str | Path | Model,
    *,
    dtype: Any = None,
    names: str = "mlx",
    threads: int = 0,
    progress: Progress = None,
) -> dict[str, Any]:
    """Loads all tensors of a model in any container, under the names of mlx-lm: see
    `weighbridge.torch.load_file`. Quantized tensors are decoded."""
    wanted = None if dtype is None else str(dtype).removeprefix("mlx.core.")
    found = load(source, wanted, names, threads, progress)
    return {name: _mx.array(array) for name, (_, array) in found.items()}
