"""Models, tensors and the rest as objects of Python: equality, pickles, errors, spellings."""

from __future__ import annotations

import copy
import errno
import inspect
import pickle
import pydoc
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weighbridge as wb

Q = "layers.0.attention.q.weight"


def test_identity_copies_and_pickles(sample: Path) -> None:
    model = wb.open(sample)
    assert model == model and model != wb.open(sample) and len({model, model}) == 1
    assert copy.copy(model) is model and copy.deepcopy(model) is model
    again = pickle.loads(pickle.dumps(model))
    assert again.path == model.path and list(again) == list(model)
    tensors = [
        model[Q], model[Q][3], model[Q][2:9, :64], model[Q].shard(0, 1, 2),
        next(iter(model.stored.values())), model.tensors("huggingface")["model.norm.weight"],
        model.tensors_of_rank(tensor_parallel=(1, 2))[Q],
    ]
    for tensor in tensors:
        found = pickle.loads(pickle.dumps(tensor))
        assert (found.name, found.shape) == (tensor.name, tensor.shape)
        assert np.array_equal(found.dequantize(), tensor.dequantize())
        assert copy.copy(tensor) is tensor and weakref.ref(tensor)() is tensor
    two = pickle.loads(pickle.dumps((model, model[Q])))
    assert two[1]._origin[1][0] is two[0], "a model is opened once"
    config = model.config
    for made in (copy.copy(config), copy.deepcopy(config), pickle.loads(pickle.dumps(config))):
        assert dict(made) == dict(config) and made.dim == 256
    for value in (model.metadata, model.tokenizer, wb.inspect(model), wb.diff(model, model)):
        assert pickle.loads(pickle.dumps(value)) is not None


def test_a_closed_model(assets: Path) -> None:
    with wb.open(assets / "hf") as model:
        tensor = model[Q]
    for use in (lambda: model[Q], lambda: list(model.stored), lambda: model.config):
        with pytest.raises(ValueError, match="closed"):
            use()
    assert repr(model) == "Model(closed)"
    assert tensor.numpy().shape == (256, 256)


def test_every_spelling_of_a_dtype(assets: Path, tmp_path: Path) -> None:
    import ml_dtypes

    tensor = wb.open(assets / "hf")[Q]
    halves: list[Any] = ["float16", "F16", "f16", "half", np.float16, np.dtype(np.float16)]
    brains: list[Any] = ["bfloat16", "BF16", "bf16", "torch.bfloat16", ml_dtypes.bfloat16]
    try:
        import torch

        halves, brains = [*halves, torch.float16], [*brains, torch.bfloat16]
    except ImportError:
        pass
    values = np.ones((2, 64), np.float32)
    for name, spellings in (("F16", halves), ("BF16", brains)):
        for number, spelling in enumerate(spellings):
            path = tmp_path / f"{name}-{number}.safetensors"
            assert tensor.dequantize(spelling).dtype.itemsize == 2
            loaded = wb.numpy.load_file(assets / "sample-Q8_0.gguf", dtype=spelling)
            assert loaded["model.norm.weight"].dtype.itemsize == 2
            wb.save_file({"x": values}, path, dtype=spelling)
            assert wb.open(path).stored["x"].dtype == name
            report = wb.convert(
                assets / "hf", tmp_path / "x.gguf", dtype=spelling, dry_run=True
            )
            assert name in {tensor["dtype"] for tensor in report.tensors}
    wrong: Any = "q4_kk"
    with pytest.raises(wb.MismatchError, match="Q4_K"):
        wb.save_file({"x": values}, tmp_path / "x.gguf", dtype=wrong)


def dtype_of(array: Any) -> Any:
    """Floats of 4 bits are read as 32-bit floats."""
    return np.float32 if array.dtype.name == "float4_e2m1fn" else array.dtype


def test_arrays_of_every_kind(tmp_path: Path) -> None:
    import ml_dtypes

    arrays = {
        "big": np.arange(4, dtype=">i4"), "complex": np.array([1 + 2j], np.complex64),
        "fnuz": np.array([0.5], ml_dtypes.float8_e4m3fnuz), "scalar": np.array(3.0),
        "fp4": np.array([[0.5, -6, 0, 3]]).astype(ml_dtypes.float4_e2m1fn),
    }
    wb.save_file(arrays, tmp_path / "x.safetensors", {"format": "np"})
    model = wb.open(tmp_path / "x.safetensors")
    assert model.metadata["format"] == "np"
    for name, array in arrays.items():
        assert np.array_equal(model.stored[name].numpy(), np.asarray(array, dtype_of(array))), name
    with pytest.raises(wb.MismatchError, match="does not divide into pairs"):
        wb.save({"x": arrays["fp4"][:, :3]})
    again = wb.open_bytes(wb.save(arrays, {"format": "np"}))
    assert set(again.stored) == set(arrays)
    with (tmp_path / "x.safetensors").open("rb") as file:
        assert set(wb.open_bytes(file).stored) == set(arrays)
    assert np.array_equal(pickle.loads(pickle.dumps(again)).stored["big"].numpy(), arrays["big"])


def test_names_are_suggested(assets: Path) -> None:
    model = wb.open(assets / "sample-Q8_0.gguf")
    for wrong, right in {
        "model.embed_tokens.weight": "token_embedding.weight",
        "model.layers.1.self_attn.q_proj.weight": "layers.1.attention.q.weight",
        "blk.0.attn_q.weight": Q,
        "token_embeding.weight": "token_embedding.weight",
    }.items():
        with pytest.raises(wb.NotFoundError) as raised:
            model[wrong]
        assert f'"{right}"' in str(raised.value) and right in model
    with pytest.raises(KeyError, match="general.name"):
        model.metadata["general.nam"]
    names: Any = "hf"
    with pytest.raises(wb.MismatchError, match="canonical, stored, huggingface, mlx or gguf"):
        model.tensors(names)
    with pytest.raises(wb.MismatchError, match="no tensor's name"):
        model.tensors(filter="absent.*")


def test_errors_are_pythons(assets: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        wb.open(tmp_path / "absent.gguf")
    error = raised.value
    assert error.errno == errno.ENOENT and error.filename == str(tmp_path / "absent.gguf")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error)
    assert wb.MismatchError.__module__ == "weighbridge"
    wb.convert(assets / "hf", tmp_path / "x.gguf")
    with pytest.raises(wb.MismatchError) as exists:
        wb.convert(assets / "hf", tmp_path / "x.gguf")
    assert "overwrite=True" in str(exists.value) and "--" not in str(exists.value)
    with pytest.raises(wb.Error) as again_quantized:
        wb.quantize(assets / "sample-Q8_0.gguf", tmp_path / "q.gguf", "Q4_K_M")
    assert "allow_requantize=True" in str(again_quantized.value)
    wrong: dict[str, Callable[[], object]] = {
        "threads is -1": lambda: wb.hash(assets / "hf", threads=-1),
        "not a number of bytes": lambda: wb.split(assets / "hf", tmp_path / "s", max_size="5 apples"),
        'key "a"': lambda: wb.Writer("gguf").set("a", {}),
        "does not fit the type u8": lambda: wb.Writer("gguf").set("a", 300, "u8"),
    }
    for text, call in wrong.items():
        with pytest.raises(wb.MismatchError) as fault:
            call()
        assert text in str(fault.value)


def test_an_adapter_of_another_model(assets: Path, tmp_path: Path) -> None:
    wb.save_file(
        {
            f"base_model.model.model.layers.9.self_attn.q_proj.lora_{one}.weight": values
            for one, values in (("A", np.ones((2, 256), np.float32)), ("B", np.ones((256, 2), np.float32)))
        },
        tmp_path / "adapter_model.safetensors",
    )
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 2, "lora_alpha": 2}')
    for lora in (tmp_path, [tmp_path], [(tmp_path, 0.5)]):
        with pytest.raises(wb.NotFoundError, match="another model"):
            wb.convert(assets / "hf", tmp_path / "x.gguf", lora=lora)


def test_what_a_shell_shows(assets: Path) -> None:
    model = wb.open(assets / "sample-Q8_0.gguf")
    for value in (model, model.stored, model.metadata, model.config, wb.inspect(model)):
        assert value._ipython_key_completions_() == list(value)
    assert "torch" in dir(wb) and "annotations" not in dir(wb)
    assert "dim" in dir(model.config) and "tensors" in dir(wb.inspect(model))
    page = model._repr_html_()
    assert Q in page and "<table>" in page
    report = wb.convert(model, "x.gguf", dry_run=True)
    assert "20 tensors" in repr(report) and "MiB" in repr(report)
    assert model.config.sliding_window is None and model.config.sources["dim"]
    with pytest.raises(AttributeError):
        model.config.absent  # type: ignore[attr-defined]
    known = set(wb.Config.__annotations__)
    for path in ("sample-Q8_0.gguf", "hf", "mlx-4bit"):
        names = {name.rpartition(".")[2] for name in wb.open(assets / path).config}
        assert names <= known, names - known


def test_metadata_and_tokenizer(assets: Path, tmp_path: Path) -> None:
    model = wb.open(assets / "sample-Q8_0.gguf")
    tokenizer = model.tokenizer
    assert tokenizer is not None and tokenizer.special["eos"] == 1 and tokenizer.kind == "bpe"
    assert tokenizer.kinds is not None and len(tokenizer.kinds) == len(tokenizer) == 512
    assert len(tokenizer.merges) > 0 and model.metadata.types["llama.block_count"] == "u32"
    assert b'"hidden_size"' in model.documents["config.json"]
    path = tmp_path / "x.gguf"
    path.write_bytes((assets / "sample-Q8_0.gguf").read_bytes())
    settings = {"general.name": "Mine", "mine.small": 7, "mine.exact": 0.1}
    types = {"mine.small": "u8", "mine.exact": "f64"}
    wb.edit_metadata(path, settings, types=types, remove=["general.size_label"])
    changed = wb.open(path).metadata
    assert {key: changed[key] for key in settings} == settings
    assert {key: changed.types[key] for key in types} == types
    assert wb.diff(path, model).is_equal
    assert str(path) in wb.models(tmp_path, filter="x*")["path"]


def test_a_writer_that_computes(assets: Path, tmp_path: Path) -> None:
    model = wb.open(assets / "hf")
    calls: list[str] = []

    def half(name: str) -> Callable[[], Any]:
        def compute() -> Any:
            calls.append(name)
            return model.stored[name].dequantize() / 2

        return compute

    writer = wb.Writer.like(model)
    for name, tensor in model.stored.items():
        writer.add(name, half(name), shape=tensor.shape, dtype=tensor.dtype)
    assert not calls
    report = writer.write(tmp_path / "half", max_shard_size="200KB", threads=2)
    assert sorted(calls) == sorted(model.stored) and len(report.files) > 5
    assert (tmp_path / "half" / "tokenizer.json").is_file()
    made = wb.open(tmp_path / "half")
    for name, tensor in model.stored.items():
        assert np.array_equal(made.stored[name].dequantize(), tensor.dequantize() / 2)
    # A function is called again when the writer writes again.
    writer.write(tmp_path / "again", threads=1)
    assert len(calls) == 2 * len(model.stored)
    quantized = wb.Writer.like(model, "gguf")
    quantized.add("x.weight", half(next(iter(model.stored))), shape=(512, 256), dtype="Q4_K")
    quantized.write(tmp_path / "x.gguf")
    one = wb.open(tmp_path / "x.gguf")
    assert one.stored["x.weight"].dtype == "Q4_K" and one.metadata["general.architecture"] == "llama"

    def fails() -> Any:
        raise ZeroDivisionError("mine")

    for function, text in ((fails, "mine"), (lambda: np.ones(3), "shape"), (lambda: 3, "not an array")):
        writer = wb.Writer("safetensors")
        writer.add("x", function, shape=(2,))
        with pytest.raises(wb.Error, match=text):
            writer.write(tmp_path / "y.safetensors")
    with pytest.raises(wb.MismatchError, match="shape="):
        writer.add("y", fails)
    assert not (tmp_path / "y.safetensors").exists()


def test_arrays_are_quantized_as_tensors_are(tmp_path: Path) -> None:
    values = np.random.default_rng(1).standard_normal((3, 512), np.float32)
    for dtype in ("Q8_0", "Q4_K", "Q6_K", "MXFP4"):
        wb.save_file({"x": values}, tmp_path / "x.gguf", dtype=dtype)
        tensor = wb.open(tmp_path / "x.gguf").stored["x"]
        packed = wb.quantize_array(values, dtype)
        assert packed.tobytes() == tensor.raw().tobytes()
        assert np.array_equal(wb.dequantize_array(packed, dtype), tensor.dequantize())
        flat = wb.dequantize_array(packed.tobytes(), dtype, (3, 512), to="float16")
        assert np.array_equal(flat, tensor.dequantize("float16"))
    with pytest.raises(wb.MismatchError):
        wb.quantize_array(values[:, :100], "Q4_K")


def test_statistics(assets: Path) -> None:
    model = wb.open(assets / "hf")
    frame = wb.stats(model, filter="*attention.?.weight")
    assert len(frame) == 6 and list(frame.columns)[:2] == ["name", "dtype"]
    for row in frame:
        values = model[row["name"]].dequantize().astype(np.float64)
        assert np.isclose(row["mean"], values.mean()) and row["max"] == values.max()
    assert len(wb.stats(model[Q])) == 1 and "deviation" in repr(frame)
    assert wb.stats(model.stored)["name"] == list(model.stored)
    named = {"mine": model[Q], "other": model[Q][3]}
    assert wb.stats(named)["name"] == ["mine", "other"]
    assert wb.stats(list(named.values()), filter=Q)["elements"] == [65536, 256]


def test_a_model_without_a_path_is_verified(assets: Path, tmp_path: Path) -> None:
    data = (assets / "sample-Q8_0.gguf").read_bytes()
    assert wb.verify(wb.open_bytes(data), deep=True, save=tmp_path / "list")
    merged = wb.merged([(assets / "hf", 0.5), (assets / "hf", 0.5)])
    assert wb.verify(merged, deep=True)
    assert wb.verify(wb.open_bytes(data), against=tmp_path / "list")


def test_names_that_users_see() -> None:
    for name in {*wb.__all__, "open", "hash"} - {"__version__", "add_families"}:
        assert getattr(wb, name).__module__ == "weighbridge", name
    assert pickle.loads(pickle.dumps(wb.Tensor)) is wb.Tensor
    plain: Any = pydoc
    text = plain.render_doc(wb, renderer=plain.plaintext)
    assert "help(wb.open)" in text and "weighbridge._tensor" not in text and "SAMPLE" not in text


def test_members_without_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.delitem(sys.modules, "weighbridge.jax", raising=False)
    monkeypatch.delattr(wb, "jax", raising=False)
    assert "jax" not in dict(inspect.getmembers(wb))
