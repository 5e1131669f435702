"""`safe_open`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from ._file import Array, File, PathLike, SafetensorError


class Framework(NamedTuple):
    """How a framework gets arrays: one in the memory of the file, which is indexed, and then what is
    selected of it as an array of the framework."""

    view: Callable[[Array], Any]
    made: Callable[[Any], Any]


def _numpy() -> Framework:
    import numpy as np

    from . import numpy

    # A single element stays an array.
    return Framework(numpy.from_file, np.array)


def _torch() -> Framework:
    from . import torch

    return Framework(torch.from_file, lambda found: found.contiguous())


def _mlx() -> Framework:
    from . import mlx, numpy

    return Framework(numpy.from_file, mlx.from_numpy)


def _jax() -> Framework:
    from . import flax, numpy

    return Framework(numpy.from_file, flax.from_numpy)


_FRAMEWORKS: dict[str, Callable[[], Framework]] = {
    "np": _numpy, "numpy": _numpy, "pt": _torch, "torch": _torch, "pytorch": _torch, "mlx": _mlx,
    "flax": _jax, "jax": _jax,
}


def check_backend(backend: str) -> None:
    """Refuses the name of no backend. Both share the memory of the file."""
    if backend not in ("mmap", "pread"):
        raise SafetensorError(f"backend {backend} is invalid: it is not mmap or pread")


class safe_open:
    """Opens a safetensors file: `with safe_open(path, framework="pt") as f: f.get_tensor(name)`."""

    def __init__(
        self, filename: PathLike, framework: str, device: str | int = "cpu", *, backend: str = "mmap"
    ) -> None:
        check_backend(backend)
        self._open(File.open(filename), framework, device)

    def _open(self, file: File, framework: str, device: str | int) -> None:
        if framework not in _FRAMEWORKS:
            raise SafetensorError(f"framework {framework} is invalid")
        self._file: File | None = file
        self._is_torch = _FRAMEWORKS[framework] is _torch
        self._framework, self._device = _FRAMEWORKS[framework](), device

    def _opened(self) -> File:
        if self._file is None:
            raise SafetensorError("File is closed")
        return self._file

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *_: object) -> None:
        self._file = None

    def keys(self) -> list[str]:
        """The names of all arrays."""
        return list(self._opened().arrays)

    def offset_keys(self) -> list[str]:
        """The names of all arrays, in the order of their data."""
        arrays = self._opened().arrays.values()
        return [array.name for array in sorted(arrays, key=lambda array: (array.offset, array.name))]

    def metadata(self) -> dict[str, str] | None:
        """The `__metadata__` of the header, or None."""
        return self._opened().metadata()

    def get_tensor(self, name: str) -> Any:
        """The array with this name."""
        framework = self._framework
        return self._moved(framework.made(framework.view(self._opened().array(name))))

    def get_tensors(self, names: list[str] | None = None) -> dict[str, Any]:
        """Several arrays by name, or all."""
        return {name: self.get_tensor(name) for name in (self.keys() if names is None else names)}

    def get_slice(self, name: str) -> PySafeSlice:
        """The array with this name, of which only what is indexed is read."""
        return PySafeSlice(self._opened().array(name), self)

    def _moved(self, array: Any) -> Any:
        is_host = self._device == "cpu" or not hasattr(array, "data_ptr")
        return array if is_host else array.to(self._device)

    def __dir__(self) -> list[str]:
        return [*super().__dir__()]


def _safe_open_handle(handle: Any, framework: str, device: str | int = "cpu") -> safe_open:
    """Like `safe_open`, for a file object."""
    name = getattr(handle, "name", None)
    if isinstance(name, str) and os.path.exists(name):
        file = File.open(name)
    else:
        file = File.memory(getattr(handle, "buffer", handle).read())
    opened = safe_open.__new__(safe_open)
    opened._open(file, framework, device)
    return opened


class PySafeSlice:
    """An array that is indexed before it is read."""

    def __init__(self, array: Array, owner: safe_open) -> None:
        self._array, self._owner = array, owner
        self._view = owner._framework.view(array)

    def get_shape(self) -> list[int]:
        """The dimensions."""
        return self._array.shape

    def get_dtype(self) -> str:
        """The dtype, as in the header."""
        return self._array.dtype

    def __getitem__(self, index: Any) -> Any:
        owner, shape = self._owner, self._array.shape
        if owner._is_torch:
            # PyTorch indexes as it does everywhere.
            return owner._moved(self._view[index].contiguous())
        if type(index) is slice and shape and _is_inside(index, shape[0]):
            return owner._moved(owner._framework.made(self._view[index]))
        if isinstance(index, list):
            if index:
                raise SafetensorError("Non empty lists are not implemented")
            index = slice(0, 0)
        given = list(index) if isinstance(index, tuple) else [index]
        if given.count(...) == 1:
            place = given.index(...)
            given[place:place + 1] = [slice(None)] * (len(shape) - len(given) + 1)
        checked = tuple(_checked(one, axis, given, shape) for axis, one in enumerate(given))
        return owner._moved(owner._framework.made(self._view[checked]))


def _is_inside(index: slice, length: int) -> bool:
    """Whether a slice needs no check: by far the most common index."""
    start, end = index.start, index.stop
    is_start = start is None or type(start) is int and start >= 0
    return is_start and index.step is None and (end is None or type(end) is int and 0 <= end <= length)


def _checked(one: Any, axis: int, given: list[Any], shape: list[int]) -> Any:
    """An index of an axis, which must exist: an end beyond the axis is an error too."""
    if axis >= len(shape):
        raise SafetensorError(f"too many indices for the shape {shape}")
    length = shape[axis]
    if isinstance(one, slice):
        if one.step is not None and one.step < 1:
            raise SafetensorError(f"the step of a slice is {one.step}, not above 0")
        start, end = (
            None if number is None else _positive(number, axis, length)
            for number in (one.start, one.stop)
        )
        if end is not None and end > length:
            raise _beyond(given, shape, end - 1, axis)
        return slice(start, end, one.step)
    if not hasattr(one, "__index__"):
        raise SafetensorError(f"an array is indexed by integers and slices, not by {one!r}")
    number = _positive(one.__index__(), axis, length)
    if number >= length:
        raise _beyond(given, shape, number, axis)
    return number


def _positive(number: int, axis: int, length: int) -> int:
    if number < -length:
        raise SafetensorError(f"Invalid index {number} for dimension {axis} of size {length}")
    return number + length if number < 0 else number


def _beyond(given: list[Any], shape: list[int], number: int, axis: int) -> SafetensorError:
    def said(one: Any) -> str:
        if not isinstance(one, slice):
            return str(one)
        start, end = ("" if number is None else str(number) for number in (one.start, one.stop))
        return f"{start}:{end}"

    index = ", ".join(map(said, given))
    fault = f"index {number} out of bounds for tensor dimension #{axis} of size {shape[axis]}"
    return SafetensorError(f"Error during slicing [{index}] with shape {shape}: {fault}")
