"""Options of verbs. Each is defined once, with its type, its default and its description."""

from __future__ import annotations

import difflib
import functools
import inspect
import os
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, Literal, TypedDict, TypeVar

from ._dtypes import DType, parse
from ._errors import Error, exception
from ._progress import Progress, checked
from ._sizes import Size, count, size

F = TypeVar("F", bound=Callable[..., Any])


def _as_it_is(_: str, given: Any) -> Any:
    return given


class Option:
    """The default of an option, its description, and the function of its name and a value that checks
    the value. `only` has the cases, such as containers, in which the option has an effect; none if it
    always has one."""

    def __init__(
        self,
        default: object,
        doc: str,
        read: Callable[[str, Any], Any] = _as_it_is,
        only: Sequence[str] = (),
    ) -> None:
        self.default, self.read, self.only = default, read, only
        self.doc = f"{doc} (only for {', '.join(only)})" if only else doc


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
    dry_run: Annotated[bool, Option(False, "write nothing, and report what would be written", flag)]
    threads: Annotated[int, Option(0, "0 means one for each processor", count)]
    max_memory: Annotated[Size | None, Option(None, "bytes of buffers, as in \"1GiB\"", size)]
    progress: Annotated[Progress, Option(None, "a function of what is done and the total, or True for a bar", checked)]


class ValueOptions(WriteOptions, total=False):
    """Options of what may quantize tensors."""

    allow_nonfinite: Annotated[bool, Option(False, "quantize blocks with NaN or infinities; none of their values is kept", flag)]


class CheckedOptions(ValueOptions, total=False):
    """Options of what also checks a model before it is written."""

    allow_incomplete: Annotated[bool, Option(False, "write a model that lacks tensors, or that the container's usual reader does not load", flag)]


@functools.cache
def _known(definition: type) -> dict[str, tuple[Any, Option]]:
    """The types and the definitions of the options of a TypedDict, those of all verbs last."""
    hints = typing.get_type_hints(definition, include_extras=True)
    names = sorted(hints, key=lambda name: name in CheckedOptions.__annotations__)
    return {name: (typing.get_args(hints[name])[0], hints[name].__metadata__[0]) for name in names}


_PLAIN = {str: "a text", int: "a number from 0", os.PathLike: "a path", type(None): "None"}
"""Types that are checked here, with their names for people. Others are checked by their functions."""


def _types(kind: Any) -> list[Any]:
    """The alternatives of a type: classes, and the values of literals."""
    if typing.get_origin(kind) is Literal:
        return list(typing.get_args(kind))
    if typing.get_origin(kind) in (typing.Union, UnionType):
        return [one for part in typing.get_args(kind) for one in _types(part)]
    return [typing.get_origin(kind) or kind]


def _check_type(name: str, kind: Any, given: object) -> None:
    """Refuses a value of another type, for which the native module has no words."""
    types = _types(kind)
    if any(one not in _PLAIN and not isinstance(one, str) for one in types):
        return
    is_plain = any(isinstance(one, type) and isinstance(given, one) for one in types)
    is_negative = isinstance(given, int) and given < 0
    if is_plain and not is_negative and not isinstance(given, bool):
        return
    if isinstance(given, str) and given in types:
        return
    said = [repr(one) if isinstance(one, str) else _PLAIN[one] for one in types if one is not type(None)]
    words = ", ".join(dict.fromkeys(said[:-1])) + " or " * (len(said) > 1) + said[-1]
    raise exception("mismatch", f"{name} is {given!r}, not {words}")


def read(definition: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of all options, checked; the default of those that are not given."""
    found = {}
    for name, (kind, one) in _known(definition).items():
        value = one.read(name, given.get(name, one.default))
        if one.read is _as_it_is:
            _check_type(name, kind, value)
        found[name] = value
    return found


def check_used(definition: type, values: Mapping[str, Any], case: str) -> None:
    """Refuses options that are given, and have no effect in this case."""
    for name, (_, one) in _known(definition).items():
        if one.only and case not in one.only and values[name] != one.read(name, one.default):
            raise no_effect(name, f"for {case}", f"it is for {', '.join(one.only)}")


def no_effect(name: str, where: str, advice: str | None = None) -> Error:
    """The error of an argument that would be ignored."""
    return exception("mismatch", f"{name} has no effect {where}", advice=advice)


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
        def called(*positional: Any, **given: Any) -> Any:
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
        setattr(called, "__signature__", signature.replace(parameters=[*own, *options]))
        text, example, rest = (function.__doc__ or "").partition("\n\n    >>> ")
        called.__doc__ = f"{text.rstrip()}\n\n{lines}\n{example and chr(10) + example.lstrip(chr(10))}{rest}"
        return typing.cast(F, called)

    return decorate


def native(options: Mapping[str, Any]) -> SimpleNamespace:
    """Options for the native module, which reads attributes, those of `CheckedOptions` too."""
    return SimpleNamespace(**{"allow_incomplete": False, "allow_nonfinite": False, **options})
