"""One of several processes that run models together: python ranks.py FOLDER RANK OF

Started by test_ranks.py. FOLDER has `jobs.json`: for each job a model, the folder of its config.json,
the kind of parallelism (`tensor`, `pipeline` or `expert`), and ids. Each process loads its part of the
model, with the class of transformers, and talks to the others by torch.distributed. The last one
writes the logits of each job to `logits.json`.
"""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import transformers
from torch import Tensor, nn

import weighbridge.torch as wbt


def summed(tensor: Tensor) -> Tensor:
    """The sum over the ranks."""
    tensor = tensor.contiguous()
    dist.all_reduce(tensor)
    return tensor


def joined(tensor: Tensor) -> Tensor:
    """The parts of all ranks, side by side."""
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor.contiguous())
    return torch.cat(parts, -1)


class Embedding(nn.Module):  # type: ignore[misc]
    """Embeddings of which a rank has some rows."""

    def __init__(self, weight: Tensor, rank: int, scale: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.first, self.scale = rank * len(weight), scale

    def forward(self, ids: Tensor) -> Tensor:
        place = ids - self.first
        mine = (place >= 0) & (place < len(self.weight))
        rows = self.weight[place.clamp(0, len(self.weight) - 1)] * mine[..., None]
        return summed(rows) * self.scale


class Experts(nn.Module):  # type: ignore[misc]
    """The experts of a layer that a rank has, or its part of each."""

    def __init__(
        self, state: dict[str, Tensor], at: str, count: int, act: Any, is_shared: bool
    ) -> None:
        super().__init__()
        self.is_shared = is_shared
        self.own = {
            expert: [state[f"{at}.{expert}.w{number}.weight"] for number in (1, 2, 3)]
            for expert in range(count)
            if f"{at}.{expert}.w1.weight" in state
        }
        self.act = act

    def forward(self, x: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        total = torch.zeros_like(x)
        for expert, (gate, down, up) in self.own.items():
            out = (self.act(x @ gate.T) * (x @ up.T)) @ down.T
            total = total + out * (weights * (chosen == expert)).sum(-1, keepdim=True)
        return summed(total) if self.is_shared else total


def layers_of(state: dict[str, Tensor]) -> list[int]:
    """The numbers of the layers of which a rank has tensors."""
    parts = (name.split(".") for name in state)
    return sorted({int(part[2]) for part in parts if part[:2] == ["model", "layers"]})


def module(config: Any, state: dict[str, Tensor], kind: str, rank: int, of: int) -> nn.Module:
    """The model of transformers with what the rank has."""
    whole = config
    config = copy.deepcopy(config)
    own = layers_of(state)
    config.num_hidden_layers = len(own)
    if getattr(config, "layer_types", None):
        config.layer_types = [config.layer_types[layer] for layer in own]
    if kind == "tensor":
        config.head_dim = whole.head_dim or whole.hidden_size // whole.num_attention_heads
        config.num_attention_heads //= of
        config.num_key_value_heads = max(1, config.num_key_value_heads // of)
        config.intermediate_size //= of
    model: Any = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    renumbered = {}
    for name, tensor in state.items():
        if name.startswith("model.layers."):
            part = name.split(".")
            name = ".".join(["model.layers", str(own.index(int(part[2]))), *part[3:]])
        renumbered[name.replace("block_sparse_moe.gate", "mlp.gate")] = tensor
    state = renumbered
    embedding = state.get("model.embed_tokens.weight")
    if config.tie_word_embeddings and embedding is not None:
        state["lm_head.weight"] = embedding
    for layer, block in enumerate(model.model.layers):
        if kind == "tensor":
            block.self_attn.o_proj.register_forward_hook(lambda *call: summed(call[2]))
        if hasattr(block.mlp, "experts"):
            at = f"model.layers.{layer}.block_sparse_moe.experts"
            act = block.mlp.experts.act_fn
            block.mlp.experts = Experts(
                state, at, config.num_local_experts, act, kind != "pipeline"
            )
        elif kind == "tensor":
            block.mlp.down_proj.register_forward_hook(lambda *call: summed(call[2]))
    if kind == "tensor" and embedding is not None:
        scale = whole.hidden_size**0.5 if whole.model_type.startswith("gemma3") else 1.0
        model.model.embed_tokens = Embedding(embedding, rank, scale)
        vocab = len(state["lm_head.weight"])
        model.lm_head = nn.Linear(whole.hidden_size, vocab, bias=False)
        model.lm_head.register_forward_hook(lambda *call: joined(call[2]))
    wanted = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    left = model.load_state_dict({n: t for n, t in state.items() if n in wanted}, strict=False)
    unset = [name for name in left.missing_keys if name in wanted]
    others = {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"}
    assert not set(unset) - (others if kind == "pipeline" else set()), unset
    assert not [n for n in state if n not in wanted and ".experts." not in n], "unknown names"
    return model.eval()


def run(model: Any, kind: str, rank: int, of: int, ids: Tensor) -> Tensor:
    if kind != "pipeline":
        return model(input_ids=ids, use_cache=False).logits
    if rank == 0:
        given: dict[str, Tensor] = {"input_ids": ids}
    else:
        hidden = torch.empty(*ids.shape, model.config.hidden_size)
        dist.recv(hidden, rank - 1)
        given = {"inputs_embeds": hidden}
    if rank < of - 1:
        model.model.norm = nn.Identity()
    hidden = model.model(**given, use_cache=False).last_hidden_state
    if rank < of - 1:
        dist.send(hidden.contiguous(), rank + 1)
    return model.lm_head(hidden)


def main(folder: Path, rank: int, of: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=of)
    logits = []
    for job in json.loads((folder / "jobs.json").read_text()):
        kind, ids = job["kind"], torch.tensor([job["ids"]])
        config = transformers.AutoConfig.from_pretrained(job["config"])
        parallel: Any = {f"{kind}_parallel": (rank, of)}
        state = wbt.load_file(job["model"], dtype=torch.float32, **parallel)
        with torch.no_grad():
            found = run(module(config, state, kind, rank, of), kind, rank, of, ids)
        logits.append(found[0].tolist())
    if rank == of - 1:
        (folder / "logits.json").write_text(json.dumps(logits))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
