"""Progress of long calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable, Union

from ._errors import exception

Progress = Union[bool, Callable[[int, int], object], None]
"""A function that is called with what is done and the total, in bytes or values; True for a bar of
tqdm, if it is installed; None for nothing. An exception of the function cancels the call."""


def checked(name: str, given: Progress) -> Progress:
    """An option that shows progress."""
    if given is None or isinstance(given, bool) or callable(given):
        return given
    fault = f"{name} is {given!r}, not a function of what is done and the total, True or None"
    raise exception("mismatch", fault)


@contextmanager
def callback(progress: Progress, unit: str = "B") -> Iterator[Callable[[int, int], object] | None]:
    """The function for the native module."""
    if callable(progress):
        yield progress
        return
    if not checked("progress", progress):
        yield None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        yield None
        return
    bar: Any = tqdm(unit=unit, unit_scale=unit == "B")
    with bar:

        def show(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield show
