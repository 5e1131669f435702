"""Indexing tensors, with NumPy as the judge."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import weighbridge as wb

FIXTURES = Path(__file__).parents[2] / "tests" / "fixtures"


def numbers(shape: tuple[int, ...], dtype: Any) -> Any:
    return (np.arange(1, 1 + int(np.prod(shape))) % 100).reshape(shape).astype(dtype)


def stored(folder: Path, arrays: dict[str, Any]) -> dict[str, wb.Tensor]:
    wb.save_file(arrays, folder / "arrays.safetensors")
    return dict(wb.open(folder / "arrays.safetensors").stored)


def some_index(of: random.Random, shape: tuple[int, ...], unit: int = 1, steps: bool = True) -> Any:
    """An index as NumPy takes it. Along the last axis, it starts and ends at multiples of `unit`."""
    index: list[Any] = []
    for axis, length in enumerate(shape):
        is_last = axis == len(shape) - 1
        each = unit if is_last else 1
        if each == 1 and length and of.random() < 0.4:
            number = of.randrange(-length, length)
            kinds: list[Any] = [int, np.int64, np.int16, np.array]
            index.append(of.choice(kinds)(number))
            continue
        ends = [None, *range(-length - 2 * each, length + 2 * each, each)]
        step = of.choice([None, 1, 2, 3, -1, -2]) if steps and not is_last else None
        index.append(slice(of.choice(ends), of.choice(ends), step))
    first, end = sorted(of.randint(0, len(shape)) for _ in range(2))
    way = of.randrange(4)
    if way == 0:
        return tuple(index)
    if way == 1:
        return index[0] if index else ()
    return tuple(index[:first]) if way == 2 else (*index[:first], ..., *index[end:])


DTYPES = ["float32", "float16", "float64", "int8", "uint16", "int64", "bool", "bfloat16", "float8_e4m3fn"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_index_is_numpys(dtype: str, tmp_path: Path) -> None:
    import ml_dtypes

    of = random.Random(dtype)
    kind = getattr(ml_dtypes, dtype, None) or np.dtype(dtype)
    shapes = [tuple(of.choice([1, 2, 3, 5, 8]) for _ in range(ndim)) for ndim in (1, 1, 2, 2, 3, 3, 4)]
    arrays = {str(shape): numbers(shape, kind) for shape in [*shapes, (0,), (3, 0), (0, 3), (1, 1)]}
    for name, tensor in stored(tmp_path, arrays).items():
        array = arrays[name]
        for _ in range(60):
            index = some_index(of, array.shape)
            part = tensor[index]
            expected = array[index]
            assert part.shape == expected.shape and part.size == expected.size, (name, index)
            found = part.numpy()
            assert found.dtype == array.dtype and found.shape == expected.shape, (name, index)
            assert found.tobytes() == expected.tobytes(), (name, index)
            # A part has parts.
            again = some_index(of, part.shape, steps=False)
            assert part[again].numpy().tobytes() == expected[again].tobytes(), (name, index, again)
            values = part.dequantize()
            assert np.array_equal(values, expected.astype(np.float32), equal_nan=True), (name, index)


def test_python_and_numpy_see_a_sequence(tmp_path: Path) -> None:
    arrays = {
        "experts": numbers((4, 6, 5), np.float32), "matrix": numbers((3, 4), np.float16),
        "vector": numbers((7,), np.int32), "scalar": np.float32(3),
    }
    tensors = stored(tmp_path, {name: np.asarray(array) for name, array in arrays.items()})
    for name in ("experts", "matrix", "vector"):
        tensor, array = tensors[name], arrays[name]
        assert len(tensor) == len(array) == len(list(tensor))
        assert np.array_equal(np.stack(list(tensor)), array)
        assert np.array_equal(np.array(tensor[0]), array[0])
        assert np.array_equal(np.stack(list(reversed(tensor))), array[::-1])
        assert [one.shape for one in tensor] == [array.shape[1:]] * len(array)
    assert tensors["experts"][2].shape == (6, 5) and tensors["experts"][1:2].shape == (1, 6, 5)
    assert np.array_equal(np.asarray(tensors["experts"][-1, 2:4, 1:3]), arrays["experts"][-1, 2:4, 1:3])
    scalar = tensors["scalar"]
    assert scalar[()].numpy() == 3 and scalar[...].shape == ()
    for use in (len, iter, list):
        with pytest.raises(TypeError):
            use(scalar)
    with pytest.raises(IndexError):
        scalar[0]


def test_what_is_not_an_index(tmp_path: Path) -> None:
    tensor = stored(tmp_path, {"x": numbers((3, 4), np.float32)})["x"]
    for index in (3, -4, np.int64(3), (0, 4), (0, -5), (slice(None), 9)):
        with pytest.raises(IndexError, match="out of bounds"):
            tensor[index]
    with pytest.raises(IndexError, match="too many indices"):
        tensor[0, 0, 0]
    with pytest.raises(IndexError, match="only one ellipsis"):
        tensor[..., ...]
    arrays: list[Any] = [[0, 1], np.array([0, 1]), np.array([1]), ([0], 1)]
    wrong: list[Any] = [*arrays, None, (0, None), True, np.True_, "0", 1.0]
    for index in wrong:
        with pytest.raises(TypeError, match="integers, slices"):
            tensor[index]
    with pytest.raises(IndexError, match="step 1"):
        tensor[:, ::2]
    with pytest.raises(ValueError):
        tensor[::0]
    assert np.array_equal(tensor[0, ::2].numpy(), [1, 3]) and tensor[np.array(1)].shape == (4,)


def units(tensor: wb.Tensor) -> int:
    """The columns that cannot be separated: found by trying."""
    columns = tensor.shape[-1]
    for unit in (1, 2, 8, 16, 32, 64, 128, 256):
        try:
            tensor[..., :unit]
        except wb.MismatchError:
            continue
        return unit
    return columns


@pytest.mark.parametrize(
    "path",
    [
        "gguf/misc/alltypes.gguf",
        "gguf/model/mixtral-bf16.gguf",
        "gguf/split/mixtral-split-00001-of-00003.gguf",
        "../../assets/sample/mlx-4bit",
    ],
)
@pytest.mark.parametrize("names", ["stored", "canonical"])
def test_quantized_tensors(path: str, names: Literal["stored", "canonical"]) -> None:
    of = random.Random(path)
    model = wb.open(FIXTURES / path)
    tried = 0
    for tensor in model.tensors(names).values():
        try:
            whole = tensor.dequantize()
        except wb.UnsupportedError:
            continue
        unit = units(tensor)
        for _ in range(6):
            index = some_index(of, tensor.shape, unit)
            part = tensor[index]
            assert part.shape == whole[index].shape, (tensor, index)
            assert np.array_equal(part.dequantize(), whole[index], equal_nan=True), (tensor, index)
            tried += 1
    assert tried > 20


@pytest.mark.parametrize("folder", sorted(one.name for one in (FIXTURES / "hfq").iterdir()))
def test_schemes(folder: str) -> None:
    of = random.Random(folder)
    for name, tensor in wb.open(FIXTURES / "hfq" / folder).items():
        whole = tensor.dequantize()
        unit = units(tensor)
        for _ in range(4):
            index = some_index(of, tensor.shape, unit)
            assert np.array_equal(tensor[index].dequantize(), whole[index]), (name, index)


def test_columns_within_a_block(assets: Path) -> None:
    tensor = wb.open(assets / "sample-Q8_0.gguf")["layers.0.attention.q.weight"]
    whole = tensor.numpy()
    assert np.array_equal(tensor[3:5, 32:96].numpy(), whole[3:5, 32:96])
    assert np.array_equal(tensor[7][64:].numpy(), whole[7, 64:])
    for index in ((slice(None), slice(0, 5)), (3, slice(1, 32)), (3, 3)):
        with pytest.raises(wb.MismatchError, match="multiples of 32"):
            tensor[index]
    with pytest.raises(wb.MismatchError, match="multiples of 32"):
        tensor[3][::2]


def test_rows_that_are_stored_as_columns(tmp_path: Path) -> None:
    weight, bias = numbers((8, 6), np.float32), numbers((6,), np.float32)
    writer = wb.Writer("safetensors", one_file=False)
    writer.document(
        "config.json",
        {"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 2, "vocab_size": 10},
    )
    writer.add("h.0.mlp.c_fc.weight", weight)
    writer.add("h.0.mlp.c_fc.bias", bias)
    writer.write(tmp_path / "gpt2")
    tensor = wb.open(tmp_path / "gpt2")["layers.0.ffn.up.weight"]
    of = random.Random(1)
    for _ in range(100):
        index = some_index(of, tensor.shape)
        assert np.array_equal(tensor[index].numpy(), weight.T[index]), index
    assert np.array_equal(tensor[2, 3:7].numpy(), weight.T[2, 3:7])
    with pytest.raises(wb.UnsupportedError):
        tensor[2, ::2]


def test_parts_can_be_written(tmp_path: Path, assets: Path) -> None:
    experts = numbers((4, 6, 32), np.float32)
    tensor = stored(tmp_path, {"experts": experts})["experts"]
    parts = {"one": tensor[1], "row": tensor[2, 3], "some": tensor[1:3, ::2], "cut": tensor[0, :, 4:8]}
    expected = {"one": experts[1], "row": experts[2, 3], "some": experts[1:3, ::2], "cut": experts[0, :, 4:8]}
    for name in ("parts.gguf", "parts.safetensors"):
        wb.save_file(parts, tmp_path / name)
        written = wb.open(tmp_path / name).stored
        for part, array in expected.items():
            assert written[part].shape == array.shape
            assert np.array_equal(written[part].numpy(), array), part
    quantized = wb.open(assets / "sample-Q8_0.gguf").stored["blk.0.attn_q.weight"]
    wb.save_file({"a": quantized[3:7], "b": quantized[:, 32:64], "c": quantized[5]}, tmp_path / "q.gguf")
    written = wb.open(tmp_path / "q.gguf").stored
    values = quantized.numpy()
    assert {one.dtype for one in written.values()} == {"Q8_0"}
    for name, array in {"a": values[3:7], "b": values[:, 32:64], "c": values[5]}.items():
        assert np.array_equal(written[name].numpy(), array), name


def test_shards_along_every_axis(tmp_path: Path) -> None:
    array = numbers((5, 4, 3), np.float32)
    tensor = stored(tmp_path, {"x": array})["x"]
    for axis in range(3):
        parts = [tensor.shard(axis, rank, 2).numpy() for rank in range(2)]
        assert np.array_equal(np.concatenate(parts, axis), array)
        assert parts[0].shape[axis] == -(-array.shape[axis] // 2)
    for axis, rank, of in ((3, 0, 2), (-1, 0, 2), (0, 2, 2), (0, -1, 2)):
        with pytest.raises(wb.MismatchError):
            tensor.shard(axis, rank, of)


def test_consecutive_rows_share_the_memory_of_the_file(tmp_path: Path) -> None:
    tensor = stored(tmp_path, {"rows": numbers((8, 6), "float32")})["rows"]
    whole = tensor.numpy()
    for index in (slice(2, 5), 3, (slice(1, 7), ...)):
        rows = tensor[index].numpy()
        assert np.shares_memory(rows, whole) and not rows.flags.writeable
    assert not np.shares_memory(tensor[1:7:2].numpy(), whole)
    assert not np.shares_memory(tensor[:, 1:3].numpy(), whole)
    assert not np.shares_memory(tensor[2:5].numpy(copy=True), whole)
    own = np.from_dlpack(tensor[2:5])
    own[:] = 0
    assert (tensor[2:5].numpy() == whole[2:5]).all() and whole[2:5].any()
