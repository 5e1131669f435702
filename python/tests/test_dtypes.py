"""Dtypes that NumPy has only with `ml_dtypes`; the dtype of an array that values are written to."""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weighbridge as wb

SMALL = {
    "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
}


@pytest.fixture
def small(tmp_path: Path) -> wb.Model:
    """A tensor of each dtype that NumPy lacks, and one that it has."""
    import ml_dtypes

    values = np.array([[0.5, 1.0, 2.0], [4.0, 8.0, 16.0]], np.float32)
    arrays = {dtype: values.astype(getattr(ml_dtypes, name)) for dtype, name in SMALL.items()}
    wb.save_file({**arrays, "F32": values}, tmp_path / "small.safetensors")
    return wb.open(tmp_path / "small.safetensors")


def test_with_ml_dtypes(small: wb.Model) -> None:
    import ml_dtypes

    values = small.stored["F32"].numpy()
    for dtype, name in SMALL.items():
        tensor = small.stored[dtype]
        for array in (tensor.numpy(), np.asarray(tensor), tensor.raw(), tensor[0:2].numpy()):
            assert array.dtype == getattr(ml_dtypes, name), dtype
            assert np.array_equal(array.astype(np.float32), values), dtype
    half = small.stored["F32"].dequantize("bfloat16")
    assert half.dtype == ml_dtypes.bfloat16 and np.array_equal(half.astype(np.float32), values)


def refused(use: Any, tensor: str, dtype: str) -> None:
    with pytest.raises(wb.UnsupportedError, match=f"NumPy has no {dtype}") as raised:
        use()
    assert raised.value.tensor == tensor and tensor in raised.value.message
    assert raised.value.advice is not None and "install" in raised.value.advice
    assert "float32" in raised.value.advice


def test_without_ml_dtypes_numbers_are_not_given_as_integers(
    small: wb.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    import weighbridge.numpy as wbn

    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    values = small.stored["F32"].numpy()
    for dtype in SMALL:
        tensor = small.stored[dtype]
        refused(tensor.numpy, dtype, dtype)
        refused(tensor[0].numpy, dtype, dtype)
        refused(lambda tensor=tensor: np.asarray(tensor), dtype, dtype)
        refused(lambda tensor=tensor: np.array(tensor), dtype, dtype)
        refused(lambda tensor=tensor: np.stack(list(tensor)), dtype, dtype)
        refused(lambda tensor=tensor: tensor.dequantize("bfloat16"), dtype, "BF16")
        # What the advice says works.
        assert np.array_equal(tensor.dequantize(), values)
        assert np.array_equal(np.asarray(tensor, dtype="float32"), values)
        assert np.asarray(tensor, dtype="float64").dtype == np.float64
        assert np.array_equal(np.asarray(tensor, dtype=int), values.astype(int))
        raw = tensor.raw()
        assert raw.dtype == np.uint8 and raw.nbytes == tensor.nbytes and raw.ndim == 1
    refused(lambda: wbn.load_file(small), "BF16", "BF16")
    refused(lambda: wbn.load_file(small, copy=True), "BF16", "BF16")
    for name in ("bfloat16", "BF16", "bf16"):
        with pytest.raises(wb.UnsupportedError, match="NumPy has no BF16"):
            wbn.load_file(small, dtype=name)
    state = wbn.load_file(small, dtype="float32")
    assert all(np.array_equal(array, values) for array in state.values())


def test_an_old_ml_dtypes(small: wb.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    import ml_dtypes

    old = types.SimpleNamespace(bfloat16=ml_dtypes.bfloat16)
    monkeypatch.setitem(sys.modules, "ml_dtypes", old)
    assert small.stored["BF16"].numpy().dtype == ml_dtypes.bfloat16
    refused(small.stored["F8_E8M0"].numpy, "F8_E8M0", "F8_E8M0")
    assert small.stored["F8_E8M0"].raw().dtype == np.uint8


def test_raw_bytes_without_ml_dtypes_are_those_of_the_file(
    small: wb.Model, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expected = {dtype: small.stored[dtype].raw().tobytes() for dtype in SMALL}
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    writer = wb.Writer("safetensors")
    for dtype in SMALL:
        tensor = small.stored[dtype]
        assert tensor.raw().tobytes() == expected[dtype]
        writer.add_raw(dtype, tensor.raw(), dtype, tensor.shape)
    writer.write(tmp_path / "again.safetensors")
    again = wb.open(tmp_path / "again.safetensors").stored
    assert {name: one.dtype for name, one in again.items()} == {dtype: dtype for dtype in SMALL}
    assert {name: one.raw().tobytes() for name, one in again.items()} == expected


def test_the_program_needs_neither(assets: Path) -> None:
    code = (
        "import sys; sys.modules['ml_dtypes'] = None; import weighbridge as wb\n"
        "print(wb.open(sys.argv[1])['output_norm.weight'].dequantize().mean())"
    )
    command = [sys.executable, "-c", code, str(assets / "hf")]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert 0 < float(ran.stdout) < 10


def test_the_dtype_of_out(assets: Path) -> None:
    import ml_dtypes

    tensor = wb.open(assets / "hf")["layers.0.attention.q.weight"]
    exact = tensor.dequantize()
    for name, kind in (("float32", np.float32), ("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16)):
        out = np.empty(tensor.shape, kind)
        spellings: list[Any] = [None, name, name.upper(), kind, np.dtype(kind), name.replace("loat", "")]
        for spelling in spellings:
            assert tensor.dequantize(spelling, out=out) is out
            assert np.array_equal(out, exact.astype(kind))
            if spelling is not None:
                assert tensor.dequantize(spelling).dtype == kind
        for other in {"float32", "float16", "bfloat16"} - {name}:
            with pytest.raises(wb.MismatchError, match="out has the dtype"):
                tensor.dequantize(other, out=out)  # type: ignore[arg-type]
    assert exact.dtype == np.float32
    for wrong in ("float64", "int8", np.float64, "absent"):
        with pytest.raises(wb.MismatchError, match="not float32, float16 or bfloat16"):
            tensor.dequantize(wrong)  # type: ignore[arg-type]
