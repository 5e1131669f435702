"""JAX arrays in safetensors files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as _jnp
import numpy as _np

from . import numpy as _numpy
from ._file import Array, File, PathLike

__all__ = ["load", "load_file", "save", "save_file"]


def from_file(array: Array) -> Any:
    """A stored array."""
    return from_numpy(_numpy.from_file(array))


def from_numpy(array: Any) -> Any:
    """An array of NumPy or `ml_dtypes`, copied."""
    return _jnp.array(array)


def save(tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a file with these arrays."""
    return _numpy.save({name: _np.asarray(array) for name, array in tensors.items()}, metadata)


def save_file(
    tensors: Mapping[str, Any], filename: PathLike, metadata: Mapping[str, str] | None = None
) -> None:
    """Writes these arrays to a file."""
    _numpy.save_file({n: _np.asarray(array) for n, array in tensors.items()}, filename, metadata)


def load(data: bytes) -> dict[str, Any]:
    """The arrays of a file in memory."""
    return {name: from_file(array) for name, array in File.memory(data).arrays.items()}


def load_file(filename: PathLike) -> dict[str, Any]:
    """The arrays of a file."""
    return {name: from_file(array) for name, array in File.open(filename).arrays.items()}
