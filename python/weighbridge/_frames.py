"""Loading all tensors of a model, for every library of arrays."""

from __future__ import annotations

from . import _native
from ._dtypes import Float, parse_float
from ._model import Model, Names, matching
from ._model import open as _open
from ._progress import Progress, callback
from ._sizes import count
from ._tensor import Tensor
from ._verbs import Source


def named(
    source: Source,
    names: Names,
    tensor_parallel: tuple[int, int] | None = None,
    pipeline_parallel: tuple[int, int] | None = None,
    expert_parallel: tuple[int, int] | None = None,
    filter: str | None = None,
) -> dict[str, Tensor]:
    """All tensors of a model under the names of a convention, or a rank's parts of them."""
    model = source if isinstance(source, Model) else _open(source)
    if tensor_parallel or pipeline_parallel or expert_parallel:
        found = model.tensors_of_rank(
            names,
            tensor_parallel=tensor_parallel or (0, 1),
            pipeline_parallel=pipeline_parallel or (0, 1),
            expert_parallel=expert_parallel or (0, 1),
        )
        return found if filter is None else {name: found[name] for name in matching(found, filter)}
    if names == "huggingface" and model._native.architecture is None:
        # The names of an unknown family are its own.
        names = "stored"
    return model.tensors(names, filter=filter)


def load(
    tensors: dict[str, Tensor],
    dtype: Float | None,
    threads: int,
    progress: Progress,
    copy: bool = False,
) -> dict[str, tuple[Tensor, _native.Array]]:
    """The tensors, each with its array: in `dtype`, or as stored. With `copy`, no array shares the
    memory of the file."""
    wanted = None if dtype is None else parse_float(dtype)
    threads = count("threads", threads)
    with callback(progress) as shown:
        natives = [tensor._native for tensor in tensors.values()]
        arrays = _native.load(natives, wanted, copy, threads, shown)
    return {
        name: (tensor, array)
        for (name, tensor), array in zip(tensors.items(), arrays, strict=True)
    }
