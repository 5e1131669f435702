"""NumPy arrays in safetensors files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as _np

from .._dtypes import LACKING, NAMES, ml_dtype
from ._file import Array, File, PathLike, SafetensorError
from ._write import serialize, serialize_file, spec_of

__all__ = ["load", "load_file", "save", "save_file"]


def from_file(array: Array) -> Any:
    """A stored array, in the memory of the file."""
    kind = ml_dtype(array.dtype) if array.dtype in LACKING else NAMES.get(array.dtype)
    if kind is None:
        raise SafetensorError(f"NumPy has no dtype {array.dtype}")
    if not array.nbytes:
        return _np.empty(array.shape, kind)
    return _np.from_dlpack(array.memory()).view(kind).reshape(array.shape)


def save(tensor_dict: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a file with these arrays."""
    kept = {name: spec_of(name, array) for name, array in tensor_dict.items()}
    return serialize({name: spec for name, (spec, _) in kept.items()}, metadata)


def save_file(
    tensor_dict: Mapping[str, Any], filename: PathLike, metadata: Mapping[str, str] | None = None
) -> None:
    """Writes these arrays to a file."""
    kept = {name: spec_of(name, array) for name, array in tensor_dict.items()}
    serialize_file({name: spec for name, (spec, _) in kept.items()}, filename, metadata)


def load(data: bytes) -> dict[str, Any]:
    """The arrays of a file in memory."""
    return {name: from_file(array) for name, array in File.memory(data).arrays.items()}


def load_file(filename: PathLike) -> dict[str, Any]:
    """The arrays of a file. A write to them does not reach it."""
    return {name: from_file(array) for name, array in File.open(filename).arrays.items()}
