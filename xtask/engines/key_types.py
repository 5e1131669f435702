"""Writes engines/llama.cpp/types.txt: the types of the numbers and flags that gguf-py writes, which the loader requires.

    key_types.py [--check]

The writer has a function for each key, which calls the one of a type. Keys with a part to fill in are left out.
"""

import ast
import inspect
import re
from importlib.metadata import version

import gguf
import lines

TYPES = {"uint32": "u32", "int32": "i32", "float32": "f32", "bool": "bool"}


def key(node):
    """The key that an expression such as Keys.LLM.CONTEXT_LENGTH.format(arch=…) names, without the architecture."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        node = node.func.value
    found = re.fullmatch(r"Keys((?:\.\w+)+)", ast.unparse(node))
    if not found:
        return None
    value = gguf.Keys
    for part in found[1].split(".")[1:]:
        value = getattr(value, part)
    name = value.removeprefix("{arch}.")
    return None if "{" in name else name


files = lines.Files()
found = {name: set() for name in TYPES.values()}
for node in ast.walk(ast.parse(inspect.getsource(gguf.gguf_writer))):
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        written = TYPES.get(node.func.attr.removeprefix("add_"))
        name = written and key(node.args[0])
        if name:
            found[written].add(name)
about = "The types of numbers and flags, by key without the architecture. The loader refuses a file with another type."
files.put("llama.cpp/types.txt", f"gguf-py {version('gguf')}", about, [(name, sorted(keys)) for name, keys in found.items()])
files.finish()
