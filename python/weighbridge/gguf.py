"""The calls of the package `gguf` that scripts use, on Weighbridge: `import weighbridge.gguf as gguf`.

`GGUFReader` has `fields` and `tensors`, `GGUFWriter` has `add_*` and `write_*_to_file`, and `quants` has
`quantize` and `dequantize`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import numpy as _np

from . import _native
from ._arrays import dequantize_array, quantize_array
from ._errors import exception
from ._model import open as _open
from ._writer import Writer

__all__ = [
    "GGMLQuantizationType", "GGUFReader", "GGUFValueType", "GGUFWriter", "ReaderField",
    "ReaderTensor", "quants",
]

GGMLQuantizationType = IntEnum(  # type: ignore[misc]
    "GGMLQuantizationType",
    {name: code for name, _, _, code in _native.dtypes() if code is not None},
)
"""The dtypes of ggml, by their type codes."""


class GGUFValueType(IntEnum):
    """The types of metadata values."""

    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    UINT64 = 10
    INT64 = 11
    FLOAT64 = 12


_TYPES = {
    "u8": 0, "i8": 1, "u16": 2, "i16": 3, "u32": 4, "i32": 5, "f32": 6, "bool": 7, "string": 8,
    "u64": 10, "i64": 11, "f64": 12,
}
_NAMES = {number: name for name, number in _TYPES.items()}


class ReaderField:
    """A key of the metadata."""

    def __init__(self, name: str, type: str, value: Any) -> None:
        self.name = name
        element = type.removeprefix("array[").removesuffix("]")
        is_array = element != type
        outer = [GGUFValueType.ARRAY] if is_array else []
        self.types = [*outer, GGUFValueType(_TYPES[element])]
        self._value = value
        values = value if is_array else [value]
        self.parts = [_part(one) for one in values]
        self.data = list(range(len(self.parts)))

    def contents(self, index_or_slice: int | slice = slice(None)) -> Any:
        """The value, or some elements of an array."""
        is_array = self.types[0] == GGUFValueType.ARRAY
        return self._value[index_or_slice] if is_array else self._value


def _part(value: Any) -> Any:
    if isinstance(value, (str, bytes)):
        return _np.frombuffer(value.encode() if isinstance(value, str) else value, _np.uint8)
    return _np.array([value])


class ReaderTensor:
    """A tensor of the file."""

    def __init__(self, native: Any) -> None:
        tensor = self._tensor = native
        self.name: str = tensor.name
        self.tensor_type = GGMLQuantizationType[tensor.dtype]
        self.shape = _np.array(tensor.shape[::-1], _np.uint32)
        """The dimensions in the order of the file: the length of a row first."""
        self.n_elements: int = tensor.size
        self.n_bytes: int = tensor.nbytes
        self.data_offset: int = tensor.parts[0].offset

    @property
    def data(self) -> Any:
        """The array of plain numbers, or the bytes of blocks with a last dimension of a row's bytes."""
        raw = self._tensor.raw()
        if self._tensor.dtype == "BF16":
            raw = raw.view(_np.uint8)
        return raw.reshape(*self._tensor.shape[:-1], -1) if self._tensor.shape else raw


class GGUFReader:
    """A GGUF file, with `fields` by key and `tensors` in order."""

    def __init__(self, path: str | os.PathLike[str], mode: str = "r") -> None:
        if mode != "r":
            fault = f"the mode is {mode!r}, not 'r'"
            advice = "weighbridge.edit_metadata changes metadata"
            raise exception("unsupported", fault, advice=advice)
        model = self._model = _open(path)
        types = model.metadata.types
        self.fields = {
            key: ReaderField(key, types[key], value) for key, value in model.metadata.items()
        }
        self.tensors = [ReaderTensor(tensor) for tensor in model.stored.values()]
        self.data_offset = min((tensor.data_offset for tensor in self.tensors), default=0)
        self.alignment = int(model.metadata.get("general.alignment", 32))

    def get_field(self, key: str) -> ReaderField | None:
        """The field with this key, or None."""
        return self.fields.get(key)

    def get_tensor(self, index: int) -> ReaderTensor:
        """The tensor at this position."""
        return self.tensors[index]


class GGUFWriter:
    """Writes a GGUF file. Tensors and keys are gathered, and `write_tensors_to_file` or `close` writes the
    file."""

    def __init__(self, path: str | os.PathLike[str] | None, arch: str, **_: Any) -> None:
        self.path, self.arch = path, arch
        self._writer = Writer("gguf")
        self._is_written = False
        self.add_string("general.architecture", arch)

    def add_key_value(self, key: str, val: Any, vtype: GGUFValueType, sub_type: Any = None) -> None:
        """Sets a key to a value of a type."""
        if vtype == GGUFValueType.ARRAY:
            self.add_array(key, val, sub_type)
        else:
            self._writer.set(key, val, _NAMES[int(vtype)])

    def add_array(self, key: str, val: Sequence[Any], sub_type: Any = None) -> None:
        """Sets a key to an array."""
        kind = None if sub_type is None else f"array[{_NAMES[int(sub_type)]}]"
        self._writer.set(key, list(val), kind)

    def add_tensor(
        self,
        name: str,
        tensor: Any,
        raw_shape: Sequence[int] | None = None,
        raw_dtype: Any = None,
        **_: Any,
    ) -> None:
        """Adds an array of numbers; with `raw_dtype`, the bytes of blocks, whose last dimension is the
        bytes of a row."""
        if raw_dtype is None:
            self._writer.add(name, tensor)
            return
        dtype = GGMLQuantizationType(raw_dtype).name
        shape = list(raw_shape or tensor.shape)
        if tensor.dtype == _np.uint8:
            size, count = next(row[1:3] for row in _native.dtypes() if row[0] == dtype)
            shape[-1] = shape[-1] // size * count
        self._writer.add_raw(name, tensor, dtype, shape)

    def write_header_to_file(self, path: Any = None) -> None:
        """Does nothing: the file is written at once by `write_tensors_to_file`."""
        self.path = path or self.path

    def write_kv_data_to_file(self) -> None:
        """Does nothing: see `write_header_to_file`."""

    def write_tensors_to_file(self, *, progress: bool = False) -> None:
        """Writes the file."""
        if self.path is None:
            raise exception("mismatch", "no path is given")
        self._writer.write(self.path, overwrite=True, progress=progress)
        self._is_written = True

    def close(self) -> None:
        """Writes the file, unless it is written."""
        if not self._is_written and self.path is not None:
            self.write_tensors_to_file()

    def __getattr__(self, name: str) -> Any:
        kind = _ADDERS.get(name)
        if kind is not None:
            return lambda key, val: self._writer.set(key, val, kind)
        rest = _KEYS.get(name)
        if rest is not None:
            key, kind = rest
            return lambda val: self._writer.set(key.replace("{arch}", self.arch), val, kind)
        raise AttributeError(name)


_ADDERS = {
    "add_uint8": "u8", "add_int8": "i8", "add_uint16": "u16", "add_int16": "i16",
    "add_uint32": "u32", "add_int32": "i32", "add_float32": "f32", "add_uint64": "u64",
    "add_int64": "i64", "add_float64": "f64", "add_bool": "bool", "add_string": "string",
}
"""Functions of a key and a value."""

_KEYS = {
    "add_name": ("general.name", "string"), "add_author": ("general.author", "string"),
    "add_description": ("general.description", "string"),
    "add_license": ("general.license", "string"), "add_url": ("general.url", "string"),
    "add_version": ("general.version", "string"), "add_file_type": ("general.file_type", "u32"),
    "add_quantization_version": ("general.quantization_version", "u32"),
    "add_custom_alignment": ("general.alignment", "u32"),
    "add_block_count": ("{arch}.block_count", "u32"),
    "add_context_length": ("{arch}.context_length", "u32"),
    "add_embedding_length": ("{arch}.embedding_length", "u32"),
    "add_feed_forward_length": ("{arch}.feed_forward_length", "u32"),
    "add_head_count": ("{arch}.attention.head_count", "u32"),
    "add_head_count_kv": ("{arch}.attention.head_count_kv", "u32"),
    "add_key_length": ("{arch}.attention.key_length", "u32"),
    "add_value_length": ("{arch}.attention.value_length", "u32"),
    "add_layer_norm_rms_eps": ("{arch}.attention.layer_norm_rms_epsilon", "f32"),
    "add_layer_norm_eps": ("{arch}.attention.layer_norm_epsilon", "f32"),
    "add_rope_dimension_count": ("{arch}.rope.dimension_count", "u32"),
    "add_rope_freq_base": ("{arch}.rope.freq_base", "f32"),
    "add_vocab_size": ("{arch}.vocab_size", "u32"),
    "add_tokenizer_model": ("tokenizer.ggml.model", "string"),
    "add_tokenizer_pre": ("tokenizer.ggml.pre", "string"),
    "add_token_list": ("tokenizer.ggml.tokens", "array[string]"),
    "add_token_merges": ("tokenizer.ggml.merges", "array[string]"),
    "add_token_types": ("tokenizer.ggml.token_type", "array[i32]"),
    "add_token_scores": ("tokenizer.ggml.scores", "array[f32]"),
    "add_bos_token_id": ("tokenizer.ggml.bos_token_id", "u32"),
    "add_eos_token_id": ("tokenizer.ggml.eos_token_id", "u32"),
    "add_unk_token_id": ("tokenizer.ggml.unknown_token_id", "u32"),
    "add_pad_token_id": ("tokenizer.ggml.padding_token_id", "u32"),
    "add_add_bos_token": ("tokenizer.ggml.add_bos_token", "bool"),
    "add_add_eos_token": ("tokenizer.ggml.add_eos_token", "bool"),
    "add_chat_template": ("tokenizer.chat_template", "string"),
}
"""Functions of a value."""


def _quantize(data: Any, qtype: Any) -> Any:
    """Quantizes rows: see `weighbridge.quantize_array`."""
    name = GGMLQuantizationType(qtype).name
    if name in ("F32", "F16"):
        return _np.asarray(data).astype(_np.float32 if name == "F32" else _np.float16)
    return quantize_array(data, name)


def _dequantize(data: Any, qtype: Any) -> Any:
    """The values of rows: see `weighbridge.dequantize_array`."""
    name = GGMLQuantizationType(qtype).name
    if name in ("F32", "F16"):
        return _np.asarray(data).astype(_np.float32)
    return dequantize_array(_np.asarray(data), name)


quants = SimpleNamespace(quantize=_quantize, dequantize=_dequantize)
"""`quants.quantize(array, type)` and `quants.dequantize(bytes, type)`."""
