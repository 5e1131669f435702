"""Conversions whose slices are tasks of Ray."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import weighbridge as wb

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """Two workers on this machine."""
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture
def checkpoint(assets: Path) -> Path:
    return assets / "hf"


def contents(path: Path) -> dict[str, bytes]:
    files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    return {str(one.relative_to(path)): one.read_bytes() for one in files}


def of_slices() -> list[int]:
    """Processes that write slices, and the workers of Ray."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if b"ray::_slice" in words or (b"weighbridge._program" in words and b"slice\0" in words):
            found.append(int(process.name))
    return found


def test_bytes_are_those_of_one_process(sample: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    report = wb.ray.convert(
        sample,
        tmp_path / "sliced",
        to="mlx",
        slices=7,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert report.bytes > 0
    assert seen[-1] == (7, 7) and len(seen) <= 7
    wb.convert(sample, tmp_path / "whole", to="mlx")
    assert contents(tmp_path / "sliced") == contents(tmp_path / "whole")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["sliced", "whole"]


@pytest.mark.parametrize("extra", [True, False])
def test_keys_of_our_own_are_written_or_not(extra: bool, checkpoint: Path, tmp_path: Path) -> None:
    wb.ray.convert(checkpoint, tmp_path / "sliced.gguf", slices=2, extra_keys=extra)
    wb.convert(checkpoint, tmp_path / "whole.gguf", extra_keys=extra)
    assert (tmp_path / "sliced.gguf").read_bytes() == (tmp_path / "whole.gguf").read_bytes()


def test_killed_workers_are_replaced(checkpoint: Path, tmp_path: Path) -> None:
    wb.quantize(checkpoint, tmp_path / "whole.gguf", "Q4_K_M", allow_incomplete=True)
    numbers = random.Random(5)
    killed = 0

    def kill(done: int, total: int) -> None:
        nonlocal killed
        time.sleep(numbers.random() / 10)
        for process in of_slices()[:1]:
            os.kill(process, signal.SIGKILL)
            killed += 1

    wb.ray.quantize(
        checkpoint,
        tmp_path / "sliced.gguf",
        "Q4_K_M",
        allow_incomplete=True,
        slices=6,
        retries=20,
        progress=kill,
    )
    assert killed > 0
    assert contents(tmp_path / "sliced.gguf") == contents(tmp_path / "whole.gguf")


def test_a_driver_that_is_started_again_goes_on(checkpoint: Path, tmp_path: Path) -> None:
    script = (
        "import ray, sys, weighbridge as wb\n"
        "ray.init(num_cpus=2, include_dashboard=False, logging_level='ERROR')\n"
        "wb.ray.convert(sys.argv[1], sys.argv[2], to='gguf', slices=12,"
        " progress=lambda done, total: print(done, flush=True))\n"
    )
    destination = tmp_path / "sliced.gguf"
    command = [sys.executable, "-c", script, str(checkpoint), str(destination)]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert driver.stdout is not None
    assert int(driver.stdout.readline()) >= 1
    driver.kill()
    driver.wait()
    assert not destination.exists() and destination.with_name("sliced.gguf.plan.json").exists()
    wb.ray.convert(checkpoint, destination, to="gguf", slices=12)
    wb.convert(checkpoint, tmp_path / "whole.gguf")
    assert contents(destination) == contents(tmp_path / "whole.gguf")


def test_faults_are_errors_of_the_package(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(wb.PathNotFoundError) as absent:
        wb.ray.convert(tmp_path / "absent", tmp_path / "x.gguf", to="gguf")
    assert str(absent.value.path).endswith("absent")
    # A source that was replaced since it was planned.
    source = tmp_path / "source.gguf"
    wb.convert(checkpoint, source)
    plan = wb.ray.plan("convert", source, tmp_path / "y", path=tmp_path / "plan.json", to="mlx")
    source.unlink()
    wb.quantize(checkpoint, source, "Q8_0", allow_incomplete=True)
    with pytest.raises(wb.Error) as changed:
        wb.ray.run(plan, slices=2)
    assert changed.value.kind in ("mismatch", "malformed") and not (tmp_path / "y").exists()
    # Another plan is not overwritten.
    with pytest.raises(wb.MismatchError, match="another plan"):
        wb.ray.plan("convert", checkpoint, tmp_path / "z", path=plan, to="mlx")
    # An exception of the caller ends the tasks.
    options: dict[str, Any] = {"slices": 8, "progress": lambda done, total: 1 / 0}
    with pytest.raises(ZeroDivisionError):
        wb.ray.convert(checkpoint, tmp_path / "w", to="mlx", **options)
    assert not (tmp_path / "w").exists()
    wb.ray.convert(checkpoint, tmp_path / "w", to="mlx")
    assert wb.verify(tmp_path / "w", deep=True)


def test_a_destination_that_exists(checkpoint: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"mine")
    with pytest.raises(FileExistsError) as raised:
        wb.ray.convert(checkpoint, path, slices=2)
    assert isinstance(raised.value, wb.PathExistsError) and raised.value.filename == str(path)
    assert path.read_bytes() == b"mine"
