"""Merging several models into one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Union

from . import _native
from ._dtypes import NAMES, Float, parse_float
from ._errors import exception
from ._model import Model
from ._model import open as _open
from ._progress import Progress, callback
from ._sizes import Size
from ._verbs import Container, Source, WriteReport, Writing, convert, join, quantize

__all__ = ["extract_lora", "merge", "merged"]

Method = Literal[
    "linear", "task", "task_arithmetic", "ties", "dare_linear", "dare_ties", "slerp", "passthrough"
]
"""How the values of several models become one."""

Setting = Union[float, list[float], list[dict[str, Any]]]
"""A number, numbers from the first layer to the last one, or rules."""

Weighted = Union[Source, tuple[Source, Setting]]
"""A model, alone or with its weight."""


def merged(
    models: Source | Iterable[Weighted],
    *,
    method: Method = "linear",
    base: Source | None = None,
    dtype: Float | None = None,
    **settings: Setting,
) -> Model:
    """The model that is merged from others, tensor by tensor, as if its files existed. Nothing is computed
    until a tensor is read. Its container is safetensors, whatever the models are in.

    `models` is a list of models with their weights, or the path of a recipe of mergekit's (`.yml`).

    - `linear`: the mean by weights; with `normalize=False`, the sum.
    - `task`: `base`, and the weighted differences from it, times `lambda_`.
    - `ties`: likewise, of the largest `density` of each difference, those with the sign of the sum.
    - `dare_linear`, `dare_ties`: like `task` and `ties`, of a random share `density` of each difference,
      divided by `density` unless `rescale=False`. The same call draws the same.
    - `slerp`: the point at `t` on the arc from `base` to the only other model.

    A setting is a number, a list of numbers from the first layer to the last one, or a list of rules
    `{"filter": "mlp", "value": 0.5}`; a rule without `filter` applies to all other tensors.

    >>> half = merged([(SAMPLE, 0.5), (SAMPLE, 0.5)])
    >>> half["output_norm.weight"].shape
    (256,)
    """
    if isinstance(models, (str, Path)):
        given: dict[str, Model] = {}
        recipe = Path(models).read_text()
        if settings or base is not None or dtype is not None:
            raise exception("mismatch", "a recipe has its settings; give none besides it")
    else:
        recipe, given = _recipe(models, method, base, dtype, settings)
    return _merged(recipe, list(given.items()))


def _merged(recipe: str, given: list[tuple[str, Model]]) -> Model:
    natives = [(name, model._native) for name, model in given]
    return Model(_native.merge_models(recipe, natives), (_merged, (recipe, given)))


def _recipe(
    models: Source | Iterable[Weighted],
    method: Method,
    base: Source | None,
    dtype: Float | None,
    settings: dict[str, Setting],
) -> tuple[str, dict[str, Model]]:
    """The recipe in mergekit's form, and the models that it names."""
    if isinstance(models, Model) or not isinstance(models, Iterable):
        raise exception("mismatch", "give a list of models, or the path of a recipe")
    given: dict[str, Model] = {}

    def named(source: Source) -> str:
        model = source if isinstance(source, Model) else _open(source)
        name = f"model {len(given)}"
        given[name] = model
        return name

    listed: list[dict[str, Any]] = []
    for one in models:
        if isinstance(one, tuple):
            listed.append({"model": named(one[0]), "parameters": {"weight": one[1]}})
        else:
            listed.append({"model": named(one)})
    document: dict[str, Any] = {"merge_method": method, "models": listed}
    if base is not None:
        document["base_model"] = named(base)
    if dtype is not None:
        document["dtype"] = NAMES[parse_float(dtype)]
    if settings:
        document["parameters"] = {name.rstrip("_"): value for name, value in settings.items()}
    return json.dumps(document), given


def merge(
    models: Source | Sequence[Weighted],
    path: str | Path,
    *,
    method: Method = "linear",
    base: Source | None = None,
    dtype: Float | None = None,
    to: Container | None = None,
    file_type: str | None = None,
    max_shard_size: Size | None = None,
    align: int | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    threads: int = 0,
    max_memory: Size | None = None,
    progress: Progress = None,
    **settings: Setting,
) -> WriteReport:
    """Merges several models into one (see `merged`), and writes it: in the container `to`, or quantized to
    a `file_type` such as `Q4_K_M`. Each tensor is computed when its turn comes.

    With one model instead of a list, joins its files into one, as `join` does.

    >>> report = merge([(SAMPLE, 0.6), (SAMPLE, 0.4)], "x.gguf", dtype="float16", dry_run=True)
    >>> len(report.tensors)
    20
    """
    writing: dict[str, Any] = {
        "overwrite": overwrite, "dry_run": dry_run, "threads": threads, "max_memory": max_memory,
        "progress": progress,
    }
    is_recipe = isinstance(models, (str, Path)) and Path(models).suffix in (".yml", ".yaml")
    if isinstance(models, Model) or (isinstance(models, (str, Path)) and not is_recipe):
        return join(models, path, align=align, **writing)
    model = merged(models, method=method, base=base, dtype=dtype, **settings)
    if file_type is not None:
        return quantize(model, path, file_type, **writing)
    return convert(model, path, to=to, max_shard_size=max_shard_size, **writing)


def extract_lora(
    base: Source,
    tuned: Source,
    path: str | Path,
    *,
    rank: int = 16,
    overwrite: bool = False,
    dry_run: bool = False,
    threads: int = 0,
    max_memory: Size | None = None,
    progress: Progress = None,
) -> WriteReport:
    """Writes a LoRA adapter, a directory of PEFT, that makes the model `tuned` of `base`: for each matrix
    that differs, the two matrices of this rank whose product is nearest to the difference. Norms that
    differ are stored as a whole.

    The report's `kept` has the share of each matrix's change that they hold, in squares.

    >>> tuned = merged([(SAMPLE, 1.5)], normalize=False)
    >>> report = extract_lora(SAMPLE, tuned, "adapter", rank=4)
    >>> min(report.kept.values()) < 1.0
    True
    """
    if rank < 1:
        raise exception("mismatch", f"the rank is {rank}, but it must be above 0")
    one, other = ((of if isinstance(of, Model) else _open(of))._native for of in (base, tuned))
    writing = Writing.of(overwrite, dry_run, threads, max_memory)
    with callback(progress) as shown:
        report, kept = _native.extract_lora(one, other, path, rank, writing, shown)
    return WriteReport({**json.loads(report), "kept": dict(kept)})
