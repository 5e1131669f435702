"""PyTorch tensors in safetensors files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import torch as _torch

from .._dtypes import NAMES
from ._file import Array, File, PathLike, SafetensorError
from ._open import check_backend
from ._write import TensorSpec, serialize, serialize_file

__all__ = ["load", "load_file", "load_model", "save", "save_file", "save_model"]


def from_file(array: Array) -> _torch.Tensor:
    """A stored array, in the memory of the file."""
    shape, name = list(array.shape), NAMES.get(array.dtype, "")
    if array.dtype == "F4":
        # Torch counts pairs.
        name, shape[-1] = "float4_e2m1fn_x2", shape[-1] // 2
    kind = getattr(_torch, name, None)
    if kind is None:
        raise SafetensorError(f"this version of torch has no dtype {array.dtype}")
    if not array.nbytes:
        return _torch.empty(shape, dtype=kind, device="cpu")
    return _torch.from_dlpack(array.memory()).view(kind).reshape(shape)


def load(data: bytes) -> dict[str, _torch.Tensor]:
    """The tensors of a file in memory."""
    return {name: from_file(array) for name, array in File.memory(data).arrays.items()}


def load_file(
    filename: PathLike, device: str | int = "cpu", *, backend: str = "mmap"
) -> dict[str, _torch.Tensor]:
    """The tensors of a file, on a device. A write to them does not reach the file."""
    check_backend(backend)
    found = {name: from_file(array) for name, array in File.open(filename).arrays.items()}
    if device == "cpu":
        return found
    return {name: tensor.to(device) for name, tensor in found.items()}


def save(tensors: Mapping[str, _torch.Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a file with these tensors."""
    own, specs = _specs(tensors)
    found = serialize(specs, metadata)
    del own
    return found


def save_file(
    tensors: Mapping[str, _torch.Tensor],
    filename: PathLike,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes these tensors to a file. Tensors that share memory, or whose elements are not next to
    each other, are an error: see `save_model`."""
    own, specs = _specs(tensors)
    serialize_file(specs, filename, metadata)
    del own


def _specs(
    tensors: Mapping[str, _torch.Tensor],
) -> tuple[list[_torch.Tensor], dict[str, TensorSpec]]:
    """The tensors in host memory, and what is written of them."""
    if not isinstance(tensors, dict):
        kind = type(tensors)
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {kind}")
    for name, tensor in tensors.items():
        if not isinstance(tensor, _torch.Tensor):
            kind = type(tensor)
            raise ValueError(f"Key `{name}` is invalid, expected torch.Tensor but received {kind}")
    sparse = [name for name, tensor in tensors.items() if tensor.layout != _torch.strided]
    if sparse:
        # The words of the package, which callers compare.
        raise ValueError(
            f"You are trying to save a sparse tensors: `{sparse}` which this library does not support. "
            "You can make it a dense tensor before saving with `.to_dense()` but be aware this might "
            "make a much larger file than needed."
        )
    shared = [sorted(names) for names in _find_shared_tensors(tensors) if len(names) > 1]
    if shared:
        raise RuntimeError(
            f"Some tensors share memory, and would be written several times: {shared}. "
            "Use save_model, which writes each once, or clone them"
        )
    own, specs = [], {}
    for name, tensor in tensors.items():
        if not tensor.is_contiguous():
            raise ValueError(
                f"You are trying to save a non contiguous tensor: `{name}`. Call contiguous() first"
            )
        host = tensor.detach().to("cpu")
        own.append(host)
        specs[name] = TensorSpec(
            dtype=str(host.dtype).removeprefix("torch."),
            shape=host.shape,
            data_ptr=host.data_ptr(),
            data_len=host.numel() * host.element_size(),
        )
    return own, specs


def storage_ptr(tensor: _torch.Tensor) -> int:
    """The address of a tensor's memory, of which the tensor may be a part."""
    return int(tensor.untyped_storage().data_ptr())


def storage_size(tensor: _torch.Tensor) -> int:
    """The bytes of a tensor's memory, of which the tensor may be a part."""
    return int(tensor.untyped_storage().nbytes())


def _end_ptr(tensor: _torch.Tensor) -> int:
    """The address after a tensor's last element."""
    if not tensor.numel():
        return int(tensor.data_ptr())
    lengths = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((length - 1) * stride for length, stride in lengths)
    return int(tensor.data_ptr() + (last + 1) * tensor.element_size())


def _is_complete(tensor: _torch.Tensor) -> bool:
    """Whether a tensor is all of its memory."""
    is_start = tensor.data_ptr() == storage_ptr(tensor)
    return bool(is_start and tensor.numel() * tensor.element_size() == storage_size(tensor))


def _find_shared_tensors(state_dict: Mapping[str, _torch.Tensor]) -> list[set[str]]:
    """Groups of names whose tensors overlap in memory. A tensor alone is a group of one."""
    memory: dict[tuple[Any, int, int], list[str]] = defaultdict(list)
    for name, tensor in state_dict.items():
        place = storage_ptr(tensor)
        if tensor.device.type != "meta" and place and storage_size(tensor):
            memory[tensor.device, place, storage_size(tensor)].append(name)
    groups = []
    for names in memory.values():
        end = None
        for name in sorted(names, key=lambda name: (state_dict[name].data_ptr(), names.index(name))):
            tensor = state_dict[name]
            if end is None or tensor.data_ptr() >= end:
                groups.append({name})
            else:
                groups[-1].add(name)
            end = max(end or 0, _end_ptr(tensor))
    return groups


def _remove_duplicate_names(
    state_dict: Mapping[str, _torch.Tensor],
    *,
    preferred_names: Iterable[str] = (),
    discard_names: Iterable[str] = (),
) -> dict[str, list[str]]:
    """For each group of names that share memory, the name to keep, with the names to leave out."""
    preferred, discarded = set(preferred_names), set(discard_names)
    found: dict[str, list[str]] = {}
    for group in _find_shared_tensors(state_dict):
        complete = sorted(name for name in group if _is_complete(state_dict[name]))
        if not complete:
            raise RuntimeError(
                f"None of the tensors that share memory is all of it: {sorted(group)}. Saving them "
                "would write more than they have, or less than is needed; clone them first"
            )
        wanted = [name for name in complete if name in preferred]
        others = [name for name in complete if name not in discarded]
        keep = (wanted or others or complete)[0]
        left = sorted(group - {keep})
        if left:
            found[keep] = left
    return found


def save_model(
    model: _torch.nn.Module,
    filename: PathLike,
    metadata: Mapping[str, str] | None = None,
    force_contiguous: bool = True,
) -> None:
    """Writes the tensors of a module. Of names that share a tensor one is written; `metadata` has the
    others."""
    state, kept = dict(model.state_dict()), dict(metadata or {})
    for keep, left in _remove_duplicate_names(state).items():
        for name in left:
            kept.setdefault(name, keep)
            del state[name]
    if force_contiguous:
        state = {name: tensor.contiguous() for name, tensor in state.items()}
    try:
        save_file(state, filename, kept)
    except ValueError as error:
        raise ValueError(f"{error}, or use save_model(..., force_contiguous=True)") from error


def load_model(
    model: _torch.nn.Module,
    filename: PathLike,
    strict: bool = True,
    device: str | int = "cpu",
    *,
    backend: str = "mmap",
) -> tuple[set[str], list[str]]:
    """Loads a file that `save_model` wrote into a module. Returns the names that are missing, and
    those that the module does not have; with `strict`, there must be none."""
    state = load_file(filename, device=device, backend=backend)
    shared = _remove_duplicate_names(model.state_dict(), preferred_names=state)
    loaded, unexpected = model.load_state_dict(state, strict=False)
    missing = set(loaded)
    for left in shared.values():
        for name in left:
            if name in missing:
                missing.remove(name)
            else:
                unexpected.append(name)
    if strict and (missing or unexpected):
        lines = [f"Error(s) in loading state_dict for {type(model).__name__}:"]
        for what, names in (("Missing", sorted(missing)), ("Unexpected", sorted(unexpected))):
            if names:
                quoted = ", ".join(f"\"{name}\"" for name in names)
                lines.append(f"    {what} key(s) in state_dict: {quoted}")
        raise RuntimeError("\n".join(lines))
    return missing, unexpected
