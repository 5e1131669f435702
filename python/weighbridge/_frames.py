"""Loading all tensors of a model, for every library of arrays."""

from __future__ import annotations

from pathlib import Path

from . import _native
from ._model import Model, Tensor
from ._model import open as _open
from ._progress import Progress, callback


def load(
    source: str | Path | Model,
    dtype: str | None,
    names: str,
    threads: int,
    progress: Progress,
) -> dict[str, tuple[Tensor, _native.Array]]:
    """All tensors under the names of a convention, each with its array: in `dtype`, or stored."""
    model = source if isinstance(source, Model) else _open(source)
    if names == "huggingface" and model._native.architecture is None:
        # The names of an unknown family are its own.
        names = "stored"
    found = model.tensors(names)
    with callback(progress) as shown:
        tensors = [tensor._native for tensor in found.values()]
        arrays = _native.load(tensors, dtype, threads, shown)
    return {
        name: (tensor, array)
        for (name, tensor), array in zip(found.items(), arrays, strict=True)
    }
