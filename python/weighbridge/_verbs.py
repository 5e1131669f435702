"""Verbs on whole models, each with a report."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, cast

from . import _native
from ._dtypes import DType
from ._errors import exception, of_system
from ._model import Model, PathLike, Strictness
from ._model import open as _open
from ._options import (
    CheckedOptions, Option, WriteOptions, check_used, dtype, flag, native, no_effect, several, takes,
)
from ._progress import Progress, callback
from ._sizes import Size, count, size

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "DiffReport", "HashReport", "InspectReport", "Report", "VerifyReport", "WriteReport",
    "convert", "create", "diff", "hash", "inspect", "join", "quantize", "split", "verify",
]

Source = Union[PathLike, Model]
"""A model, or its path."""

Container = Literal["gguf", "safetensors", "mlx", "ollama"]
"""A container that can be written."""


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


def _tensors(count: int) -> str:
    return "1 tensor" if count == 1 else f"{count} tensors"


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
    run: dict[str, Any]
    """The tokens, the perplexity and the faults of `run=True`."""

    def __bool__(self) -> bool:
        return not self._found()

    def _found(self) -> list[str]:
        others = [*(self.get("findings") or ()), *(self.get("differences") or ())]
        ran = self.get("run") or {"faults": []}
        return [*self.faults, *ran["faults"], *(str(one) for one in others)]

    def _lines(self) -> list[str]:
        found = self._found()
        return [f"{_tensors(self.tensors)}: {'no faults' if not found else len(found)}", *found]


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
    config: list[dict[str, Any]]
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
            "only in the second": self.only_b, "values of the config": self.config,
            "not read": self.unread,
        }
        counts = [f"{len(found)} {what}" for what, found in others.items() if found]
        return [f"{said}: {_tensors(self.compared)} compared", *counts]


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
        count = len(self.files)
        place = self.written[0] if len(self.written) == 1 else "1 file" if count == 1 else f"{count} files"
        time = "" if self.dry_run else f" in {self.seconds:.1f} s"
        return [
            f"{verb} {place}: {_bytes(self.bytes)}{time}",
            _tensors(len(self.tensors)) + (f": {kinds}" if kinds else ""),
            *self.notes,
        ]


def _model(source: Source) -> _native.Model:
    return _opened(source)._native


def inspect(source: Source) -> InspectReport:
    """Describes a model.

    >>> wb.inspect("model.gguf").tensor_count
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
            with of_system(save), io.open(save, "x", encoding="utf-8", newline="") as file:
                file.write(text)
        return HashReport(json.loads(_native.hash(model, values, False, threads, shown)))


def verify(
    source: Source,
    *,
    deep: bool = False,
    strictness: Strictness = "default",
    no_map: bool = False,
    all_files: bool = False,
    sha256: str | None = None,
    hub: str | None = None,
    against: PathLike | None = None,
    save: PathLike | None = None,
    run: bool = False,
    threads: int = 0,
    progress: Progress = None,
) -> VerifyReport:
    """Checks a model: its format, its completeness, and that its files agree.

    - `deep`: check its values too.
    - `sha256`: the digest of its file.
    - `hub`: compare its files with those of a repository such as "Qwen/Qwen3-0.6B".
    - `against`: compare the hashes of its tensors with a list that `hash(save=)` wrote.
    - `save`: write such a list.
    - `run`: run the reference decoder on a short text, unless there are faults.
    - `strictness`: with `strict`, what the container's usual reader refuses is a fault. The other values,
      `no_map` and `all_files` are those of `open`, and an error for an opened model.

    >>> bool(wb.verify("model.gguf", deep=True))
    True
    """
    is_strict = strictness == "strict"
    if isinstance(source, Model):
        opening = {"no_map": no_map, "all_files": all_files, "strictness": strictness == "lenient"}
        for name in (name for name, given in opening.items() if given):
            raise no_effect(name, "for a model that is open", "give it to open()")
        model = source
    else:
        opened: Strictness = "default" if is_strict else strictness
        model = _open(source, strictness=opened, no_map=no_map, all_files=all_files)
    threads = count("threads", threads)
    if save is not None:
        hash(model, save=save, threads=threads, progress=progress)
    with callback(progress) as shown:
        found = _native.verify(
            model._native, is_strict, deep, sha256, hub, against, run, threads, shown
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
    if not tolerance >= 0:
        raise exception("mismatch", f"tolerance is {tolerance!r}, not a number from 0")
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
        raise exception("mismatch", f"{path} is the name of a {ending} file, but {to} is written")
    return to or cast(Container, ending), bool(ending)


def check_directory(path: PathLike, what: str) -> None:
    """Refuses the name of a file for a directory."""
    if Path(path).suffix.lower() in (".gguf", ".safetensors") and not Path(path).is_dir():
        raise exception("mismatch", f"{path} is the name of a file, but {what} is a directory")


def encoding(model: Model) -> Container:
    """The container of files with the tensors of a model as they are."""
    is_gguf = model.container == "gguf" or "general.architecture" in model.metadata
    return "gguf" if is_gguf else "safetensors"


def _opened(source: Source) -> Model:
    return source if isinstance(source, Model) else _open(source)


def written(verb: Callable[..., str], options: Any, *arguments: Any) -> WriteReport:
    """Calls a native verb that writes, and returns its report."""
    with callback(options["progress"]) as shown:
        try:
            found = verb(*arguments, native(options), shown)
        except TypeError as error:
            # A member of a list has another type. The native module names the field.
            name = str(error).rpartition(".")[2]
            if name not in options:
                raise
            fault = f"{name} is {options[name]!r}: {error.__cause__}"
            raise exception("mismatch", fault) from None
        return WriteReport(json.loads(found))


def _adapters(_: str, given: Any) -> list[tuple[PathLike, float]]:
    """Adapters, each with its factor, which is 1 where none is given."""
    if isinstance(given, (str, os.PathLike)):
        return [(given, 1.0)]
    return [one if isinstance(one, tuple) else (one, 1.0) for one in given]


def _members(_: str, given: Any) -> list[Any]:
    """The members of a list or another collection; anything else is one member."""
    is_many = isinstance(given, Iterable) and not isinstance(given, (str, os.PathLike))
    return list(given) if is_many else [given]


def _pairs(name: str, given: Mapping[str, object] | None) -> list[tuple[str, str]]:
    if not isinstance(given, (Mapping, type(None))):
        raise exception("mismatch", f"{name} is {given!r}, not a mapping")
    return [(key, str(one)) for key, value in (given or {}).items() for one in _members(key, value)]


Adapters = Union[PathLike, Iterable[Union[PathLike, tuple[PathLike, float]]]]


class SourceOptions(CheckedOptions, total=False):
    """What is changed in a model before it is converted or quantized."""

    lora: Annotated[Adapters, Option((), "an adapter to merge, or a list of adapters, each alone or with a factor", _adapters)]
    leave_out: Annotated[Iterable[str], Option((), "patterns of names of unknown tensors that are left out", several)]
    extra_keys: Annotated[bool, Option(True, "whether the file gets keys for what GGUF has none for", flag, ["gguf"])]


class ConvertOptions(SourceOptions, total=False):
    """Options of `convert`."""

    to: Annotated[Container | None, Option(None, "the container; without it, the ending of `path` tells it")]
    dtype: Annotated[DType | None, Option(None, "the dtype of the weights", dtype)]
    dequantize: Annotated[bool, Option(False, "decode quantized tensors: those of MLX to the dtype of their scales, MXFP4 to BF16, FP8 to BF16 if config.json states it, others to F16", flag)]
    requantize_merged: Annotated[bool, Option(False, "with `lora`, quantize the merged matrices as they were, as mlx_lm.fuse does", flag, ["mlx"])]
    mmproj: Annotated[bool, Option(False, "write the vision model, which llama.cpp reads from a separate GGUF file", flag, ["gguf"])]
    lossless: Annotated[bool, Option(False, "make any change of values an error", flag)]
    max_shard_size: Annotated[Size | None, Option(None, "the most bytes of tensors in one file, as in \"5GB\"", size)]
    shards: Annotated[str | None, Option(None, "as in \"tp=8\": write the share of each rank to separate files", only=["safetensors"])]
    fuse: Annotated[Iterable[str], Option((), "join tensors in these files: [\"qkv\", \"gate-up\"]", several)]
    store: Annotated[PathLike | None, Option(None, "the store; else the variable OLLAMA_MODELS names it", only=["ollama"])]


@takes(ConvertOptions)
def convert(source: Source, path: PathLike, **options: Unpack[ConvertOptions]) -> WriteReport:
    """Converts a model to another container: `gguf`, `safetensors`, `mlx` or `ollama`. Quantized tensors keep
    their codes if the container has a packing with the same values.

    >>> wb.convert("model.gguf", "x.safetensors", dry_run=True).dry_run
    True
    """
    sharded: Container | None = "safetensors" if options["shards"] else None
    container, one_file = _container(path, options["to"] or sharded)
    check_used(ConvertOptions, options, container)
    if options["max_shard_size"] is not None and (container == "ollama" or one_file and container == "safetensors"):
        what = "a model in a store" if container == "ollama" else "one file"
        raise no_effect("max_shard_size", f"for {what}", "name a directory with to=\"safetensors\"")
    return written(_native.convert, options, _model(source), path, container, one_file)


class QuantizeOptions(SourceOptions, total=False):
    """Options of `quantize`: those of llama-quantize, and of mlx-lm's `convert`."""

    imatrix: Annotated[PathLike | None, Option(None, "a file with the importance of columns", only=["gguf"])]
    include_weights: Annotated[Iterable[str], Option((), "use only its tensors with one of these in their names", several, ["gguf"])]
    exclude_weights: Annotated[Iterable[str], Option((), "do not use its tensors with one of these in their names", several, ["gguf"])]
    pure: Annotated[bool, Option(False, "the same dtype for all matrices", flag, ["gguf"])]
    allow_requantize: Annotated[bool, Option(False, "quantize tensors that are quantized already", flag, ["gguf"])]
    leave_output_tensor: Annotated[bool, Option(False, "do not quantize the output matrix", flag, ["gguf"])]
    output_tensor_type: Annotated[DType | None, Option(None, "the dtype of the output matrix", dtype, ["gguf"])]
    token_embedding_type: Annotated[DType | None, Option(None, "the dtype of the embedding", dtype, ["gguf"])]
    tensor_type: Annotated[Iterable[str], Option((), "rules such as \"attn_v=q6_k\"", several, ["gguf"])]
    prune_layers: Annotated[Iterable[int], Option((), "numbers of layers to remove", several, ["gguf"])]
    keep_split: Annotated[bool, Option(False, "as many files as the source", flag, ["gguf"])]
    override_kv: Annotated[Iterable[str], Option((), "settings such as \"general.name=str:Mine\"", several, ["gguf"])]
    mlx: Annotated[str | None, Option(None, "the mode of an MLX directory, instead of a file type: \"affine\", \"mxfp4\"")]
    group_size: Annotated[int | None, Option(None, "values in a group of MLX", only=["mlx"])]
    bits: Annotated[int | None, Option(None, "bits of a value of MLX", only=["mlx"])]
    quant_predicate: Annotated[str | None, Option(None, "a mix of mlx-lm's, such as \"mixed_3_6\"", only=["mlx"])]


@takes(QuantizeOptions)
def quantize(
    source: Source,
    path: PathLike,
    file_type: str | None = None,
    **options: Unpack[QuantizeOptions],
) -> WriteReport:
    """Quantizes a model to a GGUF file as llama-quantize does, by a file type such as `Q4_K_M`, or to
    an MLX directory as mlx-lm does, by `mlx`.

    >>> wb.quantize("model.gguf", "x.gguf", "Q4_K_M", allow_requantize=True, dry_run=True).written
    []
    """
    if (file_type is None) == (options["mlx"] is None):
        raise exception("mismatch", "give either a file type or mlx")
    container: Container = "mlx" if file_type is None else "gguf"
    _container(path, container)
    check_used(QuantizeOptions, options, container)
    for name in ("include_weights", "exclude_weights"):
        if options[name] and options["imatrix"] is None:
            raise no_effect(name, "without imatrix")
    return written(_native.quantize, options, _model(source), path, file_type)


class SplitOptions(WriteOptions, total=False):
    """Options of `split`."""

    max_size: Annotated[Size | None, Option(None, "the most bytes of tensors in a file, as in \"5GB\"", size)]
    max_tensors: Annotated[int, Option(128, "the most tensors in a file, without `max_size`", count)]


@takes(SplitOptions)
def split(source: Source, path: PathLike, **options: Unpack[SplitOptions]) -> WriteReport:
    """Writes the tensors unchanged to several files."""
    if options["max_size"] is not None and options["max_tensors"] != 128:
        raise no_effect("max_tensors", "with max_size")
    model = _opened(source)
    _container(path, encoding(model))
    return written(_native.split, options, model._native, path)


class JoinOptions(WriteOptions, total=False):
    """Options of `join`."""

    align: Annotated[int | None, Option(None, "align tensors to so many bytes")]


@takes(JoinOptions)
def join(source: Source, path: PathLike, **options: Unpack[JoinOptions]) -> WriteReport:
    """Writes the tensors unchanged to one file of the same container."""
    model = _opened(source)
    _container(path, encoding(model))
    return written(_native.merge, options, model._native, path)


class CreateOptions(CheckedOptions, total=False):
    """Options of `create`. They replace what the Modelfile says, or add to it."""

    modelfile: Annotated[PathLike | None, Option(None, "a Modelfile")]
    quantize: Annotated[str | None, Option(None, "`int4`, `int8`, `nvfp4`, `mxfp4`, `mxfp8`, or a type of llama-quantize, which makes one blob")]
    template: Annotated[str | None, Option(None, "the template of a prompt")]
    system: Annotated[str | None, Option(None, "the system message")]
    parameters: Annotated[Mapping[str, object] | None, Option(None, "parameters; a value may be a list, as for `stop`", _pairs)]
    license: Annotated[str | Iterable[str], Option((), "texts of licenses", _members)]
    message: Annotated[Iterable[tuple[str, str]], Option((), "messages, each a role and a text", several)]
    adapter: Annotated[PathLike | Iterable[PathLike], Option((), "files of adapters", _members)]
    projector: Annotated[PathLike | Iterable[PathLike], Option((), "files of projectors", _members)]
    draft: Annotated[PathLike | None, Option(None, "a draft model")]
    draft_quantize: Annotated[str | None, Option(None, "the quantization of the draft model")]
    renderer: Annotated[str | None, Option(None, "the renderer of prompts")]
    parser: Annotated[str | None, Option(None, "the parser of answers")]
    requires: Annotated[str | None, Option(None, "the oldest version of Ollama")]
    store: Annotated[PathLike | None, Option(None, "the store; else the variable OLLAMA_MODELS names it")]


@takes(CreateOptions)
def create(
    name: str, source: Source | None = None, **options: Unpack[CreateOptions]
) -> WriteReport:
    """Creates a model in Ollama's store. The model is `source`, or the one that the Modelfile names.

    >>> wb.create("tales", "model.gguf", system="Tell.", store="/nowhere", dry_run=True).dry_run
    True
    """
    model = None if source is None else _model(source)
    if options["draft_quantize"] is not None and options["draft"] is options["modelfile"] is None:
        raise no_effect("draft_quantize", "without a draft model")
    return written(_native.create, options, model, name)
