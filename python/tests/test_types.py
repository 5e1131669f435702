"""What a type checker finds in a user's script."""

from __future__ import annotations

from pathlib import Path

import pytest

CODE = '''
import weighbridge as wb

model = wb.open("x")
wb.opne("x")
wb.savefile()
wb.numpy.load_fil("x")
model.config.dimm
model.tensors("hf")
model["x"].dequantize("float17")
wb.convert(model, "y", to="ggfu")
wb.open("x", strictness="hard")
width: str = model.config.dim
'''

GOOD = '''
import numpy as np
import weighbridge as wb

with wb.open("x", strictness="strict") as model:
    width: int = model.config.dim
    values = model["x"][3:5].dequantize(np.float16)
    report: wb.WriteReport = wb.convert(model, "y.gguf", dtype="F16", max_shard_size="5GB")
    names: list[str] = report.written
    kind: str = wb.UnsupportedError("x").kind
wb.save_file({"x": np.ones(3)}, "y.safetensors", {"a": "b"}, dtype=np.float16)
'''


def test_mypy_finds_misspelled_names(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    (tmp_path / "bad.py").write_text(CODE)
    (tmp_path / "good.py").write_text(GOOD)
    options = ["--strict", "--cache-dir", str(tmp_path / "cache"), "--follow-imports=silent"]
    found, _, status = api.run([*options, str(tmp_path / "bad.py")])
    lines = {int(line.split(":")[1]) for line in found.splitlines() if ": error:" in line}
    assert lines == set(range(5, 14)), found
    found, _, status = api.run([*options, str(tmp_path / "good.py")])
    assert status == 0, found
