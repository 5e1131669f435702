"""Loading all tensors of a model, for every library of arrays."""

from __future__ import annotations

from pathlib import Path

from . import _native
from ._model import Model, Tensor
from ._model import open as _open
from ._progress import Progress, callback


def named(
    source: str | Path | Model,
    names: str,
    tensor_parallel: tuple[int, int] | None = None,
    pipeline_parallel: tuple[int, int] | None = None,
    expert_parallel: tuple[int, int] | None = None,
) -> dict[str, Tensor]:
    """All tensors of a model under the names of a convention, or a rank's parts of them."""
    model = source if isinstance(source, Model) else _open(source)
    if tensor_parallel or pipeline_parallel or expert_parallel:
        return model.tensors_of_rank(
            names,
            tensor_parallel=tensor_parallel or (0, 1),
            pipeline_parallel=pipeline_parallel or (0, 1),
            expert_parallel=expert_parallel or (0, 1),
        )
    if names == "huggingface" and model._native.architecture is None:
        # The names of an unknown family are its own.
        names = "stored"
    return model.tensors(names)


def load(
    tensors: dict[str, Tensor],
    dtype: str | None,
    threads: int,
    progress: Progress,
    copy: bool = False,
) -> dict[str, tuple[Tensor, _native.Array]]:
    """The tensors, each with its array: in `dtype`, or as stored. With `copy`, no array shares the
    memory of the file."""
    with callback(progress) as shown:
        natives = [tensor._native for tensor in tensors.values()]
        arrays = _native.load(natives, dtype, copy, threads, shown)
    return {
        name: (tensor, array)
        for (name, tensor), array in zip(tensors.items(), arrays, strict=True)
    }
