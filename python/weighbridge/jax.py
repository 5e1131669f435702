"""State dicts of JAX arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as _jnp

from ._frames import load, named
from ._model import Model
from ._progress import Progress
from ._writer import save_file

__all__ = ["load_file", "save_file"]


def load_file(
    source: str | Path | Model,
    *,
    dtype: Any = None,
    names: str = "huggingface",
    copy: bool = False,
    threads: int = 0,
    progress: Progress = None,
) -> dict[str, Any]:
    """Loads all tensors of a model in any container: see `weighbridge.torch.load_file`."""
    wanted = None if dtype is None else _jnp.dtype(dtype).name
    found = load(named(source, names), wanted, threads, progress, copy)
    return {name: _jnp.from_dlpack(array) for name, (_, array) in found.items()}
