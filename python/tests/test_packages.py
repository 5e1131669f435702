"""The modules for scripts of gguf-py, and for transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weighbridge as wb
import weighbridge.gguf as wbg


def copy(package: Any, source: Path, target: Path) -> None:
    """What scripts do with gguf-py: copy a file, key by key and tensor by tensor."""
    reader = package.GGUFReader(str(source))
    arch = reader.get_field("general.architecture").contents()
    writer = package.GGUFWriter(str(target), arch)
    for field in reader.fields.values():
        if field.name == "general.architecture" or field.name.startswith("GGUF."):
            continue
        sub_type = field.types[-1] if field.types[0] == package.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), field.types[0], sub_type)
    for tensor in reader.tensors:
        writer.add_tensor(
            tensor.name, tensor.data, raw_shape=tensor.data.shape, raw_dtype=tensor.tensor_type
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_copy_of_a_file(assets: Path, tmp_path: Path) -> None:
    source = assets / "sample-Q8_0.gguf"
    copy(wbg, source, tmp_path / "a.gguf")
    assert wb.diff(source, tmp_path / "a.gguf").is_equal
    ours, theirs = wb.open(tmp_path / "a.gguf").metadata, wb.open(source).metadata
    assert dict(ours) == dict(theirs) and ours.types == theirs.types
    package = pytest.importorskip("gguf")
    copy(package, source, tmp_path / "b.gguf")
    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes()
    a, b = wbg.GGUFReader(source), package.GGUFReader(str(source))
    assert a.data_offset == b.data_offset and a.alignment == b.alignment
    for ours_, theirs_ in zip(a.tensors, b.tensors, strict=True):
        assert ours_.name == theirs_.name and int(ours_.tensor_type) == int(theirs_.tensor_type)
        assert list(ours_.shape) == list(theirs_.shape) and ours_.n_bytes == theirs_.n_bytes
        assert ours_.data_offset == theirs_.data_offset and ours_.n_elements == theirs_.n_elements
        assert np.array_equal(ours_.data, theirs_.data) and ours_.data.dtype == theirs_.data.dtype
        values = wbg.quants.dequantize(ours_.data, ours_.tensor_type)
        expected = package.quants.dequantize(theirs_.data, theirs_.tensor_type)
        assert np.array_equal(values, expected)
        packed = wbg.quants.quantize(values, getattr(wbg.GGMLQuantizationType, "Q8_0"))
        assert np.array_equal(packed, package.quants.quantize(values, package.GGMLQuantizationType.Q8_0))


def test_a_new_file(tmp_path: Path) -> None:
    writer = wbg.GGUFWriter(tmp_path / "x.gguf", "mine")
    writer.add_block_count(3)
    writer.add_uint64("mine.large", 2**63)
    writer.add_array("mine.words", ["a", "b"])
    writer.add_tensor("w", np.ones((2, 4), np.float32))
    writer.close()
    model = wb.open(tmp_path / "x.gguf")
    assert model.metadata["mine.block_count"] == 3 and model.metadata["mine.large"] == 2**63
    assert model.metadata.types["mine.words"] == "array[string]" and "w" in model.stored
    with pytest.raises(AttributeError):
        writer.add_nothing(1)


def test_scripts_of_gguf_py(assets: Path, tmp_path: Path) -> None:
    import weighbridge.gguf as gguf

    # A file is read key by key and tensor by tensor, and written again with another name.
    reader = gguf.GGUFReader(assets / "sample-Q8_0.gguf")
    keys = gguf.Keys
    arch = reader.fields[keys.General.ARCHITECTURE].contents()
    blocks = reader.fields[keys.LLM.BLOCK_COUNT.format(arch=arch)]
    assert blocks.parts[blocks.data[0]].dtype == np.uint32 and blocks.contents() == 2
    assert reader.fields["GGUF.tensor_count"].contents() == len(reader.tensors) == 20
    assert reader.endianess == gguf.GGUFEndian.LITTLE and reader.byte_order == "I"
    assert set(vars(keys.Tokenizer).values()) & set(reader.fields)
    writer = gguf.GGUFWriter(tmp_path / "again.gguf", arch, endianess=reader.endianess)
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name != keys.General.ARCHITECTURE:
            kind, inner = field.types[0], field.types[-1] if len(field.types) > 1 else None
            writer.add_key_value(field.name, field.contents(), kind, inner)
    writer.add_name("again")
    for tensor in reader.tensors:
        data = tensor.data
        writer.add_tensor_info(tensor.name, data.shape, data.dtype, data.nbytes, tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for tensor in reader.tensors:
        writer.write_tensor_data(tensor.data, tensor_endianess=reader.endianess)
    writer.close()
    again = wb.open(tmp_path / "again.gguf")
    assert again.metadata["general.name"] == "again"
    assert wb.diff(assets / "sample-Q8_0.gguf", again).is_equal
    q8 = gguf.GGMLQuantizationType.Q8_0
    assert gguf.GGML_QUANT_SIZES[q8] == (32, 34)
    assert gguf.quant_shape_to_byte_shape((4, 64), q8) == (4, 68)
    assert gguf.quant_shape_from_byte_shape((4, 68), q8) == (4, 64)
    with pytest.raises(wb.MismatchError, match="multiple of 32"):
        gguf.quant_shape_to_byte_shape((4, 63), q8)
    ones = np.ones((2, 32), np.float32)
    assert np.allclose(gguf.dequantize(gguf.quantize(ones, q8), q8), ones, atol=1e-3)
    assert gguf.LlamaFileType.MOSTLY_Q4_K_M == 15 and gguf.LlamaFileType.ALL_F32 == 0
    assert gguf.GGUFValueType.get_type([1]) == gguf.GGUFValueType.ARRAY
    layers = gguf.GGUFWriter(tmp_path / "layers.gguf", "mine")
    layers.add_head_count([4, 8])
    layers.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    layers.close()
    read = wb.open(tmp_path / "layers.gguf").metadata
    assert list(read["mine.attention.head_count"]) == [4, 8]
    assert read["mine.rope.scaling.type"] == "yarn"
    with pytest.raises(wb.UnsupportedError, match="big-endian"):
        gguf.GGUFWriter(None, "mine", endianess=gguf.GGUFEndian.BIG)


def test_transformers(sample: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    import weighbridge.transformers as wbt

    model, tokenizer = wbt.from_pretrained(sample, dtype="float32")
    assert type(model).__name__ == "LlamaForCausalLM" and model.dtype == torch.float32
    ids = tokenizer("ab cd", return_tensors="pt")
    state = wb.torch.load_file(sample, dtype="float32")
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, state.get(name, state["model.embed_tokens.weight"])), name
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        sample.parent / "hf", dtype=torch.float32
    )
    own = transformers.AutoTokenizer.from_pretrained(sample.parent / "hf")
    assert own("ab cd")["input_ids"] == tokenizer("ab cd")["input_ids"]
    with torch.no_grad():
        ours, exact = model(**ids).logits, theirs(**ids).logits
    if sample.name == "hf":
        assert torch.equal(ours, exact)
    else:
        assert torch.nn.functional.cosine_similarity(ours, exact, dim=-1).min() > 0.95


def test_mlx_lm(sample: Path) -> None:
    mx = pytest.importorskip("mlx.core")
    mlx_lm = pytest.importorskip("mlx_lm")
    import weighbridge.mlx_lm as wbm

    model, tokenizer = wbm.load(sample)
    ids = mx.array([tokenizer.encode("ab cd")])
    if sample.suffix == ".gguf":
        assert model(ids).shape == (1, ids.shape[1], 512)
        return
    theirs, own = mlx_lm.load(str(sample))
    assert own.encode("ab cd") == tokenizer.encode("ab cd")
    assert mx.array_equal(model(ids), theirs(ids))


def test_a_number_is_replaced_in_place(assets: Path, tmp_path: Path) -> None:
    import weighbridge.gguf as gguf

    path = tmp_path / "x.gguf"
    path.write_bytes((assets / "sample-Q8_0.gguf").read_bytes())
    key = "llama.context_length"
    field = gguf.GGUFReader(path).fields[key]
    field.parts[field.data[0]][0] = 7
    assert wb.open(path).metadata[key] == 256
    field = gguf.GGUFReader(path, "r+").fields[key]
    field.parts[field.data[0]][0] = 7
    assert wb.open(path).metadata[key] == 7 and wb.verify(path)
    assert path.stat().st_size == (assets / "sample-Q8_0.gguf").stat().st_size
    with pytest.raises(wb.UnsupportedError, match="'w'"):
        gguf.GGUFReader(path, "w")
    # Before each text stands its length.
    words = gguf.GGUFReader(path).fields["tokenizer.ggml.tokens"]
    texts = wb.open(path).metadata["tokenizer.ggml.tokens"]
    assert [bytes(words.parts[place]).decode() for place in words.data] == texts
    assert words.parts[-2][0] == len(words.parts[-1])


def test_options_of_gguf_py_are_kept_or_refused(tmp_path: Path) -> None:
    import weighbridge.gguf as gguf

    with pytest.raises(wb.UnsupportedError, match="split_max_size is 5"):
        gguf.GGUFWriter(tmp_path / "x.gguf", "llama", split_max_size=5)
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "llama", dry_run=True)
    writer.add_head_count_kv([2, 2])
    writer.add_tensor("a", np.ones((2, 32), np.float32), raw_shape=(4, 16))
    writer.add_tensor_info("b", (2,), np.dtype(np.float32), 8)
    with pytest.raises(wb.MismatchError, match="but 8 of float32 are announced"):
        writer.write_tensor_data(np.ones(2, np.float64))
    writer.write_tensors_to_file()
    assert not (tmp_path / "x.gguf").exists()
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "llama")
    writer.add_head_count_kv([2, 2])
    writer.close()
    assert wb.open(tmp_path / "x.gguf").metadata.types["llama.attention.head_count_kv"] == "array[i32]"
