"""Models of transformers from any container, without a copy of the weights on disk."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import torch as _torch
import transformers as _transformers

from . import torch as _state
from ._dtypes import NAMES, Float, parse_float
from ._model import Model
from ._model import open as _open
from ._progress import Progress
from ._verbs import Source

__all__ = ["config", "from_pretrained", "tokenizer"]


def config(source: Source) -> Any:
    """The config of transformers: from `config.json`, or made from the metadata of a GGUF file.

    >>> config(SAMPLE).hidden_size
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

    >>> len(tokenizer(SAMPLE))
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
    dtype: Float | None = None,
    device: Any = "cpu",
    cls: Any = None,
    threads: int = 0,
    progress: Progress = None,
    **options: Any,
) -> tuple[Any, Any]:
    """The model of transformers and its tokenizer, from any container: a GGUF file, an MLX directory, a
    model in Ollama's store, `hf://ORG/NAME`.

    The class is `cls`, or the one that the config names, or AutoModelForCausalLM. Quantized tensors are
    decoded to `dtype`, which is the one of the config by default. `options` are those of
    `from_pretrained` of the class.

    >>> model, tokens = from_pretrained(SAMPLE, dtype="float32")
    >>> model(**tokens("a", return_tensors="pt")).logits.shape[-1]
    512
    """
    model = source if isinstance(source, Model) else _open(source)
    made = config(model)
    own = made.dtype if dtype is None else getattr(_torch, NAMES[parse_float(dtype)])
    wanted = own if isinstance(own, _torch.dtype) else _torch.float32
    named = (made.architectures or [None])[0]
    chosen = cls or getattr(_transformers, str(named), None) or _transformers.AutoModelForCausalLM
    state = _state.load_file(model, dtype=wanted, threads=threads, progress=progress)
    engine = chosen.from_pretrained(None, config=made, state_dict=state, dtype=wanted, **options)
    generation = model.documents.get("generation_config.json")
    if generation is not None and engine.can_generate():
        engine.generation_config = _transformers.GenerationConfig(**json.loads(generation))
    return engine.to(device).eval(), tokenizer(model)
