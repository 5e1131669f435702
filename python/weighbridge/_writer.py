"""Writing models of one's own."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, SupportsIndex

from . import _native
from ._dtypes import NAMES, DType, pairs, parse
from ._errors import exception
from ._model import Model, PathLike
from ._model import open as _open
from ._options import Option, ValueOptions, no_effect, takes
from ._progress import Progress
from ._sizes import Size, size
from ._tensor import Tensor
from ._verbs import Container, Source, WriteReport, _container, check_directory, encoding, written

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Writer", "save", "save_file"]

_STORED = {theirs: ours for ours, theirs in NAMES.items()} | {"float4_e2m1fn": "F4"}
"""Dtypes of arrays, by the names of NumPy, ml_dtypes, torch, JAX and MLX."""


class WriterOptions(ValueOptions, total=False):
    """Options of `Writer.write`."""

    max_shard_size: Annotated[Size | None, Option(None, "distribute the tensors over files of at most so many bytes of tensors, as in \"5GB\"", size)]


class Writer:
    """Gathers tensors, metadata and documents into a model of any container that can be written.

    Nothing is copied when it is added: tensors of opened models are read when `write` streams them into
    files, and arrays are kept until then. The files appear complete or not at all. Besides the arrays that
    were added, writing needs buffers of at most `max_memory` bytes, and the results of the functions that
    run at that time.

    >>> import numpy as np, tempfile
    >>> writer = wb.Writer("gguf")
    >>> writer.set("general.architecture", "mine")
    >>> writer.add("weight", np.ones((2, 256), np.float32), dtype="Q4_K")
    >>> report = writer.write(tempfile.mkdtemp() + "/mine.gguf")
    >>> report.tensors[0]["dtype"]
    'Q4_K'
    """

    def __init__(self, to: Container, *, one_file: bool | None = None) -> None:
        """Starts a model for the container `to`. `one_file` is for safetensors: whether it is one file,
        the default, or a directory with documents."""
        self._to: Container = to
        self._one_file = to == "safetensors" and one_file is not False
        if one_file is not None and to != "safetensors":
            raise no_effect("one_file", f"for {to}", "it is for safetensors")
        self._native = _native.Builder(to, self._one_file)

    @classmethod
    def like(
        cls, model: Source, to: Container | None = None, *, one_file: bool | None = None
    ) -> Writer:
        """Starts a model with the metadata and the documents of another one, and no tensors. In
        another container `to`, they have its form. Safetensors is a directory, unless `one_file` is
        set."""
        opened = model if isinstance(model, Model) else _open(model)
        to = to or ("mlx" if opened.container == "mlx" else encoding(opened))
        writer = cls(to, one_file=one_file or (False if to == "safetensors" else one_file))
        writer._native.set_like(opened._native, to)
        if to != "gguf" and not writer._one_file:
            for name, content in opened.documents.items():
                writer.document(name, content)
        return writer

    def set(self, key: str, value: Any, type: str | None = None) -> None:
        """Sets a metadata value: a bool, int, float, str, bytes or a list of one of them.

        Without `type`, integers are `u32`, or `i32`, `u64` or `i64` where they do not fit, and floats
        are `f32`; `type` is one of GGUF's: `u8` to `i64`, `f32`, `f64`, `bool`, `string`, or
        `array[...]` of one of them. Only GGUF has types: elsewhere, a value is a str.
        """
        if self._to != "gguf" and not isinstance(value, str):
            advice = f"write it as a str, such as {json.dumps(str(value))}"
            fault = f"key \"{key}\": {value!r} is no str, but the metadata of {self._to} are texts"
            raise exception("mismatch", fault, key=key, advice=advice)
        self._native.set(key, *typed(key, value, type))

    def remove(self, key: str) -> bool:
        """Removes a metadata key, and returns whether it was there."""
        return self._native.remove(key)

    def keys(self) -> list[str]:
        """The metadata keys so far."""
        return self._native.keys()

    def document(self, name: str, content: str | bytes | Mapping[str, Any]) -> None:
        """Adds a file beside the weights, such as `config.json`."""
        if isinstance(content, Mapping):
            content = json.dumps(content, indent=2)
        self._native.document(name, content.encode() if isinstance(content, str) else content)

    def add(
        self,
        name: str,
        tensor: Any,
        *,
        shape: Sequence[int] | None = None,
        dtype: DType | None = None,
    ) -> None:
        """Adds a tensor of an opened model, a NumPy array or any array that NumPy or DLPack can
        read; in another `dtype`, such as `Q4_K`, its values are converted or quantized.

        `tensor` may also be a function without arguments that returns an array of `shape`. It is called
        when its turn to be written comes, so that no more than a few results are in memory at a time.
        Several threads may call several functions at once.

        >>> writer = wb.Writer("safetensors")
        >>> q = wb.open("model.gguf")["layers.0.attention.q.weight"]
        >>> writer.add("half", lambda: q.dequantize() / 2, shape=q.shape, dtype="bf16")

        An array of unsigned 8-bit integers cannot be quantized: it could be the bytes of packed
        blocks, which `add_raw` writes as they are.
        """
        wanted = None if dtype is None else parse(dtype)
        if callable(tensor) and not hasattr(tensor, "dtype"):
            self._add_computed(name, tensor, shape, wanted)
            return
        if shape is not None and tuple(shape) != tuple(tensor.shape):
            fault = f"tensor \"{name}\": the array has the shape {tuple(tensor.shape)}, not {tuple(shape)}"
            raise exception("mismatch", fault, tensor=name)
        if isinstance(tensor, Tensor):
            self._native.add(name, tensor._native, wanted)
            return
        _check_array(name, tensor)
        _check_not_bytes(name, tensor, wanted)
        stored, dims, address, nbytes, owner = _array(tensor, name)
        self._native.add_array(name, stored, dims, address, nbytes, owner, wanted)

    def _add_computed(
        self, name: str, function: Callable[[], Any], shape: Sequence[int] | None, dtype: str | None
    ) -> None:
        if shape is None:
            advice = "give shape=, since the header is written before the function is called"
            fault = f"tensor \"{name}\": the shape of the array that the function returns is unknown"
            raise exception("mismatch", fault, tensor=name, advice=advice)
        dims = tuple(int(length) for length in shape)
        stored = "F32" if dtype is None or _native.is_quantized(dtype) else dtype

        def bytes_of() -> bytes:
            found = _computed(name, function(), dims, stored)
            return bytes(memoryview(found).cast("B"))

        self._native.add_computed(name, stored, list(dims), bytes_of, dtype)

    def add_raw(self, name: str, data: Any, dtype: DType, shape: Sequence[SupportsIndex]) -> None:
        """Adds packed blocks, or the bytes of plain numbers, as they are. `data` is an object that
        contains bytes, or an array, with all bytes of a tensor of this `dtype` and `shape`, as
        `Tensor.raw` returns them.

        >>> stored = wb.open("model.gguf").stored["blk.0.attn_q.weight"]
        >>> writer = wb.Writer("gguf")
        >>> writer.add_raw("copy", stored.raw(), stored.dtype, stored.shape)
        """
        if hasattr(data, "dtype"):
            address, nbytes, owner = _array(data, name)[2:]
        else:
            import numpy as np

            owner = np.frombuffer(data, np.uint8)
            address, nbytes = owner.ctypes.data, owner.nbytes
        self._native.add_raw(name, parse(dtype), [index(one) for one in shape], address, nbytes, owner)

    @takes(WriterOptions)
    def write(self, path: PathLike, **options: Unpack[WriterOptions]) -> WriteReport:
        """Writes the model; a writer may write several times."""
        shard: Any = options["max_shard_size"]
        _container(path, self._to)
        if self._to == "safetensors" and not self._one_file:
            check_directory(path, "what a Writer with one_file=False makes")
        if shard is not None and self._one_file:
            advice = "write Writer(\"safetensors\", one_file=False)"
            raise no_effect("max_shard_size", "for one file", advice)
        if shard is not None:
            self._native.shards(shard, Path(path).stem)
        return written(self._native.write, options, path)


def _computed(name: str, found: Any, shape: tuple[int, ...], stored: str) -> Any:
    """The array that a function returned, with elements of the dtype `stored`."""
    import numpy as np

    _check_array(name, found)
    if tuple(found.shape) != shape:
        fault = f"tensor \"{name}\": the function returned the shape {tuple(found.shape)}, not {shape}"
        raise exception("mismatch", fault, tensor=name)
    if isinstance(found, Tensor):
        found = found.numpy()
    if hasattr(found, "data_ptr"):
        import torch

        found = found.detach().cpu().to(getattr(torch, NAMES[stored])).contiguous()
        return found.view(torch.uint8).numpy() if found.ndim else found.reshape(1).view(torch.uint8).numpy()
    kind = _numpy_type(stored, name)
    return np.ascontiguousarray(np.asarray(found), kind).reshape(-1).view(np.uint8)


def _numpy_type(stored: str, name: str) -> Any:
    import numpy as np

    from ._dtypes import element

    return element(stored, name) or np.dtype(NAMES[stored])


_INTEGER_TYPES = (("u32", 0, 2**32), ("i32", -(2**31), 2**31), ("u64", 0, 2**64), ("i64", -(2**63), 2**63))


def typed(key: str, value: Any, type: str | None) -> tuple[str, Any]:
    """The type of a metadata value, and the value itself."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, tuple):
        value = list(value)
    found = type or _type(value)
    if found is None:
        fault = f"key \"{key}\": {value!r} is no bool, int, float, str, bytes, or list of one of them"
        raise exception("mismatch", fault, key=key)
    try:
        _native.check_setting(found, value)
    except (TypeError, OverflowError, ValueError) as error:
        if hasattr(error, "kind"):
            raise
        fault = f"key \"{key}\": {value!r} does not fit the type {found}"
        raise exception("mismatch", fault, key=key) from None
    return found, value


def _type(value: Any) -> str | None:
    """The type of a value, by its class and size."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        fits = (name for name, low, end in _INTEGER_TYPES if low <= value < end)
        return next(fits, None)
    if isinstance(value, float):
        return "f32"
    if isinstance(value, (str, bytes)):
        return "string"
    if not isinstance(value, list):
        return None
    if all(isinstance(one, (str, bytes)) for one in value):
        return "array[string]"
    if all(isinstance(one, bool) for one in value):
        return "array[bool]"
    if all(isinstance(one, int) and not isinstance(one, bool) for one in value):
        is_small = all(-(2**31) <= one < 2**31 for one in value)
        return "array[i32]" if is_small else "array[i64]"
    is_number = all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in value)
    return "array[f32]" if is_number else None


def _check_array(name: str, array: Any) -> None:
    if hasattr(array, "dtype") and hasattr(array, "shape"):
        if str(getattr(array, "layout", "torch.strided")) != "torch.strided":
            fault = f"tensor \"{name}\": a sparse tensor cannot be written"
            raise exception("unsupported", fault, tensor=name, advice="make it dense, with to_dense()")
        return
    fault = f"tensor \"{name}\": {type(array).__name__} is not an array"
    advice = "make it one, as with numpy.array; or write packed blocks with Writer.add_raw"
    raise exception("mismatch", fault, tensor=name, advice=advice)


def _check_not_bytes(name: str, array: Any, dtype: str | None) -> None:
    """Refuses to quantize an array of bytes: they could be packed blocks, whose numbers are others."""
    if dtype is None or _dtype_name(array) != "uint8" or not _native.is_quantized(dtype):
        return
    fault = f"tensor \"{name}\": an array of unsigned 8-bit integers cannot be quantized to {dtype}"
    advice = (
        f"if it has packed blocks of {dtype}, write them with "
        f"Writer.add_raw(name, data, \"{dtype}\", shape); "
        "if it has numbers, convert it to float32 first, or omit the dtype"
    )
    raise exception("mismatch", fault, tensor=name, advice=advice)


def _dtype_name(array: Any) -> str:
    """The dtype of an array of any library, by its name in NumPy or `ml_dtypes`."""
    name = getattr(array.dtype, "name", None) or str(array.dtype)
    return str(name).removeprefix("torch.").removeprefix("mlx.core.").rstrip("_")


def _array(array: Any, tensor: str) -> tuple[str, list[int], int, int, Any]:
    """The dtype, shape, address, length in bytes and owner of an array."""
    name = _dtype_name(array)
    if hasattr(array, "data_ptr"):
        array = array.detach().cpu().contiguous()
        address, nbytes = array.data_ptr(), array.numel() * array.element_size()
        shape = list(array.shape)
        if name == "float4_e2m1fn_x2" and shape:
            # Torch counts pairs.
            name, shape[-1] = "float4_e2m1fn", shape[-1] * 2
    else:
        if type(array).__module__.startswith("mlx") and name == "bfloat16":
            import mlx.core as mx

            array = array.view(mx.uint16)
        import numpy as np

        shape = list(array.shape)
        array = np.ascontiguousarray(np.asarray(array)).reshape(shape)
        if array.dtype.byteorder == ">":
            array = array.astype(array.dtype.newbyteorder("<"))
        if name == "float4_e2m1fn":
            array = pairs(tensor, array)
        address, nbytes = array.ctypes.data, array.nbytes
    if name not in _STORED:
        raise exception("unsupported", f"tensor \"{tensor}\": an array of {name} cannot be written", tensor=tensor)
    return _STORED[name], shape, address, nbytes, array


def save_file(
    tensors: Mapping[str, Any],
    path: PathLike,
    metadata: Mapping[str, Any] | None = None,
    *,
    dtype: DType | None = None,
    to: Container | None = None,
    overwrite: bool = True,
    threads: int = 0,
    progress: Progress = None,
) -> WriteReport:
    """Writes tensors under their names to one file, .safetensors or .gguf, or with `to` to another
    container. `dtype` converts or quantizes matrices; vectors stay as they are. Arrays of unsigned
    8-bit integers cannot be quantized: see `Writer.add`. An existing file is overwritten, as by other
    libraries' functions of this name, unless `overwrite` is False."""
    container, _ = _container(path, to)
    if not isinstance(tensors, Mapping):
        fault = f"the tensors are a {type(tensors).__name__}, not a mapping of names to arrays"
        raise exception("mismatch", fault)
    wanted = None if dtype is None else parse(dtype)
    writer = Writer(container)
    for key, value in (metadata or {}).items():
        writer.set(key, value)
    for name, tensor in tensors.items():
        _check_array(name, tensor)
        _check_not_bytes(name, tensor, wanted)
        writer.add(name, tensor, dtype=wanted if len(tensor.shape) > 1 else None)
    return writer.write(path, overwrite=overwrite, threads=threads, progress=progress)


def save(
    tensors: Mapping[str, Any],
    metadata: Mapping[str, Any] | None = None,
    *,
    dtype: DType | None = None,
    to: Literal["safetensors", "gguf"] = "safetensors",
) -> bytes:
    """The bytes of the file that `save_file` writes.

    >>> import numpy as np
    >>> list(wb.open_bytes(wb.save({"x": np.ones(2)})).stored)
    ['x']
    """
    if to not in ("safetensors", "gguf"):
        raise exception("mismatch", f"to is {to!r}, not safetensors or gguf, which are one file")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"model.{to}"
        save_file(tensors, path, metadata, dtype=dtype, to=to)
        return path.read_bytes()
