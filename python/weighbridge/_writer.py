"""Writing models of one's own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _native
from ._errors import exception
from ._model import Tensor
from ._model import open as _open
from ._progress import Progress, callback
from ._verbs import WriteReport, Writing, _container

__all__ = ["Writer", "save_file"]

_STORED = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "bool": "BOOL",
    "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64",
    "uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0",
}
"""Dtypes of arrays, by the names of NumPy, ml_dtypes, torch, JAX and MLX."""


class Writer:
    """Gathers tensors, metadata and documents into a model of any container that can be written.

    Nothing is copied: tensors of opened models are read, and arrays are kept, until `write` streams
    them into files, which appear complete or not at all.

    >>> import numpy as np, tempfile
    >>> writer = Writer("gguf")
    >>> writer.set("general.architecture", "mine")
    >>> writer.add("weight", np.ones((2, 256), np.float32), dtype="Q4_K")
    >>> report = writer.write(tempfile.mkdtemp() + "/mine.gguf")
    >>> report.tensors[0]["dtype"]
    'Q4_K'
    """

    def __init__(self, to: str, *, one_file: bool = True) -> None:
        """Starts a model for the container `to`. With `one_file`, safetensors is one file and not a
        directory; other containers are what they are."""
        self._native = _native.Builder(to, one_file and to == "safetensors")

    def set(self, key: str, value: Any) -> None:
        """Sets a metadata value: a bool, int, float, str or a list of one of them."""
        self._native.set(key, value)

    def document(self, name: str, content: str | bytes | Mapping[str, Any]) -> None:
        """Adds a file beside the weights, such as `config.json`."""
        if isinstance(content, Mapping):
            content = json.dumps(content, indent=2)
        self._native.document(name, content.encode() if isinstance(content, str) else content)

    def add(self, name: str, tensor: Any, *, dtype: str | None = None) -> None:
        """Adds a tensor of an opened model, a NumPy array or any array that NumPy or DLPack can
        read; in another `dtype`, such as `Q4_K`, its values are converted or quantized.

        An array of unsigned 8-bit integers cannot be quantized: it could be the bytes of packed
        blocks, which `add_raw` writes as they are.
        """
        if isinstance(tensor, Tensor):
            self._native.add(name, tensor._native, dtype)
            return
        _check_array(name, tensor)
        _check_not_bytes(name, tensor, dtype)
        stored, shape, address, nbytes, owner = _array(tensor)
        self._native.add_array(name, stored, shape, address, nbytes, owner, dtype)

    def add_raw(self, name: str, data: Any, dtype: str, shape: Sequence[int]) -> None:
        """Adds packed blocks, or the bytes of plain numbers, as they are. `data` is an object that
        contains bytes, or an array, with all bytes of a tensor of this `dtype` and `shape`, as
        `Tensor.raw` returns them.

        >>> stored = _open(SAMPLE).stored["blk.0.attn_q.weight"]
        >>> writer = Writer("gguf")
        >>> writer.add_raw("copy", stored.raw(), stored.dtype, stored.shape)
        """
        if hasattr(data, "dtype"):
            address, nbytes, owner = _array(data)[2:]
        else:
            import numpy as np

            owner = np.frombuffer(data, np.uint8)
            address, nbytes = owner.ctypes.data, owner.nbytes
        self._native.add_raw(name, dtype, list(shape), address, nbytes, owner)

    def write(
        self,
        path: str | Path,
        *,
        overwrite: bool = False,
        dry_run: bool = False,
        threads: int = 0,
        max_memory: int | None = None,
        progress: Progress = None,
    ) -> WriteReport:
        """Writes the model. A writer writes once."""
        writing = Writing(overwrite, False, False, dry_run, threads, max_memory)
        with callback(progress) as shown:
            return WriteReport(json.loads(self._native.write(path, writing, shown)))


def _check_array(name: str, array: Any) -> None:
    if hasattr(array, "dtype") and hasattr(array, "shape"):
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
    return str(array.dtype).removeprefix("torch.").removeprefix("mlx.core.").rstrip("_")


def _array(array: Any) -> tuple[str, list[int], int, int, Any]:
    """The dtype, shape, address, length in bytes and owner of an array."""
    name = _dtype_name(array)
    if hasattr(array, "data_ptr"):
        array = array.detach().cpu().contiguous()
        address, nbytes = array.data_ptr(), array.numel() * array.element_size()
        shape = list(array.shape)
    else:
        if type(array).__module__.startswith("mlx") and name == "bfloat16":
            import mlx.core as mx

            array = array.view(mx.uint16)
        import numpy as np

        array = np.ascontiguousarray(np.asarray(array)).reshape(array.shape)
        address, nbytes, shape = array.ctypes.data, array.nbytes, list(array.shape)
    if name not in _STORED:
        raise exception("unsupported", f"an array of {name} cannot be written")
    return _STORED[name], shape, address, nbytes, array


def save_file(
    tensors: Mapping[str, Any],
    path: str | Path,
    *,
    metadata: Mapping[str, Any] | None = None,
    dtype: str | None = None,
    to: str | None = None,
    overwrite: bool = True,
    threads: int = 0,
    progress: Progress = None,
) -> WriteReport:
    """Writes tensors under their names to one file, .safetensors or .gguf, or with `to` to another
    container. `dtype` converts or quantizes matrices; vectors stay as they are. Arrays of unsigned
    8-bit integers cannot be quantized: see `Writer.add`."""
    container, _ = _container(path, to)
    writer = Writer(container)
    for key, value in (metadata or {}).items():
        writer.set(key, value)
    for name, tensor in tensors.items():
        _check_array(name, tensor)
        _check_not_bytes(name, tensor, dtype)
        writer.add(name, tensor, dtype=dtype if len(tensor.shape) > 1 else None)
    return writer.write(path, overwrite=overwrite, threads=threads, progress=progress)
