"""One of several processes that load a model into DTensors: python mesh.py MODEL FOLDER RANK OF"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import weighbridge.torch as wbt


def main(path: str, folder: str, rank: int, of: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=of)
    line = init_device_mesh("cpu", (of,))
    square = init_device_mesh("cpu", (2, of // 2), mesh_dim_names=("dp", "tp"))
    whole = wbt.load_file(path)
    for mesh in (line, square):
        found = wbt.load_dtensors(path, mesh)
        assert list(found) == list(whole)
        kinds = set()
        for name, tensor in found.items():
            assert isinstance(tensor, DTensor) and tensor.shape == whole[name].shape, name
            (placement,) = tensor.placements
            kinds.add(placement)
            theirs = distribute_tensor(whole[name], tensor.device_mesh, [placement])
            assert torch.equal(tensor.to_local(), theirs.to_local()), name
            assert torch.equal(tensor.full_tensor(), whole[name]), name
        assert kinds == {Replicate(), Shard(0), Shard(1)}
    # What engines do with them: a product whose parts are summed.
    gate = found["model.layers.0.mlp.gate_proj.weight"]
    down = found["model.layers.0.mlp.down_proj.weight"]
    x = torch.randn(3, 256, generator=torch.Generator().manual_seed(1), dtype=gate.dtype)
    at = "model.layers.0.mlp."
    wanted = x @ whole[at + "gate_proj.weight"].T @ whole[at + "down_proj.weight"].T
    shared = DTensor.from_local(x, gate.device_mesh, [Replicate()])
    assert torch.allclose((shared @ gate.T @ down.T).full_tensor(), wanted, rtol=0.02, atol=0.02)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
