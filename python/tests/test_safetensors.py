"""The drop-in for the package `safetensors`, beside the package where it is installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weighbridge as wb
import weighbridge.safetensors as sf
from weighbridge.safetensors import numpy as sfn


def arrays() -> dict[str, Any]:
    import ml_dtypes

    numbers = np.random.default_rng(1)
    found = {
        name: numbers.integers(0, 2, (3, 4)).astype(name)
        for name in ("bool", "u1", "i1", "u2", "i2", "f2", "u4", "i4", "f4", "u8", "i8", "f8", "c8")
    }
    found |= {
        name: np.ones((2, 5), getattr(ml_dtypes, name))
        for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz")
    }
    return found | {"scalar": np.array(3.5), "empty": np.zeros((2, 0), np.float32), "b": np.ones(1)}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path, all_arrays = tmp_path / "x.safetensors", arrays()
    sfn.save_file(all_arrays, path, metadata={"b": "2", "a": "1"})
    assert path.read_bytes() == sfn.save(all_arrays, {"a": "1", "b": "2"})
    header = json.loads(path.read_bytes()[8:].split(b"}}", 1)[0] + b"}}")
    assert header["__metadata__"] == {"a": "1", "b": "2"} and next(iter(header)) == "__metadata__"
    for found in (sfn.load_file(path), sfn.load(path.read_bytes())):
        assert set(found) == set(all_arrays)
        for name, array in all_arrays.items():
            assert found[name].dtype == array.dtype and np.array_equal(found[name], array), name
    before = path.read_bytes()
    found = sfn.load_file(path)
    found["f4"][...] = 7
    assert path.read_bytes() == before and sfn.load_file(path)["f4"][0, 0] != 7
    assert {name for name, _ in sf.deserialize(before)} == set(all_arrays)


def test_the_bytes_are_those_of_the_package(tmp_path: Path) -> None:
    theirs = pytest.importorskip("safetensors.numpy")
    plain = {n: a for n, a in arrays().items() if not n.startswith("float8")}
    for metadata in (None, {"format": "np"}):
        assert sfn.save(plain, metadata) == theirs.save(plain, metadata)
    torch = pytest.importorskip("torch")
    theirs_torch = pytest.importorskip("safetensors.torch")
    from weighbridge.safetensors import torch as sft

    tensors = {
        str(dtype): torch.zeros(2, 3).to(dtype)
        for dtype in (torch.bfloat16, torch.float8_e5m2, torch.int64, torch.complex64, torch.bool)
    }
    assert sft.save(tensors) == theirs_torch.save(tensors)
    sft.save_file(tensors, tmp_path / "x.safetensors")
    for name, tensor in theirs_torch.load_file(tmp_path / "x.safetensors").items():
        assert torch.equal(tensor.view(torch.uint8), tensors[name].view(torch.uint8))


def test_slices(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    array = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    sfn.save_file({"x": array}, path)
    with sf.safe_open(path, framework="np") as file:
        assert file.keys() == ["x"] and file.metadata() is None
        part = file.get_slice("x")
        assert part.get_shape() == [3, 4, 5] and part.get_dtype() == "F32"
        indices: tuple[Any, ...] = (
            0, -1, slice(1, 3), (slice(None), 2), (..., slice(1, 4)), (1, slice(None), -2), (), [],
        )
        for index in indices:
            assert np.array_equal(part[index], array[index]), index
        for wrong in ([0], (0, 4), slice(0, 4), (0, 0, 0, 0), slice(None, None, -1), "x"):
            with pytest.raises(sf.SafetensorError):
                part[wrong]
        with pytest.raises(sf.SafetensorError, match="does not contain tensor y"):
            file.get_tensor("y")
    with pytest.raises(sf.SafetensorError, match="closed"):
        file.keys()


def test_every_array_is_shown(assets: Path) -> None:
    path = assets / "mlx-4bit" / "model.safetensors"
    names = set(sfn.load_file(path))
    assert {"model.layers.0.mlp.up_proj.scales", "model.layers.0.mlp.up_proj.weight"} <= names
    with sf.safe_open(path, framework="np") as file:
        assert set(file.keys()) == names == set(file.offset_keys())


def test_damaged_files(tmp_path: Path) -> None:
    good = sfn.save({"x": np.ones(4, np.float32)})
    for bad in (good[:-1], good[:20], b"", good[:8] + b"?" + good[9:], good + b"x"):
        with pytest.raises(sf.SafetensorError):
            sfn.load(bad)
        (tmp_path / "bad").write_bytes(bad)
        with pytest.raises(sf.SafetensorError):
            sfn.load_file(tmp_path / "bad")
    with pytest.raises(FileNotFoundError, match="No such file or directory"):
        sf.safe_open(tmp_path / "absent", framework="np")
    with pytest.raises(sf.SafetensorError):
        sf.TensorSpec(dtype="nonsense", shape=[1], data_ptr=0, data_len=0)


def test_shared_tensors(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from weighbridge.safetensors import torch as sft

    class Tied(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.a = torch.nn.Linear(3, 3)
            self.b = self.a

    model, other, path = Tied(), Tied(), tmp_path / "x.safetensors"
    with pytest.raises(RuntimeError, match="share memory"):
        sft.save_file(model.state_dict(), path)
    sft.save_model(model, path)
    assert wb.open(path).metadata["b.weight"] == "a.weight"
    assert sft.load_model(other, path) == (set(), [])
    assert torch.equal(other.b.weight, model.a.weight)


@pytest.mark.parametrize("framework", ["np", "pt"])
def test_slices_with_steps(tmp_path: Path, framework: str) -> None:
    if framework == "pt":
        pytest.importorskip("torch")
    values = np.arange(120, dtype=np.float32).reshape(4, 5, 6)
    sfn.save_file({"x": values}, tmp_path / "x.safetensors")
    with sf.safe_open(tmp_path / "x.safetensors", framework) as file:
        part = file.get_slice("x")
        for index in (
            np.s_[::2], np.s_[1::2], np.s_[:, ::2], np.s_[..., ::3], np.s_[::3, 1:4:2], np.s_[-1],
            np.s_[-2:, 0], np.s_[0, ..., 2:4],
        ):
            assert np.array_equal(np.asarray(part[index]), values[index]), index
        assert set(file.get_tensors()) == {"x"}
        with pytest.raises((sf.SafetensorError, ValueError), match="step"):
            part[::-1]
        if framework == "pt":
            # As PyTorch indexes.
            assert part[[0, 2]].shape == (2, 5, 6) and part[:, None].shape == (4, 1, 5, 6)
            assert part[:100].shape == (4, 5, 6)
    with pytest.raises(sf.SafetensorError, match="backend disk is invalid"):
        sf.safe_open(tmp_path / "x.safetensors", framework, backend="disk")


def test_files_of_other_containers_are_refused(assets: Path) -> None:
    content = (assets / "sample-Q8_0.gguf").read_bytes()
    with pytest.raises(sf.SafetensorError, match="the file is in gguf"):
        sf.safe_open(assets / "sample-Q8_0.gguf", "np")
    with pytest.raises(sf.SafetensorError, match="the file is in gguf"):
        sf.deserialize(content)
    with pytest.raises(IsADirectoryError):
        sf.safe_open(assets / "hf", "np")


def test_floats_of_four_bits() -> None:
    import ml_dtypes

    values = np.array([[0.5, -6, 0, 3]]).astype(ml_dtypes.float4_e2m1fn)
    [(name, found)] = sf.deserialize(sfn.save({"x": values}))
    assert (name, found["dtype"], found["shape"]) == ("x", "F4", [1, 4])
    assert bytes(found["data"]) == bytes([0xF1, 0x50])


def test_a_slice_copies_only_what_it_selects(assets: Path) -> None:
    with sf.safe_open(assets / "hf" / "model.safetensors", "np") as file:
        name = file.keys()[0]
        one, other = file.get_slice(name), file.get_slice(name)
        assert np.shares_memory(one._view, other._view)
        rows, element = one[3:5], one[3, 4]
        assert isinstance(element, np.ndarray) and element.shape == ()
        assert not np.shares_memory(rows, one._view) and rows.flags.writeable
        assert np.array_equal(rows, file.get_tensor(name)[3:5])


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(sf.SafetensorError, match="the folder .* does not exist"):
        sfn.save_file({"x": np.ones(2)}, tmp_path / "absent" / "x.safetensors")
