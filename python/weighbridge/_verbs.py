"""Verbs on whole models, each with a report."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, Union

from . import _native
from ._errors import exception
from ._model import Model
from ._model import open as _open
from ._progress import Progress, callback

__all__ = [
    "DiffReport", "HashReport", "InspectReport", "Report", "VerifyReport", "WriteReport",
    "convert", "create", "diff", "hash", "inspect", "merge", "quantize", "split", "verify",
]

Source = Union[str, Path, Model]
"""A model, or its path."""


@dataclass(frozen=True)
class Writing:
    """How a model is written."""

    overwrite: bool
    allow_incomplete: bool
    allow_nonfinite: bool
    dry_run: bool
    threads: int
    max_memory: int | None


@dataclass(frozen=True)
class Quantization:
    """What a GGUF file is quantized to."""

    file_type: str
    imatrix: str | Path | None
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

    modelfile: str | Path | None
    quantize: str | None
    template: str | None
    system: str | None
    parameters: list[tuple[str, str]]
    licenses: list[str]
    messages: list[tuple[str, str]]
    files: list[str | Path]
    draft: str | Path | None
    draft_quantize: str | None
    renderer: str | None
    parser: str | None
    requires: str | None
    store: str | Path | None


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

    def __iter__(self) -> Any:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._members)})"


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

    def __bool__(self) -> bool:
        return not (self.faults or self.get("findings"))


class DiffReport(Report):
    """The report of `diff`. It is true if the models are equal.

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
        return self.is_equal


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


R = TypeVar("R", bound=Report)
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
    source: Source, *, values: bool = False, threads: int = 0, progress: Progress = None
) -> HashReport:
    """Computes the SHA-256 of every tensor's stored bytes and, with `values`, of its values."""
    with callback(progress) as shown:
        return HashReport(json.loads(_native.hash(_model(source), values, threads, shown)))


def verify(
    path: str | Path,
    *,
    deep: bool = False,
    strictness: str = "default",
    no_map: bool = False,
    all_files: bool = False,
    threads: int = 0,
    progress: Progress = None,
) -> VerifyReport:
    """Checks a model: its format, its completeness, that its files agree; `deep`: its values.

    >>> bool(verify(SAMPLE, deep=True))
    True
    """
    with callback(progress) as shown:
        found = _native.verify(path, strictness, no_map, all_files, deep, threads, shown)
    return VerifyReport(json.loads(found))


def diff(
    a: Source,
    b: Source,
    *,
    tolerance: float = 0.0,
    threads: int = 0,
    progress: Progress = None,
) -> DiffReport:
    """Compares two models by canonical name; their containers may differ."""
    with callback(progress) as shown:
        equal, found = _native.diff(_model(a), _model(b), tolerance, threads, shown)
    return DiffReport(json.loads(found), equal)


def _container(path: str | Path, to: str | None) -> tuple[str, bool]:
    """The container to write, and whether it is one file: `to`, or by the ending of the path."""
    ending = Path(path).suffix.lower().removeprefix(".")
    ending = ending if ending in ("gguf", "safetensors") and not Path(path).is_dir() else ""
    if not (to or ending):
        fault = f"the container of {path} is not known: it does not end in .gguf or .safetensors"
        raise exception("mismatch", fault, advice="name it with to=")
    if to and ending and to not in (ending, "ollama"):
        raise exception("mismatch", f"{path} is the name of a {ending} file, but to is {to}")
    return to or ending, bool(ending)


def convert(
    source: Source,
    path: str | Path,
    *,
    to: str | None = None,
    dtype: str | None = None,
    lossless: bool = False,
    max_shard_size: int | None = None,
    shards: str | None = None,
    fuse: Iterable[str] = (),
    lora: str | Path | Iterable[tuple[str | Path, float]] = (),
    extra_keys: bool = True,
    store: str | Path | None = None,
    overwrite: bool = False,
    allow_incomplete: bool = False,
    allow_nonfinite: bool = False,
    dry_run: bool = False,
    threads: int = 0,
    max_memory: int | None = None,
    progress: Progress = None,
) -> WriteReport:
    """Writes a model in another container: `gguf`, `safetensors`, `mlx` or `ollama`.

    Without `to`, the ending of `path` tells the container. Quantized tensors keep their codes if the
    container has a packing with the same values; `lossless` makes any other change an error.

    `shards`, as in `tp=8`, writes the share of each rank to safetensors files of its own, and `fuse` joins
    tensors in them: `qkv`, `gate-up`.

    >>> convert(SAMPLE, "x.safetensors", dry_run=True).dry_run
    True
    """
    container, one_file = _container(path, to or ("safetensors" if shards else None))
    writing = Writing(overwrite, allow_incomplete, allow_nonfinite, dry_run, threads, max_memory)
    adapters = [(lora, 1.0)] if isinstance(lora, (str, Path)) else list(lora)
    with callback(progress) as shown:
        report = _native.convert(
            _model(source), path, container, one_file, dtype, lossless, max_shard_size,
            shards, _list("fuse", fuse), adapters, extra_keys, store, writing, shown,
        )
    return WriteReport(json.loads(report))


def quantize(
    source: Source,
    path: str | Path,
    file_type: str | None = None,
    *,
    imatrix: str | Path | None = None,
    include_weights: Iterable[str] = (),
    exclude_weights: Iterable[str] = (),
    pure: bool = False,
    allow_requantize: bool = False,
    leave_output_tensor: bool = False,
    output_tensor_type: str | None = None,
    token_embedding_type: str | None = None,
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
    max_memory: int | None = None,
    progress: Progress = None,
) -> WriteReport:
    """Quantizes a model to a GGUF file as llama-quantize does, by a file type such as `Q4_K_M`, or to
    an MLX directory as mlx-lm does: `mlx` is the mode (`affine`, `mxfp4`), with `group_size`, `bits`
    and `quant_predicate`, a mix such as `mixed_3_6`.

    The other options are those of llama-quantize: `tensor_type` has rules such as `attn_v=q6_k`,
    `override_kv` has settings such as `general.name=str:Mine`.

    >>> quantize(SAMPLE, "x.gguf", "Q4_K_M", allow_requantize=True, dry_run=True).written
    []
    """
    writing = Writing(overwrite, allow_incomplete, allow_nonfinite, dry_run, threads, max_memory)
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
        output_tensor_type, token_embedding_type, _list("tensor_type", tensor_type),
        _list("prune_layers", prune_layers), keep_split, _list("override_kv", override_kv), extra_keys,
    )
    with callback(progress) as shown:
        report = _native.quantize(_model(source), path, quantization, writing, shown)
    return WriteReport(json.loads(report))


def split(
    source: Source,
    path: str | Path,
    *,
    max_size: int | None = None,
    max_tensors: int = 128,
    overwrite: bool = False,
    dry_run: bool = False,
    threads: int = 0,
    max_memory: int | None = None,
    progress: Progress = None,
) -> WriteReport:
    """Writes the tensors unchanged to several files of at most `max_size` bytes or `max_tensors`."""
    writing = Writing(overwrite, False, False, dry_run, threads, max_memory)
    with callback(progress) as shown:
        report = _native.split(_model(source), path, max_size, max_tensors, writing, shown)
    return WriteReport(json.loads(report))


def merge(
    source: Source,
    path: str | Path,
    *,
    align: int | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    threads: int = 0,
    max_memory: int | None = None,
    progress: Progress = None,
) -> WriteReport:
    """Writes the tensors unchanged to one file, aligned to `align` bytes."""
    writing = Writing(overwrite, False, False, dry_run, threads, max_memory)
    with callback(progress) as shown:
        report = _native.merge(_model(source), path, align, writing, shown)
    return WriteReport(json.loads(report))


def create(
    name: str,
    source: Source | None = None,
    *,
    modelfile: str | Path | None = None,
    quantize: str | None = None,
    template: str | None = None,
    system: str | None = None,
    parameters: Mapping[str, object] | None = None,
    license: str | Iterable[str] = (),
    message: Iterable[tuple[str, str]] = (),
    adapter: str | Path | Iterable[str | Path] = (),
    projector: str | Path | Iterable[str | Path] = (),
    draft: str | Path | None = None,
    draft_quantize: str | None = None,
    renderer: str | None = None,
    parser: str | None = None,
    requires: str | None = None,
    store: str | Path | None = None,
    overwrite: bool = False,
    allow_incomplete: bool = False,
    allow_nonfinite: bool = False,
    dry_run: bool = False,
    threads: int = 0,
    max_memory: int | None = None,
    progress: Progress = None,
) -> WriteReport:
    """Creates a model in Ollama's store, which `store` or the variable OLLAMA_MODELS names.

    The model is `source`, or the one that the Modelfile names. The other options replace what the
    Modelfile says, or add to it: `quantize` is `int4`, `int8`, `nvfp4`, `mxfp4` or `mxfp8`; a value
    of `parameters` may be a list, as for `stop`; a message is a pair of a role and a text.

    >>> create("tales", SAMPLE, system="Tell.", store="/nowhere", dry_run=True).dry_run
    True
    """
    writing = Writing(overwrite, allow_incomplete, allow_nonfinite, dry_run, threads, max_memory)
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


def _list(name: str, given: Iterable[T]) -> list[T]:
    """The members of an option that takes several. A string would be taken apart into letters."""
    if isinstance(given, (str, bytes)):
        fault = f"{name} is the string {given!r}, not a list"
        raise exception("mismatch", fault, advice=f"write {name}=[{given!r}]")
    return list(given)


def _several(given: Any) -> Iterable[Any]:
    """The members of a list or another collection; anything else is one member."""
    return given if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
