"""Dicts of MLX arrays."""

from __future__ import annotations

from typing import Any, Literal, overload

import mlx.core as _mx

from ._dtypes import Float
from ._errors import exception
from ._frames import load, named
from ._model import Model, Names
from ._model import open as _open
from ._progress import Progress
from ._tensor import Tensor
from ._verbs import Source
from ._writer import save, save_file

__all__ = ["load_file", "save", "save_file"]


@overload
def load_file(
    source: Source,
    *,
    dtype: Float | None = None,
    names: Names = "mlx",
    filter: str | None = None,
    packed: bool = False,
    return_metadata: Literal[False] = False,
    threads: int = 0,
    progress: Progress = None,
) -> dict[str, Any]: ...


@overload
def load_file(
    source: Source,
    *,
    dtype: Float | None = None,
    names: Names = "mlx",
    filter: str | None = None,
    packed: bool = False,
    return_metadata: Literal[True],
    threads: int = 0,
    progress: Progress = None,
) -> tuple[dict[str, Any], dict[str, Any]]: ...


def load_file(
    source: Source,
    *,
    dtype: Float | None = None,
    names: Names = "mlx",
    filter: str | None = None,
    packed: bool = False,
    return_metadata: bool = False,
    threads: int = 0,
    progress: Progress = None,
) -> dict[str, Any] | tuple[dict[str, Any], dict[str, Any]]:
    """Loads all tensors of a model in any container, under the names of mlx-lm: see
    `weighbridge.torch.load_file`. Quantized tensors are decoded.

    With `packed`, tensors in MLX's own packing stay packed, as mlx-lm's quantized modules take them:
    `x.weight`, `x.scales` and, unless the mode has none, `x.biases`. They are read as they are stored;
    `dtype` applies to the other tensors. Convert a model of another container with
    `weighbridge.convert(..., to="mlx")` first: it keeps the codes where MLX has them.

    With `return_metadata`, returns the dict and the metadata, as `mlx.core.load` does.
    """
    model = source if isinstance(source, Model) else _open(source)
    tensors = named(model, names, filter=filter)
    kept = {name: t for name, t in tensors.items() if packed and t.dtype.startswith("MLX_")}
    found = load(
        {name: t for name, t in tensors.items() if name not in kept}, dtype, threads, progress
    )
    state = {name: _mx.array(array) for name, (_, array) in found.items()}
    for name, tensor in kept.items():
        state.update(_packed(name, tensor))
    state = {name: state[name] for name in sorted(state)} if kept else state
    return (state, dict(model.metadata)) if return_metadata else state


_PARTS = {"weight": "weight", "scale": "scales", "bias": "biases"}


def _packed(name: str, tensor: Tensor) -> dict[str, Any]:
    """The arrays of a packed tensor, under the names of mlx-lm's modules."""
    stem = name.removesuffix(".weight")
    arrays: dict[str, Any] = {}
    for part in tensor.parts:
        if part.part not in _PARTS:
            fault = f"mlx-lm's modules have no {part.part} for {name}"
            raise exception("unsupported", fault, tensor=name)
        array = _mx.array(tensor._native.packed(part.part))
        if part.part == "weight":
            # Codes are packed in integers of 32 bits.
            array = array.view(_mx.uint8).reshape(-1).view(_mx.uint32)
            array = array.reshape(*tensor.shape[:-1], -1)
        arrays[f"{stem}.{_PARTS[part.part]}"] = array
    return arrays
