"""Quantizing and dequantizing arrays, and statistics of tensors."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _native
from ._dtypes import DType, Float, element, numpy, parse, parse_float
from ._errors import exception
from ._model import matching
from ._model import open as _open
from ._progress import Progress, callback
from ._sizes import count
from ._tensor import Tensor
from ._verbs import Source

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Frame", "dequantize_array", "quantize_array", "stats"]


def quantize_array(values: Any, dtype: DType) -> NDArray[Any]:
    """Quantizes the rows of an array to blocks of a GGUF dtype, as bytes: their last dimension is the
    bytes of a row, as in gguf-py.

    >>> import numpy as np
    >>> wb.quantize_array(np.ones((2, 256), np.float32), "Q4_K").shape
    (2, 144)
    """
    import numpy as np

    if hasattr(values, "data_ptr"):
        values = values.detach().cpu().float().numpy()
    array = np.ascontiguousarray(np.asarray(values), np.float32)
    if not array.ndim:
        raise exception("mismatch", "the array has no dimensions, so there are no rows to quantize")
    found = _native.quantize_array(array.tobytes(), array.shape[-1], parse(dtype))
    return np.frombuffer(bytearray(found), np.uint8).reshape(*array.shape[:-1], -1)


def dequantize_array(
    data: Any, dtype: DType, shape: Sequence[int] | None = None, *, to: Float = "float32"
) -> NDArray[Any]:
    """The values of packed blocks, or of the bytes of plain numbers, in a new array. Without `shape`,
    `data` is an array whose last dimension is the bytes of a row, as `quantize_array` returns it.

    >>> import numpy as np
    >>> packed = wb.quantize_array(np.ones((2, 256), np.float32), "Q8_0")
    >>> wb.dequantize_array(packed, "Q8_0").shape
    (2, 256)
    """
    import numpy as np

    name, into = parse(dtype), parse_float(to)
    array = data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
    packed = np.ascontiguousarray(array).view(np.uint8)
    if shape is None:
        bytes_of, elements = next(row[1:3] for row in _native.dtypes() if row[0] == name)
        shape = (*packed.shape[:-1], packed.shape[-1] // bytes_of * elements)
    found = _native.dequantize_array(packed.tobytes(), name, list(shape), into)
    return numpy(found, element(into, "array"))


class Frame(Sequence["dict[str, Any]"]):
    """Rows with the same columns: what `pandas.DataFrame` and `polars.DataFrame` take. `columns` has a
    list for each column."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows

    @property
    def columns(self) -> dict[str, list[Any]]:
        """The columns by name."""
        return {name: [row[name] for row in self._rows] for name in (self._rows or [{}])[0]}

    def __getitem__(self, index: Any) -> Any:
        return self.columns[index] if isinstance(index, str) else self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows)

    def pandas(self) -> Any:
        """The rows as a frame of pandas."""
        import pandas

        return pandas.DataFrame(self.columns)

    def polars(self) -> Any:
        """The rows as a frame of Polars."""
        import polars

        return polars.DataFrame(self.columns)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.columns)

    def __repr__(self) -> str:
        cells = [list(self.columns), *([_cell(v) for v in row.values()] for row in self._rows)]
        if not self._rows:
            return "Frame(0 rows)"
        widths = [max(len(row[place]) for row in cells) for place in range(len(cells[0]))]
        lines = ("  ".join(f"{c:<{w}}" for c, w in zip(row, widths)).rstrip() for row in cells)
        return "\n".join(lines)


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def stats(
    source: Source | Tensor | Mapping[str, Tensor] | Iterable[Tensor],
    *,
    filter: str | None = None,
    threads: int = 0,
    progress: Progress = None,
) -> Frame:
    """The statistics of the values of a model's tensors, or of some tensors: a row for each, with
    counts, extremes, mean, deviation and quantiles. `filter` is a pattern of names.

    >>> frame = wb.stats("model.gguf", filter="output_norm.*")
    >>> frame["name"], frame["elements"], frame["nan"]
    (['output_norm.weight'], [256], [0])
    """
    named = list(_named(source))
    if filter is not None:
        chosen = set(matching((name for name, _ in named), filter))
        named = [(name, tensor) for name, tensor in named if name in chosen]
    natives = [tensor._native for _, tensor in named]
    with callback(progress) as shown:
        found = json.loads(_native.statistics(natives, 64, count("threads", threads), shown))
    rows = zip(named, found["tensors"], strict=True)
    return Frame([{**_row(row), "name": name} for (name, _), row in rows])


def _named(source: Any) -> Iterable[tuple[str, Tensor]]:
    """The tensors that statistics are asked of, with their names."""
    if isinstance(source, Tensor):
        source = [source]
    elif isinstance(source, (str, os.PathLike)):
        source = _open(source)
    if isinstance(source, Mapping):
        return source.items()
    found = list(source)
    for one in found:
        if not isinstance(one, Tensor):
            fault = f"statistics are those of a model or of tensors, not of {one!r}"
            raise exception("mismatch", fault, advice="give one model at a time")
    return [(tensor.name, tensor) for tensor in found]


_PLAIN = (
    "name", "dtype", "elements", "bits_per_weight", "nan", "infinite", "zeros", "outliers", "mean",
    "deviation", "rms",
)


def _row(tensor: dict[str, Any]) -> dict[str, Any]:
    row = {name: tensor.get(name) for name in _PLAIN}
    for name in ("min", "max"):
        found = tensor.get(name)
        row[name] = found["value"] if isinstance(found, dict) else found
    quantiles = {one["share"]: one["value"] for one in tensor.get("quantiles", [])}
    for share, name in ((0.01, "p1"), (0.25, "p25"), (0.5, "median"), (0.75, "p75"), (0.99, "p99")):
        row[name] = quantiles.get(share)
    return row
