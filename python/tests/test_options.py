"""The options of verbs: each is defined once, and is that of the program."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import weighbridge as wb

WRITING = (wb.convert, wb.quantize, wb.merge, wb.split, wb.join, wb.create, wb.extract_lora)

SHOWN = {"all", "by-layer", "help", "json", "list-types", "quiet", "sort", "version"}
"""Options of what the program prints."""

ELSEWHERE = {
    "convert": {"lora-from": "extract_lora(base, ...)", "rank": "extract_lora(rank=)", "no-extra-keys": "extra_keys"},
    "quantize": {"no-extra-keys": "extra_keys", "type": "file_type", "compare": "diff"},
    "merge": {"quantize": "file_type"},
    "split": {"join": "join", "align": "join(align=)", "max-shard-size": "max_size"},
    "create": {"file": "modelfile", "parameter": "parameters"},
}
"""Options of the program with another name in Python, or in another function."""


def test_options_have_a_signature_and_a_description(assets: Path) -> None:
    with pytest.raises(TypeError, match="no option 'dri_run'; the most similar one is 'dry_run'"):
        wb.convert(assets / "hf", "x.gguf", dri_run=True)  # type: ignore[call-arg]
    for verb in (*WRITING, wb.merged, wb.Writer.write):
        options = inspect.signature(verb).parameters.values()
        keywords = [one.name for one in options if one.kind is inspect.Parameter.KEYWORD_ONLY]
        assert keywords and all(f"- `{name}`:" in (verb.__doc__ or "") for name in keywords)
    for verb in WRITING:
        shared = {"overwrite", "dry_run", "threads", "max_memory", "progress"}
        assert shared <= inspect.signature(verb).parameters.keys()


@pytest.mark.parametrize("verb", ["convert", "quantize", "merge", "split", "create", "verify", "diff"])
def test_python_has_the_options_of_the_program(verb: str) -> None:
    program = [sys.executable, "-m", "weighbridge._program", verb, "--help"]
    text = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    # Options of all verbs come after those of this one.
    text = re.split(r"^(?:Global|General|Common) options:", text, flags=re.MULTILINE)[0]
    found = set(re.findall(r"^ +(?:-\w, )?--([a-z0-9-]+)", text, re.MULTILINE))
    known = inspect.signature(getattr(wb, verb)).parameters.keys()
    missing = {
        name for name in found - SHOWN - ELSEWHERE.get(verb, {}).keys()
        if name.replace("-", "_") not in known
    }
    assert not missing


def test_a_model_is_run(assets: Path, tmp_path: Path) -> None:
    found = wb.verify(assets / "sample-Q8_0.gguf", run=True, save=tmp_path / "list")
    assert found and found.run["tokens"] > 0 and found.run["faults"] == []
    assert wb.verify(assets / "sample-Q8_0.gguf", against=tmp_path / "list")
