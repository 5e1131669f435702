"""Weighbridge opens the weights of language models: GGUF files, safetensors files and directories,
MLX directories, models in Ollama's store and whisper.cpp files. A tensor has the same name, shape and
values in every format.

>>> import weighbridge as wb
>>> model = wb.open(SAMPLE)
>>> model["layers.0.attention.q.weight"].numpy().shape
(256, 256)

`weighbridge.torch`, `weighbridge.numpy`, `weighbridge.jax` and `weighbridge.mlx` load and save whole
state dicts; `weighbridge.ray` converts on a Ray cluster. They are imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import Any

from ._errors import (
    CancelledError,
    DamagedError,
    Error,
    FileError,
    MismatchError,
    NotFoundError,
    PathNotFoundError,
    UnsupportedError,
)
from ._model import Config, Metadata, Model, Part, StoredTensors, Tensor, Tokenizer, open
from ._native import __version__, add_families
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
    hash,
    inspect,
    merge,
    quantize,
    split,
    verify,
)
from ._writer import Writer, save_file

__all__ = [
    "CancelledError", "Config", "DamagedError", "DiffReport", "Error", "FileError", "HashReport",
    "InspectReport", "Metadata", "MismatchError", "Model", "NotFoundError", "Part",
    "PathNotFoundError", "Report", "StoredTensors", "Tensor", "Tokenizer", "UnsupportedError",
    "VerifyReport", "WriteReport", "Writer", "__version__", "add_families", "convert", "create",
    "diff", "hash", "inspect", "merge", "open", "quantize", "save_file", "split", "verify",
]


def __getattr__(name: str) -> Any:
    if name in ("jax", "mlx", "numpy", "ray", "torch"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
