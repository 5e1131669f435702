"""Editing metadata in place, the models of this machine, and downloads."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from . import _native
from ._arrays import Frame
from ._model import PathLike
from ._model import open as _open
from ._options import no_effect, several
from ._progress import Progress, callback
from ._writer import typed

__all__ = ["edit_metadata", "models", "pull"]


def edit_metadata(
    path: PathLike,
    values: Mapping[str, Any] | None = None,
    *,
    remove: Iterable[str] = (),
    types: Mapping[str, str] | None = None,
) -> str:
    """Sets and removes metadata of a GGUF file, or of a model in Ollama's store.

    A key to remove must exist. A key that exists keeps its type, unless `types` has another. The file is changed in place where
    that is safe, else rewritten and replaced. Returns how: `in_place`, `rewritten` or `new_blob`.

    >>> import shutil, tempfile
    >>> copy = shutil.copy("model.gguf", tempfile.mkdtemp())
    >>> how = wb.edit_metadata(copy, {"general.name": "Mine"}, remove=["general.size_label"])
    >>> wb.open(copy).metadata["general.name"]
    'Mine'
    """
    removed = several("remove", remove)
    with _open(path) as model:
        known = model.metadata.types
        for key in removed:
            model.metadata.check(key)
    for key in types or {}:
        if key not in (values or {}):
            raise no_effect(f"types[{key!r}]", "without a value of the key")
    settings = []
    for key, value in (values or {}).items():
        kind, value = typed(key, value, (types or {}).get(key, known.get(key)))
        settings.append((key, kind, value))
    return _native.edit_metadata(os.fspath(path), settings, removed)


def models(*folders: PathLike, filter: str = "*") -> Frame:
    """The models on this machine, in the folders of the programs that have some and in `folders`. A
    row has the `path` to open. `filter` is a pattern of names."""
    found = json.loads(_native.models([os.fspath(folder) for folder in folders], filter))
    return Frame(found["models"])


def pull(
    name: str,
    folder: PathLike | None = None,
    *,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    progress: Progress = None,
) -> Path:
    """Downloads a model of the hub (`hf://ORG/NAME`), of Ollama's registry or from a plain address, to
    the cache of its program or to `folder`. Returns the path to open. `include` and `exclude` are
    patterns of the names of files."""
    target = None if folder is None else os.fspath(folder)
    names = several("include", include), several("exclude", exclude)
    with callback(progress) as shown:
        return Path(_native.pull(name, target, *names, shown))
