"""Models."""

from __future__ import annotations

import difflib
import html
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Union

from . import _native
from ._config import Config
from ._errors import exception
from ._options import no_effect
from ._sizes import count
from ._tensor import Tensor

__all__ = ["Metadata", "Model", "StoredTensors", "Tokenizer", "open"]

Names = Literal["canonical", "stored", "huggingface", "mlx", "gguf"]
"""A convention for the names of tensors."""

Strictness = Literal["default", "strict", "lenient"]
"""How exactly a file must follow the rules of its format."""

PathLike = Union[str, "os.PathLike[str]"]
"""A path, or the name of a model."""


class _Keys(Mapping[str, Any]):
    """A mapping whose keys an interactive shell completes."""

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)


class StoredTensors(_Keys, Mapping[str, Tensor]):
    """The tensors of a model under the names of its files, with the files' rows and values."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __init__(self, model: Model) -> None:
        self._model = model

    def __getitem__(self, name: str) -> Tensor:
        return Tensor(self._model._native.stored_tensor(name), (_stored, (self._model, name)))

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __reduce__(self) -> tuple[object, ...]:
        return StoredTensors, (self._model,)

    @cached_property
    def _names(self) -> dict[str, None]:
        return dict.fromkeys(self._model._native.stored_names())

    def __repr__(self) -> str:
        return f"StoredTensors({len(self)} tensors)"


def _stored(model: Model, name: str) -> Tensor:
    return model.stored[name]


def _named(model: Model, names: str, ranks: tuple[tuple[int, int], ...], name: str) -> Tensor:
    """A tensor of a convention or of a rank, again."""
    return model._translated(names, ranks)[name]


Value = Union[bool, int, float, str, bytes, list[Any]]
"""A metadata value. Text that is not UTF-8 is bytes."""


class Metadata(_Keys):
    """The metadata of a model's files. A value is decoded when it is asked for; `types` has the types."""

    def __init__(self, native: _native.Model) -> None:
        self._native = native
        self._keys = dict.fromkeys(native.metadata_keys())

    def __getitem__(self, key: str) -> Any:
        self.check(key)
        return self._native.metadata_value(key)

    def check(self, key: str) -> None:
        """Raises a `NotFoundError` with the most similar key if there is no such key."""
        if key in self._keys:
            return
        near = difflib.get_close_matches(key, self._keys, 1, 0.5)
        advice = f"the most similar key is \"{near[0]}\"" if near else None
        fault = f"the model has no metadata key {key!r}"
        raise exception(
            "not_found", fault, Path(self._native.path), key=key, advice=advice, in_model=True
        )

    @property
    def types(self) -> dict[str, str]:
        """The type of each value, as in `u32`, `string` or `array[f32]`."""
        return {key: str(self._native.metadata_type(key)) for key in self._keys}

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __reduce__(self) -> tuple[object, ...]:
        return dict, (dict(self),)

    def __repr__(self) -> str:
        rows = (f"  {key}: {_short(self[key])}" for key in self)
        return "\n".join((f"Metadata({len(self)} keys)", *rows))


def _short(value: Any) -> str:
    """A value in one line."""
    if isinstance(value, list):
        shown = ", ".join(_short(one) for one in value[:3])
        return f"[{shown}{', ...' if len(value) > 3 else ''}] ({len(value)})"
    text = repr(value)
    return text if len(text) <= 72 else f"{text[:69]}..."


class Tokenizer:
    """What a model's files say of its tokenizer. It does not tokenize text."""

    def __init__(self, tokens: list[str | bytes], facts: dict[str, Any]) -> None:
        self.tokens = tokens
        """The spelling of each token in the file, in order of their numbers: text, or bytes if it is not
        UTF-8, which GGUF does not guarantee."""
        self.kind: str = facts["kind"]
        """The algorithm: `bpe`, `sentencepiece`, `unigram`, `wordpiece`."""
        self.scores: list[float] | None = facts["scores"]
        """The score of each token, for tokenizers that use scores."""
        self.kinds: list[str] | None = facts["kinds"]
        """What each token is: `normal`, `control`, `byte`, `user_defined`, `unknown`, `unused`."""
        self.merges: list[tuple[str | bytes, str | bytes]] = facts["merges"]
        """The pairs that are merged, highest priority first."""
        self.special: dict[str, int] = facts["special"]
        """The numbers of special tokens by their purpose: `bos`, `eos`, `pad`."""
        self.add_bos: bool | None = facts["add_bos"]
        """Whether a text starts with the `bos` token."""
        self.add_eos: bool | None = facts["add_eos"]
        """Whether a text ends with the `eos` token."""
        self.chat_template: str | None = facts["chat_template"]
        """The chat template, in Jinja."""

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        special = ", ".join(f"{name}={number}" for name, number in self.special.items())
        return f"Tokenizer({self.kind}, {len(self)} tokens, {special})"


class Model(_Keys, Mapping[str, Tensor]):
    """An opened model: a mapping from canonical names to tensors. `stored` has the files' names.

    `with open(path) as model:` closes the model at the end; its tensors stay usable. Models are equal
    only to themselves. A pickled model is opened again by its path.
    """

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __init__(self, native: _native.Model, again: tuple[Callable[..., Any], tuple[Any, ...]]) -> None:
        self._handle: _native.Model | None = native
        self._again = again

    @property
    def _native(self) -> _native.Model:
        if self._handle is None:
            raise ValueError("the model is closed")
        return self._handle

    def close(self) -> None:
        """Closes the model. Its tensors stay usable, and so do arrays."""
        self._handle = None

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self._again

    def __copy__(self) -> Model:
        return self

    def __deepcopy__(self, memo: object) -> Model:
        return self

    @property
    def path(self) -> Path:
        """The path that was opened."""
        return Path(self._native.path)

    @property
    def container(self) -> str:
        """`gguf`, `safetensors`, `mlx`, `ollama` or `whisper-ggml`."""
        return self._native.container

    @property
    def architecture(self) -> str | None:
        """The model family, if it is known."""
        return self._native.architecture

    @property
    def files(self) -> list[Path]:
        """The files that hold tensors or metadata."""
        return [Path(path) for path in self._native.files]

    @property
    def notes(self) -> list[str]:
        """Remarks: broken rules of the format, files that were ignored."""
        return self._native.notes

    @property
    def nbytes(self) -> int:
        """Bytes of all stored tensors."""
        return self._native.stored_bytes

    @property
    def missing(self) -> list[str]:
        """Tensors that the family requires and the model lacks."""
        return self._native.missing

    @property
    def stored(self) -> StoredTensors:
        """The tensors under the names of the files."""
        return StoredTensors(self)

    @property
    def metadata(self) -> Metadata:
        """The keys and values of GGUF, or the `__metadata__` of safetensors."""
        return Metadata(self._native)

    @property
    def config(self) -> Config:
        """The values that an engine needs."""
        return Config(json.loads(_native.config(self._native)))

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer, if a file contains one."""
        tokens, facts = self._native.tokens(), self._native.tokenizer()
        return None if tokens is None or facts is None else Tokenizer(tokens, facts)

    @property
    def documents(self) -> dict[str, bytes]:
        """The documents of the model in a Hugging Face directory, such as `config.json` and
        `tokenizer.json`: those beside the weights, or, for a GGUF file, made from its metadata."""
        return self._native.documents()

    def tensors(self, names: Names = "canonical", *, filter: str | None = None) -> dict[str, Tensor]:
        """All tensors by name: `canonical`, `stored`, or those of `huggingface`, `mlx` or `gguf`,
        with the shapes and the row order of that convention. `filter` keeps the names that match a
        pattern: `*` is any text, `?` one character.

        >>> list(wb.open("model.gguf").tensors(filter="layers.0.ffn.*"))
        ['layers.0.ffn.down.weight', 'layers.0.ffn.gate.weight', 'layers.0.ffn.up.weight']
        """
        found: Mapping[str, Tensor]
        if names == "canonical":
            found = self
        elif names == "stored":
            found = self.stored
        else:
            found = self._translated(names, ())
        chosen = found if filter is None else matching(found, filter)
        return {name: found[name] for name in chosen}

    def _translated(self, names: str, ranks: tuple[tuple[int, int], ...]) -> dict[str, Tensor]:
        natives = (
            self._native.tensors_of_rank(names, *ranks) if ranks else self._native.tensors_in(names)
        )
        return {
            native.name: Tensor(native, (_named, (self, names, ranks, native.name)))
            for native in natives
        }

    def tensors_of_rank(
        self,
        names: Names = "canonical",
        *,
        tensor_parallel: tuple[int, int] = (0, 1),
        pipeline_parallel: tuple[int, int] = (0, 1),
        expert_parallel: tuple[int, int] = (0, 1),
    ) -> dict[str, Tensor]:
        """What one of several processes loads of all tensors: its part of each. Each kind of
        parallelism is the number of the rank, from 0, and the number of ranks. `names` is
        `canonical`, `huggingface`, `mlx` or `gguf`.

        >>> part = wb.open("model.gguf").tensors_of_rank(tensor_parallel=(0, 2))
        >>> part["layers.0.attention.q.weight"].shape
        (128, 256)
        """
        return self._translated(names, (tensor_parallel, pipeline_parallel, expert_parallel))

    def __getitem__(self, name: str) -> Tensor:
        return Tensor(self._native.tensor(name), (_canonical, (self, name)))

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    @cached_property
    def _names(self) -> dict[str, None]:
        return dict.fromkeys(self._native.names())

    def _facts(self) -> list[tuple[str, str]]:
        dtypes: dict[str, int] = {}
        for tensor in self.stored.values():
            dtypes[tensor.dtype] = dtypes.get(tensor.dtype, 0) + 1
        counts = ", ".join(f"{count} {dtype}" for dtype, count in dtypes.items())
        return [
            ("container", self.container),
            ("family", self.architecture or "unknown"),
            ("tensors", f"{len(self.stored)} ({counts})"),
            ("size", f"{self.nbytes / 2**20:.1f} MiB"),
        ]

    def __repr__(self) -> str:
        if self._handle is None:
            return "Model(closed)"
        facts = "\n".join(f"  {name:<10} {value}" for name, value in self._facts())
        return f"Model({str(self.path)!r})\n{facts}"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
            for name, value in self._facts()
        )
        heads = "<tr><th>name</th><th>dtype</th><th>shape</th><th>bytes</th></tr>"
        tensors = "".join(
            f"<tr><td>{html.escape(tensor.name)}</td><td>{html.escape(tensor.dtype)}</td>"
            f"<td>{tensor.shape}</td><td>{tensor.nbytes}</td></tr>"
            for tensor in (self[name] for name in list(self)[:_SHOWN])
        )
        more = f"<p>and {len(self) - _SHOWN} more</p>" if len(self) > _SHOWN else ""
        return (
            f"<b>{html.escape(str(self.path))}</b><table>{rows}</table>"
            f"<details><summary>tensors</summary><table>{heads}{tensors}</table>{more}</details>"
        )


_SHOWN = 1000
"""The tensors that a notebook shows of a model."""


def _canonical(model: Model, name: str) -> Tensor:
    return model[name]


def matching(names: Iterable[str], pattern: str) -> list[str]:
    """The names that match a pattern; an error if none does."""
    import fnmatch

    names = list(names)
    # A pattern has no character classes: names may contain brackets.
    found = fnmatch.filter(names, pattern.replace("[", "[[]"))
    if not found:
        advice = "* matches any text, ? one character"
        raise exception("mismatch", f"no tensor's name matches \"{pattern}\"", advice=advice)
    return found


def open(
    path: PathLike,
    *,
    strictness: Strictness = "default",
    no_map: bool = False,
    threads: int = 0,
    all_files: bool = False,
) -> Model:
    """Opens a model: a file, a directory, the name of a model in Ollama's store, or one on a server
    (`hf://ORG/NAME`).

    The format is detected from the content. Only headers are read.

    - `strictness`: `default`, `strict` (apply the strictest reader's rules) or `lenient`.
    - `no_map`: read tensors into memory of their own instead of mapping the files.
    - `threads`: 0 means one for each processor.
    - `all_files`: open every weight file of a directory, not only those that its index names.

    >>> with wb.open("model.gguf") as model:
    ...     model["output_norm.weight"].shape
    (256,)
    """
    threads = count("threads", threads)
    if all_files and os.path.isfile(path):
        raise no_effect("all_files", "for one file", "it is for a directory")
    return _open(os.fspath(path), strictness, no_map, threads, all_files)


def _open(path: str, strictness: str, no_map: bool, threads: int, all_files: bool) -> Model:
    again = (path, strictness, no_map, threads, all_files)
    return Model(_native.Model(*again), (_open, again))


def open_bytes(
    data: bytes | bytearray | memoryview | Any,
    *,
    name: PathLike = "memory",
    strictness: Strictness = "default",
) -> Model:
    """Opens a GGUF, safetensors or whisper.cpp file that is in memory: its bytes, or a file object
    that is read to its end. `name` stands for the path in messages.

    >>> from pathlib import Path
    >>> len(wb.open_bytes(Path("model.gguf").read_bytes()))
    20
    """
    content = bytes(data.read() if hasattr(data, "read") else data)
    return _open_bytes(content, os.fspath(name), strictness)


def _open_bytes(content: bytes, name: str, strictness: str) -> Model:
    native = _native.Model.memory(name, content, strictness)
    return Model(native, (_open_bytes, (content, name, strictness)))
