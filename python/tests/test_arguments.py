"""Every optional argument of every public function changes what the call does, or is refused."""

from __future__ import annotations

import errno
import hashlib
import importlib
import inspect
import json
import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weighbridge as wb
from weighbridge._merge import LoraOptions, MergeOptions
from weighbridge._options import _known, flag
from weighbridge._verbs import (
    ConvertOptions, CreateOptions, JoinOptions, QuantizeOptions, SplitOptions,
)

SAMPLES = Path(__file__).parents[2] / "assets" / "sample"
HF, GGUF, MLX = SAMPLES / "hf", SAMPLES / "sample-Q8_0.gguf", SAMPLES / "mlx-4bit"


def stop(done: int, total: int) -> None:
    raise RuntimeError("the callback was called")


SHARED: dict[str, Any] = {"threads": -1, "progress": stop}
"""Options of many functions, with values that are refused if they are looked at."""

WRITING: dict[str, Any] = {**SHARED, "max_memory": -1, "dry_run": True, "overwrite": (True, {"again": True})}

CHECKED: dict[str, Any] = {
    **WRITING,
    "allow_incomplete": (True, {"source": "../incomplete"}),
    "allow_nonfinite": (True, {"source": "../nan"}),
}

UNSEEN: dict[str, set[str]] = {
    # Files are read in place of being mapped: the results are equal.
    "open": {"no_map"}, "verify": {"no_map", "all_files"}, "numpy.load_file": {"copy"},
    "torch.load_file": {"copy"}, "jax.load_file": {"copy"},
    # They need a server.
    "pull": {"folder", "include", "exclude", "progress"},
}


def base_of(verb: Callable[..., Any], path: str, *more: Any) -> Callable[..., Any]:
    """The call of a verb that writes, from `source` to `path`; `again` writes before."""

    def call(source: Any = HF, path: str = path, again: bool = False, **options: Any) -> Any:
        if again:
            verb(source, path, *more)
        return verb(source, path, *more, **options)

    return call


def merging(models: Any = None, path: str = "x", again: bool = False, source: Any = HF, **options: Any) -> Any:
    given = {"to": "safetensors", "dtype": "bfloat16", **options}
    given = {name: value for name, value in given.items() if value is not ...}
    models = models or [source, source if source == "../incomplete" else "../other"]
    if again:
        wb.merge(models, path, to="safetensors")
    return wb.merge(models, path, **given)


def merged(**options: Any) -> Any:
    return digest(wb.merged([HF, "../other"], **options))


def creating(path: str = "tales", again: bool = False, source: Any = HF, **options: Any) -> Any:
    options = {"store": "ollama", **options}
    if again:
        wb.create(path, source, store="ollama")
    return wb.create(path, source, **options)


def writer_write(again: bool = False, source: str = "", **options: Any) -> Any:
    writer = wb.Writer("gguf")
    values = np.ones((4, 256), np.float32)
    if source == "../nan":
        values[0, 0] = np.nan
    for number in range(4):
        writer.add(str(number), values, dtype="Q8_0")
    if again:
        writer.write("x.gguf")
    return writer.write("x.gguf", **options)


def writer_add(tensor: Any = None, **options: Any) -> Any:
    writer = wb.Writer("gguf")
    writer.add("x", np.ones((4, 256), np.float32) if tensor is None else tensor, **options)
    return writer.write("x.gguf")


def writer_set(**options: Any) -> Any:
    writer = wb.Writer("gguf")
    writer.set("a", 1, **options)
    return writer.write("x.gguf")


def saving(**options: Any) -> Any:
    options = {"path": "x.gguf", **options}
    path = options.pop("path")
    if options.pop("again", False):
        wb.save_file({"x": np.ones((4, 256))}, path)
    return wb.save_file({"x": np.ones((4, 256))}, path, **options)


def editing(**options: Any) -> Any:
    copy = Path("copy.gguf")
    copy.write_bytes(GGUF.read_bytes())
    return wb.edit_metadata(copy, **options)


def values(tensor: wb.Tensor) -> bytes:
    return bytes(np.ascontiguousarray(tensor.dequantize()).data)


LARGER = {"source": "base", "pad_to_multiple_of": 1000}
WEIGHTED = {"method": "ties", "base": HF}

CASES: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "open": (lambda source=HF, **o: wb.open(source, **o), {
        "strictness": ("strict", {"source": "../loose"}), "all_files": (True, {"source": "../several"}),
        "threads": -1,
    }),
    "open_bytes": (lambda source=GGUF, **o: str(wb.open_bytes(Path(source).read_bytes(), **o)), {
        "name": "mine", "strictness": ("strict", {"source": "../loose"}),
    }),
    "hash": (lambda **o: wb.hash(HF, **o), {**SHARED, "values": True, "save": "list"}),
    "verify": (lambda source=HF, **o: wb.verify(source, **o), {
        **SHARED, "deep": True, "strictness": ("strict", {"source": "../loose"}), "sha256": "0" * 64,
        "hub": "no/such", "against": "no-such-list", "save": "list", "run": (True, {"source": GGUF}),
    }),
    "diff": (lambda b=HF, **o: wb.diff(HF, b, **o), {
        **SHARED, "tolerance": (1.0, {"b": GGUF}), "filter": "no-such-name",
    }),
    "convert": (base_of(wb.convert, "x.gguf"), {
        **CHECKED, "to": "mlx", "dtype": "F16", "mmproj": True, "max_shard_size": "100KB",
        "lossless": (True, {"dtype": "Q8_0"}), "dequantize": (True, {"source": GGUF}), "shards": "tp=2", "fuse": ["qkv"], "store": "there",
        "lora": "../adapter", "leave_out": ["*norm*"], "extra_keys": (False, {"source": "../extra"}),
        "requantize_merged": (True, {"source": MLX, "path": "x", "to": "mlx", "lora": "../adapter"}),
        "allow_nonfinite": (True, {"source": "../nan", "dtype": "Q8_0"}),
    }),
    "quantize": (base_of(wb.quantize, "x.gguf", "Q4_K_M"), {
        **CHECKED, "lora": "../adapter", "leave_out": ["*norm*"],
        "extra_keys": (False, {"source": "../extra"}), "imatrix": "no-such-file",
        "include_weights": ["x"], "exclude_weights": ["x"], "pure": True,
        "allow_requantize": (True, {"source": GGUF}), "leave_output_tensor": (True, {"source": "../untied"}),
        "output_tensor_type": "F16", "token_embedding_type": "F16",
        "tensor_type": ["attn_v=q8_0"], "prune_layers": [1], "keep_split": (True, {"source": "../parts-00001-of-00003.gguf", "allow_requantize": True}),
        "override_kv": ["general.name=str:Mine"], "mlx": "affine", "group_size": 32, "bits": 3,
        "quant_predicate": "mixed_3_6", "file_type": "Q8_0",
    }),
    "split": (base_of(wb.split, "x"), {**WRITING, "max_size": "100KB", "max_tensors": 3}),
    "join": (base_of(wb.join, "x.safetensors"), {**WRITING, "align": 4096}),
    "create": (creating, {
        **CHECKED, "source": None, "modelfile": "no-such-file", "quantize": "int8", "template": "{{ .Prompt }}",
        "system": "Tell.", "parameters": {"stop": ["x"]}, "license": "MIT", "message": [("user", "x")],
        "adapter": "no-such-file", "projector": "no-such-file", "draft": "no-such-file",
        "draft_quantize": "int8", "renderer": "x", "parser": "x", "requires": "0.14.0",
        "store": "other-store", "allow_nonfinite": (True, {"source": "../nan", "quantize": "int8"}),
    }),
    "merge": (merging, {
        **CHECKED, "method": "slerp", "base": (HF, {"method": "ties"}), "dtype": "float16",
        "tokenizer": LARGER, "weight": 0.3, "density": (0.5, WEIGHTED), "normalize": (False, {}),
        "rescale": (True, {**WEIGHTED, "density": 0.5}), "lambda_": (0.5, WEIGHTED),
        "t": (0.1, {"method": "slerp", "base": HF, "models": ["../other"]}),
        "scale": (2.0, {"method": "passthrough", "models": [HF]}), "to": "mlx",
        "file_type": ("Q8_0", {"to": ..., "path": "x.gguf", "dtype": "float32"}),
        "max_shard_size": "100KB", "align": 64,
        "allow_nonfinite": (True, {"source": "../nan", "to": ..., "path": "x.gguf", "file_type": "Q8_0"}),
    }),
    "merged": (merged, {
        "method": "slerp", "base": (HF, {"method": "ties"}), "dtype": "float32",
        "tokenizer": LARGER, "weight": 0.3, "density": (0.5, WEIGHTED), "normalize": False,
        "rescale": (True, {**WEIGHTED, "density": 0.5}), "lambda_": (0.5, WEIGHTED), "t": (0.1, {"method": "slerp", "base": HF}),
        "scale": 2.0,
    }),
    "extract_lora": (
        lambda again=False, **o: (
            wb.extract_lora(HF, "../other", "x") if again else None, wb.extract_lora(HF, "../other", "x", **o)
        ),
        {**WRITING, "rank": 2},
    ),
    "save_file": (saving, {
        "metadata": {"a": "b"}, "dtype": "Q8_0", "to": "mlx", "threads": -1, "progress": stop,
        "overwrite": (False, {"again": True}),
    }),
    "save": (lambda **o: wb.save({"x": np.ones((4, 256))}, **o), {
        "metadata": {"a": "b"}, "dtype": "F16", "to": "gguf",
    }),
    "stats": (lambda **o: wb.stats(HF, **o), {"filter": "*norm*", "threads": -1, "progress": stop}),
    "quantize_array": (lambda **o: wb.quantize_array(np.ones((1, 256)), "Q8_0", **o), {}),
    "dequantize_array": (lambda **o: wb.dequantize_array(np.zeros((1, 34), np.uint8), "Q8_0", **o), {
        "shape": (32,), "to": "float16",
    }),
    "edit_metadata": (editing, {
        "values": {"general.name": "x"}, "remove": ["general.name"], "types": {"general.name": "string"},
    }),
    "models": (lambda **o: [row["path"] for row in wb.models(SAMPLES, **o)], {"filter": "no-such-name"}),
    "pull": (lambda **o: None, {}),
    "inspect": (wb.inspect, {}),
    "Model.tensors": (lambda **o: {n: t.shape for n, t in wb.open(HF).tensors(**o).items()}, {
        "names": "gguf", "filter": "*norm*",
    }),
    "Model.tensors_of_rank": (
        lambda **o: {n: t.shape for n, t in wb.open(HF).tensors_of_rank(**o).items()},
        {
            "names": "gguf", "tensor_parallel": (0, 2), "pipeline_parallel": (0, 2),
            "expert_parallel": (2, 2),
        },
    ),
    "Tensor.numpy": (lambda **o: first().numpy(**o).flags.writeable, {"copy": True}),
    "Tensor.torch": (lambda **o: str(first().torch(**o)), {"dtype": "float16", "device": "meta"}),
    "Tensor.raw": (lambda **o: first().raw(**o), {"part": "scale"}),
    "Tensor.dequantize": (lambda **o: first().dequantize(**o).dtype, {
        "dtype": "float16", "out": np.empty((256,), np.float16),
    }),
    "Writer.like": (lambda source=HF, **o: wb.Writer.like(source, **o).write("x"), {
        "to": "gguf", "one_file": True,
    }),
    "Writer": (lambda to="gguf", **o: wb.Writer(to, **o), {"one_file": False}),
    "Writer.set": (writer_set, {"type": "u8"}),
    "Writer.add": (writer_add, {"shape": (1,), "dtype": "F16"}),
    "Writer.write": (writer_write, {
        **WRITING, "allow_nonfinite": (True, {"source": "../nan"}), "max_shard_size": "1KB",
    }),
    "numpy.load_file": (lambda **o: wb.numpy.load_file(HF, **o), {
        "dtype": "float16", "names": "gguf", "filter": "*norm*", "threads": -1, "progress": stop,
    }),
    "jax.load_file": (lambda **o: wb.jax.load_file(HF, **o), {
        "dtype": "float16", "names": "gguf", "filter": "*norm*", "threads": -1, "progress": stop,
    }),
    "mlx.load_file": (lambda source=MLX, **o: wb.mlx.load_file(source, **o), {
        "dtype": "float16", "names": "gguf", "filter": "*norm*", "threads": -1, "progress": stop,
        "packed": True, "return_metadata": True,
    }),
    "torch.load_file": (lambda **o: wb.torch.load_file(HF, **o), {
        "dtype": "float16", "names": "gguf", "filter": "*norm*", "threads": -1, "progress": stop,
        "device": "meta", "tensor_parallel": (0, 2), "pipeline_parallel": (0, 2),
        "expert_parallel": (2, 2),
    }),
}

EXTRAS = {"jax.load_file": "jax", "mlx.load_file": "mlx", "torch.load_file": "torch", "Tensor.torch": "torch"}


def first() -> wb.Tensor:
    return wb.open(HF)["output_norm.weight"]


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public functions, and the methods of public classes."""
    for name in sorted({*wb.__all__, "hash", "open"}):
        found = getattr(wb, name)
        if inspect.isfunction(found):
            yield name, found
        elif inspect.isclass(found) and found in (wb.Model, wb.Tensor, wb.Writer):
            if found is wb.Writer:
                yield name, found.__init__
            for method, one in inspect.getmembers(found):
                is_own = not method.startswith("_") and getattr(one, "__module__", "").startswith("weighbridge")
                if is_own and (inspect.isfunction(one) or inspect.ismethod(one)):
                    yield f"{name}.{method}", one
    for module in ("numpy", "jax", "mlx", "torch"):
        try:
            yield f"{module}.load_file", importlib.import_module(f"weighbridge.{module}").load_file
        except ModuleNotFoundError:
            continue


def optional(function: Callable[..., Any]) -> set[str]:
    parameters = inspect.signature(function).parameters.values()
    return {one.name for one in parameters if one.default is not inspect.Parameter.empty}


def test_every_optional_argument_has_a_case() -> None:
    missing, gone = [], []
    for name, function in functions():
        known = {*CASES.get(name, (None, {}))[1], *UNSEEN.get(name, set())}
        missing += [f"{name}({one}=)" for one in optional(function) - known]
        gone += [f"{name}({one}=)" for one in known - optional(function)]
    assert not missing and not gone, (missing, gone)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models for options that need a special one."""
    there = tmp_path_factory.mktemp("models")
    model = wb.open(HF)

    def variant(name: str, keep: Callable[[str], bool], change: Callable[[str, Any], Any]) -> None:
        writer = wb.Writer.like(HF)
        for stored, tensor in model.stored.items():
            if keep(stored):
                writer.add(stored, change(stored, tensor))
        writer.write(there / name)

    def with_nan(name: str, tensor: wb.Tensor) -> Any:
        found = tensor.dequantize()
        if "down_proj" in name:
            found[0, 0] = np.nan
        return found

    variant("incomplete", lambda name: "q_proj" not in name, lambda _, tensor: tensor)
    variant("nan", lambda _: True, with_nan)
    variant("other", lambda _: True, lambda name, t: t.dequantize() * (1 + len(name) / 100))
    variant("extra", lambda _: True, lambda _, tensor: tensor)
    wb.extract_lora(HF, there / "other", there / "adapter", rank=2)
    wb.split(GGUF, there / "parts", max_tensors=8)
    config = json.loads(model.documents["config.json"])
    untied = wb.Writer.like(HF)
    untied.document("config.json", {**config, "tie_word_embeddings": False})
    for stored, tensor in model.stored.items():
        untied.add(stored, tensor)
    untied.add("lm_head.weight", model.stored["model.embed_tokens.weight"])
    untied.write(there / "untied")
    # A dtype that no version of ggml has.
    writer = wb.Writer("gguf")
    writer.add("zz", np.ones(32, np.int8))
    writer.write(there / "loose")
    content = (there / "loose").read_bytes()
    place = content.index(b"zz") + 2 + 4 + 8
    (there / "loose").write_bytes(content[:place] + b"\x09\x03\0\0" + content[place + 4 :])
    shutil.copytree(HF, there / "several")
    wb.save_file({"more": np.ones(3)}, there / "several" / "more.safetensors")
    return there


def digest(value: Any) -> Any:
    """What can be compared of a result."""
    if isinstance(value, (wb.Model, dict)):
        return {name: digest(one) for name, one in value.items()}
    if isinstance(value, wb.Report):
        return {name: digest(one) for name, one in value.items() if name != "seconds"}
    if isinstance(value, wb.Frame):
        return str(list(value))
    if isinstance(value, wb.Tensor):
        return value.dtype, hashlib.sha256(values(value)).hexdigest()
    if isinstance(value, (tuple, list)):
        return [digest(one) for one in value]
    if isinstance(value, wb.Writer):
        return None
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return str(value.dtype), tuple(value.shape), str(getattr(value, "device", "")), str(value)
    return value


def outcome(call: Callable[..., Any], options: dict[str, Any], place: Path) -> Any:
    """The result of a call and the files that it leaves, or its error."""
    place.mkdir()
    os.chdir(place)
    try:
        found = digest(call(**options))
    except Exception as error:
        return type(error).__name__, str(error)
    files = {
        str(path.relative_to(place)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(place.rglob("*")) if path.is_file()
    }
    return found, files


SEEN = [(name, option) for name, (_, options) in CASES.items() for option in options]


@pytest.mark.parametrize(("name", "option"), SEEN, ids=[f"{name}-{option}" for name, option in SEEN])
def test_an_argument_has_an_effect(
    name: str, option: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name in EXTRAS:
        pytest.importorskip(EXTRAS[name])
    monkeypatch.chdir(tmp_path)
    for one in folder.iterdir():
        (tmp_path / one.name).symlink_to(one)
    call, options = CASES[name]
    given = options[option]
    is_pair = isinstance(given, tuple) and isinstance(given[-1], dict)
    value, context = given if is_pair else (given, {})
    without = outcome(call, context, tmp_path / "place-1")
    with_it = outcome(call, {**context, option: value}, tmp_path / "place-2")
    assert without != with_it


@pytest.mark.parametrize("to", ["gguf", "safetensors", "mlx", "ollama"])
def test_options_of_another_container_are_refused(to: Any, tmp_path: Path) -> None:
    """By the definitions: an option with cases is refused in all others."""
    given: dict[str, Any] = {
        "mmproj": True, "extra_keys": False, "shards": "tp=2", "store": tmp_path, "requantize_merged": True,
    }
    narrow = {name for name, (_, one) in _known(ConvertOptions).items() if one.only}
    assert narrow == given.keys()
    for name, (_, one) in _known(ConvertOptions).items():
        if one.only and to not in one.only:
            with pytest.raises(wb.MismatchError, match=f"{name} has no effect for {to}"):
                wb.convert(HF, tmp_path / "x", to=to, **{name: given[name]})
    if to in ("gguf", "mlx"):
        how: Any = ("Q4_K_M",) if to == "gguf" else ()
        for name, (_, one) in _known(QuantizeOptions).items():
            value = CASES["quantize"][1].get(name)
            if one.only and to not in one.only:
                value = value[0] if isinstance(value, tuple) else value
                options: dict[str, Any] = {name: value, **({} if how else {"mlx": "affine"})}
                with pytest.raises(wb.MismatchError, match=f"{name} has no effect for {to}"):
                    wb.quantize(HF, tmp_path / "x", *how, **options)
    assert not list(tmp_path.iterdir())


def test_settings_of_a_method_are_refused_by_the_others(tmp_path: Path) -> None:
    for method, options in {
        "linear": {"density": 0.5, "rescale": True, "lambda_": 0.5, "t": 0.1, "scale": 2.0},
        "task": {"density": 0.5, "rescale": True, "t": 0.1, "scale": 2.0},
        "slerp": {"weight": 0.5, "density": 0.5, "normalize": False, "lambda_": 0.5, "scale": 2.0},
        "passthrough": {"weight": 0.5, "normalize": False, "t": 0.1},
    }.items():
        for name, value in options.items():
            given: dict[str, Any] = {"method": method, "base": HF, name: value}
            with pytest.raises(wb.MismatchError, match=f"{name} has no effect for {method}"):
                wb.merged([HF], **given)
    with pytest.raises(wb.MismatchError, match="a weight has no effect for slerp"):
        wb.merged([(HF, 0.5)], method="slerp", base=HF)
    recipe = tmp_path / "recipe.yml"
    recipe.write_text(f"merge_method: passthrough\nmodels:\n  - model: {HF}\n")
    assert len(wb.merged(recipe)) == 20
    options_of_recipes: list[dict[str, Any]] = [{"method": "linear"}, {"dtype": "F16"}, {"normalize": False}]
    for option in options_of_recipes:
        with pytest.raises(wb.MismatchError, match="beside a recipe"):
            wb.merged(recipe, **option)


def test_one_model_is_joined_unchanged(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "method": "linear", "dtype": "F16", "tokenizer": LARGER, "to": "gguf", "file_type": "Q8_0",
        "max_shard_size": "1MB", "weight": 0.5, "normalize": False,
    }
    for name, value in options.items():
        with pytest.raises(wb.MismatchError, match=f"{name} has no effect for one model"):
            wb.merge(GGUF, tmp_path / "x.gguf", **{name: value})
    with pytest.raises(wb.MismatchError, match="align has no effect"):
        wb.merge([HF, HF], tmp_path / "x.gguf", align=64)


def test_names_of_files_agree_with_what_is_written(tmp_path: Path) -> None:
    wrong = tmp_path / "x.safetensors"
    calls: list[Callable[[], object]] = [
        lambda: wb.join(GGUF, wrong), lambda: wb.merge(GGUF, wrong), lambda: wb.split(GGUF, wrong),
        lambda: wb.Writer("gguf").write(wrong), lambda: wb.Writer.like(GGUF).write(wrong),
        lambda: wb.Writer("mlx").write(tmp_path / "x.gguf"), lambda: wb.join(HF, tmp_path / "x.gguf"),
        lambda: wb.Writer.like(HF).write(wrong), lambda: wb.extract_lora(HF, GGUF, wrong), lambda: wb.quantize(HF, wrong, mlx="affine"),
    ]
    for call in calls:
        with pytest.raises(wb.MismatchError, match="is the name of a"):
            call()
    assert not list(tmp_path.iterdir())


def test_a_destination_that_exists(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"mine")
    calls: list[Callable[[], object]] = [
        lambda: wb.convert(HF, path), lambda: wb.quantize(HF, path, "Q8_0"), lambda: wb.join(GGUF, path),
        lambda: wb.hash(HF, save=path), lambda: wb.Writer("gguf").write(path),
        lambda: wb.save_file({}, path, overwrite=False),
    ]
    for call in calls:
        with pytest.raises(FileExistsError) as raised:
            call()
        error = raised.value
        assert isinstance(error, wb.PathExistsError) and isinstance(error, wb.MismatchError)
        assert (error.errno, error.filename) == (errno.EEXIST, str(path))
        assert type(pickle.loads(pickle.dumps(error))) is wb.PathExistsError
    assert path.read_bytes() == b"mine"


def test_arguments_that_name_nothing(tmp_path: Path) -> None:
    with pytest.raises(wb.NotFoundError, match="general.name"):
        wb.edit_metadata(GGUF, remove=["general.nam"])
    with pytest.raises(wb.MismatchError, match="without a value"):
        wb.edit_metadata(GGUF, types={"general.name": "string"})
    with pytest.raises(wb.MismatchError, match="include_weights has no effect without imatrix"):
        wb.quantize(HF, tmp_path / "x.gguf", "Q8_0", include_weights=["x"])
    with pytest.raises(wb.MismatchError, match="max_tensors has no effect with max_size"):
        wb.split(GGUF, tmp_path / "x", max_size="1MB", max_tensors=3)
    with pytest.raises(wb.MismatchError, match="all_files has no effect"):
        wb.open(GGUF, all_files=True)
    with pytest.raises(wb.MismatchError, match="no_map has no effect for a model that is open"):
        wb.verify(wb.open(GGUF), no_map=True)
    with pytest.raises(wb.MismatchError, match="is downloaded as a whole"):
        wb.pull("no-such-model", include=["*"])
    model = wb.open(GGUF)
    with pytest.raises(wb.MismatchError, match="no tensor's name"):
        wb.stats(list(model.stored.values()), filter="no-such-name")


DEFINITIONS = {
    "convert": ConvertOptions, "quantize": QuantizeOptions, "split": SplitOptions, "join": JoinOptions,
    "create": CreateOptions, "merge": MergeOptions, "extract_lora": LoraOptions,
}


@pytest.mark.parametrize("verb", DEFINITIONS)
def test_values_of_another_type_are_refused_by_name(verb: str, tmp_path: Path) -> None:
    special: dict[str, tuple[Any, ...]] = {"create": ("x", HF), "extract_lora": (HF, HF, "x")}
    arguments = special.get(verb, (HF, tmp_path / "x"))
    for name, (kind, one) in _known(DEFINITIONS[verb]).items():
        if one.read is flag or "Any" in str(kind) or "Setting" in str(kind):
            continue
        with pytest.raises((wb.MismatchError, TypeError)) as raised:
            getattr(wb, verb)(*arguments, **{name: object()})
        assert "extract" not in str(raised.value), (name, raised.value)
        is_named = name in str(raised.value) or not isinstance(raised.value, wb.Error)
        assert is_named or name in ("dtype", "output_tensor_type", "token_embedding_type"), raised.value


def test_members_of_another_type_are_refused_by_name(tmp_path: Path) -> None:
    lists: dict[str, Any] = {"leave_out": [3], "override_kv": [None], "prune_layers": ["x"]}
    for name, value in lists.items():
        with pytest.raises(wb.MismatchError, match=f"{name} is "):
            wb.quantize(HF, tmp_path / "x.gguf", "Q8_0", **{name: value})


def test_what_users_get_wrong(tmp_path: Path) -> None:
    wrong: dict[str, Callable[[], object]] = {
        "the metadata of safetensors are texts": lambda: wb.save({"x": np.ones(2)}, {"step": 3}),
        "not safetensors or gguf": lambda: wb.save({"x": np.ones(2)}, to="mlx"),  # type: ignore[arg-type]
        "a list, not a mapping": lambda: wb.save([np.ones(2)]),  # type: ignore[arg-type]
        "align is -1, not a number from 0": lambda: wb.join(GGUF, tmp_path / "x.gguf", align=-1),
        "tolerance is -1": lambda: wb.diff(HF, HF, tolerance=-1),
        "not of 'x'": lambda: wb.stats(["x"]),  # type: ignore[list-item]
        "progress is 3": lambda: wb.hash(HF, progress=3),  # type: ignore[arg-type]
        "mlx is 4, not a text": lambda: wb.quantize(HF, tmp_path / "x", mlx=4),  # type: ignore[arg-type]
    }
    for text, call in wrong.items():
        with pytest.raises(wb.MismatchError, match=text):
            call()
    with pytest.raises(AttributeError, match=r"numpy\(\), torch\(\) and dequantize\(\)"):
        first().tolist()  # type: ignore[attr-defined]
    one: Any = [[HF, 0.25], [GGUF, 0.75]]
    pairs = wb.merged([(HF, 0.25), (GGUF, 0.75)])
    for same in (wb.merged(one), wb.merged({HF: 0.25, GGUF: 0.75})):
        assert digest(same) == digest(pairs)
    wb.merge([HF], tmp_path / "merged")
    assert wb.open(tmp_path / "merged").container == "safetensors"
