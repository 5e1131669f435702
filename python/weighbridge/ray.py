"""Conversions whose slices run as tasks of a Ray cluster.

A plan says what is written. Each task writes its slice of it, and the driver checks all slices and moves
the files to their place. The bytes are those of one process. Source, destination and plan must be on a
file system that all nodes reach by the same paths. A task that is lost runs again; a driver that is
started again goes on from the same plan.
"""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ray as _ray

from ._errors import exception
from ._model import Model
from ._progress import Progress, callback
from ._verbs import Report, Source

__all__ = ["FinishReport", "convert", "finish", "plan", "quantize", "run"]

Option = bool | int | str | Path | list[str]


class FinishReport(Report):
    """What the slices of a plan wrote."""

    written: list[str]
    replaced: list[str]
    bytes: int
    notes: list[str]


def convert(src: Source, dst: str | Path, **options: Any) -> FinishReport:
    """Converts a model: `weighbridge job plan convert SRC DST`, then `run`.

    The program's options are keywords: `to="gguf"`, `dtype="F16"`, `overwrite=True`. Those of `plan` and
    `run` are accepted too.
    """
    return _both("convert", [src, dst], options)


def quantize(src: Source, dst: str | Path, file_type: str, **options: Any) -> FinishReport:
    """Quantizes a model to a GGUF file: `weighbridge job plan quantize SRC DST TYPE`, then `run`.

    `imatrix="weights.dat"` and the other options of the program are keywords.
    """
    return _both("quantize", [src, dst, file_type], options)


def plan(verb: str, *arguments: str | Path, path: str | Path, **options: Option) -> Path:
    """Plans `convert`, `quantize`, `split` or `merge` with the arguments of the program, into a new file.

    A file that is already there is kept if it is the same plan.
    """
    words = ["plan", verb, *map(str, arguments), *_flags(options), "--json"]
    path = Path(path).absolute()
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    try:
        _program([*words, "--output", str(draft)])
        if not path.exists():
            draft.rename(path)
            # That of an earlier plan of this name.
            _record(path).unlink(missing_ok=True)
        elif _digest(path) != _digest(draft):
            fault = "the file holds another plan"
            raise exception("mismatch", fault, path, advice="delete it, or choose another")
    finally:
        draft.unlink(missing_ok=True)
    return path


def run(
    path: str | Path,
    *,
    slices: int = 64,
    threads: int = 1,
    retries: int = 3,
    progress: Progress = None,
    ray_options: Mapping[str, Any] | None = None,
) -> FinishReport:
    """Runs a plan in slices, each a task with `threads` processors, and finishes it.

    A task whose process or node is lost is repeated up to `retries` times. `ray_options` are those of
    `ray.remote`: `{"resources": {"store": 1}}` runs the tasks on the nodes that have the files.
    `progress` gets the number of slices that are done, and their number. Ctrl-C or an exception of
    `progress` cancels the tasks; what they have written stays for the next run.
    """
    path = Path(path).absolute()
    status = _status(path)
    if not status["finished"] and status["missing"]:
        _run_slices(path, slices, threads, retries, progress, dict(ray_options or {}))
    return finish(path)


def finish(path: str | Path) -> FinishReport:
    """Checks all slices of a plan, and moves its files to their place.

    A plan that is finished, and whose files are still the same, stays as it is.
    """
    return FinishReport(_program(["finish", str(Path(path).absolute()), "--json"]))


def _run_slices(
    path: Path,
    slices: int,
    threads: int,
    retries: int,
    progress: Progress,
    ray_options: dict[str, Any],
) -> None:
    options = {
        "num_cpus": threads,
        "max_retries": retries,
        "retry_exceptions": [_Killed],
        "scheduling_strategy": "SPREAD",
    }
    task = _ray.remote(_slice).options(**(options | ray_options))
    running = [task.remote(str(path), number, slices, threads) for number in range(1, slices + 1)]
    left = running
    try:
        with callback(progress, "slice") as shown:
            while left:
                done, left = _ray.wait(left)
                # An error of a slice ends the run.
                _ray.get(done)
                if shown is not None:
                    shown(slices - len(left), slices)
    except BaseException as error:
        for one in left:
            _ray.cancel(one)
        if isinstance(error, _ray.exceptions.RayTaskError):
            raise error.cause from None
        raise


def _slice(path: str, number: int, slices: int, threads: int) -> None:
    """Writes one slice. Runs on any node."""
    _program(["slice", path, f"{number}/{slices}", "--threads", str(threads), "--json"])


def _both(verb: str, given: list[Any], options: dict[str, Any]) -> FinishReport:
    arguments: list[str | Path] = [one.path if isinstance(one, Model) else one for one in given]
    names = ("slices", "threads", "retries", "progress", "ray_options")
    of_run = {name: options.pop(name) for name in names if name in options}
    destination = Path(arguments[1])
    # Beside an object in a store, no file can lie.
    folder = Path() if "://" in str(arguments[1]) else destination.parent
    path = options.pop("path", folder / f"{destination.name}.plan.json")
    made = plan(verb, *arguments, path=path, **options)
    report = run(made, **of_run)
    made.unlink()
    _record(made).unlink(missing_ok=True)
    return report


def _flags(options: Mapping[str, Option]) -> list[str]:
    """Keywords as options of the program."""
    words = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if name in _ON:
            words += [] if value else [f"--no-{flag.removeprefix('--')}"]
        elif isinstance(value, bool):
            words += [flag] if value else []
        elif isinstance(value, list):
            words += [f"{flag}={one}" for one in value]
        else:
            words.append(f"{flag}={value}")
    return words


_ON = ("extra_keys",)
"""Keywords that are true unless they are given: the program has options that turn them off."""


def _record(plan: Path) -> Path:
    """The record that `finish` leaves."""
    return plan.with_name(f".{plan.name}.finished")


def _digest(path: Path) -> str:
    try:
        return str(json.loads(path.read_text())["sha256"])
    except (KeyError, TypeError, ValueError):
        fault = "the file is not a plan"
        raise exception("mismatch", fault, path, advice="choose another name") from None


def _status(path: Path) -> dict[str, Any]:
    # The status 1 means that slices are missing.
    return _program(["status", str(path), "--json"], found=True)


def _program(words: list[str], *, found: bool = False) -> dict[str, Any]:
    """Runs the program, and returns its JSON. An error of the program is raised; the status 1 is one unless
    `found`."""
    command = [sys.executable, "-m", "weighbridge._program", *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode == 0 or (found and ran.returncode == 1):
        return json.loads(ran.stdout) if ran.stdout.startswith("{") else {}
    if ran.returncode < 0:
        raise _Killed(f"weighbridge {words[0]} was ended by signal {-ran.returncode}")
    try:
        members = json.loads("{\n" + ran.stderr.rpartition("\n{\n")[2].removeprefix("{\n"))
        members = {name: members[name] for name in _MEMBERS}
    except (KeyError, TypeError, ValueError):
        members = {"kind": "unsupported", "message": ran.stderr.strip()}
    exists = members["message"] == f"{members.get('path')}: already exists"
    raise exception(**members, errno=errno.EEXIST if exists else None)


_MEMBERS = ("kind", "message", "path", "tensor", "key", "offset", "advice")


class _Killed(Exception):
    """The program was killed: by the system, if memory ran out."""
