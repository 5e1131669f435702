"""State dicts of each library."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weighbridge as wb

Q = "model.layers.1.self_attn.q_proj.weight"


def test_numpy(sample: Path, tmp_path: Path) -> None:
    import weighbridge.numpy as wbn

    state = wbn.load_file(sample, dtype="float32")
    expected = wb.open(sample)["layers.1.attention.q.weight"].dequantize()
    assert len(state) == 20 and np.array_equal(state[Q], expected)
    assert set(wbn.load_file(sample, names="canonical")) == set(wb.open(sample))
    assert set(wbn.load_file(sample, names="stored")) == set(wb.open(sample).stored)
    wbn.save_file(state, tmp_path / "again.safetensors")
    assert np.array_equal(wbn.load_file(tmp_path / "again.safetensors")[Q], expected)
    with pytest.raises(wb.MismatchError):
        wbn.load_file(sample, names="absent")  # type: ignore[arg-type]


def test_torch(sample: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    import weighbridge.torch as wbt

    state = wbt.load_file(sample, dtype=torch.float32)
    expected = wb.open(sample)["layers.1.attention.q.weight"].dequantize()
    assert np.array_equal(state[Q].numpy(), expected)
    half = wbt.load_file(sample, dtype=torch.bfloat16)
    assert torch.equal(half[Q], state[Q].to(torch.bfloat16))
    out = torch.empty(256, 256, dtype=torch.float16)
    wb.open(sample)["layers.1.attention.q.weight"].dequantize(out=out)
    assert torch.equal(out, state[Q].to(torch.float16))
    wbt.save_file(half, tmp_path / "again.safetensors")
    assert torch.equal(wbt.load_file(tmp_path / "again.safetensors")[Q], half[Q])


def test_a_write_is_seen_nowhere_else(assets: Path) -> None:
    torch = pytest.importorskip("torch")
    import weighbridge.torch as wbt

    before = (assets / "hf" / "model.safetensors").read_bytes()
    model = wb.open(assets / "hf")
    norm = model["output_norm.weight"]
    exact = norm.dequantize()
    first, second = (wbt.load_file(model)["model.norm.weight"] for _ in range(2))
    written = [first, torch.from_dlpack(norm), norm.torch()]
    for tensor in written:
        assert tensor.dtype == torch.bfloat16
        tensor[:] = 7
    assert np.array_equal(second.float().numpy(), exact)
    assert np.array_equal(norm.numpy().astype(np.float32), exact)
    assert np.array_equal(norm[0:2].numpy().astype(np.float32), exact[0:2])
    assert np.array_equal(norm.dequantize(), exact)
    assert (assets / "hf" / "model.safetensors").read_bytes() == before


def test_torch_in_memory_of_its_own(assets: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    import weighbridge.torch as wbt

    shared = wbt.load_file(assets / "hf")
    path = tmp_path / "model.safetensors"
    shutil.copy(assets / "hf" / "model.safetensors", path)
    copied = wbt.load_file(path, copy=True, names="stored")
    unmapped = wb.open(path, no_map=True)
    arrays = {name: unmapped.stored[name]._native.load(None) for name in copied}
    assert not any(array.is_mapped for array in arrays.values())
    read = {name: torch.from_dlpack(array) for name, array in arrays.items()}
    path.write_bytes(b"")
    assert list(copied) == list(shared)
    for name, tensor in shared.items():
        assert torch.equal(copied[name], tensor) and torch.equal(read[name], tensor), name


def test_transformers_has_the_same_logits(sample: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    import weighbridge.torch as wbt

    config = transformers.AutoConfig.from_pretrained(sample.parent / "hf")
    ids = torch.tensor([[1, 5, 9, 200]])

    def logits(state: dict[str, Any]) -> Any:
        engine = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        missing, unexpected = engine.load_state_dict(state, strict=False)
        assert set(missing) <= {"lm_head.weight"} and not unexpected
        engine.tie_weights()
        with torch.no_grad():
            return engine.eval()(ids).logits

    ours = logits(wbt.load_file(sample, dtype=torch.float32))
    if sample.name == "hf":
        engine = transformers.AutoModelForCausalLM.from_pretrained(sample, dtype=torch.float32)
        with torch.no_grad():
            assert torch.equal(ours, engine.eval()(ids).logits)
    else:
        exact = logits(wbt.load_file(sample.parent / "hf", dtype=torch.float32))
        # Quantized weights: the logits are close, which permuted rows would not be.
        assert torch.nn.functional.cosine_similarity(ours, exact, dim=-1).min() > 0.95


def test_mlx(sample: Path) -> None:
    mx = pytest.importorskip("mlx.core")
    import weighbridge.mlx as wbm

    state = wbm.load_file(sample, dtype=mx.float32)
    expected = wb.open(sample)["layers.1.attention.q.weight"].dequantize()
    assert np.array_equal(np.asarray(state[Q]), expected)


def test_mlx_keeps_packed_tensors(assets: Path, tmp_path: Path) -> None:
    mx = pytest.importorskip("mlx.core")
    import weighbridge.mlx as wbm

    wb.convert(assets / "mlx-4bit", tmp_path / "again.gguf")
    for mode in ("affine", "mxfp4", "nvfp4"):
        folder = tmp_path / mode
        wb.quantize(assets / "hf", folder, mlx=mode)
        expected = mx.load(str(folder / "model.safetensors"))
        found = wbm.load_file(folder, packed=True)
        assert set(found) == set(expected)
        for name, array in expected.items():
            assert found[name].dtype == array.dtype and found[name].shape == array.shape
            assert mx.array_equal(found[name].view(mx.uint8), array.view(mx.uint8)), name
    # Another container has no such tensors: all are decoded.
    state, metadata = wbm.load_file(assets / "mlx-4bit", return_metadata=True)
    assert len(state) == 20 and metadata == dict(wb.open(assets / "mlx-4bit").metadata)
    decoded = wbm.load_file(assets / "sample-Q8_0.gguf", packed=True)
    assert not any(name.endswith(".scales") for name in decoded)


def test_mlx_lm_runs_packed_tensors(assets: Path) -> None:
    mx = pytest.importorskip("mlx.core")
    pytest.importorskip("mlx_lm")
    import mlx.nn as nn
    from mlx_lm.utils import _get_classes, load_config, load_model
    import weighbridge.mlx as wbm

    folder = assets / "mlx-4bit"
    config = load_config(folder)
    weights = wbm.load_file(folder, packed=True)
    model_class, arguments = _get_classes(config)
    engine = model_class(arguments.from_dict(config))
    nn.quantize(
        engine,
        group_size=config["quantization"]["group_size"],
        bits=config["quantization"]["bits"],
        class_predicate=lambda path, module: (
            hasattr(module, "to_quantized") and f"{path}.scales" in weights
        ),
    )
    engine.load_weights(list(engine.sanitize(weights).items()))
    engine.eval()
    theirs, _ = load_model(folder)
    ids = mx.array([[1, 5, 9, 200]])
    assert mx.array_equal(engine(ids), theirs(ids))


def test_jax(sample: Path) -> None:
    jnp = pytest.importorskip("jax.numpy")
    import weighbridge.jax as wbj

    state = wbj.load_file(sample, dtype=jnp.float32)
    expected = wb.open(sample)["layers.1.attention.q.weight"].dequantize()
    assert np.array_equal(np.asarray(state[Q]), expected)
