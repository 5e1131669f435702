from os import PathLike
from pathlib import Path
from typing import Any, Callable, final

from ._verbs import Creation, Quantization, Writing

__all__ = [
    "Array",
    "Builder",
    "Model",
    "Tensor",
    "__version__",
    "add_families",
    "check_setting",
    "config",
    "convert",
    "create",
    "dequantize_array",
    "diff",
    "dtypes",
    "edit_metadata",
    "extract_lora",
    "hash",
    "inspect",
    "is_quantized",
    "load",
    "merge",
    "merge_models",
    "models",
    "pull",
    "quantize",
    "quantize_array",
    "quantize_mlx",
    "run_program",
    "split",
    "statistics",
    "verify",
]

__version__: str

_Progress = Callable[[int, int], object]

@final
class Array:
    @property
    def shape(self) -> list[int]: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def is_mapped(self) -> bool: ...
    def as_integers(self) -> Array: ...
    def as_bytes(self) -> Array: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

@final
class Tensor:
    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> list[int]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def value_dtype(self) -> str: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def elements(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def why_computed(self) -> str | None: ...
    def segments(self) -> list[tuple[str, str, str, list[int], Path, int, int]]: ...
    def select(self, axis: int, start: int, step: int, count: int) -> Tensor: ...
    def squeeze(self, axis: int) -> Tensor: ...
    def packed(self, part: str) -> Array: ...
    def load(self, dtype: str | None, own: bool = False, copy: bool = False) -> Array: ...
    def decode_into(
        self, first: int, end: int, dtype: str, address: int, nbytes: int
    ) -> None: ...

@final
class Model:
    def __new__(
        cls,
        path: str | PathLike[str],
        strictness: str,
        no_map: bool,
        threads: int,
        all_files: bool,
    ) -> Model: ...
    @staticmethod
    def memory(name: str | PathLike[str], bytes: bytes, strictness: str) -> Model: ...
    @property
    def path(self) -> Path: ...
    @property
    def container(self) -> str: ...
    @property
    def stored_bytes(self) -> int: ...
    @property
    def files(self) -> list[Path]: ...
    @property
    def notes(self) -> list[str]: ...
    @property
    def architecture(self) -> str | None: ...
    @property
    def dialect(self) -> str: ...
    @property
    def missing(self) -> list[str]: ...
    def names(self) -> list[str]: ...
    def stored_names(self) -> list[str]: ...
    def tensor(self, name: str) -> Tensor: ...
    def stored_tensor(self, name: str) -> Tensor: ...
    def tensors_in(self, dialect: str) -> list[Tensor]: ...
    def tensors_of_rank(
        self,
        names: str,
        tensor: tuple[int, int],
        pipeline: tuple[int, int],
        expert: tuple[int, int],
    ) -> list[Tensor]: ...
    def metadata_keys(self) -> list[str]: ...
    def metadata_value(self, key: str) -> Any: ...
    def metadata_type(self, key: str) -> str | None: ...
    def document(self, name: str) -> str | None: ...
    def documents(self) -> dict[str, bytes]: ...
    def tokens(self) -> list[bytes] | None: ...
    def tokenizer(self) -> dict[str, Any] | None: ...

@final
class Builder:
    def __new__(cls, to: str, one_file: bool) -> Builder: ...
    def set(self, key: str, kind: str, value: Any) -> None: ...
    def set_like(self, model: Model, to: str) -> None: ...
    def keys(self) -> list[str]: ...
    def remove(self, key: str) -> bool: ...
    def shards(self, bytes: int, stem: str) -> None: ...
    def alignment(self, bytes: int) -> None: ...
    def document(self, name: str, content: bytes) -> None: ...
    def add(self, name: str, tensor: Tensor, dtype: str | None) -> None: ...
    def add_array(
        self,
        name: str,
        stored: str,
        shape: list[int],
        address: int,
        nbytes: int,
        owner: Any,
        dtype: str | None,
    ) -> None: ...
    def add_computed(
        self,
        name: str,
        stored: str,
        shape: list[int],
        function: Callable[[], bytes],
        dtype: str | None,
    ) -> None: ...
    def add_raw(
        self,
        name: str,
        stored: str,
        shape: list[int],
        address: int,
        nbytes: int,
        owner: Any,
    ) -> None: ...
    def write(self, path: str | PathLike[str], writing: Writing, progress: _Progress | None) -> str: ...

def is_quantized(dtype: str) -> bool: ...
def check_setting(kind: str, value: Any) -> None: ...
def dtypes() -> list[tuple[str, int, int, int | None]]: ...
def quantize_array(values: bytes, columns: int, name: str) -> bytes: ...
def dequantize_array(bytes: bytes, name: str, shape: list[int], into: str) -> Array: ...
def statistics(
    tensors: list[Tensor], bins: int, threads: int, progress: _Progress | None
) -> str: ...
def edit_metadata(
    path: str | PathLike[str], values: list[tuple[str, str, Any]], removed: list[str]
) -> str: ...
def merge_models(recipe: str, given: list[tuple[str, Model]]) -> Model: ...
def models(roots: list[str | PathLike[str]], pattern: str) -> str: ...
def pull(
    name: str,
    folder: str | PathLike[str] | None,
    include: list[str],
    exclude: list[str],
    progress: _Progress | None,
) -> Path: ...
def add_families(path: str | PathLike[str]) -> None:
    """Adds the model families of a file to the built-in ones, for the whole process."""
def run_program(arguments: list[str]) -> int: ...
def load(
    tensors: list[Tensor], dtype: str | None, copy: bool, threads: int, progress: _Progress | None
) -> list[Array]: ...
def inspect(model: Model) -> str: ...
def config(model: Model) -> str: ...
def hash(
    model: Model, values: bool, list: bool, threads: int, progress: _Progress | None
) -> str: ...
def verify(
    path: str | PathLike[str],
    strictness: str,
    no_map: bool,
    all_files: bool,
    deep: bool,
    sha256: str | None,
    hub: str | None,
    against: str | PathLike[str] | None,
    threads: int,
    progress: _Progress | None,
) -> str: ...
def diff(
    a: Model,
    b: Model,
    tolerance: float,
    filter: str | None,
    threads: int,
    progress: _Progress | None,
) -> tuple[bool, str]: ...
def convert(
    model: Model,
    path: str | PathLike[str],
    to: str,
    one_file: bool,
    dtype: str | None,
    lossless: bool,
    max_shard_size: int | None,
    shards: str | None,
    fuse: list[str],
    loras: list[tuple[str | PathLike[str], float]],
    extra_keys: bool,
    store: str | PathLike[str] | None,
    writing: Writing,
    progress: _Progress | None,
) -> str: ...
def quantize(
    model: Model,
    path: str | PathLike[str],
    quantization: Quantization,
    writing: Writing,
    progress: _Progress | None,
) -> str: ...
def quantize_mlx(
    model: Model,
    path: str | PathLike[str],
    mode: str,
    group_size: int | None,
    bits: int | None,
    mix: str | None,
    writing: Writing,
    progress: _Progress | None,
) -> str: ...
def split(
    model: Model,
    path: str | PathLike[str],
    max_size: int | None,
    max_tensors: int,
    writing: Writing,
    progress: _Progress | None,
) -> str: ...
def merge(
    model: Model,
    path: str | PathLike[str],
    align: int | None,
    writing: Writing,
    progress: _Progress | None,
) -> str: ...
def extract_lora(
    base: Model,
    tuned: Model,
    path: str | PathLike[str],
    rank: int,
    writing: Writing,
    progress: _Progress | None,
) -> tuple[str, list[tuple[str, float]]]: ...
def create(
    model: Model | None,
    name: str,
    creation: Creation,
    writing: Writing,
    progress: _Progress | None,
) -> str: ...
