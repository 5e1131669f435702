"""Writing files with the bytes that the package `safetensors` writes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from .. import _native
from .._dtypes import NAMES, pairs
from .._errors import Error
from .._options import WriteOptions, native, read
from ._file import PathLike, SafetensorError

# Observed in files that the package, version 0.8.0, wrote: arrays are in this order, then in that of names.
_ORDER = (
    "U64", "I64", "F64", "C64", "F32", "U32", "I32", "BF16", "F16", "U16", "I16", "F8_E5M2FNUZ",
    "F8_E4M3FNUZ", "F8_E8M0", "F8_E4M3", "F8_E5M2", "I8", "U8", "F6_E3M2", "F6_E2M3", "F4", "BOOL",
)
_PLACES = {dtype: place for place, dtype in enumerate(_ORDER)}
_NAMES = {theirs: ours for ours, theirs in NAMES.items()} | {"float4_e2m1fn_x2": "F4"}


class TensorSpec:
    """An array in memory: its dtype, shape, address and length in bytes. The caller keeps the memory
    valid."""

    def __init__(self, *, dtype: str, shape: Sequence[int], data_ptr: int, data_len: int) -> None:
        if dtype not in _NAMES:
            raise SafetensorError(f"unknown dtype: {dtype}")
        self.dtype = dtype
        self.shape = [int(length) for length in shape]
        # Elements of 4 bits come in pairs, and the header counts elements.
        if dtype == "float4_e2m1fn_x2" and self.shape:
            self.shape[-1] *= 2
        self.data_ptr, self.data_len = int(data_ptr), int(data_len)


def serialize_file(
    tensor_dict: Mapping[str, TensorSpec],
    filename: PathLike,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes a file, which appears complete or not at all. An existing one is overwritten, as by the
    package."""
    builder = _native.Builder("safetensors", True)
    for key in builder.keys():
        builder.remove(key)
    builder.alignment(8)
    for key in sorted(metadata or {}):
        builder.set(key, "string", (metadata or {})[key])
    for name, spec in tensor_dict.items():
        if not isinstance(spec, TensorSpec):
            raise TypeError(f"{name} is a {type(spec).__name__}, not a TensorSpec")
    by_order = sorted(tensor_dict.items(), key=lambda one: (_PLACES[_NAMES[one[1].dtype]], one[0]))
    try:
        for name, spec in by_order:
            builder.add_raw(
                name, _NAMES[spec.dtype], spec.shape, spec.data_ptr, spec.data_len, tensor_dict
            )
        builder.write(os.fspath(filename), native(read(WriteOptions, {"overwrite": True})), None)
    except Error as error:
        raise SafetensorError(f"Error while serializing: {error}") from error


def serialize(
    tensor_dict: Mapping[str, TensorSpec], metadata: Mapping[str, str] | None = None
) -> bytes:
    """The bytes that `serialize_file` writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.safetensors")
        serialize_file(tensor_dict, path, metadata)
        with open(path, "rb") as file:
            return file.read()


def spec_of(name: str, array: Any) -> tuple[TensorSpec, Any]:
    """The spec of a NumPy array, and the array that owns the memory."""
    import numpy as np

    if not hasattr(array, "dtype") or not hasattr(array, "shape"):
        raise ValueError(f"{name} is a {type(array).__name__}, not an array")
    shape = list(array.shape)
    own = np.ascontiguousarray(np.asarray(array)).reshape(shape)
    if own.dtype.byteorder == ">":
        own = own.astype(own.dtype.newbyteorder("<"))
    kind = own.dtype.name
    if kind == "float4_e2m1fn":
        own, kind = pairs(name, own), "float4_e2m1fn_x2"
        shape = list(own.shape)
    address = own.ctypes.data
    spec = TensorSpec(dtype=kind, shape=shape, data_ptr=address, data_len=own.nbytes)
    return spec, own
