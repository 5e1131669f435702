"""Writes engines/llama.cpp/extracted.txt: the architectures that graphs.txt does not have, as the installed llama.cpp loads them.

    extract.py [--check] [--match REGEX]

For each architecture that gguf-py knows, it begins with a file of the keys in loader.py and without tensors. llama.cpp names the key
or the tensor that is missing, and the shape that it expects, until the file is loaded; then the further tensors that gguf-py lists are
tried one by one. A length is given the first name of numbers.txt that has its value for two sets of keys.
"""

import re
import sys
import tempfile
from pathlib import Path

import gguf
import lines
import loader

# Values of keys that loaders ask for, by the end of the name; a whole number otherwise.
VALUES = loader.EXPERTS | loader.SSM | loader.LATENT | loader.SECTIONS | {"shortconv.l_cache": 3}
REALS = re.compile(r"epsilon|scale|factor|theta|base|alpha|beta|clamp|limit|softcapping")
# A second set of numbers, in which other lengths are equal by chance.
SECOND = {
    "embedding_length": 112,
    "feed_forward_length": 136,
    "attention.head_count": 4,
    "attention.head_count_kv": 1,
    "attention.key_length": 24,
    "attention.value_length": 24,
    "rope.dimension_count": 24,
    "context_length": 46,
    "vocab_size": 50,
    "expert_count": 10,
    "expert_feed_forward_length": 44,
    "expert_shared_feed_forward_length": 52,
    "expert_shared_count": 3,
}
# Keys of different kinds of models; the first kind is taken that the loader accepts.
BASES = [
    {},
    loader.EXPERTS,
    loader.EXPERTS | loader.LATENT | loader.ABSORBED,
    loader.SSM,
    loader.SSM | loader.HYBRID,
    loader.SSM | loader.HYBRID | loader.EXPERTS,
    loader.SSM | loader.HYBRID | loader.EXPERTS | loader.LATENT,
    loader.EXPERTS | {"expert_group_count": 2, "expert_group_used_count": 1},
]
MOST = 600


def asked(found, architecture):
    """The value of a key that a loader asks for."""
    key = found.removeprefix(architecture + ".")
    return key, VALUES.get(key, 1.0 if REALS.search(key) else 2)


def grow(path, architecture, keys, tensors):
    """Adds what llama.cpp asks for until it loads the file; why it does not, if it never does."""
    for _ in range(MOST):
        loader.write(path, architecture, keys, tensors)
        loaded, said = loader.loads(path)
        key = re.search(r"key not found in model: (\S+)", said)
        missing = re.search(r"missing tensor '(.*?)'|tensor '(.*?)' not found", said)
        wrong = re.search(r"tensor '(.*?)' has wrong shape; expected ([\d, ]+)", said)
        if loaded:
            return None
        if key and key[1].startswith(architecture):
            name, value = asked(key[1], architecture)
            if name in keys:
                return said
            keys[name] = value
        elif missing and (asked_for := missing[1] or missing[2]) not in tensors:
            kind = re.sub(r"\d+", "N", asked_for)
            same = [shape for name, shape in tensors.items() if re.sub(r"\d+", "N", name) == kind]
            tensors[asked_for] = same[-1] if same else [1]
        elif wrong and tensors.get(wrong[1]) != (shape := [int(length) for length in wrong[2].split(",") if length.strip()]):
            tensors[wrong[1]] = loader.trimmed(shape)
        else:
            return said or "no reason"
    return "too many tensors"


def optional(path, architecture, keys, tensors):
    """The shapes of further tensors that a loader reads."""
    found = {}
    for name in loader.listed(architecture):
        if name in tensors:
            continue
        shape = [1]
        for _ in range(2):
            loader.write(path, architecture, keys, tensors | {name: shape})
            loaded, said = loader.loads(path)
            wrong = re.search(rf"tensor '{re.escape(name)}' has wrong shape; expected ([\d, ]+)", said)
            if loaded:
                found[name] = shape
            if loaded or not wrong:
                break
            shape = loader.trimmed([int(length) for length in wrong[1].split(",") if length.strip()])
    return found


def named(lengths, keys):
    """The name of a length that has these values for these keys."""
    for name in ["vocab", *loader.NAMES]:
        if name not in CONDITIONS and [loader.number(name, numbers, 1) for numbers in keys] == lengths:
            return name
    return str(lengths[0]) if len(set(lengths)) == 1 else "?"


CONDITIONS = {
    name for (block, *_), rest in lines.blocks("llama.cpp/numbers.txt") if block in ("conditions", "checks") for name, *_ in rest
}


def row(kind, name, shapes, keys, layers):
    """A line about a kind of tensor."""
    if any(len(shape) != len(shapes[0]) for shape in shapes):
        return f"{kind} {name} ?"
    sizes = [named(list(lengths), keys) for lengths in zip(*shapes, strict=True)]
    here = "" if len(layers) in (0, loader.LAYERS) else " # layers " + " ".join(map(str, layers))
    return " ".join([kind, name, *sizes]) + here


def block(path, architecture):
    """What llama.cpp loads of an architecture, or why no file is loaded."""
    for more in BASES:
        first = file_of(path, architecture, loader.KEYS | more)
        if first is None:
            continue
        # Most loaders require values as wide as keys; others show which of both a length follows.
        for other in (SECOND | {"attention.value_length": 20}, SECOND):
            keys = {key: other.get(key, value) for key, value in (loader.KEYS | more).items()}
            if second := file_of(path, architecture, keys):
                return architecture, rows_of(path, architecture, first, second)
    return f"{architecture} none", []


def file_of(path, architecture, keys):
    """The keys, the required and the further tensors of a file with these keys; None if it is not loaded."""
    tensors = {}
    if grow(path, architecture, keys, tensors):
        return None
    return keys, tensors, optional(path, architecture, keys, tensors)


def rows_of(path, architecture, first_file, second_file):
    """The lines about an architecture, from files with two sets of keys."""
    (first, required, further), (second, *others) = first_file, second_file
    rows = []
    for kind, names, other in (("must", required, others[0]), ("may", further, others[1])):
        patterns = {}
        for name in names:
            if name in other:
                pattern = re.sub(r"(blk)\.\d+", r"\1.{n}", name)
                patterns.setdefault(pattern, []).append(name)
        for pattern, same in patterns.items():
            layers = [int(name.split(".")[1]) for name in same if kind == "must" and name.startswith("blk.")]
            rows.append(row(kind, pattern, [names[same[-1]], other[same[-1]]], [first, second], layers))
    needed = []
    for key in first:
        loader.write(path, architecture, loader.without(first, key), required)
        loaded, said = loader.loads(path)
        if not loaded and f"key not found in model: {architecture}.{key}" in said:
            needed.append(f"key {key}")
    usual = ["key context_length", "key embedding_length", "key block_count"]
    return [key for key in needed if key not in usual] + rows


if __name__ == "__main__":
    match = re.compile(sys.argv[sys.argv.index("--match") + 1] if "--match" in sys.argv else "")
    have = {name for (names, *_), _ in lines.blocks("llama.cpp/graphs.txt") for name in names.split(",")}
    wanted = sorted(name for name in gguf.MODEL_ARCH_NAMES.values() if name not in have and match.search(name))
    with tempfile.TemporaryDirectory() as folder:
        content = [block(Path(folder) / "model.gguf", name) for name in wanted]
    if "--match" in sys.argv:
        sys.exit("\n".join(line for first, rest in content for line in [first, *rest]))
    files = lines.Files()
    version = f"llama.cpp {loader.llama_cpp.__version__} (llama-cpp-python)"
    about = (
        "Architectures that graphs.txt does not have, as the loader asked for their keys and tensors. `?` is a length that numbers.txt "
        "has no name for; a tensor that some of the four layers have names them; `none` is an architecture that the keys of loader.py "
        "do not suit."
    )
    files.put("llama.cpp/extracted.txt", version, about, content)
    files.finish()
