"""State dicts of NumPy arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._dtypes import Float, element, parse_float
from ._dtypes import numpy as _numpy
from ._frames import load, named
from ._model import Names
from ._progress import Progress
from ._verbs import Source
from ._writer import save, save_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["load_file", "save", "save_file"]


def load_file(
    source: Source,
    *,
    dtype: Float | None = None,
    names: Names = "huggingface",
    filter: str | None = None,
    copy: bool = False,
    threads: int = 0,
    progress: Progress = None,
) -> dict[str, NDArray[Any]]:
    """Loads all tensors of a model in any container. Stored numbers share the memory of the file,
    unless `copy` is set; quantized tensors are decoded to `dtype` or float32. BF16 and floats of 8
    bits have the types of the package `ml_dtypes`. `names` is `huggingface`, `canonical`, `stored`,
    `mlx` or `gguf`; `filter` is a pattern of names. A write to an array is seen in no other one, and
    never reaches the file.

    >>> wb.numpy.load_file("model.gguf")["model.norm.weight"].shape
    (256,)
    """
    wanted = None if dtype is None else parse_float(dtype)
    tensors = named(source, names, filter=filter)
    elements = {
        name: element(_dtype(tensor._native.value_dtype, wanted), name)
        for name, tensor in tensors.items()
    }
    found = load(tensors, dtype, threads, progress, copy)
    return {name: _numpy(array, elements[name]) for name, (_, array) in found.items()}


_INTEGERS = ("I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64", "BOOL", "C64")


def _dtype(value_dtype: str, wanted: str | None) -> str:
    """The dtype of an array's elements: integers stay as they are."""
    return value_dtype if wanted is None or value_dtype in _INTEGERS else wanted
