"""Verbs, progress, Ctrl-C, writing."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weighbridge as wb


def test_reports(assets: Path, tmp_path: Path) -> None:
    gguf, hf = assets / "sample-Q8_0.gguf", assets / "hf"
    report = wb.inspect(gguf)
    assert (report.container, report.tensor_count) == ("gguf", 20) and len(report["tensors"]) == 20
    assert "container" in repr(report)
    hashes = wb.hash(wb.open(gguf), values=True)
    assert len(hashes.tensors) == 20 and len(hashes.tensors[0]["raw_sha256"]) == 64
    assert wb.verify(hf, deep=True) and wb.verify(hf).faults == []
    assert wb.diff(hf, hf).is_equal and not wb.diff(gguf, hf).is_equal
    assert wb.diff(gguf, hf, tolerance=1.0).is_equal
    with pytest.raises(TypeError, match="use is_equal"):
        bool(wb.diff(hf, hf))
    assert wb.diff(hf, hf).relative_rms == 0 and wb.diff(hf, hf).matrices == 15
    error = wb.diff(hf, gguf)
    assert error.relative_rms is not None
    assert error.matrices == 15 and 0.004 < error.relative_rms < 0.007
    wb.convert(hf, tmp_path / "same.gguf")
    again = wb.diff(tmp_path / "same.gguf", gguf).relative_rms
    assert again is not None and abs(again - error.relative_rms) < 1e-9
    with pytest.raises(AttributeError):
        report.absent


def test_conversion_and_back(assets: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    report = wb.convert(
        assets / "sample-Q8_0.gguf",
        tmp_path / "mlx",
        to="mlx",
        lossless=True,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert not report.dry_run and report.bytes > 1_000_000 and seen[-1][0] == seen[-1][1]
    assert wb.diff(assets / "sample-Q8_0.gguf", tmp_path / "mlx").is_equal
    wb.convert(tmp_path / "mlx", tmp_path / "again.gguf")
    assert wb.diff(tmp_path / "mlx", tmp_path / "again.gguf").is_equal
    with pytest.raises(wb.MismatchError):
        wb.convert(tmp_path / "mlx", tmp_path / "again.gguf")
    with pytest.raises(wb.MismatchError):
        wb.convert(tmp_path / "mlx", tmp_path / "x")
    with pytest.raises(wb.MismatchError):
        wb.convert(tmp_path / "mlx", tmp_path / "x.gguf", to="mlx")


def test_quantization(assets: Path, tmp_path: Path) -> None:
    report = wb.quantize(assets / "hf", tmp_path / "q.gguf", "Q4_K_M")
    assert {tensor["dtype"] for tensor in report.tensors} >= {"Q4_K", "F32"}
    report = wb.quantize(
        assets / "hf", tmp_path / "r.gguf", "Q8_0", tensor_type=["attn_v=q6_k"], prune_layers=[1],
        override_kv=["general.name=str:Mine"], extra_keys=False, token_embedding_type="F16",
    )
    dtypes = {tensor["name"]: tensor["dtype"] for tensor in report.tensors}
    assert dtypes["blk.0.attn_v.weight"] == "Q6_K" and dtypes["token_embd.weight"] == "F16"
    quantized = wb.open(tmp_path / "r.gguf")
    assert quantized.config.n_layers == 1 and quantized.metadata["general.name"] == "Mine"
    assert wb.quantize(assets / "hf", tmp_path / "m", mlx="affine", bits=4, group_size=32)
    mixed = wb.quantize(
        assets / "hf", tmp_path / "n", mlx="affine", group_size=32, quant_predicate="mixed_3_6"
    )
    assert len({tensor["dtype"] for tensor in mixed.tensors}) > 2
    assert wb.open(tmp_path / "m").container == "mlx"
    with pytest.raises(wb.MismatchError):
        wb.quantize(assets / "hf", tmp_path / "x.gguf", "absent")
    with pytest.raises(wb.MismatchError):
        wb.quantize(assets / "hf", tmp_path / "x.gguf")


def test_options_that_take_several(assets: Path, tmp_path: Path) -> None:
    for name in ("tensor_type", "override_kv", "include_weights", "exclude_weights", "prune_layers"):
        options: dict[str, Any] = {name: "attn_v=q6_k"}
        with pytest.raises(wb.MismatchError, match=f"{name} is the string"):
            wb.quantize(assets / "hf", tmp_path / "q.gguf", "Q8_0", **options)
    with pytest.raises(wb.MismatchError, match="fuse is the string"):
        wb.convert(assets / "hf", tmp_path / "ranks", shards="tp=2", fuse="qkv")
    types = (rule for rule in ["attn_v=q6_k"])
    report = wb.quantize(assets / "hf", tmp_path / "q.gguf", "Q8_0", tensor_type=types, dry_run=True)
    dtypes = {tensor["name"]: tensor["dtype"] for tensor in report.tensors}
    assert dtypes["blk.0.attn_v.weight"] == "Q6_K"


def test_layers_to_prune_exist(assets: Path, tmp_path: Path) -> None:
    for layers in ([9], [0, 2], [2**40]):
        with pytest.raises(wb.MismatchError, match="the last one is layer 1"):
            wb.quantize(assets / "hf", tmp_path / "q.gguf", "Q8_0", prune_layers=layers)
    assert not (tmp_path / "q.gguf").exists()


def test_split_and_merge(assets: Path, tmp_path: Path) -> None:
    source = assets / "sample-Q8_0.gguf"
    report = wb.split(source, tmp_path / "part", max_tensors=8)
    assert len(report.written) == 3
    wb.merge(report.written[0], tmp_path / "one.gguf", align=64)
    assert wb.diff(source, tmp_path / "one.gguf").is_equal


def test_create(assets: Path, tmp_path: Path) -> None:
    wb.create(
        "tales:int4", assets / "hf", quantize="int4", system="Tell.", store=tmp_path,
        parameters={"temperature": 0.5},
    )
    manifest = next(path for path in (tmp_path / "manifests").rglob("*") if path.is_file())
    assert wb.open(manifest).container == "ollama"
    wb.create("tales:q4_0", assets / "hf", quantize="q4_0", store=tmp_path / "gguf")
    manifest = next(path for path in (tmp_path / "gguf/manifests").rglob("*") if path.is_file())
    assert wb.open(manifest)["layers.1.attention.q.weight"].dtype == "Q4_0"


def test_decoded_groups_have_the_dtype_of_their_scales(assets: Path, tmp_path: Path) -> None:
    wb.quantize(assets / "hf", tmp_path / "mlx", mlx="affine", bits=4, group_size=32)
    wb.convert(tmp_path / "mlx", tmp_path / "plain", to="mlx", dequantize=True)
    scales = wb.open(assets / "hf")["layers.1.attention.q.weight"].dtype
    assert wb.open(tmp_path / "plain")["layers.1.attention.q.weight"].dtype == scales


def test_create_from_a_modelfile(assets: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    (tmp_path / "Modelfile").write_text(
        f"FROM {assets / 'sample-Q8_0.gguf'}\nSYSTEM Tell.\nPARAMETER temperature 0.5\n"
    )
    wb.create("told", modelfile=tmp_path / "Modelfile", store=store)
    wb.create(
        "all", assets / "hf", modelfile=tmp_path / "Modelfile", template="{{ .Prompt }}",
        parameters={"stop": ["a", "b"], "seed": 7}, license="Free.", message=[("user", "Hi")],
        renderer="qwen3-coder", parser="qwen3-coder", requires="0.14.0", store=store,
    )
    with pytest.raises(wb.MismatchError):
        wb.create("all", assets / "hf", store=store)
    with pytest.raises(wb.MismatchError):
        wb.create("none", store=store)
    with pytest.raises(wb.MismatchError):
        wb.create("none", assets / "hf", quantize="absent", store=store)
    with pytest.raises(wb.MismatchError):
        wb.create("none", assets / "hf", adapter=assets / "sample-Q8_0.gguf", store=store)

    def shown(name: str, part: str) -> str:
        manifest = store / "manifests" / "registry.ollama.ai" / "library" / name / "latest"
        command = [sys.executable, "-m", "weighbridge._program", "show", str(manifest)]
        ran = subprocess.run([*command, part], capture_output=True, text=True, check=True)
        return ran.stdout.strip()

    assert shown("told", "--system") == shown("all", "--system") == "Tell."
    assert "temperature" in shown("told", "--parameters")
    assert shown("all", "--template") == "{{ .Prompt }}" and shown("all", "--license") == "Free."
    assert shown("all", "--parameters").count("stop") == 2
    assert "MESSAGE user Hi" in shown("all", "--modelfile")


def test_tqdm(assets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    wb.hash(assets / "hf", progress=True)
    assert "100%" in capsys.readouterr().err


def test_an_exception_of_the_callback_cancels(tmp_path: Path) -> None:
    big = large(tmp_path)

    def refuse(done: int, total: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        wb.quantize(big, tmp_path / "q.gguf", "Q4_K", allow_incomplete=True, progress=refuse)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["big.gguf"]


def large(folder: Path) -> Path:
    """A model whose hashing and quantization take more than a moment."""
    path = folder / "big.gguf"
    writer = wb.Writer("gguf")
    for key, value in {
        "general.architecture": "llama", "llama.embedding_length": 4096, "llama.block_count": 1,
        "llama.attention.head_count": 32, "llama.feed_forward_length": 4096,
        "llama.context_length": 64, "llama.attention.layer_norm_rms_epsilon": 1e-5,
    }.items():
        writer.set(key, value)
    values = np.random.default_rng(1).standard_normal((16384, 4096), np.float32)
    writer.add("token_embd.weight", values)
    writer.write(path)
    return path


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_is_honoured(tmp_path: Path) -> None:
    script = (
        "import sys, weighbridge as wb\n"
        "print('begun', flush=True)\n"
        "while True: wb.hash(sys.argv[1], values=True, threads=1)\n"
    )
    path = large(tmp_path)
    running = subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert running.stdout is not None
    running.stdout.readline()
    time.sleep(0.2)
    start = time.monotonic()
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=30)
    assert b"KeyboardInterrupt" in said, said
    # Half a second, and what a busy machine takes to end a process.
    assert time.monotonic() - start < 3


def test_a_model_of_ones_own(tmp_path: Path) -> None:
    values = np.arange(512, dtype=np.float32).reshape(2, 256)
    for path in (tmp_path / "a.gguf", tmp_path / "a.safetensors"):
        report = wb.save_file({"x": values, "y": values[0].astype(np.int8)}, path)
        assert report.written == [str(path)]
        stored = wb.open(path).stored
        assert np.array_equal(stored["x"].numpy(), values)
        assert np.array_equal(stored["y"].numpy(), values[0].astype(np.int8))
    wb.save_file({"x": values, "b": values[0]}, tmp_path / "q.gguf", dtype="Q8_0")
    stored = wb.open(tmp_path / "q.gguf").stored
    assert (stored["x"].dtype, stored["b"].dtype) == ("Q8_0", "F32")
    assert np.abs(stored["x"].numpy() - values).max() < 2

    writer = wb.Writer("gguf")
    for key, value in {
        "a": True, "b": -3, "c": 2**40, "d": 0.5, "e": "text", "f": [1, 2], "g": ["x", "y"],
        "h": [0.5, 1.5], "i": [True, False],
    }.items():
        writer.set(key, value)
    writer.add("x", wb.open(tmp_path / "q.gguf").stored["x"])
    writer.write(tmp_path / "m.gguf")
    metadata = wb.open(tmp_path / "m.gguf").metadata
    assert [metadata[key] for key in "abcdefghi"] == [
        True, -3, 2**40, 0.5, "text", [1, 2], ["x", "y"], [0.5, 1.5], [True, False],
    ]
    writer.write(tmp_path / "n.gguf")
    assert (tmp_path / "n.gguf").read_bytes() == (tmp_path / "m.gguf").read_bytes()
    with pytest.raises(wb.UnsupportedError):
        wb.save_file({"x": np.array(["text"])}, tmp_path / "n.gguf")
    writer = wb.Writer("safetensors", one_file=False)
    writer.document("config.json", {"model_type": "mine"})
    writer.add("x", values)
    writer.write(tmp_path / "folder")
    assert (tmp_path / "folder" / "config.json").is_file()


def test_a_file_type_is_for_gguf(assets: Path, tmp_path: Path) -> None:
    source = assets / "hf"
    with pytest.raises(wb.MismatchError, match=r"x\.safetensors is the name of a safetensors file"):
        wb.quantize(source, tmp_path / "x.safetensors", "Q4_K_M")
    with pytest.raises(wb.MismatchError, match="a file type is for GGUF, but to is mlx"):
        wb.merge([source], tmp_path / "x", file_type="Q4_K_M", to="mlx")
    assert not list(tmp_path.iterdir())
