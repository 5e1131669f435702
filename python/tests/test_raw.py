"""Packed blocks, from one file to another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weighbridge as wb

ALL_TYPES = Path(__file__).parents[2] / "tests" / "fixtures" / "gguf" / "misc" / "alltypes.gguf"


def quantized() -> list[str]:
    stored = wb.open(ALL_TYPES).stored
    return [name for name, tensor in stored.items() if wb._native.is_quantized(tensor.dtype)]


def given(raw: Any, way: str) -> Any:
    """The same bytes in another object."""
    ways = {"array": raw, "bytes": raw.tobytes(), "bytearray": bytearray(raw), "view": memoryview(raw)}
    return ways[way]


@pytest.mark.parametrize("way", ["array", "bytes", "bytearray", "view"])
def test_raw_blocks_are_copied(way: str, tmp_path: Path) -> None:
    stored = wb.open(ALL_TYPES).stored
    writer = wb.Writer("gguf")
    for name, tensor in stored.items():
        writer.add_raw(name, given(tensor.raw().view(np.uint8), way), tensor.dtype, tensor.shape)
    writer.write(tmp_path / "again.gguf")
    again = wb.open(tmp_path / "again.gguf").stored
    assert len(quantized()) > 20 and list(again) == list(stored)
    for name, tensor in stored.items():
        copied = again[name]
        assert (copied.dtype, copied.shape) == (tensor.dtype, tensor.shape)
        assert copied.raw().tobytes() == tensor.raw().tobytes(), name


def test_tensors_are_copied_as_they_are(tmp_path: Path) -> None:
    stored = wb.open(ALL_TYPES).stored
    wb.save_file(stored, tmp_path / "again.gguf")
    again = wb.open(tmp_path / "again.gguf").stored
    for name, tensor in stored.items():
        assert again[name].raw().tobytes() == tensor.raw().tobytes(), name


@pytest.mark.parametrize("name", quantized())
def test_bytes_are_not_quantized(name: str, tmp_path: Path) -> None:
    tensor = wb.open(ALL_TYPES).stored[name]
    writer = wb.Writer("gguf")
    path = tmp_path / "wrong.gguf"
    with pytest.raises(wb.MismatchError, match="unsigned 8-bit") as raised:
        writer.add("x", tensor.raw(), dtype=tensor.dtype)
    assert raised.value.advice is not None and "add_raw" in raised.value.advice
    assert raised.value.tensor == "x"
    for raw in (tensor.raw(), tensor.raw().reshape(1, -1)):
        with pytest.raises(wb.MismatchError, match="unsigned 8-bit"):
            wb.save_file({"x": raw}, path, dtype=tensor.dtype)
    with pytest.raises(wb.MismatchError, match="not an array") as raised:
        writer.add("x", tensor.raw().tobytes(), dtype=tensor.dtype)
    assert raised.value.advice is not None and "add_raw" in raised.value.advice
    assert not path.exists()


@pytest.mark.parametrize("library", ["torch", "mlx.core", "jax.numpy"])
def test_other_libraries_have_bytes_too(library: str, tmp_path: Path) -> None:
    module: Any = pytest.importorskip(library)
    array = module.zeros(34, dtype=module.uint8)
    writer = wb.Writer("gguf")
    with pytest.raises(wb.MismatchError, match="unsigned 8-bit"):
        writer.add("x", array, dtype="Q8_0")
    writer.add_raw("x", array, "Q8_0", (1, 32))
    writer.write(tmp_path / "zeros.gguf")
    assert not wb.open(tmp_path / "zeros.gguf").stored["x"].numpy().any()


def test_what_is_not_an_array(tmp_path: Path) -> None:
    for wrong in ([1.0, 2.0], 3.0, b"bytes", bytearray(4), "text"):
        with pytest.raises(wb.MismatchError, match="not an array"):
            wb.save_file({"x": wrong}, tmp_path / "x.safetensors")
        with pytest.raises(wb.MismatchError, match="not an array"):
            wb.Writer("gguf").add("x", wrong)


def test_numbers_of_8_bits_are_still_numbers(tmp_path: Path) -> None:
    values = np.arange(64, dtype=np.uint8).reshape(2, 32)
    wb.save_file({"x": values}, tmp_path / "x.safetensors")
    assert np.array_equal(wb.open(tmp_path / "x.safetensors").stored["x"].numpy(), values)
    wb.save_file({"x": values}, tmp_path / "y.safetensors", dtype="F16")
    assert np.array_equal(wb.open(tmp_path / "y.safetensors").stored["x"].numpy(), values)
    wb.save_file({"x": values.astype(np.int8)}, tmp_path / "z.gguf", dtype="Q8_0")
    assert wb.open(tmp_path / "z.gguf").stored["x"].dtype == "Q8_0"


def test_raw_bytes_fit_their_shape(tmp_path: Path) -> None:
    block = bytes(34)
    writer = wb.Writer("gguf")
    for wrong in (block[:-1], block + b"0", b"", block * 2):
        with pytest.raises(wb.MismatchError, match="Q8_0 array of shape"):
            writer.add_raw("x", wrong, "Q8_0", (1, 32))
    with pytest.raises(wb.MismatchError):
        writer.add_raw("x", block, "Q8_0", (1, 31))
    with pytest.raises(wb.MismatchError, match="is not a dtype"):
        writer.add_raw("x", block, "Q8_9", (1, 32))
    with pytest.raises(wb.UnsupportedError, match="MLX_AFFINE4"):
        writer.add_raw("x", bytes(32), "MLX_AFFINE4", (1, 64))
    for other in ("text", 3, None):
        with pytest.raises((TypeError, wb.MismatchError)):
            writer.add_raw("x", other, "Q8_0", (1, 32))
    writer.add_raw("x", block, "q8_0", [np.int64(1), 32])
    writer.write(tmp_path / "x.gguf")
    assert wb.open(tmp_path / "x.gguf").stored["x"].raw().tobytes() == block
    # The bytes are copied or refused, not converted.
    for container in ("safetensors", "mlx"):
        with pytest.raises(wb.UnsupportedError, match="cannot hold Q8_0"):
            wb.Writer(container).add_raw("x", block, "Q8_0", (1, 32))


def test_memory_is_kept_until_the_model_is_written(tmp_path: Path) -> None:
    writer = wb.Writer("gguf")
    for number in range(50):
        writer.add_raw(str(number), bytes([number]) * 34_000, "Q8_0", (1000, 32))
    writer.write(tmp_path / "x.gguf")
    for name, tensor in wb.open(tmp_path / "x.gguf").stored.items():
        assert tensor.raw().tobytes() == bytes([int(name)]) * 34_000
