"""Plans in slices, without a cluster: a stand-in for Ray runs each task at once."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import weighbridge as wb


class Task:
    """A function that runs when it is sent to a worker."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def options(self, **_: Any) -> Task:
        return self

    def remote(self, *arguments: Any) -> Any:
        return self.function(*arguments)


@pytest.fixture
def slices() -> Iterator[Any]:
    """`weighbridge.ray` on the stand-in."""
    stand_in: Any = ModuleType("ray")
    stand_in.remote = Task
    stand_in.wait = lambda running: (running, [])
    stand_in.get = lambda done: done
    stand_in.cancel = lambda task: None
    stand_in.exceptions = SimpleNamespace(RayTaskError=type("RayTaskError", (Exception,), {}))
    names = ("ray", "weighbridge.ray")
    before = {name: sys.modules.pop(name, None) for name in names}
    attribute = wb.__dict__.pop("ray", None)
    sys.modules["ray"] = stand_in
    try:
        yield importlib.import_module("weighbridge.ray")
    finally:
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module
        wb.__dict__.pop("ray", None)
        if attribute is not None:
            setattr(wb, "ray", attribute)  # noqa: B010


@pytest.fixture
def checkpoint(assets: Path, tmp_path: Path) -> Path:
    """A copy of the sample, which may be changed."""
    return Path(shutil.copytree(assets / "hf", tmp_path / "checkpoint"))


def change(path: Path) -> None:
    """Changes one byte."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(("name", "to"), [("out.gguf", "gguf"), ("out", "mlx")])
def test_a_changed_source_is_converted_again(
    slices: Any, checkpoint: Path, tmp_path: Path, name: str, to: str
) -> None:
    destination = tmp_path / name
    slices.convert(checkpoint, destination, to=to, slices=2)
    change(checkpoint / "model.safetensors")
    report = slices.convert(checkpoint, destination, to=to, slices=2, overwrite=True)
    assert report.replaced
    assert wb.diff(checkpoint, destination).is_equal
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(["checkpoint", name])


def test_a_damaged_destination_is_written_again(
    slices: Any, checkpoint: Path, tmp_path: Path
) -> None:
    destination = tmp_path / "out.gguf"
    slices.convert(checkpoint, destination, to="gguf", slices=2)
    whole = destination.read_bytes()
    change(destination)
    slices.convert(checkpoint, destination, to="gguf", slices=2, overwrite=True)
    assert destination.read_bytes() == whole


def test_a_finished_plan_stays_finished(slices: Any, checkpoint: Path, tmp_path: Path) -> None:
    destination, path = tmp_path / "out.gguf", tmp_path / "plan.json"
    plan = slices.plan("convert", checkpoint, destination, path=path, overwrite=True)
    first = slices.run(plan, slices=2)
    whole = destination.stat()
    again = slices.run(plan, slices=2)
    assert again.written == first.written and again.bytes == first.bytes
    assert destination.stat().st_mtime_ns == whole.st_mtime_ns, "nothing was written"
    content = destination.read_bytes()
    change(destination)
    slices.run(plan, slices=3)
    assert destination.read_bytes() == content


def test_a_folder_of_other_files_is_not_replaced(
    slices: Any, checkpoint: Path, tmp_path: Path
) -> None:
    destination = tmp_path / "models"
    destination.mkdir()
    (destination / "a.gguf").write_bytes(b"mine")
    for convert in (slices.convert, wb.convert):
        with pytest.raises(wb.MismatchError, match=r"a\.gguf"):
            convert(checkpoint, destination, to="mlx", overwrite=True)
        assert [one.name for one in destination.iterdir()] == ["a.gguf"]
    wb.convert(checkpoint, tmp_path / "m", to="mlx")
    dry = wb.convert(checkpoint, tmp_path / "m", to="mlx", overwrite=True, dry_run=True)
    assert len(dry.replaced) == len(list((tmp_path / "m").iterdir()))
    ran = wb.convert(checkpoint, tmp_path / "m", to="mlx", overwrite=True)
    assert ran.replaced == dry.replaced


def test_options_are_checked(slices: Any, checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(wb.MismatchError, match="overwritee") as raised:
        slices.convert(checkpoint, tmp_path / "out.gguf", overwritee=True, slices=2)
    assert raised.value.kind == "mismatch"
    report = slices.convert(wb.open(checkpoint), tmp_path / "out.gguf", slices=2, extra_keys=False)
    assert report.written and set(report) >= {"written", "replaced", "bytes", "notes"}
    wb.convert(checkpoint, tmp_path / "same.gguf", extra_keys=False)
    assert (tmp_path / "out.gguf").read_bytes() == (tmp_path / "same.gguf").read_bytes()
