"""Sizes in bytes, as people write them."""

from __future__ import annotations

import re
from typing import Union

from ._errors import exception

Size = Union[int, str]
"""A number of bytes, or a text such as `"5GB"` or `"256MiB"`."""

_UNITS = {"": 1, "b": 1} | {
    name + unit: base**power
    for power, name in enumerate("kmgt", 1)
    for unit, base in (("", 1000), ("b", 1000), ("ib", 1024))
}


def size(name: str, given: Size | None) -> int | None:
    """The number of bytes of an option.

    >>> size("max_shard_size", "5GB"), size("max_memory", "1 MiB")
    (5000000000, 1048576)
    """
    if given is None:
        return None
    if isinstance(given, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", given)
        if found and found[2].lower() in _UNITS:
            given = int(float(found[1]) * _UNITS[found[2].lower()])
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        fault = f"{name} is {given!r}, not a number of bytes"
        raise exception("mismatch", fault, advice=f"write it as in {name}=\"5GB\" or {name}=2**30")
    return given


def count(name: str, given: int) -> int:
    """An option that is a number, and not negative."""
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise exception("mismatch", f"{name} is {given!r}, not a number from 0")
    return given
