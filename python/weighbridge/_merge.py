"""Merging several models into one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, Union

from . import _native
from ._dtypes import NAMES, Float, parse_float
from ._errors import exception, of_system
from ._model import Model
from ._model import open as _open
from ._options import CheckedOptions, Option, WriteOptions, check_used, native, no_effect, read, takes
from ._progress import callback
from ._sizes import Size, size
from ._verbs import Container, Source, WriteReport, check_directory, convert, join, quantize

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["extract_lora", "merge", "merged"]

Method = Literal[
    "linear", "task", "task_arithmetic", "ties", "dare_linear", "dare_ties", "slerp", "passthrough"
]
"""How the values of several models become one."""

Setting = Union[float, Sequence[Union[float, Mapping[str, Any]]]]
"""A number, numbers from the first layer to the last one, or rules."""

Weighted = Union[Source, tuple[Source, Setting]]
"""A model, alone or with its weight."""

Models = Union[Source, Mapping[Source, Setting], Iterable[Weighted]]
"""The models to merge, or a recipe."""


_DROPPING = ("ties", "dare_linear", "dare_ties")
_DIFFERENCES = ("task", "task_arithmetic", *_DROPPING)
_WEIGHTED = ("linear", *_DIFFERENCES)


class MergeSettings(TypedDict, total=False):
    """How models are merged."""

    method: Annotated[Method | None, Option(None, "the method; `linear` without it")]
    base: Annotated[Source | None, Option(None, "the model that differences are taken from")]
    dtype: Annotated[Float | None, Option(None, "the dtype of the result; else that of the base or of the first model")]
    tokenizer: Annotated[str | Mapping[str, Any] | None, Option(None, "the vocabulary of the result, as in a recipe")]
    weight: Annotated[Setting | None, Option(None, "the weight of models that have none", only=_WEIGHTED)]
    density: Annotated[Setting | None, Option(None, "the share of a difference that is kept", only=_DROPPING)]
    normalize: Annotated[Setting | None, Option(None, "whether weights are divided by their sum", only=_WEIGHTED)]
    rescale: Annotated[Setting | None, Option(None, "whether what is left of a difference gets the sum of magnitudes of the whole", only=_DROPPING)]
    lambda_: Annotated[Setting | None, Option(None, "a factor of the merged difference", only=_DIFFERENCES)]
    t: Annotated[Setting | None, Option(None, "the place between two models, from 0 to 1", only=["slerp"])]
    scale: Annotated[Setting | None, Option(None, "a factor of a tensor that is passed through", only=["passthrough"])]


@takes(MergeSettings)
def merged(models: Models, **settings: Unpack[MergeSettings]) -> Model:
    """The model that is merged from others, tensor by tensor, as if its files existed. Nothing is computed
    until a tensor is read. Its container is safetensors, whatever the models are in.

    `models` is a list of models with their weights, a dict of them, or the path of a recipe of mergekit's
    (`.yml`).

    - `linear`: the mean by weights; with `normalize=False`, the sum.
    - `task`: `base`, and the weighted differences from it, times `lambda_`.
    - `ties`: likewise, of the largest `density` of each difference, those with the sign of the sum.
    - `dare_linear`, `dare_ties`: like `task` and `ties`, of a random share `density` of each difference,
      scaled to the sum of magnitudes of the whole unless `rescale=False`. The same call draws the same.
    - `slerp`: the point at `t` on the arc from `base` to the only other model.

    A setting is a number, a list of numbers from the first layer to the last one, or a list of rules
    `{"filter": "mlp", "value": 0.5}`; a rule without `filter` applies to all other tensors.

    `tokenizer` is `"union"`, `"base"`, a model of the list, or what mergekit's files have under this key:
    `{"source": "base", "tokens": {"<new>": {"source": {"kind": "mean"}}}, "pad_to_multiple_of": 64}`. The
    row of a token is that of another one (`model_token`), `zero`, `mean` or `random`; tokens in the list
    `remove` are removed.

    >>> half = wb.merged([("model.gguf", 0.5), ("model.gguf", 0.5)])
    >>> half["output_norm.weight"].shape
    (256,)
    """
    if isinstance(models, (str, Path)):
        for name in (name for name, value in settings.items() if value is not None):
            raise no_effect(name, "beside a recipe", "write it into the recipe")
        with of_system(models):
            text = Path(models).read_text()
        return _merged(text, [])
    recipe, given = _recipe(models, dict(settings))
    return _merged(recipe, list(given.items()))


def _merged(recipe: str, given: list[tuple[str, Model]]) -> Model:
    natives = [(name, model._native) for name, model in given]
    return Model(_native.merge_models(recipe, natives), (_merged, (recipe, given)))


def _recipe(
    models: Models, settings: dict[str, Any]
) -> tuple[str, dict[str, Model]]:
    """The recipe in mergekit's form, and the models that it names."""
    if isinstance(models, Model) or not isinstance(models, Iterable):
        raise exception("mismatch", "give a list of models, or the path of a recipe")
    given: dict[str, Model] = {}
    names: dict[Any, str] = {}

    def key(source: Any) -> Any:
        return source if isinstance(source, Model) else str(source)

    def named(source: Source) -> str:
        name = f"model {len(given)}"
        given[name] = source if isinstance(source, Model) else _open(source)
        names.setdefault(key(source), name)
        return name

    def in_section(value: Any) -> Any:
        """The section of the vocabulary, with the names of models."""
        if isinstance(value, Mapping):
            return {
                word: names.get(key(one), one)
                if word in ("source", "model") and not isinstance(one, Mapping)
                else in_section(one)
                for word, one in value.items()
            }
        return value

    method = settings.pop("method") or "linear"
    check_used(MergeSettings, {"method": None, **settings}, method)
    listed: list[dict[str, Any]] = []
    for one in models.items() if isinstance(models, Mapping) else models:
        source, weight = one if isinstance(one, (tuple, list)) else (one, None)
        if weight is not None and method not in _WEIGHTED:
            raise no_effect("a weight", f"for {method}", f"it is for {', '.join(_WEIGHTED)}")
        parameters = {} if weight is None else {"parameters": {"weight": weight}}
        listed.append({"model": named(source), **parameters})
    document: dict[str, Any] = {"merge_method": method, "models": listed}
    base, dtype, tokenizer = (settings.pop(name) for name in ("base", "dtype", "tokenizer"))
    if base is not None:
        document["base_model"] = names.get(key(base)) or named(base)
    if dtype is not None:
        document["dtype"] = NAMES[parse_float(dtype)]
    if tokenizer is not None:
        is_section = isinstance(tokenizer, Mapping)
        document["tokenizer"] = in_section(tokenizer if is_section else {"source": tokenizer})
    document["parameters"] = {
        name.rstrip("_"): value for name, value in settings.items() if value is not None
    }
    return json.dumps(document), given


class MergeOptions(MergeSettings, CheckedOptions, total=False):
    """Options of `merge`."""

    to: Annotated[Container | None, Option(None, "the container; without it, that of the ending of `path`, else safetensors")]
    file_type: Annotated[str | None, Option(None, "quantize the result to a file type such as `Q4_K_M`")]
    max_shard_size: Annotated[Size | None, Option(None, "the most bytes of tensors in one file", size)]
    align: Annotated[int | None, Option(None, "align tensors to so many bytes, where the files of one model are joined")]


@takes(MergeOptions)
def merge(
    models: Models, path: str | Path, **options: Unpack[MergeOptions]
) -> WriteReport:
    """Merges several models into one (see `merged`), and writes it. Each tensor is computed when its turn
    comes. With one model instead of a list, joins its files into one, as `join` does.

    >>> report = wb.merge([("model.gguf", 0.6), ("model.gguf", 0.4)], "x.gguf", dtype="float16", dry_run=True)
    >>> len(report.tensors)
    20
    """
    given: Any = options
    writing, settings = (
        {name: given[name] for name in part.__annotations__} for part in (CheckedOptions, MergeSettings)
    )
    is_recipe = isinstance(models, (str, Path)) and Path(models).suffix in (".yml", ".yaml")
    if isinstance(models, Model) or (isinstance(models, (str, Path)) and not is_recipe):
        kept = {name: given[name] for name in WriteOptions.__annotations__}
        usual = read(MergeOptions, {})
        for name in (name for name in given if name not in (*kept, "align")):
            if given[name] != usual[name]:
                advice = "convert() and quantize() change a model; a list of models is merged"
                raise no_effect(name, "for one model, whose files are joined unchanged", advice)
        return join(models, path, align=given["align"], **kept)
    if given["align"] is not None:
        raise no_effect("align", "for several models")
    model = merged(models, **settings)
    if given["file_type"] is not None:
        if given["to"] not in (None, "gguf"):
            raise exception("mismatch", f"a file type is for GGUF, but to is {given['to']}")
        if given["max_shard_size"] is not None:
            raise no_effect("max_shard_size", "with a file type", "split() divides the file")
        return quantize(model, path, given["file_type"], **writing)
    is_file = Path(path).suffix.lower() in (".gguf", ".safetensors")
    to: Container | None = given["to"] or (None if is_file else "safetensors")
    return convert(model, path, to=to, max_shard_size=given["max_shard_size"], **writing)


class LoraOptions(WriteOptions, total=False):
    """Options of `extract_lora`."""

    rank: Annotated[int, Option(16, "the rank of the adapter's matrices")]


@takes(LoraOptions)
def extract_lora(
    base: Source, tuned: Source, path: str | Path, **options: Unpack[LoraOptions]
) -> WriteReport:
    """Writes a LoRA adapter, a directory of PEFT, that makes the model `tuned` of `base`: for each matrix
    that differs, the two matrices of this rank whose product is nearest to the difference. Norms that
    differ are stored as a whole.

    The report's `kept` has the share of each matrix's change that they hold, in squares.

    >>> tuned = wb.merged([("model.gguf", 1.5)], normalize=False)
    >>> report = wb.extract_lora("model.gguf", tuned, "adapter", rank=4)
    >>> min(report.kept.values()) < 1.0
    True
    """
    if options["rank"] < 1:
        raise exception("mismatch", f"the rank is {options['rank']}, but it must be above 0")
    check_directory(path, "an adapter")
    one, other = ((of if isinstance(of, Model) else _open(of))._native for of in (base, tuned))
    with callback(options["progress"]) as shown:
        report, kept = _native.extract_lora(one, other, path, native(options), shown)
    return WriteReport({**json.loads(report), "kept": dict(kept)})
