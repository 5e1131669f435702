"""A drop-in for the package `safetensors`: `import weighbridge.safetensors as safetensors`.

`safe_open`, `serialize`, `deserialize` and the modules `numpy`, `torch`, `mlx` and `flax` are called and
answer as there, and files have the same bytes. Reading shares the memory of the file.
"""

from __future__ import annotations

from ._file import SafetensorError, deserialize
from ._open import PySafeSlice, _safe_open_handle, safe_open
from ._write import TensorSpec, serialize, serialize_file

__version__ = "0.8.0"
"""The version of the package whose interface this is."""

__all__ = [
    "PySafeSlice", "SafetensorError", "TensorSpec", "__version__", "deserialize", "safe_open",
    "serialize", "serialize_file",
]

SafetensorError.__module__ = __name__
