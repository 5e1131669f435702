"""Extracts which matrices llama.cpp's graphs do not multiply by their `.scale`, from its sources.

    scales.py FOLDER [--check]      FOLDER: with the source archive of llama-cpp-python

llama.cpp's loader accepts a scale beside each matrix. The graph of an architecture applies it only where its code names it.
"""

import re
import sys
import tarfile
from pathlib import Path

import lines

FIELDS = {
    "attn_q": "wq", "attn_k": "wk", "attn_v": "wv", "attn_qkv": "wqkv", "attn_output": "wo", "attn_gate": "wqkv_gate",
    **{name: name for name in ("ffn_gate", "ffn_up", "ffn_down", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps",
        "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp", "ssm_in", "ssm_out")},
}  # fmt: skip
FOLDER = Path(next(word for word in sys.argv[1:] if not word.startswith("--")))
ARCHIVE = max(FOLDER.glob("llama_cpp_python-*.tar.gz"))
VERSION = ARCHIVE.name.removeprefix("llama_cpp_python-").removesuffix(".tar.gz")
SOURCES = {}
with tarfile.open(ARCHIVE) as archive:
    for member in archive:
        inside = member.name.partition("/vendor/llama.cpp/src/")[2]
        if inside.endswith((".cpp", ".h")):
            SOURCES[inside] = archive.extractfile(member).read().decode()
NAMES = dict(re.findall(r'\{ (LLM_ARCH_\w+),\s+"([^"]+)"', SOURCES["llama-arch.cpp"]))
CLASSES = re.findall(r"((?:case LLM_ARCH_\w+:\s*)+)(?:\{\s*)?return new (\w+)\(", SOURCES["llama-model.cpp"])
HEADER = SOURCES["models/models.h"]
FILES = [text for name, text in SOURCES.items() if name.startswith("models/") and name.endswith(".cpp")]


def graph(name):
    """The code of a class's graph, which may be that of another class."""
    body = HEADER.split(f"struct {name} ")[-1].split("\nstruct llama_model_")[0]
    own = re.search(r"using graph = (\w+)::graph", body)
    name = own.group(1) if own else name
    return next((text for text in FILES if re.search(rf"\b{name}::graph(<\w+>)?::graph\(", text)), "")


def unscaled(code):
    """The matrices whose scales the code does not name, though it names them. `build_qkv` applies its own."""
    code = code[code.find("::graph::graph(") if "::graph::graph(" in code else 0 :]
    return [name for name, field in FIELDS.items() if re.search(rf"\b{field}\b", code) and not re.search(rf"\b{field}_s\b", code)]


found = {}
for cases, name in CLASSES:
    code = graph(name)
    for case in re.findall(r"LLM_ARCH_\w+", cases):
        if code and (matrices := unscaled(code)):
            found.setdefault(tuple(matrices), []).append(NAMES[case])
files = lines.Files()
about = "By architecture, the matrices that its graph does not multiply by their scale."
rows = sorted((",".join(sorted(names)), list(matrices)) for matrices, names in found.items())
files.put("llama.cpp/scales.txt", f"llama.cpp {VERSION} (llama-cpp-python, its sources)", about, rows)
files.finish()
