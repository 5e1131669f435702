"""The examples of docstrings and of docs/python.md run."""

from __future__ import annotations

import doctest
import importlib
import os
from pathlib import Path

import pytest

import weighbridge

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "assets" / "sample" / "sample-Q8_0.gguf"
MODULES = ["", "._dtypes", "._errors", "._sizes", ".mlx_lm", ".numpy", ".torch", ".transformers"]
"""The modules with examples. The public names of the others are those of the package itself."""

EXTRAS = ("mlx_lm", "torch", "transformers")


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.symlink(SAMPLE, "model.gguf")
    if name.removeprefix(".") in EXTRAS:
        pytest.importorskip(name.removeprefix("."))
    module = importlib.import_module("weighbridge" + name)
    failed, tried = doctest.testmod(module, extraglobs={"wb": weighbridge})
    assert failed == 0 and tried > 0


def test_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    os.symlink(ROOT / "assets", tmp_path / "assets")
    monkeypatch.chdir(tmp_path)
    guide = str(ROOT / "docs" / "python.md")
    failed, tried = doctest.testfile(guide, module_relative=False)
    assert failed == 0 and tried > 5


def test_every_public_name_has_documentation() -> None:
    for name in weighbridge.__all__:
        if not name.startswith("__"):
            assert getattr(weighbridge, name).__doc__, name
