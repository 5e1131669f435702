"""Models of mlx-lm from any container, without a copy of the weights on disk."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import mlx.core as _mx
import mlx.nn as _nn
import mlx_lm.tokenizer_utils as _tokenizers
import mlx_lm.utils as _utils

from . import mlx as _state
from ._dtypes import Float
from ._model import Model
from ._model import open as _open
from ._progress import Progress
from ._verbs import Source

__all__ = ["load"]


def load(
    source: Source, *, dtype: Float | None = None, threads: int = 0, progress: Progress = None
) -> tuple[Any, Any]:
    """The model of mlx-lm and its tokenizer, from any container, as `mlx_lm.load` returns them.

    Tensors in MLX's own packing stay packed. Others are decoded to `dtype`, or float32 for quantized ones;
    convert the model with `weighbridge.convert(..., to="mlx")` first to keep their codes.

    >>> model, tokenizer = wb.mlx_lm.load("model.gguf", dtype="float16")
    >>> type(model).__name__
    'Model'
    """
    model = source if isinstance(source, Model) else _open(source)
    keys = json.loads(model.documents["config.json"])
    is_packed = model.container == "mlx" and "quantization" in keys
    weights = _state.load_file(
        model, dtype=dtype, packed=is_packed, threads=threads, progress=progress
    )
    model_class, arguments = _utils._get_classes(keys)
    engine = model_class(arguments.from_dict(keys))
    if hasattr(engine, "sanitize"):
        weights = engine.sanitize(weights)
    if is_packed:
        _quantize(engine, keys["quantization"], weights)
    engine.load_weights(list(weights.items()), strict=True)
    engine.eval()
    _mx.eval(engine.parameters())
    return engine, _tokenizer(model)


def _quantize(engine: Any, settings: dict[str, Any], weights: dict[str, Any]) -> None:
    """Makes the modules with packed weights quantized ones."""

    def is_packed(path: str, module: Any) -> Any:
        own = settings.get(path)
        return own if own is not None else f"{path}.scales" in weights

    _nn.quantize(
        engine,
        group_size=settings["group_size"],
        bits=settings["bits"],
        mode=settings.get("mode", "affine"),
        class_predicate=is_packed,
    )


def _tokenizer(model: Model) -> Any:
    # mlx-lm reads tokenizers from a folder; the files are small.
    with tempfile.TemporaryDirectory() as folder:
        for name, content in model.documents.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return _tokenizers.load(Path(folder))
