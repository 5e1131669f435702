"""Dtypes: one parser for all their spellings, and their types in NumPy."""

from __future__ import annotations

import difflib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Protocol, Union

from . import _native
from ._errors import exception

if TYPE_CHECKING:
    from numpy.typing import NDArray


class _Sized(Protocol):
    """A dtype object of NumPy, torch or JAX."""

    @property
    def itemsize(self) -> int: ...


class _MlxDtype(Protocol):
    """A dtype object of MLX."""

    @property
    def size(self) -> int: ...


FloatName = Literal[
    "float32", "float16", "bfloat16", "F32", "F16", "BF16", "f32", "f16", "bf16", "float", "half",
]
"""Names of the dtypes that values can be computed in."""

Float = Union[FloatName, type[Any], _Sized, _MlxDtype]
"""A dtype that values can be computed in: its name, or the object of NumPy, `ml_dtypes`, torch, JAX or
MLX."""

DType = Union[str, type[Any], _Sized, _MlxDtype]
"""Any dtype, quantized ones included: its name, or the object of a library."""

NAMES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "BOOL": "bool",
    "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64",
    "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64", "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz",
}
"""Dtypes of arrays, with their names in NumPy, `ml_dtypes`, torch, JAX and MLX."""

LACKING = frozenset(
    {"BF16", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"}
)
"""Dtypes that NumPy lacks, and that `ml_dtypes` has."""

_OTHER_NAMES = {
    "bool_": "BOOL", "float": "F32", "double": "F64", "half": "F16", "fp32": "F32", "fp16": "F16",
    "float8_e4m3": "F8_E4M3", "short": "I16", "int": "I32", "long": "I64", "byte": "U8",
}


@lru_cache(maxsize=1)
def _known() -> dict[str, str]:
    """All spellings in lower case, with the name that reports show."""
    known = {row[0].lower(): row[0] for row in _native.dtypes()}
    known |= {theirs: ours for ours, theirs in NAMES.items()}
    return known | _OTHER_NAMES


def _spelling(dtype: Any) -> str:
    """The name of a dtype that is given as text or as the object of a library."""
    if isinstance(dtype, str):
        return dtype
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None)
    if isinstance(name, str) and name.lower() in _known():
        return name
    # jax.numpy.float32 has its dtype as an attribute.
    inner: Any = getattr(dtype, "dtype", None)
    if hasattr(inner, "name"):
        return str(inner.name)
    # NumPy accepts types of Python, such as float.
    if isinstance(dtype, type):
        import numpy as np

        try:
            return str(np.dtype(dtype).name)
        except TypeError:
            return dtype.__name__
    return str(dtype)


def parse(dtype: Any) -> str:
    """The name of a dtype: `F16` for `"f16"`, `"float16"`, `numpy.float16`, `torch.float16` and
    `mlx.core.float16`; `Q4_K` for `"q4_k"`.

    >>> parse("float16"), parse("torch.bfloat16"), parse("q4_k")
    ('F16', 'BF16', 'Q4_K')
    """
    spelling = _spelling(dtype).rpartition(".")[2] or str(dtype)
    known = _known()
    found = known.get(spelling.lower())
    if found is None:
        near = difflib.get_close_matches(spelling.lower(), known, 1)
        advice = f"the most similar one is \"{known[near[0]]}\"" if near else None
        raise exception("mismatch", f"\"{spelling}\" is not a dtype", advice=advice)
    return found


def parse_float(dtype: Any) -> str:
    """Like `parse`, for a dtype that values can be computed in: `F32`, `F16` or `BF16`."""
    found = _known().get(_spelling(dtype).rpartition(".")[2].lower())
    if found not in ("F32", "F16", "BF16"):
        fault = f"the dtype is \"{_spelling(dtype)}\", not float32, float16 or bfloat16"
        raise exception("mismatch", fault)
    return found


def ml_dtype(dtype: str) -> Any:
    """The type that `ml_dtypes` has for a dtype that NumPy lacks; None without it, or if its version
    is too old."""
    try:
        import ml_dtypes
    except ImportError:
        return None
    return getattr(ml_dtypes, NAMES[dtype], None)


def element(dtype: str, tensor: str) -> Any:
    """The type of the elements of a NumPy array if NumPy itself lacks it, else None.

    Integers of the same width are not given instead: their values would be wrong.
    """
    if dtype not in LACKING:
        return None
    found = ml_dtype(dtype)
    if found is None:
        fault = f"NumPy has no {dtype}; the package ml_dtypes has it, but is not installed or too old"
        advice = (
            "install it (pip install 'ml_dtypes>=0.5'), or load the values in another dtype: "
            "dequantize(), or dtype=\"float32\" of load_file and numpy.asarray"
        )
        fault = f"tensor \"{tensor}\": {fault}"
        raise exception("unsupported", fault, tensor=tensor, advice=advice)
    return found


def pairs(tensor: str, values: NDArray[Any]) -> NDArray[Any]:
    """Floats of 4 bits, which `ml_dtypes` keeps in a byte each, in pairs: the first in the lower half."""
    import numpy as np

    if not values.ndim or values.shape[-1] % 2:
        fault = f"tensor \"{tensor}\": the shape {values.shape} does not divide into pairs of 4 bits"
        raise exception("mismatch", fault, tensor=tensor)
    codes = values.view(np.uint8)
    found: NDArray[Any] = codes[..., ::2] | codes[..., 1::2] << 4
    return np.ascontiguousarray(found)


def numpy(array: _native.Array, element: Any) -> NDArray[Any]:
    """An array as NumPy's, without a copy. `element` is the type that NumPy lacks, or None."""
    import numpy as np

    if element is None:
        return np.from_dlpack(array)
    found: NDArray[Any] = np.from_dlpack(array.as_integers())
    return found.view(element)
