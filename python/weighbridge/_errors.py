"""Exceptions."""

from __future__ import annotations

from pathlib import Path

__all__ = [
    "CancelledError",
    "DamagedError",
    "Error",
    "FileError",
    "MismatchError",
    "NotFoundError",
    "PathNotFoundError",
    "UnsupportedError",
]


class Error(Exception):
    """An error of Weighbridge: what went wrong, where, and often what to do about it."""

    kind: str
    """`io`, `not_found`, `unknown_container`, `malformed`, `unsupported`, `limit_exceeded`,
    `mismatch` or `cancelled`."""
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


class UnsupportedError(Error, ValueError):
    """The file may be valid, but the request is unsupported."""


class CancelledError(Error):
    """The operation was cancelled."""


_CLASSES: dict[str, type[Error]] = {
    "io": FileError,
    "unknown_container": DamagedError,
    "malformed": DamagedError,
    "limit_exceeded": DamagedError,
    "unsupported": UnsupportedError,
    "mismatch": MismatchError,
    "cancelled": CancelledError,
}


def exception(
    kind: str,
    message: str,
    path: Path | None = None,
    tensor: str | None = None,
    key: str | None = None,
    offset: int | None = None,
    advice: str | None = None,
    in_model: bool = False,
) -> Error:
    """The exception of an error of the library."""
    if kind == "not_found":
        error: Error = (NotFoundError if in_model else PathNotFoundError)(message)
    else:
        error = _CLASSES.get(kind, Error)(message)
    error.kind, error.message, error.path = kind, message, path
    error.tensor, error.key, error.offset, error.advice = tensor, key, offset, advice
    return error
