"""Verbs on whole models, each with a report."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast

from . import _native
from ._dtypes import DType, parse
from ._errors import exception
from ._model import Model, PathLike, Strictness
from ._model import open as _open
from ._progress import Progress, callback
from ._sizes import Size, count, size

__all__ = [
    "DiffReport", "HashReport", "InspectReport", "Report", "VerifyReport", "WriteReport",
    "convert", "create", "diff", "hash", "inspect", "join", "quantize", "split", "verify",
]

Source = Union[PathLike, Model]
"""A model, or its path."""

Container = Literal["gguf", "safetensors", "mlx", "ollama"]
"""A container that can be written."""


@dataclass(frozen=True)
class Writing:
    """How a model is written."""

    overwrite: bool
    allow_incomplete: bool
    allow_nonfinite: bool
    dry_run: bool
    threads: int
    max_memory: int | None

    @classmethod
    def of(
        cls,
        overwrite: bool,
        dry_run: bool,
        threads: int,
        max_memory: Size | None,
        allow_incomplete: bool = False,
        allow_nonfinite: bool = False,
    ) -> Writing:
        """The options, checked."""
        memory = size("max_memory", max_memory)
        allowed = (bool(allow_incomplete), bool(allow_nonfinite))
        return cls(bool(overwrite), *allowed, bool(dry_run), count("threads", threads), memory)


@dataclass(frozen=True)
class Quantization:
    """What a GGUF file is quantized to."""

    file_type: str
    imatrix: PathLike | None
    include_weights: list[str]
    exclude_weights: list[str]
    pure: bool
    allow_requantize: bool
    leave_output_tensor: bool
    output_tensor_type: str | None
    token_embedding_type: str | None
    tensor_type: list[str]
    prune_layers: list[int]
    keep_split: bool
    override_kv: list[str]
    extra_keys: bool


@dataclass(frozen=True)
class Creation:
    """What a model in Ollama's store says besides its weights."""

    modelfile: PathLike | None
    quantize: str | None
    template: str | None
    system: str | None
    parameters: list[tuple[str, str]]
    licenses: list[str]
    messages: list[tuple[str, str]]
    files: list[PathLike]
    draft: PathLike | None
    draft_quantize: str | None
    renderer: str | None
    parser: str | None
    requires: str | None
    store: PathLike | None


class Report(Mapping[str, Any]):
    """A report: its members are attributes and keys, as in the program's JSON."""

    def __init__(self, members: dict[str, Any]) -> None:
        self._members = members

    def __getitem__(self, name: str) -> Any:
        return self._members[name]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_members"][name]
        except KeyError:
            raise AttributeError(f"the report has no member {name!r}") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._members]

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def __iter__(self) -> Any:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def _lines(self) -> list[str]:
        """What the report says, for people."""
        return [
            f"{name}: {len(value) if isinstance(value, (list, dict)) else value}"
            for name, value in self._members.items()
        ]

    def __repr__(self) -> str:
        return "\n".join((type(self).__name__, *(f"  {line}" for line in self._lines())))


def _bytes(count: int) -> str:
    """A number of bytes, for people."""
    number, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while number >= 1024 and len(units) > 1:
        number, units = number / 1024, units[1:]
    return f"{number:.0f} {units[0]}" if units[0] == "B" else f"{number:.2f} {units[0]}"


class InspectReport(Report):
    """The report of `inspect`."""

    container: str
    summary: dict[str, Any]
    files: list[str]
    tensor_count: int
    weight_count: int
    stored_bytes: int
    notes: list[str]
    tensors: list[dict[str, Any]]


class HashReport(Report):
    """The report of `hash`."""

    container: str
    tensors: list[dict[str, Any]]


class VerifyReport(Report):
    """The report of `verify`. It is true if nothing was found."""

    tensors: int
    faults: list[str]
    notes: list[str]
    findings: list[dict[str, Any]]
    differences: list[dict[str, Any]]

    def __bool__(self) -> bool:
        return not (self.faults or self.get("findings") or self.get("differences"))

    def _lines(self) -> list[str]:
        others = [*(self.get("findings") or ()), *(self.get("differences") or ())]
        found = [*self.faults, *(str(one) for one in others)]
        return [f"{self.tensors} tensors: {'no faults' if not found else len(found)}", *found]


class DiffReport(Report):
    """The report of `diff`. `is_equal` says whether the models are equal; the report itself is
    neither true nor false, as half the readers would take it for the contrary.

    `relative_rms` is the mean relative RMS of the `matrices` that both models have, weighted by
    their elements; `None` if they have none in common.
    """

    compared: int
    identical: int
    relative_rms: float | None
    matrices: int
    different: list[dict[str, Any]]
    only_a: list[str]
    only_b: list[str]
    unread: list[dict[str, Any]]
    notes: list[str]

    def __init__(self, members: dict[str, Any], equal: bool) -> None:
        super().__init__(members)
        self.is_equal = equal

    def __bool__(self) -> bool:
        raise TypeError("a DiffReport is neither true nor false: use is_equal")

    def _lines(self) -> list[str]:
        said = "equal" if self.is_equal else "different"
        others: dict[str, list[Any]] = {
            "different": self.different, "only in the first": self.only_a,
            "only in the second": self.only_b, "not read": self.unread,
        }
        counts = [f"{len(found)} {what}" for what, found in others.items() if found]
        return [f"{said}: {self.compared} tensors compared", *counts]


class WriteReport(Report):
    """What a verb wrote, or would write with `dry_run`."""

    written: list[str]
    replaced: list[str]
    dry_run: bool
    bytes: int
    seconds: float
    files: list[dict[str, Any]]
    tensors: list[dict[str, Any]]
    notes: list[str]

    def _lines(self) -> list[str]:
        how: dict[str, int] = {}
        for tensor in self.tensors:
            how[tensor["how"]] = how.get(tensor["how"], 0) + 1
        kinds = ", ".join(f"{count} {kind}" for kind, count in how.items())
        verb = "would write" if self.dry_run else "wrote"
        place = self.written[0] if len(self.written) == 1 else f"{len(self.files)} files"
        time = "" if self.dry_run else f" in {self.seconds:.1f} s"
        return [
            f"{verb} {place}: {_bytes(self.bytes)}{time}",
            f"{len(self.tensors)} tensors: {kinds}",
            *self.notes,
        ]


T = TypeVar("T")


def _model(source: Source) -> _native.Model:
    return (source if isinstance(source, Model) else _open(source))._native


def inspect(source: Source) -> InspectReport:
    """Describes a model.

    >>> inspect(SAMPLE).tensor_count
    20
    """
    return InspectReport(json.loads(_native.inspect(_model(source))))


def hash(
    source: Source,
    *,
    values: bool = False,
    save: PathLike | None = None,
    threads: int = 0,
    progress: Progress = None,
) -> HashReport:
    """Computes the SHA-256 of every tensor's stored bytes and, with `values`, of its values. `save` writes
    the list too that `verify(against=)` reads, to a file that does not exist yet."""
    threads, model = count("threads", threads), _model(source)
    with callback(progress) as shown:
        if save is not None:
            text = _native.hash(model, values, True, threads, shown)
            with io.open(save, "x", encoding="utf-8", newline="") as file:
                file.write(text)
        return HashReport(json.loads(_native.hash(model, values, False, threads, shown)))


def verify(
    path: Source,
    *,
    deep: bool = False,
    strictness: Strictness = "default",
    no_map: bool = False,
    all_files: bool = False,
    sha256: str | None = None,
    hub: str | None = None,
    against: PathLike | None = None,
    threads: int = 0,
    progress: Progress = None,
) -> VerifyReport:
    """Checks a model: its format, its completeness, that its files agree; `deep`: its values; `sha256`: the
    digest of its file; `hub`: the files of a repository such as "Qwen/Qwen3-0.6B"; `against`: the
    hashes of its tensors, from a list of `hash(save=)`.

    >>> bool(verify(SAMPLE, deep=True))
    True
    """
    source = path.path if isinstance(path, Model) else path
    threads = count("threads", threads)
    with callback(progress) as shown:
        found = _native.verify(
            source, strictness, no_map, all_files, deep, sha256, hub, against, threads, shown
        )
    return VerifyReport(json.loads(found))


def diff(
    a: Source,
    b: Source,
    *,
    tolerance: float = 0.0,
    filter: str | None = None,
    threads: int = 0,
    progress: Progress = None,
) -> DiffReport:
    """Compares two models by canonical name; their containers may differ. `filter` is a pattern of
    names, `tolerance` the largest difference of equal values."""
    threads = count("threads", threads)
    with callback(progress) as shown:
        equal, found = _native.diff(_model(a), _model(b), tolerance, filter, threads, shown)
    return DiffReport(json.loads(found), equal)


def _container(path: PathLike, to: Container | None) -> tuple[Container, bool]:
    """The container to write, and whether it is one file: `to`, or by the ending of the path."""
    ending = Path(path).suffix.lower().removeprefix(".")
    ending = ending if ending in ("gguf", "safetensors") and not Path(path).is_dir() else ""
    if not (to or ending):
        fault = f"the container of {path} is not known: it does not end in .gguf or .safetensors"
        raise exception("mismatch", fault, advice="name it with to=")
    if to and ending and to not in (ending, "ollama"):
        raise exception("mismatch", f"{path} is the name of a {ending} file, but to is {to}")
    return to or cast(Container, ending), bool(ending)


def convert(
    source: Source,
    path: PathLike,
    *,
    to: Container | None = None,
    dtype: DType | None = None,
    lossless: bool = False,
    max_shard_size: Size | None = None,
    shards: str | None = None,
    fuse: Iterable[str] = (),
    lora: PathLike | Iterable[PathLike | tuple[PathLike, float]] = (),
    extra_keys: bool = True,
    store: PathLike | None = None,
    overwrite: bool = False,
    allow_incomplete: bool = False,
    allow_nonfinite: bool = False,
    dry_run: bool = False,
    threads: int = 0,
    max_memory: Size | None = None,
    progress: Progress = None,
) -> WriteReport:
    """Writes a model in another container: `gguf`, `safetensors`, `mlx` or `ollama`.

    Without `to`, the ending of `path` tells the container. Quantized tensors keep their codes if the
    container has a packing with the same values; `lossless` makes any other change an error.

    - `dtype`: the dtype of all matrices.
    - `max_shard_size`: the most bytes of tensors in one safetensors file, as in `"5GB"`.
    - `shards`, as in `"tp=8"`: write the share of each rank to separate safetensors files; `fuse` joins
      tensors in them: `["qkv", "gate-up"]`.
    - `lora`: an adapter to merge, or a list of adapters, each alone or with a factor.
    - `extra_keys`: whether a GGUF file gets keys for what GGUF has none for.
    - `store`: Ollama's store, for `to="ollama"`.

    - `overwrite`: replace an existing destination once the new one is complete.
    - `allow_incomplete`: write a model that lacks tensors, or that the container's usual reader does not
      load.
    - `allow_nonfinite`: quantize blocks with NaN or infinities; none of their values is kept.
    - `dry_run`: write nothing, and report what would be written.
    - `threads`: 0 means one for each processor. `max_memory`: bytes of buffers, as in `"1GiB"`.

    >>> convert(SAMPLE, "x.safetensors", dry_run=True).dry_run
    True
    """
    container, one_file = _container(path, to or ("safetensors" if shards else None))
    writing = Writing.of(
        overwrite, dry_run, threads, max_memory, allow_incomplete, allow_nonfinite
    )
    with callback(progress) as shown:
        report = _native.convert(
            _model(source), path, container, one_file, _dtype(dtype), lossless,
            size("max_shard_size", max_shard_size), shards, _list("fuse", fuse), _adapters(lora), extra_keys, store, writing, shown,
        )
    return WriteReport(json.loads(report))


def quantize(
    source: Source,
    path: PathLike,
    file_type: str | None = None,
    *,
    imatrix: PathLike | None = None,
    include_weights: Iterable[str] = (),
    exclude_weights: Iterable[str] = (),
    pure: bool = False,
    allow_requantize: bool = False,
    leave_output_tensor: bool = False,
    output_tensor_type: DType | None = None,
    token_embedding_type: DType | None = None,
    tensor_type: Iterable[str] = (),
    prune_layers: Iterable[int] = (),
    keep_split: bool = False,
    override_kv: Iterable[str] = (),
    extra_keys: bool = True,
    mlx: str | None = None,
    group_size: int | None = None,
    bits: int | None = None,
    quant_predicate: str | None = None,
    overwrite: bool = False,
    allow_incomplete: bool = False,
    allow_nonfinite: bool = False,
    dry_run: bool = False,
    threads: int = 0,
    max_memory: Size | None = None,
    progress: Progress = None,
) -> WriteReport:
    """Quantizes a model to a GGUF file as llama-quantize does, by a file type such as `Q4_K_M`, or to
    an MLX directory as mlx-lm does: `mlx` is the mode (`affine`, `mxfp4`), with `group_size`, `bits`
    and `quant_predicate`, a mix such as `mixed_3_6`.

    The other options are those of llama-quantize:

    - `imatrix`: a file with the importance of columns; `include_weights` and `exclude_weights` choose
      among its tensors.
    - `pure`: the same dtype for all matrices. `leave_output_tensor`: do not quantize the output matrix.
    - `allow_requantize`: quantize tensors that are quantized already.
    - `output_tensor_type`, `token_embedding_type`: the dtype of these tensors.
    - `tensor_type`: a list of rules such as `attn_v=q6_k`.
    - `prune_layers`: numbers of layers to remove. `keep_split`: as many files as the source.
    - `override_kv`: a list of settings such as `general.name=str:Mine`.

    - `overwrite`: replace an existing destination once the new one is complete.
    - `allow_incomplete`: write a model that lacks tensors, or that the container's usual reader does not
      load.
    - `allow_nonfinite`: quantize blocks with NaN or infinities; none of their values is kept.
    - `dry_run`: write nothing, and report what would be written.
    - `threads`: 0 means one for each processor. `max_memory`: bytes of buffers, as in `"1GiB"`.

    >>> quantize(SAMPLE, "x.gguf", "Q4_K_M", allow_requantize=True, dry_run=True).written
    []
    """
    writing = Writing.of(
        overwrite, dry_run, threads, max_memory, allow_incomplete, allow_nonfinite
    )
    if file_type is None and mlx is not None:
        with callback(progress) as shown:
            report = _native.quantize_mlx(
                _model(source), path, mlx, group_size, bits, quant_predicate, writing, shown
            )
        return WriteReport(json.loads(report))
    if file_type is None or mlx is not None:
        raise exception("mismatch", "give either a file type or mlx")
    quantization = Quantization(
        file_type, imatrix, _list("include_weights", include_weights),
        _list("exclude_weights", exclude_weights), pure, allow_requantize, leave_output_tensor,
        _dtype(output_tensor_type), _dtype(token_embedding_type), _list("tensor_type", tensor_type),
        _list("prune_layers", prune_layers), keep_split, _list("override_kv", override_kv), extra_keys,
    )
    with callback(progress) as shown:
        report = _native.quantize(_model(source), path, quantization, writing, shown)
    return WriteReport(json.loads(report))


def split(
    source: Source,
    path: PathLike,
    *,
    max_size: Size | None = None,
    max_tensors: int = 128,
    overwrite: bool = False,
    dry_run: bool = False,
    threads: int = 0,
    max_memory: Size | None = None,
    progress: Progress = None,
) -> WriteReport:
    """Writes the tensors unchanged to several files of at most `max_size` bytes or `max_tensors`."""
    writing = Writing.of(overwrite, dry_run, threads, max_memory)
    with callback(progress) as shown:
        report = _native.split(
            _model(source), path, size("max_size", max_size), max_tensors, writing, shown
        )
    return WriteReport(json.loads(report))


def join(
    source: Source,
    path: PathLike,
    *,
    align: int | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    threads: int = 0,
    max_memory: Size | None = None,
    progress: Progress = None,
) -> WriteReport:
    """Writes the tensors unchanged to one file, aligned to `align` bytes."""
    writing = Writing.of(overwrite, dry_run, threads, max_memory)
    with callback(progress) as shown:
        report = _native.merge(_model(source), path, align, writing, shown)
    return WriteReport(json.loads(report))


def create(
    name: str,
    source: Source | None = None,
    *,
    modelfile: PathLike | None = None,
    quantize: str | None = None,
    template: str | None = None,
    system: str | None = None,
    parameters: Mapping[str, object] | None = None,
    license: str | Iterable[str] = (),
    message: Iterable[tuple[str, str]] = (),
    adapter: PathLike | Iterable[PathLike] = (),
    projector: PathLike | Iterable[PathLike] = (),
    draft: PathLike | None = None,
    draft_quantize: str | None = None,
    renderer: str | None = None,
    parser: str | None = None,
    requires: str | None = None,
    store: PathLike | None = None,
    overwrite: bool = False,
    allow_incomplete: bool = False,
    allow_nonfinite: bool = False,
    dry_run: bool = False,
    threads: int = 0,
    max_memory: Size | None = None,
    progress: Progress = None,
) -> WriteReport:
    """Creates a model in Ollama's store, which `store` or the variable OLLAMA_MODELS names.

    The model is `source`, or the one that the Modelfile names. The other options replace what the
    Modelfile says, or add to it: `quantize` is `int4`, `int8`, `nvfp4`, `mxfp4` or `mxfp8`; a value
    of `parameters` may be a list, as for `stop`; a message is a pair of a role and a text.

    >>> create("tales", SAMPLE, system="Tell.", store="/nowhere", dry_run=True).dry_run
    True
    """
    writing = Writing.of(
        overwrite, dry_run, threads, max_memory, allow_incomplete, allow_nonfinite
    )
    creation = Creation(
        modelfile, quantize, template, system,
        [(key, str(one)) for key, value in (parameters or {}).items() for one in _several(value)],
        list(_several(license)), list(message), [*_several(adapter), *_several(projector)],
        draft, draft_quantize, renderer, parser, requires, store,
    )
    model = None if source is None else _model(source)
    with callback(progress) as shown:
        report = _native.create(model, name, creation, writing, shown)
    return WriteReport(json.loads(report))


def _adapters(
    given: PathLike | Iterable[PathLike | tuple[PathLike, float]],
) -> list[tuple[PathLike, float]]:
    """Adapters, each with its factor, which is 1 where none is given."""
    if isinstance(given, (str, os.PathLike)):
        return [(given, 1.0)]
    return [one if isinstance(one, tuple) else (one, 1.0) for one in given]


def _dtype(given: DType | None) -> str | None:
    return None if given is None else parse(given)


def _list(name: str, given: Iterable[T]) -> list[T]:
    """The members of an option that takes several. A string would be taken apart into letters."""
    if isinstance(given, (str, bytes)):
        fault = f"{name} is the string {given!r}, not a list"
        raise exception("mismatch", fault, advice=f"write {name}=[{given!r}]")
    return list(given)


def _several(given: Any) -> Iterable[Any]:
    """The members of a list or another collection; anything else is one member."""
    return given if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
