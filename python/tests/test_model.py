"""Opening, mappings, tensors."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import weighbridge as wb

Q = "layers.1.attention.q.weight"


def test_a_model_is_a_mapping(sample: Path) -> None:
    model = wb.open(sample)
    assert len(model) == 20 and Q in model and "absent" not in model
    assert set(model) == set(model.keys()) and model[Q].shape == (256, 256)
    assert {tensor.name for tensor in model.values()} == set(model)
    assert len(model.stored) == 20 and next(iter(model.stored)) in model.stored
    assert model.config.dim == 256 and model.config["dim"] == 256 and model.missing == []
    assert model.container in repr(model) and model.architecture == "llama"
    assert "<table>" in model._repr_html_()
    with pytest.raises(AttributeError):
        model.config.absent  # type: ignore[attr-defined]


def test_metadata_and_tokenizer(assets: Path) -> None:
    model = wb.open(assets / "sample-Q8_0.gguf")
    assert model.metadata["general.architecture"] == "llama"
    assert model.metadata["llama.embedding_length"] == 256
    tokens = model.metadata["tokenizer.ggml.tokens"]
    assert len(tokens) == 512 and isinstance(tokens[300], str)
    assert dict(model.metadata).keys() == set(model.metadata)
    with pytest.raises(KeyError):
        model.metadata["absent"]
    assert model.tokenizer is not None and len(model.tokenizer) == 512
    assert model.tokenizer.tokens[300] == tokens[300]


def test_values_are_those_of_the_program(sample: Path, tmp_path: Path) -> None:
    for name in (Q, "output_norm.weight"):
        path = tmp_path / "values"
        command = [sys.executable, "-m", "weighbridge._program", "dump", str(sample), name]
        subprocess.run([*command, "--as", "f32", "-o", str(path)], check=True)
        expected = np.fromfile(path, "<f4")
        path.unlink()
        tensor = wb.open(sample)[name]
        assert np.array_equal(tensor.dequantize().ravel(), expected)
        assert np.array_equal(tensor.numpy().astype(np.float32).ravel(), expected)


def test_rows_and_dtypes(sample: Path) -> None:
    tensor = wb.open(sample)[Q]
    whole = tensor.dequantize()
    assert np.array_equal(tensor[10:20].dequantize(), whole[10:20])
    assert np.array_equal(tensor[-1].dequantize(), whole[-1]) and len(tensor) == 256
    half = tensor.dequantize("float16")
    assert half.dtype == np.float16 and np.array_equal(half, whole.astype(np.float16))
    out = np.empty((10, 256), np.float32)
    assert tensor[10:20].dequantize(out=out) is out and np.array_equal(out, whole[10:20])
    assert np.array_equal(np.asarray(tensor[0:1], dtype=np.float32), whole[:1])
    with pytest.raises(wb.MismatchError):
        tensor.dequantize(out=np.empty((3, 256), np.float32))
    with pytest.raises(wb.MismatchError):
        tensor.dequantize(out=np.empty((256, 512), np.float32)[:, ::2])
    assert np.array_equal(tensor[::2].dequantize(), whole[::2])
    with pytest.raises(IndexError):
        tensor[256]


def test_raw_parts(assets: Path) -> None:
    tensor = wb.open(assets / "mlx-4bit")[Q]
    parts = {part.part: part for part in tensor.parts}
    assert set(parts) == {"weight", "scale", "bias"} and tensor.nbytes == sum(
        part.nbytes for part in parts.values()
    )
    for name, part in parts.items():
        raw = tensor.raw(name)
        with part.path.open("rb") as file:
            file.seek(part.offset)
            assert raw.tobytes() == file.read(part.nbytes)
    assert tensor.raw("scale").shape == parts["scale"].shape
    assert wb.open(assets / "sample-Q8_0.gguf").stored["blk.0.attn_q.weight"].raw().nbytes == 69632
    with pytest.raises(KeyError):
        tensor.raw("zero_point")


def test_memory_is_shared_and_read_only(assets: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    shutil.copy(assets / "hf" / "model.safetensors", path)
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    model = wb.open(path)
    name = next(iter(model.stored))
    a, b = (model.stored[name].raw() for _ in range(2))
    assert a.ctypes.data == b.ctypes.data and not a.flags.writeable
    with pytest.raises(ValueError):
        a[...] = 0
    assert not model.stored[name].numpy().flags.writeable
    assert not np.asarray(model.stored[name]).flags.writeable
    own = model.stored[name].numpy(copy=True)
    own.view(np.uint8).ravel()[:100] ^= 0xFF
    assert np.array_equal(a.view(np.uint8), b.view(np.uint8))
    del model
    assert int(a.view(np.uint16).astype(np.int64).sum()) > 0
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert not np.array_equal(
        wb.open(path).stored[name].raw().view(np.uint8), own.view(np.uint8)
    )


def test_both_protocol_versions(assets: Path) -> None:
    tensor = wb.open(assets / "hf")["output_norm.weight"]
    assert tensor.__dlpack_device__() == (1, 0)
    assert '"dltensor"' in repr(tensor.__dlpack__(stream=None))
    assert '"dltensor_versioned"' in repr(tensor.__dlpack__(max_version=(1, 0)))
    with pytest.raises(BufferError):
        tensor.__dlpack__(dl_device=(2, 0))
    array = tensor._native.packed("weight")
    array.__dlpack__()
    with pytest.raises(RuntimeError):
        array.__dlpack__()


def test_a_pool_of_threads_shares_a_model(sample: Path) -> None:
    model = wb.open(sample)
    names = list(model) * 4
    with ThreadPoolExecutor(8) as pool:
        sums = list(pool.map(lambda name: float(model[name].dequantize().sum()), names))
    assert sums[:20] == sums[20:40] == sums[60:]


@pytest.mark.parametrize(
    ("path", "classes", "kind"),
    [
        ("absent", (wb.PathNotFoundError, FileNotFoundError), "not_found"),
        ("empty", (wb.DamagedError, ValueError), "unknown_container"),
        ("cut.gguf", (wb.DamagedError, ValueError), "malformed"),
    ],
)
def test_exceptions(
    path: str, classes: tuple[type[Exception], ...], kind: str, assets: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").write_bytes(b"nothing")
    whole = (assets / "sample-Q8_0.gguf").read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[:30_000])
    with pytest.raises(wb.Error) as raised:
        wb.open(tmp_path / path)
    error = raised.value
    assert all(isinstance(error, one) for one in classes) and error.kind == kind
    assert error.path == tmp_path / path and path in str(error)
    assert (error.tensor is not None) == (error.offset is not None) == (kind == "malformed")
    assert error.key is None


def test_other_exceptions(assets: Path) -> None:
    model = wb.open(assets / "hf")
    with pytest.raises(KeyError) as raised:
        model["absent"]
    assert isinstance(raised.value, wb.NotFoundError) and "absent" in str(raised.value)
    with pytest.raises(wb.MismatchError):
        model[Q].dequantize(out=np.empty((256, 256), np.int8))
    with pytest.raises(wb.MismatchError):
        wb.open(assets / "hf", strictness="absent")  # type: ignore[arg-type]


def test_the_program_is_installed() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "weighbridge._program", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.startswith(f"weighbridge {wb.__version__}")
    absent = [sys.executable, "-m", "weighbridge._program", "inspect", "absent"]
    assert subprocess.run(absent).returncode == 5


def test_a_family_from_a_file(assets: Path, tmp_path: Path) -> None:
    folder = tmp_path / "boreal"
    shutil.copytree(assets / "hf", folder)
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"llama"', '"boreal"'))
    assert wb.open(folder).architecture is None

    family = tmp_path / "boreal.family"
    family.write_text("[family boreal]\nhf boreal\nrope half_split\ntensors decoder\n")
    wb.add_families(family)
    model = wb.open(folder)
    assert model.architecture == "boreal"
    assert model["output_norm.weight"].shape == (256,)

    family.write_text("[family boreal]\nrope round\n")
    with pytest.raises(wb.DamagedError, match="line 2: rope"):
        wb.add_families(family)
