"""Exceptions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EEXIST as _EEXIST
from errno import ENOENT as _ENOENT
from os import PathLike
from pathlib import Path
from typing import Literal

__all__ = [
    "CancelledError",
    "DamagedError",
    "Error",
    "FileError",
    "MismatchError",
    "NotFoundError",
    "PathExistsError",
    "PathNotFoundError",
    "UnsupportedError",
]


Kind = Literal[
    "io", "not_found", "unknown_container", "malformed", "unsupported", "limit_exceeded",
    "mismatch", "cancelled", "out_of_memory", "device",
]
"""The class of an error."""


class Error(Exception):
    """An error of Weighbridge: what went wrong, where, and often what to do about it."""

    kind: Kind
    """The class of the error: `io`, `not_found`, `malformed` and others."""
    path: Path | None
    """The file or directory concerned."""
    tensor: str | None
    """The stored name of the tensor concerned."""
    key: str | None
    """The metadata key concerned."""
    offset: int | None
    """The byte offset in the file at which the faulty item starts."""
    advice: str | None
    """What to do about it."""
    message: str
    """What is wrong."""

    def __str__(self) -> str:
        return self.message if self.advice is None else f"{self.message}\n{self.advice}"

    def __reduce__(self) -> tuple[object, ...]:
        members = (self.tensor, self.key, self.offset, self.advice, self._in_model, self.errno)
        return exception, (self.kind, self.message, self.path, *members)

    _in_model: bool = False
    errno: int | None = None


class PathNotFoundError(Error, FileNotFoundError):
    """The path does not exist."""


class NotFoundError(Error, KeyError):
    """The model has no such tensor or key."""

    __str__ = Error.__str__


class FileError(Error, OSError):
    """The operating system reported an error."""


class DamagedError(Error, ValueError):
    """The file is damaged, incomplete, contradicts itself, exceeds a limit, or is no model."""


class MismatchError(Error, ValueError):
    """The request does not fit the model or the destination."""


class PathExistsError(MismatchError, FileExistsError):
    """The destination exists, and `overwrite` is not set."""


class UnsupportedError(Error, ValueError):
    """The file may be valid, but the request is unsupported."""


class CancelledError(Error):
    """The operation was cancelled."""


for _class in (Error, PathExistsError, *Error.__subclasses__()):
    # The name that users import.
    _class.__module__ = "weighbridge"

_CLASSES: dict[str, type[Error]] = {
    "io": FileError,
    "unknown_container": DamagedError,
    "malformed": DamagedError,
    "limit_exceeded": DamagedError,
    "unsupported": UnsupportedError,
    "mismatch": MismatchError,
    # A fault of the program's arguments.
    "usage": MismatchError,
    "cancelled": CancelledError,
}


_VALUED = frozenset({
    "dtype", "exclude", "filter", "imatrix", "include", "max_memory", "max_shard_size", "output",
    "quant_predicate", "quantize", "shards", "tensor_type", "threads", "to",
})
"""Options of the program that take a value, by their names as arguments."""


def _in_python(text: str) -> str:
    """A text in which options of the program have become arguments.

    >>> _in_python("replace it with --overwrite, or give --to gguf")
    'replace it with overwrite=True, or give to="gguf"'
    """

    def argument(found: re.Match[str]) -> str:
        name, value = found[1].replace("-", "_"), found[2]
        if name in _VALUED:
            return f"{name}=\"{value}\"" if value else f"{name}="
        return f"{name}=True" + (f" {value}" if value else "")

    # What stands between backquotes is a command for a shell.
    parts = re.split(r"(`[^`]*`)", text)
    option = r"(?<![\w-])--([a-z][a-z-]+)(?: (?=tp=|gguf|[A-Z])([A-Za-z0-9_=]+))?"
    return "".join(
        part if part.startswith("`") else re.sub(option, argument, part) for part in parts
    )


@contextmanager
def of_system(path: str | PathLike[str]) -> Iterator[None]:
    """Makes errors of Python's own file functions errors of this package."""
    try:
        yield
    except OSError as error:
        kinds = {_ENOENT: "not_found", _EEXIST: "mismatch"}
        fault = "already exists" if error.errno == _EEXIST else str(error.strerror or error)
        kind, message = kinds.get(error.errno or 0, "io"), f"{path}: {fault}"
        raise exception(kind, message, Path(path), errno=error.errno) from None


def exception(
    kind: str,
    message: str,
    path: Path | None = None,
    tensor: str | None = None,
    key: str | None = None,
    offset: int | None = None,
    advice: str | None = None,
    in_model: bool = False,
    errno: int | None = None,
) -> Error:
    """The exception of an error of the library."""
    message = _in_python(message)
    if kind == "not_found":
        # A path that exists is not what is missing.
        is_path = not in_model and (errno is not None or path is None or not Path(path).exists())
        is_path = is_path and (path is not None or errno is not None)
        error: Error = (PathNotFoundError if is_path else NotFoundError)(message)
        if is_path and errno is None:
            errno = _ENOENT
    elif kind == "mismatch" and errno == _EEXIST:
        error = PathExistsError(message)
    else:
        error = _CLASSES.get(kind, Error)(message)
    kind = "mismatch" if kind == "usage" else kind
    error.kind, error.message, error.path = kind, message, path  # type: ignore[assignment]
    error.tensor, error.key, error.offset = tensor, key, offset
    if in_model and advice is not None and advice.startswith("`weighbridge inspect"):
        advice = "list(model) has the names"
    error.advice = None if advice is None else _in_python(advice)
    error._in_model, error.errno = in_model, errno
    if isinstance(error, OSError):
        error.filename = None if path is None else str(path)
        error.strerror = message
    return error
