"""Tensors."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from . import _native
from ._dtypes import LACKING, NAMES, Float, element, ml_dtype, numpy, parse_float
from ._errors import exception

# NumPy is imported where it is used: the program `weighbridge` starts ten times faster without it.
if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Part", "Tensor"]

Origin = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function and its arguments that return a tensor again, in another process too."""


class Part(NamedTuple):
    """A stored array that is part of a tensor."""

    part: str
    """What it is: `weight`, `scale`, `bias`, `zero_point` and others."""
    name: str
    """Its own name in the file."""
    dtype: str
    """Its own dtype."""
    shape: tuple[int, ...]
    """Its own dimensions."""
    path: Path
    """The file that holds it."""
    offset: int
    """The position of its first byte in the file."""
    nbytes: int
    """Its length in bytes."""


class Tensor:
    """A tensor of an opened model. It reads nothing until it is asked for bytes or values.

    It is indexed as a NumPy array is, by integers, slices and `...`, and the result is a tensor that
    has not been read yet: `tensor[10:20].numpy()` reads ten rows, `experts[3].numpy()` one expert.

    >>> tensor = wb.open("model.gguf")["layers.0.attention.q.weight"]
    >>> len(tensor), tensor[3].shape, tensor[10:20].shape, tensor[..., 64:128].shape
    (256, (256,), (10, 256), (256, 64))
    """

    __slots__ = ("__weakref__", "_native", "_origin")

    def __init__(self, native: _native.Tensor, origin: Origin) -> None:
        self._native = native
        self._origin = origin

    def __reduce__(self) -> Origin:
        return self._origin

    def __copy__(self) -> Tensor:
        return self

    def __deepcopy__(self, memo: object) -> Tensor:
        return self

    @property
    def name(self) -> str:
        """The name by which the tensor was requested."""
        return self._native.name

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions, outermost first."""
        return tuple(self._native.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._native.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._native.elements

    @property
    def dtype(self) -> str:
        """How the elements are stored: `F16`, `Q4_K`, `MLX_AFFINE4`."""
        return self._native.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of all its stored parts."""
        return self._native.nbytes

    @property
    def parts(self) -> list[Part]:
        """The stored arrays that the tensor is made of."""
        segments = self._native.segments()
        return [Part(p, n, d, tuple(s), Path(f), o, b) for p, n, d, s, f, o, b in segments]

    @property
    def why_computed(self) -> str | None:
        """Why only values, and not packed bytes, are available; None if packed bytes are."""
        return self._native.why_computed

    def numpy(self, *, copy: bool = False) -> NDArray[Any]:
        """The tensor as a NumPy array, which is read-only. Stored numbers share the memory of the file
        where possible; quantized tensors are decoded to float32. BF16 and floats of 8 bits have the
        types of the package `ml_dtypes`, in which NumPy also adds up: take `dequantize` for sums and means.
        With `copy`, the array is in new memory, and writable."""
        found = element(self._native.value_dtype, self.name)
        array = numpy(self._native.load(None, False, copy), found)
        if not copy:
            array.flags.writeable = False
        return array

    def torch(self, dtype: Float | None = None, device: Any = "cpu") -> Any:
        """The tensor as one of PyTorch, which may be written to: a write is seen in no other array.
        Stored numbers share the memory of the file; quantized tensors are decoded to `dtype` or
        float32."""
        import torch

        wanted = None if dtype is None else parse_float(dtype)
        tensor = torch.from_dlpack(self._native.load(wanted, True, False))
        return tensor if str(device) == "cpu" else tensor.to(device)

    def raw(self, part: str = "weight") -> NDArray[Any]:
        """The stored bytes of a part, read-only. They are shared with the file where possible.

        A part of plain numbers, such as scales, has its own dtype and shape. Other parts are bytes,
        and so are numbers that NumPy lacks if `ml_dtypes` is not installed. `Writer.add_raw` writes
        them.
        """
        array = self._native.packed(part)
        dtypes = [found.dtype for found in self.parts if found.part == part]
        if not dtypes or dtypes[0] not in LACKING:
            bytes_ = numpy(array, None)
        elif (found := ml_dtype(dtypes[0])) is not None:
            bytes_ = numpy(array, found)
        else:
            import numpy as np

            bytes_ = np.from_dlpack(array.as_integers()).reshape(-1).view(np.uint8)
        bytes_.flags.writeable = False
        return bytes_

    def dequantize(self, dtype: Float | None = None, *, out: Any = None) -> Any:
        """The values in `float32`, which is the default, `float16` or `bfloat16`, as a NumPy array in
        new memory.

        With `out`, a contiguous NumPy array or torch tensor in host memory, writes the values to it
        and returns it. Its dtype is the one of the values.
        """
        native = self._native
        wanted = None if dtype is None else parse_float(dtype)
        if out is not None:
            name, shape, address, nbytes = _writable(out)
            if shape != self.shape:
                raise exception("mismatch", f"out has the shape {shape}, not {self.shape}")
            if wanted is not None and parse_float(name) != wanted:
                fault = f"the values are requested in {wanted}, but out has the dtype {name}"
                raise exception("mismatch", fault, advice="omit the dtype, or give another out")
            native.decode_into(0, native.rows, name, address, nbytes)
            return out
        if wanted == "BF16":
            return numpy(native.load(wanted, True, True), element(wanted, self.name))
        import numpy as np

        found = np.empty(self.shape, np.float16 if wanted == "F16" else np.float32)
        name, _, address, nbytes = _writable(found)
        native.decode_into(0, native.rows, name, address, nbytes)
        return found

    def __getitem__(self, index: Any) -> Tensor:
        native, axis = self._native, 0
        if type(index) is slice and index.step is None and (shape := native.shape):
            # By far the most common index.
            start, end, _ = index.indices(shape[0])
            if start < end:
                return Tensor(native.select(0, start, 1, end - start), (operator.getitem, (self, index)))
        for indices, stays in _indices(index, self.shape):
            native = _select(native, axis, indices)
            if stays:
                axis += 1
            else:
                native = native.squeeze(axis)
        return Tensor(native, (operator.getitem, (self, index)))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            fault = f"'Tensor' object has no attribute {name!r}"
            raise AttributeError(f"{fault}: numpy(), torch() and dequantize() return arrays")

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise TypeError("iteration over a tensor without dimensions")
        return (self[number] for number in range(len(self)))

    def shard(self, axis: int, rank: int, of: int) -> Tensor:
        """Part `rank` of `of` parts along an axis, as `torch.chunk` divides it.

        >>> wb.open("model.gguf")["layers.0.ffn.down.weight"].shard(1, rank=0, of=2).shape
        (256, 256)
        """
        if not 0 <= axis < self.ndim:
            raise exception("mismatch", f"axis {axis} does not exist in the shape {self.shape}")
        if not 0 <= rank < of:
            raise exception("mismatch", f"rank {rank}, but there are {of} ranks")
        length = self.shape[axis]
        each = -(-length // of)
        first, end = min(rank * each, length), min((rank + 1) * each, length)
        part = _select(self._native, axis, range(first, end))
        return Tensor(part, (Tensor.shard, (self, axis, rank, of)))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor without dimensions")
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        stored = self._native.value_dtype
        is_lacking = stored in LACKING and ml_dtype(stored) is None
        # NumPy can have the values, if not their dtype.
        by_value = dtype is not None and is_lacking
        changes = by_value or self._is_decoded() or dtype not in (None, NAMES.get(stored))
        if copy is False and changes:
            raise ValueError("the values are not stored as such an array: a copy is needed")
        found: NDArray[Any] = self.dequantize() if by_value else self.numpy(copy=bool(copy))
        return found if dtype is None or found.dtype == dtype else found.astype(dtype)

    def _is_decoded(self) -> bool:
        """Whether an array has other numbers than those that are stored."""
        return self._native.why_computed is not None or self.dtype != self._native.value_dtype

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Gives the tensor to NumPy, PyTorch, JAX or MLX: stored numbers without a copy, quantized
        ones as float32. A write to the array is seen in no other one, and never reaches the file."""
        array = self._native.load(None, True, bool(copy))
        return array.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __repr__(self) -> str:
        return f"Tensor({self.name!r}, {self.dtype}, shape={self.shape})"


def _is_integer(index: Any) -> bool:
    """Whether NumPy takes it as an integer: no bool, and no array with dimensions."""
    is_bool = type(index).__name__ in ("bool", "bool_")
    return hasattr(index, "__index__") and not is_bool and not getattr(index, "ndim", 0)


def _indices(index: Any, shape: tuple[int, ...]) -> list[tuple[range, bool]]:
    """What an index selects along each axis, and whether the axis stays."""
    given = list(index) if isinstance(index, tuple) else [index]
    for one in given:
        if not (one is Ellipsis or isinstance(one, slice) or _is_integer(one)):
            kind = "None" if one is None else type(one).__name__
            fault = f"a tensor is indexed by integers, slices and '...', not by {kind}"
            raise TypeError(f"{fault}; index the array that numpy() returns instead")
    dots = [place for place, one in enumerate(given) if one is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can have only one ellipsis ('...')")
    named = len(given) - len(dots)
    if named > len(shape):
        fault = f"the tensor has {len(shape)} dimensions, but {named} are indexed"
        raise IndexError(f"too many indices: {fault}")
    place = dots[0] if dots else named
    others = [slice(None)] * (len(shape) - named)
    given[place:place + len(dots)] = others
    return [_along(one, axis, length) for axis, (one, length) in enumerate(zip(given, shape))]


def _along(index: Any, axis: int, length: int) -> tuple[range, bool]:
    """What an integer or a slice selects along an axis, and whether the axis stays."""
    if isinstance(index, slice):
        return range(length)[index], True
    number = operator.index(index)
    if not -length <= number < length:
        raise IndexError(f"index {number} is out of bounds for axis {axis} with size {length}")
    number %= length
    return range(number, number + 1), False


def _select(native: _native.Tensor, axis: int, indices: range) -> _native.Tensor:
    """The tensor with these indices along an axis."""
    if indices == range(native.shape[axis]):
        return native
    count = len(indices)
    step = indices.step if count > 1 else 1
    if step != 1 and 0 < axis == len(native.shape) - 1:
        fault = f"the last axis has the step {step}: its slices must have step 1"
        raise IndexError(f"{fault}; slice the array that numpy() returns instead")
    return native.select(axis, indices.start if count else 0, step, count)


def _writable(out: Any) -> tuple[str, tuple[int, ...], int, int]:
    """The dtype, shape, address and length in bytes of an array that can be written to."""
    import numpy as np

    if isinstance(out, np.ndarray):
        if not (out.flags.c_contiguous and out.flags.writeable):
            raise exception("mismatch", "out is not contiguous or not writeable")
        return out.dtype.name, out.shape, out.ctypes.data, out.nbytes
    if hasattr(out, "data_ptr"):
        if not out.is_contiguous() or out.device.type != "cpu":
            raise exception("mismatch", "out is not contiguous or not in host memory")
        nbytes = out.numel() * out.element_size()
        return str(out.dtype).removeprefix("torch."), tuple(out.shape), out.data_ptr(), nbytes
    raise exception("mismatch", f"out is a {type(out).__name__}, not a NumPy array or torch tensor")
