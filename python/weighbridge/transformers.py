"""Models of transformers from any container, without a copy of the weights on disk."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any, Literal

import torch as _torch
import transformers as _transformers

from . import torch as _state
from ._dtypes import NAMES, Float, parse_float
from ._errors import exception
from ._model import Model
from ._model import open as _open
from ._progress import Progress
from ._verbs import Source

__all__ = ["config", "from_pretrained", "tokenizer"]


def config(source: Source) -> Any:
    """The config of transformers: from `config.json`, or made from the metadata of a GGUF file.

    >>> wb.transformers.config("model.gguf").hidden_size
    256
    """
    model = source if isinstance(source, Model) else _open(source)
    keys = json.loads(model.documents["config.json"])
    # The weights arrive decoded.
    for name in ("quantization_config", "quantization"):
        keys.pop(name, None)
    return _transformers.AutoConfig.for_model(keys.pop("model_type"), **keys)


def tokenizer(source: Source, **options: Any) -> Any:
    """The tokenizer of transformers, or None if the model has none. `options` are those of
    `AutoTokenizer.from_pretrained`.

    >>> len(wb.transformers.tokenizer("model.gguf"))
    512
    """
    model = source if isinstance(source, Model) else _open(source)
    files = model.documents
    if not any(name.startswith(("tokenizer.", "vocab", "spiece")) for name in files):
        return None
    # transformers reads tokenizers from a folder; the files are small.
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return _transformers.AutoTokenizer.from_pretrained(folder, **options)


def from_pretrained(
    source: Source,
    *,
    dtype: Float | Literal["auto"] | None = None,
    torch_dtype: Float | Literal["auto"] | None = None,
    device: Any = None,
    cls: Any = None,
    threads: int = 0,
    progress: Progress = None,
    **options: Any,
) -> tuple[Any, Any]:
    """The model of transformers and its tokenizer, from any container: a GGUF file, an MLX directory, a
    model in Ollama's store, `hf://ORG/NAME`.

    The class is `cls`, or the one that the config names, or AutoModelForCausalLM. `options` are those of
    `from_pretrained` of the class, such as `attn_implementation` and `device_map`; with `device`, the
    model is moved there.

    Quantized tensors are decoded to `dtype`, as `torch_dtype` is called too. By default, or with
    `"auto"`, it is that of the checkpoint, by the rule of transformers: the one in `config.json`, else that
    of the first stored matrix. If that is quantized, it is float32, as with `gguf_file=` of transformers:
    give `dtype="bfloat16"` to need half the memory.

    >>> model, tokens = wb.transformers.from_pretrained("model.gguf", dtype="bfloat16")
    >>> model(**tokens("a", return_tensors="pt")).logits.shape[-1]
    512
    """
    if dtype is not None and torch_dtype is not None:
        raise exception("mismatch", "dtype and torch_dtype are the same: give one of them")
    model = source if isinstance(source, Model) else _open(source)
    made = config(model)
    wanted = _dtype(model, made, torch_dtype if dtype is None else dtype)
    named = (made.architectures or [None])[0]
    chosen = cls or getattr(_transformers, str(named), None) or _transformers.AutoModelForCausalLM
    state = _state.load_file(model, dtype=wanted, threads=threads, progress=progress)
    engine = chosen.from_pretrained(None, config=made, state_dict=state, dtype=wanted, **options)
    generation = model.documents.get("generation_config.json")
    if generation is not None and engine.can_generate():
        engine.generation_config = _transformers.GenerationConfig(**json.loads(generation))
    if device is not None:
        engine = engine.to(device)
    return engine.eval(), tokenizer(model)


def _dtype(model: Model, made: Any, asked: Float | Literal["auto"] | None) -> _torch.dtype:
    """The dtype of the weights."""
    own = made.dtype if asked in (None, "auto") else asked
    if own is None:
        matrices = (tensor.dtype for tensor in model.stored.values() if tensor.ndim > 1)
        first = next(matrices, "F32")
        own = first if first in ("BF16", "F16") else "F32"
    return getattr(_torch, NAMES[parse_float(own)])
