"""Writes engines/llama.cpp/types.txt: the types of the numbers and flags that gguf-py writes, which the loader requires.

    key_types.py [--check]

The writer has a function for each key, which calls the one of a type. Keys with a part to fill in are left out. A loader does not
look at every key: a file is made in which all of an architecture have a text as value, and llama.cpp names the first one that it
reads, which gets its usual value, until no other one is named.
"""

import ast
import inspect
import re
import tempfile
from importlib.metadata import version
from pathlib import Path

import gguf
import lines
import loader

TYPES = {"uint32": "u32", "int32": "i32", "float32": "f32", "bool": "bool"}
# Types of the elements of arrays, which the writer takes from Python's: those that the loader accepts.
ARRAYS = [("tokenizer.ggml.token_type", "i32"), ("tokenizer.ggml.scores", "i32"), ("tokenizer.ggml.scores", "f32")]
GENERAL = ("general.", "tokenizer.", "clip.", "quantize.", "imatrix.", "adapter.", "split.")


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


def read_of(path, architecture, graph, wanted):
    """The keys that the loader of an architecture reads; None if it loads no file of the table."""
    read = set()
    for usual, tensors in loader.files(graph, architecture):
        loader.write(path, architecture, usual, tensors)
        if not loader.loads(path)[0]:
            continue
        wrong = set(wanted)
        while True:
            loader.write(path, architecture, usual | dict.fromkeys(wrong, "x"), tensors)
            named = re.search(rf"key {re.escape(architecture)}\.(\S+) has wrong type", loader.loads(path)[1])
            if not named or named[1] not in wrong:
                break
            wrong.remove(named[1])
            read.add(named[1])
    return read or None


def architectures():
    """The architectures of graphs.txt, each with its lines."""
    for (names, *_), found in lines.blocks("llama.cpp/graphs.txt"):
        graph = loader.Graph(found)
        graph.checks = [words[1] for words in found if words[0] == "check"]
        for architecture in names.split(","):
            yield architecture, graph


written = {name: {key for key, of in ARRAYS if of == name} for name in TYPES.values()}
for node in ast.walk(ast.parse(inspect.getsource(gguf.gguf_writer))):
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        type_ = TYPES.get(node.func.attr.removeprefix("add_"))
        name = type_ and key(node.args[0])
        if name:
            written[type_].add(name)
wanted = {name for keys in written.values() for name in keys if not name.startswith(GENERAL)}
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.gguf"
    read = {name: read_of(path, name, graph, wanted) for name, graph in architectures()}
read = {name: keys for name, keys in read.items() if keys}


def row(name):
    """A key, and the architectures that read it, if not all do; None if none does."""
    if name.startswith(GENERAL):
        return name
    readers = sorted(architecture for architecture, keys in read.items() if name in keys)
    few = [] if len(readers) == len(read) else [",".join(readers)]
    return " ".join([name, *few]) if readers else None


files = lines.Files()
about = (
    "The types of numbers and flags, by key without the architecture, and the architectures whose loaders read the key, if not all "
    "do. The loader refuses a file with another type."
)
content = [(name, [found for key in sorted(keys) if (found := row(key))]) for name, keys in written.items()]
versions = f"gguf-py {version('gguf')}, llama.cpp {loader.llama_cpp.__version__} (llama-cpp-python)"
files.put("llama.cpp/types.txt", versions, about, content)
files.finish()
