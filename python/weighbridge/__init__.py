"""Weighbridge opens the weights of language models: GGUF files, safetensors files and directories,
MLX directories, models in Ollama's store and whisper.cpp files. A tensor has the same name, shape and
values in every format.

>>> import weighbridge as wb
>>> model = wb.open("model.gguf")
>>> model["layers.0.attention.q.weight"].numpy().shape
(256, 256)

`wb.open(path)` opens a model, and `wb.hash(model)` computes the SHA-256 of its tensors. `help(wb.open)` and
`help(wb.hash)` describe them; the list below and `from weighbridge import *` leave them out, since Python
has functions of these names. In all examples, `wb` is this package and `model.gguf` a model of the reader.

| module | contents |
|---|---|
| `wb.transformers`, `wb.mlx_lm` | models and tokenizers of these libraries from any container |
| `wb.torch`, `wb.numpy`, `wb.jax`, `wb.mlx` | `load_file` and `save_file` for state dicts |
| `wb.safetensors`, `wb.gguf` | replacements of these packages |
| `wb.ray` | conversions on a Ray cluster |

They are imported when they are first used.
"""

from __future__ import annotations

import importlib as _importlib
from typing import TYPE_CHECKING

from ._errors import (
    CancelledError,
    DamagedError,
    Error,
    FileError,
    MismatchError,
    NotFoundError,
    PathExistsError,
    PathNotFoundError,
    UnsupportedError,
)
from ._arrays import Frame, dequantize_array, quantize_array, stats
from ._config import Config
from ._machine import edit_metadata, models, pull
from ._model import Metadata, Model, StoredTensors, Tokenizer, open_bytes
from ._model import open as open
from ._native import __version__, add_families
from ._tensor import Part, Tensor
from ._verbs import (
    DiffReport,
    HashReport,
    InspectReport,
    Report,
    VerifyReport,
    WriteReport,
    convert,
    create,
    diff,
    inspect,
    join,
    quantize,
    split,
    verify,
)
from ._verbs import hash as hash
from ._merge import extract_lora, merge, merged
from ._writer import Writer, save, save_file

if TYPE_CHECKING:
    from . import gguf, jax, mlx, mlx_lm, numpy, ray, safetensors, torch, transformers

# `open` and `hash` are left out: `from weighbridge import *` shall not replace Python's own.
__all__ = [
    "CancelledError", "Config", "DamagedError", "DiffReport", "Error", "FileError", "Frame", "HashReport",
    "InspectReport", "Metadata", "MismatchError", "Model", "NotFoundError", "Part",
    "PathExistsError", "PathNotFoundError", "Report", "StoredTensors", "Tensor", "Tokenizer", "UnsupportedError",
    "VerifyReport", "WriteReport", "Writer", "__version__", "add_families", "convert", "create",
    "dequantize_array", "diff", "edit_metadata", "extract_lora", "inspect", "join", "merge", "merged", "models", "open_bytes", "pull",
    "quantize", "quantize_array", "save", "save_file", "split", "stats", "verify",
]

_MODULES = (
    "gguf", "jax", "mlx", "mlx_lm", "numpy", "ray", "safetensors", "torch", "transformers",
)
"""Modules that are imported when they are first used."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            try:
                return _importlib.import_module(f"{__name__}.{name}")
            except ModuleNotFoundError as error:
                # `help` and `inspect` ask for every attribute, and accept this error.
                raise AttributeError(f"weighbridge.{name}: {error}") from error
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


for _name in __all__:
    # Users import it from here, and read this name in messages and in `help`.
    if getattr(globals()[_name], "__module__", "").startswith(f"{__name__}._") and _name != "add_families":
        globals()[_name].__module__ = __name__
open.__module__ = hash.__module__ = __name__


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES, "hash", "open"})
