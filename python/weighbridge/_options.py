"""Options of verbs. Each is defined once, with its type, its default and its description."""

from __future__ import annotations

import difflib
import functools
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Annotated, Any, TypedDict, TypeVar

from ._dtypes import DType, parse
from ._errors import exception
from ._progress import Progress
from ._sizes import Size, count, size

F = TypeVar("F", bound=Callable[..., Any])


class Option:
    """The default of an option, its description, and the function of its name and a value that checks
    the value."""

    def __init__(
        self, default: object, doc: str, read: Callable[[str, Any], Any] = lambda _, given: given
    ) -> None:
        self.default, self.doc, self.read = default, doc, read


def flag(_: str, given: object) -> bool:
    """A value that is true or false."""
    return bool(given)


def dtype(_: str, given: DType | None) -> str | None:
    """A dtype, if one is given."""
    return None if given is None else parse(given)


def several(name: str, given: Iterable[Any]) -> list[Any]:
    """The members of an option that takes several. A string would be taken apart into letters."""
    if isinstance(given, (str, bytes)):
        fault = f"{name} is the string {given!r}, not a list"
        raise exception("mismatch", fault, advice=f"write {name}=[{given!r}]")
    return list(given)


class WriteOptions(TypedDict, total=False):
    """Options of everything that writes a model."""

    overwrite: Annotated[bool, Option(False, "replace an existing destination once the new one is complete", flag)]
    allow_incomplete: Annotated[bool, Option(False, "write a model that lacks tensors, or that the container's usual reader does not load", flag)]
    allow_nonfinite: Annotated[bool, Option(False, "quantize blocks with NaN or infinities; none of their values is kept", flag)]
    dry_run: Annotated[bool, Option(False, "write nothing, and report what would be written", flag)]
    threads: Annotated[int, Option(0, "0 means one for each processor", count)]
    max_memory: Annotated[Size | None, Option(None, "bytes of buffers, as in \"1GiB\"", size)]
    progress: Annotated[Progress, Option(None, "a function of what is done and the total, or True for a bar")]


@functools.cache
def _known(definition: type) -> dict[str, tuple[Any, Option]]:
    """The types and the definitions of the options of a TypedDict, those of all verbs last."""
    hints = typing.get_type_hints(definition, include_extras=True)
    names = sorted(hints, key=lambda name: name in WriteOptions.__annotations__)
    return {name: (typing.get_args(hints[name])[0], hints[name].__metadata__[0]) for name in names}


def read(definition: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of all options, checked; the default of those that are not given."""
    known = _known(definition)
    return {name: one.read(name, given.get(name, one.default)) for name, (_, one) in known.items()}


def takes(definition: type) -> Callable[[F], F]:
    """Gives a function the options of a TypedDict as keywords: in place of its last parameter, it gets
    the values of all of them. Its signature and its documentation list them."""
    known = _known(definition)
    lines = "\n".join(f"    - `{name}`: {one.doc}." for name, (_, one) in known.items())

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        *own, _ = signature.parameters.values()
        names = {one.name for one in own}

        @functools.wraps(function)
        def checked(*positional: Any, **given: Any) -> Any:
            for name in given:
                if name not in known and name not in names:
                    near = difflib.get_close_matches(name, known, 1)
                    advice = f"; the most similar one is {near[0]!r}" if near else ""
                    raise TypeError(f"{function.__name__}() has no option {name!r}{advice}")
            return function(*positional, **{**given, **read(definition, given)})

        keyword = inspect.Parameter.KEYWORD_ONLY
        options = (
            inspect.Parameter(name, keyword, default=one.default, annotation=kind)
            for name, (kind, one) in known.items()
        )
        setattr(checked, "__signature__", signature.replace(parameters=[*own, *options]))
        text, example, rest = (function.__doc__ or "").partition("\n\n    >>> ")
        checked.__doc__ = f"{text.rstrip()}\n\n{lines}\n{example and chr(10) + example.lstrip(chr(10))}{rest}"
        return typing.cast(F, checked)

    return decorate


def native(options: Mapping[str, Any]) -> SimpleNamespace:
    """Options for the native module, which reads attributes."""
    return SimpleNamespace(**options)
