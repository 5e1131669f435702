"""A rank's parts of all tensors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weighbridge as wb


def test_parts_are_slices_of_the_whole(sample: Path) -> None:
    model = wb.open(sample)
    for rank in range(2):
        part = model.tensors_of_rank(tensor_parallel=(rank, 2))
        gate = part["layers.0.ffn.gate.weight"].dequantize()
        whole = model["layers.0.ffn.gate.weight"].dequantize()
        assert np.array_equal(gate, np.split(whole, 2)[rank])
        down = part["layers.0.ffn.down.weight"].dequantize()
        whole = model["layers.0.ffn.down.weight"].dequantize()
        assert np.array_equal(down, np.split(whole, 2, axis=1)[rank])
    stages = [model.tensors_of_rank(pipeline_parallel=(stage, 2)) for stage in range(2)]
    assert "layers.0.ffn.gate.weight" in stages[0] and "layers.0.ffn.gate.weight" not in stages[1]
    with pytest.raises(wb.MismatchError, match="cannot be divided equally among 3 ranks"):
        model.tensors_of_rank(tensor_parallel=(0, 3))


def test_files_have_the_parts_of_ranks(sample: Path, tmp_path: Path) -> None:
    whole = wb.open(sample)
    wb.convert(sample, tmp_path / "shares", shards="tp=2", fuse=["gate-up"], dtype="F32")
    for rank in range(2):
        found = wb.open(tmp_path / f"shares/model-rank-{rank}-part-0.safetensors").stored
        part = whole.tensors_of_rank(tensor_parallel=(rank, 2))
        at = "model.layers.0.mlp."
        names = [f"layers.0.ffn.{name}.weight" for name in ("gate", "up")]
        joined = np.concatenate([part[name].dequantize() for name in names])
        assert np.array_equal(found[at + "gate_up_proj.weight"].dequantize(), joined)
        down = part["layers.0.ffn.down.weight"].dequantize()
        assert np.array_equal(found[at + "down_proj.weight"].dequantize(), down)
    with pytest.raises(wb.MismatchError, match="shards has no effect for gguf"):
        wb.convert(sample, tmp_path / "x.gguf", to="gguf", shards="tp=2")


def test_torch_runs_the_parts_of_four_ranks(sample: Path) -> None:
    """The feed-forward network and the attention of a layer, as ranks compute them: the sum over the
    ranks is the result of the whole."""
    torch = pytest.importorskip("torch")
    import weighbridge.torch as wbt

    whole = wbt.load_file(sample, dtype=torch.float32)
    ranks = [
        wbt.load_file(sample, dtype=torch.float32, tensor_parallel=(rank, 4)) for rank in range(4)
    ]

    def network(state: dict[str, Any], x: Any) -> Any:
        at = "model.layers.0.mlp."
        gate = torch.nn.functional.silu(x @ state[at + "gate_proj.weight"].T)
        return (gate * (x @ state[at + "up_proj.weight"].T)) @ state[at + "down_proj.weight"].T

    def attention(state: dict[str, Any], x: Any) -> Any:
        at = "model.layers.0.self_attn."

        def heads(name: str) -> Any:
            return (x @ state[at + name].T).unflatten(-1, (-1, width)).transpose(0, 1)

        q, k, v = heads("q_proj.weight"), heads("k_proj.weight"), heads("v_proj.weight")
        repeat = q.shape[0] // k.shape[0]
        k, v = k.repeat_interleave(repeat, 0), v.repeat_interleave(repeat, 0)
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return mixed.transpose(0, 1).flatten(1) @ state[at + "o_proj.weight"].T

    width = int(wb.open(sample).config.head_dim)
    x = torch.randn(7, 256, generator=torch.Generator().manual_seed(1))
    for layer in (network, attention):
        parts = sum(layer(state, x) for state in ranks)
        assert torch.allclose(parts, layer(whole, x), atol=1e-4, rtol=1e-4)


def toy(family: str, folder: Path) -> object:
    """A small model of transformers with random numbers."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    common = {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 2 if family == "Llama" else 4,
        "head_dim": 16,
        "vocab_size": 320,
        "max_position_embeddings": 256,
    }
    own: dict[str, dict[str, Any]] = {
        "Llama": {"tie_word_embeddings": False},
        "Mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None},
        "Gemma3Text": {"sliding_window": 8, "sliding_window_pattern": 2, "query_pre_attn_scalar": 16},
    }
    torch.manual_seed(3)
    config = getattr(transformers, f"{family}Config")(**common, **own[family])
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, 0.3 if "norm" in name else 0.0, 0.1)
    model.save_pretrained(folder)
    return model


KINDS = {
    "Llama": ["tensor", "pipeline"],
    "Mixtral": ["tensor", "pipeline", "expert"],
    "Gemma3Text": ["tensor", "pipeline"],
}
IDS = list(range(3, 300, 13))


def together(script: str, *arguments: object) -> None:
    """Runs a script of this folder in four processes: with the arguments, the rank, and their number."""
    path = Path(__file__).with_name(script)
    processes = [
        subprocess.Popen(
            [sys.executable, path, *map(str, arguments), str(rank), "4"], stderr=subprocess.PIPE
        )
        for rank in range(4)
    ]
    try:
        for process in processes:
            _, fault = process.communicate(timeout=120)
            assert process.returncode == 0, fault.decode()[-3000:]
    finally:
        # The others wait for one that has failed.
        for process in processes:
            process.kill()


def test_four_processes_have_the_logits_of_the_whole(tmp_path: Path) -> None:
    """Ranks of torch.distributed, each with its part only, from three containers."""
    torch = pytest.importorskip("torch")
    jobs, expected = [], []
    for family, kinds in KINDS.items():
        folder = tmp_path / family
        model = toy(family, folder)
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([IDS])).logits[0]  # type: ignore[operator]
        gguf, mlx = tmp_path / f"{family}.gguf", tmp_path / f"{family}-mlx"
        wb.convert(folder, gguf, allow_incomplete=True)
        wb.convert(folder, mlx, to="mlx", allow_incomplete=True)
        for path in (folder, gguf, mlx):
            for kind in kinds:
                job = {"model": str(path), "config": str(folder), "kind": kind, "ids": IDS}
                jobs.append(job)
                expected.append(logits)
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    together("ranks.py", tmp_path)
    found = json.loads((tmp_path / "logits.json").read_text())
    assert len(found) == 21
    for job, logits, whole in zip(jobs, found, expected, strict=True):
        difference = (torch.tensor(logits) - whole).abs().max() / whole.std()
        assert difference <= 1e-4, (job, difference)


def test_distributed_tensors_are_the_whole(sample: Path, tmp_path: Path) -> None:
    """DTensors of four processes, against those that torch itself distributes."""
    pytest.importorskip("torch")
    together("mesh.py", sample, tmp_path)
