"""State dicts of JAX arrays."""

from __future__ import annotations

from typing import Any

import jax.numpy as _jnp

from ._dtypes import Float
from ._frames import load, named
from ._model import Names
from ._progress import Progress
from ._verbs import Source
from ._writer import save, save_file

__all__ = ["load_file", "save", "save_file"]


def load_file(
    source: Source,
    *,
    dtype: Float | None = None,
    names: Names = "huggingface",
    filter: str | None = None,
    copy: bool = False,
    threads: int = 0,
    progress: Progress = None,
) -> dict[str, Any]:
    """Loads all tensors of a model in any container: see `weighbridge.torch.load_file`."""
    found = load(named(source, names, filter=filter), dtype, threads, progress, copy)
    return {name: _jnp.from_dlpack(array) for name, (_, array) in found.items()}
