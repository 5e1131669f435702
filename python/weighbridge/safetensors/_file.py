"""Opened files: all arrays by their names, whatever they are parts of."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any, Union

from .. import _native
from .._errors import Error

PathLike = Union[str, "os.PathLike[str]"]


class SafetensorError(Exception):
    """The file or the request is not valid."""


class Array:
    """A stored array of a file."""

    def __init__(self, tensor: _native.Tensor, place: int) -> None:
        self._tensor = tensor
        part, self.name, self.dtype, shape, _, self.offset, self.nbytes = tensor.segments()[place]
        self._part = part
        self.shape = list(shape)

    def memory(self) -> _native.Array:
        """The bytes, shared with the file's private map where possible."""
        return self._tensor.packed(self._part).as_bytes()


class File:
    """A safetensors file, on disk or in memory."""

    def __init__(self, native: _native.Model) -> None:
        self.native = native
        found = [
            Array(tensor, place)
            for name in native.stored_names()
            for tensor in [native.stored_tensor(name)]
            for place in range(len(tensor.segments()))
        ]
        self.arrays = {array.name: array for array in sorted(found, key=lambda array: array.name)}

    @classmethod
    def open(cls, path: PathLike) -> File:
        """Opens the file at a path."""
        name = os.fspath(path)
        if not os.path.exists(name):
            raise FileNotFoundError(f"No such file or directory: {name}")
        if os.path.isdir(name):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", name)
        return cls._of(lambda: _native.Model(name, "strict", False, 0, False))

    @classmethod
    def memory(cls, data: bytes) -> File:
        """Opens the bytes of a file."""
        return cls._of(lambda: _native.Model.memory("memory", bytes(data), "strict"))

    @classmethod
    def _of(cls, open: Callable[[], _native.Model]) -> File:
        try:
            native = open()
        except Error as error:
            raise SafetensorError(f"Error while deserializing header: {error}") from error
        if native.container not in ("safetensors", "mlx"):
            fault = f"the file is in {native.container}, which weighbridge.open reads"
            raise SafetensorError(f"Error while deserializing header: {fault}")
        return cls(native)

    def metadata(self) -> dict[str, str] | None:
        """The `__metadata__` of the header, or None."""
        found = {key: self.native.metadata_value(key) for key in self.native.metadata_keys()}
        return found or None

    def array(self, name: str) -> Array:
        """The array with this name."""
        try:
            return self.arrays[name]
        except KeyError:
            raise SafetensorError(f"File does not contain tensor {name}") from None


def deserialize(data: bytes) -> list[tuple[str, dict[str, Any]]]:
    """The arrays of a file in memory: names, and dicts with `shape`, `dtype` and `data`."""
    import numpy as np

    return [
        (name, {
            "shape": array.shape,
            "dtype": array.dtype,
            "data": bytearray(np.from_dlpack(array.memory()).tobytes()),
        })
        for name, array in File.memory(data).arrays.items()
    ]
