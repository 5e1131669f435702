"""The calls of the package `gguf` that scripts use, on Weighbridge: `import weighbridge.gguf as gguf`.

`GGUFReader` has `fields` and `tensors`, `GGUFWriter` has `add_*` and `write_*_to_file`, `quants` has
`quantize` and `dequantize`, and `Keys` the names of keys.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable, Sequence
from enum import Enum, EnumMeta, IntEnum
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as _np

from . import _native
from ._arrays import dequantize_array, quantize_array
from ._errors import exception
from ._machine import edit_metadata
from ._model import open as _open
from ._writer import Writer

__all__ = [
    "GGML_QUANT_SIZES", "GGUF_DEFAULT_ALIGNMENT", "GGUF_MAGIC", "GGUF_VERSION",
    "GGMLQuantizationType", "GGUFEndian", "GGUFReader", "GGUFValueType", "GGUFWriter", "Keys",
    "LlamaFileType", "ReaderField", "ReaderTensor", "RopeScalingType", "dequantize",
    "quant_shape_from_byte_shape", "quant_shape_to_byte_shape", "quantize", "quants",
]

GGUF_MAGIC = int.from_bytes(b"GGUF", "little")
GGUF_VERSION = 3
GGUF_DEFAULT_ALIGNMENT = 32

if TYPE_CHECKING:

    class _Members(EnumMeta):
        """The members, which the native module lists."""

        def __getattr__(cls, name: str) -> Any: ...

    class GGMLQuantizationType(IntEnum, metaclass=_Members):
        """The dtypes of ggml, by their type codes."""

    class LlamaFileType(IntEnum, metaclass=_Members):
        """The file types of llama.cpp, by their numbers."""

else:
    GGMLQuantizationType = IntEnum(
        "GGMLQuantizationType",
        {name: code for name, _, _, code in _native.dtypes() if code is not None},
    )
    LlamaFileType = IntEnum(
        "LlamaFileType",
        {
            "ALL_F32" if name == "F32" else f"MOSTLY_{name}": code
            for name, code in _native.file_types()
        },
    )

GGML_QUANT_SIZES: dict[Any, tuple[int, int]] = {
    GGMLQuantizationType[name]: (count, size)
    for name, size, count, code in _native.dtypes()
    if code is not None
}
"""The elements and the bytes of a block."""


class RopeScalingType(str, Enum):
    """The methods by which positions are scaled."""

    NONE = "none"
    LINEAR = "linear"
    YARN = "yarn"
    LONGROPE = "longrope"


class GGUFEndian(IntEnum):
    """The byte order of a file."""

    LITTLE = 0
    BIG = 1


def _row(shape: Sequence[int], unit: int, other: int, what: str) -> tuple[int, ...]:
    """A shape whose rows, a multiple of `unit`, are counted in another unit."""
    if shape[-1] % unit:
        raise exception("mismatch", f"rows of {shape[-1]} {what}, not a multiple of {unit}")
    return (*shape[:-1], shape[-1] // unit * other)


def quant_shape_to_byte_shape(shape: Sequence[int], quant_type: Any) -> tuple[int, ...]:
    """The shape of the bytes of blocks."""
    return _row(shape, *GGML_QUANT_SIZES[quant_type], "elements")


def quant_shape_from_byte_shape(shape: Sequence[int], quant_type: Any) -> tuple[int, ...]:
    """The shape of the values of blocks."""
    count, size = GGML_QUANT_SIZES[quant_type]
    return _row(shape, size, count, "bytes")


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

    @staticmethod
    def get_type(val: Any) -> GGUFValueType:
        """The type that a value of Python gets."""
        kinds: list[tuple[Any, GGUFValueType]] = [
            ((str, bytes, bytearray), GGUFValueType.STRING), (list, GGUFValueType.ARRAY),
            (float, GGUFValueType.FLOAT32), (bool, GGUFValueType.BOOL), (int, GGUFValueType.INT32),
        ]
        for kind, found in kinds:
            if isinstance(val, kind):
                return found
        raise exception("mismatch", f"{val!r} has no type of a metadata value")


_TYPES = {
    "u8": 0, "i8": 1, "u16": 2, "i16": 3, "u32": 4, "i32": 5, "f32": 6, "bool": 7, "string": 8,
    "u64": 10, "i64": 11, "f64": 12,
}
_NAMES = {number: name for name, number in _TYPES.items()}
_DTYPES = {
    name: "bool" if name == "bool" else f"{name[0]}{int(name[1:]) // 8}"
    for name in _TYPES
    if name != "string"
}
"""NumPy's names of the types."""


class _Number(_np.ndarray[Any, Any]):
    """A number of the metadata. With the mode `r+`, a number that is put into it is put into the file."""

    writes: Callable[[Any], object] | None = None

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(index, value)
        if self.writes is not None:
            self.writes(self[0].item())


class ReaderField:
    """A key of the metadata. As in gguf-py, `parts` has the arrays that the file has one after another, and
    `data` the places of the values in it: before a text stands its length."""

    def __init__(
        self, name: str, type: str, value: Any, put: Callable[[Any], object] | None = None
    ) -> None:
        self.name = name
        element = type.removeprefix("array[").removesuffix("]")
        is_array = element != type
        outer = [GGUFValueType.ARRAY] if is_array else []
        self.types = [*outer, GGUFValueType(_TYPES[element])]
        self._value, self._put = value, put
        count = len(value) if is_array else 1
        self.data = list(range(1, 2 * count, 2)) if element == "string" else list(range(count))

    @cached_property
    def parts(self) -> list[Any]:
        """The arrays."""
        kind, is_array = self.types[-1], self.types[0] == GGUFValueType.ARRAY
        values = self._value if is_array else [self._value]
        if kind == GGUFValueType.STRING:
            return [part for value in values for part in _text(value)]
        dtype = _DTYPES[_NAMES[kind]]
        if is_array:
            return list(_np.array(values, dtype).reshape(-1, 1))
        number = _np.array(values, dtype).view(_Number)
        number.writes = self._put
        return [number]

    def contents(self, index_or_slice: int | slice = slice(None)) -> Any:
        """The value, or some elements of an array."""
        is_array = self.types[0] == GGUFValueType.ARRAY
        return self._value[index_or_slice] if is_array else self._value


def _text(value: str | bytes) -> tuple[Any, Any]:
    """The length of a text, and its bytes."""
    content = value.encode() if isinstance(value, str) else value
    return _np.array([len(content)], _np.uint64), _np.frombuffer(content, _np.uint8)


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

    gguf_scalar_to_np = {
        GGUFValueType(number): _np.dtype(_DTYPES[name]).type
        for name, number in _TYPES.items()
        if name in _DTYPES
    }
    """NumPy's types of numbers."""

    def __init__(self, path: str | os.PathLike[str], mode: str = "r") -> None:
        """Opens a file. With the mode `r+`, numbers of the metadata can be replaced, as in
        `field.parts[field.data[0]][0] = 4096`; `weighbridge.edit_metadata` changes all else."""
        if mode not in ("r", "r+"):
            fault = f"the mode is {mode!r}, not 'r' or 'r+'"
            advice = "weighbridge.edit_metadata changes metadata"
            raise exception("unsupported", fault, advice=advice)
        model = self._model = _open(path)
        types = model.metadata.types
        with open(path, "rb") as file:
            head = file.read(24)
        is_big = head[4:6] == b"\0\0"
        self.endianess = GGUFEndian.BIG if is_big else GGUFEndian.LITTLE
        self.byte_order = "I" if is_big == (sys.byteorder == "big") else "S"
        numbers = struct.unpack(">4xIQQ" if is_big else "<4xIQQ", head)
        names = [("GGUF.version", "u32"), ("GGUF.tensor_count", "u64"), ("GGUF.kv_count", "u64")]
        fields = [(*name, number) for name, number in zip(names, numbers, strict=True)]
        fields += [(key, types[key], value) for key, value in model.metadata.items()]

        def put(key: str) -> Callable[[Any], object] | None:
            is_key = mode == "r+" and not key.startswith("GGUF.")
            return (lambda value: edit_metadata(path, {key: value})) if is_key else None

        self.fields = {field[0]: ReaderField(*field, put(field[0])) for field in fields}
        self.tensors = [ReaderTensor(tensor) for tensor in model.stored.values()]
        self.data_offset = min((tensor.data_offset for tensor in self.tensors), default=0)
        self.alignment = int(model.metadata.get("general.alignment", 32))

    def get_field(self, key: str) -> ReaderField | None:
        """The field with this key, or None."""
        return self.fields.get(key)

    def get_tensor(self, index: int) -> ReaderTensor:
        """The tensor at this position."""
        return self.tensors[index]


def _check_endian(endianess: Any) -> None:
    if endianess == GGUFEndian.BIG:
        raise exception("unsupported", "big-endian files are not written")


class GGUFWriter:
    """Writes a GGUF file. Tensors and keys are gathered, and `write_tensors_to_file` or `close` writes the
    file."""

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        arch: str,
        use_temp_file: bool = False,
        endianess: GGUFEndian = GGUFEndian.LITTLE,
        split_max_tensors: int = 0,
        split_max_size: int = 0,
        dry_run: bool = False,
        small_first_shard: bool = False,
    ) -> None:
        """`use_temp_file` changes nothing, since tensors are kept or streamed. One file is written:
        `weighbridge.split` divides it."""
        _check_endian(endianess)
        several = {
            "split_max_tensors": split_max_tensors, "split_max_size": split_max_size,
            "small_first_shard": small_first_shard,
        }
        for name in (name for name, given in several.items() if given):
            advice = "weighbridge.split(path, ...) divides a file"
            raise exception("unsupported", f"{name} is {several[name]}, but one file is written", advice=advice)
        self._dry_run = dry_run
        self.path, self.arch = path, arch
        self._writer = Writer("gguf")
        self._is_written = False
        # Tensors that `add_tensor_info` has announced, and whose data did not follow yet.
        self._announced: list[tuple[str, list[int], Any, int, Any]] = []
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
        tensor_endianess: GGUFEndian | None = None,
    ) -> None:
        """Adds an array of numbers; with `raw_dtype`, the bytes of blocks, whose last dimension is the
        bytes of a row. `raw_shape` replaces the shape of the array."""
        _check_endian(tensor_endianess)
        shape = list(raw_shape or tensor.shape)
        if raw_dtype is None:
            self._writer.add(name, tensor if raw_shape is None else tensor.reshape(shape))
            return
        if tensor.dtype == _np.uint8:
            shape = list(quant_shape_from_byte_shape(shape, raw_dtype))
        self._writer.add_raw(name, tensor, GGMLQuantizationType(raw_dtype).name, shape)

    def add_tensor_info(
        self,
        name: str,
        tensor_shape: Sequence[int],
        tensor_dtype: Any,
        tensor_nbytes: int,
        raw_dtype: Any = None,
    ) -> None:
        """Announces a tensor. `write_tensor_data` takes the data, in the same order, in an array of
        `tensor_dtype` with `tensor_nbytes` bytes."""
        self._announced.append((name, list(tensor_shape), tensor_dtype, tensor_nbytes, raw_dtype))

    def write_tensor_data(self, tensor: Any, tensor_endianess: Any = None) -> None:
        """Adds the data of the next announced tensor. `close` writes the file."""
        if not self._announced:
            raise exception("mismatch", "no tensor is announced: call add_tensor_info before")
        name, shape, dtype, nbytes, raw_dtype = self._announced.pop(0)
        if tensor.dtype != dtype or tensor.nbytes != nbytes:
            fault = f"{tensor.nbytes} bytes of {tensor.dtype}, but {nbytes} of {dtype} are announced"
            raise exception("mismatch", f"tensor \"{name}\": {fault}", tensor=name)
        self.add_tensor(name, tensor.reshape(shape), None, raw_dtype, tensor_endianess)

    def write_header_to_file(self, path: Any = None) -> None:
        """Does nothing: the file is written at once by `write_tensors_to_file`."""
        self.path = path or self.path

    def write_kv_data_to_file(self) -> None:
        """Does nothing: see `write_header_to_file`."""

    def write_ti_data_to_file(self) -> None:
        """Does nothing: see `write_header_to_file`."""

    def write_tensors_to_file(self, *, progress: bool = False) -> None:
        """Writes the file."""
        if self.path is None:
            raise exception("mismatch", "no path is given")
        self._writer.write(self.path, overwrite=True, dry_run=self._dry_run, progress=progress)
        self._is_written = True

    def close(self) -> None:
        """Writes the file, unless it is written."""
        if not self._is_written and self.path is not None:
            self.write_tensors_to_file()

    def _set(self, key: str, val: Any, kind: str) -> None:
        val = val.value if isinstance(val, Enum) else val
        # A number for each layer in place of one for all.
        is_list = isinstance(val, (list, tuple)) and not kind.startswith("array")
        # Elements have the types that `GGUFValueType.get_type` tells.
        element = "i32" if kind == "u32" else kind
        self._writer.set(key, val, f"array[{element}]" if is_list else kind)

    def __getattr__(self, name: str) -> Any:
        kind = _ADDERS.get(name)
        if kind is not None:
            return lambda key, val: self._writer.set(key, val, kind)
        rest = _SETTERS.get(name)
        if rest is not None:
            key, kind = rest
            return lambda val: self._set(key.format(arch=self.arch), val, kind)
        raise AttributeError(name)


_ADDERS = {
    "add_uint8": "u8", "add_int8": "i8", "add_uint16": "u16", "add_int16": "i16",
    "add_uint32": "u32", "add_int32": "i32", "add_float32": "f32", "add_uint64": "u64",
    "add_int64": "i64", "add_float64": "f64", "add_bool": "bool", "add_string": "string",
}
"""Functions of a key and a value."""

_KEYS = [
    ("General.ARCHITECTURE", "general.architecture", "string", None),
    ("General.TYPE", "general.type", "string", "add_type"),
    ("General.NAME", "general.name", "string", "add_name"),
    ("General.AUTHOR", "general.author", "string", "add_author"),
    ("General.DESCRIPTION", "general.description", "string", "add_description"),
    ("General.LICENSE", "general.license", "string", "add_license"),
    ("General.URL", "general.url", "string", "add_url"),
    ("General.VERSION", "general.version", "string", "add_version"),
    ("General.FILE_TYPE", "general.file_type", "u32", "add_file_type"),
    ("General.QUANTIZATION_VERSION", "general.quantization_version", "u32", "add_quantization_version"),
    ("General.ALIGNMENT", "general.alignment", "u32", "add_custom_alignment"),
    ("General.ORGANIZATION", "general.organization", "string", "add_organization"),
    ("General.BASENAME", "general.basename", "string", "add_basename"),
    ("General.FINETUNE", "general.finetune", "string", "add_finetune"),
    ("General.SIZE_LABEL", "general.size_label", "string", "add_size_label"),
    ("General.TAGS", "general.tags", "array[string]", "add_tags"),
    ("General.LANGUAGES", "general.languages", "array[string]", "add_languages"),
    ("LLM.BLOCK_COUNT", "{arch}.block_count", "u32", "add_block_count"),
    ("LLM.CONTEXT_LENGTH", "{arch}.context_length", "u32", "add_context_length"),
    ("LLM.EMBEDDING_LENGTH", "{arch}.embedding_length", "u32", "add_embedding_length"),
    ("LLM.FEED_FORWARD_LENGTH", "{arch}.feed_forward_length", "u32", "add_feed_forward_length"),
    ("LLM.VOCAB_SIZE", "{arch}.vocab_size", "u32", "add_vocab_size"),
    ("LLM.EXPERT_COUNT", "{arch}.expert_count", "u32", "add_expert_count"),
    ("LLM.EXPERT_USED_COUNT", "{arch}.expert_used_count", "u32", "add_expert_used_count"),
    ("Attention.HEAD_COUNT", "{arch}.attention.head_count", "u32", "add_head_count"),
    ("Attention.HEAD_COUNT_KV", "{arch}.attention.head_count_kv", "u32", "add_head_count_kv"),
    ("Attention.KEY_LENGTH", "{arch}.attention.key_length", "u32", "add_key_length"),
    ("Attention.VALUE_LENGTH", "{arch}.attention.value_length", "u32", "add_value_length"),
    (
        "Attention.LAYERNORM_RMS_EPS", "{arch}.attention.layer_norm_rms_epsilon", "f32",
        "add_layer_norm_rms_eps",
    ),
    ("Attention.LAYERNORM_EPS", "{arch}.attention.layer_norm_epsilon", "f32", "add_layer_norm_eps"),
    ("Attention.SLIDING_WINDOW", "{arch}.attention.sliding_window", "u32", "add_sliding_window"),
    ("Rope.DIMENSION_COUNT", "{arch}.rope.dimension_count", "u32", "add_rope_dimension_count"),
    ("Rope.FREQ_BASE", "{arch}.rope.freq_base", "f32", "add_rope_freq_base"),
    ("Rope.SCALING_TYPE", "{arch}.rope.scaling.type", "string", "add_rope_scaling_type"),
    ("Rope.SCALING_FACTOR", "{arch}.rope.scaling.factor", "f32", "add_rope_scaling_factor"),
    (
        "Rope.SCALING_ORIG_CTX_LEN", "{arch}.rope.scaling.original_context_length", "u32",
        "add_rope_scaling_orig_ctx_len",
    ),
    ("Tokenizer.MODEL", "tokenizer.ggml.model", "string", "add_tokenizer_model"),
    ("Tokenizer.PRE", "tokenizer.ggml.pre", "string", "add_tokenizer_pre"),
    ("Tokenizer.LIST", "tokenizer.ggml.tokens", "array[string]", "add_token_list"),
    ("Tokenizer.MERGES", "tokenizer.ggml.merges", "array[string]", "add_token_merges"),
    ("Tokenizer.TOKEN_TYPE", "tokenizer.ggml.token_type", "array[i32]", "add_token_types"),
    ("Tokenizer.SCORES", "tokenizer.ggml.scores", "array[f32]", "add_token_scores"),
    ("Tokenizer.BOS_ID", "tokenizer.ggml.bos_token_id", "u32", "add_bos_token_id"),
    ("Tokenizer.EOS_ID", "tokenizer.ggml.eos_token_id", "u32", "add_eos_token_id"),
    ("Tokenizer.UNK_ID", "tokenizer.ggml.unknown_token_id", "u32", "add_unk_token_id"),
    ("Tokenizer.PAD_ID", "tokenizer.ggml.padding_token_id", "u32", "add_pad_token_id"),
    ("Tokenizer.ADD_BOS", "tokenizer.ggml.add_bos_token", "bool", "add_add_bos_token"),
    ("Tokenizer.ADD_EOS", "tokenizer.ggml.add_eos_token", "bool", "add_add_eos_token"),
    ("Tokenizer.CHAT_TEMPLATE", "tokenizer.chat_template", "string", "add_chat_template"),
    ("Tokenizer.EOT_ID", "tokenizer.ggml.eot_token_id", "u32", "add_eot_token_id"),
    ("Tokenizer.SEP_ID", "tokenizer.ggml.seperator_token_id", "u32", "add_sep_token_id"),
    ("Tokenizer.MASK_ID", "tokenizer.ggml.mask_token_id", "u32", "add_mask_token_id"),
    ("Tokenizer.ADD_PREFIX", "tokenizer.ggml.add_space_prefix", "bool", "add_add_space_prefix"),
    ("Tokenizer.HF_JSON", "tokenizer.huggingface.json", "string", None),
]
"""The keys: the name in `Keys`, the key, the type, and the function of a value."""

_SETTERS = {function: (key, kind) for _, key, kind, function in _KEYS}

Keys = SimpleNamespace()
"""The names of keys, as `Keys.General.ARCHITECTURE`; those of an architecture have `{arch}` in them."""
for _name, _key, *_ in _KEYS:
    _group, _dot, _own = _name.partition(".")
    vars(vars(Keys).setdefault(_group, SimpleNamespace()))[_own] = _key


def quantize(data: Any, qtype: Any) -> Any:
    """Quantizes rows: see `weighbridge.quantize_array`."""
    name = GGMLQuantizationType(qtype).name
    if name in ("F32", "F16"):
        return _np.asarray(data).astype(_np.float32 if name == "F32" else _np.float16)
    return quantize_array(data, name)


def dequantize(data: Any, qtype: Any) -> Any:
    """The values of rows: see `weighbridge.dequantize_array`."""
    name = GGMLQuantizationType(qtype).name
    if name in ("F32", "F16"):
        return _np.asarray(data).astype(_np.float32)
    return dequantize_array(_np.asarray(data), name)


quants = SimpleNamespace(quantize=quantize, dequantize=dequantize)
"""`quants.quantize(array, type)` and `quants.dequantize(bytes, type)`."""
