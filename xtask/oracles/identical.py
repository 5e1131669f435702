"""Compares what weighbridge writes with what llama.cpp's converter, llama-quantize and mlx_lm.convert write, byte by byte.

    identical.py PROGRAM [--llama-cpp PATH] [--models FOLDER] [--match REGEX] [--peers NAMES] [--keep FOLDER]

PATH is llama.cpp's tree, or the source archive of llama-cpp-python 0.3.36, which contains it, or a folder with that archive. --peers is any of converter,
mmproj, quantize, mlx-lm, separated by commas; by default all. The models are those of WEIGHBRIDGE_FIXTURES (hf, logits), those in
each FOLDER, a directory each, and assets/sample. --keep stores the files of both programs where they differ.

- converter: `convert --no-extra-keys` beside convert_hf_to_gguf.py, in the dtype of the original and in F16;
- mmproj: `convert --mmproj` beside convert_hf_to_gguf.py --mmproj, of models with images, in the same dtypes;
- quantize: `quantize --no-extra-keys` beside llama.cpp's llama_model_quantize, which llama-quantize calls, for every file type;
- mlx-lm: `convert --to mlx` and `quantize --mlx` (4 bits, 8 bits, mxfp4) beside mlx_lm.convert.

Both read a folder named "model", since the converter guesses keys from a folder's name. Its step that writes the vocabulary is
skipped for models without tokenizer.json. Where a model has one, the
converter's table of hashes, which cannot have the tokenizers of tiny models, returns what weighbridge wrote as
tokenizer.ggml.pre. Of MLX directories, the arrays are compared, and each key of config.json that mlx-lm wrote.

The last lines are a table: model, peer, what was compared, and the result: "identical", what differs, or why there is nothing to
compare. The exit status is 1 if anything differs that EXPLAINED does not list.
"""

import argparse
import contextlib
import ctypes
import io
import json
import logging
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import warnings
from pathlib import Path

import numpy as np

warnings.filterwarnings("ignore")
ROOT = Path(__file__).resolve().parents[2]

# Differences that are meant: a model, a peer, the difference without details, and the reason.
VOCABULARY = "the converter writes it with the vocabulary, a step that is skipped here"
OUTPUT = "llama.cpp does not load the model without it"
EXPLAINED = [
    (r"bert.*|xlm-roberta|nomic_bert.*|jina-v2.*", "converter", r"keys added: tokenizer.ggml.token_type_count", VOCABULARY),
    (r"gpt_oss|olmo3|olmoe|qwen2_moe", "converter", r"tensors added: output.weight", OUTPUT),
    (r"olmo3", "converter", r"keys missing: olmo2.rope.freq_base_swa; tensors added: output.weight", OUTPUT
        + "; the key has the value of rope.freq_base, which llama.cpp takes if it is missing"),
    (r"deepseek_v2-lite", "converter", r"keys added: deepseek2.attention.q_lora_rank",
        "llama.cpp requires it unless the model has 26, 27 or 48 layers"),
    (r"falcon-new", "converter", r"keys changed: falcon.feed_forward_length.*", "llama.cpp does not load a model with the converter's 4 x width"),
    (r"deepseek_v3-bias", "converter", r"keys added: deepseek2.expert_gating_func",
        "without it, llama.cpp takes softmax for the sigmoid that transformers' class has"),
    (r"ernie4_5_moe", "converter", r"keys changed: ernie4_5-moe.expert_shared_feed_forward_length is 32, the peer has 48; tensors in another order.*",
        "the converter divides the width by the number of key heads; it stacks gates before downs"),
    (r"glm4_moe|lfm2_moe|mamba", "converter", r"keys in another order from [^;]*", "all keys have the converter's values"),
    (r"apertus", "converter", r"keys in another order from general.type on, where the peer has xielu.alpha_n; tensors changed: bytes of rope_freqs.weight",
        "the converter writes these keys before all others; torch's powers of F32 differ in the last bit between processors"),
    (r"mamba2", "mlx-lm", r"config missing: max_position_embeddings, num_attention_heads; config changed: intermediate_size is 128, .*",
        "keys that the class does not have, and a width that is not that of the tensors; the limit is a number as mlx-lm's class declares it"),
    (r"qwen3_vl_moe", "converter", r"tensors changed: blk.0.ffn_down_exps.weight \(24, 64, 4\).*",
        "the converter takes the experts for transposed; llama.cpp does not load its file"),
    (r"phi", "converter", r"keys missing: tokenizer.ggml.add_bos_token; keys changed: phi2.feed_forward_length is 96, the peer has 256",
        "the key belongs to the vocabulary, which is absent; the converter takes 4 x the width of the model for every file"),
    (r"phi3-longrope", "converter", r"keys in another order from general.type on, where the peer has phi3.rope.scaling.attn_factor",
        "the converter writes this key before all others"),
    (r"qwen3_5(_moe)?_text", "converter", r"keys changed: qwen35(moe)?.rope.dimension_sections is 2, 1, 1, 0, the peer has 11, 11, 10, 0",
        "llama.cpp aborts where sections are wider than a head"),
    (r"qwen3_next", "converter", r"keys changed: qwen3next.full_attention_interval is 2, the peer has 4",
        "transformers' class, through which the converter reads config.json, drops the key"),
    (r"llava-pixtral|mistral3", "mmproj", r"tensors added: v.token_embd.img_break", "llama.cpp does not load the file without it"),
    (r"qwen3_5", "mlx-lm", r"arrays added: model\.visual\.[^;]*; config changed: text_config.*",
        "mlx-lm drops the vision model, and renames rope_type in its config while it loads the model"),
    (r".*", "mlx-lm", r"arrays added: (model\.)?(visual|vision_tower|multi_modal_projector)\.[^;]*", "mlx-lm drops the vision model"),
    (r"granitemoehybrid.*", "converter", r"keys (changed|added): granite.*tensors changed: .*attn_k.weight.*",
        "the converter looks for layers of type attention, which transformers 5 calls full_attention: it writes no key heads for"
        " them and leaves their rows as they are"),
    (r"gemma4", "converter", r"keys added: gemma4.final_logit_softcapping", "llama.cpp takes 30 if it is missing; the model has none"),
    (r"gemma4", "mmproj", r"tensors changed: (bytes of a\.blk\.\d+\.per_dim_scale\.weight(, )?)+",
        "torch's softplus of F32 differs in the last bit between processors"),
    (r"llama4", "mmproj", r"tensors added: v.blk.0.ln2.bias.*; tensors missing: v.blk.0.attn_post_norm.bias.*",
        "the converter's name is that of another norm, which llama.cpp applies elsewhere and without its bias"),
    (r"minicpm3.*", "converter", r"keys added: minicpm3.attention.value_length", "llama.cpp takes another width if it is missing"),
]


def program(*words):
    done = subprocess.run([OPTIONS.program, *map(str, words)], capture_output=True, text=True)
    return done.returncode, (done.stderr.strip() or done.stdout.strip())


class Refused(Exception):
    """Weighbridge does not write this."""


class Incapable(Exception):
    """The peer does not write this."""

    def __init__(self, error):
        words = str(error) if isinstance(error, str) else f"{type(error).__name__}: {error}"
        super().__init__(" ".join(words.split())[:160])


def ours(*words):
    status, said = program(*words)
    if status:
        raise Refused(f"({status}) {said.splitlines()[0] if said else ''}")


# Comparing GGUF files.

SCALARS = {0: "B", 1: "b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "?", 10: "<Q", 11: "<q", 12: "<d"}


class Gguf:
    """Keys in order, with their bytes; tensors in order, with dimensions, type and bytes."""

    def __init__(self, path):
        self.data, self.at = Path(path).read_bytes(), 8
        tensors, keys = self.number("<Q"), self.number("<Q")
        self.keys, self.tensors = {}, {}
        for _ in range(keys):
            name = self.text()
            start = self.at
            shown = self.value(self.number("<I"))
            self.keys[name] = (self.data[start : self.at], shown)
        places = []
        for _ in range(tensors):
            name = self.text()
            shape = tuple(self.number("<Q") for _ in range(self.number("<I")))
            places.append((name, shape, self.number("<I"), self.number("<Q")))
        base = -(-self.at // 32) * 32
        ends = sorted([place[3] for place in places] + [len(self.data) - base])
        for name, shape, code, offset in places:
            end = next((end for end in ends if end > offset), offset)
            self.tensors[name] = (shape, code, self.data[base + offset : base + end])

    def number(self, form):
        value = np.frombuffer(self.data, form, 1, self.at)[0]
        self.at += value.nbytes
        return value.item()

    def text(self):
        size = self.number("<Q")
        self.at += size
        return self.data[self.at - size : self.at].decode(errors="replace")

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            inner, count = self.number("<I"), self.number("<Q")
            return [self.value(inner) for _ in range(count)]
        return self.number(SCALARS[kind])


def listed(names, most=4):
    names = list(names)
    return ", ".join(map(str, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")


def unlike(kind, mine, theirs, same):
    """What differs between two ordered tables."""
    found = []
    if extra := [name for name in mine if name not in theirs]:
        found.append(f"{kind} added: {listed(extra)}")
    if missing := [name for name in theirs if name not in mine]:
        found.append(f"{kind} missing: {listed(missing)}")
    common = [name for name in mine if name in theirs]
    if changed := [same(name, mine[name], theirs[name]) for name in common if mine[name] != theirs[name]]:
        found.append(f"{kind} changed: {listed(changed)}")
    if not found and list(mine) != list(theirs):
        at = next(n for n, pair in enumerate(zip(mine, theirs)) if pair[0] != pair[1])
        found.append(f"{kind} in another order from {list(mine)[at]} on, where the peer has {list(theirs)[at]}")
    return found


def compare_gguf(mine, theirs):
    if Path(mine).read_bytes() == Path(theirs).read_bytes():
        return "identical"
    a, b = Gguf(mine), Gguf(theirs)

    def key(name, x, y):
        shown = f"{name} is {listed(x[1]) if isinstance(x[1], list) else x[1]}, the peer has {listed(y[1]) if isinstance(y[1], list) else y[1]}"
        return shown if x[1] != y[1] else f"{name} has another value type"

    def tensor(name, x, y):
        return f"{name} {x[0]} of type {x[1]}, the peer has {y[0]} of type {y[1]}" if x[:2] != y[:2] else f"bytes of {name}"

    found = unlike("keys", a.keys, b.keys, key) + unlike("tensors", a.tensors, b.tensors, tensor)
    return "; ".join(found) or "padding only"


# llama.cpp's converter.


def tree(path):
    """llama.cpp's folder, unpacked from the source archive of llama-cpp-python if need be."""
    if path.is_dir() and not (path / "conversion").is_dir():
        path = next(path.glob("llama_cpp_python-*.tar.gz"), path)
    if path.is_file():
        unpacked = path.parent / "llama.cpp"
        if not (unpacked / "conversion").is_dir():
            with tarfile.open(path) as archive:
                for member in archive:
                    _, _, name = member.name.partition("/vendor/llama.cpp/")
                    if name.startswith(("conversion/", "gguf-py/gguf/")) and member.isfile():
                        target = unpacked / name
                        target.parent.mkdir(parents=True, exist_ok=True)
                        target.write_bytes(archive.extractfile(member).read())
        path = unpacked
    return path


class Converter:
    """convert_hf_to_gguf.py of one tree, run in this process."""

    def __init__(self, folder):
        sys.path.insert(0, str(folder))
        import conversion
        import gguf
        import torch

        logging.disable(logging.WARNING)
        self.conversion, self.gguf, self.torch = conversion, gguf, torch
        loaded = conversion.ModelBase.load_hparams

        def load(dir_model, is_mistral_format):
            config = json.loads((dir_model / "config.json").read_text())
            # A published config of the class on the hub. That of transformers, of the same name, has other keys and drops these.
            raw = config.get("model_type") == "nomic_bert" and "n_embd" in config
            return config if raw else loaded(dir_model, is_mistral_format)

        conversion.ModelBase.load_hparams = staticmethod(load)

    def write(self, model, target, outtype, mmproj, pre="default"):
        """Writes a GGUF file as the script does with --outtype, and with --mmproj if it is set."""
        has_tokenizer = (model / "tokenizer.json").exists() or (model / "spiece.model").exists()
        with tempfile.TemporaryDirectory() as room:
            folder = linked(model, Path(room))
            if not has_tokenizer and not mmproj:
                # Some classes cut the embedding at the number of tokens.
                config = json.loads((model / "config.json").read_text())
                config = {**config, **config.get("text_config", {})}
                numbers = {str(number): number for number in range(config.get("vocab_size", 0))}
                (folder / "tokenizer.json").write_text(json.dumps({"model": {"type": "WordPiece", "vocab": numbers}, "added_tokens": []}))
            self.write_linked(folder, target, outtype, mmproj, pre, has_tokenizer)

    def write_linked(self, model, target, outtype, mmproj, pre, has_tokenizer):
        base, gguf = self.conversion, self.gguf
        kind = base.ModelType.MMPROJ if mmproj else base.ModelType.TEXT
        try:
            hparams = base.ModelBase.load_hparams(model, False)
            architecture = base.get_model_architecture(hparams, kind)
            class_ = base.get_model_class(architecture, mmproj=mmproj)
        except (NotImplementedError, ValueError, KeyError) as error:
            raise Incapable(error) from error

        types = {"F32": "ALL_F32", "F16": "MOSTLY_F16", "BF16": "MOSTLY_BF16", "Q8_0": "MOSTLY_Q8_0"}
        try:
            with self.torch.inference_mode(), contextlib.redirect_stderr(io.StringIO()):
                dtype = getattr(gguf.LlamaFileType, types[outtype])
                try:
                    instance = class_(model, dtype, target)
                except AssertionError:
                    # Some classes must be told that the files lack layers that predict further tokens (--no-mtp).
                    class_.no_mtp = True
                    instance = class_(model, dtype, target)
                for part in (instance, getattr(instance, "impl", instance)):
                    part.get_vocab_base_pre = lambda _: pre
                    if not has_tokenizer and not mmproj:
                        part.set_vocab = lambda: None
                instance.write()
        except (Exception, SystemExit) as error:
            raise Incapable(error) from error


def linked(model, room):
    """A folder with links to the files of a model, under a name from which nothing is guessed."""
    folder = room / "model"
    folder.mkdir()
    for path in model.iterdir():
        if path.name not in ("logits.safetensors", "expected.json", "config.transformers4.json"):
            (folder / path.name).symlink_to(path.resolve())
    return folder


def dtype_of(model):
    """The dtype of the first matrix."""
    from safetensors import safe_open

    for path in sorted(model.glob("*.safetensors")):
        with safe_open(path, framework="np") as file:
            for name in file.keys():
                part = file.get_slice(name)
                if len(part.get_shape()) > 1:
                    return part.get_dtype()
    return None


def pre_of(path):
    status, said = program("meta", "get", path, "tokenizer.ggml.pre")
    return said.split()[-1].strip('"') if status == 0 else "default"


def by_converter(model, folder, converter, mmproj):
    own = dtype_of(model)
    source = linked(model, folder)
    for dtype in dict.fromkeys([own if own in ("F32", "F16", "BF16") else "BF16", "F16"]):
        mine, theirs = folder / f"ours-{dtype}.gguf", folder / f"peer-{dtype}.gguf"
        words = ["convert", source, mine, "--to", "gguf", "--no-extra-keys", "--allow-incomplete"]
        words += [] if dtype == own else ["--dtype", dtype]
        if mmproj:
            words.append("--mmproj")

        def compare():
            pre = "default"
            if not mmproj:
                ours(*words)
                pre = pre_of(mine)
            converter.write(model, theirs, dtype, mmproj, pre)
            if mmproj:
                ours(*words)
            return compare_gguf(mine, theirs)

        yield dtype, compare


# llama-quantize.


def by_quantize(model, folder):
    sys.path = [path for path in sys.path if Path(path).resolve() != Path(__file__).parent]
    import llama_cpp

    silent = llama_cpp.llama_log_callback(lambda *_: None)
    llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
    source = folder / "source.gguf"
    if model.suffix == ".gguf":
        source = model
    else:
        ours("convert", model, source, "--to", "gguf", "--no-extra-keys")
    imatrix = Path(FIXTURES or "") / "gguf" / "misc" / "imatrix.gguf"
    own = FIXTURES and model.name == "llama-f16.gguf"
    listing = subprocess.run([OPTIONS.program, "list", "types", "--json"], capture_output=True, text=True)
    for row in json.loads(listing.stdout)["rows"]:
        name, needs = row["name"], row["needs_imatrix"]
        number = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{name}", getattr(llama_cpp, f"LLAMA_FTYPE_ALL_{name}", None))
        if number is None or (needs and not own):
            continue
        for measured in (True,) if needs else (False, True) if own and name in ("Q4_K_M", "IQ3_S", "Q4_0") else (False,):

            def compare(name=name, number=number, measured=measured):
                label = name + "-imatrix" * measured
                mine, theirs = folder / f"ours-{label}.gguf", folder / f"peer-{label}.gguf"
                params = llama_cpp.llama_model_quantize_default_params()
                params.ftype, params.nthread, params.allow_requantize = number, 1, True
                keep = with_imatrix(llama_cpp, params, imatrix) if measured else None
                if llama_cpp.llama_model_quantize(str(source).encode(), str(theirs).encode(), ctypes.byref(params)):
                    raise Incapable("llama_model_quantize failed")
                del keep
                words = ["quantize", source, mine, "--type", name, "--no-extra-keys", "--allow-requantize"]
                ours(*words, *(["--imatrix", imatrix] if measured else []))
                # llama-quantize itself, and not the function, records the matrix in these keys.
                for key in ("file", "dataset", "entries_count", "chunks_count") if measured else ():
                    program("meta", "rm", mine, f"quantize.imatrix.{key}")
                return compare_gguf(mine, theirs)

            yield name + (" with imatrix" if measured else ""), compare


def with_imatrix(llama_cpp, params, path):
    """Sets the importance matrix as llama-quantize does: the mean of squares of each column."""
    import gguf

    found = {tensor.name: np.array(tensor.data) for tensor in gguf.GGUFReader(path).tensors}
    names = [name[: -len(".in_sum2")] for name in found if name.endswith(".in_sum2")]
    rows, kept = [], []
    for name in sorted(names):
        values = (found[f"{name}.in_sum2"] / found[f"{name}.counts"]).astype(np.float32).ravel()
        kept.append((name.encode(), values))
        data = values.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        rows.append(llama_cpp.llama_model_imatrix_data(kept[-1][0], data, values.size))
    rows.append(llama_cpp.llama_model_imatrix_data(None, None, 0))
    table = (llama_cpp.llama_model_imatrix_data * len(rows))(*rows)
    params.imatrix = table
    return table, kept


# mlx-lm.


def by_mlx_lm(model, folder):
    import mlx.core as mx
    from mlx.utils import tree_map_with_path
    from mlx_lm import utils

    mx.set_default_device(mx.cpu)

    def write(target, quantization):
        """mlx_lm.convert without the tokenizer."""
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                class_, config = utils.load_model(model, lazy=True)
                dtype = config.get("torch_dtype") or config.get("text_config", {}).get("dtype")
                if dtype in ("float16", "bfloat16", "float32"):
                    uncast = getattr(class_, "cast_predicate", lambda _: True)

                    def cast(path, array):
                        fits = uncast(path) and mx.issubdtype(array.dtype, mx.floating)
                        return array.astype(getattr(mx, dtype)) if fits else array

                    class_.update(tree_map_with_path(cast, class_.parameters()))
                if quantization:
                    class_, config = utils.quantize_model(class_, config, None, quantization[0], mode=quantization[1])
                keeps = "vision_tower" in getattr(class_, "model", {})
                utils.save_model(target, class_)
                utils.save_config(config, target / "config.json", keep_vision_config=keeps)
        except (Exception, SystemExit) as error:
            raise Incapable(error) from error

    ways = {"plain": None, "4 bits": (4, "affine"), "8 bits": (8, "affine"), "mxfp4": (4, "mxfp4")}
    for name, quantization in ways.items():

        def compare(name=name, quantization=quantization):
            mine, theirs = folder / f"ours-{name.split()[0]}", folder / f"peer-{name.split()[0]}"
            write(theirs, quantization)
            if quantization:
                bits, mode = quantization
                ours("quantize", model, mine, "--mlx", str(bits) if mode == "affine" else f"{bits},32,{mode}", "--allow-incomplete")
            else:
                ours("convert", model, mine, "--to", "mlx", "--allow-incomplete")
            return compare_mlx(mx, mine, theirs)

        yield name, compare


def restricted(mine, theirs):
    """A document without the keys that the other one lacks."""
    if not isinstance(mine, dict) or not isinstance(theirs, dict):
        return mine
    return {key: restricted(mine[key], value) for key, value in theirs.items() if key in mine}


def compare_mlx(mx, mine, theirs):
    def arrays(folder):
        found = {}
        for path in sorted(folder.glob("model*.safetensors")):
            found.update(mx.load(str(path)))
        return {name: (str(array.dtype), tuple(array.shape), bytes(np.array(array.view(mx.uint8)))) for name, array in sorted(found.items())}

    def array(name, x, y):
        return f"{name} {x[0]} {list(x[1])}, the peer has {y[0]} {list(y[1])}" if x[:2] != y[:2] else f"bytes of {name}"

    found = unlike("arrays", arrays(mine), arrays(theirs), array)
    a, b = (json.loads((folder / "config.json").read_text()) for folder in (mine, theirs))
    known = restricted(a, b)
    same = lambda name, x, y: f"{name} is {json.dumps(x)[:60]}, the peer has {json.dumps(y)[:60]}"  # noqa: E731
    found += unlike("config", dict(sorted(known.items())), dict(sorted(b.items())), same)
    return "; ".join(found) or "identical"


# Everything.


def models():
    sources = [ROOT / "assets" / "sample" / "hf"]
    # Not models: arrays of one layer, and a cache.
    others = ("deepseek-fp8-block128", "hub-cache")
    folders = [Path(FIXTURES) / "hf", Path(FIXTURES) / "logits"] if FIXTURES else []
    for folder in folders + OPTIONS.models:
        sources += sorted(folder.iterdir())
    for path in sources:
        if path.name not in others and (path / "config.json").is_file() and any(path.glob("*.safetensors")):
            yield path


def quantized_models():
    if FIXTURES:
        for name in ("llama-f16", "mixtral-bf16", "qwen2-f16"):
            yield Path(FIXTURES) / "gguf" / "model" / f"{name}.gguf"
    yield ROOT / "assets" / "sample" / "hf"


def run(rows, name, peer, ways):
    try:
        for what, compare in ways:
            try:
                result = compare()
            except Refused as refused:
                result = f"refused: {refused}"
            except Incapable as incapable:
                result = f"the peer cannot: {incapable}"
            rows.append((name, peer, what, result))
            print(" | ".join(rows[-1]), flush=True)
    except Refused as refused:
        rows.append((name, peer, "", f"refused: {refused}"))
        print(" | ".join(rows[-1]), flush=True)


def explained(row):
    name, peer, _, result = row
    fits = (why for model, of, part, why in EXPLAINED if re.fullmatch(model, name) and of == peer and re.fullmatch(part, result))
    return next(fits, None)


def main():
    peers = OPTIONS.peers.split(",")
    converter = Converter(tree(OPTIONS.llama_cpp)) if {"converter", "mmproj"} & set(peers) else None
    rows = []

    def within(name, peer, ways):
        if not re.search(OPTIONS.match, name):
            return
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            if OPTIONS.keep:
                folder = OPTIONS.keep / peer / name
                folder.mkdir(parents=True, exist_ok=True)
            run(rows, name, peer, ways(folder))

    for model in models():
        has_images = any(key in json.loads((model / "config.json").read_text()) for key in ("vision_config", "audio_config"))
        if "converter" in peers:
            within(model.name, "converter", lambda folder: by_converter(model, folder, converter, False))
        if "mmproj" in peers and has_images:
            within(model.name, "mmproj", lambda folder: by_converter(model, folder, converter, True))
        if "mlx-lm" in peers:
            within(model.name, "mlx-lm", lambda folder: by_mlx_lm(model, folder))
    for model in quantized_models() if "quantize" in peers else ():
        within(model.name, "quantize", lambda folder: by_quantize(model, folder))
    faults = 0
    print("\nmodel | peer | compared | result\n--- | --- | --- | ---")
    for row in rows:
        if row[3] == "identical" or row[3].startswith("the peer cannot"):
            why = ""
        else:
            why = explained(row)
            faults += why is None
            why = f" ({why})" if why else " (NOT EXPLAINED)"
        print(" | ".join(row) + why)
    for peer in dict.fromkeys(row[1] for row in rows):
        results = [row[3] for row in rows if row[1] == peer]
        cannot = sum(result.startswith("the peer cannot") for result in results)
        print(f"{peer}: {results.count('identical')} of {len(results) - cannot} identical, {cannot} that the peer cannot write")
    print(f"{faults} differences without an explanation")
    sys.exit(1 if faults or not rows else 0)


parser = argparse.ArgumentParser()
parser.add_argument("program")
parser.add_argument("--llama-cpp", type=Path, default=ROOT / "target" / "oracles" / "source")
parser.add_argument("--models", type=Path, action="append", default=[])
parser.add_argument("--match", default="")
parser.add_argument("--peers", default="converter,mmproj,quantize,mlx-lm")
parser.add_argument("--keep", type=Path)
OPTIONS = parser.parse_args()
FIXTURES = os.environ.get("WEIGHBRIDGE_FIXTURES")
main()
