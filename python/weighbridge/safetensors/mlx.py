"""MLX arrays in safetensors files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mlx.core as _mx
import numpy as _np

from . import numpy as _numpy
from ._file import Array, File, PathLike

__all__ = ["load", "load_file", "save", "save_file"]


def from_file(array: Array) -> Any:
    """A stored array."""
    return from_numpy(_numpy.from_file(array))


def from_numpy(array: Any) -> Any:
    """An array of NumPy or `ml_dtypes`, copied."""
    if array.dtype.name == "bfloat16":
        return _mx.array(array.view(_np.uint16)).view(_mx.bfloat16)
    return _mx.array(array)


def _as_numpy(array: Any) -> Any:
    if array.dtype == _mx.bfloat16:
        import ml_dtypes

        return _np.asarray(array.view(_mx.uint16)).view(ml_dtypes.bfloat16)
    return _np.asarray(array)


def save(tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a file with these arrays."""
    return _numpy.save({name: _as_numpy(array) for name, array in tensors.items()}, metadata)


def save_file(
    tensors: Mapping[str, Any], filename: PathLike, metadata: Mapping[str, str] | None = None
) -> None:
    """Writes these arrays to a file."""
    _numpy.save_file({n: _as_numpy(array) for n, array in tensors.items()}, filename, metadata)


def load(data: bytes) -> dict[str, Any]:
    """The arrays of a file in memory."""
    return {name: from_file(array) for name, array in File.memory(data).arrays.items()}


def load_file(filename: PathLike) -> dict[str, Any]:
    """The arrays of a file."""
    return {name: from_file(array) for name, array in File.open(filename).arrays.items()}
