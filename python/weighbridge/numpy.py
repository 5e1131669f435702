"""State dicts of NumPy arrays."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._frames import load, named
from ._model import Model, _numpy
from ._progress import Progress
from ._writer import save_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["load_file", "save_file"]


def load_file(
    source: str | Path | Model,
    *,
    dtype: str | None = None,
    names: str = "huggingface",
    copy: bool = False,
    threads: int = 0,
    progress: Progress = None,
) -> dict[str, NDArray[Any]]:
    """Loads all tensors of a model in any container. Stored numbers share the memory of the file,
    unless `copy` is set; quantized tensors are decoded to `dtype` or float32. `names` is `huggingface`, `canonical`,
    `stored`, `mlx` or `gguf`.

    >>> load_file(SAMPLE)["model.norm.weight"].shape
    (256,)
    """
    stored = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}.get(dtype or "")
    found = load(named(source, names), dtype, threads, progress, copy)
    return {
        name: _numpy(array, _element(tensor._native.value_dtype, stored))
        for name, (tensor, array) in found.items()
    }


_INTEGERS = ("I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64", "BOOL", "C64")


def _element(value_dtype: str, wanted: str | None) -> str:
    """The dtype of an array's elements: integers stay as they are."""
    return value_dtype if wanted is None or value_dtype in _INTEGERS else wanted
