"""Models merged into one."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import weighbridge as wb

Q = "layers.0.attention.q.weight"


@pytest.fixture
def other(assets: Path, tmp_path: Path) -> Path:
    """A model of the same shape, with other weights."""
    model = wb.open(assets / "hf")
    random = np.random.default_rng(1)
    writer = wb.Writer.like(model)
    for name, tensor in model.stored.items():
        noise = random.standard_normal(tensor.shape, np.float32) / 50
        writer.add(name, tensor.dequantize() + noise, dtype="BF16")
    writer.write(tmp_path / "other")
    return tmp_path / "other"


def test_the_mean_of_two(assets: Path, other: Path, tmp_path: Path) -> None:
    a, b = wb.open(assets / "hf"), wb.open(other)
    report = wb.merge(
        [(a, 0.6), (other, 0.4)], tmp_path / "mean", to="safetensors", dtype="float32",
        max_shard_size="1MB",
    )
    assert len(report.tensors) == 20 and len(report.files) > 3
    assert {tensor["how"] for tensor in report.tensors} == {"merged"}
    mean = wb.open(tmp_path / "mean")
    for name in a:
        expected = (a[name].dequantize() * np.float32(0.6) + b[name].dequantize() * np.float32(0.4))
        assert np.allclose(mean[name].numpy(), expected, rtol=0, atol=1e-6), name
    assert (tmp_path / "mean" / "tokenizer.json").is_file()
    wb.merge([a, b], tmp_path / "mean.gguf", file_type="Q8_0")
    assert wb.open(tmp_path / "mean.gguf")[Q].dtype == "Q8_0"


def test_a_merged_model_is_a_model(assets: Path, other: Path) -> None:
    model = wb.merged(
        [other], method="task", base=assets / "hf", dtype="float32", lambda_=0.5,
        weight=[{"filter": "mlp", "value": 0.0}, {"value": [1.0, 0.5]}],
    )
    assert model.container == "safetensors" and model.config.n_layers == 2
    base, changed = wb.open(assets / "hf"), wb.open(other)
    up = "layers.1.ffn.up.weight"
    assert np.array_equal(model[up].numpy(), base[up].dequantize())
    half = (base[Q].dequantize() + changed[Q].dequantize()) / 2
    assert np.allclose(model[Q].numpy(), half, atol=1e-6)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again[Q].numpy(), model[Q].numpy())
    assert wb.numpy.load_file(model)["model.norm.weight"].shape == (256,)


def test_a_recipe(assets: Path, other: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yml"
    recipe.write_text(
        f"merge_method: slerp\nbase_model: {assets / 'hf'}\nmodels:\n  - model: {assets / 'hf'}\n"
        f"  - model: {other}\nparameters:\n  t:\n    - filter: self_attn\n      value: [0, 1]\n"
        "    - value: 0.25  # the rest\ndtype: bfloat16\n"
    )
    wb.merge(recipe, tmp_path / "x.gguf")
    merged, base, changed = wb.open(tmp_path / "x.gguf"), wb.open(assets / "hf"), wb.open(other)
    assert np.array_equal(merged[Q].dequantize(), base[Q].dequantize())
    last = "layers.1.attention.q.weight"
    assert np.array_equal(merged[last].dequantize(), changed[last].dequantize())
    with pytest.raises(wb.MismatchError, match="method is 'dare', not 'linear', 'task'"):
        wb.merged([other], method="dare")  # type: ignore[arg-type]
    with pytest.raises(wb.MismatchError, match="density has no effect for linear"):
        wb.merged([other], density=0.5)
    with pytest.raises(wb.MismatchError, match="requires a base"):
        wb.merged([other], method="ties")


def test_files_are_joined(assets: Path, tmp_path: Path) -> None:
    source = assets / "sample-Q8_0.gguf"
    shards = wb.split(source, tmp_path / "part", max_tensors=8).written
    wb.join(shards[0], tmp_path / "0.gguf", align=64)
    wb.merge(shards[0], tmp_path / "1.gguf", align=64)
    for number in range(2):
        assert wb.diff(source, tmp_path / f"{number}.gguf").is_equal


def test_the_difference_of_two_models_is_an_adapter(assets: Path, other: Path, tmp_path: Path) -> None:
    base = wb.open(assets / "hf")
    report = wb.extract_lora(base, other, tmp_path / "adapter", rank=64)
    assert len(report.kept) == 15 and 0.3 < min(report.kept.values()) < 1.0
    assert (tmp_path / "adapter" / "adapter_config.json").is_file()
    tuned, name = wb.open(other), "model.layers.0.self_attn.q_proj.weight"
    # NumPy's own singular values say what the nearest matrix of this rank holds.
    change = tuned[Q].dequantize() - base[Q].dequantize()
    squares = np.linalg.svd(change, compute_uv=False) ** 2
    assert abs(report.kept[name] - squares[:64].sum() / squares.sum()) < 0.01
    with pytest.raises(wb.MismatchError):
        wb.extract_lora(base, base, tmp_path / "none")


def test_hashes_are_saved_and_compared(assets: Path, other: Path, tmp_path: Path) -> None:
    wb.hash(assets / "hf", save=tmp_path / "list")
    assert wb.verify(assets / "hf", against=tmp_path / "list")
    found = wb.verify(other, against=tmp_path / "list")
    assert not found and len(found.differences) == 20
    with pytest.raises(FileExistsError):
        wb.hash(other, save=tmp_path / "list")
    assert not wb.verify(assets / "sample-Q8_0.gguf", sha256="0" * 64)


def test_tokens_are_added_and_removed(assets: Path, other: Path, tmp_path: Path) -> None:
    base = wb.open(assets / "hf")
    name, tokens = "token_embedding.weight", base.tokenizer
    assert tokens is not None
    gone = tokens.tokens[-1]
    section = {
        "source": "base",
        "tokens": {
            "<mean>": {"source": {"kind": "mean"}},
            "<copy>": {"source": {"kind": "model_token", "model": other, "token": "</s>"}},
        },
        "remove": [gone],
        "pad_to_multiple_of": 64,
    }
    report = wb.merge([(base, 1.0), (other, 0.0)], tmp_path / "more", to="safetensors", tokenizer=section)
    assert len(report.tensors) == 20
    made, before = wb.open(tmp_path / "more"), base[name].dequantize()
    rows = made[name].dequantize()
    assert made.config.vocab_size == len(rows) == 576
    assert np.array_equal(rows[:511], before[:511])
    assert np.allclose(rows[511], before[:511].mean(0), atol=1e-3)
    assert np.allclose(rows[512], wb.open(other)[name].dequantize()[1], atol=1e-3)
    assert made.tokenizer is not None
    assert made.tokenizer.tokens[511:] == ["<mean>", "<copy>"]
    united = wb.merged([assets / "hf", tmp_path / "more"], tokenizer="union")
    assert united[name].shape == (514, 256)
    with pytest.raises(wb.MismatchError, match="which is not merged"):
        wb.merged([base], tokenizer="elsewhere")
    # The tokenizer of transformers reads what was written.
    tokenizers = pytest.importorskip("tokenizers")
    found = tokenizers.Tokenizer.from_file(str(tmp_path / "more" / "tokenizer.json"))
    assert found.encode("a<copy>").ids[-1] == 512 and found.token_to_id(gone) is None
