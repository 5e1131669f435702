"""Compares `weighbridge verify --strict` with what llama.cpp does when it loads the same file.

    loaded.py PROGRAM [--match REGEX]

The models are those of the folder logits in WEIGHBRIDGE_FIXTURES, or those of the folder that WEIGHBRIDGE_MODELS names; without
either nothing is done. Each is converted to GGUF. Of each file, changed copies are made:
without one of its tensors (one copy for each kind of tensor), with a tensor too many, with another length of an axis, without
one of its keys. llama.cpp loads each copy in a process of its own, since it may abort, and computes one token. The exit status is
1 if llama.cpp and the program disagree about any copy: the tables in engines/llama.cpp are wrong then.

It needs llama-cpp-python.
"""

import os
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import llama_cpp

PROGRAM = sys.argv[1]
FIXTURES, MADE = os.environ.get("WEIGHBRIDGE_FIXTURES"), os.environ.get("WEIGHBRIDGE_MODELS")
if FIXTURES is None and MADE is None:
    sys.exit(print("skipped: loaded.py needs WEIGHBRIDGE_FIXTURES or WEIGHBRIDGE_MODELS"))
MODELS = Path(MADE) if MADE else Path(FIXTURES) / "logits"
MATCH = re.compile(sys.argv[sys.argv.index("--match") + 1] if "--match" in sys.argv else "")
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


class Gguf:
    """Keys and tensors of a GGUF file, as bytes. All tensors are F32."""

    def __init__(self, path):
        data = Path(path).read_bytes()
        tensors, keys = struct.unpack_from("<QQ", data, 8)
        self.at, self.data = 24, data
        self.keys, self.tensors = {}, {}
        for _ in range(keys):
            name, start = self.text(), self.at
            self.skip(self.number("<I"))
            self.keys[name] = data[start : self.at]
        places = []
        for _ in range(tensors):
            name = self.text()
            shape = [self.number("<Q") for _ in range(self.number("<I"))]
            code, offset = self.number("<I"), self.number("<Q")
            assert code == 0, f"{name} is not F32"
            places.append((name, shape, offset))
        base = -(-self.at // 32) * 32
        for name, shape, offset in places:
            size = 4
            for length in shape:
                size *= length
            self.tensors[name] = (shape, data[base + offset : base + offset + size])

    def number(self, form):
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def text(self):
        size = self.number("<Q")
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def skip(self, kind):
        if kind == 8:
            self.text()
        elif kind == 9:
            inner, count = self.number("<I"), self.number("<Q")
            for _ in range(count):
                self.skip(inner)
        else:
            self.at += SIZES[kind]

    def write(self, path):
        head = b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.keys))
        for name, value in self.keys.items():
            head += text(name) + value
        body = b""
        for name, (shape, data) in self.tensors.items():
            head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(body))
            body += data + bytes(-len(data) % 32)
        Path(path).write_bytes(head + bytes(-len(head) % 32) + body)


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def u32(value):
    return struct.pack("<II", 4, value)


def without(map_, name):
    return {key: value for key, value in map_.items() if key != name}


def changes(file):
    """Names of changes, each with the keys and tensors of the changed file."""
    yield "unchanged", file.keys, file.tensors
    seen = set()
    for name, (shape, data) in file.tensors.items():
        kind = re.sub(r"\d+", "N", name)
        # The last layer of each kind: the first ones may differ.
        if kind in seen:
            continue
        seen.add(kind)
        yield f"without {name}", file.keys, without(file.tensors, name)
        taller = [*shape[:-1], shape[-1] + 1]
        more = data + data[: len(data) // shape[-1]]
        yield f"{name} with a row more", file.keys, {**file.tensors, name: (taller, more)}
        if name.endswith(".weight"):
            bias = name[: -len("weight")] + "bias"
            if bias not in file.tensors and len(shape) == 2:
                yield f"with {bias}", file.keys, {**file.tensors, bias: ([shape[1]], bytes(4 * shape[1]))}
    norm = {"blk.0.unheard_of.weight": ([1], bytes(4))}
    yield "with a tensor of no graph", file.keys, {**file.tensors, **norm}
    if "output.weight" not in file.tensors:
        tied = {"output.weight": file.tensors["token_embd.weight"]}
        yield "with output.weight", file.keys, {**file.tensors, **tied}
    architecture = file.keys["general.architecture"][12:].decode()
    for name in file.keys:
        if name.startswith(architecture + ".") and not name.endswith(".vocab_size"):
            yield f"without {name}", without(file.keys, name), file.tensors


def encode(model):
    """Computes the encoder's output, and then a token of the decoder if there is one."""
    tokens = (llama_cpp.llama_token * 3)(1, 2, 3)
    if llama_cpp.llama_encode(model.ctx, llama_cpp.llama_batch_get_one(tokens, 3)):
        raise RuntimeError("llama_encode failed")
    if llama_cpp.llama_model_has_decoder(model.model):
        first = (llama_cpp.llama_token * 1)(0)
        if llama_cpp.llama_decode(model.ctx, llama_cpp.llama_batch_get_one(first, 1)):
            raise RuntimeError("llama_decode failed")


def loads(path):
    """Whether llama.cpp loads a file and computes a token, in a process of its own; and its last words."""
    with tempfile.TemporaryFile() as log:
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for stream in (1, 2):
                os.dup2(log.fileno(), stream)
            try:
                model = llama_cpp.Llama(
                    str(path), n_ctx=32, verbose=True, n_threads=1, type_k=0, type_v=0, flash_attn=False
                )
                if llama_cpp.llama_model_has_encoder(model.model):
                    encode(model)
                else:
                    model.eval([1, 2, 3])
            except BaseException as error:
                print(repr(error), flush=True)
                os._exit(1)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        log.seek(0)
        words = log.read().decode(errors="replace").strip().splitlines()[-3:]
    return status == 0, f"status {status}: {' | '.join(words)[-400:]}"


def says(path):
    done = subprocess.run([PROGRAM, "verify", "--strict", path], capture_output=True, text=True)
    return done.returncode == 0, (done.stdout + done.stderr).strip()


checked, faults = 0, 0
for model in sorted(MODELS.iterdir()):
    if not (model / "model.safetensors").is_file() or not MATCH.search(model.name):
        continue
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        done = subprocess.run(
            [PROGRAM, "convert", model, path, "--to", "gguf", "--dtype", "F32", "--no-extra-keys"],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            print(f"not converted: {model.name}: {done.stderr.strip().splitlines()[-1][:200]}")
            continue
        file = Gguf(path)
        architecture = file.keys["general.architecture"][12:].decode()
        if architecture in ("bert", "jina-bert-v2", "modern-bert", "nomic-bert", "nomic-bert-moe", "whisper"):
            continue
        # These models have no tokenizer, which llama.cpp must be told.
        file.keys["tokenizer.ggml.model"] = struct.pack("<I", 8) + text("no_vocab")
        rows = file.tensors["token_embd.weight"][0][1]
        file.keys[f"{architecture}.vocab_size"] = u32(rows)
        whole = dict(file.keys), dict(file.tensors)
        for what, keys, tensors in changes(file):
            file.keys, file.tensors = keys, tensors
            file.write(path)
            (theirs, words), (ours, why) = loads(path), says(path)
            if what == "unchanged" and not theirs and ours:
                print(f"llama.cpp: {words}")
            checked += 1
            # Loaded, but computed without the gate that the model has.
            ungated = what.endswith("ffn_gate_exps.weight") and theirs
            if theirs != ours and not ungated:
                faults += 1
                said = "loads it" if theirs else "does not load it"
                print(f"FAIL {model.name} {what}: llama.cpp {said}; verify --strict: {why[-300:]}")
            file.keys, file.tensors = whole
print(f"{checked} files compared with llama.cpp, {faults} disagreements")
sys.exit(1 if faults or not checked else 0)
