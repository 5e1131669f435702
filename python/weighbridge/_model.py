"""Models and tensors."""

from __future__ import annotations

import html
import json
import operator
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _native
from ._errors import exception

# NumPy is imported where it is used: the program `weighbridge` starts ten times faster without it.
if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Config", "Metadata", "Model", "Part", "StoredTensors", "Tensor", "Tokenizer", "open"]

_ML_DTYPES = {
    "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu", "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
}
"""Dtypes that NumPy lacks, by their names in `ml_dtypes`."""

_FLOATS = {
    "float32": "F32", "f32": "F32", "float16": "F16", "f16": "F16",
    "bfloat16": "BF16", "bf16": "BF16",
}
"""Dtypes that values can be computed in, by all their names."""


def _ml_dtype(dtype: str) -> Any:
    """The type that `ml_dtypes` has for a dtype that NumPy lacks; None without it, or if its version
    is too old."""
    try:
        import ml_dtypes
    except ImportError:
        return None
    return getattr(ml_dtypes, _ML_DTYPES[dtype], None)


def _element(dtype: str, tensor: str) -> Any:
    """The type of the elements of a NumPy array if NumPy itself lacks it, else None.

    Integers of the same width are not given instead: their values would be wrong.
    """
    if dtype not in _ML_DTYPES:
        return None
    found = _ml_dtype(dtype)
    if found is None:
        fault = f"NumPy has no {dtype}; the package ml_dtypes has it, but is not installed or too old"
        advice = (
            "install it (pip install 'ml_dtypes>=0.5'), or load the values in another dtype: "
            "dequantize(), or dtype=\"float32\" of load_file and numpy.asarray"
        )
        fault = f"tensor \"{tensor}\": {fault}"
        raise exception("unsupported", fault, tensor=tensor, advice=advice)
    return found


def _numpy(array: _native.Array, element: Any) -> NDArray[Any]:
    """An array as NumPy's, without a copy. `element` is the type that NumPy lacks, or None."""
    import numpy as np

    if element is None:
        return np.from_dlpack(array)
    found: NDArray[Any] = np.from_dlpack(array.as_integers())
    return found.view(element)


def _float(dtype: Any) -> str:
    """`F32`, `F16` or `BF16`, by the name or the type that NumPy, `ml_dtypes` or torch has for it."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype))
    found = _FLOATS.get(name.lower().rpartition(".")[2])
    if found is None:
        import numpy as np

        try:
            name = np.dtype(dtype).name
        except TypeError:
            pass
        found = _FLOATS.get(name)
    if found is None:
        fault = f"the dtype is \"{name}\", not float32, float16 or bfloat16"
        raise exception("mismatch", fault)
    return found


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

    >>> tensor = open(SAMPLE)["layers.0.attention.q.weight"]
    >>> len(tensor), tensor[3].shape, tensor[10:20].shape, tensor[..., 64:128].shape
    (256, (256,), (10, 256), (256, 64))
    """

    __slots__ = ("_native",)

    def __init__(self, native: _native.Tensor) -> None:
        self._native = native

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

    def numpy(self) -> NDArray[Any]:
        """The tensor as a NumPy array. Stored numbers share the memory of the file where possible:
        a write to them stays in this process. Quantized tensors are decoded to float32. BF16 and
        floats of 8 bits have the types of the package `ml_dtypes`."""
        element = _element(self._native.value_dtype, self.name)
        return _numpy(self._native.load(None), element)

    def raw(self, part: str = "weight") -> NDArray[Any]:
        """The stored bytes of a part. They are shared with the file where possible.

        A part of plain numbers, such as scales, has its own dtype and shape. Other parts are bytes,
        and so are numbers that NumPy lacks if `ml_dtypes` is not installed. `Writer.add_raw` writes
        them.
        """
        array = self._native.packed(part)
        dtypes = [found.dtype for found in self.parts if found.part == part]
        if not dtypes or dtypes[0] not in _ML_DTYPES:
            return _numpy(array, None)
        element = _ml_dtype(dtypes[0])
        if element is not None:
            return _numpy(array, element)
        import numpy as np

        return np.from_dlpack(array.as_integers()).reshape(-1).view(np.uint8)

    def dequantize(self, dtype: Any = None, *, out: Any = None) -> Any:
        """The values in `float32`, which is the default, `float16` or `bfloat16`, as a NumPy array in
        new memory.

        With `out`, a contiguous NumPy array or torch tensor in host memory, writes the values to it
        and returns it. Its dtype is the one of the values.
        """
        native = self._native
        wanted = None if dtype is None else _float(dtype)
        if out is not None:
            name, shape, address, nbytes = _writable(out)
            if shape != self.shape:
                raise exception("mismatch", f"out has the shape {shape}, not {self.shape}")
            if wanted is not None and _float(name) != wanted:
                fault = f"the values are requested in {wanted}, but out has the dtype {name}"
                raise exception("mismatch", fault, advice="omit the dtype, or give another out")
            native.decode_into(0, native.rows, name, address, nbytes)
            return out
        if wanted == "BF16":
            element = _element(wanted, self.name)
            return _numpy(native.load(wanted), element)
        import numpy as np

        found = np.empty(self.shape, np.float16 if wanted == "F16" else np.float32)
        name, _, address, nbytes = _writable(found)
        native.decode_into(0, native.rows, name, address, nbytes)
        return found

    def __getitem__(self, index: Any) -> Tensor:
        native, axis = self._native, 0
        for indices, stays in _indices(index, self.shape):
            native = _select(native, axis, indices)
            if stays:
                axis += 1
            else:
                native = native.squeeze(axis)
        return Tensor(native)

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise TypeError("iteration over a tensor without dimensions")
        return (self[number] for number in range(len(self)))

    def shard(self, axis: int, rank: int, of: int) -> Tensor:
        """Part `rank` of `of` parts along an axis, as `torch.chunk` divides it.

        >>> open(SAMPLE)["layers.0.ffn.down.weight"].shard(1, rank=0, of=2).shape
        (256, 256)
        """
        if not 0 <= axis < self.ndim:
            raise exception("mismatch", f"axis {axis} does not exist in the shape {self.shape}")
        if not 0 <= rank < of:
            raise exception("mismatch", f"rank {rank}, but there are {of} ranks")
        length = self.shape[axis]
        each = -(-length // of)
        first, end = min(rank * each, length), min((rank + 1) * each, length)
        return Tensor(_select(self._native, axis, range(first, end)))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor without dimensions")
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        stored = self._native.value_dtype
        is_lacking = stored in _ML_DTYPES and _ml_dtype(stored) is None
        # NumPy can have the values, if not their dtype.
        by_value = dtype is not None and is_lacking
        found: NDArray[Any] = self.dequantize() if by_value else self.numpy()
        if dtype is not None and found.dtype != dtype:
            return found.astype(dtype)
        return found.copy() if copy else found

    def __dlpack__(self, **options: Any) -> Any:
        """Gives the tensor to NumPy, PyTorch, JAX or MLX: stored numbers without a copy, quantized
        ones as float32. A write to the array stays in this process."""
        return self._native.load(None).__dlpack__(**options)

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


class StoredTensors(Mapping[str, Tensor]):
    """The tensors of a model under the names of its files, with the files' rows and values."""

    def __init__(self, native: _native.Model) -> None:
        self._native = native
        self._names: list[str] | None = None

    def __getitem__(self, name: str) -> Tensor:
        return Tensor(self._native.stored_tensor(name))

    def __contains__(self, name: object) -> bool:
        return name in self._all()

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> list[str]:
        if self._names is None:
            self._names = self._native.stored_names()
        return self._names

    def __repr__(self) -> str:
        return f"StoredTensors({len(self)} tensors)"


class Metadata(Mapping[str, Any]):
    """The metadata of a model's files. A value is decoded when it is asked for."""

    def __init__(self, native: _native.Model) -> None:
        self._native = native
        self._keys = dict.fromkeys(native.metadata_keys())

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return self._native.metadata_value(key)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        return f"Metadata({len(self)} keys)"


class Config(Mapping[str, Any]):
    """The values that an engine needs, whatever the file calls them: `config.dim` or
    `config["dim"]`; `config["attention.heads"]` where several groups have a name."""

    def __init__(self, report: dict[str, Any]) -> None:
        self._report = report
        self._values: dict[str, Any] = {}
        for group, fields in report["config"].items():
            if isinstance(fields, dict) and "value" in fields:
                self._values[group] = fields["value"]
            elif isinstance(fields, dict):
                for name, field in fields.items():
                    self._values[f"{group}.{name}"] = field["value"]

    def __getitem__(self, name: str) -> Any:
        if name in self._values:
            return self._values[name]
        found = [key for key in self._values if key.endswith("." + name)]
        if len(found) != 1:
            raise KeyError(name)
        return self._values[found[0]]

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the config has no value {name!r}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return "Config({})".format(", ".join(f"{k}={v!r}" for k, v in self._values.items()))


class Tokenizer:
    """What a model's files say of its tokenizer. It does not tokenize text."""

    def __init__(self, tokens: list[bytes], chat_template: str | None) -> None:
        self.tokens = tokens
        """The spelling of each token in the file, in order of their numbers."""
        self.chat_template = chat_template
        """The chat template, in Jinja."""

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        return f"Tokenizer({len(self)} tokens)"


class Model(Mapping[str, Tensor]):
    """An opened model: a mapping from canonical names to tensors. `stored` has the files' names."""

    def __init__(self, native: _native.Model) -> None:
        self._native = native
        self._names: dict[str, None] | None = None

    @property
    def path(self) -> Path:
        """The path that was opened."""
        return Path(self._native.path)

    @property
    def container(self) -> str:
        """`gguf`, `safetensors`, `mlx`, `ollama` or `whisper-ggml`."""
        return self._native.container

    @property
    def architecture(self) -> str | None:
        """The model family, if it is known."""
        return self._native.architecture

    @property
    def files(self) -> list[Path]:
        """The files that hold tensors or metadata."""
        return [Path(path) for path in self._native.files]

    @property
    def notes(self) -> list[str]:
        """Remarks: broken rules of the format, files that were ignored."""
        return self._native.notes

    @property
    def nbytes(self) -> int:
        """Bytes of all stored tensors."""
        return self._native.stored_bytes

    @property
    def missing(self) -> list[str]:
        """Tensors that the family requires and the model lacks."""
        return self._native.missing

    @property
    def stored(self) -> StoredTensors:
        """The tensors under the names of the files."""
        return StoredTensors(self._native)

    @property
    def metadata(self) -> Metadata:
        """The keys and values of GGUF, or the `__metadata__` of safetensors."""
        return Metadata(self._native)

    @property
    def config(self) -> Config:
        """The values that an engine needs."""
        return Config(json.loads(_native.config(self._native)))

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer, if a file contains one."""
        tokens = self._native.tokens()
        return None if tokens is None else Tokenizer(tokens, self._native.chat_template())

    def tensors(self, names: str = "canonical") -> dict[str, Tensor]:
        """All tensors by name: `canonical`, `stored`, or those of `huggingface`, `mlx` or `gguf`,
        with the shapes and the row order of that convention."""
        if names == "canonical":
            return dict(self.items())
        if names == "stored":
            return dict(self.stored.items())
        return {tensor.name: Tensor(tensor) for tensor in self._native.tensors_in(names)}

    def tensors_of_rank(
        self,
        names: str = "canonical",
        *,
        tensor_parallel: tuple[int, int] = (0, 1),
        pipeline_parallel: tuple[int, int] = (0, 1),
        expert_parallel: tuple[int, int] = (0, 1),
    ) -> dict[str, Tensor]:
        """What one of several processes loads of all tensors: its part of each. Each kind of
        parallelism is the number of the rank, from 0, and the number of ranks. `names` is
        `canonical`, `huggingface`, `mlx` or `gguf`.

        >>> part = open(SAMPLE).tensors_of_rank(tensor_parallel=(0, 2))
        >>> part["layers.0.attention.q.weight"].shape
        (128, 256)
        """
        ranks = (tensor_parallel, pipeline_parallel, expert_parallel)
        found = self._native.tensors_of_rank(names, *ranks)
        return {tensor.name: Tensor(tensor) for tensor in found}

    def __getitem__(self, name: str) -> Tensor:
        return Tensor(self._native.tensor(name))

    def __contains__(self, name: object) -> bool:
        return name in self._all()

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> dict[str, None]:
        if self._names is None:
            self._names = dict.fromkeys(self._native.names())
        return self._names

    def _facts(self) -> list[tuple[str, str]]:
        dtypes: dict[str, int] = {}
        for tensor in self.stored.values():
            dtypes[tensor.dtype] = dtypes.get(tensor.dtype, 0) + 1
        counts = ", ".join(f"{count} {dtype}" for dtype, count in dtypes.items())
        return [
            ("container", self.container),
            ("family", self.architecture or "unknown"),
            ("tensors", f"{len(self.stored)} ({counts})"),
            ("size", f"{self.nbytes / 2**20:.1f} MiB"),
        ]

    def __repr__(self) -> str:
        facts = "\n".join(f"  {name:<10} {value}" for name, value in self._facts())
        return f"Model({str(self.path)!r})\n{facts}"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
            for name, value in self._facts()
        )
        return f"<b>{html.escape(str(self.path))}</b><table>{rows}</table>"


def open(
    path: str | Path,
    *,
    strictness: str = "default",
    no_map: bool = False,
    threads: int = 0,
    all_files: bool = False,
) -> Model:
    """Opens a model: a file, a directory, or the name of a model in Ollama's store.

    The format is detected from the content. Only headers are read.

    - `strictness`: `default`, `strict` (apply the strictest reader's rules) or `lenient`.
    - `no_map`: read tensors into memory of their own instead of mapping the files.
    - `threads`: 0 means one for each processor.
    - `all_files`: open every weight file of a directory, not only those that its index names.

    >>> model = open(SAMPLE)
    >>> model["output_norm.weight"].shape
    (256,)
    """
    return Model(_native.Model(path, strictness, no_map, threads, all_files))
