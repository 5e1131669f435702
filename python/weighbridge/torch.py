"""State dicts of PyTorch tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch as _torch

from ._dtypes import Float
from ._frames import load, named
from ._model import Model, Names
from ._model import open as _open
from ._progress import Progress
from ._verbs import Source
from ._writer import save, save_file

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor

__all__ = ["load_dtensors", "load_file", "save", "save_file"]


def load_file(
    source: Source,
    device: Any = "cpu",
    *,
    dtype: Float | None = None,
    names: Names = "huggingface",
    filter: str | None = None,
    copy: bool = False,
    tensor_parallel: tuple[int, int] | None = None,
    pipeline_parallel: tuple[int, int] | None = None,
    expert_parallel: tuple[int, int] | None = None,
    threads: int = 0,
    progress: Progress = None,
) -> dict[str, _torch.Tensor]:
    """Loads all tensors of a model in any container, as a state dict that transformers loads.

    Stored numbers share the memory of the file, privately: a write never reaches it. With `copy`,
    they are read into memory of their own, and the file may change afterwards. Quantized tensors
    are decoded to `dtype` (torch.float32, float16 or bfloat16) or float32. `names` is `huggingface`,
    `canonical`, `stored`, `mlx` or `gguf`; `filter` is a pattern of names. Every call has a private map
    of its own: a write to its tensors is seen in no others.

    `tensor_parallel`, `pipeline_parallel` and `expert_parallel` load one rank's part of each tensor:
    the number of the rank, from 0, and the number of ranks. Only the bytes of the parts are read.

    >>> wb.torch.load_file("model.gguf")["model.norm.weight"].shape
    torch.Size([256])
    >>> wb.torch.load_file("model.gguf", tensor_parallel=(1, 2))["model.layers.0.self_attn.q_proj.weight"].shape
    torch.Size([128, 256])
    """
    ranks = (tensor_parallel, pipeline_parallel, expert_parallel)
    found = load(named(source, names, *ranks, filter=filter), dtype, threads, progress, copy)
    tensors = {name: _torch.from_dlpack(array) for name, (_, array) in found.items()}
    if str(device) == "cpu":
        return tensors
    return {name: tensor.to(device) for name, tensor in tensors.items()}


def load_dtensors(
    source: Source,
    device_mesh: DeviceMesh,
    *,
    dtype: Float | None = None,
    names: Names = "huggingface",
    filter: str | None = None,
    threads: int = 0,
    progress: Progress = None,
) -> dict[str, DTensor]:
    """Loads a model as DTensors of a device mesh; each process reads its part only.

    The tensors are divided along the dimension `tp` of the mesh, or its only one: by rows or columns as
    tensor parallelism needs them (`tensor_parallel` of `load_file`), in equal pieces in order. What is
    small is replicated. The other options are those of `load_file`.
    """
    from torch.distributed.tensor import DTensor, Replicate, Shard

    mesh = device_mesh["tp"] if device_mesh.ndim > 1 else device_mesh
    rank, ranks = mesh.get_local_rank(), mesh.size()
    model = source if isinstance(source, Model) else _open(source)
    whole = named(model, names, filter=filter)
    divided = named(model, names, (rank, ranks), filter=filter)
    parts, placements = {}, {}
    for name, tensor in whole.items():
        axes = [
            axis
            for axis, (length, own) in enumerate(zip(tensor.shape, divided[name].shape, strict=True))
            if length != own
        ]
        placements[name] = Shard(axes[0]) if axes else Replicate()
        parts[name] = tensor.shard(axes[0], rank, ranks) if axes else tensor
    loaded = load(parts, dtype, threads, progress)
    found = {}
    for name, (_, array) in loaded.items():
        local = _torch.from_dlpack(array).to(mesh.device_type)
        shape = _torch.Size(whole[name].shape)
        stride = _torch.empty(shape, device="meta").stride()
        placed = [placements[name]]
        found[name] = DTensor.from_local(local, mesh, placed, shape=shape, stride=stride)
    return found
